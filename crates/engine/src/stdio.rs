//! Byte verbs through the buffer of the C library, in a separate process.
//!
//! glibc's `putc` locks the stream without an atomic instruction until the process has had a second thread. After that
//! it runs half as fast. Programs that report `putc` rates have one thread, so [`serve`] also runs in a process with
//! one thread. That process runs the same program and gets its commands over a socket ([`protocol`]).

pub mod protocol;
mod unlocked;

use std::cell::RefCell;
use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread::JoinHandle;

use libc::FILE;
use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::buffer::AlignedBuffer;
use crate::bytes::{ByteCalls, ByteWorker, BytesError, Span, Tally, call_each_byte, call_each_byte_mut};
use crate::clock::Monotonic;
use crate::data::Verifier;
use crate::failure::Cause;
use crate::sample::Sample;
use crate::stdio::protocol::{Channel, Command, Counts, Job, Report, invalid_message};
use crate::stdio::unlocked::{getc_unlocked, putc_unlocked};
use crate::worker::Stamping;

// SAFETY: these are the declarations of POSIX; the libc crate has none of them.
unsafe extern "C" {
    fn putc(byte: c_int, stream: *mut FILE) -> c_int;
    fn getc(stream: *mut FILE) -> c_int;
}

/// Bytes of a buffer that musl reserves for `ungetc`, besides those that it buffers in.
const RESERVED_BYTES: usize = if cfg!(target_env = "musl") { 8 } else { 0 };

/// Calls of the C library, on one stream at a time. With `UNLOCKED` they do not lock the stream.
#[derive(Debug)]
pub struct Stream<const UNLOCKED: bool> {
    /// The file of each span.
    files: Vec<OwnedFd>,
    is_write: bool,
    /// The stream's buffer; `None` if the C library uses its own.
    buffer: Option<AlignedBuffer>,
    /// The open stream, and the span whose file it is on.
    open: Option<(NonNull<FILE>, usize)>,
}

impl<const UNLOCKED: bool> Stream<UNLOCKED> {
    /// Calls on the file of each span, through a buffer of `buffer_bytes`, or of the C library's own choice.
    pub fn new(files: Vec<OwnedFd>, is_write: bool, buffer_bytes: Option<usize>) -> Self {
        let buffer = buffer_bytes.map(|bytes| {
            let mut buffer = AlignedBuffer::new(bytes + RESERVED_BYTES);
            // Touch the buffer, so that no page is missing when time counts.
            buffer.bytes_mut().fill(1);
            buffer
        });
        Self { files, is_write, buffer, open: None }
    }

    /// Opens a stream on the file of a span.
    fn open(&mut self, span: usize) -> Result<NonNull<FILE>, BytesError> {
        // Closing a stream closes its descriptor, so the stream gets a duplicate.
        let file = self.files[span].try_clone().map_err(|_| last("fcntl"))?.into_raw_fd();
        let mode = if self.is_write { c"w" } else { c"r" };
        // SAFETY: `mode` is a C string. `file` is an open descriptor without another owner: `into_raw_fd` has just
        // given it up.
        let stream = unsafe { libc::fdopen(file, mode.as_ptr()) };
        let Some(stream) = NonNull::new(stream) else {
            let bytes_error = last("fdopen");
            // SAFETY: no stream was made, so no one has taken over the descriptor from `into_raw_fd`.
            drop(unsafe { OwnedFd::from_raw_fd(file) });
            return Err(bytes_error);
        };
        self.open = Some((stream, span));
        if let Some(buffer) = &mut self.buffer {
            let bytes = buffer.bytes_mut();
            // SAFETY: the stream is open, and was not used yet. The buffer has this many bytes. It is never accessed
            // again here, and it does not move with `self`, as it is on the heap. It is freed after the stream was
            // closed: by `drop`, which closes first. `open` is the only place that makes a stream.
            let set = unsafe {
                libc::setvbuf(stream.as_ptr(), bytes.as_mut_ptr().cast(), libc::_IOFBF, bytes.len())
            };
            if set != 0 {
                return Err(last("setvbuf"));
            }
        }
        Ok(stream)
    }

