//! Runs one test on files, in rounds: make what is needed untimed, measure, put back untimed, until it has lasted.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::clock::{Clock, Monotonic, Timer};
use engine::files::{
    self, Content, Create, FileOps, Link, Mkdir, Open, Place, Readdir, Rename, Rmdir, Round, RoundLimits,
    Stat, Symlink, Unlink, UnlinkMissing, Visits,
};
use engine::names::{DIRECTORY_DIGITS, FILE_DIGITS, Kind, Tree};
use engine::pattern::Permutation;
use engine::recorder::{self, DeltaReader, Recorder};
use engine::{Failure, failure::Cause};
use model::Experiment;
use model::Trouble;
use model::marker::NameRule;
use model::plan::{Plan, PlannedPhase, Until};
use model::run::{INTERVALS_MAX, RoundRecord};
use model::workload::{CacheMode, FileVerb, FilesWork, Order, SyncMode};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::course;
use crate::data_phase::{drop_all_caches, remedy};
use crate::directory::WorkDirectory;
use crate::drive::{Drive, Expected};
use crate::gang::{Gang, Mailbox, Work, place_near};
use crate::removal::DIRECTORY_FLAGS;

/// Hexadecimal digits in the names of the threads' directories.
const THREAD_DIGITS: usize = 4;
/// A phase begins no round after so many times its measured time: making and removing files may take far longer
/// than what is measured, and the run has a limit.
const UNTIMED_SHARE: u64 = 2;
/// Untimed work may take at least this long.
const UNTIMED_NS_MIN: u64 = 5_000_000_000;

/// The names that file tests of a plan may make.
pub fn rules(plan: &Plan) -> Vec<NameRule> {
    let all = || plan.phases.iter().filter_map(|phase| phase.workload.files());
    let Some(files) = all().map(|work| work.files).max() else { return vec![] };
    // Experiments have directories for more threads than their test.
    let of_experiment = |phase: &PlannedPhase| {
        let variant = Experiment::Depth.variant(phase, plan.cache).filter(|_| plan.may_probe(phase));
        variant.map_or(phase.workload.threads, |variant| variant.phase.workload.threads)
    };
    let on_files = plan.phases.iter().filter(|phase| phase.workload.files().is_some());
    let threads = on_files.map(|phase| u64::from(of_experiment(phase))).max().unwrap_or(1);
    let levels = all().map(|work| work.levels).max().unwrap_or(1);
    let dirs = all().map(|work| work.dirs).max().unwrap_or(1);
    let leaves = || {
        let kinds = [Kind::File, Kind::Renamed, Kind::Link, Kind::Symlink];
        let mut rules: Vec<_> = kinds.map(|kind| NameRule::files(kind.letter(), FILE_DIGITS, files)).into();
        rules.push(NameRule::directories(Kind::Directory.letter(), FILE_DIGITS, files, vec![]));
        rules
    };
    let mut inside = leaves();
    for _ in 0..if dirs > 1 { levels } else { 0 } {
        let below = std::mem::replace(&mut inside, leaves());
        inside.push(NameRule::directories('d', DIRECTORY_DIGITS, dirs, below));
    }
    vec![NameRule::directories('t', THREAD_DIGITS, threads, inside)]
}

/// The files that stand between two tests, so that a test that needs what the one before made need not make it again.
#[derive(Debug, Default)]
pub struct FileSet {
    shape: Option<Shape>,
    /// Files that exist, of each thread: always those with the lowest numbers.
    made: Vec<u64>,
    generation: u32,
    /// Something was cut short or failed, so that nobody knows which names exist: it is made anew.
    is_unknown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    threads: u32,
    shared: bool,
    tree: Tree,
    size_min_bytes: u64,
    size_max_bytes: u64,
}

/// What one test on files gave, before it becomes a record.
#[derive(Debug, Default)]
pub struct FileOutcome {
    /// Measured time of all rounds: each from the start of its first worker to the end of its last.
    pub measured_ns: u64,
    /// Measured time of the last round.
    pub last_round_ns: u64,
    /// When the first worker was done with the last round, from the start of the phase.
    pub first_done_ns: u64,
    /// When the last worker was done with the last round.
    pub last_done_ns: u64,
    /// Rounds, the last one in part if it was not finished.
    pub rounds: f64,
    /// What each of them took.
    pub each: Vec<RoundRecord>,
    /// Files that a round visited.
    pub files: u64,
    /// Bytes written into files untimed.
    pub untimed_bytes: u64,
    /// Why it was ended before its time, though nothing failed.
    pub cut_short: Option<String>,
    /// What ended it early.
    pub failure: Option<Trouble>,
}

