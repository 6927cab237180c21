//! The results of one run of these programs, and their tables: text and HTML.

use std::ops::{Index, IndexMut};

use model::printable::printable;

use crate::results::{Rate, Results};

/// Bytes of the K in K/sec, and of the kB on stderr.
const KIB: f64 = 1024.0;
/// Bytes of the M in M/sec.
const MIB: f64 = 1024.0 * KIB;
/// MiB in a GB of Bonnie-64.
const MIB_PER_GB: u64 = 1000;
/// Smallest share of a CPU without decimals, in percent: it would be wider than others.
const WHOLE_PERCENT: f64 = 99.95;
/// Sign for a value that was not measured. The originals print no table then.
pub(super) const ABSENT: &str = "-";
/// Width of the label in a text table of bonnie 1.4, in characters; the original cuts longer labels.
const LABEL_WIDTH: usize = 6;
/// The same width for Bonnie-64.
const LABEL_WIDTH_64: usize = 8;

/// One of the two programs, with its work and formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Kurt Garloff's bonnie 1.4.
    V1_4,
    /// Tim Bray's Bonnie-64.
    V64,
}

impl Program {
    /// Both programs.
    pub const ALL: [Self; 2] = [Self::V1_4, Self::V64];

    /// Name with its version.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1_4 => "bonnie 1.4",
            Self::V64 => "Bonnie-64",
        }
    }
}

/// The six tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// The file is written byte by byte through the C library.
    PutChar,
    /// Each chunk is read, changed and written back.
    Rewrite,
    /// A new file is written in chunks.
    PutBlock,
    /// The file is read byte by byte through the C library.
    GetChar,
    /// The file is read in chunks.
    GetBlock,
    /// Blocks are read at random, and one in ten is written back.
    Seeks,
}

impl Test {
    /// All, in the order in which they run.
    pub const ALL: [Self; 6] =
        [Self::PutChar, Self::Rewrite, Self::PutBlock, Self::GetChar, Self::GetBlock, Self::Seeks];
    /// All, in the order of the columns.
    pub const COLUMNS: [Self; 6] =
        [Self::PutChar, Self::PutBlock, Self::Rewrite, Self::GetChar, Self::GetBlock, Self::Seeks];

    /// Name of the test beside other programs' results.
    pub fn title(self) -> &'static str {
        match self {
            Self::PutChar => "putc write",
            Self::Rewrite => "rewrite",
            Self::PutBlock => "block write",
            Self::GetChar => "getc read",
            Self::GetBlock => "block read",
            Self::Seeks => "seeks",
        }
    }

    /// True if the test goes byte by byte through the C library.
    pub fn is_stdio(self) -> bool {
        matches!(self, Self::PutChar | Self::GetChar)
    }
}

/// Result of one test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestRate {
    /// Bytes a second, or seeks a second.
    pub per_second: f64,
    /// CPU time over the time of the test, in percent of one CPU.
    pub cpu_percent: Option<f64>,
}

/// Settings that the heading of bonnie 1.4 shows beside the names of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// `-y`: written data was made durable.
    pub is_synced: bool,
    /// `-u`: calls that do not lock the stream.
    pub is_unlocked: bool,
    /// `-o_direct`.
    pub is_direct: bool,
    /// Thousands of seeks, rounded.
    pub thousands_of_seeks: u64,
    /// Number of threads that seek at once.
    pub seekers: u64,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Program whose format the table has.
    pub program: Program,
    /// Label of the run; the machine unless a label was given.
    pub label: String,
    /// Size of each volume, in MiB; `None` if unknown: in text, Bonnie-64 shows less than 1000 MiB as 0.
    pub size_mib: Option<u64>,
    /// Number of volumes: files of that size. Bonnie-64 has one.
    pub volumes: u64,
    /// Settings in the heading; `None` for Bonnie-64, and where there was no heading, as in HTML.
    pub head: Option<Head>,
    pub(super) results: [Option<TestRate>; 6],
}

impl Index<Test> for Table {
    type Output = Option<TestRate>;
    fn index(&self, test: Test) -> &Self::Output {
        &self.results[test as usize]
    }
}

