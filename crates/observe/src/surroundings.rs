//! What else goes on around a measured part: pressure, quota, network, server, reclaim, helpers, limits.

mod caps;
mod helpers;
mod memory;
mod network;
mod quota;
mod server;
mod shaper;
mod stalls;

use model::Target;
use model::run::SystemUse;

use self::caps::Caps;
use self::helpers::Helpers;
use self::memory::Memory;
use self::network::Network;
use self::quota::Quota;
use self::server::Server;
use self::stalls::Stalls;
use crate::cgroup::levels;
use crate::mount;
use crate::parse::mountinfo;
use crate::probe::ns_per_tick;
use crate::root::Root;

/// What is seen of machine and server while something is measured.
///
/// All files stay open. Beginning and ending cost some 100 µs each and 8 µs for each process of the machine; a look costs
/// some 5 µs where there is a server in user space, else nothing, and allocates nothing.
#[derive(Debug)]
pub struct Surroundings {
    stalls: Stalls,
    quota: Quota,
    network: Network,
    server: Server,
    memory: Memory,
    helpers: Helpers,
    /// Whether processes are watched in this part.
    watches_processes: bool,
    caps: Caps,
    hidden: Vec<String>,
    buffer: Vec<u8>,
}

impl Surroundings {
    /// Opens all sources: of the cgroups and the network namespace that this process is in now.
    pub fn open(root: &Root, target: &Target) -> Self {
        let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
        // The target's own numbers could only be asked of its server, which may hang.
        let mount = mount::find(&mounts, None, &target.path);
        let levels = |controllers: &[&str]| levels(root, &mounts, controllers);
        let (mut hidden, mut buffer) = (Vec::new(), Vec::new());
        Self {
            stalls: Stalls::open(root, &mut hidden),
            quota: Quota::open(root, &levels(&["cpu"])),
            network: Network::open(root, &mut hidden),
            server: Server::open(root, mount, &mut buffer, &mut hidden),
            memory: Memory::open(root, &levels(&["memory"]), &mut buffer, &mut hidden),
            helpers: Helpers::open(root, ns_per_tick(), &mut hidden),
            watches_processes: false,
            caps: Caps::open(root, &levels(&["blkio"]), &target.device_stack),
            hidden,
            buffer,
        }
    }

    /// Sources that could not be opened or say nothing: "PATH: what it would have told".
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// A measured part begins, in which the processes of the machine are watched or not: that is a file to read for each of
    /// them, twice. There may be several parts before [`Surroundings::take`]; what is seen in them is summed.
    pub fn begin(&mut self, watches_processes: bool) {
        // What takes longest is farthest from what is measured.
        if watches_processes {
            self.helpers.begin();
        }
        self.watches_processes = watches_processes;
        self.caps.begin(&mut self.buffer);
        self.memory.begin(&mut self.buffer);
        self.quota.begin();
        self.stalls.begin();
        self.server.begin(&mut self.buffer);
        self.network.begin(&mut self.buffer);
    }

    /// Looks at what is a state and no counter. To be called every few milliseconds of a measured part. Allocates nothing.
    pub fn look(&mut self) {
        self.server.look();
    }

    /// A measured part ends. Without a beginning, nothing is done.
    pub fn end(&mut self) {
        self.network.end(&mut self.buffer);
        self.server.end(&mut self.buffer);
        self.stalls.end();
        self.quota.end();
        self.memory.end(&mut self.buffer);
        if std::mem::take(&mut self.watches_processes) {
            self.helpers.end();
        }
    }

    /// All that was seen in the measured parts, which were this long together (and those in which processes were watched,
    /// that long), and nothing of it any more from now on.
    ///
    /// The calls of the process are not among it.
    pub fn take(&mut self, measured_ns: u64, processes_watched_ns: u64) -> SystemUse {
        let (server_in_flight, server_slots) = self.server.take(measured_ns);
        let (reclaim, dirty_threshold_bytes) = self.memory.take();
        let quota = self.quota.take();
        SystemUse {
            calls: None,
            network: self.network.take(),
            server_in_flight,
            server_slots,
            pressure: self.stalls.take(measured_ns),
            quota_throttled_ns: quota.map(|(held_ns, _)| held_ns),
            quota_cpus: quota.and_then(|(_, cpus)| cpus),
            reclaim,
            dirty_threshold_bytes,
            helpers: self.helpers.take(processes_watched_ns),
            caps: self.caps.take(),
        }
    }
}
