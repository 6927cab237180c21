//! Lines of text: a rate for each test on stdout, and lines with the time on stderr.

use std::fmt;

/// One line of GoBonnieGo's output.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// Sequential write, in 10^6 bytes per second.
    WriteMbPerSecond(f64),
    /// Sequential read, in 10^6 bytes per second.
    ReadMbPerSecond(f64),
    /// Operations per second.
    Iops(f64),
    /// A line with the time, from stderr.
    Stamped {
        /// The time as it is written: "2026/11/21 01:22:19".
        at: String,
        /// Message of the line.
        content: LineContent,
    },
}

/// Message of a line with the time.
#[derive(Debug, Clone, PartialEq)]
pub enum LineContent {
    /// The first line, which is also printed without `-v`.
    Starting {
        /// Version of GoBonnieGo.
        version: String,
        /// Requested number of runs.
        runs: u64,
        /// Requested seconds.
        seconds: u64,
        /// Threads of each test.
        threads: u64,
        /// Size over all threads, in MiB.
        size_mib: u64,
    },
    /// Number of CPUs.
    Cores(u64),
    /// Size of the memory, in MiB.
    MemoryMib(u64),
    /// Directory of the files.
    Directory(String),
    /// Written data, in MiB.
    WrittenMib(u64),
    /// Written data, in 10^6 bytes.
    WrittenMb(f64),
    /// Data that was read, in MiB.
    ReadMib(u64),
    /// Data that was read, in 10^6 bytes.
    ReadMb(f64),
    /// Length of the test, in seconds.
    Seconds(f64),
    /// Number of operations of the IOPS test.
    Operations(u64),
}

const WRITE: &str = "Sequential Write MB/s: ";
const READ: &str = "Sequential Read MB/s: ";
const IOPS: &str = "IOPS: ";
const STARTING: &str = "gobonniego starting. ";
const CORES: &str = "Number of CPU cores: ";
const MEMORY: &str = "Total system RAM (MiB): ";
const DIRECTORY: &str = "Bonnie working directory: ";
const WRITTEN_MIB: &str = "Written (MiB): ";
const WRITTEN_MB: &str = "Written (MB): ";
const READ_MIB: &str = "Read (MiB): ";
const READ_MB: &str = "Read (MB): ";
const SECONDS: &str = "Duration (seconds): ";
const OPERATIONS: &str = "operations ";
/// Keys of the first line, in their order.
const STARTING_KEYS: [&str; 5] = ["version", "runs", "seconds", "threads", "disk space to use (MiB)"];

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteMbPerSecond(rate) => write!(f, "{WRITE}{rate:.2}"),
            Self::ReadMbPerSecond(rate) => write!(f, "{READ}{rate:.2}"),
            Self::Iops(rate) => write!(f, "{IOPS}{rate:.0}"),
            Self::Stamped { at, content } => write!(f, "{at} {content}"),
        }
    }
}

impl fmt::Display for LineContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { version, runs, seconds, threads, size_mib } => {
                let values: [&dyn fmt::Display; 5] = [version, runs, seconds, threads, size_mib];
                f.write_str(STARTING)?;
                STARTING_KEYS.iter().zip(values).enumerate().try_for_each(|(index, (key, value))| {
                    write!(f, "{}{key}: {value}", if index == 0 { "" } else { ", " })
                })
            }
            Self::Cores(number) => write!(f, "{CORES}{number}"),
            Self::MemoryMib(number) => write!(f, "{MEMORY}{number}"),
            Self::Directory(path) => write!(f, "{DIRECTORY}{path}"),
            Self::WrittenMib(number) => write!(f, "{WRITTEN_MIB}{number}"),
            Self::WrittenMb(number) => write!(f, "{WRITTEN_MB}{number:.6}"),
            Self::ReadMib(number) => write!(f, "{READ_MIB}{number}"),
            Self::ReadMb(number) => write!(f, "{READ_MB}{number:.6}"),
            Self::Seconds(number) => write!(f, "{SECONDS}{number:.6}"),
            Self::Operations(number) => write!(f, "{OPERATIONS}{number}"),
        }
    }
}

