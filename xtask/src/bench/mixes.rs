//! The cost of the loop on mixes: time of an operation without any call, and the same calls through it and bare, by many
//! threads.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use engine::budget::UNLIMITED;
use engine::clock::Timer;
use engine::data::PERIOD_BYTES;
use engine::files::flows::{Calls, Flows, Kernel, PrivateFiles};
use engine::files::{FileLocation, FileOps, RoundLimits, VisitOrder, round};
use engine::names::Tree;
use engine::recorder::{Recorder, Shape};
use model::mix::Mix;
use model::workload::{CHUNK_BYTES_MAX, MixName};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Rows, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench = Bench {
    name: "mixes",
    measures: "mixes: an operation that does nothing, and 16 threads on tmpfs against the same calls bare",
    run,
};

/// Mixes, each with the flows of a thread in one run, which takes about half a second.
const MIXES: [(MixName, u64); 3] =
    [(MixName::Home, 20_000), (MixName::Build, 20_000), (MixName::Mail, 1_000)];
const THREADS: usize = 16;
/// Flows without any call, which take about a quarter of a second.
const EMPTY_FLOWS: u64 = 1_000_000;
/// Least rate through the loop, relative to bare calls.
const SHARE: f64 = 0.95;
/// Longest time of an operation that does nothing. `home` is the mix that writes least: bytes that are made are no cost of
/// the loop.
const NS_MAX: f64 = 60.0;
/// Length of the buffer of bare calls: the program's pool, and room for the longest write behind it.
const BUFFER_BYTES: usize = PERIOD_BYTES + CHUNK_BYTES_MAX as usize;
/// Time between two visits of the reader, as in the program.
const DRAIN_INTERVAL: Duration = Duration::from_millis(25);

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let tmpfs = Tmpfs::mount_or_share()?;
    let path = tmpfs.path();
    for (name, _) in MIXES {
        let mix = Mix::shipped(name);
        let limit = if name == MixName::Home { Limit::AtMost(NS_MAX) } else { Limit::None };
        let values: Result<Vec<_>> = (0..setting.pairs).map(|_| nothing(mix)).collect();
        rows.push(Row::new(format!("{name}, an operation without a call"), "ns", values?, limit))?;
    }
    for (name, flows) in MIXES {
        let mix = Mix::shipped(name);
        let tapes: Vec<_> = (0..THREADS).map(|thread| Tape::record(mix, thread as u64, flows)).collect();
        let ours = || through_loop(mix, path, flows).map(|seconds| 1.0 / seconds);
        let bare = || bare(mix, path, &tapes).map(|seconds| 1.0 / seconds);
        let ratios = alternate(setting.pairs, ours, bare)?;
        let what = format!("{name}, {THREADS} threads on tmpfs, ours over bare");
        rows.push(Row::new(what, "×", ratios, Limit::AtLeast(SHARE)))?;
    }
    Ok(())
}

fn tree(mix: &Mix) -> Tree {
    Tree { files: mix.population.files, dirs: mix.population.dirs, levels: mix.population.levels }
}

/// Nanoseconds of an operation whose calls do nothing.
fn nothing(mix: &Mix) -> Result<f64> {
    let root = rustix::fs::open("/", DIRECTORY_FLAGS, Mode::empty()).context("open /")?;
    let place = FileLocation { directory: root.as_fd(), leaves: &[], tree: tree(mix) };
    let stop = AtomicBool::new(false);
    let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &UNLIMITED };
    let mut flows = Flows::without_calls(mix, mix.population.files, tree(mix), 1);
    flows.populate(&place, limits);
    let (mut recorder, _) = Recorder::new(Shape::closed(model::mix::Operation::STEPS.len()));
    let visits = VisitOrder::in_sequence(0, EMPTY_FLOWS);
    let round = round(&mut flows, &place, visits, &Timer::best().anchored(), &mut recorder, limits);
    round.result.map_err(|failure| anyhow!("{failure:?}"))?;
    let weights: u64 = mix.flows.iter().map(|flow| flow.weight).sum();
    let operations: u64 = mix.flows.iter().map(|flow| flow.weight * flow.operations.len() as u64).sum();
    let made = round.done as f64 * operations as f64 / weights as f64;
    Ok((round.end_ns - round.start_ns) as f64 / made)
}

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory for each thread, with the directories of a mix.
struct Directories {
    _temp: tempfile::TempDir,
    opened: Vec<OwnedFd>,
}

