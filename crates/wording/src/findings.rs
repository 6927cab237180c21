//! A clause and a sentence for each kind of finding.

use model::finding::Finding;

/// The clause, and the template of the sentence.
pub(crate) fn words(finding: &Finding) -> (&'static str, &'static str) {
    use Finding::*;
    match finding {
        InWords => ("found by another version", ""),
        Failed { .. } => ("failed", "failed: {reason}"),
        Skipped { .. } => ("skipped", "skipped: {reason}"),
        EndedEarly { .. } => ("ended early", "ended early: {reason}"),
        NoRate { .. } => ("no rate", "there is no rate: {reason}"),
        BetweenRuns { .. } => (
            "± is of one run",
            "{runs} repetitions lie within ± {spread} of {mean_bytes_per_second}; ± in the table is that of one",
        ),
        BetweenRunsByOps { .. } => (
            "± is of one run",
            "{runs} repetitions lie within ± {spread} of {mean_ops_per_second}; ± in the table is that of one",
        ),
        IntoCache { .. } => (
            "the sync is included",
            "into the cache at {bytes_per_second}; the headline includes the sync or close at the end",
        ),
        IntoCacheByOps { .. } => (
            "the sync is included",
            "into the cache at {ops_per_second}; the headline includes the sync or close at the end",
        ),
        P99Waited { .. } => (
            "operations waited to be started",
            "operations waited {wait_ns} to start, of a p99 of {whole_ns}",
        ),
        P50Waited { .. } => (
            "operations waited to be started",
            "operations waited {wait_ns} to start, of a p50 of {whole_ns}",
        ),
        DataDiffers {} => (
            "data read differs from data written",
            "the data read is not the data written; nothing that this storage says can be trusted until the reason is known",
        ),
        NotCompared {} => {
            ("reads were not verified", "its reads were not verified: an earlier test failed while it wrote")
        }
        ThreadsForRing { .. } => (
            "threads instead of depth",
            "asked for as Q{depth}T{threads}; io_uring cannot be used here, so each operation in flight is a thread",
        ),
        ThreadsForDepth { .. } => (
            "threads instead of depth",
            "asked for as Q{depth}T{threads}; plain system calls have no depth, so each operation in flight is a thread",
        ),
        RingWithout { .. } => ("io_uring lacks a feature", "io_uring had to do without {features}"),
        FellBehind { .. } => (
            "cannot keep the rate",
            "the target cannot keep this rate: {missed} of {due} operations that were due never started. The latencies are of the others",
        ),
        MeasuredTwice { .. } => (
            "measured twice",
            "measured twice: the first time, the device's bytes differed from the test's by {difference}",
        ),
        TargetIsMemory { .. } => (
            "memory, not storage",
            "{file_system} is memory and no device, so this says nothing about storage",
        ),
        DevicesUnknown { .. } => (
            "no device to compare with",
            "skye found no device under this {file_system}: its own cache may have answered some of the {read_bytes} read",
        ),
        FilesNotWritten { .. } => (
            "files hold unwritten space",
            "{holes_share} of the files' bytes are holes and {unwritten_share} were never written: the file system answers those without the device. Something has changed the files since they were laid out",
        ),
        DirectMissedDevice { .. } => (
            "O_DIRECT was not direct",
            "the device moved only {moved_share} of the bytes, so O_DIRECT was not direct on this {file_system}",
        ),
        DirectFilledCache { .. } => (
            "O_DIRECT was not direct",
            "the page cache held {cached_share} of the files' bytes afterwards, and direct I/O leaves none there: it was not direct on this {file_system}",
        ),
        DirectMadeDirty { .. } => (
            "O_DIRECT was not direct",
            "{dirtied_share} of the bytes written went through the page cache, so O_DIRECT was not direct on this {file_system}",
        ),
        DeviceMovedLess { .. } => {
            ("the device moved too little", "the device moved only {ratio} bytes per byte asked for")
        }
        CopyOnWriteOverhead { .. } => (
            "the file system may write more",
            "the device moved {ratio} bytes per byte asked for: {file_system} writes its own trees, and skye cannot tell those from other programs' I/O",
        ),
        DeviceMovedMore { .. } => (
            "the file system moves more",
            "the device moved {ratio} bytes per byte asked for, all of them for this test: {file_system} adds its own",
        ),
        DeviceMovedForOthers { .. } => (
            "others used the device",
            "the device moved {ratio} bytes per byte asked for, so another program used it as well",
        ),
        DeviceCountedNothing { .. } => (
            "the device's counters are off",
            "{device} counted 0 requests while this test moved {moved_bytes}, so nothing could be compared",
        ),
        ChargedMore { .. } => (
            "counters disagree",
            "the kernel charged this test with more bytes than the device counted: {excess} of those asked for. A device under {mount_point} may be missing",
        ),
        DepthNotReached { .. } => (
            "few operations reached the device",
            "on average {in_flight} operations were in flight and only {at_device} of them in the device",
        ),
        NothingDurable { .. } => (
            "nothing was made durable",
            "no sync made the {written_bytes} durable, so this is the speed of memory",
        ),
        SyncsNotFlushed { .. } => (
            "syncs do not flush the device",
            "mounted with {option}, a sync does not flush the device: a power failure may lose the data",
        ),
        FlushTooFast { .. } => (
            "flushes are suspiciously fast",
            "half of the flushes took at most {typical_ns}: either the cache of {device} survives a power failure, or flushes are ignored",
        ),
        ReplacedInMemory { .. } => (
            "blocks were replaced in memory",
            "only {reached_share} of the bytes written reached the device: the test wrote each block {passes} times, and memory kept the last",
        ),
        DidNotReachDevice { .. } => (
            "writes did not reach the device",
            "only {reached_share} of the bytes written and synced reached the device",
        ),
        CacheWarm { .. } => (
            "from memory, as asked for",
            "{cached_share} of the bytes came from memory, as asked for: this is the speed of the page cache",
        ),
        CacheHalfWarm { .. } => (
            "only partly from memory",
            "only {cached_share} of the bytes came from memory, although you asked for a warm cache: this is a mixture of two speeds",
        ),
        CacheAnswered { .. } => (
            "partly from memory",
            "{cached_share} of the bytes came from memory, so this is not the device's speed",
        ),
        CacheAnsweredAgain { .. } => (
            "partly from memory",
            "{cached_share} of the bytes came from memory, as the test read each block {passes} times: this is not the device's speed",
        ),
        CacheNotCold { .. } => (
            "partly from memory",
            "{cached_share} of the bytes came from memory, although you asked for a cold cache: this is not the device's speed",
        ),
        CacheNotDropped { .. } => (
            "the cache was not cold",
            "{cached_share} of the files stayed in the page cache, although they were to be dropped before the test",
        ),
        LowerCache { .. } => (
            "a host or array cache may have answered",
            "a cache below this system answers repeated reads: a block took {first_ns} the first time and {second_ns} the second, as means of {blocks}. The test read its files {passes} times",
        ),
        LowerCacheByP99 { .. } => (
            "a host or array cache may have answered",
            "a cache below this system answers repeated reads: the p99 of {blocks} blocks was {first_ns} the first time and {second_ns} the second. The test read its files {passes} times",
        ),
        LowerCacheUnused { .. } => (
            "a host or array cache was not used",
            "a cache below this system answers repeated reads: a block took {first_ns} the first time and {second_ns} the second, as means of {blocks}. The test read no block twice",
        ),
        LowerCacheUnusedByP99 { .. } => (
            "a host or array cache was not used",
            "a cache below this system answers repeated reads: the p99 of {blocks} blocks was {first_ns} the first time and {second_ns} the second. The test read no block twice",
        ),
        ServerHolds { .. } => (
            "the server may cache the set",
            "the server's memory of {memory_bytes} can hold {held_share} of the {size_bytes} of files, so its disks need not read them",
        ),
        ServerMemoryUnknown { .. } => (
            "the server may cache the set",
            "the server may have answered from its memory, which skye cannot see: the files have only {size_bytes}",
        ),
        LaterPassesFaster { .. } => (
            "later passes were faster",
            "later passes were {gain} faster than the first of {passes}: the first may have filled a cache below this system",
        ),
        NamesFromMemory { .. } => (
            "names came from memory",
            "memory answered: the device read 0 bytes for {operations} operations, so this says nothing about the disk",
        ),
        InodeSearch {} => (
            "ext4 searched for free inodes",
            "ext4 without a journal skips inodes for 1 to 5 minutes after a deletion, and searches past them on the CPU",
        ),
        LongSync { .. } => (
            "no ± for this rate",
            "the end of the test took {share} of {elapsed_seconds} and counts, so the rate is one observation and has no ±",
        ),
        FewRounds { .. } => {
            ("too few rounds for a ±", "{operations} operations in {rounds:round} are too few for a ±")
        }
        Short { .. } => (
            "too short for a ±",
            "the test took only {elapsed_seconds} for {operations} operations, too short for a ±",
        ),
        Unsteady { .. } => ("not steady", "the rate is not steady: it is known within ± {half_width} only"),
        Drifted { .. } => (
            "the rate drifted",
            "the rate is not steady: it drifted from {first_ops_per_second} to {last_ops_per_second} in {elapsed_seconds}",
        ),
        RateChanged { .. } => (
            "not steady: the rate changed",
            "the rate is not steady: it went from {before_ops_per_second} to {after_ops_per_second} after {at_seconds}",
        ),
        RateChangedOften { .. } => (
            "not steady: the rate changed",
            "the rate is not steady: it changed {changes} times between {lowest_ops_per_second} and {highest_ops_per_second}",
        ),
        WideInterval { .. } => (
            "± is wider than asked for",
            "the rate is known within ± {half_width}, and the goal was {wanted}",
        ),
        FewParts { .. } => (
            "± is not known",
            "the run has {parts} independent parts, too few to tell how surely the rate is known",
        ),
        OneRun { .. } => (
            "another run may differ more",
            "± {half_width} covers this run only: on a virtual disk another run may lie further away",
        ),
        OneOfRuns { .. } => (
            "another run may differ more",
            "± {half_width} covers this run only: after {runs} runs here, expect another at {low} to {high} of this rate",
        ),
        MemoryFilled { .. } => (
            "memory was full of dirty pages",
            "after {moved_bytes} and {at_seconds} the rate went from {first_bytes_per_second} to {then_bytes_per_second}: memory was full of dirty pages. The table shows the whole",
        ),
        MemoryFilledByOps { .. } => (
            "memory was full of dirty pages",
            "after {at_seconds} the rate went from {first_ops_per_second} to {then_ops_per_second}: memory was full of dirty pages. The table shows the whole",
        ),
        RanOut { .. } => (
            "a cache or burst credit may have run out",
            "after {moved_bytes} and {at_seconds} the rate went from {first_bytes_per_second} to {then_bytes_per_second}: a cache or a burst credit may have run out. The table shows the rate after it",
        ),
        RanOutByOps { .. } => (
            "a cache or burst credit may have run out",
            "after {at_seconds} the rate went from {first_ops_per_second} to {then_ops_per_second}: a cache or a burst credit may have run out. The table shows the rate after it",
        ),
        RanOutMean { .. } => (
            "a cache or burst credit may have run out",
            "after {moved_bytes} and {at_seconds} the rate went from {first_bytes_per_second} to {then_bytes_per_second}: a cache or a burst credit may have run out. The table shows the mean",
        ),
        RanOutMeanByOps { .. } => (
            "a cache or burst credit may have run out",
            "after {at_seconds} the rate went from {first_ops_per_second} to {then_ops_per_second}: a cache or a burst credit may have run out. The table shows the mean",
        ),
        TooEven { .. } => (
            "looks like a limit somebody set",
            "the rate varied by {variation} between half seconds, while latencies went from {p50_ns} to {p99_ns}: a set limit is likely",
        ),
        SeveralModes { .. } => ("latencies have several peaks", "latencies have several peaks: {modes}"),
        ForeignIo { .. } => {
            ("others used the device", "{foreign_share} of the bytes on {device} were not this test's")
        }
        Steal { .. } => {
            ("the hypervisor took CPU time", "the hypervisor took {stolen_share} of the threads' time")
        }
        WaitedForCpu { .. } => {
            ("threads waited for a CPU", "its threads waited for a CPU for {waited_share} of their time")
        }
        OthersOnCpus { .. } => {
            ("other programs used the CPUs", "other programs used {others_share} of all CPU time meanwhile")
        }
        DriveHot { .. } => (
            "the drive is hot",
            "{device} was at {celsius} at the end of the test, and its limit is {limit_celsius}",
        ),
        CpuThrottled { .. } => {
            ("CPUs were throttled", "CPUs were throttled {times} times for their temperature")
        }
        TargetUpkeep { .. } => (
            "the array or file system was busy",
            "the array or file system was busy with its own upkeep ({work})",
        ),
        OtherUpkeep { .. } => (
            "upkeep ran on this machine",
            "upkeep ran on this machine, perhaps on another file system ({work})",
        ),
        ParityWrites { .. } => (
            "the array reads parity first",
            "members of {array} read {read_bytes} and wrote {written_bytes} for {asked_bytes} of writes: the array reads parity before it writes parts of stripes",
        ),
        BusyMember { .. } => (
            "one member may hold the array back",
            "{member} moved {times} times as many bytes as the mean of the members of {array}, so it may hold them back",
        ),
        Fragmented { .. } => (
            "files lie in many pieces",
            "the files lie in {extents} pieces of {mean_bytes} on average, on a rotational device",
        ),
        DeviceCompresses { .. } => (
            "the target compresses",
            "{device} compresses, and this row's data compresses by {compressible_share}: other data gives another rate",
        ),
        FileSystemCompresses { .. } => (
            "the target compresses",
            "this {file_system} compresses, and this row's data compresses by {compressible_share}: other data gives another rate",
        ),
        StoredSmaller { .. } => (
            "the target compresses",
            "this {file_system} stores compressible data in {stored_share} of its size, and this row's data compresses by {compressible_share}: other data gives another rate",
        ),
        WriteCacheHeld { .. } => (
            "a write cache may have helped",
            "{device} has a write cache and took {written_bytes} without slowing down: a longer test may fill it",
        ),
        WholePages { .. } => (
            "the kernel reads whole pages",
            "the device read {ratio} bytes per byte asked for: the kernel reads whole pages",
        ),
        ReadAheadUnused { .. } => (
            "read-ahead was not used",
            "the device read {ratio} bytes per byte asked for: part of the read-ahead was not used",
        ),
        Amplification { .. } => (
            "the device's writes and flushes",
            "the device wrote {ratio} bytes per byte asked for and made {flushes} flushes per operation",
        ),
        ReadOnce { .. } => (
            "ended after one pass",
            "the test ended after one pass of {elapsed_seconds}, as memory would answer a second",
        ),
        WrittenOnce { .. } => (
            "ended after one pass",
            "the test ended after one pass of {elapsed_seconds}, as a second would replace blocks in memory",
        ),
        WriteLimitReached { .. } => (
            "ended at the write limit",
            "the test stopped after {elapsed_seconds}, as it had written its part of the write limit ({limit_bytes})",
        ),
        Knee { .. } => (
            "the knee of this sweep",
            "this is the knee of the sweep: {throughput_share} of the highest throughput at {latency_share} of the longest mean latency. Beyond it, load buys more waiting than work",
        ),
        NoKnee {} => (
            "no knee up to here",
            "the sweep has no knee up to here: more load still buys more work than waiting",
        ),
    }
}
