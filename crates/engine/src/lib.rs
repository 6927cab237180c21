//! How one operation is issued, timed and counted: the only hot loop of skye.
//!
//! Invariants:
//! - The measuring loop allocates nothing, locks nothing, formats nothing and logs nothing. What it needs is made
//!   before the start; what it counted leaves through a preallocated queue, once an interval ([`recorder`]).
//! - One worker is one thread with its own engine, buffers and histogram. Workers share nothing that is written
//!   in the loop but the cursor of a stream that several of them serve ([`pattern`]).
//! - No option is looked at in the loop: verb, engine, clock and pacing are type parameters of [`worker::Worker`].
//! - Every operation is timed by a monotonic clock, and no later than it is reaped.
//! - No file is opened, made or removed here but as the measured operation itself or its undoing ([`files`]).

pub mod buffer;
pub mod clock;
pub mod data;
pub mod failure;
pub mod files;
pub mod names;
pub mod pacing;
pub mod pattern;
pub mod recorder;
pub mod sync;
pub mod verb;
pub mod worker;

pub use failure::Failure;

/// One call on data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `pread`
    Read,
    /// `pwrite`
    Write,
    /// `fdatasync`
    Datasync,
}

impl Call {
    /// The name of the call in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Datasync => "fdatasync",
        }
    }
}

/// One call that an engine is asked to make.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// Whose buffer it uses, and by what it is known when it completes: below the engine's depth.
    pub slot: usize,
    /// What to do.
    pub call: Call,
    /// On which of the worker's files.
    pub file: usize,
    /// Where in the file.
    pub offset_bytes: u64,
}

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The slot of its [`Io`].
    pub slot: usize,
    /// Bytes moved, or why it failed.
    pub result: Result<usize, rustix::io::Errno>,
}

/// Issues calls on data: up to [`DataEngine::depth`] at a time, one per slot.
pub trait DataEngine {
    /// Calls that may be in flight; slots are numbered below it.
    fn depth(&self) -> usize;

    /// The bytes that a write on `slot` at `offset_bytes` will move, to be stamped before it is queued. They follow
    /// from the place, so that what lies there can be computed again; reads move into a buffer of the slot's own.
    fn block_to_write(&mut self, slot: usize, offset_bytes: u64) -> &mut [u8];

    /// Prepares a call. Nothing need happen before [`DataEngine::commit`].
    fn queue(&mut self, io: Io);

    /// Makes sure that all queued calls are on their way.
    ///
    /// # Errors
    /// What the kernel said to the submission as a whole.
    fn commit(&mut self) -> Result<(), rustix::io::Errno>;

    /// Waits until at least one call has ended and hands out as many as have, without waiting for more.
    ///
    /// # Errors
    /// What the kernel said to the waiting itself; failed calls are completions.
    fn reap(&mut self, done: &mut [Completion]) -> Result<usize, rustix::io::Errno>;
}
