//! Contents of a device that is to be erased, as far as a few seconds show them.
//!
//! The first and the last 16 MiB are read whole. Between them, 4 KiB are read at up to 4,096 random places, one in each of
//! as many equal parts. Then all of a small device is read. A block of zeros is free, and so is a block that an earlier run
//! of skye wrote there. Any other block is data.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::earlier::EarlierData;
use rustix::fs::{Advice, fadvise};

use super::formats::{self, PLACE_BYTES};
use super::tables::{ReadAt, TablePart, parts};

/// Bytes at either end that are read whole: tables, superblocks and logs of most formats are there.
const END_BYTES: u64 = 16 << 20;
/// Places between the ends. Data in a thousandth of the blocks is found with a probability of 98 %.
const PLACES_MAX: u64 = 4096;
/// Unit of the check: the page of most file systems and databases, and the distance of skye's stamps.
const BLOCK_BYTES: u64 = 4096;
/// Size of one read at the ends.
const CHUNK_BYTES: usize = 1 << 20;
/// Largest device that is read whole. [`formats`] does not inspect the backup superblocks of custom layouts.
const WHOLE_BYTES_MAX: u64 = 2 << 30;
/// Time for all between the ends. A hard disk reads some 100 of the places, or 200 MB, in a second.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Contents of a device, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Offset of the first block read that is neither zero nor written by skye.
    pub data_at_bytes: Option<u64>,
    /// True if a block holds data of an earlier run of skye.
    pub has_earlier_run: bool,
}

/// Drops the pages of a device. Those that another program has read may be older than the device: the file below a loop
/// changes without them.
pub fn drop_cache(device: &OwnedFd) {
    let _ = rustix::fs::fsync(device);
    let _ = fadvise(device, 0, None, Advice::DontNeed);
}

/// Reads samples of a device, until the first block of data.
///
/// # Errors
/// A place cannot be read, in a clause with its offset.
pub fn scan(device: &OwnedFd, size_bytes: u64, progress: &AtomicU64) -> Result<Contents, String> {
    let mut found = Contents::default();
    let mut earlier = EarlierData::default();
    let since = Instant::now();
    let head = END_BYTES.min(size_bytes);
    // Blocks begin at multiples of their size, so that stamps begin where blocks do.
    let tail = (size_bytes.saturating_sub(END_BYTES) / BLOCK_BYTES * BLOCK_BYTES).max(head);
    let chunks = |from: u64, to: u64, is_end: bool| {
        let starts = (from..to).step_by(CHUNK_BYTES);
        starts.map(move |start| (start, (to - start).min(CHUNK_BYTES as u64) as usize, is_end, false))
    };
    let ends = chunks(0, head, true).chain(chunks(tail, size_bytes, true));
    let is_small = size_bytes <= WHOLE_BYTES_MAX;
    let blocks = (tail - head) / BLOCK_BYTES;
    let places = blocks.min(PLACES_MAX);
    let between = (0..places).map(|place| {
        let part = place * blocks / places..(place + 1) * blocks / places;
        // The rest of a small device has these places, too.
        (head + fastrand::u64(part) * BLOCK_BYTES, BLOCK_BYTES as usize, false, is_small)
    });
    let rest = chunks(head, if is_small { tail } else { head }, false);
    for (start, len, is_end, is_repeated) in ends.chain(between).chain(rest) {
        if !is_end && since.elapsed() > TIME_MAX {
            break;
        }
        let bytes = device.read(start, len).map_err(|error| unreadable(start, &error))?;
        if !is_repeated {
            found.read_bytes += bytes.len() as u64;
        }
        progress.fetch_add(1, Ordering::Relaxed);
        for (index, block) in bytes.chunks(BLOCK_BYTES as usize).enumerate() {
            let at = start + index as u64 * BLOCK_BYTES;
            if block.iter().all(|byte| *byte == 0) {
                continue;
            }
            if !earlier.recognises(block, at) {
                found.data_at_bytes = Some(at);
                return Ok(found);
            }
            found.has_earlier_run = true;
        }
    }
    Ok(found)
}

