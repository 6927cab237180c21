//! The run's side of the process that makes its calls of the C library. It starts the process, passes on its
//! counts, and makes sure that it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::bytes::Span;
use engine::clock::{Clock, Monotonic};
use engine::recorder::Recorder;
use engine::stdio::protocol::{self, Channel, Command, Counts, Job, Report};
use engine::worker::WorkerResult;
use model::UserError;

use crate::hang_detection;

/// Polling interval of the stop flag while the process works.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Share of the driver's wait for us that the process may take to get ready and to end.
const GRACE_SHARE: u32 = 2;
/// Time that a process may take to disappear after it has closed its socket.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// A process that is ready to work for the thread that started it, and ends with it.
#[derive(Debug)]
pub struct StdioChild {
    process: ChildGuard,
    channel: Channel,
    is_write: bool,
    grace: Duration,
}

/// A process that is killed and waited for on drop, so that it neither keeps running nor becomes a zombie.
#[derive(Debug)]
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both calls fail only if it was waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ChildGuard {
    /// Returns how the process ended. Kills it if that takes too long.
    fn status(&mut self) -> io::Result<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < EXIT_GRACE {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.kill()?;
        self.0.wait()
    }
}

impl StdioChild {
    /// Starts `program`, and returns when it is ready. The program calls [`engine::stdio::serve`] with the
    /// last of its arguments: the number of this process.
    ///
    /// Call this in the thread that also calls [`StdioChild::run`]: the kernel kills the process when this
    /// thread ends. Each span comes with its file, opened for this process alone.
    ///
    /// # Errors
    /// Returns the error that kept it from starting or from getting ready.
    pub fn start(program: Program, job: Job, parts: &[(Span, OwnedFd)]) -> Result<Self, UserError> {
        Self::start_within(hang_detection::hang_timeout(true) / GRACE_SHARE, program, job, parts)
    }

    fn start_within(
        grace: Duration,
        mut program: Program,
        job: Job,
        parts: &[(Span, OwnedFd)],
    ) -> Result<Self, UserError> {
        let started = (|| -> io::Result<_> {
            let (ours, theirs) = UnixStream::pair()?;
            program.arg(std::process::id().to_string());
            program.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
            let process = ChildGuard(program.spawn()?);
            // The process holds its end of the socket. A copy on our side would hide from us that it has
            // gone.
            drop(program);
            Ok((process, Channel::new(ours)))
        })();
        let (process, channel) = started.map_err(|error| UserError::new(START, error))?;
        let mut child = Self { process, channel, is_write: job.is_write, grace };
        // A process that ends early refuses messages, but its exit status says more than that.
        let sent = child.channel.set_timeout(POLL_INTERVAL).and_then(|()| child.send_job(job, parts));
        match child.report(Instant::now() + grace, || false) {
            ReportEvent::Report(Report::Ready) => {
                sent.map(|()| child).map_err(|error| UserError::new(START, error))
            }
            ReportEvent::Report(Report::Error(text)) => Err(UserError::new(START, text)),
            event => Err(child.error(START, &event)),
        }
    }

    /// Returns its process number.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Lets it work from `start_ns` until `deadline_ns`, or until `stop` is raised, and records its counts.
    ///
    /// The error says that it died or hangs; the end is then the time at which that was noticed.
    pub fn run(
        &mut self,
        start_ns: u64,
        deadline_ns: u64,
        stop: &AtomicBool,
        mut recorder: Recorder,
    ) -> (WorkerResult, Option<UserError>) {
        recorder.start(start_ns);
        // If the process has gone, the loop below notices.
        let _ = self.channel.send(&Command::Start { start_ns, deadline_ns }, None);
        let left = Duration::from_nanos(deadline_ns.saturating_sub(Monotonic.now_ns()));
        let mut give_up = Instant::now().checked_add(left.saturating_add(self.grace));
        let mut has_sent_stop = false;
        loop {
            let until = give_up.unwrap_or_else(|| Instant::now() + self.grace);
            match self.report(until, || !has_sent_stop && stop.load(Ordering::Relaxed)) {
                ReportEvent::Report(Report::Delta(counts)) => self.count(counts, &mut recorder),
                ReportEvent::Report(Report::End(ended)) => {
                    recorder.finish(ended.end_ns);
                    return (ended, None);
                }
                ReportEvent::Call => {
                    has_sent_stop = true;
                    let _ = self.channel.send(&Command::Stop, None);
                    let soon = Instant::now() + self.grace;
                    give_up = Some(give_up.map_or(soon, |at| at.min(soon)));
                }
                ReportEvent::Nothing if give_up.is_none() => {}
                event => {
                    let error = self.error("call the C library", &event);
                    let end_ns = Monotonic.now_ns();
                    recorder.finish(end_ns);
                    return (
                        WorkerResult { end_ns, result: Ok(()), is_covered: false, missed: 0 },
                        Some(error),
                    );
                }
            }
        }
    }

