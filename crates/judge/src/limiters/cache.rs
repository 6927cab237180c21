//! Answers from memory: of the page cache, and of cached names and attributes.

use model::Limiter;
use model::numbers::percent;
use model::run::{Confidence, Evidence};
use model::size;
use model::target::Backing;
use model::workload::{FileVerb, SyncMode};

use super::{Found, budget_sentence, memory_sentence};
use crate::reading::Reading;

/// Of what was read, the device gave less than this.
const FROM_DEVICE: f64 = 0.05;
/// No file system keeps an inode in less: the oldest format of ext2.
const INODE_BYTES_MIN: u64 = 128;
/// Of what was written, the device took less than this.
const TO_DEVICE: f64 = 0.8;

/// Threads that were on a CPU, or ready for one, while no device was needed.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let budget = &reading.budget;
    if reading.on_cpu() + budget.run_queue <= budget.blocked {
        return None;
    }
    lookups(reading).or_else(|| reads(reading)).or_else(|| writes(reading))
}

/// Look-ups of names that memory holds.
fn lookups(reading: &Reading<'_>) -> Option<Found> {
    let input = &reading.input;
    let files = input.files()?;
    let looks_up = matches!(files.verb, FileVerb::Stat | FileVerb::Open | FileVerb::Readdir) || files.missing;
    let device_bytes = input.record.device.as_ref().map(|device| device.bytes_read as f64);
    // The kernel charges each process with what it makes a device read, inodes included: the rest is others'.
    let read = device_bytes.map(|bytes| bytes.min(input.charged_read_bytes().unwrap_or(f64::INFINITY)));
    // One that memory does not answer reads an inode at least. What the journal made the device read meanwhile is nothing
    // against so many look-ups.
    let inodes_bytes = input.record.ops as f64 * INODE_BYTES_MIN as f64;
    let is_nil = read.is_some_and(|read| read < FROM_DEVICE * inodes_bytes);
    if !looks_up || !(is_nil || input.target().backing == Backing::Memory) {
        return None;
    }
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.running_sentence(),
        counters: read.map(|read| {
            format!(
                "the device read {} for {} look-ups",
                size::binary(read as u64),
                model::numbers::thousands(input.record.ops)
            )
        }),
        ceiling: memory_sentence(reading),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::MetadataCache, share(reading), evidence)
            .advice("As root, add :cold to the test and --cache drop-all, to measure the storage."),
    )
}

/// Reads of what is in the page cache.
fn reads(reading: &Reading<'_>) -> Option<Found> {
    let input = &reading.input;
    let data = input.data_in_files().filter(|data| data.reads() && !data.writes() && !data.direct)?;
    if data.verb.is_bytes() {
        return None;
    }
    let cached = input.record.page_cache_share?;
    let from_device = input.ratio().unwrap_or(1.0 - cached);
    if cached < 1.0 - FROM_DEVICE || from_device > FROM_DEVICE {
        return None;
    }
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.running_sentence(),
        counters: Some(format!("{} of the bytes came from memory, not from the device", percent(cached))),
        ceiling: memory_sentence(reading),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::PageCache, share(reading), evidence)
            .advice("This is the speed of memory and of the kernel's copying. Use --cache cold or :direct to measure the storage."),
    )
}

/// Writes that the page cache took.
fn writes(reading: &Reading<'_>) -> Option<Found> {
    let input = &reading.input;
    let data =
        input.data_in_files().filter(|data| data.writes() && !data.direct && data.sync == SyncMode::None)?;
    let written = input.ratio().filter(|ratio| *ratio < TO_DEVICE)?;
    if data.verb.is_bytes() {
        return None;
    }
    let dirty = input.frames().last().map_or(0, |frame| frame.dirty_bytes + frame.writeback_bytes);
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.running_sentence(),
        counters: Some(format!(
            "the device took {} of the bytes; {} were still dirty or under way at the end",
            percent(written),
            size::binary(dirty)
        )),
        ceiling: memory_sentence(reading),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::PageCacheAbsorbed, share(reading), evidence)
            .at_most(if reading.running.is_some() { Confidence::Confirmed } else { Confidence::Likely })
            .advice("Leave sync=none away: with the sync at the end, the number is that of durable writes."),
    )
}

/// Time on a CPU; and that in which threads waited for each other, where there are more of them than CPUs.
fn share(reading: &Reading<'_>) -> f64 {
    let is_crowd = reading.threads > super::cpu::cpus(reading);
    reading.on_cpu() + if is_crowd { reading.budget.run_queue } else { 0.0 }
}
