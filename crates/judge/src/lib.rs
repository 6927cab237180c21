//! Judges the record of a phase: its traps, the trust in its result, and its limiter.
//!
//! [`TRAPS`] lists the traps, and `limiters` has the rules for limiters. The function [`next_experiment()`] chooses the
//! most informative experiment. Kernel functions in which threads sleep have classes in `wait_channels`, by which
//! `operations` judges each operation of a mix.
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

mod clients;
mod disturbance;
mod experiments;
#[cfg(test)]
mod fixtures;
mod input;
mod ledger;
mod limiters;
mod lookups;
mod operations;
mod places;
mod reading;
mod rejudge;
mod repeats;
#[cfg(test)]
mod tests;
mod traps;
mod wait_channels;

use std::cmp::Reverse;

use model::advice::Advice;
use model::finding::Finding;
use model::run::{Confidence, Environment, Note, PhaseRecord, Status, TargetProbes, Trust, Verdict};
use model::workload::DataWork;
use model::{Experiment, Limiter, Plan};

pub use disturbance::disturbances;
pub use experiments::has_baseline_shifted;
pub use input::JudgeInput;
pub use limiters::thresholds;
pub use rejudge::rejudge;
pub use traps::direct::disagreement;
pub use traps::{TRAPS, Trap};

/// A finding of a trap about a row.
#[derive(Debug, Clone, PartialEq)]
pub struct TrapFinding {
    /// The finding.
    pub finding: Finding,
    /// Advice about it.
    pub advice: Vec<Advice>,
}

impl TrapFinding {
    fn new(finding: Finding, advice: impl IntoIterator<Item = Advice>) -> Self {
        Self { finding, advice: advice.into_iter().collect() }
    }

    /// Adds the advice to use direct I/O, except for single bytes, which go through the page cache in any case.
    fn or_direct(mut self, data: &DataWork) -> Self {
        self.advice.extend((!data.verb.is_bytes()).then_some(Advice::OrDirect {}));
        self
    }
}

impl From<Finding> for TrapFinding {
    fn from(finding: Finding) -> Self {
        Self::new(finding, [])
    }
}

/// Judges a record. Its notes become those of the run, followed by the findings of the traps.
///
/// A record that was judged before is judged again. `plan` and `environment` are those of its run.
pub fn judge(
    record: &mut PhaseRecord,
    plan: &Plan,
    environment: &Environment,
    probes: Option<&TargetProbes>,
) {
    record.judged.notes.retain(|note| !TRAPS.iter().any(|trap| trap.code == note.code));
    record.judged.verdict = None;
    record.seen.disturbance = None;
    let Some(phase) = planned(record, plan) else { return };
    if !record.hosts.is_empty() {
        return clients::judge(record, phase, plan, environment);
    }
    let input = JudgeInput::new(record, phase, plan, environment, probes);
    // The rate of an engine without I/O is the speed of no storage, so it gets no verdict.
    if record.counts.ops == 0 || record.status == Status::Skipped || !input.is_measured() {
        return;
    }
    let found = TRAPS.iter().filter_map(|trap| (trap.check)(&input));
    let found: Vec<_> = found.map(|TrapFinding { finding, advice }| Note::new(finding, advice)).collect();
    let (trust, trust_reasons) = weighed(found.iter().chain(&record.judged.notes), record.status);
    let mut verdict = limiters::conclude(&input).unwrap_or_default();
    verdict.operations = operations::judge(&input, &verdict);
    let (disturbed, writes) = (disturbance::from_input(&input, |_| false), input.writes());
    record.seen.disturbance = Some(disturbed);
    record.judged.notes.extend(found);
    for site in &mut record.seen.wait_channels {
        site.class = wait_channels::class(&site.symbol, writes).map(|class| class.word().to_owned());
    }
    let is_of_memory = matches!(
        verdict.limiter,
        Some(Limiter::PageCache | Limiter::PageCacheAbsorbed | Limiter::MetadataCache)
    );
    // An invalid number is not the speed of this storage. Its limit is confirmed only if that limit is the reason.
    if trust == Trust::Invalid && !is_of_memory {
        verdict = verdict.at_most(Confidence::Likely);
    }
    record.judged.verdict = Some(Verdict { trust, trust_reasons, ..verdict });
}

/// Returns the trust that a number with these notes deserves, and the codes that cost it, the gravest first.
fn weighed<'a>(notes: impl IntoIterator<Item = &'a Note>, status: Status) -> (Trust, Vec<String>) {
    let cost = |note: &Note| (note.finding.grade().trust(), note.code.clone());
    let early = (status != Status::Done).then(|| (Trust::Invalid, "ended_early".to_owned()));
    let mut costs: Vec<_> = notes.into_iter().map(cost).chain(early).collect();
    costs.retain(|(trust, _)| *trust > Trust::Ok);
    costs.sort_by_cached_key(|(trust, _)| Reverse(*trust as u64));
    let trust = costs.first().map_or(Trust::Ok, |(trust, _)| *trust);
    (trust, costs.into_iter().map(|(_, code)| code).collect())
}

/// Copies results between rows of a run. They are the throughput of the line, the bytes that a device moves, the rate of fewer
/// clients, and how far repeats lie apart. Returns true if there is anything new, so that all rows need to be judged again.
pub fn propagate_results(rows: &mut [PhaseRecord]) -> bool {
    let (line, device) = (limiters::share_network_peaks(rows), limiters::share_device_peaks(rows));
    let fewer = clients::link_client_rows(rows);
    let repeats = repeats::share_repeats(rows);
    line || device || fewer || repeats
}

/// Returns the most informative untried experiment on the limiter of a record; `None` if none is informative or
/// allowed.
pub fn next_experiment(
    record: &PhaseRecord,
    plan: &Plan,
    environment: &Environment,
    probes: Option<&TargetProbes>,
    tried: &[Experiment],
) -> Option<Experiment> {
    let is_measured = record.status == Status::Done && record.counts.ops > 0;
    let phase = planned(record, plan).filter(|_| is_measured)?;
    let input = JudgeInput::new(record, phase, plan, environment, probes);
    if input.is_measured() { limiters::next_experiment(&input, plan, tried) } else { None }
}

/// Returns the test of a record from the plan of its run.
fn planned<'a>(record: &PhaseRecord, plan: &'a Plan) -> Option<&'a model::plan::PlannedPhase> {
    let id = record.id.split('#').next()?;
    plan.phases.iter().find(|phase| phase.id == id)
}
