//! The run document, schema `skye.run/3`: everything that one run found out, and all that reports are made from.

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::disturbance::Disturbance;
use crate::document::{document, pieces, read_as_pieces, words};
use crate::finding::Finding;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::target::Target;
use crate::workload::{Access, Arrival, CacheMode, OpenRate, Order, SyncMode, Work, Workload};

/// Name of the schema that this version reads and writes.
pub const SCHEMA: &str = "skye.run/3";
/// Most intervals that a phase keeps; longer phases merge neighbours.
pub const INTERVALS_MAX: usize = 3000;

words! {
    /// Completeness of a run.
    pub enum RunStatus {
        /// Every phase was tried.
        Complete,
        /// It ended early: by a signal, the total time or a failure.
        Partial,
    }

    /// The way in which a phase ended.
    pub enum Status {
        /// By its stop rule.
        Done,
        /// Before its stop rule held; its measurements are valid.
        Partial,
        /// It was not tried.
        Skipped,
        /// An operation failed.
        Failed,
    }

    /// Trust in the number of a row.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Trust {
        /// The number holds: steady, narrow enough, confirmed by the counters, with the caches as asked.
        #[default]
        Ok,
        /// Something is off; the reasons name it.
        Suspect,
        /// The number is something else than the speed of this storage.
        Invalid,
    }
}

mod clients;
mod columns;
mod counters;
mod evidence;
mod latency;
mod load;
mod place;
mod rate;
mod rounds;
mod scores;
mod servers;

pub use clients::{ClientShare, ClientTotals, ClockRecord, FewerClients, HostRecord, machine_of};
pub use columns::{Frame, Interval, RoundRecord, ZoneRecord};
pub use counters::{CpuTimes, DeviceFrame, OwnIo, ThreadTimes};
pub use evidence::{
    CallUse, Cap, CeilingShares, Confidence, Evidence, Helper, NetworkUse, OperationSamples,
    OperationVerdict, Pressures, RankedLimiter, Reclaim, Response, SampledThreads, Sensitivity, SystemUse,
    THREADS_PER_SAMPLE_MAX, Verdict, WaitChannel, sources,
};
pub use latency::{ChosenPercentile, Ends, Latency, LatencyIntervals, Mode};
pub use load::{Flow, Load};
pub use place::{LatencyByPlace, Place, PlaceLatency};
pub use rate::EFFECTIVE_SAMPLES_MIN;
pub use rounds::{FillRecord, RoundsWindow, SteadyRound, UntilSteady};
pub use scores::Scores;
pub use servers::{CpuShares, NfsdUse, ServerDevice, ServerQuota, ServerUse};

