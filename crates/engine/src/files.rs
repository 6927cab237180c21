//! The measuring loop on files: one round over a set of names, with every operation timed.
//!
//! One clock read ends a call and starts the next. Computing the next name and counting happen in between and take
//! about ten nanoseconds. A second clock read would take about twenty.
//!
//! A loop is compiled for each type below; each value costs a branch that always has the same result. [`measured`]
//! makes types of options, once for a test.
//!
//! | choice | is | reason |
//! |---|---|---|
//! | calls of a verb | a type | they become a part of their loop, and an indirect call would cost as much as a name |
//! | names from numbers or from directories | a type | one computes names, and the other reads them |
//! | files of one thread or of all | a type | a mix looks for its file several times in an operation |
//! | changes of names | a value | they differ in one call |
//! | ways to copy, kinds of links, missing names, durability | a value | one branch for an operation with several calls |
//! | spelling | a value | one branch for a name |
//! | clock | a value | one branch for a read, see [`Timer`] |
//! | arrival of flows | a value | one branch for a flow |
//! | untimed work | a value | nothing measures it, and one loop makes indirect calls |

mod attributes;
mod contents;
mod directories;
pub mod flows;
mod measured;
mod replay;
mod trees;
mod verbs;

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use model::workload::verbs::VerbStep;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::budget::{Allotment, Budget};
use crate::clock::{Clock, Timer};
use crate::failure::{Cause, Failure};
use crate::names::{Kind, Tree};
use crate::pacing::{OpenLoop, Pacing, Start};
use crate::pattern::Permutation;
use crate::recorder::{INTERVAL_NS, Recorder};

pub use attributes::{GetAttribute, RemoveAttribute, SetAttribute};
pub use contents::{Append, Copy, Restore, Truncate};
pub use directories::{Entries, Readdir};
pub use flows::{Flows, Share, SharedFiles};
pub use measured::Measured;
pub use replay::{Client, Replay};
pub use trees::{RemoveTree, WalkTree};
pub use verbs::{
    Content, Create, CreateLinks, IndexedOps, NameCall, NameChange, Open, Part, ReadFile, Readlink, Stat,
    StatContents, UnlinkNamed, measured,
};

const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const WRITE_FLAGS: OFlags = OFlags::WRONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Location of a thread's files.
#[derive(Debug, Clone, Copy)]
pub struct FileLocation<'a> {
    /// The directory that names are relative to.
    pub directory: BorrowedFd<'a>,
    /// The lowest directories, if a verb makes each of its changes durable there; else empty.
    pub leaves: &'a [OwnedFd],
    /// Spread of the files below the directory.
    pub tree: Tree,
}

impl FileLocation<'_> {
    fn leaf(&self, file: u64) -> BorrowedFd<'_> {
        let leaf = self.leaves.get((file / self.tree.files_per_dir()) as usize);
        leaf.map_or(self.directory, OwnedFd::as_fd)
    }
}

/// Times the calls of an operation, one after the other.
#[derive(Debug)]
pub struct StepTimer<'a> {
    clock: &'a Timer,
    recorder: &'a mut Recorder,
    last_ns: u64,
    /// Instant from which the latency of the operation counts.
    since_ns: u64,
    /// End of the interval.
    next_tick_ns: u64,
    /// Bytes that the thread may write.
    allotment: Allotment<'a>,
}

