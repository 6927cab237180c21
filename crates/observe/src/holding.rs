//! Identity of a block device, and its users: mounts, also those of other namespaces, swap space, and devices above.

use model::Target;
use model::holding::{Contents, DeviceUsage, Part};
use model::target::TargetKind;

use crate::alive::is_process_alive;
use crate::device::SysfsDevice;
use crate::parse::mountinfo::{self, Mount};
use crate::root::Root;
use crate::stack::source_device;

/// Maximum number of devices to inspect: partitions, and devices on top of them.
pub(crate) const PARTS_MAX: usize = 256;
/// Bytes before the serial number in page 0x80 of a SCSI disk's vital product data (SPC-4, 7.8.15).
const VPD_HEADER_CHARS: usize = 4;
/// Attempts to read the counters of all partitions while none is written.
const TRAFFIC_TRIES: usize = 50;
/// Bytes of a sector, the unit of sizes in sysfs.
const SECTOR_BYTES: u64 = 512;

/// File systems on block devices whose mounts have other numbers than the device.
const WITH_DEVICES: [&str; 3] = ["btrfs", "bcachefs", "zfs"];

/// Returns the identity of a block device, and everything that is on it or uses it. Returns `None` for other targets,
/// and for a device that is not in sysfs.
pub fn holding(root: &Root, target: &Target) -> Option<DeviceUsage> {
    let name = &target.top_device().filter(|_| target.kind == TargetKind::Device)?.name;
    let place = SysfsDevice::by_name(root, name)?;
    // It may have gone since.
    let parts = Some(parts(root, &all_mounts(root).visible, name)).filter(|parts| !parts.is_empty())?;
    Some(DeviceUsage {
        serial: serial(root, &place.disk),
        wwn: wwn(root, &place.disk),
        link: target
            .device_stack
            .iter()
            .find(|device| device.name == place.disk_name())
            .and_then(|disk| disk.link.clone()),
        state: state(root, &place.disk),
        size_bytes: target.space.total_bytes,
        sequence: sequence(root, &place),
        same_size: same_size(root, name),
        parts,
    })
}

/// Returns the number of a disk since the machine started, and that of a partition: "17", "17-p2".
fn sequence(root: &Root, place: &SysfsDevice) -> Option<String> {
    let disk = root.line(&format!("{}/diskseq", place.disk))?;
    let partition = if place.is_partition { Some(place.line(root, "partition")?) } else { None };
    Some(partition.map_or(disk.clone(), |number| format!("{disk}-p{number}")))
}

/// Traffic of a device since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Sectors read.
    pub read_sectors: u64,
    /// Sectors written or discarded.
    pub written_sectors: u64,
    /// The same of the whole disk.
    pub whole_disk_written_sectors: u64,
    /// Sectors written to the disk of a partition by no partition; `None` for a disk, and while other partitions are written.
    pub disk_written_sectors: Option<u64>,
}

/// Returns the traffic of a device.
pub fn traffic(root: &Root, name: &str) -> Option<Traffic> {
    let place = SysfsDevice::by_name(root, name)?;
    // Sectors read, written and discarded are the third, seventh and fourteenth field (Documentation/block/stat.rst).
    let count = |directory: &str| {
        let text = root.line(&format!("{directory}/stat"))?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let discarded = fields.get(13).copied().unwrap_or(0);
        Some((*fields.get(2)?, fields.get(6)?.wrapping_add(discarded)))
    };
    let (read_sectors, written_sectors) = count(&place.directory)?;
    let by_partitions = || {
        let partitions = root.list(&place.disk).into_iter().map(|name| format!("{}/{name}", place.disk));
        let partitions = partitions.filter(|at| root.exists(&format!("{at}/partition")));
        partitions.filter_map(|at| count(&at)).fold(0u64, |sum, (_, written)| sum.wrapping_add(written))
    };
    // The counters are not read at one instant, so that the partitions' must be the same before and after the disk's.
    let past_partitions = || {
        let (before, disk, after) = (by_partitions(), count(&place.disk)?.1, by_partitions());
        (before == after).then(|| disk.wrapping_sub(after))
    };
    let tries = if place.is_partition { TRAFFIC_TRIES } else { 0 };
    let disk_written_sectors = (0..tries).find_map(|_| past_partitions());
    let whole_disk_written_sectors = count(&place.disk)?.1;
    Some(Traffic { read_sectors, written_sectors, whole_disk_written_sectors, disk_written_sectors })
}