/// What a test needs beside what drives it.
pub struct FileTask<'a> {
    /// The test.
    pub phase: &'a PlannedPhase,
    /// Where files lie.
    pub directory: &'a WorkDirectory,
    /// Whether caches of the machine may be dropped.
    pub cache: CacheMode,
    /// Seed of the run.
    pub seed: u64,
    /// Seed of the order.
    pub offset_seed: u64,
    /// Longest measured time.
    pub time_ns: u64,
    /// When it may end before that.
    pub until: Option<Until>,
    /// Nothing begins after this instant.
    pub deadline_ns: u64,
    /// What operations are timed with.
    pub timer: Timer,
    /// CPUs near the device, where not all are.
    pub near: Option<Arc<[u32]>>,
}

#[derive(Debug, Clone, Copy)]
enum Command {
    /// Make and open the directories.
    Enter,
    /// Make what a round needs, untimed, until this instant.
    Prepare { deadline_ns: u64 },
    /// Visit every file once, until this instant.
    Measure { deadline_ns: u64 },
    /// Put back what the round changed, untimed.
    Settle { deadline_ns: u64 },
}

struct Report {
    start_ns: u64,
    end_ns: u64,
    done: u64,
    /// Files of this member that exist now.
    made: u64,
    /// Bytes that it has written untimed since the last report.
    untimed_bytes: u64,
    /// Whether all that should have been done was done.
    is_whole: bool,
    result: Result<(), Failure>,
}

/// The calls of a verb, where an operation makes several kinds.
pub fn steps(work: &FilesWork) -> Vec<&'static str> {
    let tree = Tree { files: 1, dirs: 1, levels: 1 };
    let content = (work.size_max_bytes > 0).then(|| Content::new(1, 1, 0, 0));
    let steps =
        if work.verb == FileVerb::Readdir { Readdir::STEPS } else { with_verb(work, tree, content, StepsOf) };
    if steps.len() > 1 { steps.to_vec() } else { Vec::new() }
}

/// Runs the test. `drive.start_ns` is set to the instant at which the first round began.
///
/// # Errors
/// What kept it from starting.
pub fn run(task: &FileTask<'_>, set: &mut FileSet, drive: &mut Drive<'_>) -> Result<FileOutcome, Trouble> {
    let workload = &task.phase.workload;
    let Some(work) = workload.files() else {
        return Err(Trouble::new("run a test on files", "it is one on data"));
    };
    let threads = u64::from(workload.threads);
    let per_thread = if work.shared { work.files } else { work.files.div_ceil(threads) };
    let tree = Tree { files: per_thread, dirs: work.dirs, levels: work.levels };
    let shape = Shape {
        threads: workload.threads,
        shared: work.shared,
        tree,
        size_min_bytes: work.size_min_bytes,
        size_max_bytes: work.size_max_bytes,
    };
    if set.shape != Some(shape) || set.is_unknown {
        if set.shape.is_some() {
            task.directory.empty_of("t")?;
        }
        let made = vec![0; threads as usize];
        *set = FileSet { shape: Some(shape), made, generation: 0, is_unknown: false };
    }
    set.generation += 1;

    let timer = task.timer.anchored();
    let mut works = Vec::new();
    for thread in 0..threads {
        let share = work.files / threads + u64::from(thread < work.files % threads);
        let before = thread * (work.files / threads) + thread.min(work.files % threads);
        let parent = task.directory.descriptor().try_clone_to_owned();
        let member = Member {
            parent: parent.map_err(|error| Trouble::new("start a thread", error))?,
            owner: if work.shared { 0 } else { thread },
            work: work.clone(),
            tree,
            first: if work.shared { before } else { 0 },
            files: share,
            made: set.made[thread as usize],
            seed: task.seed,
            order_seed: engine::data::mix(task.offset_seed ^ thread),
            generation: set.generation,
            dirs_made: 0,
            untimed_bytes: 0,
            timer,
            near: task.near.clone(),
            stop: Arc::clone(&drive.stop),
        };
        let (work, reader) = member.start();
        works.push(work);
        drive.readers.push(reader);
    }
    let gang = Gang::start(works).map_err(|error| {
        Trouble::new(format!("start {threads} threads"), error).remedy("ask for fewer threads")
    })?;
    let mut outcome = FileOutcome { files: work.files, ..FileOutcome::default() };
    drive_rounds(task, work, gang, set, drive, &mut outcome);
    Ok(outcome)
}

