//! Rules about Rust code, as opposed to its comments and texts.

use super::tokens::{Kind, tokens};
use super::{File, Tree};

/// Where printing is allowed: the program, its developers' commands, and tests.
const MAY_PRINT: &[&str] =
    &["crates/skye/src/", "crates/skye/build.rs", "xtask/", "/tests/", "/benches/", "/examples/"];
/// Where types may be serialised: formats of skye and of other programs, frames between hosts, messages between
/// processes of one version.
const MAY_SERIALISE: &[&str] = &[
    "crates/model/",
    "crates/family/",
    "crates/fleet/",
    "crates/engine/src/",
    "crates/rig/src/",
    "xtask/src/metadata.rs",
    "xtask/src/lab/case.rs",
    "xtask/src/lab/kernels.rs",
    "xtask/src/rigs/random/corpus.rs",
    "xtask/src/tidy/dependencies.rs",
    "xtask/src/tidy/english/table.rs",
];
/// Where code of a format may be called, each place with its reason. Each call makes a copy of all code of a type.
const MAY_READ_AND_WRITE: &[(&str, &str)] = &[
    ("crates/model/", "it reads and writes all documents, frames and markers"),
    (
        "crates/engine/src/stdio/protocol.rs",
        "messages to and from a user's program, of types that it has alone",
    ),
    ("crates/family/src/gobonniego/read.rs", "files of another program"),
    ("crates/rig/src/lines.rs", "replies of a rig, of types that it has alone"),
    ("crates/rig/src/step.rs", "lines of a journal, of types that it has alone"),
];
/// Files of tests below `src`.
pub(super) const TESTS: &[&str] = &["/fixtures.rs", "/tests.rs", "/tests/", "/sample.rs", "/sample/"];
/// Where unsafe code may stand.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/engine/",
    "crates/fleet/src/mpi.rs",
    "crates/observe/src/block_device.rs",
    "crates/observe/src/extents.rs",
    "crates/observe/src/mapping_status.rs",
    "crates/observe/src/openers.rs",
    "crates/observe/src/residency.rs",
    "crates/observe/src/subvolume.rs",
    "crates/observe/src/xfs_geometry.rs",
    "crates/observe/tests/no_allocation.rs",
    "crates/skye/src/memory.rs",
    "crates/skye/tests/known_answers/waiting/pinned.rs",
    "crates/skye/tests/support/program.rs",
    "xtask/loops/src/bare_bytes.rs",
    "xtask/src/bench/bare_ring.rs",
];
/// Crates that judge and report: their sentences are in `wording`.
const HAS_NO_SENTENCES: &[&str] = &["crates/judge/src/", "crates/report/src/"];
/// Files whose sentences are captions of drawings, headings, or errors of documents that cannot be read; and tests.
const MAY_HAVE_SENTENCES: &[&str] = &[
    "crates/report/src/answer.rs",
    "crates/report/src/html/",
    "crates/report/src/compare/",
    "crates/report/src/json.rs",
    "crates/report/src/list.rs",
    "crates/report/src/openmetrics.rs",
    "crates/report/src/trend.rs",
    "crates/report/src/text/doctor.rs",
    "crates/report/src/text/dry_run.rs",
    "crates/report/src/text/footer.rs",
    "crates/report/src/text/preamble.rs",
    "crates/report/src/text/selftest.rs",
    "crates/report/src/sample",
    "/fixtures.rs",
    "/tests.rs",
    "/tests/",
];
/// A text of at least this many words is a sentence.
const SENTENCE_WORDS_MIN: usize = 5;
/// Lines above an `unsafe` in which its reason must begin.
const SAFETY_LINES: usize = 8;

pub(super) fn allowed(file: &File, places: &[&str]) -> bool {
    places.iter().any(|place| match place.starts_with('/') {
        true => file.path.contains(place),
        false => file.path.starts_with(place),
    })
}

