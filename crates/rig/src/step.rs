//! One change to the machine: its line in a journal, and its undoing if it is still the rig's.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::{Deserialize, Serialize};

use crate::device::LoopDevice;
use crate::settings::FirstSettings;
use crate::{PREFIX, cgroup, command, device, identity, mounts, network, servers, throttle, undo, zram};

/// Number of attempts while something is in use, 20 ms apart.
pub(crate) const TRIES: usize = 100;

/// A change, as it is about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A directory is made.
    Directory(PathBuf),
    /// A file is made in a directory of the rig.
    File(PathBuf),
    /// A file system is mounted on a directory of the rig.
    Mount { file_system: String, at: PathBuf },
    /// A loop device is attached to a file of the rig. The step is noted once more when the device is known: its name,
    /// and its [sequence number](identity::sequence), which the following steps have as well.
    Loop { backing: PathBuf, known: Option<(String, u64)> },
    /// A compressed memory device was made, and gets that size.
    Zram { number: String, bytes: u64, sequence: Option<u64> },
    /// A limit of a device is changed in a file of the cgroup's.
    Throttle { file: PathBuf, device: String, old: u64, new: u64, sequence: Option<u64> },
    /// A setting of the loop device that the file `backing` backs is changed.
    Setting { backing: PathBuf, file: PathBuf, old: String, sequence: Option<u64> },
    /// A group of processes is made.
    Cgroup(PathBuf),
    /// A pair of network devices is made. This is the host's end; the other end is removed with it.
    Link(String),
    /// Servers or their clients are started, with arguments below this directory of the rig.
    Servers(PathBuf),
    /// Commands of the user change some of these settings of the machine.
    Settings(FirstSettings),
}

/// Result of undoing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Undone,
    /// It was never made, was undone before, or was replaced by an object of another owner.
    NotThere,
    /// It exists and may be the rig's; the text is the reason why it stays.
    Leftover(String),
    /// Parts of it that were undone, and those that were not, with their reasons.
    Parts(Vec<String>, Vec<String>),
}

impl Step {
    /// Returns the line of a journal.
    ///
    /// # Errors
    /// A path is not text in UTF-8.
    pub(crate) fn line(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Returns the step of a line; `None` for a line that none of our programs wrote.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// Undoes it, if the thing that is there is the one that was made.
    pub(crate) fn undo(&self) -> Outcome {
        match self {
            Self::Directory(path) if has_our_name(path) => remove(path, AtFlags::REMOVEDIR),
            Self::File(path) if path.parent().is_some_and(has_our_name) => remove(path, AtFlags::empty()),
            Self::Mount { file_system, at } if has_our_name(at) => unmount(file_system, at),
            Self::Loop { backing, known } if is_below_ours(backing) => detach(backing, known.as_ref()),
            Self::Zram { number, bytes, sequence } => remove_zram(number, *bytes, *sequence),
            Self::Throttle { file, device, old, new, sequence } if old != new => {
                restore_limit(file, device, [*old, *new], *sequence)
            }
            Self::Setting { backing, file, old, sequence } => put_back(backing, file, old, *sequence),
            Self::Cgroup(path) if has_our_name(path) => cgroup::remove(path),
            Self::Link(name) => network::remove_link(name),
            Self::Servers(home) if has_our_name(home) => servers::end(home),
            // Any process may have changed them since.
            Self::Settings(first) if first.is_open() => {
                let changes = first
                    .changes()
                    .iter()
                    .map(|change| format!("{change}: its cause is not known"))
                    .collect();
                Outcome::Parts(Vec::new(), changes)
            }
            Self::Settings(first) => {
                let back = first.put_back();
                Outcome::Parts(back.undone, back.leftovers)
            }
            _ => Outcome::NotThere,
        }
    }

    /// Returns true if a later step says the same, and more.
    pub(crate) fn is_superseded_by(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Loop { backing, known: None }, Self::Loop { backing: same, known: Some(_) }) => {
                backing == same
            }
            _ => false,
        }
    }

    /// Returns true if it is still there after a reboot.
    pub(crate) fn survives_reboot(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::File(_))
    }

    /// Makes the kernel answer with an error all requests that wait for a dead server. Returns true if that has
    /// unmounted it, as nobody used it.
    pub(crate) fn abort(&self) -> bool {
        if let Self::Mount { file_system, at } = self
            && file_system == "fuse"
            && has_our_name(at)
            && mount_state(file_system, at) == MountState::Ours
        {
            return rustix::mount::unmount(at, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW).is_ok();
        }
        false
    }
}

