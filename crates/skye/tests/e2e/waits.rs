//! Waits for clients that do not answer, or answer with harm: each ends, by its limit or by a signal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rig::{Rig, Spec};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::fleet::{agents, children_of, eventually};
use crate::support::program::{Output, Running, assert_nothing_left, document, leftovers, rig_program, skye};
use crate::support::scratch;

/// Room for the files of some clients.
const ROOM: u64 = 64 << 20;
/// Longest wait for an end.
const DEADLINE: Duration = Duration::from_secs(60);

/// Launcher of a fake agent. It runs all other programs as they are.
const LAUNCHER: &str = r#"#!/bin/sh
shift
test "$2 $FAKE_HARM" = "clean kill" && exit 9
test "$2" = agent || exec "$@"
export FAKE_AGENT="$*"
exec 3>&1 >/dev/null 2>&1
exec "$FAKE_TESTS" --exact waits::fake_agent_relays_frames_until_its_step --nocapture
"#;

/// Frames of an agent, in their order.
const STEPS: [&str; 9] =
    ["hello", "machine_and_target", "pong", "planned", "opened", "laid_out", "ready", "measured", "closed"];
/// Ways of an agent to do harm, in the place of a frame and after it.
const HARMS: [&str; 9] =
    ["beats", "bytes", "nothing", "garbage", "stop", "die", "repeats", "floods", "fails"];

/// Returns the next frame of a stream, with its length; `None` at the end.
fn frame(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).ok()?;
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    frame.resize(4 + length, 0);
    stream.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

/// An agent for the coordinators of other tests, in a separate process. It is a real one up to a step, and ends with its coordinator.
#[test]
fn fake_agent_relays_frames_until_its_step() {
    let Ok(line) = std::env::var("FAKE_AGENT") else { return };
    let of = |name: &str| std::env::var(name).unwrap();
    let mut words = line.split(' ');
    let mut agent = Command::new(words.next().unwrap());
    let mut agent = agent.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let real = Pid::from_child(&agent);
    let (mut to, mut from) = (agent.stdin.take().unwrap(), agent.stdout.take().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut to);
        // The real agent may end before its coordinator.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(to);
        let _ = agent.wait();
        std::process::exit(0);
    });
    let mut out = File::options().write(true).open("/proc/self/fd/3").unwrap();
    let mut is_first = true;
    let mut last = Vec::new();
    while let Some(frame) = frame(&mut from) {
        last.clone_from(&frame);
        let step = if is_first { "hello" } else { &of("FAKE_STEP") };
        let key = format!("{{\"{}\"", of("FAKE_STEP"));
        is_first = false;
        if step == of("FAKE_STEP") && (step == "hello" || frame[4..].starts_with(key.as_bytes())) {
            break;
        }
        if out.write_all(&frame).is_err() {
            break;
        }
    }
    thread::spawn(move || while frame(&mut from).is_some() {});
    fs::write(of("FAKE_REACHED"), "").unwrap();
    let beat = [&11_u32.to_be_bytes()[..], b"{\"beat\":{}}"].concat();
    match of("FAKE_HARM").as_str() {
        "beats" => {
            while out.write_all(&beat).is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        }
        "bytes" => {
            let _ = out.write_all(&[0, 1, 0, 0]);
            while out.write_all(b"{").is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        }
        "repeats" => {
            while out.write_all(&last).is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        }
        "floods" => while out.write_all(&last).is_ok() {},
        "kill" => {
            kill_process(real, Signal::KILL).unwrap();
            std::process::exit(7);
        }
        "fails" => {
            let failed =
                br#"{"failed":{"error":{"action":"go on","cause":"a lie","help":null},"is_refusal":false}}"#;
            drop(out.write_all(&[&(failed.len() as u32).to_be_bytes()[..], failed].concat()));
        }
        "garbage" => drop(out.write_all(&[0xff; 1000])),
        "stop" => kill_process(rustix::process::getpid(), Signal::STOP).unwrap(),
        "die" => std::process::exit(7),
        _ => {}
    }
    // The thread that reads commands ends the process.
    loop {
        thread::park();
    }
}

/// A run of an agent of this machine and a fake one.
struct Hostile {
    directory: TempDir,
    home: TempDir,
    running: Option<Running>,
    fakes: Vec<Pid>,
}

