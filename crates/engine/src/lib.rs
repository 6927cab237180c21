//! How one operation is issued, timed and counted: the only hot loop of skye.
//!
//! Invariants:
//! - The measuring loop allocates nothing, locks nothing, formats nothing and logs nothing. What it needs is made
//!   before the start; what it counted leaves through a preallocated queue, once an interval ([`recorder`]).
//! - One worker is one thread with its own engine, buffers and histogram. Workers share nothing that is written
//!   in the loop: each has blocks of its own ([`pattern`]).
//! - No option is looked at in the loop: verb, engine, clock and pacing are type parameters of [`worker::Worker`].
//! - Every operation is timed by a monotonic clock, and no later than it is reaped.
//! - No file is opened, made or removed here but as the measured operation itself or its undoing ([`files`]).

pub mod buffer;
pub mod bytes;
pub mod clock;
pub mod data;
pub mod delay;
pub mod failure;
pub mod files;
pub mod names;
pub mod null;
pub mod pacing;
pub mod pattern;
pub mod recorder;
pub mod sim;
pub mod stdio;
pub mod sync;
pub mod uring;
pub mod verb;
pub mod worker;
pub mod zones;

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
    pub slot: u32,
    /// What to do.
    pub call: Call,
    /// On which of the worker's files.
    pub file: u32,
    /// Where in the file.
    pub offset_bytes: u64,
}

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The slot of its [`Io`].
    pub slot: u32,
    /// Bytes moved, or the negative number of the error, as the kernel tells it: eight bytes a completion.
    pub result: i32,
}

impl Completion {
    /// Bytes moved, or why it failed.
    ///
    /// # Errors
    /// What the kernel said to this call.
    pub fn outcome(self) -> Result<u32, rustix::io::Errno> {
        u32::try_from(self.result).map_err(|_| rustix::io::Errno::from_raw_os_error(-self.result))
    }
}

/// Issues calls on data: up to [`DataEngine::depth`] at a time, one per slot.
pub trait DataEngine {
    /// Whether [`DataEngine::reap`] may keep back calls that have ended.
    const KEEPS_BACK: bool = false;

    /// Calls that may be in flight; slots are numbered below it.
    fn depth(&self) -> u32;

    /// The bytes that the next write on `slot` will move, to be stamped before it is queued. Nothing that is in
    /// flight uses them.
    fn draft(&mut self, slot: u32) -> Draft<'_>;

    /// The bytes that the last read on `slot` brought.
    fn block_read(&self, slot: u32) -> &[u8];

    /// Prepares a call. Nothing need happen before [`DataEngine::reap`].
    fn queue(&mut self, io: Io);

    /// Sees to it that all queued calls are on their way, waits until at least one call has ended or `until_ns` has
    /// come on the clock of the worker, and hands out of those that have ended, without waiting for more. `u64::MAX`
    /// waits for a call, however long it takes.
    ///
    /// # Errors
    /// What the kernel said to the submission or the waiting as a whole; failed calls are completions.
    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, rustix::io::Errno>;

    /// Calls that it has kept back.
    fn left(&self) -> usize {
        0
    }
}

/// A block that is about to be written.
#[derive(Debug)]
pub struct Draft<'a> {
    /// Its bytes, all but the stamps.
    pub bytes: &'a mut [u8],
    /// Where in the pool it begins: what it contains follows from that ([`data::Stamp::phase_bytes`]).
    pub phase_bytes: u32,
    /// A copy of other blocks: stamped already, and never to be changed.
    pub is_duplicate: bool,
}
