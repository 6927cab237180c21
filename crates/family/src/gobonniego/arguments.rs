//! The command line of GoBonnieGo: its flags, as Go's package `flag` understands them, and its refusals.
//!
//! Here, a flag of several letters may have one dash. The parsers of the other front ends do not allow that.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use model::nearest;
use model::spec::CONCURRENCY_MAX;
use model::workload::CacheMode;

use crate::words;

/// Default length of the IOPS test, in seconds.
pub const IOPS_SECONDS: f64 = 15.0;
/// Shortest and longest IOPS test, in seconds.
const IOPS_SECONDS_RANGE: RangeInclusive<f64> = 0.001..=1e6;
/// Smallest and largest size, in GiB: a MiB, because sizes are cut to whole MiB, and a PiB.
const SIZE_GIB_RANGE: RangeInclusive<f64> = 1.0 / 1024.0..=1_048_576.0;
/// Largest number of runs.
const RUNS_MAX: u64 = 1_000_000_000;
/// Longest time that `-seconds` can ask for, in seconds.
const SECONDS_MAX: u64 = 10_000_000;

/// Help text of `-h` and `-help`.
pub const HELP: &str = "\
Usage: skye gobonniego [-dir DIR] [-size GIB] [-threads N] [-runs N] [-seconds N] [-iops-duration SECONDS]
                       [-json] [-v] [-cache cold|as-is|drop-all] [-document FILE]

The three tests of GoBonnieGo, measured by skye: its flags, its lines and its JSON, and on stderr what limited each.
Sequential write and read in blocks of 64 KiB, then IOPS: reads and writes of 512 bytes at random places, nine reads to
a write, as GoBonnieGo really does it; its page says ten.

  -dir DIR   directory to test in, made if there is none [where temporary files go]; a directory is made in it, and
             removed with all that is in it
  -size GIB  over all threads, such as 0.5 [twice the memory]
  -threads N threads of each test, each with a file of its own [the CPUs]
  -runs N    how often [1]
  -seconds N go on with further runs until N seconds have passed [0]
  -iops-duration SECONDS   length of the IOPS test, such as 0.5 [15]
  -json      one line of JSON at the end, in place of lines of text
  -v         more on stderr: what was moved, and how long it took
  -version   which version's formats these are
  -cache cold      the files' own pages are dropped before reads and IOPS, and writes are made durable within their
                   time [this]
  -cache as-is     neither, as GoBonnieGo: what fits into the memory is read from there
  -cache drop-all  all caches of this machine are dropped before each test; root only, and every other program pays
  -document FILE   the whole result as skye's document; of the second run as FILE with .2 before its ending

A flag has one dash or two, and its value after a blank or an =. -json, -v and -version stand alone or take =false.

Exit codes: 0 done, 1 refused or failed, 2 a flag is wrong, 128 + N ended by signal N (INT 130, TERM 143) with the
results of all runs that were over.";

/// Flags that need no value.
const SWITCHES: [&str; 3] = ["json", "v", "version"];
/// All flags.
const FLAGS: [&str; 13] = [
    "dir",
    "size",
    "threads",
    "runs",
    "seconds",
    "iops-duration",
    "json",
    "v",
    "version",
    "cache",
    "document",
    "h",
    "help",
];

/// A parsed command line.
pub type Command = words::Command<Options>;

/// Options of a run: the work and the form of its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Directory to test in; `None`: the directory of temporary files.
    pub directory: Option<PathBuf>,
    /// Size over all threads, in GiB; `None`: derived from the memory.
    pub size_gib: Option<f64>,
    /// Threads of each test; `None`: the number of CPUs.
    pub threads: Option<u32>,
    /// Least number of runs.
    pub runs: u64,
    /// Least time for which runs go on, in seconds.
    pub seconds: u64,
    /// Length of the IOPS test in seconds.
    pub iops_seconds: f64,
    /// True if JSON at the end replaces the lines of text.
    pub json: bool,
    /// True if stderr has the details.
    pub verbose: bool,
    /// Caches that are dropped before a test.
    pub cache: CacheMode,
    /// File for the whole result.
    pub document: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            directory: None,
            size_gib: None,
            threads: None,
            runs: 1,
            seconds: 0,
            iops_seconds: IOPS_SECONDS,
            json: false,
            verbose: false,
            cache: CacheMode::Cold,
            document: None,
        }
    }
}

