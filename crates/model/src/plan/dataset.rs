//! The files that data tests work on.

use serde::{Deserialize, Serialize};

use super::PlannedPhase;
use super::precondition::FILL_BLOCK_BYTES;
use super::room::{DATASET_BYTES_MIN, Room};
use super::spread::Spread;
use crate::machine::Machine;
use crate::request::Request;
use crate::size;
use crate::spec;
use crate::target::Target;
use crate::user_error::UserError;
use crate::workload::{DataVerb, DataWork, Workload, ZONES_MAX};

/// The files that data tests work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Dataset {
    /// Most bytes over all files of a group.
    pub size_bytes_max: u64,
    /// Fewest bytes that the tests need: one block for each operation in flight.
    pub size_bytes_min: u64,
    /// True if the user set that size; otherwise calibration may choose a smaller one.
    pub size_is_fixed: bool,
    /// Groups of files, by their content and by the threads that work in them; empty where no test needs files. Each
    /// group has the whole size.
    #[serde(default)]
    pub groups: Vec<DataGroup>,
    /// Sizes of files are multiples of this, so that every block size fits.
    pub unit_bytes: u64,
    /// Bytes from one data stamp to the next, so that every block of every size begins with one.
    #[serde(default = "page_bytes")]
    pub stamp_interval_bytes: u64,
    /// True if the data is the device or the file that was named, which is only read. Absent where skye makes files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_existing: bool,
    /// True if the file of a shared group is that of all clients of the run, in which each has its part. Absent in runs of
    /// one process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shared_by_clients: bool,
    /// How files are spread over the file system; absent where they lie where the file system puts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
}

/// Files with the same kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DataGroup {
    /// True if all threads work in one file; otherwise each has its own, or all work in `files` of them.
    pub is_shared: bool,
    /// Number of files.
    pub files: u32,
    /// Percent of each 4 KiB that compresses away.
    pub compress_percent: u8,
    /// Percent of the blocks that are copies of one another.
    pub dedupe_percent: u8,
    /// True if the files are laid out empty, because a test writes them before any other uses their blocks. Absent
    /// where they are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fresh: bool,
    /// Size of the interleaved blocks; absent where each thread or client has its own part of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleaved_bytes: Option<u64>,
    /// Multiple of the threads of each interleaved test, so that all have the same number of blocks. 0 if no test is
    /// interleaved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl DataGroup {
    fn from_work(data: &DataWork, files: u32) -> Self {
        Self {
            is_shared: data.shared,
            files,
            compress_percent: data.compress_percent,
            dedupe_percent: data.dedupe_percent,
            is_fresh: false,
            interleaved_bytes: data.interleaved.then_some(data.block_bytes),
            turns: 0,
        }
    }

    fn holds_content_of(&self, data: &DataWork) -> bool {
        let of_data = Self::from_work(data, self.files);
        Self { is_shared: data.shared, is_fresh: false, turns: 0, ..*self } == of_data
    }
}

impl Dataset {
    /// Returns the bytes of each file of a group that has `size_bytes`.
    pub fn group_file_bytes(&self, group: &DataGroup, size_bytes: u64) -> u64 {
        let turns_bytes = |block_bytes: u64| block_bytes.saturating_mul(group.turns.max(1));
        let unit_bytes = group.interleaved_bytes.map_or(self.unit_bytes, turns_bytes);
        size_bytes / u64::from(group.files.max(1)) / unit_bytes * unit_bytes
    }

    /// Returns the interval between data stamps of a group. An interleaved block holds whole intervals.
    pub fn stamp_interval_of(&self, group: &DataGroup) -> u64 {
        let Some(block_bytes) = group.interleaved_bytes else { return self.stamp_interval_bytes };
        (1..=page_bytes()).rev().find(|bytes| block_bytes.is_multiple_of(*bytes)).unwrap_or(1)
    }

    /// Returns the most bytes that laying it out writes.
    pub fn layout_bytes_max(&self) -> u64 {
        self.bytes_of(|group| !group.is_fresh && !self.is_existing)
    }

    /// Returns the most bytes that its files take when all of them are written.
    pub fn file_bytes_max(&self) -> u64 {
        self.bytes_of(|_| true)
    }

