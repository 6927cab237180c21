//! The program under test, with its own home, its output, and the files that it left.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::run::{Interval, PhaseRecord};
use model::schema::{self, Schema};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;
use xtask::capability::{MOUNT_TRACEFS, OTHER_USER};

use super::scratch;

/// Longest time for a run of the program. A run that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(180);

/// Seconds without movement of a program that is [`Skye::impatient`].
pub const IMPATIENT_SECONDS: u64 = 8;

/// A command line of the program that is being put together.
pub struct Skye {
    command: Command,
    home: TempDir,
    stdout_is_set: bool,
    stderr_is_set: bool,
    reads_stdout: bool,
}

/// Returns the program as the process of a rig, as `rig::Rig::start` takes it.
pub fn rig_program() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_skye").into(), "rig-server".into()]
}

/// Returns the program, ready for arguments.
pub fn skye() -> Skye {
    let home = scratch(1 << 20);
    let mut command = Command::new(env!("CARGO_BIN_EXE_skye"));
    command.current_dir(home.path()).stdin(Stdio::null());
    command.env("HOME", home.path()).env("XDG_STATE_HOME", home.path().join("state"));
    command.env("NO_COLOR", "1").env("LC_ALL", "C").env_remove("RUST_LOG");
    Skye { command, home, stdout_is_set: false, stderr_is_set: false, reads_stdout: true }
}

impl Skye {
    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments, given as words between blanks.
    pub fn words(mut self, words: &str) -> Self {
        self.command.args(words.split_whitespace());
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Shortens the time without movement after which it calls something hung, from 20 s. Even a starved machine moves
    /// more often.
    pub fn impatient(self) -> Self {
        self.env("SKYE_TEST_PATIENCE", IMPATIENT_SECONDS.to_string())
    }

    /// Removes a variable from its environment.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Replaces its standard output.
    pub fn stdout(mut self, stdout: Stdio) -> Self {
        self.command.stdout(stdout);
        self.stdout_is_set = true;
        self
    }

    /// Replaces its standard error.
    pub fn stderr(mut self, stderr: Stdio) -> Self {
        self.command.stderr(stderr);
        self.stderr_is_set = true;
        self
    }

    /// Leaves its standard output unread, until [`Running::close_stdout`].
    pub fn unread(mut self) -> Self {
        self.reads_stdout = false;
        self
    }

    /// Returns its home: the working directory, with saved runs below `state`.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs it as a user without rights, from a copy that this user can reach.
    pub fn by_other_user(self) -> Self {
        let binary = self.home.path().join("skye");
        // Another process makes the copy. A descriptor open for writing here would be inherited by programs that other
        // tests start meanwhile. A program that is open for writing cannot be run (ETXTBSY).
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_skye")).arg(&binary).status();
        assert!(copied.is_ok_and(|status| status.success()), "a copy of the program");
        give_to_other_user(self.home.path());
        let mut command = Command::new(&binary);
        self.hand_on(&mut command);
        command.current_dir(self.home.path()).uid(OTHER_USER).gid(OTHER_USER);
        Self { command, home: self.home, stdout_is_set: false, stderr_is_set: false, reads_stdout: true }
    }

    /// Runs it in the cgroup of a rig, from its first instruction on.
    #[allow(dead_code, reason = "of the two test programs, only that of known answers has quotas")]
    pub fn inside(self, rig: &rig::Rig) -> Self {
        let mut command = rig.command_inside(env!("CARGO_BIN_EXE_skye"));
        self.hand_on(&mut command);
        Self { command, ..self }
    }

    /// Runs it where a sandbox forbids a system call, as in many containers: it fails with EPERM.
    pub fn without_call(mut self, call: libc::c_long) -> Self {
        let load = |offset| filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
        let gives = |action| filter(libc::BPF_RET | libc::BPF_K, action, 0, 0);
        let rules = [
            // The filter's input begins with the number of the call.
            load(0),
            filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 0, 1),
            gives(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            gives(libc::SECCOMP_RET_ALLOW),
        ];
        let forbid = move || {
            let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_ptr().cast_mut() };
            // SAFETY: both calls concern this thread alone. The program is read during the call, and lives as long as
            // this closure.
            let failed = unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                    || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
            };
            if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: between fork and exec it only makes system calls, and allocates nothing.
        unsafe { self.command.pre_exec(forbid) };
        self
    }

    /// Runs it within a limit of the shell's ulimit: `-n 16`.
    pub fn within(self, limit: &str) -> Self {
        self.through("sh", &["-c", &format!("ulimit {limit} && exec \"$@\""), "sh"])
    }

    /// Puts the path of its home directory into this variable, too.
    pub fn with_home_in(self, variable: &str) -> Self {
        let home = self.home.path().to_owned();
        self.env(variable, home)
    }

