//! Findings about a row: kinds, each with its figures and its grade.
//!
//! No English here: the crate `wording` has the sentences, short and long.

use crate::figure::*;
use crate::run::{Mark, Trust};

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Worth knowing: the number measures what it seems to.
    Remark,
    /// The number may be off by more than its ±.
    Suspect,
    /// The number does not measure what was requested.
    Invalid,
}

impl Grade {
    /// Returns the trust that a finding of this grade leaves.
    pub fn trust(self) -> Trust {
        match self {
            Self::Remark => Trust::Ok,
            Self::Suspect => Trust::Suspect,
            Self::Invalid => Trust::Invalid,
        }
    }

    /// Returns the mark of this grade.
    pub fn mark(self) -> Mark {
        match self {
            Self::Remark => Mark::Remark,
            Self::Suspect => Mark::Suspect,
            Self::Invalid => Mark::Invalid,
        }
    }
}

impl Mark {
    /// Returns the sign in the table; empty for a remark.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Invalid => "!",
            Self::Suspect => "?",
            Self::Remark => "",
        }
    }
}

/// Smallest disturbance, or change of the rate, that makes a number suspect. The rate's own ± is of that size on many
/// devices.
pub const DEVIATION_MIN: f64 = 0.1;

impl Finding {
    /// Returns how grave the finding is.
    pub fn grade(&self) -> Grade {
        match self.deviation_share() {
            Some(share) if share < DEVIATION_MIN => Grade::Remark,
            _ => self.grade_of_kind(),
        }
    }

    /// Returns the share of the number by which it may be off, where that is known.
    fn deviation_share(&self) -> Option<f64> {
        let change = |one: &OpsPerSecond, other: &OpsPerSecond| {
            (one.0 - other.0).abs() / one.0.max(other.0).max(f64::MIN_POSITIVE)
        };
        match self {
            Self::ForeignIo { foreign_share: Share(share), .. }
            | Self::Steal { stolen_share: Share(share) }
            | Self::WaitedForCpu { waited_share: Share(share) }
            | Self::NotRunning { stopped_share: Share(share) }
            | Self::OthersOnCpus { others_share: Share(share) } => Some(*share),
            // Another operation than the file means takes another time.
            Self::UnlikeLoad { unlike: Count(unlike), operations: Count(operations), .. } => {
                Some(*unlike as f64 / (*operations).max(1) as f64)
            }
            // Share of foreign I/O among the device's bytes.
            Self::DeviceMovedForOthers { ratio: Ratio(ratio) } => Some(1.0 - ratio.max(1.0).recip()),
            Self::Drifted { first_ops_per_second, last_ops_per_second, .. } => {
                Some(change(first_ops_per_second, last_ops_per_second))
            }
            Self::RateChanged { before_ops_per_second, after_ops_per_second, .. } => {
                Some(change(before_ops_per_second, after_ops_per_second))
            }
            Self::RateChangedOften { lowest_ops_per_second, highest_ops_per_second, .. } => {
                Some(change(lowest_ops_per_second, highest_ops_per_second))
            }
            _ => None,
        }
    }
}

