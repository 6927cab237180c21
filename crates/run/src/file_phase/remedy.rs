//! Remedies for failures that only tests on files have.

use engine::Failure;
use engine::failure::Cause;
use rustix::io::Errno;

use crate::data_phase;

/// Returns what to do about a failure.
pub(super) fn remedy(failure: &Failure) -> &'static str {
    let Cause::Errno(errno) = failure.cause else { return data_phase::remedy(failure) };
    let cannot = matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::INVAL | Errno::XDEV);
    match failure.call {
        "reflink" if cannot => {
            "files cannot share blocks on this file system (btrfs, bcachefs, OCFS2, and XFS with reflink=1 can); write \
             by=copy-range or by=read-write"
        }
        "copy_file_range" if cannot => {
            "this kernel or file system does not copy by itself; write by=read-write"
        }
        "fsetxattr" | "fgetxattr" if errno == Errno::OPNOTSUPP => {
            "files have no user attributes here; leave xattr-set and xattr-get away, or mount it with user attributes"
        }
        "rmdir" if errno == Errno::NOTEMPTY => {
            "this file system loses names while it is told to remove others, or something else makes new ones"
        }
        _ => data_phase::remedy(failure),
    }
}
