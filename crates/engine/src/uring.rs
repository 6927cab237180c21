//! io_uring: many calls in flight from one thread.
//!
//! Each worker has one ring, made by the thread that uses it. While that thread has to wait for completions, it submits
//! one or two calls at once. So the device never waits for the rest of a batch. A thread that never waits submits all
//! at once, which costs less CPU.
//!
//! The kernel completes requests only while the engine waits for events (`DEFER_TASKRUN`). Ring, files and buffers are
//! registered, so a call costs no interrupt, no look-up and no pinning of pages. Unavailable features are omitted and
//! reported ([`DataEngine::features`], [`DataEngine::missing_features`]).

use std::io::{self, IoSliceMut};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{Builder, CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, opcode};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::buffer::AlignedBuffer;
use crate::call_flags::CallFlags;
use crate::clock::{Clock, Monotonic, SPIN_NS};
use crate::data::{Content, Pool};
use crate::discard::PUNCH;
use crate::one_by_one::move_rest;
use crate::{Call, Completion, DataEngine, Io, PendingBlock};

/// Largest buffer that the kernel registers.
const FIXED_BUFFER_BYTES_MAX: usize = 1 << 30;
/// Time for which the kernel's submission thread polls before it sleeps.
const SQPOLL_IDLE_MS: u32 = 100;

/// Most calls of one submission that the kernel passes on one by one. It holds back a larger submission until the last
/// call is prepared (`IO_PLUG_THRESHOLD` in io_uring.c), so the device runs dry.
const UNPLUGGED_MAX: usize = 2;

const TOO_MUCH_LOCKED: &str = "fixed_buffers: they exceed RLIMIT_MEMLOCK (ulimit -l)";

/// Options of a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// The device is polled for completions (`IOPOLL`): it must have poll queues.
    pub uses_iopoll: bool,
    /// A kernel thread submits (`SQPOLL`).
    pub uses_sqpoll: bool,
    /// Flags of each read and write.
    pub flags: CallFlags,
    /// Most bytes that the ring's buffers may lock, if several rings share a user's limit; `None` means all that the
    /// kernel allows.
    pub lockable_bytes: Option<u64>,
}

/// Returns the reason why io_uring cannot be used here, or `None` if it can. Makes a ring and closes it again.
pub fn refusal() -> Option<String> {
    let error = IoUring::new(1).err()?;
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
    Some(match Errno::from_io_error(&error) {
        Some(Errno::NOSYS) => "the kernel lacks io_uring, or a sandbox hides it".into(),
        Some(Errno::PERM | Errno::ACCESS) if matches!(setting.trim(), "1" | "2") => {
            format!("kernel.io_uring_disabled is {}", setting.trim())
        }
        Some(Errno::PERM | Errno::ACCESS) => "a sandbox (seccomp, a container) forbids it".into(),
        _ => error.to_string(),
    })
}

/// Issues calls through a ring. With `NOP`, requests that do nothing replace them.
pub struct UringEngine<const NOP: bool> {
    parts: ManuallyDrop<Parts>,
    /// The ring that `parts` refer to; freed once nothing is in flight.
    ring: *mut IoUring,
    depth: u32,
    block_bytes: usize,
    flags: CallFlags,
    in_flight: usize,
    /// Completions since the thread last had to wait for one; counted up to `batch_threshold`.
    since_wait: u32,
    /// Completions without a wait after which the thread is taken to be the limit, not the device. Then calls are
    /// submitted together. 0 means always.
    batch_threshold: u32,
    /// True if a call found no free entry.
    has_overrun: bool,
    /// True if the kernel can wait with a timeout (`IORING_FEAT_EXT_ARG`, Linux 5.11).
    has_wait_timeout: bool,
    features: Vec<String>,
    missing_features: Vec<String>,
}

/// Everything that calls in flight may use.
struct Parts {
    submitter: Submitter<'static>,
    submissions: SubmissionQueue<'static>,
    completions: CompletionQueue<'static>,
    /// Kept open as long as the files are registered.
    files: Arc<[OwnedFd]>,
    /// A block for each slot; empty if the engine does not read.
    read_blocks: AlignedBuffer,
    /// Data to write; `None` if the engine does not write.
    pool: Option<Pool>,
    /// True if the memory of both is registered.
    has_fixed_buffers: bool,
}

