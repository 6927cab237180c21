//! Sizes as people write them, and their one meaning everywhere in skye.
//!
//! `k K Ki KiB` are 1024 (likewise m, g, t in either case), and `kB MB GB TB` are powers of 1000. A number may also be
//! a share of the free space (`10%`) or a multiple of the memory (`2xRAM`).

use std::fmt;
use std::str::FromStr;

/// An amount of bytes, absolute or relative to the machine; [`Size::resolve`] makes it absolute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// That many bytes.
    Bytes(u64),
    /// A percentage of the free space of the target.
    PercentOfFree(f64),
    /// A multiple of the memory that this process may use.
    TimesMemory(f64),
}

impl Size {
    /// Returns the bytes that this size means where `free_bytes` are free and `memory_bytes` may be used.
    pub fn resolve(self, free_bytes: u64, memory_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::PercentOfFree(percent) => (free_bytes as f64 * percent / 100.0) as u64,
            Self::TimesMemory(times) => (memory_bytes as f64 * times) as u64,
        }
    }

    /// Returns an even share of this size.
    #[must_use]
    pub fn share(self, of: u64) -> Self {
        let of = of.max(1);
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes / of),
            Self::PercentOfFree(percent) => Self::PercentOfFree(percent / of as f64),
            Self::TimesMemory(times) => Self::TimesMemory(times / of as f64),
        }
    }
}

/// Reason why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Neither a number with a known suffix, nor a percentage, nor a multiple of memory.
    #[error("`{0}` is not a size; use for example 4096, 64k, 1m, 4GiB, 10GB, 10% (of free space) or 2xRAM")]
    Malformed(String),
    /// More than 2^64 - 1 bytes.
    #[error("`{0}` is larger than any file system (2^64 bytes)")]
    TooLarge(String),
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let malformed = || SizeError::Malformed(text.to_owned());
        let trimmed = text.trim();
        let digits_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(digits_end);
        let value: f64 = number.parse().map_err(|_| malformed())?;
        let suffix = suffix.trim();
        match suffix {
            "%" if value <= 100.0 => return Ok(Self::PercentOfFree(value)),
            _ if suffix.eq_ignore_ascii_case("xram") => return Ok(Self::TimesMemory(value)),
            _ => {}
        }
        let factor = suffix_factor(suffix).ok_or_else(malformed)?;
        // Whole numbers stay exact beyond 2^53, where a double no longer is.
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(factor),
            Err(_) if number.contains('.') => {
                let bytes = value * factor as f64;
                (bytes < u64::MAX as f64).then_some(bytes as u64)
            }
            Err(_) => None,
        };
        bytes.map(Self::Bytes).ok_or_else(|| SizeError::TooLarge(text.to_owned()))
    }
}

fn suffix_factor(suffix: &str) -> Option<u64> {
    const PREFIXES: [char; 4] = ['k', 'm', 'g', 't'];
    let mut characters = suffix.chars();
    let Some(prefix) = characters.next() else {
        return Some(1);
    };
    let rest = characters.as_str();
    if prefix.eq_ignore_ascii_case(&'b') && rest.is_empty() {
        return Some(1);
    }
    let position = PREFIXES.iter().position(|p| p.eq_ignore_ascii_case(&prefix))?;
    let power = u32::try_from(position).ok()? + 1;
    match rest {
        "" | "i" | "iB" => Some(1024u64.pow(power)),
        "B" => Some(1000u64.pow(power)),
        _ => None,
    }
}

impl fmt::Display for Size {
    /// Writes the shortest text that parses to the same size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => {
                let decimal = [(4, "TB"), (3, "GB"), (2, "MB")].into_iter().find_map(|(power, suffix)| {
                    let factor = 1000u64.pow(power);
                    (bytes >= factor && bytes.is_multiple_of(factor))
                        .then(|| format!("{}{suffix}", bytes / factor))
                });
                let binary = exact(bytes);
                f.write_str(&decimal.filter(|decimal| decimal.len() < binary.len()).unwrap_or(binary))
            }
            Self::PercentOfFree(percent) => write!(f, "{percent}%"),
            Self::TimesMemory(times) => write!(f, "{times}xRAM"),
        }
    }
}

