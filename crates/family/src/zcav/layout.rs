//! The blocks of a file or device that are visited.

use std::ops::Range;

use model::UserError;

use super::MIB;
use super::arguments::Options;

/// Least default number of blocks; the largest is twice as many.
const BLOCKS: u64 = 100;
/// Most visits of blocks, all passes together: their times are kept in memory, in 8 MiB.
const VISITS_MAX: u64 = 1 << 20;

/// Blocks of a file at equal distances; the last one ends where the range ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the first block.
    pub start_bytes: u64,
    /// Offset at which the last block ends at the latest.
    pub end_bytes: u64,
    /// Size of a block.
    pub block_bytes: u64,
    /// Distance between the beginnings of consecutive blocks.
    pub stride_bytes: u64,
    /// Size of a call.
    pub chunk_bytes: u64,
    /// Number of visits of each block.
    pub passes: u32,
}

/// Reason why a file cannot be measured as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No part of the file lies in the range.
    TooSmall(UserError),
    /// The file has too many blocks.
    TooMany(UserError),
}

impl Layout {
    /// Computes the layout of a file or device of `size_bytes` from the options.
    ///
    /// # Errors
    /// There is nothing to visit, or too much.
    pub fn from_options(options: &Options, name: &str, size_bytes: u64) -> Result<Self, Refusal> {
        let action = || format!("measure {name}");
        let start_bytes = options.start_mib.saturating_mul(MIB);
        if size_bytes <= start_bytes {
            let error = match size_bytes {
                0 => UserError::new(action(), "it is empty").help("choose a file or device with data in it"),
                _ => UserError::new(
                    action(),
                    format!(
                        "it has {} MiB and ends before MiB {}",
                        size_bytes.div_ceil(MIB),
                        options.start_mib
                    ),
                )
                .help(format!("use -r START:END with a START below {}", size_bytes.div_ceil(MIB))),
            };
            return Err(Refusal::TooSmall(error));
        }
        let requested_end_bytes = options.end_mib.map_or(u64::MAX, |mib| mib.saturating_mul(MIB));
        let end_bytes = requested_end_bytes.min(size_bytes);
        let length_bytes = end_bytes - start_bytes;
        let block_bytes = match options.block_mib {
            Some(mib) => mib.saturating_mul(MIB),
            None => usual_block_bytes(length_bytes / options.every, options.chunk_mib.saturating_mul(MIB)),
        };
        // A call reads a part of one block, also of the last one unless that ends with the file.
        let of_last = if end_bytes < size_bytes { length_bytes } else { block_bytes };
        let is_part = |bytes: &u64| block_bytes.is_multiple_of(*bytes) && of_last.is_multiple_of(*bytes);
        let chunk_bytes = (1..=options.chunk_mib).rev().map(|mib| mib.saturating_mul(MIB)).find(is_part);
        let layout = Self {
            start_bytes,
            end_bytes,
            block_bytes,
            stride_bytes: block_bytes.saturating_mul(options.every),
            chunk_bytes: chunk_bytes.unwrap_or(MIB),
            passes: options.passes,
        };
        let visits = layout.blocks_count().saturating_mul(u64::from(options.passes));
        if visits > VISITS_MAX {
            let least_mib = length_bytes
                .saturating_mul(u64::from(options.passes))
                .div_ceil(options.every.saturating_mul(MIB).saturating_mul(VISITS_MAX))
                .saturating_add(1);
            return Err(Refusal::TooMany(
                UserError::new(
                    action(),
                    format!(
                        "{} blocks of {} MiB in {} passes are more than the maximum of {VISITS_MAX}",
                        layout.blocks_count(),
                        block_bytes / MIB,
                        options.passes
                    ),
                )
                .help(format!("use -b {least_mib} or more, or drop -b")),
            ));
        }
        Ok(layout)
    }

    fn blocks_count(&self) -> u64 {
        (self.end_bytes - self.start_bytes).div_ceil(self.stride_bytes.max(1))
    }

    /// Returns the blocks, front to back.
    pub fn blocks(&self) -> Vec<Range<u64>> {
        let start = |index| self.start_bytes + index * self.stride_bytes;
        let block = |start: u64| start..start.saturating_add(self.block_bytes).min(self.end_bytes);
        (0..self.blocks_count()).map(start).map(block).collect()
    }
}

