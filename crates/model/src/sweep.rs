//! Sweeps: one test repeated over a range of depths, threads, block sizes, rates or clients.

use std::fmt;
use std::sync::Arc;

use crate::mix::{Mixes, NamedMix};
use crate::size::{self, Size};
use crate::spec::{self, BLOCK_BYTES_MAX, CONCURRENCY_MAX, Defaults};
use crate::workload::keys::RATE_MAX;
use crate::workload::{Arrival, FileVerb, FilesWork, OpenRate, Work, Workload};

/// The open loops of a `rate` sweep, in percent of the rate that the closed loop before them reached.
pub const RATE_PERCENTS: [u8; 5] = [10, 25, 50, 75, 90];

/// Range that a test is repeated over. Ranges double from their low end; their high end is always the last point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// `q1..q64`: operations in flight per thread.
    Depth(u32, u32),
    /// `t1..t64`: threads.
    Threads(u32, u32),
    /// `h1..h8`: clients that make the test, starting with the first.
    Clients(u32, u32),
    /// `4k..1m`: bytes of a block.
    Block(u64, u64),
    /// `rate100..6400`: open loops at these rates, in operations per second over all threads.
    Rate(u64, u64),
    /// `rate`: the closed loop, then open loops at [`RATE_PERCENTS`] of what it reached.
    RateShares,
}

impl Sweep {
    /// Parses `q1..q64`, `t1..t64`, `h1..h8`, `4k..1m`, `rate` and `rate100..6400`; `tn` is `cpus` threads.
    ///
    /// # Errors
    /// One sentence with what would have been understood.
    pub fn parse(text: &str, cpus: u32) -> Result<Self, String> {
        let unknown = || {
            format!(
                "`{text}` is not a sweep; use q1..q64 (depth), t1..tN (threads), h1..hN (clients), 4k..1m (block \
                 size), rate or rate100..6400 (operations a second)"
            )
        };
        let lower = text.trim().to_ascii_lowercase();
        if lower == "rate" {
            return Ok(Self::RateShares);
        }
        let (low, high) = lower.split_once("..").ok_or_else(unknown)?;
        let prefix = ["rate", "q", "t", "h"].into_iter().find(|prefix| low.starts_with(prefix)).unwrap_or("");
        let number = |end: &str| match end.strip_prefix(prefix).unwrap_or(end) {
            "n" if prefix == "t" => Some(u64::from(cpus)),
            // As many as there may be: only the program knows how many were named.
            "n" if prefix == "h" => Some(u64::from(CONCURRENCY_MAX)),
            size if prefix.is_empty() => match size.parse() {
                Ok(Size::Bytes(bytes)) => Some(bytes),
                _ => None,
            },
            // A count has no sign.
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
            _ => None,
        };
        let (low, high) = number(low).zip(number(high)).ok_or_else(unknown)?;
        let max = match prefix {
            "" => BLOCK_BYTES_MAX,
            "rate" => RATE_MAX,
            _ => u64::from(CONCURRENCY_MAX),
        };
        let end = |number: u64| if prefix.is_empty() { size::exact(number) } else { number.to_string() };
        if low > high {
            return Err(format!("sweep `{text}`: the smaller end comes first"));
        }
        if low == 0 || high > max {
            return Err(format!("sweep `{text}`: the range is {} to {}", end(1), end(max)));
        }
        Ok(match prefix {
            "" => Self::Block(low, high),
            "rate" => Self::Rate(low, high),
            "q" => Self::Depth(low as u32, high as u32),
            "h" => Self::Clients(low as u32, high as u32),
            _ => Self::Threads(low as u32, high as u32),
        })
    }

    /// Returns the number of clients at every point; `None` where all make every test.
    pub fn clients(&self) -> Option<Vec<u32>> {
        let Self::Clients(low, high) = *self else { return None };
        Some(doubling(low.into(), high.into()).into_iter().map(|count| count as u32).collect())
    }

    /// Returns the test at every point, in rising order. The sweep replaces its own quantity; the rest stays.
    ///
    /// Open loops have Poisson arrivals, whatever the test sets. A rate is swept to see the queueing of many
    /// independent users, and equal gaps cause none below the capacity.
    ///
    /// # Errors
    /// One sentence if the sweep does not apply to this test, or a point of it is no valid test.
    pub fn expand(&self, workload: &Workload) -> Result<Vec<Workload>, String> {
        let name = workload.name();
        let in_blocks = workload.data().is_some_and(|data| !data.verb.is_bytes());
        let is_mix = workload.files().is_some_and(|files| files.verb == FileVerb::Mix);
        let is_of_rate = matches!(self, Self::Rate(..) | Self::RateShares);
        let is_of_any = matches!(self, Self::Threads(..) | Self::Clients(..));
        let is_swept = in_blocks || is_of_any || is_mix && is_of_rate;
        if !is_swept {
            let without = match self {
                Self::Depth(..) => "depth",
                Self::Block(..) => "block size",
                _ => "open loop",
            };
            return Err(format!("{name} has no {without}; use a sweep of its threads, for example t1..t16"));
        }
        let points: Vec<_> = match *self {
            Self::Depth(low, high) => over(low.into(), high.into(), |iodepth| Workload {
                iodepth: iodepth as u32,
                ..workload.clone()
            }),
            Self::Threads(low, high) => {
                over(low.into(), high.into(), |threads| workload.with_threads(threads as u32))
            }
            Self::Clients(low, high) => over(low.into(), high.into(), |_| workload.clone()),
            Self::Block(low, high) => over(low, high, |block_bytes| {
                let mut point = workload.clone();
                if let Work::Data(data) = &mut point.work {
                    data.block_bytes = block_bytes;
                }
                point
            }),
            Self::Rate(low, high) => {
                over(low, high, |rate| workload.with_arrival(poisson(OpenRate::PerSecond(rate))))
            }
            Self::RateShares => {
                let shares = RATE_PERCENTS.map(|percent| poisson(OpenRate::Percent(percent)));
                let arrivals = [Arrival::Closed].into_iter().chain(shares);
                arrivals.map(|arrival| workload.with_arrival(arrival)).collect()
            }
        };
        // Every point must be a valid test by itself; parsing its spec gives that test.
        let mut mixes = Mixes::new();
        if let Some(FilesWork { mix: NamedMix::File { path, mix: Some(mix) }, .. }) = workload.files() {
            mixes.insert(path.clone(), Arc::clone(mix));
        }
        let defaults = Defaults { mixes: &mixes, ..Defaults::default() };
        let reparsed = points.iter().map(|point| spec::parse(&spec::print(point), &defaults));
        reparsed.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }
}