/// Largest block that is not tried: hardly any device splits it.
const UNPROBED_BYTES_MAX: usize = 64 << 10;

const READ_BUFFER: u16 = 0;
const POOL_BUFFER: u16 = 1;

impl<const NOP: bool> UringEngine<NOP> {
    /// An engine on open files with `depth` slots. An engine that writes has its own pool.
    ///
    /// # Errors
    /// The kernel's error for the ring, or for the registration of files.
    pub fn new(
        files: Arc<[OwnedFd]>,
        block_bytes: usize,
        depth: u32,
        can_read: bool,
        writes: Option<Content>,
        options: Options,
    ) -> io::Result<Self> {
        let mut features = Vec::new();
        let mut missing_features = Vec::new();
        let ring = Box::into_raw(Box::new(build(depth, options, &mut features, &mut missing_features)?));
        // SAFETY: `ring` comes from a box that nothing else refers to. Only `drop` frees it, after everything that was
        // split from it.
        let ring_mut = unsafe { &mut *ring };
        // A wait for polled completions has no timeout, even if one is passed.
        let has_wait_timeout = ring_mut.params().is_feature_ext_arg() && !options.uses_iopoll;
        let (mut submitter, submissions, completions) = ring_mut.split();
        match submitter.register_ring_fd() {
            Ok(()) => features.push("registered_ring".into()),
            Err(error) => missing_features.push(format!("registered_ring: {error}")),
        }
        let mut read_blocks =
            AlignedBuffer::new(if can_read && !NOP { depth as usize * block_bytes } else { 0 });
        // Touch the blocks once, so that no page is missing when time counts.
        read_blocks.bytes_mut().fill(1);
        let pool = writes.filter(|_| !NOP).map(|content| Pool::new(content, block_bytes, depth));
        let mut parts =
            Parts { submitter, submissions, completions, files, read_blocks, pool, has_fixed_buffers: false };
        let registered =
            if NOP { Ok(()) } else { parts.register(options, &mut features, &mut missing_features) };
        match supports_nowait(&parts.files, &mut parts.read_blocks, block_bytes) {
            Some(Ok(())) => features.push("nowait".into()),
            Some(Err(reason)) => {
                missing_features.push(format!("nowait: {reason}, so a kernel thread makes each call"));
            }
            None => {}
        }
        let parts = ManuallyDrop::new(parts);
        let engine = Self {
            parts,
            ring,
            depth,
            block_bytes,
            flags: options.flags,
            in_flight: 0,
            since_wait: 0,
            // A kernel thread that submits sends calls on their way without us.
            batch_threshold: if options.uses_sqpoll || depth as usize <= UNPLUGGED_MAX { 0 } else { depth },
            has_overrun: false,
            has_wait_timeout,
            features,
            missing_features,
        };
        registered.map(|()| engine)
    }

    /// Builds the request for a call.
    #[inline]
    fn entry(&mut self, io: Io) -> Entry {
        if NOP {
            return opcode::Nop::new().build();
        }
        let file = Fixed(io.file);
        let len = self.block_bytes as u32;
        let CallFlags { read, write } = self.flags;
        let (read_flags, write_flags) = (read.bits() as i32, write.bits() as i32);
        let parts = &mut *self.parts;
        match io.call {
            Call::Read => {
                let start = io.slot as usize * self.block_bytes;
                let to = parts.read_blocks.place(start, self.block_bytes);
                if parts.has_fixed_buffers {
                    opcode::ReadFixed::new(file, to, len, READ_BUFFER)
                        .offset(io.offset_bytes)
                        .rw_flags(read_flags)
                        .build()
                } else {
                    opcode::Read::new(file, to, len).offset(io.offset_bytes).rw_flags(read_flags).build()
                }
            }
            Call::Write => {
                let block = parts.pool.as_ref().map_or(&[][..], |pool| pool.block(io.slot));
                let (from, len) = (block.as_ptr(), block.len() as u32);
                if parts.has_fixed_buffers {
                    opcode::WriteFixed::new(file, from, len, POOL_BUFFER)
                        .offset(io.offset_bytes)
                        .rw_flags(write_flags)
                        .build()
                } else {
                    opcode::Write::new(file, from, len).offset(io.offset_bytes).rw_flags(write_flags).build()
                }
            }
            Call::Datasync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            // On files alone: the plan refuses a ring for discards of a device, which need another call.
            Call::Discard => opcode::Fallocate::new(file, u64::from(len))
                .offset(io.offset_bytes)
                .mode(PUNCH.bits() as i32)
                .build(),
        }
    }

