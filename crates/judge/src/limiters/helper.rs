//! Threads of the kernel and daemons that work for the target.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, Mean, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Helper, Verdict};
use model::target::{DeviceKind, Target};

use super::{seen, waits_for_target};
use crate::JudgeInput;
use crate::experiments::Load;
use crate::reading::Reading;

/// A helper that was on a CPU for this share of the time could do no more.
const SATURATED: f64 = 0.9;
/// The same share for the threads of a loop device's queue. One works at a time, and handing over takes some of the
/// time.
pub(super) const LOOP_SATURATED: f64 = 0.8;
/// Threads of one queue with this share of all CPUs used most of them: the test and the rest of the kernel used some.
const MOST_CPUS: f64 = 0.5;
/// A machine whose CPUs were in use for this share of the time had none left.
const ALL_CPUS: f64 = 0.9;
/// Queue of all kinds of work. A thread of a pool has the name of its last work, and keeps it.
const ANY_WORK: &str = "events_unbound";
/// Prefixes of helpers' names, and the file systems that these helpers work for.
const FILE_SYSTEM_HELPERS: &[(&str, &str)] = &[
    ("ssh", "sshfs"),
    ("z_", "zfs"),
    ("btrfs", "btrfs"),
    ("nfsiod", "nfs"),
    ("rpciod", "nfs"),
    ("xprtiod", "nfs"),
    ("cifsd", "cifs"),
];

/// The thresholds that its explanation names.
pub(super) const THRESHOLDS: &[Threshold] = &[
    ("helper_saturated", Figure::Share(SATURATED)),
    ("loop_saturated", Figure::Share(LOOP_SATURATED)),
    ("helpers_cpus", Figure::Share(MOST_CPUS)),
    ("cpus_in_use", Figure::Share(ALL_CPUS)),
];

/// A helper that is busy all the time, while the threads wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    if !waits_for_target(reading) {
        return None;
    }
    let helpers = &reading.system()?.helpers;
    let saturated = saturated(reading, helpers).or_else(|| on_all_cpus(&reading.input))?;
    // A helper that does more at more depth is not saturated.
    if reading.load().is(Load::Headroom) {
        return None;
    }
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Remote, WaitClass::Device, WaitClass::Page]),
        Some(saturated),
        if reading.gain().is_some() { reading.answers() } else { Vec::new() },
    ];
    Some(
        Verdict::new(Limiter::HelperCpu, reading.budget.blocked, evidence)
            // A process with several threads may use as much without any of them being saturated.
            .at_most(Confidence::Likely)
            .advise([Advice::ParallelHelpers {}]),
    )
}

/// Number of threads of a program that serves the target; 1 for others.
fn threads(reading: &Reading<'_>, pid: u64) -> f64 {
    let mut layers = (0..).zip(&reading.input.target().layers);
    let layer = layers.find(|(_, layer)| layer.number.map(u64::from) == Some(pid));
    let load = reading.input.record.seen.load.as_ref();
    let window = layer.zip(load).and_then(|((at, _), load)| load.flow_of(at)?.window);
    window.unwrap_or(1).max(1) as f64
}

/// A helper of this target that can do no more.
fn saturated(reading: &Reading<'_>, helpers: &[Helper]) -> Option<Observation> {
    let target = reading.input.target();
    let mut ours = helpers.iter().filter(|helper| works_for(helper, target));
    let waiting = |helper: &Helper| helper.run_delay_share.unwrap_or(0.0);
    // Threads that are never without work wait for a CPU when they are not on one.
    let is_full = |helper: &&Helper| {
        let least = SATURATED * threads(reading, helper.pid);
        let never_idle = helper.cpu_share + waiting(helper) >= least && helper.cpu_share >= waiting(helper);
        helper.cpu_share >= SATURATED || never_idle
    };
    if let Some(found) = ours.find(is_full) {
        let helper = format!("{} (pid {})", found.name, found.pid).into();
        let busy_share = Share(found.cpu_share);
        return Some(match found.cpu_share >= SATURATED {
            true => Observation::HelperBusy { helper, busy_share },
            false => {
                Observation::HelperNeverIdle { helper, busy_share, waiting_share: Share(waiting(found)) }
            }
        });
    }
    // Other queues have a thread for each CPU.
    let loops = target.device_stack.iter().filter(|device| device.kind == DeviceKind::Loop);
    let worked = loops.map(|device| (device, used_by_queue(helpers, &device.name)));
    let (device, cpu_share) = worked.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (device, busy_share) = (device.name.as_str().into(), Share(cpu_share));
    (cpu_share >= LOOP_SATURATED).then_some(Observation::LoopBusy { device, busy_share })
}

/// Kernel threads of one queue of this target that use most CPUs of a machine without a free one, though none of them is
/// saturated.
pub(crate) fn on_all_cpus(input: &JudgeInput<'_>) -> Option<Observation> {
    let seen = &input.record.seen;
    let (cpu, helpers) = (seen.cpu.as_ref()?, &seen.system.as_ref()?.helpers);
    let cpus = f64::from(input.environment.cpus_online.max(1));
    let mut ours = helpers.iter().filter(|helper| works_for(helper, input.target()));
    let (pool, name) = ours.find_map(|helper| Some((pool(&helper.name), queue(&helper.name)?)))?;
    let others = helpers.iter().filter(|helper| self::pool(&helper.name) == pool);
    let others = others.filter(|helper| queue(&helper.name) == Some(ANY_WORK));
    let used = used_by_queue(helpers, name) + others.map(|helper| helper.cpu_share).sum::<f64>();
    let has_none_left = cpu.user + cpu.kernel >= ALL_CPUS && used >= MOST_CPUS * cpus;
    has_none_left.then(|| Observation::QueueBusy {
        queue: name.into(),
        used: Mean(used),
        cpus: Count(cpus as u64),
    })
}

/// CPUs that the kernel threads of a queue use together.
fn used_by_queue(helpers: &[Helper], name: &str) -> f64 {
    let of_it = helpers.iter().filter(|helper| queue(&helper.name) == Some(name));
    of_it.map(|helper| helper.cpu_share).sum()
}

/// Returns the queue that a kernel thread works on. Its name follows that of the thread: "kworker/u8:0-loop0", or
/// "kworker/u8:0+loop0" while it works.
fn queue(name: &str) -> Option<&str> {
    let (_, queue) = name.strip_prefix("kworker/")?.split_once(['-', '+'])?;
    Some(queue)
}

/// Returns the pool of a kernel thread, which works for many queues: "u8" of "kworker/u8:0-loop0".
fn pool(name: &str) -> Option<&str> {
    let (pool, _) = name.strip_prefix("kworker/")?.split_once(':')?;
    Some(pool)
}

/// Returns true if the helper works for this target: for its file system, or for a device of its stack.
fn works_for(helper: &Helper, target: &Target) -> bool {
    let name = match helper.name.starts_with("kworker/") {
        true => queue(&helper.name).unwrap_or_default(),
        false => helper.name.as_str(),
    };
    let for_file_system = FILE_SYSTEM_HELPERS
        .iter()
        .any(|(prefix, file_system)| name.starts_with(prefix) && target.file_system.contains(file_system));
    let for_device = helper.is_kernel
        && target.device_stack.iter().any(|device| match device.kind {
            DeviceKind::DeviceMapper => name.starts_with("kcryptd") || name.starts_with("dmcrypt"),
            DeviceKind::Loop => name == device.name,
            // "md0_raid5" works for md0, but a thread of md01 does not.
            DeviceKind::Raid => name
                .strip_prefix(device.name.as_str())
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())),
            _ => false,
        });
    for_file_system || for_device
}
