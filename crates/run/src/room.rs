//! Watch over the free space of a file system: it never falls below the reserve because of the run.
//!
//! The plan fits into what is free, but a file system may hold more than the files. One that copies on write keeps
//! overwritten blocks until it commits.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::size;
use model::{Plan, Target, UserError};

use crate::data_location::DataLocation;

/// Shortest and longest interval between checks.
const CHECK_INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(1);
/// Longest interval where a check takes no time: other programs may take room at any moment.
const LOCAL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval in durations of a check, so that checks take at most a thousandth of a server's time.
const INTERVAL_PER_CHECK: u32 = 1000;
/// Rate of a fast device. A check comes before it could take the room that is left.
const FAST_BYTES_PER_SECOND: u64 = 4_000_000_000;
/// Share of the room below which a file system that frees blocks later is synced.
const SYNC_SHARE: u64 = 4;
/// Another sync follows only if the free space has fallen by this share of the room since the last one.
const RESYNC_SHARE: u64 = 16;
/// Share of the reserve that the free space may lack while a sync is tried.
const SYNC_RESERVE_SHARE: u64 = 2;
/// Stack of a thread.
const STACK_BYTES: usize = 64 << 10;

/// Watch over free space, by a thread that ends with it.
#[derive(Debug, Clone)]
pub struct RoomWatch(Arc<State>);

#[derive(Debug)]
struct State {
    reserve_bytes: u64,
    /// Bytes that the run may take.
    room_bytes: u64,
    /// True if the file system may free blocks some time after they were overwritten or removed. A sync frees them.
    frees_in_background: bool,
    /// Free bytes when they were last short; [`ENOUGH`] if they were not since the last read.
    short_bytes: AtomicU64,
}

/// Value for free space that is not short.
const ENOUGH: u64 = u64::MAX;

/// Syncs of a watched file system. Each has its own thread, so that checks go on.
#[derive(Debug)]
struct Syncs {
    is_running: Arc<AtomicBool>,
    was_running: bool,
    /// Free bytes after the last sync.
    free_bytes_after_sync: u64,
    /// True if the last sync started below the reserve, and the free space has not reached it since.
    has_started_below: bool,
}

impl Syncs {
    fn new() -> Self {
        Self {
            is_running: Arc::default(),
            was_running: false,
            free_bytes_after_sync: ENOUGH,
            has_started_below: false,
        }
    }

    fn start(&self, directory: &OwnedFd) {
        let Ok(directory) = directory.try_clone() else { return };
        self.is_running.store(true, Ordering::Relaxed);
        let is_running = Arc::clone(&self.is_running);
        let work = move || {
            let _ = rustix::fs::syncfs(&directory);
            is_running.store(false, Ordering::Relaxed);
        };
        if observe::thread::start("sync", STACK_BYTES, work).is_err() {
            self.is_running.store(false, Ordering::Relaxed);
        }
    }
}

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
        let state = Arc::downgrade(&watch.0);
        let watching = move || {
            let mut syncs = Syncs::new();
            while let Some(state) = state.upgrade() {
                let started = Instant::now();
                let free_bytes = observe::space_at(&directory).map_or(ENOUGH, |space| space.free_bytes);
                let longest = LOCAL_INTERVAL.max(started.elapsed() * INTERVAL_PER_CHECK);
                if state.check(&mut syncs, free_bytes) {
                    syncs.start(&directory);
                }
                let interval = state.interval(free_bytes).min(longest);
                drop(state);
                std::thread::sleep(interval);
            }
        };
        observe::thread::start("room", STACK_BYTES, watching).ok().map(|_| watch)
    }

    /// Forgets a shortage of earlier work. One that lasts is found again by the next check.
    pub fn reset(&self) {
        self.0.short_bytes.store(ENOUGH, Ordering::Relaxed);
    }

    /// Returns the error of a write that has left less than the reserve since [`reset`](Self::reset), even for a moment.
    pub fn shortage(&self, action: &str) -> Option<UserError> {
        let free_bytes = self.0.short_bytes.load(Ordering::Relaxed);
        let [free, reserve] = [free_bytes, self.0.reserve_bytes].map(size::binary);
        (free_bytes != ENOUGH).then(|| {
            UserError::new(
                action,
                format!("only {free} of the file system is free, less than the reserve of {reserve}"),
            )
            .help("use a smaller --size, or free some space")
        })
    }
}

