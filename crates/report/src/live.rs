//! The three lines of progress while a test runs.

use crate::numbers::{MISSING, amount, clock, duration, latency, megabytes, percent};
use crate::printable;
use crate::spark::sparkline;
use crate::text::{Kind, RED, Style, display_width, fit, paint};

/// State of the running test. Rates are those of the last moments, not of the whole test.
#[derive(Debug, Clone)]
pub struct Live<'a> {
    /// Table that its row will be part of.
    pub kind: Kind,
    /// Its verb.
    pub name: &'a str,
    /// Its short description: "4K rnd q32t4".
    pub label: &'a str,
    /// Number of the test within the run, from 1.
    pub index: usize,
    /// Tests of the run, repetitions included.
    pub of: usize,
    /// Nanoseconds since the test began.
    pub elapsed_ns: u64,
    /// Nanoseconds after which the test will end; `None` if time does not end it.
    pub planned_ns: Option<u64>,
    /// Estimated nanoseconds until the end of the whole run, if known.
    pub left_ns: Option<u64>,
    /// Bytes per second; `None` for tests that move no bytes.
    pub bytes_per_second: Option<f64>,
    /// Operations per second.
    pub ops_per_second: f64,
    /// 99th percentile of latency in nanoseconds; `None` until it is known.
    pub p99_ns: Option<u64>,
    /// Nanoseconds since anything moved.
    pub stalled_ns: u64,
    /// Start of the steady part in nanoseconds since the test began, and half-width of the rate's 95 % interval as a
    /// share of it. Both are missing while the rate is not steady.
    pub steady: Option<(u64, f64)>,
    /// Rates for the sparkline, in equal steps of time, oldest first, in any unit.
    pub history: &'a [f64],
    /// Activity of the mounted device now; `None` if there is none.
    pub device: Option<LiveDevice<'a>>,
    /// CPU time used now; `None` if it is not known.
    pub cpu: Option<LiveCpu>,
    /// The clients that make the test together; `None` if one process makes it.
    pub clients: Option<LiveClients<'a>>,
    /// The test after this one: "write 4K rnd".
    pub next: Option<&'a str>,
}

/// Activity of a device now.
#[derive(Debug, Clone, Copy)]
pub struct LiveDevice<'a> {
    /// Its name.
    pub name: &'a str,
    /// Share of the time in which the device was busy, 0 to 1.
    pub busy_share: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
}

/// Clients that make a test together.
#[derive(Debug, Clone, Copy)]
pub struct LiveClients<'a> {
    /// Name of the slowest, and its operations per second.
    pub slowest: Option<(&'a str, f64)>,
    /// Names of the clients that are lost.
    pub lost: &'a [&'a str],
}

/// CPU time used now, in CPUs.
#[derive(Debug, Clone, Copy)]
pub struct LiveCpu {
    /// CPU time of programs and of the kernel.
    pub cores: f64,
    /// CPU time of the kernel alone.
    pub kernel_cores: f64,
}

/// Time without progress after which the lines show it.
const STALLED_MIN_NS: u64 = 10_000_000_000;
/// Columns of the operations.
const OPS_WIDTH: usize = 9;
/// Indent of the second and third line, which begin under the label.
const INDENT: usize = 11;
/// Maximum number of time steps in the sparkline.
const SPARKS_MAX: usize = 30;

/// Returns the lines: rates, their course with the remaining time, and busy resources. Each fits the terminal, so that
/// none wraps: what has no room is left out as a whole, and no number loses its unit.
pub fn lines(live: &Live, style: &Style) -> [String; 3] {
    // The last column stays free: some terminals wrap as soon as it is used.
    let width = style.width.saturating_sub(1).max(1);
    let [rates, rate_history, busy] =
        [rates(live, width, style), rate_history(live, width, style), busy(live, width, style)]
            .map(|line| style.finish(fit(line.trim_end(), width)));
    // Colour takes no room, so it comes last.
    let busy = match lost_clients(live) {
        Some(lost_clients) => busy.replacen(&lost_clients, &paint(RED, &lost_clients), 1),
        None => busy,
    };
    [rates, rate_history, busy]
}

