//! The data that tests write: incompressible bytes, unique in every block. A later read can tell them from anything
//! else.
//!
//! A pool is filled once with pseudo-random bytes. Each block to write is a slice of the pool, and the slices are used
//! in turn. So neighbours differ even within the window of a compressing file system, and nothing is copied.
//!
//! Each 4 KiB of a block (or the whole block, if it is smaller) begins with a stamp. The stamp holds seed, file, offset
//! and generation, which makes it unique for deduplication. It also holds the pool offset of the rest of the block, so
//! every byte can be checked.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::PendingBlock;
use crate::buffer::AlignedBuffer;

/// Largest distance between stamps. If blocks are smaller or not a multiple of it, the distance is their common
/// divisor.
pub const STAMP_INTERVAL_BYTES: usize = 4096;
/// Size of a stamp. Smaller blocks carry only its end, and cannot be verified.
pub const STAMP_BYTES: usize = 40;
/// Bytes after which the random part of a pool repeats. The window of compressing file systems is at most a record of
/// ZFS, 1 MiB by default (btrfs: 128 KiB).
pub const PERIOD_BYTES: usize = 1 << 20;
/// Number of the file in the stamps of duplicates, which belong to no place.
pub(crate) const NO_FILE: u32 = u32::MAX;

/// Properties of the blocks of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Seed of the run.
    pub seed: u64,
    /// Distance of stamps. It divides every block size, and a stamp lies at every multiple of it in a file.
    pub interval_bytes: usize,
    /// Percentage of each interval that is zero: the part that a compressing file system saves.
    pub compress_percent: u8,
    /// Percentage of blocks that are copies of one another: the part that a deduplicating file system saves.
    pub dedupe_percent: u8,
}

impl Content {
    /// True if blocks carry whole stamps and can be verified.
    pub fn is_stamped(self) -> bool {
        self.interval_bytes >= STAMP_BYTES
    }

    /// Length of the period: whole intervals, about [`PERIOD_BYTES`].
    fn period_bytes(self) -> usize {
        PERIOD_BYTES.div_ceil(self.interval_bytes) * self.interval_bytes
    }

    /// Returns one period of the pool, with zeros at the end of each interval. Eight interleaved xorshift generators
    /// make the bytes, which the compiler turns into vector instructions (Marsaglia, "Xorshift RNGs", 2003).
    pub(crate) fn period(self) -> Box<[u8]> {
        let mut period = vec![0; self.period_bytes()].into_boxed_slice();
        let mut lanes: [u64; 8] = std::array::from_fn(|lane| mix(self.seed ^ mix(lane as u64 + 1)) | 1);
        for chunk in period.chunks_mut(64) {
            let mut bytes = [0u8; 64];
            for (lane, out) in lanes.iter_mut().zip(bytes.chunks_exact_mut(8)) {
                *lane ^= *lane << 13;
                *lane ^= *lane >> 7;
                *lane ^= *lane << 17;
                out.copy_from_slice(&lane.to_le_bytes());
            }
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        let zeros = self.interval_bytes * usize::from(self.compress_percent.min(100)) / 100;
        for interval in period.chunks_mut(self.interval_bytes) {
            let len = interval.len();
            interval[len.saturating_sub(zeros)..].fill(0);
        }
        period
    }
}

/// Content of a stamp: the identity of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the file in the data set.
    pub file: u32,
    /// Number of tests that wrote the data set before. It distinguishes an old block from a new one.
    pub generation: u32,
    /// Offset of the stamp in the file.
    pub offset_bytes: u64,
    /// Start of the interval in the pool's period, or in a later period.
    pub phase_bytes: u32,
}

