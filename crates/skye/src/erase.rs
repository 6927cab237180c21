//! `--erase`: the checks before a block device is written, and the one descriptor through which it is.
//!
//! All checks are made twice: when the target is found, before anything is planned, and again on the descriptor that
//! holds the device with `O_EXCL`. Between the two, the device must have stayed the same: its numbers, its sequence number,
//! its size, its serial number. The kernel gives no two disks the same sequence number. Every check runs to its end, so
//! that a refusal says all that is in the way.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::holding::{Holding, Part};
use model::target::Erased;
use model::{Target, Trouble};
use observe::{BlockDevice, Obstacles, Root};
use run::patience;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::signatures;

/// A device that the user named to be erased, and its state when it was found.
pub struct Erasure {
    id: String,
    may_be_lost: Vec<String>,
    attempt: String,
    found: BlockDevice,
    /// The device, as the document names it.
    pub erased: Erased,
}

impl Erasure {
    /// Finds out if a device may be erased; opens it for reading alone. `word` is the name that the user gave it.
    ///
    /// # Errors
    /// It is in use, it holds something that was not named, its identity is another, or nobody can tell.
    pub fn check(
        root: &Root,
        word: &Path,
        target: &Target,
        id: &str,
        may_be_lost: &[String],
    ) -> Result<Self, Trouble> {
        let attempt = match word == Path::new(&target.path) {
            true => format!("erase {}", target.path),
            false => format!("erase {}, which {} leads to", target.path, word.display()),
        };
        let (id, may_be_lost, target) = (id.to_owned(), may_be_lost.to_vec(), target.clone());
        let (root, tried) = (root.clone(), attempt.clone());
        let work = move || {
            let device = open(&tried, &target, OFlags::RDONLY)?;
            let look = |error| Trouble::new(&tried, error);
            let found = BlockDevice::of(device.as_fd()).map_err(look)?;
            let mut examined = examine(&root, &target, device.as_fd(), &id, &may_be_lost)?;
            // The same lock that the run will hold, for a moment: the kernel knows holders that sysfs does not show.
            if let Err(errno) = open_raw(&target, OFlags::RDONLY | OFlags::EXCL) {
                examined.locked(errno);
            }
            let erased = examined.refuse(&tried, &target.path)?;
            Ok(Self { id, may_be_lost, attempt: tried, found, erased })
        };
        patience::wait_while_it_moves(&attempt, || 0, work)?
    }

    /// Opens the device for writing, locked for as long as the descriptor is open, and makes all checks again on it.
    ///
    /// # Errors
    /// As [`Erasure::check`]; or the device has changed since.
    pub fn claim(&self, root: &Root, target: &Target) -> Result<OwnedFd, Trouble> {
        let (id, may_be_lost) = (self.id.clone(), self.may_be_lost.clone());
        let (found, before) = (self.found, self.erased.clone());
        let (root, target, tried) = (root.clone(), target.clone(), self.attempt.clone());
        let work = move || {
            let device = open(&tried, &target, OFlags::RDWR | OFlags::EXCL)?;
            let now = BlockDevice::of(device.as_fd()).map_err(|error| Trouble::new(&tried, error))?;
            if now != found {
                let cause = "another device has taken its place since it was looked at";
                return Err(Trouble::new(tried, cause).remedy("look at it again with `skye doctor`"));
            }
            let erased = examine(&root, &target, device.as_fd(), &id, &may_be_lost)?;
            if erased.refuse(&tried, &target.path)? != before {
                let cause = "its identity or its contents have changed since it was looked at";
                return Err(Trouble::new(tried, cause).remedy("look at it again with `skye doctor`"));
            }
            Ok(device)
        };
        patience::wait_while_it_moves(&self.attempt, || 0, work)?
    }
}

/// Opens the device at the path that was found, which has no symbolic links.
fn open_raw(target: &Target, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(&target.path, flags, rustix::fs::Mode::empty())
}

fn open(attempt: &str, target: &Target, flags: OFlags) -> Result<OwnedFd, Trouble> {
    open_raw(target, flags).map_err(|errno| {
        let trouble = Trouble::new(attempt, std::io::Error::from(errno));
        match errno {
            Errno::BUSY => trouble.remedy("something has just begun to use it: `skye doctor` says what"),
            Errno::ACCESS | Errno::PERM => trouble.remedy("run it as root, outside of containers"),
            Errno::ROFS => trouble.remedy("it is read-only"),
            _ => trouble,
        }
    })
}

