//! Tests as a page shows them: all repetitions of one together, and the one among them that stands for all.

use std::collections::{HashMap, HashSet};

use model::run::{Confidence, PhaseRecord, Trust};

use super::unit::Unit;
use crate::answer::trust;
use crate::printable;
use crate::text::{base_id, is_of_device, limiter_of, missing_reason, surely, words};

/// A test with its repetitions.
#[derive(Debug)]
pub(crate) struct Test<'a> {
    /// Its repetitions in the order in which they ran, with their places in the run.
    pub all: Vec<(usize, &'a PhaseRecord)>,
    /// The one that stands for all: that with the rate in the middle, or where none has a rate, the first.
    pub phase: &'a PhaseRecord,
    /// Its place in the run.
    pub index: usize,
    /// The name of its card as an anchor.
    pub anchor: String,
}

impl<'a> Test<'a> {
    /// The tests of a run, in the order in which each ran first.
    pub(crate) fn of_run(phases: &'a [PhaseRecord]) -> Vec<Self> {
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

    /// Its name and label: "read 4K rnd q32t4".
    pub(crate) fn name(&self) -> String {
        printable(format!("{} {}", self.phase.name, self.phase.label).trim())
    }

    /// Rates of the repetitions that have one, on the axis of its unit.
    pub(crate) fn rates(&self) -> Vec<f64> {
        let measured = self.all.iter().filter(|(_, phase)| missing_reason(phase).is_none());
        measured.filter_map(|(_, phase)| Unit::of(self.phase).headline(phase)).collect()
    }
}

/// The one with the rate in the middle, or where none has a rate, the first of them, of which there must be one.
pub(crate) fn middle<'a>(all: &[(usize, &'a PhaseRecord)]) -> (usize, &'a PhaseRecord) {
    let rate = |phase: &PhaseRecord| phase.rate.ops_per_second.unwrap_or_default();
    let mut measured: Vec<_> = all.iter().filter(|(_, phase)| missing_reason(phase).is_none()).collect();
    measured.sort_by(|a, b| rate(a.1).total_cmp(&rate(b.1)));
    *measured.get(measured.len().saturating_sub(1) / 2).copied().unwrap_or(&all[0])
}

/// What limited a test, as a small label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chip {
    /// "good" where the device is the limit, "other" where something else is, "dull" where that is not known, or
    /// the number is not what it looks like.
    pub class: &'static str,
    /// In words.
    pub words: String,
    /// "confirmed", "likely", or nothing.
    pub surely: &'static str,
}

/// That of a phase; `None` where nothing is said about it, or it has no number.
pub(crate) fn chip(phase: &PhaseRecord) -> Option<Chip> {
    let (limiter, confidence) = limiter_of(phase)?;
    if missing_reason(phase).is_some() {
        return None;
    }
    let class = match limiter {
        _ if trust(phase) == Trust::Invalid || confidence == Confidence::Undetermined => "dull",
        limiter if is_of_device(limiter) => "good",
        _ => "other",
    };
    Some(Chip { class, words: printable(&words(phase)?), surely: surely(phase).unwrap_or_default() })
}

/// Its trust as a word beside the number; nothing where all is well.
pub(crate) fn trust_word(phase: &PhaseRecord) -> Option<Chip> {
    let (class, words) = match trust(phase) {
        Trust::Ok => return None,
        Trust::Suspect => ("other", "suspect"),
        Trust::Invalid => ("dull", "not to be trusted"),
    };
    missing_reason(phase).is_none().then(|| Chip { class, words: words.into(), surely: "" })
}
