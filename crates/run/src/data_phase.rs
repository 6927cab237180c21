//! Runs one test on data: streams over the data set, a worker for each operation in flight, the sync at the end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::clock::{Clock, Monotonic, Tsc};
use engine::pacing::ClosedLoop;
use engine::pattern::{Pattern, Stream};
use engine::recorder::{DeltaReader, Recorder};
use engine::sync::SyncEngine;
use engine::verb::{self, Verb};
use engine::worker::{Layout, Limits, Stamping, Worker};
use engine::{Call, Failure};
use model::plan::PlannedPhase;
use model::workload::{Access, CacheMode, DataVerb, DataWork, SyncMode};
use model::{Trouble, Workload};
use rustix::fs::{Advice, OFlags};

use crate::dataset::{DataSet, FileGroup};
use crate::directory::WorkDirectory;
use crate::drive::{Drive, Expected};
use crate::gang::{Gang, Mailbox, Work};
use crate::patience;

/// What one test on data gave, before it becomes a record.
#[derive(Debug, Default)]
pub struct DataOutcome {
    /// When the first worker was done, from the start of the phase.
    pub first_done_ns: u64,
    /// When the last worker was done.
    pub last_done_ns: u64,
    /// When the sync at the end was done; the last worker's end if there was none.
    pub synced_ns: u64,
    /// Whether everything was made durable as asked.
    pub is_durable: bool,
    /// Bytes that the test worked on.
    pub size_bytes: u64,
    /// Files that they lie in.
    pub files: u64,
    /// What ended it early.
    pub failure: Option<Trouble>,
}

enum Command {
    /// Measure from this instant until that one.
    Start { start_ns: u64, deadline_ns: u64 },
    /// Make every `stride`-th file from the own number on durable.
    Sync { stride: usize },
}

struct Report {
    end_ns: u64,
    result: Result<(), Failure>,
}

/// What a test needs beside what drives it.
pub struct DataTask<'a> {
    /// The test.
    pub phase: &'a PlannedPhase,
    /// Where files lie.
    pub directory: &'a WorkDirectory,
    /// State of the page cache before buffered reads.
    pub cache: CacheMode,
    /// Seed of the run: what data is stamped with.
    pub seed: u64,
    /// Seed of offsets.
    pub offset_seed: u64,
    /// Longest measured time.
    pub time_ns: u64,
    /// The processor's counter, where it may be used as a clock.
    pub tsc: Option<Tsc>,
}

/// Runs the test. `drive.start_ns` is set to the instant at which workers began.
///
/// # Errors
/// What kept it from starting.
pub fn run(
    task: &DataTask<'_>,
    dataset: &mut DataSet,
    drive: &mut Drive<'_>,
) -> Result<DataOutcome, Trouble> {
    let workload = &task.phase.workload;
    let Some(data) = workload.data() else {
        return Err(Trouble::new("run a test on data", "it is one on files"));
    };
    let group = if data.shared { dataset.shared.clone() } else { dataset.separate.clone() };
    let files = open_files(&group, data, task.directory)?;
    check_alignment(&group, data, &files, task.directory)?;
    prepare_cache(&files, data, task.cache, drive)?;
    if data.writes() {
        dataset.generation += 1;
    }

    let layout =
        Layout { block_bytes: data.block_bytes, blocks_per_file: group.file_bytes / data.block_bytes };
    let streams = streams(task, workload, data, layout.blocks_per_file * u64::from(group.files));
    let stamping =
        Stamping { seed: task.seed, first_file: group.first_number, generation: dataset.generation };
    let tsc = task.tsc.map(Tsc::anchored);
    let mut works = Vec::new();
    for stream in &streams {
        for _ in 0..workload.iodepth {
            let pattern = Pattern::new(Arc::clone(stream), workload.iodepth);
            let number = works.len() as u64;
            let part = Part {
                files: Arc::clone(&files),
                pattern,
                layout,
                stamping,
                stop: Arc::clone(&drive.stop),
                number,
            };
            let (work, reader) = match tsc {
                Some(tsc) => work(data, part, tsc),
                None => work(data, part, Monotonic),
            };
            works.push(work);
            drive.readers.push(reader);
        }
    }
    let workers = works.len();
    let gang = Gang::start(works).map_err(|error| {
        Trouble::new(format!("start {workers} threads"), error).remedy("ask for fewer threads or less depth")
    })?;
    let mut outcome =
        DataOutcome { size_bytes: group.size_bytes(), files: group.files.into(), ..DataOutcome::default() };
    measure(task, data, gang, drive, &group, &mut outcome);
    Ok(outcome)
}

