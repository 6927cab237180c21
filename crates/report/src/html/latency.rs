//! Latency by percentile.

use model::Percentile;
use model::run::{Ends, Latency, PhaseRecord};

use super::histogram::decoded;
use super::{Figure, Markup};
use crate::numbers::{amount, latency, percent};
use crate::printable;
use draw::{Drawing, Plot, Scale, Side};

/// Minimum number of samples above the last drawn percentile.
const SAMPLES_BEYOND: u64 = 10;
/// Rarest drawn operations, as the inverse of their share: p99.999.
const ONE_IN_MAX: f64 = 1e5;
/// Maximum number of drawn calls of an operation: those with most of the time.
const STEPS_MAX: usize = 4;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 226.0;

/// Upper ends of buckets in nanoseconds, ascending, each with its count.
pub(crate) type Buckets = Vec<(u64, u64)>;

/// Returns the latencies of a phase's steady part, like the stated percentiles, or of all operations if there is none.
/// They come from the phase's histogram. If that cannot be read, they come from the intervals.
pub(crate) fn steady_buckets(phase: &PhaseRecord) -> Buckets {
    let merged = |from_ns: u64, to_ns: u64| {
        let within =
            phase.figures.intervals.iter().filter(|interval| (from_ns..to_ns).contains(&interval.start_ns));
        sum(within.flat_map(|interval| interval.histogram.iter().copied()).collect())
    };
    let total = |buckets: &Buckets| buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let steady = phase.figures.steady.as_ref().filter(|steady| steady.is_steady);
    let steady = steady.map(|steady| merged(steady.from_ns, steady.to_ns)).filter(|part| !part.is_empty());
    match (phase.figures.histogram.as_deref().and_then(decoded), steady) {
        // Documents of schema 1 have a histogram of the whole phase, even if it has a steady part.
        (Some(whole), Some(part)) if total(&whole) != total(&part) => part,
        (Some(histogram), _) => histogram,
        (None, part) => part.unwrap_or_else(|| merged(0, u64::MAX)),
    }
}

/// Merges equal buckets of several histograms; the result is ascending.
fn sum(mut all: Buckets) -> Buckets {
    all.sort_unstable();
    all.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        is_same
    });
    all
}

/// Returns the latency curve, as far as there are enough samples. Each point is `(one_in, ns)`: one operation in
/// `one_in` takes longer than `ns`.
pub(crate) fn curve(buckets: &Buckets) -> Vec<(f64, f64)> {
    let total = buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let mut below = 0u64;
    let mut points = Vec::new();
    for (upper_ns, count) in buckets {
        if points.is_empty() {
            points.push((1.0, *upper_ns as f64));
        }
        below = below.saturating_add(*count);
        let beyond = total.saturating_sub(below);
        if beyond < SAMPLES_BEYOND {
            break;
        }
        let one_in = total as f64 / beyond as f64;
        if one_in > ONE_IN_MAX {
            break;
        }
        points.push((one_in, *upper_ns as f64));
    }
    points
}

/// Name of the percentile that one operation in `one_in` exceeds: "p99.9".
pub(crate) fn percentile(one_in: f64) -> String {
    let decimals = (one_in.log10().round() - 2.0).max(0.0) as usize;
    if one_in < 1.5 { "min".into() } else { format!("p{:.decimals$}", (1.0 - 1.0 / one_in) * 100.0) }
}

/// Formats a latency at a tick: "100 µs", "1 ms".
pub(crate) fn tick(ns: f64) -> String {
    let text = latency(ns.round().max(0.0) as u64);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// A percentile that the document states, with its 95 % interval.
struct PercentileInterval<'a> {
    name: String,
    one_in: f64,
    ns: u64,
    ends: Option<&'a Ends>,
}

fn known(whole: &Latency) -> Vec<PercentileInterval<'_>> {
    let ci95 = whole.ci95.as_ref();
    let all = [
        ("p50", 2.0, whole.p50, ci95.and_then(|ends| ends.p50.as_ref())),
        ("p90", 10.0, whole.p90, ci95.and_then(|ends| ends.p90.as_ref())),
        ("p99", 100.0, whole.p99, ci95.and_then(|ends| ends.p99.as_ref())),
        ("p99.9", 1000.0, whole.p99_9, ci95.and_then(|ends| ends.p99_9.as_ref())),
    ];
    let usual = all.into_iter().filter_map(|(name, one_in, ns, ends)| {
        Some(PercentileInterval { name: name.to_owned(), one_in, ns: ns?, ends })
    });
    let chosen = whole.chosen.iter().filter_map(|known| {
        let percentile = Percentile::from_percent(known.percent)?;
        let one_in = 1.0 / (1.0 - percentile.share());
        Some(PercentileInterval { name: percentile.name(), one_in, ns: known.ns, ends: None })
    });
    usual.chain(chosen).collect()
}