impl Hostile {
    fn begin(step: &str, harm: &str) -> Self {
        let (directory, home) = (scratch(ROOM), scratch(1 << 20));
        let launcher = home.path().join("launcher");
        fs::write(&launcher, LAUNCHER).unwrap();
        // The limits of its waits follow from its time.
        let preset = home.path().join("short.toml");
        fs::write(&preset, "tests = [\"read:rnd4k:buffered\", \"create:files=20\"]\ntime = 0.5\ntotal = 8\n")
            .unwrap();
        let run = skye().impatient().arg("run").arg(directory.path());
        let run =
            run.words("--size 1m --cache warm --allow low-space,shared-directory,busy --hosts local,ada");
        let run = run.arg("--preset").arg(preset);
        let run = run.arg("--rsh").arg(format!("sh {}", launcher.display()));
        let run = run.arg("--remote-skye").arg(env!("CARGO_BIN_EXE_skye"));
        let run = run.env("FAKE_TESTS", std::env::current_exe().unwrap());
        let run = run.env("FAKE_STEP", step).env("FAKE_HARM", harm);
        let running = run.env("FAKE_REACHED", home.path().join("reached")).spawn();
        Self { directory, home, running: Some(running), fakes: Vec::new() }
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it was not waited for yet")
    }

    /// Waits until the fake agent has come to its step, or the run has ended.
    fn reaches(&mut self) {
        let reached = self.home.path().join("reached");
        if !self.running().wait_until(|| reached.exists()) {
            panic!("the step is not reached: {}", self.running.take().expect("it runs").wait());
        }
        self.fakes = children_of(self.running().id());
    }

    /// Waits for the end of the run, and of all agents.
    #[track_caller]
    fn ends(mut self, story: &str) -> Output {
        let started = Instant::now();
        eventually(&format!("the end of the run: {story}"), || self.running().has_ended());
        let ran = self.running.take().unwrap().wait().did_not_panic();
        assert!(started.elapsed() < DEADLINE, "{story}: {ran}");
        let directory = self.directory.path();
        eventually(&format!("the removal of all files: {story}: {ran}"), || leftovers(directory).is_empty());
        ran
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            running.signal(Signal::CONT);
            self.fakes.extend(children_of(running.id()));
        }
        for fake in &self.fakes {
            // They are gone, unless the test has failed.
            let _ = kill_process(*fake, Signal::CONT);
            let _ = kill_process(*fake, Signal::KILL);
        }
    }
}

/// Runs all cases side by side: most of their time, they wait.
fn side_by_side<C: Send + Sync + 'static>(cases: Vec<C>, run: fn(&C)) {
    let threads: Vec<_> = cases.into_iter().map(|case| thread::spawn(move || run(&case))).collect();
    let failed = threads.into_iter().map(thread::JoinHandle::join).filter(Result::is_err).count();
    assert_eq!(failed, 0, "cases have failed");
}

/// Returns true once a client of a run has left its number in a saved document of it.
fn measured_by(ran: &Output, client: u64) -> bool {
    let has = |phase: &Value| {
        phase["hosts"].as_array().is_some_and(|all| all.iter().any(|share| share["client"] == client))
    };
    let saved = ran.saved();
    saved.iter().any(|file| document(file)["phases"].as_array().unwrap().iter().any(has))
}

#[test]
fn signals_end_every_wait_for_a_client() {
    let mut cases: Vec<_> = [
        ("machine_and_target", "beats"),
        ("planned", "bytes"),
        ("laid_out", "beats"),
        ("ready", "bytes"),
        ("measured", "beats"),
        ("measured", "bytes"),
        ("closed", "beats"),
        ("laid_out", "floods"),
    ]
    .into();
    if xtask::sized(false, true) {
        cases = STEPS.iter().flat_map(|step| HARMS.map(|harm| (*step, harm))).collect();
    }
    for some in cases.chunks(8) {
        side_by_side(some.to_vec(), |(step, harm)| {
            let mut hostile = Hostile::begin(step, harm);
            hostile.reaches();
            // The other client has measured by then.
            thread::sleep(Duration::from_secs(2));
            let signal = if fastrand::bool() { Signal::INT } else { Signal::TERM };
            hostile.running().signal(signal);
            let story = format!("{step}, {harm}, {signal:?}");
            let ran = hostile.ends(&story);
            let is_measured = *step == "measured" && ["beats", "bytes"].contains(harm);
            assert!(!is_measured || measured_by(&ran, 0), "{story}: {ran}");
        });
    }
}

