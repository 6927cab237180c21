//! Rules about foreign crates: their licences and their sources, as `deny.toml` allows them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Tree;
use crate::metadata::{Metadata, Package};

/// File with the rules of cargo-deny.
const RULES: &str = "deny.toml";

/// Part of `deny.toml` that this rule checks.
#[derive(Debug, Deserialize)]
struct Deny {
    licenses: Licences,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: Vec<String>,
}

/// Checks all crates that a build for this machine has, with those of tests.
pub(super) fn licences_and_sources(tree: &Tree) -> Vec<String> {
    let Some(file) = tree.get(RULES) else { return vec![format!("{RULES}: is missing")] };
    let deny: Deny = match toml::from_str(&file.text) {
        Ok(deny) => deny,
        Err(error) => return vec![format!("{RULES}: {error}")],
    };
    match metadata(crate::root()) {
        Ok(metadata) => complaints(&deny, &metadata),
        Err(problem) => vec![format!("{problem:#}")],
    }
}

/// Returns the crates that a build for this machine has.
fn metadata(root: &Path) -> Result<Metadata> {
    let mut cargo = Command::new(crate::cargo());
    let output = cargo.arg("-vV").output().context("run cargo -vV")?;
    let version = String::from_utf8_lossy(&output.stdout);
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo -vV has no host")?;
    Metadata::read(Command::new(crate::cargo()).current_dir(root), host)
}

fn complaints(deny: &Deny, metadata: &Metadata) -> Vec<String> {
    let mut complaints: Vec<_> =
        metadata.packages.iter().flat_map(|package| package_complaints(deny, metadata, package)).collect();
    let expressions = || metadata.packages.iter().filter_map(|package| package.license.as_deref());
    for licence in &deny.licenses.allow {
        let others = |name: &str| name != licence && deny.licenses.allow.iter().any(|other| other == name);
        if expressions().all(|expression| is_satisfied(expression, &others) != Ok(false)) {
            complaints.push(format!("{RULES}: no crate needs the licence {licence}"));
        }
    }
    complaints
}

fn package_complaints(deny: &Deny, metadata: &Metadata, package: &Package) -> Vec<String> {
    let crate_name = format!("{} {}", package.name, package.version);
    let is_allowed = |name: &str| deny.licenses.allow.iter().any(|licence| licence == name);
    let licence = match package.license.as_deref() {
        None => Some(format!("{crate_name}: has no licence")),
        Some(expression) => match is_satisfied(expression, &is_allowed) {
            Ok(true) => None,
            Ok(false) => Some(format!("{crate_name}: {RULES} does not allow the licence {expression}")),
            Err(problem) => Some(format!("{crate_name}: the licence {expression} is unreadable: {problem}")),
        },
    };
    let source = match &package.source {
        None if metadata.workspace_members.contains(&package.id) => None,
        None => Some(format!("{crate_name}: comes from a path outside the workspace")),
        Some(source) => (!source.starts_with("registry+"))
            .then(|| format!("{crate_name}: {source} is no registry, and only those keep each version")),
    };
    licence.into_iter().chain(source).collect()
}

/// Returns true if the allowed licences satisfy an expression of SPDX (annex D of its specification 2.3). Older crates
/// have `/` in place of `OR`. A licence with an exception is a separate licence:
/// `Apache-2.0 WITH LLVM-exception`.
fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let is_satisfied = alternatives(&mut words, is_allowed)?;
    match words.next() {
        None => Ok(is_satisfied),
        Some(word) => Err(format!("`{word}` is unexpected")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn alternatives(words: &mut Words<'_>, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut is_satisfied = all_of(words, is_allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        is_satisfied |= all_of(words, is_allowed)?;
    }
    Ok(is_satisfied)
}

fn all_of(words: &mut Words<'_>, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut is_satisfied = one(words, is_allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        is_satisfied &= one(words, is_allowed)?;
    }
    Ok(is_satisfied)
}

