//! Checks before anything is measured: machines that are not well, as trees of files.

// The helpers here are no test functions, but a failure in them fails a test all the same.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use model::health::{Governor, Health, IoLimit, Maintenance, Wear};
use observe::{Identity, Root, health, machine, resolve, target};

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A tree whose files may be changed.
fn copy(name: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(tree(name).join(".")).arg(home.path()).status();
    assert!(copied.unwrap().success());
    home
}

/// Numbers of a block device, which a guest gives in the order in which it finds its devices.
fn block(name: &str, device: &str) -> (u32, u32) {
    let text = Root::at(tree(name)).line(&format!("sys/class/block/{device}/dev")).unwrap();
    let (major, minor) = text.split_once(':').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}

fn health_of_fixture(name: &str, path: &str, device: (u32, u32)) -> Health {
    health_below(&Root::at(tree(name)), path, device)
}

fn health_below(root: &Root, path: &str, (major, minor): (u32, u32)) -> Health {
    let identity = Identity { path: path.to_owned(), major, minor, ..Identity::default() };
    health(root, &machine(root), &resolve(root, &identity).unwrap(), Duration::ZERO)
}

#[test]
fn problems_of_unhealthy_machine_are_found() {
    let found = health_of_fixture("unwell", "/srv", (9, 0));
    let array = &found.arrays[..];
    assert_eq!(array.len(), 1);
    assert_eq!((array[0].name.as_str(), array[0].missing), ("md0", 1));
    assert_eq!((array[0].action.as_deref(), array[0].progress), (Some("recover"), Some(0.25)));
    assert_eq!(found.no_flush.as_deref(), Some("nobarrier"));
    assert_eq!(found.sync_interceptor.as_deref(), Some("/usr/lib/libeatmydata.so.1.3.0"));
    assert_eq!(found.maintenance, [Maintenance::InodeTables]);
    assert_eq!(found.governors, [Governor { name: "powersave".into(), driver: Some("acpi-cpufreq".into()) }]);
    assert_eq!(found.machine.clock_source.as_deref(), Some("hpet"));
    assert_eq!(found.clock_sources, ["tsc", "hpet", "acpi_pm"]);
    assert_eq!((found.cpu_quota, found.memory_limit_bytes), (Some(0.5), Some(2 << 30)));
    assert_eq!(found.load, Some(3.2));
    let pressure = found.watch.pressure.unwrap();
    assert_eq!((pressure.memory, pressure.io, pressure.cpu), (0.185, 0.31, 0.12));
    assert_eq!((found.watch.length_ns, found.watch.cpu_throttled), (0, Some(0)));
    assert_eq!(found.watch.frame.dirty_bytes, 500_000 << 10);
    // No system call is made for a fixture.
    assert_eq!((&found.unwritable, found.used_bytes, found.clock_read_ns), (&None, None, None));
    assert_eq!(
        found.hidden,
        ["/sys/class/block/md0/queue/iostats: I/O counters of the device are switched off"]
    );
}

#[test]
fn io_limits_are_read_from_both_cgroup_versions() {
    let found = health_of_fixture("unwell", "/srv", (9, 0)).io_limits;
    let md0 = IoLimit { device: "md0".into(), reads_per_second: Some(20_000), ..IoLimit::default() };
    // The group above is tighter.
    let disk = IoLimit {
        device: "nvme0n1".into(),
        read_bytes_per_second: Some(104_857_600),
        writes_per_second: Some(500),
        ..IoLimit::default()
    };
    assert_eq!(found, [md0, disk]);
    let found = health_of_fixture("cgroup_v1", "/", (8, 1)).io_limits;
    let sda = IoLimit {
        device: "sda".into(),
        written_bytes_per_second: Some(1_048_576),
        writes_per_second: Some(500),
        ..IoLimit::default()
    };
    assert_eq!(found, [sda]);
}

#[test]
fn drives_have_their_own_sensors() {
    let temperatures = |name, path, device| -> Vec<(String, f64, Option<f64>)> {
        let found = health_of_fixture(name, path, device).temperatures.into_iter();
        found.map(|sensor| (sensor.device, sensor.celsius, sensor.celsius_max)).collect()
    };
    let of = |name: &str, celsius, max| (name.to_owned(), celsius, max);
    assert_eq!(
        temperatures("unwell", "/srv", (9, 0)),
        [of("nvme0n1", 81.85, Some(83.85)), of("nvme1n1", 45.85, Some(83.85))]
    );
    let each = |disk: u32| of(&format!("nvme{disk}n1"), 49.85, Some(69.85));
    assert_eq!(temperatures("md_raid5", "/mnt/t", (9, 0)), [each(0), each(1), each(2)]);
    // Two controllers lead to the disk, and the second has the sensor.
    assert_eq!(temperatures("two_nodes", "/paths", (259, 3)), [of("nvme1n1", 40.85, Some(69.85))]);
    // A limit that nothing survives does not count.
    let home = copy("ext4_nvme");
    let sensors = home.path().join("sys/class/hwmon");
    for sensor in std::fs::read_dir(&sensors).unwrap() {
        std::fs::write(sensor.unwrap().path().join("temp1_max"), "65261850\n").unwrap();
    }
    let found = health_below(&Root::at(home.path()), "/mnt/t", block("ext4_nvme", "nvme0n1p2")).temperatures;
    assert_eq!(found.iter().map(|sensor| sensor.celsius_max).collect::<Vec<_>>(), [None]);
    // The disk has no sensor, though others have.
    assert_eq!(temperatures("ext4_superblock", "/mnt/t", (8, 1)), []);
}

