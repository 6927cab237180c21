//! Runs that several clients make together: the clients of a command line, their plan, and the room that they share.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use fleet::launch::Launcher;
use fleet::{ClientTarget, Fleet, FleetOptions, OnLoss};
use model::hosts::{self, ClientSpec};
use model::plan::{self, ClientSite, Plan, WRITE_LIMIT_BYTES};
use model::request::Allow;
use model::run::Environment;
use model::size::Size;
use model::target::Backing;
use model::{Request, UserError};
use report::text::ClientChecks;
use run::{Side as _, hang_detection};

use crate::cli::ClientArguments;
use crate::exit::{self, Failure};
use crate::signals::Interruption;
use crate::{inputs, job, simulation, terminal};

/// Write limit of a request without one.
const WRITE_LIMIT: Size = Size::Bytes(WRITE_LIMIT_BYTES);

/// Run that several clients are about to make. Nothing is written yet.
pub struct FleetRun {
    /// The clients.
    pub fleet: Fleet,
    /// Plan of the run.
    pub plan: Plan,
    /// Machine and target of the first client.
    pub environment: Environment,
    /// Signals that end the agents, too.
    pub interruption: Interruption,
}

/// Returns the clients that a command line names; `None` if it names none.
///
/// # Errors
/// A list of hosts cannot be read or understood.
pub fn clients(arguments: &ClientArguments) -> Result<Option<Vec<ClientSpec>>, Failure> {
    match (&arguments.hosts, &arguments.hosts_file) {
        (None, None) if arguments.observe.is_some() => {
            unusable("--observe", "there are no clients to monitor; add --hosts")
        }
        (None, None) => Ok(None),
        (Some(text), _) => hosts_of("--hosts", Some(text)),
        (None, Some(file)) => {
            let name = format!("--hosts-file {}", file.display());
            let text = inputs::read_text(file, inputs::DESCRIPTION_BYTES_MAX);
            match text.map_err(|error| error.to_string()).and_then(|text| hosts::parse_file(&text)) {
                Ok(clients) => Ok(Some(clients)),
                Err(problem) => unusable(&name, &problem),
            }
        }
    }
}

/// Returns the hosts that an option names; `None` if it is not there.
fn hosts_of(option: &str, text: Option<&str>) -> Result<Option<Vec<ClientSpec>>, Failure> {
    let Some(text) = text else { return Ok(None) };
    // On this machine, the file system shows which of both is meant.
    let is_there = |path: &String| inputs::with_hang_check(Path::new(path), Path::symlink_metadata).is_ok();
    let cut =
        hosts::split_directories(text).into_iter().find(|(read, meant)| !is_there(read) && is_there(meant));
    match (hosts::parse(text), cut) {
        (_, Some((read, meant))) => unusable(
            option,
            &format!("`{text}`: a comma ends the directory name {read}; use local:\"{meant}\""),
        ),
        (Ok(hosts), None) => Ok(Some(hosts)),
        (Err(problem), None) => unusable(option, &problem),
    }
}

fn unusable<T>(option: &str, problem: &str) -> Result<T, Failure> {
    Err(Failure::Refused(format!("cannot use {option}: {problem}")))
}

/// Clients that have answered, and have no plan yet.
pub struct ConnectedClients {
    fleet: Fleet,
    found: Vec<ClientTarget>,
    interruption: Interruption,
}

