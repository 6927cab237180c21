//! The traps. Each is a rule that tells from a record if a row fell into the trap.
//!
//! A trap is a function from a [`JudgeInput`] to its finding. The list of its file names it; its name is its code.
//!
//! A new trap needs an example that falls into it and one that does not (`tests/examples.rs`). The snapshot beside
//! `tests.rs` shows its figures and words together: read it. A trap sees the record alone, so the record must hold its
//! facts. A fact that only the run knows becomes a note in `run/src/notes.rs`.

/// Lists the traps of a file.
macro_rules! traps {
    ($($code:ident),+ $(,)?) => {
        /// The traps of this file.
        pub(super) const TRAPS: &[super::Trap] = &[$(super::Trap { code: stringify!($code), check: $code }),+];
    };
}

mod cache;
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

/// A rule that tells if a row fell into a trap.
#[derive(Debug, Clone, Copy)]
pub struct Trap {
    /// Its name in notes and in the reasons of distrust.
    pub code: &'static str,
    /// Returns the finding on a measured input; `None` where all is well or nothing can be told.
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
    traps.sort_by_key(|trap| Finding::CODES.iter().position(|code| *code == trap.code));
    traps
});
