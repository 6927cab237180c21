//! The command line of bonnie++: its flags, their ranges and suffixes, and its refusals.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser};
use model::size;
use model::spec::DIRS_MAX;

use super::{Content, DEFAULT_CHUNK_BYTES, Layout};
use crate::words::{self, label, scaled, text, unknown, value, within};

/// Allowed sizes of a chunk, in bytes.
const CHUNK_BYTES_RANGE: std::ops::RangeInclusive<u64> = 256..=1 << 20;
/// Default number of seeks.
pub const SEEKS: u64 = 8192;
/// Default number of threads that seek, since 1.96.
pub const SEEKERS: u32 = 5;
/// Default number of processes that seek, in 1.03.
const SEEKERS_OF_1_03: u32 = 3;
/// Largest number of threads that seek.
const SEEKERS_MAX: u64 = 1024;
/// Largest number of copies of the test.
const CONCURRENCY_MAX: u64 = 200;
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

/// Help text of `-h` and `--help`.
pub const HELP: &str = "\
Usage: skye bonnie++ [-d DIR] [-s SIZE[:CHUNK[:SEEKS[:SEEKERS]]]] [-n FILES[:MAX[:MIN[:DIRS[:CHUNK]]]]]
                     [-c COPIES] [-f[MIB]] [-b] [-D] [-r MIB] [-x RUNS] [-m NAME] [-u USER[:GROUP]] [-g GROUP]
                     [-z SEED | -Z FILE] [-q] [--compat 1.03|1.96|1.97|2.00] [--json FILE] [--server-ram MIB]

The twelve tests of bonnie++, measured by skye: its flags, its table and its CSV, and on stderr what limited each.

  -d DIR    directory to test in [.]; a directory is made in it, and removed with all that is in it
  -s SIZE   MiB of the file, or with g or t [twice the memory]; 0: no tests on data
            CHUNK: bytes of each read and write, 256 to 1m [8k]; SEEKS [8192]; SEEKERS: threads [5]
  -n FILES  1024s of files [16]; 0: no tests on files
            MAX, MIN: bytes of each [0]; MAX -1: hard links, -2: symbolic links; DIRS [1]; CHUNK of their writes [8k]
  -c COPIES so many copies of each test at once, each with a file and files of its own [1]
  -f[MIB]   no tests byte by byte, or of so many MiB [3]
  -b        make each update and each file durable at once
  -D        direct I/O in every test in chunks
  -r MIB    the memory, which the file must exceed twice [what this system has]; 0: do not check
  -x RUNS   so many times, as CSV alone with a header
  -m NAME   the name in the results [this host's]
  -u USER   become this user, or USER:GROUP; -g GROUP
  -z SEED   seed of offsets and names; -Z FILE: taken from this file
  -q        CSV alone on stdout; the table goes to stderr
  --compat VERSION   work and formats of bonnie++ 1.03, 1.97 (1.96 is the same) or 2.00 [2.00]
  --json FILE        the whole result as skye's document
  --server-ram MIB   the memory of a file server: a smaller file may be read from there
  -l is ignored; -p and -y, which join several programs, come with the fleet.

Exit codes: 0 done, 1 refused or failed, 5 ended by INT in the tests on data.";

/// A parsed command line.
pub type Command = words::Command<Options>;

/// Options of a run: the work and the form of its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Version whose work and formats are used.
    pub compat: Layout,
    /// Directory to test in.
    pub directory: PathBuf,
    /// The tests on data; `None` with `-s 0`.
    pub data: Option<DataOptions>,
    /// The tests on files; `None` with `-n 0`.
    pub files: Option<FileOptions>,
    /// Number of copies of each test at once.
    pub concurrency: u32,
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
    pub seed: Seed,
    /// True if stdout has the CSV line alone.
    pub quiet: bool,
    /// File for the whole result.
    pub json: Option<PathBuf>,
    /// Given flags that have no effect.
    pub ignored: Vec<&'static str>,
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

/// Parses the words after the program's name.
///
/// # Errors
/// One sentence: the flag, its value, the allowed values, and a remedy.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let words: Vec<_> = words.into_iter().collect();
    let mut parsing = Parsing::new(compat_of(&words)?);
    let mut parser = Parser::from_args(words);
    while let Some(argument) = parser.next().map_err(unknown)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Short(flag) => parsing.flag(flag, &mut parser)?,
            Arg::Long("compat") => drop(value("--compat", &mut parser)?),
            Arg::Long("server-ram") => {
                let word = text("--server-ram", &mut parser)?;
                let bytes = scaled(&word, 1 << 20).filter(|bytes| *bytes > 0).ok_or_else(|| {
                    format!("--server-ram `{word}`: write the server's memory in MiB, or such as 128g")
                })?;
                parsing.options.server_ram_bytes = Some(bytes);
            }
            Arg::Long("json") => parsing.options.json = Some(value("--json", &mut parser)?.into()),
            Arg::Long(word) => return Err(format!("--{word} is no flag of bonnie++; --help shows them all")),
            Arg::Value(word) => {
                return Err(format!(
                    "`{}` belongs to no flag; the directory to test in is given by -d",
                    word.to_string_lossy()
                ));
            }
        }
    }
    parsing.finish().map(|options| Command::Measure(Box::new(options)))
}

