//! A sentence for each kind of advice.

use model::advice::Advice;

/// The template of the sentence, with its full stop.
pub(crate) fn words(advice: &Advice) -> &'static str {
    use Advice::*;
    match advice {
        Unknown => "",
        LowerRate {} => "Ask for a lower rate.",
        ChooseDisk {} => "Choose a directory on a disk.",
        SizeTwiceMemory {} => "Ask for a --size of twice the memory.",
        SizeWithinMemory {} => "Ask for a --size that fits into memory.",
        SizeTwiceServer {} => "Ask for a --size of twice that memory.",
        ServerRam {} => "Give its memory with --server-ram, and ask for a --size of twice that.",
        LargerSize {} => "Ask for a larger --size.",
        LargerSizeOrOnePass {} => "Ask for a larger --size, or add :passes=1.",
        OnePassOrLargerSize {} => {
            "Read the set once, with :passes=1, or ask for a --size that the cache cannot hold."
        }
        OnePass {} => "Try :passes=1.",
        RunAgain {} => "Something has changed the files since they were laid out: run it again.",
        ReadWritten {} => "Name a file that is written to its end, or fill this one first.",
        Repeat {} => "With --repeat 3 you see how far other runs lie from it.",
        LongerTime {} => "Ask for a longer --time.",
        LongerTimeAndLimit {} => "Test with a longer --time and a larger --write-limit.",
        MoreOperations {} => "Ask for more operations.",
        RaiseWriteLimit {} => "Raise --write-limit.",
        MoreFiles {} => "Ask for more --files.",
        Buffered {} => "Add :buffered, or --buffered.",
        FewerFilesOrLongerTime {} => "Ask for fewer files or a longer --time.",
        MountOrdered {} => "With data=journal, ext4 buffers everything: mount it with data=ordered.",
        MountUncompressed {} => "Compressed files are always buffered: mount it without compression.",
        NoChecksums {} => "Checksums make btrfs buffer direct writes; a directory with `chattr +C` has none.",
        ZfsDirect {} => {
            "Before version 2.3, ZFS takes O_DIRECT and ignores it; later ones follow the property `direct`."
        }
        BufferingOptions {} => "Look at its mount options and features: one of them makes it buffer.",
        MountWithout { .. } => "Mount it without {option}.",
        FindReduction { .. } => "Look for compression, deduplication or a cache in this {file_system}.",
        FindKeeper { .. } => "Find out why this {file_system} keeps the rest.",
        FindFlush {} => "Find out which before you rely on it.",
        CompareWithCare {} => "Compare the row with care.",
        FindOthers { .. } => {
            "Find out who else uses {device} (iotop, pidstat -d), and run it again when it is quiet."
        }
        QuietDevice {} => "Find the other program with iotop, and run it again.",
        QuietHost {} => "Run it again when the host is quiet.",
        StopOthers {} => "Stop the other programs, or give the test CPUs of its own, and run it again.",
        CheckIostats { .. } => "Check whether its counters are on (/sys/class/block/{device}/queue/iostats).",
        CheckDevices { .. } => "Check whether skye knows all devices under {mount_point}.",
        SyncEnd {} => "Try it with sync=end.",
        ColdCache {} => "Try it with --cache cold.",
        ColdNames {} => "As root, ask for cold names with --cold.",
        OrDirect {} => "Direct I/O (:direct) avoids the page cache.",
        FindReader {} => "Look for a program that reads these files or keeps them in memory.",
        FindMapper {} => "Look for a program that maps these files.",
        WaitForInodes {} => "Wait 5 minutes after deleting many files here, or test in another directory.",
        FindLimit {} => "Look for a limit of a cgroup, of the volume type, or of the provider.",
        CoolDown {} => "Let the machine cool down, and check the airflow.",
        WaitForMaintenance {} => "Wait until that is done, and run it again.",
        WholeStripes {} => "Try blocks of a whole stripe.",
        CheckLayout { .. } => "Check the layout of the array around {member}.",
        SweepFurther {} => "Sweep further.",
        LeaveRateAway {} => "Drop rate= to see how much the target can do.",
        SeeDevice {} => {
            "With :direct the device's own speed shows; vm.dirty_bytes sets how much may wait in memory."
        }
        MeasureStorage {} => "Use --cache cold or :direct to measure the storage.",
        LargerBlocks {} => "Larger blocks cost less CPU a byte.",
        BlocksForStdio {} => {
            "Blocks (write:seq1m) avoid the C library; stdio_buffer= changes how many bytes a call carries."
        }
        BlocksForBytes {} => "Each byte is a system call of its own: use blocks to measure the storage.",
        NotTheStorage {} => "This is no limit of the storage.",
        ChangeGave { .. } => "With {change} the rate was {times} times as high.",
        MoreDepth {} => "Use more depth or more threads, if your program can.",
        MoreInFlightMight { .. } => {
            "With {in_flight} operations in flight the rate might reach {ops_per_second}, if latency stays the same (Little's law)."
        }
        DepthUntriedWrites {} => {
            "Whether more depth brings more was not tried, as the test writes; --probe-writes does."
        }
        DepthUntried {} => "Whether more depth brings more was not tried.",
        MoreThreadsUpTo { .. } => {
            "Try {threads} threads (:t{threads}): up to {times} times the rate, if CPUs are free."
        }
        OrDirectAndDeep {} => "Or use :direct with more depth.",
        NoCpuLeft {} => "Each CPU has its thread already.",
        EitherHelps {} => "Either helps: less CPU for each operation, or a shorter wait.",
        MoreThreads {} => "More threads may help.",
        MoreLoops {} => "Use more threads: each adds a loop of its own.",
        ParallelHelpers {} => "Choose a faster cipher, or mount several times.",
        OneForEach {} => "Drop :shared, or use a file or directory for each thread.",
        MoreMemory {} => "Give the machine or the cgroup more memory, or use direct I/O.",
        RaiseQueue {} => {
            "Raise the number of places (nr_requests, max_background, slots of the mount), or use less depth."
        }
        RaiseQuota {} => "Raise the cgroup's CPU quota (cpu.max, cpu.cfs_quota_us), or run outside of it.",
        FasterLink {} => "Use a faster link, several of them, or compression.",
        ObserveServer {} => "Let skye watch the server, too: --observe SERVER:DIR.",
        RaiseServerThreads {} => {
            "Give the NFS server more threads (/proc/fs/nfsd/threads): if the rate stays, its device is the limit."
        }
        MoreClients {} => "Add clients: the storage can do more.",
        FewerClients {} => "Run it with half the clients: if the rate stays, what they share is full.",
        LookAtServer {} => "Look at the server for its own limit.",
        GroupCommit {} => {
            "More threads (t4) let several syncs share a flush; a drive with power-loss protection makes flushes cheap."
        }
        RaiseLimit { .. } => "Raise the limit in {source}, or measure outside of that cgroup.",
        FindLimitOfBytes {} => {
            "Look for a limit of bytes: of a cgroup, of the volume type, or of the provider."
        }
        FindLimitOfOperations {} => {
            "Look for a limit of operations: of a cgroup, of the volume type, or of the provider."
        }
        RepeatLater {} => "Repeat it (--repeat 5) at another time of the day.",
        MeasureLonger {} => "Measure it for longer, or when the machine and the target are quiet.",
    }
}