impl Stamp {
    /// The stamp as it is stored on the device, with a checksum over the rest.
    #[inline]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let place = u64::from(self.file) << 32 | u64::from(self.generation);
        let phase = u64::from(self.phase_bytes);
        let check = mix(self.seed ^ mix(place ^ mix(self.offset_bytes ^ mix(phase))));
        let mut bytes = [0; STAMP_BYTES];
        for (out, word) in bytes.chunks_exact_mut(8).zip([self.seed, place, self.offset_bytes, phase, check])
        {
            out.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the stamp at the start of `bytes`, or `None` if its check sum is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = [0; STAMP_BYTES / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.get(..STAMP_BYTES)?.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [seed, place, offset_bytes, phase, _] = words;
        let phase_bytes = u32::try_from(phase).ok()?;
        let stamp =
            Self { seed, file: (place >> 32) as u32, generation: place as u32, offset_bytes, phase_bytes };
        (stamp.to_bytes() == bytes[..STAMP_BYTES]).then_some(stamp)
    }
}

/// Stamps a block that will lie at `stamp.offset_bytes`, every `interval_bytes`. `stamp.phase_bytes` is the phase of
/// the block's start.
#[inline]
pub fn stamp(block: &mut [u8], interval_bytes: usize, stamp: Stamp) {
    let mut at = stamp;
    for interval in block.chunks_mut(interval_bytes) {
        let bytes = at.to_bytes();
        match interval.first_chunk_mut() {
            Some(place) => *place = bytes,
            // The check sum at the stamp's end makes small blocks unique.
            None => interval.copy_from_slice(&bytes[STAMP_BYTES - interval.len()..]),
        }
        at.offset_bytes += interval_bytes as u64;
        at.phase_bytes = (at.phase_bytes as usize + interval_bytes) as u32;
    }
}

/// Blocks for one worker to write: slices used in turn, never one that is in flight.
#[derive(Debug)]
pub struct Pool {
    memory: AlignedBuffer,
    block_bytes: usize,
    period_bytes: usize,
    /// Free slices in a ring, least recently used first.
    free: Box<[u32]>,
    first_free: usize,
    /// The slice of each slot.
    slot_slices: Box<[u32]>,
    /// Pool offset of each slot's next write: its slice, or the duplicate.
    offsets: Box<[usize]>,
    duplicate: usize,
    dedupe_percent: u8,
    /// Fraction of a duplicate that is due, in percent.
    due_percent: u8,
}

impl Pool {
    /// A pool for `depth` writes in flight, with blocks of `block_bytes`.
    pub fn new(content: Content, block_bytes: usize, depth: u32) -> Self {
        let period = content.period();
        let slices = period.len().div_ceil(block_bytes).max(depth as usize + 1);
        // One more slice holds the duplicate.
        let mut memory = AlignedBuffer::new((slices + 1) * block_bytes);
        for chunk in memory.bytes_mut().chunks_mut(period.len()) {
            chunk.copy_from_slice(&period[..chunk.len()]);
        }
        let duplicate = slices * block_bytes;
        let phase_bytes = (duplicate % period.len()) as u32;
        let of_duplicate =
            Stamp { seed: content.seed, file: NO_FILE, generation: 0, offset_bytes: 0, phase_bytes };
        if content.is_stamped() {
            stamp(&mut memory.bytes_mut()[duplicate..], content.interval_bytes, of_duplicate);
        }
        let slot_slices: Box<[u32]> = (0..depth).collect();
        Self {
            memory,
            block_bytes,
            period_bytes: period.len(),
            free: (depth..slices as u32).collect(),
            first_free: 0,
            offsets: slot_slices.iter().map(|slice| *slice as usize * block_bytes).collect(),
            slot_slices,
            duplicate,
            dedupe_percent: content.dedupe_percent,
            due_percent: 0,
        }
    }

    /// Returns the next block of `slot`, and frees the slice that the slot wrote before.
    #[inline]
    pub fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        let slot = slot as usize;
        self.due_percent += self.dedupe_percent;
        let is_duplicate = self.due_percent >= 100;
        let offset = if is_duplicate {
            self.due_percent -= 100;
            self.duplicate
        } else {
            std::mem::swap(&mut self.slot_slices[slot], &mut self.free[self.first_free]);
            self.first_free = if self.first_free + 1 == self.free.len() { 0 } else { self.first_free + 1 };
            self.slot_slices[slot] as usize * self.block_bytes
        };
        self.offsets[slot] = offset;
        let phase_bytes = (offset % self.period_bytes) as u32;
        let bytes = self.memory.part_mut(offset, self.block_bytes);
        PendingBlock { bytes, phase_bytes, is_duplicate }
    }

