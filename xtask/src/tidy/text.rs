//! Rules about files as texts.

use super::Tree;

/// Most lines of a file that a person reads.
const LINES_MAX: usize = 900;
/// Most lines of pages that are read first.
const FIRST_PAGES: &[(&str, usize)] = &[("README.md", 200), ("ARCHITECTURE.md", 250)];

pub(super) fn length(tree: &Tree) -> Vec<String> {
    let read_by_people = ["rs", "md", "toml", "html", "css"].iter().flat_map(|e| tree.with_extension(e));
    let long = read_by_people.filter_map(|file| {
        let lines = file.text.lines().count();
        let first = FIRST_PAGES.iter().find(|(path, _)| *path == file.path);
        let most = first.map_or(LINES_MAX, |(_, most)| *most);
        (lines > most).then(|| format!("{}: {lines} lines, at most {most}", file.path))
    });
    long.collect()
}

pub(super) fn trailing_blanks(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                complaints.push(format!("{}:{}: trailing blank", file.path, index + 1));
            }
        }
    }
    complaints
}

pub(super) fn presets(tree: &Tree) -> Vec<String> {
    let documents: Vec<_> = tree
        .with_extension("md")
        .filter(|file| file.path == "README.md" || file.path.starts_with("docs/"))
        .collect();
    let names =
        tree.files.iter().filter_map(|file| file.path.strip_prefix("presets/")?.strip_suffix(".toml"));
    let undocumented = names.filter(|name| {
        let quoted = format!("`{name}`");
        !documents.iter().any(|document| document.text.contains(&quoted))
    });
    undocumented
        .map(|name| format!("presets/{name}.toml: `{name}` is neither in README.md nor in docs/"))
        .collect()
}

pub(super) fn traps(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for document in ["docs/remarks.md", "docs/methodology.md"] {
        let text = tree.get(document).map_or("", |file| file.text.as_str());
        let codes = judge::TRAPS.iter().map(|trap| trap.code);
        let missing = codes.filter(|code| !text.contains(&format!("`{code}`")));
        complaints.extend(
            missing.map(|code| format!("crates/judge/src/laws/traps.rs: {document} does not have `{code}`")),
        );
    }
    complaints
}

pub(super) fn linked_tests(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for document in tree.with_extension("md").filter(|file| file.path.starts_with("docs/")) {
        // [`name_of_a_test`](../path/of/its/file.rs)
        for link in document.text.split("[`").skip(1) {
            let Some((name, rest)) = link.split_once("`](../") else { continue };
            let Some(path) = rest.split(')').next().filter(|path| path.ends_with(".rs")) else { continue };
            let has_it = |text: &str| text.contains(&format!("fn {name}("));
            if !tree.get(path).is_some_and(|file| has_it(&file.text)) {
                complaints.push(format!("{}: there is no test `{name}` in {path}", document.path));
            }
        }
    }
    complaints
}

/// Endings that mark a word in backticks as the name of a file.
const FILE_ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".json", ".css", ".html", ".js", ".sh"];

/// Returns the words in backticks, each with the number of its line. Both backticks are on that line.
fn quoted(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // The text between each pair of backticks.
    text.lines()
        .enumerate()
        .flat_map(|(index, line)| line.split('`').skip(1).step_by(2).map(move |word| (index + 1, word)))
}

pub(super) fn named_files(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = tree.get(document).map_or("", |file| file.text.as_str());
        for (line, word) in quoted(text) {
            // Paths from the root are of other machines; capitals and asterisks stand for any name.
            let is_any =
                word.contains(['*', ' ', '$', '<']) || word.contains("NAME") || word.starts_with(['/', '-']);
            let is_path = FILE_ENDINGS.iter().any(|ending| word.ends_with(ending)) || word.ends_with('/');
            let is_built = word.starts_with("target/");
            // The reader's own files.
            let is_example = word.contains("FILE") || word.contains("mine.");
            if !is_path || is_any || is_built || is_example {
                continue;
            }
            let below = format!("/{word}");
            let is_it = |path: &String| path == word || path.ends_with(&below);
            if !tree.paths.iter().any(is_it) {
                complaints.push(format!("{document}:{line}: there is no `{word}`"));
            }
        }
    }
    complaints
}

pub(super) fn capabilities(tree: &Tree) -> Vec<String> {
    const LIST: &str = "xtask/src/capability.rs";
    let names = tree.get(LIST).map_or("", |file| file.text.as_str()).split("Capability::new(\"").skip(1);
    let names: Vec<_> = names.filter_map(|rest| rest.split('"').next()).collect();
    let mut complaints = Vec::new();
    let mut require = |document: &str, names_it: &dyn Fn(&str, &str) -> bool| {
        let text = tree.get(document).map_or("", |file| file.text.as_str());
        let missing = names.iter().filter(|name| !names_it(text, name));
        complaints.extend(missing.map(|name| format!("{LIST}: {document} does not list {name}")));
    };
    require("CONTRIBUTING.md", &|text, name| text.contains(&format!("`{name}`")));
    require(".ci/run", &|text, name| text.split([',', '=', '}', '"', '\n']).any(|word| word == name));
    complaints
}

/// Sentences that were on a page and are false, as skye can do what they deny.
const DENIED: [(&str, &str); 3] = [
    ("no host watches the server", "`--observe` does"),
    ("does not precondition", "`--precondition` does"),
    ("measures one at a time", "mixes and several clients are measured together"),
];

