//! The program that serves a FUSE mount, and the file systems that it works on.
//!
//! It holds `/dev/fuse` open. From Linux 6.16 on, the descriptor shows its connection. Before, a program is known only if
//! nothing else on the machine can be the one.

use std::collections::BTreeSet;

use model::layer::LayerKind;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, readlinkat, statx};

use super::{Added, Graph, Source};
use crate::parse::mountinfo::Mount;
use crate::root::Root;
use crate::stack::{is_fuse, is_remote};

/// Most descriptors that are looked at, of all processes, and of one that serves.
const DESCRIPTORS_MAX: usize = 1 << 16;
/// File systems of the kernel that store nothing.
const KERNEL_ONLY: [&str; 16] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "mqueue",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

impl<'a> Graph<'a> {
    pub(super) fn add_daemon(&mut self, at: usize, mount: &Mount) {
        let connections: BTreeSet<_> =
            self.mounts.iter().filter(|mount| has_program(mount)).map(Mount::fuse_connection).collect();
        let daemons = self.daemons.get_or_insert_with(|| Daemons::find(self.root));
        let Some(process) = daemons.server_of(mount.fuse_connection(), connections.len()) else {
            return self.hide(at, "the program that serves it is not visible here");
        };
        let name = self.root.line(&format!("proc/{process}/comm")).unwrap_or_default();
        let added = self.add(Source::Process(process), LayerKind::Daemon, &name);
        self.link(at, added.as_ref().map(|added| added.at));
        let Some(Added { at: daemon, is_new: true }) = added else { return };
        self.layers[daemon].number = u32::try_from(process).ok();
        let open = directories(self.root, self.mounts, process);
        let mut directories: Vec<_> = self.mounts.iter().filter(|found| open.contains(&found.id)).collect();
        if directories.is_empty() {
            directories.extend(self.source(mount));
        }
        for found in directories {
            let below = self.add_mount(found, None);
            if below != Some(at) {
                self.link(daemon, below);
            }
        }
        if self.layers[daemon].below.is_empty() {
            self.hide(daemon, "its storage is not visible here");
        }
    }

    /// Returns the file system of the directory that a mount has as its source. A program that opens its directory for
    /// each call keeps none open.
    fn source(&self, mount: &Mount) -> Option<&'a Mount> {
        let found = self.mount_of(&mount.source)?;
        (is_local(found) && is_directory(self.root, &mount.source)).then_some(found)
    }
}

/// Returns true if its files can be inspected without waiting for a server.
fn is_local(mount: &Mount) -> bool {
    !has_program(mount)
        && !is_remote(&mount.file_system)
        && !KERNEL_ONLY.contains(&mount.file_system.as_str())
}

/// Returns true if a directory is at this path of the root.
fn is_directory(root: &Root, path: &str) -> bool {
    statx(CWD, root.path(path), AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
        .is_ok_and(|found| FileType::from_raw_mode(found.stx_mode.into()).is_dir())
}

/// Returns true if a program serves it, also on a block device.
pub(super) fn has_program(mount: &Mount) -> bool {
    is_fuse(&mount.file_system) || mount.file_system.starts_with("fuseblk")
}

/// Processes that hold `/dev/fuse`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Daemons {
    /// Those whose connection the kernel shows.
    known: Vec<(u32, i32)>,
    /// The others.
    others: Vec<i32>,
    /// True if some descriptors could not be looked at.
    is_partial: bool,
}

impl Daemons {
    fn find(root: &Root) -> Self {
        let mut found = Self::default();
        let mut processes = Vec::new();
        match root.numbered("proc") {
            Some(entries) => entries.visit(|process| processes.push(process)),
            None => found.is_partial = true,
        }
        let mut count = 0;
        for process in processes {
            let Some(descriptors) = root.numbered(&format!("proc/{process}/fd")) else {
                found.is_partial = true;
                continue;
            };
            descriptors.visit(|descriptor| {
                count += 1;
                let place = format!("proc/{process}/fd/{descriptor}");
                if count > DESCRIPTORS_MAX || link(root, &place).as_deref() != Some("/dev/fuse") {
                    return;
                }
                let text = root.read(&format!("proc/{process}/fdinfo/{descriptor}")).unwrap_or_default();
                match value(&text, "fuse_connection:") {
                    Some(number) => found.known.push((number, process)),
                    None => found.others.push(process),
                }
            });
        }
        found.others.dedup();
        found.is_partial |= count > DESCRIPTORS_MAX;
        found
    }

    /// Returns the process that serves a connection, of all that are mounted.
    fn server_of(&self, connection: u32, connections: usize) -> Option<i32> {
        let known = self.known.iter().find(|(number, _)| *number == connection);
        let only = match self.others[..] {
            [only] if connections == 1 && !self.is_partial => Some(only),
            _ => None,
        };
        known.map(|(_, process)| *process).or(only)
    }
}

/// Returns the mounts of the open directories of a process, by their numbers. Its open files may be logs, and its working
/// directory may be its user's.
fn directories(root: &Root, mounts: &[Mount], process: i32) -> BTreeSet<u64> {
    let (mut found, mut count) = (BTreeSet::new(), 0);
    let Some(descriptors) = root.numbered(&format!("proc/{process}/fd")) else { return found };
    descriptors.visit(|descriptor| {
        count += 1;
        if count > DESCRIPTORS_MAX {
            return;
        }
        let text = root.read(&format!("proc/{process}/fdinfo/{descriptor}")).unwrap_or_default();
        let id = value::<u64>(&text, "mnt_id:");
        let Some(mount) = mounts.iter().find(|mount| Some(mount.id) == id) else { return };
        if is_local(mount) && is_directory(root, &format!("proc/{process}/fd/{descriptor}")) {
            found.insert(mount.id);
        }
    });
    found
}

/// Returns the number after a word of `/proc/PID/fdinfo`.
fn value<T: std::str::FromStr>(text: &str, word: &str) -> Option<T> {
    text.lines().find_map(|line| line.strip_prefix(word))?.trim().parse().ok()
}

fn link(root: &Root, path: &str) -> Option<String> {
    readlinkat(CWD, root.path(path), Vec::new()).ok()?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::{Daemons, value};

    #[test]
    fn server_is_known_by_its_connection_or_alone() {
        let known = Daemons { known: vec![(7, 70), (8, 80)], others: vec![90], is_partial: true };
        assert_eq!([7, 8, 9].map(|connection| known.server_of(connection, 3)), [Some(70), Some(80), None]);
        let alone = Daemons { others: vec![90], ..Daemons::default() };
        assert_eq!((alone.server_of(7, 1), alone.server_of(7, 2)), (Some(90), None));
        assert_eq!(Daemons { is_partial: true, ..alone }.server_of(7, 1), None);
        assert_eq!(Daemons { others: vec![90, 91], ..Daemons::default() }.server_of(7, 1), None);
    }

    #[test]
    fn numbers_of_descriptors_are_parsed() {
        let text = "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nfuse_connection:\t1048628\n";
        assert_eq!(
            (value(text, "mnt_id:"), value(text, "fuse_connection:")),
            (Some(24_u64), Some(1_048_628_u64))
        );
        assert_eq!(value::<u64>("mnt_id:\tx\n", "mnt_id:"), None);
    }
}
