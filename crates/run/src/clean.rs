//! `skye clean`: removes the leftovers of killed runs.
//!
//! The marker of a directory decides. It is whole, sound, of this host and without a lock, and its process is dead. A
//! directory without a marker goes if it is empty and older than ten seconds. If its marker is unfinished and has no
//! lock, it goes at once. In both cases a run was killed before it finished the marker.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use model::UserError;
use model::json::FromJson;
use model::marker::{FILE_NAME, Marker, is_sent_program, is_work_directory};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::{TargetDirectory, UNFINISHED_NAME, remove_work_directory};
use crate::process;
use crate::removal;

/// Age at which an empty work directory without a lock counts as dead. Only microseconds pass between making
/// it and locking its marker.
const UNMARKED_DEAD_AFTER: Duration = Duration::from_secs(10);
/// Longest marker that is read. A marker with a rule for each of 1,000 data sets has 100 kB.
const MARKER_BYTES_MAX: u64 = 1 << 20;

/// Result of `skye clean` for one directory.
#[derive(Debug, PartialEq, Eq)]
pub enum CleanOutcome {
    /// The directory is gone, with this number of files.
    Removed(u64),
    /// The directory or a part of it was left, for this reason.
    Leftover(String),
    /// The live run with this process number uses it.
    Live(u32),
}

/// Removes the leftovers of killed runs in `target`. It touches only directories that the caller owns, with a
/// name that skye makes, mode 0700 and a dead marker of this host. In them it touches only names that the
/// marker's rules produce. Every removal raises `progress`.
///
/// # Errors
/// Fails if the directory cannot be read.
pub fn clean(target: &Path, progress: &AtomicU64) -> Result<Vec<(PathBuf, CleanOutcome)>, UserError> {
    let fail = |errno: Errno| {
        UserError::new(format!("find leftovers in {}", target.display()), std::io::Error::from(errno))
            .help("use the directory that was tested")
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(target, flags, Mode::empty()).map_err(fail)?;
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(&parent).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if is_work_directory(name.to_bytes()) {
            found.push(name.to_owned());
        }
    }
    found.sort();
    let clean = |name: CString| {
        let path = target.join(name.to_string_lossy().as_ref());
        clean_one(parent.as_fd(), &name, &path, progress).map(|cleaned| (path, cleaned))
    };
    Ok(found.into_iter().filter_map(clean).collect())
}

/// Removes the empty files that killed uploads of this program have left in a directory. It touches only files of the
/// caller that no other user can open, with a name that skye makes, and older than ten seconds. A directory that cannot be
/// read has none.
pub fn clean_uploads(place: &Path) -> Vec<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(parent) = rustix::fs::open(place, flags, Mode::empty()) else { return Vec::new() };
    let Ok(entries) = rustix::fs::Dir::read_from(&parent) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_owned());
    let mut names: Vec<_> = names.filter(|name| is_sent_program(name.to_bytes())).collect();
    names.sort();
    let removes = |name: &CString| {
        let is_left = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
                && stat.st_uid == rustix::process::geteuid().as_raw()
                && (stat.st_mode & 0o077, stat.st_size, stat.st_nlink) == (0, 0, 1)
                && is_dead(stat.st_mtime)
        });
        is_left && rustix::fs::unlinkat(&parent, name, AtFlags::empty()).is_ok()
    };
    let removed = names.into_iter().filter(removes);
    removed.map(|name| place.join(name.to_string_lossy().as_ref())).collect()
}

/// Returns true if a process that has made something at this second has had the time to go on.
fn is_dead(modified_seconds: i64) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    now - modified_seconds > UNMARKED_DEAD_AFTER.as_secs() as i64
}

