//! Reasons to leave a block device as it is: its users, and places in which users may hide.
//!
//! The kernel's own lock is stronger than all of this. An open with `O_EXCL` fails while a file system of any mount
//! namespace, swap space, md or the device mapper holds the device. The same is true of a partition of it, and of the
//! disk of a partition. Some users have no such lock: loop devices on the device, processes that have it open, and other
//! paths to the same disk. They are found here, and the others get their names.
//!
//! A container is not refused as such, as a loop device of its own is its own. It is refused where it could hide a user:
//! - Processes have other numbers than in the initial PID namespace, so that some of them are not seen. The kernel gives
//!   this namespace a fixed number.
//! - `/proc` or `/sys` is not mounted at its place, is mounted with `hidepid`, or has parts that others are mounted over.
//! - A process lives whose mounts or open files cannot be read.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block_device::{Backing, BlockDevice, backing};
use crate::device::{Place, numbers};
use crate::hiding::hidden;
use crate::holding::{PARTS_MAX, Seen, above, all_mounts, backed, file_below, parts, serial, wwn};
use crate::openers::{Wanted, openers};
use crate::parse::mountinfo::Mount;
use crate::root::Root;

/// Time after which a process that is just ending is gone.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(125);
/// File systems without a block device of their own that still have one inode for each file. On an overlay, FUSE or NFS, the
/// same bytes may be a file of another file system, too.
const OWN_INODES: &[&str] = &["bcachefs", "btrfs", "ramfs", "tmpfs", "zfs"];

/// Reasons to leave a device as it is, as clauses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Uses of the device, of everything that lies on it, and of the disk that it is a part of.
    pub uses: Vec<String>,
    /// Places in which users may hide.
    pub hidden: Vec<String>,
    /// Processes that may use it, as their files cannot be read.
    pub unreadable: Vec<String>,
    /// Other disks with its serial number and WWNs of their own, as the namespaces of an NVMe controller.
    pub namesakes: Vec<String>,
}

/// Looks for everything that keeps the device of this name from being erased. Without its descriptor, no loop device is
/// asked for its file. `progress` counts steps of the search.
pub fn obstacles(root: &Root, name: &str, device: Option<BorrowedFd<'_>>, progress: &AtomicU64) -> Obstacles {
    let (hidden, unreadable) = hidden(root);
    let mut found = Obstacles { hidden, unreadable, ..Obstacles::default() };
    let Some(place) = Place::by_name(root, name) else {
        found.hidden.push(format!("sysfs does not show {name}"));
        return found;
    };
    let mut mounts = all_mounts(root);
    if !mounts.unseen.is_empty() {
        // A process that is just ending has lost its mounts, and is gone a moment later.
        std::thread::sleep(PAUSE);
        mounts = all_mounts(root);
    }
    found.unreadable.extend(unseen("mounts", &mounts.unseen));
    progress.fetch_add(1, Ordering::Relaxed);
    let parts = parts(root, &mounts.seen, name);
    if parts.len() >= PARTS_MAX {
        found.hidden.push(format!("more than {PARTS_MAX} devices lie on it"));
    }
    let mut family = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        found.uses.extend(part.uses.iter().map(|use_| format!("{} {use_}", part.name)));
        if index > 0 && !part.is_partition {
            found.uses.push(format!("{} lies on it", part.name));
        } else {
            family.extend(Place::by_name(root, &part.name));
        }
    }
    if place.is_partition {
        let disk = place.disk_name();
        let whole = crate::holding::parts(root, &mounts.seen, disk);
        let uses = whole.iter().filter(|part| part.name == disk).flat_map(|part| &part.uses);
        found.uses.extend(uses.map(|use_| format!("{disk}, which has it, {use_}")));
        if let Some(disk) = Place::by_name(root, disk) {
            let on_disk = above(root, &backed(root), &disk);
            found
                .uses
                .extend(on_disk.into_iter().map(|above| format!("{above} lies on its disk {}", disk.name)));
            found.uses.extend(overlapping(root, &disk, &place));
            family.push(disk);
        }
    }
    other_paths(root, &place, &mut found);
    found.uses.extend(exports(root, &family));
    let file = device.and_then(|device| loops(root, device, &place, &family, &mounts.seen, &mut found));
    let file_bytes = file.and_then(|_| file_bytes(root, place.disk_name()));
    let wanted = Wanted::new(root, &family, file, file_bytes);
    let opened = openers(root, &wanted, progress);
    found.uses.extend(opened.by);
    found.unreadable.extend(unseen("open files", &opened.unread_files));
    found.unreadable.extend(unseen("rings of io_uring", &opened.unread_rings));
    found
}

