//! Work of one thread of a test on data: its loop, and its reports.
//!
//! The record's `engine` lists the engine's features; a note lists the unavailable ones.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::Failure;
use engine::bytes::{ByteWorker, RecorderTally, Span, SystemCalls};
use engine::clock::{Clock, Monotonic, Timer};
use engine::data::Content;
use engine::data_loop::DataLoop;
use engine::recorder::{DeltaReader, Recorder, Shape};
use engine::stdio::protocol::{Job, Verify};
use engine::verb::{Steps, Verb};
use engine::worker::{Limits, Stamping, WorkerResult};
use model::UserError;
use model::workload::DataWork;
use model::workload::verbs::VerbStep;
use rustix::io::Errno;

use crate::stdio_child::StdioChild;
use crate::worker_pool::{Mailbox, Work, Worker as Who, pin_to_cpus};

/// Command to a member.
pub enum Command {
    /// Measure between these two instants.
    Start {
        /// Instant at which all members begin.
        start_ns: u64,
        /// Instant after which nothing starts.
        deadline_ns: u64,
    },
    /// End every `stride`-th file, from the member's own number on.
    Finish {
        /// Number of members.
        stride: usize,
        /// True to make it durable, false to close it.
        is_sync: bool,
    },
}

/// Answer of a member.
pub struct Report {
    /// Time at which it began; `None` where that is not known.
    pub actual_start_ns: Option<u64>,
    /// Time at which it was done.
    pub end_ns: u64,
    /// Failure that ended it early, if any.
    pub result: Result<(), Failure>,
    /// True if it visited each of its blocks at least once.
    pub is_covered: bool,
    /// Operations of an open loop that were due and never started.
    pub missed: u64,
    /// Decisions about its engine.
    pub features: Vec<String>,
    /// Features that its engine had to do without, each with the reason.
    pub missing_features: Vec<String>,
    /// Error of its separate process.
    pub error: Option<UserError>,
}

/// A member that works on blocks.
pub struct Part {
    /// Its loop.
    pub data_loop: DataLoop,
    /// Flag that stops it.
    pub stop: Arc<AtomicBool>,
    /// Its number among the members.
    pub number: u32,
    /// CPUs near the device.
    pub local_cpus: Option<Arc<[u32]>>,
}

/// Returns the steps of a verb, if an operation makes several kinds of calls.
pub fn steps(data: &DataWork) -> Vec<VerbStep> {
    let verb = Steps::from_work(data, 0);
    if data.verb.is_bytes() || verb.names().len() == 1 {
        return Vec::new();
    }
    let calls = verb.steps().iter().zip(verb.names()).enumerate();
    calls.map(|(number, (call, name))| VerbStep { number, name, calls: call.kernel_calls() }).collect()
}

/// Returns the work of a member on blocks.
pub fn work(part: Part) -> (Work<Command, Report>, DeltaReader) {
    let Part { data_loop, stop, number, local_cpus } = part;
    let (recorder, reader) = Recorder::new(data_loop.shape());
    let files = Arc::clone(&data_loop.files);
    let timer = data_loop.timer;
    let body = move |mailbox: &Mailbox<Command, Report>| {
        pin_to_cpus(local_cpus.as_deref());
        let ready = data_loop.ready();
        mailbox.ready();
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        #[cfg(test)]
        crate::session::tests::panic_if_requested(number.into());
        let report = match ready {
            Ok(mut ready) => {
                let (features, missing_features) =
                    (std::mem::take(&mut ready.features), std::mem::take(&mut ready.missing_features));
                // Outside the loop: how late the system woke this thread up.
                timer.wait_until(start_ns);
                let actual_start_ns = Some(timer.now_ns());
                let ended = ready.run(start_ns, Limits { deadline_ns, stop: &stop }, recorder);
                Report { actual_start_ns, features, missing_features, ..ended.into() }
            }
            Err(failure) => {
                recorder.finish(start_ns);
                Report::failed(start_ns, failure)
            }
        };
        mailbox.report(report);
        serve_sync_and_close(mailbox, &files, number as usize);
    };
    (Box::new(body), reader)
}

/// Components of a member that moves bytes.
pub struct BytePart {
    /// Files of its group, to be made durable.
    pub files: Arc<[OwnedFd]>,
    /// Its parts of the files, each with the file opened for it alone.
    pub spans: Vec<(Span, OwnedFd)>,
    /// Content of the files.
    pub content: Content,
    /// Rules for stamping and comparing pieces.
    pub stamping: Stamping,
    /// Number of bytes to move.
    pub ops: u64,
    /// Flag that stops it.
    pub stop: Arc<AtomicBool>,
    /// Its number among the members.
    pub number: u32,
    /// CPUs near the device.
    pub local_cpus: Option<Arc<[u32]>>,
}

