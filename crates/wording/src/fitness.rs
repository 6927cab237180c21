//! Fitness of a machine and a target for measurements: each fact that was checked, with the advice on it.
//!
//! The order of the checks is always the same: the place of the data, its other users, the CPUs, then limits and hidden
//! facts. Noise alone never makes anything unfit: it comes and goes, and a run itself reports how much there was.
//!
//! Each threshold has tests on both sides of it.

use std::fmt::Write;

use model::health::{Check, Governor, Health, Maintenance, RunStore, Severity, Wear};
use model::numbers::{latency, thousands};
use model::plan::{DATASET_BYTES_MAX, DATASET_BYTES_MIN, plan};
use model::target::{Backing, Device, DeviceKind, TargetKind};
use model::{Request, Target, size};

use Severity::{Fail, Note, Pass, Warn};

/// Share of steal, or of a busy thread's wait for a CPU, at which a result is suspect.
const DISTURBED_WARN: f64 = 0.05;
/// Share at which they are reported: differences of a few percent may be noise.
const DISTURBED_NOTE: f64 = 0.02;
/// Variation of work between short windows, from the 10th to the 90th percentile: two runs may differ as much by
/// chance.
const UNEVEN_WARN: f64 = 0.10;
/// A quiet machine with a fixed frequency stays below this.
const UNEVEN_NOTE: f64 = 0.03;
/// Minimum number of windows for these percentiles.
const WINDOWS_MIN: usize = 10;
/// A run also warns of foreign I/O above this rate.
const FOREIGN_BYTES_WARN: f64 = 5e6;
/// A tenth of that: journals and logs of an idle system write less.
const FOREIGN_BYTES_NOTE: f64 = 5e5;
/// Share of the time for which foreign I/O keeps a device busy: more than 5 % makes a result suspect.
const FOREIGN_BUSY_WARN: f64 = 0.05;
/// As with bytes: an idle system stays below this.
const FOREIGN_BUSY_NOTE: f64 = 0.01;
/// Pages that wait to be written, as many as the smallest data set: writing them occupies the device for a while.
const DIRTY_BYTES_WARN: u64 = DATASET_BYTES_MIN;
/// Other processes use a fifth of the CPUs: a test with a thread on each CPU has to share.
const OTHERS_CPU_WARN: f64 = 0.20;
/// Other processes use a twentieth of the CPUs.
const OTHERS_CPU_NOTE: f64 = 0.05;
/// Share of the time with waits for memory at which the kernel evicts pages of the data during a test.
const MEMORY_PRESSURE_WARN: f64 = 0.15;
/// Any wait for memory that is visible in a second or two.
const MEMORY_PRESSURE_NOTE: f64 = 0.01;
/// Share of the time with waits for some device. This counts sleepers, not bytes, so it is never more than a hint.
const IO_PRESSURE_NOTE: f64 = 0.10;
/// The program reads a clock in 10 to 60 ns by itself, and in 200 ns or more by a system call.
const CLOCK_READ_SLOW_NS: f64 = 200.0;
/// Half of the data set's size where there is room: caches of drives and controllers are smaller.
const DATASET_BYTES_ENOUGH: u64 = DATASET_BYTES_MAX / 2;
/// File systems search longer for free blocks, and place them worse, as they fill up.
const FULL_WARN: f64 = 0.95;
/// Above this share, some are slower (ZFS, btrfs), and the others only with large files.
const FULL_NOTE: f64 = 0.85;
/// Drives throttle at their limit, and a run heats them by some degrees.
const HEAT_MARGIN_CELSIUS: f64 = 5.0;
/// Memory that `write:seq1m:q8` of the default run pins: eight blocks in flight and two to write from, with its ring.
const PINNED_BYTES: u64 = 11 << 20;

/// Fewest flushes whose mean time is known: the kernel counts it in whole milliseconds.
const FLUSHES_MIN: u64 = 100;
/// The fastest flash programs a page in 100 µs (Cheong et al., "A flash memory controller for 15 µs ultra-low-latency SSD",
/// ISSCC 2018).
const FLASH_PROGRAM_NS: u64 = 100_000;
/// Room for some documents of runs, of 1 to 20 MB each.
const STORE_BYTES: u64 = 64 << 20;
/// Checks that have no line where all is well.
const SILENT_IF_FINE: [&str; 9] =
    ["maintenance", "writeback", "steal", "pressure", "limits", "io_uring", "counters", "root", "frequency"];

/// File that sets another clock source.
const CURRENT_CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// Clock sources that are read by a system call, and slowly.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "pit", "xen"];
/// Beginning of the remark on an ext4 that also writes data to its journal.
const DATA_JOURNAL: &str = "mounted with data=journal:";
/// Clock sources that only count ticks of some milliseconds.
const TICKING_CLOCKS: [&str; 2] = ["jiffies", "refined-jiffies"];

