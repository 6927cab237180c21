//! `skye agent`: a client of a run, which another skye has started and drives over standard input and output.
//!
//! An agent is a session like any other: it plans for itself, with the same refusals, limits and removals. Its command
//! line sets its directory and its limits, and no frame raises them. However it ends, it removes what it created.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::clock::{Clock, Monotonic};
use fleet::agent::Wire;
use model::frames::{FromAgent, Measured, SLICE_NS, Slice, ToAgent};
use model::marker::is_work_directory;
use model::order::{LayoutOrder, TestOrder};
use model::plan::{self, Clients};
use model::size::Size;
use model::{Machine, Plan, Request, UserError};
use observe::Root;
use run::{
    ClientOptions, CreateError, LayoutProgress, PhaseEvent, PhaseOutcome, Session, SessionOptions, Side as _,
    StartSignal, Watch, hang_detection, sum,
};

use crate::cli::AgentArguments;
use crate::exit::{self, Failure};
use crate::place::ResolvedTarget;
use crate::signals::{self, Interruption};
use crate::{CommandResult, closing, doctor, driver, simulation};

/// Interval between checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The same while the agent is idle: a thousand agents may run on one machine.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// Sampling interval of a monitored machine.
const WATCH: Duration = Duration::from_millis(20);
/// Longest time until an agreed instant.
const LEAD_NS_MAX: u64 = 60_000_000_000;
/// Time before the instant at which the threads of a test begin to wait for it. They do not check for signals.
const HANDOVER_NS: u64 = 500_000_000;
/// Maximum number of work directories that an agent lists.
const NEIGHBOURS_MAX: usize = 10_000;
/// Slices of one tick: those of a second.
const SLICES: usize = (1_000_000_000 / SLICE_NS) as usize;

/// Serves one coordinator, and ends with it.
pub fn agent(arguments: &AgentArguments) -> CommandResult {
    arguments.hang_timeout.into_iter().for_each(hang_detection::set_limit);
    let interruption = Interruption::catch()?;
    let raised = interruption.raised.clone();
    let is_ended = || signals::was_ended_before(Duration::ZERO);
    let wire = Wire::open(env!("CARGO_PKG_VERSION"), arguments.here, raised, is_ended);
    let wire = wire.map_err(|error| match interruption.exit_code() {
        Some(code) => Failure::Ended(interruption.reason(), code),
        None => Failure::refused(error),
    })?;
    let root = Root::system();
    let machine = driver::machine(&root);
    let mut agent = Agent {
        arguments,
        wire,
        interruption,
        machine,
        place: None,
        plan: None,
        session: None,
        seed: 0,
        root,
    };
    let found = ResolvedTarget::find(&agent.root, &agent.machine, &arguments.dir);
    let ended = match found {
        Ok(place) => agent.serve(place),
        Err(error) => {
            agent.refuse(error);
            while agent.next().is_some_and(|command| command != ToAgent::Close {}) {}
            true
        }
    };
    let left = agent.close();
    if let Some(code) = agent.interruption.exit_code() {
        agent.wire.send(&FromAgent::Ended { reason: agent.interruption.reason() });
        return Ok(code);
    }
    Ok(if ended && left.is_empty() { exit::DONE } else { exit::FAILED })
}

/// An agent at work.
struct Agent<'a> {
    arguments: &'a AgentArguments,
    wire: Wire,
    interruption: Interruption,
    root: Root,
    machine: Machine,
    place: Option<ResolvedTarget>,
    plan: Option<Plan>,
    seed: u64,
    session: Option<Session>,
}

