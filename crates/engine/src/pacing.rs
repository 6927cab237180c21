//! Start times of operations.

use crate::data::mix;

/// Decision about an operation that could start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Start it; its intended start is this instant, which is not later than now.
    Now {
        /// The start from which its latency counts.
        intended_ns: u64,
    },
    /// Nothing is due before this instant.
    Later {
        /// Time when the next operation is due.
        at_ns: u64,
    },
}

/// Decides when operations start. A closed loop starts the next operation when one has ended.
pub trait Pacing {
    /// True if operations have scheduled start times, independent of earlier operations.
    const IS_OPEN: bool;

    /// Begins the phase at `start_ns`.
    fn begin(&mut self, start_ns: u64);

    /// Returns the operation that is due at `now_ns`, if any. Each operation is returned once.
    fn next(&mut self, now_ns: u64) -> Start;

    /// Returns the number of operations that were due before `end_ns` and never returned. Beyond a million it is
    /// approximate.
    fn missed(&mut self, end_ns: u64) -> u64;
}

/// The next operation starts as soon as a slot is free.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClosedLoop;

impl Pacing for ClosedLoop {
    const IS_OPEN: bool = false;

    fn begin(&mut self, _: u64) {}

    #[inline]
    fn next(&mut self, now_ns: u64) -> Start {
        Start::Now { intended_ns: now_ns }
    }

    fn missed(&mut self, _: u64) -> u64 {
        0
    }
}

/// Most missed arrivals that are drawn one by one: more would take too long.
const MISSED_DRAWS_MAX: u64 = 1_000_000;

/// Operations arrive on a schedule, independent of the end of earlier operations. The schedule has equal distances or
/// is a Poisson process. An operation without a free slot waits, and its latency counts from its intended start.
///
/// See Schroeder, Wierman and Harchol-Balter, "Open versus closed", 2006. The error that this avoids is Tene's
/// "coordinated omission".
#[derive(Debug, Clone)]
pub struct OpenLoop {
    /// Mean time between arrivals.
    gap_ns: f64,
    is_poisson: bool,
    /// First arrival, in gaps after the start. Threads differ in it, so that they do not all arrive at once.
    offset: f64,
    draws: u64,
    start_ns: u64,
    /// Time of the next arrival after the start. A double is exact to a nanosecond for 100 days.
    next_ns: f64,
}

impl OpenLoop {
    /// Arrivals of one of `threads` threads, which together start `ops_per_second`.
    pub fn new(ops_per_second: f64, is_poisson: bool, thread: u32, threads: u32, seed: u64) -> Self {
        Self {
            gap_ns: 1e9 * f64::from(threads) / ops_per_second,
            is_poisson,
            offset: f64::from(thread) / f64::from(threads),
            draws: mix(seed ^ mix(u64::from(thread) + 1)),
            start_ns: 0,
            next_ns: 0.0,
        }
    }

    #[inline]
    fn gap_ns(&mut self) -> f64 {
        if !self.is_poisson {
            return self.gap_ns;
        }
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // 53 bits, never zero. Gaps of a Poisson process are exponentially distributed.
        let uniform = ((mix(self.draws) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln() * self.gap_ns
    }
}

impl Pacing for OpenLoop {
    const IS_OPEN: bool = true;

    fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.next_ns = if self.is_poisson { self.gap_ns() } else { self.offset * self.gap_ns };
    }

    #[inline]
    fn next(&mut self, now_ns: u64) -> Start {
        let intended_ns = self.start_ns + self.next_ns as u64;
        if intended_ns > now_ns {
            return Start::Later { at_ns: intended_ns };
        }
        self.next_ns += self.gap_ns();
        Start::Now { intended_ns }
    }

    fn missed(&mut self, end_ns: u64) -> u64 {
        let mut missed = 0;
        while missed < MISSED_DRAWS_MAX && matches!(self.next(end_ns.saturating_sub(1)), Start::Now { .. }) {
            missed += 1;
        }
        let left_ns = end_ns.saturating_sub(self.start_ns) as f64 - self.next_ns;
        missed + if left_ns > 0.0 { (left_ns / self.gap_ns) as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(pacing: &mut OpenLoop, end_ns: u64) -> Vec<u64> {
        pacing.begin(1000);
        std::iter::from_fn(|| match pacing.next(end_ns) {
            Start::Now { intended_ns } => Some(intended_ns),
            Start::Later { .. } => None,
        })
        .collect()
    }

    #[test]
    fn fixed_arrivals_of_all_threads_are_evenly_spaced() {
        let mut all = Vec::new();
        for thread in 0..4 {
            all.extend(arrivals(&mut OpenLoop::new(1e6, false, thread, 4, 7), 1_000_999));
        }
        all.sort_unstable();
        assert_eq!(all, (0..1000).map(|arrival| 1000 + arrival * 1000).collect::<Vec<_>>());
    }

    #[test]
    fn poisson_interarrival_times_are_exponential() {
        let instants = arrivals(&mut OpenLoop::new(1e6, true, 0, 1, 7), 100_001_000);
        let mut gaps: Vec<_> = instants.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        gaps.sort_unstable_by(f64::total_cmp);
        let count = gaps.len() as f64;
        // Kolmogorov and Smirnov: below 1.95 / sqrt(n) in 999 of 1,000 samples of the same distribution. Instants are
        // cut to whole nanoseconds, 1 in 1,000 of the mean gap.
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(index, gap)| ((index as f64 + 0.5) / count - (1.0 - (-gap / 1000.0).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / count.sqrt() + 0.001, "{distance} over {count} gaps");
        assert!((count / 100_000.0 - 1.0).abs() < 0.02, "{count} arrivals of 100,000");
    }

    #[test]
    fn missed_operations_are_counted() {
        let mut pacing = OpenLoop::new(1e9, false, 0, 1, 7);
        pacing.begin(0);
        for _ in 0..10 {
            assert!(matches!(pacing.next(99), Start::Now { .. }));
        }
        assert_eq!(pacing.missed(100), 90);
        let mut pacing = OpenLoop::new(1e9, false, 0, 1, 7);
        pacing.begin(0);
        assert_eq!(pacing.missed(3_600_000_000_000), 3_600_000_000_000);
        let mut pacing = OpenLoop::new(1e8, true, 0, 1, 7);
        pacing.begin(0);
        assert!((pacing.missed(100_000_000_000) as f64 / 1e10 - 1.0).abs() < 0.001);
    }
}
