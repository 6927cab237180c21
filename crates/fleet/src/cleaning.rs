//! Removal of what lost clients have left, by `skye clean` on their machines. All have one limit together.

use std::io::{self, PipeReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use model::marker;
use model::printable::printable;
use model::target::TargetKind;
use run::hang_detection;

use crate::coordinator::{Client, Fleet, POLL_INTERVAL, State, Transport};
use crate::launch::Launcher;
use crate::link::NO_ANSWER;
use crate::texts;

/// Time until a directory that is still in use belongs to an agent that was stopped, and not to one that is just ending.
const IN_USE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between checks of the programs.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Exit code of `skye clean` if it leaves a directory that no process uses.
const FAILED: i32 = 1;
/// Most bytes of a program's output that are kept.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Removal on one machine.
pub(crate) struct Cleaning {
    /// Client whose files it removes.
    pub(crate) client: usize,
    /// Work directory of the client.
    own: WorkDirectory,
    command: Command,
    progress: Progress,
}

/// Work directory of a lost client, as `skye clean` prints its path.
struct WorkDirectory {
    /// The path, or its beginning.
    path: String,
    /// Letters that follow: all that the client has drawn, where it was lost before it named the directory.
    unknown_letters: usize,
}

impl WorkDirectory {
    /// Returns the directory of a client. A client cannot give it a name of another one.
    fn new(target: &str, client: u32, name: &str) -> Self {
        let first = marker::letters_of_client(client);
        let beginning = format!("{}{first}", marker::DIRECTORY_PREFIX);
        let is_its = name.starts_with(&beginning) && marker::is_work_directory(name.as_bytes());
        let (name, unknown_letters) =
            if is_its { (name, 0) } else { (beginning.as_str(), marker::LETTERS - first.len()) };
        Self { path: printable(&Path::new(target).join(name).display().to_string()), unknown_letters }
    }

    /// Returns true if this path begins a text, and ends there.
    fn is_path_of(&self, text: &str) -> bool {
        let Some(rest) = text.trim_start().strip_prefix(&self.path) else { return false };
        let letters = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        letters == self.unknown_letters && !rest[letters..].starts_with('/')
    }
}

/// Words with which `skye clean` begins the line of each directory that it has found.
const LEFT: &str = "left  ";
const IN_USE_BY: &str = "in use";
const REMOVED: &str = "removed";

enum Progress {
    /// It starts at this instant.
    Waits(Instant),
    Runs(Running),
    /// It has ended, with the reason why files may be left.
    Ended(Option<String>),
}

struct Running {
    child: Child,
    output: PipeReader,
    text: Vec<u8>,
}

impl Cleaning {
    /// Prepares a removal of a client's work directory.
    fn new(client: usize, own: WorkDirectory, mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self { client, own, command, progress: Progress::Waits(Instant::now()) }
    }

    /// Carries removals out, at most `at_once` of them at a time. Returns for each client why its files may be left, if they may. Removals
    /// that take longer than a call that hangs are given up.
    pub(crate) fn all(mut cleanings: Vec<Self>, at_once: usize) -> Vec<(usize, Option<String>)> {
        let started = Instant::now();
        while cleanings.iter().any(|cleaning| !matches!(cleaning.progress, Progress::Ended(_)))
            && started.elapsed() < hang_detection::hang_timeout(true)
        {
            let runs = |cleaning: &&Self| matches!(cleaning.progress, Progress::Runs(_));
            let mut free = at_once.saturating_sub(cleanings.iter().filter(runs).count());
            for cleaning in &mut cleanings {
                cleaning.step(started, &mut free);
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        cleanings.into_iter().map(|cleaning| (cleaning.client, cleaning.end())).collect()
    }

    fn step(&mut self, started: Instant, free: &mut usize) {
        match &mut self.progress {
            Progress::Waits(from) if *free > 0 && Instant::now() >= *from => {
                *free -= 1;
                let failed = |error: io::Error| Progress::Ended(Some(error.to_string()));
                self.progress = start(&mut self.command).map_or_else(failed, Progress::Runs);
            }
            Progress::Runs(running) => {
                running.read();
                if let Ok(Some(status)) = running.child.try_wait() {
                    running.read();
                    let text = String::from_utf8_lossy(&running.text).into_owned();
                    self.progress = self.after(status, &text, started);
                }
            }
            Progress::Waits(_) | Progress::Ended(_) => {}
        }
    }

    /// Returns the state after the program has ended.
    fn after(&self, status: ExitStatus, text: &str, started: Instant) -> Progress {
        let reason = |line: &str| Progress::Ended(Some(texts::short(line.trim())));
        let own = |word: &str| {
            text.lines().find(|line| line.strip_prefix(word).is_some_and(|path| self.own.is_path_of(path)))
        };
        // A process that was just killed may not be gone yet; one that was stopped holds its lock.
        if let Some(line) = own(IN_USE_BY) {
            return match started.elapsed() > IN_USE_TIMEOUT {
                true => reason(line),
                false => Progress::Waits(Instant::now() + POLL_INTERVAL),
            };
        }
        if let Some(line) = own(LEFT) {
            return reason(line);
        }
        // The program fails if it leaves anything in the directory, such as that of another user.
        let is_of_others = status.code() == Some(FAILED) && text.lines().any(|line| line.starts_with(LEFT));
        if status.success() || is_of_others {
            return Progress::Ended(None);
        }
        let is_listed = |line: &&str| [LEFT, IN_USE_BY, REMOVED].iter().any(|word| line.starts_with(word));
        let others = text.lines().rfind(|line| !is_listed(line) && !line.trim().is_empty());
        reason(others.unwrap_or("the connection was lost"))
    }

    fn end(self) -> Option<String> {
        match self.progress {
            Progress::Ended(why) => why,
            Progress::Waits(_) => Some("it was not connected in time".to_owned()),
            Progress::Runs(Running { mut child, .. }) => {
                let _ = child.kill();
                let _ = child.try_wait();
                Some("it does not respond".to_owned())
            }
        }
    }
}

fn start(command: &mut Command) -> io::Result<Running> {
    let (output, input) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let child = command.stdout(input.try_clone()?).stderr(input).spawn();
    // Our ends for writing go with the streams of the command.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Running { child: child?, output, text: Vec::new() })
}

impl Running {
    /// Takes what the program has text so far. Its end is not waited for: its child may keep the pipe.
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.output.read(&mut bytes) {
            let room = OUTPUT_BYTES_MAX.saturating_sub(self.text.len());
            self.text.extend_from_slice(&bytes[..count.min(room)]);
            if room == 0 {
                return;
            }
        }
    }
}

impl Fleet {
    /// Removes the files of clients that were lost, where their launcher still works. Returns lines about files that may
    /// be left.
    pub(crate) fn clean_lost_clients(&mut self) -> Vec<String> {
        let (mut lines, mut cleanings) = (Vec::new(), Vec::new());
        let words = |client: &Client| ["clean".to_owned(), client.directory.clone()];
        let left = |launcher: &Launcher, client: &Client, why: &str| {
            let typed = launcher.user_command_line(&client.host, &words(client));
            format!("{}: {why}; remove its files with `{typed}` when it responds again", client.name)
        };
        for (index, client) in self.clients.iter_mut().enumerate() {
            let State::Lost(why) = &client.state else { continue };
            // A client of another target than a directory makes no files.
            let has_files = client
                .found
                .as_ref()
                .is_none_or(|found| found.environment.target.kind == TargetKind::Directory);
            if !std::mem::replace(&mut client.may_have_files, false) || !has_files {
                continue;
            }
            let command = match client.transport {
                // A rank removes what its agent has left before it says that the channel has ended.
                Transport::Rank => {
                    let is_unknown = "its agent removes its files, unless the whole job was killed";
                    lines.extend((why == NO_ANSWER).then(|| left(&self.launcher, client, is_unknown)));
                    continue;
                }
                Transport::ThisMachine => Ok(self.launcher.here(&words(client))),
                Transport::Launched => self.launcher.command(&client.host, &words(client), None),
            };
            let own = WorkDirectory::new(&client.directory, index as u32, &client.work_directory_name);
            match command {
                Ok(command) => cleanings.push(Cleaning::new(index, own, command)),
                Err(_) => lines.push(left(&self.launcher, client, "the connection was lost")),
            }
        }
        for (index, why) in Cleaning::all(cleanings, self.start_at_once) {
            lines.extend(why.map(|why| left(&self.launcher, &self.clients[index], &why)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(script: &str) -> Cleaning {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Cleaning::new(0, WorkDirectory::new("/mnt", 0, "skye.000000"), command)
    }

    #[test]
    fn child_holding_output_open_does_not_prolong_wait() {
        let started = Instant::now();
        // The child of the program lives as long as this process.
        let child = format!("while kill -0 {}; do sleep 0.1; done &", std::process::id());
        let ended = Cleaning::all(vec![clean(&child)], 1);
        assert_eq!(ended, [(0, None)]);
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn cleaning_result_says_why_files_remain() {
        let used = "in use   /mnt/skye.000000 by process 7";
        let left =
            "left     /mnt/skye.000000: 0 of its files removed; not removed: . (Read-only file system)";
        let foreign = "left     /mnt/skye.fake01: it belongs to another user";
        let cases = [
            (vec![], 0, None),
            (vec!["no such host"], 255, Some("no such host")),
            (vec!["in use   /mnt/skye.111111 by process 7"], 0, None),
            (vec!["in use   /mnt/skye.0000001 by process 7"], 0, None),
            (vec![used], 0, Some(used)),
            (vec![left], 1, Some(left)),
            (vec![foreign], 1, None),
            (vec![left, foreign], 1, Some(left)),
            (vec![used, foreign], 1, Some(used)),
            (vec!["removed  /mnt/skye.000000 with 3 files", foreign], 1, None),
            (vec![foreign, "Connection closed"], 255, Some("Connection closed")),
            (vec![foreign], 255, Some("the connection was lost")),
            (vec!["cannot clean /mnt: it does not answer"], 1, Some("cannot clean /mnt: it does not answer")),
        ];
        let script = |(lines, code, _): &(Vec<&str>, i32, Option<&str>)| {
            let echoes: String = lines.iter().map(|line| format!("echo '{line}'; ")).collect();
            clean(&format!("{echoes} exit {code}"))
        };
        let ended = Cleaning::all(cases.iter().map(script).collect(), cases.len());
        for ((_, why), (lines, code, expected)) in ended.into_iter().zip(&cases) {
            assert_eq!(why.as_deref(), *expected, "{lines:?}, exit code {code}");
        }
    }

    #[test]
    fn output_line_is_matched_to_client_directory() {
        let is_its =
            |target: &str, name: &str, text: &str| WorkDirectory::new(target, 1, name).is_path_of(text);
        assert!(is_its("/mnt/", "skye.01abcd", "   /mnt/skye.01abcd: it hangs"));
        assert!(is_its(".", "skye.01abcd", "   ./skye.01abcd"));
        assert!(!is_its("/mnt", "skye.01abcd", "   /mnt/skye.01abce: it hangs"));
        assert!(!is_its("/mnt/skye.01abcd", "skye.01abcd", "   /mnt/skye.01abcd/skye.02abcd"));
        // A client that was lost before it named its directory, and one that lies.
        for name in ["", "skye.00abcd", "skye.01", "precious"] {
            assert!(is_its("/mnt", name, "   /mnt/skye.01wxyz: it hangs"), "{name}");
            assert!(!is_its("/mnt", name, "   /mnt/skye.00wxyz: it hangs"), "{name}");
            assert!(!is_its("/mnt", name, "   /mnt/skye.01wxyz/a: it hangs"), "{name}");
        }
    }
}
