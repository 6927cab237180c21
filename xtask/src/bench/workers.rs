//! Slowdown of workers by each other: several in one process against as many processes of one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::zram_file::ZramFile;
use super::{Bench, Limit, Row, Rows, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench = Bench {
    name: "workers",
    measures: "workers in one process against as many processes of one, and against one alone",
    run,
};

/// Least rate of workers, relative to that of processes.
const LIMIT: Limit = Limit::AtLeast(0.97);
/// Most workers: more would need more memory devices than a small machine has room for.
const WORKERS_MAX: usize = 8;
const SIZE_BYTES: u64 = 512 << 20;
/// Operations of each loop, which take some half second.
const NULL_OPS: u64 = 40 << 20;
const RING_OPS: u64 = 512 << 10;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    if workers < 2 {
        return rows.push(Row::skipped("workers over processes", LIMIT, "this machine has one CPU"));
    }
    let binary = crate::release("loops")?;
    compare_workers(&binary, "null-32", NULL_OPS, None, workers, setting, rows)?;
    match engine::uring::refusal() {
        Some(why) => rows.push(Row::skipped("rings over processes", LIMIT, format!("io_uring: {why}"))),
        None => {
            let file = ZramFile::new(SIZE_BYTES)?;
            compare_workers(&binary, "ring-32", RING_OPS, Some(&file.path()), workers, setting, rows)
        }
    }
}

fn compare_workers(
    binary: &Path,
    name: &str,
    ops: u64,
    file: Option<&Path>,
    workers: usize,
    setting: &Setting,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let start = |threads: usize| {
        let mut command = Command::new(binary);
        command.args(["--threads", &threads.to_string(), name, &ops.to_string()]).args(file);
        command.stdin(Stdio::null()).spawn().with_context(|| format!("run {}", binary.display()))
    };
    // Operations per second, all together.
    let rate = |processes: usize, threads: usize| {
        let started = Instant::now();
        let children: Result<Vec<Child>> = (0..processes).map(|_| start(threads)).collect();
        for mut child in children? {
            ensure!(child.wait().context("wait for the loop")?.success(), "the loop {name} failed");
        }
        Ok(ops as f64 * (processes * threads) as f64 / started.elapsed().as_secs_f64())
    };
    let over_processes = alternate(setting.pairs, || rate(1, workers), || rate(workers, 1))?;
    let what = format!("{name}, {workers} workers over processes");
    rows.push(Row::new(what, "×", over_processes, LIMIT))?;
    let over_one = alternate(setting.pairs, || rate(1, workers), || rate(1, 1))?;
    rows.push(Row::new(format!("{name}, {workers} workers over one"), "×", over_one, Limit::None))
}
