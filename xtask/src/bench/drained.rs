//! A recorder's reader at work, as in a run of the program: another thread comes ten times a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use engine::recorder::{Delta, DeltaReader, INTERVAL_NS, Recorder};

use super::pinned::Pinned;

/// Does the work while its counts are read; returns what it returned and how many operations were counted.
pub(super) fn while_drained<T>(
    pinned: &Pinned,
    reader: DeltaReader,
    work: impl FnOnce() -> T,
) -> Result<(T, u64)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let drain = scope.spawn(move || {
            pinned.yield_cpu()?;
            let mut ops = 0;
            // The last look comes after the work has ended.
            loop {
                let last = over.load(Ordering::Acquire);
                reader.drain(|delta| ops += count(delta));
                if last {
                    return Ok(ops);
                }
                thread::park_timeout(Duration::from_nanos(INTERVAL_NS));
            }
        });
        // Also when the work panics: the scope waits for its threads.
        let raise = Raise(over, drain.thread().clone());
        let answer = work();
        drop(raise);
        let ops: Result<u64> = drain.join().map_err(|_| anyhow!("the reader panicked"))?;
        Ok((answer, ops?))
    })
}

/// Does work that counts nothing in a process of the same shape: a second thread alone makes system calls dearer,
/// since the kernel then counts the users of each descriptor with atomic instructions. That is not our loop's doing.
pub(super) fn while_accompanied<T>(pinned: &Pinned, work: impl FnOnce() -> T) -> Result<T> {
    let (_recorder, reader) = Recorder::new(0);
    Ok(while_drained(pinned, reader, work)?.0)
}

/// Every bucket is read, as by whoever merges them.
fn count(delta: &Delta) -> u64 {
    let histograms = delta.steps.iter().chain([&delta.latencies]);
    let latencies: u64 = histograms.flat_map(|latencies| latencies.buckets()).map(|(_, count)| count).sum();
    std::hint::black_box(latencies);
    delta.ops
}

struct Raise<'a>(&'a AtomicBool, thread::Thread);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}