impl StepTimer<'_> {
    /// Publishes that `step` starts, for samples of its thread's wait channel.
    #[inline]
    pub fn enter(&mut self, step: usize) {
        self.recorder.enter(step);
    }

    /// Takes the bytes that the operation is about to write from the budget. If too few are left, the round ends
    /// without this operation.
    ///
    /// # Errors
    /// The budget is spent.
    #[inline]
    fn charge(&mut self, bytes: u64) -> Result<(), CallError> {
        self.allotment.charge(bytes).map_err(fails("write"))
    }

    /// Ends a step of a verb, whose call has just returned, and records its time.
    #[inline]
    pub fn record_step(&mut self, step: VerbStep) {
        self.record(step.number);
    }

    /// Ends the step of that number, and records its time.
    #[inline]
    fn record(&mut self, step: usize) {
        let now_ns = self.clock.now_ns();
        self.recorder.step(step, now_ns.saturating_sub(self.last_ns));
        self.last_ns = now_ns;
    }

    /// Ends a part of the operation that belongs to none of its steps.
    #[inline]
    fn skip(&mut self) {
        self.last_ns = self.clock.now_ns();
    }

    /// Leaves the time since the last operation out of the next one.
    fn restart(&mut self) {
        self.skip();
        self.since_ns = self.last_ns;
    }

    /// Waits until an instant, in time that belongs to no operation. Returns false if the round is over.
    #[cold]
    fn wait_until(&mut self, at_ns: u64, limits: RoundLimits<'_>) -> bool {
        self.recorder.leave();
        loop {
            self.clock.wait_until(at_ns.min(self.next_tick_ns).min(limits.deadline_ns));
            self.restart();
            let now_ns = self.last_ns;
            if now_ns >= self.next_tick_ns {
                self.tick(now_ns);
            }
            if now_ns >= limits.deadline_ns || limits.stop.load(Ordering::Relaxed) {
                return false;
            }
            if now_ns >= at_ns {
                return true;
            }
        }
    }

    /// Waits until the next operation is due, from when its latency counts. Returns false if the round is over.
    fn wait_until_due(&mut self, due_ns: u64, limits: RoundLimits<'_>) -> bool {
        let is_due = self.wait_until(due_ns, limits);
        self.since_ns = due_ns;
        is_due
    }

    /// Waits until the next operation of an open loop, from whose time its latency counts. Returns false if the round is
    /// over.
    #[inline(never)]
    fn wait_for_next(&mut self, pacing: &mut OpenLoop, limits: RoundLimits<'_>) -> bool {
        loop {
            match pacing.next(self.last_ns) {
                Start::Now { intended_ns } => {
                    self.recorder.queueing(self.last_ns - intended_ns);
                    self.since_ns = intended_ns;
                    return true;
                }
                Start::Later { at_ns } if self.wait_until(at_ns, limits) => {}
                Start::Later { .. } => return false,
            }
        }
    }

    #[cold]
    fn tick(&mut self, now_ns: u64) {
        self.recorder.hand_over(now_ns);
        self.next_tick_ns = now_ns + INTERVAL_NS - (now_ns - self.next_tick_ns) % INTERVAL_NS;
    }
}

/// Operations with another result than in a load file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unexpected {
    /// Number of them.
    pub count: u64,
    /// Line of the first.
    pub line: u32,
    /// Name of the first.
    pub name: &'static str,
    /// Error of the first; `None` if it succeeded, or moved other bytes.
    pub errno: Option<Errno>,
}

/// A failed call: its name and the cause.
type CallError = (&'static str, Cause);

/// Returns what makes the error of a call, which is named like its step.
#[inline]
fn fails<C: Into<Cause>>(call: &'static str) -> impl FnOnce(C) -> CallError {
    move |cause| (call, cause.into())
}

/// Closes a file. Data that a network file system has not written yet may fail here; dropping a descriptor would hide
/// the error.
///
/// # Errors
/// The error that the kernel returned. The file is closed all the same.
#[inline]
pub fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the only owner gives up the descriptor number, and no one uses it again.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // Linux has closed the file by then (close(2)).
        Err(Errno::INTR) => Ok(()),
        closed => closed,
    }
}

/// Opens a file, as a step.
#[inline]
fn open_step(
    directory: BorrowedFd<'_>,
    name: &CStr,
    flags: OFlags,
    step: VerbStep,
    timer: &mut StepTimer<'_>,
) -> Result<OwnedFd, CallError> {
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(fails(step.name))?;
    timer.record_step(step);
    Ok(opened)
}

