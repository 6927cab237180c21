//! Issue of operations: io_uring and its substitutes, arrival, verification, bytes, engines without I/O.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::fuse::{Errno, Faults, Fuse};
use crate::support::mounts::{LoopFs, Tmpfs};
use crate::support::program::{Skye, assert_nothing_left, intervals, leftovers, parse_document, skye};
use crate::support::scratch;

fn on(path: &Path) -> Skye {
    skye().arg("run").arg(path).words("--allow low-space,busy")
}

fn features(phase: &Value) -> Vec<&str> {
    phase["engine"]["features"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

fn codes(phase: &Value) -> Vec<&str> {
    phase["notes"].as_array().unwrap().iter().filter_map(|note| note["code"].as_str()).collect()
}

fn disk() -> LoopFs {
    LoopFs::new("ext4", 128, &[], "")
}

#[test]
fn engine_choice_follows_depth_and_is_recorded() {
    xtask::require!(root, loop, ext4);
    let disk = disk();
    let tests = "--test read:rnd4k:q8 --test read:rnd4k --test read:rnd4k:q4:buffered --test fsync:q4:ops=50 \
                 --test write:rnd4k:q8t2:sqpoll --test rw:rnd4k:q16:read=30 --test rewrite:rnd4k:q4:direct";
    let ran = on(disk.path()).words("--size 16m --time 0.2 --verify --json -").words(tests).run();
    let run = parse_document(&ran.did_not_panic().exits(0).stdout);
    let engines: Vec<_> = run["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| (phase["engine"]["name"].as_str().unwrap(), phase["label"].as_str().unwrap()))
        .collect();
    assert_eq!(
        engines,
        [
            ("uring", "4K rnd q8"),
            ("sync", "4K rnd q1"),
            ("sync", "4K rnd q1t4 buffered"),
            ("sync", "4K rnd q1t4"),
            ("uring", "4K rnd q8t2 sqpoll"),
            ("uring", "4K rnd q16"),
            ("uring", "4K rnd q4 direct"),
        ]
    );
    let phases = run["phases"].as_array().unwrap();
    for feature in ["o_direct", "registered_files"] {
        assert!(features(&phases[0]).contains(&feature), "{:?}", features(&phases[0]));
    }
    assert!(features(&phases[4]).contains(&"sqpoll"), "{:?}", features(&phases[4]));
    assert!(codes(&phases[2]).contains(&"depth_by_threads"));
    for index in [0, 1, 2, 5, 6] {
        let compared = phases[index]["verified_blocks"].as_u64().unwrap();
        let read = phases[index]["app_bytes_read"].as_u64().unwrap() / 4096;
        assert!(compared == read && read > 0, "{index}: {compared} of {read} blocks");
    }
    assert_nothing_left(disk.path());
}

#[test]
fn forbidden_io_uring_turns_depth_into_threads() {
    let home = scratch(64 << 20);
    let program = on(home.path()).words("--size 16m --time 0.1 --test read:rnd4k:q8t2 --json -");
    let ran = program.without_call(libc::SYS_io_uring_setup).run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let phase = &run["phases"][0];
    assert_eq!((&phase["engine"]["name"], &phase["label"]), (&"sync".into(), &"4K rnd q1t16".into()));
    assert_eq!(phase["spec"], "read:rnd4k:t16");
    assert!(codes(phase).contains(&"depth_by_threads"), "{phase}");
    let notes = run["plan"]["notes"].to_string();
    assert!(notes.contains("io_uring is not available"), "{notes}");
    for requested in
        ["--engine uring --test read:rnd4k:q8", "--test read:rnd4k:engine=uring", "--test read:iopoll"]
    {
        let program = on(home.path()).words("--size 16m --time 0.1").words(requested);
        program
            .without_call(libc::SYS_io_uring_setup)
            .run()
            .exits(2)
            .output_contains(&["io_uring", "drop"])
            .has_no_result();
    }
    assert_nothing_left(home.path());
}

#[test]
fn locked_memory_limit_only_disables_fixed_buffers() {
    xtask::require!(root, loop, ext4, user);
    let disk = disk();
    crate::support::program::give_to_other_user(disk.path());
    // 32 blocks of a megabyte in flight are more than users may lock.
    let program = on(disk.path()).words("--size 32m --time 0.1 --test read:seq1m:q32 --json -");
    let ran = program.by_other_user().run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let phase = &run["phases"][0];
    assert_eq!((&phase["engine"]["name"], &phase["status"]), (&"uring".into(), &"done".into()));
    assert!(!features(phase).contains(&"fixed_buffers"), "{:?}", features(phase));
    assert!(codes(phase).contains(&"engine_features_lost"), "{phase}");
    // Root has no such limit.
    let ran = on(disk.path()).words("--size 32m --time 0.1 --test read:seq1m:q32 --json -").run();
    let run = parse_document(&ran.exits(0).stdout);
    assert!(features(&run["phases"][0]).contains(&"fixed_buffers"));
}

/// A byte that changes below the file system during a read is found and reported, and ends the phase.
#[test]
fn flipped_byte_stops_the_phase() {
    xtask::require!(root, loop, ext4);
    for test in ["read:rnd4k:q8", "read:seq64k", "read:rnd4k:buffered:passes=1000"] {
        let disk = disk();
        let program = on(disk.path()).words("--size 16m --time 30 --verify --seed 77 --cache cold");
        let running = program.words("--test").arg(test).words("--test write:seq1m:passes=1");
        let mut running = running.spawn();
        let image = disk.image();
        let mut flipped = None;
        let path = disk.path().to_owned();
        let found = running.wait_until(|| {
            // Flips once the data set is whole and on the device.
            let whole = |work: &std::path::PathBuf| {
                fs::metadata(work.join("data-0000")).is_ok_and(|file| file.len() == 16 << 20)
            };
            if !leftovers(&path).iter().any(whole) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(700));
            flipped = flip(&image);
            flipped.is_some()
        });
        assert!(found, "no stamp was found in the image");
        let offset = flipped.unwrap();
        if test.contains("buffered") {
            // The page cache would hide the flip.
            let work = leftovers(&path).remove(0);
            let file = File::open(work.join("data-0000")).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        let ran = running.wait().did_not_panic().exits(3);
        let ran = ran.output_contains(&["data-0000", &offset.to_string(), "expected", "found"]);
        let at = format!("offset {offset}");
        assert!(ran.stderr.contains(&at), "{test}: {at}\n{ran}");
        assert_nothing_left(disk.path());
    }
}

/// Flips a bit behind the first stamp in an image, well inside of the file. Returns its offset in the file.
pub fn flip(image: &Path) -> Option<u64> {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut block = [0; 4096];
    for index in 0.. {
        // Small file systems have blocks of 1 KiB.
        let at = index * 1024;
        if file.read_at(&mut block, at).unwrap() < block.len() {
            return None;
        }
        let word = |number: usize| u64::from_le_bytes(block[number * 8..][..8].try_into().unwrap());
        // A stamp has the seed, the first file, and any generation.
        if word(0) == 77 && word(1) >> 32 == 0 && word(2) >= 1 << 20 {
            file.write_all_at(&[block[1000] ^ 0x10], at + 1000).unwrap();
            return Some(word(2) + 1000);
        }
    }
    None
}

#[test]
fn errors_and_hangs_at_depth_are_reported() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { read_error_after: Some((1 << 20, Errno::EIO)), ..Faults::default() });
    let program = on(fuse.path()).words("--size 4m --time 0.3 --test write:seq64k:q4 --test read:rnd4k:q8");
    let ran = program.words("--test create:files=20 --json -").run().did_not_panic().exits(1);
    ran.output_contains(&["Input/output error", "offset", "kernel log"]);
    assert_nothing_left(fuse.path());
    let fuse = Fuse::new(Faults { hang_from_read: Some(200), ..Faults::default() });
    let program = on(fuse.path()).words("--size 4m --time 0.3 --test write:seq64k:q4 --test read:rnd4k:q8");
    let mut running = program.impatient().spawn();
    while !running.has_left() {
        assert!(running.age() < Duration::from_secs(60), "the program hangs with what it tests");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(fuse.counts().hanging > 0, "nothing hung");
    fuse.release();
    running.wait().did_not_panic().exits(1).output_contains(&[fuse.path().to_str().unwrap()]);
    skye().arg("clean").arg(fuse.path()).run().exits(0);
    assert_nothing_left(fuse.path());
}

/// The rate is the requested one, far below the rate of memory.
#[test]
fn open_loop_runs_at_the_requested_rate() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("64m", None);
    let tests =
        "--test read:rnd4k:rate=500 --test read:rnd4k:q4:rate=2000,poisson --test write:rnd4k:t3:rate=900";
    let ran =
        on(tmpfs.path()).words("--size 16m --time 2 --json -").words(tests).run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    for (phase, rate, arrival) in [
        (&run["phases"][0], 500.0, "open_loop_fixed"),
        (&run["phases"][1], 2000.0, "open_loop_poisson"),
        (&run["phases"][2], 900.0, "open_loop_fixed"),
    ] {
        let ops = phase["ops"].as_f64().unwrap();
        // The run takes two seconds. A Poisson process varies by the root of its arrivals: four standard deviations.
        let expected: f64 = 2.0 * rate;
        let slack = if arrival == "open_loop_fixed" { 3.0 } else { 4.0 * expected.sqrt() };
        // On a busy machine, a thread that gets no CPU for a tenth of a second leaves the last arrivals.
        let ops_min = expected - slack - 0.1 * rate;
        assert!((ops_min..=expected + slack).contains(&ops), "{ops} of {expected}: {}", phase["notes"]);
        assert_eq!(phase["workload"]["arrival"], arrival);
        assert_eq!(phase["workload"]["rate_ops_per_second"].as_f64(), Some(rate));
        assert!(phase["queueing_ns"]["min"].is_u64(), "{phase}");
    }
}

const DEVICE: &str =
    "parallelism = 8\nlatency = { kind = \"fixed\", mean_us = 100 }\nops_per_second = 1000000\n";

#[test]
fn simulated_device_run_is_accurate_and_repeatable() {
    let home = scratch(0);
    let file = home.path().join("device.toml");
    fs::write(&file, DEVICE).unwrap();
    let simulate = || {
        let program = skye().arg("run").arg(format!("sim:{}", file.display()));
        let program = program.words("--test read:rnd4k:t1 --sweep q1..q64 --time 20 --seed 5 --json -");
        let ran = program.run().did_not_panic().exits(0);
        assert!(ran.saved().is_empty(), "a simulated run was saved");
        parse_document(&ran.stdout)
    };
    let run = simulate();
    let phases = run["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 7);
    for phase in phases {
        let depth = phase["workload"]["iodepth"].as_f64().unwrap();
        let rate = phase["rate"]["ops_per_second"].as_f64().unwrap();
        // The device serves eight at a time, each for 100 us.
        let expected = depth.min(8.0) * 10_000.0;
        assert!((rate / expected - 1.0).abs() < 1e-3, "{depth}: {rate} is not {expected}");
        assert_eq!(phase["status"], "done");
        let intervals = intervals(phase);
        let frames: Vec<_> = intervals.iter().filter_map(|interval| interval.frame.as_ref()).collect();
        assert_eq!(frames.len(), 200);
        let in_flight: u64 = frames.iter().map(|frame| frame.devices[0].in_flight_ns).sum();
        // Little's law: the depth is the number of requests in flight.
        assert!((in_flight as f64 / 20e9 / depth - 1.0).abs() < 1e-3, "{depth}: {in_flight}");
        let is_knee = codes(phase).contains(&"knee");
        assert_eq!(is_knee, depth == 8.0, "{depth}: {:?}", codes(phase));
    }
    let again = simulate();
    assert_eq!(run["phases"][3]["histogram"], again["phases"][3]["histogram"]);
    assert_eq!(run["phases"][3]["intervals"], again["phases"][3]["intervals"]);
    let broken = skye().arg("run").arg("sim:/nowhere.toml").words("--test read").run();
    broken.exits(2).output_contains(&["/nowhere.toml", "docs/simulated-devices.md"]).has_no_result();
    let files = skye().arg("run").arg(format!("sim:{}", file.display())).words("--test create").run();
    files.exits(2).output_contains(&["files", "data tests"]).has_no_result();
}

#[test]
#[ignore = "long"]
fn slow_simulated_devices_keep_their_latency() {
    let home = scratch(0);
    let file = home.path().join("device.toml");
    fs::write(&file, "parallelism = 1\nlatency = { kind = \"fixed\", mean_us = 256000000 }\n").unwrap();
    let program = skye().arg("run").arg(format!("sim:{}", file.display()));
    let ran = program.words("--test read:rnd4k --time 12000 --json -").run().did_not_panic().exits(0);
    let phase = &parse_document(&ran.stdout)["phases"][0];
    for key in ["p50", "max"] {
        let latency_ns = phase["latency_ns"][key].as_f64().unwrap();
        assert!((latency_ns / 256e9 - 1.0).abs() < 0.01, "{key}: {latency_ns}");
    }
    assert!(!codes(phase).contains(&"latency_too_long"), "{phase}");
    // A second without an operation is no sign of a host.
    assert_ne!(phase["verdict"]["limiter"], "below_os", "{}", phase["verdict"]);
}

#[test]
fn null_and_nop_runs_are_counted_but_not_saved() {
    let home = scratch(4 << 20);
    let tests = "--test read:rnd4k:q32:engine=null:ops=100k --test write:rnd4k:q8:engine=nop:ops=10k";
    let program = on(home.path()).words("--size 16m --time 0.1 --json -").words(tests);
    let ran = program.run().did_not_panic().exits(0);
    assert!(ran.saved().is_empty(), "{ran}");
    let run = parse_document(&ran.stdout);
    let of = |index: usize| {
        let phase = &run["phases"][index];
        (phase["ops"].as_u64().unwrap(), phase["engine"]["mean_batch"].as_f64().unwrap())
    };
    assert_eq!(of(0), (100 << 10, 32.0));
    let (ops, batch) = of(1);
    // The first operations come by twos, until it is known that nobody waits.
    assert!(ops == 10 << 10 && (7.9..=8.0).contains(&batch), "{batch}");
    let names: Vec<_> =
        run["ceilings"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    for name in ["null engine, batch 32", "nop ring, batch 1", "memory copy"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(run["tool"]["overhead_ns_per_op"].as_f64() > Some(0.0));
    assert_nothing_left(home.path());
}

#[test]
fn byte_and_getc_tests_count_every_byte() {
    let home = scratch(64 << 20);
    let tests = "--test byte-write:ops=20000 --test byte-read:ops=20000 --test putc-write:ops=300000 \
                 --test getc-read:t2:ops=300000 --test putc-write:unlocked:stdio_buffer=512:ops=100000 \
                 --test read:rnd4k:buffered:passes=1";
    let ran = on(home.path()).words("--size 4m --time 0.2 --verify --json -").words(tests).run();
    let run = parse_document(&ran.did_not_panic().exits(0).stdout);
    let counted: Vec<_> = run["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| {
            let number = |key: &str| phase[key].as_u64().unwrap();
            let engine = phase["engine"]["name"].as_str().unwrap();
            (engine, number("ops"), number("app_bytes_read"), number("app_bytes_written"))
        })
        .collect();
    assert_eq!(
        counted,
        [
            ("sync", 20_000, 0, 20_000),
            ("sync", 20_000, 20_000, 0),
            ("stdio", 300_000, 0, 300_000),
            ("stdio", 300_000, 300_000, 0),
            ("stdio", 100_000, 0, 100_000),
            ("sync", 1024, 4 << 20, 0),
        ]
    );
    for phase in run["phases"].as_array().unwrap().iter().take(5) {
        assert!(phase["latency_ns"].is_null(), "{phase}");
        assert_eq!(phase["slowest_calls"]["calls"], 8192, "{phase}");
        assert!(phase["slowest_calls"]["time_ns"].as_u64() > Some(0), "{phase}");
    }
    // Data that was written byte by byte is still intact.
    assert_eq!(run["phases"][5]["verified_blocks"], 1024);
    assert_nothing_left(home.path());
}
