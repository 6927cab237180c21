//! `skye run`: plan, prepare, run phase after phase, save, report, and leave nothing behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use model::nearest;
use model::plan::{self, PlannedPhase};
use model::run::{
    Confidence, Environment, Mark, Note, PhaseRecord, Run, RunStatus, SCHEMA, Status, TargetProbes, Tool,
    Trust,
};
use model::size;
use model::target::Backing;
use model::workload::Engine;
use model::{Limiter, Machine, Plan, Trouble, spec};
use observe::Root;
use report::text::{self, Kind, Style, Widths};
use run::ceilings::Ceilings;
use run::{LayoutProgress, Moment, Session, Time};
use rustix::time::{ClockId, clock_gettime};

mod experiments;

use crate::Done;
use crate::beside::Beside;
use crate::cli::RunArguments;
use crate::exit::{self, Failure};
use crate::live_view::{LiveView, Position};
use crate::marks::Marks;
use crate::signals::Interruption;
use crate::{cli, outputs, preset, simulation, store, terminal};

/// How long the target is watched for others' I/O before anything is written.
const WATCH: Duration = Duration::from_millis(150);
/// Others' I/O above this rate is said before starting.
const BUSY_BYTES_PER_SECOND: u64 = 5_000_000;
/// How long each of our own limits is measured, at most.
const CEILING_TIME: Duration = Duration::from_millis(100);
/// Kept for cleaning up within the total time.
const CLEANING: Duration = Duration::from_secs(2);
/// A phase that would get less than this is not begun.
const PHASE_NS_MIN: u64 = 200_000_000;

/// Measures.
pub fn run(arguments: &RunArguments) -> Done {
    let started = Instant::now();
    let started_at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let request = match (&arguments.preset, arguments.test.is_empty()) {
        (Some(name), _) => arguments.request().over(preset::load(name)?),
        (None, true) => arguments.request().over(preset::load(preset::DEFAULT)?),
        (None, false) => arguments.request(),
    };
    let on_stdout =
        [&arguments.json, &arguments.csv].into_iter().flatten().filter(|path| outputs::is_stdout(path));
    if on_stdout.count() > 1 {
        return Err(Failure::Refused(
            "cannot print both JSON and CSV on stdout: give one of them a file".into(),
        ));
    }
    let seed = request.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let style = terminal::style();
    let shows_text = !arguments.dry_run
        && ![&arguments.json, &arguments.csv].into_iter().flatten().any(|path| outputs::is_stdout(path));
    let root = Root::system();
    let machine = Machine { io_uring_refused: engine::uring::refusal(), ..observe::machine(&root) };
    let (device, target) = match simulation::target(&arguments.target)? {
        Some((device, target)) => (Some(device), target),
        None => {
            (None, observe::target(&root, &arguments.target).map_err(|trouble| mistyped(arguments, trouble))?)
        }
    };
    let plan = plan::plan(&request, &target, &machine).map_err(Failure::refused)?;
    let environment = Environment::new(&machine, target, observe::settings(&root), Vec::new());
    if arguments.dry_run {
        terminal::print_bytes(text::dry_run(&plan, &environment).as_bytes())?;
        return Ok(exit::DONE);
    }
    for file in [&arguments.json, &arguments.csv].into_iter().flatten() {
        outputs::check(file)?;
    }
    if let Some(directory) = &arguments.output {
        outputs::check_directory(directory)?;
    }
    Beside::check(arguments, &plan)?;
    if shows_text && !arguments.quiet {
        let title = text::title(
            env!("CARGO_PKG_VERSION"),
            &plan.preset,
            seed,
            &machine.host,
            &started_at,
            plan.label.as_deref(),
            &style,
        );
        terminal::print_line(&format!("{title}\n"))?;
    }
    let interruption = Interruption::catch().map_err(|error| {
        Failure::Failed(format!("cannot catch signals: {error}; too many processes or threads?"))
    })?;
    let beside = Beside::prepare(arguments, &environment, &started_at, &interruption)?;
    let (target, raised) = (&environment.target, interruption.raised.clone());
    let mut session = match device {
        Some(device) => Session::simulated(&plan, target, device, seed, raised),
        None => Session::open(&root, &plan, target, seed, raised).map_err(Failure::refused)?,
    };
    session.set_stdio_program(cli::stdio_program());
    // What is hidden is known by now, and nothing has been written but an empty directory.
    let environment = Environment { hidden_sources: session.hidden_sources().to_vec(), ..environment };
    if shows_text && !arguments.quiet {
        terminal::print_line(&format!("{}\n", text::preamble(&plan, &environment, &style)))?;
    }
    session.set_observed(!arguments.unobserved);
    let mut driver = Driver {
        started,
        interruption,
        view: LiveView::new(arguments.quiet, style),
        style,
        shows_text,
        quiet: arguments.quiet,
        deadline: started + Duration::from_nanos(plan.total_ns),
        written_bytes: 0,
        last_kind: None,
        phases: Vec::new(),
        warnings: Vec::new(),
        ceilings: Ceilings::default(),
        measuring_since: None,
        cpus: machine.cpus,
        clock_read_ns: None,
        failed: false,
        target_probes: None,
        beside,
        marks: Marks::open(),
        environment,
        plan,
    };
    driver.warn_if_busy(&root);
    driver.find_ceilings(&root, &machine);
    let left = driver.measure(session);
    let run = driver.into_run(seed, started_at);
    finish(arguments, run, left, &style, shows_text)
}

