//! The work directory, the only place that skye writes to, with a marker that outlives a kill.
//!
//! Linux has no call that makes a directory and returns its descriptor. [`WorkDirectory::create`] opens the new
//! directory by its name, once. It then checks owner, mode, mount, birth time and content through the descriptor. If
//! one of them is wrong, skye touches nothing and refuses the run. After that, skye uses only the descriptor. New files
//! open with `O_EXCL` and `O_NOFOLLOW`.
//!
//! The marker is written under another name, locked, made durable and then renamed, so an existing marker is complete.
//! Its lock lives as long as the process, however that ends.
//!
//! Two writes of a run go elsewhere. `Ceilings` makes work directories in `/dev/shm`, one for each test in turn. The
//! option `--cache drop-all` writes to the kernel's `drop_caches`.
//!
//! Known gaps, in a directory where other users may rename:
//! - `rmdir` works by name. Device and inode are compared just before. After a race between check and call, it can
//!   remove another user's empty directory.
//! - Birth times have the ticks of the clock. An empty directory of the same user, closed to others, is accepted if it is
//!   younger than a tick of 10 ms.
//! - Root is refused there without `--allow shared-directory`, unless the directory belongs to another user. Where no
//!   other user can rename, the mode is not checked: some file systems set their own modes.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use model::UserError;
use model::json::ToJson;
use model::marker::{self, Client, DIRECTORY_PREFIX, FILE_NAME, LETTERS, NamePattern};
use observe::FileStatus;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::hang_detection::{self, SupervisedCall};
use crate::process;
use crate::removal::{self, DIRECTORY_FLAGS};

/// Name of the marker while it is being written.
pub(crate) const UNFINISHED_NAME: &str = "skye-marker.new";
/// Coarsest units in which file systems keep birth times: whole seconds (HFS+), or else hundredths (exFAT).
const BIRTH_UNITS_NS: (i64, i64) = (1_000_000_000, 10_000_000);
/// File systems without their own device that take birth times from this machine's clock (`linux/magic.h`; ZFS,
/// bcachefs).
const LOCAL_MAGICS: [u64; 5] = [0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0xCA45_1A4E];

/// A work directory of this process: `skye.XXXXXX`, mode 0700, locked while the run lives.
///
/// Every file in it is opened relative to its descriptor, so that a rename by another process cannot lead elsewhere.
#[derive(Debug)]
pub struct WorkDirectory {
    place: Arc<TargetDirectory>,
    path: PathBuf,
    /// File that holds the lock. Any end of the process closes and so unlocks it.
    marker: Option<File>,
    rules: Vec<NamePattern>,
    /// Name of the run that its client belongs to, if several clients make the run.
    run: Option<String>,
    /// Descriptors for the removal, which must not fail because the run has used up all others.
    reserve: Vec<OwnedFd>,
    is_removed: bool,
}

/// Existing work directories, for an exit without a return.
static ALL: Mutex<Vec<(Weak<TargetDirectory>, Vec<NamePattern>)>> = Mutex::new(Vec::new());

/// Removes all work directories of this process, while other threads may still work in them. It serves an
/// exit without a return. A directory that is being made at this moment stays.
pub fn remove_all_at_once() {
    let Ok(all) = ALL.try_lock() else { return };
    for (place, rules) in all.iter() {
        let Some(place) = place.upgrade() else { continue };
        remove_work_directory(&place, Path::new(""), None, rules, &AtomicU64::new(0));
    }
}

/// A directory, with its parent and the name that it was made under.
#[derive(Debug)]
pub(crate) struct TargetDirectory {
    pub parent: OwnedFd,
    pub name: CString,
    pub directory: OwnedFd,
}

/// Result of the removal of a work directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RemovalOutcome {
    /// Files and directories removed from it.
    pub files: u64,
    /// Paths that are left, each with the reason.
    pub left: Vec<(PathBuf, String)>,
}

