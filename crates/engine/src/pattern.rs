//! Which block comes next: every block exactly once a pass, in sequence or in an order that looks random.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::data::mix;

/// A bijection of `0..len` in constant memory: multiply and xor-shift rounds on the next power of two, walked until
/// the value falls into the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). At most
/// half of the values lie outside, so that two walks suffice on average.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// A bijection of `0..len`, another one for every seed.
    pub fn new(len: u64, seed: u64) -> Self {
        let bits = (64 - len.saturating_sub(1).leading_zeros()).max(1);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let keys = [1u64, 2, 3].map(|round| mix(seed ^ mix(round)));
        Self { len, mask, shift: bits.div_ceil(2), keys }
    }

    /// The value at `position`, which must be below the length.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        let mut value = position;
        loop {
            for key in self.keys {
                // An odd factor and a constant are invertible modulo a power of two, and so is the xor-shift.
                value = value.wrapping_mul(key | 1).wrapping_add(key >> 7) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.len {
                return value;
            }
        }
    }
}

/// The blocks that one thread of a test works through, and how far it is. With depth through threads, several
/// workers serve one stream.
#[derive(Debug)]
pub struct Stream {
    next: AtomicU64,
    end: u64,
    first_block: u64,
    blocks: u64,
    seed: u64,
    random: bool,
}

impl Stream {
    /// `blocks` blocks from `first_block`, visited `limit` times in all: at most `u64::MAX` for no limit.
    pub fn new(first_block: u64, blocks: u64, random: bool, seed: u64, limit: u64) -> Arc<Self> {
        Arc::new(Self {
            next: AtomicU64::new(0),
            end: limit,
            first_block,
            blocks: blocks.max(1),
            seed,
            random,
        })
    }
}

/// One worker's view of a stream: takes places in batches, so that workers seldom meet at the cursor.
#[derive(Debug)]
pub struct Pattern {
    stream: Arc<Stream>,
    batch: u64,
    next: u64,
    end: u64,
    pass: u64,
    permutation: Permutation,
    // Copies of what the stream says: read in every operation, and the cursor beside them is written by others.
    blocks: u64,
    first_block: u64,
    random: bool,
}

/// Places taken at once where order between the workers of a stream does not matter.
const BATCH: u64 = 64;

impl Pattern {
    /// A view of `stream`, which `workers` workers serve.
    pub fn new(stream: Arc<Stream>, workers: u32) -> Self {
        // A sequential stream stays sequential only if each worker takes the very next block.
        let batch = if workers == 1 || stream.random { BATCH } else { 1 };
        let permutation = Permutation::new(stream.blocks, pass_seed(stream.seed, 0));
        let (blocks, first_block, random) = (stream.blocks, stream.first_block, stream.random);
        Self { stream, batch, next: 0, end: 0, pass: 0, permutation, blocks, first_block, random }
    }

    /// The next block, or `None` when the limit is reached.
    #[inline]
    pub fn next_block(&mut self) -> Option<u64> {
        if self.next == self.end && !self.take() {
            return None;
        }
        let place = self.next;
        self.next += 1;
        let pass_start = self.pass * self.blocks;
        let mut position = place - pass_start;
        if position >= self.blocks {
            self.pass = place / self.blocks;
            position = place % self.blocks;
            self.permutation = Permutation::new(self.blocks, pass_seed(self.stream.seed, self.pass));
        }
        let position = if self.random { self.permutation.at(position) } else { position };
        Some(self.first_block + position)
    }

    #[cold]
    fn take(&mut self) -> bool {
        // Relaxed: the cursor guards nothing but itself.
        let start = self.stream.next.fetch_add(self.batch, Ordering::Relaxed);
        if start >= self.stream.end {
            return false;
        }
        self.next = start;
        self.end = start.saturating_add(self.batch).min(self.stream.end);
        true
    }
}

fn pass_seed(seed: u64, pass: u64) -> u64 {
    mix(seed ^ mix(pass))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutations_visit_everything_once(len in 1u64..5_000, seed in any::<u64>()) {
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
    fn a_shared_stream_hands_out_each_block_once_a_pass_and_keeps_its_limit() {
        let stream = Stream::new(100, 1000, true, 5, 2500);
        let mut patterns: Vec<_> = (0..4).map(|_| Pattern::new(Arc::clone(&stream), 4)).collect();
        let mut blocks = Vec::new();
        while let Some(block) = patterns.iter_mut().find_map(Pattern::next_block) {
            blocks.push(block);
        }
        assert_eq!(blocks.len(), 2500);
        let mut first: Vec<_> = blocks[..1000].to_vec();
        first.sort_unstable();
        assert_eq!(first, (100..1100).collect::<Vec<_>>());
        assert_ne!(blocks[..1000], blocks[1000..2000], "every pass has an order of its own");
    }

    #[test]
    fn a_sequential_stream_stays_in_sequence_between_workers() {
        let stream = Stream::new(0, 10, false, 5, 20);
        let mut a = Pattern::new(Arc::clone(&stream), 2);
        let mut b = Pattern::new(stream, 2);
        let blocks: Vec<_> = (0..10).flat_map(|_| [a.next_block(), b.next_block()]).flatten().collect();
        assert_eq!(blocks, (0..10).chain(0..10).collect::<Vec<_>>());
        assert_eq!(a.next_block(), None);
    }
}
