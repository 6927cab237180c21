//! Bytes that may still be written. Threads take them before they write, so that no write exceeds the limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

/// Most bytes that a thread takes at a time.
const CHUNK_BYTES: u64 = 8 << 20;
/// A thread takes at most this part of an even share of the remaining bytes, so that a paused one keeps little from the
/// others.
const CHUNK_PARTS: u64 = 16;

/// An unlimited budget, for work without a limit.
pub static UNLIMITED: Budget = Budget::new(u64::MAX, 1);

/// Bytes that all threads together may still write.
#[derive(Debug)]
pub struct Budget {
    left_bytes: AtomicU64,
    threads: u64,
    is_spent: AtomicBool,
}

impl Budget {
    /// Returns a budget of this number of bytes, which this number of threads share.
    pub const fn new(bytes: u64, threads: u64) -> Self {
        Self { left_bytes: AtomicU64::new(bytes), threads, is_spent: AtomicBool::new(false) }
    }

    /// Returns the bytes that are not yet taken.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Ordering::Relaxed)
    }

    /// Returns true if a thread needed more than remained.
    pub fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }

    /// Takes this number of bytes; false, and none, if fewer remain.
    pub fn take(&self, bytes: u64) -> bool {
        let is_taken = self.change(|left_bytes| left_bytes.checked_sub(bytes)).is_some();
        if !is_taken {
            self.is_spent.store(true, Ordering::Relaxed);
        }
        is_taken
    }

    /// Takes exactly the bytes that are about to be written.
    ///
    /// # Errors
    /// Fails as a quota does if fewer remain.
    pub fn charge(&self, bytes: u64) -> Result<(), Errno> {
        self.take(bytes).then_some(()).ok_or(Errno::DQUOT)
    }

    /// Takes this number of bytes, or all that remain. Returns the number.
    pub fn take_up_to(&self, bytes: u64) -> u64 {
        let before = self.change(|left_bytes| Some(left_bytes.saturating_sub(bytes)));
        before.map_or(0, |left_bytes| left_bytes.min(bytes))
    }

    /// Gives bytes back that were taken and not written.
    pub fn give_back(&self, bytes: u64) {
        self.change(|left_bytes| Some(left_bytes.saturating_add(bytes)));
    }

    /// Returns the bytes before a change; `None` if there was none.
    fn change(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).ok()
    }
}

/// Bytes that one thread has taken from a budget. Bytes that it does not write go back.
#[derive(Debug)]
pub struct Allotment<'a> {
    budget: &'a Budget,
    left_bytes: u64,
    is_spent: bool,
}

impl<'a> Allotment<'a> {
    /// Returns an empty purse.
    pub fn empty(budget: &'a Budget) -> Self {
        Self { budget, left_bytes: 0, is_spent: false }
    }

    /// Pays for bytes that are about to be written.
    ///
    /// # Errors
    /// Fails as a quota does if fewer remain.
    #[inline]
    pub fn charge(&mut self, bytes: u64) -> Result<(), Errno> {
        if bytes > self.left_bytes {
            self.fill(bytes)?;
        }
        self.left_bytes -= bytes;
        Ok(())
    }

    /// Returns true if it could not pay.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Takes at least this number of bytes from the budget.
    #[cold]
    fn fill(&mut self, bytes: u64) -> Result<(), Errno> {
        let needed_bytes = bytes - self.left_bytes;
        let chunk_bytes = CHUNK_BYTES.min(self.budget.left_bytes() / (CHUNK_PARTS * self.budget.threads));
        let more_bytes = needed_bytes.max(chunk_bytes);
        // Another thread may have taken some since.
        for wanted_bytes in [more_bytes, needed_bytes] {
            if wanted_bytes <= self.budget.left_bytes() && self.budget.take(wanted_bytes) {
                self.left_bytes += wanted_bytes;
                return Ok(());
            }
        }
        self.is_spent = true;
        self.budget.is_spent.store(true, Ordering::Relaxed);
        Err(Errno::DQUOT)
    }
}

impl Drop for Allotment<'_> {
    fn drop(&mut self) {
        if self.left_bytes > 0 {
            self.budget.give_back(self.left_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_threads_never_exceed_the_budget() {
        for (bytes, threads, each) in [(1_000_003, 4, 7), (100 << 20, 8, 4096), (5, 3, 1), (100, 2, 101)] {
            let budget = Budget::new(bytes, threads);
            let paid: u64 = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|_| {
                        scope.spawn(|| {
                            let (mut allotment, mut paid) = (Allotment::empty(&budget), 0);
                            while allotment.charge(each).is_ok() {
                                paid += each;
                            }
                            assert!(allotment.is_spent());
                            paid
                        })
                    })
                    .collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum()
            });
            assert_eq!(paid + budget.left_bytes(), bytes);
            assert!(budget.is_spent());
        }
    }

    #[test]
    fn dropped_allotment_returns_unused_bytes_to_budget() {
        let budget = Budget::new(1 << 30, 2);
        let mut allotment = Allotment::empty(&budget);
        allotment.charge(10).unwrap();
        assert!(budget.left_bytes() < (1 << 30) - 10);
        drop(allotment);
        assert_eq!((budget.left_bytes(), budget.is_spent()), ((1 << 30) - 10, false));
    }

    #[test]
    fn single_thread_can_use_the_whole_budget() {
        let budget = Budget::new(1000, 1);
        let mut allotment = Allotment::empty(&budget);
        assert_eq!((0..10).map(|_| allotment.charge(100)).filter(Result::is_ok).count(), 10);
        assert_eq!(allotment.charge(1), Err(Errno::DQUOT));
        assert_eq!(allotment.charge(0), Ok(()));
    }

    #[test]
    fn request_above_remaining_budget_gets_the_remainder() {
        let budget = Budget::new(10, 1);
        assert_eq!((budget.take_up_to(4), budget.take_up_to(u64::MAX), budget.take_up_to(1)), (4, 6, 0));
        budget.give_back(3);
        assert!(!budget.take(4) && budget.is_spent() && budget.take(3));
        assert_eq!(budget.left_bytes(), 0);
    }
}
