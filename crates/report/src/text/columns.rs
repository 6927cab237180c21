//! Alignment: a line on which every cell ends, or has its decimal point, at a fixed column.

use super::style::paint;

/// Blanks before every row.
pub(crate) const INDENT: usize = 2;
/// Least width of name and label together: with it, a table has 80 columns.
pub(crate) const SUBJECT_WIDTH_MIN: usize = 24;
/// Most of it: room for a label of 36 characters.
pub(crate) const SUBJECT_WIDTH_MAX: usize = NAME_WIDTH + 1 + 36;
/// Least width of the name, so that labels stand beneath each other.
pub(crate) const NAME_WIDTH: usize = 8;
/// Least width of the pattern, the first word of a data test's label: "SEQ128K".
pub(crate) const PATTERN_WIDTH: usize = 7;

/// Where the columns end. All of them move with the width of the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    /// The subject: name and label.
    pub subject_end: usize,
    /// The whole part of MB/s: room for 999,999 before it.
    pub megabytes_end: usize,
    /// The whole part of operations per second: room for 12,345,678 before it.
    pub ops_end: usize,
    /// How far the 95 % interval of the rate reaches; before it there is room for the fraction of a small rate.
    pub interval_end: usize,
    /// The percentiles.
    pub latency_ends: [usize; 3],
    /// The mark, and with it the row.
    pub mark_end: usize,
}

impl Columns {
    /// The columns beside subjects of that width.
    pub(crate) const fn beside(subject_width: usize) -> Self {
        let subject_end = INDENT + subject_width;
        let megabytes_end = subject_end + 8;
        let ops_end = megabytes_end + 11;
        let interval_end = ops_end + 9;
        let latency_ends = [interval_end + 8, interval_end + 16, interval_end + 24];
        Self {
            subject_end,
            megabytes_end,
            ops_end,
            interval_end,
            latency_ends,
            mark_end: latency_ends[2] + 2,
        }
    }
}

/// A line under construction. Cells come from left to right, and there is a blank between any two.
#[derive(Debug, Default)]
pub(crate) struct Line {
    text: String,
    width: usize,
}

impl Line {
    /// Places a cell so that its first character stands at `column`, or further right where that is taken.
    pub(crate) fn left(&mut self, column: usize, cell: &str, style: anstyle::Style) {
        let taken = if self.width == 0 { 0 } else { self.width + 1 };
        let start = column.max(taken);
        self.text.extend(std::iter::repeat_n(' ', start - self.width));
        self.text.push_str(&paint(style, cell));
        self.width = start + cell.chars().count();
    }

    /// Places a cell so that it ends before `column`.
    pub(crate) fn right(&mut self, column: usize, cell: &str, style: anstyle::Style) {
        self.left(column.saturating_sub(cell.chars().count()), cell, style);
    }

    /// Places a number so that its whole part ends before `column` and its fraction hangs over.
    pub(crate) fn decimal(&mut self, column: usize, cell: &str, style: anstyle::Style) {
        let whole = cell.find('.').map_or(cell, |point| &cell[..point]);
        self.left(column.saturating_sub(whole.chars().count()), cell, style);
    }

    /// The line.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// The text in at most `width` characters; where it is cut, "…" says so.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The end of the text in at most `width` characters: of a path, the end says most.
pub(crate) fn fit_end(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length - width.saturating_sub(1)).collect();
    format!("…{kept}")
}
