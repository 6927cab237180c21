//! One change to the machine: how it is written down, and how it is undone if it is still ours.

use std::fmt;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::text::{escape, unescape, unescape_text};
use crate::{PREFIX, command, device, mounts, throttle, undo, zram};

/// How often what is in use is asked again, 20 ms apart.
const TRIES: usize = 100;

/// A change, as it is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A directory is made.
    Directory(PathBuf),
    /// A file is made in a directory of ours.
    File(PathBuf),
    /// Something is mounted on a directory of ours.
    Mount { file_system: String, at: PathBuf },
    /// A loop device is attached to a file of ours.
    Loop { backing: PathBuf },
    /// A compressed memory device was made, and gets that size.
    Zram { number: String, bytes: u64 },
    /// A limit of a device is changed in a file of the cgroup's.
    Throttle { file: PathBuf, device: String, old: u64, new: u64 },
    /// A setting of the loop device over that file of ours is changed.
    Setting { backing: PathBuf, file: PathBuf, old: String },
}

/// What came of undoing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Undone,
    /// It was never made, was undone before, or what is there now is not ours.
    NotThere,
    /// It is there, and ours: why it stays.
    Left(String),
}

impl Step {
    /// The line of a journal.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Directory(path) => format!("directory {}", escape(path)),
            Self::File(path) => format!("file {}", escape(path)),
            Self::Mount { file_system, at } => format!("mount {} {}", escape(file_system), escape(at)),
            Self::Loop { backing } => format!("loop {}", escape(backing)),
            Self::Zram { number, bytes } => format!("zram {} {bytes}", escape(number)),
            Self::Throttle { file, device, old, new } => {
                format!("throttle {} {} {old} {new}", escape(file), escape(device))
            }
            Self::Setting { backing, file, old } => {
                format!("setting {} {} {}", escape(backing), escape(file), escape(old))
            }
        }
    }

    /// The step of a line; `None` for what none of ours wrote.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let words: Vec<_> = words.collect();
        let path = |index: usize| words.get(index).map(|word| PathBuf::from(unescape(word)));
        let text = |index: usize| words.get(index).map(|word| unescape_text(word));
        let number = |index: usize| words.get(index).and_then(|word| word.parse().ok());
        Some(match kind {
            "directory" => Self::Directory(path(0)?),
            "file" => Self::File(path(0)?),
            "mount" => Self::Mount { file_system: text(0)?, at: path(1)? },
            "loop" => Self::Loop { backing: path(0)? },
            "zram" => Self::Zram { number: text(0)?, bytes: number(1)? },
            "throttle" => {
                Self::Throttle { file: path(0)?, device: text(1)?, old: number(2)?, new: number(3)? }
            }
            "setting" => Self::Setting { backing: path(0)?, file: path(1)?, old: text(2)? },
            _ => return None,
        })
    }

    /// Undoes it, if what is there is what was made.
    pub(crate) fn undo(&self) -> Outcome {
        match self {
            Self::Directory(path) if has_our_name(path) => remove(path, AtFlags::REMOVEDIR),
            Self::File(path) if path.parent().is_some_and(has_our_name) => remove(path, AtFlags::empty()),
            Self::Mount { file_system, at } if has_our_name(at) => unmount(file_system, at),
            Self::Loop { backing } if is_below_ours(backing) => detach(backing),
            Self::Zram { number, bytes } => remove_zram(number, *bytes),
            Self::Throttle { file, device, old, new } => match throttle::read(file, device) {
                Some(now) if now == *new && old != new => {
                    outcome(fs::write(file, format!("{device} {old}")).map_err(|error| error.to_string()))
                }
                _ => Outcome::NotThere,
            },
            Self::Setting { backing, file, old } => {
                let ours = device::attached_to(backing).iter().any(|device| device.owns(file));
                match fs::read_to_string(file) {
                    Ok(now) if ours && now.trim() != old => {
                        outcome(fs::write(file, old).map_err(|error| error.to_string()))
                    }
                    _ => Outcome::NotThere,
                }
            }
            _ => Outcome::NotThere,
        }
    }

    /// Makes the kernel answer with an error whatever waits for a server that is dead. Whether that has unmounted it, as
    /// nobody used it, is the answer.
    pub(crate) fn abort(&self) -> bool {
        if let Self::Mount { file_system, at } = self
            && file_system == "fuse"
            && has_our_name(at)
            && mounts::at(at).is_some_and(|mount| mount.file_system == *file_system)
        {
            return rustix::mount::unmount(at, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW).is_ok();
        }
        false
    }
}

/// For people: what was made.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Mount { file_system, at } => write!(f, "mount of {file_system} at {}", at.display()),
            Self::Loop { backing } => write!(f, "loop device over {}", backing.display()),
            Self::Zram { number, .. } => write!(f, "device zram{number}"),
            Self::Throttle { file, device, old, .. } => {
                write!(f, "limit of {device} in {}, back to {old}", file.display())
            }
            Self::Setting { file, old, .. } => write!(f, "{}, back to {old}", file.display()),
        }
    }
}

