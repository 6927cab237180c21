//! Goal: the measuring loops allocate nothing while they run: every engine, verb and pacing on data, every verb on
//! bytes and on files.
//! Method: count the allocations of each thread between the start and the end of its loop, over at least twenty
//! intervals. Another thread reads the counts. All loops run at the same time: few are on a CPU at any moment, and the
//! intervals of all pass together. The simulated device has a simulated clock, and its reports on an interval are
//! allocated. Their number must be the same for ten times as many operations.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout as AllocLayout, System};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::DataEngine;
use engine::budget::UNLIMITED;
use engine::bytes::{ByteCalls, ByteWorker, RecorderTally, Span, SystemCalls};
use engine::clock::{Clock, Monotonic, Timer};
use engine::data::{Content, Verifier};
use engine::data_loop::{Calls, EngineParts, EngineUser};
use engine::files::{
    self, Client, FileLocation, Measured, NameChange, Part, Replay, Round, RoundLimits, SharedFiles,
    VisitOrder, measured,
};
use engine::names::{Kind, NameFormat, Names, Tree};
use engine::null::NullEngine;
use engine::pacing::{ClosedLoop, OpenLoop, Pacing};
use engine::pattern::{Pattern, Permutation};
use engine::recorder::{Delta, DeltaReader, INTERVAL_NS, Recorder, Shape};
use engine::sample::Sample;
use engine::sim::{SimClock, SimEngine, SimSystem, drive};
use engine::skew::Skew;
use engine::stdio::Stream;
use engine::sync::SyncEngine;
use engine::uring;
use engine::verb::{Read, Steps, Verb, Write};
use engine::worker::{Layout, Limits, Progress, Stamping, Worker, WorkerParts};
use engine::zones::{SharedZoneTimes, ZeroWriter, Zones};
use model::load::Load;
use model::sim::SimDevice;
use model::spec::{Defaults, parse};
use model::workload::{Access, DataVerb, DataWork, FileVerb, FilesWork, MixName, Naming, RequestedEngine};
use rustix::fs::MemfdFlags;

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // An ending thread has no counter any more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator. Counting allocates nothing, as the counter needs
// neither initialisation nor a destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: AllocLayout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: AllocLayout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: AllocLayout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const INTERVALS: u64 = 20;
/// Time limit: a test that never ends proves nothing.
const PATIENCE: Duration = Duration::from_secs(120);
const BLOCKS: u64 = 64;
const LAYOUT: Layout = Layout::dense(BLOCKS, 4096);
/// Low enough that the loops waiting for their operations leave the CPUs to the others.
const OPS_PER_SECOND: f64 = 200.0;
const DEPTH: u32 = 8;
const CONTENT: Content = Content { seed: 7, interval_bytes: 4096, compress_percent: 25, dedupe_percent: 10 };
/// Files of a round, in four directories.
const TREE: Tree = Tree { files: 200, dirs: 4, levels: 2 };
const NAMES: Names = TREE.plain();

/// A loop for a separate thread. Returns the number of allocations that it made while it ran.
type Loop = Box<dyn FnOnce() -> u64 + Send>;
type Loops = Vec<(String, Loop)>;

