//! Memory that had to be found first.

use model::Limiter;
use model::numbers::{percent, thousands};
use model::run::Evidence;

use super::{Found, budget_sentence};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Some task of the machine was held up for memory for this share of the time: a machine with memory left reads 0.
const PRESSURE: f64 = 0.15;
/// Of the looks at sleeping threads, this share found them in reclaim.
const RECLAIM: f64 = 0.4;
/// Hits of a cgroup's limit per second that are more than a page now and then.
const HITS_PER_SECOND: f64 = 10.0;

/// Reclaim, in the machine or in a cgroup that is full.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let system = reading.system()?;
    let pressure = system.pressure.as_ref().map_or(0.0, |pressure| pressure.memory);
    let reclaim = system.reclaim.as_ref();
    let hits = reclaim.map_or(0, |reclaim| reclaim.cgroup_limit_hits);
    let is_full = hits as f64 > HITS_PER_SECOND * reading.case.seconds();
    let sleeps = reading.waits(Class::Reclaim) >= RECLAIM;
    // In a cgroup, who needs a page looks for it on its own CPU time, and hardly ever sleeps.
    if pressure < PRESSURE || !(sleeps || is_full) {
        return None;
    }
    let scanned = reclaim.map_or(0, |reclaim| reclaim.direct_scanned_pages);
    let counters = if is_full {
        format!(
            "tasks were held up for memory {} of the time, and the cgroup reached its limit {} times",
            percent(pressure),
            thousands(hits)
        )
    } else {
        format!(
            "tasks were held up for memory {} of the time, and looked at {} pages for it",
            percent(pressure),
            thousands(scanned)
        )
    };
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Reclaim]),
        counters: Some(counters),
        ..Evidence::default()
    };
    Some(
        Found::new(
            Limiter::MemoryPressure,
            pressure.max(reading.waits(Class::Reclaim) * reading.budget.blocked),
            evidence,
        )
        .advice("Give the machine or the cgroup more memory, or use direct I/O."),
    )
}
