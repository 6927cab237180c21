//! Direct I/O that was not direct, or did not reach the device as asked.

use model::disturbance::SHARE_MAX;
use model::numbers::percent;
use model::plan::PlannedPhase;
use model::run::PhaseRecord;
use model::size;
use model::target::Backing;
use model::workload::{DataVerb, Engine, SyncMode};

use crate::{Case, Finding};

/// Direct I/O and the device's counters must agree within this share; they differ by permilles where all is well.
const AGREEMENT: f64 = 0.02;
/// Below this share of bytes, a direct test did not reach the device at all.
const INEFFECTIVE: f64 = 0.5;
/// Parts of a file that are not there and do not matter: less than the counters can tell.
const NEGLIGIBLE: f64 = 0.01;
/// As many bytes of pages made dirty as were written, but for what the file system and others add.
const AS_MUCH: std::ops::Range<f64> = 0.8..1.5;
/// Depth from which on it matters how much of it the device sees.
const DEPTH_MIN: f64 = 4.0;

/// How far the device's bytes are from the application's, for tests in which they must be equal: direct reads and
/// writes of a file that is fully written, as room for a new one is found on the device, too. `None` where they agree.
pub fn disagreement(record: &PhaseRecord, phase: &PlannedPhase) -> Option<f64> {
    let data =
        phase.workload.data().filter(|data| data.direct && !data.fresh && data.verb != DataVerb::Fsync)?;
    if !phase.engine.needs_files() || data.sync == SyncMode::Each {
        return None;
    }
    let ratio = record.device.as_ref()?.bytes_per_app_byte?;
    Some((ratio - 1.0).abs()).filter(|difference| *difference > AGREEMENT)
}

/// Reads of what was never written: the file system answers them with zeros, without the device.
pub(super) fn unwritten_extents(case: &Case<'_>) -> Option<Finding> {
    let extents = case.record.extents.as_ref()?;
    let share = extents.hole_share + extents.unwritten_share;
    (share > NEGLIGIBLE).then(|| {
        Finding::invalid(format!(
            "{} of the files are holes and {} are allocated but unwritten, which are read without the device. Something has changed them since they were laid out; run it again.",
            percent(extents.hole_share),
            percent(extents.unwritten_share)
        ))
    })
}

/// `O_DIRECT` was taken and did nothing.
pub(crate) fn o_direct_ineffective(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files().filter(|data| data.direct)?;
    if case.target().backing == Backing::Memory || unwritten_extents(case).is_some() {
        return None;
    }
    // With a sync after each write, a cache that is bypassed and one that is emptied each time move the same bytes.
    let missing = case.ratio().filter(|ratio| *ratio < INEFFECTIVE && data.verb != DataVerb::Fsync);
    let visited = case.record.passes.min(1.0);
    // Pages that somebody else holds were there before, and are passed by all the same.
    let cached = case
        .record
        .residency
        .as_ref()
        .and_then(|residency| Some(residency.after? - residency.before.unwrap_or(0.0)))
        .filter(|grown| visited > 0.0 && *grown > NEGLIGIBLE && grown / visited > INEFFECTIVE);
    // Each sync writes metadata, whose pages are dirty before.
    let is_synced = data.verb == DataVerb::Fsync || data.sync == SyncMode::Each;
    let dirtied =
        dirtied_share(case).filter(|share| AS_MUCH.contains(share) && !is_synced && may_buffer(case));
    let evidence = match (missing, cached, dirtied) {
        (Some(ratio), ..) => format!("the device moved only {} of the bytes", percent(ratio)),
        (None, Some(share), _) => {
            format!("{} of the files had come into the page cache afterwards", percent(share))
        }
        (None, None, Some(share)) => {
            format!("{} of what was written went through the page cache", percent(share.min(1.0)))
        }
        (None, None, None) => return None,
    };
    Some(Finding::invalid(format!(
        "{evidence}, so O_DIRECT was not direct on this {}. {}",
        case.target().file_system,
        why_buffered(case)
    )))
}

/// Whether this file system is known to buffer direct writes: pages that are made dirty are those of the whole machine,
/// and on others they are somebody else's.
fn may_buffer(case: &Case<'_>) -> bool {
    case.target().file_system == "btrfs" || case.has_mount_option("data=journal")
}

/// Bytes of pages that were made dirty per byte written directly, which makes none.
fn dirtied_share(case: &Case<'_>) -> Option<f64> {
    let frames = case.record.intervals.iter().filter_map(|interval| interval.frame.as_ref());
    let dirtied: u64 = frames.filter_map(|frame| frame.dirtied_bytes).sum();
    let written = case.record.app_bytes_written;
    (written > 0).then(|| dirtied as f64 / written as f64)
}

