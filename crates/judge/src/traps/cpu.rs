//! Rates that the CPU sets, not the storage.

use model::numbers::percent;
use model::workload::Arrival;

use crate::{Case, Finding};

/// Threads that are on a CPU for so much of their time leave nothing to wait for.
const BUSY: f64 = 0.9;
/// A device that is idle for this share could do more.
const DEVICE_IDLE: f64 = 0.5;

/// Threads that computed or copied all the time, while the device waited.
pub(super) fn cpu_bound(case: &Case<'_>) -> Option<Finding> {
    // Who waits for the time of an operation, or polls for its end, is on a CPU too.
    let polls = case.data().is_some_and(|data| data.iopoll || data.arrival != Arrival::Closed);
    if !case.is_on_devices() || polls {
        return None;
    }
    let budget = case.record.budget.as_ref()?;
    let on_cpu = budget.user + budget.kernel;
    let device_busy = busy(case).filter(|busy| *busy < 1.0 - DEVICE_IDLE)?;
    // Byte by byte, this is what the row is about.
    let is_bytes = case.data().is_some_and(|data| data.verb.is_bytes());
    // A cache that answers is named by its own trap.
    let is_warm =
        super::files::metadata_cache(case).is_some() || super::cache::served_from_page_cache(case).is_some();
    (on_cpu > BUSY && !is_bytes && !is_warm && case.data().is_some()).then(|| {
        let threads = case.phase.workload.threads;
        let who = if threads == 1 { "its thread was".into() } else { format!("its {threads} threads were") };
        Finding::act(format!(
            "{who} on a CPU for {} of the time ({} in the kernel), while the device was {} busy. This is no limit of the storage. Try more threads, or :direct with more depth.",
            percent(on_cpu),
            percent(budget.kernel),
            percent(device_busy)
        ))
    })
}

/// Share of the time in which the mounted device was not idle.
fn busy(case: &Case<'_>) -> Option<f64> {
    let _ = case.device()?;
    let busy_ns: f64 = case.frames().filter_map(|frame| Some(frame.devices.first()?.busy_ns as f64)).sum();
    let all_ns = case.record.elapsed_ns as f64;
    (all_ns > 0.0).then(|| (busy_ns / all_ns).min(1.0))
}
