//! Settings of the machine that change what a target does: read as values, and put back.
//!
//! [`Settings`] holds files in the kernel's directories of settings that root can write and read. It also holds the limits of
//! the target's devices in the cgroups of this process, and the options of the target's mount. State that the kernel changes
//! by itself, and switches that work in one direction, are not among them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::{command, mounts};

/// Directories whose files are settings; `*` stands for any directory.
const DIRECTORIES: &[&str] = &[
    "/proc/sys/fs",
    "/proc/sys/fs/*",
    "/proc/sys/net/core",
    "/proc/sys/net/ipv4",
    "/proc/sys/sunrpc",
    "/proc/sys/vm",
    "/sys/devices/system/cpu/*/cpufreq",
    "/sys/devices/system/cpu/*/cpuidle/*",
    "/sys/kernel/mm/transparent_hugepage",
];
/// Settings in directories with other files.
const FILES: &[&str] = &[
    "/proc/sys/kernel/io_uring_disabled",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/task_delayacct",
    "/proc/sys/kernel/timer_migration",
    "/sys/devices/system/cpu/smt/control",
];
/// Directories of a block device, below its own.
const OF_DEVICE: &[&str] = &["queue", "queue/iosched"];
/// Settings of a block device in directories with other files.
const FILES_OF_DEVICE: &[&str] = &[
    "bcache/cache_mode",
    "bcache/sequential_cutoff",
    "bcache/writeback_delay",
    "bcache/writeback_percent",
    "device/queue_depth",
    "md/group_thread_cnt",
    "md/preread_bypass_threshold",
    "md/safe_mode_delay",
    "md/stripe_cache_size",
];
/// Modules whose parameters change how storage works, besides that of the file system.
const MODULES: &[&str] =
    &["nvme", "nvme_core", "scsi_mod", "dm_mod", "md_mod", "loop", "fuse", "nfs", "sunrpc", "zfs", "zswap"];
/// Names that are no settings: an automatic mount, commands, and a file whose reading interrupts all CPUs.
const EXCLUDED: &[&str] = &["binfmt_misc", "compact_memory", "drop_caches", "stat_refresh"];
/// Longest value. Longer texts are tables.
const VALUE_BYTES_MAX: usize = 4096;
/// Attempts to put all values back. A value may depend on another: a scheduler resets the length of its queue.
const PASSES: usize = 3;
/// Limits of a device in a cgroup, and the value that means no limit.
const LIMITS: &[(&str, &str)] = &[
    ("io.max", "rbps=max wbps=max riops=max wiops=max"),
    ("blkio.throttle.read_bps_device", "0"),
    ("blkio.throttle.write_bps_device", "0"),
    ("blkio.throttle.read_iops_device", "0"),
    ("blkio.throttle.write_iops_device", "0"),
];
/// Options of a mount that undo each other, besides those with and without "no".
const OPPOSITES: &[(&str, &str)] = &[("ro", "rw"), ("sync", "async")];

/// Settings with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<Place, String>);

/// Place of a setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// A file of the kernel.
    File(PathBuf),
    /// The line of a device ("7:3") in a file of a cgroup, and the value that means no limit.
    Limit(PathBuf, String, String),
    /// Options of the file system that is mounted at a path.
    Mount(PathBuf),
}

/// One setting that differs: where, and its value before and after; `None` where it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its place.
    pub place: Place,
    /// Value before.
    pub before: Option<String>,
    /// Value after.
    pub after: Option<String>,
}

/// Settings with their first values, to which they return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstSettings(Vec<FirstSetting>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FirstSetting {
    place: Place,
    value: String,
    /// Values that commands gave it; empty while they are not known. Any other value is another program's.
    given: Vec<String>,
}

/// Result of putting settings back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Settings that have their first values again.
    pub undone: Vec<String>,
    /// Settings that have other values, each with the reason.
    pub leftovers: Vec<String>,
    /// Places of these.
    pub places: Vec<Place>,
}