/// Cleans one directory; `None` for anything but a directory, which skye did not create.
fn clean_one(parent: BorrowedFd<'_>, name: &CStr, path: &Path, progress: &AtomicU64) -> Option<CleanOutcome> {
    let left = |why: &str| Some(CleanOutcome::Leftover(why.to_owned()));
    let directory = match removal::open_directory(parent, name) {
        Ok(directory) => directory,
        Err(Errno::XDEV) => return left("it is a mount point"),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return None,
        Err(errno) => return left(&std::io::Error::from(errno).to_string()),
    };
    let Ok(stat) = rustix::fs::fstat(&directory) else { return left("it cannot be inspected") };
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return left("it belongs to another user");
    }
    // A set-group-ID parent passes its bit on, and a killed run may not have cleared it yet.
    if stat.st_mode & 0o5777 != 0o700 && !removal::may_have_fixed_mode(directory.as_fd()) {
        return left("its mode is not 0700, so skye did not make it");
    }
    let Ok(parent) = parent.try_clone_to_owned() else { return left("too many files are open") };
    let place = TargetDirectory { parent, name: name.to_owned(), directory };
    let (marker, file) = match read_marker(&place.directory) {
        Ok(found) => found,
        Err(MarkerProblem::None) => return Some(clean_unmarked(&place)),
        Err(MarkerProblem::Live(pid)) => return Some(CleanOutcome::Live(pid)),
        Err(MarkerProblem::Bad(why)) => return left(&why),
    };
    let removed = remove_work_directory(&place, path, Some(file), &marker.rules, progress);
    if removed.left.is_empty() {
        return Some(CleanOutcome::Removed(removed.files));
    }
    let to_display = |left: &Path| left.strip_prefix(path).unwrap_or(left).display().to_string();
    let names: Vec<_> =
        removed.left.iter().map(|(left, why)| format!("{} ({why})", to_display(left))).collect();
    left(&format!("{} of its files removed; not removed: {}", removed.files, names.join(", ")))
}

/// Removes a directory whose run was killed after making it and before finishing its marker.
fn clean_unmarked(place: &TargetDirectory) -> CleanOutcome {
    const NOT_OURS: &str = "it has no marker and is not empty, so skye did not make it";
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(&place.directory, UNFINISHED_NAME, flags, Mode::empty()) {
        Ok(unfinished) => {
            if !is_own_file(&unfinished) {
                return CleanOutcome::Leftover(NOT_OURS.into());
            }
            if rustix::fs::flock(&unfinished, FlockOperation::NonBlockingLockExclusive).is_err() {
                return CleanOutcome::Live(0);
            }
            if !has_nothing_else(&place.directory) {
                return CleanOutcome::Leftover(NOT_OURS.into());
            }
            for name in [FILE_NAME, UNFINISHED_NAME] {
                let _ = rustix::fs::unlinkat(&place.directory, name, AtFlags::empty());
            }
        }
        Err(_) => {
            if !rustix::fs::fstat(&place.directory).is_ok_and(|stat| is_dead(stat.st_mtime)) {
                return CleanOutcome::Leftover(
                    "it has no marker yet; a run may be starting, try again in 10 s".into(),
                );
            }
        }
    }
    place.remove().map_or_else(|_| CleanOutcome::Leftover(NOT_OURS.into()), |()| CleanOutcome::Removed(0))
}

/// Returns true if a directory contains at most markers that are not finished.
fn has_nothing_else(directory: &OwnedFd) -> bool {
    let Ok(entries) = rustix::fs::Dir::read_from(directory) else { return false };
    let is_marker = |name: &[u8]| [FILE_NAME, UNFINISHED_NAME].iter().any(|marker| marker.as_bytes() == name);
    let is_known = |name: &[u8]| matches!(name, b"." | b"..") || is_marker(name);
    entries.into_iter().all(|entry| entry.is_ok_and(|entry| is_known(entry.file_name().to_bytes())))
}

/// Returns true for a regular file of this user.
pub(crate) fn is_own_file(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
            && stat.st_uid == rustix::process::geteuid().as_raw()
    })
}

enum MarkerProblem {
    /// There is no marker, or it was never finished.
    None,
    /// The process of the marker is running.
    Live(u32),
    /// The marker is not one that skye wrote here, for this reason.
    Bad(String),
}

