//! The limiters that the program names, against limits that were built in.
//!
//! On rigs whose limit is known, every row must be named right. A wrong name must never be *confirmed*.
//! Where others were on the CPUs, a row may name them as its limiter.

use std::path::Path;

use rig::Spec;
use serde_json::Value;
use xtask::sized;

use super::quiet::{Answer, answer, disturbance, settle, settled};
use super::support::program::{Skye, parse_document, skye};
use super::{disk, exclusive_lock, phases, run_in, start};

/// Limiters that a row may also have where others need the CPUs.
const OF_OTHERS: &[&str] = &["cpu_contention", "cpu_saturated", "noisy_neighbour", "mixed", "not_clear"];

fn limiter(phase: &Value) -> &str {
    phase["verdict"]["limiter"].as_str().unwrap_or("none")
}

/// Returns true if a limiter is among the right words, which bars separate.
fn is_one_of(limiter: &str, expected: &str) -> bool {
    expected.split('|').any(|word| word == limiter)
}

pub fn confidence(phase: &Value) -> &str {
    phase["verdict"]["confidence"].as_str().unwrap_or("none")
}

/// Asserts that the verdict is the same when the saved document is judged again, without this machine.
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

/// Runs the tests until each row is named by its word, or any of its words.
///
/// # Errors
/// Others disturbed each time.
#[track_caller]
pub fn is_named(run: impl Fn() -> Skye, expected: &[&str]) -> Result<Value, String> {
    settle(|| {
        let document = parse_document(&run().run().did_not_panic().exits(0).stdout);
        let rows = phases(&document);
        assert_eq!(rows.len(), expected.len());
        is_judged_alike_again(&document);
        let disturbed = disturbance(&document);
        let wrong: Vec<_> =
            rows.iter().zip(expected).filter(|(row, expected)| !is_one_of(limiter(row), expected)).collect();
        // Others may take away a confirmation. They never make a wrong name confirmed.
        let is_sure =
            wrong.iter().any(|(row, _)| confidence(row) == "confirmed" && !OF_OTHERS.contains(&limiter(row)));
        let text = |(row, expected): &(&Value, &&str)| {
            let (spec, limiter, confidence) = (&row["spec"], limiter(row), confidence(row));
            format!("{spec}: {limiter} ({confidence}), not {expected}: {:#}", row["verdict"])
        };
        let complaints = wrong.iter().map(text).collect::<Vec<_>>().join("\n");
        let found = match (complaints.is_empty(), is_sure) {
            (true, _) => Answer::Right(document),
            (false, true) => Answer::Inexcusable(complaints),
            (false, false) => Answer::Wrong(complaints),
        };
        (found, disturbed)
    })
}

pub fn run_on(directory: &Path, words: &str) -> impl Fn() -> Skye {
    let (directory, words) = (directory.to_owned(), words.to_owned());
    move || run_in(&directory, &words)
}

/// Returns the words of a run: the words for all tests, and the tests.
pub fn with_tests(common: &str, tests: &[&str]) -> String {
    let tests = tests.iter().map(|test| format!(" --test {test}"));
    common.chars().chain(tests.collect::<String>().chars()).collect()
}

pub fn disk_over(server: rig::FuseSpec) -> rig::DiskSpec {
    disk().over(server)
}

#[test]
fn cached_data_and_metadata_are_cache_bound() {
    xtask::require!(root, loop, ext4);
    let _lock = exclusive_lock();
    let rig = start(disk());
    let cached = "--size 128m --time 1.5 --cache warm --test read:rnd4k:buffered --test read:seq1m:buffered";
    let document = settled!(is_named(run_on(rig.path(), cached), &["page_cache"; 2]));
    assert!(phases(&document).iter().all(|row| row["page_cache_share"].as_f64().unwrap() > 0.99));
    // It is a number, however fast, and is named one of memory.
    let document =
        settled!(is_named(run_on(rig.path(), "--time 1 --test stat:files=1000"), &["metadata_cache"]));
    assert!(phases(&document)[0]["rate"]["ops_per_second"].as_f64().unwrap() > 0.0);
    rig.finish().unwrap();
}

#[test]
fn buffered_writes_to_slow_disk_are_dirty_throttled() {
    xtask::require!(root, loop, ext4, fuse, blkio);
    let _lock = exclusive_lock();
    let slow = Spec::fuse().service_us(500).bytes_per_second(100_000_000);
    // A limit that can be read holds the pages back on their way, and is what to raise.
    let capped = disk().write_bytes_per_second(100_000_000);
    for (disk, limiter) in [(disk().over(slow), "dirty_throttling"), (capped, "io_throttle")] {
        let rig = start(disk.size_mib(1024).dirty_max_bytes(16 << 20));
        settled!(is_named(
            run_on(rig.path(), "--size 200m --time 2 --test write:seq1m:buffered"),
            &[limiter]
        ));
        rig.finish().unwrap();
    }
}