fn drive_rounds(
    task: &FileTask<'_>,
    work: &FilesWork,
    mut gang: Gang<Command, Report>,
    set: &mut FileSet,
    drive: &mut Drive<'_>,
    outcome: &mut FileOutcome,
) {
    let mut rounds = Rounds { task, work, set, drive, outcome };
    let result = rounds.run(&mut gang);
    rounds.set.is_unknown |= result.is_err() || rounds.drive.is_stopped();
    gang.dismiss();
    outcome.failure = result.err();
}

/// What the rounds of a phase share.
struct Rounds<'a, 'd> {
    task: &'a FileTask<'a>,
    work: &'a FilesWork,
    set: &'a mut FileSet,
    drive: &'a mut Drive<'d>,
    outcome: &'a mut FileOutcome,
}

impl Rounds<'_, '_> {
    fn run(&mut self, gang: &mut Gang<Command, Report>) -> Result<(), Trouble> {
        self.drive.ready(gang)?;
        self.drive.start_ns = Monotonic.now_ns();
        // Where directories are shared, the first thread makes those that the others open.
        let first = if self.work.shared { 1 } else { gang.len() };
        for members in [0..first, first..gang.len()] {
            self.untimed(gang, members, |_| Command::Enter)?;
        }
        while !self.drive.is_stopped() {
            if !self.round(gang)? || self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let Self { task, outcome, .. } = self;
        let left_ns = task.time_ns.saturating_sub(outcome.measured_ns);
        let now_ns = Monotonic.now_ns();
        let lasted_ns = now_ns - self.drive.start_ns;
        let written_bytes = self.drive.collected.written_bytes + outcome.untimed_bytes;
        let next_bytes = written_bytes.saturating_add(self.work.set_bytes_max());
        let stop = task.phase.stop;
        // A round that would be cut short after less than half tells little more than the ones before.
        left_ns <= outcome.last_round_ns / 2
            || task
                .until
                .is_some_and(|until| course::rounds_suffice(&outcome.each, outcome.measured_ns, until))
            || stop.passes.is_some_and(|passes| outcome.rounds >= passes as f64)
            || stop.bytes.is_some_and(|bytes| self.work.size_max_bytes > 0 && next_bytes > bytes)
            || lasted_ns >= task.time_ns.saturating_mul(UNTIMED_SHARE)
            || now_ns >= task.deadline_ns
    }

    /// One round; false if no other can follow.
    fn round(&mut self, gang: &mut Gang<Command, Report>) -> Result<bool, Trouble> {
        let all = 0..gang.len();
        let prepared = self.untimed(gang, all.clone(), |deadline_ns| Command::Prepare { deadline_ns })?;
        if self.drive.is_stopped() {
            return Ok(false);
        }
        if !prepared {
            let made = visited(self.work, self.set);
            if self.work.verb == FileVerb::Create {
                self.outcome
                    .cut_short
                    .get_or_insert("the files of the round before could not be removed in time".into());
                self.set.is_unknown = true;
                return Ok(false);
            }
            // A round over fewer files is another test than the rounds before.
            if self.outcome.rounds > 0.0 {
                return Ok(false);
            }
            let wanted = self.work.files;
            self.outcome.cut_short = Some(format!("only {made} of {wanted} files could be made in time"));
        }
        if self.work.cold && self.task.cache == CacheMode::DropAll {
            drop_all_caches().map_err(|error| Trouble::new("drop the machine's caches", error))?;
        }
        let measured = self.measure(gang);
        // After an interruption everything goes anyway, by the same rules.
        if self.drive.is_stopped() {
            return measured.map(|()| false);
        }
        let settled = self.untimed(gang, all, |deadline_ns| Command::Settle { deadline_ns });
        measured?;
        let settled = settled?;
        self.set.is_unknown |= !settled;
        Ok(settled)
    }

    fn measure(&mut self, gang: &mut Gang<Command, Report>) -> Result<(), Trouble> {
        let visited = visited(self.work, self.set);
        self.drive.begin();
        let now_ns = Monotonic.now_ns();
        let left_ns = self.task.time_ns.saturating_sub(self.outcome.measured_ns);
        let deadline_ns = now_ns.saturating_add(left_ns).min(self.task.deadline_ns.max(now_ns + 1));
        order(gang, 0..gang.len(), Command::Measure { deadline_ns });
        let (reports, trouble) = self.drive.answers(gang, Expected::By(deadline_ns), true);
        self.drive.end();
        let now_ns = Monotonic.now_ns();
        // A round lasts from the start of its first worker: waking the others up is not the file system's time.
        let start_ns = reports.iter().flatten().map(|report| report.start_ns).min().unwrap_or(now_ns);
        let ends = || reports.iter().map(|report| report.as_ref().map_or(now_ns, |report| report.end_ns));
        let last_ns = ends().max().unwrap_or(start_ns).max(start_ns);
        let done: u64 = reports.iter().flatten().map(|report| report.done).sum();
        let outcome = &mut *self.outcome;
        outcome.last_round_ns = last_ns - start_ns;
        outcome.measured_ns += outcome.last_round_ns;
        outcome.first_done_ns = ends().min().unwrap_or(start_ns).saturating_sub(self.drive.start_ns);
        outcome.last_done_ns = last_ns.saturating_sub(self.drive.start_ns);
        let is_readdir = self.work.verb == FileVerb::Readdir;
        outcome.rounds += if is_readdir { 1.0 } else { done as f64 / visited.max(1) as f64 };
        outcome.files = visited;
        if outcome.each.len() < INTERVALS_MAX {
            outcome.each.push(RoundRecord { ops: done, elapsed_ns: outcome.last_round_ns });
        }
        self.take(reports, trouble).map(|_| ())
    }

    /// Lets members do something that is not measured; true if all of it was done.
    fn untimed(
        &mut self,
        gang: &mut Gang<Command, Report>,
        members: std::ops::Range<usize>,
        command: impl Fn(u64) -> Command,
    ) -> Result<bool, Trouble> {
        let now_ns = Monotonic.now_ns();
        let longest_ns = self.task.time_ns.saturating_mul(UNTIMED_SHARE).max(UNTIMED_NS_MIN);
        let deadline_ns =
            now_ns.saturating_add(longest_ns).min(self.task.deadline_ns.max(now_ns + UNTIMED_NS_MIN));
        order(gang, members, command(deadline_ns));
        let (reports, trouble) = self.drive.answers(gang, Expected::By(deadline_ns), false);
        self.take(reports, trouble)
    }

    /// Takes over what exists now; true if all of it was done.
    fn take(&mut self, reports: Vec<Option<Report>>, trouble: Option<Trouble>) -> Result<bool, Trouble> {
        let mut failed = trouble;
        let mut is_whole = true;
        for (thread, report) in reports.into_iter().enumerate() {
            let Some(report) = report else { continue };
            self.set.made[thread] = report.made;
            self.outcome.untimed_bytes += report.untimed_bytes;
            is_whole &= report.is_whole;
            if let (Err(failure), None) = (report.result, &failed) {
                let owner = if self.work.shared { 0 } else { thread };
                let path = self.task.directory.path().join(format!("t{owner:0THREAD_DIGITS$x}"));
                let attempt = format!("{} file {} in {}", failure.call, failure.file, path.display());
                failed = Some(Trouble::new(attempt, failure.cause).remedy(remedy(&failure)));
            }
        }
        failed.map_or(Ok(is_whole), Err)
    }
}

fn visited(work: &FilesWork, set: &FileSet) -> u64 {
    match work.verb {
        FileVerb::Create | FileVerb::Mkdir | FileVerb::Rmdir => work.files,
        _ if work.missing => work.files,
        _ => set.made.iter().sum::<u64>().max(1),
    }
}

fn order(gang: &mut Gang<Command, Report>, members: std::ops::Range<usize>, command: Command) {
    members.for_each(|index| gang.command(index, command));
}

/// A thread of a test on files.
struct Member {
    parent: OwnedFd,
    owner: u64,
    work: FilesWork,
    tree: Tree,
    first: u64,
    files: u64,
    made: u64,
    seed: u64,
    order_seed: u64,
    generation: u32,
    /// Directories that `rmdir` will find.
    dirs_made: u64,
    untimed_bytes: u64,
    timer: Timer,
    near: Option<Arc<[u32]>>,
    stop: Arc<AtomicBool>,
}

impl Member {
    fn start(self) -> (Work<Command, Report>, DeltaReader) {
        let (recorder, reader) = Recorder::new(recorder::Shape::closed(steps(&self.work).len()));
        let body = move |mailbox: &Mailbox<Command, Report>| {
            place_near(self.near.as_deref());
            if self.work.verb == FileVerb::Readdir {
                let readdir = Readdir::new(self.tree);
                self.serve(mailbox, recorder, ReaddirRound(readdir));
                return;
            }
            let tree = self.tree;
            let content = self.content();
            let work = self.work.clone();
            with_verb(&work, tree, content, Serve { member: self, mailbox, recorder });
        };
        (Box::new(body), reader)
    }

