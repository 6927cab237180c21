//! Rules about files as texts.

use super::Tree;

/// Most lines of a file that a person reads.
const LINES_MAX: usize = 900;

pub(super) fn length(tree: &Tree) -> Vec<String> {
    let read_by_people = ["rs", "md", "toml", "html", "css"].iter().flat_map(|e| tree.with_extension(e));
    let long = read_by_people.filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines, at most {LINES_MAX}", file.path))
    });
    long.collect()
}

pub(super) fn trailing_blanks(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                complaints.push(format!("{}:{}: ends in a blank", file.path, index + 1));
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
        .map(|name| format!("presets/{name}.toml: neither README.md nor docs/ name `{name}`"))
        .collect()
}

pub(super) fn traps(tree: &Tree) -> Vec<String> {
    const LIST: &str = "crates/judge/src/traps.rs";
    let codes = tree.get(LIST).map_or("", |file| file.text.as_str()).split("trap(\"").skip(1);
    let codes: Vec<_> = codes.filter_map(|rest| rest.split('"').next()).collect();
    let mut complaints = Vec::new();
    for document in ["docs/guide.md", "docs/methodology.md"] {
        let text = tree.get(document).map_or("", |file| file.text.as_str());
        let missing = codes.iter().filter(|code| !text.contains(&format!("`{code}`")));
        complaints.extend(missing.map(|code| format!("{LIST}: {document} does not name `{code}`")));
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

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;

    #[test]
    fn long_files_and_trailing_blanks_are_found() {
        let (long, fits) = ("x\n".repeat(901), "x\n".repeat(900));
        assert_eq!(length(&tree(&[("a.rs", &long), ("b.rs", &fits), ("c.json", &long)])).len(), 1);
        let complaints = trailing_blanks(&tree(&[("a.md", "x\ny \nz\t\n")]));
        assert_eq!(complaints, ["a.md:2: ends in a blank", "a.md:3: ends in a blank"]);
    }

    #[test]
    fn a_link_to_a_test_that_is_gone_is_found() {
        let document =
            ("docs/a.md", "[`here`](../b.rs), [`gone`](../b.rs), [`word`](c.md), [`far`](../d.rs)");
        let complaints = linked_tests(&tree(&[document, ("b.rs", "fn here() {}")]));
        assert_eq!(
            complaints,
            ["docs/a.md: there is no test `gone` in b.rs", "docs/a.md: there is no test `far` in d.rs"]
        );
    }

    #[test]
    fn a_trap_that_nothing_documents_is_found() {
        let list = ("crates/judge/src/traps.rs", "trap(\"steal\", x),\n    trap(\"thermal\", y),");
        let guide = ("docs/guide.md", "| `steal` | `thermal` |");
        let complaints = traps(&tree(&[list, guide, ("docs/methodology.md", "`steal`")]));
        assert_eq!(complaints, ["crates/judge/src/traps.rs: docs/methodology.md does not name `thermal`"]);
        assert_eq!(traps(&tree(&[list, guide, ("docs/methodology.md", "`steal` `thermal`")])), NONE);
    }

    #[test]
    fn a_preset_that_nothing_documents_is_found() {
        let preset = ("presets/quick.toml", "");
        assert_eq!(presets(&tree(&[preset, ("README.md", "be quick")])).len(), 1);
        assert_eq!(presets(&tree(&[preset, ("docs/presets.md", "| `quick` | 40 s |")])), NONE);
    }
}
