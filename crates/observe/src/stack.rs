//! Devices under a mount, layer by layer, down to the physical ones.

use model::target::{Backing, Device, DeviceKind};

use crate::bcache;
use crate::device::{SysfsDevice, device};
use crate::mapping;
use crate::mount;
use crate::parse::mountinfo::Mount;
use crate::raid;
use crate::root::Root;

/// Deepest stack that is followed. LVM on LUKS on LVM on RAID on partitions is 8 deep, and a loop must end.
const DEPTH_MAX: usize = 32;

/// File systems that keep their data in memory.
pub(crate) const MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "rootfs", "hugetlbfs"];

/// File systems whose data is with a server or a program, apart from FUSE and NFS with their many names.
const REMOTE: &[&str] = &[
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gpfs", "hostfs", "lustre", "ncpfs", "orangefs",
    "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs",
];

/// Storage under a mount.
#[derive(Debug)]
pub(crate) struct Stack {
    pub backing: Backing,
    /// Devices in topological order: the mounted device first, physical devices last.
    pub devices: Vec<Device>,
    /// Names of the devices that the file system uses itself.
    pub tops: Vec<String>,
    pub notes: Vec<String>,
}

/// First layer under a mount.
struct FirstLayer {
    backing: Backing,
    /// Names of the devices that the file system itself uses.
    devices: Vec<String>,
    notes: Vec<String>,
}

/// Returns true for a file system of a program. "fuseblk" is on a block device of this machine.
pub(crate) fn is_fuse(kind: &str) -> bool {
    kind == "fuse" || kind.starts_with("fuse.")
}

/// Returns true for file systems of a server or a program, apart from FUSE.
pub(crate) fn is_remote(kind: &str) -> bool {
    kind.starts_with("nfs") || REMOTE.contains(&kind)
}

/// Follows a mount, whose file system has the device numbers `major` and `minor`, down to the physical
/// devices.
pub(crate) fn stack_of_mount(root: &Root, mounts: &[Mount], mount: &Mount, numbers: (u32, u32)) -> Stack {
    walk(root, mounts, first_layer(root, mounts, mount, numbers, 0))
}

/// Follows the device with these numbers down to the physical ones.
pub(crate) fn stack_of_device(root: &Root, mounts: &[Mount], (major, minor): (u32, u32)) -> Stack {
    let devices = SysfsDevice::by_number(root, major, minor).map(|place| place.name).into_iter().collect();
    walk(root, mounts, FirstLayer { backing: Backing::Devices, devices, notes: Vec::new() })
}

fn walk(root: &Root, mounts: &[Mount], top: FirstLayer) -> Stack {
    let mut walk = Walk { root, mounts, found: Vec::new(), notes: top.notes, above: Vec::new() };
    // The walk finds devices bottom up. The reversal puts each one before its underlying devices.
    let mut tops: Vec<_> = top.devices.iter().rev().filter_map(|name| walk.visit(name)).collect();
    tops.reverse();
    let mut devices = walk.found;
    devices.reverse();
    let backing =
        if top.backing == Backing::Devices && devices.is_empty() { Backing::Unknown } else { top.backing };
    Stack { backing, devices, tops, notes: walk.notes }
}

