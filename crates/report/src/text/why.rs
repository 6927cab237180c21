//! `skye why`: all that is known about rows.

use model::Run;
use model::observation::Source;
use model::run::PhaseRecord;
use model::{Percentile, Target, numbers, size};

use super::limiter;
use super::notes::{paragraph, remarks};
use super::style::{BOLD, Style, display_width, paint};
use super::table::{interval_cell, latency_cells, missing_reason};
use super::wrap::{field, with_units};
use crate::facts::{latency_by_place, places_text};
use crate::headline::headline;
use crate::layers::{self, LayerRow};
use crate::numbers::{MISSING, amount, percent};
use crate::operations::operations;
use crate::{percentiles, printable, slug};

/// The sources of evidence, and the names of their lines.
const SOURCES: [(Source, &str); 6] = [
    (Source::Probe, "tried"),
    (Source::VisibleCap, "caps"),
    (Source::Budget, "time"),
    (Source::WaitChannel, "waits"),
    (Source::Counters, "counted"),
    (Source::Ceiling, "ceiling"),
];

/// Renders rows of a run with all that is known about them, one block each.
pub fn why(run: &Run, rows: &[usize], style: &Style) -> String {
    let blocks = rows.iter().map(|row| block(*row, run, style));
    style.finish(blocks.collect::<Vec<_>>().join("\n\n"))
}

fn block(row: usize, run: &Run, style: &Style) -> String {
    let phase = &run.phases[row];
    let name = style.foreign(&format!("{} {}", phase.name, phase.label));
    let mut lines = vec![format!("{:>2} {} · {}", row + 1, paint(BOLD, &name), slug::from_phase(phase))];
    let mut line = |name: &str, text: Option<String>| {
        lines.extend(text.filter(|text| !text.is_empty()).map(|text| field(name, &with_units(&text), style)));
    };
    let wanted = percentiles::in_files(run);
    line("measured", Some(missing_reason(phase).unwrap_or_else(|| figures(phase, &wanted))));
    line("limit", limit(phase));
    let verdict: Vec<_> = phase.judged.verdict.iter().collect();
    for (source, name) in SOURCES {
        line(name, wording::evidence(&verdict, source));
    }
    line("place", Some(places_text(&phase.seen.places)));
    line("by place", phase.seen.latency_by_place.as_ref().map(latency_by_place));
    line("link", link(phase, &run.environment.target));
    let table = layer_table(phase, &run.environment.target, style);
    line("requests", wording::layer_path(phase).map(|path| path.text).filter(|_| table.is_empty()));
    line("steps", wording::steps(phase));
    for operation in operations(phase).iter().filter(|operation| operation.verdict.is_none()) {
        line(&operation.name(), Some(percentile_list(operation.latencies(&wanted), &wanted)));
    }
    for verdict in &verdict {
        for (operation, told) in verdict.operations.iter().zip(wording::operations(&verdict.operations)) {
            line(&printable(&operation.operation), Some(told));
        }
    }
    line("next", wording::next_steps(&verdict));
    lines.extend(table);
    lines.extend(remarks(std::slice::from_ref(phase)).iter().map(|told| paragraph(told, style)));
    lines.join("\n")
}

/// The limiter and its confidence; for a mix, also its parts with their shares.
fn limit(phase: &PhaseRecord) -> Option<String> {
    let words = limiter::words(phase)?;
    let confidence_text = limiter::confidence_text(phase)
        .map_or(String::new(), |confidence_text| format!(", {confidence_text}"));
    let verdict: Vec<_> = phase.judged.verdict.iter().collect();
    let shares = Some(wording::ranking(&verdict)).filter(|shares| shares.contains(','));
    Some(format!("{words}{confidence_text}{}", shares.map_or(String::new(), |shares| format!(" ({shares})"))))
}

/// Names of the columns after that of the layer.
const COLUMNS: [&str; 7] = ["MB/s", "of bytes", "requests/s", "size", "in flight", "each took", "alone"];

/// Returns the cells of those columns. A cell is empty if the layer does not count it.
fn cells(row: &LayerRow) -> [String; COLUMNS.len()] {
    let number = |value: Option<f64>| value.and_then(amount).unwrap_or_default();
    let time = |ns: Option<f64>| ns.map_or(String::new(), |ns| numbers::latency(ns as u64));
    [
        number(row.bytes_per_second.map(|bytes| bytes / 1e6)),
        row.bytes_share.map_or(String::new(), percent),
        number(row.requests_per_second),
        row.request_bytes.map_or(String::new(), |bytes| size::binary(bytes as u64)),
        row.in_flight.map_or(String::new(), |count| format!("{count:.1}")),
        time(row.request_ns),
        time(row.alone_ns),
    ]
}

