//! The program measures the requested tests: every verb works in every form, files are really there, and the device
//! confirms the bytes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::fuse::{Errno, Faults, Fuse};
use crate::support::mounts::{LoopFs, run as run_command};
use crate::support::program::{
    assert_nothing_left, document, intervals, leftovers, parse_document, phases, skye,
};
use crate::support::scratch;

fn phase<'a>(run: &'a Value, id: &str) -> &'a Value {
    let phases = run["phases"].as_array().unwrap();
    phases.iter().find(|phase| phase["id"] == id).unwrap_or_else(|| panic!("no phase {id} in {phases:#?}"))
}

#[test]
#[ignore = "long"]
fn every_file_verb_runs_with_every_option() {
    let home = scratch(64 << 20);
    let verbs =
        ["create", "stat", "open", "readdir", "rename", "link", "symlink", "unlink", "mkdir", "rmdir"];
    let forms = [
        "",
        ":t3",
        ":t3:shared",
        ":t2:order=rnd",
        ":t2:shared:order=rnd:dirs=7:levels=2",
        ":size=1..5000",
        ":sync=end",
        ":dirs=3:sync=each",
    ];
    let mut program = skye().arg("run").arg(home.path());
    program = program.words("--files 211 --time 0.03 --allow low-space,busy --json -");
    for form in forms {
        for verb in verbs {
            program = program.words(&format!("--test {verb}{form}"));
        }
    }
    for missing in ["stat", "open", "unlink"] {
        program = program.words(&format!("--test {missing}:missing:t2"));
    }
    let ran = program.run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let phases = run["phases"].as_array().unwrap();
    assert_eq!(phases.len(), forms.len() * verbs.len() + 3);
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}: {}", phase["spec"], phase["reason"]);
        assert!(phase["ops"].as_u64() > Some(0), "{}", phase["spec"]);
        assert!(phase["rate"]["ops_per_second"].as_f64() > Some(0.0), "{}", phase["spec"]);
        let in_intervals: u64 = intervals(phase).iter().map(|interval| interval.ops).sum();
        assert_eq!(Some(in_intervals), phase["ops"].as_u64(), "{}: intervals lose nothing", phase["spec"]);
    }
    assert_nothing_left(home.path());
}

/// The file tests of bonnie++: sequential and random, empty and filled files, links, in several directories.
#[test]
fn file_tests_of_bonnie_run_as_skye_tests() {
    for form in ["", ":size=1000..3000:chunk=512", ":kind=hardlink", ":kind=symlink"] {
        file_tests_of_bonnie(form);
    }
}

fn file_tests_of_bonnie(form: &str) {
    const FILES: u64 = 300;
    let home = scratch(64 << 20);
    let mut tests = Vec::new();
    for spread in ["", ":t3:dirs=7:levels=2", ":sync=each:dirs=3"] {
        let unread = form.replace(":chunk=512", "");
        for (names, order) in [("number-first", "dir"), ("letters-first", "rnd")] {
            // A time may be over before a busy machine lets a thread begin.
            let common = format!("passes=1:names={names}{spread}");
            tests.push(format!("create:{common}{form}"));
            tests.push(format!("stat:order={order}:contents:{common}{form}"));
            tests.push(format!("open:order={order}:{common}{unread}"));
            tests.push(format!("unlink:order={order}:{common}{unread}"));
        }
    }
    let mut program = skye().arg("run").arg(home.path());
    program = program.words(&format!("--files {FILES} --allow low-space,busy --json -"));
    for test in &tests {
        program = program.words(&format!("--test {test}"));
    }
    let run = parse_document(&program.run().did_not_panic().exits(0).stdout);
    let phases = run["phases"].as_array().unwrap();
    assert_eq!(phases.len(), tests.len());
    for phase in phases {
        let spec = phase["spec"].as_str().unwrap();
        assert_eq!(phase["status"], "done", "{spec}: {}", phase["reason"]);
        assert!(phase["ops"].as_u64() > Some(0), "{spec}");
        let calls = |step: &str| {
            let steps = phase["steps"].as_array().unwrap().iter();
            steps.filter(|found| found["name"] == step).filter_map(|found| found["ops"].as_u64()).sum::<u64>()
        };
        let ops = phase["ops"].as_u64().unwrap();
        assert_eq!(calls("getdents64") > 0, spec.contains("order=dir"), "{spec}");
        let threads = phase["workload"]["threads"].as_u64().unwrap();
        if phase["name"] == "create" {
            let rounds = ops.div_ceil(FILES);
            for (kind, step) in [("kind=hardlink", "link"), ("kind=symlink", "symlink")] {
                let is_kind = spec.contains(kind);
                assert_eq!(calls(step) > 0, is_kind, "{spec}");
                assert!(!is_kind || calls("open") <= rounds * threads, "{spec}");
            }
        }
        if phase["name"] == "stat" {
            assert_eq!(calls("stat"), ops, "{spec}");
            let has_contents = spec.contains("size=");
            assert_eq!(calls("read"), if has_contents { ops } else { 0 }, "{spec}");
            assert_eq!(phase["app_bytes_read"].as_u64() >= Some(1000 * ops), has_contents, "{spec}");
        }
    }
    assert_nothing_left(home.path());
}

