//! Time and memory that the page of a run takes.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use model::Run;
use model::json::{FromJson, ToJson};
use model::run::Interval;

use super::memory::high_water_kib;
use super::{Bench, Limit, Row, Rows, Setting, program};

pub(super) const BENCH: Bench =
    Bench { name: "report", measures: "time and memory of the page of a run of eleven tests", run };

/// Tests of the standard preset, whose results people show each other.
const TESTS: [&str; 11] = [
    "write:seq1m:q8",
    "read:seq1m:q8",
    "rewrite:seq128k",
    "read:rnd4k:q32t4",
    "write:rnd4k:q32t4",
    "read:rnd4k:q1",
    "fsync:rnd4k",
    "create:t4",
    "stat:t4",
    "readdir:t4",
    "unlink:t4",
];
/// Intervals of a test of 20 s, and the most that a document ever has.
const INTERVALS: u64 = 200;
const INTERVALS_MAX: u64 = model::run::INTERVALS_MAX as u64;
/// Buckets of latencies in each interval: about as many as tests on disks fill in a tenth of a second.
const BUCKETS: u64 = 80;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let binary = crate::release("skye")?;
    let scratch = program::scratch_in_memory()?;
    let measured = scratch.path().join("measured.json");
    let mut arguments: Vec<&str> = TESTS.into_iter().flat_map(|test| ["--test", test]).collect();
    let path = measured.to_str().context("the name of a temporary directory is no text")?;
    arguments.extend([
        "--size",
        "8m",
        "--time",
        "0.2",
        "--allow",
        "low-space,busy",
        "--quiet",
        "--json",
        path,
    ]);
    let status = program::run(&binary, scratch.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("start the program")?;
    ensure!(status.success(), "the run ended with {status}");
    let text = fs::read_to_string(&measured).context("read the run")?;
    let run = Run::from_json(&text).context("understand the run")?;
    for (intervals, ms_max, mib_max) in
        [(INTERVALS, 200.0, Limit::AtMost(50.0)), (INTERVALS_MAX, 1000.0, Limit::None)]
    {
        let document = scratch.path().join(format!("{intervals}.json"));
        fs::write(&document, with_long_series(run.clone(), intervals).to_json()).context("write the run")?;
        let what = format!("page of {intervals} intervals a test");
        let times =
            (0..=setting.pairs).map(|_| milliseconds(&binary, &document)).collect::<Result<Vec<_>>>()?;
        // The first measurement loads program and document.
        rows.push(Row::new(what.clone(), "ms", times[1..].to_vec(), Limit::AtMost(ms_max)))?;
        let peak = peak_mib(&binary, &document)?;
        rows.push(Row::new(format!("VmHWM, {what}"), "MiB", vec![peak], mib_max))?;
    }
    Ok(())
}

fn page(binary: &Path, document: &Path, to: &Path) -> Command {
    let mut command = Command::new(binary);
    command.arg("report").arg(document).arg("--html").arg(to).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn milliseconds(binary: &Path, document: &Path) -> Result<f64> {
    let to = document.with_extension("html");
    let start = Instant::now();
    let status = page(binary, document, &to).stdout(Stdio::null()).status().context("start the program")?;
    let elapsed = start.elapsed();
    ensure!(status.success(), "the report ended with {status}");
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// Returns the peak memory of the program, in MiB. A page is longer than a pipe holds. When its first byte is written,
/// the program has done all its work and waits for its reader.
fn peak_mib(binary: &Path, document: &Path) -> Result<f64> {
    let mut child =
        page(binary, document, Path::new("-")).stdout(Stdio::piped()).spawn().context("start the program")?;
    let mut stdout = child.stdout.take().context("its output is not piped")?;
    let mut first = [0_u8; 1];
    stdout.read_exact(&mut first).context("read its first byte")?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).context("read its status")?;
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).context("read the rest")?;
    ensure!(child.wait().context("wait for the program")?.success(), "the report failed");
    Ok(high_water_kib(&status).context("find its memory")? as f64 / 1024.0)
}

/// Lengthens the run: each test has `count` intervals, none of them like another.
fn with_long_series(mut run: Run, count: u64) -> Run {
    for (test, phase) in (0..).zip(run.phases.iter_mut()) {
        let Some(first) = phase.figures.intervals.first().cloned() else { continue };
        let wave = |at: u64| (at * 7919 + test * 104_729) % 1000;
        let interval = |at: u64| {
            let mut interval =
                Interval { start_ns: at * 100_000_000, length_ns: 100_000_000, ..first.clone() };
            interval.ops = 9_000 + wave(at);
            interval.bytes = interval.ops * phase.workload.block_bytes.unwrap_or_default();
            interval.histogram = (0..BUCKETS)
                .map(|bucket| {
                    let upper_ns = 1e5 * 1.02f64.powi((bucket * 2 + wave(at) % 2) as i32);
                    (upper_ns as u64, 1 + 4000 / (bucket + 1 + wave(at + bucket) % 7))
                })
                .collect();
            if let Some(frame) = interval.frame.as_mut() {
                frame.cpu.kernel_ns += wave(at) * 100_000;
            }
            interval
        };
        phase.figures.intervals = (0..count).map(interval).collect();
        phase.counts.elapsed_ns = count * 100_000_000;
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_match_the_standard_preset() {
        let preset = fs::read_to_string(crate::root().join("presets/standard.toml")).unwrap();
        let preset: toml::Table = preset.parse().unwrap();
        let tests: Vec<_> =
            preset["tests"].as_array().unwrap().iter().map(|test| test.as_str().unwrap()).collect();
        assert_eq!(tests, TESTS);
    }
}
