//! The rate of a test over the offset.

use model::run::PhaseRecord;
use model::size;

use super::{Figure, Markup};
use crate::numbers::megabytes;
use crate::zones::{self, Part};
use draw::{Drawing, Plot, Scale, Side, compact};

/// Height of the rate, of the text above it, and of the labels at the bottom.
const RATE_HEIGHT: f64 = 128.0;
const HEAD: f64 = 26.0;
const LABELS_HEIGHT: f64 = 26.0;
/// Top of the axis, as a multiple of its highest value.
const HEADROOM: f64 = 1.06;

/// The figure; `None` for a test without zones, or with too few to make a line.
pub(super) fn figure(phase: &PhaseRecord) -> Option<Figure> {
    let parts = zones::parts(phase);
    let [fastest, _] = zones::extremes(&parts)?;
    let caption = format!("{}.", zones::rate_summary(&parts)?);
    let name = "Rate over the offset".to_owned();
    let mut drawing = Drawing::new(HEAD + RATE_HEIGHT + LABELS_HEIGHT, &name, &caption);
    let ends = [parts.first()?.start_bytes as f64, parts.last()?.end_bytes as f64];
    // A foreign document may have its zones in any order.
    if ends[0] >= ends[1] {
        return None;
    }
    let scale = Scale::linear(ends[0], ends[1], Plot::X_RANGE);
    let plot = Plot::new(Side { scale, ticks: 5, label: at }, [HEAD, HEAD + RATE_HEIGHT], |y_range| Side {
        scale: Scale::linear(0.0, fastest.bytes_per_second / 1e6 * HEADROOM, y_range),
        ticks: 5,
        label: compact,
    });
    plot.axes(&mut drawing, "MB/s", true);
    let corners =
        |part: &Part| [part.start_bytes, part.end_bytes].map(|at| (at as f64, part.bytes_per_second / 1e6));
    plot.line(&mut drawing, "l s0", &parts.iter().flat_map(corners).collect::<Vec<_>>());
    for part in &parts {
        let rate = megabytes(part.bytes_per_second).unwrap_or_default();
        let [from, to] = [part.start_bytes, part.end_bytes];
        let title = format!("{} to {}: {rate}", size::binary(from), size::binary(to));
        plot.span(&mut drawing, "at", from as f64, to as f64, &title);
    }
    Some(Figure { name, drawing: Markup(drawing.finish()), legend: Vec::new(), caption })
}

fn at(bytes: f64) -> String {
    size::binary(bytes.max(0.0) as u64)
}
