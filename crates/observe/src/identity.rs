//! Facts from the running kernel about a directory or a file, before anything is read under the root.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use model::UserError;
use model::target::{DirectIo, Geometry, Space};
use rustix::fs::{AtFlags, FileType, StatFs, StatxFlags};
use rustix::io::Errno;

use crate::file_status::FileStatus;
use crate::geometry::from_xfs;
use crate::root::Root;
use crate::subvolume;
use crate::xfs_geometry::xfs_geometry;

/// Magic number of ext2 to ext4 (include/uapi/linux/magic.h).
pub const EXT4_MAGIC: u64 = 0xEF53;
/// Magic number of XFS.
pub const XFS_MAGIC: u64 = 0x5846_5342;
/// Magic number of FUSE (fs/fuse/inode.c).
pub const FUSE_MAGIC: u64 = 0x6573_5546;
/// Magic number of overlayfs.
pub const OVERLAY_MAGIC: u64 = 0x794c_7630;
const BTRFS_MAGIC: u64 = 0x9123_683E;
/// Names of file systems by their magic numbers (include/uapi/linux/magic.h), for where no table of mounts
/// has them.
const NAMES: [(u64, &str); 8] = [
    (EXT4_MAGIC, "ext4"),
    (XFS_MAGIC, "xfs"),
    (BTRFS_MAGIC, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (OVERLAY_MAGIC, "overlay"),
    (0xF2F5_2010, "f2fs"),
    (0x6969, "nfs"),
    (FUSE_MAGIC, "fuse"),
];

/// Facts about a directory or a file that [`resolve`](crate::resolve) needs from the kernel; a test can make them up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Absolute path, without symbolic links.
    pub path: String,
    /// Name of its file system by its magic number, if that is known.
    pub file_system: Option<&'static str>,
    /// Number of its mount; absent before Linux 5.8.
    pub mount_id: Option<u64>,
    /// Major number of its file system's device.
    pub major: u32,
    /// Minor number of its file system's device.
    pub minor: u32,
    /// Space on its file system, within its quota.
    pub space: Space,
    /// Quota of its subvolume, if it has one.
    pub quota_bytes: Option<u64>,
    /// True if users other than its owner and root may rename its entries.
    pub is_writable_by_others: bool,
    /// Block size of its file system in bytes, if `statfs` reports it.
    pub block_bytes: Option<u64>,
    /// Alignment for direct I/O, if already known.
    pub direct_io: Option<DirectIo>,
    /// True if its files can have user attributes; `None` if the kernel does not report it.
    pub user_attributes: Option<bool>,
    /// Layout, if the file system itself reports it.
    pub geometry: Option<Geometry>,
}

impl Identity {
    /// Queries the running kernel about a directory.
    pub fn from_directory(directory: &Path) -> Result<Self, UserError> {
        let (identity, kind) = Self::from_path(directory)?;
        let refused =
            |cause| Err(UserError::new(format!("use {} as the target", directory.display()), cause));
        match kind {
            FileType::Directory => Ok(identity),
            FileType::RegularFile | FileType::BlockDevice => {
                let is_job = directory.extension().is_some_and(|extension| extension == "fio");
                refused("Not a directory").map_err(|error| {
                    error.help(match is_job {
                        true => "job files of fio are not read: give their keys to `skye fio` as --KEY=VALUE",
                        false => "choose its parent directory",
                    })
                })
            }
            _ => {
                refused("Not a directory, a file or a block device").map_err(|error| error.help("choose one"))
            }
        }
    }

