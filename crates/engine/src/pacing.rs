//! When the next operation starts.

/// Decides when operations start; a closed loop starts the next when one has ended.
pub trait Pacing {
    /// The instant at which the next operation should start, at or after `now_ns`.
    fn start_ns(&mut self, now_ns: u64) -> u64;
}

/// The next operation starts as soon as there is room for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClosedLoop;

impl Pacing for ClosedLoop {
    #[inline]
    fn start_ns(&mut self, now_ns: u64) -> u64 {
        now_ns
    }
}
