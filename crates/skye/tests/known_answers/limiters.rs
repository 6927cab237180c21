//! What the program says held a number back, against limits that were built in.
//!
//! On rigs whose limit is known, every row must be named right; that it is *confirmed* must never be said of a wrong one.
//! Where others were on the CPUs, a row may be said to be held back by them.

use std::path::Path;

use rig::Spec;
use serde_json::Value;

use super::support::program::{Skye, give_to_other_user, parse_document, skye};
use super::{DISTURBED, alone, disk, phases, run_in, start};

/// What a row may turn to where others need the CPUs.
const OF_OTHERS: &[&str] = &["cpu_contention", "cpu_saturated", "noisy_neighbour", "mixed", "not_clear"];

fn limiter(phase: &Value) -> &str {
    phase["verdict"]["limiter"].as_str().unwrap_or("none")
}

/// Words that are right are told apart by bars.
fn is_one_of(limiter: &str, expected: &str) -> bool {
    expected.split('|').any(|word| word == limiter)
}

fn confidence(phase: &Value) -> &str {
    phase["verdict"]["confidence"].as_str().unwrap_or("none")
}

fn lost(phase: &Value) -> f64 {
    let budget = &phase["budget"];
    budget["run_queue"].as_f64().unwrap_or(0.0) + budget["steal"].as_f64().unwrap_or(0.0)
}

/// The verdict is the same when the saved document is judged again, without this machine.
fn is_judged_alike_again(document: &Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), document.to_string()).unwrap();
    let again =
        skye().arg("report").arg(file.path()).words("--rejudge --json -").run().did_not_panic().exits(0);
    let again = parse_document(&again.stdout);
    let verdicts =
        |document: &Value| phases(document).iter().map(|phase| phase["verdict"].clone()).collect::<Vec<_>>();
    assert_eq!(verdicts(&again), verdicts(document));
}

/// Runs the tests until each row is named by its word, or any of its words; a second time if CPUs were lost.
#[track_caller]
fn is_named(run: impl Fn() -> Skye, expected: &[&str]) -> Value {
    for attempt in 0.. {
        let document = parse_document(&run().run().did_not_panic().exits(0).stdout);
        let rows = phases(&document);
        assert_eq!(rows.len(), expected.len());
        let wrong: Vec<_> = rows
            .iter()
            .zip(expected)
            .filter(|(row, expected)| !is_one_of(limiter(row), expected))
            .map(|(row, expected)| {
                format!(
                    "{}: {} ({}), not {expected:?}: {:#}",
                    row["spec"],
                    limiter(row),
                    confidence(row),
                    row["verdict"]
                )
            })
            .collect();
        is_judged_alike_again(&document);
        if wrong.is_empty() {
            return document;
        }
        let is_sure = rows.iter().zip(expected).any(|(row, expected)| {
            confidence(row) == "confirmed"
                && !is_one_of(limiter(row), expected)
                && !OF_OTHERS.contains(&limiter(row))
        });
        let was_disturbed = rows.iter().map(lost).fold(0.0, f64::max) > DISTURBED;
        assert!(attempt == 0 && was_disturbed && !is_sure, "{}", wrong.join("\n"));
        eprintln!("disturbed: {}", wrong.join("\n"));
    }
    unreachable!("it returns or panics")
}

fn of(directory: &Path, words: &str) -> impl Fn() -> Skye {
    let (directory, words) = (directory.to_owned(), words.to_owned());
    move || run_in(&directory, &words)
}

fn disk_over(server: rig::FuseSpec) -> rig::DiskSpec {
    disk().over(server)
}

#[test]
fn memory_that_answers() {
    xtask::require!(root, loop, ext4);
    let _alone = alone();
    let rig = start(disk());
    let cached = "--size 128m --time 1.5 --cache warm --test read:rnd4k:buffered --test read:seq1m:buffered";
    let document = is_named(of(rig.path(), cached), &["page_cache"; 2]);
    assert!(phases(&document).iter().all(|row| row["page_cache_share"].as_f64().unwrap() > 0.99));
    // A number, however fast; and said to be one of memory.
    let document = is_named(of(rig.path(), "--time 1 --test stat:files=1000"), &["metadata_cache"]);
    assert!(phases(&document)[0]["rate"]["ops_per_second"].as_f64().unwrap() > 0.0);
    rig.finish().unwrap();
}

#[test]
fn throttles() {
    xtask::require!(root, loop, ext4, blkio);
    let _alone = alone();
    let rig = start(disk().read_iops(2000));
    let words = "--size 128m --time 2 --test read:rnd4k:t8 --test read:rnd4k:q8 --test read:rnd4k";
    is_named(of(rig.path(), words), &["io_throttle"; 3]);
    rig.finish().unwrap();
    let rig = start(disk().read_bytes_per_second(50_000_000));
    let words = "--size 128m --time 2 --test read:rnd64k:t4 --test read:rnd64k:q4";
    is_named(of(rig.path(), words), &["io_throttle"; 2]);
    rig.finish().unwrap();
}

