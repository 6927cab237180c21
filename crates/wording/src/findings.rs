//! What is said of each kind of finding: a clause, and a sentence.

use model::finding::Finding;

/// The clause, and the template of the sentence.
pub(crate) fn words(finding: &Finding) -> (&'static str, &'static str) {
    use Finding::*;
    match finding {
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
        IntoCache { .. } => {
            ("the sync is included", "into the cache at {bytes_per_second}; the headline includes the sync")
        }
        IntoCacheByOps { .. } => {
            ("the sync is included", "into the cache at {ops_per_second}; the headline includes the sync")
        }
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
            "{missed} of {due} operations that were due never started: it cannot keep this rate. The latencies are of those that did",
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
            "files have holes",
            "{holes_share} of the files are holes and {unwritten_share} are allocated but unwritten: the file system reads those without the device. Something has changed the files since they were laid out",
        ),
        DirectMissedDevice { .. } => (
            "O_DIRECT had no effect",
            "the device moved only {moved_share} of the bytes, so O_DIRECT was not direct on this {file_system}",
        ),
        DirectFilledCache { .. } => (
            "O_DIRECT had no effect",
            "{cached_share} of the files had come into the page cache afterwards, so O_DIRECT was not direct on this {file_system}",
        ),
        DirectMadeDirty { .. } => (
            "O_DIRECT had no effect",
            "{dirtied_share} of the bytes written went through the page cache, so O_DIRECT was not direct on this {file_system}",
        ),
        DeviceMovedLess { .. } => (
            "the device moved too little",
            "the device moved only {ratio} bytes per byte asked for; the rest never reached it",
        ),
        CopyOnWriteOverhead { .. } => (
            "the file system writes more",
            "the device moved {ratio} bytes per byte asked for: {file_system} writes its own trees besides, and skye cannot tell those from other programs' I/O",
        ),
        DeviceMovedMore { .. } => (
            "the file system moves more",
            "the device moved {ratio} bytes per byte asked for, all of them for this test: {file_system} adds its own",
        ),
        DeviceMovedForOthers { .. } => (
            "others used the device",
            "the device moved {ratio} bytes per byte asked for: something else used it",
        ),
        DeviceCountedNothing { .. } => (
            "the device's counters are off",
            "{device} counted 0 requests while this test moved {moved_bytes}, so nothing could be compared",
        ),
        ChargedMore { .. } => (
            "counters disagree",
            "the kernel charged this test with more bytes read than the device counted: {excess} of what was asked for",
        ),
        DepthNotReached { .. } => (
            "operations waited above the device",
            "{in_flight} operations were in flight and {at_device} in the device: the others waited above it",
        ),
        NothingDurable { .. } => (
            "nothing was made durable",
            "no sync made the {written_bytes} durable, so this is the speed of memory",
        ),
        SyncsNotFlushed { .. } => (
            "syncs do not flush the device",
            "mounted with {option}: a sync does not flush to the medium, and the data may be lost with the power",
        ),
        FlushTooFast { .. } => (
            "flushes are too fast to be real",
            "half of the flushes took at most {typical_ns}, and no medium stores data so fast. {device} reports a volatile cache",
        ),
        ReplacedInMemory { .. } => (
            "blocks were replaced in memory",
            "only {reached_share} of the bytes written reached the device: each block was written {passes} times and replaced in memory before",
        ),
        DidNotReachDevice { .. } => (
            "writes did not reach the device",
            "only {reached_share} of the bytes written and synced reached the device",
        ),
        CacheWarm { .. } => (
            "from memory, as asked for",
            "{cached_share} of the bytes came from memory, as asked for: the speed of the page cache",
        ),
        CacheHalfWarm { .. } => (
            "only partly from memory",
            "{cached_share} of the bytes came from memory, though the cache was to be warm: this is a mixture of two speeds",
        ),
        CacheAnswered { .. } => (
            "partly from memory",
            "{cached_share} of the bytes came from memory, so this is not the device's speed",
        ),
        CacheAnsweredAgain { .. } => (
            "partly from memory",
            "{cached_share} of the bytes came from memory: this test read each block {passes} times. This is not the device's speed",
        ),
        CacheNotCold { .. } => (
            "partly from memory",
            "{cached_share} of the bytes came from memory, though the cache was to be cold, so this is not the device's speed",
        ),
        CacheNotDropped { .. } => (
            "the cache was not cold",
            "{cached_share} of the set could not be dropped from the page cache before it was read",
        ),
        LowerCache { .. } => (
            "a cache below may have answered",
            "a cache below this system answers repeated reads: {blocks} blocks took {first_ns} on average the first time and {second_ns} the second. This test read its set {passes} times",
        ),
        LowerCacheByP99 { .. } => (
            "a cache below may have answered",
            "a cache below this system answers repeated reads: {blocks} blocks took {first_ns} at the 99th percentile the first time and {second_ns} the second. This test read its set {passes} times",
        ),
        LowerCacheUnused { .. } => (
            "a cache below was not used",
            "a cache below this system answers repeated reads: {blocks} blocks took {first_ns} on average the first time and {second_ns} the second. This test read no block twice",
        ),
        LowerCacheUnusedByP99 { .. } => (
            "a cache below was not used",
            "a cache below this system answers repeated reads: {blocks} blocks took {first_ns} at the 99th percentile the first time and {second_ns} the second. This test read no block twice",
        ),
        ServerHolds { .. } => (
            "the server may cache the set",
            "the server's memory of {memory_bytes} can hold {held_share} of the set of {size_bytes}, which then need not come from its disks",
        ),
        ServerMemoryUnknown { .. } => (
            "the server may cache the set",
            "the server may have answered from its memory, which is not seen from here: the set is only {size_bytes}",
        ),
        LaterPassesFaster { .. } => (
            "later passes were faster",
            "read the set {passes} times, and later passes were {gain} faster than the first: it may have filled a cache below this system",
        ),
        NamesFromMemory { .. } => (
            "names came from memory",
            "served from memory: the device read 0 bytes for {operations} operations, so this says nothing about the disk",
        ),
        InodeSearch {} => (
            "ext4 searched for free inodes",
            "ext4 without a journal does not reuse inodes for 1 to 5 minutes after a deletion, and searches past them on the CPU",
        ),
        LongSync { .. } => (
            "the rate has no interval",
            "the sync at the end took {share} of {elapsed_seconds}, so the rate is one observation without an interval",
        ),
        FewRounds { .. } => (
            "too few rounds",
            "{operations} operations in {rounds:round} are too few to tell how sure the rate is",
        ),
        Short { .. } => (
            "too short",
            "{operations} operations in {elapsed_seconds} are too few to tell how sure the rate is",
        ),
        Unsteady { .. } => (
            "not steady",
            "not steady: its rate is only known within ± {half_width} of it, so this is a mean over all of it",
        ),
        Drift { .. } => (
            "not steady: the rate drifted",
            "not steady: its rate drifted for {elapsed_seconds}, so this is a mean over all of it",
        ),
        RateChanged { .. } => (
            "not steady: the rate changed",
            "not steady: its rate went from {before_ops_per_second} to {after_ops_per_second} after {at_seconds}, so this is a mean over all of it",
        ),
        RateChangedOften { .. } => (
            "not steady: the rate changed",
            "not steady: its rate changed {changes} times, between {lowest_ops_per_second} and {highest_ops_per_second}, so this is a mean over all of it",
        ),
        WideInterval { .. } => (
            "known less well than asked for",
            "the rate is only known within ± {half_width} of it; {wanted} was wanted",
        ),
        OneRun { .. } => (
            "another run may differ more",
            "± {half_width} is of this run; on a disk of a virtual machine another run may lie further away",
        ),
        MemoryFilled { .. } => (
            "memory was full of dirty pages",
            "the first {moved_bytes} went at {first_bytes_per_second}, the rest at {then_bytes_per_second}: after {at_seconds} memory was full of dirty pages. The row has all of it, with the sync",
        ),
        MemoryFilledByOps { .. } => (
            "memory was full of dirty pages",
            "for {at_seconds} it went at {first_ops_per_second}, then at {then_ops_per_second}: memory was full of dirty pages. The row has all of it, with the sync",
        ),
        RanOut { .. } => (
            "a cache or a credit ran out",
            "the first {moved_bytes} went at {first_bytes_per_second}, the rest at {then_bytes_per_second}: a cache or a credit ran out after {at_seconds}. The row has the rate after it",
        ),
        RanOutByOps { .. } => (
            "a cache or a credit ran out",
            "for {at_seconds} it went at {first_ops_per_second}, then at {then_ops_per_second}: a cache or a credit ran out. The row has the rate after it",
        ),
        RanOutMean { .. } => (
            "a cache or a credit ran out",
            "the first {moved_bytes} went at {first_bytes_per_second}, the rest at {then_bytes_per_second}: a cache or a credit ran out after {at_seconds}. The row is a mean over both",
        ),
        RanOutMeanByOps { .. } => (
            "a cache or a credit ran out",
            "for {at_seconds} it went at {first_ops_per_second}, then at {then_ops_per_second}: a cache or a credit ran out. The row is a mean over both",
        ),
        TooEven { .. } => (
            "looks like a limit somebody set",
            "the rate varied by {variation} between half seconds, latencies from {p50_ns} to {p99_ns}: this looks like a limit that somebody set, not like a device",
        ),
        SeveralModes { .. } => ("several kinds of operations", "several kinds of operations: {modes}"),
        ForeignIo { .. } => {
            ("others used the device", "{foreign_share} of the bytes on {device} were not this test's")
        }
        Steal { .. } => {
            ("the hypervisor took CPU time", "the hypervisor took {stolen_share} of the threads' time")
        }
        WaitedForCpu { .. } => (
            "threads waited for a CPU",
            "its threads waited {waited_share} of their time for a CPU, which other programs used",
        ),
        DriveHot { .. } => (
            "the drive is hot",
            "{device} was at {celsius} when it ended, and slows down from {limit_celsius} on",
        ),
        CpuThrottled { .. } => {
            ("CPUs were throttled", "CPUs were throttled {times} times for their temperature")
        }
        TargetUpkeep { .. } => {
            ("the target was busy with itself", "the target was busy with itself ({work})")
        }
        OtherUpkeep { .. } => {
            ("upkeep ran on this machine", "upkeep ran meanwhile, on this file system or another ({work})")
        }
        ParityWrites { .. } => (
            "the array reads parity first",
            "members of {array} read {read_bytes} and wrote {written_bytes} for {asked_bytes} of writes: the array first reads the parity of parts of stripes",
        ),
        BusyMember { .. } => (
            "one member holds the array back",
            "{member} moved {times} times as many bytes as the mean of the members of {array}: the others wait for it",
        ),
        Fragmented { .. } => (
            "files lie in many pieces",
            "the files lie in {extents} pieces of {mean_bytes} on average, on a rotational device: the file system is aged or full",
        ),
        DeviceCompresses { .. } => (
            "the target compresses",
            "{device} compresses its data; the data of this row compresses by {compressible_share}; other data gives another rate",
        ),
        FileSystemCompresses { .. } => (
            "the target compresses",
            "this {file_system} compresses; the data of this row compresses by {compressible_share}; other data gives another rate",
        ),
        StoredSmaller { .. } => (
            "the target compresses",
            "this {file_system} stores compressible data in {stored_share} of its size; the data of this row compresses by {compressible_share}; other data gives another rate",
        ),
        WriteCacheHeld { .. } => (
            "a write cache may have helped",
            "{device} has a write cache and took {written_bytes} without slowing down; whether it keeps that up is not known",
        ),
        WholePages { .. } => (
            "the kernel reads whole pages",
            "the device read {ratio} bytes per byte asked for: the kernel reads whole pages",
        ),
        ReadAheadUnused { .. } => (
            "read-ahead was not used",
            "the device read {ratio} bytes per byte asked for: read-ahead that was not used",
        ),
        Amplification { .. } => (
            "the device wrote more than asked",
            "the device wrote {ratio} bytes per byte asked for and made {flushes} flushes per operation",
        ),
        ReadOnce { .. } => (
            "ended after one pass",
            "ended after one pass of {elapsed_seconds}: a second would be served from memory",
        ),
        WrittenOnce { .. } => (
            "ended after one pass",
            "ended after one pass of {elapsed_seconds}: a second would replace in memory what the first left there",
        ),
        WriteLimitReached { .. } => (
            "ended at the write limit",
            "ended after {elapsed_seconds}, when it had written its part of the write limit, {limit_bytes}",
        ),
        Knee { .. } => (
            "the knee of this sweep",
            "the knee of this sweep: {throughput_share} of the highest throughput at {latency_share} of the longest mean latency; beyond it, load buys more waiting than work",
        ),
        InWords => ("found by another version", ""),
        NoKnee {} => {
            ("no knee up to here", "no knee up to here: more load still buys more work than waiting")
        }
    }
}
