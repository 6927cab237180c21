//! Discards: a range of a file or a block device is given back, and the blocks below it hold nothing any more.
//!
//! On a file, the call is `fallocate` with `FALLOC_FL_PUNCH_HOLE`: the range becomes a hole and reads as zeros. On a
//! block device, it is the ioctl `BLKDISCARD`, which programs such as `blkdiscard` and `mkfs` use. There, `fallocate` would
//! write zeros with `REQ_OP_WRITE_ZEROES`. A device that discards need not do that (`blkdev_fallocate` in the kernel's
//! block/fops.c).

use std::os::fd::BorrowedFd;

use rustix::fs::{FallocateFlags, FileType, fallocate, fstat};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// Mode of the call on a file: the range becomes a hole, and the file keeps its length.
pub const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// `BLKDISCARD` of include/uapi/linux/fs.h: `_IO(0x12, 119)`, with a pointer to the first byte and the length.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// Returns true if a descriptor is that of a block device.
pub fn is_device(file: BorrowedFd<'_>) -> bool {
    fstat(file).is_ok_and(|state| FileType::from_raw_mode(state.st_mode) == FileType::BlockDevice)
}

/// Gives a range of a file back, or of a block device if `is_device` is true.
///
/// # Errors
/// The kernel's error: `EOPNOTSUPP` if the file system or device cannot do it.
#[inline]
pub fn discard(
    file: BorrowedFd<'_>,
    is_device: bool,
    offset_bytes: u64,
    length_bytes: u64,
) -> Result<(), Errno> {
    if !is_device {
        return fallocate(file, PUNCH, offset_bytes, length_bytes);
    }
    // SAFETY: `BLKDISCARD` reads two 64-bit numbers at the pointer that it gets, and `Setter` passes the address of
    // exactly these. The kernel keeps no pointer. A driver of another kind refuses the number with `ENOTTY`, and no
    // other kind comes here: `is_device` has looked.
    unsafe { ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new([offset_bytes, length_bytes])) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn discard_makes_hole_and_keeps_rest() {
        let file = rustix::fs::memfd_create("discard", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = std::fs::File::from(file);
        file.write_all_at(&[7; 3 * 4096], 0).unwrap();
        assert!(!is_device(file.as_fd()));
        discard(file.as_fd(), false, 4096, 4096).unwrap();
        let mut bytes = vec![1; 3 * 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[4096..8192].iter().all(|byte| *byte == 0));
        assert!(bytes[..4096].iter().chain(&bytes[8192..]).all(|byte| *byte == 7));
        // A file is no device, and the kernel rejects it before it checks any range.
        assert_eq!(discard(file.as_fd(), true, 0, 4096), Err(Errno::NOTTY));
    }
}
