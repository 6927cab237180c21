//! Flags of single calls: `preadv2` and `pwritev2`, or the same of a ring.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use model::workload::{DataWork, SyncMode};
use rustix::io::{Errno, ReadWriteFlags};

/// `RWF_ATOMIC`, from Linux 6.11 on.
const ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);
/// `RWF_DONTCACHE`, from Linux 6.14 on.
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Flags of each call of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallFlags {
    /// Those of reads.
    pub read: ReadWriteFlags,
    /// Those of writes.
    pub write: ReadWriteFlags,
}

impl Default for CallFlags {
    fn default() -> Self {
        Self::NONE
    }
}

impl CallFlags {
    /// No flags.
    pub const NONE: Self = Self { read: ReadWriteFlags::empty(), write: ReadWriteFlags::empty() };

    /// Returns the flags that a test requests.
    pub fn from_work(data: &DataWork) -> Self {
        let read = if data.uncached { DONTCACHE } else { ReadWriteFlags::empty() };
        let mut write = read;
        write.set(ReadWriteFlags::DSYNC, data.sync == SyncMode::Dsync);
        write.set(ATOMIC, data.atomic);
        Self { read, write }
    }

    /// Returns true if each write is whole or not at all.
    pub fn is_atomic(self) -> bool {
        self.write.contains(ATOMIC)
    }

    /// Tries all flags but `RWF_ATOMIC` in a read of one byte from a file that can be read.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the kernel or the file system lacks one of them.
    pub fn try_on(self, file: &OwnedFd) -> Result<(), Errno> {
        let flags = (self.read | self.write).difference(ATOMIC);
        rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut [0])], 0, flags).map(drop)
    }
}
