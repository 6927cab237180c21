//! The measuring loop on a load file of dbench: one operation is one line.
//!
//! Calls are those of dbench 4 on a local file system. Paths, handle slots and buffers are allocated before the loop
//! begins. An operation with another result than in the file is counted, and the replay continues.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use model::load::{Call, Change, Expected, Load, Offset, Operation, Part, PartOffset};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Timespec, Timestamps};
use rustix::io::Errno;

use super::directories::BUFFER_BYTES;
use super::{
    CallError, FileLocation, FileOps, READ_FLAGS, Round, RoundLimits, StepTimer, Unexpected, close, fails,
};
use crate::clock::{Clock, Monotonic};
use crate::data::{self, Pool, Stamp, mix};
use crate::names::{DIRECTORY_DIGITS, FILE_DIGITS, Kind, NameFormat, is_directory, until_nul};

/// Smallest slice of the pool for writes.
const SLICE_BYTES_MIN: usize = 4096;
/// Position of `Close` among the steps.
const CLOSE: usize = 1;
/// Seconds by which dbench sets times of access and of change back.
const BACKDATE_SECONDS: [i64; 2] = [10, 12];

const OPEN_FLAGS: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const DIRECTORY_FLAGS: OFlags = READ_FLAGS.union(OFlags::DIRECTORY);

/// Paths of all nodes of a load, one behind the other, each with a NUL at its end.
#[derive(Debug)]
struct Paths {
    bytes: Box<[u8]>,
    starts: Box<[u32]>,
}

impl Paths {
    fn new(load: &Load) -> Self {
        let mut bytes = b".\0".to_vec();
        let mut starts = vec![0];
        for node in load.nodes.iter().skip(1) {
            let start = bytes.len();
            if node.parent != 0 {
                let parent = starts[node.parent as usize] as usize;
                let len = bytes[parent..].iter().position(|byte| *byte == 0).unwrap_or(0);
                bytes.extend_from_within(parent..parent + len);
                bytes.push(b'/');
            }
            let (letter, digits) = match node.is_directory {
                true => ('d', DIRECTORY_DIGITS),
                false => (Kind::File.letter(), FILE_DIGITS),
            };
            bytes.extend(format!("{letter}{:0digits$x}\0", node.number).into_bytes());
            starts.push(start as u32);
        }
        Self { bytes: bytes.into(), starts: starts.into() }
    }

    #[inline]
    fn path_of(&self, node: u32) -> &CStr {
        let start = self.starts[node as usize] as usize;
        until_nul(&self.bytes[start..])
    }

    /// Returns the last part of a path.
    #[inline]
    fn name_of(&self, node: u32) -> &[u8] {
        self.path_of(node).to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

/// The thread of a replay and the number of threads.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Its number, from 0.
    pub number: u64,
    /// Number of all.
    pub count: u64,
}

/// Buffer of a listing.
type Listing = Box<[MaybeUninit<u8>]>;

/// A load with the files and handles of one thread.
#[derive(Debug)]
pub struct Replay {
    load: Arc<Load>,
    client: Client,
    /// True if the directory of a missing path is read.
    reads_parent_dir: bool,
    /// Number of files that are reported as made: there is nothing to make.
    files: u64,
    /// The next call; behind the last one, a new pass begins.
    next: usize,
    /// Calls up to this one were made in this pass.
    reached: usize,
    /// Instant at which the pass began.
    pass_start_ns: u64,
    /// Instant at which its last sleep ended.
    slept_until_ns: u64,
    /// Times that the next call is still to be made.
    repeats: u32,
    /// Turns of the running loop that are over.
    turns: u32,
    /// Offset of the last operation that had one.
    offset: u64,
    handles: Box<[Option<OwnedFd>]>,
    paths: Paths,
    pool: Pool,
    buffer: Box<[u8]>,
    /// A buffer for each level of directories.
    listings: Box<[Listing]>,
    writes: u32,
    random: u64,
    seed: u64,
    unexpected: Option<Unexpected>,
    /// Error of a close between two passes that ends the test.
    close_error: Option<Errno>,
}

impl Replay {
    /// Replays a load. Data and draws follow from the seed.
    pub fn new(load: Arc<Load>, client: Client, reads_parent_dir: bool, files: u64, seed: u64) -> Self {
        let like = data::Content {
            seed,
            interval_bytes: data::STAMP_INTERVAL_BYTES,
            compress_percent: 0,
            dedupe_percent: 0,
        };
        let slice_bytes = (load.written_part_bytes as usize).max(SLICE_BYTES_MIN);
        Self {
            client,
            reads_parent_dir,
            files,
            next: load.calls.len(),
            reached: 0,
            pass_start_ns: 0,
            slept_until_ns: 0,
            repeats: 1,
            turns: 0,
            offset: 0,
            handles: (0..load.handles).map(|_| None).collect(),
            paths: Paths::new(&load),
            pool: Pool::new(like, slice_bytes, 1),
            buffer: vec![0; load.read_part_bytes as usize].into(),
            // The deepest directory may hold one that is none of the load's.
            listings: (0..load.levels + 2).map(|_| Box::new_uninit_slice(BUFFER_BYTES)).collect(),
            writes: 0,
            random: mix(seed) | 1,
            seed,
            unexpected: None,
            close_error: None,
            load,
        }
    }

