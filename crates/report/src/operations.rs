//! Parts of a test, as tables show them below its row. They are operations of a mix or a replay, reads and writes of `rw`,
//! and calls of tests with syncs.

use std::cmp::Reverse;

use model::run::{OperationVerdict, PhaseRecord, Step};
use model::{DataVerb, FileVerb, Percentile};

use crate::numbers::{MISSING, amount, percent};
use crate::text::Kind;
use crate::{percentiles, printable};

/// Names of steps that only make data durable.
const SYNCS: [&str; 2] = ["fdatasync", "fsync"];

/// An operation or a call with its part of the test.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    /// Its counts and latencies.
    pub step: &'a Step,
    /// Share of the time of all operations; `None` where their times overlap.
    pub time_share: Option<f64>,
    /// Its part of the test's rate.
    pub ops_per_second: f64,
    bytes_per_second: Option<f64>,
    /// The operation's limiter, if it has one.
    pub verdict: Option<&'a OperationVerdict>,
}

/// Returns true for a test of many kinds of operations, which have a share of the time.
pub(crate) fn has_operations(name: &str) -> bool {
    [FileVerb::Mix, FileVerb::Replay].iter().any(|verb| name == verb.word())
}

/// Returns true for a test whose operations are calls with separate lines: reads beside writes, and syncs after writes.
fn has_calls(phase: &PhaseRecord) -> bool {
    let steps = &phase.figures.steps;
    let is_apart = || phase.name == DataVerb::Rw.word() || steps.iter().any(is_sync);
    Kind::from_phase(phase) == Kind::Data && steps.len() > 1 && is_apart()
}

/// Returns true for a step that only makes data durable.
pub(crate) fn is_sync(step: &Step) -> bool {
    SYNCS.contains(&step.name.as_str())
}

/// Returns the operations of a mix or a replay, the one that takes most of the time first. Returns the calls of `rw` and of
/// tests with syncs, in their order; none of other tests.
pub(crate) fn operations<'a>(phase: &'a PhaseRecord) -> Vec<Operation<'a>> {
    let is_mix = has_operations(&phase.name);
    if !is_mix && !has_calls(phase) {
        return Vec::new();
    }
    let verdicts = phase.judged.verdict.as_ref().map_or(&[][..], |verdict| &verdict.operations);
    // In proportion to the headline, which may be that of the steady part.
    let per_flow = phase.figures.rate.ops_per_second.unwrap_or(f64::NAN) / phase.counts.ops as f64;
    let mut steps: Vec<&Step> = phase.figures.steps.iter().collect();
    if is_mix {
        steps.retain(|step| step.elapsed_ns.is_some());
        steps.sort_by_cached_key(|step| Reverse(step.elapsed_ns.unwrap_or(0)));
    }
    let all_ns: u64 = steps.iter().filter_map(|step| step.elapsed_ns).sum();
    let operation = |step: &'a Step| {
        let ops_per_second = step.ops as f64 * per_flow;
        let block_bytes = phase.workload.block_bytes.filter(|_| !is_mix && !is_sync(step));
        Operation {
            step,
            time_share: step.elapsed_ns.filter(|_| is_mix).map(|ns| ns as f64 / all_ns.max(1) as f64),
            ops_per_second,
            bytes_per_second: block_bytes.map(|bytes| ops_per_second * bytes as f64),
            verdict: verdicts.iter().find(|verdict| verdict.operation == step.name),
        }
    };
    steps.into_iter().map(operation).collect()
}

impl Operation<'_> {
    /// Its name.
    pub fn name(&self) -> String {
        printable(&self.step.name)
    }

    /// Share of the time of all operations: "27 %"; empty for calls.
    pub fn time(&self) -> String {
        self.time_share.map_or(String::new(), percent)
    }

    /// MB/s of a call; empty if it moves no data, and for operations.
    pub fn megabytes(&self) -> String {
        self.bytes_per_second
            .map_or(String::new(), |rate| amount(rate / 1e6).unwrap_or_else(|| MISSING.into()))
    }

    /// Operations per second: "40,122".
    pub fn rate(&self) -> String {
        amount(self.ops_per_second).unwrap_or_else(|| MISSING.into())
    }

    /// Percentiles of its latency.
    pub fn latencies(&self, wanted: &[Percentile]) -> Vec<String> {
        percentiles::cells(self.step.latency_ns.as_ref(), wanted)
    }
}
