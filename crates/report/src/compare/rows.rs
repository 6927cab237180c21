//! The rows of a comparison: the same test on each side, and the judgement of its changes.

use model::comparison::{Change, Decision, Direction, LeftOut, Row, SideResult};
use model::run::Trust;
use model::{Limiter, size};

use crate::facts::is_same_size;

use super::side::{Key, MissingResult, Side, Test, Value};

/// Beginning of the reasons to leave out a test that sides did differently.
pub(super) const NOT_THE_SAME: &str = "not the same work";

/// Result of comparing all tests.
pub(super) struct ComparedTests {
    pub rows: Vec<Row>,
    pub left_out: Vec<LeftOut>,
    /// Most changes that are judged together.
    pub comparisons: usize,
}

/// Returns true if the sides are the two of one measurement in turns.
pub(super) fn are_interleaved(sides: &[Side]) -> bool {
    let [Side { pairing: Some(one), .. }, Side { pairing: Some(other), .. }] = sides else { return false };
    one.id == other.id && one.side != other.side
}

pub(super) fn compare(sides: &[Side], effect: f64, noise_floor: f64, is_interleaved: bool) -> ComparedTests {
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    // Each change with its row and its side.
    let mut found: Vec<(usize, usize, stats::Change)> = Vec::new();
    for key in keys(sides) {
        let tests: Vec<_> = sides.iter().map(|side| side.tests.iter().find(|test| test.key == key)).collect();
        let Some(any) = tests.iter().flatten().next() else { continue };
        if let Some(reason) = incomparable_reason(sides, &tests) {
            // Its latency is left out for the same reason.
            let left = LeftOut { what: any.subject(), reason };
            if key.measure.is_rate() && !left_out.contains(&left) {
                left_out.push(left);
            }
            continue;
        }
        // If the sides were measured in turns, only whole pairs count.
        let pairs = match tests[..] {
            [Some(one), Some(other)] if is_interleaved => {
                vec![Some(one.paired_with(other)), Some(other.paired_with(one))]
            }
            _ => Vec::new(),
        };
        let tests: Vec<Option<&Test>> =
            if is_interleaved { pairs.iter().map(Option::as_ref).collect() } else { tests.clone() };
        for (index, after) in tests.iter().enumerate().skip(1) {
            let (Some(before), Some(after)) = (tests[0], after) else { continue };
            let change =
                if is_interleaved { compare_paired(before, after) } else { compare_unpaired(before, after) };
            found.extend(change.map(|change| (rows.len(), index - 1, change)));
        }
        rows.push(Row {
            spec: key.spec.clone(),
            name: any.name.clone(),
            label: any.label.clone(),
            measure: key.measure,
            sides: tests.iter().map(|test| test.and_then(Test::measured)).collect(),
            changes: vec![None; sides.len() - 1],
            warnings: if key.measure.is_rate() { warnings(sides, &tests) } else { Vec::new() },
        });
    }
    for side in sides {
        let missing_results = side.missing_results.iter().map(|MissingResult { test, runs, reason }| {
            let runs = if *runs == 1 { "a run".to_owned() } else { format!("{runs} runs") };
            LeftOut {
                what: test.clone(),
                reason: format!("no number from {runs} on {}: {reason}", side.name),
            }
        });
        left_out.extend(missing_results);
    }
    let margins = stats::Margins { equivalent: effect, floor: noise_floor };
    let mut comparisons = 0;
    // Changes that are read together are judged together: the rates of one side against the first, and its latencies.
    for (side, is_rate) in (0..sides.len() - 1).flat_map(|side| [(side, true), (side, false)]) {
        let is_of = |(row, of, _): &&(usize, usize, stats::Change)| {
            *of == side && rows[*row].measure.is_rate() == is_rate
        };
        let family: Vec<_> = found.iter().filter(is_of).copied().collect();
        // Single runs have no p. They report the runs that all rows need.
        let with_p = family.iter().filter(|(_, _, change)| change.p.is_some()).count();
        comparisons = comparisons.max(if with_p == 0 { family.len() } else { with_p });
        let changes: Vec<_> = family.iter().map(|(_, _, change)| *change).collect();
        for ((row, _, change), judged) in family.iter().zip(stats::judge(&changes, margins)) {
            let is_higher_better = rows[*row].measure.is_higher_better();
            rows[*row].changes[side] = Some(change_record(change, &judged, is_higher_better));
        }
    }
    ComparedTests { rows, left_out, comparisons }
}

/// Returns the keys of all sides, in the order of the first side that has them. Keys of a test stay together, because
/// its latency is known in fewer runs than its rate.
fn keys(sides: &[Side]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for test in sides.iter().flat_map(|side| &side.tests) {
        if !keys.contains(&test.key) {
            let last = keys.iter().rposition(|key| key.spec == test.key.spec);
            keys.insert(last.map_or(keys.len(), |last| last + 1), test.key.clone());
        }
    }
    keys
}

