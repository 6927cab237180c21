//! Memory for the way out: where there is no more, a part that was kept is given back, and the run ends in order. Where
//! that is not enough, its files are removed at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use crate::exit;

/// What is kept: enough to collect, judge, save and print a run of usual length.
const RESERVE: Layout = match Layout::from_size_align(1 << 20, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("a megabyte is a size"),
};

static KEPT: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Keeps a part of the memory from now on.
pub fn keep() {
    // SAFETY: the layout has a size.
    KEPT.store(unsafe { System.alloc(RESERVE) }, Ordering::Relaxed);
}

/// Whether memory has run out.
pub fn is_short() -> bool {
    IS_SHORT.load(Ordering::Relaxed)
}

/// The system's allocator, with a reserve.
pub struct Reserving;

// SAFETY: all memory comes from the system's allocator, by the layouts that it is asked for, and goes back to it.
unsafe impl GlobalAlloc for Reserving {
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

/// Gives the reserve back, and ends the run as a signal does. Whoever asks for more than that ends it here and now.
#[cold]
fn short(allocate: &dyn Fn() -> *mut u8) -> *mut u8 {
    let kept = KEPT.swap(null_mut(), Ordering::Relaxed);
    if !kept.is_null() {
        IS_SHORT.store(true, Ordering::Relaxed);
        // SAFETY: it was allocated by this layout, and the swap has given it to us alone.
        unsafe { System.dealloc(kept, RESERVE) };
        let _ = kill_process(getpid(), Signal::TERM);
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    run::directory::remove_all_at_once();
    // Nothing that is formatted: it may need memory.
    let _ = rustix::io::write(
        rustix::stdio::stderr(),
        b"error: cannot go on: memory ran out; ask for less, or give it more\n",
    );
    std::process::exit(exit::FAILED.into())
}
