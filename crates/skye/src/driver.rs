//! The session's driver: runs phase after phase of a plan, observes before, beside and after them, and makes the
//! document.
//!
//! A preset limits the time of the whole run; otherwise the limit is twice the longest estimate and a minute. Files are
//! laid out within the time that is left. If that is too short, tests on data are not tried: a part of the data set
//! would be another test. Each test gets its share of the rest. A test that would get too little is skipped, and the
//! exit code is 1. Patience bounds the time of workers beyond their deadline.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use model::figure::Share;
use model::finding::Finding;
use model::order::{LayoutOrder, TestOrder, Time};
use model::plan::{FILLS, PlannedPhase};
use model::run::{
    Environment, FillRecord, HostRecord, Pairing, PhaseRecord, Run, RunStatus, SCHEMA, Scores, Status,
    TargetProbes, Tool,
};
use model::size;
use model::target::Backing;
use model::workload::Engine;
use model::{Machine, Plan, UserError, spec};
use observe::Root;
use run::ceilings::Ceilings;
use run::{LayoutProgress, PhaseEvent, PhaseOutcome, Session, Side, SideEnd, Tick, hang_detection};
use rustix::time::{ClockId, clock_gettime};

mod experiments;

use crate::exit::{self, Failure};
use crate::live_view::{LiveView, Position};
use crate::marks::Marks;
use crate::monitor::Monitor;
use crate::signals::Interruption;
use crate::store::EarlierRuns;
use crate::{closing, terminal, version};

/// Time for which the target is watched for foreign I/O before anything is written.
const WATCH: Duration = Duration::from_millis(150);
/// Rate of foreign I/O above which a warning is printed before the start.
const BUSY_BYTES_PER_SECOND: u64 = 5_000_000;
/// Time limit for measuring each of skye's own ceilings.
const CEILING_TIME: Duration = Duration::from_millis(50);
/// Time kept for cleaning up, within the total time.
const CLEANUP_TIME: Duration = Duration::from_secs(2);
/// Time until the first row of a run whose tests are short. Later tests get the time that the first one leaves.
const FIRST_ROW: Duration = Duration::from_millis(11_500);
/// Shortest time for a phase. A phase that would get less is not started.
const PHASE_NS_MIN: u64 = 200_000_000;

/// Receiver of reports while a run goes on. After an error it gets no more
/// reports.
pub trait RunObserver {
    /// Receives the begin of a test of the plan: its place in the list.
    ///
    /// # Errors
    /// The audience cannot be reached any more.
    fn on_test_start(&mut self, _index: usize) -> Result<(), Failure> {
        Ok(())
    }

    /// Receives the moment before workers begin. It may wait, which is no part of the test.
    fn starts(&mut self) {}

    /// Receives the state of a running test, ten times a second.
    ///
    /// # Errors
    /// As [`RunObserver::on_test_start`]. The run then ends.
    fn moves(&mut self, _tick: &Tick<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Receives the record of a test that is over and judged; `before` is the test before it.
    ///
    /// # Errors
    /// As [`RunObserver::on_test_start`].
    fn over(
        &mut self,
        plan: &Plan,
        record: &PhaseRecord,
        before: Option<&PhaseRecord>,
    ) -> Result<(), Failure>;
}

/// Wait before a test of the plan, which gets the place of the test in the list.
pub type Gate = Box<dyn FnMut(usize)>;

/// Start of the program.
#[derive(Clone)]
pub struct Start {
    /// Its time.
    pub at: Instant,
    /// The same as text.
    pub text: String,
}

impl Start {
    /// Returns the present time.
    pub fn now() -> Self {
        Self { at: Instant::now(), text: humantime::format_rfc3339_millis(SystemTime::now()).to_string() }
    }
}

/// Inputs of a run.
pub struct Setup {
    /// Start of the program.
    pub start: Start,
    /// Seed of offsets and data.
    pub seed: u64,
    /// Signals that end the run.
    pub interruption: Interruption,
    /// View that moves while the run lasts.
    pub view: LiveView,
    /// Audience of the run, if there is one.
    pub observer: Option<Box<dyn RunObserver>>,
    /// Wait before each test, if there is one.
    pub gate: Option<Gate>,
    /// True if warnings only go into the document, and not to stderr.
    pub is_quiet: bool,
    /// The user's command beside each test.
    pub monitor: Option<Monitor>,
    /// The machine, target and settings that were found.
    pub environment: Environment,
    /// The plan to carry out.
    pub plan: Plan,
}

/// The machine that we run on, and what it lets us do.
pub fn machine(root: &Root) -> Machine {
    Machine { io_uring_refused: engine::uring::refusal(), ..observe::machine(root) }
}

/// Carries out the plan, and removes its files.
pub fn drive(setup: Setup, side: Box<dyn Side>, root: &Root, machine: &Machine) -> RunOutcome {
    let mut driver = Driver::begin(setup, root, machine);
    let left = driver.measure(side);
    log::debug!("the run took {:?}", driver.since.elapsed());
    driver.into_run(None, left)
}

/// One of two runs that are measured in turns, repetition by repetition.
pub struct Turns {
    driver: Driver,
}

impl Turns {
    /// Begins a run. Only the costs of skye itself are measured yet.
    pub fn begin(setup: Setup, root: &Root, machine: &Machine) -> Self {
        Self { driver: Driver::begin(setup, root, machine) }
    }

