//! `cargo xtask release --check`: what a tree must have before it becomes a release.
//!
//! The version of all pages is a house rule, as it must be right at any time. The date of a release is not.

use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;

use crate::Usage;
use crate::tidy::Tree;

const USAGE: &str = "use `release --check`";
/// List of changes for users.
const CHANGES: &str = "CHANGELOG.md";
/// Word of a tree between two releases.
const BETWEEN: &str = "unreleased";
/// A version of skye in a page: behind its name, or before the commit of a build.
static VERSIONS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\bskye[ :]([0-9]+\.[0-9]+\.[0-9]+)|"([0-9]+\.[0-9]+\.[0-9]+) \("#));
/// Head of a section of the changes: version, and day of the release.
static HEADS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^## (\S+)(?:, (\S+))?$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is constant, and tests use it")
}

/// Prints what a release of this tree lacks, and returns true if it is nothing.
///
/// # Errors
/// The tree cannot be read, or the program cannot be built.
pub fn command(words: &[String]) -> Result<bool> {
    if words != ["--check"] {
        return Err(Usage(USAGE.into()).into());
    }
    let tree = Tree::read(crate::root())?;
    let version = version(&tree)?;
    let mut complaints = [agreement(&tree), changes(&tree, &version), unfinished_pages(&tree)].concat();
    for (argument, before) in [("--version", "skye "), ("man", "\"skye ")] {
        let output = program(argument)?;
        if !output.lines().any(|line| has_version(line, before, &version)) {
            complaints.push(format!("skye {argument}: it does not have the version {version}"));
        }
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    if complaints.is_empty() {
        println!("skye {version} can be released");
    }
    Ok(complaints.is_empty())
}

/// Returns what the program of this tree prints.
fn program(argument: &str) -> Result<String> {
    let mut command = Command::new(crate::cargo());
    command.args(["run", "--quiet", "--package", "skye", "--", argument]).current_dir(crate::root());
    let output = command.output().context("run cargo run")?;
    ensure!(output.status.success(), "skye {argument}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns true if a line has the version behind that text, and no further part of a version.
fn has_version(line: &str, before: &str, version: &str) -> bool {
    let rest = line.split(before).nth(1).and_then(|rest| rest.strip_prefix(version));
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next == '.' || next.is_alphanumeric()))
}

/// Version of the workspace.
fn version(tree: &Tree) -> Result<String> {
    let manifest =
        tree.files.iter().find(|file| file.path == "Cargo.toml").context("there is no Cargo.toml")?;
    let manifest: toml::Table = manifest.text.parse().context("understand Cargo.toml")?;
    match manifest["workspace"]["package"].get("version").and_then(toml::Value::as_str) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("Cargo.toml: the workspace has no version"),
    }
}

/// House rule: all crates and all pages have the version of the workspace.
pub(crate) fn agreement(tree: &Tree) -> Vec<String> {
    let version = match version(tree) {
        Ok(version) => version,
        Err(problem) => return vec![problem.to_string()],
    };
    let mut complaints = Vec::new();
    for file in &tree.files {
        if file.path.ends_with("/Cargo.toml") && !file.text.contains("\nversion.workspace = true\n") {
            complaints.push(format!("{}: its version is not that of the workspace", file.path));
        }
        if is_page(&file.path) {
            let found = VERSIONS.captures_iter(&file.text).filter_map(|found| found.get(1).or(found.get(2)));
            let other = found.filter(|found| found.as_str() != version);
            complaints.extend(other.map(|found| {
                format!("{}: it has version {}, and Cargo.toml {version}", file.path, found.as_str())
            }));
        }
    }
    complaints
}

/// Replaces versions of skye in a sample of output by a word, as samples and snapshots may have different ones.
pub(crate) fn without_version(line: &str) -> String {
    VERSIONS.replace_all(line, "skye VERSION").into_owned()
}

/// Pages, manifests, forms for reports of users, and schemas.
fn is_page(path: &str) -> bool {
    path.ends_with(".md")
        || path.starts_with("deploy/")
        || path.starts_with(".github/")
        || path.starts_with("schema/")
}

