//! Parts of the data that a test reads: its range, and the zones whose times are taken.

use std::ops::Range;

use super::DataWork;
use super::keys::{Form, bytes};
use crate::size;

/// Most zones of a test: their times are kept in memory, in 8 MiB.
pub const ZONES_MAX: u64 = 1 << 20;
/// Sizes of zones are multiples of this, so that each has a suffix, which distinguishes it from a number of zones.
const UNIT_BYTES: u64 = 1 << 10;

/// Zones into which a test divides its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zones {
    /// Number of zones, of equal size.
    Count(u64),
    /// Bytes of a zone.
    Size(u64),
}

/// Form of `zones`: a number of them, or the size of one with a suffix.
pub(crate) struct CountOrSize;

impl Form<Zones> for CountOrSize {
    fn parse(&self, key: &str, _form: &str, value: &str) -> Result<Zones, String> {
        if let Ok(count) = value.parse::<u64>() {
            return match count {
                1..=ZONES_MAX => Ok(Zones::Count(count)),
                _ => Err(format!("`{key}={value}`: the range is 1 to {ZONES_MAX} zones")),
            };
        }
        match bytes(key, value)? {
            size if size > 0 && size.is_multiple_of(UNIT_BYTES) => Ok(Zones::Size(size)),
            _ => Err(format!("`{key}={value}`: a zone is a multiple of 1 KiB; use for example {key}=256m")),
        }
    }

    fn print(&self, value: &Zones) -> String {
        match value {
            Zones::Count(count) => count.to_string(),
            Zones::Size(bytes) => size::exact(*bytes),
        }
    }
}

/// Form of `range`: two sizes with `..` between them.
pub(crate) struct SizeRange;

impl Form<Range<u64>> for SizeRange {
    fn parse(&self, key: &str, _form: &str, value: &str) -> Result<Range<u64>, String> {
        let (from, to) = value
            .split_once("..")
            .ok_or_else(|| format!("`{key}={value}`: use {key}=FROM..TO, for example {key}=10g..20g"))?;
        let (from, to) = (bytes(key, from)?, bytes(key, to)?);
        if from >= to {
            return Err(format!("`{key}={value}`: the end must be after the start"));
        }
        Ok(from..to)
    }

    fn print(&self, value: &Range<u64>) -> String {
        format!("{}..{}", size::exact(value.start), size::exact(value.end))
    }
}

impl DataWork {
    /// Returns the part of a file that the test works on.
    pub fn range_of(&self, file_bytes: u64) -> Range<u64> {
        self.range.clone().unwrap_or(0..file_bytes)
    }

    /// Returns the number of zones that `length_bytes` have; 0 for a test without zones.
    pub fn zones_count(&self, length_bytes: u64) -> u64 {
        self.zone_bytes(length_bytes).map_or(0, |zone| length_bytes.div_ceil(zone.saturating_mul(self.every)))
    }

    /// Returns the zones to visit, as parts of `length_bytes`, front to back. The last one ends with the data.
    pub fn zones_of(&self, length_bytes: u64) -> Vec<Range<u64>> {
        let Some(zone_bytes) = self.zone_bytes(length_bytes) else { return Vec::new() };
        let start = |index: u64| index * zone_bytes * self.every;
        let zone = |start: u64| start..start.saturating_add(zone_bytes).min(length_bytes);
        (0..self.zones_count(length_bytes)).map(|index| zone(start(index))).collect()
    }

    /// Returns the size of a zone: whole blocks.
    fn zone_bytes(&self, length_bytes: u64) -> Option<u64> {
        let block = self.block_bytes;
        Some(match self.zones? {
            Zones::Count(count) => length_bytes.div_ceil(count).max(1).checked_next_multiple_of(block)?,
            Zones::Size(bytes) => bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{self, Defaults};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn zones(words: &str, length_bytes: u64) -> Vec<(u64, u64)> {
        let workload = spec::parse(&format!("read:seq1m{words}"), &Defaults::default()).unwrap();
        let zones = workload.data().unwrap().zones_of(length_bytes);
        zones.into_iter().map(|zone| (zone.start, zone.end)).collect()
    }

    #[test]
    fn zones_are_whole_blocks_and_end_with_the_data() {
        let size = 5 * MIB + 700;
        assert_eq!(zones("", size), []);
        assert_eq!(zones(":zones=2m", size), [(0, 2 * MIB), (2 * MIB, 4 * MIB), (4 * MIB, size)]);
        assert_eq!(zones(":zones=2", size), [(0, 3 * MIB), (3 * MIB, size)]);
        assert_eq!(zones(":zones=200", 2 * MIB), [(0, MIB), (MIB, 2 * MIB)]);
        assert_eq!(zones(":zones=1m:every=3", size), [(0, MIB), (3 * MIB, 4 * MIB)]);
        assert_eq!(zones(":zones=1g", 1), [(0, 1)]);
    }

    proptest! {
        #[test]
        fn zones_are_ordered_and_cover_all_data_unless_skipped(
            length in 1u64..1 << 40, zones in 1u64..5000, every in 1u64..9, by_size in any::<bool>(),
        ) {
            let unit = if by_size { "g" } else { "" };
            let every_word = if every > 1 { format!(":every={every}") } else { String::new() };
            let zones = self::zones(&format!(":zones={zones}{unit}{every_word}"), length);
            prop_assert!(zones[0].0 == 0 && zones.iter().all(|zone| zone.0 < zone.1 && zone.1 <= length));
            prop_assert!(zones.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            if every == 1 {
                prop_assert!(zones.windows(2).all(|pair| pair[0].1 == pair[1].0));
                prop_assert_eq!(zones.last().unwrap().1, length);
            }
        }
    }
}
