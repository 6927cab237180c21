//! One run against one target: the work directory and what lies in it, phase after phase.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::clock::{Clock, Monotonic, Tsc, read_cost_ns};
use engine::data::mix;
use model::plan::{Plan, PlannedPhase};
use model::run::{EngineRecord, Frame, PhaseRecord, Rate, Status, Step, WorkloadRecord};
use model::target::Target;
use model::workload::{CacheMode, DataWork, SyncMode, Work};
use model::{Trouble, Workload, spec};
use observe::Root;

use crate::collect::{Collected, Distribution};
use crate::data_phase::{self, DataTask};
use crate::dataset::{self, DataSet, LayoutProgress};
use crate::directory::WorkDirectory;
use crate::drive::{Drive, Tick};
use crate::file_phase::{self, FileSet, FileTask};
use crate::meter::Meter;
use crate::notes;
use crate::patience;
use crate::removal::Removal;

/// Longest wait for a device to calm down before a phase.
const SETTLE: Duration = Duration::from_secs(3);
/// A device that moves less than this in a tenth of a second is calm.
const CALM_BYTES: u64 = 64 << 10;

/// A run in progress. Dropping it removes everything that it made.
pub struct Session {
    plan: Plan,
    target: Target,
    seed: u64,
    /// The processor's counter, where it may be used as a clock.
    tsc: Option<Tsc>,
    /// CPUs that the workers share.
    cpus: u64,
    interrupt: Arc<AtomicBool>,
    directory: WorkDirectory,
    dataset: Option<DataSet>,
    files: FileSet,
    meter: Meter,
    start_ns: u64,
    phases_run: u64,
    untimed_bytes: u64,
    last_id: String,
    attempts: u64,
}

