//! The kernel's counters at one moment, and the changes between two moments.

use model::run::{CpuTimes, DeviceFrame, Frame, OwnIo, ThreadTimes};

/// Cumulative counters of one device. They wrap or restart only when the device goes away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Name in `/sys/class/block`.
    pub name: String,
    /// Read requests completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flush requests completed; 0 before Linux 5.5 and on devices that do not count them.
    pub flushes: u64,
    /// Time in flight, summed over requests.
    pub in_flight_ns: u64,
    /// Time during which the device was not idle.
    pub busy_ns: u64,
}

/// All counters that a [`Probe`](crate::Probe) reads, cumulative since boot or since the process began.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Devices, in the order in which the probe got them.
    pub devices: Vec<DeviceCounters>,
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
            devices: devices.map(|(now, then)| now.frame_since(then)).collect(),
            cpu: CpuTimes {
                user_ns: self.cpu.user_ns.saturating_sub(earlier.cpu.user_ns),
                kernel_ns: self.cpu.kernel_ns.saturating_sub(earlier.cpu.kernel_ns),
                idle_ns: self.cpu.idle_ns.saturating_sub(earlier.cpu.idle_ns),
                steal_ns: self.cpu.steal_ns.saturating_sub(earlier.cpu.steal_ns),
            },
            workers: ThreadTimes {
                cpu_ns: self.workers.cpu_ns.saturating_sub(earlier.workers.cpu_ns),
                run_queue_ns: self.workers.run_queue_ns.saturating_sub(earlier.workers.run_queue_ns),
            },
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

impl DeviceCounters {
    fn frame_since(&self, earlier: &Self) -> DeviceFrame {
        DeviceFrame {
            name: self.name.clone(),
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            flushes: self.flushes.saturating_sub(earlier.flushes),
            in_flight_ns: self.in_flight_ns.saturating_sub(earlier.in_flight_ns),
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
        }
    }
}