impl Settings {
    /// Reads the settings that may change what a target does. The target is given by its block devices, each a name and a
    /// number ("7:3"), its mount point and the kind of its file system.
    pub fn read(devices: &[(String, String)], mount_point: &Path, file_system: &str) -> Self {
        let mut directories: BTreeSet<PathBuf> = DIRECTORIES.iter().flat_map(|path| expand(path)).collect();
        let mut files: BTreeSet<PathBuf> = FILES.iter().map(PathBuf::from).collect();
        for (name, _) in devices {
            let Ok(device) = fs::canonicalize(Path::new("/sys/class/block").join(name)) else { continue };
            // The queue of a partition is its disk's.
            let disk =
                if device.join("partition").exists() { device.parent().unwrap_or(&device) } else { &device };
            let disk = Path::new("/sys/block").join(disk.file_name().unwrap_or_default());
            directories.extend(OF_DEVICE.iter().map(|below| disk.join(below)));
            directories.insert(Path::new("/sys/fs").join(file_system).join(name));
            files.extend(FILES_OF_DEVICE.iter().map(|below| disk.join(below)));
        }
        // The read-ahead of a block device is a file of its queue, too.
        let of_mount = mounts::at(mount_point).pop().map(|mount| mount.device_number);
        let of_mount = of_mount.filter(|number| devices.iter().all(|(_, known)| known != number));
        directories.extend(of_mount.map(|number| Path::new("/sys/class/bdi").join(number)));
        let modules = MODULES.iter().chain([&file_system]);
        directories.extend(modules.map(|module| Path::new("/sys/module").join(module).join("parameters")));
        files.extend(directories.iter().flat_map(|directory| files_in(directory)));
        let files = files.into_iter().filter(|path| is_setting(path)).map(Place::File);
        let mount = std::iter::once(Place::Mount(mount_point.to_owned()));
        Self::read_at(files.chain(limits(devices)).chain(mount))
    }

    /// Reads the settings at these places.
    pub fn read_at(places: impl Iterator<Item = Place>) -> Self {
        Self(places.filter_map(|place| Some((place.clone(), place.read()?))).collect())
    }

    /// Returns the value at a place.
    pub fn value(&self, place: &Place) -> Option<&String> {
        self.0.get(place)
    }

    /// Returns the settings that differ between these and other ones.
    pub fn compare(&self, other: &Self) -> Vec<Change> {
        let places: BTreeSet<&Place> = self.0.keys().chain(other.0.keys()).collect();
        places
            .into_iter()
            .map(|place| Change {
                place: place.clone(),
                before: self.0.get(place).cloned(),
                after: other.0.get(place).cloned(),
            })
            .filter(|change| change.before != change.after)
            .collect()
    }

    /// Drops the settings at these places.
    pub fn exclude(&mut self, places: &[Place]) {
        places.iter().for_each(|place| drop(self.0.remove(place)));
    }

    /// Returns these as first settings, whatever values they are given.
    pub fn as_first(&self) -> FirstSettings {
        self.changed_to(None)
    }

    /// Returns those of these settings as first ones that differ in `others`. Only the values there are undone.
    pub fn before(&self, others: &[&Self]) -> FirstSettings {
        self.changed_to(Some(others))
    }

    fn changed_to(&self, others: Option<&[&Self]>) -> FirstSettings {
        let first = |(place, value): (&Place, &String)| {
            let given: Vec<_> = others
                .into_iter()
                .flatten()
                .filter_map(|other| other.0.get(place))
                .filter(|other| *other != value)
                .collect();
            // A file that is missing after a command comes back with another setting.
            let is_changed =
                others.is_none_or(|others| others.iter().any(|other| other.0.get(place) != Some(value)));
            is_changed.then(|| FirstSetting {
                place: place.clone(),
                value: value.clone(),
                given: given.into_iter().cloned().collect(),
            })
        };
        FirstSettings(self.0.iter().filter_map(first).collect())
    }
}

impl FirstSettings {
    /// True if some settings are in both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().any(|setting| other.0.iter().any(|theirs| theirs.place == setting.place))
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True while it is not known what values the commands give.
    pub(crate) fn is_open(&self) -> bool {
        self.0.iter().all(|setting| setting.given.is_empty())
    }

    /// Gives each setting its first value again, unless another program has set it since.
    pub fn put_back(&self) -> PutBack {
        let all = self.changes();
        let mut errors = BTreeMap::new();
        for _ in 0..PASSES {
            for change in self.changes() {
                // An error may end when another setting is back. What still differs at the end is reported.
                if let Err(error) = change.place.write(change.before.as_deref().unwrap_or_default()) {
                    errors.insert(change.place, error);
                }
            }
            if self.changes().is_empty() {
                break;
            }
        }
        let left = self.changes();
        let places: Vec<_> = left.iter().map(|change| change.place.clone()).collect();
        let undone = all.iter().filter(|change| !places.contains(&change.place));
        let leftover = |change: &Change| {
            let why = errors.get(&change.place).map_or("the kernel does not take the value", String::as_str);
            let (before, after) = (value_text(change.before.as_ref()), value_text(change.after.as_ref()));
            format!("{} is {after}, and was {before}: {why}", change.place)
        };
        PutBack {
            undone: undone
                .map(|change| format!("{} is {} again", change.place, value_text(change.before.as_ref())))
                .collect(),
            leftovers: left.iter().map(leftover).collect(),
            places,
        }
    }

