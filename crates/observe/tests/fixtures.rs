//! Machines that we do not have, as trees of files: each is resolved, and the result is compared as text.

// The helpers here are no test functions, but a failure in them fails a test all the same.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use model::Target;
use model::layer::Layer;
use model::target::Device;
use observe::{Identity, Probe, Root, machine, near_cpus, resolve};

fn root(name: &str) -> Root {
    Root::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
}

/// Numbers of a block device, which a guest gives in the order in which it finds its devices.
fn block(name: &str, device: &str) -> (u32, u32) {
    let text = root(name).line(&format!("sys/class/block/{device}/dev")).unwrap();
    let (major, minor) = text.split_once(':').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}

fn resolved(name: &str, path: &str, device: (u32, u32)) -> Target {
    let identity = Identity {
        path: path.to_owned(),
        major: device.0,
        minor: device.1,
        block_bytes: Some(4096),
        ..Identity::default()
    };
    resolve(&root(name), &identity).unwrap()
}

/// Goal: a fixture gives this mount, these devices from top to bottom, this layout and these notes.
/// Method: write all of it as text, a line for each fact; an absent fact has no line.
fn check(name: &str, path: &str, device: (u32, u32), expected: &str) {
    let target = resolved(name, path, device);
    for device in &target.device_stack {
        assert_eq!((device.major, device.minor), block(name, &device.name), "{}", device.name);
    }
    let found = describe(&target);
    let expected: Vec<_> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{name} at {path}:\n{found}");
}