/// Returns names of formats in a part of a device that blkid does not find, sorted.
///
/// # Errors
/// A place cannot be read, in a clause with its offset.
pub fn formats(device: &OwnedFd, part: &TablePart, progress: &AtomicU64) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for place in formats::places(part.size_bytes) {
        let len = PLACE_BYTES.min((part.size_bytes - place.offset_bytes) as usize);
        let start = part.offset_bytes + place.offset_bytes;
        let bytes = device.read(start, len).map_err(|error| unreadable(start, &error))?;
        progress.fetch_add(1, Ordering::Relaxed);
        names.extend(place.name(&bytes).map(str::to_owned));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the parts that partition tables on a device name.
///
/// # Errors
/// The tables cannot be read, in a clause.
pub fn table_parts(device: &OwnedFd, size_bytes: u64) -> Result<Vec<TablePart>, String> {
    // Reads at random places bring nothing else into the page cache.
    let _ = fadvise(device, 0, None, Advice::Random);
    parts(device, size_bytes).map_err(|error| format!("its partition table cannot be read: {error}"))
}

fn unreadable(offset_bytes: u64, error: &io::Error) -> String {
    format!("byte {offset_bytes} cannot be read: {error}")
}

impl ReadAt for OwnedFd {
    fn read(&self, offset_bytes: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match rustix::io::pread(self.as_fd(), &mut bytes[filled..], offset_bytes + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const SIZE_BYTES: u64 = WHOLE_BYTES_MAX + (200 << 20);

    fn scan_file(file: &File) -> Contents {
        scan(&file.try_clone().unwrap().into(), file.metadata().unwrap().len(), &AtomicU64::new(0)).unwrap()
    }

    fn sparse(size_bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size_bytes).unwrap();
        file
    }

    #[test]
    fn blank_device_scan_reads_both_ends_and_samples_between() {
        let read = |size_bytes| {
            let found = scan_file(&sparse(size_bytes));
            assert_eq!((found.data_at_bytes, found.has_earlier_run), (None, false));
            found.read_bytes
        };
        assert_eq!(read(SIZE_BYTES), 2 * END_BYTES + PLACES_MAX * BLOCK_BYTES);
        // Small devices are read whole.
        for size_bytes in
            [0, 512, 4096 + 512, END_BYTES + 512, 2 * END_BYTES, 2 * END_BYTES + 4096, 300 << 20]
        {
            assert_eq!(read(size_bytes), size_bytes);
        }
    }

    #[test]
    fn single_byte_on_small_device_is_data() {
        for at in [END_BYTES, 77 << 20, (200 << 20) - END_BYTES - 1] {
            let file = sparse(200 << 20);
            file.write_all_at(&[1], at).unwrap();
            assert_eq!(scan_file(&file).data_at_bytes, Some(at / 4096 * 4096), "{at}");
        }
    }

    #[test]
    fn byte_at_either_end_is_data() {
        for at in [0, 4095, 5 << 20, END_BYTES - 1, SIZE_BYTES - END_BYTES, SIZE_BYTES - 1] {
            let file = sparse(SIZE_BYTES);
            file.write_all_at(&[1], at).unwrap();
            assert_eq!(scan_file(&file).data_at_bytes, Some(at / 4096 * 4096), "{at}");
        }
    }

    #[test]
    fn rare_data_between_the_ends_is_found() {
        // One block in 20 holds data; 4,096 places miss all of them once in 10^91 looks.
        let file = sparse(SIZE_BYTES);
        for at in (END_BYTES..SIZE_BYTES - END_BYTES).step_by(20 * 4096) {
            file.write_all_at(b"row", at + 1000).unwrap();
        }
        let found = scan_file(&file);
        let at = found.data_at_bytes.unwrap();
        assert_eq!((at - END_BYTES) % (20 * 4096), 0);
    }
}
