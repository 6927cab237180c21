//! Programs of others that ours is held against. Each may be absent: then what needs it is skipped, and says so.

use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};

use super::pinned::Pinned;
use crate::packages;

/// Why a command cannot be run here; `None` where it can.
pub(super) fn absent(command: &str, package: &str) -> Option<String> {
    (!packages::is_there(command)).then(|| format!("{command} is not installed (apt-get install {package})"))
}

/// A command line as one would type it.
pub(super) fn command_line(command: &[String]) -> String {
    command.join(" ")
}

/// What a command that must succeed printed: on stdout, and on stderr. It starts beside the CPU of what is measured,
/// to which the line itself sends what is to be measured; its helpers stay away, as ours do.
pub(super) fn run(command: &[String], pinned: &Pinned) -> Result<(String, String)> {
    thread::scope(|scope| {
        let child = scope.spawn(|| {
            pinned.yield_cpu()?;
            run_anywhere(command)
        });
        child.join().map_err(|_| anyhow!("the thread that runs {} panicked", command_line(command)))?
    })
}

/// The same on any CPU, as a whole program is used to.
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