/// Reason why there is no work directory.
#[derive(Debug)]
pub struct CreateError {
    /// The failure.
    pub error: UserError,
    /// True if a part of it may be left in the target.
    pub has_leftovers: bool,
}

impl From<UserError> for CreateError {
    fn from(error: UserError) -> Self {
        Self { error, has_leftovers: false }
    }
}

/// Reason why a directory that was just made is not used.
enum Unusable {
    /// A call failed.
    Failed(Errno),
    /// It is not the directory that was made, for this reason.
    Other(String),
}

impl From<Errno> for Unusable {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::NOENT => {
                Self::Other("the directory was replaced while skye created it".into())
            }
            Errno::XDEV => Self::Other("something is mounted on it".into()),
            errno => Self::Failed(errno),
        }
    }
}

/// A new directory without a descriptor.
struct NewDirectory<'a> {
    target: &'a Path,
    parent: BorrowedFd<'a>,
    name: &'a CStr,
    /// Time before it was made.
    before: Timespec,
}

impl NewDirectory<'_> {
    /// Removes it, and returns true if nothing of its name is left.
    fn remove(&self) -> bool {
        remove_unopened(self.parent, self.name, self.before)
    }

    /// Removes what a failed `mkdir` may have made, and returns the error. A server may have made the directory despite
    /// it.
    fn mkdir_failure(&self, errno: Errno) -> CreateError {
        let is_refused =
            matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSPC | Errno::DQUOT);
        match is_refused || self.remove() {
            true => create_failure(self.target, errno).into(),
            false => leftover(self.target, self.name, errno),
        }
    }

    /// Removes it because it cannot be opened, and returns the error. Another directory in its place stays.
    fn open_failure(&self, reason: Unusable) -> CreateError {
        let Self { target, parent, name, .. } = *self;
        match reason {
            Unusable::Failed(errno) => {
                let mode = status(parent, name).map_or(0o700, |status| status.mode);
                if !self.remove() {
                    return leftover(target, name, errno);
                }
                if errno != Errno::ACCESS || mode & 0o700 == 0o700 {
                    return create_failure(target, errno).into();
                }
                let cause = "a default ACL or the mount denies access to its owner";
                let help = format!(
                    "remove the ACL (`setfacl -k {}`), or choose another directory",
                    target.display()
                );
                UserError::new(create_action(target), cause).help(help).into()
            }
            Unusable::Other(why) => {
                let path = target.join(name.to_string_lossy().as_ref());
                let cause = format!("{} is not the directory that skye created: {why}", path.display());
                UserError::new(create_action(target), cause)
                    .help("choose a directory in which no other user can rename files; this one is unchanged")
                    .into()
            }
        }
    }
}

fn create_action(target: &Path) -> String {
    format!("create the work directory in {}", target.display())
}

/// Returns the error of a call on a new directory in the target, with the remedy.
fn create_failure(target: &Path, errno: Errno) -> UserError {
    let error = UserError::new(create_action(target), std::io::Error::from(errno));
    match errno {
        Errno::ROFS => error.help("choose a directory that you can write to"),
        Errno::ACCESS | Errno::PERM => {
            let denial = observe::denial(&observe::Root::system(), target);
            error.help(denial.unwrap_or_else(|| "choose a directory that you can write to".into()))
        }
        Errno::NOSPC | Errno::DQUOT => error.help("free some space first"),
        Errno::MFILE => error.help("raise the limit of open files (ulimit -n)"),
        _ => error,
    }
}

/// Returns the same for a directory that cannot be removed.
fn leftover(target: &Path, name: &CStr, errno: Errno) -> CreateError {
    let UserError { action, cause, .. } = create_failure(target, errno);
    let left = target.join(name.to_string_lossy().as_ref());
    let cause = format!("{cause}, and {} cannot be removed", left.display());
    let help = format!("remove it later with `skye clean {}`", target.display());
    CreateError { error: UserError::new(action, cause).help(help), has_leftovers: true }
}