/// A word that is no directory may be a mistyped command.
fn mistyped(arguments: &RunArguments, trouble: Trouble) -> Failure {
    let word = arguments.target.to_string_lossy();
    let near = nearest(&word, ["report", "list", "doctor", "clean", "completions", "man"])
        .filter(|_| !arguments.target.exists());
    match near {
        Some(command) => Failure::Refused(format!("{trouble}; or did you mean `skye {command}`?")),
        None => Failure::refused(trouble),
    }
}

struct Driver {
    started: Instant,
    interruption: Interruption,
    view: LiveView,
    style: Style,
    shows_text: bool,
    quiet: bool,
    deadline: Instant,
    written_bytes: u64,
    last_kind: Option<Kind>,
    phases: Vec<PhaseRecord>,
    warnings: Vec<String>,
    ceilings: Ceilings,
    /// When the data set and the tests began, and what CPU time this thread had taken by then.
    measuring_since: Option<(Instant, f64)>,
    cpus: u32,
    clock_read_ns: Option<f64>,
    /// Something besides a phase failed.
    failed: bool,
    /// What was found out about the target before the first test.
    target_probes: Option<TargetProbes>,
    /// The user's command beside each test.
    beside: Option<Beside>,
    marks: Marks,
    environment: Environment,
    plan: Plan,
}

/// What a run leaves to be told: the document, and how it ended.
struct Ended {
    run: Run,
    interruption: Interruption,
    beside: Option<Beside>,
    failed: bool,
    quiet: bool,
    started: Instant,
}

/// Whether a test read what was not written.
fn is_damaged(phase: &PhaseRecord) -> bool {
    phase.notes.iter().any(|note| note.code == "verification_failed")
}

/// Whether a number is not the speed of this storage.
fn is_invalid(phase: &PhaseRecord) -> bool {
    phase.verdict.as_ref().is_some_and(|verdict| verdict.trust == Trust::Invalid)
}

