//! A cgroup's quota of CPU time.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Ratio, Share, WaitClass};
use model::observation::Observation;
use model::run::Verdict;

use super::evidence::seen;
use crate::values::reading::Reading;

/// Threads that a quota held back for more of the time than anything else did.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let (budget, quota) = (&reading.budget, reading.quota());
    let others = [budget.user, budget.kernel, budget.run_queue, budget.steal, budget.blocked];
    if quota < 0.05 || others.iter().any(|share| *share > quota) {
        return None;
    }
    let system = reading.system();
    let held_ns = system.and_then(|system| system.quota_throttled_ns).unwrap_or(0);
    let all_ns = reading.input.record.counts.elapsed_ns.max(1);
    let held_share = Share((held_ns as f64 / all_ns as f64).min(1.0));
    let allowed = system.and_then(|system| system.quota_cpus);
    let evidence = seen![
        reading.time_spent(),
        // Threads that a quota holds back are ready to run, so samples do not find them asleep.
        reading
            .mostly_running()
            .filter(|_| reading.waits(WaitClass::Device) + reading.waits(WaitClass::Page) < 0.5),
        Some(Observation::QuotaHeld { held_share }),
        allowed.map(|cpus| Observation::CpuAllowed { cpus: Ratio(cpus) }),
    ];
    Some(Verdict::new(Limiter::CpuQuota, quota, evidence).advise([Advice::RaiseQuota {}]))
}
