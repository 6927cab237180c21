//! The true bottleneck of a built stack, found by changing it: the part whose relief raises the rate, while that of any
//! other does not.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use engine::buffer::AlignedBuffer;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::grammar::{FileState, Load, Part, Stack};
use super::rigs::Rigs;

/// Least gain of a relief that shows a bottleneck.
const RAISED: f64 = 1.25;
/// Largest gain of a relief that shows none, and the inverse of the smallest.
const UNMOVED: f64 = 1.08;
/// Least share of the bytes that the server did not serve, where a cache answers.
const ANSWERED: f64 = 0.85;
/// Largest such share where none does.
const PASSED_ON: f64 = 0.02;
/// Name of the file under load.
pub(super) const FILE_NAME: &str = "load";
/// Bytes of the file under load.
const FILE_BYTES: u64 = 64 << 20;
/// Time after a change in which operations of the state before it end. Limits of the kernel hold for tenths of a second.
const SETTLING: Duration = Duration::from_millis(300);
/// Time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// Time between two readings of a rate.
const READING: Duration = Duration::from_millis(10);

/// Answer about one load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Truth {
    /// The bottleneck; `None` if the changes do not show exactly one.
    pub part: Option<Part>,
    /// Gain of the rate by each relief.
    pub gains: Vec<(Part, f64)>,
    /// Rate without any.
    pub ops_per_second: f64,
    /// True if a cache above the server answers, false if none does; `None` if it answers a part.
    pub is_answered: Option<bool>,
}

impl Truth {
    /// Returns true if a cache answers, false if the server does.
    pub(super) fn answered(requested_bytes: u64, served_bytes: u64) -> Option<bool> {
        let share = 1.0 - served_bytes as f64 / requested_bytes.max(1) as f64;
        match share {
            _ if share >= ANSWERED => Some(true),
            // What was in flight at the ends is served and not counted, or counted and not served.
            _ if share <= PASSED_ON => Some(false),
            _ => None,
        }
    }
}

/// Finds the bottleneck of a load.
///
/// # Errors
/// The load cannot be made, or the stack cannot be changed.
pub(super) fn find(rigs: &mut Rigs, stack: &Stack, load: Load) -> Result<Truth> {
    let mut driver = Driver::start(&rigs.path().join(FILE_NAME), load, stack.state)?;
    driver.settle();
    // Nothing else has a cache that answers.
    let mut is_answered = Some(false);
    if stack.has_log() || stack.is_cached_disk() {
        rigs.take_served_bytes(load.is_read)?;
        let before = driver.operations();
        driver.rate();
        let requested_bytes = (driver.operations() - before) * load.block_bytes;
        is_answered = Truth::answered(requested_bytes, rigs.take_served_bytes(load.is_read)?);
    }
    let reliefs = stack.reliefs();
    let mut rates = vec![driver.rate()];
    let mut gains = Vec::new();
    // The rates before and after each pair: the machine drifts.
    for pair in reliefs.chunks(2) {
        let mut relieved = Vec::new();
        for (part, relief) in pair {
            rigs.change(relief, true)?;
            driver.settle();
            relieved.push((*part, driver.rate()));
            rigs.change(relief, false)?;
        }
        driver.settle();
        rates.push(driver.rate());
        let [.., before, after] = rates[..] else { continue };
        gains.extend(relieved.into_iter().map(|(part, rate)| (part, rate / ((before + after) / 2.0))));
    }
    driver.end()?;
    let part = bottleneck(&gains, stack.answering().filter(|_| is_answered == Some(true)));
    Ok(Truth { part, gains, ops_per_second: rates.iter().sum::<f64>() / rates.len() as f64, is_answered })
}

/// Returns the part whose relief raises the rate, if one does and the others do not move it. Without any, it is the part
/// that answers for all below it.
fn bottleneck(gains: &[(Part, f64)], answering: Option<Part>) -> Option<Part> {
    let is_clear = |gain: f64| gain >= RAISED || (1.0 / UNMOVED..=UNMOVED).contains(&gain);
    // Below a load of the CPUs, a relief may lower the rate, but not raise it.
    let is_by_cpus = |raised: &[Part]| match raised {
        [] => answering,
        [part @ (Part::Hogs | Part::Quota)] => Some(*part),
        _ => None,
    };
    let raised: Vec<_> = gains.iter().filter(|(_, gain)| *gain >= RAISED).map(|(part, _)| *part).collect();
    let is_below_or_clear = |gain: f64| gain < 1.0 / UNMOVED || is_clear(gain);
    if let Some(part) = is_by_cpus(&raised) {
        return gains.iter().all(|(_, gain)| is_below_or_clear(*gain)).then_some(part);
    }
    if !gains.iter().all(|(_, gain)| is_clear(*gain)) {
        return None;
    }
    match raised[..] {
        [part] => Some(part),
        // A shorter service also makes room in a server that is full, and in a queue that is.
        [part @ (Part::Places | Part::LowerPlaces), Part::Service | Part::LowerService]
        | [Part::Service | Part::LowerService, part @ (Part::Window | Part::LowerWindow)] => Some(part),
        _ => None,
    }
}

