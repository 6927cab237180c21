//! Checks of the tests against the target and the machine: blocks, polling, buffers, cold names and links.

use super::PlannedPhase;
use super::dataset::Dataset;
use crate::machine::Machine;
use crate::request::Request;
use crate::size;
use crate::spec;
use crate::target::{Backing, Target, TargetKind};
use crate::user_error::UserError;
use crate::workload::{CacheMode, DataVerb, Engine, FileKind, FilesWork, Work, Workload};

/// Divisor of the memory: the buffers of one test may take a quarter.
const BUFFER_SHARE: u64 = 4;
/// Smallest pool that a worker writes from: one period of its content.
const POOL_BYTES_MIN: u64 = 1 << 20;
/// Bytes of a worker's counters and stack: three sets of histograms, and the stack.
const COUNTERS_BYTES: u64 = 256 << 10;

/// Files that a run has open besides those of its workers: counters, its directory, its removal.
const OPEN_FILES: u64 = 40;
/// Files of further counters, such as those of cgroups far below the root.
const COUNTER_FILES: u64 = 64;
/// Files of `/proc` through which a worker is watched.
const PROC_FILES_PER_WORKER: u64 = 5;
/// Files that a worker of a test on files has open: its directories, and the files of one operation.
const OPEN_FILES_PER_WORKER: u64 = 4;
/// Channels of the coordinator to a client.
const CLIENT_FILES: u64 = 3;

/// Returns the danger to root where other users may rename its files; `None` where they may not.
pub fn shared_directory(target: &Target, machine: &Machine) -> Option<&'static str> {
    (machine.is_root && target.is_writable_by_others).then_some(
        "it is writable by other users and has no sticky bit, so they can replace skye's directory",
    )
}

/// Returns why a test cannot run on a device or a file, and the remedy; `None` where it can.
pub(super) fn refused_on_existing_target(workload: &Workload, target: &Target) -> Option<(String, String)> {
    if !target.kind.is_existing() {
        return None;
    }
    let (path, kind) = (&target.path, target.kind.name());
    let read = "use read tests, such as --test read:rnd4k:q32, or choose a directory";
    let Some(data) = workload.data() else {
        return Some((format!("{path} is {kind}, not a directory"), read.into()));
    };
    let is_erased = target.erased.is_some();
    if data.writes() && !is_erased {
        let help = match target.kind {
            TargetKind::Device => format!(
                "{read}; to overwrite it, add --erase ID, with the ID that `skye doctor {path}` prints"
            ),
            _ => read.into(),
        };
        return Some((format!("{path} is {kind}, which skye only reads"), help));
    }
    let of_own_files = [
        ("files", data.files.is_some()),
        ("fresh", data.fresh),
        ("interleaved", data.interleaved),
        ("compress", data.compress_percent > 0 && !is_erased),
        ("dedupe", data.dedupe_percent > 0 && !is_erased),
    ];
    let (word, _) = of_own_files.into_iter().find(|(_, is_asked)| *is_asked)?;
    let cause = format!("{path} is {kind}, and {word} is for files that skye creates");
    Some((cause, format!("drop {word}, or choose a directory")))
}

/// Refuses tests that several clients cannot make in one file or directory of all.
pub(super) fn check_shared_by_clients(phases: &[PlannedPhase]) -> Result<(), UserError> {
    for phase in phases {
        let cause = match &phase.workload.work {
            Work::Files(files) if files.shared && files.verb.counts_entries() => {
                "each client would also list the other clients' files"
            }
            _ => continue,
        };
        let action = format!("run `{}` with several clients", spec::print(phase.requested_workload()));
        return Err(UserError::new(action, cause).help("drop shared"));
    }
    Ok(())
}

