//! Loops over whole trees of directories: every entry is visited, or removed.
//!
//! Each level has its own buffer. Its directory stays open while a loop works below it, as in `find` and `rm -r`. Names
//! outside the set are ignored.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::workload::verbs::{VerbStep, remove, walk};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::directories::{BUFFER_BYTES, failed};
use super::{FileLocation, READ_FLAGS, Round, RoundLimits, Walk, close};
use crate::clock::Timer;
use crate::failure::{Cause, Failure};
use crate::names::{Kind, NameFormat, Names, is_directory};
use crate::recorder::Recorder;

fn fail(step: VerbStep, done: u64, errno: Errno) -> Failure {
    failed(step.name, done, errno.into())
}

/// Room for the entries that one call returns, for one level.
type Buffer = Box<[MaybeUninit<u8>]>;

/// Returns a buffer for each level of a tree, its root included.
fn buffers(names: &Names) -> Box<[Buffer]> {
    (0..=names.tree.levels_below()).map(|_| Box::new_uninit_slice(BUFFER_BYTES)).collect()
}

fn open(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, READ_FLAGS.union(OFlags::DIRECTORY), Mode::empty())
}

/// Visits every entry below a directory, and enters the directories that it finds.
#[derive(Debug)]
pub struct WalkTree {
    names: Names,
    buffers: Box<[Buffer]>,
}

impl WalkTree {
    /// A walk through the tree of a set.
    pub fn new(names: Names) -> Self {
        Self { names, buffers: buffers(&names) }
    }

    /// Walks through the tree once. One operation is one entry.
    ///
    /// The latency of an operation includes the `getdents64` that returned its name, if the walk needed one. It also
    /// includes opening its directory, if the name is its first, and closing the directories left before it. At least
    /// `files` files must have been listed, and all directories; where directories are shared, more may be.
    pub fn round(
        &mut self,
        place: &FileLocation<'_>,
        files: u64,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        let mut walk = Walk::start(clock, recorder, limits);
        let read = descend(place.directory, c".", self.names.spelling, &mut self.buffers, &mut walk);
        let (done, end_ns) = (walk.done, walk.timer.last_ns);
        let expected = files + self.names.tree.directories();
        let result = match read {
            Ok(true) if done < expected => {
                Err(failed("getdents64", done, Cause::Names { came: done, files: expected }))
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        };
        walk.finish(end_ns, result)
    }
}

/// Visits all that is below a directory. Returns false if the deadline or the stop flag ends the round.
fn descend(
    parent: BorrowedFd<'_>,
    name: &CStr,
    spelling: NameFormat,
    buffers: &mut [Buffer],
    walk: &mut Walk<'_>,
) -> Result<bool, Failure> {
    // No directory of the set lies below its lowest level.
    let Some((buffer, deeper)) = buffers.split_first_mut() else { return Ok(true) };
    let directory = open(parent, name).map_err(|errno| fail(walk::OPEN, walk.done, errno))?;
    walk.timer.record_step(walk::OPEN);
    let mut entries = RawDir::new(&directory, buffer);
    loop {
        let calls_kernel = entries.is_buffer_empty();
        let entry = entries.next();
        if calls_kernel {
            walk.timer.record_step(walk::GETDENTS);
        }
        let Some(entry) = entry else { break };
        let entry = entry.map_err(|errno| fail(walk::GETDENTS, walk.done, errno))?;
        // Check also if no name is of the set, as a directory may never end.
        if walk.timer.last_ns >= walk.limits.deadline_ns {
            return Ok(false);
        }
        let name = entry.file_name();
        let may_lead_on = is_directory(name.to_bytes());
        if !may_lead_on && !spelling.can_be(name.to_bytes(), Kind::File) {
            continue;
        }
        let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = found.map_err(|errno| fail(walk::STAT, walk.done, errno))?;
        walk.timer.record_step(walk::STAT);
        if !walk.count() {
            return Ok(false);
        }
        // Some file systems do not tell types in their listings.
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(found.st_mode),
            known => known,
        };
        let leads_on = may_lead_on && kind == FileType::Directory;
        if leads_on && !descend(directory.as_fd(), name, spelling, deeper, walk)? {
            return Ok(false);
        }
    }
    close(directory).map_err(|errno| fail(walk::CLOSE, walk.done, errno))?;
    walk.timer.record_step(walk::CLOSE);
    Ok(true)
}

/// Removes every entry of a set below a directory, as `rm -r` does.
#[derive(Debug)]
pub struct RemoveTree {
    names: Names,
    buffers: Box<[Buffer]>,
    is_durable: bool,
}

/// End of a removal below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalEnd {
    /// Everything is removed.
    Complete,
    /// Names outside the set remain.
    Foreign,
    /// The deadline or the stop flag ended it.
    Stopped,
}