/// Returns one line for a log: the test, its time, its rate so far, and the remaining time of the run.
pub fn log_line(live: &Live, style: &Style) -> String {
    let Parts { subject, time, bytes, ops, p99 } = Parts::new(live);
    let parts = [Some(subject), Some(time), Some(bytes), Some(ops), p99, stalled(live), lost_clients(live)];
    let parts = parts.into_iter().flatten().chain([place(live)]).filter(|part| !part.is_empty());
    style.finish(parts.collect::<Vec<_>>().join(" · "))
}

/// Returns the line about what is being prepared.
pub fn preparation(what: &str, style: &Style) -> String {
    let line = format!("  {}", printable(what));
    style.finish(fit(&style.finish(line), style.width.saturating_sub(1).max(1)))
}

fn lost_clients(live: &Live) -> Option<String> {
    let lost = live.clients?.lost;
    (!lost.is_empty()).then(|| format!("lost: {}", printable(&lost.join(", "))))
}

fn rates(live: &Live, width: usize, style: &Style) -> String {
    let subject = match (live.kind, live.label.split_once(' ')) {
        (Kind::Data, Some((pattern, rest))) => format!("{pattern:7} {rest}"),
        _ => live.label.to_owned(),
    };
    let p99 = live.p99_ns.map_or_else(|| MISSING.into(), latency);
    let (name, subject) = (printable(live.name), printable(&subject));
    let parts = Parts::new(live);
    let Parts { time, bytes, ops, .. } = &parts;
    // Widths are fixed, because only numbers that do not move can be read.
    let ops_width = OPS_WIDTH + 1 + ops.split_once(' ').map_or(0, |(_, unit)| display_width(unit));
    let columns = format!("  {name:<8} {subject:<13}  {time:<13} {bytes:>11} {ops:>ops_width$}");
    // Without the latency, the others stay where they are.
    for line in [format!("{columns}  p99 {p99:>7}"), columns].map(|line| style.finish(line)) {
        if display_width(&line) <= width {
            return line;
        }
    }
    let Parts { subject, time, bytes, ops, .. } = parts;
    as_many(&[subject, ops, time, bytes].map(|part| style.finish(part)), 2, "  ", width)
}

/// Parts of the first line.
struct Parts {
    subject: String,
    time: String,
    /// Empty for tests on files, which show operations but no bytes, as in their table.
    bytes: String,
    ops: String,
    p99: Option<String>,
}

impl Parts {
    fn new(live: &Live) -> Self {
        let unit = match live.kind {
            Kind::Data => "IOPS",
            Kind::Files => "ops/s",
        };
        let bytes = live.bytes_per_second.filter(|_| live.kind == Kind::Data).and_then(megabytes);
        Self {
            subject: format!("{} {}", printable(live.name), printable(live.label)),
            time: match live.planned_ns {
                Some(planned_ns) => format!("{} / {}", clock(live.elapsed_ns), clock(planned_ns)),
                None => clock(live.elapsed_ns),
            },
            bytes: bytes.unwrap_or_default(),
            ops: format!("{} {unit}", amount(live.ops_per_second).unwrap_or_else(|| MISSING.into())),
            p99: live.p99_ns.map(|ns| format!("p99 {}", latency(ns))),
        }
    }
}

/// Joins parts after an indent, as many as fit. The first is always there.
fn as_many(parts: &[String], indent: usize, separator: &str, width: usize) -> String {
    let mut line = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let longer = if line.is_empty() { part.clone() } else { format!("{line}{separator}{part}") };
        if line.is_empty() || indent + display_width(&longer) <= width {
            line = longer;
        }
    }
    indented(&line, indent, width)
}

/// Indents a line; a narrow terminal has no room for all of it.
fn indented(line: &str, indent: usize, width: usize) -> String {
    let indent = indent.min(width.saturating_sub(display_width(line)));
    format!("{:indent$}{line}", "")
}