impl ConnectedClients {
    /// Starts an agent for each client of a target, within the limits of a request.
    ///
    /// # Errors
    /// All refusals, of whichever client. Nothing was written.
    pub fn start(
        arguments: &ClientArguments,
        target: &Path,
        clients: fleet::Clients,
        request: &Request,
        on_loss: OnLoss,
        interruption: &Interruption,
    ) -> Result<Self, Failure> {
        for (option, is_asked) in
            [("--erase", request.erase.is_some()), ("--precondition", request.precondition.is_some())]
        {
            if is_asked {
                let problem =
                    format!("cannot use {option} with several clients: use one host, without --hosts");
                return Err(Failure::Refused(problem));
            }
        }
        let limits = limits(request, clients.count());
        let fleet = connect(arguments, target, clients, limits, on_loss, interruption)?;
        let found: Vec<ClientTarget> = fleet.found().map(|(_, found)| found.clone()).collect();
        if found.is_empty() {
            return Err(Failure::Refused("there is no client".into()));
        }
        Ok(Self { fleet, found, interruption: interruption.clone() })
    }

    /// Returns machine and target of the first client.
    pub fn first(&self) -> &ClientTarget {
        &self.found[0]
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> u32 {
        self.found.len() as u32
    }

    /// Returns the least free room of a client. Clients of one file system share it.
    pub fn room_bytes(&self) -> u64 {
        least_room_bytes(&self.found, &clients_on_file_system(&self.found))
    }

    /// Plans the run with all clients.
    ///
    /// # Errors
    /// All refusals, of whichever client. Nothing was written.
    pub fn plan(self, request: Request, seed: u64) -> Result<FleetRun, Failure> {
        let Self { mut fleet, found, interruption } = self;
        let (first, clients_on_file_system) = (&found[0], clients_on_file_system(&found));
        let request = with_sweep(request, found.len())?;
        // What a client has just written may still be in the memory of its machine.
        let shift = share_remote_directory(&found).then(|| on_first_machine(&found));
        let request = Request { shift: request.shift.or(shift), ..request };
        // An experiment changes the load of one client, which says nothing about the sum.
        let request = Request { probe: Some(false), ..request };
        let places: Vec<_> = found
            .iter()
            .zip(&clients_on_file_system)
            .map(|(found, clients_on_file_system)| ClientSite {
                target: &found.environment.target,
                machine: &found.machine,
                clients_on_file_system: *clients_on_file_system,
            })
            .collect();
        let plan = plan::plan_for_all(&request, &places).map_err(Failure::refused)?;
        fleet
            .plan(plan.clone(), seed, &clients_on_file_system)
            .map_err(|errors| refusals(errors, &interruption))?;
        let notes = [plan.notes.clone(), notes(&found)].concat();
        let environment = first.environment.clone();
        Ok(FleetRun { fleet, plan: Plan { notes, ..plan }, environment, interruption })
    }
}

impl FleetRun {
    /// Makes the work directories.
    ///
    /// # Errors
    /// All refusals. The work directories of all clients are removed, or lines say which are left.
    pub fn open(&mut self) -> Result<Vec<String>, Failure> {
        let hidden = self.fleet.open();
        let refused = |errors| refusals(errors, &self.interruption);
        let hidden = hidden.map_err(refused).map_err(|refusal| self.abort_opening(refusal))?;
        let works_together = self.plan.shares_files();
        if works_together || self.plan.reads_from_other_clients() {
            let shared = self.fleet.directories();
            let apart = match shared {
                Ok(numbers) if numbers.iter().all(|number| *number == numbers[0]) => return Ok(hidden),
                Ok(_) => Vec::new(),
                Err(errors) => errors,
            };
            if apart.is_empty() {
                let (action, help) = match works_together {
                    true => ("share files among all clients", "drop shared (and files=1)"),
                    false => ("read other clients' data", "use shift=0"),
                };
                let problem =
                    "the clients do not see each other's files; choose a directory that all share, or";
                let refusal = Failure::Refused(format!("cannot {action}: {problem} {help}"));
                return Err(self.abort_opening(refusal));
            }
            return Err(self.abort_opening(refusals(apart, &self.interruption)));
        }
        Ok(hidden)
    }

