//! Memory that the program takes for a great many files.

use std::fs;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Rows, Setting, program};

pub(super) const BENCH: Bench =
    Bench { name: "memory", measures: "peak resident memory of a run over four million files", run };

fn run(_: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let binary = crate::release("skye")?;
    let scratch = Tmpfs::mount()?;
    let tests = ["--test", "create:files=4m", "--test", "stat:files=4m"];
    let arguments = [&tests[..], &["--time", "1", "--allow", "low-space,busy", "--quiet"]].concat();
    let (status, peak_mib) = run_to_its_end(program::run(&binary, scratch.path(), &arguments))?;
    ensure!(status.success(), "the run ended with {status}");
    rows.push(Row::new("VmHWM, create and stat of 4 Mi files", "MiB", vec![peak_mib], Limit::AtMost(64.0)))
}

/// Runs a program to its end. Returns its status, and the most memory that it had, in MiB.
pub(super) fn run_to_its_end(mut command: Command) -> Result<(ExitStatus, f64)> {
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().context("start the program")?;
    // The kernel's own high-water mark is of this program alone. The value that a wait reports counts, until exec, the
    // memory of the parent. The mark vanishes with the process, so the last look is at most a few milliseconds old.
    let path = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let status = loop {
        if let Some(kib) = fs::read_to_string(&path).ok().and_then(|text| high_water_kib(&text)) {
            peak_kib = peak_kib.max(kib);
        }
        if let Some(status) = child.try_wait().context("wait for the program")? {
            break status;
        }
        thread::sleep(Duration::from_millis(5));
    };
    Ok((status, peak_kib as f64 / 1024.0))
}

/// Parses `/proc/PID/status` for the most memory that a process had, in KiB.
pub(super) fn high_water_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_water_mark_is_parsed() {
        let text = "Name:\tskye\nVmPeak:\t  9000 kB\nVmHWM:\t    1496 kB\nVmRSS:\t 1000 kB\n";
        assert_eq!(high_water_kib(text), Some(1496));
        // A process that ended and was not yet waited for has no memory.
        assert_eq!(high_water_kib("Name:\tskye\nState:\tZ (zombie)\n"), None);
    }
}
