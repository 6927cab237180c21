//! A thousand clients of one coordinator: real ones of this machine, and simulated ones that cost it little.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::memory::run_to_its_end;
use super::{Bench, Limit, Row, Rows, Setting, program, waits};

pub(super) const BENCH: Bench = Bench {
    name: "clients",
    measures: "a thousand clients: hello to first test, memory of the coordinator, start skew; waits for lost clients",
    run,
};

/// Clients of each run.
const CLIENTS: &str = "local*1000";
/// Most measurements: each takes a quarter of a minute.
const MEASUREMENTS_MAX: usize = 3;
/// Device of each simulated client: 50 operations a second.
const DEVICE: &str = "name = \"disk\"\nsize = \"10g\"\nparallelism = 1\nlatency = { mean_us = 20_000 }\n";

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let binary = crate::release("skye")?;
    let scratch = program::scratch_in_memory()?;
    let measurements = setting.pairs.min(MEASUREMENTS_MAX);
    let row = |name: &str, unit, values, limit| Row::new(name, unit, values, limit);
    // A load that two CPUs carry: clients that only compute would measure the scheduler.
    let load = ["--engine", "null", "--test", "read:rnd4k:rate=20", "--time", "2"];
    let real = Figures::measured(measurements, &binary, scratch.path(), &load)?;
    rows.extend([
        row("1,000 local clients, hello to first test", "s", real.begin_s, Limit::AtMost(10.0)),
        row("1,000 local clients, VmHWM of the coordinator", "MiB", real.peak_mib, Limit::AtMost(200.0)),
        row("1,000 local clients, start skew of 99 %", "ms", real.skew_ms, Limit::None),
    ])?;
    let device = scratch.path().join("disk.toml");
    fs::write(&device, DEVICE).context("describe a device")?;
    let device = format!("sim:{}", device.display());
    let load = ["--test", "read:rnd4k", "--time", "300"];
    let simulated = Figures::measured(measurements, &binary, Path::new(&device), &load)?;
    rows.extend([
        row("1,000 simulated clients, hello to first test", "s", simulated.begin_s, Limit::AtMost(10.0)),
        row("1,000 simulated clients of 5 min, VmHWM", "MiB", simulated.peak_mib, Limit::AtMost(200.0)),
    ])?;
    waits::measure(&binary, setting, rows)
}

/// Figures of runs, one value for each.
#[derive(Default)]
struct Figures {
    begin_s: Vec<f64>,
    peak_mib: Vec<f64>,
    skew_ms: Vec<f64>,
}

impl Figures {
    fn measured(measurements: usize, binary: &Path, target: &Path, arguments: &[&str]) -> Result<Self> {
        let mut figures = Self::default();
        (0..measurements).try_for_each(|_| figures.measure(binary, target, arguments))?;
        Ok(figures)
    }

    fn measure(&mut self, binary: &Path, target: &Path, arguments: &[&str]) -> Result<()> {
        let directory = tempfile::tempdir().context("make a directory for results")?;
        let results = directory.path().join("results.json");
        let mut command = program::run(binary, target, arguments);
        command.args(["--hosts", CLIENTS, "--size", "1m", "--no-save", "--quiet", "--json"]).arg(&results);
        command.args(["--allow", "low-space,busy,shared-directory"]);
        let (status, peak_mib) = run_to_its_end(command)?;
        ensure!(status.success(), "the run ended with {status}");
        let text = fs::read(&results).context("read the results")?;
        let document: Value = serde_json::from_slice(&text).context("understand the results")?;
        let phase = &document["phases"][0];
        let begin_ns = phase["start_ns"].as_f64().context("the document has no start")?;
        let hosts = phase["hosts"].as_array().context("the document has no clients")?;
        let mut late_ns: Vec<_> = hosts.iter().filter_map(|host| host["start_delay_ns"].as_f64()).collect();
        late_ns.sort_by(f64::total_cmp);
        self.begin_s.push(begin_ns / 1e9);
        self.peak_mib.push(peak_mib);
        self.skew_ms.extend(late_ns.get(late_ns.len() * 99 / 100).map(|late_ns| late_ns / 1e6));
        Ok(())
    }
}
