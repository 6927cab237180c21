//! Files that data tests work on, or a device that stands for one. All are fully written before anything is measured,
//! except those that a test makes.
//!
//! Calibration sizes the set by the speed of the target. It writes at least one block for each operation in flight, and
//! apart from that for at most five seconds.

mod spread;
mod support;

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::budget::Budget;
use engine::clock::{Clock, Monotonic};
use engine::data::{self, Content, Pool, Stamp};
use model::UserError;
use model::marker::NamePattern;
use model::plan::{DATASET_BYTES_MIN, DataGroup, Dataset, power_of_two_within};
use model::size;
use observe::BlockDevice;
use rustix::fs::{Advice, FileType, Mode, OFlags};
use rustix::io::Errno;

pub use self::support::check_calls;
use crate::data_location::DataLocation;
use crate::hang_detection;
use crate::meter::Meter;
use crate::room::RoomWatch;

/// Hexadecimal digits in the names of data files.
const DIGITS: usize = 4;
/// Size of one write during the layout.
const CHUNK_BYTES: u64 = 1 << 20;
/// Bytes after which the layout makes a file durable. So dirty pages never fill the memory, and even a memory
/// card at 5 MB/s shows progress every few seconds.
const DURABLE_EVERY_BYTES: u64 = 32 << 20;
/// Seconds of I/O that a data set should hold, at the rate of its layout.
const SECONDS_OF_IO: f64 = 4.0;
/// Longest time that calibration writes before it decides.
const CALIBRATION_NS: u64 = 5_000_000_000;
/// File numbers in stamps that are reserved for each group.
const NUMBERS_PER_GROUP: u32 = 1 << 16;

/// Returns the names that data files may have.
pub fn rules(plan: &Dataset) -> Vec<NamePattern> {
    let rule = |(index, group): (usize, &DataGroup)| {
        NamePattern::files(prefix(index, group), DIGITS, u64::from(group.files))
    };
    plan.groups.iter().enumerate().map(rule).collect()
}

/// Returns the prefix of a group's file names: "data-" or "shared-". All groups but the first have two
/// letters more.
fn prefix(index: usize, group: &DataGroup) -> String {
    let kind = if group.is_shared { "shared" } else { "data" };
    let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
    match index.checked_sub(1) {
        None => format!("{kind}-"),
        Some(index) => format!("{kind}-{}{}-", letter(index / 26), letter(index)),
    }
}

/// Progress of writing a group's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillProgress {
    /// The files are whole.
    Whole,
    /// The files were made empty, for the test that will write them.
    NotStarted,
    /// The test that writes the files has begun but did not finish.
    Unfinished,
    /// A test has discarded blocks. They hold nothing that was written.
    Discarded,
}

/// Origin of a group's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The run makes them in its work directory, and removes them.
    Made,
    /// An existing file or device, which is only read. Its content is unknown.
    Read,
    /// An existing device, whose content is lost.
    ErasedDevice,
}

/// Files of equal size and the same kind of content, with consecutive numbers from `first_number`.
#[derive(Debug, Clone)]
pub struct FileGroup {
    /// Beginning of the names of the files; the whole name of an existing file or device.
    prefix: String,
    /// Origin of the files.
    pub origin: Origin,
    /// Number of files.
    pub files: u32,
    /// Offset of this client's part in each file, which is all of it unless clients share the file.
    pub first_bytes: u64,
    /// Turn of this client's blocks among those of the other clients; `None` if it has a separate part.
    pub turns: Option<Turns>,
    /// Bytes of that part, once it is written.
    pub file_bytes: u64,
    /// Progress of writing the files.
    pub filled: FillProgress,
    /// Number of the first file in stamps.
    pub first_number: u32,
    /// Content of the files.
    pub content: Content,
    /// Number of tests that have written the files since the layout.
    pub generation: u32,
    /// Last generation that wrote every block; no block is older.
    pub whole_generation: u32,
    /// True if a test failed while it wrote. It may have left a block half written, or may still be writing.
    /// Until all blocks are written again, a difference would prove nothing.
    pub is_torn: bool,
    /// True if a worker was left behind that may still write.
    pub has_stray: bool,
}

