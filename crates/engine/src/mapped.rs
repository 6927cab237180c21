//! Reads and writes through a mapping of the files. A copy in memory replaces each call, and the kernel moves pages
//! when the copy touches them.
//!
//! A page that the kernel cannot provide raises `SIGBUS` in the thread that touches it. The file was truncated, the
//! device failed, or the file system is full. The handler here maps a page of zeros instead, so that the copy
//! continues. It also raises a flag of the thread. The engine checks the flag after each copy. A call whose flag was
//! raised has failed, and the worker starts nothing more. So the error is one of the row, and the copy is the one that
//! programs make.
//!
//! The handler takes only faults within the block that this thread copies at the moment. All other faults go to the
//! handler that was there before, as if this one did not exist.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};

use crate::data::Content;
use crate::discard::{discard, is_device};
use crate::one_by_one::{Blocks, Calls, OneByOne};
use crate::{Call, Io};

/// The block that a thread copies, and the result of the copy.
struct Guard {
    start: Cell<usize>,
    end: Cell<usize>,
    has_faulted: Cell<bool>,
}

thread_local! {
    /// It needs neither initialisation nor a destructor, so a signal handler may use it at any time.
    static GUARD: Guard = const {
        Guard { start: Cell::new(0), end: Cell::new(0), has_faulted: Cell::new(false) }
    };
}

/// Largest block of a random test that reads pages one by one. With larger ones, each block would need many small reads
/// instead of the kernel's fault-around.
const READ_BY_PAGE_MAX_BYTES: usize = 16 << 10;

/// Size of a page, once the handler is installed.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The handler that was there before.
static PREVIOUS_HANDLER: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once in the process.
fn install() -> Result<(), Errno> {
    static RESULT: OnceLock<Result<(), Errno>> = OnceLock::new();
    *RESULT.get_or_init(|| {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        // SAFETY: a `sigaction` of zeros is a valid one: the default action with an empty mask.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: the call only writes the present action to `before`.
        if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut before) } != 0 {
            return Err(Errno::INVAL);
        }
        // The handler finds the action before it from its first call on.
        let _ = PREVIOUS_HANDLER.set(before);
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the signature that `SA_SIGINFO` requires, lives as long as the process, and makes
        // only async-signal-safe calls.
        let installed = unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) };
        if installed == 0 { Ok(()) } else { Err(Errno::INVAL) }
    })
}

