//! The choice of the next experiment on a row.

use model::figure::{Figure, Threshold};
use model::run::{Confidence, Environment, PhaseRecord, Status, TargetProbes};
use model::{Experiment, Limiter, Plan};

use super::verdict::conclude;
use crate::laws::limiters::evidence::waits_for_target;
use crate::values::experiments::Load;
use crate::values::input::{JudgeInput, planned};
use crate::values::reading::Reading;

/// If more depth raises the rate by more than this factor, no second experiment is needed.
const HEADROOM_GAIN: f64 = 2.0;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] = &[("much_room", Figure::Ratio(HEADROOM_GAIN))];

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
    if input.is_measured() { next(&input, plan, tried) } else { None }
}

/// Returns the most informative experiment for an input without a certain limiter; `None` if none is informative, or
/// all were made.
///
/// Only tests that wait get experiments: threads that are always on a CPU have already shown their limit.
fn next(input: &JudgeInput<'_>, plan: &Plan, tried: &[Experiment]) -> Option<Experiment> {
    let reading = Reading::from_input(*input)?;
    let conclusion = conclude(input)?;
    if !plan.may_probe(input.phase) {
        return None;
    }
    let is_open = |experiment: &&Experiment| !tried.contains(experiment);
    let is_shared = Experiment::Separate.variant(input.phase, plan.cache).is_some();
    if !waits_for_target(&reading) {
        // For busy threads, the one open question is the gain from more threads, where there are CPUs for them.
        let has_room = reading.threads < f64::from(input.environment.cpus) && !reading.is_ring;
        let is_busy =
            matches!(conclusion.limiter, Some(Limiter::ClientCpu | Limiter::KernelCpu | Limiter::Mixed));
        let wanted = [(Experiment::Depth, has_room && is_busy), (Experiment::Separate, is_shared)];
        return wanted.iter().find(|(one, is_wanted)| *is_wanted && is_open(&one)).map(|(one, _)| *one);
    }
    // Some limits need no experiment, such as a requested rate, or a cap that can be read.
    let is_settled = matches!(
        conclusion.limiter,
        Some(
            Limiter::RequestedRate
                | Limiter::ThinkTime
                | Limiter::BenchmarkItself
                | Limiter::DirtyThrottling
                | Limiter::MemoryPressure
        )
    );
    let is_capped =
        conclusion.limiter == Some(Limiter::IoThrottle) && conclusion.is_at_least(Confidence::Confirmed);
    if is_settled || is_capped {
        return None;
    }
    let load = reading.load();
    let is_wanted = |experiment: &Experiment| match experiment {
        Experiment::Depth => true,
        // A target with this much headroom needs no second proof.
        Experiment::Single => {
            reading.in_flight > 1.0 && reading.gain().is_none_or(|gain| gain.low < HEADROOM_GAIN)
        }
        // Only a saturated target shows the unit that it counts.
        Experiment::Block => !load.is(Load::Headroom),
        Experiment::Separate => is_shared,
    };
    Experiment::ALL.iter().filter(|one| is_wanted(one)).find(is_open).copied()
}
