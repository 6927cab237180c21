//! JSON schemas of the documents. They are committed, and a test compares them with the types.
//!
//! Only tests of this crate generate them: the derived code would double the time to compile it.

/// Environment variable that makes the test write the schemas, instead of comparing them.
pub const WRITE_VARIABLE: &str = "SKYE_SCHEMA_WRITE";

/// Names of a document's schema.
#[derive(Debug)]
pub struct Schema {
    /// Name and version, as in the document's key `schema`.
    pub title: &'static str,
    /// URN of the schema: a name, not an address, because it is read from the repository or beside the program.
    pub urn: &'static str,
    /// Path in the repository.
    pub file: &'static str,
}

/// Schema of the document of a run.
pub const RUN: Schema =
    Schema { title: crate::run::SCHEMA, urn: "urn:skye:run:3", file: "schema/run.v3.json" };

/// Schema of the document of a comparison.
pub const COMPARISON: Schema =
    Schema { title: crate::comparison::SCHEMA, urn: "urn:skye:compare:1", file: "schema/compare.v1.json" };

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use schemars::schema_for;

    use super::*;

    #[test]
    fn committed_schemas_match_the_types() {
        for (names, mut generated) in
            [(RUN, schema_for!(crate::Run)), (COMPARISON, schema_for!(crate::Comparison))]
        {
            let Schema { title, urn, file } = names;
            generated.insert("title".into(), title.into());
            generated.insert("$id".into(), urn.into());
            let text = format!("{}\n", serde_json::to_string_pretty(&generated).unwrap());
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
            if std::env::var_os(WRITE_VARIABLE).is_some() {
                fs::write(&path, &text).unwrap();
            }
            assert!(
                fs::read_to_string(&path).unwrap_or_default() == text,
                "{file} is not what the types say: run `cargo xtask schema` and look at the difference; \
                 within {title} it may only grow"
            );
        }
    }
}