/// Returns the name of the disk that has a device.
pub fn disk_of(root: &Root, name: &str) -> Option<String> {
    SysfsDevice::by_name(root, name).map(|place| place.disk_name().to_owned())
}

/// Returns the other devices that have the size of this one. Those with a serial number or WWN do not count.
fn same_size(root: &Root, name: &str) -> Vec<String> {
    let sectors = |place: &SysfsDevice| place.line(root, "size").filter(|sectors| sectors != "0");
    let Some(own) = SysfsDevice::by_name(root, name).as_ref().and_then(sectors) else { return Vec::new() };
    let others = root.list("sys/class/block").into_iter().filter(|other| other != name);
    let is_same = |other: &String| {
        SysfsDevice::by_name(root, other).filter(|other| !other.is_hidden(root)).is_some_and(|other| {
            sectors(&other).as_ref() == Some(&own)
                && serial(root, &other.disk).is_none()
                && wwn(root, &other.disk).is_none()
        })
    };
    others.filter(is_same).collect()
}

/// Returns the serial number of a disk: as NVMe and MMC have it, as virtio has it, as SCSI and ATA have it.
pub(crate) fn serial(root: &Root, disk: &str) -> Option<String> {
    let line = |file: &str| words(root.line(&format!("{disk}/{file}")));
    line("device/serial").or_else(|| line("serial")).or_else(|| {
        let page = root.read(&format!("{disk}/device/vpd_pg80"))?;
        words(Some(page.chars().skip(VPD_HEADER_CHARS).filter(|c| !c.is_control()).collect()))
    })
}

/// Returns the world wide name of a disk: as NVMe has it, as SCSI and ATA have it.
pub(crate) fn wwn(root: &Root, disk: &str) -> Option<String> {
    ["wwid", "device/wwid"].iter().find_map(|file| words(root.line(&format!("{disk}/{file}"))))
}

/// Returns the state of a disk as the drivers of NVMe and SCSI tell it, and the commands that failed since its driver
/// found it.
fn state(root: &Root, disk: &str) -> Vec<String> {
    let failed = root.line(&format!("{disk}/device/ioerr_cnt")).and_then(|text| {
        let failed = u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
        match failed {
            0 => None,
            1 => Some("1 command has failed".into()),
            _ => Some(format!("{failed} commands have failed")),
        }
    });
    words(root.line(&format!("{disk}/device/state"))).into_iter().chain(failed).collect()
}

