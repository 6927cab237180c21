//! The command line of getc_putc.

use std::path::PathBuf;

use model::size;

use crate::dialect::{Dialect, Flag, flags, options};
use crate::words::scaled;

/// Default size of the file, in bytes.
pub const SIZE_BYTES: u64 = 512 << 20;
/// Unit of the file size, in bytes, so that the tests by system calls have whole KiB.
const UNIT_BYTES: u64 = 64 << 10;

options! {
    /// Options of a run: the work and the form of its results.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Options {
        /// Directory to test in.
        pub directory: PathBuf = PathBuf::from("."),
        /// Size of the file, in bytes.
        pub size_bytes: u64 = SIZE_BYTES,
        /// The name in the results.
        pub name: Option<String>,
        /// The user to become.
        pub user: Option<String>,
        /// The group to become.
        pub group: Option<String>,
        /// True if nothing but results is printed.
        pub quiet: bool,
        /// File for the whole result.
        pub json: Option<PathBuf>,
    }
}

impl Dialect for Options {
    const NAME: &'static str = "getc_putc";
    const SIZE_FLAG: Option<&'static str> = Some("-s");
    const FORMATS: &'static str = "getc_putc 2.00a";
    const ABOUT: &'static str = "\
Single bytes in eight ways, measured by skye: a system call per byte (on a 64th of the file), putc and getc in a process
of one thread, with a second thread, which makes the C library take its locks, and without locks. KiB/s, and on stderr
what limited each.";
    const CLOSING: &'static str = "Exit codes: 0 done, 1 refused or failed, 128 + N ended by signal N.";
    const FLAGS: &'static [Flag<Self>] = flags! { |options, flag|
        /// directory to test in [.]; skye creates a directory in it, and removes that at the end
        "-d DIR" => options.directory = flag.path()?,
        /// KiB of the file, or with m or g [512m]
        "-s SIZE" => options.size_bytes = flag.parsed(
            size,
            format!("KiB, {} or more, or with a suffix, such as -s 512m", size::exact(UNIT_BYTES / 1024)),
        )?,
        /// name in the results [hostname]
        "-m NAME" => options.name = Some(flag.label()?),
        /// run as this user, or USER:GROUP
        "-u USER[:GROUP]" => flag.user(&mut options.user, &mut options.group)?,
        /// run as this group
        "-g GROUP" => flag.group(&mut options.group)?,
        /// no progress; CSV on stdout, the table and limiters on stderr
        "-q" => options.quiet = true,
        /// write the full result as skye's document
        "--json FILE" => options.json = Some(flag.path()?),
    };
}

/// Parses the size of the file and rounds it down, as the original does.
fn size(word: &str) -> Option<u64> {
    scaled(word, 1 << 10).map(|bytes| bytes / UNIT_BYTES * UNIT_BYTES).filter(|bytes| *bytes > 0)
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
    fn size_without_unit_is_in_kib() {
        for (line, bytes) in [
            ("", 512 << 20),
            ("-s 65536", 64 << 20),
            ("-s64m", 64 << 20),
            ("-s 2g", 2 << 30),
            ("-s 100", 64 << 10),
        ] {
            assert_eq!(options(line).size_bytes, bytes, "{line}");
        }
        for line in ["-s 63", "-s 0", "-s x", "-s", "-s -1", "-s 99999999999999999999"] {
            let message = parsed(line).unwrap_err();
            assert!(message.contains("-s"), "{line}: {message}");
        }
    }

    #[test]
    fn user_and_group_parse_from_one_or_two_flags() {
        let of = |line: &str| (options(line).user, options(line).group);
        let both = (Some("ada".to_owned()), Some("staff".to_owned()));
        assert_eq!(of("-u ada:staff"), both);
        assert_eq!(of("-g staff -u ada"), both);
        assert!(parsed("-u ada:staff -g x").unwrap_err().contains("the group is already `staff`"));
        assert!(parsed("-u :staff").unwrap_err().contains("-u USER:GROUP"));
    }

    #[test]
    fn unknown_argument_is_refused() {
        for (line, part) in
            [("-x", "-x is not a flag"), ("--zz", "--zz is not a flag"), ("dir", "use -d for the directory")]
        {
            assert!(parsed(line).unwrap_err().contains(part), "{line}");
        }
        assert_eq!(parsed("-q --help"), Ok(Command::Help));
    }

    proptest::proptest! {
        #[test]
        fn any_words_parse_without_panic(words in proptest::collection::vec("[-a-z0-9:.=]{0,9}", 0..6)) {
            let _ = Options::parse(words.into_iter().map(OsString::from));
        }
    }
}
