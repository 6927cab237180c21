//! The only place that skye writes in: a directory of its own, with a marker that outlives a kill.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::Trouble;
use model::marker::{DIRECTORY_PREFIX, FILE_NAME, Marker, NameRule};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::patience;
use crate::process;
use crate::removal::{self, DIRECTORY_FLAGS, Removal};

/// Name of the marker while it is being written.
const UNFINISHED_NAME: &str = "skye-marker.new";
/// An empty work directory without a lock is taken for dead when it is older than this: the time between making it
/// and locking its marker is microseconds.
const UNMARKED_DEAD_AFTER: Duration = Duration::from_secs(10);

/// A work directory of this process: `skye.XXXXXX`, mode 0700, locked while the run lives.
///
/// Everything in it is opened relative to its descriptor, so that nobody who renames it can lead us elsewhere.
#[derive(Debug)]
pub struct WorkDirectory {
    parent: OwnedFd,
    name: CString,
    path: PathBuf,
    directory: OwnedFd,
    /// Holds the lock; closed, and so unlocked, when the process ends in whatever way.
    marker: Option<File>,
    rules: Vec<NameRule>,
    removed: bool,
}

impl WorkDirectory {
    /// Makes a work directory in `target`, whose files will have names that `rules` produce.
    ///
    /// # Errors
    /// What was attempted, on which path, and why it failed; nothing is left behind then.
    pub fn create(target: &Path, rules: Vec<NameRule>) -> Result<Self, Trouble> {
        let attempt = || format!("make a work directory in {}", target.display());
        let fail = |errno: Errno| {
            let trouble = Trouble::new(attempt(), std::io::Error::from(errno));
            match errno {
                Errno::ROFS | Errno::ACCESS | Errno::PERM => {
                    trouble.remedy("choose a directory that you can write to")
                }
                Errno::NOSPC | Errno::DQUOT => trouble.remedy("make room there first"),
                _ => trouble,
            }
        };
        let parent =
            rustix::fs::open(target, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let parent = parent.map_err(fail)?;
        let name = make_unique(parent.as_fd()).map_err(fail)?;
        // From here on the directory exists: whatever fails must take it away again.
        let made = open_and_mark(parent.as_fd(), &name, &rules);
        let (directory, marker) = made.map_err(|errno| {
            let _ = rustix::fs::openat(&parent, &name, DIRECTORY_FLAGS, Mode::empty()).map(|directory| {
                let _ = rustix::fs::unlinkat(&directory, UNFINISHED_NAME, AtFlags::empty());
                rustix::fs::unlinkat(&directory, FILE_NAME, AtFlags::empty())
            });
            let _ = rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR);
            fail(errno)
        })?;
        let path = target.join(name.to_string_lossy().as_ref());
        log::debug!("made {}", path.display());
        Ok(Self { parent, name, path, directory, marker: Some(marker), rules, removed: false })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What files are opened relative to.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Removes what the rules with this prefix produce, or all of it for an empty one, but keeps the directory.
    ///
    /// # Errors
    /// Something could not be removed, or the removal hangs.
    pub fn empty_of(&self, prefix: &str) -> Result<(), Trouble> {
        let attempt = format!("empty {}", self.path.display());
        let rules: Vec<_> =
            self.rules.iter().filter(|rule| rule.prefix.starts_with(prefix)).cloned().collect();
        let directory = self.directory.try_clone().map_err(|error| Trouble::new(&attempt, error))?;
        let progress = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&progress);
        let work = move || removal::remove_contents(directory.as_fd(), &rules, &seen);
        let removal = patience::wait_while_it_moves(&attempt, || progress.load(Ordering::Relaxed), work)?;
        // What no rule produces is somebody else's and in nobody's way.
        let stuck = removal.left.into_iter().find(|(_, why)| why != removal::NOT_OURS);
        stuck.map_or(Ok(()), |(name, why)| Err(Trouble::new(attempt, format!("{name}: {why}"))))
    }

