//! Loops over directories. They count the entries, or visit files in the order in which their directories list them.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use model::workload::verbs::readdir;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::{CallError, FileLocation, NameOps, READ_FLAGS, Round, RoundLimits, StepTimer, Walk, fails};
use crate::budget::Allotment;
use crate::clock::{Clock, Timer};
use crate::failure::{Cause, Failure};
use crate::names::{Kind, Name, NameFormat, Names, Tree};
use crate::recorder::{INTERVAL_NS, Recorder};

/// Room for the entries that one call returns: the size of glibc's readdir buffer.
pub(super) const BUFFER_BYTES: usize = 32 << 10;

/// Reads the entries of every directory of a set.
#[derive(Debug)]
pub struct Readdir {
    name: Name,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl Readdir {
    /// A reader of the directories of a tree.
    pub fn new(tree: Tree) -> Self {
        Self { name: Name::new(tree.plain(), Kind::File), buffer: Box::new_uninit_slice(BUFFER_BYTES) }
    }

    /// Reads all directories once. One operation is one entry. The latency is that of each `getdents64`, which returns
    /// as many entries as fit into 32 KiB.
    pub fn round(
        &mut self,
        place: &FileLocation<'_>,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        let start_ns = clock.now_ns();
        recorder.start(start_ns);
        let mut round = Round { done: 0, missed: 0, start_ns, end_ns: start_ns, result: Ok(()) };
        let mut next_tick_ns = start_ns + INTERVAL_NS;
        for dir in 0..place.tree.dirs {
            let (last_ns, since_ns) = (round.end_ns, round.end_ns);
            let allotment = Allotment::empty(limits.budget);
            let mut timer = StepTimer { clock, recorder, last_ns, since_ns, next_tick_ns, allotment };
            let read = self.directory(place, dir, &mut timer, &mut round.done, limits);
            round.end_ns = timer.last_ns;
            drop(timer);
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err((call, cause)) => {
                    round.result = Err(Failure { call, file: dir, offset_bytes: None, cause });
                    break;
                }
            }
            if round.end_ns >= next_tick_ns {
                recorder.hand_over(round.end_ns);
                next_tick_ns = round.end_ns + INTERVAL_NS;
                if limits.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        recorder.flush(round.end_ns);
        round
    }

    /// Returns true if it read the directory to its end, false if the deadline came first.
    fn directory(
        &mut self,
        place: &FileLocation<'_>,
        dir: u64,
        timer: &mut StepTimer<'_>,
        done: &mut u64,
        limits: RoundLimits<'_>,
    ) -> Result<bool, CallError> {
        let flags = READ_FLAGS.union(OFlags::DIRECTORY);
        let opened = rustix::fs::openat(place.directory, self.name.directory(dir), flags, Mode::empty())
            .map_err(fails(readdir::OPEN.name))?;
        timer.record_step(readdir::OPEN);
        let mut entries = RawDir::new(&opened, &mut self.buffer);
        let is_complete = loop {
            let calls_kernel = entries.is_buffer_empty();
            let entry = entries.next();
            if calls_kernel {
                timer.record_step(readdir::GETDENTS);
            }
            match entry {
                None => break true,
                Some(Err(errno)) => return Err(fails(readdir::GETDENTS.name)(errno)),
                Some(Ok(entry)) => {
                    if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                        *done += 1;
                        timer.recorder.operations(1, 0);
                    }
                }
            }
            if calls_kernel && timer.last_ns >= limits.deadline_ns {
                break false;
            }
        };
        drop(opened);
        timer.record_step(readdir::CLOSE);
        Ok(is_complete)
    }
}

/// Performs an operation on every file of a set, in the order in which directories list them, while reading these.
#[derive(Debug)]
pub struct Entries<O> {
    operation: O,
    spelling: NameFormat,
    name: Name,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl<O: NameOps> Entries<O> {
    /// Operates on the names in a set that are of the operation's kind.
    pub fn new(names: Names, operation: O) -> Self {
        let buffer = Box::new_uninit_slice(BUFFER_BYTES);
        Self { spelling: names.spelling, name: Name::new(names, operation.kind()), operation, buffer }
    }

    /// Reads all directories once, and operates on each name in the order read.
    ///
    /// The latency of an operation includes the `getdents64` that returned its name, if the operation needed one. It
    /// also includes opening the directory, if the name is its first; that open is not a step. Names outside the set
    /// are skipped, and so are all names that begin with a dot. Once all directories were read to their ends, `files`
    /// files must have been listed.
    pub fn round(
        &mut self,
        place: &FileLocation<'_>,
        files: u64,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        let mut walk = Walk::start(clock, recorder, limits);
        let mut read = Ok(true);
        for dir in 0..place.tree.dirs {
            read = self.directory(place, dir, &mut walk);
            if read != Ok(true) {
                break;
            }
        }
        // The last call on the last directory returned no name.
        walk.timer.skip();
        let (done, end_ns) = (walk.done, walk.timer.last_ns);
        let result = match read {
            Ok(true) if done != files => Err(failed("getdents64", done, Cause::Names { came: done, files })),
            Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        };
        walk.finish(end_ns, result)
    }

    /// Returns true if it read the directory to its end, false if the deadline or the stop flag ends the round.
    fn directory(
        &mut self,
        place: &FileLocation<'_>,
        dir: u64,
        walk: &mut Walk<'_>,
    ) -> Result<bool, Failure> {
        let kind = self.operation.kind();
        let flags = READ_FLAGS.union(OFlags::DIRECTORY);
        let directory = rustix::fs::openat(place.directory, self.name.directory(dir), flags, Mode::empty())
            .map_err(|errno: Errno| failed("open", walk.done, errno.into()))?;
        walk.timer.skip();
        let mut entries = RawDir::new(&directory, &mut self.buffer);
        loop {
            let calls_kernel = entries.is_buffer_empty();
            let entry = entries.next();
            if calls_kernel {
                walk.timer.record_step(O::GETDENTS);
            }
            let Some(entry) = entry else { return Ok(true) };
            let entry = entry.map_err(|errno| failed(O::GETDENTS.name, walk.done, errno.into()))?;
            // Check also if no name is of the set, as a directory may never end.
            if walk.timer.last_ns >= walk.limits.deadline_ns {
                return Ok(false);
            }
            let name = entry.file_name();
            if !self.spelling.can_be(name.to_bytes(), kind) {
                continue;
            }
            self.operation
                .operate(directory.as_fd(), name, &mut walk.timer)
                .map_err(|(call, cause)| failed(call, walk.done, cause))?;
            if !walk.count() {
                return Ok(false);
            }
        }
    }
}

/// A call that failed after `done` operations.
pub(super) fn failed(call: &'static str, done: u64, cause: Cause) -> Failure {
    Failure { call, file: done, offset_bytes: None, cause }
}
