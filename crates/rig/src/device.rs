//! Loop devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::UserError;

use crate::identity;
use crate::journal::Journal;
use crate::step::Step;

/// Directory where the kernel shows block devices.
const BLOCK: &str = "/sys/block";

/// A loop device, by its name: "loop3". The journal that attached it detaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Attaches a loop device to a file. With direct I/O, it has a separate queue and bypasses the page cache.
    ///
    /// # Errors
    /// The message of `losetup`, or the file takes no direct I/O.
    pub fn attach(journal: &mut Journal, backing: &Path, direct: bool) -> Result<Self, UserError> {
        let action = format!("attach a loop device to {}", backing.display());
        // The step has the file's name, as the device number is not known yet.
        journal.note(Step::Loop { backing: backing.to_owned(), known: None })?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).arg(format!("--direct-io={}", if direct { "on" } else { "off" }));
        let printed = journal.run(losetup.arg(backing), &action)?;
        let device = Self(printed.trim().trim_start_matches("/dev/").to_owned());
        if let Some(sequence) = identity::sequence(&device.directory()) {
            let known = Some((device.0.clone(), sequence));
            journal.note(Step::Loop { backing: backing.to_owned(), known })?;
        }
        // A device number that someone has set read-only stays so for its next user.
        journal.run(Command::new("blockdev").arg("--setrw").arg(device.path()), &action)?;
        if direct && device.attribute("loop/dio")? != "1" {
            return Err(UserError::new(action, "its file system does not support direct I/O"));
        }
        Ok(device)
    }

    /// The device: "/dev/loop3".
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.0)
    }

    /// Major and minor number: "7:3".
    ///
    /// # Errors
    /// The kernel does not show it.
    pub fn number(&self) -> Result<String, UserError> {
        self.attribute("dev")
    }

    /// Reads an attribute of the device, such as `queue/nr_requests`.
    ///
    /// # Errors
    /// The kernel does not show it.
    pub fn attribute(&self, name: &str) -> Result<String, UserError> {
        read(&self.directory().join(name))
    }

    /// Its name: "loop3".
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Directory where the kernel shows it.
    pub(crate) fn directory(&self) -> PathBuf {
        Path::new(BLOCK).join(&self.0)
    }

    /// Returns true if this file backs the loop device.
    pub(crate) fn is_over(&self, backing: &Path) -> bool {
        is_over(&self.directory(), backing)
    }

    /// Changes the number of requests in the device's queue. The journal undoes this, as it would outlive the device's
    /// file.
    ///
    /// # Errors
    /// The kernel refuses it, or has a larger minimum.
    pub fn set_requests(&self, journal: &mut Journal, backing: &Path, count: u32) -> Result<(), UserError> {
        let file = self.directory().join("queue/nr_requests");
        let (old, sequence) = (read(&file)?, identity::sequence(&self.directory()));
        journal.note(Step::Setting { backing: backing.to_owned(), file: file.clone(), old, sequence })?;
        write(&file, &count.to_string())?;
        // The kernel silently replaces a smaller number by its minimum.
        match read(&file)? {
            made if made == count.to_string() => Ok(()),
            made => Err(UserError::new(
                format!("set the queue of {} to {count} requests", self.0),
                format!("the kernel set it to {made}"),
            )
            .help(format!("use requests={made} or more"))),
        }
    }

    /// Limits the dirty pages of the file system on it; the journal undoes this.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.2, or refuses it.
    pub fn set_dirty_max(&self, journal: &mut Journal, backing: &Path, bytes: u64) -> Result<(), UserError> {
        let directory = Path::new("/sys/class/bdi").join(self.number()?);
        for (shows, takes, new) in [
            // The kernel keeps bytes as a share of the machine's limit of dirty pages, which depends on its free
            // memory.
            ("max_ratio_fine", "max_bytes", bytes.to_string()),
            ("strict_limit", "strict_limit", String::from("1")),
        ] {
            let file = directory.join(shows);
            let (old, sequence) = (read(&file)?, identity::sequence(&self.directory()));
            journal.note(Step::Setting { backing: backing.to_owned(), file, old, sequence })?;
            write(&directory.join(takes), &new)?;
        }
        Ok(())
    }

    /// Returns true if a file of the kernel's is a setting of this device.
    pub(crate) fn owns(&self, file: &Path) -> bool {
        let bdi = self.number().map(|number| Path::new("/sys/class/bdi").join(number));
        file.starts_with(self.directory()) || bdi.is_ok_and(|bdi| file.starts_with(bdi))
    }
}

/// Loop devices over this very file, even if it has lost its name.
pub(crate) fn attached_to(backing: &Path) -> Vec<LoopDevice> {
    let mut found = Vec::new();
    for entry in fs::read_dir(BLOCK).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_over(&entry.path(), backing) {
            found.push(LoopDevice(name));
        }
    }
    found
}

fn is_over(directory: &Path, backing: &Path) -> bool {
    let Ok(file) = fs::read_to_string(directory.join("loop/backing_file")) else { return false };
    let file = file.trim_end_matches('\n');
    Path::new(file.strip_suffix(" (deleted)").unwrap_or(file)) == backing
}

fn read(file: &Path) -> Result<String, UserError> {
    let text = fs::read_to_string(file)
        .map_err(|error| UserError::new(format!("read {}", file.display()), error))?;
    Ok(text.trim().to_owned())
}

fn write(file: &Path, text: &str) -> Result<(), UserError> {
    fs::write(file, text)
        .map_err(|error| UserError::new(format!("write {text} to {}", file.display()), error))
}