/// Order in which the blocks of all threads of all clients take turns in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// Number of this client, and the number of clients.
    pub client: u32,
    /// Clients that take turns.
    pub clients: u32,
}

impl FileGroup {
    /// Returns a group of whole files that no test has written yet.
    fn new(prefix: String, files: u32, file_bytes: u64, content: Content) -> Self {
        Self {
            prefix,
            origin: Origin::Made,
            files,
            first_bytes: 0,
            turns: None,
            file_bytes,
            filled: FillProgress::Whole,
            first_number: 0,
            content,
            generation: 0,
            whole_generation: 0,
            is_torn: false,
            has_stray: false,
        }
    }

    /// Returns the name of a file of the group.
    pub fn name(&self, index: u64) -> String {
        match self.origin {
            Origin::Made => format!("{}{index:0DIGITS$x}", self.prefix),
            Origin::Read | Origin::ErasedDevice => self.prefix.clone(),
        }
    }

    /// Returns this client's part of each file. Where blocks take turns, that is the file.
    pub fn part(&self) -> Range<u64> {
        let clients = self.turns.map_or(1, |turns| u64::from(turns.clients));
        self.first_bytes..self.first_bytes + self.file_bytes * clients
    }

    /// Returns the total bytes of the files.
    pub fn size_bytes(&self) -> u64 {
        self.file_bytes * u64::from(self.files)
    }

    /// Opens one of the files; `path` is the directory's, for messages. An erased device is its own directory: it is
    /// reopened through the descriptor that holds it.
    ///
    /// # Errors
    /// Returns the path and the cause, with a remedy if direct I/O is refused.
    pub fn open_file(
        &self,
        directory: BorrowedFd<'_>,
        path: &Path,
        index: u64,
        flags: OFlags,
    ) -> Result<OwnedFd, UserError> {
        let name = self.name(index);
        let opened = match self.origin {
            Origin::Made => open_at(directory, &name, flags),
            // A file that is not ours is never opened for writing, whatever a plan says.
            Origin::Read => open_at(directory, &name, flags.difference(OFlags::RWMODE | OFlags::TRUNC)),
            Origin::ErasedDevice => open_again(directory, flags),
        };
        opened.map_err(|errno| {
            let direct = flags.contains(OFlags::DIRECT);
            let how = if direct { " for direct I/O" } else { "" };
            let action = format!("open {}{how}", path.join(name).display());
            let error = UserError::new(action, std::io::Error::from(errno));
            match errno {
                Errno::INVAL if direct => error.help(
                    "add :buffered to the test, or --buffered: this file system does not support O_DIRECT",
                ),
                Errno::MFILE => error.help("raise the limit of open files (ulimit -n)"),
                Errno::NXIO if self.origin == Origin::ErasedDevice => {
                    error.help("the device disappeared or changed its size; check the kernel log")
                }
                _ => error,
            }
        })
    }

    /// Writes the files again from their beginning to their end, as a test has discarded parts of them.
    ///
    /// # Errors
    /// Fails if a write fails or hangs, if `stop` is raised, or if `deadline_ns` comes first.
    pub fn refill(
        &mut self,
        directory: &DataLocation,
        stop: &Arc<AtomicBool>,
        budget: &Arc<Budget>,
        deadline_ns: u64,
        meter: &mut Meter,
    ) -> Result<(), UserError> {
        let action = format!("rewrite the discarded data in {}", directory.path().display());
        let descriptor = directory.descriptor().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| UserError::new(&action, error))?;
        let written = Arc::new(AtomicU64::new(0));
        let writing = Writing {
            stop: Arc::clone(stop),
            bytes: Arc::clone(&written),
            budget: Arc::clone(budget),
            room: meter.room().cloned().inspect(RoomWatch::reset),
            action: action.clone(),
            path: directory.path().to_owned(),
            is_given_up: Arc::default(),
            deadline_ns,
        };
        let (is_given_up, group) = (Arc::clone(&writing.is_given_up), self.clone());
        let mut activity = meter.activity();
        hang_detection::wait_with_progress(
            &action,
            || written.load(Ordering::Relaxed).wrapping_add(activity()),
            move || {
                (0..group.files).try_for_each(|index| {
                    let file =
                        group.open_file(descriptor.as_fd(), &writing.path, index.into(), OFlags::WRONLY)?;
                    let (name, number) = (group.name(index.into()), group.first_number + index);
                    let mut writer = Writer::new(file, name, number, group.content, &writing);
                    writer.generation = group.generation;
                    writer.first_bytes = group.first_bytes;
                    writer.write_until(group.file_bytes)?;
                    writer.make_durable()
                })
            },
        )
        .inspect_err(|_| is_given_up.store(true, Ordering::Relaxed))??;
        self.filled = FillProgress::Whole;
        self.whole_generation = self.generation;
        self.is_torn = self.has_stray;
        Ok(())
    }

    /// Opens all files; `path` is the directory's, for messages.
    ///
    /// # Errors
    /// Returns the path and the cause, with a remedy if direct I/O is refused.
    pub fn open(
        &self,
        directory: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
    ) -> Result<Arc<[OwnedFd]>, UserError> {
        (0..u64::from(self.files)).map(|index| self.open_file(directory, path, index, flags)).collect()
    }
}

