//! Waiting for work that may hang: as long as it moves, and no longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use model::Trouble;

/// Work that has not moved for so long is taken to hang. Slow media and busy servers answer within seconds.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `work` in a thread of its own and waits for it as long as `progress` moves.
///
/// # Errors
/// It stood still for [`PATIENCE`]; the thread is left to itself then.
pub fn wait_while_it_moves<T: Send + 'static>(
    attempt: &str,
    progress: &Arc<AtomicU64>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || sender.send(work()));
    let mut seen = progress.load(Ordering::Relaxed);
    let mut moved_at = Instant::now();
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Trouble::new(attempt, "a thread of skye panicked"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = progress.load(Ordering::Relaxed);
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
