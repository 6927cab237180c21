//! Limiters of storage that takes its time.

use std::path::Path;

use rig::Spec;
use serde_json::Value;
use xtask::sized;

use crate::limiters::{confidence, disk_over, is_named, run_on, with_tests};
use crate::quiet::settled;
use crate::support::program::give_to_other_user;
use crate::{disk, phases, run_in, start};

#[test]
fn saturated_link_is_named() {
    xtask::require!(root, netns, sshfs);
    let rig = start(Spec::network(200_000_000).size_mib(128));
    let tests = sized(
        &["write:seq1m:buffered", "read:seq1m:buffered"][..],
        &["write:seq1m:buffered", "read:seq1m:buffered", "rewrite:seq128k"],
    );
    let words = with_tests("--size 64m --time 3", tests);
    let document = settled!(is_named(run_on(rig.path(), &words), &vec!["network_bandwidth"; tests.len()]));
    // The direction in which the link is full.
    let rows = phases(&document);
    let crossed = |row: &Value, way: &str| row["system"]["network"][way].as_f64().unwrap();
    assert!(crossed(&rows[0], "sent_bytes") > 10.0 * crossed(&rows[0], "received_bytes"));
    assert!(crossed(&rows[1], "received_bytes") > 10.0 * crossed(&rows[1], "sent_bytes"));
    // This end of the rig's link has a queueing discipline.
    assert_eq!(rows[0]["system"]["network"]["shaper"], "tbf");
    assert_eq!(crossed(&rows[0], "shaped_bytes_per_second"), 25e6);
    let both_ways = rows.get(2).into_iter().flat_map(|row| [(row, "sent_bytes"), (row, "received_bytes")]);
    for (row, way) in both_ways {
        let of_data = crossed(row, way) / row["bytes"].as_f64().unwrap();
        assert!((0.9..1.2).contains(&of_data), "{of_data} of the bytes {way}");
    }
    rig.finish().unwrap();
}

#[test]
fn slow_device_or_server_is_latency_bound() {
    xtask::require!(root, loop, ext4, fuse);
    let rig = start(disk_over(Spec::fuse().slots(128).service_us(25_000)));
    let tests = sized(&["read:rnd4k:q32"][..], &["read:rnd4k", "read:rnd4k:q32", "read:rnd4k:t32"]);
    settled!(is_named(
        run_on(rig.path(), &with_tests("--size 64m --time 2", tests)),
        &vec!["device_latency"; tests.len()]
    ));
    rig.finish().unwrap();
    let rig = start(Spec::fuse().slots(64).service_us(5000));
    settled!(is_named(run_on(rig.path(), "--size 64m --time 2 --test read:rnd4k:t4"), &["remote_latency"]));
    rig.finish().unwrap();
}

#[test]
fn full_device_queue_is_named() {
    xtask::require!(root, loop, ext4, fuse);
    let rig = start(disk_over(Spec::fuse().slots(32).service_us(5000)).requests(4));
    let tests = sized(&["read:rnd4k:t16"][..], &["read:rnd4k:t16", "read:rnd4k:q16"]);
    settled!(is_named(
        run_on(rig.path(), &with_tests("--size 64m --time 2", tests)),
        &vec!["queue_full"; tests.len()]
    ));
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn metadata_on_slow_server_is_latency_bound() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(64).metadata_us(5000));
    let words = "--time 2 --files 200 --test create --test stat";
    let document = settled!(is_named(run_on(rig.path(), words), &["remote_latency"; 2]));
    let rows = phases(&document);
    let create = &rows[0]["verdict"];
    assert_eq!(confidence(&rows[0]), "confirmed");
    assert!(create["advice"].as_str().unwrap().contains("t4"), "{create}");
    // The kernel knows files that an experiment has just made. That they answer a thousand times as fast is no
    // evidence.
    assert_eq!(confidence(&rows[1]), "likely");
    // The files of an experiment with more threads are removed like everything else.
    assert_eq!(std::fs::read_dir(rig.path()).unwrap().count(), 0);
    rig.finish().unwrap();
}