fn first_layer(
    root: &Root,
    mounts: &[Mount],
    mount: &Mount,
    numbers: (u32, u32),
    depth: usize,
) -> FirstLayer {
    let kind = mount.file_system.as_str();
    let plain = |backing| FirstLayer { backing, devices: Vec::new(), notes: Vec::new() };
    let unknown = |note: &str| FirstLayer { notes: vec![note.to_owned()], ..plain(Backing::Unknown) };
    if MEMORY.contains(&kind) {
        return plain(Backing::Memory);
    }
    if is_fuse(kind) || is_remote(kind) {
        return plain(Backing::RemoteOrUserSpace);
    }
    let devices = match kind {
        "overlay" => return overlay(root, mounts, mount, depth),
        "zfs" => return unknown("the devices of a ZFS pool are unknown to skye: their counters are missing"),
        "btrfs" => crate::geometry::btrfs_directory(root, mount).map_or_else(Vec::new, |directory| {
            mounted_first(root, root.list(&format!("{directory}/devices")), &mount.source)
        }),
        "bcachefs" => mount.source.split(':').filter_map(|source| source_device(root, source)).collect(),
        _ => Vec::new(),
    };
    let devices = if devices.is_empty() {
        let by_number = SysfsDevice::by_number(root, numbers.0, numbers.1).map(|place| place.name);
        by_number.or_else(|| source_device(root, &mount.source)).into_iter().collect()
    } else {
        devices
    };
    if devices.is_empty() {
        return unknown(&format!("the devices under {} ({kind}) were not found", mount.mount_point));
    }
    let mut notes = Vec::new();
    if kind == "fuseblk" {
        notes.push("a user-space program serves the file system and handles each operation".to_owned());
    }
    FirstLayer { backing: Backing::Devices, devices, notes }
}

/// Follows an overlay to its upper directory, where all writes go, if that directory is visible here.
fn overlay(root: &Root, mounts: &[Mount], mount: &Mount, depth: usize) -> FirstLayer {
    let unknown =
        |note: String| FirstLayer { backing: Backing::Unknown, devices: Vec::new(), notes: vec![note] };
    let hidden = || unknown("the overlay's upper directory and its devices are not visible here".to_owned());
    let Some(upper) = mount.super_options.iter().find_map(|option| option.strip_prefix("upperdir=")) else {
        // Without a table of mounts, no options are known.
        return match mount.super_options.is_empty() {
            true => hidden(),
            false => unknown("the overlay has no upper directory: it is read-only".to_owned()),
        };
    };
    // A relative path depends on the working directory at the time of the mount.
    if !upper.starts_with('/') || !root.exists(upper) || depth >= DEPTH_MAX {
        return hidden();
    }
    match mount::find(mounts, None, upper) {
        // In a container, the path belongs to the host; here it leads elsewhere or nowhere.
        Some(lower) if lower.id != mount.id => {
            let mut layer = first_layer(root, mounts, lower, (lower.major, lower.minor), depth + 1);
            layer.notes.insert(
                0,
                format!("the overlay's upper directory is on {} ({})", lower.mount_point, lower.file_system),
            );
            layer
        }
        _ => hidden(),
    }
}

/// Moves the mounted one of several devices to the front.
fn mounted_first(root: &Root, mut names: Vec<String>, source: &str) -> Vec<String> {
    if let Some(position) =
        source_device(root, source).and_then(|name| names.iter().position(|other| *other == name))
    {
        let name = names.remove(position);
        names.insert(0, name);
    }
    names
}

/// Returns the sysfs name of a device that a mount names by its path in `/dev`.
pub(crate) fn source_device(root: &Root, source: &str) -> Option<String> {
    let below_dev = source.strip_prefix("/dev/")?;
    // A slash below "/dev" is an exclamation mark in sysfs.
    let direct = below_dev.replace('/', "!");
    // "/dev/shm" has files, whatever their names are.
    if root.exists(&format!("sys/class/block/{direct}")) {
        return Some(direct);
    }
    if below_dev.starts_with("shm/") {
        return None;
    }
    let linked = root.real(source).and_then(|path| path.rsplit('/').next().map(str::to_owned));
    if let Some(name) = linked.filter(|name| root.exists(&format!("sys/class/block/{name}"))) {
        return Some(name);
    }
    let mapping = below_dev.strip_prefix("mapper/")?;
    let mut names = root.list("sys/class/block").into_iter();
    names.find(|name| root.line(&format!("sys/class/block/{name}/dm/name")).as_deref() == Some(mapping))
}

