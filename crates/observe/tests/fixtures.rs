//! Machines that we do not have, as trees of files: each is resolved, and the result is compared as text.

// The helpers here are no test functions, but a failure in them fails a test all the same.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use model::Target;
use model::target::Device;
use observe::{Identity, Probe, Root, machine, near_cpus, resolve};

fn root(name: &str) -> Root {
    Root::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
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
    let found = describe(&resolved(name, path, device));
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
    let Device { name, major, minor, kind, .. } = device;
    let mut text = format!("{name} {major}:{minor} {kind:?}");
    if !device.is_leaf() {
        write!(text, " > {}", device.lies_on.join(" ")).unwrap();
    }
    if let Some(link) = &device.link {
        write!(text, " over {} ({} MB/s)", link.name, link.bytes_per_second / 1_000_000).unwrap();
    }
    if !device.details.is_empty() {
        write!(text, " [{}]", device.details.join(", ")).unwrap();
    }
    text
}

#[test]
fn ext4_on_a_partition() {
    let nvme = "nvme0n1 259:0 Disk [NVMe over pcie, firmware GDC5602Q]";
    check(
        "ext4_nvme",
        "/home/ada",
        (259, 2),
        &format!(
            "
        ext4 of /dev/nvme0n1p2 at /: Devices
        nvme0n1p2 259:2 Partition > nvme0n1
        {nvme}
        layout: block 4096, journal internal
    "
        ),
    );
    check(
        "ext4_nvme",
        "/mnt/with blank/x",
        (259, 1),
        &format!(
            "
        ext4 of /dev/nvme0n1p1 at /mnt/with blank: Devices
        nvme0n1p1 259:1 Partition > nvme0n1
        {nvme}
        layout: block 4096, width 131072, journal none
        note: mounted with nobarrier: what is synced is not flushed to the medium, so no rate is durable
        note: mounted with data=writeback: after a crash files may hold old blocks
        note: mounted with sync: every write waits for the medium
    "
        ),
    );
}