/// Reads the marker and takes its lock, which keeps a second cleaner away.
fn read_marker(directory: &OwnedFd) -> Result<(Marker, File), MarkerProblem> {
    // The file is opened for writing too: over NFS an exclusive lock needs it.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, FILE_NAME, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err(MarkerProblem::None),
        Err(errno) => {
            return Err(MarkerProblem::Bad(format!(
                "its marker cannot be read: {}",
                std::io::Error::from(errno)
            )));
        }
    };
    let bad = |why: &str| MarkerProblem::Bad(why.to_owned());
    if !is_own_file(&file) {
        return Err(bad("its marker is not a regular file of this user"));
    }
    let file = File::from(file);
    // Where locks do not work, the state of the process decides.
    let is_locked =
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    // The unfinished marker stays beside one that is written under its own name.
    let is_unfinished = || rustix::fs::statat(directory, UNFINISHED_NAME, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let problem = |why| match is_unfinished() {
        true if is_locked => MarkerProblem::Live(0),
        true => MarkerProblem::None,
        false => MarkerProblem::Bad(why),
    };
    // A server may open a file for reading and writing, and then refuse to read it.
    let read_only =
        || rustix::fs::openat(directory, FILE_NAME, flags.difference(OFlags::RWMODE), Mode::empty());
    let marker = parse_marker(&file).or_else(|why| parse_marker(&read_only().map_err(|_| why)?.into()));
    let marker = marker.map_err(problem)?;
    if is_locked {
        return Err(MarkerProblem::Live(marker.pid));
    }
    if process::may_live(&marker) {
        // Locks may not work here, or the host's name changed: the state of the process decides.
        return Err(if process::is_from_other_host(&marker) {
            MarkerProblem::Bad(format!("it was created on host {}; clean it there", marker.host))
        } else {
            MarkerProblem::Live(marker.pid)
        });
    }
    Ok((marker, file))
}