    fn close(&mut self) -> Result<(), BytesError> {
        let Some((stream, _)) = self.open.take() else { return Ok(()) };
        // SAFETY: the stream is open. It was taken out of `open`, so no other code uses it later.
        if unsafe { libc::fclose(stream.as_ptr()) } == 0 { Ok(()) } else { Err(last("fclose")) }
    }

    /// Returns the stream, which [`ByteCalls::go_to`] opens before anything is moved.
    #[inline]
    fn stream(&self, call: &'static str) -> Result<*mut FILE, BytesError> {
        self.open.map(|(stream, _)| stream.as_ptr()).ok_or(BytesError::errno(call, Errno::BADF))
    }
}

impl<const UNLOCKED: bool> Drop for Stream<UNLOCKED> {
    fn drop(&mut self) {
        // All data that matters was flushed.
        let _ = self.close();
    }
}

/// Error of the last call.
#[cold]
fn last(call: &'static str) -> BytesError {
    let error = io::Error::last_os_error();
    BytesError::errno(call, Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl<const UNLOCKED: bool> ByteCalls for Stream<UNLOCKED> {
    /// A clock read costs about forty instructions, a stride of these calls ten thousand.
    const STRIDE_BYTES: usize = 1024;

    fn go_to(&mut self, span: usize, offset_bytes: u64) -> Result<(), BytesError> {
        let stream = match self.open {
            Some((stream, current)) if current == span => stream,
            _ => {
                self.close()?;
                self.open(span)?
            }
        };
        let offset = offset_bytes.try_into().map_err(|_| BytesError::errno("fseeko", Errno::OVERFLOW))?;
        // SAFETY: the stream is open, as every close takes it out of `open` first.
        let result = unsafe { libc::fseeko(stream.as_ptr(), offset, libc::SEEK_SET) };
        if result == 0 { Ok(()) } else { Err(last("fseeko")) }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), BytesError> {
        let call = if UNLOCKED { "putc_unlocked" } else { "putc" };
        let stream = self.stream(call)?;
        let stopped = call_each_byte(bytes, |byte| {
            let byte = c_int::from(*byte);
            // SAFETY: the stream is open, as every close takes it out of `open` first. No other thread uses it: a
            // `Stream` holds a pointer and can be neither sent nor shared.
            let put = unsafe { if UNLOCKED { putc_unlocked(byte, stream) } else { putc(byte, stream) } };
            put != libc::EOF
        });
        stopped.map_or(Ok(()), |moved| Err(BytesError { moved, ..last(call) }))
    }

    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), BytesError> {
        let call = if UNLOCKED { "getc_unlocked" } else { "getc" };
        let stream = self.stream(call)?;
        let stopped = call_each_byte_mut(bytes, |byte| {
            // SAFETY: as in `write`.
            let got = unsafe { if UNLOCKED { getc_unlocked(stream) } else { getc(stream) } };
            // A byte, or EOF, which is not a byte.
            *byte = got as u8;
            got != libc::EOF
        });
        let Some(moved) = stopped else { return Ok(()) };
        let bytes_error = last(call);
        // SAFETY: as above.
        let is_error = unsafe { libc::ferror(stream) } != 0;
        let cause = if is_error { bytes_error.cause } else { Cause::Short { got_bytes: 0, wanted_bytes: 1 } };
        Err(BytesError { call, moved, cause })
    }

    fn flush(&mut self) -> Result<(), BytesError> {
        let Some((stream, _)) = self.open else { return Ok(()) };
        // SAFETY: the stream is open, as every close takes it out of `open` first.
        if unsafe { libc::fflush(stream.as_ptr()) } == 0 { Ok(()) } else { Err(last("fflush")) }
    }

    fn file(&self, span: usize) -> &OwnedFd {
        &self.files[span]
    }
}

/// Sends counts to the run as lines. Checks once an interval for a message from the run.
struct ReportingTally<'a> {
    channel: &'a RefCell<&'a mut Channel>,
    counts: Counts,
}

