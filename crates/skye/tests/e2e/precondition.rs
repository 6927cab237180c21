//! Preconditioning: the data is filled twice, and a test is repeated in rounds until the rule of SNIA calls it steady.

use std::fs;
use std::path::Path;

use rig::{Disk, Spec, Zram};
use serde_json::Value;

use crate::support::fuse::{Faults, Fuse};
use crate::support::mounts::ZramFs;
use crate::support::program::{Skye, assert_nothing_left, parse_document, skye};
use crate::support::{device_id, scratch};

const MIB: u64 = 1 << 20;

/// A drive of 1 GiB that is four times as fast until 5 GB were written to it.
const DRIVE: &str = "size = \"1g\"\nparallelism = 8\nwrite_bytes_per_second = 400_000_000\nlatency = { mean_us = 20 }\n\
                     wear = [{ after_bytes = 5_000_000_000, write_bytes_per_second = 100_000_000 }]";

fn measured(program: Skye) -> Value {
    parse_document(&program.words("--json - --no-probe").run().did_not_panic().exits(0).stdout)
}

/// Returns the rates of the rounds, after a check that the test ended by the rule and no later.
#[track_caller]
fn rounds(phase: &Value) -> Vec<f64> {
    let all = &phase["until_steady"];
    let rounds = all["rounds"].as_array().unwrap();
    let rates: Vec<_> = rounds.iter().map(|round| round["ops_per_second"].as_f64().unwrap()).collect();
    let steady = stats::steady_round(&rates);
    assert_eq!(all["steady_round"].as_u64(), steady.map(|round| round as u64), "{rates:?}");
    assert!(rates.len() <= 25 && steady.is_none_or(|round| round == rates.len()), "{rates:?}");
    rates
}

#[test]
fn simulated_drive_becomes_steady_in_expected_round() {
    let home = scratch(MIB);
    let file = home.path().join("drive.toml");
    fs::write(&file, DRIVE).unwrap();
    let on = |words: &str| {
        let run = measured(skye().arg("run").arg(format!("sim:{}", file.display())).words(words));
        run["phases"].as_array().unwrap().clone()
    };
    let words = "--size 1g --time 2 --test write:rnd4k:q32 --write-limit 500GB";
    // Two fills write 2.15 GB, so 2.85 GB are written fast: three rounds of 0.8 GB, and a part of the fourth. The fifth
    // is the first slow one, and the ninth ends the first window of five slow ones.
    let once = on(&format!("{words} --precondition"));
    let rates = rounds(&once[0]);
    assert_eq!(rates.len(), 9, "{rates:?}");
    for (round, expected) in [(0, 4e8), (1, 4e8), (2, 4e8), (4, 1e8), (8, 1e8)] {
        let bytes_per_second = rates[round] * 4096.0;
        assert!((bytes_per_second / expected - 1.0).abs() < 0.01, "round {}: {bytes_per_second}", round + 1);
    }
    // The number of the row is the mean of the window, and nothing calls it unsteady.
    let rate = once[0]["rate"]["bytes_per_second"].as_f64().unwrap();
    assert!((rate / 1e8 - 1.0).abs() < 0.01, "{rate}");
    let codes: Vec<_> = once[0]["notes"].as_array().unwrap().iter().map(|note| &note["code"]).collect();
    assert!(
        codes.iter().any(|code| *code == "steady_rounds") && !codes.iter().any(|code| *code == "not_steady")
    );
    // A drive stays old in the next repetition, and a purge makes it new.
    let steady = |words: &str| -> Vec<_> { on(words).iter().map(|phase| rounds(phase).len()).collect() };
    assert_eq!(steady(&format!("{words} --precondition --repeat 2")), [9, 5]);
    assert_eq!(steady(&format!("{words} --purge --repeat 2")), [9, 9]);
}

/// Checks the bytes of a preconditioned run on a file system against its plan.
#[track_caller]
fn assert_planned_writes(run: &Value, size_bytes: u64) {
    let written = |phases: &Value, key: &str| -> u64 {
        phases.as_array().unwrap().iter().map(|phase| phase[key].as_u64().unwrap()).sum()
    };
    let fills = &run["fills"];
    assert_eq!((written(fills, "bytes"), fills.as_array().unwrap().len()), (2 * size_bytes, 1), "{fills}");
    let all = size_bytes + written(fills, "bytes") + written(&run["phases"], "app_bytes_written");
    let most = run["plan"]["bytes_to_write_max"].as_u64().unwrap();
    assert!(all <= most, "{all} bytes are more than {most}");
}