document! {
    /// One run of skye.
    pub struct Run {
        /// Always "skye.run/3".
        pub schema: String,
        /// Version of the program.
        pub skye_version: String,
        /// Release, commit, target and profile of the program, as `skye --version` has them. The commit has a `+` if the
        /// sources differed from it. Absent in documents of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub skye_build: Option<String>,
        /// C library of the program: "glibc 2.36", or "static musl" if it is a part of the program. Absent in documents of
        /// older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub skye_libc: Option<String>,
        /// Start of the run: RFC 3339, UTC.
        pub started_at: String,
        /// End of the run: RFC 3339, UTC.
        pub finished_at: String,
        /// Completeness of the run.
        pub run_status: RunStatus,
        /// The command line, word by word.
        pub command: Vec<String>,
        /// The user's name for this run.
        pub label: Option<String>,
        /// The run that it was measured in turns with; absent where it was measured alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub pairing: Option<Pairing>,
        /// Percentiles that tables show, in percent, ascending; absent where the user chose none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub percentiles: Vec<f64>,
        /// Seed of offsets and data; the same seed repeats them.
        pub seed: u64,
        /// The plan of the run.
        pub plan: Plan,
        /// The machine and the target.
        pub environment: Environment,
        /// The clients of a run that several made together, by their numbers. The environment above is that of the first.
        /// Absent in a run without clients.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub hosts: Vec<HostRecord>,
        /// The phases, in the order in which they ran.
        pub phases: Vec<PhaseRecord>,
        /// Fills of the data before the tests, one for each group of files and repetition; absent where there were none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub fills: Vec<FillRecord>,
        /// Scores by IO500's arithmetic; absent but for its preset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scores: Option<Scores>,
        /// Results of short experiments on the target; null where none was made.
        #[serde(default)]
        pub target_probes: Option<TargetProbes>,
        /// Ceilings of skye that numbers are compared with.
        pub ceilings: Vec<Ceiling>,
        /// The tool's own cost, and its warnings about itself.
        pub tool: Tool,
    }

    /// One of two runs that were measured in turns, repetition by repetition.
    pub struct Pairing {
        /// Identifier that the documents of both runs share.
        pub id: String,
        /// Side of this run: "A" or "B".
        pub side: String,
        /// For each repetition, true if this run was measured first.
        pub first: Vec<bool>,
        /// Command that changed settings before each measurement of this side; absent where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub command: Option<String>,
    }

    /// The machine and the target.
    pub struct Environment {
        /// Host name.
        pub host: String,
        /// Kernel name and release.
        pub kernel: String,
        /// Processor model; null where the kernel does not name it.
        pub cpu_model: Option<String>,
        /// CPUs that may be used, after cgroup quota and affinity.
        pub cpus: u32,
        /// CPUs that are online.
        pub cpus_online: u32,
        /// Memory that may be used, after cgroup limits.
        pub memory_bytes: u64,
        /// Memory of the machine.
        pub memory_total_bytes: u64,
        /// The virtualisation that the machine runs on, where that shows; null on bare metal.
        pub virtualisation: Option<String>,
        /// True if skye ran as root.
        pub is_root: bool,
        /// The directory, with its file system and devices.
        pub target: Target,
        /// Other settings that matter to the numbers.
        pub settings: Vec<Setting>,
        /// Sources that cannot be read with this kernel, in this container or by this user.
        pub hidden_sources: Vec<String>,
    }

    /// One setting of the machine.
    pub struct Setting {
        /// Name of its source: "vm.dirty_ratio", "clocksource".
        pub name: String,
        /// Its value.
        pub value: String,
    }
}

