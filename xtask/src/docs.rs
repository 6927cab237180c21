//! `cargo xtask docs`: the pages and tables of the documentation that the code declares. They are committed, and a test
//! compares them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use model::size;
use model::workload::{DATA_KEYS, DataVerb, DataWork, FILE_KEYS, FileVerb, FilesWork, Key};
use wording::{FINDING_HELP, FindingHelp};

use crate::limiters;

/// Returns each page that is generated, or has generated tables, with its text of the current code.
fn pages() -> Result<Vec<(PathBuf, String)>> {
    let data: Vec<_> = DataVerb::ALL.iter().map(|verb| (DataWork::new(*verb), verb.word())).collect();
    let files: Vec<_> = FileVerb::ALL.iter().map(|verb| (FilesWork::new(*verb, 1), verb.word())).collect();
    let file_verbs = FileVerb::ALL.iter().map(|verb| verb_row(verb.word(), verb.help()) + "\n").collect();
    let tables = [
        ("spec.md", "| verbs on data | one operation | if absent |", data_verbs(false)),
        ("spec.md", "| verbs on bytes | one operation |", data_verbs(true)),
        ("spec.md", "| verbs on files | one operation |", file_verbs),
        ("spec.md", "| keys of tests on data and bytes | tests | meaning |", rows(DATA_KEYS, &data)),
        ("spec.md", "| keys of tests on files | tests | meaning |", rows(FILE_KEYS, &files)),
        ("remarks.md", "| code | mark | when | meaning |", codes()),
        ("methodology.md", "| invalid | suspect | either | remark |", trust()),
    ];
    let page = |name: &str| crate::root().join("docs").join(name);
    let mut pages = vec![(page("limiters.md"), limiters::generate())];
    for tables in tables.chunk_by(|one, other| one.0 == other.0) {
        let path = page(tables[0].0);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let text = tables.iter().try_fold(text, |text, (_, head, rows)| with_table(&text, head, rows))?;
        pages.push((path, text));
    }
    Ok(pages)
}

/// Returns a row for each verb on blocks, or on bytes.
fn data_verbs(is_bytes: bool) -> String {
    let verbs = DataVerb::ALL.iter().filter(|verb| verb.is_bytes() == is_bytes);
    let row = |verb: &DataVerb| {
        let DataWork { access, block_bytes, direct, .. } = DataWork::new(*verb);
        let (size, cache) = (size::exact(block_bytes), if direct { "direct" } else { "buffered" });
        let usual = if is_bytes { String::new() } else { format!(" `{access}{size}`, {cache} |") };
        format!("{}{usual}\n", verb_row(verb.word(), verb.help()))
    };
    verbs.map(row).collect()
}

/// Returns the cells that each verb has: its word and its help.
fn verb_row(word: &str, help: &str) -> String {
    format!("| `{word}` | {} |", help.trim_end_matches('.'))
}

/// Returns a row for each code of findings.
fn codes() -> String {
    let row = |FindingHelp { code, mark, when, meaning }: &FindingHelp| {
        format!("| `{code}` | {mark} | {when} | {meaning} |\n")
    };
    FINDING_HELP.iter().map(row).collect()
}

/// Returns a row with the codes of findings, by the trust that their marks leave.
fn trust() -> String {
    let mut cells = [const { String::new() }; 4];
    for FindingHelp { code, mark, .. } in FINDING_HELP {
        let column = match *mark {
            "`!`" => 0,
            "`?`" => 1,
            mark if mark.contains(['!', '?']) => 2,
            _ => 3,
        };
        cells[column].push_str(&format!(" `{code}`"));
    }
    format!("|{} |\n", cells.join(" |"))
}

/// Returns a row for each key, with the tests that take it.
fn rows<W>(keys: &[Key<W>], verbs: &[(W, &str)]) -> String {
    let mut text = String::new();
    for key in keys {
        let taking: Vec<_> =
            verbs.iter().filter(|(work, _)| key.takes(work)).map(|(_, verb)| *verb).collect();
        let tests = match taking.len() == verbs.len() {
            true => "all".to_owned(),
            false => taking.iter().map(|verb| format!("`{verb}`")).collect::<Vec<_>>().join(" "),
        };
        let equals = if key.form.is_empty() { "" } else { "=" };
        let form = key.form.replace('|', "\\|");
        text.push_str(&format!("| `{}{equals}{form}` | {tests} | {} |\n", key.name, key.help));
    }
    text
}

/// Replaces the rows of the table that has this head.
fn with_table(page: &str, head: &str, rows: &str) -> Result<String> {
    let (before, after) =
        page.split_once(&format!("{head}\n")).with_context(|| format!("no table `{head}`"))?;
    let rest = after.split_once("\n\n").map_or("", |(_, rest)| rest);
    let columns = head.matches('|').count() - 1;
    Ok(format!("{before}{head}\n|{}\n{rows}\n{rest}", "---|".repeat(columns)))
}

/// Writes the pages to their files.
///
/// # Errors
/// A page cannot be read or written, or lacks a table.
pub fn command() -> Result<bool> {
    for (path, text) in pages()? {
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_pages_are_what_the_code_declares() {
        for (path, text) in pages().unwrap() {
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == text, "{} is out of date: run `cargo xtask docs`", path.display());
        }
    }

    #[test]
    fn a_table_is_replaced_and_nothing_else() {
        let page = "a\n\n| b | c |\n|---|---|\n| 1 | 2 |\n\nd\n";
        let replaced = with_table(page, "| b | c |", "| 3 | 4 |\n").unwrap();
        assert_eq!(replaced, page.replace("| 1 | 2 |", "| 3 | 4 |"));
        assert!(with_table(page, "| x |", "").is_err());
    }
}
