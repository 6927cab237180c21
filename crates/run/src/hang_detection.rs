//! Hang detection. Waits for a call while it makes progress, then reports it and abandons its thread.
//!
//! Progress is a count of the work itself (operations, bytes laid out, files removed), or bytes on the device of the
//! target's file system. For a target without devices, each new minimum of the machine's dirty pages is progress. Time
//! in which the process was stopped does not count.
//!
//! Slow is not hung: a wait may take longer than the longest one before it. See [`hang_timeout`].
//!
//! The thread of a hung call stays, and no other test starts. If no thread can be started, the work runs in place:
//! removing must be done.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use model::UserError;
use observe::Root;

use crate::meter::LowWatermark;

/// Time without progress after which work that has made progress before counts as hung.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);
/// The same for work without any progress yet: the kind of its calls may be slow.
const HANG_TIMEOUT_FIRST: Duration = Duration::from_secs(60);
/// Work counts as hung after this multiple of the longest time without progress that ended.
const LONGEST_FACTOR: u32 = 4;
/// Upper limit of the hang timeout.
const HANG_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// Timeout once the user insists on the end, or another call hangs. Removing a file may wait for its data.
const HANG_TIMEOUT_SHORT: Duration = Duration::from_secs(5);
/// Environment variable of tests: a time limit in seconds. Only builds with debug assertions read it, so that no user
/// shortens the time by accident.
const TEST_LIMIT: &str = "SKYE_TEST_PATIENCE";
/// Polling interval of work.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest gap between two checks while the process runs. A longer gap means that the process was stopped.
pub(crate) const POLL_MAX: Duration = Duration::from_secs(1);

static IS_TIMEOUT_SHORT: AtomicBool = AtomicBool::new(false);
/// Longest time without progress that ended, in nanoseconds.
static LONGEST_NS: AtomicU64 = AtomicU64::new(0);
/// Time limit that the user has set.
static LIMIT: OnceLock<Duration> = OnceLock::new();
/// Threads that were left behind in a call.
static HUNG_CALLS: Mutex<Vec<HungCall>> = Mutex::new(Vec::new());

struct HungCall {
    thread: i32,
    message: String,
}

/// Returns the hang timeout: four times the longest time without progress so far, but at most 10 min. It is at least 60
/// s until the first progress, and then at least 20 s. A time that the user has set replaces all.
pub fn hang_timeout(has_moved: bool) -> Duration {
    if is_timeout_short() || first_hung_call().is_some() {
        return HANG_TIMEOUT_SHORT.min(limit().unwrap_or(HANG_TIMEOUT_SHORT));
    }
    let longest = Duration::from_nanos(LONGEST_NS.load(Ordering::Relaxed));
    limit().unwrap_or_else(|| adaptive_hang_timeout(has_moved, longest))
}

/// Returns the time that another process with the same limit waits for a first call.
pub fn first_hang_timeout() -> Duration {
    limit().unwrap_or(HANG_TIMEOUT_FIRST)
}

fn adaptive_hang_timeout(has_moved: bool, longest: Duration) -> Duration {
    let least = if has_moved { HANG_TIMEOUT } else { HANG_TIMEOUT_FIRST };
    (longest * LONGEST_FACTOR).clamp(least, HANG_TIMEOUT_MAX)
}

/// Sets the time without progress after which work counts as hung. Only the first call counts.
pub fn set_limit(time: Duration) {
    let _ = LIMIT.set(time);
}

/// Returns the time that the user has set.
pub fn user_limit() -> Option<Duration> {
    LIMIT.get().copied()
}

fn limit() -> Option<Duration> {
    static TEST_TIME_LIMIT: LazyLock<Option<Duration>> = LazyLock::new(|| {
        let seconds = std::env::var(TEST_LIMIT).ok().filter(|_| cfg!(debug_assertions))?;
        seconds.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    });
    user_limit().or(*TEST_TIME_LIMIT)
}

