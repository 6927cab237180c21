//! `--erase`: the checks before a block device is written, and the one descriptor through which it is.
//!
//! All checks are made twice: when the target is found, before anything is planned, and again on the descriptor that
//! holds the device with `O_EXCL`. Between the two, the device must have stayed the same: its numbers, its sequence number,
//! its size, its serial number. The kernel gives no two disks the same sequence number. Every check runs to its end, so
//! that a refusal says all that is in the way.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::holding::{DeviceUsage, Part};
use model::request::Allow;
use model::target::{ErasedContents, ErasedDevice};
use model::{Request, Target, UserError, size};
use observe::{BlockDevice, LoopFile, Obstacles, Root, Traffic};
use run::hang_detection;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::signatures;
use contents::Contents;
use tables::TablePart;

mod contents;
mod formats;
mod tables;

/// Unit of the kernel's sizes and offsets.
const SECTOR_BYTES: u64 = 512;
/// Attempts to lock a device, and the pause between two of them.
const LOCK_ATTEMPTS: u32 = 8;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Permission of the user to erase a device.
#[derive(Debug, Clone, Default)]
struct Permission {
    id: String,
    /// Signatures that may be lost.
    signatures: Vec<String>,
    /// True if unknown data may be lost.
    allows_data: bool,
    /// True if processes may use it whose files cannot be read.
    unreadable_processes: bool,
}

/// A device that the user named to be erased, and its state when it was found.
pub struct Erasure {
    permission: Permission,
    action: String,
    /// Its state before the first check.
    before: State,
    /// The device, for the document.
    pub erased: ErasedDevice,
}

impl Erasure {
    /// Finds out if a device may be erased; opens it for reading alone. `word` is the name that the user gave it.
    /// Returns `None` if the request erases nothing.
    ///
    /// # Errors
    /// The device is in use, has contents that the user did not name, has another ID, or cannot be checked.
    pub fn check(
        root: &Root,
        word: &Path,
        target: &Target,
        request: &Request,
    ) -> Result<Option<Self>, UserError> {
        let Some(id) = request.erase.clone() else { return Ok(None) };
        let action = match word == Path::new(&target.path) {
            true => format!("erase {}", target.path),
            false => format!("erase {} (given as {})", target.path, word.display()),
        };
        let permission = Permission {
            id,
            signatures: request.erase_signature.clone(),
            allows_data: request.erase_data == Some(true),
            unreadable_processes: request.allow.contains(&Allow::UnreadableProcesses),
        };
        let (root, tried, target) = (root.recording(), action.clone(), target.clone());
        let work = move |progress: &AtomicU64| {
            // The same lock that the run will hold: the kernel knows holders that sysfs does not show.
            let locked = lock(&target, OFlags::RDONLY);
            let lock_error = locked.as_ref().err().copied();
            let device = match locked {
                Ok(device) => device,
                Err(_) => open_raw(&target, OFlags::RDONLY).map_err(|errno| not_opened(&tried, errno))?,
            };
            let before =
                State::now(&root, &target, &device).map_err(|error| UserError::new(&tried, error))?;
            let mut examined = examine(&root, &target, &device, &permission, progress)?;
            examined.locked(lock_error);
            let erased = examined.refuse(&tried, &target.path)?;
            Ok(Some(Self { permission, action: tried, before, erased }))
        };
        with_progress(&action, work)
    }