fn one(words: &mut Words<'_>, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    match words.next() {
        Some("(") => {
            let is_satisfied = alternatives(words, is_allowed)?;
            words.next_if_eq(&")").ok_or("a parenthesis is open")?;
            Ok(is_satisfied)
        }
        None => Err("it ends early".into()),
        Some(word @ (")" | "OR" | "AND" | "WITH")) => Err(format!("`{word}` is unexpected")),
        Some(licence) if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next().ok_or("it ends early")?;
            Ok(is_allowed(&format!("{licence} WITH {exception}")))
        }
        Some(licence) => Ok(is_allowed(licence)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;
    use crate::metadata::Resolve;

    const REGISTRY: &str = "registry+https://example.org/index";

    fn found(allow: &[&str], packages: &[(&str, &str)]) -> Vec<String> {
        let allow = allow.iter().map(|licence| (*licence).to_owned()).collect();
        let deny = Deny { licenses: Licences { allow } };
        let package = |(license, source): &(&str, &str)| Package {
            id: format!("id of {license}"),
            name: "a".into(),
            version: "1.0.0".into(),
            license: (!license.is_empty()).then(|| (*license).to_owned()),
            source: (!source.is_empty()).then(|| (*source).to_owned()),
            manifest_path: "/a/Cargo.toml".into(),
        };
        let packages = packages.iter().map(package).collect();
        let resolve = Resolve { nodes: Vec::new() };
        complaints(&deny, &Metadata { packages, workspace_members: vec!["id of MIT".into()], resolve })
    }

    #[test]
    fn licence_expressions_are_evaluated() {
        let allowed = |name: &str| ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        for satisfied in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "GPL-3.0-only/MIT",
            "MIT AND Zlib",
            "GPL-3.0-only AND BSL-1.0 OR MIT",
            "MIT OR BSL-1.0 AND GPL-3.0-only",
            "(MIT OR GPL-3.0-only) AND Zlib",
            "Apache-2.0 WITH LLVM-exception",
            "((Zlib))",
        ] {
            assert_eq!(is_satisfied(satisfied, &allowed), Ok(true), "{satisfied}");
        }
        for unsatisfied in [
            "GPL-3.0-only",
            "mit",
            "MIT AND GPL-3.0-only",
            "(MIT OR Zlib) AND GPL-3.0-only",
            "Apache-2.0",
            "MIT WITH LLVM-exception",
        ] {
            assert_eq!(is_satisfied(unsatisfied, &allowed), Ok(false), "{unsatisfied}");
        }
        for unreadable in
            ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Zlib", "MIT WITH", "()", "MIT AND OR Zlib"]
        {
            assert!(is_satisfied(unreadable, &allowed).is_err(), "{unreadable}");
        }
    }

    #[test]
    fn crates_with_forbidden_licence_or_source_are_found() {
        assert_eq!(found(&["MIT"], &[("MIT", ""), ("MIT OR GPL-3.0-only", REGISTRY)]), NONE);
        let forbidden = found(&["MIT"], &[("MIT", ""), ("GPL-3.0-only", REGISTRY)]);
        assert_eq!(forbidden, ["a 1.0.0: deny.toml does not allow the licence GPL-3.0-only"]);
        assert_eq!(found(&["MIT"], &[("MIT", ""), ("", REGISTRY)]), ["a 1.0.0: has no licence"]);
        for source in ["git+https://example.org/a", "https://example.org/index"] {
            let complaint = format!("a 1.0.0: {source} is no registry, and only those keep each version");
            assert_eq!(found(&["MIT"], &[("MIT", source)]), [complaint]);
        }
        let outside = found(&["MIT", "Zlib"], &[("MIT", ""), ("Zlib", "")]);
        assert_eq!(outside, ["a 1.0.0: comes from a path outside the workspace"]);
    }

    #[test]
    fn allowed_licence_without_need_is_found() {
        let complaints = found(&["MIT", "Zlib"], &[("MIT", REGISTRY), ("MIT OR Zlib", REGISTRY)]);
        assert_eq!(complaints, ["deny.toml: no crate needs the licence Zlib"]);
        assert_eq!(found(&["MIT", "Zlib"], &[("MIT AND Zlib", REGISTRY)]), NONE);
    }

    #[test]
    fn missing_and_unreadable_rules_are_found() {
        assert_eq!(licences_and_sources(&tree(&[])), ["deny.toml: is missing"]);
        assert_eq!(licences_and_sources(&tree(&[("deny.toml", "[licenses]\n")])).len(), 1);
    }

    #[test]
    fn metadata_has_own_and_foreign_crates() {
        let metadata = metadata(crate::root()).unwrap();
        let source =
            |name: &str| metadata.packages.iter().find(|it| it.name == name).map(|it| it.source.is_some());
        assert_eq!((source("skye"), source("serde")), (Some(false), Some(true)));
    }
}
