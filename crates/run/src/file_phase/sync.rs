//! Makes the changes of a test durable at its end, inside the measured time: its own directories, and its own files
//! with content. A sync of the whole file system would also write data of other processes.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use engine::Failure;
use engine::files::FileLocation;
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::removal::DIRECTORY_FLAGS;

/// Room for the entries that one call returns.
const BUFFER_BYTES: usize = 32 << 10;

/// Makes the lowest directories of a place durable, and before them their files if these have content.
pub fn directories(place: &FileLocation<'_>, has_content: bool) -> Result<(), Failure> {
    for dir in 0..place.tree.dirs {
        let directory = lowest(place, dir).map_err(failed(dir))?;
        if has_content {
            files(&directory).map_err(failed(dir))?;
        }
        rustix::fs::fsync(directory).map_err(failed(dir))?;
    }
    Ok(())
}

/// Makes the removal of a tree durable, and its part in the lowest directories if these are not all gone.
pub fn removal(place: &FileLocation<'_>, is_whole: bool) -> Result<(), Failure> {
    for dir in 0..if is_whole { 0 } else { place.tree.dirs } {
        match lowest(place, dir) {
            Err(Errno::NOENT) => {}
            left => left.and_then(rustix::fs::fsync).map_err(failed(dir))?,
        }
    }
    let root = rustix::fs::openat(place.directory, ".", DIRECTORY_FLAGS, Mode::empty());
    root.and_then(rustix::fs::fsync).map_err(failed(0))
}

fn failed(dir: u64) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure { call: "fsync", file: dir, offset_bytes: None, cause: errno.into() }
}

fn lowest(place: &FileLocation<'_>, dir: u64) -> Result<OwnedFd, Errno> {
    let path = place.tree.directory(dir);
    let path = if path.is_empty() { "." } else { path.as_str() };
    rustix::fs::openat(place.directory, path, DIRECTORY_FLAGS, Mode::empty())
}

fn files(directory: &OwnedFd) -> Result<(), Errno> {
    let mut buffer = [const { MaybeUninit::uninit() }; BUFFER_BYTES];
    let mut entries = RawDir::new(directory.as_fd(), &mut buffer);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown) {
            match rustix::fs::openat(directory, entry.file_name(), flags, Mode::empty()) {
                // In a shared directory, a client that is done removes its files already.
                Err(Errno::NOENT) => {}
                opened => opened.and_then(rustix::fs::fsync)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::names::Tree;

    use super::*;

    #[test]
    fn existing_directories_are_synced_and_missing_reported() {
        let temp = tempfile::tempdir().unwrap();
        let opened = fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 4, dirs: 2, levels: 1 };
        let place = FileLocation { directory: opened.as_fd(), leaves: &[], tree };
        fs::create_dir(temp.path().join("d00000")).unwrap();
        fs::write(temp.path().join("d00000/f00000000"), "content").unwrap();
        std::os::unix::fs::symlink("/nowhere", temp.path().join("d00000/link")).unwrap();
        let failure = directories(&place, true).unwrap_err();
        assert_eq!((failure.file, failure.cause), (1, Errno::NOENT.into()));
        fs::create_dir(temp.path().join("d00001")).unwrap();
        assert_eq!(directories(&place, true), Ok(()));
        fs::remove_dir(temp.path().join("d00001")).unwrap();
        assert_eq!(removal(&place, false), Ok(()));
        assert_eq!(removal(&place, true), Ok(()));
        let flat = FileLocation { tree: Tree { dirs: 1, ..tree }, ..place };
        assert_eq!(directories(&flat, false), Ok(()));
    }
}