/// Judges the facts found; `standard` is the run that would be made.
pub fn checks(health: &Health, standard: &Request) -> Vec<Check> {
    let mut checks = vec![storage(health), access(health), planned(health, standard), space(health)];
    checks.extend(quota(health, standard));
    checks.extend(durable(health));
    checks.extend(remarks(health));
    checks.extend(health.arrays.iter().map(array));
    checks.extend(maintenance(health));
    checks.extend(queues(&health.target));
    checks.extend(heat(health));
    checks.extend(endurance(health));
    if health.watch.length_ns > 0 {
        checks.extend(foreign_io(health));
        checks.extend([writeback(health), noise(health), steal(health), load(health)]);
    }
    checks.extend([pressure(health), clock(health), frequency(health), limits(health), io_uring(health)]);
    checks.push(host(health));
    // One line has all that a container hides.
    checks.extend(health.target.container_note().is_none().then(|| counters(health)));
    checks.push(root(health));
    checks.extend(health.store.as_ref().map(store));
    checks
}

/// Returns true if a reader would miss the check.
pub fn is_worth_a_line(check: &Check) -> bool {
    check.severity > Pass || !SILENT_IF_FINE.contains(&check.name.as_ref())
}

fn check(severity: Severity, name: &'static str, found: impl Into<String>) -> Check {
    Check { name: name.into(), severity, found: found.into(), advice: None }
}

fn fine(name: &'static str, found: impl Into<String>) -> Check {
    check(Pass, name, found)
}

/// Returns the worse of two levels that a value reaches.
fn level(value: f64, note: f64, warn: f64) -> Severity {
    match value {
        value if value >= warn => Warn,
        value if value >= note => Note,
        _ => Pass,
    }
}

/// A share of 0 to 1: "0 %", "0.3 %", "31 %".
fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p < 0.05 => "<0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Joins names: "sda", "sda and sdb", "sda, sdb and sdc", "12 devices (sda to sdl)".
fn names(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, .., last] if names.len() > 4 => format!("{} devices ({first} to {last})", names.len()),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn share(part_ns: u64, of_ns: u64) -> f64 {
    if of_ns == 0 { 0.0 } else { part_ns as f64 / of_ns as f64 }
}

fn storage(health: &Health) -> Check {
    let target = &health.target;
    let kind = &target.file_system;
    let in_memory: Vec<_> = health.in_memory.iter().map(String::as_str).collect();
    match target.backing {
        Backing::Memory => {
            check(Fail, "storage", format!("{kind} is in memory: results here do not measure storage"))
                .with_advice("choose a directory on a disk")
        }
        Backing::Simulated => check(Fail, "storage", "simulated: no device to check"),
        Backing::RemoteOrUserSpace => check(Note, "storage", format!("{kind} from {}", target.source))
            .with_advice("caches and devices of the server or program are not visible here"),
        Backing::Unknown if target.container_note().is_some() => fine("storage", kind.clone()),
        Backing::Unknown => check(Warn, "storage", format!("the devices under this {kind} are not visible"))
            .with_advice(
                "bytes are not compared with a device's: if possible, choose a target with visible devices",
            ),
        Backing::Devices if !in_memory.is_empty() => {
            let verb = if in_memory.len() == 1 { "keeps its" } else { "keep their" };
            check(
                Warn,
                "storage",
                format!("{kind} on devices of this machine; {} {verb} data in memory", names(&in_memory)),
            )
            .with_advice("results show memory behind the block layer, not storage")
        }
        Backing::Devices => {
            let device = target.top_device().map_or("", |device| &device.name);
            let on = if target.kind == TargetKind::Device { String::new() } else { format!("{kind} on ") };
            let found = format!("{on}{device}, a device of this machine");
            match health.machine.virtualisation {
                Some(_) if target.is_backed_by_disk() => check(Note, "storage", found).with_advice(
                    "places on a virtual disk may differ in speed: compare on the same files (skye ab --a --b), or with --places 8",
                ),
                _ => fine("storage", found),
            }
        }
    }
}

fn access(health: &Health) -> Check {
    if health.target.is_used_read_only() {
        return fine("access", format!("{}, which a run only reads", health.target.kind.name()));
    }
    match (&health.unwritable, health.target.read_only) {
        (_, true) => check(Fail, "access", format!("{} is mounted read-only", health.target.mount_point))
            .with_advice("mount it read-write, or choose another directory"),
        (Some(cause), _) => check(Fail, "access", format!("a run cannot create its directory here: {cause}"))
            .with_advice("choose a writable directory"),
        (None, false) => fine("access", "a run can create its directory here"),
    }
}

