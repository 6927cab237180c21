//! The traps. Each is a rule that tells from a record if a row fell into the trap.
//!
//! A trap is a function from a [`JudgeInput`] to its finding, and one line in [`TRAPS`].
//!
//! A new trap needs an example that falls into it and one that does not (`tests/examples.rs`). The snapshot beside
//! `tests.rs` shows its figures and words together: read it. A trap sees the record alone, so the record must hold its
//! facts. A fact that only the run knows becomes a note in `run/src/notes.rs`.

mod cache;
pub(crate) mod direct;
mod disturbance;
mod durable;
mod files;
mod layout;
pub(crate) mod steadiness;
mod target;

use crate::{JudgeInput, TrapFinding};

/// A rule that tells if a row fell into a trap.
#[derive(Debug)]
pub struct Trap {
    /// Its name in notes and in the reasons of distrust.
    pub code: &'static str,
    /// Returns the finding on a measured input; `None` where all is well or nothing can be told.
    pub check: fn(&JudgeInput<'_>) -> Option<TrapFinding>,
}

const fn trap(code: &'static str, check: fn(&JudgeInput<'_>) -> Option<TrapFinding>) -> Trap {
    Trap { code, check }
}

/// Every trap, in the order in which their findings are reported.
pub const TRAPS: &[Trap] = &[
    trap("memory_target", target::memory_target),
    trap("nothing_to_compare", target::nothing_to_compare),
    trap("unwritten_extents", direct::unwritten_extents),
    trap("o_direct_ineffective", direct::o_direct_ineffective),
    trap("device_disagrees", direct::device_disagrees),
    trap("counters_disagree", direct::counters_disagree),
    trap("depth_not_reached", direct::depth_not_reached),
    trap("nothing_durable", durable::nothing_durable),
    trap("durability_void", durable::durability_void),
    trap("flush_too_fast", durable::flush_too_fast),
    trap("absorbed_by_page_cache", durable::absorbed_by_page_cache),
    trap("served_from_page_cache", cache::served_from_page_cache),
    trap("cache_not_cold", cache::cache_not_cold),
    trap("below_os_cache", cache::below_os_cache),
    trap("server_cache", cache::server_cache),
    trap("several_passes", cache::several_passes),
    trap("metadata_cache", files::metadata_cache),
    trap("inode_search", files::inode_search),
    trap("too_few_samples", steadiness::too_few_samples),
    trap("not_steady", steadiness::not_steady),
    trap("wide_interval", steadiness::wide_interval),
    trap("one_run", steadiness::one_run),
    trap("rate_dropped", steadiness::rate_dropped),
    trap("rate_capped", steadiness::rate_capped),
    trap("several_modes", steadiness::several_modes),
    trap("foreign_io", disturbance::foreign_io),
    trap("steal", disturbance::steal),
    trap("cpu_contention", disturbance::cpu_contention),
    trap("thermal", disturbance::thermal),
    trap("upkeep", disturbance::upkeep),
    trap("parity_writes", layout::parity_writes),
    trap("members_unbalanced", layout::members_unbalanced),
    trap("fragmented", layout::fragmented),
    trap("compressible_target", target::compressible_target),
    trap("volatile_write_cache", durable::volatile_write_cache),
    trap("read_ahead", cache::read_ahead),
    trap("amplification", durable::amplification),
    trap("one_pass", steadiness::one_pass),
    trap("write_limit", steadiness::write_limit),
];
