//! Options of tests besides the verb: content, sweeps, polling, verification byte by byte, ceilings. Also the faults
//! below them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::{Advice, FallocateFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::engines::flip;
use crate::support::fuse::{Errno, Faults, Fuse};
use crate::support::mounts::{LoopFs, Tmpfs, ZramFs, run as run_command};
use crate::support::program::{
    IMPATIENT_SECONDS, Skye, assert_nothing_left, document, leftovers, parse_document, phases, skye,
};
use crate::support::scratch;

fn on(path: &Path) -> Skye {
    skye().arg("run").arg(path).words("--allow low-space,busy")
}

/// Runs the program to its end, and reads its output as JSON.
fn measured(program: Skye) -> Value {
    parse_document(&program.words("--json -").run().did_not_panic().exits(0).stdout)
}

fn ext4(size_mib: u64) -> LoopFs {
    // Blocks are as large as the parts compared in an image, where removed files stay.
    LoopFs::new("ext4", size_mib, &["-b", "4096"], "nodiscard")
}

fn words<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().filter_map(|item| item[key].as_str()).collect()
}

const SIZE_BYTES: u64 = 16 << 20;

#[test]
fn written_data_has_the_requested_compressibility() {
    xtask::require!(root, zram, ext4);
    let half: RangeInclusive<f64> = 0.4..=0.65;
    let whole = 0.95..=1.05;
    for (tests, expected) in [
        ("--test read:rnd4k:ops=10", &whole),
        // The data is laid out, and not written again.
        ("--test read:rnd4k:compress=50:ops=10", &half),
        ("--test write:rnd4k:q8:compress=50:passes=1", &half),
        ("--test write:seq1m:q2:compress=50:passes=1", &half),
        ("--test write:rnd4k:q8:passes=1", &whole),
    ] {
        let disk = ZramFs::new("ext4", 96, &["-E", "lazy_itable_init=0,lazy_journal_init=0"]);
        let (given_before, held_before) = disk.bytes_held();
        let run = measured(on(disk.path()).words("--size 16m --time 20").words(tests));
        let (given, held) = disk.bytes_held();
        let (given, held) = (given - given_before, held - held_before);
        assert!(given >= SIZE_BYTES, "{tests}: only {given} bytes reached the device");
        let share = held as f64 / given as f64;
        assert!(expected.contains(&share), "{tests}: {share} of the bytes are held");
        let requested = if tests.contains("compress") { 50 } else { 0 };
        assert_eq!(run["phases"][0]["workload"]["compress_percent"], requested);
        assert_nothing_left(disk.path());
    }
}

#[test]
fn hot_blocks_verify_as_last_written() {
    let home = scratch(64 << 20);
    let tests = "--test write:rnd4k:q32:zipf=1.2:ops=20000 --test read:rnd4k:q8:zipf=0.9:ops=5000 \
                 --test rw:rnd4k:q16:hot=90/10:read=50:ops=20000 --test rewrite:rnd4k:zipf=2:direct:ops=500 \
                 --test write:rnd4k:q8:buffered:hot=80/5:ops=5000 --test read:seq1m:passes=1";
    let run = measured(on(home.path()).words("--size 16m --verify --time 20 --no-probe").words(tests));
    let phases = run["phases"].as_array().unwrap();
    let ops: Vec<_> = phases.iter().map(|phase| phase["ops"].as_u64().unwrap()).collect();
    assert_eq!(ops, [20_000, 5000, 20_000, 500, 5000, 16]);
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}", phase["reason"]);
        let reads = phase["app_bytes_read"].as_u64().unwrap() > 0;
        assert_eq!(phase["verified_blocks"].as_u64().unwrap() > 0, reads, "{}", phase["spec"]);
    }
    assert_nothing_left(home.path());
}

#[test]
fn small_hot_set_is_served_from_page_cache() {
    xtask::require!(root, loop, ext4);
    let ext4 = ext4(128);
    // 2 % of 16,384 blocks are 328. The same number of visits to all blocks finds few of them in memory.
    let tests = "--test read:rnd4k:buffered:hot=100/2:ops=16000 --test read:rnd4k:buffered:ops=16000";
    let run = measured(on(ext4.path()).words("--size 64m --no-probe --time 20").words(tests));
    let share = |index: usize| run["phases"][index]["page_cache_share"].as_f64().unwrap();
    assert!(share(0) > 0.95 && share(1) < 0.5, "{} and {}", share(0), share(1));
    let codes = words(&run["phases"][0]["notes"], "code");
    assert!(codes.contains(&"served_from_page_cache"), "{codes:?}");
    assert_ne!(run["phases"][0]["trust"], "invalid");
}

