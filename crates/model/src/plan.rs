//! What will be done: every phase with its stop rule, the data set, and the bytes and time that it costs.
//!
//! [`plan`] is pure: the same request, target and machine give the same plan. It refuses whatever cannot work
//! before anything is written.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::machine::Machine;
use crate::request::{Allow, Count, Request, Seconds};
use crate::size::{self, Size};
use crate::spec::{self, Defaults};
use crate::target::{Backing, Target};
use crate::trouble::Trouble;
use crate::workload::{Access, CacheMode, DataVerb, FileVerb, SyncMode, Work, Workload};

/// Data sets are at least this large unless a size is asked for: below it, device caches and start-up dominate.
pub const DATASET_BYTES_MIN: u64 = 256 << 20;
/// Data sets are at most this large unless a size is asked for.
pub const DATASET_BYTES_MAX: u64 = 4 << 30;
/// Free space that a run leaves, unless allowed otherwise: the larger of this and 5 % of the file system.
pub const RESERVE_BYTES: u64 = 1 << 30;
/// A run without a preset writes at most this much unless `--write-limit` says otherwise.
pub const WRITE_LIMIT_BYTES: u64 = 40_000_000_000;
/// Most directories that one test keeps open at a time.
const DESCRIPTORS_MAX: u64 = 512;
/// Share of the memory that buffers of one test may take.
const BUFFER_SHARE: u64 = 4;
/// Measured time of a phase where neither preset nor flag says.
pub const PHASE_SECONDS: f64 = 10.0;

/// Everything that will be done, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// Name of the preset; "custom" where tests were given one by one.
    pub preset: String,
    /// Seed that was asked for; null: a fresh one.
    pub seed: Option<u64>,
    /// The user's name for this run.
    pub label: Option<String>,
    /// Repetitions of the whole list, each on fresh files.
    pub repetitions: u32,
    /// Measured time of each phase.
    pub phase_time_ns: u64,
    /// Hard limit of the run, preparation included.
    pub total_ns: u64,
    /// About how long it will take.
    pub estimate_ns: u64,
    /// Most bytes that may be written.
    pub write_limit_bytes: u64,
    /// Most bytes that will be written, by stop rules; metadata comes on top.
    pub bytes_to_write_max: u64,
    /// State of the page cache before buffered reads.
    pub cache: CacheMode,
    /// What the data tests work on; null where there are none.
    pub dataset: Option<Dataset>,
    /// The tests of one repetition.
    pub phases: Vec<PlannedPhase>,
    /// What the user should know before it starts.
    pub notes: Vec<String>,
    /// Whether a target that others use now is accepted.
    pub allow_busy: bool,
    /// Whether leaving less than the reserve free is accepted.
    pub allow_low_space: bool,
}

/// The files that data tests work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dataset {
    /// Bytes over all files, at most.
    pub size_bytes_max: u64,
    /// Bytes that the tests need at least: one block for each operation in flight.
    pub size_bytes_min: u64,
    /// Whether that size was asked for; else calibration may choose a smaller one.
    pub size_is_fixed: bool,
    /// Files that threads have for themselves; 0 where every test is `shared`.
    pub separate_files: u32,
    /// Whether one more file of the whole size is needed for tests that share it.
    pub shared_file: bool,
    /// Sizes of files are multiples of this, so that every block size fits.
    pub unit_bytes: u64,
}

impl Dataset {
    /// Bytes of each of the separate files where the whole set has `size_bytes`.
    pub fn separate_file_bytes(&self, size_bytes: u64) -> u64 {
        size_bytes / u64::from(self.separate_files.max(1)) / self.unit_bytes * self.unit_bytes
    }

    /// Bytes that laying it out writes, at most.
    pub fn layout_bytes_max(&self) -> u64 {
        let separate = self.separate_file_bytes(self.size_bytes_max) * u64::from(self.separate_files);
        separate + if self.shared_file { self.size_bytes_max } else { 0 }
    }
}

/// One test of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedPhase {
    /// Unique in the plan: "03-rewrite".
    pub id: String,
    /// What is done, as its spec.
    #[serde(rename = "spec")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub workload: Workload,
    /// When it ends.
    pub stop: Stop,
}

