//! Files whose blocks lie in several places of a file system.
//!
//! A file is first made far too long: `fallocate` gives it blocks and writes none of them. Then `FALLOC_FL_COLLAPSE_RANGE` takes
//! pieces out of its middle. The rest lies in several places and has no gap. Both calls change this file alone, so nothing else has
//! to be removed. See fallocate(2); ext4 and XFS have both.

use std::ops::Range;

use model::plan::Spread;
use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

/// Shortest piece of a file. A stream of longer ones loses no time with seeks, even on a disk that spins.
const PIECE_BYTES_MIN: u64 = 8 << 20;
/// Pieces and gaps are multiples of this, and so of the blocks of all file systems.
const UNIT_BYTES: u64 = 1 << 20;

/// Allocates a range at the end of a file in as many places as remain. The part before it is written, and takes its share of
/// them. A file that is too small stays as it is.
///
/// # Errors
/// The call that failed. The file then ends where the range begins.
pub(super) fn spread(file: impl AsFd, range: Range<u64>, spread: Spread) -> Result<(), Errno> {
    let Some(pieces) = Pieces::new(&range, spread) else { return Ok(()) };
    let allocated = pieces.allocate(&file);
    if allocated.is_err() {
        ftruncate(&file, range.start)?;
    }
    allocated
}

/// Pieces of a range, each behind a gap.
#[derive(Debug, PartialEq, Eq)]
struct Pieces {
    start_bytes: u64,
    end_bytes: u64,
    count: u64,
    piece_bytes: u64,
    gap_bytes: u64,
}

impl Pieces {
    /// Returns the pieces; `None` if there is but one, or the gaps would be shorter than they are.
    fn new(range: &Range<u64>, spread: Spread) -> Option<Self> {
        // A range begins with the first whole unit that is not written.
        let start_bytes = range.start.next_multiple_of(UNIT_BYTES);
        let left_bytes = range.end.checked_sub(start_bytes)?;
        let places = u64::from(spread.places).min(range.end / PIECE_BYTES_MIN).max(1);
        let count = (left_bytes * places).div_ceil(range.end.max(1));
        let piece_bytes = left_bytes.checked_div(count)? / UNIT_BYTES * UNIT_BYTES;
        let gap_bytes =
            spread.span_bytes.checked_div(places)?.checked_sub(piece_bytes)? / UNIT_BYTES * UNIT_BYTES;
        let is_worth_it = places > 1 && piece_bytes > 0 && gap_bytes >= piece_bytes;
        is_worth_it.then_some(Self { start_bytes, end_bytes: range.end, count, piece_bytes, gap_bytes })
    }

    fn allocate(&self, file: &impl AsFd) -> Result<(), Errno> {
        let all_bytes = self.end_bytes - self.start_bytes + self.count * self.gap_bytes;
        fallocate(file, FallocateFlags::empty(), self.start_bytes, all_bytes)?;
        // From the end, so that nothing that is yet to be taken out has moved.
        for piece in (0..self.count).rev() {
            let at_bytes = self.start_bytes + piece * (self.piece_bytes + self.gap_bytes);
            fallocate(file, FallocateFlags::COLLAPSE_RANGE, at_bytes, self.gap_bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_share_what_is_not_written_yet() {
        let spread = Spread { places: 8, span_bytes: 1024 * MIB };
        let whole = Pieces::new(&(0..256 * MIB), spread).unwrap();
        assert_eq!((whole.count, whole.piece_bytes, whole.gap_bytes), (8, 32 * MIB, 96 * MIB));
        let rest = Pieces::new(&(96 * MIB..256 * MIB), spread).unwrap();
        assert_eq!((rest.count, rest.piece_bytes, rest.start_bytes), (5, 32 * MIB, 96 * MIB));
        let small = Pieces::new(&(0..16 * MIB), spread).unwrap();
        assert_eq!((small.count, small.piece_bytes), (2, 8 * MIB));
        for bytes in [0, 9 * MIB, 600 * MIB] {
            assert_eq!(Pieces::new(&(0..bytes), spread), None, "{bytes}");
        }
        assert_eq!(Pieces::new(&(256 * MIB..256 * MIB), spread), None);
    }

    #[test]
    fn spread_file_keeps_its_beginning_and_has_no_hole() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 3 * MIB as usize]).unwrap();
        let result = spread(&file, 3 * MIB..32 * MIB, Spread { places: 4, span_bytes: 128 * MIB });
        let length = file.metadata().unwrap().len();
        // A file system in memory takes nothing out of a file.
        assert_eq!(length, if result.is_ok() { 32 * MIB } else { 3 * MIB }, "{result:?}");
        let mut content = vec![0; 3 * MIB as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut content, 0).unwrap();
        assert!(content.iter().all(|byte| *byte == 7));
    }
}
