//! Partition tables of DOS and GPT, read from the device itself. The kernel may not have read them, and it reads no table
//! inside a partition.

use std::io;

/// Parts found at most, and how deep a table may be inside another one.
const PARTS_MAX: usize = 256;
const DEPTH_MAX: u32 = 4;
/// Sizes of sectors that tables count in. A table keeps the unit of the disk on which it was made.
const SECTORS: [u64; 2] = [512, 4096];
/// Entries of a GPT at most; each is one of 128.
const GPT_ENTRIES_MAX: u64 = 1024;
/// Types of extended partitions, and that of the entry that guards a GPT.
const EXTENDED_PARTITION_TYPES: [u8; 3] = [0x05, 0x0f, 0x85];
const PROTECTIVE: u8 = 0xee;

/// A part of a device that a table names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePart {
    /// Its start on the device.
    pub offset_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}

/// Reads bytes from an offset of the device: fewer at its end.
pub trait ReadAt {
    /// Reads up to `len` bytes.
    ///
    /// # Errors
    /// The device cannot be read there.
    fn read(&self, offset_bytes: u64, len: usize) -> io::Result<Vec<u8>>;
}

/// Returns the parts that all tables on a device name, also those of tables inside its parts.
///
/// # Errors
/// The device cannot be read, or it has too many parts, or tables that lie too deep.
pub fn parts(device: &impl ReadAt, size_bytes: u64) -> io::Result<Vec<TablePart>> {
    let mut found: Vec<TablePart> = Vec::new();
    let mut level = vec![TablePart { offset_bytes: 0, size_bytes }];
    for _ in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for outer in &level {
            for part in table(device, outer)? {
                if !found.contains(&part) && part != *outer {
                    found.push(part.clone());
                    next.push(part);
                }
                if found.len() > PARTS_MAX {
                    return Err(io::Error::other(format!("it has more than {PARTS_MAX} partitions")));
                }
            }
        }
        level = next;
    }
    match level.is_empty() {
        true => Ok(found),
        false => Err(io::Error::other(format!(
            "it has more than {} levels of nested partition tables",
            DEPTH_MAX - 1
        ))),
    }
}

/// Returns the parts that the tables directly on a part name.
fn table(device: &impl ReadAt, outer: &TablePart) -> io::Result<Vec<TablePart>> {
    let mut parts = Vec::new();
    for sector in SECTORS {
        dos(device, outer, sector, &mut parts)?;
        let last = (outer.size_bytes / sector).saturating_sub(1);
        for header in [1, last] {
            gpt(device, outer, sector, header, &mut parts)?;
        }
    }
    Ok(parts)
}

/// Returns a part of `outer` in bytes, as far as it lies within it: a table may be that of a larger disk. A table in the unit
/// of the other sectors would mostly be one of those, so parts in large sectors must fit.
fn within(outer: &TablePart, sector: u64, first: u64, sectors: u64) -> Option<TablePart> {
    let start = first.checked_mul(sector)?;
    let (wanted, room) = (sectors.saturating_mul(sector), outer.size_bytes.checked_sub(start)?);
    let size_bytes = wanted.min(room);
    (size_bytes > 0 && (sector == SECTORS[0] || wanted <= room))
        .then(|| TablePart { offset_bytes: outer.offset_bytes + start, size_bytes })
}

/// Adds the parts of a GPT whose header is in this sector (UEFI specification, 5.3).
fn gpt(
    device: &impl ReadAt,
    outer: &TablePart,
    sector: u64,
    header: u64,
    parts: &mut Vec<TablePart>,
) -> io::Result<()> {
    let read = |first: u64, len: usize| match first.checked_mul(sector) {
        Some(start) if start < outer.size_bytes => device.read(outer.offset_bytes + start, len),
        _ => Ok(Vec::new()),
    };
    let bytes = read(header, 512)?;
    let word = |bytes: &[u8], at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
    };
    if !bytes.starts_with(b"EFI PART") {
        return Ok(());
    }
    let (Some(entries), Some(counts)) = (word(&bytes, 72), word(&bytes, 80)) else { return Ok(()) };
    let (count, entry_bytes) = ((counts & 0xffff_ffff).min(GPT_ENTRIES_MAX), counts >> 32);
    if !(128..=4096).contains(&entry_bytes) {
        return Ok(());
    }
    let all = read(entries, (count * entry_bytes) as usize)?;
    for entry in all.chunks_exact(entry_bytes as usize) {
        let is_used = entry[..16].iter().any(|byte| *byte != 0);
        let (Some(first), Some(last)) = (word(entry, 32), word(entry, 40)) else { continue };
        let sectors = last.saturating_add(1).saturating_sub(first);
        parts.extend(within(outer, sector, first, sectors).filter(|_| is_used));
    }
    Ok(())
}