/// When a phase ends: at whichever limit comes first. One worker's share has the same form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stop {
    /// Measured time.
    pub time_ns: Option<u64>,
    /// Operations.
    pub ops: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Visits of every block or file.
    pub passes: Option<u64>,
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spec::print(self))
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        spec::parse(&text, &Defaults::default()).map_err(de::Error::custom)
    }
}

/// Makes the plan of a request for a target on a machine.
///
/// # Errors
/// A [`Trouble`] for whatever cannot work: unknown words, a read-only target, too little room, blocks that
/// `O_DIRECT` refuses, more bytes than the write limit. Nothing has been written then.
pub fn plan(request: &Request, target: &Target, machine: &Machine) -> Result<Plan, Trouble> {
    let workloads = workloads(request, machine)?;
    let refused = |cause: String| Trouble::new(format!("test in {}", target.path), cause);
    if target.read_only {
        return Err(refused(format!("{} is mounted read-only", target.mount_point))
            .remedy("choose a directory on a file system that can be written"));
    }
    check_direct(&workloads, target)?;
    check_buffers(&workloads, machine)?;
    let cache = request.cache.unwrap_or(CacheMode::Cold);
    check_cold(&workloads, cache, machine)?;

    let allow_low_space = request.allow.contains(&Allow::LowSpace);
    let dataset = plan_dataset(request, &workloads, target, machine, allow_low_space)?;
    check_room_for_files(&workloads, dataset.as_ref(), target, allow_low_space)?;

    let repetitions = request.repeat.unwrap_or(1).max(1);
    let time = request.time.unwrap_or(Seconds(PHASE_SECONDS));
    let write_limit_bytes = request
        .write_limit
        .map_or(WRITE_LIMIT_BYTES, |limit| limit.resolve(target.space.free_bytes, machine.memory_bytes));
    let mut phases: Vec<_> = workloads
        .into_iter()
        .enumerate()
        .map(|(index, workload)| PlannedPhase {
            id: format!("{:02}-{}", index + 1, workload.name()),
            stop: stop_of(&workload, time, cache, target),
            workload,
        })
        .collect();
    let bytes_to_write_max =
        share_write_limit(&mut phases, dataset.as_ref(), repetitions, write_limit_bytes)?;

    let mut notes = notes(target);
    let deepest =
        phases.iter().filter(|phase| phase.workload.iodepth > 1).max_by_key(|phase| phase.workload.iodepth);
    if let Some(PlannedPhase { workload: Workload { iodepth, threads, .. }, .. }) = deepest {
        notes.push(format!(
            "depth is reached by threads: Q{iodepth}T{threads} is {} threads",
            iodepth * threads
        ));
    }
    let estimate_ns = estimate_ns(&phases, dataset.as_ref(), repetitions);
    let total_ns = request
        .total
        .map_or(whole_seconds(estimate_ns.saturating_mul(2).saturating_add(60_000_000_000)), Seconds::as_ns);
    Ok(Plan {
        preset: request.preset.clone().unwrap_or_else(|| "custom".into()),
        seed: request.seed,
        label: request.label.clone(),
        repetitions,
        phase_time_ns: time.as_ns(),
        total_ns,
        estimate_ns: estimate_ns.min(total_ns),
        write_limit_bytes,
        bytes_to_write_max,
        cache,
        dataset,
        phases,
        notes,
        allow_busy: request.allow.contains(&Allow::Busy),
        allow_low_space,
    })
}

impl Plan {
    /// The request that gives this very plan again on the same target: what `--dry-run` prints.
    pub fn to_request(&self) -> Request {
        let mut allow = Vec::new();
        if self.allow_low_space {
            allow.push(Allow::LowSpace);
        }
        if self.allow_busy {
            allow.push(Allow::Busy);
        }
        let fixed = self.dataset.as_ref().filter(|dataset| dataset.size_is_fixed);
        Request {
            preset: Some(self.preset.clone()),
            tests: self.phases.iter().map(|phase| spec::print(&phase.workload)).collect(),
            size: fixed.map(|dataset| Size::Bytes(dataset.size_bytes_max)),
            files: None,
            time: Some(Seconds(self.phase_time_ns as f64 / 1e9)),
            total: Some(Seconds(self.total_ns as f64 / 1e9)),
            repeat: Some(self.repetitions),
            seed: self.seed,
            label: self.label.clone(),
            cache: Some(self.cache),
            direct: None,
            write_limit: Some(Size::Bytes(self.write_limit_bytes)),
            allow,
        }
    }
}

