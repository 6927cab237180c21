//! The file below a loop device, and the kernel's own users of a file.
//!
//! The loop device has device and inode of its file. sysfs has a path, which may lead to another file or to none. Its mount
//! may be gone or belong to another namespace. So a path counts only where it leads to that device and inode.
//! Anything else about the file comes from there: its size, its times, and its file system.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, statx};

use crate::block_device::{Backing, FileId, backing};
use crate::holding::{VisibleMount, all_mounts};
use crate::identity::{FUSE_MAGIC, file_system_magic};
use crate::parse::mountinfo::{Mount, unescape};
use crate::root::Root;

/// Magic numbers of tmpfs, ramfs, hugetlbfs, btrfs, bcachefs and ZFS (linux/magic.h). Each file there has one inode, although
/// the file system has no block device. On an overlay, FUSE or NFS, the same bytes may be another file, too.
const UNIQUE_INODES: [u64; 6] =
    [0x0102_1994, 0x8584_58f6, 0x9584_58f6, 0x9123_683e, 0xca45_1a4e, 0x2fc1_2fc1];
/// Most bytes of a path in sysfs.
const PATH_BYTES_MAX: u64 = 1 << 16;

/// The file below a loop device, and the part of it that the device shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopFile {
    backing: Backing,
    /// Its present size.
    pub size_bytes: u64,
    /// True if no other file can have its bytes.
    pub is_unique: bool,
    /// Times of its last write and of its last change: a program can set the first, and not the second.
    modified_ns: i128,
    changed_ns: i128,
}

impl LoopFile {
    /// Asks an open loop device, or a partition of one, for the file below it. Returns `None` for another device, and if no
    /// path leads to the file.
    pub fn query(root: &Root, disk: &str, device: BorrowedFd<'_>) -> Option<Self> {
        Self::find(root, disk, backing(device)?)
    }

