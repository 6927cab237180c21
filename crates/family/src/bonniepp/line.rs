//! All values of one CSV line of bonnie++.

use std::ops::{Index, IndexMut};

use super::Cell;
use super::table::size_and_chunk;
use crate::results::{Rate, Results};

/// Default bytes of one read or write; lines do not show the default.
pub const DEFAULT_CHUNK_BYTES: u64 = 8192;
/// Default number of seeks.
pub(super) const DEFAULT_SEEKS: u64 = 8192;
/// Default number of threads that seek, since 1.9.
pub(super) const DEFAULT_SEEKERS: u64 = 5;

/// A layout of CSV lines and text tables, named by the version of bonnie++ that people know it from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// 1.03 and before: 27 fields, no latencies.
    V1_03,
    /// 1.96 and 1.97: 48 fields.
    V1_97,
    /// 1.98, 2.00 and 2.00a: 50 fields.
    V2_00,
}

impl Layout {
    /// All layouts, oldest first.
    pub const ALL: [Self; 3] = [Self::V1_03, Self::V1_97, Self::V2_00];

    /// Last version of the program that wrote such lines: "1.03e", "1.97", "2.00a".
    pub fn program_version(self) -> &'static str {
        match self {
            Self::V1_03 => "1.03e",
            Self::V1_97 => "1.97",
            Self::V2_00 => "2.00a",
        }
    }

    /// First field of a line; empty for 1.03, which has no such field.
    pub fn format_version(self) -> &'static str {
        match self {
            Self::V1_03 => "",
            Self::V1_97 => "1.97",
            // The format version was not raised with the program's version.
            Self::V2_00 => "1.98",
        }
    }

    /// Number of fields in a line.
    pub fn fields(self) -> usize {
        match self {
            Self::V1_03 => 27,
            Self::V1_97 => 48,
            Self::V2_00 => 50,
        }
    }

    /// True if lines and tables of this layout have latencies.
    pub fn has_latencies(self) -> bool {
        self != Self::V1_03
    }
}

/// One of the twelve tests, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// Writing byte after byte; KiB/s.
    PutChar,
    /// Writing chunk after chunk; KiB/s.
    PutBlock,
    /// Reading, changing and writing back chunk after chunk; KiB/s.
    Rewrite,
    /// Reading byte after byte; KiB/s.
    GetChar,
    /// Reading chunk after chunk; KiB/s.
    GetBlock,
    /// Reading chunks anywhere and writing some of them back; 1/s.
    Seeks,
    /// Creating files with numbered names; 1/s.
    SequentialCreate,
    /// Looking at these files, and reading those that are not empty; 1/s.
    SequentialStat,
    /// Removing them; 1/s.
    SequentialDelete,
    /// Creating files with random names; 1/s.
    RandomCreate,
    /// Looking at these files, and reading those that are not empty; 1/s.
    RandomStat,
    /// Removing them; 1/s.
    RandomDelete,
}

impl Test {
    /// All tests, in the order of the columns.
    pub const ALL: [Self; 12] = [
        Self::PutChar,
        Self::PutBlock,
        Self::Rewrite,
        Self::GetChar,
        Self::GetBlock,
        Self::Seeks,
        Self::SequentialCreate,
        Self::SequentialStat,
        Self::SequentialDelete,
        Self::RandomCreate,
        Self::RandomStat,
        Self::RandomDelete,
    ];

    /// The tests on data, which are the first six.
    pub fn data() -> &'static [Self] {
        &Self::ALL[..6]
    }

    /// The tests on files, which are the other six.
    pub fn files() -> &'static [Self] {
        &Self::ALL[6..]
    }

    /// Index in [`Test::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Word for the test in the names of columns: `putc`, `seq_create`.
    pub fn word(self) -> &'static str {
        match self {
            Self::PutChar => "putc",
            Self::PutBlock => "put_block",
            Self::Rewrite => "rewrite",
            Self::GetChar => "getc",
            Self::GetBlock => "get_block",
            Self::Seeks => "seeks",
            Self::SequentialCreate => "seq_create",
            Self::SequentialStat => "seq_stat",
            Self::SequentialDelete => "seq_del",
            Self::RandomCreate => "ran_create",
            Self::RandomStat => "ran_stat",
            Self::RandomDelete => "ran_del",
        }
    }

    /// Full name of the test, clear without any heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::PutChar => "Write per char",
            Self::PutBlock => "Write blocks",
            Self::Rewrite => "Rewrite",
            Self::GetChar => "Read per char",
            Self::GetBlock => "Read blocks",
            Self::Seeks => "Random seeks",
            Self::SequentialCreate => "Create, sequential",
            Self::SequentialStat => "Read, sequential",
            Self::SequentialDelete => "Delete, sequential",
            Self::RandomCreate => "Create, random",
            Self::RandomStat => "Read, random",
            Self::RandomDelete => "Delete, random",
        }
    }

    /// True if the rate is in KiB/s; otherwise it is in 1/s.
    pub fn is_bulk(self) -> bool {
        self.index() < Self::Seeks.index()
    }
}