#[test]
fn latency_at_any_depth() {
    xtask::require!(root, loop, ext4, fuse);
    let _alone = alone();
    let rig = start(disk_over(Spec::fuse().slots(128).service_us(25_000)));
    let words = "--size 64m --time 2 --test read:rnd4k --test read:rnd4k:q32 --test read:rnd4k:t32";
    is_named(of(rig.path(), words), &["device_latency"; 3]);
    rig.finish().unwrap();
    let rig = start(Spec::fuse().slots(64).service_us(5000));
    is_named(of(rig.path(), "--size 64m --time 2 --test read:rnd4k:t4"), &["remote_latency"]);
    rig.finish().unwrap();
}

#[test]
fn servers_that_are_full() {
    xtask::require!(root, fuse);
    let _alone = alone();
    let rig = start(Spec::fuse().slots(4).service_us(1000));
    let words = "--size 64m --time 2 --test read:rnd4k:t16 --test read:rnd4k:q16";
    is_named(of(rig.path(), words), &["server_saturated"; 2]);
    rig.finish().unwrap();
}

#[test]
fn queues_that_are_full() {
    xtask::require!(root, loop, ext4, fuse);
    let _alone = alone();
    let rig = start(disk_over(Spec::fuse().slots(32).service_us(5000)).requests(4));
    let words = "--size 64m --time 2 --test read:rnd4k:t16 --test read:rnd4k:q16";
    is_named(of(rig.path(), words), &["queue_full"; 2]);
    rig.finish().unwrap();
}

#[test]
fn flushes_that_take_their_time() {
    xtask::require!(root, loop, ext4, xfs, btrfs, fuse);
    let _alone = alone();
    let flushing = || Spec::fuse().slots(64).sync_us(2000);
    let ext4 = disk_over(flushing());
    for disk in
        [ext4.clone(), ext4.clone().file_system("xfs").size_mib(400), ext4.file_system("btrfs").size_mib(400)]
    {
        // What mkfs of one file system is told means nothing to another.
        let rig = start(disk.mkfs_options(""));
        let words = "--size 64m --time 1.5 --test fsync:rnd4k --test create:files=100:sync=each";
        is_named(of(rig.path(), words), &["fsync_journal"; 2]);
        rig.finish().unwrap();
    }
}

#[test]
fn writers_that_are_held_back() {
    xtask::require!(root, loop, ext4, blkio);
    let _alone = alone();
    let rig = start(disk().size_mib(1024).write_bytes_per_second(100_000_000).dirty_max_bytes(16 << 20));
    is_named(of(rig.path(), "--size 400m --time 3 --test write:seq1m:buffered"), &["dirty_throttling"]);
    rig.finish().unwrap();
}

#[test]
fn bytes_one_by_one() {
    xtask::require!(root, loop, ext4);
    let _alone = alone();
    // Blocks of the usual size, which the C library takes for its buffer.
    let rig = start(disk().mkfs_options("-b 4096"));
    let words =
        "--size 128m --time 2 --test byte-write --test putc-write --test putc-write:stdio_buffer=128k";
    let document = is_named(of(rig.path(), words), &["kernel_cpu", "client_cpu", "client_cpu|kernel_cpu"]);
    // How many bytes each call carried is seen from outside of the program that made them.
    let carried = |row: &Value| row["system"]["calls"]["bytes_per_write_call"].as_f64().unwrap();
    let rows = phases(&document);
    for (row, bytes) in rows.iter().zip([1.0, 4096.0, 131_072.0]) {
        assert!((carried(row) / bytes - 1.0).abs() < 0.01, "{}: {} bytes a call", row["spec"], carried(row));
    }
    rig.finish().unwrap();
}

#[test]
fn quotas_of_cpu_time() {
    xtask::require!(root, loop, ext4, quota);
    let _alone = alone();
    let rig = start(disk());
    let quota = start(Spec::quota(0.2));
    let ran = run_in(rig.path(), "--size 64m --time 3 --test byte-write").inside(&quota).run();
    let document = parse_document(&ran.did_not_panic().exits(0).stdout);
    let row = &phases(&document)[0];
    assert_eq!((limiter(row), confidence(row)), ("cpu_quota", "confirmed"), "{:#}", row["verdict"]);
    let held = row["budget"]["quota"].as_f64().unwrap();
    assert!((held - 0.8).abs() < 0.1, "{held} of the time held back, not 0.8");
    quota.finish().unwrap();
    rig.finish().unwrap();
}

#[test]
fn a_link_that_is_full() {
    xtask::require!(root, netns, sshfs);
    let _alone = alone();
    let rig = start(Spec::network(200_000_000).size_mib(128));
    let words =
        "--size 64m --time 3 --test write:seq1m:buffered --test read:seq1m:buffered --test rewrite:seq128k";
    let document = is_named(of(rig.path(), words), &["network_bandwidth"; 3]);
    // Which way it is full.
    let rows = phases(&document);
    let crossed = |row: &Value, way: &str| row["system"]["network"][way].as_f64().unwrap();
    assert!(crossed(&rows[0], "sent_bytes") > 10.0 * crossed(&rows[0], "received_bytes"));
    assert!(crossed(&rows[1], "received_bytes") > 10.0 * crossed(&rows[1], "sent_bytes"));
    for way in ["sent_bytes", "received_bytes"] {
        let of_data = crossed(&rows[2], way) / rows[2]["bytes"].as_f64().unwrap();
        assert!((0.9..1.2).contains(&of_data), "{of_data} of the bytes {way}");
    }
    rig.finish().unwrap();
}