    /// Submits without waiting. The kernel delivers completions only with `IORING_ENTER_GETEVENTS`.
    #[inline]
    fn submit(&mut self) -> io::Result<usize> {
        let parts = &mut *self.parts;
        let queued = parts.submissions.len() as u32;
        // SAFETY: no pointer is passed along, and all submitted requests are kept alive as `queue` promises.
        let entered = unsafe { parts.submitter.enter::<()>(queued, 0, EnterFlags::GETEVENTS.bits(), None) };
        parts.submissions.sync();
        parts.completions.sync();
        entered
    }

    /// Submits a batch if the thread is the limit. Returns `None` if the caller has to submit and wait.
    #[inline]
    fn submit_unless_waiting(&mut self) -> Option<io::Result<usize>> {
        if self.batch_threshold > 0 && self.since_wait >= self.batch_threshold {
            let entered = self.submit();
            if entered.is_err() || !self.parts.completions.is_empty() {
                return Some(entered);
            }
        }
        if self.parts.completions.is_empty() {
            self.since_wait = 0;
        }
        None
    }

    /// Submits, and waits for a completion.
    #[inline]
    fn wait(&mut self) -> io::Result<usize> {
        self.submit_unless_waiting().unwrap_or_else(|| self.parts.submitter.submit_and_wait(1))
    }

    /// Submits, and waits for a completion until `until_ns`: asleep until shortly before, then without sleeping.
    #[cold]
    fn wait_for(&mut self, until_ns: u64) -> io::Result<usize> {
        let left_ns = until_ns.saturating_sub(Monotonic.now_ns());
        if !self.has_wait_timeout || left_ns <= SPIN_NS {
            return self.submit();
        }
        self.submit_unless_waiting().unwrap_or_else(|| {
            let time = Timespec::from(Duration::from_nanos(left_ns - SPIN_NS));
            self.parts.submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
        })
    }

    #[inline]
    fn take(&mut self, done: &mut [Completion], most: usize) -> usize {
        let mut count = 0;
        // Entries that the kernel has taken make room for more.
        self.parts.submissions.sync();
        self.parts.completions.sync();
        for (out, completion) in done.iter_mut().take(most).zip(&mut self.parts.completions) {
            let tag = completion.user_data();
            let slot = tag as u32;
            // A request that does nothing moves nothing. The tag holds the bytes that the call would have moved.
            let result = if NOP { (tag >> 32) as i32 } else { completion.result() };
            *out = Completion { slot, result };
            count += 1;
        }
        // Now, not at the next visit: else the kernel takes these for new completions and does not wait.
        self.parts.completions.sync();
        self.in_flight -= count;
        self.since_wait = (self.since_wait + count as u32).min(self.batch_threshold);
        count
    }
}

/// Returns `Ok` if the kernel can try calls on these files without waiting. If it cannot, it hands each call to a
/// worker thread (io-wq), for the returned reason. Returns `None` if that cannot be tested, as for a write-only file.
///
/// A large block of a direct test is read up to ten times, at the beginning of the first file.
fn supports_nowait(
    files: &[OwnedFd],
    read_blocks: &mut AlignedBuffer,
    block_bytes: usize,
) -> Option<Result<(), &'static str>> {
    // Beyond the end of any file, where there is nothing to read; a multiple of any block size.
    const PAST_EOF_BYTES: u64 = 1 << 62;
    // A queue may be full for a moment.
    const ATTEMPTS: usize = 5;
    const PAUSE: Duration = Duration::from_millis(1);
    let file = files.first()?;
    let reads = !read_blocks.bytes().is_empty();
    let mut own = AlignedBuffer::new(if reads { 0 } else { block_bytes });
    // In the memory of the calls: its pieces count.
    let block = if reads { read_blocks.part_mut(0, block_bytes) } else { own.bytes_mut() };
    let mut read = |offset_bytes, flags| {
        let to = IoSliceMut::new(&mut *block);
        rustix::io::preadv2(file, &mut [to], offset_bytes, flags)
    };
    match read(PAST_EOF_BYTES, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(Errno::OPNOTSUPP) => return Some(Err("this file system or driver does not support RWF_NOWAIT")),
        Err(_) => return None,
    }
    // The block layer never splits a request that must not wait (bio_split_rw, Linux 6.2). Blocks that are not in the page
    // cache have to be waited for in any case.
    let is_direct = rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT));
    if !is_direct || !reads || block_bytes <= UNPROBED_BYTES_MAX {
        return Some(Ok(()));
    }
    let is_refused = (0..ATTEMPTS).all(|_| {
        let is_refused = read(0, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN);
        if is_refused {
            // After this read, the file system's metadata is in memory.
            let _ = read(0, ReadWriteFlags::empty());
            std::thread::sleep(PAUSE);
        }
        is_refused
    });
    Some(if is_refused { Err("the device splits blocks of this size") } else { Ok(()) })
}