pub(super) fn denials(tree: &Tree) -> Vec<String> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md") && file.path != "CHANGELOG.md");
    let denied = pages.flat_map(|file| {
        let text = file.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let found = DENIED.iter().filter(move |(denial, _)| text.contains(denial));
        found.map(|(denial, truth)| format!("{}: it has \"{denial}\", but {truth}", file.path))
    });
    denied.collect()
}

/// Every page says "Rust" before the version, or "rustc" in an error of an older compiler.
pub(super) fn oldest_rust(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.get(path).map_or("", |file| file.text.as_str());
    let oldest = text("Cargo.toml").split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let Some(oldest) = oldest else { return vec!["Cargo.toml: it has no rust-version".into()] };
    let mut complaints = Vec::new();
    for page in ["README.md", "CONTRIBUTING.md"] {
        let named = ["Rust ", "rustc "].into_iter().flat_map(|word| text(page).split(word).skip(1));
        let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
        let end = |letter: char| !letter.is_ascii_digit() && letter != '.';
        let versions: Vec<_> = named.filter_map(|rest| rest.split(end).next()).filter(is_version).collect();
        if versions.is_empty() || versions.iter().any(|version| version.trim_end_matches('.') != oldest) {
            complaints.push(format!("{page}: it has Rust {versions:?}, and Cargo.toml {oldest}"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;

    #[test]
    fn long_files_and_trailing_blanks_are_found() {
        let (long, fits) = ("x\n".repeat(901), "x\n".repeat(900));
        assert_eq!(length(&tree(&[("a.rs", &long), ("b.rs", &fits), ("c.json", &long)])).len(), 1);
        assert_eq!(length(&tree(&[("README.md", &fits), ("docs/README.md", &fits)])).len(), 1);
        let complaints = trailing_blanks(&tree(&[("a.md", "x\ny \nz\t\n")]));
        assert_eq!(complaints, ["a.md:2: trailing blank", "a.md:3: trailing blank"]);
    }

    #[test]
    fn link_to_missing_test_is_found() {
        let document =
            ("docs/a.md", "[`here`](../b.rs), [`gone`](../b.rs), [`word`](c.md), [`far`](../d.rs)");
        let complaints = linked_tests(&tree(&[document, ("b.rs", "fn here() {}")]));
        assert_eq!(
            complaints,
            ["docs/a.md: there is no test `gone` in b.rs", "docs/a.md: there is no test `far` in d.rs"]
        );
    }

    #[test]
    fn page_that_denies_what_skye_does_is_found() {
        let complaints =
            denials(&tree(&[("docs/guide.md", "It does not\nprecondition drives."), ("a.md", "")]));
        assert_eq!(
            complaints,
            ["docs/guide.md: it has \"does not precondition\", but `--precondition` does"]
        );
    }

    #[test]
    fn page_with_wrong_minimum_rust_version_is_found() {
        let cargo = ("Cargo.toml", "rust-version = \"1.88\"");
        let page = ("CONTRIBUTING.md", "Rust 1.88.");
        let with = |readme| oldest_rust(&tree(&[cargo, ("README.md", readme), page])).len();
        assert_eq!(with("Rust 1.88 or later: `requires rustc 1.88` (Rust from rustup)"), 0);
        assert_eq!((with("Rust 1.85"), with("rustc 1.90"), with("Rust")), (1, 1, 1));
    }

    #[test]
    fn undocumented_trap_is_found() {
        let all: String = judge::TRAPS.iter().map(|trap| format!("`{}` ", trap.code)).collect();
        let remarks = ("docs/remarks.md", all.as_str());
        let complaints =
            traps(&tree(&[remarks, ("docs/methodology.md", &all.replace("`thermal`", "thermal"))]));
        assert_eq!(
            complaints,
            ["crates/judge/src/laws/traps.rs: docs/methodology.md does not have `thermal`"]
        );
        assert_eq!(traps(&tree(&[remarks, ("docs/methodology.md", &all)])), NONE);
    }

    #[test]
    fn undocumented_preset_is_found() {
        let preset = ("presets/quick.toml", "");
        assert_eq!(presets(&tree(&[preset, ("README.md", "be quick")])).len(), 1);
        assert_eq!(presets(&tree(&[preset, ("docs/presets.md", "| `quick` | 40 s |")])), NONE);
    }

    #[test]
    fn references_to_missing_files_are_found() {
        let text = "`run.rs`, `run/gone.rs`, `parse/`, `crates/x/src/run.rs`,\n`presets/*.toml` `target/x.json` `a b.rs`";
        let good = [("crates/x/src/run.rs", ""), ("crates/x/src/parse/", "")];
        let document = [("ARCHITECTURE.md", text)];
        let complaints = named_files(&tree(&[&good[..], &document].concat()));
        assert_eq!(complaints, ["ARCHITECTURE.md:1: there is no `run/gone.rs`"]);
    }

    #[test]
    fn capabilities_missing_from_docs_or_ci_are_found() {
        let list = ("xtask/src/capability.rs", "Capability::new(\"loop\", Capability::new(\"zram\",");
        let documents = |text, ci| tree(&[list, ("CONTRIBUTING.md", text), (".ci/run", ci)]);
        assert_eq!(capabilities(&documents("`loop` and `zram`", "=loop,zram}\"")), NONE);
        let complaints = capabilities(&documents("`loop` and zram", "=loop}\""));
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }
}