    fn content(&self) -> Option<Content> {
        let FilesWork { size_min_bytes, size_max_bytes, .. } = self.work;
        (size_max_bytes > 0).then(|| Content::new(size_min_bytes, size_max_bytes, self.seed, self.generation))
    }

    /// Answers commands until there are no more.
    fn serve(
        mut self,
        mailbox: &Mailbox<Command, Report>,
        mut recorder: Recorder,
        mut measured: impl MeasuredRound,
    ) {
        mailbox.ready();
        let mut opened = None;
        let mut last_done = 0;
        while let Some(command) = mailbox.next() {
            let start_ns = Monotonic.now_ns();
            let Some((directory, leaves)) = &opened else {
                let result = self.open_directories().map(|directories| opened = Some(directories));
                mailbox.report(self.report(Round { done: 0, start_ns, end_ns: start_ns, result }, true));
                continue;
            };
            let place = Place { directory: directory.as_fd(), leaves, tree: self.tree };
            let (round, is_whole) = match command {
                Command::Enter => (nothing(), true),
                Command::Prepare { deadline_ns } => self.prepare(&place, deadline_ns),
                Command::Measure { deadline_ns } => {
                    let round = self.measure(&place, deadline_ns, &mut recorder, &mut measured);
                    last_done = round.done;
                    (round, true)
                }
                Command::Settle { deadline_ns } => self.settle(&place, last_done, deadline_ns),
            };
            mailbox.report(self.report(round, is_whole));
        }
    }

