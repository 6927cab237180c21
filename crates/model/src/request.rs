//! The user's request: a preset, a TOML file of the same words, and flags over both.
//!
//! A choice that does not change the measurement, such as `--monitor`, is no part of a [`Request`].

mod options;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::load::LoadFile;
use crate::size::Size;
use crate::toml_text::from_toml;
use crate::workload::{CacheMode, RequestedEngine, spec_words};
pub use options::{Flag, FlagValue, RequestOption};
use options::{Settable, is_default, options};

/// The presets in this program, each with its name and its text.
pub const PRESETS: &[(&str, &str)] = &[
    ("quick", include_str!("../../../presets/quick.toml")),
    ("standard", include_str!("../../../presets/standard.toml")),
    ("rigorous", include_str!("../../../presets/rigorous.toml")),
    ("classic", include_str!("../../../presets/classic.toml")),
    ("disk", include_str!("../../../presets/disk.toml")),
    ("peak", include_str!("../../../presets/peak.toml")),
    ("bytes", include_str!("../../../presets/bytes.toml")),
    ("zones", include_str!("../../../presets/zones.toml")),
    ("io500-shapes", include_str!("../../../presets/io500-shapes.toml")),
    ("ssd", include_str!("../../../presets/ssd.toml")),
    ("names", include_str!("../../../presets/names.toml")),
    ("files", include_str!("../../../presets/files.toml")),
];