#[test]
fn tests_stop_exactly_at_requested_ops_bytes_or_passes() {
    let home = scratch(64 << 20);
    let ran = skye()
        .arg("run")
        .arg(home.path())
        .words("--size 8m --allow low-space,busy --json -")
        .words("--test read:rnd4k:q3t2:buffered:ops=1234 --test write:seq64k:q2:buffered:passes=2")
        .words("--test rw:rnd4k:bytes=1m:buffered --test rewrite:seq64k:t3:passes=1")
        .run()
        .did_not_panic()
        .exits(0);
    let run = parse_document(&ran.stdout);
    let counted = |id: &str| {
        let phase = phase(&run, id);
        let number = |key: &str| phase[key].as_u64().unwrap();
        (number("ops"), number("bytes"), number("app_bytes_read"), number("app_bytes_written"))
    };
    // 8 MiB give three files of 42 blocks of 64 KiB, as each file holds whole blocks.
    let set = 3 * 42 * 65_536;
    assert_eq!(counted("01-read"), (1234, 1234 * 4096, 1234 * 4096, 0));
    assert_eq!(counted("02-write"), (2 * 126, 2 * set, 0, 2 * set));
    let (ops, bytes, read, written) = counted("03-rw");
    assert_eq!((ops, bytes, read + written), (256, 1 << 20, 1 << 20));
    assert!(read > 0 && written > 0);
    assert_eq!(counted("04-rewrite"), (126, set, set, set));
}

/// The tests on data of bonnie++: bytes into a new file, then all of a file that is new again. The other tests work on
/// that file.
#[test]
fn fresh_and_byte_write_tests_start_with_empty_file() {
    let home = scratch(64 << 20);
    let ran = skye()
        .arg("run")
        .arg(home.path())
        .words("--size 8m --repeat 2 --verify --no-probe --allow low-space,busy --json -")
        .words("--test byte-write:bytes=100k --test write:seq8k:buffered:fresh --test rewrite:seq8k:passes=1")
        .words("--test byte-read:bytes=100k --test read:seq8k:buffered:passes=1")
        .words("--test rw:rnd8k:t5:files=1:read=90:buffered:ops=2000 --test byte-read:ops=1000")
        .run()
        .did_not_panic()
        .exits(0);
    let run = parse_document(&ran.stdout);
    let phases = run["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 14);
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}: {}", phase["spec"], phase["reason"]);
        assert_eq!(phase["workload"]["files"], 1, "{}", phase["spec"]);
        let number = |key: &str| phase[key].as_u64().unwrap();
        let (bytes, moved) = (8 << 20, number("app_bytes_read") + number("app_bytes_written"));
        let (expected_bytes, expected_verified) = match phase["name"].as_str().unwrap() {
            "write" => (bytes, 0),
            "rewrite" => (2 * bytes, 1024),
            "read" => (bytes, 1024),
            "byte-write" => (100 << 10, 0),
            "byte-read" if phase["spec"] == "byte-read:bytes=100k" => (100 << 10, 25),
            "byte-read" => (1000, 0),
            _ => (2000 * 8192, number("app_bytes_read") / 8192),
        };
        assert_eq!((moved, number("verified_blocks")), (expected_bytes, expected_verified), "{phase:#}");
        // Tests on bytes report the longest time of many calls in a row, if there are that many.
        let slowest = &phase["slowest_calls"];
        if phase["name"].as_str().unwrap().starts_with("byte-") && moved > 8192 {
            assert_eq!(slowest["calls"], 8192);
            let longest_ns = slowest["time_ns"].as_u64().unwrap();
            assert!(longest_ns > 0 && longest_ns <= number("elapsed_ns"), "{phase:#}");
        } else {
            assert!(slowest.is_null(), "{phase:#}");
        }
    }
    // Files that the test makes are not announced twice.
    let announced = run["plan"]["bytes_to_write_max"].as_u64().unwrap();
    assert_eq!(announced, 2 * ((100 << 10) + (8 << 20) + (8 << 20) + 2000 * 8192));
    assert_nothing_left(home.path());
}

