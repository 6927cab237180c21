//! State of a machine and a target before anything is measured, and its fitness for measuring.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::run::Frame;
use crate::target::Target;

/// State of a machine and a target, found without measuring any storage and without writing anywhere.
///
/// Anything that the machine does not show is absent or empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// The machine.
    pub machine: Machine,
    /// The directory, with its file system and devices.
    pub target: Target,
    /// Reason why this user cannot create a directory there; absent if they can, or if that is unknown.
    pub unwritable: Option<String>,
    /// Bytes in use in the file system, as `df` counts them.
    pub used_bytes: Option<u64>,
    /// Names of devices under the target that keep their data in memory.
    pub in_memory: Vec<String>,
    /// Mount option that leaves out the flushes that make synced data durable.
    pub no_flush: Option<String>,
    /// A library in this process that makes the C library's syncs do nothing.
    pub sync_interceptor: Option<String>,
    /// Flushes of the disks under the target with a volatile cache; only disks that have counted some.
    pub flushes: Vec<Flushes>,
    /// Quota of this user on the target; absent for root and where there is none.
    pub quota: Option<Quota>,
    /// Directory of saved runs, which the program fills in; absent where it saves none.
    pub store: Option<RunStore>,
    /// Software arrays under the target.
    pub arrays: Vec<Array>,
    /// Maintenance that file systems of the target's type do at the moment.
    pub maintenance: Vec<Maintenance>,
    /// Temperatures of the drives under the target.
    pub temperatures: Vec<Temperature>,
    /// Wear of the drives under the target; only drives that show it without a command.
    pub wear: Vec<Wear>,
    /// Ways in which the CPUs' frequency is chosen, each listed once.
    pub governors: Vec<Governor>,
    /// Clock sources that the kernel offers, the one in use among them.
    pub clock_sources: Vec<String>,
    /// Cost of one clock read in nanoseconds; the program measures it.
    pub clock_read_ns: Option<f64>,
    /// CPUs that a quota allows, possibly a fraction.
    pub cpu_quota: Option<f64>,
    /// Memory that a cgroup allows, page cache included.
    pub memory_limit_bytes: Option<u64>,
    /// Limits of I/O on the target's devices.
    pub io_limits: Vec<IoLimit>,
    /// Tasks that ran or waited for a disk, on average over the last minute.
    pub load: Option<f64>,
    /// Observations while the machine was watched.
    pub watch: Watch,
    /// Unreadable counters, as "PATH: purpose".
    pub hidden: Vec<String>,
}

/// A period in which the machine was watched, with one busy thread as the only work.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    /// Length of the period; 0 if nothing was watched.
    pub length_ns: u64,
    /// Work of devices, CPUs and the busy thread in the period.
    pub frame: Frame,
    /// Work that the busy thread did in each of many windows of the same length.
    pub work: Vec<u64>,
    /// Length of each of these windows.
    pub window_ns: u64,
    /// The longest time for which the busy thread stood still.
    pub pause_ns_max: u64,
    /// Shares of the time in which tasks waited; absent where the kernel does not show them (`/proc/pressure`).
    pub pressure: Option<Pressure>,
    /// How often CPUs were throttled for their temperature; absent where the machine does not show it.
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

/// Flushes of a disk since it was attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flushes {
    /// Name of the disk in `/sys/class/block`.
    pub device: String,
    /// Number of flushes.
    pub count: u64,
    /// Their time in all, counted in whole milliseconds.
    pub time_ns: u64,
}

/// Room that quotas leave to a user on a file system; absent where nothing limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes.
    pub free_bytes: Option<u64>,
    /// Files and directories.
    pub inodes_free: Option<u64>,
}

/// Directory in which the program saves runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStore {
    /// Its path; absent if the user has none.
    pub path: Option<String>,
    /// Reason why this user cannot write there.
    pub unwritable: Option<String>,
    /// Free bytes of its file system.
    pub free_bytes: Option<u64>,
}

/// A software array (md).
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Name in `/sys/class/block`.
    pub name: String,
    /// Work of the array on itself: "resync", "recover", "check"; absent if there is none.
    pub action: Option<String>,
    /// Progress of that work, 0 to 1.
    pub progress: Option<f64>,
    /// Number of devices that it lacks.
    pub missing: u32,
}

/// Maintenance of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Maintenance {
    /// A kernel thread writes inode tables that `mkfs` left out, of some ext4 of this machine.
    InodeTables,
    /// Some btrfs of this machine checks its checksums.
    Scrub,
    /// The btrfs of the target does this: "balance", "device replace".
    Operation(String),
}

/// Reading of a temperature sensor of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct Temperature {
    /// Name of the drive in `/sys/class/block`.
    pub device: String,
    /// Its temperature.
    pub celsius: f64,
    /// Temperature above which the drive slows down to protect itself; absent where the drive states none.
    pub celsius_max: Option<f64>,
}

/// Share of its rated writes that a drive has used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wear {
    /// Name of the drive in `/sys/class/block`.
    pub device: String,
    /// Upper end of a range of 10 percent; more than 100 beyond the rating.
    pub used_percent_max: u8,
}

/// Way in which the frequency of some CPUs is chosen.
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

/// Fitness of something for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No problem found.
    Pass,
    /// Worth knowing when numbers are read.
    Note,
    /// Numbers will be suspect.
    Warn,
    /// Numbers cannot be believed, or a run would be refused.
    Fail,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Subject of the check, in a word or two.
    pub name: Cow<'static, str>,
    /// Fitness of the subject.
    pub severity: Severity,
    /// The finding, as a fragment.
    pub found: String,
    /// The remedy, as a fragment that follows the finding; absent where all is well.
    pub advice: Option<String>,
}

impl Check {
    /// Returns the check with advice added.
    #[must_use]
    pub fn with_advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}