fn workloads(request: &Request, machine: &Machine) -> Result<Vec<Workload>, Trouble> {
    let defaults = Defaults {
        files: request.files.map_or(Defaults::default().files, |Count(files)| files),
        direct: request.direct,
        cpus: machine.cpus,
    };
    if request.tests.is_empty() {
        return Err(Trouble::new("make a plan", "no test was asked for")
            .remedy("choose a --preset or give --test, for example --test read:rnd4k:q32"));
    }
    let parse =
        |text: &String| spec::parse(text, &defaults).map_err(|error| Trouble::new("make a plan", error));
    request.tests.iter().map(parse).collect()
}

fn check_direct(workloads: &[Workload], target: &Target) -> Result<(), Trouble> {
    let Some(align) =
        target.direct_io.map(|direct| u64::from(direct.offset_align_bytes)).filter(|align| *align > 0)
    else {
        // Where the kernel does not say, the first open or read does, and the phase reports it.
        return Ok(());
    };
    for workload in workloads {
        let Some(data) = workload.data().filter(|data| data.direct) else { continue };
        if !data.block_bytes.is_multiple_of(align) {
            let works = data.block_bytes.next_multiple_of(align);
            return Err(Trouble::new(
                format!("run `{}` in {}", spec::print(workload), target.path),
                format!(
                    "direct I/O needs blocks that are multiples of {align} bytes here, not {}",
                    data.block_bytes
                ),
            )
            .remedy(format!("write {}{} or add :buffered", data.access, size::exact(works))));
        }
    }
    Ok(())
}

fn check_buffers(workloads: &[Workload], machine: &Machine) -> Result<(), Trouble> {
    for workload in workloads {
        let Some(data) = workload.data() else { continue };
        let in_flight = u64::from(workload.threads) * u64::from(workload.iodepth);
        let buffers_bytes = data.block_bytes.max(256 << 10).saturating_mul(in_flight);
        if buffers_bytes > machine.memory_bytes / BUFFER_SHARE {
            return Err(Trouble::new(
                format!("run `{}`", spec::print(workload)),
                format!(
                    "its buffers need {}, more than a quarter of the memory of {}",
                    size::binary(buffers_bytes),
                    size::binary(machine.memory_bytes)
                ),
            )
            .remedy("ask for smaller blocks, less depth or fewer threads"));
        }
    }
    Ok(())
}

fn check_cold(workloads: &[Workload], cache: CacheMode, machine: &Machine) -> Result<(), Trouble> {
    let cold = workloads.iter().find(|workload| workload.files().is_some_and(|files| files.cold));
    let attempt = match (cold, cache) {
        (Some(workload), _) => format!("run `{}`", spec::print(workload)),
        (None, CacheMode::DropAll) => "drop all caches of this machine".into(),
        _ => return Ok(()),
    };
    if cache != CacheMode::DropAll {
        return Err(Trouble::new(attempt, "cached names can only be dropped for the whole machine")
            .remedy("add --cache drop-all if every other program here may pay for it"));
    }
    if !machine.root {
        return Err(Trouble::new(attempt, "only root may drop the machine's caches").remedy("run as root"));
    }
    Ok(())
}

/// Least common multiple of the block sizes, so that files hold whole blocks of every test.
fn unit_bytes(workloads: &[Workload]) -> u64 {
    fn greatest_common_divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { greatest_common_divisor(b, a % b) }
    }
    let blocks = workloads.iter().filter_map(|workload| workload.data()).map(|data| data.block_bytes);
    // A page at least: data stamps are laid page by page.
    blocks.fold(4096, |unit, block| (unit / greatest_common_divisor(unit, block)).saturating_mul(block))
}

fn reserve_bytes(target: &Target, allow_low_space: bool) -> u64 {
    if allow_low_space { 0 } else { RESERVE_BYTES.max(target.space.total_bytes / 20) }
}

