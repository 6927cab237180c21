//! `cargo xtask schema`: the JSON schemas of the documents, generated from their types and committed.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use schemars::Schema;

/// A document with a schema.
#[derive(Debug)]
pub struct Document {
    /// Name and version, as in its key `schema`.
    pub title: &'static str,
    /// URN of its schema: a name, not an address, because it is read from the repository or beside the program.
    pub urn: &'static str,
    file: &'static str,
    of: fn() -> Schema,
}

/// The document of a run.
pub static RUN: Document = Document {
    title: model::run::SCHEMA,
    urn: "urn:skye:run:2",
    file: "schema/run.v2.json",
    of: || schemars::schema_for!(model::Run),
};

/// The document of a comparison.
pub static COMPARISON: Document = Document {
    title: model::comparison::SCHEMA,
    urn: "urn:skye:compare:1",
    file: "schema/compare.v1.json",
    of: || schemars::schema_for!(model::Comparison),
};

impl Document {
    /// Path of its schema.
    pub fn path(&self) -> PathBuf {
        crate::root().join(self.file)
    }

    /// Generates the schema from the current types.
    ///
    /// # Errors
    /// The schema cannot be written as JSON.
    pub fn generate(&self) -> Result<String> {
        let mut schema = (self.of)();
        schema.insert(String::from("title"), self.title.into());
        schema.insert(String::from("$id"), self.urn.into());
        let mut text = serde_json::to_string_pretty(&schema).context("write the schema as JSON")?;
        text.push('\n');
        Ok(text)
    }
}

/// Writes the schemas to their files.
///
/// # Errors
/// A file cannot be written.
pub fn command() -> Result<bool> {
    for document in [&RUN, &COMPARISON] {
        let path = document.path();
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        }
        fs::write(&path, document.generate()?).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        for document in [&RUN, &COMPARISON] {
            let committed = fs::read_to_string(document.path()).unwrap_or_default();
            assert!(
                committed == document.generate().unwrap(),
                "{} is not what the types say: run `cargo xtask schema` and look at the difference; \
                 within {} it may only grow",
                document.path().display(),
                document.title
            );
        }
    }
}
