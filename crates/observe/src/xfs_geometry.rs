//! Asks XFS for its layout.

use std::os::fd::AsFd;

use rustix::ioctl::{self, Getter, Opcode, opcode};

use crate::parse::xfs_geometry::{V4_BYTES, V5_BYTES, XfsGeometry, parse};

const FSGEOMETRY: Opcode = opcode::read::<[u8; V5_BYTES]>(b'X', 126);
const FSGEOMETRY_V4: Opcode = opcode::read::<[u8; V4_BYTES]>(b'X', 124);

/// Returns the layout of the XFS of `file`; absent if the ioctl fails.
pub(crate) fn xfs_geometry(file: impl AsFd) -> Option<XfsGeometry> {
    let file = file.as_fd();
    // SAFETY: the kernel fills at most the size that is encoded in the number, which is the size of the
    // array. Any bytes are a valid array of bytes.
    let present = unsafe { ioctl::ioctl(file, Getter::<FSGEOMETRY, [u8; V5_BYTES]>::new()) };
    if let Ok(bytes) = present {
        return parse(&bytes);
    }
    // SAFETY: as above, with the older and shorter structure.
    let older = unsafe { ioctl::ioctl(file, Getter::<FSGEOMETRY_V4, [u8; V4_BYTES]>::new()) };
    parse(&older.ok()?)
}
