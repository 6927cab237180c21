//! One CPU for the measured thread, the others for its helpers.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Keeps the thread that made it on one CPU until it is dropped. A move to another CPU costs both caches, and other
/// work of the process must not take turns with the measured thread.
pub(super) struct Pinned {
    cpu: usize,
    before: CpuSet,
    others: CpuSet,
}

impl Pinned {
    /// Pins this thread to the last CPU that it may use, because the first ones get more interrupts.
    pub(super) fn new() -> Result<Self> {
        let before = sched_getaffinity(None).context("ask for the CPUs of this thread")?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| before.is_set(*cpu)).context("no CPU at all")?;
        let mut one = CpuSet::new();
        one.set(last);
        let mut others = before;
        others.unset(last);
        if others.count() == 0 {
            others = one;
        }
        sched_setaffinity(None, &one).context("pin this thread to a CPU")?;
        Ok(Self { cpu: last, before, others })
    }

    /// Returns the CPU, for other programs that are measured on it.
    pub(super) fn cpu(&self) -> usize {
        self.cpu
    }

    /// Moves a helper thread, which would inherit the pin, out of the way.
    pub(super) fn yield_cpu(&self) -> Result<()> {
        sched_setaffinity(None, &self.others).context("move a thread to another CPU")
    }
}

/// Measures the CPU time of the work in this thread, in seconds, system calls included.
///
/// For work that never waits, this is its duration on an idle machine. On a busy machine, the time in which others had
/// the CPU does not count.
pub(super) fn cpu_seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let start = now();
    let answer = work();
    (now() - start, answer)
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The CPUs were allowed before; if they no longer are, the thread stays where it is.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_no_cpu_time() {
        let pause = std::time::Duration::from_millis(50);
        let (seconds, ()) = cpu_seconds(|| std::thread::sleep(pause));
        assert!((0.0..pause.as_secs_f64()).contains(&seconds), "{seconds}");
    }

    #[test]
    fn thread_stays_pinned_until_drop() {
        let before = sched_getaffinity(None).unwrap();
        let pinned = Pinned::new().unwrap();
        let one = sched_getaffinity(None).unwrap();
        assert_eq!(one.count(), 1);
        let helper = std::thread::scope(|scope| {
            let helper = scope.spawn(|| pinned.yield_cpu().and_then(|()| Ok(sched_getaffinity(None)?)));
            helper.join().unwrap().unwrap()
        });
        assert!(helper != one || before.count() == 1);
        drop(pinned);
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
