//! Direct I/O that was not direct, or did not reach the device as asked.

use model::advice::Advice;
use model::disturbance::SHARE_MAX;
use model::figure::{Bytes, Mean, Ratio, Share};
use model::finding::Finding;
use model::plan::PlannedPhase;
use model::run::{Load, PhaseRecord};
use model::target::Backing;
use model::workload::DataVerb;

use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

traps!(unwritten_extents, o_direct_ineffective, device_disagrees, counters_disagree, call_flags);

/// Direct I/O and the device's counters must agree within this share; they differ by permilles where all is well.
const AGREEMENT: f64 = 0.02;
/// Below this share of bytes, a direct test did not reach the device at all.
const DIRECT_SHARE_MIN: f64 = 0.5;
/// Share of a file that may be missing without effect: less than the counters can tell.
const NEGLIGIBLE: f64 = 0.01;
/// Bytes of dirtied pages per byte written that show buffered writes. The file system and other processes add some.
const DIRTIED_RATIO: std::ops::Range<f64> = 0.8..1.5;

/// Returns the difference between the device's bytes and the application's, as a share; `None` where they agree. It
/// applies to tests in which both must be equal: direct reads and writes of a file that is fully written. Writes of a
/// new file allocate space, which also moves bytes on the device.
pub fn disagreement(record: &PhaseRecord, phase: &PlannedPhase) -> Option<f64> {
    let _ = phase.workload.data().filter(|data| data.direct && !data.fresh && !data.syncs_each())?;
    if !phase.engine.needs_files() {
        return None;
    }
    let ratio = record.seen.device.as_ref()?.bytes_per_app_byte?;
    Some((ratio - 1.0).abs()).filter(|difference| *difference > AGREEMENT)
}

/// Reads of data that was never written: the file system answers them with zeros, without the device.
fn unwritten_extents(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let extents = input.record.seen.extents.as_ref()?;
    let share = extents.hole_share + extents.unwritten_share;
    (share > NEGLIGIBLE).then(|| {
        let (holes_share, unwritten_share) = (Share(extents.hole_share), Share(extents.unwritten_share));
        let is_existing = input.target().is_used_read_only();
        let advice = if is_existing { Advice::ReadWritten {} } else { Advice::RunAgain {} };
        TrapFinding::new(Finding::FilesNotWritten { holes_share, unwritten_share }, [advice])
    })
}

/// `O_DIRECT` was accepted and had no effect.
pub(crate) fn o_direct_ineffective(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| data.direct)?;
    if input.record.counts.direct_refused {
        let finding = Finding::DirectRefused { file_system: input.target().file_system.as_str().into() };
        return Some(TrapFinding::new(finding, [Advice::Buffered {}]));
    }
    if input.target().backing == Backing::Memory || unwritten_extents(input).is_some() {
        return None;
    }
    // With a sync after each write, a bypassed cache and one that is emptied each time move the same bytes.
    let missing = input.ratio().filter(|ratio| *ratio < DIRECT_SHARE_MIN && data.verb != DataVerb::Fsync);
    let cached = cached(input).filter(|cached| cached.visited_share > DIRECT_SHARE_MIN);
    // Each sync writes metadata, and dirties its pages first.
    let dirtied = dirtied_share(input)
        .filter(|share| DIRTIED_RATIO.contains(share) && !data.syncs_each() && may_buffer(input));
    let file_system = input.target().file_system.as_str().into();
    let finding = match (missing, cached, dirtied) {
        (Some(ratio), ..) => Finding::DirectMissedDevice { moved_share: Share(ratio), file_system },
        (None, Some(cached), _) => {
            Finding::DirectFilledCache { cached_share: Share(cached.share), file_system }
        }
        (None, None, Some(share)) => {
            Finding::DirectMadeDirty { dirtied_share: Share(share.min(1.0)), file_system }
        }
        (None, None, None) => return None,
    };
    Some(TrapFinding::new(finding, [why_buffered(input)]))
}

/// Counters that show the effect of a call's flag.
fn call_flags(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files()?;
    if data.uncached {
        // Pages from before stay, and dirty pages must: they show nothing.
        let had_pages = input.record.seen.residency.as_ref()?.before.is_none_or(|share| share > NEGLIGIBLE);
        if had_pages || data.is_skewed() || (data.writes() && !data.sync.is_durable()) {
            return None;
        }
        let cached_share = Share(cached(input)?.visited_share);
        let file_system = input.target().file_system.as_str().into();
        let finding = match cached_share.0 > DIRECT_SHARE_MIN {
            true => Finding::StayedInCache { cached_share, file_system },
            false => Finding::LeftInCache { cached_share },
        };
        return Some(finding.into());
    }
    let device = input.device().filter(|_| data.atomic && !data.reads() && !data.syncs_each())?;
    let requests = Mean(device.operations as f64 / input.record.counts.ops.max(1) as f64);
    Some(Finding::AtomicRequests { device: device.name.as_str().into(), requests }.into())
}