/// Returns a text with single blanks between its words; absent if it has none.
fn words(text: Option<String>) -> Option<String> {
    let text = text?.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// A mount, and the process in whose namespace it is; none for the namespace of this process.
pub(crate) struct VisibleMount {
    pub mount: Mount,
    pub process: Option<i32>,
}

/// Returns the mounts of the namespace of this process.
pub(crate) fn own_mounts(mounts: &[Mount]) -> Vec<VisibleMount> {
    mounts.iter().map(|mount| VisibleMount { mount: mount.clone(), process: None }).collect()
}

/// Mounts of all namespaces.
pub(crate) struct AllMounts {
    /// Mounts that this user may see, those of this process first.
    pub visible: Vec<VisibleMount>,
    /// Living processes whose mounts this user may not see.
    pub unreadable_pids: Vec<i32>,
}

/// Reads the mounts of all processes.
pub(crate) fn all_mounts(root: &Root) -> AllMounts {
    let own = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let mut all = AllMounts { visible: own_mounts(&own), unreadable_pids: Vec::new() };
    // A process sees the mounts of its namespace below its root directory alone.
    let view = |process: &str| {
        let of = |name: &str| root.real(&format!("proc/{process}/{name}"));
        of("ns/mnt").zip(of("root"))
    };
    let mut views: Vec<_> = view("self").into_iter().collect();
    for process in root.list("proc").iter().filter_map(|name| name.parse::<i32>().ok()) {
        // Without the links, the view is unknown, and the mounts are read once more.
        let view = view(&process.to_string());
        if view.as_ref().is_some_and(|view| views.contains(view)) {
            continue;
        }
        let Some(text) = root.read(&format!("proc/{process}/mountinfo")) else {
            all.unreadable_pids.extend(is_process_alive(root, process).then_some(process));
            continue;
        };
        views.extend(view);
        let others = mountinfo::parse(&text).into_iter().filter(|mount| !own.contains(mount));
        all.visible.extend(others.map(|mount| VisibleMount { mount, process: Some(process) }));
    }
    all
}

/// Returns a device, its partitions, the devices on top of them, and the uses of each.
pub(crate) fn parts(root: &Root, mounts: &[VisibleMount], name: &str) -> Vec<Part> {
    let swaps = root.read("proc/swaps").unwrap_or_default();
    let backing_pairs = backing_pairs(root);
    let mut names = vec![name.to_owned()];
    let mut parts = Vec::new();
    let mut index = 0;
    while let Some(name) = names.get(index).cloned() {
        index += 1;
        let Some(place) = SysfsDevice::by_name(root, &name) else { continue };
        let is_partition = |child: &String| root.exists(&format!("{}/{child}/partition", place.directory));
        let partitions = root.list(&place.directory).into_iter().filter(is_partition);
        for above in partitions.chain(above(root, &backing_pairs, &place)) {
            if names.len() < PARTS_MAX && !names.contains(&above) {
                names.push(above);
            }
        }
        let sectors: u64 = place.line(root, "size").and_then(|text| text.parse().ok()).unwrap_or(0);
        parts.push(Part {
            size_bytes: sectors.saturating_mul(SECTOR_BYTES),
            is_partition: place.is_partition,
            uses: uses(root, mounts, &swaps, &place, &name),
            contents: Contents::NotRead,
            name,
        });
    }
    parts
}

/// Devices, each with the device directly below it, which have no entry in `holders`.
type BackingPairs = Vec<(String, String)>;

/// Returns loop devices on block devices, and compressed memory that is written back to one.
pub(crate) fn backing_pairs(root: &Root) -> BackingPairs {
    let file = |name: &String| match name {
        _ if name.starts_with("loop") => Some("loop/backing_file"),
        _ if name.starts_with("zram") => Some("backing_dev"),
        _ => None,
    };
    let names = root.list("sys/class/block").into_iter();
    let backing_pairs = names.filter_map(|name| {
        let path = root.line(&format!("sys/class/block/{name}/{}", file(&name)?))?;
        Some((name, source_device(root, &path)?))
    });
    backing_pairs.collect()
}

/// Returns the devices that lie directly on a device, without its partitions.
pub(crate) fn above(root: &Root, backing_pairs: &BackingPairs, place: &SysfsDevice) -> Vec<String> {
    let mut names = root.list(&format!("{}/holders", place.directory));
    names.extend(
        backing_pairs.iter().filter(|(_, below)| *below == place.name).map(|(above, _)| above.clone()),
    );
    names
}

/// Returns the uses of one device itself.
fn uses(root: &Root, mounts: &[VisibleMount], swaps: &str, place: &SysfsDevice, name: &str) -> Vec<String> {
    let mut uses = Vec::new();
    let numbers = place.line(root, "dev").unwrap_or_default();
    let is_on =
        |visible: &&VisibleMount| format!("{}:{}", visible.mount.major, visible.mount.minor) == numbers;
    // Any user may give another file system any source.
    let is_source = |visible: &&VisibleMount| {
        let mount = &visible.mount;
        let has_device = mount.major != 0 || WITH_DEVICES.contains(&mount.file_system.as_str());
        has_device && source_device(root, &mount.source).as_deref() == Some(name)
    };
    if let Some(VisibleMount { mount, process }) =
        mounts.iter().find(is_on).or_else(|| mounts.iter().find(is_source))
    {
        let elsewhere =
            process.map_or(String::new(), |process| format!(" in the mount namespace of process {process}"));
        uses.push(format!("is mounted at {}{elsewhere}", mount.mount_point));
    } else if root
        .list("sys/fs/btrfs")
        .iter()
        .any(|file_system| root.exists(&format!("sys/fs/btrfs/{file_system}/devices/{name}")))
    {
        // Of a btrfs on several devices, the list of mounts names only one.
        uses.push("is part of a mounted btrfs".into());
    }
    let mut swapped = swaps.lines().filter_map(|line| line.split_whitespace().next());
    if swapped.any(|source| source_device(root, source).as_deref() == Some(name)) {
        uses.push("is swap space".into());
    }
    uses
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    /// A machine with a SCSI disk of two partitions: a mapping and a loop device are on the first, the second is swap
    /// space.
    fn machine() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &[u8]| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let disk = "sys/devices/pci0/block/sda";
        let virtual_ = "sys/devices/virtual/block";
        for (directory, number) in [
            (disk.to_owned(), "8:0"),
            (format!("{disk}/sda1"), "8:1"),
            (format!("{disk}/sda2"), "8:2"),
            (format!("{virtual_}/dm-0"), "253:0"),
            (format!("{virtual_}/loop3"), "7:3"),
        ] {
            write(&format!("{directory}/dev"), format!("{number}\n").as_bytes());
            write(&format!("{directory}/size"), b"2048\n");
            let name = Path::new(&directory).file_name().unwrap().to_str().unwrap().to_owned();
            let class = home.path().join("sys/class/block");
            fs::create_dir_all(&class).unwrap();
            symlink(format!("/{directory}"), class.join(&name)).unwrap();
            write(&format!("dev/{name}"), b"");
        }
        write(&format!("{disk}/sda1/partition"), b"1\n");
        write(&format!("{disk}/sda2/partition"), b"2\n");
        write(&format!("{disk}/sda1/holders/dm-0/x"), b"");
        write(&format!("{virtual_}/loop3/loop/backing_file"), b"/dev/sda1\n");
        write(&format!("{disk}/device/vpd_pg80"), b"\0\x80\0\x0cS4EW  NF0M12");
        write(&format!("{disk}/device/wwid"), b"naa.5002538e40a1b2c3\n");
        write("proc/swaps", b"Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n");
        write("proc/self/mountinfo", b"20 1 9:9 / / rw - ext4 /dev/other rw\n");
        write("proc/77/mountinfo", b"31 1 253:0 / /jail rw - xfs /dev/mapper/data rw\n");
        home
    }

    fn described(parts: &[Part]) -> Vec<String> {
        parts.iter().map(|part| format!("{}: {}", part.name, part.uses.join(", "))).collect()
    }

    #[test]
    fn everything_above_a_disk_is_found() {
        let home = machine();
        let root = Root::at(home.path());
        let found = parts(&root, &all_mounts(&root).visible, "sda");
        assert_eq!(
            described(&found),
            [
                "sda: ",
                "sda1: ",
                "sda2: is swap space",
                "dm-0: is mounted at /jail in the mount namespace of process 77",
                "loop3: ",
            ]
        );
        assert!(found.iter().all(|part| part.size_bytes == 1 << 20));
        assert_eq!(found.iter().filter(|part| part.is_partition).count(), 2);
        // Devices on a partition are its users, and its neighbour is not.
        let part = parts(&root, &all_mounts(&root).visible, "sda1");
        assert_eq!(part.iter().map(|part| &part.name).collect::<Vec<_>>(), ["sda1", "dm-0", "loop3"]);
    }

    #[test]
    fn btrfs_member_is_in_use_without_own_mount() {
        let home = machine();
        let member = home.path().join("sys/fs/btrfs/0a-1b/devices");
        fs::create_dir_all(&member).unwrap();
        fs::write(member.join("sda"), "").unwrap();
        let root = Root::at(home.path());
        assert_eq!(described(&parts(&root, &[], "sda"))[0], "sda: is part of a mounted btrfs");
    }

    #[test]
    fn serial_number_is_read_from_disk_attributes() {
        let home = machine();
        let root = Root::at(home.path());
        let disk = "sys/devices/pci0/block/sda";
        assert_eq!(serial(&root, disk).as_deref(), Some("S4EW NF0M12"));
        fs::write(home.path().join(disk).join("serial"), "vd-7\n").unwrap();
        assert_eq!(serial(&root, disk).as_deref(), Some("vd-7"));
        fs::write(home.path().join(disk).join("device/serial"), "  NV 12  \n").unwrap();
        assert_eq!(serial(&root, disk).as_deref(), Some("NV 12"));
        assert_eq!(serial(&root, "sys/devices/virtual/block/loop3"), None);
    }

    #[test]
    fn disk_state_comes_from_driver() {
        let home = machine();
        let (root, disk) = (Root::at(home.path()), "sys/devices/pci0/block/sda");
        let write = |name: &str, text: &str| {
            fs::write(home.path().join(disk).join("device").join(name), text).unwrap()
        };
        assert!(state(&root, disk).is_empty());
        write("state", "running\n");
        write("ioerr_cnt", "0x0\n");
        assert_eq!(state(&root, disk), ["running"]);
        write("ioerr_cnt", "0x1f\n");
        assert_eq!(state(&root, disk), ["running", "31 commands have failed"]);
    }
}