impl Directories {
    fn new(mix: &Mix, path: &Path) -> Result<Self> {
        let temp = tempfile::tempdir_in(path).context("create a directory")?;
        let mut opened = Vec::new();
        for thread in 0..THREADS {
            let own = temp.path().join(thread.to_string());
            for dir in 0..tree(mix).dirs {
                std::fs::create_dir_all(own.join(tree(mix).directory(dir))).context("make directories")?;
            }
            opened.push(rustix::fs::open(&own, DIRECTORY_FLAGS, Mode::empty()).context("open a directory")?);
        }
        Ok(Self { _temp: temp, opened })
    }
}

/// Seconds that the threads take through the program's loop, from their common start to the end of the last.
fn through_loop(mix: &Mix, path: &Path, flows: u64) -> Result<f64> {
    let directories = Directories::new(mix, path)?;
    let timer = Timer::best().anchored();
    let (stop, start) = (AtomicBool::new(false), Barrier::new(THREADS + 1));
    let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &UNLIMITED };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut readers = Vec::new();
        let mut threads = Vec::new();
        for (thread, directory) in directories.opened.iter().enumerate() {
            let (mut recorder, reader) = Recorder::new(Shape::closed(model::mix::Operation::STEPS.len()));
            readers.push(reader);
            let start = &start;
            threads.push(scope.spawn(move || {
                let place = FileLocation { directory: directory.as_fd(), leaves: &[], tree: tree(mix) };
                let mut loops = Flows::new(mix, mix.population.files, tree(mix), thread as u64);
                let populated = loops.populate(&place, limits);
                start.wait();
                let visits = VisitOrder::in_sequence(0, flows);
                let done = round(&mut loops, &place, visits, &timer, &mut recorder, limits);
                drop(recorder);
                populated.map_or(Ok(()), |(round, _)| round.result).and(done.result)
            }));
        }
        let over = &is_over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                readers.iter().for_each(|reader| reader.drain(|delta| _ = std::hint::black_box(delta.ops)));
                thread::sleep(DRAIN_INTERVAL);
            }
        });
        start.wait();
        let started = Instant::now();
        let ended = join(threads);
        let seconds = started.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        ended.map(|()| seconds)
    })
}

fn join<E: std::fmt::Debug>(threads: Vec<thread::ScopedJoinHandle<'_, Result<(), E>>>) -> Result<()> {
    for thread in threads {
        let ended = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
        ended.map_err(|error| anyhow!("{error:?}"))?;
    }
    Ok(())
}

/// Seconds that the threads take for the calls of their tapes.
fn bare(mix: &Mix, path: &Path, tapes: &[Tape]) -> Result<f64> {
    let directories = Directories::new(mix, path)?;
    let start = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (directory, tape) in directories.opened.iter().zip(tapes) {
            let start = &start;
            threads.push(scope.spawn(move || {
                let mut player = Player::new(directory.as_fd());
                let populated = player.play(&tape.population);
                start.wait();
                populated.and_then(|()| player.play(&tape.calls))
            }));
        }
        start.wait();
        let started = Instant::now();
        join(threads)?;
        Ok(started.elapsed().as_secs_f64())
    })
}

/// A file that is open: the log, or the one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Log,
    Other,
}

/// One call, with all that it needs.
#[derive(Debug)]
enum Call {
    Create(CString, Open),
    Open(CString),
    OpenToWrite(CString, bool),
    Close,
    Read(usize),
    ReadAt(usize, u64),
    WriteAt(Open, usize, u64),
    Truncate(u64),
    Sync,
    SyncData(Open),
    Stat(CString, bool),
    Rename(CString, CString),
    Link(CString, CString),
    Unlink(CString),
    List(CString),
}

