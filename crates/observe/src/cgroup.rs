//! Limits of the cgroups that hold this process, from its own up to the topmost visible one.

use model::health::IoLimit;
use model::target::Device;

use crate::parse::cgroup::{Membership, cpu_max, cpu_quota, io_max, limit_bytes, memberships, throttle};
use crate::parse::mountinfo::Mount;
use crate::root::Root;

/// Files of version 1 with limits of devices: bytes read, bytes written, reads, writes.
const THROTTLES: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

/// Tightest limits from the process's own cgroup upwards; absent where no cgroup sets one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Limits {
    /// CPUs by quota, possibly a fraction.
    pub cpus: Option<f64>,
    /// Bytes of memory, page cache included.
    pub memory_bytes: Option<u64>,
}

/// Reads the limits of both versions, which may be mounted side by side.
pub(crate) fn limits(root: &Root, mounts: &[Mount]) -> Limits {
    let mut limits = Limits::default();
    for Level { directory, is_version_2, .. } in levels(root, mounts, &["cpu", "memory"]) {
        let found = if is_version_2 {
            version_2_limits(root, &directory)
        } else {
            version_1_limits(root, &directory)
        };
        limits.cpus = smaller(limits.cpus, found.cpus, f64::min);
        limits.memory_bytes = smaller(limits.memory_bytes, found.memory_bytes, u64::min);
    }
    limits
}

/// A cgroup that holds this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    /// Directory of its files, below the root.
    pub directory: String,
    /// True for version 2.
    pub is_version_2: bool,
    /// True if the process is a direct member, not only a member of a cgroup below.
    pub is_member: bool,
}

/// Returns the cgroups of the version 2 hierarchy and of each hierarchy with one of these controllers. In
/// each hierarchy the topmost comes first.
pub(crate) fn levels(root: &Root, mounts: &[Mount], controllers: &[&str]) -> Vec<Level> {
    levels_of(root, mounts, "self", controllers)
}

/// Returns the same for another process.
pub(crate) fn levels_of(root: &Root, mounts: &[Mount], process: &str, controllers: &[&str]) -> Vec<Level> {
    let mut levels = Vec::new();
    for membership in memberships(&root.read(&format!("proc/{process}/cgroup")).unwrap_or_default()) {
        let Some(mount) = hierarchy(mounts, &membership, controllers) else { continue };
        let is_version_2 = membership.controllers.is_empty();
        let directories = ancestors(mount, &membership.path).into_iter();
        levels.extend(directories.map(|directory| Level { directory, is_version_2, is_member: false }));
        if let Some(level) = levels.last_mut() {
            level.is_member = true;
        }
    }
    levels
}

fn smaller<T>(a: Option<T>, b: Option<T>, min: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(min(a, b)),
        (a, b) => a.or(b),
    }
}

/// Returns the tightest I/O limits of each device; devices without a limit are left out.
pub(crate) fn io_limits(root: &Root, mounts: &[Mount], devices: &[Device]) -> Vec<IoLimit> {
    let mut limits: Vec<_> = devices.iter().map(|device| (device, [None; 4])).collect();
    for level in levels(root, mounts, &["blkio"]) {
        let texts: Vec<_> = io_files(&level).map(|file| root.read(&file).unwrap_or_default()).collect();
        for (device, tightest) in &mut limits {
            for (tightest, found) in
                tightest.iter_mut().zip(io_limits_in(&texts, (device.major, device.minor)))
            {
                *tightest = smaller(*tightest, found, u64::min);
            }
        }
    }
    let limited = limits.into_iter().filter(|(_, limits)| limits.iter().any(Option::is_some));
    limited
        .map(
            |(
                device,
                [read_bytes_per_second, written_bytes_per_second, reads_per_second, writes_per_second],
            )| {
                let device = device.name.clone();
                IoLimit {
                    device,
                    read_bytes_per_second,
                    written_bytes_per_second,
                    reads_per_second,
                    writes_per_second,
                }
            },
        )
        .collect()
}

