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
    let target = reading.case.target();
    let helper = helpers.iter().find(|helper| helper.cpu_share >= FULL && works_for(helper, target))?;
    // One who has room for more when more comes is not full.
    if reading.depth().is_some_and(|depth| depth > super::saturation::DEPTH_NONE) {
        return None;
    }
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Remote, Class::Device, Class::Page]),
        counters: Some(format!(
            "{} (pid {}) was on a CPU {} of the time",
            helper.name,
            helper.pid,
            percent(helper.cpu_share)
        )),
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

/// Whether it works for this target: for its file system, or for a device of its stack.
fn works_for(helper: &Helper, target: &Target) -> bool {
    // Threads of the kernel that serve a queue have its name behind theirs: "kworker/u8:0-loop0".
    let name = match helper.name.strip_prefix("kworker/") {
        Some(rest) => rest.split_once('-').map_or("", |(_, queue)| queue),
        None => helper.name.as_str(),
    };
    let for_file_system = OF_FILE_SYSTEMS
        .iter()
        .any(|(prefix, file_system)| name.starts_with(prefix) && target.file_system.contains(file_system));
    let for_device = helper.is_kernel
        && target.device_stack.iter().any(|device| match device.kind {
            DeviceKind::DeviceMapper => name.starts_with("kcryptd") || name.starts_with("dmcrypt"),
            DeviceKind::Raid | DeviceKind::Loop => name.starts_with(device.name.as_str()),
            _ => false,
        });
    for_file_system || for_device
}