    /// Offset in [`Pool::memory`] of the block that [`Pool::draft`] gave to `slot`.
    #[inline]
    pub fn offset(&self, slot: u32) -> usize {
        self.offsets[slot as usize]
    }

    /// The block that [`Pool::draft`] gave to `slot`.
    #[inline]
    pub fn block(&self, slot: u32) -> &[u8] {
        let offset = self.offset(slot);
        self.memory.part(offset, self.block_bytes)
    }

    /// The whole memory of the pool.
    pub fn memory(&mut self) -> &mut AlignedBuffer {
        &mut self.memory
    }
}

/// The first error in a block that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Offset in the file of the first wrong byte.
    pub offset_bytes: u64,
    /// Expected bytes at that offset. Zeros fill the array behind the end of the bytes compared at once.
    pub expected: [u8; Mismatch::EXCERPT_BYTES],
    /// Bytes found at that offset.
    pub found: [u8; Mismatch::EXCERPT_BYTES],
    /// Stamp of the interval, if the bytes belong to another place or time.
    pub belongs_to: Option<Stamp>,
    /// Bytes from there to the end of the interval, if all of them are zeros; else 0.
    pub zeros_bytes: u64,
}

impl Mismatch {
    /// Bytes of either side that a mismatch shows.
    pub const EXCERPT_BYTES: usize = 8;

    fn new(offset_bytes: u64, expected: &[u8], found: &[u8], belongs_to: Option<Stamp>) -> Self {
        let differs = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(0);
        let excerpt = |bytes: &[u8]| {
            let mut excerpt = [0; Self::EXCERPT_BYTES];
            let bytes = &bytes[differs..bytes.len().min(differs + Self::EXCERPT_BYTES)];
            excerpt[..bytes.len()].copy_from_slice(bytes);
            excerpt
        };
        let offset_bytes = offset_bytes + differs as u64;
        let rest = &found[differs..];
        let zeros_bytes = if rest.iter().all(|byte| *byte == 0) { rest.len() as u64 } else { 0 };
        let belongs_to = belongs_to.filter(|_| zeros_bytes == 0);
        Self { offset_bytes, expected: excerpt(expected), found: excerpt(found), belongs_to, zeros_bytes }
    }
}

/// Knows the correct value of every byte of a data set. All workers share it and only read it.
#[derive(Debug, Clone)]
pub struct Verifier {
    content: Content,
    /// One period and one interval more, so that every interval is contiguous.
    period: Arc<[u8]>,
    /// Generations that a block may have: those of the tests that wrote since every block was written.
    pub generations: std::ops::RangeInclusive<u32>,
}

impl Verifier {
    /// A verifier of blocks with this content.
    pub fn new(content: Content, generations: std::ops::RangeInclusive<u32>) -> Self {
        let mut period = content.period().into_vec();
        period.extend_from_within(..content.interval_bytes);
        Self { content, period: period.into(), generations }
    }

    /// Compares every byte of a block that was read from `offset_bytes` of `file`.
    ///
    /// # Errors
    /// The first byte that is wrong.
    #[cold]
    pub fn verify(&self, block: &[u8], file: u32, offset_bytes: u64) -> Result<(), Mismatch> {
        self.verify_generations(&self.generations, block, file, offset_bytes)
    }

