//! Runs one test on files, in rounds: make what is needed untimed, measure, put back untimed, until it has lasted.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::clock::{Clock, Monotonic};
use engine::files::{
    self, Content, Create, FileOps, Link, Mkdir, Open, Place, READDIR_STEPS, Rename, Rmdir, Round,
    RoundLimits, Stat, Symlink, Unlink, UnlinkMissing, Visits,
};
use engine::names::{DIRECTORY_DIGITS, FILE_DIGITS, Kind, Tree};
use engine::pattern::Permutation;
use engine::recorder::{DeltaReader, Recorder};
use engine::{Failure, failure::Cause};
use model::Trouble;
use model::marker::NameRule;
use model::plan::{Plan, PlannedPhase};
use model::workload::{CacheMode, FileVerb, FilesWork, Order, SyncMode};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::data_phase::{drop_all_caches, remedy};
use crate::directory::WorkDirectory;
use crate::drive::{Drive, Expected};
use crate::gang::{Gang, Mailbox, Work};
use crate::removal::DIRECTORY_FLAGS;

/// Hexadecimal digits in the names of the threads' directories.
const THREAD_DIGITS: usize = 4;
/// Untimed work of a round ends after so many times the measured time of a phase, so that slow targets do not
/// spend their whole run on it.
const UNTIMED_SHARE: u64 = 2;

/// The names that file tests of a plan may make.
pub fn rules(plan: &Plan) -> Vec<NameRule> {
    let all = || {
        plan.phases.iter().filter_map(|phase| phase.workload.files().map(|files| (&phase.workload, files)))
    };
    let Some(files) = all().map(|(_, files)| files.files).max() else { return vec![] };
    let threads = all().map(|(workload, _)| u64::from(workload.threads)).max().unwrap_or(1);
    let levels = all().map(|(_, files)| files.levels).max().unwrap_or(1);
    let dirs = all().map(|(_, files)| files.dirs).max().unwrap_or(1);
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
    /// Files that a round visited.
    pub files: u64,
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
    /// Nothing begins after this instant.
    pub deadline_ns: u64,
}

#[derive(Debug, Clone, Copy)]
enum Command {
    /// Make what a round needs, untimed, until this instant.
    Prepare { deadline_ns: u64 },
    /// Visit every file once, until this instant.
    Measure { deadline_ns: u64 },
    /// Put back what the round changed, untimed.
    Settle { deadline_ns: u64 },
}

struct Report {
    end_ns: u64,
    done: u64,
    /// Files of this member that exist now.
    made: u64,
    result: Result<(), Failure>,
}

/// The calls of a verb, where an operation makes several kinds.
pub fn steps(work: &FilesWork) -> Vec<&'static str> {
    let tree = Tree { files: 1, dirs: 1, levels: 1 };
    let content = (work.size_max_bytes > 0).then(|| Content::new(1, 1, 0, 0));
    let steps =
        if work.verb == FileVerb::Readdir { READDIR_STEPS } else { with_verb(work, tree, content, StepsOf) };
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
    if set.shape != Some(shape) {
        if set.shape.is_some() {
            task.directory.empty_of("t");
        }
        *set = FileSet { shape: Some(shape), made: vec![0; threads as usize], generation: 0 };
    }
    set.generation += 1;

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
    let mut result = drive.ready(&mut gang);
    drive.start_ns = Monotonic.now_ns();
    while result.is_ok() && !drive.is_stopped() {
        result = drive_round(task, work, &mut gang, set, drive, outcome);
        // A round that would be cut short after less than half tells little more than the ones before.
        let left_ns = task.time_ns.saturating_sub(outcome.measured_ns);
        let written = drive.collected.written_bytes.saturating_add(work.set_bytes_max());
        let enough = task.phase.stop.passes.is_some_and(|passes| outcome.rounds >= passes as f64)
            || task.phase.stop.bytes.is_some_and(|bytes| work.size_max_bytes > 0 && written > bytes);
        if left_ns <= outcome.last_round_ns / 2 || enough || Monotonic.now_ns() >= task.deadline_ns {
            break;
        }
    }
    gang.dismiss();
    outcome.failure = result.err();
}