/// Formats a byte count as the shortest exact size that skye's own parser reads back: 4096 is "4k", 1000 is "1000".
pub fn exact(bytes: u64) -> String {
    for (power, letter) in [(4, 't'), (3, 'g'), (2, 'm'), (1, 'k')] {
        let factor = 1u64 << (10 * power);
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{letter}", bytes / factor);
        }
    }
    bytes.to_string()
}

/// Returns a round number of bytes in its decimal unit, and the bytes of as many binary units: for 4000, "4kB" and 4096.
pub fn decimal_and_binary(bytes: u64) -> Option<(String, u64)> {
    let units = [(4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")];
    let fits = |(power, _): &(u32, &str)| bytes > 0 && bytes.is_multiple_of(1000u64.pow(*power));
    let (power, suffix) = units.into_iter().find(fits)?;
    let number = bytes / 1000u64.pow(power);
    Some((format!("{number}{suffix}"), number.checked_mul(1024u64.pow(power))?))
}

/// Formats a byte count for people, in powers of 1024 with three significant digits: "4 GiB", "612 MiB", "1.46 TiB".
pub fn binary(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// Formats a byte count for people, in powers of 1000 with three significant digits: "40 GB", "1.2 TB".
pub fn decimal(bytes: u64) -> String {
    scaled(bytes as f64, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Formats a count of things for people: in powers of 1024 where it is round in them ("64 Ki"), else in plain digits.
pub fn count(things: u64) -> String {
    for (factor, suffix) in [(1u64 << 20, "Mi"), (1 << 10, "Ki")] {
        if things >= factor && things.is_multiple_of(factor) {
            return format!("{} {suffix}", things / factor);
        }
    }
    things.to_string()
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = match value {
        v if unit == 0 || v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let mut text = format!("{value:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> u64 {
        match text.parse() {
            Ok(Size::Bytes(bytes)) => bytes,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn binary_and_decimal_suffixes_keep_their_meaning() {
        for text in ["4k", "4K", "4Ki", "4KiB", "4096", "4096B", " 4k "] {
            assert_eq!(bytes(text), 4096, "{text}");
        }
        assert_eq!(bytes("4kB"), 4000);
        assert_eq!(bytes("1.5g"), 1_610_612_736);
        assert_eq!(bytes("10GB"), 10_000_000_000);
        assert_eq!("10%".parse(), Ok(Size::PercentOfFree(10.0)));
        assert_eq!("2xRAM".parse(), Ok(Size::TimesMemory(2.0)));
    }

    #[test]
    fn decimal_sizes_name_the_binary_size() {
        assert_eq!(decimal_and_binary(4000), Some(("4kB".into(), 4096)));
        assert_eq!(decimal_and_binary(2_000_000), Some(("2MB".into(), 2 << 20)));
        assert_eq!(
            [decimal_and_binary(0), decimal_and_binary(4096), decimal_and_binary(1500)],
            [None, None, None]
        );
    }

    #[test]
    fn nonsense_is_refused_with_examples() {
        for text in ["", "k", "4q", "4kk", "-1", "1e9", "101%", "4 Kib", "..", "1.2.3"] {
            assert!(matches!(text.parse::<Size>(), Err(SizeError::Malformed(_))), "{text}");
        }
        assert!(matches!("99999999t".parse::<Size>(), Err(SizeError::TooLarge(_))));
        assert!(matches!("99999999999999999999".parse::<Size>(), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn formatted_sizes_have_three_digits() {
        assert_eq!(binary(4 << 30), "4 GiB");
        assert_eq!(binary(1_605_000_000_000), "1.46 TiB");
        assert_eq!(decimal(40_000_000_000), "40 GB");
        assert_eq!(count(65_536), "64 Ki");
        assert_eq!(count(1_000), "1000");
    }

    proptest! {
        #[test]
        fn exact_size_text_reads_back(value in any::<u64>()) {
            prop_assert_eq!(exact(value).parse(), Ok(Size::Bytes(value)));
            let size = Size::Bytes(value % 1_000_000 * 1_000_000);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = text.parse::<Size>();
        }
    }
}
