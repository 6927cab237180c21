//! `skye zcav` reads the requested blocks, gives rates that a rig sets, and loses nothing.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use family::zcav::{Log, read};
use rig::fuse::Fuse;
use rig::{Disk, Spec};
use rustix::process::Signal;

use crate::support::fuse::{Errno, Faults};
use crate::support::mounts::{LoopFs, Tmpfs};
use crate::support::program::{Output, Skye, document, open_to_all, skye};
use crate::support::scratch;

const MIB: u64 = 1 << 20;
/// Bytes that are read from a server before the measurement, to check whether it supports direct I/O.
const TRIED_BYTES: u64 = 4096;

fn zcav(words: &str) -> Skye {
    skye().arg("zcav").words(words)
}

/// Returns a server with a file of `mib` MiB. It gives out 16 MiB a second, and 2 MiB are a line.
fn served(mib: u64, faults: Faults) -> Fuse {
    let spec = Spec::fuse().file_bytes(mib * MIB).bytes_per_second(16 * MIB).only_reads();
    Fuse::mount(&spec, faults).expect("a mounted FUSE file system")
}

/// Returns the only log in a text that holds nothing else.
#[track_caller]
fn log(text: &str) -> Log {
    let (mut logs, problems) = read(text);
    assert_eq!((logs.len(), problems), (1, vec![]), "{text}");
    logs.remove(0)
}

fn offsets(log: &Log) -> Vec<f64> {
    log.lines.iter().map(|line| line.offset_gib).collect()
}

/// Asserts that all lines have the rate of a limit. A limit lets through a tenth of a second's worth at once: that
/// share of a line of about a second. A rate far below the limit belongs to a different line. A rate a little below it
/// comes from other work on the machine.
#[track_caller]
fn assert_rates(log: &Log, mib_per_second: f64, ran: &Output) {
    for line in &log.lines {
        assert!(line.seconds >= 0.8, "{line:?}: {ran}");
        let off = line.mib_per_second.expect("a rate") / mib_per_second - 1.0;
        assert!((-0.4..0.15).contains(&off), "{line:?} and not {mib_per_second}: {ran}");
    }
}

#[test]
fn rates_match_two_devices_measured_at_once() {
    xtask::require!(root, loop, blkio);
    let disk = |rate| Disk::build(&Spec::disk().size_mib(80).read_bytes_per_second(rate * MIB)).unwrap();
    let (slow, fast) = (disk(16), disk(32));
    let program = zcav("-b 32");
    let logs = ["slow.log", "fast.log"].map(|name| program.home().join(name));
    let program = program.arg("-l").arg(&logs[0]).arg(slow.path());
    let ran = program.arg("-l").arg(&logs[1]).arg("-f").arg(fast.path()).run().did_not_panic().exits(0);
    assert_eq!(ran.stdout, "", "all of it is in the logs: {ran}");
    for (path, rate) in logs.iter().zip([16.0, 32.0]) {
        let text = fs::read_to_string(path).unwrap();
        let log = log(&text);
        assert_eq!(log.text(), text);
        // The rest at the end is half a block, which alone takes long enough on the slow disk.
        assert!(log.lines.len() >= 2 && log.passes[0].mib == 80, "{text}");
        let whole = Log { lines: log.lines[..2].to_vec(), ..log };
        assert_rates(&whole, rate, &ran);
    }
    for disk in [&slow, &fast] {
        assert!(
            ran.stderr.contains(&format!("# Finished loop 1, on device {} at ", disk.path().display())),
            "{ran}"
        );
    }
    // The verdict on each is that of any run. Beside other tests, it may be unclear.
    assert_eq!(ran.stderr.matches("what limited each of them").count(), 1, "{ran}");
    for disk in [&slow, &fast] {
        let name = disk.path().display().to_string();
        let verdict =
            ran.stderr.lines().find(|line| line.trim_start().starts_with(&name)).expect("a verdict");
        let is_known = ["throttle", "device", "not clear"].iter().any(|words| verdict.contains(words));
        assert!(is_known, "{ran}");
    }
}