/// The figure; `None` if operations have no separate latency, or there are too few.
pub(super) fn figure(phase: &PhaseRecord) -> Option<Figure> {
    let whole = phase.figures.latency_ns.as_ref()?;
    let first = curve(&steady_buckets(phase));
    if first.len() < 3 {
        return None;
    }
    let mut series = vec![("operations".to_owned(), first)];
    let mut steps: Vec<_> = phase.figures.steps.iter().collect();
    steps.sort_by_cached_key(|step| std::cmp::Reverse(step.elapsed_ns.unwrap_or(0)));
    for step in steps.into_iter().take(STEPS_MAX) {
        if let Some(points) = step.histogram.as_deref().and_then(decoded).map(|buckets| curve(&buckets)) {
            series.push((printable(&step.name), points));
        }
    }
    if series.len() == 2 {
        // The only call of an operation is the operation itself.
        series.truncate(1);
    }
    let known = known(whole);
    // The axes must also cover the stated percentiles, because a scale moves points beyond its ends to the ends.
    let percentile_points = known.iter().flat_map(|known| {
        let ends = known.ends.map_or([known.ns; 2], |Ends { low, high }| [*low, *high]);
        [known.ns, ends[0], ends[1]].map(|ns| (known.one_in, ns as f64))
    });
    let all: Vec<_> =
        series.iter().flat_map(|(_, points)| points.iter().copied()).chain(percentile_points).collect();
    let last = all.iter().map(|(one_in, _)| *one_in).fold(10.0, f64::max);
    let decades = last.log10().ceil();
    // Latencies are whole nanoseconds, and zero has no place on a logarithmic scale.
    let [low, high] =
        [f64::min, f64::max].map(|pick| all.iter().map(|(_, ns)| ns.max(1.0)).reduce(pick).unwrap_or(1.0));
    let caption = caption(whole);
    let name = "Latency by percentile".to_owned();
    let mut drawing = Drawing::new(BOTTOM + 26.0, &name, &caption);
    let x = Side {
        scale: Scale::log(1.0, last * 1.3, Plot::X_RANGE),
        ticks: decades as usize + 1,
        label: percentile,
    };
    let plot = Plot::new(x, [TOP, BOTTOM], |y_range| Side {
        scale: Scale::log(low / 1.1, high * 1.1, y_range),
        ticks: 7,
        label: tick,
    });
    plot.axes(&mut drawing, "latency; both axes are logarithmic", true);
    let classes = ["l s0", "l s1", "l s2", "l s3", "l s4"];
    for ((_, points), class) in series.iter().zip(classes).rev() {
        plot.line(&mut drawing, class, points);
    }
    for PercentileInterval { name, one_in, ns, ends } in known {
        let mut title = format!("{name}: {}", latency(ns));
        if let Some(Ends { low, high }) = ends {
            title.push_str(&format!(", 95 % interval {} to {}", latency(*low), latency(*high)));
            plot.whisker(&mut drawing, "l ink", one_in, [*low as f64, *high as f64], &title);
        }
        let (x, y) = plot.place((one_in, ns as f64));
        drawing.dot("p s0", x, y, &title);
    }
    let legend = if series.len() < 2 {
        Vec::new()
    } else {
        series
            .into_iter()
            .zip(["s0", "s1", "s2", "s3", "s4"])
            .map(|((name, _), class)| (class, name))
            .collect()
    };
    Some(Figure { name, drawing: Markup(drawing.finish()), legend, caption })
}

fn caption(whole: &Latency) -> String {
    let max = latency(whole.max);
    if let [fast, slow, ..] = whole.modes.as_slice() {
        return format!(
            "{} latency peaks: {} at {}, {} at {}; the slowest took {max}.",
            whole.modes.len(),
            percent(fast.share),
            latency(fast.at_ns),
            percent(slow.share),
            latency(slow.at_ns)
        );
    }
    match (whole.p50, whole.p99) {
        (Some(p50), Some(p99)) => {
            let times = amount(p99 as f64 / p50.max(1) as f64).unwrap_or_default();
            format!("p50 {}, p99 {} ({times} times p50); the slowest took {max}.", latency(p50), latency(p99))
        }
        (Some(p50), None) => format!("p50 {}; the slowest took {max}.", latency(p50)),
        (None, _) => format!("Too few operations for percentiles; the slowest took {max}."),
    }
}