    /// Removes it with all that the rules produce. What is left, and why, is in the answer.
    ///
    /// # Errors
    /// A removal that hangs: the path that is left.
    pub fn remove(mut self) -> Result<Removal, Trouble> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<Removal, Trouble> {
        let attempt = format!("remove {}", self.path.display());
        let marker = self.marker.take();
        let clones = (self.parent.try_clone(), self.directory.try_clone());
        let removed = if let (Ok(parent), Ok(directory)) = clones {
            let (name, rules) = (self.name.clone(), self.rules.clone());
            let progress = Arc::new(AtomicU64::new(0));
            let seen = Arc::clone(&progress);
            // In a thread of its own: a removal that never ends must not keep us from saying so.
            let work = move || {
                remove_work_directory(parent.as_fd(), &name, directory.as_fd(), marker, &rules, &seen)
            };
            patience::wait_while_it_moves(&attempt, || progress.load(Ordering::Relaxed), work)
        } else {
            let (parent, directory) = (self.parent.as_fd(), self.directory.as_fd());
            Ok(remove_work_directory(parent, &self.name, directory, marker, &self.rules, &AtomicU64::new(0)))
        };
        self.removed = true;
        removed
    }
}

impl Drop for WorkDirectory {
    /// The way out of a panic.
    fn drop(&mut self) {
        if !self.removed {
            let _ = self.remove_now();
        }
    }
}

/// Removes contents, marker and directory, in this order: a marker must not go before what it vouches for.
fn remove_work_directory(
    parent: BorrowedFd<'_>,
    name: &CString,
    directory: BorrowedFd<'_>,
    marker: Option<File>,
    rules: &[NameRule],
    progress: &AtomicU64,
) -> Removal {
    let mut removal = removal::remove_contents(directory, rules, progress);
    // Once nothing of ours is left, the marker has nothing to vouch for, whatever others have put there.
    if removal.left.iter().all(|(_, why)| why == removal::NOT_OURS) {
        let _ = rustix::fs::unlinkat(directory, FILE_NAME, AtFlags::empty());
        // NFS keeps a removed file under another name as long as it is open, and its directory with it.
        drop(marker);
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(_) if !removal.left.is_empty() => {}
            Err(errno) => {
                removal
                    .left
                    .push((name.to_string_lossy().into_owned(), std::io::Error::from(errno).to_string()));
            }
        }
    }
    removal
}

/// Not through the tempfile crate: its removal goes by path, and ours must go by descriptor.
fn make_unique(parent: BorrowedFd<'_>) -> Result<CString, Errno> {
    loop {
        let letters: String = std::iter::repeat_with(fastrand::alphanumeric).take(6).collect();
        let name = CString::new(format!("{DIRECTORY_PREFIX}{letters}")).map_err(|_| Errno::INVAL)?;
        match rustix::fs::mkdirat(parent, &name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => return made.map(|()| name),
        }
    }
}

fn open_and_mark(
    parent: BorrowedFd<'_>,
    name: &CString,
    rules: &[NameRule],
) -> Result<(OwnedFd, File), Errno> {
    let directory = removal::open_directory(parent, name)?;
    // In a directory that others may write to, somebody may have put another one in its place: ours is empty.
    let stat = rustix::fs::fstat(&directory)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() || !removal::is_empty(&directory)? {
        return Err(Errno::PERM);
    }
    // A set-group-id parent, or a strange umask, must not leave it open to others.
    rustix::fs::fchmod(&directory, Mode::RWXU)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Under another name until it is whole and locked: a marker that can be found can be believed.
    let marker = rustix::fs::openat(&directory, UNFINISHED_NAME, flags, Mode::RUSR | Mode::WUSR)?;
    match rustix::fs::flock(&marker, FlockOperation::NonBlockingLockExclusive) {
        // Without locks, host, boot and process in the marker tell whether it lives.
        Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {}
        Err(errno) => return Err(errno),
    }
    let mut marker = File::from(marker);
    let text = serde_json::to_vec(&process::marker(rules.to_vec())).map_err(|_| Errno::INVAL)?;
    let written = marker.write_all(&text).and_then(|()| marker.sync_all());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    rustix::fs::renameat(&directory, UNFINISHED_NAME, &directory, FILE_NAME)?;
    // File systems that cannot sync directories make them durable with the file.
    let _ = rustix::fs::fsync(&directory);
    let _ = rustix::fs::fsync(parent);
    Ok((directory, marker))
}

/// What `skye clean` did with one directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// It is gone, with so many files.
    Removed(u64),
    /// It was left, or some of it was: why.
    Left(String),
    /// A live run is using it.
    Live(u32),
}

