//! The true bottleneck of a built stack, found by changing it: the part whose relief raises the rate, while that of any
//! other does not.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::OFlags;

use super::grammar::{Load, Part, Stack};
use super::rigs::Rigs;

/// Least gain of a relief that shows a bottleneck.
const RAISED: f64 = 1.25;
/// Largest gain of a relief that shows none, and the inverse of the smallest.
const UNMOVED: f64 = 1.08;
/// Bytes of the file under load.
const FILE_BYTES: u64 = 64 << 20;
/// Alignment of direct I/O on any device.
const ALIGNMENT_BYTES: usize = 4096;
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
}

/// Finds the bottleneck of a load.
///
/// # Errors
/// The load cannot be made, or the stack cannot be changed.
pub(super) fn find(rigs: &mut Rigs, stack: &Stack, load: Load) -> Result<Truth> {
    let driver = Driver::start(&rigs.path().join("load"), load)?;
    let mut rates = vec![driver.rate()];
    let mut gains = Vec::new();
    for (part, relief) in stack.reliefs() {
        rigs.relieve(&relief)?;
        let relieved = driver.rate();
        rigs.restore(&relief)?;
        rates.push(driver.rate());
        // The rates before and after it: the machine drifts.
        let [.., before, after] = rates[..] else { continue };
        gains.push((part, relieved / ((before + after) / 2.0)));
    }
    let part = bottleneck(&gains);
    Ok(Truth { part, gains, ops_per_second: rates.iter().sum::<f64>() / rates.len() as f64 })
}

/// Returns the part whose relief raises the rate, if one does and the others do not move it.
fn bottleneck(gains: &[(Part, f64)]) -> Option<Part> {
    let is_clear = |gain: f64| gain >= RAISED || (1.0 / UNMOVED..=UNMOVED).contains(&gain);
    if !gains.iter().all(|(_, gain)| is_clear(*gain)) {
        return None;
    }
    let raised: Vec<_> = gains.iter().filter(|(_, gain)| *gain >= RAISED).map(|(part, _)| *part).collect();
    match raised[..] {
        [part] => Some(part),
        // A shorter service also makes room in a server that is full, and in a queue that is.
        [Part::Places, Part::Service] => Some(Part::Places),
        [Part::Service, Part::Window] => Some(Part::Window),
        _ => None,
    }
}

/// Threads that load a file.
struct Driver {
    operations: Arc<AtomicU64>,
    is_ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Driver {
    fn start(path: &Path, load: Load) -> Result<Self> {
        let fail = || format!("load {}", path.display());
        if !path.exists() {
            let mut file = File::create(path).with_context(fail)?;
            let block = vec![1; 1 << 20];
            (0..FILE_BYTES >> 20).try_for_each(|_| file.write_all(&block)).with_context(fail)?;
            file.sync_all().with_context(fail)?;
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

    /// Returns the operations a second, once those of an earlier state have ended. It is the slope of a line through all
    /// readings: limits let pass a tenth of a second's operations at once.
    fn rate(&self) -> f64 {
        thread::sleep(SETTLING);
        let start = Instant::now();
        let mut readings = Vec::new();
        while start.elapsed() < WINDOW {
            readings.push((start.elapsed().as_secs_f64(), self.operations.load(Ordering::Relaxed) as f64));
            thread::sleep(READING);
        }
        slope(&readings)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
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

fn drive(file: &File, load: Load, number: u32, operations: &AtomicU64, is_ended: &AtomicBool) {
    let block_bytes = load.block_bytes as usize;
    let mut memory = vec![number as u8; block_bytes + ALIGNMENT_BYTES];
    let at = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
    let Some(block) = memory.get_mut(at..at + block_bytes) else { return };
    let mut random = fastrand::Rng::with_seed(number.into());
    while !is_ended.load(Ordering::Relaxed) {
        let offset_bytes = random.u64(..FILE_BYTES / load.block_bytes) * load.block_bytes;
        let done = if load.is_read {
            file.read_exact_at(block, offset_bytes)
        } else {
            file.write_all_at(block, offset_bytes)
        };
        if done.is_err() {
            return;
        }
        operations.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Part::{Cap, Hogs, Places, Service, Window};
    use super::*;

    #[test]
    fn bottleneck_is_the_one_relief_that_raises_the_rate() {
        assert_eq!(bottleneck(&[(Places, 1.0), (Service, 1.02), (Cap, 1.9)]), Some(Cap));
        assert_eq!(bottleneck(&[(Places, 2.0), (Service, 1.9), (Cap, 1.0)]), Some(Places));
        assert_eq!(bottleneck(&[(Places, 1.0), (Service, 1.9), (Window, 1.7)]), Some(Window));
        assert_eq!(bottleneck(&[(Places, 1.0), (Service, 1.9)]), Some(Service));
    }

    #[test]
    fn bottleneck_is_unsure_between_thresholds() {
        assert_eq!(bottleneck(&[(Places, 1.15), (Service, 1.9)]), None);
        assert_eq!(bottleneck(&[(Cap, 1.5), (Hogs, 1.5)]), None);
        assert_eq!(bottleneck(&[(Places, 1.0), (Service, 1.0)]), None);
        assert_eq!(bottleneck(&[(Places, 1.0), (Service, f64::NAN)]), None);
    }

    #[test]
    fn slope_of_a_staircase_is_its_mean_rise() {
        let points: Vec<_> =
            (0..100).map(|step| (f64::from(step) / 100.0, f64::from(step / 10 * 10))).collect();
        assert!((slope(&points) / 100.0 - 1.0).abs() < 0.02);
    }
}