    /// Returns the most bytes that write discarded files again: after each test that discards, before the next test or
    /// experiment on the same files.
    pub(super) fn refill_bytes_max(&self, phases: &[PlannedPhase], has_experiments: bool) -> u64 {
        let on = |phase: &PlannedPhase| self.group_of(&phase.workload).filter(|_| phase.engine.needs_files());
        let discards =
            |phase: &PlannedPhase| phase.workload.data().is_some_and(|data| data.verb == DataVerb::Discard);
        let again = |(index, phase): (usize, &PlannedPhase)| {
            let number = on(phase).filter(|_| discards(phase))?;
            let is_used = phases[index + 1..].iter().any(|later| on(later) == Some(number));
            let is_probed = || has_experiments && phases[..index].iter().any(|one| on(one) == Some(number));
            (is_used || is_probed()).then_some(number)
        };
        let bytes = |number: usize| self.groups.get(number).map_or(0, |group| self.group_bytes(group));
        phases.iter().enumerate().filter_map(again).map(bytes).fold(0, u64::saturating_add)
    }

    fn group_bytes(&self, group: &DataGroup) -> u64 {
        self.group_file_bytes(group, self.size_bytes_max).saturating_mul(u64::from(group.files))
    }

    fn bytes_of(&self, counts: impl Fn(&DataGroup) -> bool) -> u64 {
        let counted = self.groups.iter().filter(|group| counts(group));
        counted.map(|group| self.group_bytes(group)).fold(0, u64::saturating_add)
    }

    /// Returns the index of the group that a test works on; `None` if it works on no files.
    pub fn group_of(&self, workload: &Workload) -> Option<usize> {
        let data = workload.data()?;
        if data.engine.is_some_and(|engine| !engine.needs_files()) {
            return None;
        }
        group_of(&self.groups, workload, self.is_shared_by_clients)
    }

    /// Returns true if the file of that group is one of all clients.
    pub fn uses_files_of_all_clients(&self, group: usize) -> bool {
        self.is_shared_by_clients && self.groups.get(group).is_some_and(|group| group.is_shared)
    }
}

fn group_of(groups: &[DataGroup], workload: &Workload, is_shared_by_clients: bool) -> Option<usize> {
    let data = workload.data()?;
    let files = workload.data_files();
    let find = |fits: &dyn Fn(&DataGroup) -> bool| {
        groups.iter().position(|group| group.holds_content_of(data) && fits(group))
    };
    if data.shared {
        // A group of a single file can be shared as well, but not by other processes.
        let single = || find(&|group| group.files == 1).filter(|_| !is_shared_by_clients);
        return find(&|group| group.is_shared).or_else(single);
    }
    let own = |least: u32| {
        let fitting = groups.iter().filter(|group| !group.is_shared && group.holds_content_of(data));
        fitting.map(|group| group.files).filter(move |files| *files >= least)
    };
    // At least one file for each thread; an experiment with more threads takes what there is.
    let taken = own(files).min().or_else(|| own(0).max())?;
    find(&|group| !group.is_shared && group.files == taken)
}