    fn report(&mut self, round: Round, is_whole: bool) -> Report {
        let Round { done, start_ns, end_ns, result } = round;
        let untimed_bytes = std::mem::take(&mut self.untimed_bytes);
        Report { start_ns, end_ns, done, made: self.made, untimed_bytes, is_whole, result }
    }

    /// Makes, where they are not there yet, and opens the directories of this member.
    fn open_directories(&self) -> Result<(OwnedFd, Vec<OwnedFd>), Failure> {
        let fail = |call: &'static str| {
            move |errno: Errno| Failure { call, file: 0, offset_bytes: None, cause: Cause::Errno(errno) }
        };
        let make = |parent: &OwnedFd, path: &str| match rustix::fs::mkdirat(parent, path, Mode::RWXU) {
            Err(Errno::EXIST) => Ok(()),
            made => made.map_err(fail("mkdir")),
        };
        let name = format!("t{:0THREAD_DIGITS$x}", self.owner);
        make(&self.parent, &name)?;
        let directory = rustix::fs::openat(&self.parent, name.as_str(), DIRECTORY_FLAGS, Mode::empty())
            .map_err(fail("open"))?;
        let mut leaves = Vec::new();
        if self.tree.dirs > 1 {
            for dir in 0..self.tree.dirs {
                let path = self.tree.directory(dir);
                for (end, _) in path.match_indices('/') {
                    make(&directory, &path[..end])?;
                }
                make(&directory, &path)?;
                if self.work.sync == SyncMode::Each {
                    leaves.push(
                        rustix::fs::openat(&directory, path.as_str(), DIRECTORY_FLAGS, Mode::empty())
                            .map_err(fail("open"))?,
                    );
                }
            }
        }
        Ok((directory, leaves))
    }

    fn order(&self, files: u64) -> Option<Permutation> {
        (self.work.order == Order::Random).then(|| Permutation::new(files, self.order_seed))
    }

    /// What a round visits, in its order.
    fn visits(&self) -> Visits {
        let makes = matches!(self.work.verb, FileVerb::Create | FileVerb::Mkdir) || self.work.missing;
        let files = match self.work.verb {
            _ if makes => self.files,
            FileVerb::Rmdir => self.dirs_made,
            _ => self.made,
        };
        Visits { first: self.first, files, order: self.order(files) }
    }

