//! Zones of a test: where they lie, and the time of each so far.

use std::ops::Range;
use std::sync::Arc;

use engine::zones::{SharedZoneTimes, Zones};
use model::run::ZoneRecord;

/// Zones of a test, in the order of their visits.
#[derive(Debug)]
pub struct Zoned {
    /// Parts of the data.
    zones: Vec<Range<u64>>,
    /// Offset at which the data begins in its file.
    first_bytes: u64,
    time_table: Arc<SharedZoneTimes>,
    /// Zone that was left early.
    partial: Option<ZoneRecord>,
}

impl Zoned {
    /// Returns the zones of data that begins at an offset of its file; `None` for a test without zones.
    pub fn new(zones: Vec<Range<u64>>, first_bytes: u64) -> Option<Self> {
        let time_table = Arc::new(SharedZoneTimes::new(zones.len()));
        (!zones.is_empty()).then_some(Self { zones, first_bytes, time_table, partial: None })
    }

    /// Returns the same zones for a worker on blocks of that size.
    pub fn for_worker(&self, block: u64) -> Zones {
        let blocks = self.zones.iter().map(|zone| zone.start / block..zone.end.div_ceil(block)).collect();
        let end_bytes = self.first_bytes + self.zones.last().map_or(0, |zone| zone.end);
        Zones::new(blocks, end_bytes, Arc::clone(&self.time_table))
    }

    /// Returns the number of blocks in all zones.
    pub fn blocks(&self, block_bytes: u64) -> u64 {
        self.zones.iter().map(|zone| (zone.end - zone.start).div_ceil(block_bytes)).sum()
    }

    /// Returns the bytes of all zones.
    pub fn size_bytes(&self) -> u64 {
        self.zones.iter().map(|zone| zone.end - zone.start).sum()
    }

    /// Returns the number of zones that were visited to their end.
    pub fn visited_zones(&self) -> usize {
        self.time_table.visited_zones()
    }

    /// Returns these zones.
    pub fn records(&self) -> impl Iterator<Item = ZoneRecord> {
        let done = self.zones.iter().take(self.visited_zones()).enumerate();
        let done = done.map(|(index, zone)| ZoneRecord {
            start_bytes: self.first_bytes + zone.start,
            bytes: zone.end - zone.start,
            elapsed_ns: self.time_table.time_ns(index),
        });
        done.chain(self.partial)
    }

    /// Adds the zone that was left early, from all bytes and all the time of the test.
    pub fn leave(&mut self, bytes: u64, elapsed_ns: u64) {
        let sum = |of: fn(&ZoneRecord) -> u64| self.records().map(|zone| of(&zone)).sum::<u64>();
        let bytes = bytes.saturating_sub(sum(|zone| zone.bytes));
        let elapsed_ns = elapsed_ns.saturating_sub(sum(|zone| zone.elapsed_ns));
        let zone = self.zones.get(self.visited_zones()).filter(|_| bytes > 0);
        let start_bytes = zone.map(|zone| self.first_bytes + zone.start);
        self.partial = start_bytes.map(|start_bytes| ZoneRecord { start_bytes, bytes, elapsed_ns });
    }
}
