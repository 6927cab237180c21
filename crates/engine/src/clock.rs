//! Time, as a type parameter: the kernel's monotonic clock here, a virtual one for simulated devices.

use rustix::time::{ClockId, clock_gettime};

/// A clock that never goes back.
pub trait Clock {
    /// Nanoseconds since an arbitrary but fixed instant.
    fn now_ns(&self) -> u64;
}

/// `CLOCK_MONOTONIC`, read through the vDSO: no system call where the clock source allows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        // Both parts are never negative on a monotonic clock.
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// Cost of one clock read in nanoseconds: the mean of the fastest of several short bursts.
pub fn read_cost_ns(clock: &impl Clock) -> f64 {
    const READS: u64 = 1000;
    let burst = || {
        let start = clock.now_ns();
        let mut last = start;
        for _ in 0..READS {
            last = std::hint::black_box(clock.now_ns());
        }
        (last - start) as f64 / READS as f64
    };
    (0..5).map(|_| burst()).fold(f64::INFINITY, f64::min)
}