fn page_bytes() -> u64 {
    4096
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Returns the block sizes of the tests on data, all of which their files must fit. Tests of single bytes have no
/// blocks, and interleaved blocks have a separate file.
fn block_sizes(phases: &[PlannedPhase]) -> impl Iterator<Item = u64> {
    let data = phases.iter().filter_map(|phase| phase.workload.data());
    data.filter(|data| !data.verb.is_bytes() && !data.interleaved).map(|data| data.block_bytes)
}

/// Returns the longest interval between data stamps with which each block begins with one.
fn stamp_interval_bytes(phases: &[PlannedPhase]) -> u64 {
    block_sizes(phases).fold(page_bytes(), greatest_common_divisor)
}

/// Returns the least common multiple of the block sizes, those of a fill included, so that files hold whole blocks of every test.
fn unit_bytes(phases: &[PlannedPhase], filled_bytes: Option<u64>) -> u64 {
    // At least a page, because data stamps are laid page by page.
    block_sizes(phases)
        .chain(filled_bytes)
        .fold(page_bytes(), |unit, block| (unit / greatest_common_divisor(unit, block)).saturating_mul(block))
}

/// Returns the tests that work on files of the data set.
fn on_files(phases: &[PlannedPhase]) -> impl Iterator<Item = (&PlannedPhase, &DataWork)> {
    let on_files = phases.iter().filter(|phase| phase.engine.needs_files());
    on_files.filter_map(|phase| Some((phase, phase.workload.data()?)))
}

/// Returns the groups of files that tests need, by content and sharing. A group has one file for each thread, the
/// requested number, or one for all.
fn groups(phases: &[PlannedPhase], is_shared_by_clients: bool) -> Vec<DataGroup> {
    let new = DataGroup::from_work;
    // A test without a number uses the counted files of other tests, if there are enough for its threads.
    let counted: Vec<_> = on_files(phases)
        .filter_map(|(_, data)| Some(new(data, data.files?)))
        .filter(|group| !group.is_shared)
        .collect();
    let mut groups: Vec<DataGroup> = Vec::new();
    for (phase, data) in on_files(phases) {
        let files = phase.workload.data_files();
        let enough = counted.iter().filter(|group| group.holds_content_of(data) && group.files >= files);
        let taken = enough.map(|group| group.files).min().filter(|_| !data.shared);
        let wanted = new(data, taken.unwrap_or(files));
        let is_counted = counted.contains(&wanted);
        let is_same = |group: &&mut DataGroup| {
            let one_of_all = !counted.contains(group) && group.is_shared == data.shared;
            if is_counted { **group == wanted } else { one_of_all && group.holds_content_of(data) }
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.files = group.files.max(wanted.files),
            None => groups.push(wanted),
        }
    }
    // A group of a single file also serves tests that share one file.
    let all = groups.clone();
    let has_twin = |group: &DataGroup| all.contains(&DataGroup { is_shared: false, ..*group });
    groups.retain(|group| is_shared_by_clients || !group.is_shared || !has_twin(group));
    for group in groups.iter_mut().filter(|group| group.interleaved_bytes.is_some()) {
        let of_group = on_files(phases).filter(|(_, data)| group.holds_content_of(data));
        let threads = of_group.map(|(phase, _)| u64::from(phase.workload.threads));
        group.turns =
            threads.fold(1, |all, one| (all / greatest_common_divisor(all, one)).saturating_mul(one));
    }
    groups
}

/// Returns the group of an erased device: all threads of all tests work in it, so that it has one content.
fn one_group(phases: &[PlannedPhase], target: &Target) -> Result<Vec<DataGroup>, UserError> {
    let mut contents = on_files(phases)
        .map(|(phase, data)| (phase, DataGroup { is_shared: false, ..DataGroup::from_work(data, 1) }));
    let Some((_, group)) = contents.next() else { return Ok(Vec::new()) };
    match contents.find(|(_, other)| *other != group) {
        None => Ok(vec![group]),
        Some((phase, _)) => Err(UserError::new(
            format!("run `{}` on {}", spec::print(phase.requested_workload()), target.path),
            "a device has one data pattern, and the tests request several",
        )
        .help("use the same compress and dedupe for all data tests")),
    }
}

/// Marks the files that a test makes before any other test uses their blocks. They need no layout, because that test
/// truncates them first.
fn mark_fresh(
    groups: &mut [DataGroup],
    phases: &[PlannedPhase],
    path: &str,
    is_shared_by_clients: bool,
) -> Result<(), UserError> {
    for index in 0..groups.len() {
        let all: &[DataGroup] = groups;
        let is_on_group =
            move |phase: &PlannedPhase| group_of(all, &phase.workload, is_shared_by_clients) == Some(index);
        let on_group = || on_files(phases).filter(move |(phase, _)| is_on_group(phase));
        let Some((maker, _)) =
            on_group().find(|(_, data)| data.fresh || !data.verb.is_bytes()).filter(|(_, data)| data.fresh)
        else {
            continue;
        };
        // Tests that write bytes may run before it, into empty files. Tests that read would find nothing.
        let reader = on_group().take_while(|(phase, _)| phase.id != maker.id).find(|(_, data)| data.reads());
        if let Some((reader, _)) = reader {
            return Err(UserError::new(
                format!("run `{}` in {path}", spec::print(reader.requested_workload())),
                format!(
                    "it runs before `{}`, which creates the files",
                    spec::print(maker.requested_workload())
                ),
            )
            .help("move it after that test"));
        }
        groups[index].is_fresh = true;
    }
    let is_unmade = |data: &DataWork| {
        data.interleaved && !groups.iter().any(|group| group.is_fresh && group.holds_content_of(data))
    };
    match on_files(phases).find(|(_, data)| is_unmade(data)) {
        None => Ok(()),
        Some((phase, data)) => Err(UserError::new(
            format!("run `{}` in {path}", spec::print(phase.requested_workload())),
            "no test creates the interleaved file",
        )
        .help(format!("add write:seq{}:shared:interleaved:fresh before it", size::exact(data.block_bytes)))),
    }
}

/// Limits of the size of a data set that skye lays out.
struct SizeLimits<'a> {
    room: &'a Room,
    groups: &'a [DataGroup],
    is_erased: bool,
    /// Multiple of all block sizes.
    unit_bytes: u64,
    /// Bytes that the tests need: one block for each operation in flight.
    least_bytes: u64,
    /// End of the last range. Ranges are offsets of the device, so that it must be written up to there.
    ranged_bytes: u64,
    /// True if the size must not depend on the rate of the storage.
    is_fixed: bool,
}

