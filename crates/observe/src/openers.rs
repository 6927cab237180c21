//! Processes that have a device or a file open, mapped, or registered in a ring of io_uring.
//!
//! Threads may have separate descriptor tables, and may outlive the first thread of their process. So each table is
//! read once, through any thread that has it. A descriptor that is in flight on a socket is in no table. Neither are
//! the files of a ring without descriptor and mapping.
//!
//! A thread may exit after the list was read, and leave its files to an unlisted child. So the list is read again until
//! no thread exits unread. An `O_PATH` descriptor reads and writes nothing, and is no use.

use std::collections::BTreeSet;
use std::ffi::c_long;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags, readlinkat, statx};
use rustix::io::Errno;

use crate::alive::is_thread_alive;
use crate::block_device::FileId;
use crate::device::{SysfsDevice, numbers};
use crate::identity::{FUSE_MAGIC, magic_of};
use crate::loop_file::has_unique_inodes;
use crate::parse::mountinfo::unescape;
use crate::root::{Root, is_absent};

/// Samples of the open files. A process that udev started is gone before the last, and a ring that is busy shows its files
/// in one of them.
const SAMPLES: u32 = 8;
/// Samples without a user that end the search after one with a user, who may change its process.
const UNUSED_SAMPLES_MIN: u32 = 2;
/// Fewest and most lists of all threads in one sample. After the highest number, new threads begin at
/// the lowest again, so that one list may miss one.
const THREAD_SCANS_MIN: u32 = 2;
const THREAD_SCANS_MAX: u32 = 256;
/// Threads that end unread, after which a sample ends.
const ENDED_THREADS_MAX: usize = 4000;
/// Pause between two samples.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(125);
/// `KCMP_FILES` of linux/kcmp.h: compares the tables of descriptors of two threads.
const KCMP_FILES: c_long = 2;
/// Name of a ring in the links of `/proc/PID/fd`.
const RING: &[u8] = b"anon_inode:[io_uring]";
/// Beginnings of the names of registered files that are no device and no file of a file system.
const NON_PATHS: [&str; 4] = ["<none>", "anon_inode:", "pipe:", "socket:"];
/// Offset of the submission queue in a mapped ring (`IORING_OFF_SQES` in linux/io_uring.h). Each ring is mapped there once.
const RING_QUEUE_OFFSET: &str = "10000000";

/// Processes that use a device or a file, and those of which that is unknown.
#[derive(Default)]
pub(crate) struct Openers {
    /// Each user, as a clause.
    pub by: Vec<String>,
    /// Processes whose open files cannot be read.
    pub unreadable_files: Vec<i32>,
    /// Processes whose rings of io_uring cannot be read.
    pub unreadable_rings: Vec<i32>,
    /// Processes that ended before their open files were read, if each list had some.
    pub ended: Vec<i32>,
    /// True if `/proc` does not even list this process.
    pub is_incomplete: bool,
}

/// Device or file whose users are wanted.
pub(crate) struct SearchTarget {
    /// Devices by their numbers, with their names.
    devices: Vec<((u32, u32), String)>,
    /// File below a loop device.
    file: Option<FileId>,
    /// Its size.
    file_bytes: Option<u64>,
}

/// A path leads to something that is wanted, to nothing that is, or to something without a type, such as a ring.
enum PathMatch {
    To(String),
    NoMatch,
    Untyped,
}

impl SearchTarget {
    pub fn new(root: &Root, family: &[SysfsDevice], file: Option<FileId>, file_bytes: Option<u64>) -> Self {
        let devices = family.iter().map(|place| (numbers(root, place), place.name.clone())).collect();
        Self { devices, file, file_bytes }
    }