/// Returns the reason why a spec cannot be compared: it is not the same work on all sides, or sides lack it.
fn incomparable_reason(sides: &[Side], tests: &[Option<&Test>]) -> Option<String> {
    let measured: Vec<_> =
        sides.iter().zip(tests).filter_map(|(side, test)| Some((side, (*test)?))).collect();
    let (first, rest) = measured.split_first()?;
    if tests[0].is_none() || rest.is_empty() {
        let names = measured.iter().map(|(side, _)| side.name.as_str()).collect::<Vec<_>>().join(" and ");
        return Some(match similar_test(sides, first.1) {
            Some((other_side, other)) => {
                let [one, other] = work_words(&first.1.key, &other.key);
                let here = format!("{one} on {names}");
                let there = format!("{other} on {}", other_side.name);
                let is_first = std::ptr::eq(other_side, &raw const sides[0]);
                let [one, other] = if is_first { [there, here] } else { [here, there] };
                format!("{NOT_THE_SAME}: {one}, {other}")
            }
            None => format!("measured on {names} only"),
        });
    }
    if let Some((side, [one, other])) =
        measured.iter().find_map(|(side, test)| Some((side, test.other_work.as_ref()?)))
    {
        return Some(format!("{NOT_THE_SAME} in all runs of {}: {one} and {other}", side.name));
    }
    let one = first.1.work.as_ref()?;
    rest.iter().find_map(|(side, test)| {
        // Another engine is another way to do the same work, and sizes may follow from the speed. Both get a warning.
        let [one, other] = one.difference(&test.work.as_ref()?.with_engine_and_size_of(one))?;
        Some(format!("{NOT_THE_SAME}: {one} on {}, {other} on {}", first.0.name, side.name))
    })
}

/// Returns the difference of two keys in words: clients if the specs are the same.
fn work_words(one: &Key, other: &Key) -> [String; 2] {
    let clients = |key: &Key| match key.clients {
        1 => "1 client".to_owned(),
        count => format!("{count} clients"),
    };
    if one.spec == other.spec {
        [clients(one), clients(other)]
    } else {
        [one.spec.clone(), other.spec.clone()]
    }
}

/// The sides that measured a test.
fn test_sides<'a>(sides: &'a [Side], test: &'a Test) -> impl Iterator<Item = &'a Side> {
    sides.iter().filter(|side| side.tests.iter().any(|own| own.key == test.key))
}

/// Finds a test that looks the same in tables or has the same spec, on a side that lacks this one. No side with this one
/// may have it. Returns its side, too.
fn similar_test<'a>(sides: &'a [Side], test: &Test) -> Option<(&'a Side, &'a Test)> {
    let is_similar = |other: &&Test| {
        let is_same_row = (&other.name, &other.label) == (&test.name, &test.label);
        (is_same_row || other.key.spec == test.key.spec)
            && other.key.measure == test.key.measure
            && other.key != test.key
    };
    let is_here =
        |key: &Key| test_sides(sides, test).any(|side| side.tests.iter().any(|own| own.key == *key));
    let found = |side: &'a Side| {
        let similar = side.tests.iter().find(|other| is_similar(other) && !is_here(&other.key))?;
        Some((side, similar))
    };
    // Only if the side lacks the test itself.
    sides.iter().filter(|side| side.tests.iter().all(|other| other.key != test.key)).find_map(found)
}

/// Returns the reasons against a comparison of the sides of a row.
fn warnings(sides: &[Side], tests: &[Option<&Test>]) -> Vec<String> {
    let mut warnings = Vec::new();
    let measured: Vec<_> =
        sides.iter().zip(tests).filter_map(|(side, test)| Some((side, (*test)?))).collect();
    for (side, test) in &measured {
        let meaning = match test.trust {
            Some(Trust::Invalid) => "is invalid{}: the change says nothing about this storage",
            Some(Trust::Suspect) => "has the mark ?{}: it may be off by more than its interval",
            _ => continue,
        };
        let codes = match &test.trust_reasons[..] {
            [] => String::new(),
            codes => format!(" ({})", codes.join(", ")),
        };
        warnings.push(format!("{} {}", side.name, meaning.replace("{}", &codes)));
    }
    let Some(((first, before), rest)) = measured.split_first() else { return warnings };
    for (side, after) in rest {
        let limiter = |test: &Test| test.measured().and_then(|measured: SideResult| measured.limiter);
        // A limiter that is not clear may be the same.
        let is_clear = |limiter: &Limiter| *limiter != Limiter::NotClear;
        if let (Some(one), Some(other)) = (limiter(before).filter(is_clear), limiter(after).filter(is_clear))
            && one != other
        {
            warnings.push(format!(
                "limited by {} on {} and by {} on {}: the numbers measure different limits",
                one.title(),
                first.name,
                other.title(),
                side.name
            ));
        }
        if let (Some(one), Some(other)) = (&before.engine, &after.engine)
            && one != other
        {
            warnings.push(engine_warning((&first.name, one), (&side.name, other)));
        }
        let bytes = |test: &Test| test.workload.as_ref().map(|workload| workload.size_bytes as f64);
        if let (Some(one), Some(other)) = (bytes(before), bytes(after))
            && !is_same_size(one, other)
        {
            let [one, other] = [one, other].map(|bytes| size::binary(bytes as u64));
            warnings.push(format!(
                "{one} of data on {}, {other} on {}: use the same --size",
                first.name, side.name
            ));
        }
    }
    warnings
}

