//! The measuring loop on a mix: flows of operations over files that this thread alone creates and deletes.
//!
//! Files have numbers, and the living ones lie between the oldest and the newest. A creation takes the next number, and
//! a deletion the oldest, so no name comes twice. Flows are dealt from a deck that has each as often as its weight. It is
//! shuffled anew when it is used up: creations and deletions balance after every deck.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use model::mix::{Arrival, LOG_BYTES, Operation};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::verbs::{CREATE_FLAGS, CREATE_MODE, read_whole};
use super::{CallError, FileOps, Laps, Place, READ_FLAGS, Round, RoundLimits, close};
use crate::clock::{Clock, Monotonic};
use crate::data::{self, Pool, Stamp, mix};
use crate::failure::{Cause, Failure};
use crate::names::{FILE_DIGITS, Kind, Tree, write_digits};
use crate::recorder::Recorder;

/// Largest part of a file that one call writes or reads.
const CHUNK_BYTES: u64 = 1 << 20;
/// Sizes that files are drawn from.
const SIZES: usize = 256;
/// Number of the log in its stamps.
const LOG_FILE: u64 = u32::MAX as u64;
/// Buffer of a listing, as the C library has it.
const LISTING_BYTES: usize = 32 << 10;
/// Mark of a file that has its other name.
const RENAMED: u64 = 1 << 63;

const WRITE_FLAGS: OFlags = OFlags::WRONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Paths of a thread's files, built without formatting.
#[derive(Debug)]
struct Paths {
    /// Directories with a slash behind each; empty for the root.
    directories: Box<[Box<[u8]>]>,
    bytes: Box<[u8]>,
}

impl Paths {
    fn new(tree: Tree) -> Self {
        let of = |dir| match tree.directory(dir) {
            path if path.is_empty() => Box::default(),
            path => (path + "/").into_bytes().into_boxed_slice(),
        };
        let directories: Box<[Box<[u8]>]> = (0..tree.dirs.max(1)).map(of).collect();
        let longest = directories.iter().map(|directory| directory.len()).max().unwrap_or(0);
        Self { directories, bytes: vec![0; longest + 1 + FILE_DIGITS + 2].into() }
    }

    /// Writes the directory of a file, and returns its length.
    #[inline]
    fn enter(&mut self, file: u64) -> usize {
        let directory = &self.directories[(file % self.directories.len() as u64) as usize];
        self.bytes[..directory.len()].copy_from_slice(directory);
        directory.len()
    }