/// Removes what killed runs left in `target`. Touches only directories that the caller owns, with mode 0700 and a
/// dead marker of this host, and in them only names that the marker's rules produce.
///
/// # Errors
/// The directory cannot be read.
pub fn clean(target: &Path) -> Result<Vec<(PathBuf, Cleaned)>, Trouble> {
    let fail = |errno: Errno| {
        Trouble::new(format!("look for leftovers in {}", target.display()), std::io::Error::from(errno))
            .remedy("name the directory that was tested")
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(target, flags, Mode::empty()).map_err(fail)?;
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(&parent).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(DIRECTORY_PREFIX.as_bytes()) {
            found.push(name.to_owned());
        }
    }
    found.sort();
    let clean = |name: CString| {
        let path = target.join(name.to_string_lossy().as_ref());
        clean_one(parent.as_fd(), &name).map(|cleaned| (path, cleaned))
    };
    Ok(found.into_iter().filter_map(clean).collect())
}

/// `None` for what is not a directory, and so never was ours.
fn clean_one(parent: BorrowedFd<'_>, name: &CString) -> Option<Cleaned> {
    let left = |why: &str| Some(Cleaned::Left(why.to_owned()));
    let directory = match removal::open_directory(parent, name) {
        Ok(directory) => File::from(directory),
        Err(Errno::XDEV) => return left("it is a mount point"),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return None,
        Err(errno) => return left(&std::io::Error::from(errno).to_string()),
    };
    let Ok(metadata) = directory.metadata() else { return left("it cannot be examined") };
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return left("it belongs to another user");
    }
    if metadata.mode() & 0o7777 != 0o700 {
        return left("its mode is not 0700, so skye did not make it");
    }
    let marker = match read_marker(&directory) {
        Ok(marker) => marker,
        Err(MarkerProblem::None) => return clean_unmarked(parent, name, &directory, &metadata),
        Err(MarkerProblem::Live(pid)) => return Some(Cleaned::Live(pid)),
        Err(MarkerProblem::Bad(why)) => return left(&why),
    };
    let (marker, file) = marker;
    let removal =
        remove_work_directory(parent, name, directory.as_fd(), Some(file), &marker.rules, &AtomicU64::new(0));
    if removal.left.is_empty() {
        return Some(Cleaned::Removed(removal.removed));
    }
    let names: Vec<_> = removal.left.iter().map(|(path, why)| format!("{path} ({why})")).collect();
    left(&format!("{} of its files removed, left: {}", removal.removed, names.join(", ")))
}

/// Killed between making the directory and finishing its marker.
fn clean_unmarked(
    parent: BorrowedFd<'_>,
    name: &CString,
    directory: &File,
    metadata: &std::fs::Metadata,
) -> Option<Cleaned> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, UNFINISHED_NAME, flags, Mode::empty()) {
        Ok(unfinished)
            if rustix::fs::flock(&unfinished, FlockOperation::NonBlockingLockExclusive).is_err() =>
        {
            return Some(Cleaned::Live(0));
        }
        Ok(_) => {
            let _ = rustix::fs::unlinkat(directory, UNFINISHED_NAME, AtFlags::empty());
        }
        Err(_) => {
            let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
            if age.is_none_or(|age| age < UNMARKED_DEAD_AFTER) {
                return Some(Cleaned::Left(
                    "it has no marker yet; a run may just be starting, try again in 10 s".into(),
                ));
            }
        }
    }
    Some(match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => Cleaned::Removed(0),
        Err(_) => Cleaned::Left("it has no marker and is not empty, so skye did not make it".into()),
    })
}

enum MarkerProblem {
    /// There is none, or it was never finished.
    None,
    /// Its process is running.
    Live(u32),
    /// It is not one that skye wrote here.
    Bad(String),
}