#[test]
fn only_requested_blocks_are_read() {
    xtask::require!(root, fuse);
    for (words, mib, expected) in [
        ("-b 2", 6, &[0, 2, 4][..]),
        ("-b 2 -r 2:6", 4, &[2, 4]),
        ("-b 2 -r 4", 4, &[0, 2]),
        ("-b 2:2 -s 3 -r 4:18", 6, &[4, 10, 16]),
        ("-b 2 -s 4 -r 0:9", 3, &[0, 8]),
    ] {
        let fuse = served(if words == "-b 2" { 6 } else { 24 }, Faults::default());
        let ran = zcav(words).arg(fuse.path().join("file")).run().did_not_panic().exits(0);
        assert_eq!(fuse.counts().bytes_read, mib * MIB + TRIED_BYTES, "{words}: {ran}");
        let log = log(&ran.stdout);
        let expected: Vec<_> = expected.iter().map(|mib| f64::from(*mib) / 1024.0).collect();
        // A last block that took too little time is in the line before it.
        let found = offsets(&log);
        assert!(found.len() + 1 >= expected.len() && !found.is_empty(), "{words}: {ran}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 0.0001, "{words}: {ran}");
        }
        assert_eq!(log.passes[0].mib, mib, "{words}: {ran}");
    }
}

#[test]
fn partial_last_block_is_read() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 64, &[], "");
    let file = disk.path().join("file");
    let bytes = 5 * MIB + 1000;
    fs::write(&file, vec![7; bytes as usize]).unwrap();
    File::open(&file).unwrap().sync_all().unwrap();
    for words in ["-b 2", "-b 5", "-b 8:4", ""] {
        let ran = zcav(words).arg("-c").arg("2").arg(&file).run().did_not_panic().exits(0);
        let log = log(&ran.stdout);
        assert_eq!((log.passes.len(), log.passes[0].mib, log.loops), (2, 5, Some(2)), "{words}: {ran}");
        assert!(
            !ran.stderr.contains("shorter") && !ran.stderr.contains("direct I/O is not supported"),
            "{ran}"
        );
    }
}

#[test]
fn every_pass_reads_the_same_blocks() {
    xtask::require!(root, fuse);
    let fuse = served(6, Faults::default());
    let ran = zcav("-b 2 -c 3").arg(fuse.path().join("file")).run().did_not_panic().exits(0);
    let log = log(&ran.stdout);
    assert_eq!((log.passes.len(), log.loops), (3, Some(3)), "{ran}");
    assert_eq!(fuse.counts().bytes_read, 18 * MIB + TRIED_BYTES);
    let starts: Vec<_> = ran.stdout.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(starts[..5], ["#", "#", "#", "#loops:", "#block"], "{ran}");
    for pass in 1..=3 {
        assert!(ran.stderr.contains(&format!("# Finished loop {pass}, on device ")), "{ran}");
    }
}

#[test]
fn page_cache_is_dropped_without_direct_io() {
    xtask::require!(root, fuse);
    let fuse = served(4, Faults { refuse_direct: true, ..Faults::default() });
    let file = fuse.path().join("file");
    fs::read(&file).unwrap();
    let before = fuse.counts().bytes_read;
    let ran = zcav("-b 2 -c 2").arg(&file).run().did_not_panic().exits(0);
    assert!(ran.stderr.contains("direct I/O is not supported"), "{ran}");
    // Both passes read the file from the server again, whatever was in memory.
    assert!(fuse.counts().bytes_read - before >= 8 * MIB, "{:?}: {ran}", fuse.counts());
}

