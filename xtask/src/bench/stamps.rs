//! The cost of making every written block unique and verifiable.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engine::clock::Tsc;
use engine::data::{self, Pool, STAMP_INTERVAL_BYTES, Stamp};
use engine::pacing::ClosedLoop;
use engine::sync::SyncEngine;
use engine::verb::Write;
use loops::{CONTENT, SEED, Work};
use rustix::fs::{MemfdFlags, OFlags};

use super::looped::through_loop;
use super::pinned::{Pinned, cpu_seconds};
use super::zram_file::ZramFile;
use super::{Bench, Limit, Row, Rows, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench =
    Bench { name: "stamps", measures: "choosing and stamping a 4 KiB block, as a share of its write", run };

const SIZE_BYTES: u64 = 128 << 20;
/// One pass: each measurement writes every block once.
const WORK: Work = Work::random_4k(SIZE_BYTES, SIZE_BYTES / 4096);
/// Blocks that are stamped and not written; they take some 20 ms.
const STAMPED: u64 = 1 << 20;
/// Largest share of the time of a write.
const SHARE: f64 = 0.03;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    let times_ns: Vec<_> = (0..=setting.pairs).map(|_| stamp_ns()).skip(1).collect();
    rows.push(Row::new("draft and stamp a 4 KiB block", "ns", times_ns, Limit::None))?;
    let share = |files: &Arc<[OwnedFd]>| {
        alternate(setting.pairs, || Ok(stamp_ns()), || write_ns(files, tsc, &pinned))
    };
    {
        let file = ZramFile::new(SIZE_BYTES)?;
        let files = file.open(OFlags::WRONLY)?;
        let limit = Limit::AtMost(SHARE);
        rows.push(Row::new("stamps over a direct write to zram", "×", share(&files)?, limit))?;
    }
    let file =
        rustix::fs::memfd_create("skye-bench", MemfdFlags::CLOEXEC).context("make a file in memory")?;
    let files: Arc<[OwnedFd]> = Arc::new([file]);
    rows.push(Row::new("stamps over a write to memory", "×", share(&files)?, Limit::None))
}

/// CPU time of our loop's work on a block before its write, in nanoseconds.
fn stamp_ns() -> f64 {
    let mut pool = Pool::new(CONTENT, 4096, 1);
    let (seconds, ()) = cpu_seconds(|| {
        for block in 0..STAMPED {
            let draft = pool.draft(0);
            let phase_bytes = draft.phase_bytes;
            let stamp = Stamp { seed: SEED, file: 0, generation: 0, offset_bytes: block * 4096, phase_bytes };
            data::stamp(draft.bytes, STAMP_INTERVAL_BYTES, std::hint::black_box(stamp));
            std::hint::black_box(&draft);
        }
    });
    seconds * 1e9 / STAMPED as f64
}

/// CPU time of a whole write operation of our loop, its stamp included.
fn write_ns(files: &Arc<[OwnedFd]>, tsc: Option<Tsc>, pinned: &Pinned) -> Result<f64> {
    let engine = || Ok(SyncEngine::new(Arc::clone(files), WORK.block_bytes as usize, Some(CONTENT)));
    let done = through_loop(engine, tsc, ClosedLoop, Write, WORK, pinned)?;
    ensure!(done.counted.ops == WORK.ops, "{} writes counted of {}", done.counted.ops, WORK.ops);
    Ok(done.cpu_ns_per_op())
}
