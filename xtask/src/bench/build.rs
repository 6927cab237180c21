//! The cost of building the program from nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "build",
    measures: "time of a clean release build, crates in it, size of the binary and of its code",
    run,
};

/// Most crates in the program, including itself and those that only its build needs.
const CRATES_MAX: f64 = 130.0;

fn run(_: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let target = tempfile::Builder::new().prefix("skye-bench.").tempdir().context("create a directory")?;
    let (before, start) = (children_cpu_seconds()?, Instant::now());
    let status = Command::new(crate::cargo())
        .args(["build", "--release", "--quiet", "--package", "skye"])
        .current_dir(crate::root())
        .env("CARGO_TARGET_DIR", target.path())
        .status()
        .context("run cargo build")?;
    ensure!(status.success(), "cargo build --release: {status}");
    let (seconds, elapsed) = (children_cpu_seconds()? - before, start.elapsed().as_secs_f64());
    let binary = target.path().join("release/skye");
    let size = fs::metadata(&binary).with_context(|| format!("inspect {}", binary.display()))?.len();
    let one = |what: &str, unit, value, limit| Row::new(what, unit, vec![value], Limit::AtMost(limit));
    rows.extend([
        one("clean release build, two idle CPUs", "s", elapsed, 100.0),
        one("clean release build, user and system time", "s", seconds, 190.0),
        one("crates in it", "", crates()?.len() as f64, CRATES_MAX),
        one("binary, stripped", "MB", size as f64 / 1e6, 11.0),
        one("code in it", "MB", code_bytes(&binary)? as f64 / 1e6, 7.0),
    ])
}

/// Size of the section with the code, by size(1).
fn code_bytes(binary: &Path) -> Result<u64> {
    let output = Command::new("size").arg("-A").arg(binary).output().context("run size")?;
    ensure!(output.status.success(), "size: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix(".text ")).context("no section .text")?;
    line.split_whitespace().next().context("no size")?.parse().context("understand size")
}

/// User and system time of all descendants that have exited and were waited for.
fn children_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
    parse_children_cpu_seconds(&stat).context("understand /proc/self/stat")
}

/// Parses `cutime` and `cstime`, fields 16 and 17 of proc(5); Linux counts them for user space in hundredths of a
/// second.
fn parse_children_cpu_seconds(stat: &str) -> Option<f64> {
    // The name of the program, in parentheses, may contain blanks and parentheses.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / 100.0)
}

/// Every crate that the program is built from.
fn crates() -> Result<BTreeSet<String>> {
    let output = Command::new(crate::cargo())
        .args(["tree", "--package", "skye", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"])
        .current_dir(crate::root())
        .output()
        .context("run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    // "name v1.2.3 (path or mark)"
    let name = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    Ok(text.lines().map(name).filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_cpu_time_is_parsed_despite_odd_process_names() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 250 50 20 0 1 0 99";
        assert_eq!(parse_children_cpu_seconds(stat), Some(3.0));
        assert!(children_cpu_seconds().unwrap() >= 0.0);
    }

    #[test]
    fn program_has_no_more_crates_than_allowed() {
        let crates = crates().unwrap();
        assert!(crates.contains("skye v0.1.0") || crates.iter().any(|name| name.starts_with("skye ")));
        assert!(crates.len() as f64 <= CRATES_MAX, "{} crates: a new one is a decision", crates.len());
    }
}