impl SizeLimits<'_> {
    /// Returns the bytes that each group may take. Where nothing is written, only the offsets must fit.
    fn usable_bytes(&self) -> u64 {
        let copies = self.groups.len() as u64;
        self.room.usable_bytes().checked_div(copies).unwrap_or(i64::MAX as u64)
    }

    fn free_bytes(&self) -> u64 {
        self.room.share().free_bytes
    }

    fn action(&self) -> String {
        format!("lay out the data set in {}", self.room.path)
    }

    fn refuse(&self, cause: String) -> UserError {
        UserError::new(self.action(), cause)
    }

    /// Returns the whole units of a requested size.
    fn requested_bytes(&self, size_bytes: u64) -> Result<u64, UserError> {
        if size_bytes < self.least_bytes {
            let least = size::exact(self.least_bytes);
            return Err(self
                .refuse(format!("{} is too small for these tests", size::binary(size_bytes)))
                .help(format!("use --size {least} or more: one block per operation in flight")));
        }
        Ok(size_bytes / self.unit_bytes * self.unit_bytes)
    }

    /// Returns the size without a requested one.
    fn usual_bytes(&self) -> u64 {
        let Self { unit_bytes, least_bytes, .. } = *self;
        let (free_bytes, usable_bytes) = (self.free_bytes(), self.usable_bytes());
        let next_unit = |bytes: u64| bytes.checked_next_multiple_of(unit_bytes).unwrap_or(u64::MAX);
        let largest = self.room.dataset_bytes_max(self.is_fixed);
        let Some(files) = self.files_min() else {
            return next_unit(DATASET_BYTES_MIN.max(least_bytes));
        };
        if self.is_erased {
            let wished = power_of_two_within(largest.min(free_bytes)).max(least_bytes).max(self.ranged_bytes);
            return next_unit(wished).min(usable_bytes / unit_bytes * unit_bytes);
        }
        let wished = largest.min((free_bytes / 10).max(DATASET_BYTES_MIN.min(usable_bytes / 2)));
        let wished = power_of_two_within(wished).max(least_bytes);
        let holdable = self.room.file_bytes_max.saturating_mul(files);
        wished.min(usable_bytes).min(holdable) / unit_bytes * unit_bytes
    }

    /// Returns the number of files of the group with the fewest; `None` without groups.
    fn files_min(&self) -> Option<u64> {
        self.groups.iter().map(|group| u64::from(group.files.max(1))).min()
    }

    /// Refuses a size for which there is no room.
    fn check(&self, size_bytes: u64, is_requested: bool) -> Result<(), UserError> {
        let (least_bytes, usable_bytes) = (self.least_bytes, self.usable_bytes());
        if self.is_erased && size_bytes > usable_bytes {
            let cause = format!("its size is {}", size::binary(self.free_bytes()));
            return Err(self.refuse(cause).help("use a smaller --size"));
        }
        let wanted_bytes = size_bytes.max(least_bytes);
        if let Some(files) = self.files_min() {
            self.room.refuse_file(self.action(), wanted_bytes / files)?;
        }
        if (least_bytes..=usable_bytes).contains(&size_bytes) {
            return Ok(());
        }
        let needed = wanted_bytes.saturating_mul(self.groups.len().max(1) as u64);
        let cause = format!("it needs {}{}", size::binary(needed), self.room.describe());
        let less = match is_requested && least_bytes <= usable_bytes {
            true => "use a smaller --size",
            false => "use smaller blocks, less depth or fewer threads",
        };
        Err(self.refuse(cause).help(self.room.help(needed, less)))
    }
}

