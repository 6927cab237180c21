//! Answers from memory: from the page cache, and from cached names and attributes.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, MemoryBytes, Share, Threshold};
use model::observation::Observation;
use model::run::{Confidence, Verdict};
use model::target::Backing;
use model::workload::{DataVerb, DataWork, FilesWork};

use super::evidence::{cpus, near_memory, seen};
use crate::laws::traps;
use crate::values::input::JudgeInput;
use crate::values::lookups::{self, lookup_work};
use crate::values::reading::Reading;

/// Reads came from memory if the device gave less than this share of them.
const FROM_DEVICE: f64 = 0.05;
/// Writes stayed in memory if the device took less than this share of them.
const TO_DEVICE: f64 = 0.8;

/// A layer that answers is the limit if those below have less than this share of the operations,
const BELOW_MAX: f64 = 0.5;
/// or if it answered this share of the bytes.
const ANSWERED_MIN: f64 = 0.85;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] =
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

/// Look-ups of names on a server, of which no answer crossed the network.
fn lookups_of_client(reading: &Reading<'_>) -> Option<Verdict> {
    let files = lookup_work(&reading.input)?;
    let _ = lookups::sent_bytes_if_client_cached(&reading.input)?;
    let evidence = seen![reading.time_spent(), reading.mostly_running(), reading.network_use()];
    let share = share(reading) + reading.budget.blocked;
    let found = Verdict::new(Limiter::MetadataCache, share, evidence).advise(advice(files));
    Some(if reading.budget.blocked > reading.on_cpu() { found.at_most(Confidence::Likely) } else { found })
}

/// Look-ups of names that memory holds.
fn lookups(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let files = lookup_work(input)?;
    let read = lookups::read_bytes(input);
    let is_nil = read.is_some_and(|read| read < lookups::least_bytes(input));
    if !is_nil && input.target().backing != Backing::Memory {
        return None;
    }
    let lookups = Count(input.record.counts.ops);
    let evidence = seen![
        reading.time_spent(),
        reading.mostly_running(),
        read.map(|read| Observation::ReadForLookups { read_bytes: MemoryBytes(read as u64), lookups }),
        near_memory(reading),
    ];
    Some(Verdict::new(Limiter::MetadataCache, share(reading), evidence).advise(advice(files)))
}

/// Returns the advice on names from memory. If dropping the caches did not help, the files may be too few.
fn advice(files: &FilesWork) -> [Advice; 1] {
    [if files.cold { Advice::MoreFiles {} } else { Advice::ColdNames {} }]
}

/// Reads of data in the page cache, also with some writes between them. Device I/O of other processes, or for earlier
/// writes, is no evidence against it.
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
        reading.mostly_running(),
        Some(Observation::ReadFromMemory { cached_share: Share(cached) }),
        near_memory(reading),
    ];
    Some(Verdict::new(Limiter::PageCache, share(reading), evidence).advise([Advice::MeasureStorage {}]))
}

/// Operations that a layer below the test answered, so that they waited for no storage.
pub(super) fn at_layer(reading: &Reading<'_>) -> Option<Verdict> {
    let from_device = !reading.input.data()?.direct;
    let (is_read, answered) = traps::cache::answered(&reading.input, from_device)?;
    let share = Share(answered.share);
    let (limiter, seen) = match is_read {
        true => (Limiter::PageCache, Observation::ReadFromMemory { cached_share: share }),
        false => (Limiter::PageCacheAbsorbed, device_took(&reading.input, 1.0 - answered.share)),
    };
    let evidence = seen![reading.time_spent(), Some(seen), reading.answers_if_saturated()];
    let load = reading.input.record.seen.load.as_ref()?;
    let in_flight = |layers: &[usize]| -> Option<f64> {
        let flows = layers.iter().map(|at| load.flow_of(*at as u32));
        flows.map(|flow| flow?.in_flight(load.elapsed_ns)).sum()
    };
    let above = answered.counted.map_or(Some(reading.waiting()), |at| in_flight(&[at]));
    // Reads that no layer below has stand at the one that answers, unless they take turns below it. Absorbed writes wait for
    // nothing.
    let is_idle = |(below, above): (f64, f64)| below < BELOW_MAX * above.min(1.0);
    let are_above = is_read && in_flight(&answered.below).zip(above).is_some_and(is_idle);
    (are_above || answered.share >= ANSWERED_MIN).then(|| {
        Verdict::new(limiter, reading.budget.blocked, evidence).advise([Advice::BypassLowerCache {}])
    })
}

/// Returns the share of the bytes that reached the device, and the bytes that were left in memory.
fn device_took(input: &JudgeInput<'_>, written_share: f64) -> Observation {
    let dirty = input.frames().last().map_or(0, |frame| frame.dirty_bytes + frame.writeback_bytes);
    Observation::DeviceTook { written_share: Share(written_share), dirty_bytes: MemoryBytes(dirty) }
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
    let took = device_took(input, written);
    let evidence = seen![reading.time_spent(), reading.mostly_running(), Some(took), near_memory(reading)];
    Some(
        Verdict::new(Limiter::PageCacheAbsorbed, share(reading), evidence)
            .at_most(if reading.running.is_some() { Confidence::Confirmed } else { Confidence::Likely })
            .advise([Advice::SyncEnd {}]),
    )
}

/// Share of the time on a CPU. If threads outnumber the CPUs, it includes the time in which they waited for each other.
fn share(reading: &Reading<'_>) -> f64 {
    let is_crowd = reading.threads > cpus(reading);
    reading.on_cpu() + if is_crowd { reading.budget.run_queue } else { 0.0 }
}
