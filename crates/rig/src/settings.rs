//! Settings of the machine that change what a target does: read as values, and put back.
//!
//! [`Settings`] knows no single setting by name. It holds the files in the kernel's directories of settings that root can
//! write and read. It also holds the limits of the target's devices in the cgroups of this process, and the options of the
//! target's mount.

use std::collections::BTreeSet;
use std::ffi::OsStr;
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
    "/proc/sys/kernel",
    "/proc/sys/net/core",
    "/proc/sys/net/ipv4",
    "/proc/sys/sunrpc",
    "/proc/sys/vm",
    "/sys/devices/system/cpu/*",
    "/sys/devices/system/cpu/*/cpufreq",
    "/sys/devices/system/cpu/*/cpuidle/*",
    "/sys/kernel/mm/transparent_hugepage",
];
/// Directories of a block device, below its own.
const OF_DEVICE: &[&str] =
    &["queue", "queue/iosched", "device", "device/scsi_disk/*", "md", "bcache", "loop"];
/// Modules whose parameters change how storage works, besides that of the file system.
const MODULES: &[&str] =
    &["nvme", "nvme_core", "scsi_mod", "dm_mod", "md_mod", "loop", "fuse", "nfs", "sunrpc", "zfs", "zswap"];
/// Directories that are no settings: programs to start by the kind of file, which the kernel mounts when they are read.
const EXCLUDED: &[&str] = &["binfmt_misc"];
/// Longest value. Longer texts are tables.
const VALUE_BYTES_MAX: usize = 4096;
/// Attempts to put all values back. A value may depend on another: a scheduler resets the length of its queue.
const PASSES: usize = 4;
/// Limits of a device in a cgroup, and the value that means no limit.
const LIMITS: &[(&str, &str)] = &[
    ("io.max", "rbps=max wbps=max riops=max wiops=max"),
    ("blkio.throttle.read_bps_device", "0"),
    ("blkio.throttle.write_bps_device", "0"),
    ("blkio.throttle.read_iops_device", "0"),
    ("blkio.throttle.write_iops_device", "0"),
];

/// Settings with their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings(Vec<Setting>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Setting {
    place: Place,
    value: String,
}

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

impl Settings {
    /// Reads the settings that may change what a target does. The target is given by its block devices, each a name and a
    /// number ("7:3"), its mount point and the kind of its file system.
    pub fn read(devices: &[(String, String)], mount_point: &Path, file_system: &str) -> Self {
        let mut directories: BTreeSet<PathBuf> = DIRECTORIES.iter().flat_map(|path| expand(path)).collect();
        for (name, _) in devices {
            let Ok(device) = fs::canonicalize(Path::new("/sys/class/block").join(name)) else { continue };
            // The queue of a partition is its disk's.
            let disk =
                if device.join("partition").exists() { device.parent().unwrap_or(&device) } else { &device };
            let disk = Path::new("/sys/block").join(disk.file_name().unwrap_or_default());
            directories
                .extend(OF_DEVICE.iter().flat_map(|below| expand(&disk.join(below).to_string_lossy())));
            directories.extend(expand(&format!("/sys/fs/{file_system}/{name}")));
        }
        // The read-ahead of a block device is a file of its queue, too.
        let of_mount = mounts::at(mount_point).pop().map(|mount| mount.device_number);
        let of_mount = of_mount.filter(|number| devices.iter().all(|(_, known)| known != number));
        directories.extend(of_mount.map(|number| Path::new("/sys/class/bdi").join(number)));
        let modules = MODULES.iter().chain([&file_system]);
        directories.extend(modules.map(|module| Path::new("/sys/module").join(module).join("parameters")));
        let files = directories.iter().flat_map(|directory| files_in(directory)).map(Place::File);
        let mount = std::iter::once(Place::Mount(mount_point.to_owned()));
        Self::read_places(files.chain(limits(devices)).chain(mount))
    }

    pub(crate) fn read_places(places: impl Iterator<Item = Place>) -> Self {
        Self(places.filter_map(|place| Some(Setting { value: place.read()?, place })).collect())
    }

    /// Returns the settings that differ now from these. Settings that appeared since are not among them.
    pub fn changes(&self) -> Vec<Change> {
        let change = |setting: &Setting| {
            let after = setting.place.read();
            (after.as_ref() != Some(&setting.value)).then(|| Change {
                place: setting.place.clone(),
                before: Some(setting.value.clone()),
                after,
            })
        };
        self.0.iter().filter_map(change).collect()
    }

    /// Returns the settings that differ between these and other ones.
    pub fn compare(&self, other: &Self) -> Vec<Change> {
        let value = |of: &Self, place: &Place| {
            of.0.iter().find(|setting| setting.place == *place).map(|setting| setting.value.clone())
        };
        let only_other = other.0.iter().filter(|setting| value(self, &setting.place).is_none());
        let places = self.0.iter().chain(only_other).map(|setting| &setting.place);
        places
            .map(|place| Change {
                place: place.clone(),
                before: value(self, place),
                after: value(other, place),
            })
            .filter(|change| change.before != change.after)
            .collect()
    }

    /// Keeps only the settings at these places.
    pub fn retain(&mut self, places: &[Place]) {
        self.0.retain(|setting| places.contains(&setting.place));
    }

    /// Drops the settings at these places.
    pub fn exclude(&mut self, places: &[Place]) {
        self.0.retain(|setting| !places.contains(&setting.place));
    }

    /// Reads the same settings again.
    #[must_use]
    pub fn read_again(&self) -> Self {
        Self::read_places(self.0.iter().map(|setting| setting.place.clone()))
    }

