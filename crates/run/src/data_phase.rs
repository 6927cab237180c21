//! Runs one test on data: disjoint ranges of the data set, a thread for each, and the sync at the end.
//!
//! Before its workers start, a phase opens its files and checks their alignment. It makes them durable. Then it drops
//! their pages, keeps them or reads the files whole, as `--cache` says. Only `drop-all` reaches beyond the phase's own
//! files. A `fresh` test cuts its files off instead, and `FileGroup::filled` says until its end that they are not
//! whole. After a test that discards, the next one writes the files again, untimed. At last the phase looks for resident pages, and for holes and unwritten extents below the data to be read.

mod cache;
mod extent;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Failure;
use engine::budget::Budget;
use engine::bytes::Span;
use engine::clock::{Clock, Monotonic, Timer};
use engine::data::mix;
use engine::data_loop::{Calls, DataLoop};
use engine::failure::Cause;
use engine::pacing::OpenLoop;
use engine::pattern::Pattern;
use engine::recorder::DeltaReader;
use engine::sample::Sample;
use engine::skew::Skew;
use engine::verb::Steps;
use model::UserError;
use model::machine::ring_bytes;
use model::plan::Stop;
use model::run::{LatencyByPlace, Residency};
use model::workload::{Access, Arrival, DataVerb, DataWork, Engine, HotPart, RequestedEngine, Workload};
use rustix::fs::OFlags;

use crate::by_place;
use crate::data_location::DataLocation;
use crate::dataset::{DataSet, FileGroup, FillProgress, limit_reached};
use crate::drive::{self, Expected, PhaseEvent, RunningPhase, StartSignal};
use crate::extents::DataExtents;
use crate::hang_detection;
use crate::member::{self, BytePart, Command, Report};
use crate::meter::Meter;
use crate::record::PhaseTotals;
use crate::remedy::{device_remedy, remedy};
use crate::task::{self, Measured, PhaseInputs, Task};
use crate::worker_pool::{Work, WorkerPool};
use crate::zoned::Zoned;
use cache::CacheState;
use extent::Extent;

/// Result of one test on data, before it becomes a record.
#[derive(Debug, Default)]
pub struct DataOutcome {
    /// Delay of the last worker's begin after the instant that was given; `None` where none was given.
    pub start_delay_ns: Option<u64>,
    /// Time at which the first worker was done, from the start of the phase.
    pub first_done_ns: u64,
    /// Time at which the last worker was done.
    pub last_done_ns: u64,
    /// Time at which the step at the end was done, a sync or a close; equals `last_done_ns` without one.
    pub synced_ns: u64,
    /// True if that step was done.
    pub is_ended: bool,
    /// True if everything was made durable as asked.
    pub is_durable: bool,
    /// Bytes that the test worked on.
    pub size_bytes: u64,
    /// Number of files that hold these bytes.
    pub files: u64,
    /// Operations of an open loop that were due and never started.
    pub missed: u64,
    /// Decisions about the engine.
    pub features: Vec<String>,
    /// Features that the engine had to do without, each with the reason.
    pub missing_features: Vec<String>,
    /// Failure that ended the test early.
    pub failure: Option<UserError>,
    /// True if that failure was a block that differs from the written data.
    pub is_damaged: bool,
    /// True if blocks could not be compared, because an earlier test failed while it wrote.
    pub is_torn: bool,
    /// Operations that the test was to make; `u64::MAX` if time was to end it.
    pub requested_ops: u64,
    /// Share of the files in the page cache.
    pub residency: Option<Residency>,
    /// True if the file system refused `O_DIRECT`.
    pub direct_refused: bool,
    /// Extents under the files.
    pub extents: DataExtents,
    /// Latencies by place of the data.
    pub latency_by_place: Option<LatencyByPlace>,
    /// Bytes that it could write, if they ended it before its stop rule.
    pub write_limit_bytes: Option<u64>,
}

/// Part of each file that a test works on. First and repeated reads may differ below this system. So
/// experiments have a part that no test has read, and each of their runs has a slice of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The whole file.
    Whole,
    /// All but the part set aside.
    Measured,
    /// A slice of the part set aside.
    ExperimentSlice {
        /// Number of the slice.
        slice: u64,
        /// Number of slices.
        slices: u64,
    },
}

/// One in this many parts of each file is set aside for experiments.
const EXPERIMENT_DIVISOR: u64 = 8;
/// Alignment of the part set aside and of its slices.
const EXPERIMENT_UNIT_BYTES: u64 = 1 << 20;

