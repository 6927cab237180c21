//! Requests of an NFS mount. The kernel counts how long each took.

use std::fs::File;

use model::run::Flow;

use crate::parse::mountinfo;
use crate::parse::mountstats::{self, NfsMount};
use crate::reading::read_all;
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Nfs {
    stats: File,
    mount_point: String,
    slots: Option<u64>,
}

impl Nfs {
    /// Opens the counters of the mount with this device number.
    pub(super) fn open(root: &Root, number: u32) -> Option<Self> {
        let mounts = mountinfo::parse(&root.read("proc/self/mountinfo")?);
        let is_it = |mount: &&mountinfo::Mount| mount.device_number() == number;
        let mount_point = mounts.iter().find(is_it)?.mount_point.clone();
        let stats = root.open("proc/self/mountstats")?;
        let found = find(&stats, &mount_point, &mut Vec::new())?;
        Some(Self { stats, slots: slots(root, &found), mount_point })
    }

    pub(super) fn read(&self, now: &mut Flow, buffer: &mut Vec<u8>) {
        if let Some(found) = find(&self.stats, &self.mount_point, buffer) {
            *now = Flow { layer: now.layer, window: self.slots, ..found.flow };
        }
    }
}

fn find(stats: &File, mount_point: &str, buffer: &mut Vec<u8>) -> Option<NfsMount> {
    mountstats::nfs(&String::from_utf8_lossy(read_all(Some(stats), buffer)?), mount_point)
}

/// Returns the request slots of a mount. Both sides agree on the slots of a session, whatever its number of
/// connections; the kernel shows the number that the client requests. Without a session, each connection has its own
/// slots.
fn slots(root: &Root, mount: &NfsMount) -> Option<u64> {
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
