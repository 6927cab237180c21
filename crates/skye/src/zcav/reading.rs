//! Reads files and devices for zcav: each in its own run, all starting at the same time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use family::zcav::{MIB, Times, Verb, translate};
use model::UserError;
use model::numbers::thousands;
use model::plan::Plan;
use model::run::{PhaseRecord, Status};
use run::Tick;

use super::target::ResolvedTarget;
use super::{Outcome, ProgressReporter};
use crate::dialect::{self, Bench};
use crate::driver::{RunObserver, RunOutcome};
use crate::exit::Failure;
use crate::live_view::LiveView;
use crate::signals::Interruption;

/// Evidence that several runs in one process share.
const SHARED: &str = "/proc/self/io (several runs at once)";
/// Stack of a thread that drives a run, as large as that of the main thread.
const STACK_BYTES: usize = 8 << 20;

/// A file with the plan to read it.
pub struct Reading<'a> {
    found: &'a ResolvedTarget,
    bench: Bench,
    plan: Plan,
}

/// Plans to read all files. Reads nothing yet.
///
/// # Errors
/// A plan is refused.
pub fn plan(all: &[ResolvedTarget]) -> Result<Vec<Reading<'_>>, Failure> {
    let shared: Vec<_> = (all.len() > 1).then(|| SHARED.to_owned()).into_iter().collect();
    all.iter().map(|found| Reading::plan(found, shared.clone())).collect()
}

impl<'a> Reading<'a> {
    fn plan(found: &'a ResolvedTarget, shared: Vec<String>) -> Result<Self, Failure> {
        let ResolvedTarget { target, layout, is_direct, .. } = found;
        let bench = Bench::on(target.clone(), shared);
        let plan = bench.plan(&translate(layout, target.space.total_bytes, *is_direct))?;
        Ok(Self { found, bench, plan })
    }
}

/// Reads all files at the same time. Returns the outcome of each, when all have ended.
pub fn read(
    all: &[Reading<'_>],
    interruption: &Interruption,
    reporter: &Arc<ProgressReporter>,
) -> Vec<Outcome> {
    let line = Arc::new(StartBarrier { runners: all.len(), ..StartBarrier::default() });
    let view = LiveView::new(all.len() > 1);
    let run = |reading: &Reading<'_>, runner: Runner| {
        let Reading { found, bench, plan } = reading;
        let observer = Passes {
            runner,
            name: found.name.clone(),
            blocks: Arc::clone(&found.blocks),
            passes: found.layout.passes,
            reporter: Arc::clone(reporter),
        };
        observer.runner.prepare();
        bench.measure_in(
            view.clone(),
            None,
            plan,
            dialect::fresh_seed(),
            interruption,
            Some(Box::new(observer)),
        )
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(all)
            .map(|(number, reading)| {
                // Dropped with the thread, or where there is none: the others do not wait for it.
                let runner = Runner { line: Arc::clone(&line), number, has_arrived: false };
                let builder = thread::Builder::new().name(format!("zcav-{number}")).stack_size(STACK_BYTES);
                let run = &run;
                builder.spawn_scoped(scope, move || run(reading, runner))
            })
            .collect();
        let end = |(reading, thread): (&Reading<'_>, std::io::Result<thread::ScopedJoinHandle<'_, _>>)| {
            let action = || format!("measure {}", reading.found.name);
            let ended = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|_| {
                    Err(Failure::failed(UserError::new(action(), "a thread of skye panicked")))
                }),
                Err(error) => Err(Failure::failed(UserError::new(action(), error).help("use fewer files"))),
            };
            outcome(reading, ended)
        };
        all.iter().zip(threads).map(end).collect()
    })
}

fn outcome(reading: &Reading<'_>, ended: Result<RunOutcome, Failure>) -> Outcome {
    let ResolvedTarget { name, blocks, layout, .. } = reading.found;
    let (ended, error) = match ended {
        Ok(ended) => (Some(ended), None),
        Err(Failure::ReaderGone) => (None, None),
        Err(Failure::Failed(message) | Failure::Refused(message) | Failure::Ended(message, _)) => {
            (None, Some(message))
        }
    };
    let phases = ended.as_ref().map_or(&[][..], |ended| &ended.run.phases);
    let log = Times::from_phases(phases, blocks).scan(name, blocks, layout.passes, Verb::Read).log();
    Outcome { log, error, holes: holes(reading.found, phases), ended }
}

/// Returns the note about parts of a file that lie nowhere, if there are any.
fn holes(found: &ResolvedTarget, phases: &[PhaseRecord]) -> Option<String> {
    let extents = phases.iter().find_map(|record| record.seen.extents.as_ref())?;
    let share = extents.hole_share + extents.unwritten_share;
    let bytes = found.layout.end_bytes - found.layout.start_bytes;
    let mib = |bytes: u64| thousands(bytes.div_ceil(MIB));
    (share > 0.0).then(|| {
        format!(
            "{}: {} of {} MiB were never written: the file system returns zeros there, without reading a device",
            found.name,
            mib((share * bytes as f64).round() as u64),
            mib(bytes)
        )
    })
}

/// Observer of a run: reports its lines and its passes.
struct Passes {
    runner: Runner,
    name: String,
    blocks: Arc<[std::ops::Range<u64>]>,
    passes: u32,
    reporter: Arc<ProgressReporter>,
}

impl RunObserver for Passes {
    fn starts(&mut self) {
        self.runner.arrive();
    }

    fn moves(&mut self, tick: &Tick<'_>) -> Result<(), Failure> {
        let Self { name, blocks, passes, .. } = self;
        let Some(zoned) = tick.zones else { return Ok(()) };
        self.reporter.print_settled(|| {
            let mut times = Times::default();
            times.add(zoned.records(), blocks);
            times.scan(name, blocks, *passes, Verb::Read).log()
        })
    }

    fn over(&mut self, _: &Plan, record: &PhaseRecord, _: Option<&PhaseRecord>) -> Result<(), Failure> {
        if record.status == Status::Done {
            self.reporter.pass(record.repetition as usize, &self.name);
        }
        Ok(())
    }
}

/// Place where several runs wait for each other, so that all begin at the same moment. Before it, one prepares at a
/// time: each measures its own costs, which the others would disturb.
#[derive(Default)]
struct StartBarrier {
    runners: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Runs that have finished their preparation.
    prepared: usize,
    /// Runs among them that have ended.
    gone: usize,
    waiting: usize,
}

impl StartBarrier {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn wait_while(&self, condition: impl Fn(&State) -> bool) {
        let state = self.changed.wait_while(self.state(), |state| condition(state));
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A run on its way to the start.
struct Runner {
    line: Arc<StartBarrier>,
    number: usize,
    has_arrived: bool,
}

impl Runner {
    /// Waits until the runs before it are prepared.
    fn prepare(&self) {
        self.line.wait_while(|state| state.prepared < self.number);
    }

    /// Waits once for all the others.
    fn arrive(&mut self) {
        if !std::mem::replace(&mut self.has_arrived, true) {
            self.line
                .change(|state| (state.prepared, state.waiting) = (state.prepared + 1, state.waiting + 1));
            let runners = self.line.runners;
            self.line.wait_while(|state| state.waiting + state.gone < runners);
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if !self.has_arrived {
            // In its turn, as the others count on it.
            self.prepare();
            self.line.change(|state| (state.prepared, state.gone) = (state.prepared + 1, state.gone + 1));
        }
    }
}