fn open_at(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Reopens a device. The link in `/proc` leads to the very node that was opened, wherever its path leads by now.
fn open_again(device: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", device.as_raw_fd());
    let flags = flags.difference(OFlags::TRUNC | OFlags::CREATE) | OFlags::CLOEXEC;
    let opened = rustix::fs::open(link, flags, Mode::empty())?;
    let identity = |device: BorrowedFd<'_>| {
        BlockDevice::from_fd(device).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NXIO))
    };
    // The node is only a pair of numbers, and another disk may have got them.
    if identity(device)? == identity(opened.as_fd())? { Ok(opened) } else { Err(Errno::NXIO) }
}

/// The data set of a repetition.
#[derive(Debug)]
pub struct DataSet {
    /// Groups of files by content and by sharing between threads, as in the plan.
    pub groups: Vec<FileGroup>,
    /// Bytes of each group; without files, the bytes that the test pretends to use.
    pub size_bytes: u64,
    /// True if the file system refuses direct I/O, so that direct tests open their files without `O_DIRECT`.
    pub refuses_direct: bool,
}

/// Progress of a layout, for the live view.
#[derive(Debug, Default)]
pub struct LayoutProgress {
    /// Bytes written so far.
    pub bytes: Arc<AtomicU64>,
}

impl DataSet {
    /// Lays out the files of a plan, or the beginning of an erased device. If the user gave no size, the rate of the first
    /// part decides it. A file or device that is only read is taken as it is.
    ///
    /// # Errors
    /// Fails if a write fails or hangs, if `stop` is raised, or if `deadline_ns` comes first.
    pub fn lay_out(
        directory: &DataLocation,
        plan: &Dataset,
        owner: &Owner<'_>,
        stop: &Arc<AtomicBool>,
        deadline_ns: u64,
        progress: &LayoutProgress,
        mut activity: impl FnMut() -> u64,
    ) -> Result<Self, UserError> {
        let device = match directory.existing() {
            Some((name, Origin::Read)) => return Ok(Self::existing(plan, name)),
            Some((name, _)) => Some(name.to_owned()),
            None => None,
        };
        let action = format!("lay out the data set in {}", directory.path().display());
        let descriptor = directory.descriptor().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| UserError::new(&action, error))?;
        let writing = Writing {
            stop: Arc::clone(stop),
            bytes: Arc::clone(&progress.bytes),
            budget: Arc::clone(owner.budget),
            room: owner.room.clone().inspect(RoomWatch::reset),
            action: action.clone(),
            path: directory.path().to_owned(),
            is_given_up: Arc::default(),
            deadline_ns,
        };
        let is_given_up = Arc::clone(&writing.is_given_up);
        let first = owner.first.map(|first| first.descriptor().try_clone_to_owned()).transpose();
        let first = first.map_err(|error| UserError::new(&action, error))?;
        let task = Layout {
            plan: plan.clone(),
            number: owner.number,
            clients: owner.clients,
            first,
            device,
            seed: owner.seed,
            writing,
        };
        // The layout has a thread of its own: a device that hangs must not keep us from reporting it.
        hang_detection::wait_with_progress(
            &action,
            || progress.bytes.load(Ordering::Relaxed).wrapping_add(activity()),
            move || task.run(descriptor.as_fd()),
        )
        .inspect_err(|_| is_given_up.store(true, Ordering::Relaxed))?
    }

    /// Returns the data set of another client with the same plan, whose data has that seed. How far it has come is known
    /// only if it `is_sound`. Its place in files of all clients is that of its number.
    pub fn for_client(&self, plan: &Dataset, number: u32, seed: u64, is_sound: bool) -> Self {
        let for_client = |(index, group): (usize, &FileGroup)| FileGroup {
            content: Content { seed, ..group.content },
            first_bytes: first_bytes(plan, index, number, group.file_bytes),
            turns: group.turns.map(|turns| Turns { client: number, ..turns }),
            // It may have ended a test after fewer blocks than this client.
            whole_generation: 0,
            is_torn: group.is_torn || !is_sound,
            ..group.clone()
        };
        Self { groups: self.groups.iter().enumerate().map(for_client).collect(), ..*self }
    }

    /// Returns the data set of a file or device that is only read.
    fn existing(plan: &Dataset, name: &str) -> Self {
        let content = Content {
            seed: 0,
            interval_bytes: plan.stamp_interval_bytes as usize,
            compress_percent: 0,
            dedupe_percent: 0,
        };
        let group = FileGroup::new(name.to_owned(), 1, plan.size_bytes_max, content);
        Self {
            groups: vec![FileGroup { origin: Origin::Read, ..group }],
            size_bytes: plan.size_bytes_max,
            refuses_direct: false,
        }
    }
}