/// Opens the directory in which a work directory is made. A directory may be one to write to and not to list. Only its
/// sync needs more.
fn open_parent(target: &Path) -> Result<OwnedFd, Errno> {
    let open = |access| rustix::fs::open(target, access | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::PATH),
        parent => parent,
    }
}

impl WorkDirectory {
    /// Makes a work directory in `target` for files with names that `rules` produce. The number of a client is in its
    /// name and marker, and its run in the marker. Every step raises `progress`.
    ///
    /// # Errors
    /// Returns the action, its path and the cause. The error lists remains that could not be removed. It also lists a
    /// directory that has replaced the new one, which is not touched.
    pub fn create(
        target: &Path,
        rules: Vec<NamePattern>,
        client: Option<&Client>,
        progress: &AtomicU64,
    ) -> Result<Self, CreateError> {
        let moved = || progress.fetch_add(1, Ordering::Relaxed);
        let fail = |errno| create_failure(target, errno);
        let parent = open_parent(target).map_err(fail)?;
        // The last two are for the directory and its marker: once the directory is made, neither may be
        // lacking.
        let mut reserve = spare_descriptors(&parent, removal::descriptors(&rules) + 2).map_err(fail)?;
        let before = clock_gettime(ClockId::RealtimeCoarse);
        moved();
        let number = client.map(|client| client.number);
        let name = make_unique(parent.as_fd(), number).map_err(|(name, errno)| {
            let new = NewDirectory { target, parent: parent.as_fd(), name: &name, before };
            new.mkdir_failure(errno)
        })?;
        moved();
        reserve.truncate(removal::descriptors(&rules));
        let path = target.join(name.to_string_lossy().as_ref());
        let new = NewDirectory { target, parent: parent.as_fd(), name: &name, before };
        let directory = open_new(new.parent, &name, before).map_err(|reason| new.open_failure(reason))?;
        let place = Arc::new(TargetDirectory { parent, name, directory });
        // From here on the directory is known to be ours: any failure must remove it again.
        moved();
        let marker = mark(&place, &rules, client, &moved).map_err(|errno| {
            for name in [UNFINISHED_NAME, FILE_NAME] {
                let _ = rustix::fs::unlinkat(&place.directory, name, AtFlags::empty());
            }
            if place.remove().is_ok() { fail(errno).into() } else { leftover(target, &place.name, errno) }
        })?;
        let entry = (Arc::downgrade(&place), rules.clone());
        if let Ok(mut all) = ALL.lock() {
            all.retain(|(place, _)| place.strong_count() > 0);
            all.push(entry);
        }
        log::debug!("made {}", path.display());
        let run = client.map(|client| client.run.clone());
        Ok(Self { place, path, marker: Some(marker), rules, run, reserve, is_removed: false })
    }

    /// Returns its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the run that its client belongs to.
    pub fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    /// Returns the rules of the names in it.
    pub fn rules(&self) -> &[NamePattern] {
        &self.rules
    }

