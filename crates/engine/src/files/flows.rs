//! The measuring loop on a mix: flows of operations over files that only these flows create and delete.
//!
//! No name is used twice. Flows are drawn from a deck that holds each as often as its weight. It is shuffled again when
//! it is used up, so creations and deletions balance after every deck.

mod calls;
mod population;

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;

use model::mix::{FileCreation, LOG_BYTES, Operation};
use rustix::io::Errno;

use super::directories::BUFFER_BYTES;
use super::{CallError, FileLocation, FileOps, Round, RoundLimits, StepTimer, fails};
use crate::budget::Budget;
use crate::clock::{Clock, Monotonic};
use crate::data::{self, Pool, Stamp, mix};
use crate::failure::{Cause, Failure};
use crate::names::{FILE_DIGITS, Kind, Tree, until_nul, write_digits};
use crate::pacing::{OpenLoop, Pacing};

pub use calls::{Calls, Kernel, NoCalls};
pub use population::{ClaimedFile, Population, PrivateFiles, Random, Share, SharedFiles};

/// Sizes that files are drawn from.
const SIZES: usize = 256;
/// Number of the log in its stamps.
const LOG_FILE: u64 = u32::MAX as u64;

/// Paths of a thread's files, built without formatting: two for each directory, of which an operation writes the last
/// part alone.
#[derive(Debug)]
struct Paths {
    /// The directory with a slash, space for a name, and a NUL. All have the same length.
    bytes: Box<[u8]>,
    len: usize,
    /// Number of directories.
    directories: u32,
}

/// Room for a name and the NUL behind it.
const NAME_BYTES: usize = 1 + FILE_DIGITS + 1;

impl Paths {
    fn new(tree: Tree) -> Self {
        let directories = tree.dirs.clamp(1, u32::MAX.into()) as u32;
        let of = |dir| match tree.directory(dir) {
            path if path.is_empty() => path,
            path => path + "/",
        };
        let path = |dir| [of(dir).as_bytes(), &[0; NAME_BYTES]].concat();
        let bytes: Box<[u8]> = (0..directories.into()).flat_map(|dir| path(dir).repeat(2)).collect();
        Self { len: bytes.len() / (2 * directories as usize), bytes, directories }
    }

    /// Returns the two paths in the directory of a file.
    #[inline]
    fn both_paths(&mut self, file: u64) -> (&mut [u8], &mut [u8]) {
        // Numbers of 32 bits, as names have them, are divided in half the time.
        let start = (file as u32 % self.directories) as usize * 2 * self.len;
        self.bytes[start..start + 2 * self.len].split_at_mut(self.len)
    }

    /// Path of a file.
    #[inline]
    fn path_of(&mut self, kind: Kind, file: u64) -> &CStr {
        write_name(self.both_paths(file).0, kind, file)
    }

    /// Two paths of a file.
    #[inline]
    fn pair(&mut self, kinds: [Kind; 2], file: u64) -> (&CStr, &CStr) {
        let (first, second) = self.both_paths(file);
        (write_name(first, kinds[0], file), write_name(second, kinds[1], file))
    }

    /// Path of the directory of a file.
    #[inline]
    fn directory(&mut self, file: u64) -> &CStr {
        let path = self.both_paths(file).0;
        let start = path.len() - NAME_BYTES;
        path[start..start + 2].copy_from_slice(if start == 0 { b".\0" } else { b"\0\0" });
        until_nul(path)
    }
}

/// Writes the name at the end of a path of [`Paths`].
#[inline]
fn write_name(path: &mut [u8], kind: Kind, file: u64) -> &CStr {
    let start = path.len() - NAME_BYTES;
    path[start] = kind as u8;
    write_digits(&mut path[start + 1..=start + FILE_DIGITS], file);
    debug_assert!(CStr::from_bytes_with_nul(path).is_ok());
    // A search for the end would wait until the digits have left the processor's store buffer.
    // SAFETY: the directory is letters, digits and slashes, and a letter and digits were just written behind it. The last
    // byte is the NUL that `Paths::new` left there, and nothing else writes to it.
    unsafe { CStr::from_bytes_with_nul_unchecked(path) }
}

/// One flow.
#[derive(Debug)]
struct Flow {
    /// Its part of the operations of all flows.
    operations: Range<usize>,
    think_ns: u64,
}

