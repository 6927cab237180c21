//! Known answers of storage that takes its time. These tests wait for most of it, so three of them run side by side and
//! do not disturb each other.

mod clients;
mod limiters;
mod mixes;
mod pinned;
mod places;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rig::Spec;
use rustix::fs::FallocateFlags;
use serde_json::Value;
use xtask::sized;

use super::quiet::{Answer, answer, disturbance, settle, settled};
use super::support::mounts::Tmpfs;
use super::support::program::{Running, parse_document};
use super::{check_phases, codes, disk, document_of, has_no, off, phases, rate, reasons, run_in, start};
use pinned::Pinned;

/// The program while its first test reads directly, and the one file of its data set.
struct Reading {
    running: Running,
    file: PathBuf,
}

/// Starts the program and waits until its first test has begun: its workers exist, and with them all is prepared.
fn reading(directory: &Path, words: &str) -> Reading {
    let mut running = run_in(directory, words).words("--no-probe").spawn();
    let deadline = Instant::now() + Duration::from_secs(30);
    let file = loop {
        assert!(!running.has_ended() && Instant::now() < deadline, "it never reads");
        // Before the data set is laid out, other workers find out what the program itself costs.
        if let Some(file) = data_file(directory).filter(|_| has_workers(running.id())) {
            break file;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Reading { running, file }
}

/// The first file of a run's data set.
fn data_file(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let mut works = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("skye."));
    let file = works.next()?.path().join("data-0000");
    file.exists().then_some(file)
}

fn has_workers(process: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.any(|name| name.starts_with("worker-"))
}

/// Returns the present time on the clock that rigs use.
fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Asserts that every test of a run is invalid for that reason.
#[track_caller]
fn is_invalid(document: &Value, code: &str) {
    for phase in phases(document) {
        assert_eq!(phase["verdict"]["trust"], "invalid", "{phase:#}");
        assert!(reasons(phase).contains(&code), "{code} in {:?}", reasons(phase));
    }
}

#[test]
#[ignore = "long"]
fn bimodal_latency_has_both_modes() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().service_us(2000).slow(0.05, 20_000).only_reads());
    for test in sized(&["read:rnd4k:t16"][..], &["read:rnd4k:q16", "read:rnd4k:t16"]) {
        settled!(check_phases(
            || {
                let _ = rig.take_served().unwrap();
                // If its rate changes on the way, enough operations for a p99.9 still follow.
                let mut document = document_of(rig.path(), &format!("--size 64m --time 8 --test {test}"));
                document["phases"][0]["truth_ns"] = rig.served().unwrap().quantile_ns(0.999).into();
                document
            },
            |phase| {
                let latency = &phase["latency_ns"];
                let modes = latency["modes"].as_array().unwrap();
                let [fast, slow] = &modes[..] else { return Some(format!("modes: {modes:?}")) };
                let share = slow["share"].as_f64().unwrap();
                let (is, should) =
                    (latency["p99_9"].as_f64().unwrap_or(f64::NAN), phase["truth_ns"].as_f64().unwrap());
                // One request in a thousand may wait a millisecond for a CPU on its way.
                let is_near = (is - should).abs() <= should * 0.02 + 1e6;
                off("fast", fast["at_ns"].as_f64().unwrap(), 2e6, 0.3)
                    .or_else(|| off("slow", slow["at_ns"].as_f64().unwrap(), 20e6, 0.1))
                    .or_else(|| off("slow share", share, 0.05, 0.1))
                    .or_else(|| (!is_near).then(|| format!("p99.9 is {is}, the server's {should}")))
                    .or_else(|| {
                        (!codes(phase).contains(&"several_modes")).then(|| format!("{:?}", codes(phase)))
                    })
            },
        ));
    }
    rig.finish().unwrap();
}

#[test]
fn slot_limited_server_rate_and_count_match() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(4).service_us(1000).only_reads());
    for (test, limit) in
        [("read:rnd4k:q16", Some(4000.0)), ("read:rnd4k:t16", Some(4000.0)), ("read:rnd4k", None)]
    {
        settled!(check_phases(
            || {
                let _ = rig.take_served().unwrap();
                let document = document_of(rig.path(), &format!("--size 64m --time 3 --test {test}"));
                let served = rig.served().unwrap().reads;
                // Before the first test, some blocks are read twice, and others in two bursts.
                let probes = &document["target_probes"];
                let twice = 2 * probes["reread"]["blocks"].as_u64().unwrap();
                let bursts = 3 * probes["ping"]["reads"].as_u64().unwrap_or(0);
                assert_eq!(phases(&document)[0]["ops"], served - twice - bursts, "{test}");
                document
            },
            // The rig never answers early, and on some machines its threads wake up to 60 us late.
            |phase| limit.and_then(|limit| off("IOPS", rate(phase), 0.97 * limit, 0.04)),
        ));
    }
    rig.finish().unwrap();
}

