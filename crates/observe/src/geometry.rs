//! Layout of a file system, and the options that change the meaning of its numbers.

use std::io::{Read, Seek, SeekFrom};

use model::target::{Geometry, Target};

use crate::parse::ext4_superblock::{self, Journal, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, Superblock};
use crate::parse::mountinfo::Mount;
use crate::parse::xfs_geometry::XfsGeometry;
use crate::root::Root;
use crate::stack::source_device;

const SECTOR_BYTES: u64 = 512;

/// Facts known about the mounted file system.
pub(crate) struct MountFacts<'a> {
    pub mount: &'a Mount,
    /// Name of the mounted device, if there is one.
    pub device: Option<&'a str>,
    /// Block size in bytes, from `statfs`.
    pub block_bytes: Option<u64>,
    /// Layout that the file system itself reported.
    pub reported: Option<Geometry>,
}

/// Returns the layout, as far as it is visible, and notes on options of the file system.
pub(crate) fn geometry(root: &Root, mounted: MountFacts<'_>) -> (Geometry, Vec<String>) {
    let (mut geometry, options) = match mounted.mount.file_system.as_str() {
        "ext2" | "ext3" | "ext4" => ext4(root, &mounted),
        "xfs" => (xfs(root, &mounted), mounted.mount.super_options.clone()),
        "btrfs" => (btrfs(root, mounted.mount), mounted.mount.super_options.clone()),
        _ => (mounted.reported.clone().unwrap_or_default(), mounted.mount.super_options.clone()),
    };
    // Without a device, `statfs` reports the preferred size of a transfer instead.
    if mounted.device.is_some() {
        geometry.block_bytes = geometry.block_bytes.or(mounted.block_bytes);
    }
    let mut notes = notes(mounted.mount, &options);
    if let Some(journal) =
        geometry.journal.as_deref().filter(|journal| !matches!(*journal, "internal" | "none"))
    {
        let name = if journal == "external" { "another device" } else { journal };
        notes.push(format!("the journal is on {name}, whose counters are not sampled"));
    }
    (geometry, notes)
}

fn notes(mount: &Mount, options: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    let has = |option: &str| options.iter().chain(&mount.options).any(|other| other == option);
    if let Some(option) = Target::NO_FLUSH.iter().find(|option| has(option)) {
        notes.push(format!(
            "mounted with {option}: syncs do not flush the medium, so synced data is not durable"
        ));
    }
    if has("data=journal") {
        notes.push(
            "mounted with data=journal: direct I/O is silently buffered, and data is written twice"
                .to_owned(),
        );
    }
    if has("data=writeback") {
        notes.push("mounted with data=writeback: after a crash files may hold old blocks".to_owned());
    }
    if has("sync") {
        notes.push("mounted with sync: each write waits for the medium".to_owned());
    } else if has("dirsync") {
        notes.push("mounted with dirsync: each directory change waits for the medium".to_owned());
    }
    if let Some(option) = options.iter().find(|option| option.starts_with("compress")) {
        notes.push(format!("mounted with {option}: compressible data takes less space than its size"));
    }
    notes
}

/// Reads the layout from the superblock if this user may read it, otherwise from files that the kernel shows
/// to everyone.
fn ext4(root: &Root, mounted: &MountFacts<'_>) -> (Geometry, Vec<String>) {
    let mut options = mounted.mount.super_options.clone();
    let Some(device) = mounted.device else { return (Geometry::default(), options) };
    // Unlike the mount options, this file shows defaults as well.
    let text = root.read(&format!("proc/fs/ext4/{device}/options")).unwrap_or_default();
    options.extend(text.lines().map(|line| line.trim().to_owned()));
    let superblock = superblock(root, device);
    let option_number =
        |key: &str| options.iter().find_map(|option| option.strip_prefix(key)?.parse::<u64>().ok());
    let block_bytes = superblock.as_ref().map(|superblock| superblock.block_bytes).or(mounted.block_bytes);
    // The option counts the stripe in blocks; 0 or 1 means no stripe.
    let stripe_bytes = option_number("stripe=")
        .filter(|blocks| *blocks > 1)
        .zip(block_bytes)
        .map(|(a, b)| a.saturating_mul(b));
    let journal = journal(root, mounted, device, superblock.as_ref());
    let geometry = Geometry {
        block_bytes,
        stripe_unit_bytes: superblock.as_ref().and_then(|superblock| superblock.stride_bytes),
        stripe_width_bytes: superblock
            .as_ref()
            .and_then(|superblock| superblock.stripe_width_bytes)
            .or(stripe_bytes),
        allocation_groups: superblock.as_ref().map(|superblock| superblock.groups),
        journal,
        journal_bytes: superblock.as_ref().and_then(|superblock| superblock.journal_bytes),
        data_checksum: None,
        features: superblock
            .map_or_else(Vec::new, |superblock| superblock.features.into_iter().map(str::to_owned).collect()),
    };
    (geometry, options)
}

