//! A recorder's reader at work, as in a run of the program: another thread comes ten times a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use engine::recorder::{Delta, DeltaReader, INTERVAL_NS};

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