fn has_our_name(path: &Path) -> bool {
    path.is_absolute()
        && path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

fn is_below_ours(path: &Path) -> bool {
    path.parent().is_some_and(has_our_name)
}

fn outcome(done: Result<(), String>) -> Outcome {
    match done {
        Ok(()) => Outcome::Undone,
        Err(why) => Outcome::Left(why),
    }
}

/// Removes a name from its directory. A directory goes only when it is empty; a file only from a directory of ours,
/// which is opened through no link.
fn remove(path: &Path, flags: AtFlags) -> Outcome {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Outcome::NotThere };
    let directory = match if flags.is_empty() { open_own(parent) } else { open(parent) } {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::PERM) => return Outcome::NotThere,
        Err(errno) => return Outcome::Left(words(errno)),
    };
    match rustix::fs::unlinkat(&directory, name, flags) {
        Ok(()) => Outcome::Undone,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => Outcome::NotThere,
        Err(Errno::NOTEMPTY) => Outcome::Left("it is not empty".into()),
        Err(errno) => Outcome::Left(words(errno)),
    }
}

fn words(errno: Errno) -> String {
    model::Trouble::new("", std::io::Error::from(errno)).cause
}

fn open(directory: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(directory, flags, Mode::empty())
}

/// Opens a directory that belongs to us alone.
fn open_own(directory: &Path) -> Result<OwnedFd, Errno> {
    let opened = open(directory)?;
    let stat = rustix::fs::fstat(&opened)?;
    let own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o7777 == 0o700;
    if own { Ok(opened) } else { Err(Errno::PERM) }
}

fn unmount(file_system: &str, at: &Path) -> Outcome {
    let is_there = || mounts::at(at).is_some_and(|mount| mount.file_system == file_system);
    if !is_there() {
        return Outcome::NotThere;
    }
    undo::unmount(at);
    if is_there() { Outcome::Left("it stays mounted".into()) } else { Outcome::Undone }
}

fn detach(backing: &Path) -> Outcome {
    let devices = device::attached_to(backing);
    if devices.is_empty() {
        return Outcome::NotThere;
    }
    for _ in 0..TRIES {
        let attached = device::attached_to(backing);
        if attached.is_empty() {
            return Outcome::Undone;
        }
        for device in attached {
            // A device that is still in use detaches itself when its last user goes.
            let mut losetup = Command::new("losetup");
            let _ = command::run(losetup.arg("--detach").arg(device.path()).stdin(Stdio::null()), "detach");
        }
        if !device::attached_to(backing).is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
    }
    Outcome::Left("it is in use, and goes with its last user".into())
}

fn remove_zram(number: &str, bytes: u64) -> Outcome {
    // It was killed before it gave it its size, or the device is ours, or somebody else's since.
    match zram::size_bytes(number) {
        Some(size) if size == 0 || size == bytes => {}
        _ => return Outcome::NotThere,
    }
    for _ in 0..TRIES {
        if zram::remove(number).is_ok() {
            return Outcome::Undone;
        }
        // Whoever looks at new devices may hold it open for a moment.
        thread::sleep(Duration::from_millis(20));
    }
    Outcome::Left("it is in use".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_comes_back_from_its_line() {
        let ours = PathBuf::from("/tmp/a b/skye-rig.12345678");
        for step in [
            Step::Directory(ours.clone()),
            Step::File(ours.join("image")),
            Step::Mount { file_system: "fuse".into(), at: ours.clone() },
            Step::Loop { backing: ours.join("image") },
            Step::Zram { number: "3".into(), bytes: 1 << 20 },
            Step::Throttle { file: "/x".into(), device: "7:1".into(), old: 0, new: 5000 },
            Step::Setting { backing: ours, file: "/sys/x".into(), old: String::new() },
        ] {
            assert_eq!(Step::parse(&step.line()), Some(step.clone()), "{}", step.line());
        }
        for line in ["", "directory", "mount ext4", "throttle /x 7:1 0 many", "format /dev/vda"] {
            assert_eq!(Step::parse(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_not_ours_stays() {
        let directory = std::env::temp_dir().join(format!("not-{}", crate::journal::unique_name()));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("file");
        fs::write(&file, "").unwrap();
        for step in [
            Step::Directory(directory.clone()),
            Step::File(file.clone()),
            Step::Mount { file_system: "proc".into(), at: "/proc".into() },
            Step::Loop { backing: file.clone() },
            Step::Setting { backing: file.clone(), file: file.clone(), old: "x".into() },
            Step::Throttle { file: file.clone(), device: "7:1".into(), old: 0, new: 5000 },
        ] {
            assert_eq!(step.undo(), Outcome::NotThere, "{step}");
        }
        // A directory with our name that others may write to is none of ours.
        let open = directory.join("skye-rig.12345678");
        fs::create_dir(&open).unwrap();
        fs::write(open.join("file"), "").unwrap();
        assert_eq!(Step::File(open.join("file")).undo(), Outcome::NotThere);
        assert!(file.exists() && crate::is_mounted(Path::new("/proc")));
        fs::remove_dir_all(directory).unwrap();
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_strange(line: String) {
            let _ = Step::parse(&line);
        }
    }
}