    /// Returns the descriptor of the directory in which it was made.
    pub fn parent(&self) -> BorrowedFd<'_> {
        self.place.parent.as_fd()
    }

    /// Returns the descriptor that files are opened relative to.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.place.directory.as_fd()
    }

    /// Removes the files that the rules with this prefix produce, or all files for an empty prefix. Keeps the
    /// directory.
    ///
    /// # Errors
    /// Fails if something cannot be removed, or if the removal hangs.
    pub fn remove_files_of(&self, prefix: &str) -> Result<(), UserError> {
        let action = format!("empty {}", self.path.display());
        let rules: Vec<_> =
            self.rules.iter().filter(|rule| rule.prefix.starts_with(prefix)).cloned().collect();
        let place = Arc::clone(&self.place);
        let progress = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&progress);
        let work = move || removal::remove_contents(place.directory.as_fd(), &rules, &seen);
        let removal = hang_detection::wait_with_progress(&action, || progress.load(Ordering::Relaxed), work)?;
        // A file that no rule produces is in no one's way.
        let is_stuck = |why: &str| ![removal::NOT_OURS, removal::NUMBER_TOO_HIGH].contains(&why);
        let stuck = removal.left.into_iter().find(|(_, why)| is_stuck(why));
        stuck.map_or(Ok(()), |(name, why)| Err(UserError::new(action, format!("{name}: {why}"))))
    }

    /// Starts to remove the directory with all files that the rules produce, in a separate thread. A removal that hangs
    /// must not keep the run from reporting it. Files that disappear and changes of `activity` are progress: a file may
    /// wait for its data first.
    pub fn remove(mut self, activity: impl FnMut() -> u64 + Send + 'static) -> PendingRemoval {
        self.begin_to_remove(Box::new(activity))
    }

    fn begin_to_remove(&mut self, activity: Box<dyn FnMut() -> u64 + Send>) -> PendingRemoval {
        self.is_removed = true;
        self.reserve.clear();
        let (place, path, rules) = (Arc::clone(&self.place), self.path.clone(), self.rules.clone());
        let marker = self.marker.take();
        let progress = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&progress);
        let work = hang_detection::begin(&format!("remove {}", self.path.display()), move || {
            remove_work_directory(&place, &path, marker, &rules, &seen)
        });
        PendingRemoval { work, progress, activity, path: self.path.clone() }
    }
}

/// A removal of a work directory in progress.
pub struct PendingRemoval {
    path: PathBuf,
    work: SupervisedCall<RemovalOutcome>,
    progress: Arc<AtomicU64>,
    activity: Box<dyn FnMut() -> u64 + Send>,
}

impl PendingRemoval {
    /// Waits for the end of the removal.
    ///
    /// # Errors
    /// Fails if the removal hangs. The error contains the path that is left.
    pub fn wait(mut self) -> Result<RemovalOutcome, UserError> {
        // While another call hangs, the data that devices move belongs to others.
        let counts = hang_detection::first_hung_call().is_none();
        let activity = || {
            let moved = if counts { (self.activity)() } else { 0 };
            self.progress.load(Ordering::Relaxed).wrapping_add(moved)
        };
        self.work.wait(activity).map_err(|error| {
            let target = self.path.parent().unwrap_or(&self.path).display();
            error.help(format!("remove it with `skye clean {target}` when the target responds again"))
        })
    }
}

impl Drop for WorkDirectory {
    /// Removes the directory on the way out of a panic.
    fn drop(&mut self) {
        if !self.is_removed {
            let _ = self.begin_to_remove(Box::new(|| 0)).wait();
        }
    }
}

impl TargetDirectory {
    /// Removes the directory itself, which must be empty. If it was renamed, the error holds its present
    /// path. A name is only a hint: only the directory behind the descriptor is removed.
    pub fn remove(&self) -> Result<(), (Option<PathBuf>, Errno)> {
        match remove_if_same(self.parent.as_fd(), &self.name, &self.directory) {
            Ok(true) if self.is_gone() => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err((None, errno)),
        }
        if self.is_gone() {
            return Ok(());
        }
        // Someone has renamed it, and the kernel knows the new name.
        let path = self.path_now();
        let lost = |errno| (path.clone(), errno);
        let name =
            path.as_deref().and_then(Path::file_name).and_then(|name| CString::new(name.as_bytes()).ok());
        let name = name.ok_or(lost(Errno::NOENT))?;
        let parent =
            rustix::fs::openat(&self.directory, "..", DIRECTORY_FLAGS, Mode::empty()).map_err(lost)?;
        match remove_if_same(parent.as_fd(), &name, &self.directory) {
            Ok(true) if self.is_gone() => Ok(()),
            Ok(_) => Err(lost(Errno::EXIST)),
            Err(errno) => Err(lost(errno)),
        }
    }

    /// Returns true if the directory has no name any more. The removed name may have led to another directory
    /// by then.
    fn is_gone(&self) -> bool {
        let is_deleted = |path: PathBuf| path.as_os_str().as_bytes().ends_with(b" (deleted)");
        rustix::fs::fstat(&self.directory).is_ok_and(|stat| stat.st_nlink == 0)
            || self.path_now().is_none_or(is_deleted)
    }

