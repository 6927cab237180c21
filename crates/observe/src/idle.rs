//! Traffic of other processes on a device while skye is idle.

use std::time::{Duration, Instant};

use model::run::DeviceFrame;
use model::target::Device;

use crate::parse::block_stat;
use crate::root::Root;

/// Bytes that a device moved during a pause of skye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleTraffic {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Length of the pause.
    pub length_ns: u64,
}

/// Sleeps for `pause` and returns the device's traffic during it. Absent, without a pause, if the counters cannot be
/// read.
pub fn idle_traffic(root: &Root, device: &Device, pause: Duration) -> Option<IdleTraffic> {
    let before = counters(root, device)?;
    let start = Instant::now();
    std::thread::sleep(pause);
    let after = counters(root, device)?;
    Some(IdleTraffic {
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
        length_ns: u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}

fn counters(root: &Root, device: &Device) -> Option<DeviceFrame> {
    let text = root.read(&format!("sys/class/block/{}/stat", device.name))?;
    let mut counters = DeviceFrame::default();
    block_stat::parse(text.as_bytes(), &mut counters).then_some(counters)
}
