//! The command lines of bonnie 1.4 and Bonnie-64: their flags, their ranges and suffixes, and their refusals.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::Program;
use crate::dialect::{Dialect, Flag, flags, options};
use crate::words::{mib, scaled};

/// Default size of a volume, in MiB.
const SIZE_MIB: u64 = 100;
/// Allowed sizes of a volume, in MiB: 512 of the largest are still fewer bytes than a file offset can count.
const SIZE_MIB_RANGE: RangeInclusive<u64> = 1..=1 << 33;
/// Allowed numbers of volumes, as in the original.
const VOLUMES_RANGE: RangeInclusive<u64> = 1..=512;
/// Default number of seekers.
const SEEKERS: u32 = 3;
/// Allowed numbers of seekers, as in the original, which lowers larger numbers to the maximum.
const SEEKERS_RANGE: RangeInclusive<u32> = 1..=128;
/// Default number of seeks.
const SEEKS: u64 = 4000;
/// Allowed numbers of seeks. The original has no upper limit.
const SEEKS_RANGE: RangeInclusive<u64> = 1000..=1 << 40;

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A table of text.
    Text,
    /// HTML.
    Html,
}

options! {
    /// Options of a run: the work and the form of its results.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Options {
        /// Program whose work and formats are used.
        pub program: Program = Program::V1_4,
        /// Directory to test in.
        pub directory: PathBuf = PathBuf::from("."),
        /// Size of each volume, in MiB.
        pub size_mib: u64 = SIZE_MIB,
        /// Number of volumes: files of that size, one after the other.
        pub volumes: u64 = 1,
        /// The name in the results.
        pub label: Option<String>,
        /// Number of threads that seek.
        pub seekers: u32 = SEEKERS,
        /// Number of seeks of all threads together.
        pub seeks: u64 = SEEKS,
        /// True if data is made durable at the end of each test that writes.
        pub syncs: bool,
        /// True if calls of the C library do not lock the stream.
        pub unlocked: bool,
        /// True if tests in chunks bypass the page cache.
        pub direct: bool,
        /// The form of the results.
        pub form: Form = Form::Text,
        /// True if the rewrite reads each chunk again after writing it.
        pub reread: bool,
        /// Seed of offsets and data; `None`: a fresh one.
        pub seed: Option<u64>,
        /// File for the whole result.
        pub json: Option<PathBuf>,
        /// Given flags that have no effect here.
        pub ignored: Vec<&'static str>,
    }
}

impl Dialect for Options {
    const NAME: &'static str = "bonnie";
    const SIZE_FLAG: Option<&'static str> = Some("-s");
    const FORMATS: &'static str = "bonnie 1.4, Bonnie-64";
    const ABOUT: &'static str = "\
The six tests of bonnie 1.4 or Bonnie-64, measured by skye: their flags and table, and on stderr what limited each.";
    const CLOSING: &'static str = "\
A file that fits into memory is read from memory: use -s of twice the memory, or -o_direct.

Exit codes: 0 done, 1 refused or failed, 128 + N ended by signal N after removing its files.";
    const FLAGS: &'static [Flag<Self>] = flags! { |options, flag|
        /// directory to test in [.]; skye creates a directory in it, and removes that at the end
        "-d DIR" => options.directory = flag.path()?,
        /// size of each volume, in MiB or with a suffix such as 16g [100]
        "-s MIB" => options.size_mib = flag.parsed(
            |word| mib(word).filter(|mib| SIZE_MIB_RANGE.contains(mib)),
            format!("whole MiB from 1 to {}, such as -s 2048, or -s 2g", SIZE_MIB_RANGE.end()),
        )?,
        /// 1 to 512 files of that size, in sequence; seeks use all of them [1]
        "-v VOLUMES" if only_1_4 => options.volumes = flag.within(VOLUMES_RANGE, "volumes")?,
        /// name in the results [hostname]
        "-m LABEL" => options.label = Some(flag.text()?),
        /// 1 to 128 concurrent seek threads [3]
        "-p SEEKERS" if only_1_4 => options.seekers = flag.within(SEEKERS_RANGE, "seek threads")?,
        /// total number of seeks, 1000 or more [4000]
        "-S SEEKS" if only_1_4 => options.seeks = flag.parsed(
            |word| scaled(word, 1).filter(|seeks| SEEKS_RANGE.contains(seeks)),
            format!("{} or more seeks, such as -S {SEEKS}", SEEKS_RANGE.start()),
        )?,
        /// sync the data at the end of each write test, within its time
        "-y" if only_1_4 => options.syncs = true,
        /// putc_unlocked and getc_unlocked, which do not lock the stream
        "-u" if only_1_4 => options.unlocked = true,
        /// direct I/O in every test in chunks, including seeks
        "-o_direct" if only_1_4 => options.direct = true,
        /// print an HTML table row instead of text
        "-html" if only_1_4 => options.form = Form::Html,
        /// read each chunk again after rewriting it, as in the documentation of bonnie 1.4.
        /// The default is as in its source: read, change, write back
        "--reread" => options.reread = true,
        /// seed of offsets and data [random]
        "-z SEED" => options.seed = Some(flag.seed()?),
        /// write the full result as skye's document
        "--json FILE" => options.json = Some(flag.path()?),
        /// 1.4, or 64 for Bonnie-64 [1.4]; 64 has -f and -r, and lacks -v, -p, -S, -y, -u, -o_direct and -html
        "--compat 1.4|64" => *options = Self::for_program(flag.choice(
            &[("1.4", Program::V1_4), ("64", Program::V64)],
            "1.4, or 64 for Bonnie-64",
        )?),
        /// format with --compat 64: txt, or html for a full HTML table [txt]
        "-f txt|html" if only_64 => options.form = flag.choice(
            &[("txt", Form::Text), ("TXT", Form::Text), ("html", Form::Html), ("HTML", Form::Html)],
            "-f txt or -f html",
        )?,
        /// ignored with --compat 64: data is always incompressible, as in Bonnie-64 with -r
        "-r" if only_64 => options.ignored.push("-r"),
        "-o" => flag.refuse("alone is not a flag; use -o_direct")?,
    };

    fn program(&self) -> &'static str {
        self.program.name()
    }
}