    fn path_now(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).ok()
    }

    /// Returns true if its name still leads to it.
    fn is_unmoved(&self) -> bool {
        refers_to(self.parent.as_fd(), &self.name, &self.directory).unwrap_or(true)
    }
}

/// Returns true if a name leads to this directory.
fn refers_to(parent: BorrowedFd<'_>, name: &CStr, directory: &OwnedFd) -> Result<bool, Errno> {
    let ours = rustix::fs::fstat(directory)?;
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok((found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Removes an empty directory by its name if the name leads to this one. Returns true if it did. Linux
/// removes by name alone: an empty directory that takes its place between the two calls would be lost.
fn remove_if_same(parent: BorrowedFd<'_>, name: &CStr, directory: &OwnedFd) -> Result<bool, Errno> {
    let is = refers_to(parent, name, directory)?;
    if is {
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    }
    Ok(is)
}

/// Removes contents, marker and directory, in this order: the marker must not go before the files that it
/// vouches for.
pub(crate) fn remove_work_directory(
    place: &TargetDirectory,
    path: &Path,
    marker: Option<File>,
    rules: &[NamePattern],
    progress: &AtomicU64,
) -> RemovalOutcome {
    let _ = rustix::fs::unlinkat(&place.directory, UNFINISHED_NAME, AtFlags::empty());
    let removal = removal::remove_contents(place.directory.as_fd(), rules, progress);
    let mut stays = None;
    // Once nothing of ours is left, the marker has nothing to vouch for, whatever others have put there.
    if removal.left.iter().all(|(_, why)| why == removal::NOT_OURS) {
        // A file that is removed while it is open may stay: NFS gives it another name, and some FUSE servers write it back
        // when it is closed.
        drop(marker);
        let _ = rustix::fs::unlinkat(&place.directory, FILE_NAME, AtFlags::empty());
        stays = place.remove().err().filter(|_| removal.left.is_empty());
    }
    let moved = (!place.is_unmoved()).then(|| place.path_now()).flatten();
    let at = moved.as_deref().unwrap_or(path);
    let left = removal.left.into_iter().map(|(name, why)| (at.join(name), why));
    let stays = stays.map(|(now, errno)| {
        (now.unwrap_or_else(|| path.to_owned()), std::io::Error::from(errno).to_string())
    });
    RemovalOutcome { files: removal.removed_files, left: left.chain(stays).collect() }
}

/// Opens spare descriptors, to be closed when others are needed.
fn spare_descriptors(any: &OwnedFd, count: usize) -> Result<Vec<OwnedFd>, Errno> {
    (0..count).map(|_| rustix::io::fcntl_dupfd_cloexec(any, 0)).collect()
}

/// Makes a directory with a unique name. The tempfile crate removes by path, and our removal must go by
/// descriptor.
///
/// # Errors
/// Returns the last name that was tried, and why it cannot be made.
fn make_unique(parent: BorrowedFd<'_>, client: Option<u32>) -> Result<CString, (CString, Errno)> {
    let first = client.map_or(String::new(), marker::letters_of_client);
    loop {
        let rest = std::iter::repeat_with(fastrand::alphanumeric).take(LETTERS - first.len());
        let letters: String = first.chars().chain(rest).collect();
        let Ok(name) = CString::new(format!("{DIRECTORY_PREFIX}{letters}")) else { continue };
        match rustix::fs::mkdirat(parent, &name, Mode::RWXU) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err((name, errno)),
        }
    }
}

/// Opens the directory that was just made, and checks by the descriptor alone that it is that one. If others
/// may rename in the parent, someone may have put another directory in its place.
fn open_new(parent: BorrowedFd<'_>, name: &CStr, before: Timespec) -> Result<OwnedFd, Unusable> {
    let directory = removal::open_directory(parent, name)?;
    let above = status(parent, c"")?;
    let stat = status(directory.as_fd(), c"")?;
    let is_exchangeable = others_rename(&above);
    if let Err(why) = check_opened(parent, &directory, &above, &stat, before, is_exchangeable) {
        // If no one else can rename, the directory is ours in any case: a server may give root's files to
        // another user.
        if !is_exchangeable {
            let _ = remove_if_same(parent, name, &directory);
        }
        return Err(why);
    }
    // A set-group-ID parent passes its bit on, and some file systems have modes of their own.
    if stat.mode & 0o7777 != 0o700 {
        let changed = rustix::fs::fchmod(&directory, Mode::RWXU);
        if !removal::may_have_fixed_mode(directory.as_fd()) {
            changed?;
        }
    }
    Ok(directory)
}

/// Returns true if anyone but this user and root may rename the entries of a directory.
fn others_rename(directory: &FileStatus) -> bool {
    let (mode, owner) = (directory.mode, directory.user_id);
    let has_foreign_owner = owner != 0 && owner != rustix::process::geteuid().as_raw();
    has_foreign_owner || (mode & 0o022 != 0 && mode & 0o1000 == 0)
}

/// Checks that a directory is the one that was just made. Its mode counts only if others can exchange it.
fn check_opened(
    parent: BorrowedFd<'_>,
    directory: &OwnedFd,
    above: &FileStatus,
    stat: &FileStatus,
    before: Timespec,
    is_exchangeable: bool,
) -> Result<(), Unusable> {
    let other = |why: &str| Err(Unusable::Other(why.to_owned()));
    let mode_counts = is_exchangeable && !removal::may_have_fixed_mode(directory.as_fd());
    check_new(stat, mode_counts).map_err(Unusable::Other)?;
    if stat.mount_id.zip(above.mount_id).is_some_and(|(own, above)| own != above) {
        return other("something is mounted on it");
    }
    if !born_since(parent, stat, before) {
        return other("it is older");
    }
    if removal::is_empty(directory)? { Ok(()) } else { other("it is not empty") }
}

fn status(directory: BorrowedFd<'_>, name: &CStr) -> Result<FileStatus, Errno> {
    FileStatus::at(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)
}

/// Checks the result of mkdir: a directory of this user, open to no one else if the mode counts.
fn check_new(stat: &FileStatus, mode_counts: bool) -> Result<(), String> {
    let mode = stat.mode;
    let own = rustix::process::geteuid().as_raw();
    if !stat.kind().is_dir() {
        Err("it is not a directory".into())
    } else if stat.user_id != own {
        Err(format!(
            "it belongs to user {}, not to {own}; some servers change the owner of root's files",
            stat.user_id
        ))
    } else if mode_counts && mode & 0o5077 != 0 {
        Err(format!("its mode is {:04o}, not 0700", mode & 0o7777))
    } else {
        Ok(())
    }
}

/// Returns true if the directory was made at this time or later. Also returns true if the file system keeps
/// no birth times, or uses another machine's clock.
fn born_since(parent: BorrowedFd<'_>, stat: &FileStatus, before: Timespec) -> bool {
    let Some(Timespec { tv_sec: seconds, tv_nsec: born_ns }) = stat.birth else { return true };
    let is_local = stat.device.0 != 0
        || observe::file_system_magic(parent).is_some_and(|magic| LOCAL_MAGICS.contains(&magic));
    let unit_ns = if born_ns == 0 { BIRTH_UNITS_NS.0 } else { BIRTH_UNITS_NS.1 };
    let later_ns =
        (before.tv_sec - seconds).saturating_mul(1_000_000_000).saturating_add(before.tv_nsec - born_ns);
    !is_local || later_ns <= unit_ns
}

/// Removes the directory that was just made and could not be opened, if by name it looks like that one.
/// Returns true if nothing of that name is left.
fn remove_unopened(parent: BorrowedFd<'_>, name: &CStr, before: Timespec) -> bool {
    match status(parent, name) {
        Ok(stat) if check_new(&stat, true).is_ok() && born_since(parent, &stat, before) => {
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok()
        }
        found => found.err() == Some(Errno::NOENT),
    }
}

/// Writes the marker and locks it.
fn mark(
    place: &TargetDirectory,
    rules: &[NamePattern],
    client: Option<&Client>,
    moved: &dyn Fn() -> u64,
) -> Result<File, Errno> {
    let directory = place.directory.as_fd();
    let text = process::marker(rules.to_vec(), client).to_json();
    // The marker has another name until it is whole and locked, so that any marker found can be believed.
    let mut marker = write_marker(directory, UNFINISHED_NAME, &text, moved)?;
    match rustix::fs::renameat(directory, UNFINISHED_NAME, directory, FILE_NAME) {
        // Without renames, the first marker stays beside the second one until that is whole.
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
            let unfinished =
                std::mem::replace(&mut marker, write_marker(directory, FILE_NAME, &text, moved)?);
            // Without renames, a FUSE server may be unable to remove a file that is open.
            drop(unfinished);
            rustix::fs::unlinkat(directory, UNFINISHED_NAME, AtFlags::empty())?;
        }
        renamed => renamed?,
    }
    // File systems that cannot sync directories make them durable with the file.
    moved();
    let _ = rustix::fs::fsync(directory);
    moved();
    let _ = rustix::fs::fsync(&place.parent);
    Ok(marker)
}

/// Makes a marker that is locked, whole and, where the file system can sync, durable.
fn write_marker(
    directory: BorrowedFd<'_>,
    name: &str,
    text: &[u8],
    moved: &dyn Fn() -> u64,
) -> Result<File, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let marker = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    match rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive) {
        // Without locks, host, boot and process in the marker tell if its run lives.
        Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {}
        Err(errno) => return Err(errno),
    }
    moved();
    let mut marker = File::from(marker);
    marker.write_all(text).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    match rustix::fs::fsync(&marker) {
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {}
        synced => synced?,
    }
    moved();
    Ok(marker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::{CleanOutcome, clean};
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn rules() -> Vec<NamePattern> {
        vec![NamePattern::files("data-", 4, 2)]
    }

    #[test]
    fn work_directory_removal_deletes_own_files_only() {
        let temp = tempfile::tempdir().unwrap();
        let work = WorkDirectory::create(temp.path(), rules(), None, &AtomicU64::new(0)).unwrap();
        let path = work.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        fs::write(path.join("data-0000"), "x").unwrap();
        assert_eq!(
            clean(temp.path(), &AtomicU64::new(0)).unwrap(),
            [(path.clone(), CleanOutcome::Live(std::process::id()))]
        );
        assert_eq!(work.remove(|| 0).wait().unwrap().left, []);
        assert!(!path.exists());

        let work = WorkDirectory::create(temp.path(), rules(), None, &AtomicU64::new(0)).unwrap();
        let path = work.path().to_owned();
        fs::write(path.join("data-0000"), "x").unwrap();
        fs::write(path.join("mine"), "precious").unwrap();
        assert_eq!(work.remove(|| 0).wait().unwrap().left[0].0, path.join("mine"));
        assert!(
            path.join("mine").exists() && !path.join(FILE_NAME).exists() && !path.join("data-0000").exists()
        );
    }

    #[test]
    fn marker_is_kept_if_lookalike_names_remain() {
        let temp = tempfile::tempdir().unwrap();
        let inside = vec![NamePattern::files("f", 2, 4)];
        let rules = vec![NamePattern::directories("t", 4, 1, inside)];
        let work = WorkDirectory::create(temp.path(), rules, None, &AtomicU64::new(0)).unwrap();
        let path = work.path().to_owned();
        for (directory, file) in [("t0000", "f03"), ("t0000", "f04"), ("t0001", "f00")] {
            fs::create_dir_all(path.join(directory)).unwrap();
            fs::write(path.join(directory).join(file), "x").unwrap();
        }
        let left = work.remove(|| 0).wait().unwrap().left;
        let names: Vec<_> = left.iter().map(|(name, _)| name.strip_prefix(&path).unwrap()).collect();
        assert!(names.contains(&Path::new("t0000/f04")) && names.contains(&Path::new("t0001")), "{left:?}");
        assert!(path.join(FILE_NAME).exists() && !path.join("t0000/f03").exists());
    }

    #[test]
    fn panic_removes_the_work_directory() {
        let temp = tempfile::tempdir().unwrap();
        let panicked = std::panic::catch_unwind(|| {
            let _work = WorkDirectory::create(temp.path(), rules(), None, &AtomicU64::new(0)).unwrap();
            panic!("as asked");
        });
        assert!(panicked.is_err());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn renamed_work_directory_is_still_removed() {
        let temp = tempfile::tempdir().unwrap();
        let work = WorkDirectory::create(temp.path(), rules(), None, &AtomicU64::new(0)).unwrap();
        let path = work.path().to_owned();
        fs::write(path.join("data-0000"), "x").unwrap();
        let elsewhere = temp.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        // A directory that has taken its name is not ours.
        fs::create_dir(&path).unwrap();
        assert_eq!(work.remove(|| 0).wait().unwrap().left, []);
        assert!(path.exists() && !elsewhere.exists());
        fs::remove_dir(&path).unwrap();

        // Remaining files are reported by their present path.
        let work = WorkDirectory::create(temp.path(), rules(), None, &AtomicU64::new(0)).unwrap();
        fs::write(work.path().join("mine"), "precious").unwrap();
        fs::rename(work.path(), &elsewhere).unwrap();
        assert_eq!(
            work.remove(|| 0).wait().unwrap().left[0].0,
            fs::canonicalize(elsewhere).unwrap().join("mine")
        );
    }

    #[test]
    fn only_newly_created_empty_directory_is_accepted() {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let temp = tempfile::tempdir().unwrap();
        let parent = rustix::fs::open(temp.path(), DIRECTORY_FLAGS, Mode::empty()).unwrap();
        let made = |mode: u32, before: Timespec, fill: &dyn Fn(&Path)| {
            let path = temp.path().join("skye.abc123");
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            fill(&path);
            let opened = open_new(parent.as_fd(), c"skye.abc123", before);
            let mode_after = fs::symlink_metadata(&path).unwrap().mode() & 0o7777;
            if opened.is_err() {
                assert_eq!(mode_after, mode, "what is not ours is not changed");
            }
            fs::remove_dir_all(&path).unwrap();
            match opened {
                Ok(_) => format!("{mode_after:o}"),
                Err(Unusable::Other(why)) => why,
                Err(Unusable::Failed(errno)) => panic!("{errno}"),
            }
        };
        let later = Timespec { tv_sec: now.tv_sec + 60, ..now };
        let open_to = |mode| {
            fs::set_permissions(temp.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        open_to(0o755);
        assert_eq!(made(0o755, now, &|_| {}), "700", "some file systems have modes of their own");
        // From here on, others could exchange the directory.
        open_to(0o777);
        assert_eq!(made(0o700, now, &|_| {}), "700");
        assert_eq!(made(0o2700, now, &|_| {}), "700", "a set-group-id parent hands its bit on");
        assert_eq!(made(0o755, now, &|_| {}), "its mode is 0755, not 0700");
        assert_eq!(made(0o700, now, &|path| fs::write(path.join("file"), "x").unwrap()), "it is not empty");
        // The file system of the test may not keep birth times.
        if status(parent.as_fd(), c"").unwrap().birth.is_some() {
            assert_eq!(made(0o700, later, &|_| {}), "it is older");
        }
        std::os::unix::fs::symlink("/", temp.path().join("skye.link00")).unwrap();
        assert!(matches!(open_new(parent.as_fd(), c"skye.link00", now), Err(Unusable::Other(_))));
    }
}
