//! Commands of the user that change settings before measurements, and the settings that were there first.
//!
//! The commands only ever come from the command line. Before the first one runs, the settings are in a journal, so that
//! they come back after any end: by this process, or by `skye clean`.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::run::Setting;
use model::{Target, UserError};
use rig::{Change, FirstSettings, Journal, Place, Settings};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::signals::Interruption;

/// Interval between checks whether a command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time that a command has to end after SIGTERM.
const TERM_TIME: Duration = Duration::from_secs(2);
/// Time in which settings that change by themselves show it.
const UNSTABLE_TIME: Duration = Duration::from_millis(100);
/// Longest output of a command that is shown.
const OUTPUT_BYTES_MAX: u64 = 4096;

/// Two commands, one for each side of a comparison.
pub struct SettingCommands {
    commands: [String; 2],
    /// The settings that the commands change, with their first values.
    first: FirstSettings,
    /// Settings that differ between the sides, with the values of both.
    differing: Vec<Change>,
    journal: Journal,
    interruption: Interruption,
}

impl SettingCommands {
    /// Runs each command once, with what `observe` finds after it, and finds out what they change on the target.
    ///
    /// # Errors
    /// A command fails, or leaves what the other one does not set and skye cannot put back. Another program changes settings,
    /// or the journal cannot be written. The error lists the settings that could not be put back.
    pub fn begin<T>(
        commands: [String; 2],
        target: &Target,
        interruption: &Interruption,
        observe: impl Fn() -> Result<T, UserError>,
    ) -> Result<(Self, [T; 2]), UserError> {
        let devices: Vec<_> = target
            .device_stack
            .iter()
            .map(|device| (device.name.clone(), format!("{}:{}", device.major, device.minor)))
            .collect();
        let read = || Settings::read(&devices, Path::new(&target.mount_point), &target.file_system);
        let mut journal = Journal::open()?;
        let mut first = read();
        // Some settings change by themselves, or with each process that starts.
        run(":", &journal, interruption)?;
        thread::sleep(UNSTABLE_TIME);
        let unstable: Vec<_> = first.compare(&read()).into_iter().map(|change| change.place).collect();
        first.exclude(&unstable);
        journal.keep_settings(first.as_first())?;
        let side = |number: usize| {
            run(&commands[number], &journal, interruption)?;
            let mut after = read();
            after.exclude(&unstable);
            Ok::<_, UserError>((after, observe()?))
        };
        let both = || {
            let (after_a, found_a) = side(0)?;
            // Each command finds the first settings.
            let stuck = first.before(&[&after_a]).put_back().places;
            let (after_b, found_b) = side(1)?;
            match stuck.iter().find(|place| after_a.value(place) == after_b.value(place)) {
                None => Ok(([after_a, after_b], [found_a, found_b])),
                Some(place) => Err(UserError::new(
                    format!("run `{}` on the first settings", commands[1]),
                    format!("{place} stays as `{}` set it", commands[0]),
                )
                .help("use two commands that both set it")),
            }
        };
        let done = both();
        let known = match &done {
            Ok(([a, b], _)) => first.before(&[a, b]),
            Err(_) => first.before(&[&read()]),
        };
        let ([after_a, after_b], found) = match done {
            Ok(done) => done,
            Err(error) => {
                let left = known.put_back().leftovers;
                journal.forget();
                return Err(with_leftovers(error, &left));
            }
        };
        // From here on, only values of these commands are undone: others are another program's.
        let mut narrow = Journal::open()?;
        narrow.keep_settings(known.clone())?;
        std::mem::replace(&mut journal, narrow).forget();
        if let Some(other) = rig::other_owner(&journal, &known) {
            return Err(with_leftovers(refusal(&other), &journal.undo()));
        }
        let differing = after_a.compare(&after_b);
        let interruption = interruption.clone();
        Ok((Self { commands, first: known, differing, journal, interruption }, found))
    }

    /// The command of each side.
    pub fn commands(&self) -> &[String; 2] {
        &self.commands
    }

    /// Returns true if a command changes a setting that skye reads.
    pub fn has_changes(&self) -> bool {
        !self.first.is_empty()
    }

    /// Settings that differ between the sides: those that exist on both.
    pub fn differing(&self) -> impl Iterator<Item = &Change> {
        self.differing.iter().filter(|change| change.before.is_some() && change.after.is_some())
    }