/// Checks the default run: the work that it would do, or the reason why it would be refused.
fn planned(health: &Health, standard: &Request) -> Check {
    let plan = match plan(standard, &health.target, &health.machine) {
        Ok(plan) => plan,
        Err(error) => return check(Fail, "plan", format!("a run would be refused: {error}")),
    };
    let tests = plan.phases.len();
    let Some(dataset) = &plan.dataset else { return fine("plan", format!("{}: {tests} tests", plan.preset)) };
    let bytes = dataset.size_bytes_max;
    let mut found = format!("{}: {tests} tests on up to {} of data", plan.preset, size::binary(bytes));
    let _ = write!(found, ", writes up to {}", size::decimal(plan.all_clients_bytes_max()));
    if dataset.is_existing {
        return match bytes < DATASET_BYTES_MIN {
            true => check(Warn, "plan", found).with_advice("it fits into caches: choose a larger one"),
            false => fine("plan", found),
        };
    }
    if bytes < DATASET_BYTES_MIN {
        check(Warn, "plan", found).with_advice("it fits into caches: free some space, or use a larger --size")
    } else if bytes < DATASET_BYTES_ENOUGH {
        check(Note, "plan", found)
            .with_advice("it may fit into caches: free some space, or use a larger --size")
    } else {
        fine("plan", found)
    }
}

fn space(health: &Health) -> Check {
    let space = &health.target.space;
    if health.target.is_used_read_only() {
        return fine("space", format!("{} to read, no free space needed", size::binary(space.total_bytes)));
    }
    let free = size::binary(space.free_bytes);
    let Some(used) = health.used_bytes.filter(|used| *used > 0) else {
        return fine("space", format!("{free} free"));
    };
    // As `df` does: space reserved for root counts neither as used nor as free.
    let full = used as f64 / (used.saturating_add(space.free_bytes)) as f64;
    let mut found = format!("{} full, {free} free", percent(full));
    let mut fullest = full;
    if let Some((total, free)) = space.inodes_total.zip(space.inodes_free).filter(|(total, _)| *total > 0) {
        let full = 1.0 - free as f64 / total as f64;
        let _ = write!(found, "; {} of the inodes used", percent(full));
        fullest = fullest.max(full);
    }
    match level(fullest, FULL_NOTE, FULL_WARN) {
        Pass => fine("space", found),
        severity => check(severity, "space", found)
            .with_advice("allocation is slower and files fragment: free some space"),
    }
}

fn durable(health: &Health) -> Vec<Check> {
    let target = &health.target;
    if target.is_used_read_only() {
        return vec![fine("durable", "nothing is written")];
    }
    let mut checks = Vec::new();
    if let Some(option) = &health.no_flush {
        let found = format!("mounted with {option}: syncs are not flushed to the medium");
        checks.push(
            check(Warn, "durable", found)
                .with_advice(format!("no data here is durable: mount it without {option}")),
        );
    }
    if let Some(library) = &health.sync_interceptor {
        let found = format!("{library} is loaded: the C library's syncs do nothing");
        checks.push(
            check(Warn, "durable", found)
                .with_advice("skye's syncs bypass it, those of other programs do not: unset LD_PRELOAD"),
        );
    }
    // It may be the default of the file system, and is then no option of the mount.
    if target.notes.iter().any(|note| note.starts_with(DATA_JOURNAL)) {
        let found = "mounted with data=journal: direct I/O is buffered, and data is written twice";
        checks.push(
            check(Warn, "durable", found)
                .with_advice("direct tests measure the cache: mount it with data=ordered"),
        );
    }
    if checks.is_empty() {
        checks.push(confirmation_check(health));
    }
    checks
}

/// Checks how far the durability of confirmed data can be seen.
fn confirmation_check(health: &Health) -> Check {
    let target = &health.target;
    match target.backing {
        Backing::Unknown if target.container_note().is_some() => {
            fine("durable", "no mount option and no library disables syncs")
        }
        Backing::Unknown if target.file_system == "zfs" => check(
            Note,
            "durable",
            "syncs may not reach the disks: this depends on the dataset and is not visible here",
        )
        .with_advice(format!("check `zfs get sync,primarycache,compression {}`", target.source)),
        Backing::RemoteOrUserSpace if target.file_system.starts_with("nfs") => {
            check(Note, "durable", "the server may confirm data before it syncs: this is not visible here")
                .with_advice("check that the export is not `async`: a crash would lose confirmed data")
        }
        Backing::RemoteOrUserSpace | Backing::Unknown => {
            check(Note, "durable", "syncs may not reach a medium: this is not visible here")
        }
        Backing::Memory | Backing::Simulated => fine("durable", "nothing to make durable"),
        Backing::Devices => host_cache(health)
            .unwrap_or_else(|| fine("durable", "no mount option and no library disables syncs")),
    }
}

