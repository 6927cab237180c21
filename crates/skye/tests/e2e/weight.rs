//! Limits of what users wait for when they build skye, and of what they load. A change that goes beyond one is a decision.

use std::process::Command;

/// Crates in the lock file.
const CRATES_MAX: usize = 200;
/// Loops on data that are compiled: each is a copy of the whole loop.
const DATA_LOOPS_MAX: usize = 32;
/// Code of the crate with the loops, in the build of the tests.
const ENGINE_KIB_MAX: u64 = 1200;

/// Sizes and names of the program's functions.
fn functions() -> Vec<(u64, String)> {
    let listed = Command::new("nm")
        .args(["--print-size", "--defined-only", "--demangle", env!("CARGO_BIN_EXE_skye")])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let text = String::from_utf8_lossy(&listed.stdout);
    let function = |line: &str| {
        // Address, size, kind, name.
        let mut words = line.splitn(4, ' ').skip(1);
        let (size, kind, name) = (words.next()?, words.next()?, words.next()?);
        Some((u64::from_str_radix(size, 16).ok()?, name.to_owned()))
            .filter(|_| matches!(kind, "t" | "T" | "W"))
    };
    text.lines().filter_map(function).collect()
}

#[test]
fn cargo_lock_has_no_more_crates_than_allowed() {
    let lock = include_str!("../../../../Cargo.lock");
    let crates = lock.lines().filter(|line| *line == "[[package]]").count();
    assert!(crates <= CRATES_MAX, "{crates} crates");
}

#[test]
fn number_and_size_of_engine_loops_are_bounded() {
    let functions = functions();
    let is_loop = |name: &str| name.starts_with("engine::worker::Worker<") && name.ends_with("::run");
    let loops = functions.iter().filter(|(_, name)| is_loop(name)).count();
    assert!(loops > 0 && loops <= DATA_LOOPS_MAX, "{loops} loops on data");
    let is_engine = |name: &str| name.trim_start_matches('<').starts_with("engine::");
    let bytes: u64 = functions.iter().filter(|(_, name)| is_engine(name)).map(|(bytes, _)| bytes).sum();
    assert!(bytes > 0 && bytes / 1024 <= ENGINE_KIB_MAX, "{} KiB of code in engine", bytes / 1024);
}
