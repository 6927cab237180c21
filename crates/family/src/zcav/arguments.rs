//! The command line of zcav: its flags, their ranges, and its refusals.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::dialect::{Dialect, Flag, flags, options};
use crate::words::mib;

/// Allowed numbers of passes.
const PASSES_RANGE: RangeInclusive<u32> = 1..=100;
/// Allowed distances of visited blocks, in blocks.
const EVERY_RANGE: RangeInclusive<u64> = 2..=20;
/// Largest block, in MiB: a TiB.
const BLOCK_MIB_MAX: u64 = 1 << 20;
/// Largest call, in MiB. Each file has a buffer of this size, and a call moves less than 2 GiB.
const CHUNK_MIB_MAX: u64 = 1024;
/// Largest number of files and devices at once: each has a thread.
const TARGETS_MAX: usize = 256;

options! {
    /// Options of a run: the work and the form of its results.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Options {
        /// Files and devices to measure.
        pub targets: Vec<Target>,
        /// Size of a block, in MiB; `None`: by the size of each target.
        pub block_mib: Option<u64>,
        /// Size of a call, in MiB.
        pub chunk_mib: u64 = 1,
        /// Number of passes.
        pub passes: u32 = 1,
        /// First MiB of the range.
        pub start_mib: u64,
        /// End of the range, in MiB; `None`: the end of the target.
        pub end_mib: Option<u64>,
        /// Distance of visited blocks: of each `every` blocks, the first is visited.
        pub every: u64 = 1,
        /// True if zeros are written.
        pub writes: bool,
        /// The user to become.
        pub user: Option<String>,
        /// The group to become.
        pub group: Option<String>,
        /// File for the drawing.
        pub svg: Option<PathBuf>,
        /// File for the whole result.
        pub json: Option<PathBuf>,
    }
}

/// A file or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name of the file; `-` is stdin.
    pub path: PathBuf,
    /// File for the results; `None`: stdout.
    pub log: Option<PathBuf>,
}

impl Target {
    /// True if the target is the file that stdin was opened from.
    pub fn is_stdin(&self) -> bool {
        is_dash(&self.path)
    }
}

fn is_dash(path: &std::path::Path) -> bool {
    path.as_os_str() == "-"
}

impl Dialect for Options {
    const NAME: &'static str = "zcav";
    const FORMATS: &'static str = "zcav 2.00";
    const ABOUT: &'static str = "\
The rate of a device or file over its offset, and on stderr what limited it. Several are read simultaneously, with one
thread each.";
    const CLOSING: &'static str = "\
Results are offset in GiB, MiB/s and seconds: gnuplot -e \"plot 'LOG' with lines; pause -1\"

Exit codes: 0 done, 1 refused or failed, 2 a FILE ends before START or is empty, 128 + N ended by signal N.";
    const FLAGS: &'static [Flag<Self>] = flags! { |options, flag|
        /// MiB per block, or with g [for 100 to 200 blocks]; CHUNK: MiB per read [1].
        /// Blocks that are too fast to be timed are merged: each line of results takes at least a tenth of a second
        "-b BLOCK[:CHUNK]" => options.block(&flag.text()?)?,
        /// number of passes, 1 to 100 [1]; with several, the lowest and the highest third are excluded
        "-c PASSES" => options.passes = flag.within(PASSES_RANGE, "passes")?,
        /// range in MiB, or with g [0 to the end]
        "-r [START:]END" => options.range(&flag.text()?)?,
        /// read only the first of each N blocks, 2 to 20
        "-s N" => options.every = flag.within(EVERY_RANGE, "blocks")?,
        /// write zeros instead, only over zeros and holes of a file, never past its end
        "-w" => options.writes = true,
        /// run as this user, or USER:GROUP
        "-u USER[:GROUP]" => flag.user(&mut options.user, &mut options.group)?,
        /// run as this group
        "-g GROUP" => flag.group(&mut options.group)?,
        /// draw the rate over the offset
        "--svg FILE" => options.svg = Some(flag.path()?),
        /// write the full result [to the store]; FILE.2 for the second FILE, and so on; not with -w
        "--json FILE" => options.json = Some(flag.path()?),
        /// file for the results of the next FILE [stdout]
        "-l LOG" => options.log(flag.path()?)?,
        /// block device or file, also as -f FILE; - is the file of stdin
        "FILE …" => options.target(flag.path()?)?,
        "-f FILE" => options.target(flag.path()?)?,
        "-n" => flag.refuse("MIB is for zcav 1.03; use -r END")?,
    };

    fn finish(mut self) -> Result<Self, String> {
        if let Some(log) = self.pending_log() {
            return Err(format!("-l `{}`: no FILE follows; use -l LOG before its FILE", log.display()));
        }
        if self.targets.is_empty() {
            return Err("FILE is missing; use for example skye zcav /dev/sda, or --help".into());
        }
        if self.writes && self.json.is_some() {
            return Err("--json is for reads; drop it or -w".into());
        }
        match &self.svg {
            Some(svg) if is_dash(svg) => Err("--svg `-`: stdout is for the results; choose a file".into()),
            Some(svg) if self.has_log(svg) => {
                Err(format!("--svg `{}` is also a log; choose another file", svg.display()))
            }
            _ => Ok(self),
        }
    }
}