impl Agent<'_> {
    /// Returns the next command; `None` if the coordinator has gone, or if a signal ends this agent.
    fn next(&self) -> Option<ToAgent> {
        while self.interruption.exit_code().is_none() {
            match self.wire.next_within(IDLE_INTERVAL) {
                Ok(None) => {}
                Ok(command) => return command,
                Err(fleet::agent::ConnectionLost) => return None,
            }
        }
        None
    }

    /// Carries out commands until the last; false if the coordinator has gone before, or a signal has ended this agent.
    fn serve(&mut self, place: ResolvedTarget) -> bool {
        let environment = Box::new(place.environment.clone());
        self.place = Some(place);
        let machine = Box::new(self.machine.clone());
        self.wire.send(&FromAgent::MachineAndTarget { machine, environment, process: std::process::id() });
        while let Some(command) = self.next() {
            let answer = match command {
                ToAgent::Plan { request, seed, number, count, clients_on_file_system } => {
                    self.seed = seed;
                    self.plan(*request, Clients { count, number: Some(number), clients_on_file_system })
                }
                ToAgent::Look {} => self.check_machine(),
                ToAgent::Open { processes, clients_per_machine } => self.open(processes, clients_per_machine),
                ToAgent::Neighbours {} => self.neighbours(),
                ToAgent::LayOut(order) => self.lay_out(&order),
                ToAgent::Clear {} => self.clear(),
                ToAgent::Watch { at_ns } => self.watch(at_ns),
                ToAgent::Phase(order) => self.phase(&order),
                ToAgent::Close {} => {
                    let left = self.close();
                    self.wire.send(&FromAgent::Closed { left });
                    return true;
                }
                // A part that was ready has ended meanwhile, or the wire has carried it out.
                ToAgent::Start { .. }
                | ToAgent::Watched {}
                | ToAgent::Beat {}
                | ToAgent::Ping { .. }
                | ToAgent::EndTest {}
                | ToAgent::Interrupt {} => continue,
            };
            match answer {
                Ok(frame) => self.wire.send(&frame),
                // It is no fault of the target, and the last frame tells it.
                Err(_) if self.interruption.exit_code().is_some() => {}
                Err(error) if self.session.is_none() => self.refuse(error),
                Err(error) => self.wire.send(&FromAgent::Failed { error, is_refusal: false }),
            }
        }
        false
    }

    fn refuse(&self, error: UserError) {
        self.wire.send(&FromAgent::Failed { error, is_refusal: true });
    }

    /// Plans the request for this target, within the limits of the command line.
    fn plan(&mut self, request: Request, clients: Clients) -> Result<FromAgent, UserError> {
        let place = self.place.as_ref().ok_or_else(|| unexpected("plan the run"))?;
        if self.session.is_some() {
            return Err(unexpected("plan the run"));
        }
        if let Some(number) = clients.number.filter(|number| *number >= clients.count) {
            let cause = format!("client number {number} is too large for {} clients", clients.count);
            return Err(UserError::new("plan the run", cause));
        }
        let target = place.target();
        let request = within_limits(request, clients.count, self.arguments, target, &self.machine)?;
        let plan = plan::plan_for(&request, target, &self.machine, Some(clients))?;
        self.plan = Some(plan.clone());
        Ok(FromAgent::Planned { plan: Box::new(plan) })
    }

    fn check_machine(&mut self) -> Result<FromAgent, UserError> {
        let place = self.place.as_ref().ok_or_else(|| unexpected("inspect the machine"))?;
        let checks = doctor::checks(&self.root, &self.machine, place.target(), &self.arguments.dir);
        let checks = checks.map_err(|cause| UserError::new("inspect the machine", cause))?;
        Ok(FromAgent::MachineChecked { checks })
    }

    /// Returns the names of all work directories in its directory.
    fn neighbours(&self) -> Result<FromAgent, UserError> {
        let action = "list its directory";
        if simulation::is_named(&self.arguments.dir) {
            return Ok(FromAgent::Neighbours { names: Vec::new() });
        }
        let entries =
            std::fs::read_dir(&self.arguments.dir).map_err(|error| UserError::new(action, error))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let ours = names.filter(|name| is_work_directory(name.as_encoded_bytes()));
        let names = ours.filter_map(|name| name.into_string().ok()).take(NEIGHBOURS_MAX).collect();
        Ok(FromAgent::Neighbours { names })
    }

    fn open(
        &mut self,
        processes: Option<Vec<u32>>,
        clients_per_machine: u32,
    ) -> Result<FromAgent, UserError> {
        let (Some(place), Some(plan), None) = (&self.place, &self.plan, &self.session) else {
            return Err(unexpected("create the work directory"));
        };
        let (run, enough) = (self.wire.session().to_owned(), self.wire.enough());
        let options = SessionOptions {
            seed: self.seed,
            interrupt: self.interruption.raised.clone(),
            write_limit_bytes: Some(write_limit_bytes(self.arguments, place.target(), &self.machine)),
            client: Some(ClientOptions { run, enough, processes, clients_per_machine }),
            ..SessionOptions::default()
        };
        let session = place.open(&self.root, plan, options);
        let session = session.map_err(|CreateError { error, .. }| error)?;
        let hidden_sources = session.hidden_sources().to_vec();
        let clock_read_ns = session.clock_read_ns();
        let name = session.path().and_then(std::path::Path::file_name);
        let work_directory_name = name.map_or(String::new(), |name| name.to_string_lossy().into_owned());
        self.session = Some(session);
        Ok(FromAgent::Opened { hidden_sources, clock_read_ns, work_directory_name })
    }

    fn session(&mut self, action: &str) -> Result<&mut Session, UserError> {
        self.session.as_mut().ok_or_else(|| unexpected(action))
    }

    fn lay_out(&mut self, order: &LayoutOrder) -> Result<FromAgent, UserError> {
        let progress = LayoutProgress::default();
        self.session("lay out files")?.lay_out(order, &progress)?;
        Ok(FromAgent::LaidOut { bytes: progress.bytes.load(Ordering::Relaxed) })
    }

    fn clear(&mut self) -> Result<FromAgent, UserError> {
        self.session("remove files")?.clear()?;
        Ok(FromAgent::Cleared {})
    }

    /// Runs a test, perhaps on what another client wrote. Before each measured part, it waits for the others.
    fn phase(&mut self, order: &TestOrder) -> Result<FromAgent, UserError> {
        let action = "run a test";
        let phase = self.plan.as_ref().and_then(|plan| plan.phases.get(order.index as usize)).cloned();
        let phase = phase.ok_or_else(|| UserError::new(action, "the test is not in the plan"))?;
        let Self { session, wire, interruption, .. } = self;
        let session = session.as_mut().ok_or_else(|| unexpected(action))?;
        wire.enough().store(false, Ordering::SeqCst);
        let mut slices = Vec::with_capacity(SLICES);
        let send = |slices: &mut Vec<Slice>| {
            if !slices.is_empty() {
                wire.send(&FromAgent::Tick { slices: std::mem::take(slices) });
            }
        };
        let PhaseOutcome { record, .. } = session.phase(&phase, order, &mut |event| match event {
            PhaseEvent::Begin(start_signal) => *start_signal = wait_to_begin(wire, interruption),
            PhaseEvent::Tick(tick) => {
                slices.push(Slice { elapsed_ns: tick.elapsed_ns, ops: tick.ops, bytes: tick.bytes });
                if slices.len() >= SLICES {
                    send(&mut slices);
                }
            }
            PhaseEvent::End => {}
            PhaseEvent::Over => send(&mut slices),
        });
        let figures = &record.figures;
        let measured = Measured {
            start_ns: session.start_ns() + record.counts.start_ns,
            latencies: sum::buckets(figures.histogram.as_deref()),
            steps: figures.steps.iter().map(|step| sum::buckets(step.histogram.as_deref())).collect(),
            left_bytes: session.left_bytes(),
            names_unknown: session.has_unknown_names(),
            record,
        };
        Ok(FromAgent::Measured(Box::new(measured)))
    }

    /// Samples the machine from `at_ns` until the coordinator requests the result.
    fn watch(&mut self, at_ns: u64) -> Result<FromAgent, UserError> {
        let action = "sample this machine";
        let place = self.place.as_ref().ok_or_else(|| unexpected(action))?;
        let mut watch = None;
        loop {
            let now_ns = Monotonic.now_ns();
            let pause = match &mut watch {
                None if now_ns < at_ns => WATCH.min(Duration::from_nanos(at_ns - now_ns)),
                None => {
                    watch = Some(Watch::begin(&self.root, place.target()));
                    WATCH
                }
                Some(watch) => {
                    watch.sample();
                    WATCH
                }
            };
            match self.wire.next_within(pause) {
                Ok(None) => {}
                Ok(Some(ToAgent::Watched {})) => break,
                Ok(Some(_)) | Err(fleet::agent::ConnectionLost) => return Err(unexpected(action)),
            }
            if self.interruption.is_raised() {
                break;
            }
        }
        let watch = watch.unwrap_or_else(|| Watch::begin(&self.root, place.target()));
        Ok(FromAgent::Watched(Box::new(watch.end(&self.machine))))
    }

    /// Removes everything. Returns lines about files that are left.
    fn close(&mut self) -> Vec<String> {
        match self.session.take().and_then(|session| Box::new(session).close().removal) {
            None => Vec::new(),
            Some(removing) if hang_detection::first_hung_call().is_some() => {
                closing::later(removing);
                let directory = self.arguments.dir.display();
                vec![format!(
                    "its target hangs; remove its files with `skye clean {directory}` when it responds again"
                )]
            }
            Some(removing) => closing::leftover_lines(removing.wait()),
        }
    }
}

