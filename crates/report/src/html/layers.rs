//! Charts of the layers under a test: the bytes of each, and the requests that it has in flight.

use model::numbers::latency;
use model::run::PhaseRecord;
use model::target::Target;

use super::{Figure, Markup};
use crate::layers::{LayerRow, rows};
use crate::numbers::amount;
use draw::{Bar, bars};

/// The chart of the bytes a second; `None` where no layer counts bytes.
pub(super) fn bytes(phase: &PhaseRecord, target: &Target) -> Option<Figure> {
    let rows = rows(phase, target);
    let lowest = rows.iter().rfind(|row| row.bytes_share.is_some())?;
    let ratio = amount(lowest.bytes_share?)?;
    let caption = format!("{} moved {ratio} bytes per byte of the test.", lowest.name);
    let text = |rate: f64| format!("{} MB/s", amount(rate / 1e6).unwrap_or_default());
    figure("Bytes by layer", caption, &rows, |row| row.bytes_per_second.map(|rate| (rate, text(rate))))
}

/// The chart of the requests in flight; `None` where no layer counts them.
pub(super) fn in_flight(phase: &PhaseRecord, target: &Target) -> Option<Figure> {
    let rows = rows(phase, target);
    rows.iter().skip(1).find(|row| row.in_flight.is_some())?;
    let caption = "Mean number in flight, and the mean time of each.".to_owned();
    let text = |row: &LayerRow, count: f64| {
        let time = row.request_ns.map_or(String::new(), |ns| format!(" · {}", latency(ns as u64)));
        format!("{count:.1}{time}")
    };
    figure("Requests by layer", caption, &rows, |row| row.in_flight.map(|count| (count, text(row, count))))
}

/// Draws a bar for each layer that has a value.
fn figure(
    name: &str,
    caption: String,
    rows: &[LayerRow],
    value: impl Fn(&LayerRow) -> Option<(f64, String)>,
) -> Option<Figure> {
    let bar = |row: &LayerRow| {
        let (value, value_text) = value(row)?;
        let class = if row.bytes_share.is_none() && row.requests_per_second.is_some() { "s0" } else { "s5" };
        let title = format!("{}: {value_text}", row.name);
        Some(Bar { name: row.name.clone(), value, title, value_text, class })
    };
    let all: Vec<_> = rows.iter().filter_map(bar).collect();
    let most = all.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let drawing = Markup(bars(name, &caption, &all, most, false));
    (most > 0.0).then(|| Figure { name: name.to_owned(), drawing, legend: Vec::new(), caption })
}