/// Checks disks of a hypervisor that report a volatile cache: whether their flushes are durable, only the host knows.
fn host_cache(health: &Health) -> Option<Check> {
    health.machine.hypervisor()?;
    let disks = health.target.device_stack.iter().filter(|disk| disk.is_leaf() && disk.has_volatile_cache());
    let disks: Vec<_> = disks.map(|disk| disk.name.as_str()).collect();
    let first = disks.first()?;
    let mut found =
        format!("whether the host makes flushes of {} durable is not visible here", names(&disks));
    let flushes = health.flushes.iter().find(|flushes| flushes.device == *first);
    if let Some(flushes) = flushes.filter(|flushes| flushes.count >= FLUSHES_MIN) {
        let mean_ns = flushes.time_ns / flushes.count;
        let _ = write!(found, "; a flush took {} on average", latency(mean_ns));
        if mean_ns < FLASH_PROGRAM_NS {
            found +=
                ", less than flash needs: there was little to write, or the host does not wait for a medium";
        }
    }
    Some(check(Note, "durable", found))
}

/// Checks the room that the user's quotas leave for the default run.
fn quota(health: &Health, standard: &Request) -> Option<Check> {
    let quota = health.quota?;
    let left = [
        quota.free_bytes.map(size::binary),
        quota.inodes_free.map(|files| format!("{} files", thousands(files))),
    ];
    let found = format!("your quota leaves {}", left.into_iter().flatten().collect::<Vec<_>>().join(" and "));
    let plan = plan(standard, &health.target, &health.machine).ok()?;
    let bytes = plan.dataset.as_ref().map_or(0, |dataset| dataset.size_bytes_max);
    let files = plan.phases.iter().filter_map(|phase| phase.workload.files()).map(|work| work.files).max();
    let is_short = quota.free_bytes.is_some_and(|free| free < bytes)
        || quota.inodes_free.is_some_and(|free| free < files.unwrap_or(0));
    Some(match is_short {
        true => check(Warn, "quota", found)
            .with_advice("a run would exceed it: use a smaller --size and fewer --files"),
        false => fine("quota", found),
    })
}

/// Checks that runs can be saved.
pub fn store(store: &RunStore) -> Check {
    let warning = |found: String, advice: &str| check(Warn, "saving", found).with_advice(advice);
    let Some(path) = &store.path else {
        return warning(
            "runs are not saved: neither XDG_STATE_HOME nor HOME is set".into(),
            "set one of them, or use -o DIR",
        );
    };
    match (&store.unwritable, store.free_bytes) {
        (Some(cause), _) => {
            warning(format!("runs cannot be saved in {path}: {cause}"), "make it writable, or use -o DIR")
        }
        (None, Some(free)) if free < STORE_BYTES => warning(
            format!("only {} free for saved runs in {path}", size::binary(free)),
            "free some space, or use -o DIR",
        ),
        (None, _) => fine("saving", format!("runs are saved in {path}")),
    }
}

/// Returns the remarks made while the target was resolved, except those with a separate check.
fn remarks(health: &Health) -> Vec<Check> {
    let target = &health.target;
    let own_checks = |note: &str| {
        let of = |name: &String| note.starts_with(&format!("{name} "));
        let option = health.no_flush.as_ref();
        option.is_some_and(|option| note.starts_with(&format!("mounted with {option}:")))
            || note.starts_with(DATA_JOURNAL)
            || note.starts_with(Target::CONTAINER_NOTE_PREFIX)
            || health.in_memory.iter().any(of)
            || health.arrays.iter().any(|array| of(&array.name))
    };
    let notes = target.notes.iter().filter(|note| !own_checks(note)).cloned();
    notes
        .chain(target.image_notes())
        .map(|note| check(Note, if note.starts_with("mounted ") { "mount" } else { "stack" }, note))
        .collect()
}

fn array(array: &model::health::Array) -> Check {
    let name = &array.name;
    let mut found = Vec::new();
    match array.missing {
        0 => {}
        1 => found.push(format!("{name} is degraded: 1 device is missing")),
        missing => found.push(format!("{name} is degraded: {missing} devices are missing")),
    }
    if let Some(action) = &array.action {
        let done = array.progress.map_or(String::new(), |share| format!(", {} done", percent(share)));
        found.push(format!("{name}: {action} in progress{done}"));
    }
    if found.is_empty() {
        return fine("array", format!("{name} has all its devices, and no maintenance is in progress"));
    }
    let advice = match (array.missing, &array.action) {
        (0, _) => "it takes bandwidth of every member: wait until it is done",
        (_, None) => "missing data is reconstructed: add a device and let it recover",
        _ => "results are those of a rebuild: wait until it is done",
    };
    check(Warn, "array", found.join("; ")).with_advice(advice)
}