/// Everything that was found out about a device.
struct Examined {
    erased: Erased,
    /// The ID does not name this device.
    identity: Vec<String>,
    obstacles: Obstacles,
    /// Signatures that were not named, each with its device.
    signatures: Vec<(String, String)>,
    /// Signatures that nobody could look for.
    unread: Vec<String>,
    is_read_only: bool,
}

/// Looks at a device from all sides.
fn examine(
    root: &Root,
    target: &Target,
    device: BorrowedFd<'_>,
    id: &str,
    may_be_lost: &[String],
) -> Result<Examined, Trouble> {
    let tried = || format!("look at {}", target.path);
    let now = BlockDevice::of(device).map_err(|error| Trouble::new(tried(), error))?;
    let top = target.top_device().filter(|top| (top.major, top.minor) == (now.major, now.minor));
    let holding = top.and_then(|_| observe::holding(root, target)).ok_or_else(|| {
        Trouble::new(tried(), "sysfs does not show it, so that nobody can tell who uses it")
            .remedy("run skye outside of containers")
    })?;
    let obstacles = observe::obstacles(root, &holding.parts[0].name);
    let Holding { serial, wwn, parts, .. } = holding;
    let mut erased = Erased { serial, wwn, size_bytes: now.size_bytes, signatures: Vec::new() };
    let mut identity = Vec::new();
    if !erased.ids().iter().any(|known| known == id) {
        identity.push(format!("{id:?} is not its ID"));
    } else if erased.serial.as_deref() == Some(id) && !obstacles.namesakes.is_empty() {
        identity.push(format!("{} has the same serial number", obstacles.namesakes.join(", ")));
    }
    let (mut signatures, mut unread) = (Vec::new(), Vec::new());
    // What lies above is a use already, and is not asked for its contents.
    let own = parts.iter().enumerate().filter(|(index, part)| *index == 0 || part.is_partition);
    for (index, part) in own {
        let found = match index {
            0 => device.try_clone_to_owned().map_err(|error| error.to_string()),
            _ => open_part(root, part),
        };
        match found.and_then(|device| signatures::all(&device)) {
            Ok(names) => {
                let (named, others): (Vec<_>, Vec<_>) =
                    names.into_iter().partition(|name| may_be_lost.contains(name));
                erased.signatures.extend(named.into_iter().map(|name| format!("{}: {name}", part.name)));
                signatures.extend(others.into_iter().map(|name| (part.name.clone(), name)));
            }
            Err(why) => unread.push(format!("nobody can tell what is on {}: {why}", part.name)),
        }
    }
    Ok(Examined { erased, identity, obstacles, signatures, unread, is_read_only: now.is_read_only })
}

/// Opens a partition for reading, and makes sure that it is that one.
fn open_part(root: &Root, part: &Part) -> Result<OwnedFd, String> {
    // A slash in the name of a device is an exclamation mark in sysfs.
    let path = PathBuf::from(format!("/dev/{}", part.name.replace('!', "/")));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let opened = File::options().read(true).custom_flags(flags).open(&path);
    let device = OwnedFd::from(opened.map_err(|error| format!("{}: {error}", path.display()))?);
    let found = BlockDevice::of(device.as_fd()).map_err(|error| format!("{}: {error}", path.display()))?;
    let expected = root.line(&format!("sys/class/block/{}/dev", part.name));
    if expected != Some(format!("{}:{}", found.major, found.minor)) {
        return Err(format!("{} is another device", path.display()));
    }
    Ok(device)
}

impl Examined {
    /// Takes note that the kernel's lock cannot be had. Uses that have a name explain that.
    fn locked(&mut self, errno: Errno) {
        if self.obstacles.uses.is_empty() {
            let why = match errno {
                Errno::BUSY => "the kernel or a program holds it for itself alone".to_owned(),
                _ => format!("it cannot be locked: {}", std::io::Error::from(errno)),
            };
            self.obstacles.uses.push(why);
        }
    }