/// Adds the parts of a DOS table, and those of its extended partition.
fn dos(device: &impl ReadAt, outer: &TablePart, sector: u64, parts: &mut Vec<TablePart>) -> io::Result<()> {
    let Some(entries) = dos_entries(&device.read(outer.offset_bytes, 512)?) else { return Ok(()) };
    for (kind, first, sectors) in entries {
        let Some(part) = within(outer, sector, first, sectors).filter(|_| kind != PROTECTIVE) else {
            continue;
        };
        if !EXTENDED_PARTITION_TYPES.contains(&kind) {
            parts.push(part);
            continue;
        }
        // Each logical partition has a table that names it and the next table; both count from different places.
        let mut at = 0;
        let mut seen = vec![at];
        loop {
            let start = part.offset_bytes + at * sector;
            let Some(entries) = dos_entries(&device.read(start, 512)?) else { break };
            let mut next = None;
            for (kind, first, sectors) in entries {
                if EXTENDED_PARTITION_TYPES.contains(&kind) {
                    next = next.or(Some(first));
                } else {
                    parts.extend(within(&part, sector, at.saturating_add(first), sectors));
                }
            }
            match next.filter(|next| next.saturating_mul(sector) < part.size_bytes) {
                // fdisk chains them in the order in which they were made.
                Some(next) if !seen.contains(&next) && seen.len() <= PARTS_MAX => at = next,
                _ => break,
            }
            seen.push(at);
        }
    }
    Ok(())
}