    /// Runs it by another program, which gets the command line as its last arguments.
    pub fn through(mut self, program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg(self.command.get_program()).current_dir(self.home.path());
        self.hand_on(&mut command);
        self.command = command;
        self
    }

    /// Runs it in its own mount namespace, with tracefs at its usual place.
    pub fn with_tracefs(self) -> Self {
        self.through("unshare", &["--mount", "sh", "-c", &format!("{MOUNT_TRACEFS} && exec \"$@\""), "sh"])
    }

    /// Gives another command the arguments and the environment collected so far, and no standard input.
    fn hand_on(&self, command: &mut Command) {
        command.args(self.command.get_args()).stdin(Stdio::null());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// Starts it.
    pub fn spawn(mut self) -> Running {
        if !self.stderr_is_set {
            self.command.stderr(Stdio::piped());
        }
        if !self.stdout_is_set {
            self.command.stdout(Stdio::piped());
        }
        handle_ignored_signals();
        let mut child = self.command.spawn().expect("the program starts");
        let stdout = if self.reads_stdout { child.stdout.take().map(collect) } else { None };
        let stderr = child.stderr.take().map(collect);
        Running { child, stdout, stderr, home: Some(self.home), started: Instant::now() }
    }

    /// Runs it to its end.
    pub fn run(self) -> Output {
        self.spawn().wait()
    }
}

/// Handles the signals that a shell ignores for background processes, if it did so for the tests. A program inherits
/// ignored signals, but not handled ones. A change after each fork would copy the page tables of all tests first.
fn handle_ignored_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the handler does nothing, so it may interrupt any code.
            let before = unsafe { libc::signal(signal, nothing as *const () as libc::sighandler_t) };
            if before != libc::SIG_IGN {
                // SAFETY: this is how the process took the signal before.
                unsafe { libc::signal(signal, before) };
            }
        }
    });
}

fn filter(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes read before an error are worth more than the error.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The program while it runs. It is killed when this is dropped.
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
    home: Option<TempDir>,
    started: Instant,
}

impl Running {
    /// Sends it a signal, unless it has ended already.
    pub fn signal(&mut self, signal: Signal) {
        if let Ok(None) = self.child.try_wait() {
            let pid = Pid::from_child(&self.child);
            rustix::process::kill_process(pid, signal).expect("a signal to our own child");
        }
    }

    /// Sends it a signal, and waits until one of its threads takes it. The kernel makes one of two equal signals that wait.
    #[track_caller]
    pub fn send_taken(&mut self, signal: Signal) {
        self.signal(signal);
        let status = format!("/proc/{}/status", self.id());
        let is_pending = || {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap_or("0");
            mask.trim().chars().any(|digit| digit != '0')
        };
        assert!(self.wait_until(|| !is_pending()), "no thread takes the signal");
    }

    /// Returns its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the time since it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns true if it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Closes our end of its standard output: the reader goes away.
    pub fn close_stdout(&mut self) {
        self.child.stdout = None;
    }

    /// Returns true if it has done what it can to end. A thread that waits in the kernel keeps the process from
    /// vanishing, but not its first thread from leaving.
    pub fn has_left(&mut self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        self.has_ended() || state == Some('Z')
    }

