//! The command lines of bonnie 1.4 and Bonnie-64: their flags, their ranges and suffixes, and their refusals.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use super::Program;
use crate::words::{self, scaled, text, unknown, value, within};

/// Default size of a volume, in MiB.
const SIZE_MIB: u64 = 100;
/// Allowed sizes of a volume, in MiB: 512 of the largest are still fewer bytes than a file offset can count.
const SIZE_MIB_RANGE: RangeInclusive<u64> = 1..=1 << 33;
/// Allowed numbers of volumes, as in the original.
const VOLUMES_RANGE: RangeInclusive<u64> = 1..=512;
/// Default number of seekers.
const SEEKERS: u32 = 3;
/// Allowed numbers of seekers, as in the original, which lowers larger numbers to the maximum.
const SEEKERS_RANGE: RangeInclusive<u64> = 1..=128;
/// Default number of seeks.
const SEEKS: u64 = 4000;
/// Allowed numbers of seeks. The original has no upper limit.
const SEEKS_RANGE: RangeInclusive<u64> = 1000..=1 << 40;

/// Help text of `-h` and `--help`.
pub const HELP: &str = "\
Usage: skye bonnie [-d DIR] [-s MIB] [-v VOLUMES] [-m LABEL] [-p SEEKERS] [-S SEEKS] [-y] [-u] [-o_direct]
                   [-html] [--reread] [-z SEED] [--json FILE]
       skye bonnie --compat 64 [-d DIR] [-s MIB] [-m LABEL] [-f txt|html] [-r] [--reread] [-z SEED] [--json FILE]

The six tests of bonnie 1.4, or of Bonnie-64, measured by skye: their flags and their table, and on stderr what limited
each.

  -d DIR      directory to test in [.]; a directory is made in it, and removed with all that is in it
  -s MIB      size of each volume, in MiB or with a suffix such as 16g [100]
  -v VOLUMES  1 to 512 files of that size, one after the other; the seeks go to all of them [1]
  -m LABEL    the name in the results [this host's]
  -p SEEKERS  1 to 128 threads that seek at once [3]
  -S SEEKS    how many they make together, 1000 or more [4000]
  -y          what the tests that write have written is made durable at the end of each, within its time
  -u          putc_unlocked and getc_unlocked, which do not lock the stream
  -o_direct   direct I/O in every test in chunks, the seeks too
  -html       a row of a table in HTML in place of text
  --reread    the rewrite reads each chunk again after it was written, as the page of bonnie 1.4 has it;
              without it, it does as its source: read, change, write back
  -z SEED     seed of offsets and data [a fresh one]
  --json FILE the whole result as skye's document
  --compat PROGRAM   1.4, or 64 for Bonnie-64 [1.4]; with 64 also:
  -f FORM     txt, or html for a whole table in HTML [txt]
  -r          ignored: data is always incompressible, as Bonnie-64 makes it with -r

A file that fits into the memory is read from there: write -s of twice the memory, or -o_direct.

Exit codes: 0 done, 1 refused or failed, 128 + N ended by signal N after removing its files.";

/// A parsed command line.
pub type Command = words::Command<Options>;

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A table of text.
    Text,
    /// HTML.
    Html,
}

/// Options of a run: the work and the form of its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Program whose work and formats are used.
    pub program: Program,
    /// Directory to test in.
    pub directory: PathBuf,
    /// Size of each volume, in MiB.
    pub size_mib: u64,
    /// Number of volumes: files of that size, one after the other.
    pub volumes: u64,
    /// The name in the results.
    pub label: Option<String>,
    /// Number of threads that seek.
    pub seekers: u32,
    /// Number of seeks of all threads together.
    pub seeks: u64,
    /// True if data is made durable at the end of each test that writes.
    pub syncs: bool,
    /// True if calls of the C library do not lock the stream.
    pub unlocked: bool,
    /// True if tests in chunks bypass the page cache.
    pub direct: bool,
    /// The form of the results.
    pub form: Form,
    /// True if the rewrite reads each chunk again after writing it.
    pub reread: bool,
    /// Seed of offsets and data; `None`: a fresh one.
    pub seed: Option<u64>,
    /// File for the whole result.
    pub json: Option<PathBuf>,
    /// Given flags that have no effect here.
    pub ignored: Vec<&'static str>,
}

impl Options {
    fn new(program: Program) -> Self {
        Self {
            program,
            directory: PathBuf::from("."),
            size_mib: SIZE_MIB,
            volumes: 1,
            label: None,
            seekers: SEEKERS,
            seeks: SEEKS,
            // Bonnie-64 always syncs.
            syncs: program == Program::V64,
            unlocked: false,
            direct: false,
            form: Form::Text,
            reread: false,
            seed: None,
            json: None,
            ignored: Vec::new(),
        }
    }

    /// Size of all volumes, in MiB.
    pub fn all_mib(&self) -> u64 {
        self.size_mib.saturating_mul(self.volumes)
    }
}

