//! Draws of blocks by ranks: some blocks come more often than others. In constant memory, and without a search.
//!
//! Zipf's law is drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM TOMACS 6(3), 1996). A point below a hat function that is easy to invert is
//! drawn. It is kept if it lies below the histogram, as nearly all do.

use crate::data::mix;

/// Rule for the share of operations that each rank takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Skew {
    /// Rank k of n takes a share that is proportional to k to the power of -theta.
    Zipf {
        /// The exponent; more than 0.
        theta: f64,
    },
    /// The first ranks take a share of the operations, each the same; the others take the rest.
    Hot {
        /// Share of the operations, from 0 to 1.
        ops_share: f64,
        /// Share of the ranks, from 0 to 1.
        blocks_share: f64,
    },
}

/// Draws of ranks from 0 to below a number, each independent of those before.
#[derive(Debug, Clone)]
pub struct Draws {
    state: u64,
    law: Law,
}

#[derive(Debug, Clone)]
enum Law {
    Zipf(Zipf),
    Hot(Hot),
}

impl Draws {
    /// Draws from `ranks` ranks, at least one.
    pub fn new(skew: Skew, ranks: u64, seed: u64) -> Self {
        let law = match skew {
            Skew::Zipf { theta } => Law::Zipf(Zipf::new(ranks.max(1), theta)),
            Skew::Hot { ops_share, blocks_share } => {
                Law::Hot(Hot::new(ranks.max(1), ops_share, blocks_share))
            }
        };
        Self { state: seed, law }
    }

    /// Returns a rank.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let state = &mut self.state;
        match &self.law {
            Law::Zipf(zipf) => zipf.rank(|| next(state)),
            Law::Hot(hot) => hot.rank(|| next(state)),
        }
    }
}

/// Returns 64 random bits (splitmix64).
#[inline]
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// Returns a number from 0 to below 1, with 53 bits.
#[inline]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a number below `bound`. The shares of two numbers differ by less than `bound` / 2^64 (Lemire, "Fast random
/// integer generation in an interval", 2019).
#[inline]
fn below(bound: u64, bits: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// Zipf's law on the ranks 1 to n. The names are those of the article.
#[derive(Debug, Clone, Copy)]
struct Zipf {
    n: u64,
    theta: f64,
    /// The integral of the hat up to the middle of the first rank, less the first rank's own share.
    h_first: f64,
    /// The integral of the hat up to the end of the last rank.
    h_last: f64,
    /// A point this close below its rank always lies below the histogram.
    s: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Self {
        let empty = Self { n, theta, h_first: 0.0, h_last: 0.0, s: 0.0 };
        Self {
            h_first: empty.integral(1.5) - 1.0,
            h_last: empty.integral(n as f64 + 0.5),
            s: 2.0 - empty.inverse(empty.integral(2.5) - empty.hat(2.0)),
            ..empty
        }
    }

    #[inline]
    fn rank(&self, mut bits: impl FnMut() -> u64) -> u64 {
        loop {
            let u = self.h_last + unit(bits()) * (self.h_first - self.h_last);
            let x = self.inverse(u);
            let rank = ((x + 0.5) as u64).clamp(1, self.n);
            let k = rank as f64;
            if k - x <= self.s || u >= self.integral(k + 0.5) - self.hat(k) {
                return rank - 1;
            }
        }
    }

    /// The hat: x to the power of -theta.
    #[inline]
    fn hat(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Integral of the hat from 1 to `x`: (x^(1-theta) - 1) / (1-theta), which is the logarithm for theta = 1.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        // Near zero, the quotient is 1 within the precision of a double.
        if power.abs() < 1e-9 { log } else { power.exp_m1() / power * log }
    }

    /// Inverse of the integral.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        // The area may be a rounding error less than the smallest that the integral takes.
        let power = ((1.0 - self.theta) * area).max(-1.0);
        if power.abs() < 1e-9 { area.exp() } else { (power.ln_1p() / power * area).exp() }
    }
}

/// Two groups of ranks, each with a share of the operations.
#[derive(Debug, Clone, Copy)]
struct Hot {
    ranks: u64,
    /// Number of hot ranks.
    hot: u64,
    /// A draw below this goes to a hot rank.
    hot_below: f64,
}

impl Hot {
    fn new(ranks: u64, ops_share: f64, blocks_share: f64) -> Self {
        let hot = ((ranks as f64 * blocks_share).round() as u64).clamp(1, ranks);
        Self { ranks, hot, hot_below: if hot == ranks { 1.0 } else { ops_share } }
    }

