//! Extents and holes of a file, and space that is allocated but was never written.

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::SeekFrom;

/// `FS_IOC_FIEMAP` (linux/fiemap.h).
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// Writes back first, so that data without a place on the device does not look like a hole.
const FIEMAP_FLAG_SYNC: u32 = 1;
const LAST: u32 = 0x1;
const ENCODED: u32 = 0x8;
const UNWRITTEN: u32 = 0x800;
/// Flags of extents without an address: unknown, delayed, and inside of metadata.
const WITHOUT_ADDRESS: u32 = 0x2 | 0x4 | 0x200;
/// Extents per answer of the kernel.
const BATCH: usize = 256;
/// Number of answers after which a file counts as too fragmented to go on.
const ANSWERS_MAX: usize = 4096;

/// Most addresses of a file that are collected: those of a more fragmented file say nothing about its place.
pub const ADDRESSES_MAX: usize = 4096;

/// Bytes of a file by kind of allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileExtents {
    /// Bytes that were never allocated.
    pub hole_bytes: u64,
    /// Bytes that were allocated and never written.
    pub unwritten_bytes: u64,
    /// Bytes that the file system compressed, encrypted or packed.
    pub encoded_bytes: u64,
    /// Number of extents.
    pub extents: u64,
    /// The extents below the file system; none if it does not report all addresses, or if they are more than
    /// [`ADDRESSES_MAX`].
    pub addresses: Vec<ExtentAddress>,
}

/// One extent and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentAddress {
    /// Offset in the file.
    pub offset_bytes: u64,
    /// Address below the file system.
    pub address_bytes: u64,
    /// Length.
    pub length_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// Examines a range of a file. `None` if the file system shows neither a map nor holes.
pub fn extents(file: BorrowedFd<'_>, range: Range<u64>) -> Option<FileExtents> {
    mapped(file, &range, ANSWERS_MAX).or_else(|| holes(file, &range))
}

/// Examines a range of a file in a short time: `None` if it has more than [`ADDRESSES_MAX`] extents, or no map.
pub fn few_extents(file: BorrowedFd<'_>, range: Range<u64>) -> Option<FileExtents> {
    mapped(file, &range, ADDRESSES_MAX / BATCH)
}

fn mapped(file: BorrowedFd<'_>, range: &Range<u64>, answers_max: usize) -> Option<FileExtents> {
    let mut sum = FileExtents::default();
    let (mut at, mut seen) = (range.start, 0);
    let mut has_addresses = true;
    let length_bytes = range.end - range.start;
    for _ in 0..answers_max {
        if at >= range.end {
            break;
        }
        let mut map = Box::new(Fiemap {
            start: at,
            length: range.end - at,
            flags: FIEMAP_FLAG_SYNC,
            mapped: 0,
            count: BATCH as u32,
            reserved: 0,
            extents: [Extent::default(); BATCH],
        });
        // SAFETY: the kernel reads the header and writes at most `count` extents behind it, and the array has
        // room for exactly `count`. The layout is that of `struct fiemap`. The kernel keeps nothing after the
        // call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) };
        if result != 0 {
            return None;
        }
        let found = map.extents.get(..map.mapped as usize)?;
        let Some(last) = found.last() else { return Some(sum.with_holes(seen, length_bytes)) };
        for extent in found {
            let from = extent.logical.max(at);
            let bytes = extent.logical.saturating_add(extent.length).min(range.end).saturating_sub(from);
            seen += bytes;
            sum.extents += 1;
            sum.unwritten_bytes += if extent.flags & UNWRITTEN != 0 { bytes } else { 0 };
            sum.encoded_bytes += if extent.flags & ENCODED != 0 { bytes } else { 0 };
            has_addresses &=
                extent.flags & (WITHOUT_ADDRESS | ENCODED) == 0 && sum.addresses.len() < ADDRESSES_MAX;
            if has_addresses {
                let address_bytes = extent.physical.saturating_add(from.saturating_sub(extent.logical));
                sum.addresses.push(ExtentAddress { offset_bytes: from, address_bytes, length_bytes: bytes });
            } else {
                sum.addresses = Vec::new();
            }
        }
        at = last.logical.saturating_add(last.length).max(at + 1);
        if last.flags & LAST != 0 {
            return Some(sum.with_holes(seen, length_bytes));
        }
    }
    (at >= range.end).then(|| sum.with_holes(seen, length_bytes))
}

impl FileExtents {
    fn with_holes(self, seen_bytes: u64, length_bytes: u64) -> Self {
        Self { hole_bytes: length_bytes.saturating_sub(seen_bytes), ..self }
    }
}

/// Counts holes only, for file systems that show no map.
fn holes(file: BorrowedFd<'_>, range: &Range<u64>) -> Option<FileExtents> {
    let mut sum = FileExtents::default();
    let mut at = range.start;
    for _ in 0..ANSWERS_MAX {
        if at >= range.end {
            return Some(sum);
        }
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data follows: the hole reaches to the end.
            Err(rustix::io::Errno::NXIO) => range.end,
            Err(_) => return None,
        };
        sum.hole_bytes += data.min(range.end) - at;
        if data >= range.end {
            return Some(sum);
        }
        sum.extents += 1;
        at = rustix::fs::seek(file, SeekFrom::Hole(data)).ok()?.max(data + 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const MIB: u64 = 1 << 20;

    /// Makes a file of four MiB: data, a hole, space allocated without data (if the file system can), and
    /// data.
    fn mixed() -> (File, bool) {
        let file = tempfile::tempfile().unwrap();
        let data = vec![1; MIB as usize];
        file.write_all_at(&data, 0).unwrap();
        let can_allocate = fallocate(&file, FallocateFlags::empty(), 2 * MIB, MIB).is_ok();
        file.write_all_at(&data, 3 * MIB).unwrap();
        file.sync_all().unwrap();
        (file, can_allocate)
    }

    #[test]
    fn holes_and_unwritten_extents_are_distinguished() {
        let (file, can_allocate) = mixed();
        // A file system in memory has no map; the end-to-end tests read one on ext4.
        let Some(found) = mapped(file.as_fd(), &(0..4 * MIB), ANSWERS_MAX) else { return };
        let allocated = if can_allocate { MIB } else { 0 };
        assert_eq!(found.unwritten_bytes, allocated);
        assert_eq!(found.hole_bytes, 2 * MIB - allocated);
        assert!(found.extents >= 2, "{found:?}");
        assert_eq!(
            mapped(file.as_fd(), &(MIB..3 * MIB), ANSWERS_MAX).unwrap().hole_bytes,
            2 * MIB - allocated
        );
        assert_eq!(extents(file.as_fd(), 0..MIB).unwrap().hole_bytes, 0);
    }

    #[test]
    fn holes_are_found_by_seek_without_extent_map() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; MIB as usize], MIB).unwrap();
        file.set_len(4 * MIB).unwrap();
        file.sync_all().unwrap();
        let found = holes(file.as_fd(), &(0..4 * MIB)).unwrap();
        assert_eq!((found.hole_bytes, found.extents), (3 * MIB, 1));
        let empty = tempfile::tempfile().unwrap();
        empty.set_len(MIB).unwrap();
        assert_eq!(holes(empty.as_fd(), &(0..MIB)).unwrap().hole_bytes, MIB);
    }
}