impl Options {
    fn block(&mut self, word: &str) -> Result<(), String> {
        let (block, chunk) = match word.split_once(':') {
            Some((block, chunk)) => (block, Some(chunk)),
            None => (word, None),
        };
        let block_mib = mib(block)
            .filter(|mib| (1..=BLOCK_MIB_MAX).contains(mib))
            .ok_or_else(|| format!("-b `{block}`: use 1 to {BLOCK_MIB_MAX} MiB, such as -b 256, or -b 1g"))?;
        let most = block_mib.min(CHUNK_MIB_MAX);
        let chunk_mib = match chunk {
            None => 1,
            Some(chunk) => mib(chunk).filter(|mib| (1..=most).contains(mib)).ok_or_else(|| {
                format!(
                    "-b `{word}`: chunk `{chunk}`; use 1 to {most} MiB, at most the block, such as -b {block_mib}:{}",
                    most.min(4)
                )
            })?,
        };
        (self.block_mib, self.chunk_mib) = (Some(block_mib), chunk_mib);
        Ok(())
    }

    fn range(&mut self, word: &str) -> Result<(), String> {
        let (start, end) = word.split_once(':').unwrap_or(("0", word));
        let part = |part: &str| {
            mib(part).ok_or_else(|| {
                format!(
                    "-r `{word}`: `{part}` is not a number of MiB; use -r START:END, such as -r 1000:2000"
                )
            })
        };
        let (start_mib, end_mib) = (part(start)?, part(end)?);
        if start_mib >= end_mib {
            return Err(format!(
                "-r `{word}`: the end must be after the start; use -r {start_mib}:{} or more",
                start_mib.saturating_add(1)
            ));
        }
        (self.start_mib, self.end_mib) = (start_mib, Some(end_mib));
        Ok(())
    }

    /// Takes the log of the next file. Until that is known, the log belongs to a target without a name.
    fn log(&mut self, log: PathBuf) -> Result<(), String> {
        if let Some(before) = self.pending_log() {
            return Err(format!(
                "-l `{}`: `{}` still has no FILE; use -l LOG FILE for each",
                log.display(),
                before.display()
            ));
        }
        self.targets.push(Target { path: PathBuf::new(), log: Some(log) });
        Ok(())
    }

    /// Takes the log out that waits for its file.
    fn pending_log(&mut self) -> Option<PathBuf> {
        self.targets.pop_if(|target| target.path.as_os_str().is_empty())?.log
    }

    fn has_log(&self, file: &PathBuf) -> bool {
        self.targets.iter().any(|target| target.log.as_ref() == Some(file))
    }

