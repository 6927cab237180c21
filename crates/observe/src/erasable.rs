//! Reasons not to erase a block device: its users, and places in which users may hide.
//!
//! The kernel's own lock is stronger than these checks. An open with `O_EXCL` fails while a file system of any mount
//! namespace, swap space, md or the device mapper holds the device. The same is true of a partition of it, and of the
//! disk of a partition. Some users have no such lock: loop devices on the device, processes that have it open, and
//! other paths to the same disk. These checks find them, and list the others by name.
//!
//! Erasing inside a container is allowed, for example on a loop device that it owns. It is refused if the container
//! could hide a user:
//! - The PID namespace is not the initial one, so that some processes are invisible. The kernel gives the initial one a
//!   fixed inode number.
//! - `/proc` or `/sys` is not mounted at its place, is mounted with `hidepid`, or is partly covered by other mounts.
//! - A running process has unreadable mounts or open files.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block_device::{Backing, BlockDevice, FileId, backing};
use crate::device::{SysfsDevice, numbers};
use crate::hiding::hidden;
use crate::holding::{PARTS_MAX, VisibleMount, above, all_mounts, backing_pairs, parts, serial, wwn};
use crate::loop_file::{LoopFile, kernel_uses, loop_path};
use crate::openers::{SearchTarget, openers};
use crate::parse::mountinfo::Mount;
use crate::root::Root;

/// Time after which a process that is just ending is gone.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(125);

/// Reasons not to erase a device, as clauses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Uses of the device, of all devices and mounts on top of it, and of the disk that it is a part of.
    pub uses: Vec<String>,
    /// Places in which users may hide.
    pub hidden: Vec<String>,
    /// Processes that may use it, as their files cannot be read.
    pub unreadable: Vec<String>,
    /// Reasons why the file of a loop device, or a file that the kernel uses, cannot be found.
    pub unresolved: Vec<String>,
    /// Other disks with the same serial number but different WWNs, such as namespaces of an NVMe controller.
    pub same_serial: Vec<String>,
}

/// Finds all reasons not to erase the device of this name. Without its descriptor, files of loop devices are not
/// checked. `progress` counts steps of the search. An error that `root` has recorded is a reason.
pub fn obstacles(root: &Root, name: &str, device: Option<BorrowedFd<'_>>, progress: &AtomicU64) -> Obstacles {
    let (hidden, unreadable) = hidden(root);
    let mut found = Obstacles { hidden, unreadable, ..Obstacles::default() };
    let Some(place) = SysfsDevice::by_name(root, name) else {
        let why = root.failure().map_or_else(|| format!("{name} is not in sysfs"), str::to_owned);
        found.hidden.push(why);
        return found;
    };
    let mut mounts = all_mounts(root);
    if !mounts.unreadable_pids.is_empty() {
        // A process that is just ending has lost its mounts, and is gone a moment later.
        std::thread::sleep(PAUSE);
        mounts = all_mounts(root);
    }
    found.unreadable.extend(unreadable_clause("mounts", &mounts.unreadable_pids));
    progress.fetch_add(1, Ordering::Relaxed);
    let parts = parts(root, &mounts.visible, name);
    if parts.len() >= PARTS_MAX {
        found.hidden.push(format!("more than {PARTS_MAX} devices are on top of it"));
    }
    let mut family = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        found.uses.extend(part.uses.iter().map(|use_| format!("{} {use_}", part.name)));
        if index > 0 && !part.is_partition {
            found.uses.push(format!("{} is on top of it", part.name));
        } else {
            family.extend(SysfsDevice::by_name(root, &part.name));
        }
    }
    if place.is_partition {
        family.extend(whole_disk(root, &place, &mounts.visible, &mut found));
    }
    other_paths(root, &place, &mut found);
    let exported = exported(root);
    found.uses.extend(exports(root, &exported, &family));
    let own = device.and_then(|device| loops(root, device, &place, &family, &mounts.visible, &mut found));
    let id = own.map(|(id, _)| id);
    if let Some(id) = id {
        let paths: Vec<_> = exported.into_iter().map(|(_, path)| path).collect();
        let kernel = kernel_uses(root, &mounts.visible, &paths, id);
        found.uses.extend(kernel.uses);
        found.unresolved.extend(kernel.unknown);
    }
    let file_bytes = own.and_then(|(_, file)| Some(file?.size_bytes));
    let wanted = SearchTarget::new(root, &family, id, file_bytes);
    let opened = openers(root, &wanted, progress);
    found.uses.extend(opened.by);
    found.uses.extend(
        opened
            .ended
            .last()
            .map(|process| format!("processes such as {process} exit before their open files can be read")),
    );
    found.unreadable.extend(unreadable_clause("open files", &opened.unreadable_files));
    found.unreadable.extend(unreadable_clause("rings of io_uring", &opened.unreadable_rings));
    // An empty list is no error.
    let lists_device = root.list("sys/class/block").iter().any(|listed| listed == name);
    found.hidden.extend((!lists_device).then(|| format!("/sys/class/block does not list {name}")));
    found.hidden.extend(opened.is_incomplete.then(|| "/proc does not list this process".to_owned()));
    found.hidden.extend(root.failure().map(str::to_owned));
    found
}