    /// Follows a path.
    ///
    /// # Errors
    /// The path cannot be followed.
    fn match_path(&self, path: &Path) -> Result<PathMatch, Errno> {
        // Without this flag, a file on a dead server would never answer.
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
        let found = match statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted) {
            // A user's own FUSE file system refuses other users, and has no devices. Its files may back a loop device.
            Err(Errno::ACCESS) if self.file.is_none() && is_fuse(path) => {
                return Ok(PathMatch::NoMatch);
            }
            found => found?,
        };
        Ok(match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::BlockDevice => {
                let numbers = (found.stx_rdev_major, found.stx_rdev_minor);
                let device = self.devices.iter().find(|(theirs, _)| *theirs == numbers);
                device.map_or(PathMatch::NoMatch, |(_, name)| PathMatch::To(name.clone()))
            }
            FileType::RegularFile if self.is_file(&found) => PathMatch::To("its backing file".into()),
            FileType::RegularFile if self.may_be_file(&found, path) => {
                PathMatch::To("a file that may be its backing file, by another path,".into())
            }
            FileType::Unknown => PathMatch::Untyped,
            _ => PathMatch::NoMatch,
        })
    }

    /// Returns true for an error that may hide what is wanted. Servers that do not respond hide files, and no device.
    fn is_hidden_by(&self, errno: Errno) -> bool {
        match errno {
            Errno::STALE | Errno::NOTCONN | Errno::HOSTDOWN | Errno::TIMEDOUT => self.file.is_some(),
            errno => !is_absent(errno),
        }
    }

    fn is_file(&self, found: &Statx) -> bool {
        let device = (found.stx_dev_major, found.stx_dev_minor);
        self.file == Some(FileId { device, inode: found.stx_ino })
    }

    /// Returns true for a file of the same size on an overlay, in user space or on a server.
    fn may_be_file(&self, found: &Statx, path: &Path) -> bool {
        let device = (found.stx_dev_major, found.stx_dev_minor);
        self.file_bytes == Some(found.stx_size)
            && !rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .is_ok_and(|file| has_unique_inodes(file, device))
    }
}

/// Returns true for a file of a FUSE file system.
fn is_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| magic_of(&found) == FUSE_MAGIC)
}

/// Returns the processes that use what is wanted. This process does not count, and neither does one that has opened it for
/// a moment. `progress` counts processes.
pub(crate) fn openers(root: &Root, wanted: &SearchTarget, progress: &AtomicU64) -> Openers {
    let (mut used, mut free) = (None, 0);
    if !root.is_system() {
        return Openers::default();
    }
    for sample in 0..SAMPLES {
        if sample > 0 {
            std::thread::sleep(PAUSE);
        }
        let found = open_now(root, wanted, progress);
        if !(found.by.is_empty() && found.unreadable_rings.is_empty() && found.ended.is_empty()) {
            (used, free) = (Some(found), 0);
            continue;
        }
        free += 1;
        if used.is_none() || free >= UNUSED_SAMPLES_MIN {
            return found;
        }
    }
    used.unwrap_or_default()
}

fn open_now(root: &Root, wanted: &SearchTarget, progress: &AtomicU64) -> Openers {
    let mut found = Openers::default();
    let Some(processes) = root.numbered("proc") else { return Openers { is_incomplete: true, ..found } };
    // Its own number in this /proc, which may be that of another namespace.
    let own = root.real("proc/self");
    let (mut known, mut ended, mut lists_own) = (BTreeSet::new(), 0, false);
    for list in 0..THREAD_SCANS_MAX {
        found.ended.clear();
        processes.visit_live(|process| {
            let is_own = own == Some(format!("proc/{process}"));
            lists_own |= is_own;
            if ended >= ENDED_THREADS_MAX || is_own {
                return;
            }
            let tasks = tasks(root, process);
            if !tasks.is_empty() && tasks.iter().all(|task| known.contains(task)) {
                return;
            }
            progress.fetch_add(1, Ordering::Relaxed);
            match process_usage(root, &tasks, wanted) {
                Ok(None) => {}
                Ok(Some(usage)) => {
                    let comm = root.line(&format!("proc/{process}/comm")).unwrap_or_default();
                    let clause = format!("process {process} ({comm}) has {usage}");
                    found.by.extend((!found.by.contains(&clause)).then_some(clause));
                }
                Err(Unreadable::Files) => found.unreadable_files.push(process),
                Err(Unreadable::Rings) => found.unreadable_rings.push(process),
            }
            // A thread that lives now had its files when they were read.
            if tasks.is_empty()
                || tasks.iter().any(|task| !known.contains(task) && !is_thread_alive(root, *task))
            {
                found.ended.push(process);
                ended += 1;
            }
            known.extend(tasks);
        });
        if ended >= ENDED_THREADS_MAX || list + 1 >= THREAD_SCANS_MIN && found.ended.is_empty() {
            break;
        }
    }
    found.is_incomplete = !lists_own;
    for processes in [&mut found.unreadable_files, &mut found.unreadable_rings, &mut found.ended] {
        processes.dedup();
    }
    found
}

/// Returns the threads of a process; none if it has ended.
fn tasks(root: &Root, process: i32) -> Vec<i32> {
    let names = root.list(&format!("proc/{process}/task"));
    names.iter().filter_map(|task| task.parse().ok()).collect()
}

/// Part of a living process that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    Files,
    Rings,
}