    #[inline]
    fn rank(&self, mut bits: impl FnMut() -> u64) -> u64 {
        if unit(bits()) < self.hot_below {
            below(self.hot, bits())
        } else {
            self.hot + below(self.ranks - self.hot, bits())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRAWS: u64 = 400_000;

    fn counts(skew: Skew, ranks: u64) -> Vec<u64> {
        let mut draws = Draws::new(skew, ranks, 17);
        let mut counts = vec![0; ranks as usize];
        (0..DRAWS).for_each(|_| counts[draws.draw() as usize] += 1);
        counts
    }

    /// Fails if the counts differ from the shares by more than chance explains. This is Pearson's chi-square. Its mean is
    /// the number of degrees of freedom, and its variance is twice that.
    fn assert_shares(counts: &[u64], shares: &[f64], name: &str) {
        let degrees = (counts.len() - 1) as f64;
        let square = |(count, share): (&u64, &f64)| {
            let expected = share * DRAWS as f64;
            assert!(expected > 5.0, "{name}: too few draws for this test");
            (*count as f64 - expected).powi(2) / expected
        };
        let sum: f64 = counts.iter().zip(shares).map(square).sum();
        assert!(sum < degrees + 5.0 * (2.0 * degrees).sqrt(), "{name}: {sum} of {degrees} degrees");
    }

    fn zipf_shares(ranks: u64, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-theta)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn zipf_draws_have_the_exact_distribution() {
        for theta in [0.05, 0.5, 0.99, 1.0, 1.000_000_1, 1.2, 2.0] {
            for ranks in [2, 3, 100] {
                let counts = counts(Skew::Zipf { theta }, ranks);
                assert_shares(&counts, &zipf_shares(ranks, theta), &format!("theta {theta}, {ranks} ranks"));
            }
        }
    }

    #[test]
    fn distribution_test_rejects_another_exponent() {
        let counts = counts(Skew::Zipf { theta: 0.99 }, 100);
        let other = || assert_shares(&counts, &zipf_shares(100, 0.97), "another exponent");
        assert!(std::panic::catch_unwind(other).is_err());
    }

    /// Sum of k^-theta from `from` to `to`, by Euler and Maclaurin; exact to far more digits than draws show.
    fn tail(from: u64, to: u64, theta: f64) -> f64 {
        let zipf = Zipf { n: 1, theta, h_first: 0.0, h_last: 0.0, s: 0.0 };
        let (a, b) = (from as f64, to as f64);
        let slopes = theta * (zipf.hat(a) / a - zipf.hat(b) / b) / 12.0;
        zipf.integral(b) - zipf.integral(a) + (zipf.hat(a) + zipf.hat(b)) / 2.0 + slopes
    }

    #[test]
    fn zipf_shares_of_a_trillion_ranks_match_theory() {
        // As many blocks as a drive of 4 PiB has.
        let ranks = 1u64 << 40;
        let ends = [10, 1 << 10, 1 << 20, 1 << 30, ranks];
        for theta in [0.8, 1.0, 1.1] {
            let first: f64 = (1..10).map(|rank| f64::from(rank).powf(-theta)).sum();
            let sums: Vec<f64> = ends.iter().map(|end| first + tail(10, *end, theta)).collect();
            let all = sums[sums.len() - 1];
            let shares: Vec<f64> = sums
                .iter()
                .enumerate()
                .map(|(i, sum)| (sum - if i > 0 { sums[i - 1] } else { 0.0 }) / all)
                .collect();
            let mut counts = vec![0u64; ends.len()];
            let mut draws = Draws::new(Skew::Zipf { theta }, ranks, 3);
            for _ in 0..DRAWS {
                let rank = draws.draw();
                counts[ends.iter().position(|end| rank < *end).unwrap()] += 1;
            }
            assert_shares(&counts, &shares, &format!("theta {theta}"));
        }
    }

    #[test]
    fn hot_ranks_get_the_requested_share_of_draws() {
        let counts = counts(Skew::Hot { ops_share: 0.9, blocks_share: 0.1 }, 200);
        let shares: Vec<f64> =
            (0..200).map(|rank| if rank < 20 { 0.9 / 20.0 } else { 0.1 / 180.0 }).collect();
        assert_shares(&counts, &shares, "90 % to 10 %");
    }

    #[test]
    fn every_rank_of_a_small_set_is_drawn() {
        for skew in [Skew::Zipf { theta: 0.99 }, Skew::Hot { ops_share: 0.8, blocks_share: 0.2 }] {
            assert!(counts(skew, 1) == [DRAWS]);
            assert!(counts(skew, 2).iter().all(|count| *count > 0), "{skew:?}");
        }
        // All operations go to the hot part, whatever its rounded size.
        assert_eq!(counts(Skew::Hot { ops_share: 1.0, blocks_share: 0.01 }, 3), [DRAWS, 0, 0]);
    }

    proptest! {
        #[test]
        fn drawn_rank_is_below_the_number_of_ranks(
            ranks in 1u64..1 << 50, theta in 0.001f64..10.0, ops in 0.01f64..=1.0, blocks in 0.01f64..1.0,
            seed in any::<u64>(),
        ) {
            for skew in [Skew::Zipf { theta }, Skew::Hot { ops_share: ops, blocks_share: blocks }] {
                let mut draws = Draws::new(skew, ranks, seed);
                prop_assert!((0..100).all(|_| draws.draw() < ranks), "{:?}", skew);
            }
        }
    }
}
