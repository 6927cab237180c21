//! Compares what skye prints with the true bottleneck.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Limiter;
use model::run::{Confidence, Mark, PhaseRecord};
use model::selftest::{self, Outcome};

use super::counters::Agreements;
use super::grammar::{Load, Part, Stack};
use super::truth::Truth;

/// Codes of findings that say that memory or holes answered, not the storage.
const ANSWERED_CODES: [&str; 9] = [
    "absorbed_by_page_cache",
    "answered_by_layer",
    "below_os_cache",
    "cache_not_cold",
    "device_disagrees",
    "o_direct_ineffective",
    "served_from_page_cache",
    "server_cache",
    "unwritten_extents",
];

/// Answer about one load.
#[derive(Debug)]
pub(super) struct Answer {
    parts: Vec<Part>,
    bottleneck: Part,
    is_answered: bool,
    agreements: Agreements,
    outcome: Outcome,
    is_confirmed: bool,
    has_mark: bool,
    printed: String,
}

impl Answer {
    /// Compares the record of a load with its true bottleneck. The limiters in `coarser` are right, too, if they are not
    /// confirmed. With `is_answered`, a cache answers.
    pub(super) fn new(
        parts: Vec<Part>,
        bottleneck: Part,
        coarser: &[Limiter],
        is_answered: bool,
        agreements: Agreements,
        phase: &PhaseRecord,
    ) -> Self {
        let verdict = phase.judged.verdict.as_ref();
        let limiter = verdict.and_then(|verdict| verdict.limiter);
        let confidence = verdict.and_then(|verdict| verdict.confidence);
        let is_confirmed = confidence == Some(Confidence::Confirmed);
        let coarser = if is_confirmed { &[] } else { coarser };
        let mut printed = match (limiter, confidence) {
            (Some(limiter), Some(confidence)) => format!("{} ({confidence:?})", limiter.code()),
            _ => "nothing".into(),
        };
        let marks: Vec<_> = phase
            .judged
            .notes
            .iter()
            .filter(|note| note.mark != Mark::Remark && ANSWERED_CODES.contains(&note.code.as_str()))
            .map(|note| note.code.as_str())
            .collect();
        if !marks.is_empty() {
            printed += &format!(", marked {}", marks.join(" "));
        }
        Self {
            parts,
            bottleneck,
            is_answered,
            agreements,
            outcome: selftest::Truth::Limiters([bottleneck.right_limiters(), coarser].concat())
                .judge(verdict, &[]),
            is_confirmed,
            has_mark: !marks.is_empty(),
            printed,
        }
    }

    /// True if limiter, mark, layers and counters are right.
    fn is_right(&self) -> bool {
        self.outcome == Outcome::Right && self.has_mark == self.is_answered && self.agreements.is_whole()
    }

    /// True if its limiter is wrong.
    pub(super) fn is_wrong(&self) -> bool {
        self.outcome == Outcome::Wrong
    }

    /// Returns a line on a miss of this test.
    pub(super) fn line(&self, test: &str) -> Option<String> {
        let answered = if self.is_answered { ", answered by a cache" } else { "" };
        let layers = if self.agreements.is_whole() { "" } else { ", and layers or counters differ" };
        let found = format!("{}{answered}; skye names {}{layers}", self.bottleneck.word(), self.printed);
        (!self.is_right()).then(|| format!("{test}: {found}"))
    }
}

/// Name of the part that is hidden where none is.
pub(super) const NOTHING: &str = "nothing";

/// Returns a line on a truth that is unsure.
pub(super) fn unsure_line(stack: &Stack, load: Load, truth: &Truth) -> String {
    let gains = truth.gains.iter().map(|(part, gain)| format!("{} {gain:.2}", part.word()));
    let gains = gains.collect::<Vec<_>>().join(", ");
    let predicted = stack.predicted(load).map_or("nothing", Part::word);
    let answered = if truth.is_answered.is_none() { ", a cache answers a part" } else { "" };
    let (words, rate) = (stack.words(), truth.ops_per_second);
    format!(
        "stack {}: {words}; {} at {rate:.0}/s: unsure: {predicted} predicted; gains: {gains}{answered}",
        stack.seed,
        load.spec()
    )
}

/// Answers counted by their true bottleneck, and by each part of their stacks.
#[derive(Debug, Default)]
pub(super) struct Scores {
    bottlenecks: BTreeMap<Part, Counts>,
    parts: BTreeMap<Part, Counts>,
    all: Counts,
    /// The same rows without a part of the run, by the name of that part.
    hidden: BTreeMap<&'static str, Counts>,
    /// Loads whose truth is unsure.
    pub unsure: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    right: u32,
    not_clear: u32,
    wrong: u32,
    wrong_confirmed: u32,
    right_confirmed: u32,
    answered: u32,
    marks_missed: u32,
    marks_false: u32,
    agreements: Agreements,
}