/// CPU time that this thread has taken.
fn own_cpu_seconds() -> f64 {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

impl Driver {
    fn warn(&mut self, message: String) {
        if !self.quiet {
            self.view.above(|| terminal::message("warning", &message));
        }
        self.warnings.push(message);
    }

    fn warn_if_busy(&mut self, root: &Root) {
        let top = self.environment.target.top_device().filter(|_| !self.plan.allow_busy);
        let Some(device) = top.cloned() else { return };
        self.view.preparing(&format!("watching {} for others' I/O", device.name));
        let Some(traffic) = observe::idle_traffic(root, &device, WATCH) else { return };
        let rate = (traffic.read_bytes + traffic.written_bytes).saturating_mul(1_000_000_000)
            / traffic.length_ns.max(1);
        if rate > BUSY_BYTES_PER_SECOND {
            self.warn(format!(
                "{} is busy: others move {}/s on it, so numbers will be lower and less steady; run it when it is quiet, or add --allow busy",
                device.name,
                size::decimal(rate)
            ));
        }
    }

    /// Finds out what skye and the calls themselves cost here, for a fraction of a second each.
    fn find_ceilings(&mut self, root: &Root, machine: &Machine) {
        if self.environment.target.backing == Backing::Simulated {
            return;
        }
        self.view.preparing("finding out what skye itself costs");
        // A test that takes no longer than this should not wait longer for it.
        let time = Duration::from_nanos(self.plan.phase_time_ns / 20).min(CEILING_TIME);
        self.ceilings = Ceilings::measure(root, &self.plan, machine, time, &self.interruption.raised);
    }

    /// Runs everything and removes it again; gives what could not be removed.
    fn measure(&mut self, mut session: Session) -> Vec<String> {
        self.measuring_since = Some((Instant::now(), own_cpu_seconds()));
        for repetition in 1..=self.plan.repetitions {
            if self.interruption.is_raised() {
                break;
            }
            if let Err(trouble) = self.lay_out(&mut session) {
                if !self.interruption.is_raised() {
                    self.fail(&trouble);
                }
                break;
            }
            if repetition == 1 && !self.interruption.is_raised() {
                self.view.preparing("looking below this system");
                self.target_probes = session.probe_target();
                let probe = self.target_probes.as_ref().and_then(|probes| probes.compressible.as_ref());
                self.written_bytes += probe.map_or(0, |probe| probe.bytes);
            }
            self.repetition(&mut session, repetition);
        }
        let before = self.limiters();
        self.experiment(&mut session);
        self.show_judged_later(&before);
        self.clock_read_ns = Some(session.clock_read_ns());
        self.view.preparing("removing files");
        let path = session.path().map(Path::to_owned).unwrap_or_default();
        let left = match session.close() {
            Ok(removal) => {
                let left = removal.left.into_iter();
                left.map(|(name, why)| format!("left {}: {why}", path.join(name).display())).collect()
            }
            Err(trouble) => vec![trouble.to_string()],
        };
        self.view.end();
        left
    }

    fn fail(&mut self, trouble: &Trouble) {
        self.failed = true;
        let message = trouble.to_string();
        self.view.above(|| terminal::error(&message));
        self.warnings.push(message);
    }

    fn lay_out(&mut self, session: &mut Session) -> Result<(), Trouble> {
        self.view.preparing("laying out files");
        let progress = LayoutProgress::default();
        let left = self.deadline.saturating_duration_since(Instant::now());
        session.lay_out(left.as_nanos() as u64, &progress)?;
        self.written_bytes += progress.bytes.load(std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn repetition(&mut self, session: &mut Session, repetition: u32) {
        let phases = self.plan.phases.clone();
        for (index, phase) in phases.iter().enumerate() {
            let rest = &phases[index..];
            let repetitions_left = u64::from(self.plan.repetitions - repetition);
            let record = match self.time_for(rest, &phases, repetitions_left) {
                _ if self.interruption.is_raised() => return,
                None => {
                    skipped(phase, repetition, "the run's total time is used up; give it more with --time")
                }
                Some(budget) => {
                    let record = self.phase(session, phase, index, repetition, budget);
                    self.agreeing(session, phase, index, repetition, budget, record)
                }
            };
            self.show(&record);
            self.phases.push(record);
            let goes_on = phases.get(index + 1).is_some_and(|next| next.group == phase.group);
            if phase.group.is_some() && !goes_on {
                self.name_knee(phase.group.as_deref(), repetition);
            }
        }
    }

    /// Notes on the row at which a sweep has its knee.
    fn name_knee(&mut self, group: Option<&str>, repetition: u32) {
        let is_point =
            |record: &PhaseRecord| record.group.as_deref() == group && record.repetition == repetition;
        let points: Vec<_> = self.phases.iter().filter(|record| is_point(record)).collect();
        let Some((index, note)) = run::knee(&points) else { return };
        if let Some(record) = self.phases.iter_mut().filter(|record| is_point(record)).nth(index) {
            record.notes.push(note);
        }
    }

    /// What is left of the run's total time, but for cleaning up.
    fn left_ns(&self) -> u64 {
        let left = self.deadline.saturating_duration_since(Instant::now()).saturating_sub(CLEANING);
        left.as_nanos() as u64
    }

    /// Measured time and total budget of the next phase: its share of what is left, files counting more for what
    /// they do untimed. `None` if that is too little.
    fn time_for(
        &self,
        rest: &[PlannedPhase],
        all: &[PlannedPhase],
        repetitions_left: u64,
    ) -> Option<(u64, u64)> {
        // On a virtual clock no test takes time from another.
        if rest.first().is_some_and(|phase| phase.engine == Engine::Sim) {
            return Some((self.plan.phase_time_ns, u64::MAX));
        }
        let weight = |phase: &PlannedPhase| if phase.workload.files().is_some() { 4 } else { 2 };
        let left_ns = self.left_ns().saturating_sub(self.plan.experiments_ns());
        let weights: u64 =
            rest.iter().map(weight).sum::<u64>() + repetitions_left * all.iter().map(weight).sum::<u64>();
        let share_ns = left_ns / weights.max(1);
        let time_ns = self.plan.phase_time_ns.min(share_ns * 2);
        // A phase that is counted, not timed, may take all that is left.
        let counted = rest.first().is_some_and(|phase| phase.stop.time_ns.is_none());
        let budget_ns = if counted { left_ns } else { left_ns.min(share_ns * 4) };
        let enough_ns = PHASE_NS_MIN.min(self.plan.phase_time_ns);
        (time_ns >= enough_ns).then_some((time_ns, budget_ns))
    }

    fn phase(
        &mut self,
        session: &mut Session,
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
            .map(|next| format!("{} {}", next.workload.name(), next.workload.label()));
        let position = Position {
            phase,
            index: index + 1,
            of: self.plan.phases.len(),
            next: next.as_deref(),
            planned_ns: time_ns,
            left_ns: (self.plan.estimate_ns)
                .saturating_sub(self.started.elapsed().as_nanos() as u64)
                .max(time_ns),
        };
        let untimed_bytes = session.untimed_bytes();
        self.view.begin();
        let (view, beside, marks) = (&mut self.view, &mut self.beside, &mut self.marks);
        let (id, spec) = (run::phase_id(phase, repetition), spec::print(&phase.workload));
        let time = Time { measured_ns: time_ns, budget_ns };
        let mut record = session.phase(phase, repetition, time, &mut |moment| match moment {
            Moment::Begin => {
                beside.iter_mut().for_each(|beside| beside.begin(&id, &spec));
                marks.begin(&id, &spec);
            }
            Moment::Tick(tick) => {
                view.update(&position, tick);
                beside.iter_mut().for_each(Beside::watch);
            }
            Moment::End => marks.end(&id, &spec),
            Moment::Over => beside.iter_mut().for_each(Beside::end),
        });
        if let Some((ran, warnings)) = self.beside.as_mut().map(Beside::take) {
            record.beside = ran;
            warnings.into_iter().for_each(|warning| self.warn(warning));
        }
        record.own_cost_ns_per_op = self.ceilings.own_cost_ns(&record);
        record.ceiling_shares = self.ceilings.shares(&record, self.cpus);
        self.written_bytes += record.app_bytes_written + session.untimed_bytes() - untimed_bytes;
        judge::judge(&mut record, &self.plan, &self.environment, self.target_probes.as_ref());
        record
    }

    /// Repeats a direct test once whose bytes the device does not confirm, where time and the write limit allow it.
    fn agreeing(
        &mut self,
        session: &mut Session,
        phase: &PlannedPhase,
        index: usize,
        repetition: u32,
        budget: (u64, u64),
        first: PhaseRecord,
    ) -> PhaseRecord {
        let Some(before) = judge::disagreement(&first, phase) else { return first };
        let later = u64::from(self.plan.repetitions - repetition);
        let phases = (self.plan.phases.len() - index) as u64 + later * self.plan.phases.len() as u64;
        let others = self.plan.phase_time_ns.saturating_mul(phases);
        let has_time = self.left_ns() > others.saturating_add(budget.0);
        let later_bytes = later * (self.plan.bytes_to_write_max / u64::from(self.plan.repetitions));
        let still_planned: u64 = self.plan.phases[index..].iter().filter_map(|p| p.stop.bytes).sum();
        let has_bytes = first.app_bytes_written == 0
            || self.written_bytes.saturating_add(still_planned).saturating_add(later_bytes)
                <= self.plan.write_limit_bytes;
        // Halves of the bytes are no accident: that is a file system that does not do it directly.
        let may_agree = before < 0.5 && first.status == Status::Done;
        if !(has_time && has_bytes && may_agree) || self.interruption.is_raised() {
            return first;
        }
        let mut second = self.phase(session, phase, index, repetition, budget);
        if is_damaged(&second) {
            return second;
        }
        if let Some(reason) = second.reason.take_if(|_| second.status == Status::Failed) {
            self.fail(&Trouble::new(format!("measure {} again", phase.id), reason));
            return first;
        }
        if judge::disagreement(&second, phase).is_some_and(|after| after >= before)
            || second.status != Status::Done
        {
            return first;
        }
        second.notes.push(Note {
            mark: Mark::Info,
            code: "repeated".into(),
            text: format!(
                "measured twice: the first time the device's bytes differed by {:.1} %",
                before * 100.0
            ),
        });
        second
    }

    fn show(&mut self, record: &PhaseRecord) {
        if !self.shows_text {
            return;
        }
        let kind = Kind::of(record);
        let widths = Widths::of_plan(&self.plan);
        let mut lines = Vec::new();
        if self.last_kind != Some(kind) {
            if self.last_kind.is_some() {
                lines.push(String::new());
            }
            lines.push(text::head(kind, &widths, &self.style));
            self.last_kind = Some(kind);
        } else if self.phases.last().is_some_and(|last| text::apart(last, record)) {
            lines.push(String::new());
        }
        lines.push(text::row(record, &widths, &self.style));
        self.print(&lines.join("\n"));
    }

    /// What limits each row, as it is known now, and how surely.
    fn limiters(&self) -> Vec<Option<(Option<Limiter>, Option<Confidence>)>> {
        let of =
            |phase: &PhaseRecord| Some((phase.verdict.as_ref()?.limiter, phase.verdict.as_ref()?.confidence));
        self.phases.iter().map(of).collect()
    }

    /// Tells of the rows that stand above already what is known better since.
    fn show_judged_later(&mut self, before: &[Option<(Option<Limiter>, Option<Confidence>)>]) {
        let after = self.limiters();
        let changed = self.phases.iter().zip(before.iter().zip(after)).filter(|(_, (was, is))| *was != is);
        let changed: Vec<_> = changed.map(|(phase, _)| phase).collect();
        if self.shows_text && !changed.is_empty() {
            let widths = Widths::of_plan(&self.plan);
            let later = text::judged_later(changed.into_iter(), &widths, &self.style);
            self.print(&format!("\n{later}"));
        }
    }

    /// Prints results above the live view.
    fn print(&mut self, lines: &str) {
        let printed = self.view.above(|| terminal::print_line(lines));
        if let Err(failure) = printed {
            self.shows_text = false;
            match failure {
                // Whoever read us has gone: end quietly, but clean up first.
                Failure::ReaderGone => self.interruption.reader_is_gone(),
                Failure::Failed(message) | Failure::Refused(message) => {
                    self.failed = true;
                    self.warn(message);
                }
            }
        }
    }

    fn into_run(self, seed: u64, started_at: String) -> Ended {
        let planned = self.plan.phases.len() * self.plan.repetitions as usize;
        let ran = self.phases.iter().filter(|phase| phase.status == Status::Done).count();
        let telemetry_cpu_share = self.measuring_since.map(|(since, cpu_before_seconds)| {
            (own_cpu_seconds() - cpu_before_seconds) / since.elapsed().as_secs_f64().max(1e-9)
        });
        let costs =
            || self.phases.iter().filter_map(|phase| Some((phase.own_cost_ns_per_op?, phase.ops as f64)));
        let ops: f64 = costs().map(|(_, ops)| ops).sum();
        let overhead_ns_per_op =
            (ops > 0.0).then(|| costs().map(|(cost_ns, ops)| cost_ns * ops).sum::<f64>() / ops);
        let run = Run {
            schema: SCHEMA.into(),
            skye_version: env!("CARGO_PKG_VERSION").into(),
            started_at,
            finished_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            run_status: if ran == planned { RunStatus::Complete } else { RunStatus::Partial },
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            label: self.plan.label.clone(),
            seed,
            plan: self.plan,
            environment: self.environment,
            phases: self.phases,
            target_probes: self.target_probes,
            ceilings: self.ceilings.to_document(),
            tool: Tool {
                overhead_ns_per_op,
                // The thread that runs this one observes, collects and draws, and does nothing else.
                telemetry_cpu_share,
                clock_read_ns: self.clock_read_ns,
                warnings: self.warnings,
            },
        };
        Ended {
            run,
            interruption: self.interruption,
            beside: self.beside,
            failed: self.failed,
            quiet: self.quiet,
            started: self.started,
        }
    }
}

/// The record of a phase that was not tried.
fn skipped(phase: &PlannedPhase, repetition: u32, reason: &str) -> PhaseRecord {
    Session::untried(phase, repetition, Status::Skipped, reason)
}

/// Saves, prints what is left to be said, and decides about the exit code.
fn finish(
    arguments: &RunArguments,
    ended: Ended,
    left: Vec<String>,
    style: &Style,
    shows_text: bool,
) -> Done {
    let Ended { run, interruption, beside, failed, quiet, started } = ended;
    let mut code = if failed
        || run.phases.iter().any(|phase| matches!(phase.status, Status::Failed | Status::Skipped))
    {
        exit::FAILED
    } else {
        exit::DONE
    };
    for problem in &left {
        terminal::error(problem);
        code = exit::FAILED;
    }
    if arguments.strict && code == exit::DONE && run.phases.iter().any(is_invalid) {
        code = exit::INVALID;
    }
    if run.phases.iter().any(is_damaged) {
        code = exit::DAMAGED;
    }
    let gone = interruption.exit_code() == Some(exit::DONE);
    for phase in run.phases.iter().filter(|phase| phase.status == Status::Failed) {
        let reason = phase.reason.as_deref().unwrap_or("no reason is known");
        terminal::error(&format!("{} {} failed: {reason}", phase.name, phase.label));
    }
    if interruption.is_raised() && !quiet && !gone {
        let files = if left.is_empty() { "its files are removed" } else { "some of its files are left" };
        terminal::message("skye", &format!("ended by SIG{}; {files}", interruption.name()));
    }
    let mut saved = None;
    // With nothing measured there is nothing to save; a second signal skips the saving, too.
    if !run.phases.is_empty() && !interruption.is_repeated() && !gone {
        match save(arguments, &run, beside.as_ref().map(Beside::document)) {
            Ok(path) => saved = path,
            Err(Saving::Optional(message)) if !quiet => terminal::message("warning", &message),
            Err(Saving::Optional(_)) => {}
            Err(Saving::AskedFor(message)) => {
                terminal::error(&message);
                code = exit::FAILED;
            }
        }
        match write_outputs(arguments, &run) {
            Err(Failure::ReaderGone) => return Ok(exit::DONE),
            Err(Failure::Failed(message) | Failure::Refused(message)) => {
                terminal::error(&message);
                code = exit::FAILED;
            }
            Ok(()) => {}
        }
    }
    if let Some(kept) = beside.as_ref().and_then(Beside::kept).filter(|_| saved.is_none() && !quiet && !gone)
    {
        terminal::message(
            "skye",
            &format!("what ran beside the tests has left its output in {}", kept.display()),
        );
    }
    if shows_text && !gone && !run.phases.is_empty() {
        let name = saved.as_ref().map(|path| match arguments.output {
            Some(_) => path.display().to_string(),
            None => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        });
        let notes = text::notes(&run.phases, style);
        let limits = text::limits(&run.phases, style);
        let footer = text::footer(&run, name.as_deref(), style);
        let parts: Vec<_> = [notes, limits, footer].into_iter().filter(|part| !part.is_empty()).collect();
        // A reader that has gone away misses nothing that is not saved.
        if let Err(Failure::Failed(message)) = terminal::print_line(&format!("\n{}", parts.join("\n\n"))) {
            terminal::error(&message);
            code = exit::FAILED;
        }
    }
    log::debug!("the whole took {:?}", started.elapsed());
    Ok(interruption.exit_code().unwrap_or(code))
}

/// Why a run was not saved.
enum Saving {
    /// In the store, which is a convenience: warn and go on.
    Optional(String),
    /// Where the user wanted it.
    AskedFor(String),
}

fn save(arguments: &RunArguments, run: &Run, reserved: Option<&Path>) -> Result<Option<PathBuf>, Saving> {
    if let Some(directory) = &arguments.output {
        let path =
            store::save(run, directory, reserved).map_err(|trouble| Saving::AskedFor(trouble.to_string()))?;
        let csv = path.with_extension("csv");
        let failed = |error: std::io::Error| {
            Saving::AskedFor(format!("cannot write {}: {error}; make room there", csv.display()))
        };
        store::write_whole(&csv, report::csv::write(run).as_bytes()).map_err(failed)?;
        return Ok(Some(path));
    }
    if !store::takes(&run.plan) {
        return Ok(None);
    }
    let Some(directory) = store::directory() else {
        let message = "the run is not saved: neither XDG_STATE_HOME nor HOME is set; use -o DIR or --json FILE to keep it";
        return Err(Saving::Optional(message.into()));
    };
    store::save(run, &directory, reserved).map(Some).map_err(|trouble| Saving::Optional(trouble.to_string()))
}

fn write_outputs(arguments: &RunArguments, run: &Run) -> Result<(), Failure> {
    if let Some(file) = &arguments.json {
        outputs::write(file, report::json::write(run).as_bytes())?;
    }
    if let Some(file) = &arguments.csv {
        outputs::write(file, report::csv::write(run).as_bytes())?;
    }
    Ok(())
}
