//! The order of blocks: every block exactly once per pass, in sequence or in pseudo-random order. A skewed order has no
//! passes: blocks are drawn independently, some more often than others.

use crate::data::mix;
use crate::skew::{Draws, Skew};

/// A bijection of `0..len` in constant memory: multiply and xor-shift rounds on the next power of two. The rounds
/// repeat until the value falls into the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). At
/// most half of the values lie outside, so two tries suffice on average.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    /// Odd factor and constant of each round.
    rounds: [(u64, u64); 3],
}

impl Permutation {
    /// A bijection of `0..len`, different for every seed.
    pub fn new(len: u64, seed: u64) -> Self {
        let bits = (64 - len.saturating_sub(1).leading_zeros()).max(1);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let rounds = [1u64, 2, 3].map(|round| mix(seed ^ mix(round))).map(|key| (key | 1, key >> 7));
        Self { len, mask, shift: bits.div_ceil(2), rounds }
    }

    /// The value at `position`, which must be below the length.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        let mut value = position;
        loop {
            for (factor, constant) in self.rounds {
                // Multiplication by an odd factor and addition of a constant are invertible modulo a power of two. So
                // is the xor-shift.
                value = value.wrapping_mul(factor).wrapping_add(constant) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.len {
                return value;
            }
        }
    }
}

/// The sequence of blocks that one worker visits.
#[derive(Debug, Clone)]
pub struct Pattern {
    first_block: u64,
    /// Blocks of a pass. In a skewed order, the block drawn last ends a pass.
    blocks: u64,
    is_random: bool,
    seed: u64,
    /// Visits left.
    left: u64,
    pass: u64,
    position: u64,
    permutation: Permutation,
    /// Draws of a skewed order.
    draws: Option<Draws>,
}

impl Pattern {
    /// `blocks` blocks from `first_block`, visited `limit` times in all; `u64::MAX` means no limit.
    pub fn new(first_block: u64, blocks: u64, is_random: bool, seed: u64, limit: u64) -> Self {
        let blocks = blocks.max(1);
        let permutation = Permutation::new(blocks, pass_seed(seed, 0));
        Self {
            first_block,
            blocks,
            is_random,
            seed,
            left: limit,
            pass: 0,
            position: 0,
            permutation,
            draws: None,
        }
    }

    /// `blocks` blocks from `first_block`, each visit drawn independently, `limit` visits in all. Ranks map to blocks
    /// in a pseudo-random order, so that hot blocks are no neighbours.
    pub fn skewed(first_block: u64, blocks: u64, skew: Skew, seed: u64, limit: u64) -> Self {
        let ranked = Self::new(first_block, blocks, false, seed, limit);
        // The first pass is already over: a draw replaces each next one, so that other orders have no step for it.
        let draws = Some(Draws::new(skew, ranked.blocks, mix(seed ^ DRAWS)));
        Self { blocks: 0, draws, ..ranked }
    }

    /// Returns the next block, or `None` at the limit.
    #[inline]
    pub fn next_block(&mut self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.position == self.blocks {
            self.next_pass();
        }
        let position = self.position;
        self.position += 1;
        Some(self.first_block + if self.is_random { self.permutation.at(position) } else { position })
    }

    /// True if the next block begins a new pass: it may equal one of the last blocks returned. In a skewed order, each
    /// may.
    #[inline]
    pub fn is_at_end_of_pass(&self) -> bool {
        self.position == self.blocks
    }

    /// True if any block may be returned again at any time.
    pub fn is_skewed(&self) -> bool {
        self.draws.is_some()
    }

    /// True if every block was returned at least once; never true of a skewed order, which keeps no count of that.
    pub fn is_covered(&self) -> bool {
        !self.is_skewed() && (self.pass > 0 || self.position == self.blocks)
    }

    /// Begins the next pass; in a skewed order, one of a single block.
    #[cold]
    fn next_pass(&mut self) {
        if let Some(draws) = &mut self.draws {
            self.position = self.permutation.at(draws.draw());
            self.blocks = self.position + 1;
            return;
        }
        self.position = 0;
        self.pass += 1;
        self.permutation = Permutation::new(self.blocks, pass_seed(self.seed, self.pass));
    }
}