    /// Makes what a round needs; true if all of it is there.
    fn prepare(&mut self, place: &Place<'_>, deadline_ns: u64) -> (Round, bool) {
        let rest = Visits::in_sequence(self.first + self.made, self.files - self.made);
        match self.work.verb {
            _ if self.work.missing => (nothing(), true),
            FileVerb::Create => self.remove_files(place, deadline_ns),
            FileVerb::Mkdir => (nothing(), true),
            FileVerb::Rmdir => {
                let mut mkdir = Mkdir::new(self.tree, Kind::Directory, Kind::Directory, false);
                let all = Visits::in_sequence(self.first, self.files);
                let (round, is_whole) = self.quietly(&mut mkdir, place, all, deadline_ns);
                self.dirs_made = round.done;
                (round, is_whole)
            }
            _ => {
                let mut create = Create::new(self.tree, self.content(), false);
                let (round, is_whole) = self.quietly(&mut create, place, rest, deadline_ns);
                if let Some(content) = self.content() {
                    let made = rest.first..rest.first + round.done;
                    self.untimed_bytes += made.map(|file| content.size_bytes(file)).sum::<u64>();
                }
                self.made += round.done;
                (round, is_whole)
            }
        }
    }

    fn measure(
        &mut self,
        place: &Place<'_>,
        deadline_ns: u64,
        recorder: &mut Recorder,
        measured: &mut impl MeasuredRound,
    ) -> Round {
        let limits = RoundLimits { deadline_ns, stop: &self.stop };
        let visits = self.visits();
        let mut round = measured.round(place, visits, &self.timer, recorder, limits);
        if self.work.sync == SyncMode::End && round.result.is_ok() {
            round.result = sync_directories(place);
            round.end_ns = Monotonic.now_ns();
        }
        round
    }

    /// Brings the set back to one that the next round or test can build on: the lowest numbers exist, or none. True
    /// if that was reached.
    fn settle(&mut self, place: &Place<'_>, done: u64, deadline_ns: u64) -> (Round, bool) {
        let visits = self.visits();
        // The permutation is that of the whole round, of which only the first visits took place.
        let visited = Visits { files: done, ..visits };
        let unlink = |kind| Unlink::new(self.tree, kind, kind, false);
        let rmdir = || Rmdir::new(self.tree, Kind::Directory, Kind::Directory, false);
        match self.work.verb {
            _ if self.work.missing => (nothing(), true),
            FileVerb::Create if done == self.files || self.work.order == Order::Sequential => {
                self.made = done;
                (nothing(), true)
            }
            FileVerb::Create => self.quietly(&mut unlink(Kind::File), place, visited, deadline_ns),
            FileVerb::Rename => {
                let mut back = Rename::new(self.tree, Kind::Renamed, Kind::File, false);
                self.quietly(&mut back, place, visited, deadline_ns)
            }
            FileVerb::Link => self.quietly(&mut unlink(Kind::Link), place, visited, deadline_ns),
            FileVerb::Symlink => self.quietly(&mut unlink(Kind::Symlink), place, visited, deadline_ns),
            FileVerb::Mkdir => self.quietly(&mut rmdir(), place, visited, deadline_ns),
            FileVerb::Unlink => {
                let settled =
                    self.quietly_each(&mut unlink(Kind::File), place, self.rest_of(done), deadline_ns);
                self.made = 0;
                settled
            }
            FileVerb::Rmdir => {
                let settled = self.quietly_each(&mut rmdir(), place, self.rest_of(done), deadline_ns);
                self.dirs_made = 0;
                settled
            }
            FileVerb::Stat | FileVerb::Open | FileVerb::Readdir => (nothing(), true),
        }
    }

    /// The visits that a round did not come to.
    fn rest_of(&self, done: u64) -> impl Iterator<Item = u64> + use<> {
        let Visits { first, files, order } = self.visits();
        (done..files).map(move |place| first + order.map_or(place, |order| order.at(place)))
    }

    fn remove_files(&mut self, place: &Place<'_>, deadline_ns: u64) -> (Round, bool) {
        let mut unlink = Unlink::new(self.tree, Kind::File, Kind::File, false);
        let made = Visits::in_sequence(self.first, self.made);
        let (round, is_whole) = self.quietly(&mut unlink, place, made, deadline_ns);
        self.made = 0;
        (round, is_whole)
    }

