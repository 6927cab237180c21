//! The description of a simulated device, as TOML: what it can do, and how it misbehaves.
//!
//! It states what is known about the device beforehand, so that measurements of the device can be checked against it.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::numbers::rank;
use crate::size::Size;
use crate::toml_text::from_toml;

/// A simulated device.
///
/// A read or write first uses its worker's CPU, and then passes the cap on requests. It then waits for a free server
/// and its latency, while its bytes pass the caps on bytes. It ends when both are done. With a cache, a write waits for
/// free space in it rather than for a server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimDevice {
    /// Its name.
    #[serde(default = "default_name")]
    pub name: String,
    /// Bytes that it holds.
    #[serde(rename = "size", default = "default_size_bytes", deserialize_with = "device_size")]
    pub size_bytes: u64,
    /// Requests that it serves at once.
    #[serde(default = "one", deserialize_with = "servers")]
    pub parallelism: u32,
    /// Latency of a read, and of a write unless stated otherwise.
    pub latency: Distribution,
    /// Latency of a write; null: as for a read.
    pub write_latency: Option<Distribution>,
    /// Time to make writes durable, with an empty cache; null: no time.
    pub flush_latency: Option<Distribution>,
    /// Most bytes per second, reads and writes together.
    #[serde(default, deserialize_with = "maybe_amount")]
    pub bytes_per_second: Option<u64>,
    /// Most bytes written per second, within the cap on both.
    #[serde(default, deserialize_with = "maybe_amount")]
    pub write_bytes_per_second: Option<u64>,
    /// Most requests per second, reads and writes together.
    #[serde(default, deserialize_with = "maybe_amount")]
    pub ops_per_second: Option<u64>,
    /// Its write-back cache; null: it has none.
    pub cache: Option<Cache>,
    /// Changes of its cap on written bytes with its age: a drive is fast as long as it has blocks to spare.
    #[serde(default, deserialize_with = "ascending_wear")]
    pub wear: Vec<WearStep>,
    /// Changes of its caps, in the order of time.
    #[serde(default, deserialize_with = "in_order")]
    pub throttles: Vec<Throttle>,
    /// Periods in which it serves nothing.
    #[serde(default)]
    pub stalls: Vec<Stall>,
    /// Requests that fail.
    #[serde(default)]
    pub errors: Vec<Fault>,
    /// Kernel CPU time that a worker spends on each request.
    #[serde(default, deserialize_with = "cpu_time")]
    pub cpu_ns_per_op: u64,
}

/// Latency of requests, drawn independently for each.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "RawDistribution")]
pub enum Distribution {
    /// All requests take the same time.
    Fixed {
        /// Time of each request.
        mean_us: f64,
    },
    /// Exponential, as of a memoryless server.
    Exponential {
        /// Arithmetic mean.
        mean_us: f64,
    },
    /// Log-normal, as of most real devices.
    LogNormal {
        /// Arithmetic mean.
        mean_us: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Most take one time, some another.
    Bimodal {
        /// Time of most: not the mean over all, see [`Distribution::mean_us`].
        mean_us: f64,
        /// Time of the slow ones.
        slow_us: f64,
        /// Share of the slow ones, 0 to 1.
        slow_share: f64,
    },
}

/// A cache that takes writes before they reach the medium.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Bytes that it holds.
    #[serde(deserialize_with = "amount")]
    pub bytes: u64,
    /// Latency of a write into the cache while it has free space.
    #[serde(deserialize_with = "latency")]
    pub latency_us: f64,
    /// Bytes per second that leave it for the medium.
    #[serde(deserialize_with = "amount")]
    pub drain_bytes_per_second: u64,
}

/// A new cap on written bytes, in effect after this many bytes written since the device was made or purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearStep {
    /// Bytes written before, over all tests.
    #[serde(deserialize_with = "amount")]
    pub after_bytes: u64,
    /// Cap on bytes written per second after that.
    #[serde(deserialize_with = "amount")]
    pub write_bytes_per_second: u64,
}

/// New caps, in effect after a point in time. A cap that is null stays as it was.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "RawThrottle")]
pub struct Throttle {
    /// Seconds from the start of the phase.
    pub at_s: f64,
    /// Most bytes per second, reads and writes together.
    pub bytes_per_second: Option<u64>,
    /// Most requests per second, reads and writes together.
    pub ops_per_second: Option<u64>,
}

/// A period in which nothing is served.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "RawStall")]
pub struct Stall {
    /// Seconds from the start of the phase.
    pub at_s: f64,
    /// Length of the stall in milliseconds.
    pub length_ms: f64,
    /// Seconds from the start of one stall to the start of the next; null: there is only one.
    pub every_s: Option<f64>,
}

