//! Runs one test on a simulated device: all workers in this thread, on a virtual clock.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::data::mix;
use engine::pacing::{ClosedLoop, OpenLoop, Pacing};
use engine::pattern::Pattern;
use engine::recorder::{DeltaReader, Recorder};
use engine::sim::{SimClock, SimEngine, World, drive};
use engine::verb::Verb;
use engine::worker::{Ended, Layout, Limits, Stamping, Worker, WorkerParts};
use model::plan::PlannedPhase;
use model::run::Frame;
use model::workload::{Access, Arrival};
use model::{SimDevice, Trouble};

use crate::collect::Collected;
use crate::data_phase::{DataOutcome, shares};
use crate::drive::Tick;
use crate::member::{WithVerb, with_verb};
use crate::meter::Observed;
use crate::record::PhaseTotals;

/// Inputs of a test on a simulated device.
pub struct SimTask<'a> {
    /// Test to run.
    pub phase: &'a PlannedPhase,
    /// Device to simulate.
    pub device: &'a SimDevice,
    /// Bytes of the device that the test works on.
    pub size_bytes: u64,
    /// Seed of offsets, and of the device's random draws.
    pub seed: u64,
    /// Longest measured time, on the virtual clock.
    pub time_ns: u64,
    /// Rate of an open loop, over all threads.
    pub rate_ops_per_second: Option<f64>,
    /// Flag that a signal raises.
    pub interrupt: &'a Arc<AtomicBool>,
}

/// Runs the test. Returns the counts, and the observations of the device meanwhile.
pub fn run(
    task: &SimTask<'_>,
    steps: usize,
    on_tick: &mut dyn FnMut(&Tick<'_>),
) -> (Result<PhaseTotals, Trouble>, Collected, Observed) {
    let (mut collected, mut observed) = (Collected::new(steps), Observed::default());
    let Some(data) = task.phase.workload.data() else {
        return (Err(Trouble::new("simulate a test on files", "it has no data")), collected, observed);
    };
    // Each worker has one CPU, whatever machine computes this: the same seed gives the same result
    // everywhere.
    let world = match World::new(task.device, task.phase.workload.threads, task.seed) {
        Ok(world) => Rc::new(RefCell::new(world)),
        Err(problem) => {
            let trouble = Trouble::new(format!("simulate {}", task.device.name), problem);
            return (Err(trouble), collected, observed);
        }
    };
    let sinks = Sinks { collected: &mut collected, observed: &mut observed, on_tick };
    let ended = with_verb(data, mix(task.seed), Simulated { task, world, sinks });
    let mut outcome = DataOutcome { size_bytes: task.size_bytes, ..DataOutcome::default() };
    let ends = || ended.iter().map(|ended| ended.end_ns);
    outcome.first_done_ns = ends().min().unwrap_or(0);
    outcome.last_done_ns = ends().max().unwrap_or(0);
    outcome.synced_ns = outcome.last_done_ns;
    outcome.missed = ended.iter().map(|ended| ended.missed).sum();
    outcome.failure = ended.iter().find_map(|ended| ended.result.err()).map(|failure| {
        let offset = failure.offset_bytes.unwrap_or(0);
        Trouble::new(format!("{} {} at offset {offset}", failure.call, task.device.name), failure.cause)
            .remedy("its description asks for this error")
    });
    observed.measured_ns = outcome.last_done_ns;
    observed.watched = ended.len();
    observed.is_simulated = true;
    // All worker time that the device takes is spent in the kernel.
    observed.kernel_ticks = 1;
    let measured = PhaseTotals::of_data(data, outcome, collected.ops);
    let measured = PhaseTotals { rate_ops_per_second: task.rate_ops_per_second, ..measured };
    (Ok(measured), collected, observed)
}

/// Destinations of counts and frames.
struct Sinks<'a> {
    collected: &'a mut Collected,
    observed: &'a mut Observed,
    on_tick: &'a mut dyn FnMut(&Tick<'_>),
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
        (self.on_tick)(&Tick {
            elapsed_ns: now_ns,
            ops: self.collected.ops,
            bytes: self.collected.bytes,
            p99_ns: self.collected.operations.quantile(0.99),
            known: None,
            frame: Some(&frame),
        });
        self.collected.add_frame(frame, now_ns);
    }
}

struct Simulated<'a, 'b> {
    task: &'a SimTask<'a>,
    world: Rc<RefCell<World>>,
    sinks: Sinks<'b>,
}

impl WithVerb for Simulated<'_, '_> {
    type Answer = Vec<Ended>;
    fn call<V: Verb + Send + 'static>(self, verb: V) -> Vec<Ended> {
        let Self { task, world, sinks } = self;
        let poisson = task
            .phase
            .workload
            .data()
            .is_some_and(|data| matches!(data.arrival, Arrival::Open { poisson: true, .. }));
        let threads = task.phase.workload.threads;
        match task.rate_ops_per_second {
            None => simulate(task, &world, &verb, |_| ClosedLoop, sinks),
            Some(rate) => {
                let pacing = |thread| OpenLoop::new(rate, poisson, thread, threads, task.seed);
                simulate(task, &world, &verb, pacing, sinks)
            }
        }
    }
}

fn simulate<V: Verb + Clone, P: Pacing>(
    task: &SimTask<'_>,
    world: &Rc<RefCell<World>>,
    verb: &V,
    pacing: impl Fn(u32) -> P,
    mut sinks: Sinks<'_>,
) -> Vec<Ended> {
    let workload = &task.phase.workload;
    let Some(data) = workload.data() else { return Vec::new() };
    let clock = SimClock::default();
    let layout = Layout {
        block_bytes: data.block_bytes,
        blocks_per_file: task.size_bytes / data.block_bytes,
        first_bytes: 0,
    };
    let mut readers = Vec::new();
    let mut workers = Vec::new();
    for (thread, share) in shares(task.phase, data, layout.blocks_per_file, data.block_bytes).enumerate() {
        let seed = mix(task.seed ^ mix(thread as u64));
        let (recorder, reader) = Recorder::new(Worker::<SimEngine, SimClock, P, V>::SHAPE);
        readers.push(reader);
        workers.push(Worker::new(WorkerParts {
            engine: SimEngine::new(world, &clock, workload.iodepth, data.block_bytes as usize),
            clock: clock.clone(),
            pacing: pacing(thread as u32),
            verb: verb.seeded(mix(seed)),
            pattern: Pattern::new(
                share.first_unit,
                share.units,
                data.access == Access::Random,
                seed,
                share.ops,
            ),
            layout,
            stamping: Stamping::unverified(task.seed),
            limits: Limits { deadline_ns: task.time_ns, stop: task.interrupt },
            recorder,
        }));
    }
    world.borrow_mut().obey(Arc::clone(task.interrupt));
    let ended = drive(workers, &clock, world, 0, &mut |now_ns, frame| {
        sinks.tick(now_ns, frame, &readers);
    });
    sinks.drain(&readers);
    ended
}
