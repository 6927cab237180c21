//! The clients of a run beside each other: a small chart for each test.

use model::numbers::rank;
use model::run::{ClientShare, PhaseRecord};

use super::sweeps::Figures;
use super::test::Test;
use super::unit::Unit;
use super::{Figure, Markup, rendered};
use crate::numbers::latency;
use crate::printable;
use draw::{Bar, bars};

/// Most clients of a chart. Of more, the slowest and the fastest are shown.
const CLIENTS_MAX: usize = 24;

/// The section; `None` for a run without clients.
pub(super) fn section(tests: &[Test<'_>]) -> Option<Markup> {
    let figures: Vec<_> = tests.iter().filter_map(figure).collect();
    (!figures.is_empty()).then(|| {
        rendered(&Figures {
            anchor: "clients",
            heading: "Clients",
            lead: "The rate of each client over its own measured time.",
            figures,
        })
    })
}

fn figure(test: &Test<'_>) -> Option<Figure> {
    let unit = Unit::from_phase(test.phase);
    let rate = |share: &ClientShare| Some(unit.rate_from_ops(test.phase, share.rate.ops_per_second?));
    let rates: Vec<_> = test.phase.hosts.iter().filter_map(|share| Some((share, rate(share)?))).collect();
    let most = rates.iter().map(|(_, rate)| *rate).reduce(f64::max).filter(|_| rates.len() > 1)?;
    let caption = caption(test.phase, unit, rates.len());
    let all: Vec<_> =
        clients_to_draw(rates).into_iter().map(|(share, rate)| bar(share, rate, unit)).collect();
    let name = test.name();
    let drawing = Markup(bars(&name, &caption, &all, most, false));
    Some(Figure { name, drawing, legend: Vec::new(), caption })
}

/// Returns the clients to draw, in their order: all, or of many those at both ends.
fn clients_to_draw(mut rates: Vec<(&ClientShare, f64)>) -> Vec<(&ClientShare, f64)> {
    if rates.len() > CLIENTS_MAX {
        rates.sort_by_cached_key(|(_, of)| rank(*of));
        rates.drain(CLIENTS_MAX / 2..rates.len() - CLIENTS_MAX / 2);
        rates.sort_by_cached_key(|(share, _)| u64::from(share.client));
    }
    rates
}

fn bar(share: &ClientShare, rate: f64, unit: Unit) -> Bar {
    let (name, value_text) = (printable(&share.name), unit.format_rate(rate));
    let p99 = share.latency_ns.as_ref().and_then(|of| of.p99).map(|ns| format!(", p99 {}", latency(ns)));
    let limiter = share.judged.verdict.as_ref().and_then(|verdict| verdict.limiter);
    let limiter = limiter.map_or(String::new(), |limiter| format!(", {}", limiter.title()));
    let title = format!("{name}: {value_text}{}{limiter}", p99.unwrap_or_default());
    Bar { name, value: rate, value_text, class: "s0", title }
}

fn caption(phase: &PhaseRecord, unit: Unit, count: usize) -> String {
    let totals = phase.figures.together.as_ref();
    let spread = totals.and_then(|totals| totals.spread);
    let spread =
        spread.map_or(String::new(), |spread| format!("; their rates vary by {:.1} %", spread * 100.0));
    let whole =
        unit.headline(phase).map_or(String::new(), |rate| format!("{} together", unit.format_rate(rate)));
    let part = if count > CLIENTS_MAX { format!(" ({CLIENTS_MAX} are shown)") } else { String::new() };
    format!("{count} clients{part}: {whole}{spread}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn sum(clients: usize) -> PhaseRecord {
        let mut sum = sample::phase("read:rnd4k:q32");
        for number in 0..clients {
            let mut share = sample::client(&format!("n{number:02}"), &sum);
            share.client = number as u32;
            share.rate.ops_per_second = Some(1000.0 + (number * 7 % 30) as f64);
            sum.hosts.push(share);
        }
        sum
    }

    #[test]
    fn client_bars_show_extremes_of_many_clients() {
        let page = |clients: usize| {
            let phases = [sum(clients)];
            section(&Test::from_run(&phases)).map_or(String::new(), |section| section.0)
        };
        assert!(page(0).is_empty() && page(1).is_empty(), "there is nothing to compare");
        let few = page(3);
        assert!(["n00", "n01", "n02", "3 clients: "].iter().all(|words| few.contains(words)), "{few}");
        let many = page(30);
        assert!(many.contains("30 clients (24 are shown)"), "{many}");
        // The slowest and the fastest are there, and one from the middle is not.
        assert!(many.contains("n00: 1,000 IOPS") && many.contains(": 1,029 IOPS"), "{many}");
        assert!(!many.contains(": 1,015 IOPS"), "{many}");
    }
}
