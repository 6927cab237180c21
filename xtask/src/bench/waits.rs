//! Waits of a coordinator for a client that is lost or never answers: the time until the run has ended.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::program::{self, scratch_in_memory};
use super::{Limit, Row, Rows, Setting};

/// Most seconds after a client has died, or after a signal before files are made: the others need no more for their end.
const LOSS_SECONDS_MAX: Limit = Limit::AtMost(5.0);
/// Most seconds for a client that never answers: 25 for the answer, and some for the end of the others.
const UNANSWERED_SECONDS_MAX: Limit = Limit::AtMost(30.0);
/// Longest wait for anything here. A run that takes longer is killed.
const DEADLINE: Duration = Duration::from_secs(120);
/// Time between two checks of a process or a file.
const PAUSE: Duration = Duration::from_millis(5);
/// Time in which a run comes into its wait.
const WAIT_START_TIME: Duration = Duration::from_secs(1);

/// Launcher of an agent that greets its coordinator and then sends nothing but signs of life. The frames of the real
/// agent have their length first; `dd` takes no byte of the second one. All other programs run as they are.
const HEARTBEAT_LAUNCHER: &str = r#"shift
test "$2" = agent || exec "$@"
"$@" | {
    dd bs=4 count=1 iflag=fullblock of="${0%/*}/length" 2>/dev/null
    cat "${0%/*}/length"
    set -- $(od -An -v -tu1 "${0%/*}/length")
    dd bs=$((($2 << 16) + ($3 << 8) + $4)) count=1 iflag=fullblock 2>/dev/null
    : >"${0%/*}/greeted"
    while printf '\000\000\000\013{"beat":{}}'; do sleep 0.2; done
}
"#;

/// Measures the waits, and prints their rows.
pub(super) fn measure(binary: &Path, setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let killed: Result<Vec<_>> = (0..setting.pairs).map(|_| after_kill(binary)).collect();
    rows.push(Row::new("an agent is killed: run has ended after", "s", killed?, LOSS_SECONDS_MAX))?;
    // All at once: these runs do nothing but wait.
    let silent = at_once(setting.pairs, || seconds_without_answer(binary, None))?;
    rows.push(Row::new("beats and no answer: run has ended after", "s", silent, UNANSWERED_SECONDS_MAX))?;
    let interrupted = at_once(setting.pairs, || seconds_without_answer(binary, Some(Signal::INT)))?;
    rows.push(Row::new("INT and no answer: run has ended after", "s", interrupted, LOSS_SECONDS_MAX))
}

/// Measures in as many threads as there are values.
fn at_once(count: usize, measure: impl Fn() -> Result<f64> + Sync) -> Result<Vec<f64>> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&measure)).collect();
        threads.into_iter().map(|one| one.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    })
}

/// Seconds from the death of an agent of this machine to the end of its run.
fn after_kill(binary: &Path) -> Result<f64> {
    let test = ["--hosts", "local*2", "--engine", "null", "--test", "read:rnd4k:rate=20", "--time", "60"];
    let mut run = Waiting::begin(binary, &test, scratch_in_memory()?)?;
    run.until("both agents to run", |run| agents_of(run.child.id()).len() == 2)?;
    thread::sleep(WAIT_START_TIME);
    let agent = *agents_of(run.child.id()).first().context("the agents have ended early")?;
    let started = Instant::now();
    kill_process(agent, Signal::KILL).context("kill an agent")?;
    run.ends(started, &[1, 2])
}