#[test]
fn fresh_write_can_be_interrupted() {
    let home = scratch(64 << 20);
    let program = skye().arg("run").arg(home.path());
    // The file of 4 MiB takes ten seconds.
    let program =
        program.words("--size 4m --allow low-space,busy --test write:seq4k:buffered:fresh:rate=100");
    let mut running = program.words("--test read:rnd4k").spawn();
    let is_written = |work: &Path| {
        fs::metadata(work.join("data-0000")).is_ok_and(|file| (1..4 << 20).contains(&file.len()))
    };
    assert!(running.wait_until(|| leftovers(home.path()).iter().any(|work| is_written(work))));
    running.signal(rustix::process::Signal::INT);
    let ran = running.wait().did_not_panic().exits(130);
    let run = document(&ran.saved()[0]);
    assert_eq!(phases(&run).last(), Some(&("write", "partial")), "{ran}");
    assert_nothing_left(home.path());
}

#[test]
fn unfinished_files_fail_later_tests_on_them() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { write_error_after: Some((2 << 20, Errno::ENOSPC)), ..Faults::default() });
    let program = skye().arg("run").arg(fuse.path()).words("--size 4m --time 0.2 --allow low-space,busy");
    let ran = program.words("--test write:seq64k:fresh:buffered --test read:rnd4k --test stat:files=9").run();
    let ran = ran.did_not_panic().exits(1).output_contains(&["No space left", "did not finish"]);
    let run = document(&ran.saved()[0]);
    assert_eq!(phases(&run), [("write", "failed"), ("read", "failed"), ("stat", "done")], "{ran}");
    assert_nothing_left(fuse.path());
}

/// Direct reads and writes of files that are fully written move exactly their bytes on the device below.
#[test]
fn direct_bytes_match_device_counters() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 256, &[], "");
    let ran = skye()
        .arg("run")
        .arg(disk.path())
        .words("--size 64m --time 0.4 --allow low-space,busy --json -")
        .words("--test write:seq1m:q4 --test read:seq1m:q4 --test read:rnd4k:q8 --test write:rnd4k:q4")
        .words("--test read:rnd4k:buffered --test stat:files=100")
        .run()
        .did_not_panic()
        .exits(0);
    let run = parse_document(&ran.stdout);
    let stack = run["environment"]["target"]["device_stack"].as_array().unwrap();
    assert_eq!(stack[0]["kind"], "loop", "{stack:#?}");
    for id in ["01-write", "02-read", "03-read", "04-write"] {
        let ratio = phase(&run, id)["device"]["bytes_per_app_byte"].as_f64().unwrap();
        assert!((ratio - 1.0).abs() <= 0.02, "{id}: {ratio} device bytes per byte");
    }
    for id in ["02-read", "03-read"] {
        assert_eq!(phase(&run, id)["page_cache_share"].as_f64(), Some(0.0), "{id}");
    }
    let budget = &phase(&run, "03-read")["budget"];
    let shares: f64 = budget.as_object().unwrap().values().filter_map(Value::as_f64).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{budget}");
}

