//! Capabilities of the terminal, and the few styles that carry meaning.

use anstyle::AnsiColor;
use unicode_width::UnicodeWidthStr;

use crate::printable;

/// Returns the columns that a text takes on a terminal. Characters of Chinese, Japanese or Korean take two.
pub(crate) fn display_width(text: &str) -> usize {
    text.width()
}

/// Capabilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// True if the terminal shows Unicode. If not, `us` stands for `µs`, other characters are replaced, and sparklines
    /// are missing or made of digits.
    pub has_unicode: bool,
    /// Width of the terminal in columns.
    pub width: usize,
}

/// Most width of paragraphs: longer lines tire the eye, however wide the terminal is.
const WIDTH_MAX: usize = 100;
/// Least width of paragraphs: narrower wrapping breaks more than it helps.
const WIDTH_MIN: usize = 40;

impl Style {
    /// Columns that paragraphs are wrapped to.
    pub(crate) fn paragraph(&self) -> usize {
        self.width.clamp(WIDTH_MIN, WIDTH_MAX)
    }

    /// Returns foreign text as this terminal can show it.
    pub(crate) fn foreign(&self, text: &str) -> String {
        self.finish(printable(text))
    }

    /// Returns the text as this terminal can show it. Characters that occur in columns have replacements of the same
    /// width.
    pub(crate) fn finish(&self, text: String) -> String {
        if self.has_unicode || text.is_ascii() {
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
                // The letter behind it is the unit.
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
/// Text that is not to be trusted.
pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// Marks.
pub(crate) const YELLOW: anstyle::Style = AnsiColor::Yellow.on_default();

/// The device is the limit, so the test measured what it was made for.
pub(crate) const GREEN: anstyle::Style = AnsiColor::Green.on_default();
/// Problems that make numbers worthless.
pub(crate) const RED: anstyle::Style = AnsiColor::Red.on_default().bold();

/// Returns the text in a style; a plain style adds no escape sequences.
pub(crate) fn paint(style: anstyle::Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
