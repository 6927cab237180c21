//! Holds the nouns of skye: the request ([`Request`], [`Workload`]), the plan ([`Plan`]), the place ([`Target`],
//! [`Machine`]) and the result ([`Run`]).
//!
//! Invariants:
//! - No I/O, no threads, no clock: everything here is a value or a pure function of values. The same request on the
//!   same target gives the same plan.
//! - Every type that skye writes to disk is serialised here and nowhere else. [`json`] has the only code that does it.
//! - Names carry their unit, last: `_bytes`, `_ns`, `_per_second`. Durations are nanoseconds, sizes bytes.
//! - The JSON of a [`Run`] only grows within schema `skye.run/3`. A new key is an `Option` or has a default, so that
//!   older documents stay readable.
//! - Every spec that [`spec::print()`] writes parses to the same workload. The output of `--dry-run` gives the same
//!   plan.

pub mod advice;
pub mod comparison;
mod digest;
pub mod disturbance;
mod document;
pub mod experiment;
pub mod figure;
pub mod finding;
pub mod frames;
pub mod health;
pub mod holding;
pub mod hosts;
pub mod json;
pub mod layer;
pub mod limiter;
pub mod load;
pub mod machine;
pub mod marker;
pub mod mix;
pub mod numbers;
pub mod observation;
pub mod order;
pub mod percentile;
pub mod plan;
pub mod printable;
pub mod request;
pub mod run;
pub mod schema;
pub mod selftest;
pub mod sim;
pub mod size;
pub mod spec;
pub mod sweep;
pub mod target;
mod toml_text;
pub mod user_error;
pub mod workload;

pub use comparison::Comparison;
pub use experiment::Experiment;
pub use health::Health;
pub use limiter::Limiter;
pub use machine::Machine;
pub use percentile::{Percentile, Percentiles};
pub use plan::{Plan, PlannedPhase, Stop};
pub use request::Request;
pub use run::Run;
pub use selftest::SelfTest;
pub use sim::SimDevice;
pub use sweep::Sweep;
pub use target::Target;
pub use user_error::UserError;
pub use workload::{
    Arrival, DataVerb, DataWork, Engine, FileVerb, FilesWork, OpenRate, RequestedEngine, Work, Workload,
};

/// Returns the candidate closest to a mistyped word; `None` if none is close enough to be the intended one.
///
/// A fourth of its letters may be wrong, or its end may be missing. A word that merely looks like another may mean something
/// else.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 4).max(1);
    let is_prefix = |candidate: &str| word.len() >= 4 && candidate.starts_with(word);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= most || is_prefix(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
