//! `--monitor`: a user's command that runs beside each test, and its output.
//!
//! The command only ever comes from the command line: a preset may come from another user, and must not bring commands
//! along. Its output is held in memory while its test runs, and saved afterwards: the measured disk may be the one on
//! which results are saved. The command has its own process group, which ends with its test, however that ends.
//! Processes that have left the group end, too.

use std::collections::HashSet;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::plan::Plan;
use model::run::{Environment, MonitorRecord};
use model::{PlannedPhase, UserError};
use observe::Root;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, set_child_subreaper, waitid,
};

use crate::cli::RunArguments;
use crate::exit::Failure;
use crate::signals::Interruption;
use crate::{inputs, outputs, store};

/// Output limit of a command beside one test. The output is held in memory during the test.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// Interval between checks whether the command is ready. The command has this long at least.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for the command. Its test then begins, whether the command is ready or not.
const READY_MAX: Duration = Duration::from_secs(2);
/// Signals that the command is sent when its test is over, and their delays. Tools write down what they have seen on
/// INT.
const CALLS: [(Duration, Signal, &str); 3] = [
    (Duration::ZERO, Signal::INT, "INT"),
    (Duration::from_secs(2), Signal::TERM, "TERM"),
    (Duration::from_secs(5), Signal::KILL, "KILL"),
];
/// Wait after the last signal. A process that is left then will not go.
const GIVE_UP: Duration = Duration::from_secs(1);
/// Largest pipe without the help of root (/proc/sys/fs/pipe-max-size).
const PIPE_BYTES: usize = 1 << 20;
/// Longest wait for output.
const TAKE_POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Interval between checks whether the command has ended.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The command, and its state beside the running test.
#[derive(Debug)]
pub struct Monitor {
    command: String,
    target: String,
    /// Directory for output; made for this run alone.
    directory: PathBuf,
    /// Path for the document of the run, beside the directory.
    document: PathBuf,
    interruption: Interruption,
    /// True if this test has its command already: tests on files begin many times.
    has_started: bool,
    running: Option<Running>,
    record: Option<MonitorRecord>,
    warnings: Vec<String>,
    /// Causes of warnings so far. A problem beside each test is reported once.
    reported: Vec<String>,
}

impl Monitor {
    /// Refuses what cannot be done, before anything is made.
    ///
    /// # Errors
    /// No other program can run beside these tests, or there is no place for its output.
    pub fn check(arguments: &RunArguments, plan: &Plan) -> Result<(), Failure> {
        let Some(command) = &arguments.monitor else { return Ok(()) };
        let refused = |cause: &str, help: &str| {
            let error = UserError::new(format!("run `{command}` during the tests"), cause).help(help);
            Err(Failure::refused(error))
        };
        let is_simulated = |phase: &PlannedPhase| phase.engine.has_virtual_clock();
        if plan.phases.iter().any(is_simulated) {
            return refused(
                "a simulated device has its own clock, which no other program uses",
                "drop --monitor",
            );
        }
        match place(arguments) {
            None => refused(
                "there is no place for its output: neither XDG_STATE_HOME nor HOME is set",
                "choose one with -o DIR",
            ),
            Some(_) if arguments.output.is_none() && !store::accepts(plan) => refused(
                "results of the engines null and nop are not saved, so its output would not be saved",
                "choose a directory with -o DIR",
            ),
            Some(place) => inputs::with_hang_check(&place, outputs::try_directory)
                .map_err(|error| no_place(command, &place, error)),
        }
    }

    /// Makes the place for output, if there is a command.
    ///
    /// # Errors
    /// The place cannot be made.
    pub fn prepare(
        arguments: &RunArguments,
        environment: &Environment,
        started_at: &str,
        interruption: &Interruption,
    ) -> Result<Option<Self>, Failure> {
        let (Some(command), Some(place)) = (&arguments.monitor, place(arguments)) else { return Ok(None) };
        let (directory, document) =
            store::reserve(&place, started_at).map_err(|error| no_place(command, &place, error))?;
        Ok(Some(Self {
            command: command.clone(),
            target: environment.target.path.clone(),
            // Made absolute, as the command may change its directory before it uses the name.
            directory: std::path::absolute(&directory).unwrap_or(directory),
            document,
            interruption: interruption.clone(),
            has_started: false,
            running: None,
            record: None,
            warnings: Vec::new(),
            reported: Vec::new(),
        }))
    }

    /// Returns the path under which the run is to be saved.
    pub fn document(&self) -> &Path {
        &self.document
    }

