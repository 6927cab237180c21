//! Commits of the journal, and flushes.

use model::Limiter;
use model::numbers::latency;
use model::run::Evidence;
use model::workload::{DataVerb, SyncMode, Work};

use super::{BLOCKED, Found, budget_sentence};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Of the looks at sleeping threads, this share found them in a sync.
const IN_SYNC: f64 = 0.3;
/// Of the time of an operation, the sync takes about half: then both it and the write before hold it back.
const HALF: std::ops::Range<f64> = 0.35..0.65;
/// Flushes for each operation that say the same.
const FLUSHES: f64 = 0.5;

/// Operations that are only done when they are durable.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let input = &reading.input;
    let syncs = match &input.phase.workload.work {
        Work::Data(data) => data.verb == DataVerb::Fsync || (data.writes() && data.sync == SyncMode::Each),
        Work::Files(files) => files.sync != SyncMode::None && files.verb.changes(),
    };
    if !syncs || reading.budget.blocked < BLOCKED || reading.is_remote {
        return None;
    }
    // What is synced waits for pages under writeback, for the journal and for the flush, in this order.
    let classes = [Class::Sync, Class::Page, Class::Device];
    let asleep: f64 = classes.iter().map(|class| reading.waits(*class)).sum();
    let flushes = input.flushes() / input.record.ops.max(1) as f64;
    if asleep <= IN_SYNC && flushes < FLUSHES {
        return None;
    }
    let step = input.record.steps.iter().find(|step| step.name == "fdatasync" || step.name == "fsync");
    let whole_ns = input.record.latency_ns.as_ref().map_or(0, |whole| whole.mean).max(1);
    let step_ns = step.and_then(|step| step.latency_ns.as_ref()).map(|of_step| of_step.mean);
    // Where most of an operation is the write before, that is what holds it back.
    let of_whole = step_ns.map_or(1.0, |step_ns| step_ns as f64 / whole_ns as f64);
    if of_whole < HALF.start {
        return None;
    }
    let each = step_ns.map(|step_ns| {
        format!("; the sync took {} of the {} of an operation", latency(step_ns), latency(whole_ns))
    });
    let counters = (flushes >= FLUSHES)
        .then(|| format!("the device flushed {flushes:.1} times an operation{}", each.unwrap_or_default()));
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&classes),
        counters,
        ..Evidence::default()
    };
    if HALF.contains(&of_whole) {
        let blocked = reading.budget.blocked;
        let parts = [
            (Limiter::FsyncJournal, blocked * of_whole),
            (Limiter::DeviceLatency, blocked * (1.0 - of_whole)),
        ];
        return Some(
            Found::mixed(parts, evidence).advice("The write and the sync after it take about the same time."),
        );
    }
    Some(
        Found::new(Limiter::FsyncJournal, reading.budget.blocked, evidence).advice(
            "Each operation waits until it is durable. Group commit helps more threads (t4), and a drive with power-loss protection makes flushes free.",
        ),
    )
}