impl fmt::Display for Sweep {
    /// Writes the text that [`Sweep::parse`] reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Depth(low, high) => write!(f, "q{low}..q{high}"),
            Self::Threads(low, high) => write!(f, "t{low}..t{high}"),
            Self::Clients(low, high) => write!(f, "h{low}..h{high}"),
            Self::Block(low, high) => write!(f, "{}..{}", size::exact(low), size::exact(high)),
            Self::Rate(low, high) => write!(f, "rate{low}..{high}"),
            Self::RateShares => f.write_str("rate"),
        }
    }
}

fn poisson(rate: OpenRate) -> Arrival {
    Arrival::Open { rate, is_poisson: true }
}

/// Returns `low`, its doublings below `high`, and `high`.
fn doubling(low: u64, high: u64) -> Vec<u64> {
    let below = std::iter::successors(Some(low), |point| point.checked_mul(2));
    below.take_while(|point| *point < high).chain([high]).collect()
}

fn over(low: u64, high: u64, point: impl FnMut(u64) -> Workload) -> Vec<Workload> {
    doubling(low, high).into_iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(sweep: &str, spec: &str) -> Result<Vec<String>, String> {
        let workload = spec::parse(spec, &Defaults::default()).unwrap();
        let points = Sweep::parse(sweep, 6)?.expand(&workload)?;
        Ok(points.iter().map(spec::print).collect())
    }

    #[test]
    fn points_double_and_end_at_the_high_end() {
        for (sweep, spec, expected) in [
            ("q1..q4", "read:rnd4k:t2", "read:rnd4k:t2 read:rnd4k:q2t2 read:rnd4k:q4t2"),
            ("h1..h4", "create", "create create create"),
            ("q3..8", "read:rnd4k", "read:rnd4k:q3 read:rnd4k:q6 read:rnd4k:q8"),
            ("t1..tn", "byte-read", "byte-read byte-read:t2 byte-read:t4 byte-read:t6"),
            ("T2..t2", "create", "create:t2"),
            ("t1..t4", "read:rnd4k:t8:files=2", "read:rnd4k:files=2 read:rnd4k:t2 read:rnd4k:t4:files=2"),
            ("4k..8k", "write:fresh", "write:seq4k:fresh write:seq8k:fresh"),
            ("4k..10k", "write:rnd4k:q2", "write:rnd4k:q2 write:rnd8k:q2 write:rnd10k:q2"),
            (
                "rate100..300",
                "read:rnd4k:rate=7",
                "read:rnd4k:rate=100,poisson read:rnd4k:rate=200,poisson read:rnd4k:rate=300,poisson",
            ),
            (
                "rate",
                "read:rnd4k",
                "read:rnd4k read:rnd4k:rate=10%,poisson read:rnd4k:rate=25%,poisson \
                 read:rnd4k:rate=50%,poisson read:rnd4k:rate=75%,poisson read:rnd4k:rate=90%,poisson",
            ),
        ] {
            let points = points(sweep, spec).unwrap();
            assert_eq!(points.join(" "), expected, "{sweep}");
            let parsed = Sweep::parse(sweep, 6).unwrap();
            assert_eq!(Sweep::parse(&parsed.to_string(), 1), Ok(parsed), "{sweep}");
        }
    }

    #[test]
    fn meaningless_sweep_error_suggests_a_valid_one() {
        for (sweep, spec, problem) in [
            ("q1..q4", "create", "create has no depth; use a sweep of its threads, for example t1..t16"),
            (
                "4k..1m",
                "byte-write",
                "byte-write has no block size; use a sweep of its threads, for example t1..t16",
            ),
            ("rate", "stat", "stat has no open loop; use a sweep of its threads, for example t1..t16"),
            ("q8..q2", "read", "sweep `q8..q2`: the smaller end comes first"),
            ("q0..q2", "read", "sweep `q0..q2`: the range is 1 to 4096"),
            ("4k..4g", "read", "sweep `4k..4g`: the range is 1 to 1g"),
            (
                "rate1..18446744073709551615",
                "read",
                "sweep `rate1..18446744073709551615`: the range is 1 to 100000000",
            ),
            (
                "q1..q64",
                "read:rnd4k:t2048",
                "test `read:rnd4k:q64t2048`: 131072 operations in flight are more than 65536; use less depth or \
                 fewer threads",
            ),
            (
                "t1..t8",
                "create:files=4",
                "test `create:t8:files=4`: 4 files are too few for 8 threads; use files=8 or more",
            ),
        ] {
            assert_eq!(points(sweep, spec).unwrap_err(), problem);
        }
        for sweep in ["", "q1", "depth", "q1..t4", "q..", "x1..x4", "10%..50%", "rate-1..4", "t+1..t4"] {
            let problem = points(sweep, "read").unwrap_err();
            assert!(problem.contains("is not a sweep; use q1..q64 (depth)"), "{problem}");
        }
    }
}
