//! Threads of the kernel and daemons, and the target that they work for.

use model::figure::{Count, Figure, Mean, Threshold};
use model::observation::Observation;
use model::run::Helper;
use model::target::{DeviceKind, Target};

use super::input::JudgeInput;

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

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] =
    &[("helpers_cpus", Figure::Share(MOST_CPUS)), ("cpus_in_use", Figure::Share(ALL_CPUS))];

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
pub(crate) fn used_by_queue(helpers: &[Helper], name: &str) -> f64 {
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
pub(crate) fn works_for(helper: &Helper, target: &Target) -> bool {
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