/// Workers must not go on when whoever drives them panics.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Session {
    /// Makes the work directory of a run. `interrupt` ends whatever is under way.
    ///
    /// # Errors
    /// The work directory cannot be made.
    pub fn open(
        root: &Root,
        plan: &Plan,
        target: &Target,
        seed: u64,
        interrupt: Arc<AtomicBool>,
    ) -> Result<Self, Trouble> {
        let mut rules = plan.dataset.as_ref().map_or_else(Vec::new, dataset::rules);
        rules.extend(file_phase::rules(plan));
        let path = std::path::PathBuf::from(&target.path);
        let attempt = format!("make a work directory in {}", path.display());
        let directory =
            patience::wait_while_it_moves(&attempt, || 0, move || WorkDirectory::create(&path, rules))??;
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        Ok(Self {
            directory,
            meter: Meter::new(root, target),
            plan: plan.clone(),
            target: target.clone(),
            seed,
            tsc: Tsc::calibrate(),
            cpus,
            interrupt,
            dataset: None,
            files: FileSet::default(),
            start_ns: Monotonic.now_ns(),
            phases_run: 0,
            untimed_bytes: 0,
            last_id: String::new(),
            attempts: 0,
        })
    }

    /// Path of the work directory, for messages.
    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Sources of evidence that this kernel, container or user does not show.
    pub fn hidden_sources(&self) -> &[String] {
        self.meter.hidden()
    }

    /// Lays out fresh files for a repetition, within `time_ns`; what an earlier one left is removed.
    ///
    /// # Errors
    /// A write that failed or hangs, or the time is used up.
    pub fn lay_out(&mut self, time_ns: u64, progress: &LayoutProgress) -> Result<(), Trouble> {
        if self.dataset.take().is_some() || self.phases_run > 0 {
            self.directory.empty_of("")?;
            self.files = FileSet::default();
        }
        if let Some(plan) = &self.plan.dataset {
            let deadline_ns = Monotonic.now_ns().saturating_add(time_ns);
            self.dataset = Some(DataSet::lay_out(
                &self.directory,
                plan,
                self.seed,
                &self.interrupt,
                deadline_ns,
                progress,
            )?);
        }
        Ok(())
    }

    /// Runs one phase, for at most `time_ns` measured and at most `budget_ns` in all. A phase always gives a record.
    pub fn phase(
        &mut self,
        phase: &PlannedPhase,
        repetition: u32,
        time_ns: u64,
        budget_ns: u64,
        on_tick: &mut dyn FnMut(&Tick<'_>),
    ) -> PhaseRecord {
        self.settle();
        self.phases_run += 1;
        let offset_seed = self.offset_seed(phase, repetition);
        let tsc = self.tsc;
        let now_ns = Monotonic.now_ns();
        let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
        let steps = match &phase.workload.work {
            Work::Data(data) => data_phase::steps(data),
            Work::Files(files) => file_phase::steps(files),
        };
        let mut drive = Drive {
            interrupt: &self.interrupt,
            meter: &mut self.meter,
            on_tick,
            stop: Arc::clone(&stop.0),
            cached_bytes: 0,
            collected: Collected::new(steps.len()),
            readers: Vec::new(),
            start_ns: now_ns,
        };
        let measured = match &phase.workload.work {
            Work::Data(data) => match &mut self.dataset {
                None => Err(Trouble::new("run a test on data", "there is no data set")),
                Some(dataset) => {
                    let time_ns =
                        phase.stop.time_ns.map_or(budget_ns, |planned| planned.min(time_ns)).min(budget_ns);
                    let (directory, cache, seed) = (&self.directory, self.plan.cache, self.seed);
                    let task = DataTask { phase, directory, cache, seed, offset_seed, time_ns, tsc };
                    let planned_ns = self.plan.phase_time_ns;
                    data_phase::run(&task, dataset, &mut drive).map(|outcome| {
                        let measured = Measured::of_data(data, outcome, &drive);
                        measured.or_cut(phase, &drive.collected, time_ns, planned_ns)
                    })
                }
            },
            Work::Files(_) => {
                let (directory, cache, seed) = (&self.directory, self.plan.cache, self.seed);
                let time_ns = time_ns.min(budget_ns);
                let deadline_ns = now_ns.saturating_add(budget_ns);
                let task = FileTask { phase, directory, cache, seed, offset_seed, time_ns, deadline_ns, tsc };
                file_phase::run(&task, &mut self.files, &mut drive)
                    .map(|outcome| Measured::of_files(outcome, &drive))
            }
        };
        let (collected, phase_start_ns) = (drive.collected, drive.start_ns);
        let start_ns = phase_start_ns.saturating_sub(self.start_ns);
        let measured = measured.unwrap_or_else(Measured::failed);
        self.untimed_bytes += measured.untimed_bytes;
        let record = self.record(phase, repetition, start_ns, &steps, measured, collected);
        // Descriptors of threads that are gone would be missing elsewhere.
        self.meter.reset(&[]);
        record
    }

    /// Bytes that tests on files have written untimed, to have what they measure.
    pub fn untimed_bytes(&self) -> u64 {
        self.untimed_bytes
    }

    /// The record of a phase of which nothing was measured, and why.
    pub fn untried(phase: &PlannedPhase, repetition: u32, status: Status, reason: &str) -> PhaseRecord {
        let (workload, collected) = (&phase.workload, Collected::new(0));
        PhaseRecord {
            id: phase_id(phase, repetition),
            spec: spec::print(workload),
            name: workload.name().into(),
            label: workload.label(),
            group: None,
            repetition,
            workload: WorkloadRecord::new(workload, 0, 0, CacheMode::AsIs),
            engine: EngineRecord { name: "sync".into(), features: Vec::new() },
            status,
            reason: Some(reason.into()),
            start_ns: 0,
            ops: 0,
            bytes: 0,
            app_bytes_read: 0,
            app_bytes_written: 0,
            elapsed_ns: 0,
            passes: 0.0,
            rate: rate(&collected, &Times::default(), None),
            latency_ns: None,
            histogram: None,
            steps: Vec::new(),
            intervals: Vec::new(),
            device: None,
            page_cache_share: None,
            budget: None,
            cpu: None,
            notes: Vec::new(),
        }
    }

    /// The same for the same phase of a run with the same seed, another one when it is measured again.
    fn offset_seed(&mut self, phase: &PlannedPhase, repetition: u32) -> u64 {
        let id = phase_id(phase, repetition);
        self.attempts = if self.last_id == id { self.attempts + 1 } else { 0 };
        let place = id.bytes().fold(self.attempts, |hash, byte| mix(hash ^ u64::from(byte)));
        self.last_id = id;
        mix(self.seed ^ place)
    }

    /// Cost of one read of the clock that times operations, in nanoseconds.
    pub fn clock_read_ns(&self) -> f64 {
        match &self.tsc {
            Some(tsc) => read_cost_ns(tsc),
            None => read_cost_ns(&Monotonic),
        }
    }

    /// Removes everything.
    ///
    /// # Errors
    /// A removal that hangs.
    pub fn close(self) -> Result<Removal, Trouble> {
        self.directory.remove()
    }

    /// Waits until what earlier phases left is written back and the device is calm: its bytes would count here.
    fn settle(&mut self) {
        let calm = |frame: &Frame| {
            frame.devices.iter().all(|device| device.read_bytes + device.written_bytes < CALM_BYTES)
        };
        let begun_ns = Monotonic.now_ns();
        self.meter.reset(&[]);
        self.meter.begin();
        while !self.interrupt.load(Ordering::Relaxed) && !self.target.device_stack.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
            if calm(&self.meter.tick()) || Monotonic.now_ns() - begun_ns > SETTLE.as_nanos() as u64 {
                break;
            }
        }
        // A phase that never starts must not show what was seen here.
        self.meter.reset(&[]);
    }

    fn record(
        &self,
        phase: &PlannedPhase,
        repetition: u32,
        start_ns: u64,
        steps: &[&'static str],
        measured: Measured,
        collected: Collected,
    ) -> PhaseRecord {
        let workload = &phase.workload;
        let block_bytes = workload.data().map(|data| data.block_bytes);
        let interrupted = self.interrupt.load(Ordering::Relaxed);
        let (status, reason) = match (measured.failure, interrupted, measured.cut_short) {
            (Some(failure), false, _) => (Status::Failed, Some(failure.to_string())),
            (Some(failure), true, _) => (Status::Failed, Some(format!("interrupted, and {failure}"))),
            (None, true, _) => (Status::Partial, Some("interrupted".into())),
            (None, false, Some(reason)) => (Status::Partial, Some(reason)),
            (None, false, None) => (Status::Done, None),
        };
        let threads = workload.threads as usize * workload.iodepth as usize;
        let has_latency =
            !matches!(&workload.work, Work::Files(files) if files.verb == model::FileVerb::Readdir);
        let step = |(name, latencies): (&&'static str, &Distribution)| Step {
            name: (*name).into(),
            ops: latencies.count(),
            latency_ns: latencies.latency(),
            histogram: latencies.encoded(),
        };
        let untried = Self::untried(phase, repetition, status, "");
        let mut record = PhaseRecord {
            reason,
            workload: WorkloadRecord::new(workload, measured.size_bytes, measured.files, self.plan.cache),
            engine: EngineRecord {
                name: "sync".into(),
                features: features(workload, self.plan.cache, self.tsc.is_some()),
            },
            start_ns,
            ops: collected.ops,
            bytes: collected.bytes,
            app_bytes_read: collected.read_bytes,
            app_bytes_written: collected.written_bytes,
            elapsed_ns: measured.elapsed_ns,
            passes: measured.passes,
            rate: rate(&collected, &measured.times, block_bytes),
            latency_ns: collected.operations.latency().filter(|_| has_latency),
            histogram: collected.operations.encoded().filter(|_| has_latency),
            steps: steps.iter().zip(&collected.steps).map(step).filter(|step| step.ops > 0).collect(),
            device: self.meter.device(&self.target, phase, &collected),
            page_cache_share: self.meter.page_cache_share(&self.target, &collected),
            budget: self.meter.budget(threads),
            cpu: self.meter.cpu(),
            intervals: collected.into_intervals(measured.end_ns),
            ..untried
        };
        if record.ops > 0 {
            record.notes = notes::notes(&record, phase, &self.target, self.cpus);
        }
        record
    }
}

