//! Hostile coordinators and hostile agents: frames of a session, spoilt at random. Neither side panics, hangs, or touches
//! anything outside its directory.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::support::program::{assert_nothing_left, files_below, leftovers, skye};
use crate::support::scratch;

/// Room for the files of a session.
const ROOM: u64 = 64 << 20;
/// Time in which a side that got nonsense must have ended.
const DEADLINE: Duration = Duration::from_secs(60);
/// Agents of which one is watched by strace.
const WATCHED: u32 = 16;

fn duration() -> Duration {
    Duration::from_secs(xtask::sized(10, 600))
}

fn framed(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn hello() -> Value {
    json!({"protocol": 2, "version": "0", "session": "s"})
}

/// Returns the frames of a coordinator, in their order.
fn orders() -> Vec<Value> {
    let request = json!({
        "tests": ["read:rnd4k:buffered", "write:rnd4k:shared", "create:files=10:shared"], "size": "1m", "time": 0.02,
        "probe": false, "allow": ["low-space", "busy"]
    });
    let phase = |index: u32| {
        json!({"phase": {
            "other": {"number": 1, "directory": "skye.000000", "is_sound": true}, "recreate_files": false,
            "index": index, "repetition": 1, "time": {"measured_ns": 20_000_000, "budget_ns": 1_000_000_000}
        }})
    };
    let start = || json!({"start": {"at_ns": 1}});
    vec![
        json!({"beat": {}}),
        json!({"plan": {"request": request, "seed": 7, "number": 0, "count": 2, "clients_on_file_system": 2}}),
        json!({"ping": {"number": 0}}),
        json!({"open": {"clients_per_machine": 1}}),
        json!({"neighbours": {}}),
        json!({"lay_out": {"time_ns": 1_000_000_000, "first": "skye.000000"}}),
        phase(0),
        start(),
        phase(1),
        start(),
        phase(2),
        start(),
        json!({"watch": {"at_ns": 1}}),
        json!({"watched": {}}),
        json!({"clear": {}}),
        json!({"close": {}}),
    ]
}

/// Returns a value that means harm.
fn harmful(random: &mut fastrand::Rng) -> Value {
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    let values = [
        Value::Null,
        json!(""),
        json!("../victim"),
        json!("/etc/passwd"),
        json!("skye.../ab"),
        json!("\u{1b}[2J\0"),
        json!("x".repeat(100_000)),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(true),
        json!([]),
        json!({}),
        json!(["create:files=4000m", "write:rnd4k:bytes=1t"]),
        deep,
    ];
    values[random.usize(..values.len())].clone()
}

/// Replaces or removes a part of a document.
fn spoil(document: &mut Value, random: &mut fastrand::Rng) {
    let is_here = random.u32(..4) == 0;
    match document {
        Value::Object(map) if !map.is_empty() && !is_here => {
            let key = map.keys().nth(random.usize(..map.len())).unwrap().clone();
            match random.u32(..6) {
                0 => drop(map.remove(&key)),
                _ => spoil(&mut map[&key], random),
            }
        }
        Value::Array(all) if !all.is_empty() && !is_here => {
            let index = random.usize(..all.len());
            spoil(&mut all[index], random);
        }
        other => *other = harmful(random),
    }
}

/// Returns the bytes of a session of which something is wrong.
fn spoilt(frames: &[Value], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut frames = frames.to_vec();
    for _ in 0..random.u32(1..4) {
        let at = random.usize(..frames.len());
        match random.u32(..8) {
            0 => drop(frames.remove(at)),
            1 => frames.insert(at, frames[random.usize(..frames.len())].clone()),
            2 => frames.swap(at, 0),
            _ => spoil(&mut frames[at], random),
        }
        if frames.is_empty() {
            break;
        }
    }
    let mut bytes: Vec<u8> = frames.iter().flat_map(framed).collect();
    if random.u32(..4) == 0 && !bytes.is_empty() {
        let at = random.usize(..bytes.len());
        match random.u32(..3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.u8(..),
            _ => bytes.insert(at, random.u8(..)),
        }
    }
    bytes
}

/// Waits until a process has ended by itself, and returns what it said.
#[track_caller]
fn wait_for_exit(mut child: Child, text: &dyn Fn() -> String) -> String {
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > DEADLINE => {
                let _ = child.kill();
                panic!("it hangs: {}", text());
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(
        matches!(status.code(), Some(0..=3)) && !message.contains("panicked"),
        "{status}: {message}\n{}",
        text()
    );
    message
}

/// Write limit of an agent.
const LIMIT: u64 = 24 << 20;

/// Returns an agent in a directory, perhaps watched.
fn agent(directory: &Path, trace: Option<&Path>) -> Child {
    command(directory, trace).spawn().unwrap()
}

/// Returns an agent in a directory, with more words.
fn agent_with(directory: &Path, words: &[&str]) -> Child {
    command(directory, None).args(words).spawn().unwrap()
}

fn command(directory: &Path, trace: Option<&Path>) -> Command {
    let program = env!("CARGO_BIN_EXE_skye");
    let mut command = match trace {
        None => Command::new(program),
        Some(trace) => {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-e", "trace=%file,listen,bind,execve", "-o"]).arg(trace).arg(program);
            strace
        }
    };
    command.args(["agent", "--dir"]).arg(directory);
    command.args(["--allow", "low-space", "--allow", "busy", "--allow", "shared-directory"]);
    command
        .args(["--write-limit", &LIMIT.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Asserts that a traced agent has changed nothing outside its directory, and opened no door.
#[track_caller]
fn stayed_inside(trace: &str, directory: &Path) {
    let changes =
        ["O_CREAT", "O_WRONLY", "O_RDWR", "mkdir", "unlink", "rename", "link", "rmdir", "chmod", "chown"];
    for line in trace.lines() {
        assert!(!line.contains("listen(") && !line.contains("bind("), "{line}");
        let is_change = changes.iter().any(|change| line.contains(change)) && !line.contains("readlink");
        let path = line.split('"').nth(1).unwrap_or_default();
        // A relative path begins at a descriptor of the directory.
        let is_inside =
            !path.starts_with('/') && !path.contains("..") || Path::new(path).starts_with(directory);
        let is_own = ["/dev/", "/proc/"].iter().any(|place| path.starts_with(place));
        assert!(!is_change || is_inside || is_own, "{line}");
    }
}

#[test]
fn agent_with_invalid_input_stays_in_its_directory() {
    xtask::require!(strace);
    let home = scratch(ROOM);
    let directory = home.path().join("work");
    let victim = home.path().join("victim");
    fs::create_dir(&directory).unwrap();
    fs::write(&victim, "precious").unwrap();
    answers(&directory);
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    let mut sessions = 0;
    while start.elapsed() < duration() {
        let trace = home.path().join("trace");
        let is_watched = sessions % WATCHED == 0;
        let mut child = agent(&directory, is_watched.then_some(trace.as_path()));
        let bytes = [framed(&hello()), spoilt(&orders(), &mut random)].concat();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            let _ = stdout.read_to_end(&mut received);
            received
        });
        // It may end before it has taken all.
        let _ = stdin.write_all(&bytes);
        // Frames that it has not carried out by the end of its input are dropped.
        std::thread::sleep(Duration::from_millis(random.u64(..800)));
        drop(stdin);
        let text = || format!("seed {seed}, session {sessions}: {}", String::from_utf8_lossy(&bytes));
        wait_for_exit(child, &text);
        reader.join().unwrap();
        if is_watched {
            stayed_inside(&fs::read_to_string(&trace).unwrap(), &directory);
            fs::remove_file(&trace).unwrap();
        }
        assert_eq!(leftovers(&directory), Vec::<std::path::PathBuf>::new(), "{}", text());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{}", text());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "{}", text());
        sessions += 1;
    }
    println!("{sessions} sessions");
    assert!(sessions > 3);
}

/// A session with an agent, frame by frame.
struct Talk {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    received: Vec<Value>,
    read_bytes: u64,
    /// Name of its work directory.
    own: String,
}

impl Talk {
    /// Begins a session about these tests, and lays out their files.
    fn begin(directory: &Path, tests: &[&str]) -> Self {
        let mut talk = Self::open(directory, tests);
        talk.order(&json!({"lay_out": {"time_ns": 1_000_000_000}}), "laid_out");
        talk
    }

    /// Begins a session about these tests.
    fn open(directory: &Path, tests: &[&str]) -> Self {
        Self::for_client(directory, tests, "s", 0, 1)
    }

    /// Begins a session, for which nothing is planned.
    fn in_session(directory: &Path, session: &str) -> Self {
        Self::with(agent(directory, None), session)
    }

    /// Begins a session with an agent.
    fn with(mut child: Child, session: &str) -> Self {
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut talk = Self { child, stdin, stdout, received: Vec::new(), read_bytes: 0, own: String::new() };
        let hello = json!({"session": session, "protocol": 2, "version": "0"});
        talk.stdin.write_all(&framed(&hello)).unwrap();
        let greeting = talk.read();
        talk.received.push(greeting);
        talk
    }

    /// Begins a session of one of several clients.
    fn for_client(directory: &Path, tests: &[&str], session: &str, number: u32, count: u32) -> Self {
        let mut talk = Self::in_session(directory, session);
        talk.plan(tests, number, count);
        talk
    }

    /// Lets the agent plan these tests, and make its work directory.
    fn plan(&mut self, tests: &[&str], number: u32, count: u32) {
        let request = json!({"tests": tests, "size": "1m", "time": 0.02, "probe": false});
        let plan = json!({"request": request, "seed": 7, "number": number, "count": count, "clients_on_file_system": 1});
        self.order(&json!({"plan": plan}), "planned");
        let opened = self.order(&json!({"open": {"clients_per_machine": 1}}), "opened");
        opened["work_directory_name"].as_str().unwrap().clone_into(&mut self.own);
    }

    /// Sends a frame, begins each part that is ready, and returns the last answer: its name and what it says.
    fn try_order(&mut self, order: &Value) -> (String, Value) {
        self.stdin.write_all(&framed(order)).unwrap();
        loop {
            let frame = self.read();
            let (name, message) = frame.as_object().unwrap().iter().next().unwrap();
            match name.as_str() {
                "tick" => {}
                "ready" => self.stdin.write_all(&framed(&json!({"start": {"at_ns": 1}}))).unwrap(),
                _ => return (name.clone(), message.clone()),
            }
        }
    }

    /// Returns the bytes that the agent has written, apart from its frames.
    fn written_bytes(&self) -> u64 {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
        written.parse::<u64>().unwrap() - self.read_bytes
    }

    /// Returns the next frame that is no sign of life: those come at any time.
    fn read(&mut self) -> Value {
        loop {
            let mut length = [0; 4];
            self.stdout.read_exact(&mut length).unwrap();
            let mut document = vec![0; u32::from_be_bytes(length) as usize];
            self.stdout.read_exact(&mut document).unwrap();
            self.read_bytes += 4 + document.len() as u64;
            let frame: Value = serde_json::from_slice(&document).unwrap();
            if frame.get("beat").is_none() {
                return frame;
            }
        }
    }

    /// Sends a frame, waits for its answer, and returns that.
    fn order(&mut self, order: &Value, answer: &str) -> Value {
        self.stdin.write_all(&framed(order)).unwrap();
        loop {
            let frame = self.read();
            assert!(frame.get("failed").is_none(), "{frame}");
            self.received.push(frame.clone());
            if let Some(found) = frame.get(answer) {
                return found.clone();
            }
        }
    }

    /// Runs the first test, whose measured part begins at once. Returns its measurements.
    fn phase(&mut self, recreate_files: bool) -> Value {
        let phase = json!({
            "recreate_files": recreate_files, "index": 0, "repetition": 1, "time": {"measured_ns": 20_000_000, "budget_ns": 1_000_000_000}
        });
        self.order(&json!({"phase": phase}), "ready");
        self.order(&json!({"start": {"at_ns": 1}}), "measured")
    }

    /// Ends the session. Returns all frames of the agent.
    fn end(mut self) -> Vec<Value> {
        self.order(&json!({"close": {}}), "closed");
        drop(self.stdin);
        self.child.wait().unwrap();
        self.received
    }
}

/// Returns the frames of an agent in an undisturbed session, which ends with measurements.
fn answers(directory: &Path) -> Vec<Value> {
    let mut talk = Talk::begin(directory, &["read:rnd4k:buffered"]);
    talk.phase(false);
    talk.end()
}

#[test]
fn agents_open_only_directories_of_live_peers() {
    let home = scratch(ROOM);
    let tests = ["write:rnd4k:shared:ops=9:buffered", "read:rnd4k:buffered:shift=1:ops=9"];
    let mut first = Talk::for_client(home.path(), &tests, "s", 0, 2);
    let mut agent = Talk::for_client(home.path(), &tests, "s", 1, 2);
    let stranger = Talk::for_client(home.path(), &tests, "t", 0, 2);
    let victim = home.path().join("skye.victim");
    fs::create_dir(&victim).unwrap();
    fs::set_permissions(&victim, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(victim.join("shared-0000"), "precious").unwrap();
    std::os::unix::fs::symlink(&first.own, home.path().join("skye.linked")).unwrap();
    first.order(&json!({"lay_out": {"time_ns": 1_000_000_000, "first": first.own}}), "laid_out");
    let lay_out = |agent: &mut Talk, first: &str| {
        agent.try_order(&json!({"lay_out": {"time_ns": 1_000_000_000, "first": first}}))
    };
    let own = agent.own.clone();
    let wrong = [
        ("skye.victim", "has no marker"),
        ("skye.linked", "it is not a directory"),
        ("skye.absent", "No such file"),
        (&stranger.own, "its marker belongs to another run"),
        (&own, "its marker does not belong to client 0"),
        ("../victim", "it is not named like a client's directory"),
    ];
    for (name, why) in wrong {
        let (answer, message) = lay_out(&mut agent, name);
        let cause = message["error"]["cause"].as_str().unwrap_or_default();
        assert!(answer == "failed" && cause.contains(why), "{name}: {answer} {message}");
    }
    assert_eq!(lay_out(&mut agent, &first.own).0, "laid_out");
    let read = |agent: &mut Talk, name: &str, number: u32| {
        let mut frame = phase_frame(1, 100_000_000);
        frame["phase"]["other"] = json!({"number": number, "directory": name, "is_sound": true});
        agent.try_order(&frame).1["record"].clone()
    };
    for (name, why) in wrong {
        let record = read(&mut agent, name, 0);
        let reason = record["reason"].as_str().unwrap_or_default();
        assert!(record["status"] == "failed" && reason.contains(why), "{name}: {record}");
    }
    let name = first.own.clone();
    let record = read(&mut agent, &name, 0);
    // The two sessions have seeds of their own, so that a comparison may end the test.
    assert!(record["app_bytes_read"].as_u64() > Some(0), "{record}");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let (answer, message) = lay_out(&mut agent, &name);
    assert!(answer == "failed" && message.to_string().contains("its client has ended"), "{answer} {message}");
    agent.end();
    stranger.end();
    assert_eq!(fs::read_to_string(victim.join("shared-0000")).unwrap(), "precious");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
}

#[test]
fn plan_with_unknown_client_number_is_refused() {
    let home = scratch(ROOM);
    let request = json!({"tests": ["create:shared:size=4k:files=100"], "time": 0.02, "probe": false});
    for (number, count) in [(5, 1), (1, 1), (0, 0)] {
        let plan = json!({"request": request, "seed": 7, "number": number, "count": count, "clients_on_file_system": 1});
        let mut talk = Talk::in_session(home.path(), "s");
        assert_eq!(talk.try_order(&json!({"plan": plan})).0, "machine_and_target");
        let message = talk.read();
        assert!(message["failed"].to_string().contains("client number"), "{message}");
        talk.child.kill().unwrap();
        talk.child.wait().unwrap();
    }
    assert_nothing_left(home.path());
}

/// Waits until an agent has ended by itself, whatever it says.
#[track_caller]
fn ends(mut child: Child, what: &str) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > DEADLINE {
            let _ = child.kill();
            panic!("{what} does not end it");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn signal_ends_agent_blocked_on_full_output_pipe() {
    for signals in [1, 2] {
        let home = scratch(ROOM);
        // Its parent lives on, and takes nothing.
        let mut talk = Talk::with(agent_with(home.path(), &["--here"]), "s");
        talk.plan(&["write:rnd4k:buffered"], 0, 1);
        talk.order(&json!({"lay_out": {"time_ns": 1_000_000_000}}), "laid_out");
        assert!(!leftovers(home.path()).is_empty());
        talk.stdin.write_all(&framed(&json!({"ping": {"number": 1}})).repeat(2500)).unwrap();
        // By now its pipe is full.
        std::thread::sleep(Duration::from_secs(1));
        (0..signals).for_each(|_| send(&talk.child, Signal::TERM));
        ends(talk.child, "a signal");
        assert_nothing_left(home.path());
    }
}

#[test]
fn signal_ends_agent_waiting_for_first_frame() {
    let home = scratch(ROOM);
    let mut child = agent(home.path(), None);
    let status = format!("/proc/{}/status", child.id());
    let catches = || {
        let status = fs::read_to_string(&status).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (Signal::TERM.as_raw() - 1) != 0
    };
    while !catches() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // A wait for the child would close it.
    let stdin = child.stdin.take();
    send(&child, Signal::TERM);
    let status = child.wait().unwrap();
    drop(stdin);
    assert_eq!(status.code(), Some(143));
}

#[test]
fn end_of_input_drops_frames_in_the_queue() {
    let home = scratch(ROOM);
    let mut child = agent(home.path(), None);
    let mut stdin = child.stdin.take().unwrap();
    // Each watches the machine for most of a second.
    stdin.write_all(&[framed(&hello()), framed(&json!({"look": {}})).repeat(1000)].concat()).unwrap();
    drop(stdin);
    ends(child, "the end of its input");
}

#[test]
fn eof_or_signal_ends_agent_waiting_for_start() {
    for (is_signal, test) in [
        (true, "read:rnd4k:buffered"),
        (false, "read:rnd4k:buffered"),
        (true, "create:files=10"),
        (false, "stat:files=10"),
    ] {
        let home = scratch(ROOM);
        let mut talk = Talk::begin(home.path(), &[test]);
        talk.order(&phase_frame(0, 20_000_000), "ready");
        let agreed = Instant::now() + Duration::from_secs(50);
        let at_ns = monotonic_ns() + 50_000_000_000;
        talk.stdin.write_all(&framed(&json!({"start": {"at_ns": at_ns}}))).unwrap();
        // By now it waits for the instant.
        std::thread::sleep(Duration::from_millis(300));
        let Talk { child, stdin, stdout, .. } = talk;
        let ended_by = if is_signal {
            send(&child, Signal::TERM);
            ends(child, "a signal");
            drop((stdin, stdout));
            "a signal"
        } else {
            drop(stdin);
            ends(child, "the end of its input");
            drop(stdout);
            "the end of its input"
        };
        assert!(Instant::now() < agreed, "{ended_by} waits for the start of {test}");
        assert_nothing_left(home.path());
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Bytes of a marker, and of frames that have not come yet.
const SLACK: u64 = 64 << 10;

fn phase_frame(index: u64, measured_ns: u64) -> Value {
    let time = json!({"measured_ns": measured_ns, "budget_ns": 10_000_000_000_u64});
    json!({"phase": {"index": index, "repetition": 1, "time": time, "recreate_files": false}})
}

#[test]
fn repeated_tests_stay_below_the_limit_of_an_agent() {
    let home = scratch(ROOM);
    for test in
        ["write:seq64k:buffered:ops=64", "create:files=16:size=64k", "mix:mail:files=3", "rw:rnd4k:ops=2048"]
    {
        let mut talk = Talk::open(home.path(), &[test]);
        talk.try_order(&json!({"lay_out": {"time_ns": 1_000_000_000}}));
        let mut answers: Vec<_> = (0..30).map(|_| talk.try_order(&phase_frame(0, 300_000_000))).collect();
        let written_bytes = talk.written_bytes();
        assert!((LIMIT / 2..=LIMIT + SLACK).contains(&written_bytes), "{test}: {written_bytes}");
        let (first, last) = (answers.remove(0).1, answers.pop().unwrap().1);
        assert_eq!(first["record"]["status"], "done", "{test}: {first}");
        let reason = last["record"]["reason"].as_str().unwrap_or_default();
        let is_reported = last.to_string().contains("write_limit") || reason.contains("write limit");
        assert!(is_reported, "{test}: {last}");
        talk.end();
        assert_eq!(leftovers(home.path()), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn repeated_layouts_count_against_the_limit_of_an_agent() {
    let home = scratch(ROOM);
    let mut talk = Talk::open(home.path(), &["read:rnd4k:buffered"]);
    let answers: Vec<_> = (0..26)
        .map(|_| {
            talk.try_order(&json!({"clear": {}}));
            talk.try_order(&json!({"lay_out": {"time_ns": 1_000_000_000}}))
        })
        .collect();
    let names: Vec<_> = answers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [vec!["laid_out"; 24], vec!["failed"; 2]].concat());
    let cause = answers[24].1["error"]["cause"].as_str().unwrap();
    assert_eq!(cause, "the run has reached its write limit");
    assert!(talk.written_bytes() <= LIMIT + SLACK, "{}", talk.written_bytes());
    talk.end();
    assert_eq!(leftovers(home.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn random_frames_stay_below_the_limit_of_an_agent() {
    let home = scratch(ROOM);
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let all = [
        "write:seq64k:buffered",
        "write:rnd4k:q4",
        "rw:rnd4k:buffered",
        "rewrite:rnd4k:buffered",
        "fsync:buffered",
        "create:files=9:size=20k",
        "append:files=9:chunk=9k",
        "truncate:files=5:size=30k",
        "copy:files=5:size=30k",
        "mix:mail:files=3",
        "mix:mail:files=9:t2",
        "byte-write",
        "read:rnd4k:buffered",
        "stat:files=5:size=10k",
        "write:seq64k:buffered:fresh",
        "discard:seq64k",
        "create:files=9:size=20k:shared",
    ];
    for session in 0..xtask::sized(6, 400) {
        let tests: Vec<_> = (0..random.usize(1..4)).map(|_| all[random.usize(..all.len())]).collect();
        let mut talk = Talk::open(home.path(), &tests);
        let mut orders = Vec::new();
        for _ in 0..random.u32(1..25) {
            let order = match random.u32(..8) {
                0 => json!({"clear": {}}),
                1 | 2 => json!({"lay_out": {"time_ns": random.u64(..2_000_000_000)}}),
                _ => phase_frame(random.u64(..=tests.len() as u64), random.u64(..200_000_000)),
            };
            orders.push((order.to_string(), talk.try_order(&order).0));
            let written_bytes = talk.written_bytes();
            let report =
                || format!("seed {seed}, session {session}: {written_bytes} bytes by {tests:?}: {orders:#?}");
            assert!(written_bytes <= LIMIT + SLACK, "{}", report());
        }
        talk.end();
        assert_eq!(leftovers(home.path()), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn missing_files_are_recreated_only_on_request() {
    let home = scratch(ROOM);
    let mut talk = Talk::begin(home.path(), &["stat:files=10:passes=1"]);
    let statuses = [false, true, false].map(|recreate_files| {
        // Another client may have removed them.
        for file in files_below(home.path()).iter().filter(|path| path.is_file()) {
            let is_marker =
                file.parent().is_some_and(|parent| leftovers(home.path()).contains(&parent.into()));
            if !is_marker {
                fs::remove_file(file).unwrap();
            }
        }
        let measured = talk.phase(recreate_files);
        (
            measured["record"]["status"].as_str().unwrap().to_owned(),
            measured["names_unknown"].as_bool().unwrap(),
        )
    });
    talk.end();
    let expected = [("done", false), ("done", false), ("failed", true)];
    assert_eq!(statuses, expected.map(|(status, is_unknown)| (status.to_owned(), is_unknown)));
    assert_eq!(leftovers(home.path()), Vec::<std::path::PathBuf>::new());
}

/// Answers a coordinator with the frames of an earlier session, but for the last.
fn answer(frames: &[Value], last: &Value, mut orders: impl Read, mut answers: impl Write) {
    let known = |name: &str| frames.iter().find(|frame| frame.get(name).is_some()).unwrap().clone();
    answers.write_all(&framed(&known("session"))).unwrap();
    let mut length = [0; 4];
    while orders.read_exact(&mut length).is_ok() {
        let mut document = vec![0; u32::from_be_bytes(length) as usize];
        orders.read_exact(&mut document).unwrap();
        let order: Value = serde_json::from_slice(&document).unwrap();
        let is = |name: &str| order.get(name).is_some();
        let answers_to = [
            ("session", "machine_and_target"),
            ("plan", "planned"),
            ("open", "opened"),
            ("lay_out", "laid_out"),
            ("phase", "ready"),
            ("start", "measured"),
        ];
        if is("ping") {
            let pong = json!({"pong": {"number": order["ping"]["number"], "at_ns": monotonic_ns()}});
            answers.write_all(&framed(&pong)).unwrap();
        } else if is("close") {
            answers.write_all(&framed(last)).unwrap();
        } else if let Some((_, name)) = answers_to.iter().find(|(order, _)| is(order)) {
            answers.write_all(&framed(&known(name))).unwrap();
        }
    }
}

#[test]
fn excessive_client_output_is_truncated() {
    let home = scratch(ROOM);
    let directory = home.path().join("work");
    fs::create_dir(&directory).unwrap();
    let frames = answers(&directory);
    let [orders, answers] = ["orders", "answers"].map(|name| home.path().join(name));
    for path in [&orders, &answers] {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    let left = vec!["left /etc/passwd: \u{1b}[2J\nskye: all is well"; 5000];
    let last = json!({"closed": {"left": &left}});
    let (from, to) = (orders.clone(), answers.clone());
    let client = std::thread::spawn(move || {
        let orders = fs::File::open(from).unwrap();
        answer(&frames, &last, orders, fs::File::create(to).unwrap());
    });
    let launcher = format!("sh -c 'cat {} & exec cat >{}' x", answers.display(), orders.display());
    let ran = skye()
        .arg("run")
        .arg(&directory)
        .words(
            "--hosts ada --test read:rnd4k:buffered --size 1m --time 0.02 --allow busy,low-space --no-save",
        )
        .arg("--rsh")
        .arg(launcher)
        .run()
        .did_not_panic()
        .exits(1);
    client.join().unwrap();
    assert!(ran.stderr.len() < 40_000, "{} bytes", ran.stderr.len());
    let lines = ran.stderr.lines().filter(|line| line.contains("left /etc/passwd")).count();
    let rest = format!("ada: {} more lines omitted", left.len() - lines);
    assert!(lines > 10, "{ran}");
    ran.stderr_contains(&[&rest]);
}

#[test]
fn coordinator_with_invalid_input_exits_without_panic_or_files() {
    let home = scratch(ROOM);
    let directory = home.path().join("work");
    fs::create_dir(&directory).unwrap();
    let frames = answers(&directory);
    assert!(frames.len() >= 8, "{frames:?}");
    let message = home.path().join("said");
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let start = Instant::now();
    let mut sessions = 0;
    while start.elapsed() < duration() {
        // The answers to the questions for the time come after the first two frames.
        let pongs: Vec<_> =
            (0..32).map(|number| json!({"pong": {"number": number, "at_ns": 1_000_000 * number}})).collect();
        let whole = [&frames[..2], &pongs, &frames[2..]].concat();
        fs::write(&message, spoilt(&whole, &mut random)).unwrap();
        let launcher = format!("sh -c 'cat {}; sleep 0.0{}' x", message.display(), random.u32(..10));
        let ran = skye()
            .arg("run")
            .arg(&directory)
            .words("--hosts ada --test read:rnd4k:buffered --size 1m --time 0.02 --allow busy,low-space --no-save")
            .arg("--rsh")
            .arg(launcher)
            .run();
        let text = || format!("seed {seed}, session {sessions}\n{ran}");
        assert!(matches!(ran.code, Some(0..=5)) && !ran.stderr.contains("panicked"), "{}", text());
        assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'), "{}", text());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "{}", text());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{}", text());
        sessions += 1;
    }
    println!("{sessions} sessions");
    assert!(sessions > 3);
}
