//! A sentence for each kind of advice.

use model::advice::Advice;

/// The template of the sentence, with its full stop.
pub(crate) fn words(advice: &Advice) -> &'static str {
    use Advice::*;
    match advice {
        Unknown => "",
        LowerRate {} => "Set a lower rate=.",
        ChooseDisk {} => "Choose a directory on a disk.",
        SizeTwiceMemory {} => "Use a --size of twice the memory.",
        SizeWithinMemory {} => "Use a --size that fits into memory.",
        SizeTwiceServer {} => "Use a --size of twice that memory.",
        ServerRam {} => "Set its memory with --server-ram, and use a --size of twice that.",
        LargerSize {} => "Use a larger --size.",
        LargerSizeOrOnePass {} => "Use a larger --size, or add :passes=1.",
        OnePassOrLargerSize {} => "Add :passes=1, or use a --size larger than the cache.",
        BypassLowerCache {} => {
            "Use direct I/O below (losetup --direct-io=on, or direct_io of the FUSE mount), or a --size of twice the memory."
        }
        OnePass {} => "Add :passes=1.",
        RunAgain {} => "The files have changed since they were laid out: run the test again.",
        ReadWritten {} => "Choose a fully written file, or fill this one first.",
        Repeat { .. } => "Add --repeat {runs} to measure the spread between runs.",
        LongerTime {} => "Use a longer --time.",
        LongerTimeAndLimit {} => "Use a longer --time and a larger --write-limit.",
        MoreOperations {} => "Use more operations.",
        RaiseWriteLimit {} => "Raise --write-limit.",
        MoreFiles {} => "Use more --files.",
        Buffered {} => "Add :buffered, or --buffered.",
        FewerFilesOrLongerTime {} => "Use fewer files or a longer --time.",
        MountOrdered {} => "Mount it with data=ordered: with data=journal, ext4 buffers all I/O.",
        MountUncompressed {} => "Mount it without compression: compressed files are always buffered.",
        NoChecksums {} => {
            "Use a directory with `chattr +C`: btrfs buffers direct writes to files with checksums."
        }
        ZfsDirect {} => {
            "Use ZFS 2.3 or later, where the property `direct` controls O_DIRECT: earlier versions ignore it."
        }
        BufferingOptions {} => "Check its mount options and features: one of them makes it buffer.",
        MountWithout { .. } => "Mount it without {option}.",
        FindReduction { .. } => "Look for compression, deduplication or a cache in this {file_system}.",
        FindKeeper { .. } => "Find out why this {file_system} does not write the rest.",
        FindFlush {} => "Find out which of the two before you trust its syncs.",
        CompareWithCare {} => "Compare the row with care.",
        FindOthers { .. } => {
            "Find the other program on {device} (iotop, pidstat -d), and run the test again when it is quiet."
        }
        QuietDevice {} => "Find the other program with iotop, and run the test again.",
        QuietHost {} => "Run the test again when the host is quiet.",
        StopOthers {} => "Stop the other programs, or give the test separate CPUs, and run it again.",
        CheckIostats { .. } => "Check that its counters are on (/sys/class/block/{device}/queue/iostats).",
        CheckDevices { .. } => "Check that skye lists all devices under {mount_point}.",
        SyncEnd {} => "Use sync=end.",
        ColdCache {} => "Use --cache cold.",
        ColdNames {} => "Add --cold (as root) to drop cached metadata first.",
        OrDirect {} => "Use :direct to avoid the page cache.",
        FindReader {} => "Look for a program that reads these files or keeps them in memory.",
        FindMapper {} => "Look for a program that maps these files.",
        WaitForInodes {} => "Wait 5 minutes after deleting many files here, or choose another directory.",
        FindLimit {} => "Look for a limit of the cgroup, the volume type or the provider.",
        CoolDown {} => "Let the machine cool down, and check the airflow.",
        WaitForMaintenance {} => "Wait until it is done, and run the test again.",
        WholeStripes {} => "Use blocks of a whole stripe.",
        SpreadPlaces {} => "Compare on the same files (`skye ab DIR --a CMD --b CMD`), or use --places 8.",
        SameFiles {} => "Compare on the same files (`skye ab DIR --a CMD --b CMD`).",
        CheckLayout { .. } => "Check why the array sends more I/O to {member}.",
        SweepFurther {} => "Extend the sweep.",
        LeaveRateAway {} => "Drop rate= to measure the highest rate.",
        SeeDevice {} => "Use :direct to measure the device; vm.dirty_bytes limits dirty memory.",
        MeasureStorage {} => "Use --cache cold or :direct to measure the storage.",
        LargerBlocks {} => "Use larger blocks: they need less CPU per byte.",
        BlocksForStdio {} => {
            "Use blocks (write:seq1m) to avoid the C library; stdio_buffer= sets the bytes per call."
        }
        BlocksForBytes {} => "Use blocks to measure the storage: here each byte is a system call.",
        NotTheStorage {} => "The storage is not the limit.",
        ChangeGave { .. } => "With {change} the rate was {times} times as high.",
        MoreDepth {} => "Use more depth or more threads, if your program can.",
        MoreInFlightMight { .. } => {
            "With {in_flight} operations in flight, the rate might reach {ops_per_second} at the same latency (Little's law)."
        }
        DepthUntried {} => "More depth was not tried.",
        MoreThreadsUpTo { .. } => {
            "Try {threads} threads (:t{threads}): up to {times} times the rate, if CPUs are free."
        }
        OrDirectAndDeep {} => "Or use :direct with more depth.",
        NoCpuLeft {} => "Each CPU already has a thread.",
        EitherHelps {} => "Reduce the CPU time per operation, or the wait.",
        MoreThreads {} => "Try more threads.",
        MoreLoops {} => "Use more threads: each runs its own I/O loop.",
        ParallelHelpers {} => "Choose a faster cipher, or use several mounts.",
        MoreProgramThreads {} => "Give that program more threads, or use several mounts.",
        OneForEach {} => "Drop :shared, or use one file or directory per thread.",
        MoreMemory {} => "Add memory to the machine or the cgroup, or use :direct.",
        RaiseQueue {} => {
            "Raise the number of queue slots (nr_requests, max_background, slots of the mount), or use less depth."
        }
        RaiseQuota {} => "Raise the cgroup's CPU quota (cpu.max, cpu.cfs_quota_us), or run outside of it.",
        FasterLink {} => "Use a faster link, several links, or compression.",
        ObserveServer {} => "Add --observe SERVER:DIR to sample the server's counters.",
        RaiseServerThreads {} => {
            "Give the NFS server more threads (/proc/fs/nfsd/threads): if the rate stays the same, its device is the limit."
        }
        MoreClients {} => "Add clients: the storage has headroom.",
        FewerClients {} => {
            "Run it with half the clients: if the rate stays the same, the shared part is saturated."
        }
        LookAtServer {} => "Check the server for its limit.",
        GroupCommit {} => {
            "Use more threads (:t4), so that several syncs share a flush; power-loss protection makes flushes cheap."
        }
        RaiseLimit { .. } => "Raise the limit in {source}, or measure outside of that cgroup.",
        FindLimitOfBytes {} => "Look for a bandwidth limit of the cgroup, the volume type or the provider.",
        FindLimitOfOperations {} => "Look for an IOPS limit of the cgroup, the volume type or the provider.",
        RepeatLater {} => "Repeat it at another time of the day.",
        MeasureLonger {} => "Use a longer --time, or run it when the machine and the target are quiet.",
    }
}
