//! Values in the cells of a line, and their form in the family: rates, shares of the processor, latencies, sizes.

use super::Layout;

/// Shortest time that the family divides by, in seconds. For shorter times it prints plus signs.
pub const SHORTEST_SECONDS: f64 = 0.5;

/// Digits of a number that a double always gives back unchanged (`DBL_DIG`).
const DIGITS_MAX: usize = 15;

/// A rate, or a share of the processor in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Cell {
    /// Not measured, because the test was left out: an empty field.
    #[default]
    Absent,
    /// The test ended before it could be timed: `+++++` for a rate, `+++` for a share.
    TooFast,
    /// A finite number that is not negative.
    Number {
        /// Value in the unit of the column.
        value: f64,
        /// Digits after the point in the text.
        decimals: u8,
    },
}

impl Cell {
    /// A number cut off at the point, as the family writes most of its numbers. A negative or infinite value is absent,
    /// and so is a NaN.
    pub fn truncated(value: f64) -> Self {
        Self::rounded(value, value.trunc(), 0)
    }

    /// A number with one digit after the point.
    pub fn tenths(value: f64) -> Self {
        Self::rounded(value, value, 1)
    }

    fn rounded(value: f64, kept: f64, decimals: u8) -> Self {
        if value.is_finite() && value >= 0.0 {
            // The sum turns −0.0 into 0.0.
            Self::Number { value: kept + 0.0, decimals }
        } else {
            Self::Absent
        }
    }

    /// A rate of data (KiB/s) or of files (1/s) that was measured for `elapsed_seconds`.
    ///
    /// Too fast below [`SHORTEST_SECONDS`], absent if no time passed, otherwise the number cut off at the point.
    pub fn rate(per_second: f64, elapsed_seconds: f64) -> Self {
        Self::timed(elapsed_seconds, || Self::truncated(per_second))
    }

    /// A rate of seeks (1/s) that was measured for `elapsed_seconds`.
    ///
    /// It has one digit after the point: always in lines of 1.03, below 1000 in later ones.
    pub fn seek_rate(layout: Layout, per_second: f64, elapsed_seconds: f64) -> Self {
        Self::timed(elapsed_seconds, || match layout {
            Layout::V1_97 | Layout::V2_00 if per_second >= 1000.0 => Self::truncated(per_second),
            _ => Self::tenths(per_second),
        })
    }

    /// Share of one processor, in percent: `cpu_seconds` in `elapsed_seconds`.
    pub fn cpu(cpu_seconds: f64, elapsed_seconds: f64) -> Self {
        Self::timed(elapsed_seconds, || Self::truncated(cpu_seconds / elapsed_seconds * 100.0))
    }

    fn timed(elapsed_seconds: f64, figure: impl FnOnce() -> Self) -> Self {
        if elapsed_seconds >= SHORTEST_SECONDS {
            figure()
        } else if elapsed_seconds > 0.0 {
            Self::TooFast
        } else {
            Self::Absent
        }
    }

    /// Returns the number, if there is one.
    pub fn number(self) -> Option<f64> {
        match self {
            Self::Number { value, .. } => Some(value),
            Self::Absent | Self::TooFast => None,
        }
    }

    /// Returns the field of a rate: empty, `+++++` or the number.
    pub fn rate_text(self) -> String {
        self.text("+++++")
    }

    /// Returns the field of a share of the processor: empty, `+++` or the number.
    pub fn cpu_text(self) -> String {
        self.text("+++")
    }

    fn text(self, too_fast: &str) -> String {
        match self {
            Self::Number { value, decimals } if value.is_finite() => {
                format!("{value:.*}", usize::from(decimals))
            }
            Self::TooFast => too_fast.into(),
            Self::Absent | Self::Number { .. } => String::new(),
        }
    }

    /// Parses a field; `None` if it is no figure.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Absent);
        }
        if text.bytes().all(|byte| byte == b'+') {
            return Some(Self::TooFast);
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let decimals = if text.contains('.') { u8::try_from(part.len()).ok()? } else { 0 };
        let plain = is_digits(whole) && is_digits(part) && whole.len() + usize::from(decimals) <= DIGITS_MAX;
        let value = text.parse().ok().filter(|_| plain)?;
        Some(Self::Number { value, decimals })
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a whole number that has only digits; `None` also if it is too large.
pub(super) fn parse_count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| is_digits(text))
}

/// Formats the longest time of one operation as the family does: `11589us`, `453ms`, `132s`, cut off. The text is empty
/// without a latency and below a microsecond, where the family sees none.
pub fn latency_text(latency_ns: Option<u64>) -> String {
    match latency_ns.unwrap_or(0) / 1000 {
        0 => String::new(),
        us @ ..100_000 => format!("{us}us"),
        us @ ..100_000_000 => format!("{}ms", us / 1000),
        us => format!("{}s", us / 1_000_000),
    }
}