/// The flows of a mix, with the files of one thread, or with those that threads share.
#[derive(Debug)]
pub struct Flows<P = PrivateFiles, K: Calls = Kernel> {
    calls: K,
    population: P,
    flows: Box<[Flow]>,
    operations: Box<[Operation]>,
    /// The number of each flow, as often as its weight.
    deck: Box<[u16]>,
    /// Flows drawn from the deck.
    dealt: usize,
    random: Random,
    /// Pause after the last flow.
    think_ns: u64,
    /// Times of flows that do not wait for each other.
    pacing: Option<OpenLoop>,
    /// Sizes of new files, each with the same probability.
    sizes: Box<[u64; SIZES]>,
    /// Number of files that the thread makes at the beginning, and number of those made.
    files: u64,
    made: u64,
    paths: Paths,
    /// Blocks of whole files, and of parts: two pools with different slice sizes, so that neighbours differ.
    pools: [Pool; 2],
    /// Length of the slices of parts.
    part_bytes: u64,
    /// Number of writes so far: an offset never gets the same bytes twice.
    writes: u32,
    /// File of the running operation.
    at: u64,
    seed: u64,
    buffer: Box<[u8]>,
    listing: Box<[MaybeUninit<u8>]>,
    log: Option<K::File>,
    log_end_bytes: u64,
    /// True if a flow writes to the log.
    has_log: bool,
}

impl Flows {
    /// Flows over this many files of one thread in a tree. Contents, sizes and draws follow from the seed.
    pub fn new(of: &model::mix::Mix, files: u64, tree: Tree, seed: u64) -> Self {
        Self::with(Kernel, PrivateFiles::new(files, of.created()), of, files, tree, seed)
    }
}

impl Flows<PrivateFiles, NoCalls> {
    /// Flows whose calls do nothing.
    pub fn without_calls(of: &model::mix::Mix, files: u64, tree: Tree, seed: u64) -> Self {
        Self::with(NoCalls, PrivateFiles::new(files, of.created()), of, files, tree, seed)
    }
}

impl Flows<Share> {
    /// Flows over files that threads share. This one makes `files` of them.
    pub fn sharing(share: Share, of: &model::mix::Mix, files: u64, tree: Tree, seed: u64) -> Self {
        Self::with(Kernel, share, of, files, tree, seed)
    }
}

impl<P: Population, K: Calls> Flows<P, K> {
    /// Flows over files of a population, by these calls. This thread makes `files` of them.
    pub fn with(calls: K, population: P, of: &model::mix::Mix, files: u64, tree: Tree, seed: u64) -> Self {
        let dealt = of
            .flows
            .iter()
            .enumerate()
            .flat_map(|(number, flow)| std::iter::repeat_n(number as u16, flow.weight as usize));
        let deck: Box<[u16]> = dealt.collect();
        let sizes = std::array::from_fn(|at| of.population.sizes.quantile((at as f64 + 0.5) / SIZES as f64));
        let like = data::Content {
            seed,
            interval_bytes: data::STAMP_INTERVAL_BYTES,
            compress_percent: 0,
            dedupe_percent: 0,
        };
        let largest = sizes.iter().copied().max().unwrap_or(1).max(of.part_bytes_max());
        let chunk_bytes = largest.clamp(1, of.chunk.0) as usize;
        let part_bytes = of.part_bytes_max().min(of.chunk.0);
        let operations: Box<[Operation]> =
            of.flows.iter().flat_map(|flow| flow.operations.iter().copied()).collect();
        let mut end = 0;
        let flow = |flow: &model::mix::Flow| {
            let start = end;
            end += flow.operations.len();
            Flow { operations: start..end, think_ns: flow.think_ms * 1_000_000 }
        };
        Self {
            calls,
            population,
            flows: of.flows.iter().map(flow).collect(),
            operations,
            dealt: deck.len(),
            deck,
            random: Random::new(seed),
            think_ns: 0,
            pacing: None,
            sizes: Box::new(sizes),
            files,
            made: 0,
            paths: Paths::new(tree),
            pools: [chunk_bytes, part_bytes.max(1) as usize].map(|bytes| Pool::new(like, bytes, 1)),
            part_bytes,
            writes: 0,
            at: 0,
            seed,
            buffer: vec![0; chunk_bytes].into(),
            listing: Box::new_uninit_slice(BUFFER_BYTES),
            log: None,
            log_end_bytes: 0,
            has_log: of.has_log(),
        }
    }

    /// Starts flows when they are due, without pauses after them.
    #[must_use]
    pub fn paced(self, pacing: Option<OpenLoop>) -> Self {
        Self { pacing, ..self }
    }