/// Puts a page of zeros where this thread's copy found none. Passes all other faults on.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler with `SA_SIGINFO`, and that of SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_ours = GUARD.try_with(|guard| (guard.start.get()..guard.end.get()).contains(&address));
    if is_ours == Ok(true) {
        let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
        let page = address & !(page_bytes - 1);
        // SAFETY: the page belongs to a mapping of the engine that this thread is copying from or to. So nothing else
        // is there, and no reference to it exists: the engine copies by raw pointers. `mmap` is a bare system call, and
        // the interrupted copy does not use `errno`.
        let mapped = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                page_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mapped != libc::MAP_FAILED {
            let _ = GUARD.try_with(|guard| guard.has_faulted.set(true));
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Does with a signal as would have been done without this handler.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = PREVIOUS_HANDLER.get().filter(|before| before.sa_flags & libc::SA_SIGINFO != 0);
    match before {
        Some(before) => {
            // SAFETY: an action with `SA_SIGINFO` holds the address of a function of this type, which was installed as
            // the handler of the same signal.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(before.sa_sigaction) };
            handler(signal, info, context);
        }
        None => {
            // The instruction faults again after the return, and then the default action ends the process.
            // SAFETY: `signal` may be called in a handler, and `SIG_DFL` is always valid.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Copies between a mapping and a buffer. Returns false if a page of the mapping could not be had.
///
/// # Safety
/// `from` and `to` must be valid for `length` bytes. One of them lies in a mapping, the other in a buffer, and
/// `guarded` is the one in the mapping.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize, guarded: usize) -> bool {
    GUARD.with(|guard| {
        guard.has_faulted.set(false);
        guard.start.set(guarded);
        guard.end.set(guarded + length);
        // The handler runs in this very thread, so only the compiler could reorder these.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the caller's promise. The mapping and the buffer do not overlap. The handler replaces a page that is
        // not available, and the copy continues.
        unsafe { ptr::copy_nonoverlapping(from, to, length) };
        compiler_fence(Ordering::SeqCst);
        guard.end.set(0);
        !guard.has_faulted.get()
    })
}

/// A whole file in the address space of the process.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    length: usize,
}

impl Mapping {
    fn new(file: BorrowedFd<'_>, is_writable: bool, reads_by_page: bool) -> Result<Self, Errno> {
        let length = usize::try_from(seek(file, SeekFrom::End(0))?).map_err(|_| Errno::NOMEM)?;
        if length == 0 {
            return Ok(Self { start: ptr::null_mut(), length });
        }
        let protection = if is_writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses a free place, so nothing else is replaced.
        let start = unsafe { mmap(ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0) }?;
        if reads_by_page {
            // Without this advice, a fault reads pages around the accessed one. The kernel may reject it.
            // SAFETY: the range is the mapping just made, and the advice changes no content.
            let _ = unsafe { madvise(start, length, Advice::Random) };
        }
        Ok(Self { start: start.cast(), length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range is that of the mapping, with the pages that the handler put into it. No reference into it
            // exists: the engine copies by raw pointers and has ended.
            let _ = unsafe { munmap(self.start.cast(), self.length) };
        }
    }
}

/// Copies from and to mappings, `msync`, and discards.
#[derive(Debug)]
pub struct Mappings {
    maps: Box<[Mapping]>,
    files: Arc<[OwnedFd]>,
    /// True if the files are block devices.
    is_device: bool,
}

/// The engine of mapped files.
pub type MappedEngine = OneByOne<Mappings>;

impl MappedEngine {
    /// An engine on open files, for reading and, with a content, for writing. `is_random` advises the kernel that the
    /// next block may be anywhere.
    ///
    /// # Errors
    /// The kernel's error for the mapping of a file.
    pub fn new(
        files: Arc<[OwnedFd]>,
        block_bytes: usize,
        writes: Option<Content>,
        is_random: bool,
    ) -> Result<Self, Errno> {
        install()?;
        let reads_by_page = is_random && block_bytes <= READ_BY_PAGE_MAX_BYTES;
        let map = |file: &OwnedFd| Mapping::new(file.as_fd(), writes.is_some(), reads_by_page);
        let maps = files.iter().map(map).collect::<Result<_, _>>()?;
        let is_device = files.first().is_some_and(|file| is_device(file.as_fd()));
        Ok(Self::with(Mappings { maps, files, is_device }, Blocks::new(block_bytes, writes)))
    }
}

impl Calls for Mappings {
    #[inline]
    fn call(&self, io: Io, blocks: &mut Blocks) -> Result<usize, Errno> {
        let map = &self.maps[io.file as usize];
        let offset = usize::try_from(io.offset_bytes).map_err(|_| Errno::INVAL)?;
        let block_bytes = blocks.read.bytes().len();
        let length = block_bytes.min(map.length.saturating_sub(offset));
        if length == 0 {
            return Ok(0);
        }
        // SAFETY: `offset + length` is at most the length of the mapping.
        let place = unsafe { map.start.add(offset) };
        match io.call {
            Call::Read => {
                let block = blocks.read.bytes_mut();
                // SAFETY: both are valid for `length` bytes, as computed above from the lengths of both.
                let is_whole = unsafe { copy(place, block.as_mut_ptr(), length, place as usize) };
                if is_whole { Ok(length) } else { self.why(io, block_bytes) }
            }
            Call::Write => {
                let block = blocks.to_write(io.slot);
                if block.is_empty() {
                    return Err(Errno::BADF);
                }
                // SAFETY: as above; a block of the pool is as long as one that is read. The mapping is writable, as
                // there is a pool.
                let is_whole = unsafe { copy(block.as_ptr(), place, length, place as usize) };
                if is_whole { Ok(length) } else { self.why(io, block_bytes) }
            }
            Call::Datasync => {
                let from = offset & !(PAGE_BYTES.load(Ordering::Relaxed) - 1);
                // SAFETY: the range lies in the mapping, and begins with a page.
                unsafe { msync(map.start.add(from).cast(), offset + length - from, MsyncFlags::SYNC) }?;
                Ok(0)
            }
            Call::Discard => {
                let file = self.files[io.file as usize].as_fd();
                discard(file, self.is_device, io.offset_bytes, length as u64).map(|()| 0)
            }
        }
    }
}

impl Mappings {
    /// Returns why a page could not be had: the file ends before it, or the device or file system failed.
    #[cold]
    fn why(&self, io: Io, block_bytes: usize) -> Result<usize, Errno> {
        let length_bytes = seek(self.files[io.file as usize].as_fd(), SeekFrom::End(0))?;
        let left_bytes = length_bytes.saturating_sub(io.offset_bytes);
        if left_bytes < block_bytes as u64 { Ok(left_bytes as usize) } else { Err(Errno::IO) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::{Completion, DataEngine};

    const CONTENT: Content =
        Content { seed: 5, interval_bytes: 4096, compress_percent: 0, dedupe_percent: 0 };

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    fn engine(file: &File, writes: Option<Content>) -> MappedEngine {
        MappedEngine::new(Arc::new([file.try_clone().unwrap().into()]), 8192, writes, true).unwrap()
    }

    fn call(engine: &mut MappedEngine, call: Call, offset_bytes: u64) -> Result<u32, Errno> {
        engine.queue(Io { slot: 0, call, file: 0, offset_bytes });
        let mut done = [Completion { slot: 0, result: 0 }];
        assert_eq!(engine.reap(&mut done, u64::MAX), Ok(1));
        done[0].outcome()
    }

    #[test]
    fn mapped_writes_reach_file_and_file_writes_are_read() {
        let file = file(65_536);
        let mut engine = engine(&file, Some(CONTENT));
        engine.draft(0).bytes.fill(9);
        assert_eq!(call(&mut engine, Call::Write, 16_384), Ok(8192));
        assert_eq!(call(&mut engine, Call::Datasync, 16_384), Ok(0));
        let mut found = [0; 8192];
        file.read_exact_at(&mut found, 16_384).unwrap();
        assert!(found.iter().all(|byte| *byte == 9));
        file.write_all_at(&[3; 8192], 32_768).unwrap();
        assert_eq!(call(&mut engine, Call::Read, 32_768), Ok(8192));
        assert!(engine.block_read(0).iter().all(|byte| *byte == 3));
        assert_eq!(call(&mut engine, Call::Read, 61_440), Ok(4096), "the file ends there");
    }

    #[test]
    fn truncated_mapping_returns_short_counts_without_crash() {
        let file = file(65_536);
        file.write_all_at(&[7; 65_536], 0).unwrap();
        let mut engine = engine(&file, Some(CONTENT));
        assert_eq!(call(&mut engine, Call::Read, 0), Ok(8192));
        file.set_len(36_864).unwrap();
        // The block at 32 KiB has one page left, and the next blocks none.
        assert_eq!(call(&mut engine, Call::Read, 32_768), Ok(4096));
        assert_eq!(call(&mut engine, Call::Read, 40_960), Ok(0));
        engine.draft(0);
        assert_eq!(call(&mut engine, Call::Write, 49_152), Ok(0));
        assert_eq!(call(&mut engine, Call::Read, 0), Ok(8192), "what is there is still read");
        assert_eq!(file.metadata().unwrap().len(), 36_864, "nothing was written beyond the end");
    }

    #[test]
    fn thread_faults_do_not_affect_other_threads() {
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || {
                    let file = file(1 << 20);
                    let mut engine = engine(&file, None);
                    let is_cut = number % 2 == 0;
                    file.set_len(if is_cut { 0 } else { 1 << 20 }).unwrap();
                    for block in 0..128 {
                        let expected = if is_cut { 0 } else { 8192 };
                        assert_eq!(call(&mut engine, Call::Read, block * 8192), Ok(expected));
                    }
                });
            }
        });
    }
}