impl Part {
    /// Returns its offset in a file and its length in bytes.
    pub fn range_in(self, file_bytes: u64) -> (u64, u64) {
        let units = file_bytes / EXPERIMENT_DIVISOR / EXPERIMENT_UNIT_BYTES;
        let aside_bytes = units * EXPERIMENT_UNIT_BYTES;
        let first_bytes = (file_bytes - aside_bytes) / EXPERIMENT_UNIT_BYTES * EXPERIMENT_UNIT_BYTES;
        match self {
            Self::Whole => (0, file_bytes),
            Self::Measured => (0, first_bytes),
            Self::ExperimentSlice { slice, slices } => {
                let slice_bytes = units / slices * EXPERIMENT_UNIT_BYTES;
                (first_bytes + slice % slices * slice_bytes, slice_bytes)
            }
        }
    }
}

/// Inputs of a test on data.
pub struct DataTask<'a> {
    /// Inputs that all kinds of phases share.
    pub inputs: PhaseInputs<'a>,
    /// Directory of the files.
    pub directory: &'a DataLocation,
    /// One in this many blocks that are read is compared.
    pub verify_every: u32,
    /// Group of files that the test works on; none for engines that touch no files.
    pub group: Option<usize>,
    /// Measured time below which the test counts as cut short.
    pub time_min_ns: u64,
    /// True if it fills the data before the tests. Then it needs nothing that was written before.
    pub is_fill: bool,
    /// Part of each file that the test works on.
    pub part: Part,
    /// Bytes that the run may still write.
    pub budget: &'a Arc<Budget>,
    /// Program and first arguments of the process for the C library's streams.
    pub stdio_program: &'a [std::ffi::OsString],
}

/// A test on data, ready to be measured.
pub struct DataPhase<'a> {
    /// Its inputs.
    pub task: DataTask<'a>,
    /// Files that were laid out; `None` if there are none.
    pub dataset: Option<&'a mut DataSet>,
    /// Counters of the machine.
    pub meter: &'a mut Meter,
}

impl Task for DataPhase<'_> {
    fn measure(self: Box<Self>, on_event: &mut dyn FnMut(PhaseEvent<'_>)) -> Measured {
        let Self { task, dataset, meter } = *self;
        task::run_measured(&task.inputs, meter, on_event, |drive| {
            let PhaseInputs { phase, time_ns, rate_ops_per_second, .. } = task.inputs;
            let action = "run a data test";
            let dataset = dataset.ok_or_else(|| UserError::new(action, "there is no data set"))?;
            let data = phase.workload.data().ok_or_else(|| UserError::new(action, "it is a file test"))?;
            let outcome = run(&task, data, dataset, drive)?;
            let totals = PhaseTotals::from_data(data, outcome, drive.collected.ops);
            let totals = PhaseTotals { rate_ops_per_second, ..totals };
            Ok(totals.with_cut_short(phase, &drive.collected, time_ns, task.time_min_ns))
        })
    }
}

/// Delay between the start command and the common begin, so that each worker is awake by then. The second
/// constant is added for each worker.
const LEAD_NS: u64 = 500_000;
const LEAD_NS_PER_WORKER: u64 = 20_000;

