//! Commits of the journal, and flushes.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, LatencyNs, Mean, Threshold, WaitClass};
use model::observation::Observation;
use model::run::Verdict;
use model::workload::{SyncMode, Work};

use super::evidence::seen;
use crate::values::reading::Reading;
use crate::values::shares::ASLEEP_SHARE_MIN;
use crate::values::wait_channels::class;

/// Share of the samples of sleeping threads that found them in a sync.
const IN_SYNC: f64 = 0.3;
/// If the sync takes about half of an operation's time, both the sync and the write before it hold it back.
const SYNC_TIME_HALF: std::ops::Range<f64> = 0.35..0.65;
/// Flushes per operation that also show a wait for the sync.
const FLUSHES: f64 = 0.5;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("in_sync", Figure::Share(IN_SYNC)),
    ("sync_half", Figure::Share(SYNC_TIME_HALF.start)),
    ("sync_most", Figure::Share(SYNC_TIME_HALF.end)),
];

/// Operations that are only done when they are durable.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let input = &reading.input;
    let syncs = match &input.phase.workload.work {
        Work::Data(data) => data.syncs_each(),
        Work::Files(files) => files.syncs() && files.verb.changes(),
    };
    if !syncs || reading.budget.blocked < ASLEEP_SHARE_MIN || reading.is_remote {
        return None;
    }
    // A sync waits for pages under writeback, for the journal and for the flush, in this order.
    let classes = [WaitClass::Sync, WaitClass::Page, WaitClass::Device];
    let sync_share = sync_share(reading);
    let asleep = sync_share * classes.iter().map(|class| reading.waits(*class)).sum::<f64>();
    let flushes = input.flushes() / input.record.counts.ops.max(1) as f64;
    if asleep <= IN_SYNC && flushes < FLUSHES {
        return None;
    }
    let step =
        input.record.figures.steps.iter().find(|step| step.name == "fdatasync" || step.name == "fsync");
    let whole_ns = input.record.figures.latency_ns.as_ref().map_or(0, |whole| whole.mean).max(1);
    let step_ns = step.and_then(|step| step.latency_ns.as_ref()).map(|of_step| of_step.mean);
    // If the write before the sync takes most of an operation, the write is the limit. Not each operation has a sync.
    let syncs_per_op = step.map_or(1.0, |step| step.ops as f64 / input.record.counts.ops.max(1) as f64);
    let of_whole = step_ns.map_or(1.0, |step_ns| syncs_per_op * step_ns as f64 / whole_ns as f64);
    // Without a call for the sync, only flushes tell its time from that of the write.
    let is_dsync = input.data().is_some_and(|data| data.sync == SyncMode::Dsync);
    if of_whole < SYNC_TIME_HALF.start || (is_dsync && flushes < FLUSHES) {
        return None;
    }
    let flushed = (flushes >= FLUSHES).then_some(Observation::Flushes { flushes: Mean(flushes) });
    let took = step_ns
        .filter(|_| flushed.is_some())
        .map(|step_ns| Observation::SyncTook { sync_ns: LatencyNs(step_ns), whole_ns: LatencyNs(whole_ns) });
    let classes = if sync_share < 1.0 { &classes[..1] } else { &classes };
    let evidence =
        seen![reading.time_spent(), reading.dominant_wait(classes), journal(reading), flushed, took];
    if SYNC_TIME_HALF.contains(&of_whole) {
        let blocked = reading.budget.blocked;
        let parts = [
            (Limiter::FsyncJournal, blocked * of_whole),
            (Limiter::DeviceLatency, blocked * (1.0 - of_whole)),
        ];
        return Some(Verdict::mixed(parts, evidence).advise([Advice::GroupCommit {}]));
    }
    Some(
        Verdict::new(Limiter::FsyncJournal, reading.budget.blocked, evidence)
            .advise([Advice::GroupCommit {}]),
    )
}

/// Returns the part of the waits for syncs, pages and devices that belongs to syncs. In a mix or a load, operations without a sync may
/// wait for a page, too.
fn sync_share(reading: &Reading<'_>) -> f64 {
    let input = &reading.input;
    use WaitClass::{Device, Page, Sync};
    let Some(work) = input.files().filter(|work| work.syncs_in("").is_some()) else { return 1.0 };
    let (mut all, mut sync_samples) = (0, 0);
    for site in &input.record.seen.wait_channels {
        let class = class(&site.symbol, true);
        for one in &site.operations {
            let is_synced = || work.syncs_in(&one.operation) == Some(true);
            all += if matches!(class, Some(Sync | Page | Device)) { one.samples } else { 0 };
            sync_samples += match class {
                Some(Sync) => one.samples,
                Some(Page | Device) if is_synced() => one.samples,
                _ => 0,
            };
        }
    }
    if all == 0 { 1.0 } else { sync_samples as f64 / all as f64 }
}

/// Returns the structure that a sync writes besides the data.
fn journal(reading: &Reading<'_>) -> Option<Observation> {
    let target = reading.input.target();
    let file_system = || target.file_system.as_str().into();
    match (target.file_system.as_str(), target.geometry.journal.as_deref()) {
        ("ext3" | "ext4", Some("none")) => Some(Observation::HasNoJournal { file_system: file_system() }),
        ("ext3" | "ext4", Some(_)) => Some(Observation::CommitsJournal { file_system: file_system() }),
        ("xfs", _) => Some(Observation::ForcesLog { file_system: file_system() }),
        ("btrfs", _) => Some(Observation::WritesLogTree { file_system: file_system() }),
        _ => None,
    }
}