/// The marker, and the lock on it that keeps a second cleaner away.
fn read_marker(directory: &File) -> Result<(Marker, File), MarkerProblem> {
    // For writing, too: over NFS an exclusive lock needs it.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, FILE_NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Err(MarkerProblem::None),
        Err(errno) => {
            return Err(MarkerProblem::Bad(format!(
                "its marker cannot be read: {}",
                std::io::Error::from(errno)
            )));
        }
    };
    let bad = |why: &str| MarkerProblem::Bad(why.to_owned());
    let metadata = file.metadata().map_err(|_| bad("its marker cannot be examined"))?;
    if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(bad("its marker is not a file of yours"));
    }
    // Where locks do not work, the process decides.
    let is_locked =
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    let text = std::io::read_to_string(&file).map_err(|_| bad("its marker is not text"))?;
    let marker: Marker = serde_json::from_str(&text).map_err(|_| bad("its marker is not whole"))?;
    if !marker.is_sound() {
        return Err(bad("its marker is not one that skye writes"));
    }
    if is_locked {
        return Err(MarkerProblem::Live(marker.pid));
    }
    if process::may_live(&marker) {
        // Locks may not work here, or the host's name changed: the process decides.
        let other_host = marker.host != process::marker(vec![]).host;
        return Err(if other_host {
            MarkerProblem::Bad(format!("it was made on host {}; clean it there", marker.host))
        } else {
            MarkerProblem::Live(marker.pid)
        });
    }
    Ok((marker, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn rules() -> Vec<NameRule> {
        vec![NameRule::files("data-", 4, 2)]
    }

    /// A work directory as a killed run leaves it.
    fn leftover(target: &Path, change: impl FnOnce(&mut Marker)) -> PathBuf {
        let path = target.join("skye.abc123");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let mut marker = process::marker(rules());
        marker.start_ticks += 1;
        change(&mut marker);
        fs::write(path.join(FILE_NAME), serde_json::to_vec(&marker).unwrap()).unwrap();
        fs::write(path.join("data-0001"), "x").unwrap();
        path
    }

    #[test]
    fn a_work_directory_goes_with_its_files_and_keeps_others() {
        let temp = tempfile::tempdir().unwrap();
        let work = WorkDirectory::create(temp.path(), rules()).unwrap();
        let path = work.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
        fs::write(path.join("data-0000"), "x").unwrap();
        assert_eq!(clean(temp.path()).unwrap(), [(path.clone(), Cleaned::Live(std::process::id()))]);
        assert_eq!(work.remove().unwrap().left, []);
        assert!(!path.exists());

        let work = WorkDirectory::create(temp.path(), rules()).unwrap();
        let path = work.path().to_owned();
        fs::write(path.join("data-0000"), "x").unwrap();
        fs::write(path.join("mine"), "precious").unwrap();
        assert_eq!(work.remove().unwrap().left[0].0, "mine");
        assert!(
            path.join("mine").exists() && !path.join(FILE_NAME).exists() && !path.join("data-0000").exists()
        );
    }

    #[test]
    fn a_panic_removes_it_too() {
        let temp = tempfile::tempdir().unwrap();
        let panicked = std::panic::catch_unwind(|| {
            let _work = WorkDirectory::create(temp.path(), rules()).unwrap();
            panic!("as asked");
        });
        assert!(panicked.is_err());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn clean_removes_what_the_dead_left() {
        let temp = tempfile::tempdir().unwrap();
        let path = leftover(temp.path(), |_| {});
        assert_eq!(clean(temp.path()).unwrap(), [(path.clone(), Cleaned::Removed(1))]);
        assert!(!path.exists());
        let path = leftover(temp.path(), |_| {});
        fs::write(path.join("mine"), "precious").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", path.join("data-0000")).unwrap();
        let cleaned = clean(temp.path()).unwrap();
        assert!(
            matches!(&cleaned[0].1, Cleaned::Left(why) if why.contains("mine (not made by skye)")),
            "{cleaned:?}"
        );
        assert!(path.join("mine").exists() && !path.join("data-0001").exists());
        assert!(Path::new("/etc/hostname").exists());
    }

    #[test]
    fn clean_leaves_what_is_not_surely_ours() {
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
        };
        for (case, why) in [
            ("host", "made on host"),
            ("mode", "mode is not 0700"),
            ("marker", "not whole"),
            ("young", "no marker yet"),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let path = leftover(temp.path(), |marker| {
                if case == "host" {
                    marker.host = "elsewhere".into();
                }
            });
            match case {
                "mode" => mode(&path, 0o750),
                "marker" => fs::write(path.join(FILE_NAME), "{\"host\":").unwrap(),
                "young" => fs::remove_file(path.join(FILE_NAME)).unwrap(),
                _ => {}
            }
            let cleaned = clean(temp.path()).unwrap();
            assert!(
                matches!(&cleaned[0].1, Cleaned::Left(text) if text.contains(why)),
                "{case}: {cleaned:?}"
            );
            assert!(path.join("data-0001").exists(), "{case}");
        }
    }

    #[test]
    fn links_and_files_that_look_like_ours_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let path = leftover(elsewhere.path(), |_| {});
        std::os::unix::fs::symlink(&path, temp.path().join("skye.link00")).unwrap();
        fs::write(temp.path().join("skye.file00"), "x").unwrap();
        assert_eq!(clean(temp.path()).unwrap(), []);
        assert!(path.join("data-0001").exists());
    }
}