    fn target(&mut self, path: PathBuf) -> Result<(), String> {
        let log = self.pending_log().filter(|log| !is_dash(log));
        if self.targets.len() == TARGETS_MAX {
            return Err(format!("`{}` is one file too many: the maximum is {TARGETS_MAX}", path.display()));
        }
        if let Some(log) = log.as_ref().filter(|log| self.has_log(log)) {
            return Err(format!(
                "-l `{}` is already the log of another file; use one for each",
                log.display()
            ));
        }
        let target = Target { path, log };
        if target.is_stdin() && self.targets.iter().any(Target::is_stdin) {
            return Err("`-` is stdin, and it is used twice; drop one".into());
        }
        self.targets.push(target);
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

    #[test]
    fn single_file_uses_default_options() {
        let plain = options("/dev/sda");
        assert_eq!(plain.targets, [Target { path: "/dev/sda".into(), log: None }]);
        assert_eq!((plain.block_mib, plain.chunk_mib, plain.passes), (None, 1, 1));
        assert_eq!((plain.start_mib, plain.end_mib, plain.every), (0, None, 1));
        assert!(!plain.writes && plain.user.is_none() && plain.svg.is_none());
    }

    #[test]
    fn all_flags_are_understood() {
        let all =
            options("-wb512:4 -c 3 -r1000:2g -s 4 -u bin:daemon --svg=a.svg -l a.log -f /dev/sda /dev/sdb -");
        assert_eq!((all.block_mib, all.chunk_mib, all.passes, all.every), (Some(512), 4, 3, 4));
        assert_eq!((all.start_mib, all.end_mib, all.writes), (1000, Some(2048), true));
        assert_eq!((all.user.as_deref(), all.group.as_deref()), (Some("bin"), Some("daemon")));
        assert_eq!(all.svg, Some("a.svg".into()));
        let logs: Vec<_> = all.targets.iter().map(|target| target.log.is_some()).collect();
        assert_eq!(logs, [true, false, false], "a log is for the next file alone");
        assert!(all.targets[2].is_stdin());
        assert_eq!((options("-r 0:1 x").start_mib, options("-r 5 x").end_mib), (0, Some(5)));
        assert_eq!(options("-b 1g x").block_mib, Some(1024));
        assert_eq!(options("-l - x").targets[0].log, None);
        assert_eq!(options("-- -x").targets[0].path, PathBuf::from("-x"));
        assert_eq!(parsed("-h"), Ok(Command::Help));
        assert_eq!(parsed("-V"), Ok(Command::Version));
    }

    #[test]
    fn refusal_states_flag_value_range_and_valid_example() {
        for (line, parts) in [
            ("", &["FILE is missing", "/dev/sda"][..]),
            ("-b 0 x", &["-b `0`", "1 to 1048576 MiB", "-b 256"]),
            ("-b many x", &["-b `many`", "-b 1g"]),
            ("-b 100k x", &["-b `100k`"]),
            ("-b 4:8 x", &["-b `4:8`", "`8`", "1 to 4 MiB", "-b 4:4"]),
            ("-b 9999:2000 x", &["`2000`", "1 to 1024 MiB"]),
            ("-c 0 x", &["-c `0`", "1 to 100 passes"]),
            ("-c 101 x", &["-c `101`", "1 to 100"]),
            ("-s 1 x", &["-s `1`", "2 to 20"]),
            ("-s 21 x", &["-s `21`", "2 to 20"]),
            ("-r 5:5 x", &["-r `5:5`", "after the start", "-r 5:6"]),
            ("-r 0 x", &["-r `0`", "-r 0:1"]),
            ("-r a:5 x", &["-r `a:5`", "`a`", "-r START:END"]),
            ("-r 5: x", &["-r `5:`", "``"]),
            ("-l a -l b x", &["-l `b`", "`a` still has no FILE", "-l LOG FILE"]),
            ("x -l a", &["-l `a`", "before its FILE"]),
            ("-l a x -l a y", &["-l `a`", "another file"]),
            ("-l a --svg a x", &["--svg `a`", "another"]),
            ("--svg - x", &["--svg `-`", "choose a file"]),
            ("--json a -w x", &["--json", "-w"]),
            ("- -", &["`-`", "is stdin"]),
            ("-u a:b -g c x", &["-g `c`", "`b`", "use either"]),
            ("-n 5 x", &["-n", "-r END"]),
            ("-q x", &["-q is not a flag", "--help"]),
            ("--fast x", &["--fast", "--help"]),
            ("-b", &["-b needs a value"]),
        ] {
            let message = parsed(line).expect_err(line);
            for part in parts {
                assert!(message.contains(part), "{line}: {message}");
            }
        }
        let many = "x ".repeat(TARGETS_MAX + 1);
        assert!(parsed(&many).expect_err("too many").contains("256"));
    }

    proptest::proptest! {
        #[test]
        fn any_arguments_parse_without_panic(words: Vec<String>) {
            let _ = Options::parse(words.into_iter().map(OsString::from));
        }

        #[test]
        fn parsed_values_are_within_their_ranges(flag in "[bcrs]", word in "[0-9]{0,22}[a-zA-Z]{0,3}(:[0-9]{0,9}[gtm]?)?") {
            if let Ok(Command::Measure(options)) = Options::parse([format!("-{flag}{word}").into(), "x".into()]) {
                proptest::prop_assert!(options.block_mib.is_none_or(|block| block >= options.chunk_mib));
                proptest::prop_assert!(options.end_mib.is_none_or(|end| end > options.start_mib));
                proptest::prop_assert!((1..=20).contains(&options.every) && (1..=100).contains(&options.passes));
            }
        }
    }
}
