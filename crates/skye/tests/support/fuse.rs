//! The rigs' file system in memory, which fails where a test sets a fault.

use std::ops::Deref;

use rig::Spec;
pub use rig::fuse::{Counts, Errno, Faults, Hangs, Missing};

/// The mounted file system. When it is dropped, it answers hanging calls and is unmounted.
pub struct Fuse(rig::fuse::Fuse);

impl Fuse {
    /// Mounts an empty file system.
    pub fn new(faults: Faults) -> Self {
        Self(rig::fuse::Fuse::mount(&Spec::fuse(), faults).expect("a mounted FUSE file system"))
    }
}

impl Deref for Fuse {
    type Target = rig::fuse::Fuse;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
