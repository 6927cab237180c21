use model::Machine;
use model::health::{Array, Flushes, IoLimit, Pressure, Quota, Temperature, Watch};
use model::run::{CpuTimes, DeviceFrame, Frame, OwnIo, ThreadTimes};
use model::target::{DirectIo, Geometry, Space, TargetKind};

use super::*;

const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

fn standard() -> Request {
    let text = include_str!("../../../../presets/standard.toml");
    Request::from_toml(text).unwrap()
}

fn disk(name: &str) -> Device {
    Device {
        size_bytes: 1000 * GIB,
        write_cache: Some("write back".into()),
        read_ahead_bytes: Some(128 << 10),
        ..serde_json::from_value(serde_json::json!({
            "name": name, "major": 259, "minor": 0, "kind": "disk", "backing_devices": [], "size_bytes": 0, "model": null,
            "logical_block_bytes": 512, "physical_block_bytes": 4096, "rotational": false, "scheduler": "none",
            "write_cache": null, "nr_requests": 1023, "read_ahead_bytes": null, "details": [],
        }))
        .unwrap()
    }
}

/// A machine that hides nothing, where all is well.
fn sound() -> Health {
    Health {
        machine: Machine {
            host: "ada".into(),
            kernel: "Linux 6.12.9".into(),
            cpu_model: None,
            cpus: 4,
            cpus_online: 4,
            memory_bytes: 16 * GIB,
            memory_total_bytes: 16 * GIB,
            virtualisation: None,
            clock_source: Some("tsc".into()),
            is_root: true,
            lockable_bytes: None,
            open_files_max: None,
            file_bytes_max: None,
            io_uring_refused: None,
        },
        target: Target {
            path: "/mnt".into(),
            kind: TargetKind::Directory,
            mount_point: "/mnt".into(),
            device_number: "252:1".into(),
            source: "/dev/sda".into(),
            file_system: "ext4".into(),
            mount_options: vec!["rw".into(), "relatime".into()],
            read_only: false,
            is_writable_by_others: false,
            backing: Backing::Devices,
            geometry: Geometry::default(),
            space: Space {
                total_bytes: 900 * GIB,
                free_bytes: 600 * GIB,
                inodes_total: Some(1 << 24),
                inodes_free: Some(1 << 23),
            },
            direct_io: Some(DirectIo { memory_align_bytes: 4, offset_align_bytes: 512 }),
            device_stack: vec![disk("sda")],
            notes: Vec::new(),
            user_attributes: None,
            erased: None,
            layers: Vec::new(),
        },
        unwritable: None,
        used_bytes: Some(300 * GIB),
        in_memory: Vec::new(),
        no_flush: None,
        sync_interceptor: None,
        flushes: Vec::new(),
        quota: None,
        store: Some(RunStore { path: Some("/root/runs".into()), unwritable: None, free_bytes: Some(GIB) }),
        arrays: Vec::new(),
        maintenance: Vec::new(),
        temperatures: Vec::new(),
        wear: Vec::new(),
        governors: vec![Governor { name: "performance".into(), driver: None }],
        clock_sources: vec!["tsc".into(), "hpet".into()],
        clock_read_ns: Some(24.0),
        cpu_quota: None,
        memory_limit_bytes: None,
        io_limits: Vec::new(),
        load: Some(0.1),
        watch: Watch {
            length_ns: 2 * SECOND,
            frame: frame(),
            work: vec![1000; 80],
            window_ns: 25_000_000,
            pause_ns_max: 100_000,
            pressure: Some(Pressure::default()),
            cpu_throttled: Some(0),
        },
        hidden: Vec::new(),
    }
}

/// Two seconds in which our thread kept one of four CPUs busy.
fn frame() -> Frame {
    Frame {
        devices: vec![traffic("sda", 0, 0)],
        cpu: CpuTimes { user_ns: 2_000_000_000, kernel_ns: 0, idle_ns: 6_000_000_000, steal_ns: 0 },
        workers: ThreadTimes { cpu_ns: 2_000_000_000, run_queue_ns: 0 },
        own_io: OwnIo::default(),
        dirty_bytes: 0,
        writeback_bytes: 0,
        dirtied_bytes: None,
    }
}