/// Reads all counts, and raises the flag after enough intervals.
fn drain(reader: DeltaReader, stop: &AtomicBool, drained: &AtomicU64) {
    let start = Instant::now();
    let count = |_: &Delta| {
        drained.fetch_add(1, Ordering::Release);
    };
    while !reader.drain_last(count) {
        if drained.load(Ordering::Relaxed) >= INTERVALS || start.elapsed() > PATIENCE {
            stop.store(true, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(2));
    }
    let intervals = drained.load(Ordering::Relaxed);
    assert!(intervals >= INTERVALS, "only {intervals} intervals in {:?}", start.elapsed());
}

fn stamping(verifier: Option<Verifier>) -> Stamping {
    let Content { seed, interval_bytes, .. } = CONTENT;
    let sample = Sample { every: 100, seed: 1 };
    Stamping { seed, first_file: 0, generation: 0, interval_bytes, verifier, sample }
}

/// A file with every block written, so that reads can be compared.
fn file() -> Arc<[OwnedFd]> {
    let file = rustix::fs::memfd_create("no-allocation", MemfdFlags::CLOEXEC).unwrap();
    let files: Arc<[OwnedFd]> = Arc::new([file]);
    let (recorder, _reader) = Recorder::new(Shape::default());
    let stop = AtomicBool::new(false);
    let worker = Worker::new(WorkerParts {
        engine: SyncEngine::new(Arc::clone(&files), 4096, Some(CONTENT)),
        clock: Monotonic,
        pacing: ClosedLoop,
        verb: Write,
        pattern: Pattern::new(0, BLOCKS, false, 1, BLOCKS),
        layout: LAYOUT,
        stamping: stamping(None),
        limits: Limits { deadline_ns: u64::MAX, stop: &stop },
        recorder,
    });
    worker.run(Monotonic.now_ns()).result.unwrap();
    files
}

fn run<E: DataEngine, P: Pacing, V: Verb>(engine: E, pacing: P, verb: V, is_verified: bool) -> u64 {
    run_pattern(engine, pacing, verb, is_verified, Pattern::new(0, BLOCKS, true, 1, u64::MAX))
}

fn run_pattern<E: DataEngine, P: Pacing, V: Verb>(
    engine: E,
    pacing: P,
    verb: V,
    is_verified: bool,
    pattern: Pattern,
) -> u64 {
    let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, P::IS_OPEN));
    let (stop, drained) = (AtomicBool::new(false), AtomicU64::new(0));
    let (flag, drained) = (&stop, &drained);
    thread::scope(|scope| {
        let mut worker = Worker::new(WorkerParts {
            engine,
            clock: Monotonic,
            pacing,
            verb,
            pattern,
            layout: LAYOUT,
            stamping: stamping(is_verified.then(|| Verifier::new(CONTENT, 0..=0))),
            limits: Limits { deadline_ns: u64::MAX, stop: &stop },
            recorder,
        });
        scope.spawn(move || drain(reader, flag, drained));
        let before = ALLOCATIONS.get();
        worker.start(Monotonic.now_ns());
        while worker.step() == Progress::Continue {}
        let allocations = ALLOCATIONS.get() - before;
        assert_eq!(worker.end().result, Ok(()));
        allocations
    })
}

/// A loop that waits for its engine.
struct Looped<P, V> {
    pacing: P,
    verb: V,
    is_verified: bool,
}

impl<P: Pacing, V: Verb> EngineUser for Looped<P, V> {
    type Output = u64;

    fn with_engine<E: DataEngine>(self, engine: E) -> u64 {
        run(engine, self.pacing, self.verb, self.is_verified)
    }
}

fn add_engines<P, V>(loops: &mut Loops, name: &str, pacing: P, verb: V)
where
    P: Pacing + Clone + Send + 'static,
    V: Verb + Clone + Send + 'static,
{
    let data = DataWork { access: Access::Random, ..DataWork::new(DataVerb::Read) };
    let can_run = |engine: &&RequestedEngine| !engine.has_ring() || uring::refusal().is_none();
    for engine in RequestedEngine::ALL.iter().filter(can_run) {
        let calls = Calls::from_work(&data, (*engine).into(), None);
        let user = Looped { pacing: pacing.clone(), verb: verb.clone(), is_verified: engine.does_io() };
        let body = move || {
            let parts = EngineParts {
                files: file(),
                block_bytes: 4096,
                depth: DEPTH,
                can_read: true,
                writes: Some(CONTENT),
            };
            calls.engine(parts, user).unwrap()
        };
        loops.push((format!("{engine}, {name}"), Box::new(body)));
    }
}