impl Parts {
    fn register(
        &mut self,
        options: Options,
        features: &mut Vec<String>,
        missing_features: &mut Vec<String>,
    ) -> io::Result<()> {
        let descriptors: Vec<_> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        self.submitter.register_files(&descriptors)?;
        features.push("registered_files".into());
        let region =
            |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let pool = self.pool.as_mut().map(|pool| pool.memory().bytes_mut());
        // Each region has an index, whether it is used or not. The kernel accepts an empty one without an address.
        let mut regions = [region(self.read_blocks.bytes_mut()), pool.map_or(region(&mut []), region)];
        for region in &mut regions {
            if region.iov_len == 0 {
                region.iov_base = std::ptr::null_mut();
            }
        }
        if regions.iter().any(|region| region.iov_len > FIXED_BUFFER_BYTES_MAX) {
            missing_features.push("fixed_buffers: they are larger than 1 GiB".into());
            return Ok(());
        }
        let bytes: usize = regions.iter().map(|region| region.iov_len).sum();
        // generic_atomic_write_valid() in the kernel takes memory of the caller alone.
        if options.flags.is_atomic() {
            missing_features.push("fixed_buffers: RWF_ATOMIC excludes them".into());
            return Ok(());
        }
        if options.lockable_bytes.is_some_and(|max_bytes| bytes as u64 > max_bytes) {
            missing_features.push(TOO_MUCH_LOCKED.into());
            return Ok(());
        }
        // SAFETY: both regions belong to `self`, which lives until the ring is gone. Neither ever moves: their vectors
        // are never resized.
        match unsafe { self.submitter.register_buffers(&regions) } {
            Ok(()) => {
                self.has_fixed_buffers = true;
                features.push("fixed_buffers".into());
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOMEM) => {
                missing_features.push(TOO_MUCH_LOCKED.into());
            }
            Err(error) => missing_features.push(format!("fixed_buffers: {error}")),
        }
        Ok(())
    }
}

