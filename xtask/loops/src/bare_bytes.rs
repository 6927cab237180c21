//! Loops that do nothing but one call for each byte: the reference for our byte verbs.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use libc::FILE;

// SAFETY: these are the declarations of POSIX; the libc crate has none of them.
unsafe extern "C" {
    fn putc(byte: c_int, stream: *mut FILE) -> c_int;
    fn putc_unlocked(byte: c_int, stream: *mut FILE) -> c_int;
    fn getc(stream: *mut FILE) -> c_int;
    fn getc_unlocked(stream: *mut FILE) -> c_int;
}

/// Calls `write` with one byte, `ops` times.
pub(super) fn write(file: OwnedFd, ops: u64) -> Result<()> {
    for byte in 0..ops {
        ensure!(rustix::io::write(&file, &[byte as u8])? == 1, "nothing was written");
    }
    Ok(())
}

/// Calls `read` for one byte, `ops` times.
pub(super) fn read(file: OwnedFd, ops: u64) -> Result<()> {
    let mut byte = [0];
    for _ in 0..ops {
        ensure!(rustix::io::read(&file, &mut byte)? == 1, "nothing was read");
        std::hint::black_box(byte);
    }
    Ok(())
}

/// Calls `putc`, `ops` times.
pub(super) fn put<const UNLOCKED: bool>(file: OwnedFd, ops: u64) -> Result<()> {
    let stream = stream(file, true)?;
    for byte in 0..ops {
        let byte = c_int::from(byte as u8);
        // SAFETY: the stream is open, and known to this function alone.
        let put = unsafe { if UNLOCKED { putc_unlocked(byte, stream) } else { putc(byte, stream) } };
        ensure!(put != libc::EOF, "nothing was put");
    }
    close(stream)
}

/// Calls `getc`, `ops` times.
pub(super) fn get<const UNLOCKED: bool>(file: OwnedFd, ops: u64) -> Result<()> {
    let stream = stream(file, false)?;
    let mut sum: c_long = 0;
    for _ in 0..ops {
        // SAFETY: the stream is open, and known to this function alone.
        let got = unsafe { if UNLOCKED { getc_unlocked(stream) } else { getc(stream) } };
        ensure!(got != libc::EOF, "nothing was got");
        sum += c_long::from(got);
    }
    std::hint::black_box(sum);
    close(stream)
}

fn stream(file: OwnedFd, writes: bool) -> Result<*mut FILE> {
    let mode = if writes { c"w" } else { c"r" };
    // SAFETY: the descriptor is open and given up by its owner, and `mode` is a C string.
    let stream = unsafe { libc::fdopen(file.into_raw_fd(), mode.as_ptr()) };
    ensure!(!stream.is_null(), "fdopen: {}", io::Error::last_os_error());
    Ok(stream)
}

fn close(stream: *mut FILE) -> Result<()> {
    // SAFETY: the stream is open, and is not used after this.
    let closed = unsafe { libc::fclose(stream) };
    (closed == 0).then_some(()).with_context(|| format!("fclose: {}", io::Error::last_os_error()))
}