/// Returns how a process uses what is wanted: "sda open", "sda mapped".
fn process_usage(root: &Root, tasks: &[i32], wanted: &SearchTarget) -> Result<Option<String>, Unreadable> {
    // Each table of descriptors by the first thread that has it.
    let mut owners: Vec<i32> = Vec::new();
    let (mut has_mapped_ring, mut rings, mut unread) = (false, 0, None);
    for &task in tasks {
        if !is_thread_alive(root, task) || owners.iter().any(|owner| share_descriptor_table(*owner, task)) {
            continue;
        }
        // Threads share the memory of their process.
        if owners.is_empty() {
            match mapped(root, task, wanted) {
                Ok(Mapped::SearchTarget(name)) => return Ok(Some(format!("{name} mapped"))),
                Ok(Mapped::Ring) => has_mapped_ring = true,
                Ok(Mapped::Nothing) => {}
                // Its descriptors may be readable.
                Err(why) => unread = Some(why),
            }
        }
        owners.push(task);
        let table = match descriptor_usage(root, task, wanted) {
            Ok(table) => table,
            Err(why) => {
                unread = Some(why);
                continue;
            }
        };
        if table.usage.is_some() {
            return Ok(table.usage);
        }
        rings += table.rings;
        unread = unread.or(table.unread);
    }
    // A ring lives on without its descriptor.
    if has_mapped_ring && mapped_rings(root, owners[0]).is_none_or(|mapped| mapped > rings) {
        return Err(Unreadable::Rings);
    }
    unread.map_or(Ok(None), Err)
}

/// Returns true if two threads share a table of descriptors. A kernel that cannot tell says no.
fn share_descriptor_table(one: i32, other: i32) -> bool {
    // SAFETY: kcmp(2) takes five integers and touches no memory of this process.
    let result = unsafe {
        let [one, other] = [one, other].map(c_long::from);
        libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0 as c_long, 0 as c_long)
    };
    result == 0
}

/// Contents of a table of descriptors.
#[derive(Default)]
struct Table {
    /// Use of what is wanted.
    usage: Option<String>,
    /// Rings of io_uring.
    rings: u32,
    unread: Option<Unreadable>,
}

/// Reads a thread's descriptors, and the files that are registered in its rings.
fn descriptor_usage(root: &Root, task: i32, wanted: &SearchTarget) -> Result<Table, Unreadable> {
    let at = format!("proc/{task}/fd");
    let mut table = Table::default();
    let Some(files) = root.numbered(&at) else { return default_if_ended(root, task) };
    let mut is_refused = false;
    files.visit(|number| {
        if table.usage.is_some() || is_refused {
            return;
        }
        let path = root.path(&format!("{at}/{number}"));
        match wanted.match_path(&path) {
            Ok(PathMatch::To(_)) if is_path_only(root, task, number) => {}
            Ok(PathMatch::To(name)) => table.usage = Some(format!("{name} open")),
            Ok(PathMatch::Untyped) if may_be_ring(&path) => {
                table.rings += 1;
                match registered(root, task, number, wanted) {
                    Ok(None) => {}
                    Ok(Some(name)) => table.usage = Some(format!("{name} registered in an io_uring")),
                    Err(unread) => table.unread = Some(unread),
                }
            }
            Err(errno) if wanted.is_hidden_by(errno) => {
                table.unread = Some(Unreadable::Files);
                // Links of a process are refused all together. Process 1 of a container may have thousands.
                is_refused = readlinkat(CWD, &path, Vec::new()).is_err_and(|errno| errno == Errno::ACCESS);
            }
            // It was closed since, or leads nowhere.
            Ok(_) | Err(_) => {}
        }
    });
    Ok(table)
}

