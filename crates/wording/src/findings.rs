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
        when "a call failed, or the test did not start"
        means "The number is missing, or covers a part of the test. The row shows the reason.":
        Failed "failed", "failed: {reason}";

    "skipped" "`!`"
        when "a test that did not run"
        means "There is no number. The row shows the reason.":
        Skipped "skipped", "skipped: {reason}";

    "ended_early" "`!`"
        when "a test that ended before it met its stop rule"
        means "The number covers a part of the test. The row shows the reason.":
        EndedEarly "ended early", "ended early: {reason}";

    "no_rate" "`!`"
        when "a test that finished without a rate"
        means "There is no number. The row shows the reason.":
        NoRate "no rate", "no rate: {reason}";

    "between_runs" "`·`"
        when "repetitions of a test"
        means "The remark gives the spread between them. `±` in the table covers a single run.":
        BetweenRuns "± covers one run", "{runs} repetitions are within ± {spread} of {mean_bytes_per_second}; ± in the table covers a single run";
        BetweenRunsByOps "± covers one run", "{runs} repetitions are within ± {spread} of {mean_ops_per_second}; ± in the table covers a single run";

    "into_cache" "`·`"
        when "writes through the page cache, with a sync or close at the end"
        means "The remark gives the rate into the page cache, which other tools would report. The headline rate includes the sync or close.":
        IntoCache "the sync is included", "{bytes_per_second} into the page cache; the headline rate includes the sync or close at the end";
        IntoCacheByOps "the sync is included", "{ops_per_second} into the page cache; the headline rate includes the sync or close at the end";

    "waited_to_start" "`·`"
        when "tests with `rate`; the wait to start is more than a tenth of p99, or of p50"
        means "Earlier operations took too long. The latency includes this wait, as users experience it.":
        P99Waited "operations started late", "operations started late: p99 wait {wait_ns}, p99 latency {whole_ns}";
        P50Waited "operations started late", "operations started late: p50 wait {wait_ns}, p50 latency {whole_ns}";

    "verification_failed" "`!`"
        when "a block that skye verified differs from what was written"
        means "Do not trust this storage with data until the cause is known. The failure shows file, offset, expected and found bytes, and the origin of the found bytes if known.":
        DataDiffers "wrong data was read", "the data read differs from the data written: do not trust this storage until the cause is known";

    "not_compared" "`·`"
        when "tests that read, after a test on the same files failed while it wrote"
        means "A block may be half written, so a difference proves nothing. Verification resumes once a test has written all blocks.":
        NotCompared "reads were not verified", "its reads were not verified: an earlier test failed while it wrote";

    "depth_by_threads" "`·`"
        when "a queue depth above 1 with synchronous system calls"
        means "Each operation in flight has a thread. The remark gives the requested depth and the reason.":
        ThreadsForRing "threads instead of depth", "requested as Q{depth}T{threads}; io_uring is unavailable, so each operation in flight has a thread";
        ThreadsForDepth "threads instead of depth", "requested as Q{depth}T{threads}; plain system calls have no queue depth, so each operation in flight has a thread";

    "engine_features_lost" "`·`"
        when "tests with io_uring"
        means "The remark lists the missing features of io_uring, with the reason.":
        RingWithout "io_uring lacks a feature", "io_uring runs without {features}";

    "unlike_load" "`?` if 10 % or more, else `·`"
        when "replays of a load file; an operation returned a result that differs from the file"
        means "The replay continued. A few may be differences between file systems. If they are many, the replay is not the recorded load.":
        UnlikeLoad "results differ from the load", "{unlike} of {operations} operations returned results that differ from the load file, for example {first}";

    "fell_behind" "`?`"
        when "tests with `rate`; more than 1 % of the due operations never started"
        means "The target cannot sustain this rate. The latencies cover the operations that started.":
        FellBehind "cannot sustain the rate", "the target cannot sustain this rate: {missed} of {due} due operations never started. The latencies cover the others";

    "repeated" "`·`"
        when "direct tests whose bytes differ from the device's (see `device_disagrees`), by less than half"
        means "skye measured the test twice. The row has the second result, which agreed better with the device.":
        MeasuredTwice "measured twice", "measured twice: the first time, the device's bytes differed from the test's by {difference}";

    "memory_target" "`!`"
        when "a file system or disk in memory"
        means "There is no device: the number is the speed of memory.":
        TargetIsMemory "memory, not storage", "{name} is in memory: this is not the speed of storage";

    "devices_unknown" "`·`"
        when "reads where skye found no devices under the file system, as on ZFS"
        means "The cache of the file system may have served the reads.":
        DevicesUnknown "no device to compare with", "skye found no device under this {file_system}: its cache may have served some of the {read_bytes} read";

    "unwritten_extents" "`!`"
        when "tests that read; at their start, more than 1 % of the files were holes or never written"
        means "Reads of these do not reach the device. The files were changed, or the existing file was never fully written.":
        FilesNotWritten "files hold unwritten space", "{holes_share} of the files' bytes are holes and {unwritten_share} were never written: such reads do not reach the device";

    "o_direct_ineffective" "`!`"
        when "direct tests; the file system refused `O_DIRECT`, the device moved less than half of the bytes, or direct I/O filled or dirtied the page cache"
        means "The I/O was not direct.":
        DirectRefused "O_DIRECT was refused", "this {file_system} refuses O_DIRECT: the test went through the page cache";
        DirectMissedDevice "O_DIRECT was not direct", "the device moved only {moved_share} of the bytes: O_DIRECT was not direct on this {file_system}";
        DirectFilledCache "O_DIRECT was not direct", "the page cache held {cached_share} of the files' bytes after the test: O_DIRECT was not direct on this {file_system}";
        DirectMadeDirty "O_DIRECT was not direct", "{dirtied_share} of the bytes written went through the page cache: O_DIRECT was not direct on this {file_system}";

    "device_disagrees" "`!` if the device moved less, `?` if foreign I/O is 10 % of its bytes or more, else `·`"
        when "direct `read` `write` `rw` `rewrite` without `sync=each`; the device's bytes differ from the test's by more than 2 %"
        means "More bytes than requested: another program uses the device, or the file system writes more, for example by copy-on-write. Fewer: compression, deduplication or a cache kept the rest from the device.":
        DeviceMovedLess "the device transferred too few bytes", "the device moved only {ratio} bytes per requested byte";
        CopyOnWriteOverhead "file system may write more", "the device moved {ratio} bytes per requested byte: {file_system} also writes metadata trees or a journal, which skye cannot separate from foreign I/O";
        DeviceMovedMore "file-system overhead", "the device moved {ratio} bytes per requested byte, all of them for this test: {file_system} adds the rest";
        DeviceMovedForOthers "foreign I/O on the device", "the device moved {ratio} bytes per requested byte: another program also used it";

    "counters_disagree" "`?`"
        when "`read`: the kernel charged skye with more bytes than the device read, by over 5 % of the requested bytes. All tests on data: the device counted no request"
        means "skye missed a device, or the device's counters are disabled. No counter confirms the number.":
        DeviceCountedNothing "the device's counters are disabled", "{device} reported 0 requests for {moved_bytes} of I/O: its counters are disabled, and no counter confirms the rate";
        ChargedMore "counters disagree", "the kernel charged this test with more bytes than the device counted, by {excess} of the requested bytes. A device under {mount_point} may be missing";

    "nothing_durable" "`!`"
        when "writes through the page cache with `sync=none`, or with `sync=close` on local storage"
        means "This is the speed of memory.":
        NothingDurable "nothing was made durable", "no sync made the {written_bytes} durable: this is the speed of memory";

    "durability_void" "`!`"
        when "tests that sync; mount options disable syncs, or omit flushes while a device may have a volatile cache"
        means "A power failure may lose synced data.":
        SyncsNotFlushed "syncs do not flush", "with the mount option {option}, a sync does not flush the device: a power failure may lose the data";

    "sync_not_sent" "`?`"
        when "tests that sync on a FUSE mount; a sync of a file without new data took less than 2 µs"
        means "The FUSE server does not implement fsync, and the kernel returns success without it.":
        SyncNotSent "syncs never reach the server", "a sync took {sync_ns}, too short for a reply of the {file_system} server: the data may not be durable";

    "flush_too_fast" "`?`"
        when "`fsync`; the median flush took less than 20 µs, and the device reports a volatile cache"
        means "The device has power-loss protection, or ignores flushes.":
        FlushTooFast "flushes are suspiciously fast", "median flush {typical_ns}: {device} has power-loss protection, or ignores flushes";

    "absorbed_by_page_cache" "`!`; `?` after several passes; `·` with `zipf` or `hot`"
        when "writes through the page cache with a sync at the end; less than 90 % of the bytes reached the device"
        means "`!`: the rest did not reach the device. `?`: later passes overwrote blocks in memory before writeback. `·`: hot blocks were overwritten in memory, as requested.":
        ReplacedInMemory "blocks overwritten in memory", "only {reached_share} of the bytes written reached the device: the test wrote each block {passes} times, and later writes replaced earlier ones in memory";
        HotReplacedInMemory "hot blocks overwritten in memory", "only {reached_share} of the bytes written reached the device: hot blocks were overwritten in memory";
        DidNotReachDevice "device received too few bytes", "only {reached_share} of the bytes written and synced reached the device";

    "short_calls" "`·`"
        when "reads or writes that moved a part of their block"
        means "Some servers return short reads. skye calls again for the rest.":
        ShortCalls "short reads or writes", "{calls} short reads or writes; another call moved the rest of each block";

    "served_from_page_cache" "`!` with `--cache cold` (default) or `drop-all`; `?` with `as-is`; with `warm`, `·` above 95 % from memory, else `?`; `·` with `zipf` or `hot`"
        when "buffered tests that read more than 5 % from memory; with `--cache warm`, every buffered test that reads"
        means "This is not the device's speed. `·`: it is the speed of memory, or of memory and device together, as requested.":
        CacheWarm "from memory, as requested", "{cached_share} of the bytes came from memory, as requested: this is the speed of the page cache";
        CacheAnsweredHot "hot blocks from memory", "{cached_share} of the bytes came from memory, which kept hot blocks: this is the speed of memory and device together";
        CacheHalfWarm "only partly from memory", "only {cached_share} of the bytes came from memory, despite --cache warm: this is a mixture of two speeds";
        CacheAnswered "partly from memory", "{cached_share} of the bytes came from memory: this is not the device's speed";
        CacheAnsweredAgain "partly from memory", "{cached_share} of the bytes came from memory, as the test read each block {passes} times: this is not the device's speed";
        CacheNotCold "partly from memory", "{cached_share} of the bytes came from memory, although skye dropped the cache: this is not the device's speed";

    "cache_not_cold" "`?`"
        when "buffered tests that read with a cold cache; before the test, more than 0.1 % of the files stayed in the page cache"
        means "Pages of the files were in use, so skye could not drop them.":
        CacheNotDropped "the cache was not cold", "{cached_share} of the files stayed in the page cache when skye dropped it before the test";

    "answered_by_layer" "`?`"
        when "tests on data; a layer passed on less than 95 % of the bytes"
        means "A cache or a hole of that layer answered the rest.":
        StoppedAtImage "page cache of an image answered", "{share} of the bytes stopped at the page cache of the image below {device}: {below} did not move them";
        StoppedAboveFuse "page cache above FUSE answered", "{share} of the bytes stopped at the page cache: {below} received no requests for them";
        StoppedBetween "a layer above the disk answered", "{share} of the bytes stopped at {layers}: {below} did not move them";

    "limit_changed" "`?`"
        when "a limit on I/O that was another one at the end of the test"
        means "The number mixes two states.":
        OperationsLimitChanged "a limit was changed", "the limit of {device} was changed from {first_ops_per_second} to {last_ops_per_second} ({source})";
        BytesLimitChanged "a limit was changed", "the limit of {device} was changed from {first_bytes_per_second} to {last_bytes_per_second} ({source})";

    "below_os_cache" "`?` if the test read blocks twice, else `·`; `·` with `zipf` or `hot`"
        when "tests that read; before the first test, a second read of the same blocks was twice as fast"
        means "A host, an array, a controller or the drive caches blocks that were read.":
        LowerCache "host or array cache possible", "a cache below this system serves repeated reads: means of {blocks} blocks {first_ns} the first time, {second_ns} the second. The test read its files {passes} times";
        LowerCacheByP99 "host or array cache possible", "a cache below this system serves repeated reads: p99 of {blocks} blocks {first_ns} the first time, {second_ns} the second. The test read its files {passes} times";
        LowerCacheUnused "host or array cache unused", "a cache below this system serves repeated reads: means of {blocks} blocks {first_ns} the first time, {second_ns} the second. The test read no block twice";
        LowerCacheUnusedByP99 "host or array cache unused", "a cache below this system serves repeated reads: p99 of {blocks} blocks {first_ns} the first time, {second_ns} the second. The test read no block twice";
        LowerCacheHot "host or array cache included", "a cache below this system serves repeated reads: means of {blocks} blocks {first_ns} the first time, {second_ns} the second. The rate of hot blocks includes that cache";
        LowerCacheHotByP99 "host or array cache included", "a cache below this system serves repeated reads: p99 of {blocks} blocks {first_ns} the first time, {second_ns} the second. The rate of hot blocks includes that cache";

    "server_cache" "`?` with `--server-ram`, `·` without"
        when "tests that read from a server or through FUSE. With `--server-ram`, only if more than half of the data set fits into the server's memory"
        means "The server may have served the reads from memory.":
        ServerHolds "server may cache the files", "the server's memory of {memory_bytes} can hold {held_share} of the {size_bytes} of files: reads may not reach its disks";
        ServerMemoryUnknown "server may cache the files", "the server may have served the {size_bytes} of files from memory, which skye cannot see";

    "several_passes" "`?`"
        when "direct `read`, more than one pass; later passes were more than 20 % faster, and by more than chance explains"
        means "Possibly a cache below this system; no counter here confirms it.":
        LaterPassesFaster "later passes were faster", "later passes were {gain} faster than the first of {passes}";

    "fewer_files" "`?`"
        when "tests on files; the time was too short to create all of them"
        means "The test used the files that were created.":
        FewerFiles "fewer files", "only {files} of {wanted} files were created in time; the test used those";

    "names_not_cold" "`?`"
        when "tests with `cold`; the device read less than 64 bytes for each file, or 6 for each name of `readdir`, `missing` and links. Or fewer than one request per ten names went over the network"
        means "A cache kept metadata that skye dropped before each round. The number does not show first accesses.":
        NamesNotCold "not proven cold", "the device read only {read_bytes} for {operations} names that were dropped before each round: memory kept many of them";
        NamesNotAsked "not proven cold", "only {sent_bytes} were sent to the server for {operations} names that were dropped before each round: this system kept most of them";

    "cold_names" "`·`"
        when "tests with `cold` in which the device read enough, or no counter shows it"
        means "skye dropped cached names and attributes before each round. The remark gives the device's reads. One read fetches the attributes of many files at once.":
        NamesFromDevice "metadata came from the device", "metadata was cold: the device read {read_bytes} in {reads} requests for {operations} names";
        NamesFromBusyDevice "metadata came from the device", "metadata was cold: the device read {read_bytes} for {operations} names, and at most {reads} requests were for them";
        NamesDroppedHere "client dropped its metadata", "this system dropped its cached metadata before each round; no counter shows whether the server or FUSE daemon read a disk";

    "metadata_cache" "`·`"
        when "`stat` `open` `read-file` `readdir` `readlink` `xattr-get` `walk` `missing`, without `cold`. There is no device, or it read less than 6 bytes for each name. Or fewer than one request per ten names went over the network"
        means "The metadata came from memory. The number depends on kernel and CPU, not on the disk.":
        NamesFromMemory "metadata came from memory", "metadata came from memory: the device read 0 bytes for {operations} operations, so this is not the speed of the disk";
        NamesMostlyFromMemory "metadata came from memory", "metadata came from memory: the device read only {read_bytes} for {operations} operations, so this is mostly the speed of memory";
        NamesFromClient "metadata came from memory", "metadata came from this system's memory: only {sent_bytes} were sent to the server for {operations} operations";
        NamesInMemory "metadata came from memory", "metadata came from memory: {file_system} keeps it only there";

    "inode_search" "`?`"
        when "`create` `mkdir` `symlink` `copy` on ext4 without a journal. Operations take more than 0.1 ms on average. The threads spend over 80 % of their time in the kernel or waiting for a CPU"
        means "ext4 does not reuse inodes for minutes after a deletion, and skips them when it searches for a free one.":
        InodeSearch "ext4 searched for free inodes", "ext4 without a journal does not reuse inodes for 1 to 5 minutes after a deletion, and skipping them costs CPU time";

    "latency_too_long" "`?`"
        when "an operation, a step or a wait to start took longer than the histogram's maximum"
        means "Such latencies count as the maximum, so percentiles, mean and maximum may be too low.":
        LatencyTooLong "latencies beyond the histogram", "some latencies exceed the histogram's maximum: they count as {limit_ns}";

    "too_few_samples" "`·`"
        when "the test is too short, or has too few rounds, for an interval or a steady part. Or the one sync at the end took more than 5 % of the time"
        means "The precision of the rate is unknown.":
        LongSync "no ± for this rate", "the final sync took {share} of {elapsed_seconds}; with a single sync there is no ±";
        FewRounds "too few rounds for ±", "{operations} operations in {rounds:round} are too few for a ± of this run alone";
        Short "too short for ±", "the test took only {elapsed_seconds} for {operations} operations, too short for a ± of this run alone";

    "not_steady" "`?` if the rate changed by 10 % or more, and by more than `±`, else `·`"
        when "no steady part; the remark shows when and how the rate changed"
        means "The number is a mean over the whole test.":
        Drifted "the rate drifted", "the rate is not steady: it drifted from {first_ops_per_second} to {last_ops_per_second} in {elapsed_seconds}";
        RateChanged "not steady: the rate changed", "the rate is not steady: it went from {before_ops_per_second} to {after_ops_per_second} after {at_seconds}";
        RateChangedOften "not steady: the rate changed", "the rate is not steady: it changed {changes} times between {lowest_ops_per_second} and {highest_ops_per_second}";
        Unsteady "not steady", "the rate is not steady: ± {half_width}";

    "never_steady" "`?`"
        when "a test of a preconditioned run without steady state. That takes five rounds in a row with an excursion of at most 20 % and a slope of at most 10 %"
        means "The drive had not settled. The number is the rate after its last change, or the mean of the test.":
        NeverSteady "no steady state", "no steady state in {rounds} of at most {rounds_max} rounds of {round_seconds}; over the last five, excursion {excursion}, slope {slope} (limits 20 % and 10 %)";
        TooFewRounds "too few rounds", "only {rounds} of at most {rounds_max} rounds of {round_seconds}; a steady state takes five";

    "steady_rounds" "`·`"
        when "a test of a preconditioned run with a steady state"
        means "The number is the mean of the last five rounds. The remark gives their excursion and slope.":
        SteadyInRound "steady state", "steady state in round {rounds} of at most {rounds_max}, each of {round_seconds}; over the last five, excursion {excursion}, slope {slope}";

    "wide_interval" "`·`"
        when "`±` is more than 1.25 times the precision goal, which is 5 % with `--time` alone"
        means "The rate is less precise than the goal. With fewer than 8 effective samples, its precision is unknown.":
        WideInterval "± above the precision goal", "± {half_width} in this run alone, goal {wanted}";
        FewParts "± is unknown", "the run has {parts} effective samples, too few for a ± of this run alone";

    "does_not_repeat" "`?`"
        when "a short re-run after all tests differs by a factor of more than 1.19, and by more than ±"
        means "The rate changed between the test and its re-run.":
        DoesNotRepeat "a re-run differed", "a re-run {later} later gave {then_ops_per_second} instead of {own_ops_per_second}";
        InodesInUse "a re-run differed", "a re-run {later} later gave {then_ops_per_second} instead of {own_ops_per_second}: ext4 without a journal skips the inodes of deleted files for 1 to 5 minutes";

    "one_run" "`·`"
        when "one repetition on a disk of a virtual machine"
        means "Other guests of the host affect the next run. Once 4 runs are saved, the remark gives the range in which to expect the next rate.":
        OneRun "another run may differ more", "± {half_width} covers this run only: on a virtual disk another run may differ more";
        OneOfRuns "another run may differ more", "after {runs} runs here, expect another at {low} to {high} of this rate";

    "rate_dropped" "`?`; `·` if the kernel held back the writers"
        when "the rate fell by more than 20 % and stayed down, without foreign I/O"
        means "The remark gives the rates before and after. With `·`, the kernel held back writers of dirty pages.":
        MemoryFilled "rate drop at the dirty limit", "after {moved_bytes} and {at_seconds} the rate fell from {first_bytes_per_second} to {then_bytes_per_second}: the kernel held back writers of dirty pages. The table shows the mean";
        MemoryFilledByOps "rate drop at the dirty limit", "after {at_seconds} the rate fell from {first_ops_per_second} to {then_ops_per_second}: the kernel held back writers of dirty pages. The table shows the mean";
        RanOut "the rate dropped", "after {moved_bytes} and {at_seconds} the rate fell from {first_bytes_per_second} to {then_bytes_per_second}. The table shows the rate after the drop";
        RanOutByOps "the rate dropped", "after {at_seconds} the rate fell from {first_ops_per_second} to {then_ops_per_second}. The table shows the rate after the drop";
        RanOutMean "the rate dropped", "after {moved_bytes} and {at_seconds} the rate fell from {first_bytes_per_second} to {then_bytes_per_second}. The table shows the mean";
        RanOutMeanByOps "the rate dropped", "after {at_seconds} the rate fell from {first_ops_per_second} to {then_ops_per_second}. The table shows the mean";

    "rate_capped" "`·`"
        when "closed loops on data; the rates of half seconds agree within 0.5 %, much closer than their latencies allow"
        means "A configured limit is likely.":
        TooEven "looks like a configured limit", "the rate varied by {variation} between half seconds, with latencies from {p50_ns} (p50) to {p99_ns} (p99): a configured limit is likely";

    "several_modes" "`·`"
        when "a latency distribution with several peaks"
        means "The remark gives the latency and share of each peak. The mean is not typical.":
        SeveralModes "latencies have several peaks", "latencies have several peaks: {modes}";

    "foreign_io" "`?` if 10 % or more, else `·`"
        when "`read`; direct `write` and `rw` without `sync=each`. Foreign I/O is more than 5 % of the traffic of the device or of the test, whichever is more. Not for writes on copy-on-write file systems"
        means "Other programs used the device.":
        ForeignIo "foreign I/O on the device", "{foreign_share} of the bytes on {device} were not this test's";

    "steal" "`?` if 10 % or more, else `·`"
        when "the hypervisor took more than 5 % of the threads' time"
        means "The host is busy.":
        Steal "the hypervisor took CPU time", "the hypervisor took {stolen_share} of the threads' time";

    "not_running" "`?`; `·` below 10 % where that time counts"
        when "skye did not run for a second or more. Where that time counts, for more than 5 % of the test"
        means "It was stopped, had no CPU, or the machine was suspended. Most closed loops on data leave that time out.":
        NotRunning "skye did not run", "skye did not run for {stopped_share} of the test: it was stopped, or had no CPU";
        LeftOut "skye did not run", "skye did not run for {stopped}; that time does not count";
        Suspended "suspended", "the machine was suspended for {suspended} during the test";

    "cpu_contention" "`?` if 10 % or more, else `·`"
        when "threads waited for a CPU for more than 5 % of their time. With more threads than CPUs, only if other programs used a quarter of a CPU"
        means "Other programs use the CPUs. With more threads than CPUs, `?` requires that they use 10 % of all CPU time.":
        WaitedForCpu "threads waited for a CPU", "its threads waited for a CPU for {waited_share} of their time";
        OthersOnCpus "other programs used the CPUs", "other programs used {others_share} of all CPU time during the test";

    "thermal" "`?`"
        when "a drive at its temperature limit, or CPUs that were throttled during the test"
        means "A cooler machine may give a higher rate.":
        DriveHot "the drive is hot", "{device} was at {celsius} at the end of the test (limit {limit_celsius})";
        CpuThrottled "CPUs were throttled", "CPUs were thermally throttled {times} times";

    "maintenance" "`?`; `·` if this may concern another file system of the machine"
        when "an array in resync, recovery or check, or degraded; a btrfs balance"
        means "Background maintenance used the target.":
        TargetMaintenance "maintenance on the target", "background maintenance ran on the array or file system ({work})";
        OtherMaintenance "maintenance on this machine", "background maintenance ran on this machine, perhaps on another file system ({work})";

    "parity_writes" "`·`"
        when "writes on RAID 4, 5 or 6 whose members read more than a tenth of the bytes"
        means "The array reads old data or parity before it writes partial stripes.":
        ParityWrites "partial-stripe writes", "members of {array} read {read_bytes} and wrote {written_bytes} for {requested_bytes} of writes: the array reads old data or parity before it writes partial stripes";

    "members_unbalanced" "`·`"
        when "RAID 0, 4, 5, 6, and writes on RAID 10; a member moved 1.5 times the mean of all"
        means "The other members wait for it.":
        BusyMember "one member does more I/O", "{member} moved {times} times the mean bytes of the members of {array}: it may limit the array";

    "uneven_places" "`·`"
        when "tests in random order; a part of the data takes more than 1.1 times as long as another, at the same time in the same thread. Or earlier runs with data in other places differ by more than a factor of 1.3"
        means "A file elsewhere on this disk may give another rate.":
        PlacesDiffer "places differ", "an operation took {ratio} times as long in the slowest place of the data as in the fastest";
        OtherPlaces "other places differ", "data in other places of this disk gave {low_ops_per_second} to {high_ops_per_second} in {runs} earlier runs";

    "fragmented" "`·`"
        when "tests that read; extents of less than 1 MiB on a rotational device"
        means "The file system is aged or full.":
        Fragmented "the files are fragmented", "the files have {extents} extents of {mean_bytes} on average, on a rotational device";

    "compressible_target" "`·`"
        when "a target that stores compressible data in less space"
        means "The number holds only for data that compresses as well as this test's. By default, that is incompressible.":
        DeviceCompresses "the target compresses", "{device} compresses, and this row's data compresses by {compressible_share}: other data gives another rate";
        FileSystemCompresses "the target compresses", "this {file_system} compresses, and this row's data compresses by {compressible_share}: other data gives another rate";
        StoredSmaller "the target compresses", "this {file_system} stores compressible data in {stored_share} of its size, and this row's data compresses by {compressible_share}: other data gives another rate";

    "volatile_write_cache" "`·`"
        when "writes of less than a third of the device, without a drop of the rate"
        means "The device's write cache may have absorbed them.":
        WriteCacheHeld "write cache may have helped", "{device} has a write cache and took {written_bytes} without slowing down: a longer test may fill it";

    "read_ahead" "`·`"
        when "buffered `read`; the device moved more than 1.1 bytes per requested byte"
        means "The test did not use all of the read-ahead, or the kernel read whole pages for smaller blocks.":
        WholePages "the kernel reads whole pages", "the device read {ratio} bytes per requested byte: the kernel reads whole pages";
        ReadAheadUnused "read-ahead was not used", "the device read {ratio} bytes per requested byte: part of the read-ahead was not used";

    "amplification" "`·`"
        when "`fsync` and `sync=dsync`"
        means "The remark gives the device's bytes and flushes for a small durable write.":
        Amplification "the device's writes and flushes", "the device wrote {ratio} bytes per requested byte and made {flushes} flushes per operation";

    "call_flags" "`·`; `?` if more than half of the data stayed in the page cache"
        when "`uncached` and `atomic`"
        means "`·`: what shows the flag's effect. `?`: the flag had none on this file system.":
        StayedInCache "RWF_DONTCACHE had no effect", "after its uncached calls, the page cache has {cached_share} of the data that it visited: this {file_system} does not drop them";
        LeftInCache "data left in the page cache", "after its uncached calls, the page cache has {cached_share} of the data (RWF_DONTCACHE)";
        AtomicRequests "the device's requests for each write", "{device} took {requests} requests for each atomic write (RWF_ATOMIC)";

    "one_pass" "`·`"
        when "buffered tests without `passes` that write, or read with a cold cache"
        means "The test ended after one pass over the data, as a second pass would measure memory. With a larger `--size`, the test lasts longer.":
        ReadOnce "ended after one pass", "the test ended after one pass of {elapsed_seconds}: a second would read from memory";
        WrittenOnce "ended after one pass", "the test ended after one pass of {elapsed_seconds}: a second would overwrite blocks in memory";

    "write_limit" "`·`"
        when "timed tests that have written 98 % of their share of the write limit, or whose next operation would exceed it"
        means "The test ended at its share of the write limit, before its time limit. A larger `--write-limit` lets it write more.":
        WriteLimitReached "ended at the write limit", "the test stopped after {elapsed_seconds} at its share of the write limit ({limit_bytes})";

    "never_concurrent" "`?`"
        when "runs of several clients, in tests without a sync at their end"
        means "A client finished before another started, so the rate covers the time until the last one finished. More work per client, or a `--time`, makes them overlap.":
        NeverConcurrent "the clients never overlapped", "the {clients} clients never overlapped; the rate covers the time until the last one finished";

    "slow_client" "`·`"
        when "runs of several clients; a client more than 20 % below the median of their rates"
        means "The other clients wait for it at the end, or it finishes its share late. The document has the evidence for its limiter.":
        SlowClient "one client is slow", "{client} reached {ops_per_second}, {below_share} below the median of all clients ({median_ops_per_second}); its limiter: {limit}";

    "knee" "`←`"
        when "sweeps of at least three points"
        means "Beyond this row, latency grows faster than throughput. `·` if the last row is the best, as the knee may be beyond it.":
        Knee "the knee of this sweep", "knee of the sweep: {throughput_share} of the peak throughput at {latency_share} of the highest mean latency; beyond it, latency grows faster than throughput";
        NoKnee "no knee up to here", "the sweep has no knee up to here: throughput still grows faster than latency";
}
