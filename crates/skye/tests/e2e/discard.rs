//! Discards: each block of the files is given back once, and no later test takes the holes for data.

use std::collections::HashSet;
use std::fs;

use crate::support::fuse::{Faults, Fuse};
use crate::support::program::{assert_nothing_left, parse_document, skye};
use crate::support::scratch;

const SIZE_BYTES: u64 = 4 << 20;

#[test]
fn each_block_becomes_a_hole_once() {
    xtask::require!(strace);
    let home = scratch(64 << 20);
    for (test, block_bytes) in [("discard:rnd64k", 64 << 10), ("discard:seq4k:t2:sync=each", 4 << 10)] {
        let target = home.path().join("target");
        fs::create_dir_all(&target).unwrap();
        let trace = home.path().join("trace");
        let path = trace.to_str().unwrap();
        let ran = skye()
            .arg("run")
            .arg(&target)
            .words("--size 4m --time 20 --allow low-space,busy --json - --test");
        let ran =
            ran.arg(test).through("strace", &["-f", "-y", "-qq", "-e", "trace=fallocate", "-o", path]).run();
        let run = parse_document(&ran.did_not_panic().exits(0).stdout);
        let phase = &run["phases"][0];
        assert_eq!((&phase["status"], &phase["passes"]), (&"done".into(), &1.0.into()), "{phase}");
        assert_eq!(
            (&phase["bytes"], &phase["app_bytes_written"]),
            (&SIZE_BYTES.into(), &0.into()),
            "{phase}"
        );
        let text = fs::read_to_string(&trace).unwrap();
        let mut seen = HashSet::new();
        let mut calls = 0;
        // Costs of the same calls are measured in memory, elsewhere.
        let on_target = |line: &&str| line.contains("fallocate(") && line.contains(target.to_str().unwrap());
        // "12 fallocate(5</…/data-0000>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 65536, 65536) = 0", or a call that is resumed later.
        for line in text.lines().filter(on_target) {
            let words: Vec<_> = line.split(['(', ',', ')']).map(str::trim).collect();
            assert!(words[2].contains("PUNCH_HOLE") && words[2].contains("KEEP_SIZE"), "{line}");
            let length = words[4].split_whitespace().next().unwrap().parse::<u64>().unwrap();
            if length == block_bytes {
                calls += 1;
                // Each thread has a file of its own.
                seen.insert((words[1].to_owned(), words[3].to_owned()));
            }
        }
        assert_eq!(
            (calls, seen.len() as u64),
            (SIZE_BYTES / block_bytes, SIZE_BYTES / block_bytes),
            "{text}"
        );
        assert_nothing_left(&target);
    }
}

#[test]
fn discarded_blocks_are_rewritten_before_reads() {
    let home = scratch(128 << 20);
    let ring = if engine::uring::refusal().is_none() { ":q4:engine=uring" } else { "" };
    let tests = "--test discard:seq64k --test read:seq1m:passes=1 --test discard:rnd16k:ops=40 \
                 --test write:rnd4k:ops=100 --test rewrite:seq64k:passes=1 --test read:rnd4k:buffered";
    let last = format!("--test discard:seq64k{ring} --test read:rnd4k:passes=1");
    let ran = skye().arg("run").arg(home.path()).words("--size 4m --verify --time 20 --json - --no-probe");
    let ran = ran.words("--allow low-space,busy").words(tests).words(&last).run().did_not_panic();
    let run = parse_document(&ran.exits(0).stdout);
    let phases = run["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 8);
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}: {}", phase["spec"], phase["reason"]);
        let reads = phase["app_bytes_read"].as_u64() > Some(0);
        assert_eq!(phase["verified_blocks"].as_u64() > Some(0), reads, "{}", phase["spec"]);
    }
    // The layout, and the files again for each of the tests after a discard.
    assert_eq!(
        run["plan"]["bytes_to_write_max"].as_u64().unwrap() / SIZE_BYTES,
        1 + 3 + 1,
        "{}",
        run["plan"]
    );
    assert!(phases[0]["engine"]["features"].to_string().contains("punch_hole"));
    assert_nothing_left(home.path());
}

#[test]
fn discard_without_hole_punching_fails_before_writing() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let words = "--size 4m --time 1 --no-probe --allow low-space,busy --test write:seq64k --test discard";
    let ran = skye().arg("run").arg(fuse.path()).words(words).run().did_not_panic().exits(1);
    let ran = ran.stderr_contains(&["cannot discard blocks of files in", "drop discard"]);
    assert!(!ran.stderr.contains("lay out"), "{}", ran.stderr);
    assert_nothing_left(fuse.path());
}
