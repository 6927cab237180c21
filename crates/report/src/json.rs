//! The run document as JSON: the form in which runs are kept, mailed and compared.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use model::json::{FromJson, ToJson};
use model::run::SCHEMA;
use model::{Comparison, Run, SelfTest};
use serde_json::Value;

use crate::html::embedded::INFLATED_MAX;
use crate::printable;

/// Writes the whole run as one JSON object, with a newline at the end. [`read`] returns the same run.
///
/// Characters that a terminal would obey are written as `\u` escapes, so that even `--json -` is safe to look at.
pub fn write(run: &Run) -> String {
    laid_out(run)
}

/// Writes a comparison in the same form.
pub fn write_comparison(comparison: &Comparison) -> String {
    laid_out(comparison)
}

/// Writes a selftest in the same form.
pub fn write_selftest(selftest: &SelfTest) -> String {
    laid_out(selftest)
}

/// Writes a run into `writer` in the same form, so that a large document need not be held as text.
///
/// # Errors
/// Errors of the writer.
pub(crate) fn write_into(run: &Run, writer: &mut dyn io::Write) -> io::Result<()> {
    run.write_json(writer)?;
    writer.write_all(b"\n")
}

fn laid_out(document: &impl ToJson) -> String {
    let mut bytes = document.to_json();
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns the text of a document that was compressed by gzip, as pages save it; `None` for any other bytes.
///
/// # Errors
/// The reason why the document cannot be read.
pub fn gunzip(bytes: &[u8]) -> Option<Result<String, String>> {
    const MAGIC: [u8; 2] = [0x1f, 0x8b];
    bytes.starts_with(&MAGIC).then(|| {
        let mut text = String::new();
        let mut reader = MultiGzDecoder::new(bytes).take(INFLATED_MAX + 1);
        reader
            .read_to_string(&mut text)
            .map_err(|error| format!("it is compressed, and damaged ({error})"))?;
        match text.len() as u64 > INFLATED_MAX {
            false => Ok(text),
            true => Err(format!("it is larger than {}", model::size::binary(INFLATED_MAX))),
        }
    })
}

/// Reads a run document of a schema that this version knows, even if a later version wrote it: unknown keys are
/// ignored. The run that it returns has the current schema.
///
/// # Errors
/// Says what was expected, what was found, and where. Findings are: an empty text, a text that is cut off, JSON that is
/// no run, a run of a newer schema, a missing key.
pub fn read(text: &str) -> Result<Run, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match Run::from_json(text) {
        Ok(mut run) if is_ours(&run.schema) => {
            run.schema = SCHEMA.into();
            check(&run).map(|()| run)
        }
        Ok(run) => Err(foreign(&run.schema)),
        Err(error) => Err(explain(text, &error)),
    }
}

/// Highest possible rate, in operations or bytes per second. Even engines that do nothing stay below it with blocks of
/// a gibibyte.
const RATE_MAX: f64 = 1e24;

/// Refuses impossible rates, because everything computed from them would be nonsense.
fn check(run: &Run) -> Result<(), String> {
    for phase in &run.phases {
        let rate = &phase.figures.rate;
        let rates = [
            rate.ops_per_second,
            rate.bytes_per_second,
            rate.steady_ops_per_second,
            rate.overall_ops_per_second,
            rate.durable_ops_per_second,
            rate.into_cache_ops_per_second,
            rate.ci95_low_ops_per_second,
            rate.ci95_high_ops_per_second,
        ];
        if let Some(rate) = rates.into_iter().flatten().find(|rate| !(0.0..=RATE_MAX).contains(rate)) {
            return Err(format!("{} has an impossible rate of {rate:e} per second", printable(&phase.id)));
        }
    }
    Ok(())
}

/// Origin of a run whose schema no release has written.
pub(crate) const UNRELEASED: &str = "made by an unreleased version of skye";