/// Returns the blocks of 4 KiB in an image that a run with this seed has written, each with its count.
fn blocks_of(image: &Path, seed: u64) -> HashMap<Vec<u8>, u64> {
    let image = File::open(image).unwrap();
    let (mut blocks, mut block) = (HashMap::new(), vec![0; 4096]);
    for index in 0.. {
        if image.read_at(&mut block, index * 4096).unwrap() < block.len() {
            break;
        }
        if block.starts_with(&seed.to_le_bytes()) {
            *blocks.entry(block.clone()).or_default() += 1;
        }
    }
    blocks
}

#[test]
fn dedupe_share_matches_request() {
    xtask::require!(root, loop, ext4);
    for (tests, repeated_share) in [
        ("--test read:rnd4k:ops=10", 0.0..=0.0),
        ("--test read:rnd4k:dedupe=50:ops=10", 0.45..=0.55),
        ("--test write:rnd4k:q8:dedupe=50:passes=1 --test read:rnd4k:q4:dedupe=50:passes=1", 0.45..=0.55),
        ("--test write:seq64k:t2:dedupe=25:compress=50:passes=1", 0.20..=0.30),
        ("--test write:rnd4k:q8:passes=1", 0.0..=0.0),
    ] {
        let disk = ext4(64);
        let program = on(disk.path()).words("--size 16m --time 20 --seed 417 --verify").words(tests);
        let run = measured(program);
        // Files are gone by now, and their data still lies where it was.
        let blocks = blocks_of(&disk.image(), 417);
        let total: u64 = blocks.values().sum();
        assert_eq!(total, SIZE_BYTES / 4096, "{tests}");
        let repeated: u64 = blocks.values().filter(|count| **count > 1).sum();
        let share = repeated as f64 / total as f64;
        assert!(repeated_share.contains(&share), "{tests}: {share} of the blocks are there again");
        let zeros = blocks.keys().filter(|block| block[2048..].iter().all(|byte| *byte == 0)).count();
        assert_eq!(zeros, if tests.contains("compress=50") { blocks.len() } else { 0 }, "{tests}");
        // Repeated blocks are right, wherever they are.
        if let Some(read) = run["phases"].get(1) {
            assert_eq!(read["verified_blocks"], total);
        }
        assert_nothing_left(disk.path());
    }
}

/// Returns the group, label and spec of each row.
fn rows(run: &Value) -> Vec<(&str, &str, &str)> {
    let phases = run["phases"].as_array().unwrap();
    assert!(phases.iter().all(|phase| phase["status"] == "done"), "{phases:#?}");
    let groups = words(&run["phases"], "group").into_iter();
    let labels = words(&run["phases"], "label").into_iter().zip(words(&run["phases"], "spec"));
    groups.zip(labels).map(|(group, (label, spec))| (group, label, spec)).collect()
}

/// Returns the groups and repetitions of the rows that are the knee of their sweep.
fn knees(run: &Value) -> Vec<(&str, u64)> {
    let phases = run["phases"].as_array().unwrap().iter();
    let is_knee = |phase: &&Value| words(&phase["notes"], "code").contains(&"knee");
    phases
        .filter(is_knee)
        .map(|phase| (phase["group"].as_str().unwrap(), phase["repetition"].as_u64().unwrap()))
        .collect()
}