macro_rules! findings {
    ($($code:literal $grade:ident { $(#[doc = $about:literal] $kind:ident { $($figure:ident: $type:ty),* })+ })+) => {
        kinds! {
            /// A finding about a row, with its figures.
            Finding { $($(#[doc = $about] $kind { $($figure: $type),* })+)+ }
        }

        impl Finding {
            /// The codes for programs, in the order in which they are listed. A code may occur several times, once for
            /// each grade.
            pub const CODES: &[&str] = &[$($code),+];

            /// Returns the code for programs. It is the code of the trap, which may have several kinds.
            pub fn code(&self) -> &'static str {
                match self {
                    $($(Self::$kind { .. } => $code,)+)+
                    Self::Unknown => "unknown",
                }
            }

            /// Returns the highest grade of its kind.
            fn grade_of_kind(&self) -> Grade {
                match self {
                    $($(Self::$kind { .. } => Grade::$grade,)+)+
                    Self::Unknown => Grade::Remark,
                }
            }
        }
    };
}

findings! {
    "failed" Invalid {
        /// The test failed.
        Failed { reason: Name }
    }
    "skipped" Invalid {
        /// The test was not tried.
        Skipped { reason: Name }
    }
    "ended_early" Invalid {
        /// The test ended before its stop rule held.
        EndedEarly { reason: Name }
    }
    "no_rate" Invalid {
        /// The test finished and has no rate.
        NoRate { reason: Name }
    }
    "between_runs" Remark {
        /// How far repetitions lie apart, in bytes.
        BetweenRuns { runs: Count, spread: Share, mean_bytes_per_second: BytesPerSecond }
        /// How far repetitions lie apart.
        BetweenRunsByOps { runs: Count, spread: Share, mean_ops_per_second: OpsPerSecond }
    }
    "into_cache" Remark {
        /// The rate at which the page cache took writes, in bytes.
        IntoCache { bytes_per_second: BytesPerSecond }
        /// The rate at which the page cache took writes.
        IntoCacheByOps { ops_per_second: OpsPerSecond }
    }
    "waited_to_start" Remark {
        /// Part of the 99th percentile that passed before operations were started.
        P99Waited { wait_ns: LatencyNs, whole_ns: LatencyNs }
        /// Part of the median that passed before operations were started.
        P50Waited { wait_ns: LatencyNs, whole_ns: LatencyNs }
    }
    "verification_failed" Invalid {
        /// The data read is not the data written.
        DataDiffers {}
    }
    "not_compared" Remark {
        /// An earlier test failed while it wrote, so nothing is known that reads could be compared with.
        NotCompared {}
    }
    "depth_by_threads" Remark {
        /// Threads instead of a ring, which cannot be used here.
        ThreadsForRing { depth: Count, threads: Count }
        /// Threads instead of depth, which plain system calls do not have.
        ThreadsForDepth { depth: Count, threads: Count }
    }
    "engine_features_lost" Remark {
        /// The kernel refused something that makes the ring faster.
        RingWithout { features: Name }
    }
    "unlike_load" Suspect {
        /// Operations returned another result than in the load file.
        UnlikeLoad { unlike: Count, operations: Count, first: Name }
    }
    "fell_behind" Suspect {
        /// Operations of an open loop never started.
        FellBehind { missed: Count, due: Count }
    }
    "repeated" Remark {
        /// Measured a second time, as the device's bytes differed from the test's.
        MeasuredTwice { difference: Share }
    }
    "memory_target" Invalid {
        /// A file system in memory.
        TargetIsMemory { name: Name }
    }
    "devices_unknown" Remark {
        /// A file system whose devices are not known.
        DevicesUnknown { file_system: Name, read_bytes: Bytes }
    }
    "unwritten_extents" Invalid {
        /// Parts of the files were never written.
        FilesNotWritten { holes_share: Share, unwritten_share: Share }
    }
    "o_direct_ineffective" Invalid {
        /// The file system does not open files for direct I/O.
        DirectRefused { file_system: Name }
        /// The device saw too little of the direct I/O.
        DirectMissedDevice { moved_share: Share, file_system: Name }
        /// Direct I/O that left the files in the page cache.
        DirectFilledCache { cached_share: Share, file_system: Name }
        /// Direct writes that made pages dirty.
        DirectMadeDirty { dirtied_share: Share, file_system: Name }
    }
    "device_disagrees" Invalid {
        /// The device moved fewer bytes than requested.
        DeviceMovedLess { ratio: Ratio, file_system: Name }
    }
    "device_disagrees" Remark {
        /// The device moved more bytes than requested, as always on this file system.
        CopyOnWriteOverhead { ratio: Ratio, file_system: Name }
        /// The device moved more bytes than requested, all of them for this test.
        DeviceMovedMore { ratio: Ratio, file_system: Name }
    }
    "device_disagrees" Suspect {
        /// The device moved more bytes than requested, some of them for other programs.
        DeviceMovedForOthers { ratio: Ratio }
    }
    "counters_disagree" Suspect {
        /// The device counted nothing.
        DeviceCountedNothing { device: Name, moved_bytes: Bytes }
        /// The kernel charged the test with more than the device counted.
        ChargedMore { excess: Share, mount_point: Name }
    }
    "nothing_durable" Invalid {
        /// Writes without a sync.
        NothingDurable { written_bytes: Bytes }
    }
    "durability_void" Invalid {
        /// An option of the mount by which a sync does not flush the device.
        SyncsNotFlushed { option: Name }
    }
    "sync_not_sent" Suspect {
        /// Syncs that are faster than any reply of a server.
        SyncNotSent { sync_ns: LatencyNs, file_system: Name }
    }
    "flush_too_fast" Suspect {
        /// Flushes that are faster than any medium.
        FlushTooFast { typical_ns: LatencyNs, device: Name }
    }
    "absorbed_by_page_cache" Suspect {
        /// Blocks that were replaced in memory before they were written.
        ReplacedInMemory { reached_share: Share, passes: Mean }
    }
    "absorbed_by_page_cache" Remark {
        /// Blocks of a skewed test that were replaced in memory before they were written.
        HotReplacedInMemory { reached_share: Share }
    }
    "absorbed_by_page_cache" Invalid {
        /// Writes that were synced and did not reach the device.
        DidNotReachDevice { reached_share: Share, file_system: Name }
    }
    "short_calls" Remark {
        /// Calls that moved a part of their block.
        ShortCalls { calls: Count }
    }
    "served_from_page_cache" Remark {
        /// The cache was warm, as requested.
        CacheWarm { cached_share: Share }
        /// The cache held blocks that a skewed test reads often.
        CacheAnsweredHot { cached_share: Share }
    }
    "served_from_page_cache" Suspect {
        /// The cache was warm only in part, although a warm one was requested.
        CacheHalfWarm { cached_share: Share }
        /// The cache was not dropped, and served part of the reads.
        CacheAnswered { cached_share: Share }
    }
    "served_from_page_cache" Invalid {
        /// The cache was cold, and served blocks that were read again.
        CacheAnsweredAgain { cached_share: Share, passes: Mean }
        /// The cache served reads, although a cold one was requested.
        CacheNotCold { cached_share: Share }
    }
    "cache_not_cold" Suspect {
        /// Pages that could not be dropped.
        CacheNotDropped { cached_share: Share }
    }
    "answered_by_layer" Suspect {
        /// Bytes came no further than the page cache of a loop device's image.
        StoppedAtImage { share: Share, device: Name, below: Name }
        /// Bytes came no further than the page cache above a program that serves FUSE.
        StoppedAboveFuse { share: Share, below: Name }
        /// Bytes came no further than these layers.
        StoppedBetween { share: Share, layers: Name, below: Name }
    }
    "limit_changed" Suspect {
        /// A limit on operations was changed during the test.
        OperationsLimitChanged { source: Name, device: Name, first_ops_per_second: OpsPerSecond, last_ops_per_second: OpsPerSecond }
        /// A limit on bytes was changed during the test.
        BytesLimitChanged { source: Name, device: Name, first_bytes_per_second: BytesPerSecond, last_bytes_per_second: BytesPerSecond }
    }
    "below_os_cache" Suspect {
        /// A cache below this system may have served reads, according to their mean latency.
        LowerCache { blocks: Count, first_ns: LatencyNs, second_ns: LatencyNs, passes: Mean }
        /// A cache below this system may have served reads, according to their 99th percentile.
        LowerCacheByP99 { blocks: Count, first_ns: LatencyNs, second_ns: LatencyNs, passes: Mean }
    }
    "below_os_cache" Remark {
        /// A cache below this system, which this test did not use, as the mean of reads shows.
        LowerCacheUnused { blocks: Count, first_ns: LatencyNs, second_ns: LatencyNs }
        /// A cache below this system, which this test did not use, as the 99th percentile of reads shows.
        LowerCacheUnusedByP99 { blocks: Count, first_ns: LatencyNs, second_ns: LatencyNs }
        /// A cache below this system, which a skewed test uses, as the mean of reads shows.
        LowerCacheHot { blocks: Count, first_ns: LatencyNs, second_ns: LatencyNs }
        /// A cache below this system, which a skewed test uses, as the 99th percentile of reads shows.
        LowerCacheHotByP99 { blocks: Count, first_ns: LatencyNs, second_ns: LatencyNs }
    }
    "server_cache" Suspect {
        /// The server's memory can hold much of the set.
        ServerHolds { memory_bytes: MemoryBytes, held_share: Share, size_bytes: MemoryBytes }
    }
    "server_cache" Remark {
        /// The server's memory is not known.
        ServerMemoryUnknown { size_bytes: MemoryBytes }
    }
    "several_passes" Suspect {
        /// Later passes were faster than the first.
        LaterPassesFaster { passes: Mean, gain: Share }
    }
    "fewer_files" Suspect {
        /// Time did not suffice to make all files of the test.
        FewerFiles { files: Count, wanted: Count }
    }
    "names_not_cold" Suspect {
        /// Cached names were dropped, and yet the device read too little for them.
        NamesNotCold { read_bytes: MemoryBytes, operations: Count }
        /// Cached names were dropped, and yet the server received too few requests for them.
        NamesNotAsked { sent_bytes: MemoryBytes, operations: Count }
    }
    "cold_names" Remark {
        /// The device read for the names after they were dropped.
        NamesFromDevice { reads: Count, read_bytes: MemoryBytes, operations: Count }
        /// The same on a device that other programs read during the test.
        NamesFromBusyDevice { reads: Count, read_bytes: MemoryBytes, operations: Count }
        /// Cached names were dropped, and no counter shows where they came from.
        NamesDroppedHere {}
    }
    "metadata_cache" Remark {
        /// Names and attributes came from memory.
        NamesFromMemory { operations: Count }
        /// Most names and attributes came from memory.
        NamesMostlyFromMemory { read_bytes: MemoryBytes, operations: Count }
        /// Names and attributes came from this system's memory, not from the server.
        NamesFromClient { sent_bytes: MemoryBytes, operations: Count }
        /// Names and attributes that are nowhere but in memory.
        NamesInMemory { file_system: Name }
    }
    "inode_search" Suspect {
        /// ext4 without a journal searched past inodes that were freed a short while ago.
        InodeSearch {}
    }
    "latency_too_long" Suspect {
        /// Operations took longer than any latency that is counted.
        LatencyTooLong { limit_ns: LatencyNs }
    }
    "too_few_samples" Remark {
        /// The sync at the end took so long that the rate is one observation.
        LongSync { share: Share, elapsed_seconds: Seconds }
        /// Too few rounds of a test on files.
        FewRounds { rounds: Count, operations: Count }
        /// Too short.
        Short { elapsed_seconds: Seconds, operations: Count }
    }
    "not_steady" Suspect {
        /// A rate that drifted.
        Drifted { elapsed_seconds: Seconds, first_ops_per_second: OpsPerSecond, last_ops_per_second: OpsPerSecond }
        /// A rate that changed once.
        RateChanged { before_ops_per_second: OpsPerSecond, after_ops_per_second: OpsPerSecond, at_seconds: Seconds }
        /// A rate that changed several times.
        RateChangedOften { changes: Count, lowest_ops_per_second: OpsPerSecond, highest_ops_per_second: OpsPerSecond }
    }
    "not_steady" Remark {
        /// A rate that is hardly known.
        Unsteady { half_width: Share }
    }
    "never_steady" Suspect {
        /// A test that was repeated in rounds and never was steady.
        NeverSteady { rounds: Count, rounds_max: Count, round_seconds: Seconds, excursion: Share, slope: Share }
        /// A test that ended before it had enough rounds to be steady.
        TooFewRounds { rounds: Count, rounds_max: Count, round_seconds: Seconds }
    }
    "steady_rounds" Remark {
        /// A test that was repeated in rounds until it was steady.
        SteadyInRound { rounds: Count, rounds_max: Count, round_seconds: Seconds, excursion: Share, slope: Share }
    }
    "wide_interval" Remark {
        /// A rate with a wider interval than requested.
        WideInterval { half_width: Share, wanted: Share }
        /// A rate from too few effective samples for an interval.
        FewParts { parts: Count }
    }
    "does_not_repeat" Suspect {
        /// A short run of the same test minutes later gave another rate.
        DoesNotRepeat { own_ops_per_second: OpsPerSecond, then_ops_per_second: OpsPerSecond, later: Seconds }
        /// The same where that run searched for inodes that may be used again.
        InodesInUse { own_ops_per_second: OpsPerSecond, then_ops_per_second: OpsPerSecond, later: Seconds }
    }
    "one_run" Remark {
        /// A single run on a disk that guests of a host share.
        OneRun { half_width: Share }
        /// The same where earlier runs show how far the next may lie.
        OneOfRuns { runs: Count, low: Share, high: Share }
    }
    "rate_dropped" Remark {
        /// Memory reached its limit of dirty pages; the rates are in bytes.
        MemoryFilled { moved_bytes: Bytes, first_bytes_per_second: BytesPerSecond, then_bytes_per_second: BytesPerSecond, at_seconds: Seconds }
        /// Memory reached its limit of dirty pages.
        MemoryFilledByOps { first_ops_per_second: OpsPerSecond, then_ops_per_second: OpsPerSecond, at_seconds: Seconds }
    }
    "rate_dropped" Suspect {
        /// A cache or a credit ran out, in bytes; the row has the rate after it.
        RanOut { moved_bytes: Bytes, first_bytes_per_second: BytesPerSecond, then_bytes_per_second: BytesPerSecond, at_seconds: Seconds }
        /// A cache or a credit ran out; the row has the rate after it.
        RanOutByOps { first_ops_per_second: OpsPerSecond, then_ops_per_second: OpsPerSecond, at_seconds: Seconds }
        /// A cache or a credit ran out, in bytes; the row is a mean.
        RanOutMean { moved_bytes: Bytes, first_bytes_per_second: BytesPerSecond, then_bytes_per_second: BytesPerSecond, at_seconds: Seconds }
        /// A cache or a credit ran out; the row is a mean.
        RanOutMeanByOps { first_ops_per_second: OpsPerSecond, then_ops_per_second: OpsPerSecond, at_seconds: Seconds }
    }
    "rate_capped" Remark {
        /// A rate more even than its latencies allow.
        TooEven { variation: Share, p50_ns: LatencyNs, p99_ns: LatencyNs }
    }
    "several_modes" Remark {
        /// Several kinds of operations.
        SeveralModes { modes: Modes }
    }
    "foreign_io" Suspect {
        /// I/O of other programs on the device.
        ForeignIo { foreign_share: Share, device: Name }
    }
    "steal" Suspect {
        /// CPU time that the hypervisor took.
        Steal { stolen_share: Share }
    }
    "not_running" Suspect {
        /// Time in which skye was stopped, or had no CPU. It is part of the rate.
        NotRunning { stopped_share: Share }
        /// The same where it is no part of the rate.
        LeftOut { stopped: Seconds }
        /// Time for which the machine was suspended.
        Suspended { suspended: Seconds }
    }
    "cpu_contention" Suspect {
        /// Threads that waited for a CPU.
        WaitedForCpu { waited_share: Share }
        /// CPU time of other programs, beside more threads than CPUs.
        OthersOnCpus { others_share: Share }
    }
    "thermal" Suspect {
        /// A drive at its limit.
        DriveHot { device: Name, celsius: Celsius, limit_celsius: Celsius }
        /// CPUs that were throttled for their temperature.
        CpuThrottled { times: Count }
    }
    "maintenance" Suspect {
        /// The target works on itself, as by a resync or a scrub.
        TargetMaintenance { work: Maintenance }
    }
    "maintenance" Remark {
        /// An array or file system that may not be the target's works on itself.
        OtherMaintenance { work: Maintenance }
    }
    "parity_writes" Remark {
        /// An array read parity to write parts of stripes.
        ParityWrites { array: Name, read_bytes: Bytes, written_bytes: Bytes, requested_bytes: Bytes }
    }
    "members_unbalanced" Remark {
        /// One member of an array moved more than the others.
        BusyMember { member: Name, times: Mean, array: Name }
    }
    "uneven_places" Remark {
        /// Latency in the slowest place of the data over that in the fastest.
        PlacesDiffer { ratio: Mean }
        /// Rates of earlier runs whose data lay in other places, and their number.
        OtherPlaces { runs: Count, low_ops_per_second: OpsPerSecond, high_ops_per_second: OpsPerSecond }
    }
    "fragmented" Remark {
        /// Files in many pieces on a device that spins.
        Fragmented { extents: Count, mean_bytes: MemoryBytes }
    }
    "compressible_target" Remark {
        /// A device that compresses.
        DeviceCompresses { device: Name, compressible_share: Share }
        /// A file system that compresses.
        FileSystemCompresses { file_system: Name, compressible_share: Share }
        /// A file system that stores data smaller than it is.
        StoredSmaller { file_system: Name, stored_share: Share, compressible_share: Share }
    }
    "volatile_write_cache" Remark {
        /// A cache of the drive that a longer test might fill.
        WriteCacheHeld { device: Name, written_bytes: Bytes }
    }
    "read_ahead" Remark {
        /// Small blocks, for which the kernel reads whole pages.
        WholePages { ratio: Ratio }
        /// Read-ahead that was not used.
        ReadAheadUnused { ratio: Ratio }
    }
    "amplification" Remark {
        /// Bytes and flushes of the device for each operation.
        Amplification { ratio: Mean, flushes: Mean }
    }
    "call_flags" Suspect {
        /// Data of uncached calls that the page cache kept.
        StayedInCache { cached_share: Share, file_system: Name }
    }
    "call_flags" Remark {
        /// Data in the page cache after uncached calls.
        LeftInCache { cached_share: Share }
        /// Requests of the device for each atomic write.
        AtomicRequests { device: Name, requests: Mean }
    }
    "one_pass" Remark {
        /// Reads that ended with the set.
        ReadOnce { elapsed_seconds: Seconds }
        /// Writes that ended with the set.
        WrittenOnce { elapsed_seconds: Seconds }
    }
    "write_limit" Remark {
        /// Writes that ended with their part of the limit.
        WriteLimitReached { elapsed_seconds: Seconds, limit_bytes: Bytes }
    }
    "never_concurrent" Suspect {
        /// Clients that ended before other clients started.
        NeverConcurrent { clients: Count }
    }
    "slow_client" Remark {
        /// A client far below the other clients.
        SlowClient {
            client: Name,
            below_share: Share,
            ops_per_second: OpsPerSecond,
            median_ops_per_second: OpsPerSecond,
            limit: Name
        }
    }
    "knee" Remark {
        /// The knee of a sweep.
        Knee { throughput_share: Share, latency_share: Share }
        /// A sweep that has no knee up to here.
        NoKnee {}
    }
}
