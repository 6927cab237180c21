//! Identity of block devices, whose names and numbers are reused.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Number that the kernel counts up for each new device, and for each new file under a loop device. It never repeats
/// while the machine runs; `None` before Linux 5.15. `directory` is the device's, in `/sys`.
pub(crate) fn sequence(directory: &Path) -> Option<u64> {
    fs::read_to_string(directory.join("diskseq")).ok()?.trim().parse().ok()
}

/// Returns the directory of a device with these numbers: "7:3".
pub(crate) fn directory(number: &str) -> PathBuf {
    Path::new("/sys/dev/block").join(number)
}

/// Returns true if the device has the sequence number of a journal. A journal without one relies on the other checks
/// alone.
pub(crate) fn is_same(directory: &Path, sequence_then: Option<u64>) -> bool {
    sequence_then.is_none() || sequence(directory) == sequence_then
}

/// Returns true for a loop device that has no file.
pub(crate) fn is_free_loop(directory: &Path) -> bool {
    // The directory `loop` vanishes with the file.
    let name = fs::canonicalize(directory).ok().and_then(|path| path.file_name().map(|name| name.to_owned()));
    name.is_some_and(|name| name.to_string_lossy().starts_with("loop"))
        && !directory.join("loop/backing_file").exists()
}

/// Opens a device. While it is open, its name is not reused for another device, so later checks remain valid. Failure
/// is allowed, as the checks hold without it.
pub(crate) fn hold(device: &Path) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(device).ok()
}

/// Returns true if a device is not mounted and no process holds it exclusively.
pub(crate) fn can_open_exclusively(device: &Path) -> bool {
    let exclusive = (OFlags::EXCL | OFlags::NONBLOCK).bits() as i32;
    OpenOptions::new().read(true).custom_flags(exclusive).open(device).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_identified_by_sequence_number() {
        let scratch = std::env::temp_dir().join(crate::journal::unique_name());
        let device = scratch.join("loop9");
        fs::create_dir_all(device.join("loop")).unwrap();
        assert_eq!(
            (sequence(&device), is_same(&device, None), is_same(&device, Some(7))),
            (None, true, false)
        );
        fs::write(device.join("diskseq"), "7\n").unwrap();
        assert_eq!(
            (sequence(&device), is_same(&device, Some(7)), is_same(&device, Some(6))),
            (Some(7), true, false)
        );
        assert!(is_free_loop(&device));
        fs::write(device.join("loop/backing_file"), "/image").unwrap();
        assert!(!is_free_loop(&device) && !is_free_loop(&scratch) && !is_free_loop(Path::new("/nowhere")));
        fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn reattached_loop_device_has_new_sequence_number() {
        xtask::require!(root, loop);
        let mut journal = crate::Journal::open().unwrap();
        let scratch = journal.directory_in(&std::env::temp_dir()).unwrap();
        let mut sequences = Vec::new();
        for name in ["one", "two"] {
            let backing = journal.file_in(&scratch, name, 1 << 20).unwrap();
            let device = crate::LoopDevice::attach(&mut journal, &backing, false).unwrap();
            assert_eq!(sequence(&directory(&device.number().unwrap())), sequence(&device.directory()));
            sequences.push(sequence(&device.directory()));
            let known = sequences[0].map(|sequence| (device.name().to_owned(), sequence));
            // It mostly gets the same name, which was free again.
            let undone = crate::step::Step::Loop { backing, known }.undo();
            let is_first = name == "one" || sequences[1].is_none();
            assert_eq!(undone == crate::step::Outcome::Undone, is_first, "{undone:?}");
        }
        assert!(sequences[0].is_none() || sequences[0] != sequences[1]);
        assert_eq!(journal.undo(), [""; 0]);
    }
}
