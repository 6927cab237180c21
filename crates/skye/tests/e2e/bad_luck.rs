//! What goes wrong on the way: the phase says why it failed, the others are kept, nothing is left behind.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::support::fuse::{Errno, Faults, Fuse};
use crate::support::mounts::Tmpfs;
use crate::support::program::{Ran, Skye, assert_nothing_left, document, leftovers, phases, skye};
use crate::support::scratch;

/// A program that meets an operation that never ends must have left by then.
const HANG_MAX: Duration = Duration::from_secs(55);

fn on(directory: &Path) -> Skye {
    skye().arg("run").arg(directory).words("--allow low-space,busy")
}

/// Runs three tests of which `failing` meets a fault that is programmed when the data set has been laid out, and
/// expects that it alone fails, with this cause.
#[track_caller]
fn one_of_three_fails(fuse: &Fuse, tests: &str, failing: &str, cause: &str) -> Ran {
    let program = on(fuse.path()).words("--size 4m --time 0.3").words(tests);
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(1);
    let ran = ran.tells(&[cause, fuse.path().to_str().unwrap()]);
    let run = document(&json);
    for (index, (name, status)) in phases(&run).into_iter().enumerate() {
        let phase = &run["phases"][index];
        if name == failing {
            assert_eq!(status, "failed", "{ran}");
            assert!(phase["reason"].as_str().is_some_and(|reason| reason.contains(cause)), "{phase:#}");
        } else {
            assert_eq!(status, "done", "{name}: {ran}");
            assert!(phase["ops"].as_u64() > Some(0), "{phase:#}");
        }
    }
    assert_eq!(ran.saved().len(), 2, "the run is saved besides --json\n{ran}");
    assert_nothing_left(fuse.path());
    ran
}

#[test]
fn space_or_quota_runs_out_in_a_phase() {
    xtask::require!(root, fuse);
    for (error, cause) in [(Errno::ENOSPC, "No space left"), (Errno::EDQUOT, "quota")] {
        // 4 MiB of data fit, and the first pass of overwriting them; the second does not.
        let fuse = Fuse::new(Faults { write_error_after: Some((9 << 20, error)), ..Faults::default() });
        let tests = "--test read:rnd4k --test write:seq64k --test stat:files=20";
        one_of_three_fails(&fuse, tests, "write", cause);
    }
}

#[test]
fn space_runs_out_while_files_are_made() {
    xtask::require!(root, fuse);
    for (error, cause) in [(Errno::ENOSPC, "No space left"), (Errno::EDQUOT, "quota")] {
        let fuse = Fuse::new(Faults { create_error_after: Some((100, error)), ..Faults::default() });
        let tests = "--test read:rnd4k --test create:files=500 --test rewrite:seq64k";
        one_of_three_fails(&fuse, tests, "create", cause);
    }
}

#[test]
fn the_device_fails_to_read_or_to_sync() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { read_error_after: Some((1 << 20, Errno::EIO)), ..Faults::default() });
    let tests = "--test write:seq64k --test read:rnd4k --test create:files=20";
    let ran = one_of_three_fails(&fuse, tests, "read", "Input/output error");
    ran.tells(&["kernel's log"]);
    // The marker and the data set are synced before: a few syncs must succeed.
    let fuse = Fuse::new(Faults { sync_error_after: Some((100, Errno::EIO)), ..Faults::default() });
    let tests = "--test read:rnd4k --test fsync:rnd4k --test create:files=20";
    one_of_three_fails(&fuse, tests, "fsync", "Input/output error");
    assert_nothing_left(fuse.path());
}

#[test]
fn space_runs_out_while_the_data_set_is_laid_out() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { write_error_after: Some((2 << 20, Errno::ENOSPC)), ..Faults::default() });
    let program = on(fuse.path()).words("--size 4m --time 0.2 --test read:rnd4k --test create:files=20");
    let ran = program.run().did_not_panic().exits(1);
    ran.tells(&["No space left", fuse.path().to_str().unwrap()]);
    assert_nothing_left(fuse.path());
}