/// Returns the offset of a client's part of `file_bytes` in a file of a group.
fn first_bytes(plan: &Dataset, group: usize, number: u32, file_bytes: u64) -> u64 {
    let takes_turns = plan.groups.get(group).is_some_and(|group| group.interleaved_bytes.is_some());
    if plan.uses_files_of_all_clients(group) && !takes_turns {
        u64::from(number).saturating_mul(file_bytes)
    } else {
        0
    }
}

/// Owner of the data: this process, or one of the clients that share files.
#[derive(Debug)]
pub struct Owner<'a> {
    /// Seed of its data.
    pub seed: u64,
    /// Number of the client.
    pub number: u32,
    /// Number of clients.
    pub clients: u32,
    /// Directory of the first client; `None` for the first itself.
    pub first: Option<&'a DataLocation>,
    /// Bytes that it may still write.
    pub budget: &'a Arc<Budget>,
    /// Watch over the free space.
    pub room: Option<RoomWatch>,
}

struct Layout {
    plan: Dataset,
    /// Number of the client and of all, and the directory of the first.
    number: u32,
    clients: u32,
    first: Option<OwnedFd>,
    /// Name of the device that is erased; none where files are made.
    device: Option<String>,
    seed: u64,
    writing: Writing,
}

/// Returns the error of work that would write more than the run may.
pub fn limit_reached(action: &str) -> UserError {
    UserError::new(action, "the run has reached its write limit")
}

/// State of writing files in a separate thread.
struct Writing {
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    budget: Arc<Budget>,
    room: Option<RoomWatch>,
    action: String,
    /// Path of the directory, for messages.
    path: PathBuf,
    /// Raised when no thread waits for it any more.
    is_given_up: Arc<AtomicBool>,
    deadline_ns: u64,
}

