//! The words of the project: `xtask/english.toml` has the words to avoid, and the findings that are left of each rule.

mod names;
mod sentences;
mod table;

use super::tokens::tokens;
use super::{File, Tree};
use table::Table;

const TABLE: &str = "xtask/english.toml";
/// Rules of the table.
const RULES: &[&str] = &[
    "bool-name",
    "clause-comment",
    "clause-page",
    "clause-text",
    "fn-name",
    "length-page",
    "length-text",
    "of-name",
    "phrase-comment",
    "phrase-page",
    "phrase-text",
    "test-article",
    "test-clause",
    "test-length",
    "type-name",
    "word",
];
/// Names of pages that are generated, or that have older words on purpose.
const NO_PAGES: &[&str] = &["CHANGELOG.md", "limiters.md", "remarks.md"];

/// A name or a sentence that breaks a rule.
#[derive(Debug)]
struct Finding {
    rule: &'static str,
    line: usize,
    found: String,
    /// Usual words, or a way to find them.
    hint: String,
}

/// Complains about each rule whose findings are not as many as the table allows. The table thus keeps falling.
pub(super) fn words(tree: &Tree) -> Vec<String> {
    let Some(file) = tree.get(TABLE) else { return vec![format!("{TABLE}: is missing")] };
    let table = match Table::parse(&file.text) {
        Ok(table) => table,
        Err(error) => return vec![format!("{TABLE}: {error:#}")],
    };
    let unknown = table.allowed.keys().filter(|rule| !RULES.contains(&rule.as_str()));
    let mut complaints: Vec<_> = unknown.map(|rule| format!("{TABLE}: there is no rule {rule}")).collect();
    let findings: Vec<_> = tree
        .files
        .iter()
        .flat_map(|file| findings(file, &table).into_iter().map(|finding| (file.path.as_str(), finding)))
        .collect();
    for rule in RULES {
        let allowed = table.allowed.get(*rule).copied().unwrap_or(0);
        let broken: Vec<_> = findings.iter().filter(|(_, finding)| finding.rule == *rule).collect();
        let count = broken.len();
        if count > allowed {
            let line = |(path, Finding { line, found, hint, .. }): &&(&str, Finding)| {
                format!("{rule} {path}:{line}: {found} -> {hint}")
            };
            complaints.extend(broken.iter().map(line));
            complaints.push(format!("{TABLE}: {rule} has {count} findings, at most {allowed}"));
        } else if count < allowed {
            complaints.push(format!("{TABLE}: write `{rule} = {count}`, as {allowed} is too many"));
        }
    }
    complaints
}

