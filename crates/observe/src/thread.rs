//! Threads that start only if the system has room for everything that a new thread maps.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use rustix::process::{Resource, getrlimit};

/// Address space that a new thread maps beside its stack, before its first function runs. A thread that
/// cannot map its signal stack aborts the process.
const HEADROOM_BYTES: u64 = 1 << 20;

/// Starts a thread with that name and stack, and returns once it runs `body`.
///
/// # Errors
/// Fails if the system refuses another thread, or if the address space is too small.
pub fn start(name: &str, stack_bytes: usize, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    // The standard library's code for a thread is large: one copy serves all.
    start_boxed(name, stack_bytes, Box::new(body))
}

fn start_boxed(name: &str, stack_bytes: usize, body: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>> {
    if address_space_left().is_some_and(|left| left < stack_bytes as u64 + HEADROOM_BYTES) {
        return Err(Error::new(ErrorKind::OutOfMemory, "the address space limit (ulimit -v) is reached"));
    }
    let (runs, is_running) = sync_channel(1);
    let thread = Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(move || {
        let _ = runs.send(());
        body()
    })?;
    // Until the thread runs, no other start may take the room that was found.
    let _ = is_running.recv();
    Ok(thread)
}

/// Returns the number of the calling thread in `/proc`, which may show the numbers of another PID namespace.
pub fn proc_tid() -> i32 {
    let link = fs::read_link("/proc/thread-self").ok();
    let number = link.as_ref().and_then(|link| link.file_name()?.to_str()?.parse().ok());
    number.unwrap_or_else(|| rustix::thread::gettid().as_raw_nonzero().get())
}

/// Returns the bytes that this process may still map; `None` without a limit.
fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let used_pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse().ok()?;
    Some(limit.saturating_sub(used_pages * rustix::param::page_size() as u64))
}
