//! Heat map of the operations of a test by time and latency.

use model::run::{Interval, PhaseRecord};

use super::latency::tick;
use super::{Figure, Markup};
use crate::numbers::latency;
use draw::{Drawing, Path, Plot, Scale, Side};

/// Most columns of the map, and its rows.
const COLUMNS_MAX: usize = 60;
const ROWS: usize = 24;
/// Smallest share of a column's operations for each of the five levels. Readers look at such a map for rare latencies.
const LEVELS: [f64; 5] = [0.0, 0.001, 0.01, 0.05, 0.25];
const CLASSES: [&str; 5] = ["h0", "h1", "h2", "h3", "h4"];
const TOP: f64 = 26.0;
const BOTTOM: f64 = 226.0;
/// Fewest samples beyond a percentile that is stated, as everywhere in skye.
const SAMPLES_BEYOND: u64 = 20;
/// Fewest columns that make a map.
const COLUMNS_MIN: usize = 3;

/// Several intervals as one column: their span of time, and their latencies, ascending.
struct Column {
    from_s: f64,
    to_s: f64,
    buckets: Vec<(u64, u64)>,
}

impl Column {
    fn from_intervals(part: &[Interval]) -> Option<Self> {
        let [first, ..] = part else { return None };
        let last = part.last()?;
        let mut buckets: Vec<_> =
            part.iter().flat_map(|interval| interval.histogram.iter().copied()).collect();
        buckets.sort_unstable();
        let from_s = first.start_ns as f64 / 1e9;
        let to_s = (last.start_ns as f64 + last.length_ns as f64) / 1e9;
        (!buckets.is_empty()).then_some(Self { from_s, to_s, buckets })
    }

    fn operations(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn total(&self) -> f64 {
        self.buckets.iter().map(|(_, count)| *count as f64).sum()
    }

    /// Returns the latency that `share` of the operations take at most.
    fn quantile(&self, share: f64) -> u64 {
        let wanted = self.total() * share;
        let mut below = 0.0;
        for (upper_ns, count) in &self.buckets {
            below += *count as f64;
            if below >= wanted {
                return *upper_ns;
            }
        }
        0
    }
}

/// The figure; `None` if there are too few intervals with latencies.
pub(super) fn figure(phase: &PhaseRecord) -> Option<Figure> {
    phase.figures.latency_ns.as_ref()?;
    let size = phase.figures.intervals.len().div_ceil(COLUMNS_MAX).max(1);
    let columns: Vec<_> = phase.figures.intervals.chunks(size).filter_map(Column::from_intervals).collect();
    if columns.len() < COLUMNS_MIN {
        return None;
    }
    let ends = |pick: fn(u64, u64) -> u64| {
        columns.iter().flat_map(|column| column.buckets.iter().map(|(upper_ns, _)| *upper_ns)).reduce(pick)
    };
    let (low, high) = (ends(u64::min)?.max(1) as f64, ends(u64::max)? as f64);
    let end_s = columns.iter().map(|column| column.to_s).fold(0.0, f64::max);
    let caption = caption(&columns);
    let name = "Latency over time".to_owned();
    let mut drawing = Drawing::new(BOTTOM + 26.0, &name, &caption);
    let x = Side {
        scale: Scale::linear(0.0, end_s, Plot::X_RANGE),
        ticks: 6,
        label: |s| format!("{} s", draw::compact(s)),
    };
    let plot = Plot::new(x, [TOP, BOTTOM], |y_range| Side {
        scale: Scale::log(low / 1.05, high * 1.05, y_range),
        ticks: 7,
        label: tick,
    });
    cells(&mut drawing, &columns, &plot);
    plot.axes(&mut drawing, "latency; the axis is logarithmic", true);
    let legend = CLASSES.iter().zip(["any", "0.1 %", "1 %", "5 %", "25 % of operations or more"]);
    let legend = legend.map(|(class, words)| (*class, words.to_owned())).collect();
    Some(Figure { name, drawing: Markup(drawing.finish()), legend, caption })
}

/// Draws cells as lines as thick as a row is high, with one path for each level.
fn cells(drawing: &mut Drawing, columns: &[Column], plot: &Plot) {
    let height = (BOTTOM - TOP) / ROWS as f64;
    let row = |ns: u64| (((plot.y.scale.place(ns as f64) - TOP) / height) as usize).min(ROWS - 1);
    let mut levels: Vec<[Option<usize>; ROWS]> = Vec::with_capacity(columns.len());
    for column in columns {
        let total = column.total();
        let mut counts = [0.0; ROWS];
        for (upper_ns, count) in &column.buckets {
            counts[row(*upper_ns)] += *count as f64;
        }
        let level = |count: f64| {
            (count > 0.0).then(|| LEVELS.iter().filter(|least| count / total >= **least).count() - 1)
        };
        levels.push(counts.map(level));
    }
    for (wanted, class) in CLASSES.iter().enumerate() {
        let mut path = Path::default();
        for row in 0..ROWS {
            let y = TOP + (row as f64 + 0.5) * height;
            let mut run: Option<(f64, f64)> = None;
            for (column, level) in columns.iter().zip(&levels).map(|(column, levels)| (column, levels[row])) {
                let (from, to) = (plot.x.scale.place(column.from_s), plot.x.scale.place(column.to_s));
                let is_next = level == Some(wanted);
                match run {
                    Some((start, end)) if is_next && (from - end).abs() < 0.05 => run = Some((start, to)),
                    _ => {
                        flush(&mut path, run, y);
                        run = is_next.then_some((from, to));
                    }
                }
            }
            flush(&mut path, run, y);
        }
        drawing.path(class, &path);
    }
}

fn flush(path: &mut Path, run: Option<(f64, f64)>, y: f64) {
    if let Some((from, to)) = run {
        path.go(from, y);
        path.line(to.max(from + 0.5), y);
    }
}

fn caption(columns: &[Column]) -> String {
    let operations_min = columns.iter().map(Column::operations).min().unwrap_or_default();
    // Every column needs enough operations. Otherwise the range would only cover the columns that have most.
    let has_enough = |one_in: u64| operations_min >= SAMPLES_BEYOND.saturating_mul(one_in);
    if !has_enough(2) {
        return "Too few operations per interval for percentiles.".to_owned();
    }
    let range = |share: f64| {
        let ends = [u64::min, u64::max]
            .map(|pick| columns.iter().map(|column| column.quantile(share)).reduce(pick).unwrap_or_default());
        let is_same = ends[1] as f64 <= ends[0] as f64 * 1.1;
        (is_same, ends.map(latency))
    };
    let (median_is_same, [low, high]) = range(0.5);
    let median = if median_is_same {
        format!("The median stays at {high}")
    } else {
        format!("The median is between {low} and {high}")
    };
    if !has_enough(100) {
        return format!("{median} over time; too few operations per interval for the 99th percentile.");
    }
    let (_, [low, high]) = range(0.99);
    format!("{median} over time, the 99th percentile between {low} and {high}.")
}
