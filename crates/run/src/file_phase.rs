//! Runs one test on files in rounds: prepares untimed, measures, restores untimed, until the test has lasted
//! its time.
//!
//! Untimed work has a deadline too, and the bytes that it writes count towards the stop rule. A round whose preparation
//! was cut short is not measured as if it were whole. A whole `FileSet` stays for the next test that needs it.

mod allowance;
mod remedy;
mod rules;
mod sets;
mod sync;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::budget::Budget;
use engine::clock::{Clock, Monotonic, Timer};
use engine::files::{
    self, Content, FileLocation, FileOps, IndexedOps, Measured, NameChange, Part, RemoveAttribute, Round,
    RoundLimits, SharedFiles, Unexpected, VisitOrder,
};
use engine::names::{Kind, NameFormat, Names, Tree};
use engine::pacing::OpenLoop;
use engine::pattern::Permutation;
use engine::recorder::{self, DeltaReader, Recorder};
use engine::{Failure, failure::Cause};
use model::UserError;
use model::plan::Clients;
use model::run::{INTERVALS_MAX, RoundRecord};
use model::workload::verbs::Change;
use model::workload::{
    Arrival, CHUNK_BYTES_MAX, CacheMode, FileKind, FileVerb, FilesWork, Naming, Order, SyncMode, Workload,
};

use crate::caches;
use crate::data_location::DataLocation;
use crate::drive::{self, Expected, PhaseEvent, RunningPhase, StartSignal};
use crate::meter::Meter;
use crate::record::PhaseTotals;
use crate::steady_state;
use crate::task::{self, PhaseInputs, Task};
use crate::worker_pool::{Mailbox, Work, WorkerPool, pin_to_cpus};
use allowance::Allowance;
use remedy::remedy;
use sets::{operations, visited};

pub use rules::rules;

/// Hexadecimal digits in the names of the threads' directories.
const THREAD_DIGITS: usize = 4;
/// A phase begins no round after this many times its measured time. Making and removing files may take far
/// longer than the measurement, and the run has a limit.
const UNTIMED_SHARE: u64 = 2;
/// Time that untimed work may take in any case.
const UNTIMED_NS_MIN: u64 = 5_000_000_000;
/// Time that making the files of a mix may take in any case.
const POPULATING_NS_MIN: u64 = 30_000_000_000;
/// Divisor of the total time of a phase: untimed work leaves this part to visits of the files.
const VISITING_DIVISOR: u64 = 4;

/// Files that stay between two tests, so that the next test need not make them again.
#[derive(Debug, Default)]
pub struct FileSet {
    shape: Option<Shape>,
    /// Number of existing files of each thread: always those with the lowest numbers.
    made: Vec<u64>,
    /// Number of directories of each thread that `rmdir` will find.
    dirs_made: Vec<u64>,
    generation: u32,
    /// True if something was cut short or failed. The existing names are then unknown, and the set is recreated.
    is_unknown: bool,
}

impl FileSet {
    /// Returns true if the names of its files are not known.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Makes the next test recreate all files.
    pub fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Prepares the set for a test. Removes its files if they are of another shape, if `is_new`, or if their names are unknown.
    fn begin_generation(
        &mut self,
        shape: Shape,
        is_new: bool,
        directory: &DataLocation,
    ) -> Result<(), UserError> {
        if self.shape != Some(shape) || self.is_unknown || is_new {
            if self.shape.is_some() {
                directory.remove_files_of("t")?;
            }
            let made = vec![0; shape.threads as usize];
            let dirs_made = made.clone();
            *self = Self { shape: Some(shape), made, dirs_made, generation: 0, is_unknown: false };
        }
        self.generation += 1;
        Ok(())
    }
}