fn maintenance(health: &Health) -> Vec<Check> {
    let kind = health.target.file_system.as_str();
    if health.maintenance.is_empty() {
        return match kind {
            "ext4" => vec![fine("maintenance", "no initialisation of inode tables")],
            "btrfs" => vec![fine("maintenance", "no scrub and no balance")],
            _ => Vec::new(),
        };
    }
    let one = |maintenance: &Maintenance| match maintenance {
        Maintenance::InodeTables => inode_tables(health),
        Maintenance::Scrub => {
            check(Warn, "maintenance", "scrub in progress on a btrfs of this machine, perhaps this one")
                .with_advice("wait until it is done; see `btrfs scrub status`")
        }
        Maintenance::Operation(operation) if operation.ends_with("paused") => {
            check(Note, "maintenance", format!("btrfs: {operation}"))
                .with_advice("it uses the device again once it is resumed")
        }
        Maintenance::Operation(operation) => {
            check(Warn, "maintenance", format!("btrfs: {operation} in progress"))
                .with_advice("wait until it is done")
        }
    };
    health.maintenance.iter().map(one).collect()
}

/// The thread does not say which file system it works on. If the devices write nothing, it is not this one.
fn inode_tables(health: &Health) -> Check {
    let written = health.watch.frame.devices.iter().any(|device| device.written_bytes > 0);
    if health.watch.length_ns > 0 && !written {
        return check(
            Note,
            "maintenance",
            "ext4lazyinit runs, but nothing is written here: it initialises another ext4",
        );
    }
    let found = "ext4lazyinit still writes inode tables of an ext4 of this machine, perhaps this one";
    check(Warn, "maintenance", found)
        .with_advice("wait until it is done, or make the file system with -E lazy_itable_init=0")
}

/// Settings of the physical devices' queues, one check for all that have the same.
fn queues(target: &Target) -> Vec<Check> {
    let mut kinds: Vec<(Check, Vec<&str>)> = Vec::new();
    for leaf in target.device_stack.iter().filter(|device| device.is_leaf()) {
        let queue = queue(leaf);
        match kinds.iter_mut().find(|(known, _)| *known == queue) {
            Some((_, names)) => names.push(&leaf.name),
            None => kinds.push((queue, vec![&leaf.name])),
        }
    }
    let differ = kinds.len() > 1;
    let named = |(queue, leaves): (Check, Vec<&str>)| {
        let queue = Check { found: format!("{}: {}", names(&leaves), queue.found), ..queue };
        // If members of an array are set differently, one waits for the other.
        if differ && queue.severity == Pass {
            Check { severity: Note, ..queue }
                .with_advice("the devices under this file system have different settings")
        } else {
            queue
        }
    };
    kinds.into_iter().map(named).collect()
}

fn queue(device: &Device) -> Check {
    let mut parts = Vec::new();
    parts.extend(device.scheduler.as_ref().map(|name| format!("scheduler {name}")));
    parts.extend(device.read_ahead_bytes.map(|bytes| match bytes {
        0 => "no read-ahead".to_owned(),
        bytes => format!("read-ahead {}", size::binary(bytes)),
    }));
    parts.extend(device.write_cache.as_deref().map(|cache| match cache {
        "write back" => "volatile write cache".to_owned(),
        "write through" => "no volatile write cache".to_owned(),
        other => format!("write cache {other}"),
    }));
    parts.extend((device.rotational == Some(true)).then(|| "reported as rotational".to_owned()));
    let found = if parts.is_empty() { "no queue settings".to_owned() } else { parts.join(", ") };
    let is_fast = device.rotational == Some(false) && device.kind == DeviceKind::Disk;
    if is_fast && device.scheduler.as_deref() == Some("bfq") {
        return check(Note, "queue", found)
            .with_advice("bfq costs CPU time, which slows a fast device: compare with scheduler none");
    }
    if device.read_ahead_bytes == Some(0) {
        return check(Note, "queue", found)
            .with_advice("without read-ahead, buffered sequential reads wait for each request");
    }
    fine("queue", found)
}

