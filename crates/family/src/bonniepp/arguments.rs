//! The command line of bonnie++: its flags, their ranges and suffixes, and its refusals.

use std::path::PathBuf;

use model::size;
use model::spec::DIRS_MAX;

use super::{Content, DEFAULT_CHUNK_BYTES, Layout};
use crate::dialect::{Dialect, Flag, flags, options};
use crate::words::{FlagParser, mib, scaled};

/// Allowed sizes of a chunk, in bytes.
const CHUNK_BYTES_RANGE: std::ops::RangeInclusive<u64> = 256..=1 << 20;
/// Default number of seeks.
pub const SEEKS: u64 = 8192;
/// Default number of threads that seek, since 1.96.
pub const SEEKERS: u32 = 5;
/// Default number of processes that seek, in 1.03.
const SEEKERS_OF_1_03: u32 = 3;
/// Largest number of threads that seek.
const SEEKERS_MAX: u32 = 1024;
/// Largest number of runs.
const RUNS_MAX: u32 = 100_000;
/// Largest number of copies of the test.
const CONCURRENCY_MAX: u32 = 200;
/// Most programs that meet.
pub const SEMAPHORE_MAX: u32 = 1000;
/// Default size of the tests byte by byte since 1.96, in MiB; its manual says 20.
const BYTE_TEST_MIB: u64 = 3;
/// Unit in which files are counted.
pub const FILES_UNIT: u64 = 1024;
/// Default number of files, in units.
const FILES_UNITS: u64 = 16;
/// Largest number of files, in units: as many as names can number.
const FILES_UNITS_MAX: u64 = (1 << 32) / FILES_UNIT;
/// Largest file of the tests on files, in bytes: one call could still be asked to write it.
const FILE_BYTES_MAX: u64 = 1 << 40;

options! {
    /// Options of a run: the work and the form of its results.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Options {
        /// Version whose work and formats are used.
        pub compat: Layout = Layout::V2_00,
        /// Directory to test in.
        pub directory: PathBuf = PathBuf::from("."),
        /// The tests on data; `None` with `-s 0`.
        pub data: Option<DataOptions> = Some(data_of(Layout::V2_00)),
        /// The tests on files; `None` with `-n 0`.
        pub files: Option<FileOptions> = Some(files_of(FILES_UNITS)),
        /// Number of copies of each test at once.
        pub concurrency: u32 = 1,
        /// True if each update and each file is made durable immediately.
        pub syncs_each: bool,
        /// True if tests in chunks bypass the page cache.
        pub direct: bool,
        /// Memory in MiB, if given; 0: no check of the file's size.
        pub memory_mib: Option<u64>,
        /// Memory of the server that has the directory, in bytes, if given.
        pub server_ram_bytes: Option<u64>,
        /// Number of runs; `None`: one, with a table.
        pub runs: Option<u32>,
        /// The name in the results.
        pub name: Option<String>,
        /// The user to become.
        pub user: Option<String>,
        /// The group to become.
        pub group: Option<String>,
        /// Source of random numbers.
        pub seed: Seed = Seed::Fresh,
        /// True if stdout has the CSV line alone.
        pub quiet: bool,
        /// File for the whole result.
        pub json: Option<PathBuf>,
        /// Seats to be made or removed, in place of a run.
        pub semaphore: Option<Semaphore>,
        /// Event that each test waits for.
        pub barrier: Barrier = Barrier::None,
        /// Given flags that have no effect.
        pub ignored: Vec<&'static str>,
    }
}

/// Options of the tests on data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataOptions {
    /// Size of each file, in MiB; `None`: derived from the memory.
    pub size_mib: Option<u64>,
    /// Bytes of each read and write.
    pub chunk_bytes: u64,
    /// Number of operations of the seek test.
    pub seeks: u64,
    /// Number of threads of the seek test.
    pub seekers: u32,
    /// Size of the tests byte by byte.
    pub bytes: ByteTests,
}

/// Seats of programs that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semaphore {
    /// Seats for this number of programs.
    Created(u32),
    /// None any more.
    Removed,
}

/// Event that each test waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// None.
    None,
    /// All programs with a seat have come to this test.
    Semaphore,
    /// The user presses Enter.
    Prompt,
}

