//! Extents under the data of a test, and their places.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use model::run::{Extents, Place};
use observe::{ExtentAddress, FileExtents};

/// Extents under a range of files.
#[derive(Debug, Default)]
pub struct DataExtents {
    /// Their shares; `None` where the test does not read, and where they are not known.
    pub shares: Option<Extents>,
    /// Their addresses in each file; none if those of some file are not known.
    pub addresses: Vec<Vec<ExtentAddress>>,
}

impl DataExtents {
    /// Examines the range of all files. A test that does not read has no use for what takes long to find.
    pub fn find(files: &[OwnedFd], range: &Range<u64>, reads: bool) -> Self {
        let examine = if reads { observe::extents } else { observe::few_extents };
        let found: Option<Vec<FileExtents>> =
            files.iter().map(|file| examine(file.as_fd(), range.clone())).collect();
        let Some(found) = found else { return Self::default() };
        let length_bytes = (range.end - range.start) * files.len() as u64;
        let shares = reads.then(|| shares(&found, length_bytes));
        let are_known = found.iter().all(|file| !file.addresses.is_empty());
        let known = found.into_iter().filter(|_| are_known);
        Self { shares, addresses: known.map(|file| file.addresses).collect() }
    }

    /// Returns the places of the data; none if they are not known.
    pub fn places(&self) -> Vec<Place> {
        let place = |extent: &ExtentAddress| {
            let start_bytes = extent.address_bytes;
            Place { start_bytes, end_bytes: start_bytes.saturating_add(extent.length_bytes) }
        };
        Place::merged(self.addresses.iter().flatten().map(place).collect())
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
