//! A rate that was asked for and kept.

use model::Limiter;
use model::numbers::amount;
use model::run::Evidence;

use super::{Found, budget_sentence};
use crate::reading::Reading;

/// An open loop that kept its rate says nothing about what would be possible: its latencies do.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let case = &reading.case;
    let asked = case.record.workload.rate_ops_per_second.filter(|_| case.rate_is_given())?;
    let rate = case.record.rate.whole_ops_per_second?;
    let told = |rate: f64| amount(rate).unwrap_or_default();
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        counters: Some(format!("{} operations/s were started", told(rate))),
        visible_cap: Some(format!("{} operations/s were asked for", told(asked))),
        ..Evidence::default()
    };
    let share = 1.0 - reading.on_cpu();
    Some(
        Found::new(Limiter::RateLimitAsked, share, evidence).advice(
            "The rate was given; read the latencies. Leave rate= away to see what the target can do.",
        ),
    )
}
