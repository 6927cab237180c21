//! Requests to a server and the instants of its answers: the truth that measurements are compared with.

use serde::{Deserialize, Serialize};

use crate::clock::now_ns;

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes data durable.
    Sync,
    /// Reads or changes names or attributes; recorded if it has a service time.
    Name,
}

/// One request and its answer. Instants are nanoseconds on the axis of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Kind of the request.
    pub direction: Direction,
    /// Instant when the server got it.
    pub arrived_ns: u64,
    /// Instant when the server began to answer.
    pub answered_ns: u64,
    /// Offset in the file.
    pub offset_bytes: u64,
    /// Requested number of bytes.
    pub length_bytes: u64,
}

impl Request {
    /// A request that has just arrived.
    pub(crate) fn now(direction: Direction, offset_bytes: u64, length_bytes: u32) -> Self {
        let length_bytes = u64::from(length_bytes);
        Self { direction, arrived_ns: now_ns(), answered_ns: 0, offset_bytes, length_bytes }
    }

    /// Time from its arrival to its answer.
    pub fn time_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.arrived_ns)
    }
}

/// All requests answered since the last reset, in the order of the answers.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RequestLog {
    /// Each request, up to [`RequestLog::REQUESTS_MAX`].
    pub requests: Vec<Request>,
    /// Reads that were answered.
    pub reads: u64,
    /// Writes that were answered.
    pub writes: u64,
    /// Syncs that were answered.
    pub syncs: u64,
    /// Requests on names that were answered.
    pub names: u64,
    /// Requested bytes of reads.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

impl RequestLog {
    /// Maximum number of logged requests; further ones are only counted.
    pub const REQUESTS_MAX: usize = 4 << 20;

    /// Adds a request.
    pub(crate) fn add(&mut self, request: Request) {
        match request.direction {
            Direction::Read => {
                (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + request.length_bytes)
            }
            Direction::Write => {
                (self.writes, self.bytes_written) =
                    (self.writes + 1, self.bytes_written + request.length_bytes);
            }
            Direction::Sync => self.syncs += 1,
            Direction::Name => self.names += 1,
        }
        if self.requests.len() < Self::REQUESTS_MAX {
            self.requests.push(request);
        }
    }

    /// Returns the requests of one direction alone.
    #[must_use]
    pub fn in_direction(&self, direction: Direction) -> Self {
        let mut some = Self::default();
        self.requests
            .iter()
            .filter(|request| request.direction == direction)
            .for_each(|found| some.add(*found));
        some
    }

    /// Returns the requests that arrived in a span of time, as instants on the axis of `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn between(&self, from_ns: u64, to_ns: u64) -> Self {
        let mut some = Self::default();
        let command_inside =
            self.requests.iter().filter(|request| (from_ns..to_ns).contains(&request.arrived_ns));
        command_inside.for_each(|found| some.add(*found));
        some
    }

    /// Times from arrival to answer, ascending.
    pub fn times_ns(&self) -> Vec<u64> {
        let mut times: Vec<_> = self.requests.iter().map(Request::time_ns).collect();
        times.sort_unstable();
        times
    }

    /// The time within which this share of the requests was answered (nearest rank, exact); 0 where there are none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let times = self.times_ns();
        let rank = (times.len() as f64 * share).ceil() as usize;
        times.get(rank.saturating_sub(1).min(times.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    /// Mean time from arrival to answer; 0 where there are none.
    pub fn mean_ns(&self) -> f64 {
        let times: u128 = self.requests.iter().map(|request| u128::from(request.time_ns())).sum();
        times as f64 / self.requests.len().max(1) as f64
    }

    /// Answers a second, from the first arrival to the last answer.
    pub fn per_second(&self) -> f64 {
        let first = self.requests.iter().map(|request| request.arrived_ns).min().unwrap_or(0);
        let last = self.requests.iter().map(|request| request.answered_ns).max().unwrap_or(0);
        self.requests.len() as f64 * 1e9 / (last.saturating_sub(first).max(1)) as f64
    }

    /// Mean number of requests in flight over the same span (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.mean_ns() / 1e9 * self.per_second()
    }
}

impl Direction {
    pub(crate) fn moves_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(direction: Direction, arrived_ns: u64, time_ns: u64) -> Request {
        Request {
            direction,
            arrived_ns,
            answered_ns: arrived_ns + time_ns,
            offset_bytes: 0,
            length_bytes: 4096,
        }
    }

    #[test]
    fn request_log_sums_and_quantiles_match_requests() {
        let mut served = RequestLog::default();
        (1..=100).for_each(|i| served.add(request(Direction::Read, i * 10, i)));
        served.add(request(Direction::Write, 5, 1000));
        served.add(request(Direction::Sync, 5, 0));
        assert_eq!((served.reads, served.writes, served.syncs), (100, 1, 1));
        assert_eq!((served.bytes_read, served.bytes_written), (409_600, 4096));
        let reads = served.in_direction(Direction::Read);
        assert_eq!([0.0, 0.01, 0.5, 0.99, 1.0].map(|share| reads.quantile_ns(share)), [1, 1, 50, 99, 100]);
        assert!((reads.mean_ns() - 50.5).abs() < 1e-9);
        assert!((reads.per_second() - 100.0 * 1e9 / 1090.0).abs() < 1.0);
        assert_eq!(reads.between(10, 30).reads, 2);
        assert_eq!(RequestLog::default().quantile_ns(0.5), 0);
    }
}
