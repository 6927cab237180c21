//! Reads that came from another place than the row says: from the page cache, or from a cache beyond this system.

use model::DataVerb;
use model::advice::Advice;
use model::disturbance::SHARE_MAX;
use model::figure::{Count, LatencyNs, Mean, MemoryBytes, Name, Ratio, Share};
use model::finding::Finding;
use model::layer::LayerKind;
use model::target::Backing;
use model::workload::{Access, CacheMode, DataWork};

use crate::values::input::JudgeInput;
use crate::values::ledger::{Answered, Ledger};
use crate::values::trap_finding::TrapFinding;

traps!(
    served_from_page_cache,
    cache_not_cold,
    answered_by_layer,
    below_os_cache,
    server_cache,
    several_passes,
    read_ahead
);

/// If more than this share of bytes came from memory, and none should have, the test measured something else.
const CONTAMINATION: f64 = 0.05;
/// A set counts as cold if no more than this share of it is resident.
const RESIDENT_SHARE_MAX: f64 = 0.001;
/// If the same blocks are read again this many times as fast, something kept them. Noise alone stays well below.
const REREAD_FASTER: f64 = 2.0;
/// If only the slowest reads are that much faster, the mean must be at least this much faster.
const MEAN_FASTER: f64 = 1.3;
/// A smaller gain than this may be that of a fast device whose first read was disturbed.
const REREAD_GAIN_NS: u64 = 20_000;
/// If later passes are this much faster than the first, something that the first one filled served them.
const LATER_FASTER: f64 = 1.2;
/// Shortest duration of each of the two: the start alone can make a shorter one slow.
const PASS_NS_MIN: f64 = 1e9;
/// A set is warm if more than this share of it came from memory.
const WARM_SHARE_MIN: f64 = 0.95;
/// Reads per block above which the bytes from memory may stem from an earlier read.
const REREADS_MIN: f64 = 1.0 + CONTAMINATION;
/// A server that may hold more than this share of the set may answer most of it.
const CACHED_SHARE_MIN: f64 = 0.5;
/// Most bytes of a read-ahead.
const READ_AHEAD_BYTES: u64 = 1 << 20;
/// Smaller blocks than this are read as whole pages.
const PAGE_BYTES: u64 = 4096;

/// Bytes that came from memory instead of the device.
fn served_from_page_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| data.reads() && !data.direct)?;
    // The share resident at the start counts if no device does, or if compression leaves fewer bytes on it.
    let residency = || input.record.seen.residency.as_ref().and_then(|residency| residency.before);
    let is_compressed = input.record.seen.extents.as_ref().is_some_and(|extents| extents.encoded_share > 0.0);
    // Read-ahead of another client brings blocks that lie between its own.
    let is_read_ahead = data.interleaved && input.plan.clients.is_some();
    let counted = input.record.seen.page_cache_share.filter(|_| !is_compressed && !is_read_ahead);
    let share = counted.or_else(residency)?;
    let is_warm = input.plan.cache == CacheMode::Warm;
    if input.target().backing == Backing::Memory || (share <= CONTAMINATION && !is_warm) {
        return None;
    }
    let cached_share = Share(share);
    Some(match input.plan.cache {
        CacheMode::Warm if share > WARM_SHARE_MIN => Finding::CacheWarm { cached_share }.into(),
        CacheMode::Warm => {
            TrapFinding::new(Finding::CacheHalfWarm { cached_share }, [Advice::SizeWithinMemory {}])
        }
        // Blocks that come often are meant to stay in memory.
        _ if data.is_skewed() => Finding::CacheAnsweredHot { cached_share }.into(),
        CacheMode::AsIs => {
            TrapFinding::new(Finding::CacheAnswered { cached_share }, [Advice::ColdCache {}]).or_direct(data)
        }
        CacheMode::Cold | CacheMode::DropAll if input.record.counts.passes > REREADS_MIN => {
            let finding =
                Finding::CacheAnsweredAgain { cached_share, passes: Mean(input.record.counts.passes) };
            TrapFinding::new(finding, [Advice::OnePass {}]).or_direct(data)
        }
        CacheMode::Cold | CacheMode::DropAll => {
            TrapFinding::new(Finding::CacheNotCold { cached_share }, [Advice::FindReader {}]).or_direct(data)
        }
    })
}

/// Pages that could not be dropped before a cold read.
fn cache_not_cold(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let is_cold = matches!(input.plan.cache, CacheMode::Cold | CacheMode::DropAll);
    let data = input.data_in_files().filter(|data| data.reads() && !data.direct && is_cold)?;
    let share = input.record.seen.residency.as_ref()?.before.filter(|share| *share > RESIDENT_SHARE_MAX)?;
    // Other traps already report these cases. Hot blocks in memory are no reason for pages that stayed there.
    let is_reported = !data.is_skewed() && served_from_page_cache(input).is_some();
    if is_reported || input.target().backing == Backing::Memory {
        return None;
    }
    Some(TrapFinding::new(Finding::CacheNotDropped { cached_share: Share(share) }, [Advice::FindMapper {}]))
}

