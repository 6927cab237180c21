//! Rules about the crates: the crates that each may use, and its own description.

use super::Tree;

/// Crates of the workspace that each crate may use; its directory is `crates/NAME`.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("stats", &[]),
    ("draw", &["model"]),
    ("engine", &["model"]),
    ("observe", &["model"]),
    ("run", &["engine", "observe", "stats", "model"]),
    ("judge", &["stats", "model"]),
    ("wording", &["model"]),
    ("report", &["stats", "model", "wording", "draw"]),
    ("family", &["model", "draw"]),
    ("rig", &["model"]),
    ("fleet", &["run", "model"]),
    (
        "skye",
        &[
            "model", "stats", "engine", "observe", "run", "judge", "wording", "report", "family", "rig",
            "fleet",
        ],
    ),
];

fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!name.contains('/')).then_some((name, file.text.as_str()))
    })
}

pub(super) fn check_dependencies(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, text) in manifests(tree) {
        let path = format!("crates/{name}/Cargo.toml");
        let Some((_, may_use)) = ALLOWED_DEPENDENCIES.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("{path}: the crate `{name}` is unknown to xtask"));
            continue;
        };
        let manifest: toml::Table = match text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                complaints.push(format!("{path}: {error}"));
                continue;
            }
        };
        for used in dependencies(&manifest) {
            let ours = used == "xtask" || ALLOWED_DEPENDENCIES.iter().any(|(known, _)| *known == used);
            if ours && !may_use.contains(&used.as_str()) {
                complaints.push(format!("{path}: `{name}` may not use `{used}`"));
            }
        }
    }
    complaints
}

/// Names of the crates that a crate is built from, without those that only its tests use.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(|targets| targets.values()).filter_map(toml::Value::as_table));
    let mut names = Vec::new();
    for table in tables {
        for kind in ["dependencies", "build-dependencies"] {
            let Some(found) = table.get(kind).and_then(toml::Value::as_table) else { continue };
            for (key, value) in found {
                // A manifest may rename a dependency.
                let package = value.get("package").and_then(toml::Value::as_str);
                names.push(package.unwrap_or(key).to_owned());
            }
        }
    }
    names
}

pub(super) fn invariants(tree: &Tree) -> Vec<String> {
    let names = manifests(tree).map(|(name, _)| format!("crates/{name}"));
    let mut complaints = Vec::new();
    for directory in names.chain([String::from("xtask")]) {
        let lib = format!("{directory}/src/lib.rs");
        let main = format!("{directory}/src/main.rs");
        let Some(file) = tree.get(&lib).or_else(|| tree.get(&main)) else {
            complaints.push(format!("{lib}: is missing"));
            continue;
        };
        let head: Vec<_> = file.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if head.is_empty() {
            complaints.push(format!("{}: does not begin with `//!`", file.path));
        } else if !head.iter().any(|line| line.contains("Invariants")) {
            complaints.push(format!("{}: its head has no invariants", file.path));
        }
    }
    complaints
}

pub(super) fn code_map(tree: &Tree) -> Vec<String> {
    let Some(map) = tree.get("ARCHITECTURE.md") else {
        return vec![String::from("ARCHITECTURE.md: is missing")];
    };
    let unnamed = manifests(tree).filter(|(name, _)| {
        !map.text.contains(&format!("`{name}`")) && !map.text.contains(&format!("crates/{name}"))
    });
    unnamed.map(|(name, _)| format!("ARCHITECTURE.md: does not list `{name}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;

    #[test]
    fn forbidden_dependency_is_found() {
        let sound =
            "[dependencies]\nmodel.workspace = true\nserde = \"1\"\n[dev-dependencies]\nrun.workspace = true";
        assert_eq!(check_dependencies(&tree(&[("crates/engine/Cargo.toml", sound)])), NONE);
        for crossing in [
            "[dependencies]\nobserve.workspace = true",
            "[dependencies]\neyes = { package = \"observe\", path = \"../observe\" }",
            "[build-dependencies]\nobserve.workspace = true",
            "[target.'cfg(unix)'.dependencies]\nobserve.workspace = true",
        ] {
            let complaints = check_dependencies(&tree(&[("crates/engine/Cargo.toml", crossing)]));
            assert_eq!(
                complaints,
                ["crates/engine/Cargo.toml: `engine` may not use `observe`"],
                "{crossing}"
            );
        }
        let tests_only = "[dependencies]\nxtask = { path = \"../../xtask\" }";
        assert_eq!(check_dependencies(&tree(&[("crates/run/Cargo.toml", tests_only)])).len(), 1);
        assert_eq!(check_dependencies(&tree(&[("crates/attic/Cargo.toml", "")])).len(), 1);
    }

    #[test]
    fn crate_without_invariants_is_found() {
        let xtask = ("xtask/src/lib.rs", "//! Tasks.\n//!\n//! Invariants:\n//! - none.\n");
        let manifest = ("crates/run/Cargo.toml", "");
        let library = ("crates/run/src/lib.rs", "//! Runs.\n//! Invariants:\n//! - none.\nfn x() {}\n");
        assert_eq!(invariants(&tree(&[xtask, manifest, library])), NONE);
        assert_eq!(invariants(&tree(&[xtask, manifest])).len(), 1);
        for unsaid in ["", "//! Runs.\n", "//! Runs.\nfn x() {} // Invariants\n"] {
            assert_eq!(invariants(&tree(&[xtask, manifest, ("crates/run/src/lib.rs", unsaid)])).len(), 1);
        }
    }

    #[test]
    fn crate_missing_from_code_map_is_found() {
        let manifest = ("crates/run/Cargo.toml", "");
        assert_eq!(code_map(&tree(&[manifest])).len(), 1);
        assert_eq!(code_map(&tree(&[manifest, ("ARCHITECTURE.md", "runs")])).len(), 1);
        assert_eq!(code_map(&tree(&[manifest, ("ARCHITECTURE.md", "| `run` | drives |")])), NONE);
    }
}
