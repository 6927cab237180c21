//! Traps of tests on files.

use model::numbers::thousands;
use model::target::Backing;
use model::workload::FileVerb;

use crate::{Case, Finding};

/// An inode that is found at once costs some ten microseconds; a search through thousands of them more than this.
const SEARCH_NS: u64 = 100_000;

/// Look-ups that memory answered.
pub(super) fn metadata_cache(case: &Case<'_>) -> Option<Finding> {
    let files = case.files()?;
    let looks_up = matches!(files.verb, FileVerb::Stat | FileVerb::Open | FileVerb::Readdir) || files.missing;
    let fetched = case.device().map(|device| device.bytes_read);
    (looks_up && fetched == Some(0) && case.target().backing == Backing::Devices).then(|| {
        Finding::suspect(format!(
            "served from memory, the device read 0 bytes for {} operations; so it says nothing about the disk. As root, add :cold to the test and --cache drop-all.",
            thousands(case.record.ops)
        ))
    })
}

/// ext4 without a journal, which searches past inodes that were freed a short while ago.
pub(super) fn inode_search(case: &Case<'_>) -> Option<Finding> {
    let files = case.files()?;
    let slow = case.record.latency_ns.as_ref().is_some_and(|latency| latency.mean > SEARCH_NS);
    let busy = case.record.budget.as_ref().is_some_and(|budget| budget.kernel + budget.run_queue > 0.8);
    (files.takes_inodes() && case.target().holds_back_inodes() && slow && busy).then(|| {
        Finding::act(
            "ext4 without a journal does not reuse inodes for 1 to 5 minutes after a deletion and searches past them, on the CPU. Wait 5 minutes after deleting many files here, or test in another directory.",
        )
    })
}