    /// Opens the device for writing, locked for as long as the descriptor is open, and makes all checks again on it.
    ///
    /// # Errors
    /// As [`Erasure::check`]; or the device has changed since.
    pub fn claim(&self, root: &Root, target: &Target) -> Result<OwnedFd, UserError> {
        let (permission, erased, before) = (self.permission.clone(), self.erased.clone(), self.before);
        let (root, target, tried) = (root.recording(), target.clone(), self.action.clone());
        let work = move |progress: &AtomicU64| {
            let unknown = |error| UserError::new(&tried, error);
            let changed = |(cause, help): Change| UserError::new(&tried, cause).help(help);
            let device = lock(&target, OFlags::RDWR).map_err(|errno| not_opened(&tried, errno))?;
            let now = BlockDevice::from_fd(device.as_fd()).map_err(unknown)?;
            // The checks name what they find on another device or part of it, so this comes before them, too.
            if let Some(change) = identity_change(&now, &before.device) {
                return Err(changed(change));
            }
            let started = State::now(&root, &target, &device).map_err(unknown)?;
            let examined = examine(&root, &target, &device, &permission, progress)?;
            if !examined.refuse(&tried, &target.path)?.is_same(&erased) {
                return Err(changed(("its identity or contents changed since the first check", CHECK_AGAIN)));
            }
            // This finds a writer that no list of open files shows, and one that wrote behind the check of the contents.
            let now = State::now(&root, &target, &device).map_err(unknown)?;
            // Counters that were disabled in between show no reads of this check.
            let change = now.change_since(&before).or_else(|| now.change_since(&started));
            change.map_or(Ok(device), |change| Err(changed(change)))
        };
        with_progress(&self.action, work)
    }
}

/// Difference between two checks, as a clause, and its remedy.
type Change = (&'static str, &'static str);

const REPLACED: &str = "another device replaced it since the first check";
const FILE_CHANGED: &str = "its backing file or the attributes of that were changed since the first check";
const CHECK_AGAIN: &str = "check it again with `skye doctor`";

/// All that must stay as it is from before the first check to the end of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    device: BlockDevice,
    traffic: Option<Traffic>,
    /// First sector of a partition: another one may have its numbers and size.
    start: Option<u64>,
    /// File below a loop device.
    file: Option<LoopFile>,
}

impl State {
    /// Reads the counters after all that waits in the page cache of the device and of its disk is written.
    fn now(root: &Root, target: &Target, device: &OwnedFd) -> std::io::Result<Self> {
        let name = target.top_device().map_or("", |top| top.name.as_str());
        // A device that cannot be flushed fails elsewhere.
        let _ = rustix::fs::fsync(device);
        let disk = observe::disk_of(root, name).unwrap_or_default();
        if disk != name
            && let Some(disk) = root.open(&format!("dev/{disk}"))
        {
            let _ = rustix::fs::fsync(disk);
        }
        let traffic = observe::traffic(root, name);
        let file = LoopFile::query(root, &disk, device.as_fd());
        let device = BlockDevice::from_fd(device.as_fd())?;
        let start = root.number(&format!("sys/dev/block/{}:{}/start", device.major, device.minor));
        Ok(Self { device, traffic, start, file })
    }

    /// Returns the first difference to the state before. The checks in between have read the device.
    fn change_since(&self, before: &Self) -> Option<Change> {
        if let Some(change) = identity_change(&self.device, &before.device) {
            return Some(change);
        }
        if self.start != before.start {
            return Some((REPLACED, CHECK_AGAIN));
        }
        let (file, old_file) = (self.file, before.file);
        if !file.zip(old_file).map_or(file == old_file, |(now, then)| now.is_same_part(&then)) {
            return Some((
                "its backing file, offset or size limit changed since the first check",
                CHECK_AGAIN,
            ));
        }
        const ON_COUNTERS: &str = "set queue/iostats of its disk in /sys/block to 1";
        let Some((now, then)) = self.traffic.zip(before.traffic) else {
            return Some((
                "its counters are unreadable, so writes since the first check are unknown",
                CHECK_AGAIN,
            ));
        };
        if now.written_sectors != then.written_sectors
            || now.disk_written_sectors.zip(then.disk_written_sectors).is_some_and(|(now, then)| now != then)
        {
            return Some(("it was written since the first check", CHECK_AGAIN));
        }
        if file != old_file && now.whole_disk_written_sectors == then.whole_disk_written_sectors {
            return Some((FILE_CHANGED, CHECK_AGAIN));
        }
        if file != old_file {
            let why = "another partition was written since the first check, so writes to its backing file are unknown";
            return Some((why, "stop the programs that write to the other partitions"));
        }
        let is_counted = now.read_sectors != then.read_sectors;
        let off = "its I/O statistics are disabled, so writes since the first check are unknown";
        (!is_counted).then_some((off, ON_COUNTERS))
    }
}