impl ReportingTally<'_> {
    /// Sends the counts. Returns true if the run still listens.
    fn send_counts(&mut self, now_ns: u64) -> bool {
        let delta = Report::Delta(Counts { end_ns: now_ns, ..self.counts });
        self.counts = Counts { start_ns: now_ns, ..Counts::default() };
        self.channel.borrow().send(&delta, None).is_ok()
    }
}

impl Tally for ReportingTally<'_> {
    fn start(&mut self, now_ns: u64) {
        self.counts.start_ns = now_ns;
    }

    #[inline]
    fn moved(&mut self, bytes: u64, _: bool) {
        self.counts.ops += bytes;
    }

    fn verified(&mut self) {
        self.counts.verified += 1;
    }

    #[inline]
    fn chunk(&mut self, time_ns: u64) {
        self.counts.slowest_chunk_ns = self.counts.slowest_chunk_ns.max(time_ns);
    }

    fn tick(&mut self, now_ns: u64) -> bool {
        let is_connected = self.send_counts(now_ns);
        // Any message of the run now means stop, and so does the end of the run.
        let is_silent = matches!(
            self.channel.borrow_mut().poll(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        );
        !(is_connected && is_silent)
    }

    fn finish(mut self, end_ns: u64) {
        self.send_counts(end_ns);
    }
}

/// Main function of the process that a run starts for its calls of the C library. It gets its commands over stdin,
/// which is a socket. It returns when the job is done or the run has ended. Must be called before any thread is
/// started, and starts none except the one that a job may request.
///
/// # Errors
/// The error that kept the process from getting ready; the run gets it too, if it still exists.
pub fn serve(parent: u32) -> io::Result<()> {
    // The terminal signals the whole job: the run handles these signals and commands this process. An exceeded file
    // size limit must be an error of the write.
    for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGTERM, libc::SIGXFSZ] {
        // SAFETY: ignoring a signal runs no handler. Nothing in this process relies on another disposition.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The run may have ended before this process requested the death signal.
    let is_orphan = getppid().is_none_or(|pid| pid.as_raw_nonzero().get().cast_unsigned() != parent);
    if is_orphan {
        return Ok(());
    }
    serve_on(UnixStream::from(rustix::stdio::stdin().try_clone_to_owned()?))
}

/// Same as [`serve`], over any socket.
fn serve_on(socket: UnixStream) -> io::Result<()> {
    let mut channel = Channel::new(socket);
    let result = prepare(&mut channel).and_then(|prepared| match prepared {
        Some((job, spans, files)) if job.is_unlocked => measure::<true>(&mut channel, *job, spans, files),
        Some((job, spans, files)) => measure::<false>(&mut channel, *job, spans, files),
        None => Ok(()),
    });
    if let Err(error) = &result {
        // Without a listener nothing is left to do.
        let _ = channel.send(&Report::Error(error.to_string()), None);
    }
    result
}

type Prepared = (Box<Job>, Vec<Span>, Vec<OwnedFd>);

/// Receives the job and its files. Returns `None` if the run went away.
fn prepare(channel: &mut Channel) -> io::Result<Option<Prepared>> {
    let (mut spans, mut files) = (Vec::new(), Vec::new());
    while let Some(line) = channel.wait()? {
        match protocol::parse(&line)? {
            Command::Span(span) => {
                // The kernel leaves out a file that it cannot open here.
                files.push(channel.file().ok_or(io::Error::from(Errno::MFILE))?);
                spans.push(span);
            }
            // Without a distance, stamps would have no place.
            Command::Job(job) if job.content.interval_bytes > 0 => return Ok(Some((job, spans, files))),
            _ => return Err(invalid_message(&line)),
        }
    }
    Ok(None)
}