fn add_pacings<V: Verb + Clone + Send + 'static>(loops: &mut Loops, name: &str, verb: V) {
    let open = |is_poisson| OpenLoop::new(OPS_PER_SECOND, is_poisson, 0, 1, 1);
    add_engines(loops, &format!("{name}, closed"), ClosedLoop, verb.clone());
    add_engines(loops, &format!("{name}, fixed"), open(false), verb.clone());
    add_engines(loops, &format!("{name}, Poisson"), open(true), verb);
}

fn add_skews(loops: &mut Loops) {
    fn skewed<V: Verb>(verb: V, skew: Skew) -> u64 {
        let pattern = Pattern::skewed(0, BLOCKS, skew, 1, u64::MAX);
        run_pattern(NullEngine::new(DEPTH, 4096), ClosedLoop, verb, false, pattern)
    }
    let skews = [Skew::Zipf { theta: 0.99 }, Skew::Hot { ops_share: 0.9, blocks_share: 0.1 }];
    for skew in skews {
        let mut add = |name: &str, run: fn(Skew) -> u64| {
            loops.push((format!("skewed {skew:?}, {name}"), Box::new(move || run(skew))));
        };
        add("read", |skew| skewed(Read, skew));
        add("write", |skew| skewed(Write, skew));
        add("rw", |skew| skewed(Steps::mix(50, false, 3), skew));
    }
}

fn bytes<B: ByteCalls>(calls: impl FnOnce(Vec<OwnedFd>) -> B, writes: bool) -> u64 {
    // As many descriptors as files. The file in memory is the one written above.
    let files = vec![file()[0].try_clone().unwrap()];
    let (recorder, reader) = Recorder::new(Shape::default());
    let (stop, drained) = (AtomicBool::new(false), AtomicU64::new(0));
    let (flag, drained) = (&stop, &drained);
    let spans = vec![Span { file: 0, start_bytes: 0, end_bytes: BLOCKS * 4096 }];
    let content = writes.then_some(CONTENT);
    thread::scope(|scope| {
        let tally = RecorderTally { recorder, stop: flag };
        let stamping = stamping((!writes).then(|| Verifier::new(CONTENT, 0..=0)));
        let worker = ByteWorker::new(calls(files), Monotonic, tally, spans, content, stamping, u64::MAX);
        scope.spawn(move || drain(reader, flag, drained));
        let before = ALLOCATIONS.get();
        let ended = worker.run(Monotonic.now_ns(), u64::MAX);
        let allocations = ALLOCATIONS.get() - before;
        assert_eq!(ended.result, Ok(()));
        allocations
    })
}

fn add_bytes(loops: &mut Loops) {
    let mut add = |name: &str, run: fn() -> u64| loops.push((format!("bytes, {name}"), Box::new(run)));
    add("byte-write", || bytes(SystemCalls::new, true));
    add("byte-read", || bytes(SystemCalls::new, false));
    add("putc-write", || bytes(|files| Stream::<false>::new(files, true, None), true));
    add("getc-read", || bytes(|files| Stream::<false>::new(files, false, None), false));
    add("getc-read unlocked", || bytes(|files| Stream::<true>::new(files, false, None), false));
}

/// Returns zones of a block each, as many times over a file as the other loops have intervals.
fn zones<T>(zone: impl Fn(u64) -> T) -> (Vec<T>, Arc<SharedZoneTimes>) {
    let zones: Vec<_> = (0..INTERVALS * BLOCKS).map(|number| zone(number % BLOCKS)).collect();
    let time_table = Arc::new(SharedZoneTimes::new(zones.len()));
    (zones, time_table)
}

fn read_zones() -> u64 {
    let (blocks, time_table) = zones(|block| block..block + 1);
    let all = blocks.len();
    let (recorder, _reader) = Recorder::new(Shape::default());
    let stop = AtomicBool::new(false);
    let worker = Worker::new(WorkerParts {
        engine: SyncEngine::new(file(), 4096, None),
        clock: Monotonic,
        pacing: ClosedLoop,
        verb: Read,
        pattern: Pattern::new(0, 1, false, 1, 1),
        layout: LAYOUT,
        stamping: stamping(None),
        limits: Limits { deadline_ns: u64::MAX, stop: &stop },
        recorder,
    });
    let mut worker = worker.in_zones(Zones::new(blocks.into(), BLOCKS * 4096, Arc::clone(&time_table)));
    let before = ALLOCATIONS.get();
    worker.start(Monotonic.now_ns());
    while worker.step() == Progress::Continue {}
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!((worker.end().result, time_table.visited_zones()), (Ok(()), all));
    allocations
}

