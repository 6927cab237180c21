//! Watch over the free space of a file system: it never falls below the reserve because of the run.
//!
//! The plan fits into what is free, but a file system may hold more than the files. One that copies on write keeps
//! overwritten blocks until it commits.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::size;
use model::{Plan, Target, UserError};

use crate::data_location::DataLocation;

/// Shortest and longest interval between checks.
const CHECK_INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(1);
/// Rate of a fast device. A check comes before it could take the room that is left.
const FAST_BYTES_PER_SECOND: u64 = 4_000_000_000;
/// Share of the room below which a file system that copies on write is synced. It then frees the blocks that it kept.
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
    /// Bytes that the run may take.
    room_bytes: u64,
    copies_on_write: bool,
    /// Free bytes while they are below the reserve, although the file system was synced; [`ENOUGH`] otherwise.
    short_bytes: AtomicU64,
}

/// Value for free space that is not short.
const ENOUGH: u64 = u64::MAX;

impl RoomWatch {
    /// Begins to watch the file system of a work directory. Returns `None` where the run keeps no reserve, or no thread can
    /// be made.
    pub fn begin(plan: &Plan, target: &Target, data_location: &DataLocation) -> Option<Self> {
        if plan.allow_low_space || !matches!(data_location, DataLocation::Own(_)) || !target.space.has_bytes()
        {
            return None;
        }
        let directory = data_location.descriptor().try_clone_to_owned().ok()?;
        Self::watch(target, directory)
    }

    fn watch(target: &Target, directory: OwnedFd) -> Option<Self> {
        let watch = Self(Arc::new(State::new(target)));
        let theirs = Arc::downgrade(&watch.0);
        let watching = move || {
            let free = || observe::space_at(&directory).map_or(ENOUGH, |space| space.free_bytes);
            let sync = || {
                let _ = rustix::fs::syncfs(&directory);
            };
            let mut synced_bytes = ENOUGH;
            while let Some(interval) =
                theirs.upgrade().map(|state| state.check(&mut synced_bytes, free, sync))
            {
                std::thread::sleep(interval);
            }
        };
        observe::thread::start("room", STACK_BYTES, watching).ok().map(|_| watch)
    }

    /// Returns the error of a write that would leave less than the reserve.
    pub fn shortage(&self, action: &str) -> Option<UserError> {
        let free_bytes = self.0.short_bytes.load(Ordering::Relaxed);
        let [free, reserve] = [free_bytes, self.0.reserve_bytes].map(size::binary);
        (free_bytes != ENOUGH).then(|| {
            UserError::new(
                action,
                format!("only {free} of the file system is free, less than the reserve of {reserve}"),
            )
            .help("make room, or use a smaller --size")
        })
    }
}

impl State {
    fn new(target: &Target) -> Self {
        let reserve_bytes = target.space.reserve_bytes();
        Self {
            reserve_bytes,
            room_bytes: target.space.free_bytes.saturating_sub(reserve_bytes),
            copies_on_write: target.copies_on_write(),
            short_bytes: AtomicU64::new(ENOUGH),
        }
    }

    /// Syncs the file system when its room gets short, and notes whether that helps. Returns the time until the next check.
    fn check(&self, synced_bytes: &mut u64, free: impl Fn() -> u64, sync: impl Fn()) -> Duration {
        let mut free_bytes = free();
        let low_bytes =
            self.reserve_bytes + if self.copies_on_write { self.room_bytes / SYNC_SHARE } else { 0 };
        let has_fallen = free_bytes < synced_bytes.saturating_sub(self.room_bytes / AGAIN_SHARE);
        let was_short = self.short_bytes.load(Ordering::Relaxed) != ENOUGH;
        let is_short = free_bytes < self.reserve_bytes && !was_short;
        if is_short || free_bytes < low_bytes && has_fallen {
            sync();
            free_bytes = free();
            *synced_bytes = free_bytes;
        }
        let short_bytes = if free_bytes < self.reserve_bytes { free_bytes } else { ENOUGH };
        self.short_bytes.store(short_bytes, Ordering::Relaxed);
        let left_bytes = free_bytes.saturating_sub(low_bytes);
        let left = Duration::from_secs_f64(left_bytes as f64 / FAST_BYTES_PER_SECOND as f64);
        left.clamp(*CHECK_INTERVALS.start(), *CHECK_INTERVALS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::target::Space;
    use std::cell::Cell;

    fn state(copies_on_write: bool) -> State {
        let short_bytes = AtomicU64::new(ENOUGH);
        State { reserve_bytes: 100, room_bytes: 800, copies_on_write, short_bytes }
    }

    /// Checks a space whose sync frees some bytes. Returns the number of syncs.
    fn syncs(state: &State, synced_bytes: &mut u64, free_bytes: u64, freed_bytes: u64) -> u32 {
        let (free, count) = (Cell::new(free_bytes), Cell::new(0));
        let sync = || {
            free.set(free.get() + freed_bytes);
            count.set(count.get() + 1);
        };
        state.check(synced_bytes, || free.get(), sync);
        count.get()
    }

    #[test]
    fn room_below_the_reserve_is_an_error() {
        let watch = RoomWatch(Arc::new(state(false)));
        let mut synced_bytes = ENOUGH;
        for (free_bytes, freed_bytes, expected_syncs, is_short) in
            [(101, 0, 0, false), (99, 50, 1, false), (99, 0, 1, true), (98, 0, 0, true), (100, 0, 0, false)]
        {
            let count = syncs(&watch.0, &mut synced_bytes, free_bytes, freed_bytes);
            assert_eq!(
                (count, watch.shortage("write").is_some()),
                (expected_syncs, is_short),
                "{free_bytes}"
            );
        }
    }

    #[test]
    fn room_of_copies_is_freed_early() {
        let (state, mut synced_bytes) = (state(true), ENOUGH);
        for (free_bytes, freed_bytes, expected_syncs) in
            [(301, 0, 0), (299, 400, 1), (299, 0, 1), (270, 0, 0), (240, 0, 1)]
        {
            assert_eq!(
                syncs(&state, &mut synced_bytes, free_bytes, freed_bytes),
                expected_syncs,
                "{free_bytes}"
            );
        }
    }

    #[test]
    fn ample_room_is_checked_once_a_second() {
        let check = |free_bytes| state(false).check(&mut { ENOUGH }, || free_bytes, || {});
        assert_eq!(check(1 << 40), Duration::from_secs(1));
        assert_eq!(check(150), Duration::from_millis(50));
    }

    #[test]
    fn watched_directories_have_their_own_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let root = observe::Root::system();
        let mut target = observe::target(&root, directory.path()).unwrap();
        // A reserve of 5 % that nothing can keep.
        target.space = Space { total_bytes: u64::MAX, ..target.space };
        let watch = RoomWatch::watch(&target, std::fs::File::open(directory.path()).unwrap().into()).unwrap();
        let error = loop {
            match watch.shortage("write") {
                Some(error) => break error,
                None => std::thread::sleep(*CHECK_INTERVALS.start()),
            }
        };
        assert!(error.cause.contains("less than the reserve of"), "{error}");
    }
}
