//! A block device as its owner knows it: its identity, its contents, and its users.

use crate::target::Link;

/// A block device with everything above it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Serial number of the disk.
    pub serial: Option<String>,
    /// World wide name of the disk.
    pub wwn: Option<String>,
    /// Link that leads to the disk.
    pub link: Option<Link>,
    /// State of the disk as its driver reports it: "live", "7 commands have failed".
    pub state: Vec<String>,
    /// Size of the device.
    pub size_bytes: u64,
    /// Number of the disk since the machine started, which no other disk gets, and that of a partition: "17-p2". Absent
    /// before Linux 5.15.
    pub sequence: Option<String>,
    /// Other devices without serial number and WWN that have the same size.
    pub same_size: Vec<String>,
    /// The device, then its partitions and the devices that it backs.
    pub parts: Vec<Part>,
}

/// A device, a partition of it, or a device that it backs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name in `/sys/class/block`.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// True if it is a partition.
    pub is_partition: bool,
    /// Uses of the part itself: "is mounted at /srv", "is swap space".
    pub uses: Vec<String>,
    /// Signature that was found on it.
    pub contents: Contents,
}

/// Signature on a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Contents {
    /// Not read.
    #[default]
    NotRead,
    /// No known signature.
    Nothing,
    /// A signature: `ext4 "data"`, "gpt partition table".
    Signature(String),
    /// The read failed; holds the reason.
    Unreadable(String),
}

impl DeviceUsage {
    /// Returns the IDs of the device. The user types one of them to have it erased. Without serial number and WWN, it is the
    /// size in bytes. Where another device has that size, the kernel's number of the disk follows it.
    pub fn ids(&self) -> Vec<String> {
        let names: Vec<_> = [&self.serial, &self.wwn].into_iter().flatten().cloned().collect();
        if !names.is_empty() {
            return names;
        }
        let size = self.size_bytes.to_string();
        let numbered = self.sequence.as_ref().map(|sequence| format!("{size}-{sequence}"));
        self.same_size.is_empty().then_some(size).into_iter().chain(numbered).collect()
    }

    /// Returns all uses as clauses: "sda1 is mounted at /srv".
    pub fn uses(&self) -> Vec<String> {
        uses(&self.parts)
    }
}

/// Returns all uses of a device, which is the first of its parts, as clauses. If there are none, the devices that it
/// backs count as uses.
pub fn uses(parts: &[Part]) -> Vec<String> {
    let of = |part: &Part| part.uses.iter().map(|use_| format!("{} {use_}", part.name)).collect::<Vec<_>>();
    let uses: Vec<_> = parts.iter().flat_map(of).collect();
    if !uses.is_empty() {
        return uses;
    }
    let above = parts.iter().skip(1).filter(|part| !part.is_partition);
    above.map(|part| format!("{} is on top of it", part.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, is_partition: bool, uses: &[&str]) -> Part {
        Part {
            name: name.into(),
            size_bytes: 0,
            is_partition,
            uses: uses.iter().map(|use_| (*use_).into()).collect(),
            contents: Contents::NotRead,
        }
    }

    #[test]
    fn stacked_device_is_listed_only_without_other_uses() {
        let mut holding = DeviceUsage { parts: vec![part("sda", false, &[])], ..DeviceUsage::default() };
        assert!(holding.uses().is_empty());
        holding.parts.extend([part("sda1", true, &[]), part("dm-0", false, &[])]);
        assert_eq!(holding.uses(), ["dm-0 is on top of it"]);
        holding.parts[1].uses.push("is swap space".into());
        assert_eq!(holding.uses(), ["sda1 is swap space"]);
    }
}
