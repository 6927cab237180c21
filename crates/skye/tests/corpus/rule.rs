//! The rule: no statement about a row is refuted by the row's own figures. The rule knows the figures of the document
//! alone, and none of the judge's thresholds. A verdict that follows from its evidence passes, however it was found.

use model::Limiter;
use model::advice::Advice;
use model::finding::Finding;
use model::observation::Observation;
use model::run::{Confidence, PhaseRecord, Response, Run};
use model::target::Backing;

/// Smallest gain that counts. If the gain of more depth is surely below it, the limiter is no latency.
const BRINGS: f64 = 1.15;
/// Largest ratio of two figures that are called the same.
const SAME: f64 = 1.3;

/// Returns low end, middle and high end of an answer's interval, as multiples of a rate.
fn times(response: &Response, factor: f64) -> Option<[f64; 3]> {
    let half = response.half_width?;
    Some([response.value - half, response.value, response.value + half].map(|exponent| factor.powf(exponent)))
}

/// Returns sentences about statements that a row's figures refute.
pub fn contradictions(row: &PhaseRecord, run: &Run) -> Vec<String> {
    let Some(verdict) = &row.judged.verdict else { return Vec::new() };
    let mut all = Vec::new();
    let mut refuted = |is_refuted: bool, what: String| {
        if is_refuted {
            all.push(format!("{}: {what}", row.spec));
        }
    };
    let limiter = verdict.limiter.unwrap_or(Limiter::NotClear);
    let is_confirmed = verdict.confidence == Some(Confidence::Confirmed);
    let counts = |wanted: &str| {
        verdict.observations.iter().chain(&verdict.contradicting).any(
            |seen| matches!(seen, Observation::Answer { experiment, .. } if experiment.0.word() == wanted),
        )
    };
    let known = row.judged.sensitivity.as_ref();
    let gain = known.and_then(|known| times(known.depth.as_ref()?, 4.0)).filter(|_| counts("depth"));
    let is_full = matches!(
        limiter,
        Limiter::DeviceBandwidth | Limiter::DeviceOps | Limiter::NetworkBandwidth | Limiter::ServerSaturated
    );
    if let Some([low, middle, high]) = gain {
        refuted(is_full && low > BRINGS, format!("{limiter}, and more depth gave {middle:.2} times as much"));
        refuted(
            is_full && is_confirmed && middle > 1.1,
            format!("{limiter} for sure, and depth gave {middle:.2}"),
        );
        let is_latency = matches!(limiter, Limiter::DeviceLatency | Limiter::RemoteLatency);
        refuted(
            is_latency && high < BRINGS,
            format!("{limiter}, and more depth gave {middle:.2} times as much"),
        );
        let recommends_depth = verdict.next.iter().any(|advice| matches!(advice, Advice::MoreDepth {}));
        refuted(
            recommends_depth && middle < BRINGS,
            format!("told to use more depth, which gave {middle:.2}"),
        );
    }
    refuted(
        is_confirmed && is_full && gain.is_none() && known.is_none(),
        format!("{limiter}, and nothing was tried"),
    );
    let by_blocks = known.and_then(|known| times(known.block.as_ref()?, 4.0)).filter(|_| counts("block"));
    if let Some([_, operations, _]) = by_blocks.filter(|_| is_confirmed) {
        let bytes = operations * 4.0;
        let is_same = |times: f64| times.max(1.0 / times) < SAME;
        refuted(
            limiter == Limiter::DeviceBandwidth && !is_same(bytes),
            format!("{bytes:.2} times the bytes"),
        );
        refuted(
            limiter == Limiter::DeviceOps && !is_same(operations),
            format!("{operations:.2} times the operations"),
        );
    }
    if let Some(budget) = &row.seen.budget {
        let own = match limiter {
            Limiter::KernelCpu => Some(budget.kernel),
            Limiter::ClientCpu => Some(budget.user),
            Limiter::CpuContention => Some(budget.run_queue),
            _ => None,
        };
        let waited = budget.run_queue;
        refuted(
            own.is_some_and(|own| own + 1e-9 < waited.min(1.0)),
            format!(
                "{limiter} with {:.2} of the time, and threads waited for a CPU for {waited:.2}",
                own.unwrap_or(0.0)
            ),
        );
    }
    let target = &run.environment.target;
    let is_device_limit =
        matches!(limiter, Limiter::DeviceBandwidth | Limiter::DeviceOps | Limiter::DeviceLatency);
    refuted(is_device_limit && target.backing == Backing::Memory, format!("{limiter} in memory"));
    let has_journal = target.geometry.journal.as_deref().is_some_and(|journal| journal != "none");
    let commits = verdict.observations.iter().any(|seen| matches!(seen, Observation::CommitsJournal { .. }));
    refuted(commits && !has_journal, "a journal is committed that is not there".into());
    for note in &row.judged.notes {
        match &note.finding {
            Finding::RanOut { .. }
            | Finding::RanOutByOps { .. }
            | Finding::RanOutMean { .. }
            | Finding::RanOutMeanByOps { .. } => {
                let changes = row.figures.steady.iter().flat_map(|steady| &steady.change_points);
                let levels: Vec<f64> = changes.map(|change| change.after_ops_per_second).collect();
                let first = row.figures.steady.iter().flat_map(|steady| &steady.change_points).next();
                let before = first.map_or(0.0, |change| change.before_ops_per_second);
                let came_back = levels.last().is_some_and(|last| *last > 0.9 * before);
                refuted(came_back, "a store ran out, and the rate came back".into());
            }
            _ => {}
        }
    }
    all
}
