//! Formats that libblkid does not know, and backup superblocks of file systems whose first one is gone.
//!
//! Each format has its places, computed from the size of the device alone, and a check of the bytes there.

/// Bytes read at a place: any magic number and the fields that confirm it.
pub const PLACE_BYTES: usize = 4096;
/// Sectors of 512 bytes, the smallest unit of all formats here.
const SECTOR: u64 = 512;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// Block groups with backups under `sparse_super`: 1 and the first powers of 3, 5 and 7 (ext4(5)).
const EXT_GROUPS: [u64; 8] = [1, 3, 5, 7, 9, 25, 27, 49];
/// Most blocks, or clusters of `bigalloc`, in a block group (`EXT2_MAX_BLOCKS_PER_GROUP` of e2fsprogs).
const EXT_GROUP_BLOCKS_MAX: u64 = (1 << 16) - 8;
/// Blocks in a cluster of `bigalloc`, unless the user sets another number (mke2fs(8), `-C`).
const EXT_CLUSTER_BLOCKS: u64 = 16;
/// Numbers of allocation groups that mkfs.xfs chooses: few by default, a power of two or one a CPU on large devices.
const XFS_GROUPS_MAX: u64 = 64;
/// Numbers of allocation groups on a striped device (`calc_default_ag_geometry` of xfsprogs).
const XFS_GROUPS_STRIPED: [u64; 4] = [4, 8, 16, 32];
/// Stripe units in KiB. A group ends at a multiple of one, or one before that.
const XFS_STRIPE_UNITS_KIB: [u64; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// A place where a format has a magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatLocation {
    /// Its offset on the device.
    pub offset_bytes: u64,
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A name, and bytes at an offset from the place.
    Magic(&'static str, usize, &'static [u8]),
    /// A superblock of ext2, ext3 or ext4 in this block group, for blocks of this size.
    Ext {
        group: u64,
        block_bytes: u64,
    },
    Xfs,
    Btrfs,
    /// The second header of LUKS2.
    Luks2,
}

