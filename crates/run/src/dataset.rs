//! The files that data tests work on: fully written before anything is measured.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::buffer::AlignedBuffer;
use engine::clock::{Clock, Monotonic};
use engine::data::{self, Stamp};
use model::Trouble;
use model::marker::NameRule;
use model::plan::{DATASET_BYTES_MIN, Dataset};
use model::size;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::WorkDirectory;
use crate::patience;

/// Hexadecimal digits in the names of data files.
const DIGITS: usize = 4;
/// Bytes of one write while files are laid out.
const CHUNK_BYTES: u64 = 1 << 20;
/// Files are made durable piece by piece while they are laid out: dirty pages never fill the memory, and even a
/// memory card at 5 MB/s shows progress every few seconds.
const DURABLE_EVERY_BYTES: u64 = 32 << 20;
/// Seconds of I/O that a data set should hold at the rate at which it could be laid out.
const SECONDS_OF_IO: f64 = 4.0;
/// Longest time that calibration writes before it decides.
const CALIBRATION_NS: u64 = 5_000_000_000;
/// The shared file's number in stamps, far from those of the separate files.
const SHARED_NUMBER: u32 = 1 << 16;

/// The names that data files may have.
pub fn rules(plan: &Dataset) -> Vec<NameRule> {
    let separate = NameRule::files("data-", DIGITS, u64::from(plan.separate_files));
    let shared = NameRule::files("shared-", DIGITS, u64::from(plan.shared_file));
    vec![separate, shared]
}

/// Files of equal size, numbered on from `first_number`.
#[derive(Debug, Clone)]
pub struct FileGroup {
    prefix: &'static str,
    /// How many there are.
    pub files: u32,
    /// Bytes of each.
    pub file_bytes: u64,
    /// Number of the first one in stamps.
    pub first_number: u32,
}

impl FileGroup {
    /// Name of a file of the group.
    pub fn name(&self, index: u64) -> String {
        format!("{}{index:0DIGITS$x}", self.prefix)
    }

    /// Bytes of all of them.
    pub fn size_bytes(&self) -> u64 {
        self.file_bytes * u64::from(self.files)
    }

    /// Opens them all; `path` is the directory's, for messages.
    ///
    /// # Errors
    /// The path, and why; with a remedy where direct I/O is refused.
    pub fn open(
        &self,
        directory: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
    ) -> Result<Arc<[OwnedFd]>, Trouble> {
        let open = |index| {
            let name = self.name(index);
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(directory, name.as_str(), flags, Mode::empty()).map_err(|errno| {
                let direct = flags.contains(OFlags::DIRECT);
                let how = if direct { " for direct I/O" } else { "" };
                let attempt = format!("open {}{how}", path.join(name).display());
                let trouble = Trouble::new(attempt, std::io::Error::from(errno));
                match errno {
                    Errno::INVAL if direct => trouble.remedy(
                        "this file system refuses O_DIRECT: add :buffered to the test, or --buffered",
                    ),
                    Errno::MFILE => trouble.remedy("raise the limit of open files (ulimit -n)"),
                    _ => trouble,
                }
            })
        };
        (0..u64::from(self.files)).map(open).collect()
    }
}

/// The data set of a repetition.
#[derive(Debug)]
pub struct DataSet {
    /// Files that threads have for themselves.
    pub separate: FileGroup,
    /// One file for all threads; the only separate one where there is just one.
    pub shared: FileGroup,
    /// How many tests have written it since it was laid out.
    pub generation: u32,
}

/// How far a layout is, for the live view.
#[derive(Debug, Default)]
pub struct LayoutProgress {
    /// Bytes written so far.
    pub bytes: Arc<AtomicU64>,
}

impl DataSet {
    /// Lays out the files of a plan. Where no size was asked for, the rate of the first part decides it.
    ///
    /// # Errors
    /// A write that failed or hangs, `stop` was raised, or `deadline_ns` came first.
    pub fn lay_out(
        directory: &WorkDirectory,
        plan: &Dataset,
        seed: u64,
        stop: &Arc<AtomicBool>,
        deadline_ns: u64,
        progress: &LayoutProgress,
    ) -> Result<Self, Trouble> {
        let attempt = format!("lay out the data set in {}", directory.path().display());
        let descriptor = directory.descriptor().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| Trouble::new(&attempt, error))?;
        let task = Layout {
            plan: plan.clone(),
            seed,
            stop: Arc::clone(stop),
            bytes: Arc::clone(&progress.bytes),
            attempt: attempt.clone(),
            deadline_ns,
        };
        // In a thread of its own: a device that hangs must not keep us from saying so.
        patience::wait_while_it_moves(
            &attempt,
            || progress.bytes.load(Ordering::Relaxed),
            move || task.run(descriptor.as_fd()),
        )?
    }
}

struct Layout {
    plan: Dataset,
    seed: u64,
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    attempt: String,
    deadline_ns: u64,
}

