//! `cargo xtask schema`: writes the JSON schemas of the documents.

use std::process::Command;

use anyhow::{Context, Result};
use model::schema::{COMPARISON, RUN, WRITE_VARIABLE};

/// Test that writes the schemas.
const TEST: &str = "schema::tests::committed_schemas_match_the_types";

/// Writes the schemas to their files. The types derive them only in tests of `model`, so one of those writes them.
///
/// # Errors
/// Cargo cannot be run.
pub fn command() -> Result<bool> {
    let status = Command::new(crate::cargo())
        .args(["test", "--quiet", "--package", "model", "--lib", "--", "--exact", TEST])
        .env(WRITE_VARIABLE, "1")
        .current_dir(crate::root())
        .status()
        .context("run cargo test")?;
    if !status.success() {
        return Ok(false);
    }
    for schema in [RUN, COMPARISON] {
        println!("{}", crate::root().join(schema.file).display());
    }
    Ok(true)
}
