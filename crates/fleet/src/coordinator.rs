//! The coordinator's side of a run: its clients, from their first frame to their last.
//!
//! [`Fleet`] goes through the stages in their order: start, plan, open, lay out, tests, close. In each, it waits for
//! all clients and reports all refusals at once. The program plans, judges and prints.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::frames::{FromAgent, Hello, PROTOCOL, ToAgent};
use model::health::Check;
use model::hosts::ClientSpec;
use model::json::ToJson as _;
use model::plan::Plan;
use model::run::{ClockRecord, Environment, machine_of};
use model::{Machine, Request, UserError};

use crate::agent;
use crate::channel;
use crate::clock;
use crate::hub::Hub;
use crate::launch::Launcher;
use crate::link::{Event, NO_ANSWER, Peer};
use crate::observers::Observer;
use crate::ranks::{RankThread, Ranks};
use crate::send::Copy;
use crate::texts;
use crate::waiting::{self, Urgency, Wait};

/// Polling interval of the user's signals.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of checks of a machine: a doctor makes fewer than thirty.
const CHECKS_MAX: usize = 100;
/// Default directory of an observer.
const ROOT: &str = "/";

/// Rule for a client that is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// The run ends, with all that was measured.
    #[default]
    Stop,
    /// Later tests go on without it.
    Continue,
}

/// Receiver of a text about a client, by its name.
pub type ClientMessageSink = Box<dyn FnMut(&str, &str)>;

/// Clients of a run, by their numbers.
pub enum Clients {
    /// The hosts of a command line.
    Hosts(Vec<ClientSpec>),
    /// The ranks of the job that this process is rank 0 of.
    Ranks(Ranks),
}

impl Clients {
    /// Returns the number of clients.
    pub fn count(&self) -> usize {
        match self {
            Self::Hosts(hosts) => hosts.len(),
            Self::Ranks(ranks) => ranks.machines.len(),
        }
    }
}

/// Inputs of a run with several clients.
pub struct FleetOptions {
    /// The clients.
    pub clients: Clients,
    /// Machines to watch while the clients measure, each with the directory that it serves.
    pub observers: Vec<ClientSpec>,
    /// Most clients that may have been started and have not answered.
    pub start_at_once: usize,
    /// Way to start programs there.
    pub launcher: Launcher,
    /// True if hosts without skye get a copy of this program.
    pub sends_program: bool,
    /// Directory of clients that name none.
    pub directory: String,
    /// Arguments of each agent behind its directory.
    pub limits: Vec<String>,
    /// Version of this program.
    pub version: String,
    /// Rule for a client that is lost.
    pub on_loss: OnLoss,
    /// Flag that a signal raises.
    pub interrupt: Arc<AtomicBool>,
    /// Receiver of lines that clients write to their standard error, and of losses: the client's name, and the text.
    pub say: ClientMessageSink,
}

/// Machine and target of a client.
#[derive(Debug, Clone)]
pub struct ClientTarget {
    /// The machine.
    pub machine: Machine,
    /// Machine and target, as the document has them.
    pub environment: Environment,
    /// Version of the client's program.
    pub version: String,
}

/// State of a client's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It answers.
    Live,
    /// It has removed its files, and ended.
    Closed,
    /// It is lost, for this reason.
    Lost(String),
}

/// Way to the agent of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// This program has started it, on this machine.
    ThisMachine,
    /// A launcher has started it.
    Launched,
    /// Another rank of the job has started it.
    Rank,
}

/// One client.
pub struct Client {
    pub(crate) host: ClientSpec,
    pub(crate) name: String,
    pub(crate) directory: String,
    pub(crate) transport: Transport,
    pub(crate) state: State,
    pub(crate) found: Option<ClientTarget>,
    pub(crate) clock: Option<ClockRecord>,
    pub(crate) first_offset_ns: Option<i64>,
    hello: Option<Hello>,
    /// Last line of its standard error before it was greeted.
    last_line: Option<String>,
    /// Lines of its standard error that were not printed.
    pub(crate) omitted_lines: u64,
    /// True once files may exist there.
    pub(crate) may_have_files: bool,
    pub(crate) clock_read_ns: f64,
    /// Bytes that it may still write, by its last test.
    pub(crate) left_bytes: u64,
    /// Number of its process on its machine.
    process: u32,
    checks: Option<Vec<Check>>,
    /// Name of its work directory; empty before it is known.
    pub(crate) work_directory_name: String,
    neighbours: Vec<String>,
}

