//! Work of watched machines, such as the server, while clients measured.

use serde::{Deserialize, Serialize};

use super::{Helper, NetworkUse};
use crate::document::document;

document! {
    /// Work of a machine while clients measured.
    pub struct ServerUse {
        /// Its name, as the command line has it.
        pub name: String,
        /// Time in which it was watched.
        pub watched_ns: u64,
        /// Its CPUs that are online.
        pub cpus: u32,
        /// Use of these CPUs; null where the machine hides it.
        pub cpu: Option<CpuShares>,
        /// Quota of CPU time of the cgroup that was watched from; null where there is none.
        pub quota: Option<ServerQuota>,
        /// Devices below the directory that was named, the mounted one first.
        pub devices: Vec<ServerDevice>,
        /// Its busiest network interface; null where nothing crossed one.
        pub network: Option<NetworkUse>,
        /// Its processes and threads of the kernel that took CPU time, the busiest first.
        pub helpers: Vec<Helper>,
        /// Work of its NFS server; null where the kernel serves none.
        pub nfsd: Option<NfsdUse>,
    }

    /// Use of a quota of CPU time.
    pub struct ServerQuota {
        /// CPUs that it allows.
        pub cpus: f64,
        /// Share of the time in whose periods it was used up.
        pub used_up_share: f64,
    }

    /// Work of a device of a server.
    pub struct ServerDevice {
        /// Its name.
        pub name: String,
        /// Share of the time in which it had a request.
        pub busy_share: f64,
        /// Mean number of requests in it.
        pub requests: f64,
        /// Requests that it completed per second, flushes not among them.
        pub ops_per_second: f64,
        /// Bytes that it moved per second.
        pub bytes_per_second: f64,
    }

    /// Work of the kernel's NFS server.
    pub struct NfsdUse {
        /// Its threads.
        pub threads: u64,
        /// Calls of its clients.
        pub calls: u64,
        /// Share of the arriving packets that woke a thread. The others found none asleep. Null where the kernel does not
        /// count them.
        pub woken_share: Option<f64>,
    }

    /// CPU of a whole machine, as shares of all CPUs' time.
    pub struct CpuShares {
        /// In programs.
        pub user: f64,
        /// In the kernel.
        pub kernel: f64,
        /// Taken by the hypervisor.
        pub steal: f64,
    }
}

impl CpuShares {
    /// Returns the share that was not idle.
    pub fn busy(&self) -> f64 {
        self.user + self.kernel + self.steal
    }
}
