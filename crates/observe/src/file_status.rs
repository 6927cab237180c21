//! Status of a file or directory, where the kernel or a sandbox may lack statx(2).

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, Timespec};
use rustix::io::Errno;
use rustix::path::Arg;

/// Status of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Type and permissions (`st_mode`).
    pub mode: u32,
    /// User ID of its owner.
    pub user_id: u32,
    /// Group ID of its owner.
    pub group_id: u32,
    /// Major and minor number of the device of its file system.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// ID of its mount; `None` before Linux 5.8, and without statx.
    pub mount_id: Option<u64>,
    /// Time of its creation; `None` if the file system keeps none, and without statx.
    pub birth: Option<Timespec>,
}

impl FileStatus {
    /// Returns the status of a path relative to a directory, with the flags of statx(2). Where statx is missing or forbidden,
    /// as in a sandbox older than the call, fstatat(2) takes its place.
    ///
    /// # Errors
    /// As statx(2).
    pub fn at(directory: impl AsFd, path: impl Arg + Copy, flags: AtFlags) -> Result<Self, Errno> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        match rustix::fs::statx(&directory, path, flags, mask) {
            Ok(statx) => Ok(Self::from_statx(&statx)),
            Err(Errno::NOSYS | Errno::PERM) => Self::without_statx(directory, path, flags),
            Err(errno) => Err(errno),
        }
    }

    fn from_statx(statx: &Statx) -> Self {
        let has = |flag: StatxFlags| statx.stx_mask & flag.bits() != 0;
        let birth = Timespec { tv_sec: statx.stx_btime.tv_sec, tv_nsec: statx.stx_btime.tv_nsec.into() };
        Self {
            mode: statx.stx_mode.into(),
            user_id: statx.stx_uid,
            group_id: statx.stx_gid,
            device: (statx.stx_dev_major, statx.stx_dev_minor),
            inode: statx.stx_ino,
            mount_id: has(StatxFlags::MNT_ID).then_some(statx.stx_mnt_id),
            birth: has(StatxFlags::BTIME).then_some(birth),
        }
    }

    fn without_statx(directory: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<Self, Errno> {
        let stat = rustix::fs::statat(directory, path, flags)?;
        Ok(Self {
            mode: stat.st_mode,
            user_id: stat.st_uid,
            group_id: stat.st_gid,
            device: (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)),
            inode: stat.st_ino,
            mount_id: None,
            birth: None,
        })
    }

    /// Returns the type.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_without_statx_agrees() {
        let temp = tempfile::tempdir().unwrap();
        let with = FileStatus::at(rustix::fs::CWD, temp.path(), AtFlags::empty()).unwrap();
        let without = FileStatus::without_statx(rustix::fs::CWD, temp.path(), AtFlags::empty()).unwrap();
        assert_eq!(without, FileStatus { mount_id: None, birth: None, ..with });
        assert!(with.kind().is_dir());
    }
}
