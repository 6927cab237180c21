//! A block device as the target: the program reads it as fast as a file on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rig::{Disk, Spec};
use serde_json::Value;

use super::program::file_of;
use super::queued::absent;
use super::{Bench, Limit, Row, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench =
    Bench { name: "given", measures: "reads of a loop device as the target, against a file on it", run };

const SIZE_MIB: u64 = 1024;
/// Size of the file: nearly all of the device, as parts that were never written are read at another speed.
const FILE_BYTES: u64 = 930 << 20;
const TESTS: [&str; 2] = ["read:rnd4k:q8", "read:seq1m:q8"];
/// Least rate, relative to the other side.
const SHARE: f64 = 0.95;

fn run(setting: &Setting) -> Result<Vec<Row>> {
    if let Some(why) = absent() {
        return Ok(vec![Row::skipped("device over file", Limit::AtLeast(SHARE), why)]);
    }
    let program = crate::release("skye")?;
    let scratch = tempfile::Builder::new().prefix("skye-bench.").tempdir_in(crate::target_directory());
    let scratch = scratch.context("make a directory on the disk")?;
    let spec = Spec::disk().size_mib(SIZE_MIB).file_system("ext4").in_directory(scratch.path());
    let disk = Disk::build(&spec)?;
    let file = disk.path().join("file");
    file_of(&file, FILE_BYTES)?;
    let device = device_below(&disk.path())?;
    let mut rows = Vec::new();
    for test in TESTS {
        let rate = |target: &Path| rate(&program, target, test, scratch.path());
        let ratios = alternate(setting.pairs, || rate(&device), || rate(&file))?;
        let inverse = ratios.iter().map(|ratio| 1.0 / ratio).collect();
        rows.push(Row::new(format!("{test}: device over file"), "×", ratios, Limit::AtLeast(SHARE)));
        rows.push(Row::new(format!("{test}: file over device"), "×", inverse, Limit::AtLeast(SHARE)));
    }
    Ok(rows)
}

/// Returns the device that is mounted at a place.
fn device_below(place: &Path) -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
    let is_there = |line: &&str| line.split(' ').nth(1).map(Path::new) == Some(place);
    let line = mounts.lines().find(is_there).context("the rig is not mounted")?;
    Ok(line.split(' ').next().unwrap_or_default().into())
}

/// Operations per second of a test on that target.
fn rate(program: &Path, target: &Path, test: &str, home: &Path) -> Result<f64> {
    let mut command = Command::new(program);
    command.arg("run").arg(target).args([
        "--test",
        test,
        "--time",
        "2",
        "--no-probe",
        "--no-save",
        "--json",
        "-",
    ]);
    command.args(["--allow", "busy"]).env("HOME", home).stdin(Stdio::null());
    let output = command.output().context("run the program")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).context("read its document")?;
    document["phases"][0]["rate"]["ops_per_second"].as_f64().context("it has no rate")
}
