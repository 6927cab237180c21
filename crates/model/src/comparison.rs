//! What came of comparing runs: the document of `skye compare` and `skye ab`, schema `skye.compare/1`.

use serde::{Deserialize, Serialize};

use crate::document::{document, words};
use crate::limiter::Limiter;
use crate::run::{Confidence, Setting, Trust};

/// Name of the schema that this version writes.
pub const SCHEMA: &str = "skye.compare/1";

words! {
    /// What the values of a row are.
    pub enum Measure {
        /// Bytes per second: more is better.
        BytesPerSecond,
        /// Operations per second: more is better.
        OpsPerSecond,
        /// The 99th percentile of the latency in nanoseconds: less is better.
        P99Ns,
    }

    /// The three things that can be said of a change.
    pub enum Answer {
        /// It changed, by the ratio, as surely as its interval says.
        Changed,
        /// If it changed, then by less than the margin.
        Equivalent,
        /// Neither can be told from these runs.
        CannotTell,
    }

    /// Which way a row went.
    pub enum Direction {
        /// Faster, or less waiting.
        Better,
        /// Slower, or more waiting.
        Worse,
    }
}

document! {
    /// Runs held against each other, row by row.
    pub struct Comparison {
        /// Always "skye.compare/1".
        pub schema: String,
        /// Version of the program.
        pub skye_version: String,
        /// What is compared; all against the first.
        pub sides: Vec<Side>,
        /// Whether the runs of both sides were made in pairs, one next to the other in time; else they were made one side
        /// after the other, and whatever changed in between counts as a difference.
        pub is_interleaved: bool,
        /// What changed by less than this, as a share, is as good as the same.
        pub effect: f64,
        /// What changed by less than this, as a share, is not called changed.
        pub noise_floor: f64,
        /// What differs between the sides besides the numbers.
        pub differs: Vec<Difference>,
        /// What is the same on all sides and worth saying.
        pub same: Vec<Setting>,
        /// What was measured on at least two sides, one row a test and measure; the rate of a test stands before its
        /// latency.
        pub rows: Vec<Row>,
        /// What was not compared, and why.
        pub left_out: Vec<LeftOut>,
        /// Geometric mean of the ratios of all rates, for each side but the first; null where there is none.
        pub geomean_ratios: Vec<Option<f64>>,
        /// Most changes that are judged together, for the correction of p: all rates of one side against the first, or
        /// all latencies.
        pub claims: u32,
        /// Runs of each side, or pairs, from which on so many claims can be made at all.
        pub runs_to_settle: u32,
        /// What a reader should know before the rows.
        pub warnings: Vec<String>,
    }

    /// One side of a comparison.
    pub struct Side {
        /// What it is called: a label, a file, the value of a key.
        pub name: String,
        /// Its documents, by their file names.
        pub files: Vec<String>,
        /// When its runs were made, the first: RFC 3339, UTC; null where the document does not tell.
        pub started_at: Option<String>,
        /// Most runs that any of its rows has.
        pub runs: u32,
    }

    /// Something that is not the same on all sides.
    pub struct Difference {
        /// What: "kernel", "scheduler of nvme0n1", "mount".
        pub name: String,
        /// What it is on each side; null where that is not known.
        pub values: Vec<Option<String>>,
        /// Whether numbers may be others because of it; false for what a run is called, and what is another each time.
        pub is_cause: bool,
    }

    /// One test on all sides.
    pub struct Row {
        /// The test; running this spec repeats it. Of older programs, its name.
        pub spec: String,
        /// The verb.
        pub name: String,
        /// Short description for tables.
        pub label: String,
        /// What the values are.
        pub measure: Measure,
        /// What each side measured; null where it measured no such test.
        pub sides: Vec<Option<SideResult>>,
        /// How each side but the first relates to it; null where one of them is missing.
        pub changes: Vec<Option<Change>>,
        /// What speaks against holding the two against each other.
        pub warnings: Vec<String>,
    }

    /// What a side measured in a row.
    pub struct SideResult {
        /// The value of each run, in their order; of what was measured in turns, of each whole pair.
        pub values: Vec<f64>,
        /// Their geometric mean.
        pub mean: f64,
        /// Lower end of its 95 % interval: from the spread of runs, or of one run from the spread within it. Null where
        /// there is none.
        pub ci95_low: Option<f64>,
        /// Upper end of it.
        pub ci95_high: Option<f64>,
        /// What limited most of its runs; null where that is not known.
        pub limiter: Option<Limiter>,
        /// How surely, at most.
        pub confidence: Option<Confidence>,
        /// The worst that was said of any of its runs; null where nothing was.
        pub trust: Option<Trust>,
    }

    /// How a side relates to the first in a row.
    pub struct Change {
        /// The mean of this side over that of the first.
        pub ratio: f64,
        /// Lower end of the 95 % interval of the ratio; null with one run on a side.
        pub ci95_low_ratio: Option<f64>,
        /// Upper end of it.
        pub ci95_high_ratio: Option<f64>,
        /// The p of the exact permutation test; null with one run on a side.
        pub p: Option<f64>,
        /// The same after Holm's correction for all that are judged together.
        pub p_corrected: Option<f64>,
        /// Runs of the smaller side, or pairs.
        pub runs: u32,
        /// What can be said.
        pub answer: Answer,
        /// Which way it changed; null unless it did.
        pub direction: Option<Direction>,
        /// Runs of each side, or pairs, that would tell; null where it is told, and where more than a thousand would not.
        pub runs_needed: Option<u32>,
        /// The smallest change, as a share, that such runs find four times of five; null with too few runs.
        pub detectable: Option<f64>,
        /// Whether so many runs can settle so many rows at all.
        pub can_be_settled: bool,
    }

    /// A test that could not be compared.
    pub struct LeftOut {
        /// The test.
        pub what: String,
        /// Why.
        pub reason: String,
    }
}

impl Measure {
    /// Whether more of it is better.
    pub fn is_more_better(self) -> bool {
        !matches!(self, Self::P99Ns)
    }

    /// Whether it is a rate.
    pub fn is_rate(self) -> bool {
        self.is_more_better()
    }
}

impl Row {
    /// Whether one of its sides is something else than the speed of that storage.
    pub fn is_invalid(&self) -> bool {
        self.sides.iter().flatten().any(|measured| measured.trust == Some(Trust::Invalid))
    }

    /// Whether the limiters of two sides are known and differ: the first and the one at `side`.
    pub fn moved(&self, side: usize) -> Option<(Limiter, Limiter)> {
        let limiter = |side: usize| {
            self.sides.get(side)?.as_ref()?.limiter.filter(|limiter| *limiter != Limiter::NotClear)
        };
        let (before, after) = (limiter(0)?, limiter(side)?);
        (before != after).then_some((before, after))
    }
}

impl Comparison {
    /// Whether any row has a value of p: whether there are at least two runs a side somewhere.
    pub fn has_claims(&self) -> bool {
        self.rows.iter().flat_map(|row| row.changes.iter().flatten()).any(|change| change.p.is_some())
    }
}
