//! A block device as its open descriptor shows it, whatever lies at its path by now.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{SeekFrom, fstat, major, minor, seek};
use rustix::ioctl::{self, Getter, Opcode, opcode};

/// `BLKROGET` of linux/fs.h: an `int` that is not 0 where the device is read-only.
const READ_ONLY: Opcode = opcode::none(0x12, 94);
/// `BLKGETDISKSEQ` of linux/fs.h: a number that no other disk has had since the machine started.
const DISK_SEQUENCE: Opcode = opcode::read::<u64>(0x12, 128);
/// `LOOP_GET_STATUS64` of linux/loop.h, whose number has no direction and no size.
const LOOP_STATUS: Opcode = 0x4C05;
/// Words of 8 bytes in its `struct loop_info64`. Those of the backing file are its device, its inode, and the device that it
/// is. The last two are the part of it that the loop device shows.
const LOOP_STATUS_WORDS: usize = 29;
const BACKING_DEVICE: usize = 0;
const BACKING_INODE: usize = 1;
const BACKING_NUMBERS: usize = 2;
const BACKING_OFFSET: usize = 3;
const BACKING_LIMIT: usize = 4;

/// Identity of an open block device. Another disk under the same numbers differs in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDevice {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Number of the disk since the machine started; absent before Linux 5.15.
    pub sequence: Option<u64>,
    /// Size of the device.
    pub size_bytes: u64,
    /// True if the kernel refuses to write to it.
    pub is_read_only: bool,
}

impl BlockDevice {
    /// Reads the properties of an open block device.
    ///
    /// # Errors
    /// The file is no block device, or its size is unavailable.
    pub fn from_fd(device: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = fstat(device)?;
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a block device"));
        }
        // SAFETY: the kernel writes one `int` for this call, which any bits are a value of. It knows the call for every
        // block device, and others refuse it.
        let is_read_only = unsafe { ioctl::ioctl(device, Getter::<READ_ONLY, c_int>::new()) }? != 0;
        // SAFETY: the kernel writes 8 bytes for this call, which any bits are a number of, or refuses the call.
        let sequence = unsafe { ioctl::ioctl(device, Getter::<DISK_SEQUENCE, u64>::new()) }.ok();
        Ok(Self {
            major: major(stat.st_rdev),
            minor: minor(stat.st_rdev),
            sequence,
            size_bytes: seek(device, SeekFrom::End(0))?,
            is_read_only,
        })
    }
}

/// Identity of a file: numbers of its file system, as `statx` and the list of mounts have them, and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub device: (u32, u32),
    pub inode: u64,
}

/// File below a loop device, and the part of it that the device shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backing {
    pub file: FileId,
    /// Major and minor number where the file is a device itself; zeros where it is none.
    pub numbers: (u32, u32),
    /// Start of the part in the file.
    offset_bytes: u64,
    /// Most bytes of the part; 0 without limit.
    limit_bytes: u64,
}

/// Asks an open loop device for its file; `None` if it has none.
pub(crate) fn backing(device: impl AsFd) -> Option<Backing> {
    // SAFETY: the kernel writes one `struct loop_info64` for this call, which has exactly this size and alignment. Any
    // bits are numbers. Devices that are no loops refuse the call.
    let status =
        unsafe { ioctl::ioctl(device, Getter::<LOOP_STATUS, [u64; LOOP_STATUS_WORDS]>::new()) }.ok()?;
    let numbers = |word: usize| (major(status[word]), minor(status[word]));
    Some(Backing {
        file: FileId { device: numbers(BACKING_DEVICE), inode: status[BACKING_INODE] },
        numbers: numbers(BACKING_NUMBERS),
        offset_bytes: status[BACKING_OFFSET],
        limit_bytes: status[BACKING_LIMIT],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_block_device_is_refused() {
        for path in ["/dev/null", "/", "/proc/self/status"] {
            let file = std::fs::File::open(path).unwrap();
            assert_eq!(
                BlockDevice::from_fd(file.as_fd()).unwrap_err().to_string(),
                "it is not a block device",
                "{path}"
            );
            assert_eq!(backing(&file), None, "{path}");
        }
    }
}
