//! Requests at the server of a user-space or network file system.

use std::fs::File;

use crate::fuse::Connection;
use crate::parse::mountinfo::Mount;
use crate::parse::mountstats::{self, NfsMount};
use crate::reading::read_all;
use crate::root::Root;
use crate::stack::is_fuse;

const MS_PER_NS: f64 = 1e-6;

/// Server of the target's file system, if it can be watched.
#[derive(Debug)]
pub(super) enum Server {
    Fuse(Fuse),
    Nfs(Nfs),
    None,
}

/// A program that serves FUSE. Its number of requests is a state, so it must be sampled.
#[derive(Debug)]
pub(super) struct Fuse {
    connection: Connection,
    slots: Option<u64>,
    sum: u64,
    samples: u64,
}

/// An NFS server. The kernel counts how long each request took.
#[derive(Debug)]
pub(super) struct Nfs {
    stats: File,
    mount_point: String,
    slots: Option<u64>,
    before_ms: Option<u64>,
    sum_ms: Option<u64>,
}

impl Server {
    pub fn open(root: &Root, mount: Option<&Mount>, buffer: &mut Vec<u8>, hidden: &mut Vec<String>) -> Self {
        let Some(mount) = mount else { return Self::None };
        let kind = mount.file_system.as_str();
        if is_fuse(kind) || kind == "fuseblk" || kind == "virtiofs" {
            let number = mount.fuse_connection();
            let Some(connection) = Connection::open(root, number) else {
                hidden.push(format!(
                    "/sys/fs/fuse/connections/{number}/waiting: requests that wait for the file system's server"
                ));
                return Self::None;
            };
            let slots = connection.background_max();
            return Self::Fuse(Fuse { connection, slots, sum: 0, samples: 0 });
        }
        if kind.starts_with("nfs") {
            let nfs = root.open("proc/self/mountstats").and_then(|stats| {
                let found = read_nfs(&stats, &mount.mount_point, buffer)?;
                let (mount_point, slots) = (mount.mount_point.clone(), nfs_slots(root, &found));
                Some(Nfs { stats, mount_point, slots, before_ms: None, sum_ms: None })
            });
            if nfs.is_none() {
                hidden.push(
                    "/proc/self/mountstats: requests that wait for the file system's server".to_owned(),
                );
            }
            return nfs.map_or(Self::None, Self::Nfs);
        }
        Self::None
    }

    pub fn begin(&mut self, buffer: &mut Vec<u8>) {
        if let Self::Nfs(nfs) = self {
            nfs.before_ms = nfs.now_ms(buffer);
        }
    }

    /// Samples the requests at a FUSE server. Allocates nothing.
    pub fn sample(&mut self) {
        let Self::Fuse(fuse) = self else { return };
        if let Some(waiting) = fuse.connection.waiting() {
            fuse.sum = fuse.sum.saturating_add(waiting);
            fuse.samples += 1;
        }
    }

    pub fn end(&mut self, buffer: &mut Vec<u8>) {
        if let Self::Nfs(nfs) = self
            && let Some((before_ms, now_ms)) = nfs.before_ms.take().zip(nfs.now_ms(buffer))
        {
            *nfs.sum_ms.get_or_insert_default() += now_ms.saturating_sub(before_ms);
        }
    }

    /// Returns the mean number of requests in flight, and the most that are let through at once.
    pub fn take(&mut self, measured_ns: u64) -> (Option<f64>, Option<u64>) {
        match self {
            Self::Fuse(fuse) => {
                let (sum, samples) = (std::mem::take(&mut fuse.sum), std::mem::take(&mut fuse.samples));
                ((samples > 0).then(|| sum as f64 / samples as f64), fuse.slots)
            }
            Self::Nfs(nfs) => {
                let sum_ms = nfs.sum_ms.take().filter(|_| measured_ns > 0);
                (sum_ms.map(|ms| ms as f64 / (measured_ns as f64 * MS_PER_NS)), nfs.slots)
            }
            Self::None => (None, None),
        }
    }
}

impl Nfs {
    fn now_ms(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        Some(read_nfs(&self.stats, &self.mount_point, buffer)?.round_trips_ms)
    }
}

fn read_nfs(stats: &File, mount_point: &str, buffer: &mut Vec<u8>) -> Option<NfsMount> {
    mountstats::nfs(&String::from_utf8_lossy(read_all(Some(stats), buffer)?), mount_point)
}

/// Returns the request slots of a mount. Both sides agree on the slots of a session, whatever its number of
/// connections; the kernel shows the number that the client requests. Without a session, each connection has its own
/// slots.
fn nfs_slots(root: &Root, mount: &NfsMount) -> Option<u64> {
    if mount.has_session {
        return root.number("sys/module/nfs/parameters/max_session_slots");
    }
    let of_one = |protocol: &String| {
        let name = match protocol.as_str() {
            "tcp" => "tcp_max_slot_table_entries",
            "udp" => "udp_slot_table_entries",
            "rdma" => "rdma_slot_table_entries",
            _ => return None,
        };
        root.number::<u64>(&format!("proc/sys/sunrpc/{name}"))
    };
    let slots: Option<u64> = mount.connections.iter().map(of_one).sum();
    slots.filter(|slots| *slots > 0)
}