/// Seconds that a run still takes once a client has greeted it and then only sends signs of life. With a signal, they
/// count from that signal.
fn seconds_without_answer(binary: &Path, signal: Option<Signal>) -> Result<f64> {
    let scratch = scratch_in_memory()?;
    let (launcher, greeted) = (scratch.path().join("launcher"), scratch.path().join("greeted"));
    fs::write(&launcher, HEARTBEAT_LAUNCHER).context("write a launcher")?;
    let (launcher, remote) = (format!("sh {}", launcher.display()), binary.display().to_string());
    let hosts = ["--hosts", "local,beating", "--rsh", &launcher, "--remote-skye", &remote];
    let test = ["--engine", "null", "--test", "read:rnd4k:rate=20", "--time", "1"];
    let mut run = Waiting::begin(binary, &[&hosts[..], &test].concat(), scratch)?;
    run.until("a client to greet", |_| greeted.exists())?;
    let Some(signal) = signal else { return run.ends(Instant::now(), &[1, 2]) };
    thread::sleep(WAIT_START_TIME);
    let started = Instant::now();
    let coordinator = Pid::from_child(&run.child);
    kill_process(coordinator, signal).context("send a signal")?;
    run.ends(started, &[2, 130])
}

/// A run that comes into a wait. It is killed when it is dropped early.
struct Waiting {
    child: Child,
    _scratch: TempDir,
}

impl Waiting {
    fn begin(binary: &Path, arguments: &[&str], scratch: TempDir) -> Result<Self> {
        let target = scratch.path().join("target");
        fs::create_dir(&target).context("make a target")?;
        let mut command: Command = program::run(binary, &target, arguments);
        command.args(["--size", "1m", "--no-save", "--quiet", "--allow", "low-space,busy,shared-directory"]);
        let child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start the program")?;
        Ok(Self { child, _scratch: scratch })
    }

    /// Waits until something has happened. The run must not end before.
    fn until(&mut self, what: &str, mut happened: impl FnMut(&Self) -> bool) -> Result<()> {
        let started = Instant::now();
        while !happened(self) {
            let ended = self.child.try_wait().context("wait for the program")?;
            ensure!(ended.is_none(), "a run that waits for {what} has ended: {ended:?}");
            ensure!(started.elapsed() < DEADLINE, "waited too long for {what}");
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns the seconds from an instant to the end of the run, which must be one of these exit codes.
    fn ends(mut self, since: Instant, codes: &[i32]) -> Result<f64> {
        loop {
            if let Some(status) = self.child.try_wait().context("wait for the program")? {
                let seconds = since.elapsed().as_secs_f64();
                ensure!(is_one_of(status, codes), "the run ended with {status}, not one of {codes:?}");
                return Ok(seconds);
            }
            if since.elapsed() > DEADLINE {
                bail!("the run did not end within {} s", DEADLINE.as_secs());
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Both fail on a run that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_one_of(status: ExitStatus, codes: &[i32]) -> bool {
    status.code().is_some_and(|code| codes.contains(&code))
}

/// Returns the agents that a process has started on this machine.
fn agents_of(coordinator: u32) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{coordinator}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<_> = children.flat_map(|text| numbers(&text)).collect();
    children.into_iter().filter(|pid| is_agent(*pid)).filter_map(Pid::from_raw).collect()
}

fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn is_agent(pid: i32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"agent")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn heartbeat_agent_passes_only_the_first_frame() {
        let scratch = scratch_in_memory().unwrap();
        let (launcher, agent) = (scratch.path().join("launcher"), scratch.path().join("real"));
        fs::write(&launcher, HEARTBEAT_LAUNCHER).unwrap();
        // 300 bytes as the first frame; all that follows is lost.
        let frame = [&300_u32.to_be_bytes()[..], &[7; 300]].concat();
        fs::File::create(scratch.path().join("frames"))
            .and_then(|mut file| file.write_all(&[&frame[..], &[9; 1000]].concat()))
            .unwrap();
        fs::write(&agent, format!("cat {}/frames\n", scratch.path().display())).unwrap();
        let mut command = Command::new("sh");
        command.arg(&launcher).args(["host", "sh", "agent"]).current_dir(scratch.path());
        fs::rename(&agent, scratch.path().join("agent")).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let beat = b"\0\0\0\x0b{\"beat\":{}}";
        let mut bytes = vec![0; frame.len() + 2 * beat.len()];
        child.stdout.take().unwrap().read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [&frame[..], beat, beat].concat());
        assert!(scratch.path().join("greeted").exists());
        // It ends by itself, because there is no reader.
        child.wait().unwrap();
    }
}
