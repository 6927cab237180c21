//! A thread that is busy for a while, and how evenly it gets its work done.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Work is counted in windows of this length: long enough for thousands of pieces, so that one more or less is
/// nothing, and short enough for many windows in a second.
const WINDOW: Duration = Duration::from_millis(25);
/// Steps of a piece of work: some microseconds, so that a pause of the thread stands out of it.
const STEPS: u32 = 2000;

/// What a busy thread got done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Pieces of work in each whole window.
    pub work: Vec<u64>,
    /// How long a window is.
    pub window_ns: u64,
    /// The longest time that a piece took: for most of it, the thread stood still.
    pub pause_ns_max: u64,
}

/// Keeps this thread busy.
pub(crate) fn busy(time: Duration) -> Busy {
    let windows = (time.as_nanos() / WINDOW.as_nanos()) as usize;
    let mut work = vec![0; windows];
    let mut pause = Duration::ZERO;
    let start = Instant::now();
    let mut last = Duration::ZERO;
    let mut seed = 1;
    while let Some(count) = work.get_mut((last.as_nanos() / WINDOW.as_nanos()) as usize) {
        seed = piece(seed);
        let now = start.elapsed();
        pause = pause.max(now.saturating_sub(last));
        last = now;
        *count += 1;
    }
    Busy { work, window_ns: WINDOW.as_nanos() as u64, pause_ns_max: pause.as_nanos() as u64 }
}

/// Always the same work: each step waits for the one before, and none needs memory.
fn piece(mut seed: u64) -> u64 {
    for _ in 0..STEPS {
        seed = black_box(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    seed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Busy, busy};

    #[test]
    fn every_window_has_work() {
        let busy = busy(Duration::from_millis(60));
        assert_eq!(busy.work.len(), 2);
        // A thread that is kept waiting for a whole window is possible, one that never ran is not.
        assert!(busy.work.iter().sum::<u64>() > 0 && busy.pause_ns_max > 0, "{busy:?}");
    }

    #[test]
    fn no_time_is_no_work() {
        assert_eq!(busy(Duration::ZERO), Busy { window_ns: 25_000_000, ..Busy::default() });
    }
}
