//! What lies under the file system, and how the files lie on it.

use std::collections::HashMap;

use model::size;
use model::target::DeviceKind;

use crate::{Case, Finding};

/// Bytes that members write per byte that the array was given, beyond its redundancy, from which on it reads and writes
/// parity for parts of stripes.
const PARITY_READS: f64 = 0.1;
/// A member that does so many times as much as the mean of all is the one that the others wait for.
const UNBALANCED: f64 = 1.5;
/// Extents smaller than this on average cost a device with a seek one for each.
const EXTENT_BYTES_MIN: u64 = 1 << 20;

/// Reads of the members of an array while it was only written to: parity of parts of stripes.
pub(super) fn parity_writes(case: &Case<'_>) -> Option<Finding> {
    let record = case.record;
    let raid = case.target().device_stack.iter().find(|device| device.kind == DeviceKind::Raid)?;
    if record.app_bytes_written == 0 || record.app_bytes_read > 0 {
        return None;
    }
    let members = of_members(case, &raid.lies_on);
    let read: u64 = members.values().map(|(read, _)| read).sum();
    let written: u64 = members.values().map(|(_, written)| written).sum();
    let share = read as f64 / record.app_bytes_written as f64;
    (share > PARITY_READS).then(|| {
        Finding::act(format!(
            "members of {} read {} and wrote {} for {} of writes: parity of parts of stripes is read first. Try blocks of a whole stripe.",
            raid.name,
            size::decimal(read),
            size::decimal(written),
            size::decimal(record.app_bytes_written)
        ))
    })
}

/// One member that does more than the others.
pub(super) fn members_unbalanced(case: &Case<'_>) -> Option<Finding> {
    let raid = case.target().device_stack.iter().find(|device| device.kind == DeviceKind::Raid)?;
    // Of mirrors, one may do all the reading.
    let is_mirror = raid
        .details
        .iter()
        .any(|detail| detail.to_lowercase().contains("raid1") && !detail.contains("raid10"));
    if raid.lies_on.len() < 2 || is_mirror {
        return None;
    }
    let members = of_members(case, &raid.lies_on);
    let bytes: Vec<_> = members.iter().map(|(name, (read, written))| (*name, read + written)).collect();
    let all: u64 = bytes.iter().map(|(_, bytes)| bytes).sum();
    let mean = all as f64 / bytes.len().max(1) as f64;
    let (name, most) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    (mean > 1e6 && most as f64 > UNBALANCED * mean).then(|| {
        Finding::act(format!(
            "{name} moved {:.1} times as many bytes as the mean of the members of {}: the others wait for it. Look at its layout.",
            most as f64 / mean,
            raid.name
        ))
    })
}

/// Bytes read and written by each of these devices.
fn of_members<'a>(case: &Case<'a>, names: &[String]) -> HashMap<&'a str, (u64, u64)> {
    let mut members = HashMap::new();
    let frames = case.record.intervals.iter().filter_map(|interval| interval.frame.as_ref());
    for device in frames.flat_map(|frame| &frame.devices).filter(|device| names.contains(&device.name)) {
        let sum: &mut (u64, u64) = members.entry(device.name.as_str()).or_default();
        *sum = (sum.0 + device.read_bytes, sum.1 + device.written_bytes);
    }
    members
}

/// Files in many small pieces, on a device that has to move for each.
pub(super) fn fragmented(case: &Case<'_>) -> Option<Finding> {
    let extents = case.record.extents.as_ref().filter(|extents| extents.extents > 0)?;
    let mean_bytes = case.record.workload.size_bytes / extents.extents;
    let spins =
        case.target().device_stack.iter().any(|device| device.is_leaf() && device.rotational == Some(true));
    let is_compressed = extents.compressed_share > 0.0;
    (spins && mean_bytes < EXTENT_BYTES_MIN && extents.extents > case.record.workload.files && !is_compressed).then(
        || {
            Finding::info(format!(
                "the files lie in {} pieces of {} on average, on a device that says that it spins: an aged or full file system",
                extents.extents,
                size::binary(mean_bytes)
            ))
        },
    )
}
