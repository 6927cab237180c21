//! What it costs to look at where threads sleep and at what goes on around a test.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Bench, Limit, Row, Setting, program};
use crate::pairs::alternate;

pub(super) const BENCH: Bench = Bench {
    name: "observing",
    measures: "what looking at threads and at the machine takes from the fastest tests, and from a CPU",
    run,
};

/// The fastest that there is: as many threads as CPUs, so that whoever looks takes the time from them.
const TESTS: [(&str, &str); 2] =
    [("loop without I/O", "read:rnd4k:q32:engine=null"), ("look-ups in memory", "stat:files=20k")];
/// Most of a rate that may be lost.
const LOSS: f64 = 0.01;
/// Most of one CPU that observing may take.
const CPU_SHARE: f64 = 0.02;

fn run(setting: &Setting) -> Result<Vec<Row>> {
    let binary = program::release()?;
    let scratch = program::scratch_in_memory()?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut rows = Vec::new();
    let mut shares = Vec::new();
    for (what, test) in TESTS {
        let test = match test.split_once(":q32") {
            Some((before, after)) => format!("{before}:q32t{cpus}{after}"),
            None => test.replacen("stat", &format!("stat:t{cpus}"), 1),
        };
        let file = scratch.path().join("run.json");
        let mut measure = |more: &[&str]| -> Result<f64> {
            let json = file.to_string_lossy();
            let words =
                ["--size", "64m", "--time", "2", "--no-probe", "--quiet", "--allow", "low-space,busy"];
            let arguments = [&words[..], &["--json", &json, "--test", &test], more].concat();
            let ended =
                program::run(&binary, scratch.path(), &arguments).output().context("start the program")?;
            ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
            let document: Value = serde_json::from_slice(&fs::read(&file)?)?;
            if more.is_empty() {
                shares.extend(document["tool"]["telemetry_cpu_share"].as_f64());
            }
            document["phases"][0]["rate"]["whole_ops_per_second"].as_f64().context("it has no rate")
        };
        let shares_cell = std::cell::RefCell::new(&mut measure);
        let ratios = alternate(
            setting.pairs,
            || (shares_cell.borrow_mut())(&[]),
            || (shares_cell.borrow_mut())(&["--unobserved"]),
        )?;
        let lost = ratios.into_iter().map(|ratio| 1.0 - ratio).collect();
        rows.push(Row::new(format!("{what}: share of the rate lost"), "", lost, Limit::AtMost(LOSS)));
    }
    rows.push(Row::new("CPU that observing takes, of one", "", shares, Limit::AtMost(CPU_SHARE)));
    Ok(rows)
}
