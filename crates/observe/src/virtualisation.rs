//! Hypervisor and container that the machine runs in, as far as an ordinary user can see them.

use crate::root::Root;

/// Words of firmware, each with the hypervisor or provider that it stands for.
const FIRMWARE: &[(&str, &str)] = &[
    ("Amazon EC2", "Amazon EC2"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("Alibaba Cloud", "Alibaba Cloud"),
    ("DigitalOcean", "DigitalOcean"),
    ("OpenStack", "OpenStack"),
    ("Hetzner", "Hetzner Cloud"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek GmbH", "virtualbox"),
    ("Parallels", "parallels"),
    ("Bochs", "bochs"),
    ("BHYVE", "bhyve"),
    ("Xen", "xen"),
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
];

/// Clocks that only a guest of the hypervisor has.
const CLOCKS: &[(&str, &str)] = &[("kvm-clock", "kvm"), ("hyperv_clocksource", "hyper-v"), ("xen", "xen")];

/// Words in the path of a container's cgroup.
const CONTAINERS: &[(&str, &str)] = &[
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
];

/// Names hypervisor and container: "kvm", "Amazon EC2, docker container"; absent on bare metal.
pub(crate) fn virtualisation(root: &Root, hypervisor_flag: bool) -> Option<String> {
    let container = container(root).map(|name| format!("{name} container"));
    let parts: Vec<_> = hypervisor(root, hypervisor_flag).into_iter().chain(container).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the hypervisor. Firmware has a provider's name on bare metal, too, so on x86 the processor's flag decides.
fn hypervisor(root: &Root, flag: bool) -> Option<String> {
    if root
        .line("proc/sys/kernel/osrelease")
        .is_some_and(|release| release.to_lowercase().contains("microsoft"))
    {
        return Some("wsl".to_owned());
    }
    // The first domain of Xen looks like a guest but has the real devices.
    let capabilities = root.line("proc/xen/capabilities").unwrap_or_default();
    if let Some(kind) = root.line("sys/hypervisor/type").filter(|_| !capabilities.contains("control_d")) {
        return Some(kind);
    }
    let tree = root.line("sys/firmware/devicetree/base/hypervisor/compatible");
    if let Some(compatible) = tree {
        let name = compatible.split(['\0', ',']).nth(1).unwrap_or("virtual machine");
        return Some(name.to_owned());
    }
    let x86 = root.read("proc/cpuinfo").is_some_and(|text| text.contains("\nflags"));
    if !flag && x86 {
        return None;
    }
    // QEMU names itself, both as an emulator and with the kernel's own hypervisor; the clock distinguishes
    // the two.
    let firmware = firmware(root);
    let named = if firmware.as_deref() == Some("qemu") {
        clock(root).or(firmware)
    } else {
        firmware.or_else(|| clock(root))
    };
    named.or_else(|| flag.then(|| "virtual machine".to_owned()))
}

fn firmware(root: &Root) -> Option<String> {
    let line = |name: &str| root.line(&format!("sys/class/dmi/id/{name}")).unwrap_or_default();
    let words = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"].map(line).join(" ");
    if words.contains("Microsoft Corporation") && words.contains("Virtual Machine") {
        return Some("hyper-v".to_owned());
    }
    FIRMWARE.iter().find(|(word, _)| words.contains(word)).map(|(_, name)| (*name).to_owned())
}

fn clock(root: &Root) -> Option<String> {
    let clocks = root.line("sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    let is_offered = |word: &str| clocks.split_whitespace().any(|clock| clock.starts_with(word));
    CLOCKS.iter().find(|(word, _)| is_offered(word)).map(|(_, name)| (*name).to_owned())
}

/// Returns the container's runtime; absent outside of a container.
pub(crate) fn container(root: &Root) -> Option<String> {
    if let Some(manager) = root.line("run/systemd/container") {
        return Some(manager);
    }
    if root.exists("run/.containerenv") {
        return Some("podman".to_owned());
    }
    let cgroup = root.line("proc/1/cgroup").unwrap_or_default();
    if let Some((_, name)) = CONTAINERS.iter().find(|(word, _)| cgroup.contains(word)) {
        return Some((*name).to_owned());
    }
    root.exists(".dockerenv").then(|| "docker".to_owned())
}
