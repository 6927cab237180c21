//! The rule over generated records: rows of the corpus with answers, shares of time and places drawn by chance.

use model::Run;
use model::run::{PhaseRecord, Response, Sensitivity, Status, TimeBreakdown};
use model::target::Backing;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{rule, runs};

/// An answer: its value, half of its interval, and how far the rate before it lies from the row's own.
type Drawn = (f64, Option<f64>, f64);

/// Figures that take the place of measured ones.
#[derive(Debug, Clone)]
pub struct Figures {
    answers: [Option<Drawn>; 4],
    shares: Option<Vec<f64>>,
    backing: Option<Backing>,
    journal: Option<&'static str>,
}

fn answer(values: std::ops::Range<f64>) -> impl Strategy<Value = Option<Drawn>> {
    let half_width = of(prop_oneof![0.0..0.05, 0.0..1.5]);
    let moved = prop_oneof![3 => Just(1.0), 1 => 0.5..2.0];
    of((values, half_width, moved))
}

prop_compose! {
    pub fn figures()(
        answers in [answer(-1.3..1.3), answer(-1.6..0.6), answer(-0.3..1.3), answer(0.5..4.0)],
        shares in of(vec(0.0..1.0, 4)),
        backing in of(select(vec![Backing::Devices, Backing::Memory])),
        journal in of(select(vec!["none", "internal"])),
    ) -> Figures {
        Figures { answers, shares, backing, journal }
    }
}

fn response(answer: Option<Drawn>, own: f64, factor: Option<f64>) -> Option<Response> {
    let (value, half_width, moved) = answer?;
    let before = own * moved;
    let after = before * factor.map_or(value, |factor| factor.powf(value));
    Some(Response {
        value,
        half_width,
        before_ops_per_second: before,
        after_ops_per_second: after,
        change: "a change".into(),
        load: None,
    })
}

pub fn put(figures: &Figures, row: &mut PhaseRecord) {
    let own = row.figures.rate.steady_or_whole().unwrap_or(1000.0);
    let [depth, block, single, separate] = figures.answers;
    row.judged.sensitivity = Some(Sensitivity {
        depth: response(depth, own, Some(4.0)),
        block: response(block, own, Some(4.0)),
        single: response(single, own, Some(0.125)),
        separate: response(separate, own, None),
    });
    if let Some(shares) = &figures.shares {
        let sum: f64 = shares.iter().sum::<f64>().max(1e-9);
        let [user, kernel, run_queue, blocked] = [0, 1, 2, 3].map(|place| shares[place] / sum);
        row.seen.budget = Some(TimeBreakdown { user, kernel, run_queue, quota: None, steal: 0.0, blocked });
    }
}

/// Returns statements about those rows, with these figures, that the figures refute.
fn contradictions(mut run: Run, figures: &Figures) -> Vec<String> {
    let target = &mut run.environment.target;
    target.backing = figures.backing.unwrap_or(target.backing);
    if let Some(journal) = figures.journal {
        target.geometry.journal = Some(journal.into());
    }
    let is_measured = |row: &PhaseRecord| row.status == Status::Done && row.counts.ops > 0;
    run.phases.iter_mut().filter(|row| is_measured(row)).for_each(|row| put(figures, row));
    judge::rejudge(&mut run);
    let rows = run.phases.iter().filter(|row| is_measured(row));
    rows.flat_map(|row| rule::contradictions(row, &run)).collect()
}

#[test]
fn verdicts_never_contradict_random_measurements() {
    let runs = runs();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) };
    proptest!(config, |(place in 0..runs.len(), figures in figures())| {
        let (name, run) = &runs[place];
        let found = contradictions(run.clone(), &figures);
        prop_assert!(found.is_empty(), "{name}: {}", found.join("\n"));
    });
}