/// Returns the error of a command that comes too early, too late or twice.
fn unexpected(action: &str) -> UserError {
    UserError::new(action, "the coordinator sent this command out of order")
}

/// Says that a measured part is ready, and waits for the order to begin it and then for its instant. A signal or the end
/// of the coordinator ends both waits.
fn wait_to_begin(wire: &Wire, interruption: &Interruption) -> StartSignal {
    let off = StartSignal { at_ns: None, is_cancelled: true };
    wire.send(&FromAgent::Ready {});
    let mut agreed_ns = None;
    while !interruption.is_raised() {
        let left_ns = agreed_ns.map(|at_ns: u64| at_ns.saturating_sub(Monotonic.now_ns()));
        let pause = match left_ns {
            Some(..=HANDOVER_NS) => return StartSignal { at_ns: agreed_ns, is_cancelled: false },
            Some(left_ns) => POLL_INTERVAL.min(Duration::from_nanos(left_ns - HANDOVER_NS)),
            None => POLL_INTERVAL,
        };
        match wire.next_within(pause) {
            Ok(Some(ToAgent::Start { at_ns })) if agreed_ns.is_none() => {
                let latest_ns = Monotonic.now_ns() + LEAD_NS_MAX;
                agreed_ns = at_ns.filter(|at_ns| *at_ns <= latest_ns);
                if agreed_ns.is_none() {
                    return off;
                }
            }
            Ok(_) => {}
            Err(fleet::agent::ConnectionLost) => return off,
        }
    }
    off
}

