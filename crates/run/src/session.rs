//! One run against one target, phase after phase: the work directory and its files, or a simulated device.

mod other;
mod side;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::budget::Budget;
use engine::clock::{Clock, Monotonic, Timer};
use engine::data::mix;
use model::experiment::{self, Experiment, Variant};
use model::order::TestOrder;
use model::plan::{Plan, PlannedPhase, PrecisionGoal};
use model::run::{Conditions, PhaseRecord, Status};
use model::target::Target;
use model::workload::{Arrival, CacheMode, DataWork, OpenRate};
use model::{SimDevice, UserError, marker, spec};
use observe::Root;

use crate::data_location::DataLocation;
use crate::data_phase::{DataPhase, DataTask, Part};
use crate::dataset::{self, DataSet, FillProgress};
use crate::directory::CreateError;
use crate::drive::PhaseEvent;
use crate::file_phase::{self, FilePhase, FileSet};
use crate::hang_detection;
use crate::meter::Meter;
use crate::probes;
use crate::record::{self, PhaseContext, PhaseTotals, record_id};
use crate::room::RoomWatch;
use crate::sim_phase::SimTask;
use crate::task::{Measured, PhaseInputs, Task};

use other::OtherData;

/// One in this many blocks that are read is compared, unless all are.
const VERIFY_EVERY: u32 = 128;

/// A run in progress. Dropping it removes everything that it made.
pub struct Session {
    plan: Plan,
    target: Target,
    seed: u64,
    /// Clock that times operations.
    timer: Timer,
    /// CPUs near the device; none if all are near.
    local_cpus: Option<Arc<[u32]>>,
    interrupt: Arc<AtomicBool>,
    place: TestTarget,
    start_ns: u64,
    phases_run: u64,
    /// Bytes that it may still write.
    budget: Arc<Budget>,
    /// True if something below this system keeps data that was read, so that nothing may be read twice.
    pub(crate) is_cached_below: bool,
    /// Slices of the part set aside that experiments have read.
    slices_read: u64,
    last_id: String,
    attempts: u64,
    /// Rates that tests reached in a closed loop, by their specs. Rates in percent are shares of these.
    reached: HashMap<String, f64>,
    stdio_program: Vec<OsString>,
    enough: Option<Arc<AtomicBool>>,
}

/// Options of a session, besides its plan and its target.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Seed of offsets and data.
    pub seed: u64,
    /// Flag that ends any work in progress.
    pub interrupt: Arc<AtomicBool>,
    /// Program, with its first arguments, that serves the C library's streams in a separate process.
    pub stdio_program: Vec<OsString>,
    /// Most bytes that it may write, whatever its plan says.
    pub write_limit_bytes: Option<u64>,
    /// True if only the devices' counters are read: neither sleeping threads nor the system are sampled.
    pub is_unobserved: bool,
    /// Options of a client in a run with several.
    pub client: Option<ClientOptions>,
}

/// Options of a client in a run with several.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Name of the run.
    pub run: String,
    /// Flag that another process raises once a phase of one measured part has done enough. The session then no longer
    /// decides that by itself.
    pub enough: Arc<AtomicBool>,
    /// Processes of this machine that are part of the test; `None` if another client here watches the machine.
    pub processes: Option<Vec<u32>>,
    /// Number of clients on this machine.
    pub clients_per_machine: u32,
}

/// Place of a run.
enum TestTarget {
    /// A work directory on the target, the directory of a file or device which is only read, or an erased device.
    Directory(Box<OnDisk>),
    /// No directory, only a simulated device.
    Simulated(Box<Simulated>),
}

struct Simulated {
    device: SimDevice,
    /// Bytes written to it so far.
    age_bytes: u64,
}

struct OnDisk {
    root: Root,
    directory: DataLocation,
    dataset: Option<DataSet>,
    /// True if files may have been laid out since the directory was last emptied.
    is_dirty: bool,
    files: FileSet,
    meter: Meter,
    /// Directory and data of another client, which the current test reads.
    other: Option<OtherData>,
    /// Directory of the first client; `None` for the first itself, and where no test works in it.
    first: Option<DataLocation>,
}