/// Returns the features of the engine that only one of two sides has. Some of them are the text of a mix or a load: then
/// the work differs, not its way to the kernel.
fn engine_warning(one: (&str, &[String]), other: (&str, &[String])) -> String {
    let of_text = |feature: &String| feature.starts_with("mix_") || feature.starts_with("load");
    let only = |mine: &[String], others: &[String]| -> Vec<String> {
        mine.iter().filter(|feature| !others.contains(feature)).cloned().collect()
    };
    let [mine, theirs] = [only(one.1, other.1), only(other.1, one.1)];
    let what = match mine.iter().chain(&theirs).all(of_text) {
        true => "another mix or load file",
        false => "different engine",
    };
    let side = |(name, _): (&str, &[String]), features: &[String]| match features.is_empty() {
        true => format!("none on {name}"),
        false => format!("{} on {name}", features.join(", ")),
    };
    format!("{what}: {}, {}", side(one, &mine), side(other, &theirs))
}

/// Returns the resolution of the ratio of the means, as a share. Each run counts its operations separately; the buckets
/// of a histogram are the same in all runs.
fn resolution(before: &Test, after: &Test) -> f64 {
    if !before.key.measure.is_rate() {
        return before.resolution + after.resolution;
    }
    let of = |test: &Test| test.resolution.powi(2) / test.values.len().max(1) as f64;
    (of(before) + of(after)).sqrt()
}

fn compare_unpaired(before: &Test, after: &Test) -> Option<stats::Change> {
    let values = |test: &Test| test.values.iter().map(|value| value.value).collect::<Vec<_>>();
    stats::compare_groups(&values(before), &values(after), resolution(before, after))
}

/// Compares run by run; both tests have the same runs.
fn compare_paired(before: &Test, after: &Test) -> Option<stats::Change> {
    let pair = |before: &Value| {
        let after = after.values.iter().find(|after| after.run == before.run)?;
        Some((before.value, after.value))
    };
    let pairs: Vec<_> = before.values.iter().filter_map(pair).collect();
    stats::compare_pairs(&pairs, resolution(before, after))
}

fn change_record(change: &stats::Change, judged: &stats::AdjustedDecision, is_higher_better: bool) -> Change {
    let (answer, runs_needed) = match judged.answer {
        stats::Decision::Changed => (Decision::Changed, None),
        stats::Decision::Equivalent => (Decision::Equivalent, None),
        stats::Decision::CannotTell { runs } => (Decision::CannotTell, runs.map(|runs| runs as u32)),
    };
    let direction = (answer == Decision::Changed).then_some(match (change.ratio > 1.0) == is_higher_better {
        true => Direction::Better,
        false => Direction::Worse,
    });
    Change {
        ratio: change.ratio,
        ci95_low_ratio: change.interval.map(|ends| ends.low),
        ci95_high_ratio: change.interval.map(|ends| ends.high),
        p: change.p,
        p_corrected: judged.p,
        runs: change.runs as u32,
        answer,
        direction,
        runs_needed,
        detectable: judged.detectable,
        can_be_decided: judged.can_be_decided,
    }
}

/// Geometric mean of the ratios of all rates of a side, counted from the second. `None` without any. An undecided ratio
/// may be chance, so there is no mean with one.
pub(super) fn geomean(rows: &[Row], side: usize) -> Option<f64> {
    let is_rate = |row: &&Row| row.measure.is_rate() && !row.is_invalid();
    let changes: Vec<_> =
        rows.iter().filter(is_rate).filter_map(|row| row.changes.get(side - 1)?.as_ref()).collect();
    if changes.iter().any(|change| change.answer == Decision::CannotTell) {
        return None;
    }
    let logs: Vec<_> = changes.iter().map(|change| change.ratio.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_warning_lists_only_differences() {
        let of = |words: &str| -> Vec<String> { words.split(' ').map(str::to_owned).collect() };
        let engine_difference =
            |one: &str, other: &str| engine_warning(("old", &of(one)), ("new", &of(other)));
        assert_eq!(
            engine_difference("sync a", "io_uring a"),
            "different engine: sync on old, io_uring on new"
        );
        assert_eq!(engine_difference("sync a b", "sync a"), "different engine: b on old, none on new");
        assert_eq!(
            engine_difference("sync mix_version=1 mix_digest=7", "sync mix_version=1 mix_digest=8"),
            "another mix or load file: mix_digest=7 on old, mix_digest=8 on new"
        );
    }
}