fn traffic(name: &str, bytes: u64, busy_ns: u64) -> DeviceFrame {
    let (read_bytes, written_bytes) = (bytes / 2, bytes - bytes / 2);
    DeviceFrame { name: name.into(), read_bytes, written_bytes, busy_ns, ..DeviceFrame::default() }
}

/// Returns the checks of that name, on a sound machine with one change.
fn after(name: &str, change: impl FnOnce(&mut Health)) -> Vec<Check> {
    let mut health = sound();
    change(&mut health);
    let all = checks(&health, &standard());
    all.into_iter().filter(|check| check.name == name).collect()
}

/// Asserts that the check of that name comes out as expected, on either side of a threshold. It has no advice if all is
/// well.
#[track_caller]
fn expect(name: &str, expected: Severity, change: impl FnOnce(&mut Health)) -> Check {
    let found = after(name, change);
    let worst = found.into_iter().max_by_key(|check| check.severity).unwrap();
    assert_eq!(worst.severity, expected, "{worst:?}");
    assert!(expected != Pass || worst.advice.is_none(), "{worst:?}");
    worst
}

#[test]
fn sound_machine_passes_every_check() {
    let checks = checks(&sound(), &standard());
    assert!(checks.iter().all(|check| check.severity == Pass && check.advice.is_none()), "{checks:#?}");
    let names: Vec<_> = checks.iter().map(|check| check.name.as_ref()).collect();
    assert_eq!(
        names,
        [
            "storage",
            "access",
            "plan",
            "space",
            "durable",
            "maintenance",
            "queue",
            "other I/O",
            "writeback",
            "noise",
            "steal",
            "load",
            "pressure",
            "clock",
            "frequency",
            "limits",
            "io_uring",
            "host",
            "counters",
            "root",
            "saving"
        ]
    );
    let visible: Vec<_> = checks.iter().filter(|check| is_worth_a_line(check)).collect();
    assert_eq!(visible.len(), 12, "{visible:#?}");
}

#[test]
fn storage_severity_follows_backing() {
    expect("storage", Fail, |health| health.target.backing = Backing::Memory);
    expect("storage", Warn, |health| health.target.backing = Backing::Unknown);
    expect("storage", Note, |health| health.target.backing = Backing::RemoteOrUserSpace);
    let check = expect("storage", Warn, |health| {
        health.in_memory = vec!["sda".into()];
        health.target.notes = vec!["sda keeps its data in memory, compressed".into()];
    });
    assert!(check.found.contains("sda keeps its data in memory"), "{check:?}");
    // One check of a fact is enough.
    assert_eq!(
        after("stack", |health| {
            health.in_memory = vec!["sda".into()];
            health.target.notes = vec!["sda keeps its data in memory, compressed".into()];
        }),
        []
    );
    let note = "vg1-home is a thin volume";
    assert_eq!(expect("stack", Note, |health| health.target.notes = vec![note.into()]).found, note);
    expect("mount", Note, |health| health.target.notes = vec!["mounted with sync: every write waits".into()]);
}

#[test]
fn unwritable_or_full_target_is_unfit() {
    expect("access", Fail, |health| health.target.read_only = true);
    let check = expect("access", Fail, |health| health.unwritable = Some("Permission denied".into()));
    assert!(check.found.contains("Permission denied"));
    let free = |bytes| move |health: &mut Health| health.target.space.free_bytes = bytes;
    // A run leaves 5 % of 900 GiB free.
    let check = expect("plan", Fail, free(45 * GIB));
    assert!(check.found.contains("lay out the data set"), "{check:?}");
    let small = |free_bytes| {
        move |health: &mut Health| {
            let space = &mut health.target.space;
            (space.total_bytes, space.free_bytes) = (20 * GIB, free_bytes);
        }
    };
    expect("plan", Pass, small(20 * GIB));
    expect("plan", Note, small(19 * GIB));
    expect("plan", Note, small(3 * GIB));
    expect("plan", Warn, small(5 * GIB / 4));
    expect("plan", Pass, |health| health.target.space.inodes_free = Some(60_000));
    expect("plan", Fail, |health| health.target.space.inodes_free = Some(6));
}