/// Refuses to erase anything but a block device that was found to be free.
pub(super) fn check_erased(request: &Request, target: &Target) -> Result<(), UserError> {
    if target.erased.is_some() {
        return Ok(());
    }
    if request.erase.is_some() {
        let cause = format!("it is {}, and --erase is for block devices only", target.kind.name());
        let help = match target.kind {
            TargetKind::File => "choose a directory, in which skye creates and writes its own files",
            _ => "drop --erase",
        };
        return Err(UserError::new(format!("erase {}", target.path), cause).help(help));
    }
    let given = [
        ("--erase-signature", !request.erase_signature.is_empty()),
        ("--erase-data", request.erase_data.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        let cause = format!("{option} requires --erase");
        return Err(UserError::new(format!("test in {}", target.path), cause)
            .help(format!("add --erase ID, or drop {option}")));
    }
    Ok(())
}

/// Refuses all that cannot be done to a device or a file.
pub(super) fn check_existing_target<'a>(
    tests: impl Iterator<Item = &'a Workload>,
    request: &Request,
    target: &Target,
) -> Result<(), UserError> {
    for workload in tests {
        if let Some((cause, help)) = refused_on_existing_target(workload, target) {
            return Err(UserError::new(format!("run `{}`", spec::print(workload)), cause).help(help));
        }
    }
    if target.is_used_read_only() && request.verify == Some(true) {
        let cause = "its contents are unknown: skye did not write it";
        return Err(UserError::new(format!("verify reads of {}", target.path), cause)
            .help("drop --verify, or choose a directory"));
    }
    Ok(())
}

/// Says in which tests `--verify` compares nothing: only tests on data read blocks that skye has stamped.
pub(super) fn verify_note(request: &Request, phases: &[PlannedPhase]) -> Option<String> {
    if request.verify != Some(true) {
        return None;
    }
    let has_none =
        |phase: &&PlannedPhase| phase.workload.data().is_none() || phase.engine.has_virtual_clock();
    let others = phases.iter().filter(has_none);
    let mut names: Vec<&str> = Vec::new();
    for name in others.map(|phase| phase.workload.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let last = names.pop()?;
    let names = if names.is_empty() { last.to_owned() } else { format!("{} and {last}", names.join(", ")) };
    Some(format!("--verify has no effect on {names}: it verifies blocks that data tests read"))
}

/// Refuses blocks that `O_DIRECT` does not take on this target.
pub(super) fn check_direct(phases: &[PlannedPhase], target: &Target) -> Result<(), UserError> {
    let Some(align) =
        target.direct_io.map(|direct| u64::from(direct.offset_align_bytes)).filter(|align| *align > 0)
    else {
        // If the kernel states no alignment, the first open or read shows it, and the phase reports that.
        return Ok(());
    };
    for phase in phases {
        let Some(data) = phase.workload.data().filter(|data| data.direct) else { continue };
        if !data.block_bytes.is_multiple_of(align) {
            let bytes = data.block_bytes;
            let twin = size::decimal_and_binary(bytes).filter(|(_, binary)| binary.is_multiple_of(align));
            let (block, works) = match twin {
                Some((decimal, binary)) => (format!("{decimal} is {bytes} bytes"), binary),
                None => (format!("the block size is {bytes} bytes"), bytes.next_multiple_of(align)),
            };
            return Err(UserError::new(
                format!("run `{}` in {}", spec::print(phase.requested_workload()), target.path),
                format!("{block}; direct I/O requires multiples of {align} here"),
            )
            .help(format!(
                "use {1}{0} ({works} bytes), or add :buffered",
                size::exact(works),
                data.access
            )));
        }
    }
    Ok(())
}

/// Returns why completions cannot be polled on this target; `None` if they can be, or if that is unknown.
pub(super) fn polling_refused(target: &Target) -> Option<String> {
    let Some(device) = target.device_stack.first() else {
        return matches!(target.backing, Backing::Memory | Backing::RemoteOrUserSpace)
            .then(|| "its device is not visible".into());
    };
    (device.io_poll == Some(false)).then(|| format!("{} has no poll queues", device.name))
}

/// Refuses to poll a device that cannot be polled.
pub(super) fn check_polling(phases: &[PlannedPhase], target: &Target) -> Result<(), UserError> {
    let polls = |phase: &&PlannedPhase| phase.workload.data().is_some_and(|data| data.iopoll);
    let (Some(phase), Some(cause)) = (phases.iter().find(polls), polling_refused(target)) else {
        return Ok(());
    };
    Err(UserError::new(
        format!("run `{}` in {}", spec::print(phase.requested_workload()), target.path),
        cause,
    )
    .help("drop iopoll"))
}

/// Refuses a ring for discards of a device: the kernel's call for them, `BLKDISCARD`, is none that a ring makes.
pub(super) fn check_discard(phases: &[PlannedPhase], target: &Target) -> Result<(), UserError> {
    let discards = |phase: &&PlannedPhase| {
        let discards = phase.workload.data().is_some_and(|data| data.verb == DataVerb::Discard);
        discards && phase.engine == Engine::Uring
    };
    let Some(phase) = phases.iter().find(discards).filter(|_| target.kind == TargetKind::Device) else {
        return Ok(());
    };
    let action = format!("run `{}` on {}", spec::print(phase.requested_workload()), target.path);
    let cause = "skye discards block devices by the BLKDISCARD ioctl, not through io_uring";
    Err(UserError::new(action, cause).help("drop engine=uring: skye then uses threads for depth"))
}

/// Refuses buffers that take too much of the memory.
pub(super) fn check_buffers(phases: &[PlannedPhase], machine: &Machine) -> Result<(), UserError> {
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
        let worker_bytes = COUNTERS_BYTES.saturating_add(read_bytes).saturating_add(pool_bytes) + stdio_bytes;
        let buffers_bytes = worker_bytes.saturating_mul(u64::from(workers));
        if buffers_bytes > machine.memory_bytes / BUFFER_SHARE {
            return Err(UserError::new(
                format!("run `{}`", spec::print(phase.requested_workload())),
                format!(
                    "its buffers need {}, more than a quarter of the {} of memory",
                    size::binary(buffers_bytes),
                    size::binary(machine.memory_bytes)
                ),
            )
            .help("use smaller blocks or buffers, less depth or fewer threads"));
        }
    }
    Ok(())
}