/// Adds the uses of the disk of a partition, and returns that disk.
fn whole_disk(
    root: &Root,
    partition: &SysfsDevice,
    mounts: &[VisibleMount],
    found: &mut Obstacles,
) -> Option<SysfsDevice> {
    let name = partition.disk_name();
    let whole = parts(root, mounts, name);
    let uses = whole.iter().filter(|part| part.name == name).flat_map(|part| &part.uses);
    found.uses.extend(uses.map(|use_| format!("its disk {name} {use_}")));
    let disk = SysfsDevice::by_name(root, name)?;
    let on_disk = above(root, &backing_pairs(root), &disk);
    found.uses.extend(on_disk.into_iter().map(|above| format!("{above} is on its disk {}", disk.name)));
    found.uses.extend(overlapping(root, &disk, partition));
    Some(disk)
}

/// Returns the clause on processes of which something cannot be read.
fn unreadable_clause(what: &str, processes: &[i32]) -> Option<String> {
    match processes {
        [] => None,
        [process] => Some(format!("the {what} of process {process} cannot be read")),
        [process, ..] => Some(format!(
            "the {what} of {} processes cannot be read, such as those of process {process}",
            processes.len()
        )),
    }
}

/// Returns other partitions of a disk that share sectors with a partition.
fn overlapping(root: &Root, disk: &SysfsDevice, partition: &SysfsDevice) -> Vec<String> {
    let sectors = |place: &SysfsDevice| {
        let number = |name: &str| place.line(root, name)?.parse::<u64>().ok();
        let start = number("start")?;
        Some(start..start.saturating_add(number("size")?))
    };
    let Some(own) = sectors(partition) else { return Vec::new() };
    let names = root.list(&disk.directory).into_iter();
    let others = names.filter(|name| {
        let other = SysfsDevice::by_name(root, name)
            .filter(|other| other.is_partition && other.name != partition.name);
        other.as_ref().and_then(sectors).is_some_and(|other| other.start < own.end && own.start < other.end)
    });
    others.map(|name| format!("{name} shares sectors with it")).collect()
}

/// Adds other devices that are the same disk by another path, or that have its serial number.
fn other_paths(root: &Root, place: &SysfsDevice, found: &mut Obstacles) {
    let identity = |disk: &str| (serial(root, disk), wwn(root, disk));
    let (serial, wwn) = identity(&place.disk);
    for name in root.list("sys/class/block") {
        let Some(other) = SysfsDevice::by_name(root, &name) else { continue };
        // A slot without a card has the serial number of its reader.
        let is_empty = other.line(root, "size").as_deref() == Some("0");
        if other.is_partition || other.disk == place.disk || is_empty || other.is_hidden(root) {
            continue;
        }
        let theirs = identity(&other.disk);
        let is_namesake = theirs.0.is_some() && theirs.0 == serial;
        match (&wwn, &theirs.1) {
            (Some(own), Some(theirs)) if own == theirs => {
                found.uses.push(format!("{name} is another path to the same disk"));
            }
            (Some(_), Some(_)) if is_namesake => found.same_serial.push(name),
            _ if is_namesake => {
                found.uses.push(format!(
                    "{name} has the same serial number, and there is no WWN to distinguish them"
                ));
            }
            _ => {}
        }
    }
}