    /// Removes all work directories, and says which are left. Returns the failure: it is a refusal only if none is, and if
    /// no signal has ended the run.
    fn abort_opening(&mut self, refusal: Failure) -> Failure {
        let interruption = &self.interruption;
        let left = self.fleet.remove_all();
        left.iter().for_each(|line| terminal::error(line));
        let (files, is_left) = match left.is_empty() {
            true => ("its files are removed", false),
            false => ("some of its files were not removed", true),
        };
        match interruption.exit_code() {
            // A reader that is gone is no reason.
            Some(code) if code != exit::DONE => {
                refusal.report();
                Failure::Ended(format!("{}; {files}", interruption.reason()), code)
            }
            _ if is_left => Failure::Failed(refusal.to_string()),
            _ => refusal,
        }
    }
}

/// Refuses a plan that only several clients can carry out.
///
/// # Errors
/// It sweeps over clients, or a test reads what another client wrote.
pub fn check_alone(plan: &Plan) -> Result<(), Failure> {
    let sweep = plan.sweep.as_ref().filter(|_| plan.sweeps_clients());
    let problem = match sweep {
        Some(sweep) => format!("cannot sweep over {sweep}"),
        None if plan.reads_from_other_clients() => "cannot read another client's data".into(),
        None => return Ok(()),
    };
    Err(Failure::Refused(format!("{problem}: there are no clients; add --hosts")))
}

/// Returns the words with which one of several agents has the limits of a request. The agents share the bytes evenly.
pub fn limits(request: &Request, clients: usize) -> Vec<String> {
    let share = request.write_limit.unwrap_or(WRITE_LIMIT).share(clients as u64);
    let mut words = vec!["--write-limit".to_owned(), share.to_string()];
    words.extend(request.allow.iter().flat_map(allow_arguments));
    if let Some(time) = hang_detection::user_limit() {
        words.extend(["--hang-timeout".to_owned(), time.as_secs_f64().to_string()]);
    }
    words
}

/// Returns the words with which an agent is allowed something.
fn allow_arguments(allow: &Allow) -> [String; 2] {
    ["--allow".to_owned(), allow.to_string()]
}

/// Returns the way to start programs on this machine, and elsewhere by ssh.
pub fn own_launcher() -> Launcher {
    Launcher {
        // By its descriptor, so that a program that was replaced meanwhile still starts itself.
        own_program: "/proc/self/exe".into(),
        rsh: None,
        remote_program: "skye".into(),
    }
}

/// Starts an agent for each client, and waits until all have answered.
fn connect(
    arguments: &ClientArguments,
    target: &Path,
    clients: fleet::Clients,
    limits: Vec<String>,
    on_loss: OnLoss,
    interruption: &Interruption,
) -> Result<Fleet, Failure> {
    let ClientArguments { rsh, remote_skye, .. } = arguments;
    let refused = |problem: String| Failure::Refused(format!("cannot use --rsh: {problem}"));
    let launcher = Launcher {
        rsh: rsh.as_deref().map(Launcher::words).transpose().map_err(refused)?,
        remote_program: remote_skye.clone(),
        ..own_launcher()
    };
    if let fleet::Clients::Hosts(hosts) = &clients {
        let checked = plan::check_clients(hosts.len(), observe::open_files_max());
        checked.map_err(|error| refusals(vec![error], interruption))?;
    }
    let started = FleetOptions {
        clients,
        observers: hosts_of("--observe", arguments.observe.as_deref())?.unwrap_or_default(),
        launcher,
        start_at_once: arguments.start_at_once.max(1),
        sends_program: !arguments.no_send,
        directory: directory(target)?,
        limits,
        version: env!("CARGO_PKG_VERSION").into(),
        on_loss,
        interrupt: interruption.raised.clone(),
        say: Box::new(terminal::message),
    };
    Fleet::start(started).map_err(|errors| refusals(errors, interruption))
}

/// Everything that a doctor's empty directories may be in the way of.
const DOCTOR_ALLOWANCES: &[Allow] = &[Allow::Busy, Allow::LowSpace, Allow::SharedDirectory];

/// Lets all clients look at their machines and targets. Each makes an empty work directory for a moment, so that it
/// shows which of them share one. Returns the clients, and lines about what could not be removed or asked.
///
/// # Errors
/// All refusals, of whichever client, before anything was looked at.
pub fn check_clients(
    arguments: &ClientArguments,
    target: &Path,
    clients: Vec<ClientSpec>,
) -> Result<(Vec<ClientChecks>, Vec<String>), Failure> {
    let interruption = Interruption::catch()?;
    let limits = DOCTOR_ALLOWANCES.iter().flat_map(allow_arguments).collect();
    let hosts = fleet::Clients::Hosts(clients);
    let mut fleet = connect(arguments, target, hosts, limits, OnLoss::Stop, &interruption)?;
    let checks = fleet.check_clients().map_err(|errors| refusals(errors, &interruption))?;
    let found: Vec<ClientTarget> = fleet.found().map(|(_, found)| found.clone()).collect();
    let is_directories = found.iter().all(|found| !found.environment.target.is_used_read_only());
    let mut lines = Vec::new();
    let mut directories = None;
    if is_directories {
        match directories_of(&mut fleet, &found) {
            Ok(numbers) => directories = Some(numbers),
            Err(errors) => lines.extend(errors.iter().map(ToString::to_string)),
        }
    }
    lines.extend(fleet.remove_all());
    let shares = |number: usize| directories.as_ref().map(|numbers| numbers[number]);
    let inspected = fleet.hosts().into_iter().zip(checks).enumerate();
    let inspected =
        inspected.map(|(number, (host, checks))| ClientChecks { host, checks, shares: shares(number) });
    Ok((inspected.collect(), lines))
}

/// Returns the number of each client's directory. All make their work directories for that.
fn directories_of(fleet: &mut Fleet, found: &[ClientTarget]) -> Result<Vec<usize>, Vec<UserError>> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    // A test that makes its files when it runs. It never does.
    let request = Request {
        tests: vec!["create".into()],
        files: Some(model::request::Count(1)),
        probe: Some(false),
        allow: DOCTOR_ALLOWANCES.into(),
        ..Request::default()
    };
    let plan =
        plan::plan(&request, &first.environment.target, &first.machine).map_err(|error| vec![error])?;
    fleet.plan(plan, 0, &vec![1; found.len()])?;
    fleet.open()?;
    fleet.directories()
}