    /// The files that it works on.
    pub fn population(&self) -> &P {
        &self.population
    }

    /// Makes the log, if there is to be one and is none yet. Returns its length.
    fn open_log(&mut self, place: &FileLocation<'_>, budget: &Budget) -> Result<u64, Failure> {
        const STEP_BYTES: u64 = 1 << 20;
        if !self.has_log || self.log.is_some() {
            return Ok(0);
        }
        budget.charge(LOG_BYTES).map_err(|errno| self.failure(0, errno.into()))?;
        let mut name = [0; 2 + FILE_DIGITS];
        name[0] = Kind::Symlink as u8;
        write_digits(&mut name[1..=FILE_DIGITS], self.population.thread());
        let name = until_nul(&name);
        let made = self.calls.create(place.directory, name);
        let made = made.map_err(|errno| self.failure(0, errno.into()))?;
        // From the beginning, the log is one that is used again.
        for step in 0..LOG_BYTES / STEP_BYTES {
            let written = self.write(&made, LOG_FILE, step * STEP_BYTES, STEP_BYTES);
            written.map_err(|cause| self.failure(0, cause))?;
        }
        self.log = Some(made);
        Ok(LOG_BYTES)
    }

    fn failure(&self, step: usize, cause: Cause) -> Failure {
        Failure { call: Operation::STEPS[step], file: self.at, offset_bytes: None, cause }
    }

    /// Returns the next flow of the deck.
    #[inline]
    fn deal(&mut self) -> usize {
        if self.dealt == self.deck.len() {
            self.shuffle();
        }
        let flow = self.deck[self.dealt];
        self.dealt += 1;
        flow as usize
    }

    fn shuffle(&mut self) {
        for last in (1..self.deck.len()).rev() {
            let other = self.random.below(last as u64 + 1) as usize;
            self.deck.swap(last, other);
        }
        self.dealt = 0;
    }

    /// Performs an operation of a flow. It is matched in its place: a copy would be stored in parts and loaded whole,
    /// which takes as long as a clock read.
    #[inline]
    fn one(
        &mut self,
        at: usize,
        held: &mut ClaimedFile,
        place: &FileLocation<'_>,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), Cause> {
        let directory = place.directory;
        let (number, size_bytes, (kind, other_kind)) = (held.number, held.size_bytes(), held.kinds());
        self.at = number;
        match self.operations[at] {
            Operation::Pick => {
                self.population.release(*held);
                *held = self.population.claim(&mut self.random);
            }
            Operation::Create { arrival, is_synced } => {
                self.population.release(*held);
                *held = self.create(place, arrival, is_synced, |bytes| timer.allotment.charge(bytes))?;
                timer.recorder.write(held.size_bytes());
            }
            Operation::Read => {
                let opened = self.calls.open(directory, self.paths.path_of(kind, number))?;
                timer.recorder.read(self.read_whole(&opened, size_bytes)?);
                self.calls.close(opened)?;
            }
            Operation::ReadPart(bytes) => {
                let (at_bytes, bytes) = self.part(size_bytes, bytes);
                let opened = self.calls.open(directory, self.paths.path_of(kind, number))?;
                self.read_part(&opened, at_bytes, bytes)?;
                timer.recorder.read(bytes);
                self.calls.close(opened)?;
            }
            Operation::Append { bytes, is_synced } => {
                timer.allotment.charge(bytes)?;
                self.change(held, false, size_bytes, bytes, is_synced, place)?;
                held.resize(size_bytes + bytes);
                timer.recorder.write(bytes);
            }
            Operation::Overwrite { bytes, is_synced } => {
                let (at_bytes, bytes) = self.part(size_bytes, bytes);
                timer.allotment.charge(bytes)?;
                self.change(held, false, at_bytes, bytes, is_synced, place)?;
                timer.recorder.write(bytes);
            }
            Operation::Rewrite { is_synced } => {
                timer.allotment.charge(size_bytes)?;
                self.change(held, true, 0, size_bytes, is_synced, place)?;
                timer.recorder.write(size_bytes);
            }
            Operation::Log { bytes, is_synced } => {
                timer.allotment.charge(bytes)?;
                self.append_to_log(bytes, is_synced)?;
                timer.recorder.write(bytes);
            }
            Operation::Truncate => {
                let opened = self.calls.open_to_write(directory, self.paths.path_of(kind, number), false)?;
                let half_bytes = size_bytes.div_ceil(2);
                self.calls.truncate(&opened, half_bytes)?;
                self.calls.close(opened)?;
                held.resize(half_bytes);
            }
            Operation::Stat => self.calls.stat(directory, self.paths.path_of(kind, number), true)?,
            Operation::StatMissing => {
                let unused = self.population.unused();
                self.calls.stat(directory, self.paths.path_of(Kind::Missing, unused), false)?;
            }
            Operation::List => {
                self.calls.list(directory, self.paths.directory(number), &mut self.listing)?;
            }
            Operation::Rename => {
                let (from, to) = self.paths.pair([kind, other_kind], number);
                self.calls.rename(directory, from, to)?;
                held.rename();
            }
            Operation::Link if held.is_linked() => {
                self.calls.unlink(directory, self.paths.path_of(Kind::Link, number))?;
                held.link();
            }
            Operation::Link => {
                let (from, to) = self.paths.pair([kind, Kind::Link], number);
                self.calls.link(directory, from, to)?;
                held.link();
            }
            Operation::Delete => {
                let taken = self.population.take(held, &mut self.random);
                self.at = taken.number;
                self.calls.unlink(directory, self.paths.path_of(taken.kinds().0, taken.number))?;
                if taken.is_linked() {
                    self.calls.unlink(directory, self.paths.path_of(Kind::Link, taken.number))?;
                }
                self.population.forget(taken);
                if taken.number == number {
                    *held = self.population.claim(&mut self.random);
                }
            }
        }
        Ok(())
    }

