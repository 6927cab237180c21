//! What the terminal can show, and the few styles that carry meaning.

use anstyle::AnsiColor;

use crate::printable;

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it shows Unicode; else `us` stands for `µs`, other characters are replaced, and there are no sparklines.
    pub unicode: bool,
    /// Its columns.
    pub width: usize,
}

/// Lines longer than this tire the eye, however wide the terminal is.
const WIDTH_MAX: usize = 100;
/// Narrower than this, wrapping breaks more than it helps.
const WIDTH_MIN: usize = 40;

impl Style {
    /// Columns that paragraphs are wrapped to.
    pub(crate) fn paragraph(&self) -> usize {
        self.width.clamp(WIDTH_MIN, WIDTH_MAX)
    }

    /// Text of others, as this terminal can show it.
    pub(crate) fn foreign(&self, text: &str) -> String {
        self.finish(printable(text))
    }

    /// The text as this terminal can show it. Replacements of what stands in columns are one character wide.
    pub(crate) fn finish(&self, text: String) -> String {
        if self.unicode || text.is_ascii() {
            return text;
        }
        let mut plain = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                'µ' | 'μ' => plain.push('u'),
                '·' | '–' | '—' => plain.push('-'),
                '×' => plain.push('x'),
                '±' => plain.push_str("+-"),
                '…' => plain.push('~'),
                // The unit is told by its letter.
                '°' => {}
                '→' => plain.push('>'),
                '←' => plain.push('<'),
                '“' | '”' => plain.push('"'),
                '‘' | '’' => plain.push('\''),
                c if c.is_ascii() => plain.push(c),
                c => plain.extend(c.escape_unicode()),
            }
        }
        plain
    }
}

/// The headline of a row.
pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// What is not to be trusted.
pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// Marks.
pub(crate) const YELLOW: anstyle::Style = AnsiColor::Yellow.on_default();

/// The device is the limit: what one came for was measured.
pub(crate) const GREEN: anstyle::Style = AnsiColor::Green.on_default();
/// What makes numbers worthless.
pub(crate) const RED: anstyle::Style = AnsiColor::Red.on_default().bold();

/// The text in a style; no escape sequences where the style is plain.
pub(crate) fn paint(style: anstyle::Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
