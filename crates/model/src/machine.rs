//! The machine that measures, as far as it matters for the results.

use serde::{Deserialize, Serialize};

/// CPUs and memory that this process may use, and who provides them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Kernel name and release: "Linux 6.12.9".
    pub kernel: String,
    /// Processor model as the kernel reports it; null if it does not.
    pub cpu_model: Option<String>,
    /// CPUs that this process may use, after cgroup quota and affinity.
    pub cpus: u32,
    /// CPUs that are online.
    pub cpus_online: u32,
    /// Memory that this process may use, after cgroup limits.
    pub memory_bytes: u64,
    /// Memory of the machine.
    pub memory_total_bytes: u64,
    /// The virtualisation that the machine runs on, where that shows: "kvm", "virtual machine"; null on bare metal.
    pub virtualisation: Option<String>,
    /// Source of the clock: "tsc".
    pub clock_source: Option<String>,
    /// True if skye runs as root.
    pub is_root: bool,
    /// Bytes that this user may lock in memory (`RLIMIT_MEMLOCK`), including rings and their buffers; null where there
    /// is no limit.
    pub lockable_bytes: Option<u64>,
    /// Files that this process may have open at a time (`RLIMIT_NOFILE`); null where there is no limit.
    #[serde(default)]
    pub open_files_max: Option<u64>,
    /// Bytes that a file which this process writes may have (`RLIMIT_FSIZE`); null where there is no limit.
    #[serde(default)]
    pub file_bytes_max: Option<u64>,
    /// Why io_uring cannot be used here; null where it can.
    pub io_uring_refused: Option<String>,
}

impl Machine {
    /// Returns the hypervisor; `None` on bare metal, and in a container on it.
    pub fn hypervisor(&self) -> Option<&str> {
        let first = self.virtualisation.as_deref()?.split(", ").next()?;
        (!first.ends_with(" container")).then_some(first)
    }
}

/// Returns the bytes of lockable memory that a ring for `iodepth` operations in flight takes.
///
/// The two queues, and the requests, each take whole pages of 4 KiB. A `struct io_uring_sqe` has 64 bytes and a
/// `struct io_uring_cqe` 16, with two completions for each request.
pub fn ring_bytes(iodepth: u32) -> u64 {
    let entries = u64::from(iodepth.max(1).next_power_of_two());
    let queues = 64 + entries * (4 + 2 * 16);
    queues.next_multiple_of(4096) + (entries * 64).next_multiple_of(4096)
}