/// Returns the files that hold limits of devices: one in version 2, four in version 1.
pub(crate) fn io_files(level: &Level) -> impl Iterator<Item = String> {
    let names = if level.is_version_2 { &["io.max"][..] } else { &THROTTLES[..] };
    names.iter().map(|name| format!("{}/{name}", level.directory))
}

/// Reads the limits of a device from the texts of these files. The order is bytes read, bytes written, reads
/// and writes per second.
pub(crate) fn io_limits_in<T: AsRef<str>>(texts: &[T], (major, minor): (u32, u32)) -> [Option<u64>; 4] {
    match texts {
        [text] => io_max(text.as_ref(), major, minor),
        texts => std::array::from_fn(|index| throttle(texts.get(index)?.as_ref(), major, minor)),
    }
}

/// Finds the mount of a hierarchy, if the hierarchy is version 2 or has one of these controllers.
fn hierarchy<'a>(mounts: &'a [Mount], membership: &Membership, controllers: &[&str]) -> Option<&'a Mount> {
    if membership.controllers.is_empty() {
        return mounts.iter().rfind(|mount| mount.file_system == "cgroup2");
    }
    let limiting = membership.controllers.iter().find(|name| controllers.contains(&name.as_str()))?;
    mounts.iter().rfind(|mount| mount.file_system == "cgroup" && mount.super_options.contains(limiting))
}

/// Returns the directories of a cgroup and of all cgroups above it. A container sees its own cgroup as the
/// top of the mount.
fn ancestors(mount: &Mount, path: &str) -> Vec<String> {
    let root = mount.root.trim_end_matches('/');
    // A path that climbs leads out of the namespace; then only the top of the mount is visible.
    let below = path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or("");
    let below = if below.split('/').any(|name| name == "..") { "" } else { below.trim_end_matches('/') };
    let ends = below.match_indices('/').map(|(end, _)| end).chain([below.len()]);
    ends.map(|end| format!("{}{}", mount.mount_point.trim_end_matches('/'), &below[..end])).collect()
}

fn version_2_limits(root: &Root, directory: &str) -> Limits {
    let bytes = |name: &str| limit_bytes(&root.line(&format!("{directory}/{name}"))?);
    Limits {
        cpus: root
            .line(&format!("{directory}/cpu.max"))
            .and_then(|text| cpu_max(&text))
            .map(|quota| quota.cpus),
        memory_bytes: smaller(bytes("memory.max"), bytes("memory.high"), u64::min),
    }
}

fn version_1_limits(root: &Root, directory: &str) -> Limits {
    let number = |name: &str| root.number::<i64>(&format!("{directory}/{name}"));
    Limits {
        cpus: number("cpu.cfs_quota_us")
            .zip(number("cpu.cfs_period_us"))
            .and_then(|(quota_us, period_us)| cpu_quota(quota_us, period_us))
            .map(|quota| quota.cpus),
        memory_bytes: root
            .line(&format!("{directory}/memory.limit_in_bytes"))
            .and_then(|text| limit_bytes(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::ancestors;
    use crate::parse::mountinfo::Mount;

    fn mount(root: &str) -> Mount {
        Mount { root: root.into(), mount_point: "/sys/fs/cgroup".into(), ..Mount::default() }
    }

    #[test]
    fn cgroup_path_includes_every_ancestor() {
        assert_eq!(
            ancestors(&mount("/"), "/a/b"),
            ["/sys/fs/cgroup", "/sys/fs/cgroup/a", "/sys/fs/cgroup/a/b"]
        );
        assert_eq!(ancestors(&mount("/"), "/"), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn container_cgroup_is_treated_as_root() {
        assert_eq!(ancestors(&mount("/docker/ab"), "/docker/ab"), ["/sys/fs/cgroup"]);
        assert_eq!(ancestors(&mount("/docker/ab"), "/docker/ab/c"), ["/sys/fs/cgroup", "/sys/fs/cgroup/c"]);
        assert_eq!(ancestors(&mount("/"), "/../../x"), ["/sys/fs/cgroup"]);
    }
}
