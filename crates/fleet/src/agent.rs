//! The agent's end of its channel: a thread that reads commands, one that sends signs of life, and a writer for all.
//!
//! Questions for the time are answered by the reader at once. Where the commands end, or the coordinator is lost, the
//! reader raises a flag that ends the work in progress. The rest is the program's: it removes its files and ends.
//!
//! A coordinator that is the parent of this process is lost once it has ended, and another one after [`SILENCE_TIMEOUT`]. Once a
//! signal has asked this process to end, no write waits longer than [`FINAL_WRITE_TIMEOUT`] for a reader.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::UserError;
use model::frames::{FromAgent, Hello, ToAgent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use rustix::time::{ClockId, clock_gettime};

use crate::channel::{self, FrameReader};
use crate::waiting::{RunningClock, SILENCE_TIMEOUT};

/// Interval between signs of life, on both sides.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait of one poll, so that flags are seen. A thousand agents of one machine wake up as often.
const POLL_INTERVAL_NS: i64 = 500_000_000;
/// Digits of the largest seed.
const SEED_DIGITS: usize = 20;
/// Time that a coordinator may take until its first frame: ssh may still ask other machines for names.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without any byte after which a write gives up, once this process is to end.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most characters of the number of a session that count: it has 16 digits, and gets into a marker.
const SESSION_MAX: usize = 64;

/// The channel of an agent.
pub struct Wire {
    commands: Receiver<ToAgent>,
    shared: Arc<Shared>,
    session: String,
}

/// State that the threads of a channel share.
struct Shared {
    /// Held while a frame is written, so that frames never mix.
    writing: Mutex<()>,
    /// Raised when the coordinator is gone, or an end was requested.
    interrupt: Arc<AtomicBool>,
    /// Raised when the running test has done enough.
    enough: Arc<AtomicBool>,
    /// True once the coordinator is gone.
    is_disconnected: AtomicBool,
    /// The parent that is the coordinator; `None` for a coordinator elsewhere.
    parent: Option<Pid>,
    /// Returns true once a signal has requested the end of this process.
    is_ended: fn() -> bool,
}

/// Returns the monotonic clock of this machine.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative on a monotonic clock.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the words behind skye that start an agent for this directory, within these limits.
pub fn words(directory: &str, limits: &[String]) -> Vec<String> {
    let mut words = ["agent", "--dir", directory].map(str::to_owned).to_vec();
    words.extend(limits.iter().cloned());
    words
}

/// Returns the same words for a process that this one starts, without a launcher.
pub fn local_agent_words(directory: &str, limits: &[String]) -> Vec<String> {
    [words(directory, limits), vec!["--here".to_owned()]].concat()
}

impl Wire {
    /// Exchanges the first frames on standard input and output, and starts the threads. `interrupt` is raised when the
    /// work in progress has to end. With `is_local`, the parent of this process is the coordinator. `is_ended` returns
    /// true once a signal has requested the end of this process.
    ///
    /// # Errors
    /// No coordinator uses the protocol on standard input, or a signal ends the wait.
    pub fn open(
        version: &str,
        is_local: bool,
        interrupt: Arc<AtomicBool>,
        is_ended: fn() -> bool,
    ) -> Result<Self, UserError> {
        let action = "communicate with a coordinator on stdin and stdout";
        let help = "`skye run --hosts` starts agents by itself";
        let fail = |cause: &dyn std::fmt::Display| UserError::new(action, cause).help(help);
        for stream in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
            rustix::io::ioctl_fionbio(stream, true).map_err(|errno| fail(&io::Error::from(errno)))?;
        }
        let shared = Arc::new(Shared {
            writing: Mutex::new(()),
            interrupt,
            enough: Arc::default(),
            is_disconnected: AtomicBool::new(false),
            parent: getppid().filter(|_| is_local),
            is_ended,
        });
        let mut input = Input { frames: FrameReader::default(), idle: IdleTimer::new() };
        let hello: Hello = loop {
            match input.frames.next().map_err(|why| fail(&why.0))? {
                Some(document) => {
                    break channel::decode(&document, SEED_DIGITS).map_err(|why| fail(&why.0))?;
                }
                None if is_ended() => return Err(fail(&"a signal interrupted the wait")),
                None if input.idle.clock.now() > HELLO_TIMEOUT => {
                    return Err(fail(&"no coordinator sent a message in time"));
                }
                None if !input.read().map_err(|error| fail(&error))? => {
                    return Err(fail(&"stdin ended before a coordinator sent a message"));
                }
                None => {}
            }
        };
        let own = Hello::new(version, &hello.session);
        shared.write(&own).map_err(|()| fail(&"the coordinator has exited"))?;
        let (sender, commands) = channel();
        let start = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(body).map_err(|error| fail(&error))
        };
        let theirs = Arc::clone(&shared);
        start("commands", Box::new(move || theirs.read_all(input, &sender)))?;
        let theirs = Arc::clone(&shared);
        start("beat", Box::new(move || theirs.beat()))?;
        // The coordinator says the same, with the names of both hosts. It closes the channel.
        let session = hello.session.chars().take(SESSION_MAX).collect();
        Ok(Self { commands, shared, session })
    }

    /// Returns the number of the session, which all clients of the run have.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the next command if it comes within a time; `Ok(None)` if none does.
    ///
    /// # Errors
    /// The coordinator is gone. Commands that it has sent before are not carried out any more.
    pub fn next_within(&self, time: Duration) -> Result<Option<ToAgent>, ConnectionLost> {
        if self.is_disconnected() {
            return Err(ConnectionLost);
        }
        match self.commands.recv_timeout(time) {
            Ok(command) => Ok(Some(command)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ConnectionLost),
        }
    }

    /// Sends a frame. If the coordinator is gone, the next command reports that.
    pub fn send(&self, frame: &FromAgent) {
        let _ = self.shared.write(frame);
    }

    /// Returns the flag that is raised when the running test has done enough.
    pub fn enough(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.enough)
    }

    /// Returns true once the coordinator is gone.
    pub fn is_disconnected(&self) -> bool {
        self.shared.is_disconnected.load(Ordering::SeqCst)
    }
}

