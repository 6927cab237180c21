//! Layers under the file system, and the layout of files on it.

use std::collections::HashMap;

use model::advice::Advice;
use model::figure::{Bytes, Count, Mean, MemoryBytes, OpsPerSecond};
use model::finding::{DEVIATION_MIN, Finding};
use model::run::{Place, RateRange};
use model::target::{Device, DeviceKind};

use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

traps!(parity_writes, members_unbalanced, uneven_places, fragmented);

/// Bytes that members read per byte written to the array, above which it reads and writes parity for parts of stripes.
const PARITY_READ_SHARE_MIN: f64 = 0.1;
/// The other members wait for one that does this many times the mean work.
const MEMBER_BYTES_RATIO_MIN: f64 = 1.5;
/// Levels with parity.
const PARITY_LEVELS: &[&str] = &["raid4", "raid5", "raid6"];
/// Levels whose members all have the same work.
const STRIPED_LEVELS: &[&str] = &["raid0", "raid4", "raid5", "raid6"];
/// Ratio of the highest rate to the lowest of runs in several places, above which the places count. Runs in one place differ by
/// less.
const ELSEWHERE_RATIO_MIN: f64 = 1.3;
/// If extents are smaller than this on average, a device that seeks needs a seek for each.
const EXTENT_BYTES_MIN: u64 = 1 << 20;

/// Reads of the members of an array while it was only written to: parity of parts of stripes.
fn parity_writes(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let record = input.record;
    let raid = input.target().device_stack.iter().find(|device| device.kind == DeviceKind::Raid)?;
    if record.counts.app_bytes_written == 0
        || record.counts.app_bytes_read > 0
        || !has_level(raid, PARITY_LEVELS)
    {
        return None;
    }
    let members = member_bytes(input, &raid.backing_devices);
    let read = members.values().map(|(read, _)| *read).fold(0, u64::saturating_add);
    let written = members.values().map(|(_, written)| *written).fold(0, u64::saturating_add);
    let share = read as f64 / record.counts.app_bytes_written as f64;
    (share > PARITY_READ_SHARE_MIN).then(|| {
        let (array, requested_bytes) = (raid.name.as_str().into(), Bytes(record.counts.app_bytes_written));
        let finding = Finding::ParityWrites {
            array,
            read_bytes: Bytes(read),
            written_bytes: Bytes(written),
            requested_bytes,
        };
        TrapFinding::new(finding, [Advice::WholeStripes {}])
    })
}

/// One member that does more than the others.
fn members_unbalanced(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let raid = input.target().device_stack.iter().find(|device| device.kind == DeviceKind::Raid)?;
    // One mirror may do all the reading. One disk of a linear array may have all the data. A journal gets every write.
    let is_spread = has_level(raid, STRIPED_LEVELS)
        || (has_level(raid, &["raid10"]) && input.record.counts.app_bytes_read == 0);
    let has_journal = raid.details.iter().any(|detail| detail == "write journal");
    if raid.backing_devices.len() < 2 || !is_spread || has_journal {
        return None;
    }
    let members = member_bytes(input, &raid.backing_devices);
    let mut bytes: Vec<_> =
        members.iter().map(|(name, (read, written))| (*name, read.saturating_add(*written))).collect();
    // Among equal members, the same one is always named.
    bytes.sort_unstable();
    let all = bytes.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    let mean = all as f64 / bytes.len().max(1) as f64;
    let (name, most) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    (mean > 1e6 && most as f64 > MEMBER_BYTES_RATIO_MIN * mean).then(|| {
        let array = raid.name.as_str().into();
        let finding = Finding::BusyMember { member: name.into(), times: Mean(most as f64 / mean), array };
        TrapFinding::new(finding, [Advice::CheckLayout { member: name.into() }])
    })
}

/// Bytes read and written by each of these devices.
fn member_bytes<'a>(input: &JudgeInput<'a>, names: &[String]) -> HashMap<&'a str, (u64, u64)> {
    let mut members = HashMap::new();
    for device in input.device_frames().filter(|device| names.contains(&device.name)) {
        let sum: &mut (u64, u64) = members.entry(device.name.as_str()).or_default();
        *sum = (sum.0.saturating_add(device.read_bytes), sum.1.saturating_add(device.written_bytes));
    }
    members
}

/// Returns true if an array has one of these levels, as in "raid5 of 3 devices".
fn has_level(raid: &Device, levels: &[&str]) -> bool {
    let level = raid.details.iter().find_map(|detail| detail.split_once(" of ").map(|(level, _)| level));
    level.is_some_and(|level| levels.contains(&level))
}

/// Places of the data that take clearly longer than others.
fn uneven_places(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let record = input.record;
    let inside = record.seen.latency_by_place.as_ref().filter(|found| found.ratio_low > 1.0 + DEVIATION_MIN);
    let finding = match (inside, &record.figures.rates_elsewhere, record.figures.rate.ops_per_second) {
        (Some(found), ..) => Finding::PlacesDiffer { ratio: Mean(found.ratio) },
        (None, Some(RateRange { runs, low_ops_per_second: low, high_ops_per_second: high }), Some(own))
            if high.max(own) > ELSEWHERE_RATIO_MIN * low.min(own) =>
        {
            let runs = Count(*runs);
            let [low_ops_per_second, high_ops_per_second] = [*low, *high].map(OpsPerSecond);
            Finding::OtherPlaces { runs, low_ops_per_second, high_ops_per_second }
        }
        _ => return None,
    };
    let is_spread = record.seen.places.len() == Place::MOST;
    let advice = if is_spread { Advice::SameFiles {} } else { Advice::SpreadPlaces {} };
    Some(TrapFinding::new(finding, [advice]))
}

/// Files in many small pieces, on a device that has to seek for each.
fn fragmented(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let extents = input.record.seen.extents.as_ref().filter(|extents| extents.extents > 0)?;
    let mean_bytes = input.record.workload.size_bytes / extents.extents;
    let spins =
        input.target().device_stack.iter().any(|device| device.is_leaf() && device.rotational == Some(true));
    let is_compressed = extents.encoded_share > 0.0;
    (spins
        && mean_bytes < EXTENT_BYTES_MIN
        && extents.extents > input.record.workload.files
        && !is_compressed)
        .then(|| {
            Finding::Fragmented { extents: Count(extents.extents), mean_bytes: MemoryBytes(mean_bytes) }
                .into()
        })
}
