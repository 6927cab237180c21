//! Keeps a thread busy for a while and measures how evenly its work progresses.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Length of a window in which work is counted. It holds thousands of pieces, so that one more or less does
/// not matter. It is short enough for many windows in a second.
const WINDOW: Duration = Duration::from_millis(25);
/// Steps of a piece of work: some microseconds, so that a pause of the thread is easy to tell from it.
const STEPS: u32 = 2000;

/// Work that a busy thread did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Busy {
    /// Pieces of work in each whole window.
    pub work: Vec<u64>,
    /// Length of a window.
    pub window_ns: u64,
    /// Longest time for one piece: for most of it, the thread stood still.
    pub pause_ns_max: u64,
}

/// Keeps this thread busy for `time`.
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

/// Does always the same work: each step waits for the one before, and none needs memory.
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
        // The scheduler may hold a thread back for a whole window, but not for the whole test.
        assert!(busy.work.iter().sum::<u64>() > 0 && busy.pause_ns_max > 0, "{busy:?}");
    }

    #[test]
    fn zero_duration_has_no_work() {
        assert_eq!(busy(Duration::ZERO), Busy { window_ns: 25_000_000, ..Busy::default() });
    }
}
