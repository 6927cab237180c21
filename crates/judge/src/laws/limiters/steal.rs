//! CPU time that the hypervisor gave to others.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Share, Threshold};
use model::observation::Observation;
use model::run::Verdict;

use super::evidence::seen;
use crate::values::reading::Reading;

/// Share of steal time above which it is reported before the limits that it disturbs.
const STEAL: f64 = 0.10;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[("steal", Figure::Share(STEAL))];

/// Steal time, as the machine counts it and as the threads miss it.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let steal = reading.budget.steal;
    if steal < STEAL {
        return None;
    }
    let machine = reading.input.record.seen.cpu.as_ref().map(|cpu| cpu.steal);
    let evidence = seen![
        reading.time_spent(),
        machine.map(|share| Observation::MachineStolen { stolen_share: Share(share) }),
    ];
    Some(Verdict::new(Limiter::HypervisorSteal, steal, evidence).advise([Advice::QuietHost {}]))
}