/// Finds the version first, because the meaning of all other words depends on it.
fn compat_of(words: &[OsString]) -> Result<Layout, String> {
    let mut compat = Layout::V2_00;
    for (index, word) in words.iter().enumerate() {
        let word = word.to_string_lossy();
        let version = match word.strip_prefix("--compat") {
            Some("") => {
                words.get(index + 1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
            }
            Some(rest) if rest.starts_with('=') => rest[1..].to_owned(),
            _ => continue,
        };
        compat = match version.as_str() {
            "1.03" | "1.03e" => Layout::V1_03,
            "1.96" | "1.97" => Layout::V1_97,
            "1.98" | "2.00" | "2.00a" => Layout::V2_00,
            _ => return Err(format!("--compat `{version}`: write 1.03, 1.96, 1.97 or 2.00")),
        };
    }
    Ok(compat)
}

/// Returns a part between colons, unless it is empty.
fn given<'a>(parts: &[&'a str], index: usize) -> Option<&'a str> {
    parts.get(index).copied().filter(|part| !part.is_empty())
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

struct Parsing {
    options: Options,
    data: Option<DataOptions>,
    files: Option<FileOptions>,
    bytes: ByteTests,
}

impl Parsing {
    fn new(compat: Layout) -> Self {
        let data = data_of(compat);
        Self {
            bytes: data.bytes,
            data: Some(data),
            files: Some(FileOptions {
                units: FILES_UNITS,
                content: Content::EMPTY,
                dirs: 1,
                chunk_bytes: DEFAULT_CHUNK_BYTES,
            }),
            options: Options {
                compat,
                directory: PathBuf::from("."),
                data: None,
                files: None,
                concurrency: 1,
                syncs_each: false,
                direct: false,
                memory_mib: None,
                server_ram_bytes: None,
                runs: None,
                name: None,
                user: None,
                group: None,
                seed: Seed::Fresh,
                quiet: false,
                json: None,
                ignored: Vec::new(),
            },
        }
    }

    fn flag(&mut self, flag: char, parser: &mut Parser) -> Result<(), String> {
        let is_1_03 = self.options.compat == Layout::V1_03;
        let name = format!("-{flag}");
        if is_1_03 && matches!(flag, 'c' | 'z' | 'Z' | 'l') {
            return Err(format!("{name} came after 1.03; leave it or --compat 1.03 away"));
        }
        match flag {
            'b' => self.options.syncs_each = true,
            'D' => self.options.direct = true,
            'q' => self.options.quiet = true,
            'd' => self.options.directory = value(&name, parser)?.into(),
            'm' => self.options.name = Some(label(&name, parser)?),
            's' => self.size(&text(&name, parser)?)?,
            'n' => self.number(&text(&name, parser)?)?,
            'f' => self.fast(parser)?,
            'c' => {
                let word = text(&name, parser)?;
                self.options.concurrency = within(&name, &word, 1..=CONCURRENCY_MAX, "copies")? as u32;
            }
            'r' => {
                let word = text(&name, parser)?;
                let bytes = scaled(&word, 1 << 20).ok_or_else(|| {
                    format!(
                        "-r `{word}`: write the memory in MiB, such as -r 8192, or -r 8g; -r 0 for no check"
                    )
                })?;
                self.options.memory_mib = Some(bytes >> 20);
            }
            'x' => {
                let word = text(&name, parser)?;
                self.options.runs = match word.trim() {
                    "-1" => None,
                    word => Some(within(&name, word, 0..=100_000, "runs")? as u32),
                };
            }
            'u' => self.user(&text(&name, parser)?)?,
            'g' => self.group(text(&name, parser)?)?,
            'z' => {
                let word = text(&name, parser)?;
                self.options.seed = Seed::Number(within(&name, &word, 0..=u64::from(u32::MAX), "as seed")?);
            }
            'Z' => self.options.seed = Seed::File(value(&name, parser)?.into()),
            'l' => {
                drop(value(&name, parser)?);
                self.options.ignored.push("-l");
            }
            'p' | 'y' => {
                return Err(format!(
                    "{name}: several programs that start their tests together come with the fleet; -c N runs N copies \
                     in this one"
                ));
            }
            _ => return Err(format!("{name} is no flag of bonnie++; --help shows them all")),
        }
        Ok(())
    }

