//! The program against built-in limits: its answers must be those limits.
//!
//! A rate is compared with a limit of the rig, never with the speed of this machine. If the run itself has recorded a
//! disturbance by other processes, a wrong answer is measured again ([`quiet`]). One test runs at a time, and nothing
//! else beside it, so these tests are a separate program. Those in [`waiting`] run three at a time, by themselves.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

mod clients;
mod exam;
mod limiters;
mod quiet;
mod selftest;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports)]
mod support;
mod waiting;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rig::{DiskSpec, Rig, Spec};
use serde_json::Value;

use quiet::{answer, disturbance, settle, settled};

use support::program::{Skye, parse_document, rig_program, skye};

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test runs.
fn exclusive_lock() -> MutexGuard<'static, ()> {
    // A failed test has spoilt nothing but itself.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(spec: impl Into<Spec>) -> Rig {
    Rig::start(&rig_program(), spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns an ext4 on a device in memory, for limits to be added.
fn disk() -> DiskSpec {
    Spec::disk().file_system("ext4").size_mib(320).mkfs_options("-E lazy_itable_init=0,lazy_journal_init=0")
}

fn run_in(directory: &Path, words: &str) -> Skye {
    skye().arg("run").arg(directory).words("--json - --allow low-space,busy").words(words)
}

/// Returns the document of the tests alone: servers would count experiments after them, too.
fn document_of(directory: &Path, words: &str) -> Value {
    let ran = run_in(directory, words).words("--no-probe").run().did_not_panic().exits(0);
    parse_document(&ran.stdout)
}

/// Runs until there is no complaint about any phase.
///
/// # Errors
/// Others disturbed each time.
#[track_caller]
fn check_phases(
    mut run: impl FnMut() -> Value,
    mut complaint: impl FnMut(&Value) -> Option<String>,
) -> Result<(), String> {
    settle(|| {
        let document = run();
        let complaints: Vec<_> = phases(&document).iter().filter_map(&mut complaint).collect();
        (answer((), &complaints), disturbance(&document))
    })
}

fn phases(document: &Value) -> &Vec<Value> {
    document["phases"].as_array().unwrap()
}

fn rate(phase: &Value) -> f64 {
    phase["rate"]["ops_per_second"].as_f64().unwrap_or(f64::NAN)
}

fn codes(phase: &Value) -> Vec<&str> {
    phase["notes"].as_array().unwrap().iter().map(|note| note["code"].as_str().unwrap()).collect()
}

fn reasons(phase: &Value) -> Vec<&str> {
    let reasons = phase["verdict"]["trust_reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason.as_str().unwrap()).collect()
}

/// A complaint if `is` differs from `should` by more than `share` of it.
fn off(what: &str, is: f64, should: f64, share: f64) -> Option<String> {
    let is_near = (is - should).abs() <= share * should;
    (!is_near).then(|| format!("{what} is {is:.1}, not {should:.1} ± {:.1} %", share * 100.0))
}

/// Asserts that no test of a run has that note.
#[track_caller]
fn has_no(document: &Value, code: &str) {
    for phase in phases(document) {
        assert!(!codes(phase).contains(&code), "{code} in {:?}", codes(phase));
    }
}

#[test]
#[ignore = "long"]
fn neighbour_io_is_reported_as_foreign_io() {
    xtask::require!(root, loop, ext4);
    let _lock = exclusive_lock();
    let rig = start(disk());
    let words = "--size 64m --time 1.2 --test read:rnd4k:q4:rate=2000 --test read:rnd4k:t4:rate=2000";
    has_no(&document_of(rig.path(), words), "foreign_io");
    let neighbour = start(Spec::neighbour(rig.path(), 1000));
    let busy = document_of(rig.path(), words);
    neighbour.finish().unwrap();
    for phase in phases(&busy) {
        assert!(reasons(phase).contains(&"foreign_io"), "{:?}", reasons(phase));
        let share = phase["device"]["foreign_share"].as_f64().unwrap();
        assert!((0.2..0.4).contains(&share), "{share}, not a third");
    }
    rig.finish().unwrap();
}

#[test]
fn cpu_hogs_are_reported_as_contention() {
    xtask::require!(root, loop, ext4);
    let _lock = exclusive_lock();
    let rig = start(disk());
    let hogs = start(Spec::hogs(2 * std::thread::available_parallelism().unwrap().get() as u32));
    let busy = document_of(rig.path(), "--size 16m --time 1 --test read:rnd4k");
    hogs.finish().unwrap();
    let phase = &phases(&busy)[0];
    assert!(reasons(phase).contains(&"cpu_contention"), "{:?}", reasons(phase));
    rig.finish().unwrap();
}
