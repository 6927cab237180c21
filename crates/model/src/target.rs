//! The target of tests: a directory, a device or a file, resolved to its mount, its file system and the devices under
//! it.

use serde::{Deserialize, Serialize};

use crate::layer::{Layer, LayerKind};

/// Name of the attribute that tests set. Every user may set attributes in the namespace `user.`.
pub const USER_ATTRIBUTE: &std::ffi::CStr = c"user.skye";

/// A directory, a device or a file, with its file system and devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Target {
    /// The path, absolute and without symbolic links.
    pub path: String,
    /// Kind of the target; a directory in documents of older versions.
    #[serde(default)]
    pub kind: TargetKind,
    /// Where its file system is mounted.
    pub mount_point: String,
    /// Device number of its file system, or of the device itself: "252:1". Empty for a simulated device.
    #[serde(default)]
    pub device_number: String,
    /// Source of the mount: a device, a server's export, a name.
    pub source: String,
    /// Type of the file system: "ext4", "fuse.sshfs".
    pub file_system: String,
    /// Options of the mount and of the file system, in the kernel's order.
    pub mount_options: Vec<String>,
    /// True if it is mounted read-only.
    pub read_only: bool,
    /// True if users besides its owner and root may rename and replace files made in it. Its mode then lets a group or
    /// all write, and it has no sticky bit.
    #[serde(default)]
    pub is_writable_by_others: bool,
    /// Storage that holds the data.
    pub backing: Backing,
    /// Layout of the file system, where the kernel shows it.
    pub geometry: Geometry,
    /// Space on the file system; of a device or a file, its own size.
    pub space: Space,
    /// Alignment that `O_DIRECT` needs; null where the kernel does not report it.
    pub direct_io: Option<DirectIo>,
    /// Block devices under the target in topological order: the mounted device first, physical devices last.
    pub device_stack: Vec<Device>,
    /// All layers under the target, each before those below it; the first is its file system, or the device itself. Empty for
    /// a simulated device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Layer>,
    /// Notes for the reader: thin volumes, snapshots, options that void durability.
    pub notes: Vec<String>,
    /// True if its files can have user attributes; absent where the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_attributes: Option<bool>,
    /// Identity of the device where the user has named it to be written; absent for every other target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<ErasedDevice>,
}

/// Block device that tests write to, so that everything on it is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErasedDevice {
    /// Serial number of the disk; null where it has none.
    pub serial: Option<String>,
    /// World wide name of the disk; null where it has none.
    pub wwn: Option<String>,
    /// Size of the device.
    pub size_bytes: u64,
    /// Signatures that were on it and that the user named, each after its device: "sda1: ext4".
    pub signatures: Vec<String>,
    /// Contents of the device before, as far as they were read.
    #[serde(default)]
    pub contents: ErasedContents,
    /// Bytes that were read to find that out.
    #[serde(default)]
    pub read_bytes: u64,
}

impl ErasedDevice {
    /// Returns true for the same device with the same signatures. Each check reads other blocks of it.
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |erased: &Self| Self { contents: ErasedContents::Unknown, read_bytes: 0, ..erased.clone() };
        key(self) == key(other)
    }
}

/// Contents of a device before it was erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErasedContents {
    /// It could not be read.
    #[default]
    Unknown,
    /// Zeros.
    Zeros,
    /// Zeros and blocks that an earlier run of skye wrote.
    EarlierRun,
    /// Other data, which the user named.
    Data,
}

/// Kind of a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A directory, in which skye creates its files.
    #[default]
    Directory,
    /// A block device, which is only read unless the user specifies it to be erased.
    Device,
    /// A file, which is only read.
    File,
    /// A simulated device.
    Simulated,
}

impl TargetKind {
    /// Returns true if it is an existing target that is measured itself, so that skye makes no files.
    pub fn is_existing(self) -> bool {
        matches!(self, Self::Device | Self::File)
    }

    /// Returns its name with an article: "a block device".
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Device => "a block device",
            Self::File => "a file",
            Self::Simulated => "a simulated device",
        }
    }
}

/// Storage that holds the data of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Backing {
    /// Block devices of this machine.
    Devices,
    /// Memory: no device will ever see the data.
    Memory,
    /// A server, or a program of this machine: its handling of the data is not visible.
    RemoteOrUserSpace,
    /// A file system whose devices could not be found.
    Unknown,
    /// A simulated device: nothing is written anywhere.
    Simulated,
}

/// Layout of a file system. Every field is null or empty where the kernel does not show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Geometry {
    /// Bytes of a block, the unit of allocation.
    pub block_bytes: Option<u64>,
    /// Bytes that the file system puts on one member of an array before it goes on to the next.
    pub stripe_unit_bytes: Option<u64>,
    /// Bytes of a full stripe over all data members.
    pub stripe_width_bytes: Option<u64>,
    /// Allocation groups, or groups of blocks.
    pub allocation_groups: Option<u64>,
    /// Where the journal lies: "internal", "none", or a device.
    pub journal: Option<String>,
    /// Bytes of the journal.
    pub journal_bytes: Option<u64>,
    /// Checksum of data: "crc32c"; null if there is none or it is not shown.
    pub data_checksum: Option<String>,
    /// Names of the features it was made with: "lazy_counters", "metadata_checksums", …
    pub features: Vec<String>,
}