/// Parses the words after the program's name.
///
/// # Errors
/// One sentence: the flag, its value, the allowed values, and a remedy.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let words: Vec<_> = words.into_iter().collect();
    let mut options = Options::new(program_of(&words)?);
    let mut parser = Parser::from_args(words);
    loop {
        // The original has long flags with a single dash.
        if let Some(word) = long_word(&mut parser) {
            long_flag(&mut options, word)?;
            continue;
        }
        let Some(argument) = parser.next().map_err(unknown)? else { break };
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Short(letter) => flag(&mut options, letter, &mut parser)?,
            Arg::Long("compat") => drop(value("--compat", &mut parser)?),
            Arg::Long("reread") => options.reread = true,
            Arg::Long("json") => options.json = Some(value("--json", &mut parser)?.into()),
            Arg::Long(word) => {
                return Err(format!(
                    "--{word} is no flag of {}; --help shows them all",
                    options.program.name()
                ));
            }
            Arg::Value(word) => {
                return Err(format!(
                    "`{}` belongs to no flag; the directory to test in is given by -d",
                    word.to_string_lossy()
                ));
            }
        }
    }
    Ok(Command::Measure(Box::new(options)))
}

/// Finds the program first, because the meaning of all other words depends on it.
fn program_of(words: &[OsString]) -> Result<Program, String> {
    let mut program = Program::V1_4;
    for (index, word) in words.iter().enumerate() {
        let word = word.to_string_lossy();
        let named = match word.strip_prefix("--compat") {
            Some("") => {
                words.get(index + 1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
            }
            Some(rest) if rest.starts_with('=') => rest[1..].to_owned(),
            _ => continue,
        };
        program = match named.as_str() {
            "1.4" => Program::V1_4,
            "64" => Program::V64,
            _ => return Err(format!("--compat `{named}`: write 1.4, or 64 for Bonnie-64")),
        };
    }
    Ok(program)
}

/// Takes the next word if it is a long flag with a single dash.
fn long_word(parser: &mut Parser) -> Option<&'static str> {
    let mut words = parser.try_raw_args()?;
    let known = ["-html", "-o_direct"];
    known.into_iter().find(|known| words.next_if(|word| word == *known).is_some())
}

fn long_flag(options: &mut Options, word: &str) -> Result<(), String> {
    match (options.program, word) {
        (Program::V64, "-html") => {
            Err("-html is a flag of bonnie 1.4; with --compat 64 write -f html".into())
        }
        (Program::V64, _) => Err(of_the_other(options.program, word)),
        (Program::V1_4, "-html") => {
            options.form = Form::Html;
            Ok(())
        }
        (Program::V1_4, _) => {
            options.direct = true;
            Ok(())
        }
    }
}

fn of_the_other(program: Program, flag: &str) -> String {
    match program {
        Program::V1_4 => format!("{flag} is a flag of Bonnie-64; add --compat 64"),
        Program::V64 => format!("{flag} is a flag of bonnie 1.4; leave {flag} or --compat 64 away"),
    }
}

fn flag(options: &mut Options, letter: char, parser: &mut Parser) -> Result<(), String> {
    let name = format!("-{letter}");
    match (options.program, letter) {
        (_, 'd') => options.directory = value(&name, parser)?.into(),
        (_, 's') => options.size_mib = size(&text(&name, parser)?)?,
        (_, 'm') => options.label = Some(text(&name, parser)?),
        (_, 'z') => {
            let word = text(&name, parser)?;
            options.seed = Some(within(&name, &word, 0..=u64::from(u32::MAX), "as seed")?);
        }
        (Program::V1_4, 'v') => {
            options.volumes = within(&name, &text(&name, parser)?, VOLUMES_RANGE, "volumes")?;
        }
        (Program::V1_4, 'p') => {
            let seekers = within(&name, &text(&name, parser)?, SEEKERS_RANGE, "threads that seek")?;
            options.seekers = u32::try_from(seekers).unwrap_or(SEEKERS);
        }
        (Program::V1_4, 'S') => {
            let word = text(&name, parser)?;
            options.seeks =
                scaled(word.trim(), 1).filter(|seeks| SEEKS_RANGE.contains(seeks)).ok_or_else(|| {
                    format!("-S `{word}`: write {} or more seeks, such as -S {SEEKS}", SEEKS_RANGE.start())
                })?;
        }
        (Program::V1_4, 'y') => options.syncs = true,
        (Program::V1_4, 'u') => options.unlocked = true,
        (Program::V1_4, 'o') => return Err("-o alone is no flag of bonnie 1.4; write -o_direct".into()),
        (Program::V64, 'f') => {
            let word = text(&name, parser)?;
            options.form = match word.as_str() {
                "txt" | "TXT" => Form::Text,
                "html" | "HTML" => Form::Html,
                _ => return Err(format!("-f `{word}`: write -f txt or -f html")),
            };
        }
        (Program::V64, 'r') => options.ignored.push("-r"),
        (Program::V64, 'v' | 'p' | 'S' | 'y' | 'u') | (Program::V1_4, 'f' | 'r') => {
            return Err(of_the_other(options.program, &name));
        }
        (program, _) => {
            return Err(format!("{name} is no flag of {}; --help shows them all", program.name()));
        }
    }
    Ok(())
}