/// Manner in which a phase is measured.
pub(crate) struct MeasureOptions {
    /// Condition under which it has done enough.
    pub precision_goal: Option<PrecisionGoal>,
    /// Time of a round and most rounds, of a test that is repeated until it is steady.
    pub rounds: Option<(u64, u32)>,
    /// Part of each file that it works on.
    pub part: Part,
    /// State of the page cache before buffered reads.
    pub cache: CacheMode,
    /// Group of files that it fills before the tests; `None` for a test or an experiment.
    pub fills: Option<usize>,
}

/// Multiple of the operations in flight for which a slice has room, so that it does not end before its rate
/// is known.
const SLICE_DEPTHS: u64 = 4;
/// Number of slices if no block may be read twice: enough for four experiments.
const SLICES_READ_ONCE: u64 = 16;
/// Blocks are kept below this system if a second read is this many times as fast.
const CACHED_SPEEDUP_MIN: f64 = 2.0;

impl Session {
    /// Makes the work directory of a run, or opens the directory of a target that is only read.
    ///
    /// # Errors
    /// Fails if the directory cannot be made or opened.
    pub fn open(
        root: &Root,
        plan: &Plan,
        target: &Target,
        options: SessionOptions,
    ) -> Result<Self, CreateError> {
        let mut rules = plan.dataset.as_ref().map_or_else(Vec::new, dataset::rules);
        rules.extend(file_phase::rules(plan));
        rules.extend(probes::probe_name_patterns(plan, target));
        let action = DataLocation::action(target);
        let help = format!("remove its leftovers with `skye clean {}` when it responds again", target.path);
        let made = Arc::new(AtomicU64::new(0));
        let (theirs, place) = (Arc::clone(&made), target.clone());
        let number = plan.clients.and_then(|clients| clients.number);
        let run = options.client.as_ref().map(|client| client.run.clone());
        let client = number.zip(run).map(|(number, run)| marker::Client { number, run });
        let work = move || DataLocation::open(&place, rules, client.as_ref(), &theirs);
        let directory = hang_detection::wait_with_progress(&action, || made.load(Ordering::Relaxed), work)
            .map_err(|error| CreateError {
            error: if target.is_used_read_only() { error } else { error.help(help) },
            has_leftovers: made.load(Ordering::Relaxed) > 0,
        })??;
        Ok(Self::at(root, plan, target, directory, options))
    }

    /// Makes a run on a device that is erased. It is open with `O_EXCL`, and stays so until the run is closed.
    pub fn on_device(
        root: &Root,
        plan: &Plan,
        target: &Target,
        device: OwnedFd,
        options: SessionOptions,
    ) -> Self {
        Self::at(root, plan, target, DataLocation::on_device(target, device), options)
    }

    fn at(
        root: &Root,
        plan: &Plan,
        target: &Target,
        directory: DataLocation,
        options: SessionOptions,
    ) -> Self {
        let mut meter = Meter::new(root, target).with_room(RoomWatch::begin(plan, target, &directory));
        meter.set_observed(!options.is_unobserved);
        if let Some(client) = &options.client {
            meter.exclude_processes(client.processes.as_deref(), client.clients_per_machine);
        }
        let on_disk = OnDisk {
            root: root.clone(),
            directory,
            meter,
            dataset: None,
            is_dirty: false,
            files: FileSet::default(),
            other: None,
            first: None,
        };
        let local_cpus = observe::near_cpus(root, target).map(Into::into);
        let session = Self::new(plan, target, TestTarget::Directory(Box::new(on_disk)), options);
        Self { local_cpus, timer: Timer::best(), ..session }
    }

    /// Makes a run on a simulated device, which `target` describes.
    pub fn simulated(plan: &Plan, target: &Target, device: SimDevice, options: SessionOptions) -> Self {
        let simulated = Simulated { device, age_bytes: 0 };
        Self::new(plan, target, TestTarget::Simulated(Box::new(simulated)), options)
    }

