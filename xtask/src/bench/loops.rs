//! Loops that can be run one at a time, so many operations long, in a process with a single thread and nothing else:
//! `xtask loop NAME OPS [FILE]`. What looks at them from outside is [`super::instructions`].

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, ensure};
use engine::DataEngine;
use engine::clock::{Clock, Monotonic, Tsc};
use engine::null::NullEngine;
use engine::pacing::ClosedLoop;
use engine::recorder::{DeltaReader, Recorder};
use engine::sim::{SimClock, SimEngine, World, drive};
use engine::sync::SyncEngine;
use engine::uring::{Options, UringEngine};
use engine::verb::{Read, Verb, Write};
use engine::worker::{Limits, Worker};
use model::sim::SimDevice;
use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::bytes;
use super::looped::{CONTENT, SEED, Work, worker};
use crate::Usage;

/// One loop.
#[derive(Debug)]
pub struct Loop {
    /// Name on the command line, and in `instructions.toml`.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// Whether it needs io_uring.
    pub is_ring: bool,
    run: Run,
}

type Run = fn(u64, Option<&Path>) -> Result<()>;

impl Loop {
    const fn new(name: &'static str, does: &'static str, run: Run) -> Self {
        Self { name, does, is_ring: false, run }
    }

    const fn ring(name: &'static str, does: &'static str, run: Run) -> Self {
        Self { name, does, is_ring: true, run }
    }

    /// Whether this machine can run it.
    pub fn runs_here(&self) -> bool {
        !self.is_ring || engine::uring::refusal().is_none()
    }
}

/// Every loop; a new one is one line here and one function below.
pub const LOOPS: &[Loop] = &[
    Loop::new("null-32", "reads nothing, depth 32", |ops, _| null(32, ops)),
    Loop::new("null-1", "reads nothing, depth 1", |ops, _| null(1, ops)),
    Loop::new("sim-32", "reads of a simulated device, depth 32", |ops, _| sim(32, ops)),
    Loop::ring("nop-32", "requests of a ring that do nothing, depth 32", |ops, _| nop(32, ops)),
    Loop::ring("ring-32", "reads by a ring, depth 32", |ops, file| ring(32, ops, file)),
    Loop::new("sync-read", "reads by pread", sync_read),
    Loop::new("sync-write", "stamped writes by pwrite", |ops, _| sync_write(ops)),
];

/// The file, where a loop has one and none is given.
const SIZE_BYTES: u64 = 64 << 20;

/// Runs the loop that the command line names.
///
/// # Errors
/// Where there is no such loop, and where it fails.
pub fn command(arguments: &[String]) -> Result<bool> {
    let usage = || {
        let bytes = bytes::PAIRS.iter().map(|pair| pair.name);
        let names: Vec<_> = LOOPS.iter().map(|known| known.name).chain(bytes).collect();
        Usage(format!("loop NAME OPS [FILE]; NAME is one of {}", names.join(", ")))
    };
    let (name, ops, file) = match arguments {
        [name, ops] => (name, ops, None),
        [name, ops, file] => (name, ops, Some(Path::new(file))),
        _ => return Err(usage().into()),
    };
    let ops = ops.parse().map_err(|_| usage())?;
    let known = LOOPS.iter().find(|known| known.name == name).map(|known| (known.run)(ops, file));
    known.or_else(|| bytes::run_loop(name, ops)).ok_or_else(usage)??;
    Ok(true)
}

fn null(depth: u32, ops: u64) -> Result<()> {
    finish(NullEngine::new(depth, 4096), Read, Work::random_4k(SIZE_BYTES, ops))
}

/// The loop, the device and the clock between them.
fn sim(depth: u32, ops: u64) -> Result<()> {
    const DEVICE: &str = "parallelism = 8\nlatency = { kind = \"exponential\", mean_us = 80 }";
    let device = SimDevice::from_toml(DEVICE).map_err(|problem| anyhow!(problem))?;
    let world = World::new(&device, 1, SEED).map_err(|problem| anyhow!(problem))?;
    let (world, clock) = (Rc::new(RefCell::new(world)), SimClock::default());
    let engine = SimEngine::new(&world, &clock, depth, 4096);
    let work = Work::random_4k(SIZE_BYTES, ops);
    let (recorder, reader) = Recorder::new(Worker::<SimEngine, SimClock, ClosedLoop, Read>::SHAPE);
    let stop = AtomicBool::new(false);
    let limits = Limits { deadline_ns: u64::MAX, stop: &stop };
    let worker = worker(engine, clock.clone(), ClosedLoop, Read, work, limits, recorder);
    let ended = drive(vec![worker], &clock, &world, 0, &mut |_, _| ());
    let ended = ended.first().context("a worker that ended")?;
    ended.result.map_err(|failure| anyhow!("{failure:?}"))?;
    all_counted(&reader, ops)
}

