//! Many lines as a page that compares them: a table in colours, as bon_csv2html makes it, and a graph.
//!
//! Units match the numbers. Tests that were too fast to be timed are shown as such, where the original shows zeros.

mod colour;
mod graph;

use super::figure::{chunk_text, latency_text, size_text};
use super::{Cell, Content, Layout, Line, Test, TestFigures};
use colour::{Better, Shade, shades};
use draw::{cell, element, escape};

const STYLE: &str = include_str!("html/style.css");

/// Renders the lines as one self-contained HTML document: a table, and a graph of how they differ from the first. Each
/// line has a row of rates and a row of latencies in the table. Columns without any value are left out.
pub fn csv2html(lines: &[Line]) -> String {
    let has_results =
        lines.iter().any(|line| line.results.iter().any(|result| *result != TestFigures::default()));
    let content = if !has_results {
        "<p>There are no results to show.</p>\n".into()
    } else {
        let old = lines.iter().filter(|line| line.layout == Layout::V1_03).count();
        let mixed = if old == 0 || old == lines.len() { "" } else { MIXED };
        format!("{LEGEND}{mixed}{}{}", table(lines), graph::section(lines))
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{TITLE}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1>{TITLE}</h1>\n{content}</body>\n</html>\n"
    )
}

const TITLE: &str = "bonnie++ results";

const LEGEND: &str = "<p class=\"note\">Colours range from red, the worst of a column, to green, the best; ▲ marks \
     the best and ▼ the worst. For % CPU, they compare percent divided by rate: the cost of the same work. Latency \
     is the maximum of one operation. +++++ took less than half a second: too fast to be timed.</p>\n";

/// Note for lines of 1.03 beside lines of later versions.
const MIXED: &str = "<p><strong>Versions 1.03 and later do not measure the same.</strong> 1.03 reads and writes \
     single bytes through buffers of the C library, later versions with a system call for each. 1.03 does not sync \
     its writes by default.</p>\n";

/// A column that shows an option of the run.
struct Setting {
    head: &'static str,
    unit: &'static str,
    value: fn(&Line) -> Option<String>,
    /// Usual value. The column is left out if no line has another.
    usual: &'static str,
}

const fn setting(head: &'static str, unit: &'static str, value: fn(&Line) -> Option<String>) -> Setting {
    Setting { head, unit, value, usual: "" }
}

const DATA_SETTINGS: [Setting; 3] = [
    Setting { usual: "1", ..setting("Concurrency", "", |line| Some(line.concurrency.to_string())) },
    setting("Size", "", |line| line.file_size_mib.map(size_text)),
    setting("Chunk", "bytes", |line| line.unusual_chunk().map(chunk_text)),
];

const FILE_SETTINGS: [Setting; 4] = [
    setting("Files", "× 1024", |line| line.num_files.map(|files| files.to_string())),
    setting("Max size", "bytes", |line| match line.content {
        Content::HardLinks => Some("hard links".into()),
        Content::SymbolicLinks => Some("symlinks".into()),
        _ => Some(line.content.texts()[0].clone()),
    }),
    setting("Min size", "bytes", |line| Some(line.content.texts()[1].clone())),
    Setting {
        usual: "1",
        ..setting("Directories", "", |line| line.num_files.map(|_| line.directories.to_string()))
    },
];

/// Shown only if lines are of different versions; otherwise the version is above the names.
const VERSION: Setting = setting("Version", "", |line| Some(escape(&line.program_version)));

/// Tests under a common heading.
struct Group {
    head: &'static str,
    tests: &'static [(Test, &'static str)],
}

const DATA_GROUPS: [Group; 3] = [
    Group {
        head: "Sequential output",
        tests: &[(Test::PutChar, "Per char"), (Test::PutBlock, "Block"), (Test::Rewrite, "Rewrite")],
    },
    Group { head: "Sequential input", tests: &[(Test::GetChar, "Per char"), (Test::GetBlock, "Block")] },
    Group { head: "Random", tests: &[(Test::Seeks, "Seeks")] },
];