/// Block size that gives [`BLOCKS`] to twice as many: a power of two in MiB, and at least a chunk.
fn usual_block_bytes(length_bytes: u64, chunk_bytes: u64) -> u64 {
    let mib = (length_bytes / BLOCKS / MIB).max(1);
    ((1 << mib.ilog2()) * MIB).max(chunk_bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::dialect::{Command, Dialect};
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn options(line: &str) -> Options {
        match Options::parse(line.split(' ').filter(|word| !word.is_empty()).chain(["x"]).map(OsString::from))
        {
            Ok(Command::Measure(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    fn blocks(line: &str, size_bytes: u64) -> Vec<(u64, u64)> {
        let layout = Layout::from_options(&options(line), "x", size_bytes).unwrap();
        layout.blocks().iter().map(|block| (block.start, block.end)).collect()
    }

    #[test]
    fn last_block_ends_with_the_file() {
        let size = 2 * MIB + 700;
        assert_eq!(blocks("-b 1", size), [(0, MIB), (MIB, 2 * MIB), (2 * MIB, size)]);
        assert_eq!(blocks("-b 4", size), [(0, size)]);
        assert_eq!(blocks("", 1), [(0, 1)]);
    }

    #[test]
    fn range_gives_positions_even_with_skipped_blocks() {
        let size = 100 * MIB;
        assert_eq!(
            blocks("-b 4 -r 10:20", size),
            [(10 * MIB, 14 * MIB), (14 * MIB, 18 * MIB), (18 * MIB, 20 * MIB)]
        );
        assert_eq!(blocks("-b 4 -s 2 -r 10:20", size), [(10 * MIB, 14 * MIB), (18 * MIB, 20 * MIB)]);
        assert_eq!(blocks("-b 40 -s 2", size), [(0, 40 * MIB), (80 * MIB, 100 * MIB)]);
        assert_eq!(blocks("-b 60 -r 50:5000", size), [(50 * MIB, 100 * MIB)], "to the end");
    }

    #[test]
    fn default_layout_has_100_to_200_blocks() {
        for size in [151 * MIB, 1 << 30, 48 * GIB, 1000 * GIB, 20_000 * GIB] {
            for words in ["", "-r 50:100000000"] {
                let count = blocks(words, size).len();
                assert!((100..=201).contains(&count), "{size}: {count}");
            }
        }
        assert_eq!(blocks("-s 4", 48 * GIB).len(), 192, "of a fourth");
        assert_eq!(blocks("", 10 * MIB).len(), 10);
        // No block is smaller than a call.
        assert_eq!(
            Layout::from_options(&Options { chunk_mib: 8, ..options("") }, "x", 99 * MIB)
                .unwrap()
                .block_bytes,
            8 * MIB
        );
    }

    #[test]
    fn layout_with_no_or_too_many_blocks_is_refused() {
        let refused = |line: &str, size| Layout::from_options(&options(line), "x", size).unwrap_err();
        let Refusal::TooSmall(error) = refused("", 0) else { panic!() };
        assert!(error.to_string().contains("measure x: it is empty"), "{error}");
        let Refusal::TooSmall(error) = refused("-r 10:20", 10 * MIB) else { panic!() };
        assert!(
            error.to_string().contains("10 MiB") && error.to_string().contains("START below 10"),
            "{error}"
        );
        let Refusal::TooMany(error) = refused("-b 1 -c 3", 1000 * GIB) else { panic!() };
        let text = error.to_string();
        assert!(text.contains("1024000 blocks of 1 MiB in 3 passes") && text.contains("-b 4 or"), "{text}");
        assert!(Layout::from_options(&options("-b 4 -c 3"), "x", 1000 * GIB).is_ok());
    }

    proptest! {
        #[test]
        fn blocks_lie_in_their_range_and_do_not_overlap(
            size in 1u64..1 << 46, block in prop::option::of(1u64..5000), every in 1u64..=20, start in 0u64..9000,
            length in prop::option::of(1u64..100_000), passes in 1u32..=100,
        ) {
            let options = Options {
                block_mib: block, every, start_mib: start, end_mib: length.map(|length| start + length), passes,
                ..options("")
            };
            let Ok(layout) = Layout::from_options(&options, "x", size) else { return Ok(()) };
            let blocks = layout.blocks();
            prop_assert!(!blocks.is_empty() && blocks.len() as u64 * u64::from(passes) <= VISITS_MAX);
            prop_assert_eq!(blocks[0].start, start * MIB);
            prop_assert!(blocks.iter().all(|block| block.start < block.end && block.end <= layout.end_bytes));
            prop_assert!(blocks.windows(2).all(|pair| pair[0].end <= pair[1].start));
            if every == 1 {
                prop_assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
                prop_assert_eq!(blocks.last().map(|block| block.end), Some(layout.end_bytes));
            }
        }
    }
}
