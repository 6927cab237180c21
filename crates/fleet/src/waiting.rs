//! Limits of waits for the other side of a channel, and the clock that counts them.
//!
//! Each wait of the coordinator ends. A client that owes an answer has a limit, which follows from the plan and from the
//! bytes of the answer. Neither signs of life nor other frames extend it: those of a test end together. Time in which the waiting thread did not run does not count.
//!
//! A signal shortens all limits. A removal may still take as long as the run before it, until a second signal.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::frames::{SLICE_NS, ToAgent};
use model::run::INTERVALS_MAX;
use run::hang_detection;

use crate::agent;
use crate::coordinator::Fleet;

/// Time without any byte after which the other side counts as lost, unless both sides are on one machine.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time until the first frame. ssh gives up after 10 s, and a container may have to be woken up.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(40);
/// Longest gap between two checks of a thread that runs.
const LONGEST_GAP: Duration = Duration::from_secs(1);
/// Time of an answer beyond that of the calls on the target.
const SLACK: Duration = Duration::from_secs(5);
/// Slowest line. A program or a record may take its bytes by this rate.
const BYTES_PER_SECOND: u64 = 64 << 10;
/// Bytes of a record without its intervals: its histograms, and those of its steps.
const RECORD_BYTES: u64 = 256 << 10;
/// Most bytes of an interval in a record.
const INTERVAL_BYTES: u64 = 1400;
/// Longest wait for work on a virtual clock, whose length no plan knows.
const VIRTUAL_WORK_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Clock of a thread that waits. It goes on only while that thread runs.
#[derive(Debug)]
pub struct RunningClock {
    last_check: Instant,
    elapsed: Duration,
}

impl RunningClock {
    /// Returns a clock that begins at zero.
    pub fn new() -> Self {
        Self { last_check: Instant::now(), elapsed: Duration::ZERO }
    }

    /// Returns the time now. The thread must check it more than once a second.
    pub fn now(&mut self) -> Duration {
        let gap = self.last_check.elapsed();
        self.last_check += gap;
        self.elapsed += gap.min(LONGEST_GAP);
        self.elapsed
    }
}

/// Returns the time for an answer that needs nothing but calls on the target, of which one may hang.
pub fn answer() -> Duration {
    hang_detection::first_hang_timeout() + SLACK
}

/// Returns the same after a signal. It is shorter once the user insists.
pub fn answer_to_signal() -> Duration {
    hang_detection::hang_timeout(true) + SLACK
}

/// Returns the time for work that may take `time_ns` and then has to wait for its data: a sync may take as long again.
pub fn work(time_ns: u64) -> Duration {
    Duration::from_nanos(time_ns.saturating_mul(2)).min(VIRTUAL_WORK_MAX) + answer()
}

/// Returns the time for a test within `budget_ns`, and for its record on a slow line.
pub fn test(budget_ns: u64) -> Duration {
    let intervals = (budget_ns / SLICE_NS).min(INTERVALS_MAX as u64);
    work(budget_ns) + transfer_time(RECORD_BYTES + intervals * INTERVAL_BYTES)
}

/// Returns the time that bytes take on the slowest line.
pub fn transfer_time(bytes: u64) -> Duration {
    Duration::from_secs(bytes.div_ceil(BYTES_PER_SECOND))
}

/// How urgently a user's signals demand the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// No signal has arrived.
    None,
    /// The run is to end.
    Interrupted,
    /// The user has insisted.
    Insistent,
}

/// Rules of a wait for answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// Longest wait for each client; `None` where it was set before.
    pub(crate) limit: Option<Duration>,
    /// True if a lost client fails the stage, even if the run goes on without it.
    pub(crate) is_strict: bool,
    /// True while files are removed, which the first signal does not shorten.
    pub(crate) is_removing: bool,
}

impl Wait {
    /// A stage that needs nothing but calls on the target, from all clients.
    pub(crate) fn answer() -> Self {
        Self { limit: Some(answer()), is_strict: true, is_removing: false }
    }
}

impl Fleet {
    pub(crate) fn urgency(&self) -> Urgency {
        match self.interrupt.load(Ordering::Relaxed) {
            false => Urgency::None,
            true if hang_detection::is_timeout_short() => Urgency::Insistent,
            true => Urgency::Interrupted,
        }
    }

    /// Passes a new signal on to the clients, and shortens the waits for their answers. Returns true once there was any.
    pub(crate) fn apply_urgency(&mut self, is_removing: bool) -> bool {
        let urgency = self.urgency();
        if urgency > self.applied_urgency {
            self.applied_urgency = urgency;
            self.order(&ToAgent::Interrupt {});
            let has_longer = is_removing && urgency < Urgency::Insistent;
            let longest = if has_longer { self.longest_removal() } else { answer_to_signal() };
            self.hub.shorten_deadlines(longest);
        }
        urgency > Urgency::None
    }

    /// Ends the work of all clients, because one has failed.
    pub(crate) fn end_work(&mut self) {
        self.order(&ToAgent::Interrupt {});
        self.hub.shorten_deadlines(answer_to_signal());
    }

    /// Waits at most this long for the answer that a client owes, and less after a signal.
    pub(crate) fn expect(&mut self, index: usize, limit: Duration) {
        self.hub.expect(index, Some(self.shorter(limit)));
    }

    /// Sets a deadline, after `limit`, for all further answers of a client; an earlier one after a signal.
    pub(crate) fn within(&mut self, index: usize, limit: Duration) {
        self.hub.within(index, Some(self.shorter(limit)));
    }

    fn shorter(&self, limit: Duration) -> Duration {
        let is_over = self.applied_urgency > Urgency::None;
        if is_over { limit.min(answer_to_signal()) } else { limit }
    }

    pub(crate) fn expect_nothing(&mut self) {
        (0..self.clients.len()).for_each(|index| self.hub.expect(index, None));
    }

    pub(crate) fn removal_wait(&self) -> Wait {
        Wait { limit: Some(self.longest_removal()), is_strict: true, is_removing: true }
    }

    /// Returns the time of a removal: files take no longer to be removed than the run has taken to make them.
    fn longest_removal(&self) -> Duration {
        let so_far = Duration::from_nanos(agent::now_ns().saturating_sub(self.run_start_ns));
        so_far + if self.urgency() > Urgency::None { answer_to_signal() } else { answer() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_clock_excludes_long_pauses_of_its_thread() {
        let mut elapsed = RunningClock::new();
        elapsed.last_check -= Duration::from_secs(3600);
        let after = elapsed.now();
        assert!(after >= LONGEST_GAP && after < Duration::from_secs(3600), "{after:?}");
        assert!(elapsed.now() >= after);
    }

    #[test]
    fn time_limits_grow_with_planned_time_and_bytes() {
        let second = 1_000_000_000;
        assert!(test(20 * second) > test(10 * second) && test(10 * second) > work(10 * second));
        assert!(work(10 * second) >= Duration::from_secs(20) + answer());
        assert_eq!(
            test(u64::MAX),
            VIRTUAL_WORK_MAX + answer() + transfer_time(RECORD_BYTES + 3000 * INTERVAL_BYTES)
        );
        assert_eq!(transfer_time(10 << 20), Duration::from_secs(160));
    }
}
