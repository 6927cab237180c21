//! Foreign programs as references for skye. Each may be absent: then the benchmarks that need it are skipped, with the
//! reason.

use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};

use super::pinned::Pinned;
use crate::packages;

/// Returns the reason why a command cannot run here, or `None` if it can.
pub(super) fn absent(command: &str, package: &str) -> Option<String> {
    (!packages::is_installed(command))
        .then(|| format!("{command} is not installed (apt-get install {package})"))
}

/// Formats a command line as a user would type it.
pub(super) fn command_line(command: &[String]) -> String {
    command.join(" ")
}

/// Runs a command that must succeed, and returns its stdout and stderr. The command starts on the other CPUs, and its
/// arguments pin the measured part to the measured CPU. Its helpers stay on the other CPUs, as skye's do.
pub(super) fn run(command: &[String], pinned: &Pinned) -> Result<(String, String)> {
    thread::scope(|scope| {
        let child = scope.spawn(|| {
            pinned.yield_cpu()?;
            run_anywhere(command)
        });
        child.join().map_err(|_| anyhow!("the thread that runs {} panicked", command_line(command)))?
    })
}

/// Runs the same on any CPU, as whole programs run.
pub(super) fn run_anywhere(command: &[String]) -> Result<(String, String)> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut process = Command::new(program);
    process.args(arguments).env("LC_ALL", "C").current_dir(std::env::temp_dir());
    let output = process.output().with_context(|| format!("run {program}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{}: {}: {stdout}{stderr}", command_line(command), output.status);
    Ok((stdout, stderr))
}
