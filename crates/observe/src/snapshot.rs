//! The kernel's counters at one moment, and the changes between two moments.

use model::run::{CpuTimes, DeviceFrame, Frame, OwnIo, ThreadTimes};

/// All counters that a [`Probe`](crate::Probe) reads, cumulative since boot or since the process began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Devices, in the order in which the probe got them.
    pub devices: Vec<DeviceFrame>,
    /// CPU time of the machine, summed over its CPUs.
    pub cpu: CpuTimes,
    /// Scheduling of the watched threads, summed. Threads that have ended or are no longer watched still
    /// count.
    pub workers: ThreadTimes,
    /// Ticks that the watched threads spent in programs. The kernel samples them, so only their ratio to the
    /// kernel's ticks means something.
    pub worker_user_ticks: u64,
    /// Ticks that the watched threads spent in the kernel.
    pub worker_kernel_ticks: u64,
    /// I/O that the kernel accounted to this process.
    pub own_io: OwnIo,
    /// Dirty pages of the machine, in bytes: a state, not a counter.
    pub dirty_bytes: u64,
    /// Pages under writeback, in bytes: a state, not a counter.
    pub writeback_bytes: u64,
    /// Bytes of the machine's pages that were made dirty.
    pub dirtied_bytes: Option<u64>,
}

impl Snapshot {
    /// Returns the changes from `earlier` to this snapshot. A counter that went backwards counts as
    /// unchanged.
    pub fn frame_since(&self, earlier: &Self) -> Frame {
        let devices = self.devices.iter().zip(&earlier.devices);
        Frame {
            devices: devices.map(|(now, then)| now.each(then, u64::saturating_sub)).collect(),
            cpu: self.cpu.each(&earlier.cpu, u64::saturating_sub),
            workers: self.workers.each(&earlier.workers, u64::saturating_sub),
            own_io: self.own_io.each(&earlier.own_io, u64::saturating_sub),
            dirty_bytes: self.dirty_bytes,
            writeback_bytes: self.writeback_bytes,
            dirtied_bytes: self
                .dirtied_bytes
                .zip(earlier.dirtied_bytes)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// Returns the share of the workers' CPU time that was spent in programs, 0 to 1. Absent if no tick fell
    /// between the two snapshots.
    ///
    /// The kernel samples it once a tick, so it is meaningful from about a second of CPU time on.
    pub fn user_share_since(&self, earlier: &Self) -> Option<f64> {
        let user = self.worker_user_ticks.saturating_sub(earlier.worker_user_ticks);
        let kernel = self.worker_kernel_ticks.saturating_sub(earlier.worker_kernel_ticks);
        let all = user.saturating_add(kernel);
        (all > 0).then(|| user as f64 / all as f64)
    }
}
