//! Faults that a server makes on request, and the counts of its requests.

use std::time::Duration;

use fuser::Errno;

/// A call that can be made to hang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangs {
    /// fsync and fdatasync of a file.
    Sync,
    /// Removal of a file.
    Unlink,
    /// Listing of a directory.
    Readdir,
    /// Closing of a descriptor of a file.
    Close,
    /// Search for a name.
    Lookup,
    /// Opening of a file.
    Open,
    /// Question for free space.
    Statfs,
}

/// A call that a server may not have: it answers with ENOSYS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// rename.
    Rename,
    /// statfs.
    Statfs,
    /// fsync and fdatasync of files.
    Sync,
}

/// Faults, and when they begin. Amounts are counted from the last [`Fuse::set`](super::Fuse::set).
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// True if opening with `O_DIRECT` is refused with EINVAL. A file that the same call creates exists nevertheless,
    /// as on Linux's own file systems without direct I/O.
    pub refuse_direct: bool,
    /// True if opening with `O_DIRECT` succeeds, and writes through such a descriptor fail with EINVAL.
    pub refuse_direct_writes: bool,
    /// Mode of each file and directory, which chmod does not change: FAT and NTFS have modes by their mount options.
    pub mode: Option<u32>,
    /// Writes fail with this error after this many bytes.
    pub write_error_after: Option<(u64, Errno)>,
    /// Reads fail with this error after this many bytes.
    pub read_error_after: Option<(u64, Errno)>,
    /// Reads find the end of every file here, whatever its reported size: reads that cross it are short.
    pub reads_end_at: Option<u64>,
    /// Reads return at most this many bytes.
    pub read_bytes_max: Option<u32>,
    /// A call that the server does not have.
    pub missing: Option<Missing>,
    /// Making files, directories and links fails with this error after this many of them.
    pub create_error_after: Option<(u64, Errno)>,
    /// fsync and fdatasync of files fail with this error after this many of them.
    pub sync_error_after: Option<(u64, Errno)>,
    /// Closing descriptors fails with this error.
    pub close_error: Option<Errno>,
    /// True if closing a file restores the name that was removed before, as servers do that write it back then.
    pub restores_at_close: bool,
    /// True if removals of files are confirmed and not made.
    pub keeps_files: bool,
    /// True if directories list names of missing files, without end.
    pub lists_endlessly: bool,
    /// Number of the first read (counted from 1) that hangs. All later reads hang, too, until
    /// [`Fuse::release`](super::Fuse::release).
    pub hang_from_read: Option<u64>,
    /// After this many bytes written, writes take effect but get no reply before
    /// [`Fuse::release`](super::Fuse::release).
    pub hang_after_written: Option<u64>,
    /// Kind and number of the first call (counted from 1) that hangs. It and all later ones take effect but get no
    /// reply before [`Fuse::release`](super::Fuse::release).
    pub hang: Option<(Hangs, u64)>,
    /// Duration of each removal of a file, while all other requests wait: time for a signal to arrive.
    pub unlink_time: Duration,
    /// Values that statfs reports: size, free space (bytes), files and free files.
    pub space: Space,
}

/// Values that statfs reports.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    /// Size.
    pub total_bytes: u64,
    /// Free part of it.
    pub free_bytes: u64,
    /// Largest number of files.
    pub files: u64,
    /// Number of files that can still be made.
    pub free_files: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            refuse_direct: false,
            refuse_direct_writes: false,
            mode: None,
            write_error_after: None,
            read_error_after: None,
            reads_end_at: None,
            read_bytes_max: None,
            missing: None,
            create_error_after: None,
            sync_error_after: None,
            close_error: None,
            restores_at_close: false,
            keeps_files: false,
            lists_endlessly: false,
            hang_from_read: None,
            hang_after_written: None,
            hang: None,
            unlink_time: Duration::ZERO,
            space: Space { total_bytes: 64 << 30, free_bytes: 60 << 30, files: 1 << 22, free_files: 1 << 22 },
        }
    }
}

/// Requests to the file system since the last [`Fuse::set`](super::Fuse::set).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Bytes that reads returned.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Files, directories and links that were made.
    pub creates: u64,
    /// Calls of fsync and fdatasync on files.
    pub syncs: u64,
    /// Files that were removed, or should have been.
    pub unlinks: u64,
    /// Listings of directories.
    pub readdirs: u64,
    /// Descriptors of files that were closed.
    pub closes: u64,
    /// Names that were searched for.
    pub lookups: u64,
    /// Files that were opened.
    pub opens: u64,
    /// Questions for free space.
    pub statfs: u64,
    /// Requests that wait for an answer.
    pub hanging: usize,
}