/// Parses whole MiB, with or without a suffix.
fn size(word: &str) -> Result<u64, String> {
    let bytes = scaled(word.trim(), 1 << 20).filter(|bytes| bytes.is_multiple_of(1 << 20));
    bytes.map(|bytes| bytes >> 20).filter(|mib| SIZE_MIB_RANGE.contains(mib)).ok_or_else(|| {
        format!("-s `{word}`: write whole MiB from 1 to {}, such as -s 2048, or -s 2g", SIZE_MIB_RANGE.end())
    })
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

    #[test]
    fn without_flags_it_is_what_the_original_does() {
        let plain = options("");
        assert_eq!((plain.size_mib, plain.volumes, plain.seekers, plain.seeks), (100, 1, 3, 4000));
        assert_eq!((plain.program, plain.form, plain.label), (Program::V1_4, Form::Text, None));
        assert!(!plain.syncs && !plain.unlocked && !plain.direct && !plain.reread);
        let old = options("--compat 64");
        assert_eq!((old.program, old.size_mib, old.syncs), (Program::V64, 100, true));
    }

    #[test]
    fn values_may_be_attached_or_separate() {
        for (words, mib) in [
            ("-s400", 400),
            ("-s 400", 400),
            ("-s 1g", 1024),
            ("-s2G", 2048),
            ("-s=7m", 7),
            ("-s 1t", 1 << 20),
        ] {
            assert_eq!(options(words).size_mib, mib, "{words}");
        }
        for words in ["-v 4 -p 8 -S 8k -m ada -d /mnt", "-v4 -p8 -S8192 -mada -d/mnt"] {
            let all = options(words);
            assert_eq!((all.volumes, all.seekers, all.seeks, all.all_mib()), (4, 8, 8192, 400), "{words}");
            assert_eq!((all.label.as_deref(), all.directory), (Some("ada"), "/mnt".into()), "{words}");
        }
        let all = options("-y -u -html -o_direct --reread -z 42 --json run.json");
        assert!(all.syncs && all.unlocked && all.direct && all.reread);
        assert_eq!((all.form, all.seed, all.json), (Form::Html, Some(42), Some("run.json".into())));
        let joined = options("-yus 7 -o_direct");
        assert!(joined.syncs && joined.unlocked && joined.direct && joined.size_mib == 7);
        // A value is never a flag, even if it looks like one.
        assert_eq!(options("-m -html").label.as_deref(), Some("-html"));
        for (form, is_html) in [("txt", false), ("TXT", false), ("html", true), ("HTML", true)] {
            let old = options(&format!("--compat=64 -f {form} -r -m x"));
            assert_eq!((old.form == Form::Html, old.ignored), (is_html, vec!["-r"]));
        }
        assert_eq!(parsed("-h"), Ok(Command::Help));
        assert_eq!(parsed("--version"), Ok(Command::Version));
    }

    #[test]
    fn refusals_say_flag_value_range_and_what_to_write() {
        for (line, parts) in [
            ("-s 0", &["-s `0`", "from 1 to", "-s 2g"][..]),
            ("-s 512k", &["-s `512k`", "whole MiB"]),
            ("-s many", &["-s `many`", "-s 2048"]),
            ("-s 99999999999", &["from 1 to 8589934592"]),
            ("-v 0", &["-v `0`", "1 to 512 volumes"]),
            ("-v 513", &["-v `513`", "1 to 512"]),
            ("-p 0", &["-p `0`", "1 to 128 threads"]),
            ("-p 129", &["-p `129`", "1 to 128"]),
            ("-S 999", &["-S `999`", "1000 or more", "-S 4000"]),
            ("-z -1", &["-z `-1`", "4294967295"]),
            ("-o", &["-o alone", "-o_direct"]),
            ("-f html", &["-f is a flag of Bonnie-64", "--compat 64"]),
            ("-r", &["-r is a flag of Bonnie-64"]),
            ("--compat 64 -y", &["-y is a flag of bonnie 1.4", "leave -y or --compat 64 away"]),
            ("--compat 64 -html", &["-f html"]),
            ("--compat 64 -o_direct", &["-o_direct is a flag of bonnie 1.4"]),
            ("--compat 64 -f pdf", &["-f `pdf`", "-f txt or -f html"]),
            ("--compat 65", &["--compat `65`", "1.4, or 64"]),
            ("-Y", &["-Y is no flag of bonnie 1.4", "--help"]),
            ("--fast", &["--fast", "--help"]),
            ("/mnt", &["`/mnt`", "-d"]),
            ("-d", &["-d takes a value"]),
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

        #[test]
        fn nor_is_any_flag(words in proptest::collection::vec("-{0,2}[dsmpSyvufhrzo]{0,2}[a-z0-9_=.]{0,8}", 0..6)) {
            let _ = parse(words.into_iter().map(OsString::from));
        }
    }
}