#[test]
fn holes_and_too_short_files_are_reported() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 64, &[], "");
    let file = disk.path().join("sparse");
    File::create(&file).unwrap().set_len(64 * MIB).unwrap();
    let ran = zcav("").arg(&file).run().did_not_panic().exits(0);
    ran.output_contains(&["64 of 64 MiB were never written", "without reading a device"]);
    let small = disk.path().join("small");
    fs::write(&small, b"x").unwrap();
    let ran = zcav("").arg(&small).run().did_not_panic().exits(0);
    assert!(ran.stdout.contains("\n#0.00 ++++ 0.0"), "{ran}");
    ran.output_contains(&["too short for a rate", "-c"]);
}

#[test]
fn several_files_are_named_on_stdout_and_drawn() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let names = ["<a>", "b"].map(|name| tmpfs.path().join(name));
    names.iter().for_each(|name| fs::write(name, vec![1; 3 << 20]).unwrap());
    let program = zcav("");
    let svg = program.home().join("zcav.svg");
    let ran = program.arg("--svg").arg(&svg).arg(&names[0]).arg(&names[1]).run().did_not_panic().exits(0);
    let (logs, problems) = read(&ran.stdout);
    assert_eq!((logs.len(), problems), (2, vec![]), "{ran}");
    assert!(logs.iter().zip(&names).all(|(log, name)| Path::new(&log.name) == name), "{ran}");
    let drawing = fs::read_to_string(&svg).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{drawing}");
    assert!(drawing.contains("&lt;a&gt;") && !drawing.contains("<a>"), "{drawing}");
}

#[test]
fn full_result_is_saved_for_each_file() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let names = ["a", "b"].map(|name| tmpfs.path().join(name));
    names.iter().for_each(|name| fs::write(name, vec![1; 3 << 20]).unwrap());
    let program = zcav("-c 2 -b 1");
    let json = program.home().join("zcav.json");
    let second = program.home().join("zcav.2.json");
    let ran = program.arg("--json").arg(&json).arg(&names[0]).arg(&names[1]).run().did_not_panic().exits(0);
    for (file, name) in [&json, &second].into_iter().zip(&names) {
        let run = document(file);
        assert_eq!(run["environment"]["target"]["path"], name.to_str().unwrap(), "{ran}");
        let phases = run["phases"].as_array().unwrap();
        assert_eq!(phases.len(), 2, "a repetition for each pass");
        for phase in phases {
            assert_eq!(
                (&phase["spec"], &phase["zones"]["count"]),
                (&"read:seq1m:zones=1m".into(), &3.into())
            );
            assert!(phase["verdict"].is_object() && phase["latency_ns"].is_object(), "{phase:#}");
        }
    }
    // Without a name it is in the store. It never replaces what is measured.
    let ran = zcav("").arg(&names[0]).run().did_not_panic().exits(0);
    assert_eq!(ran.saved().len(), 1, "{ran}");
    ran.stderr_contains(&["the full result: skye why"]);
    let ran = zcav("").arg("--json").arg(&names[0]).arg(&names[0]).run().did_not_panic().exits(1);
    ran.stderr_contains(&["which is measured"]);
    zcav("--json - -w").arg(&names[0]).run().did_not_panic().exits(1).stderr_contains(&["--json"]);
}

#[test]
fn stdin_from_a_file_is_read_and_pipe_refused() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let path = tmpfs.path().join("file");
    fs::write(&path, vec![1; 3 << 20]).unwrap();
    let run = |stdin: Stdio| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_skye"));
        // Its store is not the user's.
        program.args(["zcav", "-"]).env("XDG_STATE_HOME", tmpfs.path()).stdin(stdin);
        let output = program.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = run(File::open(&path).unwrap().into());
    assert_eq!((code, log(&stdout).passes[0].mib), (Some(0), 3), "{stderr}");
    let (code, _, stderr) = run(Stdio::piped());
    assert!(code == Some(1) && stderr.contains("stdin: it is a pipe"), "{stderr}");
}

