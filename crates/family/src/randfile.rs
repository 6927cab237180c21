//! The command line of generate_randfile.

use std::path::PathBuf;

use crate::dialect::{Dialect, Flag, flags, options};

/// Most numbers in a file: 64 MiB of four bytes each. Readers take no more.
const COUNT_MAX: u64 = 16 << 20;

options! {
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
}

impl Dialect for Options {
    const NAME: &'static str = "generate_randfile";
    const FORMATS: &'static str = "generate_randfile 2.00a";
    const ABOUT: &'static str = "A file of random numbers, for bonnie++ -Z.";
    const CLOSING: &'static str = "Exit codes: 0 done, 1 refused or failed.";
    const FLAGS: &'static [Flag<Self>] = flags! { |options, flag|
        /// seed: the same seed gives the same numbers [random]
        "-s SEED" => options.seed = Some(flag.within(0..=u64::MAX, "as seed")?),
        /// output file [stdout]
        "-f FILE" => options.file = Some(flag.path()?),
        /// count of the numbers: four bytes each, big-endian, from 0 to 2147483647
        "COUNT" => match options.count {
            0 => options.count = flag.within(1..=COUNT_MAX, "numbers")?,
            count => return Err(format!("`{}` is one argument too many: COUNT is {count}; drop one", flag.text()?)),
        },
    };

    fn finish(self) -> Result<Self, String> {
        match self.count {
            0 => Err("COUNT is missing; use skye generate_randfile COUNT".into()),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::dialect::Command;

    #[test]
    fn options_parse_and_invalid_arguments_are_refused() {
        let parsed = |line: &str| Options::parse(line.split_whitespace().map(OsString::from));
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
