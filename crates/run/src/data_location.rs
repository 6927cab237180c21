//! Directory with the files of a run: its own, or another's with one file or device that is only read. Or a device that
//! is erased.
//!
//! In another's directory there is no way to make, change or remove anything. Its file is opened for reading alone
//! (`FileGroup::open_file`), and the methods that remove do nothing. An erased device was opened once, with `O_EXCL`, and
//! stays open for the whole run. All that works on it opens it again through that descriptor, and follows no path.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use model::marker::{Client, NamePattern, is_work_directory};
use model::{Target, UserError};
use rustix::fs::{Mode, OFlags};

use crate::dataset::Origin;
use crate::directory::{CreateError, PendingRemoval, WorkDirectory};
use crate::{hang_detection, peer};

/// Directory with the files of a run.
#[derive(Debug)]
pub enum DataLocation {
    /// The work directory of the run, which removes it at the end.
    Own(WorkDirectory),
    /// The directory of a file or device that is only read.
    Existing {
        /// The directory, open for look-ups alone.
        directory: OwnedFd,
        /// Its path, for messages.
        path: PathBuf,
        /// Name of the file or device.
        name: String,
    },
    /// The work directory of another client.
    OtherClient {
        /// The directory.
        directory: OwnedFd,
        /// Its path, for messages.
        path: PathBuf,
    },
    /// A device that is erased.
    Device {
        /// The device, opened with `O_EXCL`.
        device: OwnedFd,
        /// Path of the directory with its node, for messages.
        path: PathBuf,
        /// Name of its node, for messages.
        name: String,
    },
}

impl DataLocation {
    /// Returns the home of a run on an erased device, which is open with `O_EXCL`.
    pub fn on_device(target: &Target, device: OwnedFd) -> Self {
        let path = Path::new(&target.path);
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self::Device { device, path: path.parent().unwrap_or(Path::new("/")).to_owned(), name }
    }

    /// Returns the action of opening the home of a target, for messages.
    pub fn action(target: &Target) -> String {
        if target.is_used_read_only() {
            format!("open {}", target.path)
        } else {
            format!("create the work directory in {}", target.path)
        }
    }

    /// Makes a work directory in a target, perhaps for a client of a run, or opens the directory of a target that is only read. Every step raises
    /// `progress`.
    ///
    /// # Errors
    /// As [`WorkDirectory::create`]; or the directory of the file cannot be opened.
    pub fn open(
        target: &Target,
        rules: Vec<NamePattern>,
        client: Option<&Client>,
        progress: &AtomicU64,
    ) -> Result<Self, CreateError> {
        let path = Path::new(&target.path);
        if !target.is_used_read_only() {
            return WorkDirectory::create(path, rules, client, progress).map(Self::Own);
        }
        let error = |cause: &dyn std::fmt::Display| UserError::new(Self::action(target), cause);
        // The path was resolved, so it has both.
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(error(&"it is not a file in a directory").into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())
            .map_err(|errno| error(&std::io::Error::from(errno)))?;
        Ok(Self::Existing { directory, path: parent.to_owned(), name: name.to_owned() })
    }

    /// Opens the work directory of another client of this run, which lies beside this one.
    ///
    /// # Errors
    /// There is none, it is that of another run or client, its client has ended, or it does not answer.
    pub fn for_client(&self, name: &str, number: u32) -> Result<Self, UserError> {
        let path = self.path().with_file_name(name);
        let action = format!("open {}, the directory of another client", path.display());
        let fail = |cause: &dyn std::fmt::Display| UserError::new(&action, cause);
        let Self::Own(own_directory) = self else {
            return Err(fail(&"this client has no work directory next to it"));
        };
        if !is_work_directory(name.as_bytes()) {
            return Err(fail(&"it is not named like a client's directory"));
        }
        let Some(run) = own_directory.run() else {
            return Err(fail(&"this client is not part of a run with several clients"));
        };
        let client = Client { number, run: run.to_owned() };
        let name = CString::new(name).map_err(|error| fail(&error))?;
        let own = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned().map_err(|error| fail(&error));
        let (parent, own) = (own(own_directory.parent())?, own(own_directory.descriptor())?);
        let rules = own_directory.rules().to_vec();
        let work = move || peer::open(parent.as_fd(), &name, own.as_fd(), &client, &rules);
        let directory = hang_detection::wait_with_progress(&action, || 0, work)?.map_err(|why| fail(&why))?;
        Ok(Self::OtherClient { directory, path })
    }

    /// Returns the path, for messages.
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(directory) => directory.path(),
            Self::Existing { path, .. } | Self::OtherClient { path, .. } | Self::Device { path, .. } => path,
        }
    }

    /// Returns the descriptor that files are opened relative to, or the erased device.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(directory) => directory.descriptor(),
            Self::Existing { directory, .. } | Self::OtherClient { directory, .. } => directory.as_fd(),
            Self::Device { device, .. } => device.as_fd(),
        }
    }

    /// Returns the name of the file or device that was given, and what may be done to it; `None` in a work directory.
    pub fn existing(&self) -> Option<(&str, Origin)> {
        match self {
            Self::Own(_) | Self::OtherClient { .. } => None,
            Self::Existing { name, .. } => Some((name, Origin::Read)),
            Self::Device { name, .. } => Some((name, Origin::ErasedDevice)),
        }
    }

    /// Removes the files of a work directory that the rules with this prefix produce; all for an empty prefix.
    ///
    /// # Errors
    /// As [`WorkDirectory::remove_files_of`].
    pub fn remove_files_of(&self, prefix: &str) -> Result<(), UserError> {
        match self {
            Self::Own(directory) => directory.remove_files_of(prefix),
            Self::Existing { .. } | Self::OtherClient { .. } | Self::Device { .. } => Ok(()),
        }
    }

    /// Begins to remove a work directory with its files; `None` where nothing was made.
    pub fn remove(self, activity: impl FnMut() -> u64 + Send + 'static) -> Option<PendingRemoval> {
        match self {
            Self::Own(directory) => Some(directory.remove(activity)),
            Self::Existing { .. } | Self::OtherClient { .. } | Self::Device { .. } => None,
        }
    }
}