/// The place of the test in the run, and the remaining time.
fn place(live: &Live) -> String {
    let place = format!("test {} of {}", live.index, live.of);
    match live.left_ns {
        Some(left_ns) => format!("{place}, about {} left", duration(left_ns / 1_000_000_000 * 1_000_000_000)),
        None => place,
    }
}

fn stalled(live: &Live) -> Option<String> {
    (live.stalled_ns >= STALLED_MIN_NS).then(|| {
        let stalled_ns = live.stalled_ns / 1_000_000_000 * 1_000_000_000;
        format!("no I/O completed for {}", duration(stalled_ns))
    })
}

fn rate_history(live: &Live, width: usize, style: &Style) -> String {
    let (place, stalled) = (style.finish(place(live)), stalled(live));
    let steady = live
        .steady
        .map(|(since_ns, half_width)| format!("steady since {}, ± {}", clock(since_ns), percent(half_width)));
    let sparks = (style.has_unicode && !live.history.is_empty()).then(|| {
        let recent = &live.history[live.history.len().saturating_sub(SPARKS_MAX)..];
        sparkline(recent, 0.0, ' ', style)
    });
    // In the order of the screen. The first that has no room is the first in the list.
    let mut parts: Vec<_> =
        [sparks, steady, stalled].into_iter().flatten().map(|part| style.finish(part)).collect();
    parts.push(place);
    let length =
        |parts: &[String]| INDENT + parts.iter().map(|part| display_width(part) + 3).sum::<usize>() - 3;
    while parts.len() > 1 && length(&parts) > width {
        parts.remove(0);
    }
    indented(&parts.join("   "), INDENT, width)
}