fn measure<const UNLOCKED: bool>(
    channel: &mut Channel,
    job: Job,
    spans: Vec<Span>,
    files: Vec<OwnedFd>,
) -> io::Result<()> {
    let buffer_bytes = job.buffer_bytes.map(usize::try_from).transpose().map_err(io::Error::other)?;
    // Start it before any stream exists: streams then have locks from the beginning.
    let _sleeper = job.has_second_thread.then(Sleeper::start).transpose()?;
    let calls = Stream::<UNLOCKED>::new(files, job.is_write, buffer_bytes);
    let stamping = Stamping {
        seed: job.content.seed,
        first_file: job.first_file,
        generation: job.generation,
        interval_bytes: job.content.interval_bytes,
        sample: job.verify.as_ref().map_or(Sample::NONE, |verify| verify.sample),
        verifier: job.verify.map(|verify| Verifier::new(job.content, verify.generations)),
    };
    let content = job.is_write.then_some(job.content);
    let channel = RefCell::new(channel);
    let tally = ReportingTally { channel: &channel, counts: Counts::default() };
    let worker = ByteWorker::new(calls, Monotonic, tally, spans, content, stamping, job.ops);
    channel.borrow().send(&Report::Ready, None)?;
    let Some(line) = channel.borrow_mut().wait()? else { return Ok(()) };
    let ended = match protocol::parse(&line)? {
        Command::Start { start_ns, deadline_ns } => worker.run(start_ns, deadline_ns),
        _ => return Err(invalid_message(&line)),
    };
    channel.borrow().send(&Report::End(ended), None)
}

/// A thread that sleeps until this value is dropped. The C library locks streams only in a process that has or had a
/// second thread.
struct Sleeper {
    wake: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// Name of the thread.
    const NAME: &str = "sleeper";

    fn start() -> io::Result<Self> {
        let (wake, woken) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let sleeper = std::thread::Builder::new().name(Self::NAME.into()).stack_size(64 << 10);
        // The thread ends when no one can wake it any more.
        let thread = sleeper.spawn(move || {
            let _ = ready.send(());
            let _ = woken.recv();
        })?;
        let _ = is_ready.recv();
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.wake.take());
        // A thread that only sleeps cannot panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::protocol::Verify;
    use super::*;
    use crate::Failure;
    use crate::bytes::RecorderTally;
    use crate::bytes::tests::{CONTENT, counter_totals, data_set, generations, spans, stamping};
    use crate::clock::Clock;
    use crate::recorder::{Recorder, Shape};
    use crate::worker::WorkerResult;

    /// Opens each file again, for this direction alone.
    fn open(files: &[File], is_write: bool) -> Vec<OwnedFd> {
        let open = |file: &File| {
            use std::os::fd::AsRawFd;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            OpenOptions::new().read(!is_write).write(is_write).open(path).unwrap().into()
        };
        files.iter().map(open).collect()
    }

    fn run<const UNLOCKED: bool>(
        files: Vec<OwnedFd>,
        buffer_bytes: Option<usize>,
        spans: Vec<Span>,
        is_write: bool,
        generation: u32,
        ops: u64,
    ) -> (WorkerResult, [u64; 4]) {
        let (recorder, reader) = Recorder::new(Shape::default());
        let stop = AtomicBool::new(false);
        let tally = RecorderTally { recorder, stop: &stop };
        let calls = Stream::<UNLOCKED>::new(files, is_write, buffer_bytes);
        let is_write = is_write.then_some(CONTENT);
        let stamping = stamping(generation, Some(1));
        let worker = ByteWorker::new(calls, Monotonic, tally, spans, is_write, stamping, ops);
        let ended = worker.run(Monotonic.now_ns(), u64::MAX);
        (ended, counter_totals(&reader))
    }