/// Runs the test. Sets `drive.start_ns` to the instant at which workers began.
///
/// # Errors
/// Returns the error that kept the test from starting.
fn run(
    task: &DataTask<'_>,
    data: &DataWork,
    dataset: &mut DataSet,
    drive: &mut RunningPhase<'_>,
) -> Result<DataOutcome, UserError> {
    let inputs = &task.inputs;
    if task.writes_blocks(data) && task.budget.left_bytes() < data.block_bytes {
        return Err(task.budget_spent("write to"));
    }
    let (files, span, prepared) = prepare_files(task, data, dataset, drive)?;
    let zoned = Zoned::new(data.zones_of(span.size_bytes), span.layout.first_bytes);
    // Threads share the bytes in pieces between two stamps, so that every piece stays whole.
    let unit_bytes = if data.verb.is_bytes() { span.content.interval_bytes as u64 } else { data.block_bytes };
    let units = span.size_bytes / unit_bytes;
    let reserved = task.reserve(data, planned_ops(inputs.phase.stop, data, units, unit_bytes))?;
    let threads = Threads {
        task,
        data,
        group: task.group.and_then(|number| dataset.groups.get(number)),
        files: &files,
        span: &span,
        zoned: zoned.as_ref(),
        members: members(&inputs.phase.workload, units),
        unit_bytes,
        timer: inputs.timer.anchored(),
        lockable_bytes: observe::lockable_bytes().map(|bytes| lockable_share(bytes, &inputs.phase.workload)),
    };
    let pool = threads.start(reserved.ops, drive)?;
    let mut outcome = DataOutcome {
        size_bytes: zoned.as_ref().map_or(span.size_bytes, Zoned::size_bytes),
        files: files.len() as u64,
        requested_ops: zoned.as_ref().map_or(reserved.ops, |zoned| zoned.blocks(data.block_bytes)),
        residency: prepared.residency,
        direct_refused: data.direct && data.verb != DataVerb::Discard && files.iter().any(is_buffered),
        extents: prepared.extents,
        ..DataOutcome::default()
    };
    drive.collected.zoned = zoned;
    if data.access == Access::Random && span.turns.is_none() && !outcome.extents.addresses.is_empty() {
        drive.collected.by_region = by_place::series(drive.readers.len());
    }
    let mut group = task.group.and_then(|number| dataset.groups.get_mut(number));
    outcome.is_torn = data.reads() && group.as_ref().is_some_and(|group| group.is_torn);
    Measurement { task, data, drive, group: group.as_deref_mut(), outcome: &mut outcome }.run(pool);
    drive.collected.end_rounds(outcome.last_done_ns);
    let regions = span.layout.regions(files.len() as u64);
    outcome.latency_by_place = by_place::compare(&drive.collected.by_region, regions, &outcome.extents);
    if outcome.failure.is_none() {
        task.budget.give_back(reserved.bytes.saturating_sub(drive.collected.written_bytes));
    }
    let is_spent = reserved.is_cut && drive.collected.ops >= reserved.ops;
    outcome.write_limit_bytes = is_spent.then_some(reserved.bytes);
    // A device that has just failed or hangs gets no more requests.
    if let (Some(group), Some(residency), None) = (&group, &mut outcome.residency, &outcome.failure) {
        let (held, part) = (Arc::clone(&files), group.part());
        let sample = move || cache::resident_share(&held, &part).map(|(share, _)| share);
        residency.after = hang_detection::sample("inspect the page cache", sample).flatten();
    }
    let closed = close_files(task.directory, files, data.writes(), drive);
    outcome.failure = outcome.failure.or(closed.err());
    if let Some(group) = group {
        group.is_torn |= data.writes() && outcome.failure.is_some();
        let is_whole = group.whole_generation == group.generation && outcome.failure.is_none();
        if (data.fresh || task.is_fill) && is_whole {
            group.filled = FillProgress::Whole;
        }
    }
    Ok(outcome)
}

/// Operations of a test, within the bytes that the run may still write.
struct Reserved {
    ops: u64,
    /// Bytes that no other test may write until the workers have ended.
    bytes: u64,
    /// True if these are fewer operations than planned.
    is_cut: bool,
}

impl DataTask<'_> {
    /// Returns true if the test writes blocks of files, which count towards the write limit.
    fn writes_blocks(&self, data: &DataWork) -> bool {
        self.group.is_some() && data.writes() && data.verb != DataVerb::Discard
    }

    /// Reserves the bytes of the planned operations. A fill needs all of them.
    fn reserve(&self, data: &DataWork, planned_ops: u64) -> Result<Reserved, UserError> {
        if !self.writes_blocks(data) {
            return Ok(Reserved { ops: planned_ops, bytes: 0, is_cut: false });
        }
        let ops = planned_ops.min(self.budget.left_bytes() / data.block_bytes);
        let is_cut = ops < planned_ops;
        if is_cut && self.is_fill {
            return Err(self.budget_spent("fill the data in"));
        }
        let bytes = self.budget.take_up_to(ops.saturating_mul(data.block_bytes));
        Ok(Reserved { ops, bytes, is_cut })
    }

    fn budget_spent(&self, action: &str) -> UserError {
        limit_reached(&format!("{action} {}", self.directory.path().display()))
            .help("use a higher --write-limit")
    }
}

