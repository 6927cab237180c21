//! The engine's measuring loops, each in a process with a single thread and nothing else: `loops NAME OPS [FILE]`.
//!
//! Callgrind counts their instructions (`cargo xtask bench instructions bytes`). The crate is small, so that a test
//! can build it in the release profile.

mod bare_bytes;
mod bytes;
mod work;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, ensure};
use engine::budget::UNLIMITED;
use engine::call_flags::CallFlags;
use engine::clock::{Clock, Timer};
use engine::data_loop::{Calls, DataLoop};
use engine::files::{self, FileLocation, FileOps, Flows, Part, RoundLimits, VisitOrder, measured, round};
use engine::names::Tree;
use engine::recorder::{DeltaReader, Recorder, Shape};
use engine::sim::{SimClock, SimLoop, SimSystem};
use engine::uring::Options;
use engine::verb::Steps;
use engine::worker::{Layout, Limits, Stamping};
use model::mix::{Mix, Operation};
use model::sim::SimDevice;
use model::spec::{Defaults, parse};
use model::workload::MixName;
use rustix::fs::{AtFlags, MemfdFlags, Mode, OFlags};

pub use bytes::{BYTE_LOOPS, ByteLoop};
pub use work::{CONTENT, SEED, Work, worker};

/// One loop.
#[derive(Debug)]
pub struct Loop {
    /// Name on the command line, and in `instructions.toml`.
    pub name: &'static str,
    /// Description of the work.
    pub does: &'static str,
    /// True if the loop needs io_uring.
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

    /// True if this machine can run the loop.
    pub fn runs_here(&self) -> bool {
        !self.is_ring || engine::uring::refusal().is_none()
    }
}

/// All loops; a new one is one line here and one function below.
pub const LOOPS: &[Loop] = &[
    Loop::new("null-32", "reads nothing, depth 32", |ops, _| null(32, ops)),
    Loop::new("null-1", "reads nothing, depth 1", |ops, _| null(1, ops)),
    Loop::new("sim-32", "reads of a simulated device, depth 32", |ops, _| sim(32, ops)),
    Loop::ring("nop-32", "requests of a ring that do nothing, depth 32", |ops, _| nop(32, ops)),
    Loop::ring("ring-32", "reads by a ring, depth 32", |ops, file| ring(32, ops, file)),
    Loop::new("sync-read", "reads by pread", sync_read),
    Loop::new("sync-write", "stamped writes by pwrite", |ops, _| sync_write(ops)),
    Loop::new("sync-rw", "reads by pread and stamped writes by pwrite, by turns at random", |ops, _| {
        sync_rw(ops)
    }),
    Loop::new("mapped-read", "reads through a mapping", |ops, _| mapped_read(ops)),
    Loop::new("stat", "look-ups of files in memory, 1,000 a round", |ops, _| rounds(&["stat"], ops)),
    Loop::new("create-unlink", "files made in memory, and then removed", |ops, _| {
        rounds(&["create", "unlink"], ops)
    }),
    Loop::new("mix-home", "operations of a mix that make no calls", |ops, _| mix(MixName::Home, ops)),
    Loop::new("mix-build", "operations of a mix that writes more", |ops, _| mix(MixName::Build, ops)),
];

/// Size of the file, if a loop has one and none is given.
const SIZE_BYTES: u64 = 64 << 20;

/// Runs the loop of that name: one of [`LOOPS`], one of [`BYTE_LOOPS`], or a bare one of these (`bare-NAME`). Returns
/// `None` if there is none.
pub fn run(name: &str, ops: u64, file: Option<&Path>) -> Option<Result<()>> {
    let known = LOOPS.iter().find(|known| known.name == name);
    known.map(|known| (known.run)(ops, file)).or_else(|| bytes::run(name, ops))
}

fn null(depth: u32, ops: u64) -> Result<()> {
    finish(Calls::Null, Steps::READ, depth, Arc::new([]), Work::random_4k(SIZE_BYTES, ops))
}