fn is_ours(schema: &str) -> bool {
    schema.strip_prefix(SCHEMA).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the version of a schema of runs, without its minor version.
fn version(schema: &str) -> Option<u32> {
    schema.strip_prefix("skye.run/")?.split('.').next()?.parse().ok()
}

fn foreign(schema: &str) -> String {
    let schema = printable(schema);
    let is_older = version(&schema).is_some_and(|it| Some(it) < version(SCHEMA));
    match schema.strip_prefix("skye.run/") {
        Some(_) if is_older => format!("it was {UNRELEASED}; measure again"),
        Some(_) => format!("its schema is {schema}, and this skye reads {SCHEMA}; use a newer skye"),
        None => format!("expected a run of skye (schema {SCHEMA}), found schema {schema}"),
    }
}

/// Explains why the text is no run. A second parse distinguishes a foreign document from a damaged one.
fn explain(text: &str, error: &serde_json::Error) -> String {
    if text.trim().is_empty() {
        return format!("expected a run of skye (schema {SCHEMA}), found an empty document");
    }
    match Value::from_json(text) {
        Err(error) if error.is_eof() => {
            format!("the document is truncated at line {}; write or copy it again", error.line())
        }
        Err(error) => format!(
            "expected JSON with a run of skye, its page, or results of bonnie++, bonnie, GoBonnieGo, zcav or getc_putc: {}",
            printable(&error.to_string())
        ),
        Ok(document) => match document.get("schema").and_then(Value::as_str) {
            None => format!("expected a run of skye (schema {SCHEMA}), found JSON without a \"schema\""),
            Some(schema) if is_ours(schema) => {
                // A later version may use a word that this version does not know.
                let version =
                    document.get("skye_version").and_then(Value::as_str).unwrap_or("without a version");
                let error = error.to_string();
                format!("it is an unreadable run of skye {}: {}", printable(version), printable(&error))
            }
            Some(schema) => foreign(schema),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::printable::affects_display;
    use proptest::prelude::*;

    #[test]
    fn run_reads_back() {
        for run in [sample::run(), sample::partial_run(), sample::hostile_run()] {
            let text = write(&run);
            assert_eq!(read(&text).as_ref(), Ok(&run));
            assert_eq!(read(&format!("\u{feff}{text}")), Ok(run));
            assert!(!text.chars().any(|c| c != '\n' && affects_display(c)));
        }
    }

    #[test]
    fn counter_is_one_line() {
        let mut run = sample::run();
        run.phases.truncate(1);
        insta::assert_snapshot!(write(&run));
    }

    #[test]
    fn impossible_rate_is_refused() {
        for rate in [1e308, -1.0] {
            let mut run = sample::run();
            run.phases[1].figures.rate.overall_ops_per_second = Some(rate);
            let problem = read(&write(&run)).unwrap_err();
            assert!(problem.contains(&run.phases[1].id) && problem.contains("impossible rate"), "{problem}");
        }
    }

    #[test]
    fn later_minor_schema_version_reads() {
        let run = sample::run();
        let text = write(&run);
        let later = text
            .replacen(
                "\"schema\": \"skye.run/3\"",
                "\"new\": {\"deep\": [1, {}]}, \"schema\": \"skye.run/3.4\"",
                1,
            )
            .replace("\"passes\":", "\"moon_phases\": [{\"class\": \"full\"}], \"passes\":");
        let read = read(&later).unwrap();
        assert_eq!((read.schema.as_str(), &read.phases), (SCHEMA, &run.phases));
    }

    /// Adds a key to each object of a document, and returns the number of objects.
    fn add_key_to_each_object(value: &mut Value) -> usize {
        match value {
            Value::Object(object) => {
                let below: usize = object.values_mut().map(add_key_to_each_object).sum();
                object.insert("key_of_later_version".into(), serde_json::json!({"deep": [1, {}]}));
                below + 1
            }
            Value::Array(list) => list.iter_mut().map(add_key_to_each_object).sum(),
            _ => 0,
        }
    }

    #[test]
    fn unknown_key_in_every_object_is_skipped() {
        for run in [sample::run(), sample::partial_run()] {
            let mut later = serde_json::to_value(&run).unwrap();
            assert!(add_key_to_each_object(&mut later) > 100);
            assert_eq!(read(&later.to_string()), Ok(run));
        }
    }

    #[test]
    fn invalid_documents_have_specific_errors() {
        let text = write(&sample::run());
        let cut = &text[..text.len() / 2];
        let newer = text.replacen("skye.run/3", "skye.run/4", 1);
        let lacking = text.replacen("\"seed\": 7311,", "", 1);
        let wrong = text.replacen("\"seed\": 7311,", "\"seed\": \"\\u001b[2J\",", 1);
        let messages: Vec<_> = [
            "",
            " \n",
            cut,
            "hello\x1b[2J",
            "{}",
            "[1]",
            "3",
            "{\"schema\": 1}",
            "{\"schema\": \"fio/3\"}",
            "{\"schema\": \"skye.run/4\"}",
            &newer,
            "{\"schema\": \"skye.run/10\"}",
            "{\"schema\": \"skye.run/1\"}",
            "{\"schema\": \"skye.run/2\"}",
            &lacking,
            &wrong,
        ]
        .into_iter()
        .map(|text| read(text).unwrap_err())
        .collect();
        insta::assert_snapshot!(messages.join("\n"));
    }

    /// Returns the last boundary between characters in the first `share` of the text.
    fn char_boundary(text: &str, share: f64) -> usize {
        let end = (text.len() as f64 * share) as usize;
        (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
    }

    proptest! {
        #[test]
        fn any_run_reads_back(run in sample::any_run()) {
            let text = write(&run);
            prop_assert_eq!(read(&text), Ok(run));
        }

        #[test]
        fn any_text_is_refused_without_panic(text in any::<String>()) {
            prop_assert!(read(&text).is_err());
        }

        #[test]
        fn truncated_document_is_reported_as_cut_off(share in 0.0f64..1.0) {
            let text = write(&sample::hostile_run());
            let end = char_boundary(&text[..text.len() - 2], share);
            let error = read(&text[..end]).unwrap_err();
            prop_assert!(error.contains("truncated") || end == 0, "{}", error);
        }

        #[test]
        fn damaged_document_does_not_panic(at in 0.0f64..1.0, junk in "[\\[\\]{}\",:0-9a-z]{1,4}") {
            let mut text = write(&sample::run());
            let at = char_boundary(&text, at);
            text.insert_str(at, &junk);
            let _ = read(&text);
        }
    }
}