/// Returns the data set that the tests need, of the requested size or one that fits; `None` if no test works on data.
pub(super) fn plan_dataset(
    request: &Request,
    phases: &[PlannedPhase],
    target: &Target,
    machine: &Machine,
    room: &Room,
    is_shared_by_clients: bool,
) -> Result<Option<Dataset>, UserError> {
    let filled_bytes = request.precondition.map(|_| FILL_BLOCK_BYTES);
    let unit_bytes = unit_bytes(phases, filled_bytes);
    if target.is_used_read_only() {
        return existing_dataset(request, phases, target, machine, unit_bytes);
    }
    let is_erased = target.erased.is_some();
    let mut groups =
        if is_erased { one_group(phases, target)? } else { groups(phases, is_shared_by_clients) };
    mark_fresh(&mut groups, phases, &target.path, is_shared_by_clients)?;
    let group = |phase: &PlannedPhase| {
        group_of(&groups, &phase.workload, is_shared_by_clients).map(|index| groups[index])
    };
    // Each file of a group holds whole blocks of every test, and a group holds a block for each operation in flight.
    let least = |phase: &PlannedPhase| {
        let data = phase.workload.data()?;
        let files = group(phase).map_or(1, |group| group.files);
        let unit_of_all = unit_bytes.saturating_mul(u64::from(files));
        let in_flight = u64::from(phase.workload.in_flight()) * data.block_bytes;
        Some(in_flight.max(1).checked_next_multiple_of(unit_of_all).unwrap_or(u64::MAX))
    };
    let Some(least_bytes) = phases.iter().filter_map(least).max() else {
        return Ok(None);
    };
    // Where a test makes the files, no write before it can serve to choose their size.
    let is_made = |phase: &PlannedPhase| group(phase).is_some_and(|group| group.is_fresh);
    let has_fresh = on_files(phases).any(|(phase, data)| data.fresh && is_made(phase));
    let is_fixed = is_shared_by_clients || has_fresh;
    let ranged = phases.iter().filter_map(|phase| phase.workload.data()?.range.as_ref());
    let ranged_bytes = ranged.map(|range| range.end).max().unwrap_or(0);
    let limits =
        SizeLimits { room, groups: &groups, is_erased, unit_bytes, least_bytes, ranged_bytes, is_fixed };
    let size_bytes = match request.size {
        Some(size) => limits.requested_bytes(size.resolve(limits.free_bytes(), machine.memory_bytes))?,
        None => limits.usual_bytes(),
    };
    limits.check(size_bytes, request.size.is_some())?;
    Ok(Some(Dataset {
        size_bytes_max: size_bytes,
        size_bytes_min: least_bytes,
        size_is_fixed: request.size.is_some() || is_fixed || (is_erased && ranged_bytes > 0),
        groups,
        unit_bytes,
        stamp_interval_bytes: stamp_interval_bytes(phases),
        is_existing: false,
        is_shared_by_clients,
        spread: None,
    }))
}