    /// Begins the next pass: no handle is open. Returns false if closing one failed, which ends the test.
    #[cold]
    fn begin_pass(&mut self, timer: &mut StepTimer<'_>) -> bool {
        for slot in 0..self.handles.len() {
            if let Some(close_result) = self.handles[slot].take().map(close) {
                self.close_result(close_result);
            }
        }
        if self.close_error.is_some() {
            // The next operation finds no call, and returns the error.
            self.next = self.load.calls.len();
            return false;
        }
        (self.next, self.repeats, self.turns, self.offset) = (0, 1, 0, 0);
        timer.restart();
        (self.reached, self.pass_start_ns, self.slept_until_ns) = (0, timer.since_ns, 0);
        true
    }

    /// Takes the end of a close between two passes, which counts as that of the last line.
    fn close_result(&mut self, close_result: Result<(), Errno>) {
        let Err(errno) = close_result else { return };
        if is_operation_result(errno) {
            self.next = self.load.calls.len() - 1;
            self.note(CLOSE, Some(errno));
        } else {
            self.close_error.get_or_insert(errno);
        }
    }

    /// Waits until a line with a time is due. Returns false if the round is over.
    #[cold]
    fn wait_until_due(&mut self, due_ns: u64, timer: &mut StepTimer<'_>, limits: RoundLimits<'_>) -> bool {
        // Later turns of a loop, and repetitions, are due when they start.
        if self.next < self.reached {
            return true;
        }
        // No latency counts a sleep.
        let due_ns = self.pass_start_ns.saturating_add(due_ns).max(self.slept_until_ns);
        let is_due = timer.wait_until_due(due_ns, limits);
        if is_due {
            self.reached = self.next + 1;
        }
        is_due
    }

    /// Counts an operation with another result than in the file.
    #[cold]
    fn note(&mut self, step: usize, errno: Option<Errno>) {
        let line = self.load.line_of[self.next];
        let first = Unexpected { count: 0, line, name: Operation::STEPS[step], errno };
        self.unexpected.get_or_insert(first).count += 1;
    }

    #[inline]
    fn open(&self, slot: u32) -> Result<BorrowedFd<'_>, Errno> {
        self.handles[slot as usize].as_ref().map(OwnedFd::as_fd).ok_or(Errno::BADF)
    }

    /// Looks a path up. If it is missing, reads its directory, as a server that finds names in capitals, too.
    #[inline]
    fn resolve(&mut self, path: u32, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let found = rustix::fs::statat(directory, self.paths.path_of(path), AtFlags::empty());
        let Err(errno) = found else { return Ok(()) };
        if !self.reads_parent_dir {
            return Err(errno);
        }
        let parent = self.load.nodes[path as usize].parent;
        let Ok(opened) =
            rustix::fs::openat(directory, self.paths.path_of(parent), DIRECTORY_FLAGS, Mode::empty())
        else {
            return Err(errno);
        };
        let name = self.paths.name_of(path);
        let mut entries = RawDir::new(&opened, &mut self.listings[0]);
        while let Some(entry) = entries.next() {
            if entry?.file_name().to_bytes().eq_ignore_ascii_case(name) {
                break;
            }
        }
        close(opened)?;
        Err(errno)
    }

