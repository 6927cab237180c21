//! One block device, from its directory in sysfs.

use model::target::{Device, DeviceKind};

use crate::link;
use crate::numa::node;
use crate::root::Root;
use crate::settings::chosen;

const KIB: u64 = 1024;
const SECTOR_BYTES: u64 = 512;

/// Place of a device in sysfs: paths relative to the root.
#[derive(Debug, Clone)]
pub(crate) struct SysfsDevice {
    pub name: String,
    /// Its own directory.
    pub directory: String,
    /// Directory of the disk, which has the queue; equals `directory` unless the device is a partition.
    pub disk: String,
    pub is_partition: bool,
}

impl SysfsDevice {
    /// Returns the place of the device with this name; absent if there is none.
    pub fn by_name(root: &Root, name: &str) -> Option<Self> {
        Self::at(root, &format!("sys/class/block/{name}"))
    }

    /// Returns the place of the block device with these numbers; absent if there is none.
    pub fn by_number(root: &Root, major: u32, minor: u32) -> Option<Self> {
        Self::at(root, &format!("sys/dev/block/{major}:{minor}"))
    }

    fn at(root: &Root, link: &str) -> Option<Self> {
        let directory = root.real(link)?;
        let (above, name) = directory.rsplit_once('/')?;
        let is_partition = root.exists(&format!("{directory}/partition"));
        let disk = if is_partition { above.to_owned() } else { directory.clone() };
        Some(Self { name: name.to_owned(), disk, is_partition, directory })
    }

    /// Returns the name of the disk that holds the partition.
    pub fn disk_name(&self) -> &str {
        self.disk.rsplit_once('/').map_or(&self.disk, |(_, name)| name)
    }

    /// Reads a file in the device's own directory.
    pub fn line(&self, root: &Root, name: &str) -> Option<String> {
        root.line(&format!("{}/{name}", self.directory))
    }

    /// Returns true if the device's own directory has an entry of this name.
    pub fn has(&self, root: &Root, name: &str) -> bool {
        root.exists(&format!("{}/{name}", self.directory))
    }

    /// Returns true for a path of an NVMe device that the kernel joins with others. No program can open it.
    pub fn is_hidden(&self, root: &Root) -> bool {
        root.line(&format!("{}/hidden", self.disk)).as_deref() == Some("1")
    }

    /// Returns the kind of the device.
    pub fn kind(&self, root: &Root) -> DeviceKind {
        if self.is_partition {
            DeviceKind::Partition
        } else if self.has(root, "dm") {
            DeviceKind::DeviceMapper
        } else if self.has(root, "md") {
            DeviceKind::Raid
        } else if self.name.starts_with("loop") {
            DeviceKind::Loop
        } else if self.name.starts_with("zram") {
            DeviceKind::Zram
        } else {
            DeviceKind::Disk
        }
    }
}

/// Describes the device, without the devices under it.
pub(crate) fn device(root: &Root, place: &SysfsDevice, kind: DeviceKind) -> Device {
    let queue = |name: &str| root.line(&format!("{}/queue/{name}", place.disk));
    let number = |name: &str| queue(name).and_then(|text| text.parse().ok());
    let (major, minor) = numbers(root, place);
    Device {
        name: place.name.clone(),
        major,
        minor,
        kind,
        backing_devices: Vec::new(),
        size_bytes: place
            .line(root, "size")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0u64)
            .saturating_mul(SECTOR_BYTES),
        model: model(root, place),
        logical_block_bytes: number("logical_block_size"),
        physical_block_bytes: number("physical_block_size"),
        rotational: queue("rotational").map(|text| text != "0"),
        scheduler: queue("scheduler").and_then(|text| chosen(&text).map(str::to_owned)),
        write_cache: queue("write_cache"),
        nr_requests: number("nr_requests"),
        read_ahead_bytes: queue("read_ahead_kb")
            .and_then(|text| text.parse::<u64>().ok())
            .map(|kib| kib.saturating_mul(KIB)),
        numa_node: node(root, place),
        io_poll: queue("io_poll").map(|text| text != "0"),
        link: if kind == DeviceKind::Disk { link::link(root, place) } else { None },
        details: if kind == DeviceKind::Disk { disk_details(root, place) } else { Vec::new() },
    }
}

/// Returns the major and the minor number of a device.
pub(crate) fn numbers(root: &Root, place: &SysfsDevice) -> (u32, u32) {
    let text = place.line(root, "dev").unwrap_or_default();
    let numbers =
        text.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.unwrap_or((0, 0))
}

/// Returns the model of the disk, also for its partitions. The vendor comes first if it is a name and not a
/// number or a bus.
fn model(root: &Root, place: &SysfsDevice) -> Option<String> {
    let line = |name: &str| root.line(&format!("{}/device/{name}", place.disk));
    let model = line("model").or_else(|| line("name"))?.split_whitespace().collect::<Vec<_>>().join(" ");
    let vendor = line("vendor").filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"));
    Some(match vendor {
        Some(vendor) if !model.starts_with(&vendor) => format!("{vendor} {model}"),
        _ => model,
    })
}

/// Returns the bus of the disk, if it is worth reporting. Each directory of the path to the disk is a bus or a port.
fn bus(directory: &str) -> Option<&'static str> {
    let word = |name: &str| match name {
        _ if name.starts_with("virtio") => Some("virtio"),
        _ if name.starts_with("vbd-") => Some("xen"),
        _ if name.starts_with("VMBUS:") => Some("hyper-v"),
        _ if name.starts_with("usb") => Some("USB"),
        _ if name.starts_with("session") => Some("iSCSI"),
        _ if name.starts_with("rport-") => Some("Fibre Channel"),
        _ => None,
    };
    directory.split('/').find_map(word)
}

fn disk_details(root: &Root, place: &SysfsDevice) -> Vec<String> {
    let mut details = Vec::new();
    if let Some(transport) = place.line(root, "device/transport") {
        details.push(format!("NVMe over {transport}"));
    }
    details.extend(bus(&place.directory).map(|bus| format!("{bus} disk")));
    if let Some(firmware) = place.line(root, "device/firmware_rev") {
        details.push(format!("firmware {firmware}"));
    }
    if let Some(zoned) = place.line(root, "queue/zoned").filter(|zoned| zoned != "none") {
        details.push(format!("{zoned} zones"));
    }
    details
}

#[cfg(test)]
mod tests {
    use super::bus;

    #[test]
    fn sysfs_path_of_disk_determines_bus() {
        let pci = "sys/devices/pci0000:00/0000:00:05.0";
        for (below, expected) in [
            ("host7/rport-7:0-0/target7:0:0/7:0:0:1/block/sdb", Some("Fibre Channel")),
            ("host3/session1/target3:0:0/3:0:0:0/block/sdc", Some("iSCSI")),
            ("usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdd", Some("USB")),
            ("virtio1/block/vda", Some("virtio")),
            ("ata1/host0/target0:0:0/0:0:0:0/block/sda", None),
        ] {
            assert_eq!(bus(&format!("{pci}/{below}")), expected, "{below}");
        }
    }
}