/// Opens the files of a test, and brings them and the page cache into the state that it begins with.
fn prepare_files(
    task: &DataTask<'_>,
    data: &DataWork,
    dataset: &mut DataSet,
    drive: &mut RunningPhase<'_>,
) -> Result<(Arc<[OwnedFd]>, Extent, CacheState), UserError> {
    let Some(group) = task.group.and_then(|number| dataset.groups.get_mut(number)) else {
        return Ok((Vec::new().into(), Extent::simulated(dataset.size_bytes, data), CacheState::default()));
    };
    if group.filled == FillProgress::Discarded && !task.is_fill {
        let deadline_ns = Monotonic.now_ns().saturating_add(task.inputs.budget_ns);
        group.refill(task.directory, drive.interrupt, task.budget, deadline_ns, drive.meter)?;
    }
    check_filled(group, data, task.directory)?;
    let files = open_files(group, data, !dataset.refuses_direct, task.directory)?;
    check_alignment(group, data, &files, task.directory)?;
    if data.fresh {
        // From here on the files are truncated, and they are not whole before the test is done.
        group.filled = FillProgress::Unfinished;
    }
    let prepared = cache::prepare(&files, group, data, task.inputs.cache, drive)?;
    if data.verb == DataVerb::Discard {
        group.filled = FillProgress::Discarded;
    }
    group.generation += u32::from(data.writes());
    Ok((files, Extent::from_group(group, data, task.part), prepared))
}

/// Closes the files of a test. The last close of a file waits for writeback, and for the server.
fn close_files(
    directory: &DataLocation,
    files: Arc<[OwnedFd]>,
    has_written: bool,
    drive: &mut RunningPhase<'_>,
) -> Result<(), UserError> {
    let action = format!("close the files in {}", directory.path().display());
    let closing = hang_detection::begin(&action, move || {
        // Each close flushes and returns its error; dropping a descriptor would lose the error.
        let close = |file: &OwnedFd| match rustix::io::fcntl_dupfd_cloexec(file, 0) {
            Ok(copy) => engine::files::close(copy),
            Err(_) => Ok(()),
        };
        if has_written { files.iter().try_for_each(close) } else { Ok(()) }
    });
    if hang_detection::first_hung_call().is_some() {
        return Ok(());
    }
    let closed = closing.wait(drive.meter.activity())?;
    closed.map_err(|errno| UserError::new(action, std::io::Error::from(errno)))
}

/// Inputs that all threads of a test share.
struct Threads<'a> {
    task: &'a DataTask<'a>,
    data: &'a DataWork,
    group: Option<&'a FileGroup>,
    files: &'a Arc<[OwnedFd]>,
    span: &'a Extent,
    zoned: Option<&'a Zoned>,
    members: u32,
    unit_bytes: u64,
    timer: Timer,
    lockable_bytes: Option<u64>,
}

impl Threads<'_> {
    /// Starts the threads, which share the operations and all units.
    fn start(
        &self,
        ops: u64,
        drive: &mut RunningPhase<'_>,
    ) -> Result<WorkerPool<Command, Report>, UserError> {
        let members = self.members;
        let mut works = Vec::new();
        for (number, share) in (0..).zip(shares(ops, members, self.span.size_bytes / self.unit_bytes)) {
            let (work, reader) = self.work(number, share, Arc::clone(&drive.stop))?;
            works.push(work);
            drive.readers.push(reader);
        }
        WorkerPool::start(works).map_err(|error| {
            UserError::new(format!("start {members} threads"), error).help("use fewer threads or less depth")
        })
    }

    /// Returns the work of a thread on its share, and the reader of its counts.
    fn work(
        &self,
        number: u32,
        share: Share,
        stop: Arc<AtomicBool>,
    ) -> Result<(Work<Command, Report>, DeltaReader), UserError> {
        let Self { task, data, span, members, .. } = *self;
        let inputs = &task.inputs;
        let sample =
            Sample { every: task.verify_every, seed: mix(mix(inputs.offset_seed) ^ u64::from(number)) };
        let stamping = span.stamping(inputs.seed, sample);
        let (files, content) = (Arc::clone(self.files), span.content);
        let local_cpus = inputs.local_cpus.clone();
        if let (true, Some(group)) = (data.verb.is_bytes(), self.group) {
            let spans = open_spans(group, data, task.directory, &share, self.unit_bytes)?;
            let part = BytePart { files, spans, content, stamping, ops: share.ops, stop, number, local_cpus };
            return Ok(match inputs.phase.engine {
                Engine::Stdio => member::stdio_work(data, part, task.stdio_program),
                _ => member::byte_work(data, part, self.timer),
            });
        }
        let seed = mix(inputs.offset_seed ^ mix(u64::from(number)));
        let (layout, share) = span.for_thread(share, number, members);
        let draw_seed = mix(inputs.offset_seed ^ mix(u64::from(number) + 1));
        let is_poisson = matches!(data.arrival, Arrival::Open { is_poisson: true, .. });
        let open_loop = |rate| OpenLoop::new(rate, is_poisson, number, members, draw_seed);
        let data_loop = DataLoop {
            calls: Calls::from_work(data, inputs.phase.engine, self.lockable_bytes),
            verb: Steps::from_work(data, mix(draw_seed)),
            pacing: inputs.rate_ops_per_second.map(open_loop),
            files,
            content: Some(content),
            block_bytes: data.block_bytes,
            iodepth: inputs.phase.workload.iodepth,
            pattern: pattern(data, &share, seed),
            // A test with zones has one thread.
            zones: self.zoned.map(|zoned| zoned.for_worker(data.block_bytes)),
            layout,
            stamping,
            timer: self.timer,
        };
        Ok(member::work(member::Part { data_loop, stop, number, local_cpus }))
    }
}

