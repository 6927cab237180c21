//! The licences of all crates whose code is in the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::program::Source;
use super::tools::Tools;
use crate::metadata::{Dependency, Metadata, Package};

/// How the names of files with licences begin, in upper case.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Code that is no crate.
const OTHERS: &str = "\
The program also has code of Rust's standard library (MIT OR Apache-2.0). A static program has code of musl (MIT, Copyright
2005-2020 Rich Felker, et al.) or of glibc (LGPL-2.1-or-later, whose sources each distribution of Linux has).
";

/// Returns the list of crates with their licences, and the text of each licence once.
///
/// # Errors
/// Cargo does not list the crates, or a file cannot be read.
pub(super) fn text(source: &Source, tools: &Tools, triple: &str) -> Result<String> {
    let metadata = Metadata::read(&mut source.cargo(tools), triple)?;
    let used = used_by(&metadata, "skye");
    let mut list = String::from("skye has code of these crates:\n\n");
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut foreign: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some() && used.contains(&package.id))
        .collect();
    foreign.sort_by_key(|package| (&package.name, &package.version));
    for package in foreign {
        let licence = package.license.as_deref().unwrap_or("no licence given");
        list += &format!("{} {}: {licence}\n", package.name, package.version);
        let directory = Path::new(&package.manifest_path).parent().unwrap_or(Path::new("/"));
        for text in files(directory)? {
            texts.entry(text).or_default().push(&package.name);
        }
    }
    list += &format!("\n{OTHERS}");
    // In the order of their first crate.
    let mut texts: Vec<_> = texts.into_iter().map(|(text, crates)| (crates, text)).collect();
    texts.sort();
    for (mut crates, text) in texts {
        crates.dedup();
        list += &format!("\n{}\nLicence of {}\n\n{}\n", "=".repeat(80), crates.join(", "), text.trim_end());
    }
    Ok(list)
}

/// Returns the crates that a package is built from, without those of its tests and of build scripts.
fn used_by(metadata: &Metadata, name: &str) -> BTreeSet<String> {
    let is_it = |package: &&Package| package.name == name && package.source.is_none();
    let mut next: Vec<&str> =
        metadata.packages.iter().filter(is_it).map(|package| package.id.as_str()).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = next.pop() {
        if used.insert(id.to_owned()) {
            let deps = metadata.resolve.nodes.iter().filter(|node| node.id == id).flat_map(|node| &node.deps);
            let is_normal =
                |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            next.extend(deps.filter(is_normal).map(|dependency| dependency.pkg.as_str()));
        }
    }
    used
}

/// Returns the texts of the licences in a crate's directory, in the order of their names.
fn files(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start)) && path.is_file()
    });
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read_to_string(path).with_context(|| format!("read {}", path.display())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_of_the_program_are_used() {
        let metadata: Metadata = serde_json::from_str(
            r#"{"workspace_members": ["1"], "packages": [
                {"id": "1", "name": "skye", "version": "1.0.0", "license": null, "source": null, "manifest_path": "/a/Cargo.toml"}
            ], "resolve": {"nodes": [
                {"id": "1", "deps": [{"pkg": "2", "dep_kinds": [{"kind": null}]}, {"pkg": "3", "dep_kinds": [{"kind": "dev"}]}]},
                {"id": "2", "deps": [{"pkg": "4", "dep_kinds": [{"kind": "build"}, {"kind": null}]}, {"pkg": "5", "dep_kinds": [{"kind": "build"}]}]},
                {"id": "4", "deps": [{"pkg": "2", "dep_kinds": [{"kind": null}]}]}
            ]}}"#,
        )
        .unwrap();
        assert_eq!(used_by(&metadata, "skye"), ["1", "2", "4"].map(String::from).into());
    }

    #[test]
    fn licences_are_found_by_their_names() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["LICENSE-MIT", "licence.md", "Cargo.toml", "COPYING"] {
            fs::write(directory.path().join(name), name).unwrap();
        }
        assert_eq!(files(directory.path()).unwrap(), ["COPYING", "LICENSE-MIT", "licence.md"]);
    }
}
