//! The reader of a recorder at work, as in a run of the program: another thread comes ten times a second.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use engine::recorder::{Delta, DeltaReader, INTERVAL_NS, Latencies, Recorder, Shape};

use super::pinned::Pinned;

/// Counts of a worker, all intervals together.
#[derive(Debug, Default)]
pub(super) struct WorkerCounts {
    /// Number of operations.
    pub ops: u64,
    /// Latencies of operations.
    pub latencies: Buckets,
    /// Delays with which operations of an open loop started.
    pub queueing: Buckets,
}

/// Upper ends of buckets in nanoseconds, and the count in each.
#[derive(Debug, Default)]
pub(super) struct Buckets(BTreeMap<u64, u64>);

impl Buckets {
    fn add(&mut self, latencies: &Latencies) {
        for (upper_ns, count) in latencies.buckets() {
            *self.0.entry(upper_ns).or_default() += count;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the upper end of the bucket in which this share of all is reached.
    pub(super) fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reached = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        reached.map_or(0, |(upper_ns, _)| *upper_ns)
    }
}

impl WorkerCounts {
    fn add(&mut self, delta: &Delta) {
        self.ops += delta.ops;
        self.latencies.add(&delta.latencies);
        delta.queueing.iter().for_each(|queueing| self.queueing.add(queueing));
        // Reads every bucket, as a merge of them does.
        let steps: u64 = delta.steps.iter().flat_map(Latencies::buckets).map(|(_, count)| count).sum();
        std::hint::black_box(steps);
    }
}

/// Does the work while its counts are read. Returns the result of the work, and the counts.
pub(super) fn with_counts_reader<T>(
    pinned: &Pinned,
    reader: DeltaReader,
    work: impl FnOnce() -> T,
) -> Result<(T, WorkerCounts)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let drain = scope.spawn(move || {
            pinned.yield_cpu()?;
            let mut counted = WorkerCounts::default();
            // The last look comes after the end of the work.
            loop {
                let last = over.load(Ordering::Acquire);
                reader.drain(|delta| counted.add(delta));
                if last {
                    return Ok(counted);
                }
                thread::park_timeout(Duration::from_nanos(INTERVAL_NS));
            }
        });
        // The flag is raised even if the work panics: the scope waits for its threads.
        let raise = Raise(over, drain.thread().clone());
        let answer = work();
        drop(raise);
        let counted: Result<WorkerCounts> = drain.join().map_err(|_| anyhow!("the reader panicked"))?;
        Ok((answer, counted?))
    })
}

/// Does work that counts nothing in a process of the same shape. A second thread alone makes system calls dearer: the
/// kernel then counts the users of each descriptor with atomic instructions. Our loop does not cause that.
pub(super) fn with_second_thread<T>(pinned: &Pinned, work: impl FnOnce() -> T) -> Result<T> {
    let (_recorder, reader) = Recorder::new(Shape::default());
    Ok(with_counts_reader(pinned, reader, work)?.0)
}

struct Raise<'a>(&'a AtomicBool, thread::Thread);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_upper_ends_of_buckets() {
        let buckets = Buckets(BTreeMap::from([(10, 50), (20, 49), (30, 1)]));
        assert_eq!(
            [0.01, 0.5, 0.51, 0.99, 1.0].map(|share| buckets.quantile_ns(share)),
            [10, 10, 20, 20, 30]
        );
        assert_eq!(buckets.count(), 100);
        assert_eq!(Buckets::default().quantile_ns(0.5), 0);
    }
}
