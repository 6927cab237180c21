//! The rows of a comparison: the same test on each side, and what can be said of it.

use model::comparison::{Answer, Change, Direction, LeftOut, Measured, Row};
use model::run::{Trust, WorkloadRecord};
use model::size;

use super::side::{Key, Side, Test};

/// Data sets that differ by more than this may lie in other caches.
const SAME_SIZE: f64 = 1.25;

/// What came of it.
pub(super) struct Compared {
    pub rows: Vec<Row>,
    pub left_out: Vec<LeftOut>,
    /// Most changes that are judged together.
    pub claims: usize,
}

/// Whether the sides are the two of one measurement in turns.
pub(super) fn are_interleaved(sides: &[Side]) -> bool {
    let [Side { pairing: Some(one), .. }, Side { pairing: Some(other), .. }] = sides else { return false };
    one.id == other.id && one.side != other.side
}

pub(super) fn compare(sides: &[Side], effect: f64, noise_floor: f64, is_interleaved: bool) -> Compared {
    let mut rows = Vec::new();
    let mut left_out = Vec::new();
    // Of each change: its row, its side, and what the numbers say.
    let mut found: Vec<(usize, usize, stats::Change)> = Vec::new();
    for key in keys(sides) {
        let tests: Vec<_> = sides.iter().map(|side| side.tests.iter().find(|test| test.key == key)).collect();
        let Some(any) = tests.iter().flatten().next() else { continue };
        if let Some(reason) = unlike(sides, &tests) {
            // Its latency is left out for the same reason.
            if key.measure.is_rate() {
                left_out.push(LeftOut { what: any.subject(), reason });
            }
            continue;
        }
        for (index, after) in tests.iter().enumerate().skip(1) {
            let (Some(before), Some(after)) = (tests[0], after) else { continue };
            let change = if is_interleaved { in_pairs(before, after) } else { in_groups(before, after) };
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
    let margins = stats::Margins { equivalent: effect, floor: noise_floor };
    let mut claims = 0;
    // What is read together is judged together: the rates of one side against the first, and its latencies.
    for (side, is_rate) in (0..sides.len() - 1).flat_map(|side| [(side, true), (side, false)]) {
        let is_of = |(row, of, _): &&(usize, usize, stats::Change)| {
            *of == side && rows[*row].measure.is_rate() == is_rate
        };
        let family: Vec<_> = found.iter().filter(is_of).copied().collect();
        claims = claims.max(family.len());
        let changes: Vec<_> = family.iter().map(|(_, _, change)| *change).collect();
        for ((row, _, change), judged) in family.iter().zip(stats::judge(&changes, margins)) {
            let is_more_better = rows[*row].measure.is_more_better();
            rows[*row].changes[side] = Some(told(change, &judged, is_more_better));
        }
    }
    Compared { rows, left_out, claims }
}

/// What was measured on any side, in the order of the first that did.
fn keys(sides: &[Side]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for test in sides.iter().flat_map(|side| &side.tests) {
        if !keys.contains(&test.key) {
            keys.push(test.key.clone());
        }
    }
    keys
}

/// Why the same spec is not the same work on all sides, or stands on one alone.
fn unlike(sides: &[Side], tests: &[Option<&Test>]) -> Option<String> {
    let measured: Vec<_> =
        sides.iter().zip(tests).filter_map(|(side, test)| Some((side, (*test)?))).collect();
    let (first, rest) = measured.split_first()?;
    if tests[0].is_none() || rest.is_empty() {
        let names: Vec<_> = measured.iter().map(|(side, _)| side.name.as_str()).collect();
        let twin = twin(sides, first.1);
        return Some(match twin {
            Some((other, spec)) => {
                format!(
                    "not the same work: {} on {}, {spec} on {other}",
                    first.1.key.spec,
                    names.join(" and ")
                )
            }
            None => format!("measured on {} alone", names.join(" and ")),
        });
    }
    let one = first.1.workload.as_ref()?;
    rest.iter().find_map(|(side, test)| {
        let what = differing(one, test.workload.as_ref()?)?;
        Some(format!("not the same work: {what} on {} and on {}", first.0.name, side.name))
    })
}

/// A test of another side that has the same name in tables and is another.
fn twin<'a>(sides: &'a [Side], test: &Test) -> Option<(&'a str, &'a str)> {
    let is_twin = |other: &&Test| {
        (&other.name, &other.label) == (&test.name, &test.label)
            && other.key.measure == test.key.measure
            && other.key.spec != test.key.spec
    };
    let found =
        |side: &'a Side| Some((side.name.as_str(), side.tests.iter().find(is_twin)?.key.spec.as_str()));
    // Only if the side lacks the test itself.
    sides.iter().filter(|side| side.tests.iter().all(|other| other.key != test.key)).find_map(found)
}

/// In what two workloads of the same spec are not the same work; sizes and rates follow from how fast a target is.
fn differing(one: &WorkloadRecord, other: &WorkloadRecord) -> Option<String> {
    let same = WorkloadRecord {
        size_bytes: one.size_bytes,
        rate_ops_per_second: one.rate_ops_per_second,
        ..other.clone()
    };
    if *one == same {
        return None;
    }
    let words = [
        ("threads", one.threads != other.threads),
        ("depth", one.iodepth != other.iodepth),
        ("direct or buffered", one.direct != other.direct),
        ("sync", one.sync != other.sync),
        ("the number of files", one.files != other.files),
        ("the order", one.order != other.order),
        ("compressible data", one.compress_percent != other.compress_percent),
        ("repeated data", one.dedupe_percent != other.dedupe_percent),
        ("the state of the cache", one.cache != other.cache),
    ];
    let differing: Vec<_> = words.into_iter().filter(|(_, differs)| *differs).map(|(word, _)| word).collect();
    Some(if differing.is_empty() {
        "its details differ".into()
    } else {
        format!("{} differ", differing.join(", "))
    })
}

/// What speaks against holding the sides of a row against each other.
fn warnings(sides: &[Side], tests: &[Option<&Test>]) -> Vec<String> {
    let mut warnings = Vec::new();
    let measured: Vec<_> =
        sides.iter().zip(tests).filter_map(|(side, test)| Some((side, (*test)?))).collect();
    for (side, test) in &measured {
        if test.trust == Some(Trust::Invalid) {
            warnings.push(format!(
                "{} is not what it looks like ({}): the change is not one of this storage",
                side.name,
                test.trust_reasons.join(", ")
            ));
        }
    }
    let Some(((first, before), rest)) = measured.split_first() else { return warnings };
    for (side, after) in rest {
        let limiter = |test: &Test| test.measured().and_then(|measured: Measured| measured.limiter);
        if let (Some(one), Some(other)) = (limiter(before), limiter(after))
            && one != other
        {
            warnings.push(format!(
                "limited by {} on {} and by {} on {}: the two numbers are not of the same thing",
                one.title(),
                first.name,
                other.title(),
                side.name
            ));
        }
        if let (Some(one), Some(other)) = (&before.engine, &after.engine)
            && one != other
        {
            warnings
                .push(format!("issued in another way: {one} on {}, {other} on {}", first.name, side.name));
        }
        let bytes = |test: &Test| test.workload.as_ref().map(|workload| workload.size_bytes as f64);
        if let (Some(one), Some(other)) = (bytes(before), bytes(after))
            && (one / other).max(other / one) > SAME_SIZE
        {
            let [one, other] = [one, other].map(|bytes| size::binary(bytes as u64));
            warnings.push(format!(
                "on {one} of data on {}, on {other} on {}: with --size it is the same",
                first.name, side.name
            ));
        }
    }
    warnings
}

fn in_groups(before: &Test, after: &Test) -> Option<stats::Change> {
    let values = |test: &Test| test.values.iter().map(|(_, value)| *value).collect::<Vec<_>>();
    stats::compare_groups(&values(before), &values(after), before.resolution + after.resolution)
}

/// By repetition; one that only one side has is left out.
fn in_pairs(before: &Test, after: &Test) -> Option<stats::Change> {
    let pair = |(repetition, before): &(u32, f64)| {
        let (_, after) = after.values.iter().find(|(other, _)| other == repetition)?;
        Some((*before, *after))
    };
    let pairs: Vec<_> = before.values.iter().filter_map(pair).collect();
    stats::compare_pairs(&pairs, before.resolution + after.resolution)
}

fn told(change: &stats::Change, judged: &stats::Judged, is_more_better: bool) -> Change {
    let (answer, runs_needed) = match judged.answer {
        stats::Answer::Changed => (Answer::Changed, None),
        stats::Answer::Equivalent => (Answer::Equivalent, None),
        stats::Answer::CannotTell { runs } => (Answer::CannotTell, runs.map(|runs| runs as u32)),
    };
    let direction = (answer == Answer::Changed).then_some(match (change.ratio > 1.0) == is_more_better {
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
    }
}

/// Geometric mean of the ratios of all rates of a side, counted from the second; `None` without any.
pub(super) fn geomean(rows: &[Row], side: usize) -> Option<f64> {
    let ratio = |row: &Row| row.changes.get(side - 1)?.as_ref().map(|change| change.ratio);
    let logs: Vec<_> =
        rows.iter().filter(|row| row.measure.is_rate()).filter_map(ratio).map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}
