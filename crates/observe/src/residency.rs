//! Bytes of a file in the page cache.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::identity::{OVERLAY_MAGIC, file_system_magic};

/// `cachestat`, since Linux 6.5. The number is the same on all architectures but alpha and MIPS, where no
/// call has it.
const SYS_CACHESTAT: libc::c_long = 451;
/// Bytes mapped at once: the answer needs one byte per page.
const WINDOW_BYTES: u64 = 1 << 30;

/// Bytes of a file in the page cache, and the call that counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Bytes that are resident.
    pub bytes: u64,
    /// Name of the call: "cachestat" or "mincore".
    pub source: &'static str,
}

/// Returns how much of a part of a file is resident. `None` if the kernel does not tell, as
/// for files of other users. Neither call reads the file.
///
/// `mincore` replaces `cachestat` before Linux 6.5 and on overlay file systems. It needs a file that is open
/// for reading.
pub fn resident(file: BorrowedFd<'_>, part: Range<u64>) -> Option<Resident> {
    // Overlay file systems keep their pages in the files of the layer below, which `cachestat` does not check.
    let is_overlay = file_system_magic(file) == Some(OVERLAY_MAGIC);
    let by_cachestat = || cachestat(file, &part).map(|bytes| Resident { bytes, source: "cachestat" });
    let by_mincore = || mincore(file, &part).map(|bytes| Resident { bytes, source: "mincore" });
    if is_overlay { by_mincore() } else { by_cachestat().or_else(by_mincore) }
}

fn cachestat(file: BorrowedFd<'_>, part: &Range<u64>) -> Option<u64> {
    #[repr(C)]
    struct CachestatRange {
        offset: u64,
        length: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Cachestat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let length_bytes = part.end - part.start;
    let range = CachestatRange { offset: part.start, length: length_bytes };
    let mut counts = Cachestat::default();
    // SAFETY: the kernel reads a range and writes an answer. Their layouts are exactly those of `struct
    // cachestat_range` and `struct cachestat`. Both live until the call returns, and the kernel keeps
    // neither.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_fd().as_raw_fd(), &raw const range, &raw mut counts, 0)
    };
    (result == 0).then(|| (counts.cached * page_bytes()).min(length_bytes))
}

fn mincore(file: BorrowedFd<'_>, part: &Range<u64>) -> Option<u64> {
    // For files of other users, the kernel reports every page as resident.
    let owner = rustix::fs::fstat(file).ok()?.st_uid;
    if owner != rustix::process::geteuid().as_raw() {
        return None;
    }
    let page = page_bytes();
    let mut pages = 0;
    let mut offset = part.start;
    while offset < part.end {
        let length = WINDOW_BYTES.min(part.end - offset);
        let mut answer = vec![0u8; length.div_ceil(page) as usize];
        // SAFETY: a new mapping at an address that the kernel chooses. It is never read or written, and every
        // path unmaps it below.
        let address = unsafe {
            libc::mmap64(
                std::ptr::null_mut(),
                length as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as libc::off64_t,
            )
        };
        if address == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the range is the mapping above, and the answer has a byte for each of its pages.
        let result = unsafe { libc::mincore(address, length as usize, answer.as_mut_ptr()) };
        // SAFETY: this is the whole mapping above, and nothing refers to it.
        let _ = unsafe { libc::munmap(address, length as usize) };
        if result != 0 {
            return None;
        }
        pages += answer.iter().filter(|page| **page & 1 == 1).count() as u64;
        offset += length;
    }
    Some((pages * page).min(part.end - part.start))
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn mincore_and_cachestat_count_written_pages() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let counted = mincore(file.as_fd(), &(0..1 << 20)).unwrap();
        assert_eq!(counted, 1 << 20);
        if let Some(told) = cachestat(file.as_fd(), &(0..1 << 20)) {
            assert_eq!(told, counted);
        }
        assert_eq!(mincore(file.as_fd(), &(0..1 << 19)), Some(1 << 19));
        assert_eq!(resident(file.as_fd(), 0..0).unwrap().bytes, 0);
        // A part in the middle, and one behind the end.
        assert_eq!(resident(file.as_fd(), 1 << 18..1 << 19).unwrap().bytes, 1 << 18);
        assert_eq!(resident(file.as_fd(), 1 << 20..1 << 21).unwrap().bytes, 0);
    }
}
