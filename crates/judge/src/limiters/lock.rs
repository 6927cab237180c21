//! Threads that wait for each other.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Threshold, WaitClass};
use model::run::{Confidence, Verdict};

use super::{BLOCKED, seen};
use crate::reading::Reading;

/// Share of the samples of sleeping threads that found them at a lock.
const AT_LOCKS: f64 = 0.5;
/// The same where the others that sleep are about one thread: the one that holds the lock.
const AT_LOCKS_OF_ONE: f64 = 0.3;
/// About one thread.
const ONE: f64 = 2.2;

/// A file or directory for each thread brings so many times as much: then it was the shared one that held them back.
const SEPARATE: f64 = 1.2;

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] =
    &[("at_locks_of_one", Figure::Share(AT_LOCKS_OF_ONE)), ("separate", Figure::Ratio(SEPARATE))];

/// Threads that do more when each has a file or directory of its own. On few CPUs they mostly spin for a lock instead of
/// sleeping, which looks like work.
pub(super) fn separate(reading: &Reading<'_>) -> Option<Verdict> {
    let times = reading.separate().filter(|times| *times >= SEPARATE)?;
    let evidence = seen![reading.time_spent(), reading.slept_in(&[WaitClass::Lock]), reading.answers()];
    // Of the time, the part that is no longer needed.
    Some(
        Verdict::new(Limiter::LockContention, 1.0 - 1.0 / times, evidence)
            .at_most(if reading.input.environment.cpus < 4 {
                Confidence::Likely
            } else {
                Confidence::Confirmed
            })
            .advise([Advice::OneForEach {}]),
    )
}

/// A lock: one works, the others wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let locks = reading.waits(WaitClass::Lock);
    if reading.in_flight < 2.0 || reading.budget.blocked < BLOCKED {
        return None;
    }
    let others = 1.0 - locks;
    let holds_one = locks >= AT_LOCKS_OF_ONE && others * reading.threads * reading.budget.blocked < ONE;
    if locks <= AT_LOCKS && !holds_one {
        return None;
    }
    // Who holds the lock while it is held back, or looks for memory, is what all others wait for.
    if reading.waits(WaitClass::Dirty) > 0.0 && reading.waits(WaitClass::Dirty) >= others / 2.0 {
        return None;
    }
    let in_target = reading.occupancy().filter(|occupancy| *occupancy < 1.5 / reading.threads + 0.2);
    let evidence = seen![
        reading.time_spent(),
        reading.slept_in(&[WaitClass::Lock]),
        in_target.and_then(|_| reading.at_target()),
    ];
    Some(
        Verdict::new(Limiter::LockContention, locks * reading.budget.blocked, evidence)
            // On few CPUs threads spin instead of sleeping, and little of it is seen.
            .at_most(if reading.input.environment.cpus < 4 {
                Confidence::Likely
            } else {
                Confidence::Confirmed
            })
            .advise([Advice::OneForEach {}]),
    )
}
