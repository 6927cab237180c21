//! Files through a mapping: bytes arrive, and a page that cannot be read is an error of the row.

use std::fs::{self, File};

use crate::support::fuse::{Errno, Faults, Fuse};
use crate::support::program::{assert_nothing_left, parse_document, skye};
use crate::support::scratch;

#[test]
fn mmap_engine_reads_and_writes_like_sync_engine() {
    let home = scratch(128 << 20);
    let tests = "--test write:rnd4k:engine=mmap --test write:rnd16k:engine=mmap:sync=each:ops=40 \
                 --test read:rnd4k --test read:seq1m:engine=mmap:passes=1 --test rw:rnd4k:engine=mmap:q4 \
                 --test rewrite:seq64k:engine=mmap:passes=1 --test fsync:rnd4k:engine=mmap:ops=20";
    let words = "--size 8m --time 0.3 --verify --no-probe --json - --allow low-space,busy";
    let ran = skye().arg("run").arg(home.path()).words(words).words(tests).run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let phases = run["phases"].as_array().unwrap();
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}: {}", phase["spec"], phase["reason"]);
        let is_mapped = phase["spec"].as_str().unwrap().contains("engine=mmap");
        assert_eq!(phase["engine"]["name"], if is_mapped { "mmap" } else { "sync" }, "{}", phase["spec"]);
        let reads = phase["app_bytes_read"].as_u64() > Some(0);
        assert_eq!(phase["verified_blocks"].as_u64() > Some(0), reads, "{}", phase["spec"]);
    }
    // Depth is made of threads.
    assert_eq!(
        (&phases[4]["workload"]["iodepth"], &phases[4]["workload"]["threads"]),
        (&1.into(), &4.into())
    );
    let notes = run["plan"]["notes"].to_string();
    assert!(notes.contains("only io_uring has depth: q4t1 engine=mmap becomes q1t4"), "{notes}");
    assert_nothing_left(home.path());
}

#[test]
fn truncated_mapped_file_fails_test_without_crash() {
    let home = scratch(64 << 20);
    let file = home.path().join("image");
    fs::write(&file, vec![7; 16 << 20]).unwrap();
    let words = "--time 60 --no-probe --cache as-is --test read:rnd4k:engine=mmap:q2 --json -";
    let mut running = skye().arg("run").arg(&file).words(words).spawn();
    let maps = format!("/proc/{}/maps", running.id());
    assert!(running.wait_until(|| fs::read_to_string(&maps).unwrap_or_default().contains("image")));
    File::options().write(true).open(&file).unwrap().set_len(4096).unwrap();
    let ran = running.wait().did_not_panic().exits(1);
    let phase = &parse_document(&ran.stdout)["phases"][0];
    assert_eq!(phase["status"], "failed", "{phase}");
    assert!(phase["reason"].as_str().unwrap().contains("is shorter"), "{phase}");
    assert_eq!(fs::metadata(&file).unwrap().len(), 4096);
}

#[test]
fn mapped_page_error_is_reported_with_offset() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { read_error_after: Some((1 << 20, Errno::EIO)), ..Faults::default() });
    let words = "--size 4m --time 0.3 --no-probe --allow low-space,busy --test write:seq64k \
                 --test read:rnd4k:engine=mmap --json -";
    let ran = skye().arg("run").arg(fuse.path()).words(words).run().did_not_panic().exits(1);
    ran.output_contains(&["Input/output error", "offset"]);
    assert_nothing_left(fuse.path());
}

#[test]
fn options_incompatible_with_mmap_are_refused() {
    let home = scratch(64 << 20);
    for (test, message) in [
        ("read:rnd4k:engine=mmap:direct", "page cache"),
        ("write:seq1m:fresh:engine=mmap", "fresh"),
        ("discard:rnd4k:engine=mmap", "drop engine=mmap"),
        ("read:rnd4k:engine=mmap:iopoll", "iopoll"),
    ] {
        let ran = skye().arg("run").arg(home.path()).words("--size 4m --test").arg(test).run();
        ran.did_not_panic().exits(2).stderr_contains(&[message]);
        assert_nothing_left(home.path());
    }
}