/// Amount of data that the tests byte by byte move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteTests {
    /// Nothing: they are left out.
    None,
    /// This number of MiB.
    Mib(u64),
    /// The whole file.
    Whole,
}

/// Options of the tests on files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// Number of files, in units of [`FILES_UNIT`].
    pub units: u64,
    /// Kind and size of each file.
    pub content: Content,
    /// Number of directories that the files are spread over.
    pub dirs: u64,
    /// Bytes of each read and write.
    pub chunk_bytes: u64,
}

/// Source of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seed {
    /// A fresh seed.
    Fresh,
    /// This seed.
    Number(u64),
    /// The content of this file.
    File(PathBuf),
}

impl Dialect for Options {
    const NAME: &'static str = "bonnie++";
    const SIZE_FLAG: Option<&'static str> = Some("-s");
    const FORMATS: &'static str = "bonnie++ 1.03, 1.97, 2.00";
    const ABOUT: &'static str = "\
The twelve tests of bonnie++, measured by skye: its flags, its table and its CSV, and on stderr what limited each.";
    const CLOSING: &'static str = "\
Before each test, -y s waits at the barrier of -p, and -y p for Enter. In 1.03, -y is -y s.
-l is ignored. For one file server and several hosts: skye run --hosts.

Exit codes: 0 done, 1 refused or failed, 5 ended by INT in the data tests.";
    const FLAGS: &'static [Flag<Self>] = flags! { |options, flag|
        /// directory to test in [.]; skye creates a directory in it, and removes that at the end
        "-d DIR" => options.directory = flag.path()?,
        /// MiB of the file, or with g or t [twice the memory]; 0: no data tests.
        /// CHUNK: bytes per read and write, 256 to 1m [8k]; SEEKS [8192]; SEEKERS: threads [5]
        "-s SIZE[:CHUNK[:SEEKS[:SEEKERS]]]" => options.size(&flag.text()?)?,
        /// number of files, in units of 1024 [16]; 0: no file tests.
        /// MAX, MIN: bytes per file [0]; MAX -1: hard links, -2: symbolic links; DIRS [1].
        /// CHUNK: bytes per write [8k]
        "-n FILES[:MAX[:MIN[:DIRS[:CHUNK]]]]" => options.number(&flag.text()?)?,
        /// number of concurrent copies of each test, each with its own files [1]
        "-c COPIES" if after_1_03 => options.concurrency = flag.within(1..=CONCURRENCY_MAX, "copies")?,
        /// skip the tests byte by byte, or set their size in MiB [3]
        "-f[MIB]" => options.fast(flag)?,
        /// sync each update and each file
        "-b" => options.syncs_each = true,
        /// direct I/O in every test in chunks
        "-D" => options.direct = true,
        /// memory size; the file must have at least twice as much [this system's]; 0: no check
        "-r MIB" => options.memory_mib = Some(flag.parsed(
            |word| scaled(word, 1 << 20),
            "the memory in MiB, such as -r 8192, or -r 8g; -r 0 for no check",
        )? >> 20),
        /// number of runs, printed only as CSV with a header
        "-x RUNS" => options.runs = flag.parsed(runs, format_args!("0 to {RUNS_MAX} runs"))?,
        /// name in the results [hostname]
        "-m NAME" => options.name = Some(flag.label()?),
        /// run as this user, or USER:GROUP
        "-u USER[:GROUP]" => flag.user(&mut options.user, &mut options.group)?,
        /// run as this group
        "-g GROUP" => flag.group(&mut options.group)?,
        /// seed of offsets and names
        "-z SEED" if after_1_03 => options.seed = Seed::Number(flag.seed()?),
        /// file to read the seed from, instead of -z
        "-Z FILE" if after_1_03 => options.seed = Seed::File(flag.path()?),
        /// print only CSV on stdout; the table goes to stderr
        "-q" => options.quiet = true,
        /// workload and formats of that version; 1.96 equals 1.97 [2.00]
        "--compat 1.03|1.96|1.97|2.00" => *options = Self::for_layout(flag.parsed(layout, "1.03, 1.96, 1.97 or 2.00")?),
        /// write the full result as skye's document
        "--json FILE" => options.json = Some(flag.path()?),
        /// memory of the file server: reads of a smaller file may come from it
        "--server-ram MIB" => options.server_ram_bytes = Some(flag.parsed(
            |word| scaled(word, 1 << 20).filter(|bytes| *bytes > 0),
            "the server's memory in MiB, or such as 128g",
        )?),
        "-l LOG" if after_1_03 => {
            flag.value()?;
            options.ignored.push("-l");
        },
        /// create the barrier for N programs with -y s, and exit; -1 removes it
        "-p N" => options.semaphore = Some(flag.parsed(semaphore, format_args!("1 to {SEMAPHORE_MAX} programs, or -1"))?),
        "-y s|p" => options.barrier = match options.compat {
            // It had no value then.
            Layout::V1_03 => Barrier::Semaphore,
            _ => flag.parsed(barrier, "s for the barrier, or p for a prompt")?,
        },
    };

    fn finish(mut self) -> Result<Self, String> {
        // A size of 0, which a later -s may replace.
        self.data.take_if(|data| data.size_mib == Some(0));
        match (&self.data, &self.files) {
            (None, None) => Err("-s 0 and -n 0: no test remains; drop one of them".into()),
            _ if self.semaphore.is_some() && self.barrier != Barrier::None => {
                Err("-p creates the barrier and exits; pass -y only to the programs that wait at it".into())
            }
            _ => Ok(self),
        }
    }
}