#[test]
fn drives_without_commands_show_their_wear() {
    let home = copy("ext4_nvme");
    let wear = || health_below(&Root::at(home.path()), "/mnt/t", block("ext4_nvme", "nvme0n1p2")).wear;
    assert_eq!(wear(), []);
    let drive = std::fs::canonicalize(home.path().join("sys/class/block/nvme0n1/device")).unwrap();
    // UFS has it at its host, some levels above the disk.
    let host = drive.parent().unwrap().join("health_descriptor");
    std::fs::create_dir(&host).unwrap();
    for (kind, value) in [("a", "0x02"), ("b", "0x03")] {
        std::fs::write(host.join(format!("life_time_estimation_{kind}")), format!("{value}\n")).unwrap();
    }
    let used = |percent| [Wear { device: "nvme0n1".into(), used_percent_max: percent }];
    assert_eq!(wear(), used(30));
    std::fs::write(drive.join("life_time"), "0x0b 0x01\n").unwrap();
    assert_eq!(wear(), used(110));
    std::fs::write(drive.join("life_time"), "0x00 0x00\n").unwrap();
    assert_eq!(wear(), [], "undefined");
}

#[test]
fn file_system_maintenance_is_detected() {
    let maintenance = |name, path, device| health_of_fixture(name, path, device).maintenance;
    let balance = || Maintenance::Operation("balance".into());
    assert_eq!(maintenance("btrfs_two", "/mnt/t", (0, 42)), [balance()]);
    let home = copy("btrfs_two");
    let maintenance_with = |comm: &str, cmdline: &str| {
        let process = home.path().join("proc/500");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("comm"), comm).unwrap();
        std::fs::write(process.join("cmdline"), cmdline).unwrap();
        health_below(&Root::at(home.path()), "/mnt/t", (0, 42)).maintenance
    };
    // A worker at work, and one that keeps the name of its last work.
    assert_eq!(maintenance_with("kworker/u4:5+btrfs-scrub\n", ""), [Maintenance::Scrub, balance()]);
    assert_eq!(maintenance_with("kworker/u4:5-btrfs-scrub\n", ""), [balance()]);
    // The program waits until its scrub is done.
    assert_eq!(maintenance_with("btrfs\n", "btrfs\0scrub\0start\0/mnt/t\0"), [Maintenance::Scrub, balance()]);
    assert_eq!(
        maintenance_with("btrfs\n", "btrfs\0-q\0sc\0resume\0/mnt/t\0"),
        [Maintenance::Scrub, balance()]
    );
    assert_eq!(maintenance_with("btrfs\n", "btrfs\0scrub\0status\0/mnt/t\0"), [balance()]);
    assert_eq!(maintenance_with("btrfs\n", "btrfs\0balance\0start\0/mnt/t\0"), [balance()]);
    assert_eq!(maintenance("ext4_nvme", "/mnt/t", block("ext4_nvme", "nvme0n1p2")), []);
    // The thread exists, but does not initialise XFS.
    assert_eq!(maintenance("unwell", "/", (259, 1)), []);
}

#[test]
fn resyncing_array_and_device_in_memory_are_detected() {
    let found = health_of_fixture("md_raid5", "/mnt/t", (9, 0));
    assert_eq!((found.arrays[0].action.as_deref(), found.arrays[0].missing), (Some("resync"), 0));
    assert_eq!(found.in_memory, [""; 0]);
    assert_eq!(health_of_fixture("loop_on_ext4", "/mnt/mem", (7, 4)).in_memory, ["loop4"]);
    assert_eq!(health_of_fixture("loop_on_ext4", "/mnt/img", (7, 3)).in_memory, [""; 0]);
    assert_eq!(health_of_fixture("virtual_machine", "/fast", (252, 0)).in_memory, ["zram0"]);
    assert_eq!(
        health_of_fixture("ext4_nvme", "/mnt/with blank", block("ext4_nvme", "nvme0n1p1"))
            .no_flush
            .as_deref(),
        Some("nobarrier")
    );
}

#[test]
fn health_of_empty_tree_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::at(directory.path());
    let identity = Identity { path: "/data".into(), ..Identity::default() };
    let found = health(&root, &machine(&root), &resolve(&root, &identity).unwrap(), Duration::ZERO);
    assert_eq!((found.load, found.watch.pressure, found.watch.cpu_throttled), (None, None, None));
    assert!(found.governors.is_empty() && found.temperatures.is_empty() && found.io_limits.is_empty());
}

#[test]
fn health_of_running_system_is_sampled() {
    let root = Root::system();
    let directory = tempfile::tempdir().unwrap();
    let target = target(&root, directory.path()).unwrap();
    let found = health(&root, &machine(&root), &target, Duration::from_millis(300));
    assert_eq!(found.unwritable, None);
    assert!(found.used_bytes.is_some_and(|bytes| bytes <= target.space.total_bytes));
    assert!(found.watch.length_ns >= 300_000_000 && found.watch.work.len() == 12, "{:?}", found.watch);
    // The busy thread was the watched one.
    let threads = found.watch.frame.workers;
    assert!(threads.cpu_ns + threads.run_queue_ns > 0, "{threads:?}");
}