/// Returns how the identity of a device has changed.
fn identity_change(now: &BlockDevice, before: &BlockDevice) -> Option<Change> {
    let numbers = |device: &BlockDevice| (device.major, device.minor, device.sequence);
    let why = match now {
        _ if numbers(now) != numbers(before) => REPLACED,
        _ if now.size_bytes != before.size_bytes => "its size has changed since the first check",
        _ if now != before => "it has become read-only or writable since the first check",
        _ => return None,
    };
    Some((why, CHECK_AGAIN))
}

/// Runs checks of a device, which count their reads, for as long as they make progress.
fn with_progress<T: Send + 'static>(
    action: &str,
    work: impl FnOnce(&AtomicU64) -> Result<T, UserError> + Send + 'static,
) -> Result<T, UserError> {
    let progress = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&progress);
    hang_detection::wait_with_progress(
        action,
        move || progress.load(Ordering::Relaxed),
        move || work(&theirs),
    )?
}

/// Opens the device at the path that was found, which has no symbolic links.
fn open_raw(target: &Target, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(&target.path, flags, rustix::fs::Mode::empty())
}

/// Opens the device for this process alone. A process that has just been forked holds a copy of a lock for a moment.
fn lock(target: &Target, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut opened = open_raw(target, flags | OFlags::EXCL);
    for _ in 0..LOCK_ATTEMPTS {
        if !opened.as_ref().is_err_and(|errno| *errno == Errno::BUSY) {
            break;
        }
        std::thread::sleep(LOCK_PAUSE);
        opened = open_raw(target, flags | OFlags::EXCL);
    }
    opened
}

fn not_opened(action: &str, errno: Errno) -> UserError {
    let error = UserError::new(action, std::io::Error::from(errno));
    match errno {
        Errno::BUSY => error.help("stop the processes that use it; fuser -v lists them"),
        Errno::ACCESS | Errno::PERM => error.help("run it as root, outside of containers"),
        Errno::ROFS => error.help("it is read-only"),
        _ => error,
    }
}

