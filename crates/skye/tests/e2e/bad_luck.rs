//! Faults during a run: the phase says why it failed, the other phases are kept, and nothing is left behind.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use rig::{Span, TimedDirections, Timing};

use crate::support::fuse::{Errno, Faults, Fuse, Hangs};
use crate::support::mounts::{LoopFs, Tmpfs, run};
use crate::support::program::{
    IMPATIENT_SECONDS, Output, Running, Skye, assert_nothing_left, document, for_this_user, has_marker,
    leftovers, phases, skye,
};
use crate::support::scratch;

/// Longest time until a program ends after it meets a call that hangs. Impatient programs wait for 8 s and 2 s. They
/// wait longer while the machine writes back data of other processes.
const HANG_MAX: Duration = Duration::from_secs(120);

fn on(directory: &Path) -> Skye {
    skye().arg("run").arg(directory).words("--allow low-space,busy")
}

/// The same, where something hangs.
fn impatient(directory: &Path) -> Skye {
    on(directory).impatient()
}

/// Runs three tests. A fault is programmed once the data set has been laid out. Asserts that `failing` alone fails,
/// with this cause.
#[track_caller]
fn one_of_three_fails(fuse: &Fuse, tests: &str, failing: &str, cause: &str) -> Output {
    let program = on(fuse.path()).words("--size 4m --time 0.3").words(tests);
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(1);
    let ran = ran.output_contains(&[cause, fuse.path().to_str().unwrap()]);
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
fn enospc_or_edquot_fails_only_its_write_test() {
    xtask::require!(root, fuse);
    for (error, cause) in [(Errno::ENOSPC, "No space left"), (Errno::EDQUOT, "quota")] {
        // 4 MiB of data and the first pass of overwriting them fit; the second pass does not.
        let fuse = Fuse::new(Faults { write_error_after: Some((9 << 20, error)), ..Faults::default() });
        let tests = "--test read:rnd4k --test write:seq64k:passes=3 --test stat:files=20";
        one_of_three_fails(&fuse, tests, "write", cause);
    }
}

#[test]
fn enospc_or_edquot_fails_only_its_create_test() {
    xtask::require!(root, fuse);
    for (error, cause) in [(Errno::ENOSPC, "No space left"), (Errno::EDQUOT, "quota")] {
        let fuse = Fuse::new(Faults { create_error_after: Some((30, error)), ..Faults::default() });
        let tests = "--test read:rnd4k --test create:files=500 --test rewrite:seq64k";
        one_of_three_fails(&fuse, tests, "create", cause);
    }
}

#[test]
fn read_or_sync_error_fails_only_its_test() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { read_error_after: Some((1 << 20, Errno::EIO)), ..Faults::default() });
    let tests = "--test write:seq64k --test read:rnd4k:passes=1 --test create:files=20";
    let ran = one_of_three_fails(&fuse, tests, "read", "Input/output error");
    ran.output_contains(&["kernel log"]);
    // The marker and the data set are synced before: a few syncs must succeed.
    let fuse = Fuse::new(Faults { sync_error_after: Some((100, Errno::EIO)), ..Faults::default() });
    let tests = "--test read:rnd4k --test fsync:rnd4k:ops=300 --test create:files=20";
    one_of_three_fails(&fuse, tests, "fsync", "Input/output error");
    assert_nothing_left(fuse.path());
}