fn drive_round(
    task: &FileTask<'_>,
    work: &FilesWork,
    gang: &mut Gang<Command, Report>,
    set: &mut FileSet,
    drive: &mut Drive<'_>,
    outcome: &mut FileOutcome,
) -> Result<(), Trouble> {
    let untimed_ns = task.time_ns.saturating_mul(UNTIMED_SHARE).max(5_000_000_000);
    let untimed =
        |now_ns: u64| now_ns.saturating_add(untimed_ns).min(task.deadline_ns.max(now_ns + 1_000_000_000));
    let deadline_ns = untimed(Monotonic.now_ns());
    if work.shared && outcome.rounds == 0.0 {
        // The first thread makes the directories that the others open.
        order(gang, 0..1, Command::Prepare { deadline_ns });
        answered(task, set, drive.answers(gang, Expected::By(deadline_ns), false)?)?;
    }
    order(gang, 0..gang.len(), Command::Prepare { deadline_ns });
    answered(task, set, drive.answers(gang, Expected::By(deadline_ns), false)?)?;
    if drive.is_stopped() {
        return Ok(());
    }
    if work.cold && task.cache == CacheMode::DropAll {
        drop_all_caches().map_err(|error| Trouble::new("drop the machine's caches", error))?;
    }

    drive.begin();
    let start_ns = Monotonic.now_ns();
    let deadline_ns = start_ns.saturating_add(task.time_ns.saturating_sub(outcome.measured_ns));
    order(gang, 0..gang.len(), Command::Measure { deadline_ns });
    let reports = drive.answers(gang, Expected::By(deadline_ns), true);
    drive.end();
    let reports = reports?;
    let ends = || reports.iter().flatten().map(|report| report.end_ns);
    let last_ns = ends().max().unwrap_or(start_ns);
    outcome.last_round_ns = last_ns - start_ns;
    outcome.measured_ns += outcome.last_round_ns;
    outcome.first_done_ns = ends().min().unwrap_or(start_ns) - drive.start_ns;
    outcome.last_done_ns = last_ns - drive.start_ns;
    let done: u64 = reports.iter().flatten().map(|report| report.done).sum();
    let visited = visited(work, set);
    outcome.rounds += if work.verb == FileVerb::Readdir { 1.0 } else { done as f64 / visited.max(1) as f64 };
    outcome.files = visited;
    let measured = answered(task, set, reports);

    // After an interruption everything goes anyway, by the same rules.
    if !drive.is_stopped() {
        let deadline_ns = Monotonic.now_ns().saturating_add(untimed_ns);
        order(gang, 0..gang.len(), Command::Settle { deadline_ns });
        answered(task, set, drive.answers(gang, Expected::By(deadline_ns), false)?)?;
    }
    measured
}

fn visited(work: &FilesWork, set: &FileSet) -> u64 {
    match work.verb {
        FileVerb::Create | FileVerb::Mkdir | FileVerb::Rmdir => work.files,
        _ if work.missing => work.files,
        // What exists may have been changed by the round; its own count comes from what was there before.
        _ => set.made.iter().sum::<u64>().max(1),
    }
}

fn order(gang: &mut Gang<Command, Report>, members: std::ops::Range<usize>, command: Command) {
    members.for_each(|index| gang.command(index, command));
}

/// Takes over what exists now, and the first failure.
fn answered(task: &FileTask<'_>, set: &mut FileSet, reports: Vec<Option<Report>>) -> Result<(), Trouble> {
    let mut failed = None;
    for (thread, report) in reports.into_iter().enumerate() {
        let Some(report) = report else { continue };
        set.made[thread] = report.made;
        if let (Err(failure), None) = (report.result, &failed) {
            let shared = set.shape.is_some_and(|shape| shape.shared);
            let owner = if shared { 0 } else { thread };
            let path = task.directory.path().join(format!("t{owner:0THREAD_DIGITS$x}"));
            let attempt = format!("{} file {} in {}", failure.call, failure.file, path.display());
            failed = Some(Trouble::new(attempt, failure.cause).remedy(remedy(&failure)));
        }
    }
    failed.map_or(Ok(()), Err)
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
    stop: Arc<AtomicBool>,
}