#[test]
#[ignore = "long"]
fn sweep_has_one_row_per_point() {
    let home = scratch(64 << 20);
    let swept = |sweep: &str, tests: &str| {
        let program = on(home.path()).words("--size 8m --files 200 --time 0.2 --sweep").arg(sweep);
        measured(program.words(tests))
    };
    let run = swept("t1..t2", "--test create --test read:rnd4k:buffered");
    assert_eq!(
        rows(&run),
        [
            ("01-create", "t1", "create:files=200"),
            ("01-create", "t2", "create:t2:files=200"),
            ("02-read", "4K rnd q1 buffered", "read:rnd4k:buffered"),
            ("02-read", "4K rnd q1t2 buffered", "read:rnd4k:t2:buffered"),
        ]
    );
    assert_eq!(knees(&run), [], "two points have no knee");
    let run = swept("t1..t3", "--test create --repeat 2");
    assert_eq!(rows(&run)[3..].iter().map(|row| row.1).collect::<Vec<_>>(), ["t1", "t2", "t3"]);
    assert_eq!(knees(&run), [("01-create", 1), ("01-create", 2)]);
    let run = swept("4k..16k", "--test read:seq4k:buffered");
    assert_eq!(
        rows(&run),
        [
            ("01-read", "4K q1 buffered", "read:seq4k:buffered"),
            ("01-read", "8K q1 buffered", "read:seq8k:buffered"),
            ("01-read", "16K q1 buffered", "read:seq16k:buffered"),
        ]
    );
    assert_eq!(knees(&run), [("01-read", 1)]);
    let run = swept("rate500..2000", "--test rw:rnd4k:t2");
    assert_eq!(
        rows(&run),
        [
            ("01-rw", "4K rnd q1t2 @500/s poisson", "rw:rnd4k:t2:rate=500,poisson"),
            ("01-rw", "4K rnd q1t2 @1000/s poisson", "rw:rnd4k:t2:rate=1000,poisson"),
            ("01-rw", "4K rnd q1t2 @2000/s poisson", "rw:rnd4k:t2:rate=2000,poisson"),
        ]
    );
    assert_eq!(knees(&run), [("01-rw", 1)]);
    assert_nothing_left(home.path());
}

/// The rates are shares of the rate that the closed loop before them reached.
#[test]
fn rate_sweep_uses_shares_of_measured_rate() {
    let home = scratch(64 << 20);
    let run = measured(
        on(home.path()).words("--size 8m --time 0.2 --sweep rate --test read:rnd4k:buffered:ops=20k"),
    );
    let phases = run["phases"].as_array().unwrap();
    let reached = phases[0]["rate"]["overall_ops_per_second"].as_f64().unwrap();
    assert_eq!((phases.len(), &phases[0]["workload"]["arrival"]), (6, &"closed_loop".into()));
    for (phase, percent) in phases[1..].iter().zip([10.0, 25.0, 50.0, 75.0, 90.0]) {
        assert_eq!(phase["label"], format!("4K rnd q1 buffered @{percent}% poisson"));
        let rate = phase["workload"]["rate_ops_per_second"].as_f64().unwrap();
        assert!((rate / reached * 100.0 - percent).abs() < 1e-6, "{rate} of {reached} at {percent} %");
    }
    // The closed loop is no point of the sweep.
    assert_eq!(knees(&run).len(), 1);
    assert!(!words(&phases[0]["notes"], "code").contains(&"knee"));
}

/// Returns the first data file of a run, once it is whole and tests are at work on it.
fn data_file(run: u32, path: &Path, size_bytes: u64) -> Option<PathBuf> {
    let file = leftovers(path).into_iter().next()?.join("data-0000");
    let is_whole = fs::metadata(&file).is_ok_and(|file| file.len() == size_bytes);
    (is_whole && threads(run).iter().any(|name| name.starts_with("worker-"))).then_some(file)
}

/// Returns the names of the threads of a process.
fn threads(process: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim().to_owned()).collect()
}

/// Takes the free space of a file system without writing it, and leaves `but_bytes` bytes.
fn fill(path: &Path, but_bytes: u64) {
    let file = File::create(path).unwrap();
    let mut end = 0;
    for piece in (12..26).rev().map(|bits| 1 << bits) {
        let free = || {
            let space = rustix::fs::fstatvfs(&file).unwrap();
            space.f_bavail * space.f_frsize
        };
        while free() >= but_bytes + piece
            && rustix::fs::fallocate(&file, FallocateFlags::empty(), end, piece).is_ok()
        {
            end += piece;
        }
    }
}