struct Walk<'a> {
    root: &'a Root,
    mounts: &'a [Mount],
    /// Devices found so far, each before the devices on top of it.
    found: Vec<Device>,
    notes: Vec<String>,
    /// Names of the devices on the current path, to notice a loop.
    above: Vec<String>,
}

impl Walk<'_> {
    /// Adds a device after its underlying devices. Returns its sysfs name, if it exists.
    fn visit(&mut self, name: &str) -> Option<String> {
        let place = SysfsDevice::by_name(self.root, name)?;
        if self.found.iter().any(|device| device.name == place.name) {
            return Some(place.name);
        }
        if self.above.len() >= DEPTH_MAX || self.above.contains(&place.name) {
            return None;
        }
        let kind = place.kind(self.root);
        let mut device = device(self.root, &place, kind);
        let mut notes = Vec::new();
        let below = self.below(&place, kind, &mut device.details, &mut notes);
        self.notes.extend(notes);
        self.above.push(place.name.clone());
        let mut backing_devices: Vec<_> = below.iter().rev().filter_map(|name| self.visit(name)).collect();
        self.above.pop();
        backing_devices.reverse();
        device.backing_devices = backing_devices;
        self.found.push(device);
        Some(place.name)
    }

    /// Returns the names of the devices directly below. Adds the details and notes of its kind.
    fn below(
        &self,
        place: &SysfsDevice,
        kind: DeviceKind,
        details: &mut Vec<String>,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let slaves = || self.root.list(&format!("{}/slaves", place.directory));
        match kind {
            DeviceKind::Partition => vec![place.disk_name().to_owned()],
            DeviceKind::DeviceMapper => {
                let slaves = slaves();
                let parts = mapping::parts(self.root, place);
                details.extend(mapping::details(self.root, place, &parts));
                notes.extend(mapping::note(self.root, place, &parts, &slaves));
                slaves
            }
            DeviceKind::Raid => {
                details.extend(raid::details(self.root, place));
                notes.extend(raid::notes(self.root, place));
                slaves()
            }
            DeviceKind::Loop => self.backing_file(place, details, notes),
            DeviceKind::Zram => {
                let algorithms = place.line(self.root, "comp_algorithm").unwrap_or_default();
                details
                    .extend(crate::settings::chosen(&algorithms).map(|name| format!("compression {name}")));
                notes.push(format!("{} keeps its data in memory, compressed", place.name));
                Vec::new()
            }
            DeviceKind::Disk => {
                let slaves = slaves();
                let cached = bcache::details(self.root, place);
                // Other drivers, too, make disks out of disks.
                details.extend(cached.or((!slaves.is_empty()).then(|| "on other devices".to_owned())));
                notes.extend(bcache::note(self.root, place));
                slaves
            }
        }
    }

    fn backing_file(
        &self,
        place: &SysfsDevice,
        details: &mut Vec<String>,
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let Some(file) = place.line(self.root, "loop/backing_file") else { return Vec::new() };
        let path = file.strip_suffix(" (deleted)").unwrap_or(&file);
        details.push(format!("file {file}"));
        match place.line(self.root, "loop/dio").as_deref() {
            Some("1") => details.push("direct I/O to the file".to_owned()),
            Some(_) => details.push("buffered I/O to the file".to_owned()),
            None => {}
        }
        let Some(mount) = mount::find(self.mounts, None, path) else { return Vec::new() };
        let layer = first_layer(self.root, self.mounts, mount, (mount.major, mount.minor), self.above.len());
        match layer.backing {
            Backing::Devices | Backing::Simulated => {}
            Backing::Memory => notes.push(format!("{} is a file in memory", place.name)),
            Backing::RemoteOrUserSpace => {
                notes.push(format!("{} is a file on a server or in user space", place.name))
            }
            Backing::Unknown => notes.push(format!("the devices under {} were not found", place.name)),
        }
        layer.devices
    }
}