    /// Settings of a side that differ from those of the other, without those that each document has.
    pub fn settings_of(&self, side: usize) -> impl Iterator<Item = Setting> {
        let is_new = |change: &&Change| match &change.place {
            Place::File(path) => !observe::is_recorded(path),
            Place::Limit(..) => true,
            Place::Mount(_) => false,
        };
        self.differing().filter(is_new).filter_map(move |change| {
            Some(Setting { name: change.place.to_string(), value: side_value(change, side)?.clone() })
        })
    }

    /// Puts the first settings back, and runs the command of a side.
    ///
    /// # Errors
    /// The command fails, or leaves another setting than before.
    pub fn apply(&self, side: usize) -> Result<(), UserError> {
        self.first.put_back();
        let command = &self.commands[side];
        run(command, &self.journal, &self.interruption)?;
        let now = Settings::read_at(self.differing().map(|change| change.place.clone()));
        let is_other = |change: &&Change| now.value(&change.place) != side_value(change, side);
        match self.differing().find(is_other) {
            None => Ok(()),
            Some(Change { place, .. }) => Err(UserError::new(
                format!("repeat `{command}`"),
                format!("it left another value of {place} than before"),
            )
            .help("use a command that always sets the same value")),
        }
    }

    /// Puts the first settings back. Returns those that could not be, each with the reason.
    pub fn end(mut self) -> Vec<String> {
        self.journal.undo()
    }
}

/// Returns the value that a setting has on a side.
fn side_value(change: &Change, side: usize) -> Option<&String> {
    if side == 0 { change.before.as_ref() } else { change.after.as_ref() }
}

/// Returns the refusal to change settings that another program changes, or that a killed one has left.
fn refusal((journal, is_live): &(PathBuf, bool)) -> UserError {
    let (cause, help) = match is_live {
        true => ("another skye ab changes the same ones", "wait until it has ended"),
        false => ("a killed skye ab has left some of them", "put them back with skye clean DIR"),
    };
    let cause = format!("{cause} ({})", journal.display());
    UserError::new("change settings of this machine", cause).help(help)
}

fn with_leftovers(error: UserError, left: &[String]) -> UserError {
    match left {
        [] => error,
        left => error.help(format!("put these back by hand: {}", left.join("; "))),
    }
}

/// Runs a command of the user to its end. A signal that ends the run ends the command, too. The command holds the lock of the
/// journal, so that nothing is put back before it ends.
fn run(command: &str, journal: &Journal, interruption: &Interruption) -> Result<(), UserError> {
    let failed = |cause: String| {
        UserError::new(format!("run `{command}`"), cause).help("test it with sh -c first; settings need root")
    };
    let output = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).map(File::from);
    let mut output = output.map_err(|error| failed(io::Error::from(error).to_string()))?;
    let files = || Ok::<_, io::Error>((journal.lock()?, output.try_clone()?, output.try_clone()?));
    let (lock, out, err) = files().map_err(|error| failed(error.to_string()))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::from(lock)).stdout(out).stderr(err).process_group(0);
    let mut child = shell.spawn().map_err(|error| failed(error.to_string()))?;
    let status = wait(&mut child, interruption).map_err(|error| failed(error.to_string()))?;
    match status {
        None => Err(failed(interruption.reason())),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(failed(format!("{status}{}", last_line(&mut output)))),
    }
}

/// Waits for a command; `None` if a signal ended it.
fn wait(child: &mut Child, interruption: &Interruption) -> io::Result<Option<ExitStatus>> {
    let group = Pid::from_child(child);
    let mut signalled_at = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(signalled_at.is_none().then_some(status));
        }
        if interruption.is_raised() {
            let since = *signalled_at.get_or_insert_with(|| {
                let _ = kill_process_group(group, Signal::TERM);
                Instant::now()
            });
            if since.elapsed() > TERM_TIME {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the last line that a command printed, after a colon.
fn last_line(output: &mut File) -> String {
    let length = output.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let _ = output
        .seek(io::SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX)))
        .and_then(|_| output.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .map_or(String::new(), |line| format!(": {}", report::printable(line.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_command_is_reported_with_its_message() {
        let (journal, interruption) = (Journal::open().unwrap(), Interruption::default());
        let error = run("echo first; echo no such knob >&2; exit 3", &journal, &interruption).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3: no such knob") && text.contains("sh -c"), "{text}");
        run("true", &journal, &interruption).unwrap();
    }

    #[test]
    fn signal_ends_running_command() {
        let (journal, interruption) = (Journal::open().unwrap(), Interruption::default());
        interruption.raised.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(run("sleep 600", &journal, &interruption).unwrap_err().to_string().contains("ended by"));
    }
}
