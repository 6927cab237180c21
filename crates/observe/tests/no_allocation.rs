//! Goal: a snapshot allocates nothing, however many threads are watched.
//! Method: count what the allocator of this whole process hands out; so there is one test in this file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use observe::{Probe, Root, target};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it is; counting changes nothing about it.
unsafe impl GlobalAlloc for Counting {
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
static ALLOCATOR: Counting = Counting;

const THREADS: usize = 128;
const SNAPSHOTS: u32 = 50;

#[test]
fn a_snapshot_allocates_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&Root::system(), directory.path()).unwrap();
    let mut probe = Probe::open(&Root::system(), &target.device_stack);
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
    for _ in 0..THREADS {
        probe.watch_thread(received.recv().unwrap());
    }
    let mut snapshot = probe.new_snapshot();
    probe.snapshot(&mut snapshot);
    let mut shortest = Duration::MAX;
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..SNAPSHOTS {
        let start = Instant::now();
        probe.snapshot(&mut snapshot);
        shortest = shortest.min(start.elapsed());
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocations, 0);
    // The bound is ten times what it should be: this is about a mistake of kind, not about a busy machine.
    assert!(shortest < Duration::from_millis(5), "{shortest:?} for {THREADS} threads");
    println!("shortest snapshot of {THREADS} threads: {shortest:?}");
    for worker in workers {
        worker.thread().unpark();
        worker.join().unwrap();
    }
}
