//! The limits that can hold a number back: a closed list.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! limiters {
    ($($(#[$meta:meta])* $variant:ident, $code:literal, $title:literal, $short:literal;)+) => {
        /// The limit that held a number back.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum Limiter { $($(#[$meta])* $variant,)+ }

        impl Limiter {
            /// All limiters, in the order in which they are listed.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word in documents and on the command line.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            /// Returns the words on the terminal, without depth and share.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            /// Returns the title in at most 16 characters, for a narrow table.
            pub fn short_title(self) -> &'static str {
                match self { $(Self::$variant => $short),+ }
            }
        }
    };
}

limiters! {
    /// Bytes per second of the device.
    DeviceBandwidth, "device_bandwidth", "device bandwidth", "device bandwidth";
    /// Operations per second of the device.
    DeviceOps, "device_ops", "device operations", "device ops";
    /// The time that the device takes for one operation, at the requested depth.
    DeviceLatency, "device_latency", "device latency", "device latency";
    /// The device, by the time of one operation or by what it can do; no experiment showed which.
    DeviceUndetermined, "device_undetermined", "device latency or throughput", "device (either)";
    /// The time that a server takes for one operation, at the requested depth.
    RemoteLatency, "remote_latency", "remote latency", "remote latency";
    /// Tags of the device's queue, slots of a remote procedure call, background requests of FUSE.
    QueueFull, "queue_full", "queue full", "queue full";
    /// A limit that a cgroup or a provider sets.
    IoThrottle, "io_throttle", "I/O throttle", "I/O throttle";
    /// The requested rate of operations.
    RequestedRate, "requested_rate", "the requested rate", "requested rate";
    /// Pauses between the flows of a mix.
    ThinkTime, "think_time", "the mix's think time", "think time";
    /// Bytes per second of the network.
    NetworkBandwidth, "network_bandwidth", "network bandwidth", "network";
    /// The server or the network to it; no experiment showed which.
    RemoteUndetermined, "remote_undetermined", "server or network", "server / network";
    /// A server that can do no more, whatever the load.
    ServerSaturated, "server_saturated", "server", "server";
    /// Copying from the page cache.
    PageCache, "page_cache", "page cache", "page cache";
    /// The page cache took the writes, and they had not reached the device.
    PageCacheAbsorbed, "page_cache_absorbed", "page cache (absorbed)", "cache (absorbed)";
    /// Names and attributes that memory holds.
    MetadataCache, "metadata_cache", "cached metadata", "cached metadata";
    /// The kernel held writers back until dirty pages were written.
    DirtyThrottling, "dirty_throttling", "dirty-page throttling", "dirty throttling";
    /// The kernel had to find free pages before anything could go on.
    MemoryPressure, "memory_pressure", "memory pressure", "memory pressure";
    /// Commits of the journal, and flushes of the device.
    FsyncJournal, "fsync_journal", "commit / flush", "commit / flush";
    /// Threads that waited for each other.
    LockContention, "lock_contention", "lock contention", "lock contention";
    /// The thread's own code, outside of the kernel.
    ClientCpu, "client_cpu", "client CPU (user code)", "client CPU";
    /// The thread's time in the kernel.
    KernelCpu, "kernel_cpu", "kernel CPU", "kernel CPU";
    /// The test's own threads use all CPUs.
    CpuSaturated, "cpu_saturated", "all CPUs, used by this test", "all CPUs";
    /// Other processes use the CPUs.
    CpuContention, "cpu_contention", "other processes' CPU", "others' CPU";
    /// A cgroup's quota of CPU time.
    CpuQuota, "cpu_quota", "CPU quota", "CPU quota";
    /// The hypervisor gave the CPU to other guests.
    HypervisorSteal, "hypervisor_steal", "steal", "steal";
    /// I/O of other programs on the same device.
    NoisyNeighbour, "noisy_neighbour", "other I/O", "other I/O";
    /// A thread of the kernel or a daemon that works for the target.
    HelperCpu, "helper_cpu", "helper thread CPU", "helper CPU";
    /// Something below this system: a host, a provider, a controller.
    BelowOs, "below_os", "below this OS", "below this OS";
    /// Each client's own speed: more clients bring more.
    EachClient, "each_client", "each client itself", "each client";
    /// Storage that several clients share: the server or device, or the network to it.
    BelowClients, "below_clients", "below the clients", "below clients";
    /// skye's own loop.
    BenchmarkItself, "benchmark_itself", "skye itself", "skye itself";
    /// Two limits at once.
    Mixed, "mixed", "mixed", "mixed";
    /// The evidence conflicts, or is too thin.
    NotClear, "not_clear", "not clear", "not clear";
}

impl Limiter {
    /// Returns the limiter with this code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|limiter| limiter.code() == code)
    }

    /// Returns true for a limit of a device, and not of what is before it.
    pub fn is_of_device(self) -> bool {
        matches!(
            self,
            Self::DeviceBandwidth | Self::DeviceOps | Self::DeviceLatency | Self::DeviceUndetermined
        )
    }

    /// Returns the limiters between which it leaves open; none if it is one itself.
    pub fn alternatives(self) -> &'static [Self] {
        match self {
            Self::DeviceUndetermined => &[Self::DeviceLatency, Self::DeviceOps, Self::DeviceBandwidth],
            Self::RemoteUndetermined => &[Self::RemoteLatency, Self::ServerSaturated, Self::NetworkBandwidth],
            _ => &[],
        }
    }
}

impl fmt::Display for Limiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.title())
    }
}

#[cfg(test)]
mod tests {
    use super::Limiter;

    #[test]
    fn limiter_codes_equal_their_json_names() {
        for limiter in Limiter::ALL {
            assert_eq!(serde_json::to_value(limiter).unwrap(), limiter.code());
            assert_eq!(Limiter::from_code(limiter.code()), Some(*limiter));
        }
        assert_eq!(Limiter::from_code("disk"), None);
    }
}