    /// Makes one call. Returns false if it succeeded, but with another result than in the file.
    #[inline]
    fn one(
        &mut self,
        call: Call,
        directory: BorrowedFd<'_>,
        timer: &mut StepTimer<'_>,
    ) -> Result<bool, Errno> {
        match call.operation {
            Operation::Open { path, slot, creates_file, truncates_file, is_directory } => {
                let opened = self.create(path, creates_file, truncates_file, is_directory, directory)?;
                match slot {
                    Some(slot) => {
                        rustix::fs::fstat(&opened)?;
                        self.handles[slot as usize] = Some(opened);
                    }
                    None => close(opened)?,
                }
            }
            Operation::Close(slot) => {
                close(self.handles[slot as usize].take().ok_or(Errno::BADF)?)?;
            }
            Operation::Read(part) => {
                let at_bytes = self.offset_of(part.at);
                let opened = self.handles[part.slot as usize].as_ref().ok_or(Errno::BADF)?;
                let got = rustix::io::pread(opened, &mut self.buffer[..part.bytes as usize], at_bytes)?;
                timer.recorder.read(got as u64);
                return Ok(got == part.moved as usize);
            }
            Operation::Write(part) => {
                timer.allotment.charge(part.bytes.into())?;
                let written = self.write(part)?;
                timer.recorder.write(written as u64);
                return Ok(written == part.moved as usize);
            }
            Operation::Flush(slot) => rustix::fs::fsync(self.open(slot)?)?,
            Operation::Lock(part) => self.lock(part, libc::F_WRLCK)?,
            Operation::Unlock(part) => self.lock(part, libc::F_UNLCK)?,
            Operation::Unlink(path) => {
                let _ = self.resolve(path, directory);
                rustix::fs::unlinkat(directory, self.paths.path_of(path), AtFlags::empty())?;
            }
            Operation::Rename { from, to } => {
                let _ = self.resolve(from, directory);
                let _ = self.resolve(to, directory);
                rustix::fs::renameat(directory, self.paths.path_of(from), directory, self.paths.path_of(to))?;
            }
            Operation::Mkdir(path) => {
                let _ = self.resolve(path, directory);
                match rustix::fs::mkdirat(directory, self.paths.path_of(path), Mode::RWXU) {
                    // dbench accepts a directory that is there.
                    Err(Errno::EXIST) if call.expected == Expected::Success => {}
                    made => made?,
                }
            }
            Operation::Rmdir(path) => {
                let _ = self.resolve(path, directory);
                rustix::fs::unlinkat(directory, self.paths.path_of(path), AtFlags::REMOVEDIR)?;
            }
            Operation::Deltree(path) => {
                match delete_files(directory, self.paths.path_of(path), &mut self.listings) {
                    // dbench ignores a missing tree.
                    Err(Errno::NOENT | Errno::NOTDIR) if call.expected == Expected::Success => {}
                    deleted => deleted?,
                }
            }
            Operation::Find { path, entries } => {
                let found = self.resolve(path, directory);
                match entries {
                    Some(entries) => self.list(path, entries, directory)?,
                    None => found?,
                }
                // Names are not matched with the pattern.
                return Ok(entries.is_some() || call.expected != Expected::Failure);
            }
            Operation::QueryPath(path) => self.resolve(path, directory)?,
            Operation::QueryFile(slot) => {
                rustix::fs::fstat(self.open(slot)?)?;
            }
            Operation::QueryFs => {
                rustix::fs::fstatvfs(directory)?;
            }
            Operation::SetFile { slot, path } => self.set_times(slot, path, directory)?,
            Operation::Repeat(_) | Operation::Sleep(_) | Operation::EndLoop { .. } => {}
        }
        Ok(call.expected != Expected::Failure)
    }