fn phase_id(phase: &PlannedPhase, repetition: u32) -> String {
    if repetition > 1 { format!("{}#{repetition}", phase.id) } else { phase.id.clone() }
}

/// The times that rates are made from.
#[derive(Debug, Default)]
struct Times {
    /// Without the sync at the end.
    work_ns: u64,
    /// With it; `None` where nothing was made durable.
    durable_ns: Option<u64>,
    /// Whether writes went into the page cache first.
    cached_writes: bool,
    first_done_ns: u64,
    last_done_ns: u64,
}

/// What is common to the outcomes of both kinds of phases.
#[derive(Debug, Default)]
struct Measured {
    elapsed_ns: u64,
    /// End of the time axis of intervals.
    end_ns: u64,
    passes: f64,
    size_bytes: u64,
    files: u64,
    times: Times,
    untimed_bytes: u64,
    cut_short: Option<String>,
    failure: Option<Trouble>,
}

impl Measured {
    fn failed(failure: Trouble) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    fn of_data(data: &DataWork, outcome: data_phase::DataOutcome, drive: &Drive<'_>) -> Self {
        let blocks = (outcome.size_bytes / data.block_bytes).max(1);
        Self {
            elapsed_ns: outcome.synced_ns,
            end_ns: outcome.synced_ns,
            passes: drive.collected.ops as f64 / blocks as f64,
            size_bytes: outcome.size_bytes,
            files: outcome.files,
            times: Times {
                work_ns: outcome.last_done_ns,
                durable_ns: outcome.is_durable.then_some(outcome.synced_ns),
                cached_writes: data.writes() && !data.direct && data.sync == SyncMode::End,
                first_done_ns: outcome.first_done_ns,
                last_done_ns: outcome.last_done_ns,
            },
            failure: outcome.failure,
            ..Self::default()
        }
    }

