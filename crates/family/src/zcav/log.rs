//! The output of zcav for one file: lines of offset, rate and time, and a summary of each pass.

use std::fmt;

use super::GIB;

/// Names of the columns.
pub(super) const HEADING: &str = "#block offset (GiB), MiB/s, time";
/// Sign for a rate whose time was too short.
pub(super) const TOO_FAST: &str = "++++";
/// Prefix of the number of passes.
pub(super) const LOOPS: &str = "#loops: ";
/// Prefix of a file's name if there are several files. Only skye prints it: the original distinguishes files by `-l`
/// alone.
pub(super) const DEVICE: &str = "# device ";

/// The results of one file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Name of the file, if known.
    pub name: String,
    /// Summary of each pass.
    pub passes: Vec<Pass>,
    /// Number of passes if several were requested. The summaries then come before the lines.
    pub loops: Option<u32>,
    /// Lines, front to back.
    pub lines: Vec<Line>,
    /// Decimals of offsets: 2 in the original.
    pub offset_decimals: usize,
}

/// Speed of a part of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Offset of the part, in GiB.
    pub offset_gib: f64,
    /// Rate in MiB/s; `None`: too fast to be timed.
    pub mib_per_second: Option<f64>,
    /// Time in seconds; for several passes, their trimmed mean.
    pub seconds: f64,
}

/// Summary of one pass over all blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Kind of the work.
    pub verb: Verb,
    /// Amount in MiB, cut to a whole number like all numbers here.
    pub mib: u64,
    /// Time in seconds.
    pub seconds: u64,
    /// Rate in MiB/s, by the exact time.
    pub mib_per_second: u64,
}

/// Kind of the work on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verb {
    /// The file was read.
    #[default]
    Read,
    /// Zeros were written.
    Wrote,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "Read",
            Self::Wrote => "Wrote",
        })
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, mib, seconds, mib_per_second } = self;
        write!(f, "# {verb} {mib} megs in {seconds} seconds, {mib_per_second} megabytes per second.")
    }
}

impl Line {
    /// Returns the line as it is printed, with this many decimals of the offset. Without a rate it is a comment.
    pub fn text(&self, offset_decimals: usize) -> String {
        let Self { offset_gib, mib_per_second, seconds } = self;
        match mib_per_second {
            Some(rate) => format!("{offset_gib:.offset_decimals$} {rate:.2} {seconds:.3}"),
            None => format!("#{offset_gib:.offset_decimals$} {TOO_FAST} {seconds:.3}"),
        }
    }

    /// Offset at which its bytes end if none were left out, in GiB; `None` without a rate.
    fn end_gib(&self) -> Option<f64> {
        self.mib_per_second.map(|rate| self.offset_gib + rate * self.seconds / 1024.0)
    }
}

impl Log {
    /// Returns the text before the lines.
    pub fn head(&self) -> String {
        let summaries = match self.loops {
            Some(loops) => format!("{}{LOOPS}{loops}\n", self.summaries()),
            None => String::new(),
        };
        format!("{summaries}{HEADING}\n")
    }

    /// Returns the lines that have a rate, each with its end in GiB. A line ends where the next one begins, because it
    /// may have left blocks out. The last line ends with its bytes.
    pub fn timed(&self) -> impl Iterator<Item = (&Line, f64)> {
        let next = |index: usize| self.lines.get(index + 1).map(|line| line.offset_gib);
        let all = self.lines.iter().enumerate();
        all.filter_map(move |(index, line)| line.end_gib().map(|end| (line, next(index).unwrap_or(end))))
    }

    /// Returns the text after the lines.
    pub fn tail(&self) -> String {
        if self.loops.is_none() { self.summaries() } else { String::new() }
    }

    /// Returns the name of the file as a comment, for output with several files.
    pub fn title(&self) -> String {
        format!("{DEVICE}{}\n", model::printable::printable(&self.name))
    }

    /// Returns the whole log, as zcav prints it.
    pub fn text(&self) -> String {
        let lines: String =
            self.lines.iter().map(|line| format!("{}\n", line.text(self.offset_decimals))).collect();
        format!("{}{lines}{}", self.head(), self.tail())
    }

    fn summaries(&self) -> String {
        self.passes.iter().map(|pass| format!("{pass}\n")).collect()
    }
}

/// Decimals that tell offsets at this distance apart: the original's two down to a hundredth of a GiB.
pub(super) fn offset_decimals(distance_bytes: u64) -> usize {
    if distance_bytes.saturating_mul(100) >= GIB { 2 } else { 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_original_form() {
        let line = |offset_gib, mib_per_second, seconds| Line { offset_gib, mib_per_second, seconds };
        assert_eq!(line(0.125, Some(352.8449), 23.2184).text(2), "0.12 352.84 23.218");
        assert_eq!(line(8.0, None, 0.0241).text(2), "#8.00 ++++ 0.024");
        assert_eq!(line(1.0 / 1024.0, Some(5.0), 0.2).text(4), "0.0010 5.00 0.200");
        assert_eq!((offset_decimals(16 << 20), offset_decimals(8 << 20)), (2, 4));
        assert_eq!(line(1.0, Some(512.0), 2.0).end_gib(), Some(2.0));
    }
}
