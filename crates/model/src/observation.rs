//! Observations: the evidence for what holds a number back. Kinds, each with its figures and its source; no English.

use serde::{Deserialize, Serialize};

use crate::figure::*;

/// Sources of evidence, in the order in which they are told. Several observations of one source are one kind of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The threads' time.
    Budget,
    /// Functions of the kernel in which they slept.
    WaitChannel,
    /// Counters of layers, devices, cgroups and pressure.
    Counters,
    /// Limits that can be read.
    VisibleCap,
    /// Limits of skye's own.
    Ceiling,
    /// Answers to experiments.
    Probe,
}

impl Source {
    /// All of them, in their order.
    pub const ALL: &[Self] =
        &[Self::Budget, Self::WaitChannel, Self::Counters, Self::VisibleCap, Self::Ceiling, Self::Probe];

    /// Its name.
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
            /// Its source; `None` for one of another version.
            pub fn source(&self) -> Option<Source> {
                match self {
                    $($(Self::$kind { .. } => Some(Source::$source),)+)+
                    Self::InWords => None,
                }
            }
        }
    };
}

observations! {
    Budget {
        /// Shares of the threads' time.
        TimeSpent { time: Time }
        /// CPUs that the test's own threads used, of those that there are.
        CpusUsed { used: Mean, cpus: Count }
    }
    WaitChannel {
        /// The things of these classes that sleeping threads waited for: the most frequent of them, and the share of all.
        SleptIn { class: Wait, symbol: Name, asleep_share: Share }
        /// Samples that found threads running.
        Ran { running_share: Share }
        /// Samples that found threads waiting for completions of their ring.
        WaitedForRing { waiting_share: Share }
    }
    Counters {
        /// Requests in a device, while operations were waited for: the means.
        InDevice { device: Name, requests: Mean, waiting: Mean }
        /// Requests at a server, while operations were waited for: the means.
        AtServer { requests: Mean, waiting: Mean }
        /// A disk that a hypervisor made.
        VirtualDisk {}
        /// The rate of another test of the run, in the same direction.
        OtherMovedMore { device: Name, bytes_per_second: BytesPerSecond }
        /// Time in which a device was not idle.
        DeviceBusy { device: Name, busy_share: Share }
        /// Operations that an open loop started.
        RateStarted { ops_per_second: OpsPerSecond }
        /// Bytes that look-ups made the device read.
        ReadForLookups { read_bytes: MemoryBytes, lookups: Count }
        /// Bytes that came from memory.
        ReadFromMemory { cached_share: Share }
        /// Bytes that the device took, and those that it had not at the end.
        DeviceTook { written_share: Share, dirty_bytes: MemoryBytes }
        /// Bytes that the device took meanwhile, and the most that waited.
        DeviceDrained { device: Name, bytes_per_second: BytesPerSecond, dirty_bytes: MemoryBytes }
        /// CPUs that others used.
        OthersUsedCpus { cpus: Mean }
        /// The busiest of them.
        BusiestOthers { busiest: Helpers }
        /// Calls that read the bytes.
        ReadCalls { bytes: Count, calls: Count, each_bytes: MemoryBytes }
        /// Calls that wrote the bytes.
        WriteCalls { bytes: Count, calls: Count, each_bytes: MemoryBytes }
        /// A process or thread that works for the target.
        HelperBusy { helper: Name, busy_share: Share }
        /// The kernel's threads for a loop device.
        LoopBusy { device: Name, busy_share: Share }
        /// Time in which tasks were held up for memory.
        HeldUpForMemory { held_share: Share }
        /// Times that the cgroup was full.
        CgroupFull { times: Count }
        /// Pages that tasks looked at for memory.
        PagesScanned { pages: Count }
        /// Bytes that had been in memory a short while before.
        ReadAgain { refaulted_share: Share }
        /// Bytes of others on the device.
        ForeignBytes { device: Name, foreign_share: Share }
        /// Slots that waited for skye's loop, on average.
        SlotsIdle { idle: Mean, slots: Count }
        /// Places in the device's queue.
        QueuePlaces { device: Name, places: Count }
        /// Places on the way to the server.
        ServerPlaces { places: Count }
        /// Time in which the quota held the cgroup back.
        QuotaHeld { held_share: Share }
        /// CPU time of the machine that the hypervisor took.
        MachineStolen { stolen_share: Share }
        /// Flushes of the device for each operation.
        Flushes { flushes: Mean }
        /// A journal of the file system that a sync commits.
        CommitsJournal { file_system: Name }
        /// A log of the file system that a sync forces out.
        ForcesLog { file_system: Name }
        /// A tree of logs that a sync writes.
        WritesLogTree { file_system: Name }
        /// A file system without a journal.
        HasNoJournal { file_system: Name }
        /// The part of an operation that its sync took.
        SyncTook { sync_ns: LatencyNs, whole_ns: LatencyNs }
        /// Rates of half seconds that differ by less than latencies allow.
        RateTooEven { variation: Share }
        /// Rates of single seconds, of a device that nobody else here uses.
        RateVaried { variation: Share }
        /// Bytes received, as a rate and as a share of those asked for.
        Received { interface: Name, bytes_per_second: BytesPerSecond, asked_share: Share }
        /// Bytes sent, as a rate and as a share of those asked for.
        Sent { interface: Name, bytes_per_second: BytesPerSecond, asked_share: Share }
        /// The rate at which an experiment of the run found an interface full.
        LineCarried { interface: Name, bytes_per_second: BytesPerSecond }
    }
    VisibleCap {
        /// The rate that was asked for.
        RateAsked { ops_per_second: OpsPerSecond }
        /// A limit of operations.
        OperationsAllowed { source: Name, device: Name, ops_per_second: OpsPerSecond, reached_ops_per_second: OpsPerSecond }
        /// A limit of bytes.
        BytesAllowed { source: Name, device: Name, bytes_per_second: BytesPerSecond, reached_bytes_per_second: BytesPerSecond }
        /// CPUs that the cgroup may use.
        CpuAllowed { cpus: Ratio }
    }
    Ceiling {
        /// The rate over that of the same calls on memory.
        NearMemory { memory_share: Share }
        /// The rate over that of skye's own loop without I/O.
        NearOwnLoop { loop_share: Share }
    }
    Probe {
        /// The rate with a change, and beside it without.
        Answer { experiment: Tried, change: Change, before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond }
        /// An answer that is too unsteady to count.
        UnsteadyAnswer { experiment: Tried, change: Change, before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond }
        /// An answer that no single limit gives.
        ImpossibleAnswer { experiment: Tried, change: Change, before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond }
        /// The rate of the unchanged test during the experiments, where it was not the row's own: they count for nothing.
        BaselineMoved { before_ops_per_second: OpsPerSecond, own_ops_per_second: OpsPerSecond }
    }
}

impl Observation {
    /// Whether it says something about the limit, and not only about itself or about the file system.
    pub fn is_evidence(&self) -> bool {
        !matches!(
            self,
            Self::UnsteadyAnswer { .. }
                | Self::ImpossibleAnswer { .. }
                | Self::BaselineMoved { .. }
                | Self::CommitsJournal { .. }
                | Self::ForcesLog { .. }
                | Self::WritesLogTree { .. }
                | Self::HasNoJournal { .. }
        )
    }
}