impl Member {
    fn start(self) -> (Work<Command, Report>, DeltaReader) {
        let (recorder, reader) = Recorder::new(steps(&self.work).len());
        let body = move |mailbox: &Mailbox<Command, Report>| {
            if self.work.verb == FileVerb::Readdir {
                self.serve(mailbox, recorder, ReaddirRound);
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
            let (directory, leaves) = match &opened {
                Some(opened) => opened,
                none => match self.open_directories() {
                    Ok(directories) => {
                        debug_assert!(none.is_none());
                        opened.insert(directories)
                    }
                    Err(failure) => {
                        mailbox.report(Report {
                            end_ns: Monotonic.now_ns(),
                            done: 0,
                            made: self.made,
                            result: Err(failure),
                        });
                        continue;
                    }
                },
            };
            let place = Place { directory: directory.as_fd(), leaves, tree: self.tree };
            let round = match command {
                Command::Prepare { deadline_ns } => self.prepare(&place, deadline_ns),
                Command::Measure { deadline_ns } => {
                    let round = self.measure(&place, deadline_ns, &mut recorder, &mut measured);
                    last_done = round.done;
                    round
                }
                Command::Settle { deadline_ns } => self.settle(&place, last_done, deadline_ns),
            };
            let Round { done, end_ns, result } = round;
            mailbox.report(Report { end_ns, done, made: self.made, result });
        }
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
        let needs_files = !matches!(self.work.verb, FileVerb::Create | FileVerb::Mkdir | FileVerb::Rmdir)
            && !self.work.missing;
        let files = if needs_files { self.made } else { self.files };
        Visits { first: self.first, files, order: self.order(files) }
    }

    fn prepare(&mut self, place: &Place<'_>, deadline_ns: u64) -> Round {
        match self.work.verb {
            _ if self.work.missing => nothing(),
            FileVerb::Create => self.remove_files(place, deadline_ns),
            FileVerb::Mkdir => nothing(),
            FileVerb::Rmdir => {
                let mut mkdir = Mkdir::new(self.tree, Kind::Directory, Kind::Directory, false);
                self.quietly(&mut mkdir, place, Visits::in_sequence(self.first, self.files), deadline_ns)
            }
            _ => self.make_files(place, deadline_ns),
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
        let mut round = measured.round(place, self.visits(), recorder, limits);
        if self.work.sync == SyncMode::End && round.result.is_ok() {
            round.result = sync_directories(place);
            round.end_ns = Monotonic.now_ns();
        }
        round
    }

    /// Brings the set back to one that the next round or test can build on: the lowest numbers exist, or none.
    fn settle(&mut self, place: &Place<'_>, done: u64, deadline_ns: u64) -> Round {
        let visits = Visits { files: done, ..self.visits() };
        let unlink = |kind| Unlink::new(self.tree, kind, kind, false);
        match self.work.verb {
            _ if self.work.missing => nothing(),
            FileVerb::Create if done == self.files || self.work.order == Order::Sequential => {
                self.made = done;
                nothing()
            }
            FileVerb::Create => {
                let visits = Visits { files: done, ..visits };
                self.quietly(&mut unlink(Kind::File), place, visits, deadline_ns)
            }
            FileVerb::Rename => {
                let mut back = Rename::new(self.tree, Kind::Renamed, Kind::File, false);
                self.quietly(&mut back, place, visits, deadline_ns)
            }
            FileVerb::Link => self.quietly(&mut unlink(Kind::Link), place, visits, deadline_ns),
            FileVerb::Symlink => self.quietly(&mut unlink(Kind::Symlink), place, visits, deadline_ns),
            FileVerb::Unlink => {
                let rest = self.rest_of(done);
                let round = self.quietly_each(&mut unlink(Kind::File), place, rest, deadline_ns);
                self.made = 0;
                round
            }
            FileVerb::Mkdir => {
                let mut rmdir = Rmdir::new(self.tree, Kind::Directory, Kind::Directory, false);
                self.quietly(&mut rmdir, place, visits, deadline_ns)
            }
            FileVerb::Rmdir => {
                let mut rmdir = Rmdir::new(self.tree, Kind::Directory, Kind::Directory, false);
                let rest = self.rest_of(done);
                self.quietly_each(&mut rmdir, place, rest, deadline_ns)
            }
            FileVerb::Stat | FileVerb::Open | FileVerb::Readdir => nothing(),
        }
    }

    /// The visits that a round did not come to.
    fn rest_of(&self, done: u64) -> impl Iterator<Item = u64> + use<> {
        let Visits { first, files, order } = self.visits();
        (done..files).map(move |place| first + order.map_or(place, |order| order.at(place)))
    }

    fn make_files(&mut self, place: &Place<'_>, deadline_ns: u64) -> Round {
        let mut create = Create::new(self.tree, self.content(), false);
        let visits = Visits::in_sequence(self.first + self.made, self.files - self.made);
        let round = self.quietly(&mut create, place, visits, deadline_ns);
        self.made += round.done;
        round
    }

    fn remove_files(&mut self, place: &Place<'_>, deadline_ns: u64) -> Round {
        let mut unlink = Unlink::new(self.tree, Kind::File, Kind::File, false);
        let made = self.made;
        let round = self.quietly(&mut unlink, place, Visits::in_sequence(self.first, made), deadline_ns);
        if round.done == made {
            self.made = 0;
        }
        round
    }

    /// The same loop as the measured one, its counts thrown away.
    fn quietly(&self, verb: &mut impl FileOps, place: &Place<'_>, visits: Visits, deadline_ns: u64) -> Round {
        let (mut recorder, _reader) = Recorder::new(0);
        let limits = RoundLimits { deadline_ns, stop: &self.stop };
        files::round(verb, place, visits, &Monotonic, &mut recorder, limits)
    }

    fn quietly_each(
        &self,
        verb: &mut impl FileOps,
        place: &Place<'_>,
        files: impl Iterator<Item = u64>,
        deadline_ns: u64,
    ) -> Round {
        let (mut recorder, _reader) = Recorder::new(0);
        let limits = RoundLimits { deadline_ns, stop: &self.stop };
        for file in files {
            let visits = Visits::in_sequence(file, 1);
            let round = files::round(verb, place, visits, &Monotonic, &mut recorder, limits);
            if round.result.is_err() || round.done == 0 {
                return round;
            }
        }
        nothing()
    }
}

fn nothing() -> Round {
    Round { done: 0, end_ns: Monotonic.now_ns(), result: Ok(()) }
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
    fn round(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round;
}

impl<V: FileOps> MeasuredRound for V {
    fn round(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        files::round(self, place, visits, &Monotonic, recorder, limits)
    }
}

/// A round over directories rather than files.
struct ReaddirRound;

impl MeasuredRound for ReaddirRound {
    fn round(
        &mut self,
        place: &Place<'_>,
        _: Visits,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        files::readdir_round(place, &Monotonic, recorder, limits)
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
