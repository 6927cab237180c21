//! Loop devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::Trouble;

use crate::identity;
use crate::journal::Journal;
use crate::step::Step;

/// Where the kernel shows block devices.
const BLOCK: &str = "/sys/block";

/// A loop device, by its name: "loop3". It is detached by the journal that attached it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Attaches one to a file; with direct I/O, it has a queue of its own and no pages between.
    ///
    /// # Errors
    /// What `losetup` said, or that the file takes no direct I/O.
    pub fn attach(journal: &mut Journal, backing: &Path, direct: bool) -> Result<Self, Trouble> {
        let attempt = format!("attach a loop device to {}", backing.display());
        // By its file, as the number is not known yet.
        journal.note(Step::Loop { backing: backing.to_owned(), known: None })?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).arg(format!("--direct-io={}", if direct { "on" } else { "off" }));
        let printed = journal.run(losetup.arg(backing), &attempt)?;
        let device = Self(printed.trim().trim_start_matches("/dev/").to_owned());
        if let Some(sequence) = identity::sequence(&device.directory()) {
            let known = Some((device.0.clone(), sequence));
            journal.note(Step::Loop { backing: backing.to_owned(), known })?;
        }
        // A number that somebody has set read-only stays so for whoever gets it next.
        journal.run(Command::new("blockdev").arg("--setrw").arg(device.path()), &attempt)?;
        if direct && device.attribute("loop/dio")? != "1" {
            return Err(Trouble::new(attempt, "its file system takes no direct I/O"));
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
    /// The kernel does not say.
    pub fn number(&self) -> Result<String, Trouble> {
        self.attribute("dev")
    }

    /// What the kernel says of it, as in `queue/nr_requests`.
    ///
    /// # Errors
    /// It says nothing.
    pub fn attribute(&self, name: &str) -> Result<String, Trouble> {
        read(&self.directory().join(name))
    }

    /// Its name: "loop3".
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Where the kernel shows it.
    pub(crate) fn directory(&self) -> PathBuf {
        Path::new(BLOCK).join(&self.0)
    }

    /// Whether it lies over this very file.
    pub(crate) fn is_over(&self, backing: &Path) -> bool {
        is_over(&self.directory(), backing)
    }

    /// Changes the number of requests that it takes at a time; undone with the journal, as it would outlive the
    /// device's file.
    ///
    /// # Errors
    /// The kernel does not let us, or has a least number that is larger.
    pub fn set_requests(&self, journal: &mut Journal, backing: &Path, count: u32) -> Result<(), Trouble> {
        let file = self.directory().join("queue/nr_requests");
        let (old, sequence) = (read(&file)?, identity::sequence(&self.directory()));
        journal.note(Step::Setting { backing: backing.to_owned(), file: file.clone(), old, sequence })?;
        write(&file, &count.to_string())?;
        // Without a word, it takes its least number for a smaller one.
        match read(&file)? {
            made if made == count.to_string() => Ok(()),
            made => Err(Trouble::new(
                format!("let {} take {count} requests at a time", self.0),
                format!("the kernel made {made} of it"),
            )
            .remedy(format!("say requests={made} or more"))),
        }
    }

    /// Limits the dirty pages of the file system on it; undone with the journal.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.2, or does not let us.
    pub fn set_dirty_max(&self, journal: &mut Journal, backing: &Path, bytes: u64) -> Result<(), Trouble> {
        let directory = Path::new("/sys/class/bdi").join(self.number()?);
        for (shows, takes, new) in [
            // Bytes are kept as a share of what the machine may hold dirty, which depends on its free memory.
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

    /// Whether a file of the kernel's is a setting of this device.
    pub(crate) fn owns(&self, file: &Path) -> bool {
        let bdi = self.number().map(|number| Path::new("/sys/class/bdi").join(number));
        file.starts_with(self.directory()) || bdi.is_ok_and(|bdi| file.starts_with(bdi))
    }
}

/// Loop devices over this very file, whether or not it still has its name.
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

fn read(file: &Path) -> Result<String, Trouble> {
    let text =
        fs::read_to_string(file).map_err(|error| Trouble::new(format!("read {}", file.display()), error))?;
    Ok(text.trim().to_owned())
}

fn write(file: &Path, text: &str) -> Result<(), Trouble> {
    fs::write(file, text).map_err(|error| Trouble::new(format!("write {text} to {}", file.display()), error))
}
