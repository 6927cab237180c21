//! Many lines as text tables, as bon_csv2txt writes them, but with `+++++` where it writes a rate of zero.

use super::figure::{chunk_text, size_text};
use super::line::DEFAULT_SEEKERS;
use super::table::{
    DATA_HEADS, FILE_HEADS, cells, data_units, file_units, joined, latencies, name_with_label,
    size_and_chunk, title, with_first_column,
};
use super::{Layout, Line, Test};

/// Formats the lines as two tables, one for the tests on data and one for the tests on files. Each has the lines with
/// such tests. Lines of other versions get separate tables, after an empty line. Each line of the text ends with a
/// newline.
pub fn csv2txt(lines: &[Line]) -> String {
    let mut versions: Vec<(Layout, &str)> = Vec::new();
    for line in lines {
        let version = (line.layout, line.program_version.as_str());
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    let block = |(layout, version): &(Layout, &str)| {
        let same =
            lines.iter().filter(|line| (line.layout, line.program_version.as_str()) == (*layout, *version));
        joined(tables(*layout, version, &same.collect::<Vec<_>>()))
    };
    let blocks: Vec<_> = versions.iter().map(block).filter(|block| !block.is_empty()).collect();
    blocks.join("\n")
}

fn tables(layout: Layout, version: &str, lines: &[&Line]) -> Vec<String> {
    let mut rows = Vec::new();
    // Only the first table shows the version.
    let width = if layout == Layout::V2_00 { 9 } else { 6 };
    let mut version = title(version, width);
    if lines.iter().any(|line| line.has_data()) {
        let first = if layout == Layout::V2_00 { "Name:Size etc" } else { "Machine        Size" };
        rows.push(with_first_column(&std::mem::take(&mut version), DATA_HEADS[0]));
        rows.push(with_first_column("", DATA_HEADS[1]));
        rows.push(with_first_column(first, &data_units(layout)));
        for line in lines.iter().filter(|line| line.has_data()) {
            rows.push(format!(
                "{}{}",
                name_with_label(&line.name, &data_label(line)),
                cells(line, Test::data())
            ));
            rows.extend(latencies(line, Test::data()));
        }
    }
    if lines.iter().any(|line| line.has_files()) {
        let first = if layout == Layout::V2_00 { "      files:max:min" } else { "files:max:min" };
        rows.push(with_first_column(&version, FILE_HEADS[0]));
        rows.push(with_first_column("", FILE_HEADS[1]));
        rows.push(with_first_column(first, &file_units()));
        for line in lines.iter().filter(|line| line.has_files()) {
            rows.push(format!(
                "{}{}",
                name_with_label(&line.name, &files_label(line)),
                cells(line, Test::files())
            ));
            rows.extend(latencies(line, Test::files()));
        }
    }
    rows
}

/// Label of the tests on data. 2.00 has a place for each of size, chunk, seeks and seekers, unusual or not.
fn data_label(line: &Line) -> String {
    if line.layout != Layout::V2_00 {
        return size_and_chunk(line);
    }
    let size = line.file_size_mib.map(size_text).unwrap_or_default();
    let chunk = line.unusual_chunk().map(chunk_text).unwrap_or_default();
    let seeks = line.seeks.map(|seeks| seeks.to_string()).unwrap_or_default();
    let seekers = line.seekers.unwrap_or(DEFAULT_SEEKERS);
    format!("{size}:{chunk}:{seeks}:{seekers}")
}

/// Label of the tests on files. 2.00 has a colon before the directories, too.
fn files_label(line: &Line) -> String {
    let text = line.files_text();
    if line.layout == Layout::V2_00 { text.replace('/', ":") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_version_has_a_separate_table() {
        let mut old = Line::new(Layout::V1_03, "old");
        old.measure(Test::PutBlock, 1000.0, 1.0, Some(0.5), None);
        let mut middle = Line::new(Layout::V1_97, "middle");
        middle.num_files = Some(16);
        middle.measure(Test::RandomStat, 1000.0, 0.1, Some(0.05), Some(5000));
        let mut new = Line::new(Layout::V2_00, "new");
        (new.file_size_mib, new.seeks, new.seekers) = (Some(1024), Some(8192), Some(5));
        new.measure(Test::Seeks, 123.45, 1.0, Some(0.5), Some(2_000_000_000));
        insta::assert_snapshot!(csv2txt(&[new.clone(), old, middle, new]));
        assert_eq!(csv2txt(&[]), "");
    }
}
