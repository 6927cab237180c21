//! Issues, times and counts one operation at a time. The only hot loops of skye are here.
//!
//! An engine makes calls: [`sync`], [`mapped`], [`uring`], [`null`] or [`sim`]. A loop drives it: [`worker`] on blocks, [`bytes`]
//! on single bytes, [`files`] on names. A [`budget`] limits the bytes that it writes. [`zones`] divides the blocks, for the rate over the offset. [`stdio`] calls the C library,
//! and [`c_library`] has its name.
//!
//! Invariants:
//! - The measuring loops allocate, lock, format and log nothing. `tests/no_allocation.rs` tests every engine, verb and
//!   pacing. Workers make all that they need before the start.
//! - Counts leave a loop through a preallocated queue, once an interval ([`recorder`]).
//! - One worker is one thread with its own engine, buffers and histogram. Workers share nothing that the loop writes:
//!   each has its own blocks ([`pattern`]).
//! - No branch on an option costs more than one instruction in twenty. The tables in [`data_loop`] and [`files`] say which
//!   choices are types, and why.
//! - A clock times every operation except single bytes, no later than the operation is reaped. The clock is the
//!   processor's counter, the kernel's monotonic clock, or that of a simulated device ([`clock`]).
//! - A verb that writes never has one block in flight twice: the final data would be undefined.
//! - Workers have disjoint ranges, and a pass visits each block once. Where two passes overlap, a block in flight waits
//!   (`Worker::next_block`). A skewed order ([`skew`]) repeats blocks at any time, so there every block does.
//! - Buffers in flight are never freed or reused. A slot queues nothing before its call has ended. A pool hands out no
//!   slice in flight. A ring that is dropped with calls in flight leaves its memory to them.
//! - A file is opened, made or removed only as the measured operation itself or its undoing ([`files`]).

pub mod budget;
pub mod buffer;
pub mod bytes;
pub mod c_library;
pub mod call_flags;
pub mod clock;
pub mod data;
pub mod data_loop;
pub mod discard;
pub mod earlier;
pub mod failure;
pub mod files;
pub mod mapped;
pub mod names;
pub mod null;
pub mod one_by_one;
pub mod pacing;
pub mod pattern;
pub mod recorder;
pub mod regions;
pub mod sample;
pub mod sim;
pub mod skew;
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
    /// [`discard::discard`]
    Discard,
}

impl Call {
    /// The name of the call in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Datasync => "fdatasync",
            Self::Discard => "discard",
        }
    }

    /// The names of the kernel's calls for it.
    pub const fn kernel_calls(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["read", "pread64", "preadv2"],
            Self::Write => &["write", "pwrite64", "pwritev2"],
            Self::Datasync => &["fdatasync"],
            Self::Discard => &["fallocate", "ioctl"],
        }
    }

    /// Returns true if the call moves the bytes of a block.
    #[inline]
    pub const fn moves(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// One call for an engine to make.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    /// Slot whose buffer the call uses, and which identifies it at completion: below the engine's depth.
    pub slot: u32,
    /// The call to make.
    pub call: Call,
    /// Index of the file among the worker's files.
    pub file: u32,
    /// Offset in the file.
    pub offset_bytes: u64,
}

/// A completed call.
#[derive(Debug, Clone, Copy)]
pub struct Completion {
    /// The slot of its [`Io`].
    pub slot: u32,
    /// Bytes moved, or the negative error number, as the kernel reports it. A completion thus takes eight bytes.
    pub result: i32,
}

impl Completion {
    /// Returns the bytes moved.
    ///
    /// # Errors
    /// The error that the kernel returned for this call.
    pub fn outcome(self) -> Result<u32, rustix::io::Errno> {
        u32::try_from(self.result).map_err(|_| rustix::io::Errno::from_raw_os_error(-self.result))
    }
}

/// Issues calls on data: up to [`DataEngine::depth`] at a time, one per slot.
pub trait DataEngine {
    /// Most calls in flight; slots have numbers below it.
    fn depth(&self) -> u32;

    /// Bytes of one block.
    fn block_bytes(&self) -> u64;

    /// The bytes that the next write on `slot` will move. The caller stamps them before it queues the write. No call in
    /// flight uses them.
    fn draft(&mut self, slot: u32) -> PendingBlock<'_>;

    /// The bytes that the last read on `slot` returned.
    fn block_read(&self, slot: u32) -> &[u8];

    /// Prepares a call. The engine may delay all work on it until [`DataEngine::reap`].
    fn queue(&mut self, io: Io);

    /// Submits all queued calls, then waits until at least one call has completed or the worker's clock reaches
    /// `until_ns`. Hands out completed calls without waiting for more. With `until_ns` of `u64::MAX` it waits for a
    /// call, however long it takes.
    ///
    /// # Errors
    /// An error of the submission or the wait as a whole. A failed call is a completion instead.
    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, rustix::io::Errno>;

    /// Makes another call for the rest of a block, of which `from_bytes` have moved. Returns the bytes that it moved: 0
    /// at the end of the file, and in an engine without files.
    ///
    /// # Errors
    /// The error of the kernel.
    fn move_rest(&mut self, _io: Io, _from_bytes: usize) -> Result<usize, rustix::io::Errno> {
        Ok(0)
    }

    /// Completed calls that the last [`DataEngine::reap`] has kept back.
    #[inline]
    fn unreaped_count(&self) -> usize {
        0
    }

    /// Features in use.
    fn features(&self) -> &[String] {
        &[]
    }

    /// Features that the engine had to do without, each with the reason.
    fn missing_features(&self) -> &[String] {
        &[]
    }
}

/// A block about to be written.
#[derive(Debug)]
pub struct PendingBlock<'a> {
    /// Bytes of the block, without the stamps.
    pub bytes: &'a mut [u8],
    /// Offset of the block in the pool, which determines its content ([`data::Stamp::phase_bytes`]).
    pub phase_bytes: u32,
    /// True for a copy of other blocks: it is stamped already, and must never be changed.
    pub is_duplicate: bool,
}

impl<E: DataEngine + ?Sized> DataEngine for Box<E> {
    fn depth(&self) -> u32 {
        (**self).depth()
    }

    fn block_bytes(&self) -> u64 {
        (**self).block_bytes()
    }

    fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        (**self).draft(slot)
    }

    fn block_read(&self, slot: u32) -> &[u8] {
        (**self).block_read(slot)
    }

    fn queue(&mut self, io: Io) {
        (**self).queue(io);
    }

    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, rustix::io::Errno> {
        (**self).reap(done, until_ns)
    }

    fn move_rest(&mut self, io: Io, from_bytes: usize) -> Result<usize, rustix::io::Errno> {
        (**self).move_rest(io, from_bytes)
    }

    fn unreaped_count(&self) -> usize {
        (**self).unreaped_count()
    }

    fn features(&self) -> &[String] {
        (**self).features()
    }

    fn missing_features(&self) -> &[String] {
        (**self).missing_features()
    }
}