    /// Lays out files for a repetition.
    ///
    /// # Errors
    /// They cannot be laid out.
    pub fn lay_out(&mut self, side: &mut dyn Side, repetition: u32) -> Result<(), UserError> {
        self.driver.lay_out(side, repetition)
    }

    /// Starts the clock of a repetition. Each has the time and the bytes of the whole plan.
    pub fn start(&mut self, repetition: u32) {
        let driver = &mut self.driver;
        driver.plan.repetitions = repetition;
        driver.since = Instant::now();
        driver.deadline = driver.since + Duration::from_nanos(driver.plan.total_ns);
        driver.measuring_since.get_or_insert_with(|| (Instant::now(), own_cpu_seconds()));
    }

    /// Measures all tests once. Returns true if another repetition makes sense. After a failed test it does not: the test
    /// would fail again.
    pub fn measure(&mut self, side: &mut dyn Side, repetition: u32, laid_out: Result<(), UserError>) -> bool {
        let driver = &mut self.driver;
        let is_complete = laid_out.is_ok();
        if is_complete || !driver.interruption.is_raised() {
            driver.repetition(side, repetition, laid_out);
        }
        let has_failed =
            |phase: &PhaseRecord| phase.repetition == repetition && phase.status == Status::Failed;
        is_complete
            && !is_stuck(side)
            && !driver.interruption.is_raised()
            && !driver.phases.iter().any(has_failed)
    }

    /// Removes the files of a repetition. Returns true if that succeeds.
    pub fn clear(&mut self, side: &mut dyn Side) -> bool {
        match side.clear() {
            Err(error) if !self.driver.interruption.is_raised() => {
                self.fail(&error);
                false
            }
            cleared => cleared.is_ok(),
        }
    }

    /// Notes and reports a failure besides those of tests.
    pub fn fail(&mut self, error: &UserError) {
        self.driver.fail(error);
    }

    /// Returns the phases that were measured so far.
    pub fn phases(&self) -> &[PhaseRecord] {
        &self.driver.phases
    }