/// Most bytes that stay free on a file system of 20 GiB or less. A larger one keeps a share of its size.
const RESERVE_BYTES_MAX: u64 = 1 << 30;

/// Space on a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Space {
    /// Bytes of the file system.
    pub total_bytes: u64,
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    /// Inodes of the file system; null where it makes them as needed.
    pub inodes_total: Option<u64>,
    /// Inodes that are free; null where it makes them as needed.
    pub inodes_free: Option<u64>,
}

impl Space {
    /// Returns the bytes that a run leaves free: 5 % of the file system, and 1 GiB or a quarter of what is free.
    pub fn reserve_bytes(&self) -> u64 {
        (self.total_bytes / 20).max(RESERVE_BYTES_MAX.min(self.free_bytes / 4))
    }

    /// Returns true if the file system reports its size in bytes.
    pub fn has_bytes(&self) -> bool {
        self.total_bytes > 0
    }

    /// Returns the share of the free space for one of several clients.
    #[must_use]
    pub fn shared_by(self, clients: u32) -> Self {
        let clients = u64::from(clients.max(1));
        let inodes_free = self.inodes_free.map(|inodes| inodes / clients);
        Self { free_bytes: self.free_bytes / clients, inodes_free, ..self }
    }
}

/// Alignment as `statx(STATX_DIOALIGN)` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectIo {
    /// Alignment of buffers; 0 if direct I/O is not supported.
    pub memory_align_bytes: u32,
    /// Alignment of offsets and lengths; 0 if direct I/O is not supported.
    pub offset_align_bytes: u32,
}

/// One block device of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// Name in `/sys/class/block`: "nvme0n1p2".
    pub name: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Its kind.
    pub kind: DeviceKind,
    /// Names of its backing devices, all in the same stack; empty for a physical one.
    pub backing_devices: Vec<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Model as the device reports it.
    pub model: Option<String>,
    /// Smallest addressable unit.
    pub logical_block_bytes: Option<u32>,
    /// Smallest unit that it writes without reading first.
    pub physical_block_bytes: Option<u32>,
    /// True if it reports that it has spinning parts.
    pub rotational: Option<bool>,
    /// I/O scheduler in use: "none", "mq-deadline".
    pub scheduler: Option<String>,
    /// "write back" (a volatile cache that needs flushes) or "write through".
    pub write_cache: Option<String>,
    /// Requests that its queue holds.
    pub nr_requests: Option<u32>,
    /// Bytes of its read-ahead.
    pub read_ahead_bytes: Option<u64>,
    /// NUMA node of its controller; null where there is only one node, or none is known.
    #[serde(default)]
    pub numa_node: Option<u32>,
    /// True if its driver has queues that can be polled for completions (`queue/io_poll`).
    #[serde(default)]
    pub io_poll: Option<bool>,
    /// Link that leads to it; null where none is known.
    #[serde(default)]
    pub link: Option<Link>,
    /// Details of its kind: RAID level and chunk, backing file of a loop, name and type of a mapping.
    pub details: Vec<String>,
}

/// A link between a disk and its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Link {
    /// Its kind: "PCIe 3.0 x4".
    pub name: String,
    /// Bytes of data that it carries per second in each direction, after line coding; packets take some of them.
    pub bytes_per_second: u64,
}

/// Kinds of block devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A disk without a backing device that this machine sees.
    Disk,
    /// A part of a disk.
    Partition,
    /// A file of another file system.
    Loop,
    /// Device mapper: LVM, LUKS, multipath.
    DeviceMapper,
    /// Software RAID.
    Raid,
    /// Compressed memory.
    Zram,
}

impl Device {
    /// Returns true if data that reaches the device stays there, because it has no known backing device.
    pub fn is_leaf(&self) -> bool {
        self.backing_devices.is_empty()
    }

    /// Returns true if the device reports a cache that needs flushes.
    pub fn has_volatile_cache(&self) -> bool {
        self.write_cache.as_deref() == Some("write back")
    }
}

impl Target {
    /// Returns true if nothing is written there or beside it.
    pub fn is_used_read_only(&self) -> bool {
        self.kind.is_existing() && self.erased.is_none()
    }

    /// Returns a note on each loop device whose file has a page cache.
    pub fn image_notes(&self) -> impl Iterator<Item = String> {
        let pages = (0..).zip(&self.layers).filter(|(_, layer)| layer.kind == LayerKind::PageCache);
        pages.filter_map(|(at, _)| {
            let device = self.layers.iter().find(|layer| layer.below.contains(&at))?;
            let name = &device.name;
            Some(format!("{name} is buffered: the page cache of its file may answer reads and absorb writes"))
        })
    }

