//! The cost of watching where threads sleep, and the activity around a test.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Bench, Limit, Row, Rows, Setting, program};
use crate::pairs::alternate;

pub(super) const BENCH: Bench = Bench {
    name: "observing",
    measures: "what looking at threads and at the machine takes from the fastest tests, and from a CPU",
    run,
};

/// The fastest tests. They have as many threads as CPUs, so that any observer takes time from them.
const TESTS: [(&str, &str); 2] =
    [("loop without I/O", "read:rnd4k:engine=null"), ("look-ups in memory", "stat")];
/// Largest share of a rate that may be lost.
const LOSS: f64 = 0.01;
/// Largest share of one CPU that observing may take.
const CPU_SHARE: f64 = 0.02;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let binary = crate::release("skye")?;
    let scratch = program::scratch_in_memory()?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for (what, test) in TESTS {
        let test = format!("{test}:t{cpus}");
        let runs = RefCell::new(Vec::new());
        let measure = |more: &[&str]| -> Result<f64> {
            let result = measure(&binary, scratch.path(), &test, more)?;
            runs.borrow_mut().push(result);
            Ok(result.rate)
        };
        let rates = alternate(setting.pairs, || measure(&[]), || measure(&["--unobserved"]))?;
        // A rate varies by a tenth from process to process; the time that its threads wait for a CPU does not.
        let mut on_cpu = Vec::new();
        let mut shares = Vec::new();
        // The first pair was discarded. In the next one, the second half is observed.
        for (number, pair) in runs.borrow().chunks(2).enumerate().skip(1) {
            let (observed, unobserved) =
                if number % 2 == 0 { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
            on_cpu.push(observed.on_cpu / unobserved.on_cpu);
            shares.push(observed.telemetry_cpu_share);
        }
        let lost = |ratios: Vec<f64>| ratios.into_iter().map(|ratio| 1.0 - ratio).collect();
        let row = |of_it: &str, values, limit| Row::new(format!("{what}: {of_it}"), "", values, limit);
        rows.push(row("share of the rate lost", lost(rates), Limit::AtMost(LOSS)))?;
        rows.push(row("share of the time on a CPU lost", lost(on_cpu), Limit::AtMost(LOSS)))?;
        rows.push(row("CPU that observing takes, of one", shares, Limit::AtMost(CPU_SHARE)))?;
    }
    Ok(())
}

/// Result of one run, observed or not.
#[derive(Debug, Clone, Copy)]
struct RunResult {
    rate: f64,
    /// Share of the time in which its threads did not wait for a CPU.
    on_cpu: f64,
    telemetry_cpu_share: f64,
}

fn measure(binary: &Path, directory: &Path, test: &str, more: &[&str]) -> Result<RunResult> {
    let file = directory.join("run.json");
    let json = file.to_string_lossy();
    let words = ["--size", "64m", "--time", "1.5", "--no-probe", "--quiet", "--allow", "low-space,busy"];
    let arguments = [&words[..], &["--json", &json, "--test", test], more].concat();
    let ended = program::run(binary, directory, &arguments).output().context("start the program")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let document: Value = serde_json::from_slice(&fs::read(&file)?)?;
    let phase = &document["phases"][0];
    let waited = phase["budget"]["run_queue"].as_f64().context("the kernel hides who waits for a CPU")?;
    Ok(RunResult {
        rate: phase["rate"]["overall_ops_per_second"].as_f64().context("it has no rate")?,
        on_cpu: 1.0 - waited,
        telemetry_cpu_share: document["tool"]["telemetry_cpu_share"].as_f64().context("it has no share")?,
    })
}
