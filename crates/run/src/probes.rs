//! Short experiments on a target before the first test: caches and compression below this system.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::budget::Budget;
use engine::buffer::AlignedBuffer;
use engine::clock::{Clock, Monotonic};
use model::Plan;
use model::marker::NamePattern;
use model::plan;
use model::run::{CompressibleProbe, Ping, Reread, TargetProbes};
use model::target::{Backing, DeviceKind, Target};
use observe::Root;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::data_location::DataLocation;
use crate::dataset::{DataSet, FileGroup, FillProgress};
use crate::hang_detection;

/// Number of blocks that are read twice.
const BLOCKS: usize = 1000;
/// Size of a block: most devices and caches keep at least this much.
const BLOCK_BYTES: usize = 4096;
/// Fewest blocks that tell anything.
const BLOCKS_MIN: usize = 20;
/// Longest time of the first reads. The second reads take no longer if there is nothing to find.
const FIRST_NS: u64 = 300_000_000;
/// Longest time of the first of two bursts. The second takes twice as long.
const PING_NS: u64 = 50_000_000;
/// Smallest file that is read in bursts: 16 times the blocks that are read twice.
const PING_FILE_BYTES_MIN: u64 = (16 * BLOCKS * BLOCK_BYTES) as u64;
/// Others may make one of this many parts of the first burst's reads.
const OTHERS_PARTS: u64 = 4;
/// Growth from the first burst to the second of a device that moves with them.
const PROPORTION: RangeInclusive<f64> = 1.6..=2.5;
/// Number of syncs of a file without new data.
const SYNCS: usize = 9;
/// Size of the file that shows if data is compressed.
const COMPRESSIBLE_BYTES: usize = plan::PROBE_BYTES as usize;
const PREFIX: &str = "probe-";
const DIGITS: usize = 4;

/// Returns the names that probes may make.
///
/// A client makes no probe, and all clients have the same probe_name_patterns.
pub fn probe_name_patterns(plan: &Plan, target: &Target) -> Vec<NamePattern> {
    if target.may_compress() && plan.clients.is_none() {
        vec![NamePattern::files(PREFIX, DIGITS, 1)]
    } else {
        Vec::new()
    }
}

/// Target of probes.
pub struct ProbedTarget<'a> {
    pub root: &'a Root,
    pub target: &'a Target,
    pub directory: &'a DataLocation,
    pub dataset: &'a DataSet,
}

/// Runs the applicable probes. A failed probe is ignored, and does not fail the run: a test with the same problem
/// reports it.
pub fn probe(
    probed: &ProbedTarget<'_>,
    plan: &Plan,
    seed: u64,
    budget: &Budget,
    interrupt: &Arc<AtomicBool>,
) -> TargetProbes {
    let ProbedTarget { root, target, directory, dataset } = *probed;
    let mut tests = plan.phases.iter().filter_map(|phase| phase.workload.data());
    // A test with zones reads what was asked for, and no block more.
    let reads = tests.any(|data| data.reads() && !data.verb.is_bytes() && data.zones.is_none());
    let in_memory = target.backing == Backing::Memory
        || target.device_stack.iter().any(|device| device.kind == DeviceKind::Zram);
    let is_read = |group: &&FileGroup| group.filled == FillProgress::Whole && reads && !in_memory;
    let group = dataset.groups.iter().find(is_read);
    let writes = plan.phases.iter().any(|phase| phase.workload.writes());
    // The kernel drops calls that a FUSE server does not have, and reports success.
    let may_drop_syncs = writes && target.file_system.starts_with("fuse");
    let filled = dataset.groups.iter().find(|group| group.filled == FillProgress::Whole && may_drop_syncs);
    TargetProbes {
        // Reads of other clients would move the same devices.
        ping: group
            .filter(|_| plan.clients.is_none())
            .and_then(|group| ping(root, directory, group, seed, interrupt)),
        sync_ns: filled.and_then(|group| sync_ns(directory, group)),
        reread: group.and_then(|group| reread(directory, group, seed, interrupt)),
        compressible: if target.may_compress() && budget.take(plan::PROBE_BYTES) {
            compressible(directory)
        } else {
            None
        },
    }
}

