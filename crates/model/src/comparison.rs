//! Results of comparing runs: the document of `skye compare` and `skye ab`, schema `skye.compare/1`.

use serde::{Deserialize, Serialize};

use crate::document::{document, words};
use crate::limiter::Limiter;
use crate::run::{Confidence, Setting, Trust};

/// Name of the schema that this version writes.
pub const SCHEMA: &str = "skye.compare/1";

words! {
    /// Measure that the values of a row are in.
    pub enum Measure {
        /// Bytes per second: more is better.
        BytesPerSecond,
        /// Operations per second: more is better.
        OpsPerSecond,
        /// The 99th percentile of the latency in nanoseconds: less is better.
        P99Ns,
    }

    /// The three possible decisions about a change.
    pub enum Decision {
        /// It changed by the ratio, within the interval of the ratio.
        Changed,
        /// If it changed, then by less than the margin.
        Equivalent,
        /// These runs do not show either.
        CannotTell,
    }

    /// Direction of a change.
    pub enum Direction {
        /// Faster, or less waiting.
        Better,
        /// Slower, or more waiting.
        Worse,
    }
}

document! {
    /// Runs compared with each other, row by row.
    pub struct Comparison {
        /// Always "skye.compare/1".
        pub schema: String,
        /// Version of the program.
        pub skye_version: String,
        /// Sides of the comparison, each compared with the first.
        pub sides: Vec<Side>,
        /// True if the runs of both sides were made in pairs, next to each other in time. Otherwise one side ran after
        /// the other, and any change in between counts as a difference.
        pub is_interleaved: bool,
        /// Margin of equivalence, as a share: a smaller change is as good as none.
        pub effect: f64,
        /// Noise floor, as a share: a smaller change is never called a change.
        pub noise_floor: f64,
        /// Differences between the sides other than the numbers.
        pub differs: Vec<Difference>,
        /// Settings that are the same on all sides and worth knowing.
        pub same: Vec<Setting>,
        /// Results that at least two sides have, one row per test and measure. The rate of a test comes before its
        /// latency.
        pub rows: Vec<Row>,
        /// Tests that were not compared, with reasons.
        pub left_out: Vec<LeftOut>,
        /// Geometric mean of the ratios of all rates, for each side but the first; null where there is none,
        /// and where one rate is undecided.
        pub geomean_ratios: Vec<Option<f64>>,
        /// Largest number of changes that are judged together, for the correction of p. These are all rates of one side
        /// against the first, or all latencies.
        pub comparisons: u32,
        /// Smallest number of runs per side, or of pairs, that can support `comparisons` claims at all.
        pub runs_to_decide: u32,
        /// Warnings to read before the rows.
        pub warnings: Vec<String>,
    }

    /// One side of a comparison.
    pub struct Side {
        /// Name of the side: a label, a file, the value of a key.
        pub name: String,
        /// Names of the files that hold its documents.
        pub files: Vec<String>,
        /// Start of its first run: RFC 3339, UTC; null where the document has none.
        pub started_at: Option<String>,
        /// Largest number of runs in any of its rows.
        pub runs: u32,
    }

    /// Something that is not the same on all sides.
    pub struct Difference {
        /// Name of the property: "kernel", "scheduler of nvme0n1", "mount".
        pub name: String,
        /// Value on each side; null where it is not known.
        pub values: Vec<Option<String>>,
        /// True if it may change the numbers. False for names of runs, and for properties that differ in every run.
        pub may_affect_results: bool,
    }

    /// One test on all sides.
    pub struct Row {
        /// The test as a spec, which repeats it. For results of older programs, their name of the test.
        pub spec: String,
        /// The verb.
        pub name: String,
        /// Short description for tables.
        pub label: String,
        /// Measure of the values.
        pub measure: Measure,
        /// Result of each side; null where a side did not measure this test.
        pub sides: Vec<Option<SideResult>>,
        /// Change of each side but the first, relative to the first; null where either has no result.
        pub changes: Vec<Option<Change>>,
        /// Reasons not to compare the sides in this row.
        pub warnings: Vec<String>,
    }

    /// Result of one side in a row.
    pub struct SideResult {
        /// Value of each run, in order. Where two sides were measured in turns, only whole pairs count.
        pub values: Vec<f64>,
        /// Geometric mean of the values.
        pub mean: f64,
        /// Lower end of the 95 % interval of the mean, from the spread between runs. With a single run, it comes from
        /// the spread within the run. Null where there is none.
        pub ci95_low: Option<f64>,
        /// Upper end of that interval.
        pub ci95_high: Option<f64>,
        /// Limiter of most of its runs; null where that is not known.
        pub limiter: Option<Limiter>,
        /// Lowest confidence among the runs with that limiter.
        pub confidence: Option<Confidence>,
        /// Worst trust of any of its runs; null where none has a verdict.
        pub trust: Option<Trust>,
    }

    /// Change of a side relative to the first, in one row.
    pub struct Change {
        /// Mean of this side divided by the mean of the first.
        pub ratio: f64,
        /// Lower end of the 95 % interval of the ratio; null with one run on a side.
        pub ci95_low_ratio: Option<f64>,
        /// Upper end of that interval.
        pub ci95_high_ratio: Option<f64>,
        /// p value of the exact permutation test; null with one run on a side.
        pub p: Option<f64>,
        /// The p value after Holm's correction for all changes that are judged together.
        pub p_corrected: Option<f64>,
        /// Number of runs of the smaller side, or number of pairs.
        pub runs: u32,
        /// The decision about this change.
        pub answer: Decision,
        /// Direction of the change; null unless it changed.
        pub direction: Option<Direction>,
        /// Runs per side, or pairs, that would be enough for a decision. Null after a decision, and where it would take
        /// more than a thousand.
        pub runs_needed: Option<u32>,
        /// Smallest change, as a share, that this many runs find four times out of five; null with too few runs.
        pub detectable: Option<f64>,
        /// True if this many runs can settle this many rows at all.
        pub can_be_decided: bool,
    }

    /// A test that could not be compared.
    pub struct LeftOut {
        /// The test.
        pub what: String,
        /// Why it was left out.
        pub reason: String,
    }
}

