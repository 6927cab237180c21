//! One time axis for everything that rigs record: that of `CLOCK_MONOTONIC`, which other programs can read too.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the axis of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