    /// Path of a file.
    #[inline]
    fn of(&mut self, kind: Kind, file: u64) -> &CStr {
        let start = self.enter(file);
        let name = &mut self.bytes[start..];
        name[0] = kind as u8;
        write_digits(&mut name[1..=FILE_DIGITS], file);
        name[1 + FILE_DIGITS] = 0;
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Path of the directory of a file.
    #[inline]
    fn directory(&mut self, file: u64) -> &CStr {
        let start = self.enter(file);
        match start.checked_sub(1) {
            Some(slash) => self.bytes[slash] = 0,
            None => self.bytes[..2].copy_from_slice(b".\0"),
        }
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// The flows of a mix, with the files of one thread.
#[derive(Debug)]
pub struct Flows {
    flows: Box<[Box<[Operation]>]>,
    /// The number of each flow, as often as its weight.
    deck: Box<[u16]>,
    /// Flows that were dealt from the deck.
    dealt: usize,
    random: u64,
    /// Sizes of new files, each as likely as the others.
    sizes: Box<[u64; SIZES]>,
    /// Sizes of the living files, by the low bits of their numbers; [`RENAMED`] marks those with the other name.
    living: Box<[u64]>,
    oldest: u64,
    newest: u64,
    /// Number of files at the beginning.
    files: u64,
    paths: Paths,
    other_paths: Paths,
    /// Blocks of whole files, and of parts: slices of their own size, so that neighbours differ.
    pools: [Pool; 2],
    /// Length of the slices of parts.
    part_bytes: u64,
    /// Number of writes so far: no place gets the same bytes again.
    writes: u32,
    /// Number of names asked for that do not exist.
    missing: u64,
    /// File of the running operation.
    at: u64,
    seed: u64,
    buffer: Box<[u8]>,
    listing: Box<[MaybeUninit<u8>]>,
    log: Option<OwnedFd>,
    log_end_bytes: u64,
    /// True if a flow writes to the log.
    has_log: bool,
}

impl Flows {
    /// Flows over this many files in a tree. Contents, sizes and draws follow from the seed.
    pub fn new(of: &model::mix::Mix, files: u64, tree: Tree, seed: u64) -> Self {
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
        let chunk_bytes = largest.clamp(1, CHUNK_BYTES) as usize;
        let part_bytes = of.part_bytes_max().min(CHUNK_BYTES);
        let operations = || of.flows.iter().flat_map(|flow| &flow.operations);
        Self {
            flows: of.flows.iter().map(|flow| flow.operations.clone().into()).collect(),
            dealt: deck.len(),
            // At most as many files more as a deck creates.
            living: vec![0; (files as usize + operations().count() * deck.len() + 2).next_power_of_two()]
                .into(),
            deck,
            random: mix(seed) | 1,
            sizes: Box::new(sizes),
            oldest: 0,
            newest: 0,
            files,
            paths: Paths::new(tree),
            other_paths: Paths::new(tree),
            pools: [chunk_bytes, part_bytes.max(1) as usize].map(|bytes| Pool::new(like, bytes, 1)),
            part_bytes,
            writes: 0,
            missing: 0,
            at: 0,
            seed,
            buffer: vec![0; chunk_bytes.max(of.part_bytes_max() as usize)].into(),
            listing: Box::new_uninit_slice(LISTING_BYTES),
            log: None,
            log_end_bytes: 0,
            has_log: of.has_log(),
        }
    }

    /// Number of files that exist now.
    pub fn living(&self) -> u64 {
        self.newest - self.oldest
    }

    /// Makes the log, if there is to be one and is none yet. Returns its length.
    fn open_log(&mut self, place: &Place<'_>) -> Result<u64, Failure> {
        if !self.has_log || self.log.is_some() {
            return Ok(0);
        }
        let path = [Kind::Symlink as u8, b'0', b'0', b'0', b'0', b'0', b'0', b'0', b'0', 0];
        let name = CStr::from_bytes_until_nul(&path).unwrap_or_default();
        let made = rustix::fs::openat(place.directory, name, CREATE_FLAGS, CREATE_MODE);
        let made = made.map_err(|errno| self.failure(0, errno.into()))?;
        // From the beginning, the log is one that is used again.
        for chunk in 0..LOG_BYTES / CHUNK_BYTES {
            let written = self.write(&made, LOG_FILE, chunk * CHUNK_BYTES, CHUNK_BYTES);
            written.map_err(|cause| self.failure(0, cause))?;
        }
        self.log = Some(made);
        Ok(LOG_BYTES)
    }

    fn failure(&self, step: usize, cause: Cause) -> Failure {
        Failure { call: Operation::STEPS[step], file: self.at, offset_bytes: None, cause }
    }

    /// Returns a random number below a bound (Lemire, "Fast random integer generation in an interval", 2019, without
    /// its correction: bounds are far below 2³²).
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        // Xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let high = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (high * bound) >> 32
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
            let other = self.below(last as u64 + 1) as usize;
            self.deck.swap(last, other);
        }
        self.dealt = 0;
    }

    #[inline]
    fn pick(&mut self) -> u64 {
        self.oldest + self.below(self.newest - self.oldest)
    }

    #[inline]
    fn slot(&self, file: u64) -> usize {
        file as usize & (self.living.len() - 1)
    }

    /// Returns size and kind of a living file.
    #[inline]
    fn seen(&self, file: u64) -> (u64, Kind) {
        let seen = self.living[self.slot(file)];
        (seen & !RENAMED, if seen & RENAMED == 0 { Kind::File } else { Kind::Renamed })
    }

    #[inline]
    fn one(
        &mut self,
        operation: Operation,
        file: &mut u64,
        place: &Place<'_>,
        recorder: &mut Recorder,
    ) -> Result<(), Cause> {
        let directory = place.directory;
        let (size_bytes, kind) = self.seen(*file);
        self.at = *file;
        match operation {
            Operation::Pick => *file = self.pick(),
            Operation::Create { arrival, synced } => {
                *file = self.newest;
                self.at = *file;
                recorder.written(self.create(place, arrival, synced)?);
            }
            Operation::Read => {
                let opened =
                    rustix::fs::openat(directory, self.paths.of(kind, *file), READ_FLAGS, Mode::empty())?;
                recorder.read(read_whole(&opened, &mut self.buffer, Some(size_bytes))?);
                close(opened)?;
            }
            Operation::ReadPart(bytes) => {
                let (at_bytes, bytes) = self.part(size_bytes, bytes);
                let opened =
                    rustix::fs::openat(directory, self.paths.of(kind, *file), READ_FLAGS, Mode::empty())?;
                let wanted_bytes = bytes as usize;
                let got_bytes = rustix::io::pread(&opened, &mut self.buffer[..wanted_bytes], at_bytes)?;
                if got_bytes < wanted_bytes {
                    return Err(Cause::Short { got_bytes, wanted_bytes });
                }
                recorder.read(got_bytes as u64);
                close(opened)?;
            }
            Operation::Append { bytes, synced } => {
                self.change(*file, OFlags::empty(), size_bytes, bytes, synced, place)?;
                let slot = self.slot(*file);
                self.living[slot] += bytes;
                recorder.written(bytes);
            }
            Operation::Overwrite { bytes, synced } => {
                let (at_bytes, bytes) = self.part(size_bytes, bytes);
                self.change(*file, OFlags::empty(), at_bytes, bytes, synced, place)?;
                recorder.written(bytes);
            }
            Operation::Rewrite { synced } => {
                self.change(*file, OFlags::TRUNC, 0, size_bytes, synced, place)?;
                recorder.written(size_bytes);
            }
            Operation::Log { bytes, synced } => {
                self.append_to_log(bytes, synced)?;
                recorder.written(bytes);
            }
            Operation::Stat => {
                rustix::fs::statat(directory, self.paths.of(kind, *file), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Operation::StatMissing => {
                self.missing += 1;
                let path = self.paths.of(Kind::Missing, self.missing);
                match rustix::fs::statat(directory, path, AtFlags::empty()) {
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno.into()),
                    Ok(_) => return Err(Errno::EXIST.into()),
                }
            }
            Operation::List => self.list(*file, place)?,
            Operation::Rename => {
                let other = if kind == Kind::File { Kind::Renamed } else { Kind::File };
                let (from, to) = (self.paths.of(kind, *file), self.other_paths.of(other, *file));
                rustix::fs::renameat(directory, from, directory, to)?;
                let slot = self.slot(*file);
                self.living[slot] ^= RENAMED;
            }
            Operation::Delete => {
                let (_, kind) = self.seen(self.oldest);
                self.at = self.oldest;
                rustix::fs::unlinkat(directory, self.paths.of(kind, self.oldest), AtFlags::empty())?;
                self.oldest += 1;
                if *file < self.oldest {
                    *file = self.pick();
                }
            }
        }
        Ok(())
    }

    /// Returns the place of a part of a file, and its length: at most the file's.
    #[inline]
    fn part(&mut self, size_bytes: u64, bytes: u64) -> (u64, u64) {
        let bytes = bytes.min(size_bytes).max(1);
        (self.below(size_bytes / bytes) * bytes, bytes)
    }

    /// Makes the newest file, and returns its size.
    fn create(&mut self, place: &Place<'_>, arrival: Arrival, synced: bool) -> Result<u64, Cause> {
        let (directory, file) = (place.directory, self.newest);
        let size_bytes = self.sizes[(mix(self.seed ^ mix(file)) as usize) % SIZES];
        let first = if arrival == Arrival::Named { Kind::File } else { Kind::Link };
        let made = rustix::fs::openat(directory, self.paths.of(first, file), CREATE_FLAGS, CREATE_MODE)?;
        self.write(&made, file, 0, size_bytes)?;
        if synced {
            rustix::fs::fsync(&made)?;
        }
        close(made)?;
        if arrival != Arrival::Named {
            let (from, to) = (self.paths.of(first, file), self.other_paths.of(Kind::File, file));
            match arrival {
                Arrival::Linked => {
                    rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
                    rustix::fs::unlinkat(directory, from, AtFlags::empty())?;
                }
                _ => rustix::fs::renameat(directory, from, directory, to)?,
            }
        }
        let slot = self.slot(file);
        self.living[slot] = size_bytes;
        self.newest += 1;
        Ok(size_bytes)
    }

    /// Opens a file, writes a part of it, and closes it.
    fn change(
        &mut self,
        file: u64,
        flags: OFlags,
        at_bytes: u64,
        bytes: u64,
        synced: bool,
        place: &Place<'_>,
    ) -> Result<(), Cause> {
        let (_, kind) = self.seen(file);
        let path = self.paths.of(kind, file);
        let opened = rustix::fs::openat(place.directory, path, WRITE_FLAGS.union(flags), Mode::empty())?;
        self.write(&opened, file, at_bytes, bytes)?;
        if synced {
            rustix::fs::fsync(&opened)?;
        }
        Ok(close(opened)?)
    }

    fn append_to_log(&mut self, bytes: u64, synced: bool) -> Result<(), Cause> {
        let Some(log) = self.log.take() else { return Err(Errno::BADF.into()) };
        if self.log_end_bytes + bytes > LOG_BYTES {
            self.log_end_bytes = 0;
        }
        let written = self.write(&log, LOG_FILE, self.log_end_bytes, bytes);
        let synced = written.and_then(|()| if synced { Ok(rustix::fs::fdatasync(&log)?) } else { Ok(()) });
        self.log = Some(log);
        self.log_end_bytes += bytes;
        synced
    }

    fn write(&mut self, opened: &OwnedFd, file: u64, at_bytes: u64, bytes: u64) -> Result<(), Cause> {
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
            offset_bytes += rustix::io::pwrite(opened, block, offset_bytes)? as u64;
        }
        Ok(())
    }

    fn list(&mut self, file: u64, place: &Place<'_>) -> Result<(), Cause> {
        let flags = READ_FLAGS.union(OFlags::DIRECTORY);
        let path = self.paths.directory(file);
        let opened = rustix::fs::openat(place.directory, path, flags, Mode::empty())?;
        let mut entries = RawDir::new(&opened, &mut self.listing);
        while let Some(entry) = entries.next() {
            entry?;
        }
        Ok(close(opened)?)
    }
}

impl FileOps for Flows {
    fn steps(&self) -> &'static [&'static str] {
        Operation::STEPS
    }