/// Opens the first file of a group for direct reads, and draws blocks of it.
fn draw_blocks(
    descriptor: impl AsFd,
    path: &Path,
    group: &FileGroup,
    seed: u64,
) -> Option<(OwnedFd, Vec<u64>)> {
    let file = group.open_file(descriptor.as_fd(), path, 0, OFlags::RDONLY | OFlags::DIRECT).ok()?;
    let blocks = group.file_bytes / BLOCK_BYTES as u64;
    let mut random = fastrand::Rng::with_seed(seed);
    let draw = |_| random.u64(0..blocks.max(1)) * BLOCK_BYTES as u64;
    let mut offsets: Vec<u64> = (0..BLOCKS).map(draw).collect();
    offsets.sort_unstable();
    offsets.dedup();
    random.shuffle(&mut offsets);
    Some((file, offsets))
}

/// Reads a burst of random blocks, and then one of twice as many. Finds the devices whose reads grew with them.
fn ping(
    root: &Root,
    directory: &DataLocation,
    group: &FileGroup,
    seed: u64,
    interrupt: &Arc<AtomicBool>,
) -> Option<Ping> {
    let descriptor = directory.descriptor().try_clone_to_owned().ok()?;
    let (root, group, path) = (root.clone(), group.clone(), directory.path().to_owned());
    let interrupt = Arc::clone(interrupt);
    let work = move || {
        // In a small file, these reads would bring the blocks that are read twice into a cache.
        if group.file_bytes < PING_FILE_BYTES_MIN {
            return None;
        }
        let (file, offsets) = draw_blocks(&descriptor, &path, &group, !seed)?;
        let mut reads = vec![observe::device_reads(&root)];
        std::thread::sleep(Duration::from_nanos(PING_NS));
        reads.push(observe::device_reads(&root));
        let first = offsets.get(..offsets.len() / 3)?;
        let count = latencies(&file, first, PING_NS, &interrupt)?.len();
        reads.push(observe::device_reads(&root));
        let second = offsets.get(count..3 * count).filter(|_| count >= BLOCKS_MIN)?;
        // They take as long as they need: a part of them would not be twice as many.
        latencies(&file, second, u64::MAX, &interrupt)?;
        reads.push(observe::device_reads(&root));
        Some(Ping { reads: count as u64, moved: moved(&reads, count as u64) })
    };
    hang_detection::wait_with_progress("read some blocks", || 0, work).ok().flatten()
}

/// Returns the devices whose reads grew with a burst of `count` reads, and twice as much with the next. The counts in
/// `reads` are from before a pause, and before, between and after the bursts.
fn moved(reads: &[BTreeMap<String, u64>], count: u64) -> Vec<String> {
    let [idle, before, between, after] = reads else { return Vec::new() };
    let has_moved = |name: &&String| {
        let at = |reads: &BTreeMap<String, u64>| reads.get(*name).copied();
        let counts = [idle, before, between, after].map(at);
        let [Some(idle), Some(before), Some(between), Some(after)] = counts else { return false };
        let [others, first, second] = [(before, idle), (between, before), (after, between)]
            .map(|(after, before)| after.saturating_sub(before));
        let ratio = second as f64 / first.max(1) as f64;
        // A steady load of others grows with the time of the bursts.
        first >= count / 2 && PROPORTION.contains(&ratio) && others * OTHERS_PARTS <= first
    };
    idle.keys().filter(has_moved).cloned().collect()
}

/// Reads random blocks directly, and then the same blocks again. If the second time is much faster, something
/// has kept them.
fn reread(
    directory: &DataLocation,
    group: &FileGroup,
    seed: u64,
    interrupt: &Arc<AtomicBool>,
) -> Option<Reread> {
    let action = "read some blocks twice";
    let descriptor = directory.descriptor().try_clone_to_owned().ok()?;
    let (group, path) = (group.clone(), directory.path().to_owned());
    let interrupt = Arc::clone(interrupt);
    let work = move || {
        let (file, mut offsets) = draw_blocks(&descriptor, &path, &group, seed)?;
        let first = latencies(&file, &offsets, FIRST_NS, &interrupt)?;
        offsets.truncate(first.len());
        if first.len() < BLOCKS_MIN {
            return None;
        }
        let second = latencies(&file, &offsets, FIRST_NS * 3, &interrupt)?;
        // Both lists are of the same blocks.
        let first = &first[..second.len().min(first.len())];
        if second.len() < BLOCKS_MIN {
            return None;
        }
        let ((first_mean_ns, first_p99_ns), (second_mean_ns, second_p99_ns)) =
            (mean_and_p99(first), mean_and_p99(&second));
        let blocks = second.len() as u64;
        Some(Reread { blocks, first_mean_ns, first_p99_ns, second_mean_ns, second_p99_ns })
    };
    hang_detection::wait_with_progress(action, || 0, work).ok().flatten()
}

