//! Computes statistics of series of numbers, with their confidence. A phase has a rate, a steady part, intervals,
//! percentiles and modes. Groups of runs differ by a ratio with an interval.
//!
//! `tests/known_answers/` checks the claims against series of known truth: how often an interval contains it, a step is
//! found, a drift is rejected.
//!
//! Invariants:
//! - Pure: the same numbers give the same result. No I/O, no clock, no threads; random draws have a seed.
//! - No input makes a function panic, and every result is finite. An impossible result is `None`.
//! - An interval contains its own value. Intervals are for 95 %, and those of repeats for 90 %. All others but that of the next
//!   value are for this run only: another run differs by more than chance within one.
//! - Neighbours in time are never taken to be independent, except where they are too few to show their correlation.
//! - This crate knows nothing of storage and uses no other crate of the workspace.

mod change_points;
mod comparison;
mod contrast;
mod interval;
mod modes;
mod permutation;
mod quantiles;
mod rate;
mod repeats;
mod rounds;
mod share;
mod short_series;

pub use comparison::{
    AdjustedDecision, Change, Decision, Margins, SIGNIFICANCE, centre, compare_groups, compare_pairs, holm,
    judge, runs_to_decide,
};
pub use contrast::{Contrast, largest_contrast};
pub use interval::{Interval, VALUES_MIN, independent, interval_of_mean, prediction_interval};
pub use modes::{Mode, modes};
pub use quantiles::{Quantile, are_known, quantiles};
pub use rate::{Analysis, STEADY_TICKS, Segment, Tick, analyse};
pub use repeats::repeat_distance;
pub use rounds::{EXCURSION_MAX, SLOPE_MAX, WINDOW_ROUNDS, Window, steady_round, window};
pub use share::interval_of_share;
pub use short_series::{Level, SHORT_SERIES_MIN, levels_of_short_series, middle};