fn findings(file: &File, table: &Table) -> Vec<Finding> {
    let prose = |paragraphs: Vec<(usize, String)>, place| {
        let check = |(line, text): (usize, String)| sentences::check(line, &text, place, table);
        paragraphs.into_iter().flat_map(check).collect::<Vec<_>>()
    };
    let name = file.path.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        Some((_, "md")) if !NO_PAGES.contains(&name) => {
            let lines = file.text.lines().enumerate().map(|(index, line)| (index + 1, line));
            prose(sentences::paragraphs(lines), &sentences::PAGE)
        }
        Some((_, "rs")) => {
            let tokens = tokens(&file.text);
            let names = names::check(&file.path, &tokens, table);
            let comments = prose(sentences::comments(&tokens), &sentences::COMMENT);
            let texts = prose(sentences::texts(&file.path, &file.text, &tokens), &sentences::TEXT);
            [names, comments, texts].into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::{NONE, tree};
    use super::*;

    const REAL: &str = include_str!("../../english.toml");

    /// Returns the rule and the match of each finding in a file.
    fn found(path: &str, text: &str) -> Vec<String> {
        static PARSED: LazyLock<Table> = LazyLock::new(|| Table::parse(REAL).unwrap());
        let findings = findings(&tree(&[(path, text)]).files[0], &PARSED);
        findings.into_iter().map(|finding| format!("{} {}", finding.rule, finding.found)).collect()
    }

    /// Returns complaints about a tree whose table allows this.
    fn complaints(allowed: &str, files: &[(&str, &str)]) -> Vec<String> {
        let (head, rest) = REAL.split_once("[allowed]\n").unwrap();
        let words = &rest[rest.find("\n\n").unwrap()..];
        let table = format!("{head}[allowed]\n{allowed}{words}");
        words_of(&[&[(TABLE, table.as_str())], files].concat())
    }

    fn words_of(files: &[(&str, &str)]) -> Vec<String> {
        words(&tree(files))
    }

    /// A finding of each rule: the path, a text that has it, its match, and a similar text without it.
    const EXAMPLES: &[(&str, &str, &str, &str, &str)] = &[
        ("bool-name", "a.rs", "struct A { pub writes: bool }", "writes", "struct A { is_new: bool }"),
        ("clause-comment", "a.rs", "/// What ends.\nfn a() {}", "What ends", "/// The end.\nfn a() {}"),
        ("clause-page", "a.md", "Rates.\n- Who reads it.", "Who reads it", "- Who reads it?"),
        ("clause-text", "a.rs", "\"a: Whether it is so\"", "Whether it is so", "\"Whether it: is so\""),
        ("fn-name", "a.rs", "fn given() {}", "given", "fn given_rate() {}"),
        ("of-name", "a.rs", "fn of_run() {}", "of_run", "fn offset() {}"),
        ("phrase-comment", "a.rs", "//! Drawn\n//! anew.", "anew", "// Drawn anew."),
        ("phrase-page", "a.md", "It is\ntold.", "told", "```\nIt is\ntold.\n```"),
        ("phrase-text", "a.rs", "\"it lies \\\n  on the disk\"", "lies on", "\"told a b\""),
        ("test-article", "a.rs", "#[test]\nfn a_file_ends() {}", "a_file_ends", "fn a_file_ends() {}"),
        ("test-clause", "a.rs", "#[test]\nfn it_ends() {}", "it_ends", "#[test]\nfn file_ends() {}"),
        ("test-length", "a.rs", "#[test] fn b_b_b_b_b_b_b_b_b_b() {}", "b_b_b_b_b_b_b_b_b_b", "fn b_b() {}"),
        ("type-name", "a.rs", "enum Moved { A }", "Moved", "enum MovedFile { A }"),
        ("word", "a.rs", "let MAX_TOLD = 1;", "MAX_TOLD", "let look_ahead = told;"),
    ];

    #[test]
    fn each_english_rule_matches_only_its_example() {
        for (rule, path, bad, matched, good) in EXAMPLES {
            assert_eq!(found(path, bad), [format!("{rule} {matched}")], "{bad}");
            assert_eq!(found(path, good), NONE, "{good}");
        }
        let lengths = |rule: &&&str| rule.starts_with("length-");
        let others = RULES.iter().filter(|rule| !lengths(rule));
        assert!(others.eq(EXAMPLES.iter().map(|(rule, ..)| rule)));
    }

    #[test]
    fn sentences_of_pages_and_texts_are_short() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let first_words = words(9);
        for (rule, path, quote) in [("length-page", "a.md", ""), ("length-text", "a.rs", "\"")] {
            let found = |text: String| found(path, &format!("{quote}{text}{quote}"));
            assert_eq!(found(words(26)), [format!("{rule} {first_words}")]);
            let (half, code) = (words(20), "`a b` ".repeat(6));
            assert_eq!(found(format!("{code}{}", words(25))), NONE);
            for end in [". Word ", "; ", ": {x} ", "|", "! skye "] {
                assert_eq!(found(format!("{half}{end}{half}")), NONE, "{end}");
            }
            for end in [". ", ": ", ", "] {
                assert_eq!(found(format!("{half}{end}{half}")).len(), 1, "{end}");
            }
        }
    }

    #[test]
    fn phrase_rule_ignores_code_and_allowed_contexts() {
        let good = "The kernel is told to stop. Run as nobody. Meanwhile, a look up, so much that, others'x, `told`.";
        assert_eq!(found("a.md", good), NONE);
        let bad = "For nobody else, and meanwhile a look at [others'](told.md). The kernel says it.";
        let matches = ["nobody", "meanwhile", "a look", "others'", "kernel says"];
        let mut found = found("a.md", bad);
        found.sort();
        let mut expected = matches.map(|phrase| format!("phrase-page {phrase}"));
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn names_are_split_into_words() {
        let code = "fn a(told: u8, b: Told, (c, asked): &str) { x(heard: &y, z: told(), began: A { }); let HTTPTold = 1; }";
        let found = found("a.rs", code);
        assert_eq!(found, ["word told", "word heard", "word HTTPTold"]);
    }

    #[test]
    fn texts_of_tests_and_generated_pages_are_skipped() {
        let text = "\"it is told so\"";
        assert_eq!(found("crates/run/src/a.rs", text).len(), 1);
        for path in ["crates/run/tests/a.rs", "crates/run/src/tests.rs", "xtask/src/a.rs"] {
            assert_eq!(found(path, text), NONE, "{path}");
        }
        assert_eq!(found("a.rs", &format!("#[cfg(test)]\n{text}")), NONE);
        assert_eq!(found("docs/a.md", text).len(), 1);
        for path in ["CHANGELOG.md", "docs/limiters.md", "docs/remarks.md", "a.toml"] {
            assert_eq!(found(path, text), NONE, "{path}");
        }
    }

    #[test]
    fn rule_findings_must_equal_allowed_count() {
        let files = [("a.rs", "fn given() {}\nfn kept() {}")];
        assert_eq!(complaints("fn-name = 2\n", &files), NONE);
        let hint = "a verb, or the noun that it returns";
        let expected = [
            format!("fn-name a.rs:1: given -> {hint}"),
            format!("fn-name a.rs:2: kept -> {hint}"),
            format!("{TABLE}: fn-name has 2 findings, at most 1"),
        ];
        assert_eq!(complaints("fn-name = 1\n", &files), expected);
        assert_eq!(complaints("", &files).len(), 3);
        let too_many = format!("{TABLE}: write `fn-name = 2`, as 3 is too many");
        assert_eq!(complaints("fn-name = 3\n", &files), [too_many]);
    }

    #[test]
    fn bad_table_is_refused() {
        assert_eq!(complaints("typo = 1\n", &[]), [format!("{TABLE}: there is no rule typo")]);
        assert_eq!(words_of(&[]), [format!("{TABLE}: is missing")]);
        for bad in ["", "typo = 1", &REAL.replace("anew\\b", "anew(")] {
            assert_eq!(words_of(&[(TABLE, bad)]).len(), 1, "{bad}");
        }
    }
}