/// Separates the seed of draws from those of passes.
const DRAWS: u64 = 0x6472_6177;

fn pass_seed(seed: u64, pass: u64) -> u64 {
    mix(seed ^ mix(pass))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutation_visits_each_index_once(len in 1u64..5_000, seed in any::<u64>()) {
            let permutation = Permutation::new(len, seed);
            let mut seen = vec![false; len as usize];
            for position in 0..len {
                let value = permutation.at(position) as usize;
                prop_assert!(!std::mem::replace(&mut seen[value], true));
            }
        }
    }

    #[test]
    fn permutations_look_random() {
        // Neighbours of a sequence keep no fixed distance, and no value stays in place more often than by chance.
        let permutation = Permutation::new(1 << 18, 99);
        let values: Vec<_> = (0..1u64 << 18).map(|position| permutation.at(position)).collect();
        let mut distances: Vec<_> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        distances.sort_unstable();
        distances.dedup();
        assert!(distances.len() > 150_000, "{} different distances", distances.len());
        let fixed = values.iter().enumerate().filter(|(index, value)| *index as u64 == **value).count();
        assert!(fixed < 12, "{fixed} fixed points");
    }

    #[test]
    fn each_pass_visits_every_block_once_in_new_order() {
        let mut pattern = Pattern::new(100, 1000, true, 5, 2500);
        let mut blocks = Vec::new();
        while let Some(block) = pattern.next_block() {
            blocks.push(block);
            assert_eq!(pattern.is_covered(), blocks.len() >= 1000);
        }
        assert_eq!(blocks.len(), 2500);
        let mut first: Vec<_> = blocks[..1000].to_vec();
        first.sort_unstable();
        assert_eq!(first, (100..1100).collect::<Vec<_>>());
        assert_ne!(blocks[..1000], blocks[1000..2000]);
    }

    #[test]
    fn sequence_restarts_at_its_end() {
        let mut pattern = Pattern::new(0, 10, false, 5, 20);
        let blocks: Vec<_> = std::iter::from_fn(|| pattern.next_block()).collect();
        assert_eq!(blocks, (0..10).chain(0..10).collect::<Vec<_>>());
    }

    #[test]
    fn hot_blocks_are_scattered_and_others_are_visited_too() {
        let skew = Skew::Hot { ops_share: 0.9, blocks_share: 0.05 };
        let mut pattern = Pattern::skewed(500, 1000, skew, 11, 100_000);
        assert!(pattern.is_skewed() && !pattern.is_covered());
        let mut visits = vec![0u64; 1000];
        while let Some(block) = pattern.next_block() {
            visits[block as usize - 500] += 1;
            assert!(pattern.is_at_end_of_pass() && !pattern.is_covered());
        }
        assert_eq!(visits.iter().sum::<u64>(), 100_000);
        // A hot block has 1,800 visits on average, another one about ten.
        let hot: Vec<usize> = (0..1000).filter(|block| visits[*block] > 500).collect();
        assert_eq!(hot.len(), 50);
        let of_hot: u64 = hot.iter().map(|block| visits[*block]).sum();
        assert!((88_000..92_000).contains(&of_hot), "{of_hot}");
        let neighbours = hot.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(neighbours < 10, "{neighbours}");
        assert!(hot[0] < 100 && hot[49] > 900, "{hot:?}");
    }

    #[test]
    fn hot_blocks_depend_on_the_seed() {
        let hottest = |seed| {
            let mut pattern = Pattern::skewed(0, 1 << 20, Skew::Zipf { theta: 2.0 }, seed, 100);
            let mut blocks: Vec<_> = std::iter::from_fn(|| pattern.next_block()).collect();
            blocks.sort_unstable();
            *blocks.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).unwrap().first().unwrap()
        };
        assert_eq!(hottest(1), hottest(1));
        assert_ne!(hottest(1), hottest(2));
    }
}