fn semaphore(word: &str) -> Option<Semaphore> {
    match word {
        "-1" => Some(Semaphore::Removed),
        word => word.parse().ok().filter(|count| (1..=SEMAPHORE_MAX).contains(count)).map(Semaphore::Created),
    }
}

fn barrier(word: &str) -> Option<Barrier> {
    match word {
        "s" => Some(Barrier::Semaphore),
        "p" => Some(Barrier::Prompt),
        _ => None,
    }
}

fn after_1_03(options: &Options, flag: &str) -> Result<(), String> {
    match options.compat {
        Layout::V1_03 => Err(format!("{flag} is not in 1.03; drop it or --compat 1.03")),
        _ => Ok(()),
    }
}

fn layout(version: &str) -> Option<Layout> {
    match version {
        "1.03" | "1.03e" => Some(Layout::V1_03),
        "1.96" | "1.97" => Some(Layout::V1_97),
        "1.98" | "2.00" | "2.00a" => Some(Layout::V2_00),
        _ => None,
    }
}

/// Parses a number of runs; -1 is one run with a table.
fn runs(word: &str) -> Option<Option<u32>> {
    match word.trim() {
        "-1" => Some(None),
        word => word.parse().ok().filter(|runs| *runs <= RUNS_MAX).map(Some),
    }
}

/// Parses a part between colons. The default stands for an empty or missing part.
fn part<T>(
    parts: &[&str],
    index: usize,
    default: T,
    parse: impl FnOnce(&str) -> Option<T>,
    refusal: impl FnOnce(&str) -> String,
) -> Result<T, String> {
    match parts.get(index) {
        None | Some(&"") => Ok(default),
        Some(part) => parse(part).ok_or_else(|| refusal(part)),
    }
}

/// Parses the bytes of each read and write.
fn chunk(text: &str) -> Option<u64> {
    scaled(text, 1).filter(|bytes| bytes.is_power_of_two() && CHUNK_BYTES_RANGE.contains(bytes))
}

/// Returns the default options of the tests on data.
fn data_of(compat: Layout) -> DataOptions {
    let (seekers, bytes) = match compat {
        Layout::V1_03 => (SEEKERS_OF_1_03, ByteTests::Whole),
        Layout::V1_97 | Layout::V2_00 => (SEEKERS, ByteTests::Mib(BYTE_TEST_MIB)),
    };
    DataOptions { size_mib: None, chunk_bytes: DEFAULT_CHUNK_BYTES, seeks: SEEKS, seekers, bytes }
}

/// Returns the default options of the tests on files.
fn files_of(units: u64) -> FileOptions {
    FileOptions { units, content: Content::EMPTY, dirs: 1, chunk_bytes: DEFAULT_CHUNK_BYTES }
}

impl Options {
    fn for_layout(compat: Layout) -> Self {
        Self { compat, data: Some(data_of(compat)), ..Self::default() }
    }