fn heat(health: &Health) -> Vec<Check> {
    let mut checks = Vec::new();
    for sensor in &health.temperatures {
        let found = format!("{} is at {:.0} °C", sensor.device, sensor.celsius);
        checks.push(match sensor.celsius_max {
            Some(max) if sensor.celsius >= max - HEAT_MARGIN_CELSIUS => {
                check(Warn, "heat", format!("{found}, and throttles at {max:.0} °C"))
                    .with_advice("let it cool down, or improve the airflow")
            }
            Some(max) => fine("heat", format!("{found}, limit {max:.0} °C")),
            None => fine("heat", found),
        });
    }
    if let Some(times) = health.watch.cpu_throttled.filter(|times| *times > 0) {
        let found = format!("CPUs were thermally throttled {times} times while one thread was busy");
        checks.push(check(Warn, "heat", found).with_advice("check cooling and power limits"));
    }
    checks
}

/// Checks how much of their rated writes the drives have used. The line `plan` has the bytes of a run.
fn endurance(health: &Health) -> Vec<Check> {
    let of = |wear: &Wear| {
        let (device, used) = (&wear.device, wear.used_percent_max);
        match used {
            ..90 => {
                fine("endurance", format!("{device} has used {} to {used} % of its rated writes", used - 10))
            }
            90..=100 => check(
                Note,
                "endurance",
                format!("{device} has used at least {} % of its rated writes", used - 10),
            )
            .with_advice("write less with --write-limit, or only read"),
            _ => check(Warn, "endurance", format!("{device} has used all of its rated writes"))
                .with_advice("only read from it, and replace it"),
        }
    };
    health.wear.iter().map(of).collect()
}

/// Checks foreign I/O on the devices: reports the device with most of it, by bytes or by time.
fn foreign_io(health: &Health) -> Option<Check> {
    let watch = &health.watch;
    let seconds = watch.length_ns as f64 / 1e9;
    let is_counted =
        |name: &String| !health.hidden.iter().any(|hidden| hidden.contains(&format!("/block/{name}/")));
    let devices = watch.frame.devices.iter().filter(|device| is_counted(&device.name));
    let figures = devices.map(|device| {
        let bytes = device.read_bytes.saturating_add(device.written_bytes) as f64 / seconds;
        let busy = share(device.busy_ns, watch.length_ns).min(1.0);
        let severity = level(bytes, FOREIGN_BYTES_NOTE, FOREIGN_BYTES_WARN).max(level(
            busy,
            FOREIGN_BUSY_NOTE,
            FOREIGN_BUSY_WARN,
        ));
        (severity, busy, bytes, &device.name)
    });
    let worst = figures.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    let (severity, busy, bytes, name) = worst;
    Some(if severity == Pass {
        let found = format!(
            "little foreign I/O on {name}: {}/s, busy {} of the time",
            size::decimal(bytes as u64),
            percent(busy)
        );
        fine("other I/O", found)
    } else {
        let found = format!(
            "foreign I/O on {name}: {}/s, busy {} of the time",
            size::decimal(bytes as u64),
            percent(busy)
        );
        check(severity, "other I/O", found).with_advice("measure when it is quiet")
    })
}

fn writeback(health: &Health) -> Check {
    let frame = &health.watch.frame;
    let bytes = frame.dirty_bytes.saturating_add(frame.writeback_bytes);
    let found = format!("{} of this machine's pages are dirty or in writeback", size::binary(bytes));
    if bytes >= DIRTY_BYTES_WARN {
        check(Warn, "writeback", found).with_advice("they would be written during the run: run `sync` first")
    } else {
        fine("writeback", found)
    }
}

fn noise(health: &Health) -> Check {
    let watch = &health.watch;
    let waited = share(watch.frame.workers.run_queue_ns, watch.length_ns);
    let uneven = unevenness(&watch.work);
    let speed = uneven.map_or(String::new(), |uneven| format!("; its speed varied by {}", percent(uneven)));
    let pause_ms = watch.pause_ns_max as f64 / 1e6;
    let found = format!(
        "a busy thread waited for a CPU {} of the time; longest stall {pause_ms:.1} ms{speed}",
        percent(waited)
    );
    let waiting = level(waited, DISTURBED_NOTE, DISTURBED_WARN);
    let severity = waiting.max(level(uneven.unwrap_or(0.0), UNEVEN_NOTE, UNEVEN_WARN));
    match (severity, waiting) {
        (Pass, _) => fine("noise", found),
        (_, Pass) => check(severity, "noise", found).with_advice(
            "its frequency changes, or its core is shared: use --repeat, and ignore smaller differences",
        ),
        _ => check(severity, "noise", found)
            .with_advice("other programs use the CPUs: stop them, or use --repeat"),
    }
}

/// Returns the difference in work between windows, from the 10th to the 90th percentile, as a share of the median.
fn unevenness(work: &[u64]) -> Option<f64> {
    if work.len() < WINDOWS_MIN {
        return None;
    }
    let mut sorted = work.to_vec();
    sorted.sort_unstable();
    let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100] as f64;
    (at(50) > 0.0).then(|| (at(90) - at(10)) / at(50))
}

