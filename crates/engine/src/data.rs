//! What is written: incompressible bytes, unique in every block, that can be computed again from where they lie.
//!
//! A pool is filled once with pseudo-random bytes; a block is a slice of it, chosen by the block's place, so that
//! neighbours differ even within the window of a compressing file system. Every 4 KiB of it (or the block, if it is
//! smaller) then begins with a stamp of seed, file, offset and generation, which makes it unique for deduplication.

use crate::buffer::AlignedBuffer;

/// Distance between stamps in larger blocks.
pub const STAMP_INTERVAL_BYTES: usize = 4096;
/// Bytes of a stamp; blocks smaller than that carry its beginning only.
pub const STAMP_BYTES: usize = 32;
/// Least size of a pool: the window of common compressing file systems (btrfs and ZFS: 128 KiB), twice.
pub const POOL_BYTES_MIN: usize = 256 << 10;

/// Bytes of the pool for blocks of `block_bytes`: whole blocks, at least [`POOL_BYTES_MIN`].
pub fn pool_bytes(block_bytes: usize) -> usize {
    POOL_BYTES_MIN.div_ceil(block_bytes).max(1) * block_bytes
}

/// Fills a buffer with the pool's bytes of a seed: eight interleaved xorshift generators, which the compiler turns
/// into vector instructions (Marsaglia, "Xorshift RNGs", 2003).
pub fn fill(buffer: &mut AlignedBuffer, seed: u64) {
    let mut lanes: [u64; 8] = std::array::from_fn(|lane| mix(seed ^ mix(lane as u64 + 1)) | 1);
    for chunk in buffer.bytes_mut().chunks_mut(64) {
        let mut bytes = [0u8; 64];
        for (lane, out) in lanes.iter_mut().zip(bytes.chunks_exact_mut(8)) {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 7;
            *lane ^= *lane << 17;
            out.copy_from_slice(&lane.to_le_bytes());
        }
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// What a stamp says about its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the file in the data set.
    pub file: u32,
    /// How many times the data set was written before: tells an old block from a new one.
    pub generation: u32,
    /// Offset in the file at which the stamp lies.
    pub offset_bytes: u64,
}

impl Stamp {
    /// The stamp as it lies on the device, with a check sum over the rest.
    #[inline]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let place = u64::from(self.file) << 32 | u64::from(self.generation);
        let check = mix(self.seed ^ mix(place ^ mix(self.offset_bytes)));
        let mut bytes = [0; STAMP_BYTES];
        for (out, word) in bytes.chunks_exact_mut(8).zip([self.seed, place, self.offset_bytes, check]) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Stamps a block that will lie at `stamp.offset_bytes`.
#[inline]
pub fn stamp(block: &mut [u8], stamp: Stamp) {
    let mut at = stamp;
    for piece in block.chunks_mut(STAMP_INTERVAL_BYTES) {
        let bytes = at.to_bytes();
        let len = piece.len().min(STAMP_BYTES);
        piece[..len].copy_from_slice(&bytes[..len]);
        at.offset_bytes += STAMP_INTERVAL_BYTES as u64;
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): every
/// input bit changes every output bit with probability one half.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_pool_looks_random_and_repeats_from_its_seed() {
        let mut pool = AlignedBuffer::new(1 << 20);
        fill(&mut pool, 7);
        let mut counts = [0u32; 256];
        pool.bytes().iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4,096 of each expected; the standard deviation of a count is 64.
        assert!(counts.iter().all(|count| (3_700..4_500).contains(count)), "{counts:?}");
        let mut again = AlignedBuffer::new(1 << 20);
        fill(&mut again, 7);
        assert_eq!(pool.bytes(), again.bytes());
        fill(&mut again, 8);
        assert_ne!(pool.bytes(), again.bytes());
    }

    #[test]
    fn every_4_kib_of_a_data_set_is_unique() {
        let mut block = vec![0u8; 16 << 10];
        let mut seen = HashSet::new();
        for file in 0..4 {
            for generation in 0..3 {
                for index in 0..16u64 {
                    stamp(&mut block, Stamp { seed: 1, file, generation, offset_bytes: index * (16 << 10) });
                    for piece in block.chunks(STAMP_INTERVAL_BYTES) {
                        assert!(seen.insert(piece.to_vec()));
                    }
                }
            }
        }
    }

    #[test]
    fn small_blocks_carry_what_fits() {
        let mut block = [0u8; 16];
        stamp(&mut block, Stamp { seed: 3, file: 1, generation: 2, offset_bytes: 5 });
        assert_eq!(block[..8], 3u64.to_le_bytes());
    }
}