    fn size(&mut self, word: &str) -> Result<(), String> {
        let parts: Vec<_> = word.split(':').map(str::trim).collect();
        let most = if self.options.compat == Layout::V1_03 { 2 } else { 4 };
        if parts.len() > most {
            return Err(format!(
                "-s `{word}` has {} parts; write {}",
                parts.len(),
                if most == 2 { "-s SIZE:CHUNK" } else { "-s SIZE:CHUNK:SEEKS:SEEKERS" }
            ));
        }
        let bytes =
            scaled(parts[0], 1 << 20).filter(|bytes| bytes.is_multiple_of(1 << 20)).ok_or_else(|| {
                format!(
                    "-s `{}`: write whole MiB, such as -s 2048, or -s 2g; -s 0 for no tests on data",
                    parts[0]
                )
            })?;
        if bytes == 0 {
            self.data = None;
            return Ok(());
        }
        let data = self.data.get_or_insert_with(|| data_of(self.options.compat));
        data.size_mib = Some(bytes >> 20);
        if let Some(part) = given(&parts, 1) {
            data.chunk_bytes = chunk(part).ok_or_else(|| {
                format!(
                    "-s `{word}`: a chunk of `{part}` is no power of two from 256 to 1m; write -s {}:8k",
                    parts[0]
                )
            })?;
        }
        if let Some(part) = given(&parts, 2) {
            data.seeks = scaled(part, 1).filter(|seeks| (1..=1 << 40).contains(seeks)).ok_or_else(|| {
                format!(
                    "-s `{word}`: `{part}` seeks; write 1 or more, such as -s {}:{}:8k",
                    parts[0], parts[1]
                )
            })?;
        }
        if let Some(part) = given(&parts, 3) {
            let seekers = part.parse().ok().filter(|seekers| (1..=SEEKERS_MAX).contains(seekers));
            data.seekers = seekers
                .ok_or_else(|| format!("-s `{word}`: `{part}` threads that seek; write 1 to {SEEKERS_MAX}"))?
                as u32;
        }
        if data.seeks < u64::from(data.seekers) {
            return Err(format!(
                "-s `{word}`: {} seeks are too few for {} threads; write as many or more",
                data.seeks, data.seekers
            ));
        }
        Ok(())
    }