#[test]
#[ignore = "long"]
fn files_are_filled_twice_within_planned_bytes() {
    let home = scratch(256 * MIB);
    let tests = "--test write:rnd4k:q8 --test read:rnd4k:q8 --test read:rnd4k:ops=50";
    let words = "--size 8m --time 0.3 --precondition --verify --write-limit 1GB --allow low-space,busy";
    let run = measured(skye().arg("run").arg(home.path()).words(words).words(tests));
    assert_planned_writes(&run, 8 * MIB);
    let phases = run["phases"].as_array().unwrap();
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}", phase["reason"]);
    }
    phases[..2].iter().for_each(|phase| assert!(!rounds(phase).is_empty(), "{}", phase["until_steady"]));
    assert!(phases[2]["until_steady"].is_null());
    // What is read is the fills' and the test's, and all of it is compared.
    assert!(phases[1]["verified_blocks"].as_u64() > Some(0) && phases[2]["verified_blocks"] == 50);
    assert_nothing_left(home.path());
}

#[test]
fn zram_file_system_is_purged_and_filled() {
    xtask::require!(root, zram, ext4);
    let disk = ZramFs::new("ext4", 96, &["-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    let words = "--size 8m --time 0.2 --purge --write-limit 1GB --allow low-space,busy --test rw:rnd4k:q4";
    let run = measured(skye().arg("run").arg(disk.path()).words(words));
    assert_planned_writes(&run, 8 * MIB);
    assert!(run["fills"][0]["purged_ns"].as_u64() > Some(0), "{}", run["fills"]);
    rounds(&run["phases"][0]);
    assert_nothing_left(disk.path());
}

#[test]
fn whole_devices_are_purged_and_filled() {
    xtask::require!(root, loop, zram);
    let zram = Zram::new(16 * MIB).unwrap();
    let disk = Disk::build(&Spec::disk().size_mib(16)).unwrap();
    let words = "--erase-data --time 0.1 --purge --write-limit 1GB --allow busy,unreadable-processes";
    for device in [Path::new(&zram.path()), &disk.path()] {
        let program = skye().arg("run").arg(device).arg("--erase").arg(device_id(device)).words(words);
        let program = program.words("--test write:rnd4k:q4");
        let run = measured(program.words("--test read:rnd4k:q4"));
        assert_planned_writes(&run, 16 * MIB);
        assert!(run["fills"][0]["purged_ns"].as_u64() > Some(0), "{}", run["fills"]);
        run["phases"].as_array().unwrap().iter().for_each(|phase| assert!(!rounds(phase).is_empty()));
        // All of it was written, and nothing holds it any longer.
        assert!(fs::read(device).unwrap().chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
    }
}

fn refused(target: &Path, words: &str) -> Skye {
    skye().arg("run").arg(target).words("--size 4m --time 0.2 --allow low-space,busy").words(words)
}

#[test]
fn precondition_unsupported_target_is_refused_before_writing() {
    let home = scratch(64 * MIB);
    let file = home.path().join("file");
    fs::write(&file, vec![7; 8 * MIB as usize]).unwrap();
    let ran = refused(&file, "--precondition --test read:rnd4k").run().did_not_panic().exits(2);
    ran.stderr_contains(&["which skye only reads; choose a directory, or drop preconditioning"])
        .has_no_result();
    let ran = refused(home.path(), "--precondition --test write:rnd4k --write-limit 9m").run().exits(2);
    ran.stderr_contains(&["files and tests need at least 12.6 MB; use --write-limit 1GB"]).has_no_result();
    assert_eq!(fs::read(&file).unwrap(), vec![7; 8 * MIB as usize]);
    fs::remove_file(&file).unwrap();
    assert_nothing_left(home.path());
}

#[test]
fn purge_without_hole_punching_fails_before_writing() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let ran = refused(fuse.path(), "--purge --test write:rnd4k").run().did_not_panic();
    ran.stderr_contains(&["this file system cannot punch holes"]);
    assert_nothing_left(fuse.path());
}

#[test]
fn fill_uses_no_more_threads_than_blocks() {
    let home = scratch(64 * MIB);
    let words = "--allow low-space,busy --cache warm --time 0.1 --size 2m --test read:rnd4k:buffered";
    // The fills have 32 threads without a ring, and 16 blocks.
    let run = skye().arg("run").arg(home.path()).words(words).words("--precondition");
    let run = measured(run.without_call(libc::SYS_io_uring_setup));
    assert_planned_writes(&run, 2 * MIB);
    assert_nothing_left(home.path());
}
