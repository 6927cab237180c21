//! The three kinds of phases behind one trait: tests on data, tests on files, and tests on a simulated device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::clock::{Clock, Monotonic, Timer};
use model::plan::{PlannedPhase, PrecisionGoal};
use model::workload::verbs::VerbStep;
use model::workload::{CacheMode, FileVerb, Work};
use model::{UserError, load, mix};

use crate::collect::Collector;
use crate::drive::{PhaseEvent, RunningPhase};
use crate::member;
use crate::meter::{LowWatermark, Meter, PhaseSums};
use crate::record::PhaseTotals;

/// Inputs that all kinds of phases share.
pub struct PhaseInputs<'a> {
    /// Test to run.
    pub phase: &'a PlannedPhase,
    /// State of the page cache before buffered reads; it may allow dropping the machine's caches.
    pub cache: CacheMode,
    /// Seed of the run, which the data is stamped with.
    pub seed: u64,
    /// Seed of offsets and of the order.
    pub offset_seed: u64,
    /// Longest measured time.
    pub time_ns: u64,
    /// Longest time in all, with untimed work.
    pub budget_ns: u64,
    /// Condition for an end before that time.
    pub precision_goal: Option<PrecisionGoal>,
    /// Time of a round and most rounds, of a test that is repeated until it is steady.
    pub rounds: Option<(u64, u32)>,
    /// Flag that another process raises once the phase has done enough.
    pub enough: Option<Arc<AtomicBool>>,
    /// Rate of an open loop, over all threads.
    pub rate_ops_per_second: Option<f64>,
    /// Clock that times operations.
    pub timer: Timer,
    /// CPUs near the device; none if all are near.
    pub local_cpus: Option<Arc<[u32]>>,
    /// Flag that a signal raises.
    pub interrupt: Arc<AtomicBool>,
}

/// Measurements of one phase, before they become a record.
pub struct Measured {
    /// Totals, or the error that kept the phase from starting.
    pub totals: Result<PhaseTotals, UserError>,
    /// Counts of the workers.
    pub collected: Collector,
    /// Counters of the machine during the phase.
    pub observed: PhaseSums,
    /// Start of the phase; `None` on a virtual clock, which begins with each phase.
    pub start_ns: Option<u64>,
}

impl Measured {
    /// Returns the measurements of a phase that did not start.
    pub fn nothing(phase: &PlannedPhase, error: UserError) -> Self {
        Self {
            totals: Err(error),
            collected: Collector::new(steps(phase)),
            observed: PhaseSums::default(),
            start_ns: Some(Monotonic.now_ns()),
        }
    }
}

/// One phase, ready to be measured.
pub trait Task {
    /// Measures it. Calls `on_event` at every moment.
    fn measure(self: Box<Self>, on_event: &mut dyn FnMut(PhaseEvent<'_>)) -> Measured;
}

/// Returns the steps that an operation of a phase consists of; none if it is one call.
pub fn steps(phase: &PlannedPhase) -> Vec<VerbStep> {
    match &phase.workload.work {
        Work::Data(data) => member::steps(data),
        Work::Files(files) => files.steps(),
    }
}

/// Returns the names of the operations that a mix or a load consists of; none for other tests.
pub fn operations(phase: &PlannedPhase) -> &'static [&'static str] {
    match phase.workload.files().map(|files| files.verb) {
        Some(FileVerb::Mix) => mix::Operation::STEPS,
        Some(FileVerb::Replay) => load::Operation::STEPS,
        _ => &[],
    }
}

/// Stops the workers when their driver panics.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until the devices are calm, and runs work while the meter reads the kernel's counters.
pub fn run_measured(
    inputs: &PhaseInputs<'_>,
    meter: &mut Meter,
    on_event: &mut dyn FnMut(PhaseEvent<'_>),
    work: impl FnOnce(&mut RunningPhase<'_>) -> Result<PhaseTotals, UserError>,
) -> Measured {
    meter.settle(&inputs.interrupt);
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let mut drive = RunningPhase {
        interrupt: &inputs.interrupt,
        meter,
        on_event,
        stop: Arc::clone(&stop.0),
        low_watermark: LowWatermark::default(),
        collected: Collector::new(steps(inputs.phase)).in_rounds(inputs.rounds),
        readers: Vec::new(),
        start_ns: Monotonic.now_ns(),
        operations: operations(inputs.phase),
        precision_goal: inputs.precision_goal,
        enough: inputs.enough.clone(),
        is_continuous: inputs.phase.workload.is_continuous(),
        budgets: Vec::new(),
        has_writes: inputs.phase.workload.writes(),
        is_goal_met: false,
        known: None,
        last_check_ns: 0,
    };
    let totals = work(&mut drive);
    (drive.on_event)(PhaseEvent::Over);
    let (collected, start_ns) = (drive.collected, Some(drive.start_ns));
    let observed = meter.take_sums();
    // Descriptors of threads that have ended would be missing elsewhere.
    meter.reset(&[], false);
    Measured { totals, collected, observed, start_ns }
}

#[cfg(test)]
mod tests {
    #[test]
    fn mix_and_load_operations_fit_the_step_counters() {
        assert!(super::mix::Operation::STEPS.len() <= observe::STEPS_MAX);
        assert!(super::load::Operation::STEPS.len() <= observe::STEPS_MAX);
    }
}