fn plan_dataset(
    request: &Request,
    workloads: &[Workload],
    target: &Target,
    machine: &Machine,
    allow_low_space: bool,
) -> Result<Option<Dataset>, Trouble> {
    let data: Vec<_> = workloads.iter().filter(|workload| workload.data().is_some()).collect();
    if data.is_empty() {
        return Ok(None);
    }
    let is_shared = |workload: &Workload| workload.data().is_some_and(|data| data.shared);
    let separate_files = data.iter().filter(|w| !is_shared(w)).map(|w| w.threads).max().unwrap_or(0);
    let unit_bytes = unit_bytes(workloads);
    // The room is needed twice where some tests share one file and others do not.
    let shared_file = data.iter().any(|w| is_shared(w)) && separate_files != 1;
    let copies = if shared_file && separate_files > 0 { 2 } else { 1 };
    let free = target.space.free_bytes;
    let usable = free.saturating_sub(reserve_bytes(target, allow_low_space)) / copies;

    let in_flight = data
        .iter()
        .map(|w| u64::from(w.threads) * u64::from(w.iodepth) * w.data().map_or(1, |d| d.block_bytes));
    let least = in_flight.max().unwrap_or(0).max(unit_bytes.saturating_mul(u64::from(separate_files.max(1))));
    let unit_of_all = unit_bytes.saturating_mul(u64::from(separate_files.max(1)));
    let least = least.checked_next_multiple_of(unit_of_all).unwrap_or(u64::MAX);
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
        None => {
            let wished = DATASET_BYTES_MAX.min(free / 10).max(least.min(free / 2));
            wished.min(usable) / unit_bytes * unit_bytes
        }
    };
    if size_bytes > usable || size_bytes < least {
        let needed = size_bytes.max(least).saturating_mul(copies);
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
        separate_files,
        shared_file,
        unit_bytes,
    }))
}

fn check_room_for_files(
    workloads: &[Workload],
    dataset: Option<&Dataset>,
    target: &Target,
    allow_low_space: bool,
) -> Result<(), Trouble> {
    for workload in workloads {
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

fn stop_of(workload: &Workload, time: Seconds, cache: CacheMode, target: &Target) -> Stop {
    let data = workload.data();
    let (ops, bytes, passes) = data.map_or((None, None, None), |d| (d.ops, d.bytes, d.passes));
    // A count that was asked for is the stop rule; time would cut it short.
    let counted = ops.is_some() || bytes.is_some() || passes.is_some();
    let once = match &workload.work {
        // What a second pass reads is in memory from the first.
        Work::Data(data) => {
            data.reads() && !data.direct && cache != CacheMode::Warm && cache != CacheMode::AsIs
        }
        // A second round would find the inodes that were removed to make room for it, and search past them.
        Work::Files(files) => files.verb.takes_inodes() && target.holds_back_inodes(),
    };
    let passes = passes.or((once && !counted).then_some(1));
    Stop { time_ns: (!counted).then(|| time.as_ns()), ops, bytes, passes }
}

/// How large a part of the write limit a phase gets, against the others.
fn write_weight(workload: &Workload) -> u64 {
    match &workload.work {
        Work::Data(data) => match (data.verb, data.access) {
            (DataVerb::Read, _) => 0,
            (DataVerb::Fsync, _) => 1,
            (_, Access::Random) => 3,
            (_, Access::Sequential) => 6,
        },
        Work::Files(files) => u64::from(files.size_max_bytes > 0),
    }
}

/// Gives every phase that writes its part of the limit as a stop rule; returns the most that can be written.
///
/// What was asked for by count is taken first; the rest is shared by weight, and what one phase cannot use goes to
/// the others.
fn share_write_limit(
    phases: &mut [PlannedPhase],
    dataset: Option<&Dataset>,
    repetitions: u32,
    limit: u64,
) -> Result<u64, Trouble> {
    let repetitions = u64::from(repetitions);
    let sets: u64 =
        phases.iter().filter_map(|phase| phase.workload.files()).map(|files| files.set_bytes_max()).sum();
    let layout = dataset.map_or(0, Dataset::layout_bytes_max).saturating_add(sets);
    let mut open: Vec<_> =
        (0..phases.len()).filter(|index| write_weight(&phases[*index].workload) > 0).collect();
    let mut parts = vec![0; phases.len()];
    let mut left = (limit / repetitions).checked_sub(layout);
    let mut needed = layout;
    // Counts that were asked for are not negotiable.
    open.retain(|index| {
        let Some(asked) =
            write_cap(&phases[*index], dataset).filter(|_| phases[*index].stop.time_ns.is_none())
        else {
            needed = needed.saturating_add(write_least(&phases[*index]));
            return true;
        };
        needed = needed.saturating_add(asked);
        left = left.and_then(|left| left.checked_sub(asked));
        parts[*index] = asked;
        false
    });
    let refused = || {
        let needed = needed.saturating_mul(repetitions);
        Trouble::new(
            format!("stay within {} of writes", size::decimal(limit)),
            format!("files and tests need {} at least", size::decimal(needed)),
        )
        .remedy(format!("raise it with --write-limit {}GB, or ask for less", needed.div_ceil(1_000_000_000)))
    };
    let mut left = left.ok_or_else(refused)?;
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|index| write_weight(&phases[*index].workload)).sum();
        let share = |index: usize| {
            let weight = write_weight(&phases[index].workload);
            (u128::from(left) * u128::from(weight) / u128::from(weights)) as u64
        };
        let cap = |index: usize| write_cap(&phases[index], dataset).unwrap_or(u64::MAX);
        match open.iter().position(|index| cap(*index) < share(*index)) {
            Some(position) => {
                let index = open.remove(position);
                parts[index] = cap(index);
                left -= parts[index];
            }
            None => {
                open.iter().for_each(|index| parts[*index] = share(*index));
                break;
            }
        }
    }
    for (phase, part) in phases.iter_mut().zip(&parts) {
        if write_weight(&phase.workload) == 0 {
            continue;
        }
        if *part < write_least(phase) {
            return Err(refused());
        }
        phase.stop.bytes = phase.stop.bytes.or(Some(*part));
    }
    Ok(parts.iter().fold(layout, |sum, part| sum.saturating_add(*part)).saturating_mul(repetitions))
}