/// Returns the directory on clients that name none: that of the command line, by its absolute path.
pub fn directory(target: &Path) -> Result<String, Failure> {
    let refused =
        |cause: &str| Failure::Refused(format!("cannot use {} as the target: {cause}", target.display()));
    // A host may not have the links of this one, so none is followed here.
    let simulated = target.to_str().and_then(simulation::absolute);
    let path = simulated.unwrap_or_else(|| std::path::absolute(target));
    let path = path.map_err(|error| refused(&error.to_string()))?;
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(refused("its name is not UTF-8, which documents require")),
    }
}

/// Returns one failure of all refusals: a line for each.
fn refusals(errors: Vec<UserError>, interruption: &Interruption) -> Failure {
    if interruption.is_raised() && errors.is_empty() {
        let message = format!("{}; nothing was written", interruption.reason());
        return match interruption.exit_code() {
            Some(code) => Failure::Ended(message, code),
            None => Failure::Refused(message),
        };
    }
    let mut lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let last = lines.pop().unwrap_or_else(|| "the clients do not respond".into());
    lines.iter().for_each(|line| terminal::error(line));
    Failure::Refused(last)
}

/// Returns true if clients of several machines measure one directory of a server.
fn share_remote_directory(found: &[ClientTarget]) -> bool {
    let place = |found: &ClientTarget| {
        let target = &found.environment.target;
        let below = target.path.strip_prefix(&target.mount_point).unwrap_or(&target.path).to_owned();
        (target.backing == Backing::RemoteOrUserSpace).then(|| (target.source.clone(), below))
    };
    let Some(first) = found.first().and_then(place) else { return false };
    let is_elsewhere = |other: &ClientTarget| other.environment.host != found[0].environment.host;
    found.iter().all(|other| place(other).as_ref() == Some(&first)) && found.iter().any(is_elsewhere)
}

