//! What can be found about a row, and what can be done about it: kinds, each with its figures.
//!
//! No English here: the crate `wording` says it, at the length that a reader has room for.

use serde::{Deserialize, Serialize};

use crate::run::{Mark, Mode, Trust, UpkeepRecord};

/// A figure, of a kind that can be shown and compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure<'a> {
    /// Share of a whole, 0 to 1.
    Share(f64),
    /// Ratio of two amounts, shown with three decimals near 1.
    Ratio(f64),
    /// Mean of a number of things.
    Mean(f64),
    /// Number of things.
    Count(u64),
    /// Latency.
    LatencyNs(u64),
    /// Length of time.
    Seconds(f64),
    /// Amount of data, shown in powers of 1000.
    Bytes(u64),
    /// Amount of memory, shown in powers of 1024.
    MemoryBytes(u64),
    /// Operations per second.
    OpsPerSecond(f64),
    /// Bytes per second.
    BytesPerSecond(f64),
    /// Temperature.
    Celsius(f64),
    /// Name of a device, a file system, a path. It is escaped before it is shown.
    Name(&'a str),
    /// Peaks of the latencies.
    Modes(&'a [Mode]),
    /// Work of arrays and file systems on themselves.
    Upkeep(&'a [UpkeepRecord]),
}

macro_rules! figures {
    ($($(#[$meta:meta])* $name:ident($type:ty) |$value:ident| $figure:expr;)+) => { $(
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $(#[$meta])*
        pub struct $name(pub $type);

        impl $name {
            fn figure(&self) -> Figure<'_> {
                let $value = &self.0;
                $figure
            }
        }
    )+ };
}

/// Figures stored as null where they are not finite, which JSON does not have.
macro_rules! measures {
    ($($(#[$meta:meta])* $name:ident,)+) => { $(
        figures! {
            $(#[$meta])*
            #[serde(from = "Option<f64>", into = "Option<f64>")]
            $name(f64) |value| Figure::$name(*value);
        }

        impl From<Option<f64>> for $name {
            fn from(value: Option<f64>) -> Self {
                Self(value.unwrap_or(f64::NAN))
            }
        }

        impl From<$name> for Option<f64> {
            fn from(figure: $name) -> Self {
                Some(figure.0).filter(|value| value.is_finite())
            }
        }
    )+ };
}

measures! {
    /// Share of a whole, 0 to 1.
    Share,
    /// Ratio of two amounts.
    Ratio,
    /// Mean of a number of things.
    Mean,
    /// Length of time in seconds.
    Seconds,
    /// Operations per second.
    OpsPerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Temperature in degrees Celsius.
    Celsius,
}

figures! {
    /// Number of things.
    Count(u64) |count| Figure::Count(*count);
    /// Latency in nanoseconds.
    LatencyNs(u64) |ns| Figure::LatencyNs(*ns);
    /// Amount of data in bytes.
    Bytes(u64) |bytes| Figure::Bytes(*bytes);
    /// Amount of memory in bytes.
    MemoryBytes(u64) |bytes| Figure::MemoryBytes(*bytes);
    /// Name of a device, a file system, an option, a path.
    Name(String) |name| Figure::Name(name);
    /// Peaks of the latencies, the fastest first.
    Modes(Vec<Mode>) |modes| Figure::Modes(modes);
    /// Work of arrays and file systems on themselves.
    Work(Vec<UpkeepRecord>) |work| Figure::Upkeep(work);
}

impl<T: Into<String>> From<T> for Name {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Worth knowing.
    Info,
    /// Something to act on; the number is what it looks like.
    Act,
    /// The number may be something else than the speed of this storage.
    Suspect,
    /// The number is something else than the speed of this storage.
    Invalid,
}

impl Grade {
    /// The trust that it leaves.
    pub fn trust(self) -> Trust {
        match self {
            Self::Info | Self::Act => Trust::Ok,
            Self::Suspect => Trust::Suspect,
            Self::Invalid => Trust::Invalid,
        }
    }

    /// Its sign: what costs trust is marked with distrust.
    pub fn mark(self) -> Mark {
        match self {
            Self::Info => Mark::Info,
            Self::Act => Mark::Act,
            Self::Suspect | Self::Invalid => Mark::Distrust,
        }
    }
}

macro_rules! findings {
    ($($code:literal $grade:ident { $($(#[$meta:meta])* $kind:ident { $($figure:ident: $type:ty),* })+ })+) => {
        /// What was found about a row, with its figures.
        #[allow(missing_docs, reason = "the name of a figure and its type say what it is, and in which unit")]
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Finding {
            $($($(#[$meta])* $kind { $($figure: $type),* },)+)+
            /// Found by another version, of which only the words are known.
            #[default]
            #[serde(other)]
            InWords,
        }

        impl Finding {
            /// The words for programs in the order in which they are told; one may stand several times, once for each grade.
            pub const CODES: &[&str] = &[$($code),+];

            /// One of each kind, with figures of nothing: for tests of what is said of them.
            pub fn of_each_kind() -> Vec<Self> {
                vec![$($(Self::$kind { $($figure: Default::default()),* },)+)+]
            }

            /// The word for programs: that of the trap, of which there may be several kinds.
            pub fn code(&self) -> &'static str {
                match self {
                    $($(Self::$kind { .. } => $code,)+)+
                    Self::InWords => "in_words",
                }
            }

            /// How grave it is, if its rule says nothing else.
            pub fn grade(&self) -> Grade {
                match self {
                    $($(Self::$kind { .. } => Grade::$grade,)+)+
                    Self::InWords => Grade::Info,
                }
            }

            /// Its figures, by their names.
            pub fn figures(&self) -> Vec<(&'static str, Figure<'_>)> {
                match self {
                    $($(Self::$kind { $($figure),* } => vec![$((stringify!($figure), $figure.figure())),*],)+)+
                    Self::InWords => Vec::new(),
                }
            }
        }
    };
}

findings! {
    "failed" Act {
        /// The test failed.
        Failed { reason: Name }
    }
    "skipped" Act {
        /// The test was not tried.
        Skipped { reason: Name }
    }
    "ended_early" Act {
        /// The test ended before its stop rule held.
        EndedEarly { reason: Name }
    }
    "no_rate" Act {
        /// The test came to its end and has no rate.
        NoRate { reason: Name }
    }
    "between_runs" Info {
        /// How far repetitions lie apart, in bytes.
        BetweenRuns { runs: Count, spread: Share, mean: BytesPerSecond }
        /// How far repetitions lie apart.
        BetweenRunsByOps { runs: Count, spread: Share, mean: OpsPerSecond }
    }
    "into_cache" Info {
        /// The rate at which the page cache took writes, in bytes.
        IntoCache { rate: BytesPerSecond }
        /// The rate at which the page cache took writes.
        IntoCacheByOps { rate: OpsPerSecond }
    }
    "waited_to_start" Info {
        /// Part of the 99th percentile that passed before operations were started.
        P99Waited { wait: LatencyNs, whole: LatencyNs }
        /// Part of the median that passed before operations were started.
        P50Waited { wait: LatencyNs, whole: LatencyNs }
    }
    "verification_failed" Act {
        /// What was read is not what was written.
        DataDiffers {}
    }
    "not_compared" Info {
        /// An earlier test failed while it wrote, so nothing is known that reads could be compared with.
        NotCompared {}
    }
    "depth_by_threads" Info {
        /// Threads in place of a ring, which cannot be used here.
        ThreadsForRing { depth: Count, threads: Count }
        /// Threads in place of depth, which plain system calls do not have.
        ThreadsForDepth { depth: Count, threads: Count }
    }
    "engine_features_lost" Info {
        /// The kernel refused something that makes the ring faster.
        RingWithout { features: Name }
    }
    "fell_behind" Act {
        /// Operations of an open loop never started.
        FellBehind { missed: Count, due: Count }
    }
    "repeated" Info {
        /// Measured a second time, as the device's bytes differed from the test's.
        MeasuredTwice { difference: Share }
    }
    "memory_target" Invalid {
        /// A file system in memory.
        TargetIsMemory { file_system: Name }
    }
    "nothing_to_compare" Suspect {
        /// A file system whose devices are not known.
        DevicesUnknown { file_system: Name, read: Bytes }
    }
    "unwritten_extents" Invalid {
        /// Parts of the files were never written.
        FilesNotWritten { holes: Share, unwritten: Share }
    }
    "o_direct_ineffective" Invalid {
        /// Direct I/O of which the device saw too little.
        DirectMissedDevice { moved: Share, file_system: Name }
        /// Direct I/O that left the files in the page cache.
        DirectFilledCache { cached: Share, file_system: Name }
        /// Direct writes that made pages dirty.
        DirectMadeDirty { dirtied: Share, file_system: Name }
    }
    "device_disagrees" Invalid {
        /// The device moved less than was asked for.
        DeviceMovedLess { ratio: Ratio, file_system: Name }
    }
    "device_disagrees" Info {
        /// The device moved more than was asked for, as always on this file system.
        DeviceMovedTrees { ratio: Ratio, file_system: Name }
    }
    "device_disagrees" Suspect {
        /// The device moved more than was asked for, all of it for this test.
        DeviceMovedMore { ratio: Ratio, file_system: Name }
        /// The device moved more than was asked for, part of it for others.
        DeviceMovedForOthers { ratio: Ratio }
    }
    "counters_disagree" Suspect {
        /// The device counted nothing.
        DeviceCountedNothing { device: Name, moved: Bytes }
        /// The kernel charged the test with more than the device counted.
        ChargedMore { excess: Share, mount_point: Name }
    }
    "depth_not_reached" Info {
        /// Operations waited above the device.
        DepthNotReached { in_flight: Mean, at_device: Mean }
    }
    "nothing_durable" Invalid {
        /// Writes without a sync.
        NothingDurable { written: Bytes }
    }
    "durability_void" Suspect {
        /// An option of the mount by which a sync does not flush the device.
        SyncsNotFlushed { option: Name }
    }
    "flush_too_fast" Suspect {
        /// Flushes that are faster than any medium.
        FlushTooFast { typical: LatencyNs, device: Name }
    }
    "absorbed_by_page_cache" Suspect {
        /// Blocks that were replaced in memory before they were written.
        ReplacedInMemory { reached: Share, passes: Mean }
    }
    "absorbed_by_page_cache" Invalid {
        /// Writes that were synced and did not reach the device.
        DidNotReachDevice { reached: Share, file_system: Name }
    }
    "served_from_page_cache" Info {
        /// The cache was to be warm, and was.
        CacheWarm { cached: Share }
    }
    "served_from_page_cache" Suspect {
        /// The cache was to be warm, and was so in part.
        CacheHalfWarm { cached: Share }
        /// The cache was left as it was, and answered.
        CacheAnswered { cached: Share }
    }
    "served_from_page_cache" Invalid {
        /// The cache was cold, and answered what was read again.
        CacheAnsweredAgain { cached: Share, passes: Mean }
        /// The cache was to be cold, and answered.
        CacheNotCold { cached: Share }
    }
    "cache_not_cold" Suspect {
        /// Pages that could not be dropped.
        CacheNotDropped { cached: Share }
    }
    "below_os_cache" Suspect {
        /// A cache below this system may have answered, as the mean of reads shows.
        LowerCache { blocks: Count, first: LatencyNs, second: LatencyNs, passes: Mean }
        /// A cache below this system may have answered, as the 99th percentile of reads shows.
        LowerCacheByP99 { blocks: Count, first: LatencyNs, second: LatencyNs, passes: Mean }
    }
    "below_os_cache" Info {
        /// A cache below this system, which this test did not use, as the mean of reads shows.
        LowerCacheUnused { blocks: Count, first: LatencyNs, second: LatencyNs }
        /// A cache below this system, which this test did not use, as the 99th percentile of reads shows.
        LowerCacheUnusedByP99 { blocks: Count, first: LatencyNs, second: LatencyNs }
    }
    "server_cache" Suspect {
        /// The server's memory can hold much of the set.
        ServerHolds { memory: MemoryBytes, held: Share, size: MemoryBytes }
        /// The server's memory is not known.
        ServerMemoryUnknown { size: MemoryBytes }
    }
    "several_passes" Suspect {
        /// Later passes were faster than the first.
        LaterPassesFaster { passes: Mean, gain: Share }
    }
    "metadata_cache" Suspect {
        /// Names and attributes came from memory.
        NamesFromMemory { operations: Count }
    }
    "inode_search" Act {
        /// ext4 without a journal searched past inodes that were freed a short while ago.
        InodeSearch {}
    }
    "too_few_samples" Info {
        /// The sync at the end took so long that the rate is one observation.
        LongSync { share: Share, elapsed: Seconds }
    }
    "too_few_samples" Suspect {
        /// Too few rounds of a test on files.
        FewRounds { rounds: Count, operations: Count }
        /// Too short.
        Short { elapsed: Seconds, operations: Count }
    }
    "not_steady" Suspect {
        /// A rate that is hardly known.
        Unsteady { half_width: Share }
        /// A rate that drifted.
        Drift { elapsed: Seconds }
        /// A rate that changed once.
        Step { before: OpsPerSecond, after: OpsPerSecond, at: Seconds }
        /// A rate that changed several times.
        Steps { changes: Count, lowest: OpsPerSecond, highest: OpsPerSecond }
    }
    "wide_interval" Suspect {
        /// A rate that is known less well than was asked for.
        WideInterval { half_width: Share, wanted: Share }
    }
    "one_run" Info {
        /// A single run on a disk that guests of a host share.
        OneRun { half_width: Share }
    }
    "rate_dropped" Info {
        /// Memory was full of dirty pages from then on, in bytes.
        MemoryFilled { moved: Bytes, first: BytesPerSecond, then: BytesPerSecond, at: Seconds }
        /// Memory was full of dirty pages from then on.
        MemoryFilledByOps { first: OpsPerSecond, then: OpsPerSecond, at: Seconds }
    }
    "rate_dropped" Act {
        /// A cache or a credit ran out, in bytes; the row has the rate after it.
        RanOut { moved: Bytes, first: BytesPerSecond, then: BytesPerSecond, at: Seconds }
        /// A cache or a credit ran out; the row has the rate after it.
        RanOutByOps { first: OpsPerSecond, then: OpsPerSecond, at: Seconds }
        /// A cache or a credit ran out, in bytes; the row is a mean.
        RanOutMean { moved: Bytes, first: BytesPerSecond, then: BytesPerSecond, at: Seconds }
        /// A cache or a credit ran out; the row is a mean.
        RanOutMeanByOps { first: OpsPerSecond, then: OpsPerSecond, at: Seconds }
    }
    "rate_capped" Act {
        /// A rate more even than its latencies allow.
        TooEven { variation: Share, p50: LatencyNs, p99: LatencyNs }
    }
    "several_modes" Info {
        /// Several kinds of operations.
        SeveralModes { modes: Modes }
    }
    "foreign_io" Suspect {
        /// Bytes of others on the device.
        ForeignIo { foreign: Share, device: Name }
    }
    "steal" Suspect {
        /// CPU time that the hypervisor took.
        Steal { stolen: Share }
    }
    "cpu_contention" Suspect {
        /// Threads that waited for a CPU.
        WaitedForCpu { waited: Share }
    }
    "thermal" Suspect {
        /// A drive at its limit.
        DriveHot { device: Name, celsius: Celsius, limit: Celsius }
        /// CPUs that were throttled for their temperature.
        CpuThrottled { times: Count }
    }
    "upkeep" Suspect {
        /// Work of the target on itself.
        TargetUpkeep { work: Work }
    }
    "upkeep" Info {
        /// Work of an array or file system that may be another.
        OtherUpkeep { work: Work }
    }
    "parity_writes" Act {
        /// An array read parity to write parts of stripes.
        ParityWrites { array: Name, read: Bytes, written: Bytes, asked: Bytes }
    }
    "members_unbalanced" Act {
        /// One member of an array moved more than the others.
        BusyMember { member: Name, times: Mean, array: Name }
    }
    "fragmented" Info {
        /// Files in many pieces on a device that spins.
        Fragmented { extents: Count, mean: MemoryBytes }
    }
    "compressible_target" Info {
        /// A device that compresses.
        DeviceCompresses { device: Name, compressible: Share }
        /// A file system that compresses.
        FileSystemCompresses { file_system: Name, compressible: Share }
        /// A file system that stores data smaller than it is.
        StoredSmaller { file_system: Name, stored: Share, compressible: Share }
    }
    "volatile_write_cache" Info {
        /// A cache of the drive that a longer test might fill.
        WriteCacheHeld { device: Name, written: Bytes }
    }
    "read_ahead" Info {
        /// Small blocks, for which the kernel reads whole pages.
        WholePages { ratio: Ratio }
        /// Read-ahead that was not used.
        ReadAheadUnused { ratio: Ratio }
    }
    "amplification" Info {
        /// Bytes and flushes of the device for each operation.
        Amplification { ratio: Mean, flushes: Mean }
    }
    "one_pass" Info {
        /// Reads that ended with the set.
        ReadOnce { elapsed: Seconds }
        /// Writes that ended with the set.
        WrittenOnce { elapsed: Seconds }
    }
    "write_limit" Info {
        /// Writes that ended with their part of the limit.
        WriteLimitReached { elapsed: Seconds, limit: Bytes }
    }
    "knee" Info {
        /// The knee of a sweep.
        Knee { throughput: Share, latency: Share }
        /// A sweep that has no knee up to here.
        NoKnee {}
    }
}

macro_rules! advice {
    ($($(#[$meta:meta])* $kind:ident { $($figure:ident: $type:ty),* })+) => {
        /// What can be done about a finding.
        #[allow(missing_docs, reason = "as of findings")]
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Advice {
            $($(#[$meta])* $kind { $($figure: $type),* },)+
            /// Advice of another version, of which only the words are known.
            #[serde(other)]
            InWords,
        }

        impl Advice {
            /// One of each kind, with figures of nothing: for tests of what is said of them.
            pub fn of_each_kind() -> Vec<Self> {
                vec![$(Self::$kind { $($figure: Default::default()),* },)+]
            }

            /// Its figures, by their names.
            pub fn figures(&self) -> Vec<(&'static str, Figure<'_>)> {
                match self {
                    $(Self::$kind { $($figure),* } => vec![$((stringify!($figure), $figure.figure())),*],)+
                    Self::InWords => Vec::new(),
                }
            }
        }
    };
}

advice! {
    /// Ask for a lower rate.
    LowerRate {}
    /// Another directory, on a disk.
    ChooseDisk {}
    /// A set of twice the memory.
    SizeTwiceMemory {}
    /// A set that fits into memory.
    SizeWithinMemory {}
    /// A set of twice the server's memory.
    SizeTwiceServer {}
    /// Tell the server's memory.
    ServerRam {}
    /// A larger set.
    LargerSize {}
    /// A larger set, or one pass.
    LargerSizeOrOnePass {}
    /// One pass, or a larger set than a cache holds.
    OnePassOrLargerSize {}
    /// One pass.
    OnePass {}
    /// Run it again.
    RunAgain {}
    /// Several runs.
    Repeat {}
    /// A longer test.
    LongerTime {}
    /// A longer test that may write more.
    LongerTimeAndLimit {}
    /// More operations.
    MoreOperations {}
    /// A higher limit for writes.
    RaiseWriteLimit {}
    /// More files.
    MoreFiles {}
    /// Fewer files, or a longer test.
    FewerFilesOrLongerTime {}
    /// A mount that does not write data to the journal.
    MountOrdered {}
    /// A mount that does not compress.
    MountUncompressed {}
    /// A directory without checksums.
    NoChecksums {}
    /// The property of ZFS for direct I/O.
    ZfsDirect {}
    /// Options of the mount that make it buffer.
    BufferingOptions {}
    /// A mount that flushes.
    MountWithout { option: Name }
    /// Look for something that makes data smaller.
    FindReduction { file_system: Name }
    /// Look for something that keeps data.
    FindKeeper { file_system: Name }
    /// Find out what a flush does.
    FindFlush {}
    /// Compare with care.
    CompareWithCare {}
    /// Find out who else uses the device.
    FindOthers { device: Name }
    /// Wait until the device is quiet.
    QuietDevice {}
    /// Wait until the host is quiet.
    QuietHost {}
    /// Stop other programs.
    StopOthers {}
    /// Switch the device's counters on.
    CheckIostats { device: Name }
    /// Check which devices are below.
    CheckDevices { mount_point: Name }
    /// A sync at the end.
    SyncEnd {}
    /// A cold cache.
    ColdCache {}
    /// Cold names.
    ColdNames {}
    /// Direct I/O instead.
    OrDirect {}
    /// Look for a program that reads the files.
    FindReader {}
    /// Look for a program that maps the files.
    FindMapper {}
    /// Wait until inodes are reused.
    WaitForInodes {}
    /// Look for a limit.
    FindLimit {}
    /// Let it cool down.
    CoolDown {}
    /// Wait for work of the target on itself.
    WaitForUpkeep {}
    /// Blocks of a whole stripe.
    WholeStripes {}
    /// Check where data lie.
    CheckLayout { member: Name }
    /// More points of a sweep.
    SweepFurther {}
}

/// What this version knows, or anything else.
#[derive(Deserialize)]
#[serde(untagged)]
enum Known<T> {
    This(T),
    Other(serde::de::IgnoredAny),
}

/// The finding of a note; one that this version does not know, or with other figures, is known by its words alone.
pub(crate) fn known_finding<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Finding, D::Error> {
    Known::deserialize(deserializer).map(|finding| match finding {
        Known::This(finding) => finding,
        Known::Other(_) => Finding::InWords,
    })
}

/// The same of advice.
pub(crate) fn known_advice<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Advice>, D::Error> {
    let all = Vec::<Known<Advice>>::deserialize(deserializer)?;
    Ok(all
        .into_iter()
        .map(|advice| match advice {
            Known::This(advice) => advice,
            Known::Other(_) => Advice::InWords,
        })
        .collect())
}

impl Figure<'_> {
    /// Whether it says which one is meant, and not how much: two that differ are about different things.
    pub fn is_name(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Modes(_) | Self::Upkeep(_))
    }
}