    /// Returns the identity of a device that may be erased.
    ///
    /// # Errors
    /// All reasons why it may not, and their remedies.
    fn refuse(self, attempt: &str, path: &str) -> Result<Erased, Trouble> {
        let Self {
            erased,
            identity,
            obstacles: Obstacles { uses, hidden, .. },
            signatures,
            unread,
            is_read_only,
        } = self;
        let mut remedies = Vec::new();
        if !identity.is_empty() {
            let ids = match (&erased.serial, &erased.wwn) {
                (None, None) => "its size in bytes",
                (None, Some(_)) => "its WWN",
                (Some(_), _) if identity[0].contains("same serial") => "its WWN",
                (Some(_), _) => "its serial number or WWN",
            };
            remedies.push(format!("type {ids} in full after --erase, as `skye doctor {path}` prints it"));
        }
        if !uses.is_empty() {
            remedies.push("unmount, stop or close what uses it".to_owned());
        }
        if !signatures.is_empty() {
            let mut names: Vec<_> = signatures.iter().map(|(_, name)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            let flags: Vec<_> = names.into_iter().map(|name| format!("--erase-signature {name}")).collect();
            remedies.push(format!("if it may be lost, add {}", flags.join(" ")));
        }
        if !hidden.is_empty() {
            remedies.push("run skye on the host itself, where nothing can hide a user".to_owned());
        }
        if !unread.is_empty() {
            remedies.push("make sure that blkid and wipefs of util-linux can read it".to_owned());
        }
        let read_only = is_read_only.then(|| "it is read-only".to_owned());
        if is_read_only {
            remedies.push("make it writable, for example with blockdev --setrw".to_owned());
        }
        let signatures =
            signatures.into_iter().map(|(device, name)| format!("{device} holds a signature of {name}"));
        let reasons =
            identity.into_iter().chain(uses).chain(signatures).chain(unread).chain(hidden).chain(read_only);
        let reasons: Vec<_> = reasons.collect();
        if reasons.is_empty() {
            return Ok(erased);
        }
        Err(Trouble::new(attempt, reasons.join("; ")).remedy(remedies.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A loop device over a file, which can be attached anew under the same name.
    struct Loop {
        path: PathBuf,
        home: tempfile::TempDir,
    }

    impl Loop {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            for name in ["first", "second"] {
                File::create(home.path().join(name)).unwrap().set_len(4 << 20).unwrap();
            }
            let shown = losetup(&["--find", "--show", home.path().join("first").to_str().unwrap()]);
            Self { path: shown.trim().into(), home }
        }

        fn replace(&self) {
            let path = self.path.to_str().unwrap();
            losetup(&["--detach", path]);
            losetup(&[path, self.home.path().join("second").to_str().unwrap()]);
        }

        fn check(&self) -> (Target, Erasure) {
            let root = Root::system();
            let mut target = observe::readable(&root, &self.path, "it").unwrap();
            let erasure = Erasure::check(&root, &self.path, &target, "4194304", &[]).unwrap();
            target.erased = Some(erasure.erased.clone());
            (target, erasure)
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
        }
    }

    fn losetup(arguments: &[&str]) -> String {
        let output = Command::new("losetup").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_device_that_was_replaced_is_refused() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        device.replace();
        let refused = erasure.claim(&Root::system(), &target).unwrap_err();
        assert_eq!(refused.cause, "another device has taken its place since it was looked at");
        // The new one has the same numbers, size and ID, and can be named anew.
        let (target, erasure) = device.check();
        assert!(erasure.claim(&Root::system(), &target).is_ok());
    }

    #[test]
    fn a_device_that_changes_between_the_looks_is_refused() {
        xtask::require!(root, loop, host, ext4);
        let device = Loop::new();
        let refused = |change: &dyn Fn()| {
            let (target, erasure) = device.check();
            change();
            erasure.claim(&Root::system(), &target).unwrap_err().to_string()
        };
        let file = File::options().write(true).open(device.home.path().join("first")).unwrap();
        let path = device.path.to_str().unwrap();
        let grown = refused(&|| {
            file.set_len(8 << 20).unwrap();
            losetup(&["--set-capacity", path]);
        });
        assert!(grown.contains("another device has taken its place"), "{grown}");
        file.set_len(4 << 20).unwrap();
        losetup(&["--set-capacity", path]);
        let signed = refused(&|| {
            let status = Command::new("mkfs.ext4").args(["-qF", path]).status();
            assert!(status.unwrap().success());
        });
        assert!(signed.contains("holds a signature of ext4"), "{signed}");
    }

    #[test]
    fn one_descriptor_holds_it() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        let held = erasure.claim(&Root::system(), &target).unwrap();
        let (.., again) = (held.as_fd(), open_raw(&target, OFlags::RDWR | OFlags::EXCL));
        assert_eq!(again.unwrap_err(), Errno::BUSY);
        let refused = erasure.claim(&Root::system(), &target).unwrap_err().to_string();
        assert!(refused.contains("busy") && refused.contains("begun to use it"), "{refused}");
        drop(held);
        assert!(erasure.claim(&Root::system(), &target).is_ok());
    }
}
