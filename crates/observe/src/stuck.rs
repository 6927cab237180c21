//! The call that a thread of this process is stuck in, and its file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::calls;
use crate::parse::task_syscall;

/// Longest name that is read from memory, including the byte that ends it.
const NAME_BYTES_MAX: usize = 256;
/// `AT_FDCWD`, as the kernel shows it.
const AT_FDCWD: i32 = -100;

/// Position of the argument that leads to a call's file.
enum Argument {
    /// Descriptor of the file.
    Descriptor(usize),
    /// Descriptor of a directory, followed by the address of a name in it.
    Name(usize),
}

/// Returns the call that a thread is blocked in, and its file if known: "fsync of /mnt/a/file". Returns
/// `None` if the thread runs, if tests make no such call, or if the kernel does not show it.
pub fn stuck_call(thread: i32) -> Option<String> {
    let text = fs::read(task(thread, "syscall")).ok()?;
    let (number, arguments) = task_syscall::call(&text)?;
    let call = calls::position(number).and_then(calls::name)?;
    Some(match path(call, &arguments) {
        Some(path) => format!("{call} of {}", path.display()),
        None => call.to_owned(),
    })
}

/// Returns true if a thread of this process still exists.
pub fn is_own_thread_alive(thread: i32) -> bool {
    task(thread, "").exists()
}

/// Returns a text that identifies the current call of a thread of this process: its number, arguments and
/// place. Returns `None` if the thread runs, or the kernel does not show the call.
pub fn call_of(thread: i32) -> Option<Vec<u8>> {
    fs::read(task(thread, "syscall")).ok().filter(|line| !line.starts_with(b"running"))
}

/// Returns how often a thread of this process got a CPU. A thread that waits for a single answer gets none.
pub fn times_scheduled(thread: i32) -> Option<u64> {
    // The fields are time on a CPU, time waiting for one, and times that it got one
    // (Documentation/scheduler/sched-stats.rst).
    fs::read_to_string(task(thread, "schedstat")).ok()?.split_ascii_whitespace().nth(2)?.parse().ok()
}

fn task(thread: i32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/task/{thread}/{name}"))
}

fn path(call: &str, arguments: &[u64]) -> Option<PathBuf> {
    let descriptor = |at: usize| {
        // The kernel shows all 64 bits of an int.
        let number = *arguments.get(at)? as i32;
        let link =
            if number == AT_FDCWD { "/proc/self/cwd".into() } else { format!("/proc/self/fd/{number}") };
        fs::read_link(link).ok()
    };
    match argument(call)? {
        Argument::Descriptor(at) => descriptor(at),
        Argument::Name(at) => Some(descriptor(at)?.join(name(*arguments.get(at + 1)?)?)),
    }
}

fn argument(call: &str) -> Option<Argument> {
    Some(match call {
        "read" | "write" | "pread64" | "pwrite64" | "preadv2" | "pwritev2" | "fsync" | "fdatasync"
        | "sync_file_range" | "copy_file_range" | "ioctl" | "fsetxattr" | "fgetxattr" | "ftruncate"
        | "fallocate" | "close" | "fstat" | "getdents64" => Argument::Descriptor(0),
        "openat" | "unlinkat" | "mkdirat" | "renameat" | "renameat2" | "linkat" | "readlinkat"
        | "newfstatat" | "statx" | "utimensat" => Argument::Name(0),
        "symlinkat" => Argument::Name(1),
        _ => return None,
    })
}

/// Reads the name at an address of this process. The kernel's file refuses an invalid address.
fn name(address: u64) -> Option<String> {
    let mut bytes = [0; NAME_BYTES_MAX];
    let read = File::open("/proc/self/mem").ok()?.read_at(&mut bytes, address).ok()?;
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_with_their_files() {
        let temp = tempfile::tempdir().unwrap();
        let file = File::create(temp.path().join("file")).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file) as u64;
        assert_eq!(path("fsync", &[number]), Some(temp.path().join("file")));
        let directory = File::open(temp.path()).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&directory) as u64;
        let gone = c"data-0001";
        assert_eq!(path("unlinkat", &[number, gone.as_ptr() as u64, 0]), Some(temp.path().join("data-0001")));
        let here = AT_FDCWD as u64;
        assert_eq!(
            path("symlinkat", &[0, here, gone.as_ptr() as u64]),
            std::env::current_dir().ok().map(|here| here.join("data-0001"))
        );
        assert_eq!(path("unlinkat", &[number, 1, 0]), None, "no address");
        assert_eq!(path("fsync", &[u64::MAX]), None, "no descriptor");
        assert_eq!(path("futex", &[0]), None);
    }

    #[test]
    fn blocked_thread_has_stuck_call_until_exit() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            std::io::Read::read(&mut { reader }, &mut [0]).unwrap()
        });
        let number = receiver.recv().unwrap();
        let stuck = loop {
            match stuck_call(number) {
                Some(call) if call.starts_with("read") => break call,
                _ => std::thread::yield_now(),
            }
        };
        assert!(stuck.starts_with("read of pipe:["), "{stuck}");
        assert!(is_own_thread_alive(number));
        assert_eq!(times_scheduled(number), times_scheduled(number), "it sleeps");
        assert!(times_scheduled(number) > Some(0));
        drop(writer);
        thread.join().unwrap();
    }
}
