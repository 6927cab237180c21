//! `putc_unlocked` and `getc_unlocked` as C compiles them: in place, not as calls.

pub use calls::{getc_unlocked, putc_unlocked};

/// The inline functions of glibc's header (`bits/types/struct_FILE.h`: `__putc_unlocked_body`, `__getc_unlocked_body`).
/// C programs get them in place of a call, and are twice as fast by it.
#[cfg(target_env = "gnu")]
mod calls {
    use std::ffi::{c_char, c_int};

    use libc::FILE;

    /// First fields of `FILE`. Their place is part of glibc's binary interface, as every C program that was compiled
    /// with the header has it inside.
    #[repr(C)]
    struct Head {
        flags: c_int,
        read_ptr: *mut c_char,
        read_end: *mut c_char,
        read_base: *mut c_char,
        write_base: *mut c_char,
        write_ptr: *mut c_char,
        write_end: *mut c_char,
    }

    // SAFETY: these are the declarations of glibc's `stdio.h`, which calls them for a full or empty buffer.
    unsafe extern "C" {
        fn __overflow(stream: *mut FILE, byte: c_int) -> c_int;
        fn __uflow(stream: *mut FILE) -> c_int;
    }

    /// # Safety
    /// `stream` is open, and no other thread uses it.
    #[inline]
    pub unsafe fn putc_unlocked(byte: c_int, stream: *mut FILE) -> c_int {
        let head: *mut Head = stream.cast();
        // SAFETY: a `FILE` begins with these fields, and the caller has it alone. From `write_ptr` to `write_end`, the
        // stream's buffer has room; a stream without a buffer has both null, and takes the other way.
        unsafe {
            let at = (*head).write_ptr;
            if at >= (*head).write_end {
                return __overflow(stream, byte & 0xff);
            }
            *at = byte as c_char;
            (*head).write_ptr = at.add(1);
        }
        byte & 0xff
    }

    /// # Safety
    /// `stream` is open, and no other thread uses it.
    #[inline]
    pub unsafe fn getc_unlocked(stream: *mut FILE) -> c_int {
        let head: *mut Head = stream.cast();
        // SAFETY: a `FILE` begins with these fields, and the caller has it alone. From `read_ptr` to `read_end`, the
        // stream's buffer holds bytes that were read; a stream without a buffer has both null, and takes the other way.
        unsafe {
            let at = (*head).read_ptr;
            if at >= (*head).read_end {
                return __uflow(stream);
            }
            (*head).read_ptr = at.add(1);
            c_int::from(*at as u8)
        }
    }
}

/// Calls of a C library whose header has no such functions, or whose `FILE` is its own affair.
#[cfg(not(target_env = "gnu"))]
mod calls {
    use std::ffi::c_int;

    use libc::FILE;

    // SAFETY: these are the declarations of POSIX; the libc crate has none of them.
    unsafe extern "C" {
        pub fn putc_unlocked(byte: c_int, stream: *mut FILE) -> c_int;
        pub fn getc_unlocked(stream: *mut FILE) -> c_int;
    }
}
