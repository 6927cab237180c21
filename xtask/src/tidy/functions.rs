//! The length of functions.

use super::source::{TESTS, allowed, before_tests};
use super::tokens::{Kind, Token, tokens};
use super::{File, Tree};

/// Most lines of a function, from `fn` to its closing brace.
const LINES_MAX: usize = 70;
/// Reason for functions of the measuring loops.
const IN_LOOP: &str = "a step that is a call may cost instructions of a measuring loop";
/// Longer functions: path, name and reason.
const MAY_BE_LONG: &[(&str, &str, &str)] = &[
    ("crates/engine/src/files/flows.rs", "one", IN_LOOP),
    ("crates/engine/src/files/replay.rs", "one", IN_LOOP),
    ("crates/engine/src/sim.rs", "drive", IN_LOOP),
];

/// A function with a body.
struct Function<'a> {
    name: &'a str,
    /// Number of its first line.
    line: usize,
    lines: usize,
    /// Tokens between its braces.
    body: &'a [Token<'a>],
}

pub(super) fn lengths(tree: &Tree) -> Vec<String> {
    lengths_except(tree, MAY_BE_LONG)
}

/// Returns the complaints about functions that are long, and about exceptions for functions that are not.
fn lengths_except(tree: &Tree, exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let is_tested = |file: &&File| !allowed(file, TESTS) && !file.path.contains("/benches/");
    let mut complaints = Vec::new();
    let mut unused: Vec<_> = exceptions.iter().map(|(path, name, _)| (*path, *name)).collect();
    for file in tree.with_extension("rs").filter(is_tested) {
        let all: Vec<_> = tokens(before_tests(file.code()));
        let code: Vec<_> = all.into_iter().filter(|token| token.kind != Kind::Space).collect();
        for Function { name, line, lines, body } in functions(&code) {
            if lines <= LINES_MAX || is_one_expression(body) {
                continue;
            }
            match unused.iter().position(|known| *known == (file.path.as_str(), name)) {
                Some(index) => drop(unused.swap_remove(index)),
                None => complaints.push(format!("{}:{line}: {name} has {lines} lines", file.path)),
            }
        }
    }
    complaints.extend(unused.iter().map(|(path, name)| format!("{path}: {name} needs no exception")));
    complaints
}

/// Returns all functions of a code without comments, also those in others.
fn functions<'a>(code: &'a [Token<'a>]) -> impl Iterator<Item = Function<'a>> {
    let starts =
        code.windows(2).enumerate().filter(|(_, pair)| pair[0].text == "fn" && pair[1].kind == Kind::Word);
    starts.filter_map(|(start, pair)| {
        // An array in the signature has a semicolon in its brackets.
        let open = start + outermost(&code[start..]).find(|(_, token)| matches!(token.text, "{" | ";"))?.0;
        let close = open + outermost(&code[open..]).find(|(_, token)| token.text == "}")?.0;
        let line = pair[0].line;
        let lines = code[close].line - line + 1;
        (code[open].text == "{").then_some(Function {
            name: pair[1].text,
            line,
            lines,
            body: &code[open + 1..close],
        })
    })
}

/// Returns the tokens outside of all brackets, and the brackets that open and close the outermost, with their indices.
fn outermost<'a>(code: &'a [Token<'a>]) -> impl Iterator<Item = (usize, &'a Token<'a>)> {
    let mut depth = 0_usize;
    code.iter().enumerate().filter(move |(_, token)| {
        let is_opening = matches!(token.text, "(" | "[" | "{");
        let is_closing = matches!(token.text, ")" | "]" | "}");
        depth = depth.saturating_sub(usize::from(is_closing));
        let is_outermost = depth == 0;
        depth += usize::from(is_opening);
        is_outermost
    })
}

/// Returns true if a body is one match or one literal, after imports: a table, a value of a struct, or a chain of calls.
fn is_one_expression(body: &[Token<'_>]) -> bool {
    let mut rest = body;
    while rest.first().is_some_and(|first| first.text == "use") {
        let end = rest.iter().position(|token| token.text == ";").map_or(rest.len(), |at| at + 1);
        rest = &rest[end..];
    }
    let first = rest.iter().map(|token| token.text).find(|text| *text != "&").unwrap_or_default();
    let ends_with = |bracket: &str| {
        let end = outermost(rest).find(|(_, token)| token.text == bracket);
        end.is_some_and(|(at, _)| at + 1 == rest.len())
    };
    let is_statement = |token: &Token<'_>| {
        matches!(token.text, "let" | "if" | "for" | "while" | "loop" | "match" | "return")
    };
    match first {
        "match" => ends_with("}"),
        "[" | "vec" => ends_with("]"),
        _ => !rest.iter().any(is_statement) && !outermost(rest).any(|(_, token)| token.text == ";"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;

    /// Returns the complaints about a function with this beginning, that many lines, and this end.
    fn complaints(start: &str, line: &str, lines: usize, end: &str) -> Vec<String> {
        let middle = line.repeat(lines - 2);
        let code = format!("struct X;\nimpl X {{\n fn short() {{}}\n{start}\n{middle}{end}\n}}");
        lengths_except(&tree(&[("crates/run/src/x.rs", &code)]), &[])
    }

    #[test]
    fn long_functions_are_found() {
        let start = "pub fn x(a: [u8; 4]) -> u8 where u8: Y {";
        assert_eq!(complaints(start, "y(\"{\"); // {\n", 70, "}"), NONE);
        let complaint = "crates/run/src/x.rs:4: x has 71 lines";
        assert_eq!(complaints(start, "y(\"{\"); // {\n", 71, "}"), [complaint]);
        for (line, end) in [("a.b();\n", "}"), ("{}\n", "match a {} }"), ("", "\n\n if a { b } }")] {
            let line = format!("{line}\n");
            assert_eq!(complaints("fn x() {", &line, 80, end).len(), 1, "{line}{end}");
        }
    }

    #[test]
    fn match_or_literal_has_no_limit() {
        for (start, line, end) in [
            ("fn x(&self) -> u8 { match self {", "X => { let y = 1; y }\n", "} }"),
            ("fn x() -> u8 { use X::{self, Y}; match x() {", "Y => 1,\n", "} }"),
            ("fn x() -> X { Self {", "y: z(1),\n", "} }"),
            ("fn x() -> Vec<u8> { vec![", "if y { 1 } else { 2 },\n", "] }"),
            ("const fn x() -> &'static [u8] { &[", "1,\n", "] }"),
            ("fn x() -> X { X::new()", ".y(|z| z)\n", "}"),
            ("fn x();", "const Y: u8 = 1;\n", ""),
        ] {
            assert_eq!(complaints(start, line, 80, end), NONE, "{start}");
        }
        let after = "fn x() { match y {} let z = 1;";
        assert_eq!(complaints(after, "\n", 80, "}").len(), 1);
    }

    #[test]
    fn exceptions_are_for_long_functions() {
        let code = format!("fn x() {{ {} }}", "y();\n".repeat(80));
        let exceptions = [("crates/run/src/x.rs", "x", "a reason")];
        for path in ["crates/run/src/x/tests.rs", "crates/report/src/sample/x.rs"] {
            assert_eq!(lengths_except(&tree(&[(path, &code)]), &[]), NONE);
        }
        assert_eq!(lengths_except(&tree(&[(exceptions[0].0, &code)]), &exceptions), NONE);
        let complaint = "crates/run/src/x.rs: x needs no exception";
        assert_eq!(lengths_except(&tree(&[(exceptions[0].0, "fn x() {}")]), &exceptions), [complaint]);
    }
}