/// Returns the clause on processes of which something cannot be read.
fn unseen(what: &str, processes: &[i32]) -> Option<String> {
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
fn overlapping(root: &Root, disk: &Place, partition: &Place) -> Vec<String> {
    let sectors = |place: &Place| {
        let number = |name: &str| place.line(root, name)?.parse::<u64>().ok();
        let start = number("start")?;
        Some(start..start.saturating_add(number("size")?))
    };
    let Some(own) = sectors(partition) else { return Vec::new() };
    let names = root.list(&disk.directory).into_iter();
    let others = names.filter(|name| {
        let other =
            Place::by_name(root, name).filter(|other| other.is_partition && other.name != partition.name);
        other.as_ref().and_then(sectors).is_some_and(|other| other.start < own.end && own.start < other.end)
    });
    others.map(|name| format!("{name} shares sectors with it")).collect()
}

/// Adds other devices that are the same disk by another path, or that have its serial number.
fn other_paths(root: &Root, place: &Place, found: &mut Obstacles) {
    let identity = |disk: &str| (serial(root, disk), wwn(root, disk));
    let (serial, wwn) = identity(&place.disk);
    for name in root.list("sys/class/block") {
        let Some(other) = Place::by_name(root, &name) else { continue };
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
            (Some(_), Some(_)) if is_namesake => found.namesakes.push(name),
            _ if is_namesake => {
                found.uses.push(format!("{name} has the same serial number, and no WWN tells them apart"));
            }
            _ => {}
        }
    }
}

/// Returns the devices of a family that this machine exports over NVMe, whose target driver takes no lock.
fn exports(root: &Root, family: &[Place]) -> Vec<String> {
    const SUBSYSTEMS: &str = "sys/kernel/config/nvmet/subsystems";
    let mut found = Vec::new();
    for subsystem in root.list(SUBSYSTEMS) {
        for number in root.list(&format!("{SUBSYSTEMS}/{subsystem}/namespaces")) {
            let at = format!("{SUBSYSTEMS}/{subsystem}/namespaces/{number}");
            let is_on = root.line(&format!("{at}/enable")).as_deref() == Some("1");
            let path = root.line(&format!("{at}/device_path")).filter(|_| is_on);
            let device = path.and_then(|path| crate::stack::source_device(root, &path));
            let of_family = family.iter().find(|place| Some(&place.name) == device.as_ref());
            found.extend(
                of_family.map(|place| format!("{} is exported over NVMe as {subsystem}", place.name)),
            );
        }
    }
    found
}

/// Asks each loop device for its file: paths of other mount namespaces mislead. Adds those on a device of the family, and
/// those that share the file or the device below a loop. Returns the file below the loop itself.
fn loops(
    root: &Root,
    device: BorrowedFd<'_>,
    place: &Place,
    family: &[Place],
    mounts: &[Seen],
    found: &mut Obstacles,
) -> Option<Backing> {
    let names = root.list("sys/class/block").into_iter().filter(|name| name.starts_with("loop"));
    let attached = names.filter(|name| root.exists(&format!("sys/class/block/{name}/loop/backing_file")));
    let ask = |name: &str| -> Option<Backing> {
        let file = root.open(&format!("dev/{name}"))?;
        let found = BlockDevice::of(file.as_fd()).ok()?;
        let is_it =
            Place::by_name(root, name).map(|place| numbers(root, &place)) == Some((found.major, found.minor));
        backing(file).filter(|_| is_it)
    };
    let disk = place.disk_name();
    // The path may lead to another device by now.
    let own = disk.starts_with("loop").then(|| backing(device)).flatten();
    if disk.starts_with("loop") && own.is_none() {
        found.hidden.push(format!("{disk} does not tell its file"));
    }
    let is_unique = |name: &str, backing: Backing| has_unique_file(root, name, backing, mounts);
    if let Some(own) = own {
        if own.numbers != (0, 0) {
            found.uses.push("it is a loop device on another device: name that one".into());
        } else if !is_unique(disk, own) {
            found.uses.push("its file is on an overlay or a server, where it may have another path".into());
        }
    }
    for name in attached.filter(|name| name != disk) {
        let Some(other) = ask(&name) else {
            // It may have been detached since.
            if root.exists(&format!("sys/class/block/{name}/loop/backing_file")) {
                found.hidden.push(format!("{name} does not tell its file"));
            }
            continue;
        };
        let is_below = |place: &&Place| numbers(root, place) == other.numbers && other.numbers != (0, 0);
        let already = format!("{name} lies on ");
        if let Some(below) = family.iter().find(is_below)
            && !found.uses.iter().any(|use_| use_.starts_with(&already))
        {
            found.uses.push(format!("{name} lies on {}", below.name));
        }
        let Some(own) = own else { continue };
        if own.file == other.file {
            found.uses.push(format!("{name} has the same file below it"));
        } else if other.numbers == (0, 0) && may_be_equal(root, disk, &name) && !is_unique(&name, other) {
            found.uses.push(format!("{name} may have the same file below it, by another path"));
        }
    }
    own
}

