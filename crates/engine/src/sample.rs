//! The choice of the blocks to compare: one of each `every` blocks read, drawn by a hash.
//!
//! A fixed distance would compare the same blocks in each pass over a data set whose size is a multiple of it. The
//! draws are made in advance: the loop only counts down to the next block.

use serde::{Deserialize, Serialize};

use crate::data::mix;

/// How many of the blocks read are compared, and the seed of their choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// One of this many blocks is compared; at least 1.
    pub every: u32,
    /// Seed of the draws, different for each worker and each test.
    pub seed: u64,
}

impl Sample {
    /// Compares every block.
    pub const ALL: Self = Self { every: 1, seed: 0 };
    /// For workers that have nothing to compare with.
    pub const NONE: Self = Self { every: u32::MAX, seed: 0 };

    /// The draws of a worker.
    pub fn draws(self) -> Draws {
        Draws { every: self.every.max(1), seed: self.seed, stratum: 0, left: 0 }
    }
}

/// Distances from one block to compare to the next.
#[derive(Debug, Clone)]
pub struct Draws {
    every: u32,
    seed: u64,
    /// Number of the row that the next block is drawn from.
    stratum: u64,
    /// Blocks of the last row behind its draw.
    left: u32,
}

impl Draws {
    /// Draws the next block. Returns its distance from the last one, at least 1.
    pub fn distance(&mut self) -> u32 {
        let hash = mix(self.seed ^ mix(self.stratum));
        let place = ((u128::from(hash) * u128::from(self.every)) >> 64) as u32;
        let distance = self.left.saturating_add(place).saturating_add(1);
        self.left = self.every - 1 - place;
        self.stratum = self.stratum.wrapping_add(1);
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often each block of a data set is compared in this number of passes.
    fn compared(sample: Sample, blocks: u64, passes: u64) -> Vec<u32> {
        let mut counts = vec![0; blocks as usize];
        let mut draws = sample.draws();
        let mut read = u64::from(draws.distance()) - 1;
        while read < blocks * passes {
            counts[(read % blocks) as usize] += 1;
            read += u64::from(draws.distance());
        }
        counts
    }

    #[test]
    fn every_block_is_compared_over_many_passes() {
        // A prime, and multiples of the rows: a fixed distance, and one that grows by one, would repeat some of these.
        for blocks in [2, 127, 128, 129, 256, 16_384] {
            let counts = compared(Sample { every: 128, seed: 5 }, blocks, 128 * 40);
            assert!(counts.iter().all(|count| (10..90).contains(count)), "{blocks}: {counts:?}");
            assert_eq!(counts.iter().map(|count| u64::from(*count)).sum::<u64>(), blocks * 40);
        }
    }

    #[test]
    fn sampled_blocks_are_reproducible_per_seed() {
        let of = |seed| compared(Sample { every: 128, seed }, 1280, 1);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn every_block_is_compared_without_sampling() {
        assert_eq!(compared(Sample::ALL, 7, 3), vec![3; 7]);
        let mut none = Sample::NONE.draws();
        (0..100).for_each(|_| assert!(none.distance() >= 1));
    }
}
