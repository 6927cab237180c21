//! A run without the names of its machines and its user, for publication.
//!
//! Hosts, paths, serial numbers, labels and commands become placeholders: the same name has the same placeholder everywhere,
//! also within sentences. All numbers stay, and so do names that skye, the kernel and vendors give: file systems, devices,
//! models, settings. [`fields`] decides it for each text of the document. An unknown word of a command line counts as a
//! name. Each document numbers its placeholders by itself, so that `host-1` of two documents may be two hosts.

mod fields;
mod names;
#[cfg(test)]
mod tests;

use fields::{Field, field};
use model::Run;
use model::json::{FromJson, ToJson};
use names::Names;
use serde_json::Value;

/// Returns the run with placeholders for names.
///
/// # Errors
/// The changed document cannot be read.
pub fn anonymise(run: &Run) -> Result<Run, String> {
    let read = |text: &str| Value::from_json(text).map_err(|error| error.to_string());
    let mut document = read(&String::from_utf8_lossy(&run.to_json()))?;
    let mut names = Names::default();
    let environments = run.hosts.iter().map(|host| &host.environment);
    for environment in std::iter::once(&run.environment).chain(environments) {
        names.add_target(&environment.target);
    }
    // All names are known before the first text is changed: a sentence may be before the field with its name.
    visit(&mut document, "", "run", &mut |field, text| {
        if !matches!(field, Field::Plain | Field::Text | Field::Word) {
            names.replace(field, text);
        }
    });
    visit(&mut document, "", "run", &mut |field, text| *text = names.replace(field, text));
    Run::from_json(&document.to_string()).map_err(|error| error.to_string())
}

/// Calls `change` with each text below a value and its meaning. Leaves out texts of files.
fn visit(value: &mut Value, parent: &str, key: &str, change: &mut dyn FnMut(Field, &mut String)) {
    match value {
        Value::String(text) => change(field(parent, key), text),
        Value::Array(values) => values.iter_mut().for_each(|value| visit(value, parent, key, change)),
        Value::Object(_) if field(key, "*") == Field::File => *value = Value::Object(Default::default()),
        Value::Object(values) => {
            values.iter_mut().for_each(|(inner, value)| visit(value, key, inner, change));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
