//! The JSON of GoBonnieGo in its keys and their order: the conditions, and the results of each run.

use std::fmt::Write;

/// Content of one line of JSON. A field is absent if it was absent in the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Version of GoBonnieGo.
    pub version: Option<String>,
    /// Time of the program's start, in RFC 3339 with up to nine digits of the second.
    pub start_time: Option<String>,
    /// Directory of its files.
    pub directory: Option<String>,
    /// Size over all threads, in GiB.
    pub disk_space_used_gib: Option<f64>,
    /// Threads of each test.
    pub threads: Option<u64>,
    /// Size of the memory, in bytes.
    pub physical_memory_bytes: Option<u64>,
    /// Requested length of the IOPS test, in seconds.
    pub iops_duration_seconds: Option<f64>,
    /// Results of each run.
    pub results: Vec<RunResult>,
}

/// The results of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunResult {
    /// Sequential write, in 10^6 bytes per second.
    pub write_megabytes_per_second: Option<f64>,
    /// Sequential read, in 10^6 bytes per second.
    pub read_megabytes_per_second: Option<f64>,
    /// Operations per second.
    pub iops: Option<f64>,
    /// Length of the sequential write, in seconds.
    pub write_seconds: Option<f64>,
    /// Length of the sequential read, in seconds.
    pub read_seconds: Option<f64>,
    /// Length of the IOPS test, in seconds.
    pub io_seconds: Option<f64>,
    /// Time of the run's start, as in [`Report::start_time`].
    pub start_time: Option<String>,
    /// Written bytes.
    pub write_bytes: Option<u64>,
    /// Bytes that were read.
    pub read_bytes: Option<u64>,
    /// Number of operations of the IOPS test.
    pub io_operations: Option<u64>,
}

/// End of the JSON, after the last result.
pub const CLOSING: &str = "]}\n";

impl Report {
    /// Returns the JSON as one line with its newline.
    pub fn to_json(&self) -> String {
        let results: Vec<_> = self.results.iter().map(RunResult::to_json).collect();
        format!("{}{}{CLOSING}", self.opening(), results.join(","))
    }

    /// Returns the JSON up to the first result. A writer of many results adds them one by one, with commas between, and
    /// then [`CLOSING`].
    pub fn opening(&self) -> String {
        let mut keys = Keys::default();
        keys.text("version", self.version.as_deref());
        keys.text("start_time", self.start_time.as_deref());
        keys.text("gobonniego_directory", self.directory.as_deref());
        keys.real("disk_space_used_gib", self.disk_space_used_gib);
        keys.integer("num_readers_and_writers", self.threads);
        keys.integer("physical_memory_bytes", self.physical_memory_bytes);
        keys.real("iops_duration_seconds", self.iops_duration_seconds);
        keys.put("results", Some("[".into()));
        format!("{{{}", keys.written)
    }
}

impl RunResult {
    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> String {
        let mut keys = Keys::default();
        keys.real("write_megabytes_per_second", self.write_megabytes_per_second);
        keys.real("read_megabytes_per_second", self.read_megabytes_per_second);
        keys.real("iops", self.iops);
        keys.real("write_seconds", self.write_seconds);
        keys.real("read_seconds", self.read_seconds);
        keys.real("io_seconds", self.io_seconds);
        keys.text("start_time", self.start_time.as_deref());
        keys.integer("write_bytes", self.write_bytes);
        keys.integer("read_bytes", self.read_bytes);
        keys.integer("io_operations", self.io_operations);
        format!("{{{}}}", keys.written)
    }
}

/// Keys with their values; absent values are left out.
#[derive(Default)]
struct Keys {
    written: String,
}

impl Keys {
    fn put(&mut self, key: &str, value: Option<String>) {
        let Some(value) = value else { return };
        let comma = if self.written.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(self.written, "{comma}\"{key}\":{value}");
    }

    fn text(&mut self, key: &str, value: Option<&str>) {
        self.put(key, value.map(quoted));
    }

    fn real(&mut self, key: &str, value: Option<f64>) {
        self.put(key, value.filter(|value| value.is_finite()).map(real));
    }

    fn integer(&mut self, key: &str, value: Option<u64>) {
        self.put(key, value.map(|value| value.to_string()));
    }
}

/// Formats a number as Go's `encoding/json` does: with as few digits as read back the same. It has an exponent below
/// 10^-6, and at 10^21 or more.
fn real(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        return if size >= 1e21 { text.replace('e', "e+") } else { text };
    }
    format!("{value}")
}

/// Quotes a text as Go's `encoding/json` does, which also escapes characters that act in HTML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\u{0}'..='\u{1f}' => {
                // Writing to a string does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_like_go_json() {
        for (value, text) in [
            (1.0, "1"),
            (0.5, "0.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (3984.968262376272, "3984.968262376272"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-2.5e22, "-2.5e+22"),
        ] {
            assert_eq!(real(value), text);
        }
    }

    #[test]
    fn strings_are_escaped_like_go_json() {
        assert_eq!(
            quoted("/mnt/a&b <\"x\\y\">\n\u{1b}é"),
            r#""/mnt/a\u0026b \u003c\"x\\y\"\u003e\n\u001bé""#
        );
    }

    #[test]
    fn absent_or_infinite_value_has_no_key() {
        let report = Report { results: vec![RunResult::default()], ..Report::default() };
        assert_eq!(report.to_json(), "{\"results\":[{}]}\n");
        assert_eq!(Report::default().to_json(), "{\"results\":[]}\n");
        let infinite = RunResult { iops: Some(f64::INFINITY), ..RunResult::default() };
        assert_eq!(infinite.to_json(), "{}");
    }
}