    /// Returns the settings that commands have changed.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let change = |setting: &FirstSetting| {
            let after = setting.place.read()?;
            let is_given = setting.given.is_empty() || setting.given.contains(&after);
            (after != setting.value && is_given).then(|| Change {
                place: setting.place.clone(),
                before: Some(setting.value.clone()),
                after: Some(after),
            })
        };
        self.0.iter().filter_map(change).collect()
    }
}

/// The setting and its two values: "/sys/block/vda/queue/scheduler: none → mq-deadline".
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} → {}",
            self.place,
            value_text(self.before.as_ref()),
            value_text(self.after.as_ref())
        )
    }
}

fn value_text(value: Option<&String>) -> &str {
    match value.map(String::as_str) {
        None => "missing",
        Some("") => "empty",
        Some(value) => value,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Limit(path, device, _) => write!(f, "{} of {device}", path.display()),
            Self::Mount(path) => write!(f, "mount options of {}", path.display()),
        }
    }
}

impl Place {
    fn read(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(chosen(one_line(path)?)),
            Self::Limit(path, device, _) => {
                let text = fs::read_to_string(path).ok()?;
                let of_device =
                    |line: &str| Some(line.strip_prefix(device)?.strip_prefix(' ')?.trim().to_owned());
                Some(text.lines().find_map(of_device).unwrap_or_default())
            }
            Self::Mount(path) => mounts::at(path).last().map(mounts::Mount::all_options),
        }
    }

    fn write(&self, value: &str) -> Result<(), String> {
        match self {
            // The kernel ignores a write of nothing.
            Self::File(path) => fs::write(path, format!("{value}\n")).map_err(|error| error.to_string()),
            Self::Limit(path, device, unlimited) => {
                let value = if value.is_empty() { unlimited } else { value };
                fs::write(path, format!("{device} {value}")).map_err(|error| error.to_string())
            }
            Self::Mount(path) => remount(path, value, &self.read().unwrap_or_default()),
        }
    }
}

/// Mounts a file system again with each option that is missing, and with the opposite of each that was added.
fn remount(at: &Path, before: &str, now: &str) -> Result<(), String> {
    let mut problem = Ok(());
    // One at a time: an option that the file system refuses would keep the others from being set.
    for option in remount_options(before, now) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{option}")]).arg(at).stdin(Stdio::null());
        let done = command::run(&mut mount, "mount it again").map(drop).map_err(|error| error.cause);
        problem = problem.and(done);
    }
    problem
}

fn remount_options(before: &str, now: &str) -> Vec<String> {
    let [before, now] = [before, now].map(|options| options.split(',').collect::<Vec<_>>());
    let added = now.iter().filter(|option| !before.contains(option) && !option.contains('='));
    let missing = before.iter().filter(|option| !now.contains(option));
    let mut options: Vec<String> = added.map(|option| opposite(option)).collect();
    for option in missing {
        if !options.iter().any(|known| known == option) {
            options.push((*option).to_owned());
        }
    }
    options
}

fn opposite(option: &str) -> String {
    let of_pair = |(one, other): &(&str, &str)| match option {
        _ if option == *one => Some((*other).to_owned()),
        _ if option == *other => Some((*one).to_owned()),
        _ => None,
    };
    OPPOSITES.iter().find_map(of_pair).unwrap_or_else(|| match option.strip_prefix("no") {
        Some(positive) => positive.to_owned(),
        None => format!("no{option}"),
    })
}

/// Returns the text of a file with at most one line; `None` for one with more.
fn one_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim();
    (!line.contains('\n') && line.len() <= VALUE_BYTES_MAX).then(|| line.to_owned())
}

/// Returns the choice of "none [mq-deadline] kyber", or the whole text of a file without brackets.
fn chosen(text: String) -> String {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.map(ToOwned::to_owned).unwrap_or(text)
}

/// Returns the directories that a path means, in which `*` stands for any name.
fn expand(path: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in path.split('/').filter(|part| !part.is_empty()) {
        found = match part {
            "*" => found.iter().flat_map(|directory| subdirectories(directory)).collect(),
            name => found.into_iter().map(|directory| directory.join(name)).collect(),
        };
    }
    found
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| !is_excluded(path) && path.is_dir()).collect()
}

