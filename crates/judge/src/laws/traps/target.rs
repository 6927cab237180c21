//! Targets that are not what they seem.

use model::advice::Advice;
use model::figure::{Bytes, Count, Share};
use model::finding::Finding;
use model::target::{Backing, DeviceKind};
use model::workload::CacheMode;

use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

traps!(memory_target, devices_unknown, compressible_target, short_calls);

/// Compressible data that takes less than this share of its bytes was compressed.
const STORED_SHARE_MIN: f64 = 0.9;

/// A file system in memory, or a disk of the kernel's that is.
fn memory_target(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let target = input.target();
    let is_file_system = target.backing == Backing::Memory;
    let leaves: Vec<_> = target.device_stack.iter().filter(|device| device.is_leaf()).collect();
    let name = match leaves.first() {
        _ if is_file_system => target.file_system.as_str(),
        Some(first) if leaves.iter().all(|leaf| leaf.kind == DeviceKind::Zram) => first.name.as_str(),
        _ => return None,
    };
    let reaches = input.data_in_files().is_some() || input.files().is_some();
    let finding = Finding::TargetIsMemory { name: name.into() };
    reaches.then(|| TrapFinding::new(finding, [Advice::ChooseDisk {}]))
}

/// A file system whose devices are unknown, such as ZFS: hits in its cache look like reads from storage.
fn devices_unknown(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files().filter(|data| data.reads())?;
    let is_warm = !data.direct && input.plan.cache == CacheMode::Warm;
    (input.target().backing == Backing::Unknown && !is_warm).then(|| {
        let file_system = input.target().file_system.as_str().into();
        let finding =
            Finding::DevicesUnknown { file_system, read_bytes: Bytes(input.record.counts.app_bytes_read) };
        TrapFinding::new(finding, [Advice::SizeTwiceMemory {}])
    })
}

/// A server that answers in parts.
fn short_calls(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let calls = input.record.counts.short_calls;
    (calls > 0).then(|| Finding::ShortCalls { calls: Count(calls) }.into())
}

/// A target that stores data in less space than its size.
pub(super) fn compressible_target(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let data = input.data_in_files()?;
    let zram = input.target().device_stack.iter().find(|device| device.kind == DeviceKind::Zram);
    let probe = input.probes.and_then(|probes| probes.compressible.as_ref());
    let compressible_share = Share(f64::from(data.compress_percent) / 100.0);
    let file_system = || input.target().file_system.as_str().into();
    Some(TrapFinding::from(match (zram, probe) {
        (Some(device), _) => {
            Finding::DeviceCompresses { device: device.name.as_str().into(), compressible_share }
        }
        (None, Some(probe)) => {
            let stored_share = probe.allocated_bytes as f64 / probe.bytes.max(1) as f64;
            let compressed = probe.encoded_share.unwrap_or(0.0);
            if stored_share > STORED_SHARE_MIN && compressed < 1.0 - STORED_SHARE_MIN {
                return None;
            }
            match compressed > 0.0 {
                true => Finding::FileSystemCompresses { file_system: file_system(), compressible_share },
                false => {
                    let stored_share = Share(stored_share);
                    Finding::StoredSmaller { file_system: file_system(), stored_share, compressible_share }
                }
            }
        }
        (None, None) => return None,
    }))
}
