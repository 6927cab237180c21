//! Commands of the user that change settings before measurements, and the settings that were there first.
//!
//! The commands only ever come from the command line. Before the first one runs, the settings are in a journal, so that
//! they come back after any end: by this process, or by `skye clean`.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::run::Setting;
use model::{Target, UserError};
use rig::{Change, Journal, Place, Settings};
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
    first: Settings,
    /// The same settings after each command.
    after: [Settings; 2],
    /// Settings that differ between the sides.
    differing: Vec<Change>,
    journal: Journal,
    interruption: Interruption,
}

impl SettingCommands {
    /// Runs each command once, with what `observe` finds after it, and finds out what they change on the target.
    ///
    /// # Errors
    /// A command fails, or the journal cannot be written. All settings then are as before.
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
        let mut first = read();
        // Some settings change by themselves, or with each process that starts.
        run(":", interruption)?;
        thread::sleep(UNSTABLE_TIME);
        let unstable = places(&first.changes());
        first.exclude(&unstable);
        let mut journal = Journal::open()?;
        journal.keep_settings(first.clone())?;
        let side = |number: usize| {
            // Each command finds the settings that were there first.
            first.put_back();
            run(&commands[number], interruption)?;
            let mut after = read();
            after.exclude(&unstable);
            Ok::<_, UserError>((after, observe()?))
        };
        let ((after_a, found_a), (after_b, found_b)) = (side(0)?, side(1)?);
        let differing = after_a.compare(&after_b);
        let mut after = [after_a, after_b];
        let changed: Vec<_> = after.iter().flat_map(|after| places(&first.compare(after))).collect();
        after.iter_mut().for_each(|after| after.retain(&changed));
        // From here on, only these settings are put back: others may be somebody else's.
        let mut kept = first.clone();
        kept.retain(&changed);
        let mut narrow = Journal::open()?;
        narrow.keep_settings(kept.clone())?;
        std::mem::replace(&mut journal, narrow).forget();
        let started =
            Self { commands, first: kept, after, differing, journal, interruption: interruption.clone() };
        Ok((started, [found_a, found_b]))
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
            let value = if side == 0 { &change.before } else { &change.after };
            Some(Setting { name: change.place.to_string(), value: value.clone()? })
        })
    }

    /// Puts the first settings back, and runs the command of a side.
    ///
    /// # Errors
    /// The command fails, or leaves another setting than before.
    pub fn apply(&self, side: usize) -> Result<(), UserError> {
        self.first.put_back();
        let command = &self.commands[side];
        run(command, &self.interruption)?;
        match self.after[side].changes().first() {
            None => Ok(()),
            Some(change) => Err(UserError::new(
                format!("repeat `{command}`"),
                format!("it left another setting than before ({change})"),
            )
            .help("use a command that always sets the same value")),
        }
    }

    /// Puts the first settings back. Returns those that could not be, each with the reason.
    pub fn end(mut self) -> Vec<String> {
        self.journal.undo()
    }
}

fn places(changes: &[Change]) -> Vec<Place> {
    changes.iter().map(|change| change.place.clone()).collect()
}

/// Runs a command of the user to its end. A signal that ends the run ends the command, too.
fn run(command: &str, interruption: &Interruption) -> Result<(), UserError> {
    let failed = |cause: String| {
        UserError::new(format!("run `{command}`"), cause).help("test it with sh -c first; settings need root")
    };
    let output = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).map(File::from);
    let mut output = output.map_err(|error| failed(io::Error::from(error).to_string()))?;
    let copies = output.try_clone().and_then(|out| Ok((out, output.try_clone()?)));
    let (out, err) = copies.map_err(|error| failed(error.to_string()))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
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
        let error = run("echo first; echo no such knob >&2; exit 3", &Interruption::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3: no such knob") && text.contains("sh -c"), "{text}");
        run("true", &Interruption::default()).unwrap();
    }

    #[test]
    fn signal_ends_running_command() {
        let interruption = Interruption::default();
        interruption.raised.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(run("sleep 600", &interruption).unwrap_err().to_string().contains("ended by"));
    }
}
