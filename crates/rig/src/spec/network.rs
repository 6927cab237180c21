//! A network file system, as words.

use model::size;

use super::{bytes, escape, number, unescape_text};
use crate::text::{parse_time, time};

/// A directory in memory on a server behind a network, mounted by sshfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Rate of the network, in each direction and with all headers.
    pub bits_per_second: u64,
    /// Time that bytes need to the other end, in each direction, besides the time that the rate takes.
    pub delay_ns: u64,
    /// Room on the server.
    pub bytes: u64,
    /// Options of `sshfs -o`.
    pub mount_options: String,
}

impl NetworkSpec {
    /// Time that bytes need to the other end, in each direction.
    #[must_use]
    pub fn delay_us(mut self, us: u64) -> Self {
        self.delay_ns = us * 1000;
        self
    }

    /// Sets the room on the server.
    #[must_use]
    pub fn size_mib(mut self, mib: u64) -> Self {
        self.bytes = mib << 20;
        self
    }

    /// Options of `sshfs -o`: `"direct_io"`.
    #[must_use]
    pub fn mount_options(mut self, options: impl Into<String>) -> Self {
        self.mount_options = options.into();
        self
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "rate" => self.bits_per_second = bits(value)?,
            "delay" => self.delay_ns = parse_time(value)?,
            "size" => self.bytes = bytes(value)?,
            "mount" => self.mount_options = unescape_text(value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn words(&self) -> Vec<String> {
        let Self { bits_per_second, delay_ns, bytes, mount_options } = self;
        let mut words =
            vec![format!("rate={}", bits_word(*bits_per_second)), format!("size={}", size::exact(*bytes))];
        words.extend((*delay_ns > 0).then(|| format!("delay={}", time(*delay_ns))));
        words.extend((!mount_options.is_empty()).then(|| format!("mount={}", escape(mount_options))));
        words
    }
}

/// Units of network rates, largest first.
const UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];

/// Parses a rate such as `200mbit`.
fn bits(value: &str) -> Result<u64, String> {
    let found = UNITS.iter().find_map(|(unit, bits)| Some((value.strip_suffix(unit)?, bits)));
    let (count, unit) = found.ok_or_else(|| format!("`{value}` is not a rate such as 200mbit"))?;
    let rate = number::<u64>(count)?.checked_mul(*unit);
    rate.filter(|rate| *rate > 0).ok_or_else(|| format!("`{value}` is not a possible network rate"))
}

fn bits_word(rate: u64) -> String {
    let (unit, bits) = UNITS.into_iter().find(|(_, bits)| rate.is_multiple_of(*bits)).unwrap_or(UNITS[3]);
    format!("{}{unit}", rate / bits)
}
