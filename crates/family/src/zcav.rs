//! zcav: the rate of a file or device over its length, front to back.
//!
//! [`arguments`] parses its command line, [`Layout`] chooses the blocks to visit. [`translate`] makes them the zones of a
//! test. [`FileScan`] joins their [`Times`] to lines that took long enough to be rates, and makes a [`Log`] of them. [`read()`] finds logs in any text, [`Log::text`] writes
//! them, [`plot()`] draws them. [`results()`] compares them with other programs.

pub mod arguments;
mod layout;
mod lines;
mod log;
mod outcome;
mod plot;
mod read;
mod translation;

pub use layout::{Layout, Refusal};
pub use lines::LEAST_NS;
pub use log::{Line, Log, Pass, Verb};
pub use outcome::{FileScan, results, trimmed_mean};
pub use plot::{TITLE as PLOT_TITLE, plot};
pub use read::{Problem, read};
pub use translation::{Times, translate};

/// Bytes of a MiB, in which zcav counts.
pub const MIB: u64 = 1 << 20;
/// Bytes of a GiB, in which zcav shows offsets.
pub const GIB: u64 = 1 << 30;
