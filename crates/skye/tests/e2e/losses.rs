//! Losses at random instants of a run of several clients. A launcher, an agent, ssh, sshd or the coordinator is killed,
//! an agent is stopped, a connection becomes silent, or a file system is full. Whatever is lost and whenever, no file
//! is left.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::fleet::{agents_of, children_of, eventually};
use crate::support::mounts::Tmpfs;
use crate::support::program::{Running, leftovers, skye};
use crate::support::scratch;
use crate::support::sshd::configured;

/// Room for the files of both clients.
const ROOM: u64 = 64 << 20;
/// Latest instant of a loss: the run has ended by then.
const LATEST_MS: u64 = 2000;

/// A launcher that stays, as ssh does.
const SHELL: &str = r#"sh -c 'shift; "$@"; exit $?' x"#;

/// Starts a run of two clients.
fn start_run(launcher: &str, directories: [&Path; 2]) -> Running {
    let hosts = format!("ada:{},bob:{}", directories[0].display(), directories[1].display());
    let program = skye().arg("run").arg(directories[0]).arg("--hosts").arg(hosts).arg("--rsh").arg(launcher);
    let words = "--size 4m --time 0.4 --cache warm --test read:rnd4k:buffered --test create:files=200 --test write:seq64k";
    program
        .arg("--remote-skye")
        .arg(env!("CARGO_BIN_EXE_skye"))
        .words(words)
        .words("--allow low-space,busy,shared-directory")
        .spawn()
}

/// Processes that a loss has stopped. They continue once the run is over, and if the test fails.
#[derive(Default)]
struct StoppedProcesses {
    /// Continues before the check for leftover files.
    early: Option<Pid>,
    /// Continues after all files are gone.
    late: Option<Pid>,
}

impl StoppedProcesses {
    fn go_on(one: &mut Option<Pid>) {
        // It may have ended meanwhile.
        let _ = one.take().map(|pid| kill_process(pid, Signal::CONT));
    }
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        Self::go_on(&mut self.early);
        Self::go_on(&mut self.late);
    }
}

/// Lets something be lost at random instants, as often as the size of the tests says.
fn lose(what: &str, launcher: &str, lost: impl Fn(&mut Running) -> StoppedProcesses) {
    lose_times(xtask::sized(3, 30), what, launcher, lost);
}

fn lose_times(times: u32, what: &str, launcher: &str, lost: impl Fn(&mut Running) -> StoppedProcesses) {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0..times {
        let directory = scratch(ROOM);
        let mut running = start_run(launcher, [directory.path(); 2]);
        std::thread::sleep(Duration::from_millis(random.u64(..LATEST_MS)));
        let mut stopped = lost(&mut running);
        let ran = running.wait().did_not_panic();
        StoppedProcesses::go_on(&mut stopped.early);
        assert!(matches!(ran.code, None | Some(0..=3)), "{what}, seed {seed}, number {number}: {ran}");
        // An agent without a coordinator, or one that was stopped, takes its files with it.
        eventually(&format!("{what}, seed {seed}, number {number}: the removal of all files"), || {
            leftovers(directory.path()).is_empty()
        });
    }
}

/// Lets something be lost of two hosts that ssh reaches.
fn lose_over_ssh(times: u32, what: &str, lost: impl Fn(&mut Running) -> StoppedProcesses) {
    let home = scratch(1 << 20);
    let there = || "unshare --net".to_owned();
    let launcher = configured(home.path(), &[("ada", there()), ("bob", there())]);
    lose_times(times, what, &launcher, lost);
}

/// Returns the sshds of a run: ssh has started them for its connections.
fn sshds_of(coordinator: u32) -> Vec<Pid> {
    let children = |pid: Pid| children_of(pid.as_raw_nonzero().get() as u32);
    children_of(coordinator).into_iter().flat_map(children).collect()
}

/// Sends a signal to one of these processes, if there are any.
fn hit(all: &[Pid], signal: Signal) -> Option<Pid> {
    let hit = all.get(fastrand::usize(..all.len().max(1)))?;
    // It may have ended meanwhile.
    kill_process(*hit, signal).ok().map(|()| *hit)
}

/// Kills one of these processes. Nothing has to go on afterwards.
fn kill(all: &[Pid]) -> StoppedProcesses {
    hit(all, Signal::KILL);
    StoppedProcesses::default()
}

#[test]
fn killed_agent_leaves_no_files() {
    lose("agent", SHELL, |running| kill(&agents_of(running.id())));
}

#[test]
#[ignore = "long"]
fn stopped_agent_leaves_no_files() {
    lose("stopped", SHELL, |running| StoppedProcesses {
        early: hit(&agents_of(running.id()), Signal::STOP),
        late: None,
    });
}

#[test]
fn killed_launcher_leaves_no_files() {
    lose("launcher", SHELL, |running| kill(&children_of(running.id())));
}

#[test]
fn killed_coordinator_leaves_no_files() {
    lose("coordinator", SHELL, |running| {
        running.signal(Signal::KILL);
        StoppedProcesses::default()
    });
}

#[test]
fn killed_ssh_leaves_no_files() {
    xtask::require!(root, netns, sshfs);
    lose_over_ssh(xtask::sized(3, 30), "ssh", |running| kill(&children_of(running.id())));
}

#[test]
fn killed_sshd_leaves_no_files() {
    xtask::require!(root, netns, sshfs);
    lose_over_ssh(xtask::sized(3, 30), "sshd", |running| kill(&sshds_of(running.id())));
}

/// Neither side hears of the other any more, and no connection is closed. Each waits until its patience is over.
#[test]
fn silent_connection_leaves_no_files() {
    xtask::require!(root, netns, sshfs);
    lose_over_ssh(xtask::sized(1, 30), "silent", |running| StoppedProcesses {
        early: None,
        late: hit(&sshds_of(running.id()), Signal::STOP),
    });
}

#[test]
fn full_file_system_leaves_no_files() {
    xtask::require!(tmpfs);
    for number in 0..xtask::sized(3, 30) {
        // There is room for the plan, until somebody else takes it.
        let (one, other) = (Tmpfs::new("32m", None), Tmpfs::new("32m", None));
        let running = start_run(SHELL, [one.path(), other.path()]);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..LATEST_MS / 2)));
        let taken = other.path().join("taken");
        let _ = std::fs::write(&taken, vec![1; 32 << 20]);
        let ran = running.wait().did_not_panic();
        assert!(matches!(ran.code, Some(0..=3)), "number {number}: {ran}");
        std::fs::remove_file(&taken).unwrap();
        for directory in [one.path(), other.path()] {
            eventually("the removal of all files", || leftovers(directory).is_empty());
        }
    }
}
