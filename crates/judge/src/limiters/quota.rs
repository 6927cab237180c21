//! A cgroup's quota of CPU time.

use model::Limiter;
use model::numbers::percent;
use model::run::Evidence;

use super::{Found, budget_sentence};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Held back for more of the time than anything else.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let (budget, quota) = (&reading.budget, reading.quota());
    let others = [budget.user, budget.kernel, budget.run_queue, budget.steal, budget.blocked];
    if quota < 0.05 || others.iter().any(|share| *share > quota) {
        return None;
    }
    let system = reading.system();
    let held_ns = system.and_then(|system| system.quota_throttled_ns).unwrap_or(0);
    let all_ns = reading.input.record.elapsed_ns.max(1);
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        counters: Some(format!(
            "the cgroup's tasks were held back for {} of the time by its quota",
            percent((held_ns as f64 / all_ns as f64).min(1.0))
        )),
        visible_cap: system
            .and_then(|system| system.quota_cpus)
            .map(|cpus| format!("the cgroup may use {cpus:.2} CPUs")),
        // Who is held back is ready to run, and is not seen asleep anywhere.
        wait_site: (reading.waits(Class::Device) + reading.waits(Class::Page) < 0.5)
            .then(|| reading.running_sentence())
            .flatten(),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::CpuQuota, quota, evidence)
            .advice("Raise the cgroup's CPU quota (cpu.max, cpu.cfs_quota_us), or run outside of it."),
    )
}