/// A request that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Number of requests served before it.
    pub after_ops: u64,
    /// How it fails.
    pub error: FaultKind,
}

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// The device cannot read or write it.
    #[serde(rename = "EIO")]
    Io,
    /// There is no room.
    #[serde(rename = "ENOSPC")]
    NoSpace,
    /// Only a part of it is done.
    #[serde(rename = "short")]
    Short,
}

impl SimDevice {
    /// Reads a description.
    ///
    /// # Errors
    /// One sentence with the line, and the nearest known word where the mistake is a word.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        from_toml(text)
    }

    /// Returns the cap on written bytes after `written_bytes` bytes.
    pub fn write_cap(&self, written_bytes: u64) -> Option<u64> {
        let reached = self.wear.iter().rfind(|wear| wear.after_bytes <= written_bytes);
        reached.map(|wear| wear.write_bytes_per_second).or(self.write_bytes_per_second)
    }

    /// Returns the latency of a write.
    pub fn write_latency(&self) -> Distribution {
        self.write_latency.unwrap_or(self.latency)
    }
}

impl Distribution {
    /// Returns the arithmetic mean over all requests, in microseconds.
    pub fn mean_us(&self) -> f64 {
        match *self {
            Self::Fixed { mean_us } | Self::Exponential { mean_us } | Self::LogNormal { mean_us, .. } => {
                mean_us
            }
            Self::Bimodal { mean_us, slow_us, slow_share } => {
                mean_us * (1.0 - slow_share) + slow_us * slow_share
            }
        }
    }
}

/// A [`Distribution`] as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { kind = \"fixed\", mean_us = 100 }")]
struct RawDistribution {
    #[serde(default)]
    kind: Kind,
    #[serde(deserialize_with = "latency")]
    mean_us: f64,
    #[serde(default, deserialize_with = "maybe_positive")]
    sigma: Option<f64>,
    #[serde(default, deserialize_with = "maybe_positive")]
    slow_us: Option<f64>,
    #[serde(default, deserialize_with = "maybe_share")]
    slow_share: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Fixed,
    Exponential,
    LogNormal,
    Bimodal,
}

impl TryFrom<RawDistribution> for Distribution {
    type Error = &'static str;

    fn try_from(words: RawDistribution) -> Result<Self, Self::Error> {
        let RawDistribution { kind, mean_us, sigma, slow_us, slow_share } = words;
        if mean_us.max(slow_us.unwrap_or(0.0)) > LATENCY_US_MAX
            || sigma.is_some_and(|sigma| sigma > SIGMA_MAX)
        {
            return Err("the maximum latency is an hour, the maximum sigma 5");
        }
        match (kind, sigma, slow_us, slow_share) {
            (Kind::Fixed, None, None, None) => Ok(Self::Fixed { mean_us }),
            (Kind::Exponential, None, None, None) => Ok(Self::Exponential { mean_us }),
            (Kind::LogNormal, Some(sigma), None, None) => Ok(Self::LogNormal { mean_us, sigma }),
            (Kind::Bimodal, None, Some(slow_us), Some(slow_share)) => {
                Ok(Self::Bimodal { mean_us, slow_us, slow_share })
            }
            (Kind::Fixed, ..) => Err("a fixed latency has only mean_us"),
            (Kind::Exponential, ..) => Err("an exponential latency has only mean_us"),
            (Kind::LogNormal, ..) => Err("a lognormal latency needs mean_us and sigma, such as sigma = 0.5"),
            (Kind::Bimodal, ..) => {
                Err("a bimodal latency needs mean_us, slow_us and slow_share, such as slow_share = 0.01")
            }
        }
    }
}

/// Longest latency: an hour.
const LATENCY_US_MAX: f64 = 3.6e9;
/// Shortest latency: that of memory. Simulated time must pass, or a test never ends.
const LATENCY_US_MIN: f64 = 0.1;
/// Smallest device: one on which blocks of all usual sizes have a place.
const SIZE_BYTES_MIN: u64 = 1 << 20;
/// Most CPU time of a request: a second.
const CPU_NS_MAX: u64 = 1_000_000_000;
/// Largest standard deviation of a logarithm: a few then take ten thousand times as long as most.
const SIGMA_MAX: f64 = 5.0;
/// Most requests that a device serves at once.
const PARALLELISM_MAX: u32 = 65_536;

/// A [`Throttle`] as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawThrottle {
    #[serde(deserialize_with = "non_negative")]
    at_s: f64,
    #[serde(default, deserialize_with = "maybe_amount")]
    bytes_per_second: Option<u64>,
    #[serde(default, deserialize_with = "maybe_amount")]
    ops_per_second: Option<u64>,
}