impl RemoveTree {
    /// A removal of the tree of a set. If `is_durable`, each removal is made durable.
    pub fn new(names: Names, is_durable: bool) -> Self {
        Self { names, buffers: buffers(&names), is_durable }
    }

    /// Removes all files and directories of the set below a directory. One operation is one entry.
    ///
    /// The latency of an operation is that of [`WalkTree::round`]. Names outside the set are kept, as are the
    /// directories above them; that is a failure, after all else is removed. If `files` is given, this number of files
    /// must have been found, and all directories.
    pub fn round(
        &mut self,
        place: &FileLocation<'_>,
        files: Option<u64>,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        let removal = Removal { spelling: self.names.spelling, is_durable: self.is_durable };
        let mut walk = Walk::start(clock, recorder, limits);
        let removed = removal.empty(place.directory, c".", &mut self.buffers, &mut walk);
        let (done, end_ns) = (walk.done, walk.timer.last_ns);
        let expected = files.map(|files| files + self.names.tree.directories());
        let result = match (removed, expected) {
            (Ok(RemovalEnd::Foreign), _) => Err(failed("remove", done, Cause::Foreign)),
            (Ok(RemovalEnd::Complete), Some(files)) if done != files => {
                Err(failed("getdents64", done, Cause::Names { came: done, files }))
            }
            (Ok(_), _) => Ok(()),
            (Err(failure), _) => Err(failure),
        };
        walk.finish(end_ns, result)
    }
}

/// Rules of a removal.
#[derive(Debug, Clone, Copy)]
struct Removal {
    spelling: NameFormat,
    is_durable: bool,
}

impl Removal {
    /// Removes all of the set that is below a directory.
    fn empty(
        self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        buffers: &mut [Buffer],
        walk: &mut Walk<'_>,
    ) -> Result<RemovalEnd, Failure> {
        // No directory of the set lies below its lowest level.
        let Some((buffer, deeper)) = buffers.split_first_mut() else { return Ok(RemovalEnd::Foreign) };
        let directory = match open(parent, name) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(RemovalEnd::Foreign),
            opened => opened.map_err(|errno| fail(remove::OPEN, walk.done, errno))?,
        };
        walk.timer.record_step(remove::OPEN);
        let mut emptied = RemovalEnd::Complete;
        let mut entries = RawDir::new(&directory, buffer);
        loop {
            let calls_kernel = entries.is_buffer_empty();
            let entry = entries.next();
            if calls_kernel {
                walk.timer.record_step(remove::GETDENTS);
            }
            let Some(entry) = entry else { break };
            let entry = entry.map_err(|errno| fail(remove::GETDENTS, walk.done, errno))?;
            // Check also if no name is of the set, as a directory may never end.
            if walk.timer.last_ns >= walk.limits.deadline_ns {
                return Ok(RemovalEnd::Stopped);
            }
            let name = entry.file_name();
            let (step, flags) = if self.spelling.can_be(name.to_bytes(), Kind::File) {
                (remove::UNLINK, AtFlags::empty())
            } else if is_directory(name.to_bytes()) {
                match self.empty(directory.as_fd(), name, deeper, walk)? {
                    RemovalEnd::Complete => (remove::RMDIR, AtFlags::REMOVEDIR),
                    RemovalEnd::Foreign => {
                        emptied = RemovalEnd::Foreign;
                        continue;
                    }
                    RemovalEnd::Stopped => return Ok(RemovalEnd::Stopped),
                }
            } else {
                if !matches!(name.to_bytes(), b"." | b"..") {
                    emptied = RemovalEnd::Foreign;
                }
                continue;
            };
            let removed = rustix::fs::unlinkat(&directory, name, flags);
            removed.map_err(|errno| fail(step, walk.done, errno))?;
            walk.timer.record_step(step);
            if self.is_durable {
                let synced = rustix::fs::fsync(&directory);
                synced.map_err(|errno| fail(remove::FSYNC, walk.done, errno))?;
                walk.timer.record_step(remove::FSYNC);
            }
            if !walk.count() {
                return Ok(RemovalEnd::Stopped);
            }
        }
        close(directory).map_err(|errno| fail(remove::CLOSE, walk.done, errno))?;
        walk.timer.record_step(remove::CLOSE);
        Ok(emptied)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::tests::{RoundCounts, watched};
    use super::*;
    use crate::names::{NameFormat, Tree};

    /// Makes the directories and the files of a set.
    fn make(path: &Path, names: Names) {
        (0..names.tree.dirs)
            .for_each(|dir| fs::create_dir_all(path.join(names.tree.directory(dir))).unwrap());
        (0..names.tree.files).for_each(|file| {
            fs::write(path.join(names.path(file).to_str().unwrap()), "").unwrap();
        });
    }

