//! Groups of runs that are known to differ, or not to.

use fastrand::Rng;
use stats::{Change, Decision, Margins, centre, compare_groups, compare_pairs, judge};

use crate::noise::{normal, percent};

const MARGINS: Margins = Margins { equivalent: 0.03, floor: 0.02 };
const RUNS: usize = 6;

/// Rates of `count` runs whose logarithms spread by `noise`.
fn runs(rng: &mut Rng, rate: f64, noise: f64, count: usize) -> Vec<f64> {
    (0..count).map(|_| rate * (noise * normal(rng)).exp()).collect()
}

fn row(rng: &mut Rng, factor: f64, noise: f64) -> Change {
    let (before, after) = (runs(rng, 1000.0, noise, RUNS), runs(rng, 1000.0 * factor, noise, RUNS));
    compare_groups(&before, &after, 0.0).unwrap()
}

fn is_changed(changes: &[Change], row: usize) -> bool {
    judge(changes, MARGINS)[row].answer == Decision::Changed
}

#[test]
fn unchanged_row_is_rarely_called_changed() {
    for noise in [0.02, 0.05, 0.20] {
        let wrong = percent(2000, |rng| is_changed(&[row(rng, 1.0, noise)], 0));
        assert!(wrong <= 6.0, "noise {noise}: {wrong} %");
    }
}

#[test]
fn family_of_unchanged_rows_is_rarely_called_changed() {
    let wrong = percent(2000, |rng| {
        let rows: Vec<_> = (0..11).map(|_| row(rng, 1.0, 0.05)).collect();
        judge(&rows, MARGINS).iter().any(|judged| judged.answer == Decision::Changed)
    });
    assert!(wrong <= 6.0, "{wrong} %");
}

#[test]
fn change_larger_than_noise_is_found() {
    let found = percent(2000, |rng| is_changed(&[row(rng, 1.05, 0.02)], 0));
    assert!(found >= 80.0, "{found} %");
    // The change is found less often beside ten rows without one. Chance could claim two of those.
    let found = percent(2000, |rng| {
        let mut rows = vec![row(rng, 1.05, 0.02)];
        rows.extend((0..10).map(|_| row(rng, 1.0, 0.02)));
        is_changed(&rows, 0)
    });
    assert!(found >= 60.0, "{found} %");
}

#[test]
fn comparison_intervals_have_nominal_coverage() {
    for (noise, count) in [(0.02, 3), (0.02, RUNS), (0.3, RUNS), (0.05, 12)] {
        let covered = |contains: &dyn Fn(&mut Rng) -> bool| percent(2000, contains);
        let of_groups = covered(&|rng| {
            // Sides with different spreads.
            let (before, after) = (runs(rng, 100.0, noise, count), runs(rng, 130.0, 2.0 * noise, count));
            let ends = compare_groups(&before, &after, 0.0).unwrap().interval.unwrap();
            ends.low <= 1.3 && 1.3 <= ends.high
        });
        let of_pairs = covered(&|rng| {
            let before = runs(rng, 100.0, 0.2, count);
            let after = before.iter().map(|rate| (*rate, rate * 0.95 * (noise * normal(rng)).exp()));
            let ends = compare_pairs(&after.collect::<Vec<_>>(), 0.0).unwrap().interval.unwrap();
            ends.low <= 0.95 && 0.95 <= ends.high
        });
        let of_one_side = covered(&|rng| {
            let (_, ends) = centre(&runs(rng, 100.0, noise, count)).unwrap();
            ends.is_some_and(|ends| ends.low <= 100.0 && 100.0 <= ends.high)
        });
        for covered in [of_groups, of_pairs, of_one_side] {
            assert!((93.0..=99.0).contains(&covered), "noise {noise}, {count} runs: {covered} %");
        }
    }
}

#[test]
fn equivalent_row_rarely_differs_by_margin() {
    let wrong = percent(2000, |rng| {
        let change = row(rng, 1.0 / 1.03, 0.01);
        judge(&[change], MARGINS)[0].answer == Decision::Equivalent
    });
    assert!(wrong <= 4.0, "{wrong} %");
    let found = percent(500, |rng| judge(&[row(rng, 1.0, 0.01)], MARGINS)[0].answer == Decision::Equivalent);
    assert!(found >= 95.0, "{found} %");
}