    /// Waits until `holds` is true or the program ends. Returns true if it holds.
    pub fn wait_until(&mut self, mut holds: impl FnMut() -> bool) -> bool {
        while !holds() {
            if self.has_ended() {
                return holds();
            }
            assert!(self.started.elapsed() < DEADLINE, "the program did not come so far");
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Output {
        let waits = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                break status;
            }
            if waits.elapsed() > DEADLINE {
                // Its output cannot be read: the pipe stays open as long as the program lives.
                panic!("the program hangs");
            }
            thread::sleep(Duration::from_millis(2));
        };
        let text = |reader: Option<JoinHandle<String>>| {
            reader.map_or_else(String::new, |reader| reader.join().expect("what the program said"))
        };
        Output {
            code: status.code(),
            signal: status.signal(),
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
            took: self.started.elapsed(),
            home: self.home.take(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // A process that waits for a device or server does not even die. The device or server may be undone after this.
        let deadline = Instant::now() + Duration::from_secs(2);
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Result of a run of the program.
#[derive(Debug)]
pub struct Output {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Time that it took.
    pub took: Duration,
    home: Option<TempDir>,
}

impl Output {
    /// Returns the exit code as a shell shows it: 128 and the signal if a signal ended it.
    pub fn shell_code(&self) -> Option<i32> {
        self.code.or(self.signal.map(|signal| 128 + signal))
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.shell_code(), Some(code), "{self}");
        self
    }

    /// Asserts that its standard error contains each of these words.
    #[track_caller]
    pub fn stderr_contains(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not said\n{self}");
        }
        self
    }

    /// Asserts that its standard output or error contains each of these words, wherever lines are broken.
    #[track_caller]
    pub fn output_contains(self, words: &[&str]) -> Self {
        let flowing = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let report = format!("{} {}", flowing(&self.stdout), flowing(&self.stderr));
        for word in words {
            assert!(report.contains(word), "`{word}` is not told\n{self}");
        }
        self
    }

    /// Asserts that it printed no result: at most the title line, which comes before anything is known.
    #[track_caller]
    pub fn has_no_result(self) -> Self {
        let lines = self.stdout.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(lines <= 1 && self.saved().is_empty(), "{:?} saved\n{self}", self.saved());
        self
    }

    /// Asserts that it did not panic: a panic's message is for programmers, not for users.
    #[track_caller]
    pub fn did_not_panic(self) -> Self {
        assert!(!self.stderr.contains("panicked at"), "{self}");
        self
    }

    /// Returns the home that it ran with.
    pub fn home(&self) -> &Path {
        self.home.as_ref().map_or(Path::new("/"), TempDir::path)
    }

    /// Returns the documents of the runs that it saved.
    pub fn saved(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = files_below(self.home()).into_iter().filter(|path| is_json(path)).collect();
        found.sort();
        found
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, signal, stdout, stderr, took, .. } = self;
        write!(
            f,
            "code {code:?}, signal {signal:?}, after {took:?}\n-- stdout\n{stdout}\n-- stderr\n{stderr}"
        )
    }
}

fn is_json(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("json"))
}

pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}

/// Returns the words without `-u root`, unless root runs the tests.
pub fn for_this_user(words: &str) -> String {
    if rustix::process::geteuid().is_root() { words.to_owned() } else { words.replace("-u root", "") }
}

/// Returns the leftovers of the program in a directory: everything whose name begins as its own names do.
pub fn leftovers(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let names = entries.map(|entry| entry.expect("a directory entry").path());
    let mut found: Vec<_> = names
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("skye.")))
        .collect();
    found.sort();
    found
}

/// Returns true if a run has its marker in a directory. Before, it may be starting.
#[allow(
    dead_code,
    reason = "of the two test programs, only the end-to-end tests kill runs that have just started"
)]
pub fn has_marker(directory: &Path) -> bool {
    leftovers(directory).iter().any(|work| work.join(model::marker::FILE_NAME).exists())
}

/// Asserts that the program has left nothing in a directory.
#[track_caller]
pub fn assert_nothing_left(directory: &Path) {
    let left = leftovers(directory);
    let below: Vec<_> = left.iter().flat_map(|path| files_below(path)).take(5).collect();
    assert!(left.is_empty(), "left behind: {left:?} with {below:?}");
}

/// Reads a run document, and asserts that it fits the committed schema.
#[track_caller]
pub fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_document(&text)
}

/// Parses the text of a run document, and asserts that it fits the schema.
#[track_caller]
pub fn parse_document(text: &str) -> Value {
    parse(text, &schema::RUN)
}

/// Parses the text of a comparison, and asserts that it fits the schema.
#[track_caller]
#[allow(dead_code, reason = "of the two test programs, only the end-to-end tests compare")]
pub fn parse_comparison(text: &str) -> Value {
    parse(text, &schema::COMPARISON)
}

#[track_caller]
fn parse(text: &str, names: &Schema) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let committed = fs::read_to_string(xtask::root().join(names.file)).expect("the committed schema");
    let schema: Value = serde_json::from_str(&committed).expect("the committed schema is JSON");
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler.add_resource(names.urn, schema).expect("a schema");
    let index = compiler.compile(names.urn, &mut schemas).expect("a valid schema");
    if let Err(error) = schemas.validate(&value, index) {
        panic!("no {} document: {error:#}", names.title);
    }
    value
}

/// Returns the phases of a run document as (verb, status).
pub fn phases(run: &Value) -> Vec<(&str, &str)> {
    let phases = run["phases"].as_array().expect("phases");
    phases
        .iter()
        .map(|phase| (phase["name"].as_str().unwrap_or(""), phase["status"].as_str().unwrap_or("")))
        .collect()
}

/// Returns the intervals of a phase, which documents hold as columns.
pub fn intervals(phase: &Value) -> Vec<Interval> {
    serde_json::from_value::<PhaseRecord>(phase.clone()).expect("a phase of a run").figures.intervals
}

/// Gives a file or directory to the user without rights.
pub fn give_to_other_user(path: &Path) {
    std::os::unix::fs::chown(path, Some(OTHER_USER), Some(OTHER_USER)).expect("root may give files away");
}

/// Lets everybody pass through a directory, or read what they can name in it.
pub fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions of our own file");
}
