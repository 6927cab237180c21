//! Others on the same machine or host.

use model::disturbance::SHARE_MAX;
use model::numbers::percent;
use model::run::UpkeepRecord;

use crate::{Case, Finding, disturbance};

/// CPUs that are throttled no more often than this, all together, lose nothing that shows: laptops are now and then.
const THROTTLED_PER_SECOND: f64 = 1.0;

/// Bytes on the device that were not ours.
pub(super) fn foreign_io(case: &Case<'_>) -> Option<Finding> {
    let device = case.device()?;
    let share = disturbance::foreign_io(case).filter(|share| *share > SHARE_MAX)?;
    Some(Finding::suspect(format!(
        "{} of the bytes on {} were not ours. Find who else uses it, and run it again when it is quiet.",
        percent(share),
        device.name
    )))
}

/// CPU time that the hypervisor gave to others.
pub(super) fn steal(case: &Case<'_>) -> Option<Finding> {
    let steal = case.record.budget.as_ref()?.steal;
    (steal > SHARE_MAX).then(|| {
        Finding::suspect(format!(
            "the hypervisor took {} of the threads' time. Run it again when the host is quiet.",
            percent(steal)
        ))
    })
}

/// Drives or CPUs that slow down because they are hot.
pub(super) fn thermal(case: &Case<'_>) -> Option<Finding> {
    let conditions = case.record.conditions.as_ref()?;
    let hot = conditions.drives.iter().find_map(|drive| {
        let limit = drive.celsius_max?;
        (drive.celsius >= limit).then_some((drive, limit))
    });
    let evidence = match (hot, conditions.cpu_throttled) {
        (Some((drive, limit)), _) => format!(
            "{} was at {:.0} °C when it ended, and protects itself from {limit:.0} °C on",
            drive.device, drive.celsius
        ),
        (None, Some(times)) if times as f64 > THROTTLED_PER_SECOND * case.seconds() => {
            format!("CPUs were throttled {times} times for their temperature")
        }
        _ => return None,
    };
    Some(Finding::suspect(format!(
        "{evidence}: what is cool is faster. Let it cool down, and look at the airflow."
    )))
}

/// Arrays and file systems that work on themselves.
pub(super) fn upkeep(case: &Case<'_>) -> Option<Finding> {
    let conditions = case.record.conditions.as_ref()?;
    let told = |upkeep: &UpkeepRecord| {
        let device = upkeep.device.as_ref().map_or(String::new(), |device| format!("{device}: "));
        let done = upkeep.progress.map_or(String::new(), |share| format!(", {} done", percent(share)));
        format!("{device}{}{done}", upkeep.work)
    };
    let own: Vec<_> = conditions.upkeep.iter().filter(|upkeep| upkeep.is_of_target).map(told).collect();
    if !own.is_empty() {
        return Some(Finding::suspect(format!(
            "it was busy with itself ({}). Wait until that is done, and run it again.",
            own.join("; ")
        )));
    }
    let other = conditions.upkeep.first()?;
    Some(Finding::info(format!("{} was at work meanwhile, on this file system or another", told(other))))
}

/// Threads that had to wait for a CPU.
pub(super) fn cpu_contention(case: &Case<'_>) -> Option<Finding> {
    let waited = case.record.budget.as_ref()?.run_queue;
    // More threads than CPUs wait for each other; that is not a disturbance from outside.
    let is_alone = case.phase.workload.threads <= case.environment.cpus;
    (waited > SHARE_MAX && is_alone).then(|| {
        Finding::suspect(format!(
            "its threads waited {} of their time for a CPU. Other programs are busy: stop them and run it again.",
            percent(waited)
        ))
    })
}
