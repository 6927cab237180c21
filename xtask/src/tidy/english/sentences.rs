//! Rules about sentences: of a comment, of a text of the program, of a page.

use std::sync::LazyLock;

use regex::Regex;

use super::super::tokens::{Kind, Token};
use super::Finding;
use super::table::Table;

/// Most words of a sentence.
const WORDS_MAX: usize = 25;
/// Characters of a sentence that a finding prints, and words of a long one.
const PRINTED_CHARACTERS: usize = 60;
const PRINTED_WORDS: usize = 9;
/// Fewest words of a text that has sentences.
const TEXT_WORDS_MIN: usize = 4;
/// Texts that no user reads: of tests, samples, and developers.
const NO_TEXTS: &[&str] = &["/tests", "tests.rs", "sample", "/bench"];

static CODE: LazyLock<Regex> = LazyLock::new(|| constant("`[^`]*`"));
static LINK: LazyLock<Regex> = LazyLock::new(|| constant(r"\]\([^)]*\)"));
static ENDS: LazyLock<Regex> = LazyLock::new(|| constant(r"[.!?] |\||; |\\n|: "));
static CLAUSE_END: LazyLock<Regex> = LazyLock::new(|| constant(r"[.!?:;|](?: |$)"));
static PARAGRAPH_START: LazyLock<Regex> = LazyLock::new(|| constant(r"^\s*(?:$|[-*|#]|[0-9]+\. )"));
static BULLET: LazyLock<Regex> = LazyLock::new(|| constant(r"^\s*(?:[-*]|[0-9]+\.) "));
static CONTINUATION: LazyLock<Regex> = LazyLock::new(|| constant(r"\\\n\s*"));
static MARKUP: LazyLock<Regex> = LazyLock::new(|| constant(r"[<>]\w|\n|\\n *[{<]"));

fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern is valid, as the tests use each")
}

/// Place of prose, with the rules for it.
#[derive(Debug)]
pub(super) struct Place {
    phrase: &'static str,
    clause: &'static str,
    /// Rule about the words of a sentence. Comments have another rule of tidy.
    length: Option<&'static str>,
}

/// Doc comments.
pub(super) const COMMENT: Place = Place { phrase: "phrase-comment", clause: "clause-comment", length: None };
/// Texts of the program.
pub(super) const TEXT: Place =
    Place { phrase: "phrase-text", clause: "clause-text", length: Some("length-text") };
/// Pages of the documentation.
pub(super) const PAGE: Place =
    Place { phrase: "phrase-page", clause: "clause-page", length: Some("length-page") };

/// Returns the findings about prose at a line.
pub(super) fn check(line: usize, text: &str, place: &Place, table: &Table) -> Vec<Finding> {
    let text = CODE.replace_all(text, "`x`");
    let text = LINK.replace_all(&text, "]");
    let finding = |rule, found: String, hint: String| Finding { rule, line, found, hint };
    let mut findings = Vec::new();
    let phrases = table.phrases(&text).into_iter();
    findings.extend(phrases.map(|(found, instead)| finding(place.phrase, found.into(), instead.into())));
    let clauses = clauses(&text, &table.sentences.clauses).into_iter();
    findings.extend(clauses.map(|clause| {
        finding(place.clause, clause.chars().take(PRINTED_CHARACTERS).collect(), "begin with a noun".into())
    }));
    if let Some(rule) = place.length {
        for sentence in sentences(&text) {
            let is_counted = |word: &&str| word.trim_matches([',', '.', ':', ';']) != "`x`";
            let words: Vec<_> = sentence.split_whitespace().filter(is_counted).collect();
            if words.len() > WORDS_MAX {
                let hint = format!("{} words, at most {WORDS_MAX}", words.len());
                findings.push(finding(rule, words[..PRINTED_WORDS].join(" "), hint));
            }
        }
    }
    findings
}

