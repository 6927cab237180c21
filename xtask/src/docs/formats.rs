//! The page about the formats of a run: columns of CSV, and keys of JSON with their meanings from the schema.

use std::collections::{BTreeMap, VecDeque};
use std::fs;

use anyhow::{Context, Result};
use model::schema;
use serde_json::Value;

use super::row;

const HEAD: &str = "# Formats

`cargo xtask docs` writes this page from `crates/wording/src/columns.rs` and `schema/run.v3.json`.
";
const KEYS: &str = "
## Keys of JSON

skye reads the documents of version 0.2 until 0.3, and new keys are options, which a reader may skip.

`[]` is each element of a list, `NAME` any key. Lists of intervals, rounds and zones are columns: a list has a value for
each, and a single number is the value of all.

| key | unit | meaning |
|---|---|---|
";
/// Most words of an enumeration that a row lists.
const WORDS_MAX: usize = 12;

/// Generates the page.
///
/// # Errors
/// The schema cannot be read.
pub(super) fn page() -> Result<String> {
    let path = crate::root().join(schema::RUN.file);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let schema: Value =
        serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))?;
    let csv = columns("Columns of CSV", wording::CSV_RULES, wording::COLUMNS);
    let long = columns("Columns of CSV in long form", wording::CSV_LONG_RULES, wording::LONG_COLUMNS);
    Ok([HEAD, &csv, &long, KEYS, &Keys::new(&schema).rows()].concat())
}

/// Returns the section about columns.
fn columns(title: &str, rules: &str, columns: &[(&str, &str)]) -> String {
    let rows = columns.iter().map(|(name, meaning)| row(&[format!("`{name}`"), (*meaning).into()]));
    format!("\n## {title}\n\n{rules}\n\n| column | meaning |\n|---|---|\n{}", rows.collect::<String>())
}

/// Keys of the documents that a schema describes.
struct Keys<'a> {
    schema: &'a Value,
    /// Path at which the keys of a type are listed: the one with the fewest keys.
    homes: BTreeMap<&'a str, String>,
}

/// Type of a key.
struct Shape<'a> {
    /// Signs of its lists and names, which follow the key.
    signs: String,
    /// Name of the type; empty without one.
    name: &'a str,
    /// Schema of the innermost value.
    node: &'a Value,
}

impl<'a> Keys<'a> {
    fn new(schema: &'a Value) -> Self {
        let mut keys = Self { schema, homes: BTreeMap::new() };
        let mut waiting = VecDeque::from([(String::new(), schema)]);
        while let Some((prefix, object)) = waiting.pop_front() {
            for (key, property) in properties(object) {
                let shape = keys.shape(property);
                let path = format!("{prefix}{key}{}", shape.signs);
                if !properties(shape.node).is_empty() && !keys.homes.contains_key(shape.name) {
                    keys.homes.insert(shape.name, path.clone());
                    waiting.push_back((format!("{path}."), shape.node));
                }
            }
        }
        keys
    }

    fn shape(&self, mut node: &'a Value) -> Shape<'a> {
        let (mut signs, mut name) = (String::new(), "");
        loop {
            let is_null = |one: &&Value| one["type"] == "null";
            if let Some(reference) = node["$ref"].as_str() {
                name = reference.rsplit('/').next().unwrap_or_default();
                node = &self.schema["$defs"][name];
            } else if let Some(one) =
                node["anyOf"].as_array().and_then(|any| any.iter().find(|one| !is_null(one)))
            {
                node = one;
            } else if node["items"].is_object() {
                signs.push_str("[]");
                node = &node["items"];
            } else if node["additionalProperties"].is_object() {
                signs.push_str(".NAME");
                node = &node["additionalProperties"];
            } else {
                return Shape { signs, name, node };
            }
        }
    }

    fn rows(&self) -> String {
        let mut rows = String::new();
        self.add_rows("", self.schema, &mut rows);
        rows
    }

    fn add_rows(&self, prefix: &str, object: &Value, rows: &mut String) {
        for (key, property) in properties(object) {
            let Shape { signs, name, node } = self.shape(property);
            let path = format!("{prefix}{key}{signs}");
            let own = property["description"].as_str().or(node["description"].as_str());
            let mut meaning = own.unwrap_or_default().replace('\n', " ");
            let home = self.homes.get(name).filter(|_| !properties(node).is_empty());
            if let Some(home) = home.filter(|home| **home != path) {
                meaning.push_str(&format!(" Its keys are those of `{home}`."));
            }
            let words: Vec<_> =
                node["oneOf"].as_array().into_iter().flatten().map(|one| &one["const"]).collect();
            if (1..=WORDS_MAX).contains(&words.len()) && words.iter().all(|word| word.is_string()) {
                let words: Vec<_> =
                    words.iter().filter_map(|word| Some(format!("`{}`", word.as_str()?))).collect();
                meaning.push_str(&format!(" One of {}.", words.join(", ")));
            }
            let unit = if is_number(node) { wording::unit(&path) } else { "" };
            rows.push_str(&row(&[format!("`{path}`"), unit.into(), meaning]));
            if home == Some(&path) {
                self.add_rows(&format!("{path}."), node, rows);
            }
        }
    }
}

/// Returns the keys of an object, with their schemas; nothing for other types.
fn properties(node: &Value) -> Vec<(&str, &Value)> {
    let keys = node["properties"].as_object().into_iter().flatten();
    keys.map(|(key, property)| (key.as_str(), property)).collect()
}

fn is_number(node: &Value) -> bool {
    let is_one = |kind: &Value| kind == "integer" || kind == "number";
    is_one(&node["type"]) || node["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_with_two_places_is_listed_once() {
        let schema = serde_json::json!({
            "properties": {
                "a": { "properties": { "deep": { "$ref": "#/$defs/T" } } },
                "list": { "description": "Some.", "type": "array", "items": { "$ref": "#/$defs/T" } },
            },
            "$defs": { "T": { "properties": { "x_ns": { "description": "Time.", "type": ["integer", "null"] } } } },
        });
        assert_eq!(
            Keys::new(&schema).rows(),
            "| `a` |  |  |\n| `a.deep` |  |  Its keys are those of `list[]`. |\n| `list[]` |  | Some. |\n\
             | `list[].x_ns` | ns | Time. |\n"
        );
    }
}
