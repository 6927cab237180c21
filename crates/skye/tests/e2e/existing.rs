//! A block device or a file as the target is only read. Nothing in it or beside it changes, and all that would write is
//! refused.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use rig::{Disk, Spec};
use serde_json::Value;

use crate::support::mounts::{LoopFs, run as run_command};
use crate::support::program::{Output, Skye, assert_nothing_left, parse_document, skye};
use crate::support::scratch;

const MIB: u64 = 1 << 20;

fn on(target: &Path, words: &str) -> Skye {
    skye().arg("run").arg(target).words(words).words("--json -")
}

/// Returns the phases of a run that ended well, and its target.
#[track_caller]
fn measured(program: Skye) -> (Vec<Value>, Value, Output) {
    let ran = program.run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let phases = run["phases"].as_array().unwrap().clone();
    for phase in &phases {
        assert_eq!(phase["status"], "done", "{}: {}", phase["spec"], phase["reason"]);
        assert!(phase["ops"].as_u64() > Some(0), "{}", phase["spec"]);
        assert_eq!(phase["app_bytes_written"], 0, "{}", phase["spec"]);
        assert_eq!(phase["verified_blocks"], 0, "{}", phase["spec"]);
    }
    let plan_notes = run["plan"]["notes"].to_string();
    assert!(plan_notes.contains("read-only: nothing is written"), "{plan_notes}");
    (phases, run["environment"]["target"].clone(), ran)
}

/// Everything that a write to a file would change, and all names beside it.
fn state(file: &Path) -> (Vec<u8>, i64, i64, i64, u64, Vec<String>) {
    let metadata = file.metadata().unwrap();
    let names = fs::read_dir(file.parent().unwrap()).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let times = (metadata.mtime(), metadata.mtime_nsec(), metadata.ctime_nsec());
    (fs::read(file).unwrap(), times.0, times.1, times.2, metadata.blocks(), names)
}

#[test]
fn existing_file_is_read_without_changes() {
    let home = scratch(64 * MIB);
    let file = home.path().join("image");
    fs::write(&file, (0..16 * MIB).map(|byte| (byte % 251) as u8).collect::<Vec<_>>()).unwrap();
    File::open(&file).unwrap().sync_all().unwrap();
    let link = home.path().join("link");
    symlink("image", &link).unwrap();
    let before = state(&file);
    let words = "--time 0.2 --no-probe --test read:rnd4k:q4t2 --test read:seq1m --test read:rnd4k:buffered:ops=50 \
                 --test byte-read:ops=1000 --test read:seq1m:zones=4m --test read:rnd4k:range=4m..8m:ops=99";
    let (phases, target, _) = measured(on(&link, words));
    assert_eq!(
        (&target["kind"], target["path"].as_str()),
        (&"file".into(), file.canonicalize().unwrap().to_str())
    );
    assert_eq!(phases.len(), 6);
    assert_eq!(state(&file), before);
    // The tests of a preset that read, over the whole length.
    let (phases, _, ran) = measured(on(&file, "--preset quick --time 0.2 --no-probe"));
    let specs: Vec<_> = phases.iter().map(|phase| phase["spec"].as_str().unwrap()).collect();
    assert_eq!(specs, ["read:seq1m:q8", "read:rnd4k:q32", "read:rnd4k"]);
    assert!(phases.iter().all(|phase| phase["workload"]["size_bytes"] == 16 * MIB), "{ran}");
    let notes = parse_document(&ran.stdout)["plan"]["notes"].to_string();
    assert!(notes.contains("skipped write:seq1m:q8, write:rnd4k:q32, fsync:rnd4k: "), "{notes}");
    assert_eq!(state(&file), before);
}