#[test]
fn silent_and_broken_clients_are_lost_without_a_signal() {
    let harms = ["nothing", "stop", "garbage", "die", "fails"];
    let steps: &[&str] = if xtask::sized(false, true) { &STEPS } else { &["machine_and_target", "measured"] };
    let cases: Vec<_> = steps.iter().flat_map(|step| harms.map(|harm| (*step, harm))).collect();
    for some in cases.chunks(8) {
        side_by_side(some.to_vec(), |(step, harm)| {
            let mut hostile = Hostile::begin(step, harm);
            hostile.reaches();
            let ran = hostile.ends(&format!("{step}, {harm}"));
            assert!(matches!(ran.code, Some(1 | 2)), "{step}, {harm}: {ran}");
            assert!(ran.stderr.contains("ada"), "{step}, {harm}: {ran}");
            assert!(*step != "measured" || measured_by(&ran, 0), "{step}, {harm}: {ran}");
        });
    }
}

#[test]
fn client_without_progress_times_out() {
    let short: &[&str] = &["machine_and_target", "opened", "measured"];
    let steps = xtask::sized(short, &STEPS);
    let cases: Vec<_> = steps.iter().flat_map(|step| ["beats", "bytes"].map(|harm| (*step, harm))).collect();
    side_by_side(cases, |(step, harm)| {
        let mut hostile = Hostile::begin(step, harm);
        hostile.reaches();
        let ran = hostile.running.take().expect("it runs").wait().did_not_panic();
        assert!(matches!(ran.code, Some(1 | 2)), "{step}, {harm}: {ran}");
        // Its first frame has a form that is no sign of life.
        let is_overdue = ran.stderr.contains("did not respond within") || *step == "hello";
        assert!(is_overdue, "{step}, {harm}: {ran}");
    });
}

#[test]
fn client_that_repeats_frames_does_not_delay_the_end() {
    let cases = [("ready", "repeats"), ("ready", "floods"), ("measured", "repeats"), ("measured", "floods")];
    side_by_side(cases.to_vec(), |(step, harm)| {
        let mut hostile = Hostile::begin(step, harm);
        hostile.reaches();
        let ran = hostile.ends(&format!("{step}, {harm}")).exits(1);
        assert!(*step != "ready" || ran.stderr.contains("ada: lost: it sent an unexpected frame"), "{ran}");
        assert!(*step != "measured" || measured_by(&ran, 0), "{ran}");
    });
}

#[test]
fn clean_command_is_suggested_for_lost_client() {
    let mut hostile = Hostile::begin("opened", "kill");
    hostile.reaches();
    let ran = hostile.running.take().expect("it runs").wait().did_not_panic().exits(1);
    let directory = hostile.directory.path().display().to_string();
    let removal = format!("clean {directory}` when it responds again");
    let ran = ran.stderr_contains(&["cannot create the work directory on ada", &removal]);
    assert_eq!(leftovers(hostile.directory.path()).len(), 1, "{ran}");
}

#[test]
fn signals_before_anything_is_written_have_their_exit_code() {
    side_by_side(vec!["machine_and_target", "planned"], |step| {
        let mut hostile = Hostile::begin(step, "beats");
        hostile.reaches();
        hostile.running().signal(Signal::INT);
        hostile.ends(step).exits(130).stderr_contains(&["ended by SIGINT; nothing was written"]);
    });
}

#[test]
fn signal_during_directory_creation_is_reported() {
    let mut hostile = Hostile::begin("opened", "beats");
    hostile.reaches();
    hostile.running().signal(Signal::INT);
    hostile.ends("opened, beats").exits(130).stderr_contains(&["ended by SIGINT; its files are removed"]);
}