/// Parses a latency to nanoseconds; `None` if it is no latency, `Some(None)` for an empty field or a latency of zero.
pub(super) fn parse_latency(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    let (number, factor) = [("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)]
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let latency_ns = parse_count(number)?.checked_mul(factor)?;
    Some((latency_ns > 0).then_some(latency_ns))
}

/// Formats a size in MiB as the family does: `2G` for whole GiB, otherwise `1500M`.
pub(super) fn size_text(mib: u64) -> String {
    if mib.is_multiple_of(1024) { format!("{}G", mib / 1024) } else { format!("{mib}M") }
}

/// Parses a size to MiB: `1500M`, `2G`, `1T` in either case. A bare number is MiB too, as on the command line.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    with_suffix(text, &[("m", 1), ("g", 1024), ("t", 1 << 20)])
}

/// Formats a chunk in bytes as the family does: `1m`, `64k`, `512`.
pub(super) fn chunk_text(bytes: u64) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1024) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// Parses a chunk to bytes: `1m`, `64k`, `512` in either case.
pub(super) fn parse_chunk(text: &str) -> Option<u64> {
    with_suffix(text, &[("k", 1 << 10), ("m", 1 << 20)])
}

fn with_suffix(text: &str, suffixes: &[(&str, u64)]) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let found = suffixes.iter().find_map(|(suffix, factor)| Some((lower.strip_suffix(suffix)?, *factor)));
    let (number, factor) = found.unwrap_or((&lower, 1));
    parse_count(number)?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rate_is_truncated_and_short_time_gives_no_rate() {
        let formatted = |figure: Cell| figure.rate_text();
        assert_eq!(formatted(Cell::rate(1287.9, 2.3)), "1287");
        assert_eq!(formatted(Cell::rate(1e9, 0.499)), "+++++");
        assert_eq!(Cell::rate(5.0, 0.5).number(), Some(5.0));
        for nothing in [Cell::rate(5.0, 0.0), Cell::rate(f64::NAN, 1.0), Cell::rate(5.0, f64::NAN)] {
            assert_eq!(nothing, Cell::Absent);
        }
        assert_eq!(Cell::cpu(1.9, 2.0).cpu_text(), "95");
        assert_eq!(Cell::cpu(1.9, 0.1).cpu_text(), "+++");
    }

    #[test]
    fn seeks_have_a_decimal_where_the_originals_have_one() {
        let formatted = |layout, rate| Cell::seek_rate(layout, rate, 3.0).rate_text();
        assert_eq!(formatted(Layout::V2_00, 464.44), "464.4");
        assert_eq!(formatted(Layout::V2_00, 14355.8), "14355");
        assert_eq!(formatted(Layout::V1_97, 999.9), "999.9");
        assert_eq!(formatted(Layout::V1_03, 14355.8), "14355.8");
    }

    #[test]
    fn latencies_change_their_unit_where_the_originals_do() {
        let formatted: Vec<_> =
            [0, 999, 1000, 99_999_999, 100_000_000, 99_999_999_999, 100_000_000_000, u64::MAX]
                .map(|ns| latency_text(Some(ns)))
                .into();
        assert_eq!(formatted, ["", "", "1us", "99999us", "100ms", "99999ms", "100s", "18446744073s"]);
        assert_eq!(latency_text(None), "");
        assert_eq!(parse_latency("0us"), Some(None));
        for wrong in ["us", "5", "-5us", "5 us", "5ns", "99999999999999s"] {
            assert_eq!(parse_latency(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_and_chunks_are_parsed_and_formatted() {
        assert_eq!(
            ["1500M", "2G", "2g", "1T", "300"].map(parse_size),
            [1500, 2048, 2048, 1 << 20, 300].map(Some)
        );
        assert_eq!([1500, 2048, 1 << 20, 0].map(size_text), ["1500M", "2G", "1024G", "0G"]);
        assert_eq!(["64k", "512", "1m"].map(parse_chunk), [65536, 512, 1 << 20].map(Some));
        assert_eq!([65536, 512, 1 << 20, 1536, 0].map(chunk_text), ["64k", "512", "1m", "1536", "0"]);
        for wrong in ["", "M", "1.5G", "-1M", "99999999999999999999G", "18446744073709551615G", "2X"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn malformed_number_is_not_parsed() {
        for wrong in ["-1", "1e5", "nan", "inf", "1.", ".5", "1,5", "+5", "1.2.3", "k", "1234567890123456"] {
            assert_eq!(Cell::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn figures_read_back_as_they_were_written(whole in 0u64..1_000_000_000, part in "[0-9]{0,6}") {
            let text = if part.is_empty() { whole.to_string() } else { format!("{whole}.{part}") };
            prop_assert_eq!(Cell::parse(&text).unwrap().rate_text(), text);
        }

        #[test]
        fn any_text_fits_a_cell_without_panic(text in any::<String>()) {
            let _ = (Cell::parse(&text), parse_latency(&text), parse_size(&text), parse_chunk(&text));
        }

        #[test]
        fn latencies_read_back(ns in any::<u64>()) {
            let text = latency_text(Some(ns));
            prop_assert_eq!(latency_text(parse_latency(&text).unwrap()), text);
        }

        #[test]
        fn sizes_read_back(size in 0u64..1 << 40) {
            prop_assert_eq!(parse_size(&size_text(size)), Some(size));
            prop_assert_eq!(parse_chunk(&chunk_text(size)), Some(size));
        }
    }
}
