//! From a plan to what was measured: prepares the data, drives the workers, samples the machine, stops at the right
//! moment and cleans up.
//!
//! Invariants:
//! - Nothing is written outside a [`WorkDirectory`], and every way out of a run removes it.
//! - Preparing and undoing are never timed.
//! - The thread that drives a run never calls the target itself while something is measured: workers do, and one
//!   that hangs or panics ends its phase, not the run.
//! - What was counted before a failure is kept.

pub mod ceilings;
mod clean;
mod collect;
mod data_phase;
mod dataset;
pub mod directory;
mod drive;
mod experiment;
mod file_phase;
mod knee;
mod member;
mod meter;
mod notes;
pub mod patience;
mod probes;
mod process;
mod record;
mod removal;
mod session;
mod sim_phase;
mod stdio_child;
mod steady_state;
mod worker_pool;

pub use clean::{Cleaned, clean};
pub use dataset::LayoutProgress;
pub use directory::{Removed, Removing, Unmade, WorkDirectory};
pub use drive::{Moment, Tick};
pub use knee::knee;
pub use record::record_id;
pub use session::{Session, Time};
pub use steady_state::Known;