#[test]
fn data_set_without_space_skips_only_its_tests() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { write_error_after: Some((2 << 20, Errno::ENOSPC)), ..Faults::default() });
    let program = on(fuse.path()).words("--size 4m --time 0.2 --test read:rnd4k --test create:files=20");
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(1);
    let ran =
        ran.output_contains(&["No space left", fuse.path().to_str().unwrap(), "data-0000 at offset 1048576"]);
    let run = document(&json);
    assert_eq!(phases(&run), [("read", "skipped"), ("create", "done")], "{ran}");
    assert!(run["phases"][0]["reason"].as_str().unwrap().contains("No space left"), "{ran}");
    assert_eq!(ran.saved().len(), 2, "the run is saved besides --json\n{ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn full_file_system_fails_run_and_leaves_no_files() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("16m", None);
    // Others take all free space while the program runs, and all space that becomes free.
    let program =
        on(tmpfs.path()).words("--size 4m --time 0.5 --test create:size=64k:files=64 --test read:rnd4k");
    let mut running = program.spawn();
    let path = tmpfs.path().to_owned();
    // Starts once the marker is there: the fault then hits a run, not its start.
    assert!(running.wait_until(|| has_marker(&path)));
    let mut taken = File::create(path.join("other")).unwrap();
    while !running.has_ended() {
        if taken.write(&[1; 4096]).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    running.wait().did_not_panic().exits(1).output_contains(&["No space left", path.to_str().unwrap()]);
    assert!(path.join("other").exists());
    assert_nothing_left(&path);
}

/// Waits until a run has done all that it can do. The kernel keeps a process whose thread waits for a server.
fn until_it_has_left(running: &mut Running, call: &str) {
    while !running.has_left() {
        assert!(running.age() < HANG_MAX, "{call}: the program hangs with what it tests");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn hung_call_is_reported_and_results_kept() {
    xtask::require!(root, fuse);
    let hang = |hangs| Faults { hang: Some((hangs, 1)), ..Faults::default() };
    let of_data = "data-0000 has not returned since";
    let cases = [
        (Faults { hang_from_read: Some(1), ..Faults::default() }, "pread64 of", of_data),
        (Faults { hang_after_written: Some(1 << 20), ..Faults::default() }, "pwrite64 of", of_data),
        (hang(Hangs::Sync), "sync of", of_data),
        (hang(Hangs::Close), "cannot close the files", "close has not returned since"),
        (hang(Hangs::Unlink), "`skye clean", "unlinkat of"),
        (hang(Hangs::Readdir), "`skye clean", "getdents64 of"),
    ];
    // The passes of the test that writes leave time for its faults, on a machine of any speed.
    let tests = "--test stat:files=20 --test write:seq64k:buffered:passes=32 --test read:rnd4k:buffered";
    let started = cases.map(|(faults, call, since)| {
        let fuse = Fuse::new(Faults::default());
        let program = on(fuse.path()).words("--hang-timeout 8s --size 4m --time 0.5 --no-probe").words(tests);
        let json = program.home().join("run.json");
        let mut running = program.arg("--json").arg(&json).spawn();
        // The data set is laid out, and the test that writes has begun.
        assert!(running.wait_until(|| fuse.counts().bytes_written > 5 << 20), "{call}");
        fuse.set(faults);
        (running, fuse, json, call, since)
    });
    for (mut running, fuse, json, call, since) in started {
        until_it_has_left(&mut running, call);
        assert!(fuse.counts().hanging > 0, "{call}: nothing hung");
        // Only the kernel is still waited for: the document is there, whole.
        let run = document(&json);
        fuse.release();
        let ran = running.wait().did_not_panic().exits(1).output_contains(&[
            call,
            since,
            "everything else is done",
        ]);
        assert_eq!(phases(&run)[0], ("stat", "done"), "{ran}");
        assert!(ran.stdout.contains("stat "), "{ran}");
        assert_eq!(ran.saved().len(), 2, "{call}\n{ran}");
        skye().arg("clean").arg(fuse.path()).run().exits(0);
        assert_nothing_left(fuse.path());
    }
}

#[test]
#[ignore = "long"]
fn hung_save_still_prints_results() {
    xtask::require!(root, fuse);
    let hang = |hangs| Fuse::new(Faults { hang: Some((hangs, 1)), ..Faults::default() });
    let words = "--size 1m --time 0.1 --test read:rnd4k";
    let home = scratch(0);
    let started = [Hangs::Sync, Hangs::Unlink].map(|hangs| {
        let fuse = hang(hangs);
        let program = impatient(home.path()).words(words).arg("-o").arg(fuse.path());
        (program.spawn(), fuse)
    });
    let fuse_of_json = hang(Hangs::Sync);
    let json = fuse_of_json.path().join("run.json");
    let dialect = skye().impatient().words("bonnie++ -s 4m -r 0 -n 0 -u root -d").arg(home.path());
    let mut dialect = dialect.arg("--json").arg(&json).spawn();
    let [(mut sync, fuse_of_sync), (mut unlink, fuse_of_unlink)] = started;

    until_it_has_left(&mut sync, "-o");
    fuse_of_sync.release();
    let ran = sync.wait().did_not_panic().exits(1).output_contains(&[
        "cannot save the run in",
        "sync of",
        "has not returned since",
        "everything else is done",
    ]);
    assert!(ran.stdout.contains("limited by") && ran.stdout.contains("4K rnd"), "{ran}");
    // The place is tried before a run.
    until_it_has_left(&mut unlink, "-o");
    fuse_of_unlink.release();
    unlink
        .wait()
        .did_not_panic()
        .exits(2)
        .output_contains(&["cannot write", "unlink has not returned since"]);
    until_it_has_left(&mut dialect, "--json");
    fuse_of_json.release();
    let ran =
        dialect.wait().did_not_panic().exits(1).output_contains(&["cannot write", "has not returned since"]);
    assert!(ran.stdout.contains("Version"), "{ran}");
    assert_nothing_left(home.path());
}

#[test]
#[ignore = "long"]
fn hung_call_outside_timed_tests_is_reported() {
    xtask::require!(root, fuse);
    let hang = |hangs, from| Fuse::new(Faults { hang: Some((hangs, from)), ..Faults::default() });
    let home = scratch(0);
    let tests = || hang(Hangs::Unlink, 50);
    let once = tests();
    let once_running = impatient(once.path()).words("--test unlink:files=100:passes=1").spawn();
    let bonnie = tests();
    let bonnie_running = skye().impatient().words("bonnie++ -s 0 -n 1 -u root -d").arg(bonnie.path()).spawn();
    let result = hang(Hangs::Lookup, 1);
    let program = impatient(home.path()).words("--size 1m --time 0.1 --test read:rnd4k --json");
    let result_running = program.arg(result.path().join("run.json")).spawn();
    let pipe = home.path().join("pipe");
    run(Command::new("mkfifo").arg(&pipe));
    let pipe_running =
        impatient(home.path()).words("--size 1m --time 0.1 --test read:rnd4k --json").arg(&pipe).spawn();
    // The first call finds the target, and the second comes from the observation of the machine.
    let watched = hang(Hangs::Statfs, 2);
    let watched_running = skye().impatient().arg("doctor").arg(watched.path()).spawn();
    let bytes = Fuse::new(Faults::default());
    let words = "--size 256k --time 0.2 --no-probe --test stat:files=20 --test byte-write --test byte-read";
    let mut bytes_running = impatient(bytes.path()).words(words).spawn();
    assert!(
        bytes_running.wait_until(|| bytes.counts().unlinks > 0 || bytes.counts().bytes_written > 200_000)
    );
    bytes.set(Faults { hang: Some((Hangs::Open, 1)), ..Faults::default() });
    for (mut running, fuse, says) in [
        (once_running, Some(once), "unlinkat of"),
        (watched_running, Some(watched), "cannot check"),
        (bytes_running, Some(bytes), "openat of"),
        (bonnie_running, Some(bonnie), "unlinkat of"),
        (result_running, Some(result), "cannot write"),
        (pipe_running, None, "pipe has not returned since"),
    ] {
        until_it_has_left(&mut running, says);
        let code = if says == "cannot write" { 2 } else { 1 };
        if let Some(fuse) = &fuse {
            fuse.release();
        }
        running.wait().did_not_panic().exits(code).output_contains(&[says, " since "]);
        if let Some(fuse) = &fuse {
            skye().arg("clean").arg(fuse.path()).run().exits(0);
            assert_nothing_left(fuse.path());
        }
    }
    assert_nothing_left(home.path());
}

#[test]
fn close_error_fails_its_test() {
    xtask::require!(root, fuse);
    for test in ["create:files=20:size=4k", "write:seq64k:buffered:sync=none"] {
        let fuse = Fuse::new(Faults::default());
        let program = on(fuse.path()).words("--size 1m --time 0.3 --no-probe --test read:rnd4k:buffered");
        let json = program.home().join("run.json");
        let mut running = program.arg("--test").arg(test).arg("--json").arg(&json).spawn();
        assert!(running.wait_until(|| fuse.counts().bytes_written > 0));
        fuse.set(Faults { close_error: Some(Errno::EDQUOT), ..Faults::default() });
        let ran = running.wait().did_not_panic().exits(1);
        let run = document(&json);
        assert_eq!(phases(&run)[1].1, "failed", "{test}\n{ran}");
        assert!(run["phases"][1]["reason"].as_str().unwrap().contains("quota"), "{test}\n{ran}");
        assert_nothing_left(fuse.path());
    }
}

#[test]
fn inconsistent_directory_listing_ends_with_error() {
    xtask::require!(root, fuse);
    let keeps = Faults { keeps_files: true, ..Faults::default() };
    let lists = Faults { lists_endlessly: true, ..Faults::default() };
    for (faults, test, says) in [
        (keeps, "stat:files=50", "it still lists names after their removal"),
        (lists, "stat:files=50", "it has more than 10000 names that cannot be removed"),
        (lists, "unlink:files=50:order=dir", "it has more than 10000 names that cannot be removed"),
    ] {
        let fuse = Fuse::new(Faults::default());
        let mut running = on(fuse.path()).words("--time 0.5 --no-probe --test").arg(test).spawn();
        assert!(running.wait_until(|| fuse.counts().creates >= 50));
        fuse.set(faults);
        let ran = running.wait().did_not_panic().exits(1);
        assert!(ran.stderr.contains(says), "{test}\n{ran}");
        fuse.set(Faults::default());
        skye().arg("clean").arg(fuse.path()).run().exits(0);
        assert_nothing_left(fuse.path());
    }
}

#[test]
fn output_over_input_file_is_refused() {
    let home = scratch(1 << 20);
    let preset = home.path().join("mine.toml");
    fs::write(&preset, "tests = [\"read:rnd4k\"]\nsize = \"1m\"\n").unwrap();
    for words in ["run --preset", "bonnie++ -s 0 -n 1 -u root -d . -Z"] {
        let program = skye().words(&for_this_user(words)).arg(&preset).arg("--json").arg(&preset);
        let program = if words.starts_with("run") { program.arg(home.path()) } else { program };
        let ran = program.run().did_not_panic();
        assert!(ran.stderr.contains("this run reads it"), "{ran}");
        assert!(fs::read_to_string(&preset).unwrap().starts_with("tests"), "{ran}");
    }
}

#[test]
fn two_documents_in_one_new_file_are_refused() {
    let home = scratch(0);
    std::os::unix::fs::symlink("x", home.path().join("y")).unwrap();
    let [x, y] = ["x", "y"].map(|name| home.path().join(name));
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k --json");
    program.arg(&x).arg("--html").arg(&y).run().exits(2).output_contains(&["two documents"]);
    assert_nothing_left(home.path());
}

#[test]
fn undeletable_work_directory_is_reported() {
    xtask::require!(root, ext4);
    let disk = LoopFs::new("ext4", 16, &[], "noatime");
    let chattr = |word: &str| run(Command::new("chattr").arg(word).arg(disk.path()));
    // No file can be removed from such a directory, and no byte is written to the marker.
    chattr("+a");
    let program = on(disk.path()).words("--time 0.1 --no-save --test stat:files=2");
    let ran = program.within("-f 0").run().did_not_panic().exits(1);
    chattr("-a");
    let left = leftovers(disk.path());
    assert_eq!(left.len(), 1, "{ran}");
    ran.output_contains(&[left[0].to_str().unwrap(), "cannot be removed", "skye clean"]);
    assert!(
        fs::read_dir(&left[0])
            .unwrap()
            .next()
            .is_none_or(|entry| entry.unwrap().metadata().unwrap().len() == 0)
    );
}

#[test]
fn small_stack_limit_does_not_crash() {
    let home = scratch(0);
    let program = on(home.path()).words("--size 1m --time 0.1 --no-save --test read:rnd4k");
    let ran = program.within("-s 96").run().did_not_panic();
    assert!([Some(0), Some(2)].contains(&ran.code), "{ran}");
    assert_nothing_left(home.path());
}

/// A ring makes the calls one after the other on a file system that cannot refuse to wait. So none of 32 calls is
/// counted for longer than the program waits for one call.
#[test]
fn slow_target_is_not_reported_as_hung() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let words = "--size 1m --time 1 --no-probe --test stat:files=20 --test read:rnd4k:q32";
    let mut running = impatient(fuse.path()).words(words).spawn();
    assert!(running.wait_until(|| fuse.counts().bytes_written >= 1 << 20));
    let call_ns = IMPATIENT_SECONDS * 1_300_000_000 / 32;
    let timing = Timing { service: Span::ns(call_ns), timed: TimedDirections::Reads, ..Timing::default() };
    fuse.server().set_timing(timing);
    let ran = running.wait().did_not_panic().exits(0);
    assert!(!ran.stderr.contains("has not returned"), "{ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn second_interrupt_skips_hung_calls() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { hang: Some((Hangs::Unlink, 1)), ..Faults::default() });
    let program = on(fuse.path()).words("--size 1m --time 0.2 --test read:rnd4k");
    let mut running = program.spawn();
    assert!(running.wait_until(|| fuse.counts().hanging > 0));
    let hung = Instant::now();
    (0..2).for_each(|_| running.send_taken(Signal::INT));
    until_it_has_left(&mut running, "unlinkat");
    let waited = hung.elapsed();
    fuse.release();
    let ran = running.wait().did_not_panic().output_contains(&["unlinkat of", "everything else is done"]);
    assert!(waited < Duration::from_secs(15), "{waited:?}\n{ran}");
    skye().arg("clean").arg(fuse.path()).run().exits(0);
    assert_nothing_left(fuse.path());
}

#[test]
#[ignore = "long"]
fn exhausted_descriptors_or_memory_fail_cleanly() {
    let home = scratch(0);
    let words =
        "--size 1m --time 0.1 --files 50 --no-save --test read:rnd4k:t4 --test create:dirs=4:levels=3";
    let mut message = String::new();
    // A plan refuses a limit that is too low. One that sinks during the run is met by any call.
    let limits = [6, 8, 10, 12, 14, 16, 20, 24, 32, 48];
    for limit in limits.iter().cycle().take(100) {
        let running = on(home.path()).words(words).spawn();
        std::thread::sleep(Duration::from_millis(fastrand::u64(..300)));
        let pid = Pid::from_raw(running.id() as i32).unwrap();
        let lower = Rlimit { current: Some(*limit), maximum: Some(*limit) };
        // The run may be over.
        let _ = prlimit(Some(pid), Resource::Nofile, lower);
        message.push_str(&running.wait().did_not_panic().to_string());
        assert_nothing_left(home.path());
    }
    assert!(message.contains("Too many open files"), "{message}");
    message.clear();
    // What is short depends on the size of the program, so the steps are small where it begins to run.
    for mebibytes in (20..36).step_by(4).chain((36..64).step_by(2)).chain([64, 80, 96, 128]) {
        let limit = format!("-v {}", mebibytes << 10);
        let ran = on(home.path()).words(words).within(&limit).run();
        message.push_str(&format!("{mebibytes} MiB\n{ran}"));
        assert_ne!(ran.signal, Some(6), "aborted\n{message}");
        assert_nothing_left(home.path());
    }
    assert!(message.contains("out of memory"), "{message}");
}

#[test]
fn full_store_does_not_fail_run() {
    xtask::require!(root, tmpfs);
    let home = scratch(0);
    let full = Tmpfs::new("64k", None);
    fs::write(full.path().join("filler"), vec![1; 128 << 10]).unwrap_err();
    let words = "--size 1m --time 0.1 --test read:rnd4k";
    let into_store = |more: &str| {
        let program = on(home.path()).words(words).words(more).env("XDG_STATE_HOME", full.path());
        let ran = program.run().did_not_panic();
        assert!(ran.stdout.contains("4K rnd"), "{ran}");
        ran
    };
    for more in ["", "--quiet"] {
        into_store(more).exits(0).stderr_contains(&[full.path().to_str().unwrap(), "No space left"]);
    }
    let ran = into_store("--quiet --no-save").exits(0);
    assert_eq!(ran.stderr, "");
    let half_written: Vec<_> =
        walk(full.path()).into_iter().filter(|name| !name.ends_with("filler")).collect();
    assert!(half_written.is_empty(), "{half_written:?}");

    // A failure to write a requested copy makes the run fail, even if the run is saved.
    let json = full.path().join("run.json");
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k");
    let ran = program.arg("--json").arg(&json).run().did_not_panic();
    let ran = ran.exits(1).stderr_contains(&[json.to_str().unwrap(), "No space left"]);
    assert!(ran.stdout.contains("4K rnd"), "{ran}");
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
fn full_stdout_is_reported() {
    let home = scratch(0);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k");
    let ran = program.stdout(Stdio::from(full)).run().did_not_panic();
    ran.exits(1).stderr_contains(&["No space left"]);
    assert_nothing_left(home.path());
}

#[test]
fn read_only_stdout_is_refused() {
    let home = scratch(0);
    let program = on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k");
    let ran = program.stdout(Stdio::from(File::open("/dev/null").unwrap())).run().did_not_panic();
    ran.exits(2).stderr_contains(&["cannot write to stdout"]);
    assert_nothing_left(home.path());
}

#[test]
fn run_without_home_warns_and_prints_results() {
    let home = scratch(0);
    for more in ["", "--quiet"] {
        let program = || on(home.path()).words("--size 1m --time 0.1 --test read:rnd4k").words(more);
        let homeless = || program().without("HOME").without("XDG_STATE_HOME");
        let ran = homeless().run().did_not_panic().exits(0).output_contains(&[
            "HOME",
            "-o DIR",
            "--json -",
            "--no-save",
        ]);
        assert!(ran.stdout.contains("4K rnd"), "{ran}");
        homeless().arg("--no-save").run().exits(0);
        let unwritable = program().env("XDG_STATE_HOME", "/proc/nowhere");
        let ran = unwritable
            .run()
            .did_not_panic()
            .exits(0)
            .output_contains(&["warning: cannot save the results: /proc/nowhere"]);
        assert!(ran.stdout.contains("4K rnd"), "{ran}");
    }
    assert_nothing_left(home.path());
}

/// Writes to the disk below a file system until it is dropped.
struct BusyDisk(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl BusyDisk {
    fn new(directory: &Path) -> Self {
        let mut file = tempfile::tempfile_in(directory).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ends);
        let writes = move || {
            while !theirs.load(Ordering::Relaxed) {
                file.rewind().unwrap();
                file.write_all(&[1; 4096]).unwrap();
                file.sync_data().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        Self(ends, Some(std::thread::spawn(writes)))
    }
}

impl Drop for BusyDisk {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

/// File system that is frozen until it is dropped.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn new(directory: &'a Path) -> Self {
        run(Command::new("fsfreeze").arg("-f").arg(directory));
        Self(directory)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        run(Command::new("fsfreeze").arg("-u").arg(self.0));
    }
}

#[test]
fn frozen_file_system_is_reported_despite_busy_disk() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 128, &[], "");
    let busy = BusyDisk::new(ext4.image().parent().unwrap());
    let mut running =
        impatient(ext4.path()).words("--size 8m --time 60 --no-probe --test write:seq1m").spawn();
    assert!(running.wait_until(|| leftovers(ext4.path()).iter().any(|path| path.is_dir())));
    std::thread::sleep(Duration::from_secs(2));
    let frozen = Frozen::new(ext4.path());
    until_it_has_left(&mut running, "pwrite64");
    drop(frozen);
    drop(busy);
    running.wait().did_not_panic().output_contains(&["has not returned since"]);
    skye().arg("clean").arg(ext4.path()).run().exits(0);
    assert_nothing_left(ext4.path());
}