/// Returns what drivers of this machine export without a lock on it: by which driver, and paths of devices or files.
fn exported(root: &Root) -> Vec<(String, String)> {
    const CONFIG: &str = "sys/kernel/config";
    let mut found = Vec::new();
    let subsystems = format!("{CONFIG}/nvmet/subsystems");
    for subsystem in root.list(&subsystems) {
        for number in root.list(&format!("{subsystems}/{subsystem}/namespaces")) {
            let at = format!("{subsystems}/{subsystem}/namespaces/{number}");
            let is_on = root.line(&format!("{at}/enable")).as_deref() == Some("1");
            let path = root.line(&format!("{at}/device_path")).filter(|_| is_on);
            found.extend(path.map(|path| (format!("over NVMe as {subsystem}"), path)));
        }
    }
    let cores = format!("{CONFIG}/target/core");
    for core in root.list(&cores) {
        // `fd_show_configfs_dev_params` and `iblock_show_configfs_dev_params` (drivers/target).
        let label = match core.split('_').next() {
            Some("fileio") => "File: ",
            Some("iblock") => "UDEV PATH: ",
            _ => continue,
        };
        for name in root.list(&format!("{cores}/{core}")) {
            let text = root.read(&format!("{cores}/{core}/{name}/info")).unwrap_or_default();
            let path = text.split_once(label).and_then(|(_, rest)| rest.split_once("  "));
            found.extend(path.map(|(path, _)| (format!("over SCSI as {name}"), path.to_owned())));
        }
    }
    let gadgets = format!("{CONFIG}/usb_gadget");
    for gadget in root.list(&gadgets) {
        let functions = format!("{gadgets}/{gadget}/functions");
        for function in root.list(&functions).into_iter().filter(|name| name.starts_with("mass_storage.")) {
            for unit in root.list(&format!("{functions}/{function}")) {
                let path = root.line(&format!("{functions}/{function}/{unit}/file"));
                let path = path.filter(|path| !path.is_empty());
                found.extend(path.map(|path| (format!("over USB as {gadget}"), path)));
            }
        }
    }
    found
}

/// Returns the devices of a family that are exported.
fn exports(root: &Root, exported: &[(String, String)], family: &[SysfsDevice]) -> Vec<String> {
    let found = exported.iter().filter_map(|(driver, path)| {
        let device = crate::stack::source_device(root, path)?;
        family.iter().any(|place| place.name == device).then_some((driver, device))
    });
    found.map(|(driver, device)| format!("{device} is exported {driver}")).collect()
}

/// Asks each loop device for its file: paths of other mount namespaces mislead. Adds those on a device of the family, and
/// those that share the file or the device below a loop. Returns the file below the loop itself.
fn loops(
    root: &Root,
    device: BorrowedFd<'_>,
    place: &SysfsDevice,
    family: &[SysfsDevice],
    mounts: &[VisibleMount],
    found: &mut Obstacles,
) -> Option<(FileId, Option<LoopFile>)> {
    let disk = place.disk_name();
    let names = root.list("sys/class/block").into_iter().filter(|name| name.starts_with("loop"));
    let own = own_backing(root, device, disk, found);
    let is_attached = |name: &str| root.exists(&format!("sys/class/block/{name}/loop/backing_file"));
    let mut others: Vec<_> = names.filter(|name| is_attached(name) && name != disk).collect();
    while let Some(name) = others.pop() {
        let Some(other) = backing_by_name(root, &name) else {
            // It may have been detached since.
            if is_attached(&name) {
                found.hidden.push(format!("the backing file of {name} is unknown"));
            }
            continue;
        };
        let is_below = |place: &&SysfsDevice| numbers(root, place) == other.numbers && !is_on_file(&other);
        let already = format!("{name} is on ");
        if let Some(below) = family.iter().find(is_below)
            && !found.uses.iter().any(|use_| use_.starts_with(&already))
        {
            found.uses.push(format!("{name} is on {}", below.name));
        }
        let Some((own, file)) = &own else { continue };
        if own.file == other.file {
            found.uses.push(format!("{name} has the same backing file"));
            continue;
        }
        if !is_on_file(&other) {
            continue;
        }
        let theirs = LoopFile::find(root, &name, other);
        // Without a path to it, a file is on the file system that is mounted from that device.
        let is_unique = theirs.map_or_else(
            || other.file.device.0 != 0 && !mounts.iter().any(|seen| is_fuse_at(seen, other.file.device)),
            |theirs| theirs.is_unique,
        );
        let ends = [(disk, file), (&name, &theirs)].map(|(name, file)| ends(root, name, file.as_ref()));
        if is_unique || !may_be_equal(&ends) {
            continue;
        }
        if backing_by_name(root, &name) == Some(other) {
            found.uses.push(format!("{name} may have the same backing file, by another path"));
        } else {
            // Its sizes may be of no file, or of the next one.
            others.push(name);
        }
    }
    own.map(|(own, file)| (own.file, file))
}