    /// Returns the directory of the output, if there is any.
    pub fn output_dir(&self) -> Option<&Path> {
        let mut entries = std::fs::read_dir(&self.directory).ok()?;
        entries.next().map(|_| self.directory.as_path())
    }

    /// Starts the command, and gives it time to get ready. A test that has its command already goes on with it.
    pub fn begin(&mut self, id: &str, spec: &str) {
        // A command that would end before it has begun tells nothing.
        if std::mem::replace(&mut self.has_started, true) || self.interruption.is_raised() {
            return;
        }
        let again = (1u32..).map(|action| match action {
            1 => self.directory.join(format!("{id}.txt")),
            // The same test is measured a second time.
            _ => self.directory.join(format!("{id}.again{action}.txt")),
        });
        let path = again.into_iter().find(|path| !path.exists()).unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", &self.command]);
        command.env("SKYE_SPEC", spec).env("SKYE_TARGET", &self.target);
        command.env("SKYE_PID", std::process::id().to_string()).env("SKYE_OUTPUT", &self.directory);
        match Running::start(command, id.to_owned(), path) {
            Ok(running) => {
                running.wait_until_ready(&self.interruption);
                self.running = Some(running);
                self.watch();
            }
            Err(error) => {
                let action = format!("start `{}` during {id}", self.command);
                self.warn(UserError::new(action, error).help("test it with sh -c first"));
            }
        }
    }

    /// Kills a command that prints more than may be held in memory during a measurement.
    pub fn watch(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        if self.warn_output_limit(&mut running) {
            let _ = kill_process_group(running.group, Signal::KILL);
        }
        self.running = Some(running);
    }

    /// Warns once of a command that has printed more than is held. Returns true if it warns now.
    fn warn_output_limit(&mut self, running: &mut Running) -> bool {
        let is_new = running.floods() && !running.is_flooding;
        if is_new {
            running.is_flooding = true;
            let action = format!("run `{}` for all of {}", self.command, running.id);
            let cause = format!("it printed more than {}", model::size::binary(OUTPUT_BYTES_MAX));
            let help = "set it to write to files in $SKYE_OUTPUT, on another disk";
            self.warn(UserError::new(action, cause).help(help));
        }
        is_new
    }

    /// Ends the command, as its test is over.
    pub fn end(&mut self) {
        self.has_started = false;
        let Some(mut running) = self.running.take() else { return };
        let ending = running.end(|| self.interruption.is_repeated());
        self.warn_output_limit(&mut running);
        let name = running.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = &running.id;
        let in_directory = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let output_file = ending.saved.is_ok().then(|| format!("{in_directory}/{name}"));
        if let Some(how) = ending.failed_early.as_ref().filter(|_| !running.is_flooding) {
            let action = format!("run `{}` for all of {id}", self.command);
            let help = format!("its output is in {}", running.path.display());
            self.warn(UserError::new(action, format!("it ended early with {how}")).help(help));
        }
        if !ending.left.is_empty() {
            let action = format!("stop `{}` at the end of {id}", self.command);
            let left = ending.left.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
            let cause = "some of its processes survived INT, TERM and KILL";
            let help = format!("kill processes {left} as their owner");
            self.warn(UserError::new(action, cause).help(help));
        } else if ending.last_signal == Some("KILL") && !self.interruption.is_repeated() {
            let action = format!("stop `{}` with SIGINT at the end of {id}", self.command);
            let cause = format!("it ran for {} s after INT, and was killed", CALLS[2].0.as_secs());
            self.warn(UserError::new(action, cause).help("use a command that ends on INT or TERM"));
        }
        if let Err(error) = ending.saved {
            let action = format!("save the output of `{}` during {id}", self.command);
            self.warn(
                UserError::new(action, error)
                    .help("choose another directory with -o DIR, or free some space"),
            );
        }
        self.record = Some(MonitorRecord {
            command: self.command.clone(),
            output_file,
            exit_code: ending.status.and_then(|status| status.code()),
            signal: ending.status.and_then(|status| status.signal()),
            last_signal: ending.last_signal.map(Into::into),
        });
    }

    /// Returns the record of the command beside the last test, and its warnings.
    pub fn take(&mut self) -> (Option<MonitorRecord>, Vec<String>) {
        (self.record.take(), std::mem::take(&mut self.warnings))
    }