/// Returns the offset that a phase names in the reason why it failed.
fn offset_in(phase: &Value) -> u64 {
    let reason = phase["reason"].as_str().unwrap();
    let after = reason.split_once(" at offset ").unwrap_or_else(|| panic!("no offset: {reason}")).1;
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// A file that shares its blocks with a copy needs other blocks for new data, and there are none.
#[test]
fn enospc_on_reflinked_data_fails_only_writing_tests() {
    xtask::require!(root, loop, xfs);
    let disk = LoopFs::new("xfs", 320, &["-m", "reflink=1"], "");
    let path = disk.path();
    let tests = "--test write:rnd4k:q8 --test byte-write --test putc-write --test create:size=64k:files=50 \
                 --test read:rnd4k:q8:passes=1";
    let program = on(path).words("--size 16m --time 20 --verify").words(tests);
    let json = program.home().join("run.json");
    let mut running = program.arg("--json").arg(&json).spawn();
    let (run, mut file) = (running.id(), None);
    running.wait_until(|| {
        file = data_file(run, path, SIZE_BYTES);
        file.is_some()
    });
    fill(&path.join("other"), 2 << 20);
    let file = file.expect("a phase on data");
    run_command(Command::new("cp").arg("--reflink=always").arg(file).arg(path.join("copy")));
    let ran = running.wait().did_not_panic().exits(1);
    let run = document(&json);
    let failed = |name| (name, "failed");
    let names =
        [failed("write"), failed("byte-write"), failed("putc-write"), failed("create"), ("read", "done")];
    assert_eq!(phases(&run), names, "{ran}");
    assert_eq!(run["phases"][0]["engine"]["name"], "uring");
    for index in 0..4 {
        let phase = &run["phases"][index];
        let reason = phase["reason"].as_str().unwrap();
        let (cause, work) = ("No space left on device", path.join("skye."));
        assert!(reason.contains(cause) && reason.contains(work.to_str().unwrap()), "{reason}");
        assert!(ran.stderr.contains(cause), "{ran}");
        if index < 3 {
            let offset = offset_in(phase);
            assert!(offset < SIZE_BYTES && reason.contains("data-0000"), "{reason}");
            assert!(offset.is_multiple_of(4096) || index > 0, "{reason}");
            assert!(phase["ops"].as_u64() > Some(0) || index > 0, "what was written before is counted");
        }
    }
    assert_not_compared(&run["phases"][4]);
    assert_nothing_left(path);
    assert!(path.join("copy").exists() && path.join("other").exists(), "others' files stay");
}

/// Asserts that a phase was not compared. A test that failed while it wrote may have left a block half written, which
/// proves nothing about the storage.
#[track_caller]
fn assert_not_compared(phase: &Value) {
    let message = phase["notes"].as_array().unwrap().iter().any(|note| note["code"] == "not_compared");
    assert!(message && phase["verified_blocks"] == 0 && phase["ops"].as_u64() > Some(0), "{phase}");
}

/// Runs a test whose writes hit a fault that ends it. The next test would compare everything that it reads.
#[track_caller]
fn is_no_damage(test: &str, room_bytes: u64) {
    // Direct I/O is tried with one block before the layout.
    let fault = ((4 << 20) + 4096 + room_bytes, Errno::ENOSPC);
    let faults = Faults { write_error_after: Some(fault), ..Faults::default() };
    let fuse = Fuse::new(faults);
    let program = on(fuse.path()).words("--size 4m --time 0.5 --verify --test").arg(test);
    let program = program.words("--test read:rnd4k:q8:passes=1 --test create:files=20");
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic();
    let run = document(&json);
    let name = test.split(':').next().unwrap();
    assert_eq!(phases(&run), [(name, "failed"), ("read", "done"), ("create", "done")], "{ran}");
    assert_not_compared(&run["phases"][1]);
    let reason = run["phases"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("No space left on device") && reason.contains("data-0000"), "{reason}");
    assert!(offset_in(&run["phases"][0]) < 4 << 20 && ran.stderr.contains(reason), "{reason}");
    assert_nothing_left(fuse.path());
    let _ = ran.exits(1);
}

#[test]
fn failed_write_at_depth_is_not_reported_as_corruption() {
    xtask::require!(root, fuse);
    is_no_damage("write:rnd64k:q4", 300_000);
}

/// The fault may hit the middle of a piece that is stamped and compared as one.
#[test]
fn failed_byte_write_is_not_reported_as_corruption() {
    xtask::require!(root, fuse);
    is_no_damage("byte-write", 600);
    is_no_damage("putc-write:stdio_buffer=100", 600);
}

/// The process for the C library's streams dies in the middle of a piece, as for a lack of memory.
#[test]
fn killed_stdio_worker_is_not_reported_as_corruption() {
    let home = scratch(256 << 20);
    let tests = "--test putc-write:stdio_buffer=100 --test read:rnd64k:passes=1";
    let program = on(home.path()).words("--size 64m --time 20 --verify").words(tests);
    let json = program.home().join("run.json");
    let mut running = program.arg("--json").arg(&json).spawn();
    let run = running.id();
    let killed = running.wait_until(|| {
        let Some(worker) = stdio_workers(run).pop() else { return false };
        let io = fs::read_to_string(worker.join("io")).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok());
        if written < Some(1 << 20) {
            return false;
        }
        let number = worker.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
        number.is_some_and(|number| kill_process(number, Signal::KILL).is_ok())
    });
    let ran = running.wait().did_not_panic();
    assert!(killed, "{ran}");
    let run = document(&json);
    assert_eq!(phases(&run), [("putc-write", "failed"), ("read", "done")], "{ran}");
    assert_nothing_left(home.path());
    let _ = ran.exits(1).stderr_contains(&["killed by signal 9"]);
}