/// Returns the data set of a device or a file that is only read: the whole, or its beginning. All threads of all tests
/// work in it.
fn existing_dataset(
    request: &Request,
    phases: &[PlannedPhase],
    target: &Target,
    machine: &Machine,
    unit_bytes: u64,
) -> Result<Option<Dataset>, UserError> {
    let in_flight = |phase: &PlannedPhase| {
        let data = phase.workload.data()?;
        // The last zone may end within a block.
        let is_cut = data.zones.is_some();
        Some(if is_cut { 1 } else { u64::from(phase.workload.in_flight()).saturating_mul(data.block_bytes) })
    };
    let has_zones = phases.iter().any(|phase| phase.workload.data().is_some_and(|data| data.zones.is_some()));
    let unit_bytes = if has_zones { 1 } else { unit_bytes };
    let Some(least) = phases.iter().filter_map(in_flight).max() else { return Ok(None) };
    let whole_bytes = target.space.total_bytes;
    let requested_bytes = request.size.map(|size| size.resolve(whole_bytes, machine.memory_bytes));
    let size_bytes = requested_bytes.unwrap_or(whole_bytes) / unit_bytes * unit_bytes;
    let refused = |cause: String| UserError::new(format!("read {}", target.path), cause);
    if size_bytes > whole_bytes {
        return Err(
            refused(format!("its size is {}", size::binary(whole_bytes))).help("use a smaller --size")
        );
    }
    if size_bytes < least.max(1) {
        let (has, needs) = (size::binary(requested_bytes.unwrap_or(whole_bytes)), size::binary(least));
        return Err(refused(format!("its size is {has}, and the tests need {needs} in whole blocks"))
            .help("choose a larger one or a directory, or use smaller blocks or less depth"));
    }
    let group = DataGroup {
        is_shared: false,
        files: 1,
        compress_percent: 0,
        dedupe_percent: 0,
        is_fresh: false,
        interleaved_bytes: None,
        turns: 0,
    };
    Ok(Some(Dataset {
        size_bytes_max: size_bytes,
        size_bytes_min: least,
        size_is_fixed: requested_bytes.is_some(),
        groups: vec![group],
        unit_bytes,
        stamp_interval_bytes: stamp_interval_bytes(phases),
        is_existing: true,
        is_shared_by_clients: false,
        spread: None,
    }))
}

/// Refuses ranges that the data does not have, and more zones than can be kept.
pub(super) fn check_parts(
    phases: &[PlannedPhase],
    dataset: Option<&Dataset>,
    target: &Target,
) -> Result<(), UserError> {
    let Some(dataset) = dataset else { return Ok(()) };
    for phase in phases {
        let Some(data) = phase.workload.data() else { continue };
        let refused = |cause: String, help: String| {
            let action = format!("run `{}` on {}", spec::print(phase.requested_workload()), target.path);
            Err(UserError::new(action, cause).help(help))
        };
        let whole_bytes = dataset.size_bytes_max;
        let range = data.range_of(whole_bytes);
        let length_bytes = range.end - range.start;
        if data.range.is_some() && !target.kind.is_existing() {
            return refused(
                format!("skye creates the files in {}, and sets their size", target.kind.name()),
                "drop range, or choose a device or a file".into(),
            );
        }
        if range.end > whole_bytes {
            return refused(format!("its size is {whole_bytes} bytes"), "use a range within it".into());
        }
        let block_bytes = data.block_bytes;
        let is_aligned = range.start.is_multiple_of(block_bytes.min(page_bytes()));
        if !is_aligned || (range.end != whole_bytes && !length_bytes.is_multiple_of(block_bytes)) {
            let block = size::exact(block_bytes);
            return refused(
                format!("its range is not in whole blocks of {block}"),
                format!("use multiples of {block}"),
            );
        }
        let in_flight = u64::from(phase.workload.in_flight());
        if data.zones.is_none() && data.range.is_some() && length_bytes / data.block_bytes < in_flight {
            return refused(
                "its range has fewer blocks than operations in flight".into(),
                "use a longer range, less depth or fewer threads".into(),
            );
        }
        if data.zones_count(length_bytes) > ZONES_MAX {
            let least = length_bytes.div_ceil(data.every * ZONES_MAX).max(1).next_power_of_two();
            return refused(
                format!("it would have more than {ZONES_MAX} zones"),
                format!("use zones={} or more", size::exact(least.max(1 << 20))),
            );
        }
    }
    Ok(())
}

