//! Results of measuring devices whose limit is known: the document of `skye selftest`, schema `skye.selftest/1`.

use serde::{Deserialize, Serialize};

use crate::disturbance::Disturbance;
use crate::limiter::Limiter;
use crate::run::{Confidence, Verdict};

/// Name of the schema that this version writes.
pub const SCHEMA: &str = "skye.selftest/1";

/// One selftest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Name of the schema: [`SCHEMA`].
    pub schema: String,
    /// Version of skye.
    pub skye_version: String,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// Release of the kernel.
    pub kernel: String,
    /// CPUs that it could use.
    pub cpus: u32,
    /// True if it ran as root, without which little can be built.
    pub is_root: bool,
    /// Seed of the order in which devices were built and measured.
    pub seed: u64,
    /// Cases that were to be measured.
    pub cases: u32,
    /// Answers to what was measured, in the order of the list of cases.
    pub answers: Vec<TestResult>,
    /// Cases that could not be built or measured.
    pub missing: Vec<Missing>,
    /// Parts that could not be undone, each with the reason; empty as it should be.
    pub left: Vec<String>,
    /// Score of all answers.
    pub score: Score,
    /// Duration of the whole selftest.
    pub elapsed_ns: u64,
}

/// One test on one known device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// Name of the case.
    pub case: String,
    /// The limit that was built in, in words.
    pub injected_limit: String,
    /// The test, in the SPEC language.
    pub spec: String,
    /// The right answer.
    pub truth: Truth,
    /// The limiter that was named.
    pub limiter: Option<Limiter>,
    /// Confidence with which it was named.
    pub confidence: Option<Confidence>,
    /// Outcome: the given answer compared with the right one.
    pub outcome: Outcome,
    /// The measured rate; absent where there was none.
    pub ops_per_second: Option<f64>,
    /// The rate that was built in, where it is known.
    pub known_ops_per_second: Option<f64>,
    /// The whole verdict, with its evidence.
    pub verdict: Option<Verdict>,
    /// Disturbance that the case has not built in; absent in documents of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Time from the start of the case's construction to its end, shared by all tests of the case.
    pub elapsed_ns: u64,
}

/// The right answer about a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// One of these limited it: the first, or another one for the reason that the case gives.
    Limiters(Vec<Limiter>),
    /// The number does not measure what it seems to, for the reason with this code.
    Reason(String),
}

/// Outcome of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is right.
    Right,
    /// The answer is that the limiter is not known.
    NotClear,
    /// The answer is something else.
    Wrong,
}

/// A case without answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the case.
    pub case: String,
    /// The limit that was to be built in, in words.
    pub injected_limit: String,
    /// Why there is no answer.
    pub reason: String,
    /// True if the case was built, but measuring it failed.
    pub is_failure: bool,
}

/// Score of many answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Tests with an answer.
    pub tests: u32,
    /// Right answers.
    pub right: u32,
    /// Right answers that give a limiter; the other ones report an invalid number.
    pub named: u32,
    /// Answers among `named` whose verdict was confirmed.
    pub confirmed: u32,
    /// Answers that the limiter is not known.
    pub not_clear: u32,
    /// Wrong answers.
    pub wrong: u32,
    /// Wrong answers whose verdict was confirmed: there may never be one.
    pub wrong_confirmed: u32,
    /// Number of rates that could be compared with a built-in one.
    pub rates: u32,
    /// Median deviation of these rates, as a share of the built-in rate; absent without any.
    pub median_deviation: Option<f64>,
    /// Largest deviation of a rate.
    pub max_deviation: Option<f64>,
}

impl TestResult {
    /// Returns the deviation of the rate from the built-in one, as a share of that: negative where it is lower.
    pub fn off(&self) -> Option<f64> {
        Some(self.ops_per_second? / self.known_ops_per_second? - 1.0)
    }
}

impl Truth {
    /// Judges a verdict and the marks beside it.
    pub fn judge(&self, verdict: Option<&Verdict>, marks: &[&str]) -> Outcome {
        let Some(verdict) = verdict else { return Outcome::NotClear };
        match self {
            Self::Reason(reason) if marks.contains(&reason.as_str()) => Outcome::Right,
            Self::Reason(_) => Outcome::Wrong,
            Self::Limiters(limiters) => match (verdict.limiter, verdict.confidence) {
                (None | Some(Limiter::NotClear), _) | (_, Some(Confidence::Undetermined)) => {
                    Outcome::NotClear
                }
                (Some(limiter), _) if limiters.contains(&limiter) => Outcome::Right,
                (Some(Limiter::Mixed), _)
                    if verdict.ranking.len() > 1
                        && verdict.ranking[..2].iter().all(|part| limiters.contains(&part.limiter)) =>
                {
                    Outcome::Right
                }
                (Some(limiter), _) if limiter.alternatives().iter().any(|open| limiters.contains(open)) => {
                    Outcome::NotClear
                }
                _ => Outcome::Wrong,
            },
        }
    }
}