#[test]
fn short_read_is_reported_with_offset() {
    xtask::require!(root, fuse);
    const END: u64 = (64 << 10) + 1000;
    let fuse = Fuse::new(Faults { reads_end_at: Some(END), ..Faults::default() });
    let tests = "--test read:seq64k --test read:rnd4k --test read:rnd4k:q8 --test rewrite:seq64k:q2:direct \
                 --test byte-read --test getc-read --test write:seq64k:q4:passes=1 --test create:files=20";
    let program = on(fuse.path()).words("--size 4m --time 1").words(tests);
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(1);
    let run = document(&json);
    let statuses: Vec<_> = phases(&run).into_iter().map(|(_, status)| status).collect();
    assert_eq!(statuses, [["failed"; 6].as_slice(), &["done"; 2]].concat(), "{ran}");
    for (index, block_bytes) in [64 << 10, 4 << 10, 4 << 10, 64 << 10, 1, 1].into_iter().enumerate() {
        let phase = &run["phases"][index];
        let (offset, reason) = (offset_in(phase), phase["reason"].as_str().unwrap());
        assert!(offset.is_multiple_of(block_bytes) && offset + block_bytes > END, "{reason}");
        let moved = format!("only {} of {block_bytes} bytes were transferred", END.saturating_sub(offset));
        assert!(reason.contains(&moved) && reason.contains("data-0000"), "{moved}: {reason}");
        assert!(ran.stderr.contains(&moved), "{ran}");
    }
    // Engines with one call at a time know the first block that cannot be read whole.
    assert_eq!(offset_in(&run["phases"][0]), 64 << 10);
    for index in [4, 5] {
        assert_eq!((offset_in(&run["phases"][index]), &run["phases"][index]["ops"]), (END, &END.into()));
    }
    assert_nothing_left(fuse.path());
}

/// Returns the processes that a run has started for the C library's streams.
fn stdio_workers(run: u32) -> Vec<PathBuf> {
    let is_worker = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.get(1..3).is_some_and(|words| words == [&b"stdio-worker"[..], run.to_string().as_bytes()])
    };
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(is_worker).collect()
}

/// A process that waits for a server may not even be killed. It is left behind, and goes when the server answers.
#[test]
fn hung_stdio_worker_does_not_hang_run() {
    xtask::require!(root, fuse);
    let reads = Faults { hang_from_read: Some(3), ..Faults::default() };
    let writes = Faults { hang_after_written: Some(5 << 20), ..Faults::default() };
    let runs = [("getc-read", reads), ("putc-write", writes)].map(|(test, faults)| {
        let fuse = Fuse::new(faults);
        let program = on(fuse.path())
            .impatient()
            .words("--size 4m --time 0.5 --test write:seq64k:ops=1 --test")
            .arg(test);
        let json = program.home().join("run.json");
        (program.arg("--json").arg(&json).spawn(), fuse, json, test)
    });
    for (mut running, fuse, json, test) in runs {
        let run = running.id();
        assert!(running.wait_until(|| fuse.counts().hanging > 0), "nothing hung");
        assert_eq!(stdio_workers(run).len(), 1);
        // The removal waits for a hanging write, too. A thread of this name does it.
        while !(running.has_left() || threads(run).iter().any(|name| name == "patient")) {
            assert!(running.age() < Duration::from_secs(60), "the program hangs with what it tests");
            thread::sleep(Duration::from_millis(10));
        }
        fuse.release();
        let ran = running.wait().did_not_panic().exits(1).output_contains(&["failed", "kernel log"]);
        // The run waits for the process half as long as its driver waits for the run.
        let seconds = IMPATIENT_SECONDS / if test == "getc-read" { 2 } else { 1 };
        let ran = ran.stderr_contains(&[test, &format!("for {seconds} s")]);
        let goes = Instant::now();
        while !stdio_workers(run).is_empty() {
            assert!(goes.elapsed() < Duration::from_secs(20), "{test}: its process stays");
            thread::sleep(Duration::from_millis(1));
        }
        let run = document(&json);
        assert_eq!(phases(&run), [("write", "done"), (test, "failed")], "{ran}");
        assert_nothing_left(fuse.path());
    }
}

