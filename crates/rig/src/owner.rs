//! A rig as seen from the process that starts it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::UserError;

use crate::journal::clean_one;
use crate::lines::{JOIN, Lines, Next, QUIT, Reply, SERVED, SET, TAKE};
use crate::served::RequestLog;
use crate::spec::Spec;

/// Longest time to build a rig.
const BUILD_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout for a command to a rig.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A rig in a separate process. It is undone when it is dropped, and when this process exits or is killed.
#[derive(Debug)]
pub struct Rig {
    path: PathBuf,
    device: Option<PathBuf>,
    journal: Option<PathBuf>,
    process: Mutex<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// The rig ends when this is closed.
    commands: Option<ChildStdin>,
    replies: Lines<ChildStdout>,
}

impl Rig {
    /// Starts PROGRAM with the words of the rig behind its own, and waits until the rig is ready. The program must give
    /// these words to [`serve`](crate::serve).
    ///
    /// # Errors
    /// The program cannot be started, or the rig itself failed.
    pub fn start(program: &[OsString], spec: impl Into<Spec>) -> Result<Self, UserError> {
        let words = spec.into().words();
        let action = || format!("start a rig `{}`", words.join(" "));
        let (name, arguments) =
            program.split_first().ok_or_else(|| UserError::new(action(), "there is no program"))?;
        let mut command = Command::new(name);
        command.args(arguments).args(&words).stdin(Stdio::piped()).stdout(Stdio::piped());
        // We handle the signals that a terminal sends to its foreground programs.
        let mut child = command
            .process_group(0)
            .spawn()
            .map_err(|error| UserError::new(action(), format!("{}: {error}", name.to_string_lossy())))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, replies) = pipes.ok_or_else(|| UserError::new(action(), "it has no pipes"))?;
        let process = Process { child, commands: Some(commands), replies: Lines::new(replies) };
        let mut rig =
            Self { path: PathBuf::new(), device: None, journal: None, process: Mutex::new(process) };
        let ready = rig.process().reply(&action(), BUILD_TIMEOUT)?;
        let Reply::Ready(path, device, journal) = ready else {
            return Err(UserError::new(action(), format!("the program sent `{ready:?}`")));
        };
        (rig.path, rig.device, rig.journal) = (path, device, journal);
        Ok(rig)
    }

    /// Path to measure: a directory of its file system, or a device without one. For a quota or a memory, it is the
    /// group's path in the kernel's file system. It is empty for a rig that only disturbs.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The block device, where it has one: "/dev/loop3".
    pub fn device(&self) -> Option<&Path> {
        self.device.as_deref()
    }

    /// Its journal, for [`clean_one`] if the rig was killed.
    pub fn journal(&self) -> Option<&Path> {
        self.journal.as_deref()
    }

    /// PID of its process.
    pub fn id(&self) -> u32 {
        self.process().child.id()
    }

    /// Changes the settings that words name, as in `"read_iops=2000"`, `"service=2ms slots=8"`, `"over.stall=none"`.
    /// Returns the instant after which they hold, in nanoseconds on the axis of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// This rig cannot change that.
    pub fn set(&self, words: &str) -> Result<u64, UserError> {
        self.send_command(&format!("{SET} {words}"), format!("change a rig to `{words}`"))
    }

    /// Takes a process into a quota or a memory, with all its threads and its future children. Returns the instant
    /// after which it is inside. [`Rig::command_inside`] starts a process that is inside from its first instruction.
    ///
    /// # Errors
    /// There is no such process, it has real-time priority, or the rig is no group of processes.
    pub fn join(&self, process: u32) -> Result<u64, UserError> {
        self.send_command(&format!("{JOIN} {process}"), format!("move process {process} into a rig"))
    }

    /// Returns a command that runs a program inside a quota or a memory from its first instruction on. Arguments and
    /// the like are added as to any other command. It ends with 126 if it cannot get in.
    pub fn command_inside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        // The PID is the program's own, as the shell becomes the program.
        command.args(["-c", "echo $$ > \"$0\"/cgroup.procs || exit 126; exec \"$@\""]);
        command.arg(&self.path).arg(program);
        command
    }

    fn send_command(&self, line: &str, action: String) -> Result<u64, UserError> {
        let mut process = self.process();
        process.send_line(line, &action)?;
        match process.reply(&action, REPLY_TIMEOUT)? {
            Reply::Done(instant_ns) => Ok(instant_ns),
            other => Err(UserError::new(action, format!("it sent `{other:?}`"))),
        }
    }

    /// Returns its answers and their instants, since its start or the last [`Rig::take_served`].
    ///
    /// # Errors
    /// It has no server, or is gone.
    pub fn served(&self) -> Result<RequestLog, UserError> {
        self.read_served(SERVED)
    }

    /// Returns the same, and the rig resets its counts.
    ///
    /// # Errors
    /// As [`Rig::served`].
    pub fn take_served(&self) -> Result<RequestLog, UserError> {
        self.read_served(TAKE)
    }

    fn read_served(&self, word: &str) -> Result<RequestLog, UserError> {
        let mut process = self.process();
        let action = "read the request log of a rig";
        process.send_line(word, action)?;
        let mut served = RequestLog::default();
        loop {
            match process.reply(action, REPLY_TIMEOUT)? {
                Reply::Request(request) => served.add(request),
                _ => return Ok(served),
            }
        }
    }

    /// Undoes it and waits for its end.
    ///
    /// # Errors
    /// The changes that could not be undone, and why.
    pub fn finish(mut self) -> Result<(), UserError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), UserError> {
        let action = "undo a rig";
        let journal = self.journal.take();
        let mut process = self.process();
        // The rig may be gone, which the reply will show.
        let _ = process.send_line(QUIT, action);
        process.commands = None;
        let mut left = Vec::new();
        let outcome = loop {
            match process.reply(action, REPLY_TIMEOUT) {
                Ok(Reply::Leftover(what)) => left.push(what),
                outcome => break outcome.map(|_| ()),
            }
        };
        let clean = || journal.as_deref().and_then(clean_one);
        // A killed rig may hang in its own server, and ends only after that is undone.
        let mut cleaned = if outcome.is_err() { clean() } else { None };
        if !process.wait(REPLY_TIMEOUT) {
            let _ = process.child.kill();
            cleaned = cleaned.or_else(clean);
            process.wait(REPLY_TIMEOUT);
        }
        drop(process);
        match cleaned {
            Some(cleaned) => left.extend(cleaned.leftovers),
            None => outcome?,
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(UserError::new(action, format!("not removed: {}", left.join(", ")))),
        }
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.process().commands.is_some()
            && let Err(error) = self.end()
        {
            log::warn!("{error}");
        }
    }
}

impl Process {
    fn send_line(&mut self, line: &str, action: &str) -> Result<(), UserError> {
        let gone = || UserError::new(action, "it has exited");
        let commands = self.commands.as_mut().ok_or_else(gone)?;
        commands.write_all(format!("{line}\n").as_bytes()).map_err(|error| UserError::new(action, error))
    }

    /// Returns the next reply that reports no error.
    fn reply(&mut self, action: &str, within: Duration) -> Result<Reply, UserError> {
        let next = self.replies.next(&[], Some(Instant::now() + within));
        match next.map_err(|error| UserError::new(action, error))? {
            Next::Line(line) => match Reply::parse(&line) {
                Some(Reply::Failed(error)) => Err(error),
                Some(reply) => Ok(reply),
                None => Err(UserError::new(action, format!("the program sent `{line}`"))),
            },
            Next::Ended => Err(UserError::new(action, "it has ended")),
            Next::TimedOut | Next::Other => {
                Err(UserError::new(action, format!("it has not responded for {} s", within.as_secs())))
            }
        }
    }

    /// Returns true if it has ended in time.
    fn wait(&mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(Duration::from_millis(2));
        }
        false
    }
}
