//! The crates that a build has, as `cargo metadata` prints them.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Crates of the workspace and all that they need on one platform, with those of tests.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_members: Vec<String>,
    pub resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    /// Expression of SPDX.
    pub license: Option<String>,
    /// Where the crate comes from. Crates at a path have none.
    pub source: Option<String>,
    pub manifest_path: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub id: String,
    pub deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub pkg: String,
    pub dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Kind {
    /// `dev` or `build`; normal dependencies have none.
    pub kind: Option<String>,
}

impl Metadata {
    /// Asks a cargo that stands in the workspace. Crates of other platforms stay out: this machine may lack them.
    ///
    /// # Errors
    /// Cargo fails, or its answer is unreadable.
    pub(crate) fn read(cargo: &mut Command, triple: &str) -> Result<Self> {
        cargo.args(["metadata", "--quiet", "--locked", "--format-version", "1", "--filter-platform", triple]);
        let output = cargo.output().context("run cargo metadata")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cargo metadata: {}", errors.trim());
        serde_json::from_slice(&output.stdout).context("read cargo metadata")
    }
}
