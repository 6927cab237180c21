//! Threads that wait for each other.

use model::Limiter;
use model::run::{Confidence, Evidence};

use super::{BLOCKED, Found, budget_sentence, occupancy_sentence};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Of the looks at sleeping threads, this share found them at a lock.
const AT_LOCKS: f64 = 0.5;
/// The same where the others that sleep are about one thread: the one that holds the lock.
const AT_LOCKS_OF_ONE: f64 = 0.3;
/// About one thread.
const ONE: f64 = 2.2;

/// A lock: one works, the others wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let locks = reading.waits(Class::Lock);
    if reading.threads < 2.0 || reading.budget.blocked < BLOCKED {
        return None;
    }
    let others = 1.0 - locks;
    let holds_one = locks >= AT_LOCKS_OF_ONE && others * reading.threads * reading.budget.blocked < ONE;
    if locks <= AT_LOCKS && !holds_one {
        return None;
    }
    // Who holds the lock while it is held back, or looks for memory, is what all others wait for.
    if reading.waits(Class::Dirty) > 0.0 && reading.waits(Class::Dirty) >= others / 2.0 {
        return None;
    }
    let in_target = reading.occupancy().filter(|occupancy| *occupancy < 1.5 / reading.threads + 0.2);
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Lock]),
        counters: in_target.and_then(|_| occupancy_sentence(reading)),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::LockContention, locks * reading.budget.blocked, evidence)
            // On few CPUs threads spin instead of sleeping, and little of it is seen.
            .at_most(if reading.case.environment.cpus < 4 { Confidence::Likely } else { Confidence::Confirmed })
            .advice("Its threads work on the same file or directory, one at a time. Leave :shared away, or use a file or directory for each."),
    )
}