fn zero_zones() -> u64 {
    let (zones, time_table) = zones(|block| block * 4096..(block + 1) * 4096);
    let file = file()[0].try_clone().unwrap();
    let (moved_bytes, stop) = (Arc::default(), Arc::default());
    let writer = ZeroWriter { file, chunk_bytes: 4096, zones, time_table, moved_bytes, stop };
    let zeros = vec![0; 4096];
    let before = ALLOCATIONS.get();
    let written = writer.pass(&Monotonic, &zeros);
    let allocations = ALLOCATIONS.get() - before;
    assert_eq!((written.result, writer.time_table.visited_zones()), (Ok(()), writer.zones.len()));
    allocations
}

fn add_zones(loops: &mut Loops) {
    loops.push(("zones, read".into(), Box::new(read_zones)));
    loops.push(("zones, zeros".into(), Box::new(zero_zones)));
}

/// Files in memory, where making them durable costs nothing.
struct Files {
    directory: tempfile::TempDir,
    root: OwnedFd,
    leaves: Vec<OwnedFd>,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let open = |path: &std::path::Path| std::fs::File::open(path).unwrap().into();
        let leaf = |dir| {
            let path = directory.path().join(TREE.directory(dir));
            std::fs::create_dir_all(&path).unwrap();
            open(&path)
        };
        Self { leaves: (0..TREE.dirs).map(leaf).collect(), root: open(directory.path()), directory }
    }

    /// Runs rounds; each counts at least one interval.
    fn rounds(&self, mut one: impl FnMut(&FileLocation<'_>, &mut Recorder, RoundLimits<'_>) -> Round) -> u64 {
        let place = FileLocation { directory: self.root.as_fd(), leaves: &self.leaves, tree: TREE };
        let (mut recorder, reader) = Recorder::new(Shape::closed(STEPS_MAX));
        let (stop, drained) = (AtomicBool::new(false), AtomicU64::new(0));
        let (flag, drained) = (&stop, &drained);
        let never = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(move || drain(reader, flag, drained));
            let mut allocations = 0;
            for rounds in 1..=INTERVALS {
                let before = ALLOCATIONS.get();
                let round = one(
                    &place,
                    &mut recorder,
                    RoundLimits { deadline_ns: u64::MAX, stop: &never, budget: &UNLIMITED },
                );
                allocations += ALLOCATIONS.get() - before;
                assert_eq!((round.result, round.done > 0), (Ok(()), true));
                // Waiting for a late reader is not part of a round.
                while drained.load(Ordering::Acquire) < rounds {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            drop(recorder);
            allocations
        })
    }

    /// Runs verbs in turn, the first one with the files that only it knows.
    fn turns(&self, verbs: &mut [Box<dyn Measured>], mut before: impl FnMut()) -> u64 {
        let place = FileLocation { directory: self.root.as_fd(), leaves: &self.leaves, tree: TREE };
        let limits = RoundLimits { deadline_ns: u64::MAX, stop: &AtomicBool::new(false), budget: &UNLIMITED };
        if let Some((made, _)) = verbs[0].populate(&place, limits) {
            assert_eq!(made.result, Ok(()));
        }
        // Links are made after their original.
        let order = (verbs.len() == 1).then(|| Permutation::new(TREE.files, 3));
        let visits = VisitOrder { first: 0, files: TREE.files, order };
        let (all, mut turn) = (verbs.len(), 0);
        self.rounds(|place, recorder, limits| {
            // Work between rounds is not part of the loop.
            let allocations = ALLOCATIONS.get();
            before();
            ALLOCATIONS.set(allocations);
            let verb = &mut verbs[turn % all];
            turn += 1;
            // On a busy machine, a thread that waits for a flow may sleep past the end of a short round.
            loop {
                let deadline_ns = Monotonic.now_ns() + ROUND_NS;
                let limits = RoundLimits { deadline_ns, ..limits };
                let round = verb.round(place, visits, &Timer::Kernel, recorder, limits);
                if round.done > 0 || round.result.is_err() {
                    break round;
                }
            }
        })
    }

    /// Makes the whole set, with directories that are missing.
    fn make(&self, names: Names, content: &[u8]) {
        for dir in 0..TREE.dirs {
            std::fs::create_dir_all(self.directory.path().join(TREE.directory(dir))).unwrap();
        }
        for file in 0..TREE.files {
            let path = names.path(file);
            std::fs::write(self.directory.path().join(path.to_str().unwrap()), content).unwrap();
        }
    }
}

