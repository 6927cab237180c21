//! Signals and readers that go away, in every stage: the partial result is saved, nothing is left behind.

use std::io::Write;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Signal;
use rustix::termios::Action;

use crate::support::fuse::{Counts, Faults, Fuse};
use crate::support::mounts::Tmpfs;
use crate::support::program::{Output, Skye, assert_nothing_left, document, leftovers, phases, skye};
use crate::support::pty::Terminal;
use crate::support::scratch;

/// A stage of a run, recognised by its calls to the file system.
struct Stage {
    name: &'static str,
    is_reached: fn(&Counts) -> bool,
}

/// The stages of a run. Before the first test, some blocks are read twice, which are 8 MB at most.
const STAGES: [Stage; 3] = [
    Stage { name: "prepare", is_reached: |counts| counts.bytes_written > 1 << 20 },
    Stage { name: "run", is_reached: |counts| counts.bytes_read > 13 << 20 },
    Stage { name: "clean-up", is_reached: |counts| counts.unlinks > 1 },
];

/// Returns a file system on which laying out and removing files take a while.
fn slow() -> Fuse {
    Fuse::new(Faults { unlink_time: Duration::from_millis(20), ..Faults::default() })
}

fn program(fuse: &Fuse) -> Skye {
    let program = skye().arg("run").arg(fuse.path());
    // The first test is over when the second reads. The second reads enough on a machine of any speed; eight files take a
    // while to remove.
    program.words("--size 64m --time 0.4 --test write:seq1m:t8 --test read:rnd64k:t8:passes=4 --allow busy")
}

#[track_caller]
fn interrupted(stage: &Stage, signals: &[Signal]) -> Output {
    let fuse = slow();
    let mut running = program(&fuse).spawn();
    assert!(running.wait_until(|| (stage.is_reached)(&fuse.counts())), "{} is not reached", stage.name);
    signals.iter().for_each(|signal| running.send_taken(*signal));
    let ran = running.wait().did_not_panic();
    assert_nothing_left(fuse.path());
    ran
}

#[test]
fn signal_in_any_stage_cleans_up_and_saves() {
    xtask::require!(root, fuse);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        for stage in &STAGES {
            let ran = interrupted(stage, &[signal]).exits(code);
            let saved = ran.saved();
            // During preparation, there is nothing yet to save.
            assert!(saved.len() == 1 || stage.name == "prepare", "{}: {saved:?}\n{ran}", stage.name);
            for path in saved {
                let run = document(&path);
                if stage.name == "run" {
                    assert_eq!(run["run_status"], "partial", "{ran}");
                    assert_eq!(phases(&run), [("write", "done"), ("read", "partial")], "{ran}");
                }
            }
        }
    }
}

#[test]
fn second_signal_skips_save_but_not_cleanup() {
    xtask::require!(root, fuse);
    let stage = &STAGES[1];
    let ran = interrupted(stage, &[Signal::INT, Signal::INT]).exits(130);
    assert!(ran.saved().is_empty(), "{ran}");
    let ran = interrupted(stage, &[Signal::TERM, Signal::INT, Signal::INT]);
    // The first counts. Of those that the program has not looked at, it looks at the lower number first.
    assert!(matches!(ran.code, Some(130 | 143)), "{ran}");
    assert!(ran.saved().is_empty(), "{ran}");
}

#[test]
fn ignored_signal_stays_ignored() {
    xtask::require!(root, fuse);
    let fuse = slow();
    // nohup does the same.
    let program = program(&fuse).words("--no-probe");
    let mut running = program.through("sh", &["-c", "trap '' HUP && exec \"$@\"", "sh"]).spawn();
    let stage = &STAGES[1];
    assert!(running.wait_until(|| (stage.is_reached)(&fuse.counts())), "{} is not reached", stage.name);
    running.signal(Signal::HUP);
    let ran = running.wait().did_not_panic().exits(0);
    assert_eq!(document(&ran.saved()[0])["run_status"], "complete", "{ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn closed_stderr_pipe_does_not_end_run() {
    let home = scratch(16 << 20);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let program = skye().arg("run").arg(home.path()).words("--size 1m --time 0.1 --allow low-space,busy");
    let ran = program.words("--test read:rnd4k").stderr(writer.into()).run().exits(0);
    assert_eq!(document(&ran.saved()[0])["run_status"], "complete", "{ran}");
    assert!(ran.stdout.contains("IOPS"), "{ran}");
    assert_nothing_left(home.path());
}

#[test]
fn row_of_stopped_run_is_marked() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let words = "--size 1m --time 4 --no-probe --allow low-space,busy --test read:rnd4k";
    let mut running = skye().arg("run").arg(fuse.path()).words(words).spawn();
    assert!(running.wait_until(|| fuse.counts().bytes_read > 16 << 20));
    running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::CONT);
    let ran = running.wait().did_not_panic().exits(0);
    ran.output_contains(&["? read", "skye did not run for"]);
    assert_nothing_left(fuse.path());
}

#[test]
fn full_stdout_pipe_does_not_block_signals() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // The pipe is full before the program begins.
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&writer, OFlags::empty()).unwrap();
    let program = skye().words("gobonniego -size 0.002 -threads 1 -iops-duration 0.1 -runs 1000 -dir");
    let mut running = program.arg(tmpfs.path()).stdout(writer.into()).spawn();
    assert!(running.wait_until(|| std::fs::read_dir(tmpfs.path()).unwrap().next().is_some()));
    // By then, the program has output that nobody takes.
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::TERM);
    running.wait().did_not_panic().exits(143);
    assert_nothing_left(tmpfs.path());
}

#[test]
fn stopped_terminal_does_not_block_signals() {
    let home = scratch(16 << 20);
    let screen = Terminal::open(80);
    let terminal = screen.program_side();
    let program = skye().arg("run").arg(home.path()).words("--size 1m --time 1 --allow low-space,busy");
    let program =
        program.words("--test read:rnd4k --test stat:files=50").stdout(terminal.try_clone().unwrap().into());
    let mut running = program.stderr(terminal.try_clone().unwrap().into()).spawn();
    assert!(running.wait_until(|| !leftovers(home.path()).is_empty()));
    // Ctrl-S does the same.
    rustix::termios::tcflow(&terminal, Action::OOff).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    running.signal(Signal::TERM);
    let ran = running.wait().exits(143);
    assert!(ran.took < Duration::from_secs(60), "{:?}", ran.took);
    assert_nothing_left(home.path());
}

#[test]
fn closed_stdout_pipe_ends_run_quietly() {
    xtask::require!(root, fuse);
    for stage in &STAGES {
        let fuse = slow();
        let mut running = program(&fuse).unread().spawn();
        assert!(running.wait_until(|| (stage.is_reached)(&fuse.counts())), "{} is not reached", stage.name);
        running.close_stdout();
        let ran = running.wait().did_not_panic().exits(0);
        assert!(!ran.stderr.to_lowercase().contains("broken pipe"), "{ran}");
        assert_nothing_left(fuse.path());
    }
    // This reader never reads.
    let fuse = slow();
    let mut running = program(&fuse).unread().spawn();
    running.close_stdout();
    running.wait().did_not_panic().exits(0);
    assert_nothing_left(fuse.path());
}