    fn warn(&mut self, error: UserError) {
        if !self.reported.contains(&error.cause) {
            self.reported.push(error.cause.clone());
            self.warnings.push(error.to_string());
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.running = None;
        // This removes the directory only if it is empty.
        let _ = std::fs::remove_dir(&self.directory);
    }
}

fn no_place(command: &str, place: &Path, error: std::io::Error) -> Failure {
    let action = format!("save the output of `{command}` in {}", place.display());
    Failure::refused(UserError::new(action, error).help("choose a writable directory with -o DIR"))
}

/// Returns the directory for the results of the run.
fn place(arguments: &RunArguments) -> Option<PathBuf> {
    arguments.output.clone().or_else(store::directory)
}

/// The command while it runs. When dropped, it ends at once, and its output is saved.
#[derive(Debug)]
struct Running {
    leader: Child,
    group: Pid,
    /// The test that it runs beside.
    id: String,
    /// Output of the command, and of all that it starts.
    output: Output,
    path: PathBuf,
    is_over: bool,
    /// True if it was killed for printing too much.
    is_flooding: bool,
}

/// Result of ending the command.
#[derive(Debug)]
struct MonitorEnd {
    /// `None` where the status is unknown, or the command has not ended.
    status: Option<std::process::ExitStatus>,
    /// Last signal that was needed.
    last_signal: Option<&'static str>,
    /// Exit code or signal, if the command had failed before it was to end.
    failed_early: Option<String>,
    /// Processes that could not be ended.
    left: Vec<i32>,
    saved: std::io::Result<()>,
}

impl Running {
    fn start(mut command: Command, id: String, path: PathBuf) -> std::io::Result<Self> {
        // A process that leaves the group and loses its parent becomes our child, and can still be found.
        set_child_subreaper(Some(getpid()))?;
        let (output, writer) = Output::new()?;
        command.env("SKYE_PHASE", &id);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        let leader = command.spawn()?;
        let group = Pid::from_child(&leader);
        Ok(Self { leader, group, id, output, path, is_over: false, is_flooding: false })
    }

    /// Returns true if the command has printed more than may be held.
    fn floods(&self) -> bool {
        self.output.printed.has_more.load(Ordering::Relaxed)
    }

    /// Waits until all of its processes sleep and have done so for a while. A tool may take longer to compile a program
    /// for the kernel, say, than to start.
    fn wait_until_ready(&self, interruption: &Interruption) {
        let since = Instant::now();
        let mut worked_before = 0;
        while since.elapsed() < READY_MAX && !interruption.is_raised() && !self.floods() {
            std::thread::sleep(POLL_INTERVAL);
            let members = self.members();
            let worked: u64 = members.iter().map(|member| member.cpu_ticks).sum();
            let is_asleep = members.iter().all(|member| matches!(member.state, 'S' | 'I' | 'T' | 'Z'));
            if is_asleep && worked == worked_before {
                break;
            }
            worked_before = worked;
        }
    }

    /// Returns how the first process ended, if it has: the exit code, or else the signal. The process is not reaped.
    /// Its number is that of the group, and must not go to another process while the group is sent signals.
    fn leader_ended(&self) -> Option<Result<i32, i32>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.group), options) {
            Ok(None) => None,
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Some(Ok(code)),
                (None, signal) => Some(Err(signal.unwrap_or(0))),
            },
            // Our parent left SIGCHLD ignored, so the kernel keeps no exit status.
            Err(_) => Some(Ok(0)),
        }
    }

    fn lives(&self) -> bool {
        self.leader_ended().is_none() || !self.alive().is_empty()
    }

    fn members(&self) -> Vec<Member> {
        members(self.group, &self.id)
    }

    /// Returns its processes that have not ended, in its group or not.
    fn alive(&self) -> Vec<Member> {
        self.members().into_iter().filter(Member::lives).collect()
    }

    /// Ends the command, with all that it started. If `in_haste`, does not wait for what the processes may have to
    /// write down.
    fn end(&mut self, in_haste: impl Fn() -> bool) -> MonitorEnd {
        self.is_over = true;
        let failed_early = match self.leader_ended() {
            None | Some(Ok(0)) => None,
            Some(Ok(code)) => Some(format!("exit code {code}")),
            Some(Err(signal)) => Some(format!("signal {signal}")),
        };
        let since = Instant::now();
        let mut calls = CALLS.iter().peekable();
        let mut last_signal = None;
        let mut left = Vec::new();
        // Processes outside of the group that got the last signal. A process that loses its parent then is seen only
        // later.
        let mut signalled = HashSet::new();
        while self.lives() {
            if let Some((_, signal, name)) =
                calls.next_if(|(after, ..)| since.elapsed() >= *after || in_haste())
            {
                // Some may belong to another user; they show by going on.
                let _ = kill_process_group(self.group, *signal);
                last_signal = Some((*signal, *name));
                signalled.clear();
            } else if calls.peek().is_none() && since.elapsed() >= CALLS[2].0 + GIVE_UP {
                left = self.alive().iter().map(|member| member.pid).collect();
                break;
            }
            let outside = self.alive().into_iter().filter(|member| member.is_outside);
            for pid in outside.map(|member| member.pid).filter(|pid| signalled.insert(*pid)) {
                // This is a child of ours, and not yet reaped: no other process has its number.
                let _ =
                    last_signal.zip(Pid::from_raw(pid)).map(|((signal, _), pid)| kill_process(pid, signal));
            }
            std::thread::sleep(END_POLL_INTERVAL);
        }
        let last_signal = last_signal.map(|(_, name)| name);
        let status = self.leader.try_wait().ok().flatten();
        MonitorEnd { status, last_signal, failed_early, left, saved: self.save() }
    }

    fn save(&mut self) -> std::io::Result<()> {
        let printed = self.output.end();
        outputs::write_file(&self.path, printed).map_err(|error| std::io::Error::other(error.cause))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.end(|| true);
        }
    }
}

