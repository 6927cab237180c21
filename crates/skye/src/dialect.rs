//! Common parts of the family's programs that measure: the user they run as, the plan for a request, and a session of
//! it.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use family::dialect::{Command, Dialect};
use fleet::OnLoss;
use model::hosts::ClientSpec;
use model::plan::{self, Plan};
use model::request::{Allow, Request};
use model::run::{Environment, PhaseRecord, Status};
use model::size::Size;
use model::{Machine, Target, UserError};
use observe::Root;
use report::text;
use run::SessionOptions;

use crate::cli::ClientArguments;
use crate::driver::{self, Gate, RunObserver, RunOutcome, Setup, Start};
use crate::exit::{self, Failure};
use crate::fleet_run::{self, ConnectedClients};
use crate::keeping::{OriginalUserStore, SaveTarget};
use crate::live_view::LiveView;
use crate::place::ResolvedTarget;
use crate::prepared::{FoundTarget, PreparedRun};
use crate::privileges::{self, Identity};
use crate::signals::Interruption;
use crate::{CommandResult, outputs, run_names, terminal};

/// A machine and a target that are known, on which something is to be measured.
pub struct Bench {
    root: Root,
    /// The machine.
    pub machine: Machine,
    target: BenchTarget,
}

/// Target of the runs of a bench.
enum BenchTarget {
    /// This process measures it.
    Here(Box<ResolvedTarget>),
    /// Several clients measure it.
    Clients(Box<ClientSet>),
}

/// Clients that measure in one directory of each.
struct ClientSet {
    clients: Clients,
    directory: PathBuf,
    /// Machine and target of the first client.
    environment: Environment,
    /// Least free room of a client.
    room_bytes: u64,
}

impl ClientSet {
    fn connect(clients: &Clients, directory: &Path) -> Result<ConnectedClients, Failure> {
        // The originals write what they are asked to.
        let limits = Request {
            write_limit: Some(Size::Bytes(plan::WRITE_LIMIT_BYTES_MAX)),
            allow: vec![Allow::Busy, Allow::LowSpace, Allow::SharedDirectory],
            ..Request::default()
        };
        let Clients { arguments, hosts, interruption } = clients;
        let hosts = fleet::Clients::Hosts(hosts.clone());
        ConnectedClients::start(arguments, directory, hosts, &limits, OnLoss::Stop, interruption)
    }
}

impl Bench {
    /// Connects to all clients. The machine and the environment are those of the first client.
    ///
    /// # Errors
    /// All refusals, of any client.
    fn with_clients(directory: &Path, clients: &Clients) -> Result<Self, Failure> {
        let greeted = ClientSet::connect(clients, directory)?;
        let (machine, environment) = (greeted.first().machine.clone(), greeted.first().environment.clone());
        let names: Vec<_> = clients.hosts.iter().map(ToString::to_string).collect();
        let (count, names) = (names.len(), names.join(", "));
        let note = format!("{count} clients simultaneously: {names}; sizes and threads are per client");
        terminal::message("note", &note);
        let (room_bytes, directory) = (greeted.room_bytes(), directory.to_owned());
        let set = ClientSet { clients: clients.clone(), directory, environment, room_bytes };
        Ok(Self { root: Root::system(), machine, target: BenchTarget::Clients(Box::new(set)) })
    }

    /// Inspects the machine and a directory, or a simulated device.
    ///
    /// # Errors
    /// There is no such directory, or measuring there is not permitted.
    pub fn inspect(directory: &Path, clients: Option<&Clients>) -> Result<Self, Failure> {
        if let Some(clients) = clients {
            return Self::with_clients(directory, clients);
        }
        let root = Root::system();
        let machine = driver::machine(&root);
        let place = ResolvedTarget::find_directory(&root, &machine, directory).map_err(Failure::failed)?;
        Ok(Self { root, machine, target: BenchTarget::Here(Box::new(place)) })
    }

    /// Inspects the machine for a resolved target. Evidence of `shared_sources` counts more than one run.
    pub fn on(target: Target, shared_sources: Vec<String>) -> Self {
        let root = Root::system();
        let machine = driver::machine(&root);
        let place = ResolvedTarget::new(&root, &machine, target, None, shared_sources);
        Self { root, machine, target: BenchTarget::Here(Box::new(place)) }
    }

    fn environment(&self) -> &Environment {
        match &self.target {
            BenchTarget::Here(place) => &place.environment,
            BenchTarget::Clients(set) => &set.environment,
        }
    }

    /// Returns the name of the machine.
    pub fn host(&self) -> &str {
        &self.environment().host
    }

    /// Returns true if the target is a simulated device, whose clock is virtual.
    pub fn is_simulated(&self) -> bool {
        matches!(&self.target, BenchTarget::Here(place) if place.is_simulated())
    }

