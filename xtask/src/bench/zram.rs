//! The cost of the loop on data on the fastest device: 4 KiB reads of compressed memory, one at a time.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Result, ensure};
use engine::buffer::AlignedBuffer;
use engine::clock::Tsc;
use engine::pacing::ClosedLoop;
use engine::sync::SyncEngine;
use engine::verb::Read;
use loops::Work;
use rustix::fs::OFlags;

use super::drained::with_second_thread;
use super::looped::{in_thread, through_loop};
use super::pinned::{Pinned, cpu_seconds};
use super::zram_file::ZramFile;
use super::{Bench, Limit, Row, Rows, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench =
    Bench { name: "zram", measures: "random 4 KiB reads of a zram device: our loop against a bare one", run };

const SIZE_BYTES: u64 = 512 << 20;
/// Half a pass over the device, some 100 ms: so short that the machine seldom changes within a pair.
const WORK: Work = Work::random_4k(SIZE_BYTES, SIZE_BYTES / 4096 / 2);
/// Number of pairs for each requested pair.
const PAIRS: usize = 8;
/// Least rate through the loop, relative to the bare one.
const SHARE: f64 = 0.975;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let file = ZramFile::new(SIZE_BYTES)?;
    let files = file.open(OFlags::RDONLY)?;
    let pinned = Pinned::new()?;
    let offsets = WORK.offsets();
    let tsc = Tsc::calibrate();
    let mut buffer = AlignedBuffer::new(WORK.block_bytes as usize);
    let values = alternate(
        PAIRS * setting.pairs,
        || measure_skye(&files, tsc, &pinned),
        || bare(&files[0], &offsets, &mut buffer, &pinned),
    )?;
    rows.push(Row::new("4 KiB random reads, ours over bare", "×", values, Limit::AtLeast(SHARE)))
}

/// Reads per second through the program's loop: each is timed, and the order is computed on the way.
fn measure_skye(files: &Arc<[OwnedFd]>, tsc: Option<Tsc>, pinned: &Pinned) -> Result<f64> {
    let engine = || Ok(SyncEngine::new(Arc::clone(files), WORK.block_bytes as usize, None));
    let done = through_loop(engine, tsc, ClosedLoop, Read, WORK, pinned)?;
    ensure!(done.counted.ops == WORK.ops, "{} reads counted of {}", done.counted.ops, WORK.ops);
    Ok(done.ops_per_cpu_second())
}

/// Reads per second of a loop that does nothing but the calls.
fn bare(file: &OwnedFd, offsets: &[u64], buffer: &mut AlignedBuffer, pinned: &Pinned) -> Result<f64> {
    let mut read = |offset: &u64| {
        let got = rustix::io::pread(file, buffer.bytes_mut(), *offset)?;
        ensure!(got as u64 == WORK.block_bytes, "{got} bytes read at {offset}");
        Ok(())
    };
    let every = || offsets.iter().try_for_each(&mut read);
    let (seconds, done) = in_thread(|| with_second_thread(pinned, || cpu_seconds(every)))?;
    done?;
    Ok(offsets.len() as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_spread_over_the_whole_device() {
        let mut offsets = WORK.offsets();
        assert_eq!(offsets.len() as u64, WORK.ops);
        assert!(offsets.iter().all(|offset| offset.is_multiple_of(WORK.block_bytes)));
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len() as u64, WORK.ops, "none twice in a pass");
        assert!(offsets[0] < SIZE_BYTES / 100 && offsets[offsets.len() - 1] > SIZE_BYTES / 100 * 99);
    }
}
