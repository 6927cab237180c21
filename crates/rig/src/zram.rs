//! A compressed memory device for a rig.

use std::path::PathBuf;
use std::{fs, io};

use model::UserError;

use crate::identity;
use crate::journal::Journal;
use crate::step::Step;

const CONTROL: &str = "/sys/class/zram-control";

/// A device that goes with its owner.
#[derive(Debug)]
pub struct Zram {
    number: String,
    /// Removes it.
    _journal: Journal,
}

impl Zram {
    /// Makes a device of that size.
    ///
    /// # Errors
    /// Only root may, and only where the module is loaded.
    pub fn new(size_bytes: u64) -> Result<Self, UserError> {
        let mut journal = Journal::open()?;
        let number = add(&mut journal, size_bytes)?;
        Ok(Self { number, _journal: journal })
    }

    /// The device: "/dev/zram1".
    pub fn path(&self) -> String {
        path(&self.number)
    }

    /// The file of an attribute, such as `mm_stat`.
    pub fn attribute(&self, name: &str) -> PathBuf {
        attribute(&self.number, name)
    }
}

/// Makes a device of that size, which the journal removes. Returns its path.
///
/// # Errors
/// Only root may, and only where the module is loaded.
pub(crate) fn make(journal: &mut Journal, size_bytes: u64) -> Result<String, UserError> {
    add(journal, size_bytes).map(|number| path(&number))
}

/// Makes a device, and returns its number.
fn add(journal: &mut Journal, size_bytes: u64) -> Result<String, UserError> {
    let fail = |error| {
        UserError::new("create a zram device", error).help("run it as root, and `modprobe zram` first")
    };
    // Reading makes a device and returns its number, so that the step cannot be written down before.
    let number = fs::read_to_string(format!("{CONTROL}/hot_add")).map_err(fail)?;
    let number = number.trim().to_owned();
    let sequence = identity::sequence(&directory(&number));
    if let Err(error) = journal.note(Step::Zram { number: number.clone(), bytes: size_bytes, sequence }) {
        let _ = remove(&number);
        return Err(error);
    }
    fs::write(attribute(&number, "disksize"), size_bytes.to_string()).map_err(fail)?;
    Ok(number)
}

/// Path of the device with this number.
pub(crate) fn path(number: &str) -> String {
    format!("/dev/zram{number}")
}

/// Directory where the kernel shows it.
pub(crate) fn directory(number: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{number}"))
}

fn attribute(number: &str, name: &str) -> PathBuf {
    directory(number).join(name)
}

/// Size of a device, 0 if none was set; `None` where there is no such device.
pub(crate) fn size_bytes(number: &str) -> Option<u64> {
    fs::read_to_string(attribute(number, "disksize")).ok()?.trim().parse().ok()
}

/// Removes a device and its content; fails while a process has it open. This is one operation: after a reset, others
/// would take the device for free.
pub(crate) fn remove(number: &str) -> io::Result<()> {
    fs::write(format!("{CONTROL}/hot_remove"), number)
}