#[test]
fn byte_writes_are_cpu_bound() {
    xtask::require!(root, loop, ext4);
    let _lock = exclusive_lock();
    // Blocks of the usual size, which the C library takes for its buffer.
    let rig = start(disk().mkfs_options("-b 4096"));
    // Without locks, a byte costs the C library about as much as the kernel, and the larger part changes from run to run.
    let words = "--size 128m --time 2 --test byte-write --test putc-write:threaded --test \
                 putc-write:threaded:stdio_buffer=128k";
    let document = settled!(is_named(run_on(rig.path(), words), &["kernel_cpu", "client_cpu", "client_cpu"]));
    // The bytes of each call are seen from outside of the program that made the calls.
    let carried = |row: &Value| row["system"]["calls"]["bytes_per_write_call"].as_f64().unwrap();
    let rows = phases(&document);
    for (row, bytes) in rows.iter().zip([1.0, 4096.0, 131_072.0]) {
        assert!((carried(row) / bytes - 1.0).abs() < 0.01, "{}: {} bytes a call", row["spec"], carried(row));
    }
    rig.finish().unwrap();
}

#[test]
fn run_in_a_cpu_quota_is_quota_bound() {
    xtask::require!(root, loop, ext4, quota);
    let _lock = exclusive_lock();
    let rig = start(disk());
    let quota = start(Spec::quota(0.2));
    let run = || run_in(rig.path(), "--size 64m --time 2 --test byte-write").inside(&quota);
    settled!(settle(|| {
        let document = parse_document(&run().run().did_not_panic().exits(0).stdout);
        let row = &phases(&document)[0];
        // Others may keep it from its fifth of a CPU, but the quota still holds it back.
        assert_eq!((limiter(row), confidence(row)), ("cpu_quota", "confirmed"), "{:#}", row["verdict"]);
        let held = row["budget"]["quota"].as_f64().unwrap();
        let complaint = (held - 0.8).abs() >= 0.1;
        let complaint = complaint.then(|| format!("{held} of the time held back, not 0.8"));
        (answer((), complaint.as_slice()), disturbance(&document))
    }));
    quota.finish().unwrap();
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn busy_cpus_never_lead_to_a_wrong_limiter() {
    xtask::require!(root, loop, ext4, fuse, blkio);
    let _lock = exclusive_lock();
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
    let words = sized("--size 16m --time 1", "--size 64m --time 2");
    let rig = start(disk().read_iops(2000));
    let others = hogs();
    let rows = sized(
        &[("read:rnd4k:q8", "io_throttle"), ("putc-write", "client_cpu")][..],
        &[
            ("read:rnd4k:q8", "io_throttle"),
            ("read:rnd4k", "io_throttle"),
            ("byte-write", "kernel_cpu"),
            ("putc-write", "client_cpu"),
            ("stat:files=1000", "metadata_cache"),
        ],
    );
    let (tests, expected): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    check(rig.path(), &with_tests(words, &tests), &expected);
    others.finish().unwrap();
    rig.finish().unwrap();
    if !sized(false, true) {
        return;
    }
    let rig = start(Spec::fuse().slots(4).service_us(4000));
    let others = hogs();
    let rows = [("read:rnd4k:t16", "server_saturated"), ("read:rnd4k", "remote_latency")];
    let (tests, expected): (Vec<_>, Vec<_>) = rows.iter().copied().unzip();
    check(rig.path(), &with_tests(words, &tests), &expected);
    others.finish().unwrap();
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn single_thread_on_fast_storage_is_cpu_bound() {
    xtask::require!(root, zram, ext4);
    let _lock = exclusive_lock();
    // The device answers within the call: all of the time is the thread's own, in the kernel.
    let memory = super::support::mounts::ZramFs::new("ext4", 320, &["-E", "lazy_itable_init=0"]);
    let document =
        settled!(is_named(run_on(memory.path(), "--size 64m --time 2 --test read:rnd4k"), &["kernel_cpu"]));
    let row = &phases(&document)[0];
    // The gain of more threads was tried, where there are CPUs for them.
    let is_alone_on_it = document["environment"]["cpus"].as_u64() == Some(1);
    let advice = row["verdict"]["advice"].as_str().unwrap();
    assert!(is_alone_on_it || advice.contains("q1t4") && advice.contains("times as high"), "{advice}");
}
