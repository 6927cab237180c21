//! CPU time that the hypervisor gave to others.

use model::Limiter;
use model::numbers::percent;
use model::run::Evidence;

use super::{Found, budget_sentence};
use crate::reading::Reading;

/// From this share on, steal is named before what it disturbs.
const STEAL: f64 = 0.10;

/// Steal, as the machine counts it and as the threads miss it.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let steal = reading.budget.steal;
    if steal < STEAL {
        return None;
    }
    let machine = reading.input.record.cpu.as_ref().map(|cpu| cpu.steal);
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        counters: machine
            .map(|share| format!("the machine lost {} of all CPU time to the hypervisor", percent(share))),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::HypervisorSteal, steal, evidence)
            .advice("Run it again when the host is quiet, or on CPUs of your own."),
    )
}