#[test]
fn write_tests_on_existing_file_are_refused_without_change() {
    let home = scratch(64 * MIB);
    let file = home.path().join("image");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    let before = state(&file);
    for (words, message) in [
        ("--test write", &["`write:seq1m`", "only reads", "read:rnd4k:q32"][..]),
        ("--test read --test rewrite:rnd4k", &["`rewrite:rnd4k`", "only reads"]),
        ("--test fsync", &["only reads"]),
        ("--test rw:read=100", &["only reads"]),
        ("--test write:fresh --size 1m", &["only reads"]),
        ("--test putc-write", &["only reads"]),
        ("--test create", &["not a directory", "choose a directory"]),
        ("--test stat", &["not a directory"]),
        ("--test read:files=3", &["files is for", "drop files"]),
        ("--test read:compress=20", &["compress is for"]),
        ("--test read --verify", &["skye did not write it", "--verify"]),
        ("--test read --size 1g", &["its size is 4", "smaller --size"]),
        ("--test read:seq1m:q8", &["in whole blocks", "less depth"]),
        ("--test read:rnd4k:range=2m..9m", &["its size is 4194304 bytes", "within it"]),
        ("--test read:rnd4k:range=1000..9000", &["not in whole blocks of 4k"]),
        ("--test read:rnd4k:q9:range=0..32k", &["fewer blocks than", "less depth"]),
        ("--test read:zones=1k:seq512:every=2 --test write", &["only reads"]),
    ] {
        let ran = skye().arg("run").arg(&file).words(words).run().did_not_panic().exits(2);
        ran.stderr_contains(message).has_no_result();
        assert_eq!(state(&file), before, "{words}");
    }
    // No result replaces the file that it is of.
    for form in ["--json", "--csv", "--html", "--openmetrics"] {
        let ran = skye().arg("run").arg(&file).words("--test read:ops=1").arg(form).arg(&file).run();
        ran.did_not_panic().exits(2).stderr_contains(&["this run reads it"]);
    }
    assert_eq!(state(&file), before);
    let pipe = home.path().join("pipe");
    run_command(Command::new("mkfifo").arg(&pipe));
    for strange in [&pipe, Path::new("/dev/tty"), Path::new("/dev/zero")] {
        let ran = skye().arg("run").arg(strange).words("--test read").run().did_not_panic().exits(2);
        ran.stderr_contains(&["cannot use", "Not a directory, a file or a block device"]).has_no_result();
    }
    skye()
        .arg("run")
        .arg(home.path())
        .words("--test read:range=0..1m")
        .run()
        .exits(2)
        .stderr_contains(&["skye creates the files", "choose a device or a file"]);
}

#[test]
fn unreadable_file_is_refused() {
    xtask::require!(root, user);
    use std::os::unix::fs::PermissionsExt;
    let home = scratch(8 * MIB);
    crate::support::program::open_to_all(home.path());
    let file = home.path().join("image");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let ran =
        skye().arg("run").arg(&file).words("--test read").by_other_user().run().did_not_panic().exits(2);
    ran.stderr_contains(&["cannot open", "Permission denied", "a user with read access"]).has_no_result();
}

#[test]
fn mounted_or_read_only_device_is_readable() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 64, &[], "");
    fs::write(disk.path().join("inside"), "data").unwrap();
    run_command(Command::new("sync").arg("-f").arg(disk.path()));
    let device = Path::new(disk.device());
    let (phases, target, _) =
        measured(on(device, "--time 0.2 --no-probe --test read:rnd4k:q8 --test read:seq1m:zones=8"));
    assert_eq!((&target["kind"], &target["space"]["total_bytes"]), (&"device".into(), &(64 * MIB).into()));
    let zones = &phases[1]["zones"];
    assert_eq!((&zones["count"], &zones["bytes"]), (&8.into(), &(8 * MIB).into()));
    let notes = target["notes"].to_string();
    assert!(notes.contains("is mounted at") && notes.contains("other processes' I/O affects"), "{notes}");
    assert_nothing_left(disk.path());
    // Whatever is asked for, a device that is read-only can be measured.
    let loop_device = || {
        run_command(Command::new("losetup").args(["-r", "-f", "--show"]).arg(disk.image())).trim().to_owned()
    };
    struct Detach(String);
    impl Drop for Detach {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
        }
    }
    let read_only = Detach(loop_device());
    let (phases, ..) = measured(on(Path::new(&read_only.0), "--preset disk --time 0.2"));
    assert_eq!(phases.len(), 4);
    let doctor = skye().arg("doctor").arg(&read_only.0).run().did_not_panic();
    assert!([Some(0), Some(5)].contains(&doctor.code), "{doctor}");
    doctor.output_contains(&["a block device, which a run only reads", "nothing is written"]);
    let ran = skye().arg("run").arg(&read_only.0).words("--test write:rnd4k").run().did_not_panic().exits(2);
    ran.stderr_contains(&["a block device, which skye only reads"]).has_no_result();
}

#[test]
fn sparse_file_is_reported_by_run_and_doctor() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 64, &[], "");
    let file = disk.path().join("sparse");
    File::create(&file).unwrap().set_len(32 * MIB).unwrap();
    let (phases, ..) = measured(on(&file, "--time 0.2 --no-probe --test read:rnd4k:q4"));
    assert_eq!(phases[0]["extents"]["hole_share"], 1.0);
    let notes = phases[0]["notes"].to_string();
    assert!(
        notes.contains("100 % of the files' bytes are holes") && notes.contains("a fully written file"),
        "{notes}"
    );
    let doctor = skye().arg("doctor").arg(&file).run().did_not_panic();
    assert!([Some(0), Some(5)].contains(&doctor.code), "{doctor}");
    doctor.output_contains(&["a file, which a run only reads", "nothing is written"]);
    assert_eq!(file.metadata().unwrap().blocks(), 0);
}