    fn new(plan: &Plan, target: &Target, place: TestTarget, options: SessionOptions) -> Self {
        let SessionOptions { seed, interrupt, stdio_program, write_limit_bytes, client, .. } = options;
        let write_limit_bytes = write_limit_bytes.unwrap_or_else(|| plan.share_of_write_limit());
        Self {
            plan: plan.clone(),
            target: target.clone(),
            seed,
            timer: Timer::Kernel,
            local_cpus: None,
            interrupt,
            place,
            start_ns: Monotonic.now_ns(),
            phases_run: 0,
            budget: Arc::new(Budget::new(write_limit_bytes, 1)),
            is_cached_below: false,
            slices_read: 0,
            last_id: String::new(),
            attempts: 0,
            reached: HashMap::new(),
            stdio_program,
            enough: client.map(|client| client.enough),
        }
    }

    /// Returns the start of the session on [`Monotonic`]. Records count the time from it.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Returns the path of the directory with the files, for messages; `None` if there is none.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            TestTarget::Directory(on_disk) => Some(on_disk.directory.path()),
            TestTarget::Simulated(_) => None,
        }
    }

    /// Returns the sources of evidence that this kernel, container or user does not show.
    pub fn hidden_sources(&self) -> &[String] {
        match &self.place {
            TestTarget::Directory(on_disk) => on_disk.meter.hidden(),
            TestTarget::Simulated(_) => &[],
        }
    }

    /// Returns the plan of the run.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns true if the data set has room for a variant of one of its tests. It must hold a block for each
    /// operation in flight. The files must be written, and hold whole blocks.
    pub(crate) fn fits(&self, variant: &Variant) -> bool {
        let workload = &variant.phase.workload;
        let Some(data) = workload.data() else { return true };
        let blocks_wanted = u64::from(workload.in_flight());
        match &self.place {
            TestTarget::Simulated(_) => {
                let size_bytes = self.plan.dataset.as_ref().map_or(0, |dataset| dataset.size_bytes_max);
                size_bytes / data.block_bytes >= blocks_wanted
            }
            TestTarget::Directory(on_disk) => on_disk.dataset.as_ref().is_some_and(|dataset| {
                let group = self.plan.dataset.as_ref().and_then(|plan| plan.group_of(workload));
                let group = group.and_then(|number| dataset.groups.get(number));
                group.is_some_and(|group| {
                    matches!(group.filled, FillProgress::Whole | FillProgress::Discarded)
                        && group.file_bytes.is_multiple_of(data.block_bytes)
                        && group.size_bytes() / data.block_bytes >= blocks_wanted
                })
            }),
        }
    }

    /// Returns true if a part of the files is set aside for experiments on a test. The test must read
    /// directly and for a time. The part must have room for all operations that experiments have in flight.
    pub(crate) fn has_experiment_part(&self, phase: &PlannedPhase) -> bool {
        let is_timed = phase.stop.passes.is_none() && phase.stop.time_ns.is_some();
        let can_be_read = |data: &DataWork| !data.writes() && !data.verb.is_bytes() && !data.interleaved;
        let is_read = phase.workload.data().is_some_and(can_be_read);
        let variants = Experiment::ALL.iter().filter_map(|one| one.variant(phase, self.plan.cache));
        let mut phases: Vec<_> = variants.map(|variant| variant.phase).collect();
        let is_tried = !phases.is_empty() && self.plan.may_probe(phase);
        phases.push(phase.clone());
        is_tried && is_timed && is_read && phases.iter().all(|phase| self.slice_holds(phase))
    }

    fn slice_holds(&self, phase: &PlannedPhase) -> bool {
        let TestTarget::Directory(on_disk) = &self.place else { return false };
        let workload = &phase.workload;
        let number = self.plan.dataset.as_ref().and_then(|dataset| dataset.group_of(workload));
        let groups = on_disk.dataset.as_ref().map(|dataset| &dataset.groups);
        let group = number.zip(groups).and_then(|(number, groups)| groups.get(number));
        let Some((group, data)) = group.zip(workload.data()) else { return false };
        let (_, slice_bytes) =
            Part::ExperimentSlice { slice: 0, slices: self.slices() }.range_in(group.file_bytes);
        let blocks = u64::from(group.files) * (slice_bytes / data.block_bytes);
        blocks >= SLICE_DEPTHS * u64::from(workload.in_flight())
    }

    fn slices(&self) -> u64 {
        if self.is_cached_below { SLICES_READ_ONCE } else { experiment::RUNS as u64 }
    }

    /// Returns the part of the files for the next run of an experiment on a test. Returns `None` if all
    /// blocks that may be read only once have been read.
    pub(crate) fn next_part(&mut self, phase: &PlannedPhase) -> Option<Part> {
        if !self.has_experiment_part(phase) {
            return Some(Part::Whole);
        }
        let (slice, slices) = (self.slices_read, self.slices());
        self.slices_read += 1;
        (slice < slices || !self.is_cached_below)
            .then_some(Part::ExperimentSlice { slice: slice % slices, slices })
    }

    /// Returns the part of the files that a test works on.
    pub(crate) fn part_of(&self, phase: &PlannedPhase) -> Part {
        if self.has_experiment_part(phase) { Part::Measured } else { Part::Whole }
    }

    /// Returns true if a run of an experiment ends with its slice.
    pub(crate) fn ends_with_slice(&self, part: Part) -> bool {
        self.is_cached_below && part != Part::Whole
    }

    /// Measures a test, or an experiment on one.
    pub(crate) fn measure(
        &mut self,
        phase: &PlannedPhase,
        order: &TestOrder,
        options: MeasureOptions,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> PhaseRecord {
        let MeasureOptions { precision_goal, rounds, part, cache, fills } = options;
        let TestOrder { repetition, time, .. } = *order;
        let offset_seed = self.offset_seed(phase, repetition);
        let opened = self.open_other(phase, order.other.as_ref());
        // A test that is counted may take all the time that is left.
        let planned_ns = phase.stop.time_ns.map(|planned| planned.min(time.measured_ns));
        let local_cpus = self.local_cpus_for(phase);
        let inputs = |rate_ops_per_second| PhaseInputs {
            phase,
            cache,
            seed: self.seed,
            offset_seed,
            time_ns: planned_ns.unwrap_or(time.budget_ns).min(time.budget_ns),
            budget_ns: time.budget_ns,
            precision_goal,
            rounds,
            enough: self.enough.clone(),
            rate_ops_per_second,
            timer: self.timer,
            local_cpus: local_cpus.clone(),
            interrupt: Arc::clone(&self.interrupt),
        };
        let throttled_before = match &self.place {
            TestTarget::Directory(on_disk) => observe::cpu_throttled(&on_disk.root),
            TestTarget::Simulated(_) => None,
        };
        let Measured { totals, collected, observed, start_ns } =
            match opened.and_then(|()| self.rate_of(phase)).map(inputs) {
                Ok(inputs) => self.task(inputs, part, fills).measure(on_event),
                Err(error) => Measured::nothing(phase, error),
            };
        let totals = totals.unwrap_or_else(PhaseTotals::failed);
        let context = PhaseContext {
            plan: &self.plan,
            target: &self.target,
            seed: mix(self.seed ^ offset_seed),
            clock: match self.place {
                TestTarget::Simulated(_) => "virtual",
                TestTarget::Directory(_) => self.timer.name(),
            },
            local_cpus: local_cpus.as_deref(),
            is_interrupted: self.interrupt.load(Ordering::Relaxed),
            start_ns: start_ns.map_or(0, |start_ns| start_ns.saturating_sub(self.start_ns)),
            clock_start_ns: start_ns.unwrap_or(0),
        };
        let mut record = record::record(&context, phase, repetition, totals, collected, &observed);
        record.seen.conditions = match &self.place {
            // A device that has just failed or hangs gets no more requests.
            TestTarget::Directory(on_disk)
                if record.status != Status::Failed && !on_disk.meter.skips_machine() =>
            {
                conditions_since(throttled_before, &on_disk.root, &self.target)
            }
            TestTarget::Directory(_) | TestTarget::Simulated(_) => None,
        };
        record
    }

    /// Returns a phase, ready to be measured.
    fn task<'a>(
        &'a mut self,
        inputs: PhaseInputs<'a>,
        part: Part,
        fills: Option<usize>,
    ) -> Box<dyn Task + 'a> {
        let Self { plan, stdio_program, budget, phases_run, place, .. } = self;
        let phase = inputs.phase;
        let on_disk = match place {
            TestTarget::Directory(on_disk) => on_disk,
            TestTarget::Simulated(simulated) => {
                let Simulated { device, age_bytes } = &mut **simulated;
                let size_bytes = plan.dataset.as_ref().map_or(0, |dataset| dataset.size_bytes_max);
                let seed = mix(inputs.seed ^ inputs.offset_seed);
                return Box::new(SimTask { inputs, device, age_bytes, size_bytes, seed });
            }
        };
        *phases_run += 1;
        let OnDisk { directory, dataset, files, meter, other, first, .. } = &mut **on_disk;
        let of_all = first.as_ref().filter(|_| plan.uses_files_of_all_clients(phase));
        if phase.workload.data().is_none() {
            let directory = of_all.unwrap_or(directory);
            return Box::new(FilePhase {
                inputs,
                directory,
                clients: plan.clients,
                budget,
                set: files,
                meter,
            });
        }
        let own = &*directory;
        let (directory, dataset) = match other {
            Some(other) => (&other.directory, Some(&mut other.dataset)),
            None => (own, dataset.as_mut()),
        };
        let directory = match plan.uses_files_of_all_clients(phase) {
            true => of_all.unwrap_or(own),
            false => directory,
        };
        let group = plan.dataset.as_ref().filter(|_| phase.engine.needs_files());
        // If the time is only an upper limit, a test counts as cut short if it did not get even the shortest
        // time. Experiments have times of their own.
        let time_min_ns = plan.precision_goal.map_or(plan.phase_time_ns, |goal| goal.time_min_ns);
        let task = DataTask {
            inputs,
            directory,
            verify_every: if plan.verify_all { 1 } else { VERIFY_EVERY },
            group: fills.or_else(|| group.and_then(|dataset| dataset.group_of(&phase.workload))),
            is_fill: fills.is_some(),
            time_min_ns: phase.stop.time_ns.map_or(time_min_ns, |time_ns| time_ns.min(time_min_ns)),
            part,
            budget,
            stdio_program,
        };
        Box::new(DataPhase { task, dataset, meter })
    }

    /// Returns the rate at which operations of an open loop are due.
    fn rate_of(&self, phase: &PlannedPhase) -> Result<Option<f64>, UserError> {
        match phase.workload.arrival() {
            Arrival::Closed => Ok(None),
            Arrival::Open { rate: OpenRate::PerSecond(rate), .. } => Ok(Some(rate as f64)),
            Arrival::Open { rate: OpenRate::Percent(percent), .. } => {
                let closed = spec::print(&phase.requested_workload().with_arrival(Arrival::Closed));
                let reached = self.reached.get(&closed).ok_or_else(|| {
                    UserError::new(
                        format!("start operations at {percent} % of the rate of `{closed}`"),
                        "that test has no rate",
                    )
                })?;
                Ok(Some(reached * f64::from(percent) / 100.0))
            }
        }
    }

    /// Returns the record of a phase in which nothing was measured, with the reason.
    pub fn untried(phase: &PlannedPhase, repetition: u32, status: Status, reason: &str) -> PhaseRecord {
        record::untried(phase, repetition, status, reason)
    }

    /// Returns the seed of offsets. It is the same for the same phase of a run with the same seed, but
    /// changes when the phase is measured again.
    fn offset_seed(&mut self, phase: &PlannedPhase, repetition: u32) -> u64 {
        let id = record_id(phase, repetition);
        self.attempts = if self.last_id == id { self.attempts + 1 } else { 0 };
        let place = id.bytes().fold(self.attempts, |hash, byte| mix(hash ^ u64::from(byte)));
        self.last_id = id;
        mix(self.seed ^ place)
    }

    /// Returns the CPUs near the device if each worker can have one: more workers need the other CPUs too.
    fn local_cpus_for(&self, phase: &PlannedPhase) -> Option<Arc<[u32]>> {
        self.local_cpus.clone().filter(|cpus| phase.workload.threads as usize <= cpus.len())
    }
}

