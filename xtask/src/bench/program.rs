//! The program under test, built as users build it.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use engine::data::Pool;
use loops::CONTENT;

/// Makes a directory in memory, where no device blurs the cost of the program itself.
pub(super) fn scratch_in_memory() -> Result<tempfile::TempDir> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("skye-bench.");
        builder
    };
    builder().tempdir_in("/dev/shm").or_else(|_| builder().tempdir()).context("make a temporary directory")
}

/// Makes a file of bytes that cannot be compressed, and opens it for reading through the page cache.
pub(super) fn file_of(path: &std::path::Path, size_bytes: u64) -> Result<Arc<[OwnedFd]>> {
    let mut file = File::create_new(path).context("make a file")?;
    fill(&mut file, size_bytes)?;
    Ok(Arc::new([File::open(path).context("open a file")?.into()]))
}

/// Fills a file or device with bytes that cannot be compressed.
pub(super) fn fill(file: &mut File, size_bytes: u64) -> Result<()> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let mut pool = Pool::new(CONTENT, CHUNK_BYTES as usize, 1);
    for _ in 0..size_bytes / CHUNK_BYTES {
        file.write_all(pool.draft(0).bytes).context("write a file")?;
    }
    file.sync_all().context("write a file")
}

/// Prepares a run of the program that leaves the user's own results alone.
pub(super) fn run(binary: &std::path::Path, scratch: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.arg("run").arg(scratch).args(arguments).stdin(Stdio::null());
    command.env("HOME", scratch).env("XDG_STATE_HOME", scratch.join("state"));
    command
}