/// Everything that was found out about a device.
struct Examination {
    erased: ErasedDevice,
    /// Reason why the ID does not name this device, and it alone; and what to type instead.
    identity: Option<(String, &'static str)>,
    obstacles: Obstacles,
    /// Signatures that were not named, each with its device.
    signatures: Vec<(String, String)>,
    /// The first data that may not be lost.
    data: Option<String>,
    /// Contents that cannot be checked.
    unread: Vec<String>,
    is_read_only: bool,
}

/// Checks a device from all sides.
fn examine(
    root: &Root,
    target: &Target,
    device: &OwnedFd,
    permission: &Permission,
    progress: &AtomicU64,
) -> Result<Examination, UserError> {
    let tried = || format!("inspect {}", target.path);
    let now = BlockDevice::from_fd(device.as_fd()).map_err(|error| UserError::new(tried(), error))?;
    let top = target.top_device().filter(|top| (top.major, top.minor) == (now.major, now.minor));
    let holding = top.and_then(|_| observe::holding(root, target)).ok_or_else(|| {
        UserError::new(tried(), "it is not in sysfs, so its users are unknown")
            .help("run skye outside of containers")
    })?;
    contents::drop_cache(device);
    let (mut named, mut signatures, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for (part, names) in all_signatures(root, &holding.parts, device, progress) {
        match names {
            Ok(names) => {
                let (may_be_lost, others): (Vec<_>, Vec<_>) =
                    names.into_iter().partition(|name| permission.signatures.contains(name));
                named.extend(may_be_lost.into_iter().map(|name| format!("{part}: {name}")));
                signatures.extend(others.into_iter().map(|name| (part.clone(), name)));
            }
            Err(why) => unread.push(format!("the contents of {part} are unknown: {why}")),
        }
    }
    let name = &holding.parts[0].name;
    let found = contents::scan(device, now.size_bytes, progress);
    let data = match &found {
        Ok(Contents { data_at_bytes: Some(at), read_bytes, .. }) if !permission.allows_data => {
            Some(format!("{name} has data at byte {at} (after {} read)", size::decimal(*read_bytes)))
        }
        Err(why) if !permission.allows_data => {
            unread.push(format!("the contents of {name} are unknown: {why}"));
            None
        }
        _ => None,
    };
    let found = found.unwrap_or_default();
    let contents = match (found.data_at_bytes, found.has_earlier_run) {
        _ if found == Contents::default() => ErasedContents::Unknown,
        (Some(_), _) => ErasedContents::Data,
        (None, true) => ErasedContents::EarlierRun,
        (None, false) => ErasedContents::Zeros,
    };
    let erased = ErasedDevice {
        serial: holding.serial.clone(),
        wwn: holding.wwn.clone(),
        size_bytes: now.size_bytes,
        signatures: named,
        contents,
        read_bytes: found.read_bytes,
    };
    // Users come last: one that wrote while the contents were read still has it open.
    let mut obstacles = observe::obstacles(root, name, Some(device.as_fd()), progress);
    if permission.unreadable_processes {
        obstacles.unreadable.clear();
    }
    let identity = identity(&holding, &obstacles, &permission.id);
    unread.dedup();
    let is_read_only = now.is_read_only;
    Ok(Examination { erased, identity, obstacles, signatures, data, unread, is_read_only })
}

/// Returns why an ID does not name a device, and it alone; and what to type instead.
fn identity(holding: &DeviceUsage, obstacles: &Obstacles, id: &str) -> Option<(String, &'static str)> {
    let right = match (&holding.serial, &holding.wwn) {
        (None, None) if !holding.same_size.is_empty() => "its ID",
        (None, None) => "its size in bytes",
        (None, Some(_)) => "its WWN",
        (Some(_), _) => "its serial number or WWN",
    };
    if !holding.ids().iter().any(|known| known == id) {
        let others = match holding.same_size.join(", ") {
            others if others.is_empty() || id != holding.size_bytes.to_string() => String::new(),
            others => format!(", as {others} has the same size and no serial number either"),
        };
        return Some((format!("{id:?} is not its ID{others}"), right));
    }
    let is_shared = holding.serial.as_deref() == Some(id) && !obstacles.same_serial.is_empty();
    is_shared.then(|| (format!("{} has the same serial number", obstacles.same_serial.join(", ")), "its WWN"))
}

/// Signatures on a part of a device, by the name of the part; or why they are unknown.
type PartSignatures = (String, Result<Vec<String>, String>);

/// Returns the names of all signatures on a device, on its partitions, and on those that only its tables name. Devices
/// above it are a use already, and are not read.
fn all_signatures(
    root: &Root,
    parts: &[Part],
    device: &OwnedFd,
    progress: &AtomicU64,
) -> Vec<PartSignatures> {
    let (whole, rest) = (&parts[0], &parts[1..]);
    let formats = |device: &OwnedFd, part: &TablePart, known: Vec<String>| {
        let names = contents::formats(device, part, progress)?;
        Ok(known.into_iter().chain(names).collect::<BTreeSet<_>>().into_iter().collect())
    };
    let of_device = |device: OwnedFd, size_bytes: u64| {
        formats(&device, &TablePart { offset_bytes: 0, size_bytes }, signatures::all(&device)?)
    };
    let own = device.try_clone().map_err(|error| error.to_string());
    let mut found = vec![(whole.name.clone(), own.and_then(|device| of_device(device, whole.size_bytes)))];
    let mut known = Vec::new();
    for part in rest.iter().filter(|part| part.is_partition) {
        let names = open_part(root, part).and_then(|device| of_device(device, part.size_bytes));
        found.push((part.name.clone(), names));
        let start: Option<u64> = root.number(&format!("sys/class/block/{}/start", part.name));
        known.extend(start.map(|sectors| TablePart {
            offset_bytes: sectors.saturating_mul(SECTOR_BYTES),
            size_bytes: part.size_bytes,
        }));
    }
    match contents::table_parts(device, whole.size_bytes) {
        // One at the very beginning has the signatures of the whole.
        Ok(parts) => found.extend(
            parts.iter().filter(|part| part.offset_bytes > 0 && !known.contains(part)).map(|part| {
                let names = signatures::within(device, part.offset_bytes, part.size_bytes);
                let names = names.and_then(|names| formats(device, part, names));
                (format!("the partition at byte {} of {}", part.offset_bytes, whole.name), names)
            }),
        ),
        Err(why) => found.push((whole.name.clone(), Err(why))),
    }
    found
}

/// Opens a partition for reading, and makes sure that it is that one.
fn open_part(root: &Root, part: &Part) -> Result<OwnedFd, String> {
    // A slash in the name of a device is an exclamation mark in sysfs.
    let path = PathBuf::from(format!("/dev/{}", part.name.replace('!', "/")));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let opened = File::options().read(true).custom_flags(flags).open(&path);
    let device = OwnedFd::from(opened.map_err(|error| format!("{}: {error}", path.display()))?);
    let found =
        BlockDevice::from_fd(device.as_fd()).map_err(|error| format!("{}: {error}", path.display()))?;
    let expected = root.line(&format!("sys/class/block/{}/dev", part.name));
    if expected != Some(format!("{}:{}", found.major, found.minor)) {
        return Err(format!("{} is another device", path.display()));
    }
    contents::drop_cache(&device);
    Ok(device)
}

impl Examination {
    /// Takes note of why the kernel's lock is not available. Uses that have a name explain that.
    fn locked(&mut self, error: Option<Errno>) {
        if let Some(errno) = error
            && self.obstacles.uses.is_empty()
        {
            let why = match errno {
                Errno::BUSY => "the kernel or a program has it open exclusively".to_owned(),
                _ => format!("it cannot be locked: {}", std::io::Error::from(errno)),
            };
            self.obstacles.uses.push(why);
        }
    }

    /// Returns the identity of a device that may be erased.
    ///
    /// # Errors
    /// All reasons why it may not, and their remedies.
    fn refuse(self, action: &str, path: &str) -> Result<ErasedDevice, UserError> {
        let Self {
            erased,
            identity,
            obstacles: Obstacles { uses, hidden, unreadable, unresolved, same_serial: _ },
            signatures,
            data,
            unread,
            is_read_only,
        } = self;
        let mut remedies = Vec::new();
        if let Some((_, right)) = &identity {
            remedies.push(format!("use --erase with {right} in full, as `skye doctor {path}` prints it"));
        }
        if !uses.is_empty() {
            remedies.push("unmount it, and stop the programs and devices that use it".to_owned());
        }
        if !unresolved.is_empty() {
            remedies.push("use the path of this file on the host".to_owned());
        }
        let names: BTreeSet<_> = signatures.iter().map(|(_, name)| name).collect();
        let flags = names.into_iter().map(|name| format!("--erase-signature {name}"));
        let flags: Vec<_> = flags.chain(data.as_ref().map(|_| "--erase-data".to_owned())).collect();
        if !flags.is_empty() {
            remedies.push(format!("to erase it, add {}", flags.join(" ")));
        }
        if !hidden.is_empty() {
            remedies.push("run skye on the host itself, where all users are visible".to_owned());
        }
        if !unreadable.is_empty() {
            let known = "if none of these processes uses it, add --allow unreadable-processes";
            remedies.push(format!("run skye as root on the host; {known}"));
        }
        if !unread.is_empty() {
            remedies.push("make sure that blkid and wipefs of util-linux can read it".to_owned());
        }
        let read_only = is_read_only.then(|| "it is read-only".to_owned());
        if is_read_only {
            remedies.push("make it writable, for example with blockdev --setrw".to_owned());
        }
        let signatures =
            signatures.into_iter().map(|(device, name)| format!("{device} has a signature of {name}"));
        let contents = signatures.chain(data).chain(unread);
        let reasons = identity
            .map(|(why, _)| why)
            .into_iter()
            .chain(uses)
            .chain(unresolved)
            .chain(contents)
            .chain(hidden)
            .chain(unreadable)
            .chain(read_only);
        let reasons: Vec<_> = reasons.collect();
        if reasons.is_empty() {
            return Ok(erased);
        }
        Err(UserError::new(action, reasons.join("; ")).help(remedies.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use super::*;

    /// No other device of this machine has this size.
    const SIZE_BYTES: u64 = (4 << 20) + 5 * 4096;

    /// A loop device over a file, which can be attached again under the same name.
    struct Loop {
        path: PathBuf,
        home: tempfile::TempDir,
    }

    impl Loop {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            for name in ["first", "second"] {
                File::create(home.path().join(name)).unwrap().set_len(SIZE_BYTES).unwrap();
            }
            let device = losetup(&["--find", "--show", home.path().join("first").to_str().unwrap()]);
            Self { path: device.trim().into(), home }
        }

        fn id(&self) -> String {
            let number = BlockDevice::from_fd(File::open(&self.path).unwrap().as_fd()).unwrap().sequence;
            format!("{SIZE_BYTES}-{}", number.unwrap())
        }

        fn replace(&self) {
            let path = self.path.to_str().unwrap();
            losetup(&["--detach", path]);
            losetup(&[path, self.home.path().join("second").to_str().unwrap()]);
        }

        fn check(&self) -> (Target, Erasure) {
            let root = Root::system();
            let mut target = observe::readable(&root, &self.path, "it").unwrap();
            let allow = vec![Allow::UnreadableProcesses];
            let request = Request { erase: Some(self.id()), allow, ..Request::default() };
            let erasure = Erasure::check(&root, &self.path, &target, &request).unwrap().unwrap();
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
    fn replaced_device_is_refused() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        device.replace();
        let refused = erasure.claim(&Root::system(), &target).unwrap_err();
        assert_eq!(refused.cause, "another device replaced it since the first check");
        // The new one has the same numbers, size and ID, and can be named anew.
        let (target, erasure) = device.check();
        assert!(erasure.claim(&Root::system(), &target).is_ok());
    }

    #[test]
    fn device_changed_between_checks_is_refused() {
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
        assert!(grown.contains("its size has changed since the first check"), "{grown}");
        file.set_len(SIZE_BYTES).unwrap();
        losetup(&["--set-capacity", path]);
        let signed = refused(&|| {
            let status = Command::new("mkfs.ext4").args(["-qF", path]).status();
            assert!(status.unwrap().success());
        });
        assert!(signed.contains("has a signature of ext4"), "{signed}");
    }

    #[test]
    fn data_written_between_the_checks_is_refused() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        for _ in 0..xtask::sized(3, 50) {
            let (target, erasure) = device.check();
            let at = fastrand::u64(0..4 << 20);
            let file = File::options().write(true).open(&device.path).unwrap();
            file.write_all_at(&[7], at).unwrap();
            file.sync_all().unwrap();
            let refused = erasure.claim(&Root::system(), &target).unwrap_err().to_string();
            assert!(refused.contains(&format!("has data at byte {}", at / 4096 * 4096)), "{refused}");
            file.write_all_at(&[0], at).unwrap();
        }
    }

    #[test]
    fn partition_with_changed_start_is_refused_as_replaced() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (mut target, erasure) = device.check();
        let path = device.path.to_str().unwrap().to_owned();
        let added = Command::new("addpart").args([&path, "1", "2048", "2048"]).status().unwrap();
        assert!(added.success());
        target.path = format!("{path}p1");
        let opened = open_raw(&target, OFlags::RDONLY).unwrap();
        let part = State::now(&Root::system(), &target, &opened).unwrap();
        assert_eq!((erasure.before.start, part.start), (None, Some(2048)));
        let moved = State { start: Some(4096), ..part };
        assert_eq!(moved.change_since(&part), Some((REPLACED, CHECK_AGAIN)));
        drop(opened);
        assert!(Command::new("delpart").args([&path, "1"]).status().unwrap().success());
    }

    #[test]
    fn counters_disabled_between_the_checks_are_noticed() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        let iostats = format!("/sys/class/block/{}/queue/iostats", target.top_device().unwrap().name);
        std::fs::write(&iostats, "0").unwrap();
        let claimed = erasure.claim(&Root::system(), &target);
        std::fs::write(&iostats, "1").unwrap();
        let refused = claimed.unwrap_err();
        assert!(refused.cause.contains("I/O statistics are disabled"), "{refused}");
    }

    #[test]
    fn data_below_a_stale_page_cache_is_found() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        let opened = open_raw(&target, OFlags::RDONLY).unwrap();
        std::fs::read(&device.path).unwrap();
        let file = File::options().write(true).open(device.home.path().join("first")).unwrap();
        file.write_all_at(b"row", 1 << 20).unwrap();
        let refused = erasure.claim(&Root::system(), &target).unwrap_err().to_string();
        assert!(refused.contains("has data at byte 1048576"), "{refused}");
        drop(opened);
    }

    #[test]
    fn file_write_with_restored_time_is_refused() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        let file = File::options().write(true).open(device.home.path().join("first")).unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        // The same contents, which no check of them finds.
        file.write_all_at(&[0], 4096).unwrap();
        file.set_modified(before).unwrap();
        let refused = erasure.claim(&Root::system(), &target).unwrap_err();
        assert_eq!(refused.cause, FILE_CHANGED);
    }

