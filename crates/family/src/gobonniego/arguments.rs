//! The command line of GoBonnieGo: its flags, as Go's package `flag` understands them, and its refusals.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use model::spec::CONCURRENCY_MAX;
use model::workload::CacheMode;

use crate::dialect::{Dialect, Flag, flags, options};
use crate::words::FlagParser;

/// Default length of the IOPS test, in seconds.
pub const IOPS_SECONDS: f64 = 15.0;
/// Shortest and longest IOPS test, in seconds.
const IOPS_SECONDS_RANGE: RangeInclusive<f64> = 0.001..=1e6;
/// Smallest and largest size, in GiB: a MiB, because sizes are cut to whole MiB, and a PiB.
const SIZE_GIB_RANGE: RangeInclusive<f64> = 1.0 / 1024.0..=1_048_576.0;
/// Largest number of runs.
const RUNS_MAX: u64 = 1_000_000_000;
/// Maximum of `-seconds`, in seconds.
const SECONDS_MAX: u64 = 10_000_000;

options! {
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
        pub runs: u64 = 1,
        /// Least time for which runs go on, in seconds.
        pub seconds: u64,
        /// Length of the IOPS test in seconds.
        pub iops_seconds: f64 = IOPS_SECONDS,
        /// True if JSON at the end replaces the lines of text.
        pub json: bool,
        /// True if stderr has the details.
        pub verbose: bool,
        /// Caches that are dropped before a test.
        pub cache: CacheMode = CacheMode::Cold,
        /// File for the whole result.
        pub document: Option<PathBuf>,
    }
}

impl Dialect for Options {
    const NAME: &'static str = "gobonniego";
    const SIZE_FLAG: Option<&'static str> = Some("-size");
    const FORMATS: &'static str = super::VERSION;
    const IS_GO: bool = true;
    const ABOUT: &'static str = "\
The three tests of GoBonnieGo, measured by skye: its flags, its lines and its JSON, and on stderr what limited each.
Sequential write and read in blocks of 64 KiB, then IOPS: reads and writes of 512 bytes at random offsets, nine reads
per write, as in GoBonnieGo's code; its documentation has ten.";
    const CLOSING: &'static str = "\
A flag has one dash or two, and its value follows a blank or an =. -json, -v and -version have no value, or =false.

Exit codes: 0 done, 1 refused or failed, 2 a flag is wrong, 128 + N ended by signal N (INT 130, TERM 143) with the
results of all finished runs.";
    const FLAGS: &'static [Flag<Self>] = flags! { |options, flag|
        /// directory to test in, created if missing [the directory of temporary files]. skye creates a directory in
        /// it, and removes that at the end
        "-dir DIR" => options.directory = Some(flag.path()?),
        /// total size of all threads, such as 0.5 [twice the memory]
        "-size GIB" => options.size_gib = Some(decimal(flag, SIZE_GIB_RANGE, "GiB")?),
        /// threads of each test, each with its own file [one per CPU]
        "-threads N" => options.threads = Some(flag.within(1..=CONCURRENCY_MAX, "threads")?),
        /// number of runs [1]
        "-runs N" => options.runs = flag.within(0..=RUNS_MAX, "runs")?,
        /// continue with more runs until N seconds have passed [0]
        "-seconds N" => options.seconds = flag.within(0..=SECONDS_MAX, "seconds")?,
        /// length of the IOPS test, such as 0.5 [15]
        "-iops-duration SECONDS" => options.iops_seconds = decimal(flag, IOPS_SECONDS_RANGE, "seconds")?,
        /// print one line of JSON at the end instead of text
        "-json" => options.json = flag.switch()?,
        /// print bytes and durations on stderr
        "-v" => options.verbose = flag.switch()?,
        /// version of GoBonnieGo that has these formats
        "-version" => flag.shows_version = flag.switch()?,
        /// caches to drop [cold]
        /// - cold: the files' own pages before reads and IOPS; writes are synced within their time
        /// - as-is: none, as in GoBonnieGo: data that fits into memory is read from memory
        /// - drop-all: all of this machine before each test; root only, slows down every other program
        "-cache cold|as-is|drop-all" => options.cache = flag.choice(
            &[("cold", CacheMode::Cold), ("as-is", CacheMode::AsIs), ("drop-all", CacheMode::DropAll)],
            "cold, as-is or drop-all",
        )?,
        /// write the full result as skye's document; the second run's FILE has .2 before its extension
        "-document FILE" => options.document = Some(flag.path()?),
    };

    fn version(of_skye: &str) -> String {
        format!("gobonniego version {} (skye {of_skye})", Self::FORMATS)
    }

    fn finish(self) -> Result<Self, String> {
        match (self.runs, self.seconds) {
            (0, 0) => Err("-runs 0 without -seconds: nothing to measure; use -runs 1, or -seconds 60".into()),
            _ => Ok(self),
        }
    }
}

