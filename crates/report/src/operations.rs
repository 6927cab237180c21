//! Operations of a mix or a replay, as tables show them below the test.

use std::cmp::Reverse;

use model::FileVerb;
use model::run::{OperationVerdict, PhaseRecord, Step};

use crate::numbers::{MISSING, amount, latency, percent};
use crate::printable;

/// An operation with its part of the test.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    step: &'a Step,
    time_share: f64,
    ops_per_second: f64,
    /// The operation's limiter, if it has one.
    pub verdict: Option<&'a OperationVerdict>,
}

/// Returns true for a test whose operations are shown.
pub(crate) fn has_operations(name: &str) -> bool {
    [FileVerb::Mix, FileVerb::Replay].iter().any(|verb| name == verb.word())
}

/// Returns the operations of a mix or a replay, the one that takes most of the time first; none of other tests.
pub(crate) fn operations<'a>(phase: &'a PhaseRecord) -> Vec<Operation<'a>> {
    if !has_operations(&phase.name) {
        return Vec::new();
    }
    let verdicts = phase.judged.verdict.as_ref().map_or(&[][..], |verdict| &verdict.operations);
    // In proportion to the headline, which may be that of the steady part.
    let per_flow = phase.figures.rate.ops_per_second.unwrap_or(f64::NAN) / phase.counts.ops as f64;
    let steps = &phase.figures.steps;
    let all_ns: u64 = steps.iter().filter_map(|step| step.elapsed_ns).sum();
    let mut steps: Vec<_> = steps.iter().filter_map(|step| Some((step, step.elapsed_ns?))).collect();
    steps.sort_by_key(|(_, elapsed_ns)| Reverse(*elapsed_ns));
    let operation = |(step, elapsed_ns): (&'a Step, u64)| Operation {
        step,
        time_share: elapsed_ns as f64 / all_ns.max(1) as f64,
        ops_per_second: step.ops as f64 * per_flow,
        verdict: verdicts.iter().find(|verdict| verdict.operation == step.name),
    };
    steps.into_iter().map(operation).collect()
}

impl Operation<'_> {
    /// Its name.
    pub fn name(&self) -> String {
        printable(&self.step.name)
    }

    /// Share of the time of all operations: "27 %".
    pub fn time(&self) -> String {
        percent(self.time_share)
    }

    /// Operations per second: "40,122".
    pub fn rate(&self) -> String {
        amount(self.ops_per_second).unwrap_or_else(|| MISSING.into())
    }

    /// The median latency and the 99th percentile.
    pub fn latencies(&self) -> [String; 2] {
        let percentiles =
            self.step.latency_ns.as_ref().map_or([None; 2], |latency| [latency.p50, latency.p99]);
        percentiles.map(|value| value.map_or_else(|| MISSING.into(), latency))
    }
}