/// Refuses tests that need more open files than the system allows this process: the error has the test that needs most.
/// Returns a note if the limit may leave counters unread.
pub(super) fn check_open_files(
    phases: &[PlannedPhase],
    dataset: Option<&Dataset>,
    machine: &Machine,
) -> Result<Option<String>, UserError> {
    let needed = |phase: &PlannedPhase| {
        let threads = u64::from(phase.workload.threads);
        let group = dataset.and_then(|dataset| dataset.groups.get(dataset.group_of(&phase.workload)?));
        let files = group.map_or(0, |group| u64::from(group.files));
        let (shared, each) = match &phase.workload.work {
            // A replay has open what its load has.
            Work::Files(files) => {
                (0, OPEN_FILES_PER_WORKER + files.load().map_or(0, |load| load.handles as u64))
            }
            // Each worker on bytes opens the files of its part again, and its process has a channel.
            Work::Data(data) if data.verb.is_bytes() => (2 * files, 3),
            Work::Data(_) => (files, u64::from(phase.engine.has_ring())),
        };
        threads * (PROC_FILES_PER_WORKER + each) + shared
    };
    let Some(phase) = phases.iter().max_by_key(|phase| needed(phase)) else { return Ok(None) };
    let action = format!("run `{}`", spec::print(phase.requested_workload()));
    let help = (phase.workload.threads > 1).then_some("use fewer threads");
    check_limit(action, needed(phase), machine.open_files_max, help)?;
    let ample = needed(phase) + OPEN_FILES + COUNTER_FILES;
    let most = machine.open_files_max.filter(|most| *most < ample);
    Ok(most
        .map(|most| format!("RLIMIT_NOFILE is {most}: some counters may be unreadable; {ample} is enough")))
}

/// Refuses more clients than the coordinator may have channels to.
///
/// # Errors
/// The system allows this process fewer open files.
pub fn check_clients(clients: usize, open_files_max: Option<u64>) -> Result<(), UserError> {
    let action = format!("start {clients} clients");
    check_limit(action, clients as u64 * CLIENT_FILES, open_files_max, Some("use fewer clients"))
}

