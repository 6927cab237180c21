//! Extents under the data of a test, and their places.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use model::run::{Extents, Place};
use observe::FileExtents;

/// Extents under a range of files.
#[derive(Debug, Default)]
pub struct DataExtents {
    /// Their shares; `None` where the test does not read, and where they are not known.
    pub shares: Option<Extents>,
    /// Their places; none if those of some file are not known.
    pub places: Vec<Place>,
}

impl DataExtents {
    /// Examines the range of all files. A test that does not read has no use for what takes long to find.
    pub fn find(files: &[OwnedFd], range: &Range<u64>, reads: bool) -> Self {
        let examine = if reads { observe::extents } else { observe::few_extents };
        let found: Option<Vec<_>> = files.iter().map(|file| examine(file.as_fd(), range.clone())).collect();
        let Some(found) = found else { return Self::default() };
        let length_bytes = (range.end - range.start) * files.len() as u64;
        Self { shares: reads.then(|| shares(&found, length_bytes)), places: places(&found) }
    }
}

fn shares(found: &[FileExtents], length_bytes: u64) -> Extents {
    let sum = |of: fn(&FileExtents) -> u64| found.iter().map(of).sum::<u64>();
    let share = |of| sum(of) as f64 / length_bytes.max(1) as f64;
    Extents {
        hole_share: share(|file| file.hole_bytes),
        unwritten_share: share(|file| file.unwritten_bytes),
        encoded_share: share(|file| file.encoded_bytes),
        extents: sum(|file| file.extents),
    }
}

fn places(found: &[FileExtents]) -> Vec<Place> {
    if found.iter().any(|file| file.addresses.is_empty()) {
        return Vec::new();
    }
    let place = |range: &Range<u64>| Place { start_bytes: range.start, end_bytes: range.end };
    Place::merged(found.iter().flat_map(|file| &file.addresses).map(place).collect())
}
