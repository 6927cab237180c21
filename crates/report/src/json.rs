//! The run document as JSON: the form in which runs are kept, mailed and compared.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use model::run::{SCHEMA, SCHEMAS_READ};
use model::{Comparison, Run, SelfTest};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CharEscape, Formatter, Serializer};

use crate::html::embedded::INFLATED_MAX;
use crate::printable;
use model::printable::acts;

/// Deepest level with a line for each value: an interval of a phase, a device of a stack. Such a line holds the whole
/// value.
const DEPTH_OF_LINES: usize = 4;

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
pub(crate) fn write_into(run: &Run, writer: impl io::Write) -> io::Result<()> {
    lay_out(run, writer)
}

fn laid_out(document: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Writing into memory does not fail, and all keys of maps in the document are text.
    if lay_out(document, &mut bytes).is_err() {
        return String::new();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

fn lay_out(document: &impl Serialize, mut writer: impl io::Write) -> io::Result<()> {
    document.serialize(&mut Serializer::with_formatter(&mut writer, Layout::default()))?;
    writer.write_all(b"\n")
}

/// Returns the text of a document that was compressed by gzip, as pages save it; `None` for any other bytes.
///
/// # Errors
/// The reason why the document cannot be read.
pub fn unzipped(bytes: &[u8]) -> Option<Result<String, String>> {
    const MAGIC: [u8; 2] = [0x1f, 0x8b];
    bytes.starts_with(&MAGIC).then(|| {
        let mut text = String::new();
        let mut reader = MultiGzDecoder::new(bytes).take(INFLATED_MAX + 1);
        reader
            .read_to_string(&mut text)
            .map_err(|error| format!("it is compressed, and damaged ({error})"))?;
        match text.len() as u64 > INFLATED_MAX {
            false => Ok(text),
            true => Err(format!("it holds more than {}", model::size::binary(INFLATED_MAX))),
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
    match serde_json::from_str::<Run>(text) {
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
            rate.whole_ops_per_second,
            rate.durable_ops_per_second,
            rate.into_cache_ops_per_second,
            // Some older documents have a low end below zero.
            rate.ci95_low_ops_per_second.map(|low| low.max(0.0)),
            rate.ci95_high_ops_per_second,
        ];
        if let Some(rate) = rates.into_iter().flatten().find(|rate| !(0.0..=RATE_MAX).contains(rate)) {
            return Err(format!(
                "{} has a rate of {rate:e} a second, which nothing reaches",
                printable(&phase.id)
            ));
        }
    }
    Ok(())
}

fn is_ours(schema: &str) -> bool {
    let is = |known: &&str| {
        schema.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    SCHEMAS_READ.iter().any(is)
}

fn foreign(schema: &str) -> String {
    let schema = printable(schema);
    match schema.strip_prefix("skye.run/") {
        Some(_) => {
            format!("it is written in schema {schema}, and this skye reads {SCHEMA}; use a newer skye")
        }
        None => format!("expected a run of skye (schema {SCHEMA}), found schema {schema}"),
    }
}

/// Explains why the text is no run. After an error, a second parse is worthwhile: it tells a foreign document from a
/// damaged one.
fn explain(text: &str, error: &serde_json::Error) -> String {
    if text.trim().is_empty() {
        return format!("expected a run of skye (schema {SCHEMA}), found nothing at all");
    }
    match serde_json::from_str::<Value>(text) {
        Err(error) if error.is_eof() => {
            format!(
                "the document is cut off at line {}; it was not written or copied as a whole",
                error.line()
            )
        }
        Err(error) => format!(
            "expected JSON with a run of skye, its page, or results of bonnie++, bonnie, GoBonnieGo, zcav or getc_putc: {}",
            printable(&error.to_string())
        ),
        Ok(document) => match document.get("schema").and_then(Value::as_str) {
            None => format!("expected a run of skye (schema {SCHEMA}), found JSON without a \"schema\""),
            Some(schema) if is_ours(schema) => {
                // A later version may use a word that this version does not know.
                let version = document.get("skye_version").and_then(Value::as_str).unwrap_or("of no version");
                let error = error.to_string();
                format!(
                    "it is a run of skye {} that cannot be read: {}",
                    printable(version),
                    printable(&error)
                )
            }
            Some(schema) => foreign(schema),
        },
    }
}

/// Formatter that indents outer levels, and keeps inner levels on one line: long lists stay readable, and diffs small.
#[derive(Default)]
struct Layout {
    depth: usize,
    is_empty: bool,
}

impl Layout {
    fn open<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        writer.write_all(bracket)
    }

    fn separate<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.is_empty = false;
        match (first, self.depth <= DEPTH_OF_LINES) {
            (true, false) => Ok(()),
            (false, false) => writer.write_all(b", "),
            (first, true) => {
                writer.write_all(if first { b"\n" } else { b",\n" })?;
                self.indent(writer)
            }
        }
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        let lines = self.depth <= DEPTH_OF_LINES && !self.is_empty;
        self.depth -= 1;
        self.is_empty = false;
        if lines {
            writer.write_all(b"\n")?;
            self.indent(writer)?;
        }
        writer.write_all(bracket)
    }

    fn indent<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        // Blanks between the values of columns would be a sixth of a document.
        if !first && self.depth > DEPTH_OF_LINES {
            return writer.write_all(b",");
        }
        self.separate(writer, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.separate(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !fragment.chars().any(acts) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if acts(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                write!(writer, "{character}")?;
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use proptest::prelude::*;

    #[test]
    fn a_run_reads_back() {
        for run in [sample::run(), sample::partial_run(), sample::hostile_run()] {
            let text = write(&run);
            assert_eq!(read(&text).as_ref(), Ok(&run));
            assert_eq!(read(&format!("\u{feff}{text}")), Ok(run));
            assert!(!text.chars().any(|c| c != '\n' && acts(c)));
        }
    }

    #[test]
    fn a_counter_is_a_line() {
        let mut run = sample::run();
        run.phases.truncate(1);
        insta::assert_snapshot!(write(&run));
    }

    #[test]
    fn a_rate_that_nothing_has_is_refused() {
        for rate in [1e308, -1.0] {
            let mut run = sample::run();
            run.phases[1].figures.rate.whole_ops_per_second = Some(rate);
            let problem = read(&write(&run)).unwrap_err();
            assert!(problem.contains(&run.phases[1].id) && problem.contains("nothing reaches"), "{problem}");
        }
    }

    #[test]
    fn a_later_document_of_the_same_schema_reads() {
        let run = sample::run();
        let text = write(&run);
        let later = text
            .replacen(
                "\"schema\": \"skye.run/2\"",
                "\"new\": {\"deep\": [1, {}]}, \"schema\": \"skye.run/2.4\"",
                1,
            )
            .replace("\"passes\":", "\"moon_phases\": [{\"class\": \"full\"}], \"passes\":");
        let read = read(&later).unwrap();
        assert_eq!((read.schema.as_str(), &read.phases), (SCHEMA, &run.phases));
    }

    #[test]
    fn what_is_no_run_is_named() {
        let text = write(&sample::run());
        let cut = &text[..text.len() / 2];
        let newer = text.replacen("skye.run/2", "skye.run/3", 1);
        let lacking = text.replacen("\"seed\": 7311,", "", 1);
        let wrong = text.replacen("\"seed\": 7311,", "\"seed\": \"\\u001b[2J\",", 1);
        let shown: Vec<_> = [
            "",
            " \n",
            cut,
            "hello\x1b[2J",
            "{}",
            "[1]",
            "3",
            "{\"schema\": 1}",
            "{\"schema\": \"fio/3\"}",
            "{\"schema\": \"skye.run/3\"}",
            &newer,
            "{\"schema\": \"skye.run/10\"}",
            "{\"schema\": \"skye.run/1\"}",
            &lacking,
            &wrong,
        ]
        .into_iter()
        .map(|text| read(text).unwrap_err())
        .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    proptest! {
        #[test]
        fn any_run_reads_back(run in sample::any_run()) {
            let text = write(&run);
            prop_assert_eq!(read(&text), Ok(run));
        }

        #[test]
        fn any_text_is_survived(text in any::<String>()) {
            prop_assert!(read(&text).is_err());
        }

        #[test]
        fn a_document_that_is_cut_off_is_named(share in 0.0f64..1.0) {
            let text = write(&sample::hostile_run());
            let end = text.floor_char_boundary(((text.len() - 2) as f64 * share) as usize);
            let error = read(&text[..end]).unwrap_err();
            prop_assert!(error.contains("cut off") || end == 0, "{}", error);
        }

        #[test]
        fn a_document_that_is_damaged_is_survived(at in 0.0f64..1.0, junk in "[\\[\\]{}\",:0-9a-z]{1,4}") {
            let mut text = write(&sample::run());
            let at = text.floor_char_boundary((text.len() as f64 * at) as usize);
            text.insert_str(at, &junk);
            let _ = read(&text);
        }
    }
}