    /// Asks the running kernel about anything that has a path.
    pub(crate) fn from_path(path: &Path) -> Result<(Self, FileType), UserError> {
        let action = || format!("use {} as the target", path.display());
        let to_error = |error: &io::Error| UserError::new(action(), error).help(help(error));
        let status_of = |path: &Path| FileStatus::at(rustix::fs::CWD, path, AtFlags::empty());
        let status = status_of(path).map_err(|error| to_error(&error.into()))?;
        let identity = (status.device, status.inode);
        // A path below /proc leads into another mount namespace, and the name of what is unmounted leads elsewhere.
        let elsewhere = || {
            UserError::new(action(), "its absolute path does not lead to it")
                .help("run skye in its mount namespace (nsenter -m), on a mounted file system")
        };
        let path = match std::fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(elsewhere()),
            path => path.map_err(|error| to_error(&error))?,
        };
        let status = status_of(&path).map_err(|error| match error {
            Errno::NOENT => elsewhere(),
            error => to_error(&error.into()),
        })?;
        if (status.device, status.inode) != identity {
            return Err(elsewhere());
        }
        // Some servers do not have the call. Then the free space is unknown.
        let statfs = match rustix::fs::statfs(&path) {
            Err(Errno::NOSYS | Errno::OPNOTSUPP) => None,
            statfs => Some(statfs.map_err(|error| to_error(&error.into()))?),
        };
        let kind = status.kind();
        // Others are not opened: a pipe would wait for a writer.
        let magic = statfs.as_ref().map(magic_of);
        let is_xfs = magic == Some(XFS_MAGIC) && (kind.is_dir() || kind.is_file());
        let is_btrfs = magic == Some(BTRFS_MAGIC);
        let opened = if is_btrfs && kind.is_dir() { File::open(&path).ok() } else { None };
        let quota = opened.and_then(|directory| subvolume::quota(&Root::system(), directory));
        let space = statfs.as_ref().map(space_of).unwrap_or_default();
        let geometry = if is_xfs { File::open(&path).ok().and_then(xfs_geometry) } else { None };
        let identity = Self {
            path: path.to_string_lossy().into_owned(),
            file_system: NAMES.iter().find(|(number, _)| magic == Some(*number)).map(|(_, name)| *name),
            mount_id: status.mount_id,
            major: status.device.0,
            minor: status.device.1,
            space: quota.map_or(space, |quota| quota.within(space)),
            quota_bytes: quota.map(|quota| quota.limit_bytes),
            is_writable_by_others: is_writable_by_others(status.mode, status.user_id, status.group_id),
            block_bytes: statfs
                .and_then(|statfs| u64::try_from(statfs.f_bsize).ok())
                .filter(|bytes| *bytes > 0),
            direct_io: None,
            user_attributes: if kind.is_dir() { user_attributes(&path) } else { None },
            geometry: geometry.map(from_xfs),
        };
        Ok((identity, kind))
    }
}

/// Returns true if files in a directory can have user attributes; absent if the kernel does not say. Asking for one
/// changes nothing.
fn user_attributes(directory: &Path) -> Option<bool> {
    let mut value = [0u8; 1];
    match rustix::fs::getxattr(directory, model::target::USER_ATTRIBUTE, &mut value) {
        // It is there, or too long for so little room.
        Ok(_) | Err(Errno::NODATA | Errno::RANGE) => Some(true),
        Err(Errno::OPNOTSUPP) => Some(false),
        Err(_) => None,
    }
}

/// Returns true if a directory of this mode lets users other than its owner and root rename its entries. A
/// group with the owner's number is the owner's own: distributions create such a group for each user.
fn is_writable_by_others(mode: u32, owner: u32, group: u32) -> bool {
    const STICKY: u32 = 0o1000;
    let writers = if group == 0 || group == owner { 0o002 } else { 0o022 };
    mode & STICKY == 0 && mode & writers != 0
}

/// Returns the space for this user on the file system of a directory.
pub fn space(directory: &Path) -> Result<Space, UserError> {
    let statfs = rustix::fs::statfs(directory).map_err(|error| {
        let error = io::Error::from(error);
        let action = format!("get the free space of {}", directory.display());
        UserError::new(action, &error).help(help(&error))
    })?;
    Ok(space_of(&statfs))
}

/// Returns the magic number of the file system that has an open file.
pub fn file_system_magic(file: impl AsFd) -> Option<u64> {
    rustix::fs::fstatfs(file).ok().as_ref().map(magic_of)
}

pub(crate) fn magic_of(statfs: &StatFs) -> u64 {
    // Only its low half is the number, on machines where it has a sign.
    statfs.f_type as u64 & 0xffff_ffff
}