#[test]
fn zeros_are_written_only_over_zeros_within_size() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let file = tmpfs.path().join("file");
    let size = 5 * MIB + 1000;
    for is_written in [false, true] {
        File::create(&file).unwrap().set_len(size).unwrap();
        if is_written {
            fs::write(&file, vec![0; size as usize]).unwrap();
        }
        let link = tmpfs.path().join("link");
        let _ = symlink(&file, &link);
        let ran = zcav("-w -b 2").arg(&link).run().did_not_panic().exits(0);
        assert!(ran.stdout.contains("# Wrote 5 megs in "), "{ran}");
        let (read, metadata) = (fs::read(&file).unwrap(), file.metadata().unwrap());
        assert!(read.iter().all(|byte| *byte == 0) && read.len() as u64 == size, "{} bytes", read.len());
        assert!(metadata.blocks() * 512 >= size, "it was written");
    }
}

#[test]
fn write_that_could_lose_data_is_refused() {
    xtask::require!(root, loop, ext4, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let file = tmpfs.path().join("file");
    let mut data = vec![0; 6 << 20];
    data[(4 << 20) + 3] = 1;
    fs::write(&file, &data).unwrap();
    let ran = zcav("-w").arg(&file).run().did_not_panic().exits(1);
    assert!(ran.stderr.contains("first at offset 4194307") && ran.stderr.contains("fallocate -l"), "{ran}");
    assert!(fs::read(&file).unwrap() == data && ran.stdout.is_empty(), "{ran}");
    // Before the byte, there is nothing to lose.
    zcav("-w -r 4").arg(&file).run().did_not_panic().exits(0);
    assert!(fs::read(&file).unwrap() == data);
    // One file holds nothing, and the other does: neither is begun.
    let empty = tmpfs.path().join("empty");
    File::create(&empty).unwrap().set_len(4 * MIB).unwrap();
    zcav("-w").arg(&empty).arg(&file).run().did_not_panic().exits(1);
    assert_eq!(empty.metadata().unwrap().blocks(), 0);
    // The file is larger than the free space.
    let large = tmpfs.path().join("large");
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    zcav("-w")
        .arg(&large)
        .run()
        .did_not_panic()
        .exits(1)
        .output_contains(&["holes need", "use smaller or fewer files"]);
    assert_eq!(large.metadata().unwrap().blocks(), 0);
    // There is room for each of them, and not for both.
    let halves = ["half", "other half"].map(|name| tmpfs.path().join(name));
    halves.iter().for_each(|path| File::create(path).unwrap().set_len(40 * MIB).unwrap());
    let both = zcav("-w").arg(&halves[0]).arg(&halves[1]).run().did_not_panic().exits(1);
    both.output_contains(&["holes need 80 MiB"]);
    // Another program has the file open.
    let held = Command::new("sleep").arg("600").stdin(File::open(&halves[0]).unwrap()).spawn();
    let mut held = held.unwrap();
    let ran = zcav("-w").arg(&halves[0]).run().did_not_panic().exits(1);
    held.kill().unwrap();
    held.wait().unwrap();
    ran.output_contains(&["has it open"]);
    assert!(halves.iter().all(|path| path.metadata().unwrap().blocks() == 0));
    // Devices, and files under one, are refused.
    let disk = LoopFs::new("ext4", 64, &[], "");
    let inside = disk.path().join("inside");
    fs::write(&inside, "data").unwrap();
    zcav("-w").arg(disk.device()).run().did_not_panic().exits(1).output_contains(&[
        "block device",
        "destroy",
        "fallocate",
    ]);
    zcav("-w").arg(disk.image()).run().did_not_panic().exits(1).output_contains(&["is under /dev/loop"]);
    assert_eq!(fs::read(&inside).unwrap(), b"data");
}

#[test]
fn results_replace_only_older_results() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let [file, notes, results] = ["file", "notes", "results"].map(|name| tmpfs.path().join(name));
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    fs::write(&notes, "mine").unwrap();
    for flag in ["-l", "--svg"] {
        let ran = zcav("").arg(flag).arg(&notes).arg(&file).run().did_not_panic().exits(1);
        assert!(ran.stderr.contains("data that is not from zcav"), "{ran}");
        let ran = zcav("").arg(flag).arg(&file).arg(&file).run().did_not_panic().exits(1);
        assert!(ran.stderr.contains("which is measured"), "{ran}");
    }
    assert_eq!((fs::read(&notes).unwrap(), file.metadata().unwrap().len()), (b"mine".to_vec(), MIB));
    // Results are replaced by results.
    for _ in 0..2 {
        zcav("").arg("-l").arg(&results).arg(&file).run().did_not_panic().exits(0);
        log(&fs::read_to_string(&results).unwrap());
    }
    // A log with notes in it is not replaced, nor is a drawing of something else.
    fs::write(&notes, format!("mine\n{}", fs::read_to_string(&results).unwrap())).unwrap();
    zcav("").arg("-l").arg(&notes).arg(&file).run().did_not_panic().exits(1);
    fs::write(&notes, "<svg><title>A logo</title></svg>\n").unwrap();
    zcav("").arg("--svg").arg(&notes).arg(&file).run().did_not_panic().exits(1);
    assert!(fs::read_to_string(&notes).unwrap().contains("A logo"));
    // A link stays, and the file behind it is replaced. Two names of one file are one file.
    let link = tmpfs.path().join("link");
    symlink(&results, &link).unwrap();
    fs::write(&results, "").unwrap();
    zcav("").arg("-l").arg(&link).arg(&file).run().did_not_panic().exits(0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    log(&fs::read_to_string(&results).unwrap());
    let ran = zcav("").arg("-l").arg(&link).arg(&file).arg("--svg").arg(&results).run();
    assert!(ran.did_not_panic().exits(1).stderr.contains("data that is not from zcav"));
    let new = tmpfs.path().join("new");
    let again = tmpfs.path().join("..").join(tmpfs.path().file_name().unwrap()).join("new");
    let ran = zcav("").arg("-l").arg(&new).arg(&file).arg("-l").arg(&again).arg(&file).run();
    ran.did_not_panic().exits(1).output_contains(&["other results go to the same file"]);
    assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 4, "nothing is left beside it");
}