    fn create(
        &mut self,
        path: u32,
        creates_file: bool,
        truncates_file: bool,
        is_directory: bool,
        directory: BorrowedFd<'_>,
    ) -> Result<OwnedFd, Errno> {
        let _ = self.resolve(path, directory);
        let path = self.paths.path_of(path);
        let mut flags = OPEN_FLAGS;
        flags.set(OFlags::CREATE, creates_file);
        flags.set(OFlags::TRUNC, truncates_file);
        if is_directory {
            match rustix::fs::mkdirat(directory, path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
            flags = DIRECTORY_FLAGS;
        }
        match rustix::fs::openat(directory, path, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::ISDIR) => rustix::fs::openat(directory, path, DIRECTORY_FLAGS, Mode::empty()),
            opened => opened,
        }
    }

    /// Returns the offset of a part, and keeps it for the next one.
    #[inline]
    fn offset_of(&mut self, at: PartOffset) -> u64 {
        self.offset = match at {
            PartOffset::Fixed(at) => at,
            PartOffset::Found(number) => self.found(number),
        };
        self.offset
    }

    fn found(&mut self, number: u32) -> u64 {
        let further = |by: u64| self.offset.wrapping_add(by);
        let found = match &self.load.offsets[number as usize] {
            Offset::RelativeBytes(by) => further(*by),
            Offset::RelativeByClientNumber => further(self.client.number),
            Offset::RelativeByClientCount => further(self.client.count),
            Offset::Random(changes) => {
                self.random = mix(self.random);
                changes.iter().fold(self.random, |drawn, change| match change {
                    Change::Modulo(by) => drawn % by,
                    Change::Multiple(by) => drawn / by * by,
                    Change::Plus(by) => drawn.wrapping_add(*by),
                })
            }
        };
        // A file ends at the largest signed number.
        found & (i64::MAX as u64 >> 1)
    }

    fn write(&mut self, part: Part) -> Result<usize, Errno> {
        let offset_bytes = self.offset_of(part.at);
        let opened = self.handles[part.slot as usize].as_ref().ok_or(Errno::BADF)?;
        self.writes = self.writes.wrapping_add(1);
        let draft = self.pool.draft(0);
        let (block, phase_bytes) = (&mut draft.bytes[..part.bytes as usize], draft.phase_bytes);
        let (seed, generation) = (self.seed, self.writes);
        let stamp = Stamp { seed, file: part.slot, generation, offset_bytes, phase_bytes };
        data::stamp(block, data::STAMP_INTERVAL_BYTES, stamp);
        rustix::io::pwrite(opened, block, offset_bytes)
    }

    /// Locks or unlocks a part of a file, and waits for it.
    fn lock(&mut self, part: Part, kind: libc::c_int) -> Result<(), Errno> {
        let start = self.offset_of(part.at);
        let opened = self.open(part.slot)?;
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start as libc::off_t,
            l_len: part.bytes.into(),
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the kernel reads the lock during the call alone.
        match unsafe { libc::fcntl(opened.as_raw_fd(), libc::F_SETLKW, &raw const lock) } {
            -1 => Err(std::io::Error::last_os_error()
                .raw_os_error()
                .map_or(Errno::IO, Errno::from_raw_os_error)),
            _ => Ok(()),
        }
    }

    fn set_times(&mut self, slot: u32, path: u32, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(self.open(slot)?)?;
        let [access, change] = BACKDATE_SECONDS;
        let at = |seconds: i64| Timespec { tv_sec: seconds, tv_nsec: 0 };
        let times = Timestamps {
            last_access: at(stat.st_atime as i64 - access),
            last_modification: at(stat.st_mtime as i64 - change),
        };
        // By its path, as dbench does. It may have another one by now.
        match rustix::fs::utimensat(directory, self.paths.path_of(path), &times, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            set => set,
        }
    }

    /// Reads at most this number of entries of the directory of a pattern.
    fn list(&mut self, path: u32, most: u32, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let parent = self.paths.path_of(self.load.nodes[path as usize].parent);
        let opened = rustix::fs::openat(directory, parent, DIRECTORY_FLAGS, Mode::empty())?;
        let mut entries = RawDir::new(&opened, &mut self.listings[0]);
        let mut left = most;
        while left > 0 {
            let Some(entry) = entries.next() else { break };
            entry?;
            left -= 1;
        }
        close(opened)
    }
}