    fn number(&mut self, word: &str) -> Result<(), String> {
        let is_1_03 = self.options.compat == Layout::V1_03;
        let parts: Vec<_> = word.split(':').map(str::trim).collect();
        let most = if is_1_03 { 4 } else { 5 };
        let form = if is_1_03 { "-n FILES:MAX:MIN:DIRS" } else { "-n FILES:MAX:MIN:DIRS:CHUNK" };
        if parts.len() > most {
            return Err(format!("-n `{word}` has {} parts; write {form}", parts.len()));
        }
        let files = scaled(parts[0], FILES_UNIT)
            .filter(|files| files.is_multiple_of(FILES_UNIT) && files / FILES_UNIT <= FILES_UNITS_MAX)
            .ok_or_else(|| {
                format!(
                    "-n `{}`: write 1024s of files, 0 to {FILES_UNITS_MAX}, such as -n 16 for 16,384 of them",
                    parts[0]
                )
            })?;
        if files == 0 {
            self.files = None;
            return Ok(());
        }
        let mut options = FileOptions {
            units: files / FILES_UNIT,
            content: Content::EMPTY,
            dirs: 1,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
        };
        let size_of = |index: usize, what: &str| match given(&parts, index) {
            None => Ok(None),
            Some(part) => {
                let bytes = scaled(part, 1).filter(|bytes| *bytes <= FILE_BYTES_MAX);
                bytes.map(Some).ok_or_else(|| {
                    format!(
                        "-n `{word}`: {what} `{part}` is no size from 0 to {}; write for example 64k{}",
                        size::exact(FILE_BYTES_MAX),
                        if what == "MAX" { ", -1 for hard or -2 for symbolic links" } else { "" }
                    )
                })
            }
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
                        "-n `{word}`: MIN {min_bytes} is more than MAX {max_bytes}; write -n {}:{min_bytes}:{max_bytes}",
                        parts[0]
                    ));
                }
                Content::Sized { max_bytes, min_bytes }
            }
        };
        if let Some(part) = given(&parts, 3) {
            options.dirs =
                scaled(part, 1).filter(|dirs| (1..=DIRS_MAX.min(files)).contains(dirs)).ok_or_else(|| {
                    format!("-n `{word}`: `{part}` directories; write 1 to {}", DIRS_MAX.min(files))
                })?;
        }
        if let Some(part) = given(&parts, 4) {
            options.chunk_bytes = chunk(part).ok_or_else(|| {
                format!("-n `{word}`: a chunk of `{part}` is no power of two from 256 to 1m")
            })?;
        }
        self.files = Some(options);
        Ok(())
    }

    fn fast(&mut self, parser: &mut Parser) -> Result<(), String> {
        if self.options.compat == Layout::V1_03 {
            self.bytes = ByteTests::None;
            return Ok(());
        }
        // A number apart from the flag belongs to it, too: it could mean nothing else.
        let is_number = |word: &std::ffi::OsStr| {
            word.to_str().is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        };
        let apart = |parser: &mut Parser| parser.try_raw_args()?.next_if(is_number);
        let word = match parser.optional_value() {
            Some(word) => Some(word),
            None => apart(parser),
        };
        self.bytes = match word.as_ref().map(|word| word.to_string_lossy()) {
            None => ByteTests::None,
            Some(word) => {
                let bytes = scaled(&word, 1 << 20).filter(|bytes| bytes.is_multiple_of(1 << 20));
                match bytes.ok_or_else(|| {
                    format!(
                        "-f `{word}`: write whole MiB, such as -f10, or -f alone for no tests byte by byte"
                    )
                })? {
                    0 => ByteTests::None,
                    bytes => ByteTests::Mib(bytes >> 20),
                }
            }
        };
        Ok(())
    }

    fn user(&mut self, word: &str) -> Result<(), String> {
        match word.split_once(':') {
            Some((user, group)) => {
                self.options.user = Some(user.to_owned());
                self.group(group.to_owned())
            }
            None => {
                self.options.user = Some(word.to_owned());
                Ok(())
            }
        }
    }

    fn group(&mut self, group: String) -> Result<(), String> {
        match self.options.group.replace(group) {
            None => Ok(()),
            Some(before) => Err(format!(
                "-g `{}`: the group is `{before}` already; write one of -u USER:GROUP and -g GROUP",
                self.options.group.as_deref().unwrap_or_default()
            )),
        }
    }

    fn finish(mut self) -> Result<Options, String> {
        if self.data.is_none() && self.files.is_none() {
            return Err("-s 0 and -n 0: nothing is left to test; leave one of them away".into());
        }
        self.options.data = self.data.map(|data| DataOptions { bytes: self.bytes, ..data });
        self.options.files = self.files;
        Ok(self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split(' ').filter(|word| !word.is_empty()).map(OsString::from))
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
    fn without_flags_it_is_what_bonnie_does() {
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
    fn refusals_say_flag_value_range_and_what_to_write() {
        for (line, parts) in [
            ("-s 12x", &["-s `12x`", "whole MiB", "-s 2g"][..]),
            ("-s 512k", &["-s `512k`", "whole MiB"]),
            ("-s 1g:3000", &["`3000`", "256 to 1m", "-s 1g:8k"]),
            ("-s 1g:8k:0", &["`0` seeks", "1 or more"]),
            ("-s 1g:8k:3:5", &["3 seeks", "5 threads"]),
            ("-s 1g:8k:100:2000", &["`2000` threads", "1 to 1024"]),
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
            ("-u a:b -g c", &["-g `c`", "`b`", "one of"]),
            ("-p 2", &["-p", "fleet", "-c N"]),
            ("-ys", &["-y", "fleet"]),
            ("-s 0 -n 0", &["-s 0 and -n 0"]),
            ("-w", &["-w is no flag", "--help"]),
            ("--fast", &["--fast", "--help"]),
            ("/mnt", &["`/mnt`", "-d"]),
            ("-d", &["-d takes a value"]),
            ("--compat 3", &["--compat `3`", "1.03, 1.96, 1.97 or 2.00"]),
            ("--compat 1.03 -c 2", &["-c came after 1.03"]),
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
        fn no_word_is_too_strange(words: Vec<String>) {
            let _ = parse(words.into_iter().map(OsString::from));
        }
    }
}