impl Score {
    /// Returns the score of these answers.
    pub fn from_results<'a>(answers: impl IntoIterator<Item = &'a TestResult>) -> Self {
        let mut score = Self::default();
        let mut offs = Vec::new();
        for answer in answers {
            let is_confirmed = answer.confidence == Some(Confidence::Confirmed);
            score.tests += 1;
            match answer.outcome {
                Outcome::Right => {
                    score.right += 1;
                    let names = matches!(answer.truth, Truth::Limiters(_));
                    score.named += u32::from(names);
                    score.confirmed += u32::from(names && is_confirmed);
                }
                Outcome::NotClear => score.not_clear += 1,
                Outcome::Wrong => {
                    score.wrong += 1;
                    score.wrong_confirmed += u32::from(is_confirmed);
                }
            }
            offs.extend(answer.off().map(f64::abs));
        }
        offs.sort_unstable_by(f64::total_cmp);
        score.rates = offs.len() as u32;
        score.max_deviation = offs.last().copied();
        // The larger of two middle values counts, so that the score is not too good.
        score.median_deviation = offs.get(offs.len() / 2).copied();
        score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(limiter: Limiter, confidence: Confidence) -> Verdict {
        Verdict { confidence: Some(confidence), ..Verdict::new(limiter, 0.9, Vec::new()) }
    }

    fn answer(truth: Truth, reported: Option<Verdict>, rates: Option<(f64, f64)>) -> TestResult {
        TestResult {
            case: "a".into(),
            injected_limit: "b".into(),
            spec: "read".into(),
            outcome: truth.judge(reported.as_ref(), &["holes"]),
            truth,
            limiter: reported.as_ref().and_then(|reported| reported.limiter),
            confidence: reported.as_ref().and_then(|reported| reported.confidence),
            ops_per_second: rates.map(|(is, _)| is),
            known_ops_per_second: rates.map(|(_, known)| known),
            verdict: reported,
            disturbance: None,
            elapsed_ns: 1,
        }
    }

    #[test]
    fn verdict_is_judged_right_wrong_or_not_clear() {
        let truth = Truth::Limiters(vec![Limiter::IoThrottle, Limiter::DeviceOps]);
        let reported = |limiter, confidence| truth.judge(Some(&verdict(limiter, confidence)), &[]);
        assert_eq!(reported(Limiter::DeviceOps, Confidence::Likely), Outcome::Right);
        assert_eq!(reported(Limiter::KernelCpu, Confidence::Confirmed), Outcome::Wrong);
        assert_eq!(reported(Limiter::NotClear, Confidence::Undetermined), Outcome::NotClear);
        assert_eq!(reported(Limiter::DeviceOps, Confidence::Undetermined), Outcome::NotClear);
        assert_eq!(truth.judge(None, &[]), Outcome::NotClear);
        let untried = verdict(Limiter::RemoteUndetermined, Confidence::Likely);
        assert_eq!(truth.judge(Some(&untried), &[]), Outcome::Wrong);
        let network = Truth::Limiters(vec![Limiter::NetworkBandwidth]);
        assert_eq!(network.judge(Some(&untried), &[]), Outcome::NotClear);
        let hole = Truth::Reason("holes".into());
        let reported = verdict(Limiter::DeviceOps, Confidence::Likely);
        assert_eq!(hole.judge(Some(&reported), &["holes"]), Outcome::Right);
        assert_eq!(hole.judge(Some(&reported), &["steal"]), Outcome::Wrong);
    }

    #[test]
    fn score_counts_outcomes_and_rate_deviation() {
        let throttle = || Truth::Limiters(vec![Limiter::IoThrottle]);
        let likely = verdict(Limiter::IoThrottle, Confidence::Likely);
        let confirmed = verdict(Limiter::IoThrottle, Confidence::Confirmed);
        let wrong = verdict(Limiter::KernelCpu, Confidence::Confirmed);
        let answers = [
            answer(throttle(), Some(likely), Some((1990.0, 2000.0))),
            answer(throttle(), Some(confirmed.clone()), Some((2000.0, 2000.0))),
            answer(throttle(), Some(wrong), None),
            answer(throttle(), None, None),
            answer(
                Truth::Reason("holes".into()),
                Some(verdict(Limiter::DeviceOps, Confidence::Likely)),
                None,
            ),
        ];
        let expected = Score {
            tests: 5,
            right: 3,
            named: 2,
            confirmed: 1,
            not_clear: 1,
            wrong: 1,
            wrong_confirmed: 1,
            rates: 2,
            median_deviation: Some(0.005),
            max_deviation: Some(0.005),
        };
        let score = Score::from_results(&answers);
        assert!((score.max_deviation.unwrap() - 0.005).abs() < 1e-12);
        assert_eq!(
            Score {
                median_deviation: expected.median_deviation,
                max_deviation: expected.max_deviation,
                ..score
            },
            expected
        );
        assert_eq!(Score::from_results([]), Score::default());
    }
}
