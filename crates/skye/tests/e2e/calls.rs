//! System calls per operation, compared with those of fio for the same work.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::program::{parse_document, skye};
use crate::support::scratch;

/// Operations of each thread. The calls that a thread makes once are few in comparison.
const OPS: u64 = 2000;
/// Calls that a thread makes once, divided by its operations.
const ONCE: f64 = 0.1;

/// Returns the calls per block of the thread that moved most blocks.
fn calls(traced: &mut Command, trace: &Path) -> f64 {
    let output = traced.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{traced:?}\n{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(trace).unwrap();
    let mut threads: HashMap<&str, (u64, u64)> = HashMap::new();
    for (thread, call) in text.lines().filter_map(|line| line.split_once(' ')) {
        // A resumed call was counted when it began.
        let name = call.trim_start().split('(').next().unwrap_or_default();
        let (blocks, all) = threads.entry(thread).or_default();
        *blocks += u64::from(["pread64", "pwrite64"].contains(&name));
        *all += u64::from(!name.starts_with('<'));
    }
    // In a run that takes long, a thread that reads counters makes as many reads of another kind.
    let workers = threads.into_values().filter(|(blocks, _)| *blocks > OPS / 2);
    let calls = workers.map(|(blocks, all)| all as f64 / blocks as f64).min_by(f64::total_cmp);
    calls.unwrap_or_else(|| panic!("{traced:?}\nmoved too few blocks\n{text:.2000}"))
}

fn strace(trace: &Path) -> Command {
    let mut command = Command::new("strace");
    // Calls that only wait are not counted.
    command.args(["-f", "-qq", "-e", "trace=!futex,clock_nanosleep,sched_yield", "-o"]).arg(trace);
    command
}

#[test]
#[ignore = "long"]
fn no_operation_makes_more_calls_than_in_fio() {
    xtask::require!(strace, fio);
    let home = scratch(32 << 20);
    let trace = home.path().join("trace");
    let cases = [
        ("read:rnd4k:t2:buffered", 2, "--rw=randread --numjobs=2", 1.0),
        ("write:seq4k:buffered", 1, "--rw=write", 1.0),
        ("read:rnd4k:q2:engine=sync", 2, "--rw=randread --numjobs=2 --direct=1", 1.0),
        ("fsync:rnd4k", 1, "--rw=randwrite --fdatasync=1", 1.0),
        // fio counts the read and the write of a block as two.
        ("rewrite:seq4k:buffered", 1, "--rw=rw", 2.0),
    ];
    for (test, threads, words, ios) in cases {
        let target = home.path().join("target");
        fs::create_dir_all(&target).unwrap();
        let mut ours = strace(&trace);
        ours.arg(env!("CARGO_BIN_EXE_skye"))
            .arg("run")
            .arg(&target)
            .args(["--test", &format!("{test}:ops={}", OPS * threads)]);
        ours.args("--size 16m --time 30 --no-probe --no-save --allow low-space,busy -q".split(' '));
        ours.env("HOME", home.path());
        let ours = calls(&mut ours, &trace);
        let mut theirs = strace(&trace);
        let file = home.path().join("file");
        theirs.args(["fio", "--name=x", "--thread", "--bs=4k", "--size=16m"]);
        theirs.args([format!("--filename={}", file.display()), format!("--number_ios={}", OPS as f64 * ios)]);
        let theirs = calls(theirs.args(words.split(' ')), &trace);
        assert!(ours <= theirs + ONCE, "{test}: {ours} calls for each block, {theirs} in fio");
    }
}

#[test]
fn each_nth_write_is_followed_by_sync() {
    xtask::require!(strace);
    let home = scratch(32 << 20);
    let trace = home.path().join("trace");
    let ran = skye()
        .arg("run")
        .arg(home.path())
        .words("--size 4m --time 20 --no-probe --allow low-space,busy --json -")
        .words("--test write:rnd4k:sync=8:ops=80 --test rw:rnd4k:read=0:buffered:sync=16:ops=80")
        .through("strace", &["-f", "-qq", "-e", "trace=fdatasync", "-o", trace.to_str().unwrap()])
        .run();
    let run = parse_document(&ran.did_not_panic().exits(0).stdout);
    for (phase, syncs) in run["phases"].as_array().unwrap().iter().zip([10, 5]) {
        let steps = phase["steps"].as_array().unwrap();
        let ops =
            |name| steps.iter().find(|step| step["name"] == name).map(|step| step["ops"].as_u64().unwrap());
        assert_eq!([ops("write"), ops("fdatasync")], [Some(80), Some(syncs)], "{phase:#}");
        assert_eq!(phase["ops"], 80, "{phase:#}");
    }
    // Each test also syncs its file at the end.
    let text = fs::read_to_string(&trace).unwrap();
    let calls = text.lines().filter(|line| line.contains("fdatasync(")).count();
    assert!(calls >= 15, "{text}");
}

#[test]
fn flags_of_a_test_are_in_each_call() {
    xtask::require!(strace);
    let home = scratch(32 << 20);
    let trace = home.path().join("trace");
    let calls = "trace=preadv2,pwritev2";
    skye()
        .arg("run")
        .arg(home.path())
        .words("--size 4m --time 20 --no-probe --no-save --allow low-space,busy -q")
        .words("--test write:rnd4k:sync=dsync:ops=40 --test rw:rnd4k:sync=dsync:read=0:q8:engine=sync:ops=40")
        .through("strace", &["-f", "-qq", "-y", "-e", calls, "-o", trace.to_str().unwrap()])
        .run()
        .did_not_panic()
        .exits(0);
    let text = fs::read_to_string(&trace).unwrap();
    // The same calls on memory, for the ceiling, are on other files.
    let on_target = format!("<{}", home.path().display());
    let is_synced =
        |line: &&str| line.contains("pwritev2(") && line.contains(&on_target) && line.contains("RWF_DSYNC");
    assert_eq!(text.lines().filter(is_synced).count(), 80, "{text}");
}