/// Closes a file, as a step.
#[inline]
fn close_step(file: OwnedFd, step: VerbStep, timer: &mut StepTimer<'_>) -> Result<(), CallError> {
    close(file).map_err(fails(step.name))?;
    timer.record_step(step);
    Ok(())
}

/// Makes a file durable, as a step, if `is_durable` is set.
#[inline]
fn sync_step(
    file: impl AsFd,
    is_durable: bool,
    step: VerbStep,
    timer: &mut StepTimer<'_>,
) -> Result<(), CallError> {
    if is_durable {
        rustix::fs::fsync(file).map_err(fails(step.name))?;
        timer.record_step(step);
    }
    Ok(())
}

/// An operation on the file with a given number in a set.
pub trait FileOps {
    /// Operates on a file, and records the time of each call.
    ///
    /// # Errors
    /// The call that failed.
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError>;

    /// Takes note that a round begins.
    fn begin(&mut self, _start_ns: u64) {}

    /// Makes ready for the next operation. Returns false if the round is over before it is due.
    #[inline]
    fn is_due(&mut self, _: &mut StepTimer<'_>, _: RoundLimits<'_>) -> bool {
        true
    }

    /// Returns the number of operations that were due before an instant and never started.
    fn missed(&mut self, _end_ns: u64) -> u64 {
        0
    }

    /// Returns the operations with another result than in a load file.
    fn unexpected(&self) -> Option<Unexpected> {
        None
    }

    /// Returns the number of the file at which the operation on this one failed.
    fn failed_at(&self, file: u64) -> u64 {
        file
    }

    /// Makes the files that the operation works on, untimed, if only it knows them. Returns the bytes written, too.
    fn populate(&mut self, _: &FileLocation<'_>, _: RoundLimits<'_>) -> Option<(Round, u64)> {
        None
    }
}

/// An operation on a name in a directory.
pub trait NameOps {
    /// Step of reading a directory, if names come from directories.
    const GETDENTS: VerbStep;

    /// The kind of the names.
    fn kind(&self) -> Kind {
        Kind::File
    }

    /// Operates on a name, and records the time of each of its calls.
    ///
    /// # Errors
    /// The call that failed.
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError>;
}

/// Limits that end a round early.
#[derive(Debug, Clone, Copy)]
pub struct RoundLimits<'a> {
    /// No operation starts after this instant.
    pub deadline_ns: u64,
    /// Raised by anyone who wants all workers to stop; checked once an interval.
    pub stop: &'a AtomicBool,
    /// Bytes that may be written.
    pub budget: &'a Budget,
}

/// Result of a round.
#[derive(Debug)]
pub struct Round {
    /// Operations done, in the order of visits: fewer than requested if the round ended early.
    pub done: u64,
    /// Operations that were due before its end and never started.
    pub missed: u64,
    /// Start of the first operation.
    pub start_ns: u64,
    /// End of the last operation.
    pub end_ns: u64,
    /// The first call that failed.
    pub result: Result<(), Failure>,
}

/// Files that a round visits, and their order.
#[derive(Debug, Clone, Copy)]
pub struct VisitOrder {
    /// Number of the first file.
    pub first: u64,
    /// Number of files visited.
    pub files: u64,
    /// Order of the visits; `None` means in sequence.
    pub order: Option<Permutation>,
}

impl VisitOrder {
    /// Visits in the order of file numbers.
    pub fn in_sequence(first: u64, files: u64) -> Self {
        Self { first, files, order: None }
    }

    #[inline]
    fn at(&self, place: u64) -> u64 {
        let place = match &self.order {
            None => place,
            Some(order) => permuted(order, place),
        };
        self.first + place
    }
}

/// Not inlined: as a part of the loop, its keys are loaded for each visit, also for one in sequence.
#[inline(never)]
fn permuted(order: &Permutation, place: u64) -> u64 {
    order.at(place)
}

/// Progress of a round.
struct Walk<'a> {
    timer: StepTimer<'a>,
    limits: RoundLimits<'a>,
    done: u64,
    start_ns: u64,
}