    fn walk(names: Names, place: &FileLocation<'_>, files: u64) -> (Round, RoundCounts) {
        let mut walk = WalkTree::new(names);
        watched(walk::CLOSE.number + 1, u64::MAX, |recorder, limits| {
            walk.round(place, files, &Timer::Kernel, recorder, limits)
        })
    }

    fn remove(names: Names, place: &FileLocation<'_>, deadline_ns: u64) -> (Round, RoundCounts) {
        let mut remove = RemoveTree::new(names, false);
        let files = Some(names.tree.files);
        watched(remove::CLOSE.number + 1, deadline_ns, |recorder, limits| {
            remove.round(place, files, &Timer::Kernel, recorder, limits)
        })
    }

    fn every_entry_comes_once(spelling: NameFormat) {
        // More entries than one call returns, upper levels with few and with many directories, and empty ones.
        for (files, dirs, levels) in [(3000, 1, 1), (500, 7, 2), (9, 8, 1), (100, 27, 3)] {
            let temp = tempfile::tempdir().unwrap();
            let tree = Tree { files, dirs, levels };
            let names = Names { tree, spelling };
            let root = fs::File::open(temp.path()).unwrap();
            let place = FileLocation { directory: root.as_fd(), leaves: &[], tree };
            make(temp.path(), names);
            let (round, (_, _, calls)) = walk(names, &place, files);
            let entries = files + tree.directories();
            assert_eq!((round.result, round.done), (Ok(()), entries), "{tree:?}");
            let directories = 1 + tree.directories();
            assert_eq!((calls[0], calls[2], calls[3]), (directories, entries, directories));
            assert!(calls[1] >= 2 * directories, "each directory is read to its end: {calls:?}");

            let (round, (_, _, calls)) = remove(names, &place, u64::MAX);
            assert_eq!((round.result, round.done), (Ok(()), entries), "{tree:?}");
            assert_eq!((calls[2], calls[3]), (files, tree.directories()));
            assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn walk_and_remove_visit_every_entry_once() {
        every_entry_comes_once(NameFormat::Plain);
        every_entry_comes_once(NameFormat::LettersFirst { seed: 3 });
    }

    #[test]
    fn foreign_entries_are_neither_followed_nor_removed() {
        let temp = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("f00000000"), "mine").unwrap();
        let tree = Tree { files: 12, dirs: 4, levels: 2 };
        let names = tree.plain();
        make(temp.path(), names);
        let at = |path: &str| temp.path().join(path);
        fs::write(at(".hidden"), "mine").unwrap();
        fs::create_dir_all(at("d00000/others/d00000")).unwrap();
        fs::write(at("d00000/others/f00000000"), "mine").unwrap();
        // A link in place of a directory, and a directory below the lowest level.
        std::os::unix::fs::symlink(elsewhere.path(), at("d00000/d0000f")).unwrap();
        fs::create_dir(at("d00001/d00001/d00000")).unwrap();
        fs::write(at("d00001/d00001/d00000/f00000001"), "mine").unwrap();
        let root = fs::File::open(temp.path()).unwrap();
        let place = FileLocation { directory: root.as_fd(), leaves: &[], tree };
        // The link and the directory have names of the set, but nothing in them is looked at.
        let (round, _) = walk(names, &place, 12);
        assert_eq!((round.result, round.done), (Ok(()), 12 + 6 + 2));

        let (round, _) = remove(names, &place, u64::MAX);
        let failure = round.result.unwrap_err();
        assert_eq!((failure.call, failure.cause), ("remove", Cause::Foreign));
        // Files, and the three lowest directories in which nothing else lies.
        assert_eq!(round.done, 12 + 3);
        for left in
            [".hidden", "d00000/others/f00000000", "d00000/others/d00000", "d00001/d00001/d00000/f00000001"]
        {
            assert!(at(left).exists(), "{left}");
        }
        assert!(elsewhere.path().join("f00000000").exists() && at("d00000/d0000f").is_symlink());
    }

    #[test]
    fn missing_names_fail_and_expired_deadline_does_not() {
        let temp = tempfile::tempdir().unwrap();
        let tree = Tree { files: 12, dirs: 4, levels: 2 };
        make(temp.path(), tree.plain());
        let root = fs::File::open(temp.path()).unwrap();
        let place = FileLocation { directory: root.as_fd(), leaves: &[], tree };
        let (round, _) = remove(tree.plain(), &place, 1);
        assert_eq!((round.result, round.done), (Ok(()), 0));
        let (round, _) = walk(tree.plain(), &place, 13);
        assert_eq!(round.result.unwrap_err().cause, Cause::Names { came: 18, files: 19 });
        fs::remove_file(temp.path().join("d00001/d00001/f0000000b")).unwrap();
        let (round, _) = remove(tree.plain(), &place, u64::MAX);
        assert_eq!(round.result.unwrap_err().cause, Cause::Names { came: 17, files: 18 });
    }
}