impl Shape {
    fn new(workload: &Workload, work: &FilesWork, tree: Tree) -> Self {
        Self {
            threads: workload.threads,
            is_shared: work.shared,
            tree,
            size_min_bytes: work.size_min_bytes,
            size_max_bytes: work.size_max_bytes,
            naming: work.naming,
            kind: work.kind,
            has_attributes: work.verb.reads_attributes(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    threads: u32,
    is_shared: bool,
    tree: Tree,
    size_min_bytes: u64,
    size_max_bytes: u64,
    naming: Naming,
    kind: FileKind,
    /// True if each file has an attribute.
    has_attributes: bool,
}

/// Result of one test on files, before it becomes a record.
#[derive(Debug, Default)]
pub struct FileOutcome {
    /// Largest delay of a worker's begin after the instant that was given; `None` where none was given.
    pub start_delay_ns: Option<u64>,
    /// Measured time of all rounds: each from the start of its first worker to the end of its last.
    pub measured_ns: u64,
    /// Measured time of the last round.
    pub last_round_ns: u64,
    /// Time at which the first worker was done with the last round, from the start of the phase.
    pub first_done_ns: u64,
    /// Time at which the last worker was done with the last round.
    pub last_done_ns: u64,
    /// Number of rounds, with a fraction for an unfinished last one.
    pub rounds: f64,
    /// Operations and time of each round.
    pub each: Vec<RoundRecord>,
    /// Files that a round visited.
    pub files: u64,
    /// Operations of an open loop that were due and never started.
    pub missed: u64,
    /// Bytes written into files untimed.
    pub untimed_bytes: u64,
    /// Bytes that its operations could write, if they ended it.
    pub write_limit_bytes: Option<u64>,
    /// Reason for an early end without a failure.
    pub cut_short: Option<String>,
    /// Operations that ended in another way than a load file says.
    pub unexpected: Option<Unexpected>,
    /// Failure that ended it early.
    pub failure: Option<UserError>,
}

/// Inputs of a test on files.
struct FileTask<'a> {
    inputs: &'a PhaseInputs<'a>,
    directory: &'a DataLocation,
    clients: Option<Clients>,
    /// Instant after which nothing begins.
    deadline_ns: u64,
    budget: &'a Budget,
}

/// A test on files, ready to be measured.
pub struct FilePhase<'a> {
    /// Inputs that all kinds of phases share.
    pub inputs: PhaseInputs<'a>,
    /// Directory of the files.
    pub directory: &'a DataLocation,
    /// The clients of the run, which share directories in tests with `shared`.
    pub clients: Option<Clients>,
    /// Bytes that the run may still write.
    pub budget: &'a Budget,
    /// Files that earlier tests have left.
    pub set: &'a mut FileSet,
    /// Counters of the machine.
    pub meter: &'a mut Meter,
}

impl Task for FilePhase<'_> {
    fn measure(self: Box<Self>, on_event: &mut dyn FnMut(PhaseEvent<'_>)) -> task::Measured {
        let Self { inputs, directory, clients, budget, set, meter } = *self;
        task::run_measured(&inputs, meter, on_event, |drive| {
            let deadline_ns = drive.start_ns.saturating_add(inputs.budget_ns);
            let task = FileTask { inputs: &inputs, directory, clients, deadline_ns, budget };
            let outcome = run(&task, set, drive)?;
            let totals = PhaseTotals::from_files(outcome, drive);
            Ok(PhaseTotals { rate_ops_per_second: inputs.rate_ops_per_second, ..totals })
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Command {
    /// Make and open the directories.
    Enter,
    /// Make the files for a round, untimed, until this instant.
    Prepare { deadline_ns: u64 },
    /// Visit every file once. The time counts from when the thread has a CPU, and the instant ends it in any
    /// case.
    Measure { time_ns: u64, deadline_ns: u64 },
    /// Undo the changes of the round, untimed.
    Settle { deadline_ns: u64 },
}

struct Report {
    start_ns: u64,
    end_ns: u64,
    done: u64,
    /// Files of this member that exist now.
    made: u64,
    /// Directories that `rmdir` will find.
    dirs_made: u64,
    /// Operations that were due and never started.
    missed: u64,
    /// Bytes that it has written untimed since the last report.
    untimed_bytes: u64,
    /// True if all of the work was done.
    is_whole: bool,
    unexpected: Option<Unexpected>,
    result: Result<(), Failure>,
}

/// Runs the test. Sets `drive.start_ns` to the instant at which the first round began.
///
/// # Errors
/// Returns the error that kept the test from starting.
fn run(
    task: &FileTask<'_>,
    set: &mut FileSet,
    drive: &mut RunningPhase<'_>,
) -> Result<FileOutcome, UserError> {
    let workload = &task.inputs.phase.workload;
    let Some(work) = workload.files() else {
        return Err(UserError::new("run a file test", "it is a data test"));
    };
    let threads = u64::from(workload.threads);
    // The threads of a mix agree in memory on who works on which file.
    let mix = (work.verb == FileVerb::Mix).then(|| work.mix().ok_or_else(unknown_flows)).transpose()?;
    let (number, clients) = if mix.is_none() { task.place_among_clients(work) } else { (0, 1) };
    let per_thread =
        if work.shared { work.files.saturating_mul(clients) } else { work.files.div_ceil(threads) };
    let tree = Tree { files: per_thread, dirs: work.dirs, levels: work.levels };
    let shape = Shape::new(workload, work, tree);
    set.begin_generation(shape, work.verb.change() == Change::Mixed, task.directory)?;
    let timer = task.inputs.timer.anchored();
    let shared = mix
        .filter(|_| work.shared)
        .map(|mix| Arc::new(SharedFiles::new(threads, work.files.div_ceil(threads), mix.created())));
    let mut allowance = Allowance::take(task.budget, task.inputs.phase, work);
    drive.budgets = allowance.measured().to_vec();
    let mut works = Vec::new();
    for thread in 0..threads {
        let share = work.files / threads + u64::from(thread < work.files % threads);
        let of_clients = number.saturating_mul(work.files);
        let before = of_clients + thread * (work.files / threads) + thread.min(work.files % threads);
        let parent = task.directory.descriptor().try_clone_to_owned();
        let member = Member {
            parent: parent.map_err(|error| UserError::new("start a thread", error))?,
            owner: if work.shared { 0 } else { thread },
            thread,
            threads,
            work: work.clone(),
            tree,
            first: if work.shared { before } else { 0 },
            files: share,
            made: set.made[thread as usize],
            seed: task.inputs.seed,
            order_seed: engine::data::mix(task.inputs.offset_seed ^ thread),
            generation: set.generation,
            dirs_made: 0,
            untimed_bytes: 0,
            untimed: allowance.untimed(),
            measured: Arc::clone(&allowance.measured()[thread as usize]),
            shared: shared.clone(),
            pacing: task.open_loop(work, thread as u32, threads as u32),
            timer,
            local_cpus: task.inputs.local_cpus.clone(),
            stop: Arc::clone(&drive.stop),
        };
        let (work, reader) = member.start();
        works.push(work);
        drive.readers.push(reader);
    }
    let pool = WorkerPool::start(works).map_err(|error| {
        UserError::new(format!("start {threads} threads"), error).help("use fewer threads")
    })?;
    let mut outcome = FileOutcome { files: work.files, ..FileOutcome::default() };
    drive_rounds(task, work, &mut allowance, pool, set, drive, &mut outcome);
    outcome.write_limit_bytes = allowance.end(task.budget);
    Ok(outcome)
}

impl FileTask<'_> {
    /// Returns the number of this client, and the number of clients that share the files.
    fn place_among_clients(&self, work: &FilesWork) -> (u64, u64) {
        match self.clients {
            Some(Clients { count, number: Some(number), .. }) if work.shared => {
                (u64::from(number), u64::from(count))
            }
            _ => (0, 1),
        }
    }

    /// Returns the start times of a thread's operations; `None` in a closed loop.
    fn open_loop(&self, work: &FilesWork, thread: u32, threads: u32) -> Option<OpenLoop> {
        let is_poisson = matches!(work.arrival, Arrival::Open { is_poisson: true, .. });
        let rate = self.inputs.rate_ops_per_second?;
        Some(OpenLoop::new(rate, is_poisson, thread, threads, self.inputs.offset_seed))
    }
}

fn unknown_flows() -> UserError {
    UserError::new("run a mix", "its flows are unknown")
}

fn drive_rounds(
    task: &FileTask<'_>,
    work: &FilesWork,
    allowance: &mut Allowance,
    mut pool: WorkerPool<Command, Report>,
    set: &mut FileSet,
    drive: &mut RunningPhase<'_>,
    outcome: &mut FileOutcome,
) {
    let mut rounds = Rounds { task, work, allowance, set, drive, outcome };
    let result = rounds.run(&mut pool);
    let is_mixed = work.verb.change() == Change::Mixed;
    rounds.set.is_unknown |= result.is_err() || rounds.drive.is_stopped() || is_mixed;
    let dismissed = pool.dismiss(drive.meter.activity());
    outcome.failure = result.and(dismissed).err();
}

/// State that the rounds of a phase share.
struct Rounds<'a, 'd> {
    task: &'a FileTask<'a>,
    work: &'a FilesWork,
    allowance: &'a mut Allowance,
    set: &'a mut FileSet,
    drive: &'a mut RunningPhase<'d>,
    outcome: &'a mut FileOutcome,
}

impl Rounds<'_, '_> {
    fn run(&mut self, pool: &mut WorkerPool<Command, Report>) -> Result<(), UserError> {
        self.drive.ready(pool)?;
        self.drive.start_ns = Monotonic.now_ns();
        // If directories are shared, the first thread makes those that the others open.
        let first = if self.work.shared { 1 } else { pool.len() };
        for members in [0..first, first..pool.len()] {
            self.untimed(pool, members, |_| Command::Enter)?;
        }
        while !self.drive.is_stopped() {
            if !self.round(pool)? || self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let Self { task, outcome, .. } = self;
        let left_ns = task.inputs.time_ns.saturating_sub(outcome.measured_ns);
        let now_ns = Monotonic.now_ns();
        let lasted_ns = now_ns - self.drive.start_ns;
        let written_bytes = self.drive.collected.written_bytes + outcome.untimed_bytes;
        let round_bytes = self.work.round_bytes_max(self.set.made.len() as u32);
        let next_bytes = written_bytes.saturating_add(round_bytes);
        let stop = task.inputs.phase.stop;
        // A round that would be cut short before its half tells little more than the earlier ones.
        self.drive.is_goal_met
            || self.allowance.is_spent()
            || left_ns <= outcome.last_round_ns / 2
            || task.inputs.precision_goal.is_some_and(|precision_goal| {
                steady_state::rounds_suffice(&outcome.each, outcome.measured_ns, precision_goal)
            })
            || stop.passes.is_some_and(|passes| outcome.rounds >= passes as f64)
            || stop.bytes.is_some_and(|bytes| self.work.writes_data() && next_bytes > bytes)
            || lasted_ns >= task.inputs.time_ns.saturating_mul(UNTIMED_SHARE)
            || now_ns >= task.deadline_ns
    }

    /// Runs one round; false if no other can follow.
    fn round(&mut self, pool: &mut WorkerPool<Command, Report>) -> Result<bool, UserError> {
        let all = 0..pool.len();
        let prepared = self.untimed(pool, all.clone(), |deadline_ns| Command::Prepare { deadline_ns })?;
        if self.drive.is_stopped() {
            return Ok(false);
        }
        if !prepared && !self.can_use_fewer_files() {
            return Ok(false);
        }
        if self.work.cold && self.task.inputs.cache == CacheMode::DropAll {
            caches::drop_names(self.task.directory)?;
        }
        let measured = self.measure(pool);
        // After an interruption all files are removed anyway, by the same rules.
        if self.drive.is_stopped() {
            return measured.map(|_| false);
        }
        if matches!(measured, Ok(false)) {
            // The directories for a round that does not come are there.
            self.set.is_unknown |= self.work.verb.change() == Change::Removed(Kind::Directory);
            return Ok(false);
        }
        let settled = self.untimed(pool, all, |deadline_ns| Command::Settle { deadline_ns });
        measured?;
        let settled = settled?;
        self.set.is_unknown |= !settled;
        Ok(settled)
    }

    /// Returns true if a round visits the files that could be made. Otherwise it says why there is none.
    fn can_use_fewer_files(&mut self) -> bool {
        let is_create = self.work.verb == FileVerb::Create;
        self.set.is_unknown |= is_create;
        // A round over fewer files would not be the same test as the rounds before.
        if self.outcome.rounds > 0.0 {
            return false;
        }
        let is_limited = self.allowance.is_too_small();
        let made = visited(self.work, self.set);
        if !is_create && !is_limited && !self.drive.is_continuous && made > 0 {
            return true;
        }
        let wanted = self.work.files;
        let limit = if is_limited { "within the write limit" } else { "in time" };
        self.outcome.cut_short = Some(match is_create {
            true => "the previous test's files were not removed in time".into(),
            false => format!("only {made} of {wanted} files were created {limit}"),
        });
        false
    }

    /// Measures a round; false if it was not to begin.
    fn measure(&mut self, pool: &mut WorkerPool<Command, Report>) -> Result<bool, UserError> {
        let (visited, operations) = (visited(self.work, self.set), operations(self.work, self.set));
        if self.drive.is_continuous {
            // The files were made before the phase.
            self.drive.start_ns = Monotonic.now_ns();
        }
        let StartSignal { at_ns, is_cancelled } = self.drive.begin();
        if is_cancelled {
            self.drive.end();
            return Ok(false);
        }
        self.allowance.begin();
        at_ns.iter().for_each(|at_ns| Monotonic.wait_until(*at_ns));
        let now_ns = Monotonic.now_ns();
        let left_ns = self.task.inputs.time_ns.saturating_sub(self.outcome.measured_ns);
        // Where making the files has taken the time of the phase, they are still there to be visited.
        let deadline_ns = self.task.deadline_ns.max(now_ns.saturating_add(left_ns));
        order(pool, 0..pool.len(), Command::Measure { time_ns: left_ns, deadline_ns });
        // A worker that fills files may be woken in vain while the cache is full.
        let (file_bytes, fills) = match self.work.verb {
            FileVerb::Append => (self.work.chunk_bytes, true),
            verb => (self.work.size_max_bytes, matches!(verb, FileVerb::Create | FileVerb::Copy)),
        };
        let bytes = file_bytes.saturating_mul(pool.len() as u64);
        let fills = fills && bytes > 0;
        let expected =
            Expected::WhileProgressing { slack_ns: drive::time_for_ns(bytes), counts_cpu_time: !fills };
        let (reports, error) = self.drive.answers(pool, expected, true);
        self.drive.end();
        let now_ns = Monotonic.now_ns();
        // A round lasts from the start of its first worker: waking the others up is not the file system's time.
        let start_ns = reports.iter().flatten().map(|report| report.start_ns).min().unwrap_or(now_ns);
        let ends = || reports.iter().map(|report| report.as_ref().map_or(now_ns, |report| report.end_ns));
        let last_ns = ends().max().unwrap_or(start_ns).max(start_ns);
        let last_start_ns = reports.iter().flatten().map(|report| report.start_ns).max();
        let late_ns =
            at_ns.zip(last_start_ns).map(|(at_ns, last_start_ns)| last_start_ns.saturating_sub(at_ns));
        let done: u64 = reports.iter().flatten().map(|report| report.done).sum();
        let outcome = &mut *self.outcome;
        outcome.start_delay_ns = outcome.start_delay_ns.max(late_ns);
        outcome.last_round_ns = last_ns - start_ns;
        outcome.measured_ns += outcome.last_round_ns;
        outcome.first_done_ns = ends().min().unwrap_or(start_ns).saturating_sub(self.drive.start_ns);
        outcome.last_done_ns = last_ns.saturating_sub(self.drive.start_ns);
        let is_readdir = self.work.verb == FileVerb::Readdir;
        outcome.rounds += if is_readdir { 1.0 } else { done as f64 / operations.max(1) as f64 };
        outcome.files = match self.work.verb {
            FileVerb::Replay => self.work.files_max(pool.len() as u32),
            _ => visited,
        };
        if !self.drive.is_continuous && outcome.each.len() < INTERVALS_MAX {
            let start_delay_ns = at_ns.map_or(0, |at_ns| start_ns.saturating_sub(at_ns));
            outcome.each.push(RoundRecord { ops: done, elapsed_ns: outcome.last_round_ns, start_delay_ns });
        }
        self.take(reports, error).map(|_| true)
    }

    /// Lets members do work that is not measured; true if all of it was done.
    fn untimed(
        &mut self,
        pool: &mut WorkerPool<Command, Report>,
        members: std::ops::Range<usize>,
        command: impl Fn(u64) -> Command,
    ) -> Result<bool, UserError> {
        let now_ns = Monotonic.now_ns();
        // A test that is one part makes its files once. Others would make them for each round.
        let budget_ns = self.task.inputs.budget_ns;
        let untimed_ns = UNTIMED_NS_MIN.min(budget_ns / 2);
        let least_ns = if self.drive.is_continuous { POPULATING_NS_MIN } else { untimed_ns };
        let longest_ns = self.task.inputs.time_ns.saturating_mul(UNTIMED_SHARE).max(least_ns);
        // Files that are made are there to be visited.
        let last_ns = self.task.deadline_ns.saturating_sub(budget_ns / VISITING_DIVISOR);
        let deadline_ns = now_ns.saturating_add(longest_ns).min(last_ns.max(now_ns + untimed_ns));
        order(pool, members, command(deadline_ns));
        let expected = Expected::WhileProgressing { slack_ns: 0, counts_cpu_time: true };
        let (reports, error) = self.drive.answers(pool, expected, false);
        self.take(reports, error)
    }

    /// Takes over the state from the reports; true if all work was done.
    fn take(&mut self, reports: Vec<Option<Report>>, error: Option<UserError>) -> Result<bool, UserError> {
        let mut failed = error;
        let mut is_whole = true;
        for (thread, report) in reports.into_iter().enumerate() {
            let Some(report) = report else { continue };
            self.set.made[thread] = report.made;
            self.set.dirs_made[thread] = report.dirs_made;
            self.outcome.untimed_bytes += report.untimed_bytes;
            self.outcome.missed += report.missed;
            is_whole &= report.is_whole;
            if let Some(found) = report.unexpected {
                self.outcome.unexpected.get_or_insert(Unexpected { count: 0, ..found }).count += found.count;
            }
            if let (Err(failure), None) = (report.result, &failed) {
                let owner = if self.work.shared { 0 } else { thread };
                let path = self.task.directory.path().join(format!("t{owner:0THREAD_DIGITS$x}"));
                let action = match failure.cause {
                    Cause::Names { .. } => format!("list every file in {}", path.display()),
                    Cause::Foreign => format!("remove all of {}", path.display()),
                    _ if self.work.verb == FileVerb::Replay => {
                        let file = &self.work.load_file.name;
                        format!("{} (line {} of {file}) in {}", failure.call, failure.file, path.display())
                    }
                    _ => format!("{} file {} in {}", failure.call, failure.file, path.display()),
                };
                failed = Some(
                    UserError::new(action, failure.cause)
                        .help(remedy(&failure, self.task.directory.descriptor())),
                );
            }
        }
        failed.map_or(Ok(is_whole), Err)
    }
}

fn order(pool: &mut WorkerPool<Command, Report>, members: std::ops::Range<usize>, command: Command) {
    members.for_each(|index| pool.command(index, command));
}

/// A thread of a test on files.
struct Member {
    parent: OwnedFd,
    owner: u64,
    thread: u64,
    threads: u64,
    work: FilesWork,
    tree: Tree,
    first: u64,
    files: u64,
    made: u64,
    seed: u64,
    order_seed: u64,
    generation: u32,
    /// Number of directories that `rmdir` will find.
    dirs_made: u64,
    untimed_bytes: u64,
    /// Bytes that it may write untimed, and those for its operations.
    untimed: Arc<Budget>,
    measured: Arc<Budget>,
    /// Files that all threads of a mix share.
    shared: Option<Arc<SharedFiles>>,
    /// Start times of an open loop.
    pacing: Option<OpenLoop>,
    timer: Timer,
    local_cpus: Option<Arc<[u32]>>,
    stop: Arc<AtomicBool>,
}

impl Member {
    fn start(self) -> (Work<Command, Report>, DeltaReader) {
        let shape = recorder::Shape::from(&self.work.steps()[..]);
        let (recorder, reader) = Recorder::new(recorder::Shape { is_open: self.pacing.is_some(), ..shape });
        let body = move |mailbox: &Mailbox<Command, Report>| {
            pin_to_cpus(self.local_cpus.as_deref());
            let names = Names { tree: self.tree, spelling: NameFormat::new(self.work.naming, self.seed) };
            let part = Part {
                names,
                content: self.content(),
                original: self.first,
                files: self.files,
                seed: self.order_seed,
                thread: self.thread,
                threads: self.threads,
                shared: self.shared.clone(),
                pacing: self.pacing.clone(),
            };
            let verb = files::measured(&self.work, part);
            self.serve(names, mailbox, recorder, verb);
        };
        (Box::new(body), reader)
    }

    fn content(&self) -> Option<Content> {
        let FilesWork { size_min_bytes, size_max_bytes, mut chunk_bytes, .. } = self.work;
        if self.work.verb == FileVerb::Append {
            // Its chunk is what it appends.
            chunk_bytes = CHUNK_BYTES_MAX;
        }
        let content =
            || Content::new(size_min_bytes, size_max_bytes, chunk_bytes, self.seed, self.generation);
        (size_max_bytes > 0).then(content)
    }

    /// Answers commands until no more come.
    fn serve(
        mut self,
        names: Names,
        mailbox: &Mailbox<Command, Report>,
        mut recorder: Recorder,
        mut measured: Box<dyn Measured>,
    ) {
        mailbox.ready();
        let mut opened = None;
        let mut last_done = 0;
        while let Some(command) = mailbox.next() {
            let start_ns = Monotonic.now_ns();
            let Some((directory, leaves)) = &opened else {
                let result = self.open_directories().map(|directories| opened = Some(directories));
                mailbox.report(self.report(Round { result, ..empty_round() }, true, None));
                continue;
            };
            let place = FileLocation { directory: directory.as_fd(), leaves, tree: self.tree };
            let (round, is_whole) = match command {
                Command::Enter => (empty_round(), true),
                Command::Prepare { deadline_ns } => {
                    let limits = self.untimed_until(deadline_ns);
                    let (round, is_whole) = match measured.populate(&place, limits) {
                        Some((round, written_bytes)) => self.adopt_files(round, written_bytes),
                        None => self.prepare(names, &place, deadline_ns),
                    };
                    if !is_whole {
                        // All rounds visit the same files.
                        self.files = self.made.max(self.dirs_made);
                    }
                    (round, is_whole)
                }
                Command::Measure { time_ns, deadline_ns } => {
                    let deadline_ns = start_ns.saturating_add(time_ns).min(deadline_ns);
                    let round = self.measure(&place, deadline_ns, &mut recorder, &mut *measured);
                    last_done = round.done;
                    (round, true)
                }
                Command::Settle { deadline_ns } => self.settle(names, &place, last_done, deadline_ns),
            };
            let unexpected = measured.unexpected().filter(|_| matches!(command, Command::Measure { .. }));
            mailbox.report(self.report(round, is_whole, unexpected));
        }
    }

    fn report(&mut self, round: Round, is_whole: bool, unexpected: Option<Unexpected>) -> Report {
        let Round { done, missed, start_ns, end_ns, result } = round;
        let untimed_bytes = std::mem::take(&mut self.untimed_bytes);
        Report {
            start_ns,
            end_ns,
            done,
            made: self.made,
            dirs_made: self.dirs_made,
            missed,
            untimed_bytes,
            is_whole,
            unexpected,
            result,
        }
    }

    fn untimed_until(&self, deadline_ns: u64) -> RoundLimits<'_> {
        RoundLimits { deadline_ns, stop: &self.stop, budget: &self.untimed }
    }

    fn order(&self, files: u64) -> Option<Permutation> {
        (self.work.order == Order::Random).then(|| Permutation::new(files, self.order_seed))
    }

    /// Returns the visits of a round, in its order.
    fn visits(&self) -> VisitOrder {
        let files = match self.work.verb.change() {
            _ if self.work.missing => self.files,
            // Flows and loads go on until their time is over, or the passes that were asked for.
            Change::Mixed => {
                let pass = self.work.load().map_or(u64::MAX, |load| load.operations);
                self.work.passes.map_or(u64::MAX, |passes| passes.saturating_mul(pass))
            }
            // The first file is none of the links to it.
            _ if self.work.verb == FileVerb::Readlink => self.made.saturating_sub(1),
            Change::Removed(Kind::Directory) => self.dirs_made,
            _ if self.work.verb.visits_files() => self.made,
            _ => self.files,
        };
        let first = self.first + u64::from(self.work.verb == FileVerb::Readlink);
        VisitOrder { first, files, order: self.order(files) }
    }

    /// Takes over the files that a mix has made; true if it has them all.
    fn adopt_files(&mut self, round: Round, written_bytes: u64) -> (Round, bool) {
        self.made += round.done;
        self.untimed_bytes += written_bytes;
        let is_whole = self.made == self.files;
        (round, is_whole)
    }

    /// Makes everything that a round needs; true if all of it exists.
    fn prepare(&mut self, names: Names, place: &FileLocation<'_>, deadline_ns: u64) -> (Round, bool) {
        match self.work.verb.change() {
            _ if self.work.missing => (empty_round(), true),
            Change::Made(Kind::File) => self.remove_files(names, place, deadline_ns),
            Change::Made(Kind::Directory) => (empty_round(), true),
            Change::Removed(Kind::Directory) => {
                let mut mkdir = NameChange::mkdir(names, false);
                let all = VisitOrder::in_sequence(self.first, self.files);
                let (round, is_whole) = self.run_uncounted(&mut mkdir, place, all, deadline_ns);
                self.dirs_made = round.done;
                (round, is_whole)
            }
            Change::RemovedTree => match self.make_directories(place.directory) {
                Ok(_) => self.make_rest(names, place, deadline_ns),
                Err(failure) => (Round { result: Err(failure), ..empty_round() }, false),
            },
            _ => self.make_rest(names, place, deadline_ns),
        }
    }

    fn measure(
        &mut self,
        place: &FileLocation<'_>,
        deadline_ns: u64,
        recorder: &mut Recorder,
        measured: &mut dyn Measured,
    ) -> Round {
        let limits = RoundLimits { deadline_ns, stop: &self.stop, budget: &self.measured };
        let visits = self.visits();
        let mut round = measured.round(place, visits, &self.timer, recorder, limits);
        if self.work.sync == SyncMode::End && round.result.is_ok() {
            let is_filled = self.work.verb == FileVerb::Create && self.work.size_max_bytes > 0;
            round.result = match self.work.verb {
                FileVerb::Remove => {
                    sync::removal(place, round.done == visits.files + self.tree.directories())
                }
                verb => sync::directories(place, is_filled || verb.changes_files()),
            };
            round.end_ns = Monotonic.now_ns();
        }
        round
    }

    /// Restores the set to a state that the next round or test can build on: the lowest numbers exist, or
    /// none. Returns true if it reached that state.
    fn settle(
        &mut self,
        names: Names,
        place: &FileLocation<'_>,
        done: u64,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let visits = self.visits();
        // The permutation is that of the whole round, but only its first visits took place.
        let visited = VisitOrder { files: done, ..visits };
        let unlink = |kind| NameChange::unlink(names, kind, false);
        let rmdir = || NameChange::rmdir(names, false);
        match self.work.verb.change() {
            _ if self.work.missing => (empty_round(), true),
            Change::Nothing | Change::Mixed => (empty_round(), true),
            Change::Made(Kind::File) if done == self.files || self.work.order == Order::Sequential => {
                self.made = done;
                (empty_round(), true)
            }
            Change::Made(Kind::Directory) => self.run_uncounted(&mut rmdir(), place, visited, deadline_ns),
            Change::Made(kind) => self.run_uncounted(&mut unlink(kind), place, visited, deadline_ns),
            Change::Renamed => {
                let mut back = NameChange::rename(names, [Kind::Renamed, Kind::File], false);
                self.run_uncounted(&mut back, place, visited, deadline_ns)
            }
            Change::Resized => self.restore(names, place, done, deadline_ns),
            Change::AttributesSet => {
                let mut bare = IndexedOps::new(names, RemoveAttribute);
                self.run_uncounted(&mut bare, place, self.changed(done), deadline_ns)
            }
            Change::RemovedTree => self.remove_rest(names, place, done, deadline_ns),
            Change::Removed(Kind::Directory) => {
                let settled = self.run_each_uncounted(&mut rmdir(), place, self.rest_of(done), deadline_ns);
                self.dirs_made = 0;
                settled
            }
            // After a partial read of a directory, the remaining names are unknown.
            Change::Removed(_) if self.work.order == Order::Directory => {
                let is_whole = done == self.made;
                self.made = 0;
                (empty_round(), is_whole)
            }
            Change::Removed(kind) => {
                let settled =
                    self.run_each_uncounted(&mut unlink(kind), place, self.rest_of(done), deadline_ns);
                self.made = 0;
                settled
            }
        }
    }

    /// Runs the loop for all verbs, and drops its counts; true if every visit took place.
    fn run_uncounted(
        &self,
        verb: &mut dyn FileOps,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let (mut recorder, _) = Recorder::new(recorder::Shape::default());
        let limits = self.untimed_until(deadline_ns);
        let round = files::untimed(verb, place, visits, &mut recorder, limits);
        let is_whole = round.done == visits.files;
        (round, is_whole)
    }

    fn run_each_uncounted(
        &self,
        verb: &mut dyn FileOps,
        place: &FileLocation<'_>,
        files: impl Iterator<Item = u64>,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let (mut recorder, _) = Recorder::new(recorder::Shape::default());
        let limits = self.untimed_until(deadline_ns);
        for file in files {
            let visits = VisitOrder::in_sequence(file, 1);
            let round = files::untimed(verb, place, visits, &mut recorder, limits);
            if round.done == 0 || self.stop.load(Ordering::Relaxed) {
                return (round, false);
            }
        }
        (empty_round(), true)
    }
}

fn empty_round() -> Round {
    let now_ns = Monotonic.now_ns();
    Round { done: 0, missed: 0, start_ns: now_ns, end_ns: now_ns, result: Ok(()) }
}

#[cfg(test)]
mod tests;