/// Unexpected text in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnexpectedText {
    /// Bytes of the line before the text.
    pub(super) at_byte: usize,
    /// Text found there.
    pub(super) has: String,
    /// Text that was expected.
    pub(super) expected: &'static str,
}

/// Parses a line of GoBonnieGo, or returns `None` for foreign text.
pub(super) fn parse(text: &str) -> Option<Result<Line, UnexpectedText>> {
    let rate = |prefix: &str, make: fn(f64) -> Line| Some(real(text, prefix, text)?.map(make));
    rate(WRITE, Line::WriteMbPerSecond)
        .or_else(|| rate(READ, Line::ReadMbPerSecond))
        .or_else(|| rate(IOPS, Line::Iops))
        .or_else(|| stamped(text))
}

/// Form of the time: each zero is any digit, all else is literal.
const STAMP: &str = "0000/00/00 00:00:00";

fn stamped(text: &str) -> Option<Result<Line, UnexpectedText>> {
    let (at, rest) = (text.get(..STAMP.len())?, text.get(STAMP.len()..)?.strip_prefix(' ')?);
    let fits = |(have, want): (u8, u8)| if want == b'0' { have.is_ascii_digit() } else { have == want };
    if !at.bytes().zip(STAMP.bytes()).all(fits) {
        return None;
    }
    let line = |content: LineContent| Line::Stamped { at: at.to_owned(), content };
    Some(content(rest, text)?.map(line))
}

fn content(rest: &str, text: &str) -> Option<Result<LineContent, UnexpectedText>> {
    let parse_integer =
        |prefix: &str, make: fn(u64) -> LineContent| Some(parse_integer(rest, prefix, text)?.map(make));
    let real = |prefix: &str, make: fn(f64) -> LineContent| Some(real(rest, prefix, text)?.map(make));
    parse_integer(CORES, LineContent::Cores)
        .or_else(|| parse_integer(MEMORY, LineContent::MemoryMib))
        .or_else(|| parse_integer(WRITTEN_MIB, LineContent::WrittenMib))
        .or_else(|| parse_integer(READ_MIB, LineContent::ReadMib))
        .or_else(|| parse_integer(OPERATIONS, LineContent::Operations))
        .or_else(|| real(WRITTEN_MB, LineContent::WrittenMb))
        .or_else(|| real(READ_MB, LineContent::ReadMb))
        .or_else(|| real(SECONDS, LineContent::Seconds))
        .or_else(|| rest.strip_prefix(DIRECTORY).map(|path| Ok(LineContent::Directory(path.to_owned()))))
        .or_else(|| starting(rest.strip_prefix(STARTING)?, text))
}

fn starting(rest: &str, text: &str) -> Option<Result<LineContent, UnexpectedText>> {
    let value = |key: &str| rest.split(", ").find_map(|part| part.strip_prefix(key)?.strip_prefix(": "));
    let [version, counts @ ..] = STARTING_KEYS;
    let read = || {
        let mut numbers = [0; 4];
        for (number, key) in numbers.iter_mut().zip(counts) {
            *number = value(key)?.trim().parse().ok()?;
        }
        let [runs, seconds, threads, size_mib] = numbers;
        Some(LineContent::Starting { version: value(version)?.to_owned(), runs, seconds, threads, size_mib })
    };
    Some(read().ok_or_else(|| UnexpectedText {
        at_byte: text.len() - rest.len(),
        has: rest.to_owned(),
        expected: "version, runs, seconds, threads and disk space to use (MiB), each with its number",
    }))
}

/// Parses the whole number after a prefix, or returns `None` if the text has a different prefix.
fn parse_integer(rest: &str, prefix: &str, text: &str) -> Option<Result<u64, UnexpectedText>> {
    number(rest, prefix, text, "a whole number", |word| word.parse().ok())
}