/// The coordinator is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLost;

/// Time since the last byte in one direction.
struct IdleTimer {
    clock: RunningClock,
    /// Time of the last byte.
    last_byte: Duration,
}

impl IdleTimer {
    fn new() -> Self {
        Self { clock: RunningClock::new(), last_byte: Duration::ZERO }
    }

    fn end(&mut self) {
        self.last_byte = self.clock.now();
    }

    /// Returns the time without any byte in which this thread ran.
    fn length(&mut self) -> Duration {
        self.clock.now().saturating_sub(self.last_byte)
    }
}

/// Bytes from the coordinator.
struct Input {
    frames: FrameReader,
    idle: IdleTimer,
}

impl Input {
    /// Waits for bytes for a moment, and takes them; false at their end.
    fn read(&mut self) -> io::Result<bool> {
        let stdin = rustix::stdio::stdin();
        if !wait(stdin, PollFlags::IN)? {
            return Ok(true);
        }
        let mut bytes = [0; 1 << 16];
        match rustix::io::read(stdin, &mut bytes) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.idle.end();
                self.frames.push(&bytes[..count]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Waits for a moment; true if the descriptor is ready.
fn wait(stream: BorrowedFd<'_>, flags: PollFlags) -> io::Result<bool> {
    let mut polled = [PollFd::from_borrowed_fd(stream, flags)];
    match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL_NS })) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl Shared {
    /// Hands commands over until they end.
    fn read_all(&self, mut input: Input, commands: &Sender<ToAgent>) {
        let why = loop {
            match input.frames.next() {
                Ok(Some(document)) => match channel::decode(&document, SEED_DIGITS) {
                    Ok(command) => {
                        if !self.take(command, commands) {
                            break "the program has exited".to_owned();
                        }
                    }
                    Err(why) => break why.0,
                },
                Err(why) => break why.0,
                Ok(None) => {
                    let is_stopped = self.is_disconnected.load(Ordering::SeqCst);
                    match input.read() {
                        Ok(true) if is_stopped => break "sending to it fails".to_owned(),
                        Ok(true) if self.is_lost(&mut input.idle) => {
                            break "it has sent nothing for too long".to_owned();
                        }
                        Ok(true) => {}
                        Ok(false) => break "it closed the channel".to_owned(),
                        Err(error) => break error.to_string(),
                    }
                }
            }
        };
        log::debug!("the connection to the coordinator is lost: {why}");
        self.is_disconnected.store(true, Ordering::SeqCst);
        self.interrupt.store(true, Ordering::SeqCst);
    }

    /// Returns true if the coordinator has ended here, or has been silent elsewhere for too long.
    fn is_lost(&self, idle: &mut IdleTimer) -> bool {
        match self.parent {
            Some(parent) => getppid() != Some(parent),
            None => idle.length() > SILENCE_TIMEOUT,
        }
    }

    /// Returns true as long as the coordinator may still take what is written.
    fn can_still_write(&self, idle: &mut IdleTimer) -> bool {
        let is_given_up = (self.is_ended)() && idle.length() > FINAL_WRITE_TIMEOUT;
        !is_given_up && !self.is_lost(idle)
    }

    /// Executes commands that cannot wait, and hands over all others; false if their receiver is gone.
    fn take(&self, command: ToAgent, commands: &Sender<ToAgent>) -> bool {
        match command {
            ToAgent::Beat {} => true,
            ToAgent::Ping { number } => self.write(&FromAgent::Pong { number, at_ns: now_ns() }).is_ok(),
            ToAgent::EndTest {} => {
                self.enough.store(true, Ordering::SeqCst);
                true
            }
            ToAgent::Interrupt {} => {
                // The second one is that of a user who insists.
                if self.interrupt.swap(true, Ordering::SeqCst) {
                    run::hang_detection::shorten_timeout();
                }
                true
            }
            other => commands.send(other).is_ok(),
        }
    }

    /// Sends heartbeats until the coordinator is gone.
    fn beat(&self) {
        while !self.is_disconnected.load(Ordering::SeqCst) {
            let _ = self.write(&FromAgent::Beat {});
            std::thread::sleep(HEARTBEAT_INTERVAL);
        }
    }

    /// Writes a frame. Gives up once the coordinator is gone.
    fn write(&self, frame: &impl model::json::ToJson) -> Result<(), ()> {
        let Some(bytes) = channel::encode(frame) else { return Err(()) };
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let stdout = rustix::stdio::stdout();
        let (mut rest, mut idle) = (&bytes[..], IdleTimer::new());
        while !rest.is_empty() {
            if self.is_disconnected.load(Ordering::SeqCst) {
                return Err(());
            }
            match rustix::io::write(stdout.as_fd(), rest) {
                Ok(count) => {
                    rest = &rest[count..];
                    idle.end();
                }
                Err(Errno::INTR) => {}
                // A coordinator that takes nothing is as silent as one that says nothing.
                Err(Errno::AGAIN)
                    if self.can_still_write(&mut idle) && wait(stdout, PollFlags::OUT).is_ok() => {}
                Err(_) => {
                    // The reader ends too, and raises the flag.
                    self.is_disconnected.store(true, Ordering::SeqCst);
                    return Err(());
                }
            }
        }
        Ok(())
    }
}
