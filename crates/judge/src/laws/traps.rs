//! The traps: rules that check a record for an invalid or misleading result.
//!
//! A trap is a function from an input to its finding. Its file lists it in `traps!`; its name is its code.
//!
//! A new trap needs a positive and a negative example (`tests/examples.rs`). The snapshot beside `tests.rs` shows its
//! figures and text together: read it. A trap sees the record alone, so the record must contain its facts. A fact that
//! only the run has becomes a note in `run/src/notes.rs`.

#[macro_use]
pub(crate) mod trap;

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

use self::trap::Trap;

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