/// Returns the space for this user on the file system of an open directory.
pub fn space_at(directory: impl AsFd) -> io::Result<Space> {
    Ok(space_of(&rustix::fs::fstatfs(directory)?))
}

/// Returns the alignment that direct I/O on a regular file needs; absent if the kernel does not report it.
///
/// Both values are 0 if the kernel reports no support for direct I/O. The report needs Linux 6.1 and a file
/// system that answers.
pub fn direct_io(file: BorrowedFd<'_>) -> Option<DirectIo> {
    let statx = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    (statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(DirectIo {
        memory_align_bytes: statx.stx_dio_mem_align,
        offset_align_bytes: statx.stx_dio_offset_align,
    })
}

/// Returns the sizes of writes that a file's storage makes whole or not at all; `None` if it promises none. The report needs
/// Linux 6.11.
pub fn atomic_writes(file: BorrowedFd<'_>) -> Option<RangeInclusive<u64>> {
    /// `STATX_WRITE_ATOMIC`.
    const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x10000);
    let statx = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, WRITE_ATOMIC).ok()?;
    let units = u64::from(statx.stx_atomic_write_unit_min)..=u64::from(statx.stx_atomic_write_unit_max);
    (statx.stx_mask & WRITE_ATOMIC.bits() != 0 && *units.end() > 0).then_some(units)
}

fn space_of(statfs: &StatFs) -> Space {
    // The fragment is the unit of the counts; file systems without fragments report 0.
    let unit = if statfs.f_frsize > 0 { statfs.f_frsize } else { statfs.f_bsize };
    let unit = u64::try_from(unit).unwrap_or(0);
    // Some servers report −1 for an unknown number.
    let known = |inodes: u64| (statfs.f_files > 0 && statfs.f_files < u64::MAX).then_some(inodes);
    Space {
        total_bytes: statfs.f_blocks.saturating_mul(unit),
        free_bytes: statfs.f_bavail.saturating_mul(unit),
        inodes_total: known(statfs.f_files),
        inodes_free: known(statfs.f_ffree),
    }
}

fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "create it first, or choose another",
        io::ErrorKind::PermissionDenied => {
            "choose a directory that you can access, or run as a user with access"
        }
        io::ErrorKind::NotADirectory => "choose its parent directory",
        _ => "check the mount, or choose another directory",
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::Path;

    use super::{Identity, direct_io, is_writable_by_others, space};

    #[test]
    fn writable_by_others_considers_group_and_sticky_bit() {
        let cases = [
            (0o755, 0, 0, false),
            (0o777, 0, 0, true),
            (0o1777, 0, 0, false),
            (0o775, 0, 0, false),
            (0o775, 1000, 1000, false),
            (0o775, 1000, 100, true),
            (0o1775, 1000, 100, false),
        ];
        for (mode, owner, group, expected) in cases {
            assert_eq!(is_writable_by_others(mode, owner, group), expected, "{mode:o} {owner}:{group}");
        }
    }

    #[test]
    fn missing_directory_error_has_help() {
        let error = Identity::from_directory(Path::new("/no/such/dir")).unwrap_err();
        assert_eq!(error.action, "use /no/such/dir as the target");
        assert_eq!(error.cause, "No such file or directory");
        assert_eq!(error.help.as_deref(), Some("create it first, or choose another"));
        assert_eq!(space(Path::new("/no/such/dir")).unwrap_err().cause, "No such file or directory");
    }

    #[test]
    fn file_is_refused_as_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Identity::from_directory(file.path()).unwrap_err();
        assert_eq!(error.cause, "Not a directory");
        assert_eq!(error.help.as_deref(), Some("choose its parent directory"));
    }

    #[test]
    fn real_directory_has_space_and_alignment() {
        let directory = tempfile::tempdir().unwrap();
        let space = space(directory.path()).unwrap();
        assert!(space.total_bytes >= space.free_bytes && space.free_bytes > 0);
        let file = tempfile::tempfile_in(&directory).unwrap();
        if let Some(alignment) = direct_io(file.as_fd()) {
            assert!(alignment.offset_align_bytes == 0 || alignment.offset_align_bytes.is_power_of_two());
        }
    }
}
