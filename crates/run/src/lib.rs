//! Turns a plan into measurements: prepares the data, drives the workers, samples the machine, stops at the right
//! moment and cleans up.
//!
//! A [`Session`] is one run. Its phases are in `data_phase`, `file_phase` and `sim_phase`. The driver in `drive` waits
//! for the workers. Counters come from `meter`, and records from `record`; `sum` adds those of several clients, and
//! `watch` observes a server during a test. The rules that keep the target from harm are in `directory`, `removal` and
//! `clean`.
//!
//! A `Plan` says what to do, and [`PhaseEvent`]s report progress. This crate has no printing, no store, no command
//! line, and starts no other program but the process for the C library.
//!
//! Invariants:
//! - Every file is in a [`WorkDirectory`], and every way out of a run removes it. A simulated run makes none, nor does
//!   one on a file or device, which is only read (`data_location`).
//! - Preparing and undoing are never timed.
//! - The thread that drives a run makes no call on the target while something is measured. A worker that hangs or
//!   panics ends its phase, not the run.
//! - Counts from before a failure are kept.

mod by_place;
mod caches;
pub mod ceilings;
mod clean;
mod collect;
mod data_location;
mod data_phase;
mod dataset;
pub mod directory;
mod drive;
mod experiment;
mod extents;
mod file_phase;
pub mod hang_detection;
mod knee;
mod member;
mod meter;
mod notes;
mod peer;
mod precondition;
mod probes;
mod process;
mod record;
mod remedy;
mod removal;
mod room;
mod rounds;
mod session;
mod side;
mod sim_phase;
mod stdio_child;
mod steady_state;
pub mod sum;
mod task;
mod watch;
mod worker_pool;
mod zoned;

pub use clean::{CleanOutcome, clean, clean_uploads};
pub use dataset::LayoutProgress;
pub use directory::{CreateError, PendingRemoval, RemovalOutcome, WorkDirectory};
pub use drive::{ClientsNow, PhaseEvent, StartSignal, Tick};
pub use experiment::{return_visit_bytes, return_visit_of};
pub use knee::knee;
pub use record::record_id;
pub use session::{ClientOptions, Session, SessionOptions};
pub use side::{PhaseOutcome, Side, SideEnd};
pub use steady_state::{Precision, precision};
pub use watch::Watch;
pub use zoned::Zoned;
