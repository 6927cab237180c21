//! Writes that are not as durable as they look.

use model::DataVerb;
use model::numbers::{latency, percent};
use model::target::{DeviceKind, Target};
use model::workload::SyncMode;

use crate::{Case, Finding};

/// A flush of a volatile cache that takes less than this went nowhere: writing flash takes longer, and so does asking a
/// controller with a battery.
const FLUSH_NS_MIN: u64 = 20_000;
/// Fewer bytes on the device than this share of what was written and made durable: it waited in memory and was replaced.
const REACHED: f64 = 0.9;

/// Writes that nobody asked to be durable.
pub(super) fn nothing_durable(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files()?;
    let or_direct = if data.verb.is_bytes() { "" } else { ", or with :direct" };
    (data.writes() && !data.direct && data.sync == SyncMode::None).then(|| {
        Finding::invalid(format!(
            "this is the speed of memory: nothing was made durable. Try it with sync=end{or_direct}."
        ))
    })
}

/// Options that make syncing mean nothing.
pub(super) fn durability_void(case: &Case<'_>) -> Option<Finding> {
    let syncs = match (case.data_in_files(), case.files()) {
        (Some(data), _) => data.writes() && data.sync != SyncMode::None,
        (None, Some(files)) => files.sync != SyncMode::None,
        (None, None) => false,
    };
    if !syncs {
        return None;
    }
    let option = Target::NO_FLUSH.iter().find(|option| case.has_mount_option(option))?;
    Some(Finding::suspect(format!(
        "mounted with {option}: what was synced was not flushed to the medium, and is lost with the power. Mount it without."
    )))
}

/// Flushes that are faster than any medium.
pub(super) fn flush_too_fast(case: &Case<'_>) -> Option<Finding> {
    let _ = case.data_in_files().filter(|data| data.verb == DataVerb::Fsync)?;
    let leaves = || case.target().device_stack.iter().filter(|device| device.is_leaf());
    let is_volatile = leaves().any(|leaf| leaf.write_cache.as_deref() == Some("write back"));
    let in_memory = case.target().device_stack.iter().any(|device| device.kind == DeviceKind::Zram);
    let flushes = case.record.device.as_ref()?.flushes;
    let sync = case.record.steps.iter().find(|step| step.name == "fdatasync")?;
    let typical_ns = sync.latency_ns.as_ref()?.p50?;
    // Without flushes there is nothing to be too fast: the file system may do its durability with the write.
    let is_flushed = flushes as f64 > 0.5 * case.record.ops as f64;
    (is_volatile && !in_memory && is_flushed && typical_ns < FLUSH_NS_MIN).then(|| {
        Finding::suspect(format!(
            "a flush took {}, less than any medium needs, though the device says that its cache is volatile: flushes seem to be ignored. Do not rely on it for durability.",
            latency(typical_ns)
        ))
    })
}

/// Buffered writes that were replaced in memory before they reached the device.
pub(super) fn absorbed_by_page_cache(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files().filter(|data| {
        data.writes() && !data.direct && data.sync == SyncMode::End && data.verb != DataVerb::Fsync
    })?;
    let device = case.record.device.as_ref()?;
    let written = case.record.app_bytes_written;
    // Deduplication and compression are told as what they are.
    if written == 0 || data.compress_percent > 0 || data.dedupe_percent > 0 || compresses(case) {
        return None;
    }
    let reached = device.bytes_written as f64 / written as f64;
    (reached < REACHED && case.record.rate.durable_ops_per_second.is_some()).then(|| {
        Finding::invalid(format!(
            "only {} of what was written reached the device: the rest was replaced in memory before. Try it with :passes=1, or with :direct.",
            percent(reached)
        ))
    })
}

fn compresses(case: &Case<'_>) -> bool {
    super::target::compressible_target(case).is_some()
}

/// Bytes and flushes that the device needed for each byte that was made durable.
pub(super) fn amplification(case: &Case<'_>) -> Option<Finding> {
    let _ = case.data_in_files().filter(|data| data.verb == DataVerb::Fsync)?;
    let device = case.record.device.as_ref()?;
    let ratio = device.bytes_per_app_byte?;
    Some(Finding::info(format!(
        "the device wrote {ratio:.1} bytes per byte asked for and made {:.1} flushes per operation",
        device.flushes as f64 / case.record.ops.max(1) as f64
    )))
}

/// A cache in the device that a short test may have stayed in.
pub(super) fn volatile_write_cache(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files().filter(|data| data.writes() && data.verb != DataVerb::Fsync)?;
    let leaf = case.target().device_stack.iter().find(|device| {
        device.is_leaf()
            && device.kind == DeviceKind::Disk
            && device.write_cache.as_deref() == Some("write back")
    })?;
    let has_dropped = super::steadiness::rate_dropped(case).is_some();
    (data.sync != SyncMode::None && !has_dropped && case.record.app_bytes_written > 0).then(|| {
        Finding::info(format!(
            "{} has a write cache and took {} without slowing down; what it keeps up beyond that is not known. A larger --size and a longer --time tell",
            leaf.name,
            model::size::decimal(case.record.app_bytes_written)
        ))
    })
}
