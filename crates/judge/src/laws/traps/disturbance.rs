//! Disturbances by other processes, virtual machines, heat and maintenance.

use model::advice::Advice;
use model::disturbance::{FOREIGN_CPUS_MAX, SHARE_MAX};
use model::figure::{BytesPerSecond, Celsius, Count, Maintenance, OpsPerSecond, Seconds, Share};
use model::finding::Finding;
use model::run::Cap;

use crate::values::caps::rate_at;
use crate::values::disturbance;
use crate::values::helpers::on_all_cpus;
use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

traps!(foreign_io, steal, not_running, cpu_contention, limit_changed, thermal, maintenance);

/// Throttling events of all CPUs per second without a measurable loss. Laptops throttle now and then.
const THROTTLED_PER_SECOND: f64 = 1.0;

/// Share of a limit from which it may hold the test back.
const REACHED_MIN: f64 = 0.9;

/// I/O of other processes on the device.
pub(super) fn foreign_io(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let device = input.device()?;
    let share = disturbance::foreign_io(input).filter(|share| *share > SHARE_MAX)?;
    let finding = Finding::ForeignIo { foreign_share: Share(share), device: device.name.as_str().into() };
    Some(TrapFinding::new(finding, [Advice::FindOthers { device: device.name.as_str().into() }]))
}

/// CPU time that the hypervisor gave to other virtual machines.
fn steal(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let steal = input.record.seen.budget.as_ref()?.steal;
    (steal > SHARE_MAX)
        .then(|| TrapFinding::new(Finding::Steal { stolen_share: Share(steal) }, [Advice::QuietHost {}]))
}

/// A limit on I/O that was changed during a test that reached it: it is listed with both values.
pub(super) fn limit_changed(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let caps = &input.record.seen.system.as_ref()?.caps;
    let is_same = |one: &Cap, other: &Cap| {
        (&one.source, &one.device, one.is_read) == (&other.source, &other.device, other.is_read)
            && one.ops_per_second.is_some() == other.ops_per_second.is_some()
    };
    let pairs =
        caps.iter().enumerate().map(|(at, last)| (caps[..at].iter().find(|cap| is_same(cap, last)), last));
    let limit = |cap: &Cap| cap.per_second().unwrap_or(f64::INFINITY);
    let is_reached = |(first, last): &(&Cap, &Cap)| {
        let rate = rate_at(input, first);
        rate.is_some_and(|rate| rate >= REACHED_MIN * limit(first).min(limit(last)))
    };
    let (first, last) = pairs.filter_map(|(first, last)| Some((first?, last))).find(is_reached)?;
    let (source, device) = (first.source.as_str().into(), first.device.as_str().into());
    Some(TrapFinding::from(match (first.ops_per_second.zip(last.ops_per_second), first.bytes_per_second) {
        (Some((first, last)), _) => Finding::OperationsLimitChanged {
            source,
            device,
            first_ops_per_second: OpsPerSecond(first),
            last_ops_per_second: OpsPerSecond(last),
        },
        (None, first) => Finding::BytesLimitChanged {
            source,
            device,
            first_bytes_per_second: BytesPerSecond(first?),
            last_bytes_per_second: BytesPerSecond(last.bytes_per_second?),
        },
    }))
}

/// Drives or CPUs that slow down because they are hot.
fn thermal(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let conditions = input.record.seen.conditions.as_ref()?;
    let hot = conditions.drives.iter().find_map(|drive| {
        let limit = drive.celsius_max?;
        (drive.celsius >= limit).then_some((drive, limit))
    });
    let finding = match (hot, conditions.cpu_throttled) {
        (Some((drive, limit)), _) => Finding::DriveHot {
            device: drive.device.as_str().into(),
            celsius: Celsius(drive.celsius),
            limit_celsius: Celsius(limit),
        },
        (None, Some(times)) if times as f64 > THROTTLED_PER_SECOND * input.seconds() => {
            Finding::CpuThrottled { times: Count(times) }
        }
        _ => return None,
    };
    Some(TrapFinding::new(finding, [Advice::CoolDown {}]))
}

/// Background maintenance of arrays and file systems.
fn maintenance(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let conditions = input.record.seen.conditions.as_ref()?;
    let own: Vec<_> =
        conditions.maintenance.iter().filter(|maintenance| maintenance.belongs_to_target).cloned().collect();
    if !own.is_empty() {
        return Some(TrapFinding::new(
            Finding::TargetMaintenance { work: Maintenance(own) },
            [Advice::WaitForMaintenance {}],
        ));
    }
    let other = conditions.maintenance.first()?.clone();
    Some(Finding::OtherMaintenance { work: Maintenance(vec![other]) }.into())
}

/// A pause of the whole program.
fn not_running(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let system = input.record.seen.system.as_ref()?;
    let seconds = |ns: u64| Seconds(ns as f64 / 1e9);
    if let Some(suspended_ns) = system.suspended_ns {
        return Some(Finding::Suspended { suspended: seconds(suspended_ns) }.into());
    }
    let not_running_ns = system.not_running_ns?;
    // An interval at each end is left out, too.
    if system.left_out_ns.is_some_and(|left_out_ns| left_out_ns >= not_running_ns) {
        return Some(Finding::LeftOut { stopped: seconds(not_running_ns) }.into());
    }
    let stopped_share = not_running_ns as f64 / 1e9 / input.seconds();
    (stopped_share > SHARE_MAX).then(|| Finding::NotRunning { stopped_share: Share(stopped_share) }.into())
}

/// Threads that had to wait for a CPU. If threads outnumber the CPUs, they wait for each other, so the CPU time of
/// other processes decides. Kernel threads that work for the target are no disturbance.
fn cpu_contention(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let others = disturbance::from_input(input, |_| false).foreign_cpus;
    if others <= FOREIGN_CPUS_MAX && on_all_cpus(input).is_some() {
        return None;
    }
    let waited = input.record.seen.budget.as_ref()?.run_queue;
    let cpus = input.environment.cpus;
    let finding = if input.threads() <= u64::from(cpus) {
        Finding::WaitedForCpu { waited_share: Share(waited) }
    } else if others > FOREIGN_CPUS_MAX {
        Finding::OthersOnCpus { others_share: Share(others / f64::from(cpus.max(1))) }
    } else {
        return None;
    };
    (waited > SHARE_MAX).then(|| TrapFinding::new(finding, [Advice::StopOthers {}]))
}
