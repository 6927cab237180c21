//! Names of the system calls that tests make.

/// Number of calls that have a name here.
pub(crate) const COUNT: usize = NAMES.len();

macro_rules! calls {
    ($($(#[$condition:meta])* $number:ident $name:literal)*) => {
        &[$($(#[$condition])* (libc::$number as i64, $name)),*]
    };
}

/// Number and name of each call. Newer architectures lack the older calls, such as `open`.
const NAMES: &[(i64, &str)] = calls! {
    SYS_read "read"
    SYS_write "write"
    SYS_pread64 "pread64"
    SYS_pwrite64 "pwrite64"
    SYS_preadv2 "preadv2"
    SYS_pwritev2 "pwritev2"
    SYS_fsync "fsync"
    SYS_fdatasync "fdatasync"
    SYS_sync_file_range "sync_file_range"
    SYS_msync "msync"
    SYS_ftruncate "ftruncate"
    SYS_fallocate "fallocate"
    SYS_copy_file_range "copy_file_range"
    SYS_ioctl "ioctl"
    SYS_fsetxattr "fsetxattr"
    SYS_fgetxattr "fgetxattr"
    SYS_openat "openat"
    SYS_close "close"
    SYS_unlinkat "unlinkat"
    SYS_mkdirat "mkdirat"
    SYS_renameat2 "renameat2"
    SYS_linkat "linkat"
    SYS_symlinkat "symlinkat"
    SYS_readlinkat "readlinkat"
    SYS_newfstatat "newfstatat"
    SYS_fstat "fstat"
    SYS_statx "statx"
    SYS_getdents64 "getdents64"
    SYS_utimensat "utimensat"
    SYS_io_uring_enter "io_uring_enter"
    SYS_futex "futex"
    SYS_clock_nanosleep "clock_nanosleep"
    #[cfg(not(target_arch = "riscv64"))] SYS_renameat "renameat"
    #[cfg(target_arch = "x86_64")] SYS_open "open"
    #[cfg(target_arch = "x86_64")] SYS_unlink "unlink"
    #[cfg(target_arch = "x86_64")] SYS_mkdir "mkdir"
    #[cfg(target_arch = "x86_64")] SYS_rmdir "rmdir"
    #[cfg(target_arch = "x86_64")] SYS_rename "rename"
    #[cfg(target_arch = "x86_64")] SYS_link "link"
    #[cfg(target_arch = "x86_64")] SYS_symlink "symlink"
    #[cfg(target_arch = "x86_64")] SYS_stat "stat"
    #[cfg(target_arch = "x86_64")] SYS_lstat "lstat"
};

/// Returns the position of a call in [`NAMES`]; absent if it has no name.
pub(crate) fn position(number: i64) -> Option<usize> {
    NAMES.iter().position(|(known, _)| *known == number)
}

/// Returns the name of the call at this position.
pub(crate) fn name(position: usize) -> Option<&'static str> {
    NAMES.get(position).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::{COUNT, name, position};

    #[test]
    fn every_call_is_found_by_its_number() {
        assert_eq!(position(libc::SYS_fsync).and_then(name), Some("fsync"));
        for (index, (number, _)) in super::NAMES.iter().enumerate() {
            assert_eq!(position(*number), Some(index));
        }
        assert_eq!((position(-1), name(COUNT)), (None, None));
    }
}