#[test]
fn open_loop_p99_includes_stalls() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().service_us(1000).stall_ms(200, 2000).only_reads());
    // Each test has a stall at least.
    let words = "--size 64m --time 4 --test read:rnd4k --test read:rnd4k:q256:rate=500";
    let p99_ns = |phase: &Value| phase["latency_ns"]["p99"].as_f64().unwrap_or(f64::NAN);
    settled!(settle(|| {
        let document = document_of(rig.path(), words);
        let [closed, open] = &phases(&document)[..] else { panic!("two tests") };
        let times = p99_ns(open) / p99_ns(closed);
        let complaint =
            (times < 50.0).then(|| format!("{times:.1} times: {} and {} ns", p99_ns(closed), p99_ns(open)));
        (answer((), complaint.as_slice()), disturbance(&document))
    }));
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn test_ends_once_its_rate_is_precise() {
    xtask::require!(root, loop, ext4, blkio);
    let rig = start(disk().read_iops(5000));
    // An interval that was narrow at a check may be wide at the end, if a CPU was late in between.
    settled!(settle(|| {
        let mut last = None;
        for _ in 0..3 {
            // Steady from the start: the shortest time is enough.
            let early = document_of(rig.path(), "--size 64m --test read:rnd4k:q8");
            let phase = &phases(&early)[0];
            let seconds = phase["elapsed_ns"].as_f64().unwrap() / 1e9;
            let rate_of = |key: &str| phase["rate"][key].as_f64().unwrap();
            let half = (rate_of("ci95_high_ops_per_second") - rate_of("ci95_low_ops_per_second")) / 2.0;
            let is_narrow = half <= 0.02 * rate(phase) && phase["steady"]["is_steady"] == true;
            let disturbed = disturbance(&early);
            // Twenty seconds are the longest.
            if (4.0..19.0).contains(&seconds) && is_narrow {
                return (Answer::Right(()), disturbed);
            }
            last = Some((Answer::Wrong(format!("after {seconds:.1} s: {:#}", phase["rate"])), disturbed));
        }
        last.unwrap()
    }));
    // A time that the user asked for is kept.
    let timed = document_of(rig.path(), "--size 64m --time 5 --test read:rnd4k:q8");
    let seconds = phases(&timed)[0]["elapsed_ns"].as_f64().unwrap() / 1e9;
    assert!((4.9..15.0).contains(&seconds), "{seconds}");
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn page_cache_share_matches_resident_pages() {
    xtask::require!(root, loop, ext4);
    let rig = start(disk());
    const BYTES: u64 = 128 << 20;
    for (engine, percents) in [("sync", &[0, 50, 100][..]), ("uring", sized(&[50][..], &[0, 50, 100]))] {
        let buffered = format!("read:seq64k:buffered:passes=1:engine={engine}");
        for &percent in percents {
            // This test leaves the data alone, and gives us time.
            let words = format!("--size 128m --time 1 --cache as-is --test stat:files=100 --test {buffered}");
            let truth = percent as f64 / 100.0;
            let measured = || {
                let Reading { running, file } = reading(rig.path(), &words);
                let pinned = Pinned::first(&File::open(file).unwrap(), BYTES * percent / 100);
                let ran = running.wait().did_not_panic().exits(0);
                drop(pinned);
                let document = parse_document(&ran.stdout);
                let share = phases(&document)[1]["page_cache_share"].as_f64().unwrap();
                (document, share)
            };
            // The kernel may read ahead pages, give them back before they are used, and read them again. It does not do
            // so twice in a row.
            let (document, share) =
                Some(measured()).filter(|(_, share)| (share - truth).abs() < 0.01).unwrap_or_else(measured);
            let phase = &phases(&document)[1];
            assert!((share - truth).abs() < 0.01, "{engine}: {share} of {truth}");
            let before = phase["residency"]["before"].as_f64().unwrap();
            assert!((before - truth).abs() < 0.01, "{engine}: {before} resident of {truth}");
            assert_eq!(codes(phase).contains(&"served_from_page_cache"), percent > 0, "{phase:#}");
            assert_eq!(reasons(phase).contains(&"served_from_page_cache"), percent > 0, "{phase:#}");
        }
    }
    rig.finish().unwrap();
}

#[test]
fn buffered_o_direct_is_marked_ineffective() {
    xtask::require!(root, loop, ext4, btrfs);
    let writes = "--size 32m --time 0.5 --test write:rnd64k:q4 --test write:rnd64k:t2";
    let journal = start(disk().mount_options("data=journal"));
    is_invalid(&document_of(journal.path(), writes), "o_direct_ineffective");
    is_invalid(
        &document_of(journal.path(), "--size 32m --time 0.5 --test read:rnd64k:q4 --test read:rnd64k:t2"),
        "o_direct_ineffective",
    );
    journal.finish().unwrap();
    let checksums = start(Spec::disk().file_system("btrfs").size_mib(512));
    is_invalid(&document_of(checksums.path(), writes), "o_direct_ineffective");
    checksums.finish().unwrap();
    // Neither of the two is here.
    let plain = start(disk());
    has_no(&document_of(plain.path(), writes), "o_direct_ineffective");
    plain.finish().unwrap();
}

#[test]
fn holes_and_unwritten_extents_invalidate_reads() {
    xtask::require!(root, loop, ext4);
    let rig = start(disk());
    for engine in ["q4", "t2"] {
        for &makes_holes in sized(&[engine == "q4"][..], &[true, false]) {
            let words = format!("--size 32m --time 1 --test stat:files=100 --test read:rnd4k:{engine}");
            let Reading { running, file } = reading(rig.path(), &words);
            // No user does this to our files, but a file system that loses data might.
            let file = File::options().write(true).open(file).unwrap();
            let half = 16 << 20;
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, hole, 0, half).unwrap();
            if !makes_holes {
                rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, half).unwrap();
            }
            // It is damage, too: the test reads data that was not written.
            let ran = running.wait().did_not_panic().exits(3);
            let document = parse_document(&ran.stdout);
            let phase = &phases(&document)[1];
            assert_eq!(phase["verdict"]["trust"], "invalid", "{phase:#}");
            assert!(reasons(phase).contains(&"unwritten_extents"), "{:?}", reasons(phase));
            let extents = &phase["extents"];
            let key = if makes_holes { "hole_share" } else { "unwritten_share" };
            assert!((extents[key].as_f64().unwrap() - 0.5).abs() < 0.01, "{extents}");
        }
    }
    has_no(
        &document_of(rig.path(), "--size 32m --time 0.5 --test read:rnd4k:q4 --test read:rnd4k:t2"),
        "unwritten_extents",
    );
    rig.finish().unwrap();
}