#[test]
fn nearly_full_file_system_is_a_note_or_warning() {
    let full = |used, free| {
        move |health: &mut Health| {
            health.used_bytes = Some(used * GIB);
            health.target.space.free_bytes = free * GIB;
        }
    };
    expect("space", Pass, full(849, 151));
    expect("space", Note, full(850, 150));
    expect("space", Note, full(949, 51));
    expect("space", Warn, full(950, 50));
    // Inodes count as well, and unknown is not full.
    expect("space", Warn, |health| health.target.space.inodes_free = Some((1 << 24) / 20));
    expect("space", Pass, |health| {
        (health.target.space.inodes_total, health.target.space.inodes_free) = (None, None)
    });
    expect("space", Pass, |health| health.used_bytes = None);
}

#[test]
fn disabled_flush_or_sync_is_reported() {
    let check = expect("durable", Warn, |health| health.no_flush = Some("nobarrier".into()));
    assert!(check.found.contains("nobarrier"));
    let twice = after("mount", |health| {
        health.no_flush = Some("nobarrier".into());
        health.target.notes = vec!["mounted with nobarrier: what is synced is not flushed".into()];
    });
    assert_eq!(twice, []);
    expect("durable", Warn, |health| health.sync_interceptor = Some("/usr/lib/libeatmydata.so".into()));
    let journal = |health: &mut Health| {
        health.target.notes = vec!["mounted with data=journal: direct I/O is silently buffered".into()];
    };
    expect("durable", Warn, journal);
    assert_eq!(after("mount", journal), []);
    let check = expect("durable", Note, |health| {
        (health.target.backing, health.target.file_system) = (Backing::Unknown, "zfs".into());
        health.target.source = "rpool/ROOT".into();
    });
    assert!(check.advice.unwrap().contains("rpool/ROOT"));
    let both = after("durable", |health| {
        health.no_flush = Some("nobarrier".into());
        health.sync_interceptor = Some("/usr/lib/libeatmydata.so".into());
    });
    assert_eq!(both.len(), 2, "{both:?}");
    expect("durable", Note, |health| {
        (health.target.backing, health.target.file_system) = (Backing::RemoteOrUserSpace, "nfs4".into());
    });
}

#[test]
fn flushes_behind_hypervisor_are_a_note() {
    let flushes = |count, time_ns| {
        move |health: &mut Health| {
            health.machine.virtualisation = Some("kvm, docker container".into());
            health.flushes = vec![Flushes { device: "sda".into(), count, time_ns }];
        }
    };
    let start = "whether the host makes flushes of sda durable is not visible here";
    let check = expect("durable", Note, flushes(1000, 45_000_000));
    assert!(
        check.found.starts_with(&format!("{start}; a flush took 45.0 µs on average, less than flash needs")),
        "{check:?}"
    );
    let check = expect("durable", Note, flushes(1000, 100_000_000));
    assert_eq!(check.found, format!("{start}; a flush took 100 µs on average"));
    assert_eq!(expect("durable", Note, flushes(99, 1)).found, start);
    // A container on bare metal has the real disk, and some disks need no flush.
    expect("durable", Pass, |health| health.machine.virtualisation = Some("docker container".into()));
    expect("durable", Pass, |health| {
        flushes(1000, 1)(health);
        health.target.device_stack[0].write_cache = Some("write through".into());
    });
}

#[test]
fn quota_smaller_than_the_run_is_a_warning() {
    let quota = |free_bytes, inodes_free| {
        move |health: &mut Health| health.quota = Some(Quota { free_bytes, inodes_free })
    };
    assert_eq!(after("quota", |_| {}), []);
    let check = expect("quota", Warn, quota(Some(4 * GIB - 1), Some(65_536)));
    assert!(check.found.ends_with("GiB and 65,536 files"), "{check:?}");
    expect("quota", Pass, quota(Some(4 * GIB), Some(65_536)));
    expect("quota", Warn, quota(None, Some(65_535)));
}

