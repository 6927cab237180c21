//! Waiting for work that may hang: as long as it moves, and no longer.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::Trouble;

/// Work that has not moved for so long is taken to hang. Slow media and busy servers answer within seconds.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `work` in a thread of its own and waits for it as long as what `progress` gives changes.
///
/// Where no thread can be made, the work is done here: it must be done, and hanging is the lesser evil.
///
/// # Errors
/// It stood still for [`PATIENCE`]; the thread is left to itself then. Or it panicked.
pub fn wait_while_it_moves<T: Send + 'static>(
    attempt: &str,
    mut progress: impl FnMut() -> u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    let (sender, receiver) = sync_channel(1);
    // Shared, because a thread that cannot be made would take the work with it.
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().ok().and_then(|mut work| work.take());
    let theirs = Arc::clone(&work);
    let thread = std::thread::Builder::new().name("patient".into()).spawn(move || {
        if let Some(work) = take(&theirs) {
            let _ = sender.send(work());
        }
    });
    if thread.is_err() {
        return match take(&work) {
            Some(work) => Ok(work()),
            None => Err(Trouble::new(attempt, "no thread can be made")),
        };
    }
    let mut seen = progress();
    let mut moved_at = Instant::now();
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Trouble::new(attempt, "a thread of skye panicked"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = progress();
        if now != seen {
            (seen, moved_at) = (now, Instant::now());
        } else if moved_at.elapsed() > PATIENCE {
            return Err(hangs(attempt));
        }
    }
}

/// The message about work that hangs.
pub fn hangs(attempt: &str) -> Trouble {
    Trouble::new(attempt, format!("nothing has moved for {} s", PATIENCE.as_secs())).remedy(
        "look at the kernel's log for the device or server; run `skye clean` there when it answers again",
    )
}