#[test]
fn signal_ends_run_and_prints_results_so_far() {
    xtask::require!(root, fuse);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let fuse = served(400, Faults::default());
        let mut running = zcav("-b 2").arg(fuse.path().join("file")).spawn();
        assert!(running.wait_until(|| fuse.counts().bytes_read > 9 * MIB));
        running.signal(signal);
        let ran = running.wait().did_not_panic().exits(code);
        let log = log(&ran.stdout);
        assert!(log.lines.len() >= 2 && log.passes.len() == 1, "{ran}");
        assert!((8..400).contains(&log.passes[0].mib), "{ran}");
        assert!(fuse.counts().bytes_read < 400 * MIB, "it ended early");
    }
}

#[test]
fn closed_stdout_pipe_ends_run_quietly() {
    xtask::require!(root, fuse);
    let fuse = served(400, Faults::default());
    let mut running = zcav("-b 2").arg(fuse.path().join("file")).unread().spawn();
    assert!(running.wait_until(|| fuse.counts().bytes_read > 5 * MIB));
    running.close_stdout();
    let ran = running.wait().did_not_panic().exits(0);
    assert!(!ran.stderr.to_lowercase().contains("broken pipe"), "{ran}");
    assert!(fuse.counts().bytes_read < 400 * MIB, "it ended early");
}

