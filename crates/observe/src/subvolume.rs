//! Quota of a btrfs subvolume, as the kernel shows it in sysfs (fs/btrfs/sysfs.c, since Linux 5.9).

use std::os::fd::{AsFd, BorrowedFd};

use model::target::Space;
use rustix::ioctl::{self, Getter, Opcode, Updater, opcode};

use crate::root::Root;

/// Size of `struct btrfs_ioctl_ino_lookup_args` (include/uapi/linux/btrfs.h), in words of 8 bytes.
const LOOKUP_WORDS: usize = 512;
/// Size of `struct btrfs_ioctl_fs_info_args`.
const INFO_BYTES: usize = 1024;
/// Place of the file system's identifier in it.
const IDENTIFIER: std::ops::Range<usize> = 16..32;
/// First inode of a subvolume. Every user may look up its tree.
const FIRST_INODE: u64 = 256;
/// Flag of a limit on the bytes that the subvolume refers to.
const LIMITS_REFERENCED: u64 = 1;

const LOOKUP: Opcode = opcode::read_write::<[u64; LOOKUP_WORDS]>(0x94, 18);
const INFO: Opcode = opcode::read::<[u8; INFO_BYTES]>(0x94, 31);

/// Limit of a subvolume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Most bytes of the subvolume.
    pub limit_bytes: u64,
    /// Bytes that it has.
    pub used_bytes: u64,
}

impl Quota {
    /// Returns the space that it leaves of `space`.
    pub fn within(self, space: Space) -> Space {
        Space {
            total_bytes: space.total_bytes.min(self.limit_bytes),
            free_bytes: space.free_bytes.min(self.limit_bytes.saturating_sub(self.used_bytes)),
            ..space
        }
    }
}

/// Returns the quota of a directory's subvolume; `None` without one.
pub(crate) fn quota(root: &Root, directory: impl AsFd) -> Option<Quota> {
    group(directory.as_fd()).and_then(|group| quota_of(root, &group))
}

/// Returns the directory of the quota group of a subvolume, below the root.
fn group(directory: BorrowedFd<'_>) -> Option<String> {
    // SAFETY: the kernel fills at most the size that is encoded in the number, which is the size of the array. Any bytes
    // are a valid array of bytes.
    let info = unsafe { ioctl::ioctl(directory, Getter::<INFO, [u8; INFO_BYTES]>::new()) }.ok()?;
    let mut lookup = [0; LOOKUP_WORDS];
    lookup[1] = FIRST_INODE;
    // SAFETY: as above; the kernel reads and writes the array, which lives until the call returns.
    unsafe { ioctl::ioctl(directory, Updater::<LOOKUP, [u64; LOOKUP_WORDS]>::new(&mut lookup)) }.ok()?;
    let hex: String = info[IDENTIFIER].iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Some(format!("sys/fs/btrfs/{}/qgroups/0_{}", parts.join("-"), lookup[0]))
}

fn quota_of(root: &Root, group: &str) -> Option<Quota> {
    let value = |name: &str| root.read(&format!("{group}/{name}"))?.trim().parse::<u64>().ok();
    let is_limited = value("limit_flags")? & LIMITS_REFERENCED != 0;
    let quota = Quota { limit_bytes: value("max_referenced")?, used_bytes: value("referenced")? };
    is_limited.then_some(quota)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn btrfs_qgroup_limits_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let group = "sys/fs/btrfs/a/qgroups/0_256";
        fs::create_dir_all(temp.path().join(group)).unwrap();
        let write = |name: &str, text: &str| fs::write(temp.path().join(group).join(name), text).unwrap();
        write("max_referenced", "629145600\n");
        write("referenced", "16384\n");
        let root = Root::at(temp.path());
        let quota = Quota { limit_bytes: 629_145_600, used_bytes: 16_384 };
        for (flags, expected) in [("1\n", Some(quota)), ("0\n", None), ("2\n", None), ("3\n", Some(quota))] {
            write("limit_flags", flags);
            assert_eq!(quota_of(&root, group), expected, "{flags}");
        }
        let space = quota.within(Space { total_bytes: 1 << 30, free_bytes: 1 << 30, ..Space::default() });
        assert_eq!((space.total_bytes, space.free_bytes), (629_145_600, 629_129_216));
    }
}
