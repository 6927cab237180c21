//! Targets that are not what they seem.

use model::numbers::percent;
use model::target::{Backing, DeviceKind};

use model::workload::CacheMode;

use crate::{Case, Finding};

/// Data that compresses and takes less than this share of its bytes was compressed.
const STORED: f64 = 0.9;

/// A file system in memory.
pub(super) fn memory_target(case: &Case<'_>) -> Option<Finding> {
    let reaches = case.data_in_files().is_some() || case.files().is_some();
    (reaches && case.target().backing == Backing::Memory).then(|| {
        Finding::invalid(format!(
            "{} is memory and no device, so this says nothing about storage. Choose a directory on a disk.",
            case.target().file_system
        ))
    })
}

/// A file system of which the devices are not known, such as ZFS: what its own cache answers looks like storage.
pub(super) fn nothing_to_compare(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files().filter(|data| data.reads())?;
    let is_warm = !data.direct && case.plan.cache == CacheMode::Warm;
    (case.target().backing == Backing::Unknown && !is_warm).then(|| {
        Finding::suspect(format!(
            "the devices under this {} were not found, so none of the {} that were read could be compared with them: a cache of its own may have answered. Ask for a --size of twice the memory.",
            case.target().file_system,
            model::size::decimal(case.record.app_bytes_read)
        ))
    })
}

/// A target that stores data smaller than it is.
pub(super) fn compressible_target(case: &Case<'_>) -> Option<Finding> {
    let data = case.data_in_files()?;
    let zram = case.target().device_stack.iter().find(|device| device.kind == DeviceKind::Zram);
    let probe = case.probes.and_then(|probes| probes.compressible.as_ref());
    let evidence = match (zram, probe) {
        (Some(device), _) => format!("{} compresses what it holds", device.name),
        (None, Some(probe)) => {
            let stored = probe.allocated_bytes as f64 / probe.bytes.max(1) as f64;
            let compressed = probe.encoded_share.unwrap_or(0.0);
            if stored > STORED && compressed < 1.0 - STORED {
                return None;
            }
            match compressed > 0.0 {
                true => format!("this {} compresses", case.target().file_system),
                false => format!(
                    "this {} stores what compresses in {} of its size",
                    case.target().file_system,
                    percent(stored)
                ),
            }
        }
        (None, None) => return None,
    };
    let what = match data.compress_percent {
        0 => "this row is for data that does not; with other data it would differ".to_owned(),
        percent => format!("this row is for data of which {percent} % compresses away"),
    };
    Some(Finding::info(format!("{evidence}; {what}")))
}