/// Most steps that a verb has.
const STEPS_MAX: usize = 24;
/// Longest time of a round: only that of flows at a rate lasts so long.
const ROUND_NS: u64 = 10_000_000_000;
/// Bytes of a file of a set: more than the smallest chunk, so that there are several calls.
const FILE_BYTES: usize = 264;

fn work_of(spec: &str) -> FilesWork {
    parse(spec, &Defaults::default()).unwrap().files().unwrap().clone()
}

fn names_of(naming: Naming) -> Names {
    Names { tree: TREE, spelling: NameFormat::new(naming, 7) }
}

fn verb(spec: &str) -> Box<dyn Measured> {
    let work = work_of(spec);
    let FilesWork { size_min_bytes, size_max_bytes, chunk_bytes, naming, .. } = work;
    let content = || files::Content::new(size_min_bytes, size_max_bytes, chunk_bytes, 9, 0);
    let content = (size_max_bytes > 0).then(content);
    measured(&work, Part::single_thread(names_of(naming), content, 5))
}

/// Runs flows over as few files as they need, with those of another thread if they are shared, and at a rate.
fn mixed(spec: &str) -> u64 {
    let work = work_of(spec);
    let mix = work.mix().unwrap();
    let files = mix.files_min() + 1;
    let shared = work.shared.then(|| Arc::new(SharedFiles::new(2, files, mix.created())));
    let pacing = work.shared.then(|| OpenLoop::new(10_000.0, true, 0, 1, 3));
    let part = Part { files, shared, pacing, ..Part::single_thread(NAMES, None, 5) };
    Files::new().turns(&mut [measured(&work, part)], || ())
}

fn add_mixes(loops: &mut Loops) {
    for name in MixName::ALL {
        loops.push((format!("mix {name}"), Box::new(move || mixed(&format!("mix:{name}")))));
    }
    loops.push(("mix, shared, at a rate".into(), Box::new(|| mixed("mix:mail:t2:shared"))));
    // A load with every operation.
    let replayed = || {
        let load = Load::parse(include_str!("../src/files/replay/all.txt")).unwrap();
        let replay = Replay::new(load.into(), Client { number: 0, count: 1 }, true, 1, 5);
        Files::new().turns(&mut [Box::new(replay)], || ())
    };
    loops.push(("replay".into(), Box::new(replayed)));
}

/// Adds a loop on a set that is there, of verbs in turn.
fn add_on_set(loops: &mut Loops, specs: Vec<String>) {
    let name = format!("files, {}", specs.join(", "));
    let run = move || {
        let files = Files::new();
        files.make(names_of(work_of(&specs[0]).naming), &[b'x'; FILE_BYTES]);
        let mut verbs: Vec<_> = specs.iter().map(|spec| verb(spec)).collect();
        files.turns(&mut verbs, || ())
    };
    loops.push((name, Box::new(run)));
}

fn has_loop(loops: &Loops, word: &str) -> bool {
    loops.iter().any(|(name, _)| name.split([' ', ',', ':']).any(|part| part == word))
}

