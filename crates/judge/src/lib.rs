//! Judges the record of a phase: the traps that it fell into, the trust that its number deserves, and the limiter that held
//! it back.
//!
//! Invariants:
//! - Pure: values in, values out. A record from disk is judged as one from memory.
//! - No English: a finding, an observation and a piece of advice are kinds with figures. `wording` says them.
//! - A finding that costs trust has figures as its evidence, and advice.
//! - Every threshold is a named constant that says where it comes from; what was not seen is never judged as if it had
//!   been.
//! - What a test was asked to do is no trap: a warm cache that was asked for is no contamination.

mod again;
mod disturbance;
mod experiments;
#[cfg(test)]
mod fixtures;
mod input;
mod limiters;
mod reading;
#[cfg(test)]
mod tests;
mod traps;
mod wait_channels;

use model::advice::Advice;
use model::finding::Finding;
use model::run::{Confidence, Environment, Note, PhaseRecord, Status, TargetProbes, Trust, Verdict};
use model::workload::DataWork;
use model::{Experiment, Limiter, Plan};

pub use again::again;
pub use disturbance::disturbances;
pub use experiments::has_moved;
pub use input::JudgeInput;
pub use limiters::thresholds;
pub use traps::direct::disagreement;
pub use traps::{TRAPS, Trap};

/// A finding of a trap about a row.
#[derive(Debug, Clone, PartialEq)]
pub struct TrapFinding {
    /// The finding.
    pub finding: Finding,
    /// What to do about it.
    pub advice: Vec<Advice>,
}

impl TrapFinding {
    fn new(finding: Finding, advice: impl IntoIterator<Item = Advice>) -> Self {
        Self { finding, advice: advice.into_iter().collect() }
    }

    /// Direct I/O helps as well, except with single bytes, which go through the page cache whatever one asks for.
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

/// Judges a record: its notes become those that the run made, followed by what the traps find.
///
/// A record that was judged before is judged anew. `plan` and `environment` are those of its run.
pub fn judge(
    record: &mut PhaseRecord,
    plan: &Plan,
    environment: &Environment,
    probes: Option<&TargetProbes>,
) {
    record.notes.retain(|note| !TRAPS.iter().any(|trap| trap.code == note.code));
    record.verdict = None;
    record.disturbance = None;
    let Some(phase) = planned(record, plan) else { return };
    let input = JudgeInput::new(record, phase, plan, environment, probes);
    // What an engine without I/O gives is the speed of no storage, and no one's to believe.
    if record.ops == 0 || record.status == Status::Skipped || !input.is_measured() {
        return;
    }
    let mut costs: Vec<(Trust, String)> = Vec::new();
    let mut found = Vec::new();
    for trap in TRAPS {
        let Some(TrapFinding { finding, advice }) = (trap.check)(&input) else { continue };
        costs.push((finding.grade().trust(), trap.code.to_owned()));
        found.push(Note::new(finding, advice));
    }
    costs.extend(record.notes.iter().map(|note| (note.finding.grade().trust(), note.code.clone())));
    if record.status != Status::Done {
        costs.push((Trust::Invalid, "ended_early".into()));
    }
    let mut verdict = limiters::conclude(&input).unwrap_or_default();
    let disturbed = disturbance::of(&input, |_| false);
    record.disturbance = Some(disturbed);
    record.notes.extend(found);
    for site in &mut record.wait_channels {
        site.class = wait_channels::class(&site.symbol).map(|class| class.word().to_owned());
    }
    costs.retain(|(trust, _)| *trust > Trust::Ok);
    costs.sort_by_key(|(trust, _)| std::cmp::Reverse(*trust));
    let trust = costs.first().map_or(Trust::Ok, |(trust, _)| *trust);
    let trust_reasons = costs.into_iter().map(|(_, code)| code).collect();
    let is_of_memory = matches!(
        verdict.limiter,
        Some(Limiter::PageCache | Limiter::PageCacheAbsorbed | Limiter::MetadataCache)
    );
    // A number that is not the speed of this storage has a confirmed limit only where that limit makes it so.
    if trust == Trust::Invalid && !is_of_memory {
        verdict = verdict.at_most(Confidence::Likely);
    }
    record.verdict = Some(Verdict { trust, trust_reasons, ..verdict });
}

/// Tells rows what other rows of their run have shown: what the line to a server carries, and what a device moves. Whether
/// there is anything new, so that all are to be judged again.
pub fn tell_rows(rows: &mut [PhaseRecord]) -> bool {
    let (line, device) = (limiters::tell_line(rows), limiters::tell_device(rows));
    line || device
}

/// The experiment that would say most about what limits a record, of those that were not tried yet; `None` where none
/// would say more, or none may be made.
pub fn next_experiment(
    record: &PhaseRecord,
    plan: &Plan,
    environment: &Environment,
    probes: Option<&TargetProbes>,
    tried: &[Experiment],
) -> Option<Experiment> {
    let is_measured = record.status == Status::Done && record.ops > 0;
    let phase = planned(record, plan).filter(|_| is_measured)?;
    let input = JudgeInput::new(record, phase, plan, environment, probes);
    if input.is_measured() { limiters::next_experiment(&input, plan, tried) } else { None }
}

/// The test of a record in the plan of its run.
fn planned<'a>(record: &PhaseRecord, plan: &'a Plan) -> Option<&'a model::plan::PlannedPhase> {
    let id = record.id.split('#').next()?;
    plan.phases.iter().find(|phase| phase.id == id)
}
