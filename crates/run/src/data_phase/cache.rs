//! The page cache before a test: pages that stay, go or come, and a check of the result.

use std::io::Result;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::UserError;
use model::run::Residency;
use model::workload::{Access, CacheMode, DataWork};
use rustix::fs::Advice;

use crate::caches;
use crate::dataset::{FileGroup, Origin, ignore_unsupported_sync};
use crate::drive::RunningPhase;
use crate::extents::DataExtents;
use crate::hang_detection;

/// Residency below this share counts as nothing: the kernel keeps a page of a file here and there.
const COLD_SHARE: f64 = 0.001;
/// Pause after which pages that are just being dropped are gone.
const DROP_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);

/// Facts about the files before the test begins.
#[derive(Debug, Default)]
pub(super) struct CacheState {
    pub(super) residency: Option<Residency>,
    pub(super) extents: DataExtents,
}

/// Brings the pages of the files into the requested state, and checks the result. Writes back all that
/// earlier tests left. Truncates the files of a test that makes its own.
pub(super) fn prepare(
    files: &Arc<[OwnedFd]>,
    group: &FileGroup,
    data: &DataWork,
    mode: CacheMode,
    drive: &mut RunningPhase<'_>,
) -> std::result::Result<CacheState, UserError> {
    let action = "prepare the page cache";
    let preparation = Preparation {
        data: data.clone(),
        mode,
        is_existing: group.origin == Origin::Read,
        interrupt: Arc::clone(drive.interrupt),
    };
    let (files, part) = (Arc::clone(files), group.part());
    let range = data.range_of(group.file_bytes);
    let range = part.start + range.start..part.start + range.end;
    let (raised, mut moved) = (Arc::clone(drive.interrupt), drive.meter.activity());
    let activity = || if raised.load(Ordering::Relaxed) { 0 } else { moved() };
    let prepare = move || preparation.apply(&files, &part, &range);
    hang_detection::wait_with_progress(action, activity, prepare)?
        .map_err(|error| UserError::new(action, error))
}

/// Returns the resident share of the files, and the call that counted it.
pub(super) fn resident_share(files: &[OwnedFd], part: &Range<u64>) -> Option<(f64, &'static str)> {
    let all = (part.end - part.start) * files.len() as u64;
    let mut sum = (0, "");
    for file in files {
        let resident = observe::resident(file.as_fd(), part.clone())?;
        sum = (sum.0 + resident.bytes, resident.source);
    }
    (all > 0).then(|| (sum.0 as f64 / all as f64, sum.1))
}

/// Preparation of the page cache for a test.
struct Preparation {
    data: DataWork,
    mode: CacheMode,
    /// True if skye has not made the files, and only reads them.
    is_existing: bool,
    interrupt: Arc<AtomicBool>,
}

impl Preparation {
    fn apply(&self, files: &[OwnedFd], part: &Range<u64>, range: &Range<u64>) -> Result<CacheState> {
        let (reads, direct) = (self.data.reads(), self.data.direct);
        for file in files {
            if self.interrupt.load(Ordering::Relaxed) {
                return Ok(CacheState::default());
            }
            self.write_back(file)?;
            if reads && !direct && self.data.access == Access::Random {
                // Read-ahead would fetch blocks before their request, which would then look like cache hits.
                let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
            }
            if self.drops() {
                drop_pages(file);
            } else if reads && self.mode == CacheMode::Warm {
                read_whole(file, &self.interrupt)?;
            }
        }
        if self.mode == CacheMode::DropAll && !direct {
            caches::drop_all()?;
        }
        let mut resident = resident_share(files, part);
        if resident.is_some_and(|(share, _)| share > COLD_SHARE) && self.drops() {
            std::thread::sleep(DROP_AGAIN);
            files.iter().for_each(drop_pages);
            resident = resident_share(files, part);
        }
        let residency = |(share, source): (f64, &str)| Residency {
            before: Some(share),
            after: None,
            source: source.into(),
        };
        let has_content = !self.data.fresh;
        Ok(CacheState {
            residency: resident.map(residency),
            extents: if has_content {
                DataExtents::find(files, range, reads)
            } else {
                DataExtents::default()
            },
        })
    }

    /// Returns true if the pages of the files are dropped. Others may need their pages, which direct reads go past.
    fn drops(&self) -> bool {
        if self.data.direct { !self.is_existing } else { self.mode == CacheMode::Cold }
    }

    /// Makes a file durable, or truncates it if the test is `fresh`.
    fn write_back(&self, file: &OwnedFd) -> Result<()> {
        if self.data.fresh {
            // The old blocks are free once the truncation is durable, and freeing them is no part of the
            // test.
            rustix::fs::ftruncate(file, 0)?;
            ignore_unsupported_sync(rustix::fs::fsync(file))?;
        } else if !self.is_existing {
            ignore_unsupported_sync(rustix::fs::fdatasync(file))?;
        } else if !self.data.direct {
            // Dirty pages, which are others' here, cannot be dropped. Where that is refused, they stay.
            let _ = rustix::fs::fdatasync(file);
        }
        Ok(())
    }
}

/// Drops the pages of a file. This is only advice: pages that could not be dropped show in the share that came from
/// the cache.
fn drop_pages(file: &OwnedFd) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

fn read_whole(file: &OwnedFd, interrupt: &AtomicBool) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset_bytes = 0;
    loop {
        let got = rustix::io::pread(file, &mut buffer, offset_bytes)?;
        if got == 0 || interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        offset_bytes += got as u64;
    }
}