impl Client {
    fn new(host: ClientSpec, directory: String, transport: Transport) -> Self {
        Self {
            name: host.to_string(),
            host,
            directory,
            transport,
            state: State::Live,
            found: None,
            clock: None,
            first_offset_ns: None,
            hello: None,
            last_line: None,
            omitted_lines: 0,
            may_have_files: false,
            clock_read_ns: 0.0,
            left_bytes: u64::MAX,
            process: 0,
            checks: None,
            work_directory_name: String::new(),
            neighbours: Vec::new(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state == State::Live
    }
}

/// All clients of a run.
pub struct Fleet {
    pub(crate) hub: Hub,
    /// Thread with the messages of a job. It ends once the hub has closed all channels.
    pub(crate) ranks: Option<RankThread>,
    pub(crate) clients: Vec<Client>,
    pub(crate) observers: Vec<Observer>,
    pub(crate) launcher: Launcher,
    pub(crate) on_loss: OnLoss,
    pub(crate) interrupt: Arc<AtomicBool>,
    pub(crate) say: ClientMessageSink,
    pub(crate) plan: Option<Plan>,
    pub(crate) run_start_ns: u64,
    /// True if a client was lost whose loss ends the run.
    pub(crate) is_over: bool,
    /// True if all tests so far have ended well.
    pub(crate) is_sound: bool,
    /// True if a client does not know the names of the files that its tests have left.
    pub(crate) names_unknown: bool,
    /// Most clients that are started at once.
    pub(crate) start_at_once: usize,
    /// Urgency of the user's signals that the clients know of.
    pub(crate) applied_urgency: Urgency,
}

/// Clients and observers that are about to be started, and the ways to them.
struct Connections {
    /// The clients, then the observers.
    clients: Vec<Client>,
    ends: Vec<Peer>,
    /// Copy of this program for hosts without skye.
    copy: Option<Copy>,
    ranks: Option<RankThread>,
}

impl Connections {
    /// Takes the clients out of the options.
    ///
    /// # Errors
    /// The errors of all hosts for which there is no command.
    fn new(options: &mut FleetOptions, hello: &Hello) -> Result<Self, Vec<UserError>> {
        let clients = std::mem::replace(&mut options.clients, Clients::Hosts(Vec::new()));
        let FleetOptions { observers, launcher, sends_program, directory, limits, .. } = &*options;
        let (hosts, streams, ranks) = match clients {
            Clients::Hosts(hosts) => (hosts, Vec::new(), None),
            Clients::Ranks(Ranks { machines, streams, thread }) => {
                (model::hosts::from_machines(machines), streams, Some(thread))
            }
        };
        let is_job = ranks.is_some();
        let mut streams = streams.into_iter();
        let first_bytes = channel::encode(hello).map_or(0, |bytes| bytes.len());
        let mut launched = hosts.iter().filter(|_| !is_job).chain(observers);
        let is_away = launched.any(|host| !host.is_local());
        // A program that cannot be read is not sent.
        let copy =
            (*sends_program && is_away && launcher.is_ssh()).then(|| Copy::from_this_program(first_bytes));
        let copy = copy.and_then(Result::ok);
        let (mut ends, mut clients, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let count = hosts.len();
        for host in hosts.into_iter().chain(observers.iter().cloned()) {
            let is_observer = clients.len() >= count;
            let place = if is_observer { ROOT } else { directory };
            let directory = host.directory.clone().unwrap_or_else(|| place.to_owned());
            let transport = match (is_job && !is_observer, clients.len()) {
                (true, 1..) => Transport::Rank,
                (false, _) if !host.is_local() => Transport::Launched,
                _ => Transport::ThisMachine,
            };
            match transport {
                Transport::ThisMachine => {
                    ends.push(Peer::Local(launcher.here(&agent::local_agent_words(&directory, limits))));
                }
                Transport::Launched => {
                    match launcher.command(&host, &agent::words(&directory, limits), copy.as_ref()) {
                        Ok(command) => ends.push(Peer::Launched(command)),
                        Err(error) => errors.push(error),
                    }
                }
                Transport::Rank => ends.extend(streams.next().map(Peer::Rank)),
            }
            clients.push(Client::new(host, directory, transport));
        }
        errors.dedup();
        if errors.is_empty() { Ok(Self { clients, ends, copy, ranks }) } else { Err(errors) }
    }
}

/// Answer of a client to a stage.
pub(crate) type Reply<T> = Result<T, UserError>;

impl Fleet {
    /// Starts an agent for each client, and waits until all have named machine and target and shown their clocks.
    ///
    /// # Errors
    /// The errors of all clients that refuse or do not answer; none if a signal ended the wait. Nothing was written.
    pub fn start(mut options: FleetOptions) -> Result<Self, Vec<UserError>> {
        let hello = Hello::new(&options.version, &format!("{:016x}", fastrand::u64(..)));
        let Connections { clients, ends, copy, ranks } = Connections::new(&mut options, &hello)?;
        let hub = Hub::start(ends, options.start_at_once, &hello, copy.as_ref());
        let FleetOptions { observers, start_at_once, launcher, on_loss, interrupt, say, .. } = options;
        let count = clients.len() - observers.len();
        let mut fleet = Self {
            hub: hub.map_err(|error| vec![error])?,
            ranks,
            clients,
            observers: Vec::new(),
            launcher,
            on_loss,
            interrupt,
            say,
            plan: None,
            run_start_ns: agent::now_ns(),
            is_over: false,
            is_sound: true,
            names_unknown: false,
            start_at_once,
            applied_urgency: Urgency::None,
        };
        fleet.meet()?;
        fleet.align(clock::ROUND_TRIPS)?;
        fleet.observers = fleet.clients.split_off(count).into_iter().map(Observer::new).collect();
        Ok(fleet)
    }

    /// Waits until all clients have named machine and target.
    fn meet(&mut self) -> Result<(), Vec<UserError>> {
        // A client has its limit from its start on, and not all start at once.
        let started = Wait { limit: None, ..Wait::answer() };
        self.all("start skye", started, |client, frame| match frame {
            FromAgent::MachineAndTarget { machine, environment, process } => {
                client.process = process;
                let version = client.hello.as_ref().map(|hello| hello.version.clone()).unwrap_or_default();
                client.found = Some(ClientTarget { machine: *machine, environment: *environment, version });
                Some(Ok(()))
            }
            _ => None,
        })
    }

    /// Returns the number of clients on each client's machine. Lost ones count: their processes may still run.
    fn clients_per_machine(&self) -> Vec<u32> {
        let machine = |client: &Client| machine_of(&client.name).to_owned();
        let mut here: HashMap<String, u32> = HashMap::new();
        self.clients.iter().for_each(|client| *here.entry(machine(client)).or_default() += 1);
        self.clients.iter().map(|client| here[&machine(client)]).collect()
    }

    /// Returns how many clients share a CPU of each client's machine.
    pub(crate) fn clients_per_cpu(&self) -> Vec<u32> {
        let cpus =
            |client: &Client| client.found.as_ref().map_or(1, |found| found.machine.cpus_online.max(1));
        let clients = self.clients.iter().zip(self.clients_per_machine());
        clients.map(|(client, here)| here.div_ceil(cpus(client))).collect()
    }

    /// Returns machine and target of each client. After [`Fleet::start`], all are known.
    pub fn found(&self) -> impl Iterator<Item = (&str, &ClientTarget)> {
        self.clients.iter().filter_map(|client| Some((client.name.as_str(), client.found.as_ref()?)))
    }

    /// Lets each client plan the request on its own target, and compares the tests with those of `plan`.
    ///
    /// # Errors
    /// The errors of all clients that refuse, or that would run other tests. Nothing was written.
    pub fn plan(
        &mut self,
        plan: Plan,
        seed: u64,
        clients_on_file_system: &[u32],
    ) -> Result<(), Vec<UserError>> {
        let count = self.clients.len() as u32;
        let mut request = plan.to_request();
        // The seed says it, with the number of the client: data of two clients is never the same.
        request.seed = None;
        request.size = plan.dataset.as_ref().map(|dataset| model::size::Size::Bytes(dataset.size_bytes_max));
        for (index, clients_on_file_system) in clients_on_file_system.iter().enumerate() {
            let number = index as u32;
            let seed = seed.wrapping_add(u64::from(number));
            let request = Box::new(Request { ..request.clone() });
            self.hub.send(
                index,
                ToAgent::Plan {
                    request,
                    seed,
                    number,
                    count,
                    clients_on_file_system: *clients_on_file_system,
                },
            );
        }
        self.all("plan the run", Wait::answer(), |client, frame| match frame {
            FromAgent::Planned { plan: own } => Some(compare(&client.name, &plan, &own)),
            _ => None,
        })?;
        self.plan = Some(plan);
        Ok(())
    }

    /// Lets a client look at each machine and target. Returns the checks, by client: clients of one machine and directory
    /// have the same. Those of one machine look one after the other, as they would find each other there.
    ///
    /// # Errors
    /// The errors of all clients that cannot.
    pub fn check_clients(&mut self) -> Result<Vec<Vec<Check>>, Vec<UserError>> {
        let place = |client: &Client| (machine_of(&client.name).to_owned(), client.directory.clone());
        loop {
            let mut machines = HashSet::new();
            let selected: Vec<_> = self
                .clients
                .iter()
                .map(|client| client.checks.is_none() && machines.insert(machine_of(&client.name).to_owned()))
                .collect();
            if !selected.contains(&true) {
                break;
            }
            for index in (0..selected.len()).filter(|index| selected[*index]) {
                self.hub.send(index, ToAgent::Look {});
            }
            self.all_of(&selected, "inspect the machine", Wait::answer(), |client, frame| match frame {
                FromAgent::MachineChecked { checks } => {
                    client.checks = Some(checks.into_iter().take(CHECKS_MAX).map(printable).collect());
                    Some(Ok(()))
                }
                _ => None,
            })?;
            for index in (0..selected.len()).filter(|index| selected[*index]) {
                let (checked_target, checks) =
                    (place(&self.clients[index]), self.clients[index].checks.clone());
                let same = self.clients.iter_mut().filter(|client| place(client) == checked_target);
                same.for_each(|client| client.checks.clone_from(&checks));
            }
        }
        Ok(self.clients.iter_mut().map(|client| client.checks.take().unwrap_or_default()).collect())
    }

    /// Returns a number for each client: clients of the same number share a directory, as one sees the other's files. All
    /// work directories must be there.
    ///
    /// # Errors
    /// The errors of all clients that cannot tell.
    pub fn directories(&mut self) -> Result<Vec<usize>, Vec<UserError>> {
        self.order(&ToAgent::Neighbours {});
        self.all("list its directory", Wait::answer(), |client, frame| match frame {
            FromAgent::Neighbours { names } => {
                client.neighbours = names;
                Some(Ok(()))
            }
            _ => None,
        })?;
        let own: HashMap<_, _> = self
            .clients
            .iter()
            .enumerate()
            .map(|(index, client)| (client.work_directory_name.as_str(), index))
            .collect();
        let mut numbers: Vec<usize> = (0..self.clients.len()).collect();
        for (index, client) in self.clients.iter().enumerate() {
            for other in client.neighbours.iter().filter_map(|name| own.get(name.as_str())) {
                let (from, to) = (numbers[*other], numbers[index]);
                if from != to {
                    numbers.iter_mut().filter(|number| **number == from).for_each(|number| *number = to);
                }
            }
        }
        for client in &mut self.clients {
            client.neighbours = Vec::new();
        }
        Ok(numbers)
    }

    /// Returns the plan of the run, once there is one.
    pub fn planned(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Makes the work directories. Returns the sources of evidence that the first client cannot read.
    ///
    /// # Errors
    /// The errors of all clients that fail. Work directories of the other clients exist until [`Fleet::remove_all`].
    pub fn open(&mut self) -> Result<Vec<String>, Vec<UserError>> {
        self.clients.iter_mut().for_each(|client| client.may_have_files = true);
        let clients_per_machine = self.clients_per_machine();
        self.order_to(0..self.clients.len(), &|fleet, client| ToAgent::Open {
            processes: fleet.processes(client),
            clients_per_machine: clients_per_machine[client],
        });
        let mut hidden = Vec::new();
        self.all("create the work directory", Wait::answer(), |client, frame| match frame {
            FromAgent::Opened { hidden_sources, clock_read_ns, work_directory_name } => {
                (client.clock_read_ns, client.work_directory_name) = (clock_read_ns, work_directory_name);
                if let Some(found) = &mut client.found {
                    found.environment.hidden_sources = texts::short_lines(&hidden_sources);
                }
                Some(Ok(()))
            }
            _ => None,
        })?;
        hidden.extend(self.found().next().map(|(_, found)| found.environment.hidden_sources.clone()));
        Ok(hidden.concat())
    }

    /// Returns the processes of the run on a client's machine, for the first client there; `None` for the others.
    fn processes(&self, client: usize) -> Option<Vec<u32>> {
        let machine = machine_of(&self.clients[client].name);
        let is_there = |other: &&Client| machine_of(&other.name) == machine;
        if self.clients[..client].iter().any(|other| is_there(&other)) {
            return None;
        }
        let of_clients = self.clients[client..].iter().filter(is_there).map(|other| other.process);
        let own = (self.clients[client].transport == Transport::ThisMachine).then(std::process::id);
        Some(of_clients.chain(own).collect())
    }

    /// Removes everything everywhere, and ends all agents. Returns lines about files that are left.
    pub fn remove_all(&mut self) -> Vec<String> {
        self.order(&ToAgent::Close {});
        let mut lines = Vec::new();
        let closed = self.all("remove its files", self.removal_wait(), |client, frame| match frame {
            FromAgent::Closed { left } => {
                client.state = State::Closed;
                lines.extend(texts::short_lines(&left).iter().map(|line| format!("{}: {line}", client.name)));
                Some(Ok(()))
            }
            _ => None,
        });
        // A client that is lost is told below, by what became of its files.
        drop(closed);
        let observers = self.observers.iter().map(|observer| &observer.client);
        for client in self.clients.iter().chain(observers) {
            texts::rest(client.omitted_lines).iter().for_each(|line| (self.say)(&client.name, line));
        }
        (0..self.clients.len()).for_each(|index| self.hub.close(index));
        let is_silent = |client: &Client| matches!(&client.state, State::Lost(why) if why == NO_ANSWER);
        if let Some(ranks) = self.ranks.as_mut().filter(|_| self.clients.iter().any(is_silent)) {
            ranks.give_up();
        }
        if let Some(ranks) = self.ranks.as_mut().filter(|_| self.interrupt.load(Ordering::Relaxed)) {
            ranks.shorten_wait();
        }
        lines.extend(self.clean_lost_clients());
        lines
    }

    /// Measures all clocks.
    pub(crate) fn align(&mut self, round_trips: u32) -> Result<(), Vec<UserError>> {
        let mut waits: Vec<_> = self.clients.iter().map(Client::is_live).collect();
        for index in (0..waits.len()).filter(|index| waits[*index]) {
            self.hub.ask_time(index, round_trips);
            self.hub.expect(index, Some(waiting::answer()));
        }
        while waits.iter().zip(&self.clients).any(|(waits, client)| *waits && client.is_live()) {
            if self.urgency() > Urgency::None {
                self.expect_nothing();
                return Err(Vec::new());
            }
            let Some((index, event)) = self.next() else { continue };
            if let Event::Clock(clock) = event {
                waits[index] = false;
                self.hub.expect(index, None);
                let client = &mut self.clients[index];
                client.first_offset_ns.get_or_insert(clock.offset_ns);
                client.clock = Some(clock);
            } else {
                self.note(index, event);
            }
        }
        let lost: Vec<_> =
            self.clients.iter().filter_map(|client| loss_error("report its clock", client)).collect();
        if lost.is_empty() || self.on_loss == OnLoss::Continue { Ok(()) } else { Err(lost) }
    }

    /// Sends a frame to all clients that answer.
    pub(crate) fn order(&mut self, frame: &ToAgent) {
        self.order_to(0..self.clients.len(), &|_, _| frame.clone());
    }

    /// Sends a frame to those of these clients that answer, to each the one for its number.
    pub(crate) fn order_to(&mut self, clients: Range<usize>, frame: &dyn Fn(&Self, usize) -> ToAgent) {
        for index in clients {
            if !self.clients[index].is_live() {
                continue;
            }
            let frame = frame(self, index);
            log::debug!("{}: {}", self.clients[index].name, String::from_utf8_lossy(&frame.to_json()));
            self.hub.send(index, frame);
        }
    }

    /// Waits until each client has given its answer to a stage, or is lost. A lost client fails the stage, unless the wait
    /// is not strict and the run goes on without it.
    pub(crate) fn all<T>(
        &mut self,
        action: &str,
        wait: Wait,
        take: impl FnMut(&mut Client, FromAgent) -> Option<Reply<T>>,
    ) -> Result<(), Vec<UserError>> {
        self.all_of(&vec![true; self.clients.len()], action, wait, take)
    }

    /// The same for the clients that were asked.
    pub(crate) fn all_of<T>(
        &mut self,
        selected: &[bool],
        action: &str,
        wait: Wait,
        mut take: impl FnMut(&mut Client, FromAgent) -> Option<Reply<T>>,
    ) -> Result<(), Vec<UserError>> {
        let clients = self.clients.iter().zip(selected);
        let mut waits: Vec<_> =
            clients.map(|(client, is_selected)| client.is_live() && *is_selected).collect();
        for index in (0..waits.len()).filter(|index| waits[*index]) {
            match wait.limit {
                Some(limit) if wait.is_removing => self.hub.expect(index, Some(limit)),
                Some(limit) => self.expect(index, limit),
                None => {}
            }
        }
        let mut errors = Vec::new();
        // A client that was lost before is no news.
        let was_lost: Vec<_> = self.clients.iter().map(|client| !client.is_live()).collect();
        while waits.iter().zip(&self.clients).any(|(waits, client)| *waits && client.is_live()) {
            // Before files exist, nobody needs to be waited for.
            let is_early = self.clients.iter().all(|client| !client.may_have_files);
            if is_early && self.urgency() > Urgency::None {
                return Err(Vec::new());
            }
            self.apply_urgency(wait.is_removing);
            let Some((index, event)) = self.next() else { continue };
            let Event::Frame(frame) = event else {
                if let Some(error) = self.note(index, event) {
                    (waits[index], self.clients[index].state) = (false, State::Lost(error.cause.clone()));
                    errors.push(error);
                }
                continue;
            };
            // No frame that a client does not owe changes anything.
            if !waits[index] || !self.clients[index].is_live() {
                continue;
            }
            let client = &mut self.clients[index];
            let answer = match frame {
                FromAgent::Failed { error, .. } => Some(Err(with_client_name(&client.name, error))),
                frame => take(client, frame).map(|answer| answer.map(drop)),
            };
            if let Some(answer) = answer {
                waits[index] = false;
                self.hub.expect(index, None);
                errors.extend(answer.err());
            }
        }
        let is_lost = |(client, was_lost): (&Client, &bool)| loss_error(action, client).filter(|_| !was_lost);
        if wait.is_strict || self.on_loss == OnLoss::Stop {
            let lost = self.clients.iter().zip(&was_lost).filter_map(is_lost);
            errors.extend(lost.filter(|lost| !errors.contains(lost)).collect::<Vec<_>>());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Ends the channel of a client that has sent a frame out of turn.
    pub(crate) fn end_client(&mut self, index: usize, frame: &FromAgent) {
        log::debug!(
            "{}: unexpected frame: {}",
            self.clients[index].name,
            String::from_utf8_lossy(&frame.to_json())
        );
        self.hub.close(index);
        self.note(index, Event::Lost("it sent an unexpected frame".into()));
    }

    /// Takes an event that no stage waits for. Returns the error of a client that speaks another protocol.
    pub(crate) fn note(&mut self, index: usize, event: Event) -> Option<UserError> {
        let client = &mut self.clients[index];
        match event {
            Event::Hello(hello) => {
                let cause = format!(
                    "skye {} there speaks protocol {}, and this one {PROTOCOL}",
                    texts::short(&hello.version),
                    hello.protocol
                );
                let is_understood = hello.is_understood();
                client.hello = Some(hello);
                if !is_understood {
                    let action = format!("communicate with {}", client.name);
                    self.hub.close(index);
                    return Some(UserError::new(action, cause).help("use the same version on both"));
                }
            }
            Event::Line(line) => {
                client.last_line = Some(line.clone());
                // Before its first word, the line is a reason and not news.
                if client.hello.is_some() {
                    (self.say)(&client.name, &line);
                }
            }
            Event::OmittedLines(lines) => client.omitted_lines += lines,
            Event::Lost(why) if client.is_live() => {
                let why = match (&client.hello, &client.last_line) {
                    (None, Some(line)) => line.clone(),
                    _ => why,
                };
                client.state = State::Lost(why.clone());
                if client.may_have_files {
                    (self.say)(&client.name, &format!("lost: {why}"));
                    // Without the first, the files of all are gone.
                    let is_first = index == 0 && self.plan.as_ref().is_some_and(Plan::shares_files);
                    self.is_over |= self.on_loss == OnLoss::Stop || is_first;
                }
            }
            Event::Lost(_) | Event::Frame(_) | Event::Clock(_) => {}
        }
        None
    }
}

/// Returns the error of a client that is lost.
fn loss_error(action: &str, client: &Client) -> Option<UserError> {
    let State::Lost(why) = &client.state else { return None };
    let help = match (&client.hello, client.transport) {
        (None, Transport::Launched) => Some(
            "check that `ssh HOST skye --version` works without a prompt, or use --rsh for another launcher, or \
             --remote-skye for its path",
        ),
        _ => None,
    };
    let error = UserError::new(format!("{action} on {}", client.name), why);
    Some(match help {
        Some(help) => error.help(help),
        None => error,
    })
}

/// Returns a check of a client, safe to print.
fn printable(check: Check) -> Check {
    let advice = check.advice.as_deref().map(texts::short);
    Check { name: texts::short(&check.name).into(), found: texts::short(&check.found), advice, ..check }
}

/// Returns the error of a client with its name, safe to print.
pub(crate) fn with_client_name(name: &str, error: UserError) -> UserError {
    let UserError { action, cause, help } = error;
    let named_error = UserError::new(format!("{} on {name}", texts::short(&action)), texts::short(&cause));
    match help {
        Some(help) => named_error.help(texts::short(&help)),
        None => named_error,
    }
}

/// Returns one error of several.
pub(crate) fn combine_errors(action: &str, errors: Vec<UserError>) -> UserError {
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else { return UserError::new(action, "it was interrupted") };
    let more: Vec<_> = errors.map(|error| format!("cannot {}: {}", error.action, error.cause)).collect();
    let cause = [vec![first.cause], more].concat().join("; ");
    UserError { cause, ..UserError { action: first.action, cause: String::new(), help: first.help } }
}

/// Refuses a client that would do another test than the plan says.
fn compare(name: &str, plan: &Plan, own: &Plan) -> Reply<()> {
    let differs = |cause: String| {
        Err(UserError::new(format!("run the same tests on {name}"), cause)
            .help("set --engine, --size or --files so that all clients support it"))
    };
    // Clients that touch each other's data must lay it out alike.
    if (plan.shares_files() || plan.reads_from_other_clients()) && plan.dataset != own.dataset {
        return differs("it would lay out its data differently".into());
    }
    if plan.phases.len() != own.phases.len() {
        return differs(format!("it would run {} tests instead of {}", own.phases.len(), plan.phases.len()));
    }
    for (expected, own) in plan.phases.iter().zip(&own.phases) {
        let (spec, own_spec) = (model::spec::print(&expected.workload), model::spec::print(&own.workload));
        if (&spec, expected.engine) != (&own_spec, own.engine) {
            let own_spec = texts::short(&own_spec);
            return differs(format!(
                "{} would be `{own_spec}` with engine {} there, and `{spec}` with engine {} on the first client",
                expected.id,
                own.engine.word(),
                expected.engine.word()
            ));
        }
    }
    Ok(())
}
