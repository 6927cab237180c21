//! Rounds of a test that is repeated until it is steady. They follow one another without a gap: a round is a part of the
//! phase's time axis, and is closed once its intervals are whole. The rule is that of `stats::window`.

use std::ops::Range;

use engine::recorder::INTERVAL_NS;
use model::run::{Interval, RoundsWindow, SteadyRound, UntilSteady};

/// Time after the end of a round in which workers may still hand over counts of it. They do so at their first operation
/// after a boundary, and the driver takes them at its own boundary.
const LATE_NS: u64 = 2 * INTERVAL_NS;

/// Rounds so far.
#[derive(Debug)]
pub struct Rounds {
    round_ns: u64,
    rounds_max: u32,
    closed: Vec<SteadyRound>,
}

impl Rounds {
    /// Makes rounds of that time, and at most that many.
    pub fn new((round_ns, rounds_max): (u64, u32)) -> Self {
        Self { round_ns: round_ns.max(INTERVAL_NS), rounds_max, closed: Vec::new() }
    }

    /// Closes each round that is over and complete after `elapsed_ns`. Returns true once the test is steady.
    pub fn update(&mut self, intervals: &[Interval], elapsed_ns: u64) -> bool {
        while !self.is_steady() && (self.closed.len() as u32) < self.rounds_max {
            let from_ns = self.round_ns.saturating_mul(self.closed.len() as u64);
            let to_ns = from_ns.saturating_add(self.round_ns);
            if elapsed_ns < to_ns.saturating_add(LATE_NS) {
                break;
            }
            self.close(intervals, from_ns..to_ns);
        }
        self.is_steady()
    }

    /// Closes the last round of a phase that ended after `ended_ns`: no counts come any more.
    pub fn end(&mut self, intervals: &[Interval], ended_ns: u64) {
        self.update(intervals, ended_ns.saturating_add(LATE_NS));
    }

    fn close(&mut self, intervals: &[Interval], time: Range<u64>) {
        // An interval belongs to the round that contains its middle.
        let is_inside = |interval: &&Interval| time.contains(&(interval.start_ns + interval.length_ns / 2));
        let (mut ops, mut length_ns) = (0, 0);
        for interval in intervals.iter().filter(is_inside) {
            ops += interval.ops;
            length_ns += interval.length_ns;
        }
        let ops_per_second = if length_ns > 0 { ops as f64 * 1e9 / length_ns as f64 } else { 0.0 };
        let (from_ns, to_ns) = (time.start, time.end);
        self.closed.push(SteadyRound { from_ns, to_ns, ops, ops_per_second, window: None });
        let rates: Vec<_> = self.closed.iter().map(|round| round.ops_per_second).collect();
        let window = stats::window(&rates).map(|window| RoundsWindow {
            mean_ops_per_second: window.mean,
            excursion: window.excursion,
            slope: window.slope,
        });
        if let Some(last) = self.closed.last_mut() {
            last.window = window;
        }
    }

    fn is_steady(&self) -> bool {
        let window = self.closed.last().and_then(|round| round.window.as_ref());
        window.is_some_and(|window| {
            let RoundsWindow { mean_ops_per_second: mean, excursion, slope } = *window;
            stats::Window { mean, excursion, slope }.is_steady()
        })
    }

    /// Returns the time of the measurement window of a steady test, and its mean rate.
    pub fn steady(&self) -> Option<(Range<u64>, f64)> {
        let last = self.closed.last().filter(|_| self.is_steady())?;
        let first = self.closed.get(self.closed.len().checked_sub(stats::WINDOW_ROUNDS)?)?;
        Some((first.from_ns..last.to_ns, last.window.as_ref()?.mean_ops_per_second))
    }

    /// Returns the rounds for the document.
    pub fn into_record(self) -> UntilSteady {
        let steady_round = self.is_steady().then_some(self.closed.len() as u32);
        UntilSteady { steady_round, rounds_max: self.rounds_max, rounds: self.closed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns intervals with these operations each, ten to a round of a second.
    fn intervals(rounds: &[u64]) -> Vec<Interval> {
        let each = rounds.iter().flat_map(|ops| [*ops; 10]);
        let interval = |(index, ops): (usize, u64)| Interval {
            start_ns: index as u64 * INTERVAL_NS,
            length_ns: INTERVAL_NS,
            ops,
            bytes: 0,
            histogram: vec![],
            frame: None,
        };
        each.enumerate().map(interval).collect()
    }

    #[test]
    fn round_closes_once_all_its_counts_have_arrived() {
        let all = intervals(&[40, 40, 40, 25, 10, 10, 10, 10, 10, 10]);
        let mut rounds = Rounds::new((1_000_000_000, 25));
        assert!(!rounds.update(&all, 1_100_000_000) && rounds.closed.is_empty());
        assert!(!rounds.update(&all, 1_200_000_000) && rounds.closed.len() == 1);
        // The rule is met in round 9: five rounds of 100 operations a second.
        assert!(!rounds.update(&all, 9_100_000_000));
        assert!(rounds.update(&all, 30_000_000_000));
        let (time, rate) = rounds.steady().unwrap();
        assert_eq!((time, rate), (4_000_000_000..9_000_000_000, 100.0));
        let record = rounds.into_record();
        assert_eq!((record.steady_round, record.rounds.len()), (Some(9), 9));
        assert!(record.rounds[3].window.is_none() && record.rounds[4].window.is_some());
        let rates: Vec<_> = record.rounds.iter().map(|round| round.ops_per_second).collect();
        assert_eq!(stats::steady_round(&rates), Some(9));
    }

    #[test]
    fn rounds_end_at_phase_end_or_maximum_count() {
        let all = intervals(&[10, 20, 10, 20, 10, 20, 10]);
        let mut rounds = Rounds::new((1_000_000_000, 6));
        rounds.end(&all, 5_000_000_000);
        assert_eq!(rounds.closed.len(), 5);
        rounds.end(&all, 7_000_000_000);
        assert!(rounds.steady().is_none());
        let record = rounds.into_record();
        assert_eq!((record.steady_round, record.rounds.len()), (None, 6));
    }
}