/// Returns the backing of the loop device itself, and its file. Adds the reasons why other paths may lead to that file.
fn own_backing(
    root: &Root,
    device: BorrowedFd<'_>,
    disk: &str,
    found: &mut Obstacles,
) -> Option<(Backing, Option<LoopFile>)> {
    if !disk.starts_with("loop") {
        return None;
    }
    // The path may lead to another device by now.
    let Some(own) = backing(device) else {
        found.hidden.push(format!("the backing file of {disk} is unknown"));
        return None;
    };
    if !is_on_file(&own) {
        found.uses.push("it is a loop device on another device: choose that one".into());
        return Some((own, None));
    }
    let file = LoopFile::find(root, disk, own);
    match file {
        None => {
            let path = loop_path(root, disk).unwrap_or_default();
            found.unresolved.push(format!(
                "its backing file {} has no path: the file is deleted, or its mount is gone or hidden",
                path.display()
            ));
        }
        Some(file) if !file.is_unique => {
            found.uses.push("its backing file is on an overlay or a server, and may have another path".into())
        }
        Some(_) => {}
    }
    Some((own, file))
}

/// Returns the backing of the loop device of this name.
fn backing_by_name(root: &Root, name: &str) -> Option<Backing> {
    let file = root.open(&format!("dev/{name}"))?;
    let opened = BlockDevice::from_fd(file.as_fd()).ok()?;
    let place = SysfsDevice::by_name(root, name);
    let is_it = place.map(|place| numbers(root, &place)) == Some((opened.major, opened.minor));
    backing(file).filter(|_| is_it)
}

/// Returns true for a loop device on a file, which has no device numbers.
fn is_on_file(backing: &Backing) -> bool {
    backing.numbers == (0, 0)
}

/// Returns true for a mount of FUSE with these device numbers.
fn is_fuse_at(visible: &VisibleMount, device: (u32, u32)) -> bool {
    let Mount { major, minor, file_system, .. } = &visible.mount;
    (*major, *minor) == device && file_system.starts_with("fuse")
}

/// Returns the sizes that are known of a file below a loop device: when the device was set up, and now. A limit hides the
/// first one.
fn ends(root: &Root, name: &str, file: Option<&LoopFile>) -> Vec<u64> {
    let number = |file: &str| root.number::<u64>(&format!("sys/class/block/{name}/{file}"));
    let end = || {
        let is_limited = number("loop/sizelimit")? > 0;
        let end = number("loop/offset")?.checked_add(number("size")?.checked_mul(512)?)?;
        (!is_limited).then_some(end)
    };
    end().into_iter().chain(file.map(|file| file.size_bytes)).collect()
}

