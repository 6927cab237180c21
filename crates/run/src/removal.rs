//! The only removal of files: from a descriptor, and only names that naming rules produce.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use model::marker::{FILE_NAME, NamePattern};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags, SeekFrom};
use rustix::io::Errno;

/// Flags that open a directory for reading, never through a link.
pub const DIRECTORY_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Reason for leaving a file that no rule produces.
pub const NOT_OURS: &str = "not made by skye";

/// Reason for leaving a file with a name of the kind that a rule produces, and a number beyond it.
pub const NUMBER_TOO_HIGH: &str = "not in its marker";

/// Names that a pass over a directory may read without removing one of them. In a private directory, only skye makes
/// names.
const PASSED_OVER_MAX: u64 = 10_000;
/// Passes in a row that may remove no less than the pass before. Each pass meets only names that the one
/// before has left.
const STALLED_PASSES_MAX: u32 = 3;

/// Opens a directory by its name in another one. Never follows a link, and never crosses a mount, not even a
/// bind mount of the same file system.
pub fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match rustix::fs::openat2(parent, name, DIRECTORY_FLAGS, Mode::empty(), resolve) {
        // Before Linux 5.6, and in some sandboxes, the device number has to do: it shows all mounts but bind
        // mounts.
        Err(Errno::NOSYS | Errno::PERM) => {
            let directory = rustix::fs::openat(parent, name, DIRECTORY_FLAGS, Mode::empty())?;
            let same = rustix::fs::fstat(&directory)?.st_dev == rustix::fs::fstat(parent)?.st_dev;
            if same { Ok(directory) } else { Err(Errno::XDEV) }
        }
        opened => opened,
    }
}

/// Returns true if a directory has no entries.
pub fn is_empty(directory: &OwnedFd) -> Result<bool, Errno> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 1 << 10];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns how many descriptors a removal by these rules opens at a time: one for each level of directories
/// below.
pub fn descriptors(rules: &[NamePattern]) -> usize {
    rules
        .iter()
        .filter_map(|rule| rule.inside.as_deref())
        .map(|inside| 1 + descriptors(inside))
        .max()
        .unwrap_or(0)
}

/// Result of a removal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Files and directories removed.
    pub removed_files: u64,
    /// Names that were left, each with the reason: no rule produces it, or it could not be removed.
    pub left: Vec<(String, String)>,
}

/// File systems whose modes may come from mount options (`linux/magic.h`; NTFS): FAT, exFAT, NTFS, ntfs3, SMB, CIFS, SMB2,
/// 9p, FUSE.
const FIXED_MODE_MAGICS: [u64; 9] = [
    0x4D44,
    0x2011_BAB0,
    0x5346_544E,
    0x7366_746E,
    0x517B,
    0xFF53_4D42,
    0xFE53_4D42,
    0x0102_1997,
    observe::FUSE_MAGIC,
];

/// Returns true if the mode of a directory may be that of all directories on its file system.
pub fn may_have_fixed_mode(directory: BorrowedFd<'_>) -> bool {
    observe::file_system_magic(directory).is_some_and(|magic| FIXED_MODE_MAGICS.contains(&magic))
}

/// Removes from `directory` all names that `rules` produce. Never crosses a mount.
///
/// Every removal raises `progress`, so that a hanging one can be noticed.
pub fn remove_contents(directory: BorrowedFd<'_>, rules: &[NamePattern], progress: &AtomicU64) -> Removal {
    let mut removal = Removal::default();
    remove_level(directory, "", rules, progress, &mut removal);
    removal
}

fn remove_level(
    directory: BorrowedFd<'_>,
    path: &str,
    rules: &[NamePattern],
    progress: &AtomicU64,
    removal: &mut Removal,
) {
    let stop = |reason: String, removal: &mut Removal| removal.left.push((format!("{path}."), reason));
    let (mut last, mut stalled) = (u64::MAX, 0);
    // The listing may skip entries while others are removed, so passes repeat until one removes nothing.
    loop {
        let before = removal.removed_files;
        removal.left.retain(|(left, _)| !left.starts_with(path) || left.len() <= path.len());
        match remove_pass(directory, path, rules, progress, removal) {
            // Without the directory, there is nothing to remove.
            Ok(PassEnd::Reached) | Err(Errno::NOENT) => {}
            Ok(PassEnd::Endless) => {
                // These names say no more than that there are so many.
                removal.left.retain(|(left, _)| !left.starts_with(path) || left.len() <= path.len());
                return stop(
                    format!("it has more than {PASSED_OVER_MAX} names that cannot be removed"),
                    removal,
                );
            }
            Err(errno) => return stop(std::io::Error::from(errno).to_string(), removal),
        }
        let removed = removal.removed_files - before;
        if removed == 0 {
            return;
        }
        stalled = if removed >= last { stalled + 1 } else { 0 };
        last = removed;
        if stalled == STALLED_PASSES_MAX {
            return stop("it still lists names after their removal".into(), removal);
        }
    }
}

