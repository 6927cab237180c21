//! Requests at the programs that serve FUSE, as the kernel's file system `fusectl` shows them.

use std::io::Read;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::parse::first_number;
use crate::root::{NumberedEntries, Root};

/// Directory where `fusectl` is usually mounted.
const CONNECTIONS: &str = "sys/fs/fuse/connections";
/// Size that holds a number.
const BUFFER_BYTES: usize = 64;

/// A connection whose numbers can be read.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: NumberedEntries,
    number: u32,
}

impl Connection {
    /// Opens it. Where `fusectl` is not mounted, the mount is one that only this process has; it needs the right to mount.
    pub(crate) fn open(root: &Root, number: u32) -> Option<Self> {
        let at = |connections: Option<NumberedEntries>| {
            let connection = Self { connections: connections?, number };
            connection.waiting().is_some().then_some(connection)
        };
        at(root.numbered(CONNECTIONS)).or_else(|| at(root.is_system().then(own_mount).flatten()))
    }

    /// Returns the number of requests that wait for an answer, with those that the kernel has not handed over.
    pub(crate) fn waiting(&self) -> Option<u64> {
        self.read("waiting")
    }

    /// Returns the most requests without a waiting caller that the kernel hands over at once.
    pub(crate) fn background_max(&self) -> Option<u64> {
        self.read("max_background")
    }

    /// Reads a number. The kernel allows no seek in these files, so each read opens one. Allocates nothing.
    fn read(&self, name: &str) -> Option<u64> {
        let mut file = self.connections.open(self.number, name)?;
        let mut text = [0; BUFFER_BYTES];
        let length = file.read(&mut text).ok()?;
        first_number(&text[..length])
    }
}

/// Mounts `fusectl` at no path: the mount ends with its descriptor.
fn own_mount() -> Option<NumberedEntries> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&context).ok()?;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&mount, ".", flags, Mode::empty()).ok().map(NumberedEntries::new)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{CONNECTIONS, Connection};
    use crate::root::Root;

    #[test]
    fn numbers_of_a_connection_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join(CONNECTIONS).join("45");
        fs::create_dir_all(&at).unwrap();
        let root = Root::at(directory.path());
        assert!(Connection::open(&root, 45).is_none(), "it has no numbers");
        for (name, text) in [("waiting", "3\n"), ("max_background", "12\n")] {
            fs::write(at.join(name), text).unwrap();
        }
        let connection = Connection::open(&root, 45).unwrap();
        assert_eq!((connection.waiting(), connection.background_max()), (Some(3), Some(12)));
    }
}
