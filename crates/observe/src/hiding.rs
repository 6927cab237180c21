//! Places in which users of a device may hide from this process.

use crate::parse::mountinfo::{self, Mount};
use crate::root::Root;

/// Link to the initial PID namespace (`PROC_PID_INIT_INO` in the kernel's include/linux/proc_ns.h).
pub(crate) const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Directories of `/proc` and `/sys` that never show a user of a device, so that anything may be mounted there.
const HARMLESS: &[&str] = &[
    "/proc/bus/usb",
    "/proc/fs/nfsd",
    "/proc/sys/fs/binfmt_misc",
    "/proc/xen",
    "/sys/firmware/efi/efivars",
    "/sys/fs/bpf",
    "/sys/fs/cgroup",
    "/sys/fs/fuse/connections",
    "/sys/fs/pstore",
    "/sys/fs/resctrl",
    "/sys/fs/selinux",
    "/sys/fs/smackfs",
    "/sys/hypervisor",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
];
/// Place of configfs, which shows exported devices.
const CONFIGFS: &str = "/sys/kernel/config";

/// Returns places in which users of a device may hide from this process, and mount options that hide processes of other
/// users.
pub(crate) fn hidden(root: &Root) -> (Vec<String>, Vec<String>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    let namespace = root.real("proc/self/ns/pid");
    if namespace.as_deref().and_then(|link| link.rsplit('/').next()) != Some(INITIAL_PID_NAMESPACE) {
        found.push("this PID namespace hides processes".to_owned());
    }
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    for (place, file_system) in [("/proc", "proc"), ("/sys", "sysfs")] {
        let at: Vec<_> = mounts.iter().filter(|mount| mount.mount_point == place).collect();
        if at.is_empty() || at.iter().any(|mount| mount.file_system != file_system || mount.root != "/") {
            found.push(format!("{place} is not the kernel's {file_system}"));
        }
        for option in at.iter().flat_map(|mount| mount.options.iter().chain(&mount.super_options)) {
            let clause = format!("{place} is mounted with {option}");
            match option.strip_prefix("hidepid=") {
                Some("0" | "off") => {}
                Some(_) => unreadable.push(clause),
                None => found.extend(option.starts_with("subset=").then_some(clause)),
            }
        }
    }
    found.extend(
        mounts.iter().filter(covers).map(|mount| format!("{} is covered by a mount", mount.mount_point)),
    );
    (found, unreadable)
}

/// Returns true if a mount may cover a file or directory of `/proc` or `/sys` that shows users of devices.
fn covers(mount: &&Mount) -> bool {
    let at = mount.mount_point.as_str();
    let is_below = |place: &str| at.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'));
    let is_harmless = HARMLESS.iter().any(|place| at == *place || is_below(place))
        || at == CONFIGFS && mount.file_system == "configfs" && mount.root == "/";
    (is_below("/proc") || is_below("/sys")) && !is_harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mounts of a Debian 13 with systemd, and of services that make their own.
    const DEBIAN: &str = include_str!("../tests/fixtures/mountinfo_debian_13");

    fn covered(text: &str) -> Vec<String> {
        mountinfo::parse(text).iter().filter(covers).map(|mount| mount.mount_point.clone()).collect()
    }

    #[test]
    fn default_systemd_mounts_cover_no_kernel_files() {
        assert!(DEBIAN.lines().count() > 20);
        assert_eq!(covered(DEBIAN), Vec::<String>::new());
    }

    #[test]
    fn mount_over_needed_proc_or_sys_path_is_detected() {
        for place in [
            "/proc/1",
            "/proc/swaps",
            "/proc/mounts",
            "/proc/self",
            "/sys/block",
            "/sys/block/sda",
            "/sys/bus/scsi",
            "/sys/class",
            "/sys/dev/block",
            "/sys/devices/virtual/block/dm-0",
            "/sys/fs",
            "/sys/fs/bcache",
            "/sys/fs/btrfs",
            "/sys/fs/btrfs/0a-1b",
            "/sys/kernel",
            "/sys/kernel/config",
            "/sys/kernel/config/nvmet",
            "/sys/module",
            "/proc/sys/fs",
        ] {
            let text = format!("{DEBIAN}900 20 0:90 / {place} rw - tmpfs tmpfs rw\n");
            assert_eq!(covered(&text), [place]);
        }
        // A part of configfs in the place of all of it.
        assert_eq!(covered("9 8 0:9 /x /sys/kernel/config rw - configfs configfs rw\n"), [CONFIGFS]);
    }
}
