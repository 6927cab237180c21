//! Limits of a block device, kept by the kernel: `blkio.throttle` of cgroup v1.
//!
//! They are set in the root cgroup, and apply to the sum of all processes that are in no other cgroup. The measured
//! program cannot see the limit in its cgroup.
//!
//! The kernel dispatches a tenth of a second's amount in one burst, and then nothing until the next. So the limit is
//! exact from burst to burst. Over T seconds, a rate may be off by one burst, a share of 0.1 / T. Nearly all latencies
//! are short, and some are 90 ms.

use std::fs;
use std::path::Path;

use model::UserError;

use crate::identity;
use crate::journal::Journal;
use crate::step::Step;

/// Limits of a device; `None` means no limit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// Reads a second.
    pub read_iops: Option<u64>,
    /// Writes a second.
    pub write_iops: Option<u64>,
    /// Bytes read a second.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes written a second.
    pub write_bytes_per_second: Option<u64>,
}

impl Throttle {
    /// Files of the cgroup, and the limit in each; 0 means none.
    fn limits(&self) -> [(&'static str, u64); 4] {
        let limit = |limit: Option<u64>| limit.unwrap_or(0);
        [
            ("blkio.throttle.read_iops_device", limit(self.read_iops)),
            ("blkio.throttle.write_iops_device", limit(self.write_iops)),
            ("blkio.throttle.read_bps_device", limit(self.read_bytes_per_second)),
            ("blkio.throttle.write_bps_device", limit(self.write_bytes_per_second)),
        ]
    }

    /// Makes these the limits of a device ("7:3") in that cgroup; the journal undoes it.
    pub(crate) fn set(&self, journal: &mut Journal, cgroup: &Path, device: &str) -> Result<(), UserError> {
        let sequence = identity::sequence(&identity::directory(device));
        for (name, new) in self.limits() {
            let file = cgroup.join(name);
            let action = || format!("limit {device} in {}", file.display());
            let old = read(&file, device).ok_or_else(|| UserError::new(action(), "it cannot be read"))?;
            if old != new {
                journal.note(Step::Throttle {
                    file: file.clone(),
                    device: device.into(),
                    old,
                    new,
                    sequence,
                })?;
                fs::write(&file, format!("{device} {new}"))
                    .map_err(|error| UserError::new(action(), error))?;
            }
        }
        Ok(())
    }
}

/// The limit of a device in a file of the cgroup's, 0 if there is none; `None` where there is no such file.
pub(crate) fn read(file: &Path, device: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let limit =
        text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' ')?.trim().parse().ok());
    Some(limit.unwrap_or(0))
}