/// The description of the change, for people.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Mount { file_system, at } => write!(f, "mount of {file_system} at {}", at.display()),
            Self::Loop { backing, known: None } => write!(f, "loop device over {}", backing.display()),
            Self::Loop { backing, known: Some((name, _)) } => {
                write!(f, "loop device {name} over {}", backing.display())
            }
            Self::Zram { number, .. } => write!(f, "device zram{number}"),
            Self::Throttle { file, device, old, .. } => {
                write!(f, "limit of {device} in {}, back to {old}", file.display())
            }
            Self::Setting { file, old, .. } => write!(f, "{}, back to {old}", file.display()),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Link(name) => write!(f, "network device {name}"),
            Self::Servers(home) => write!(f, "servers of {}", home.display()),
            Self::Settings(_) => f.write_str("settings of the machine"),
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
        Err(why) => Outcome::Leftover(why),
    }
}

/// Removes a name from its directory. A directory is removed only if it is empty. A file is removed only from a
/// directory of the rig, which is opened without following symbolic links.
fn remove(path: &Path, flags: AtFlags) -> Outcome {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Outcome::NotThere };
    let directory = match if flags.is_empty() { open_own(parent) } else { open(parent) } {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::PERM) => return Outcome::NotThere,
        Err(errno) => return Outcome::Leftover(words(errno)),
    };
    match rustix::fs::unlinkat(&directory, name, flags) {
        Ok(()) => Outcome::Undone,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR) => Outcome::NotThere,
        Err(Errno::NOTEMPTY) => Outcome::Leftover("it is not empty".into()),
        Err(errno) => Outcome::Leftover(words(errno)),
    }
}

