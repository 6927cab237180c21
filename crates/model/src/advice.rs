//! Advice: what can be done about a finding or a limit. Kinds, some with figures; no English.

use serde::{Deserialize, Serialize};

use crate::figure::*;

kinds! {
    /// A thing to do, or to try.
    Advice {
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
        /// A rate that was asked for.
        LeaveRateAway {}
        /// Direct I/O, for the device's own speed.
        SeeDevice {}
        /// A cold cache, or direct I/O.
        MeasureStorage {}
        /// Larger blocks.
        LargerBlocks {}
        /// Blocks in place of single bytes through the C library.
        BlocksForStdio {}
        /// Blocks in place of single bytes through system calls.
        BlocksForBytes {}
        /// Something else than the storage is the limit.
        NotTheStorage {}
        /// What an experiment brought.
        ChangeGave { change: Name, times: Ratio }
        /// More depth or threads, as an experiment has shown.
        MoreDepth {}
        /// Operations in flight that might give more, by Little's law.
        MoreInFlightMight { in_flight: Count, ops_per_second: OpsPerSecond }
        /// Whether depth helps was not tried, as the test writes.
        DepthUntriedWrites {}
        /// Whether depth helps was not tried.
        DepthUntried {}
        /// Threads for the CPUs that are left.
        MoreThreadsUpTo { threads: Count, times: Mean }
        /// Direct I/O with more depth.
        OrDirectAndDeep {}
        /// Each CPU has its thread.
        NoCpuLeft {}
        /// More CPU or a faster target: either helps.
        EitherHelps {}
        /// More threads may help.
        MoreThreads {}
        /// Threads for skye's own loops.
        MoreLoops {}
        /// Parallel helpers.
        ParallelHelpers {}
        /// A file or directory for each thread.
        OneForEach {}
        /// Memory, or direct I/O.
        MoreMemory {}
        /// Places in a queue.
        RaiseQueue {}
        /// A quota of CPU time.
        RaiseQuota {}
        /// A faster link.
        FasterLink {}
        /// A look at the server.
        LookAtServer {}
        /// Commits for several threads.
        GroupCommit {}
        /// A limit that can be read.
        RaiseLimit { source: Name }
        /// Look for a limit of bytes.
        FindLimitOfBytes {}
        /// Look for a limit of operations.
        FindLimitOfOperations {}
        /// Several runs at another time.
        RepeatLater {}
        /// A longer test on a quiet machine.
        MeasureLonger {}
    }
}
