//! Writers that the kernel holds back until dirty pages are written.

use model::Limiter;
use model::advice::Advice;
use model::figure::{BytesPerSecond, MemoryBytes, WaitClass};
use model::observation::Observation;
use model::run::Verdict;

use super::evidence::seen;
use super::{stream, throttle};
use crate::values::reading::Reading;

/// Share of the samples of sleeping threads that found them held back.
const HELD_BACK_SHARE_MIN: f64 = 0.5;

/// Writers held back for dirty pages. The limit behind it is the rate at which the device takes the pages.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let held = reading.waits(WaitClass::Dirty);
    let budget = &reading.budget;
    // The blocked time must exceed every other kind: writers also copy pages, on a CPU.
    let is_most = budget.blocked > reading.on_cpu() && budget.blocked > budget.run_queue;
    if !is_most || held <= HELD_BACK_SHARE_MIN {
        return None;
    }
    // A limit that the pages reach on their way is what holds them back.
    if let Some(found) = throttle::readable_limit(reading) {
        return Some(found);
    }
    // The pages of a server's file system leave over the line.
    if let Some(full) = stream::writeback_fills_line(reading) {
        return Some(full);
    }
    let record = reading.input.record;
    let seconds = reading.input.seconds().max(1e-9);
    let drained = record.seen.device.as_ref().map(|device| (device, device.bytes_written as f64 / seconds));
    let drained = drained.filter(|(device, _)| device.bytes_written > 0).map(|(device, rate)| {
        let dirty =
            reading.input.frames().map(|frame| frame.dirty_bytes + frame.writeback_bytes).max().unwrap_or(0);
        Observation::DeviceDrained {
            device: device.name.as_str().into(),
            bytes_per_second: BytesPerSecond(rate),
            dirty_bytes: MemoryBytes(dirty),
        }
    });
    let evidence = seen![reading.time_spent(), reading.dominant_wait(&[WaitClass::Dirty]), drained];
    Some(
        Verdict::new(Limiter::DirtyThrottling, held * reading.budget.blocked, evidence)
            .advise([Advice::SeeDevice {}]),
    )
}