    /// Options of the tests on data, which are there until [`Dialect::finish`].
    fn data(&mut self) -> &mut DataOptions {
        let compat = self.compat;
        self.data.get_or_insert_with(|| data_of(compat))
    }

    fn size(&mut self, word: &str) -> Result<(), String> {
        let parts: Vec<_> = word.split(':').map(str::trim).collect();
        let most = if self.compat == Layout::V1_03 { 2 } else { 4 };
        if parts.len() > most {
            return Err(format!(
                "-s `{word}` has {} parts; use {}",
                parts.len(),
                if most == 2 { "-s SIZE:CHUNK" } else { "-s SIZE:CHUNK:SEEKS:SEEKERS" }
            ));
        }
        let mib = mib(parts[0]).ok_or_else(|| {
            format!("-s `{}`: use whole MiB, such as -s 2048, or -s 2g; -s 0 for no data tests", parts[0])
        })?;
        let data = self.data();
        data.size_mib = Some(mib);
        if mib == 0 {
            return Ok(());
        }
        data.chunk_bytes = part(&parts, 1, data.chunk_bytes, chunk, |part| {
            format!(
                "-s `{word}`: chunk `{part}` is not a power of two from 256 to 1m; use -s {}:8k",
                parts[0]
            )
        })?;
        let seeks = |part: &str| scaled(part, 1).filter(|seeks| (1..=1 << 40).contains(seeks));
        data.seeks = part(&parts, 2, data.seeks, seeks, |part| {
            format!("-s `{word}`: `{part}` seeks; use 1 or more, such as -s {}:{}:8k", parts[0], parts[1])
        })?;
        let seekers = |part: &str| part.parse().ok().filter(|seekers| (1..=SEEKERS_MAX).contains(seekers));
        data.seekers = part(&parts, 3, data.seekers, seekers, |part| {
            format!("-s `{word}`: `{part}` seek threads; use 1 to {SEEKERS_MAX}")
        })?;
        if data.seeks < u64::from(data.seekers) {
            return Err(format!(
                "-s `{word}`: {} seeks are too few for {} threads; use at least one per thread",
                data.seeks, data.seekers
            ));
        }
        Ok(())
    }

    fn number(&mut self, word: &str) -> Result<(), String> {
        let is_1_03 = self.compat == Layout::V1_03;
        let parts: Vec<_> = word.split(':').map(str::trim).collect();
        let most = if is_1_03 { 4 } else { 5 };
        let form = if is_1_03 { "-n FILES:MAX:MIN:DIRS" } else { "-n FILES:MAX:MIN:DIRS:CHUNK" };
        if parts.len() > most {
            return Err(format!("-n `{word}` has {} parts; use {form}", parts.len()));
        }
        let files = scaled(parts[0], FILES_UNIT)
            .filter(|files| files.is_multiple_of(FILES_UNIT) && files / FILES_UNIT <= FILES_UNITS_MAX)
            .ok_or_else(|| {
                format!(
                    "-n `{}`: use units of 1024 files, 0 to {FILES_UNITS_MAX}, such as -n 16 for 16,384 files",
                    parts[0]
                )
            })?;
        if files == 0 {
            self.files = None;
            return Ok(());
        }
        let mut options = files_of(files / FILES_UNIT);
        let size_of = |index: usize, what: &str| {
            let size = |part: &str| scaled(part, 1).filter(|bytes| *bytes <= FILE_BYTES_MAX).map(Some);
            part(&parts, index, None, size, |part| {
                format!(
                    "-n `{word}`: {what} `{part}` is not a size from 0 to {}; use for example 64k{}",
                    size::exact(FILE_BYTES_MAX),
                    if what == "MAX" { ", -1 for hard or -2 for symbolic links" } else { "" }
                )
            })
        };
        let min_bytes = size_of(2, "MIN")?;
        options.content = match parts.get(1).copied() {
            Some("-1") => Content::HardLinks,
            Some("-2") => Content::SymbolicLinks,
            _ => {
                let max_bytes = size_of(1, "MAX")?.unwrap_or(0);
                // MAX alone is the size of all files.
                let min_bytes = min_bytes.unwrap_or(if parts.len() > 2 { 0 } else { max_bytes });
                if min_bytes > max_bytes {
                    return Err(format!(
                        "-n `{word}`: MIN {min_bytes} is larger than MAX {max_bytes}; use -n \
                         {}:{min_bytes}:{max_bytes}",
                        parts[0]
                    ));
                }
                Content::Sized { max_bytes, min_bytes }
            }
        };
        let dirs_max = DIRS_MAX.min(files);
        let dirs = |part: &str| scaled(part, 1).filter(|dirs| (1..=dirs_max).contains(dirs));
        options.dirs = part(&parts, 3, options.dirs, dirs, |part| {
            format!("-n `{word}`: `{part}` directories; use 1 to {dirs_max}")
        })?;
        options.chunk_bytes = part(&parts, 4, options.chunk_bytes, chunk, |part| {
            format!("-n `{word}`: chunk `{part}` is not a power of two from 256 to 1m")
        })?;
        self.files = Some(options);
        Ok(())
    }

