//! Remedies for calls that failed in a test.

use engine::Failure;
use engine::failure::Cause;
use rustix::io::Errno;

/// Returns the advice for a call that failed on a device that is erased. It has no files, and nothing but its own
/// changes end it early.
pub(crate) fn device_remedy(failure: &Failure) -> &'static str {
    match failure.cause {
        Cause::Errno(Errno::PERM | Errno::ROFS | Errno::ACCESS) => {
            "make the device writable again (blockdev --setrw): it became read-only during the test"
        }
        Cause::Errno(Errno::NOSPC) | Cause::Short { .. } => {
            "start again: the device became smaller during the test"
        }
        _ => remedy(failure),
    }
}

/// Returns the advice for a call that failed.
pub(crate) fn remedy(failure: &Failure) -> &'static str {
    match failure.cause {
        Cause::Errno(Errno::NOSPC) => {
            "use fewer or smaller files, or free some space: space or inodes ran out \
             during the test"
        }
        Cause::Errno(Errno::PERM | Errno::SPIPE) if failure.call == "write" => {
            "add :fresh to a sequential write test, if the server cannot overwrite files"
        }
        Cause::Errno(Errno::DQUOT) => "use fewer or smaller files, or raise the quota, which is exhausted",
        Cause::Errno(Errno::FBIG) => "use a smaller size: ulimit -f or the file system limits the file size",
        Cause::Errno(Errno::IO) => "the device or server failed; check the kernel log",
        Cause::Errno(Errno::MFILE) => "raise the limit of open files (ulimit -n), or use fewer threads",
        Cause::Errno(Errno::NFILE) => "raise the machine's limit of open files (sysctl fs.file-max)",
        Cause::Errno(Errno::INVAL) => {
            "add :buffered to the test, or --buffered, if this file system does not support direct I/O"
        }
        Cause::Errno(Errno::OPNOTSUPP) if failure.call == "discard" => {
            "drop tests with discard: this device or file system does not support it"
        }
        Cause::Errno(Errno::OPNOTSUPP) => {
            "drop iopoll and engine=: the device or file system does not support them"
        }
        Cause::Errno(Errno::MLINK) => {
            "use fewer files, more threads, dirs=N or kind=symlink: the file or directory has the maximum of links"
        }
        Cause::Errno(Errno::STALE | Errno::NOTCONN) => "mount it again: the server is not connected",
        Cause::Errno(_) => "check the kernel log",
        Cause::Short { .. } => {
            "stop other programs that write here: the file is shorter than skye laid it out"
        }
        Cause::Names { .. } => {
            "this file system loses or repeats names, or another program changes them; use order=seq if the test has \
             an order"
        }
        Cause::Foreign => "move them to another directory: another program created them",
        Cause::Mismatch(_) => "use the same --seed to write the same data again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_error_names_the_limit_to_raise() {
        for (errno, limit) in [(Errno::MFILE, "ulimit -n"), (Errno::NFILE, "fs.file-max")] {
            let failure = Failure { call: "open", file: 0, offset_bytes: None, cause: errno.into() };
            assert!(remedy(&failure).contains(limit), "{errno}");
        }
    }

    #[test]
    fn remedies_for_a_device_name_no_files() {
        for (errno, change) in [(Errno::PERM, "read-only"), (Errno::NOSPC, "smaller")] {
            let failure = Failure { call: "write", file: 0, offset_bytes: Some(0), cause: errno.into() };
            assert!(device_remedy(&failure).contains(change), "{errno}");
            assert!(!device_remedy(&failure).contains("file"), "{errno}");
        }
    }
}