/// Returns true if no other file can have the bytes of the file below a loop device.
fn has_unique_file(root: &Root, name: &str, backing: Backing, mounts: &[Seen]) -> bool {
    let (major, minor) = backing.device();
    if major != 0 {
        return true;
    }
    let by_numbers =
        mounts.iter().map(|seen| &seen.mount).find(|mount| (mount.major, mount.minor) == (major, minor));
    // Files of a subvolume of btrfs have device numbers that no mount has: the longest mount above the path tells.
    let by_path = || {
        let path = root.line(&format!("sys/class/block/{name}/loop/backing_file"))?;
        let above = mounts.iter().map(|seen| &seen.mount).filter(|mount| {
            let rest = path.strip_prefix(mount.mount_point.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.starts_with('/'))
        });
        above.max_by_key(|mount| mount.mount_point.len())
    };
    by_numbers.or_else(by_path).is_some_and(has_own_inodes)
}

/// Returns true for a file system without a block device in which each file has one inode.
fn has_own_inodes(mount: &Mount) -> bool {
    OWN_INODES.contains(&mount.file_system.as_str())
}

/// Returns the present size of the file below a loop device, if its path still leads to one.
fn file_bytes(root: &Root, name: &str) -> Option<u64> {
    file_below(root, name).map(|found| found.stx_size)
}

