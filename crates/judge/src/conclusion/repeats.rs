//! How far a repeat of each test may lie from its rate, from the return visits and the baselines of experiments.

use model::Experiment;
use model::run::{PhaseRecord, Status};
use stats::repeat_distance;

use crate::values::experiments::own_rate;

/// Stores in each row how far a repeat may lie from its rate, by its own repeats and those of other tests. Returns true if there is
/// such a row.
///
/// Rows of a run without return visits have none: there, repeats are whole runs.
pub(crate) fn share_repeats(rows: &mut [PhaseRecord]) -> bool {
    rows.iter_mut().for_each(|row| row.figures.rate.repeat_half_width = None);
    if rows.iter().all(|row| row.figures.return_visit.is_none()) {
        return false;
    }
    let tests: Vec<_> = rows.iter().map(repeats).collect();
    for (index, row) in rows.iter_mut().enumerate().filter(|(_, row)| has_one_rate(row)) {
        let others = tests.iter().enumerate().filter(|(other, _)| *other != index);
        let others = others.map(|(_, ratios)| ratios.as_slice());
        let figures = &mut row.figures;
        let of_run = figures.rate.half_width().unwrap_or(0.0);
        let half_width = |distance: f64| (distance.exp() - 1.0).max(of_run);
        figures.rate.repeat_half_width = repeat_distance(&tests[index], others).map(half_width);
    }
    true
}

/// Returns true if a repeat of the row's rate says how far its headline may differ.
fn has_one_rate(row: &PhaseRecord) -> bool {
    let rate = &row.figures.rate;
    // Baselines of writes into the page cache are rates of memory.
    let is_other = rate.has_long_sync() || rate.into_cache_ops_per_second.is_some();
    let is_open_loop = row.workload.arrival != "closed_loop";
    row.status == Status::Done && !is_other && !is_open_loop && row.figures.zones.is_empty()
}

/// Returns the natural logarithms of the rates of a row's repeats over its own.
fn repeats(row: &PhaseRecord) -> Vec<f64> {
    let Some((own, _)) = own_rate(row).filter(|_| has_one_rate(row)) else { return Vec::new() };
    let visit = row.figures.return_visit.as_ref().map(|visit| visit.ops_per_second);
    let known = row.judged.sensitivity.as_ref();
    let responses = Experiment::ALL.iter().filter_map(|one| known?.response_to(*one));
    let baselines = responses.map(|response| response.before_ops_per_second);
    let ratio = |rate: f64| (rate / own).ln();
    visit.into_iter().chain(baselines).map(ratio).filter(|ratio| ratio.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use model::run::{Response, ReturnVisit, Sensitivity};

    use super::*;
    use crate::fixtures::clean;

    #[test]
    fn return_visits_widen_what_the_run_alone_shows() {
        let mut rows = ["read:rnd4k", "stat"].map(|spec| clean(spec).record);
        assert!(!share_repeats(&mut rows), "nothing was measured again");
        let own = rows[0].figures.rate.steady_or_whole().unwrap();
        let visit = ReturnVisit {
            start_ns: 90_000_000_000,
            ops_per_second: 1.1 * own,
            latency_mean_ns: None,
            kernel_share: None,
        };
        rows[0].figures.return_visit = Some(visit);
        assert!(share_repeats(&mut rows));
        assert_eq!(rows[0].figures.rate.repeat_half_width, None, "one repeat says too little");
        let response = Response {
            value: 0.0,
            half_width: None,
            before_ops_per_second: 0.9 * own,
            after_ops_per_second: own,
            change: "q4t1".into(),
            load: None,
        };
        let (depth, block) = (Some(response.clone()), Some(response));
        rows[0].judged.sensitivity = Some(Sensitivity { depth, block, ..Sensitivity::default() });
        assert!(share_repeats(&mut rows));
        let [read, stat] = rows.map(|row| row.figures.rate.repeat_half_width);
        assert!(read.unwrap() > 0.2 && read.unwrap() < 0.3, "{read:?}");
        assert!(stat.unwrap() > 0.2, "without its own repeats, those of other tests count: {stat:?}");
    }
}