impl Layout {
    fn run(&self, directory: BorrowedFd<'_>) -> Result<DataSet, UserError> {
        let plan = &self.plan;
        let mut size_bytes = plan.size_bytes_max;
        let mut groups = Vec::with_capacity(plan.groups.len());
        for (index, group) in plan.groups.iter().enumerate() {
            let first_number = NUMBERS_PER_GROUP * index as u32;
            let content = Content {
                seed: self.seed,
                interval_bytes: plan.stamp_interval_of(group) as usize,
                compress_percent: group.compress_percent,
                dedupe_percent: group.dedupe_percent,
            };
            let file_bytes = plan.group_file_bytes(group, size_bytes);
            let (prefix, origin) = match &self.device {
                Some(name) => (name.clone(), Origin::ErasedDevice),
                None => (prefix(index, group), Origin::Made),
            };
            let new = FileGroup::new(prefix, group.files, file_bytes, content);
            let first_bytes = first_bytes(plan, index, self.number, file_bytes);
            let (client, clients) =
                if plan.is_shared_by_clients { (self.number, self.clients) } else { (0, 1) };
            let turns = group.interleaved_bytes.map(|_| Turns { client, clients });
            let mut laid_out = FileGroup { origin, first_number, first_bytes, turns, ..new };
            // The first client has made the files of all.
            let first = self.first.as_ref().filter(|_| plan.uses_files_of_all_clients(index));
            for file in 0..group.files {
                if self.writing.is_given_up.load(Ordering::Relaxed) {
                    return Err(UserError::new(&self.writing.action, "it took too long"));
                }
                let opened = match first {
                    Some(first) => self.open_shared(first.as_fd(), &laid_out, file)?,
                    None => self.open(directory, &laid_out, file)?,
                };
                if group.is_fresh {
                    laid_out.filled = FillProgress::NotStarted;
                    continue;
                }
                let name = laid_out.name(file.into());
                let grows = self.device.is_none() && !plan.uses_files_of_all_clients(index);
                let is_sized = grows && set_size(&opened, plan.group_file_bytes(group, size_bytes));
                let mut current = Writer::new(opened, name, first_number + file, content, &self.writing);
                current.first_bytes = first_bytes;
                // The very first file shows the speed of the target.
                if index == 0 && file == 0 && !plan.size_is_fixed {
                    size_bytes = self.write_what_fits(&mut current, group, size_bytes)?;
                }
                if let Some(spread) = plan.spread.filter(|_| grows) {
                    let end_bytes = plan.group_file_bytes(group, size_bytes);
                    match spread::spread(&current.file, current.written_bytes..end_bytes, spread) {
                        Ok(()) => log::debug!("{} is spread over {} places", current.name, spread.places),
                        Err(errno) => log::debug!("{} stays where it is: {errno}", current.name),
                    }
                }
                current.write_until(plan.group_file_bytes(group, size_bytes))?;
                if is_sized {
                    set_size(&current.file, current.written_bytes);
                }
                current.make_durable()?;
                laid_out.file_bytes = current.written_bytes;
            }
            groups.push(laid_out);
        }
        Ok(DataSet { groups, size_bytes, refuses_direct: false })
    }

    /// Writes the first part of a file. Returns the size of a data set that lasts some seconds at that rate.
    fn calibrate(
        &self,
        writer: &mut Writer<'_>,
        group: &DataGroup,
        most_bytes: u64,
    ) -> Result<u64, UserError> {
        let plan = &self.plan;
        let needed = plan.group_file_bytes(group, plan.size_bytes_min).max(plan.unit_bytes);
        let wished = plan.group_file_bytes(group, DATASET_BYTES_MIN.min(most_bytes)).max(needed);
        let start_ns = Monotonic.now_ns();
        writer.write_for(needed, wished, start_ns.saturating_add(CALIBRATION_NS))?;
        writer.make_durable()?;
        let seconds = (Monotonic.now_ns() - start_ns) as f64 / 1e9;
        let bytes_per_second = writer.written_bytes as f64 / seconds;
        let files = u64::from(group.files);
        let unit = plan.unit_bytes * files;
        let least = writer.written_bytes.next_multiple_of(plan.unit_bytes) * files;
        // With powers of two, runs on targets of about the same speed have data sets of the same size.
        let wished = power_of_two_within((bytes_per_second * SECONDS_OF_IO) as u64);
        let size_bytes = wished.max(least).max(plan.size_bytes_min).min(most_bytes).max(unit) / unit * unit;
        log::debug!(
            "calibrated at {} a second: {}",
            size::decimal(bytes_per_second as u64),
            size::binary(size_bytes)
        );
        Ok(size_bytes)
    }