impl TryFrom<RawThrottle> for Throttle {
    type Error = &'static str;

    fn try_from(words: RawThrottle) -> Result<Self, Self::Error> {
        let RawThrottle { at_s, bytes_per_second, ops_per_second } = words;
        if bytes_per_second.is_none() && ops_per_second.is_none() {
            return Err("the throttle has no limit; add bytes_per_second or ops_per_second");
        }
        Ok(Self { at_s, bytes_per_second, ops_per_second })
    }
}

/// A [`Stall`] as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStall {
    #[serde(deserialize_with = "non_negative")]
    at_s: f64,
    #[serde(deserialize_with = "positive")]
    length_ms: f64,
    #[serde(default, deserialize_with = "maybe_positive")]
    every_s: Option<f64>,
}

impl TryFrom<RawStall> for Stall {
    type Error = &'static str;

    fn try_from(words: RawStall) -> Result<Self, Self::Error> {
        let RawStall { at_s, length_ms, every_s } = words;
        if every_s.is_some_and(|every_s| every_s * 1e3 <= length_ms) {
            return Err("the stalls leave no time for requests; use an every_s longer than length_ms");
        }
        Ok(Self { at_s, length_ms, every_s })
    }
}

fn default_name() -> String {
    "sim0".into()
}

fn default_size_bytes() -> u64 {
    1 << 40
}

fn one() -> u32 {
    1
}

/// Reads a number of bytes or requests, which may carry the suffixes of sizes.
fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Size::deserialize(deserializer)? {
        Size::Bytes(0) => Err(de::Error::custom("0 is out of range; use 1 or more, or drop the key")),
        Size::Bytes(amount) => Ok(amount),
        _ => Err(de::Error::custom("use an absolute size, such as 64k or 1g")),
    }
}

fn device_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match amount(deserializer)? {
        size if size < SIZE_BYTES_MIN => Err(de::Error::custom("the minimum is 1m")),
        size => Ok(size),
    }
}

fn cpu_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        time_ns if time_ns > CPU_NS_MAX => {
            Err(de::Error::custom("the maximum is a second of CPU time per request"))
        }
        time_ns => Ok(time_ns),
    }
}

fn latency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    number(deserializer, |number| number >= LATENCY_US_MIN, "0.1 µs or more")
}

fn maybe_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    amount(deserializer).map(Some)
}

fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(de::Error::custom("0 is out of range; use 1 or more")),
        servers if servers > PARALLELISM_MAX => {
            Err(de::Error::custom(format!("the maximum is {PARALLELISM_MAX}")))
        }
        servers => Ok(servers),
    }
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    fits: impl Fn(f64) -> bool,
    range: &str,
) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    // Beyond 2^53 a double is no longer exact, and no test lasts that long.
    if number.is_finite() && number.abs() < 1e15 && fits(number) {
        Ok(number)
    } else {
        Err(de::Error::custom(format!("{number} is out of range; use {range}")))
    }
}

fn non_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    number(deserializer, |number| number >= 0.0, "0 or more")
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    number(deserializer, |number| number > 0.0, "more than 0")
}

fn maybe_positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    positive(deserializer).map(Some)
}

fn maybe_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, |number| (0.0..=1.0).contains(&number), "a share from 0 to 1").map(Some)
}

fn in_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Throttle>, D::Error> {
    let mut throttles = Vec::<Throttle>::deserialize(deserializer)?;
    throttles.sort_by_cached_key(|throttle| rank(throttle.at_s));
    Ok(throttles)
}

