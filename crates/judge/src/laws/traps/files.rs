//! Traps of tests on files.

use model::advice::Advice;
use model::figure::{Count, MemoryBytes};
use model::finding::Finding;
use model::workload::{CacheMode, FilesWork};

use crate::values::input::JudgeInput;
use crate::values::lookups::{self, lookup_work};
use crate::values::trap_finding::TrapFinding;

traps!(fewer_files, names_not_cold, cold_names, metadata_cache, inode_search);

/// Operations that take longer than this search for inodes. An inode that is found at once costs some ten microseconds,
/// a search through thousands of them more than this.
const SEARCH_NS: u64 = 100_000;
/// Such a search takes more than this share of the threads' time, on a CPU or waiting for one.
const SEARCH_SHARE: f64 = 0.8;

/// A set that could not be made whole in time.
fn fewer_files(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let files = input.files().filter(|_| !input.phase.workload.is_continuous())?;
    let wanted = files.files.saturating_mul(input.clients());
    let files = input.record.workload.files;
    (files < wanted).then(|| {
        let finding = Finding::FewerFiles { files: Count(files), wanted: Count(wanted) };
        TrapFinding::new(finding, [Advice::FewerFilesOrLongerTime {}])
    })
}

/// Cold names that something kept all the same.
fn names_not_cold(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let files = cold(input)?;
    let operations = Count(input.record.counts.ops);
    let finding = if let Some(sent_bytes) = lookups::sent_bytes_if_client_cached(input) {
        Finding::NamesNotAsked { sent_bytes: MemoryBytes(sent_bytes), operations }
    } else {
        let _ = input.device()?;
        let read =
            lookups::read_bytes(input).filter(|read| *read < lookups::least_cold_bytes(input, files))?;
        Finding::NamesNotCold { read_bytes: MemoryBytes(read as u64), operations }
    };
    Some(TrapFinding::new(finding, [Advice::MoreFiles {}]))
}

/// Cold names, with the device's reads for them.
fn cold_names(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let _ = cold(input)?;
    if names_not_cold(input).is_some() {
        return None;
    }
    let operations = Count(input.record.counts.ops);
    let read = lookups::read_bytes(input).map(|read| MemoryBytes(read as u64));
    Some(match read.zip(lookups::reads(input)) {
        Some((read_bytes, (reads, true))) => {
            Finding::NamesFromDevice { reads: Count(reads), read_bytes, operations }.into()
        }
        Some((read_bytes, (reads, false))) => {
            Finding::NamesFromBusyDevice { reads: Count(reads), read_bytes, operations }.into()
        }
        None => Finding::NamesDroppedHere {}.into(),
    })
}

/// Returns the test if its names were dropped before each round.
fn cold<'a>(input: &JudgeInput<'a>) -> Option<&'a FilesWork> {
    lookup_work(input).filter(|files| files.cold && input.plan.cache == CacheMode::DropAll)
}

/// Look-ups that memory answered.
fn metadata_cache(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let _ = lookup_work(input).filter(|files| !files.cold)?;
    let operations = Count(input.record.counts.ops);
    let finding = if lookups::are_in_memory(input) {
        return Some(
            Finding::NamesInMemory { file_system: input.target().file_system.as_str().into() }.into(),
        );
    } else if let Some(sent_bytes) = lookups::sent_bytes_if_client_cached(input) {
        Finding::NamesFromClient { sent_bytes: MemoryBytes(sent_bytes), operations }
    } else {
        let _ = input.device().filter(|_| input.is_on_devices())?;
        match lookups::read_bytes(input)? {
            0.0 => Finding::NamesFromMemory { operations },
            read if read < lookups::least_bytes(input) => {
                Finding::NamesMostlyFromMemory { read_bytes: MemoryBytes(read as u64), operations }
            }
            _ => return None,
        }
    };
    Some(TrapFinding::new(finding, [Advice::ColdNames {}]))
}

/// ext4 without a journal, which searches past inodes that were freed a short while ago.
pub(super) fn inode_search(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let latency = input.record.figures.latency_ns.as_ref()?;
    let budget = input.record.seen.budget.as_ref()?;
    skips_inodes(input, latency.mean, budget.kernel + budget.run_queue)
        .then(|| TrapFinding::new(Finding::InodeSearch {}, [Advice::WaitForInodes {}]))
}

/// Returns true if operations of this mean time search past such inodes. `kernel_share` is the threads' time in the kernel, or
/// waiting for a CPU.
pub(super) fn skips_inodes(input: &JudgeInput<'_>, mean_ns: u64, kernel_share: f64) -> bool {
    let takes_inodes = input.files().is_some_and(|files| files.takes_inodes());
    takes_inodes && input.target().delays_inode_reuse() && mean_ns > SEARCH_NS && kernel_share > SEARCH_SHARE
}