pieces! {
    /// One phase: all that was counted while one test ran once.
    pub struct PhaseRecord {
        /// Unique in the run: "03-rewrite", "03-rewrite#2" in the second repetition.
        pub id: String [needed],
        /// The test; running this spec again repeats it.
        pub spec: String [needed],
        /// The verb.
        pub name: String [needed],
        /// Short description for tables: "4K rnd q32t4".
        pub label: String [needed],
        /// Name of the row for `skye why`: "read-4k-rnd-q32t4"; absent in documents of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub handle: Option<String>,
        /// Group of phases that belong together: a sweep, one side of a comparison.
        pub group: Option<String>,
        /// Number of the repetition, from 1.
        pub repetition: u32 [needed],
        /// The test, one field for each word of its spec.
        pub workload: WorkloadRecord [needed],
        /// How operations were issued.
        pub engine: EngineRecord [needed],
        /// How it ended.
        pub status: Status [needed],
        /// Why it did not end as planned, with path, offset and cause; null if it did.
        pub reason: Option<String>,
        /// The share of each client, by its number; absent in a run without clients. The other fields are then sums.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub hosts: Vec<ClientShare>,
        /// Operations, bytes and times.
        #[serde(flatten)]
        pub counts: Counts [piece],
        /// Rates and latencies, and their course.
        #[serde(flatten)]
        pub figures: Figures [piece],
        /// Observations of the machine during the test.
        #[serde(flatten)]
        pub seen: Observations [piece],
        /// Findings about the number.
        #[serde(flatten)]
        pub judged: Judgement [piece],
    }

    /// Operations, bytes and times of a phase.
    #[derive(Default)]
    pub struct Counts {
        /// Nanoseconds from the start of the run to the start of this phase.
        pub start_ns: u64 [needed],
        /// Number of operations.
        pub ops: u64 [needed],
        /// Bytes that these operations represent: a rewritten block counts once.
        pub bytes: u64 [needed],
        /// Bytes that read calls returned.
        pub app_bytes_read: u64 [needed],
        /// Bytes that write calls took.
        pub app_bytes_written: u64 [needed],
        /// Time from the start of the first worker to the end of the last, the sync at the end included.
        pub elapsed_ns: u64 [needed],
        /// Visits of every block, or rounds over every file; fractional where the last was not finished.
        pub passes: f64 [needed],
        /// Blocks that were read and compared byte by byte.
        #[serde(default)]
        pub verified_blocks: u64,
        /// Calls that moved a part of their block; another call moved the rest.
        #[serde(default)]
        pub short_calls: u64,
        /// True if the file system refused `O_DIRECT` and the test went through the page cache; absent otherwise.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub direct_refused: bool,
        /// Delay of the last thread's begin after the agreed instant; absent in a run without clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub start_delay_ns: Option<u64>,
        /// Bytes that ended the phase, as the next operation would have written more; absent otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub write_limit_bytes: Option<u64>,
    }

    /// Rates and latencies of a phase, and their course.
    #[derive(Default)]
    pub struct Figures {
        /// The rates, each by its own definition.
        pub rate: Rate [needed],
        /// The 95 % prediction interval of the rate of another run; absent where too few earlier runs of this test in this place are kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub prediction_interval: Option<RateRange>,
        /// Rates of earlier runs whose data lay in other places; absent where none are kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rates_elsewhere: Option<RateRange>,
        /// Rates of the clients together and of each; absent in a run without clients. The headline is that of the time
        /// in which every client worked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub together: Option<ClientTotals>,
        /// Latency of whole operations; null where it is not measured.
        pub latency_ns: Option<Latency>,
        /// Histogram of the same operations: HdrHistogram V2 deflate, base64.
        pub histogram: Option<String>,
        /// Longest time of many calls in a row, for tests of single bytes; absent for others, and after few calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub slowest_calls: Option<SlowestCalls>,
        /// Time from the intended to the actual start, open loops only.
        pub queueing_ns: Option<Latency>,
        /// The calls that an operation consists of.
        pub steps: Vec<Step> [needed],
        /// Pieces of its time axis; at most 3,000.
        #[serde(serialize_with = "columns::write")]
        #[cfg_attr(test, schemars(with = "columns::Intervals"))]
        pub intervals: Vec<Interval> [needed as columns::Rows<Interval>],
        /// Our own CPU time per operation at the batch size reached, from the ceilings; null where it was not measured.
        pub own_cost_ns_per_op: Option<f64>,
        /// The steady part, and where the rate changed; null where there were too few intervals to tell.
        #[serde(default)]
        pub steady: Option<Steady>,
        /// A short run of the same test after all tests; absent where none was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub return_visit: Option<ReturnVisit>,
        /// The rounds of a test on files, in their order; at most 3,000.
        #[serde(default, serialize_with = "columns::write", skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(test, schemars(with = "columns::Rounds"))]
        pub rounds: Vec<RoundRecord> [as columns::Rows<RoundRecord>],
        /// Rounds of a test that was repeated until it was steady; absent for other tests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub until_steady: Option<UntilSteady>,
        /// The zones of a test that has them, in the order of their visits; the last may have been left early.
        #[serde(default, serialize_with = "columns::write", skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(test, schemars(with = "columns::Zones"))]
        pub zones: Vec<ZoneRecord> [as columns::Rows<ZoneRecord>],
        /// The rate as shares of skye's own ceilings; null where none was measured.
        #[serde(default)]
        pub ceiling_shares: Option<CeilingShares>,
    }

    /// Observations of the machine while a phase ran.
    #[derive(Default)]
    pub struct Observations {
        /// Work of the mounted device during the test; null where there is none.
        pub device: Option<DeviceUse>,
        /// The load, and the work of the layers under it; absent where no layer counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub load: Option<Load>,
        /// Share of read bytes that did not come from the device, 0 to 1; null where that is unknown.
        pub page_cache_share: Option<f64>,
        /// Where the time of the worker threads went; null where the kernel hides it.
        pub budget: Option<TimeBreakdown>,
        /// CPU of the whole machine during the test, as shares of all CPUs.
        pub cpu: Option<CpuShares>,
        /// Share of the files in the page cache before and after; null for tests that touch no data in files.
        #[serde(default)]
        pub residency: Option<Residency>,
        /// Extents under the files before they were read; null for tests that read none, and where they are not known.
        #[serde(default)]
        pub extents: Option<Extents>,
        /// Places of the data: addresses below the file system, as it reports them. At most eight, in their order; none for
        /// tests that make their files, and where they are not known.
        #[serde(default)]
        pub places: Vec<Place>,
        /// Latencies by place of the data, of tests in random order; absent where places are not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub latency_by_place: Option<LatencyByPlace>,
        /// Heat, throttling and maintenance during the test; null where there was nothing to check.
        #[serde(default)]
        pub conditions: Option<Conditions>,
        /// Work of the watched servers during the test; absent where none was watched.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub servers: Vec<ServerUse>,
        /// Other observations of machine and server; null in documents of older versions, and on simulated devices.
        #[serde(default)]
        pub system: Option<SystemUse>,
        /// Kernel functions in which samples found sleeping threads, the most frequent first.
        #[serde(default, rename = "wait_sites")]
        pub wait_channels: Vec<WaitChannel> [key "wait_sites"],
        /// The user's command that ran during the test; null where none did.
        #[serde(default)]
        pub monitor: Option<MonitorRecord>,
        /// Disturbance by other processes during the test; null in documents of older versions, and where nothing was
        /// measured. The CPU time of the target's server counts as disturbance.
        #[serde(default)]
        pub disturbance: Option<Disturbance>,
    }

    /// Findings about the number of a phase.
    #[derive(Default)]
    pub struct Judgement {
        /// Answers of the rate to more delay, more depth and larger blocks, from experiments after the tests.
        #[serde(default)]
        pub sensitivity: Option<Sensitivity>,
        /// Notes on this row for the reader.
        pub notes: Vec<Note> [needed],
        /// Its limiter, and the trust in its number; null in older documents, and where nothing was measured.
        #[serde(default)]
        pub verdict: Option<Verdict>,
    }
}

