//! The work of the loops on data.

use engine::DataEngine;
use engine::clock::Clock;
use engine::data::{Content, STAMP_INTERVAL_BYTES};
use engine::pacing::Pacing;
use engine::pattern::Pattern;
use engine::recorder::Recorder;
use engine::verb::Verb;
use engine::worker::{Layout, Limits, Stamping, Worker, WorkerParts};

/// Seed of all random numbers.
pub const SEED: u64 = 0x736b_7965;
/// Content of written blocks, as by default.
pub const CONTENT: Content =
    Content { seed: SEED, interval_bytes: STAMP_INTERVAL_BYTES, compress_percent: 0, dedupe_percent: 0 };

/// Work on one file.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Size of a block, in bytes.
    pub block_bytes: u64,
    /// Number of blocks in the file.
    pub blocks: u64,
    /// True if the order of the blocks looks random.
    pub is_random: bool,
    /// Number of operations, unless the time ends first.
    pub ops: u64,
    /// Time in which operations may start; `u64::MAX` for no limit.
    pub time_ns: u64,
}

impl Work {
    /// 4 KiB blocks of a file in an order that looks random.
    pub const fn random_4k(size_bytes: u64, ops: u64) -> Self {
        Self { block_bytes: 4096, blocks: size_bytes / 4096, is_random: true, ops, time_ns: u64::MAX }
    }

    /// Returns the order of the blocks.
    pub fn pattern(&self) -> Pattern {
        Pattern::new(0, self.blocks, self.is_random, SEED, self.ops)
    }

    /// Returns the offsets of the same blocks in the same order.
    pub fn offsets(&self) -> Vec<u64> {
        let mut pattern = self.pattern();
        std::iter::from_fn(|| pattern.next_block()).map(|block| block * self.block_bytes).collect()
    }
}

/// Makes a worker on one file that does not verify its reads.
pub fn worker<E: DataEngine, C: Clock, P: Pacing, V: Verb>(
    engine: E,
    clock: C,
    pacing: P,
    verb: V,
    work: Work,
    limits: Limits<'_>,
    recorder: Recorder,
) -> Worker<'_, E, C, P, V> {
    let layout = Layout::dense(work.blocks, work.block_bytes);
    Worker::new(WorkerParts {
        engine,
        clock,
        pacing,
        verb,
        pattern: work.pattern(),
        layout,
        stamping: Stamping::unverified(SEED),
        limits,
        recorder,
    })
}