/// Most bytes that a phase writes by its counts; `None` if nothing but time ends it.
fn write_cap(phase: &PlannedPhase, dataset: Option<&Dataset>) -> Option<u64> {
    let stop = phase.stop;
    let by_passes = |passes: u64| match &phase.workload.work {
        Work::Data(_) => dataset.map(|set| passes.saturating_mul(set.size_bytes_max)),
        Work::Files(files) => Some(passes.saturating_mul(files.set_bytes_max())),
    };
    let by_ops = stop.ops.zip(phase.workload.data()).map(|(ops, data)| ops.saturating_mul(data.block_bytes));
    // Whichever limit comes first ends the phase.
    [stop.bytes, by_ops, stop.passes.and_then(by_passes)].into_iter().flatten().min()
}

/// Fewest bytes with which a phase can be run at all.
fn write_least(phase: &PlannedPhase) -> u64 {
    let workload = &phase.workload;
    match &workload.work {
        Work::Data(data) => data.block_bytes * u64::from(workload.threads) * u64::from(workload.iodepth),
        Work::Files(files) => files.set_bytes_max(),
    }
    .min(
        phase
            .stop
            .ops
            .map_or(u64::MAX, |ops| ops.saturating_mul(workload.data().map_or(u64::MAX, |d| d.block_bytes))),
    )
    .min(phase.stop.bytes.unwrap_or(u64::MAX))
}

/// Rounded up to what people would write.
fn whole_seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000)
}

/// Measured time, plus what making and undoing files and laying out data usually take.
fn estimate_ns(phases: &[PlannedPhase], dataset: Option<&Dataset>, repetitions: u32) -> u64 {
    let seconds = |phase: &PlannedPhase| {
        let measured = phase.stop.time_ns.unwrap_or(10_000_000_000);
        if phase.workload.files().is_some() { measured + measured / 2 + 1_000_000_000 } else { measured }
    };
    // A device of 1 GB/s is the middle of what people test.
    let layout = dataset.map_or(0, Dataset::layout_bytes_max);
    let one: u64 = phases.iter().map(seconds).fold(0, u64::saturating_add);
    one.saturating_add(layout).saturating_mul(u64::from(repetitions))
}

fn notes(target: &Target) -> Vec<String> {
    let mut notes = target.notes.clone();
    match target.backing {
        Backing::Memory => notes.push(format!(
            "{} is memory, no device: these numbers say nothing about storage",
            target.file_system
        )),
        Backing::RemoteOrUserSpace => notes.push(format!(
            "{} is remote or user-space: what it does with the data is out of sight",
            target.file_system
        )),
        Backing::Unknown => notes.push(format!(
            "the devices under {} were not found: nothing can be compared with their counters",
            target.mount_point
        )),
        Backing::Devices => {}
    }
    notes
}