fn nop(depth: u32, ops: u64) -> Result<()> {
    let engine = UringEngine::<true>::new(Arc::new([]), 4096, depth, false, None, Options::default());
    finish(engine.context("make a ring")?, Read, Work::random_4k(SIZE_BYTES, ops))
}

fn ring(depth: u32, ops: u64, path: Option<&Path>) -> Result<()> {
    let (files, size_bytes) = file(path)?;
    let engine = UringEngine::<false>::new(files, 4096, depth, true, None, Options::default());
    finish(engine.context("make a ring")?, Read, Work::random_4k(size_bytes, ops))
}

fn sync_read(ops: u64, path: Option<&Path>) -> Result<()> {
    let (files, size_bytes) = file(path)?;
    finish(SyncEngine::new(files, 4096, None), Read, Work::random_4k(size_bytes, ops))
}

fn sync_write(ops: u64) -> Result<()> {
    // Never into a file that somebody names.
    let (files, size_bytes) = file(None)?;
    finish(SyncEngine::new(files, 4096, Some(CONTENT)), Write, Work::random_4k(size_bytes, ops))
}

/// A file in memory, or the one that is given, read directly; and its size.
fn file(path: Option<&Path>) -> Result<(Arc<[OwnedFd]>, u64)> {
    let file = match path {
        Some(path) => {
            let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
                .with_context(|| format!("open {}", path.display()))?
        }
        None => {
            let file = rustix::fs::memfd_create("skye-bench", MemfdFlags::CLOEXEC)
                .context("make a file in memory")?;
            rustix::fs::ftruncate(&file, SIZE_BYTES).context("give it a size")?;
            file
        }
    };
    let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).context("ask for its size")?;
    Ok((Arc::new([file]), size_bytes))
}

fn finish<E: DataEngine, V: Verb>(engine: E, verb: V, work: Work) -> Result<()> {
    match Tsc::calibrate() {
        Some(tsc) => with_clock(engine, tsc, verb, work),
        None => with_clock(engine, Monotonic, verb, work),
    }
}

/// Nobody reads what is counted: a reader would be a second thread. The worker goes on counting into what it has.
fn with_clock<E: DataEngine, C: Clock, V: Verb>(engine: E, clock: C, verb: V, work: Work) -> Result<()> {
    let (recorder, reader) = Recorder::new(Worker::<E, C, ClosedLoop, V>::SHAPE);
    let stop = AtomicBool::new(false);
    let limits = Limits { deadline_ns: u64::MAX, stop: &stop };
    let ended = worker(engine, clock, ClosedLoop, verb, work, limits, recorder).run(Monotonic.now_ns());
    ended.result.map_err(|failure| anyhow!("{failure:?}"))?;
    all_counted(&reader, work.ops)
}

fn all_counted(reader: &DeltaReader, ops: u64) -> Result<()> {
    let mut counted = 0;
    reader.drain(|delta| counted += delta.ops);
    ensure!(counted == ops, "{counted} operations counted of {ops}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_runs_and_unknown_ones_are_refused() {
        for known in LOOPS.iter().filter(|known| known.runs_here()) {
            assert!(command(&[known.name.into(), "1000".into()]).unwrap(), "{}", known.does);
        }
        for pair in bytes::PAIRS {
            for name in [pair.name.to_owned(), format!("bare-{}", pair.name)] {
                assert!(command(&[name.clone(), "10000".into()]).unwrap(), "{name}");
            }
        }
        for words in [&["null-32"][..], &["nothing", "7"], &["null-32", "many"]] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert!(command(&words).unwrap_err().is::<Usage>(), "{words:?}");
        }
    }
}