    /// Makes one flow, each of its operations timed.
    #[inline]
    fn operate<C: Clock>(
        &mut self,
        place: &Place<'_>,
        _: u64,
        laps: &mut Laps<'_, C>,
    ) -> Result<(), CallError> {
        let flow = self.deal();
        let mut file = self.pick();
        for at in 0..self.flows[flow].len() {
            let operation = self.flows[flow][at];
            let step = operation.step();
            self.one(operation, &mut file, place, laps.recorder).map_err(|cause| (step, cause))?;
            if operation != Operation::Pick {
                laps.lap(step);
            }
        }
        Ok(())
    }

    fn failed_at(&self, _: u64) -> u64 {
        self.at
    }

    fn populate(&mut self, place: &Place<'_>, limits: RoundLimits<'_>) -> Option<(Round, u64)> {
        let start_ns = Monotonic.now_ns();
        let opened = self.open_log(place);
        let (mut done, mut written_bytes) = (0, *opened.as_ref().unwrap_or(&0));
        let mut result = opened.map(|_| ());
        while result.is_ok() && self.living() < self.files && Monotonic.now_ns() < limits.deadline_ns {
            if limits.stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            match self.create(place, Arrival::Named, false) {
                Ok(bytes) => written_bytes += bytes,
                Err(cause) => result = Err(self.failure(0, cause)),
            }
            done += 1;
        }
        // What waits in memory would be written while something is measured.
        if written_bytes > 0 && result.is_ok() {
            let synced = rustix::fs::syncfs(place.directory);
            result = synced.map_err(|errno| self.failure(0, errno.into()));
        }
        Some((Round { done, start_ns, end_ns: Monotonic.now_ns(), result }, written_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Visits, round};
    use crate::recorder::Shape;
    use model::workload::MixName;
    use std::os::fd::AsFd;
    use std::sync::atomic::AtomicBool;

    fn limits(stop: &AtomicBool) -> RoundLimits<'_> {
        RoundLimits { deadline_ns: u64::MAX, stop }
    }

    fn below(directory: &std::path::Path) -> Vec<(std::path::PathBuf, u64)> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        entries
            .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
                true => below(&entry.path()),
                false => vec![(entry.path(), entry.metadata().unwrap().len())],
            })
            .collect()
    }

    #[test]
    fn populations_stay_as_large_as_they_were_and_sizes_are_known() {
        for name in MixName::ALL {
            let mut of = model::mix::Mix::shipped(*name).clone();
            of.population.files = of.population.files.min(400);
            let population = &of.population;
            let temp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
            let directory = std::fs::File::open(temp.path()).unwrap();
            let tree = Tree { files: population.files, dirs: population.dirs, levels: population.levels };
            for dir in 0..tree.dirs {
                std::fs::create_dir_all(temp.path().join(tree.directory(dir))).unwrap();
            }
            let place = Place { directory: directory.as_fd(), leaves: &[], tree };
            let stop = AtomicBool::new(false);
            let mut flows = Flows::new(&of, population.files, tree, 7);
            let (made, written_bytes) = flows.populate(&place, limits(&stop)).unwrap();
            assert_eq!((made.done, &made.result), (population.files, &Ok(())));
            let sum = |temp: &std::path::Path| below(temp).iter().map(|(_, bytes)| bytes).sum::<u64>();
            assert_eq!(sum(temp.path()), written_bytes, "{name}");
            let weights: u64 = of.flows.iter().map(|flow| flow.weight).sum();
            let (mut recorder, _reader) = Recorder::new(Shape::default());
            let visits = Visits::in_sequence(0, 3 * weights);
            let round = round(&mut flows, &place, visits, &Monotonic, &mut recorder, limits(&stop));
            assert_eq!((round.done, round.result), (3 * weights, Ok(())), "{name}");
            assert_eq!(flows.living(), population.files, "{name}");
            let files = below(temp.path()).len() as u64;
            assert_eq!(files, population.files + u64::from(flows.log.is_some()), "{name}");
            for (path, bytes) in below(temp.path()) {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let file = u64::from_str_radix(&name[1..], 16).unwrap();
                assert!(name.starts_with('s') || flows.seen(file).0 == bytes, "{name}: {bytes}");
            }
        }
    }

    #[test]
    fn flows_come_as_often_as_they_weigh() {
        let of = model::mix::Mix::shipped(MixName::Home);
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
}
