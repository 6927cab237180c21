//! Goal: a snapshot and a sample allocate nothing, whatever the number of watched threads. Method: count the
//! allocations of this whole process; so there is one test in this file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use model::Target;
use observe::{Flows, Identity, Probe, Root, StepReader, SystemSampler, Waits, resolve, target};

struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator; counting does not alter it.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const THREADS: usize = 128;
const SNAPSHOTS: u32 = 50;

/// Returns a machine with a server whose requests are sampled.
#[allow(clippy::unwrap_used)]
fn sshfs() -> (Root, Target) {
    let root = Root::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sshfs"));
    let identity = Identity { path: "/mnt/remote".into(), minor: 53, ..Identity::default() };
    let target = resolve(&root, &identity).unwrap();
    (root, target)
}

#[test]
fn snapshots_and_samples_do_not_allocate() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&Root::system(), directory.path()).unwrap();
    let sshfs = sshfs();
    let mut probe = Probe::open(&Root::system(), &target.device_stack);
    let mut sampler = SystemSampler::open(&Root::system(), &target);
    let mut flows = Flows::open(&sshfs.0, &sshfs.1.layers);
    let mut waits = Waits::open(&Root::system());
    let (numbers, received) = channel();
    let workers: Vec<_> = (0..THREADS)
        .map(|_| {
            let numbers = numbers.clone();
            let worker = move || {
                numbers.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                std::thread::park();
            };
            std::thread::spawn(worker)
        })
        .collect();
    let tids: Vec<i32> = (0..THREADS).map(|_| received.recv().unwrap()).collect();
    for tid in &tids {
        probe.watch_thread(*tid);
    }
    // Only half are watched, so that the others must be distinguished from ring threads.
    waits.count_calls(true);
    waits.watch(&tids[..THREADS / 2]);
    let step = |tid: &i32| -> (i32, StepReader) { (*tid, Box::new(|| Some(1))) };
    waits.watch_steps(&["create", "read"], tids[..THREADS / 4].iter().map(step));
    sampler.begin(true);
    flows.begin();
    let mut snapshot = probe.new_snapshot();
    probe.snapshot(&mut snapshot);
    let mut shortest = Duration::MAX;
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..SNAPSHOTS {
        let start = Instant::now();
        probe.snapshot(&mut snapshot);
        shortest = shortest.min(start.elapsed());
    }
    let mut sample_durations = [Duration::MAX; 2];
    for _ in 0..SNAPSHOTS {
        let start = Instant::now();
        waits.sample();
        sample_durations[0] = sample_durations[0].min(start.elapsed());
        let start = Instant::now();
        flows.sample();
        sample_durations[1] = sample_durations[1].min(start.elapsed());
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocations, 0);
    let by_step: u64 = waits.sites().iter().flat_map(|site| &site.operations).map(|one| one.samples).sum();
    assert!(by_step > 0 || waits.hidden().is_some());
    // The bound is ten times the expected time: it catches a mistake of kind, not a busy machine.
    assert!(shortest < Duration::from_millis(5), "{shortest:?} for {THREADS} threads");
    println!("shortest snapshot of {THREADS} threads: {shortest:?}");
    let mut around = [Duration::MAX; 2];
    for _ in 0..SNAPSHOTS {
        let start = Instant::now();
        sampler.end();
        around[1] = around[1].min(start.elapsed());
        let start = Instant::now();
        sampler.begin(true);
        around[0] = around[0].min(start.elapsed());
    }
    println!(
        "shortest inspect {THREADS} threads, at a server: {sample_durations:?}; beginning, ending: {around:?}"
    );
    for worker in workers {
        worker.thread().unpark();
        worker.join().unwrap();
    }
}
