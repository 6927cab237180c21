//! Answers from memory: from the page cache, and from cached names and attributes.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, MemoryBytes, Share, Threshold};
use model::observation::Observation;
use model::run::{Confidence, Verdict};
use model::target::Backing;
use model::workload::{DataVerb, DataWork, FilesWork};

use super::{near_memory, seen};
use crate::reading::Reading;

/// Reads came from memory if the device gave less than this share of them.
const FROM_DEVICE: f64 = 0.05;
/// Smallest inode of any file system: that of the oldest format of ext2.
const INODE_BYTES_MIN: u64 = 128;
/// Look-ups came from the client if fewer than this share of them can have been sent to the server.
const TO_SERVER: f64 = 0.1;
/// Writes stayed in memory if the device took less than this share of them.
const TO_DEVICE: f64 = 0.8;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] =
    &[("from_device", Figure::Share(FROM_DEVICE)), ("to_device", Figure::Share(TO_DEVICE))];

/// Threads that were on a CPU, or ready for one, while no device was needed. A program that serves a file system from
/// its own memory is waited for.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let budget = &reading.budget;
    if let Some(found) = lookups_of_client(reading) {
        return Some(found);
    }
    if reading.on_cpu() + budget.run_queue <= budget.blocked {
        return None;
    }
    lookups(reading).or_else(|| reads(reading)).or_else(|| writes(reading))
}

/// Returns true if a test looks up names and changes nothing.
fn looks_up(reading: &Reading<'_>) -> bool {
    reading.input.files().is_some_and(FilesWork::looks_up)
}

/// Look-ups of names on a server, of which no answer crossed the network.
fn lookups_of_client(reading: &Reading<'_>) -> Option<Verdict> {
    if !looks_up(reading) || reading.asked_share()? >= TO_SERVER {
        return None;
    }
    let evidence = seen![reading.time_spent(), reading.ran(), reading.crossed()];
    let share = share(reading) + reading.budget.blocked;
    let found = Verdict::new(Limiter::MetadataCache, share, evidence).advise([Advice::ColdNames {}]);
    Some(if reading.budget.blocked > reading.on_cpu() { found.at_most(Confidence::Likely) } else { found })
}

/// Look-ups of names that memory holds.
fn lookups(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let device_bytes = input.record.seen.device.as_ref().map(|device| device.bytes_read as f64);
    // The kernel charges each process for its device reads, inodes included. The rest belongs to others.
    let read = device_bytes.map(|bytes| bytes.min(input.charged_read_bytes().unwrap_or(f64::INFINITY)));
    // A look-up that memory does not answer reads at least one inode. The journal's reads are nothing next to so many
    // look-ups.
    let inodes_bytes = input.record.counts.ops as f64 * INODE_BYTES_MIN as f64;
    let is_nil = read.is_some_and(|read| read < FROM_DEVICE * inodes_bytes);
    if !looks_up(reading) || !(is_nil || input.target().backing == Backing::Memory) {
        return None;
    }
    let lookups = Count(input.record.counts.ops);
    let evidence = seen![
        reading.time_spent(),
        reading.ran(),
        read.map(|read| Observation::ReadForLookups { read_bytes: MemoryBytes(read as u64), lookups }),
        near_memory(reading),
    ];
    Some(Verdict::new(Limiter::MetadataCache, share(reading), evidence).advise([Advice::ColdNames {}]))
}

/// Reads of data in the page cache, also with some writes between them. The device's work for others, or for earlier
/// writes, says nothing about them.
fn reads(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let is_mostly_reads = |data: &&DataWork| match data.verb {
        DataVerb::Rw => input.record.counts.app_bytes_read > input.record.counts.app_bytes_written,
        _ => !data.writes(),
    };
    let data = input.data_in_files().filter(|data| data.reads() && !data.direct).filter(is_mostly_reads)?;
    if data.verb.is_bytes() {
        return None;
    }
    let cached = input.record.seen.page_cache_share.filter(|cached| *cached >= 1.0 - FROM_DEVICE)?;
    let evidence = seen![
        reading.time_spent(),
        reading.ran(),
        Some(Observation::ReadFromMemory { cached_share: Share(cached) }),
        near_memory(reading),
    ];
    Some(Verdict::new(Limiter::PageCache, share(reading), evidence).advise([Advice::MeasureStorage {}]))
}

/// Writes that the page cache absorbed.
fn writes(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let data =
        input.data_in_files().filter(|data| data.writes() && !data.direct && !data.sync.is_durable())?;
    let written = input.ratio().filter(|ratio| *ratio < TO_DEVICE)?;
    if data.verb.is_bytes() {
        return None;
    }
    let dirty = input.frames().last().map_or(0, |frame| frame.dirty_bytes + frame.writeback_bytes);
    let took = Observation::DeviceTook { written_share: Share(written), dirty_bytes: MemoryBytes(dirty) };
    let evidence = seen![reading.time_spent(), reading.ran(), Some(took), near_memory(reading)];
    Some(
        Verdict::new(Limiter::PageCacheAbsorbed, share(reading), evidence)
            .at_most(if reading.running.is_some() { Confidence::Confirmed } else { Confidence::Likely })
            .advise([Advice::SyncEnd {}]),
    )
}

/// Share of the time on a CPU. If threads outnumber the CPUs, it includes the time in which they waited for each other.
fn share(reading: &Reading<'_>) -> f64 {
    let is_crowd = reading.threads > super::cpu::cpus(reading);
    reading.on_cpu() + if is_crowd { reading.budget.run_queue } else { 0.0 }
}
