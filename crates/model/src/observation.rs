//! Observations: the evidence for what holds a number back. Kinds, each with its figures and its source; no English.

use crate::figure::*;

/// Sources of evidence, in the order in which they are listed. Several observations of one source are one kind of
/// evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The threads' time.
    Budget,
    /// Kernel functions in which the threads slept.
    WaitChannel,
    /// Counters of layers, devices, cgroups and pressure.
    Counters,
    /// Limits that can be read.
    VisibleCap,
    /// Limits of skye itself.
    Ceiling,
    /// Answers to experiments.
    Probe,
}

impl Source {
    /// All sources, in their order.
    pub const ALL: &[Self] =
        &[Self::Budget, Self::WaitChannel, Self::Counters, Self::VisibleCap, Self::Ceiling, Self::Probe];

    /// Returns its name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::WaitChannel => "wait channel",
            Self::Counters => "counters",
            Self::VisibleCap => "visible cap",
            Self::Ceiling => "ceiling",
            Self::Probe => "probe",
        }
    }
}

macro_rules! observations {
    ($($source:ident { $($(#[$meta:meta])* $kind:ident { $($figure:ident: $type:ty),* })+ })+) => {
        kinds! {
            /// An observation about a row, with its figures.
            Observation { $($($(#[$meta])* $kind { $($figure: $type),* })+)+ }
        }

        impl Observation {
            /// Returns its source; `None` for a kind from another version.
            pub fn source(&self) -> Option<Source> {
                match self {
                    $($(Self::$kind { .. } => Some(Source::$source),)+)+
                    Self::Unknown => None,
                }
            }
        }
    };
}

observations! {
    Budget {
        /// Shares of the threads' time.
        TimeSpent { time: Time }
        /// Number of clients whose threads waited for the target, and least share of their time.
        ClientsWaited { clients: Count, all: Count, waiting_share: Share }
        /// Shares of the time in which the test's threads were awake, in any operation.
        AwakeSpent { time: Time }
        /// CPUs that the test's own threads used, out of all CPUs.
        CpusUsed { used: Mean, cpus: Count }
    }
    WaitChannel {
        /// Class of wait of the sleeping threads: its most frequent kernel function, and its share of all samples.
        SleptIn { class: Wait, symbol: Name, asleep_share: Share }
        /// Share of samples that found threads running.
        Ran { running_share: Share }
        /// Class of wait of the threads in one operation: its most frequent kernel function, and its share of all
        /// samples of that operation.
        OperationSlept { class: Wait, symbol: Name, asleep_share: Share, samples: Count }
        /// Share of the samples of one operation that found its threads waiting for its sync. The most frequent kernel
        /// function there waits for pages to be written.
        OperationSynced { symbol: Name, asleep_share: Share, samples: Count }
        /// Share of the samples of one operation that found its threads running, or ready to run.
        OperationRan { running_share: Share, samples: Count }
        /// Share of the samples of one operation that found its threads asleep in the most frequent unknown wait
        /// channel.
        OperationHidden { symbol: Name, asleep_share: Share, samples: Count }
        /// Number of times that the operation was made, which is too small for a verdict.
        OperationFew { calls: Count }
        /// Share of samples that found threads waiting for completions of their ring.
        WaitedForRing { waiting_share: Share }
    }
    Counters {
        /// Number of clients with this limiter, out of all.
        ClientsAgree { clients: Count, all: Count }
        /// Share of the CPUs in use on the busiest machine of the clients.
        ClientsHadCpus { busy_share: Share }
        /// Share of the CPUs of a server that were in use.
        ServerCpus { server: Name, busy_share: Share, cpus: Count }
        /// Share of the time in whose periods a server used up its quota of CPU time, and CPUs of this quota.
        ServerQuota { server: Name, cpus: Ratio, used_up_share: Share }
        /// Rate at which a server sent or received, and its share of what the interface carries.
        ServerLink { server: Name, interface: Name, bytes_per_second: BytesPerSecond, link_share: Share }
        /// Share of the time in which the busiest device of a server was busy, and mean number of requests in it.
        ServerDevice { server: Name, device: Name, busy_share: Share, requests: Mean }
        /// Threads of an NFS server, and share of the packets that woke one.
        ServerThreads { server: Name, threads: Count, woken_share: Share }
        /// Mean number of requests in a device, and mean number of operations that were waited for.
        InDevice { device: Name, requests: Mean, waiting: Mean }
        /// Mean number of requests at a server, and mean number of operations that were waited for.
        AtServer { requests: Mean, waiting: Mean }
        /// Mean time of an operation, as a multiple of the line's shortest round trip.
        TookRoundTrips { mean_ns: LatencyNs, times: Mean, round_trip_ns: LatencyNs }
        /// The disk is a hypervisor's.
        VirtualDisk {}
        /// Higher rate of another test of the run, in the same direction.
        OtherMovedMore { device: Name, bytes_per_second: BytesPerSecond }
        /// Share of the time in which a device was busy.
        DeviceBusy { device: Name, busy_share: Share }
        /// Rate at which an open loop started operations.
        RateStarted { ops_per_second: OpsPerSecond }
        /// Bytes that the device read for look-ups.
        ReadForLookups { read_bytes: MemoryBytes, lookups: Count }
        /// Bytes that crossed the network while a test on files of a server ran.
        CrossedForOps { sent_bytes: MemoryBytes, received_bytes: MemoryBytes, ops: Count }
        /// Share of the bytes that came from memory.
        ReadFromMemory { cached_share: Share }
        /// Share of the bytes that the device took, and dirty bytes that were left at the end.
        DeviceTook { written_share: Share, dirty_bytes: MemoryBytes }
        /// Rate at which the device wrote during the test, and the peak of dirty bytes.
        DeviceDrained { device: Name, bytes_per_second: BytesPerSecond, dirty_bytes: MemoryBytes }
        /// CPUs that other processes used.
        OthersUsedCpus { cpus: Mean }
        /// The busiest of the other processes.
        BusiestOthers { busiest: Helpers }
        /// Bytes that went through read calls, and bytes per call.
        ReadCalls { bytes: Count, calls: Count, each_bytes: MemoryBytes }
        /// Bytes that went through write calls, and bytes per call.
        WriteCalls { bytes: Count, calls: Count, each_bytes: MemoryBytes }
        /// Share of the time in which a process or thread that works for the target was on a CPU.
        HelperBusy { helper: Name, busy_share: Share }
        /// Shares of the time in which one that had work all the time was on a CPU, and waited for one.
        HelperNeverIdle { helper: Name, busy_share: Share, waiting_share: Share }
        /// Share of the time in which the kernel's threads for a loop device were on a CPU.
        LoopBusy { device: Name, busy_share: Share }
        /// CPUs that the kernel's threads for a queue of the target used together.
        QueueBusy { queue: Name, used: Mean, cpus: Count }
        /// Share of the time in which tasks were held up for memory.
        HeldUpForMemory { held_share: Share }
        /// Share of the time in which tasks stalled for memory.
        CgroupFull { times: Count }
        /// Pages that tasks scanned for free memory.
        PagesScanned { pages: Count }
        /// Share of the bytes read that had been in memory a short while before.
        ReadAgain { refaulted_share: Share }
        /// Share of foreign I/O among the device's bytes.
        ForeignBytes { device: Name, foreign_share: Share }
        /// Mean number of slots that waited for skye's loop.
        SlotsIdle { idle: Mean, slots: Count }
        /// A layer whose storage is not visible here.
        NotVisibleBelow { layer: Name }
        /// Time of a request in a layer, as a multiple of the time of one alone.
        TookTimes { layer: Name, times: Mean }
        /// Number of slots of the device's queue.
        QueuePlaces { device: Name, places: Count }
        /// Number of threads of a program that serves the target.
        ProgramThreads { program: Name, threads: Count }
        /// Limit on requests in flight to the server.
        ServerPlaces { places: Count }
        /// Share of the time in which the quota throttled the cgroup.
        QuotaHeld { held_share: Share }
        /// Share of the machine's CPU time that the hypervisor took.
        MachineStolen { stolen_share: Share }
        /// Flushes of the device per operation.
        Flushes { flushes: Mean }
        /// A sync commits the journal of the file system.
        CommitsJournal { file_system: Name }
        /// A sync forces out the log of the file system.
        ForcesLog { file_system: Name }
        /// A sync writes a tree of logs of the file system.
        WritesLogTree { file_system: Name }
        /// The file system has no journal.
        HasNoJournal { file_system: Name }
        /// Time that the sync of an operation took, out of the whole operation.
        SyncTook { sync_ns: LatencyNs, whole_ns: LatencyNs }
        /// Variation of the rate between half seconds, smaller than the latencies allow.
        RateTooEven { variation: Share }
        /// Variation of the rate between single seconds, on a device that no other program here uses.
        RateVaried { variation: Share }
        /// Bytes received per second, and their share of the requested bytes.
        Received { interface: Name, bytes_per_second: BytesPerSecond, requests_share: Share }
        /// Bytes sent per second, and their share of the requested bytes.
        Sent { interface: Name, bytes_per_second: BytesPerSecond, requests_share: Share }
        /// Rate at which an experiment of the run found an interface saturated.
        LineCarried { interface: Name, bytes_per_second: BytesPerSecond }
        /// Rate that another test of the run reached over an interface, and the share of it that this one reached.
        LineMoved { interface: Name, bytes_per_second: BytesPerSecond, share: Share }
    }
    VisibleCap {
        /// The requested rate.
        RateRequested { ops_per_second: OpsPerSecond }
        /// Share of the threads' time in think time of a mix.
        Paused { share: Share }
        /// A limit on operations per second, and the rate reached.
        OperationsAllowed { source: Name, device: Name, ops_per_second: OpsPerSecond, reached_ops_per_second: OpsPerSecond }
        /// A limit on bytes per second, and the rate reached.
        BytesAllowed { source: Name, device: Name, bytes_per_second: BytesPerSecond, reached_bytes_per_second: BytesPerSecond }
        /// CPUs that the cgroup may use.
        CpuAllowed { cpus: Ratio }
    }
    Ceiling {
        /// The rate as a share of the rate of the same calls on memory.
        NearMemory { memory_share: Share }
        /// The rate as a share of the rate of skye's own loop without I/O.
        NearOwnLoop { loop_share: Share }
    }
    Probe {
        /// The rate with a change, and the baseline rate measured next to it.
        Answer { experiment: Tried, change: Change, before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond }
        /// The rate of more clients over that of fewer.
        ClientsGave { fewer: Count, clients: Count, times: Ratio }
        /// A response that is too unsteady to count.
        UnsteadyAnswer { experiment: Tried, change: Change, before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond }
        /// A response that no single limit would cause.
        ImpossibleAnswer { experiment: Tried, change: Change, before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond }
        /// Rate of the unchanged test during the experiments, which differs from the row's own. The experiments are
        /// then excluded.
        BaselineMoved { before_ops_per_second: OpsPerSecond, own_ops_per_second: OpsPerSecond }
    }
}

impl Observation {
    /// Returns true if it is evidence about the limit, rather than a remark on itself or on the file system.
    pub fn is_evidence(&self) -> bool {
        !matches!(
            self,
            Self::TookRoundTrips { .. }
                | Self::UnsteadyAnswer { .. }
                | Self::ImpossibleAnswer { .. }
                | Self::BaselineMoved { .. }
                | Self::CommitsJournal { .. }
                | Self::ForcesLog { .. }
                | Self::WritesLogTree { .. }
                | Self::HasNoJournal { .. }
        )
    }
}