fn measure(
    task: &DataTask<'_>,
    data: &DataWork,
    mut gang: Gang<Command, Report>,
    drive: &mut Drive<'_>,
    group: &FileGroup,
    outcome: &mut DataOutcome,
) {
    let mut failure = drive.ready(&mut gang).err();
    if failure.is_none() {
        drive.begin();
        drive.start_ns = Monotonic.now_ns();
        let (start_ns, deadline_ns) = (drive.start_ns, drive.start_ns.saturating_add(task.time_ns));
        (0..gang.len()).for_each(|index| gang.command(index, Command::Start { start_ns, deadline_ns }));
        let (reports, trouble) = drive.answers(&mut gang, Expected::By(deadline_ns), true);
        // Who did not answer is still at it.
        let now_ns = Monotonic.now_ns();
        let ends = || {
            reports
                .iter()
                .map(|report| report.as_ref().map_or(now_ns, |report| report.end_ns).saturating_sub(start_ns))
        };
        outcome.first_done_ns = ends().min().unwrap_or(0);
        outcome.last_done_ns = ends().max().unwrap_or(0);
        outcome.synced_ns = outcome.last_done_ns;
        failure = trouble.or(first_failure(reports, group, task.directory));
    }
    let syncs = data.writes() && data.sync == SyncMode::End;
    // After an interruption the files go, and with them what would be made durable.
    if failure.is_none() && syncs && !drive.is_stopped() {
        let stride = gang.len();
        (0..gang.len()).for_each(|index| gang.command(index, Command::Sync { stride }));
        let (reports, trouble) = drive.answers(&mut gang, Expected::WhileDataMoves, true);
        let end_ns = reports.iter().flatten().map(|report| report.end_ns).max();
        outcome.synced_ns =
            end_ns.map_or(outcome.last_done_ns, |end_ns| end_ns.saturating_sub(drive.start_ns));
        failure = trouble.or(first_failure(reports, group, task.directory));
        outcome.is_durable = failure.is_none();
    }
    outcome.is_durable |= failure.is_none() && data.writes() && data.sync == SyncMode::Each;
    drive.end();
    gang.dismiss();
    outcome.failure = failure;
}

fn first_failure(
    reports: Vec<Option<Report>>,
    group: &FileGroup,
    directory: &WorkDirectory,
) -> Option<Trouble> {
    let failure = reports.into_iter().flatten().find_map(|report| report.result.err())?;
    let path = directory.path().join(group.name(failure.file));
    let place = failure.offset_bytes.map_or(String::new(), |offset| format!(" at offset {offset}"));
    let attempt = format!("{} {}{place}", failure.call, path.display());
    Some(Trouble::new(attempt, failure.cause).remedy(remedy(&failure)))
}

/// What can be done about a call that failed.
pub fn remedy(failure: &Failure) -> &'static str {
    use engine::failure::Cause;
    use rustix::io::Errno;
    match failure.cause {
        Cause::Errno(Errno::NOSPC) => "space or inodes ran out while the test ran; make room or ask for less",
        Cause::Errno(Errno::DQUOT) => "the quota is used up; raise it or ask for less",
        Cause::Errno(Errno::IO) => "the device or server failed; look at the kernel's log",
        Cause::Errno(Errno::INVAL) => "if this file system refuses direct I/O, add :buffered to the test",
        Cause::Errno(Errno::STALE | Errno::NOTCONN) => "the server went away; mount it again",
        Cause::Errno(_) => "look at the kernel's log",
        Cause::Short { .. } => "the file is shorter than it was laid out; something else has changed it",
    }
}