    fn fast(&mut self, flag: &mut FlagParser) -> Result<(), String> {
        let allowed = "whole MiB, such as -f10, or -f alone to skip the tests byte by byte";
        // 1.03 takes no number.
        let mib = match self.compat != Layout::V1_03 && flag.has_number() {
            true => flag.parsed(mib, allowed)?,
            false => 0,
        };
        self.data().bytes = if mib == 0 { ByteTests::None } else { ByteTests::Mib(mib) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::dialect::Command;

    fn parsed(line: &str) -> Result<Command<Options>, String> {
        Options::parse(line.split(' ').filter(|word| !word.is_empty()).map(OsString::from))
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Ok(Command::Measure(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn data(line: &str) -> DataOptions {
        options(line).data.unwrap()
    }

    fn files(line: &str) -> FileOptions {
        options(line).files.unwrap()
    }

    #[test]
    fn defaults_equal_those_of_the_original() {
        let plain = options("");
        let bytes = ByteTests::Mib(3);
        let data = DataOptions { size_mib: None, chunk_bytes: 8192, seeks: 8192, seekers: 5, bytes };
        assert_eq!(plain.data, Some(data));
        let content = Content::EMPTY;
        let files = FileOptions { units: 16, content, dirs: 1, chunk_bytes: 8192 };
        assert_eq!(plain.files, Some(files));
        assert_eq!((plain.concurrency, plain.runs, plain.seed), (1, None, Seed::Fresh));
        let old = options("--compat 1.03").data.unwrap();
        assert_eq!((old.seekers, old.bytes), (3, ByteTests::Whole));
    }

    #[test]
    fn sizes_have_parts_and_suffixes() {
        for (word, mib) in [("1000", 1000), ("1000m", 1000), ("2g", 2048), ("2G", 2048), ("1t", 1 << 20)] {
            assert_eq!(data(&format!("-s {word}")).size_mib, Some(mib), "{word}");
        }
        let all = data("-s 512:64k:2k:16 -f");
        assert_eq!((all.chunk_bytes, all.seeks, all.seekers, all.bytes), (65_536, 2048, 16, ByteTests::None));
        assert_eq!((data("-s 512:1m").chunk_bytes, data("-s 512::100").seeks), (1 << 20, 100));
        assert_eq!(options("-s 0").data, None);
        // The later flag counts.
        assert_eq!(data("-s 0 -s 100").size_mib, Some(100));
        assert_eq!(data("-f -s 0 -s 100").bytes, ByteTests::None);
    }

    #[test]
    fn numbers_of_files_have_parts_and_suffixes() {
        let all = files("-n 16:4096:1024:4:4k");
        assert_eq!((all.units, all.dirs, all.chunk_bytes), (16, 4, 4096));
        assert_eq!(all.content, Content::Sized { min_bytes: 1024, max_bytes: 4096 });
        assert_eq!((files("-n 1m").units, files("-n 16k").units), (1024, 16));
        assert_eq!(files("-n 1:4k").content, Content::Sized { min_bytes: 4096, max_bytes: 4096 });
        assert_eq!(files("-n 1:4k:0").content, Content::Sized { min_bytes: 0, max_bytes: 4096 });
        assert_eq!(files("-n 1:-1").content, Content::HardLinks);
        assert_eq!(files("-n 1:-2:0:4").dirs, 4);
        assert_eq!(options("-n 0").files, None);
    }

    #[test]
    fn flags_may_be_joined_and_values_attached() {
        let joined =
            options("-bqD -d/mnt -m name -c4 -x 2 -z 42 -u bin:daemon -r 8G -f10 --json run.json -l x");
        assert!(joined.syncs_each && joined.quiet && joined.direct);
        assert_eq!((joined.directory, joined.name), ("/mnt".into(), Some("name".into())));
        assert_eq!((joined.concurrency, joined.runs, joined.seed), (4, Some(2), Seed::Number(42)));
        assert_eq!((joined.user.as_deref(), joined.group.as_deref()), (Some("bin"), Some("daemon")));
        assert_eq!((joined.memory_mib, joined.json), (Some(8192), Some("run.json".into())));
        assert_eq!(joined.data.unwrap().bytes, ByteTests::Mib(10));
        assert_eq!(joined.ignored, ["-l"]);
        assert_eq!(data("-f 10").bytes, ByteTests::Mib(10), "a number that stands apart");
        assert_eq!((data("-f -q").bytes, data("-f0").bytes), (ByteTests::None, ByteTests::None));
        assert_eq!(options("-x -1").runs, None);
        assert_eq!(parsed("-h"), Ok(Command::Help));
        assert_eq!(parsed("--version"), Ok(Command::Version));
    }

    #[test]
    fn refusal_states_flag_value_range_and_valid_example() {
        for (line, parts) in [
            ("-s 12x", &["-s `12x`", "whole MiB", "-s 2g"][..]),
            ("-s 512k", &["-s `512k`", "whole MiB"]),
            ("-s 1g:3000", &["`3000`", "256 to 1m", "-s 1g:8k"]),
            ("-s 1g:8k:0", &["`0` seeks", "1 or more"]),
            ("-s 1g:8k:3:5", &["3 seeks", "5 threads"]),
            ("-s 1g:8k:100:2000", &["`2000` seek threads", "1 to 1024"]),
            ("-s 1:2:3:4:5", &["5 parts", "SIZE:CHUNK:SEEKS:SEEKERS"]),
            ("-m a,b", &["-m `a,b`", "comma"]),
            ("--server-ram much", &["`much`", "128g"]),
            ("-n many", &["-n `many`", "such as -n 16"]),
            ("-n 16:1k:4k", &["MIN 4096", "MAX 1024", "-n 16:4096:1024"]),
            ("-n 16:-3", &["MAX `-3`", "-2 for symbolic links"]),
            ("-n 1:0:0:100000", &["`100000` directories", "1 to 1024"]),
            ("-n 1:4k:4k:1:3k", &["`3k`", "power of two"]),
            ("-c 201", &["-c `201`", "1 to 200"]),
            ("-c 0", &["-c `0`", "1 to 200"]),
            ("-r much", &["-r `much`", "-r 8g", "-r 0"]),
            ("-x often", &["-x `often`", "0 to 100000"]),
            ("-z 5000000000", &["-z `5000000000`", "4294967295"]),
            ("-f1x", &["-f `1x`", "-f10"]),
            ("-u a:b -g c", &["-g `c`", "`b`", "use either"]),
            ("-u :b", &["-u `:b`", "-u USER or -u USER:GROUP"]),
            ("-u --compat 1.03", &["`1.03` is not a flag's value"]),
            ("-p 0", &["-p `0`", "1 to 1000 programs, or -1"]),
            ("-p 2 -y s", &["-p creates the barrier", "pass -y only"]),
            ("-yx", &["-y `x`", "s for the barrier"]),
            ("-s 0 -n 0", &["-s 0 and -n 0"]),
            ("-w", &["-w is not a flag", "--help"]),
            ("--fast", &["--fast", "--help"]),
            ("/mnt", &["`/mnt`", "-d"]),
            ("-d", &["-d needs a value"]),
            ("--compat 3", &["--compat `3`", "1.03, 1.96, 1.97 or 2.00"]),
            ("--compat 1.03 -c 2", &["-c is not in 1.03"]),
            ("--compat=1.03 -s 1g:8k:10", &["3 parts", "SIZE:CHUNK"]),
        ] {
            let message = parsed(line).expect_err(line);
            for part in parts {
                assert!(message.contains(part), "{line}: {message}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_arguments_parse_without_panic(words: Vec<String>) {
            let _ = Options::parse(words.into_iter().map(OsString::from));
        }
    }
}