const FILE_GROUPS: [Group; 2] = [
    Group {
        head: "Sequential create",
        tests: &[
            (Test::SequentialCreate, "Create"),
            (Test::SequentialStat, "Read"),
            (Test::SequentialDelete, "Delete"),
        ],
    },
    Group {
        head: "Random create",
        tests: &[(Test::RandomCreate, "Create"), (Test::RandomStat, "Read"), (Test::RandomDelete, "Delete")],
    },
];

/// Columns for which some line has a value. The parts are data and files, each with settings first, then tests.
struct Columns {
    parts: [Part; 2],
    has_latencies: bool,
}

struct Part {
    settings: Vec<Setting>,
    /// Tests, grouped under their headings.
    tests: Vec<(&'static str, Vec<Column>)>,
}

/// A test with its colours for each line.
struct Column {
    test: Test,
    head: &'static str,
    rate: Vec<Option<Shade>>,
    cpu: Vec<Option<Shade>>,
    latency: Vec<Option<Shade>>,
}

impl Columns {
    fn from_lines(lines: &[Line]) -> Self {
        let has_value = |setting: &Setting| {
            lines.iter().filter_map(setting.value).any(|value| !value.is_empty() && value != setting.usual)
        };
        let versions = lines.iter().map(|line| &line.program_version).collect::<Vec<_>>();
        let mixed = versions.windows(2).any(|pair| pair[0] != pair[1]);
        let data = mixed.then_some(VERSION).into_iter().chain(DATA_SETTINGS).filter(has_value).collect();
        let files = FILE_SETTINGS.into_iter().filter(has_value).collect();
        Self {
            parts: [
                Part { settings: data, tests: columns(&DATA_GROUPS, lines) },
                Part { settings: files, tests: columns(&FILE_GROUPS, lines) },
            ],
            has_latencies: lines
                .iter()
                .any(|line| line.results.iter().any(|result| result.latency_ns.is_some())),
        }
    }