    /// Calibrates, and writes the first file. If its place holds less, cuts the data set to half of that. Returns the size of
    /// the data set, at most `most_bytes`.
    fn write_what_fits(
        &self,
        writer: &mut Writer<'_>,
        group: &DataGroup,
        most_bytes: u64,
    ) -> Result<u64, UserError> {
        let plan = &self.plan;
        let written = self.calibrate(writer, group, most_bytes).and_then(|size_bytes| {
            writer.write_until(plan.group_file_bytes(group, size_bytes))?;
            writer.make_durable().map(|()| size_bytes)
        });
        let Err(error) = written else { return written };
        let unit = plan.unit_bytes * u64::from(group.files);
        let groups = plan.groups.iter().filter(|group| !group.is_fresh).count() as u64;
        let fits = power_of_two_within(writer.written_bytes / 2 / groups.max(1)) / unit * unit;
        if !writer.is_full.get() || self.clients > 1 || fits < plan.size_bytes_min.max(unit) {
            return Err(error);
        }
        let file_bytes = plan.group_file_bytes(group, fits);
        rustix::fs::ftruncate(&writer.file, file_bytes).map_err(|_| error)?;
        // Bytes that were not made durable may be lost, and are written again.
        writer.durable_bytes = writer.durable_bytes.min(file_bytes);
        writer.written_bytes = writer.durable_bytes;
        log::debug!("the data set shrinks to {}", size::binary(fits));
        Ok(fits)
    }

    /// Opens a file that the first client has made for all. A file with another name elsewhere is none.
    fn open_shared(&self, first: BorrowedFd<'_>, group: &FileGroup, file: u32) -> Result<OwnedFd, UserError> {
        let path = &self.writing.path;
        let opened = group.open_file(first, path, file.into(), OFlags::WRONLY)?;
        let about = rustix::fs::fstat(&opened);
        let is_own = about.is_ok_and(|about| {
            about.st_nlink == 1 && FileType::from_raw_mode(about.st_mode) == FileType::RegularFile
        });
        let action = || format!("open {} of the first client", group.name(file.into()));
        is_own.then_some(opened).ok_or_else(|| UserError::new(action(), "it is not that client's file"))
    }

    /// Makes a file of a group, or opens the device.
    fn open(&self, directory: BorrowedFd<'_>, group: &FileGroup, file: u32) -> Result<OwnedFd, UserError> {
        if group.origin == Origin::ErasedDevice {
            return group.open_file(directory, &self.writing.path, file.into(), OFlags::WRONLY);
        }
        self.writing.create(directory, &group.name(file.into()))
    }
}

/// Sets the size of a file on XFS, or an overlay that may hold it, before it is written. XFS allocates up to as much again
/// for a file that grows, until the file is closed. Returns false on other file systems, where files grow.
fn set_size(file: &OwnedFd, bytes: u64) -> bool {
    let may_be_xfs = observe::file_system_magic(file)
        .is_some_and(|magic| [observe::XFS_MAGIC, observe::OVERLAY_MAGIC].contains(&magic));
    may_be_xfs && rustix::fs::ftruncate(file, bytes).is_ok()
}

/// Accepts the error of a server that cannot sync. A test that syncs reports it.
pub(crate) fn ignore_unsupported_sync(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
        result => result,
    }
}

impl Writing {
    fn create(&self, directory: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, UserError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| self.fail("make", name, None, errno))
    }

    fn fail(&self, call: &str, name: &str, offset_bytes: Option<u64>, errno: Errno) -> UserError {
        let place = offset_bytes.map_or(String::new(), |offset| format!(" at offset {offset}"));
        let action = format!("{call} {}{place} for the data set", self.path.join(name).display());
        let error = UserError::new(action, std::io::Error::from(errno));
        match errno {
            Errno::NOSPC | Errno::DQUOT => error.help("use a smaller --size, or free some space"),
            Errno::FBIG => error.help("raise the limit of file sizes (ulimit -f), or use a smaller --size"),
            Errno::IO => error.help("the device failed; check the kernel log"),
            _ => error,
        }
    }
}

/// Writes one file from its beginning, through the page cache. That works on every file system, and delayed
/// allocation gives large extents.
struct Writer<'a> {
    writing: &'a Writing,
    name: String,
    number: u32,
    /// Generation in the stamps.
    generation: u32,
    file: OwnedFd,
    content: Content,
    pool: Pool,
    /// Offset at which it begins.
    first_bytes: u64,
    written_bytes: u64,
    durable_bytes: u64,
    /// True if its place holds no more: the file system, a part of it, or a quota is full.
    is_full: Cell<bool>,
}