/// Returns the marker in a file, or the reason why it is none.
pub(crate) fn parse_marker(mut file: &File) -> Result<Marker, String> {
    let mut text = String::new();
    let read = file.by_ref().take(MARKER_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|_| "its marker is not text")?;
    let marker = Marker::from_json(&text).map_err(|_| "its marker is incomplete")?;
    if !marker.is_sound() {
        return Err("skye did not write its marker".into());
    }
    Ok(marker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::json::ToJson;
    use model::marker::NamePattern;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn rules() -> Vec<NamePattern> {
        vec![NamePattern::files("data-", 4, 2)]
    }

    fn clean(target: &Path) -> Result<Vec<(PathBuf, CleanOutcome)>, UserError> {
        super::clean(target, &AtomicU64::new(0))
    }

    /// Makes a work directory as a killed run leaves it.
    fn leftover(target: &Path, change: impl FnOnce(&mut Marker)) -> PathBuf {
        let path = target.join("skye.abc123");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let mut marker = process::marker(rules(), None);
        marker.start_ticks += 1;
        change(&mut marker);
        fs::write(path.join(FILE_NAME), marker.to_json()).unwrap();
        fs::write(path.join("data-0001"), "x").unwrap();
        path
    }

    #[test]
    fn empty_files_of_killed_uploads_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str, mode, age_seconds| {
            let path = temp.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let then = std::time::SystemTime::now() - Duration::from_secs(age_seconds);
            File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
            path
        };
        let left = make("skye-sent.abc123", "", 0o700, 60);
        let kept = [
            make("skye-sent.abc124", "x", 0o700, 60),
            make("skye-sent.abc125", "", 0o700, 0),
            make("skye-sent.abc126", "", 0o644, 60),
            make("skye-sent.abc1267", "", 0o700, 60),
            make("other", "", 0o700, 60),
        ];
        let link = temp.path().join("skye-sent.abc127");
        std::os::unix::fs::symlink("other", &link).unwrap();
        assert_eq!(clean_uploads(temp.path()), [left.as_path()]);
        assert!(!left.exists() && kept.iter().all(|path| path.exists()) && link.is_symlink());
        assert!(clean_uploads(&temp.path().join("missing")).is_empty());
    }

    #[test]
    fn clean_removes_leftovers_of_dead_runs() {
        let temp = tempfile::tempdir().unwrap();
        let path = leftover(temp.path(), |_| {});
        assert_eq!(clean(temp.path()).unwrap(), [(path.clone(), CleanOutcome::Removed(1))]);
        assert!(!path.exists());
        let path = leftover(temp.path(), |_| {});
        fs::write(path.join("mine"), "precious").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", path.join("data-0000")).unwrap();
        let cleaned = clean(temp.path()).unwrap();
        assert!(
            matches!(&cleaned[0].1, CleanOutcome::Leftover(why) if why.contains("mine (not made by skye)")),
            "{cleaned:?}"
        );
        assert!(path.join("mine").exists() && !path.join("data-0001").exists());
        assert!(Path::new("/etc/hostname").exists());
    }

    #[test]
    fn clean_keeps_directories_of_uncertain_ownership() {
        let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        for (case, why) in [
            ("host", "created on host"),
            ("mode", "mode is not 0700"),
            ("marker", "incomplete"),
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
                matches!(&cleaned[0].1, CleanOutcome::Leftover(text) if text.contains(why)),
                "{case}: {cleaned:?}"
            );
            assert!(path.join("data-0001").exists(), "{case}");
        }
    }

    #[test]
    fn clean_ignores_symlinks_and_files_with_work_directory_names() {
        let temp = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let path = leftover(elsewhere.path(), |_| {});
        std::os::unix::fs::symlink(&path, temp.path().join("skye.link00")).unwrap();
        fs::write(temp.path().join("skye.file00"), "x").unwrap();
        assert_eq!(clean(temp.path()).unwrap(), []);
        assert!(path.join("data-0001").exists());
    }

    /// Makes an old, empty directory of mode 0700.
    fn empty(path: &Path) {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(60);
        File::open(path).unwrap().set_modified(old).unwrap();
    }

    #[test]
    fn clean_ignores_names_outside_its_pattern() {
        let temp = tempfile::tempdir().unwrap();
        let long = format!("skye.{}", "a".repeat(240));
        for name in ["skye.", "skye.abc12", "skye.abc1234", "skye.abc-12", "skye.conf.d", &long] {
            empty(&temp.path().join(name));
            assert_eq!(clean(temp.path()).unwrap(), [], "{name}");
            assert!(temp.path().join(name).exists(), "{name}");
        }
        empty(&temp.path().join("skye.abc123"));
        assert_eq!(
            clean(temp.path()).unwrap(),
            [(temp.path().join("skye.abc123"), CleanOutcome::Removed(0))]
        );
    }

    #[test]
    fn directory_with_invalid_marker_is_kept() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("skye.abc123");
        empty(&path);
        let fifo = path.join(UNFINISHED_NAME);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(matches!(&clean(temp.path()).unwrap()[..], [(_, CleanOutcome::Leftover(_))]));
        assert!(fifo.exists());
        // One file looks like ours, the other does not.
        fs::remove_file(&fifo).unwrap();
        fs::write(&fifo, "diary").unwrap();
        fs::write(path.join("other"), "").unwrap();
        assert!(matches!(&clean(temp.path()).unwrap()[..], [(_, CleanOutcome::Leftover(_))]));
        assert_eq!(fs::read_to_string(&fifo).unwrap(), "diary");
        fs::remove_file(path.join("other")).unwrap();
        // An endless marker is not read to its end.
        fs::remove_file(&fifo).unwrap();
        File::create(path.join(FILE_NAME)).unwrap().set_len(1 << 40).unwrap();
        let cleaned = clean(temp.path()).unwrap();
        assert!(
            matches!(&cleaned[..], [(_, CleanOutcome::Leftover(why))] if why.contains("incomplete")),
            "{cleaned:?}"
        );
    }
}
