//! The request that reads a file or device as zcav does, and the scan of it that a run holds.

use std::ops::Range;

use model::request::Request;
use model::run::{PhaseRecord, ZoneRecord};
use model::size;
use model::workload::CacheMode;

use super::{FileScan, Layout, Verb};
use crate::work;

/// Returns the request: a repetition for each pass, in which the blocks are zones.
pub fn translate(layout: &Layout, size_bytes: u64, is_direct: bool) -> Request {
    let Layout { start_bytes, end_bytes, block_bytes, stride_bytes, chunk_bytes, passes } = *layout;
    let mut spec = format!("read:seq{}", size::exact(chunk_bytes));
    if !is_direct {
        spec += ":buffered";
    }
    if start_bytes > 0 || end_bytes < size_bytes {
        spec += &format!(":range={}..{}", size::exact(start_bytes), size::exact(end_bytes));
    }
    spec += &format!(":zones={}", size::exact(block_bytes));
    let every = stride_bytes / block_bytes.max(1);
    if every > 1 {
        spec += &format!(":every={every}");
    }
    Request {
        repeat: Some(passes),
        cache: Some(CacheMode::Cold),
        probe: Some(false),
        ..work::request("zcav", vec![spec], None)
    }
}

/// Zones of all passes so far, as the times of blocks.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// Times of the visited blocks, pass after pass.
    pub times_ns: Vec<u64>,
    /// Bytes and time of the next block, if that ended early.
    pub partial: Option<(u64, u64)>,
}

impl Times {
    /// Returns the times of the tests of a run. Those after a test that ended early are left out.
    pub fn from_phases(phases: &[PhaseRecord], blocks: &[Range<u64>]) -> Self {
        let mut times = Self::default();
        for phase in phases {
            if !times.add(phase.figures.zones.iter().copied(), blocks) {
                break;
            }
        }
        times
    }

    /// Adds the zones of a pass. Returns true if all its blocks were visited to their ends.
    pub fn add(&mut self, zones: impl Iterator<Item = ZoneRecord>, blocks: &[Range<u64>]) -> bool {
        let before = self.times_ns.len();
        for (zone, block) in zones.zip(blocks) {
            if zone.bytes < block.end - block.start {
                self.partial = Some((zone.bytes, zone.elapsed_ns));
                return false;
            }
            self.times_ns.push(zone.elapsed_ns);
        }
        self.times_ns.len() == before + blocks.len()
    }

    /// Returns the scan of a file that these times are of.
    pub fn scan<'a>(
        &'a self,
        name: &'a str,
        blocks: &'a [Range<u64>],
        passes: u32,
        verb: Verb,
    ) -> FileScan<'a> {
        FileScan { name, blocks, times_ns: &self.times_ns, partial: self.partial, passes, verb }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Command, Dialect};
    use crate::zcav::MIB;
    use crate::zcav::arguments::Options;

    fn options(line: &str) -> Options {
        match Options::parse(line.split(' ').filter(|word| !word.is_empty()).chain(["x"]).map(Into::into)) {
            Ok(Command::Measure(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blocks_become_zones() {
        let size = 100 * MIB + 5;
        for (line, is_direct, expected) in [
            ("", true, "read:seq1m:zones=1m"),
            ("-b 8:4", false, "read:seq4m:buffered:zones=8m"),
            ("-b 2 -r 4", true, "read:seq1m:range=0..4m:zones=2m"),
            ("-b 2:2 -s 3 -r 4:18", true, "read:seq2m:range=4m..18m:zones=2m:every=3"),
            ("-r 50:1000", true, "read:seq1m:range=50m..104857605:zones=1m"),
            // Each call reads a part of a block, and no byte behind it.
            ("-b 6:4 -r 0:9", true, "read:seq3m:range=0..9m:zones=6m"),
            ("-b 2:2 -r 0:9", true, "read:seq1m:range=0..9m:zones=2m"),
        ] {
            let layout = Layout::from_options(&options(line), "x", size).unwrap();
            let request = translate(&layout, size, is_direct);
            assert_eq!(request.tests, [expected], "{line}");
            let workload = model::spec::parse(expected, &model::spec::Defaults::default()).unwrap();
            let data = workload.data().unwrap();
            let range = data.range_of(size);
            let zones: Vec<_> = data
                .zones_of(range.end - range.start)
                .into_iter()
                .map(|zone| zone.start + range.start..zone.end + range.start)
                .collect();
            assert_eq!(zones, layout.blocks(), "{line}");
        }
        let layout = Layout::from_options(&options("-c 3"), "x", size).unwrap();
        assert_eq!(translate(&layout, size, true).repeat, Some(3));
    }

    #[test]
    fn incomplete_pass_ends_the_measurement() {
        let blocks = [0..2 * MIB, 2 * MIB..3 * MIB];
        let zone = |bytes, elapsed_ns| ZoneRecord { start_bytes: 0, bytes, elapsed_ns };
        let mut times = Times::default();
        assert!(times.add([zone(2 * MIB, 5), zone(MIB, 6)].into_iter(), &blocks));
        assert!(!times.add([zone(2 * MIB, 7), zone(5, 8)].into_iter(), &blocks));
        assert_eq!((times.times_ns, times.partial), (vec![5, 6, 7], Some((5, 8))));
        let mut times = Times::default();
        assert!(!times.add([zone(2 * MIB, 5)].into_iter(), &blocks), "a zone is missing");
    }
}
