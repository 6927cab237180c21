//! Verbs that change or copy files, use attributes or go through trees. Each works in every form, and the next round and
//! the next test find the files that they expect.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::fuse::{Faults, Fuse};
use crate::support::mounts::LoopFs;
use crate::support::program::{Output, assert_nothing_left, intervals, leftovers, parse_document, skye};
use crate::support::scratch;

const FILES: u64 = 211;

/// Runs tests one after the other, and returns the phases of the document.
fn phases_of(directory: &Path, words: &str, tests: &[String]) -> (Output, Vec<Value>) {
    let mut program = skye().arg("run").arg(directory);
    program = program.words(&format!("--files {FILES} --allow low-space,busy --no-probe --json - {words}"));
    for test in tests {
        program = program.words(&format!("--test {test}"));
    }
    let ran = program.run().did_not_panic();
    let run = parse_document(&ran.stdout);
    let phases = run["phases"].as_array().unwrap().clone();
    (ran, phases)
}

fn number(phase: &Value, key: &str) -> u64 {
    phase[key].as_u64().unwrap_or_else(|| panic!("no {key} in {phase:#}"))
}

/// Calls of a step.
fn calls(phase: &Value, step: &str) -> u64 {
    let steps = phase["steps"].as_array().unwrap().iter().filter(|found| found["name"] == step);
    steps.map(|found| found["ops"].as_u64().unwrap()).sum()
}

/// The verbs, each with the options that it needs.
const VERBS: [&str; 9] = [
    "append",
    "truncate:size=1..5000",
    "copy:size=1..5000",
    "copy:size=9000:by=copy-range",
    "readlink",
    "xattr-set",
    "xattr-get",
    "walk",
    "remove",
];

/// Returns an order that a verb takes.
fn order_of(verb: &str) -> &'static str {
    match verb {
        "append" | "xattr-set" | "xattr-get" => ":order=dir",
        "walk" | "remove" => "",
        _ => ":order=rnd",
    }
}

#[test]
fn every_verb_runs_with_every_option() {
    let home = scratch(64 << 20);
    let forms =
        ["", ":t4", ":t4:tree=3x2:names=letters-first", ":dirs=7:levels=2:sync=each", ":t2:dirs=3:sync=end"];
    let mut tests = Vec::new();
    for verb in VERBS {
        let order = order_of(verb);
        tests.extend(forms.iter().map(|form| format!("{verb}{form}{order}")));
        let is_shared = verb != "remove";
        tests.extend(is_shared.then(|| format!("{verb}:t4:shared:dirs=5")));
    }
    let (ran, phases) = phases_of(home.path(), "--time 0.03", &tests);
    ran.exits(0);
    assert_eq!(phases.len(), tests.len());
    for phase in &phases {
        let spec = &phase["spec"];
        assert_eq!(phase["status"], "done", "{spec}: {}", phase["reason"]);
        assert!(number(phase, "ops") > 0, "{spec}");
        let in_intervals: u64 = intervals(phase).iter().map(|interval| interval.ops).sum();
        assert_eq!(in_intervals, number(phase, "ops"), "{spec}: intervals lose nothing");
    }
    assert_nothing_left(home.path());
}

#[test]
fn file_test_counts_match_rounds_and_repetitions() {
    let home = scratch(64 << 20);
    for threads in [1, 4] {
        let form = format!(":t{threads}:tree=3x2:passes=3");
        let tests: Vec<_> =
            VERBS.iter().map(|verb| format!("{}{form}", verb.replace("1..5000", "5000"))).collect();
        let (ran, phases) = phases_of(home.path(), "--repeat 2", &tests);
        ran.exits(0);
        assert_eq!(phases.len(), 2 * tests.len());
        for phase in &phases {
            let (spec, name) = (&phase["spec"], phase["name"].as_str().unwrap());
            assert_eq!((&phase["status"], phase["passes"].as_f64()), (&"done".into(), Some(3.0)), "{spec}");
            let ops = number(phase, "ops");
            // Each thread has twelve directories of its own.
            let of_round = match name {
                "walk" | "remove" => FILES + 12 * threads,
                "readlink" => FILES - threads,
                _ => FILES,
            };
            assert_eq!(ops, 3 * of_round, "{spec}");
            let (written, read) = (number(phase, "app_bytes_written"), number(phase, "app_bytes_read"));
            let size = if spec.as_str().unwrap().contains("9000") { 9000 } else { 5000 };
            let expected = match name {
                "append" => (4096 * ops, 0),
                "copy" => (size * ops, size * ops),
                _ => (0, 0),
            };
            assert_eq!((written, read), expected, "{spec}");
            let directories = 3 * 12 * threads;
            match name {
                "walk" => assert_eq!(
                    (calls(phase, "stat"), calls(phase, "open"), calls(phase, "close")),
                    (ops, directories + 3 * threads, directories + 3 * threads),
                    "{spec}"
                ),
                "remove" => assert_eq!(
                    (calls(phase, "unlink"), calls(phase, "rmdir")),
                    (3 * FILES, directories),
                    "{spec}"
                ),
                "copy" => {
                    assert_eq!((calls(phase, "create"), calls(phase, "close")), (ops, 2 * ops), "{spec}")
                }
                "readlink" => {}
                _ => assert_eq!((calls(phase, "open"), calls(phase, "close")), (ops, ops), "{spec}"),
            }
        }
    }
    assert_nothing_left(home.path());
}