/// Bytes that no layer below some layer moved: a cache or a hole there answered.
fn answered_by_layer(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    // Other traps say more about the file system of the test, and about its own page cache.
    let is_file_system = input.target().layers.first()?.kind == LayerKind::FileSystem;
    let from_device = is_file_system || !input.data()?.direct;
    let (_, answered) = answered(input, from_device)?;
    Some(stopped_at(input, &answered))
}

/// Returns the first layers that answered a part of the test, and true if it is a part of the reads. With `from_device`, the
/// layers above the first that counts are left out.
pub(crate) fn answered(input: &JudgeInput<'_>, from_device: bool) -> Option<(bool, Answered)> {
    let data = input.data_in_files().filter(|data| !expects_warm_cache(input, data))?;
    // Data that compresses, or that is there already, takes less space below a file system that finds it out.
    if data.compress_percent > 0 || data.dedupe_percent > 0 {
        return None;
    }
    let load = input.record.seen.load.as_ref()?;
    let block_bytes = (data.access == Access::Random).then_some(data.block_bytes);
    [true, false].into_iter().find_map(|is_read| {
        let ledger = Ledger::new(load, &input.target().layers, is_read, block_bytes);
        // What is in flight at the ends, and read-ahead, is on one side alone.
        let uncertain_bytes = 2 * load.in_flight_max * data.block_bytes + READ_AHEAD_BYTES;
        let resolution = uncertain_bytes as f64 / ledger.requested();
        Some((is_read, ledger.answered(resolution.max(CONTAMINATION), from_device)?))
    })
}

fn stopped_at(input: &JudgeInput<'_>, answered: &Answered) -> TrapFinding {
    let Answered { counted, between, below, share } = answered;
    let layers = &input.target().layers;
    let name = |at: &usize| layers.get(*at).map_or("", |layer| layer.name.as_str());
    let names = |all: &[usize]| Name::from(all.iter().map(name).collect::<Vec<_>>().join(", "));
    let has =
        |all: &[usize], kind| all.iter().any(|at| layers.get(*at).is_some_and(|layer| layer.kind == kind));
    let (share, below_names) = (Share(*share), names(below));
    let finding = match counted {
        Some(device) if has(between, LayerKind::PageCache) => {
            Finding::StoppedAtImage { share, device: name(device).into(), below: below_names }
        }
        _ if has(below, LayerKind::Fuse) => Finding::StoppedAboveFuse { share, below: below_names },
        // A device that passes on less answers itself: a thin volume without the blocks, or a cache.
        Some(device) if between.is_empty() => {
            Finding::StoppedBetween { share, layers: name(device).into(), below: below_names }
        }
        _ => Finding::StoppedBetween { share, layers: names(between), below: below_names },
    };
    TrapFinding::new(finding, [Advice::BypassLowerCache {}])
}

/// A cache in a host, an array, a controller or the drive itself.
fn below_os_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| data.reads() && !expects_warm_cache(input, data))?;
    let reread = input.probes?.reread.as_ref()?;
    let is_faster = |first_ns: u64, second_ns: u64| {
        first_ns as f64 > REREAD_FASTER * second_ns as f64 && first_ns - second_ns > REREAD_GAIN_NS
    };
    let by_mean = is_faster(reread.first_mean_ns, reread.second_mean_ns);
    // Ten slow operations of a thousand may have any cause. A cache makes reads faster on average, too.
    let by_p99 = is_faster(reread.first_p99_ns, reread.second_p99_ns)
        && reread.first_mean_ns as f64 > MEAN_FASTER * reread.second_mean_ns as f64;
    let (blocks, passes) = (Count(reread.blocks), Mean(input.record.counts.passes));
    let mean = [reread.first_mean_ns, reread.second_mean_ns].map(LatencyNs);
    let p99 = [reread.first_p99_ns, reread.second_p99_ns].map(LatencyNs);
    // It is unknown how much of the data just written such a cache holds.
    let is_used = input.record.counts.passes > REREADS_MIN;
    let finding = match (by_mean, by_p99, is_used) {
        // A skewed test reads some blocks again and again, however long it lasts.
        (true, ..) if data.is_skewed() => {
            let [first_ns, second_ns] = mean;
            return Some(Finding::LowerCacheHot { blocks, first_ns, second_ns }.into());
        }
        (false, true, _) if data.is_skewed() => {
            let [first_ns, second_ns] = p99;
            return Some(Finding::LowerCacheHotByP99 { blocks, first_ns, second_ns }.into());
        }
        (true, _, true) => {
            let [first_ns, second_ns] = mean;
            Finding::LowerCache { blocks, first_ns, second_ns, passes }
        }
        (true, _, false) => {
            let [first_ns, second_ns] = mean;
            Finding::LowerCacheUnused { blocks, first_ns, second_ns }
        }
        (false, true, true) => {
            let [first_ns, second_ns] = p99;
            Finding::LowerCacheByP99 { blocks, first_ns, second_ns, passes }
        }
        (false, true, false) => {
            let [first_ns, second_ns] = p99;
            Finding::LowerCacheUnusedByP99 { blocks, first_ns, second_ns }
        }
        (false, false, _) => return None,
    };
    Some(TrapFinding::new(finding, is_used.then_some(Advice::OnePassOrLargerSize {})))
}