    /// Returns the place of a device in the list of layers.
    pub fn layer_of_device(&self, name: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.kind == LayerKind::Device && layer.name == name)
    }

    /// Returns the device of a layer, by its place in the list of layers.
    pub fn device_of_layer(&self, layer: usize) -> Option<&Device> {
        let layer = self.layers.get(layer).filter(|layer| layer.kind == LayerKind::Device)?;
        self.device_stack.iter().find(|device| device.name == layer.name)
    }

    /// Returns true if a device of this machine is a known layer of it.
    pub fn has_device(&self, name: &str) -> bool {
        self.layer_of_device(name).is_some() || self.device_stack.iter().any(|device| device.name == name)
    }

    /// Returns the devices of the file system itself, which no other device of the target uses.
    pub fn top_devices(&self) -> impl Iterator<Item = &Device> {
        let is_used = |name| self.device_stack.iter().any(|device| device.backing_devices.contains(name));
        self.device_stack.iter().filter(move |device| !is_used(&device.name))
    }

    /// Adds the layers of a file system on the devices of the stack.
    #[must_use]
    pub fn with_device_layers(mut self) -> Self {
        let layer = |kind, name: &str, below| Layer { below, ..Layer::new(kind, name) };
        let place = |name: &String| self.device_stack.iter().position(|device| device.name == *name);
        let tops = self.top_devices().filter_map(|device| place(&device.name));
        let tops = tops.map(|at| at as u32 + 1).collect();
        self.layers = vec![layer(LayerKind::FileSystem, &self.file_system, tops)];
        self.layers.extend(self.device_stack.iter().map(|device| {
            let below = device.backing_devices.iter().filter_map(place).map(|at| at as u32 + 1).collect();
            layer(LayerKind::Device, &device.name, below)
        }));
        self
    }

    /// Returns true if a disk of this machine is at the bottom. Loops and compressed memory alone do not count, because
    /// this system makes them itself. In a virtual machine, the disk is one that a hypervisor made.
    pub fn is_backed_by_disk(&self) -> bool {
        self.device_stack
            .iter()
            .any(|device| device.is_leaf() && matches!(device.kind, DeviceKind::Disk | DeviceKind::Partition))
    }

    /// Beginning of the note on all that a container hides.
    pub const CONTAINER_NOTE_PREFIX: &str = "inside a container: ";

    /// Returns the note on all that a container hides; `None` outside of one.
    pub fn container_note(&self) -> Option<&str> {
        self.notes.iter().map(String::as_str).find(|note| note.starts_with(Self::CONTAINER_NOTE_PREFIX))
    }

    /// Options that leave out the flushes which make synced data durable.
    pub const NO_FLUSH: &[&str] = &[
        "nobarrier",
        "barrier=0",
        "barrier=none",
        "barrier=off",
        "fsync_mode=nobarrier",
        "journal_flush_disabled",
        "volatile",
        // This is how overlay file systems show it.
        "fsync=volatile",
    ];

    /// File systems that keep overwritten blocks until they commit.
    const COPYING_ON_WRITE: &[&str] = &["btrfs", "zfs", "bcachefs"];

    /// Returns true if its file system writes a changed block to another place (copy on write).
    pub fn copies_on_write(&self) -> bool {
        self.kind == TargetKind::Directory && Self::COPYING_ON_WRITE.contains(&self.file_system.as_str())
    }

    /// Returns true if its file system frees blocks some time after they were overwritten or removed.
    pub fn frees_in_background(&self) -> bool {
        self.copies_on_write() || self.preallocates()
    }

    /// Returns the most bytes of a file on its file system, where that is less than a data set may have. FAT keeps the size
    /// of a file in 32 bits.
    pub fn file_bytes_max(&self) -> Option<u64> {
        let is_fat = matches!(self.file_system.as_str(), "vfat" | "msdos");
        (self.kind == TargetKind::Directory && is_fat).then_some(u32::MAX.into())
    }

    /// Returns true if its file system may reserve blocks past the end of a file that grows, as many as the file has. XFS does:
    /// mount option `allocsize` in the kernel's Documentation/admin-guide/xfs.rst. XFS may be under an overlay.
    pub fn preallocates(&self) -> bool {
        self.kind == TargetKind::Directory && ["xfs", "overlay"].contains(&self.file_system.as_str())
    }

    /// File systems that can compress the contents of files.
    const COMPRESSING: &[&str] = &["btrfs", "zfs", "f2fs", "bcachefs", "ntfs3"];

    /// Returns true if its file system can compress the contents of skye's files.
    pub fn may_compress(&self) -> bool {
        self.kind == TargetKind::Directory && Self::COMPRESSING.contains(&self.file_system.as_str())
    }

    /// Returns true if freed inodes are not reused for a while. Without a journal, ext4 waits 1 to 5 minutes and
    /// searches past them (`recently_deleted` in the kernel's fs/ext4/ialloc.c).
    pub fn delays_inode_reuse(&self) -> bool {
        self.file_system == "ext4" && self.geometry.journal.as_deref() == Some("none")
    }

    /// Returns the mounted device, whose counters are compared with the requested bytes.
    pub fn top_device(&self) -> Option<&Device> {
        self.device_stack.first()
    }
}
