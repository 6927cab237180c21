//! The text table that bonnie++ prints above the CSV line after a run.
//!
//! It equals the original to the letter, except for two errors. In place of the rates of the tests on files, 2.00a
//! shows how many files there are. It also drops the number of seekers if that has one digit.

use super::figure::{chunk_text, latency_text, size_text};
use super::line::{DEFAULT_SEEKERS, DEFAULT_SEEKS};
use super::{Cell, Content, Layout, Line, Test};
use model::printable::printable;

/// Width of the first column, in characters; a blank follows it.
const FIRST_WIDTH: usize = 19;

/// Headings above the columns of the tests on data: the groups, the tests.
pub(super) const DATA_HEADS: [&str; 2] = [
    "------Sequential Output------ --Sequential Input- --Random-",
    "-Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--",
];
/// Headings above the columns of the tests on files: the groups, the tests.
pub(super) const FILE_HEADS: [&str; 2] = [
    "------Sequential Create------ --------Random Create--------",
    "-Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--",
];

/// Returns the table that bonnie++ prints for this run, in the layout of the line; each line of it ends with a newline.
///
/// Without tests on files, an empty line replaces their table.
pub fn table(line: &Line) -> String {
    let mut rows = Vec::new();
    if line.has_data() {
        rows.extend(data(line));
    }
    if line.has_files() {
        rows.extend(files(line));
    } else if line.has_data() {
        rows.push(String::new());
    }
    joined(rows)
}

/// Joins the rows to a text, without blanks at their ends.
pub(super) fn joined(rows: Vec<String>) -> String {
    rows.iter().map(|row| format!("{}\n", row.trim_end())).collect()
}

fn data(line: &Line) -> Vec<String> {
    let version = title(&line.program_version, 5);
    let (second, third, label) = match line.layout {
        Layout::V1_03 => (String::new(), machine(line), size_and_chunk(line)),
        Layout::V1_97 => {
            (format!("Concurrency {:>3}", line.concurrency), machine(line), size_and_chunk(line))
        }
        Layout::V2_00 => (String::new(), "Name:Size etc", data_parameters(line)),
    };
    let mut rows = vec![
        with_first_column(&version, DATA_HEADS[0]),
        with_first_column(&second, DATA_HEADS[1]),
        with_first_column(third, &data_units(line.layout)),
        format!("{}{}", name_with_label(&line.name, &label), cells(line, Test::data())),
    ];
    rows.extend(latencies(line, Test::data()));
    rows
}

fn machine(line: &Line) -> &'static str {
    if line.unusual_chunk().is_some() { "Machine   Size:chnk" } else { "Machine        Size" }
}

fn files(line: &Line) -> Vec<String> {
    // In 1.03, this table continues the one above it, if there is one.
    let continues = line.layout == Layout::V1_03;
    let version = if continues && line.has_data() { String::new() } else { title(&line.program_version, 5) };
    let name = if continues { String::new() } else { printable(&line.name) };
    let third = match line.content {
        Content::EMPTY => format!("{:>FIRST_WIDTH$}", "files"),
        Content::Sized { min_bytes: 1.., .. } => "files:max:min".into(),
        _ => "files:max".into(),
    };
    let mut rows = vec![
        with_first_column(&version, FILE_HEADS[0]),
        with_first_column(&name, FILE_HEADS[1]),
        with_first_column(&third, &file_units()),
        format!("{:>FIRST_WIDTH$}{}", line.files_text(), cells(line, Test::files())),
    ];
    rows.extend(latencies(line, Test::files()));
    rows
}

/// The version at the left of the first row, right-aligned in `width` characters.
pub(super) fn title(version: &str, width: usize) -> String {
    format!("Version {:>width$}", printable(version))
}

/// The first column, cut to its width, and the other columns.
pub(super) fn with_first_column(first: &str, others: &str) -> String {
    let first: String = first.chars().take(FIRST_WIDTH).collect();
    format!("{first:<FIRST_WIDTH$} {others}")
}

/// The units above the tests on data.
pub(super) fn data_units(layout: Layout) -> String {
    // 2.00 has the unit in each number.
    let bulk = if layout == Layout::V2_00 { " /sec %CP " } else { "K/sec %CP " };
    format!("{} /sec %CP", bulk.repeat(5))
}

/// The units above the tests on files.
pub(super) fn file_units() -> String {
    [" /sec %CP"; 6].join(" ")
}

/// The name, cut as far as the label needs, and the label at the right of the first column.
pub(super) fn name_with_label(name: &str, label: &str) -> String {
    let room = FIRST_WIDTH.saturating_sub(label.chars().count() + 1);
    let name: String = printable(name).chars().take(room).collect();
    if label.chars().count() >= FIRST_WIDTH { label.into() } else { format!("{name:<room$} {label}") }
}

/// Size and chunk: "2G" or "256M:64k".
pub(super) fn size_and_chunk(line: &Line) -> String {
    let size = line.file_size_mib.map(size_text).unwrap_or_default();
    match line.unusual_chunk() {
        Some(bytes) => format!("{size}:{}", chunk_text(bytes)),
        None => size,
    }
}

