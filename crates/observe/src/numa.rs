//! The NUMA node of a device, and the CPUs that are near it.

use std::iter::successors;

use model::Target;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::device::SysfsDevice;
use crate::parse::cpu_list;
use crate::root::Root;

const NODES: &str = "sys/devices/system/node";

/// Returns the node of the device's controller, if the machine has several nodes and sysfs has the node.
pub(crate) fn node(root: &Root, place: &SysfsDevice) -> Option<u32> {
    if !has_several_nodes(root) {
        return None;
    }
    let device = root.real(&format!("{}/device", place.disk))?;
    let text = nearest_node(root, &device).or_else(|| node_of_paths(root, &device))?;
    // If the firmware reports no node, sysfs shows -1.
    text.parse().ok()
}

/// Reads the node of the device, or of the nearest parent directory that has one. NVMe controllers have it themselves;
/// for other disks the PCI function has it.
fn nearest_node(root: &Root, device: &str) -> Option<String> {
    let mut directories = successors(Some(device), |directory| Some(directory.rsplit_once('/')?.0));
    directories.find_map(|directory| root.line(&format!("{directory}/numa_node")))
}

/// Returns the node that all controllers of an NVMe subsystem have in common. The subsystem represents a multipath
/// disk, and has a link to each controller.
fn node_of_paths(root: &Root, subsystem: &str) -> Option<String> {
    let names = root.list(subsystem).into_iter().filter(|name| name.starts_with("nvme"));
    agreed(names.filter_map(|name| root.line(&format!("{subsystem}/{name}/numa_node"))))
}

/// Returns the CPUs of the target's NUMA node, as far as this thread may use them. The target's node is that
/// of its physical devices.
///
/// Absent if the machine has one node, if a device's node is unknown, or if the devices' nodes differ. Absent
/// also if none or all of the usable CPUs are near.
pub fn near_cpus(root: &Root, target: &Target) -> Option<Vec<u32>> {
    if !has_several_nodes(root) {
        return None;
    }
    let leaves = target.device_stack.iter().filter(|device| device.is_leaf());
    let node = agreed(leaves.map(|device| device.numa_node))??;
    let of_node = cpu_list::cpus(&root.line(&format!("{NODES}/node{node}/cpulist"))?)?;
    usable_near_cpus(&usable_cpus(root)?, &of_node)
}

fn has_several_nodes(root: &Root) -> bool {
    let online = root.line(&format!("{NODES}/online"));
    online.and_then(|text| cpu_list::count(&text)).is_some_and(|nodes| nodes > 1)
}

fn usable_cpus(root: &Root) -> Option<Vec<u32>> {
    if !root.is_system() {
        return cpu_list::cpus(&root.line("sys/devices/system/cpu/online")?);
    }
    let allowed = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Returns the CPUs that are both usable and near; absent if that is none or all of the usable ones.
fn usable_near_cpus(usable: &[u32], near: &[u32]) -> Option<Vec<u32>> {
    let both: Vec<_> = usable.iter().copied().filter(|cpu| near.contains(cpu)).collect();
    (!both.is_empty() && both.len() < usable.len()).then_some(both)
}

/// Returns the common value, if there are values and all are equal.
fn agreed<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::{agreed, usable_cpus, usable_near_cpus};
    use crate::root::Root;

    #[test]
    fn near_cpus_must_be_a_proper_subset_of_usable() {
        assert_eq!(usable_near_cpus(&[0, 1, 8, 9], &[8, 9, 10]), Some(vec![8, 9]));
        assert_eq!(usable_near_cpus(&[0, 1], &[8, 9]), None);
        assert_eq!(usable_near_cpus(&[8, 9], &[8, 9, 10]), None);
        assert_eq!(usable_near_cpus(&[], &[8]), None);
    }

    #[test]
    fn differing_values_give_no_common_value() {
        assert_eq!(agreed([1, 1, 1].into_iter()), Some(1));
        assert_eq!(agreed([1, 1, 2].into_iter()), None);
        assert_eq!(agreed([0; 0].into_iter()), None);
    }

    #[test]
    fn running_system_has_usable_cpus() {
        assert!(!usable_cpus(&Root::system()).unwrap().is_empty());
    }
}