#[test]
fn hung_device_does_not_block_signals() {
    xtask::require!(root, fuse);
    // The first read is the one that tries direct I/O.
    let fuse = served(400, Faults { hang_from_read: Some(9), ..Faults::default() });
    let mut running = zcav("-b 2").impatient().arg(fuse.path().join("file")).spawn();
    assert!(running.wait_until(|| fuse.counts().hanging > 0));
    running.signal(Signal::TERM);
    let mut polled = || running.has_left();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !polled() {
        assert!(std::time::Instant::now() < deadline, "it does not leave");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    fuse.release();
    let ran = running.wait().did_not_panic().exits(143);
    assert!(!log(&ran.stdout).lines.is_empty(), "{ran}");
    ran.output_contains(&["has not returned"]);
}

#[test]
fn read_error_is_reported_with_offset_and_results_kept() {
    xtask::require!(root, fuse);
    let fuse = served(24, Faults { read_error_after: Some((7 * MIB, Errno::EIO)), ..Faults::default() });
    let other = served(4, Faults::default());
    let program = zcav("-b 2").arg(fuse.path().join("file")).arg(other.path().join("file"));
    let ran = program.run().did_not_panic().exits(1);
    let (logs, problems) = read(&ran.stdout);
    assert_eq!((logs.len(), problems), (2, vec![]), "{ran}");
    assert!(logs[0].lines.len() >= 2 && (6..9).contains(&logs[0].passes[0].mib), "{ran}");
    assert_eq!(logs[1].passes[0].mib, 4, "the other went on: {ran}");
    ran.output_contains(&["read", "at offset", "Input/output error"]);
    // A file that ends before it should.
    let fuse = served(24, Faults { reads_end_at: Some(5 * MIB), ..Faults::default() });
    let ran = zcav("-b 2").arg(fuse.path().join("file")).run().did_not_panic().exits(1);
    assert_eq!(log(&ran.stdout).passes[0].mib, 5, "{ran}");
    ran.output_contains(&["at offset 5242880", "shorter"]);
}

#[test]
fn files_are_opened_as_the_requested_user() {
    xtask::require!(root, tmpfs, user);
    let tmpfs = Tmpfs::new("64m", None);
    let file = tmpfs.path().join("file");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    open_to_all(&file);
    zcav("-u nobody").arg(&file).run().did_not_panic().exits(0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let ran = zcav("-u nobody").arg(&file).run().did_not_panic().exits(1);
    ran.output_contains(&["Permission denied", "a user with read access"]);
    zcav("-u no-such-user").arg(&file).run().exits(1).output_contains(&["there is no such user"]);
}

#[test]
fn refused_arguments_suggest_valid_ones() {
    let home = scratch(1 << 20);
    let file = home.path().join("file");
    fs::write(&file, vec![1; 3 << 20]).unwrap();
    for (words, code, tells) in [
        ("-b 4:8", 1, &["-b `4:8`", "-b 4:4"][..]),
        ("-c 1000", 1, &["-c `1000`", "1 to 100"]),
        ("-s 1", 1, &["-s `1`", "2 to 20"]),
        ("-r 9:5", 1, &["-r `9:5`", "-r 9:10"]),
        ("-r 5:9", 2, &["3 MiB", "before MiB 5", "START below 3"]),
        ("-l /nowhere/log", 1, &["/nowhere/log", "No such file"]),
        ("--svg /nowhere/svg", 1, &["/nowhere/svg", "No such file"]),
        ("/dev/null", 1, &["/dev/null", "character device"]),
        ("/nowhere", 1, &["/nowhere", "No such file"]),
        ("/", 1, &["a directory"]),
    ] {
        let ran = zcav(words).arg(&file).run().did_not_panic().exits(code);
        assert_eq!(ran.stdout, "", "{words}");
        ran.output_contains(tells);
    }
    File::create(&file).unwrap();
    zcav("").arg(&file).run().exits(2).output_contains(&["it is empty"]);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn symlink_with_original_name_selects_command() {
    let home = scratch(1 << 20);
    let link = home.path().join("zcav");
    symlink(env!("CARGO_BIN_EXE_skye"), &link).unwrap();
    let output = Command::new(&link).arg("--help").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"Usage: skye zcav"), "{output:?}");
}