#[test]
fn a_partition_has_the_queue_and_the_model_of_its_disk() {
    let target = resolved("ext4_nvme", "/", (259, 2));
    let [partition, disk] = &target.device_stack[..] else { panic!("{:?}", target.device_stack) };
    assert_eq!(partition.size_bytes, 1_873_285_120 * 512);
    assert_eq!(disk.size_bytes, 1_875_385_008 * 512);
    for device in [partition, disk] {
        assert_eq!(device.model.as_deref(), Some("SAMSUNG MZQL2960HCJR-00A07"));
        assert_eq!((device.logical_block_bytes, device.physical_block_bytes), (Some(512), Some(4096)));
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
fn ext4_whose_superblock_may_be_read() {
    check("ext4_superblock", "/", (8, 1), "
        ext4 of /dev/sda1 at /: Devices
        sda1 8:1 Partition > sda
        sda 8:0 Disk
        layout: block 4096, unit 65536, width 262144, groups 1, journal internal, journal bytes 4194304, dir_index extent 64bit flex_bg metadata_csum
    ");
}

#[test]
fn lvm_on_luks() {
    check(
        "lvm_on_luks",
        "/",
        (253, 1),
        "
        xfs of /dev/mapper/vg0-root at /: Devices
        dm-1 253:1 DeviceMapper > dm-0 [LVM volume vg0-root]
        dm-0 253:0 DeviceMapper > nvme0n1p2 [LUKS2 mapping luks-data]
        nvme0n1p2 259:2 Partition > nvme0n1
        nvme0n1 259:0 Disk over PCIe 3.0 x4 (3938 MB/s) [NVMe over pcie, firmware GDC5602Q]
        layout: block 4096, unit 65536, width 262144, journal internal
    ",
    );
}

#[test]
fn lvm_thin_and_snapshots() {
    check("lvm_thin", "/home", (253, 3), "
        ext4 of /dev/mapper/vg1-home at /home: Devices
        dm-3 253:3 DeviceMapper > dm-2 [LVM volume vg1-home]
        dm-2 253:2 DeviceMapper > dm-0 dm-1 [LVM thin pool vg1-pool-tpool]
        dm-0 253:0 DeviceMapper > sda1 [LVM thin pool's metadata vg1-pool_tmeta]
        dm-1 253:1 DeviceMapper > sda1 [LVM thin pool's data vg1-pool_tdata]
        sda1 8:1 Partition > sda
        sda 8:0 Disk
        layout: block 4096
        note: vg1-home is a thin volume: the first write of a block allocates it, and the pool is shared with others
    ");
    let note = |path, device| resolved("lvm_snapshot", path, device).notes;
    assert_eq!(
        note("/srv", (253, 3)),
        ["vg1-srv has a snapshot: the first write of a block copies the old one"]
    );
    assert_eq!(
        note("/snap", (253, 2)),
        ["vg1-snap is a snapshot: the first write of a block is stored apart"]
    );
    assert!(resolved("lvm_snapshot", "/snap", (253, 2)).read_only);
}

#[test]
fn software_raid_of_three() {
    check(
        "md_raid5",
        "/srv",
        (9, 0),
        "
        ext4 of /dev/md0 at /srv: Devices
        md0 9:0 Raid > sda1 sdb1 sdc1 [raid5 of 3 devices, chunk 512 KiB, state clean, write-intent bitmap]
        sda1 8:1 Partition > sda
        sda 8:0 Disk
        sdb1 8:17 Partition > sdb
        sdb 8:16 Disk
        sdc1 8:33 Partition > sdc
        sdc 8:32 Disk
        layout: block 4096, width 1048576, journal sdd1
        note: mounted with data=journal: direct I/O is silently buffered, and data is written twice
        note: the journal lies on sdd1, whose counters are not watched
        note: md0 is busy with itself (resync), which takes a share of its members
    ",
    );
}

#[test]
fn loops() {
    check(
        "loop_on_ext4",
        "/mnt/img",
        (7, 3),
        "
        ext2 of /dev/loop3 at /mnt/img: Devices
        loop3 7:3 Loop > sda [file /srv/images/disk one.img, buffered I/O to the file, on ext4 at /]
        sda 8:0 Disk
        layout: block 4096
        note: loop3 is buffered: what is written to it reaches a page cache before any device
    ",
    );
    check(
        "loop_on_ext4",
        "/mnt/mem",
        (7, 4),
        "
        ext2 of /dev/loop4 at /mnt/mem: Devices
        loop4 7:4 Loop [file /tmp/gone.img (deleted), direct I/O to the file, on tmpfs at /tmp]
        layout: block 4096
        note: loop4 is a file in memory
    ",
    );
    // No kernel allows this mount, but a tree of files can show it, and following it must end.
    check(
        "loop_on_ext4",
        "/mnt/self",
        (7, 5),
        "
        ext2 of /dev/loop5 at /mnt/self: Devices
        loop5 7:5 Loop [file /mnt/self/circle.img, direct I/O to the file, on ext2 at /mnt/self]
        layout: block 4096
    ",
    );
}

#[test]
fn btrfs_over_two_devices() {
    check("btrfs_two", "/home", (0, 42), "
        btrfs of /dev/sdb1 at /: Devices
        sdb1 8:17 Partition > sdb
        sdb 8:16 Disk
        sda1 8:1 Partition > sda
        sda 8:0 Disk over SATA 6 Gbit/s (600 MB/s)
        layout: block 4096, checksum xxhash64, no_holes free_space_tree skinny_metadata data=raid1 metadata=raid1
    ");
    let target = resolved("btrfs_two", "/data", (0, 43));
    assert_eq!(target.geometry.data_checksum, None);
    assert_eq!(
        target.notes,
        ["mounted with compress=zstd:3: data that compresses is stored smaller than it is counted"]
    );
}

#[test]
fn servers_programs_and_memory() {
    check("nfs", "/net/data/x", (0, 52), "nfs4 of filer:/export/data at /net/data: RemoteOrUserSpace");
    check("sshfs", "/mnt/remote", (0, 53), "fuse.sshfs of ada@host:/data at /mnt/remote: RemoteOrUserSpace");
    check("tmpfs", "/dev/shm", (0, 24), "tmpfs of tmpfs at /dev/shm: Memory");
    check(
        "zfs",
        "/",
        (0, 26),
        "
        zfs of rpool/ROOT at /: Unknown
        note: the devices of a ZFS pool are not looked up: their counters are missing
    ",
    );
    assert_eq!(resolved("tmpfs", "/dev/shm", (0, 24)).direct_io, None);
}

#[test]
fn overlays() {
    check(
        "overlay_host",
        "/var/lib/docker/overlay2/f00d/merged",
        (0, 60),
        "
        overlay of overlay at /var/lib/docker/overlay2/f00d/merged: Devices
        nvme0n1p2 259:2 Partition > nvme0n1
        nvme0n1 259:0 Disk [NVMe over pcie, firmware GDC5602Q]
        note: mounted with volatile: what is synced is not flushed to the medium, so no rate is durable
        note: the overlay's upper directory lies on / (ext4)
    ",
    );
    // Newer kernels use another word for it.
    let notes = resolved("overlay_host", "/merged", (0, 61)).notes;
    assert!(notes[0].starts_with("mounted with fsync=volatile: what is synced is not flushed"), "{notes:?}");
    check(
        "overlay_container",
        "/tmp",
        (0, 60),
        "
        overlay of overlay at /: Unknown
        note: the overlay's upper directory is not visible from here, nor are its devices
    ",
    );
    check(
        "overlay_container",
        "/data",
        (259, 2),
        "
        ext4 of /dev/nvme0n1p2 at /data: Devices
        nvme0n1p2 259:2 Partition > nvme0n1
        nvme0n1 259:0 Disk [NVMe over pcie, firmware GDC5602Q]
        layout: block 4096
    ",
    );
}

#[test]
fn multipath() {
    check(
        "multipath",
        "/san",
        (253, 6),
        "
        xfs of /dev/mapper/mpatha-part1 at /san: Devices
        dm-6 253:6 DeviceMapper > dm-5 [partition mapping mpatha-part1]
        dm-5 253:5 DeviceMapper > sdb sdc [multipath mpatha]
        sdb 8:16 Disk [Fibre Channel disk]
        sdc 8:32 Disk [Fibre Channel disk]
        layout: block 4096, journal sdb
        note: the journal lies on sdb, whose counters are not watched
    ",
    );
    let target = resolved("multipath", "/san", (253, 6));
    assert_eq!(target.device_stack[2].model.as_deref(), Some("NETAPP LUN C-Mode"));
}

#[test]
fn a_virtual_disk_and_compressed_memory() {
    check(
        "virtual_machine",
        "/",
        (254, 0),
        "
        ext4 of /dev/root at /: Devices
        vda 254:0 Disk [virtio disk]
        layout: block 4096
    ",
    );
    check(
        "virtual_machine",
        "/fast",
        (252, 0),
        "
        ext4 of /dev/zram0 at /fast: Devices
        zram0 252:0 Zram [compression lzo-rle]
        layout: block 4096
        note: zram0 keeps its data in memory, compressed
    ",
    );
}

#[test]
fn devices_are_attached_to_nodes() {
    let of_node_1: Vec<u32> = (8..16).chain(24..32).collect();
    for (path, device, nodes, near) in [
        // The controller of a disk names its node, also for the partitions.
        ("/", (259, 2), &[Some(1), Some(1)][..], Some(&of_node_1)),
        // Only the PCI function far above the disk names it.
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
        assert_eq!(near_cpus(&root("ext4_nvme"), &target), None);
    }
    assert_eq!(resolved("ext4_nvme", "/", (259, 2)).device_stack[1].numa_node, None);
}

#[test]
fn nothing_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity { path: "/data".into(), ..Identity::default() };
    let target = resolve(&Root::at(directory.path()), &identity).unwrap();
    assert_eq!(target.file_system, "unknown");
    assert_eq!(target.notes.len(), 2, "{:?}", target.notes);
    let relative = Identity { path: "data".into(), ..Identity::default() };
    assert!(resolve(&Root::at(directory.path()), &relative).is_err());
}

#[test]
fn limits_of_cgroups() {
    // The slice above allows 4.5 CPUs; the group's own memory.high is below memory.max of the slice.
    let found = machine(&root("cgroup_v2"));
    assert_eq!((found.cpus, found.cpus_online), (4, 32));
    assert_eq!((found.memory_bytes, found.memory_total_bytes), (4 << 30, 131_886_512 << 10));
    assert_eq!(found.virtualisation, None);
    assert_eq!((found.host.as_str(), found.kernel.as_str()), ("ada", "Linux 6.12.9"));
    assert_eq!(found.cpu_model.as_deref(), Some("AMD EPYC 7313 16-Core Processor"));
    assert_eq!(found.clock_source.as_deref(), Some("tsc"));
    let found = machine(&root("cgroup_v1"));
    assert_eq!((found.cpus, found.memory_bytes), (1, 2 << 30));
    assert_eq!(found.virtualisation.as_deref(), Some("docker container"));
}

#[test]
fn hypervisors() {
    let found = machine(&root("virtual_machine"));
    assert_eq!(found.virtualisation.as_deref(), Some("Amazon EC2"));
    assert_eq!(found.memory_bytes, found.memory_total_bytes);
    assert_eq!(machine(&root("bare_metal")).virtualisation, None);
}

#[test]
fn the_counters_of_a_stack() {
    let target = resolved("ext4_nvme", "/", (259, 2));
    let mut probe = Probe::open(&root("ext4_nvme"), &target.device_stack);
    let mut snapshot = probe.new_snapshot();
    probe.snapshot(&mut snapshot);
    assert_eq!(snapshot.devices.len(), 2);
    assert_eq!(snapshot.devices[0].name, "nvme0n1p2");
    assert_eq!(snapshot.devices[1].written_bytes, 160_000 * 512);
    assert_eq!(snapshot.devices[1].flushes, 100);
}
