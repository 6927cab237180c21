//! CPUs and memory that this process may use.

use std::io::Read;

use model::Machine;

use crate::cgroup::{Limits, limits};
use crate::parse::{cpu_list, cpuinfo, meminfo, mountinfo};
use crate::root::Root;
use crate::virtualisation::virtualisation;

/// Bytes for the first processor of `/proc/cpuinfo`: the kernel needs milliseconds to format hundreds of
/// them.
const CPUINFO_BYTES: usize = 4096;

/// Returns the bytes of the machine's dirty pages and pages under writeback; 0 if they cannot be read.
pub fn dirty_and_writeback_bytes(root: &Root) -> u64 {
    let memory = meminfo::parse(root.read("proc/meminfo").unwrap_or_default().as_bytes());
    memory.dirty_bytes + memory.writeback_bytes
}

/// Describes the machine, as far as it matters for a storage test.
pub fn machine(root: &Root) -> Machine {
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let limits = limits(root, &mounts);
    let cpuinfo = cpuinfo::parse(&read_beginning(root, "proc/cpuinfo", CPUINFO_BYTES));
    let cpus_online = cpus_online(root);
    let memory_total_bytes = memory_total_bytes(root);
    Machine {
        host: root.line("proc/sys/kernel/hostname").unwrap_or_else(|| "unknown".to_owned()),
        kernel: kernel(root),
        virtualisation: virtualisation(root, cpuinfo.has_hypervisor),
        cpu_model: cpuinfo.model,
        cpus: cpus(root, cpus_online, &limits),
        cpus_online,
        memory_bytes: limits.memory_bytes.unwrap_or(u64::MAX).min(memory_total_bytes),
        memory_total_bytes,
        clock_source: root.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        is_root: root.is_system() && rustix::process::geteuid().is_root() && !is_user_namespace_root(root),
        lockable_bytes: root.is_system().then(lockable_bytes).flatten(),
        open_files_max: root.is_system().then(open_files_max).flatten(),
        file_bytes_max: root.is_system().then(file_bytes_max).flatten(),
        // Only an attempt shows it, and the program makes it.
        io_uring_refused: None,
    }
}

/// Returns the memory of the machine. Where `/proc` is not mounted, the kernel's call knows it.
fn memory_total_bytes(root: &Root) -> u64 {
    let memory = meminfo::parse(root.read("proc/meminfo").unwrap_or_default().as_bytes());
    match memory.total_bytes {
        0 if root.is_system() => {
            let system = rustix::system::sysinfo();
            (system.totalram as u64).saturating_mul(system.mem_unit.into())
        }
        total_bytes => total_bytes,
    }
}

/// Returns true if root of this user namespace is another user outside, without the rights of root.
fn is_user_namespace_root(root: &Root) -> bool {
    let map = root.read("proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace();
        numbers.next() == Some("0") && numbers.next() != Some("0")
    })
}

/// Returns the bytes that this process may lock in memory. `None` if there is no limit, or if a capability
/// lifts it.
pub fn lockable_bytes() -> Option<u64> {
    let is_free = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::IPC_LOCK));
    rustix::process::getrlimit(rustix::process::Resource::Memlock).current.filter(|_| !is_free)
}

/// Returns the number of files that this process may have open at a time; `None` without a limit.
pub fn open_files_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

fn file_bytes_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

fn read_beginning(root: &Root, path: &str, bytes_max: usize) -> String {
    let mut bytes = vec![0; bytes_max];
    let count = root.open(path).and_then(|mut file| file.read(&mut bytes).ok()).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn kernel(root: &Root) -> String {
    let name = root.line("proc/sys/kernel/ostype").unwrap_or_else(|| "Linux".to_owned());
    match root.line("proc/sys/kernel/osrelease") {
        Some(release) => format!("{name} {release}"),
        None => name,
    }
}

fn cpus_online(root: &Root) -> u32 {
    let online = root.line("sys/devices/system/cpu/online").and_then(|text| cpu_list::count(&text));
    // Where `/sys` is not mounted, the kernel's call knows at least these.
    online.or_else(|| allowed_cpus(root)).unwrap_or(1).max(1)
}

/// Returns the number of CPUs that the affinity of this process allows; `None` in a recorded tree.
fn allowed_cpus(root: &Root) -> Option<u32> {
    let affinity = root.is_system().then(|| rustix::thread::sched_getaffinity(None).ok()).flatten();
    affinity.map(|cpus| cpus.count())
}

/// Counts the usable CPUs. A quota of 2.5 CPUs counts as 2, as in the standard library: a third thread would
/// be held back half of the time.
fn cpus(root: &Root, online: u32, limits: &Limits) -> u32 {
    let allowed = allowed_cpus(root).unwrap_or(online);
    let quota = limits.cpus.map_or(u32::MAX, |cpus| cpus.floor() as u32);
    allowed.min(quota).max(1)
}

#[cfg(test)]
mod tests {
    use super::machine;
    use crate::root::Root;

    #[test]
    fn running_machine_is_read() {
        let machine = machine(&Root::system());
        assert!(machine.cpus >= 1 && machine.cpus <= machine.cpus_online);
        assert!(machine.memory_bytes > 1 << 20 && machine.memory_bytes <= machine.memory_total_bytes);
        assert!(machine.kernel.starts_with("Linux "));
    }

    #[test]
    fn user_namespace_root_is_detected_by_uid_map() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        for (map, is_user_namespace_root) in
            [("0 0 4294967295", false), ("0 1000 1\n1 100000 65536", true), ("1000 0 1", false)]
        {
            std::fs::write(directory.path().join("proc/self/uid_map"), map).unwrap();
            assert_eq!(
                super::is_user_namespace_root(&Root::at(directory.path())),
                is_user_namespace_root,
                "{map}"
            );
        }
    }

    #[test]
    fn machine_of_empty_tree_has_defaults() {
        let directory = tempfile::tempdir().unwrap();
        let machine = machine(&Root::at(directory.path()));
        assert_eq!((machine.cpus, machine.memory_bytes), (1, 0));
        assert_eq!(machine.virtualisation, None);
    }
}