/// Takes a number that may have a fraction. A number that is not finite is in no range.
fn decimal(flag: &mut FlagParser, range: RangeInclusive<f64>, unit: &str) -> Result<f64, String> {
    // The smallest number is shown as people would write it.
    let allowed = format!("{unit} as a number, 0.001 to {}, such as {} 0.5", range.end(), flag.name);
    flag.parsed(|word| word.trim().parse().ok().filter(|number| range.contains(number)), allowed)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

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

    #[test]
    fn defaults_equal_those_of_the_original() {
        let plain = options("");
        assert_eq!(plain, Options::default());
        assert_eq!((plain.runs, plain.seconds, plain.iops_seconds), (1, 0, 15.0));
        assert_eq!((plain.directory, plain.size_gib, plain.threads), (None, None, None));
        assert!(!plain.json && !plain.verbose);
    }

    #[test]
    fn flags_accept_one_or_two_dashes_and_equals_sign() {
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
    fn non_utf8_directory_name_is_accepted() {
        let word = OsString::from_vec(b"-dir=/mnt/\xff".to_vec());
        let Ok(Command::Measure(options)) = Options::parse([word]) else { panic!("it is refused") };
        assert_eq!(options.directory, Some(OsString::from_vec(b"/mnt/\xff".to_vec()).into()));
    }

    #[test]
    fn refusal_states_flag_value_range_and_valid_example() {
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
            ("-json false", &["`false` is not a flag's value", "-json=false"]),
            ("-cache warm", &["-cache `warm`", "cold, as-is or drop-all"]),
            ("-dir", &["-dir needs a value"]),
            ("-dir=", &["-dir has an empty value"]),
            ("-document=", &["-document has an empty value"]),
            ("-sise 1", &["-sise is not a flag", "did you mean -size?"]),
            ("-w", &["-w is not a flag", "-h"]),
            ("--", &[]),
            ("-- x", &["`x` is not a flag's value"]),
            ("---json", &["`---json` is not a flag"]),
            ("-=1", &["`-=1` is not a flag"]),
            ("-", &["`-` is not a flag's value"]),
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

    proptest::proptest! {
        #[test]
        fn any_arguments_parse_without_panic(words: Vec<String>) {
            let _ = Options::parse(words.into_iter().map(OsString::from));
        }

        #[test]
        fn any_flags_parse_without_panic_to_positive_values(
            words in proptest::collection::vec("-{0,3}(dir|size|threads|runs|seconds|json|v|cache|x)?=?.{0,4}", 0..6),
        ) {
            if let Ok(Command::Measure(options)) = Options::parse(words.into_iter().map(OsString::from)) {
                proptest::prop_assert!(options.size_gib.is_none_or(|size| size.is_finite() && size > 0.0));
                proptest::prop_assert!(options.threads.is_none_or(|threads| threads > 0));
            }
        }
    }
}
