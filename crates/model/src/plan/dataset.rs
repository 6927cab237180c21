//! The files that data tests work on, and the room for them and for the files of the other tests.

use serde::{Deserialize, Serialize};

use super::PlannedPhase;
use crate::machine::Machine;
use crate::request::Request;
use crate::size::{self, Size};
use crate::spec;
use crate::target::Target;
use crate::trouble::Trouble;
use crate::workload::{DataWork, EngineWord, FileVerb, SyncMode};

/// Data sets are at least this large unless a size is asked for: below it, device caches and start-up dominate.
pub const DATASET_BYTES_MIN: u64 = 256 << 20;
/// Data sets are at most this large unless a size is asked for.
pub const DATASET_BYTES_MAX: u64 = 4 << 30;
/// Free space that a run leaves, unless allowed otherwise: the larger of this and 5 % of the file system.
pub const RESERVE_BYTES: u64 = 1 << 30;
/// Most directories that one test keeps open at a time.
const DESCRIPTORS_MAX: u64 = 512;

/// The files that data tests work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dataset {
    /// Bytes over all files of a group, at most.
    pub size_bytes_max: u64,
    /// Bytes that the tests need at least: one block for each operation in flight.
    pub size_bytes_min: u64,
    /// Whether that size was asked for; else calibration may choose a smaller one.
    pub size_is_fixed: bool,
    /// The files, by what is in them and who works in them; empty where no test needs files. Each group has the whole
    /// size.
    #[serde(default)]
    pub groups: Vec<DataGroup>,
    /// Sizes of files are multiples of this, so that every block size fits.
    pub unit_bytes: u64,
    /// Bytes from one data stamp to the next, so that every block of every size begins with one.
    #[serde(default = "page_bytes")]
    pub stamp_interval_bytes: u64,
}

/// Files of the same kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataGroup {
    /// Whether all threads work in one file; else each has its own.
    pub shared: bool,
    /// How many files.
    pub files: u32,
    /// Percent of each 4 KiB that compresses away.
    pub compress_percent: u8,
    /// Percent of the blocks that are copies of one another.
    pub dedupe_percent: u8,
}

impl DataGroup {
    fn holds_content_of(&self, data: &DataWork) -> bool {
        (self.compress_percent, self.dedupe_percent) == (data.compress_percent, data.dedupe_percent)
    }
}

impl Dataset {
    /// Bytes of each file of a group that has `size_bytes`.
    pub fn group_file_bytes(&self, group: &DataGroup, size_bytes: u64) -> u64 {
        size_bytes / u64::from(group.files.max(1)) / self.unit_bytes * self.unit_bytes
    }

    /// Bytes that laying it out writes, at most.
    pub fn layout_bytes_max(&self) -> u64 {
        let group_bytes = |group: &DataGroup| {
            self.group_file_bytes(group, self.size_bytes_max).saturating_mul(u64::from(group.files))
        };
        self.groups.iter().map(group_bytes).fold(0, u64::saturating_add)
    }

    /// Which of the groups a test works on; `None` if it works on no files.
    pub fn group_of(&self, data: &DataWork) -> Option<usize> {
        if matches!(data.engine, Some(EngineWord::Null | EngineWord::Nop)) {
            return None;
        }
        group_of(&self.groups, data)
    }
}

fn group_of(groups: &[DataGroup], data: &DataWork) -> Option<usize> {
    let find = |fits: &dyn Fn(&DataGroup) -> bool| {
        groups.iter().position(|group| group.holds_content_of(data) && fits(group))
    };
    // A single file that is nobody else's can be shared as well.
    find(&|group| group.shared == data.shared).or_else(|| find(&|group| data.shared && group.files == 1))
}