impl<'a> Walk<'a> {
    fn start(clock: &'a Timer, recorder: &'a mut Recorder, limits: RoundLimits<'a>) -> Self {
        let start_ns = clock.now_ns();
        recorder.start(start_ns);
        let next_tick_ns = start_ns + INTERVAL_NS;
        let allotment = Allotment::empty(limits.budget);
        let timer =
            StepTimer { clock, recorder, last_ns: start_ns, since_ns: start_ns, next_tick_ns, allotment };
        Self { timer, limits, done: 0, start_ns }
    }

    /// Counts a completed operation. Returns false if no other may begin.
    #[inline]
    fn count(&mut self) -> bool {
        let now_ns = self.timer.last_ns;
        self.timer.recorder.operation(now_ns.saturating_sub(self.timer.since_ns), 0);
        self.timer.since_ns = now_ns;
        self.done += 1;
        if now_ns < self.timer.next_tick_ns {
            return true;
        }
        self.timer.tick(now_ns);
        !self.limits.stop.load(Ordering::Relaxed)
    }

    /// Ends the round and returns it. If the bytes were spent, the last operation has not started, and nothing has
    /// failed.
    fn finish(self, end_ns: u64, result: Result<(), Failure>) -> Round {
        self.timer.recorder.flush(end_ns);
        let result = if self.timer.allotment.is_spent() { Ok(()) } else { result };
        Round { done: self.done, missed: 0, start_ns: self.start_ns, end_ns, result }
    }
}

/// Performs an operation on every file of a set, once.
pub fn round<V: FileOps + ?Sized>(
    verb: &mut V,
    place: &FileLocation<'_>,
    visits: VisitOrder,
    clock: &Timer,
    recorder: &mut Recorder,
    limits: RoundLimits<'_>,
) -> Round {
    let mut walk = Walk::start(clock, recorder, limits);
    verb.begin(walk.start_ns);
    let mut result = Ok(());
    while walk.done < visits.files && walk.timer.last_ns < limits.deadline_ns {
        if !verb.is_due(&mut walk.timer, limits) {
            break;
        }
        let file = visits.at(walk.done);
        if let Err((call, cause)) = verb.operate(place, file, &mut walk.timer) {
            result = Err(Failure { call, file: verb.failed_at(file), offset_bytes: None, cause });
            break;
        }
        if !walk.count() {
            break;
        }
    }
    let end_ns = walk.timer.last_ns;
    let round = walk.finish(end_ns, result);
    Round { missed: verb.missed(end_ns.min(limits.deadline_ns)), ..round }
}

