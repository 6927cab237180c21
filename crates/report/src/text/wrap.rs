//! Paragraphs with a hanging indent.

use super::style::{Style, display_width};

/// Stands for a blank at which no line is broken. Foreign text never contains it, because it is not printable.
const GLUE: char = '\u{1f}';

/// Joins the text to one word for [`wrap`].
pub(crate) fn no_break(text: &str) -> String {
    text.replace(' ', "\u{1f}")
}

/// Restores the blanks of a joined text.
pub(crate) fn allow_breaks(text: &str) -> String {
    text.replace(GLUE, " ")
}

/// Units that stay on the line of their number.
const UNITS: [&str; 21] = [
    "%", "C", "us", "ns", "µs", "ms", "°C", "B", "KiB", "MiB", "GiB", "TiB", "B/s", "kB/s", "MB/s", "GB/s",
    "MB", "GB", "TB", "CPUs", "tests",
];

/// Joins numbers and their units for [`wrap`].
pub(crate) fn with_units(text: &str) -> String {
    let mut glued = String::with_capacity(text.len());
    for word in text.split(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', ':', ')']));
        let after_number = glued.ends_with(|c: char| c.is_ascii_digit());
        if !glued.is_empty() {
            glued.push_str(&if is_unit && after_number { no_break(" ") } else { " ".to_owned() });
        }
        glued.push_str(word);
    }
    glued
}

/// Words longer than this, such as lists of mount options, may be broken after a comma.
const WORD_MAX: usize = 30;

/// Breaks the text into lines of at most `width` columns; a longer word gets a separate line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let pieces =
            if display_width(word) > WORD_MAX { word.split_inclusive(',').collect() } else { vec![word] };
        for (index, piece) in pieces.into_iter().enumerate() {
            let length = display_width(piece);
            let blank = usize::from(index == 0 && used > 0);
            if used > 0 && used + blank + length > width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if index == 0 && used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.push_str(piece);
                used += length;
            }
        }
    }
    lines.iter().map(|line| allow_breaks(line)).collect()
}

/// A named line of the preamble or the footer: ` target /mnt/data: …`, continued under its text.
pub(crate) fn field(name: &str, text: &str, style: &Style) -> String {
    hanging(&format!("  {name:<8} "), text, style)
}

/// Wraps a text behind a first word; its other lines begin below it.
pub fn hanging(first: &str, text: &str, style: &Style) -> String {
    let indent = display_width(first);
    let lines = wrap(&style.finish(text.to_owned()), style.paragraph().saturating_sub(indent).max(1));
    format!("{first}{}", lines.join(&format!("\n{:indent$}", "")))
}

/// Columns before the text of an entry whose first word has a separate line.
const ENTRY_INDENT: usize = 4;

/// An entry of a list: its first word, and a text that begins at a column. A longer word has a separate line.
pub(crate) fn entry(first: &str, text: &str, column: usize, style: &Style) -> String {
    match display_width(first) + 4 > column {
        true => format!("  {first}\n{}", hanging(&" ".repeat(ENTRY_INDENT), text, style)),
        false => hanging(&format!("  {first:<room$}", room = column - 2), text, style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_break_after_a_comma() {
        let options = "(rw,relatime,vers=4.2,rsize=1048576,wsize=1048576)";
        assert_eq!(
            wrap(&format!("nfs {options}"), 30),
            ["nfs (rw,relatime,vers=4.2,", "rsize=1048576,wsize=1048576)"]
        );
    }

    proptest! {
        #[test]
        fn wrapped_text_keeps_every_word(text in "[a-z, ]{0,200}", width in 40usize..100) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width || !line.contains(' ')));
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&lines.concat()), bare(&text));
        }
    }
}
