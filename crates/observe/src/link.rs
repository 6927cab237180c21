//! Link between a disk and the machine: its PCIe lanes or its SATA port.

use model::target::Link;

use crate::device::SysfsDevice;
use crate::root::Root;

/// PCIe generations: transfers per second on a lane, name, and share of bits that carry data after line
/// coding. The codings are 8b/10b, 128b/130b, and flits of 256 bytes with 242 of data.
const GENERATIONS: [(f64, &str, f64); 6] = [
    (2.5e9, "1.0", 0.8),
    (5e9, "2.0", 0.8),
    (8e9, "3.0", 128.0 / 130.0),
    (16e9, "4.0", 128.0 / 130.0),
    (32e9, "5.0", 128.0 / 130.0),
    (64e9, "6.0", 242.0 / 256.0),
];
/// SATA encodes 8 bits as 10.
const SATA_SHARE: f64 = 0.8;

/// Returns the link of a disk, if sysfs shows it. The link of an adapter with several disks does not count as
/// the disk's own.
pub(crate) fn link(root: &Root, place: &SysfsDevice) -> Option<Link> {
    if place.disk_name().starts_with("nvme") { pcie(root, place) } else { sata(root, place) }
}

fn pcie(root: &Root, place: &SysfsDevice) -> Option<Link> {
    // The PCI function lies above the directory of the controller.
    let (function, _) = place.disk.split_once("/nvme/")?;
    let speed = root.line(&format!("{function}/current_link_speed"))?;
    let lanes: u32 = root.number(&format!("{function}/current_link_width"))?;
    let transfers = leading_number(&speed, "GT/s")? * 1e9;
    let (_, generation, share) = GENERATIONS.into_iter().find(|(known, ..)| *known == transfers)?;
    (lanes > 0).then(|| Link {
        name: format!("PCIe {generation} x{lanes}"),
        bytes_per_second: (transfers * share * f64::from(lanes) / 8.0) as u64,
    })
}

fn sata(root: &Root, place: &SysfsDevice) -> Option<Link> {
    let port = place.disk.split('/').find_map(|part| part.strip_prefix("ata")?.parse::<u32>().ok())?;
    let speed = root.line(&format!("sys/class/ata_link/link{port}/sata_spd"))?;
    let gigabits = leading_number(&speed, "Gbps")?;
    Some(Link {
        name: format!("SATA {gigabits} Gbit/s"),
        bytes_per_second: (gigabits * 1e9 * SATA_SHARE / 8.0) as u64,
    })
}

/// Parses "8.0 GT/s PCIe" as 8.0. `None` if the text does not begin with a number of that unit, as in
/// "Unknown".
fn leading_number(text: &str, unit: &str) -> Option<f64> {
    let (number, rest) = text.split_once(' ')?;
    rest.starts_with(unit).then(|| number.parse().ok()).flatten().filter(|number: &f64| *number > 0.0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the link of a disk in a directory, on a machine with one file.
    fn link_of(directory: &str, files: &[(&str, &str)]) -> Option<(String, u64)> {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let name = directory.rsplit('/').next().unwrap().to_owned();
        let (directory, disk) = (directory.to_owned(), directory.to_owned());
        let place = SysfsDevice { name, directory, disk, is_partition: false };
        let link = link(&Root::at(home.path()), &place)?;
        Some((link.name, link.bytes_per_second / 1_000_000))
    }

    #[test]
    fn pcie_bandwidth_follows_from_speed_and_lanes() {
        let function = "sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0";
        let nvme = format!("{function}/nvme/nvme0/nvme0n1");
        let (speed, width) =
            (format!("{function}/current_link_speed"), format!("{function}/current_link_width"));
        let link = |speed_text: &str, lanes: &str| link_of(&nvme, &[(&speed, speed_text), (&width, lanes)]);
        assert_eq!(link("8.0 GT/s PCIe\n", "4\n"), Some(("PCIe 3.0 x4".into(), 3938)));
        assert_eq!(link("32.0 GT/s PCIe\n", "2\n"), Some(("PCIe 5.0 x2".into(), 7876)));
        assert_eq!(link("Unknown\n", "4\n"), None);
        assert_eq!(link("8.0 GT/s PCIe\n", "0\n"), None);
        assert_eq!(link_of(&nvme, &[]), None);
    }

    #[test]
    fn sata_bandwidth_is_read_from_its_port() {
        let disk = "sys/devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sdb";
        let port = "sys/class/ata_link/link3/sata_spd";
        assert_eq!(link_of(disk, &[(port, "6.0 Gbps\n")]), Some(("SATA 6 Gbit/s".into(), 600)));
        assert_eq!(link_of(disk, &[(port, "<unknown>\n")]), None);
        assert_eq!(link_of(disk, &[]), None);
    }
}