/// The line of busy resources, with the next test if it still fits.
fn busy(live: &Live, width: usize, style: &Style) -> String {
    let device = live.device.map(|device| {
        let queue = amount(device.in_flight.round()).unwrap_or_else(|| MISSING.into());
        format!("{} {} busy, {queue} in flight", printable(device.name), percent(device.busy_share))
    });
    let cpu = live.cpu.map(|cpu| format!("CPU {:.1} cores ({:.1} kernel)", cpu.cores, cpu.kernel_cores));
    let next = live.next.map(|next| format!("next: {}", printable(next)));
    let slowest = live.clients.and_then(|clients| clients.slowest).map(|(name, per_second)| {
        let rate = amount(per_second).unwrap_or_else(|| MISSING.into());
        format!("slowest: {} {rate}/s", printable(name))
    });
    let parts =
        [lost_clients(live), device, cpu, slowest, next].map(|part| style.finish(part.unwrap_or_default()));
    as_many(&parts, INDENT, &style.finish(" · ".into()), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use proptest::prelude::*;

    fn live() -> Live<'static> {
        Live {
            kind: Kind::Data,
            name: "read",
            label: "4K rnd q32t4",
            index: 4,
            of: 11,
            elapsed_ns: 12_300_000_000,
            planned_ns: Some(20_000_000_000),
            left_ns: Some(81_400_000_000),
            bytes_per_second: Some(3.958e9),
            ops_per_second: 966_310.0,
            p99_ns: Some(511_000),
            history: &[0.0, 1.1, 2.0, 3.1, 3.9, 3.9, 3.2, 3.8, 3.7, 3.9, 3.9, 3.8],
            device: Some(LiveDevice { name: "nvme0n1", busy_share: 1.0, in_flight: 251.4 }),
            cpu: Some(LiveCpu { cores: 6.2, kernel_cores: 5.1 }),
            steady: Some((4_000_000_000, 0.018)),
            stalled_ns: 0,
            clients: None,
            next: Some("write 4K rnd"),
        }
    }

    #[test]
    fn stall_is_shown_after_ten_seconds_without_io() {
        for (stalled_ns, text) in [(9_900_000_000, None), (12_300_000_000, Some("no I/O completed for 12 s"))]
        {
            let [_, rate_history, _] = lines(&Live { stalled_ns, ..live() }, &sample::WIDE);
            assert_eq!(rate_history.contains("no I/O completed"), text.is_some(), "{rate_history}");
            assert!(text.is_none_or(|text| rate_history.contains(text)), "{rate_history}");
        }
    }

    #[test]
    fn live_lines_name_slowest_and_lost_clients() {
        let clients = Some(LiveClients { slowest: Some(("bob", 12_345.6)), lost: &["ada", "eve"] });
        let live = Live { device: None, cpu: None, clients, ..live() };
        let [_, _, busy] = lines(&live, &sample::WIDE);
        let plain = anstream::adapter::strip_str(&busy).to_string();
        assert_eq!(plain.trim_start(), "lost: ada, eve · slowest: bob 12,346/s · next: write 4K rnd");
        assert!(busy.contains(&paint(RED, "lost: ada, eve")), "{busy:?}");
    }

    fn files() -> Live<'static> {
        Live {
            kind: Kind::Files,
            name: "create",
            label: "T4",
            planned_ns: None,
            left_ns: None,
            bytes_per_second: None,
            p99_ns: None,
            history: &[],
            device: None,
            steady: None,
            ..live()
        }
    }

    #[test]
    fn narrow_live_lines_keep_units_and_time_left() {
        for width in [40, 60, 80, 100] {
            let style = Style { width, ..sample::WIDE };
            let [rates, rate_history, _] = lines(&live(), &style);
            assert!(rates.contains("966,310 IOPS"), "{width}: {rates}");
            assert!(width < 60 || rates.contains("00:12 / 00:20"), "{width}: {rates}");
            assert!(!rates.contains("p99") || rates.ends_with(" µs"), "{width}: {rates}");
            assert!(rate_history.ends_with("test 4 of 11, about 1 min 21 s left"), "{width}: {rate_history}");
        }
        let wide = Live { label: "漢字漢字漢字漢字漢字", ..files() };
        let [rates, ..] = lines(&wide, &Style { width: 45, ..sample::WIDE });
        assert!(display_width(&rates) < 45, "{rates}");
    }

    #[test]
    fn live_lines_of_a_running_test() {
        insta::assert_snapshot!(lines(&live(), &sample::WIDE).join("\n"));
    }

    #[test]
    fn log_line_has_rate_and_time_left() {
        let line = |live: &Live| sample::plain(&log_line(live, &sample::WIDE));
        let clients = Some(LiveClients { slowest: None, lost: &["eve"] });
        let stalled = Live { stalled_ns: 12_000_000_000, clients, ..live() };
        insta::assert_snapshot!([line(&live()), line(&files()), line(&stalled)].join("\n"));
    }

    #[test]
    fn live_lines_in_ascii() {
        let text = lines(&live(), &sample::ASCII).join("\n");
        assert!(text.is_ascii());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn live_lines_omit_unknown_values() {
        insta::assert_snapshot!(lines(&files(), &sample::WIDE).join("\n"));
    }

    #[test]
    fn live_lines_before_the_first_rate() {
        let start = Live {
            history: &[0.0],
            ops_per_second: f64::NAN,
            elapsed_ns: 0,
            cpu: None,
            next: None,
            ..files()
        };
        insta::assert_snapshot!(lines(&start, &sample::WIDE).join("\n"));
    }

    proptest! {
        #[test]
        fn live_lines_never_exceed_terminal_width(
            width in 1usize..200,
            ops in any::<f64>(),
            bytes in proptest::option::of(any::<f64>()),
            history in proptest::collection::vec(any::<f64>(), 0..100),
            name in any::<String>(),
            has_unicode in any::<bool>(),
        ) {
            let device = Some(LiveDevice { name: &name, busy_share: ops, in_flight: ops });
            let live = Live { name: &name, ops_per_second: ops, bytes_per_second: bytes, history: &history, device, ..live() };
            for line in lines(&live, &Style { has_unicode, width }) {
                prop_assert!(display_width(&line) <= width);
                prop_assert!(has_unicode || line.is_ascii());
            }

        }
    }
}
