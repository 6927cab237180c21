//! Lines and headings of CSV, as the originals really write them.

use super::figure::{chunk_text, latency_text, size_text};
use super::{Layout, Line, Test, TestFigures};
use model::printable::printable;

impl Layout {
    /// Returns the line with the names of the columns, without its newline.
    ///
    /// The heading of 2.00 is the one of 1.97, as bonnie++ prints it. It has two names fewer than the line has fields.
    /// Every name after the size of the chunk is two places too early.
    pub fn header(self) -> String {
        let columns = match self {
            Self::V2_00 => Self::V1_97.columns(),
            layout => layout.columns(),
        };
        columns.join(",")
    }

    /// Names of the fields of a line, at their true places.
    pub(super) fn columns(self) -> Vec<String> {
        let (before, between): (&[&str], &[&str]) = match self {
            Self::V1_03 => (&["name", "file_size"], &["num_files"]),
            Self::V1_97 => (&HEAD, &FILES),
            Self::V2_00 => (&HEAD_WITH_SEEKS, &FILES),
        };
        let pair = |test: &Test| [test.word().to_owned(), format!("{}_cpu", test.word())];
        let mut columns: Vec<_> = before.iter().map(|name| (*name).to_owned()).collect();
        columns.extend(Test::data().iter().flat_map(pair));
        columns.extend(between.iter().map(|name| (*name).to_owned()));
        columns.extend(Test::files().iter().flat_map(pair));
        if self.has_latencies() {
            columns.extend(Test::ALL.iter().map(|test| format!("{}_latency", test.word())));
        }
        columns
    }
}

const HEAD: [&str; 7] =
    ["format_version", "bonnie_version", "name", "concurrency", "seed", "file_size", "io_chunk_size"];
const HEAD_WITH_SEEKS: [&str; 9] = [
    "format_version",
    "bonnie_version",
    "name",
    "concurrency",
    "seed",
    "file_size",
    "io_chunk_size",
    "seeks",
    "seek_proc_count",
];
const FILES: [&str; 5] = ["num_files", "max_size", "min_size", "num_dirs", "file_chunk_size"];

impl Line {
    /// Returns the line as CSV without its newline, with the fields that its layout really has in the originals.
    ///
    /// 2.00 leaves the chunk out. 1.97 and 2.00 leave the column for the number of directories empty and put that
    /// number into the next one. A text with a comma or a quotation mark is quoted (RFC 4180); the originals do not
    /// quote it. Characters that would act instead of show become visible, so that a line stays a line.
    pub fn to_csv(&self) -> String {
        let size = self.file_size_mib.map(size_text).unwrap_or_default();
        let chunk = self.unusual_chunk().map(chunk_text).unwrap_or_default();
        let mut fields = match self.layout {
            Layout::V1_03 => {
                let separator = if chunk.is_empty() { "" } else { ":" };
                vec![text(&self.name), format!("{size}{separator}{chunk}")]
            }
            Layout::V1_97 => [self.head(), vec![size, chunk]].concat(),
            Layout::V2_00 => {
                [self.head(), vec![size, String::new(), optional(self.seeks), optional(self.seekers)]]
                    .concat()
            }
        };
        fields.extend(self.figures(Test::data()));
        match self.layout {
            Layout::V1_03 => fields.push(self.files_text()),
            Layout::V1_97 | Layout::V2_00 => {
                let [max, min] = self.content.texts();
                let directories =
                    if self.directories > 1 { self.directories.to_string() } else { String::new() };
                fields.extend([optional(self.num_files), max, min, String::new(), directories]);
            }
        }
        fields.extend(self.figures(Test::files()));
        if self.layout.has_latencies() {
            fields.extend(self.results.iter().map(|measured| latency_text(measured.latency_ns)));
        }
        fields.join(",")
    }

    fn head(&self) -> Vec<String> {
        let concurrency = self.concurrency.to_string();
        vec![
            text(&self.format_version),
            text(&self.program_version),
            text(&self.name),
            concurrency,
            text(&self.seed),
        ]
    }

    fn figures(&self, tests: &[Test]) -> impl Iterator<Item = String> {
        tests.iter().flat_map(|test| {
            let TestFigures { rate, cpu, .. } = self[*test];
            [rate.rate_text(), cpu.cpu_text()]
        })
    }
}

fn optional(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// Writes foreign text as a field that reads back unchanged.
fn text(value: &str) -> String {
    let value = printable(value);
    // Readers remove blanks around a field.
    if value.contains([',', '"']) || value.trim() != value {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::super::Content;
    use super::*;

    #[test]
    fn line_has_the_fields_of_its_layout() {
        for layout in Layout::ALL {
            let line = Line::new(layout, "host");
            assert_eq!(line.to_csv().split(',').count(), layout.fields(), "{layout:?}");
            assert_eq!(layout.columns().len(), layout.fields());
        }
        let names = Layout::ALL.map(|layout| layout.header().split(',').count());
        assert_eq!(names, [27, 48, 48]);
    }

    #[test]
    fn requested_options_are_written_in_original_columns() {
        let mut line = Line::new(Layout::V1_03, "host");
        (line.file_size_mib, line.chunk_bytes, line.seed) = (Some(256), Some(65536), "42".into());
        (line.num_files, line.directories) = (Some(64), 4);
        line.content = Content::Sized { max_bytes: 4096, min_bytes: 512 };
        (line.seeks, line.seekers) = (Some(2000), Some(3));
        let head = |line: &Line| line.to_csv().split_inclusive(',').take(9).collect::<String>();
        assert_eq!(head(&line), "host,256M:64k,,,,,,,,");
        assert!(line.to_csv().contains(",64:4096:512/4,"));
        (line.layout, line.format_version) = (Layout::V1_97, "1.97".into());
        line.program_version = "1.97".into();
        assert_eq!(head(&line), "1.97,1.97,host,1,42,256M,64k,,,");
        assert!(line.to_csv().contains(",64,4096,512,,4,"));
        (line.layout, line.format_version) = (Layout::V2_00, "1.98".into());
        line.program_version = "2.00a".into();
        assert_eq!(head(&line), "1.98,2.00a,host,1,42,256M,,2000,3,");
        line.content = Content::SymbolicLinks;
        assert!(line.to_csv().contains(",64,symlink,,,4,"));
    }

    #[test]
    fn name_with_commas_or_newlines_is_one_csv_field() {
        let written = |name: &str| Line::new(Layout::V1_03, name).to_csv();
        assert!(written("a,\"b\"").starts_with("\"a,\"\"b\"\"\",,"));
        assert!(written(" a ").starts_with("\" a \",,"));
        assert!(written("a\nb\u{202e}").starts_with(r"a\nb\u{202e},,"));
        assert!(written("data 1").starts_with("data 1,,"));
    }
}