impl Ping {
    /// Returns a note on devices that read in proportion and are no known layers of the target; `None` if there are none.
    pub fn note(&self, target: &Target) -> Option<String> {
        let unknown: Vec<_> = self.moved.iter().filter(|name| !target.has_device(name)).collect();
        let names = unknown.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        (!unknown.is_empty()).then(|| format!("reads of the target also read {names}, not found below it"))
    }
}

read_as_pieces!(PhaseRecord);

document! {
    /// The calls in a row that took longest. They follow one another in one thread and one part of a file.
    pub struct SlowestCalls {
        /// Number of these calls.
        pub calls: u64,
        /// Their total time.
        pub time_ns: u64,
    }

    /// A command of the user's that ran beside a test.
    pub struct MonitorRecord {
        /// The command, as it was given to `sh -c`.
        pub command: String,
        /// The file that holds what it printed, from the directory of this document; null where it could not be saved.
        pub output_file: Option<String>,
        /// Its exit code; null where it has none.
        pub exit_code: Option<i32>,
        /// Number of the signal that ended it; null where none did.
        pub signal: Option<i32>,
        /// The last signal that it, and all that it had started, were sent when the test was over: "INT", "TERM",
        /// "KILL". Null where they had ended by themselves.
        pub last_signal: Option<String>,
    }

    /// The steady part of a phase, and where its rate changed.
    pub struct Steady {
        /// True if there is a steady part: long enough, and without a trend.
        pub is_steady: bool,
        /// Time of the last change of the rate, from the start of the phase; also if the rest is short or not steady.
        pub from_ns: u64,
        /// End of that part.
        pub to_ns: u64,
        /// Changes of the rate, in order of time.
        pub change_points: Vec<ChangePoint>,
    }

    /// A change of the rate.
    pub struct ChangePoint {
        /// Time of the change, from the start of the phase.
        pub at_ns: u64,
        /// Mean rate before the change, from the previous one or the start.
        pub before_ops_per_second: f64,
        /// Mean rate after the change, until the next one or the end.
        pub after_ops_per_second: f64,
        /// Bytes that operations had moved by then.
        pub bytes: u64,
    }

    /// Pages of the files of a test that lay in the page cache, as shares of all, 0 to 1.
    pub struct Residency {
        /// Share when the test began; null where the kernel does not show it.
        pub before: Option<f64>,
        /// Share when the test had ended; null where the kernel does not show it.
        pub after: Option<f64>,
        /// System call that showed it: "cachestat", "mincore".
        pub source: String,
    }

    /// Extents under files, as shares of the files' bytes, 0 to 1.
    pub struct Extents {
        /// Share that was never allocated; reads of it need no device.
        pub hole_share: f64,
        /// Share that was allocated and never written; reads of it need no device.
        pub unwritten_share: f64,
        /// Share that the file system has compressed, encrypted or packed.
        pub encoded_share: f64,
        /// Number of extents.
        pub extents: u64,
    }

    /// Heat, throttling and maintenance of drives, CPUs and file systems, checked after a test.
    pub struct Conditions {
        /// Temperatures of the drives under the target.
        pub drives: Vec<DriveTemperature>,
        /// How often CPUs were throttled for their temperature during the test; null where that does not show.
        pub cpu_throttled: Option<u64>,
        /// Maintenance of arrays and file systems.
        pub maintenance: Vec<MaintenanceRecord>,
    }

    /// Maintenance of an array or file system.
    pub struct MaintenanceRecord {
        /// Kind of work: "resync", "btrfs scrub", "ext4 inode tables".
        pub work: String,
        /// The array; null for a file system.
        pub device: Option<String>,
        /// Progress of the work, 0 to 1; null where it is not shown.
        pub progress: Option<f64>,
        /// True if it is certainly the target's; otherwise it may be another's on this machine.
        pub belongs_to_target: bool,
    }

    /// The temperature of a drive.
    pub struct DriveTemperature {
        /// Name of the device.
        pub device: String,
        /// Temperature in degrees Celsius.
        pub celsius: f64,
        /// Temperature from which the drive slows down to protect itself; null where it states none.
        pub celsius_max: Option<f64>,
    }

    /// Results of short experiments on the target before the first test. Each is null where it was not made.
    #[derive(Default)]
    pub struct TargetProbes {
        /// Devices that move with reads of the target.
        #[serde(default)]
        pub ping: Option<Ping>,
        /// The same blocks read twice.
        pub reread: Option<Reread>,
        /// Data that compresses, written once.
        pub compressible: Option<CompressibleProbe>,
        /// Median time of a sync of a file without new data.
        #[serde(default)]
        pub sync_ns: Option<u64>,
    }

    /// Two bursts of direct reads at random offsets, the second of twice as many.
    pub struct Ping {
        /// Reads of the first burst.
        pub reads: u64,
        /// Block devices of this machine that read in proportion, whether they are layers of the target or not.
        pub moved: Vec<String>,
    }

    /// Blocks read directly at random offsets, and the same blocks read again.
    pub struct Reread {
        /// Number of blocks read each time.
        pub blocks: u64,
        /// Mean latency of the first reads.
        pub first_mean_ns: u64,
        /// 99th percentile of the first reads.
        pub first_p99_ns: u64,
        /// Mean latency of the second reads.
        pub second_mean_ns: u64,
        /// 99th percentile of the second reads.
        pub second_p99_ns: u64,
    }

    /// Data that compresses to almost nothing, written once and made durable.
    pub struct CompressibleProbe {
        /// Bytes written.
        pub bytes: u64,
        /// Bytes that it takes, as the file system reports.
        pub allocated_bytes: u64,
        /// Share of it in extents that the file system reports as compressed, encrypted or packed; null if unknown.
        pub encoded_share: Option<f64>,
    }

    /// The test of a phase, word by word; null where a word has no meaning for the verb.
    pub struct WorkloadRecord {
        /// The verb, which defines one operation.
        pub verb: String,
        /// Order of the visits: "seq" or "rnd".
        pub pattern: Option<Access>,
        /// Bytes of one block.
        pub block_bytes: Option<u64>,
        /// Operations in flight per thread.
        pub iodepth: u32,
        /// Threads.
        pub threads: u32,
        /// True if the page cache was bypassed.
        pub direct: Option<bool>,
        /// When changes were made durable.
        pub sync: SyncMode,
        /// Bytes that the test worked on.
        pub size_bytes: u64,
        /// Files that the test worked on.
        pub files: u64,
        /// Order of the visits of files.
        pub order: Option<Order>,
        /// "closed_loop": the next operation starts when one ends. "open_loop_fixed", "open_loop_poisson": operations
        /// are due at a rate, in equal or in exponential gaps.
        pub arrival: String,
        /// Rate at which operations were due, over all threads. Null in a closed loop, and where it was to be a share
        /// of a rate that was not measured.
        pub rate_ops_per_second: Option<f64>,
        /// Percent of the data that compresses away; null for tests on files.
        pub compress_percent: Option<u8>,
        /// Percent of the blocks that are copies of one another; null for tests on files.
        pub dedupe_percent: Option<u8>,
        /// State of the page cache before the test.
        pub cache: Option<CacheMode>,
    }

    /// How operations were issued.
    pub struct EngineRecord {
        /// Name of the engine, as in the plan: "sync" for plain system calls, "uring" for an io_uring.
        pub name: String,
        /// Choices made for the engine: "fixed_buffers", "o_direct", …
        pub features: Vec<String>,
        /// Operations completed per visit to the engine; null where it was not counted.
        pub mean_batch: Option<f64>,
        /// Mean number of slots, over all threads, that waited for skye's loop. Their operation had ended, and the next
        /// was not in the kernel yet. Null where no operations overlap.
        #[serde(default)]
        pub idle_slots: Option<f64>,
    }

    /// Rates of a phase. The first two are the headline.
    #[derive(Default)]
    pub struct Rate {
        /// Headline: for reads the steady rate, or else the whole one; for writes the durable one.
        pub ops_per_second: Option<f64>,
        /// Headline in bytes; null for tests that move none.
        pub bytes_per_second: Option<f64>,
        /// Slope over the steady part; null where it was not determined.
        pub steady_ops_per_second: Option<f64>,
        /// Operations over elapsed time, without the sync at the end.
        pub overall_ops_per_second: Option<f64>,
        /// Operations over elapsed time with the sync at the end; null where nothing was made durable.
        pub durable_ops_per_second: Option<f64>,
        /// Rate at which the cache took the writes; null for reads and direct writes.
        pub into_cache_ops_per_second: Option<f64>,
        /// Lower end of the 95 % interval of the headline; null where it was not determined.
        pub ci95_low_ops_per_second: Option<f64>,
        /// Upper end of the 95 % interval of the headline.
        pub ci95_high_ops_per_second: Option<f64>,
        /// Independent parts of the run that tell as much about the headline as its intervals or rounds, whose
        /// neighbours resemble each other; null where unknown.
        #[serde(default)]
        pub effective_samples: Option<f64>,
        /// Nine of ten repeats in the next minutes are at most this far from the headline, as a share of it. Absent where nothing
        /// was measured again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub repeat_half_width: Option<f64>,
        /// When the first worker was done, from the start of the phase.
        pub first_done_ns: u64,
        /// When the last worker was done, before the sync at the end.
        pub last_done_ns: u64,
    }

    /// A short run of a test without any change, after all tests.
    pub struct ReturnVisit {
        /// Time from the start of the run to its start.
        pub start_ns: u64,
        /// Its rate, without the sync at the end.
        pub ops_per_second: f64,
        /// Mean time of its operations; null where it is not measured.
        pub latency_mean_ns: Option<u64>,
        /// Share of its threads' time in the kernel, or waiting for a CPU; null where the kernel hides it.
        pub kernel_share: Option<f64>,
    }

    /// A range of rates from several runs of a test on the same file system.
    pub struct RateRange {
        /// Number of runs that it comes from.
        pub runs: u64,
        /// Its lower end.
        pub low_ops_per_second: f64,
        /// Its upper end.
        pub high_ops_per_second: f64,
    }

    /// One kind of call that operations consist of.
    pub struct Step {
        /// The call: "open", "write", "fdatasync".
        pub name: String,
        /// Number of these calls.
        pub ops: u64,
        /// Their latency.
        pub latency_ns: Option<Latency>,
        /// Sum of the times from the beginning to the end of each call; null where there is no latency.
        #[serde(default)]
        pub elapsed_ns: Option<u64>,
        /// Part of that time in which the threads slept, from samples; null where none were taken.
        #[serde(default)]
        pub waiting_ns: Option<u64>,
        /// Histogram of it: HdrHistogram V2 deflate, base64.
        pub histogram: Option<String>,
    }
}