fn open_files(
    group: &FileGroup,
    data: &DataWork,
    directory: &WorkDirectory,
) -> Result<Arc<[OwnedFd]>, Trouble> {
    let access = match data.verb {
        DataVerb::Read => OFlags::RDONLY,
        DataVerb::Write | DataVerb::Fsync => OFlags::WRONLY,
        DataVerb::Rw | DataVerb::Rewrite => OFlags::RDWR,
    };
    let flags = if data.direct { access | OFlags::DIRECT } else { access };
    let attempt = format!("open the data set in {}", directory.path().display());
    let descriptor = directory.descriptor().try_clone_to_owned();
    let descriptor = descriptor.map_err(|error| Trouble::new(&attempt, error))?;
    let (group, path) = (group.clone(), directory.path().to_owned());
    patience::wait_while_it_moves(&attempt, || 0, move || group.open(descriptor.as_fd(), &path, flags))?
}

/// The file itself may need more than its device does.
fn check_alignment(
    group: &FileGroup,
    data: &DataWork,
    files: &[OwnedFd],
    directory: &WorkDirectory,
) -> Result<(), Trouble> {
    let align = files.first().filter(|_| data.direct).and_then(|file| observe::direct_io(file.as_fd()));
    let Some(align) = align.map(|align| u64::from(align.offset_align_bytes)).filter(|align| *align > 1)
    else {
        return Ok(());
    };
    if data.block_bytes.is_multiple_of(align) {
        return Ok(());
    }
    let path = directory.path().join(group.name(0));
    Err(Trouble::new(
        format!("use blocks of {} bytes for direct I/O on {}", data.block_bytes, path.display()),
        format!("the file system needs multiples of {align}"),
    )
    .remedy(format!("use blocks of {}, or add :buffered", data.block_bytes.next_multiple_of(align))))
}

/// Brings the pages of the files into the state that was asked for; all that earlier tests left is written back.
fn prepare_cache(
    files: &Arc<[OwnedFd]>,
    data: &DataWork,
    cache: CacheMode,
    drive: &mut Drive<'_>,
) -> Result<(), Trouble> {
    let attempt = "prepare the page cache";
    let files = Arc::clone(files);
    let (direct, reads) = (data.direct, data.reads());
    let interrupt = Arc::clone(drive.interrupt);
    let raised = Arc::clone(drive.interrupt);
    let prepare = move || -> std::io::Result<()> {
        for file in files.iter() {
            if interrupt.load(Ordering::Relaxed) {
                return Ok(());
            }
            rustix::fs::fdatasync(file)?;
            // Advice only: what could not be dropped shows in the share that came from the cache.
            if direct || cache == CacheMode::Cold {
                let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
            } else if reads && cache == CacheMode::Warm {
                read_whole(file, &interrupt)?;
            }
        }
        if cache == CacheMode::DropAll && !direct {
            drop_all_caches()?;
        }
        Ok(())
    };
    let movement = || if raised.load(Ordering::Relaxed) { 0 } else { drive.meter.movement() };
    patience::wait_while_it_moves(attempt, movement, prepare)?.map_err(|error| Trouble::new(attempt, error))
}

fn read_whole(file: &OwnedFd, interrupt: &AtomicBool) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset_bytes = 0;
    loop {
        let got = rustix::io::pread(file, &mut buffer, offset_bytes)?;
        if got == 0 || interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        offset_bytes += got as u64;
    }
}

/// Drops clean pages, names and inodes of the whole machine. Only ever by the user's own word.
pub fn drop_all_caches() -> std::io::Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// A stream for each thread, over disjoint ranges that together are the whole data set.
fn streams(task: &DataTask<'_>, workload: &Workload, data: &DataWork, blocks: u64) -> Vec<Arc<Stream>> {
    let stop = task.phase.stop;
    let by_bytes = stop.bytes.map(|bytes| bytes / data.block_bytes);
    let by_passes = stop.passes.map(|passes| passes.saturating_mul(blocks));
    let ops = [stop.ops, by_bytes, by_passes].into_iter().flatten().min().unwrap_or(u64::MAX);
    let threads = u64::from(workload.threads);
    let share = |total: u64, thread: u64| total / threads + u64::from(thread < total % threads);
    let mut first_block = 0;
    (0..threads)
        .map(|thread| {
            let count = share(blocks, thread);
            let seed = engine::data::mix(task.offset_seed ^ engine::data::mix(thread));
            let limit = if ops == u64::MAX { ops } else { share(ops, thread) };
            let stream = Stream::new(first_block, count, data.access == Access::Random, seed, limit);
            first_block += count;
            stream
        })
        .collect()
}

