//! House rules that a compiler does not check, checked by a test.
//!
//! A rule is a function from the tree of files to complaints, and one line in [`RULES`].

mod crates;
mod dependencies;
mod english;
mod functions;
mod pages;
mod prose;
mod source;
mod text;
mod tokens;

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::release;

/// A text file of the repository.
#[derive(Debug)]
pub struct File {
    /// Path from the root, with slashes.
    pub path: String,
    /// Content of the file.
    pub text: String,
    /// Its code without comments and literals, once a rule has needed it.
    code: OnceCell<String>,
}

/// All text files of the repository.
#[derive(Debug, Default)]
pub struct Tree {
    /// Text files, in the order of their paths.
    pub files: Vec<File>,
    /// Snapshots of tests.
    snapshots: Vec<File>,
    /// Paths of all files and directories, also of foreign ones; directories end with a slash.
    pub paths: Vec<String>,
}

/// One house rule.
#[derive(Debug)]
pub struct Rule {
    /// Requirement of the rule.
    pub requirement: &'static str,
    /// Returns the complaints about a tree, each with its place.
    pub check: fn(&Tree) -> Vec<String>,
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule { requirement: "crates use only their permitted dependencies", check: crates::check_dependencies },
    Rule { requirement: "a crate documents its purpose and its invariants", check: crates::invariants },
    Rule { requirement: "ARCHITECTURE.md lists every crate", check: crates::code_map },
    Rule {
        requirement: "foreign crates have an allowed licence and source",
        check: dependencies::licences_and_sources,
    },
    Rule { requirement: "only the program prints", check: source::printing },
    Rule { requirement: "types of documents live in the model", check: source::serialisation },
    Rule { requirement: "one crate reads and writes documents", check: source::formats },
    Rule {
        requirement: "unsafe code is only in its modules, with a reason for its soundness",
        check: source::unsafe_code,
    },
    Rule {
        requirement: "findings and verdicts are written in English in one crate",
        check: source::sentences,
    },
    Rule { requirement: "doc comments start with a noun or a verb", check: prose::openings },
    Rule { requirement: "sentences of doc comments are short", check: prose::lengths },
    Rule { requirement: "names and sentences have the words of the field", check: english::words },
    Rule { requirement: "no unfinished code", check: source::banned_words },
    Rule {
        requirement: "functions are short, unless they are one match or one literal",
        check: functions::lengths,
    },
    Rule { requirement: "files can be read in one sitting", check: text::length },
    Rule { requirement: "no line ends in blanks", check: text::trailing_blanks },
    Rule { requirement: "every preset is documented", check: text::presets },
    Rule { requirement: "every trap is documented", check: text::traps },
    Rule { requirement: "tests that documents link to exist", check: text::linked_tests },
    Rule { requirement: "files in ARCHITECTURE.md and CONTRIBUTING.md exist", check: text::named_files },
    Rule { requirement: "CONTRIBUTING.md and .ci/run list every capability", check: text::capabilities },
    Rule { requirement: "no page denies a feature of skye", check: text::denials },
    Rule { requirement: "each page is within its budget of words", check: pages::budgets },
    Rule { requirement: "samples of output in pages come from snapshots", check: pages::samples },
    Rule { requirement: "links in pages lead somewhere", check: pages::links },
    Rule { requirement: "all pages have the oldest Rust of Cargo.toml", check: text::oldest_rust },
    Rule { requirement: "all crates and pages have the version of Cargo.toml", check: release::agreement },
];

/// Extensions of our text files. All files in `.ci` are our text, too.
const EXTENSIONS: &[&str] = &["rs", "toml", "md", "json", "html", "css", "sh", "yml", "yaml"];
/// Directories with foreign content: other machines' files, expected outputs.
const FOREIGN: &[&str] = &["fixtures", "snapshots", "golden", "artifacts"];
/// Directories that are no part of the repository.
const NOT_KEPT: &[&str] = &["target", ".git"];

impl File {
    /// Returns the code of a Rust file: comments and literals are blanks, lines stay.
    fn code(&self) -> &str {
        self.code.get_or_init(|| tokens::code_only(&self.text))
    }
}

impl Tree {
    /// Reads all text files under a directory.
    ///
    /// # Errors
    /// A directory or file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.collect(root, "", true)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn collect(&mut self, directory: &Path, prefix: &str, is_ours: bool) -> Result<()> {
        let entries = fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", directory.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(|| format!("inspect {path}"))?;
            if kind.is_dir() && !NOT_KEPT.contains(&name.as_str()) {
                let is_ours = is_ours && !FOREIGN.contains(&name.as_str());
                self.collect(&entry.path(), &format!("{path}/"), is_ours)?;
                self.paths.push(format!("{path}/"));
            }
            let extension = name.rsplit_once('.').map(|(_, extension)| extension);
            let is_text = extension.is_some_and(|e| EXTENSIONS.contains(&e)) || prefix == ".ci/";
            if kind.is_file() {
                self.paths.push(path.clone());
            }
            let is_snapshot = extension == Some("snap");
            if kind.is_file() && (is_ours && is_text || is_snapshot) {
                let text =
                    fs::read_to_string(entry.path()).with_context(|| format!("read {path} as text"))?;
                let list = if is_snapshot { &mut self.snapshots } else { &mut self.files };
                list.push(File { path, text, code: OnceCell::new() });
            }
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.rsplit_once('.').is_some_and(|(_, e)| e == extension))
    }
}

/// Returns all complaints about the repository, each with its rule.
///
/// # Errors
/// The repository cannot be read.
pub fn complaints() -> Result<Vec<String>> {
    let tree = Tree::read(crate::root())?;
    let of = |rule: &Rule| -> Vec<String> {
        (rule.check)(&tree)
            .into_iter()
            .map(|complaint| format!("{complaint} ({})", rule.requirement))
            .collect()
    };
    Ok(RULES.iter().flat_map(of).collect())
}

/// Prints the complaints, and returns true if there are none.
///
/// # Errors
/// The repository cannot be read.
pub fn command() -> Result<bool> {
    let complaints = complaints()?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    Ok(complaints.is_empty())
}

#[cfg(test)]
pub(crate) const NONE: [&str; 0] = [];

#[cfg(test)]
pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
    let file = |(path, text): &(&str, &str)| File {
        path: (*path).to_owned(),
        text: (*text).to_owned(),
        code: OnceCell::new(),
    };
    let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    Tree { files: files.iter().map(file).collect(), snapshots: Vec::new(), paths }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_tree_passes_tidy() {
        let complaints = complaints().unwrap();
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    #[test]
    fn tree_files_exclude_build_output_and_fixtures() {
        let tree = Tree::read(crate::root()).unwrap();
        assert!(tree.get("xtask/src/tidy.rs").is_some() && tree.get(".ci/run").is_some());
        assert!(tree.get("crates/skye/tests/corpus/main.rs").is_some());
        assert!(!tree.paths.iter().any(|path| path.starts_with("target/")));
        let fixtures = "crates/observe/tests/fixtures/";
        assert!(tree.paths.iter().any(|path| path.starts_with(fixtures)));
        assert!(!tree.files.iter().any(|file| file.path.starts_with(fixtures)));
    }
}