/// Returns the largest power of two that is not above `number`; zero for zero.
pub fn power_of_two_within(number: u64) -> u64 {
    number.checked_ilog2().map_or(0, |exponent| 1 << exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixtures::{GIB, on_disk, planned, request_for};
    use crate::size::Size;
    use crate::target::Backing;

    fn group(is_shared: bool, files: u32, compress_percent: u8, dedupe_percent: u8) -> DataGroup {
        DataGroup {
            is_shared,
            files,
            compress_percent,
            dedupe_percent,
            is_fresh: false,
            interleaved_bytes: None,
            turns: 0,
        }
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
            // The same number of files means the same files, however many threads there are.
            (&["write:seq8k:t2", "rw:rnd8k:t10:files=2"], vec![group(false, 2, 0, 0)]),
            (&["rw:rnd8k:t10:files=2", "byte-write:t2"], vec![group(false, 2, 0, 0)]),
            (&["byte-read:t2:shared", "rw:t3:files=1", "read"], vec![group(false, 1, 0, 0)]),
            (&["read:t8:files=4", "read:t2:files=4"], vec![group(false, 4, 0, 0)]),
            (
                &["read:t4", "read:t3", "read:t8:files=2", "read:t2", "read"],
                vec![group(false, 4, 0, 0), group(false, 2, 0, 0)],
            ),
            (&["read:t4", "read:t2:files=8", "read:t9"], vec![group(false, 8, 0, 0), group(false, 9, 0, 0)]),
            (
                &["read:t8:files=2", "read:t8:files=2:compress=5", "read:t8:shared"],
                vec![group(false, 2, 0, 0), group(false, 2, 5, 0), group(true, 1, 0, 0)],
            ),
            (&["read:engine=null", "write:engine=nop:compress=10"], vec![]),
        ] {
            let plan = on_disk(tests);
            let dataset = plan.dataset.unwrap();
            assert_eq!(dataset.groups, expected, "{tests:?}");
            for phase in &plan.phases {
                let data = phase.workload.data().unwrap();
                let found = dataset.group_of(&phase.workload).map(|index| dataset.groups[index]);
                assert_eq!(found.is_some(), phase.engine.needs_files(), "{}", phase.id);
                assert!(found.is_none_or(|found| found.files == 1 || !data.shared), "{}", phase.id);
                assert!(found.is_none_or(|found| data.files.is_none_or(|files| found.files == files)));
            }
        }
    }

    #[test]
    fn data_set_size_adds_up_over_all_groups() {
        let plan = planned(
            &Request {
                size: Some(Size::Bytes(3 * GIB)),
                ..request_for(&["read:t4", "write:t2:compress=50:ops=1"])
            },
            Backing::Devices,
            None,
        )
        .unwrap();
        let dataset = plan.dataset.as_ref().unwrap();
        assert_eq!(dataset.group_file_bytes(&dataset.groups[0], 3 * GIB), 768 << 20);
        assert_eq!(dataset.layout_bytes_max(), 6 * GIB);
        assert_eq!(plan.bytes_to_write_max, 6 * GIB + (1 << 20));
        let request =
            Request { size: Some(Size::Bytes(300 * GIB)), ..request_for(&["read", "read:dedupe=5"]) };
        let problem = planned(&request, Backing::Devices, None).unwrap_err();
        assert!(problem.contains("it needs 600 GiB; 600 GiB is free, less a reserve of 45 GiB"), "{problem}");
    }

    fn fresh(tests: &[&str]) -> Result<crate::plan::Plan, String> {
        planned(&Request { size: Some(Size::Bytes(GIB)), ..request_for(tests) }, Backing::Devices, None)
    }

    #[test]
    fn files_created_by_a_test_are_not_laid_out() {
        let tests =
            ["byte-write:bytes=3m", "write:seq8k:buffered:fresh", "rewrite:seq8k", "byte-read:bytes=3m"];
        let (new, old) =
            (fresh(&tests).unwrap(), fresh(&tests.map(|test| test.trim_end_matches(":fresh"))).unwrap());
        let (set, before) = (new.dataset.as_ref().unwrap(), old.dataset.as_ref().unwrap());
        assert_eq!(set.groups, [DataGroup { is_fresh: true, ..group(false, 1, 0, 0) }]);
        assert_eq!((set.layout_bytes_max(), set.file_bytes_max()), (0, GIB));
        assert_eq!((before.layout_bytes_max(), before.file_bytes_max()), (GIB, GIB));
        // The bytes are announced once: as those of the test.
        let stop = new.phases[1].stop;
        assert_eq!((stop.time_ns, stop.passes, stop.bytes), (None, Some(1), Some(GIB)));
        assert_eq!(new.bytes_to_write_max, (3 << 20) + 2 * GIB);
        assert_eq!(old.bytes_to_write_max, new.bytes_to_write_max + GIB);
        assert_eq!(new.precision_goal_of(&new.phases[1]), None);
        // The key is there only for files laid out empty, so that other plans stay as they were.
        let json = |plan: &crate::plan::Plan| serde_json::to_string(plan).unwrap();
        assert!(json(&new).contains("\"is_fresh\":true") && !json(&old).contains("is_fresh\":"));
    }

    #[test]
    fn files_used_before_their_fresh_write_are_laid_out() {
        let groups = |tests: &[&str]| {
            let dataset = fresh(tests).unwrap().dataset.unwrap();
            dataset.groups.iter().map(|group| group.is_fresh).collect::<Vec<_>>()
        };
        assert_eq!(groups(&["read", "write:fresh"]), [false]);
        assert_eq!(groups(&["write:fresh", "read", "write:fresh"]), [true]);
        assert_eq!(groups(&["putc-write", "write:fresh"]), [true]);
        assert_eq!(groups(&["putc-write:fresh", "rewrite", "write:fresh"]), [true]);
        assert_eq!(groups(&["putc-write:files=2:fresh", "rewrite:files=2", "rw:t3:files=2"]), [true]);
        assert_eq!(groups(&["putc-write", "rewrite", "write:fresh"]), [false]);
        assert_eq!(groups(&["write:fresh", "read:compress=50", "write:fresh:compress=50"]), [true, false]);
        assert_eq!(groups(&["write:t2:fresh", "rw:t10:files=2:buffered"]), [true]);
        assert_eq!(groups(&["write:t2:fresh", "rw:t10:shared"]), [true, false]);
        assert_eq!(groups(&["byte-write", "read"]), [false]);
    }

    #[test]
    fn reading_fresh_files_before_creation_is_refused() {
        assert_eq!(
            fresh(&["byte-write:bytes=3m", "byte-read:bytes=3m", "write:seq8k:fresh"]).unwrap_err(),
            "cannot run `byte-read:bytes=3m` in /mnt: it runs before `write:seq8k:fresh`, which creates the files; \
             move it after that test"
        );
        // Nothing is written before by which their size could be chosen.
        let dataset =
            planned(&request_for(&["write:fresh"]), Backing::Devices, None).unwrap().dataset.unwrap();
        assert_eq!((dataset.size_bytes_max, dataset.size_is_fixed), (GIB, true));
        let laid_out = planned(&request_for(&["read", "write:fresh"]), Backing::Devices, None).unwrap();
        assert!(!laid_out.dataset.unwrap().size_is_fixed);
        let request = Request { size: Some(Size::Bytes(700 * GIB)), ..request_for(&["write:fresh"]) };
        assert!(planned(&request, Backing::Devices, None).unwrap_err().contains("is free"));
        let request = Request { size: Some(Size::Bytes(50 * GIB)), ..request_for(&["write:fresh"]) };
        assert!(planned(&request, Backing::Devices, None).unwrap_err().contains("--write-limit 54GB"));
        let files = Request {
            size: Some(Size::Bytes(500 * GIB)),
            ..request_for(&["write:fresh", "create:size=1m:files=100k"])
        };
        let files = Request { write_limit: Some(Size::Bytes(900 * GIB)), ..files };
        assert!(planned(&files, Backing::Devices, None).unwrap_err().contains("and its data 500 GiB"));
    }

    #[test]
    fn stamp_interval_divides_every_block_size() {
        let interval = |tests: &[&str]| on_disk(tests).dataset.unwrap().stamp_interval_bytes;
        assert_eq!(interval(&["read:seq1m", "read:rnd16k"]), 4096);
        assert_eq!(interval(&["read:rnd6k", "byte-write"]), 2048);
        assert_eq!(interval(&["read:rnd512"]), 512);
        assert_eq!(interval(&["byte-read"]), 4096);
    }

    #[test]
    fn engines_without_files_lay_out_no_data() {
        let plan = on_disk(&["write:engine=null:q8t4", "write:engine=nop"]);
        let dataset = plan.dataset.as_ref().unwrap();
        assert_eq!((dataset.size_bytes_max, dataset.size_bytes_min), (DATASET_BYTES_MIN, 32 << 20));
        assert_eq!((dataset.layout_bytes_max(), plan.bytes_to_write_max), (0, 0));
        assert!(plan.phases.iter().all(|phase| phase.stop.bytes.is_none()));
        // More than the free room, and more than the write limit.
        let huge = Request { size: Some(Size::Bytes(4096 * GIB)), ..request_for(&["write:engine=null"]) };
        let huge = planned(&huge, Backing::Devices, None).unwrap();
        assert_eq!(huge.dataset.map(|dataset| dataset.size_bytes_max), Some(4096 * GIB));
    }
}