    /// Says so if the run's total time, and not the stop rule of the phase, ended it.
    fn or_cut(mut self, phase: &PlannedPhase, collected: &Collected, time_ns: u64, planned_ns: u64) -> Self {
        let (stop, lasted_ns) = (phase.stop, self.times.last_done_ns);
        let ran_out = lasted_ns >= time_ns;
        if ran_out && stop.ops.is_some_and(|ops| collected.ops < ops) && stop.time_ns.is_none() {
            self.cut_short = Some("the run's total time ended it before all operations were done".into());
        } else if ran_out && stop.time_ns.is_some() && time_ns < planned_ns - planned_ns / 20 {
            let seconds = |ns: u64| ns as f64 / 1e9;
            self.cut_short = Some(format!(
                "the run's total time left {:.1} s of {:.1} s for it",
                seconds(time_ns),
                seconds(planned_ns)
            ));
        }
        self
    }

    fn of_files(outcome: file_phase::FileOutcome, drive: &Drive<'_>) -> Self {
        Self {
            elapsed_ns: outcome.measured_ns,
            end_ns: outcome.last_done_ns,
            passes: outcome.rounds,
            size_bytes: drive.collected.written_bytes,
            files: outcome.files,
            times: Times {
                work_ns: outcome.measured_ns,
                first_done_ns: outcome.first_done_ns,
                last_done_ns: outcome.last_done_ns,
                ..Times::default()
            },
            untimed_bytes: outcome.untimed_bytes,
            cut_short: outcome.cut_short,
            failure: outcome.failure,
        }
    }
}

