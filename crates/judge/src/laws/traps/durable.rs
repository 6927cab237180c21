//! Writes that are not as durable as they look.

use model::DataVerb;
use model::advice::Advice;
use model::figure::{Bytes, LatencyNs, Mean, Share};
use model::finding::Finding;
use model::target::{Backing, DeviceKind, Target};
use model::workload::SyncMode;

use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

traps!(
    nothing_durable,
    durability_void,
    sync_not_sent,
    flush_too_fast,
    absorbed_by_page_cache,
    amplification,
    volatile_write_cache,
);

/// A flush of a volatile cache that takes less than this stored nothing: it is little more than the round trip to a
/// device.
const FLUSH_NS_MIN: u64 = 20_000;
/// A sync that takes less than this was not sent to a server: two switches between processes take longer.
const SENT_SYNC_NS_MIN: u64 = 2_000;
/// If less than this share of the bytes made durable reached the device, the rest was replaced in memory.
const REACHED_SHARE_MIN: f64 = 0.9;
/// A device that took this share of its size has shown its lasting rate: its cache is smaller.
const CACHE_SHARE_MAX: f64 = 1.0 / 3.0;
/// Mount options that disable syncs altogether, whatever the device. The other options only leave out the flushes.
const NO_SYNC_OPTIONS: &[&str] = &["volatile", "fsync=volatile", "journal_flush_disabled"];

/// Buffered writes without a sync.
fn nothing_durable(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files()?;
    let is_sent = data.sync == SyncMode::Close && input.target().backing == Backing::RemoteOrUserSpace;
    let is_synced = data.sync.is_durable() || input.has_mount_option("sync");
    (data.writes() && !data.direct && !is_synced && !is_sent).then(|| {
        let finding = Finding::NothingDurable { written_bytes: Bytes(input.record.counts.app_bytes_written) };
        TrapFinding::new(finding, [Advice::SyncEnd {}]).or_direct(data)
    })
}

/// Mount options that make syncs meaningless.
fn durability_void(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let syncs = match (input.data_in_files(), input.files()) {
        (Some(data), _) => data.verb == DataVerb::Fsync || (data.writes() && data.sync.is_durable()),
        (None, Some(files)) => files.syncs(),
        (None, None) => false,
    };
    let option = Target::NO_FLUSH.iter().find(|option| syncs && input.has_mount_option(option))?;
    // A device that keeps nothing in a volatile cache loses nothing without flushes.
    let mut leaves = input.target().device_stack.iter().filter(|device| device.is_leaf()).peekable();
    let is_safe = leaves.peek().is_some()
        && leaves.all(|leaf| leaf.write_cache.as_deref() == Some("write through"))
        && !NO_SYNC_OPTIONS.contains(option);
    (!is_safe).then(|| {
        let finding = Finding::SyncsNotFlushed { option: (*option).into() };
        TrapFinding::new(finding, [Advice::MountWithout { option: (*option).into() }])
    })
}

/// Syncs that the kernel does not send to a server, as it has none.
fn sync_not_sent(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let syncs_data = input.data_in_files().is_some_and(|data| data.writes() && data.sync.is_durable());
    let syncs_files = input.files().is_some_and(|files| files.syncs());
    let sync_ns = input.probes?.sync_ns.filter(|time_ns| *time_ns < SENT_SYNC_NS_MIN)?;
    (syncs_data || syncs_files).then(|| {
        let file_system = input.target().file_system.as_str().into();
        Finding::SyncNotSent { sync_ns: LatencyNs(sync_ns), file_system }.into()
    })
}

/// Flushes that are faster than any medium.
fn flush_too_fast(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let _ = input.data_in_files().filter(|data| data.verb == DataVerb::Fsync)?;
    let leaves = || input.target().device_stack.iter().filter(|device| device.is_leaf());
    let leaf = leaves().find(|leaf| leaf.has_volatile_cache())?;
    let in_memory = input.target().device_stack.iter().any(|device| device.kind == DeviceKind::Zram);
    let sync = input.record.figures.steps.iter().find(|step| step.name == "fdatasync")?;
    let typical_ns = sync.latency_ns.as_ref()?.p50?;
    // Without flushes, nothing can be too fast: the file system may make data durable with the write itself.
    let is_flushed = input.flushes() > 0.5 * input.record.counts.ops as f64;
    (!in_memory && is_flushed && typical_ns < FLUSH_NS_MIN).then(|| {
        let device = leaf.name.as_str().into();
        TrapFinding::new(
            Finding::FlushTooFast { typical_ns: LatencyNs(typical_ns), device },
            [Advice::FindFlush {}],
        )
    })
}

/// Buffered writes that were replaced in memory before they reached the device.
fn absorbed_by_page_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| {
        let is_at_end = data.sync == SyncMode::End && data.syncs_at_end() && data.verb != DataVerb::Fsync;
        data.writes() && !data.direct && is_at_end
    })?;
    let device = input.device()?;
    let written = input.record.counts.app_bytes_written;
    // Deduplication and compression also reduce the bytes on the device.
    if written == 0 || data.compress_percent > 0 || data.dedupe_percent > 0 || compresses(input) {
        return None;
    }
    let reached_share = device.bytes_written as f64 / written as f64;
    if reached_share >= REACHED_SHARE_MIN || input.record.figures.rate.durable_ops_per_second.is_none() {
        return None;
    }
    let reached_share = Share(reached_share);
    if data.is_skewed() {
        return Some(Finding::HotReplacedInMemory { reached_share }.into());
    }
    let caught = match input.record.counts.passes > 1.0 {
        // The user requested several passes, but not all of their bytes reached the device.
        true => {
            let finding =
                Finding::ReplacedInMemory { reached_share, passes: Mean(input.record.counts.passes) };
            TrapFinding::new(finding, [Advice::OnePass {}])
        }
        false => {
            let file_system = || input.target().file_system.as_str().into();
            let finding = Finding::DidNotReachDevice { reached_share, file_system: file_system() };
            TrapFinding::new(finding, [Advice::FindKeeper { file_system: file_system() }])
        }
    };
    Some(caught.or_direct(data))
}

fn compresses(input: &JudgeInput<'_>) -> bool {
    super::target::compressible_target(input).is_some()
}

/// Bytes and flushes that the device needed for each byte that was made durable.
fn amplification(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let _ = input
        .data_in_files()
        .filter(|data| data.verb == DataVerb::Fsync || data.sync == SyncMode::Dsync && !data.reads())?;
    let ratio = input.ratio()?;
    let flushes = Mean(input.flushes() / input.record.counts.ops.max(1) as f64);
    Some(Finding::Amplification { ratio: Mean(ratio), flushes }.into())
}

/// A cache in the device that may have held all of a short test.
fn volatile_write_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| data.writes() && data.verb != DataVerb::Fsync)?;
    let leaf =
        input.target().device_stack.iter().find(|device| {
            device.is_leaf() && device.kind == DeviceKind::Disk && device.has_volatile_cache()
        })?;
    let has_dropped = super::steadiness::rate_dropped(input).is_some();
    let written = input.record.counts.app_bytes_written;
    let is_small = (written as f64) < CACHE_SHARE_MAX * leaf.size_bytes as f64;
    (data.sync.is_durable() && !has_dropped && !input.keeps_requested_rate() && written > 0 && is_small).then(
        || {
            let finding =
                Finding::WriteCacheHeld { device: leaf.name.as_str().into(), written_bytes: Bytes(written) };
            TrapFinding::new(finding, [Advice::LongerTimeAndLimit {}])
        },
    )
}
