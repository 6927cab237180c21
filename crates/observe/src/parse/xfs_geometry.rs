//! Layout as XFS reports it: the kernel's `struct xfs_fsop_geom`.

/// Size of the present structure.
pub const V5_BYTES: usize = 256;
/// Size of the structure before Linux 5.2; the present one continues it.
pub const V4_BYTES: usize = 112;

/// Features that affect speed or cost.
const FEATURES: &[(u32, &str)] = &[
    (1 << 14, "lazy_counters"),
    (1 << 15, "metadata_checksums"),
    (1 << 17, "finobt"),
    (1 << 18, "sparse_inodes"),
    (1 << 19, "rmapbt"),
    (1 << 20, "reflink"),
    (1 << 21, "bigtime"),
    (1 << 22, "inobtcount"),
    (1 << 25, "parent"),
    (1 << 26, "metadir"),
    (1 << 27, "zoned"),
];

/// The layout of one file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsGeometry {
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Number of allocation groups.
    pub allocation_groups: u64,
    /// Size of the log in bytes.
    pub log_bytes: u64,
    /// True if the log is on the data device.
    pub log_internal: bool,
    /// Bytes on one member of an array before the next; absent if the file system was not made for an array.
    pub stripe_unit_bytes: Option<u64>,
    /// Bytes of a full stripe.
    pub stripe_width_bytes: Option<u64>,
    /// Features that are on, from the list above.
    pub features: Vec<&'static str>,
}

/// Reads the structure in this machine's byte order; absent if it is too short or holds no block size.
pub fn parse(bytes: &[u8]) -> Option<XfsGeometry> {
    if bytes.len() < V4_BYTES {
        return None;
    }
    let u32_at = |offset: usize| Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?));
    let u64_at = |offset: usize| Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?));
    let block_bytes = u64::from(u32_at(0)?);
    if block_bytes == 0 {
        return None;
    }
    let in_bytes = |blocks: u32| (blocks > 0).then(|| u64::from(blocks) * block_bytes);
    let flags = u32_at(92)?;
    Some(XfsGeometry {
        block_bytes,
        allocation_groups: u64::from(u32_at(12)?),
        log_bytes: u64::from(u32_at(16)?) * block_bytes,
        log_internal: u64_at(56)? != 0,
        stripe_unit_bytes: in_bytes(u32_at(80)?),
        stripe_width_bytes: in_bytes(u32_at(84)?),
        features: FEATURES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{V5_BYTES, parse};

    /// Answer of Linux 6.18 for `mkfs.xfs -l size=64m -d sunit=128,swidth=512` on 900 MiB.
    #[cfg(target_endian = "little")]
    const ARRAY: &[u8] = include_bytes!("../../tests/golden/xfs_array.geometry");

    #[test]
    #[cfg(target_endian = "little")]
    fn real_xfs_geometry_parses() {
        let geometry = parse(ARRAY).unwrap();
        assert_eq!((geometry.block_bytes, geometry.allocation_groups), (4096, 8));
        assert_eq!((geometry.log_bytes, geometry.log_internal), (64 << 20, true));
        assert_eq!((geometry.stripe_unit_bytes, geometry.stripe_width_bytes), (Some(65536), Some(262_144)));
        let features = "lazy_counters metadata_checksums finobt sparse_inodes reflink bigtime inobtcount";
        assert_eq!(geometry.features.join(" "), features);
        // The older structure is the beginning of the present one.
        assert_eq!(parse(&ARRAY[..super::V4_BYTES]), Some(geometry));
    }

    fn example() -> [u8; V5_BYTES] {
        let mut bytes = [0; V5_BYTES];
        for (offset, value) in [(0, 4096u32), (12, 4), (16, 16384), (80, 16), (84, 64), (92, 0x0010_c000)] {
            bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[56..64].copy_from_slice(&65542u64.to_ne_bytes());
        bytes
    }

    #[test]
    fn xfs_array_with_internal_log_parses() {
        let geometry = parse(&example()).unwrap();
        assert_eq!((geometry.block_bytes, geometry.allocation_groups), (4096, 4));
        assert_eq!((geometry.log_bytes, geometry.log_internal), (64 << 20, true));
        assert_eq!(geometry.stripe_unit_bytes, Some(65536));
        assert_eq!(geometry.stripe_width_bytes, Some(262_144));
        assert_eq!(geometry.features, ["lazy_counters", "metadata_checksums", "reflink"]);
        assert_eq!(parse(&[0; V5_BYTES]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }
    }
}