impl Layout {
    fn run(&self, directory: BorrowedFd<'_>) -> Result<DataSet, Trouble> {
        let plan = &self.plan;
        let mut size_bytes = plan.size_bytes_max;
        let mut group = |prefix, files: u32, first_number, calibrates: bool| -> Result<FileGroup, Trouble> {
            let mut writer = None;
            for file in 0..files {
                let per_file =
                    |size_bytes: u64| size_bytes / u64::from(files) / plan.unit_bytes * plan.unit_bytes;
                let name = format!("{prefix}{file:0DIGITS$x}");
                let mut current = Writer::create(directory, &name, first_number + file, self)?;
                if calibrates && file == 0 && !plan.size_is_fixed {
                    let needed = per_file(plan.size_bytes_min).max(plan.unit_bytes);
                    let wished = per_file(DATASET_BYTES_MIN.min(size_bytes)).max(needed);
                    let start_ns = Monotonic.now_ns();
                    current.write_for(needed, wished, start_ns.saturating_add(CALIBRATION_NS))?;
                    current.make_durable()?;
                    let seconds = (Monotonic.now_ns() - start_ns) as f64 / 1e9;
                    let bytes_per_second = current.written_bytes as f64 / seconds;
                    let unit = plan.unit_bytes * u64::from(files);
                    let least = current.written_bytes.next_multiple_of(plan.unit_bytes) * u64::from(files);
                    let wished = (bytes_per_second * SECONDS_OF_IO) as u64;
                    size_bytes =
                        wished.max(least).max(plan.size_bytes_min).min(size_bytes).max(unit) / unit * unit;
                    log::debug!(
                        "calibrated at {} a second: {}",
                        size::decimal(bytes_per_second as u64),
                        size::binary(size_bytes)
                    );
                }
                current.write_until(per_file(size_bytes))?;
                current.make_durable()?;
                writer = Some(current);
            }
            let file_bytes = writer.map_or(0, |writer| writer.written_bytes);
            Ok(FileGroup { prefix, files, file_bytes, first_number })
        };
        let separate = group("data-", plan.separate_files, 0, true)?;
        let shared = if plan.shared_file {
            group("shared-", 1, SHARED_NUMBER, plan.separate_files == 0)?
        } else {
            separate.clone()
        };
        Ok(DataSet { separate, shared, generation: 0 })
    }

    fn fail(&self, name: &str, errno: Errno) -> Trouble {
        let trouble = Trouble::new(&self.attempt, format!("{name}: {}", std::io::Error::from(errno)));
        match errno {
            Errno::NOSPC | Errno::DQUOT => trouble.remedy("make room, or ask for a smaller --size"),
            Errno::IO => trouble.remedy("the device failed; look at the kernel's log"),
            _ => trouble,
        }
    }
}

/// Writes one file from its beginning, through the page cache: that works on every file system, and delayed
/// allocation gives large extents.
struct Writer<'a> {
    layout: &'a Layout,
    name: String,
    number: u32,
    file: OwnedFd,
    pool: AlignedBuffer,
    written_bytes: u64,
    durable_bytes: u64,
}

impl<'a> Writer<'a> {
    fn create(
        directory: BorrowedFd<'_>,
        name: &str,
        number: u32,
        layout: &'a Layout,
    ) -> Result<Self, Trouble> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| layout.fail(name, errno))?;
        let mut pool = AlignedBuffer::new(CHUNK_BYTES as usize);
        data::fill(&mut pool, layout.seed);
        Ok(Self { layout, name: name.into(), number, file, pool, written_bytes: 0, durable_bytes: 0 })
    }

    fn write_until(&mut self, end_bytes: u64) -> Result<(), Trouble> {
        self.write_for(end_bytes, end_bytes, u64::MAX)
    }

    /// Writes at least `needed_bytes`, and up to `wished_bytes` as long as `until_ns` has not come.
    fn write_for(&mut self, needed_bytes: u64, wished_bytes: u64, until_ns: u64) -> Result<(), Trouble> {
        let end_bytes = wished_bytes;
        while self.written_bytes < end_bytes {
            let now_ns = Monotonic.now_ns();
            if self.written_bytes >= needed_bytes && now_ns >= until_ns {
                return Ok(());
            }
            if now_ns >= self.layout.deadline_ns {
                let cause = "the run's total time is used up before the data set is written";
                return Err(Trouble::new(&self.layout.attempt, cause)
                    .remedy("ask for a smaller --size, or a longer --time"));
            }
            if self.layout.stop.load(Ordering::Relaxed) {
                return Err(Trouble::new(&self.layout.attempt, "interrupted"));
            }
            let len = CHUNK_BYTES.min(end_bytes - self.written_bytes) as usize;
            let block = &mut self.pool.bytes_mut()[..len];
            let offset_bytes = self.written_bytes;
            data::stamp(
                block,
                Stamp { seed: self.layout.seed, file: self.number, generation: 0, offset_bytes },
            );
            let written = match rustix::io::pwrite(&self.file, &block[..len], offset_bytes) {
                Err(Errno::INTR) => 0,
                written => written.map_err(|errno| self.layout.fail(&self.name, errno))?,
            };
            self.written_bytes += written as u64;
            self.layout.bytes.fetch_add(written as u64, Ordering::Relaxed);
            if self.written_bytes - self.durable_bytes >= DURABLE_EVERY_BYTES {
                self.make_durable()?;
            }
        }
        Ok(())
    }

    fn make_durable(&mut self) -> Result<(), Trouble> {
        rustix::fs::fdatasync(&self.file).map_err(|errno| self.layout.fail(&self.name, errno))?;
        // Advice only: a file system that does not take it keeps its pages.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        self.durable_bytes = self.written_bytes;
        Ok(())
    }
}
