//! Software RAID (md): level, members, chunk, and the array's own work.

use crate::device::SysfsDevice;
use crate::root::Root;

/// Returns level, members, chunk and bitmap: "raid5 of 3 devices", "chunk 512 KiB".
pub(crate) fn details(root: &Root, place: &SysfsDevice) -> Vec<String> {
    let line = |name: &str| place.line(root, &format!("md/{name}"));
    let mut details = Vec::new();
    if let Some(level) = line("level") {
        let members = line("raid_disks").map_or(String::new(), |count| format!(" of {count} devices"));
        details.push(format!("{level}{members}"));
    }
    let chunk_bytes = line("chunk_size").and_then(|text| text.parse::<u64>().ok()).filter(|bytes| *bytes > 0);
    details.extend(chunk_bytes.map(|bytes| format!("chunk {} KiB", bytes / 1024)));
    details.extend(line("array_state").map(|state| format!("state {state}")));
    details.extend(
        line("bitmap/location")
            .filter(|location| location != "none")
            .map(|_| "write-intent bitmap".to_owned()),
    );
    details.extend(
        line("consistency_policy").filter(|policy| policy == "journal").map(|_| "write journal".to_owned()),
    );
    details
}

/// Returns notes on missing members and on the array's own work.
pub(crate) fn notes(root: &Root, place: &SysfsDevice) -> Vec<String> {
    let line = |name: &str| place.line(root, &format!("md/{name}"));
    let mut notes = Vec::new();
    if let Some(missing) =
        line("degraded").and_then(|text| text.parse::<u32>().ok()).filter(|count| *count > 0)
    {
        notes.push(format!("{} is degraded: {missing} of its devices missing", place.name));
    }
    if let Some(action) = line("sync_action").filter(|action| action != "idle" && action != "frozen") {
        notes.push(format!(
            "{} has maintenance in progress ({action}), which uses bandwidth of its members",
            place.name
        ));
    }
    notes
}