/// Returns the table of layers, without the columns that are empty; no lines where no layer counts.
fn layer_table(phase: &PhaseRecord, target: &Target, style: &Style) -> Vec<String> {
    let rows = layers::rows(phase, target);
    if rows.is_empty() {
        return Vec::new();
    }
    let mut table = vec![("layers".to_owned(), COLUMNS.map(String::from), "")];
    table.extend(rows.iter().map(|row| {
        (format!("{:1$}{2}", "", row.depth, style.foreign(&row.name)), cells(row), row.note.as_str())
    }));
    let width = |text: &String| display_width(text);
    let names = table.iter().map(|(name, ..)| width(name)).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS.len())
        .map(|at| {
            let is_empty = table[1..].iter().all(|(_, cells, _)| cells[at].is_empty());
            let widest = table.iter().map(|(_, cells, _)| width(&cells[at])).max().unwrap_or(0);
            if is_empty { None } else { Some(widest + 2) }
        })
        .collect();
    let line = |(name, cells, note): (String, [String; COLUMNS.len()], &str)| {
        let cells = cells.iter().zip(&widths).filter_map(|(cell, width)| Some((cell, (*width)?)));
        let cells: String = cells.map(|(cell, width)| format!("{cell:>width$}")).collect();
        format!("  {name:names$}{}  {note}", cells.trim_end()).trim_end().to_owned()
    };
    table.into_iter().map(line).collect()
}

/// Returns the share of a link that the rate of a data test takes: "79 % of what PCIe 3.0 x4 carries (3.94 GB/s)". The
/// link is that of the only disk, or the network.
pub(crate) fn link(phase: &PhaseRecord, target: &Target) -> Option<String> {
    let rate = phase.figures.rate.bytes_per_second?;
    let mut links = target.device_stack.iter().filter_map(|device| device.link.as_ref());
    let network = phase.seen.system.as_ref().and_then(|system| system.network.as_ref());
    let network = network.filter(|_| target.device_stack.is_empty());
    let (name, carries) = match (links.next(), links.next()) {
        (Some(link), None) => (printable(&link.name), link.bytes_per_second as f64),
        // The share of each of several disks is not known here.
        (Some(_), Some(_)) => return None,
        (None, _) => {
            // Experiments that found the line full know better than the interface.
            let network = network.filter(|network| network.line_bytes_per_second.is_none())?;
            (printable(&network.interface), network.speed_bits_per_second? as f64 / 8.0)
        }
    };
    Some(format!(
        "{} of the bandwidth of {name} ({}/s)",
        percent(rate / carries),
        size::decimal(carries as u64)
    ))
}

/// "1,223 MB/s, 1,166 operations/s ± 7 %; p50 6.91 ms, p99 12.8 ms, p99.9 20.1 ms".
fn figures(phase: &PhaseRecord, wanted: &[Percentile]) -> String {
    let rate = headline(phase);
    let operations =
        phase.figures.rate.ops_per_second.and_then(amount).map(|rate| format!("{rate} operations/s"));
    let mut rates: Vec<_> = rate.into_iter().collect();
    rates.extend(operations.filter(|_| rates.first().is_some_and(|rate| rate.contains("MB/s"))));
    let interval = Some(interval_cell(phase)).filter(|cell| cell != MISSING);
    let interval = interval.map_or(String::new(), |cell| format!(" ± {}", cell.replace('%', " %")));
    let latencies = percentile_list(latency_cells(phase, wanted), wanted);
    let latencies = if latencies.is_empty() { latencies } else { format!("; {latencies}") };
    format!("{}{interval}{latencies}", rates.join(", "))
}

/// "p50 6.91 ms, p99 12.8 ms, p99.9 20.1 ms", without those that are not known.
fn percentile_list(cells: Vec<String>, wanted: &[Percentile]) -> String {
    let known = cells.into_iter().zip(wanted).filter(|(cell, _)| cell != MISSING);
    known.map(|(cell, wanted)| format!("{} {cell}", wanted.name())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::why;
    use crate::sample;

    #[test]
    fn why_report_snapshot() {
        let run = sample::run();
        let rows: Vec<_> = (0..run.phases.len()).collect();
        insta::assert_snapshot!(sample::plain(&why(&run, &rows, &sample::WIDE)));
    }
}
