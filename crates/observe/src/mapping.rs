//! Device mapper: purpose of a mapping, from its name and its UUID.

use crate::device::Place;
use crate::root::Root;

/// Length of the identifiers of volume group and volume in an LVM UUID, which follow its prefix.
const LVM_IDENTIFIER_CHARS: usize = 64;

/// Returns kind and name of a mapping: "LVM volume vg0-data", "LUKS2 mapping cryptroot".
pub(crate) fn details(root: &Root, place: &Place) -> Vec<String> {
    let name = place.line(root, "dm/name").unwrap_or_else(|| place.name.clone());
    let uuid = place.line(root, "dm/uuid").unwrap_or_default();
    vec![format!("{} {name}", kind(&uuid))]
}

fn kind(uuid: &str) -> &'static str {
    match uuid {
        _ if uuid.starts_with("LVM-") => match layer(uuid) {
            Some("tpool") => "LVM thin pool",
            Some("tdata") => "LVM thin pool's data",
            Some("tmeta") => "LVM thin pool's metadata",
            Some("real") => "LVM origin of a snapshot",
            Some("cow") => "LVM snapshot's changes",
            _ => "LVM volume",
        },
        _ if uuid.starts_with("CRYPT-LUKS1-") => "LUKS1 mapping",
        _ if uuid.starts_with("CRYPT-LUKS2-") => "LUKS2 mapping",
        _ if uuid.starts_with("CRYPT-VERITY-") => "verity mapping",
        _ if uuid.starts_with("CRYPT-INTEGRITY-") => "integrity mapping",
        _ if uuid.starts_with("CRYPT-") => "encrypted mapping",
        _ if uuid.starts_with("mpath-") => "multipath",
        _ if uuid.starts_with("DMRAID-") => "firmware RAID",
        _ if uuid.starts_with("VDO-") => "VDO volume",
        _ if uuid.starts_with("part") => "partition mapping",
        _ => "mapping",
    }
}

/// Returns the part of an LVM UUID that distinguishes hidden layers from volumes.
fn layer(uuid: &str) -> Option<&str> {
    uuid.strip_prefix("LVM-")?.get(LVM_IDENTIFIER_CHARS..)?.strip_prefix('-')
}

/// Returns a note for the reader about a mapping, given the devices directly beneath it.
pub(crate) fn note(root: &Root, place: &Place, below: &[String]) -> Option<String> {
    let name = place.line(root, "dm/name").unwrap_or_else(|| place.name.clone());
    let uuid = place.line(root, "dm/uuid").unwrap_or_default();
    let layers: Vec<String> = below
        .iter()
        .filter_map(|name| root.line(&format!("sys/class/block/{name}/dm/uuid")))
        .filter_map(|uuid| layer(&uuid).map(str::to_owned))
        .collect();
    let has = |name: &str| layers.iter().any(|layer| layer == name);
    // The layers of a volume lie on layers too; only a volume that can be mounted deserves a note.
    if layer(&uuid).is_some() {
        return None;
    }
    if has("tpool") {
        let cost = "the first write of a block allocates it, and the pool is shared with others";
        Some(format!("{name} is a thin volume: {cost}"))
    } else if has("cow") {
        Some(format!("{name} is a snapshot: the first write of a block is stored apart"))
    } else if has("real") {
        Some(format!("{name} has a snapshot: the first write of a block copies the old one"))
    } else if has("cdata") || has("cvol") || has("corig") {
        Some(format!("{name} is cached by another device"))
    } else if uuid.starts_with("VDO-") {
        Some(format!("{name} compresses and deduplicates"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{kind, layer};

    #[test]
    fn the_uuid_tells() {
        let lvm = format!("LVM-{}", "a".repeat(64));
        assert_eq!(kind(&lvm), "LVM volume");
        assert_eq!(kind(&format!("{lvm}-tpool")), "LVM thin pool");
        assert_eq!(layer(&format!("{lvm}-real")), Some("real"));
        assert_eq!(layer(&lvm), None);
        assert_eq!(kind("CRYPT-LUKS2-0123-root"), "LUKS2 mapping");
        assert_eq!(kind("mpath-3600"), "multipath");
        assert_eq!(kind(""), "mapping");
    }

    proptest! {
        #[test]
        fn any_uuid_is_survived(uuid in "(LVM-)?\\PC{0,80}") {
            kind(&uuid);
        }
    }
}
