//! The command line of generate_randfile.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use crate::words::{self, text, unknown, value, within};

/// Most numbers in a file: 64 MiB of four bytes each. Readers take no more.
const COUNT_MAX: u64 = 16 << 20;

/// Help text of `-h` and `--help`.
pub const HELP: &str = "\
Usage: skye generate_randfile [-s SEED] [-f FILE] COUNT

A file of COUNT random numbers, for bonnie++ -Z: four bytes each, the highest first, from 0 to 2147483647.

  -s SEED   the same seed gives the same numbers [another each time]
  -f FILE   the file [stdout]

Exit codes: 0 done, 1 refused or failed.";

/// A parsed command line.
pub type Command = words::Command<Options>;

/// Options of a run: the file of random numbers to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Seed; `None`: a fresh one each time.
    pub seed: Option<u64>,
    /// Output file; `None`: stdout.
    pub file: Option<PathBuf>,
    /// Count of numbers in the file.
    pub count: u64,
}

/// Parses the words after the program's name.
///
/// # Errors
/// One sentence: the word, the allowed values, and a remedy.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut options = Options { seed: None, file: None, count: 0 };
    let mut parser = Parser::from_args(words);
    while let Some(argument) = parser.next().map_err(unknown)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Command::Version),
            Arg::Short('s') => {
                let word = text("-s", &mut parser)?;
                options.seed = Some(within("-s", &word, 0..=u64::MAX, "as seed")?);
            }
            Arg::Short('f') => options.file = Some(value("-f", &mut parser)?.into()),
            Arg::Value(word) if options.count == 0 => {
                options.count = within("COUNT", &word.to_string_lossy(), 1..=COUNT_MAX, "numbers")?;
            }
            other => return Err(unknown(other.unexpected())),
        }
    }
    if options.count == 0 {
        return Err("it is not said how many numbers; write skye generate_randfile COUNT".into());
    }
    Ok(Command::Measure(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_file_and_count_are_understood_and_all_else_refused() {
        let parsed = |line: &str| parse(line.split_whitespace().map(OsString::from));
        let options = Options { seed: Some(7), file: Some("numbers".into()), count: 1000 };
        assert_eq!(parsed("-s 7 -f numbers 1000"), Ok(Command::Measure(Box::new(options))));
        assert_eq!(parsed("--help"), Ok(Command::Help));
        for (line, part) in [
            ("", "COUNT"),
            ("0", "`0`"),
            ("99999999", "16777216"),
            ("-s x 1", "`x`"),
            ("1 2", "2"),
            ("-q 1", "-q"),
        ] {
            let refused = parsed(line).unwrap_err();
            assert!(refused.contains(part), "{line}: {refused}");
        }
    }
}