    pub(crate) fn find(root: &Root, disk: &str, backing: Backing) -> Option<Self> {
        let path = loop_path(root, disk)?;
        let is_it = |file: &OpenFile| file.id == backing.file;
        let own = OpenFile::at(&below(root, "", &path)?).filter(is_it);
        // The path may be that of another mount namespace.
        let found = own.or_else(|| {
            let mut places = namespace_paths(root, &all_mounts(root).visible, &path).into_iter();
            places.find_map(|place| OpenFile::at(&place).filter(is_it))
        });
        let OpenFile { descriptor, stat, id } = found?;
        let ns = |time: rustix::fs::StatxTimestamp| {
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        Some(Self {
            backing,
            size_bytes: stat.stx_size,
            is_unique: has_unique_inodes(&descriptor, id.device),
            modified_ns: ns(stat.stx_mtime),
            changed_ns: ns(stat.stx_ctime),
        })
    }

    /// Returns true if the loop device shows the same part of the same file.
    pub fn is_same_part(&self, other: &Self) -> bool {
        self.backing == other.backing
    }
}

/// Returns the path of the file below a loop device. It may lead anywhere.
pub(crate) fn loop_path(root: &Root, disk: &str) -> Option<PathBuf> {
    let file = root.open(&format!("sys/class/block/{disk}/loop/backing_file"))?;
    let mut bytes = Vec::new();
    file.take(PATH_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    // The name itself may end in a newline.
    Some(OsString::from_vec(bytes.strip_suffix(b"\n")?.to_vec()).into())
}

/// A file, opened without access to its contents.
struct OpenFile {
    descriptor: OwnedFd,
    stat: Statx,
    id: FileId,
}

impl OpenFile {
    /// Opens the file at a path. A dead server is not waited for.
    fn at(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = statx(&descriptor, "", flags, StatxFlags::BASIC_STATS).ok()?;
        let id = FileId { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino };
        let is_file = FileType::from_raw_mode(stat.stx_mode.into()).is_file();
        is_file.then_some(Self { descriptor, stat, id })
    }
}

/// Returns true if a path leads to this file.
pub(crate) fn leads_to(path: &str, file: FileId) -> bool {
    OpenFile::at(Path::new(path)).is_some_and(|found| found.id == file)
}

/// Returns true if each file of the file system of this file has one inode. `device` has the numbers of that file system.
pub(crate) fn has_unique_inodes(file: impl AsFd, device: (u32, u32)) -> bool {
    file_system_magic(file).is_some_and(|magic| is_one_inode_a_file(magic, device))
}

/// A file system of type fuseblk has the numbers of a block device, but a server may give the same bytes to two files.
fn is_one_inode_a_file(magic: u64, device: (u32, u32)) -> bool {
    UNIQUE_INODES.contains(&magic) || device.0 != 0 && magic != FUSE_MAGIC
}

/// Returns the place of an absolute path below a directory of the root.
fn below(root: &Root, directory: &str, path: &Path) -> Option<PathBuf> {
    Some(root.path(directory).join(path.strip_prefix("/").ok()?))
}

/// Returns the places to which a path leads in the mount namespaces of other processes.
fn namespace_paths(root: &Root, mounts: &[VisibleMount], path: &Path) -> Vec<PathBuf> {
    let mut processes: Vec<_> = mounts.iter().filter_map(|seen| seen.process).collect();
    processes.dedup();
    let places = processes.into_iter();
    places.filter_map(|process| below(root, &format!("proc/{process}/root"), path)).collect()
}

/// Uses of a file by the kernel itself, as clauses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelUses {
    pub uses: Vec<String>,
    /// Files of the kernel to which no path leads, so that each may be this one.
    pub unknown: Vec<String>,
}

/// Returns the kernel's own uses of a file, which no list of open files shows. They are swap space, mounts of the file itself,
/// and exports, but not loop devices.
pub(crate) fn kernel_uses(
    root: &Root,
    mounts: &[VisibleMount],
    exported: &[String],
    file: FileId,
) -> KernelUses {
    let mut found = KernelUses::default();
    let ids = |path: &str, mounts: &[VisibleMount]| -> Vec<FileId> {
        let path = Path::new(path);
        let places = below(root, "", path).into_iter().chain(namespace_paths(root, mounts, path));
        places.filter_map(|place| OpenFile::at(&place)).map(|file| file.id).collect()
    };
    let swaps = root.read("proc/swaps").unwrap_or_default();
    for line in swaps.lines().skip(1) {
        let mut words = line.split_whitespace();
        let (Some(path), Some("file")) = (words.next().map(unescape), words.next()) else { continue };
        match ids(&path, mounts) {
            ids if ids.contains(&file) => found.uses.push("its backing file is swap space".into()),
            ids if ids.is_empty() => {
                found.unknown.push(format!("the swap file {path} is not visible at its path"))
            }
            _ => {}
        }
    }
    // EROFS is the one file system that the kernel mounts from files without a loop device. The path in a list of mounts may
    // lead to another file by now, and further files of the mount are not listed.
    let is_from_file = |mount: &Mount| {
        mount.file_system == "erofs"
            && mount.major == 0
            && !mount.super_options.iter().any(|option| option.starts_with("fsid="))
    };
    let visible = mounts.iter().map(|seen| &seen.mount).find(|mount| is_from_file(mount));
    // The kernel also lists a file system whose mount is detached, or in a namespace without a process.
    let is_listed = root.list("sys/fs/erofs").iter().any(|name| name.starts_with("erofs-"));
    if is_listed || visible.is_some() {
        let place = visible.map_or(String::new(), |mount| format!(" at {}", mount.mount_point));
        found.uses.push(format!("it may be a file from which EROFS is mounted{place}"));
    }
    for path in exported {
        if ids(path, mounts).contains(&file) {
            found.uses.push("its backing file is exported".into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::parse::mountinfo;

    /// A machine with the files "image" and "other".
    fn machine() -> (tempfile::TempDir, Root, FileId) {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("proc/77")).unwrap();
        for name in ["image", "other"] {
            fs::write(home.path().join(name), name).unwrap();
        }
        let found = fs::metadata(home.path().join("image")).unwrap();
        let device = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        let root = Root::at(home.path());
        (home, root, FileId { device, inode: found.ino() })
    }

    /// A mount of this source, in the namespace of a process.
    fn mounted(file_system: &str, source: &str, process: Option<i32>) -> Vec<VisibleMount> {
        let text = format!("30 20 0:90 / /at ro - {file_system} {source} ro");
        mountinfo::parse(&text).into_iter().map(|mount| VisibleMount { mount, process }).collect()
    }

    fn kernel(uses: &[&str], unknown: &[&str]) -> KernelUses {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        KernelUses { uses: texts(uses), unknown: texts(unknown) }
    }

    #[test]
    fn inodes_of_fuse_prove_nothing_even_on_block_device() {
        let ext4 = 0xef53;
        assert!(is_one_inode_a_file(ext4, (8, 1)));
        assert!(is_one_inode_a_file(UNIQUE_INODES[0], (0, 40)));
        for (magic, device) in [(FUSE_MAGIC, (8, 1)), (FUSE_MAGIC, (0, 40)), (0x6969, (0, 41))] {
            assert!(!is_one_inode_a_file(magic, device), "{magic:x} {device:?}");
        }
    }

    #[test]
    fn erofs_mount_makes_use_of_a_file_unknown() {
        let (home, root, file) = machine();
        let uses = |mounts: &[VisibleMount]| kernel_uses(&root, mounts, &[], file).uses;
        let clause = "it may be a file from which EROFS is mounted";
        assert_eq!(uses(&mounted("tmpfs", "tmpfs", None)), Vec::<String>::new());
        assert_eq!(uses(&mounted("erofs", "/other", Some(77))), [format!("{clause} at /at")]);
        for name in ["features", "loop7"] {
            fs::create_dir_all(home.path().join("sys/fs/erofs").join(name)).unwrap();
        }
        assert_eq!(uses(&[]), Vec::<String>::new());
        fs::create_dir_all(home.path().join("sys/fs/erofs/erofs-339")).unwrap();
        assert_eq!(uses(&[]), [clause]);
    }

    #[test]
    fn swap_file_and_exported_file_are_used() {
        let (home, root, file) = machine();
        let swaps = |path: &str| {
            let text =
                format!("Filename Type Size Used Priority\n{path} file 1 0 -2\n/dev/sda2 partition 1 0 -2\n");
            fs::write(home.path().join("proc/swaps"), text).unwrap();
            kernel_uses(&root, &[], &[], file)
        };
        assert_eq!(swaps("/image"), kernel(&["its backing file is swap space"], &[]));
        assert_eq!(swaps("/other"), kernel(&[], &[]));
        assert_eq!(swaps("/a\\040b"), kernel(&[], &["the swap file /a b is not visible at its path"]));
        fs::remove_file(home.path().join("proc/swaps")).unwrap();
        let exported = kernel_uses(&root, &[], &["/image".into()], file);
        assert_eq!(exported, kernel(&["its backing file is exported"], &[]));
    }

    #[test]
    fn path_of_a_loop_keeps_each_byte() {
        let (home, root, _) = machine();
        let at = home.path().join("sys/class/block/loop3/loop");
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("backing_file"), b"/a \xff \n\n").unwrap();
        let path = loop_path(&root, "loop3").unwrap();
        assert_eq!(path.as_os_str().as_encoded_bytes(), b"/a \xff \n");
    }
}