/// Same as [`round`], for work that is not measured: one loop for all verbs.
pub fn untimed(
    verb: &mut dyn FileOps,
    place: &FileLocation<'_>,
    visits: VisitOrder,
    recorder: &mut Recorder,
    limits: RoundLimits<'_>,
) -> Round {
    round(verb, place, visits, &Timer::Kernel, recorder, limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, UNLIMITED};
    use crate::names::{NameFormat, Names};
    use crate::recorder::Shape;
    use model::workload::CopyWay;
    use rustix::io::Errno;

    fn place(directory: &std::fs::File, tree: Tree) -> FileLocation<'_> {
        FileLocation { directory: directory.as_fd(), leaves: &[], tree }
    }

    /// Operations, bytes written or read, calls of each step.
    pub(super) type RoundCounts = (u64, u64, Vec<u64>);

    /// Runs a round and returns its counts. Another thread reads them during the round, which may last for several
    /// intervals.
    pub(super) fn watched(
        steps: usize,
        deadline_ns: u64,
        one: impl FnOnce(&mut Recorder, RoundLimits<'_>) -> Round,
    ) -> (Round, RoundCounts) {
        let (mut recorder, reader) = Recorder::new(Shape::closed(steps));
        let stop = AtomicBool::new(false);
        let (round, counted) = std::thread::scope(|scope| {
            let counting = scope.spawn(move || {
                let mut sums = (0, 0, vec![0; steps]);
                let mut add = |delta: &crate::recorder::Delta| {
                    sums.0 += delta.ops;
                    sums.1 += delta.written_bytes + delta.read_bytes;
                    for (sum, step) in sums.2.iter_mut().zip(&delta.steps) {
                        *sum += step.count();
                    }
                };
                while !reader.drain_last(&mut add) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                sums
            });
            let round = one(&mut recorder, RoundLimits { deadline_ns, stop: &stop, budget: &UNLIMITED });
            drop(recorder);
            (round, counting.join().unwrap())
        });
        assert_eq!(counted.0, round.done);
        (round, counted)
    }

    /// Most steps that a verb has.
    const STEPS_MAX: usize = 16;

    /// Same as [`watched`], without the steps that no operation made.
    pub(super) fn count_calls(
        deadline_ns: u64,
        one: impl FnOnce(&mut Recorder, RoundLimits<'_>) -> Round,
    ) -> (Round, RoundCounts) {
        let (round, mut counts) = watched(STEPS_MAX, deadline_ns, one);
        counts.2.retain(|calls| *calls > 0);
        (round, counts)
    }

    fn all<V: FileOps>(mut verb: V, place: &FileLocation<'_>, visits: VisitOrder) -> RoundCounts {
        let (round, counted) = count_calls(u64::MAX, |recorder, limits| {
            round(&mut verb, place, visits, &Timer::Kernel, recorder, limits)
        });
        assert_eq!(round.result, Ok(()));
        counted
    }

    /// Runs a round in the order of directories, which must bring `files` files.
    fn in_directories<O: NameOps>(
        names: Names,
        operation: O,
        place: &FileLocation<'_>,
        files: u64,
        deadline_ns: u64,
    ) -> (Round, RoundCounts) {
        let mut entries = Entries::new(names, operation);
        count_calls(deadline_ns, |recorder, limits| {
            entries.round(place, files, &Timer::Kernel, recorder, limits)
        })
    }

    fn names(path: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_verbs_have_expected_effects_and_call_counts() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 20, dirs: 1, levels: 1 };
        let place = place(&directory, tree);
        let visits = VisitOrder { first: 0, files: 20, order: Some(Permutation::new(20, 3)) };
        let sequence = VisitOrder::in_sequence(0, 20);

        let names_of_set = tree.plain();
        let content = Content::new(100, 5000, 1 << 20, 9, 0);
        let sizes: u64 = (0..20).map(|file| content.size_bytes(file)).sum();
        let created = all(Create::new(names_of_set, Some(content), true), &place, visits);
        assert_eq!(created, (20, sizes, vec![20; 4]));
        assert_eq!(names(temp.path())[3], "f00000003");

        assert_eq!(all(IndexedOps::new(names_of_set, Stat::new(false, false)), &place, visits).0, 20);
        assert_eq!(all(IndexedOps::new(names_of_set, Stat::new(true, false)), &place, visits).0, 20);
        assert_eq!(all(IndexedOps::new(names_of_set, Open::new(false, false)), &place, sequence).2, [20, 20]);
        assert_eq!(all(IndexedOps::new(names_of_set, Open::new(true, false)), &place, sequence).0, 20);
        assert_eq!(all(IndexedOps::new(names_of_set, UnlinkNamed::missing()), &place, sequence).0, 20);
        assert_eq!(all(NameChange::link(names_of_set, false), &place, sequence).0, 20);
        assert_eq!(all(NameChange::symlink(names_of_set, true), &place, sequence).2, [20, 20]);
        assert_eq!(std::fs::read_link(temp.path().join("s00000007")).unwrap().to_str(), Some("f00000007"));
        assert_eq!(all(NameChange::mkdir(names_of_set, false), &place, sequence).0, 20);
        assert_eq!(names(temp.path()).len(), 80);

        let mut readdir = Readdir::new(tree);
        let (read, _) =
            count_calls(u64::MAX, |recorder, limits| readdir.round(&place, &Timer::Kernel, recorder, limits));
        assert_eq!(read.done, 80);

        all(NameChange::rmdir(names_of_set, false), &place, sequence);
        all(NameChange::unlink(names_of_set, Kind::Link, false), &place, visits);
        all(NameChange::unlink(names_of_set, Kind::Symlink, false), &place, sequence);
        all(NameChange::rename(names_of_set, [Kind::File, Kind::Renamed], false), &place, visits);
        assert!(names(temp.path()).iter().all(|name| name.starts_with('r')));
        all(NameChange::rename(names_of_set, [Kind::Renamed, Kind::File], false), &place, visits);
        all(NameChange::unlink(names_of_set, Kind::File, false), &place, visits);
        assert_eq!(names(temp.path()), [""; 0]);
    }

    #[test]
    fn round_stops_before_a_file_would_exceed_the_budget() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 20, dirs: 1, levels: 1 };
        let (place, budget) = (place(&directory, tree), Budget::new(7 * 1000 + 999, 1));
        let bounded = |verb: &mut dyn FnMut(&mut Recorder, RoundLimits<'_>) -> Round| {
            watched(5, u64::MAX, |recorder, limits| verb(recorder, RoundLimits { budget: &budget, ..limits }))
        };
        let visits = VisitOrder::in_sequence(0, 20);
        let mut create = Create::new(tree.plain(), Some(Content::new(1000, 1000, 300, 9, 0)), false);
        let (made, counted) = bounded(&mut |recorder, limits| {
            round(&mut create, &place, visits, &Timer::Kernel, recorder, limits)
        });
        assert_eq!((made.done, made.result, counted.1), (7, Ok(()), 7000));
        assert_eq!((names(temp.path()).len(), budget.left_bytes(), budget.is_spent()), (7, 999, true));
        let mut append = Entries::new(tree.plain(), Append::new(400, false));
        let (appended, counted) =
            bounded(&mut |recorder, limits| append.round(&place, 7, &Timer::Kernel, recorder, limits));
        assert_eq!((appended.done, appended.result, counted.1), (2, Ok(()), 800));
        let mut copy =
            Copy::new(tree.plain(), Content::new(1000, 1000, 300, 9, 0), CopyWay::CopyRange, 500, false);
        let (copied, _) = bounded(&mut |recorder, limits| {
            round(&mut copy, &place, visits, &Timer::Kernel, recorder, limits)
        });
        assert_eq!((copied.done, copied.result, names(temp.path()).len()), (0, Ok(()), 7));
    }

    #[test]
    fn failures_name_call_and_file() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 5, dirs: 1, levels: 1 };
        std::fs::write(temp.path().join("f00000002"), "in the way").unwrap();
        let mut verb = Create::new(tree.plain(), None, false);
        let (round, _) = watched(2, u64::MAX, |recorder, limits| {
            let visits = VisitOrder::in_sequence(0, 5);
            round(&mut verb, &place(&directory, tree), visits, &Timer::Kernel, recorder, limits)
        });
        assert_eq!(round.done, 2);
        let failure = round.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.cause), ("open", 2, Errno::EXIST.into()));
        assert_eq!(std::fs::read(temp.path().join("f00000002")).unwrap(), b"in the way");
    }
    /// Makes all files of a set, in the directories of its tree.
    fn make(path: &std::path::Path, names: Names, place: &FileLocation<'_>, content: Option<Content>) {
        for dir in 0..names.tree.dirs {
            std::fs::create_dir_all(path.join(names.tree.directory(dir))).unwrap();
        }
        let visits = VisitOrder::in_sequence(0, names.tree.files);
        assert_eq!(all(Create::new(names, content, false), place, visits).0, names.tree.files);
    }

    fn every_entry_is_visited(spelling: NameFormat) {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let below = |tree: Tree| temp.path().join(tree.directory(tree.dirs - 1));
        // More entries than one call returns, and directories that stay empty.
        for (files, dirs, levels) in [(3000, 1, 1), (500, 7, 2), (9, 8, 1)] {
            let tree = Tree { files, dirs, levels };
            let (names, place) = (Names { tree, spelling }, place(&directory, tree));
            make(temp.path(), names, &place, None);
            // Files of other programs stay, and are not files of the set.
            for other in ["notes.txt", ".nfs00000001", "file-copy", "r00000001"] {
                std::fs::write(below(tree).join(other), "precious").unwrap();
            }
            let (round, counted) = in_directories(names, Stat::new(false, false), &place, files, u64::MAX);
            assert_eq!((round.result, round.done), (Ok(()), files));
            assert_eq!(counted.2[0], files);
            assert!(counted.2[1] >= 2 * dirs && counted.2[1] < files + 2 * dirs, "{counted:?}");
            let (round, counted) = in_directories(names, Open::new(false, false), &place, files, u64::MAX);
            assert_eq!((round.result, &counted.2[..2]), (Ok(()), &[files, files][..]));
            let is_durable = files < 100;
            let unlink = UnlinkNamed::new(is_durable);
            let (round, counted) = in_directories(names, unlink, &place, files, u64::MAX);
            assert_eq!((round.result, counted.2[0]), (Ok(()), files));
            assert!(!is_durable || counted.2[1] == files);
            let left = std::fs::read_dir(below(tree)).unwrap().filter(|entry| {
                let entry = entry.as_ref().unwrap();
                entry.file_type().unwrap().is_file()
            });
            assert_eq!(left.count(), 4, "{files} files in {dirs} directories");
            for entry in std::fs::read_dir(temp.path()).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => std::fs::remove_dir_all(entry.path()).unwrap(),
                    false => std::fs::remove_file(entry.path()).unwrap(),
                }
            }
        }
    }

    #[test]
    fn directory_order_visits_exactly_the_files_of_the_set() {
        every_entry_is_visited(NameFormat::Plain);
        every_entry_is_visited(NameFormat::NumberFirst { seed: 3 });
        every_entry_is_visited(NameFormat::LettersFirst { seed: 3 });
    }

    #[test]
    fn missing_directory_entry_fails_with_file_counts() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 100, dirs: 1, levels: 1 };
        let place = place(&directory, tree);
        make(temp.path(), tree.plain(), &place, None);
        std::fs::remove_file(temp.path().join("f00000007")).unwrap();
        let (round, _) = in_directories(tree.plain(), UnlinkNamed::new(false), &place, 100, u64::MAX);
        let failure = round.result.unwrap_err();
        assert_eq!((round.done, failure.cause), (99, Cause::Names { came: 99, files: 100 }));
        assert_eq!(failure.cause.to_string(), "100 files were expected, and 99 were listed");
    }

    #[test]
    fn expired_deadline_ends_round_without_error() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 100, dirs: 1, levels: 1 };
        let place = place(&directory, tree);
        make(temp.path(), tree.plain(), &place, None);
        let (round, _) = in_directories(tree.plain(), UnlinkNamed::new(false), &place, 100, 1);
        assert_eq!((round.result, round.done, names(temp.path()).len()), (Ok(()), 0, 100));
    }

    #[test]
    fn nonempty_files_are_read_completely() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 50, dirs: 1, levels: 1 };
        let (names, place) = (tree.plain(), place(&directory, tree));
        let content = Content::new(0, 3000, 256, 9, 0);
        let sizes: Vec<_> = (0..50).map(|file| content.size_bytes(file)).collect();
        make(temp.path(), names, &place, Some(content));
        std::fs::write(temp.path().join("f00000003"), "").unwrap();
        let empty = sizes.iter().enumerate().filter(|(file, size)| *file == 3 || **size == 0).count() as u64;
        let bytes: u64 = sizes.iter().sum::<u64>() - sizes[3];
        let visits = VisitOrder::in_sequence(0, 50);
        for chunk_bytes in [1, 700, 1 << 20] {
            let contents = || StatContents::new(chunk_bytes, false);
            let read = all(IndexedOps::new(names, ReadFile::new(chunk_bytes, None)), &place, visits);
            assert_eq!(read, (50, bytes, vec![50, 50, 50]));
            let numbered = all(IndexedOps::new(names, contents()), &place, visits);
            assert_eq!(numbered, (50, bytes, vec![50, 50 - empty, 50 - empty, 50 - empty]));
            let (round, counted) = in_directories(names, contents(), &place, 50, u64::MAX);
            assert_eq!((round.result, counted.1), (Ok(()), bytes));
            assert_eq!(counted.2[..4], numbered.2);
        }
    }

    #[test]
    fn chunk_size_does_not_affect_file_sizes() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 20, dirs: 1, levels: 1 };
        let (names, place) = (tree.plain(), place(&directory, tree));
        for chunk_bytes in [256, 1000, 4096, 1 << 20] {
            let content = Content::new(1, 10_000, chunk_bytes, 9, 0);
            let sizes: Vec<_> = (0..20).map(|file| content.size_bytes(file)).collect();
            make(temp.path(), names, &place, Some(content));
            let path = |file| temp.path().join(format!("f{file:08x}"));
            let found: Vec<_> = (0..20).map(|file| std::fs::metadata(path(file)).unwrap().len()).collect();
            assert_eq!(found, sizes, "{chunk_bytes}");
            let all_removed = NameChange::unlink(names, Kind::File, false);
            assert_eq!(all(all_removed, &place, VisitOrder::in_sequence(0, 20)).0, 20);
        }
    }

    fn links_lead_to_the_first(is_symbolic: bool, dirs: u64, levels: u32) {
        use std::os::unix::fs::MetadataExt;
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 30, dirs, levels };
        for dir in 0..dirs {
            std::fs::create_dir_all(temp.path().join(tree.directory(dir))).unwrap();
        }
        let leaves: Vec<OwnedFd> = (0..if dirs > 1 { dirs } else { 0 })
            .map(|dir| std::fs::File::open(temp.path().join(tree.directory(dir))).unwrap().into())
            .collect();
        let place = FileLocation { directory: directory.as_fd(), leaves: &leaves, tree };
        let names = Names { tree, spelling: NameFormat::LettersFirst { seed: 5 } };
        // This thread acts as the second of several in the same directories.
        let visits = VisitOrder::in_sequence(10, 20);
        let made = all(CreateLinks::new(names, is_symbolic, 10, true), &place, visits);
        assert_eq!(made, (20, 0, vec![19, 1, 1, 20]));
        let path = |file| temp.path().join(names.path(file).to_str().unwrap());
        let inode = |file| std::fs::metadata(path(file)).unwrap().ino();
        for file in 10..30 {
            assert_eq!(inode(file), inode(10), "{file}");
            let is_link = std::fs::symlink_metadata(path(file)).unwrap().is_symlink();
            assert_eq!(is_link, is_symbolic && file != 10);
        }
        assert_eq!(all(IndexedOps::new(names, Stat::new(false, is_symbolic)), &place, visits).0, 20);
        assert_eq!(all(IndexedOps::new(names, Open::new(false, is_symbolic)), &place, visits).0, 20);
        let stat = in_directories(names, Stat::new(false, is_symbolic), &place, 20, u64::MAX).0;
        assert_eq!((stat.result, stat.done), (Ok(()), 20));
        let unlink = in_directories(names, UnlinkNamed::new(false), &place, 20, u64::MAX).0;
        assert_eq!((unlink.result, unlink.done), (Ok(()), 20));
    }

    #[test]
    fn links_from_every_directory_lead_to_first_file() {
        for (dirs, levels) in [(1, 1), (4, 1), (5, 2)] {
            links_lead_to_the_first(false, dirs, levels);
            links_lead_to_the_first(true, dirs, levels);
        }
    }
}
