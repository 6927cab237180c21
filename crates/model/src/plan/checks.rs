//! Checks of the tests against the target and the machine: blocks, polling, buffers, cold names and links.

use super::PlannedPhase;
use crate::machine::Machine;
use crate::size;
use crate::spec;
use crate::target::{Backing, Target};
use crate::trouble::Trouble;
use crate::workload::{CacheMode, FileKind, FilesWork};

/// Divisor of the memory: the buffers of one test may take a quarter.
const BUFFER_SHARE: u64 = 4;
/// Smallest pool that a worker writes from: one period of its content.
const POOL_BYTES_MIN: u64 = 1 << 20;
/// Bytes of a worker's counters and stack: three sets of histograms, and the stack.
const COUNTS_BYTES: u64 = 256 << 10;

/// Returns the danger to root where others may rename what it makes; `None` where they may not.
pub fn shared_directory(target: &Target, machine: &Machine) -> Option<&'static str> {
    (machine.root && target.others_write).then_some(
        "other users may write there and it has no sticky bit, so they can put a directory of theirs in place of skye's",
    )
}

/// Refuses blocks that `O_DIRECT` does not take on this target.
pub(super) fn check_direct(phases: &[PlannedPhase], target: &Target) -> Result<(), Trouble> {
    let Some(align) =
        target.direct_io.map(|direct| u64::from(direct.offset_align_bytes)).filter(|align| *align > 0)
    else {
        // If the kernel states no alignment, the first open or read shows it, and the phase reports that.
        return Ok(());
    };
    for phase in phases {
        let Some(data) = phase.workload.data().filter(|data| data.direct) else { continue };
        if !data.block_bytes.is_multiple_of(align) {
            let works = data.block_bytes.next_multiple_of(align);
            return Err(Trouble::new(
                format!("run `{}` in {}", spec::print(phase.asked()), target.path),
                format!(
                    "direct I/O needs blocks that are multiples of {align} bytes here, not {}",
                    data.block_bytes
                ),
            )
            .remedy(format!("write {}{} or add :buffered", data.access, size::exact(works))));
        }
    }
    Ok(())
}

/// Returns why completions cannot be polled on this target; `None` where they can be, or nobody knows.
pub(super) fn polling_refused(target: &Target) -> Option<String> {
    let Some(device) = target.device_stack.first() else {
        return matches!(target.backing, Backing::Memory | Backing::RemoteOrUserSpace)
            .then(|| "no device is seen here".into());
    };
    (device.io_poll == Some(false)).then(|| format!("{} has no queues that can be polled", device.name))
}

/// Refuses to poll a device that cannot be polled.
pub(super) fn check_polling(phases: &[PlannedPhase], target: &Target) -> Result<(), Trouble> {
    let polls = |phase: &&PlannedPhase| phase.workload.data().is_some_and(|data| data.iopoll);
    let (Some(phase), Some(cause)) = (phases.iter().find(polls), polling_refused(target)) else {
        return Ok(());
    };
    Err(Trouble::new(format!("run `{}` in {}", spec::print(phase.asked()), target.path), cause)
        .remedy("leave iopoll away"))
}

/// Refuses buffers that take too much of the memory.
pub(super) fn check_buffers(phases: &[PlannedPhase], machine: &Machine) -> Result<(), Trouble> {
    for phase in phases {
        let workload = &phase.workload;
        let Some(data) = workload.data() else { continue };
        // A thread has one pool for everything in flight. A pool has at least a megabyte, and at least two blocks more
        // than are in flight.
        let (workers, iodepth) = (workload.threads, u64::from(workload.iodepth));
        let blocks = |count: u64| data.block_bytes.saturating_mul(count);
        let read_bytes = if data.reads() { blocks(iodepth) } else { 0 };
        let pool_bytes = if data.writes() { blocks(iodepth + 2).max(POOL_BYTES_MIN) } else { 0 };
        let stdio_bytes = data.stdio_buffer_bytes.unwrap_or(0);
        let worker_bytes = COUNTS_BYTES.saturating_add(read_bytes).saturating_add(pool_bytes) + stdio_bytes;
        let buffers_bytes = worker_bytes.saturating_mul(u64::from(workers));
        if buffers_bytes > machine.memory_bytes / BUFFER_SHARE {
            return Err(Trouble::new(
                format!("run `{}`", spec::print(phase.asked())),
                format!(
                    "its buffers need {}, more than a quarter of the memory of {}",
                    size::binary(buffers_bytes),
                    size::binary(machine.memory_bytes)
                ),
            )
            .remedy("ask for smaller blocks or buffers, less depth or fewer threads"));
        }
    }
    Ok(())
}