#[test]
fn zone_rates_show_step_at_its_position() {
    xtask::require!(root, loop, ext4, blkio);
    let spec = Spec::disk().file_system("ext4").size_mib(80).read_bytes_per_second(16 * MIB);
    let disk = Disk::build(&spec).unwrap();
    // The device gives out 16 MiB a second. For the hole behind the data, nobody asks it.
    let file = disk.path().join("file");
    fs::write(&file, vec![7; 16 << 20]).unwrap();
    File::options().write(true).open(&file).unwrap().set_len(32 * MIB).unwrap();
    File::open(&file).unwrap().sync_all().unwrap();
    for words in
        ["--preset zones --no-probe", "--test read:seq1m:zones=1m", "--test read:seq1m:buffered:zones=1m"]
    {
        let (phases, _, ran) = measured(on(&file, words));
        let zones = &phases[0]["zones"];
        assert_eq!((&zones["count"], &zones["bytes"]), (&32.into(), &MIB.into()), "{ran}");
        let starts: Vec<_> = (0..32).map(|zone| Value::from(zone * MIB)).collect();
        assert_eq!(zones["start_bytes"], Value::from(starts), "{ran}");
        let times: Vec<_> =
            zones["elapsed_ns"].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).collect();
        let (slow, fast) = times.split_at(16);
        // A limit lets a tenth of a second's worth through at once, and the page cache reads ahead.
        assert!(slow.iter().sum::<u64>() > 800_000_000, "{slow:?}");
        assert!(slow[4..12].iter().sum::<u64>() > 2 * fast.iter().sum::<u64>(), "{times:?}");
        // The worker ends a moment after the last zone.
        assert!(Some(times.iter().sum()) <= phases[0]["rate"]["last_done_ns"].as_u64(), "{ran}");
    }
    let ran = skye().arg("run").arg(&file).words("--test read:seq1m:zones=4m").run().did_not_panic().exits(0);
    ran.output_contains(&["zones", "MB/s at 0 %", "MB/s at 100 %"]);
}

#[test]
fn zones_are_measured_on_simulated_device_and_own_files() {
    let home = scratch(64 * MIB);
    let words = "--test read:seq1m:zones=4 --size 8m --allow low-space --json -";
    let ran = skye().arg("run").arg(home.path()).words(words).run().did_not_panic().exits(0);
    let zones = &parse_document(&ran.stdout)["phases"][0]["zones"];
    assert_eq!((&zones["count"], &zones["bytes"]), (&4.into(), &(2 * MIB).into()), "{ran}");
    assert_nothing_left(home.path());
    // Half a second at 100 MB/s, and then at a tenth of that.
    let device = home.path().join("disk.toml");
    let text = "name = \"disk\"\nsize = \"60m\"\nparallelism = 1\nbytes_per_second = \"100MB\"\n\
                throttles = [{ at_s = 0.5, bytes_per_second = \"10MB\" }]\n[latency]\nkind = \"fixed\"\nmean_us = 1\n";
    fs::write(&device, text).unwrap();
    let ran = skye().arg("run").arg(format!("sim:{}", device.display()));
    let ran = ran.words("--test read:seq1m:zones=6 --size 60m --json -").run().did_not_panic().exits(0);
    let phase = &parse_document(&ran.stdout)["phases"][0];
    let zones = &phase["zones"];
    assert_eq!((&zones["count"], &zones["bytes"]), (&6.into(), &(10 * MIB).into()), "{ran}");
    // The rate of a disk that slows inwards is that of the whole pass, and nothing calls it unsteady.
    assert_eq!(phase["rate"]["ops_per_second"], phase["rate"]["overall_ops_per_second"], "{ran}");
    let codes: Vec<_> = phase["notes"].as_array().unwrap().iter().map(|note| &note["code"]).collect();
    assert!(codes.iter().all(|code| *code == "several_modes"), "{codes:?}");
    let seconds: Vec<_> =
        zones["elapsed_ns"].as_array().unwrap().iter().map(|ns| ns.as_f64().unwrap() / 1e9).collect();
    // Ten MiB are 10.49 MB. The fifth zone has the change in it.
    for (zone, expected) in [(1, 0.1049), (2, 0.1049), (3, 0.1049), (5, 1.049)] {
        assert!((seconds[zone] / expected - 1.0).abs() < 0.02, "{zone}: {seconds:?}");
    }
    assert!(seconds[4] > 0.105 && seconds[4] < 1.049, "{seconds:?}");
}
