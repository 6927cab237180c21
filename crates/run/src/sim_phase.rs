//! Runs one test on a simulated device: all workers in this thread, on a virtual clock.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::data::mix;
use engine::pacing::OpenLoop;
use engine::recorder::{DeltaReader, Recorder, Shape};
use engine::sim::{self, SimClock, SimLoop, SimSystem};
use engine::verb::{Steps, Verb};
use engine::worker::{Layout, Limits, WorkerResult};
use model::run::Frame;
use model::workload::{Arrival, DataWork};
use model::{SimDevice, UserError};

use crate::collect::Collector;
use crate::data_phase::{DataOutcome, members, pattern, planned_ops, shares};
use crate::drive::{self, PhaseEvent, StartSignal, Tick};
use crate::meter::PhaseSums;
use crate::record::PhaseTotals;
use crate::task::{self, Measured, PhaseInputs, Task};
use crate::zoned::Zoned;

/// A test on a simulated device, ready to be measured.
pub struct SimTask<'a> {
    /// Inputs that all kinds of phases share.
    pub inputs: PhaseInputs<'a>,
    /// Device to simulate.
    pub device: &'a SimDevice,
    /// Bytes written to the device by earlier tests; those of this test are added.
    pub age_bytes: &'a mut u64,
    /// Bytes of the device that the test works on.
    pub size_bytes: u64,
    /// Seed of offsets, and of the device's random draws.
    pub seed: u64,
}

impl Task for SimTask<'_> {
    fn measure(self: Box<Self>, on_event: &mut dyn FnMut(PhaseEvent<'_>)) -> Measured {
        let collected = Collector::new(task::steps(self.inputs.phase)).in_rounds(self.inputs.rounds);
        let mut observed = PhaseSums::default();
        // All worker time that the device takes is spent in the kernel.
        (observed.is_simulated, observed.kernel_ticks) = (true, 1);
        // Clients of one run begin at one instant, from which the clock of each device counts.
        let mut start_signal = StartSignal::default();
        on_event(PhaseEvent::Begin(&mut start_signal));
        let mut sinks = Sinks { collected, observed, on_event, is_goal_met: Arc::default() };
        let totals = match start_signal.is_cancelled {
            true => Err(drive::others_have_ended()),
            false => run(*self, &mut sinks),
        };
        let Sinks { collected, observed, on_event, .. } = sinks;
        on_event(PhaseEvent::End);
        on_event(PhaseEvent::Over);
        Measured { totals, collected, observed, start_ns: start_signal.at_ns }
    }
}

/// Runs the test.
fn run(task: SimTask<'_>, sinks: &mut Sinks<'_>) -> Result<PhaseTotals, UserError> {
    let phase = task.inputs.phase;
    let Some(data) = phase.workload.data() else {
        return Err(UserError::new("simulate a test on files", "it has no data"));
    };
    // Each worker has one CPU, whatever machine computes this: the same seed gives the same result
    // everywhere.
    let world = SimSystem::new(task.device, phase.workload.threads, task.seed)
        .map_err(|problem| UserError::new(format!("simulate {}", task.device.name), problem))?;
    let world = Rc::new(RefCell::new(world));
    world.borrow_mut().set_age(*task.age_bytes);
    let ended = simulate(&task, data, &world, sinks);
    *task.age_bytes = world.borrow().age_bytes();
    let mut outcome = DataOutcome { size_bytes: task.size_bytes, ..DataOutcome::default() };
    let ends = || ended.iter().map(|ended| ended.end_ns);
    outcome.first_done_ns = ends().min().unwrap_or(0);
    outcome.last_done_ns = ends().max().unwrap_or(0);
    outcome.synced_ns = outcome.last_done_ns;
    outcome.missed = ended.iter().map(|ended| ended.missed).sum();
    outcome.failure = ended.iter().find_map(|ended| ended.result.err()).map(|failure| {
        let offset = failure.offset_bytes.unwrap_or(0);
        UserError::new(format!("{} {} at offset {offset}", failure.call, task.device.name), failure.cause)
            .help("its description injects this error")
    });
    if let Some(zoned) = &mut sinks.collected.zoned {
        zoned.leave(sinks.collected.read_bytes, outcome.last_done_ns);
    }
    sinks.collected.end_rounds(outcome.last_done_ns);
    sinks.observed.measured_ns = outcome.last_done_ns;
    sinks.observed.watched = ended.len();
    let totals = PhaseTotals::from_data(data, outcome, sinks.collected.ops);
    Ok(PhaseTotals { rate_ops_per_second: task.inputs.rate_ops_per_second, ..totals })
}