/// The measured part of a test.
struct Measurement<'a, 'd> {
    task: &'a DataTask<'a>,
    data: &'a DataWork,
    drive: &'a mut RunningPhase<'d>,
    group: Option<&'a mut FileGroup>,
    outcome: &'a mut DataOutcome,
}

impl Measurement<'_, '_> {
    /// Measures from the common begin to the sync at the end.
    fn run(mut self, mut pool: WorkerPool<Command, Report>) {
        let mut failure = self.drive.ready(&mut pool).err();
        let start_signal = if failure.is_none() { self.drive.begin() } else { StartSignal::default() };
        if start_signal.is_cancelled && !self.drive.interrupt.load(Ordering::Relaxed) {
            failure = Some(drive::others_have_ended());
        }
        if failure.is_none() && !start_signal.is_cancelled {
            failure = self.measure(&mut pool, start_signal.at_ns);
        }
        let sync = self.data.sync;
        let writes_files = self.data.writes() && self.group.is_some();
        let has_final_sync = writes_files && sync.has_final_sync() && !start_signal.is_cancelled;
        // After an interruption the files are removed, and with them the data to sync.
        if failure.is_none() && has_final_sync && !self.drive.is_stopped() {
            failure = self.finish(&mut pool);
            self.outcome.is_ended = failure.is_none();
        }
        let is_synced = (writes_files && sync.is_each()) || self.outcome.is_ended && sync.is_durable();
        self.outcome.is_durable = failure.is_none() && is_synced;
        self.drive.end();
        let dismissed = pool.dismiss(self.drive.meter.activity());
        self.outcome.failure = failure.or(dismissed.err());
    }

    /// Measures until all workers are done. Returns the failure that ended it early.
    fn measure(&mut self, pool: &mut WorkerPool<Command, Report>, at_ns: Option<u64>) -> Option<UserError> {
        let (reports, error) = self.start(pool, at_ns);
        self.set_times(&reports, at_ns);
        self.update_group(&reports);
        for report in reports.iter().flatten() {
            self.outcome.missed += report.missed;
            add_missing(&mut self.outcome.features, &report.features);
            add_missing(&mut self.outcome.missing_features, &report.missing_features);
        }
        // A call that failed or hangs took time of its own, which belongs to no byte of a zone.
        let is_timed = |report: &Option<Report>| {
            let result = report.as_ref().map(|report| report.result);
            result.is_some_and(|result| !matches!(result, Err(Failure { cause: Cause::Errno(_), .. })))
        };
        let collected = &mut self.drive.collected;
        if let Some(zoned) = collected.zoned.as_mut().filter(|_| reports.iter().all(is_timed)) {
            zoned.leave(collected.read_bytes, self.outcome.last_done_ns);
        }
        let (failure, is_damaged) = self.first_failure(reports);
        self.outcome.is_damaged = is_damaged;
        error.or(failure)
    }

    /// Starts the workers at the same instant, the agreed one if there is one, and returns their reports.
    fn start(
        &mut self,
        pool: &mut WorkerPool<Command, Report>,
        at_ns: Option<u64>,
    ) -> (Vec<Option<Report>>, Option<UserError>) {
        let Self { data, drive, .. } = self;
        let inputs = &self.task.inputs;
        let lead_ns = LEAD_NS + LEAD_NS_PER_WORKER * pool.len() as u64;
        let soonest_ns = Monotonic.now_ns() + lead_ns;
        drive.start_ns = at_ns.map_or(soonest_ns, |at_ns| at_ns.max(soonest_ns));
        let (start_ns, deadline_ns) = (drive.start_ns, drive.start_ns.saturating_add(inputs.time_ns));
        (0..pool.len()).for_each(|index| pool.command(index, Command::Start { start_ns, deadline_ns }));
        // An open loop may have no operation in flight for a while.
        let expected = match data.arrival {
            Arrival::Closed => {
                let block_bytes = if data.verb.is_bytes() { 0 } else { data.block_bytes };
                let bytes = block_bytes.saturating_mul(inputs.phase.workload.in_flight().into());
                Expected::WhileProgressing {
                    slack_ns: drive::time_for_ns(bytes),
                    counts_cpu_time: data.direct,
                }
            }
            Arrival::Open { .. } => Expected::By(deadline_ns),
        };
        drive.answers(pool, expected, true)
    }

