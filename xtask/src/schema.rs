//! `cargo xtask schema`: the JSON schema of the run document, generated from its types and committed.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Where the schema lies.
pub fn path() -> PathBuf {
    crate::root().join("schema/run.v1.json")
}

/// The schema as the types say it now.
///
/// # Errors
/// Where it cannot be written as JSON.
pub fn generate() -> Result<String> {
    let mut schema = schemars::schema_for!(model::Run);
    schema.insert(String::from("title"), model::run::SCHEMA.into());
    // A name, not an address: the schema is read from the repository or beside the program.
    schema.insert(String::from("$id"), "urn:skye:run:1".into());
    let mut text = serde_json::to_string_pretty(&schema).context("write the schema as JSON")?;
    text.push('\n');
    Ok(text)
}

/// Writes the schema to its file.
///
/// # Errors
/// Where the file cannot be written.
pub fn command() -> Result<bool> {
    let path = path();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    }
    fs::write(&path, generate()?).with_context(|| format!("write {}", path.display()))?;
    println!("{}", path.display());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let committed = fs::read_to_string(path()).unwrap_or_default();
        assert!(
            committed == generate().unwrap(),
            "{} is not what the types say: run `cargo xtask schema` and look at the difference; \
             within skye.run/1 it may only grow",
            path().display()
        );
    }
}