#[test]
fn server_with_all_slots_busy_is_saturated() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(4).service_us(1000));
    let tests = sized(&["read:rnd4k:q16"][..], &["read:rnd4k:t16", "read:rnd4k:q16"]);
    settled!(is_named(
        run_on(rig.path(), &with_tests("--size 64m --time 2", tests)),
        &vec!["server_saturated"; tests.len()]
    ));
    rig.finish().unwrap();
}

#[test]
fn slow_flushes_are_journal_bound() {
    xtask::require!(root, loop, ext4, xfs, btrfs, fuse);
    let flushing = || Spec::fuse().slots(64).sync_us(2000);
    let ext4 = disk_over(flushing());
    let both = &["fsync:rnd4k", "create:files=100:sync=each"][..];
    for (disk, tests) in [
        (ext4.clone(), both),
        (ext4.clone().file_system("xfs").size_mib(400), sized(&both[..1], both)),
        (ext4.file_system("btrfs").size_mib(400), sized(&both[..1], both)),
    ] {
        // The mkfs options of one file system mean nothing to another.
        let rig = start(disk.mkfs_options(""));
        let words = with_tests("--size 64m --time 1.5", tests);
        settled!(is_named(run_on(rig.path(), &words), &vec!["fsync_journal"; tests.len()]));
        rig.finish().unwrap();
    }
}

#[test]
fn cgroup_io_throttle_is_named() {
    xtask::require!(root, loop, ext4, blkio);
    // A short run names a limit of operations without root: that is the harder case.
    if sized(false, true) {
        let rig = start(disk().read_iops(2000));
        let words = "--size 128m --time 2 --test read:rnd4k:t8 --test read:rnd4k:q8 --test read:rnd4k";
        settled!(is_named(run_on(rig.path(), words), &["io_throttle"; 3]));
        rig.finish().unwrap();
    }
    let rig = start(disk().read_bytes_per_second(50_000_000));
    let tests = sized(&["read:rnd64k:t4"][..], &["read:rnd64k:t4", "read:rnd64k:q4"]);
    settled!(is_named(
        run_on(rig.path(), &with_tests("--size 128m --time 2", tests)),
        &vec!["io_throttle"; tests.len()]
    ));
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn limiters_are_identified_without_root_privileges() {
    xtask::require!(root, loop, ext4, fuse, blkio, user);
    let unprivileged = |directory: &Path, words: &str| {
        give_to_other_user(directory);
        let (directory, words) = (directory.to_owned(), words.to_owned());
        move || run_in(&directory, &words).by_other_user()
    };
    let rig = start(disk().mkfs_options("-b 4096").read_iops(2000));
    let rows = &[
        ("read:rnd4k:t8", "io_throttle"),
        ("read:rnd4k:q8", "io_throttle"),
        ("byte-write", "kernel_cpu"),
        ("putc-write", "client_cpu"),
    ];
    let (tests, expected): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    let run = unprivileged(rig.path(), &with_tests("--size 64m --time 2", &tests));
    settled!(is_named(run, &expected));
    rig.finish().unwrap();
    let delays = [
        (Spec::fuse().slots(128).service_us(6400), "read:rnd4k:q8", "device_latency"),
        (Spec::fuse().slots(64).sync_us(2000), "fsync:rnd4k", "fsync_journal"),
        (Spec::fuse().slots(128).service_us(6400), "read:rnd4k", "device_latency"),
    ];
    for (server, test, expected) in delays.into_iter().take(3) {
        let rig = start(disk_over(server));
        let run = unprivileged(rig.path(), &with_tests("--size 64m --time 2", &[test]));
        settled!(is_named(run, &[expected]));
        rig.finish().unwrap();
    }
    let rig = start(disk());
    let rows = [("read:rnd4k:buffered", "page_cache"), ("stat:files=1000", "metadata_cache")];
    let (tests, expected): (Vec<_>, Vec<_>) = rows.into_iter().take(2).unzip();
    let words = with_tests("--size 64m --time 1.5 --cache warm", &tests);
    settled!(is_named(unprivileged(rig.path(), &words), &expected));
    rig.finish().unwrap();
}
