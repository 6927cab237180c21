//! Recognises blocks that an earlier run of skye wrote to a device, with any seed.

use crate::data::{Content, NO_FILE, STAMP_BYTES, STAMP_INTERVAL_BYTES, Stamp};

/// Blocks of earlier runs. It keeps the random bytes of the last seed, because neighbours mostly share one.
#[derive(Debug, Default)]
pub struct EarlierData {
    period: Option<(u64, Box<[u8]>)>,
}

impl EarlierData {
    /// Returns true if all bytes are those of a run that wrote to this offset of a device. A stamp of another offset
    /// belongs to a file, and that file may still exist.
    pub fn recognises(&mut self, block: &[u8], offset_bytes: u64) -> bool {
        let Some(first) = Stamp::from_bytes(block) else { return false };
        let interval_bytes = interval(block, first);
        let period = self.period(first.seed);
        let mut at = offset_bytes;
        block.chunks(interval_bytes).all(|interval| {
            let expected_at = at;
            at += interval.len() as u64;
            let Some(stamp) = Stamp::from_bytes(interval) else { return false };
            let is_here = stamp.offset_bytes == expected_at || stamp.file == NO_FILE;
            let start = stamp.phase_bytes as usize % period.len() + STAMP_BYTES;
            let rest = &interval[STAMP_BYTES..];
            let Some(expected) = period.get(start..start + rest.len()) else { return false };
            // The end of a compressible interval is zero.
            let equal = rest.iter().zip(expected).take_while(|(a, b)| a == b).count();
            stamp.seed == first.seed && is_here && rest[equal..].iter().all(|byte| *byte == 0)
        })
    }

    fn period(&mut self, seed: u64) -> &[u8] {
        if self.period.as_ref().is_none_or(|(known, _)| *known != seed) {
            self.period = None;
        }
        let content =
            Content { seed, interval_bytes: STAMP_INTERVAL_BYTES, compress_percent: 0, dedupe_percent: 0 };
        &self.period.get_or_insert_with(|| (seed, content.period())).1
    }
}

/// Returns the distance of stamps: the nearest place with another stamp of that seed.
fn interval(block: &[u8], first: Stamp) -> usize {
    let mut distance = STAMP_BYTES.next_power_of_two();
    while distance < block.len() {
        if Stamp::from_bytes(&block[distance..]).is_some_and(|stamp| stamp.seed == first.seed) {
            return distance;
        }
        distance *= 2;
    }
    block.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Pool, stamp};

    fn block(content: Content, block_bytes: usize, offset_bytes: u64) -> Vec<u8> {
        let mut pool = Pool::new(content, block_bytes, 1);
        for _ in 0..3 {
            let draft = pool.draft(0);
            if !draft.is_duplicate {
                let phase_bytes = draft.phase_bytes;
                let at = Stamp { seed: content.seed, file: 0, generation: 4, offset_bytes, phase_bytes };
                stamp(draft.bytes, content.interval_bytes, at);
            }
        }
        pool.block(0).to_vec()
    }

    #[test]
    fn blocks_of_any_seed_and_content_are_recognised() {
        let mut earlier = EarlierData::default();
        for (seed, interval_bytes, compress_percent, dedupe_percent) in [
            (1, 4096, 0, 0),
            (u64::MAX, 512, 0, 0),
            (3, 64, 0, 0),
            (4, 4096, 50, 0),
            (5, 4096, 100, 100),
            (6, 1024, 99, 30),
        ] {
            let content = Content { seed, interval_bytes, compress_percent, dedupe_percent };
            let block = block(content, 12 << 10, 40_960);
            for (index, page) in block.chunks(4096).enumerate() {
                let at = 40_960 + index as u64 * 4096;
                assert!(earlier.recognises(page, at), "{content:?} {index}");
                assert_eq!(earlier.recognises(page, at + 4096), dedupe_percent == 100, "{content:?}");
            }
        }
    }

    #[test]
    fn changed_byte_makes_a_block_foreign() {
        let content = Content { seed: 9, interval_bytes: 512, compress_percent: 30, dedupe_percent: 0 };
        let block = block(content, 4096, 0);
        let mut earlier = EarlierData::default();
        assert!(earlier.recognises(&block, 0));
        for at in 0..block.len() {
            let mut changed = block.clone();
            changed[at] ^= 1;
            assert!(!earlier.recognises(&changed, 0), "{at}");
        }
        for short in [0, 1, STAMP_BYTES - 1, STAMP_BYTES + 1] {
            let of = &block[..short];
            assert_eq!(earlier.recognises(of, 0), short > STAMP_BYTES, "{short}");
        }
        assert!(!earlier.recognises(&[0; 4096], 0));
    }
}