/// Records that work continued after this time without progress.
pub(crate) fn record_pause(time: Duration) {
    LONGEST_NS.fetch_max(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Returns true if the user insists on the end.
pub fn is_timeout_short() -> bool {
    IS_TIMEOUT_SHORT.load(Ordering::Relaxed)
}

/// Shortens the hang timeout to five seconds.
pub fn shorten_timeout() {
    IS_TIMEOUT_SHORT.store(true, Ordering::Relaxed);
}

/// Returns the message on the first call that was left behind and has not returned: "fsync of /mnt/a has not
/// returned since 14:03:07 UTC".
pub fn first_hung_call() -> Option<String> {
    let left = HUNG_CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    left.iter().find(|left| observe::is_own_thread_alive(left.thread)).map(|left| left.message.clone())
}

/// Work in a separate thread.
pub struct SupervisedCall<T> {
    action: String,
    thread: Arc<AtomicI32>,
    state: State<T>,
}

enum State<T> {
    /// The thread leaves its result, and then says that it is done.
    Working(Arc<Mutex<Option<T>>>, Receiver<()>),
    /// It was done here, because no thread could be made: it must be done, and a hang is the lesser evil.
    Done(T),
    Lost,
}

/// Stack of a thread whose work may hang, as large as for the system's threads.
const STACK_BYTES: usize = 2 << 20;

/// Starts `work` in a separate thread.
pub fn begin<T: Send + 'static>(
    action: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> SupervisedCall<T> {
    let (sender, receiver) = sync_channel(1);
    let result = Arc::new(Mutex::new(None));
    let thread = Arc::new(AtomicI32::new(0));
    // The work is shared, because a thread that cannot be made would take the work with it.
    let work = Arc::new(Mutex::new(Some(work)));
    let (theirs, number, left) = (Arc::clone(&work), Arc::clone(&thread), Arc::clone(&result));
    let spawned = observe::thread::start("patient", STACK_BYTES, move || {
        number.store(observe::thread::proc_tid(), Ordering::Relaxed);
        if let Some(work) = take_result(&theirs) {
            leave(&left, work());
            let _ = sender.send(());
        }
    });
    let state = match spawned {
        Ok(_) => State::Working(result, receiver),
        Err(_) => take_result(&work).map_or(State::Lost, |work| State::Done(work())),
    };
    SupervisedCall { action: action.to_owned(), thread, state }
}

/// Calls that the thread of the work was seen in, one after the other. Getting a CPU is no sign of movement.
/// Now and then the kernel wakes a thread that waits for a dead server, or one that fills the cache.
#[derive(Default)]
struct Calls {
    last: Option<Vec<u8>>,
    count: u64,
}

impl Calls {
    fn sample(&mut self, thread: i32) -> u64 {
        let now = observe::call_of(thread);
        if now.is_some() && now != self.last {
            (self.last, self.count) = (now, self.count + 1);
        }
        self.count
    }
}

fn leave<T>(result: &Mutex<Option<T>>, value: T) {
    *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}

fn take_result<T>(result: &Mutex<Option<T>>) -> Option<T> {
    result.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<T> SupervisedCall<T> {
    /// Waits for the work as long as the value of `progress` changes, or its thread goes on from call to
    /// call.
    ///
    /// # Errors
    /// Fails if the work stood still for too long, and leaves its thread to itself. Fails if the work
    /// panicked.
    pub fn wait(self, progress: impl FnMut() -> u64) -> Result<T, UserError> {
        self.wait_with(hang_timeout, progress)
    }

    fn wait_with(
        self,
        hang_timeout: fn(bool) -> Duration,
        mut progress: impl FnMut() -> u64,
    ) -> Result<T, UserError> {
        let (result, receiver) = match self.state {
            State::Working(result, receiver) => (result, receiver),
            State::Done(result) => return Ok(result),
            State::Lost => return Err(UserError::new(self.action, "no thread can be created")),
        };
        wait_for(&self.action, &self.thread, &receiver, hang_timeout, &mut progress)?;
        take_result(&result).ok_or_else(|| UserError::new(self.action, PANICKED))
    }
}

const PANICKED: &str = "a thread of skye panicked";

/// Waits until the work says that it is done.
fn wait_for(
    action: &str,
    thread: &Arc<AtomicI32>,
    receiver: &Receiver<()>,
    hang_timeout: fn(bool) -> Duration,
    progress: &mut dyn FnMut() -> u64,
) -> Result<(), UserError> {
    let mut calls = Calls::default();
    let mut progress = || (progress(), calls.sample(thread.load(Ordering::Relaxed)));
    let mut seen = progress();
    let mut moved_at = Instant::now();
    let mut polled_at = moved_at;
    let mut has_moved = false;
    loop {
        let received = receiver.recv_timeout(POLL_INTERVAL);
        // Nothing moves while the machine or this process is stopped.
        moved_at += polled_at.elapsed().saturating_sub(POLL_MAX);
        polled_at = Instant::now();
        match received {
            Ok(()) => {
                record_pause(moved_at.elapsed());
                return Ok(());
            }
            Err(RecvTimeoutError::Disconnected) => return Err(UserError::new(action, PANICKED)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = progress();
        if now != seen {
            record_pause(moved_at.elapsed());
            // Another call says nothing about how long this one takes.
            has_moved |= now.0 != seen.0;
            (seen, moved_at) = (now, Instant::now());
        } else if moved_at.elapsed() > hang_timeout(has_moved) {
            return Err(hangs(action, &[thread.load(Ordering::Relaxed)], moved_at.elapsed()));
        }
    }
}

/// Runs `work` in a separate thread, and waits while it makes progress.
///
/// # Errors
/// As [`SupervisedCall::wait`].
pub fn wait_with_progress<T: Send + 'static>(
    action: &str,
    progress: impl FnMut() -> u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UserError> {
    begin(action, work).wait(progress)
}

/// Makes or changes a file in a separate thread. Waits while bytes are written or the machine writes pages: a sync may
/// have to wait for pages of other processes.
///
/// # Errors
/// As [`SupervisedCall::wait`].
pub fn write_with_progress<T: Send + 'static>(
    action: &str,
    work: impl FnOnce(&AtomicU64) -> T + Send + 'static,
) -> Result<T, UserError> {
    let written = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&written);
    let (root, mut low_watermark) = (Root::system(), LowWatermark::default());
    let progress = move || {
        low_watermark.is_new(observe::dirty_and_writeback_bytes(&root));
        low_watermark.count() + written.load(Ordering::Relaxed)
    };
    wait_with_progress(action, progress, move || work(&theirs))
}

/// Runs a check that nothing depends on. Returns `None` if it hangs, which does not mean that the target hangs.
pub fn sample<T: Send + 'static>(action: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match begin(action, work).state {
        State::Working(result, receiver) => {
            receiver.recv_timeout(hang_timeout(true)).ok().and_then(|()| take_result(&result))
        }
        State::Done(result) => Some(result),
        State::Lost => None,
    }
}

/// Returns the error about threads that hang, and abandons them. It contains the call of the first thread that is in
/// one.
pub fn hangs(action: &str, threads: &[i32], still_for: Duration) -> UserError {
    let seconds = still_for.as_secs();
    let since = SystemTime::now().checked_sub(still_for).unwrap_or_else(SystemTime::now);
    let since = since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() % 86_400);
    let clock = format!("{:02}:{:02}:{:02} UTC", since / 3600, since / 60 % 60, since % 60);
    let call = threads.iter().find_map(|thread| observe::stuck_call(*thread));
    let message = match call {
        Some(call) => format!("{call} has not returned since {clock}"),
        None => format!("there has been no progress since {clock}"),
    };
    let mut left = HUNG_CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    left.extend(threads.iter().map(|thread| HungCall { thread: *thread, message: message.clone() }));
    UserError::new(action, format!("{message}, for {seconds} s"))
        .help("check the kernel log for errors of the device or server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hang_timeout_scales_with_the_longest_wait() {
        for (has_moved, longest_s, expected_s) in [
            (false, 0, 60),
            (true, 0, 20),
            (true, 4, 20),
            (true, 25, 100),
            (false, 25, 100),
            (true, 400, 600),
        ] {
            let hang_timeout = adaptive_hang_timeout(has_moved, Duration::from_secs(longest_s));
            assert_eq!(hang_timeout, Duration::from_secs(expected_s), "{has_moved} {longest_s}");
        }
    }

    #[test]
    fn work_result_is_returned_and_panic_is_reported() {
        assert_eq!(wait_with_progress("add", || 0, || 1 + 1).unwrap(), 2);
        let error = wait_with_progress("add", || 0, || panic!("as asked")).unwrap_err();
        assert_eq!(error.cause, "a thread of skye panicked");
    }

    #[test]
    fn work_with_progress_between_calls_is_waited_for() {
        // A thread may get its CPU a second late.
        const SHORT: fn(bool) -> Duration = |_| Duration::from_millis(1500);
        const NAP: Duration = Duration::from_millis(200);
        let calls = || {
            let (_sender, receiver) = sync_channel::<()>(1);
            for _ in 0..5 {
                std::thread::sleep(NAP);
                receiver.recv_timeout(NAP).unwrap_err();
            }
        };
        begin("wait by turns", calls).wait_with(SHORT, || 0).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let reads = move || std::io::Read::read(&mut { reader }, &mut [0]).unwrap();
        let error = begin("read", reads).wait_with(SHORT, || 0).unwrap_err();
        assert!(error.cause.starts_with("read of pipe:["), "{}", error.cause);
        drop(writer);
    }

    #[test]
    fn hung_thread_is_reported_until_it_returns() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            std::io::Read::read(&mut { reader }, &mut [0]).unwrap()
        });
        let number = receiver.recv().unwrap();
        while observe::stuck_call(number).is_none_or(|call| !call.starts_with("read")) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let error = hangs("read a pipe", &[number], Duration::from_secs(20));
        assert!(error.cause.starts_with("read of pipe:["), "{}", error.cause);
        assert!(error.cause.ends_with(" UTC, for 20 s"), "{}", error.cause);
        assert!(first_hung_call().is_some_and(|message| error.cause.starts_with(&message)));
        drop(writer);
        thread.join().unwrap();
        while observe::is_own_thread_alive(number) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!HUNG_CALLS.lock().unwrap().is_empty());
    }
}