#[test]
fn tmpfs_target_and_server_cache_hits_are_detected() {
    xtask::require!(root, fuse, tmpfs);
    let tmpfs = Tmpfs::new("256m", None);
    is_invalid(
        &document_of(tmpfs.path(), "--size 32m --time 0.5 --test read --test write --test create:files=100"),
        "memory_target",
    );
    let strict = run_in(tmpfs.path(), "--size 32m --time 0.5 --test read --strict").run();
    strict.did_not_panic().exits(5);

    // Data that was read once is answered at once: a cache that no counter of this machine shows.
    let server = start(Spec::fuse().service_us(2000).cache_us(20).only_reads());
    let document = document_of(server.path(), "--size 4m --server-ram 64m --test read:rnd4k:passes=2");
    let phase = &phases(&document)[0];
    assert!(reasons(phase).contains(&"below_os_cache"), "{:?}", reasons(phase));
    assert!(reasons(phase).contains(&"server_cache"), "{:?}", reasons(phase));
    server.finish().unwrap();
    // Without a cache, and with a set that its memory cannot hold, nothing is off.
    let server = start(Spec::fuse().service_us(2000).only_reads());
    let document = document_of(server.path(), "--size 64m --server-ram 32m --time 1 --test read:rnd4k");
    has_no(&document, "below_os_cache");
    has_no(&document, "server_cache");
    server.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn limit_step_is_found_at_its_time() {
    xtask::require!(root, loop, ext4, blkio);
    for test in sized(&["read:rnd4k:q8"][..], &["read:rnd4k:q8", "read:rnd4k:t8"]) {
        let rig = start(disk());
        settled!(check_phases(
            || {
                rig.set("read_iops=10000").unwrap();
                let Reading { running, .. } =
                    reading(rig.path(), &format!("--size 128m --time 7 --test {test}"));
                let start_ns = monotonic_ns();
                std::thread::sleep(Duration::from_millis(2500));
                let set_ns = rig.set("read_iops=2000").unwrap();
                let ran = running.wait().did_not_panic().exits(0);
                let mut document = parse_document(&ran.stdout);
                document["phases"][0]["set_ns"] = (set_ns - start_ns).into();
                document
            },
            |phase| {
                let steady = &phase["steady"];
                let points = steady["change_points"].as_array().unwrap();
                let set_s = phase["set_ns"].as_u64().unwrap() as f64 / 1e9;
                let is_it = |point: &Value| (point["at_ns"].as_f64().unwrap() / 1e9 - set_s).abs() <= 0.3;
                let is_found = points.iter().any(is_it);
                off("IOPS", rate(phase), 2000.0, 0.01)
                    .or_else(|| (!is_found).then(|| format!("{steady:#}, set at {set_s:.2} s")))
                    .or_else(|| {
                        (!codes(phase).contains(&"rate_dropped")).then(|| format!("{:?}", codes(phase)))
                    })
            },
        ));
        rig.finish().unwrap();
    }
}

#[test]
fn iops_limit_is_measured_within_one_percent() {
    xtask::require!(root, loop, ext4, blkio);
    let rig = start(disk().read_iops(5000));
    // After a pause, the kernel lets through the operations of up to 0.1 s at once, and of two or three such slices at
    // the first call. More than one is seen as a ramp; one is the percent, if a test lasts for ten seconds.
    let words = "--size 128m --time 10 --test read:rnd4k:q8 --test read:rnd4k:t8";
    let mut is_named = false;
    settled!(check_phases(
        || document_of(rig.path(), words),
        |phase| {
            is_named |= codes(phase).contains(&"rate_capped");
            off("IOPS", rate(phase), 5000.0, 0.01)
        },
    ));
    // If a CPU is late for a slice or two, a row looks like that of a device.
    assert!(is_named, "neither row is said to be capped");
    rig.finish().unwrap();
}

#[test]
fn bandwidth_limit_is_measured_within_one_percent() {
    xtask::require!(root, loop, ext4, blkio);
    let rig = start(disk().read_bytes_per_second(50_000_000));
    let words = sized(
        "--size 128m --time 6 --test read:rnd64k:t4",
        "--size 128m --time 6 --test read:rnd64k:q4 --test read:rnd64k:t4",
    );
    settled!(check_phases(
        || document_of(rig.path(), words),
        |phase| off("IOPS", rate(phase), 50e6 / 65_536.0, 0.01)
    ));
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn cold_read_smaller_than_memory_hits_device() {
    xtask::require!(root, loop, ext4, fuse);
    // A limit of the kernel would let through a tenth of a second's worth at once, of the second that this takes.
    let rig = start(disk().over(Spec::fuse().bytes_per_second(100_000_000).only_reads()));
    // Long enough that a pause of 50 ms, which this host makes at times, is within the tolerance.
    let words = "--size 256m --cache cold --test read:seq1m:buffered --test read:seq1m:buffered:engine=uring";
    settled!(check_phases(
        || document_of(rig.path(), words),
        |phase| {
            let bytes_per_second = phase["rate"]["bytes_per_second"].as_f64().unwrap_or(f64::NAN);
            let share = phase["page_cache_share"].as_f64().unwrap();
            off("bytes per second", bytes_per_second, 100e6, 0.03)
                .or_else(|| (share > 0.01).then(|| format!("{share} from memory")))
        },
    ));
    // Other programs print this: the same file, read from memory, except for pages that some machines take back.
    let naive = document_of(rig.path(), "--size 128m --cache warm --test read:seq1m:buffered:passes=1");
    let naive = &phases(&naive)[0];
    assert!(naive["page_cache_share"].as_f64().unwrap() > 0.9, "{naive:#}");
    assert!(codes(naive).contains(&"served_from_page_cache"), "{:?}", codes(naive));
    rig.finish().unwrap();
}