document! {
    /// Use of the mounted device during a phase.
    pub struct DeviceUse {
        /// Its name.
        pub name: String,
        /// Bytes read.
        pub bytes_read: u64,
        /// Bytes written.
        pub bytes_written: u64,
        /// Requests completed, flushes not among them.
        pub operations: u64,
        /// Flush requests completed.
        pub flushes: u64,
        /// Mean size of a request; null if there was none.
        pub mean_request_bytes: Option<f64>,
        /// Device bytes per application byte, in the direction of the test; null if the application moved none.
        pub bytes_per_app_byte: Option<f64>,
        /// Bytes that the physical devices wrote per byte that the mounted one wrote; null where that does not apply.
        pub leaf_amplification: Option<f64>,
        /// Share of the device's bytes from other programs, 0 to 1; null where it cannot be determined.
        pub foreign_share: Option<f64>,
        /// Bytes per second of another test of this run in the same direction; null where none moved clearly more.
        #[serde(default)]
        pub other_bytes_per_second: Option<f64>,
    }

    /// Where the time of the worker threads went, as shares that sum to 1.
    pub struct TimeBreakdown {
        /// On a CPU in skye's code.
        pub user: f64,
        /// On a CPU in the kernel.
        pub kernel: f64,
        /// Ready, waiting for a CPU.
        pub run_queue: f64,
        /// Held back by a CPU quota; null where that was not read.
        pub quota: Option<f64>,
        /// Taken by the hypervisor.
        pub steal: f64,
        /// Asleep, waiting for something.
        pub blocked: f64,
    }

    /// A note on a row for the reader.
    pub struct Note {
        /// Effect of the note on the number.
        pub mark: Mark,
        /// Code for programs: "o_direct_ineffective".
        pub code: String,
        /// The finding, with its figures.
        #[serde(default)]
        pub finding: Finding,
        /// Advice on the finding.
        #[serde(default)]
        pub advice: Vec<Advice>,
        /// Both in words.
        pub text: String,
    }

    /// A limit that numbers are compared with.
    pub struct Ceiling {
        /// Name of the limit: "null engine".
        pub name: String,
        /// Limit in operations; null if it is one of bytes.
        pub ops_per_second: Option<f64>,
        /// Limit in bytes; null if it is one of operations.
        pub bytes_per_second: Option<f64>,
        /// How it was obtained.
        pub source: String,
    }

    /// The tool itself.
    pub struct Tool {
        /// Our own CPU time per operation; null where it was not measured.
        pub overhead_ns_per_op: Option<f64>,
        /// CPU that observation took, as a share of one CPU.
        pub telemetry_cpu_share: Option<f64>,
        /// Cost of one clock read.
        pub clock_read_ns: Option<f64>,
        /// Warnings of the tool about itself.
        pub warnings: Vec<String>,
    }
}

