//! Preconditioning in the document: fills before the tests, and the rounds of a test that was repeated until it was
//! steady.

use serde::{Deserialize, Serialize};

use crate::document::document;

document! {
    /// A fill of the data before the tests.
    pub struct FillRecord {
        /// Number of the repetition, from 1.
        pub repetition: u32,
        /// The test that wrote the data.
        pub spec: String,
        /// Time in which the data was discarded before; absent if that was not requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub purged_ns: Option<u64>,
        /// Bytes written.
        pub bytes: u64,
        /// Time that they took, until they were durable.
        pub elapsed_ns: u64,
    }

    /// Rounds of a test that was repeated until it was steady. The rule is that of SNIA's "Solid State Storage Performance
    /// Test Specification". In five rounds in a row, the rate differs by at most 20 % of its mean. The line through it
    /// rises or falls by at most 10 % of it. The row's rate is the mean of these five.
    pub struct UntilSteady {
        /// Number of the round in which it was steady, from 1; null if it never was.
        pub steady_round: Option<u32>,
        /// Most rounds that it could have.
        pub rounds_max: u32,
        /// The rounds, in their order.
        pub rounds: Vec<SteadyRound>,
    }

    /// One round of such a test.
    pub struct SteadyRound {
        /// Start of the round, from the start of the phase.
        pub from_ns: u64,
        /// End of the round.
        pub to_ns: u64,
        /// Number of operations.
        pub ops: u64,
        /// Operations per second.
        pub ops_per_second: f64,
        /// Statistics of this round and the four before it; null for the first four rounds.
        pub window: Option<RoundsWindow>,
    }

    /// Statistics of five rounds in a row.
    pub struct RoundsWindow {
        /// Mean of the rates.
        pub mean_ops_per_second: f64,
        /// Largest rate less the smallest, as a share of the mean.
        pub excursion: f64,
        /// Rise of the line of least squares over the five rounds, as a share of the mean; below 0 where it falls.
        pub slope: f64,
    }
}