    /// Removes what is left of a side, if there is one, and returns what was measured.
    pub fn end(mut self, side: Option<Box<dyn Side>>, pairing: Pairing) -> RunOutcome {
        let left = side.map_or_else(Vec::new, |side| self.driver.close(side));
        self.driver.into_run(Some(pairing), left)
    }
}

struct Driver {
    /// Start of the run, as text.
    started_at: String,
    /// Start of the program, or of a repetition in turns.
    since: Instant,
    seed: u64,
    interruption: Interruption,
    view: LiveView,
    observer: Option<Box<dyn RunObserver>>,
    gate: Option<Gate>,
    is_quiet: bool,
    deadline: Instant,
    phases: Vec<PhaseRecord>,
    warnings: Vec<String>,
    ceilings: Ceilings,
    /// Time at which the data set and the tests began, and the CPU time of this thread until then.
    measuring_since: Option<(Instant, f64)>,
    cpus: u32,
    clock_read_ns: Option<f64>,
    /// True if something besides a phase failed.
    has_failed: bool,
    /// True while files are still being removed from a target that hangs.
    is_closing: bool,
    /// Fills of the data before the tests.
    fills: Vec<FillRecord>,
    /// Facts about the target, found out before the first test.
    target_probes: Option<TargetProbes>,
    /// The user's command beside each test.
    monitor: Option<Monitor>,
    /// The clients that make the run together; none for a session here.
    hosts: Vec<HostRecord>,
    marks: Marks,
    earlier: EarlierRuns,
    environment: Environment,
    plan: Plan,
}

/// Result of a run: the document, and how the run ended.
pub struct RunOutcome {
    /// The document.
    pub run: Run,
    /// Signals that have arrived.
    pub interruption: Interruption,
    /// The user's command beside each test.
    pub monitor: Option<Monitor>,
    /// True if something besides a phase failed, and was reported.
    pub has_failed: bool,
    /// Files that could not be removed, each with the reason.
    pub left: Vec<String>,
    /// True while files are still being removed from a target that hangs.
    is_closing: bool,
    is_quiet: bool,
}

impl RunOutcome {
    /// Returns true if the reader of stdout has gone.
    pub fn reader_is_gone(&self) -> bool {
        self.interruption.exit_code() == Some(exit::DONE)
    }

    /// Returns true while files are still being removed from a target that hangs.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns true if progress is not reported.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Says on stderr what failed, what is left, and which signal ended the run. Returns true if all went well.
    pub fn report(&self) -> bool {
        let went_well = self.report_failures();
        self.report_signal();
        went_well
    }

    /// Says on stderr which signal ended the run, and whether its files are removed.
    pub fn report_signal(&self) {
        if self.interruption.is_raised() && !self.is_quiet && !self.reader_is_gone() {
            let files = match self.left.is_empty() {
                _ if self.run.environment.target.erased.is_some() => {
                    "the device keeps what was written to it"
                }
                _ if self.run.environment.target.is_used_read_only() => "it created no files",
                _ if self.is_closing => "its files are not removed yet",
                true => "its files are removed",
                false => "some of its files were not removed",
            };
            terminal::message("skye", &format!("{}; {files}", self.interruption.reason()));
        }
    }

    /// Says on stderr what failed and what is left. Returns true if all went well.
    pub fn report_failures(&self) -> bool {
        self.left.iter().for_each(|problem| terminal::error(problem));
        for phase in self.run.phases.iter().filter(|phase| phase.status == Status::Failed) {
            let reason = phase.reason.as_deref().unwrap_or("its cause is unknown");
            terminal::error(&format!("{} {} failed: {reason}", phase.name, phase.label));
        }
        let is_lacking = |phase: &PhaseRecord| matches!(phase.status, Status::Failed | Status::Skipped);
        !self.has_failed && self.left.is_empty() && !self.run.phases.iter().any(is_lacking)
    }
}

/// Time that a run has left, and what its tests need of it.
struct TimeLeft {
    left_ns: u64,
    /// Part of `left_ns` that experiments get, if all tests have their shortest times without it.
    experiments_ns: u64,
    /// Sum over all tests left; each weighs 2 or more.
    weights: u64,
    /// Tests left after the next one.
    others: u64,
}

impl TimeLeft {
    /// Returns the time that experiments leave.
    fn unreserved_ns(&self) -> u64 {
        self.left_ns.saturating_sub(self.experiments_ns)
    }

    /// Returns the time of the next test per unit of weight.
    fn share_ns(&self) -> u64 {
        self.unreserved_ns() / self.weights.max(1)
    }