    /// Notes when the workers began and when they were done. A worker that did not answer is still at work.
    fn set_times(&mut self, reports: &[Option<Report>], at_ns: Option<u64>) {
        let (start_ns, now_ns) = (self.drive.start_ns, Monotonic.now_ns());
        let end_ns = |report: &Option<Report>| {
            report.as_ref().map_or(now_ns, |report| report.end_ns).saturating_sub(start_ns)
        };
        let ends = || reports.iter().map(end_ns);
        let last_start_ns = reports.iter().flatten().filter_map(|report| report.actual_start_ns).max();
        let outcome = &mut *self.outcome;
        outcome.start_delay_ns =
            at_ns.zip(last_start_ns).map(|(at_ns, last_start_ns)| last_start_ns.saturating_sub(at_ns));
        outcome.first_done_ns = ends().min().unwrap_or(0);
        outcome.last_done_ns = ends().max().unwrap_or(0);
        outcome.synced_ns = outcome.last_done_ns;
    }

    /// Notes which generation of data the files now hold.
    fn update_group(&mut self, reports: &[Option<Report>]) {
        let (data, Some(group)) = (self.data, self.group.as_deref_mut()) else { return };
        group.has_stray |= data.writes() && reports.iter().any(Option::is_none);
        let is_whole = reports
            .iter()
            .all(|report| report.as_ref().is_some_and(|report| report.is_covered && report.result.is_ok()));
        // A mix writes only some of the blocks that it visits, and a discard none.
        let writes_all = data.writes() && !matches!(data.verb, DataVerb::Rw | DataVerb::Discard);
        if writes_all && is_whole {
            group.whole_generation = group.generation;
            group.is_torn = group.has_stray;
        }
    }

    /// Syncs or closes the files. Returns the failure.
    fn finish(&mut self, pool: &mut WorkerPool<Command, Report>) -> Option<UserError> {
        let (stride, is_sync) = (pool.len(), self.data.sync.is_durable());
        (0..pool.len()).for_each(|index| pool.command(index, Command::Finish { stride, is_sync }));
        let expected = self.drive.sync_expected();
        let (reports, error) = self.drive.answers(pool, expected, true);
        let end_ns = reports.iter().flatten().map(|report| report.end_ns).max();
        let since_start = |end_ns: u64| end_ns.saturating_sub(self.drive.start_ns);
        self.outcome.synced_ns = end_ns.map_or(self.outcome.last_done_ns, since_start);
        error.or(self.first_failure(reports).0)
    }

    fn first_failure(&self, reports: Vec<Option<Report>>) -> (Option<UserError>, bool) {
        first_failure(reports, self.group.as_deref(), self.task.directory)
    }
}

/// Adds the words that a list lacks.
fn add_missing(all: &mut Vec<String>, words: &[String]) {
    for word in words {
        if !all.contains(word) {
            all.push(word.clone());
        }
    }
}

/// Returns the first failure, and true if it is a block that differs from the written data.
fn first_failure(
    reports: Vec<Option<Report>>,
    group: Option<&FileGroup>,
    directory: &DataLocation,
) -> (Option<UserError>, bool) {
    let is_mismatch =
        |report: &Report| matches!(report.result, Err(Failure { cause: Cause::Mismatch(_), .. }));
    // Damage is worse than any other failure.
    let (damage, others): (Vec<_>, Vec<_>) = reports.into_iter().flatten().partition(is_mismatch);
    let Some(failure) =
        damage.into_iter().chain(others).find_map(|report| match (report.error, report.result) {
            (Some(error), _) => Some(Err(error)),
            (None, Err(failure)) => Some(Ok(failure)),
            (None, Ok(())) => None,
        })
    else {
        return (None, false);
    };
    let failure = match failure {
        Ok(failure) => failure,
        Err(error) => return (Some(error), false),
    };
    let is_damaged = matches!(failure.cause, Cause::Mismatch(_));
    let path = group
        .map_or_else(|| directory.path().to_owned(), |group| directory.path().join(group.name(failure.file)));
    let place = failure.offset_bytes.map_or(String::new(), |offset| format!(" at offset {offset}"));
    let action = format!("{} {}{place}", failure.call, path.display());
    let help = if matches!(directory, DataLocation::Device { .. }) {
        device_remedy(&failure)
    } else {
        remedy(&failure)
    };
    (Some(UserError::new(action, failure.cause).help(help)), is_damaged)
}