#[test]
fn flipped_byte_stops_byte_and_getc_reads() {
    xtask::require!(root, loop, ext4);
    for test in ["byte-read", "getc-read"] {
        let disk = ext4(64);
        let path = disk.path();
        let program = on(path).words("--size 2m --time 30 --verify --seed 77 --test");
        let mut running = program.arg(format!("{test}:passes=1000")).spawn();
        let (run, mut found) = (running.id(), None);
        running.wait_until(|| {
            let file = data_file(run, path, 2 << 20);
            found = file.and_then(|file| Some((file, flip(&disk.image())?)));
            found.is_some()
        });
        let (file, offset) = found.expect("a stamp in the image");
        let file = File::open(file).unwrap();
        running.wait_until(|| {
            // The page cache would hide the flip.
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            false
        });
        drop(file);
        let ran = running.wait().did_not_panic().exits(3);
        let at = format!("the byte at offset {offset} differs from the written data");
        ran.output_contains(&["data-0000", &at, "expected", "found"]);
        assert_nothing_left(path);
    }
}

/// Returns a ceiling of a document, in operations or bytes a second.
fn ceiling(run: &Value, name: &str) -> Option<f64> {
    let found = run["ceilings"].as_array().unwrap().iter().find(|ceiling| ceiling["name"] == name)?;
    assert!(!found["source"].as_str().unwrap().is_empty());
    found["ops_per_second"].as_f64().or(found["bytes_per_second"].as_f64())
}

/// Returns our own time per operation: the part that each operation costs, and a share of the cost of each visit to the
/// engine.
fn own_ns(run: &Value, what: &str, phase: &Value) -> Option<f64> {
    let alone_ns = 1e9 / ceiling(run, &format!("{what}, batch 1"))?;
    let batched_ns = 1e9 / ceiling(run, &format!("{what}, batch 32"))?;
    let batch_ns = (alone_ns - batched_ns) * 32.0 / 31.0;
    Some(alone_ns - batch_ns + batch_ns / phase["engine"]["mean_batch"].as_f64()?)
}

/// Returns a number's share of the ceiling of skye's loop, and of that of memory, by the other figures of its document.
fn shares(run: &Value, phase: &Value) -> (Option<f64>, Option<f64>) {
    let rate = phase["rate"]["overall_ops_per_second"].as_f64().unwrap();
    let what = if phase["engine"]["name"] == "uring" { "nop ring" } else { "null engine" };
    let spec = phase["spec"].as_str().unwrap();
    let calls = spec.split(":rate=").next().and_then(|spec| spec.split(":ops=").next()).unwrap();
    let memory = ceiling(run, &format!("memory, {calls}")).map(|most| rate / most);
    (own_ns(run, what, phase).map(|own_ns| rate * own_ns / 1e9), memory)
}

