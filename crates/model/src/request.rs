//! The user's request: a preset, a TOML file of the same words, and flags over both.
//!
//! A choice that does not change the measurement, such as `--beside`, is no part of a [`Request`].

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::nearest;
use crate::size::Size;
use crate::workload::{CacheMode, EngineWord, Probing};

/// The user's request, each word optional; [`Request::over`] lays flags over a preset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Name of the preset that this is, or is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The tests, as specs, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// Tests that follow these where the device can do them: those with `iopoll`, which needs queues to poll.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests_where_possible: Vec<String>,
    /// Size of the data set; where absent, calibration chooses it within the caps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Number of files of every file test that does not state one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Count>,
    /// Measured time of each phase; with a precision, the longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Seconds>,
    /// Precision at which a phase ends: the rate is steady, and its 95 % interval reaches no further than this to
    /// either side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Percent>,
    /// Shortest measured time of a phase that has a precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_min: Option<Seconds>,
    /// Hard limit of the whole run, preparation included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Seconds>,
    /// Repetitions of the whole list, each on fresh files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// Seed of offsets and data; where absent, a fresh one, recorded in the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The user's name for this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// State of the page cache before buffered reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMode>,
    /// `true`: all data tests bypass the page cache unless their spec says otherwise; `false`: none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<bool>,
    /// How data tests in blocks are issued unless their spec says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineWord>,
    /// True if every byte of every block read is compared with the data written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<bool>,
    /// Memory of the server that the target lies on. Data that does not exceed it may be read from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_ram: Option<Size>,
    /// Tests on which experiments are made to find out what limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probing>,
    /// Range that every test is repeated over, in the form that [`Sweep`](crate::Sweep) understands: `q1..q64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Most bytes that the run may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_limit: Option<Size>,
    /// Things that are normally refused and that this request allows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allow>,
}

/// A thing for which a plan is normally refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allow {
    /// Leaving less than max(5 %, 1 GiB) of the file system free.
    LowSpace,
    /// A target that others are using now.
    Busy,
    /// As root, a directory in which others may rename the files made there.
    SharedDirectory,
}

impl Request {
    /// The words that a preset file may contain.
    pub const WORDS: &[&str] = &[
        "preset",
        "tests",
        "tests_where_possible",
        "size",
        "files",
        "time",
        "precision",
        "time_min",
        "total",
        "repeat",
        "seed",
        "label",
        "cache",
        "direct",
        "engine",
        "verify",
        "server_ram",
        "probe",
        "sweep",
        "write_limit",
        "allow",
    ];

    /// Reads a preset file.
    ///
    /// # Errors
    /// One sentence with the line, and the nearest known word where the mistake is a word.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| explain(text, &error))
    }

    /// The same request as TOML, which [`Request::from_toml`] reads back.
    pub fn to_toml(&self) -> String {
        // A struct of strings, numbers and lists of strings always has a TOML form.
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Merges two requests: this one where it says something, `lower` where it does not.
    ///
    /// Tests are replaced as a whole. A time asked for here lifts the total of `lower`, which was made for another
    /// time. It is kept to the second, so that the precision and the shortest time of `lower` are lifted too. More
    /// repetitions than in `lower` multiply its total and its write limit by the same factor, rounded up.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        let times = self.repeat.unwrap_or(1).div_ceil(lower.repeat.unwrap_or(1).max(1)).max(1);
        let lower = Self {
            total: lower.total.map(|total| Seconds(total.0 * f64::from(times))),
            write_limit: lower.write_limit.map(|limit| match limit {
                Size::Bytes(bytes) => Size::Bytes(bytes.saturating_mul(times.into())),
                share => share,
            }),
            ..lower
        };
        Self {
            preset: self.preset.or(lower.preset),
            // They belong with the tests of the same request.
            tests_where_possible: match self.tests.is_empty() && self.tests_where_possible.is_empty() {
                true => lower.tests_where_possible,
                false => self.tests_where_possible,
            },
            tests: if self.tests.is_empty() { lower.tests } else { self.tests },
            size: self.size.or(lower.size),
            files: self.files.or(lower.files),
            total: if self.time.is_some() { self.total } else { self.total.or(lower.total) },
            precision: if self.time.is_some() { self.precision } else { self.precision.or(lower.precision) },
            time_min: if self.time.is_some() { self.time_min } else { self.time_min.or(lower.time_min) },
            time: self.time.or(lower.time),
            repeat: self.repeat.or(lower.repeat),
            seed: self.seed.or(lower.seed),
            label: self.label.or(lower.label),
            cache: self.cache.or(lower.cache),
            direct: self.direct.or(lower.direct),
            engine: self.engine.or(lower.engine),
            verify: self.verify.or(lower.verify),
            server_ram: self.server_ram.or(lower.server_ram),
            probe: self.probe.or(lower.probe),
            sweep: self.sweep.or(lower.sweep),
            write_limit: self.write_limit.or(lower.write_limit),
            allow: if self.allow.is_empty() { lower.allow } else { self.allow },
        }
    }
}

/// Explains what is wrong with a TOML text: the line, and the nearest possible word where a word is unknown.
pub(crate) fn explain(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let message = error.message();
    // "unknown field `a`, expected one of `b`, `c`", and the same for variants.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown "));
    match unknown.and_then(|word| Some((word, nearest(word, quoted)?))) {
        Some((word, near)) => format!("line {line}: unknown word `{word}`, did you mean `{near}`?"),
        None => format!("line {line}: {message}"),
    }
}

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
            Some(seconds) if seconds > 0.0 && seconds <= 1e7 => Ok(Self(seconds)),
            Some(_) => Err(format!("`{text}` is out of range: more than 0 and at most 10000000 seconds")),
            None => Err(format!("`{text}` is not a duration; write for example 10, 30s or 2m")),
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
            Some(_) => Err(format!("`{text}` is out of range: more than 0 and at most 100 percent")),
            None => Err(format!("`{text}` is not a share; write for example 2%")),
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
            Ok(Size::Bytes(_)) => Err("0 is not enough; ask for 1 or more".into()),
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
        assert_eq!(message, "line 2: unknown word `repaet`, did you mean `repeat`?");
        // The error lists all the words that there are.
        let error = toml::from_str::<Request>("zzz = 1").unwrap_err();
        let listed: Vec<_> = error.message().split('`').skip(3).step_by(2).collect();
        assert_eq!(listed, Request::WORDS);
        let message = Request::from_toml("engine = \"urng\"").unwrap_err();
        assert_eq!(message, "line 1: unknown word `urng`, did you mean `uring`?");
        let message = Request::from_toml("size = \"4q\"").unwrap_err();
        assert!(message.starts_with("line 1: `4q` is not a size"), "{message}");
        let message = Request::from_toml("tests = [\"read\"").unwrap_err();
        assert!(message.starts_with("line 1:"), "{message}");
    }

    #[test]
    fn flags_lie_over_the_preset() {
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
        let merged = Request { engine: Some(EngineWord::Sync), ..Request::default() }.over(sweep);
        assert_eq!((merged.engine, merged.verify), (Some(EngineWord::Sync), Some(true)));
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
    fn durations_are_seconds_or_say_their_unit() {
        assert_eq!("0.5".parse(), Ok(Seconds(0.5)));
        assert_eq!("2m".parse(), Ok(Seconds(120.0)));
        for text in ["0", "-1", "soon", "inf", "NaN"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