/// Returns the bytes that each ring may lock with its buffers, once all rings are made.
fn lockable_share(lockable_bytes: u64, workload: &Workload) -> u64 {
    let rings = u64::from(workload.threads.max(1));
    lockable_bytes.saturating_sub(rings * ring_bytes(workload.iodepth)) / rings
}

/// Refuses files that an earlier test should have made and has not. Otherwise the missing data would look
/// like a fault of the files.
fn check_filled(group: &FileGroup, data: &DataWork, directory: &DataLocation) -> Result<(), UserError> {
    let cause = match group.filled {
        FillProgress::Whole | FillProgress::Discarded => return Ok(()),
        _ if data.fresh => return Ok(()),
        // Bytes are written to the beginning of a file, whatever its length.
        FillProgress::NotStarted if data.verb.is_bytes() && data.writes() => return Ok(()),
        FillProgress::NotStarted => "the test that writes the files did not run",
        FillProgress::Unfinished => "the test that writes the files did not finish",
    };
    Err(UserError::new(format!("work on {}", directory.path().join(group.name(0)).display()), cause))
}

fn open_files(
    group: &FileGroup,
    data: &DataWork,
    can_be_direct: bool,
    directory: &DataLocation,
) -> Result<Arc<[OwnedFd]>, UserError> {
    let access = match (data.reads(), data.writes()) {
        (_, false) => OFlags::RDONLY,
        // A rewrite reads through the same descriptor; a stream of the C library only writes.
        (false, true) if !data.engine.is_some_and(RequestedEngine::maps_files) => OFlags::WRONLY,
        // A mapping that can be written can be read, too.
        (_, true) => OFlags::RDWR,
    };
    // A discard moves no bytes that could go past the page cache.
    let is_direct = data.direct && data.verb != DataVerb::Discard && can_be_direct;
    let flags = if is_direct { access | OFlags::DIRECT } else { access };
    // Some servers write a file anew or not at all.
    let flags = if data.fresh { flags | OFlags::TRUNC } else { flags };
    open_with_progress(group, directory, move |group, descriptor, path| group.open(descriptor, path, flags))
}

/// Returns true if I/O on a file goes through the page cache.
fn is_buffered(file: &OwnedFd) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| !flags.contains(OFlags::DIRECT))
}

/// Opens files of a group in a directory that may hang.
fn open_with_progress<T: Send + 'static>(
    group: &FileGroup,
    directory: &DataLocation,
    open: impl FnOnce(&FileGroup, BorrowedFd<'_>, &Path) -> Result<T, UserError> + Send + 'static,
) -> Result<T, UserError> {
    let action = format!("open the data set in {}", directory.path().display());
    let descriptor = directory.descriptor().try_clone_to_owned();
    let descriptor = descriptor.map_err(|error| UserError::new(&action, error))?;
    let (group, path) = (group.clone(), directory.path().to_owned());
    hang_detection::wait_with_progress(&action, || 0, move || open(&group, descriptor.as_fd(), &path))?
}

/// Checks the alignment of the file, which may need more than its device does.
fn check_alignment(
    group: &FileGroup,
    data: &DataWork,
    files: &[OwnedFd],
    directory: &DataLocation,
) -> Result<(), UserError> {
    let align = files.first().filter(|_| data.direct).and_then(|file| observe::direct_io(file.as_fd()));
    let Some(align) = align.map(|align| u64::from(align.offset_align_bytes)).filter(|align| *align > 1)
    else {
        return Ok(());
    };
    if data.block_bytes.is_multiple_of(align) {
        return Ok(());
    }
    let path = directory.path().join(group.name(0));
    Err(UserError::new(
        format!("use blocks of {} bytes for direct I/O on {}", data.block_bytes, path.display()),
        format!("the file system requires multiples of {align}"),
    )
    .help(format!("use blocks of {}, or add :buffered", data.block_bytes.next_multiple_of(align))))
}

