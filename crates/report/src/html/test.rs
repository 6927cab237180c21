//! Tests as a page shows them: the repetitions of each test together, and the repetition that represents them.

use std::collections::{HashMap, HashSet};

use model::numbers::rank;
use model::run::{Confidence, PhaseRecord, Trust};

use super::unit::Unit;
use crate::answer::trust;
use crate::printable;
use crate::text::{base_id, confidence_text, limiter_of, missing_reason, words};

/// A test with its repetitions.
#[derive(Debug)]
pub(crate) struct Test<'a> {
    /// Repetitions in the order in which they ran, with their indices in the run.
    pub all: Vec<(usize, &'a PhaseRecord)>,
    /// The representative repetition: the one with the median rate, or the first if none has a rate.
    pub phase: &'a PhaseRecord,
    /// Index of the representative repetition in the run.
    pub index: usize,
    /// Anchor of the test's card.
    pub anchor: String,
}

impl<'a> Test<'a> {
    /// Returns the tests of a run, in the order of their first repetitions.
    pub(crate) fn from_run(phases: &'a [PhaseRecord]) -> Vec<Self> {
        let mut grouped: Vec<Vec<(usize, &PhaseRecord)>> = Vec::new();
        // A document may have thousands of tests.
        let mut places: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, phase) in phases.iter().enumerate() {
            let place = *places.entry((base_id(phase), &phase.spec)).or_insert(grouped.len());
            match grouped.get_mut(place) {
                Some(all) => all.push((index, phase)),
                None => grouped.push(vec![(index, phase)]),
            }
        }
        let mut taken = HashSet::new();
        let test = |all: Vec<(usize, &'a PhaseRecord)>| {
            let (index, phase) = middle(&all);
            let id: String =
                base_id(phase).chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(60).collect();
            let mut anchor = format!("test-{id}");
            while !taken.insert(anchor.clone()) {
                anchor.push_str(&format!("-{index}"));
            }
            Test { all, phase, index, anchor }
        };
        grouped.into_iter().map(test).collect()
    }

    /// Name and label of the test: "read 4K rnd q32t4".
    pub(crate) fn name(&self) -> String {
        printable(format!("{} {}", self.phase.name, self.phase.label).trim())
    }

    /// Rates of the repetitions that have one, in the test's unit.
    pub(crate) fn rates(&self) -> Vec<f64> {
        let measured = self.all.iter().filter(|(_, phase)| missing_reason(phase).is_none());
        measured.filter_map(|(_, phase)| Unit::from_phase(self.phase).headline(phase)).collect()
    }
}

/// Returns the repetition with the median rate, or the first if none has a rate. `all` must not be empty.
pub(crate) fn middle<'a>(all: &[(usize, &'a PhaseRecord)]) -> (usize, &'a PhaseRecord) {
    let rate = |phase: &PhaseRecord| phase.figures.rate.ops_per_second.unwrap_or_default();
    let mut measured: Vec<_> = all.iter().filter(|(_, phase)| missing_reason(phase).is_none()).collect();
    measured.sort_by_cached_key(|(_, phase)| rank(rate(phase)));
    *measured.get(measured.len().saturating_sub(1) / 2).copied().unwrap_or(&all[0])
}

/// A small label beside a test: its limiter or its trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chip {
    /// "good" if the device is the limit, "other" if something else is. "dull" if the limit is not known, or the number
    /// is not to be trusted.
    pub class: &'static str,
    /// Text of the label.
    pub words: String,
    /// "confirmed", "likely", or empty.
    pub confidence_text: &'static str,
}

/// Returns the label of a phase's limiter; `None` if no limiter is given, or the phase has no number.
pub(crate) fn chip(phase: &PhaseRecord) -> Option<Chip> {
    let (limiter, confidence) = limiter_of(phase)?;
    if missing_reason(phase).is_some() {
        return None;
    }
    let class = match limiter {
        _ if trust(phase) == Trust::Invalid || confidence == Confidence::Undetermined => "dull",
        limiter if limiter.is_of_device() => "good",
        _ => "other",
    };
    Some(Chip {
        class,
        words: printable(&words(phase)?),
        confidence_text: confidence_text(phase).unwrap_or_default(),
    })
}

/// Returns the trust in a phase as a label beside its number; `None` if all is well.
pub(crate) fn trust_word(phase: &PhaseRecord) -> Option<Chip> {
    let (class, words) = match trust(phase) {
        Trust::Ok => return None,
        Trust::Suspect => ("other", "suspect"),
        Trust::Invalid => ("dull", "invalid"),
    };
    missing_reason(phase).is_none().then(|| Chip { class, words: words.into(), confidence_text: "" })
}
