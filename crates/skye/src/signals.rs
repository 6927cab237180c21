//! Signals as flags: the first ends the run and keeps what was measured, a second skips saving. None skips the removal
//! of files.
//!
//! The standard library ignores SIGPIPE, so a pipe without a reader is an error of the write. On stdout, it ends the run.
//! SIGXFSZ is caught so that the write fails with EFBIG. The process for the C library ignores the signals. The run stops
//! it, or the kernel kills it with the thread that started it.
//!
//! A panic of a worker reaches the driver as a message. A panic of the driver removes the work directory on its way
//! out.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::exit::Failure;
use crate::memory;

/// Signals that are caught. All end a run except XFSZ, the file size limit: once caught, it becomes an error of the
/// write (EFBIG).
const ENDING: [i32; 9] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM, SIGXFSZ];

/// Signals that stay ignored if they were ignored before us. nohup ignores HUP. A script's shell ignores INT and QUIT
/// for commands in the background.
const KEPT_IF_IGNORED: [i32; 3] = [SIGHUP, SIGINT, SIGQUIT];

/// Returns the ignored signals as bits, the lowest for signal 1; 0 where the kernel does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// First signal that requested an end, and its time. There is one for the process, as there is one stdout.
static FIRST: OnceLock<(i32, Instant)> = OnceLock::new();

/// Returns true if a signal requested an end at least `age` ago, or if the user has insisted since.
pub fn was_ended_before(age: Duration) -> bool {
    FIRST.get().is_some_and(|(_, since)| since.elapsed() >= age) || run::hang_detection::is_timeout_short()
}

/// Returns the exit code of a program whose stdout has no reader any more: that of the first signal, if any arrived.
pub fn exit_code_unread() -> u8 {
    FIRST.get().map_or(crate::exit::DONE, |(signal, _)| exit_code(*signal))
}

/// Returns the exit code for a signal. A reader that is gone is no error.
fn exit_code(signal: i32) -> u8 {
    if signal == SIGPIPE { crate::exit::DONE } else { 128 + signal as u8 }
}

/// Signals that have arrived.
#[derive(Debug, Clone, Default)]
pub struct Interruption {
    /// Raised by the first signal; workers and waits look at it.
    pub raised: Arc<AtomicBool>,
    first: Arc<AtomicI32>,
    count: Arc<AtomicU32>,
}

impl Interruption {
    /// Starts to catch the signals that would end us.
    ///
    /// # Errors
    /// The system refuses a handler or a thread.
    pub fn catch() -> Result<Self, Failure> {
        Self::try_catch().map_err(|error| {
            Failure::Failed(format!(
                "cannot catch signals: {error}; the limit of processes or threads may be reached"
            ))
        })
    }

    fn try_catch() -> std::io::Result<Self> {
        let interruption = Self::default();
        memory::raise_when_short(&interruption.raised);
        let ignored = ignored();
        let is_ours =
            |signal: &&i32| !(KEPT_IF_IGNORED.contains(signal) && ignored & 1 << (**signal - 1) != 0);
        // With their infos, so that two of the same number are two, however late this thread is.
        let mut signals = SignalsInfo::<WithRawSiginfo>::new(ENDING.iter().filter(is_ours))?;
        let seen = interruption.clone();
        observe::thread::start("signals", 64 << 10, move || {
            let numbers = signals.forever().map(|info| info.si_signo);
            numbers.filter(|signal| *signal != SIGXFSZ).for_each(|signal| seen.note(signal));
        })?;
        Ok(interruption)
    }

    fn note(&self, signal: i32) {
        // Only the first signal decides the exit code, which is known before a wait ends.
        let _ = self.first.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        let _ = FIRST.set((signal, Instant::now()));
        // A reader that is gone is no user who insists. Neither is a limit of CPU time: the kernel repeats XCPU every
        // second.
        if !matches!(signal, SIGPIPE | SIGXCPU) && self.count.fetch_add(1, Ordering::SeqCst) > 0 {
            run::hang_detection::shorten_timeout();
        }
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Ends the run as if the reader had gone away.
    pub fn reader_is_gone(&self) {
        self.note(SIGPIPE);
    }

    /// Returns true if the run is to end.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// Returns true if the user has insisted with a second signal.
    pub fn is_repeated(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 1
    }

    /// Returns the exit code that a signal calls for, if one arrived.
    pub fn exit_code(&self) -> Option<u8> {
        match self.first.load(Ordering::SeqCst) {
            _ if memory::is_short() => Some(crate::exit::FAILED),
            0 => None,
            signal => Some(exit_code(signal)),
        }
    }

    /// Returns the reason for the end, for messages.
    pub fn reason(&self) -> String {
        match memory::is_short() {
            true => "ended: out of memory".to_owned(),
            false => format!("ended by SIG{}", self.name()),
        }
    }

    /// Returns the name of the first signal, for messages.
    pub fn name(&self) -> &'static str {
        let name = signal_hook::low_level::signal_name(self.first.load(Ordering::SeqCst));
        name.and_then(|name| name.strip_prefix("SIG")).unwrap_or("PIPE")
    }
}
