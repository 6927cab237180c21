//! Events around a measured part: pressure, quota, network, reclaim, helpers, limits.

mod caps;
mod helpers;
mod memory;
mod network;
mod quota;
mod stalls;

use model::Target;
use model::run::SystemUse;

use self::caps::Caps;
use self::helpers::Helpers;
use self::memory::Memory;
use self::network::Network;
use self::quota::Quota;
use self::stalls::Stalls;
use crate::cgroup::levels;
use crate::parse::mountinfo;
use crate::probe::ns_per_tick;
use crate::root::Root;

/// Observations of the machine at the start and at the end of a measured part.
///
/// All files stay open. Start and end each cost some 100 µs, plus 8 µs for each process of the machine.
#[derive(Debug)]
pub struct SystemSampler {
    stalls: Stalls,
    quota: Quota,
    network: Network,
    memory: Memory,
    helpers: Helpers,
    /// True if processes are watched in this part.
    watches_processes: bool,
    caps: Caps,
    hidden: Vec<String>,
    buffer: Vec<u8>,
}

impl SystemSampler {
    /// Opens all sources, for the current cgroups and network namespace of this process.
    pub fn open(root: &Root, target: &Target) -> Self {
        let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
        let levels = |controllers: &[&str]| levels(root, &mounts, controllers);
        let (mut hidden, mut buffer) = (Vec::new(), Vec::new());
        Self {
            stalls: Stalls::open(root, &mut hidden),
            quota: Quota::open(root, &levels(&["cpu"])),
            network: Network::open(root, &target.layers, &mut hidden),
            memory: Memory::open(root, &levels(&["memory"]), &mut buffer, &mut hidden),
            helpers: Helpers::open(root, ns_per_tick(), &mut hidden),
            watches_processes: false,
            caps: Caps::open(root, &mounts, &target.layers),
            hidden,
            buffer,
        }
    }

    /// Returns the sources that could not be opened or say nothing, as "PATH: missing information".
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// Takes these processes of the machine for part of the test.
    pub fn exclude_processes(&mut self, processes: &[u32]) {
        self.helpers.exclude_processes(processes);
    }

    /// Begins a measured part. Watching the processes of the machine means reading a file for each, at the
    /// beginning and at the end. Several parts may precede [`SystemSampler::take`], which returns their sum.
    pub fn begin(&mut self, watches_processes: bool) {
        // The slowest source comes first, so that it is farthest from the measurement.
        if watches_processes {
            self.helpers.begin();
        }
        self.watches_processes = watches_processes;
        self.caps.begin(&mut self.buffer);
        self.memory.begin(&mut self.buffer);
        self.quota.begin();
        self.stalls.begin();
        self.network.begin(&mut self.buffer);
    }

    /// Ends a measured part. Does nothing without a beginning.
    pub fn end(&mut self) {
        self.network.end(&mut self.buffer);
        self.stalls.end();
        self.quota.end();
        self.memory.end(&mut self.buffer);
        self.caps.end(&mut self.buffer);
        if std::mem::take(&mut self.watches_processes) {
            self.helpers.end();
        }
    }

    /// Returns all observations of the measured parts, and forgets them. The total length of the parts is
    /// `measured_ns`, that of the parts with watched processes is `processes_watched_ns`.
    ///
    /// The calls of the process are not included, and neither is the time in which it did not run.
    pub fn take(&mut self, measured_ns: u64, processes_watched_ns: u64) -> SystemUse {
        let (reclaim, dirty_threshold_bytes) = self.memory.take();
        let quota = self.quota.take();
        SystemUse {
            calls: None,
            network: self.network.take(),
            pressure: self.stalls.take(measured_ns),
            quota_throttled_ns: quota.map(|quota| quota.throttled_ns),
            quota_used_up_ns: quota.map(|quota| quota.used_up_ns),
            quota_cpus: quota.and_then(|quota| quota.cpus),
            reclaim,
            dirty_threshold_bytes,
            helpers: self.helpers.take(processes_watched_ns),
            caps: self.caps.take(),
            not_running_ns: None,
            left_out_ns: None,
            suspended_ns: None,
        }
    }
}