fn is_excluded(path: &Path) -> bool {
    EXCLUDED.iter().any(|name| path.ends_with(name))
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Returns true for a file that the kernel lets root write and read.
fn is_setting(path: &Path) -> bool {
    let found = || fs::symlink_metadata(path);
    !is_excluded(path) && found().is_ok_and(|found| found.is_file() && found.mode() & 0o600 == 0o600)
}

/// Returns the places of limits on these devices, in the cgroups of this process and in those above.
fn limits(devices: &[(String, String)]) -> Vec<Place> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut places = Vec::new();
    for mount in mounts::all().into_iter().filter(|mount| mount.file_system.starts_with("cgroup")) {
        let is_unified = mount.file_system == "cgroup2";
        if !is_unified && !mount.options.split(',').any(|option| option == "blkio") {
            continue;
        }
        let of_mount = |line: &&str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next().unwrap_or_default();
            if is_unified {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == "blkio")
            }
        };
        let Some(group) = groups.lines().find(of_mount).and_then(|line| line.splitn(3, ':').nth(2)) else {
            continue;
        };
        let mut directory = mount.at.join(group.trim_start_matches('/'));
        loop {
            for (file, unlimited) in LIMITS.iter().filter(|(file, _)| directory.join(file).exists()) {
                let place = |(_, number): &(String, String)| {
                    Place::Limit(directory.join(file), number.clone(), (*unlimited).into())
                };
                places.extend(devices.iter().map(place));
            }
            if directory == mount.at || !directory.pop() {
                break;
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(directory: &Path, names: &[&str]) -> Settings {
        Settings::read_at(names.iter().map(|name| Place::File(directory.join(name))))
    }

    #[test]
    fn changed_files_get_their_values_back() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        write("scheduler", "[none] mq-deadline\n");
        write("depth", "256\n");
        write("ports", "\n");
        write("table", "1\n2\n");
        let names = ["scheduler", "depth", "ports", "table", "missing"];
        let first = settings(directory.path(), &names);
        assert_eq!(first.0.len(), 3, "tables and missing files are no settings");
        write("scheduler", "none [mq-deadline]\n");
        write("ports", "8080\n");
        let after = settings(directory.path(), &names);
        let changes: Vec<_> = first.compare(&after).iter().map(Change::to_string).collect();
        assert!(
            changes[0].ends_with("ports: empty → 8080") && changes[1].ends_with("none → mq-deadline"),
            "{changes:?}"
        );
        let kept = first.before(&[&after]);
        // Another program sets it now.
        write("ports", "9090\n");
        let PutBack { undone, leftovers, places } = kept.put_back();
        assert!(undone.len() == 1 && undone[0].ends_with("scheduler is none again"), "{undone:?}");
        assert!(leftovers.is_empty() && places.is_empty(), "{leftovers:?}");
        assert_eq!((read("scheduler").as_str(), read("ports").as_str()), ("none\n", "9090\n"));
        assert_eq!(first.as_first().put_back().undone.len(), 1, "whatever value it has");
        assert_eq!(read("ports"), "\n");
    }

    #[test]
    fn setting_that_stays_is_left_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("depth");
        fs::write(&path, "256\n").unwrap();
        let first = settings(directory.path(), &["depth"]);
        // A full device refuses the value.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/self/comm", &path).unwrap();
        let back = first.as_first().put_back();
        assert!(back.undone.len() + back.leftovers.len() == 1, "{back:?}");
        let gone = Settings(BTreeMap::from([(Place::File("/proc/version".into()), "another".to_owned())]));
        let back = gone.as_first().put_back();
        assert!(back.leftovers[0].contains(", and was another: "), "{back:?}");
        assert_eq!(back.places, [Place::File("/proc/version".into())]);
    }

    #[test]
    fn device_limits_are_one_line_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("io.max");
        fs::write(&path, "7:0 rbps=max\n7:1 riops=100\n").unwrap();
        let limit = |device: &str| Place::Limit(path.clone(), device.into(), "riops=max".into());
        assert_eq!(limit("7:1").read().unwrap(), "riops=100");
        assert_eq!(limit("7:2").read().unwrap(), "", "no limit");
        limit("7:2").write("").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "7:2 riops=max");
    }

    #[test]
    fn this_machine_has_settings() {
        let found = Settings::read(&[], Path::new("/proc"), "proc");
        let has = |path: &str| found.value(&Place::File(path.into())).is_some();
        assert!(has("/proc/sys/vm/swappiness") && has("/proc/sys/vm/dirty_ratio"));
        assert!(!has("/proc/sys/vm/drop_caches") && !has("/proc/sys/vm/stat_refresh"));
        assert!(found.value(&Place::Mount("/proc".into())).is_some());
        assert!(expand("/proc/*/vm").contains(&PathBuf::from("/proc/sys/vm")));
    }

    #[test]
    fn added_mount_options_are_negated() {
        let options = remount_options("rw,relatime,commit=5", "ro,noatime,discard,commit=60");
        assert_eq!(options, ["rw", "atime", "nodiscard", "relatime", "commit=5"]);
        assert_eq!(remount_options("rw,barrier", "rw,nobarrier,sync"), ["barrier", "async"]);
        assert!(remount_options("rw", "rw,commit=60").is_empty(), "nothing undoes it");
    }
}