/// Runs the loop, the device and the clock between them.
fn sim(depth: u32, ops: u64) -> Result<()> {
    const DEVICE: &str = "parallelism = 8\nlatency = { kind = \"exponential\", mean_us = 80 }";
    let device = SimDevice::from_toml(DEVICE).map_err(|problem| anyhow!(problem))?;
    let world = SimSystem::new(&device, 1, SEED).map_err(|problem| anyhow!(problem))?;
    let work = Work::random_4k(SIZE_BYTES, ops);
    let (recorder, reader) = Recorder::new(Shape::default());
    let stop = AtomicBool::new(false);
    let sim_loop = SimLoop {
        verb: Steps::READ,
        pacing: None,
        block_bytes: work.block_bytes,
        iodepth: depth,
        pattern: work.pattern(),
        zones: None,
        layout: Layout::dense(work.blocks, work.block_bytes),
        seed: SEED,
        limits: Limits { deadline_ns: u64::MAX, stop: &stop },
        recorder,
    };
    let world = Rc::new(RefCell::new(world));
    let ended = engine::sim::run(vec![sim_loop], &SimClock::default(), &world, &mut |_, _| ());
    let ended = ended.first().context("a worker that ended")?;
    ended.result.map_err(|failure| anyhow!("{failure:?}"))?;
    all_counted(&reader, ops)
}

fn nop(depth: u32, ops: u64) -> Result<()> {
    let calls = Calls::Nop(Options::default());
    finish(calls, Steps::READ, depth, Arc::new([]), Work::random_4k(SIZE_BYTES, ops))
}

fn ring(depth: u32, ops: u64, path: Option<&Path>) -> Result<()> {
    // A ring may wait for a file in memory: that depends on the kernel threads that read it. Zeros come at once.
    let zeros = || rustix::fs::open("/dev/zero", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let (files, size_bytes) = match path {
        Some(_) => file(path)?,
        None => (Arc::from([zeros().context("open /dev/zero")?]), SIZE_BYTES),
    };
    finish(Calls::Ring(Options::default()), Steps::READ, depth, files, Work::random_4k(size_bytes, ops))
}

fn sync_read(ops: u64, path: Option<&Path>) -> Result<()> {
    let (files, size_bytes) = file(path)?;
    finish(Calls::Sync(CallFlags::NONE), Steps::READ, 1, files, Work::random_4k(size_bytes, ops))
}

fn sync_write(ops: u64) -> Result<()> {
    // It never writes into a file that the user names.
    let (files, size_bytes) = file(None)?;
    finish(Calls::Sync(CallFlags::NONE), Steps::WRITE, 1, files, Work::random_4k(size_bytes, ops))
}

/// Runs the loop of verbs that are a table.
fn sync_rw(ops: u64) -> Result<()> {
    let (files, size_bytes) = file(None)?;
    finish(
        Calls::Sync(CallFlags::NONE),
        Steps::mix(50, false, SEED),
        1,
        files,
        Work::random_4k(size_bytes, ops),
    )
}

fn mapped_read(ops: u64) -> Result<()> {
    let (files, size_bytes) = file(None)?;
    finish(Calls::Mapped { is_random: true }, Steps::READ, 1, files, Work::random_4k(size_bytes, ops))
}

/// Makes about `ops` operations of a mix, in whole flows.
fn mix(name: MixName, ops: u64) -> Result<()> {
    let mix = Mix::shipped(name);
    let population = &mix.population;
    let tree = Tree { files: population.files, dirs: population.dirs, levels: population.levels };
    let mut flows = Flows::without_calls(mix, population.files, tree, SEED);
    let stop = AtomicBool::new(false);
    let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &UNLIMITED };
    // No call reaches it.
    let place = FileLocation { directory: rustix::fs::CWD, leaves: &[], tree };
    flows.populate(&place, limits);
    let (mut recorder, _) = Recorder::new(Shape::closed(Operation::STEPS.len()));
    let weights: u64 = mix.flows.iter().map(|flow| flow.weight).sum();
    let operations: u64 = mix.flows.iter().map(|flow| flow.weight * flow.operations.len() as u64).sum();
    let visits = VisitOrder::in_sequence(0, ops * weights / operations);
    let timer = Timer::best().anchored();
    let round = round(&mut flows, &place, visits, &timer, &mut recorder, limits);
    round.result.map_err(|failure| anyhow!("{failure:?}"))?;
    ensure!(round.done == visits.files, "{} flows made of {}", round.done, visits.files);
    Ok(())
}

