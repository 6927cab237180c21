//! Traps of tests on files.

use model::advice::Advice;
use model::figure::Count;
use model::finding::Finding;
use model::target::Backing;

use crate::{JudgeInput, TrapFinding};

traps!(metadata_cache, inode_search);

/// Operations that take longer than this search for inodes. An inode that is found at once costs some ten microseconds,
/// a search through thousands of them more than this.
const SEARCH_NS: u64 = 100_000;

/// Look-ups that memory answered.
fn metadata_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let files = input.files()?;
    let fetched = input.device().map(|device| device.bytes_read);
    (files.looks_up() && fetched == Some(0) && input.target().backing == Backing::Devices).then(|| {
        let finding = Finding::NamesFromMemory { operations: Count(input.record.counts.ops) };
        TrapFinding::new(finding, [Advice::ColdNames {}])
    })
}

/// ext4 without a journal, which searches past inodes that were freed a short while ago.
fn inode_search(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let files = input.files()?;
    let slow = input.record.figures.latency_ns.as_ref().is_some_and(|latency| latency.mean > SEARCH_NS);
    let busy = input.record.seen.budget.as_ref().is_some_and(|budget| budget.kernel + budget.run_queue > 0.8);
    (files.takes_inodes() && input.target().holds_back_inodes() && slow && busy)
        .then(|| TrapFinding::new(Finding::InodeSearch {}, [Advice::WaitForInodes {}]))
}
