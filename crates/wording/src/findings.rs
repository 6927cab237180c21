//! All wording of findings. Each kind has a clause and a sentence. Each code has its mark, its rule and its meaning, for
//! `skye explain` and docs/remarks.md.

use model::finding::Finding;

/// Help on the findings of a code, as Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingHelp {
    /// The code.
    pub code: &'static str,
    /// Marks of the row.
    pub mark: &'static str,
    /// Tests that are looked at, and the rule.
    pub when: &'static str,
    /// Meaning for the number.
    pub meaning: &'static str,
}

macro_rules! findings {
    ($($code:literal $mark:literal when $when:literal means $meaning:literal:
        $($kind:ident $clause:literal, $sentence:literal;)+)+) => {
        /// Every code, in the order of [`Finding::CODES`].
        pub const FINDING_HELP: &[FindingHelp] =
            &[$(FindingHelp { code: $code, mark: $mark, when: $when, meaning: $meaning },)+];

        /// The clause, and the template of the sentence.
        pub(crate) fn words(finding: &Finding) -> (&'static str, &'static str) {
            match finding {
                $($(Finding::$kind { .. } => ($clause, $sentence),)+)+
                Finding::Unknown => ("found by another version", ""),
            }
        }
    };
}

findings! {
    "failed" "`!`"
        when "a call failed, or the test could not begin"
        means "There is no number, or it is of a part of the test. The row says why.":
        Failed "failed", "failed: {reason}";

    "skipped" "`!`"
        when "a test that was not tried"
        means "There is no number. The row says why.":
        Skipped "skipped", "skipped: {reason}";

    "ended_early" "`!`"
        when "a test that ended before its stop rule held"
        means "The number is of a part of the test. The row says why.":
        EndedEarly "ended early", "ended early: {reason}";

    "no_rate" "`!`"
        when "a test that finished and has no rate"
        means "There is no number. The row says why.":
        NoRate "no rate", "there is no rate: {reason}";

    "between_runs" "`·`"
        when "repetitions of a test"
        means "They lie as far apart as the remark says. `±` in the table covers one of them.":
        BetweenRuns "± is of one run", "{runs} repetitions lie within ± {spread} of {mean_bytes_per_second}; ± in the table is that of one";
        BetweenRunsByOps "± is of one run", "{runs} repetitions lie within ± {spread} of {mean_ops_per_second}; ± in the table is that of one";

    "into_cache" "`·`"
        when "writes through the page cache, with a sync or close at the end"
        means "The page cache took them at the rate that the remark gives, which other tools would show. The headline includes the sync or close.":
        IntoCache "the sync is included", "into the cache at {bytes_per_second}; the headline includes the sync or close at the end";
        IntoCacheByOps "the sync is included", "into the cache at {ops_per_second}; the headline includes the sync or close at the end";

    "waited_to_start" "`·`"
        when "tests with `rate`; more than a tenth of p99, or of p50, passed before operations were started"
        means "The storage was late with earlier operations. The wait is a part of the latency, as users feel it.":
        P99Waited "operations waited to be started", "operations waited {wait_ns} to start, of a p99 of {whole_ns}";
        P50Waited "operations waited to be started", "operations waited {wait_ns} to start, of a p50 of {whole_ns}";

    "verification_failed" "`!`"
        when "a block that skye compared is not what was written"
        means "Do not trust this storage with data before you know why. The failure names the file, the offset, and the expected and found bytes. If the found bytes belong elsewhere, it says where.":
        DataDiffers "data read differs from data written", "the data read is not the data written; nothing that this storage says can be trusted until the reason is known";

    "not_compared" "`·`"
        when "tests that read, after a test on the same files failed while it wrote"
        means "A block may be half written, so a difference would prove nothing. skye compares again once a test has written all blocks.":
        NotCompared "reads were not verified", "its reads were not verified: an earlier test failed while it wrote";

    "depth_by_threads" "`·`"
        when "depth with plain system calls"
        means "Each operation in flight is a thread. The remark gives the depth that you asked for, and the reason.":
        ThreadsForRing "threads instead of depth", "asked for as Q{depth}T{threads}; io_uring cannot be used here, so each operation in flight is a thread";
        ThreadsForDepth "threads instead of depth", "asked for as Q{depth}T{threads}; only a ring has depth, so each operation in flight is a thread";

    "engine_features_lost" "`·`"
        when "tests through a ring"
        means "The remark names the features that io_uring lacks here, and the reason.":
        RingWithout "io_uring lacks a feature", "io_uring had to do without {features}";

    "unlike_load" "`?` from 10 % on, else `·`"
        when "replays of a load file; an operation ended in another way than the file says"
        means "The replay went on. A few may come from a file system that answers otherwise than the server of the recording. If they are many, the load is not replayed as it was recorded.":
        UnlikeLoad "some ended unlike the load", "{unlike} of {operations} operations ended other than the load file says, such as {first}";

    "fell_behind" "`?`"
        when "tests with `rate`; more than 1 % of the operations that were due never started"
        means "The target cannot keep this rate. The latencies are those of the operations that started.":
        FellBehind "cannot keep the rate", "the target cannot keep this rate: {missed} of {due} operations that were due never started. The latencies are of the others";

    "repeated" "`·`"
        when "direct tests whose bytes differ from the device's (see `device_disagrees`), by less than half"
        means "skye measured the test twice, and shows the second measurement, which agreed better with the device.":
        MeasuredTwice "measured twice", "measured twice: the first time, the device's bytes differed from the test's by {difference}";

    "memory_target" "`!`"
        when "a file system in memory"
        means "There is no device, so the number says nothing about storage.":
        TargetIsMemory "memory, not storage", "{file_system} is memory and no device, so this says nothing about storage";

    "nothing_to_compare" "`·`"
        when "reads where skye found no devices under the file system, as on ZFS"
        means "The file system's own cache may have answered.":
        DevicesUnknown "no device to compare with", "skye found no device under this {file_system}: its own cache may have answered some of the {read_bytes} read";

    "unwritten_extents" "`!`"
        when "tests that read; at their start, more than 1 % of the files were holes or never written"
        means "The file system answers such reads without the device. Something has changed the files, or you named a file that was never written whole.":
        FilesNotWritten "files hold unwritten space", "{holes_share} of the files' bytes are holes and {unwritten_share} were never written: the file system answers those without the device";

    "o_direct_ineffective" "`!`"
        when "direct tests; the file system refused `O_DIRECT`, the device moved less than half of the bytes, visited blocks came into the page cache, or direct writes made pages dirty"
        means "The I/O was not direct.":
        DirectRefused "O_DIRECT was refused", "this {file_system} refuses O_DIRECT, so the test went through the page cache";
        DirectMissedDevice "O_DIRECT was not direct", "the device moved only {moved_share} of the bytes, so O_DIRECT was not direct on this {file_system}";
        DirectFilledCache "O_DIRECT was not direct", "the page cache held {cached_share} of the files' bytes afterwards, and direct I/O leaves none there: it was not direct on this {file_system}";
        DirectMadeDirty "O_DIRECT was not direct", "{dirtied_share} of the bytes written went through the page cache, so O_DIRECT was not direct on this {file_system}";

    "device_disagrees" "`!` if the device moved less, `?` if others' bytes are 10 % of its bytes or more, else `·`"
        when "direct `read` `write` `rw` `rewrite` without `sync=each`; the device's bytes differ from the test's by more than 2 %"
        means "More bytes than asked for: another program uses the device, or the file system writes more, as those that copy on write do. Fewer: the rest never reached the device, because of compression, deduplication or a cache.":
        DeviceMovedLess "the device moved too little", "the device moved only {ratio} bytes per byte asked for";
        CopyOnWriteOverhead "the file system may write more", "the device moved {ratio} bytes per byte asked for: {file_system} writes trees or a journal of its own, and skye cannot tell those from other programs' I/O";
        DeviceMovedMore "the file system moves more", "the device moved {ratio} bytes per byte asked for, all of them for this test: {file_system} adds its own";
        DeviceMovedForOthers "others used the device", "the device moved {ratio} bytes per byte asked for, so another program used it as well";

    "counters_disagree" "`?`"
        when "`read`: the kernel charged skye with more bytes than the device read, by over 5 % of the bytes asked for. All tests on data: the device counted no request"
        means "skye did not find a device, or the device's counters are off. So skye cannot check the number.":
        DeviceCountedNothing "the device's counters are off", "{device} counted 0 requests while this test moved {moved_bytes}, so nothing could be compared";
        ChargedMore "counters disagree", "the kernel charged this test with more bytes than the device counted: {excess} of those asked for. A device under {mount_point} may be missing";

    "depth_not_reached" "`·`"
        when "direct tests through a ring, 4 or more in flight"
        means "The device saw less than half of the operations in flight. The others waited above it.":
        DepthNotReached "few operations reached the device", "on average {in_flight} operations were in flight and only {at_device} of them in the device";

    "nothing_durable" "`!`"
        when "writes through the page cache with `sync=none`, or with `sync=close` on local storage"
        means "This is the speed of memory.":
        NothingDurable "nothing was made durable", "no sync made the {written_bytes} durable, so this is the speed of memory";

    "durability_void" "`!`"
        when "tests that sync; mount options turn syncs off, or leave out flushes while a device may have a volatile cache"
        means "A power failure may lose data that was synced.":
        SyncsNotFlushed "syncs do not flush the device", "mounted with {option}, a sync does not flush the device: a power failure may lose the data";

    "sync_not_sent" "`?`"
        when "tests that sync on a FUSE mount; a sync of a file without new data took less than 2 µs"
        means "The server has no sync, and the kernel reports success without it.":
        SyncNotSent "syncs do not reach the server", "a sync took {sync_ns}, too little for an answer of the server of {file_system}: nothing shows that the data is durable";

    "flush_too_fast" "`?`"
        when "`fsync`; half of the flushes took less than 20 µs, and the device says that its cache is volatile"
        means "Either the cache survives a power failure, or the device ignores flushes.":
        FlushTooFast "flushes are suspiciously fast", "half of the flushes took at most {typical_ns}: either the cache of {device} survives a power failure, or flushes are ignored";

    "absorbed_by_page_cache" "`!`; `?` after several passes; `·` with `zipf` or `hot`"
        when "writes through the page cache with a sync at the end; less than 90 % of the bytes reached the device"
        means "`!`: the rest did not reach the device. `?`: later passes replaced blocks in memory before these reached the device. `·`: the same with blocks that come often, as you asked.":
        ReplacedInMemory "blocks were replaced in memory", "only {reached_share} of the bytes written reached the device: the test wrote each block {passes} times, and memory kept the last";
        HotReplacedInMemory "hot blocks were replaced in memory", "only {reached_share} of the bytes written reached the device: memory replaced blocks that came often, and kept the last of each";
        DidNotReachDevice "writes did not reach the device", "only {reached_share} of the bytes written and synced reached the device";

    "short_calls" "`·`"
        when "reads or writes that moved a part of their block"
        means "Some servers answer in parts. skye makes another call for the rest.":
        ShortCalls "calls in parts", "{calls} calls moved a part of their block, and another call moved the rest";

    "served_from_page_cache" "`!` with `--cache cold` (default) or `drop-all`; `?` with `as-is`; with `warm`, `·` above 95 % from memory, else `?`; `·` with `zipf` or `hot`"
        when "buffered tests that read more than 5 % from memory; with `--cache warm`, every buffered test that reads"
        means "This is not the device's speed. `·`: it is the speed of memory, or of memory and device together, as you asked.":
        CacheWarm "from memory, as asked for", "{cached_share} of the bytes came from memory, as asked for: this is the speed of the page cache";
        CacheAnsweredHot "hot blocks from memory", "{cached_share} of the bytes came from memory, which kept blocks that came often: this is the speed of memory and device together";
        CacheHalfWarm "only partly from memory", "only {cached_share} of the bytes came from memory, although you asked for a warm cache: this is a mixture of two speeds";
        CacheAnswered "partly from memory", "{cached_share} of the bytes came from memory, so this is not the device's speed";
        CacheAnsweredAgain "partly from memory", "{cached_share} of the bytes came from memory, as the test read each block {passes} times: this is not the device's speed";
        CacheNotCold "partly from memory", "{cached_share} of the bytes came from memory, although you asked for a cold cache: this is not the device's speed";

    "cache_not_cold" "`?`"
        when "buffered tests that read with a cold cache; before the test, more than 0.1 % of the files stayed in the page cache"
        means "Something holds pages of the files, so skye could not drop these pages.":
        CacheNotDropped "the cache was not cold", "{cached_share} of the files stayed in the page cache, although they were to be dropped before the test";

    "below_os_cache" "`?` if the test read blocks twice, else `·`; `·` with `zipf` or `hot`"
        when "tests that read; before the first test, a second read of the same blocks was twice as fast"
        means "A host, an array, a controller or the drive keeps blocks that were read.":
        LowerCache "a host or array cache may have answered", "a cache below this system answers repeated reads: a block took {first_ns} the first time and {second_ns} the second, as means of {blocks}. The test read its files {passes} times";
        LowerCacheByP99 "a host or array cache may have answered", "a cache below this system answers repeated reads: the p99 of {blocks} blocks was {first_ns} the first time and {second_ns} the second. The test read its files {passes} times";
        LowerCacheUnused "a host or array cache was not used", "a cache below this system answers repeated reads: a block took {first_ns} the first time and {second_ns} the second, as means of {blocks}. The test read no block twice";
        LowerCacheUnusedByP99 "a host or array cache was not used", "a cache below this system answers repeated reads: the p99 of {blocks} blocks was {first_ns} the first time and {second_ns} the second. The test read no block twice";
        LowerCacheHot "a host or array cache has hot blocks", "a cache below this system answers repeated reads: a block took {first_ns} the first time and {second_ns} the second, as means of {blocks}. The rate of hot blocks includes that cache";
        LowerCacheHotByP99 "a host or array cache has hot blocks", "a cache below this system answers repeated reads: the p99 of {blocks} blocks was {first_ns} the first time and {second_ns} the second. The rate of hot blocks includes that cache";

    "server_cache" "`?` with `--server-ram`, `·` without"
        when "tests that read from a server or through FUSE. With `--server-ram`, only if more than half of the data set fits into the server's memory"
        means "The server may have answered from its memory.":
        ServerHolds "the server may cache the set", "the server's memory of {memory_bytes} can hold {held_share} of the {size_bytes} of files, so its disks need not read them";
        ServerMemoryUnknown "the server may cache the set", "the server may have answered from its memory, which skye cannot see: the files have only {size_bytes}";

    "several_passes" "`?`"
        when "direct `read`, more than one pass; later passes were more than 20 % faster, and by more than chance explains"
        means "Something below this system may keep what the first pass read.":
        LaterPassesFaster "later passes were faster", "later passes were {gain} faster than the first of {passes}: the first may have filled a cache below this system";

    "fewer_files" "`?`"
        when "tests on files; time did not suffice to make all of them"
        means "The test visited those that it had.":
        FewerFiles "fewer files", "only {files} of {wanted} files could be made in time, and the test visited those";

    "names_not_cold" "`?`"
        when "tests with `cold`; the device read less than 64 bytes for each file, or 6 for each name of `readdir`, `missing` and links. Or the network carried less than a request for a tenth of the names"
        means "The names were dropped before each round, but something kept them. The number is not that of a first visit.":
        NamesNotCold "not proven cold", "the device read only {read_bytes} for {operations} names, although they were dropped before each round: memory kept many of them";
        NamesNotAsked "not proven cold", "only {sent_bytes} were sent to the server for {operations} names, although they were dropped before each round: this system kept most of them";

    "cold_names" "`·`"
        when "tests with `cold` in which the device read enough, or no counter shows it"
        means "The names were dropped before each round. The remark has the device's reads. One read fetches the attributes of many files at once.":
        NamesFromDevice "names came from the device", "names were cold: the device read {read_bytes} in {reads} requests for {operations} names";
        NamesFromBusyDevice "names came from the device", "names were cold: the device read {read_bytes} for {operations} names, and at most {reads} requests were for them";
        NamesDroppedHere "names were dropped here", "this system dropped its names before each round, but no counter shows if a disk was read: a server, or the program behind the mount, may have answered from its memory";

    "metadata_cache" "`·`"
        when "`stat` `open` `read-file` `readdir` `readlink` `xattr-get` `walk` `missing`, without `cold`; the device read less than 6 bytes for each name, there is no device, or the network carried less than a request for a tenth of the names"
        means "Memory answered. The number depends on kernel and CPU, and says nothing about the disk.":
        NamesFromMemory "names came from memory", "memory answered: the device read 0 bytes for {operations} operations, so this says nothing about the disk";
        NamesMostlyFromMemory "names came from memory", "memory answered: the device read only {read_bytes} for {operations} operations, so this says little about the disk";
        NamesFromClient "names came from memory", "this system's memory answered: only {sent_bytes} were sent to the server for {operations} operations";
        NamesInMemory "names came from memory", "memory answered: {file_system} keeps names nowhere else";

    "inode_search" "`·`"
        when "`create` `mkdir` `symlink` `copy` on ext4 without a journal. Operations take more than 0.1 ms on average. The threads spend over 80 % of their time in the kernel or waiting for a CPU"
        means "ext4 does not reuse inodes for minutes after a deletion, and searches past them.":
        InodeSearch "ext4 searched for free inodes", "ext4 without a journal skips inodes for 1 to 5 minutes after a deletion, and searches past them on the CPU";

    "latency_too_long" "`?`"
        when "an operation, a step or a wait to start took longer than latencies are counted"
        means "Such latencies count as the longest one, so percentiles, mean and maximum may be too low.":
        LatencyTooLong "latencies too long to count", "operations took longer than latencies are counted: they count as {limit_ns}";

    "too_few_samples" "`·`"
        when "the test is too short, or has too few rounds, for an interval or a steady part. Or the one sync at the end took more than 5 % of the time"
        means "skye cannot say how surely it knows the rate.":
        LongSync "no ± for this rate", "the end of the test took {share} of {elapsed_seconds} and counts, so the rate is one observation and has no ±";
        FewRounds "too few rounds for a ±", "{operations} operations in {rounds:round} are too few for a ±";
        Short "too short for a ±", "the test took only {elapsed_seconds} for {operations} operations, too short for a ±";

    "not_steady" "`?` if the rate changed by 10 % or more, else `·`"
        when "no steady part; the remark says when and how the rate changed"
        means "The number is a mean over the whole test.":
        Drifted "the rate drifted", "the rate is not steady: it drifted from {first_ops_per_second} to {last_ops_per_second} in {elapsed_seconds}";
        RateChanged "not steady: the rate changed", "the rate is not steady: it went from {before_ops_per_second} to {after_ops_per_second} after {at_seconds}";
        RateChangedOften "not steady: the rate changed", "the rate is not steady: it changed {changes} times between {lowest_ops_per_second} and {highest_ops_per_second}";
        Unsteady "not steady", "the rate is not steady: it is known within ± {half_width} only";

    "never_steady" "`?`"
        when "a test of a preconditioned run had no five rounds in a row that differ by at most 20 % of their mean, and whose line rises or falls by at most 10 % of it"
        means "The drive was still changing. The number is that of the last part with one rate, or a mean.":
        NeverSteady "never steady in its rounds", "not steady in {rounds} of at most {rounds_max} rounds of {round_seconds}: the last five differ by {excursion} of their mean, and their line rises or falls by {slope}";
        TooFewRounds "too few rounds to be steady", "only {rounds} of at most {rounds_max} rounds of {round_seconds}, and five are needed to tell if it is steady";

    "steady_rounds" "`·`"
        when "a test of a preconditioned run had five such rounds"
        means "The number is the mean of these five rounds. The remark says how far they differ, and how far their line rises or falls.":
        SteadyInRound "steady rounds", "steady in round {rounds} of at most {rounds_max}, each of {round_seconds}: the last five differ by {excursion} of their mean, and their line rises or falls by {slope}";

    "wide_interval" "`·`"
        when "`±` is more than 1.25 times the precision; with `--time` alone, the precision counts as 5 %"
        means "skye knows the rate less well than you asked for. With fewer than 8 independent parts, skye cannot say how well.":
        WideInterval "± is wider than asked for", "the rate is known within ± {half_width}, and the goal was {wanted}";
        FewParts "± is not known", "the run has {parts} independent parts, too few to tell how surely the rate is known";

    "one_run" "`·`"
        when "one repetition on a disk of a virtual machine"
        means "The interval covers this run only, and other guests of the host affect the next run. Once 4 runs are saved, the remark says in what range to expect the rate of the next.":
        OneRun "another run may differ more", "± {half_width} covers this run only: on a virtual disk another run may lie further away";
        OneOfRuns "another run may differ more", "± {half_width} covers this run only: after {runs} runs here, expect another at {low} to {high} of this rate";

    "rate_dropped" "`?`; `·` for writes through the page cache"
        when "the rate fell by more than 20 % and stayed down, without others' I/O"
        means "A cache or a credit ran out; with `·`, memory filled. The remark says how many bytes moved at which rate.":
        MemoryFilled "memory was full of dirty pages", "after {moved_bytes} and {at_seconds} the rate went from {first_bytes_per_second} to {then_bytes_per_second}: memory was full of dirty pages. The table shows the whole";
        MemoryFilledByOps "memory was full of dirty pages", "after {at_seconds} the rate went from {first_ops_per_second} to {then_ops_per_second}: memory was full of dirty pages. The table shows the whole";
        RanOut "a cache or burst credit may have run out", "after {moved_bytes} and {at_seconds} the rate went from {first_bytes_per_second} to {then_bytes_per_second}: a cache or a burst credit may have run out. The table shows the rate after it";
        RanOutByOps "a cache or burst credit may have run out", "after {at_seconds} the rate went from {first_ops_per_second} to {then_ops_per_second}: a cache or a burst credit may have run out. The table shows the rate after it";
        RanOutMean "a cache or burst credit may have run out", "after {moved_bytes} and {at_seconds} the rate went from {first_bytes_per_second} to {then_bytes_per_second}: a cache or a burst credit may have run out. The table shows the mean";
        RanOutMeanByOps "a cache or burst credit may have run out", "after {at_seconds} the rate went from {first_ops_per_second} to {then_ops_per_second}: a cache or a burst credit may have run out. The table shows the mean";

    "rate_capped" "`·`"
        when "closed loops on data; the rates of half seconds agree within 0.5 %, much closer than their latencies allow"
        means "A limit that somebody set is likely.":
        TooEven "looks like a limit somebody set", "the rate varied by {variation} between half seconds, while latencies went from {p50_ns} to {p99_ns}: a set limit is likely";

    "several_modes" "`·`"
        when "latencies of several kinds"
        means "The remark gives the latency of each kind. Their mean says nothing.":
        SeveralModes "latencies have several peaks", "latencies have several peaks: {modes}";

    "foreign_io" "`?` from 10 % on, else `·`"
        when "`read`; direct `write` and `rw` without `sync=each`. Others' bytes are more than 5 % of the traffic of the device or of the test, whichever is more. Not for writes on file systems that copy on write"
        means "Other programs used the device.":
        ForeignIo "others used the device", "{foreign_share} of the bytes on {device} were not this test's";

    "steal" "`?` from 10 % on, else `·`"
        when "the hypervisor took more than 5 % of the threads' time"
        means "The host is busy.":
        Steal "the hypervisor took CPU time", "the hypervisor took {stolen_share} of the threads' time";

    "cpu_contention" "`?` from 10 % on, else `·`"
        when "threads waited for a CPU for more than 5 % of their time. With more threads than CPUs, only if others used a quarter of a CPU"
        means "Other programs use the CPUs. If there are more threads than CPUs, the threads also wait for each other. Then `?` depends on other programs instead, and begins when these use 10 % of all CPU time.":
        WaitedForCpu "threads waited for a CPU", "its threads waited for a CPU for {waited_share} of their time";
        OthersOnCpus "other programs used the CPUs", "other programs used {others_share} of all CPU time meanwhile";

    "thermal" "`?`"
        when "a drive at the temperature from which it protects itself, or CPUs that were throttled during the test"
        means "A cool machine is faster.":
        DriveHot "the drive is hot", "{device} was at {celsius} at the end of the test, and its limit is {limit_celsius}";
        CpuThrottled "CPUs were throttled", "CPUs were throttled {times} times for their temperature";

    "maintenance" "`?`; `·` if this may concern another file system of the machine"
        when "an array that resyncs, recovers, is checked or is degraded; a btrfs that balances"
        means "The target was busy with itself.":
        TargetMaintenance "the array or file system was busy", "the array or file system was busy with its own upkeep ({work})";
        OtherMaintenance "upkeep ran on this machine", "upkeep ran on this machine, perhaps on another file system ({work})";

    "parity_writes" "`·`"
        when "writes on RAID 4, 5 or 6 whose members read more than a tenth of the bytes"
        means "The array reads parity before it writes parts of stripes.":
        ParityWrites "the array reads parity first", "members of {array} read {read_bytes} and wrote {written_bytes} for {requested_bytes} of writes: the array reads parity before it writes parts of stripes";

    "members_unbalanced" "`·`"
        when "RAID 0, 4, 5, 6, and writes on RAID 10; a member moved 1.5 times the mean of all"
        means "The other members wait for it.":
        BusyMember "one member may hold the array back", "{member} moved {times} times as many bytes as the mean of the members of {array}, so it may hold them back";

    "fragmented" "`·`"
        when "tests that read; files in pieces of less than 1 MiB on a device that says that it spins"
        means "The file system is aged or full.":
        Fragmented "files lie in many pieces", "the files lie in {extents} pieces of {mean_bytes} on average, on a rotational device";

    "compressible_target" "`·`"
        when "a target that stores compressible data in less space"
        means "The number holds only for data as compressible as this test's. By default, this data does not compress; otherwise, it compresses as far as you asked.":
        DeviceCompresses "the target compresses", "{device} compresses, and this row's data compresses by {compressible_share}: other data gives another rate";
        FileSystemCompresses "the target compresses", "this {file_system} compresses, and this row's data compresses by {compressible_share}: other data gives another rate";
        StoredSmaller "the target compresses", "this {file_system} stores compressible data in {stored_share} of its size, and this row's data compresses by {compressible_share}: other data gives another rate";

    "volatile_write_cache" "`·`"
        when "writes of less than a third of the device, without a drop of the rate"
        means "The device's write cache may have taken them.":
        WriteCacheHeld "a write cache may have helped", "{device} has a write cache and took {written_bytes} without slowing down: a longer test may fill it";

    "read_ahead" "`·`"
        when "buffered `read`; the device moved more than 1.1 bytes per byte asked for"
        means "The kernel read ahead without use, or read whole pages for smaller blocks.":
        WholePages "the kernel reads whole pages", "the device read {ratio} bytes per byte asked for: the kernel reads whole pages";
        ReadAheadUnused "read-ahead was not used", "the device read {ratio} bytes per byte asked for: part of the read-ahead was not used";

    "amplification" "`·`"
        when "`fsync`"
        means "The remark says how many bytes and flushes a small durable write costs the device.":
        Amplification "the device's writes and flushes", "the device wrote {ratio} bytes per byte asked for and made {flushes} flushes per operation";

    "one_pass" "`·`"
        when "buffered tests that write, or read with a cold cache, if they have no count of their own"
        means "The test ended after one pass over the data, as a second pass would measure memory. With a larger `--size`, the test lasts longer.":
        ReadOnce "ended after one pass", "the test ended after one pass of {elapsed_seconds}, as memory would answer a second";
        WrittenOnce "ended after one pass", "the test ended after one pass of {elapsed_seconds}, as a second would replace blocks in memory";

    "write_limit" "`·`"
        when "tests with a time that have written 98 % of their part of the write limit, or whose next operation would exceed it"
        means "The test ended at its part of the write limit, before its time. A larger `--write-limit` lets it write more.":
        WriteLimitReached "ended at the write limit", "the test stopped after {elapsed_seconds}, as it had written its part of the write limit ({limit_bytes})";

    "never_together" "`?`"
        when "runs of several clients, in tests without a sync at their end"
        means "A client was done before another began, so the rate is that until the last was done. More work for each client, or a `--time`, lets them work together.":
        NeverTogether "the clients never worked together", "at no moment were all {clients} clients at work, so the rate is that until the last was done";

    "slow_client" "`·`"
        when "runs of several clients; a client more than 20 % below the median of their rates"
        means "The others wait for it at the end, or it holds its share back. The document has the evidence for its limit.":
        SlowClient "one client is slow", "{client} reached {ops_per_second}, {below_share} below the median of all clients ({median_ops_per_second}); its own limit: {limit}";

    "knee" "`←`"
        when "sweeps of at least three points"
        means "Beyond this row, more load adds more waiting than work. `·` if the last row is the best, as the knee may lie beyond it.":
        Knee "the knee of this sweep", "this is the knee of the sweep: {throughput_share} of the highest throughput at {latency_share} of the longest mean latency. Beyond it, load buys more waiting than work";
        NoKnee "no knee up to here", "the sweep has no knee up to here: more load still buys more work than waiting";
}
