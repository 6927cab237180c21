//! Dropping of the machine's caches. Runs only at the user's explicit request.

use std::os::fd::AsFd;

use model::UserError;

use crate::data_location::DataLocation;
use crate::hang_detection;

/// Drops clean pages, names and inodes of the whole machine.
///
/// # Errors
/// The kernel's, such as that only root may do it.
pub fn drop_all() -> std::io::Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Drops the names and inodes of the target, and with them all caches of the machine.
///
/// # Errors
/// The step that failed, or that hangs.
pub fn drop_names(directory: &DataLocation) -> Result<(), UserError> {
    let action = "drop the machine's caches";
    let refused = |error: std::io::Error| {
        UserError::new(action, error).help("run it outside of the container, or drop --cold and :cold")
    };
    let target = directory.descriptor().as_fd().try_clone_to_owned().map_err(refused)?;
    let drop = move || {
        // Only clean inodes can be dropped, and those of files just made are dirty.
        rustix::fs::syncfs(&target)?;
        drop_all()?;
        // A journal holds blocks of inodes until the first time has dropped its own lists.
        drop_all()
    };
    hang_detection::write_with_progress(action, move |_| drop())?.map_err(refused)
}