/// Returns true for a descriptor of `O_PATH`, through which nothing is read or written.
fn is_path_only(root: &Root, task: i32, number: i32) -> bool {
    let text = root.read(&format!("proc/{task}/fdinfo/{number}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
    u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & OFlags::PATH.bits() != 0)
}

/// Returns true if a link leads to a ring, or cannot be read.
fn may_be_ring(path: &Path) -> bool {
    match readlinkat(CWD, path, Vec::new()) {
        Ok(link) => link.to_bytes() == RING,
        Err(errno) => !is_absent(errno),
    }
}

/// Returns what is wanted of the files of a ring. The kernel lists paths alone. They never prove that a file is unused, as
/// another file may have its path by now.
fn registered(
    root: &Root,
    task: i32,
    number: i32,
    wanted: &SearchTarget,
) -> Result<Option<String>, Unreadable> {
    let text = root.read(&format!("proc/{task}/fdinfo/{number}")).ok_or(Unreadable::Files)?;
    let mut unread = None;
    for path in registered_paths(&text).ok_or(Unreadable::Rings)? {
        if NON_PATHS.iter().any(|name| path.starts_with(name)) {
            continue;
        }
        unread = Some(Unreadable::Rings);
        // A file of another mount namespace has a path in that alone. Older kernels list the last name of a path.
        let theirs = root.path(&format!("proc/{task}/root")).join(path.trim_start_matches('/'));
        let places = [root.path(&path), theirs].into_iter().filter(|_| path.starts_with('/'));
        for place in places {
            if let Ok(PathMatch::To(name)) = wanted.match_path(&place) {
                return Ok(Some(name));
            }
        }
    }
    unread.map_or(Ok(None), Err)
}

/// Returns the paths of the files that the information on a ring lists. The kernel leaves them out while the ring is busy,
/// which is `None`.
fn registered_paths(text: &str) -> Option<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("UserFiles:"));
    let count: u32 = lines.next()?.split_once(':')?.1.trim().parse().ok()?;
    let entry = |line: &str| {
        let (number, path) = line.split_once(": ")?;
        number.trim().parse::<u32>().ok()?;
        Some(unescape(path.trim_end()))
    };
    let paths: Vec<_> = lines.map_while(entry).collect();
    // A table may have free places, which are not listed.
    (count == 0 || !paths.is_empty()).then_some(paths)
}

/// Returns the number of rings that a process has mapped, at least 1; `None` if the list cannot be read.
fn mapped_rings(root: &Root, task: i32) -> Option<u32> {
    let maps = root.read(&format!("proc/{task}/maps"))?;
    let is_queue = |line: &&str| {
        let offset = line.split_whitespace().nth(2).unwrap_or_default();
        line.as_bytes().ends_with(RING) && offset.trim_start_matches('0') == RING_QUEUE_OFFSET
    };
    u32::try_from(maps.lines().filter(is_queue).count()).ok().map(|count| count.max(1))
}

/// Mapped files of a process.
enum Mapped {
    SearchTarget(String),
    Ring,
    Nothing,
}

/// Looks through the files that a process has mapped: it may have closed them.
fn mapped(root: &Root, task: i32, wanted: &SearchTarget) -> Result<Mapped, Unreadable> {
    let at = format!("proc/{task}/map_files");
    // A list cannot tell a directory without entries from one that cannot be read.
    match std::fs::read_dir(root.path(&at)).and_then(|mut entries| entries.next().transpose()) {
        Ok(_) => {}
        Err(_) => return default_if_ended(root, task).map(|()| Mapped::Nothing),
    }
    let mut found = Mapped::Nothing;
    for range in root.list(&at) {
        let path = root.path(&format!("{at}/{range}"));
        match wanted.match_path(&path) {
            Ok(PathMatch::To(name)) => return Ok(Mapped::SearchTarget(name)),
            Ok(PathMatch::Untyped) if may_be_ring(&path) => found = Mapped::Ring,
            Err(errno) if wanted.is_hidden_by(errno) => return Err(Unreadable::Files),
            // It was unmapped since, or is something else.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(found)
}

/// Returns nothing for a thread that has ended since it was listed.
fn default_if_ended<T: Default>(root: &Root, task: i32) -> Result<T, Unreadable> {
    if is_thread_alive(root, task) { Err(Unreadable::Files) } else { Ok(T::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_files_of_a_ring_are_listed() {
        let text = "SqMask:\t0x3\nUserFiles:\t3\n    0: /dev/loop0\n    1: /a\\040b\n    2: <none>\nUserBufs:\t0\n    0: 7\n";
        assert_eq!(registered_paths(text).unwrap(), ["/dev/loop0", "/a b", "<none>"]);
        assert!(registered_paths("UserFiles:\t0\nUserBufs:\t1\n    0: 7\n").unwrap().is_empty());
        // A busy ring lists none, or has no such line.
        assert!(registered_paths("UserFiles:\t3\nUserBufs:\t0\n").is_none());
        assert!(registered_paths("SqMask:\t0x3\n").is_none());
    }

    #[test]
    fn threads_of_one_process_share_their_descriptors() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let other = std::thread::spawn(move || {
            share_descriptor_table(own, rustix::thread::gettid().as_raw_nonzero().get())
        });
        assert!(other.join().unwrap());
        assert!(!share_descriptor_table(own, 1));
    }
}