impl State {
    fn new(target: &Target) -> Self {
        let reserve_bytes = target.space.reserve_bytes();
        Self {
            reserve_bytes,
            room_bytes: target.space.free_bytes.saturating_sub(reserve_bytes),
            frees_in_background: target.frees_in_background(),
            short_bytes: AtomicU64::new(ENOUGH),
        }
    }

    /// Free bytes below which a sync may help.
    fn low_bytes(&self) -> u64 {
        self.reserve_bytes + if self.frees_in_background { self.room_bytes / SYNC_SHARE } else { 0 }
    }

    /// Notes whether the free space is short: it is below the reserve, and a sync does not help. Returns true if a sync is
    /// to start.
    fn check(&self, syncs: &mut Syncs, free_bytes: u64) -> bool {
        let is_running = syncs.is_running.load(Ordering::Relaxed);
        if std::mem::replace(&mut syncs.was_running, is_running) && !is_running {
            syncs.free_bytes_after_sync = free_bytes;
        }
        let is_below = free_bytes < self.reserve_bytes;
        syncs.has_started_below &= is_below;
        let is_without_effect = syncs.has_started_below && !is_running;
        let is_far_below = free_bytes < self.reserve_bytes / SYNC_RESERVE_SHARE;
        if is_below && (!self.frees_in_background || is_without_effect || is_far_below) {
            self.short_bytes.store(free_bytes, Ordering::Relaxed);
        }
        let has_fallen =
            free_bytes < syncs.free_bytes_after_sync.saturating_sub(self.room_bytes / RESYNC_SHARE);
        let is_low = free_bytes < self.low_bytes() && has_fallen;
        let starts = self.frees_in_background && !is_running && (is_low || is_below && !is_without_effect);
        syncs.was_running |= starts;
        syncs.has_started_below |= starts && is_below;
        starts
    }

    /// Returns the time until the next check.
    fn interval(&self, free_bytes: u64) -> Duration {
        let left_bytes = free_bytes.saturating_sub(self.low_bytes());
        let left = Duration::from_secs_f64(left_bytes as f64 / FAST_BYTES_PER_SECOND as f64);
        left.clamp(*CHECK_INTERVALS.start(), *CHECK_INTERVALS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::target::Space;

    fn watch(frees_in_background: bool) -> RoomWatch {
        let short_bytes = AtomicU64::new(ENOUGH);
        RoomWatch(Arc::new(State { reserve_bytes: 100, room_bytes: 800, frees_in_background, short_bytes }))
    }

    /// Checks free bytes in turn, each with the end of a running sync before it or not. Returns whether each started a sync
    /// and whether the space is short.
    fn checks<const N: usize>(watch: &RoomWatch, steps: [(u64, bool); N]) -> [(bool, bool); N] {
        let mut syncs = Syncs::new();
        steps.map(|(free_bytes, ends)| {
            if ends {
                syncs.is_running.store(false, Ordering::Relaxed);
            }
            let starts = watch.0.check(&mut syncs, free_bytes);
            syncs.is_running.fetch_or(starts, Ordering::Relaxed);
            (starts, watch.shortage("write").is_some())
        })
    }

    #[test]
    fn free_space_below_reserve_is_reported_at_once() {
        let watch = watch(false);
        let short = checks(&watch, [(101, false), (99, false), (101, false)]);
        assert_eq!(short, [(false, false), (false, true), (false, true)], "a dip is not forgotten");
        watch.reset();
        assert!(watch.shortage("write").is_none());
    }

    #[test]
    fn space_shortage_is_confirmed_by_sync_before_report() {
        let steps = [(99, false), (98, false), (110, true), (99, false), (99, true)];
        let expected = [(true, false), (false, false), (false, false), (true, false), (false, true)];
        assert_eq!(checks(&watch(true), steps), expected);
        assert_eq!(
            checks(&watch(true), [(99, false), (49, false)])[1],
            (false, true),
            "far below the reserve"
        );
    }

    #[test]
    fn delayed_frees_are_synced_well_above_the_reserve() {
        let steps = [(301, false), (299, false), (298, true), (270, false), (240, false)];
        assert_eq!(checks(&watch(true), steps).map(|(starts, _)| starts), [false, true, false, false, true]);
    }

    #[test]
    fn ample_room_is_checked_once_a_second() {
        assert_eq!(watch(false).0.interval(1 << 40), Duration::from_secs(1));
        assert_eq!(watch(false).0.interval(150), Duration::from_millis(10));
    }

    #[test]
    fn space_shortage_is_reported_for_watched_directory() {
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