/// Returns the number of clients on the first machine: each client that is as many places further on is on another one.
fn on_first_machine(found: &[ClientTarget]) -> u32 {
    let is_there = |other: &&ClientTarget| other.environment.host == found[0].environment.host;
    found.iter().take_while(is_there).count() as u32
}

/// Returns the number of clients that share the room of each client's file system, itself included.
fn clients_on_file_system(found: &[ClientTarget]) -> Vec<u32> {
    let size = |found: &ClientTarget| {
        let Environment { host, target, .. } = &found.environment;
        (host.clone(), target.space.total_bytes, target.space.inodes_total)
    };
    // An overlay reports the space of the file system that holds its upper directory, which may be hidden.
    let is_overlay = |found: &&ClientTarget| found.environment.target.file_system == "overlay";
    let overlays: HashSet<_> = found.iter().filter(is_overlay).map(size).collect();
    let key = |found: &ClientTarget| {
        let (host, target) = (&found.environment.host, &found.environment.target);
        match target.backing {
            // The same export is the same room, wherever it is mounted.
            Backing::RemoteOrUserSpace => target.source.clone(),
            Backing::Simulated => format!("{host} {}", target.path),
            _ if overlays.contains(&size(found)) => format!("{:?}", size(found)),
            // All mounts of a file system have its number.
            _ => format!("{host} {}", target.device_number),
        }
    };
    let mut counts = HashMap::<String, u32>::new();
    found.iter().for_each(|found| *counts.entry(key(found)).or_default() += 1);
    found.iter().map(|found| counts.get(&key(found)).copied().unwrap_or(1)).collect()
}

/// Returns the request with the end of a sweep over clients: `hn` is all of them.
fn with_sweep(mut request: Request, clients: usize) -> Result<Request, Failure> {
    let Some(text) = request.sweep.as_mut().filter(|text| text.starts_with(['h', 'H'])) else {
        return Ok(request);
    };
    if let Some(low) = text.strip_suffix(['n', 'N']) {
        *text = format!("{low}{clients}");
    }
    let most: Option<usize> = text.rsplit(['.', 'h', 'H']).next().and_then(|high| high.parse().ok());
    match most {
        Some(most) if most > clients => {
            let problem = format!("cannot sweep over {text}: there are {clients} clients");
            Err(Failure::Refused(problem))
        }
        _ => Ok(request),
    }
}

/// Returns the least share of a client in what is free.
fn least_room_bytes(found: &[ClientTarget], clients_on_file_system: &[u32]) -> u64 {
    let shares = found.iter().zip(clients_on_file_system).map(|(found, clients_on_file_system)| {
        found.environment.target.space.shared_by(*clients_on_file_system)
    });
    shares.map(|share| share.free_bytes).min().unwrap_or(0)
}

