//! Threads of the kernel and daemons that work for the target.

use model::Limiter;
use model::numbers::percent;
use model::run::{Confidence, Evidence, Helper};
use model::target::{DeviceKind, Target};

use super::{Found, budget_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// A helper that was on a CPU for this share of the time could do no more.
const FULL: f64 = 0.9;
/// The same of the threads of a loop device's queue, of which one works at a time: handing over takes some of it.
const LOOP_FULL: f64 = 0.8;
/// Helpers by the beginning of their names, and the file systems for which they work.
const OF_FILE_SYSTEMS: &[(&str, &str)] = &[
    ("ssh", "sshfs"),
    ("z_", "zfs"),
    ("btrfs", "btrfs"),
    ("nfsiod", "nfs"),
    ("rpciod", "nfs"),
    ("xprtiod", "nfs"),
    ("cifsd", "cifs"),
];

/// A helper that is busy all the time, while the threads wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    if !waits_for_target(reading) {
        return None;
    }
    let helpers = &reading.system()?.helpers;
    let target = reading.input.target();
    let (name, cpu_share) = full(helpers, target)?;
    // One who has room for more when more comes is not full.
    if reading.depth().is_some_and(|depth| depth > super::saturation::DEPTH_NONE) {
        return None;
    }
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Remote, Class::Device, Class::Page]),
        counters: Some(format!("{name} was on a CPU {} of the time", percent(cpu_share))),
        probe: reading.depth().and_then(|_| reading.probe_sentence()),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::HelperCpu, reading.budget.blocked, evidence)
            // A process with several threads may use as much without any of them being full.
            .at_most(Confidence::Likely)
            .advice("One helper does the work below: look for a faster cipher, more workers or connections (nconnect, several mounts)."),
    )
}

/// One who works for this target and can do no more: who it is, and its share of a CPU.
fn full(helpers: &[Helper], target: &Target) -> Option<(String, f64)> {
    let mut ours = helpers.iter().filter(|helper| works_for(helper, target));
    if let Some(helper) = ours.find(|helper| helper.cpu_share >= FULL) {
        return Some((format!("{} (pid {})", helper.name, helper.pid), helper.cpu_share));
    }
    // Other queues have a thread for each CPU.
    let loops = target.device_stack.iter().filter(|device| device.kind == DeviceKind::Loop);
    let worked = loops.map(|device| {
        let of_it = helpers.iter().filter(|helper| queue(&helper.name) == Some(device.name.as_str()));
        (device, of_it.map(|helper| helper.cpu_share).sum::<f64>())
    });
    let (device, cpu_share) = worked.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (cpu_share >= LOOP_FULL).then(|| (format!("the kernel's thread for {}", device.name), cpu_share))
}

/// The queue that a thread of the kernel works on: its name stands behind that of the thread, "kworker/u8:0-loop0", or
/// "kworker/u8:0+loop0" while it works.
fn queue(name: &str) -> Option<&str> {
    let (_, queue) = name.strip_prefix("kworker/")?.split_once(['-', '+'])?;
    Some(queue)
}

/// Whether it works for this target: for its file system, or for a device of its stack.
fn works_for(helper: &Helper, target: &Target) -> bool {
    let name = match helper.name.starts_with("kworker/") {
        true => queue(&helper.name).unwrap_or_default(),
        false => helper.name.as_str(),
    };
    let for_file_system = OF_FILE_SYSTEMS
        .iter()
        .any(|(prefix, file_system)| name.starts_with(prefix) && target.file_system.contains(file_system));
    let for_device = helper.is_kernel
        && target.device_stack.iter().any(|device| match device.kind {
            DeviceKind::DeviceMapper => name.starts_with("kcryptd") || name.starts_with("dmcrypt"),
            DeviceKind::Loop => name == device.name,
            // "md0_raid5", but not that of md01.
            DeviceKind::Raid => name
                .strip_prefix(device.name.as_str())
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())),
            _ => false,
        });
    for_file_system || for_device
}