#[test]
fn store_that_takes_no_run_is_a_warning() {
    let change =
        |change: fn(&mut RunStore)| move |health: &mut Health| change(health.store.as_mut().unwrap());
    expect("saving", Warn, change(|store| store.path = None));
    let check = expect("saving", Warn, change(|store| store.unwritable = Some("Permission denied".into())));
    assert!(check.found.contains("/root/runs: Permission denied"), "{check:?}");
    expect("saving", Warn, change(|store| store.free_bytes = Some(STORE_BYTES - 1)));
    expect("saving", Pass, change(|store| store.free_bytes = Some(STORE_BYTES)));
    // An agent saves nothing.
    assert_eq!(after("saving", |health| health.store = None), []);
}

#[test]
fn degraded_array_or_maintenance_is_a_note_or_warning() {
    let array = |action: Option<&str>, missing| Array {
        name: "md0".into(),
        action: action.map(str::to_owned),
        progress: action.map(|_| 0.25),
        missing,
    };
    expect("array", Pass, |health| health.arrays = vec![array(None, 0)]);
    let check = expect("array", Warn, |health| health.arrays = vec![array(Some("resync"), 0)]);
    assert_eq!(check.found, "md0: resync in progress, 25 % done");
    let check = expect("array", Warn, |health| health.arrays = vec![array(Some("recover"), 1)]);
    assert!(check.found.starts_with("md0 is degraded: 1 device is missing; md0: recover"), "{check:?}");
    expect("array", Warn, |health| health.arrays = vec![array(None, 2)]);
    // The thread does not say which file system it works on, but the device is quiet.
    expect("maintenance", Note, |health| health.maintenance = vec![Maintenance::InodeTables]);
    expect("maintenance", Warn, |health| {
        health.maintenance = vec![Maintenance::InodeTables];
        health.watch.frame.devices = vec![traffic("sda", 4096, 0)];
    });
    expect("maintenance", Warn, |health| {
        (health.maintenance, health.watch.length_ns) = (vec![Maintenance::InodeTables], 0);
    });
    expect("maintenance", Warn, |health| health.maintenance = vec![Maintenance::Scrub]);
    expect("maintenance", Warn, |health| health.maintenance = vec![Maintenance::Operation("balance".into())]);
    expect("maintenance", Note, |health| {
        health.maintenance = vec![Maintenance::Operation("balance paused".into())]
    });
    assert_eq!(after("maintenance", |health| health.target.file_system = "xfs".into()), []);
}

#[test]
fn queues_of_equal_leaf_devices_are_grouped() {
    let found = after("queue", |health| {
        health.target.device_stack = (0..6).map(|index| disk(&format!("sd{index}"))).collect();
    });
    assert_eq!(found.len(), 1);
    assert!(
        found[0].found.starts_with("6 devices (sd0 to sd5): scheduler none, read-ahead 128 KiB"),
        "{found:?}"
    );
    let found = after("queue", |health| {
        let other = Device { scheduler: Some("mq-deadline".into()), ..disk("sdb") };
        health.target.device_stack.push(other);
    });
    assert!(found.len() == 2 && found.iter().all(|check| check.severity == Note), "{found:?}");
    expect("queue", Note, |health| health.target.device_stack[0].scheduler = Some("bfq".into()));
    expect("queue", Pass, |health| {
        let disk = &mut health.target.device_stack[0];
        (disk.scheduler, disk.rotational) = (Some("bfq".into()), Some(true));
    });
    expect("queue", Note, |health| health.target.device_stack[0].read_ahead_bytes = Some(0));
}

#[test]
fn high_temperature_is_a_warning() {
    let hot = |celsius, celsius_max| {
        move |health: &mut Health| {
            health.temperatures = vec![Temperature { device: "sda".into(), celsius, celsius_max }];
        }
    };
    expect("heat", Pass, hot(64.9, Some(70.0)));
    expect("heat", Warn, hot(65.0, Some(70.0)));
    expect("heat", Pass, hot(90.0, None));
    expect("heat", Warn, |health| health.watch.cpu_throttled = Some(1));
    assert_eq!(after("heat", |health| health.watch.cpu_throttled = None), []);
}

#[test]
fn drive_without_rated_writes_left_is_a_warning() {
    let with_wear = |used_percent_max| {
        move |health: &mut Health| {
            health.wear = vec![Wear { device: "mmcblk0".into(), used_percent_max }];
        }
    };
    expect("endurance", Pass, with_wear(10));
    expect("endurance", Note, with_wear(100));
    expect("endurance", Warn, with_wear(110));
}