/// Complains unless the first section of the changes is that of this version, with the day of its release.
fn changes(tree: &Tree, version: &str) -> Vec<String> {
    let text = tree.files.iter().find(|file| file.path == CHANGES).map_or("", |file| file.text.as_str());
    let Some(head) = HEADS.captures(text) else { return vec![format!("{CHANGES}: it has no section")] };
    let day = head.get(2).map_or("", |day| day.as_str());
    if &head[1] != version {
        return vec![format!("{CHANGES}: its first section is {}, not {version}", &head[1])];
    }
    match is_day(day) {
        true => Vec::new(),
        false => {
            vec![format!("{CHANGES}: {version} needs the day of its release: `## {version}, 2026-11-30`")]
        }
    }
}

/// Returns true for a day of the form `2026-11-30`.
fn is_day(text: &str) -> bool {
    let shape = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    let number = |from, to| text.get(from..to).and_then(|part: &str| part.parse().ok()).unwrap_or(0);
    shape.eq(*b"0000-00-00") && (1..=12).contains(&number(5, 7)) && (1..=31).contains(&number(8, 10))
}

fn unfinished_pages(tree: &Tree) -> Vec<String> {
    let pages = tree.files.iter().filter(|file| is_page(&file.path));
    let unfinished = pages.filter(|file| file.text.to_lowercase().contains(BETWEEN));
    unfinished.map(|file| format!("{}: it has the word \"{BETWEEN}\"", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{NONE, tree};

    const MANIFEST: (&str, &str) = ("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n");

    #[test]
    fn other_versions_are_found() {
        let right = [
            MANIFEST,
            ("README.md", "skye 1.2.3 · /data"),
            ("docs/a.md", "kernel 6.1.0, skye 1.2.3 → 1.2.4, \"1.2.3 (7c69668c)\""),
            ("crates/a/Cargo.toml", "[package]\nversion.workspace = true\n"),
        ];
        assert_eq!(agreement(&tree(&right)), NONE);
        for wrong in [
            ("README.md", "skye 1.2.2 · /data"),
            ("docs/a.md", "\"1.3.0 (7c69668c)\""),
            ("deploy/run.yaml", "image: skye:1.2.2"),
            (".github/ISSUE_TEMPLATE/bug.yml", "placeholder: skye 1.2.0 (7c6)"),
            ("crates/a/Cargo.toml", "[package]\nversion = \"1.2.3\"\n"),
        ] {
            assert_eq!(agreement(&tree(&[MANIFEST, wrong])).len(), 1, "{wrong:?}");
        }
        assert_eq!(agreement(&tree(&[("Cargo.toml", "[workspace.package]\n")])).len(), 1);
    }

    #[test]
    fn changes_of_version_need_a_day() {
        let of = |text: &str| changes(&tree(&[(CHANGES, text)]), "1.2.3");
        assert_eq!(of("# Changes\n\n## 1.2.3, 2026-11-30\n\n## 1.2.2, 2026-01-31\n"), NONE);
        for wrong in [
            "",
            "## Unreleased\n\n## 1.2.3, 2026-11-30\n",
            "## 1.2.3\n",
            "## 1.2.3, soon\n",
            "## 1.2.3, 2026-13-30\n",
            "## 1.2.3, 2026-1-30\n",
        ] {
            assert_eq!(of(wrong).len(), 1, "{wrong}");
        }
        let pages = [("docs/a.md", "of an unreleased version"), ("docs/b.md", "released"), ("a.rs", BETWEEN)];
        assert_eq!(unfinished_pages(&tree(&pages)).len(), 1);
    }

    #[test]
    fn version_in_output_is_whole() {
        assert!(
            has_version("skye 1.2.3 (7c6)", "skye ", "1.2.3") && has_version("skye 1.2.3", "skye ", "1.2.3")
        );
        assert!(
            !has_version("skye 1.2.31", "skye ", "1.2.3") && !has_version("skye 1.2.3.4", "skye ", "1.2.3")
        );
        assert_eq!(without_version("  same  skye 1.2.3 → 2.0.0"), "  same  skye VERSION → 2.0.0");
    }
}