fn superblock(root: &Root, device: &str) -> Option<Superblock> {
    let mut file = root.open(&format!("dev/{}", device.replace('!', "/")))?;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    file.seek(SeekFrom::Start(SUPERBLOCK_OFFSET_BYTES)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    ext4_superblock::parse(&bytes)
}

/// Finds the journal. The jbd2 name of an internal journal has its device and inode ("sda1-8"), that of an external one
/// has its own device.
fn journal(
    root: &Root,
    mounted: &MountFacts<'_>,
    device: &str,
    superblock: Option<&Superblock>,
) -> Option<String> {
    let journals = root.list("proc/fs/jbd2");
    let external = || external_journal(root, mounted.mount, &journals);
    if let Some(superblock) = superblock {
        return Some(match superblock.journal {
            Journal::None => "none".to_owned(),
            Journal::Internal => "internal".to_owned(),
            Journal::External => external(),
        });
    }
    let prefix = format!("{device}-");
    if journals
        .iter()
        .any(|name| name.strip_prefix(&prefix).is_some_and(|inode| inode.parse::<u64>().is_ok()))
    {
        return Some("internal".to_owned());
    }
    // sysfs shows the commit thread even where /proc/fs/jbd2 is missing.
    let thread: Option<u32> = root.number(&format!("sys/fs/ext4/{device}/journal_task"));
    match thread {
        Some(_) if root.exists("proc/fs/jbd2") => Some(external()),
        Some(_) => None,
        None => root.exists(&format!("sys/fs/ext4/{device}/journal_task")).then(|| "none".to_owned()),
    }
}

/// Returns the device of an external journal: from the options, or because it is the only one on this
/// machine.
fn external_journal(root: &Root, mount: &Mount, journals: &[String]) -> String {
    let path = mount.super_options.iter().find_map(|option| option.strip_prefix("journal_path=/dev/"));
    let is_device = |name: &&String| root.exists(&format!("sys/class/block/{name}"));
    let devices: Vec<_> = journals.iter().filter(is_device).collect();
    match (path, &devices[..]) {
        (Some(path), _) => path.to_owned(),
        (None, [device]) => (*device).clone(),
        _ => "external".to_owned(),
    }
}

/// Returns the layout that XFS reported; the device of an external log comes from the options.
fn xfs(root: &Root, mounted: &MountFacts<'_>) -> Geometry {
    let option = |key: &str| mounted.mount.super_options.iter().find_map(|option| option.strip_prefix(key));
    let sectors =
        |key: &str| option(key)?.parse::<u64>().ok().map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    let mut geometry = mounted.reported.clone().unwrap_or_default();
    geometry.stripe_unit_bytes = geometry.stripe_unit_bytes.or_else(|| sectors("sunit="));
    geometry.stripe_width_bytes = geometry.stripe_width_bytes.or_else(|| sectors("swidth="));
    if let Some(log) = option("logdev=") {
        geometry.journal = Some(source_device(root, log).unwrap_or_else(|| log.to_owned()));
    } else if geometry.journal.is_none() {
        geometry.journal = Some("internal".to_owned());
    }
    geometry
}

/// Converts the layout that the ioctl of XFS returns.
pub(crate) fn from_xfs(xfs: XfsGeometry) -> Geometry {
    Geometry {
        block_bytes: Some(xfs.block_bytes),
        stripe_unit_bytes: xfs.stripe_unit_bytes,
        stripe_width_bytes: xfs.stripe_width_bytes,
        allocation_groups: Some(xfs.allocation_groups),
        journal: Some(if xfs.log_internal { "internal" } else { "external" }.to_owned()),
        journal_bytes: Some(xfs.log_bytes),
        data_checksum: None,
        features: xfs.features.into_iter().map(str::to_owned).collect(),
    }
}

/// Returns the sysfs directory of a mounted btrfs: the one that lists the mounted device.
pub(crate) fn btrfs_directory(root: &Root, mount: &Mount) -> Option<String> {
    let top = "sys/fs/btrfs";
    let all: Vec<_> =
        root.list(top).into_iter().filter(|name| root.exists(&format!("{top}/{name}/devices"))).collect();
    let device = source_device(root, &mount.source);
    let listed = device
        .and_then(|device| all.iter().find(|name| root.exists(&format!("{top}/{name}/devices/{device}"))));
    // A source such as "/dev/root" is no device; if the machine has only one btrfs, it is that one.
    let only = || all.first().filter(|_| all.len() == 1);
    listed.or_else(only).map(|name| format!("{top}/{name}"))
}

fn btrfs(root: &Root, mount: &Mount) -> Geometry {
    let Some(directory) = btrfs_directory(root, mount) else { return Geometry::default() };
    let has = |option: &str| mount.super_options.iter().any(|other| other == option);
    let checksum = root.line(&format!("{directory}/checksum"));
    let checksum = checksum.and_then(|text| text.split_whitespace().next().map(str::to_owned));
    let mut features = root.list(&format!("{directory}/features"));
    for kind in ["data", "metadata"] {
        let profiles = root.list(&format!("{directory}/allocation/{kind}")).into_iter();
        let profiles =
            profiles.filter(|name| root.exists(&format!("{directory}/allocation/{kind}/{name}/total_bytes")));
        features.extend(profiles.map(|profile| format!("{kind}={profile}")));
    }
    Geometry {
        block_bytes: root.number(&format!("{directory}/sectorsize")),
        // Data without copy-on-write has no checksums either.
        data_checksum: checksum.filter(|_| !has("nodatasum") && !has("nodatacow")),
        features,
        ..Geometry::default()
    }
}
