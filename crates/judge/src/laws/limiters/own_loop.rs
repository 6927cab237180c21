//! Limit by skye's own loop.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, Mean, Share, Threshold};
use model::observation::Observation;
use model::run::{Confidence, Verdict};

use super::evidence::{CEILING_SHARE_MIN, seen};
use crate::values::reading::Reading;

/// If more than this share of the requested depth waits for the loop, the number is not about the target.
const IDLE_SLOTS: f64 = 0.1;

/// A loop that is busy for less of its time waits for the target. A bottleneck is always busy (Lazowska et al.,
/// "Quantitative system performance", 1984).
const BUSY_MIN: f64 = 0.5;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("near", Figure::Share(CEILING_SHARE_MIN)),
    ("idle_slots", Figure::Share(IDLE_SLOTS)),
    ("busy", Figure::Share(BUSY_MIN)),
];

/// A rate near that of the loop without any I/O.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let ceilings = reading.input.record.figures.ceiling_shares.as_ref()?;
    let share = ceilings.own_loop.filter(|share| *share > CEILING_SHARE_MIN)?;
    let near = Observation::NearOwnLoop { loop_share: Share(share) };
    let evidence = seen![reading.time_spent(), reading.mostly_running(), Some(near)];
    Some(Verdict::new(Limiter::BenchmarkItself, reading.on_cpu(), evidence).advise([Advice::MoreLoops {}]))
}

/// Slots that wait for the loop instead of the target.
pub(super) fn slots(reading: &Reading<'_>) -> Option<Verdict> {
    let idle = reading.input.record.engine.idle_slots?;
    let share = idle / reading.in_flight;
    // A thread that sleeps in a submission is held back there.
    let busy = reading.on_cpu() + reading.budget.run_queue;
    if share <= IDLE_SLOTS || busy < BUSY_MIN.max(share) {
        return None;
    }
    let waited = Observation::SlotsIdle { idle: Mean(idle), slots: Count(reading.in_flight as u64) };
    let evidence = seen![reading.time_spent(), reading.mostly_running(), Some(waited)];
    Some(
        Verdict::new(Limiter::BenchmarkItself, share, evidence)
            // It is unknown if the target would do more with these slots in the kernel.
            .at_most(Confidence::Likely)
            .advise([Advice::MoreLoops {}]),
    )
}