/// Collects the output of a command as fast as it comes, through a pipe. A process that opens the pipe again, for
/// example as /dev/stderr, takes nothing from the output of another.
#[derive(Debug)]
struct Output {
    printed: Arc<OutputBuffer>,
    taker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct OutputBuffer {
    bytes: Mutex<Vec<u8>>,
    /// True if there was more output than may be held.
    has_more: AtomicBool,
    /// True if only the rest of the pipe is to be taken.
    is_over: AtomicBool,
}

impl Output {
    fn new() -> std::io::Result<(Self, PipeWriter)> {
        let (mut reader, writer) = std::io::pipe()?;
        fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        // A large pipe wakes us less often if much is printed. If the size is refused, the kernel's default stays.
        let _ = fcntl_setpipe_size(&reader, PIPE_BYTES);
        let printed = Arc::<OutputBuffer>::default();
        let theirs = Arc::clone(&printed);
        let taker = observe::thread::start("monitor", 128 << 10, move || theirs.take_all(&mut reader))?;
        Ok((Self { printed, taker: Some(taker) }, writer))
    }

    /// Returns all output, without waiting for processes that could still print.
    fn end(&mut self) -> Vec<u8> {
        self.printed.is_over.store(true, Ordering::Release);
        if let Some(taker) = self.taker.take() {
            let _ = taker.join();
        }
        std::mem::take(&mut self.printed.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OutputBuffer {
    fn take_all(&self, reader: &mut PipeReader) {
        let mut part = vec![0; PIPE_BYTES];
        loop {
            // Loaded before the read of the pipe, so that all output until then is taken.
            let is_over = self.is_over.load(Ordering::Acquire);
            match reader.read(&mut part) {
                Ok(0) => return,
                Ok(length) => {
                    let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = (OUTPUT_BYTES_MAX as usize).saturating_sub(bytes.len());
                    bytes.extend_from_slice(&part[..length.min(room)]);
                    self.has_more.fetch_or(length > room, Ordering::Relaxed);
                    // Processes that could not be ended may print forever.
                    if is_over && length > room {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && !is_over => {
                    let _ = poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&TAKE_POLL_TIMEOUT));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

/// A process of a command.
#[derive(Debug, PartialEq)]
struct Member {
    pid: i32,
    /// True if it has left the group, and lost its parent to become our child.
    is_outside: bool,
    state: char,
    /// CPU time that it has taken.
    cpu_ticks: u64,
}

impl Member {
    fn lives(&self) -> bool {
        observe::is_process_alive(&Root::system(), self.pid)
    }
}

/// Returns the processes of a command beside a test, by its group, as far as they can be seen.
fn members(group: Pid, id: &str) -> Vec<Member> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let own = std::process::id() as i32;
    let all = stats.filter_map(|stat| member(&stat, group.as_raw_nonzero().get(), own));
    all.filter(|member| !member.is_outside || was_started_by_monitor(member.pid, id)).collect()
}

/// Returns true if a child process belongs to the command beside this test: its environment has that `SKYE_PHASE`.
fn was_started_by_monitor(pid: i32, id: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable.strip_prefix(b"SKYE_PHASE=") == Some(id.as_bytes()))
}

/// Reads a process's `stat`, if the process is of that group, or a child of `own` in another.
fn member(stat: &str, group: i32, own: i32) -> Option<Member> {
    // The command's name may contain blanks and parentheses; what follows the last one does not.
    let (before, rest) = stat.rsplit_once(')')?;
    let pid = before.split_once(' ')?.0.parse().ok()?;
    let words: Vec<_> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u64>().ok());
    let is_outside = words.get(2)?.parse() != Ok(group);
    if is_outside && words.get(1)?.parse() != Ok(own) {
        return None;
    }
    let state = words.first()?.chars().next()?;
    Some(Member { pid, is_outside, state, cpu_ticks: number(11)? + number(12)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn monitor_drop_kills_children_and_keeps_output() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("01-read.txt");
        // A panic of the driver drops it, too. Neither INT nor TERM ends these.
        let script = "trap '' INT TERM; sleep 1000 & echo told; sleep 1000";
        let running = Running::start(sh(script), "01-read".into(), path.clone()).unwrap();
        let group = running.group;
        running.wait_until_ready(&Interruption::default());
        // A dead process may wait to be reaped.
        let alive = || members(group, "01-read").iter().filter(|member| member.lives()).count();
        assert_ne!(alive(), 0);
        drop(running);
        assert_eq!(alive(), 0);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "told\n");
        let names = std::fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(names.collect::<Vec<_>>(), [path]);
    }

    #[test]
    fn exited_monitor_is_not_signalled() {
        let temp = tempfile::tempdir().unwrap();
        for (script, early, code) in [("exit 0", None, 0), ("exit 3", Some("exit code 3"), 3)] {
            let mut running = Running::start(sh(script), "04-ended".into(), temp.path().join("x")).unwrap();
            running.leader_has_ended_within(Duration::from_secs(20));
            let ending = running.end(|| false);
            assert_eq!((ending.failed_early.as_deref(), ending.last_signal), (early, None));
            assert_eq!(ending.status.and_then(|status| status.code()), Some(code));
        }
    }

    #[test]
    fn monitor_kills_processes_outside_its_group() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("01-read.txt");
        let script = "echo first; setsid sh -c 'echo $$; exec sleep 1000' & \
            sleep 0.2; echo second >/dev/stderr; echo third | tee /dev/stderr >/dev/stdout; exit 0";
        let mut running = Running::start(sh(script), "02-left".into(), path.clone()).unwrap();
        running.leader_has_ended_within(Duration::from_secs(20));
        let ending = running.end(|| false);
        // A shell starts background processes with INT ignored.
        assert_eq!((ending.left.as_slice(), ending.last_signal), (&[][..], Some("TERM")));
        let printed = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = printed.lines().collect();
        assert!(
            lines.len() == 5 && ["first", "second", "third"].iter().all(|line| lines.contains(line)),
            "{printed}"
        );
        let pid: i32 = lines.iter().find_map(|line| line.parse().ok()).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }

    #[test]
    fn monitor_orphan_is_killed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("01-read.txt");
        let command = sh("setsid sh -c 'trap \"\" INT TERM HUP; echo $$; sleep 1000 & sleep 1000'");
        let mut running = Running::start(command, "03-loses".into(), path.clone()).unwrap();
        running.wait_until_ready(&Interruption::default());
        let ending = running.end(|| true);
        assert_eq!((ending.left.as_slice(), ending.last_signal), (&[][..], Some("KILL")));
        let session = std::fs::read_to_string(&path).unwrap();
        // No process is left of the session that the command made for itself.
        let group = Pid::from_raw(session.trim().parse().unwrap()).unwrap();
        assert!(!members(group, "03-loses").iter().any(Member::lives));
    }

    #[test]
    fn monitor_output_is_capped_at_the_limit() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("01-read.txt");
        let mut running = Running::start(sh("exec yes"), "05-yes".into(), path.clone()).unwrap();
        let since = Instant::now();
        while !running.floods() {
            assert!(since.elapsed() < Duration::from_secs(60), "it prints too little");
            std::thread::sleep(END_POLL_INTERVAL);
        }
        running.end(|| true);
        assert_eq!(path.metadata().unwrap().len(), OUTPUT_BYTES_MAX);
    }

    impl Running {
        fn leader_has_ended_within(&self, longest: Duration) {
            let since = Instant::now();
            while self.leader_ended().is_none() {
                assert!(since.elapsed() < longest, "it does not end");
                std::thread::sleep(END_POLL_INTERVAL);
            }
        }
    }

    #[test]
    fn process_group_members_are_identified_by_their_stat() {
        let stat = "77 (a) (b c) S 1 70 70 0 -1 4194304 1 0 0 0 12 30 0 0 20 0 1 0 5 1 1";
        let known = |is_outside| Some(Member { pid: 77, is_outside, state: 'S', cpu_ticks: 42 });
        assert_eq!(member(stat, 70, 5), known(false));
        assert_eq!(member(stat, 77, 1), known(true), "a child of ours");
        assert_eq!(member(stat, 77, 5), None);
        assert_eq!(member("", 77, 5), None);
        assert_eq!(member("77 (a) S 1 77", 77, 5), None);
    }
}