    fn written_and_read<const UNLOCKED: bool>() {
        for buffer_bytes in [None, Some(1), Some(100), Some(4096), Some(100_000)] {
            let files = data_set();
            let both = |is_write| open(&files[..2], is_write);
            // Both spans once, then the beginning of the first again.
            let ops = 16_384 + 4096 + 1;
            let (ended, counts) = run::<UNLOCKED>(both(true), buffer_bytes, spans(), true, 1, ops);
            assert_eq!((ended.result, ended.is_covered, counts), (Ok(()), true, [ops, 0, ops, 0]));
            assert_eq!((generations(&files[0], 10), generations(&files[1], 11)), (vec![0, 1, 1], vec![1, 1]));
            let (ended, counts) = run::<UNLOCKED>(both(false), buffer_bytes, spans(), false, 1, ops);
            assert_eq!((ended.result, ended.is_covered, counts), (Ok(()), true, [ops, ops, 0, 5]));
            files[1].write_all_at(b"!", 4200).unwrap();
            let (ended, _) = run::<UNLOCKED>(both(false), buffer_bytes, spans(), false, 1, ops);
            let failure = ended.result.unwrap_err();
            assert_eq!((failure.call, failure.file, failure.offset_bytes), ("verify", 1, Some(4096)));
        }
    }

    #[test]
    fn bytes_read_back_with_any_stdio_buffer_size() {
        written_and_read::<false>();
        written_and_read::<true>();
    }

    #[test]
    fn requested_buffer_size_is_used() {
        let calls = || {
            let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
            let calls = text.lines().find_map(|line| line.strip_prefix("syscw: "))?;
            calls.parse::<u64>().ok()
        };
        let Some(before) = calls() else { return };
        let file = tempfile::tempfile().unwrap();
        let span = vec![Span { file: 0, start_bytes: 0, end_bytes: 65_536 }];
        let (ended, _) = run::<false>(open(&[file], true), Some(2048), span, true, 1, 4 * 65_536);
        let calls = calls().unwrap() - before;
        assert_eq!(ended.result, Ok(()));
        // musl writes one byte more per call.
        assert!((127..=129).contains(&calls), "{calls}");
    }

    #[test]
    fn failures_name_the_call_and_the_place() {
        let full = || vec![OpenOptions::new().write(true).open("/dev/full").unwrap().into()];
        let span = || vec![Span { file: 3, start_bytes: 4096, end_bytes: 1 << 20 }];
        let failure = |ops| {
            let (ended, counts) = run::<true>(full(), Some(1000), span(), true, 1, ops);
            (ended.result.unwrap_err(), counts[0])
        };
        let cause = Errno::NOSPC.into();
        let (failed, ops) = failure(999);
        assert_eq!(failed, Failure { call: "fflush", file: 3, offset_bytes: None, cause });
        assert_eq!(ops, 999);
        // The byte that found the buffer full was not taken.
        let (failed, ops) = failure(u64::MAX);
        assert_eq!(failed, Failure { call: "putc_unlocked", file: 3, offset_bytes: Some(4096 + ops), cause });
        assert!((1000..=1001).contains(&ops), "{ops}");
        let files = data_set();
        let beyond = vec![Span { file: 0, start_bytes: 0, end_bytes: 1 << 20 }];
        let (ended, counts) = run::<false>(open(&files[..1], false), None, beyond, false, 1, u64::MAX);
        let cause = Cause::Short { got_bytes: 0, wanted_bytes: 1 };
        let failed = Failure { call: "getc", file: 0, offset_bytes: Some(12_288), cause };
        assert_eq!((ended.result, counts[0]), (Err(failed), 12_288));
        let (ended, _) = run::<false>(open(&files[..1], true), None, span(), false, 1, 1);
        assert_eq!(
            ended.result.unwrap_err().cause,
            Errno::INVAL.into(),
            "a mode that the file does not have"
        );
    }

    fn job(is_write: bool, ops: u64) -> Job {
        Job {
            is_write,
            is_unlocked: is_write,
            has_second_thread: false,
            buffer_bytes: Some(4096),
            content: CONTENT,
            first_file: 10,
            generation: 1,
            verify: (!is_write)
                .then_some(Verify { sample: Sample { every: 2, seed: 0 }, generations: 0..=1 }),
            ops,
        }
    }

    fn has_sleeper() -> bool {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        // A thread may end during the look-up.
        tasks.flatten().any(|task| name(task).is_ok_and(|name| name.trim_end() == Sleeper::NAME))
    }