    fn send_job(&self, job: Job, parts: &[(Span, OwnedFd)]) -> io::Result<()> {
        for (span, file) in parts {
            self.channel.send(&Command::Span(*span), Some(file.as_fd()))?;
        }
        self.channel.send(&Command::Job(Box::new(job)), None)
    }

    fn count(&self, counts: Counts, recorder: &mut Recorder) {
        let Counts { end_ns, ops, verified, slowest_chunk_ns, .. } = counts;
        recorder.operations(ops, ops);
        recorder.chunk(slowest_chunk_ns);
        if self.is_write {
            recorder.write(ops);
        } else {
            recorder.read(ops);
        }
        (0..verified).for_each(|_| recorder.verified());
        recorder.hand_over(end_ns);
    }

    /// Returns its next message, or reports that `calls` returned true, which is checked now and then.
    fn report(&mut self, give_up: Instant, calls: impl Fn() -> bool) -> ReportEvent {
        loop {
            if calls() {
                return ReportEvent::Call;
            }
            match self.channel.wait() {
                Ok(Some(line)) => {
                    return protocol::parse(&line).map_or(ReportEvent::Nonsense(line), ReportEvent::Report);
                }
                Ok(None) => return ReportEvent::End,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= give_up {
                        return ReportEvent::Nothing;
                    }
                }
                Err(error) => return ReportEvent::Nonsense(error.to_string()),
            }
        }
    }

    /// Returns the error for which the process is given up.
    fn error(&mut self, action: &str, event: &ReportEvent) -> UserError {
        let bug = "please report this bug of skye";
        match event {
            ReportEvent::Nothing => UserError::new(
                action,
                format!("its worker process has not responded for {} s", self.grace.as_secs()),
            )
            .help("check the kernel log for errors of the device or server"),
            ReportEvent::End => {
                let how = match self.process.status() {
                    Ok(status) => how_it_ended(status),
                    Err(error) => error.to_string(),
                };
                UserError::new(action, format!("its worker process ended: {how}"))
                    .help("check the kernel log for a lack of memory, and the limits of CPU time")
            }
            ReportEvent::Report(Report::Error(text)) => UserError::new(action, text),
            ReportEvent::Report(report) => {
                UserError::new(action, format!("its worker process sent `{report:?}`")).help(bug)
            }
            ReportEvent::Nonsense(line) => {
                UserError::new(action, format!("its worker process sent `{line}`")).help(bug)
            }
            ReportEvent::Call => UserError::new(action, "it received a stop command"),
        }
    }
}

/// Name of the action before anything is measured.
const START: &str = "start a worker process for the C library";

