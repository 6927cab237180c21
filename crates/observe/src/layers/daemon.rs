//! The program that serves a FUSE mount, the file systems that it works on, and its lines to servers.
//!
//! It holds `/dev/fuse` open. From Linux 6.16 on, the descriptor shows its connection. Before, a program is known only if
//! nothing else on the machine can be the one.

use std::collections::BTreeSet;

use model::layer::LayerKind;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, readlinkat, statx};

use super::{Added, Graph, Source};
use crate::netlink::{tcp_sockets, unix_pairs};
use crate::parse::mountinfo::Mount;
use crate::parse::process_stat;
use crate::parse::tcp_sockets::TcpSocket;
use crate::parse::unix_sockets::Pair;
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
            self.mounts.iter().filter(|mount| has_program(mount)).map(Mount::device_number).collect();
        let daemons = self.daemons.get_or_insert_with(|| Daemons::find(self.root));
        let Some(process) = daemons.server_of(mount.device_number(), connections.len()) else {
            return self.hide(at, "the program that serves it is not visible here");
        };
        let Some(Added { at: daemon, is_new: true }) = self.add_process(at, process) else { return };
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
        self.add_connections(daemon, process, &mut BTreeSet::new());
        if self.layers[daemon].below.is_empty() {
            self.hide(daemon, "its storage is not visible here");
        }
    }

    /// Adds the lines to the servers of a program, also those of programs that work for it. `seen` has the programs above it.
    pub(super) fn add_connections(&mut self, at: usize, process: i32, seen: &mut BTreeSet<i32>) {
        seen.insert(process);
        let daemons = self.daemons.get_or_insert_with(|| Daemons::find(self.root));
        let sockets = daemons.connections_of(self.root, process);
        let is_connected = |helper: &i32| daemons.is_connected(self.root, *helper, &mut seen.clone());
        let helpers: Vec<_> = daemons.helpers_of(process).into_iter().filter(is_connected).collect();
        self.add_lines(at, &sockets);
        for helper in helpers {
            if let Some(Added { at, is_new: true }) = self.add_process(at, helper) {
                self.add_connections(at, helper, seen);
            }
        }
    }

    /// Puts a program below a layer.
    fn add_process(&mut self, above: usize, process: i32) -> Option<Added> {
        let name = self.root.line(&format!("proc/{process}/comm")).unwrap_or_default();
        let added = self.add(Source::Process(process), LayerKind::Daemon, &name);
        self.link(above, added.as_ref().map(|added| added.at));
        if let Some(Added { at, .. }) = added {
            self.layers[at].number = u32::try_from(process).ok();
        }
        added
    }

    /// Returns the file system of the directory that a mount has as its source. A program that opens its directory for
    /// each call keeps none open.
    fn source(&self, mount: &Mount) -> Option<&'a Mount> {
        let found = self.mount_of(&mount.source)?;
        (is_local(found) && is_directory(self.root, &mount.source)).then_some(found)
    }
}

/// Returns true if its files can be inspected without waiting for a server.
pub(super) fn is_local(mount: &Mount) -> bool {
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
    /// Inodes of open sockets, each with its process.
    sockets: Vec<(u32, i32)>,
    /// Each process with its parent.
    parents: Vec<(i32, i32)>,
    /// Pairs of Unix sockets without a name.
    pairs: Vec<Pair>,
    /// Connected TCP sockets.
    connections: Vec<TcpSocket>,
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
        if root.is_system() {
            (found.pairs, found.connections) = (unix_pairs(), tcp_sockets());
        }
        let mut count = 0;
        for process in processes {
            let stat = root.read(&format!("proc/{process}/stat")).unwrap_or_default();
            let parent = process_stat::parse(stat.as_bytes()).map(|found| found.parent_pid);
            found.parents.extend(parent.and_then(|parent| Some((process, i32::try_from(parent).ok()?))));
            let Some(descriptors) = root.numbered(&format!("proc/{process}/fd")) else {
                found.is_partial = true;
                continue;
            };
            descriptors.visit(|descriptor| {
                count += 1;
                if count > DESCRIPTORS_MAX {
                    return;
                }
                let to = link(root, &format!("proc/{process}/fd/{descriptor}")).unwrap_or_default();
                found.sockets.extend(socket_inode(&to).map(|inode| (inode, process)));
                if to != "/dev/fuse" {
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

    /// Returns the programs that a process uses: those at the other end of its socket pairs, and its children.
    fn helpers_of(&self, process: i32) -> BTreeSet<i32> {
        let of =
            |inode: u32| self.sockets.iter().filter(move |(other, _)| *other == inode).map(|(_, of)| *of);
        let is_own = |pair: &&Pair| of(pair.inode).any(|holder| holder == process);
        let own = self.pairs.iter().filter(is_own);
        let peers = own.flat_map(|pair| of(pair.peer));
        let children = self.parents.iter().filter(|(_, parent)| *parent == process).map(|(child, _)| *child);
        peers.chain(children).filter(|other| *other != process).collect()
    }

    /// Returns the TCP connections of a process; none in another network namespace.
    fn connections_of(&self, root: &Root, process: i32) -> Vec<TcpSocket> {
        let namespace = |process: &str| link(root, &format!("proc/{process}/ns/net"));
        if namespace(&process.to_string()) != namespace("self") {
            return Vec::new();
        }
        let is_own = |socket: &&TcpSocket| self.sockets.contains(&(socket.inode, process));
        self.connections.iter().filter(is_own).copied().collect()
    }

    /// Returns true if a process, or one that works for it, is connected to a server. `seen` has those that do not count.
    fn is_connected(&self, root: &Root, process: i32, seen: &mut BTreeSet<i32>) -> bool {
        seen.insert(process)
            && (!self.connections_of(root, process).is_empty()
                || self.helpers_of(process).into_iter().any(|helper| self.is_connected(root, helper, seen)))
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

/// Returns the inode in the link of a descriptor: "socket:[123]".
fn socket_inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
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
    use super::{Daemons, Pair, socket_inode, value};

    #[test]
    fn server_is_known_by_its_connection_or_alone() {
        let known = Daemons {
            known: vec![(7, 70), (8, 80)],
            others: vec![90],
            is_partial: true,
            ..Daemons::default()
        };
        assert_eq!([7, 8, 9].map(|connection| known.server_of(connection, 3)), [Some(70), Some(80), None]);
        let alone = Daemons { others: vec![90], ..Daemons::default() };
        assert_eq!((alone.server_of(7, 1), alone.server_of(7, 2)), (Some(90), None));
        assert_eq!(Daemons { is_partial: true, ..alone }.server_of(7, 1), None);
        assert_eq!(Daemons { others: vec![90, 91], ..Daemons::default() }.server_of(7, 1), None);
    }

    #[test]
    fn helpers_are_peers_of_sockets_and_children() {
        let pairs = vec![Pair { inode: 1, peer: 2 }, Pair { inode: 2, peer: 1 }, Pair { inode: 3, peer: 4 }];
        let sockets = vec![(1, 70), (2, 80), (3, 90), (4, 91)];
        let parents = vec![(71, 70), (72, 71)];
        let daemons = Daemons { pairs, sockets, parents, ..Daemons::default() };
        assert_eq!(Vec::from_iter(daemons.helpers_of(70)), [71, 80]);
        assert_eq!(socket_inode("socket:[12]"), Some(12));
        assert_eq!(socket_inode("pipe:[12]"), None);
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
