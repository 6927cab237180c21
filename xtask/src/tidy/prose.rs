//! Rules about comments as English.

use super::Tree;

/// Words that no doc comment starts with: a noun or a verb says sooner what follows.
const OPENINGS: &[&str] = &["What", "Whether", "Who", "Whose", "Whom", "Whoever", "Of", "So many", "So much"];
/// Most words of a sentence.
const WORDS_MAX: usize = 25;

pub(super) fn openings(tree: &Tree) -> Vec<String> {
    complaints(tree, |paragraph| {
        let begins = |opening: &&&str| {
            let rest = paragraph.strip_prefix(**opening);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        OPENINGS.iter().find(begins).map(|opening| format!("a comment starts with `{opening}`"))
    })
}

pub(super) fn lengths(tree: &Tree) -> Vec<String> {
    complaints(tree, |paragraph| {
        let longest = words_of_sentences(paragraph).into_iter().max()?;
        (longest > WORDS_MAX).then(|| format!("a sentence of {longest} words, at most {WORDS_MAX}"))
    })
}

/// A complaint for each paragraph of a doc comment that has one.
fn complaints(tree: &Tree, complaint: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("rs") {
        for (number, paragraph) in paragraphs(&file.text) {
            complaints.extend(
                complaint(&paragraph)
                    .map(|complaint_text| format!("{}:{number}: {complaint_text}", file.path)),
            );
        }
    }
    complaints
}

/// The paragraphs and list items of doc comments, each with the number of its first line. Examples, headings and tables
/// are no prose.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut is_open, mut is_example) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = ["///", "//!"].iter().find_map(|marker| line.strip_prefix(marker));
        let Some(comment) = comment else {
            (is_open, is_example) = (false, false);
            continue;
        };
        let words = comment.trim();
        if words.starts_with("```") {
            (is_open, is_example) = (false, !is_example);
        } else if is_example || words.is_empty() || words.starts_with(['#', '|']) {
            is_open = false;
        } else if let Some(item) = words.strip_prefix("- ") {
            found.push((index + 1, item.to_owned()));
            is_open = true;
        } else if let Some((_, paragraph)) = found.last_mut().filter(|_| is_open) {
            paragraph.push(' ');
            paragraph.push_str(words);
        } else {
            found.push((index + 1, words.to_owned()));
            is_open = true;
        }
    }
    found
}

/// Words of each sentence of a paragraph; code counts as one word.
fn words_of_sentences(paragraph: &str) -> Vec<usize> {
    let parts = paragraph.split('`').enumerate();
    let text: String = parts.map(|(at, part)| if at % 2 == 0 { part } else { "x" }).collect();
    let mut counts = vec![0];
    let mut has_ended = false;
    for word in text.split_whitespace() {
        let begins = word.starts_with(|c: char| c.is_uppercase() || "\"([".contains(c));
        if has_ended && begins {
            counts.push(0);
        }
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
        has_ended = word.ends_with(['.', '!', '?']);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    #[test]
    fn openings_that_hide_the_subject_are_found() {
        let code = "//! Whether it holds.\n\n/// Of a file.\nfn a() {}\n/// Offsets.\n///\n/// So many.\nfn b() {}\n";
        let complaints = openings(&tree(&[("a.rs", code)]));
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert_eq!(complaints[0], "a.rs:1: a comment starts with `Whether`");
        assert_eq!(openings(&tree(&[("a.rs", "// What is no doc comment.\n")])).len(), 0);
    }

    #[test]
    fn long_sentences_are_found_and_code_is_one_word() {
        let sentence = |count: usize| format!("/// {}.\n", vec!["Word"; count].join("\n/// "));
        let complaints = |code: &str| lengths(&tree(&[("a.rs", code)]));
        assert_eq!(complaints(&sentence(25)).len(), 0);
        assert_eq!(complaints(&sentence(26)), ["a.rs:1: a sentence of 26 words, at most 25"]);
        let code = format!("/// {} `{}`.\n", "word ".repeat(24), "word ".repeat(9));
        assert_eq!(complaints(&code).len(), 0);
        let example = format!("/// ```\n{}/// ```\n", sentence(30));
        assert_eq!(complaints(&example).len(), 0);
        let two = format!("{}{}", sentence(20), sentence(20));
        assert_eq!(complaints(&two).len(), 0);
    }
}