/// Returns the median time of a sync of a file without new data.
fn sync_ns(directory: &DataLocation, group: &FileGroup) -> Option<u64> {
    let descriptor = directory.descriptor().try_clone_to_owned().ok()?;
    let (group, path) = (group.clone(), directory.path().to_owned());
    let work = move || {
        let file = group.open_file(descriptor.as_fd(), &path, 0, OFlags::WRONLY).ok()?;
        let sync = || {
            let start_ns = Monotonic.now_ns();
            rustix::fs::fdatasync(&file).ok().map(|()| Monotonic.now_ns() - start_ns)
        };
        let mut times = (0..SYNCS).map(|_| sync()).collect::<Option<Vec<_>>>()?;
        times.sort_unstable();
        times.get(SYNCS / 2).copied()
    };
    hang_detection::wait_with_progress("sync a file", || 0, work).ok().flatten()
}

/// Measures how long each block takes, one after the other, until `time_ns` is used up. Returns `None` if a
/// block cannot be read.
fn latencies(file: &OwnedFd, offsets: &[u64], time_ns: u64, interrupt: &AtomicBool) -> Option<Vec<u64>> {
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
    let first_start_ns = Monotonic.now_ns();
    let mut found = Vec::with_capacity(offsets.len());
    for offset in offsets {
        let start_ns = Monotonic.now_ns();
        if start_ns - first_start_ns > time_ns || interrupt.load(Ordering::Relaxed) {
            break;
        }
        rustix::io::pread(file, buffer.bytes_mut(), *offset).ok().filter(|got| *got == BLOCK_BYTES)?;
        found.push(Monotonic.now_ns() - start_ns);
    }
    Some(found)
}

fn mean_and_p99(latencies_ns: &[u64]) -> (u64, u64) {
    let mut sorted = latencies_ns.to_vec();
    sorted.sort_unstable();
    let count = sorted.len().max(1);
    let mean = sorted.iter().sum::<u64>() / count as u64;
    (mean, sorted.get(count * 99 / 100).copied().unwrap_or(0))
}

/// Writes a file of data that compresses, and measures the space that it takes.
fn compressible(directory: &DataLocation) -> Option<CompressibleProbe> {
    let action = "write a file of compressible data";
    let descriptor = directory.descriptor().try_clone_to_owned().ok()?;
    let work = move || {
        let name = format!("{PREFIX}{:0DIGITS$x}", 0);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&descriptor, name.as_str(), flags, Mode::RUSR | Mode::WUSR).ok()?;
        let file = std::fs::File::from(file);
        // The data has no zeros: some file systems make holes of these, compressed or not.
        let data: Vec<u8> = b"skye ".iter().copied().cycle().take(COMPRESSIBLE_BYTES).collect();
        let found = file.write_all_at(&data, 0).and_then(|()| file.sync_all()).ok().and_then(|()| {
            let stat = rustix::fs::fstat(&file).ok()?;
            let extents = observe::extents(file.as_fd(), 0..COMPRESSIBLE_BYTES as u64);
            Some(CompressibleProbe {
                bytes: COMPRESSIBLE_BYTES as u64,
                allocated_bytes: u64::try_from(stat.st_blocks).ok()? * 512,
                encoded_share: extents.map(|found| found.encoded_bytes as f64 / COMPRESSIBLE_BYTES as f64),
            })
        });
        // If this fails, the file goes with the directory, by its rule.
        let _ = rustix::fs::unlinkat(&descriptor, name.as_str(), AtFlags::empty());
        found
    };
    hang_detection::wait_with_progress(action, || 0, work).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_read_in_proportion_have_moved() {
        let reads = |all: [u64; 5]| {
            let names = ["vda", "vdb", "loop0", "sda", "sdb"].map(String::from);
            names.into_iter().zip(all).collect::<BTreeMap<_, _>>()
        };
        let all = [
            reads([10, 10, 10, 10, 0]),
            reads([10, 10, 10, 10, 90]),
            reads([110, 110, 10, 12, 180]),
            reads([310, 210, 10, 16, 360]),
        ];
        assert_eq!(moved(&all, 100), ["vda"]);
    }
}