    /// Same as [`Verifier::verify`], for a block that may only have these generations.
    ///
    /// # Errors
    /// The first byte that is wrong.
    #[cold]
    pub fn verify_generations(
        &self,
        generations: &std::ops::RangeInclusive<u32>,
        block: &[u8],
        file: u32,
        offset_bytes: u64,
    ) -> Result<(), Mismatch> {
        let Content { seed, interval_bytes, .. } = self.content;
        for (index, interval) in block.chunks_exact(interval_bytes).enumerate() {
            let offset_bytes = offset_bytes + (index * interval_bytes) as u64;
            let Some(found) = Stamp::from_bytes(interval) else {
                // The check sum is wrong. Compare word by word with the expected stamp, to name the damaged word.
                let generation = *generations.end();
                let claimed = u64::from_le_bytes(interval[24..32].try_into().unwrap_or_default());
                let phase_bytes = claimed.min(self.content.period_bytes() as u64) as u32;
                let claimed_generation = u32::from_le_bytes(interval[8..12].try_into().unwrap_or_default());
                let generation =
                    if generations.contains(&claimed_generation) { claimed_generation } else { generation };
                let expected = Stamp { seed, file, generation, offset_bytes, phase_bytes }.to_bytes();
                return Err(Mismatch::new(offset_bytes, &expected, interval, None));
            };
            let is_duplicate = found.file == NO_FILE && self.content.dedupe_percent > 0;
            let is_here = found.file == file
                && found.offset_bytes == offset_bytes
                && generations.contains(&found.generation);
            if found.seed != seed || !(is_here || is_duplicate) {
                let generation = *generations.end();
                let expected = Stamp { seed, file, generation, offset_bytes, ..found }.to_bytes();
                return Err(Mismatch::new(offset_bytes, &expected, interval, Some(found)));
            }
            let phase = found.phase_bytes as usize % self.content.period_bytes();
            let expected = &self.period[phase + STAMP_BYTES..phase + interval_bytes];
            let rest = &interval[STAMP_BYTES..];
            if rest != expected {
                return Err(Mismatch::new(offset_bytes + STAMP_BYTES as u64, expected, rest, None));
            }
        }
        Ok(())
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

    const CONTENT: Content =
        Content { seed: 7, interval_bytes: STAMP_INTERVAL_BYTES, compress_percent: 0, dedupe_percent: 0 };

    fn write(pool: &mut Pool, slot: u32, content: Content, file: u32, offset_bytes: u64) -> Vec<u8> {
        let draft = pool.draft(slot);
        if !draft.is_duplicate {
            let (seed, phase_bytes) = (content.seed, draft.phase_bytes);
            let at = Stamp { seed, file, generation: 1, offset_bytes, phase_bytes };
            stamp(draft.bytes, content.interval_bytes, at);
        }
        pool.block(slot).to_vec()
    }

    #[test]
    fn pool_looks_random_and_repeats_from_its_seed() {
        let mut counts = [0u32; 256];
        CONTENT.period().iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 4,096 of each expected; the standard deviation of a count is 64.
        assert!(counts.iter().all(|count| (3_700..4_500).contains(count)), "{counts:?}");
        assert_eq!(CONTENT.period(), CONTENT.period());
        assert_ne!(CONTENT.period(), Content { seed: 8, ..CONTENT }.period());
    }

    #[test]
    fn data_set_intervals_are_unique_and_verify() {
        for block_bytes in [512, 4096, 12 << 10, 3 << 20] {
            let content = Content { interval_bytes: block_bytes.min(STAMP_INTERVAL_BYTES), ..CONTENT };
            let mut pool = Pool::new(content, block_bytes, 4);
            let verifier = Verifier::new(content, 1..=1);
            let mut seen = HashSet::new();
            for index in 0..16u64 {
                let offset = index * block_bytes as u64;
                let block = write(&mut pool, (index % 4) as u32, content, 3, offset);
                assert_eq!(verifier.verify(&block, 3, offset), Ok(()));
                for interval in block.chunks(content.interval_bytes) {
                    assert!(seen.insert(interval.to_vec()));
                }
            }
        }
    }

    #[test]
    fn pool_slices_in_flight_are_not_reused() {
        let mut pool = Pool::new(CONTENT, 4096, 8);
        let mut in_flight: Vec<usize> = (0..8)
            .map(|slot| {
                pool.draft(slot);
                pool.offset(slot)
            })
            .collect();
        let mut last = HashSet::new();
        for round in 0..1000usize {
            let slot = (round * 5 % 8) as u32;
            pool.draft(slot);
            in_flight[slot as usize] = pool.offset(slot);
            assert_eq!(in_flight.iter().collect::<HashSet<_>>().len(), 8);
            // No slice comes back within a quarter of the period.
            if round < 64 {
                assert!(last.insert(pool.offset(slot)));
            }
        }
    }

    #[test]
    fn every_wrong_byte_is_found_and_named() {
        let mut pool = Pool::new(CONTENT, 8192, 1);
        let verifier = Verifier::new(CONTENT, 1..=1);
        let block = write(&mut pool, 0, CONTENT, 3, 8192);
        for at in (0..8192).step_by(7) {
            let mut bad = block.clone();
            bad[at] ^= 0x40;
            let mismatch = verifier.verify(&bad, 3, 8192).unwrap_err();
            // Damage to the check sum is reported within the stamp, and so is a stamp whose damaged word is unknown.
            if at % 4096 >= STAMP_BYTES {
                assert_eq!(mismatch.offset_bytes, 8192 + at as u64);
                assert_eq!((mismatch.expected[0], mismatch.found[0]), (block[at], bad[at]));
            } else {
                let stamp_at = 8192 + (at / 4096 * 4096) as u64;
                assert!((stamp_at..stamp_at + STAMP_BYTES as u64).contains(&mismatch.offset_bytes));
            }
        }
        let misplaced = verifier.verify(&block, 3, 0).unwrap_err();
        assert_eq!(misplaced.belongs_to.unwrap().offset_bytes, 8192);
        let stale = Verifier::new(CONTENT, 2..=3).verify(&block, 3, 8192).unwrap_err();
        assert_eq!(stale.belongs_to.unwrap().generation, 1);
    }

    #[test]
    fn mismatch_text_reports_zeroed_bytes() {
        let mut pool = Pool::new(CONTENT, 8192, 1);
        let verifier = Verifier::new(CONTENT, 1..=1);
        let block = write(&mut pool, 0, CONTENT, 3, 8192);
        let mismatch_text = |from: usize, to: usize| {
            let mut zeroed = block.clone();
            zeroed[from..to].fill(0);
            let mismatch = verifier.verify(&zeroed, 3, 8192).unwrap_err();
            (mismatch.zeros_bytes, crate::failure::Cause::Mismatch(mismatch).to_string())
        };
        // The first bytes of a stamp may be zeros themselves.
        let (zeros_bytes, text) = mismatch_text(0, 8192);
        assert!(
            (4000..=4096).contains(&zeros_bytes) && text.ends_with(" bytes after it are zeros)"),
            "{text}"
        );
        let (zeros_bytes, text) = mismatch_text(4096 + 2000, 8192);
        assert!((2090..=2096).contains(&zeros_bytes) && !text.contains("these bytes belong to"), "{text}");
        assert_eq!(mismatch_text(2000, 2008).0, 0, "others follow");
    }

    #[test]
    fn data_matches_compress_and_dedupe_percentages() {
        let content = Content { compress_percent: 50, dedupe_percent: 20, ..CONTENT };
        let mut pool = Pool::new(content, 4096, 2);
        let verifier = Verifier::new(content, 1..=1);
        let mut seen = HashSet::new();
        let mut zeros = 0;
        for index in 0..1000u64 {
            let block = write(&mut pool, (index % 2) as u32, content, 0, index * 4096);
            assert_eq!(verifier.verify(&block, 0, index * 4096), Ok(()));
            zeros += block.iter().filter(|byte| **byte == 0).count();
            seen.insert(block);
        }
        assert_eq!(seen.len(), 801, "800 of their own, and one that 200 share");
        let share = zeros as f64 / (1000.0 * 4096.0);
        assert!((share - 0.5).abs() < 0.01, "{share}");
    }
}