impl Counts {
    fn add(&mut self, answer: &Answer) {
        match answer.outcome {
            Outcome::Right => {
                self.right += 1;
                self.right_confirmed += u32::from(answer.is_confirmed);
            }
            Outcome::NotClear => self.not_clear += 1,
            Outcome::Wrong => {
                self.wrong += 1;
                self.wrong_confirmed += u32::from(answer.is_confirmed);
            }
        }
        self.answered += u32::from(answer.is_answered);
        self.marks_missed += u32::from(answer.is_answered && !answer.has_mark);
        self.marks_false += u32::from(!answer.is_answered && answer.has_mark);
        self.agreements += answer.agreements;
    }

    fn rows(self) -> u32 {
        self.right + self.not_clear + self.wrong
    }

    fn outcomes(self) -> [u32; 4] {
        [self.right, self.not_clear, self.wrong, self.wrong_confirmed]
    }

    fn right_share(self) -> f64 {
        f64::from(self.right) / f64::from(self.rows().max(1))
    }

    /// Returns a line on the rows of each confidence, and those that are right.
    fn reliability(self) -> String {
        let of = |confidence: &str, right: u32, wrong: u32| {
            let rows = right + wrong;
            let interval = stats::interval_of_share(right.into(), rows.into());
            let least = interval.map_or(0.0, |interval| interval.low * 100.0);
            format!("- {right} of {rows} {confidence} rows are right: at 95 %, at least {least:.0} %.\n")
        };
        let likely_right = self.right - self.right_confirmed;
        of("confirmed", self.right_confirmed, self.wrong_confirmed)
            + &of("likely", likely_right, self.wrong - self.wrong_confirmed)
    }

    fn row(self, word: &str) -> String {
        let Self { right, not_clear, wrong, wrong_confirmed, marks_missed, marks_false, .. } = self;
        let rows = self.rows();
        format!(
            "| {word} | {rows} | {right} | {not_clear} | {wrong} | {wrong_confirmed} | {marks_missed} | {marks_false} |\n"
        )
    }
}

/// Heads of the columns of a table, after the first.
const COLUMNS: &str = "rows | right | not clear | wrong | of them confirmed | mark missed | false mark";

impl Scores {
    /// Counts an answer.
    pub(super) fn add(&mut self, answer: &Answer) {
        self.bottlenecks.entry(answer.bottleneck).or_default().add(answer);
        answer.parts.iter().for_each(|part| self.parts.entry(*part).or_default().add(answer));
        self.all.add(answer);
    }

    /// Counts an answer that lacks a part of the run, or [`NOTHING`].
    pub(super) fn add_hidden(&mut self, source: &'static str, answer: &Answer) {
        self.hidden.entry(source).or_default().add(answer);
    }

    /// Returns the tables by bottleneck and by part as Markdown, each with the worst first.
    pub(super) fn tables(&self) -> String {
        [self.table("stacks with", &self.parts), self.summary()].concat()
    }

    fn table(&self, head: &str, counts: &BTreeMap<Part, Counts>) -> String {
        let mut rows: Vec<_> = counts.iter().collect();
        rows.sort_by(|one, other| one.1.right_share().total_cmp(&other.1.right_share()));
        let mut text = format!("| {head} | {COLUMNS} |\n|---|---|---|---|---|---|---|---|\n");
        rows.into_iter().for_each(|(part, counts)| text += &counts.row(part.word()));
        text + &self.all.row("all") + "\n"
    }

    /// Returns the table by bottleneck, and the sums.
    pub(super) fn summary(&self) -> String {
        let mut text = self.table("bottleneck", &self.bottlenecks);
        let Counts { answered, marks_missed, marks_false, agreements, .. } = self.all;
        let rows = self.all.rows();
        let _ = writeln!(
            text,
            "- A cache answered in {answered} of {rows} rows: the mark is missing in {marks_missed}. Of the others, \
             {marks_false} have such a mark."
        );
        text += &self.all.reliability();
        text += &agreements.to_string();
        text + &self.hidden_table()
    }

    /// Returns the table of the rows without a part of the run; nothing if none were judged so.
    fn hidden_table(&self) -> String {
        let Some(whole) = self.hidden.get(NOTHING) else { return String::new() };
        let rows = self.hidden.iter().map(|(source, counts)| (*source, *counts));
        let (same, others): (Vec<_>, Vec<_>) =
            rows.partition(|(_, counts)| counts.outcomes() == whole.outcomes());
        let mut text = String::from(
            "\n| hidden | right | not clear | wrong | of them confirmed |\n|---|---|---|---|---|\n",
        );
        for (source, counts) in [(NOTHING, *whole)].into_iter().chain(others) {
            let [right, not_clear, wrong, wrong_confirmed] = counts.outcomes();
            text += &format!("| {source} | {right} | {not_clear} | {wrong} | {wrong_confirmed} |\n");
        }
        let same: Vec<_> =
            same.iter().map(|(source, _)| *source).filter(|source| *source != NOTHING).collect();
        text += &format!("\nThe same without: {}.\n", same.join(", "));
        text
    }
}
