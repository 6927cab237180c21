//! Templates: sentences with the names of figures in braces. `{rounds:round}` is a number of rounds: "1 round".

use model::figure::{Figure, TimePart, TimeShare, WaitClass};
use model::numbers::{MISSING, amount, latency, megabytes, percent, thousands};
use model::printable::printable;
use model::run::MaintenanceRecord;
use model::size;

/// Fills a template with its figures. For several sets, each figure becomes the range from the lowest to the highest.
pub(crate) fn filled(template: &str, all: &[Vec<(&'static str, Figure<'_>)>]) -> String {
    let mut text = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, from_name)) = rest.split_once('{') {
        text.push_str(before);
        let Some((name, after)) = from_name.split_once('}') else { break };
        let (name, noun) = name.split_once(':').unwrap_or((name, ""));
        let of_name = all.iter().flat_map(|figures| figures.iter().find(|(known, _)| *known == name));
        let of_name: Vec<_> = of_name.map(|(_, figure)| figure).collect();
        debug_assert!(!of_name.is_empty(), "{template} has no figure {name}");
        let figures = range(&of_name);
        text.push_str(&figures);
        if !noun.is_empty() {
            text.push_str(&format!(" {noun}{}", if figures == "1" { "" } else { "s" }));
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Formats a range of figures: "31 %", "31 to 40 %", "900 µs to 1.2 ms".
fn range(figures: &[&Figure<'_>]) -> String {
    let by_size = |a: &&&Figure<'_>, b: &&&Figure<'_>| value(a).total_cmp(&value(b));
    if let Some(Figure::Time(first)) = figures.first() {
        return time(first, figures);
    }
    let ends = figures.iter().min_by(by_size).zip(figures.iter().max_by(by_size));
    let Some((low, high)) = ends.map(|(low, high)| (figure_text(low), figure_text(high))) else {
        return MISSING.into();
    };
    between(&low, &high)
}

/// Joins two formatted figures into a range: "31 %", "31 to 40 %", "900 µs to 1.2 ms".
fn between(low: &str, high: &str) -> String {
    if low == high {
        return low.to_owned();
    }
    // A unit that both have appears once.
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Formats uses of time: "97 % of their time asleep, 2 % in the kernel". All figures have the same parts.
fn time(first: &[TimeShare], figures: &[&Figure<'_>]) -> String {
    let parts = first.iter().enumerate().map(|(index, part)| {
        let shares = figures.iter().filter_map(|figure| match figure {
            Figure::Time(parts) => parts.get(index).map(|part| part.share),
            _ => None,
        });
        let of = if index == 0 { " of their time" } else { "" };
        format!("{}{of} {}", self::shares(shares), time_part(part.part))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Formats a range of shares: "31 %", "31 to 40 %".
pub(crate) fn shares(shares: impl Iterator<Item = f64>) -> String {
    let ends = shares
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), share| (low.min(share), high.max(share)));
    between(&percent(ends.0), &percent(ends.1))
}

fn time_part(part: TimePart) -> &'static str {
    match part {
        TimePart::Blocked => "asleep",
        TimePart::Kernel => "in the kernel",
        TimePart::User => "in user space",
        TimePart::RunQueue => "waiting for a CPU",
        TimePart::Quota => "throttled by a quota",
        TimePart::Steal => "taken by the hypervisor",
    }
}

fn waited_for(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Device => "the device",
        WaitClass::Page => "pages",
        WaitClass::Sync => "a commit or flush",
        WaitClass::Lock => "a lock",
        WaitClass::Dirty => "dirty pages to be written",
        WaitClass::Reclaim => "free memory",
        WaitClass::Queue => "a queue slot",
        WaitClass::Paced => "the block layer's throttling",
        WaitClass::Remote => "the server",
        WaitClass::Ring => "completions",
        WaitClass::Time => "a timer",
    }
}

/// Returns the number in a figure, for comparison with its like; 0 for a figure without a number.
fn value(figure: &Figure<'_>) -> f64 {
    match figure {
        Figure::Share(value)
        | Figure::Ratio(value)
        | Figure::Mean(value)
        | Figure::Seconds(value)
        | Figure::OpsPerSecond(value)
        | Figure::BytesPerSecond(value)
        | Figure::Celsius(value) => *value,
        Figure::Count(value)
        | Figure::LatencyNs(value)
        | Figure::Bytes(value)
        | Figure::MemoryBytes(value) => *value as f64,
        _ => 0.0,
    }
}

/// Returns the part of a figure that identifies its subject. Figures that differ in it have different subjects.
pub(crate) fn name_text(figure: &Figure<'_>) -> String {
    match figure {
        Figure::Maintenance(work) => {
            let texts = work.iter().map(|maintenance| maintenance_text(maintenance, None));
            texts.collect::<Vec<_>>().join("; ")
        }
        Figure::Time(parts) => parts.iter().map(|part| time_part(part.part)).collect::<Vec<_>>().join(", "),
        Figure::Helpers(helpers) => {
            helpers.iter().map(|helper| helper.name.as_str()).collect::<Vec<_>>().join(", ")
        }
        figure => figure_text(figure),
    }
}

/// Formats a figure with its unit.
pub(crate) fn figure_text(figure: &Figure<'_>) -> String {
    let or_missing = |text: Option<String>| text.unwrap_or_else(|| MISSING.into());
    match figure {
        Figure::Share(share) => percent(*share),
        // Near 1, the digits behind the point matter.
        Figure::Ratio(ratio) if (ratio - 1.0).abs() < 0.1 => format!("{ratio:.3}"),
        Figure::Ratio(ratio) if ratio.is_finite() => format!("{ratio:.2}"),
        Figure::Mean(mean) if mean.is_finite() => format!("{mean:.1}"),
        Figure::Count(count) => thousands(*count),
        Figure::LatencyNs(ns) => latency(*ns),
        Figure::Seconds(seconds) if seconds.is_finite() => format!("{seconds:.1} s"),
        Figure::Bytes(bytes) => size::decimal(*bytes),
        Figure::MemoryBytes(bytes) => size::binary(*bytes),
        Figure::OpsPerSecond(rate) => or_missing(amount(*rate).map(|rate| format!("{rate}/s"))),
        Figure::BytesPerSecond(rate) => or_missing(megabytes(*rate)),
        Figure::Celsius(celsius) if celsius.is_finite() => format!("{celsius:.0} °C"),
        Figure::Ratio(_) | Figure::Mean(_) | Figure::Seconds(_) | Figure::Celsius(_) => MISSING.into(),
        Figure::Name(name) => printable(name),
        Figure::Modes(modes) => {
            let text =
                modes.iter().map(|mode| format!("{} around {}", percent(mode.share), latency(mode.at_ns)));
            text.collect::<Vec<_>>().join(", ")
        }
        Figure::Maintenance(work) => {
            let text = work.iter().map(|maintenance| maintenance_text(maintenance, maintenance.progress));
            text.collect::<Vec<_>>().join("; ")
        }
        Figure::Time(parts) => time(parts, &[figure]),
        Figure::Wait(class) => waited_for(*class).to_owned(),
        Figure::Tried(experiment) => experiment.word().to_owned(),
        Figure::Change(change) => printable(change),
        Figure::Helpers(helpers) => {
            let text = helpers
                .iter()
                .map(|helper| format!("{} ({})", printable(&helper.name), percent(helper.cpu_share)));
            text.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Formats maintenance: "md0: resync, 31 % done".
fn maintenance_text(maintenance: &MaintenanceRecord, progress: Option<f64>) -> String {
    let device = maintenance.device.as_ref().map_or(String::new(), |device| format!("{device}: "));
    let done = progress.map_or(String::new(), |share| format!(", {} done", percent(share)));
    printable(&format!("{device}{}{done}", maintenance.work))
}