fn page_bytes() -> u64 {
    4096
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The block sizes of the tests on data; bytes one by one are no blocks.
fn block_sizes(phases: &[PlannedPhase]) -> impl Iterator<Item = u64> {
    let data = phases.iter().filter_map(|phase| phase.workload.data());
    data.filter(|data| !data.verb.is_bytes()).map(|data| data.block_bytes)
}

/// Least common multiple of the block sizes, so that files hold whole blocks of every test.
fn unit_bytes(phases: &[PlannedPhase]) -> u64 {
    // A page at least: data stamps are laid page by page.
    block_sizes(phases)
        .fold(page_bytes(), |unit, block| (unit / greatest_common_divisor(unit, block)).saturating_mul(block))
}

/// The files that tests need, by content and sharing: for each thread its own, or one for all.
fn groups(phases: &[PlannedPhase]) -> Vec<DataGroup> {
    let mut groups: Vec<DataGroup> = Vec::new();
    for phase in phases.iter().filter(|phase| phase.engine.needs_files()) {
        let Some(data) = phase.workload.data() else { continue };
        let files = if data.shared { 1 } else { phase.workload.threads };
        match groups.iter_mut().find(|group| group.shared == data.shared && group.holds_content_of(data)) {
            Some(group) => group.files = group.files.max(files),
            None => groups.push(DataGroup {
                shared: data.shared,
                files,
                compress_percent: data.compress_percent,
                dedupe_percent: data.dedupe_percent,
            }),
        }
    }
    // One file of its own serves those who share one as well.
    let all = groups.clone();
    groups.retain(|group| !group.shared || !all.contains(&DataGroup { shared: false, ..*group }));
    groups
}

/// Free space that stays free.
fn reserve_bytes(target: &Target, allow_low_space: bool) -> u64 {
    if allow_low_space { 0 } else { RESERVE_BYTES.max(target.space.total_bytes / 20) }
}

/// The data set that the tests need, of the size that was asked for or one that fits; `None` if none works on data.
pub(super) fn plan_dataset(
    request: &Request,
    phases: &[PlannedPhase],
    target: &Target,
    machine: &Machine,
    allow_low_space: bool,
) -> Result<Option<Dataset>, Trouble> {
    let unit_bytes = unit_bytes(phases);
    let groups = groups(phases);
    // Every group holds whole blocks of every test in each of its files, and one for each operation in flight.
    let least = |phase: &PlannedPhase| {
        let data = phase.workload.data()?;
        let files = group_of(&groups, data).map_or(1, |group| groups[group].files);
        let unit_of_all = unit_bytes.saturating_mul(u64::from(files));
        let in_flight = u64::from(phase.workload.in_flight()) * data.block_bytes;
        Some(in_flight.max(1).checked_next_multiple_of(unit_of_all).unwrap_or(u64::MAX))
    };
    let Some(least) = phases.iter().filter_map(least).max() else {
        return Ok(None);
    };
    let free = target.space.free_bytes;
    // The room is needed once for each group; where nothing is written only the offsets must have room.
    let copies = groups.len() as u64;
    let room = free.saturating_sub(reserve_bytes(target, allow_low_space));
    let usable = room.checked_div(copies).unwrap_or(i64::MAX as u64);
    let refuse = |cause: String| Trouble::new(format!("lay out the data set in {}", target.path), cause);
    let size_bytes = match request.size {
        Some(asked) => {
            let size_bytes = asked.resolve(free, machine.memory_bytes);
            if size_bytes < least {
                return Err(refuse(format!("{} is too small for these tests", size::binary(size_bytes)))
                    .remedy(format!(
                        "ask for --size {} or more, which holds one block for each operation in flight",
                        size::exact(least)
                    )));
            }
            let whole = size_bytes / unit_bytes * unit_bytes;
            if let (true, Size::Bytes(_)) = (whole != size_bytes, asked) {
                return Err(refuse(format!(
                    "{size_bytes} bytes are not a multiple of the block size {}",
                    size::exact(unit_bytes)
                ))
                .remedy(format!("ask for --size {}", size::exact(whole))));
            }
            whole
        }
        None if groups.is_empty() => {
            DATASET_BYTES_MIN.max(least).checked_next_multiple_of(unit_bytes).unwrap_or(u64::MAX)
        }
        None => {
            let wished = DATASET_BYTES_MAX.min(free / 10).max(least.min(free / 2));
            wished.min(usable) / unit_bytes * unit_bytes
        }
    };
    if size_bytes > usable || size_bytes < least {
        let needed = size_bytes.max(least).saturating_mul(copies.max(1));
        let reserve = reserve_bytes(target, allow_low_space);
        let mut cause = format!("it needs {} and {} are free", size::binary(needed), size::binary(free));
        if reserve > 0 {
            cause.push_str(&format!(", of which {} stay free", size::binary(reserve)));
        }
        let mut remedy = String::from("make room, or ask for a smaller --size");
        if !allow_low_space && needed <= free {
            remedy.push_str(", or add --allow low-space");
        }
        return Err(refuse(cause).remedy(remedy));
    }
    Ok(Some(Dataset {
        size_bytes_max: size_bytes,
        size_bytes_min: least,
        size_is_fixed: request.size.is_some(),
        groups,
        unit_bytes,
        stamp_interval_bytes: block_sizes(phases).fold(page_bytes(), greatest_common_divisor),
    }))
}

/// Refuses tests on files for which bytes, inodes or descriptors would not suffice, beside the data set.
pub(super) fn check_room_for_files(
    phases: &[PlannedPhase],
    dataset: Option<&Dataset>,
    target: &Target,
    allow_low_space: bool,
) -> Result<(), Trouble> {
    for workload in phases.iter().map(|phase| &phase.workload) {
        let Some(files) = workload.files() else { continue };
        let attempt = || format!("run `{}` in {}", spec::print(workload), target.path);
        // Links need no inode, the original of a symbolic link does beside its own.
        let inodes = match files.verb {
            _ if files.missing => 0,
            FileVerb::Symlink => files.files.saturating_mul(2),
            _ => files.files,
        };
        let trees = if files.shared { 1 } else { u64::from(workload.threads) };
        let inodes = inodes + trees * (files.dirs * u64::from(files.levels) + 1) + 16;
        let descriptors = trees * files.dirs;
        if files.sync == SyncMode::Each && files.dirs > 1 && descriptors > DESCRIPTORS_MAX {
            return Err(Trouble::new(
                attempt(),
                format!("sync=each keeps {descriptors} directories open, more than {DESCRIPTORS_MAX}"),
            )
            .remedy("ask for fewer dirs= or threads, or sync=end"));
        }
        if let Some(free) = target.space.inodes_free.filter(|free| inodes > *free) {
            return Err(Trouble::new(attempt(), format!("it needs {inodes} inodes and {free} are free"))
                .remedy("ask for fewer --files"));
        }
        // An empty file still takes about half a KiB of inode and directory on common file systems.
        let metadata_bytes = if target.space.inodes_free.is_some() { 64 } else { 512 };
        let needed = files.set_bytes_max().saturating_add(files.files.saturating_mul(metadata_bytes));
        let laid_out = dataset.map_or(0, Dataset::layout_bytes_max);
        let reserve = reserve_bytes(target, allow_low_space);
        if needed.saturating_add(laid_out).saturating_add(reserve) > target.space.free_bytes {
            return Err(Trouble::new(
                attempt(),
                format!(
                    "its files need about {} beside {} of data, {} stay free, and {} are free",
                    size::binary(needed),
                    size::binary(laid_out),
                    size::binary(reserve),
                    size::binary(target.space.free_bytes)
                ),
            )
            .remedy("ask for fewer --files or a smaller size=, or make room"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixtures::{GIB, asking, on_disk, planned};
    use crate::target::Backing;

    fn group(shared: bool, files: u32, compress_percent: u8, dedupe_percent: u8) -> DataGroup {
        DataGroup { shared, files, compress_percent, dedupe_percent }
    }

    #[test]
    fn files_are_grouped_by_content_and_sharing() {
        for (tests, expected) in [
            (&["read:t4", "write:q8t2"][..], vec![group(false, 4, 0, 0)]),
            (&["read:t4", "write:t8:shared"], vec![group(false, 4, 0, 0), group(true, 1, 0, 0)]),
            (&["write:t8:shared", "read"], vec![group(false, 1, 0, 0)]),
            (&["write:t8:shared", "read:compress=50"], vec![group(true, 1, 0, 0), group(false, 1, 50, 0)]),
            (
                &["write:compress=50:t2", "read:compress=50:t3", "read:dedupe=20", "getc-read:t2"],
                vec![group(false, 3, 50, 0), group(false, 1, 0, 20), group(false, 2, 0, 0)],
            ),
            (&["write:q8:buffered"], vec![group(false, 8, 0, 0)]),
            (&["read:engine=null", "write:engine=nop:compress=10"], vec![]),
        ] {
            let plan = on_disk(tests);
            let dataset = plan.dataset.unwrap();
            assert_eq!(dataset.groups, expected, "{tests:?}");
            for phase in &plan.phases {
                let data = phase.workload.data().unwrap();
                let found = dataset.group_of(data).map(|index| dataset.groups[index]);
                assert_eq!(found.is_some(), phase.engine.needs_files(), "{}", phase.id);
                assert!(found.is_none_or(|found| found.files == 1 || !data.shared), "{}", phase.id);
            }
        }
    }

    #[test]
    fn every_group_takes_its_room() {
        let plan = planned(
            &Request {
                size: Some(Size::Bytes(3 * GIB)),
                ..asking(&["read:t4", "write:t2:compress=50:ops=1"])
            },
            Backing::Devices,
            None,
        )
        .unwrap();
        let dataset = plan.dataset.as_ref().unwrap();
        assert_eq!(dataset.group_file_bytes(&dataset.groups[0], 3 * GIB), 768 << 20);
        assert_eq!(dataset.layout_bytes_max(), 6 * GIB);
        assert_eq!(plan.bytes_to_write_max, 6 * GIB + (1 << 20));
        let request = Request { size: Some(Size::Bytes(300 * GIB)), ..asking(&["read", "read:dedupe=5"]) };
        let problem = planned(&request, Backing::Devices, None).unwrap_err();
        assert!(problem.contains("it needs 600 GiB and 600 GiB are free"), "{problem}");
    }

    #[test]
    fn stamps_begin_every_block() {
        let interval = |tests: &[&str]| on_disk(tests).dataset.unwrap().stamp_interval_bytes;
        assert_eq!(interval(&["read:seq1m", "read:rnd16k"]), 4096);
        assert_eq!(interval(&["read:rnd6k", "byte-write"]), 2048);
        assert_eq!(interval(&["read:rnd512"]), 512);
        assert_eq!(interval(&["byte-read"]), 4096);
    }

    #[test]
    fn without_files_nothing_is_laid_out() {
        let plan = on_disk(&["write:engine=null:q8t4", "write:engine=nop"]);
        let dataset = plan.dataset.as_ref().unwrap();
        assert_eq!((dataset.size_bytes_max, dataset.size_bytes_min), (DATASET_BYTES_MIN, 32 << 20));
        assert_eq!((dataset.layout_bytes_max(), plan.bytes_to_write_max), (0, 0));
        assert!(plan.phases.iter().all(|phase| phase.stop.bytes.is_none()));
        // More than there is room for, and than the write limit.
        let huge = Request { size: Some(Size::Bytes(4096 * GIB)), ..asking(&["write:engine=null"]) };
        let huge = planned(&huge, Backing::Devices, None).unwrap();
        assert_eq!(huge.dataset.map(|dataset| dataset.size_bytes_max), Some(4096 * GIB));
    }
}