/// Returns the most bytes that the command line lets the agent write, in all frames together.
fn write_limit_bytes(arguments: &AgentArguments, target: &model::Target, machine: &Machine) -> u64 {
    let limit = arguments.write_limit.unwrap_or(Size::Bytes(plan::WRITE_LIMIT_BYTES));
    limit.resolve(target.space.free_bytes, machine.memory_bytes)
}

/// Returns a request that stays within the limits of the command line. The request has the bytes of all clients, and the
/// command line those of this one.
fn within_limits(
    request: Request,
    clients: u32,
    arguments: &AgentArguments,
    target: &model::Target,
    machine: &Machine,
) -> Result<Request, UserError> {
    if let Some(more) = request.allow.iter().find(|allow| !arguments.allow.contains(allow)) {
        return Err(UserError::new(
            "plan the run",
            format!("--allow {more} is not on the agent's command line"),
        ));
    }
    let limit = write_limit_bytes(arguments, target, machine).saturating_mul(u64::from(clients.max(1)));
    let bytes = |size: Size| size.resolve(target.space.free_bytes, machine.memory_bytes);
    let requested = request.write_limit.map_or(limit, bytes);
    Ok(Request { write_limit: Some(Size::Bytes(requested.min(limit))), ..request })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::request::Allow;

    #[test]
    fn frames_cannot_raise_agent_limits() {
        let temp = tempfile::tempdir().unwrap();
        let root = Root::system();
        let target = observe::target(&root, temp.path()).unwrap();
        let machine = observe::machine(&root);
        let arguments = AgentArguments {
            dir: temp.path().to_owned(),
            write_limit: Some(Size::Bytes(1000)),
            allow: vec![Allow::Busy],
            here: false,
            hang_timeout: None,
        };
        let limited = |request| within_limits(request, 1, &arguments, &target, &machine);
        let of = |size| Request { write_limit: size, ..Request::default() };
        for (requested, granted) in
            [(None, 1000), (Some(Size::Bytes(999)), 999), (Some(Size::Bytes(1001)), 1000)]
        {
            assert_eq!(limited(of(requested)).unwrap().write_limit, Some(Size::Bytes(granted)));
        }
        // The coordinator names the bytes of all clients.
        for (requested, granted) in [(2999, 2999), (3001, 3000)] {
            let request = of(Some(Size::Bytes(requested)));
            let shared = within_limits(request, 3, &arguments, &target, &machine).unwrap();
            assert_eq!(shared.write_limit, Some(Size::Bytes(granted)));
        }
        assert_eq!(write_limit_bytes(&arguments, &target, &machine), 1000);
        let allowing = |allow| limited(Request { allow: vec![allow], ..Request::default() });
        assert!(allowing(Allow::Busy).is_ok());
        let refused = allowing(Allow::LowSpace).unwrap_err().to_string();
        assert_eq!(refused, "cannot plan the run: --allow low-space is not on the agent's command line");
    }
}
