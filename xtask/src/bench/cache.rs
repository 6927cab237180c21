//! Speed of the loop on data where memory is the limit: 1 MiB reads from the page cache.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::clock::Tsc;
use engine::pacing::ClosedLoop;
use engine::sync::SyncEngine;
use engine::verb::Read;
use loops::Work;

use super::fio::{self, Job};
use super::foreign;
use super::looped::through_loop;
use super::pinned::Pinned;
use super::{Bench, Limit, Row, Rows, Setting, program};
use crate::pairs::alternate;

pub(super) const BENCH: Bench = Bench {
    name: "cache",
    measures: "1 MiB reads from the page cache: our rate against fio's and dd's",
    run,
};

/// Size of the file: more than any cache of a processor.
const SIZE_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: u64 = 1 << 20;
/// Passes against fio, because its clock counts milliseconds.
const PASSES: u64 = 4;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let scratch = program::scratch_in_memory()?;
    let path = scratch.path().join("file");
    let files = program::file_of(&path, SIZE_BYTES)?;
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    let limit = Limit::Reaches(1.0);

    let what = "1 MiB sequential reads, ours over fio psync";
    rows.push(match fio::absent() {
        Some(why) => Row::skipped(what, limit, why),
        None => {
            let job = job(&path, &pinned);
            let measure_skye = || measure_skye(&files, PASSES, tsc, &pinned);
            let values = alternate(setting.pairs, measure_skye, || by_fio(&job, &pinned))?;
            Row::new(what, "×", values, limit).noted(job.command_line())
        }
    })?;
    let what = "1 MiB sequential reads, ours over dd";
    rows.push(match foreign::absent("dd", "coreutils") {
        Some(why) => Row::skipped(what, limit, why),
        None => {
            let dd = dd(&path, &pinned);
            let values =
                alternate(setting.pairs, || measure_skye(&files, 1, tsc, &pinned), || by_dd(&dd, &pinned))?;
            Row::new(what, "×", values, limit).noted(foreign::command_line(&dd))
        }
    })
}

/// Bytes per second, over the time from start to end.
fn measure_skye(files: &Arc<[OwnedFd]>, passes: u64, tsc: Option<Tsc>, pinned: &Pinned) -> Result<f64> {
    let engine = || Ok(SyncEngine::new(Arc::clone(files), BLOCK_BYTES as usize, None));
    let blocks = SIZE_BYTES / BLOCK_BYTES;
    let work =
        Work { block_bytes: BLOCK_BYTES, blocks, is_random: false, ops: blocks * passes, time_ns: u64::MAX };
    let done = through_loop(engine, tsc, ClosedLoop, Read, work, pinned)?;
    ensure!(done.counted.ops == work.ops, "{} reads counted of {}", done.counted.ops, work.ops);
    Ok(done.ops_per_second() * BLOCK_BYTES as f64)
}

fn job(path: &Path, pinned: &Pinned) -> Job {
    let file = format!("--filename={}", path.display());
    let (size, ios) = (format!("--size={SIZE_BYTES}"), format!("--io_size={}", SIZE_BYTES * PASSES));
    let what = ["--ioengine=psync", &file, "--rw=read", "--bs=1m", &size, &ios];
    // By default, fio drops the file from the cache first.
    Job::new(&[&what[..], &["--invalidate=0"]].concat(), pinned)
}

fn by_fio(job: &Job, pinned: &Pinned) -> Result<f64> {
    let answer = job.run(pinned)?;
    let blocks = SIZE_BYTES / BLOCK_BYTES * PASSES;
    ensure!(answer.ios == blocks, "fio read {} blocks of {blocks}", answer.ios);
    Ok(answer.iops * BLOCK_BYTES as f64)
}

fn dd(path: &Path, pinned: &Pinned) -> Vec<String> {
    let (cpu, file) = (pinned.cpu().to_string(), format!("if={}", path.display()));
    ["taskset", "-c", &cpu, "dd", &file, "of=/dev/null", "bs=1M"].map(String::from).to_vec()
}

fn by_dd(dd: &[String], pinned: &Pinned) -> Result<f64> {
    let (_, stderr) = foreign::run(dd, pinned)?;
    let (bytes, seconds) = copied(&stderr).with_context(|| format!("understand what dd says: {stderr}"))?;
    ensure!(bytes == SIZE_BYTES, "dd read {bytes} bytes of {SIZE_BYTES}");
    Ok(bytes as f64 / seconds)
}

/// Parses "1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.12345 s, 8.7 GB/s".
fn copied(text: &str) -> Option<(u64, f64)> {
    let line = text.lines().find(|line| line.contains(" copied, "))?;
    let (bytes, rest) = line.split_once(" bytes ")?;
    let (_, rest) = rest.split_once(" copied, ")?;
    let (seconds, _) = rest.split_once(" s,")?;
    Some((bytes.parse().ok()?, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dd_output_is_parsed() {
        let text = "1024+0 records in\n1024+0 records out\n\
                    1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.125 s, 8.6 GB/s\n";
        assert_eq!(copied(text), Some((1 << 30, 0.125)));
        assert_eq!(copied("dd: failed to open 'x'"), None);
    }
}
