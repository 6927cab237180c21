//! Processes that have a device or a file open, mapped, or registered in a ring of io_uring.
//!
//! Threads may have tables of descriptors of their own, and live on when the first thread of their process has ended. So
//! each table is read once, by any thread that has it. A descriptor that is in flight on a socket is in no table.

use std::ffi::c_long;

use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, readlinkat, statx};
use rustix::io::Errno;

use crate::block_device::Backing;
use crate::device::{Place, numbers};
use crate::holding::lives;
use crate::parse::mountinfo::unescape;
use crate::root::Root;

/// Samples of the open files. A process that udev started is gone before the last.
const SAMPLES: u32 = 8;
/// Pause between two samples.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(125);
/// `KCMP_FILES` of linux/kcmp.h: compares the tables of descriptors of two threads.
const KCMP_FILES: c_long = 2;
/// Name of a ring in the links of `/proc/PID/fd`.
const RING: &[u8] = b"anon_inode:[io_uring]";

/// Processes that use a device or a file.
#[derive(Default)]
pub(crate) struct Opened {
    /// Each of them, as a clause.
    pub by: Vec<String>,
    /// Processes whose open files this user may not see.
    pub unseen: Vec<i32>,
}

/// Returns the processes that use a device of the family, or the file below it. This process does not count, and neither
/// does one that has opened it for a moment.
pub(crate) fn openers(root: &Root, family: &[Place], file: Option<Backing>) -> Opened {
    let mut now = Opened::default();
    if !root.is_system() {
        return now;
    }
    let devices = family.iter().map(|place| (numbers(root, place), place.name.clone())).collect();
    let wanted = Wanted { devices, file };
    for sample in 0..SAMPLES {
        if sample > 0 {
            std::thread::sleep(PAUSE);
        }
        now = open_now(root, &wanted);
        if now.by.is_empty() {
            break;
        }
    }
    now
}

/// Devices by their numbers, and the file below them.
struct Wanted {
    devices: Vec<((u32, u32), String)>,
    file: Option<Backing>,
}

impl Wanted {
    /// Returns the name of the device, or of its file, that a path leads to.
    ///
    /// # Errors
    /// The path cannot be followed.
    fn name(&self, path: impl rustix::path::Arg) -> Result<Option<&str>, Errno> {
        // Without this flag, a file on a dead server would never answer.
        let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO)?;
        Ok(match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::BlockDevice => {
                let numbers = (found.stx_rdev_major, found.stx_rdev_minor);
                self.devices.iter().find(|(theirs, _)| *theirs == numbers).map(|(_, name)| name.as_str())
            }
            FileType::RegularFile if self.is_file(&found) => Some("its file"),
            _ => None,
        })
    }

    fn is_file(&self, found: &Statx) -> bool {
        let device = (found.stx_dev_major, found.stx_dev_minor);
        self.file.is_some_and(|file| file.device() == device && file.file.1 == found.stx_ino)
    }
}

fn open_now(root: &Root, wanted: &Wanted) -> Opened {
    // Its own number in this /proc, which may be that of another namespace.
    let own = root.real("proc/self");
    let processes = root.list("proc").into_iter().filter_map(|name| name.parse::<i32>().ok());
    let mut found = Opened::default();
    for process in processes.filter(|process| own != Some(format!("proc/{process}"))) {
        match use_by(root, process, wanted) {
            Ok(None) => {}
            Ok(Some(how)) => {
                let comm = root.line(&format!("proc/{process}/comm")).unwrap_or_default();
                found.by.push(format!("process {process} ({comm}) has {how}"));
            }
            Err(Unreadable) => found.unseen.push(process),
        }
    }
    found
}

/// A living process whose files this user may not see.
struct Unreadable;

