//! The end of the program: what a target that hangs has kept from being removed, and what the kernel still waits for.

use std::sync::{Mutex, PoisonError};

use model::Trouble;
use run::{Removed, Removing, patience};

use crate::exit;
use crate::terminal;

/// Paths that are named one by one.
const SHOWN: usize = 5;

/// Removals that are under way.
static REMOVALS: Mutex<Vec<Removing>> = Mutex::new(Vec::new());

/// Leaves a removal to [`finish`].
pub fn later(removing: Removing) {
    REMOVALS.lock().unwrap_or_else(PoisonError::into_inner).push(removing);
}

/// What a removal has left, in lines.
pub fn left(removed: Result<Removed, Trouble>) -> Vec<String> {
    match removed {
        Ok(removed) => {
            let more = removed.left.len().saturating_sub(SHOWN);
            let shown = removed.left.iter().take(SHOWN);
            let lines = shown.map(|(path, why)| format!("left {}: {why}", path.display()));
            let rest = (more > 0)
                .then(|| format!("left {more} more; `skye clean` removes what it can, when it can"));
            lines.chain(rest).collect()
        }
        Err(trouble) => vec![trouble.to_string()],
    }
}

/// Waits for removals as long as they move, says what is left and what keeps the process; the code to end with.
pub fn finish(code: u8) -> u8 {
    let removals = std::mem::take(&mut *REMOVALS.lock().unwrap_or_else(PoisonError::into_inner));
    let lines: Vec<_> = removals.into_iter().flat_map(|removing| left(removing.wait())).collect();
    lines.iter().for_each(|line| terminal::error(line));
    let hanging = patience::hanging();
    if let Some(call) = &hanging {
        terminal::message(
            "skye",
            &format!("{call}: the process ends when the kernel lets go of it; nothing else is outstanding"),
        );
    }
    if code == exit::DONE && (!lines.is_empty() || hanging.is_some()) { exit::FAILED } else { code }
}
