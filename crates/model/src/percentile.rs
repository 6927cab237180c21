//! Percentiles of latencies that a reader chooses.

use std::fmt;
use std::str::FromStr;

/// Most percentiles that a table shows.
pub const PERCENTILES_MAX: usize = 8;
/// Parts of a percent: four decimals.
const PARTS: f64 = 10_000.0;

/// A percentile, such as 99.9. It has at most four decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile(u32);

impl Percentile {
    /// The median.
    pub const P50: Self = Self(500_000);
    /// 90 % are at most this.
    pub const P90: Self = Self(900_000);
    /// 99 % are at most this.
    pub const P99: Self = Self(990_000);
    /// 99.9 % are at most this.
    pub const P99_9: Self = Self(999_000);

    /// Returns the percentile of a number of percent; `None` unless it is between 0 and 100, to four decimals.
    pub fn from_percent(percent: f64) -> Option<Self> {
        let parts = (percent * PARTS).round();
        let is_exact = (percent * PARTS - parts).abs() < 1e-6;
        ((1.0..100.0 * PARTS).contains(&parts) && is_exact).then_some(Self(parts as u32))
    }

    /// Returns it in percent.
    pub fn percent(self) -> f64 {
        f64::from(self.0) / PARTS
    }

    /// Returns the share of the samples that are at most this, from 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / (100.0 * PARTS)
    }

    /// Returns its name: "p99.9".
    pub fn name(self) -> String {
        format!("p{self}")
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.percent())
    }
}

impl FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().parse::<f64>().map_err(|_| format!("`{text}` is not a number"))?;
        Self::from_percent(number).ok_or_else(|| {
            format!("`{text}` is out of range; use numbers between 0 and 100, with at most four decimals")
        })
    }
}

/// The percentiles that a table shows, ascending: at least one and at most [`PERCENTILES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percentiles(Vec<Percentile>);

impl Percentiles {
    /// Returns the percentiles of these numbers of percent. Leaves out numbers that are none; `None` if none remains.
    pub fn from_percents(percents: &[f64]) -> Option<Self> {
        let known = percents.iter().filter_map(|percent| Percentile::from_percent(*percent));
        let mut chosen: Vec<_> = known.take(PERCENTILES_MAX).collect();
        chosen.sort_unstable();
        chosen.dedup();
        (!chosen.is_empty()).then_some(Self(chosen))
    }

    /// The percentiles.
    pub fn as_slice(&self) -> &[Percentile] {
        &self.0
    }

    /// The percentiles in percent.
    pub fn percents(&self) -> Vec<f64> {
        self.0.iter().map(|chosen| chosen.percent()).collect()
    }
}

impl FromStr for Percentiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let chosen: Vec<Percentile> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if let Some(pair) = chosen.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("{} follows {}; use each once, ascending", pair[1], pair[0]));
        }
        match chosen.len() {
            0..=PERCENTILES_MAX => Ok(Self(chosen)),
            more => Err(format!("it has {more} percentiles; use at most {PERCENTILES_MAX}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_read_in_ascending_order() {
        let chosen: Percentiles = "50, 99,99.9,99.99".parse().unwrap();
        assert_eq!(chosen.percents(), [50.0, 99.0, 99.9, 99.99]);
        let names: Vec<_> = chosen.as_slice().iter().map(|chosen| chosen.name()).collect();
        assert_eq!(names, ["p50", "p99", "p99.9", "p99.99"]);
        assert_eq!(chosen.as_slice()[2], Percentile::P99_9);
        assert_eq!(Percentiles::from_percents(&chosen.percents()), Some(chosen));
    }

    #[test]
    fn percentiles_outside_their_rules_are_refused() {
        for (text, reason) in [
            ("", "not a number"),
            ("fast", "not a number"),
            ("50,,99", "not a number"),
            ("0", "between 0 and 100"),
            ("100", "between 0 and 100"),
            ("-1", "between 0 and 100"),
            ("nan", "between 0 and 100"),
            ("inf", "between 0 and 100"),
            ("99.99999", "four decimals"),
            ("99,50", "50 follows 99"),
            ("99,99.0", "99 follows 99"),
            ("1,2,3,4,5,6,7,8,9", "at most 8"),
        ] {
            let error = text.parse::<Percentiles>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn impossible_percents_of_document_are_left_out() {
        assert_eq!(Percentiles::from_percents(&[f64::NAN, -1.0, 0.0, 100.0, 1e300]), None);
        let chosen = Percentiles::from_percents(&[99.0, f64::INFINITY, 50.0, 99.0]).unwrap();
        assert_eq!(chosen.percents(), [50.0, 99.0]);
    }
}