/// Adds the loops of verbs without one. If they change names, a loop must be added above.
fn add_other_verbs(loops: &mut Loops) {
    let others: Vec<_> = FileVerb::ALL.iter().filter(|verb| !has_loop(loops, verb.word())).collect();
    for verb in others {
        add_on_set(loops, vec![verb.to_string()]);
        if verb.can_follow_directory() {
            add_on_set(loops, vec![format!("{verb}:order=dir")]);
        }
    }
}

fn add_files(loops: &mut Loops) {
    // In a new directory, the second verb undoes the first.
    for specs in [
        ["create", "unlink"],
        ["create:size=100..5000:chunk=1000:sync=each", "unlink:sync=each"],
        ["create:names=letters-first", "unlink:names=letters-first"],
        ["create:kind=hardlink", "unlink"],
        ["create:kind=symlink:names=letters-first:sync=each", "unlink:names=letters-first"],
        ["create", "unlink:order=dir:sync=each"],
        ["mkdir:sync=each", "rmdir"],
    ] {
        let run = move || Files::new().turns(&mut specs.map(verb), || ());
        loops.push((format!("files, {}, {}", specs[0], specs[1]), Box::new(run)));
    }
    // On a set that is there, alone or in turn.
    for specs in [
        &["stat"][..],
        &["stat:missing"],
        &["stat:names=number-first"],
        &["stat:order=dir"],
        &["stat:contents:size=264:chunk=256"],
        &["stat:contents:size=264:chunk=256:order=dir"],
        &["open"],
        &["open:missing"],
        &["open:names=letters-first:kind=symlink:order=dir"],
        &["unlink:missing"],
        &["read-file:size=264:chunk=256"],
        &["read-file:size=1..264:chunk=256:order=dir"],
        &["append:sync=each"],
        &["append:order=dir"],
        &["truncate:size=264:sync=each", "append:chunk=256"],
        &["xattr-set:sync=each", "xattr-get"],
        &["xattr-set:order=dir", "xattr-get:order=dir"],
    ] {
        add_on_set(loops, specs.iter().map(|spec| (*spec).to_owned()).collect());
    }
    // New names beside those of a set, and their removal.
    for (spec, kind) in [
        ("link", Kind::Link),
        ("symlink:sync=each", Kind::Symlink),
        ("copy:size=264:chunk=256:sync=each", Kind::Copy),
        ("copy:size=264:chunk=256:by=copy-range", Kind::Copy),
    ] {
        let run = move || {
            let files = Files::new();
            files.make(NAMES, &[b'x'; FILE_BYTES]);
            files.turns(&mut [verb(spec), Box::new(NameChange::unlink(NAMES, kind, false))], || ())
        };
        loops.push((format!("files, {spec}"), Box::new(run)));
    }
    let mut add = |name: &str, run: fn() -> u64| loops.push((format!("files, {name}"), Box::new(run)));
    add("rename", || {
        let files = Files::new();
        files.make(NAMES, b"");
        let back = NameChange::rename(NAMES, [Kind::Renamed, Kind::File], true);
        files.turns(&mut [verb("rename"), Box::new(back)], || ())
    });
    add("readlink", || {
        let files = Files::new();
        for file in 0..TREE.files {
            let path = NAMES.path(file);
            std::os::unix::fs::symlink("there", files.directory.path().join(path.to_str().unwrap())).unwrap();
        }
        files.turns(&mut [verb("readlink")], || ())
    });
    add("remove:sync=each", || {
        let files = Files::new();
        files.turns(&mut [verb("remove:sync=each")], || files.make(NAMES, b""))
    });
}

