//! Writers that the kernel holds back until dirty pages are written.

use model::Limiter;
use model::numbers::megabytes;
use model::run::Evidence;
use model::size;

use super::{Found, budget_sentence};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Of the looks at sleeping threads, this share found them held back.
const HELD: f64 = 0.5;

/// Held back for dirty pages: behind it stands the rate at which the device takes them.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let held = reading.waits(Class::Dirty);
    let budget = &reading.budget;
    // More of the time than anything else takes: pages are also copied, on a CPU.
    let is_most = budget.blocked > reading.on_cpu() && budget.blocked > budget.run_queue;
    if !is_most || held <= HELD {
        return None;
    }
    let record = reading.input.record;
    let seconds = reading.input.seconds().max(1e-9);
    let drained = record.device.as_ref().map(|device| (device, device.bytes_written as f64 / seconds));
    let counters = drained.filter(|(device, _)| device.bytes_written > 0).map(|(device, rate)| {
        let dirty =
            reading.input.frames().map(|frame| frame.dirty_bytes + frame.writeback_bytes).max().unwrap_or(0);
        format!(
            "{} wrote {} meanwhile; up to {} were dirty or under way",
            device.name,
            megabytes(rate).unwrap_or_default(),
            size::binary(dirty)
        )
    });
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Dirty]),
        counters,
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::DirtyThrottling, held * reading.budget.blocked, evidence).advice(
            "The page cache is as full as it may be, and the device empties it. Its own speed shows with :direct; vm.dirty_bytes sets how much may wait.",
        ),
    )
}