/// Percentage of tries in which the first row is found to have changed. It changed by `factor`, the others did not.
fn percent_found(rows: usize, count: usize, factor: f64, noise: f64) -> f64 {
    percent(400, |rng| {
        let changes = (0..rows).map(|row| {
            let factor = if row == 0 { factor } else { 1.0 };
            let (before, after) = (runs(rng, 1000.0, noise, count), runs(rng, 1000.0 * factor, noise, count));
            compare_groups(&before, &after, 0.0).unwrap()
        });
        is_changed(&changes.collect::<Vec<_>>(), 0)
    })
}

#[test]
fn detectable_change_is_found_as_promised() {
    for (count, rows) in [(4, 1), (5, 6), (6, 1), (6, 11), (6, 23), (9, 11)] {
        let noise = 0.04;
        // The spread is estimated separately each time. The median of the promised changes is tested.
        let mut rng = Rng::with_seed(1);
        let mut promised: Vec<_> = (0..201)
            .map(|_| {
                let groups = [0; 2].map(|_| runs(&mut rng, 1000.0, noise, count));
                let change = compare_groups(&groups[0], &groups[1], 0.0).unwrap();
                judge(&vec![change; rows], MARGINS)[0].detectable.unwrap()
            })
            .collect();
        promised.sort_by(f64::total_cmp);
        let found = percent_found(rows, count, 1.0 + promised[100], noise);
        eprintln!(
            "{count} runs, {rows} rows: {:.1} % is promised, and found in {found} %",
            promised[100] * 100.0
        );
        assert!((72.0..=90.0).contains(&found), "{count} runs, {rows} rows, {}: {found} %", promised[100]);
    }
}

#[test]
fn proposed_number_of_runs_finds_change() {
    for rows in [1, 6] {
        let noise = 0.02;
        let mut rng = Rng::with_seed(1);
        let mut proposed: Vec<_> = (0..201)
            .filter_map(|_| {
                let change = row(&mut rng, 1.0, noise);
                match judge(&vec![change; rows], MARGINS)[0].answer {
                    Decision::CannotTell { runs } => runs,
                    _ => None,
                }
            })
            .collect();
        proposed.sort_unstable();
        let middle = proposed[proposed.len() / 2];
        let found = percent_found(rows, middle.min(10), 1.045, noise);
        eprintln!("{rows} rows: {middle} runs are proposed, and find it in {found} %");
        assert!(found >= 75.0, "{rows} rows, {middle} runs: {found} %");
    }
}

#[test]
fn sequential_stopping_does_not_inflate_false_claims() {
    let (mut covered, mut stopped) = (0, 0);
    let wrong = percent(1000, |rng| {
        let mut pairs = Vec::new();
        let change = loop {
            for _ in 0..2 {
                pairs.push((100.0 * (0.02 * normal(rng)).exp(), 100.0 * (0.02 * normal(rng)).exp()));
            }
            let change = compare_pairs(&pairs, 0.0).unwrap();
            let width = change.interval.map_or(1.0, |ends| (ends.high / ends.low).ln() / 2.0);
            if pairs.len() >= 6 && width <= 1.03f64.ln() / 2.0 || pairs.len() == 20 {
                break change;
            }
        };
        is_changed(&[change], 0)
    });
    for seed in 0..1000 {
        let mut rng = Rng::with_seed(seed);
        let mut pairs = Vec::new();
        loop {
            pairs.extend((0..2).map(|_| (100.0, 100.0 * (0.02 * normal(&mut rng)).exp())));
            let ends = compare_pairs(&pairs, 0.0).unwrap().interval.unwrap();
            if pairs.len() >= 6 && (ends.high / ends.low).ln() / 2.0 <= 1.03f64.ln() / 2.0
                || pairs.len() == 20
            {
                stopped += 1;
                covered += usize::from(ends.low <= 1.0 && 1.0 <= ends.high);
                break;
            }
        }
    }
    eprintln!("{wrong} % claimed, {covered} of {stopped} intervals hold the truth");
    assert!(wrong <= 5.0 && covered * 100 >= stopped * 90, "{wrong} % claimed, {covered} of {stopped}");
}
