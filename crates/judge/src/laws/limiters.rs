//! Rules that choose the limiter of a result. Each rule detects one kind of limit. The first rule that fits gives the
//! verdict and its confidence.
//!
//! The order is that of certainty. First come the requested limits and skye's own costs. Then comes the threads' time,
//! which is exact, and then their wait channels. Last come the layers' counters together with the experiments. The
//! method is in docs/methodology.md.
//!
//! The position of a rule in `RULES` depends on its certainty. The snapshot of `tests/limiters.rs` shows the text of
//! all observations and advice: read it. If a rig can reproduce the limit, `skye/tests/known_answers/limiters.rs` tests
//! it.

mod cache;
pub(crate) mod cpu;
mod dirty;
pub(crate) mod evidence;
pub(crate) mod helper;
mod latency;
mod lock;
mod memory;
mod neighbour;
mod own_loop;
mod queue;
mod quota;
mod requested;
pub(crate) mod saturation;
mod steal;
pub(crate) mod stream;
mod sync;
mod throttle;
mod unstable;

use model::figure::Threshold;
use model::run::Verdict;

use crate::values::reading::Reading;

/// A rule: returns its verdict on an input whose threads' time is known.
pub(crate) type Rule = fn(&Reading<'_>) -> Option<Verdict>;

/// Every rule, in the order in which they are tried.
pub(crate) const RULES: &[Rule] = &[
    requested::rule,
    requested::pauses,
    // Under a quota, the loop without I/O was held back, too, so its rate says nothing.
    quota::rule,
    own_loop::rule,
    memory::rule,
    steal::rule,
    dirty::rule,
    cpu::contention,
    lock::separate,
    cache::rule,
    cpu::saturated,
    cpu::rule,
    own_loop::slots,
    lock::rule,
    sync::rule,
    queue::at_layer,
    throttle::readable_limit,
    stream::readable_limit,
    queue::rule,
    cache::at_layer,
    neighbour::rule,
    helper::rule,
    throttle::inferred_limit,
    unstable::rule,
    stream::rule,
    latency::rule,
    saturation::rule,
];

/// The thresholds that explanations name, file by file.
pub(crate) const THRESHOLDS: &[&[Threshold]] = &[
    cache::THRESHOLDS,
    cpu::THRESHOLDS,
    helper::THRESHOLDS,
    lock::THRESHOLDS,
    memory::THRESHOLDS,
    neighbour::THRESHOLDS,
    own_loop::THRESHOLDS,
    queue::THRESHOLDS,
    requested::THRESHOLDS,
    saturation::THRESHOLDS,
    steal::THRESHOLDS,
    stream::THRESHOLDS,
    sync::THRESHOLDS,
    throttle::THRESHOLDS,
    unstable::THRESHOLDS,
];