/// Returns the work of a member on bytes, by system calls.
pub fn byte_work(data: &DataWork, part: BytePart, timer: Timer) -> (Work<Command, Report>, DeltaReader) {
    let (recorder, reader) = Recorder::new(Shape::default());
    let writes = data.writes().then_some(part.content);
    let body = move |mailbox: &Mailbox<Command, Report>| {
        pin_to_cpus(part.local_cpus.as_deref());
        let BytePart { files, spans, stamping, ops, stop, number, .. } = part;
        let (spans, opened): (Vec<_>, Vec<_>) = spans.into_iter().unzip();
        let tally = RecorderTally { recorder, stop: &stop };
        let calls = SystemCalls::new(opened);
        let worker = ByteWorker::new(calls, timer, tally, spans, writes, stamping, ops);
        mailbox.ready();
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        mailbox.report(worker.run(start_ns, deadline_ns).into());
        serve_sync_and_close(mailbox, &files, number as usize);
    };
    (Box::new(body), reader)
}

/// Returns the work of a member on bytes, by calls of the C library. A separate process makes them: `program` and its
/// arguments.
pub fn stdio_work(
    data: &DataWork,
    part: BytePart,
    program: &[OsString],
) -> (Work<Command, Report>, DeltaReader) {
    let (recorder, reader) = Recorder::new(Shape::default());
    let stamping = &part.stamping;
    let job = Job {
        is_write: data.writes(),
        is_unlocked: data.unlocked,
        has_second_thread: data.threaded,
        buffer_bytes: data.stdio_buffer_bytes,
        content: part.content,
        first_file: stamping.first_file,
        generation: stamping.generation,
        verify: stamping
            .verifier
            .as_ref()
            .map(|verifier| Verify { sample: stamping.sample, generations: verifier.generations.clone() }),
        ops: part.ops,
    };
    let program = program.to_vec();
    let body = move |mailbox: &Mailbox<Command, Report>| {
        pin_to_cpus(part.local_cpus.as_deref());
        let BytePart { files, spans, stop, number, .. } = part;
        let mut words = program.iter();
        let child = match words.next() {
            Some(name) => {
                let mut program = Program::new(name);
                program.args(words);
                StdioChild::start(program, job, &spans)
            }
            None => Err(UserError::new("start a worker process for the C library", "its program is unknown")),
        };
        match child.as_ref().ok().and_then(|child| i32::try_from(child.id()).ok()) {
            Some(process) => mailbox.ready_as(Who::Process(process)),
            None => mailbox.ready(),
        }
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        // A process that has ended keeps its counters until they have been read for the last time. A process
        // in trouble is reaped at once: if that hangs, this member is seen to hang.
        let mut kept = None;
        let report = match child {
            Ok(mut child) => {
                let (ended, error) = child.run(start_ns, deadline_ns, &stop, recorder);
                kept = Some(child).filter(|_| error.is_none());
                Report { error, ..ended.into() }
            }
            Err(error) => {
                recorder.finish(start_ns);
                let ended = WorkerResult { end_ns: start_ns, result: Ok(()), is_covered: false, missed: 0 };
                Report { error: Some(error), ..ended.into() }
            }
        };
        mailbox.report(report);
        serve_sync_and_close(mailbox, &files, number as usize);
        drop(kept);
    };
    (Box::new(body), reader)
}

impl Report {
    fn failed(end_ns: u64, failure: Failure) -> Self {
        let ended = WorkerResult { end_ns, result: Err(failure), is_covered: false, missed: 0 };
        ended.into()
    }
}

impl From<WorkerResult> for Report {
    fn from(ended: WorkerResult) -> Self {
        let WorkerResult { end_ns, result, is_covered, missed } = ended;
        let (features, missing_features) = (Vec::new(), Vec::new());
        Self {
            actual_start_ns: None,
            end_ns,
            result,
            is_covered,
            missed,
            features,
            missing_features,
            error: None,
        }
    }
}

/// Makes files durable, or closes them, at each command.
pub fn serve_sync_and_close(mailbox: &Mailbox<Command, Report>, files: &[OwnedFd], number: usize) {
    while let Some(Command::Finish { stride, is_sync }) = mailbox.next() {
        let (call, end): (_, fn(&OwnedFd) -> _) =
            if is_sync { ("fdatasync", |file| rustix::fs::fdatasync(file)) } else { ("close", close_once) };
        let mut result = Ok(());
        for (index, file) in files.iter().enumerate().skip(number).step_by(stride) {
            if let Err(errno) = end(file) {
                let file = index as u64;
                let failure = Failure { call, file, offset_bytes: None, cause: errno.into() };
                result = result.and(Err(failure));
            }
        }
        let end_ns = Monotonic.now_ns();
        mailbox.report(Report {
            result,
            ..WorkerResult { end_ns, result: Ok(()), is_covered: true, missed: 0 }.into()
        });
    }
}

/// Closes a second descriptor of a file. A network file system then sends all that it holds back of the file, as at the
/// close of the first.
fn close_once(file: &OwnedFd) -> Result<(), Errno> {
    engine::files::close(rustix::io::fcntl_dupfd_cloexec(file, 0)?)
}
