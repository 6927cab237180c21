//! Device mapper: purpose of a mapping, from its name and its UUID.

use crate::device::SysfsDevice;
use crate::mapping_status::mapped_parts;
use crate::parse::mapping_status::MappedPart;
use crate::root::Root;

/// Length of the identifiers of volume group and volume in an LVM UUID, which follow its prefix.
const LVM_IDENTIFIER_CHARS: usize = 64;

/// Returns the parts of a mapping, if this user may query them.
pub(crate) fn parts(root: &Root, place: &SysfsDevice) -> Vec<MappedPart> {
    let numbers = place.line(root, "dev").unwrap_or_default();
    let numbers = numbers.split_once(':').map(|(major, minor)| (major.parse(), minor.parse()));
    let Some((Ok(major), Ok(minor))) = numbers else { return Vec::new() };
    mapped_parts(root, major, minor)
}

/// Returns kind and name of a mapping, and types of its parts: "LVM volume vg0-data", "striped".
pub(crate) fn details(root: &Root, place: &SysfsDevice, parts: &[MappedPart]) -> Vec<String> {
    let name = place.line(root, "dm/name").unwrap_or_else(|| place.name.clone());
    let uuid = place.line(root, "dm/uuid").unwrap_or_default();
    let mut details = vec![format!("{} {name}", kind(&uuid))];
    for part in parts {
        // A linear part adds nothing to know.
        if part.kind != "linear" && !details.contains(&part.kind) {
            details.push(part.kind.clone());
        }
    }
    details
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

/// Returns a note about a mapping, given its parts and the devices directly below it.
pub(crate) fn note(
    root: &Root,
    place: &SysfsDevice,
    parts: &[MappedPart],
    below: &[String],
) -> Option<String> {
    let name = place.line(root, "dm/name").unwrap_or_else(|| place.name.clone());
    let uuid = place.line(root, "dm/uuid").unwrap_or_default();
    let layers: Vec<String> = below
        .iter()
        .filter_map(|name| root.line(&format!("sys/class/block/{name}/dm/uuid")))
        .filter_map(|uuid| layer(&uuid).map(str::to_owned))
        .collect();
    let has = |name: &str| layers.iter().any(|layer| layer == name);
    let is = |kind: &str| parts.iter().any(|part| part.kind == kind);
    let lost = parts.iter().find_map(MappedPart::paths).filter(|(failed, _)| *failed > 0);
    if let Some((failed, all)) = lost {
        return Some(format!("{name} has lost {failed} of {all} paths"));
    }
    // The layers of a volume are on layers, too; only a volume that can be mounted deserves a note.
    if layer(&uuid).is_some() {
        return None;
    }
    if has("tpool") || is("thin") {
        let cost = "the first write of a block allocates it, and the pool is shared";
        Some(format!("{name} is a thin volume: {cost}"))
    } else if has("cow") || is("snapshot") {
        Some(format!("{name} is a snapshot: the first write of a block goes to the copy-on-write store"))
    } else if has("real") || is("snapshot-origin") {
        Some(format!("{name} has a snapshot: the first write of a block copies the old one"))
    } else if has("cdata") || has("cvol") || has("corig") || is("cache") || is("writecache") {
        Some(format!("{name} is cached by another device"))
    } else if uuid.starts_with("VDO-") {
        Some(format!("{name} compresses and deduplicates"))
    } else if is("error") || is("flakey") {
        Some(format!("{name} injects errors"))
    } else if is("delay") {
        Some(format!("{name} delays each request"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{kind, layer};

    #[test]
    fn uuid_determines_mapping_kind() {
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
        fn any_uuid_parses_without_panic(uuid in "(LVM-)?\\PC{0,80}") {
            kind(&uuid);
        }
    }
}