/// Data that the page cache has after a test and had not before.
struct Cached {
    /// As a share of all data.
    share: f64,
    /// As a share of the data that the test visited; 0 if it is negligible.
    visited_share: f64,
}

fn cached(input: &JudgeInput<'_>) -> Option<Cached> {
    let visited = input.record.counts.passes.min(1.0);
    let residency = input.record.seen.residency.as_ref().filter(|_| visited > 0.0)?;
    // Pages that someone else holds were there before, and these calls leave them.
    let share = residency.after? - residency.before.unwrap_or(0.0);
    Some(Cached { share, visited_share: if share > NEGLIGIBLE { share / visited } else { 0.0 } })
}

/// Returns true if this file system is known to buffer direct writes. Dirtied pages are counted for the whole machine:
/// on other file systems, they are someone else's.
fn may_buffer(input: &JudgeInput<'_>) -> bool {
    input.target().file_system == "btrfs" || input.has_mount_option("data=journal")
}

/// Bytes of dirtied pages per byte written with direct I/O, which dirties none.
fn dirtied_share(input: &JudgeInput<'_>) -> Option<f64> {
    let frames = input.record.figures.intervals.iter().filter_map(|interval| interval.frame.as_ref());
    let dirtied: u64 = frames.filter_map(|frame| frame.dirtied_bytes).sum();
    let written = input.record.counts.app_bytes_written;
    (written > 0).then(|| dirtied as f64 / written as f64)
}

/// Returns the advice on the feature that makes this file system buffer direct I/O.
fn why_buffered(input: &JudgeInput<'_>) -> Advice {
    let compresses = input
        .target()
        .mount_options
        .iter()
        .any(|option| option.starts_with("compress") && option != "compress=no");
    match input.target().file_system.as_str() {
        "ext4" if input.has_mount_option("data=journal") => Advice::MountOrdered {},
        "btrfs" if compresses => Advice::MountUncompressed {},
        "btrfs" => Advice::NoChecksums {},
        "zfs" => Advice::ZfsDirect {},
        _ => Advice::BufferingOptions {},
    }
}

/// The device's bytes differ from the application's.
fn device_disagrees(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let _ = disagreement(input.record, input.phase)?;
    let ratio = input.ratio()?;
    if o_direct_ineffective(input).is_some() || unwritten_extents(input).is_some() {
        return None;
    }
    let is_ours = input
        .record
        .seen
        .device
        .as_ref()
        .and_then(|device| device.foreign_share)
        .is_some_and(|share| share < AGREEMENT);
    let file_system = || input.target().file_system.as_str().into();
    let (finding, advice) = match Ratio(ratio) {
        ratio if ratio.0 < 1.0 => (
            Finding::DeviceMovedLess { ratio, file_system: file_system() },
            Some(Advice::FindReduction { file_system: file_system() }),
        ),
        ratio if input.amplifies_writes() => {
            (Finding::CopyOnWriteOverhead { ratio, file_system: file_system() }, None)
        }
        ratio if is_ours => {
            (Finding::DeviceMovedMore { ratio, file_system: file_system() }, Some(Advice::CompareWithCare {}))
        }
        ratio => (Finding::DeviceMovedForOthers { ratio }, Some(Advice::QuietDevice {})),
    };
    Some(TrapFinding::new(finding, advice))
}

/// Two counters of the kernel for the same bytes differ.
fn counters_disagree(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files()?;
    if !input.is_on_devices() {
        return None;
    }
    if input.is_uncounted() {
        let name = input.record.seen.device.as_ref()?.name.as_str();
        let moved_bytes =
            Bytes(input.record.counts.app_bytes_read.saturating_add(input.record.counts.app_bytes_written));
        let finding = Finding::DeviceCountedNothing { device: name.into(), moved_bytes };
        return Some(TrapFinding::new(finding, [Advice::CheckIostats { device: name.into() }]));
    }
    // The kernel also charges a refused attempt, before a kernel thread makes the call, or while all slots of a queue are taken.
    let is_full = |load: &Load| load.flows.iter().any(|flow| flow.is_full(load.elapsed_ns));
    let repeats =
        input.record.engine.uses_kernel_threads() || input.record.seen.load.as_ref().is_some_and(is_full);
    if data.verb != DataVerb::Read || repeats {
        return None;
    }
    let device = input.device()?.bytes_read as f64;
    let (own, app) = (input.charged_read_bytes()?, input.record.counts.app_bytes_read as f64);
    // If the device read more than the test was charged for, the rest is foreign I/O, which another trap reports.
    let excess = (own - device) / app.max(1.0);
    (app > 0.0 && excess > SHARE_MAX).then(|| {
        let mount_point = || input.target().mount_point.as_str().into();
        let finding = Finding::ChargedMore { excess: Share(excess), mount_point: mount_point() };
        TrapFinding::new(finding, [Advice::CheckDevices { mount_point: mount_point() }])
    })
}