/// Parses the number after a prefix, with or without a fraction. A negative number is no rate and no time, nor is one
/// that is not finite.
fn real(rest: &str, prefix: &str, text: &str) -> Option<Result<f64, UnexpectedText>> {
    let parse = |word: &str| word.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number(rest, prefix, text, "a number", parse)
}

fn number<N>(
    rest: &str,
    prefix: &str,
    text: &str,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<N>,
) -> Option<Result<N, UnexpectedText>> {
    let word = rest.strip_prefix(prefix)?;
    let wrong = || UnexpectedText { at_byte: text.len() - word.len(), has: word.to_owned(), expected };
    Some(parse(word.trim()).ok_or_else(wrong))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_other_programs_are_not_parsed() {
        let parsed = |text: &str| parse(text).map(|line| line.unwrap().to_string());
        for text in [
            "Sequential Write MB/s: 472.80",
            "Sequential Read MB/s: 10214.54",
            "IOPS: 353158",
            "2026/11/21 01:22:19 gobonniego starting. version: 1.0.10, runs: 1, seconds: 0, threads: 2, disk space to use (MiB): 1024",
            "2026/11/21 01:22:19 Bonnie working directory: /tmp/a b, c: 5",
            "2026/11/21 01:22:22 Written (MB): 1073.741824",
            "2026/11/21 01:22:25 operations 1060029",
        ] {
            assert_eq!(parsed(text).as_deref(), Some(text));
        }
        for text in [
            "",
            "IOPS",
            "real\t0m5.483s",
            "2026/11/21 01:22:19 something else",
            "2026-11-21 01:22:19 operations 5",
            "é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parsed(" IOPS: 5"), None, "indented: a key of JSON would be");
        assert_eq!(parsed("IOPS: 5 ").as_deref(), Some("IOPS: 5"));
    }

    #[test]
    fn invalid_number_is_reported_with_its_position() {
        let wrong = |text: &str| parse(text).unwrap().unwrap_err();
        for (text, at_byte, has) in [
            ("IOPS: fast", 6, "fast"),
            ("IOPS: -1", 6, "-1"),
            ("Sequential Write MB/s: +Inf", 23, "+Inf"),
            ("2026/11/21 01:22:19 operations 1.5", 31, "1.5"),
            ("2026/11/21 01:22:19 gobonniego starting. version: 1", 41, "version: 1"),
        ] {
            let wrong = wrong(text);
            assert_eq!((wrong.at_byte, wrong.has.as_str()), (at_byte, has), "{text}");
        }
    }

    fn any_line() -> impl Strategy<Value = Line> {
        let rate = 0.0..1e15;
        let content = (0..10, any::<u64>(), 0.0..1e15, "[0-9a-z.]{1,8}", "[^\r\n]{0,20}").prop_map(
            |(kind, number, real, version, path)| match kind {
                0 => {
                    LineContent::Starting { version, runs: number, seconds: 0, threads: 7, size_mib: number }
                }
                1 => LineContent::Cores(number),
                2 => LineContent::MemoryMib(number),
                3 => LineContent::Directory(path),
                4 => LineContent::WrittenMib(number),
                5 => LineContent::WrittenMb(real),
                6 => LineContent::ReadMib(number),
                7 => LineContent::ReadMb(real),
                8 => LineContent::Seconds(real),
                _ => LineContent::Operations(number),
            },
        );
        prop_oneof![
            rate.clone().prop_map(Line::WriteMbPerSecond),
            rate.clone().prop_map(Line::ReadMbPerSecond),
            rate.prop_map(Line::Iops),
            ("[0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}", content)
                .prop_map(|(at, content)| Line::Stamped { at, content }),
        ]
    }

    proptest! {
        #[test]
        fn written_line_reads_back_and_rewrites_identically(line in any_line()) {
            let text = line.to_string();
            let read = parse(&text).unwrap().unwrap();
            prop_assert_eq!(read.to_string(), text);
        }

        #[test]
        fn any_text_parses_without_panic(text: String) {
            let _ = parse(&text);
            let _ = parse(&format!("IOPS: {text}"));
            let _ = parse(&format!("2026/11/21 01:22:19 {text}"));
        }
    }
}
