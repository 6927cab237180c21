//! Latency distributions in numbers.

use serde::{Deserialize, Serialize};

use crate::document::document;

document! {
    /// A latency distribution in numbers. Percentiles are null where there are too few samples to know them.
    pub struct Latency {
        /// Smallest.
        pub min: u64,
        /// Arithmetic mean.
        pub mean: u64,
        /// Half of the operations took at most this.
        pub p50: Option<u64>,
        /// 90 % took at most this.
        pub p90: Option<u64>,
        /// 99 % took at most this.
        pub p99: Option<u64>,
        /// 99.9 % took at most this.
        pub p99_9: Option<u64>,
        /// The other percentiles that the user chose, as far as there are enough samples; absent where there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub chosen: Vec<ChosenPercentile>,
        /// Largest: a single observation.
        pub max: u64,
        /// 95 % intervals of the percentiles; null in documents of older versions, and where there were too few
        /// intervals.
        #[serde(default)]
        pub ci95: Option<LatencyIntervals>,
        /// Peaks of the distribution, where there are several kinds of operations by latency; the fastest first. The
        /// mean is meaningless then.
        #[serde(default)]
        pub modes: Vec<Mode>,
    }

    /// A percentile that the user chose.
    pub struct ChosenPercentile {
        /// The percentile, in percent.
        pub percent: f64,
        /// That part of the operations took at most this.
        pub ns: u64,
    }

    /// 95 % intervals of percentiles.
    pub struct LatencyIntervals {
        /// Interval of the median.
        pub p50: Option<Ends>,
        /// Interval of the 90th percentile.
        pub p90: Option<Ends>,
        /// Interval of the 99th percentile.
        pub p99: Option<Ends>,
        /// Interval of the 99.9th percentile.
        pub p99_9: Option<Ends>,
    }

    /// The ends of an interval.
    pub struct Ends {
        /// Lower end.
        pub low: u64,
        /// Upper end.
        pub high: u64,
    }

    /// One of several peaks of a latency distribution.
    pub struct Mode {
        /// Median latency of its operations.
        pub at_ns: u64,
        /// Share of all operations, 0 to 1.
        pub share: f64,
    }
}
