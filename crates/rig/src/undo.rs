//! Undoing what was made, while others may still be about to let go of it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fuser::BackgroundSession;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Unmounts, whatever still uses it; what is busy is detached, and goes with its last user.
pub fn unmount(path: &Path) {
    for _ in 0..40 {
        match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
            // Something has just ended and is still closing its files.
            Err(Errno::BUSY) => thread::sleep(Duration::from_millis(25)),
            Ok(()) | Err(_) => break,
        }
    }
    // Forced, FUSE answers with an error what its server does not; others ignore the word. Both fail, as they should,
    // where nothing is mounted any more.
    for flag in [UnmountFlags::FORCE, UnmountFlags::DETACH] {
        let _ = rustix::mount::unmount(path, flag | UnmountFlags::NOFOLLOW);
    }
}

/// Ends the server of a FUSE file system that is unmounted. Its thread ends when the last file is closed; a program that
/// will not close one must not hold us.
pub(crate) fn end_session(session: BackgroundSession) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !session.guard.is_finished() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    if session.guard.is_finished() {
        let _ = session.umount_and_join();
    } else {
        log::warn!("a FUSE session is still in use and was left to its users");
    }
}
