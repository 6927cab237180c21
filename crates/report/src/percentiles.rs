//! Percentiles in tables and files: those that the user chose, or else the usual ones.

use model::run::{ChosenPercentile, Latency, PhaseRecord};
use model::{Percentile, Percentiles, Run};

use crate::html::histogram::decoded;
use crate::html::latency::{Buckets, steady_buckets};
use crate::numbers::{self, MISSING};

/// Percentiles on a terminal, unless the user chose others.
pub(crate) const ON_SCREEN: [Percentile; 2] = [Percentile::P50, Percentile::P99];
/// Percentiles in files, unless the user chose others.
const IN_FILES: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];
/// Percentiles with a separate place in the document.
const STANDARD: [Percentile; 4] = [Percentile::P50, Percentile::P90, Percentile::P99, Percentile::P99_9];
/// Fewest samples beyond a percentile that is stated, as everywhere in skye.
const SAMPLES_BEYOND: f64 = 20.0;

/// Returns the percentiles that the user chose; `None` if there are none.
pub(crate) fn chosen(run: &Run) -> Option<Vec<Percentile>> {
    Percentiles::from_percents(&run.percentiles).map(|chosen| chosen.as_slice().to_vec())
}

/// Returns the percentiles that files have.
pub(crate) fn in_files(run: &Run) -> Vec<Percentile> {
    chosen(run).unwrap_or_else(|| IN_FILES.to_vec())
}

/// Returns the chosen percentiles without a separate place in the document.
pub(crate) fn extra_percentiles(run: &Run) -> Vec<Percentile> {
    let chosen = chosen(run).unwrap_or_default();
    chosen.into_iter().filter(|chosen| !STANDARD.contains(chosen)).collect()
}

/// Returns a percentile of a latency, in nanoseconds; `None` if it is not known.
pub(crate) fn value_ns(latency: &Latency, wanted: Percentile) -> Option<u64> {
    match wanted {
        Percentile::P50 => latency.p50,
        Percentile::P90 => latency.p90,
        Percentile::P99 => latency.p99,
        Percentile::P99_9 => latency.p99_9,
        _ => {
            let is_it = |known: &&ChosenPercentile| Percentile::from_percent(known.percent) == Some(wanted);
            latency.chosen.iter().find(is_it).map(|known| known.ns)
        }
    }
}

/// Returns the cells of a latency in a table; `–` stands for what is not known.
pub(crate) fn cells(latency: Option<&Latency>, wanted: &[Percentile]) -> Vec<String> {
    let cell = |wanted: &Percentile| match latency.and_then(|latency| value_ns(latency, *wanted)) {
        Some(ns) => numbers::latency(ns),
        None => MISSING.into(),
    };
    wanted.iter().map(cell).collect()
}

/// Chooses the percentiles that all forms of a run have, and states them in the run as far as there are enough samples.
pub fn choose(run: &mut Run, wanted: &Percentiles) {
    run.percentiles = wanted.percents();
    run.phases.iter_mut().for_each(|phase| state(phase, wanted));
}

/// States percentiles in the record of a test, as far as its histograms have enough samples.
pub fn state(phase: &mut PhaseRecord, wanted: &Percentiles) {
    let others: Vec<_> =
        wanted.as_slice().iter().copied().filter(|wanted| !STANDARD.contains(wanted)).collect();
    let known = known_in_intervals(phase, &others);
    let buckets = steady_buckets(phase);
    if let Some(latency) = &mut phase.figures.latency_ns {
        latency.chosen = stated(&buckets, &known);
    }
    for step in &mut phase.figures.steps {
        if let Some(latency) = &mut step.latency_ns {
            let buckets = step.histogram.as_deref().and_then(decoded).unwrap_or_default();
            latency.chosen = stated(&buckets, &others);
        }
    }
}

/// Returns the percentiles whose samples lie in enough intervals, as those of a single stall do not.
fn known_in_intervals(phase: &PhaseRecord, wanted: &[Percentile]) -> Vec<Percentile> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let steady = phase.figures.steady.as_ref().filter(|steady| steady.is_steady);
    let part = steady.map_or(0..u64::MAX, |steady| steady.from_ns..steady.to_ns);
    let intervals = phase.figures.intervals.iter().filter(|interval| part.contains(&interval.start_ns));
    let histograms: Vec<_> = intervals.map(|interval| interval.histogram.clone()).collect();
    let shares: Vec<_> = wanted.iter().map(|wanted| wanted.share()).collect();
    let are_known = stats::are_known(&histograms, &shares);
    wanted.iter().zip(are_known).filter(|(_, is_known)| *is_known).map(|(wanted, _)| *wanted).collect()
}

fn stated(buckets: &Buckets, wanted: &[Percentile]) -> Vec<ChosenPercentile> {
    let total = buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let value = |wanted: &Percentile| {
        let rank = (total as f64 * wanted.share()).ceil().max(1.0) as u64;
        let mut below = 0u64;
        let bucket = buckets.iter().find(|(_, count)| {
            below = below.saturating_add(*count);
            below >= rank
        });
        // A share is no exact number: of 200,000 samples, 20 lie beyond the 99.99th.
        let is_known = total as f64 * (1.0 - wanted.share()) >= SAMPLES_BEYOND - 1e-6;
        let (upper_ns, _) = bucket.filter(|_| is_known)?;
        Some(ChosenPercentile { percent: wanted.percent(), ns: *upper_ns })
    };
    wanted.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn percentiles_with_enough_samples_are_stated() {
        let mut run = sample::run();
        run.phases.truncate(1);
        let phase = &mut run.phases[0];
        let mut interval = phase.figures.intervals[0].clone();
        (phase.figures.histogram, phase.figures.steady) = (None, None);
        interval.histogram = vec![(1_000, 9_990), (5_000, 9), (70_000, 1)];
        phase.figures.intervals = vec![interval; 21];
        choose(&mut run, &"25,99,99.95,99.99".parse().unwrap());
        assert_eq!(run.percentiles, [25.0, 99.0, 99.95, 99.99]);
        let latency = run.phases[0].figures.latency_ns.clone().unwrap();
        let known: Vec<_> = latency.chosen.iter().map(|known| (known.percent, known.ns)).collect();
        assert_eq!(known, [(25.0, 1_000), (99.95, 5_000), (99.99, 5_000)]);
        let cells = cells(Some(&latency), &in_files(&run));
        assert_eq!(cells, ["1.00 µs", "4.46 ms", "5.00 µs", "5.00 µs"]);
        // Of a single interval, the samples beyond are one event.
        let few = &mut run.phases[0].figures.intervals;
        few.iter_mut().skip(1).for_each(|interval| interval.histogram = vec![(1_000, 10_000)]);
        few[0].histogram = vec![(1_000, 9_000), (70_000, 1_000)];
        choose(&mut run, &"25,99.95".parse().unwrap());
        assert_eq!(run.phases[0].figures.latency_ns.as_ref().unwrap().chosen.len(), 1);
    }

    #[test]
    fn percentile_of_a_step_comes_from_its_histogram() {
        let mut run = sample::run();
        run.phases = vec![sample::rw()];
        choose(&mut run, &"75".parse().unwrap());
        assert_eq!(cells(run.phases[0].figures.steps[0].latency_ns.as_ref(), &in_files(&run)), ["–"]);
        assert_eq!(stated(&vec![(10, 75), (20, 25)], &extra_percentiles(&run))[0].ns, 10);
        assert!(stated(&vec![(10, 60), (20, 19)], &extra_percentiles(&run)).is_empty());
    }
}