/// Parses the words after the program's name.
///
/// # Errors
/// One sentence: the flag, its value, the allowed values, and a remedy.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut words = words.into_iter();
    let mut options = Options::default();
    let mut shows_version = false;
    while let Some(word) = words.next() {
        let Some(Flag { name, value }) = Flag::of(&word, &mut words)? else { break };
        match name.as_str() {
            "h" | "help" => return Ok(Command::Help),
            "version" => shows_version = switch(&name, value)?,
            "json" => options.json = switch(&name, value)?,
            "v" => options.verbose = switch(&name, value)?,
            "dir" => options.directory = Some(path(&name, value)?),
            "document" => options.document = Some(path(&name, value)?),
            "size" => options.size_gib = Some(decimal(&name, value, SIZE_GIB_RANGE, "GiB", "0.5")?),
            "iops-duration" => {
                options.iops_seconds = decimal(&name, value, IOPS_SECONDS_RANGE, "seconds", "0.5")?;
            }
            "threads" => {
                options.threads =
                    Some(whole(&name, value, 1..=u64::from(CONCURRENCY_MAX), "threads")? as u32);
            }
            "runs" => options.runs = whole(&name, value, 0..=RUNS_MAX, "runs")?,
            "seconds" => options.seconds = whole(&name, value, 0..=SECONDS_MAX, "seconds")?,
            "cache" => options.cache = cache(value)?,
            _ => return Err(unknown(&name)),
        }
    }
    if shows_version {
        return Ok(Command::Version);
    }
    if options.runs == 0 && options.seconds == 0 {
        return Err(
            "-runs 0 without -seconds: nothing is left to measure; write -runs 1, or -seconds 60".into()
        );
    }
    Ok(Command::Measure(Box::new(options)))
}

/// A flag with its value, if it has one.
struct Flag {
    name: String,
    value: Option<OsString>,
}

impl Flag {
    /// Returns the flag that a word begins, or `None` if the word ends the flags, as `--` does.
    fn of(word: &OsStr, rest: &mut impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let shown = word.to_string_lossy();
        if shown == "--" {
            return rest.next().map_or(Ok(None), |word| Err(leftover(&word.to_string_lossy())));
        }
        let bytes = word.as_bytes();
        let after =
            bytes.strip_prefix(b"-").filter(|after| !after.is_empty()).ok_or_else(|| leftover(&shown))?;
        let after = after.strip_prefix(b"-").unwrap_or(after);
        let end = after.iter().position(|byte| *byte == b'=');
        let (name, value) = match end {
            Some(end) => (&after[..end], Some(OsString::from_vec(after[end + 1..].to_vec()))),
            None => (after, None),
        };
        let name = String::from_utf8_lossy(name).into_owned();
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("`{shown}` is no flag of gobonniego; -h shows them all"));
        }
        // An unknown flag must not take the next word with it.
        let takes_value = FLAGS.contains(&name.as_str())
            && !SWITCHES.contains(&name.as_str())
            && !matches!(name.as_str(), "h" | "help");
        let value = if takes_value { value.or_else(|| rest.next()) } else { value };
        Ok(Some(Self { name, value }))
    }
}

fn unknown(name: &str) -> String {
    match nearest(name, FLAGS) {
        Some(near) => format!("-{name} is no flag of gobonniego, did you mean -{near}? -h shows them all"),
        None => format!("-{name} is no flag of gobonniego; -h shows them all"),
    }
}

/// Error message for a word that is no flag. The original ignores it, and all flags that follow it.
fn leftover(word: &str) -> String {
    if boolean(word).is_some() {
        return format!(
            "`{word}` belongs to no flag; a switch takes its value after an =, such as -json={word}"
        );
    }
    format!("`{word}` belongs to no flag; the directory to test in is given by -dir")
}