/// Returns the present conditions, with the throttling of the CPUs since `throttled_before`.
fn conditions_since(throttled_before: Option<u64>, root: &Root, target: &Target) -> Option<Conditions> {
    let (root, target) = (root.clone(), target.clone());
    let sample = move || observe::conditions(&root, &target);
    let conditions = hang_detection::sample("read sensors", sample)?;
    let cpu_throttled =
        conditions.cpu_throttled.zip(throttled_before).map(|(now, before)| now.saturating_sub(before));
    Some(Conditions { cpu_throttled, ..conditions })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::dataset::LayoutProgress;
    use crate::side::Side;
    use model::order::{LayoutOrder, Time};
    use model::request::{Count, Request, Seconds};
    use model::size::Size;
    use std::cell::Cell;
    use std::time::Duration;

    /// Number of the worker that panics in the next phase, which no other test has; none if it is `u64::MAX`.
    static PANICS: AtomicU64 = AtomicU64::new(u64::MAX);

    pub fn panic_if_requested(worker: u64) {
        let exchange = PANICS.compare_exchange(worker, u64::MAX, Ordering::SeqCst, Ordering::SeqCst);
        assert!(exchange.is_err(), "as the test asked for");
    }

    #[test]
    fn phase_event_callbacks_do_not_use_test_time() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::system();
        let target = observe::target(&root, temp.path()).unwrap();
        let request = Request {
            tests: ["read:rnd4k:buffered:ops=10", "stat:files=300"].map(Into::into).into(),
            size: Some(Size::Bytes(1 << 20)),
            time: Some(Seconds(0.5)),
            allow: vec![model::request::Allow::LowSpace],
            ..Request::default()
        };
        let plan = model::plan::plan(&request, &target, &observe::machine(&root)).unwrap();
        let mut session = Session::open(&root, &plan, &target, SessionOptions::default()).unwrap();
        session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
        for phase in &plan.phases {
            let mut seen = String::new();
            let time = Time { measured_ns: 500_000_000, budget_ns: 20_000_000_000 };
            let record = session
                .phase(phase, &TestOrder::new(0, 1, time), &mut |event| {
                    // Longer than all time that a test may take untimed.
                    if matches!(event, PhaseEvent::Begin(_)) && seen.is_empty() {
                        std::thread::sleep(Duration::from_millis(1200));
                    }
                    seen.push_str(match event {
                        PhaseEvent::Begin(_) => "(",
                        PhaseEvent::Tick(_) => "",
                        PhaseEvent::End => ")",
                        PhaseEvent::Over => ".",
                    });
                })
                .record;
            assert_eq!(record.status, Status::Done, "{:?}", record.reason);
            let parts = record.figures.rounds.len().max(1);
            assert_eq!(seen, "()".repeat(parts) + ".");
            assert!(parts > 1 || phase.workload.data().is_some(), "there was time for one round only");
        }
        assert_eq!(Box::new(session).close().removal.unwrap().wait().unwrap().left, []);
    }

    /// Makes a session on some tests and 1 MiB of data, with all reads compared.
    fn session(directory: &Path, tests: &[&str]) -> (Session, Plan) {
        let root = Root::system();
        let target = observe::target(&root, directory).unwrap();
        let request = Request {
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            size: Some(Size::Bytes(1 << 20)),
            verify: Some(true),
            allow: vec![model::request::Allow::LowSpace],
            ..Request::default()
        };
        let plan = model::plan::plan(&request, &target, &observe::machine(&root)).unwrap();
        (Session::open(&root, &plan, &target, SessionOptions::default()).unwrap(), plan)
    }

    /// Returns bytes and blocks of each data file.
    fn data_files(session: &Session) -> Vec<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let mut found = Vec::new();
        for entry in std::fs::read_dir(session.path().unwrap()).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("data-") {
                let about = entry.metadata().unwrap();
                found.push((about.size(), about.blocks()));
            }
        }
        found
    }

    const LONG: Time = Time { measured_ns: 500_000_000, budget_ns: 20_000_000_000 };

    #[test]
    fn fresh_files_start_empty_and_end_complete() {
        let temp = tempfile::tempdir().unwrap();
        let tests = [
            "byte-write:t2:bytes=20k",
            "write:seq8k:t2:buffered:fresh",
            "rw:rnd8k:t10:files=2:buffered:passes=1",
            "byte-read:t2:bytes=20k",
            "read:seq8k:buffered:passes=1",
            "write:seq16k:t2:buffered:fresh",
            "read:rnd4k:t3:files=2:buffered:passes=1",
        ];
        let (mut session, plan) = session(temp.path(), &tests);
        for repetition in 1..=2 {
            let progress = LayoutProgress::default();
            session.lay_out(&LayoutOrder::new(u64::MAX), &progress).unwrap();
            assert_eq!(data_files(&session), [(0, 0); 2], "nothing is laid out");
            assert_eq!(progress.bytes.load(Ordering::Relaxed), 0);
            assert!(session.probe_target().unwrap().reread.is_none());
            let directory = session.path().unwrap().to_owned();
            let empty = || {
                let files = ["data-0000", "data-0001"].map(|name| directory.join(name));
                files.iter().all(|file| file.metadata().unwrap().len() == 0)
            };
            let mut records = Vec::new();
            for phase in &plan.phases {
                let mut was_empty = false;
                let record = session
                    .phase(phase, &TestOrder::new(0, repetition, LONG), &mut |event| {
                        was_empty |= matches!(event, PhaseEvent::Begin(_)) && empty();
                    })
                    .record;
                assert_eq!(record.status, Status::Done, "{}: {:?}", phase.id, record.reason);
                let is_first = phase.id.starts_with("01");
                assert_eq!(was_empty, is_first || phase.workload.data().unwrap().fresh, "{}", phase.id);
                records.push(record);
            }
            assert_eq!(
                data_files(&session).iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>(),
                [512 << 10; 2]
            );
            let written: Vec<_> = records.iter().map(|record| record.counts.app_bytes_written).collect();
            assert_eq!((written[0], written[1], written[5]), (20 << 10, 1 << 20, 1 << 20));
            assert_eq!(
                (records[2].counts.app_bytes_read + written[2], records[2].workload.files),
                (1 << 20, 2)
            );
            assert_eq!(records[1].seen.residency.as_ref().and_then(|found| found.before).unwrap_or(0.0), 0.0);
            // Every block is from the test that wrote it last, and none is older than the files.
            let verified: Vec<_> = records.iter().map(|record| record.counts.verified_blocks).collect();
            assert_eq!((verified[3], verified[4], verified[6]), (4, 128, 256), "{verified:?}");
            for record in records.iter().filter(|record| record.counts.app_bytes_read > 0) {
                let holes = record
                    .seen
                    .extents
                    .as_ref()
                    .map_or(0.0, |found| found.hole_share + found.unwritten_share);
                assert!(holes == 0.0, "{}: {holes}", record.id);
                assert!(
                    record.judged.notes.iter().all(|note| note.code != "not_compared"),
                    "{:?}",
                    record.judged.notes
                );
            }
        }
        assert_eq!(Box::new(session).close().removal.unwrap().wait().unwrap().left, []);
    }

    #[test]
    fn rw_budget_counts_written_bytes_only() {
        let temp = tempfile::tempdir().unwrap();
        let (mut session, plan) = session(temp.path(), &["rw:rnd4k:buffered:read=75:passes=2"]);
        session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
        let before_bytes = session.left_bytes();
        let counts = session.phase(&plan.phases[0], &TestOrder::new(0, 1, LONG), &mut |_| {}).record.counts;
        assert_eq!(counts.app_bytes_read + counts.app_bytes_written, 2 << 20);
        assert_eq!(session.left_bytes(), before_bytes - counts.app_bytes_written);
    }

    #[test]
    fn single_thread_creates_several_files_and_rereads_them() {
        let temp = tempfile::tempdir().unwrap();
        let tests = [
            "byte-write:files=4:fresh",
            "rewrite:seq8k:files=4:reread:passes=1",
            "read:seq8k:files=4:buffered:passes=1",
            "rw:rnd16k:t3:files=4:buffered:update:read=90:passes=1",
        ];
        let (mut session, plan) = session(temp.path(), &tests);
        session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
        assert_eq!(data_files(&session), [(0, 0); 4], "nothing is laid out");
        let records: Vec<_> = plan
            .phases
            .iter()
            .map(|phase| session.phase(phase, &TestOrder::new(0, 1, LONG), &mut |_| {}).record)
            .collect();
        for record in &records {
            assert_eq!((record.status, record.workload.files), (Status::Done, 4), "{:?}", record.reason);
        }
        let sizes: Vec<_> = data_files(&session).iter().map(|(bytes, _)| *bytes).collect();
        assert_eq!(sizes, [256 << 10; 4]);
        let moved = |record: &PhaseRecord| {
            (record.counts.bytes, record.counts.app_bytes_read, record.counts.app_bytes_written)
        };
        assert_eq!(moved(&records[0]), (1 << 20, 0, 1 << 20));
        assert_eq!(moved(&records[1]), (1 << 20, 2 << 20, 1 << 20));
        let steps: Vec<_> =
            records[1].figures.steps.iter().map(|step| (step.name.as_str(), step.ops)).collect();
        assert_eq!(steps, [("read", 128), ("write", 128), ("read again", 128)]);
        // All blocks that were read are those written last, the second time too.
        assert_eq!([1, 2, 3].map(|index: usize| records[index].counts.verified_blocks), [256, 128, 64]);
        assert_eq!(Box::new(session).close().removal.unwrap().wait().unwrap().left, []);
    }

    #[test]
    fn tests_on_unwritten_or_unfinished_files_fail() {
        let temp = tempfile::tempdir().unwrap();
        let tests = ["byte-write:bytes=8k", "write:seq8k:buffered:fresh", "read:seq8k:buffered:passes=1"];
        let (mut session, plan) = session(temp.path(), &tests);
        let [bytes, write, read] = &plan.phases[..] else { panic!("{:?}", plan.phases) };
        session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
        let mut status_of = |phase: &PlannedPhase, time| {
            let record = session.phase(phase, &TestOrder::new(0, 1, time), &mut |_| {}).record;
            (record.status, record.reason.unwrap_or_default())
        };
        let (status, reason) = status_of(read, LONG);
        assert_eq!(status, Status::Failed);
        assert!(reason.ends_with("data-0000: the test that writes the files did not run"), "{reason}");
        assert_eq!(status_of(bytes, LONG).0, Status::Done);
        let none = Time { measured_ns: 0, budget_ns: 0 };
        assert_eq!(status_of(write, none).0, Status::Partial);
        for phase in [read, bytes] {
            let (status, reason) = status_of(phase, LONG);
            assert_eq!(status, Status::Failed);
            assert!(reason.ends_with("that writes the files did not finish"), "{reason}");
        }
        for phase in [write, read, bytes] {
            assert_eq!(status_of(phase, LONG), (Status::Done, String::new()));
        }
        // Whole files are no longer whole once they are truncated.
        assert_eq!(status_of(write, none).0, Status::Partial);
        assert_eq!(status_of(read, LONG).0, Status::Failed);
        session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
        assert_eq!(data_files(&session), [(0, 0)]);
        assert_eq!(Box::new(session).close().removal.unwrap().wait().unwrap().left, []);
    }

    #[test]
    fn worker_panic_fails_only_its_phase() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::system();
        let target = observe::target(&root, temp.path()).unwrap();
        let request = Request {
            tests: ["read:rnd4k:q64:buffered", "read:rnd4k:q4:buffered", "create"].map(Into::into).into(),
            size: Some(Size::Bytes(1 << 20)),
            files: Some(Count(10)),
            time: Some(Seconds(0.05)),
            allow: vec![model::request::Allow::LowSpace],
            ..Request::default()
        };
        let plan = model::plan::plan(&request, &target, &observe::machine(&root)).unwrap();
        let mut session = Session::open(&root, &plan, &target, SessionOptions::default()).unwrap();
        session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
        PANICS.store(63, Ordering::SeqCst);
        let ticks = Cell::new(0);
        let records: Vec<_> = plan
            .phases
            .iter()
            .map(|phase| {
                let time = Time { measured_ns: 50_000_000, budget_ns: 10_000_000_000 };
                session.phase(phase, &TestOrder::new(0, 1, time), &mut |_| ticks.set(ticks.get() + 1)).record
            })
            .collect();
        assert_eq!(
            records.iter().map(|record| record.status).collect::<Vec<_>>(),
            [Status::Failed, Status::Done, Status::Done]
        );
        let reason = records[0].reason.as_deref().unwrap();
        assert!(reason.contains("a worker of skye panicked: as the test asked for"), "{reason}");
        assert!(records[0].counts.ops > 0, "what the others counted is kept");
        assert_eq!(Box::new(session).close().removal.unwrap().wait().unwrap().left, []);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