/// Headline: writes as durable as they were asked to be, everything else over the whole time.
fn rate(collected: &Collected, times: &Times, block_bytes: Option<u64>) -> Rate {
    let per_second = |ns: u64| (ns > 0 && collected.ops > 0).then(|| collected.ops as f64 * 1e9 / ns as f64);
    let whole = per_second(times.work_ns);
    let durable = times.durable_ns.and_then(per_second);
    // What only reached the cache is no rate of storage.
    let headline = durable.or(whole.filter(|_| !times.cached_writes));
    Rate {
        ops_per_second: headline,
        bytes_per_second: headline.zip(block_bytes).map(|(ops, bytes)| ops * bytes as f64),
        steady_ops_per_second: None,
        whole_ops_per_second: whole,
        durable_ops_per_second: durable,
        into_cache_ops_per_second: whole.filter(|_| times.cached_writes),
        ci95_low_ops_per_second: None,
        ci95_high_ops_per_second: None,
        first_done_ns: times.first_done_ns,
        last_done_ns: times.last_done_ns,
    }
}

/// What was decided about how operations are issued.
fn features(workload: &Workload, cache: CacheMode, tsc: bool) -> Vec<String> {
    let mut features = vec![if tsc { "clock=tsc" } else { "clock=monotonic" }.to_owned()];
    match &workload.work {
        Work::Data(data) => {
            features.push(if data.direct { "o_direct" } else { "page_cache" }.to_owned());
            if workload.iodepth > 1 {
                features.push(format!("depth_by_threads={}", workload.iodepth * workload.threads));
            }
            if !data.direct && data.reads() {
                features.push(format!("cache={cache}"));
            }
        }
        Work::Files(_) => features.push("directory_descriptors".into()),
    }
    features
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::request::{Count, Request, Seconds};
    use model::size::Size;
    use std::cell::Cell;
    use std::sync::atomic::AtomicU64;

    /// Which worker panics in the next phase; none if it is `u64::MAX`.
    static PANICS: AtomicU64 = AtomicU64::new(u64::MAX);

    pub fn panic_if_asked(worker: u64) {
        let asked = PANICS.compare_exchange(worker, u64::MAX, Ordering::SeqCst, Ordering::SeqCst);
        assert!(asked.is_err(), "as the test asked for");
    }

    #[test]
    fn a_panic_of_a_worker_costs_its_phase_and_nothing_else() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::system();
        let target = observe::target(&root, temp.path()).unwrap();
        let request = Request {
            tests: ["read:rnd4k:q4:buffered", "read:rnd4k:q4:buffered", "create"].map(Into::into).into(),
            size: Some(Size::Bytes(1 << 20)),
            files: Some(Count(10)),
            time: Some(Seconds(0.05)),
            allow: vec![model::request::Allow::LowSpace],
            ..Request::default()
        };
        let plan = model::plan::plan(&request, &target, &observe::machine(&root)).unwrap();
        let mut session = Session::open(&root, &plan, &target, 1, Arc::default()).unwrap();
        session.lay_out(u64::MAX, &LayoutProgress::default()).unwrap();
        PANICS.store(2, Ordering::SeqCst);
        let ticks = Cell::new(0);
        let records: Vec<_> = plan
            .phases
            .iter()
            .map(|phase| {
                session.phase(phase, 1, 50_000_000, 10_000_000_000, &mut |_| ticks.set(ticks.get() + 1))
            })
            .collect();
        assert_eq!(
            records.iter().map(|record| record.status).collect::<Vec<_>>(),
            [Status::Failed, Status::Done, Status::Done]
        );
        let reason = records[0].reason.as_deref().unwrap();
        assert!(reason.contains("a worker of skye panicked: as the test asked for"), "{reason}");
        assert!(records[0].ops > 0, "what the others counted is kept");
        assert_eq!(session.close().unwrap().left, []);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