#[test]
fn names_on_a_slow_server() {
    xtask::require!(root, fuse);
    let _alone = alone();
    let rig = start(Spec::fuse().slots(64).names_us(5000));
    let words = "--time 2 --files 200 --test create --test stat";
    let document = is_named(of(rig.path(), words), &["remote_latency"; 2]);
    let rows = phases(&document);
    // Nothing that changes anything is tried; what more would give is by Little's law.
    assert_eq!(confidence(&rows[0]), "likely");
    assert!(
        rows[0]["verdict"]["advice"].as_str().unwrap().contains("Little's law"),
        "{}",
        rows[0]["verdict"]
    );
    assert_eq!(confidence(&rows[1]), "confirmed");
    // What an experiment with more threads made is removed like everything else.
    assert_eq!(std::fs::read_dir(rig.path()).unwrap().count(), 0);
    rig.finish().unwrap();
}

#[test]
fn one_who_may_do_nothing_is_told_the_same() {
    xtask::require!(root, loop, ext4, fuse, blkio, user);
    let _alone = alone();
    let unprivileged = |directory: &Path, words: &str| {
        give_to_other_user(directory);
        let (directory, words) = (directory.to_owned(), words.to_owned());
        move || run_in(&directory, &words).by_other_user()
    };
    let rig = start(disk().mkfs_options("-b 4096").read_iops(2000));
    let words =
        "--size 64m --time 2 --test read:rnd4k:t8 --test read:rnd4k:q8 --test byte-write --test putc-write";
    let expected = ["io_throttle", "io_throttle", "kernel_cpu", "client_cpu"];
    is_named(unprivileged(rig.path(), words), &expected);
    rig.finish().unwrap();
    let rig = start(disk_over(Spec::fuse().slots(64).sync_us(2000)));
    is_named(unprivileged(rig.path(), "--size 64m --time 2 --test fsync:rnd4k"), &["fsync_journal"]);
    rig.finish().unwrap();
    let rig = start(disk_over(Spec::fuse().slots(128).service_us(6400)));
    let words = "--size 64m --time 2 --test read:rnd4k --test read:rnd4k:q8";
    is_named(unprivileged(rig.path(), words), &["device_latency"; 2]);
    rig.finish().unwrap();
    let rig = start(disk());
    let words = "--size 64m --time 1.5 --cache warm --test read:rnd4k:buffered --test stat:files=1000";
    is_named(unprivileged(rig.path(), words), &["page_cache", "metadata_cache"]);
    rig.finish().unwrap();
}

#[test]
fn with_others_on_all_cpus_nothing_else_is_said() {
    xtask::require!(root, loop, ext4, fuse, blkio);
    let _alone = alone();
    let hogs = || start(Spec::hogs(2 * std::thread::available_parallelism().unwrap().get() as u32));
    let check = |directory: &Path, words: &str, expected: &[&str]| {
        let document = parse_document(&run_in(directory, words).run().did_not_panic().exits(0).stdout);
        for (row, expected) in phases(&document).iter().zip(expected) {
            let found = limiter(row);
            assert!(
                found == *expected || OF_OTHERS.contains(&found),
                "{}: {found}, not {expected}: {:#}",
                row["spec"],
                row["verdict"]
            );
        }
    };
    let rig = start(disk().read_iops(2000));
    let others = hogs();
    let words = "--size 64m --time 2 --test read:rnd4k:q8 --test read:rnd4k --test byte-write --test putc-write --test stat:files=1000";
    check(rig.path(), words, &["io_throttle", "io_throttle", "kernel_cpu", "client_cpu", "metadata_cache"]);
    others.finish().unwrap();
    rig.finish().unwrap();
    let rig = start(Spec::fuse().slots(4).service_us(4000));
    let others = hogs();
    check(
        rig.path(),
        "--size 64m --time 2 --test read:rnd4k:t16 --test read:rnd4k",
        &["server_saturated", "remote_latency"],
    );
    others.finish().unwrap();
    rig.finish().unwrap();
}

#[test]
fn one_thread_on_storage_that_is_faster_than_it() {
    xtask::require!(root, zram, ext4);
    let _alone = alone();
    // It answers within the call: all of the time is the thread's own, in the kernel.
    let memory = super::support::mounts::ZramFs::new("ext4", 320, &["-E", "lazy_itable_init=0"]);
    let document = is_named(of(memory.path(), "--size 64m --time 2 --test read:rnd4k"), &["kernel_cpu"]);
    let row = &phases(&document)[0];
    // What more threads give was tried, where there are CPUs for them.
    let is_alone_on_it = document["environment"]["cpus"].as_u64() == Some(1);
    let advice = row["verdict"]["advice"].as_str().unwrap();
    assert!(is_alone_on_it || advice.contains("q1t4 gave") && advice.contains("times as much"), "{advice}");
}
