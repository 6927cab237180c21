//! What the loop on data costs where a device is fastest: 4 KiB reads of compressed memory, one at a time.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use engine::buffer::AlignedBuffer;
use engine::clock::{Clock, Monotonic, Tsc};
use engine::data;
use engine::pacing::ClosedLoop;
use engine::pattern::{Pattern, Stream};
use engine::recorder::Recorder;
use engine::sync::SyncEngine;
use engine::verb::Read;
use engine::worker::{Layout, Limits, Stamping, Worker};
use rustix::fs::{Mode, OFlags};

use super::drained::{while_accompanied, while_drained};
use super::pinned::{Pinned, cpu_seconds};
use super::{Bench, Limit, Row, Setting};
use crate::pairs::alternate;

pub(super) const BENCH: Bench =
    Bench { name: "zram", measures: "random 4 KiB reads of a zram device: our loop against a bare one", run };

const SIZE_BYTES: u64 = 512 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Half a pass over the device, some 100 ms: so short that the machine seldom changes within a pair.
const OPS: u64 = SIZE_BYTES / BLOCK_BYTES / 2;
/// Pairs for each that is asked for.
const PAIRS: usize = 8;
/// Least rate through the loop, of the bare one.
const SHARE: f64 = 0.97;
const SEED: u64 = 0x736b_7965;

fn run(setting: &Setting) -> Result<Vec<Row>> {
    let device = Zram::new(SIZE_BYTES)?;
    device.fill()?;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::open(device.path(), flags, Mode::empty()).context("open the device")?;
    let files: Arc<[OwnedFd]> = Arc::new([file]);
    let pinned = Pinned::new()?;
    let offsets = offsets();
    let tsc = Tsc::calibrate();
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES as usize);
    let values = alternate(
        PAIRS * setting.pairs,
        || match tsc.map(Tsc::anchored) {
            Some(tsc) => ours(&files, tsc, &pinned),
            None => ours(&files, Monotonic, &pinned),
        },
        || bare(&files[0], &offsets, &mut buffer, &pinned),
    )?;
    let limit = Limit::AtLeast(SHARE);
    Ok(vec![Row { what: String::from("4 KiB random reads, ours over bare"), unit: "×", values, limit }])
}

fn pattern() -> Pattern {
    Pattern::new(Stream::new(0, SIZE_BYTES / BLOCK_BYTES, true, SEED, OPS), 1)
}

/// Reads per second through the loop that the program runs: each timed, and the order computed on the way.
fn ours<C: Clock>(files: &Arc<[OwnedFd]>, clock: C, pinned: &Pinned) -> Result<f64> {
    type Looped<'a, C> = Worker<'a, SyncEngine, C, ClosedLoop, Read>;
    let (recorder, reader) = Recorder::new(Looped::<C>::recorded_steps());
    let stop = AtomicBool::new(false);
    let worker = Worker::new(
        SyncEngine::new(Arc::clone(files), BLOCK_BYTES as usize, false, SEED),
        clock,
        ClosedLoop,
        Read,
        pattern(),
        Layout { block_bytes: BLOCK_BYTES, blocks_per_file: SIZE_BYTES / BLOCK_BYTES },
        Stamping { seed: SEED, first_file: 0, generation: 0 },
        Limits { deadline_ns: u64::MAX, stop: &stop },
        recorder,
    );
    let ((seconds, (_, result)), counted) =
        while_drained(pinned, reader, || cpu_seconds(|| worker.run(Monotonic.now_ns())))?;
    result.map_err(|failure| anyhow!("{failure:?}"))?;
    ensure!(counted == OPS, "{counted} reads counted of {OPS}");
    Ok(OPS as f64 / seconds)
}

/// The places of the same blocks in the same order.
fn offsets() -> Vec<u64> {
    let mut pattern = pattern();
    std::iter::from_fn(|| pattern.next_block()).map(|block| block * BLOCK_BYTES).collect()
}

/// Reads per second of a loop that does nothing but the calls.
fn bare(file: &OwnedFd, offsets: &[u64], buffer: &mut AlignedBuffer, pinned: &Pinned) -> Result<f64> {
    let read = |offset: &u64| {
        let got = rustix::io::pread(file, buffer.bytes_mut(), *offset)?;
        ensure!(got as u64 == BLOCK_BYTES, "{got} bytes read at {offset}");
        Ok(())
    };
    let (seconds, done) = while_accompanied(pinned, || cpu_seconds(|| offsets.iter().try_for_each(read)))?;
    done?;
    Ok(offsets.len() as f64 / seconds)
}

/// A compressed memory device of our own, which goes with its owner.
struct Zram {
    number: String,
}

const CONTROL: &str = "/sys/class/zram-control";

impl Zram {
    fn new(size_bytes: u64) -> Result<Self> {
        // Reading makes a device and yields its number.
        let number = fs::read_to_string(Path::new(CONTROL).join("hot_add"));
        let number = number.context("make a zram device; run this benchmark as root, modprobe zram")?;
        let device = Self { number: number.trim().to_owned() };
        device.set("disksize", &size_bytes.to_string())?;
        Ok(device)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }

    fn set(&self, attribute: &str, value: &str) -> Result<()> {
        let path = format!("/sys/block/zram{}/{attribute}", self.number);
        fs::write(&path, value).with_context(|| format!("write {value} to {path}"))
    }

    /// Writes all of it, bytes that cannot be compressed and repeat nowhere.
    fn fill(&self) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.path(), flags, Mode::empty()).context("open the new device")?;
        let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).context("ask for its size")?;
        let mut chunk = AlignedBuffer::new(1 << 20);
        let mut offset_bytes = 0;
        while offset_bytes < size_bytes {
            data::fill(&mut chunk, SEED ^ data::mix(offset_bytes));
            let written =
                rustix::io::pwrite(&file, chunk.bytes(), offset_bytes).context("fill the device")?;
            ensure!(written == chunk.bytes().len(), "{written} bytes written at {offset_bytes}");
            offset_bytes += written as u64;
        }
        Ok(())
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // Whoever looks at new devices may hold it open for a moment.
        for _ in 0..50 {
            let removed = self
                .set("reset", "1")
                .and_then(|()| Ok(fs::write(Path::new(CONTROL).join("hot_remove"), &self.number)?));
            match removed {
                Ok(()) => return,
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
        eprintln!("xtask: cannot remove {}: it is in use", self.path().display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_filled_and_goes_even_in_a_panic() {
        crate::require!(zram);
        let path = std::sync::Mutex::new(PathBuf::new());
        let panicked = std::panic::catch_unwind(|| {
            let device = Zram::new(4 << 20).unwrap();
            device.fill().unwrap();
            *path.lock().unwrap() = device.path();
            let bytes = fs::read(device.path()).unwrap();
            assert_eq!(bytes.len(), 4 << 20);
            assert!(bytes.chunks(4096).all(|block| block.iter().any(|byte| *byte != block[0])));
            panic!("on purpose");
        });
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
        let path = path.into_inner().unwrap();
        assert!(path.to_str().unwrap().starts_with("/dev/zram") && !path.exists(), "{}", path.display());
    }

    #[test]
    fn reads_are_spread_over_the_whole_device() {
        let mut offsets = offsets();
        assert_eq!(offsets.len() as u64, OPS);
        assert!(offsets.iter().all(|offset| offset.is_multiple_of(BLOCK_BYTES)));
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len() as u64, OPS, "none twice in a pass");
        assert!(offsets[0] < SIZE_BYTES / 100 && offsets[offsets.len() - 1] > SIZE_BYTES / 100 * 99);
    }
}