/// Refuses to drop the machine's caches unless that was asked for and can be done.
pub(super) fn check_cold(
    phases: &[PlannedPhase],
    cache: CacheMode,
    machine: &Machine,
) -> Result<(), Trouble> {
    let mut workloads = phases.iter().map(PlannedPhase::asked);
    let cold = workloads.find(|workload| workload.files().is_some_and(|files| files.cold));
    let attempt = match (cold, cache) {
        (Some(workload), _) => format!("run `{}`", spec::print(workload)),
        (None, CacheMode::DropAll) => "drop all caches of this machine".into(),
        _ => return Ok(()),
    };
    if cache != CacheMode::DropAll {
        return Err(Trouble::new(attempt, "cached names can only be dropped for the whole machine")
            .remedy("add --cache drop-all if every other program here may pay for it"));
    }
    if !machine.root {
        return Err(Trouble::new(attempt, "only root may drop the machine's caches").remedy("run as root"));
    }
    Ok(())
}

/// Largest number of names of a file on ext4 (`EXT4_LINK_MAX` in the kernel's fs/ext4/ext4.h).
const EXT4_LINKS_MAX: u64 = 65_000;

/// Refuses more hard links to one file than its file system allows, where that is known.
pub(super) fn check_links(phases: &[PlannedPhase], target: &Target) -> Result<(), Trouble> {
    if target.file_system != "ext4" {
        return Ok(());
    }
    for workload in phases.iter().map(PlannedPhase::asked) {
        let is_linked = |files: &&FilesWork| files.kind == FileKind::Hardlink;
        let Some(files) = workload.files().filter(is_linked) else { continue };
        let names = files.files.div_ceil(u64::from(workload.threads));
        if names > EXT4_LINKS_MAX {
            let files_max = EXT4_LINKS_MAX * u64::from(workload.threads);
            return Err(Trouble::new(
                format!("run `{}` in {}", spec::print(workload), target.path),
                format!("a file can have {EXT4_LINKS_MAX} names on ext4, not {names}"),
            )
            .remedy(format!(
                "write files={files_max} or less, ask for more threads, or write kind=symlink"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixtures::{asking, disk_that_polls, planned, planned_on};

    #[test]
    fn buffers_are_counted_as_they_are_made() {
        let fits = |spec: &str| planned(&asking(&[spec]), Backing::Devices, None).map(|_| ());
        assert_eq!(fits("read:rnd4k:q1024t4"), Ok(()));
        assert_eq!(fits("read:rnd4k:q1024t64:engine=null"), Ok(()));
        assert_eq!(fits("putc-write:stdio_buffer=64m:t62"), Ok(()));
        // Without a ring, each operation in flight is a thread, which has a megabyte to write from.
        assert_eq!(fits("write:rnd4k:t2048"), Ok(()));
        for spec in ["read:seq1m:q1024t4", "putc-write:stdio_buffer=64m:t64", "write:rnd4k:t4096"] {
            assert!(fits(spec).unwrap_err().contains("more than a quarter of the memory"), "{spec}");
        }
    }
    #[test]
    fn hard_links_are_as_many_as_the_file_system_allows() {
        let ext4 = Target { file_system: "ext4".into(), ..disk_that_polls(None) };
        let fits = |spec: &str| planned_on(&asking(&[spec]), &ext4).map(|_| ());
        for spec in [
            "create:kind=hardlink:files=65000",
            "create:kind=hardlink:files=130000:t2",
            "stat:kind=symlink",
            "stat",
        ] {
            assert_eq!(fits(spec), Ok(()), "{spec}");
        }
        let problem = fits("stat:kind=hardlink").unwrap_err();
        assert!(problem.contains("65000 names on ext4, not 65536; write files=65000 or less"), "{problem}");
        assert!(planned(&asking(&["stat:kind=hardlink"]), Backing::Devices, None).is_ok(), "on XFS");
    }
}
