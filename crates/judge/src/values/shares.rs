//! Shares of the time that several rules compare with.

/// Smallest share of the time that is worth naming beside the largest.
pub(crate) const SHARE_MIN: f64 = 0.05;
/// Threads that are blocked for less than this are limited by their own work, not by their waits.
pub(crate) const ASLEEP_SHARE_MIN: f64 = 0.5;
/// The same share for a ring, whose one thread may be busy while the device is saturated. If the ring is always full of
/// requests and the thread hardly ever sleeps, the thread is the limit.
pub(crate) const RING_BLOCKED: f64 = 0.1;