    /// Returns the time of the next test: its share, and at least `least_ns` if the shortest times of all others fit.
    fn next_test_ns(&self, planned_ns: u64, least_ns: u64) -> u64 {
        let least_ns = least_ns.min(self.left_ns.saturating_sub(least_ns.saturating_mul(self.others)));
        planned_ns.min((self.share_ns() * 2).max(least_ns))
    }
}

/// Returns true if nothing more can be done on a side: its target hangs, or a client is lost.
pub fn is_stuck(side: &dyn Side) -> bool {
    hang_detection::first_hung_call().is_some() || side.is_over()
}

/// Returns true if a test read data that was not written.
pub fn is_damaged(phase: &PhaseRecord) -> bool {
    phase.judged.notes.iter().any(|note| note.code == "verification_failed")
}

/// Returns the CPU time that this thread has taken.
fn own_cpu_seconds() -> f64 {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

impl Driver {
    /// Checks the target for foreign I/O, and measures skye's own ceilings, before the first test.
    fn begin(setup: Setup, root: &Root, machine: &Machine) -> Self {
        let Setup { start, seed, interruption, view, observer, gate, is_quiet, monitor, environment, plan } =
            setup;
        let Start { at: since, text: started_at } = start;
        // The distance of other runs from this one is only reported for a virtual machine's disk.
        let is_shared = plan.clients.is_none()
            && environment.virtualisation.is_some()
            && environment.target.is_backed_by_disk()
            && environment.target.backing == Backing::Devices;
        let earlier = if is_shared { EarlierRuns::on(&environment) } else { EarlierRuns::default() };
        let mut driver = Self {
            deadline: since + Duration::from_nanos(plan.total_ns),
            started_at,
            since,
            seed,
            interruption,
            view,
            observer,
            gate,
            is_quiet,
            phases: Vec::new(),
            warnings: Vec::new(),
            ceilings: Ceilings::default(),
            measuring_since: None,
            cpus: machine.cpus,
            clock_read_ns: None,
            has_failed: false,
            is_closing: false,
            fills: Vec::new(),
            target_probes: None,
            monitor,
            hosts: Vec::new(),
            marks: Marks::open(),
            earlier,
            environment,
            plan,
        };
        driver.warn_if_busy(root);
        driver.find_ceilings(root, machine);
        driver
    }

    fn warn(&mut self, message: String) {
        if !self.is_quiet {
            terminal::message("warning", &message);
        }
        self.warnings.push(message);
    }

    fn warn_if_busy(&mut self, root: &Root) {
        // The devices of clients are elsewhere.
        let checks_load = !self.plan.allow_busy && self.plan.clients.is_none();
        let top = self.environment.target.top_device().filter(|_| checks_load);
        let Some(device) = top.cloned() else { return };
        self.view.preparing(&format!("sampling other processes' I/O on {}", device.name));
        let Some(traffic) = observe::idle_traffic(root, &device, WATCH) else { return };
        let rate = (traffic.read_bytes + traffic.written_bytes).saturating_mul(1_000_000_000)
            / traffic.length_ns.max(1);
        if rate > BUSY_BYTES_PER_SECOND {
            self.warn(format!(
                "{} is busy: other processes move {}/s, so results may be lower and less steady (--allow busy: no \
                 warning)",
                device.name,
                size::decimal(rate)
            ));
        }
    }

    /// Measures the costs of skye and of the calls themselves here, for a fraction of a second each.
    fn find_ceilings(&mut self, root: &Root, machine: &Machine) {
        if self.environment.target.backing == Backing::Simulated || self.plan.clients.is_some() {
            return;
        }
        self.view.preparing("measuring the cost of skye itself");
        // A short test should not wait longer for these measurements than it takes itself.
        let time = Duration::from_nanos(self.plan.phase_time_ns / 20).min(CEILING_TIME);
        self.ceilings = Ceilings::measure(root, &self.plan, machine, time, &self.interruption.raised);
    }

    /// Runs all tests and removes their files. Returns what could not be removed.
    fn measure(&mut self, mut side: Box<dyn Side>) -> Vec<String> {
        self.hosts = side.hosts();
        self.measuring_since = Some((Instant::now(), own_cpu_seconds()));
        for repetition in 1..=self.plan.repetitions {
            let is_hanging = hang_detection::first_hung_call().is_some();
            if self.interruption.is_raised() || is_hanging || self.has_failed_to_read() || side.is_over() {
                break;
            }
            let laid_out = self.lay_out(&mut *side, repetition);
            if self.interruption.is_raised() {
                break;
            }
            if repetition == 1 && laid_out.is_ok() {
                self.view.preparing("probing below this system");
                self.target_probes = side.probe_target();
                let ping = self.target_probes.as_ref().and_then(|probes| probes.ping.as_ref());
                self.plan.notes.extend(ping.and_then(|ping| ping.note(&self.environment.target)));
            }
            self.repetition(&mut *side, repetition, laid_out);
        }
        if hang_detection::first_hung_call().is_none() {
            self.experiment(&mut *side);
            self.return_visits(&mut *side);
        }
        self.rejudge_all();
        self.close(side)
    }

    /// Returns true if a device or a file could not be read. Nothing but the same failure would follow.
    fn has_failed_to_read(&self) -> bool {
        let has_failed = |phase: &PhaseRecord| phase.status == Status::Failed;
        self.environment.target.is_used_read_only() && self.phases.iter().any(has_failed)
    }

    /// Removes all files. Returns what could not be removed. Where the target hangs, the removal goes on in the
    /// background, so that results need not wait for it.
    fn close(&mut self, side: Box<dyn Side>) -> Vec<String> {
        self.clock_read_ns = Some(side.clock_read_ns());
        self.view.preparing("removing files");
        let SideEnd { mut left, removal, hosts } = side.close();
        match removal {
            Some(removal) if hang_detection::first_hung_call().is_some() => {
                self.is_closing = true;
                closing::later(removal);
            }
            Some(removal) => left.extend(closing::leftover_lines(removal.wait())),
            None => {}
        }
        self.hosts = hosts;
        // A client that was lost is a part of the work that was not done.
        self.has_failed |= self.hosts.iter().any(|host| host.lost.is_some());
        terminal::remove_live();
        left
    }

    fn fail(&mut self, error: &UserError) {
        self.has_failed = true;
        let message = error.to_string();
        terminal::error(&message);
        self.warnings.push(message);
    }

    /// Lays out files, and fills the data if the plan requires it.
    fn lay_out(&mut self, side: &mut dyn Side, repetition: u32) -> Result<(), UserError> {
        self.view.preparing("laying out files");
        let progress = LayoutProgress::default();
        let left = self.deadline.saturating_duration_since(Instant::now());
        side.lay_out(&LayoutOrder::new(left.as_nanos() as u64), &progress)?;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (all_bytes, view) = (self.fill_bytes(), &mut self.view);
        let filled = side.fill(repetition, left.as_nanos() as u64, &mut |fill, event| {
            let done = if let PhaseEvent::Tick(tick) = event { tick.bytes * 100 / all_bytes } else { 0 };
            view.preparing(&format!("filling the data before the tests: {}, {done} %", fill.id));
        })?;
        self.fills.extend(filled);
        Ok(())
    }

    /// Returns the most bytes that a fill writes.
    fn fill_bytes(&self) -> u64 {
        let set_bytes = self.plan.dataset.as_ref().map_or(0, |dataset| dataset.size_bytes_max);
        set_bytes.saturating_mul(FILLS).max(1)
    }

    /// Runs all tests once. Does not try tests whose data could not be laid out.
    fn repetition(&mut self, side: &mut dyn Side, repetition: u32, laid_out: Result<(), UserError>) {
        let lacking = laid_out.err().map(|error| {
            self.fail(&error);
            format!("its files were not laid out: {}", error.cause)
        });
        let phases = self.plan.phases.clone();
        for (index, phase) in phases.iter().enumerate() {
            let rest = &phases[index..];
            let repetitions_left = u64::from(self.plan.repetitions - repetition);
            let hangs = || hang_detection::first_hung_call().map(|call| format!("the target hangs: {call}"));
            let obstacle = lacking.clone().filter(|_| phase.workload.data().is_some()).or_else(hangs);
            let record = match (obstacle, self.time_for(rest, &phases, repetitions_left)) {
                _ if self.interruption.is_raised() || side.is_over() => return,
                (Some(obstacle), _) => skipped(phase, repetition, &obstacle),
                (None, None) => {
                    skipped(phase, repetition, "the run's time limit was reached; use a longer --time")
                }
                (None, Some(budget)) => {
                    self.wait(index);
                    self.report(|observer, _| observer.on_test_start(index));
                    let record = self.phase(side, phase, index, repetition, budget);
                    self.repeat_unconfirmed(side, phase, index, repetition, budget, record)
                }
            };
            self.report(|observer, driver| observer.over(&driver.plan, &record, driver.phases.last()));
            self.phases.push(record);
            let goes_on = phases.get(index + 1).is_some_and(|next| next.group == phase.group);
            if phase.group.is_some() && !goes_on {
                self.name_knee(phase.group.as_deref(), repetition);
            }
        }
    }

    /// Waits for the people or programs that a test waits for. That is no time of the run.
    fn wait(&mut self, index: usize) {
        let since = Instant::now();
        if let Some(gate) = &mut self.gate {
            gate(index);
            self.deadline += since.elapsed();
        }
    }

    /// Adds a note to the row at which a sweep has its knee.
    fn name_knee(&mut self, group: Option<&str>, repetition: u32) {
        let is_point =
            |record: &PhaseRecord| record.group.as_deref() == group && record.repetition == repetition;
        let points: Vec<_> = self.phases.iter().filter(|record| is_point(record)).collect();
        let Some((index, note)) = run::knee(&points) else { return };
        if let Some(record) = self.phases.iter_mut().filter(|record| is_point(record)).nth(index) {
            // The note comes before the judge's notes, as where the run is judged again.
            record.judged.notes.insert(0, note);
            wording::fill(record);
        }
    }

    /// Returns what is left of the run's total time, without the time for cleaning up.
    fn left_ns(&self) -> u64 {
        let left = self.deadline.saturating_duration_since(Instant::now()).saturating_sub(CLEANUP_TIME);
        left.as_nanos() as u64
    }

    /// Returns the measured time and the total budget of the next phase. The time is its share of what experiments leave.
    /// It is at least the shortest one, if all fit without experiments. Phases on files weigh more, for their untimed work.
    /// `None` if the time is too short.
    fn time_for(
        &self,
        rest: &[PlannedPhase],
        all: &[PlannedPhase],
        repetitions_left: u64,
    ) -> Option<(u64, u64)> {
        // On a virtual clock no test takes time from another.
        if rest.first().is_some_and(|phase| phase.engine == Engine::Sim) {
            let planned_ns = rest.first().and_then(|phase| phase.stop.time_ns);
            return Some((planned_ns.unwrap_or(self.plan.phase_time_ns), u64::MAX));
        }
        let weight = |phase: &PlannedPhase| if phase.workload.files().is_some() { 4 } else { 2 };
        let weights =
            rest.iter().map(weight).sum::<u64>() + repetitions_left * all.iter().map(weight).sum::<u64>();
        let left = TimeLeft {
            left_ns: self.left_ns(),
            experiments_ns: self.plan.experiments_ns(),
            weights,
            others: (rest.len() as u64).saturating_sub(1) + repetitions_left * all.len() as u64,
        };
        // A test with rounds has the time of all of them.
        let rounds = rest.first().and_then(|phase| self.plan.rounds_of(phase));
        let planned_ns =
            rounds.map_or(self.plan.phase_time_ns, |(round_ns, most)| round_ns * u64::from(most));
        let least_ns = self.plan.precision_goal.map_or(planned_ns, |goal| goal.time_min_ns.min(planned_ns));
        let time_ns = self.first_row(left.next_test_ns(planned_ns, least_ns));
        // A phase that is counted, not timed, may take all that is left.
        let counted = rest.first().is_some_and(|phase| phase.stop.time_ns.is_none());
        let budget_ns =
            if counted { left.unreserved_ns() } else { left.left_ns.min((left.share_ns() * 4).max(time_ns)) };
        let enough_ns = PHASE_NS_MIN.min(self.plan.phase_time_ns);
        (time_ns >= enough_ns).then_some((time_ns, budget_ns))
    }

    /// Returns the time of the next phase. Shortens that of the first one, so that a reader sees a row soon, but not
    /// below the preset's shortest time. Long tests, and those of a plan without `precision_goal`, keep their time.
    fn first_row(&self, time_ns: u64) -> u64 {
        let is_short = time_ns < FIRST_ROW.as_nanos() as u64;
        match &self.plan.precision_goal {
            Some(precision_goal) if self.phases.is_empty() && is_short => {
                let left = FIRST_ROW.saturating_sub(self.since.elapsed());
                time_ns.min((left.as_nanos() as u64).max(precision_goal.time_min_ns))
            }
            _ => time_ns,
        }
    }

    fn phase(
        &mut self,
        side: &mut dyn Side,
        phase: &PlannedPhase,
        index: usize,
        repetition: u32,
        budget: (u64, u64),
    ) -> PhaseRecord {
        let (time_ns, budget_ns) = budget;
        let next = self
            .plan
            .phases
            .get(index + 1)
            .map(|next| format!("{} {}", next.workload.name(), self.plan.label_of(next)));
        let position = Position {
            phase,
            index: index + 1,
            of: self.plan.phases.len(),
            next: next.as_deref(),
            planned_ns: time_ns,
            left_ns: (self.plan.estimate_ns)
                .saturating_sub(self.since.elapsed().as_nanos() as u64)
                .max(time_ns),
        };
        self.view.begin();
        let (view, monitor, marks) = (&mut self.view, &mut self.monitor, &mut self.marks);
        let (observer, mut lost) = (&mut self.observer, None);
        let interruption = &self.interruption;
        let (id, spec) = (run::record_id(phase, repetition), spec::print(&phase.workload));
        let order = TestOrder::new(index as u32, repetition, Time { measured_ns: time_ns, budget_ns });
        let PhaseOutcome { mut record, clients } = side.phase(phase, &order, &mut |event| match event {
            PhaseEvent::Begin(_) => {
                monitor.iter_mut().for_each(|monitor| monitor.begin(&id, &spec));
                observer.iter_mut().for_each(|observer| observer.starts());
                marks.begin(&id, &spec);
            }
            PhaseEvent::Tick(tick) => {
                view.update(&position, tick);
                if let Some(Err(failure)) = observer.as_mut().map(|observer| observer.moves(tick)) {
                    // Nobody would see further results.
                    interruption.raised.store(true, Ordering::SeqCst);
                    (*observer, lost) = (None, Some(failure));
                }
                monitor.iter_mut().for_each(Monitor::watch);
            }
            PhaseEvent::End => marks.end(&id, &spec),
            PhaseEvent::Over => monitor.iter_mut().for_each(Monitor::end),
        });
        lost.into_iter().for_each(|failure| self.drop_observer(failure));
        if let Some((ran, warnings)) = self.monitor.as_mut().map(Monitor::take) {
            record.seen.monitor = ran;
            warnings.into_iter().for_each(|warning| self.warn(warning));
        }
        record.figures.own_cost_ns_per_op = self.ceilings.own_cost_ns(&record);
        record.figures.ceiling_shares = self.ceilings.shares(&record, self.cpus);
        record.figures.prediction_interval = self.earlier.next_after(&record);
        record.figures.rates_elsewhere = self.earlier.elsewhere(&record);
        self.judge_clients(&mut record, clients);
        judge::judge(&mut record, &self.plan, &self.environment, self.target_probes.as_ref());
        wording::fill(&mut record);
        record
    }

    /// Judges each client by its own evidence, on its own machine.
    fn judge_clients(&self, record: &mut PhaseRecord, clients: Vec<(usize, PhaseRecord)>) {
        for (number, mut own) in clients {
            let share = record.hosts.iter_mut().find(|share| share.client as usize == number);
            let (Some(share), Some(host)) = (share, self.hosts.get(number)) else { continue };
            judge::judge(&mut own, &self.plan, &host.environment, None);
            wording::fill(&mut own);
            share.judged = own.judged;
        }
    }

    /// Repeats a direct test once if the device does not confirm its bytes, and if time and the write limit allow it.
    fn repeat_unconfirmed(
        &mut self,
        side: &mut dyn Side,
        phase: &PlannedPhase,
        index: usize,
        repetition: u32,
        budget: (u64, u64),
        first: PhaseRecord,
    ) -> PhaseRecord {
        // A test with zones reads each once, as was asked for. One with rounds was repeated already.
        let is_zoned = !first.figures.zones.is_empty() || first.figures.until_steady.is_some();
        let Some(before) = judge::disagreement(&first, phase).filter(|_| !is_zoned) else { return first };
        let later = u64::from(self.plan.repetitions - repetition);
        let phases = (self.plan.phases.len() - index) as u64 + later * self.plan.phases.len() as u64;
        let others = self.plan.phase_time_ns.saturating_mul(phases);
        let has_time = self.left_ns() > others.saturating_add(budget.0);
        let has_bytes = first.counts.app_bytes_written == 0
            || self.plan.remaining_bytes_max(index, repetition) <= side.left_bytes();
        // A difference of half the bytes is no accident: the file system does not do direct I/O.
        let may_agree = before < 0.5 && first.status == Status::Done;
        if !(has_time && has_bytes && may_agree) || self.interruption.is_raised() {
            return first;
        }
        let mut second = self.phase(side, phase, index, repetition, budget);
        if is_damaged(&second) {
            return second;
        }
        if let Some(reason) = second.reason.take_if(|_| second.status == Status::Failed) {
            self.fail(&UserError::new(format!("measure {} again", phase.id), reason));
            return first;
        }
        if judge::disagreement(&second, phase).is_some_and(|after| after >= before)
            || second.status != Status::Done
        {
            return first;
        }
        second
            .judged
            .notes
            .insert(0, wording::note(Finding::MeasuredTwice { difference: Share(before) }, []));
        second
    }

    /// Calls the audience, if there is one that still listens.
    fn report(&mut self, send: impl FnOnce(&mut dyn RunObserver, &Self) -> Result<(), Failure>) {
        let Some(mut observer) = self.observer.take() else { return };
        match send(&mut *observer, self) {
            Ok(()) => self.observer = Some(observer),
            Err(failure) => self.drop_observer(failure),
        }
    }

    /// Goes on without the audience, which cannot be reached any more.
    fn drop_observer(&mut self, failure: Failure) {
        match failure {
            // The reader has gone: end quietly, but clean up first.
            Failure::ReaderGone => self.interruption.reader_is_gone(),
            Failure::Failed(message) | Failure::Refused(message) | Failure::Ended(message, _) => {
                self.has_failed = true;
                self.warn(message);
            }
        }
    }

    fn into_run(mut self, pairing: Option<Pairing>, left: Vec<String>) -> RunOutcome {
        for phase in &mut self.phases {
            phase.handle = Some(report::slug::from_phase(phase));
        }
        let planned = self.plan.phases.len() * self.plan.repetitions as usize;
        let ran = self.phases.iter().filter(|phase| phase.status == Status::Done).count();
        let telemetry_cpu_share = self.measuring_since.map(|(since, cpu_before_seconds)| {
            (own_cpu_seconds() - cpu_before_seconds) / since.elapsed().as_secs_f64().max(1e-9)
        });
        let costs = || {
            self.phases
                .iter()
                .filter_map(|phase| Some((phase.figures.own_cost_ns_per_op?, phase.counts.ops as f64)))
        };
        let ops: f64 = costs().map(|(_, ops)| ops).sum();
        let overhead_ns_per_op =
            (ops > 0.0).then(|| costs().map(|(cost_ns, ops)| cost_ns * ops).sum::<f64>() / ops);
        let preset = self.plan.preset.clone();
        let run = Run {
            schema: SCHEMA.into(),
            skye_version: env!("CARGO_PKG_VERSION").into(),
            skye_build: Some(version::FULL.into()),
            skye_libc: Some(engine::c_library::name()),
            started_at: self.started_at,
            finished_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            run_status: if ran == planned { RunStatus::Complete } else { RunStatus::Partial },
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            label: self.plan.label.clone(),
            pairing,
            percentiles: Vec::new(),
            seed: self.seed,
            plan: self.plan,
            environment: self.environment,
            hosts: self.hosts,
            scores: Scores::from_phases(&preset, &self.phases),
            phases: self.phases,
            fills: self.fills,
            target_probes: self.target_probes,
            ceilings: self.ceilings.to_document(),
            tool: Tool {
                overhead_ns_per_op,
                // The thread that runs this function observes, collects and draws, and does nothing else.
                telemetry_cpu_share,
                clock_read_ns: self.clock_read_ns,
                warnings: self.warnings,
            },
        };
        RunOutcome {
            run,
            interruption: self.interruption,
            monitor: self.monitor,
            has_failed: self.has_failed,
            left,
            is_closing: self.is_closing,
            is_quiet: self.is_quiet,
        }
    }
}

/// Returns the record of a phase that was not tried.
fn skipped(phase: &PlannedPhase, repetition: u32, reason: &str) -> PhaseRecord {
    Session::untried(phase, repetition, Status::Skipped, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_test_times_take_priority_over_experiments() {
        let time =
            |left_ns| TimeLeft { left_ns, experiments_ns: 8, weights: 18, others: 8 }.next_test_ns(6, 2);
        assert_eq!(time(80), 6);
        assert_eq!(time(20), 2, "before experiments");
        assert_eq!(time(17), 1);
        assert_eq!(time(10), 0);
    }
}