/// Reason why [`StdioChild::report`] returned.
#[derive(Debug)]
enum ReportEvent {
    /// The process sent a report.
    Report(Report),
    /// It sent something without a meaning.
    Nonsense(String),
    /// It has closed its end.
    End,
    /// It said nothing for too long.
    Nothing,
    /// A command is waiting to be sent to it.
    Call,
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => format!("killed by signal {signal}"),
        (code, None) => format!("exit code {}", code.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;

    use engine::data::Content;
    use engine::failure::Cause;
    use engine::recorder::Shape;

    use super::*;

    fn job() -> Job {
        let content = Content { seed: 1, interval_bytes: 4096, compress_percent: 0, dedupe_percent: 0 };
        Job {
            is_write: true,
            is_unlocked: false,
            has_second_thread: false,
            buffer_bytes: None,
            content,
            first_file: 0,
            generation: 1,
            verify: None,
            ops: u64::MAX,
        }
    }

    /// Returns a program that says what `script` says: `hear` reads a message of a kind, `delta` and `ended` send one.
    fn fake(script: &str) -> Program {
        let mut program = Program::new("sh");
        let prelude = r#"
            exec 1>&0
            hear() { read -r line && case "$line" in *"\"$1\""*) ;; *) exit 7 ;; esac; }
            delta() {
                echo "{\"Delta\":{\"start_ns\":$1,\"end_ns\":$2,\"ops\":$3,\"verified\":$4,\"slowest_chunk_ns\":$5}}"
            }
            ended() { echo "{\"End\":{\"end_ns\":$1,\"is_covered\":$2,\"result\":$3,\"missed\":0}}"; }
            ok='{"Ok":null}'"#;
        program.arg("-c").arg(format!("{prelude}\n{script}"));
        program
    }

    fn start(script: &str, grace: Duration) -> Result<StdioChild, UserError> {
        let span = Span { file: 0, start_bytes: 0, end_bytes: 4096 };
        let parts = [0, 1].map(|_| (span, OwnedFd::from(File::open("/dev/null").unwrap())));
        StdioChild::start_within(grace, fake(script), job(), &parts)
    }

    const READY: &str = "hear Span; hear Span; hear Job; echo '\"Ready\"'; hear Start\n";
    const LONG: Duration = Duration::from_secs(10);

    fn run(script: &str, grace: Duration, stopped: bool) -> (WorkerResult, Option<UserError>, [u64; 3], u64) {
        let mut child = start(&format!("{READY}{script}"), grace).unwrap();
        let pid = child.process.0.id();
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        let (recorder, reader) = Recorder::new(Shape::default());
        let now_ns = Monotonic.now_ns();
        let (ended, error) = child.run(now_ns, now_ns + 1_000_000, &AtomicBool::new(stopped), recorder);
        // While it is a child of ours, its counters stay.
        drop(child);
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it was reaped");
        let mut sums = [0; 3];
        reader.drain(|delta| {
            let counts = [delta.ops, delta.written_bytes, delta.verified];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        });
        (ended, error, sums, now_ns)
    }

    #[test]
    fn child_process_counts_are_recorded() {
        let script = "delta 1 2 100 3 70; delta 2 3 10 1 60; ended 77 true $ok";
        let (ended, error, sums, _) = run(script, LONG, false);
        assert_eq!((ended.end_ns, ended.is_covered, ended.result), (77, true, Ok(())));
        assert_eq!((error.is_none(), sums), (true, [110, 110, 4]));
        let no_space = r#"{"Err":{"call":"putc","file":1,"offset_bytes":4096,"cause":{"Errno":28}}}"#;
        let (ended, error, sums, _) =
            run(&format!("delta 1 2 5 0 0; ended 9 false '{no_space}'"), LONG, false);
        let failure = ended.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.offset_bytes), ("putc", 1, Some(4096)));
        assert_eq!(failure.cause, Cause::Errno(rustix::io::Errno::NOSPC));
        assert_eq!((error.is_none(), sums[0]), (true, 5));
    }

    #[test]
    fn child_receives_stop_if_flag_is_already_set() {
        let (ended, error, ..) = run("hear Stop; ended 5 false $ok; exec sleep 60", LONG, true);
        assert_eq!((ended.end_ns, error.is_none()), (5, true));
    }

    #[test]
    fn child_death_is_reported_and_its_counts_kept() {
        let (ended, error, sums, start_ns) = run("delta 1 2 100 0 0; kill -9 $$", LONG, false);
        let error = error.unwrap().to_string();
        assert!(error.contains("killed by signal 9"), "{error}");
        assert_eq!((ended.result, ended.is_covered, sums[0]), (Ok(()), false, 100));
        assert!(ended.end_ns >= start_ns);
        let (_, error, ..) = run("exit 3", LONG, false);
        assert!(error.unwrap().to_string().contains("exit code 3"));
        let (_, error, ..) = run("echo tralala; exec sleep 60", LONG, false);
        assert!(error.unwrap().to_string().contains("tralala"));
    }

    #[test]
    fn hung_child_is_killed() {
        for stopped in [false, true] {
            let start = Instant::now();
            let (_, error, sums, _) =
                run("delta 1 2 7 0 0; exec sleep 60", Duration::from_millis(300), stopped);
            let error = error.unwrap().to_string();
            assert!(error.contains("has not responded"), "{error}");
            assert_eq!(sums[0], 7);
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }

    #[test]
    fn child_startup_failure_is_reported() {
        let refusal = |script: &str, grace| start(script, grace).unwrap_err().to_string();
        let text = refusal("hear Span; echo '{\"Error\":\"no luck\"}'; exit 1", LONG);
        assert!(text.contains("no luck"), "{text}");
        assert!(refusal("exit 4", LONG).contains("exit code 4"));
        assert!(refusal("exec sleep 60", Duration::from_millis(300)).contains("has not responded"));
        let missing = StdioChild::start(Program::new("/nonexistent/skye"), job(), &[]);
        assert!(missing.unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn stop_flag_raised_during_work_is_forwarded() {
        let mut child = start(&format!("{READY}hear Stop; ended 5 false $ok"), LONG).unwrap();
        let (recorder, _reader) = Recorder::new(Shape::default());
        let stop = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&stop);
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            raised.store(true, Ordering::Relaxed);
        });
        let (ended, error) = child.run(Monotonic.now_ns(), u64::MAX, &stop, recorder);
        assert_eq!((ended.end_ns, error.is_none()), (5, true));
        raiser.join().unwrap();
    }
}
