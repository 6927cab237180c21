//! `skye explain`: a page about a limiter, and the list of all limiters.

use super::style::{BOLD, DIM, Style, paint};
use super::wrap::{entry, hanging};

/// Columns before a meaning in the list: two blanks, the longest code, two blanks.
const LIST_INDENT: usize = 23;
/// Minimum width of a meaning beside its code; a narrower one is on the next line.
const LIST_TEXT_MIN: usize = 40;

/// Renders a page about one limiter: its title, its code, and a text under each heading.
pub fn page(title: &str, code: &str, sections: &[(&str, String)], style: &Style) -> String {
    let mut blocks = vec![format!("{} {}", paint(BOLD, title), paint(DIM, &format!("· {code}")))];
    for (heading, text) in sections {
        blocks.push(entry(heading, text, 0, style));
    }
    style.finish(blocks.join("\n\n"))
}

/// Renders the list of all limiters, one line each: code and meaning. The text `after` follows.
pub fn index(entries: &[(&str, &str)], after: &str, style: &Style) -> String {
    let is_narrow = style.paragraph() < LIST_INDENT + LIST_TEXT_MIN;
    let column = if is_narrow { 0 } else { LIST_INDENT };
    let mut lines: Vec<_> =
        entries.iter().map(|(code, meaning)| entry(code, meaning, column, style)).collect();
    lines.push(String::new());
    lines.push(hanging("  ", after, style));
    style.finish(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const MEANING: &str = "The kernel copied from memory, and no device was asked: this is the speed of memory and of one CPU for each thread";

    #[test]
    fn explanation_page_and_index() {
        let page = page(
            "page cache",
            "page_cache",
            &[("Meaning", MEANING.to_owned()), ("Evidence", "None × 2.".to_owned())],
            &sample::WIDE,
        );
        let list = index(&[("page_cache_absorbed", MEANING), ("steal", "short")], MEANING, &sample::WIDE);
        let narrow = index(&[("steal", MEANING)], "more", &Style { has_unicode: false, ..sample::NARROW });
        insta::assert_snapshot!(sample::plain(&[page, list, narrow].join("\n----\n")));
    }
}
