//! Device time, which stops during stalls of the device, and caps on the traffic in it. The unit is picoseconds since
//! the start of the phase: rates add up no error, and 64 bits last for 213 days.

use std::collections::VecDeque;

use model::sim::Stall;

/// A nanosecond in units of device time.
pub(super) const NS: u64 = 1000;
/// A second in units of device time.
pub(super) const SECOND: u64 = 1_000_000_000_000;

/// A period without service: stalls that overlap or touch.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: u64,
    end: u64,
    /// Device time during the window, in which it is stopped.
    device: u64,
}

/// Stalls of one kind: start of the next one, length, and distance of the starts.
#[derive(Debug, Clone, Copy)]
struct StallSchedule {
    start: u64,
    length: u64,
    every: Option<u64>,
}

/// Converts between clock time and device time, both since the start of the phase.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    schedules: Vec<StallSchedule>,
    /// Windows that are not over yet, as far as anyone has looked ahead.
    windows: VecDeque<Window>,
    /// Clock time and device time at the end of the last window.
    ahead: (u64, u64),
}

impl Stalls {
    pub(super) fn new(stalls: &[Stall]) -> Self {
        let schedules = stalls.iter().map(|stall| StallSchedule {
            start: (stall.at_s * 1e12) as u64,
            length: (stall.length_ms * 1e9) as u64,
            every: stall.every_s.map(|every_s| ((every_s * 1e12) as u64).max(1)),
        });
        Self { schedules: schedules.collect(), ..Self::default() }
    }

    /// Upper bound on the share of time that is stalled.
    pub(super) fn share(&self) -> f64 {
        self.schedules.iter().filter_map(|stall| Some(stall.length as f64 / stall.every? as f64)).sum()
    }

    /// Looks ahead to one more window. Returns false if there is none.
    fn look_ahead(&mut self) -> bool {
        let Some(start) = self.schedules.iter().map(|stall| stall.start).min() else { return false };
        let mut end = start;
        let mut grows = true;
        while std::mem::take(&mut grows) {
            self.schedules.retain_mut(|stall| {
                if stall.start <= end {
                    end = end.max(stall.start.saturating_add(stall.length));
                    grows = true;
                    match stall.every.and_then(|every| stall.start.checked_add(every)) {
                        Some(next) => stall.start = next,
                        None => return false,
                    }
                }
                true
            });
        }
        let device = self.ahead.1 + (start - self.ahead.0);
        self.windows.push_back(Window { start, end, device });
        self.ahead = (end, device);
        true
    }

    /// Drops windows that ended by `now`: earlier times are not used any more.
    pub(super) fn forget(&mut self, now: u64) {
        while self.windows.front().is_some_and(|window| window.end <= now) {
            self.windows.pop_front();
        }
    }

    /// Device time at clock time `clock`.
    pub(super) fn device(&mut self, clock: u64) -> u64 {
        while self.ahead.0 <= clock && self.look_ahead() {}
        for window in &self.windows {
            if clock < window.end {
                return window.device - window.start.saturating_sub(clock);
            }
        }
        self.ahead.1 + (clock - self.ahead.0)
    }

    /// Earliest clock time at which the device time is `device`.
    pub(super) fn clock(&mut self, device: u64) -> u64 {
        while self.ahead.1 < device && self.look_ahead() {}
        for window in &self.windows {
            if device <= window.device {
                return window.start - (window.device - device);
            }
        }
        self.ahead.0.saturating_add(device - self.ahead.1)
    }
}

/// A cap: traffic passes in sequence, at a rate per second that may change.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    rate: Option<u64>,
    /// Changes to come: clock time and new rate.
    changes: VecDeque<(u64, u64)>,
    /// Time when the last traffic has passed, in device time.
    pub(super) free: u64,
}

impl Pipe {
    pub(super) fn new(rate: Option<u64>, changes: impl Iterator<Item = (f64, Option<u64>)>) -> Self {
        let changes = changes.filter_map(|(at_s, rate)| Some(((at_s * 1e12) as u64, rate?)));
        Self { rate, changes: changes.collect(), free: 0 }
    }

    /// Sets the rate for later traffic.
    pub(super) fn limit(&mut self, rate: Option<u64>) {
        self.rate = rate;
    }

    /// Returns when `amount` that arrives at `from` has passed, both in device time.
    pub(super) fn pass(&mut self, from: u64, amount: u64, stalls: &mut Stalls) -> u64 {
        let mut start = from.max(self.free);
        let mut left = u128::from(amount) * u128::from(SECOND);
        loop {
            let takes = self.rate.map_or(0, |rate| left / u128::from(rate.max(1)));
            let end = start.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
            let Some(&(change, rate)) =
                self.changes.front().filter(|(change, _)| stalls.clock(end) >= *change)
            else {
                self.free = end;
                return end;
            };
            // The old rate does not apply to traffic after the change.
            if stalls.clock(start) < change {
                let until = stalls.device(change);
                left = left.saturating_sub(u128::from(self.rate.unwrap_or(0)) * u128::from(until - start));
                start = until;
            }
            self.rate = Some(rate);
            self.changes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn device_time_excludes_stalls(
            stalls in prop::collection::vec((0u64..60, 1u64..6, prop::option::of(20u64..40)), 0..4),
            mut instants in prop::collection::vec(0u64..300, 1..20),
        ) {
            // All times are whole seconds, and each second is checked by itself. At most three quarters of them are
            // stalled.
            let described: Vec<_> = stalls
                .iter()
                .map(|(at, length, every)| Stall {
                    at_s: *at as f64,
                    length_ms: *length as f64 * 1e3,
                    every_s: every.map(|every| every as f64),
                })
                .collect();
            let is_stalled = |second: u64| {
                stalls.iter().any(|(at, length, every)| {
                    second >= *at && every.map_or(second - at, |every| (second - at) % every) < *length
                })
            };
            let served = |until: u64| (0..until).filter(|second| !is_stalled(*second)).count() as u64;
            let mut stalls = Stalls::new(&described);
            instants.sort_unstable();
            for clock in instants {
                stalls.forget(clock * SECOND);
                prop_assert_eq!(stalls.device(clock * SECOND), served(clock) * SECOND);
                // The earliest time after ten more seconds of service.
                let end = (clock..).find(|end| served(*end) == served(clock) + 10);
                prop_assert_eq!(Some(stalls.clock((served(clock) + 10) * SECOND)), end.map(|end| end * SECOND));
            }
        }
    }
}
