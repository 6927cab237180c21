//! Undoing of changes, while others may still be about to let go of them.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fuser::BackgroundSession;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Unmounts the top mount at this path, whatever still uses it. A busy mount is detached, and goes with its last user.
/// Returns true if it was unmounted; mounts below it stay.
pub fn unmount(path: &Path) -> bool {
    unmount_while(path, || true)
}

/// Does the same, as long as the top mount is the rig's: another process may cover it during the wait.
pub(crate) fn unmount_while(path: &Path, is_ours: impl Fn() -> bool) -> bool {
    let unmount = |flag: UnmountFlags| rustix::mount::unmount(path, flag | UnmountFlags::NOFOLLOW);
    for _ in 0..40 {
        if !is_ours() {
            return false;
        }
        match unmount(UnmountFlags::empty()) {
            Ok(()) => return true,
            // Something has just ended and is still closing its files.
            Err(Errno::BUSY) => thread::sleep(Duration::from_millis(25)),
            Err(_) => break,
        }
    }
    // Forced, FUSE answers with an error the requests that its server leaves open; other file systems ignore the flag.
    [UnmountFlags::FORCE, UnmountFlags::DETACH].into_iter().any(|flag| is_ours() && unmount(flag).is_ok())
}

/// Ends the server of a FUSE file system that is unmounted. Its thread ends when the last file is closed. A program
/// that keeps one open must not hold us up.
pub(crate) fn end_session(session: BackgroundSession) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !session.guard.is_finished() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    if session.guard.is_finished() {
        let _ = session.umount_and_join();
    } else {
        log::warn!("a FUSE session is still in use, and was not ended");
    }
}