/// Returns the sentences that begin with one of these words, unless they are questions or headings.
fn clauses<'t>(text: &'t str, openings: &[String]) -> Vec<&'t str> {
    let starts = [0].into_iter().chain(text.match_indices(' ').map(|(at, _)| at + 1));
    let begins = |start: &usize| {
        let (before, after) = text.split_at(*start);
        let opens = |opening: &String| {
            let rest = after.strip_prefix(opening.as_str()).and_then(|rest| rest.strip_prefix(' '));
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
        };
        let is_start = before.is_empty() || [". ", ": ", "; ", "| "].iter().any(|end| before.ends_with(end));
        is_start && openings.iter().any(opens)
    };
    let clause = |start: usize| {
        let (sentence, end) = match CLAUSE_END.find_at(text, start) {
            Some(end) => (&text[start..end.start()], end.as_str()),
            None => (&text[start..], ""),
        };
        (!end.starts_with(['?', ':'])).then_some(sentence)
    };
    starts.filter(begins).filter_map(clause).collect()
}

/// Splits a text into sentences, cells and parts between semicolons.
fn sentences(text: &str) -> Vec<&str> {
    let (mut sentences, mut start) = (Vec::new(), 0);
    for end in ENDS.find_iter(text) {
        let rest = &text[end.end()..];
        let begins =
            |others: &[char]| rest.starts_with(|c: char| c.is_ascii_uppercase() || others.contains(&c));
        let is_full_stop = end.as_str().starts_with(['.', '!', '?']);
        let is_end = match end.as_str() {
            ": " => begins(&['{']),
            _ if is_full_stop => begins(&['"', '(', '`', '*', '[']) || rest.starts_with("skye"),
            _ => true,
        };
        if is_end {
            sentences.push(&text[start..end.start() + usize::from(is_full_stop)]);
            start = end.end();
        }
    }
    sentences.push(&text[start..]);
    sentences
}

/// Joins lines to paragraphs, each with the number of its first line. Skips code and headings.
pub(super) fn paragraphs<'t>(lines: impl Iterator<Item = (usize, &'t str)>) -> Vec<(usize, String)> {
    let (mut found, mut block, mut is_code) = (Vec::new(), Vec::new(), false);
    let (mut start, mut last) = (0, 0);
    for (number, line) in lines.chain([(usize::MAX, "")]) {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        is_code ^= is_fence;
        let is_start = || number != last + 1 || is_fence || PARAGRAPH_START.is_match(line);
        if !block.is_empty() && is_start() {
            found.push((start, block.join(" ")));
            block.clear();
        }
        if block.is_empty() {
            start = number;
        }
        last = number;
        if !trimmed.is_empty() && !is_code && !is_fence && !trimmed.starts_with('#') {
            let bullet = BULLET.find(line).map_or(0, |bullet| bullet.end());
            block.push(line[bullet..].trim());
        }
    }
    found
}

/// Returns the paragraphs of all doc comments.
pub(super) fn comments(tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    let comment = |token: &Token<'_>| {
        let lines = ["///", "//!"].iter().find_map(|marker| token.text.strip_prefix(marker));
        lines.filter(|_| token.kind == Kind::Comment).map(|text| (token.line, text.to_owned()))
    };
    let comments: Vec<_> = tokens.iter().filter_map(comment).collect();
    paragraphs(comments.iter().map(|(line, text)| (*line, text.as_str())))
}

/// Returns the texts of a file that a user may read, without their quotes.
pub(super) fn texts(path: &str, code: &str, tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    if path.starts_with("xtask") || NO_TEXTS.iter().any(|part| path.contains(part)) {
        return Vec::new();
    }
    let tests = code.lines().position(|line| line == "#[cfg(test)]").map_or(usize::MAX, |index| index + 1);
    let literals = tokens.iter().filter(|token| token.kind == Kind::Text && token.line < tests);
    let text = |token: &Token<'_>| {
        let text = CONTINUATION.replace_all(token.text, "");
        // A text loses a first `b` and a last `r` of its own, too: a phrase that ends with `for` is not found at its end.
        let text = text.trim_matches(['b', 'r', '#', '"']);
        let is_prose = text.split_whitespace().count() >= TEXT_WORDS_MIN && !MARKUP.is_match(text);
        is_prose.then(|| (token.line, text.to_owned()))
    };
    literals.filter_map(text).collect()
}
