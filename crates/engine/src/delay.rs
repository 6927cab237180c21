//! An engine that pauses before each call. The slow-down of a test shows what its rate depends on.
//!
//! If the time of an operation sets the rate, a pause lengthens each cycle by its own length. If something else limits
//! the rate, a pause only shortens a wait. The method follows Curtsinger and Berger, "Coz", 2015, with a slow-down
//! instead of a speed-up. The pause is a sleep and not a busy loop, which would take the CPU from other threads.
//!
//! Pauses are switched on and off in turns within one run, so that a drift of the target affects both. Only experiments
//! run through this engine; no printed rate does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use crate::clock::{Clock, Monotonic};
use crate::{Completion, DataEngine, Io, PendingBlock};

/// A sleep shorter than this consists mostly of the way back to a CPU. Several short pauses are therefore merged into
/// one, before every n-th call.
const SLEEP_NS_MIN: u64 = 200_000;
/// Timer slack of the sleeping thread.
const TIMER_SLACK_NS: u64 = 1;

/// Schedule and length of the pauses.
#[derive(Debug, Clone)]
pub struct Delay {
    /// Mean pause before each call.
    pub mean_ns: u64,
    /// Times at which the pauses go on or off, counted from the start of the phase on the monotonic clock. They are off
    /// before the first time, on until the second, and so on.
    pub switches_ns: Arc<[u64]>,
    /// Time that calls really waited while the pauses were on: the sum over all calls.
    pub waited_ns: Arc<AtomicU64>,
}

/// An engine whose calls wait for their time before they reach the inner engine.
#[derive(Debug)]
pub struct Delayed<E> {
    inner: E,
    delay: Delay,
    /// Calls per pause.
    every: u64,
    pause_ns: u64,
    calls: u64,
    /// Start of the phase: the time of the first call.
    start_ns: u64,
    next_switch: usize,
    /// Waiting calls and the times when they began to wait, earliest first.
    waiting: VecDeque<(u64, Io)>,
    in_flight: usize,
}

impl<E: DataEngine> Delayed<E> {
    /// Wraps `inner` with pauses. Must run on the thread that uses the engine.
    pub fn new(inner: E, delay: Delay) -> Self {
        // With the default slack, every pause would be 50 us too long. If the kernel refuses, the time really waited is
        // counted all the same.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(TIMER_SLACK_NS));
        let depth = inner.depth() as usize;
        // With several slots, pauses overlap and may be as short as requested: no sleep is for a single call.
        let every = if depth > 1 { 1 } else { SLEEP_NS_MIN.div_ceil(delay.mean_ns.max(1)).max(1) };
        Self {
            inner,
            every,
            pause_ns: delay.mean_ns * every,
            delay,
            calls: 0,
            start_ns: 0,
            next_switch: 0,
            waiting: VecDeque::with_capacity(depth),
            in_flight: 0,
        }
    }

    fn is_on(&mut self, now_ns: u64) -> bool {
        if self.start_ns == 0 {
            self.start_ns = now_ns;
        }
        let since_ns = now_ns.saturating_sub(self.start_ns);
        while self.delay.switches_ns.get(self.next_switch).is_some_and(|at_ns| *at_ns <= since_ns) {
            self.next_switch += 1;
        }
        self.next_switch % 2 == 1
    }

    /// Hands over the calls that have waited long enough. Returns when the next one is due.
    fn release(&mut self, now_ns: u64) -> u64 {
        while let Some((since_ns, io)) = self.waiting.front().copied() {
            let due_ns = since_ns + self.pause_ns;
            if due_ns > now_ns {
                return due_ns;
            }
            self.waiting.pop_front();
            self.delay.waited_ns.fetch_add(now_ns - since_ns, Ordering::Relaxed);
            self.inner.queue(io);
            self.in_flight += 1;
        }
        u64::MAX
    }
}

impl<E: DataEngine> DataEngine for Delayed<E> {
    fn depth(&self) -> u32 {
        self.inner.depth()
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.inner.block_bytes()
    }

    fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        self.inner.draft(slot)
    }

    fn block_read(&self, slot: u32) -> &[u8] {
        self.inner.block_read(slot)
    }

    fn queue(&mut self, io: Io) {
        let now_ns = Monotonic.now_ns();
        self.calls += 1;
        if self.is_on(now_ns) && self.calls.is_multiple_of(self.every) {
            self.waiting.push_back((now_ns, io));
        } else {
            self.inner.queue(io);
            self.in_flight += 1;
        }
    }

    fn move_rest(&mut self, io: Io, from_bytes: usize) -> Result<usize, Errno> {
        self.inner.move_rest(io, from_bytes)
    }

    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, Errno> {
        loop {
            let due_ns = self.release(Monotonic.now_ns());
            let wake_ns = due_ns.min(until_ns);
            if self.in_flight > 0 {
                let count = self.inner.reap(done, wake_ns)?;
                self.in_flight -= count;
                if count > 0 {
                    return Ok(count);
                }
            } else if self.waiting.is_empty() {
                return Ok(0);
            } else {
                let left_ns = wake_ns.saturating_sub(Monotonic.now_ns());
                std::thread::sleep(std::time::Duration::from_nanos(left_ns));
            }
            if Monotonic.now_ns() >= until_ns {
                return Ok(0);
            }
        }
    }

    fn unreaped_count(&self) -> usize {
        self.inner.unreaped_count()
    }

    fn features(&self) -> &[String] {
        self.inner.features()
    }

    fn missing_features(&self) -> &[String] {
        self.inner.missing_features()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Call;
    use crate::null::NullEngine;

    fn read(slot: u32) -> Io {
        Io { slot, call: Call::Read, file: 0, offset_bytes: 0 }
    }

    fn delayed(depth: u32, mean_ns: u64, switches_ns: &[u64]) -> Delayed<NullEngine> {
        let delay = Delay { mean_ns, switches_ns: switches_ns.into(), waited_ns: Arc::default() };
        Delayed::new(NullEngine::new(depth, 4096), delay)
    }

    #[test]
    fn disabled_delay_does_not_wait() {
        let mut engine = delayed(4, 1_000_000, &[u64::MAX]);
        let mut done = [Completion { slot: 0, result: 0 }; 4];
        (0..4).for_each(|slot| engine.queue(read(slot)));
        assert_eq!(engine.reap(&mut done, u64::MAX), Ok(4));
        assert_eq!(engine.delay.waited_ns.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn every_call_is_delayed_and_completes() {
        for depth in [1, 8] {
            let mut engine = delayed(depth, 300_000, &[0]);
            let mut done = [Completion { slot: 0, result: 0 }; 8];
            let start_ns = Monotonic.now_ns();
            let mut ended = 0;
            for _ in 0..5 {
                (0..depth).for_each(|slot| engine.queue(read(slot)));
                let mut left = depth as usize;
                while left > 0 {
                    let count = engine.reap(&mut done, u64::MAX).unwrap();
                    assert!(count > 0);
                    left -= count;
                    ended += count;
                }
            }
            assert_eq!(ended, 5 * depth as usize);
            // Slots wait side by side.
            assert!(Monotonic.now_ns() - start_ns >= 5 * 300_000);
            let waited_ns = engine.delay.waited_ns.load(Ordering::Relaxed);
            assert!(waited_ns >= 5 * u64::from(depth) * 300_000);
            assert_eq!(engine.reap(&mut done, u64::MAX), Ok(0));
        }
    }

    #[test]
    fn merged_short_pauses_reach_the_requested_total() {
        let mut engine = delayed(1, 20_000, &[0]);
        let mut done = [Completion { slot: 0, result: 0 }];
        for _ in 0..100 {
            engine.queue(read(0));
            assert_eq!(engine.reap(&mut done, u64::MAX), Ok(1));
        }
        assert!(engine.delay.waited_ns.load(Ordering::Relaxed) >= 100 * 20_000);
    }
}
