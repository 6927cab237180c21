//! Laws of verdicts: what noise and missing counters may do to them.

use model::run::{Confidence, PhaseRecord, Response, Verdict};
use model::{Limiter, Run};
use proptest::prelude::*;

use crate::generated::{Figures, figures, put};
use crate::runs;

#[test]
fn hidden_counters_never_move_a_limiter_to_another_layer() {
    let of_run = |(name, run): &(String, Run)| {
        let moved = xtask::hidden::moved_verdicts(run);
        moved.into_iter().map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
    };
    let moved: Vec<_> = runs().iter().flat_map(of_run).collect();
    assert!(moved.is_empty(), "{} rows\n{}", moved.len(), moved.join("\n"));
}

fn verdicts(mut run: Run, figures: &Figures, change: impl Fn(&mut PhaseRecord)) -> Vec<Verdict> {
    for row in &mut run.phases {
        put(figures, row);
        change(row);
    }
    judge::rejudge(&mut run);
    run.phases.into_iter().map(|row| row.judged.verdict.unwrap_or_default()).collect()
}

/// Returns the confidence of a verdict; `None` if it is not clear.
fn confidence(verdict: &Verdict) -> Option<Confidence> {
    verdict.confidence.filter(|_| verdict.limiter != Some(Limiter::NotClear))
}

fn answers(row: &mut PhaseRecord) -> [&mut Option<Response>; 4] {
    let known = row.judged.sensitivity.get_or_insert_default();
    [&mut known.depth, &mut known.block, &mut known.single, &mut known.separate]
}

#[test]
fn wider_answers_never_make_a_verdict_surer() {
    let (runs, cases) = (runs(), xtask::sized(2000, 20_000));
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    proptest!(config, |(place in 0..runs.len(), figures in figures(), answer in 0..4usize, wider in 0.01..1.0f64)| {
        let (name, run) = &runs[place];
        let narrow = verdicts(run.clone(), &figures, |_| {});
        let wide = verdicts(run.clone(), &figures, |row| {
            if let Some(response) = answers(row)[answer] {
                response.half_width = response.half_width.map(|half| half + wider);
            }
        });
        let none = verdicts(run.clone(), &figures, |row| *answers(row)[answer] = None);
        for ((narrow, wide), none) in narrow.iter().zip(&wide).zip(&none) {
            let is_surer = confidence(wide) > confidence(narrow).max(confidence(none));
            let is_other = wide.contradicts(narrow) && wide.contradicts(none);
            let words = |verdict: &Verdict| format!("{:?} {:?}", verdict.limiter, verdict.confidence);
            prop_assert!(
                !is_surer && !is_other,
                "{name}: narrow {}, wide {}, none {}", words(narrow), words(wide), words(none)
            );
        }
    });
}
