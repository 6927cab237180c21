//! A card for each test, with everything seen of it.

use askama::Template;
use model::run::PhaseRecord;
use model::target::Target;
use model::{Percentile, Run};

use super::evidence::evidence;
use super::test::{Chip, Test, chip, trust_word};
use super::unit::Unit;
use super::{
    Figure, Markup, ceiling_notes, heat, latency, layers, rendered, results, rounds, timeline, zones,
};
use crate::operations::{Operation, operations};
use crate::text::{Kind, interval_cell, link, missing_reason, operation_cell};
use crate::{percentiles, printable};

/// Most repetitions that a card lists.
const REPETITIONS_MAX: usize = 40;

#[derive(Template)]
#[template(path = "cards.html", whitespace = "minimize")]
struct Cards {
    /// Names of the percentiles of operations.
    percentiles: Vec<String>,
    cards: Vec<Card>,
}

struct Card {
    anchor: String,
    name: String,
    /// The headline; `missing` says why there is none.
    rate: Option<String>,
    interval: Option<String>,
    missing: Option<String>,
    chip: Option<Chip>,
    trust: Option<Chip>,
    /// "3 repetitions, …"
    repetitions: Option<String>,
    /// Number of each repetition with its rate, or with the reason why it has none.
    each: Vec<(u32, String)>,
    spec: String,
    engine: String,
    /// True if the operations are calls on data, which have MB/s in place of a share of the time and a limiter.
    is_data: bool,
    /// Operations or calls below the row.
    operations: Vec<Row>,
    figures: Vec<Figure>,
    evidence: Vec<(&'static str, String)>,
}

/// An operation of a mix or a replay, or a call.
struct Row {
    name: String,
    time: String,
    megabytes: String,
    rate: String,
    /// The percentiles with their names.
    latencies: Vec<(String, String)>,
    limiter: String,
}

fn operation(of: Operation<'_>, wanted: &[Percentile]) -> Row {
    Row {
        name: of.name(),
        time: of.time(),
        megabytes: of.megabytes(),
        rate: of.rate(),
        latencies: wanted.iter().map(|wanted| wanted.name()).zip(of.latencies(wanted)).collect(),
        limiter: of.verdict.map_or(String::new(), |verdict| operation_cell(verdict, usize::MAX)),
    }
}

/// The section; `None` for a run without tests.
pub(super) fn section(run: &Run, tests: &[Test<'_>]) -> Option<Markup> {
    let wanted = percentiles::in_files(run);
    let cards = tests.iter().map(|test| card(test, &run.environment.target, &wanted)).collect();
    let percentiles = wanted.iter().map(|wanted| wanted.name()).collect();
    (!tests.is_empty()).then(|| rendered(&Cards { percentiles, cards }))
}

fn card(test: &Test<'_>, target: &Target, wanted: &[Percentile]) -> Card {
    let phase = test.phase;
    let unit = Unit::from_phase(phase);
    let missing = missing_reason(phase);
    let rate = unit.headline(phase).filter(|_| missing.is_none()).map(|rate| unit.format_rate(rate));
    let known = |interval: String| (interval != crate::numbers::MISSING).then_some(interval);
    let each = |phase: &PhaseRecord| {
        let rate = unit.headline(phase).map(|rate| unit.format_rate(rate));
        (phase.repetition, missing_reason(phase).or(rate).unwrap_or_default())
    };
    // Figures flow into two columns: down the first, then down the second.
    let figures = [
        zones::figure(phase),
        rounds::figure(phase),
        timeline::figure(phase, false),
        latency::figure(phase),
        ceiling_notes::limits(phase),
        ceiling_notes::budget(phase),
        layers::bytes(phase, target),
        layers::in_flight(phase, target),
        heat::figure(phase),
    ];
    let features = phase.engine.features.join(", ");
    let engine = if features.is_empty() {
        phase.engine.name.clone()
    } else {
        format!("{}, {features}", phase.engine.name)
    };
    let link = link(phase, target).map(|share| ("link", share));
    let facts = evidence(phase).into_iter().chain(link);
    Card {
        anchor: test.anchor.clone(),
        name: test.name(),
        interval: known(interval_cell(phase)).filter(|_| rate.is_some()),
        rate,
        missing,
        chip: chip(phase),
        trust: trust_word(phase),
        repetitions: results::repetitions(test),
        each: if test.all.len() > 1 {
            test.all.iter().take(REPETITIONS_MAX).map(|(_, phase)| each(phase)).collect()
        } else {
            Vec::new()
        },
        spec: printable(&phase.spec),
        engine: printable(&engine),
        is_data: Kind::from_phase(phase) == Kind::Data,
        operations: operations(phase).into_iter().map(|of| operation(of, wanted)).collect(),
        figures: figures.into_iter().flatten().collect(),
        evidence: facts.map(|(name, fact)| (name, printable(&fact))).collect(),
    }
}