#[test]
fn a_file_system_that_is_really_full() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("16m", None);
    // Others take what is free while it runs, and whatever becomes free.
    let program =
        on(tmpfs.path()).words("--size 4m --time 0.5 --test create:size=64k:files=64 --test read:rnd4k");
    let mut running = program.spawn();
    let path = tmpfs.path().to_owned();
    // Not before the marker is there: what fails then is a run, not its beginning.
    assert!(running.wait_until(|| leftovers(&path).iter().any(|work| work.join("skye-marker").exists())));
    let mut taken = File::create(path.join("other")).unwrap();
    while !running.has_ended() {
        if taken.write(&[1; 4096]).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    running.wait().did_not_panic().exits(1).tells(&["No space left", path.to_str().unwrap()]);
    assert!(path.join("other").exists());
    assert_nothing_left(&path);
}

#[test]
fn a_read_that_never_ends_does_not_hang_the_program() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { hang_from_read: Some(200), ..Faults::default() });
    let program = on(fuse.path()).words("--size 4m --time 0.3 --test write:seq64k --test read:rnd4k");
    let json = program.home().join("run.json");
    let mut running = program.arg("--json").arg(&json).spawn();
    // The kernel keeps a process whose thread waits for a server; all that the program can do is to leave.
    while !running.has_left() {
        assert!(running.age() < HANG_MAX, "the program hangs with what it tests");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(fuse.counts().hanging > 0, "nothing hung");
    fuse.release();
    let ran = running.wait().did_not_panic().exits(1).tells(&[fuse.path().to_str().unwrap()]);
    let run = document(&json);
    assert_eq!(run["run_status"], "partial", "{ran}");
    assert_eq!(phases(&run)[0], ("write", "done"), "{ran}");
    skye().arg("clean").arg(fuse.path()).run().exits(0);
    assert_nothing_left(fuse.path());
}

#[test]
fn a_full_disk_while_saving_costs_the_copy_not_the_result() {
    xtask::require!(root, tmpfs);
    let home = scratch(0);
    let full = Tmpfs::new("64k", None);
    fs::write(full.path().join("filler"), vec![1; 128 << 10]).unwrap_err();
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k");
    let ran = program.env("XDG_STATE_HOME", full.path()).run().did_not_panic();
    // As with a home that cannot be written: the result is on the screen, so it warns and goes on.
    let ran = ran.exits(0).says(&[full.path().to_str().unwrap(), "No space left"]);
    assert!(ran.stdout.contains("RND4K"), "{ran}");
    let half_written: Vec<_> =
        walk(full.path()).into_iter().filter(|name| !name.ends_with("filler")).collect();
    assert!(half_written.is_empty(), "{half_written:?}");

    // A copy that was asked for is another matter.
    let json = full.path().join("run.json");
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k");
    let ran = program.arg("--json").arg(&json).run().did_not_panic();
    let ran = ran.exits(1).says(&[json.to_str().unwrap(), "No space left"]);
    assert!(ran.stdout.contains("RND4K"), "{ran}");
    assert_eq!(ran.saved().len(), 1, "the saved run is not concerned\n{ran}");
    assert_nothing_left(home.path());
}

fn walk(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        } else {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn a_standard_output_that_is_full() {
    let home = scratch(0);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k");
    let ran = program.stdout(Stdio::from(full)).run().did_not_panic();
    ran.exits(1).says(&["No space left"]);
    assert_nothing_left(home.path());
}

#[test]
fn no_home() {
    let home = scratch(0);
    let words = "--size 1m --time 0.1 --test read:rnd4k";
    let ran = on(home.path()).words(words).without("HOME").without("XDG_STATE_HOME").run();
    let ran = ran.did_not_panic().exits(0).says(&["HOME"]);
    assert!(ran.stdout.contains("RND4K"), "{ran}");
    let unwritable = on(home.path()).words(words).env("XDG_STATE_HOME", "/proc/nowhere");
    let ran = unwritable.run().did_not_panic().exits(0).says(&["/proc/nowhere"]);
    assert!(ran.stdout.contains("RND4K"), "{ran}");
    assert_nothing_left(home.path());
}