fn words(errno: Errno) -> String {
    model::UserError::new("", io::Error::from(errno)).cause
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

/// State of a mount point of the rig.
#[derive(Debug, PartialEq, Eq)]
enum MountState {
    /// No mount of the rig.
    Nothing,
    /// The rig's mount alone.
    Ours,
    /// The rig's mount, covered by a mount that only its owner can unmount; holds its description.
    Covered(String),
}

fn mount_state(file_system: &str, at: &Path) -> MountState {
    // The rig's mount is the first: its directory was made for it.
    match &mounts::at(at)[..] {
        [first, ..] if first.file_system != file_system => MountState::Nothing,
        [] => MountState::Nothing,
        [_] => MountState::Ours,
        [_, over @ ..] => {
            let name = |mount: &mounts::Mount| format!("{} of {}", mount.file_system, mount.source);
            MountState::Covered(over.iter().map(name).collect::<Vec<_>>().join(", "))
        }
    }
}

fn unmount(file_system: &str, at: &Path) -> Outcome {
    let was_mounted = match mount_state(file_system, at) {
        MountState::Ours if undo::unmount_while(at, || mount_state(file_system, at) == MountState::Ours) => {
            return Outcome::Undone;
        }
        before => before != MountState::Nothing,
    };
    match mount_state(file_system, at) {
        MountState::Ours => Outcome::Leftover("it stays mounted".into()),
        MountState::Covered(over) => Outcome::Leftover(format!("it is covered by another mount: {over}")),
        // Someone else unmounted it.
        MountState::Nothing if was_mounted => Outcome::Undone,
        MountState::Nothing => Outcome::NotThere,
    }
}

fn detach(backing: &Path, known: Option<&(String, u64)>) -> Outcome {
    let is_ours = |device: &LoopDevice| {
        device.is_over(backing)
            && known.is_none_or(|(name, sequence)| {
                name == device.name() && identity::is_same(&device.directory(), Some(*sequence))
            })
    };
    let ours = || device::attached_to(backing).into_iter().filter(is_ours).collect::<Vec<_>>();
    if ours().is_empty() {
        return Outcome::NotThere;
    }
    for _ in 0..TRIES {
        for device in ours() {
            let held = identity::hold(&device.path());
            if is_ours(&device) {
                // A device that is still in use, if only by us, detaches itself when its last user goes.
                let mut losetup = Command::new("losetup");
                let losetup = losetup.arg("--detach").arg(device.path()).stdin(Stdio::null());
                let _ = command::run(losetup, "detach");
            }
            drop(held);
        }
        if ours().is_empty() {
            return Outcome::Undone;
        }
        thread::sleep(Duration::from_millis(20));
    }
    Outcome::Leftover("it is in use, and will be removed with its last user".into())
}

fn restore_limit(file: &Path, device: &str, [old, new]: [u64; 2], sequence: Option<u64>) -> Outcome {
    if throttle::read(file, device) != Some(new) {
        return Outcome::NotThere;
    }
    let directory = identity::directory(device);
    let name = fs::canonicalize(&directory).ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    let _held = name.and_then(|name| identity::hold(&Path::new("/dev").join(name)));
    // Limits outlive the file of a loop device: on a device without a file, the limit is still the rig's.
    if identity::is_same(&directory, sequence) || identity::is_free_loop(&directory) {
        outcome(fs::write(file, format!("{device} {old}")).map_err(|error| error.to_string()))
    } else if directory.exists() {
        Outcome::Leftover("another process uses the device now".into())
    } else {
        Outcome::NotThere
    }
}

fn put_back(backing: &Path, file: &Path, old: &str, sequence: Option<u64>) -> Outcome {
    let device = device::attached_to(backing).into_iter().find(|device| device.owns(file));
    let Some(device) = device else { return Outcome::NotThere };
    let _held = identity::hold(&device.path());
    let ours = device.is_over(backing) && identity::is_same(&device.directory(), sequence);
    match fs::read_to_string(file) {
        Ok(now) if ours && now.trim() != old => {
            outcome(fs::write(file, old).map_err(|error| error.to_string()))
        }
        _ => Outcome::NotThere,
    }
}

fn remove_zram(number: &str, bytes: u64, sequence: Option<u64>) -> Outcome {
    for _ in 0..TRIES {
        if !identity::is_same(&zram::directory(number), sequence) {
            return Outcome::NotThere;
        }
        match (zram::size_bytes(number), sequence) {
            (Some(size), _) if size == bytes => {}
            // The rig was killed before it set the size.
            (Some(0), Some(_)) => {}
            (Some(0), None) => {
                return Outcome::Leftover("its disksize is 0, so it may belong to another process".into());
            }
            _ => return Outcome::NotThere,
        }
        // The kernel does not remove a device that is open or mounted. If the size is the only identification, a device
        // that another process holds is not tried.
        let may_try = sequence.is_some() || identity::can_open_exclusively(Path::new(&zram::path(number)));
        if may_try && zram::remove(number).is_ok() {
            return Outcome::Undone;
        }
        // A program that inspects new devices may hold it open for a moment.
        thread::sleep(Duration::from_millis(20));
    }
    Outcome::Leftover("it is in use".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    #[test]
    fn step_parses_back_from_its_line() {
        let ours = PathBuf::from("/tmp/a b/skye-rig.12345678");
        for step in [
            Step::Directory(ours.clone()),
            Step::File(ours.join("image")),
            Step::Mount { file_system: "fuse".into(), at: ours.clone() },
            Step::Loop { backing: ours.join("image"), known: None },
            Step::Loop { backing: ours.join("image"), known: Some(("loop3".into(), 7)) },
            Step::Zram { number: "3".into(), bytes: 1 << 20, sequence: None },
            Step::Zram { number: "3".into(), bytes: 1 << 20, sequence: Some(7) },
            Step::Throttle { file: "/x".into(), device: "7:1".into(), old: 0, new: 5000, sequence: Some(7) },
            Step::Cgroup(ours.clone()),
            Step::Link("skye-12345678".into()),
            Step::Servers(ours.clone()),
            Step::Setting { backing: ours, file: "/sys/x".into(), old: String::new(), sequence: Some(7) },
        ] {
            assert_eq!(Step::parse(&step.line().unwrap()), Some(step.clone()), "{step:?}");
        }
        for line in [
            "",
            "directory",
            r#"{"Mount":{"file_system":"ext4"}}"#,
            r#"{"Throttle":{"file":"/x","device":"7:1","old":0,"new":"many","sequence":null}}"#,
            r#"{"Zram":{"number":"3","bytes":1,"sequence":"x"}}"#,
            r#"{"Format":"/dev/vda"}"#,
        ] {
            assert_eq!(Step::parse(line), None, "{line}");
        }
    }

    #[test]
    fn foreign_objects_are_not_undone() {
        let directory = std::env::temp_dir().join(format!("not-{}", crate::journal::unique_name()));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("file");
        fs::write(&file, "").unwrap();
        for step in [
            Step::Directory(directory.clone()),
            Step::File(file.clone()),
            Step::Mount { file_system: "proc".into(), at: "/proc".into() },
            Step::Loop { backing: file.clone(), known: None },
            Step::Setting { backing: file.clone(), file: file.clone(), old: "x".into(), sequence: None },
            Step::Throttle { file: file.clone(), device: "7:1".into(), old: 0, new: 5000, sequence: None },
            Step::Cgroup(directory.clone()),
            // A directory with our name that is no cgroup.
            Step::Cgroup(directory.join("skye-rig.abcdefgh")),
            Step::Link("lo".into()),
            Step::Servers(directory.clone()),
        ] {
            assert_eq!(step.undo(), Outcome::NotThere, "{step}");
        }
        // A directory with a rig's name that is writable by other users is not the rig's.
        let open = directory.join("skye-rig.12345678");
        fs::create_dir(&open).unwrap();
        fs::write(open.join("file"), "").unwrap();
        assert_eq!(Step::File(open.join("file")).undo(), Outcome::NotThere);
        assert!(file.exists() && crate::is_mounted(Path::new("/proc")));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn loop_device_with_other_sequence_is_not_undone() {
        xtask::require!(root, loop);
        let mut journal = Journal::open().unwrap();
        let directory = journal.directory_in(&std::env::temp_dir()).unwrap();
        let backing = journal.file_in(&directory, "image", 1 << 20).unwrap();
        let device = LoopDevice::attach(&mut journal, &backing, false).unwrap();
        let (name, number) = (device.name().to_owned(), device.number().unwrap());
        let Some(sequence) = identity::sequence(&device.directory()) else { return };
        let noted = fs::read_to_string(journal.path()).unwrap();
        assert!(noted.ends_with(&format!("[\"{name}\",{sequence}]}}}}\n")), "{noted}");

        let requests = device.directory().join("queue/nr_requests");
        let read = || fs::read_to_string(&requests).unwrap().trim().to_owned();
        let before = read();
        device.set_requests(&mut journal, &backing, 4).unwrap();
        // A file in place of the kernel's, which needs privileges for the root cgroup.
        let limits = journal.file_in(&directory, "limits", 0).unwrap();
        fs::write(&limits, format!("{number} 5000\n")).unwrap();
        let steps = |sequence| {
            let (file, old) = (requests.clone(), before.clone());
            let (limits, device) = (limits.clone(), number.clone());
            [
                Step::Throttle { file: limits, device, old: 0, new: 5000, sequence: Some(sequence) },
                Step::Setting { backing: backing.clone(), file, old, sequence: Some(sequence) },
                Step::Loop { backing: backing.clone(), known: Some((name.clone(), sequence)) },
            ]
        };
        let [limit, setting, attached] = steps(sequence - 1).map(|step| step.undo());
        assert!(matches!(limit, Outcome::Leftover(_)), "{limit:?}");
        assert_eq!([setting, attached], [Outcome::NotThere, Outcome::NotThere]);
        assert_eq!((read(), fs::read_to_string(&limits).unwrap()), ("4".into(), format!("{number} 5000\n")));
        assert!(device.is_over(&backing));

        assert_eq!(
            steps(sequence).map(|step| step.undo()),
            [Outcome::Undone, Outcome::Undone, Outcome::Undone]
        );
        assert_eq!((read(), fs::read_to_string(&limits).unwrap()), (before, format!("{number} 0")));
        assert!(!device.is_over(&backing));
        assert_eq!(journal.undo(), [""; 0]);
    }

    #[test]
    fn zram_possibly_owned_by_another_is_kept() {
        xtask::require!(root, zram);
        let bytes = 1 << 20;
        let zram = crate::Zram::new(bytes).unwrap();
        let path = zram.path();
        let number = path.strip_prefix("/dev/zram").unwrap();
        let sequence = identity::sequence(&zram::directory(number));
        let undo = |bytes, sequence| Step::Zram { number: number.into(), bytes, sequence }.undo();
        fs::write(&path, "precious").unwrap();
        if let Some(sequence) = sequence {
            assert_eq!(undo(bytes, Some(sequence - 1)), Outcome::NotThere);
        }
        assert_eq!(undo(bytes * 2, None), Outcome::NotThere);
        let open = fs::File::open(&path).unwrap();
        assert_eq!(undo(bytes, None), Outcome::Leftover("it is in use".into()));
        drop(open);
        let mut kept = [0; 8];
        io::Read::read_exact(&mut fs::File::open(&path).unwrap(), &mut kept).unwrap();
        assert_eq!(&kept, b"precious");
        fs::write(zram.attribute("reset"), "1").unwrap();
        assert!(matches!(undo(bytes, None), Outcome::Leftover(why) if why.contains("another process")));
        assert!(Path::new(&path).exists());
        if sequence.is_some() {
            // Another test may get the number at once.
            assert_eq!(undo(bytes, sequence), Outcome::Undone);
            assert_ne!(identity::sequence(&zram::directory(number)), sequence);
        }
    }

    #[test]
    fn own_zram_is_removed_with_its_contents() {
        xtask::require!(root, zram);
        let zram = crate::Zram::new(1 << 20).unwrap();
        let directory = zram::directory(zram.path().strip_prefix("/dev/zram").unwrap());
        let sequence = identity::sequence(&directory);
        fs::write(zram.path(), "content").unwrap();
        drop(zram);
        assert!(!directory.exists() || identity::sequence(&directory) != sequence);
    }

    #[test]
    fn foreign_mount_over_ours_is_kept() {
        xtask::require!(root, tmpfs);
        let mut journal = Journal::open().unwrap();
        let at = journal.mount("tmpfs", "skye-test", "size=1m").unwrap();
        let mount = || {
            let mut mount = Command::new("mount");
            command::run(mount.args(["-t", "tmpfs", "foreign"]).arg(&at), "mount").unwrap();
        };
        mount();
        mount();
        fs::write(at.join("file"), "precious").unwrap();
        let step = Step::Mount { file_system: "tmpfs".into(), at: at.clone() };
        assert_eq!(
            step.undo(),
            Outcome::Leftover("it is covered by another mount: tmpfs of foreign, tmpfs of foreign".into())
        );
        assert!(mounts::at(&at).len() == 3 && at.join("file").exists());
        // Each call unmounts one.
        assert!(undo::unmount(&at));
        assert_eq!(mounts::at(&at).len(), 2);
        assert!(undo::unmount(&at));
        // A mount in use is detached.
        let user = fs::File::create(at.join("file")).unwrap();
        assert_eq!((step.undo(), step.undo()), (Outcome::Undone, Outcome::NotThere));
        drop(user);
        assert_eq!(journal.undo(), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn any_line_parses_without_panic(line: String) {
            let _ = Step::parse(&line);
        }
    }
}