#[test]
fn foreign_io_severity_follows_its_rate() {
    let moved = |bytes_per_second: u64, busy_ns: u64| {
        move |health: &mut Health| {
            health.watch.frame.devices.insert(0, traffic("sdb", 2 * bytes_per_second, 2 * busy_ns));
        }
    };
    expect("other I/O", Pass, moved(499_999, 9_999_999));
    expect("other I/O", Note, moved(500_000, 0));
    expect("other I/O", Note, moved(4_999_999, 49_999_999));
    expect("other I/O", Warn, moved(5_000_000, 0));
    let check = expect("other I/O", Warn, moved(0, 50_000_000));
    assert_eq!(check.found, "foreign I/O on sdb: 0 B/s, busy 5.0 % of the time");
    // Constant counters would look like an idle device.
    assert_eq!(
        after("other I/O", |health| {
            health.hidden = vec!["/sys/class/block/sda/queue/iostats: I/O counters are switched off".into()];
        }),
        []
    );
    expect("writeback", Pass, |health| health.watch.frame.dirty_bytes = (256 << 20) - 1);
    expect("writeback", Warn, |health| {
        (health.watch.frame.dirty_bytes, health.watch.frame.writeback_bytes) = (200 << 20, 56 << 20);
    });
}

#[test]
fn noise_load_and_pressure_are_never_worse_than_warning() {
    let work = |low: u64, high: u64| {
        move |health: &mut Health| {
            health.watch.work = (0..80).map(|index| [low, 1000, 1000, high][index % 4]).collect();
        }
    };
    expect("noise", Pass, work(986, 1015));
    expect("noise", Note, work(985, 1015));
    expect("noise", Note, work(951, 1050));
    expect("noise", Warn, work(950, 1050));
    expect("noise", Warn, work(1, 5000));
    let waited = |ns| move |health: &mut Health| health.watch.frame.workers.run_queue_ns = 2 * ns;
    expect("noise", Pass, waited(19_999_999));
    expect("noise", Note, waited(20_000_000));
    expect("noise", Warn, waited(50_000_000));
    expect("noise", Warn, waited(SECOND));
    // Three windows are too few to judge.
    expect("noise", Pass, |health| health.watch.work = vec![1, 1000, 1]);
    let steal = |ns| move |health: &mut Health| health.watch.frame.cpu.steal_ns = ns;
    expect("steal", Pass, steal(40_000_000));
    expect("steal", Note, steal(41_000_000));
    expect("steal", Warn, steal(106_000_000));
    expect("steal", Warn, steal(100 * SECOND));
    // Two seconds on four CPUs.
    let others = |ns| move |health: &mut Health| health.watch.frame.cpu.kernel_ns = ns;
    expect("load", Pass, others(399_000_000));
    expect("load", Note, others(401_000_000));
    expect("load", Warn, others(1_600_000_000));
    expect("load", Pass, |health| health.load = Some(3.99));
    expect("load", Note, |health| health.load = Some(4.0));
    let waits = |memory, io| {
        move |health: &mut Health| {
            health.watch.pressure = Some(Pressure { memory, io, cpu: 1.0 });
        }
    };
    expect("pressure", Pass, waits(0.009, 0.09));
    expect("pressure", Note, waits(0.01, 0.0));
    expect("pressure", Note, waits(0.0, 0.10));
    expect("pressure", Note, waits(0.149, 0.0));
    expect("pressure", Warn, waits(0.15, 0.0));
    expect("pressure", Note, |health| health.watch.pressure = None);
}

#[test]
fn zero_watch_time_omits_activity_checks() {
    for name in ["noise", "steal", "load", "other I/O", "writeback"] {
        assert_eq!(after(name, |health| health.watch.length_ns = 0), [], "{name}");
    }
}

