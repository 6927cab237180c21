//! Threads of the kernel and daemons that work for the target.

use model::Limiter;
use model::numbers::percent;
use model::run::Evidence;

use super::{Found, budget_sentence, waits_for_target};
use crate::reading::Reading;
use crate::wait_sites::Class;

/// A helper that was on a CPU for this share of the time could do no more.
const FULL: f64 = 0.9;
/// Helpers of storage, by the beginning of their names.
const HELPERS: &[&str] = &[
    "ssh", "loop", "kcryptd", "md", "raid", "dm-", "z_", "btrfs-", "nfsiod", "rpciod", "cifsd", "mount.",
    "fuse",
];

/// A helper that is busy all the time, while the threads wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    if !waits_for_target(reading) {
        return None;
    }
    let helpers = &reading.system()?.helpers;
    let of_storage = |name: &str| HELPERS.iter().any(|prefix| name.starts_with(prefix));
    let helper = helpers.iter().find(|helper| helper.cpu_share >= FULL && of_storage(&helper.name))?;
    // One who has room for more when more comes is not full.
    if reading.depth().is_some_and(|depth| depth >= super::latency::DEPTH_ALL) {
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
            .advice("One thread does all of the work below: look for a faster cipher, more workers or connections (nconnect, several mounts)."),
    )
}