/// Fewest runs that are recommended: with fewer, only changes far beyond the noise are found.
const RUNS_RECOMMENDED_MIN: u32 = 6;

/// Returns the number of runs of each side that is recommended where `runs_to_decide` are the fewest that can decide.
pub fn recommended_runs(runs_to_decide: u32) -> u32 {
    runs_to_decide.max(RUNS_RECOMMENDED_MIN)
}

impl Measure {
    /// Returns true if a larger value is better.
    pub fn is_higher_better(self) -> bool {
        !matches!(self, Self::P99Ns)
    }

    /// Returns true for rates.
    pub fn is_rate(self) -> bool {
        self.is_higher_better()
    }
}

impl Row {
    /// Returns true if the number of any side is something else than the speed of that storage.
    pub fn is_invalid(&self) -> bool {
        self.sides.iter().flatten().any(|measured| measured.trust == Some(Trust::Invalid))
    }

    /// Returns the limiters of the first side and of `side`, if both are clear and they differ.
    pub fn moved(&self, side: usize) -> Option<(Limiter, Limiter)> {
        let limiter = |side: usize| {
            self.sides.get(side)?.as_ref()?.limiter.filter(|limiter| *limiter != Limiter::NotClear)
        };
        let (before, after) = (limiter(0)?, limiter(side)?);
        (before != after).then_some((before, after))
    }
}

impl Comparison {
    /// Returns true if any row has a p value, which takes at least two runs per side.
    pub fn has_p_values(&self) -> bool {
        self.rows.iter().flat_map(|row| row.changes.iter().flatten()).any(|change| change.p.is_some())
    }
}