fn describe(target: &Target) -> String {
    let mut text = String::new();
    let read_only = if target.read_only { ", read-only" } else { "" };
    let Target { file_system, source, mount_point, backing, geometry, .. } = target;
    writeln!(text, "{file_system} of {source} at {mount_point}: {backing:?}{read_only}").unwrap();
    for device in &target.device_stack {
        writeln!(text, "{}", describe_device(device)).unwrap();
    }
    let layout: Vec<String> = [
        geometry.block_bytes.map(|bytes| format!("block {bytes}")),
        geometry.stripe_unit_bytes.map(|bytes| format!("unit {bytes}")),
        geometry.stripe_width_bytes.map(|bytes| format!("width {bytes}")),
        geometry.allocation_groups.map(|groups| format!("groups {groups}")),
        geometry.journal.as_ref().map(|journal| format!("journal {journal}")),
        geometry.journal_bytes.map(|bytes| format!("journal bytes {bytes}")),
        geometry.data_checksum.as_ref().map(|name| format!("checksum {name}")),
        (!geometry.features.is_empty()).then(|| geometry.features.join(" ")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !layout.is_empty() {
        writeln!(text, "layout: {}", layout.join(", ")).unwrap();
    }
    for note in &target.notes {
        writeln!(text, "note: {note}").unwrap();
    }
    text
}

fn describe_device(device: &Device) -> String {
    let Device { name, kind, .. } = device;
    let mut text = format!("{name} {kind:?}");
    if !device.is_leaf() {
        write!(text, " > {}", device.backing_devices.join(" ")).unwrap();
    }
    if let Some(link) = &device.link {
        write!(text, " over {} ({} MB/s)", link.name, link.bytes_per_second / 1_000_000).unwrap();
    }
    if !device.details.is_empty() {
        write!(text, " [{}]", device.details.join(", ")).unwrap();
    }
    text
}

/// An NVMe device of the guests, by its number.
fn nvme(number: u32) -> String {
    format!("nvme{number}n1 Disk over PCIe 1.0 x1 (250 MB/s) [NVMe over pcie, firmware 7.2.22]")
}

#[test]
fn ext4_on_partition_resolves_to_its_disk() {
    check(
        "ext4_nvme",
        "/mnt/t",
        block("ext4_nvme", "nvme0n1p2"),
        &format!(
            "
        ext4 of /dev/nvme0n1p2 at /mnt/t: Devices
        nvme0n1p2 Partition > nvme0n1
        {}
        layout: block 4096, journal internal
    ",
            nvme(0)
        ),
    );
    check(
        "ext4_nvme",
        "/mnt/with blank/x",
        block("ext4_nvme", "nvme0n1p1"),
        &format!(
            "
        ext4 of /dev/nvme0n1p1 at /mnt/with blank: Devices
        nvme0n1p1 Partition > nvme0n1
        {}
        layout: block 4096, width 131072, journal internal
        note: mounted with nobarrier: syncs do not flush the medium, so synced data is not durable
        note: mounted with data=writeback: after a crash files may hold old blocks
        note: mounted with sync: each write waits for the medium
    ",
            nvme(0)
        ),
    );
    let plain = resolved("ext4_nvme", "/mnt/plain", block("ext4_nvme", "nvme0n1p3"));
    assert_eq!(plain.geometry.journal.as_deref(), Some("none"));
}

#[test]
fn partition_has_queue_and_model_of_its_disk() {
    let target = resolved("ext4_nvme", "/mnt/t", block("ext4_nvme", "nvme0n1p2"));
    let [partition, disk] = &target.device_stack[..] else { panic!("{:?}", target.device_stack) };
    assert_eq!(partition.size_bytes, 100 << 20);
    assert_eq!(disk.size_bytes, 1 << 30);
    for device in [partition, disk] {
        assert_eq!(device.model.as_deref(), Some("QEMU NVMe Ctrl"));
        assert_eq!((device.logical_block_bytes, device.physical_block_bytes), (Some(512), Some(512)));
        assert_eq!((device.rotational, device.nr_requests), (Some(false), Some(1023)));
        assert_eq!(
            (device.scheduler.as_deref(), device.write_cache.as_deref()),
            (Some("none"), Some("write back"))
        );
        assert_eq!(device.read_ahead_bytes, Some(131_072));
    }
    assert_eq!(target.direct_io.map(|alignment| alignment.offset_align_bytes), Some(512));
    assert_eq!(target.mount_options, ["rw", "relatime", "errors=remount-ro"]);
}

#[test]
fn readable_ext4_superblock_gives_full_layout() {
    check("ext4_superblock", "/mnt/t", (8, 1), "
        ext4 of /dev/sda1 at /mnt/t: Devices
        sda1 Partition > sda
        sda Disk over SATA 1.5 Gbit/s (150 MB/s)
        layout: block 4096, unit 65536, width 262144, groups 1, journal internal, journal bytes 4194304, dir_index extent 64bit flex_bg metadata_csum
    ");
}

#[test]
fn lvm_on_luks_stack_is_resolved() {
    check(
        "lvm_on_luks",
        "/mnt/t",
        block("lvm_on_luks", "dm-1"),
        &format!(
            "
        xfs of /dev/mapper/vg0-root at /mnt/t: Devices
        dm-1 DeviceMapper > dm-0 [LVM volume vg0-root]
        dm-0 DeviceMapper > nvme0n1p2 [LUKS2 mapping luks-data]
        nvme0n1p2 Partition > nvme0n1
        {}
        layout: block 4096, unit 65536, width 262144, journal internal
    ",
            nvme(0)
        ),
    );
}

#[test]
fn lvm_thin_and_snapshot_volumes_are_identified() {
    check(
        "lvm_thin",
        "/mnt/t",
        block("lvm_thin", "dm-4"),
        &format!(
            "
        ext4 of /dev/mapper/vg1-home at /mnt/t: Devices
        dm-4 DeviceMapper > dm-2 [LVM volume vg1-home]
        dm-2 DeviceMapper > dm-0 dm-1 [LVM thin pool vg1-pool-tpool]
        dm-0 DeviceMapper > nvme0n1 [LVM thin pool's metadata vg1-pool_tmeta]
        dm-1 DeviceMapper > nvme0n1 [LVM thin pool's data vg1-pool_tdata]
        {}
        layout: block 4096, width 262144, journal internal
        note: vg1-home is a thin volume: the first write of a block allocates it, and the pool is shared
    ",
            nvme(0)
        ),
    );
    let note = |path, device| resolved("lvm_snapshot", path, device).notes;
    assert_eq!(
        note("/mnt/t", block("lvm_snapshot", "dm-0")),
        ["vg1-srv has a snapshot: the first write of a block copies the old one"]
    );
    assert_eq!(
        note("/mnt/snap", block("lvm_snapshot", "dm-3")),
        ["vg1-snap is a snapshot: the first write of a block goes to the copy-on-write store"]
    );
    assert!(resolved("lvm_snapshot", "/mnt/snap", block("lvm_snapshot", "dm-3")).read_only);
}

#[test]
fn software_raid_resolves_to_three_members() {
    check(
        "md_raid5",
        "/mnt/t",
        (9, 0),
        &format!(
            "
        ext4 of /dev/md0 at /mnt/t: Devices
        md0 Raid > nvme0n1p1 nvme1n1p1 nvme2n1p1 [raid5 of 3 devices, chunk 512 KiB, state clean, write-intent bitmap]
        nvme0n1p1 Partition > nvme0n1
        {}
        nvme1n1p1 Partition > nvme1n1
        {}
        nvme2n1p1 Partition > nvme2n1
        {}
        layout: block 4096, width 1048576, journal nvme3n1p1
        note: mounted with data=journal: direct I/O is silently buffered, and data is written twice
        note: the journal is on nvme3n1p1, whose counters are not sampled
        note: md0 has maintenance in progress (resync), which uses bandwidth of its members
    ",
            nvme(0),
            nvme(1),
            nvme(2)
        ),
    );
}

#[test]
fn loop_device_resolves_to_its_backing_file() {
    check(
        "loop_on_ext4",
        "/mnt/img",
        (7, 3),
        &format!(
            "
        ext2 of /dev/loop3 at /mnt/img: Devices
        loop3 Loop > nvme0n1 [file /mnt/t/disk one.img, buffered I/O to the file]
        {}
        layout: block 4096
    ",
            nvme(0)
        ),
    );
    check(
        "loop_on_ext4",
        "/mnt/mem",
        (7, 4),
        "
        ext2 of /dev/loop4 at /mnt/mem: Devices
        loop4 Loop [file /tmp/gone.img (deleted), buffered I/O to the file]
        layout: block 4096
        note: loop4 is a file in memory
    ",
    );
}

/// Goal: the walk over devices ends, even if a device is backed by itself. No kernel allows such a mount.
#[test]
fn loop_device_on_itself_is_a_leaf() {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let device = "sys/devices/virtual/block/loop5";
    write(&format!("{device}/dev"), "7:5\n");
    write(&format!("{device}/loop/backing_file"), "/mnt/self/circle.img\n");
    write("proc/self/mountinfo", "72 25 7:5 / /mnt/self rw - ext2 /dev/loop5 rw\n");
    for link in ["sys/class/block/loop5", "sys/dev/block/7:5"] {
        let link = home.path().join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(format!("/{device}"), link).unwrap();
    }
    let identity = Identity { path: "/mnt/self".into(), major: 7, minor: 5, ..Identity::default() };
    let target = resolve(&Root::at(home.path()), &identity).unwrap();
    assert_eq!(target.device_stack.len(), 1, "{:?}", target.device_stack);
    assert!(target.device_stack[0].is_leaf());
}

#[test]
fn btrfs_over_two_devices_lists_both_devices() {
    check("btrfs_two", "/mnt/t", (0, 42), "
        btrfs of /dev/sdb1 at /mnt/t: Devices
        sdb1 Partition > sdb
        sdb Disk over SATA 1.5 Gbit/s (150 MB/s)
        sda1 Partition > sda
        sda Disk over SATA 1.5 Gbit/s (150 MB/s)
        layout: block 4096, checksum xxhash64, no_holes compress_zstd extended_iref free_space_tree skinny_metadata data=raid1 metadata=raid1
        note: mounted with compress=zstd:3: compressible data takes less space than its size
    ");
    let target = resolved("btrfs_two", "/mnt/t", (0, 42));
    // Subvolumes share the options of their file system.
    let data = resolved("btrfs_two", "/mnt/data", (0, 42));
    assert_eq!((data.mount_point.as_str(), data.geometry), ("/mnt/data", target.geometry));
    assert_eq!(data.notes, target.notes);
    // Data without copy-on-write has no checksums.
    let home = tempfile::tempdir().unwrap();
    let tree = root("btrfs_two").path(".");
    assert!(Command::new("cp").arg("-a").arg(tree).arg(home.path()).status().unwrap().success());
    let mounts = home.path().join("proc/self/mountinfo");
    let text = std::fs::read_to_string(&mounts).unwrap();
    std::fs::write(&mounts, text.replace("compress=zstd:3", "nodatasum,nodatacow")).unwrap();
    let identity = Identity { path: "/mnt/t".into(), minor: 42, ..Identity::default() };
    let target = resolve(&Root::at(home.path()), &identity).unwrap();
    assert_eq!((target.geometry.data_checksum, target.notes.len()), (None, 0));
}

#[test]
fn nfs_fuse_tmpfs_and_zfs_have_no_devices() {
    check("nfs", "/mnt/n/x", (0, 52), "nfs4 of 127.0.0.1:/ at /mnt/n: RemoteOrUserSpace");
    check("nfs", "/mnt/old", (0, 53), "nfs of 127.0.0.1:/srv at /mnt/old: RemoteOrUserSpace");
    check("sshfs", "/mnt/remote", (0, 53), "fuse.sshfs of ada@host:/data at /mnt/remote: RemoteOrUserSpace");
    check("tmpfs", "/dev/shm", (0, 24), "tmpfs of tmpfs at /dev/shm: Memory");
    check(
        "zfs",
        "/",
        (0, 26),
        "
        zfs of rpool/ROOT at /: Unknown
        note: the devices of a ZFS pool are unknown to skye: their counters are missing
    ",
    );
    assert_eq!(resolved("tmpfs", "/dev/shm", (0, 24)).direct_io, None);
}

#[test]
fn overlay_resolves_to_its_upper_directory() {
    check(
        "overlay_host",
        "/var/lib/docker/overlay2/f00d/merged",
        (0, 60),
        "
        overlay of overlay at /var/lib/docker/overlay2/f00d/merged: Devices
        nvme0n1p2 Partition > nvme0n1
        nvme0n1 Disk [NVMe over pcie, firmware GDC5602Q]
        note: mounted with volatile: syncs do not flush the medium, so synced data is not durable
        note: the overlay's upper directory is on / (ext4)
    ",
    );
    // Newer kernels use another word for it.
    let notes = resolved("overlay_host", "/merged", (0, 61)).notes;
    assert!(notes[0].starts_with("mounted with fsync=volatile: syncs do not flush"), "{notes:?}");
    check(
        "overlay_container",
        "/tmp",
        (0, 60),
        "
        overlay of overlay at /: Unknown
        note: the overlay's upper directory and its devices are not visible here
    ",
    );
    check(
        "overlay_container",
        "/data",
        (259, 2),
        "
        ext4 of /dev/nvme0n1p2 at /data: Devices
        nvme0n1p2 Partition > nvme0n1
        nvme0n1 Disk [NVMe over pcie, firmware GDC5602Q]
        layout: block 4096
    ",
    );
}

#[test]
fn multipath_device_resolves_to_its_paths() {
    check(
        "multipath",
        "/mnt/t",
        block("multipath", "dm-1"),
        "
        xfs of /dev/mapper/mpatha-part1 at /mnt/t: Devices
        dm-1 DeviceMapper > dm-0 [partition mapping mpatha-part1]
        dm-0 DeviceMapper > sdc sdd [multipath mpatha]
        sdc Disk
        sdd Disk
        layout: block 4096, journal nvme1n1
        note: the journal is on nvme1n1, whose counters are not sampled
    ",
    );
    let target = resolved("multipath", "/mnt/t", block("multipath", "dm-1"));
    assert_eq!(target.device_stack[2].model.as_deref(), Some("Linux scsi_debug"));
}

#[test]
fn virtual_disk_and_zram_are_identified() {
    check(
        "virtual_machine",
        "/",
        (254, 0),
        "
        ext4 of /dev/root at /: Devices
        vda Disk [virtio disk]
        layout: block 4096
    ",
    );
    check(
        "virtual_machine",
        "/fast",
        (252, 0),
        "
        ext4 of /dev/zram0 at /fast: Devices
        zram0 Zram [compression lzo-rle]
        layout: block 4096
        note: zram0 keeps its data in memory, compressed
    ",
    );
}

#[test]
fn device_numa_node_comes_from_its_controller() {
    let of_node_1: Vec<u32> = (8..16).chain(24..32).collect();
    for (path, device, nodes, near) in [
        // The controller of a disk has its node, also for the partitions.
        ("/", (259, 2), &[Some(1), Some(1)][..], Some(&of_node_1)),
        // Only the PCI function far above the disk has it.
        ("/sata", (8, 0), &[Some(0)], Some(&(0..8).chain(16..24).collect())),
        ("/usb", (8, 16), &[None], None),
        // The two controllers that lead to the disk name it.
        ("/paths", (259, 3), &[Some(1)], Some(&of_node_1)),
        ("/near", (253, 0), &[None, Some(1), Some(1), Some(1)], Some(&of_node_1)),
        ("/both", (253, 1), &[None, Some(0), Some(1), Some(1)], None),
    ] {
        let target = resolved("two_nodes", path, device);
        let found: Vec<_> = target.device_stack.iter().map(|device| device.numa_node).collect();
        assert_eq!(found, nodes, "{:?}", target.device_stack);
        assert_eq!(near_cpus(&root("two_nodes"), &target).as_ref(), near, "{path}");
        // The same target on a machine that shows no nodes.
        assert_eq!(near_cpus(&root("ext4_superblock"), &target), None);
    }
    assert_eq!(
        resolved("ext4_nvme", "/mnt/t", block("ext4_nvme", "nvme0n1p2")).device_stack[1].numa_node,
        None
    );
}

#[test]
fn target_of_empty_tree_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity { path: "/data".into(), ..Identity::default() };
    let target = resolve(&Root::at(directory.path()), &identity).unwrap();
    assert_eq!(target.file_system, "unknown");
    assert_eq!(target.notes.len(), 2, "{:?}", target.notes);
    let relative = Identity { path: "data".into(), ..Identity::default() };
    assert!(resolve(&Root::at(directory.path()), &relative).is_err());
}

#[test]
fn cgroup_limits_bound_cpus_and_memory() {
    // The slice above allows 1.5 CPUs; the group's own memory.high is below memory.max of the slice.
    let found = machine(&root("cgroup_v2"));
    assert_eq!((found.cpus, found.cpus_online), (1, 2));
    assert_eq!(found.memory_bytes, 512 << 20);
    assert!((1 << 30..2 << 30).contains(&found.memory_total_bytes));
    assert_eq!(found.virtualisation.as_deref(), Some("qemu"));
    assert_eq!(found.host, "lab");
    assert!(found.kernel.starts_with("Linux 6.1.0-"));
    assert_eq!(found.cpu_model.as_deref(), Some("QEMU Virtual CPU version 2.5+"));
    assert_eq!(found.clock_source.as_deref(), Some("hpet"));
    let found = machine(&root("cgroup_v1"));
    assert_eq!((found.cpus, found.memory_bytes), (1, 2 << 30));
    assert_eq!(found.virtualisation.as_deref(), Some("docker container"));
}

#[test]
fn hypervisor_is_identified_and_bare_metal_has_none() {
    let found = machine(&root("virtual_machine"));
    assert_eq!(found.virtualisation.as_deref(), Some("Amazon EC2"));
    assert_eq!(found.memory_bytes, found.memory_total_bytes);
    assert_eq!(machine(&root("bare_metal")).virtualisation, None);
}

#[test]
fn counters_of_stack_are_per_device() {
    let target = resolved("ext4_nvme", "/mnt/t", block("ext4_nvme", "nvme0n1p2"));
    let mut probe = Probe::open(&root("ext4_nvme"), &target.device_stack);
    let mut snapshot = probe.new_snapshot();
    probe.snapshot(&mut snapshot);
    assert_eq!(snapshot.devices.len(), 2);
    assert_eq!(snapshot.devices[0].name, "nvme0n1p2");
    let [partition, disk] = &snapshot.devices[..] else { panic!("{snapshot:?}") };
    // The kernel counts flushes at the disk alone.
    assert!(partition.written_bytes > 1 << 20 && disk.written_bytes > partition.written_bytes);
    assert!(disk.flushes > 0 && partition.flushes == 0);
}

/// Returns each layer with those below it: "ext4 > vda, vda1; …".
fn layers(target: &Target) -> String {
    let name = |below: &u32| target.layers[*below as usize].name.clone();
    let text = |layer: &Layer| {
        let below = layer.below.iter().map(name).collect::<Vec<_>>().join(", ");
        let hidden = layer.hidden.iter().map(|reason| format!(" ({reason})")).collect::<String>();
        format!("{:?} {} > {below}{hidden}", layer.kind, layer.name)
    };
    target.layers.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Goal: each layer is there once, before those below it.
#[test]
fn layers_of_recorded_machines_are_found() {
    let cases = [
        (
            "ext4_nvme",
            "/mnt/t",
            block("ext4_nvme", "nvme0n1p2"),
            "FileSystem ext4 > nvme0n1p2; \
             Device nvme0n1p2 > nvme0n1; \
             Device nvme0n1 > ",
        ),
        (
            "lvm_on_luks",
            "/mnt/t",
            block("lvm_on_luks", "dm-1"),
            "FileSystem xfs > dm-1; \
             Device dm-1 > dm-0; \
             Device dm-0 > nvme0n1p2; \
             Device nvme0n1p2 > nvme0n1; \
             Device nvme0n1 > ",
        ),
        (
            "md_raid5",
            "/mnt/t",
            (9, 0),
            "FileSystem ext4 > md0; \
             Device md0 > nvme0n1p1, nvme1n1p1, nvme2n1p1; \
             Device nvme0n1p1 > nvme0n1; \
             Device nvme0n1 > ; \
             Device nvme1n1p1 > nvme1n1; \
             Device nvme1n1 > ; \
             Device nvme2n1p1 > nvme2n1; \
             Device nvme2n1 > ",
        ),
        (
            "loop_on_ext4",
            "/mnt/img",
            (7, 3),
            "FileSystem ext2 > loop3; \
             Device loop3 > page cache; \
             PageCache page cache > ext4; \
             FileSystem ext4 > nvme0n1; \
             Device nvme0n1 > ",
        ),
        (
            "loop_on_ext4",
            "/mnt/mem",
            (7, 4),
            "FileSystem ext2 > loop4; \
             Device loop4 > tmpfs; \
             Memory tmpfs > ",
        ),
        (
            "btrfs_two",
            "/mnt/t",
            (0, 42),
            "FileSystem btrfs > sdb1, sda1; \
             Device sdb1 > sdb; \
             Device sdb > ; \
             Device sda1 > sda; \
             Device sda > ",
        ),
        ("nfs", "/mnt/n/x", (0, 52), "Remote nfs4 >  (its storage is on a server)"),
        (
            "sshfs",
            "/mnt/remote",
            (0, 53),
            "Fuse fuse.sshfs >  (the program that serves it is not visible here)",
        ),
        ("tmpfs", "/dev/shm", (0, 24), "Memory tmpfs > "),
        ("zfs", "/", (0, 26), "FileSystem zfs >  (its devices are not visible here)"),
        (
            "overlay_host",
            "/var/lib/docker/overlay2/f00d/merged",
            (0, 60),
            "Overlay overlay > ext4; \
             FileSystem ext4 > nvme0n1p2; \
             Device nvme0n1p2 > nvme0n1; \
             Device nvme0n1 > ",
        ),
        (
            "nbd",
            "/mnt/t",
            block("nbd", "nbd0"),
            "FileSystem ext4 > nbd0; Device nbd0 >  (its storage is on a server)",
        ),
        ("overlay_container", "/tmp", (0, 60), "Overlay overlay >  (a directory of it is not visible here)"),
        (
            "multipath",
            "/mnt/t",
            block("multipath", "dm-1"),
            "FileSystem xfs > dm-1; \
             Device dm-1 > dm-0; \
             Device dm-0 > sdc, sdd; \
             Device sdc > ; \
             Device sdd > ",
        ),
    ];
    for (name, path, numbers, expected) in cases {
        assert_eq!(layers(&resolved(name, path, numbers)), expected, "{name}");
    }
}