/// What one worker is made of.
struct Part {
    files: Arc<[OwnedFd]>,
    pattern: Pattern,
    layout: Layout,
    stamping: Stamping,
    stop: Arc<AtomicBool>,
    number: u64,
}

/// What is done with a verb once it is a type.
trait WithVerb {
    type Answer;
    fn call<V: Verb + Send + 'static>(self, verb: V) -> Self::Answer;
}

/// Chooses the type of a verb; everything behind it is free of options. Mixes are drawn from `draw_seed`.
fn with_verb<W: WithVerb>(data: &DataWork, draw_seed: u64, with: W) -> W::Answer {
    let each = data.sync == SyncMode::Each;
    match data.verb {
        DataVerb::Read => with.call(verb::Read),
        DataVerb::Write if !each => with.call(verb::Write),
        DataVerb::Write | DataVerb::Fsync => with.call(verb::WriteDurably),
        DataVerb::Rewrite if each => with.call(verb::RewriteDurably),
        DataVerb::Rewrite => with.call(verb::Rewrite),
        DataVerb::Rw if each => with.call(verb::Mix::<true>::new(data.read_percent, draw_seed)),
        DataVerb::Rw => with.call(verb::Mix::<false>::new(data.read_percent, draw_seed)),
    }
}

struct WorkOf<C> {
    part: Part,
    clock: C,
}

impl<C: Clock + Send + 'static> WithVerb for WorkOf<C> {
    type Answer = (Work<Command, Report>, DeltaReader);
    fn call<V: Verb + Send + 'static>(self, verb: V) -> Self::Answer {
        work_of(verb, self.part, self.clock)
    }
}

struct StepsOf;

impl WithVerb for StepsOf {
    type Answer = Vec<&'static str>;
    fn call<V: Verb + Send + 'static>(self, _: V) -> Self::Answer {
        let calls = V::STEPS.iter().map(|call| Call::name(*call));
        if V::STEPS.len() > 1 { calls.collect() } else { Vec::new() }
    }
}

/// The work of a member.
fn work<C: Clock + Send + 'static>(
    data: &DataWork,
    part: Part,
    clock: C,
) -> (Work<Command, Report>, DeltaReader) {
    let draw_seed = engine::data::mix(part.stamping.seed ^ engine::data::mix(part.number + 1));
    with_verb(data, draw_seed, WorkOf { part, clock })
}

/// The calls of a verb, where an operation makes several kinds.
pub fn steps(data: &DataWork) -> Vec<&'static str> {
    with_verb(data, 0, StepsOf)
}

fn work_of<V: Verb + Send + 'static, C: Clock + Send + 'static>(
    verb: V,
    part: Part,
    clock: C,
) -> (Work<Command, Report>, DeltaReader) {
    type Looped<'a, C, V> = Worker<'a, SyncEngine, C, ClosedLoop, V>;
    let (recorder, reader) = Recorder::new(Looped::<C, V>::recorded_steps());
    let body = move |mailbox: &Mailbox<Command, Report>| {
        let Part { files, pattern, layout, stamping, stop, number } = part;
        let writes = V::STEPS.contains(&Call::Write);
        // Made by the thread that uses it, so that its memory lies near.
        let engine = SyncEngine::new(Arc::clone(&files), layout.block_bytes as usize, writes, stamping.seed);
        mailbox.ready();
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        #[cfg(test)]
        crate::session::tests::panic_if_asked(number);
        let limits = Limits { deadline_ns, stop: &stop };
        let worker =
            Worker::new(engine, clock, ClosedLoop, verb, pattern, layout, stamping, limits, recorder);
        let (end_ns, result) = worker.run(start_ns);
        mailbox.report(Report { end_ns, result });
        while let Some(Command::Sync { stride }) = mailbox.next() {
            mailbox.report(sync_files(&files, number as usize, stride));
        }
    };
    (Box::new(body), reader)
}

fn sync_files(files: &[OwnedFd], first: usize, stride: usize) -> Report {
    let mut result = Ok(());
    for (index, file) in files.iter().enumerate().skip(first).step_by(stride) {
        if let Err(errno) = rustix::fs::fdatasync(file) {
            let failure =
                Failure { call: "fdatasync", file: index as u64, offset_bytes: None, cause: errno.into() };
            result = result.and(Err(failure));
        }
    }
    Report { end_ns: Monotonic.now_ns(), result }
}
