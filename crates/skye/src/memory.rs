//! Memory for the way out. When memory runs out, a kept part is given back, and the run ends in order. If that is not
//! enough, the run's files are removed at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::libc;

use crate::exit;

/// Reserve for an end in order: enough to collect, judge, save and print a run of usual length.
static END_RESERVE: Reserve = Reserve::with_size(1 << 20);
/// Reserve for removing files at once.
static REMOVAL_RESERVE: Reserve = Reserve::with_size(256 << 10);
static IS_SHORT: AtomicBool = AtomicBool::new(false);
/// Flag that ends a run.
static END: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// The thread that removes files at once.
static REMOVER: AtomicI32 = AtomicI32::new(0);

/// Allocates both reserves.
pub fn keep() {
    END_RESERVE.keep();
    REMOVAL_RESERVE.keep();
}

/// Sets the flag to raise when memory runs out. Without a flag, the process ends at once.
pub fn raise_when_short(flag: &Arc<AtomicBool>) {
    let _ = END.set(Arc::clone(flag));
}

/// Returns true if memory has run out.
pub fn is_short() -> bool {
    IS_SHORT.load(Ordering::Relaxed)
}

/// Memory that is kept in reserve.
struct Reserve {
    memory: AtomicPtr<u8>,
    layout: Layout,
}

impl Reserve {
    const fn with_size(bytes: usize) -> Self {
        match Layout::from_size_align(bytes, 16) {
            Ok(layout) => Self { memory: AtomicPtr::new(null_mut()), layout },
            Err(_) => panic!("it has a size"),
        }
    }

    fn keep(&self) {
        // SAFETY: the layout has a size.
        self.memory.store(unsafe { System.alloc(self.layout) }, Ordering::Relaxed);
    }

    /// Gives the memory back.
    fn release(&self) {
        let memory = self.memory.swap(null_mut(), Ordering::AcqRel);
        if !memory.is_null() {
            // SAFETY: it was allocated by this layout, and the swap has given it to us alone.
            unsafe { System.dealloc(memory, self.layout) };
        }
    }
}

/// The system's allocator, with a reserve.
pub struct ReservingAllocator;

// SAFETY: all memory comes from the system's allocator, by the layouts that it is asked for, and goes back to it.
unsafe impl GlobalAlloc for ReservingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, as it came.
        or_from_reserve(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, as it came.
        or_from_reserve(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's memory, layout and size, as they came; memory that could not be changed is as it was.
        or_from_reserve(|| unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's memory, which `System` has given out by this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn or_from_reserve(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() { short(&allocate) } else { memory }
}

/// Ends the run in order, from the reserve. A thread that finds no memory even then removes the files and ends the
/// process.
#[cold]
fn short(allocate: &dyn Fn() -> *mut u8) -> *mut u8 {
    if let Some(end) = END.get() {
        IS_SHORT.store(true, Ordering::Relaxed);
        end.store(true, Ordering::SeqCst);
        END_RESERVE.release();
        // Another thread may have released it just before.
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    match REMOVER.compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {
            REMOVAL_RESERVE.release();
            run::directory::remove_all_at_once();
        }
        // Even the removal found too little memory.
        Err(remover) if remover == own => {}
        // The process ends when the other thread is done.
        Err(_) => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
    }
    // Nothing is formatted: that may need memory.
    crate::terminal::remove_live();
    let message = b"skye: cannot continue: out of memory; use fewer or smaller tests\n";
    let _ = rustix::io::write(rustix::stdio::stderr(), message);
    // SAFETY: `_exit` does not return, and runs nothing of ours, which may need memory.
    unsafe { libc::_exit(exit::FAILED.into()) }
}