    /// Returns the free bytes of the target, for each client.
    pub fn free_bytes(&self) -> u64 {
        match &self.target {
            BenchTarget::Here(place) => place.target().space.free_bytes,
            BenchTarget::Clients(set) => set.room_bytes,
        }
    }

    /// Returns the plan for a request on this machine and target.
    ///
    /// # Errors
    /// The request is refused; nothing was written.
    pub fn plan(&self, request: &Request) -> Result<Plan, Failure> {
        let target = &self.environment().target;
        // The originals run in such directories, too.
        let allow = request.allow.iter().copied().chain([Allow::SharedDirectory]).collect();
        let plan = plan::plan(&Request { allow, ..request.clone() }, target, &self.machine);
        let plan = plan.map_err(Failure::failed)?;
        if let Some(danger) = plan::shared_directory(target, &self.machine) {
            terminal::message("warning", &format!("running as root in {}: {danger}", target.path));
        }
        Ok(plan)
    }

    /// Carries out a plan once, and removes its files. The audience reports progress on stderr; without an audience,
    /// there is no progress.
    ///
    /// # Errors
    /// The run could not begin; nothing is left.
    pub fn measure(
        &self,
        plan: &Plan,
        seed: u64,
        interruption: &Interruption,
        observer: Option<Box<dyn RunObserver>>,
    ) -> Result<RunOutcome, Failure> {
        self.measure_gated(None, plan, seed, interruption, observer)
    }

    /// Same as [`Bench::measure`], with a wait before each test.
    ///
    /// # Errors
    /// As [`Bench::measure`].
    pub fn measure_gated(
        &self,
        gate: Option<Gate>,
        plan: &Plan,
        seed: u64,
        interruption: &Interruption,
        observer: Option<Box<dyn RunObserver>>,
    ) -> Result<RunOutcome, Failure> {
        let view = LiveView::new(observer.is_none());
        self.measure_in(view, gate, plan, seed, interruption, observer)
    }

    /// Same as [`Bench::measure_gated`], with its progress in that view.
    ///
    /// # Errors
    /// As [`Bench::measure`].
    pub fn measure_in(
        &self,
        view: LiveView,
        gate: Option<Gate>,
        plan: &Plan,
        seed: u64,
        interruption: &Interruption,
        observer: Option<Box<dyn RunObserver>>,
    ) -> Result<RunOutcome, Failure> {
        let prepared = match &self.target {
            BenchTarget::Here(place) => PreparedRun::here((**place).clone(), plan.clone(), seed),
            BenchTarget::Clients(set) => {
                // Each run has agents of its own.
                let found = ClientSet::connect(&set.clients, &set.directory)?;
                FoundTarget::Clients(Box::new(found)).plan(plan.to_request(), &self.machine, seed)?
            }
        };
        let plan = prepared.plan.clone();
        let (side, environment) = prepared.open(&self.root, interruption, SessionOptions::default())?;
        let is_quiet = observer.is_none();
        let setup = Setup {
            start: Start::now(),
            seed,
            interruption: interruption.clone(),
            view,
            observer,
            gate,
            is_quiet,
            monitor: None,
            environment,
            plan,
        };
        Ok(driver::drive(setup, side, &self.root, &self.machine))
    }
}

/// Clients that stand before the words of a program.
#[derive(Clone)]
pub struct Clients {
    arguments: ClientArguments,
    hosts: Vec<ClientSpec>,
    interruption: Interruption,
}

/// Options on clients, each with a value.
const CLIENT_OPTIONS: [&str; 5] = ["--hosts", "--hosts-file", "--observe", "--rsh", "--remote-skye"];

impl Clients {
    /// Splits the options on clients from the program's arguments after them. If there are any, starts to catch
    /// signals.
    ///
    /// # Errors
    /// An option is not understood.
    fn split(words: &[OsString]) -> Result<(Option<Self>, &[OsString]), Failure> {
        let mut end = 0;
        while let Some(word) = words.get(end).and_then(|word| word.to_str()) {
            let (option, has_value) =
                word.split_once('=').map_or((word, false), |(option, _)| (option, true));
            end += match option {
                "--no-send" => 1,
                _ if !CLIENT_OPTIONS.contains(&option) => break,
                _ if has_value => 1,
                _ => 2,
            };
        }
        let (own, rest) = words.split_at(end.min(words.len()));
        if own.is_empty() {
            return Ok((None, rest));
        }
        let arguments = ClientArguments::from_args(own).map_err(Failure::Refused)?;
        let Some(hosts) = fleet_run::clients(&arguments)? else {
            return Err(Failure::Refused("no client is set: use --hosts before the program's flags".into()));
        };
        Ok((Some(Self { arguments, hosts, interruption: Interruption::catch()? }), rest))
    }
}