/// Destinations of counts and frames.
struct Sinks<'a> {
    collected: Collector,
    observed: PhaseSums,
    on_event: &'a mut dyn FnMut(PhaseEvent<'_>),
    /// Raised once the test is steady: workers stop then.
    is_goal_met: Arc<AtomicBool>,
}

impl Sinks<'_> {
    fn drain(&mut self, readers: &[DeltaReader]) {
        for reader in readers {
            reader.drain(|delta| self.collected.add(delta, 0));
        }
    }

    fn tick(&mut self, now_ns: u64, frame: Frame, readers: &[DeltaReader]) {
        self.drain(readers);
        self.observed.add(&frame);
        (self.on_event)(PhaseEvent::Tick(&Tick {
            elapsed_ns: now_ns,
            ops: self.collected.ops,
            bytes: self.collected.bytes,
            p99_ns: self.collected.operations.quantile(0.99),
            still: std::time::Duration::ZERO,
            known: None,
            frame: Some(&frame),
            zones: self.collected.zoned.as_ref(),
            clients: None,
        }));
        self.collected.add_frame(frame, now_ns);
        if self.collected.is_steady(now_ns) {
            self.is_goal_met.store(true, Ordering::Relaxed);
        }
    }
}

/// Simulates all workers, each from its first call to its last.
fn simulate(
    task: &SimTask<'_>,
    data: &DataWork,
    world: &Rc<RefCell<SimSystem>>,
    sinks: &mut Sinks<'_>,
) -> Vec<WorkerResult> {
    let phase = task.inputs.phase;
    let iodepth = phase.workload.iodepth;
    let block_bytes = data.block_bytes;
    let is_poisson = matches!(data.arrival, Arrival::Open { is_poisson: true, .. });
    let verb = Steps::from_work(data, 0);
    let layout = Layout::dense(task.size_bytes / block_bytes, block_bytes);
    let threads = members(&phase.workload, layout.blocks_per_file);
    sinks.collected.zoned = Zoned::new(data.zones_of(task.size_bytes), 0);
    let is_goal_met = Arc::clone(&sinks.is_goal_met);
    let mut readers = Vec::new();
    let mut loops = Vec::new();
    let ops = planned_ops(phase.stop, data, layout.blocks_per_file, block_bytes);
    for (thread, share) in shares(ops, threads, layout.blocks_per_file).enumerate() {
        let seed = mix(task.seed ^ mix(thread as u64));
        let rate = task.inputs.rate_ops_per_second;
        let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, rate.is_some()));
        readers.push(reader);
        loops.push(SimLoop {
            verb: verb.seeded(mix(seed)),
            pacing: rate.map(|rate| OpenLoop::new(rate, is_poisson, thread as u32, threads, task.seed)),
            block_bytes,
            iodepth,
            pattern: pattern(data, &share, seed),
            zones: sinks.collected.zoned.as_ref().map(|zoned| zoned.for_worker(block_bytes)),
            layout,
            seed: task.seed,
            limits: Limits { deadline_ns: task.inputs.time_ns, stop: &is_goal_met },
            recorder,
        });
    }
    world.borrow_mut().set_interrupt(Arc::clone(&task.inputs.interrupt));
    let ended = sim::run(loops, &SimClock::default(), world, &mut |now_ns, frame| {
        sinks.tick(now_ns, frame, &readers);
    });
    sinks.drain(&readers);
    ended
}