/// Returns true if two files may be one. Files of which no size is known may be.
fn may_be_equal([one, other]: &[Vec<u64>; 2]) -> bool {
    let is_equal = |one: &u64| other.iter().any(|other| one.abs_diff(*other) < 512);
    one.is_empty() || other.is_empty() || one.iter().any(is_equal)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::hiding::INITIAL_PID_NAMESPACE;

    /// A machine with two disks of two partitions each, in sight of everything.
    fn machine() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (number, disk) in [(0, "sda"), (16, "sdb")] {
            let at = format!("sys/devices/pci0/block/{disk}");
            write(format!("{at}/dev"), &format!("8:{number}\n"));
            write(format!("{at}/size"), "4096\n");
            write(format!("{at}/device/serial"), &format!("serial-{disk}\n"));
            for part in 1..=2 {
                let at = format!("{at}/{disk}{part}");
                write(format!("{at}/dev"), &format!("8:{}\n", number + part));
                write(format!("{at}/partition"), "1\n");
                write(format!("{at}/start"), &format!("{}\n", part * 1024));
                write(format!("{at}/size"), "1024\n");
            }
        }
        let class = home.path().join("sys/class/block");
        fs::create_dir_all(&class).unwrap();
        for disk in ["sda", "sdb"] {
            symlink(format!("/sys/devices/pci0/block/{disk}"), class.join(disk)).unwrap();
            for part in 1..=2 {
                let name = format!("{disk}{part}");
                symlink(format!("/sys/devices/pci0/block/{disk}/{name}"), class.join(name)).unwrap();
            }
        }
        write("proc/swaps".into(), "Filename Type Size Used Priority\n");
        write("proc/self/mountinfo".into(), MOUNTS);
        // A tree has no magic links, so this one leads to a file of that name.
        write(format!("proc/ns/{INITIAL_PID_NAMESPACE}"), "");
        fs::create_dir_all(home.path().join("proc/self/ns")).unwrap();
        symlink(format!("/proc/ns/{INITIAL_PID_NAMESPACE}"), home.path().join("proc/self/ns/pid")).unwrap();
        home
    }

    const MOUNTS: &str = "20 1 9:9 / / rw - ext4 /dev/other rw\n\
                          21 20 0:5 / /proc rw - proc proc rw\n\
                          22 20 0:6 / /sys rw - sysfs sysfs rw\n\
                          23 22 0:7 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n\
                          24 21 0:8 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n";

    fn found(home: &tempfile::TempDir, name: &str) -> Obstacles {
        obstacles(&Root::at(home.path()), name, None, &AtomicU64::new(0))
    }

    fn obstacle_texts(home: &tempfile::TempDir, name: &str) -> (Vec<String>, Vec<String>) {
        let Obstacles { uses, hidden, unreadable, .. } = found(home, name);
        (uses, [hidden, unreadable].concat())
    }

    fn set(home: &tempfile::TempDir, path: &str, text: &str) {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn free_disk_is_erasable_and_missing_disk_is_hidden() {
        let home = machine();
        for name in ["sda", "sda1", "sdb2"] {
            assert_eq!(obstacle_texts(&home, name), (vec![], vec![]), "{name}");
        }
        assert_eq!(obstacle_texts(&home, "sdc"), (vec![], vec!["sdc is not in sysfs".into()]));
    }

    #[test]
    fn use_of_disk_blocks_partition_and_vice_versa() {
        let home = machine();
        set(&home, "sys/devices/pci0/block/sda/holders/dm-3/x", "");
        assert_eq!(
            obstacle_texts(&home, "sda").0,
            ["dm-3 is on top of it".to_owned()][..0],
            "a holder without a device"
        );
        assert_eq!(obstacle_texts(&home, "sda1").0, ["dm-3 is on its disk sda"]);
        set(&home, "sys/devices/virtual/block/dm-3/dev", "253:3\n");
        symlink("/sys/devices/virtual/block/dm-3", home.path().join("sys/class/block/dm-3")).unwrap();
        assert_eq!(obstacle_texts(&home, "sda").0, ["dm-3 is on top of it"]);
        assert_eq!(obstacle_texts(&home, "sdb").0, Vec::<String>::new());
        set(&home, "dev/sdb2", "");
        set(&home, "proc/swaps", "Filename\n/dev/sdb2 partition 1 0 -2\n");
        assert_eq!(obstacle_texts(&home, "sdb").0, ["sdb2 is swap space"]);
        assert_eq!(obstacle_texts(&home, "sdb1").0, Vec::<String>::new());
        set(&home, "proc/self/mountinfo", &format!("{MOUNTS}30 20 8:16 / /whole rw - xfs /dev/sdb rw\n"));
        assert_eq!(obstacle_texts(&home, "sdb1").0, ["its disk sdb is mounted at /whole"]);
        set(&home, "sys/devices/pci0/block/sdb/sdb2/start", "2000\n");
        assert_eq!(obstacle_texts(&home, "sdb1").0.last().unwrap(), "sdb2 shares sectors with it");
    }

    #[test]
    fn second_path_to_same_disk_is_a_use() {
        let home = machine();
        set(&home, "sys/devices/pci0/block/sdb/device/serial", "serial-sda\n");
        let text = "sdb has the same serial number, and there is no WWN to distinguish them";
        assert_eq!(obstacle_texts(&home, "sda1").0, [text]);
        // Neither a path that the kernel hides nor an empty slot is another disk.
        set(&home, "sys/devices/pci0/block/sdb/hidden", "1\n");
        assert_eq!(obstacle_texts(&home, "sda1").0, Vec::<String>::new());
        set(&home, "sys/devices/pci0/block/sdb/hidden", "0\n");
        set(&home, "sys/devices/pci0/block/sdb/size", "0\n");
        assert_eq!(obstacle_texts(&home, "sda1").0, Vec::<String>::new());
        set(&home, "sys/devices/pci0/block/sdb/size", "4096\n");
        set(&home, "sys/devices/pci0/block/sda/device/wwid", "naa.1\n");
        set(&home, "sys/devices/pci0/block/sdb/device/wwid", "naa.2\n");
        let same_serial = Obstacles { same_serial: vec!["sdb".into()], ..Obstacles::default() };
        assert_eq!(found(&home, "sda"), same_serial);
        set(&home, "sys/devices/pci0/block/sdb/device/wwid", "naa.1\n");
        assert_eq!(obstacle_texts(&home, "sda").0, ["sdb is another path to the same disk"]);
    }

    #[test]
    fn device_exported_by_any_driver_is_in_use() {
        let home = machine();
        let at = "sys/kernel/config/nvmet/subsystems/tank/namespaces/1";
        set(&home, &format!("{at}/device_path"), "/dev/sda2\n");
        set(&home, &format!("{at}/enable"), "0\n");
        assert_eq!(obstacle_texts(&home, "sda").0, Vec::<String>::new());
        set(&home, &format!("{at}/enable"), "1\n");
        assert_eq!(obstacle_texts(&home, "sda").0, ["sda2 is exported over NVMe as tank"]);
        let text = "Status: ACTIVATED  Max Queue Depth: 128\n        TCM FILEIO ID: 0        \
                    File: /dev/sdb1  Size: 2097152  Mode: Buffered-WCE Async: 0\n";
        set(&home, "sys/kernel/config/target/core/fileio_0/disk1/info", text);
        assert_eq!(obstacle_texts(&home, "sdb").0, ["sdb1 is exported over SCSI as disk1"]);
        let text = "Status: ACTIVATED  Max Queue Depth: 128\n        iBlock device: sda  UDEV PATH: /dev/sda1  readonly: 0\n";
        set(&home, "sys/kernel/config/target/core/iblock_0/disk2/info", text);
        assert!(obstacle_texts(&home, "sda").0.contains(&"sda1 is exported over SCSI as disk2".to_owned()));
        let unit = "sys/kernel/config/usb_gadget/g1/functions/mass_storage.0/lun.0/file";
        set(&home, unit, "\n");
        assert_eq!(obstacle_texts(&home, "sdb2").0, Vec::<String>::new());
        set(&home, unit, "/dev/sdb2\n");
        assert_eq!(obstacle_texts(&home, "sdb2").0, ["sdb2 is exported over USB as g1"]);
    }

    #[test]
    fn covered_or_hidden_kernel_files_are_reported() {
        let home = machine();
        let with = |line: &str| {
            set(&home, "proc/self/mountinfo", &format!("{MOUNTS}{line}\n"));
            obstacle_texts(&home, "sda").1.join(", ")
        };
        assert_eq!(with("30 21 0:9 / /proc/swaps rw - tmpfs tmpfs rw"), "/proc/swaps is covered by a mount");
        assert_eq!(with("30 21 0:9 / /proc/17 rw - tmpfs tmpfs rw"), "/proc/17 is covered by a mount");
        assert_eq!(
            with("30 22 0:9 / /sys/class/block rw - tmpfs tmpfs rw"),
            "/sys/class/block is covered by a mount"
        );
        assert_eq!(
            with("30 20 0:5 / /proc rw - proc proc rw,hidepid=invisible"),
            "/proc is mounted with hidepid=invisible"
        );
        assert_eq!(with("30 20 0:9 / /proc rw - tmpfs tmpfs rw"), "/proc is not the kernel's proc");
        assert_eq!(with("30 20 0:6 /devices /sys rw - sysfs sysfs rw"), "/sys is not the kernel's sysfs");
        assert_eq!(with(""), "");
        // Neither an ended process nor one that waits for its parent hides anything.
        set(&home, "proc/77/stat", "77 (x) y) Z 1\n");
        fs::create_dir_all(home.path().join("proc/78")).unwrap();
        assert_eq!(with(""), "");
        set(&home, "proc/79/stat", "79 (init) S 1\n");
        assert_eq!(with(""), "the mounts of process 79 cannot be read");
        fs::remove_file(home.path().join("proc/self/ns/pid")).unwrap();
        set(&home, "proc/self/ns/pid", "");
        assert!(with("").contains("this PID namespace hides"));
    }

    #[test]
    fn files_that_never_had_equal_size_are_distinct() {
        let may_be_equal = |one: &[u64], other: &[u64]| may_be_equal(&[one.to_vec(), other.to_vec()]);
        assert!(may_be_equal(&[4096], &[4096, 8192]));
        assert!(may_be_equal(&[4096, 8292], &[8192]));
        // The present size of one is unknown, and it was smaller than the other ever was.
        assert!(!may_be_equal(&[8192, 8192], &[4096]));
        assert!(may_be_equal(&[], &[4096]));
        assert!(may_be_equal(&[4096], &[]));
    }
}
