//! Work directories of other clients of the same run.
//!
//! A frame names such a directory. Only a directory whose marker names this run and that client, and is locked by it, is
//! one. All is opened relative to descriptors, and no link is followed.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::marker::{Client, FILE_NAME, Marker, NamePattern};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::clean::{is_own_file, parse_marker};
use crate::{process, removal};

/// Opens the work directory of a client, which lies in `parent`. It must have the owner and the rights of `own`, and name
/// the same files by its rules: its client removes no others.
///
/// # Errors
/// Returns the reason why it is none.
pub fn open(
    parent: BorrowedFd<'_>,
    name: &CStr,
    own: BorrowedFd<'_>,
    client: &Client,
    rules: &[NamePattern],
) -> Result<OwnedFd, String> {
    let cause = |errno: Errno| std::io::Error::from(errno).to_string();
    let directory = match removal::open_directory(parent, name) {
        Err(Errno::XDEV) => return Err("it is a mount point".into()),
        Err(Errno::LOOP | Errno::NOTDIR) => return Err("it is not a directory".into()),
        opened => opened.map_err(cause)?,
    };
    let about = |directory: BorrowedFd<'_>| rustix::fs::fstat(directory).map_err(cause);
    let (its, ours) = (about(directory.as_fd())?, about(own)?);
    if (its.st_uid, its.st_mode) != (ours.st_uid, ours.st_mode) {
        return Err("its owner or mode differs from this client's directory".into());
    }
    let (marker, file) = marker(&directory)?;
    if marker.run.as_ref() != Some(&client.run) {
        return Err("its marker belongs to another run".into());
    }
    if marker.client != Some(client.number) {
        return Err(format!("its marker does not belong to client {}", client.number));
    }
    if marker.rules != rules {
        return Err("its client has another plan, and would not remove this client's files".into());
    }
    if !is_held(&file, &marker) {
        return Err("its client has ended".into());
    }
    Ok(directory)
}

/// Reads the marker of a directory.
fn marker(directory: &OwnedFd) -> Result<(Marker, File), String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, FILE_NAME, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Err("it has no marker".into()),
        Err(errno) => return Err(format!("its marker cannot be read: {}", std::io::Error::from(errno))),
    };
    if !is_own_file(&file) {
        return Err("its marker is not your file".into());
    }
    let file = File::from(file);
    let marker = parse_marker(&file)?;
    Ok((marker, file))
}

/// Returns true if the process that wrote a marker still holds its lock.
fn is_held(file: &File, marker: &Marker) -> bool {
    // A shared lock, so that two clients that look at the same time do not take each other for its holder.
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => true,
        // Some file systems keep the locks of each host apart.
        Ok(()) => process::is_from_other_host(marker),
        // Where locks do not work, the state of the process decides.
        Err(_) => process::may_live(marker),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::WorkDirectory;
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    fn client(number: u32, run: &str) -> Client {
        Client { number, run: run.into() }
    }

    fn work(target: &Path, client: Option<&Client>) -> WorkDirectory {
        WorkDirectory::create(target, vec![], client, &AtomicU64::new(0)).unwrap()
    }

    /// Opens a directory by its name, as client 1 of run "r" that looks for client 0.
    fn open_first(own: &WorkDirectory, name: &str) -> Result<OwnedFd, String> {
        open(own.parent(), &CString::new(name).unwrap(), own.descriptor(), &client(0, "r"), &[])
    }

    fn name(work: &WorkDirectory) -> &str {
        work.path().file_name().unwrap().to_str().unwrap()
    }

    #[test]
    fn live_client_of_the_same_run_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let (own, other) =
            (work(temp.path(), Some(&client(1, "r"))), work(temp.path(), Some(&client(0, "r"))));
        open_first(&own, name(&other)).unwrap();
        // The look leaves the lock to its holder.
        open_first(&own, name(&other)).unwrap();
    }

    #[test]
    fn directory_of_other_run_or_client_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let own = work(temp.path(), Some(&client(1, "r")));
        let refused = |name: &str, why: &str| {
            let cause = open_first(&own, name).unwrap_err();
            assert!(cause.contains(why), "{name}: {cause}");
        };
        let rules = vec![NamePattern::files("data-", 4, 2)];
        let other_plan =
            WorkDirectory::create(temp.path(), rules, Some(&client(0, "r")), &AtomicU64::new(0)).unwrap();
        refused(name(&other_plan), "another plan");
        drop(other_plan);
        let [stranger, alone, second] = [Some(client(0, "s")), None, Some(client(2, "r"))]
            .map(|client| work(temp.path(), client.as_ref()));
        refused(name(&stranger), "another run");
        refused(name(&alone), "another run");
        refused(name(&second), "does not belong to client 0");
        refused(name(&own), "does not belong to client 0");
        let make = |name: &str| {
            let path = temp.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
            path
        };
        let mine = |text: &str| {
            let path = make("skye.mine00");
            fs::write(path.join(FILE_NAME), text).unwrap();
            path
        };
        refused("skye.gone00", "No such file");
        make("skye.bare00");
        refused("skye.bare00", "no marker");
        let other = work(temp.path(), Some(&client(0, "r")));
        let marker = fs::read_to_string(other.path().join(FILE_NAME)).unwrap();
        let path = mine(&marker);
        refused("skye.mine00", "has ended");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
        refused("skye.mine00", "owner or mode");
        fs::remove_dir_all(&path).unwrap();
        let path = mine("diary");
        refused("skye.mine00", "incomplete");
        fs::remove_file(path.join(FILE_NAME)).unwrap();
        symlink(other.path().join(FILE_NAME), path.join(FILE_NAME)).unwrap();
        refused("skye.mine00", "cannot be read");
        symlink(other.path(), temp.path().join("skye.link00")).unwrap();
        refused("skye.link00", "not a directory");
        fs::write(temp.path().join("skye.file00"), "diary").unwrap();
        refused("skye.file00", "not a directory");
    }
}