fn steal(health: &Health) -> Check {
    let cpu = &health.watch.frame.cpu;
    let wanted_ns = cpu.user_ns.saturating_add(cpu.kernel_ns).saturating_add(cpu.steal_ns);
    let stolen = share(cpu.steal_ns, wanted_ns);
    let found = format!("the hypervisor took {} of the CPU time that tasks demanded", percent(stolen));
    match level(stolen, DISTURBED_NOTE, DISTURBED_WARN) {
        Pass => fine("steal", found),
        severity => check(severity, "steal", found)
            .with_advice("the host is overcommitted: measure at another time, or on dedicated CPUs"),
    }
}

fn load(health: &Health) -> Check {
    let watch = &health.watch;
    let cpu = &watch.frame.cpu;
    let cpus = f64::from(health.machine.cpus_online.max(1));
    let busy_ns = cpu.user_ns.saturating_add(cpu.kernel_ns).saturating_sub(watch.frame.workers.cpu_ns);
    let others = share(busy_ns, watch.length_ns);
    let mut found = format!("other programs use {others:.2} of {cpus} CPUs");
    let _ = health.load.map(|load| write!(found, ", load {load:.2} over the last minute"));
    match level(others / cpus, OTHERS_CPU_NOTE, OTHERS_CPU_WARN) {
        Pass if health.load.is_some_and(|load| load >= cpus) => check(Note, "load", found)
            .with_advice("the machine was busy until recently: wait until the load falls"),
        Pass => fine("load", found),
        severity => check(severity, "load", found).with_advice("stop the other programs"),
    }
}

fn pressure(health: &Health) -> Check {
    let Some(pressure) = health.watch.pressure else {
        return check(Note, "pressure", "the kernel does not report how long tasks wait")
            .with_advice("boot with psi=1 to detect a shortage of memory");
    };
    let found = format!(
        "tasks waited {} of the time for memory, {} for I/O, {} for a CPU",
        percent(pressure.memory),
        percent(pressure.io),
        percent(pressure.cpu)
    );
    match level(pressure.memory, MEMORY_PRESSURE_NOTE, MEMORY_PRESSURE_WARN) {
        Pass if pressure.io >= IO_PRESSURE_NOTE => {
            check(Note, "pressure", found).with_advice("other programs wait for I/O, perhaps on another disk")
        }
        Pass => fine("pressure", found),
        severity => check(severity, "pressure", found)
            .with_advice("memory is short, and cached pages are evicted during tests: free some"),
    }
}

fn clock(health: &Health) -> Check {
    let source = health.machine.clock_source.as_deref();
    let name = source.unwrap_or("unknown clock source");
    let found = match health.clock_read_ns {
        Some(ns) if ns < 999.5 => format!("{name}, {ns:.0} ns per read"),
        Some(ns) => format!("{name}, {:.1} µs per read", ns / 1000.0),
        None => name.to_owned(),
    };
    if source.is_some_and(|source| TICKING_CLOCKS.contains(&source)) {
        return check(Fail, "clock", found).with_advice(
            "it ticks every few milliseconds, too coarse for latencies: boot with another clocksource=",
        );
    }
    let is_slow = match (health.clock_read_ns, source) {
        (Some(ns), _) => ns >= CLOCK_READ_SLOW_NS,
        (None, source) => source.is_some_and(|source| SLOW_CLOCKS.contains(&source)),
    };
    if !is_slow {
        return fine("clock", found);
    }
    let fast = health.clock_sources.iter().find(|source| *source == "tsc" || *source == "kvm-clock");
    let advice = match fast {
        Some(fast) if source != Some(fast) => format!(
            "each read is a system call, and an operation needs two: unless the kernel log rejects {fast}, \
             write it to {CURRENT_CLOCK}"
        ),
        _ => "each read is a system call, and an operation needs two".to_owned(),
    };
    check(Warn, "clock", found).with_advice(advice)
}

fn frequency(health: &Health) -> Check {
    let governors = &health.governors;
    if governors.is_empty() {
        let severity = if health.machine.hypervisor().is_some() { Pass } else { Note };
        return check(
            severity,
            "frequency",
            "not reported: the firmware or a host sets the frequency of the CPUs",
        );
    }
    let name = |governor: &Governor| match &governor.driver {
        Some(driver) => format!("{} ({driver})", governor.name),
        None => governor.name.clone(),
    };
    let found = format!("governor {}", governors.iter().map(name).collect::<Vec<_>>().join(" and "));
    // These drivers' "powersave" follows the load; everywhere else it is the lowest frequency there is.
    let follows = |driver: &Option<String>| {
        matches!(driver.as_deref(), Some("intel_pstate" | "amd-pstate-epp" | "amd_pstate_epp"))
    };
    if governors.iter().any(|governor| governor.name == "powersave" && !follows(&governor.driver)) {
        return check(Warn, "frequency", found).with_advice(
            "the CPUs run at their lowest frequency: use `cpupower frequency-set -g performance`",
        );
    }
    if governors.iter().all(|governor| governor.name == "performance") {
        return fine("frequency", found);
    }
    check(Note, "frequency", found)
        .with_advice("CPUs raise their frequency slowly, so light load has longer latencies: use `performance` for comparisons")
}