#[test]
fn signals_at_any_instant_end_a_run() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for turn in 0..xtask::sized(1, 40) {
        let mut cases = Vec::new();
        for _ in 0..4 {
            let step = STEPS[random.usize(..STEPS.len())];
            let harm = HARMS[random.usize(..HARMS.len())];
            cases.push((format!("seed {seed}, turn {turn}"), step, harm, random.u64(..3000), random.bool()));
        }
        side_by_side(cases, |(story, step, harm, after_ms, is_repeated)| {
            let mut hostile = Hostile::begin(step, harm);
            thread::sleep(Duration::from_millis(*after_ms));
            hostile.fakes = children_of(hostile.running().id());
            hostile.running().signal(Signal::INT);
            if *is_repeated {
                thread::sleep(Duration::from_millis(500));
                hostile.running().signal(Signal::TERM);
            }
            hostile.ends(&format!("{story}: {step}, {harm} after {after_ms} ms"));
        });
    }
}

/// Begins a run of clients of this machine, and waits until they have their files.
fn local_run(directory: &Path, words: &str) -> (Running, Vec<Pid>) {
    let run = skye().arg("run").arg(directory).words("--size 1m --cache warm --hosts local*2");
    let run = run.words("--allow low-space,shared-directory,busy --test read:rnd4k:buffered").words(words);
    let mut running = run.spawn();
    assert!(running.wait_until(|| leftovers(directory).len() == 2), "there are no work directories");
    let found = agents(running.id());
    assert_eq!(found.len(), 2);
    (running, found)
}

/// A stopped process, which goes on when this is dropped.
struct Pause(Pid);

impl Pause {
    fn new(process: Pid) -> Self {
        kill_process(process, Signal::STOP).unwrap();
        Self(process)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn ab_ends_once_a_client_is_lost() {
    let directory = scratch(ROOM);
    let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
    [&a, &b].into_iter().for_each(|side| fs::create_dir(side).unwrap());
    let words = "--hosts local*2 --test remove:files=500 --test mix:build --size 8m --time 0.5 --total 600";
    let pairs =
        skye().arg("ab").arg(&a).arg(&b).words(words).words("--allow low-space,shared-directory,busy");
    let mut running = pairs.spawn();
    assert!(running.wait_until(|| leftovers(&a).len() + leftovers(&b).len() == 4), "there are no files");
    // Tests on files have no layout that would fail, so the loss is found between two of them.
    thread::sleep(Duration::from_secs(4));
    kill_process(agents(running.id())[2], Signal::KILL).unwrap();
    // A run of 600 s would exceed the limit of this wait.
    running.wait().did_not_panic().exits(1).stderr_contains(&["lost"]);
    for side in [&a, &b] {
        skye().arg("clean").arg(side).run();
        assert_nothing_left(side);
    }
}

#[test]
#[ignore = "long"]
fn clients_that_pause_for_seconds_are_not_lost() {
    let directory = scratch(ROOM);
    let (running, found) = local_run(directory.path(), "--time 8");
    // Longer than any sign of life takes, and shorter than the silence that makes a host lost.
    let stopped = Pause::new(found[1]);
    thread::sleep(Duration::from_secs(5));
    drop(stopped);
    let ran = running.wait().did_not_panic().exits(0);
    assert!(!ran.stderr.contains("lost"), "{ran}");
    assert_nothing_left(directory.path());
}

#[test]
#[ignore = "long"]
fn local_clients_wait_for_a_stopped_coordinator() {
    let directory = scratch(ROOM);
    let (mut running, found) = local_run(directory.path(), "--time 8");
    let stopped = Pause::new(Pid::from_raw(running.id() as i32).unwrap());
    thread::sleep(Duration::from_secs(12));
    assert!(found.iter().all(|agent| rustix::process::test_kill_process(*agent).is_ok()));
    drop(stopped);
    assert!(!running.has_ended());
    running.wait().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
}

#[test]
#[ignore = "long"]
fn clients_without_a_cpu_are_not_lost() {
    xtask::require!(root, quota);
    let directory = scratch(ROOM);
    // Both share a thousandth of a CPU, and nobody else has less.
    let quota = Rig::start(&rig_program(), Spec::quota(0.001).period_ms(1000)).unwrap();
    let (mut running, found) = local_run(directory.path(), "--time 4");
    for agent in &found {
        quota.join(agent.as_raw_nonzero().get() as u32).unwrap();
    }
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(30) && !running.has_ended() {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(!running.has_ended(), "it did not need a CPU");
    quota.finish().unwrap();
    let ran = running.wait().did_not_panic().exits(0);
    assert!(!ran.stderr.contains("lost"), "{ran}");
    assert_nothing_left(directory.path());
}