/// Calls that a thread makes to have its files, and those of its flows.
struct Tape {
    population: Vec<Call>,
    calls: Vec<Call>,
}

impl Tape {
    fn record(mix: &Mix, seed: u64, flows: u64) -> Self {
        let stop = AtomicBool::new(false);
        let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &UNLIMITED };
        // No call is made.
        let root = rustix::fs::CWD;
        let place = FileLocation { directory: root, leaves: &[], tree: tree(mix) };
        let call_recorder = CallRecorder(RefCell::new(Vec::new()));
        let files = mix.population.files;
        let mut loops =
            Flows::with(&call_recorder, PrivateFiles::new(files, mix.created()), mix, files, tree(mix), seed);
        loops.populate(&place, limits);
        let population = call_recorder.0.take();
        let (mut recorder, _) = Recorder::new(Shape::default());
        let visits = VisitOrder::in_sequence(0, flows);
        round(&mut loops, &place, visits, &Timer::Kernel, &mut recorder, limits);
        Self { population, calls: call_recorder.0.take() }
    }
}

/// Keeps the calls instead of making them.
struct CallRecorder(RefCell<Vec<Call>>);

impl CallRecorder {
    fn keep(&self, call: Call) {
        self.0.borrow_mut().push(call);
    }
}

impl Calls for &CallRecorder {
    type File = Open;

    fn create(&self, _: BorrowedFd<'_>, path: &CStr) -> Result<Open, Errno> {
        let file = if path.to_bytes().starts_with(b"s") { Open::Log } else { Open::Other };
        self.keep(Call::Create(path.to_owned(), file));
        Ok(file)
    }

    fn open(&self, _: BorrowedFd<'_>, path: &CStr) -> Result<Open, Errno> {
        self.keep(Call::Open(path.to_owned()));
        Ok(Open::Other)
    }

    fn open_to_write(&self, _: BorrowedFd<'_>, path: &CStr, truncates_file: bool) -> Result<Open, Errno> {
        self.keep(Call::OpenToWrite(path.to_owned(), truncates_file));
        Ok(Open::Other)
    }

    fn close(&self, _: Open) -> Result<(), Errno> {
        self.keep(Call::Close);
        Ok(())
    }

    fn read(&self, _: &Open, bytes: &mut [u8]) -> Result<usize, Errno> {
        self.keep(Call::Read(bytes.len()));
        Ok(bytes.len())
    }

    fn read_at(&self, _: &Open, bytes: &mut [u8], at_bytes: u64) -> Result<usize, Errno> {
        self.keep(Call::ReadAt(bytes.len(), at_bytes));
        Ok(bytes.len())
    }

    fn write_at(&self, file: &Open, bytes: &[u8], at_bytes: u64) -> Result<usize, Errno> {
        self.keep(Call::WriteAt(*file, bytes.len(), at_bytes));
        Ok(bytes.len())
    }

    fn truncate(&self, _: &Open, size_bytes: u64) -> Result<(), Errno> {
        self.keep(Call::Truncate(size_bytes));
        Ok(())
    }

    fn sync(&self, _: &Open) -> Result<(), Errno> {
        self.keep(Call::Sync);
        Ok(())
    }

    fn sync_data(&self, file: &Open) -> Result<(), Errno> {
        self.keep(Call::SyncData(*file));
        Ok(())
    }

    fn stat(&self, _: BorrowedFd<'_>, path: &CStr, exists: bool) -> Result<(), Errno> {
        self.keep(Call::Stat(path.to_owned(), exists));
        Ok(())
    }