/// Returns the purpose of a preset: the comment with which its text begins.
pub fn preset_purpose(text: &str) -> String {
    text.lines().map_while(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join(" ")
}

options! {
    /// The user's request, each word optional; [`Request::over`] lays flags over a preset.
    Request,

    /// Name of the preset that this is, or is made from.
    preset: Option<String> [run ab]
        /// Preset, or a TOML file with the same keys [default: standard].
        "preset" Text("NAME|FILE.toml");
    /// The tests, as specs, in their order.
    tests: Vec<String> [run ab]
        /// A custom test; may be repeated.
        "test" Text("SPEC");
    /// Tests that follow these if the device supports them: those with `iopoll`, which needs poll queues.
    tests_where_possible: Vec<String> [];
    /// Texts of mixes, by the names that tests have for them: of `mix:mine.toml`, the name is `mine.toml`. A mix without a
    /// text here is read from the file of its name.
    mixes: MixTexts [];
    /// Size of the data set [default: 4 s of I/O, 256 MiB to 4 GiB, on a small volume less].
    size: Option<Size> [run ab] "size" Text("SIZE");
        like "--size 1g", "--size 10%", "--size 0.25xRAM", "--size 3000m", "--size 7g";
    /// Places of the disk over which each data file is spread; 1 leaves that to the file system [default: 8 for small data].
    places: Option<u32> [run ab] "places" Text("N"); like "--places 8", "--places 1";
    /// Files of each file test [default: 64k, or as many as fit].
    files: Option<Count> [run ab] "files" Text("N");
        like "--files 100", "--files 1k", "--files 1000", "--files 4096", "--files 128k";
    /// Seconds measured per phase; with --precision, at most [default: until the rate is known, by the preset].
    time: Option<Seconds> [run ab] "time" Text("SECONDS");
        like "--time 0.25", "--time 0.37", "--time 1.5", "--time 3", "--time 7s", "--time 8.2", "--time 30s", "--time 1m", "--time 2m";
    /// End a phase when its rate is steady and its 95 % interval is within ± this.
    precision: Option<Percent> [run] "precision" Text("PERCENT"); like "--precision 2%", "--precision 0.5%";
    /// Minimum measured time of a phase with a precision.
    time_min: Option<Seconds> [];
    /// Time limit of the whole run, including preparation.
    total: Option<Seconds> [];
    /// Repeat all tests N times, each time on fresh files.
    repeat: Option<u32> [run] "repeat" Text("N"); like "--repeat 1", "--repeat 2", "--repeat 3";
    /// Seed of offsets and data [default: a fresh one, recorded].
    seed: Option<u64> [run ab] "seed" Text("SEED");
        like "--seed 0", "--seed 42", "--seed 7311", "--seed 18446744073709551615";
    /// Your name for this run.
    label: Option<String> [run ab] "label" Text("LABEL");
        like "--label nightly", "--label plain", "--label with\"quote", "--label näme", "--label back\\slash";
    /// State of the page cache before buffered reads [default: cold].
    cache: Option<CacheMode> [run ab] "cache" Word("CACHE", CacheMode::WORDS);
        like "--cache cold", "--cache warm", "--cache as-is";
    /// Run tests that look up names, such as stat and readdir, with cold caches. Drops all caches of this machine
    /// before each of their rounds, as --cache drop-all; root only.
    cold: Option<bool> [run ab] "cold" Is("true"); like "--cold";
    /// `true`: all data tests bypass the page cache unless their spec says otherwise; `false`: none does.
    direct: Option<bool> [run ab]
        /// Bypass the page cache in all data tests that do not set it themselves.
        "direct" Is("true"),
        /// Use the page cache in all data tests that do not set it themselves.
        "buffered" Is("false"); like "--direct", "--buffered";
    /// Engine of data tests, unless they set it [default: io_uring for direct I/O at depth, else plain system calls].
    engine: Option<RequestedEngine> [run ab] "engine" Word("ENGINE", RequestedEngine::WORDS); like "--engine sync";
    /// Distance to the client whose data buffered tests read, unless they set it.
    shift: Option<u32> [];
    /// Verify every byte read [default: one block in 128].
    verify: Option<bool> [run ab] "verify" Is("true"); like "--verify";
    /// Memory of the target's server: reads of a data set that fits into it may bypass its disks.
    server_ram: Option<Size> [run] "server-ram" Text("SIZE"); like "--server-ram 64g", "--server-ram 2xRAM";
    /// Skip the experiments after the tests; limiters are inferred from counters alone.
    probe: Option<bool> [run] "no-probe" Is("false"); like "--no-probe";
    /// Fill the data before the tests, and measure each test in rounds until five are steady (SNIA's method).
    precondition: Option<Preconditioning> [run]
        /// Write all data twice, then repeat each test for --time until five rounds are steady, at most 25 times.
        "precondition" Is("fill"),
        /// Discard all data, then do the same as --precondition.
        "purge" Is("purge"); like "--precondition", "--purge";
    /// Repeat each test over a range: q1..q64 (depth), t1..t64 (threads), h1..hn (clients), 4k..1m (block size),
    /// rate100..6400 (rates), or rate (shares of the highest rate).
    sweep: Option<String> [run] "sweep" Text("RANGE"); like "--sweep t1..t4";
    /// Maximum bytes to write in the run.
    write_limit: Option<Size> [run ab] "write-limit" Text("SIZE");
        like "--write-limit 200GB", "--write-limit 500GB", "--write-limit 1t";
    /// Erase the block device that is the target: its serial number or WWN, in full, as `skye doctor` prints it.
    erase: Option<String> [run] "erase" Text("ID");
    /// Signature that may be erased, such as ext4, gpt or LVM2_member; may be repeated.
    erase_signature: Vec<String> [run] "erase-signature" Text("NAME");
    /// Also erase all other data on it.
    erase_data: Option<bool> [run] "erase-data" Is("true");
    /// Allow what is refused or warned about by default.
    allow: Vec<Allow> [run ab] "allow" Word("WHAT", Allow::WORDS);
        like "--allow low-space", "--allow low-space,busy", "--allow busy,low-space";
}

/// Texts of mixes, by the names that tests have for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MixTexts(pub BTreeMap<String, String>);

impl Settable for MixTexts {
    const IS_LIST: bool = false;

    fn set(&mut self, _: &str) -> Result<(), String> {
        Err("a mix needs a name and a text".into())
    }
}

impl MixTexts {
    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

spec_words! {
    /// A condition for which a plan is normally refused, or warned about.
    Allow {
        /// Leave less than the reserve free: 5 %, or 1 GiB or a quarter of the free space if that is more.
        LowSpace = "low-space",
        /// Do not warn about a target in use by other programs.
        Busy = "busy",
        /// As root, run in a directory in which other users may rename files.
        SharedDirectory = "shared-directory",
        /// Erase a device although the open files of some processes cannot be read.
        UnreadableProcesses = "unreadable-processes",
    }
}

spec_words! {
    /// Work before the tests, by which a drive reaches its lasting rate.
    Preconditioning {
        /// Writes all data twice in sequence.
        Fill = "fill",
        /// Discards all data, then writes it twice in sequence.
        Purge = "purge",
    }
}

impl Request {
    /// Reads a preset file.
    ///
    /// # Errors
    /// One sentence with the line, and the nearest known word where the mistake is a word.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        from_toml(text)
    }

    /// The same request as TOML, which [`Request::from_toml`] reads back.
    pub fn to_toml(&self) -> String {
        // A struct of strings, numbers and lists of strings always has a TOML form.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Merges two requests: values of this one take precedence over those of `lower`.
    ///
    /// The list of tests is replaced as a whole. A time requested here removes the total of `lower`, which was made for
    /// another time. It is kept to the second, so the precision and the shortest time of `lower` are removed too. More
    /// repetitions than in `lower` multiply its total and its write limit by the same factor, rounded up.
    #[must_use]
    pub fn over(self, mut lower: Self) -> Self {
        let times = self.repeat.unwrap_or(1).div_ceil(lower.repeat.unwrap_or(1).max(1)).max(1);
        lower.total = lower.total.map(|total| Seconds(total.0 * f64::from(times)));
        if let Some(Size::Bytes(limit)) = &mut lower.write_limit {
            *limit = limit.saturating_mul(times.into());
        }
        if self.time.is_some() {
            lower = Self { total: None, precision: None, time_min: None, ..lower };
        }
        // They belong with the tests of the same request.
        if !self.tests.is_empty() {
            lower.tests_where_possible.clear();
        }
        self.or(lower)
    }
}

/// Longest duration that a request can have.
pub const SECONDS_MAX: Seconds = Seconds(1e7);

/// A duration as people write it: `30`, `30s`, `1m 30s`, `0.5`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Returns the duration in nanoseconds.
    pub fn as_ns(self) -> u64 {
        (self.0 * 1e9).round() as u64
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Seconds with a fraction are what most flags need, and humantime knows whole ones only.
        let number = text.trim();
        let seconds = match number.strip_suffix('s').unwrap_or(number).parse::<f64>() {
            Ok(seconds) => Some(seconds),
            Err(_) => humantime::parse_duration(text).ok().map(|duration| duration.as_secs_f64()),
        };
        match seconds {
            Some(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX.0 => Ok(Self(seconds)),
            Some(_) => Err(format!("`{text}` is out of range; use more than 0 and at most 10000000 seconds")),
            None => Err(format!("`{text}` is not a duration; use for example 10, 30s or 2m")),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0)
    }
}

/// A share as people write it: `2%`, `0.5 %`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl Percent {
    /// Returns the share as a number from 0 to 1.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        match number.and_then(|number| number.parse::<f64>().ok()) {
            Some(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self(percent)),
            Some(_) => Err(format!("`{text}` is out of range; use more than 0 and at most 100 percent")),
            None => Err(format!("`{text}` is not a percentage; use for example 2%")),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// A number of things, which may carry the binary suffixes of sizes: `64k` is 65,536.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(Size::Bytes(count)) if count > 0 => Ok(Self(count)),
            Ok(Size::Bytes(_)) => Err("0 is out of range; use 1 or more".into()),
            _ => Err(format!("`{text}` is not a whole number such as 8192 or 64k")),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::size::exact(self.0))
    }
}

