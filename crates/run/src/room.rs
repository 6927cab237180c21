//! Watch over the free space of a file system: it never falls below the reserve because of the run.
//!
//! The plan fits into what is free, but a file system may hold more than the files. One that copies on write keeps
//! overwritten blocks until it commits.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::size;
use model::{Plan, Target, Trouble};

use crate::home::Home;

/// Interval between checks. A device of 2 GB/s writes 100 MB in this time.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Share of the room for the run below which the file system is synced, so that it frees what it has kept.
const SYNC_SHARE: u64 = 4;
/// Another sync follows only if the free space has fallen by this share of the room since the last one.
const AGAIN_SHARE: u64 = 16;
/// Stack of the thread.
const STACK_BYTES: usize = 64 << 10;

/// Watch over free space, by a thread that ends with it.
#[derive(Debug, Clone)]
pub struct RoomWatch(Arc<State>);

#[derive(Debug)]
struct State {
    reserve_bytes: u64,
    /// Free bytes when they were found below the reserve after a sync; [`ENOUGH`] before.
    short_bytes: AtomicU64,
}

/// Value for free space that has never been short.
const ENOUGH: u64 = u64::MAX;

impl RoomWatch {
    /// Begins to watch the file system of a work directory. Returns `None` where the run keeps no reserve, or no thread can
    /// be made.
    pub fn begin(plan: &Plan, target: &Target, home: &Home) -> Option<Self> {
        if plan.allow_low_space || !matches!(home, Home::Ours(_)) || !target.space.has_bytes() {
            return None;
        }
        let directory = home.descriptor().try_clone_to_owned().ok()?;
        Self::watch(target, directory)
    }

    fn watch(target: &Target, directory: OwnedFd) -> Option<Self> {
        let (reserve_bytes, free_bytes) = (target.space.reserve_bytes(), target.space.free_bytes);
        let state = State { reserve_bytes, short_bytes: AtomicU64::new(ENOUGH) };
        let watch = Self(Arc::new(state));
        let theirs = Arc::downgrade(&watch.0);
        let room_bytes = free_bytes.saturating_sub(reserve_bytes);
        let watching = move || {
            let mut synced_bytes = ENOUGH;
            while theirs
                .upgrade()
                .is_some_and(|state| check(&state, &directory, room_bytes, &mut synced_bytes))
            {
                std::thread::sleep(CHECK_INTERVAL);
            }
        };
        observe::thread::start("room", STACK_BYTES, watching).ok().map(|_| watch)
    }

    /// Returns the error of a write that would leave less than the reserve.
    pub fn shortage(&self, attempt: &str) -> Option<Trouble> {
        let free_bytes = self.0.short_bytes.load(Ordering::Relaxed);
        let [free, reserve] = [free_bytes, self.0.reserve_bytes].map(size::binary);
        (free_bytes != ENOUGH).then(|| {
            Trouble::new(
                attempt,
                format!("only {free} of the file system is free, less than the reserve of {reserve}"),
            )
            .remedy("make room, or use a smaller --size")
        })
    }
}

/// Syncs the file system when its room gets short, and notes if that does not help. Returns false if nothing is left to
/// watch for.
fn check(state: &State, directory: &OwnedFd, room_bytes: u64, synced_bytes: &mut u64) -> bool {
    let free = || observe::space_at(directory).map_or(ENOUGH, |space| space.free_bytes);
    let free_bytes = free();
    let sync_below = state.reserve_bytes + room_bytes / SYNC_SHARE;
    let has_fallen = free_bytes < synced_bytes.saturating_sub(room_bytes / AGAIN_SHARE);
    let is_short = free_bytes < state.reserve_bytes;
    if !(is_short || free_bytes < sync_below && has_fallen) {
        return true;
    }
    let _ = rustix::fs::syncfs(directory);
    *synced_bytes = free();
    if *synced_bytes < state.reserve_bytes {
        state.short_bytes.store(*synced_bytes, Ordering::Relaxed);
    }
    *synced_bytes >= state.reserve_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::target::Space;

    #[test]
    fn room_below_the_reserve_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let root = observe::Root::system();
        let mut target = observe::target(&root, directory.path()).unwrap();
        let begin = |target: &Target| {
            let directory = std::fs::File::open(directory.path()).unwrap();
            RoomWatch::watch(target, directory.into())
        };
        let watch = begin(&target).unwrap();
        std::thread::sleep(CHECK_INTERVAL * 4);
        assert_eq!(watch.shortage("write"), None);
        // A reserve of 5 % that nobody can keep.
        target.space = Space { total_bytes: u64::MAX, ..target.space };
        let watch = begin(&target).unwrap();
        let trouble = loop {
            match watch.shortage("write") {
                Some(trouble) => break trouble,
                None => std::thread::sleep(CHECK_INTERVAL),
            }
        };
        assert!(trouble.cause.contains("less than the reserve of"), "{trouble}");
    }
}
