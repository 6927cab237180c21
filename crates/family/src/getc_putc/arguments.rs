//! The command line of getc_putc.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser};
use model::size;

use crate::words::{self, label, scaled, text, unknown, user_and_group, value};

/// Default size of the file, in bytes.
pub const SIZE_BYTES: u64 = 512 << 20;
/// Unit of the file size, in bytes, so that the tests by system calls have whole KiB.
const UNIT_BYTES: u64 = 64 << 10;

/// Help text of `-h` and `--help`.
pub const HELP: &str = "\
Usage: skye getc_putc [-d DIR] [-s SIZE] [-m NAME] [-u USER[:GROUP]] [-g GROUP] [-q] [--json FILE]

Single bytes by eight ways, measured by skye: a system call for each (of a 64th of the file), putc and getc in a process
of one thread, beside another thread, which makes the C library take its locks, and without locks. KiB/s, and on stderr
what limited each.

  -d DIR    directory to test in [.]; a directory is made in it, and removed with all that is in it
  -s SIZE   KiB of the file, or with m or g [512m]
  -m NAME   the name in the results [this host's]
  -u USER   become this user, or USER:GROUP; -g GROUP
  -q        no progress: CSV on stdout, the table and what limited each on stderr
  --json FILE   the whole result as skye's document

Exit codes: 0 done, 1 refused or failed, 128 + N ended by signal N.";

/// A parsed command line.
pub type Command = words::Command<Options>;

/// Options of a run: the work and the form of its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Directory to test in.
    pub directory: PathBuf,
    /// Size of the file, in bytes.
    pub size_bytes: u64,
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

/// Parses the words after the program's name.
///
/// # Errors
/// One sentence: the flag, its value, the allowed values, and a remedy.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut options = Options {
        directory: PathBuf::from("."),
        size_bytes: SIZE_BYTES,
        name: None,
        user: None,
        group: None,
        quiet: false,
        json: None,
    };
    let mut parser = Parser::from_args(words);
    while let Some(argument) = parser.next().map_err(unknown)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Short('q') => options.quiet = true,
            Arg::Short('d') => options.directory = value("-d", &mut parser)?.into(),
            Arg::Short('s') => options.size_bytes = size_of(&text("-s", &mut parser)?)?,
            Arg::Short('m') => options.name = Some(label("-m", &mut parser)?),
            Arg::Short('u') => {
                let (user, group) = user_and_group(&text("-u", &mut parser)?)?;
                options.user = Some(user);
                options.group = group.or(options.group);
            }
            Arg::Short('g') => options.group = Some(text("-g", &mut parser)?),
            Arg::Long("json") => options.json = Some(value("--json", &mut parser)?.into()),
            Arg::Short(flag) => {
                return Err(format!("-{flag} is no flag of getc_putc; --help shows them all"));
            }
            Arg::Long(word) => {
                return Err(format!("--{word} is no flag of getc_putc; --help shows them all"));
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

/// Parses the size of the file and rounds it down, as the original does.
fn size_of(word: &str) -> Result<u64, String> {
    let bytes = scaled(word.trim(), 1 << 10).map(|bytes| bytes / UNIT_BYTES * UNIT_BYTES);
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        format!(
            "-s `{word}`: write KiB, {} or more, or with a suffix, such as -s 512m",
            size::exact(UNIT_BYTES / 1024)
        )
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
    fn sizes_are_kib_or_say_their_unit() {
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
    fn users_and_groups_stand_together_or_apart() {
        let of = |line: &str| (options(line).user, options(line).group);
        let both = (Some("ada".to_owned()), Some("staff".to_owned()));
        assert_eq!(of("-u ada:staff"), both);
        assert_eq!(of("-g staff -u ada"), both);
        assert!(parsed("-u :staff").unwrap_err().contains("-u USER:GROUP"));
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (line, part) in [("-x", "-x is no flag"), ("--zz", "--zz is no flag"), ("dir", "given by -d")] {
            assert!(parsed(line).unwrap_err().contains(part), "{line}");
        }
        assert_eq!(parsed("-q --help"), Ok(Command::Help));
    }

    proptest::proptest! {
        #[test]
        fn no_words_make_it_panic(words in proptest::collection::vec("[-a-z0-9:.=]{0,9}", 0..6)) {
            let _ = parse(words.into_iter().map(OsString::from));
        }
    }
}