impl IndexMut<Test> for Table {
    fn index_mut(&mut self, test: Test) -> &mut Self::Output {
        &mut self.results[test as usize]
    }
}

impl Table {
    /// A run without any result yet.
    pub fn new(program: Program, label: impl Into<String>) -> Self {
        Self { program, label: label.into(), size_mib: None, volumes: 1, head: None, results: [None; 6] }
    }

    /// Returns the table as the program prints it; each line ends with a newline. An unknown heading is left out.
    ///
    /// Numbers wider than their column push the next ones to the right; the original lets them run together. A label
    /// longer than its column widens the column; the original cuts the label.
    pub fn text(&self) -> String {
        match self.program {
            Program::V1_4 => self.text_1_4(),
            Program::V64 => self.text_64(),
        }
    }

    /// Returns the table as HTML: bonnie 1.4 has one row for a table of one's own, Bonnie-64 a whole table. Each line
    /// ends with a newline.
    pub fn html(&self) -> String {
        match self.program {
            Program::V1_4 => self.html_1_4(),
            Program::V64 => self.html_64(),
        }
    }

    /// Returns the results in the common form of all programs, in the order in which the tests run.
    pub fn results(&self) -> Results {
        let is_unlocked = self.head.is_some_and(|head| head.is_unlocked);
        let rate = |test: Test| {
            let TestRate { per_second, cpu_percent } = self[test]?;
            let title = match test {
                _ if test.is_stdio() && is_unlocked => format!("{}, unlocked", test.title()),
                _ => test.title().to_owned(),
            };
            let rate = match test {
                Test::Seeks => Rate::from_operations(title, per_second),
                _ => Rate::from_bytes(title, per_second),
            };
            Some(rate.with_cpu(cpu_percent))
        };
        Results {
            program: self.program.name().into(),
            name: self.label.clone(),
            rates: Test::ALL.into_iter().filter_map(rate).collect(),
        }
    }

    fn text_1_4(&self) -> String {
        let label = printable(&self.label);
        let wider = label.chars().count().saturating_sub(LABEL_WIDTH);
        let mib = self.size_mib.map_or_else(|| ABSENT.to_owned(), |mib| mib.to_string());
        let mut row = format!("{label:<LABEL_WIDTH$} {}*{mib:>4}", self.volumes);
        for test in Test::COLUMNS {
            let rate = match test {
                Test::Seeks => format!("{:>6}", self.rate(test, 1.0, 1)),
                _ => format!("{:>5}", self.rate(test, KIB, 0)),
            };
            row.push_str(&format!(" {rate} {:>4}", self.cpu(test)));
        }
        let heading = self.head.map_or(String::new(), |head| heading(head, wider));
        format!("{heading}{row}\n")
    }

    fn text_64(&self) -> String {
        let label = printable(&self.label);
        let wider = label.chars().count().saturating_sub(LABEL_WIDTH_64);
        let mut row = format!("{label:<LABEL_WIDTH_64$} {:>4}", self.gigabytes());
        for test in Test::COLUMNS {
            let rate = match test {
                Test::Seeks => format!("{:>6}", self.rate(test, 1.0, 0)),
                _ => format!("{:>5}", self.rate(test, MIB, 1)),
            };
            row.push_str(&format!(" {rate} {:>4}", self.cpu(test)));
        }
        let blanks = " ".repeat(wider);
        format!(
            "\t\t{blanks}-------Sequential Output-------- ---Sequential Input-- --Random--\n\
             \t\t{blanks}-Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---\n\
             Machine{blanks}    GB M/sec %CPU M/sec %CPU M/sec %CPU M/sec %CPU M/sec %CPU\t /sec %CPU\n\
             {row}\n"
        )
    }

