//! Has the commands of skye's developers: tests with their skips listed, house rules, the committed schema, benchmarks.
//!
//! Tests of other crates use [`capability`] too, as a dev-dependency.
//!
//! Invariants:
//! - Nothing here is part of the program: no crate depends on it outside `[dev-dependencies]`.
//! - A capability is probed by using it, never by guessing from names and versions, and the probe undoes it.
//! - A test is never skipped in silence: each skip is listed at the end with its reason.
//! - No timing is asserted in tests; [`bench`] measures speed, by alternating pairs.
//! - A measuring loop takes at most 10 % more instructions per operation than the last accepted baseline. A test checks
//!   it if compiler, clock and architecture are those of the baseline.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod capability;
pub mod deploy;
pub mod dist;
pub mod docs;
pub mod hidden;
pub mod lab;
mod limiters;
mod metadata;
pub mod packages;
pub mod pairs;
pub mod release;
pub mod repeats;
pub mod rigs;
pub mod schema;
pub mod test;
pub mod tidy;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Cargo that runs us, so that a chosen toolchain stays chosen.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Directory of the files that cargo builds.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}

/// Builds the program of that package as users do, and returns its path.
///
/// # Errors
/// The program cannot be built.
pub fn release(package: &str) -> Result<PathBuf> {
    let status = Command::new(cargo())
        .args(["build", "--release", "--quiet", "--package", package])
        .current_dir(root())
        // Clippy as the compiler gives other code.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .context("run cargo build")?;
    ensure!(status.success(), "cargo build --release --package {package}: {status}");
    Ok(target_directory().join("release").join(package))
}

/// Environment variable that gives tests their long size. `cargo xtask test --long` sets it.
pub const LONG_VARIABLE: &str = "SKYE_TEST_LONG";

/// Returns the size of the work that a test repeats or covers: the normal one, which takes seconds, or the long one.
pub fn sized<T>(normal: T, long: T) -> T {
    if std::env::var_os(LONG_VARIABLE).is_some() { long } else { normal }
}

/// A command line that is not understood: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; `cargo xtask help` lists the commands", self.0)
    }
}

impl std::error::Error for Usage {}