fn ascending_wear<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<WearStep>, D::Error> {
    let mut wear = Vec::<WearStep>::deserialize(deserializer)?;
    wear.sort_by_cached_key(|wear| wear.after_bytes);
    Ok(wear)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "latency = { kind = \"fixed\", mean_us = 100 }\n";

    fn problem(text: &str) -> String {
        SimDevice::from_toml(&format!("{LATENCY}{text}")).unwrap_err()
    }

    #[test]
    fn latency_is_the_only_required_field() {
        let device = SimDevice::from_toml(LATENCY).unwrap();
        assert_eq!((device.name.as_str(), device.size_bytes, device.parallelism), ("sim0", 1 << 40, 1));
        assert_eq!(device.write_latency(), Distribution::Fixed { mean_us: 100.0 });
        assert_eq!((device.bytes_per_second, device.cache, device.cpu_ns_per_op), (None, None, 0));
        assert_eq!(SimDevice::from_toml("latency = { mean_us = 100 }"), Ok(device));
        let missing = SimDevice::from_toml("name = \"a\"").unwrap_err();
        assert_eq!(missing, "line 1: missing field `latency`");
    }

    #[test]
    fn every_key_of_a_device_file_is_parsed() {
        let text = r#"
            name = "cloud"
            size = "8g"
            parallelism = 4
            bytes_per_second = "500MB"
            write_bytes_per_second = 200_000_000
            ops_per_second = 16000
            cpu_ns_per_op = 1500
            throttles = [{ at_s = 30, ops_per_second = 3000 }, { at_s = 2.5, bytes_per_second = "50MB" }]
            stalls = [{ at_s = 1, length_ms = 250, every_s = 5 }, { at_s = 0.1, length_ms = 1 }]
            errors = [{ after_ops = 1000, error = "EIO" }, { after_ops = 0, error = "short" }]

            [latency]
            kind = "bimodal"
            mean_us = 100
            slow_us = 1100
            slow_share = 0.1

            [write_latency]
            kind = "lognormal"
            mean_us = 20.5
            sigma = 0.5

            [flush_latency]
            kind = "exponential"
            mean_us = 2000

            [cache]
            bytes = "64m"
            latency_us = 5
            drain_bytes_per_second = "100MB"
        "#;
        let device = SimDevice::from_toml(text).unwrap();
        assert_eq!((device.size_bytes, device.bytes_per_second), (8 << 30, Some(500_000_000)));
        assert!((device.latency.mean_us() - 200.0).abs() < 1e-9);
        assert_eq!(device.write_latency(), Distribution::LogNormal { mean_us: 20.5, sigma: 0.5 });
        assert_eq!(device.flush_latency, Some(Distribution::Exponential { mean_us: 2000.0 }));
        let cache = Cache { bytes: 64 << 20, latency_us: 5.0, drain_bytes_per_second: 100_000_000 };
        assert_eq!(device.cache, Some(cache));
        assert_eq!(device.throttles.iter().map(|throttle| throttle.at_s).collect::<Vec<_>>(), [2.5, 30.0]);
        assert_eq!(device.stalls[0], Stall { at_s: 1.0, length_ms: 250.0, every_s: Some(5.0) });
        assert_eq!(device.errors[1], Fault { after_ops: 0, error: FaultKind::Short });
    }

    #[test]
    fn error_names_the_line_and_a_valid_alternative() {
        assert_eq!(
            problem("paralellism = 4"),
            "line 2: unknown keyword `paralellism`, did you mean `parallelism`?"
        );
        assert_eq!(
            problem("\ncache = { bytes = 1, latency = 5 }"),
            "line 3: unknown keyword `latency`, did you mean `latency_us`?"
        );
        let zero = "line 2: 0 is out of range; use 1 or more, or drop the key";
        for text in [
            "bytes_per_second = 0",
            "write_bytes_per_second = 0",
            "ops_per_second = \"0\"",
            "size = 0",
            "throttles = [{ at_s = 1, ops_per_second = 0 }]",
            "cache = { bytes = 1, latency_us = 5, drain_bytes_per_second = 0 }",
        ] {
            assert_eq!(problem(text), zero, "{text}");
        }
        for (text, expected) in [
            ("parallelism = 0", "0 is out of range; use 1 or more"),
            ("size = \"10%\"", "use an absolute size"),
            ("throttles = [{ at_s = 1 }]", "the throttle has no limit; add bytes_per_second"),
            ("stalls = [{ at_s = 1, length_ms = 0 }]", "0 is out of range; use more than 0"),
            ("stalls = [{ at_s = 1, length_ms = 2000, every_s = 2 }]", "use an every_s longer"),
            ("stalls = [{ at_s = -1, length_ms = 1 }]", "-1 is out of range; use 0 or more"),
            ("errors = [{ after_ops = 1, error = \"ENOSPCE\" }]", "did you mean `ENOSPC`?"),
            (
                "flush_latency = { kind = \"fixed\", mean_us = nan }",
                "nan is out of range; use a finite number",
            ),
            ("flush_latency = { kind = \"fixed\", mean_us = 1, sigma = 1 }", "has only mean_us"),
            ("flush_latency = { kind = \"lognormal\", mean_us = 1 }", "needs mean_us and sigma"),
            ("flush_latency = { kind = \"bimodal\", mean_us = 1, slow_us = 2 }", "such as slow_share = 0.01"),
            (
                "flush_latency = { kind = \"bimodal\", mean_us = 1, slow_us = 2, slow_share = 1.5 }",
                "1.5 is out of range; use a share from 0 to 1",
            ),
        ] {
            let problem = problem(text);
            assert!(problem.starts_with("line 2: ") && problem.contains(expected), "{problem}");
        }
    }
}
