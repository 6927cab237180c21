//! The rate over the offset: zones of a test, joined to parts that took long enough to have a rate.

use model::run::{PhaseRecord, ZoneRecord};

use crate::numbers::{megabytes, percent};

/// Least time of a part. A shorter time has more of the machine's other work in it than of the device.
const LEAST_NS: u64 = 100_000_000;
/// Most parts: as many as a line can show.
const PARTS_MAX: usize = 200;

/// Neighbouring zones, seen as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    /// Offset of its first byte.
    pub start_bytes: u64,
    /// Offset behind its last byte.
    pub end_bytes: u64,
    /// Bytes over time.
    pub bytes_per_second: f64,
}

/// Returns the parts of a test, front to back. The rest at the end belongs to the last part.
pub(crate) fn parts(phase: &PhaseRecord) -> Vec<Part> {
    let zones = &phase.figures.zones;
    let least_zones = zones.len().div_ceil(PARTS_MAX);
    let ns = |zones: &[ZoneRecord]| zones.iter().map(|zone| zone.elapsed_ns).fold(0, u64::saturating_add);
    let mut begin = 0;
    let mut ends: Vec<usize> = (1..=zones.len())
        .filter(|end| {
            let is_part = end - begin >= least_zones && ns(&zones[begin..*end]) >= LEAST_NS;
            begin = if is_part { *end } else { begin };
            is_part
        })
        .collect();
    // Without any part, all zones together are too fast for a rate.
    if let Some(last) = ends.last_mut() {
        *last = zones.len();
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let part = |(start, end): (usize, usize)| {
        let part = zones.get(start..end)?;
        let (first, last) = (part.first()?, part.last()?);
        let bytes: f64 = part.iter().map(|zone| zone.bytes as f64).sum();
        Some(Part {
            start_bytes: first.start_bytes,
            end_bytes: last.start_bytes.saturating_add(last.bytes),
            bytes_per_second: bytes * 1e9 / ns(part).max(1) as f64,
        })
    };
    starts.zip(ends.iter().copied()).filter_map(part).collect()
}

/// Returns the fastest and the slowest part; `None` without two parts.
pub(crate) fn extremes(parts: &[Part]) -> Option<[&Part; 2]> {
    let by_rate = |one: &&Part, other: &&Part| one.bytes_per_second.total_cmp(&other.bytes_per_second);
    let (fastest, slowest) = (parts.iter().max_by(by_rate)?, parts.iter().min_by(by_rate)?);
    (parts.len() > 1).then_some([fastest, slowest])
}

/// Returns the rates at both ends, and extremes between them with their places; `None` without two parts.
pub(crate) fn rate_summary(parts: &[Part]) -> Option<String> {
    let [fastest, slowest] = extremes(parts)?;
    let (first, last) = (parts.first()?, parts.last()?);
    let length = last.end_bytes.saturating_sub(first.start_bytes).max(1) as f64;
    let rate = |part: &Part| megabytes(part.bytes_per_second).unwrap_or_default();
    let at = |part: &Part| percent(part.start_bytes.saturating_sub(first.start_bytes) as f64 / length);
    let ends = format!("{} at 0 %, {} at 100 %", rate(first), rate(last));
    let between: Vec<_> = [("fastest", fastest), ("slowest", slowest)]
        .into_iter()
        .filter(|(_, part)| ![first.bytes_per_second, last.bytes_per_second].contains(&part.bytes_per_second))
        .map(|(name, part)| format!("{name} {} at {}", rate(part), at(part)))
        .collect();
    Some(if between.is_empty() { ends } else { format!("{ends}; {}", between.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn phase(zones: impl Iterator<Item = (u64, u64)>) -> PhaseRecord {
        let mut start_bytes = 0;
        let zones = zones.map(|(bytes, ms)| {
            start_bytes += bytes;
            ZoneRecord { start_bytes: start_bytes - bytes, bytes, elapsed_ns: ms * 1_000_000 }
        });
        let mut phase = sample::run().phases.remove(0);
        phase.figures.zones = zones.collect();
        phase
    }

    #[test]
    fn short_last_zone_is_merged_into_previous_part() {
        let found = parts(&phase([(10, 60), (10, 60), (10, 200), (10, 30)].into_iter()));
        let ends: Vec<_> = found.iter().map(|part| (part.start_bytes, part.end_bytes)).collect();
        assert_eq!(ends, [(0, 20), (20, 40)]);
        assert!((found[1].bytes_per_second - 20.0 / 0.23).abs() < 1e-6);
        assert!(parts(&phase([(10, 60)].into_iter())).is_empty());
        assert!(parts(&phase(std::iter::empty())).is_empty());
        assert!(parts(&phase((0..5000).map(|_| (1 << 20, 200)))).len() <= PARTS_MAX);
    }

    #[test]
    fn rate_step_is_shown_with_positions() {
        let rate_summary = |ms: &[u64]| rate_summary(&parts(&phase(ms.iter().map(|ms| (100_000_000, *ms)))));
        assert_eq!(
            rate_summary(&[500, 500, 1000, 1000]).as_deref(),
            Some("200 MB/s at 0 %, 100 MB/s at 100 %")
        );
        assert_eq!(
            rate_summary(&[500, 1000, 250, 500]).as_deref(),
            Some("200 MB/s at 0 %, 200 MB/s at 100 %; fastest 400 MB/s at 50 %, slowest 100 MB/s at 25 %")
        );
        assert_eq!(rate_summary(&[500]), None);
    }
}