    /// Gives each setting its value again. Returns what was put back, and what was not, each with the reason.
    pub fn put_back(&self) -> (Vec<String>, Vec<String>) {
        let all = self.changes();
        for _ in 0..PASSES {
            let changes = self.changes();
            if changes.is_empty() {
                break;
            }
            // An error may end when another setting is back. What still differs at the end is reported.
            changes.iter().for_each(|change| drop(change.undo()));
        }
        let left = self.changes();
        let is_left = |change: &&Change| left.iter().any(|still| still.place == change.place);
        let undone = all.iter().filter(|change| !is_left(change)).map(Change::undone).collect();
        (undone, left.iter().map(Change::leftover).collect())
    }
}

impl Change {
    fn undo(&self) -> Result<(), String> {
        self.place.write(self.before.as_deref().unwrap_or_default())
    }

    fn undone(&self) -> String {
        format!("{}, back to {}", self.place, value_text(self.before.as_ref()))
    }

    fn leftover(&self) -> String {
        let why = self.undo().err().unwrap_or_else(|| "the kernel does not take the value".into());
        let (before, after) = (value_text(self.before.as_ref()), value_text(self.after.as_ref()));
        format!("{}: it is {after}, and was {before}: {why}", self.place)
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
    value.map(String::as_str).filter(|value| !value.is_empty()).unwrap_or("none")
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
            Self::File(path) => fs::write(path, value).map_err(|error| error.to_string()),
            Self::Limit(path, device, unlimited) => {
                let value = if value.is_empty() { unlimited } else { value };
                fs::write(path, format!("{device} {value}")).map_err(|error| error.to_string())
            }
            Self::Mount(path) => remount(path, value, &self.read().unwrap_or_default()),
        }
    }
}

/// Mounts a file system again with the options that it had: an option that was added is negated.
fn remount(at: &Path, before: &str, now: &str) -> Result<(), String> {
    let before: Vec<&str> = before.split(',').collect();
    let added = now.split(',').filter(|option| !before.contains(option) && !option.contains('='));
    let negated = added.map(|option| match option.strip_prefix("no") {
        Some(positive) => positive.to_owned(),
        None => format!("no{option}"),
    });
    let options: Vec<String> = negated.chain(before.iter().map(|option| (*option).to_owned())).collect();
    let mut mount = Command::new("mount");
    mount.args(["-o", &format!("remount,{}", options.join(","))]).arg(at).stdin(Stdio::null());
    command::run(&mut mount, "mount it again").map(drop).map_err(|error| error.cause)
}

/// Returns the text of a file with one line; `None` for an empty file, or one with more.
fn one_line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim();
    (!line.is_empty() && !line.contains('\n') && line.len() <= VALUE_BYTES_MAX).then(|| line.to_owned())
}

/// Returns the choice of "none [mq-deadline] kyber", or the whole text of a file without brackets.
fn chosen(text: String) -> String {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    word.map(ToOwned::to_owned).unwrap_or(text)
}

/// Returns the existing directories that a path means, in which `*` stands for any name.
fn expand(path: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in path.split('/').filter(|part| !part.is_empty()) {
        found = match part {
            "*" => found.iter().flat_map(|directory| subdirectories(directory)).collect(),
            name => found.into_iter().map(|directory| directory.join(name)).collect(),
        };
    }
    found.retain(|directory| directory.is_dir());
    found
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_settings = |path: &PathBuf| {
        !EXCLUDED.iter().any(|name| path.file_name() == Some(OsStr::new(name))) && path.is_dir()
    };
    entries.map(|entry| entry.path()).filter(is_settings).collect()
}

/// Returns the files of a directory that the kernel lets root write and read.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_setting = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o600 == 0o600)
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_setting).collect();
    files.sort();
    files
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
        Settings::read_places(names.iter().map(|name| Place::File(directory.join(name))))
    }

    #[test]
    fn changed_files_get_their_values_back() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("scheduler", "[none] mq-deadline\n");
        write("depth", "256\n");
        write("table", "1\n2\n");
        let before = settings(directory.path(), &["scheduler", "depth", "table", "missing"]);
        assert_eq!(before.0.len(), 2, "tables and missing files are no settings");
        assert_eq!(before.changes(), []);
        write("scheduler", "none [mq-deadline]\n");
        let changes = before.changes();
        assert!(changes[0].to_string().ends_with("scheduler: none → mq-deadline"), "{}", changes[0]);
        assert_eq!(before.compare(&before.read_again()), changes);
        let (undone, left) = before.put_back();
        assert!(undone[0].ends_with("scheduler, back to none") && left.is_empty(), "{undone:?} {left:?}");
        assert_eq!(fs::read_to_string(directory.path().join("scheduler")).unwrap(), "none");
    }

    #[test]
    fn setting_that_stays_is_left_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("depth");
        fs::write(&path, "256\n").unwrap();
        let before = settings(directory.path(), &["depth"]);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let (undone, left) = before.put_back();
        assert!(undone.is_empty() && left[0].contains("it is none, and was 256: Is a directory"), "{left:?}");
    }

    #[test]
    fn this_machine_has_settings() {
        let found = Settings::read(&[], Path::new("/proc"), "proc");
        let has = |path: &str| found.0.iter().any(|setting| setting.place == Place::File(path.into()));
        assert!(has("/proc/sys/vm/swappiness") && has("/proc/sys/vm/dirty_ratio"));
        assert!(!has("/proc/sys/vm/drop_caches"), "it can only be written");
        assert!(found.0.iter().any(|setting| setting.place == Place::Mount("/proc".into())));
    }

    #[test]
    fn added_mount_options_are_negated() {
        assert_eq!(expand("/proc/sys/vm"), [PathBuf::from("/proc/sys/vm")]);
        assert!(expand("/proc/*/vm").contains(&PathBuf::from("/proc/sys/vm")));
        assert!(expand("/no/such/directory").is_empty());
    }
}