fn limits(health: &Health) -> Check {
    let mut found = Vec::new();
    let mut severity = Pass;
    let mut advice = None;
    if let Some(bytes) = health.memory_limit_bytes.filter(|bytes| *bytes < health.machine.memory_total_bytes)
    {
        found.push(format!("{} of memory, page cache included", size::binary(bytes)));
        severity = Note;
    }
    if let Some(cpus) = health.cpu_quota.filter(|cpus| *cpus < f64::from(health.machine.cpus_online)) {
        found.push(format!("{cpus:.2} of {} CPUs by quota", health.machine.cpus_online));
        // A single thread is stopped in each period of 100 ms.
        severity = severity.max(if cpus < 1.0 { Warn } else { Note });
        advice = Some("once the quota is used up, threads stall until the next period, which adds latency");
    }
    for limit in &health.io_limits {
        let bytes =
            |limit: Option<u64>, what: &str| limit.map(|limit| format!("{what} {}/s", size::decimal(limit)));
        let times = |limit: Option<u64>, what: &str| limit.map(|limit| format!("{limit} {what}/s"));
        let parts = [
            bytes(limit.read_bytes_per_second, "reads of"),
            bytes(limit.written_bytes_per_second, "writes of"),
            times(limit.reads_per_second, "reads"),
            times(limit.writes_per_second, "writes"),
        ];
        found.push(format!(
            "{}: at most {}",
            limit.device,
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        ));
        severity = Warn;
        advice = Some("results are those of the limit: leave the cgroup to measure the device");
    }
    if found.is_empty() {
        return fine("limits", "no visible cgroup limit of CPU, memory or I/O");
    }
    Check { advice: advice.map(str::to_owned), ..check(severity, "limits", found.join("; ")) }
}

fn io_uring(health: &Health) -> Check {
    let machine = &health.machine;
    if let Some(why) = &machine.io_uring_refused {
        return check(Note, "io_uring", format!("unavailable: {why}")).with_advice(
            "depth needs threads, which cost more CPU: allow io_uring to measure depth without them",
        );
    }
    match machine.lockable_bytes.filter(|bytes| *bytes < PINNED_BYTES) {
        Some(bytes) => {
            check(Note, "io_uring", format!("available, with {} of locked memory", size::binary(bytes)))
                .with_advice(format!(
                    "each call pins large blocks at depth: raise `ulimit -l` to {}",
                    size::binary(PINNED_BYTES)
                ))
        }
        None => fine("io_uring", "available"),
    }
}

fn host(health: &Health) -> Check {
    const OUTSIDE: &str = "caches and limits outside of it affect results and are not visible here";
    let kind = health.machine.virtualisation.as_deref();
    let Some(inside) = health.target.container_note() else {
        return kind.map_or_else(
            || fine("host", "no hypervisor and no container detected"),
            |kind| check(Note, "host", kind).with_advice(OUTSIDE),
        );
    };
    let files = match health.hidden.is_empty() {
        true => String::new(),
        false => format!("; also hidden: {}", health.hidden.join("; ")),
    };
    let found = [kind.unwrap_or_default(), &format!("{inside}{files}")].join("; ");
    match health.target.backing {
        Backing::Unknown => check(Warn, "host", found).with_advice(
            "bytes are not compared with a device's: if possible, measure outside of the container",
        ),
        _ => check(Note, "host", found).with_advice(OUTSIDE),
    }
}

fn counters(health: &Health) -> Check {
    if health.hidden.is_empty() {
        return fine("counters", "all readable");
    }
    check(Warn, "counters", format!("unreadable here: {}", health.hidden.join("; ")))
        .with_advice("checks that need them are omitted")
}

fn root(health: &Health) -> Check {
    if health.machine.is_root {
        return fine("root", "you are root: all features are available");
    }
    let mut gains = vec!["drop cached names, so that `stat` and similar tests reach the disk (--cold)"];
    if health.target.file_system == "ext4" {
        gains.push("read the layout of the file system");
    }
    if health.machine.lockable_bytes.is_some() {
        gains.push("lock any amount of memory");
    }
    check(Note, "root", format!("you are not root; root can also {}", names(&gains)))
}

#[cfg(test)]
mod tests;
