//! The static program against the dynamic one, in alternating pairs: each test is one run of `skye`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::pairs::{PAIRS_MIN, alternate, median};

/// Names of tests, and their words. They are in memory, where nothing but the program has a cost.
const TESTS: &[(&str, &str)] = &[
    ("null, depth 32", "read:rnd4k:q32:engine=null"),
    ("null, depth 1", "read:rnd4k:q1:engine=null"),
    ("ring, depth 32, no requests", "read:rnd4k:q32:engine=nop"),
    ("ring, depth 32, a file in memory", "read:rnd4k:q32:engine=uring"),
    ("cache, 1 MiB", "read:seq1m:engine=sync"),
    ("bytes, write", "byte-write"),
    ("bytes, putc", "putc-write"),
    ("bytes, getc", "getc-read"),
    ("bytes, getc_unlocked", "getc-read:unlocked"),
];

/// Prints the speed of the static program relative to the dynamic one.
///
/// # Errors
/// A program fails.
pub(super) fn print(fixed: &Path, dynamic: &Path) -> Result<()> {
    println!("\nspeed of the static program, dynamic program = 1; {PAIRS_MIN} alternating pairs\n");
    println!("{:<34} {:>7}   interval of 95 %", "test", "median");
    for (name, test) in TESTS {
        let ratios = alternate(PAIRS_MIN, || rate(fixed, test), || rate(dynamic, test))?;
        let found = median(&ratios).context("values")?;
        println!("{name:<34} {:>7.3}   {:.3} … {:.3}", found.value, found.low, found.high);
    }
    Ok(())
}

/// Returns the operations per second of a short run.
fn rate(program: &Path, test: &str) -> Result<f64> {
    let scratch =
        tempfile::Builder::new().prefix("skye-dist.").tempdir_in("/dev/shm").context("make a directory")?;
    let (bench, document) = (scratch.path().join("bench"), scratch.path().join("run.json"));
    fs::create_dir(&bench).context("make a directory")?;
    let mut command = Command::new(program);
    command.arg("run").arg(&bench).args(["--test", test, "--size", "64m", "--time", "0.3"]);
    command.args(["--allow", "low-space,busy", "--json"]).arg(&document).env("HOME", scratch.path());
    let output = command.env_remove("XDG_STATE_HOME").output().with_context(|| format!("run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    let text = fs::read_to_string(&document).context("read the document")?;
    let run: Value = serde_json::from_str(&text).context("read the document")?;
    let rate = &run["phases"][0]["rate"]["ops_per_second"];
    rate.as_f64().with_context(|| format!("the document of {test} has no rate"))
}
