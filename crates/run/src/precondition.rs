//! Fills of the data before the tests: discards it if requested, then writes all of it in sequence.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::clock::{Clock, Monotonic};
use engine::discard::{discard, is_device};
use model::UserError;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::data_location::DataLocation;
use crate::dataset::{FileGroup, FillProgress};
use crate::hang_detection;

/// Bytes of one discard: each ends within a moment, so that a purge that hangs is noticed.
const PURGE_BYTES: u64 = 1 << 30;

/// Discards all files of a group, and returns the time that it took.
///
/// # Errors
/// Fails if a discard fails or hangs, or if `stop` is raised.
pub fn purge(
    group: &mut FileGroup,
    directory: &DataLocation,
    stop: &Arc<AtomicBool>,
    mut activity: impl FnMut() -> u64,
) -> Result<u64, UserError> {
    let action = format!("discard all data in {}", directory.path().display());
    let descriptor = directory.descriptor().try_clone_to_owned();
    let descriptor = descriptor.map_err(|error| UserError::new(&action, error))?;
    let purged = Arc::new(AtomicU64::new(0));
    let (theirs, files, path) = (Arc::clone(&purged), group.clone(), directory.path().to_owned());
    let (stop, words) = (Arc::clone(stop), action.clone());
    let start_ns = Monotonic.now_ns();
    group.filled = FillProgress::Discarded;
    let work = move || -> Result<(), UserError> {
        let failed = |errno: Errno| {
            let error = UserError::new(&words, std::io::Error::from(errno));
            match errno {
                Errno::OPNOTSUPP => error.help(
                    "use --precondition instead of --purge: this file system or device does not support discard",
                ),
                _ => error,
            }
        };
        for index in 0..files.files {
            let file = files.open_file(descriptor.as_fd(), &path, index.into(), OFlags::WRONLY)?;
            let is_device = is_device(file.as_fd());
            let mut offset_bytes = 0;
            while offset_bytes < files.file_bytes {
                if stop.load(Ordering::Relaxed) {
                    return Err(UserError::new(&words, "interrupted"));
                }
                let bytes = PURGE_BYTES.min(files.file_bytes - offset_bytes);
                discard(file.as_fd(), is_device, offset_bytes, bytes).map_err(failed)?;
                offset_bytes += bytes;
                theirs.fetch_add(bytes, Ordering::Relaxed);
            }
            rustix::fs::fdatasync(&file).map_err(failed)?;
        }
        Ok(())
    };
    let moved = || purged.load(Ordering::Relaxed).wrapping_add(activity());
    hang_detection::wait_with_progress(&action, moved, work)??;
    Ok(Monotonic.now_ns().saturating_sub(start_ns))
}
