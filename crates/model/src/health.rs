//! What was found about a machine and a target before anything is measured, and how well that is.

use crate::machine::Machine;
use crate::run::Frame;
use crate::target::Target;

/// What was seen without measuring any storage and without writing anywhere.
///
/// What the machine does not show is absent or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// The machine.
    pub machine: Machine,
    /// The directory and what lies under it.
    pub target: Target,
    /// Why this user cannot make a directory there; absent where they can, or nobody knows.
    pub unwritable: Option<String>,
    /// Bytes of the file system that are taken, as `df` counts them.
    pub used_bytes: Option<u64>,
    /// Names of devices under the target that keep their data in memory.
    pub in_memory: Vec<String>,
    /// The mount option that leaves out the flushes which make synced data durable.
    pub no_flush: Option<String>,
    /// A library in this process that makes the C library's syncs do nothing.
    pub sync_killer: Option<String>,
    /// Software arrays under the target.
    pub arrays: Vec<Array>,
    /// What file systems of the target's type do to themselves at the moment.
    pub upkeep: Vec<Upkeep>,
    /// Temperatures of the drives under the target.
    pub temperatures: Vec<Temperature>,
    /// How the CPUs' frequency is chosen, each way once.
    pub governors: Vec<Governor>,
    /// Clock sources that the kernel offers, the one in use among them.
    pub clock_sources: Vec<String>,
    /// What one read of the clock costs; the program's to find out.
    pub clock_read_ns: Option<f64>,
    /// CPUs that a quota allows, a fraction possibly.
    pub cpu_quota: Option<f64>,
    /// Memory that a cgroup allows, page cache included.
    pub memory_limit_bytes: Option<u64>,
    /// Limits of I/O on the target's devices.
    pub io_limits: Vec<IoLimit>,
    /// Tasks that ran or waited for a disk, on average over the last minute.
    pub load: Option<f64>,
    /// What happened while the machine was watched.
    pub watch: Watch,
    /// Counters that cannot be read here: "PATH: what it would have told".
    pub hidden: Vec<String>,
}

/// A while in which nothing was done but to keep one thread busy.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// How long it was; 0 if nothing was watched.
    pub length_ns: u64,
    /// What devices, CPUs and the busy thread did in it.
    pub frame: Frame,
    /// What the busy thread got done in each of many windows of the same length.
    pub work: Vec<u64>,
    /// How long each of these windows is.
    pub window_ns: u64,
    /// The longest time for which the busy thread stood still.
    pub pause_ns_max: u64,
    /// Shares of the time in which somebody waited; absent where the kernel does not tell (`/proc/pressure`).
    pub pressure: Option<Pressure>,
    /// How often CPUs were throttled for their temperature; absent where it is not told.
    pub cpu_throttled: Option<u64>,
}

/// Shares of time, 0 to 1, in which at least one task of the machine waited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// For a CPU.
    pub cpu: f64,
    /// For memory.
    pub memory: f64,
    /// For I/O, of any device.
    pub io: f64,
}

/// A software array (md).
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Name in `/sys/class/block`.
    pub name: String,
    /// What it does with itself: "resync", "recover", "check"; absent if nothing.
    pub action: Option<String>,
    /// How much of that is done, 0 to 1.
    pub progress: Option<f64>,
    /// Devices that it lacks.
    pub missing: u32,
}

/// What a file system does to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upkeep {
    /// A kernel thread writes inode tables that `mkfs` left out, of some ext4 of this machine.
    InodeTables,
    /// Some btrfs of this machine checks its checksums.
    Scrub,
    /// The btrfs of the target does this: "balance", "device replace".
    Operation(String),
}

/// What a sensor of a drive says.
#[derive(Debug, Clone, PartialEq)]
pub struct Temperature {
    /// Name of the drive in `/sys/class/block`.
    pub device: String,
    /// Its temperature.
    pub celsius: f64,
    /// Above this the drive protects itself by being slower; absent where it tells none.
    pub celsius_max: Option<f64>,
}

/// How the frequency of some CPUs is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Governor {
    /// "performance", "schedutil", …
    pub name: String,
    /// The driver below it: "intel_pstate".
    pub driver: Option<String>,
}

/// The tightest limits that cgroups put on one device; absent where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IoLimit {
    /// Name in `/sys/class/block`.
    pub device: String,
    /// Bytes read.
    pub read_bytes_per_second: Option<u64>,
    /// Bytes written.
    pub written_bytes_per_second: Option<u64>,
    /// Reads.
    pub reads_per_second: Option<u64>,
    /// Writes.
    pub writes_per_second: Option<u64>,
}

/// How well something is for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fitness {
    /// Nothing to say against it.
    Fine,
    /// Worth knowing when numbers are read.
    Note,
    /// Numbers will be suspect.
    Warn,
    /// Numbers cannot be believed, or a run would be refused.
    Unfit,
}

/// One thing that was looked at, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    /// How well it is.
    pub fitness: Fitness,
    /// What was found, as a fragment.
    pub found: String,
    /// What to do about it, as a fragment that follows the other; absent where all is well.
    pub advice: Option<String>,
}

impl Check {
    /// The same with what to do about it.
    #[must_use]
    pub fn advising(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}