/// Formats with a magic number at the start of the device, or near it.
const MAGICS: [(&str, u64, usize, &[u8]); 12] = [
    ("qcow2", 0, 0, b"QFI\xfb"),
    ("vmdk", 0, 0, b"KDMV"),
    ("vmdk", 0, 0, b"COWD"),
    ("vmdk", 0, 0, b"# Disk DescriptorFile"),
    ("vhdx", 0, 0, b"vhdxfile"),
    ("vhd", 0, 0, b"conectix"),
    ("vdi", 0, 64, b"\x7f\x10\xda\xbe"),
    ("qed", 0, 0, b"QED\0"),
    ("sqlite", 0, 0, b"SQLite format 3\0"),
    ("tar", 0, 257, b"ustar"),
    ("zip", 0, 0, b"PK\x03\x04"),
    // `BCHFS_MAGIC` (fs/bcachefs/bcachefs_format.h): the superblock is in sector 8. Older ones have the magic of bcache,
    // which blkid knows.
    ("bcachefs", 4 * KIB, 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
];

/// Returns all places on a device of this size, in ascending order.
pub fn places(size_bytes: u64) -> Vec<FormatLocation> {
    let mut places: Vec<_> = MAGICS
        .iter()
        .map(|(name, offset_bytes, at, magic)| FormatLocation {
            offset_bytes: *offset_bytes,
            format: Format::Magic(name, *at, magic),
        })
        .collect();
    // A VHD of fixed size has its magic at the end alone.
    let end = Format::Magic("vhd", 0, b"conectix");
    places.push(FormatLocation { offset_bytes: size_bytes.saturating_sub(SECTOR), format: end });
    for block_bytes in (0..7).map(|shift| KIB << shift) {
        // A bitmap of one block has a bit for each block of a group.
        let group_bytes = (8 * block_bytes).min(EXT_GROUP_BLOCKS_MAX) * block_bytes;
        // Blocks of 1 KiB begin after the boot sector's (s_first_data_block), and clusters at 0.
        let first = if block_bytes == KIB { KIB } else { 0 };
        for (first, group_bytes) in [(first, group_bytes), (0, EXT_CLUSTER_BLOCKS * group_bytes)] {
            places.extend(EXT_GROUPS.iter().map(|group| FormatLocation {
                offset_bytes: first + group * group_bytes,
                format: Format::Ext { group: *group, block_bytes },
            }));
        }
    }
    let xfs = |offset_bytes| FormatLocation { offset_bytes, format: Format::Xfs };
    for block_bytes in [SECTOR, KIB, 4 * KIB] {
        let blocks = size_bytes / block_bytes;
        let groups = (2..=XFS_GROUPS_MAX).chain([128, 256, 512]);
        places.extend(groups.map(|groups| xfs(blocks.div_ceil(groups) * block_bytes)));
    }
    for unit_bytes in XFS_STRIPE_UNITS_KIB.map(|unit| unit * KIB) {
        for units in XFS_GROUPS_STRIPED.map(|groups| size_bytes / groups / unit_bytes) {
            places.extend((units.saturating_sub(1)..=units + 2).map(|units| xfs(units * unit_bytes)));
        }
    }
    places.push(xfs(TIB));
    // `btrfs_sb_offset` (fs/btrfs/disk-io.h).
    places.extend(
        [64 * MIB, 256 * GIB].map(|offset_bytes| FormatLocation { offset_bytes, format: Format::Btrfs }),
    );
    // Offsets of the second header, one for each size of the first (LUKS2 On-Disk Format Specification, 2.1).
    places.extend(
        (0..9).map(|shift| FormatLocation { offset_bytes: (16 * KIB) << shift, format: Format::Luks2 }),
    );
    places.retain(|place| place.offset_bytes < size_bytes);
    places.sort_by_cached_key(|place| place.offset_bytes);
    places.dedup();
    places
}

impl FormatLocation {
    /// Returns the name of the format if these bytes, read at its offset, have its signature.
    pub fn name(&self, bytes: &[u8]) -> Option<&'static str> {
        let has = |at: usize, magic: &[u8]| bytes.get(at..at + magic.len()) == Some(magic);
        let le32 = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let be32 = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        match self.format {
            Format::Magic(name, at, magic) => has(at, magic).then_some(name),
            Format::Ext { group, block_bytes } => {
                let block_log = block_bytes.ilog2() - 10;
                let is_backup = has(56, &[0x53, 0xef])
                    && le32(24) == Some(block_log)
                    && has(90, &(group as u16).to_le_bytes());
                // `has_journal`, then `extents`, `64bit` and `flex_bg` (fs/ext4/ext4.h).
                let (journal, ext4) = (le32(92)? & 0x4 != 0, le32(96)? & 0x2c0 != 0);
                is_backup.then_some(if ext4 {
                    "ext4"
                } else if journal {
                    "ext3"
                } else {
                    "ext2"
                })
            }
            Format::Xfs => {
                // `sb_blocksize` and `sb_agblocks` (fs/xfs/libxfs/xfs_format.h).
                let group_bytes = u64::from(be32(4)?) * u64::from(be32(84)?);
                let is_backup =
                    has(0, b"XFSB") && group_bytes > 0 && self.offset_bytes.is_multiple_of(group_bytes);
                is_backup.then_some("xfs")
            }
            Format::Btrfs => {
                (has(64, b"_BHRfS_M") && has(48, &self.offset_bytes.to_le_bytes())).then_some("btrfs")
            }
            Format::Luks2 => (has(0, b"SKUL\xba\xbe") && has(256, &self.offset_bytes.to_be_bytes()))
                .then_some("crypto_LUKS"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// Returns the names at all places of an image.
    fn found(image: &File) -> Vec<&'static str> {
        let size_bytes = image.metadata().unwrap().len();
        let mut names: Vec<_> = places(size_bytes)
            .iter()
            .filter_map(|place| {
                let mut bytes = vec![0; PLACE_BYTES.min((size_bytes - place.offset_bytes) as usize)];
                image.read_exact_at(&mut bytes, place.offset_bytes).unwrap();
                place.name(&bytes)
            })
            .collect();
        names.dedup();
        names
    }

    #[test]
    fn backup_superblocks_are_found_without_the_first() {
        xtask::require!(ext4, xfs, btrfs);
        let makers: [(&str, &str, &[&str], u64); 10] = [
            ("ext4", "mkfs.ext4", &["-qF"], 300 * MIB),
            ("ext4", "mkfs.ext4", &["-qF", "-b", "1024"], 40 * MIB),
            ("ext3", "mkfs.ext3", &["-qF", "-b", "2048"], 100 * MIB),
            ("ext2", "mkfs.ext2", &["-qF", "-b", "4096"], 300 * MIB),
            ("xfs", "mkfs.xfs", &["-qf"], 400 * MIB + 4096 * 3),
            ("xfs", "mkfs.xfs", &["-qf", "-d", "agcount=7"], 700 * MIB),
            ("ext4", "mkfs.ext4", &["-qFF", "-b", "8192"], 1100 * MIB),
            ("ext4", "mkfs.ext4", &["-qF", "-b", "1024", "-O", "bigalloc", "-C", "16384"], 300 * MIB),
            ("xfs", "mkfs.xfs", &["-qf", "-d", "su=64k,sw=4"], 1300 * MIB),
            ("btrfs", "mkfs.btrfs", &["-qf"], 300 * MIB),
        ];
        for (name, program, arguments, size_bytes) in makers {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(size_bytes).unwrap();
            let made = Command::new(program).args(arguments).arg(file.path()).output().unwrap();
            assert!(made.status.success(), "{program}: {made:?}");
            file.as_file().write_all_at(&vec![0; 2 << 20], 0).unwrap();
            assert_eq!(found(file.as_file()), [name], "{program} {arguments:?}");
        }
    }

    #[test]
    fn image_and_database_formats_are_recognised() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * MIB).unwrap();
        assert!(found(&file).is_empty());
        for (name, offset_bytes, at, magic) in MAGICS {
            let at = offset_bytes + at as u64;
            file.write_all_at(magic, at).unwrap();
            assert_eq!(found(&file), [name]);
            file.write_all_at(&vec![0; magic.len()], at).unwrap();
        }
        file.write_all_at(b"conectix", 8 * MIB - 512).unwrap();
        assert_eq!(found(&file), ["vhd"]);
    }

    proptest! {
        #[test]
        fn any_device_contents_are_checked_without_panic(
            size_bytes: u64, bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let places = places(size_bytes);
            prop_assert!(places.is_sorted_by_key(|place| place.offset_bytes));
            for place in places {
                prop_assert!(place.offset_bytes < size_bytes);
                let _ = place.name(&bytes);
            }
        }
    }
}