/// Files have no holes and no unwritten extents: reads of either never reach the device.
#[test]
fn files_are_fully_written_before_anything_is_measured() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 256, &["-b", "1024"], "");
    let mut running = skye()
        .arg("run")
        .arg(disk.path())
        .words("--size 32m --time 20 --allow low-space,busy --test create:files=100 --test read:seq64k:t2")
        .spawn();
    let mut seen = None;
    let found = running.wait_until(|| {
        let Some(work) = leftovers(disk.path()).into_iter().next() else { return false };
        // The directory of the first test is made when the data set is whole.
        if work.join("t0000").exists() {
            let file = work.join("data-0001");
            seen =
                Some((run_command(Command::new("filefrag").arg("-v").arg(&file)), fs::read(&file).unwrap()));
        }
        seen.is_some()
    });
    running.signal(rustix::process::Signal::INT);
    let ran = running.wait().exits(130);
    assert!(found, "no data file was seen\n{ran}");
    let (extents, data) = seen.unwrap();
    assert!(!extents.contains("unwritten"), "{extents}");
    let blocks: u64 = extents
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|line| line.split(':').nth(3)?.trim().parse::<u64>().ok())
        .sum();
    // Small file systems have blocks of 1 KiB, and filefrag counts in them.
    assert_eq!(blocks * 1024, 16 << 20, "holes\n{extents}");
    let unique: std::collections::HashSet<_> = data.chunks(4096).collect();
    assert_eq!(unique.len(), 4096, "every 4 KiB is unique");
    assert_nothing_left(disk.path());
}

/// Cold names are read from the device, and the screen shows how often. Warm ones come from memory, and it says so.
#[test]
fn only_cold_metadata_is_read_from_the_device() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 256, &[], "");
    let documents = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let file = documents.path().join("run.json");
        let program = skye().arg("run").arg(disk.path()).arg("--json").arg(&file);
        // A time may be over before a busy disk has answered once.
        let common = "--files 20k --no-probe --no-save --allow low-space,busy";
        let ran = program.words(common).words(words).run().did_not_panic().exits(0);
        (parse_document(&fs::read_to_string(file).unwrap()), ran.stdout)
    };
    let note = |phase: &Value, code: &str| {
        let notes = phase["notes"].as_array().unwrap();
        notes.iter().find(|note| note["code"] == code).cloned()
    };
    let tests = ["stat:t2", "open:order=rnd", "readdir", "read-file:size=1k", "stat:missing"];
    let tests = tests.map(|test| format!("--test {test}:passes=1"));
    let (document, text) = run(&format!("--cold {}", tests.join(" ")));
    assert_eq!(document["plan"]["cache"], "drop-all");
    let [cold @ .., missing] = &document["phases"].as_array().unwrap()[..] else { panic!("no phases") };
    for phase in cold {
        let spec = phase["spec"].as_str().unwrap();
        assert!(spec.contains(":cold"), "{spec}");
        let found = note(phase, "cold_names").unwrap_or_else(|| panic!("{spec}: {}", phase["notes"]));
        assert!(found["finding"]["reads"].as_u64() > Some(0), "{spec}: {found}");
        assert!(found["finding"]["read_bytes"].as_u64() > Some(0), "{spec}: {found}");
        assert_eq!(found["finding"]["operations"], phase["ops"], "{spec}");
    }
    // Names that do not exist have no files to be cold.
    assert!(!missing["spec"].as_str().unwrap().contains("cold"), "{}", missing["spec"]);
    assert_eq!(text.matches(" device reads and ").count(), 4, "{text}");
    assert!(!text.contains("not proven cold"), "{text}");

    let (document, text) = run("--test stat:passes=5 --test open:t2:passes=5");
    for warm in document["phases"].as_array().unwrap() {
        assert!(note(warm, "metadata_cache").is_some(), "{}", warm["notes"]);
    }
    assert_eq!(text.matches(" from memory").count(), 2, "{text}");
    assert_nothing_left(disk.path());
}
