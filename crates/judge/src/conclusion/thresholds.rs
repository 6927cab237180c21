//! The thresholds of all rules, by name, for explanations.

use model::figure::{Figure, Threshold};

use super::{clients, next_experiment, verdict};
use crate::laws::{limiters, operations};
use crate::values::{caps, experiments, helpers, places, reading, shares};

/// Returns the thresholds that explanations of limiters name.
pub fn thresholds() -> Vec<Threshold> {
    let shared: &[Threshold] = &[("ring_blocked", Figure::Share(shares::RING_BLOCKED))];
    let of_others = [
        shared,
        caps::THRESHOLDS,
        experiments::THRESHOLDS,
        helpers::THRESHOLDS,
        places::THRESHOLDS,
        reading::THRESHOLDS,
        operations::THRESHOLDS,
        clients::THRESHOLDS,
        clients::SERVER_THRESHOLDS,
        next_experiment::THRESHOLDS,
        verdict::THRESHOLDS,
    ];
    limiters::THRESHOLDS.iter().copied().chain(of_others).flatten().copied().collect()
}