/// Returns notes on clients that differ from the first.
fn notes(found: &[ClientTarget]) -> Vec<String> {
    let Some(first) = found.first() else { return Vec::new() };
    let mut notes = Vec::new();
    let versions = |found: &ClientTarget| found.version.clone();
    if found.iter().any(|other| versions(other) != versions(first)) {
        notes.push("the clients have different versions of skye".to_owned());
    }
    let systems = |found: &ClientTarget| found.environment.target.file_system.clone();
    if found.iter().any(|other| systems(other) != systems(first)) {
        notes.push("the clients have different file systems".to_owned());
    }
    notes.extend(job::bound(found.iter().map(|found| &found.machine)));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Machine;

    fn found(host: &str, mount_point: &str, source: &str, backing: Backing) -> ClientTarget {
        let temp = tempfile::tempdir().unwrap();
        let root = observe::Root::system();
        let mut target = observe::target(&root, temp.path()).unwrap();
        target.mount_point = mount_point.into();
        (target.source, target.device_number) = (source.into(), source.into());
        (target.backing, target.file_system) = (backing, "ext4".into());
        target.space.free_bytes = 100 << 30;
        let machine = Machine { host: host.into(), ..observe::machine(&root) };
        let environment = Environment::new(&machine, target, Vec::new(), Vec::new());
        ClientTarget { machine, environment, version: "0.1.0".into() }
    }

    #[test]
    fn client_sweep_is_limited_to_number_of_clients() {
        let of = |text: &str| {
            let request = Request { sweep: Some(text.into()), ..Request::default() };
            with_sweep(request, 8)
                .map(|request| request.sweep.unwrap_or_default())
                .map_err(|why| why.to_string())
        };
        for (asked, planned) in
            [("h1..hn", "h1..h8"), ("h2..N", "h2..8"), ("h1..h4", "h1..h4"), ("tn..t9", "tn..t9")]
        {
            assert_eq!(of(asked).as_deref(), Ok(planned));
        }
        assert_eq!(of("h1..h9").unwrap_err(), "cannot sweep over h1..h9: there are 8 clients");
    }

    #[test]
    fn clients_sharing_a_remote_directory_are_detected() {
        let nas = |host, at| found(host, at, "nas:/export", Backing::RemoteOrUserSpace);
        assert!(!share_remote_directory(&[]));
        assert!(!share_remote_directory(&[nas("ada", "/nfs"), nas("ada", "/nfs")]));
        let mut clients = vec![nas("ada", "/nfs"), nas("bob", "/mnt")];
        clients[0].environment.target.path = "/nfs/tests".into();
        clients[1].environment.target.path = "/mnt/tests".into();
        assert!(share_remote_directory(&clients));
        clients[1].environment.target.path = "/mnt".into();
        assert!(!share_remote_directory(&clients));
        clients[1] = found("bob", "/mnt", "/dev/sda1", Backing::Devices);
        assert!(!share_remote_directory(&clients));
    }

    #[test]
    fn clients_on_one_file_system_share_its_free_space() {
        let clients = [
            found("ada", "/mnt", "/dev/sda1", Backing::Devices),
            found("ada", "/bound", "/dev/sda1", Backing::Devices),
            found("bob", "/mnt", "/dev/sda1", Backing::Devices),
            found("bob", "/nfs", "nas:/export", Backing::RemoteOrUserSpace),
            found("eve", "/other", "nas:/export", Backing::RemoteOrUserSpace),
            found("eve", "/more", "nas:/export", Backing::RemoteOrUserSpace),
        ];
        assert!(!share_remote_directory(&clients));
        let clients_on_file_system = clients_on_file_system(&clients);
        assert_eq!(clients_on_file_system, [2, 2, 1, 3, 3, 3]);
        // The export has the least for each of its clients.
        assert_eq!(least_room_bytes(&clients, &clients_on_file_system), (100 << 30) / 3);
    }

    #[test]
    fn overlay_shares_space_with_file_system_of_equal_size() {
        let on = |host, source, file_system: &str, total_bytes| {
            let mut found = found(host, "/mnt", source, Backing::Unknown);
            found.environment.target.file_system = file_system.into();
            found.environment.target.space.total_bytes = total_bytes;
            found
        };
        let clients = [
            on("ada", "0:41", "overlay", 1 << 40),
            on("ada", "0:42", "overlay", 1 << 40),
            on("ada", "8:1", "ext4", 1 << 40),
            on("ada", "8:17", "ext4", 1 << 41),
            on("bob", "0:41", "overlay", 1 << 40),
        ];
        assert_eq!(clients_on_file_system(&clients), [3, 3, 3, 1, 1]);
    }
}