/// Starts to catch signals, unless that was done for clients.
///
/// # Errors
/// As [`Interruption::catch`].
pub fn catch(clients: Option<&Clients>) -> Result<Interruption, Failure> {
    clients.map_or_else(Interruption::catch, |clients| Ok(clients.interruption.clone()))
}

/// Switches to the requested user and group. As root, prints them on stderr, as the originals do that require a user.
/// Returns the process that saves runs for the first user, if that has changed and the runs have no `file`.
///
/// # Errors
/// There is no such user or group, or only root may switch to it.
pub fn become_requested_user(
    program: &str,
    user: Option<&str>,
    group: Option<&str>,
    file: Option<&Path>,
    is_quiet: bool,
) -> Result<Option<OriginalUserStore>, Failure> {
    let before = Identity::current();
    let changes = before.is_root() && (user.is_some() || group.is_some());
    let original_user_store = (changes && file.is_none()).then(OriginalUserStore::start).transpose();
    let original_user_store = original_user_store
        .map_err(|error| Failure::failed(UserError::new("start a process that saves the results", error)))?;
    let identity = match (user, group) {
        (None, None) => before,
        _ => privileges::become_user(user, group).map_err(Failure::failed)?,
    };
    let original_user_store = original_user_store.filter(|_| identity != before);
    if is_quiet || !before.is_root() {
        return Ok(original_user_store);
    }
    if user.is_none() && group.is_none() {
        terminal::message(
            "note",
            &format!("running as root, as -u is not set; {program} itself would refuse"),
        );
    }
    print_note(&format!("Using {identity}."));
    Ok(original_user_store)
}

/// Executes the command line of a program. A refusal ends with the family's code for it, 1. In Go's dialect, a wrong
/// flag ends with 2.
///
/// # Errors
/// The command line is wrong, or `measure` fails.
pub fn run<O: Dialect>(words: &[OsString], measure: impl FnOnce(&O) -> CommandResult) -> CommandResult {
    terminal::translate_remedies(O::SIZE_FLAG);
    match O::parse(words.iter().cloned()) {
        Ok(Command::Measure(options)) => refusal_as_failure(measure(&options)),
        Ok(Command::Help) => print(&O::help()),
        Ok(Command::Version) => print(&O::version(env!("CARGO_PKG_VERSION"))),
        // Go's package `flag` ends with the code of our refusals.
        Err(problem) if O::IS_GO => Err(Failure::Refused(format!("{}: {problem}", O::NAME))),
        Err(problem) => Err(Failure::Failed(format!("{}: {problem}", O::NAME))),
    }
}

/// Same as [`run`], with clients before the words: `skye bonnie --hosts ada,bob -s 100`.
///
/// # Errors
/// The command line is wrong, or `measure` fails.
pub fn run_with_clients<O: Dialect>(
    words: &[OsString],
    measure: impl FnOnce(&O, Option<Clients>) -> CommandResult,
) -> CommandResult {
    let (clients, words) = match Clients::split(words) {
        Ok(split) => split,
        Err(failure) => return refusal_as_failure(Err(failure)),
    };
    run(words, |options| measure(options, clients))
}

/// Prints help, or a version.
///
/// # Errors
/// Stdout has no reader any more.
pub fn print(text: &str) -> CommandResult {
    terminal::print_line(text)?;
    Ok(exit::DONE)
}

/// Returns the code with which a run ends: that of the signal that ended it, else success or failure.
pub fn code(ended: &RunOutcome, is_well: bool) -> u8 {
    let of_run = if is_well { exit::DONE } else { exit::FAILED };
    ended.interruption.exit_code().unwrap_or(of_run)
}

/// Turns a refusal into a failure: the family ends with 1 where skye would refuse.
pub fn refusal_as_failure(done: CommandResult) -> CommandResult {
    match done {
        Err(Failure::Refused(message)) => Err(Failure::Failed(message)),
        done => done,
    }
}

/// Returns a seed for a run without a requested one. It has 32 bits, as the family's seeds.
pub fn fresh_seed() -> u64 {
    u64::from(fastrand::u32(1..))
}

/// Returns the file for the document of a run. From the second run on, the run's number comes before the extension.
pub fn numbered(file: &Path, run: u32) -> PathBuf {
    if run == 1 {
        return file.to_owned();
    }
    let ending = file.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    file.with_extension(format!("{run}{ending}"))
}

/// Documents of a program's runs: in a file that the user named, or else in the store.
pub struct Documents {
    file: Option<PathBuf>,
    keeping: SaveTarget,
}