/// Results of one test.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TestFigures {
    /// Rate in KiB/s or 1/s, see [`Test::is_bulk`].
    pub rate: Cell,
    /// Share of one processor, in percent.
    pub cpu: Cell,
    /// Longest time of one operation, in nanoseconds. Lines of 1.03 do not have it.
    pub latency_ns: Option<u64>,
}

/// Kind of the files in the tests on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Files of random sizes; empty ones if both are zero.
    Sized {
        /// Largest size, in bytes.
        max_bytes: u64,
        /// Smallest size, in bytes.
        min_bytes: u64,
    },
    /// Hard links to the first file.
    HardLinks,
    /// Symbolic links to the first file.
    SymbolicLinks,
}

impl Content {
    /// Files without content.
    pub const EMPTY: Self = Self::Sized { max_bytes: 0, min_bytes: 0 };

    /// Second and third column about the files: largest size or kind of link, and smallest size.
    pub(super) fn texts(self) -> [String; 2] {
        let text = |bytes: u64| if bytes == 0 { String::new() } else { bytes.to_string() };
        match self {
            Self::Sized { max_bytes, min_bytes } => [text(max_bytes), text(min_bytes)],
            Self::HardLinks => ["link".into(), String::new()],
            Self::SymbolicLinks => ["symlink".into(), String::new()],
        }
    }
}

/// One run of bonnie++.
///
/// Begin with [`Line::new`], set the known fields and call [`Line::measure`] for each test. `line[Test::Seeks]` has the
/// results of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Layout in which the line is written. It can be changed: values without a place in the new layout are not
    /// written.
    pub layout: Layout,
    /// Version of the layout in the first field; empty for 1.03.
    pub format_version: String,
    /// Version of the program. Lines of 1.03 do not have it.
    pub program_version: String,
    /// Name of the machine.
    pub name: String,
    /// Requested concurrency. Lines of 1.03 do not have it.
    pub concurrency: u64,
    /// Seed of random numbers, or path of the file that they come from. Lines of 1.03 do not have it.
    pub seed: String,
    /// Size of the file of the tests on data, in MiB, if there were any.
    pub file_size_mib: Option<u64>,
    /// Bytes of one read or write, if not [`DEFAULT_CHUNK_BYTES`]. Lines of 2.00 do not have them; its text table does.
    pub chunk_bytes: Option<u64>,
    /// Number of seeks. Only lines of 2.00 have it.
    pub seeks: Option<u64>,
    /// Number of threads that made the seeks. Only lines of 2.00 have it.
    pub seekers: Option<u64>,
    /// Number of files in the tests on files, in units of 1024, if there were any.
    pub num_files: Option<u64>,
    /// Kind of these files.
    pub content: Content,
    /// Number of directories that the files are spread over.
    pub directories: u64,
    /// Bytes of one read or write of a file. The originals never really write it, but lines that follow their
    /// documentation have it.
    pub file_chunk_bytes: Option<u64>,
    /// Results of the tests, in the order of [`Test::ALL`].
    pub results: [TestFigures; 12],
}

impl Line {
    /// A line without results, with the defaults of bonnie++ for all options.
    pub fn new(layout: Layout, name: impl Into<String>) -> Self {
        Self {
            layout,
            format_version: layout.format_version().into(),
            program_version: layout.program_version().into(),
            name: name.into(),
            concurrency: 1,
            seed: String::new(),
            file_size_mib: None,
            chunk_bytes: None,
            seeks: None,
            seekers: None,
            num_files: None,
            content: Content::EMPTY,
            directories: 1,
            file_chunk_bytes: None,
            results: [TestFigures::default(); 12],
        }
    }

    /// Sets the results of a test that took `elapsed_seconds`, rounded as in the layout.
    ///
    /// `per_second` is in KiB or operations. `cpu_seconds` is the CPU time of the test, `latency_ns` the longest time
    /// of one operation.
    pub fn measure(
        &mut self,
        test: Test,
        per_second: f64,
        elapsed_seconds: f64,
        cpu_seconds: Option<f64>,
        latency_ns: Option<u64>,
    ) {
        let rate = match test {
            Test::Seeks => Cell::seek_rate(self.layout, per_second, elapsed_seconds),
            _ => Cell::rate(per_second, elapsed_seconds),
        };
        let cpu = cpu_seconds.map_or(Cell::Absent, |seconds| Cell::cpu(seconds, elapsed_seconds));
        self[test] = TestFigures { rate, cpu, latency_ns };
    }

    /// True if there were tests on data.
    pub fn has_data(&self) -> bool {
        self.file_size_mib.is_some() || self.has_result(Test::data())
    }