    /// Returns the offset of a part of a file, and its length: at most the file's.
    #[inline]
    fn part(&mut self, size_bytes: u64, bytes: u64) -> (u64, u64) {
        let bytes = bytes.min(size_bytes).max(1);
        (self.random.below(size_bytes / bytes) * bytes, bytes)
    }

    /// Reads a part of a file in chunks.
    #[inline]
    fn read_part(&mut self, file: &K::File, at_bytes: u64, bytes: u64) -> Result<(), Cause> {
        let (mut offset_bytes, end_bytes) = (at_bytes, at_bytes + bytes);
        while offset_bytes < end_bytes {
            let wanted_bytes = (end_bytes - offset_bytes).min(self.buffer.len() as u64) as usize;
            let got_bytes = self.calls.read_at(file, &mut self.buffer[..wanted_bytes], offset_bytes)?;
            if got_bytes == 0 {
                return Err(Cause::Short { got_bytes, wanted_bytes });
            }
            offset_bytes += got_bytes as u64;
        }
        Ok(())
    }

    /// Reads all of a file in chunks, and returns its bytes.
    #[inline]
    fn read_whole(&mut self, file: &K::File, size_bytes: u64) -> Result<u64, Cause> {
        let mut all_bytes = 0;
        while all_bytes < size_bytes {
            let wanted_bytes = (size_bytes - all_bytes).min(self.buffer.len() as u64) as usize;
            let got_bytes = self.calls.read(file, &mut self.buffer[..wanted_bytes])?;
            if got_bytes == 0 {
                return Err(Cause::Short { got_bytes, wanted_bytes });
            }
            all_bytes += got_bytes as u64;
        }
        Ok(all_bytes)
    }

    /// Makes a new file.
    fn create(
        &mut self,
        place: &FileLocation<'_>,
        arrival: FileCreation,
        is_synced: bool,
        charge: impl FnOnce(u64) -> Result<(), Errno>,
    ) -> Result<ClaimedFile, Cause> {
        let directory = place.directory;
        let made = self.population.new_file(0);
        let number = made.number;
        self.at = number;
        let size_bytes = self.sizes[(mix(self.seed ^ mix(number)) as usize) % SIZES];
        charge(size_bytes)?;
        let mut held = made;
        held.resize(size_bytes);
        let first = if arrival == FileCreation::Named { Kind::File } else { Kind::Link };
        let opened = self.calls.create(directory, self.paths.path_of(first, number))?;
        self.write(&opened, number, 0, size_bytes)?;
        if is_synced {
            self.calls.sync(&opened)?;
        }
        self.calls.close(opened)?;
        if arrival != FileCreation::Named {
            let (from, to) = self.paths.pair([first, Kind::File], number);
            match arrival {
                FileCreation::Linked => {
                    self.calls.link(directory, from, to)?;
                    self.calls.unlink(directory, from)?;
                }
                _ => self.calls.rename(directory, from, to)?,
            }
        }
        Ok(held)
    }

