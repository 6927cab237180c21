//! The order in which a record is judged: its traps, its trust, and its limiter.

use model::run::{Confidence, Environment, Note, PhaseRecord, Status, TargetProbes, Trust, Verdict};
use model::{Limiter, Plan};

use super::trust::weighed;
use super::{clients, repeats, verdict};
use crate::laws::limiters::{saturation, stream};
use crate::laws::operations;
use crate::laws::traps::TRAPS;
use crate::values::input::{JudgeInput, planned};
use crate::values::trap_finding::TrapFinding;
use crate::values::{disturbance, wait_channels};

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
    let mut verdict = verdict::conclude(&input).unwrap_or_default();
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

/// Copies results between rows of a run. They are the throughput of the line, the bytes that a device moves, the rate of fewer
/// clients, and how far repeats lie apart. Returns true if there is anything new, so that all rows need to be judged again.
pub fn propagate_results(rows: &mut [PhaseRecord]) -> bool {
    let (line, device) = (stream::share_network_peaks(rows), saturation::share_device_peaks(rows));
    let fewer = clients::link_client_rows(rows);
    let repeats = repeats::share_repeats(rows);
    line || device || fewer || repeats
}
