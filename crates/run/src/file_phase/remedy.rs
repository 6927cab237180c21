//! Remedies for failures that only tests on files have.

use std::os::fd::BorrowedFd;

use engine::Failure;
use engine::failure::Cause;
use rustix::io::Errno;

use crate::remedy;

/// Calls that add a name to a directory.
const NAMING_CALLS: [&str; 5] = ["open", "mkdir", "symlink", "link", "rename"];
/// Bytes that are free on a file system that has room for another block of a directory.
const ROOM_BYTES: u64 = 1 << 20;

/// Returns what to do about a failure in a directory.
pub(super) fn remedy(failure: &Failure, directory: BorrowedFd<'_>) -> &'static str {
    let Cause::Errno(errno) = failure.cause else { return remedy::remedy(failure) };
    if errno == Errno::NOSPC && NAMING_CALLS.contains(&failure.call) && is_ext4_with_room(directory) {
        return "the directory itself is full, as space and inodes are free: use dirs=N, or make ext4 with larger \
             blocks or large_dir";
    }
    let cannot = matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::INVAL | Errno::XDEV);
    match failure.call {
        "reflink" if cannot => {
            "use by=copy-range or by=read-write: this file system has no reflinks (btrfs, bcachefs, OCFS2, and XFS \
             with reflink=1 do)"
        }
        "copy_file_range" if cannot => {
            "use by=read-write: this kernel or file system does not support copy_file_range"
        }
        "fsetxattr" | "fgetxattr" if errno == Errno::OPNOTSUPP => {
            "drop xattr-set and xattr-get, or mount it with user attributes"
        }
        "rmdir" if errno == Errno::NOTEMPTY => {
            "this file system loses names during removal, or another program creates new ones"
        }
        _ => remedy::remedy(failure),
    }
}

/// Returns true on ext4 with free bytes and inodes. Other file systems have no limit on the index of a directory.
fn is_ext4_with_room(directory: BorrowedFd<'_>) -> bool {
    observe::file_system_magic(directory) == Some(observe::EXT4_MAGIC)
        && observe::space_at(directory).is_ok_and(|space| {
            space.free_bytes > ROOM_BYTES && space.inodes_free.is_none_or(|inodes| inodes > 0)
        })
}
