//! Threads that wait for each other.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Threshold, WaitClass};
use model::run::{Confidence, Verdict};

use super::evidence::seen;
use crate::values::reading::Reading;
use crate::values::shares::ASLEEP_SHARE_MIN;

/// Share of the samples of sleeping threads that found them at a lock.
const LOCK_SAMPLES_MIN: f64 = 0.5;
/// The same share where about one thread sleeps elsewhere: the one that holds the lock.
const LONE_LOCK_SAMPLES_MIN: f64 = 0.3;
/// Threads below this number count as about one.
const LONE_THREAD_MAX: f64 = 2.2;

/// If a file or directory for each thread raises the rate by this factor, the shared one held them back.
const SEPARATE_GAIN_MIN: f64 = 1.2;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("at_locks_of_one", Figure::Share(LONE_LOCK_SAMPLES_MIN)),
    ("separate", Figure::Ratio(SEPARATE_GAIN_MIN)),
];

/// Threads that are faster with separate files or directories. On few CPUs they mostly spin for a lock instead of
/// sleeping, which looks like work.
pub(super) fn separate(reading: &Reading<'_>) -> Option<Verdict> {
    let times = reading.separate().filter(|times| *times >= SEPARATE_GAIN_MIN)?;
    let evidence = seen![reading.time_spent(), reading.dominant_wait(&[WaitClass::Lock]), reading.answers()];
    // Part of the time that separate files or directories save.
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

/// A lock: one thread works, the others wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let locks = reading.waits(WaitClass::Lock);
    if reading.in_flight < 2.0 || reading.budget.blocked < ASLEEP_SHARE_MIN {
        return None;
    }
    let others = 1.0 - locks;
    let holds_one =
        locks >= LONE_LOCK_SAMPLES_MIN && others * reading.threads * reading.budget.blocked < LONE_THREAD_MAX;
    if locks <= LOCK_SAMPLES_MIN && !holds_one {
        return None;
    }
    // If the lock's holder is itself held back for dirty pages, all others wait for that.
    if reading.waits(WaitClass::Dirty) > 0.0 && reading.waits(WaitClass::Dirty) >= others / 2.0 {
        return None;
    }
    let in_target = reading.occupancy().filter(|occupancy| *occupancy < 1.5 / reading.threads + 0.2);
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Lock]),
        in_target.and_then(|_| reading.at_target()),
    ];
    Some(
        Verdict::new(Limiter::LockContention, locks * reading.budget.blocked, evidence)
            // On few CPUs, threads spin instead of sleeping, and samples show little of the wait.
            .at_most(if reading.input.environment.cpus < 4 {
                Confidence::Likely
            } else {
                Confidence::Confirmed
            })
            .advise([Advice::OneForEach {}]),
    )
}
