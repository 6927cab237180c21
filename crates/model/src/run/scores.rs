//! The two scores of IO500, by its arithmetic.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{PhaseRecord, Status, Trust};
use crate::document::document;

/// Preset whose tests have the shapes of IO500's.
pub const PRESET: &str = "io500-shapes";
/// Tests on data, whose rates make the first score, and tests on files, whose rates make the second.
const TESTS: (usize, usize) = (4, 8);
const GIB: f64 = (1u64 << 30) as f64;

document! {
    /// Scores by IO500's arithmetic (github.com/IO500/io500, "score"): the geometric mean of the rates of each kind, and
    /// of both means. Sizes and times are the user's, so this is no IO500 submission.
    pub struct Scores {
        /// Geometric mean of the tests on data, in GiB/s.
        pub bandwidth_gib_per_second: f64,
        /// Geometric mean of the tests on files, in thousands of operations a second.
        pub metadata_kiops: f64,
        /// Geometric mean of both.
        pub score: f64,
    }
}

impl Scores {
    /// Number of tests that make the scores.
    pub const TESTS: usize = TESTS.0 + TESTS.1;

    /// Returns the number of tests of the preset that lack a valid rate: with one of them, a run has no scores. Returns
    /// `None` for other presets.
    pub fn missing(preset: &str, phases: &[PhaseRecord]) -> Option<usize> {
        let of = |valid: bool| -> BTreeSet<&str> {
            let rows = phases.iter().filter(|phase| is_valid(phase) == valid);
            rows.map(|phase| phase.spec.as_str()).collect()
        };
        (preset == PRESET).then(|| Self::TESTS.saturating_sub(of(true).difference(&of(false)).count()))
    }

    /// Returns the scores of a run of the preset; `None` for other presets, and where a test has no valid rate. The
    /// rate of a test is the mean over its repetitions.
    pub fn from_phases(preset: &str, phases: &[PhaseRecord]) -> Option<Self> {
        if Self::missing(preset, phases) != Some(0) {
            return None;
        }
        let (mut bandwidths, mut rates) = (Vec::new(), Vec::new());
        let mut seen: Vec<&str> = Vec::new();
        for phase in phases {
            if seen.contains(&phase.spec.as_str()) {
                continue;
            }
            seen.push(&phase.spec);
            let all = phases.iter().filter(|other| other.spec == phase.spec);
            let (of, unit, means): (fn(&PhaseRecord) -> Option<f64>, f64, _) =
                match phase.figures.rate.bytes_per_second {
                    Some(_) => (|phase| phase.figures.rate.bytes_per_second, GIB, &mut bandwidths),
                    None => (|phase| phase.figures.rate.ops_per_second, 1000.0, &mut rates),
                };
            let each: Vec<f64> = all.map(of).collect::<Option<_>>()?;
            means.push(each.iter().sum::<f64>() / each.len() as f64 / unit);
        }
        if (bandwidths.len(), rates.len()) != TESTS {
            return None;
        }
        let (bandwidth_gib_per_second, metadata_kiops) =
            (geometric_mean(&bandwidths), geometric_mean(&rates));
        let score = (bandwidth_gib_per_second * metadata_kiops).sqrt();
        Some(Self { bandwidth_gib_per_second, metadata_kiops, score })
    }
}

/// Returns true unless the row has no rate, or one that is not the speed that was to be measured.
fn is_valid(phase: &PhaseRecord) -> bool {
    let is_trusted = phase.judged.verdict.as_ref().is_none_or(|verdict| verdict.trust != Trust::Invalid);
    phase.status == Status::Done && phase.figures.rate.ops_per_second.is_some() && is_trusted
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::geometric_mean;

    #[test]
    fn means_are_geometric() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-12);
        assert!((geometric_mean(&[2.5; 8]) - 2.5).abs() < 1e-12);
    }
}