/// Returns how a process uses what is wanted: "sda open", "sda mapped".
fn use_by(root: &Root, process: i32, wanted: &Wanted) -> Result<Option<String>, Unreadable> {
    let tasks = root.list(&format!("proc/{process}/task"));
    // Each table of descriptors by the first thread that has it.
    let mut owners: Vec<i32> = Vec::new();
    for task in tasks.iter().filter_map(|task| task.parse().ok()) {
        if !lives(root, task) || owners.iter().any(|owner| have_one_table(*owner, task)) {
            continue;
        }
        // Threads share the memory of their process.
        if owners.is_empty()
            && let Some(name) = mapped(root, task, wanted)?
        {
            return Ok(Some(format!("{name} mapped")));
        }
        owners.push(task);
        if let Some(how) = open_by(root, task, wanted)? {
            return Ok(Some(how));
        }
    }
    Ok(None)
}

/// Returns true if two threads share a table of descriptors. A kernel that cannot tell says no.
fn have_one_table(one: i32, other: i32) -> bool {
    // SAFETY: kcmp(2) takes five integers and touches no memory of this process.
    let result = unsafe {
        let [one, other] = [one, other].map(c_long::from);
        libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0 as c_long, 0 as c_long)
    };
    result == 0
}

/// Returns what is wanted of a thread's descriptors, and of the files that are registered in its rings.
fn open_by(root: &Root, task: i32, wanted: &Wanted) -> Result<Option<String>, Unreadable> {
    let at = format!("proc/{task}/fd");
    let Some(files) = root.numbered(&at) else { return gone(root, task) };
    let mut found = None;
    files.visit(|number| {
        if found.is_some() {
            return;
        }
        let path = root.path(&format!("{at}/{number}"));
        if let Ok(Some(name)) = wanted.name(&path) {
            found = Some(format!("{name} open"));
        } else if readlinkat(CWD, &path, Vec::new()).is_ok_and(|link| link.to_bytes() == RING) {
            let text = root.read(&format!("proc/{task}/fdinfo/{number}")).unwrap_or_default();
            let name = registered(&text).into_iter().find_map(|path| wanted.name(path).ok().flatten());
            found = name.map(|name| format!("{name} registered in a ring of io_uring"));
        }
    });
    Ok(found)
}

/// Returns the paths of the files that the information on a ring lists.
fn registered(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.starts_with("UserFiles:")).skip(1);
    let entry = |line: &str| {
        let (number, path) = line.split_once(": ")?;
        number.trim().parse::<u32>().ok()?;
        Some(unescape(path.trim_end()))
    };
    lines.map_while(entry).collect()
}

/// Returns what is wanted of the files that a process has mapped: it may have closed them.
fn mapped<'a>(root: &Root, task: i32, wanted: &'a Wanted) -> Result<Option<&'a str>, Unreadable> {
    let at = format!("proc/{task}/map_files");
    if !root.exists(&at) {
        return gone(root, task);
    }
    for range in root.list(&at) {
        match wanted.name(root.path(&format!("{at}/{range}"))) {
            Ok(None) => {}
            Ok(name) => return Ok(name),
            Err(Errno::PERM | Errno::ACCESS) => return Err(Unreadable),
            // It was unmapped since.
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Returns nothing for a thread that has ended since it was listed.
fn gone<T>(root: &Root, task: i32) -> Result<Option<T>, Unreadable> {
    if lives(root, task) { Err(Unreadable) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_files_of_a_ring_are_listed() {
        let text = "SqMask:\t0x3\nUserFiles:\t3\n    0: /dev/loop0\n    1: /a\\040b\n    2: <none>\nUserBufs:\t0\n    0: 7\n";
        assert_eq!(registered(text), ["/dev/loop0", "/a b", "<none>"]);
        assert!(registered("").is_empty());
    }

    #[test]
    fn threads_of_one_process_share_their_descriptors() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let other =
            std::thread::spawn(move || have_one_table(own, rustix::thread::gettid().as_raw_nonzero().get()));
        assert!(other.join().unwrap());
        assert!(!have_one_table(own, 1));
    }
}