#[test]
fn each_verb_leaves_files_for_next_test() {
    let home = scratch(64 << 20);
    let set = "t2:size=3000:dirs=3";
    // The time of the second test of each is over in the middle of a round.
    let changes = ["append", "truncate", "copy", "xattr-set", "xattr-get", "walk", "remove"];
    let mut tests = Vec::new();
    for verb in changes {
        let order = order_of(verb);
        for end in [":passes=2", ""] {
            tests.push(format!("{verb}:{set}{order}{end}"));
            tests.push(format!("stat:contents:{set}:passes=1:order=dir"));
        }
    }
    for verb in
        ["readlink:t2", "stat:t2:kind=symlink", "readlink:t2:order=rnd", "unlink:t2:kind=symlink:order=dir"]
    {
        tests.push(format!("{verb}:passes=2"));
    }
    let (ran, phases) = phases_of(home.path(), "--time 0.002", &tests);
    ran.exits(0);
    for phase in &phases {
        let (spec, ops) = (&phase["spec"], number(phase, "ops"));
        assert_eq!(phase["status"], "done", "{spec}: {}", phase["reason"]);
        if phase["name"] == "stat"
            && phase["workload"]["size_bytes"].as_u64() != Some(0)
            && calls(phase, "read") > 0
        {
            assert_eq!((ops, number(phase, "app_bytes_read")), (FILES, 3000 * FILES), "{spec}");
        }
    }
    assert_nothing_left(home.path());
}

#[test]
fn reflink_copy_succeeds_on_xfs_and_fails_on_ext4() {
    xtask::require!(root, loop, xfs, ext4);
    let test =
        ["copy:size=64k:by=reflink:t2:dirs=2:passes=2".to_owned(), "stat:t2:dirs=2:size=64k".to_owned()];
    let xfs = LoopFs::new("xfs", 400, &[], "");
    let (ran, phases) = phases_of(xfs.path(), "--time 0.1", &test);
    ran.exits(0);
    assert_eq!((&phases[0]["status"], number(&phases[0], "ops")), (&"done".into(), 2 * FILES));
    assert_eq!((number(&phases[0], "app_bytes_written"), calls(&phases[0], "reflink")), (0, 2 * FILES));
    assert_nothing_left(xfs.path());

    let ext4 = LoopFs::new("ext4", 128, &[], "");
    let (ran, phases) = phases_of(ext4.path(), "--time 0.1", &test);
    ran.exits(1).output_contains(&["cannot reflink file", "by=copy-range or by=read-write"]);
    assert_eq!((&phases[0]["status"], &phases[1]["status"]), (&"failed".into(), &"done".into()));
    assert_nothing_left(ext4.path());
}

#[test]
fn attributes_are_refused_before_anything_is_written() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    for verb in ["xattr-set", "xattr-get"] {
        let ran =
            skye().arg("run").arg(fuse.path()).words(&format!("--allow low-space,busy --test {verb}")).run();
        let ran = ran.did_not_panic().exits(2);
        ran.output_contains(&["is mounted without user extended attributes", "drop xattr-set and xattr-get"]);
    }
    assert_nothing_left(fuse.path());
    // A server has its own listings and types; all else works there.
    let tests =
        ["walk:t2:tree=2x2:passes=2", "remove:t2:tree=2x2:passes=2", "append:passes=2", "readlink:passes=2"];
    let (ran, phases) = phases_of(fuse.path(), "", &tests.map(str::to_owned));
    ran.exits(0);
    assert!(phases.iter().all(|phase| phase["passes"].as_f64() == Some(2.0)), "{phases:#?}");
    assert_nothing_left(fuse.path());
}

/// Returns all paths below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        }
    }
    found
}

#[test]
fn killed_copy_or_removal_is_cleaned() {
    for test in ["copy:size=4k:tree=4x2:files=20000", "remove:tree=9x3:t2:files=20000"] {
        let home = scratch(512 << 20);
        let words = format!("--time 30 --allow low-space,busy --no-save --test {test}");
        let mut running = skye().arg("run").arg(home.path()).words(&words).spawn();
        let is_under_way = || {
            let names = leftovers(home.path()).iter().flat_map(|work| below(work)).collect::<Vec<_>>();
            let has = |letter: &str| {
                names.iter().any(|path| path.file_name().unwrap().to_str().unwrap().starts_with(letter))
            };
            if test.starts_with("copy") { has("c0") } else { has("f0000") }
        };
        assert!(running.wait_until(is_under_way), "{test} makes no files");
        running.signal(Signal::KILL);
        drop(running.wait());
        let work = leftovers(home.path()).pop().unwrap();
        let outside = home.path().join("precious");
        fs::write(&outside, "mine").unwrap();
        let thread = work.join("t0000");
        symlink(&outside, thread.join("c-link")).unwrap();
        let ran = skye().arg("clean").arg(home.path()).run().did_not_panic();
        assert_eq!(below(&work), [thread.clone(), thread.join("c-link")], "{ran}");
        fs::remove_dir_all(work).unwrap();
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
        fs::remove_file(&outside).unwrap();
        assert_nothing_left(home.path());
    }
}

#[test]
fn remove_test_keeps_foreign_files() {
    let home = scratch(64 << 20);
    let words = "--time 20 --allow low-space,busy --no-save --test remove:tree=3x2:files=3000";
    let mut running = skye().arg("run").arg(home.path()).words(words).spawn();
    let mut planted = None;
    let is_planted = || {
        planted = leftovers(home.path())
            .into_iter()
            .map(|work| work.join("t0000/diary"))
            .find(|path| fs::write(path, "mine").is_ok());
        planted.is_some()
    };
    assert!(running.wait_until(is_planted), "the run made no directory");
    let ran = running.wait().did_not_panic().exits(1);
    let ran = ran.output_contains(&[
        "cannot remove all of",
        "files that skye did not create",
        "move them to another directory",
    ]);
    let diary = planted.unwrap();
    assert_eq!(fs::read_to_string(&diary).unwrap(), "mine", "{ran}");
    fs::remove_dir_all(diary.parent().unwrap().parent().unwrap()).unwrap();
}