    /// Number of rows for one line.
    fn rows(&self) -> usize {
        if self.has_latencies { 2 } else { 1 }
    }
}

fn columns(groups: &[Group], lines: &[Line]) -> Vec<(&'static str, Vec<Column>)> {
    let measured = |test: Test| lines.iter().any(|line| line[test] != TestFigures::default());
    let column =
        |(test, head): &(Test, &'static str)| measured(*test).then(|| Column::new(*test, head, lines));
    let groups =
        groups.iter().map(|group| (group.head, group.tests.iter().filter_map(column).collect::<Vec<_>>()));
    groups.filter(|(_, columns)| !columns.is_empty()).collect()
}

impl Column {
    fn new(test: Test, head: &'static str, lines: &[Line]) -> Self {
        let values = |of: &dyn Fn(&Line) -> Option<f64>| lines.iter().map(of).collect::<Vec<_>>();
        let rate = values(&|line| line[test].rate.number());
        // Half the processor for twice the work is a quarter of the cost.
        let cost = values(&|line| Some(line[test].cpu.number()? / line[test].rate.number()?));
        let latency = values(&|line| line[test].latency_ns.map(|ns| ns as f64));
        Self {
            test,
            head,
            rate: shades(&rate, Better::High),
            cpu: shades(&cost, Better::Low),
            latency: shades(&latency, Better::Low),
        }
    }

    fn unit(&self) -> &'static str {
        match self.test {
            Test::PutChar | Test::GetChar => "KiB/s",
            test if test.is_bulk() => "MiB/s",
            _ => "/s",
        }
    }

    fn rate_text(&self, rate: Cell) -> String {
        match rate.number() {
            Some(kib) if self.unit() == "MiB/s" => match kib / 1024.0 {
                mib if mib < 9.995 => format!("{mib:.2}"),
                mib if mib < 99.95 => format!("{mib:.1}"),
                mib => format!("{mib:.0}"),
            },
            _ => rate.rate_text(),
        }
    }
}

fn table(lines: &[Line]) -> String {
    let columns = Columns::from_lines(lines);
    let bodies: String = (0..lines.len()).map(|index| body(&columns, lines, index)).collect();
    let table = element("table", "", &format!("\n{}{bodies}", head(&columns, lines)));
    let attributes = " class=\"wide\" role=\"region\" aria-label=\"Results\" tabindex=\"0\"";
    format!("{}\n", element("div", attributes, &table))
}

fn head(columns: &Columns, lines: &[Line]) -> String {
    let mixed = columns.parts[0].settings.iter().any(|setting| setting.head == VERSION.head);
    let name = match lines.first() {
        Some(line) if !mixed => format!("bonnie++<br>{}", escape(&line.program_version)),
        _ => "Name".into(),
    };
    let mut rows = [cell("th", 1, 3, " scope=\"col\"", &name), String::new(), String::new()];
    for (index, part) in columns.parts.iter().enumerate() {
        for setting in &part.settings {
            let has_unit = !setting.unit.is_empty();
            rows[0] += &cell("th", 1, if has_unit { 2 } else { 3 }, " scope=\"col\"", setting.head);
            if has_unit {
                rows[2] += &cell("td", 1, 1, " class=\"unit\"", setting.unit);
            }
        }
        if index == 0 && columns.has_latencies {
            rows[0] += &cell("td", 1, 3, "", "");
        }
        for (head, tests) in &part.tests {
            rows[0] += &cell("th", 2 * tests.len(), 1, " scope=\"colgroup\"", head);
            for column in tests {
                rows[1] += &cell("th", 2, 1, " scope=\"colgroup\"", column.head);
                rows[2] += &cell("th", 1, 1, " scope=\"col\" class=\"unit\"", column.unit());
                rows[2] += &cell("th", 1, 1, " scope=\"col\" class=\"unit\"", "% CPU");
            }
        }
    }
    let rows: String = rows.iter().map(|row| format!("{}\n", element("tr", "", row))).collect();
    format!("{}\n", element("thead", "", &format!("\n{rows}")))
}

/// Renders the rows of one line.
fn body(columns: &Columns, lines: &[Line], index: usize) -> String {
    let (line, height) = (&lines[index], columns.rows());
    let number = element("span", " class=\"number\"", &(index + 1).to_string());
    let name = format!("{number}{}", element("span", " class=\"name\"", &escape(&line.name)));
    let mut values = cell("th", 1, height, " scope=\"rowgroup\"", &name);
    let mut latency_cells = String::new();
    for (index_of_part, part) in columns.parts.iter().enumerate() {
        for setting in &part.settings {
            values += &cell("td", 1, height, "", &(setting.value)(line).unwrap_or_default());
        }
        if index_of_part == 0 && columns.has_latencies {
            values += &cell("th", 1, 1, " scope=\"row\"", "Rate");
            latency_cells += &cell("th", 1, 1, " scope=\"row\"", "Latency");
        }
        for column in part.tests.iter().flat_map(|(_, columns)| columns) {
            let measured = line[column.test];
            values += &shaded(1, &column.rate_text(measured.rate), column.rate[index]);
            values += &shaded(1, &measured.cpu.cpu_text(), column.cpu[index]);
            latency_cells += &shaded(2, &latency_text(measured.latency_ns), column.latency[index]);
        }
    }
    let rows: String =
        [values, latency_cells].iter().take(height).map(|row| element("tr", "", row) + "\n").collect();
    format!("{}\n", element("tbody", "", &format!("\n{rows}")))
}

/// Renders a cell with its colour, and a sign for people who do not see colours.
fn shaded(columns: usize, text: &str, shade: Option<Shade>) -> String {
    let Some(shade) = shade else { return cell("td", columns, 1, "", text) };
    let cue = match shade {
        Shade { is_best: true, .. } => "<span class=\"cue\" role=\"img\" aria-label=\"best\">▲</span>",
        Shade { is_worst: true, .. } => "<span class=\"cue\" role=\"img\" aria-label=\"worst\">▼</span>",
        _ => "",
    };
    let attributes = format!(" class=\"shade\" style=\"--hue:{}\"", shade.hue_degrees);
    cell("td", columns, 1, &attributes, &format!("{cue}{text}"))
}

#[cfg(test)]
mod tests;