    /// Opens a file, writes a part of it, and closes it.
    fn change(
        &mut self,
        held: &ClaimedFile,
        truncates_file: bool,
        at_bytes: u64,
        bytes: u64,
        is_synced: bool,
        place: &FileLocation<'_>,
    ) -> Result<(), Cause> {
        let path = self.paths.path_of(held.kinds().0, held.number);
        let opened = self.calls.open_to_write(place.directory, path, truncates_file)?;
        self.write(&opened, held.number, at_bytes, bytes)?;
        if is_synced {
            self.calls.sync(&opened)?;
        }
        Ok(self.calls.close(opened)?)
    }

    fn append_to_log(&mut self, bytes: u64, is_synced: bool) -> Result<(), Cause> {
        let Some(log) = self.log.take() else { return Err(Errno::BADF.into()) };
        if self.log_end_bytes + bytes > LOG_BYTES {
            self.log_end_bytes = 0;
        }
        let written = self.write(&log, LOG_FILE, self.log_end_bytes, bytes);
        let is_synced =
            written.and_then(|()| if is_synced { Ok(self.calls.sync_data(&log)?) } else { Ok(()) });
        self.log = Some(log);
        self.log_end_bytes += bytes;
        is_synced
    }

    fn write(&mut self, opened: &K::File, file: u64, at_bytes: u64, bytes: u64) -> Result<(), Cause> {
        let (mut offset_bytes, end_bytes) = (at_bytes, at_bytes + bytes);
        self.writes = self.writes.wrapping_add(1);
        let (seed, file, generation) = (self.seed, file as u32, self.writes);
        let pool = usize::from(bytes <= self.part_bytes);
        while offset_bytes < end_bytes {
            let draft = self.pools[pool].draft(0);
            let len = (end_bytes - offset_bytes).min(draft.bytes.len() as u64) as usize;
            let (block, phase_bytes) = (&mut draft.bytes[..len], draft.phase_bytes);
            let stamp = Stamp { seed, file, generation, offset_bytes, phase_bytes };
            data::stamp(block, data::STAMP_INTERVAL_BYTES, stamp);
            offset_bytes += self.calls.write_at(opened, block, offset_bytes)? as u64;
        }
        Ok(())
    }
}