#[test]
fn slow_clock_source_is_a_warning() {
    let clock = |source: &'static str, ns| {
        move |health: &mut Health| {
            (health.machine.clock_source, health.clock_read_ns) = (Some(source.into()), ns);
        }
    };
    for source in ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"] {
        expect("clock", Pass, clock(source, None));
    }
    expect("clock", Pass, clock("tsc", Some(199.0)));
    let check = expect("clock", Warn, clock("hpet", Some(200.0)));
    assert!(check.advice.unwrap().contains("tsc, write it to /sys"));
    assert!(!expect("clock", Warn, clock("tsc", Some(200.0))).advice.unwrap().contains("write it to"));
    for source in SLOW_CLOCKS {
        expect("clock", Warn, clock(source, None));
    }
    // Newer hypervisors let programs read it directly.
    expect("clock", Pass, clock("xen", Some(40.0)));
    for source in TICKING_CLOCKS {
        expect("clock", Fail, clock(source, Some(20.0)));
    }
}

#[test]
fn governor_severity_follows_its_driver() {
    let governed = |name: &'static str, driver: Option<&str>| {
        let driver = driver.map(str::to_owned);
        move |health: &mut Health| health.governors = vec![Governor { name: name.into(), driver }]
    };
    expect("frequency", Pass, governed("performance", Some("acpi-cpufreq")));
    expect("frequency", Note, governed("schedutil", None));
    expect("frequency", Note, governed("powersave", Some("intel_pstate")));
    expect("frequency", Note, governed("powersave", Some("amd-pstate-epp")));
    expect("frequency", Warn, governed("powersave", Some("acpi-cpufreq")));
    expect("frequency", Warn, governed("powersave", None));
    let check = after("frequency", |health| health.governors.clear()).remove(0);
    assert_eq!(check.severity, Note);
}

#[test]
fn cgroup_limits_are_reported() {
    expect("limits", Note, |health| health.cpu_quota = Some(1.0));
    expect("limits", Warn, |health| health.cpu_quota = Some(0.99));
    expect("limits", Pass, |health| health.cpu_quota = Some(4.0));
    expect("limits", Note, |health| health.memory_limit_bytes = Some(4 * GIB));
    expect("limits", Pass, |health| health.memory_limit_bytes = Some(16 * GIB));
    let check = expect("limits", Warn, |health| {
        health.io_limits = vec![IoLimit {
            device: "sda".into(),
            read_bytes_per_second: Some(104_857_600),
            writes_per_second: Some(500),
            ..IoLimit::default()
        }];
    });
    assert_eq!(check.found, "sda: at most reads of 105 MB/s, 500 writes/s");
}

#[test]
fn process_restrictions_are_reported() {
    expect("io_uring", Note, |health| health.machine.io_uring_refused = Some("a sandbox forbids it".into()));
    expect("io_uring", Note, |health| health.machine.lockable_bytes = Some(PINNED_BYTES - 1));
    expect("io_uring", Pass, |health| health.machine.lockable_bytes = Some(PINNED_BYTES));
    expect("host", Note, |health| health.machine.virtualisation = Some("kvm".into()));
    let inside = |health: &mut Health| {
        health.machine.virtualisation = Some("kvm, docker container".into());
        health.target.backing = Backing::Unknown;
        health.target.notes =
            vec![format!("{}the devices under / are hidden", Target::CONTAINER_NOTE_PREFIX)];
        health.hidden = vec!["/proc/stat: CPU time of the machine".into()];
    };
    let host = expect("host", Warn, inside);
    let whole = "kvm, docker container; inside a container: the devices under / are hidden; also hidden: /proc/stat: CPU time of \
                 the machine";
    assert_eq!(host.found, whole);
    for name in ["storage", "durable"] {
        expect(name, Pass, inside);
    }
    for name in ["stack", "counters"] {
        assert_eq!(after(name, inside).len(), 0, "{name}");
    }
    expect("counters", Warn, |health| health.hidden = vec!["/proc/stat: CPU time of the machine".into()]);
    let check = after("root", |health| health.machine.is_root = false).remove(0);
    assert!(
        check.severity == Note && check.found.contains("--cold") && check.found.contains("layout"),
        "{check:?}"
    );
    let check = after("root", |health| {
        (health.machine.is_root, health.target.file_system) = (false, "xfs".into());
    });
    assert!(!check[0].found.contains("layout"), "{check:?}");
}