pub(super) fn printing(tree: &Tree) -> Vec<String> {
    let macros = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs").filter(|file| !allowed(file, MAY_PRINT)) {
        for (number, line) in numbered(file.code()) {
            if let Some(found) = macros.iter().find(|name| has_word(line, name)) {
                complaints.push(format!("{}:{number}: {found}", file.path));
            }
        }
    }
    complaints
}

pub(super) fn serialisation(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs").filter(|file| !allowed(file, MAY_SERIALISE)) {
        let code = file.code();
        for (at, _) in code.match_indices("derive(") {
            let list = code[at..].split(')').next().unwrap_or_default();
            if has_word(list, "Serialize") || has_word(list, "Deserialize") {
                let number = code[..at].lines().count().max(1);
                complaints.push(format!("{}:{number}: derives serde's traits", file.path));
            }
        }
    }
    complaints
}

pub(super) fn formats(tree: &Tree) -> Vec<String> {
    let calls =
        ["serde_json::from_", "serde_json::to_", "serde_json::Deserializer", "serde_json::Serializer"];
    let calls = calls.iter().chain(&["toml::from_", "toml::to_"]);
    let places: Vec<_> = MAY_READ_AND_WRITE.iter().map(|(place, _)| *place).collect();
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs").filter(|file| file.path.starts_with("crates/")) {
        if !file.path.contains("/src/") || allowed(file, TESTS) || allowed(file, &places) {
            continue;
        }
        for (number, line) in numbered(before_tests(file.code())) {
            if let Some(found) = calls.clone().find(|call| line.contains(**call)) {
                complaints.push(format!("{}:{number}: {found}", file.path));
            }
        }
    }
    complaints
}

/// Returns the code of a file before its tests.
pub(super) fn before_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

pub(super) fn unsafe_code(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs") {
        let lines: Vec<_> = file.text.lines().collect();
        for (number, line) in numbered(file.code()) {
            if !has_word(line, "unsafe") {
                continue;
            }
            if !allowed(file, MAY_BE_UNSAFE) {
                complaints.push(format!("{}:{number}: unsafe code", file.path));
            }
            let above = &lines[number.saturating_sub(SAFETY_LINES + 1)..number];
            if !above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                complaints.push(format!("{}:{number}: unsafe without a SAFETY comment", file.path));
            }
        }
    }
    complaints
}

pub(super) fn banned_words(tree: &Tree) -> Vec<String> {
    // Written in parts, so that this file does not offend its own rule.
    let words =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("unimplemented", "!")];
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (number, line) in numbered(&file.text) {
            if let Some(found) = words.iter().find(|word| has_word(line, word)) {
                complaints.push(format!("{}:{number}: {found}", file.path));
            }
        }
    }
    complaints
}

pub(super) fn sentences(tree: &Tree) -> Vec<String> {
    let rooms = tree.with_extension("rs").filter(|file| allowed(file, HAS_NO_SENTENCES));
    let mut complaints = Vec::new();
    for file in rooms.filter(|file| !allowed(file, MAY_HAVE_SENTENCES)) {
        for (number, literal) in literals(before_tests(&file.text)) {
            let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_lowercase() || c == '\'');
            let words = literal.split([' ', '\n', ',', '.', ':', ';']).filter(is_word).count();
            if words >= SENTENCE_WORDS_MIN {
                complaints.push(format!("{}:{number}: a sentence outside of wording", file.path));
            }
        }
    }
    complaints
}