/// Returns the allocations and the operations of [`INTERVALS`] intervals, on a device that makes `ops_per_second`.
fn simulated(ops_per_second: u64) -> (u64, u64) {
    let text = format!(
        "parallelism = 4\nops_per_second = {ops_per_second}\nlatency = {{ kind = \"exponential\", mean_us = 9 }}"
    );
    let world = Rc::new(RefCell::new(SimSystem::new(&SimDevice::from_toml(&text).unwrap(), 2, 7).unwrap()));
    let clock = SimClock::default();
    let (recorder, reader) = Recorder::new(Shape::from_verb(&Write, false));
    let stop = AtomicBool::new(false);
    let worker = Worker::new(WorkerParts {
        engine: SimEngine::new(&world, &clock, DEPTH, 4096),
        clock: clock.clone(),
        pacing: ClosedLoop,
        verb: Write,
        pattern: Pattern::new(0, BLOCKS, true, 1, u64::MAX),
        layout: LAYOUT,
        stamping: stamping(None),
        limits: Limits { deadline_ns: INTERVALS * INTERVAL_NS, stop: &stop },
        recorder,
    });
    let mut ops = 0;
    let before = ALLOCATIONS.get();
    drive(vec![worker], &clock, &world, 0, &mut |_, _| reader.drain(|delta| ops += delta.ops));
    let allocations = ALLOCATIONS.get() - before;
    reader.drain(|delta| ops += delta.ops);
    (allocations, ops)
}

#[test]
fn operations_of_a_simulated_device_allocate_nothing() {
    let ((few, fewer_ops), (many, more_ops)) = (simulated(5_000), simulated(50_000));
    assert!(more_ops > 9 * fewer_ops, "{fewer_ops}, {more_ops}");
    assert_eq!(few, many);
}

#[test]
fn waiting_for_a_late_reader_allocates_nothing() {
    let (mut recorder, reader) = Recorder::new(Shape::default());
    let is_waiting = &AtomicBool::new(false);
    let (allocations, ops) = thread::scope(|scope| {
        let reading = scope.spawn(move || {
            // By then all deltas of the worker are under way.
            while !is_waiting.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(20));
            let mut ops = 0;
            while !reader.drain_last(|delta| ops += delta.ops) {
                thread::sleep(Duration::from_millis(1));
            }
            ops
        });
        let before = ALLOCATIONS.get();
        for round in 0..5 {
            recorder.operation(1000, 4096);
            // By now the reader is as far behind as it may be.
            is_waiting.fetch_or(round == 2, Ordering::Release);
            recorder.flush(round);
        }
        let allocations = ALLOCATIONS.get() - before;
        drop(recorder);
        (allocations, reading.join().unwrap())
    });
    assert_eq!((allocations, ops), (0, 5));
}

#[test]
fn measuring_loops_do_not_allocate() {
    let mut loops = Loops::new();
    add_pacings(&mut loops, "read", Read);
    add_pacings(&mut loops, "write", Write);
    add_pacings(&mut loops, "rewrite", Steps::REWRITE);
    add_pacings(&mut loops, "rewrite and reread", Steps::REWRITE_AND_REREAD);
    add_pacings(&mut loops, "fsync", Steps::WRITE_DURABLY);
    add_pacings(&mut loops, "rewrite durably", Steps::REWRITE_DURABLY);
    add_pacings(&mut loops, "discard", Steps::DISCARD);
    add_pacings(&mut loops, "discard durably", Steps::DISCARD_DURABLY);
    add_pacings(&mut loops, "rw", Steps::mix(50, false, 3));
    add_pacings(&mut loops, "rw durably", Steps::mix(50, true, 3));
    add_pacings(&mut loops, "rw with update", Steps::update(50, false, 3));
    add_skews(&mut loops);
    add_bytes(&mut loops);
    add_zones(&mut loops);
    add_files(&mut loops);
    add_mixes(&mut loops);
    add_other_verbs(&mut loops);
    for verb in DataVerb::ALL {
        assert!(has_loop(&loops, verb.word()), "no loop of {verb}");
    }
    let threads: Vec<_> = loops.into_iter().map(|(name, run)| (name, thread::spawn(run))).collect();
    let mut allocating = Vec::new();
    for (name, thread) in threads {
        match thread.join().unwrap_or_else(|_| panic!("{name} failed")) {
            0 => {}
            allocations => allocating.push(format!("{name}: {allocations}")),
        }
    }
    assert!(allocating.is_empty(), "{allocating:#?}");
    // Check that the counter counts at all.
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