fn check_limit(action: String, files: u64, most: Option<u64>, help: Option<&str>) -> Result<(), UserError> {
    let needed = files + OPEN_FILES;
    let Some(most) = most.filter(|most| *most < needed) else { return Ok(()) };
    let cause = format!("it needs {needed} open files, and RLIMIT_NOFILE is {most}");
    let or = help.map(|help| format!(", or {help}")).unwrap_or_default();
    Err(UserError::new(action, cause).help(format!("raise the limit (ulimit -Hn {needed}){or}")))
}

/// Refuses to drop the machine's caches unless that is requested and possible, and cold names where there are none.
pub(super) fn check_cold(
    phases: &[PlannedPhase],
    cache: CacheMode,
    is_set_by_flag: bool,
    target: &Target,
    machine: &Machine,
) -> Result<(), UserError> {
    let mut workloads = phases.iter().map(PlannedPhase::requested_workload);
    let cold = workloads.find(|workload| workload.files().is_some_and(|files| files.cold));
    let action = match (cold, cache) {
        (Some(workload), _) => format!("run `{}`", spec::print(workload)),
        (None, CacheMode::DropAll) => "drop all caches of this machine".into(),
        _ => return Ok(()),
    };
    let refused = |cause: &str| UserError::new(action.clone(), cause);
    let without = if is_set_by_flag { ", or drop --cold" } else { "" };
    if cache != CacheMode::DropAll {
        let help = match is_set_by_flag {
            true => "drop --cache: --cold drops all caches",
            false => "add --cache drop-all, which slows down every other program",
        };
        return Err(refused("cached names can only be dropped for the whole machine").help(help));
    }
    if !machine.is_root {
        return Err(refused("only root can drop the machine's caches")
            .help(format!("run as root, outside of containers{without}")));
    }
    if cold.is_some() && target.backing == Backing::Memory {
        let cause =
            format!("{} keeps names only in memory, so its lookups are never cold", target.file_system);
        return Err(refused(&cause).help(format!("choose a directory on a disk or a server{without}")));
    }
    Ok(())
}

/// Refuses attributes where files can have none, if the kernel has said so.
pub(super) fn check_attributes(phases: &[PlannedPhase], target: &Target) -> Result<(), UserError> {
    let uses = |workload: &&Workload| workload.files().is_some_and(|files| files.verb.uses_attributes());
    let Some(workload) = phases.iter().map(PlannedPhase::requested_workload).find(uses) else {
        return Ok(());
    };
    if target.user_attributes != Some(false) {
        return Ok(());
    }
    let action = format!("run `{}` in {}", spec::print(workload), target.path);
    let cause = format!("{} is mounted without user extended attributes", target.file_system);
    Err(UserError::new(action, cause)
        .help("drop xattr-set and xattr-get, or mount it with user extended attributes"))
}

/// Largest number of names of a file on ext4 (`EXT4_LINK_MAX` in the kernel's fs/ext4/ext4.h).
const EXT4_LINKS_MAX: u64 = 65_000;