/// Threads that load a file.
struct Driver {
    operations: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Driver {
    fn start(path: &Path, load: Load, state: FileState) -> Result<Self> {
        let fail = || format!("load {}", path.display());
        if !path.exists() {
            make_file(path, state).with_context(fail)?;
        }
        let (operations, is_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut driver = Self { operations, is_ended, threads: Vec::new() };
        for number in 0..load.in_flight() {
            let mut options = OpenOptions::new();
            options.read(true).write(!load.is_read).custom_flags(OFlags::DIRECT.bits() as i32);
            let file = options.open(path).with_context(fail)?;
            let (operations, is_ended) = (Arc::clone(&driver.operations), Arc::clone(&driver.is_ended));
            driver.threads.push(thread::spawn(move || drive(&file, load, number, &operations, &is_ended)));
        }
        Ok(driver)
    }

    /// Waits until operations of an earlier state have ended.
    fn settle(&self) {
        thread::sleep(SETTLING);
    }

    /// Operations so far.
    fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Returns the operations a second. It is the slope of a line through all readings: limits let pass a tenth of a
    /// second's operations at once.
    fn rate(&self) -> f64 {
        let start = Instant::now();
        let mut readings = Vec::new();
        while start.elapsed() < WINDOW {
            readings.push((start.elapsed().as_secs_f64(), self.operations() as f64));
            thread::sleep(READING);
        }
        slope(&readings)
    }

    /// Ends it.
    ///
    /// # Errors
    /// An operation failed.
    fn end(&mut self) -> Result<()> {
        self.is_ended.store(true, Ordering::Relaxed);
        // All are joined first: one that still runs keeps the file open.
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        ended
            .into_iter()
            .try_for_each(|end| end.map_err(|_| Error::msg("a thread panicked"))?.context("load a file"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Makes the file under load.
///
/// # Errors
/// It cannot be written.
pub(super) fn make_file(path: &Path, state: FileState) -> io::Result<()> {
    let mut file = File::create(path)?;
    match state {
        FileState::Written => {
            let block = vec![1; 1 << 20];
            (0..FILE_BYTES >> 20).try_for_each(|_| file.write_all(&block))?;
        }
        FileState::Hole => file.set_len(FILE_BYTES)?,
        FileState::Unwritten => fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?,
    }
    // Another user may read it.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.sync_all()
}

/// Returns the slope of the straight line with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), (x, y)| {
        (above + (x - mean_x) * (y - mean_y), below + (x - mean_x).powi(2))
    });
    above / below
}

fn drive(
    file: &File,
    load: Load,
    number: u32,
    operations: &AtomicU64,
    is_ended: &AtomicBool,
) -> io::Result<()> {
    let block_bytes = load.block_bytes as usize;
    let mut memory = AlignedBuffer::new(block_bytes);
    let block = memory.bytes_mut();
    block.fill(number as u8);
    let mut random = fastrand::Rng::with_seed(number.into());
    while !is_ended.load(Ordering::Relaxed) {
        let offset_bytes = random.u64(..FILE_BYTES / load.block_bytes) * load.block_bytes;
        if load.is_read {
            file.read_exact_at(block, offset_bytes)?;
        } else {
            file.write_all_at(block, offset_bytes)?;
        }
        operations.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Part::{Cache, Cap, Hogs, LowerPlaces, LowerService, Places, Service, Window};
    use super::*;

    #[test]
    fn bottleneck_is_the_one_relief_that_raises_the_rate() {
        let of = |gains: &[(Part, f64)]| bottleneck(gains, None);
        assert_eq!(of(&[(Places, 1.0), (Service, 1.02), (Cap, 1.9)]), Some(Cap));
        assert_eq!(of(&[(Places, 2.0), (Service, 1.9), (Cap, 1.0)]), Some(Places));
        assert_eq!(of(&[(LowerPlaces, 2.0), (LowerService, 1.9)]), Some(LowerPlaces));
        assert_eq!(of(&[(Places, 1.0), (LowerService, 1.9), (Window, 1.7)]), Some(Window));
        assert_eq!(of(&[(Places, 1.0), (Service, 1.9)]), Some(Service));
    }

    #[test]
    fn bottleneck_is_unsure_between_thresholds() {
        let of = |gains: &[(Part, f64)]| bottleneck(gains, None);
        assert_eq!(of(&[(Places, 1.15), (Service, 1.9)]), None);
        assert_eq!(of(&[(Cap, 1.5), (Hogs, 1.5)]), None);
        assert_eq!(of(&[(Places, 1.0), (Service, 1.0)]), None);
        assert_eq!(of(&[(Places, 1.0), (Service, f64::NAN)]), None);
    }

    #[test]
    fn cache_is_the_bottleneck_where_no_relief_helps() {
        assert_eq!(bottleneck(&[(Cap, 0.9)], Some(Cache)), Some(Cache));
        assert_eq!(bottleneck(&[(Cap, 1.9)], Some(Cache)), Some(Cap));
        assert_eq!(bottleneck(&[(Cap, 0.8), (Hogs, 1.9)], Some(Cache)), Some(Hogs));
    }

    #[test]
    fn slope_of_a_staircase_is_its_mean_rise() {
        let points: Vec<_> =
            (0..100).map(|step| (f64::from(step) / 100.0, f64::from(step / 10 * 10))).collect();
        assert!((slope(&points) / 100.0 - 1.0).abs() < 0.02);
    }
}