/// A server whose memory may have answered.
fn server_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let _ = input.data_in_files().filter(|data| data.reads() && !expects_warm_cache(input, data))?;
    // Counted devices below a program show what came from memory.
    let flows = input.record.seen.load.iter().flat_map(|load| &load.flows);
    let mut layers = flows.filter_map(|flow| input.target().layers.get(flow.layer as usize));
    let is_seen = layers.any(|layer| layer.kind == LayerKind::Device);
    if input.target().backing != Backing::RemoteOrUserSpace || is_seen {
        return None;
    }
    let size_bytes = input.record.workload.size_bytes;
    match input
        .plan
        .server_ram_bytes
        .map(|memory_bytes| (memory_bytes, memory_bytes as f64 / size_bytes.max(1) as f64))
    {
        Some((_, held_share)) if held_share <= CACHED_SHARE_MIN => None,
        Some((memory_bytes, held_share)) => {
            let (memory_bytes, held_share) = (MemoryBytes(memory_bytes), Share(held_share.min(1.0)));
            let finding =
                Finding::ServerHolds { memory_bytes, held_share, size_bytes: MemoryBytes(size_bytes) };
            Some(TrapFinding::new(finding, [Advice::SizeTwiceServer {}]))
        }
        None => {
            let finding = Finding::ServerMemoryUnknown { size_bytes: MemoryBytes(size_bytes) };
            Some(TrapFinding::new(finding, [Advice::ServerRam {}]))
        }
    }
}

/// Returns true if the user requested a warm cache for this buffered read.
fn expects_warm_cache(input: &JudgeInput<'_>, data: &DataWork) -> bool {
    !data.direct && input.plan.cache == CacheMode::Warm
}

/// Data that is read more than once, with a slower first pass: a lower layer cached it.
fn several_passes(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data =
        input.data_in_files().filter(|data| (data.direct || data.uncached) && data.verb == DataVerb::Read)?;
    // A skewed test has no passes.
    if input.record.counts.passes < REREADS_MIN || input.keeps_requested_rate() || data.is_skewed() {
        return None;
    }
    // A limit that was raised, or a quota, also makes the first pass slower.
    let quota = input.record.seen.budget.as_ref().and_then(|budget| budget.quota).unwrap_or(0.0);
    if quota > SHARE_MAX || super::disturbance::limit_changed(input).is_some() {
        return None;
    }
    let (first, later) = first_and_later(input, input.record.workload.size_bytes / data.block_bytes.max(1))?;
    // Chance explains a smaller gain without a cache.
    let chance = 3.0 * input.half_width().unwrap_or(0.0);
    let gain = later / first - 1.0;
    (gain > (LATER_FASTER - 1.0).max(chance)).then(|| {
        let finding =
            Finding::LaterPassesFaster { passes: Mean(input.record.counts.passes), gain: Share(gain) };
        TrapFinding::new(finding, [Advice::LargerSizeOrOnePass {}])
    })
}

/// Operations per second while every block was read for the first time, and after that.
fn first_and_later(input: &JudgeInput<'_>, blocks: u64) -> Option<(f64, f64)> {
    let (mut first, mut later) = ((0.0, 0.0), (0.0, 0.0));
    for interval in &input.record.figures.intervals {
        let sum: &mut (f64, f64) = if first.0 < blocks as f64 { &mut first } else { &mut later };
        *sum = (sum.0 + interval.ops as f64, sum.1 + interval.length_ns as f64);
    }
    let rate = |(ops, ns): (f64, f64)| (ns >= PASS_NS_MIN && ops > 0.0).then(|| ops * 1e9 / ns);
    rate(first).zip(rate(later))
}

/// Bytes that the kernel read beyond the requests: read-ahead, or whole pages.
fn read_ahead(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| data.verb == DataVerb::Read && !data.direct)?;
    let ratio = input.ratio().filter(|ratio| *ratio > 1.1)?;
    // Another trap reports the reads of other processes.
    if super::disturbance::foreign_io(input).is_some() {
        return None;
    }
    let ratio = Ratio(ratio);
    Some(match data.access == Access::Random && data.block_bytes < PAGE_BYTES {
        true => Finding::WholePages { ratio }.into(),
        false => Finding::ReadAheadUnused { ratio }.into(),
    })
}