/// Stores types that have a text form as text in TOML. Reading them accepts a bare number as well.
macro_rules! serde_as_text {
    ($($name:ident),+) => { $(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text).and_then(|text| text.parse().map_err(de::Error::custom))
            }
        }
    )+ };
}
serde_as_text!(Size, Seconds, Percent, Count);

struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or text such as \"64k\" or \"30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_name_line_and_nearest_word() {
        let message = Request::from_toml("tests = [\"read\"]\nrepaet = 3\n").unwrap_err();
        assert_eq!(message, "line 2: unknown keyword `repaet`, did you mean `repeat`?");
        // The error lists all the words that there are.
        let message = Request::from_toml("zzz = 1").unwrap_err();
        let listed: Vec<_> = message.split('`').skip(3).step_by(2).collect();
        assert!(listed.into_iter().eq(Request::OPTIONS.iter().map(|option| option.name)));
        let message = Request::from_toml("engine = \"urng\"").unwrap_err();
        assert_eq!(message, "line 1: unknown keyword `urng`, did you mean `uring`?");
        let message = Request::from_toml("size = \"4q\"").unwrap_err();
        assert!(message.starts_with("line 1: `4q` is not a size"), "{message}");
        let message = Request::from_toml("tests = [\"read\"").unwrap_err();
        assert!(message.starts_with("line 1:"), "{message}");
    }

    #[test]
    fn every_example_sets_its_option() {
        for option in Request::OPTIONS {
            for example in option.examples {
                let (word, value) = example.split_once(' ').unwrap_or((example, ""));
                let flag = option.flags.iter().find(|flag| word == format!("--{}", flag.name)).unwrap();
                let text = if let FlagValue::Is(text) = flag.value { text } else { value };
                let mut request = Request::default();
                text.split(',').for_each(|text| (option.set)(&mut request, text).unwrap());
                let toml = request.to_toml();
                assert!(toml.starts_with(&format!("{} = ", option.name)), "{example}: {toml}");
            }
            assert!(option.flags.is_empty() == option.commands.is_empty(), "{option:?}");
        }
    }

    #[test]
    fn flags_override_the_preset() {
        let preset = Request::from_toml(
            "tests = [\"read\"]\ntime = 10\ntime_min = 2\nprecision = \"2%\"\ntotal = \"170s\"\nsize = 4096",
        )
        .unwrap();
        let kept = Request::default().over(preset.clone());
        assert_eq!((kept.time_min, kept.precision), (Some(Seconds(2.0)), Some(Percent(2.0))));
        let flags = Request { time: Some(Seconds(60.0)), ..Request::default() };
        let merged = flags.over(preset);
        assert_eq!(merged.tests, ["read"]);
        assert_eq!((merged.time, merged.total), (Some(Seconds(60.0)), None));
        assert_eq!((merged.time_min, merged.precision), (None, None));
        assert_eq!(merged.size, Some(Size::Bytes(4096)));
        // Limits of two repetitions are raised for six.
        let preset = Request::from_toml("repeat = 2\ntotal = 40\nwrite_limit = \"10GB\"").unwrap();
        let lifted = |repeat| {
            let merged = Request { repeat, ..Request::default() }.over(preset.clone());
            (merged.total, merged.write_limit)
        };
        let gigabytes = |count: u64| Some(Size::Bytes(count * 1_000_000_000));
        assert_eq!(lifted(Some(6)), (Some(Seconds(120.0)), gigabytes(30)));
        assert_eq!(lifted(Some(1)), (Some(Seconds(40.0)), gigabytes(10)));
        assert_eq!(lifted(None), (Some(Seconds(40.0)), gigabytes(10)));
        let sweep = Request::from_toml("sweep = \"q1..q64\"\nengine = \"uring\"\nverify = true").unwrap();
        let merged = Request { engine: Some(RequestedEngine::Sync), ..Request::default() }.over(sweep);
        assert_eq!((merged.engine, merged.verify), (Some(RequestedEngine::Sync), Some(true)));
        assert_eq!(merged.sweep.as_deref(), Some("q1..q64"));
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(("2%".parse(), "0.5 %".parse()), (Ok(Percent(2.0)), Ok(Percent(0.5))));
        assert_eq!(Percent(2.0).to_string(), "2%");
        for text in ["2", "0%", "-1%", "101%", "NaN%", "%", "two%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }

    #[test]
    fn duration_without_unit_is_in_seconds() {
        assert_eq!("0.5".parse(), Ok(Seconds(0.5)));
        assert_eq!("2m".parse(), Ok(Seconds(120.0)));
        for text in ["0", "-1", "soon", "inf", "NaN"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