/// Returns type, first sector and sectors of the entries that are used; `None` for a sector that is no table.
fn dos_entries(bytes: &[u8]) -> Option<Vec<(u8, u64, u64)>> {
    if bytes.get(510..512)? != [0x55, 0xaa] {
        return None;
    }
    let word = |entry: &[u8], at: usize| -> Option<u64> {
        Some(u64::from(u32::from_le_bytes(entry.get(at..at + 4)?.try_into().ok()?)))
    };
    let mut entries = Vec::new();
    for entry in bytes[446..510].chunks_exact(16) {
        // Code of a boot sector that has no table fails here.
        if entry[0] & 0x7f != 0 {
            return None;
        }
        let (first, sectors) = (word(entry, 8)?, word(entry, 12)?);
        if entry[4] != 0 && sectors > 0 {
            entries.push((entry[4], first, sectors));
        }
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    impl ReadAt for Vec<u8> {
        fn read(&self, offset_bytes: u64, len: usize) -> io::Result<Vec<u8>> {
            let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX).min(self.len());
            Ok(self[start..(start + len).min(self.len())].to_vec())
        }
    }

    const MIB: u64 = 1 << 20;

    /// Returns the image that sfdisk makes by a script.
    fn image(mib: u64, script: &str) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(mib * MIB).unwrap();
        let mut command = Command::new("sfdisk");
        // It lies outside the search path of many users.
        command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
        command.arg("--quiet").arg(file.path()).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{script}");
        std::fs::read(file.path()).unwrap()
    }

    fn found(image: &Vec<u8>) -> Vec<(u64, u64)> {
        let parts = parts(image, image.len() as u64).unwrap();
        let mut parts: Vec<_> =
            parts.iter().map(|part| (part.offset_bytes / MIB, part.size_bytes / MIB)).collect();
        parts.sort_unstable();
        parts
    }

    #[test]
    fn tables_of_sfdisk_are_read() {
        xtask::require!(sfdisk);
        let gpt = "label: gpt\nstart=1MiB, size=3MiB\nstart=8MiB, size=4MiB\n";
        let mut disk = image(16, gpt);
        assert_eq!(found(&disk), [(1, 3), (8, 4)]);
        // The backup at the end tells the same.
        disk[..MIB as usize].fill(0);
        assert_eq!(found(&disk), [(1, 3), (8, 4)]);
        let dos = "label: dos\nstart=1MiB, size=2MiB, type=83\nstart=4MiB, size=12MiB, type=5\n\
                   start=5MiB, size=2MiB, type=83\nstart=9MiB, size=3MiB, type=82\n";
        assert_eq!(found(&image(16, dos)), [(1, 2), (5, 2), (9, 3)]);
    }

    #[test]
    fn table_inside_a_partition_is_read() {
        xtask::require!(sfdisk);
        let mut outer = image(32, "label: dos\nstart=4MiB, size=16MiB, type=83\n");
        let inner = image(16, "label: gpt\nstart=2MiB, size=8MiB\n");
        outer[(4 * MIB) as usize..(20 * MIB) as usize].copy_from_slice(&inner);
        assert_eq!(found(&outer), [(4, 16), (6, 8)]);
    }

    #[test]
    fn partition_beyond_device_end_is_truncated_to_it() {
        xtask::require!(sfdisk);
        let mut disk = image(32, "label: dos\nstart=4MiB, size=20MiB, type=83\n");
        disk.truncate((16 * MIB) as usize);
        assert_eq!(found(&disk), [(4, 12)]);
    }

    #[test]
    fn logical_parts_in_any_order_are_read() {
        xtask::require!(sfdisk);
        let script = "label: dos\nstart=1MiB, size=30MiB, type=5\nstart=20MiB, size=4MiB, type=83\n\
                      start=4MiB, size=4MiB, type=83\nstart=10MiB, size=4MiB, type=83\n";
        let disk = image(32, script);
        assert_eq!(found(&disk), [(4, 4), (10, 4), (20, 4)]);
    }

    #[test]
    fn too_many_or_too_deep_partition_tables_are_refused() {
        xtask::require!(sfdisk);
        let many: String = (1..300).map(|mib| format!("start={mib}MiB, size=1MiB\n")).collect();
        let script = format!("label: gpt\ntable-length: 400\n{many}");
        let disk = image(320, &script);
        assert!(parts(&disk, disk.len() as u64).unwrap_err().to_string().contains("more than 256"));
        // A table in a partition of a table, five deep.
        let mut disk = vec![0; (64 * MIB) as usize];
        for depth in 0..5 {
            let at = (depth * MIB) as usize;
            let table = image(64 - depth, "label: dos\nstart=1MiB, type=83\n");
            disk[at..at + 512].copy_from_slice(&table[..512]);
        }
        let refused = parts(&disk, disk.len() as u64).unwrap_err().to_string();
        assert!(refused.contains("nested partition tables"), "{refused}");
    }

    proptest! {
        #[test]
        fn partitions_of_any_bytes_lie_within_the_device(
            mut bytes in proptest::collection::vec(any::<u8>(), 1..8192),
            flags in 0u8..4,
            entries in proptest::collection::vec(any::<[u8; 9]>(), 4),
        ) {
            if flags & 1 == 1 && bytes.len() > 600 {
                bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
                for (at, entry) in entries.iter().enumerate() {
                    let at = 446 + at * 16;
                    bytes[at] = 0;
                    bytes[at + 4] = if flags & 2 == 2 { 5 } else { entry[0] };
                    let small = [entry[1] & 15, 0, 0, 0, entry[5] & 15, 0, 0, 0];
                    bytes[at + 8..at + 16].copy_from_slice(&small);
                }
                if flags & 2 == 2 {
                    bytes[512..520].copy_from_slice(b"EFI PART");
                }
            }
            let size_bytes = bytes.len() as u64;
            for part in parts(&bytes, size_bytes).unwrap_or_default() {
                prop_assert!(part.offset_bytes + part.size_bytes <= size_bytes);
            }
        }
    }
}