    #[test]
    fn partition_check_ignores_disk_writes_but_detects_file_writes() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        let of = |written: u64, read: u64| {
            let traffic = Traffic {
                read_sectors: read,
                written_sectors: 7,
                whole_disk_written_sectors: written,
                disk_written_sectors: Some(0),
            };
            State { traffic: Some(traffic), ..erasure.before }
        };
        let (before, after) = (of(7, 1), of(9, 2));
        assert_eq!(after.change_since(&before), None);
        let opened = open_raw(&target, OFlags::RDONLY).unwrap();
        let file = File::options().write(true).open(device.home.path().join("first")).unwrap();
        file.write_all_at(&[0], 0).unwrap();
        let later = State::now(&Root::system(), &target, &opened).unwrap().file;
        let (why, _) = State { file: later, ..after }.change_since(&before).unwrap();
        assert!(why.contains("writes to its backing file are unknown"), "{why}");
        let (why, _) = State { file: later, ..of(7, 2) }.change_since(&before).unwrap();
        assert_eq!(why, FILE_CHANGED);
        let (why, _) = State { traffic: None, ..before }.change_since(&before).unwrap();
        assert!(why.contains("counters are unreadable"), "{why}");
        let (_, help) = of(7, 1).change_since(&before).unwrap();
        assert_eq!(help, "set queue/iostats of its disk in /sys/block to 1");
    }

    #[test]
    fn device_claim_is_exclusive_until_drop() {
        xtask::require!(root, loop, host);
        let device = Loop::new();
        let (target, erasure) = device.check();
        let held = erasure.claim(&Root::system(), &target).unwrap();
        let (.., again) = (held.as_fd(), open_raw(&target, OFlags::RDWR | OFlags::EXCL));
        assert_eq!(again.unwrap_err(), Errno::BUSY);
        let refused = erasure.claim(&Root::system(), &target).unwrap_err().to_string();
        assert!(refused.contains("busy") && refused.contains("stop the processes that use it"), "{refused}");
        drop(held);
        assert!(erasure.claim(&Root::system(), &target).is_ok());
    }
}