    /// Gives a job to a server, which is a thread here. Returns its reports until its end.
    fn serve_job(job: Job, run_for: Duration, stop_after: Option<Duration>) -> (WorkerResult, Vec<Counts>) {
        let files = data_set();
        let is_threaded = job.has_second_thread;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || serve_on(theirs));
        let mut channel = Channel::new(ours);
        for (span, file) in spans().into_iter().zip(open(&files[..2], job.is_write)) {
            channel.send(&Command::Span(span), Some(file.as_fd())).unwrap();
        }
        channel.send(&Command::Job(Box::new(job)), None).unwrap();
        assert_eq!(channel.wait().unwrap().as_deref(), Some("\"Ready\""));
        assert_eq!(has_sleeper(), is_threaded);
        let start_ns = Monotonic.now_ns();
        let deadline_ns = start_ns + run_for.as_nanos() as u64;
        channel.send(&Command::Start { start_ns, deadline_ns }, None).unwrap();
        if let Some(after) = stop_after {
            std::thread::sleep(after);
            channel.send(&Command::Stop, None).unwrap();
        }
        let mut deltas = Vec::new();
        loop {
            match protocol::parse(&channel.wait().unwrap().unwrap()).unwrap() {
                Report::Delta(counts) => deltas.push(counts),
                Report::End(ended) => {
                    assert_eq!(deltas[0].start_ns, start_ns);
                    assert_eq!(deltas.last().unwrap().end_ns, ended.end_ns);
                    assert!(deltas.is_sorted_by(|a, b| a.end_ns == b.start_ns));
                    server.join().unwrap().unwrap();
                    generations(&files[0], 10);
                    generations(&files[1], 11);
                    return (ended, deltas);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn job_is_served_until_its_limit_or_stop_command() {
        const LONG: Duration = Duration::from_secs(60);
        let sum = |deltas: &[Counts]| deltas.iter().map(|counts| counts.ops).sum::<u64>();
        let (ended, deltas) = serve_job(job(true, 10_000), LONG, None);
        assert_eq!((ended.result, ended.is_covered, sum(&deltas)), (Ok(()), false, 10_000));
        let has_second_thread = Job { has_second_thread: true, is_unlocked: false, ..job(true, 10_000) };
        assert_eq!(serve_job(has_second_thread, LONG, None).0.result, Ok(()));
        let (ended, deltas) = serve_job(job(false, 16_384), LONG, None);
        assert_eq!((ended.result, ended.is_covered, sum(&deltas)), (Ok(()), true, 16_384));
        assert_eq!(deltas.iter().map(|counts| counts.verified).sum::<u64>(), 2);
        let (ended, deltas) = serve_job(job(false, u64::MAX), Duration::from_millis(350), None);
        assert_eq!((ended.result, ended.is_covered, deltas.len()), (Ok(()), true, 4));
        let (ended, deltas) = serve_job(job(true, u64::MAX), LONG, Some(Duration::from_millis(150)));
        assert_eq!(ended.result, Ok(()));
        assert!(sum(&deltas) > 0);
    }

    fn json(message: &impl serde::Serialize) -> serde_json::Value {
        serde_json::to_value(message).unwrap()
    }

    #[test]
    fn closed_or_invalid_connection_ends_server() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        serve_on(theirs).unwrap();
        let span = Span { file: 0, start_bytes: 0, end_bytes: 4096 };
        let mut no_interval = job(true, 1);
        no_interval.content.interval_bytes = 0;
        let no_interval = Command::Job(Box::new(no_interval));
        for message in [json(&Command::Stop), json(&Command::Span(span)), json(&no_interval), json(&"dance")]
        {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let ours = Channel::new(ours);
            ours.send(&message, None).unwrap();
            let server = std::thread::spawn(move || serve_on(theirs));
            assert!(server.join().unwrap().is_err(), "{message}");
            let mut ours = ours;
            assert!(matches!(protocol::parse(&ours.wait().unwrap().unwrap()), Ok(Report::Error(_))));
        }
    }
}