    /// True if there were tests on files.
    pub fn has_files(&self) -> bool {
        self.num_files.is_some() || self.has_result(Test::files())
    }

    /// Returns the results in the common form of all programs. The name of each test has the size of its work, because
    /// the same test on another size is a different one.
    pub fn results(&self) -> Results {
        let on =
            |test: Test| if Test::data().contains(&test) { size_and_chunk(self) } else { self.files_text() };
        let rate = |test: Test| {
            let Cell::Number { value, .. } = self[test].rate else { return None };
            let title = format!("{} ({})", test.title(), on(test)).replace(" ()", "");
            let rate = match test.is_bulk() {
                true => Rate::from_bytes(title, value * 1024.0),
                false => Rate::from_operations(title, value),
            };
            let cpu = match self[test].cpu {
                Cell::Number { value, .. } => Some(value),
                _ => None,
            };
            Some(rate.with_cpu(cpu))
        };
        // Lines of 1.03 do not have the version that wrote them.
        let version = if self.program_version.is_empty() { "1.03" } else { &self.program_version };
        Results {
            program: format!("bonnie++ {version}"),
            name: self.name.clone(),
            rates: Test::ALL.into_iter().filter_map(rate).collect(),
        }
    }

    fn has_result(&self, tests: &[Test]) -> bool {
        tests.iter().any(|test| self[*test] != TestFigures::default())
    }

    /// Chunk size, if lines and tables show it.
    pub(super) fn unusual_chunk(&self) -> Option<u64> {
        self.chunk_bytes.filter(|bytes| *bytes != DEFAULT_CHUNK_BYTES)
    }

    /// Kind and number of the files, in one cell: `16`, `16:4096:1024/4`, `16:link`.
    pub(super) fn files_text(&self) -> String {
        let Some(files) = self.num_files else { return String::new() };
        let spread = self.directories > 1;
        let content = match self.content {
            Content::EMPTY => String::new(),
            // Readers that split at the colons find the directories after the third number.
            Content::Sized { max_bytes, min_bytes } if spread || min_bytes > 0 => {
                format!(":{max_bytes}:{min_bytes}")
            }
            Content::Sized { max_bytes, .. } => format!(":{max_bytes}"),
            Content::HardLinks => ":link".into(),
            Content::SymbolicLinks => ":symlink".into(),
        };
        let directories = if spread { format!("/{}", self.directories) } else { String::new() };
        format!("{files}{content}{directories}")
    }
}

impl Index<Test> for Line {
    type Output = TestFigures;

    fn index(&self, test: Test) -> &TestFigures {
        &self.results[test.index()]
    }
}

impl IndexMut<Test> for Line {
    fn index_mut(&mut self, test: Test) -> &mut TestFigures {
        &mut self.results[test.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_index_equals_its_position() {
        for (index, test) in Test::ALL.into_iter().enumerate() {
            assert_eq!(test.index(), index);
        }
        assert_eq!(Test::data().len() + Test::files().len(), Test::ALL.len());
        assert!(Test::GetBlock.is_bulk() && !Test::Seeks.is_bulk() && !Test::SequentialCreate.is_bulk());
    }

    #[test]
    fn line_is_made_from_measurements() {
        let mut line = Line::new(Layout::V2_00, "host");
        assert!(!line.has_data() && !line.has_files());
        line.measure(Test::PutBlock, 323_815.9, 6.4, Some(5.0), Some(73_049_999));
        line.measure(Test::Seeks, 99.96, 0.2, Some(0.1), None);
        assert_eq!(line[Test::PutBlock].rate.rate_text(), "323815");
        assert_eq!(line[Test::PutBlock].cpu.cpu_text(), "78");
        assert_eq!((line[Test::Seeks].rate, line[Test::Seeks].cpu), (Cell::TooFast, Cell::TooFast));
        assert!(line.has_data() && !line.has_files());
    }

    #[test]
    fn file_options_are_formatted_in_one_cell() {
        let mut line = Line::new(Layout::V1_03, "host");
        let mut formatted = |files, content, directories| {
            (line.num_files, line.content, line.directories) = (files, content, directories);
            line.files_text()
        };
        let sized = |max_bytes, min_bytes| Content::Sized { max_bytes, min_bytes };
        assert_eq!(formatted(None, Content::EMPTY, 1), "");
        assert_eq!(formatted(Some(16), Content::EMPTY, 1), "16");
        assert_eq!(formatted(Some(64), sized(4096, 512), 4), "64:4096:512/4");
        assert_eq!(formatted(Some(20), sized(250_000, 0), 1000), "20:250000:0/1000");
        assert_eq!(formatted(Some(20), sized(250_000, 0), 1), "20:250000");
        assert_eq!(formatted(Some(16), Content::HardLinks, 1), "16:link");
        assert_eq!(formatted(Some(16), Content::SymbolicLinks, 3), "16:symlink/3");
    }
}
