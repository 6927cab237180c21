//! Judges the record of a phase: its traps, the trust in its result, and its limiter.
//!
//! It has three floors. A module uses those of its floor and of the floors below, and never in a circle.
//!
//! 1. `values` holds the facts of a record. The modules `input` and `reading` are the record in the terms of the rules.
//!    The modules `ledger` and `places` compare layers, and `experiments` compares responses.
//! 2. `laws` holds tables of rules that read values. [`TRAPS`] lists the traps, and `limiters` has the rules for limiters.
//!    The module `operations` judges each operation of a mix.
//! 3. `conclusion` asks the rules in their order. [`judge()`] is the entrance, and `verdict` finds the limiter.
//!    [`next_experiment()`] chooses the most informative experiment.
//!
//! Invariants:
//! - Pure: values in, values out. A record from disk gets the same judgement as one in memory; newer rules can judge it
//!   again.
//! - No English: a finding, an observation and a piece of advice are variants with figures. `wording` has their texts.
//! - A finding that lowers the trust has figures as evidence.
//! - Every threshold is a named constant that says where it comes from.
//! - A missing source of data is never judged as if it had been read.
//! - Three kinds of evidence confirm a limiter, and two make it likely. Conflicting evidence makes it not clear. A
//!   wrong verdict that is confirmed is the worst of bugs.
//! - Each trap has a positive and a negative example; a test requires both (`src/tests/examples.rs`).
//! - A requested condition is no trap: a requested warm cache is no contamination.

mod conclusion;
#[cfg(test)]
mod fixtures;
mod laws;
#[cfg(test)]
mod tests;
mod values;

pub use conclusion::judge::{judge, propagate_results};
pub use conclusion::next_experiment::next_experiment;
pub use conclusion::rejudge::rejudge;
pub use conclusion::thresholds::thresholds;
pub use laws::traps::TRAPS;
pub use laws::traps::direct::disagreement;
pub use laws::traps::trap::Trap;
pub use values::disturbance::disturbances;
pub use values::experiments::has_baseline_shifted;
pub use values::input::JudgeInput;
pub use values::trap_finding::TrapFinding;
