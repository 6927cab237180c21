//! What can be said of a series of numbers, and how surely: the rate of a phase and whether it was steady, intervals,
//! percentiles, modes; and of groups of runs: whether they differ, by how much.
//!
//! Invariants:
//! - Pure: the same numbers give the same answer. No I/O, no clock, no threads; what is random has a seed.
//! - No input makes a function panic, and nothing that is not finite comes out. What cannot be told is `None`.
//! - An interval contains the value that it belongs to. All intervals are for 95 %, and but for that of the next value for
//!   this run only: what another run would give differs by more than chance within one.
//! - Neighbours in time are never taken to be independent, but where they are too few to show what they have in common.
//! - It knows nothing of storage: it uses no other crate of the workspace.

mod change_points;
mod comparison;
mod interval;
mod modes;
mod permutation;
mod quantiles;
mod rate;
mod short_series;

pub use comparison::{
    Answer, Change, Judged, Margins, centre, compare_groups, compare_pairs, judge, runs_to_settle,
};
pub use interval::{Interval, VALUES_MIN, independent, interval_of_mean, interval_of_next};
pub use modes::{Mode, modes};
pub use quantiles::{Quantile, quantiles};
pub use rate::{Analysis, STEADY_TICKS, Segment, Tick, analyse};
pub use short_series::{FEW_MIN, Level, levels_of_few, middle};