impl<P: Population, K: Calls> FileOps for Flows<P, K> {
    /// Makes one flow, each of its operations timed.
    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        _: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let flow = self.deal();
        let mut held = self.population.claim(&mut self.random);
        let Flow { operations, think_ns } = &self.flows[flow];
        self.think_ns = *think_ns;
        for at in operations.clone() {
            let step = self.operations[at].step();
            timer.enter(step);
            self.one(at, &mut held, place, timer).map_err(fails(Operation::STEPS[step]))?;
            if !matches!(self.operations[at], Operation::Pick) {
                timer.record(step);
            }
        }
        self.population.release(held);
        Ok(())
    }

    fn failed_at(&self, _: u64) -> u64 {
        self.at
    }

    fn begin(&mut self, start_ns: u64) {
        if let Some(pacing) = &mut self.pacing {
            pacing.begin(start_ns);
        }
    }

    /// Waits for the next flow of an open loop, or for the think time of the last flow.
    #[inline]
    fn is_due(&mut self, timer: &mut StepTimer<'_>, limits: RoundLimits<'_>) -> bool {
        match &mut self.pacing {
            Some(pacing) => timer.wait_for_next(pacing, limits),
            None => {
                self.think_ns == 0 || timer.wait_until(timer.last_ns.saturating_add(self.think_ns), limits)
            }
        }
    }

    fn missed(&mut self, end_ns: u64) -> u64 {
        self.pacing.as_mut().map_or(0, |pacing| pacing.missed(end_ns))
    }

    fn populate(&mut self, place: &FileLocation<'_>, limits: RoundLimits<'_>) -> Option<(Round, u64)> {
        let start_ns = Monotonic.now_ns();
        let opened = self.open_log(place, limits.budget);
        let (mut done, mut written_bytes) = (0, *opened.as_ref().unwrap_or(&0));
        let mut result = opened.map(|_| ());
        while result.is_ok() && self.made < self.files && Monotonic.now_ns() < limits.deadline_ns {
            if limits.stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            match self.create(place, FileCreation::Named, false, |bytes| limits.budget.charge(bytes)) {
                Ok(made) => {
                    written_bytes += made.size_bytes();
                    self.population.release(made);
                    self.made += 1;
                    done += 1;
                }
                Err(cause) => result = Err(self.failure(0, cause)),
            }
        }
        // The budget is too small for the next file.
        let is_spent = |failure: &Failure| failure.cause == Errno::DQUOT.into() && limits.budget.is_spent();
        let mut result = result.or_else(|failure| if is_spent(&failure) { Ok(()) } else { Err(failure) });
        // Otherwise dirty pages would be written back during the measurement.
        if written_bytes > 0 && result.is_ok() {
            let synced = self.calls.sync_all(place.directory);
            result = synced.map_err(|errno| self.failure(0, errno.into()));
        }
        Some((Round { done, missed: 0, start_ns, end_ns: Monotonic.now_ns(), result }, written_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::UNLIMITED;
    use crate::clock::Timer;
    use crate::files::tests::watched;
    use crate::files::{VisitOrder, round};
    use crate::recorder::{Latencies, Recorder, Shape};
    use model::mix::Mix;
    use model::workload::MixName;
    use std::collections::HashMap;
    use std::os::fd::AsFd;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn limits(stop: &AtomicBool) -> RoundLimits<'_> {
        RoundLimits { deadline_ns: u64::MAX, stop, budget: &UNLIMITED }
    }

    fn below(directory: &Path) -> Vec<(PathBuf, u64)> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        entries
            .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
                true => below(&entry.path()),
                false => vec![(entry.path(), entry.metadata().unwrap().len())],
            })
            .collect()
    }

    /// A mix of the user with every operation that the shipped ones lack.
    const OTHERS: &str = "chunk = '4k'\n[population]\nfiles = 60\ndirs = 3\n\
        sizes = { median = '6k', p90 = '20k', max = '64k' }\n\
        [[flow]]\nname = 'a'\nweight = 3\ndo = ['link', 'pick', 'truncate', 'append=3k', 'rename']\n\
        [[flow]]\nname = 'b'\nweight = 2\nthink_ms = 1\n\
        do = ['create link', 'link', 'pick', 'link', 'delete', 'read', 'overwrite=2k fsync']\n";

    fn mixes() -> Vec<(String, Mix)> {
        let shipped = MixName::ALL.iter().map(|name| (name.to_string(), Mix::shipped(*name).clone()));
        shipped.chain([("others".to_owned(), Mix::parse(OTHERS).unwrap())]).collect()
    }

    struct Directory {
        temp: tempfile::TempDir,
        opened: std::fs::File,
        tree: Tree,
    }

    impl Directory {
        fn for_mix(mix: &Mix, files: u64) -> Self {
            let temp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
            let opened = std::fs::File::open(temp.path()).unwrap();
            let tree = Tree { files, dirs: mix.population.dirs, levels: mix.population.levels };
            for dir in 0..tree.dirs {
                std::fs::create_dir_all(temp.path().join(tree.directory(dir))).unwrap();
            }
            Self { temp, opened, tree }
        }

        fn place(&self) -> FileLocation<'_> {
            FileLocation { directory: self.opened.as_fd(), leaves: &[], tree: self.tree }
        }

        /// Sizes of all files and logs, by the numbers of each kind of name.
        fn found(&self) -> HashMap<char, HashMap<u64, u64>> {
            let mut found: HashMap<char, HashMap<u64, u64>> = HashMap::new();
            for (path, bytes) in below(self.temp.path()) {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let number = u64::from_str_radix(&name[1..], 16).unwrap();
                found.entry(name.chars().next().unwrap()).or_default().insert(number, bytes);
            }
            found
        }
    }

    #[test]
    fn flows_and_populations_stop_within_the_budget() {
        for (name, of) in mixes() {
            let files = 20;
            let log_bytes = if of.has_log() { LOG_BYTES } else { 0 };
            for bytes in [0, log_bytes + 100_000, log_bytes + 3_000_000, log_bytes + 300_000_000] {
                let (directory, budget) = (Directory::for_mix(&of, files), Budget::new(bytes, 1));
                let stop = AtomicBool::new(false);
                let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &budget };
                let mut flows = Flows::new(&of, files, directory.tree, 7);
                let (made, made_bytes) = flows.populate(&directory.place(), limits).unwrap();
                assert_eq!((made.result, made_bytes + budget.left_bytes()), (Ok(()), bytes), "{name}");
                assert_eq!(made.done < files, budget.is_spent(), "{name}");
                if made.done < files {
                    continue;
                }
                let more = Budget::new(1_000_000, 1);
                let visits = VisitOrder::in_sequence(0, 300);
                let (flown, counted) = watched(Operation::STEPS.len(), u64::MAX, |recorder, limits| {
                    let limits = RoundLimits { budget: &more, ..limits };
                    round(&mut flows, &directory.place(), visits, &Timer::Kernel, recorder, limits)
                });
                assert_eq!(flown.result, Ok(()), "{name}");
                assert!(counted.1 + more.left_bytes() >= 1_000_000, "{name}");
                assert_eq!(flown.done < 300, more.is_spent(), "{name}");
            }
        }
    }

    #[test]
    fn population_size_is_constant_and_file_sizes_are_known() {
        for (name, of) in mixes() {
            let files = of.population.files.min(400);
            let directory = Directory::for_mix(&of, files);
            let (place, stop) = (directory.place(), AtomicBool::new(false));
            let mut flows = Flows::new(&of, files, directory.tree, 7);
            let (made, written_bytes) = flows.populate(&place, limits(&stop)).unwrap();
            assert_eq!((made.done, &made.result), (files, &Ok(())));
            let sum: u64 = below(directory.temp.path()).iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(sum, written_bytes, "{name}");
            let weights: u64 = of.flows.iter().map(|flow| flow.weight).sum();
            let (mut recorder, _) = Recorder::new(Shape::default());
            let visits = VisitOrder::in_sequence(0, 20 * weights);
            let round = round(&mut flows, &place, visits, &Timer::Kernel, &mut recorder, limits(&stop));
            assert_eq!((round.done, round.result), (20 * weights, Ok(())), "{name}");
            assert_eq!(flows.population.count(), files, "{name}");
            let found = directory.found();
            let count = |kind: char| found.get(&kind).map_or(0, HashMap::len) as u64;
            assert_eq!(count('f') + count('r'), files, "{name}");
            assert_eq!(count('s'), u64::from(flows.log.is_some()), "{name}");
            let mut links = 0;
            for _ in 0..20 * files {
                let held = flows.population.claim(&mut flows.random);
                let known = &found[&held.kinds().0.letter()];
                assert_eq!(known[&held.number], held.size_bytes(), "{name}: file {}", held.number);
                let linked = found.get(&'l').is_some_and(|links| links.contains_key(&held.number));
                assert_eq!(linked, held.is_linked(), "{name}: file {}", held.number);
                links += u64::from(linked);
            }
            assert_eq!(links > 0, name == "others", "{name}");
        }
    }

    #[test]
    fn shared_population_size_is_constant() {
        const THREADS: u64 = 3;
        for (name, of) in mixes() {
            let files = of.files_min() + 20;
            let directory = Directory::for_mix(&of, THREADS * files);
            let (place, stop) = (directory.place(), AtomicBool::new(false));
            let all = Arc::new(SharedFiles::new(THREADS, files, of.created()));
            let flows: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let share = Share::new(Arc::clone(&all), thread);
                    let mut flows = Flows::sharing(share, &of, files, directory.tree, thread);
                    assert_eq!(flows.populate(&place, limits(&stop)).unwrap().0.result, Ok(()));
                    flows
                })
                .collect();
            let weights: u64 = of.flows.iter().map(|flow| flow.weight).sum();
            std::thread::scope(|scope| {
                for mut flows in flows {
                    let (place, stop, name) = (&place, &stop, &name);
                    scope.spawn(move || {
                        let (mut recorder, _) = Recorder::new(Shape::default());
                        let visits = VisitOrder::in_sequence(0, 20 * weights);
                        let round =
                            round(&mut flows, place, visits, &Timer::Kernel, &mut recorder, limits(stop));
                        assert_eq!((round.done, round.result), (20 * weights, Ok(())), "{name}");
                    });
                }
            });
            assert_eq!(all.count(), THREADS * files, "{name}");
            let found = directory.found();
            let count = |kind: char| found.get(&kind).map_or(0, HashMap::len) as u64;
            assert_eq!(count('f') + count('r'), THREADS * files, "{name}");
        }
    }

    #[test]
    fn flow_frequency_equals_its_weight() {
        let of = Mix::shipped(MixName::Home);
        let mut flows = Flows::new(of, 10, Tree { files: 10, dirs: 1, levels: 1 }, 1);
        let weights: usize = of.flows.iter().map(|flow| flow.weight as usize).sum();
        let mut orders = std::collections::HashSet::new();
        for _ in 0..10 {
            let dealt: Vec<usize> = (0..weights).map(|_| flows.deal()).collect();
            for (number, flow) in of.flows.iter().enumerate() {
                assert_eq!(dealt.iter().filter(|dealt| **dealt == number).count() as u64, flow.weight);
            }
            orders.insert(dealt);
        }
        assert_eq!(orders.len(), 10, "each deck has an order of its own");
    }

    /// Runs a round while another thread reads its counts. Returns the longest latency and the longest delay of a start.
    fn longest(is_open: bool, run: impl FnOnce(&mut Recorder) + Send) -> (u64, u64) {
        let (mut recorder, reader) = Recorder::new(Shape { is_open, ..Shape::default() });
        let (mut latency_ns, mut delay_ns) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(move || run(&mut recorder));
            let longest = |latencies: &Latencies| latencies.buckets().last().map_or(0, |(ns, _)| ns);
            while !reader.drain_last(|delta| {
                latency_ns = latency_ns.max(longest(&delta.latencies));
                delay_ns = delay_ns.max(delta.queueing.as_ref().map_or(0, longest));
            }) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        (latency_ns, delay_ns)
    }

    #[test]
    fn latency_excludes_think_time_and_includes_queueing() {
        const PAUSE_MS: u64 = 200;
        let mut of = Mix::parse(OTHERS).unwrap();
        of.flows.iter_mut().for_each(|flow| flow.think_ms = PAUSE_MS);
        let tree = Tree { files: 60, dirs: 3, levels: 1 };
        let directory = std::fs::File::open("/").unwrap();
        let place = FileLocation { directory: directory.as_fd(), leaves: &[], tree };
        let stop = AtomicBool::new(false);
        let mut flows = Flows::without_calls(&of, 60, tree, 3);
        assert!(flows.populate(&place, limits(&stop)).unwrap().0.result.is_ok());
        let (latency_ns, _) = longest(false, |recorder| {
            let visits = VisitOrder::in_sequence(0, 4);
            let paused = round(&mut flows, &place, visits, &Timer::Kernel, recorder, limits(&stop));
            // Three pauses lie between four flows.
            assert!(paused.done == 4 && paused.end_ns - paused.start_ns >= 3 * PAUSE_MS * 1_000_000);
        });
        assert!(latency_ns < PAUSE_MS * 1_000_000, "no call is made: {latency_ns} ns");

        // 1,000 flows a second are due, and each takes 20 ms: most are late, or never start.
        let (latency_ns, delay_ns) = longest(true, |recorder| {
            let mut slow = Slow(OpenLoop::new(1000.0, false, 0, 1, 7));
            let limits = RoundLimits {
                deadline_ns: Monotonic.now_ns() + 300_000_000,
                stop: &stop,
                budget: &UNLIMITED,
            };
            let visits = VisitOrder::in_sequence(0, u64::MAX);
            let round = round(&mut slow, &place, visits, &Timer::Kernel, recorder, limits);
            let (due, lasted_ms) = (round.done + round.missed, (round.end_ns - round.start_ns) / 1_000_000);
            // The last flow ends after the deadline.
            assert!(due <= lasted_ms + 1 && due + 60 >= lasted_ms, "{due} in {lasted_ms} ms");
            assert!(round.done <= lasted_ms / 20 + 1 && round.done > 0, "{} in {lasted_ms} ms", round.done);
        });
        assert!(delay_ns > 100_000_000 && latency_ns > delay_ns, "{latency_ns} ns after {delay_ns} ns");
    }

    /// Takes 20 ms.
    struct Slow(OpenLoop);

    impl FileOps for Slow {
        fn operate(
            &mut self,
            _: &FileLocation<'_>,
            _: u64,
            timer: &mut StepTimer<'_>,
        ) -> Result<(), CallError> {
            std::thread::sleep(std::time::Duration::from_millis(20));
            timer.record(0);
            Ok(())
        }

        fn begin(&mut self, start_ns: u64) {
            self.0.begin(start_ns);
        }

        fn is_due(&mut self, timer: &mut StepTimer<'_>, limits: RoundLimits<'_>) -> bool {
            timer.wait_for_next(&mut self.0, limits)
        }

        fn missed(&mut self, end_ns: u64) -> u64 {
            self.0.missed(end_ns)
        }
    }
}
