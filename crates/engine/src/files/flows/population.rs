//! Files that flows work on: those of one thread, or those that all threads share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::data::mix;
use crate::names::Kind;

/// Mark of a file that has its other name.
const RENAMED: u64 = 1 << 63;
/// Mark of a file that has a second name.
const LINKED: u64 = 1 << 62;
/// Mark of a file that a thread works on.
const CLAIMED: u64 = 1 << 61;
const SIZE: u64 = CLAIMED - 1;

/// Random numbers of a thread.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed) | 1)
    }

    /// Returns a random number below a bound (Lemire, "Fast random integer generation in an interval", 2019, without
    /// its correction: bounds are far below 2³²).
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (high * bound) >> 32
    }
}

/// A file that a thread works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedFile {
    /// Its number, which its names have.
    pub number: u64,
    slot: u32,
    /// Size, and marks.
    state: u64,
}

impl ClaimedFile {
    /// Its size.
    #[inline]
    pub fn size_bytes(&self) -> u64 {
        self.state & SIZE
    }

    /// Gives it another size.
    #[inline]
    pub fn resize(&mut self, size_bytes: u64) {
        self.state = (self.state & !SIZE) | size_bytes;
    }

    /// Kind of its name, and of the name that it would get by a renaming.
    #[inline]
    pub fn kinds(&self) -> (Kind, Kind) {
        match self.state & RENAMED {
            0 => (Kind::File, Kind::Renamed),
            _ => (Kind::Renamed, Kind::File),
        }
    }

    /// Takes note that it has its other name.
    #[inline]
    pub fn rename(&mut self) {
        self.state ^= RENAMED;
    }

    /// Returns true if it has a second name.
    #[inline]
    pub fn is_linked(&self) -> bool {
        self.state & LINKED != 0
    }

    /// Takes note that it got a second name, or lost it.
    #[inline]
    pub fn link(&mut self) {
        self.state ^= LINKED;
    }
}

/// Files that flows of one thread work on.
pub trait Population: fmt::Debug {
    /// Takes a file at random to work on. All are equally likely.
    fn claim(&mut self, random: &mut Random) -> ClaimedFile;

    /// Gives back a file that is not worked on any longer.
    fn release(&mut self, held: ClaimedFile);

    /// Takes a file out of the population, to delete it. It may be `held`, which the caller then has no longer.
    fn take(&mut self, held: &ClaimedFile, random: &mut Random) -> ClaimedFile;

    /// Forgets a file that was taken and deleted.
    fn forget(&mut self, taken: ClaimedFile);

    /// Returns a file with a number that none had before. It belongs to the population once it is released.
    fn new_file(&mut self, size_bytes: u64) -> ClaimedFile;

    /// Returns the number of another name that no file has.
    fn unused(&mut self) -> u64;

    /// Number of the thread that it belongs to, among those that have the same directories.
    fn thread(&self) -> u64;
}

/// Files of one thread alone. Their numbers are between the oldest and the newest. A creation takes the next number,
/// and a deletion the oldest.
#[derive(Debug)]
pub struct PrivateFiles {
    /// States of the files, by the low bits of their numbers.
    states: Box<[u64]>,
    oldest: u64,
    newest: u64,
    unused: u64,
}

impl PrivateFiles {
    /// An empty set, with slots for `files` files and for as many more as are created before others are deleted.
    pub fn new(files: u64, created: u64) -> Self {
        let room = (files + created + 2).next_power_of_two();
        Self { states: vec![0; room as usize].into(), oldest: 0, newest: 0, unused: 0 }
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.states.len() - 1)
    }

    #[inline]
    fn at(&self, number: u64) -> ClaimedFile {
        ClaimedFile { number, slot: 0, state: self.states[self.slot(number)] }
    }

    /// Number of its files.
    pub fn count(&self) -> u64 {
        self.newest - self.oldest
    }
}

impl Population for PrivateFiles {
    #[inline]
    fn claim(&mut self, random: &mut Random) -> ClaimedFile {
        self.at(self.oldest + random.below(self.newest - self.oldest))
    }

    #[inline]
    fn release(&mut self, held: ClaimedFile) {
        let slot = self.slot(held.number);
        self.states[slot] = held.state;
    }

    #[inline]
    fn take(&mut self, held: &ClaimedFile, _: &mut Random) -> ClaimedFile {
        if held.number == self.oldest { *held } else { self.at(self.oldest) }
    }

    #[inline]
    fn forget(&mut self, _: ClaimedFile) {
        self.oldest += 1;
    }

    #[inline]
    fn new_file(&mut self, size_bytes: u64) -> ClaimedFile {
        let number = self.newest;
        self.newest += 1;
        ClaimedFile { number, slot: 0, state: size_bytes }
    }

    #[inline]
    fn unused(&mut self) -> u64 {
        self.unused += 1;
        self.unused
    }

    fn thread(&self) -> u64 {
        0
    }
}

/// A slot for a file that threads share. It is free while its state is 0.
#[derive(Debug, Default)]
struct Slot {
    state: AtomicU64,
    number: AtomicU64,
}

/// Files that all threads of a test share. A thread claims the one that it works on.
#[derive(Debug)]
pub struct SharedFiles {
    slots: Box<[Slot]>,
    threads: u64,
}

impl SharedFiles {
    /// An empty set, with slots for the files of each thread and for as many more as a thread creates before it deletes
    /// others.
    pub fn new(threads: u64, files_of_thread: u64, created: u64) -> Self {
        let slots = threads * (files_of_thread + created);
        Self { slots: (0..slots).map(|_| Slot::default()).collect(), threads }
    }