impl<'a> Writer<'a> {
    fn new(file: OwnedFd, name: String, number: u32, content: Content, writing: &'a Writing) -> Self {
        let pool = Pool::new(content, CHUNK_BYTES as usize, 1);
        let (generation, first_bytes, written_bytes, durable_bytes) = (0, 0, 0, 0);
        Self {
            writing,
            name,
            number,
            generation,
            file,
            content,
            pool,
            first_bytes,
            written_bytes,
            durable_bytes,
            is_full: Cell::default(),
        }
    }

    fn write_until(&mut self, end_bytes: u64) -> Result<(), UserError> {
        self.write_for(end_bytes, end_bytes, u64::MAX)
    }

    /// Writes at least `needed_bytes`, then goes on up to `wished_bytes` until `until_ns`.
    fn write_for(&mut self, needed_bytes: u64, wished_bytes: u64, until_ns: u64) -> Result<(), UserError> {
        let end_bytes = wished_bytes;
        while self.written_bytes < end_bytes {
            let now_ns = Monotonic.now_ns();
            if self.written_bytes >= needed_bytes && now_ns >= until_ns {
                return Ok(());
            }
            if now_ns >= self.writing.deadline_ns {
                let cause = "the run's time limit was reached before the data set was written";
                return Err(UserError::new(&self.writing.action, cause)
                    .help("use a smaller --size, or a longer --time"));
            }
            let Writing { stop, is_given_up, .. } = self.writing;
            if stop.load(Ordering::Relaxed) || is_given_up.load(Ordering::Relaxed) {
                return Err(UserError::new(&self.writing.action, "interrupted"));
            }
            if let Some(shortage) =
                self.writing.room.as_ref().and_then(|room| room.shortage(&self.writing.action))
            {
                return Err(shortage);
            }
            let len = CHUNK_BYTES.min(end_bytes - self.written_bytes) as usize;
            if !self.writing.budget.take(len as u64) {
                return Err(limit_reached(&self.writing.action)
                    .help("use a higher --write-limit, or a smaller --size"));
            }
            let offset_bytes = self.first_bytes + self.written_bytes;
            let (file, generation) = (self.number, self.generation);
            let draft = self.pool.draft(0);
            if !draft.is_duplicate {
                let (seed, phase_bytes) = (self.content.seed, draft.phase_bytes);
                let stamp = Stamp { seed, file, generation, offset_bytes, phase_bytes };
                data::stamp(&mut draft.bytes[..len], self.content.interval_bytes, stamp);
            }
            self.write(&self.pool.block(0)[..len], offset_bytes)?;
            self.written_bytes += len as u64;
            self.writing.bytes.fetch_add(len as u64, Ordering::Relaxed);
            if self.written_bytes - self.durable_bytes >= DURABLE_EVERY_BYTES {
                self.make_durable()?;
            }
        }
        Ok(())
    }

    /// Writes all of a chunk, even after a short write: a chunk begins with a stamp, its remainder does not.
    fn write(&self, chunk: &[u8], offset_bytes: u64) -> Result<(), UserError> {
        let mut written = 0;
        while written < chunk.len() {
            match rustix::io::pwrite(&self.file, &chunk[written..], offset_bytes + written as u64) {
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    let offset_bytes = offset_bytes + written as u64;
                    return Err(self.fail("write", offset_bytes, errno));
                }
            }
        }
        Ok(())
    }

    /// Returns the error of a call, and remembers whether its place is full.
    fn fail(&self, call: &str, offset_bytes: u64, errno: Errno) -> UserError {
        self.is_full.set(matches!(errno, Errno::NOSPC | Errno::DQUOT));
        self.writing.fail(call, &self.name, Some(offset_bytes), errno)
    }

    fn make_durable(&mut self) -> Result<(), UserError> {
        ignore_unsupported_sync(rustix::fs::fdatasync(&self.file))
            .map_err(|errno| self.fail("sync", self.durable_bytes, errno))?;
        // This is only advice: a file system that ignores it keeps its pages.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        self.durable_bytes = self.written_bytes;
        Ok(())
    }
}