words! {
    /// Effect of a note on the number of its row.
    pub enum Mark {
        /// `!`: the number does not measure what was requested.
        Invalid,
        /// `?`: the number may be off by more than its ±.
        Suspect,
        /// No effect.
        Remark,
    }
}

impl Note {
    /// Returns a note on a finding, as grave as the finding, without words.
    pub fn new(finding: Finding, advice: Vec<Advice>) -> Self {
        let (mark, code) = (finding.grade().mark(), finding.code().to_owned());
        Self { mark, code, finding, advice, text: String::new() }
    }
}

impl Trust {
    /// Returns its word, as the document has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

impl Environment {
    /// Returns the environment of a run on `machine` against `target`.
    pub fn new(
        machine: &Machine,
        target: Target,
        settings: Vec<Setting>,
        hidden_sources: Vec<String>,
    ) -> Self {
        let machine = machine.clone();
        Self {
            host: machine.host,
            kernel: machine.kernel,
            cpu_model: machine.cpu_model,
            cpus: machine.cpus,
            cpus_online: machine.cpus_online,
            memory_bytes: machine.memory_bytes,
            memory_total_bytes: machine.memory_total_bytes,
            virtualisation: machine.virtualisation,
            is_root: machine.is_root,
            target,
            settings,
            hidden_sources,
        }
    }
}

impl WorkloadRecord {
    /// Returns the record of a workload on `size_bytes` of data or `files` files.
    ///
    /// A rate that is a share of another rate is not known yet and stays null.
    pub fn new(workload: &Workload, size_bytes: u64, files: u64, cache: CacheMode) -> Self {
        let verb = workload.name().to_owned();
        let (iodepth, threads) = (workload.iodepth, workload.threads);
        let (arrival, rate) = match workload.arrival() {
            Arrival::Closed => ("closed_loop", None),
            Arrival::Open { rate, is_poisson: false } => ("open_loop_fixed", Some(rate)),
            Arrival::Open { rate, is_poisson: true } => ("open_loop_poisson", Some(rate)),
        };
        let arrival = arrival.to_owned();
        let rate_ops_per_second = match rate {
            Some(OpenRate::PerSecond(rate)) => Some(rate as f64),
            Some(OpenRate::Percent(_)) | None => None,
        };
        match &workload.work {
            Work::Data(data) => Self {
                verb,
                pattern: Some(data.access),
                block_bytes: Some(data.block_bytes),
                iodepth,
                threads,
                direct: Some(data.direct),
                sync: if data.writes() { data.sync } else { SyncMode::None },
                size_bytes,
                files,
                order: None,
                arrival,
                rate_ops_per_second,
                compress_percent: Some(data.compress_percent),
                dedupe_percent: Some(data.dedupe_percent),
                cache: (!data.direct).then_some(cache),
            },
            Work::Files(work) => Self {
                verb,
                pattern: None,
                block_bytes: None,
                iodepth,
                threads,
                direct: None,
                sync: work.sync,
                size_bytes,
                files,
                order: Some(work.order),
                arrival,
                rate_ops_per_second,
                compress_percent: None,
                dedupe_percent: None,
                cache: work.cold.then_some(CacheMode::DropAll),
            },
        }
    }
}