/// Parses the words that Go accepts as a truth value.
fn boolean(word: &str) -> Option<bool> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn switch(flag: &str, value: Option<OsString>) -> Result<bool, String> {
    let Some(word) = value else { return Ok(true) };
    let word = word.to_string_lossy();
    boolean(&word).ok_or_else(|| format!("-{flag}=`{word}`: write -{flag}, -{flag}=true or -{flag}=false"))
}

fn given(flag: &str, value: Option<OsString>) -> Result<OsString, String> {
    value.ok_or_else(|| format!("-{flag} takes a value and has none; -h shows all flags"))
}

fn path(flag: &str, value: Option<OsString>) -> Result<PathBuf, String> {
    let word = given(flag, value)?;
    if word.is_empty() {
        return Err(format!("-{flag} has an empty value; write a name, or leave -{flag} away"));
    }
    Ok(word.into())
}

fn within<N: FromStr + PartialOrd>(word: &OsStr, range: &RangeInclusive<N>) -> Option<N> {
    word.to_str()?.trim().parse().ok().filter(|number| range.contains(number))
}

fn whole(flag: &str, value: Option<OsString>, range: RangeInclusive<u64>, what: &str) -> Result<u64, String> {
    let word = given(flag, value)?;
    within(&word, &range).ok_or_else(|| {
        format!("-{flag} `{}`: write {} to {} {what}", word.to_string_lossy(), range.start(), range.end())
    })
}

/// Parses a number that may have a fraction. A number that is not finite is in no range.
fn decimal(
    flag: &str,
    value: Option<OsString>,
    range: RangeInclusive<f64>,
    unit: &str,
    example: &str,
) -> Result<f64, String> {
    let word = given(flag, value)?;
    within(&word, &range).ok_or_else(|| {
        // The smallest number is shown as people would write it.
        format!(
            "-{flag} `{}`: write {unit} as a number, 0.001 to {}, such as -{flag} {example}",
            word.to_string_lossy(),
            range.end()
        )
    })
}

