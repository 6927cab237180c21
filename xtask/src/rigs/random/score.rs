//! Compares the limiter that skye names with the true bottleneck.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Limiter;
use model::run::{Confidence, PhaseRecord, Verdict};
use model::selftest::{self, Outcome};

use super::corpus::Row;
use super::grammar::{Load, Part, Stack};
use super::truth::Truth;

/// Answer about one load.
#[derive(Debug)]
pub(super) struct Answer {
    spec: String,
    parts: Vec<Part>,
    truth: Truth,
    predicted: Option<Part>,
    printed: String,
    is_confirmed: bool,
    outcome: Outcome,
}

impl Answer {
    /// Compares the record of a load with the truth.
    pub(super) fn new(stack: &Stack, load: Load, truth: Truth, phase: &PhaseRecord) -> Self {
        let right = truth.part.map_or(&[][..], |part| stack.right_limiters(part));
        let (parts, predicted) = (stack.parts(), stack.predicted(load));
        Self::from_verdict(load.spec(), parts, truth, predicted, right, phase.judged.verdict.as_ref())
    }

    /// Compares a kept row with its truth; `None` if it has no test.
    pub(super) fn from_row(row: &Row) -> Option<Self> {
        let (phase, part) = (row.phase()?, Part::from_word(&row.truth)?);
        let parts = row.parts.iter().filter_map(|word| Part::from_word(word)).collect();
        let truth = Truth { part: Some(part), gains: Vec::new(), ops_per_second: 0.0 };
        let verdict = phase.judged.verdict.as_ref();
        Some(Self::from_verdict(phase.spec.clone(), parts, truth, Some(part), &row.right, verdict))
    }

    fn from_verdict(
        spec: String,
        parts: Vec<Part>,
        truth: Truth,
        predicted: Option<Part>,
        right: &[Limiter],
        verdict: Option<&Verdict>,
    ) -> Self {
        let limiter = verdict.and_then(|verdict| verdict.limiter);
        let confidence = verdict.and_then(|verdict| verdict.confidence);
        let printed = match (limiter, confidence) {
            (Some(limiter), Some(confidence)) => format!("{} ({confidence:?})", limiter.code()),
            _ => "nothing".into(),
        };
        let is_confirmed = confidence == Some(Confidence::Confirmed);
        let outcome = selftest::Truth::Limiters(right.to_vec()).judge(verdict, &[]);
        Self { spec, parts, truth, predicted, printed, is_confirmed, outcome }
    }

    /// Returns the bottleneck, if prediction and truth agree.
    pub(super) fn sure(&self) -> Option<Part> {
        self.truth.part.filter(|part| self.predicted == Some(*part))
    }

    /// Returns a line on a miss, or on a truth that is unsure.
    pub(super) fn line(&self, stack: &Stack) -> Option<String> {
        let found = match self.sure() {
            Some(_) if self.outcome == Outcome::Right => return None,
            Some(part) => format!("{}, and skye names {}", part.word(), self.printed),
            None => {
                let gains = self.truth.gains.iter().map(|(part, gain)| format!("{} {gain:.2}", part.word()));
                let predicted = self.predicted.map_or("nothing", Part::word);
                format!("truth unsure: {predicted} predicted, gains {}", gains.collect::<Vec<_>>().join(", "))
            }
        };
        let rate = self.truth.ops_per_second;
        Some(format!("stack {}: {}; {} at {rate:.0}/s: {found}", stack.seed, stack.words(), self.spec))
    }
}

/// Answers counted by their true bottleneck, and by each part of their stacks.
#[derive(Debug, Default)]
pub(super) struct Scores {
    bottlenecks: BTreeMap<Part, Counts>,
    parts: BTreeMap<Part, Counts>,
    all: Counts,
    unsure: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    right: u32,
    not_clear: u32,
    wrong: u32,
    wrong_confirmed: u32,
}

impl Counts {
    fn add(&mut self, answer: &Answer) {
        match answer.outcome {
            Outcome::Right => self.right += 1,
            Outcome::NotClear => self.not_clear += 1,
            Outcome::Wrong => {
                self.wrong += 1;
                self.wrong_confirmed += u32::from(answer.is_confirmed);
            }
        }
    }

    fn right_share(self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.not_clear + self.wrong).max(1))
    }

    fn row(self, word: &str) -> String {
        let Self { right, not_clear, wrong, wrong_confirmed } = self;
        format!("{word:<24}{right:>6}{not_clear:>11}{wrong:>7}{wrong_confirmed:>11}\n")
    }
}

impl Scores {
    /// Counts an answer.
    pub(super) fn add(&mut self, answer: &Answer) {
        let Some(bottleneck) = answer.sure() else {
            self.unsure += 1;
            return;
        };
        self.bottlenecks.entry(bottleneck).or_default().add(answer);
        answer.parts.iter().for_each(|part| self.parts.entry(*part).or_default().add(answer));
        self.all.add(answer);
    }

    /// Returns the tables by bottleneck and by part, each with the worst first.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for (head, counts) in [("bottleneck", &self.bottlenecks), ("stacks with", &self.parts)] {
            let mut rows: Vec<_> = counts.iter().collect();
            rows.sort_by(|one, other| one.1.right_share().total_cmp(&other.1.right_share()));
            let _ = writeln!(
                text,
                "{head:<24}{:>6}{:>11}{:>7}{:>11}",
                "right", "not clear", "wrong", "confirmed"
            );
            rows.into_iter().for_each(|(part, counts)| text += &counts.row(part.word()));
            text += &self.all.row("all");
            text.push('\n');
        }
        let _ = write!(text, "truth unsure: {}", self.unsure);
        text
    }
}