/// Refuses more hard links to one file than its file system allows, where that is known.
pub(super) fn check_links(phases: &[PlannedPhase], target: &Target) -> Result<(), UserError> {
    if target.file_system != "ext4" {
        return Ok(());
    }
    for workload in phases.iter().map(PlannedPhase::requested_workload) {
        let is_linked = |files: &&FilesWork| files.kind == FileKind::Hardlink;
        let Some(files) = workload.files().filter(is_linked) else { continue };
        let names = files.files.div_ceil(u64::from(workload.threads));
        if names > EXT4_LINKS_MAX {
            let files_max = EXT4_LINKS_MAX * u64::from(workload.threads);
            return Err(UserError::new(
                format!("run `{}` in {}", spec::print(workload), target.path),
                format!("ext4 allows {EXT4_LINKS_MAX} links per file, and the test needs {names}"),
            )
            .help(format!("use files={files_max} or less, more threads, or kind=symlink")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Load, LoadFile};
    use crate::plan::adapt_to_existing_target;
    use crate::plan::fixtures::{GIB, disk_that_polls, planned, planned_on, request_for};
    use crate::size::Size;
    use crate::target::ErasedDevice;

    #[test]
    fn buffers_over_a_quarter_of_memory_are_refused() {
        let fits = |spec: &str| planned(&request_for(&[spec]), Backing::Devices, None).map(|_| ());
        assert_eq!(fits("read:rnd4k:q1024t4"), Ok(()));
        assert_eq!(fits("read:rnd4k:q1024t64:engine=null"), Ok(()));
        assert_eq!(fits("putc-write:stdio_buffer=64m:t62"), Ok(()));
        // Without a ring, each operation in flight is a thread, which has a megabyte to write from.
        assert_eq!(fits("write:rnd4k:t2048"), Ok(()));
        for spec in ["read:seq1m:q1024t4", "putc-write:stdio_buffer=64m:t64", "write:rnd4k:t4096"] {
            assert!(
                fits(spec).unwrap_err().contains("more than a quarter of the 16 GiB of memory"),
                "{spec}"
            );
        }
    }

    #[test]
    fn open_files_beyond_the_limit_are_refused() {
        let refusal = |specs: &[&str], most: u64| {
            let machine = Machine { open_files_max: Some(most), ..crate::plan::fixtures::machine(None) };
            let target = disk_that_polls(None);
            crate::plan::plan(&request_for(specs), &target, &machine).err().map(|error| error.to_string())
        };
        let refused = refusal(&["create:t3000", "create:t4096"], 20_000).unwrap();
        let cause = "cannot run `create:t4096`: it needs 36904 open files, and RLIMIT_NOFILE is 20000";
        assert_eq!(refused, format!("{cause}; raise the limit (ulimit -Hn 36904), or use fewer threads"));
        assert_eq!(refusal(&["create:t4096"], 36_904), None);
        assert!(!refusal(&["create"], 40).unwrap().contains("fewer threads"));
        assert_eq!(refusal(&["write:seq1m:buffered", "read:rnd4k:q32", "create"], 64), None);
        for specs in ["read:rnd4k:t1000", "getc-read:t1000", "read:rnd4k:q8t1000", "mix:mail:t1000"] {
            assert!(refusal(&[specs], 4096).unwrap().contains("RLIMIT_NOFILE"), "{specs}");
            assert_eq!(refusal(&[specs], 40_000), None, "{specs}");
        }
        let open = |number: u32| format!("NTCreateX \"\\f{number}\" 0 2 {number} NT_STATUS_OK\n");
        let load = Some(Load::parse(&(0..100).map(open).collect::<String>()).unwrap().into());
        let loads = vec![LoadFile { name: "my.txt".into(), load }];
        let replaying = |test: &str| {
            let machine = Machine { open_files_max: Some(4096), ..crate::plan::fixtures::machine(None) };
            let request = Request { loads: loads.clone(), ..request_for(&[test]) };
            crate::plan::plan(&request, &disk_that_polls(None), &machine)
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        assert_eq!(replaying("replay:my.txt:t36"), Ok(()));
        assert!(replaying("replay:my.txt:t40").unwrap_err().contains("it needs 4400 open files"));
        let refused = check_clients(400, Some(1024)).unwrap_err().to_string();
        assert!(
            refused.contains("start 400 clients: it needs 1240") && refused.ends_with("use fewer clients")
        );
        assert!(check_clients(300, Some(1024)).is_ok() && check_clients(5000, None).is_ok());
    }

    #[test]
    fn verify_names_tests_without_compared_blocks() {
        let noted = |specs: &[&str], verify| {
            let request = Request { verify, ..request_for(specs) };
            let notes = planned(&request, Backing::Devices, None).unwrap().notes;
            notes.into_iter().find(|note| note.starts_with("--verify"))
        };
        let because = "it verifies blocks that data tests read";
        let all = ["read:rnd4k", "create:t4", "create", "stat", "read:rnd4k:engine=null"];
        assert_eq!(
            noted(&all, Some(true)).unwrap(),
            format!("--verify has no effect on create and stat: {because}")
        );
        assert_eq!(
            noted(&["stat"], Some(true)).unwrap(),
            format!("--verify has no effect on stat: {because}")
        );
        assert_eq!(noted(&["read:rnd4k", "write:rnd4k"], Some(true)), None);
        assert_eq!(noted(&all, None), None);
    }

    #[test]
    fn cold_tests_require_root_dropped_caches_and_a_disk() {
        let on = |request: &Request, is_root: bool, backing: Backing| {
            let machine = Machine { is_root, ..crate::plan::fixtures::machine(None) };
            let target = Target { backing, ..disk_that_polls(None) };
            crate::plan::plan(request, &target, &machine).map_err(|error| error.to_string())
        };
        let cold = |specs: &[&str]| Request { cold: Some(true), ..request_for(specs) };
        let all = cold(&[
            "stat:t4",
            "open",
            "readdir",
            "read-file:size=4k",
            "stat:missing",
            "create",
            "read:rnd4k",
        ]);
        let plan = on(&all, true, Backing::Devices).unwrap();
        let [stat, open, readdir, read, rest @ ..] = &plan.tests[..] else { panic!("{:?}", plan.tests) };
        assert!([stat, open, readdir, read].iter().all(|test| test.ends_with(":cold")), "{:?}", plan.tests);
        assert_eq!(rest, ["stat:missing", "create", "read:rnd4k"]);
        assert_eq!(plan.cache, CacheMode::DropAll);

        let refusal =
            |request: &Request, is_root: bool, backing: Backing| on(request, is_root, backing).unwrap_err();
        let stat = cold(&["stat"]);
        for (problem, words) in [
            (
                refusal(&stat, false, Backing::Devices),
                "only root can drop the machine's caches; run as root, outside of containers, or drop --cold",
            ),
            (
                refusal(&stat, true, Backing::Memory),
                "its lookups are never cold; choose a directory on a disk or a server, or drop",
            ),
            (
                refusal(&cold(&["create", "stat:missing"]), true, Backing::Devices),
                "no such test is requested; drop --cold",
            ),
            (
                refusal(&Request { cache: Some(CacheMode::Warm), ..stat.clone() }, true, Backing::Devices),
                "for the whole machine; drop --cache",
            ),
            (refusal(&request_for(&["stat:cold"]), true, Backing::Devices), "add --cache drop-all"),
        ] {
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn hard_links_are_limited_by_the_file_system() {
        let ext4 = Target { file_system: "ext4".into(), ..disk_that_polls(None) };
        let fits = |spec: &str| planned_on(&request_for(&[spec]), &ext4).map(|_| ());
        for spec in [
            "create:kind=hardlink:files=65000",
            "create:kind=hardlink:files=130000:t2",
            "stat:kind=symlink",
            "stat",
        ] {
            assert_eq!(fits(spec), Ok(()), "{spec}");
        }
        let problem = fits("stat:kind=hardlink").unwrap_err();
        assert!(
            problem.contains(
                "ext4 allows 65000 links per file, and the test needs 65536; use files=65000 or less"
            ),
            "{problem}"
        );
        assert!(planned(&request_for(&["stat:kind=hardlink"]), Backing::Devices, None).is_ok(), "on XFS");
    }

    #[test]
    fn xattr_tests_are_refused_without_user_xattr_support() {
        let with = |user_attributes| Target { user_attributes, ..disk_that_polls(None) };
        for spec in ["xattr-set", "xattr-get:t4"] {
            for known in [None, Some(true)] {
                assert!(planned_on(&request_for(&[spec]), &with(known)).is_ok(), "{spec}");
            }
            let problem = planned_on(&request_for(&["stat", spec]), &with(Some(false))).unwrap_err();
            assert!(
                problem.contains("xfs is mounted without user extended attributes; drop xattr-set"),
                "{problem}"
            );
        }
        assert!(planned_on(&request_for(&["stat", "walk"]), &with(Some(false))).is_ok());
    }

    fn device() -> Target {
        let target = disk_that_polls(None);
        let space = crate::target::Space { total_bytes: 10 * GIB + 512, free_bytes: 0, ..target.space };
        Target { kind: TargetKind::Device, path: "/dev/sda".into(), read_only: true, space, ..target }
    }

    #[test]
    fn device_is_read_in_full_and_nothing_is_written() {
        let plan =
            planned_on(&request_for(&["read:rnd4k:q32t4", "read:seq1m", "byte-read"]), &device()).unwrap();
        let dataset = plan.dataset.as_ref().unwrap();
        assert_eq!((dataset.size_bytes_max, dataset.layout_bytes_max()), (10 * GIB, 0));
        assert_eq!((plan.bytes_to_write_max, dataset.groups.len()), (0, 1));
        assert!(plan.phases.iter().all(|phase| dataset.group_of(&phase.workload) == Some(0)));
        assert!(
            plan.notes.iter().any(|note| note.starts_with("read-only: nothing is written")),
            "{:?}",
            plan.notes
        );
        let part = Request { size: Some(Size::Bytes(3 * GIB)), ..request_for(&["read:rnd4k"]) };
        assert_eq!(planned_on(&part, &device()).unwrap().dataset.unwrap().size_bytes_max, 3 * GIB);
        // Zones end with the device.
        let plan = planned_on(&request_for(&["read:seq1m:zones=1g"]), &device()).unwrap();
        assert_eq!(plan.dataset.unwrap().size_bytes_max, 10 * GIB + 512);
        assert_eq!((plan.phases[0].stop.passes, plan.phases[0].stop.time_ns), (Some(1), None));
        assert!(plan.total_ns > plan.estimate_ns * 100, "nobody knows how long it takes");
    }

    #[test]
    fn discard_with_io_uring_on_device_is_refused() {
        let phases = |spec| planned(&request_for(&[spec]), Backing::Devices, None).unwrap().phases;
        let device = device();
        let problem = check_discard(&phases("discard:q4:engine=uring"), &device).unwrap_err().to_string();
        assert!(problem.contains("not through io_uring; drop engine=uring"), "{problem}");
        assert!(check_discard(&phases("discard:q4:engine=uring"), &disk_that_polls(None)).is_ok());
        assert!(check_discard(&phases("discard:q4"), &device).is_ok());
    }

    #[test]
    fn unsupported_device_test_is_refused_or_left_out() {
        for (test, cause) in [
            ("write", "a block device, which skye only reads; use read tests"),
            ("fsync", "skye only reads"),
            ("stat", "a block device, not a directory"),
            ("read:dedupe=5", "dedupe is for files that skye creates; drop dedupe"),
            ("read:range=0..20g", "its size is 10737418240 bytes; use a range within it"),
            ("read:seq512:zones=1k", "more than 1048576 zones; use zones="),
        ] {
            let problem = planned_on(&request_for(&[test]), &device()).unwrap_err();
            assert!(problem.contains(cause), "{test}: {problem}");
        }
        let verified = Request { verify: Some(true), ..request_for(&["read"]) };
        assert!(planned_on(&verified, &device()).unwrap_err().contains("drop --verify"));
        let all = request_for(&["write", "read:rnd4k", "rewrite", "create", "read:engine=null"]);
        let plan = planned_on(&adapt_to_existing_target(all, &device()), &device()).unwrap();
        assert_eq!(plan.tests, ["read:rnd4k", "read:seq1m:engine=null"]);
        let left_out: Vec<_> = plan.notes.iter().filter(|note| note.starts_with("skipped")).collect();
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        assert_eq!(
            left_out[0],
            "skipped write:seq1m, rewrite:seq1m: /dev/sda is a block device, which skye only reads"
        );
        let range = planned(&request_for(&["read:range=0..1m"]), Backing::Devices, None).unwrap_err();
        assert!(
            range.contains("skye creates the files") && range.contains("choose a device or a file"),
            "{range}"
        );
    }

    /// The device, named to be erased.
    fn erased() -> Target {
        let erased =
            ErasedDevice { serial: Some("S1".into()), size_bytes: 10 * GIB + 512, ..ErasedDevice::default() };
        let mut target = Target { erased: Some(erased), ..device() };
        target.space.free_bytes = target.space.total_bytes;
        target
    }

    #[test]
    fn erased_device_is_laid_out_like_a_file() {
        let plan =
            planned_on(&request_for(&["write:rnd4k:q32t4", "read:seq1m", "rw:shared"]), &erased()).unwrap();
        let dataset = plan.dataset.as_ref().unwrap();
        assert_eq!((dataset.size_bytes_max, dataset.layout_bytes_max()), (4 * GIB, 4 * GIB));
        assert!(!dataset.size_is_fixed && !dataset.is_existing);
        assert!(plan.phases.iter().all(|phase| dataset.group_of(&phase.workload) == Some(0)));
        assert!(plan.bytes_to_write_max > 4 * GIB && plan.bytes_to_write_max <= plan.write_limit_bytes);
        assert!(!plan.notes.iter().any(|note| note.contains("read-only")), "{:?}", plan.notes);
        // Its whole length, and nothing kept free.
        let whole = Request {
            size: Some(Size::PercentOfFree(100.0)),
            verify: Some(true),
            ..request_for(&["write", "read"])
        };
        assert_eq!(planned_on(&whole, &erased()).unwrap().dataset.unwrap().size_bytes_max, 10 * GIB);
        // The size follows the end of the requested range.
        let plan = planned_on(&request_for(&["read:range=6g..7g", "write:seq512k"]), &erased()).unwrap();
        let dataset = plan.dataset.unwrap();
        assert_eq!((dataset.size_bytes_max, dataset.size_is_fixed), (7 * GIB, true));
        let compressed = request_for(&["write:compress=50", "read:compress=50"]);
        assert_eq!(
            planned_on(&compressed, &erased()).unwrap().dataset.unwrap().groups[0].compress_percent,
            50
        );
        let preset = request_for(&["write", "read:rnd4k", "create", "write:fresh"]);
        let plan = planned_on(&adapt_to_existing_target(preset, &erased()), &erased()).unwrap();
        assert_eq!(plan.tests, ["write:seq1m", "read:rnd4k"]);
    }

    #[test]
    fn invalid_erase_request_is_refused() {
        let problem = |request: &Request, target: &Target| planned_on(request, target).unwrap_err();
        for (test, cause) in [
            ("create", "a block device, not a directory"),
            ("write:fresh", "fresh is for files that skye creates"),
            ("write:files=2", "files is for files that skye creates"),
            ("read:range=9g..11g", "its size is 10737418240 bytes"),
        ] {
            let problem = problem(&request_for(&[test]), &erased());
            assert!(problem.contains(cause), "{test}: {problem}");
        }
        let mixed = problem(&request_for(&["write:compress=50", "read"]), &erased());
        assert!(mixed.contains("one data pattern") && mixed.contains("compress"), "{mixed}");
        let large = Request { size: Some(Size::Bytes(11 * GIB)), ..request_for(&["write"]) };
        assert!(problem(&large, &erased()).contains("its size is 10 GiB; use a smaller --size"));
        let [size, write_limit] = [2 * GIB, GIB].map(|bytes| Some(Size::Bytes(bytes)));
        let limited = Request { size, write_limit, ..request_for(&["write"]) };
        assert!(problem(&limited, &erased()).contains("use --write-limit"));

        let erase_request = Request { erase: Some("S1".into()), ..request_for(&["read"]) };
        for kind in [TargetKind::Directory, TargetKind::File, TargetKind::Simulated] {
            let problem = problem(&erase_request, &Target { kind, ..device() });
            assert!(problem.contains("--erase is for block devices only"), "{problem}");
        }
        let named = Request { erase_signature: vec!["gpt".into()], ..request_for(&["read"]) };
        assert!(problem(&named, &device()).contains("--erase-signature requires --erase"));
        let data = Request { erase_data: Some(true), ..request_for(&["read"]) };
        assert!(problem(&data, &device()).contains("--erase-data requires --erase"));
        let written = problem(&request_for(&["write"]), &device());
        assert!(written.contains("--erase ID") && written.contains("`skye doctor /dev/sda`"), "{written}");
        assert!(
            !problem(&request_for(&["write"]), &Target { kind: TargetKind::File, ..device() })
                .contains("--erase")
        );
    }
}