    fn rename(&self, _: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
        self.keep(Call::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn link(&self, _: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
        self.keep(Call::Link(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn unlink(&self, _: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        self.keep(Call::Unlink(path.to_owned()));
        Ok(())
    }

    fn list(&self, _: BorrowedFd<'_>, path: &CStr, _: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        self.keep(Call::List(path.to_owned()));
        Ok(())
    }

    fn sync_all(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }
}

/// Makes the calls of tapes, and nothing else.
struct Player<'a> {
    directory: BorrowedFd<'a>,
    log: Option<OwnedFd>,
    other: Option<OwnedFd>,
    buffer: Box<[u8]>,
    /// Start of the bytes that the next write takes.
    next: usize,
    listing: Box<[MaybeUninit<u8>]>,
}

impl<'a> Player<'a> {
    fn new(directory: BorrowedFd<'a>) -> Self {
        let (buffer, listing) = (vec![7; BUFFER_BYTES].into(), Box::new_uninit_slice(32 << 10));
        Self { directory, log: None, other: None, buffer, next: 0, listing }
    }

    /// Returns the part of the buffer that a write takes. As in the program, it is not the last one, which a cache has.
    fn fresh(&mut self, bytes: usize) -> Range<usize> {
        let start = if self.next < PERIOD_BYTES { self.next } else { 0 };
        self.next = start + bytes;
        start..self.next
    }

    fn file(&self, file: Open) -> Result<&OwnedFd, Errno> {
        match file {
            Open::Log => self.log.as_ref(),
            Open::Other => self.other.as_ref(),
        }
        .ok_or(Errno::BADF)
    }

    fn play(&mut self, tape: &[Call]) -> Result<(), Errno> {
        let directory = self.directory;
        for call in tape {
            match call {
                Call::Create(path, Open::Log) => self.log = Some(Kernel.create(directory, path)?),
                Call::Create(path, Open::Other) => self.other = Some(Kernel.create(directory, path)?),
                Call::Open(path) => self.other = Some(Kernel.open(directory, path)?),
                Call::OpenToWrite(path, truncates_file) => {
                    self.other = Some(Kernel.open_to_write(directory, path, *truncates_file)?);
                }
                Call::Close => Kernel.close(self.other.take().ok_or(Errno::BADF)?)?,
                Call::Read(bytes) => {
                    let file = self.other.as_ref().ok_or(Errno::BADF)?;
                    Kernel.read(file, &mut self.buffer[..*bytes])?;
                }
                Call::ReadAt(bytes, at_bytes) => {
                    let file = self.other.as_ref().ok_or(Errno::BADF)?;
                    Kernel.read_at(file, &mut self.buffer[..*bytes], *at_bytes)?;
                }
                Call::WriteAt(file, bytes, at_bytes) => {
                    let fresh = self.fresh(*bytes);
                    Kernel.write_at(self.file(*file)?, &self.buffer[fresh], *at_bytes)?;
                }
                Call::Truncate(size_bytes) => Kernel.truncate(self.file(Open::Other)?, *size_bytes)?,
                Call::Sync => Kernel.sync(self.file(Open::Other)?)?,
                Call::SyncData(file) => Kernel.sync_data(self.file(*file)?)?,
                Call::Stat(path, exists) => Kernel.stat(directory, path, *exists)?,
                Call::Rename(from, to) => Kernel.rename(directory, from, to)?,
                Call::Link(from, to) => Kernel.link(directory, from, to)?,
                Call::Unlink(path) => Kernel.unlink(directory, path)?,
                Call::List(path) => Kernel.list(directory, path, &mut self.listing)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::program;

    #[test]
    fn bare_and_skye_loops_run_every_mix() {
        let scratch = program::scratch_in_memory().unwrap();
        for (name, _) in MIXES {
            let mix = Mix::shipped(name);
            let tapes: Vec<_> = (0..THREADS).map(|thread| Tape::record(mix, thread as u64, 20)).collect();
            assert!(tapes.iter().all(|tape| tape.calls.len() >= 20));
            assert!(bare(mix, scratch.path(), &tapes).unwrap() > 0.0);
            assert!(through_loop(mix, scratch.path(), 20).unwrap() > 0.0);
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