/// Makes a ring with those requested flags that this kernel supports.
fn build(
    depth: u32,
    options: Options,
    features: &mut Vec<String>,
    missing_features: &mut Vec<String>,
) -> io::Result<IoUring> {
    let attempt = |flags: &[&str]| {
        let mut builder: Builder = IoUring::builder();
        builder.setup_clamp();
        for flag in flags {
            match *flag {
                "single_issuer" => builder.setup_single_issuer(),
                "defer_taskrun" => builder.setup_defer_taskrun(),
                "coop_taskrun" => builder.setup_coop_taskrun(),
                "iopoll" => builder.setup_iopoll(),
                "sqpoll" => builder.setup_sqpoll(SQPOLL_IDLE_MS),
                _ => &mut builder,
            };
        }
        // A kernel thread that submits frees entries only once it has taken all of them. Before that, calls may have
        // ended, and others on their slots may be queued.
        let entries = if options.uses_sqpoll { 2 * depth } else { depth };
        builder.build(entries.max(1))
    };
    let requested: Vec<_> = [(options.uses_iopoll, "iopoll"), (options.uses_sqpoll, "sqpoll")]
        .into_iter()
        .filter(|(set, _)| *set)
        .collect();
    // Linux 6.1, 6.0, 5.19, 5.1. A kernel thread that submits excludes the flags that spare us interrupts.
    const SETUP_FLAG_SETS: [&[&str]; 4] = [
        &["single_issuer", "coop_taskrun", "defer_taskrun"],
        &["single_issuer", "coop_taskrun"],
        &["coop_taskrun"],
        &[],
    ];
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for preferred in SETUP_FLAG_SETS {
        let flags: Vec<_> =
            preferred.iter().copied().chain(requested.iter().map(|(_, flag)| *flag)).collect();
        match attempt(&flags) {
            Ok(ring) => {
                // A kernel thread that submits makes these flags useless.
                for flag in
                    SETUP_FLAG_SETS[0].iter().filter(|flag| !preferred.contains(flag) && !options.uses_sqpoll)
                {
                    missing_features.push(format!("{flag}: this kernel does not support it"));
                }
                features.extend(flags.into_iter().map(String::from));
                return Ok(ring);
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

impl<const NOP: bool> DataEngine for UringEngine<NOP> {
    fn depth(&self) -> u32 {
        self.depth
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.block_bytes as u64
    }

    #[inline]
    fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        match &mut self.parts.pool {
            Some(pool) => pool.draft(slot),
            // The engine was made to read only, or to do nothing.
            None => PendingBlock { bytes: &mut [], phase_bytes: 0, is_duplicate: true },
        }
    }

    #[inline]
    fn block_read(&self, slot: u32) -> &[u8] {
        // An engine made to write only has read nothing.
        if self.parts.read_blocks.bytes().is_empty() {
            return &[];
        }
        self.parts.read_blocks.part(slot as usize * self.block_bytes, self.block_bytes)
    }

    #[inline]
    fn queue(&mut self, io: Io) {
        let moved = if NOP && io.call.moves() { self.block_bytes as u64 } else { 0 };
        let entry = self.entry(io).user_data(u64::from(io.slot) | moved << 32);
        // SAFETY: the file is registered. The buffer belongs to `parts`, and to this slot alone until the call has
        // ended: a worker queues nothing more on a slot before. Nor does `drop` free a buffer before.
        let pushed = unsafe { self.parts.submissions.push(&entry) };
        // The ring has one entry per slot. If it were full, the call would never be made and must not be waited for.
        debug_assert!(pushed.is_ok());
        self.has_overrun |= pushed.is_err();
        self.in_flight += usize::from(pushed.is_ok());
    }

    #[inline]
    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, Errno> {
        self.parts.submissions.sync();
        if self.has_overrun {
            return Err(Errno::BUSY);
        }
        let is_closed = until_ns == u64::MAX;
        // In an open loop with a free slot, completions make no room that a due operation waits for.
        let is_full = is_closed || self.in_flight == self.depth as usize;
        while self.in_flight > 0 {
            let entered = if is_closed { self.wait() } else { self.wait_for(until_ns) };
            if let Err(error) = entered {
                match Errno::from_io_error(&error) {
                    // Interrupted, briefly out of memory, or timed out: completed calls still count.
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::TIME) => {}
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                }
            }
            let is_hurried = is_full && self.since_wait < self.batch_threshold;
            let count = self.take(done, if is_hurried { UNPLUGGED_MAX } else { usize::MAX });
            if count > 0 || (!is_closed && Monotonic.now_ns() >= until_ns) {
                return Ok(count);
            }
        }
        Ok(0)
    }

    fn move_rest(&mut self, io: Io, from_bytes: usize) -> Result<usize, Errno> {
        let (start, block_bytes) = (io.slot as usize * self.block_bytes, self.block_bytes);
        let flags = self.flags;
        let Parts { files, read_blocks, pool, .. } = &mut *self.parts;
        let read = if io.call == Call::Read { read_blocks.part_mut(start, block_bytes) } else { &mut [] };
        let write = pool.as_ref().map_or(&[][..], |pool| pool.block(io.slot));
        move_rest(&files[io.file as usize], io, from_bytes, read, write, flags)
    }

    #[inline]
    fn unreaped_count(&self) -> usize {
        self.parts.completions.len()
    }

    /// Setup flags and registrations.
    fn features(&self) -> &[String] {
        &self.features
    }

    fn missing_features(&self) -> &[String] {
        &self.missing_features
    }
}

impl<const NOP: bool> Drop for UringEngine<NOP> {
    fn drop(&mut self) {
        // The kernel may still write into the buffers of calls in flight. Their memory must not be given to anyone
        // else. It stays with the ring until the process ends.
        if self.in_flight > 0 {
            return;
        }
        // The kernel takes a ring apart some time after its close. Until then its files are in use, although they may
        // be about to be removed or unmounted. A ring without registered files returns an error, which does no harm.
        let _ = self.parts.submitter.unregister_files();
        // SAFETY: nothing is in flight. `parts` are dropped once, here, and before the ring that they refer to. The
        // ring came from a box and is not used again.
        unsafe {
            ManuallyDrop::drop(&mut self.parts);
            drop(Box::from_raw(self.ring));
        }
    }
}

impl<const NOP: bool> std::fmt::Debug for UringEngine<NOP> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringEngine")
            .field("depth", &self.depth)
            .field("features", &self.features)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Verifier;
    use crate::pacing::{ClosedLoop, OpenLoop, Pacing};
    use crate::pattern::Pattern;
    use crate::recorder::{Delta, Recorder, Shape};
    use crate::sample::Sample;
    use crate::verb::{Read, Steps, Verb, Write};
    use crate::worker::{Layout, Limits, Stamping, Worker, WorkerParts, WorkerResult};
    use rustix::fs::{Mode, OFlags};
    use std::sync::atomic::AtomicBool;

    const BLOCKS: u64 = 1000;
    const CONTENT: Content =
        Content { seed: 5, interval_bytes: 4096, compress_percent: 0, dedupe_percent: 0 };

    fn run<const NOP: bool, V: Verb, P: Pacing>(
        file: &std::path::Path,
        verb: V,
        pacing: P,
        depth: u32,
        deadline_ns: u64,
    ) -> (WorkerResult, Delta) {
        run_with::<NOP, V, P>(file, verb, pacing, depth, deadline_ns, Options::default())
    }

    fn run_with<const NOP: bool, V: Verb, P: Pacing>(
        file: &std::path::Path,
        verb: V,
        pacing: P,
        depth: u32,
        deadline_ns: u64,
        options: Options,
    ) -> (WorkerResult, Delta) {
        let file = rustix::fs::open(file, OFlags::RDWR | OFlags::CREATE, Mode::RWXU).unwrap();
        let engine = UringEngine::<NOP>::new(Arc::new([file]), 4096, depth, true, Some(CONTENT), options);
        let (recorder, reader) = Recorder::new(Shape::from_verb(&verb, P::IS_OPEN));
        let stop = AtomicBool::new(false);
        let worker = Worker::new(WorkerParts {
            engine: engine.unwrap(),
            clock: Monotonic,
            pacing,
            verb,
            pattern: Pattern::new(0, BLOCKS, true, 3, BLOCKS),
            layout: Layout::dense(BLOCKS, 4096),
            stamping: Stamping {
                seed: 5,
                first_file: 2,
                generation: 1,
                interval_bytes: 4096,
                verifier: Some(Verifier::new(CONTENT, 1..=1)),
                sample: if NOP { Sample::NONE } else { Sample::ALL },
            },
            limits: Limits { deadline_ns, stop: &stop },
            recorder,
        });
        let drained = std::thread::spawn(move || {
            let mut sum = Delta::default();
            while !reader.drain_last(|delta| {
                sum.ops += delta.ops;
                sum.written_bytes += delta.written_bytes;
                sum.visits += delta.visits;
                sum.verified += delta.verified;
            }) {
                std::thread::sleep(Duration::from_millis(1));
            }
            sum
        });
        let ended = worker.run(Monotonic.now_ns());
        (ended, drained.join().unwrap())
    }

    #[test]
    fn data_written_at_depth_verifies_at_depth() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        let (ended, sum) = run::<false, _, _>(&path, Write, ClosedLoop, 32, u64::MAX);
        assert_eq!((ended.result, sum.ops, sum.written_bytes), (Ok(()), BLOCKS, BLOCKS * 4096));
        let (ended, sum) = run::<false, _, _>(&path, Read, ClosedLoop, 32, u64::MAX);
        assert_eq!((ended.result, sum.ops, sum.verified), (Ok(()), BLOCKS, BLOCKS));
        assert!(sum.visits <= BLOCKS);
        let (ended, sum) = run::<false, _, _>(&path, Steps::REWRITE_DURABLY, ClosedLoop, 4, u64::MAX);
        assert_eq!((ended.result, sum.ops, sum.verified), (Ok(()), BLOCKS, BLOCKS));
        // The second read finds the data just written: both reads are compared.
        let (ended, sum) = run::<false, _, _>(&path, Steps::REWRITE_AND_REREAD, ClosedLoop, 4, u64::MAX);
        assert_eq!((ended.result, sum.ops, sum.verified), (Ok(()), BLOCKS, 2 * BLOCKS));
        // Beyond the end there is nothing to read.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(100 * 4096).unwrap();
        let (ended, _) = run::<false, _, _>(&path, Read, ClosedLoop, 32, u64::MAX);
        assert!(matches!(ended.result.unwrap_err().cause, crate::failure::Cause::Short { got_bytes: 0, .. }));
    }

    #[test]
    fn open_loop_at_depth_starts_all_due_operations() {
        let temp = tempfile::tempdir().unwrap();
        let end_ns = Monotonic.now_ns() + 60_000_000_000;
        let pacing = OpenLoop::new(10_000.0, true, 0, 1, 4);
        let (ended, sum) = run::<true, _, _>(&temp.path().join("file"), Read, pacing, 8, end_ns);
        assert_eq!((ended.result, sum.ops), (Ok(()), BLOCKS));
    }

    #[test]
    fn sqpoll_loses_no_operations() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        let options = Options { uses_sqpoll: true, ..Options::default() };
        for _ in 0..20 {
            let (ended, sum) = run_with::<false, _, _>(&path, Write, ClosedLoop, 8, u64::MAX, options);
            assert_eq!((ended.result, sum.ops), (Ok(()), BLOCKS));
            let (ended, sum) = run_with::<false, _, _>(&path, Read, ClosedLoop, 8, u64::MAX, options);
            assert_eq!((ended.result, sum.verified), (Ok(()), BLOCKS));
        }
    }

    #[test]
    fn nop_requests_count_as_operations() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        let (ended, sum) = run::<true, _, _>(&path, Write, ClosedLoop, 8, u64::MAX);
        assert_eq!((ended.result, sum.ops), (Ok(()), BLOCKS));
        // The first completions come in twos, until it is known that the thread never waits.
        assert!((BLOCKS / 8..BLOCKS / 8 + 8).contains(&sum.visits), "{}", sum.visits);
    }

    #[test]
    fn features_are_listed_as_used_or_missing() {
        let temp = tempfile::tempfile().unwrap();
        let files: Arc<[OwnedFd]> = Arc::new([temp.into()]);
        let new = |options| UringEngine::<false>::new(Arc::clone(&files), 4096, 8, true, None, options);
        let engine = new(Options::default()).unwrap();
        assert!(engine.features().iter().any(|found| found == "registered_files"), "{:?}", engine.features());
        for feature in ["single_issuer", "defer_taskrun", "coop_taskrun", "registered_ring", "fixed_buffers"]
        {
            let has = engine.features().iter().any(|found| found == feature);
            let lacks = engine
                .missing_features()
                .iter()
                .any(|missing_features| missing_features.starts_with(feature));
            assert!(has != lacks, "{feature}: {:?} {:?}", engine.features(), engine.missing_features());
        }
        let engine = new(Options { uses_sqpoll: true, ..Options::default() }).unwrap();
        assert!(engine.features().iter().any(|found| found == "sqpoll"));
        assert!(
            engine.missing_features().is_empty(),
            "nothing that was asked for: {:?}",
            engine.missing_features()
        );
        let engine = new(Options { lockable_bytes: Some(8 * 4096 - 1), ..Options::default() }).unwrap();
        assert!(
            engine
                .missing_features()
                .iter()
                .any(|missing_features| missing_features.starts_with("fixed_buffers: they exceed"))
        );
        let engine = new(Options { lockable_bytes: Some(8 * 4096), ..Options::default() }).unwrap();
        assert!(engine.features().iter().any(|feature| feature == "fixed_buffers"));
    }
}
