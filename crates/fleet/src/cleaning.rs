//! Removal of what lost clients have left, by `skye clean` on their machines. All have one limit together.

use std::io::{self, PipeReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use model::printable::printable;
use run::patience;

use crate::coordinator::{Client, Fleet, LOOK, State, Way};
use crate::launch::Launcher;
use crate::link::NO_ANSWER;

/// Time until a directory that is still in use belongs to an agent that was stopped, and not to one that is just ending.
const IN_USE: Duration = Duration::from_secs(3);
/// Interval between checks of the programs.
const STEP: Duration = Duration::from_millis(10);
/// Most bytes of a program's output that are kept.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Removal on one machine.
pub(crate) struct Cleaning {
    /// Client whose files it removes.
    pub(crate) client: usize,
    /// End of the path of its directory.
    own: String,
    command: Command,
    progress: Progress,
}

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
    /// Prepares a removal. `own` is the end of the path of the client's directory.
    pub(crate) fn new(client: usize, own: String, mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self { client, own, command, progress: Progress::Waits(Instant::now()) }
    }

    /// Carries removals out, at most `at_once` of them at a time. Returns for each client why its files may be left, if they may. Removals
    /// that take longer than a call that hangs are given up.
    pub(crate) fn all(mut cleanings: Vec<Self>, at_once: usize) -> Vec<(usize, Option<String>)> {
        let started = Instant::now();
        while cleanings.iter().any(|cleaning| !matches!(cleaning.progress, Progress::Ended(_)))
            && started.elapsed() < patience::patience(true)
        {
            let runs = |cleaning: &&Self| matches!(cleaning.progress, Progress::Runs(_));
            let mut free = at_once.saturating_sub(cleanings.iter().filter(runs).count());
            for cleaning in &mut cleanings {
                cleaning.step(started, &mut free);
            }
            std::thread::sleep(STEP);
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
        if !status.success() {
            let line = text.lines().last().unwrap_or("it is lost").trim();
            return Progress::Ended(Some(printable(line)));
        }
        // A process that was just killed may not be gone yet; one that was stopped holds its lock.
        match text.lines().find(|line| line.starts_with("in use") && line.contains(&self.own)) {
            None => Progress::Ended(None),
            Some(line) if started.elapsed() > IN_USE => Progress::Ended(Some(printable(line.trim()))),
            Some(_) => Progress::Waits(Instant::now() + LOOK),
        }
    }

    fn end(self) -> Option<String> {
        match self.progress {
            Progress::Ended(why) => why,
            Progress::Waits(_) => Some("it was not reached in time".to_owned()),
            Progress::Runs(Running { mut child, .. }) => {
                let _ = child.kill();
                let _ = child.try_wait();
                Some("it does not answer".to_owned())
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
    pub(crate) fn clean_after(&mut self) -> Vec<String> {
        let (mut lines, mut cleanings) = (Vec::new(), Vec::new());
        let words = |client: &Client| ["clean".to_owned(), client.directory.clone()];
        let left = |launcher: &Launcher, client: &Client, why: &str| {
            let typed = launcher.typed(&client.host, &words(client));
            format!("{}: {why}; when it can, `{typed}` removes its files", client.name)
        };
        for (index, client) in self.clients.iter_mut().enumerate() {
            let State::Lost(why) = &client.state else { continue };
            if !std::mem::replace(&mut client.may_leave, false) {
                continue;
            }
            let command = match client.way {
                // A rank removes what its agent has left before it says that the channel has ended.
                Way::Rank => {
                    let is_unknown = "its agent removes its files, unless the whole job was killed";
                    lines.extend((why == NO_ANSWER).then(|| left(&self.launcher, client, is_unknown)));
                    continue;
                }
                Way::Here => Ok(self.launcher.here(&words(client))),
                Way::Launched => self.launcher.command(&client.host, &words(client), None),
            };
            let own = format!("/skye.{}", model::marker::letters_of_client(index as u32));
            match command {
                Ok(command) => cleanings.push(Cleaning::new(index, own, command)),
                Err(_) => lines.push(left(&self.launcher, client, "it is lost")),
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
        Cleaning::new(0, "/skye.000000".into(), command)
    }

    #[test]
    fn output_that_a_child_keeps_open_ends_no_wait() {
        let started = Instant::now();
        // The child of the program lives as long as this process.
        let child = format!("while kill -0 {}; do sleep 0.1; done &", std::process::id());
        let ended = Cleaning::all(vec![clean(&child)], 1);
        assert_eq!(ended, [(0, None)]);
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn reasons_for_files_that_are_left_are_kept() {
        let used = "echo \"in use   /mnt/skye.000000 by process 7\"";
        let scripts = ["exit 0", "echo no such host; exit 255", used, "echo \"in use   /mnt/skye.111111\""];
        let ended = Cleaning::all(scripts.into_iter().map(clean).collect(), 2);
        let reasons: Vec<_> = ended.into_iter().map(|(_, why)| why).collect();
        let expected = [None, Some("no such host"), Some("in use   /mnt/skye.000000 by process 7"), None];
        assert_eq!(reasons, expected.map(|why| why.map(str::to_owned)));
    }
}