/// The string literals of a Rust file, each with the number of its line.
fn literals(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let texts = tokens(text).into_iter().filter(|token| token.kind == Kind::Text);
    texts.map(|token| (token.line, token.text))
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Returns true if a text contains a word that is not part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(|c| !word.ends_with('!') && part_of_word(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;

    #[test]
    fn printing_outside_the_program_is_found() {
        let code = "fn x() { println!(\"y\"); }";
        assert_eq!(printing(&tree(&[("crates/run/src/x.rs", code)])), ["crates/run/src/x.rs:1: println!"]);
        assert_eq!(printing(&tree(&[("crates/run/src/x.rs", "dbg!(x)")])).len(), 1);
        let quiet = "// println!\nlet x = \"println!\"; my_println!(x)";
        for (path, code) in
            [("crates/run/src/x.rs", quiet), ("crates/skye/src/x.rs", code), ("crates/run/tests/x.rs", code)]
        {
            assert_eq!(printing(&tree(&[(path, code)])), NONE);
        }
    }

    #[test]
    fn serialisation_outside_the_model_is_found() {
        let code = "\n#[derive(Debug, serde::Serialize)]\nstruct X;";
        assert_eq!(serialisation(&tree(&[("crates/model/src/x.rs", code)])), NONE);
        let complaints = serialisation(&tree(&[("crates/run/src/x.rs", code)]));
        assert_eq!(complaints, ["crates/run/src/x.rs:2: derives serde's traits"]);
        let split = "#[cfg_attr(x, derive(\n Clone,\n Deserialize,\n))]";
        assert_eq!(serialisation(&tree(&[("crates/run/src/x.rs", split)])).len(), 1);
        assert_eq!(serialisation(&tree(&[("crates/run/src/x.rs", "#[derive(Clone)]")])), NONE);
    }

    #[test]
    fn formats_outside_the_model_are_found() {
        let code =
            "fn x() {\n serde_json::from_str(text) }\n#[cfg(test)]\nmod tests { serde_json::to_string(x) }";
        let complaints = formats(&tree(&[("crates/fleet/src/x.rs", code)]));
        assert_eq!(complaints, ["crates/fleet/src/x.rs:2: serde_json::from_"]);
        assert_eq!(formats(&tree(&[("crates/skye/src/x.rs", "toml::to_string_pretty(x)")])).len(), 1);
        for path in
            ["crates/model/src/x.rs", "crates/judge/src/tests.rs", "crates/skye/tests/x.rs", "xtask/src/x.rs"]
        {
            assert_eq!(formats(&tree(&[(path, code)])), NONE, "{path}");
        }
    }

    #[test]
    fn misplaced_or_unexplained_unsafe_code_is_found() {
        let explained = "// SAFETY: it is.\nunsafe { x() }";
        assert_eq!(unsafe_code(&tree(&[("crates/engine/src/x.rs", explained)])), NONE);
        assert_eq!(
            unsafe_code(&tree(&[("crates/run/src/x.rs", explained)])),
            ["crates/run/src/x.rs:2: unsafe code"]
        );
        assert_eq!(unsafe_code(&tree(&[("crates/engine/src/x.rs", "unsafe { x() }")])).len(), 1);
        let harmless = "#![forbid(unsafe_code)] // unsafe";
        assert_eq!(unsafe_code(&tree(&[("crates/run/src/x.rs", harmless)])), NONE);
    }

    #[test]
    fn sentences_outside_of_wording_are_found() {
        let code = "fn x() {\n format!(\"the device moved {ratio} bytes for this test\") }";
        let complaint = "crates/judge/src/x.rs:2: a sentence outside of wording";
        assert_eq!(sentences(&tree(&[("crates/judge/src/x.rs", code)])), [complaint]);
        assert_eq!(sentences(&tree(&[("crates/report/src/text/notes.rs", code)])).len(), 1);
        for path in ["crates/wording/src/x.rs", "crates/report/src/html/x.rs", "crates/judge/src/tests/x.rs"]
        {
            assert_eq!(sentences(&tree(&[(path, code)])), NONE, "{path}");
        }
        let short = "// the device moved bytes for this test\n\"device busy\"\n#[cfg(test)]\nmod tests { \"a b the device moved bytes\" }";
        assert_eq!(sentences(&tree(&[("crates/judge/src/x.rs", short)])), NONE);
    }

    #[test]
    fn todo_markers_are_found() {
        for word in [concat!("// TO", "DO: later"), concat!("unimplemented", "!(\"x\")"), concat!("X", "XX")]
        {
            assert_eq!(banned_words(&tree(&[("docs/x.md", word)])).len(), 1, "{word}");
        }
        // The pattern of a temporary name is no mark.
        assert_eq!(banned_words(&tree(&[("docs/x.md", concat!("skye.XX", "XXXX"))])), NONE);
    }
}