fn cache(value: Option<OsString>) -> Result<CacheMode, String> {
    let word = given("cache", value)?;
    match word.to_str() {
        Some("cold") => Ok(CacheMode::Cold),
        Some("as-is") => Ok(CacheMode::AsIs),
        Some("drop-all") => Ok(CacheMode::DropAll),
        _ => Err(format!("-cache `{}`: write cold, as-is or drop-all", word.to_string_lossy())),
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

    #[test]
    fn without_flags_it_is_what_gobonniego_does() {
        let plain = options("");
        assert_eq!(plain, Options::default());
        assert_eq!((plain.runs, plain.seconds, plain.iops_seconds), (1, 0, 15.0));
        assert_eq!((plain.directory, plain.size_gib, plain.threads), (None, None, None));
        assert!(!plain.json && !plain.verbose);
    }

    #[test]
    fn flags_have_one_dash_or_two_and_values_after_a_blank_or_an_equals_sign() {
        let expected = Options {
            directory: Some("/mnt".into()),
            size_gib: Some(0.5),
            threads: Some(8),
            runs: 2,
            seconds: 3600,
            iops_seconds: 0.25,
            json: true,
            verbose: true,
            cache: CacheMode::AsIs,
            document: Some("run.json".into()),
        };
        for line in [
            "-dir /mnt -size 0.5 -threads 8 -runs 2 -seconds 3600 -iops-duration 0.25 -json -v -cache as-is -document run.json",
            "--dir /mnt --size 0.5 --threads 8 --runs 2 --seconds 3600 --iops-duration 0.25 --json --v --cache as-is --document run.json",
            "-dir=/mnt --size=0.5 -threads=8 --runs=2 -seconds=3600 --iops-duration=0.25 -json=true -v=1 -cache=as-is --document=run.json",
            "-size 9 -json=false -dir=/mnt -size=.5 -threads 8 -runs 2 -seconds 3600 -iops-duration 2.5e-1 -json=T -v -cache as-is -document run.json",
            "-dir /mnt -size 0.5 -threads 8 -runs 2 -seconds 3600 -iops-duration 0.25 -json -v -cache as-is -document run.json --",
        ] {
            assert_eq!(options(line), expected, "{line}");
        }
        assert!(!options("-json -json=false -v=0").json);
        // A value is taken as it is.
        assert_eq!(options("-dir -json").directory, Some("-json".into()));
        assert_eq!(options("-dir=a=b").directory, Some("a=b".into()));
        assert_eq!(options("-runs 0 -seconds 1").runs, 0);
        for line in ["-h", "--help", "-help", "-h -size 0", "-json -h"] {
            assert_eq!(parsed(line), Ok(Command::Help), "{line}");
        }
        assert_eq!(parsed("-version"), Ok(Command::Version));
        assert_eq!(parsed("-runs 0 --version=true"), Ok(Command::Version));
        assert!(matches!(parsed("-version=false"), Ok(Command::Measure(_))));
    }

    #[test]
    fn names_need_not_be_text() {
        let word = OsString::from_vec(b"-dir=/mnt/\xff".to_vec());
        let Ok(Command::Measure(options)) = parse([word]) else { panic!("it is refused") };
        assert_eq!(options.directory, Some(OsString::from_vec(b"/mnt/\xff".to_vec()).into()));
    }

    #[test]
    fn refusals_say_flag_value_range_and_what_to_write() {
        for (line, parts) in [
            ("-threads 0", &["-threads `0`", "1 to 4096 threads"][..]),
            ("-threads -1", &["-threads `-1`", "1 to 4096"]),
            ("-threads 2.5", &["-threads `2.5`", "1 to 4096"]),
            ("-size 0", &["-size `0`", "GiB", "0.001 to 1048576", "-size 0.5"]),
            ("-size 4g", &["-size `4g`", "-size 0.5"]),
            ("-size NaN", &["-size `NaN`", "-size 0.5"]),
            ("-size inf", &["-size `inf`", "-size 0.5"]),
            ("-runs -1", &["-runs `-1`", "0 to 1000000000 runs"]),
            ("-runs 0", &["-runs 0", "-runs 1", "-seconds 60"]),
            ("-seconds 1.5", &["-seconds `1.5`", "0 to 10000000 seconds"]),
            ("-iops-duration 0", &["-iops-duration `0`", "0.001 to 1000000", "-iops-duration 0.5"]),
            ("-json=maybe", &["-json=`maybe`", "-json=false"]),
            ("-json false", &["`false` belongs to no flag", "-json=false"]),
            ("-cache warm", &["-cache `warm`", "cold, as-is or drop-all"]),
            ("-dir", &["-dir takes a value"]),
            ("-dir=", &["-dir has an empty value"]),
            ("-document=", &["-document has an empty value"]),
            ("-sise 1", &["-sise is no flag", "did you mean -size?"]),
            ("-w", &["-w is no flag", "-h"]),
            ("--", &[]),
            ("-- x", &["`x` belongs to no flag"]),
            ("---json", &["`---json` is no flag"]),
            ("-=1", &["`-=1` is no flag"]),
            ("-", &["`-` belongs to no flag"]),
            ("/mnt", &["`/mnt`", "-dir"]),
        ] {
            let Err(message) = parsed(line) else {
                assert!(parts.is_empty(), "{line} is not refused");
                continue;
            };
            for part in parts {
                assert!(message.contains(part), "{line}: {message}");
            }
        }
    }

    #[test]
    fn every_flag_is_in_the_help() {
        for flag in FLAGS.iter().filter(|flag| !matches!(**flag, "h" | "help")) {
            assert!(HELP.contains(&format!("  -{flag} ")), "{flag}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_word_is_too_strange(words: Vec<String>) {
            let _ = parse(words.into_iter().map(OsString::from));
        }

        #[test]
        fn no_flag_is_too_strange(
            words in proptest::collection::vec("-{0,3}(dir|size|threads|runs|seconds|json|v|cache|x)?=?.{0,4}", 0..6),
        ) {
            if let Ok(Command::Measure(options)) = parse(words.into_iter().map(OsString::from)) {
                proptest::prop_assert!(options.size_gib.is_none_or(|size| size.is_finite() && size > 0.0));
                proptest::prop_assert!(options.threads.is_none_or(|threads| threads > 0));
            }
        }
    }
}
