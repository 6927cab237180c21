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
    fn a_preset_that_nothing_documents_is_found() {
        let preset = ("presets/quick.toml", "");
        assert_eq!(presets(&tree(&[preset, ("README.md", "be quick")])).len(), 1);
        assert_eq!(presets(&tree(&[preset, ("docs/presets.md", "| `quick` | 40 s |")])), NONE);
    }
}