/// Files of a round over a set.
const FILES: u64 = 1000;

/// Makes rounds of verbs in turn until each has made `ops` operations, in a new directory in memory.
fn rounds(specs: &[&str], ops: u64) -> Result<()> {
    // Elsewhere they take longer, but no more instructions of the loop.
    let parent = rustix::fs::open("/dev/shm", DIRECTORY_FLAGS, Mode::empty())
        .or_else(|_| rustix::fs::open(std::env::temp_dir(), DIRECTORY_FLAGS, Mode::empty()));
    let parent = parent.context("open a directory for files")?;
    let name = format!("skye-loops.{}", std::process::id());
    rustix::fs::mkdirat(&parent, &name, Mode::RWXU).context("create a directory")?;
    let made = rustix::fs::openat(&parent, &name, DIRECTORY_FLAGS, Mode::empty());
    let ended = made.context("open it").and_then(|directory| turns(specs, ops, directory.as_fd()));
    rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR).context("remove the directory")?;
    ended
}

fn turns(specs: &[&str], ops: u64, directory: BorrowedFd<'_>) -> Result<()> {
    let tree = Tree { files: FILES, dirs: 1, levels: 1 };
    let place = FileLocation { directory, leaves: &[], tree };
    let (stop, timer) = (AtomicBool::new(false), Timer::best().anchored());
    let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &UNLIMITED };
    let parsed = |spec: &str| {
        let workload = parse(spec, &Defaults::default()).map_err(|refusal| anyhow!("{refusal:?}"))?;
        workload.files().cloned().context("a verb on files")
    };
    let verb = |spec: &str| Ok(measured(&parsed(spec)?, Part::single_thread(tree.plain(), None, SEED)));
    let (mut recorder, _) = Recorder::new(Shape::from(&parsed(specs[0])?.steps()[..]));
    let mut turn = |verb: &mut dyn files::Measured| {
        let visits = VisitOrder::in_sequence(0, FILES);
        let round = verb.round(&place, visits, &timer, &mut recorder, limits);
        round.result.map_err(|failure| anyhow!("{failure:?}"))
    };
    let mut verbs = specs.iter().copied().map(verb).collect::<Result<Vec<_>>>()?;
    let makes = specs.contains(&"create");
    if !makes {
        turn(&mut *verb("create")?)?;
    }
    for _ in 0..ops / FILES {
        verbs.iter_mut().try_for_each(|verb| turn(&mut **verb))?;
    }
    if makes { Ok(()) } else { turn(&mut *verb("unlink")?) }
}

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the given file for direct reads, or makes one in memory; also returns its size.
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

/// Runs the work through the program's loop, with the clock that it would choose. Reads the counts only after it: a
/// reader would be a second thread. The worker keeps counting into the memory that it has.
fn finish(calls: Calls, verb: Steps, iodepth: u32, files: Arc<[OwnedFd]>, work: Work) -> Result<()> {
    let timer = Timer::best().anchored();
    let data_loop = DataLoop {
        calls,
        verb,
        pacing: None,
        files,
        content: Some(CONTENT),
        block_bytes: work.block_bytes,
        iodepth,
        pattern: work.pattern(),
        zones: None,
        layout: Layout::dense(work.blocks, work.block_bytes),
        stamping: Stamping::unverified(SEED),
        timer,
    };
    let (recorder, reader) = Recorder::new(data_loop.shape());
    let stop = AtomicBool::new(false);
    let limits = Limits { deadline_ns: u64::MAX, stop: &stop };
    let ready = data_loop.ready().map_err(|failure| anyhow!("{failure:?}"))?;
    ready.run(timer.now_ns(), limits, recorder).result.map_err(|failure| anyhow!("{failure:?}"))?;
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
    fn every_loop_runs() {
        for known in LOOPS.iter().filter(|known| known.runs_here()) {
            run(known.name, 1000, None).unwrap().unwrap();
        }
        for known in BYTE_LOOPS {
            for name in [known.name.to_owned(), format!("bare-{}", known.name)] {
                run(&name, 10_000, None).unwrap().unwrap();
            }
        }
        assert!(run("nothing", 7, None).is_none());
    }
}
