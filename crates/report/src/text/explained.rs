//! `skye explain`: a page about a limiter, and the list of all limiters.

use super::style::{BOLD, DIM, Style, paint};
use super::wrap::wrap;

/// Columns before the text of a page.
const INDENT: usize = 4;
/// Columns before a meaning in the list: two blanks, the longest code, two blanks.
const LIST_INDENT: usize = 23;
/// Minimum width of a meaning beside its code; a narrower one is on the next line.
const LIST_TEXT_MIN: usize = 40;

/// Renders a page about one limiter: its title, its code, and a text under each heading.
pub fn page(title: &str, code: &str, sections: &[(&str, String)], style: &Style) -> String {
    let mut blocks = vec![format!("{} {}", paint(BOLD, title), paint(DIM, &format!("· {code}")))];
    for (heading, text) in sections {
        let lines = wrapped(text, style.paragraph() - INDENT, style);
        blocks.push(format!("  {heading}\n{:INDENT$}{}", "", lines.join(&format!("\n{:INDENT$}", ""))));
    }
    style.finish(blocks.join("\n\n"))
}

/// Renders the list of all limiters, one line each: code and meaning. The text `after` follows.
pub fn index(entries: &[(&str, &str)], after: &str, style: &Style) -> String {
    let room = style.paragraph().saturating_sub(LIST_INDENT);
    let mut lines = Vec::new();
    for (code, meaning) in entries {
        if room < LIST_TEXT_MIN || code.len() > LIST_INDENT - 4 {
            let meaning_lines = wrapped(meaning, style.paragraph() - INDENT, style);
            lines.push(format!("  {code}"));
            lines.extend(meaning_lines.iter().map(|line| format!("{:INDENT$}{line}", "")));
            continue;
        }
        for (index, line) in wrapped(meaning, room, style).iter().enumerate() {
            let code = if index == 0 { code } else { "" };
            lines.push(format!("  {code:<width$}{line}", width = LIST_INDENT - 2));
        }
    }
    lines.push(String::new());
    lines.extend(wrapped(after, style.paragraph() - 2, style).iter().map(|line| format!("  {line}")));
    style.finish(lines.join("\n"))
}

fn wrapped(text: &str, width: usize, style: &Style) -> Vec<String> {
    wrap(&style.finish(text.to_owned()), width)
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
