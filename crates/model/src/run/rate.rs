//! How sure a rate is.

use super::Rate;

/// If the sync at the end lowers the rate by more than this share, the rate before it is not the headline.
const LONG_SYNC_SHARE: f64 = 0.05;

impl Rate {
    /// Returns true if making everything durable took so long that the rate before it is not the headline.
    pub fn has_long_sync(&self) -> bool {
        let whole = self.overall_ops_per_second.zip(self.durable_ops_per_second);
        whole.is_some_and(|(whole, durable)| durable < whole * (1.0 - LONG_SYNC_SHARE))
    }

    /// Returns the rate before any sync at the end: over the steady part, or else over the whole time.
    pub fn steady_or_whole(&self) -> Option<f64> {
        self.steady_ops_per_second.or(self.overall_ops_per_second)
    }

    /// Returns half of the 95 % interval of the headline, as a share of it.
    pub fn half_width(&self) -> Option<f64> {
        let half = (self.ci95_high_ops_per_second? - self.ci95_low_ops_per_second?) / 2.0;
        let share = self.ops_per_second.filter(|rate| *rate > 0.0).map(|rate| half / rate)?;
        share.is_finite().then_some(share)
    }

    /// Returns the half width to print: that of repeats, or else that of this run. It is `None` with few effective samples, or if
    /// it is as wide as the rate itself.
    pub fn printed_half_width(&self) -> Option<f64> {
        let has_enough = self.effective_samples.is_none_or(|parts| parts >= EFFECTIVE_SAMPLES_MIN);
        let of_run = self.half_width().filter(|_| has_enough);
        self.repeat_half_width.or(of_run).filter(|half| *half < 0.995)
    }
}

/// Fewest effective samples from which an interval is printed: from fewer, the spread itself is hardly known.
pub const EFFECTIVE_SAMPLES_MIN: f64 = 8.0;
