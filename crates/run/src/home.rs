//! Directory with the files of a run: its own, or another's with one file or device that is only read.
//!
//! In another's directory there is no way to make, change or remove anything. Its file is opened for reading alone
//! (`FileGroup::open_file`), and the methods that remove do nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use model::marker::NameRule;
use model::{Target, Trouble};
use rustix::fs::{Mode, OFlags};

use crate::directory::{Removing, Unmade, WorkDirectory};

/// Directory with the files of a run.
#[derive(Debug)]
pub enum Home {
    /// The work directory of the run, which removes it at the end.
    Ours(WorkDirectory),
    /// The directory of a file or device that is only read.
    Theirs {
        /// The directory, open for look-ups alone.
        directory: OwnedFd,
        /// Its path, for messages.
        path: PathBuf,
        /// Name of the file or device.
        name: String,
    },
}

impl Home {
    /// Returns the attempt to open the home of a target, for messages.
    pub fn attempt(target: &Target) -> String {
        if target.kind.is_only_read() {
            format!("open {}", target.path)
        } else {
            format!("make a work directory in {}", target.path)
        }
    }

    /// Makes a work directory in a target, perhaps for a client of a run, or opens the directory of a target that is only read. Every step raises
    /// `progress`.
    ///
    /// # Errors
    /// As [`WorkDirectory::create`]; or the directory of the file cannot be opened.
    pub fn open(
        target: &Target,
        rules: Vec<NameRule>,
        client: Option<u32>,
        progress: &AtomicU64,
    ) -> Result<Self, Unmade> {
        let path = Path::new(&target.path);
        if !target.kind.is_only_read() {
            return WorkDirectory::create(path, rules, client, progress).map(Self::Ours);
        }
        let trouble = |cause: &dyn std::fmt::Display| Trouble::new(Self::attempt(target), cause);
        // The path was resolved, so it has both.
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(trouble(&"it is no file in a directory").into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())
            .map_err(|errno| trouble(&std::io::Error::from(errno)))?;
        Ok(Self::Theirs { directory, path: parent.to_owned(), name: name.to_owned() })
    }

    /// Returns the path, for messages.
    pub fn path(&self) -> &Path {
        match self {
            Self::Ours(directory) => directory.path(),
            Self::Theirs { path, .. } => path,
        }
    }

    /// Returns the descriptor that files are opened relative to.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Ours(directory) => directory.descriptor(),
            Self::Theirs { directory, .. } => directory.as_fd(),
        }
    }

    /// Returns the name of the file or device that is only read; `None` in a work directory.
    pub fn given(&self) -> Option<&str> {
        match self {
            Self::Ours(_) => None,
            Self::Theirs { name, .. } => Some(name),
        }
    }

    /// Removes the files of a work directory that the rules with this prefix produce; all for an empty prefix.
    ///
    /// # Errors
    /// As [`WorkDirectory::empty_of`].
    pub fn empty_of(&self, prefix: &str) -> Result<(), Trouble> {
        match self {
            Self::Ours(directory) => directory.empty_of(prefix),
            Self::Theirs { .. } => Ok(()),
        }
    }

    /// Begins to remove a work directory with its files; `None` in another's directory.
    pub fn remove(self, movement: impl FnMut() -> u64 + Send + 'static) -> Option<Removing> {
        match self {
            Self::Ours(directory) => Some(directory.remove(movement)),
            Self::Theirs { .. } => None,
        }
    }
}
