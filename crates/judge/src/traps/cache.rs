//! Reads that did not come from where the row says: from the page cache, or from a cache beyond this system.

use model::DataVerb;
use model::numbers::{latency, percent};
use model::size;
use model::target::Backing;
use model::workload::CacheMode;

use crate::{Case, Finding};

/// More than this share of bytes from memory, where none was to come from there, is another test.
const CONTAMINATION: f64 = 0.05;
/// A set of which no more than this is resident counts as cold.
const COLD: f64 = 0.001;
/// The same blocks read again this many times as fast: something kept them. Noise alone stays well below.
const REREAD_FASTER: f64 = 2.0;
/// Where only the slowest are so much faster, all of them are at least this much.
const MEAN_FASTER: f64 = 1.3;
/// A second time that takes less than this cannot be told from a fast device whose first time was disturbed.
const REREAD_GAIN_NS: u64 = 20_000;
/// Later passes that are this much faster than the first were served by something that the first one filled.
const LATER_FASTER: f64 = 1.1;

/// Bytes that memory gave, where the device was to give them.
pub(super) fn served_from_page_cache(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files().filter(|data| data.reads() && !data.direct)?;
    // Without a device that counts, what lay in memory at the start is what came from there.
    let residency = || case.record.residency.as_ref().and_then(|residency| residency.before);
    let share = case.record.page_cache_share.or_else(residency).filter(|share| *share > CONTAMINATION)?;
    if case.target().backing == Backing::Memory {
        return None;
    }
    let told = format!("{} of the bytes came from memory", percent(share));
    // Bytes go through the cache whatever one asks for.
    let or_direct = if data.verb.is_bytes() { "" } else { ", or with :direct" };
    Some(match case.plan.cache {
        CacheMode::Warm => Finding::info(format!("{told}, as asked for: the speed of the page cache")),
        CacheMode::AsIs => Finding::suspect(format!(
            "{told}, so this is not the device's speed. Try it with --cache cold{or_direct}."
        )),
        CacheMode::Cold | CacheMode::DropAll => Finding::invalid(format!(
            "{told}, though the cache was to be cold, so this is not the device's speed. Something else reads these files or keeps them in memory; try it with :direct."
        )),
    })
}

/// Pages that could not be dropped before a cold read.
pub(super) fn cache_not_cold(case: &Case<'_>) -> Option<Finding> {
    let is_cold = matches!(case.plan.cache, CacheMode::Cold | CacheMode::DropAll);
    let _ = case.data_in_files().filter(|data| data.reads() && !data.direct && is_cold)?;
    let share = case.record.residency.as_ref()?.before.filter(|share| *share > COLD)?;
    // What is told already is not told twice.
    if served_from_page_cache(case).is_some() || case.target().backing == Backing::Memory {
        return None;
    }
    Some(Finding::suspect(format!(
        "{} of the set could not be dropped from the page cache before it was read. Look for a program that maps these files.",
        percent(share)
    )))
}

/// A host, an array, a controller or the drive itself keeps what was read.
pub(super) fn below_os_cache(case: &Case<'_>) -> Option<Finding> {
    let _ = case.data_in_files().filter(|data| data.reads())?;
    let reread = case.probes?.reread.as_ref()?;
    let is_faster = |first_ns: u64, second_ns: u64| {
        first_ns as f64 > REREAD_FASTER * second_ns as f64 && first_ns - second_ns > REREAD_GAIN_NS
    };
    let mean = is_faster(reread.first_mean_ns, reread.second_mean_ns);
    let (what, first_ns, second_ns) = match mean {
        true => ("on average", reread.first_mean_ns, reread.second_mean_ns),
        // Ten slow operations of a thousand may be anybody's; what a cache answers is faster on average, too.
        false
            if is_faster(reread.first_p99_ns, reread.second_p99_ns)
                && reread.first_mean_ns as f64 > MEAN_FASTER * reread.second_mean_ns as f64 =>
        {
            ("at the 99th percentile", reread.first_p99_ns, reread.second_p99_ns)
        }
        false => return None,
    };
    Some(Finding::suspect(format!(
        "a cache below this system (host, array, controller or drive) serves what was read before: {} blocks took {} {what} the first time and {} the second. Ask for a --size that it cannot hold.",
        reread.blocks,
        latency(first_ns),
        latency(second_ns)
    )))
}

/// A server whose memory may have answered.
pub(super) fn server_cache(case: &Case<'_>) -> Option<Finding> {
    let _ = case.data_in_files().filter(|data| data.reads())?;
    if case.target().backing != Backing::RemoteOrUserSpace {
        return None;
    }
    let size_bytes = case.record.workload.size_bytes;
    match case.plan.server_ram_bytes {
        Some(memory) if size_bytes > memory => None,
        Some(memory) => Some(Finding::suspect(format!(
            "the set of {} fits into the server's memory of {}, so it may not come from its disks. Ask for a larger --size.",
            size::binary(size_bytes),
            size::binary(memory)
        ))),
        None => Some(Finding::suspect(
            "the server may have answered from its memory, which nobody here sees. Say how much it has with --server-ram, and ask for a --size beyond that.",
        )),
    }
}

/// The same data read more than once, which whatever lies below may have kept.
pub(super) fn several_passes(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files().filter(|data| data.direct && data.verb == DataVerb::Read)?;
    let target = case.target();
    let may_cache = target.backing == Backing::RemoteOrUserSpace
        || (target.backing == Backing::Devices && case.environment.virtualisation.is_some());
    if case.record.passes < 1.05 || !case.is_measured() {
        return None;
    }
    let (first, later) = first_and_later(case, case.record.workload.size_bytes / data.block_bytes)?;
    let times = format!("read the set {:.1} times", case.record.passes);
    if later > first * LATER_FASTER {
        return Some(Finding::suspect(format!(
            "{times}, and what came after the first was {} faster: a cache below this system was filled by it. Ask for a larger --size, or add :passes=1.",
            percent(later / first - 1.0)
        )));
    }
    may_cache.then(|| {
        Finding::info(format!(
            "{times}, from below which a host or server may cache; what came after the first was no faster"
        ))
    })
}

/// Operations per second while every block was read for the first time, and after that.
fn first_and_later(case: &Case<'_>, blocks: u64) -> Option<(f64, f64)> {
    let (mut first, mut later) = ((0u64, 0u64), (0u64, 0u64));
    for interval in &case.record.intervals {
        let sum = if first.0 < blocks { &mut first } else { &mut later };
        *sum = (sum.0 + interval.ops, sum.1 + interval.length_ns);
    }
    let rate = |(ops, ns): (u64, u64)| (ns >= 500_000_000).then(|| ops as f64 * 1e9 / ns as f64);
    rate(first).zip(rate(later))
}

/// Bytes that the kernel fetched and nobody read.
pub(super) fn read_ahead(case: &Case<'_>) -> Option<Finding> {
    let _ = case.data_in_files().filter(|data| data.verb == DataVerb::Read && !data.direct)?;
    let ratio = case.ratio().filter(|ratio| *ratio > 1.1)?;
    Some(Finding::info(format!(
        "the device read {ratio:.2} bytes per byte asked for: read-ahead that was not used"
    )))
}
