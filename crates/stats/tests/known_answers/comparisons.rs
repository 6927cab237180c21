//! Groups of runs, of which it is known whether they differ.

use fastrand::Rng;
use stats::{Answer, Change, Margins, centre, compare_groups, compare_pairs, judge};

use crate::noise::{normal, percent};

const MARGINS: Margins = Margins { equivalent: 0.03, floor: 0.02 };
const RUNS: usize = 6;

/// Rates of so many runs whose logarithms spread by `noise`.
fn runs(rng: &mut Rng, rate: f64, noise: f64, count: usize) -> Vec<f64> {
    (0..count).map(|_| rate * (noise * normal(rng)).exp()).collect()
}

fn row(rng: &mut Rng, factor: f64, noise: f64) -> Change {
    let (before, after) = (runs(rng, 1000.0, noise, RUNS), runs(rng, 1000.0 * factor, noise, RUNS));
    compare_groups(&before, &after, 0.0).unwrap()
}

fn is_changed(changes: &[Change], row: usize) -> bool {
    judge(changes, MARGINS)[row].answer == Answer::Changed
}

#[test]
fn a_row_without_a_change_is_rarely_called_changed() {
    for noise in [0.02, 0.05, 0.20] {
        let wrong = percent(2000, |rng| is_changed(&[row(rng, 1.0, noise)], 0));
        assert!(wrong <= 6.0, "noise {noise}: {wrong} %");
    }
}

#[test]
fn of_many_rows_without_a_change_any_is_rarely_called_changed() {
    let wrong = percent(2000, |rng| {
        let rows: Vec<_> = (0..11).map(|_| row(rng, 1.0, 0.05)).collect();
        judge(&rows, MARGINS).iter().any(|judged| judged.answer == Answer::Changed)
    });
    assert!(wrong <= 6.0, "{wrong} %");
}

#[test]
fn a_change_that_is_larger_than_the_noise_is_found() {
    let found = percent(2000, |rng| is_changed(&[row(rng, 1.05, 0.02)], 0));
    assert!(found >= 80.0, "{found} %");
    // Beside ten rows without one, two of which could be claimed by chance, less often.
    let found = percent(2000, |rng| {
        let mut rows = vec![row(rng, 1.05, 0.02)];
        rows.extend((0..10).map(|_| row(rng, 1.0, 0.02)));
        is_changed(&rows, 0)
    });
    assert!(found >= 60.0, "{found} %");
}

#[test]
fn intervals_contain_the_truth_as_often_as_they_say() {
    for (noise, count) in [(0.02, 3), (0.02, RUNS), (0.3, RUNS), (0.05, 12)] {
        let covered = |contains: &dyn Fn(&mut Rng) -> bool| percent(2000, contains);
        let of_groups = covered(&|rng| {
            // Sides that are not equally steady.
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
fn what_is_called_equivalent_rarely_differs_by_the_margin() {
    let wrong = percent(2000, |rng| {
        let change = row(rng, 1.0 / 1.03, 0.01);
        judge(&[change], MARGINS)[0].answer == Answer::Equivalent
    });
    assert!(wrong <= 4.0, "{wrong} %");
    let found = percent(500, |rng| judge(&[row(rng, 1.0, 0.01)], MARGINS)[0].answer == Answer::Equivalent);
    assert!(found >= 95.0, "{found} %");
}

#[test]
fn as_many_runs_as_are_proposed_find_the_change() {
    let noise = 0.03;
    let mut rng = Rng::with_seed(1);
    let proposed = (0..400).filter_map(|_| match judge(&[row(&mut rng, 1.0, noise)], MARGINS)[0].answer {
        Answer::CannotTell { runs } => runs,
        _ => None,
    });
    let proposed: Vec<_> = proposed.collect();
    let mean = proposed.iter().sum::<usize>() / proposed.len();
    let found = percent(2000, |rng| {
        let (before, after) = (runs(rng, 1.0, noise, mean), runs(rng, 1.03, noise, mean));
        // Of so many runs the permutation test says nearly the same, and takes long.
        compare_groups(&before, &after, 0.0).unwrap().interval.unwrap().low > 1.0
    });
    assert!((75.0..95.0).contains(&found), "{mean} runs: {found} %");
}