    /// Number of its files.
    pub fn count(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.state.load(Ordering::Relaxed) != 0).count() as u64
    }
}

/// One thread's view of the files that all share.
#[derive(Debug)]
pub struct Share {
    all: Arc<SharedFiles>,
    thread: u64,
    /// Free slots that this thread alone may use. It never grows beyond its capacity.
    free: Vec<u32>,
    /// Number of files that this thread has made.
    made: u64,
    unused: u64,
}

impl Share {
    /// The view of one thread.
    pub fn new(all: Arc<SharedFiles>, thread: u64) -> Self {
        let of_thread = all.slots.len() as u64 / all.threads;
        // A thread deletes as many files as it creates, but maybe earlier.
        let mut free = Vec::with_capacity(2 * of_thread as usize);
        free.extend((thread * of_thread..(thread + 1) * of_thread).map(|slot| slot as u32));
        Self { all, thread, free, made: 0, unused: 0 }
    }
}

impl Population for Share {
    #[inline]
    fn claim(&mut self, random: &mut Random) -> ClaimedFile {
        loop {
            let number = random.below(self.all.slots.len() as u64) as u32;
            let slot = &self.all.slots[number as usize];
            let state = slot.state.load(Ordering::Relaxed);
            if state == 0 || state & CLAIMED != 0 {
                continue;
            }
            let claimed =
                slot.state.compare_exchange(state, state | CLAIMED, Ordering::Acquire, Ordering::Relaxed);
            if claimed.is_ok() {
                return ClaimedFile { number: slot.number.load(Ordering::Relaxed), slot: number, state };
            }
        }
    }

    #[inline]
    fn release(&mut self, held: ClaimedFile) {
        let slot = &self.all.slots[held.slot as usize];
        slot.number.store(held.number, Ordering::Relaxed);
        slot.state.store(held.state, Ordering::Release);
    }

    #[inline]
    fn take(&mut self, _: &ClaimedFile, random: &mut Random) -> ClaimedFile {
        self.claim(random)
    }

    #[inline]
    fn forget(&mut self, taken: ClaimedFile) {
        self.all.slots[taken.slot as usize].state.store(0, Ordering::Release);
        self.free.push(taken.slot);
    }

    #[inline]
    fn new_file(&mut self, size_bytes: u64) -> ClaimedFile {
        let number = self.made * self.all.threads + self.thread;
        self.made += 1;
        let slot = self.free.pop();
        debug_assert!(slot.is_some(), "a deck creates no more files than a thread has places");
        let slot = slot.unwrap_or_default();
        self.all.slots[slot as usize].state.store(CLAIMED, Ordering::Relaxed);
        ClaimedFile { number, slot, state: size_bytes }
    }

    #[inline]
    fn unused(&mut self) -> u64 {
        self.unused += 1;
        self.unused * self.all.threads + self.thread
    }

    fn thread(&self) -> u64 {
        self.thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn shared_file_is_never_claimed_by_two_threads() {
        const THREADS: u64 = 4;
        let all = Arc::new(SharedFiles::new(THREADS, 8, 2));
        let owners: Arc<Vec<AtomicU64>> = Arc::new((0..1 << 20).map(|_| AtomicU64::new(0)).collect());
        let mut shares: Vec<_> = (0..THREADS).map(|thread| Share::new(Arc::clone(&all), thread)).collect();
        for share in &mut shares {
            for _ in 0..8 {
                let made = share.new_file(100);
                share.release(made);
            }
        }
        assert_eq!(all.count(), 32);
        std::thread::scope(|scope| {
            for mut share in shares {
                let owners = Arc::clone(&owners);
                scope.spawn(move || {
                    let mut random = Random::new(share.thread);
                    let own = |held: &ClaimedFile| {
                        assert_eq!(owners[held.number as usize].swap(1, Ordering::AcqRel), 0, "{held:?}");
                    };
                    let disown =
                        |held: &ClaimedFile| owners[held.number as usize].store(0, Ordering::Release);
                    for round in 0..20_000u64 {
                        let mut held = share.claim(&mut random);
                        own(&held);
                        held.resize(100 + round % 7);
                        if round % 2 == 0 {
                            held.rename();
                        }
                        let made = share.new_file(100);
                        own(&made);
                        disown(&made);
                        share.release(made);
                        let taken = share.take(&held, &mut random);
                        own(&taken);
                        share.forget(taken);
                        disown(&held);
                        share.release(held);
                    }
                });
            }
        });
        assert_eq!(all.count(), 32);
        let numbers: HashSet<_> = all.slots.iter().map(|slot| slot.number.load(Ordering::Relaxed)).collect();
        assert!(numbers.len() >= 32, "each file has a number of its own");
    }

    #[test]
    fn private_files_delete_oldest_even_if_in_use() {
        let mut own = PrivateFiles::new(3, 1);
        for size_bytes in [10, 20, 30] {
            let made = own.new_file(size_bytes);
            own.release(made);
        }
        let mut random = Random::new(1);
        let mut held = own.at(0);
        held.rename();
        let taken = own.take(&held, &mut random);
        assert_eq!((taken, taken.kinds().0), (held, Kind::Renamed));
        own.forget(taken);
        assert_eq!((own.take(&own.at(2), &mut random).size_bytes(), own.count()), (20, 2));
    }
}
