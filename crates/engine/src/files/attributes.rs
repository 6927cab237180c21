//! Verbs on an extended attribute of each file.
//!
//! Kernels before 6.13 have no call that takes a directory and a name. Paths through `/proc/self/fd` would be resolved by
//! another file system first. So a file is opened, as backups and file servers do, and each call is a step.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use model::target::USER_ATTRIBUTE as NAME;
use model::workload::verbs::{VerbStep, xattr_get, xattr_set};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::{CallError, NameOps, READ_FLAGS, StepTimer, close_step, fails, open_step, sync_step};
use crate::failure::Cause;

/// Bytes of its value. ext4 and XFS keep so few in the inode.
const VALUE_BYTES: usize = 64;
const VALUE: [u8; VALUE_BYTES] = [b's'; VALUE_BYTES];

/// `openat`, `fsetxattr`, `fsync` if each attribute is made durable, and `close`.
#[derive(Debug)]
pub struct SetAttribute {
    is_durable: bool,
}

impl SetAttribute {
    /// Sets the attribute; if `is_durable`, makes it durable.
    pub fn new(is_durable: bool) -> Self {
        Self { is_durable }
    }
}

impl NameOps for SetAttribute {
    const GETDENTS: VerbStep = xattr_set::GETDENTS;

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = open_step(directory, name, READ_FLAGS, xattr_set::OPEN, timer)?;
        let set = rustix::fs::fsetxattr(&opened, NAME, &VALUE, XattrFlags::empty());
        set.map_err(fails(xattr_set::FSETXATTR.name))?;
        timer.record_step(xattr_set::FSETXATTR);
        sync_step(&opened, self.is_durable, xattr_set::FSYNC, timer)?;
        close_step(opened, xattr_set::CLOSE, timer)
    }
}

/// `openat`, `fgetxattr` and `close`.
#[derive(Debug)]
pub struct GetAttribute;

impl NameOps for GetAttribute {
    const GETDENTS: VerbStep = xattr_get::GETDENTS;

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = open_step(directory, name, READ_FLAGS, xattr_get::OPEN, timer)?;
        let mut value = [0u8; VALUE_BYTES];
        let read = rustix::fs::fgetxattr(&opened, NAME, &mut value);
        let got_bytes = read.map_err(fails(xattr_get::FGETXATTR.name))?;
        if got_bytes != VALUE_BYTES {
            let short = Cause::Short { got_bytes, wanted_bytes: VALUE_BYTES };
            return Err((xattr_get::FGETXATTR.name, short));
        }
        timer.record_step(xattr_get::FGETXATTR);
        close_step(opened, xattr_get::CLOSE, timer)
    }
}

/// `openat`, `fremovexattr` and `close`: a file has no attribute after it.
#[derive(Debug)]
pub struct RemoveAttribute;

impl NameOps for RemoveAttribute {
    // It is not measured.
    const GETDENTS: VerbStep = xattr_set::GETDENTS;

    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = open_step(directory, name, READ_FLAGS, xattr_set::OPEN, timer)?;
        match rustix::fs::fremovexattr(&opened, NAME) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) => return Err(fails("fremovexattr")(errno)),
        }
        close_step(opened, xattr_set::CLOSE, timer)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::super::tests::watched;
    use super::super::{FileLocation, IndexedOps, RoundLimits, VisitOrder, round};
    use super::*;
    use crate::clock::Timer;
    use crate::failure::Failure;
    use crate::names::Tree;
    use crate::recorder::Recorder;

    #[test]
    fn attributes_are_set_read_and_removed() {
        let temp = tempfile::tempdir().unwrap();
        let directory = fs::File::open(temp.path()).unwrap();
        if rustix::fs::fgetxattr(&directory, NAME, &mut [0u8; 1]) == Err(Errno::OPNOTSUPP) {
            return;
        }
        let tree = Tree { files: 3, dirs: 1, levels: 1 };
        (0..3).for_each(|file| fs::write(temp.path().join(format!("f{file:08x}")), "").unwrap());
        let place = FileLocation { directory: directory.as_fd(), leaves: &[], tree };
        fn all(operation: impl NameOps, place: &FileLocation<'_>) -> Result<(), Failure> {
            let mut verb = IndexedOps::new(place.tree.plain(), operation);
            let visits = VisitOrder::in_sequence(0, 3);
            let one = |recorder: &mut Recorder, limits: RoundLimits<'_>| {
                round(&mut verb, place, visits, &Timer::Kernel, recorder, limits)
            };
            watched(4, u64::MAX, one).0.result
        }
        let missing = all(GetAttribute, &place).unwrap_err();
        assert_eq!((missing.call, missing.cause), ("fgetxattr", Errno::NODATA.into()));
        for is_durable in [false, true] {
            assert_eq!(all(SetAttribute::new(is_durable), &place), Ok(()));
            assert_eq!(all(GetAttribute, &place), Ok(()));
        }
        // Files that have none are no failure, so that a part of a set can be restored.
        assert_eq!(all(RemoveAttribute, &place), Ok(()));
        assert_eq!(all(RemoveAttribute, &place), Ok(()));
        assert!(all(GetAttribute, &place).is_err());
    }
}