/// Size, chunk, concurrency, seeks and seekers. Usual values are left out, at the end with their colons.
fn data_parameters(line: &Line) -> String {
    let unusual = |value: Option<u64>, usual| match value.filter(|value| *value != usual) {
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let parts = [
        line.file_size_mib.map(size_text).unwrap_or_default(),
        line.unusual_chunk().map(chunk_text).unwrap_or_default(),
        unusual(Some(line.concurrency), 1),
        unusual(line.seeks, DEFAULT_SEEKS),
        unusual(line.seekers, DEFAULT_SEEKERS),
    ];
    // Only whole parts are dropped; the originals also lose the last digit of the remaining text.
    let kept = parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1);
    parts[..kept].join(":")
}

/// Rates and shares of the processor of these tests. A number too wide for its column pushes the others to the right.
pub(super) fn cells(line: &Line, tests: &[Test]) -> String {
    let cell = |test: &Test| {
        let measured = line[*test];
        let rate = rate_text(line.layout, *test, measured.rate);
        format!(" {rate:>5} {:>3}", measured.cpu.cpu_text())
    };
    tests.iter().map(cell).collect()
}

fn rate_text(layout: Layout, test: Test, rate: Cell) -> String {
    match rate.number() {
        Some(kib) if test.is_bulk() && layout == Layout::V2_00 => scaled(kib),
        // Lines of 1.03 have a digit after the point here too; tables do not.
        Some(per_second) if test == Test::Seeks && per_second >= 1000.0 => format!("{per_second:.0}"),
        Some(per_second) if test == Test::Seeks => format!("{per_second:.1}"),
        _ => rate.rate_text(),
    }
}

/// Formats KiB/s with a unit, in five characters where possible: `9999k`, `97.7m`, `976m`, `1.5g`.
fn scaled(kib: f64) -> String {
    let mib = kib / 1024.0;
    let gib = mib / 1024.0;
    match kib {
        kib if kib < 10_000.0 => format!("{kib:.0}k"),
        _ if mib < 99.95 => format!("{mib:.1}m"),
        _ if mib < 1000.0 => format!("{mib:.0}m"),
        _ if gib < 99.95 => format!("{gib:.1}g"),
        _ => format!("{gib:.0}g"),
    }
}

/// The row of latencies, if the layout has one.
pub(super) fn latencies(line: &Line, tests: &[Test]) -> Option<String> {
    let cell = |test: &Test| format!(" {:>9}", latency_text(line[*test].latency_ns));
    let cells: String = tests.iter().map(cell).collect();
    line.layout.has_latencies().then(|| format!("{:<17}{cells}", "Latency"))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_carry_their_unit() {
        let formatted: Vec<_> =
            [851.0, 9999.0, 10_000.0, 102_348.0, 102_400.0, 238_548.0, 1_024_000.0, 1_186_727.0, 2e8]
                .map(scaled)
                .into();
        assert_eq!(formatted, ["851k", "9999k", "9.8m", "99.9m", "100m", "233m", "1.0g", "1.1g", "191g"]);
    }

    #[test]
    fn large_1_03_seek_rates_have_no_decimal() {
        let text = |rate| rate_text(Layout::V1_03, Test::Seeks, Cell::tenths(rate));
        assert_eq!((text(12345.6).as_str(), text(345.6).as_str()), ("12346", "345.6"));
    }

    #[test]
    fn long_size_label_shortens_the_machine_name() {
        assert_eq!(name_with_label("testvm", "512M:64k:4:2000"), "tes 512M:64k:4:2000");
        assert_eq!(name_with_label("testvm", "512M:64k:4:2000:16"), " 512M:64k:4:2000:16");
        assert_eq!(name_with_label("testvm", "1500M:64k:4:20000:16"), "1500M:64k:4:20000:16");
        assert_eq!(name_with_label("界\u{1b}[2J", "2G"), "界\\u{1b}[2J       2G");
    }

    #[test]
    fn size_column_includes_non_default_settings() {
        let mut line = Line::new(Layout::V2_00, "testvm");
        (line.file_size_mib, line.seeks, line.seekers) = (Some(512), Some(8192), Some(5));
        assert_eq!(data_parameters(&line), "512M");
        line.seekers = Some(3);
        assert_eq!(data_parameters(&line), "512M::::3");
        (line.chunk_bytes, line.concurrency, line.seeks) = (Some(65536), 4, Some(2000));
        assert_eq!(data_parameters(&line), "512M:64k:4:2000:3");
    }

    #[test]
    fn line_without_measurements_has_no_table() {
        assert_eq!(table(&Line::new(Layout::V2_00, "host")), "");
    }

    proptest! {
        /// Each row has as many words as values: none runs into its neighbour.
        #[test]
        fn columns_never_run_together(mut line in sample::any_line()) {
            line.name = "host".into();
            for tests in [Test::data(), Test::files()] {
                let formatted = |test: &Test| {
                    let measured = line[*test];
                    [measured.rate.rate_text(), measured.cpu.cpu_text()].into_iter().filter(|text| !text.is_empty())
                };
                let values = tests.iter().flat_map(formatted).count();
                prop_assert_eq!(cells(&line, tests).split_whitespace().count(), values);
                let values = tests.iter().filter(|test| line[**test].latency_ns.is_some()).count();
                let row = latencies(&line, tests).unwrap_or_else(|| "Latency".into());
                prop_assert_eq!(row.split_whitespace().count(), values + 1);
            }
            prop_assert!(table(&line).lines().all(|row| !row.ends_with(' ')));
        }
    }
}
