//! The traps: rules that check a record for an invalid or misleading result.
//!
//! A trap is a function from a [`JudgeInput`] to its finding. Its file lists it in `traps!`; its name is its code.
//!
//! A new trap needs a positive and a negative example (`tests/examples.rs`). The snapshot beside `tests.rs` shows its
//! figures and text together: read it. A trap sees the record alone, so the record must contain its facts. A fact that
//! only the run has becomes a note in `run/src/notes.rs`.

/// Lists the traps of a file.
macro_rules! traps {
    ($($code:ident),+ $(,)?) => {
        /// The traps of this file.
        pub(super) const TRAPS: &[super::Trap] = &[$(super::Trap { code: stringify!($code), check: $code }),+];
    };
}

pub(crate) mod cache;
pub(crate) mod direct;
mod disturbance;
mod durable;
mod files;
mod layout;
pub(crate) mod steadiness;
mod target;

use std::sync::LazyLock;

use model::finding::Finding;

use crate::{JudgeInput, TrapFinding};

/// A rule that checks a row for a trap.
#[derive(Debug, Clone, Copy)]
pub struct Trap {
    /// Its name in notes and in the reasons of distrust.
    pub code: &'static str,
    /// Returns the finding on a measured input; `None` if all is well or unknown.
    pub check: fn(&JudgeInput<'_>) -> Option<TrapFinding>,
}

/// Every trap, in the order of the codes of findings, which is that of reports.
pub static TRAPS: LazyLock<Vec<Trap>> = LazyLock::new(|| {
    let files = [
        cache::TRAPS,
        direct::TRAPS,
        disturbance::TRAPS,
        durable::TRAPS,
        files::TRAPS,
        layout::TRAPS,
        steadiness::TRAPS,
        target::TRAPS,
    ];
    let mut traps = files.concat();
    let place = |trap: &Trap| Finding::CODES.iter().position(|code| *code == trap.code);
    traps.sort_by_cached_key(|trap| place(trap).unwrap_or(usize::MAX));
    traps
});