/// Opens a thread's part of each file for that thread alone, because byte I/O uses the position of an open
/// file.
fn open_spans(
    group: &FileGroup,
    data: &DataWork,
    directory: &DataLocation,
    share: &Share,
    unit_bytes: u64,
) -> Result<Vec<(Span, OwnedFd)>, UserError> {
    let access = if data.writes() { OFlags::WRONLY } else { OFlags::RDONLY };
    let (start, end) = (share.first_unit * unit_bytes, (share.first_unit + share.units) * unit_bytes);
    open_with_progress(group, directory, move |group, descriptor, path| {
        let mut spans = Vec::new();
        for file in 0..group.files {
            let first = u64::from(file) * group.file_bytes;
            let (from, to) = (start.max(first), end.min(first + group.file_bytes));
            if from < to {
                let opened = group.open_file(descriptor, path, file.into(), access)?;
                let at = |offset: u64| group.first_bytes + offset - first;
                spans.push((Span { file, start_bytes: at(from), end_bytes: at(to) }, opened));
            }
        }
        Ok(spans)
    })
}

/// Returns the order in which a thread visits its blocks.
pub fn pattern(data: &DataWork, share: &Share, seed: u64) -> Pattern {
    let skew = match (data.zipf, data.hot) {
        (Some(theta), _) => Skew::Zipf { theta: theta.value() },
        (None, Some(HotPart { ops_percent, blocks_percent })) => Skew::Hot {
            ops_share: f64::from(ops_percent) / 100.0,
            blocks_share: f64::from(blocks_percent) / 100.0,
        },
        (None, None) => {
            let is_random = data.access == Access::Random;
            return Pattern::new(share.first_unit, share.units, is_random, seed, share.ops);
        }
    };
    Pattern::skewed(share.first_unit, share.units, skew, seed, share.ops)
}

/// Part of the data set that a thread works on.
pub struct Share {
    /// First of its units.
    pub first_unit: u64,
    /// Number of units.
    pub units: u64,
    /// Operations on these units; `u64::MAX` for no limit.
    pub ops: u64,
}

/// Returns the operations after which a test on all `units` of `unit_bytes` ends; `u64::MAX` for no limit.
pub fn planned_ops(stop: Stop, data: &DataWork, units: u64, unit_bytes: u64) -> u64 {
    let by_bytes = stop.bytes.map(|bytes| bytes / data.block_bytes);
    let a_pass = units.saturating_mul(unit_bytes / data.block_bytes);
    let by_passes = stop.passes.map(|passes| passes.saturating_mul(a_pass));
    [stop.ops, by_bytes, by_passes].into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// Returns the number of threads that work on this number of units. No thread is without one.
pub fn members(workload: &Workload, units: u64) -> u32 {
    u32::try_from(units).map_or(workload.threads, |units| workload.threads.min(units.max(1)))
}

/// Returns the part of each thread: disjoint ranges that together cover all units, and operations that together are
/// `ops`.
pub fn shares(ops: u64, threads: u32, units: u64) -> impl Iterator<Item = Share> {
    let threads = u64::from(threads);
    let share = move |total: u64, thread: u64| total / threads + u64::from(thread < total % threads);
    let mut first_unit = 0;
    (0..threads).map(move |thread| {
        let mine = share(units, thread);
        let ops = if ops == u64::MAX { ops } else { share(ops, thread) };
        first_unit += mine;
        Share { first_unit: first_unit - mine, units: mine, ops }
    })
}

#[cfg(test)]
mod tests {
    use super::Part;

    #[test]
    fn reserved_slices_do_not_overlap_measured_part() {
        for file_bytes in [4 << 30, 128 << 20, (256 << 20) + 4096] {
            let (first, measured) = Part::Measured.range_in(file_bytes);
            assert_eq!(first, 0);
            assert!(measured >= file_bytes / 8 * 7 - (1 << 20), "{measured} of {file_bytes}");
            for slices in [4, 16] {
                let mut end = measured;
                for slice in 0..slices {
                    let (from, bytes) = Part::ExperimentSlice { slice, slices }.range_in(file_bytes);
                    assert_eq!(from, end, "{file_bytes} bytes, slice {slice} of {slices}");
                    end = from + bytes;
                }
                assert!(end <= file_bytes);
                // After the last slice comes the first again.
                assert_eq!(Part::ExperimentSlice { slice: slices, slices }.range_in(file_bytes).0, measured);
            }
        }
        assert_eq!(Part::Whole.range_in(12_345), (0, 12_345));
        // The file is too small for a part of its own.
        assert_eq!(Part::Measured.range_in(4 << 20), (0, 4 << 20));
    }
}