#[test]
fn rates_are_compared_with_null_engine_and_memory() {
    xtask::require!(root, loop, ext4, tmpfs);
    let (disk, tmpfs) = (ext4(64), Tmpfs::new("64m", None));
    let tests = "--test read:rnd4k:q8 --test read:rnd4k:buffered:ops=20k --test read:rnd4k:rate=300 \
                 --test byte-read:ops=1000 --test stat:files=200";
    for path in [disk.path(), tmpfs.path()] {
        let run = measured(on(path).words("--size 8m --time 0.4").words(tests));
        for name in ["null engine, batch 1", "nop ring, batch 1", "nop ring, batch 32", "memory copy"] {
            assert!(ceiling(&run, name) > Some(0.0), "{name}: {}", run["ceilings"]);
        }
        let shm = rustix::fs::statvfs("/dev/shm").map_or(0, |space| space.f_bavail * space.f_frsize);
        for name in ["memory, read:rnd4k:buffered", "memory, stat:files=200"] {
            // A small memory is not filled for a comparison.
            assert!(shm < 256 << 20 || ceiling(&run, name) > Some(0.0), "{name}: {}", run["ceilings"]);
        }
        let phases = run["phases"].as_array().unwrap();
        let (mut ops, mut all_ns) = (0.0, 0.0);
        for phase in &phases[..3] {
            let cost_ns = phase["own_cost_ns_per_op"].as_f64().unwrap();
            let expected_ns = own_ns(&run, "null engine", phase).unwrap();
            assert!((cost_ns / expected_ns - 1.0).abs() < 1e-6, "{cost_ns} is not {expected_ns}");
            ops += phase["ops"].as_f64().unwrap();
            all_ns += cost_ns * phase["ops"].as_f64().unwrap();
        }
        let overhead_ns = run["tool"]["overhead_ns_per_op"].as_f64().unwrap();
        assert!((overhead_ns * ops / all_ns - 1.0).abs() < 1e-6, "{overhead_ns}");
        // Neither bytes nor files go through the loop on blocks.
        assert!(phases[3..].iter().all(|phase| phase["own_cost_ns_per_op"].is_null()), "{phases:#?}");
        for phase in phases {
            let (own_loop, memory) = shares(&run, phase);
            let message = &phase["ceiling_shares"];
            for (share, key) in [(own_loop, "own_loop"), (memory, "memory")] {
                let message = message[key].as_f64();
                let is_alike =
                    share.zip(message).is_some_and(|(share, message)| (share / message - 1.0).abs() < 1e-6);
                assert!(
                    is_alike || share.is_none() && message.is_none(),
                    "{key}: {message:?}, not {share:?}"
                );
            }
            // The figures of a busy machine may be anything; the verdict follows from them.
            let limiter = phase["verdict"]["limiter"].as_str();
            assert!(
                own_loop <= Some(0.7) || limiter == Some("benchmark_itself"),
                "{limiter:?}: {own_loop:?}"
            );
        }
    }
}

#[test]
fn iopoll_without_poll_queues_is_dropped_or_refused() {
    xtask::require!(root, loop, ext4);
    let disk = ext4(64);
    let device = Path::new(disk.device()).file_name().unwrap().to_str().unwrap();
    let polls = fs::read_to_string(format!("/sys/block/{device}/queue/io_poll")).unwrap_or_default();
    if polls.trim() != "0" {
        return xtask::capability::list_skip("what_a_device_cannot_poll", "loop devices can be polled here");
    }
    let home = scratch(0);
    let preset = home.path().join("mine.toml");
    let text = "tests = [\"read:rnd4k:q8\"]\ntests_where_possible = [\"read:rnd4k:q8:iopoll\"]\nsize = \"8m\"\ntime = \"0.1s\"\n";
    fs::write(&preset, text).unwrap();
    let run = measured(on(disk.path()).arg("--preset").arg(&preset));
    assert_eq!(words(&run["phases"], "spec"), ["read:rnd4k:q8"]);
    let why = format!("{device} has no poll queues");
    let left_out = format!("skipped read:rnd4k:q8:iopoll: {why}");
    assert!(
        run["plan"]["notes"].as_array().unwrap().contains(&left_out.as_str().into()),
        "{}",
        run["plan"]["notes"]
    );
    let ran = on(disk.path()).arg("--preset").arg(&preset).run().did_not_panic().exits(0);
    ran.output_contains(&[&left_out]);

    let directory = File::open(disk.path()).unwrap();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    directory.set_modified(long_ago).unwrap();
    for test in ["read:iopoll", "read:rnd4k:q8:iopoll", "write:rnd4k:q4t2:iopoll:sqpoll"] {
        let program = on(disk.path()).words("--size 8m --time 0.1 --test").arg(test);
        let ran = program.run().did_not_panic().exits(2);
        ran.output_contains(&[test.split(':').next().unwrap(), &why, "drop iopoll"]).has_no_result();
    }
    // A directory that was made and removed again would show.
    assert_eq!(directory.metadata().unwrap().modified().unwrap(), long_ago);
    assert_nothing_left(disk.path());
}
