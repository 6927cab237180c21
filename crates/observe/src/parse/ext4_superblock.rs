//! The superblock of ext2, ext3 and ext4: 1,024 bytes at offset 1,024 of the device.

/// Size of a superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// Offset of the superblock on the device.
pub const SUPERBLOCK_OFFSET_BYTES: u64 = 1024;

const MAGIC: u16 = 0xef53;
const COMPAT_HAS_JOURNAL: u32 = 0x4;
const INCOMPAT_64BIT: u32 = 0x80;
/// The largest block is 64 KiB: 1,024 shifted by this.
const LOG_BLOCK_SIZE_MAX: u32 = 6;
/// Marks the superblock's backup of the journal's inode as valid.
const JOURNAL_BACKUP_BLOCKS: u8 = 1;

/// Features that affect speed or cost, in the words of mkfs.
const COMPAT: &[(u32, &str)] = &[(0x20, "dir_index"), (0x400, "fast_commit"), (0x1000, "orphan_file")];
const INCOMPAT: &[(u32, &str)] = &[
    (0x40, "extent"),
    (INCOMPAT_64BIT, "64bit"),
    (0x100, "mmp"),
    (0x200, "flex_bg"),
    (0x400, "ea_inode"),
    (0x4000, "large_dir"),
    (0x8000, "inline_data"),
    (0x1_0000, "encrypt"),
    (0x2_0000, "casefold"),
];
const RO_COMPAT: &[(u32, &str)] = &[
    (0x10, "uninit_bg"),
    (0x100, "quota"),
    (0x200, "bigalloc"),
    (0x400, "metadata_csum"),
    (0x2000, "project"),
    (0x8000, "verity"),
];

/// Place of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journal {
    /// No journal.
    None,
    /// Journal in a file of the file system itself.
    Internal,
    /// Journal on another device.
    External,
}

/// Layout as the superblock describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Number of block groups.
    pub groups: u64,
    /// Bytes on one member of an array before the next; absent if the file system was not made for an array.
    pub stride_bytes: Option<u64>,
    /// Bytes of a full stripe.
    pub stripe_width_bytes: Option<u64>,
    /// Place of the journal.
    pub journal: Journal,
    /// Bytes of an internal journal.
    pub journal_bytes: Option<u64>,
    /// Features, in the words of mkfs.
    pub features: Vec<&'static str>,
}

/// Reads a superblock; absent if the bytes are no superblock.
pub fn parse(bytes: &[u8]) -> Option<Superblock> {
    let field = Fields(bytes);
    if bytes.len() < SUPERBLOCK_BYTES || field.u16(0x38)? != MAGIC {
        return None;
    }
    let log_block_size = field.u32(0x18)?;
    if log_block_size > LOG_BLOCK_SIZE_MAX {
        return None;
    }
    let block_bytes = 1024u64 << log_block_size;
    let (compat, incompat, ro_compat) = (field.u32(0x5c)?, field.u32(0x60)?, field.u32(0x64)?);
    let in_bytes = |blocks: u32| (blocks > 0).then(|| u64::from(blocks) * block_bytes);
    let named = |word: u32, names: &'static [(u32, &'static str)]| {
        names.iter().filter(move |(bit, _)| word & bit != 0).map(|(_, name)| *name)
    };
    let journal = journal(&field, compat)?;
    Some(Superblock {
        block_bytes,
        groups: groups(&field, incompat)?,
        stride_bytes: in_bytes(u32::from(field.u16(0x164)?)),
        stripe_width_bytes: in_bytes(field.u32(0x170)?),
        journal,
        journal_bytes: journal_bytes(&field).filter(|_| journal == Journal::Internal),
        features: named(compat, COMPAT)
            .chain(named(incompat, INCOMPAT))
            .chain(named(ro_compat, RO_COMPAT))
            .collect(),
    })
}

fn groups(field: &Fields<'_>, incompat: u32) -> Option<u64> {
    let high = if incompat & INCOMPAT_64BIT != 0 { field.u32(0x150)? } else { 0 };
    let blocks = u64::from(high) << 32 | u64::from(field.u32(0x4)?);
    let first = u64::from(field.u32(0x14)?);
    let per_group = u64::from(field.u32(0x20)?);
    if per_group == 0 {
        return None;
    }
    Some(blocks.saturating_sub(first).div_ceil(per_group))
}

fn journal(field: &Fields<'_>, compat: u32) -> Option<Journal> {
    if compat & COMPAT_HAS_JOURNAL == 0 {
        return Some(Journal::None);
    }
    Some(if field.u32(0xe0)? != 0 { Journal::Internal } else { Journal::External })
}

/// Returns the size of the journal. The superblock keeps a copy of the journal's block map with its size, so
/// nothing has to look for the inode.
fn journal_bytes(field: &Fields<'_>) -> Option<u64> {
    if field.u8(0xfd)? != JOURNAL_BACKUP_BLOCKS {
        return None;
    }
    let bytes = u64::from(field.u32(0x148)?) << 32 | u64::from(field.u32(0x14c)?);
    (bytes > 0).then_some(bytes)
}

/// Little-endian fields by their offset.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u8(&self, offset: usize) -> Option<u8> {
        self.0.get(offset).copied()
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.0.get(offset..offset + 2)?.try_into().ok()?))
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(offset..offset + 4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Journal, SUPERBLOCK_BYTES, parse};

    /// `mkfs.ext4 -b 4096 -E stride=16,stripe_width=64 -J size=4` on 64 MiB, bytes 1,024 to 2,047.
    const ARRAY: &[u8] = include_bytes!("../../tests/golden/ext4_array.superblock");
    /// `mkfs.ext2 -b 1024` on 16 MiB, likewise.
    const EXT2: &[u8] = include_bytes!("../../tests/golden/ext2.superblock");

    #[test]
    fn superblock_made_for_array_parses() {
        let superblock = parse(ARRAY).unwrap();
        assert_eq!((superblock.block_bytes, superblock.groups), (4096, 1));
        assert_eq!(superblock.stride_bytes, Some(65536));
        assert_eq!(superblock.stripe_width_bytes, Some(262_144));
        assert_eq!((superblock.journal, superblock.journal_bytes), (Journal::Internal, Some(4 << 20)));
        assert!(superblock.features.contains(&"metadata_csum"), "{:?}", superblock.features);
        assert!(!superblock.features.contains(&"bigalloc"));
    }

    #[test]
    fn superblock_without_journal_parses() {
        let superblock = parse(EXT2).unwrap();
        assert_eq!((superblock.block_bytes, superblock.groups), (1024, 2));
        assert_eq!((superblock.journal, superblock.journal_bytes), (Journal::None, None));
        assert_eq!(superblock.stride_bytes, None);
    }

    #[test]
    fn invalid_bytes_are_refused_as_superblock() {
        assert_eq!(parse(&[0; SUPERBLOCK_BYTES]), None);
        assert_eq!(parse(&ARRAY[..SUPERBLOCK_BYTES - 1]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..1100), magic: bool) {
            if magic && bytes.len() > 0x3a {
                bytes[0x38..0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
                bytes[0x18..0x1c].copy_from_slice(&2u32.to_le_bytes());
            }
            parse(&bytes);
        }
    }
}
