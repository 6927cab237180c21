//! Checks of machine and target before anything is measured.

use std::time::{Duration, Instant};

use model::health::{Flushes, Health, Pressure, Watch};
use model::target::{Device, DeviceKind};
use model::{Machine, Target, UserError};
use rustix::fs::{Access, AtFlags, CWD};

use crate::busy::busy;
use crate::cgroup::{io_limits, limits};
use crate::device::SysfsDevice;
use crate::maintenance::{arrays, maintenance};
use crate::mount;
use crate::parse::mountinfo::{self, Mount};
use crate::parse::{block_stat, loadavg, maps, pressure};
use crate::probe::Probe;
use crate::quota::quota;
use crate::root::Root;
use crate::sensors::{cpu_throttled, governors, temperatures, wear};
use crate::stack::MEMORY;
use crate::thread;

const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Inspects a machine and a target, then watches both while one thread is busy and nothing else is done.
/// Reads only.
///
/// The caller fills in the facts that need system calls: the price of a clock read, and
/// [`Machine::io_uring_refused`].
pub fn health(root: &Root, machine: &Machine, target: &Target, watched: Duration) -> Health {
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let limits = limits(root, &mounts);
    let mut probe = Probe::open(root, &target.device_stack);
    let maps = root.read("proc/self/maps").unwrap_or_default();
    Health {
        machine: machine.clone(),
        target: target.clone(),
        unwritable: root.is_system().then(|| unwritable(target)).flatten(),
        used_bytes: root.is_system().then(|| used_bytes(target)).flatten(),
        in_memory: in_memory(root, &mounts, &target.device_stack),
        no_flush: no_flush(root, target),
        sync_interceptor: maps::file_named(&maps, "libeatmydata").map(str::to_owned),
        flushes: flushes(root, &target.device_stack),
        // Root may exceed quotas.
        quota: (root.is_system() && !machine.is_root).then(|| quota(target)).flatten(),
        store: None,
        arrays: arrays(root, target),
        maintenance: maintenance(root, &mounts, target),
        temperatures: temperatures(root, &target.device_stack),
        wear: wear(root, &target.device_stack),
        governors: governors(root),
        clock_sources: root
            .line(CLOCKS)
            .map_or_else(Vec::new, |text| text.split_whitespace().map(str::to_owned).collect()),
        clock_read_ns: None,
        cpu_quota: limits.cpus,
        memory_limit_bytes: limits.memory_bytes,
        io_limits: io_limits(root, &mounts, &target.device_stack),
        load: root.read("proc/loadavg").and_then(|text| loadavg::parse(&text)),
        hidden: probe.hidden().to_vec(),
        watch: watch(root, &mut probe, watched),
    }
}

fn watch(root: &Root, probe: &mut Probe, time: Duration) -> Watch {
    if root.is_system() {
        probe.watch_thread(thread::proc_tid());
    }
    let (mut before, mut after) = (probe.new_snapshot(), probe.new_snapshot());
    let throttled_before = cpu_throttled(root);
    let waits_before = Waits::now(root);
    probe.snapshot(&mut before);
    let start = Instant::now();
    let busy = busy(time);
    let length = start.elapsed();
    probe.snapshot(&mut after);
    let waits = Waits::now(root);
    Watch {
        length_ns: if time.is_zero() { 0 } else { length.as_nanos() as u64 },
        frame: after.frame_since(&before),
        work: busy.work,
        window_ns: busy.window_ns,
        pause_ns_max: busy.pause_ns_max,
        pressure: waits.zip(waits_before).map(|(now, then)| now.since(then, length, time.is_zero())),
        cpu_throttled: cpu_throttled(root).zip(throttled_before).map(|(now, then)| now.saturating_sub(then)),
    }
}

/// Values of `/proc/pressure` at one moment: CPU, memory, I/O.
#[derive(Clone, Copy)]
struct Waits([pressure::Some10; 3]);

impl Waits {
    fn now(root: &Root) -> Option<Self> {
        let wait = |name: &str| pressure::parse(&root.read(&format!("proc/pressure/{name}"))?);
        Some(Self([wait("cpu")?, wait("memory")?, wait("io")?]))
    }

    /// Returns the shares of the time since `then`; if no time has passed, those of the last ten seconds.
    fn since(self, then: Self, length: Duration, no_time: bool) -> Pressure {
        let [cpu, memory, io] = std::array::from_fn(|index| {
            let (now, then) = (self.0[index], then.0[index]);
            let waited_us = now.total_us.saturating_sub(then.total_us) as f64;
            if no_time { now.share } else { (waited_us / 1e6 / length.as_secs_f64()).min(1.0) }
        });
        Pressure { cpu, memory, io }
    }
}

/// Returns the flushes of the disks with a volatile cache. Other disks get none.
fn flushes(root: &Root, devices: &[Device]) -> Vec<Flushes> {
    let disks = devices.iter().filter(|device| device.is_leaf() && device.has_volatile_cache());
    let counted = disks.filter_map(|disk| {
        let text = root.read(&format!("{}/stat", SysfsDevice::by_name(root, &disk.name)?.disk))?;
        let (count, time_ns) = block_stat::flushes(text.as_bytes())?;
        Some(Flushes { device: disk.name.clone(), count, time_ns })
    });
    counted.collect()
}

/// Checks the permission instead of creating a file: even a short-lived file can disturb other processes.
fn unwritable(target: &Target) -> Option<String> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let errno = rustix::fs::accessat(CWD, &target.path, access, AtFlags::EACCESS).err()?;
    Some(UserError::new("", std::io::Error::from(errno)).cause)
}

fn used_bytes(target: &Target) -> Option<u64> {
    let statvfs = rustix::fs::statvfs(&target.path).ok()?;
    Some(statvfs.f_blocks.saturating_sub(statvfs.f_bfree).saturating_mul(statvfs.f_frsize))
}

/// Returns the names of the physical devices whose data is really in memory.
fn in_memory(root: &Root, mounts: &[Mount], devices: &[Device]) -> Vec<String> {
    let is_file_in_memory = |name: &str| {
        let place = SysfsDevice::by_name(root, name)?;
        let file = place.line(root, "loop/backing_file")?;
        let path = file.strip_suffix(" (deleted)").unwrap_or(&file);
        Some(MEMORY.contains(&mount::find(mounts, None, path)?.file_system.as_str()))
    };
    let is_in_memory = |device: &&Device| match device.kind {
        DeviceKind::Zram => true,
        DeviceKind::Loop => is_file_in_memory(&device.name) == Some(true),
        // A RAM disk (brd) shows no sign but its name.
        DeviceKind::Disk => {
            device.name.strip_prefix("ram").is_some_and(|number| number.parse::<u32>().is_ok())
        }
        _ => false,
    };
    let leaves = devices.iter().filter(|device| device.is_leaf());
    leaves.filter(is_in_memory).map(|device| device.name.clone()).collect()
}

fn no_flush(root: &Root, target: &Target) -> Option<String> {
    // Unlike the mount options, this file of ext4 shows defaults as well.
    let device = target.top_device().map_or("", |device| &device.name);
    let text = root.read(&format!("proc/fs/ext4/{device}/options")).unwrap_or_default();
    let has = |option: &str| {
        target.mount_options.iter().any(|other| other == option)
            || text.lines().any(|line| line.trim() == option)
    };
    Target::NO_FLUSH.iter().find(|option| has(option)).map(|option| (*option).to_owned())
}