/// End of a pass over a directory.
enum PassEnd {
    /// The pass reached the end of the directory.
    Reached,
    /// The pass stopped earlier: no work directory has this many names.
    Endless,
}

fn remove_pass(
    directory: BorrowedFd<'_>,
    path: &str,
    rules: &[NamePattern],
    progress: &AtomicU64,
    removal: &mut Removal,
) -> Result<PassEnd, Errno> {
    // The pass has a descriptor of its own, because someone else may use the position of the given one. If no
    // descriptor is left, that one must do.
    let own = match rustix::fs::openat(directory, ".", DIRECTORY_FLAGS, Mode::empty()) {
        Ok(own) => Some(own),
        Err(Errno::MFILE | Errno::NFILE) => None,
        Err(errno) => return Err(errno),
    };
    let reader = own.as_ref().map_or(directory, AsFd::as_fd);
    rustix::fs::seek(reader, SeekFrom::Start(0))?;
    // The buffer is small, because each level has one on the stack of the removing thread.
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4 << 10];
    let mut entries = RawDir::new(reader, &mut buffer);
    let (mut met, before) = (0, removal.removed_files);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        met += 1;
        if met - (removal.removed_files - before).min(met) > PASSED_OVER_MAX {
            return Ok(PassEnd::Endless);
        }
        let is_dot = matches!(name.to_bytes(), b"." | b"..");
        let is_marker = path.is_empty() && name.to_bytes() == FILE_NAME.as_bytes();
        if is_dot || is_marker {
            continue;
        }
        let entry_path = || format!("{path}{}", name.to_string_lossy());
        let Some(rule) = rules.iter().find(|rule| rule.produces(name.to_bytes())) else {
            let is_of_kind = rules.iter().any(|rule| rule.number_of(name.to_bytes()).is_some());
            removal.left.push((entry_path(), if is_of_kind { NUMBER_TOO_HIGH } else { NOT_OURS }.into()));
            continue;
        };
        let removed = match &rule.inside {
            None => rustix::fs::unlinkat(directory, name, AtFlags::empty()),
            Some(inside) => {
                let below = remove_directory(
                    directory,
                    name,
                    &format!("{}/", entry_path()),
                    inside,
                    progress,
                    removal,
                );
                // The entries that keep it from being empty have been named already.
                if below == Err(Errno::NOTEMPTY) { continue } else { below }
            }
        };
        match removed {
            Ok(()) => {
                removal.removed_files += 1;
                progress.fetch_add(1, Ordering::Relaxed);
            }
            Err(Errno::NOENT) => {}
            Err(errno) => removal.left.push((entry_path(), std::io::Error::from(errno).to_string())),
        }
    }
    Ok(PassEnd::Reached)
}

fn remove_directory(
    parent: BorrowedFd<'_>,
    name: &CStr,
    path: &str,
    rules: &[NamePattern],
    progress: &AtomicU64,
    removal: &mut Removal,
) -> Result<(), Errno> {
    let directory = open_directory(parent, name)?;
    remove_level(directory.as_fd(), path, rules, progress, removal);
    drop(directory);
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn removal_in_a_deleted_directory_finds_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let open = File::open(temp.path()).unwrap();
        drop(temp);
        let removal = remove_contents(open.as_fd(), &[], &AtomicU64::new(0));
        assert_eq!((removal.removed_files, removal.left), (0, Vec::new()));
    }

    #[test]
    fn removal_deletes_pattern_names_and_lists_the_rest() {
        let temp = tempfile::tempdir().unwrap();
        let at = |path: &str| temp.path().join(path);
        fs::create_dir_all(at("t0000/d00001")).unwrap();
        fs::create_dir(at("t0009")).unwrap();
        for file in ["data-0000", "data-0007", "t0000/f00000001", "t0000/d00001/f00000002", "t0000/mine"] {
            File::create(at(file)).unwrap();
        }
        fs::write(at("precious"), "data").unwrap();
        std::os::unix::fs::symlink(at("precious"), at("data-0001")).unwrap();
        let files = || NamePattern::files("f", 8, 10);
        let below = NamePattern::directories("d", 5, 2, vec![files()]);
        let rules =
            [NamePattern::files("data-", 4, 2), NamePattern::directories("t", 4, 2, vec![files(), below])];

        let directory = File::open(temp.path()).unwrap();
        let removal = remove_contents(directory.as_fd(), &rules, &AtomicU64::new(0));
        let mut left: Vec<_> = removal.left.iter().map(|(path, _)| path.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["data-0007", "precious", "t0000/mine", "t0009"]);
        assert_eq!(removal.removed_files, 5, "two files, a link of ours, a file below and its directory");
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "data");
        assert!(at("t0000/mine").exists() && !at("t0000/d00001").exists());
    }
}