/// What makes this file system take direct I/O through the page cache.
fn why_buffered(case: &Case<'_>) -> &'static str {
    let compresses = case
        .target()
        .mount_options
        .iter()
        .any(|option| option.starts_with("compress") && option != "compress=no");
    match case.target().file_system.as_str() {
        "ext4" if case.has_mount_option("data=journal") => {
            "It is mounted with data=journal, which buffers everything: mount it with data=ordered."
        }
        "btrfs" if compresses => "It compresses, and compressed files are always buffered: mount it without.",
        "btrfs" => {
            "It computes checksums, for which direct writes are buffered; a directory with `chattr +C` has none."
        }
        "zfs" => {
            "Before version 2.3 it takes O_DIRECT and ignores it; later ones follow the property `direct`."
        }
        _ => "Its mount options or features make it buffered.",
    }
}

/// The device's bytes differ from ours.
pub(super) fn device_disagrees(case: &Case<'_>) -> Option<Finding> {
    let _ = disagreement(case.record, case.phase)?;
    let ratio = case.ratio()?;
    if o_direct_ineffective(case).is_some() || unwritten_extents(case).is_some() {
        return None;
    }
    let is_ours = case
        .record
        .device
        .as_ref()
        .and_then(|device| device.foreign_share)
        .is_some_and(|share| share < AGREEMENT);
    Some(match ratio {
        ratio if ratio < 1.0 => Finding::invalid(format!(
            "the device moved only {ratio:.3} bytes per byte asked for; the rest never reached it. Look for compression, deduplication or a cache in this {}.",
            case.target().file_system
        )),
        ratio if case.writes_behind() => Finding::info(format!(
            "the device moved {ratio:.3} bytes per byte asked for: {} writes its own trees besides, from which others' I/O cannot be told",
            case.target().file_system
        )),
        ratio if is_ours => Finding::suspect(format!(
            "the device moved {ratio:.3} bytes per byte asked for, all of them ours: this {} writes or reads more than it is asked to. Compare the row with care.",
            case.target().file_system
        )),
        ratio => Finding::suspect(format!(
            "the device moved {ratio:.3} bytes per byte asked for. Something else is using it: look at the noise, and run it again when it is quiet."
        )),
    })
}

/// Two counters of the kernel for the same bytes differ.
pub(super) fn counters_disagree(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files()?;
    if !case.is_on_devices() {
        return None;
    }
    if case.is_uncounted() {
        let name = &case.record.device.as_ref()?.name;
        return Some(Finding::suspect(format!(
            "{name} counted 0 requests while this moved {}, so nothing could be compared with it. Look whether its counters are on (/sys/class/block/{name}/queue/iostats).",
            size::decimal(case.record.app_bytes_read.saturating_add(case.record.app_bytes_written))
        )));
    }
    if data.verb != DataVerb::Read {
        return None;
    }
    let device = case.device()?.bytes_read as f64;
    let (own, app) = (case.charged_read_bytes()?, case.record.app_bytes_read as f64);
    // More from the device than we were charged for is others' I/O, and is told as that.
    let excess = (own - device) / app.max(1.0);
    (app > 0.0 && excess > SHARE_MAX).then(|| {
        Finding::suspect(format!(
            "the kernel charged us with {} more bytes read than the device counted, as a share of what was asked for. Are all devices under {} known?",
            percent(excess),
            case.target().mount_point
        ))
    })
}

/// Operations in flight that the device never saw: "asynchronous" calls that waited somewhere above it.
pub(super) fn depth_not_reached(case: &Case<'_>) -> Option<Finding> {
    let _ = case.data_in_files().filter(|data| data.direct)?;
    let _ = case.device()?;
    if case.phase.engine != Engine::Uring || !case.is_on_devices() || case.rate_is_given() {
        return None;
    }
    let record = case.record;
    let mean_ns = record.latency_ns.as_ref()?.mean as f64;
    let asked = f64::from(record.workload.iodepth) * f64::from(record.workload.threads);
    let elapsed_ns = record.elapsed_ns.max(1) as f64;
    // Little's law, above and below the file system.
    let ours = record.ops as f64 * mean_ns / elapsed_ns;
    let devices =
        case.frames().filter_map(|frame| Some(frame.devices.first()?.in_flight_ns as f64)).sum::<f64>()
            / elapsed_ns;
    // Some kernels do not count the time that requests spend in an array or a mapping.
    let waits_above = asked >= DEPTH_MIN && ours > 0.8 * asked && devices > 0.0 && devices < 0.5 * ours;
    waits_above.then(|| {
        Finding::info(format!(
            "{ours:.1} operations were in flight here and {devices:.1} in the device: the others waited above it"
        ))
    })
}
