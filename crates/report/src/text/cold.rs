//! The device's reads for cold names, as a line below their row.

use model::run::PhaseRecord;

use super::columns::{INDENT, Line};
use super::style::{DIM, Style};

/// Renders the device's reads per name of a cold test; `None` for other tests, and if no counter shows them.
pub fn reads(phase: &PhaseRecord, style: &Style) -> Option<String> {
    let words = wording::cold_reads(phase)?;
    let mut line = Line::default();
    line.put_left(INDENT + 2, &words, DIM);
    Some(style.finish(line.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::figure::{Count, MemoryBytes};
    use model::finding::Finding;

    #[test]
    fn device_reads_are_shown_only_below_cold_rows() {
        let mut phase = sample::phase("stat:cold");
        let plain_reads =
            |phase: &PhaseRecord| reads(phase, &sample::WIDE).map(|plain_reads| sample::plain(&plain_reads));
        let note = |finding| wording::note(finding, []);
        assert_eq!(plain_reads(&phase), None);
        let figures = (Count(1020), MemoryBytes(4_096_000), Count(1000));
        let (requests, read_bytes, operations) = figures.clone();
        phase.judged.notes = vec![note(Finding::NamesFromDevice { reads: requests, read_bytes, operations })];
        assert_eq!(plain_reads(&phase).as_deref(), Some("    1.02 device reads and 4 KiB for each name"));
        let (requests, read_bytes, operations) = figures;
        phase.judged.notes =
            vec![note(Finding::NamesFromBusyDevice { reads: requests, read_bytes, operations })];
        assert_eq!(
            plain_reads(&phase).as_deref(),
            Some("    at most 1.02 device reads and 4 KiB for each name")
        );
    }
}
