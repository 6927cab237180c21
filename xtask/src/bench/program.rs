//! The program under test, built as users build it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Builds the release binary and returns its path.
pub(super) fn release() -> Result<PathBuf> {
    let status = Command::new(crate::cargo())
        .args(["build", "--release", "--quiet", "--package", "skye"])
        .current_dir(crate::root())
        .status()
        .context("run cargo build")?;
    ensure!(status.success(), "cargo build --release: {status}");
    Ok(crate::target_directory().join("release/skye"))
}

/// A directory in memory, where no device blurs what the program itself costs.
pub(super) fn scratch_in_memory() -> Result<tempfile::TempDir> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("skye-bench.");
        builder
    };
    builder().tempdir_in("/dev/shm").or_else(|_| builder().tempdir()).context("make a temporary directory")
}

/// A run of the program that leaves the user's own results alone.
pub(super) fn run(binary: &std::path::Path, scratch: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.arg("run").arg(scratch).args(arguments).stdin(Stdio::null());
    command.env("HOME", scratch).env("XDG_STATE_HOME", scratch.join("state"));
    command
}
