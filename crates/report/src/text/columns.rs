//! Alignment: a line on which every cell ends, or has its decimal point, at a fixed column.

use model::Percentile;

use super::style::{display_width, paint};

/// Blanks before every row.
pub(crate) const INDENT: usize = 2;
/// Least width of name and label together.
pub(crate) const SUBJECT_WIDTH_MIN: usize = 24;
/// Most width of name and label together: room for a label of 36 characters.
pub(crate) const SUBJECT_WIDTH_MAX: usize = NAME_WIDTH + 1 + 36;
/// Least width of the name, so that labels are aligned.
pub(crate) const NAME_WIDTH: usize = 8;
/// Least width of block and pattern of a data test: "128K rnd".
pub(crate) const PATTERN_WIDTH: usize = 8;

/// Room for the shortest form of every limiter, even with " (likely)" at its end. With this room, the narrowest table
/// has 80 columns.
pub(crate) const LIMITER_WIDTH_MIN: usize = 25;

/// Width of a latency, with the blanks before it.
const LATENCY_WIDTH: usize = 9;

/// Selection of columns. A narrower terminal has fewer, so that no line of a table is broken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    percentiles: &'a [Percentile],
    has_interval: bool,
}

impl<'a> Selection<'a> {
    /// Returns the most columns that fit beside subjects of that width. The interval goes first, then the lowest percentiles.
    /// `limiter_width` is 0 where no row has a limiter.
    pub(crate) fn fitting(
        subject_width: usize,
        percentiles: &'a [Percentile],
        limiter_width: usize,
        width: usize,
    ) -> Self {
        let last = percentiles.len().saturating_sub(1);
        let without = |first: usize| Self { percentiles: &percentiles[first..], has_interval: false };
        let most = std::iter::once(Self { percentiles, has_interval: true }).chain((0..=last).map(without));
        let fits = |selection: &Self| {
            let columns = Columns::new(subject_width, *selection);
            let end = if limiter_width > 0 { columns.limiter_start } else { columns.mark_end };
            end + limiter_width <= width
        };
        most.into_iter().find(fits).unwrap_or_else(|| without(last))
    }
}

/// Ends of the columns. All of them move with the width of the first.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// The subject: name and label.
    pub subject_end: usize,
    /// The whole part of MB/s: room for 999,999 before it.
    pub megabytes_end: usize,
    /// The whole part of operations per second: room for 12,345,678 before it.
    pub ops_end: usize,
    /// The half-width of the rate's 95 % interval; before it there is room for the fraction of a small rate.
    pub interval_end: Option<usize>,
    /// The percentiles of the latency, ascending, each with its end.
    pub latencies: Vec<(Percentile, usize)>,
    /// The mark: it is about the numbers before it.
    pub mark_end: usize,
    /// The limiter, which begins here, after the mark. Its width is not fixed.
    pub limiter_start: usize,
}

impl Columns {
    /// Returns the columns beside subjects of that width.
    pub(crate) fn new(subject_width: usize, selection: Selection<'_>) -> Self {
        let subject_end = INDENT + subject_width;
        let megabytes_end = subject_end + 7;
        let ops_end = megabytes_end + 10;
        let interval_end = selection.has_interval.then_some(ops_end + 6);
        let mut end = interval_end.unwrap_or(ops_end);
        let mut latency = |percentile: &Percentile| {
            end += LATENCY_WIDTH;
            (*percentile, end)
        };
        let latencies = selection.percentiles.iter().map(&mut latency).collect();
        let mark_end = end + 2;
        Self {
            subject_end,
            megabytes_end,
            ops_end,
            interval_end,
            latencies,
            mark_end,
            limiter_start: mark_end + 1,
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
    /// Places a cell so that it begins at `column`, or further right if that is taken.
    pub(crate) fn put_left(&mut self, column: usize, cell: &str, style: anstyle::Style) {
        let taken = if self.width == 0 { 0 } else { self.width + 1 };
        let start = column.max(taken);
        self.text.extend(std::iter::repeat_n(' ', start - self.width));
        self.text.push_str(&paint(style, cell));
        self.width = start + display_width(cell);
    }

    /// Places a cell so that it ends before `column`.
    pub(crate) fn put_right(&mut self, column: usize, cell: &str, style: anstyle::Style) {
        self.put_left(column.saturating_sub(display_width(cell)), cell, style);
    }

    /// Places a number so that its whole part ends before `column` and its fraction hangs over. One in scientific notation
    /// ends there: more than a fraction would hang over.
    pub(crate) fn put_decimal(&mut self, column: usize, cell: &str, style: anstyle::Style) {
        let whole = cell.find('.').filter(|_| !cell.contains('e')).map_or(cell, |point| &cell[..point]);
        self.put_left(column.saturating_sub(display_width(whole)), cell, style);
    }

    /// Returns the line.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// Cuts the text to at most `width` columns; "…" marks a cut.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(chars_max(width)).collect();
    while kept.pop().is_some() && display_width(&kept) + 1 > width {}
    format!("{}…", kept.trim_end())
}

/// Cuts the beginning of the text to at most `width` columns, because the end of a path says most.
pub(crate) fn fit_end(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let count = text.chars().count();
    let mut kept = text.chars();
    kept.by_ref().take(count.saturating_sub(chars_max(width))).for_each(drop);
    while kept.next().is_some() && display_width(kept.as_str()) + 1 > width {}
    format!("…{}", kept.as_str())
}

/// Returns the most characters of a text in that many columns. Some take none, but hardly half of them.
fn chars_max(width: usize) -> usize {
    width.saturating_mul(2).saturating_add(1)
}