impl Options {
    fn for_program(program: Program) -> Self {
        // Bonnie-64 always syncs.
        Self { program, syncs: program == Program::V64, ..Self::default() }
    }

    /// Size of all volumes, in MiB.
    pub fn all_mib(&self) -> u64 {
        self.size_mib.saturating_mul(self.volumes)
    }
}

fn only_1_4(options: &Options, flag: &str) -> Result<(), String> {
    match (options.program, flag) {
        (Program::V1_4, _) => Ok(()),
        (Program::V64, "-html") => Err("-html is a flag of bonnie 1.4; with --compat 64 use -f html".into()),
        (Program::V64, _) => Err(format!("{flag} is a flag of bonnie 1.4; drop {flag} or --compat 64")),
    }
}

fn only_64(options: &Options, flag: &str) -> Result<(), String> {
    match options.program {
        Program::V1_4 => Err(format!("{flag} is a flag of Bonnie-64; add --compat 64")),
        Program::V64 => Ok(()),
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

    #[test]
    fn defaults_equal_those_of_the_original() {
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
    fn refusal_states_flag_value_range_and_valid_example() {
        for (line, parts) in [
            ("-s 0", &["-s `0`", "from 1 to", "-s 2g"][..]),
            ("-s 512k", &["-s `512k`", "whole MiB"]),
            ("-s many", &["-s `many`", "-s 2048"]),
            ("-s 99999999999", &["from 1 to 8589934592"]),
            ("-v 0", &["-v `0`", "1 to 512 volumes"]),
            ("-v 513", &["-v `513`", "1 to 512"]),
            ("-p 0", &["-p `0`", "1 to 128 seek threads"]),
            ("-p 129", &["-p `129`", "1 to 128"]),
            ("-S 999", &["-S `999`", "1000 or more", "-S 4000"]),
            ("-z -1", &["-z `-1`", "4294967295"]),
            ("-o", &["-o alone", "-o_direct"]),
            ("-f html", &["-f is a flag of Bonnie-64", "--compat 64"]),
            ("-r", &["-r is a flag of Bonnie-64"]),
            ("--compat 64 -y", &["-y is a flag of bonnie 1.4", "drop -y or --compat 64"]),
            ("--compat 64 -html", &["-f html"]),
            ("--compat 64 -o_direct", &["-o_direct is a flag of bonnie 1.4"]),
            ("--compat 64 -f pdf", &["-f `pdf`", "-f txt or -f html"]),
            ("--compat 65", &["--compat `65`", "1.4, or 64"]),
            ("-Y", &["-Y is not a flag of bonnie 1.4", "--help"]),
            ("--fast", &["--fast", "--help"]),
            ("--jsno x", &["--jsno is not a flag of bonnie 1.4", "did you mean --json?"]),
            ("-html=x", &["-html=`x`", "takes no value", "use -html alone"]),
            ("/mnt", &["`/mnt`", "-d"]),
            ("-d", &["-d needs a value"]),
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

        #[test]
        fn any_flags_parse_without_panic(words in proptest::collection::vec("-{0,2}[dsmpSyvufhrzo]{0,2}[a-z0-9_=.]{0,8}", 0..6)) {
            let _ = Options::parse(words.into_iter().map(OsString::from));
        }
    }
}
