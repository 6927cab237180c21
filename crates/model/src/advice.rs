//! Advice: actions to take on a finding or a limit. Kinds, some with figures; the crate `wording` has the sentences.

use crate::figure::*;

kinds! {
    /// An action.
    Advice {
        /// Set a lower rate.
        LowerRate {}
        /// Choose a directory on a disk.
        ChooseDisk {}
        /// Use a data set of twice the memory.
        SizeTwiceMemory {}
        /// Use a data set that fits into memory.
        SizeWithinMemory {}
        /// Use a data set of twice the server's memory.
        SizeTwiceServer {}
        /// State the server's memory, and use a data set of twice that.
        ServerRam {}
        /// Use a larger data set.
        LargerSize {}
        /// Use a larger data set, or one pass.
        LargerSizeOrOnePass {}
        /// Use one pass, or a data set larger than the cache.
        OnePassOrLargerSize {}
        /// Bypass the cache below, or use a data set larger than memory.
        BypassLowerCache {}
        /// Use one pass.
        OnePass {}
        /// Run it again.
        RunAgain {}
        /// Read a file that is written.
        ReadWritten {}
        /// Repeat the run as often as a comparison of its rows needs.
        Repeat { runs: Count }
        /// Use a longer test.
        LongerTime {}
        /// Use a longer test that may write more.
        LongerTimeAndLimit {}
        /// Use more operations.
        MoreOperations {}
        /// Raise the limit for writes.
        RaiseWriteLimit {}
        /// Use more files.
        MoreFiles {}
        /// Request buffered I/O.
        Buffered {}
        /// Use fewer files, or a longer test.
        FewerFilesOrLongerTime {}
        /// Mount it so that data is not written to the journal.
        MountOrdered {}
        /// Mount it without compression.
        MountUncompressed {}
        /// Use a directory without checksums.
        NoChecksums {}
        /// Check the version of ZFS and its property for direct I/O.
        ZfsDirect {}
        /// Look for a mount option or feature that makes the file system buffer.
        BufferingOptions {}
        /// Mount it without `option`.
        MountWithout { option: Name }
        /// Look for compression, deduplication or a cache.
        FindReduction { file_system: Name }
        /// Find out why the file system keeps part of the data.
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
        /// Spread the data over the disk, or compare on the same files.
        SpreadPlaces {}
        /// Compare on the same files.
        SameFiles {}
        /// Check which devices are below.
        CheckDevices { mount_point: Name }
        /// Add a sync at the end.
        SyncEnd {}
        /// Use a cold cache.
        ColdCache {}
        /// Use cold names: the test drops cached names first.
        ColdNames {}
        /// Use direct I/O instead.
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
        /// Wait until the target has finished its maintenance.
        WaitForMaintenance {}
        /// Use blocks of a whole stripe.
        WholeStripes {}
        /// Check the layout of the array around `member`.
        CheckLayout { member: Name }
        /// Sweep further.
        SweepFurther {}
        /// Drop the rate limit, to measure the highest rate.
        LeaveRateAway {}
        /// Use direct I/O to see the device's own speed.
        SeeDevice {}
        /// Use a cold cache or direct I/O to measure the storage.
        MeasureStorage {}
        /// Use larger blocks.
        LargerBlocks {}
        /// Use blocks in place of single bytes through the C library.
        BlocksForStdio {}
        /// Use blocks in place of single bytes through system calls.
        BlocksForBytes {}
        /// The limit is not the storage.
        NotTheStorage {}
        /// An experiment with this change reached this many times the rate.
        ChangeGave { change: Name, times: Ratio }
        /// Use more depth or more threads; an experiment has shown that they help.
        MoreDepth {}
        /// More operations in flight might reach a higher rate, by Little's law.
        MoreInFlightMight { in_flight: Count, ops_per_second: OpsPerSecond }
        /// No experiment tried more depth.
        DepthUntried {}
        /// Use threads for the CPUs that are left.
        MoreThreadsUpTo { threads: Count, times: Mean }
        /// Or use direct I/O with more depth.
        OrDirectAndDeep {}
        /// Each CPU has its thread already.
        NoCpuLeft {}
        /// Less CPU per operation or a shorter wait: either helps.
        EitherHelps {}
        /// More threads may help.
        MoreThreads {}
        /// Use more threads: each adds a loop of skye's own.
        MoreLoops {}
        /// Choose a faster cipher, or mount several times so that helpers work in parallel.
        ParallelHelpers {}
        /// Give the program that serves the target more threads.
        MoreProgramThreads {}
        /// Use a file or directory for each thread.
        OneForEach {}
        /// Add memory, or use direct I/O.
        MoreMemory {}
        /// Raise the number of queue slots, or use less depth.
        RaiseQueue {}
        /// Raise the quota of CPU time.
        RaiseQuota {}
        /// Use a faster link.
        FasterLink {}
        /// Look at the server for its own limit.
        LookAtServer {}
        /// Watch the server while its clients measure.
        ObserveServer {}
        /// Give an NFS server more threads, to see whether its device can do more.
        RaiseServerThreads {}
        /// Add clients: the storage has headroom.
        MoreClients {}
        /// Run it with fewer clients, to see whether their number sets the rate.
        FewerClients {}
        /// Use more threads, so that several syncs share a flush.
        GroupCommit {}
        /// Raise the limit in `source`.
        RaiseLimit { source: Name }
        /// Look for a limit of bytes.
        FindLimitOfBytes {}
        /// Look for a limit of operations.
        FindLimitOfOperations {}
        /// Repeat the run at another time.
        RepeatLater {}
        /// Measure for longer, or on a quiet machine.
        MeasureLonger {}
    }
}
