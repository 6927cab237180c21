//! A block device as the target: the program reads it as fast as a file on it.
//!
//! Both sides read the same blocks. A device has parts that its file system has never written, and those are read at
//! another speed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rig::{Disk, Spec};
use serde_json::Value;

use super::program::file_of;
use super::queued::absent;
use super::{Bench, Limit, Row, Rows, Setting, foreign};
use crate::pairs::alternate;

pub(super) const BENCH: Bench =
    Bench { name: "given", measures: "reads of a loop device as the target, against a file on it", run };

const SIZE_MIB: u64 = 1024;
/// Size of the file: most of the device.
const FILE_BYTES: u64 = 800 << 20;
/// Blocks of the file system.
const BLOCK_BYTES: u64 = 4096;
const TESTS: [&str; 2] = ["read:rnd4k:q8", "read:seq1m:q8"];
/// Least rate, relative to the other side.
const SHARE: f64 = 0.95;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(why) = absent().or_else(|| foreign::absent("filefrag", "e2fsprogs")) {
        return rows.push(Row::skipped("device over file", Limit::AtLeast(SHARE), why));
    }
    let program = crate::release("skye")?;
    let scratch = tempfile::Builder::new().prefix("skye-bench.").tempdir_in(crate::target_directory());
    let scratch = scratch.context("make a directory on the disk")?;
    let spec = Spec::disk().size_mib(SIZE_MIB).file_system("ext4").mkfs_options("-b 4096");
    let spec = spec.in_directory(scratch.path());
    let disk = Disk::build(&spec)?;
    let file = disk.path().join("file");
    file_of(&file, FILE_BYTES)?;
    let device = device_below(&disk.path())?;
    let part = longest(&output_of(Command::new("filefrag").args(["-v", "-b4096"]).arg(&file))?)?;
    for test in TESTS {
        let rate = |target: &Path, first: u64| {
            let (from, to) = (first * BLOCK_BYTES, (first + part.blocks) * BLOCK_BYTES);
            rate(&program, target, &format!("{test}:range={from}..{to}"), scratch.path())
        };
        let ratios =
            alternate(setting.pairs, || rate(&device, part.on_device), || rate(&file, part.in_file))?;
        let inverse = ratios.iter().map(|ratio| 1.0 / ratio).collect();
        rows.push(Row::new(format!("{test}: device over file"), "×", ratios, Limit::AtLeast(SHARE)))?;
        rows.push(Row::new(format!("{test}: file over device"), "×", inverse, Limit::AtLeast(SHARE)))?;
    }
    Ok(())
}

/// Returns the device that is mounted at a place.
fn device_below(place: &Path) -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
    let is_mounted_here = |line: &&str| line.split(' ').nth(1).map(Path::new) == Some(place);
    let line = mounts.lines().find(is_mounted_here).context("the rig is not mounted")?;
    Ok(line.split(' ').next().unwrap_or_default().into())
}

/// Blocks of a file that follow each other on its device.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    in_file: u64,
    on_device: u64,
    blocks: u64,
}

/// Returns the longest part in the table of `filefrag -v`: "0:  0..  32767:  34816..  67583:  32768:".
fn longest(table: &str) -> Result<Part> {
    let part = |line: &str| {
        let numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        let numbers: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        let is_row = line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        match numbers[..] {
            [_, in_file, _, on_device, _, blocks, ..] if is_row => Some(Part { in_file, on_device, blocks }),
            _ => None,
        }
    };
    table.lines().filter_map(part).max_by_key(|part| part.blocks).context("the file has no blocks")
}

/// Runs a command, and returns what it prints.
fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Operations per second of a test on that target.
fn rate(program: &Path, target: &Path, test: &str, home: &Path) -> Result<f64> {
    let options = ["--time", "1", "--no-probe", "--no-save", "--allow", "busy", "--json", "-"];
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg(target)
        .args(["--test", test])
        .args(options)
        .env("HOME", home)
        .stdin(Stdio::null());
    let document: Value = serde_json::from_str(&output_of(&mut command)?).context("read its document")?;
    document["phases"][0]["rate"]["ops_per_second"].as_f64().context("it has no rate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_extent_of_a_file_is_found() {
        let table = "Filesystem type is: ef53\nFile size of /t/file is 838860800 (204800 blocks of 4096 bytes)\n \
                     ext:     logical_offset:        physical_offset: length:   expected: flags:\n   \
                     0:        0..   30719:      34816..     65535:  30720:            \n   \
                     1:    30720..   63487:      98304..    131071:  32768:      65536: last,eof\n\
                     /t/file: 2 extents found\n";
        assert_eq!(longest(table).unwrap(), Part { in_file: 30_720, on_device: 98_304, blocks: 32_768 });
        assert!(longest("0 extents found").is_err());
    }
}
