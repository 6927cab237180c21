//! Rules about names, where they are defined.

use super::super::tokens::{Kind, Token};
use super::Finding;
use super::table::Table;

/// Words and signs with which a type begins that makes a name before a colon a field or a parameter.
const PRIMITIVES: &[&str] = &[
    "bool", "u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "f32", "f64", "str", "char", "impl",
    "dyn", "&", "[",
];
/// Most words and characters of a test's name.
const TEST_WORDS_MAX: usize = 9;
const TEST_CHARACTERS_MAX: usize = 60;
/// Files of command lines: a field that is one word is an option of that name.
const COMMAND_LINES: &[&str] = &["cli.rs", "arguments.rs"];

/// Returns the findings about the names that a file defines.
pub(super) fn check(path: &str, tokens: &[Token<'_>], table: &Table) -> Vec<Finding> {
    let is_code = |token: &&Token<'_>| !matches!(token.kind, Kind::Comment | Kind::Space);
    let code: Vec<_> = tokens.iter().filter(is_code).copied().collect();
    let none = Token { kind: Kind::Sign, text: "", line: 0 };
    let get = |at: usize| code.get(at).copied().unwrap_or(none);
    let (mut found, mut is_test) = (Vec::new(), false);
    for (at, token) in code.iter().enumerate() {
        let (next, after) = (get(at + 1), get(at + 2).text);
        let (name, is_name) = (next.text, next.kind == Kind::Word);
        is_test |= token.text == "#" && name == "[" && after == "test";
        if token.kind != Kind::Word {
            continue;
        }
        let (defined, broken) = match token.text {
            "fn" if is_name && is_test => {
                is_test = false;
                (next, test_rules(name, table))
            }
            "fn" if is_name => (next, function_rule(name, table).into_iter().collect()),
            "struct" | "enum" | "trait" if is_name => (next, type_rule(name, table).into_iter().collect()),
            "mod" | "const" | "static" | "let" | "mut" if is_name => {
                (next, part_rule(name, &parts(name), table).into_iter().collect())
            }
            _ if name == ":" => {
                let before = if at == 0 { "" } else { get(at - 1).text };
                (*token, declared_rules(path, [before, token.text, after, get(at + 3).text], table))
            }
            _ => continue,
        };
        let finding = |(rule, hint)| Finding { rule, line: defined.line, found: defined.text.into(), hint };
        found.extend(broken.into_iter().map(finding));
    }
    found
}

/// A rule and its hint.
type Broken = (&'static str, String);

/// Returns the rules that a field or a parameter breaks: `before NAME: after then`.
fn declared_rules(path: &str, [before, name, after, then]: [&str; 4], table: &Table) -> Vec<Broken> {
    let is_type = PRIMITIVES.contains(&after)
        || after.starts_with(char::is_uppercase) && ![":", "{", "("].contains(&then);
    if !is_type || !["{", ",", "pub", ")", "]", "("].contains(&before) {
        return Vec::new();
    }
    let is_bare_flag = after == "bool"
        && before != "("
        && [",", "}"].contains(&then)
        && !name.contains('_')
        && !COMMAND_LINES.iter().any(|ending| path.ends_with(ending));
    let flag = is_bare_flag.then(|| ("bool-name", "is_, has_, can_, or a verb with its object".into()));
    part_rule(name, &split(name), table).into_iter().chain(flag).collect()
}

fn type_rule(name: &str, table: &Table) -> Option<Broken> {
    let parts = parts(name);
    let mut lone = table.lone.anything.iter().chain(&table.lone.types);
    if parts.len() == 1 && lone.any(|word| *word == parts[0]) {
        return Some(("type-name", "a noun of the field: what is it?".into()));
    }
    part_rule(name, &parts, table)
}

fn function_rule(name: &str, table: &Table) -> Option<Broken> {
    if table.lone.anything.iter().any(|word| word == name) {
        return Some(("fn-name", "a verb, or the noun that it returns".into()));
    }
    if name.starts_with("of_") {
        return Some(("of-name", "from_X (a conversion), X_of or for_X".into()));
    }
    part_rule(name, &split(name), table)
}

fn split(name: &str) -> Vec<String> {
    name.split('_').map(String::from).collect()
}

fn test_rules(name: &str, table: &Table) -> Vec<Broken> {
    let begins = |words: &[String]| {
        name.split_once('_').is_some_and(|(first, _)| words.iter().any(|word| word == first))
    };
    let opening = if begins(&table.tests.clauses) {
        Some(("test-clause", "begin with the subject: subject_condition_result".into()))
    } else if begins(&table.tests.articles) {
        Some(("test-article", "drop the article: tests sort by their subjects".into()))
    } else {
        None
    };
    let is_long = name.split('_').count() > TEST_WORDS_MAX || name.chars().count() > TEST_CHARACTERS_MAX;
    let limits = format!("at most {TEST_WORDS_MAX} words and {TEST_CHARACTERS_MAX} characters");
    opening.into_iter().chain(is_long.then_some(("test-length", limits))).collect()
}

/// Returns the rule that the first part of a name in the table breaks.
fn part_rule(name: &str, parts: &[String], table: &Table) -> Option<Broken> {
    let (part, hint) = parts.iter().find_map(|part| table.parts.get_key_value(part))?;
    // Terms of the field.
    let name = name.to_lowercase().replace("look_", "look");
    let is_term = name.contains("lookahead") || name.contains("lookup");
    (!is_term).then(|| ("word", format!("{part}: {hint}")))
}

/// Splits a name into its words, in lower case: `HTMLPage` and `HTML_PAGE` are `html` and `page`.
fn parts(name: &str) -> Vec<String> {
    let letters = name.as_bytes();
    let mut parts = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let is_lower = |at: usize| letters.get(at).is_some_and(u8::is_ascii_lowercase);
        let is_start = letter.is_ascii_uppercase() && (is_lower(at + 1) || at > 0 && is_lower(at - 1));
        if is_start || !letter.is_ascii_alphabetic() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| letter.is_ascii_alphabetic()) {
            part.push(char::from(letter.to_ascii_lowercase()));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