/// Returns true if the files below two loop devices may have the same size. A limit hides the size of a file.
fn may_be_equal(root: &Root, one: &str, other: &str) -> bool {
    let number = |name: &str, file: &str| root.number::<u64>(&format!("sys/class/block/{name}/{file}"));
    let end = |name: &str| {
        let is_limited = number(name, "loop/sizelimit")? > 0;
        let end = number(name, "loop/offset")?.checked_add(number(name, "size")?.checked_mul(512)?)?;
        (!is_limited).then_some(end)
    };
    // A file that has grown since is larger than its device.
    let sizes = |name: &str| [end(name), file_bytes(root, name)];
    let pairs = sizes(one).into_iter().zip(sizes(other));
    pairs.into_iter().any(|(one, other)| one.zip(other).is_none_or(|(one, other)| one.abs_diff(other) < 512))
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

    fn of(home: &tempfile::TempDir, name: &str) -> (Vec<String>, Vec<String>) {
        let Obstacles { uses, hidden, unreadable, .. } = found(home, name);
        (uses, [hidden, unreadable].concat())
    }

    fn set(home: &tempfile::TempDir, path: &str, text: &str) {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_free_disk_has_no_obstacles_and_an_unknown_one_is_hidden() {
        let home = machine();
        for name in ["sda", "sda1", "sdb2"] {
            assert_eq!(of(&home, name), (vec![], vec![]), "{name}");
        }
        assert_eq!(of(&home, "sdc"), (vec![], vec!["sysfs does not show sdc".into()]));
    }

    #[test]
    fn uses_of_a_partition_are_those_of_its_disk_and_the_other_way_round() {
        let home = machine();
        set(&home, "sys/devices/pci0/block/sda/holders/dm-3/x", "");
        assert_eq!(of(&home, "sda").0, ["dm-3 lies on it".to_owned()][..0], "a holder without a device");
        assert_eq!(of(&home, "sda1").0, ["dm-3 lies on its disk sda"]);
        set(&home, "sys/devices/virtual/block/dm-3/dev", "253:3\n");
        symlink("/sys/devices/virtual/block/dm-3", home.path().join("sys/class/block/dm-3")).unwrap();
        assert_eq!(of(&home, "sda").0, ["dm-3 lies on it"]);
        assert_eq!(of(&home, "sdb").0, Vec::<String>::new());
        set(&home, "dev/sdb2", "");
        set(&home, "proc/swaps", "Filename\n/dev/sdb2 partition 1 0 -2\n");
        assert_eq!(of(&home, "sdb").0, ["sdb2 is swap space"]);
        assert_eq!(of(&home, "sdb1").0, Vec::<String>::new());
        set(&home, "proc/self/mountinfo", &format!("{MOUNTS}30 20 8:16 / /whole rw - xfs /dev/sdb rw\n"));
        assert_eq!(of(&home, "sdb1").0, ["sdb, which has it, is mounted at /whole"]);
        set(&home, "sys/devices/pci0/block/sdb/sdb2/start", "2000\n");
        assert_eq!(of(&home, "sdb1").0.last().unwrap(), "sdb2 shares sectors with it");
    }

    #[test]
    fn the_same_disk_by_another_path_is_a_use() {
        let home = machine();
        set(&home, "sys/devices/pci0/block/sdb/device/serial", "serial-sda\n");
        let said = "sdb has the same serial number, and no WWN tells them apart";
        assert_eq!(of(&home, "sda1").0, [said]);
        // Neither a path that the kernel hides nor an empty slot is another disk.
        set(&home, "sys/devices/pci0/block/sdb/hidden", "1\n");
        assert_eq!(of(&home, "sda1").0, Vec::<String>::new());
        set(&home, "sys/devices/pci0/block/sdb/hidden", "0\n");
        set(&home, "sys/devices/pci0/block/sdb/size", "0\n");
        assert_eq!(of(&home, "sda1").0, Vec::<String>::new());
        set(&home, "sys/devices/pci0/block/sdb/size", "4096\n");
        set(&home, "sys/devices/pci0/block/sda/device/wwid", "naa.1\n");
        set(&home, "sys/devices/pci0/block/sdb/device/wwid", "naa.2\n");
        let namesakes = Obstacles { namesakes: vec!["sdb".into()], ..Obstacles::default() };
        assert_eq!(found(&home, "sda"), namesakes);
        set(&home, "sys/devices/pci0/block/sdb/device/wwid", "naa.1\n");
        assert_eq!(of(&home, "sda").0, ["sdb is another path to the same disk"]);
    }

    #[test]
    fn an_export_is_a_use() {
        let home = machine();
        let at = "sys/kernel/config/nvmet/subsystems/tank/namespaces/1";
        set(&home, &format!("{at}/device_path"), "/dev/sda2\n");
        set(&home, &format!("{at}/enable"), "0\n");
        assert_eq!(of(&home, "sda").0, Vec::<String>::new());
        set(&home, &format!("{at}/enable"), "1\n");
        assert_eq!(of(&home, "sda").0, ["sda2 is exported over NVMe as tank"]);
    }

    #[test]
    fn places_to_hide_in_are_named() {
        let home = machine();
        let with = |line: &str| {
            set(&home, "proc/self/mountinfo", &format!("{MOUNTS}{line}\n"));
            of(&home, "sda").1.join(", ")
        };
        assert_eq!(with("30 21 0:9 / /proc/swaps rw - tmpfs tmpfs rw"), "/proc/swaps is mounted over");
        assert_eq!(with("30 21 0:9 / /proc/17 rw - tmpfs tmpfs rw"), "/proc/17 is mounted over");
        assert_eq!(
            with("30 22 0:9 / /sys/class/block rw - tmpfs tmpfs rw"),
            "/sys/class/block is mounted over"
        );
        assert_eq!(
            with("30 20 0:5 / /proc rw - proc proc rw,hidepid=invisible"),
            "/proc is mounted with hidepid=invisible"
        );
        assert_eq!(with("30 20 0:9 / /proc rw - tmpfs tmpfs rw"), "/proc is not the kernel's own proc");
        assert_eq!(with("30 20 0:6 /devices /sys rw - sysfs sysfs rw"), "/sys is not the kernel's own sysfs");
        assert_eq!(with(""), "");
        // Neither an ended process nor one that waits for its parent hides anything.
        set(&home, "proc/77/stat", "77 (x) y) Z 1\n");
        fs::create_dir_all(home.path().join("proc/78")).unwrap();
        assert_eq!(with(""), "");
        set(&home, "proc/79/stat", "79 (init) S 1\n");
        assert_eq!(with(""), "the mounts of process 79 cannot be read");
        fs::remove_file(home.path().join("proc/self/ns/pid")).unwrap();
        set(&home, "proc/self/ns/pid", "");
        assert!(with("").contains("a PID namespace of its own"));
    }
}
