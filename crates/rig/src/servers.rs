//! External programs that rigs have started and that keep running by themselves.
//!
//! A program that is started to live on is one of `PROGRAMS` and has a word on our directory in its command line. It
//! holds neither the journal's lock nor the owner's pipes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::step::{Outcome, TRIES};

/// Programs that rigs start this way, and the shells that start them. Other programs with a path in a rig's directory
/// only inspect it, and are not killed.
const PROGRAMS: [&str; 8] = ["unshare", "sh", "dash", "bash", "busybox", "sshd", "sshfs", "ssh"];

/// Kills the processes with a path below a rig's directory in their command line, and waits until they are gone.
pub(crate) fn end(home: &Path) -> Outcome {
    let mut found = false;
    for _ in 0..TRIES {
        let mut is_over = true;
        for process in processes() {
            match process_kind(process, home) {
                ProcessKind::Other => {}
                ProcessKind::Unclear => is_over = false,
                ProcessKind::Ours => {
                    (found, is_over) = (true, false);
                    // Another process may have the PID by now; the descriptor stays with the process that it was opened
                    // for.
                    if let Ok(held) = pidfd_open(process, PidfdFlags::empty())
                        && process_kind(process, home) == ProcessKind::Ours
                    {
                        let _ = pidfd_send_signal(&held, Signal::KILL);
                    }
                }
            }
        }
        if is_over {
            return if found { Outcome::Undone } else { Outcome::NotThere };
        }
        thread::sleep(Duration::from_millis(20));
    }
    if found { Outcome::Leftover("they do not exit".into()) } else { Outcome::NotThere }
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// Kind of a process, by its looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessKind {
    Ours,
    Other,
    /// It is about to become a program, and has no command line yet.
    Unclear,
}

fn process_kind(process: Pid, home: &Path) -> ProcessKind {
    let directory = Path::new("/proc").join(process.as_raw_nonzero().to_string());
    // A process that has ended and was not waited for has no program.
    let program = fs::read_link(directory.join("exe")).unwrap_or_default();
    if !program.file_name().is_some_and(|name| PROGRAMS.iter().any(|known| name == *known)) {
        return ProcessKind::Other;
    }
    let below = [home.as_os_str().as_bytes(), b"/"].concat();
    match fs::read(directory.join("cmdline")) {
        Ok(line) if line.is_empty() => ProcessKind::Unclear,
        Ok(line) if line.windows(below.len()).any(|words| words == below) => ProcessKind::Ours,
        _ => ProcessKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn rig_servers_below_directory_are_killed_and_no_others() {
        let home = std::env::temp_dir().join(crate::journal::unique_name());
        let word = |name: &str| home.join(name).into_os_string();
        // Each waits for its input, and ends with us at the latest.
        let start = |program: &str, arguments: &[&str], word| {
            let mut command = Command::new(program);
            command.args(arguments).args(["cat", "-"]).arg(word).stdin(Stdio::piped()).spawn().unwrap()
        };
        let mut ours = start("unshare", &["--fork", "--kill-child"], word("config"));
        let mut lookalike = start("env", &[], word("config"));
        let elsewhere = home.with_extension("else").into_os_string();
        let mut others = start("unshare", &["--fork", "--kill-child"], elsewhere);
        // Each has executed its program once its `exe` link shows the program.
        let lives = |process: u32| {
            let program = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
            program.file_name().is_some_and(|name| name == "unshare")
        };
        while !lives(ours.id()) || !lives(others.id()) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(end(&home), Outcome::Undone);
        assert!(!ours.wait().unwrap().success());
        assert_eq!(end(&home), Outcome::NotThere);
        for child in [&mut lookalike, &mut others] {
            assert_eq!(child.try_wait().unwrap(), None);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