    /// Size in thousands of MiB, with as many digits as needed. The original drops the decimals.
    fn gigabytes(&self) -> String {
        let Some(mib) = self.size_mib else { return "0".into() };
        let digits = format!("{}.{:03}", mib / MIB_PER_GB, mib % MIB_PER_GB);
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    fn html_1_4(&self) -> String {
        let mib = self.size_mib.map_or_else(|| ABSENT.to_owned(), |mib| mib.to_string());
        let mut row = format!("<TR><TD>{}</TD><TD>{mib} * {}</TD>", escaped(&self.label), self.volumes);
        for test in Test::COLUMNS {
            let rate = if test == Test::Seeks { self.rate(test, 1.0, 1) } else { self.rate(test, KIB, 0) };
            row.push_str(&format!("<TD>{rate}</TD><TD>{:>4}</TD>", self.cpu(test)));
        }
        format!("{row}</TR>\n")
    }

    fn html_64(&self) -> String {
        let wide = |columns: u32, rows: u32, text: &str| {
            format!("<td style=\"text-align: center;\" colspan=\"{columns}\" rowspan=\"{rows}\">{text}</td>")
        };
        let groups = [wide(6, 1, "Sequential Output"), wide(4, 1, "Sequential Input")].concat();
        let names =
            ["Per Char", "Block", "Rewrite", "Per Char", "Block"].map(|name| wide(2, 1, name)).concat();
        let units = "<td>K/sec</td><td>%CPU</td>".repeat(5);
        let mib = self.size_mib.map_or_else(|| ABSENT.to_owned(), |mib| mib.to_string());
        let mut row = format!("<td>{}</td><td>{mib}</td>", escaped(&self.label));
        for test in Test::COLUMNS {
            let rate = if test == Test::Seeks { self.rate(test, 1.0, 1) } else { self.rate(test, KIB, 0) };
            row.push_str(&format!("<td>{rate}</td><td>{}</td>", self.cpu(test)));
        }
        format!(
            "<table>\n<tr>\n<td></td><td></td>{groups}{}\n</tr>\n<tr>\n<td></td><td></td>{names}\n</tr>\n<tr>\n\
             <td>Machine</td><td>MB</td>{units}<td> /sec</td><td>%CPU</td>\n</tr>\n<tr>\n{row}\n</tr>\n</table>\n",
            wide(2, 2, "Random Seeks"),
        )
    }

    fn rate(&self, test: Test, unit: f64, decimals: usize) -> String {
        let rate = self[test].map(|measured| measured.per_second / unit).filter(|rate| rate.is_finite());
        rate.map_or_else(|| ABSENT.to_owned(), |rate| format!("{rate:.decimals$}"))
    }

    fn cpu(&self, test: Test) -> String {
        cpu_text(self[test].and_then(|measured| measured.cpu_percent))
    }
}

/// Rate that a test shows on stderr when it ends, in KiB per second.
pub(super) fn kib_text(measured: &TestRate) -> String {
    format!("{:.0}", measured.per_second / KIB)
}

/// A share of a CPU as the tables show it: "76.7", "112".
pub(super) fn cpu_text(percent: Option<f64>) -> String {
    match percent.filter(|percent| percent.is_finite()) {
        None => ABSENT.into(),
        Some(percent) if percent < WHOLE_PERCENT => format!("{percent:.1}"),
        Some(percent) => format!("{percent:.0}"),
    }
}

/// Converts K/sec to bytes per second.
pub(super) fn kib_to_bytes(kib: f64) -> f64 {
    kib * KIB
}

/// Converts M/sec to bytes per second.
pub(super) fn mib_to_bytes(mib: f64) -> f64 {
    mib * MIB
}

/// Converts a number in a column of GB to MiB; `None` for less than one MiB.
pub(super) fn mib_of_gigabytes(gigabytes: f64) -> Option<u64> {
    Some((gigabytes * MIB_PER_GB as f64).round() as u64).filter(|mib| *mib > 0)
}

/// The three lines above the row of bonnie 1.4; the label is `wider` characters longer than its column.
fn heading(head: Head, wider: usize) -> String {
    let blanks = " ".repeat(wider);
    let sync = if head.is_synced { "(sync)-----" } else { "(nosync)---" };
    let char = if head.is_unlocked { "-CharUnlk-" } else { "-Per Char-" };
    let block = if head.is_direct { "-DIOBlock-" } else { "--Block---" };
    let rewrite = if head.is_direct { "-DRewrite-" } else { "-Rewrite--" };
    let Head { thousands_of_seeks, seekers, .. } = head;
    format!(
        "{blanks}              ---Sequential Output {sync} ---Sequential Input-- --Rnd Seek-\n\
         {blanks}              {char} {block} {rewrite} {char} {block} --{thousands_of_seeks:02}k ({seekers:02})-\n\
         Machine{blanks}    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU   /sec %CPU\n"
    )
}

/// Escapes foreign text for HTML.
fn escaped(text: &str) -> String {
    let printable = printable(text);
    printable.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(program: Program, label: &str) -> Table {
        let mut table = Table::new(program, label);
        table.size_mib = Some(400);
        for test in Test::ALL {
            table[test] = Some(TestRate { per_second: 12_345.0 * KIB, cpu_percent: Some(12.0) });
        }
        table
    }

    #[test]
    fn columns_never_run_together_and_labels_are_whole() {
        let head = Head {
            is_synced: true,
            is_unlocked: true,
            is_direct: true,
            thousands_of_seeks: 100,
            seekers: 128,
        };
        for label in ["a", "testvm", "storage-node-12"] {
            for program in Program::ALL {
                let mut table = table(program, label);
                (table.volumes, table.size_mib, table.head) = (512, Some(1 << 20), Some(head));
                for test in Test::ALL {
                    table[test] = Some(TestRate { per_second: 1e15, cpu_percent: Some(11_234.0) });
                }
                let text = table.text();
                let row = text.lines().last().unwrap();
                assert_eq!(row.split_whitespace().count(), 14, "{row}");
                assert!(row.starts_with(label), "{row}");
            }
        }
        // The heading stays above the numbers if the label is longer than its column.
        let text = Table { head: Some(head), ..table(Program::V1_4, "storage-node-12") }.text();
        let ends = text.lines().skip(2).map(|line| line.find(" 12345 12.0").or(line.find(" K/sec %CPU")));
        let ends: Vec<_> = ends.collect();
        assert!(ends[0].is_some() && ends[0] == ends[1], "{text}");
    }

    #[test]
    fn cpu_percent_from_100_has_no_decimal() {
        let texts = [Some(0.0), Some(9.94), Some(99.94), Some(99.95), Some(185.4), None, Some(f64::NAN)];
        assert_eq!(texts.map(cpu_text), ["0.0", "9.9", "99.9", "100", "185", "-", "-"]);
    }

    #[test]
    fn size_below_one_gigabyte_is_not_shown_as_zero() {
        let gigabytes_text = |mib| Table { size_mib: mib, ..Table::new(Program::V64, "") }.gigabytes();
        let sizes = [None, Some(1), Some(400), Some(1000), Some(1536), Some(24_000)].map(gigabytes_text);
        assert_eq!(sizes, ["0", "0.001", "0.4", "1", "1.536", "24"]);
    }

    #[test]
    fn label_is_escaped_in_text_and_html() {
        let html = table(Program::V1_4, "<b>\u{1b}[31m&\"").html();
        assert!(
            html.contains("&lt;b&gt;") && html.contains("&amp;&quot;") && !html.contains('\u{1b}'),
            "{html}"
        );
        assert!(!table(Program::V64, "a\nb").text().contains("a\nb"));
    }

    #[test]
    fn results_are_in_the_order_of_the_tests() {
        let mut table = table(Program::V1_4, "ada");
        let head =
            Head { is_synced: false, is_unlocked: true, is_direct: false, thousands_of_seeks: 4, seekers: 3 };
        (table.head, table[Test::Rewrite]) = (Some(head), None);
        let results = table.results();
        let tests: Vec<_> = results.rates.iter().map(|rate| rate.test.as_str()).collect();
        assert_eq!(
            tests,
            ["putc write, unlocked", "block write", "getc read, unlocked", "block read", "seeks"]
        );
        assert_eq!((results.program.as_str(), results.name.as_str()), ("bonnie 1.4", "ada"));
        assert_eq!(results.rates[0].per_second, 12_345.0 * 1024.0);
    }
}