impl Documents {
    /// Checks that the documents of all runs can be written, beside results that go to stdout. A process that has kept the
    /// first user saves them in that user's store.
    ///
    /// # Errors
    /// A document cannot be written.
    pub fn check(
        file: Option<&Path>,
        runs: u32,
        original_user_store: Option<OriginalUserStore>,
    ) -> Result<Self, Failure> {
        let Some(file) = file else {
            let keeping = match original_user_store {
                Some(original_user_store) => SaveTarget::OriginalUserStore(RefCell::new(original_user_store)),
                None => SaveTarget::find(None, Some("choose a file with --json")),
            };
            return Ok(Self { file: None, keeping });
        };
        if outputs::is_stdout(file) {
            return Err(Failure::Failed("--json `-`: stdout is for the results; choose a file".into()));
        }
        (1..=runs).try_for_each(|run| outputs::check(&numbered(file, run)))?;
        outputs::check_distinct((1..=runs).map(|run| numbered(file, run)))?;
        Ok(Self { file: Some(file.to_owned()), keeping: SaveTarget::Nowhere })
    }

    /// Saves the document of a run, unless it is empty. Says on stderr how to show it. A failure of the store is no error:
    /// the results are printed.
    ///
    /// # Errors
    /// The named file cannot be written.
    pub fn save(&self, run: u32, ended: &RunOutcome) -> Result<(), Failure> {
        if ended.run.phases.is_empty() {
            return Ok(());
        }
        if let Some(file) = &self.file {
            return outputs::write(&numbered(file, run), report::json::write(&ended.run));
        }
        let saved = self.keeping.keep(&ended.run, None).map_err(Failure::Failed)?;
        if let Some(path) = saved.filter(|_| !ended.is_quiet()) {
            print_note(&format!("\nthe full result: skye why {}", run_names::short(&path)));
        }
        Ok(())
    }
}

/// Says on stderr what limited each test, by the program's names for the tests.
pub fn print_limits(rows: &[(&str, &PhaseRecord)]) {
    if !rows.is_empty() {
        print_note(&format!("\nwhat limited each of them:\n{}", limits(rows)));
    }
}

/// Returns the limiter of each test as lines of text, to be printed later.
pub fn limits(rows: &[(&str, &PhaseRecord)]) -> String {
    text::limited(rows, &terminal::style())
}

/// Prints a line to stderr, as the originals do. Errors are ignored: a closed stderr cannot show them.
pub fn print_note(line: &str) {
    terminal::write_note(line);
}

/// Words on stderr about a test: when it begins, and when it is over.
pub struct Phrase {
    /// Printed when the test begins.
    pub start_text: String,
    /// Printed when the test is done; nothing is printed if it failed.
    pub done: Box<dyn Fn(&PhaseRecord) -> String>,
}

impl Phrase {
    /// Returns a phrase that ends in the same words, whatever was measured.
    pub fn new(start_text: impl Into<String>, done: impl Into<String>) -> Self {
        let done = done.into();
        Self { start_text: start_text.into(), done: Box::new(move |_| done.clone()) }
    }
}

/// Phrases of a program on stderr, by which scripts follow its progress.
pub struct Phrases {
    /// Phrases of the plan's tests, in their order.
    of_tests: Vec<Phrase>,
    /// True if a live view moves on the terminal below. Then a phrase is printed once it is whole.
    is_live: bool,
    /// Index of the running test.
    running: Option<usize>,
}

impl Phrases {
    /// Returns the audience that prints phrases.
    pub fn observer(of_tests: Vec<Phrase>) -> Box<dyn RunObserver> {
        Box::new(Self { of_tests, is_live: std::io::stderr().is_terminal(), running: None })
    }
}

impl RunObserver for Phrases {
    fn on_test_start(&mut self, index: usize) -> Result<(), Failure> {
        self.running = Some(index);
        if let Some(phrase) = self.of_tests.get(index).filter(|_| !self.is_live) {
            say(&phrase.start_text);
        }
        Ok(())
    }

    fn over(&mut self, _: &Plan, record: &PhaseRecord, _: Option<&PhaseRecord>) -> Result<(), Failure> {
        let phrase = self.running.take().and_then(|index| self.of_tests.get(index));
        let start_text = phrase.filter(|_| self.is_live).map_or("", |phrase| &phrase.start_text);
        let is_done = record.status == Status::Done;
        let done = phrase.filter(|_| is_done).map_or(String::new(), |phrase| (phrase.done)(record));
        say(&format!("{start_text}{done}\n"));
        Ok(())
    }
}

/// Prints part of a line to stderr.
pub fn say(words: &str) {
    // Errors are ignored: a closed stderr cannot show them.
    terminal::write_message(words.as_bytes());
}
