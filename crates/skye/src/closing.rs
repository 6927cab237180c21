//! The end of the program: removals that a hung target has delayed, and calls that the kernel still waits for.
//!
//! The removal continues in its own thread while the program prints and saves its measurements. At the very end, `main`
//! waits for it. The kernel keeps the process until a hung call returns, and the last line says so.

use std::sync::{Mutex, PoisonError};

use model::UserError;
use run::{PendingRemoval, RemovalOutcome, hang_detection};

use crate::exit;
use crate::terminal;

/// Number of paths that are named one by one.
const LINES_MAX: usize = 5;

/// Removals that are under way.
static REMOVALS: Mutex<Vec<PendingRemoval>> = Mutex::new(Vec::new());

/// Leaves a removal to [`finish`].
pub fn later(removing: PendingRemoval) {
    REMOVALS.lock().unwrap_or_else(PoisonError::into_inner).push(removing);
}

/// Returns lines about the files that a removal has left.
pub fn leftover_lines(removed: Result<RemovalOutcome, UserError>) -> Vec<String> {
    match removed {
        Ok(removed) => {
            let more = removed.left.len().saturating_sub(LINES_MAX);
            let first_files = removed.left.iter().take(LINES_MAX);
            let lines = first_files.map(|(path, why)| format!("left {}: {why}", path.display()));
            let rest =
                (more > 0).then(|| format!("{more} more not removed; remove them later with `skye clean`"));
            lines.chain(rest).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

/// Waits for removals as long as they make progress. Says what is left, and what keeps the process from ending. Returns
/// the exit code.
pub fn finish(code: u8) -> u8 {
    terminal::remove_live();
    let removals = std::mem::take(&mut *REMOVALS.lock().unwrap_or_else(PoisonError::into_inner));
    let lines: Vec<_> = removals.into_iter().flat_map(|removing| leftover_lines(removing.wait())).collect();
    lines.iter().for_each(|line| terminal::error(line));
    let first_hung_call = hang_detection::first_hung_call();
    if let Some(call) = &first_hung_call {
        terminal::message(
            "skye",
            &format!("{call}: this process exits when the call returns; everything else is done"),
        );
    }
    if code == exit::DONE && (!lines.is_empty() || first_hung_call.is_some()) { exit::FAILED } else { code }
}
