//! Remedies for calls that failed in a test.

use engine::Failure;
use engine::failure::Cause;
use rustix::io::Errno;

/// Returns the advice for a call that failed.
pub(crate) fn remedy(failure: &Failure) -> &'static str {
    match failure.cause {
        Cause::Errno(Errno::NOSPC) => "space or inodes ran out while the test ran; make room or ask for less",
        Cause::Errno(Errno::DQUOT) => "the quota is used up; raise it or ask for less",
        Cause::Errno(Errno::FBIG) => {
            "a file may not be so large here (ulimit -f, or the file system); use a smaller size"
        }
        Cause::Errno(Errno::PERM) if failure.call == "write" => {
            "the file system or its server refuses to overwrite a file; add :fresh to a sequential write test"
        }
        Cause::Errno(Errno::IO) => "the device or server failed; look at the kernel's log",
        Cause::Errno(Errno::MFILE) => "raise the limit of open files (ulimit -n), or use fewer threads",
        Cause::Errno(Errno::NFILE) => "raise the machine's limit of open files (sysctl fs.file-max)",
        Cause::Errno(Errno::INVAL) => {
            "if this file system refuses direct I/O, add :buffered to the test, or --buffered"
        }
        Cause::Errno(Errno::OPNOTSUPP) if failure.call == "discard" => {
            "this device or file system discards nothing; leave tests with discard away"
        }
        Cause::Errno(Errno::OPNOTSUPP) => {
            "the device or file system cannot do it in this way; leave iopoll and engine= away"
        }
        Cause::Errno(Errno::MLINK) => {
            "a file can have no more hard links here; ask for fewer files or more threads, or write kind=symlink"
        }
        Cause::Errno(Errno::STALE | Errno::NOTCONN) => "the server went away; mount it again",
        Cause::Errno(_) => "look at the kernel's log",
        Cause::Short { .. } => "the file is shorter than it was laid out; something else has changed it",
        Cause::Names { .. } => {
            "this file system loses or repeats names, or something else changes them; where a test has an order, write \
             order=seq"
        }
        Cause::Foreign => "something else has made them; move them away",
        Cause::Mismatch(_) => "the same --seed writes the same data again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_descriptors_name_their_limit() {
        for (errno, limit) in [(Errno::MFILE, "ulimit -n"), (Errno::NFILE, "fs.file-max")] {
            let failure = Failure { call: "open", file: 0, offset_bytes: None, cause: errno.into() };
            assert!(remedy(&failure).contains(limit), "{errno}");
        }
    }
}
