//! Calls that flows make on files: those of the kernel, or none, which shows what the loop itself costs.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::files::verbs::{CREATE_FLAGS, CREATE_MODE};
use crate::files::{READ_FLAGS, WRITE_FLAGS, close};

/// Calls on files in a directory. Each returns the error of its system call.
pub trait Calls {
    /// An open file.
    type File;

    /// Makes a file, and opens it for writing.
    ///
    /// # Errors
    /// Those of openat(2).
    fn create(&self, directory: BorrowedFd<'_>, path: &CStr) -> Result<Self::File, Errno>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Those of openat(2).
    fn open(&self, directory: BorrowedFd<'_>, path: &CStr) -> Result<Self::File, Errno>;

    /// Opens a file for writing, and truncates it if requested.
    ///
    /// # Errors
    /// Those of openat(2).
    fn open_to_write(
        &self,
        directory: BorrowedFd<'_>,
        path: &CStr,
        truncates_file: bool,
    ) -> Result<Self::File, Errno>;

    /// Closes a file.
    ///
    /// # Errors
    /// Those of close(2).
    fn close(&self, file: Self::File) -> Result<(), Errno>;

    /// Reads the next bytes of a file.
    ///
    /// # Errors
    /// Those of read(2).
    fn read(&self, file: &Self::File, bytes: &mut [u8]) -> Result<usize, Errno>;

    /// Reads bytes at an offset of a file.
    ///
    /// # Errors
    /// Those of pread(2).
    fn read_at(&self, file: &Self::File, bytes: &mut [u8], at_bytes: u64) -> Result<usize, Errno>;

    /// Writes bytes at an offset of a file.
    ///
    /// # Errors
    /// Those of pwrite(2).
    fn write_at(&self, file: &Self::File, bytes: &[u8], at_bytes: u64) -> Result<usize, Errno>;

    /// Gives a file another size.
    ///
    /// # Errors
    /// Those of ftruncate(2).
    fn truncate(&self, file: &Self::File, size_bytes: u64) -> Result<(), Errno>;

    /// Makes a file durable.
    ///
    /// # Errors
    /// Those of fsync(2).
    fn sync(&self, file: &Self::File) -> Result<(), Errno>;

    /// Makes the data of a file durable.
    ///
    /// # Errors
    /// Those of fdatasync(2).
    fn sync_data(&self, file: &Self::File) -> Result<(), Errno>;

    /// Requests the attributes of a name, which exists or not.
    ///
    /// # Errors
    /// Those of fstatat(2), and `EEXIST` or `ENOENT` for a name that is or is not there against expectation.
    fn stat(&self, directory: BorrowedFd<'_>, path: &CStr, exists: bool) -> Result<(), Errno>;

    /// Gives a name to another.
    ///
    /// # Errors
    /// Those of renameat(2).
    fn rename(&self, directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno>;

    /// Gives a file a second name.
    ///
    /// # Errors
    /// Those of linkat(2).
    fn link(&self, directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno>;

    /// Removes a name.
    ///
    /// # Errors
    /// Those of unlinkat(2).
    fn unlink(&self, directory: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno>;

    /// Opens a directory, reads all its names, and closes it.
    ///
    /// # Errors
    /// Those of openat(2), getdents(2) and close(2).
    fn list(
        &self,
        directory: BorrowedFd<'_>,
        path: &CStr,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<(), Errno>;

    /// Makes the file system of a directory durable.
    ///
    /// # Errors
    /// Those of syncfs(2).
    fn sync_all(&self, directory: BorrowedFd<'_>) -> Result<(), Errno>;
}

/// The calls of the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kernel;

impl Calls for Kernel {
    type File = OwnedFd;

    #[inline]
    fn create(&self, directory: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(directory, path, CREATE_FLAGS, CREATE_MODE)
    }

    #[inline]
    fn open(&self, directory: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(directory, path, READ_FLAGS, Mode::empty())
    }

    #[inline]
    fn open_to_write(
        &self,
        directory: BorrowedFd<'_>,
        path: &CStr,
        truncates_file: bool,
    ) -> Result<OwnedFd, Errno> {
        let flags = if truncates_file { WRITE_FLAGS.union(OFlags::TRUNC) } else { WRITE_FLAGS };
        rustix::fs::openat(directory, path, flags, Mode::empty())
    }

    #[inline]
    fn close(&self, file: OwnedFd) -> Result<(), Errno> {
        close(file)
    }

    #[inline]
    fn read(&self, file: &OwnedFd, bytes: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(file, bytes)
    }

    #[inline]
    fn read_at(&self, file: &OwnedFd, bytes: &mut [u8], at_bytes: u64) -> Result<usize, Errno> {
        rustix::io::pread(file, bytes, at_bytes)
    }

    #[inline]
    fn write_at(&self, file: &OwnedFd, bytes: &[u8], at_bytes: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(file, bytes, at_bytes)
    }

    #[inline]
    fn truncate(&self, file: &OwnedFd, size_bytes: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(file, size_bytes)
    }

    #[inline]
    fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fsync(file)
    }

    #[inline]
    fn sync_data(&self, file: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fdatasync(file)
    }

    #[inline]
    fn stat(&self, directory: BorrowedFd<'_>, path: &CStr, exists: bool) -> Result<(), Errno> {
        match rustix::fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) if exists => Ok(()),
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) if !exists => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    #[inline]
    fn rename(&self, directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
        rustix::fs::renameat(directory, from, directory, to)
    }

    #[inline]
    fn link(&self, directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
        rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())
    }

    #[inline]
    fn unlink(&self, directory: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(directory, path, AtFlags::empty())
    }

    #[inline]
    fn list(
        &self,
        directory: BorrowedFd<'_>,
        path: &CStr,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<(), Errno> {
        let opened = rustix::fs::openat(directory, path, READ_FLAGS.union(OFlags::DIRECTORY), Mode::empty())?;
        let mut entries = RawDir::new(&opened, buffer);
        while let Some(entry) = entries.next() {
            entry?;
        }
        close(opened)
    }

    fn sync_all(&self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::syncfs(directory)
    }
}

/// Calls that do nothing and succeed.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCalls;

impl Calls for NoCalls {
    type File = ();

    #[inline]
    fn create(&self, _: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        std::hint::black_box(path);
        Ok(())
    }

    #[inline]
    fn open(&self, _: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        std::hint::black_box(path);
        Ok(())
    }

    #[inline]
    fn open_to_write(&self, _: BorrowedFd<'_>, path: &CStr, _: bool) -> Result<(), Errno> {
        std::hint::black_box(path);
        Ok(())
    }

    #[inline]
    fn close(&self, (): ()) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn read(&self, (): &(), bytes: &mut [u8]) -> Result<usize, Errno> {
        Ok(bytes.len())
    }

    #[inline]
    fn read_at(&self, (): &(), bytes: &mut [u8], _: u64) -> Result<usize, Errno> {
        Ok(bytes.len())
    }

    #[inline]
    fn write_at(&self, (): &(), bytes: &[u8], _: u64) -> Result<usize, Errno> {
        Ok(std::hint::black_box(bytes).len())
    }

    #[inline]
    fn truncate(&self, (): &(), _: u64) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn sync(&self, (): &()) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn sync_data(&self, (): &()) -> Result<(), Errno> {
        Ok(())
    }

    #[inline]
    fn stat(&self, _: BorrowedFd<'_>, path: &CStr, _: bool) -> Result<(), Errno> {
        std::hint::black_box(path);
        Ok(())
    }

    #[inline]
    fn rename(&self, _: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
        std::hint::black_box((from, to));
        Ok(())
    }

    #[inline]
    fn link(&self, _: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
        std::hint::black_box((from, to));
        Ok(())
    }

    #[inline]
    fn unlink(&self, _: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
        std::hint::black_box(path);
        Ok(())
    }

    #[inline]
    fn list(&self, _: BorrowedFd<'_>, path: &CStr, _: &mut [MaybeUninit<u8>]) -> Result<(), Errno> {
        std::hint::black_box(path);
        Ok(())
    }

    fn sync_all(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Ok(())
    }
}