/// Deletes all files below a directory. As with dbench, the directories stay.
fn delete_files(parent: BorrowedFd<'_>, path: &CStr, listings: &mut [Listing]) -> Result<(), Errno> {
    let Some((listing, deeper)) = listings.split_first_mut() else { return Err(Errno::LOOP) };
    let opened = rustix::fs::openat(parent, path, DIRECTORY_FLAGS, Mode::empty())?;
    let mut entries = RawDir::new(&opened, listing);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        // Names outside the load are kept.
        if is_directory(name.to_bytes()) {
            delete_files(opened.as_fd(), name, deeper)?;
        } else if NameFormat::Plain.can_be(name.to_bytes(), Kind::File) {
            rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)?;
            rustix::fs::unlinkat(&opened, name, AtFlags::empty())?;
        }
    }
    close(opened)
}

/// Returns true for an error that is a result of the operation: about its names, its handle or its lock. Any other
/// error is one of the file system or the device, and ends the test.
fn is_operation_result(errno: Errno) -> bool {
    const RESULT_ERRNOS: [Errno; 17] = [
        Errno::NOENT,
        Errno::EXIST,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::NOTEMPTY,
        Errno::INVAL,
        Errno::BADF,
        Errno::ACCESS,
        Errno::PERM,
        Errno::BUSY,
        Errno::LOOP,
        Errno::DEADLK,
        Errno::AGAIN,
        Errno::NOLCK,
        Errno::FBIG,
        Errno::OVERFLOW,
        Errno::NOTSUP,
    ];
    RESULT_ERRNOS.contains(&errno)
}

impl FileOps for Replay {
    /// Follows the lines that direct others, up to the next operation.
    #[inline]
    fn is_due(&mut self, timer: &mut StepTimer<'_>, limits: RoundLimits<'_>) -> bool {
        if self.load.operations == 0 {
            return false;
        }
        loop {
            let Some(call) = self.load.calls.get(self.next) else {
                if self.load.calls.is_empty() {
                    return false;
                }
                if !self.begin_pass(timer) {
                    return true;
                }
                continue;
            };
            match call.operation {
                Operation::Repeat(times) => self.repeats = times,
                Operation::Sleep(sleep_ns) => {
                    self.slept_until_ns = timer.last_ns.saturating_add(sleep_ns);
                    if !timer.wait_until_due(self.slept_until_ns, limits) {
                        return false;
                    }
                }
                Operation::EndLoop { start, turns } => {
                    self.turns += 1;
                    if self.turns < turns {
                        self.next = start as usize;
                        continue;
                    }
                    self.turns = 0;
                }
                _ => break,
            }
            self.next += 1;
        }
        match self.load.due_ns.get(self.next) {
            None | Some(0) => true,
            Some(due_ns) => self.wait_until_due(*due_ns, timer, limits),
        }
    }

    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        _: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let Some(&call) = self.load.calls.get(self.next) else {
            return Err(fails(Operation::STEPS[CLOSE])(self.close_error.unwrap_or(Errno::IO)));
        };
        let step = call.operation.step().unwrap_or(0);
        timer.enter(step);
        let ended = self.one(call, place.directory, timer);
        match (ended, call.expected) {
            (Ok(true), _) | (Ok(false), Expected::Any) => {}
            (Ok(false), _) => self.note(step, None),
            (Err(errno), _) if !is_operation_result(errno) => {
                return Err(fails(Operation::STEPS[step])(errno));
            }
            (Err(_), Expected::Failure | Expected::Any) => {}
            (Err(errno), Expected::Success) => self.note(step, Some(errno)),
        }
        timer.record(step);
        match self.repeats {
            0 | 1 => self.next += 1,
            _ => self.repeats -= 1,
        }
        Ok(())
    }

    fn unexpected(&self) -> Option<Unexpected> {
        self.unexpected
    }

    /// Returns the line of the running operation; the last one between two passes.
    fn failed_at(&self, _: u64) -> u64 {
        self.load.line_of.get(self.next).or(self.load.line_of.last()).copied().unwrap_or(0).into()
    }

    fn populate(&mut self, _: &FileLocation<'_>, _: RoundLimits<'_>) -> Option<(Round, u64)> {
        // The tree is empty, as the file begins with it.
        let now_ns = Monotonic.now_ns();
        Some((Round { done: self.files, missed: 0, start_ns: now_ns, end_ns: now_ns, result: Ok(()) }, 0))
    }
}

#[cfg(test)]
mod tests;
