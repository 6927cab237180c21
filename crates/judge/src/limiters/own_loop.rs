//! skye's own loop.

use model::Limiter;
use model::numbers::percent;
use model::run::{Confidence, Evidence};

use super::{Found, budget_sentence};
use crate::reading::Reading;

/// Above this share of a ceiling a number is about the client and not about the storage: by then the loop's own time is
/// more than two thirds of the whole.
pub(crate) const NEAR: f64 = 0.7;

/// A target that gets less than this share of the depth that was asked for is not what a number is about.
const IDLE_SLOTS: f64 = 0.1;

/// Near what the loop reaches without any I/O.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let ceilings = reading.input.record.ceiling_shares.as_ref()?;
    let share = ceilings.own_loop.filter(|share| *share > NEAR)?;
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        ceiling: Some(format!("it is {} of what skye's own loop reaches without any I/O", percent(share))),
        wait_site: reading.running_sentence(),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::BenchmarkItself, reading.on_cpu(), evidence)
            .advice("Use more threads, so that skye's own cost is shared by more CPUs."),
    )
}

/// Slots that wait for the loop in place of the target.
pub(super) fn slots(reading: &Reading<'_>) -> Option<Found> {
    let idle = reading.input.record.engine.idle_slots?;
    let share = idle / reading.in_flight;
    if share <= IDLE_SLOTS {
        return None;
    }
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        counters: Some(format!(
            "on average, {idle:.1} of {} slots waited for skye's loop, with nothing in the kernel",
            reading.in_flight
        )),
        wait_site: reading.running_sentence(),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::BenchmarkItself, share, evidence)
            // Whether the target would do more with them in the kernel is not known.
            .at_most(Confidence::Likely)
            .advice("Use more threads: each hands operations to the kernel for itself."),
    )
}