    /// The same loop as the measured one, its counts thrown away; true if every visit took place.
    fn quietly(
        &self,
        verb: &mut impl FileOps,
        place: &Place<'_>,
        visits: Visits,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let (mut recorder, _) = Recorder::new(recorder::Shape::default());
        let limits = RoundLimits { deadline_ns, stop: &self.stop };
        let round = files::round(verb, place, visits, &Monotonic, &mut recorder, limits);
        let is_whole = round.done == visits.files;
        (round, is_whole)
    }

    fn quietly_each(
        &self,
        verb: &mut impl FileOps,
        place: &Place<'_>,
        files: impl Iterator<Item = u64>,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let (mut recorder, _) = Recorder::new(recorder::Shape::default());
        let limits = RoundLimits { deadline_ns, stop: &self.stop };
        for file in files {
            let visits = Visits::in_sequence(file, 1);
            let round = files::round(verb, place, visits, &Monotonic, &mut recorder, limits);
            if round.done == 0 || self.stop.load(Ordering::Relaxed) {
                return (round, false);
            }
        }
        (nothing(), true)
    }
}

fn nothing() -> Round {
    let now_ns = Monotonic.now_ns();
    Round { done: 0, start_ns: now_ns, end_ns: now_ns, result: Ok(()) }
}

fn sync_directories(place: &Place<'_>) -> Result<(), Failure> {
    for dir in 0..place.tree.dirs {
        let path = place.tree.directory(dir);
        let synced = if path.is_empty() {
            rustix::fs::fsync(place.directory)
        } else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(place.directory, path.as_str(), flags, Mode::empty())
                .and_then(rustix::fs::fsync)
        };
        synced.map_err(|errno| Failure {
            call: "fsync",
            file: dir,
            offset_bytes: None,
            cause: errno.into(),
        })?;
    }
    Ok(())
}

/// A round that is measured.
trait MeasuredRound {
    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round;
}

impl<V: FileOps> MeasuredRound for V {
    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        files::round(self, place, visits, clock, recorder, limits)
    }
}

/// A round over directories rather than files.
struct ReaddirRound(Readdir);

impl MeasuredRound for ReaddirRound {
    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        _: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.0.round(place, clock, recorder, limits)
    }
}

/// What is done with a verb once it is a type.
trait WithVerb {
    type Answer;
    fn call<V: FileOps>(self, verb: V) -> Self::Answer;
}

struct StepsOf;

impl WithVerb for StepsOf {
    type Answer = &'static [&'static str];
    fn call<V: FileOps>(self, verb: V) -> Self::Answer {
        verb.steps()
    }
}

struct Serve<'a> {
    member: Member,
    mailbox: &'a Mailbox<Command, Report>,
    recorder: Recorder,
}

impl WithVerb for Serve<'_> {
    type Answer = ();
    fn call<V: FileOps>(self, verb: V) {
        self.member.serve(self.mailbox, self.recorder, verb);
    }
}

/// Chooses the type of a verb; everything behind it is free of options. `readdir` has a loop of its own.
fn with_verb<W: WithVerb>(work: &FilesWork, tree: Tree, content: Option<Content>, with: W) -> W::Answer {
    let durable = work.sync == SyncMode::Each;
    match (work.verb, work.missing) {
        (FileVerb::Create, _) => with.call(Create::new(tree, content, durable)),
        (FileVerb::Stat, false) => with.call(Stat::<false>::new(tree)),
        (FileVerb::Stat | FileVerb::Readdir, _) => with.call(Stat::<true>::new(tree)),
        (FileVerb::Open, false) => with.call(Open::<false>::new(tree)),
        (FileVerb::Open, true) => with.call(Open::<true>::new(tree)),
        (FileVerb::Unlink, false) => with.call(Unlink::new(tree, Kind::File, Kind::File, durable)),
        (FileVerb::Unlink, true) => with.call(UnlinkMissing::new(tree)),
        (FileVerb::Rename, _) => with.call(Rename::new(tree, Kind::File, Kind::Renamed, durable)),
        (FileVerb::Link, _) => with.call(Link::new(tree, Kind::File, Kind::Link, durable)),
        (FileVerb::Symlink, _) => with.call(Symlink::new(tree, Kind::File, Kind::Symlink, durable)),
        (FileVerb::Mkdir, _) => with.call(Mkdir::new(tree, Kind::Directory, Kind::Directory, durable)),
        (FileVerb::Rmdir, _) => with.call(Rmdir::new(tree, Kind::Directory, Kind::Directory, durable)),
    }
}
