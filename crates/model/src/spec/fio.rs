//! fio's words: what each key of its command lines and job files is here.
//!
//! One table holds them. From it come the translation of tests and of command lines, hints, `skye explain` and a page. A key
//! is taken only where it means the same; otherwise its entry says what to use.

mod job;
mod line;

pub use line::command_line;

use job::Job;

/// A key of fio.
#[derive(Debug)]
pub struct FioKey {
    /// Its name, followed by its other names.
    pub names: &'static [&'static str],
    meaning: Meaning,
    /// Word, option or sentence that stands for it here, as Markdown.
    pub here: &'static str,
}

/// Kind of a key, by what it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Words of a test.
    Test,
    /// An option of `skye run`, which holds for all tests.
    ForRun,
    /// Nothing, because skye always does it, or it has no effect here.
    Always,
    /// Nothing, because skye does not have it.
    Missing,
}

use Meaning::{Always, ForRun, Missing, Test};

const fn key(names: &'static [&'static str], meaning: Meaning, here: &'static str) -> FioKey {
    FioKey { names, meaning, here }
}

/// The keys, in the order of the page.
pub const FIO_KEYS: &[FioKey] = &[
    key(&["rw", "readwrite"], Test, "`read` `write` `rw` `discard`, with `seqSIZE` or `rndSIZE`"),
    key(&["bs", "blocksize"], Test, "`seqSIZE` or `rndSIZE`"),
    key(&["iodepth"], Test, "`qN`"),
    key(&["numjobs"], Test, "`tN`"),
    key(&["direct"], Test, "`direct`, the default, or `buffered`"),
    key(&["buffered"], Test, "`buffered`"),
    key(&["ioengine"], Test, "`engine=uring|sync|mmap|null`; skye uses io_uring where it helps"),
    key(&["rwmixread"], Test, "`read=PERCENT`"),
    key(&["rwmixwrite"], Test, "`read=PERCENT`"),
    key(
        &["fdatasync"],
        Test,
        "`sync=N`: `fdatasync` after each N writes of a thread; for N = 1, `sync=each`",
    ),
    key(&["fsync"], Test, "`sync=N`, which is `fdatasync`"),
    key(&["end_fsync"], Test, "`sync=end`, the default"),
    key(&["fsync_on_close"], Test, "`sync=end`, the default"),
    key(&["sync"], Test, "`sync=dsync`: each write is durable when it returns"),
    key(&["uncached"], Test, "`uncached`"),
    key(&["atomic"], Test, "`atomic`"),
    key(&["rate_iops"], Test, "`rate=N`, of all threads together: an open loop"),
    key(&["rate"], Test, "`rate=SIZE/s`, of all threads together: an open loop"),
    key(&["rate_process"], Test, "`rate=N,poisson`"),
    key(&["random_distribution"], Test, "`zipf=THETA`"),
    key(&["percentage_random"], Test, "`rndSIZE` for 100, `seqSIZE` for 0"),
    key(&["number_ios"], Test, "`ops=N`, of all threads"),
    key(&["io_size", "io_limit"], Test, "`bytes=SIZE`, of all threads"),
    key(&["loops"], Test, "`passes=N`"),
    key(&["hipri"], Test, "`iopoll`"),
    key(&["sqthread_poll"], Test, "`sqpoll`"),
    key(&["buffer_compress_percentage"], Test, "`compress=PERCENT`"),
    key(&["dedupe_percentage"], Test, "`dedupe=PERCENT`"),
    key(&["runtime", "timeout"], ForRun, "`--time SECONDS`"),
    key(&["size"], ForRun, "`--size SIZE`: the data of all threads"),
    key(&["filesize"], ForRun, "`--size SIZE`, of all threads; `io_size` is `bytes=SIZE`"),
    key(&["filename"], ForRun, "the directory, the device or the file to measure; `shared` for one file"),
    key(&["directory"], ForRun, "the directory to measure"),
    key(&["name"], ForRun, "begins a job for `skye fio`; a run has `--label NAME`"),
    key(&["description"], Always, "`--label NAME` is for the whole run"),
    key(&["verify"], ForRun, "`--verify`, which compares what tests read"),
    key(&["do_verify"], ForRun, "`--verify`, which compares what tests read"),
    key(&["randseed"], ForRun, "`--seed SEED`"),
    key(&["output"], ForRun, "`--json FILE` `--csv FILE` `--html FILE`"),
    key(
        &["output-format", "minimal", "terse-version"],
        Always,
        "a run is saved as JSON; `--csv FILE` is a table",
    ),
    key(&["client", "server"], Missing, "`--hosts` measures with several clients as one"),
    key(&["pre_read"], ForRun, "`--cache warm`"),
    key(&["invalidate"], ForRun, "`--cache cold`, the default, or `--cache as-is`"),
    key(
        &["time_based"],
        ForRun,
        "`--time SECONDS`: a test ends with its time, unless a count or a single pass ends it first",
    ),
    key(&["ramp_time"], Always, "skye finds the steady part itself"),
    key(
        &["steadystate", "ss", "steadystate_duration", "ss_dur", "steadystate_ramp_time", "ss_ramp"],
        Always,
        "skye finds the steady part itself; `--precision` ends a test when it knows the rate, `--precondition` waits for a \
         steady device",
    ),
    key(&["group_reporting"], Always, "a row is the sum of all threads"),
    key(&["stonewall", "wait_for_previous"], ForRun, "the order of the tests, which run one after another"),
    key(&["thread"], Always, "jobs are threads"),
    key(
        &["norandommap", "random_generator", "serialize_overlap"],
        Always,
        "each block is visited once in a pass, in a new order",
    ),
    key(&["randrepeat", "allrandrepeat"], Always, "each run has a new order; `--seed N` repeats one"),
    key(&["zero_buffers"], Test, "`compress=100`"),
    key(
        &["refill_buffers", "scramble_buffers"],
        Always,
        "all data is random, but for `compress` and `dedupe`",
    ),
    key(
        &[
            "overwrite",
            "fallocate",
            "create_serialize",
            "create_on_open",
            "create_fsync",
            "allow_file_create",
        ],
        Always,
        "skye writes the files before it measures, unless a test has `fresh`",
    ),
    key(&["unlink", "unlink_each_loop"], Always, "skye removes its files"),
    key(
        &[
            "gtod_reduce",
            "disable_lat",
            "disable_clat",
            "disable_slat",
            "disable_bw_measurement",
            "disable_bw",
            "clocksource",
            "gtod_cpu",
        ],
        Always,
        "measuring costs about 30 ns an operation, which each run shows",
    ),
    key(
        &["clat_percentiles", "lat_percentiles", "slat_percentiles"],
        Always,
        "rows have percentiles of the whole latency; documents have the histogram",
    ),
    key(&["percentile_list"], ForRun, "`--percentiles LIST`, also of `skye report`"),
    key(
        &[
            "write_bw_log",
            "write_lat_log",
            "write_iops_log",
            "write_hist_log",
            "log_avg_msec",
            "per_job_logs",
            "log_unix_epoch",
            "log_offset",
            "log_prio",
            "log_hist_msec",
            "log_hist_coarseness",
            "log_entries",
            "log_max_value",
            "log_compression",
            "log_compression_cpus",
            "log_store_compressed",
            "log_alternate_epoch",
            "log_alternate_epoch_clock_id",
            "bwavgtime",
            "iopsavgtime",
        ],
        Always,
        "documents have every 100 ms (coarser after 5 minutes), and `--html` draws them",
    ),
    key(
        &[
            "eta",
            "eta-newline",
            "eta-interval",
            "status-interval",
            "disk_util",
            "unit_base",
            "stats",
            "significant_figures",
        ],
        Always,
        "skye always prints one live row, and counters of the devices",
    ),
    key(&["unified_rw_reporting"], Always, "a row of `rw` has the sum, and reads and writes apart"),
    key(
        &[
            "registerfiles",
            "force_async",
            "fixedbufs",
            "nonvectored",
            "iodepth_batch",
            "iodepth_batch_submit",
            "iodepth_batch_complete",
            "iodepth_batch_complete_max",
            "iodepth_batch_complete_min",
            "iodepth_low",
            "userspace_reap",
        ],
        Always,
        "the ring has fixed files and buffers, and is refilled as operations end",
    ),
    key(
        &["exitall", "exitall_on_error", "exit_what"],
        Always,
        "a test ends with its last thread; one that fails ends alone, and the test has failed",
    ),
    key(&["startdelay", "start_delay"], Always, "a test begins when the one before it has ended"),
    key(&["offset_increment"], Always, "threads of one file have separate parts"),
    key(
        &["openfiles", "filename_format"],
        Always,
        "each thread keeps its files open, under names that skye chooses",
    ),
    key(&["alloc-size", "max-jobs", "allow_mounted_write"], Always, "skye needs no such setting"),
    key(&["readonly"], Always, "a device is only read without `--erase`"),
    key(
        &[
            "verify_fatal",
            "verify_async",
            "verify_async_cpus",
            "verify_dump",
            "verify_state_save",
            "verify_state_load",
            "verify_write_sequence",
        ],
        Always,
        "a wrong block ends its thread, and its offset is printed",
    ),
    key(&["io_submit_mode"], Always, "an open loop submits at its due times"),
    key(&["kb_base"], ForRun, "sizes in bytes: a k is 1024 here, and kB is 1000"),
    key(&["buffer_pattern"], Missing, "data is random, but for `compress=` and `dedupe=`: drop it"),
    key(&["create_only"], Missing, "`--dry-run` shows the files of a run"),
    key(
        &["bssplit", "bsrange", "blocksize_range", "bs_unaligned", "blocksize_unaligned", "ba", "blockalign"],
        Missing,
        "a test has one block size: drop it, and use a test for each, or `--sweep 4k..1m`",
    ),
    key(&["nrfiles", "nr_files"], Test, "`files=N`, of all threads"),
    key(&["file_service_type"], Missing, "threads take their files in turn: drop it"),
    key(
        &["pool", "rbdname", "clientname", "clustername", "busy_poll"],
        Missing,
        "it belongs to ioengine=rbd: drop both",
    ),
    key(&["opendir"], Missing, "skye makes its files; give it one file as the target to read that"),
    key(&["cpuload", "cpuchunks"], Missing, "start another program for load on the CPUs"),
    key(
        &["offset", "fileoffset", "offset_align"],
        Missing,
        "drop it: tests begin at 0; `range=FROM..TO` reads a part of a device or a file",
    ),
    key(
        &[
            "zonemode",
            "zonesize",
            "zonerange",
            "zoneskip",
            "zonecapacity",
            "max_open_zones",
            "job_max_open_zones",
            "ignore_zone_limits",
            "zone_reset_threshold",
            "zone_reset_frequency",
            "read_beyond_wp",
        ],
        Missing,
        "`zones=SIZE` measures the rate over the offset; zoned devices are not there",
    ),
    key(
        &["thinktime", "thinktime_blocks", "thinktime_blocks_type", "thinktime_iotime", "thinktime_spin"],
        Missing,
        "`rate=N` sets a pace instead",
    ),
    key(
        &["rate_min", "ratemin", "rate_iops_min"],
        Missing,
        "`skye compare --fail-on` ends with an error if a rate fell by more than a share",
    ),
    key(
        &["latency_target", "latency_window", "latency_percentile", "latency_run", "max_latency"],
        Missing,
        "`--sweep rate` shows the latency at each rate",
    ),
    key(
        &[
            "read_iolog",
            "read_iolog_chunked",
            "write_iolog",
            "replay_redirect",
            "replay_no_stall",
            "replay_scale",
            "replay_align",
            "replay_time_scale",
            "replay_skip",
            "merge_blktrace_file",
            "merge_blktrace_scalars",
            "merge_blktrace_iters",
        ],
        Missing,
        "`replay:FILE` replays load files of dbench, not block traces",
    ),
    key(
        &["cpus_allowed", "cpumask", "cpus_allowed_policy", "sqthread_poll_cpu"],
        Missing,
        "start skye under `taskset`",
    ),
    key(&["numa_cpu_nodes", "numa_mem_policy"], Missing, "start skye under `numactl`"),
    key(
        &["nice", "prio", "prioclass", "cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_bssplit"],
        Missing,
        "start skye under `nice` or `ionice`",
    ),
    key(&["cgroup", "cgroup_weight", "cgroup_nodelete"], Missing, "start skye in the cgroup"),
    key(&["ioscheduler"], Missing, "set it in /sys/block/DEVICE/queue/scheduler; each run records it"),
    key(&["mem", "iomem", "hugepage-size"], Missing, "buffers request huge pages: drop it"),
    key(&["lockmem"], Missing, "for less page cache, start skye under `systemd-run -p MemoryMax=SIZE`"),
    key(
        &["flow", "flow_id", "flow_sleep", "wait_for", "new_group"],
        Missing,
        "tests run one after another; `mix:NAME` runs several kinds of work at once",
    ),
    key(
        &[
            "verify_pattern",
            "verify_backlog",
            "verify_backlog_batch",
            "verify_only",
            "verify_interval",
            "verify_offset",
            "experimental_verify",
        ],
        Missing,
        "skye writes a mark into each 4 KiB and compares it; `--verify` compares every byte",
    ),
    key(
        &["continue_on_error", "error_dump", "ignore_error"],
        Missing,
        "an error ends its thread, and the test has failed: drop it",
    ),
    key(
        &["exec_prerun", "exec_postrun"],
        Missing,
        "run it before or after skye; to drop caches, use `--cache drop-all`",
    ),
    key(&["fill_device", "fill_fs"], Missing, "`--precondition` writes all data twice before the tests"),
    key(
        &[
            "iodepth_mode",
            "sync_file_range",
            "fadvise_hint",
            "rwmixcycle",
            "rw_sequencer",
            "trim_percentage",
            "trim_verify_zero",
            "trim_backlog",
            "trim_backlog_batch",
            "rate_cycle",
            "ratecycle",
            "rate_ignore_thinktime",
            "file_append",
            "unique_filename",
            "lockfile",
            "write_barrier",
            "write_hint",
            "block_error_percentiles",
            "buffer_compress_chunk",
            "dedupe_mode",
            "dedupe_working_set_percentage",
            "dedupe_global",
            "profile",
        ],
        Missing,
        "no word stands for it: drop it",
    ),
    key(&["uid", "gid"], Missing, "start skye as that user"),
    key(
        &["include", "section", "showcmd", "parse-only", "debug"],
        Missing,
        "`skye run --dry-run` shows what a run would do",
    ),
];

/// Values by which a key that skye does not have changes nothing.
const NEUTRAL: &[(&str, &str)] = &[("offset", "0"), ("thinktime", "0"), ("fadvise_hint", "1")];

/// A job of fio, and the same test as a SPEC.
#[derive(Debug)]
pub struct FioExample {
    /// Its purpose.
    pub purpose: &'static str,
    /// The keys of the job that say what a test does.
    pub keys: &'static str,
    /// The SPEC.
    pub spec: &'static str,
}

const fn example(purpose: &'static str, keys: &'static str, spec: &'static str) -> FioExample {
    FioExample { purpose, keys, spec }
}

/// Usual jobs of fio, in the order of the page. README has the first ten.
pub const FIO_EXAMPLES: &[FioExample] = &[
    example(
        "random reads",
        "--rw=randread --bs=4k --ioengine=libaio --iodepth=32 --numjobs=4 --direct=1",
        "read:rnd4k:q32t4:direct",
    ),
    example(
        "random writes",
        "--rw=randwrite --bs=4k --ioengine=libaio --iodepth=32 --direct=1",
        "write:rnd4k:q32:direct",
    ),
    example(
        "a stream of reads",
        "--rw=read --bs=1m --ioengine=libaio --iodepth=8 --direct=1",
        "read:seq1m:q8:direct",
    ),
    example(
        "a stream of writes",
        "--rw=write --bs=1m --ioengine=libaio --iodepth=8 --direct=1",
        "write:seq1m:q8:direct",
    ),
    example(
        "a database's mix",
        "--rw=randrw --rwmixread=70 --bs=8k --ioengine=libaio --iodepth=16 --direct=1",
        "rw:rnd8k:q16:direct:read=70",
    ),
    example("latency of a read", "--rw=randread --bs=4k --direct=1", "read:rnd4k:direct"),
    example(
        "a write-ahead log",
        "--rw=write --bs=2300 --ioengine=sync --fdatasync=1",
        "write:seq2300:buffered:engine=sync:sync=each",
    ),
    example(
        "durable writes",
        "--rw=randwrite --bs=4k --numjobs=8 --fsync=1 --direct=1",
        "write:rnd4k:t8:direct:sync=each",
    ),
    example("a copy", "--rw=write --bs=1m --end_fsync=1", "write:seq1m:buffered:sync=end"),
    example(
        "a fixed rate",
        "--rw=randread --bs=4k --ioengine=libaio --iodepth=64 --rate_iops=5000 --direct=1",
        "read:rnd4k:q64:direct:rate=5000",
    ),
    example(
        "a sync now and then",
        "--rw=randwrite --bs=16k --fsync=32 --direct=1",
        "write:rnd16k:direct:sync=32",
    ),
    example(
        "a fixed bandwidth",
        "--rw=write --bs=1m --ioengine=libaio --iodepth=4 --rate=100m --direct=1",
        "write:seq1m:q4:direct:rate=100m/s",
    ),
    example(
        "hot blocks",
        "--rw=randread --bs=4k --ioengine=libaio --iodepth=16 --random_distribution=zipf:1.2 --direct=1",
        "read:rnd4k:q16:direct:zipf=1.2",
    ),
    example("reads and writes in order", "--rw=rw --bs=64k --direct=1", "rw:seq64k:direct"),
    example("discards", "--rw=trim --bs=1m", "discard:seq1m"),
    example(
        "plain system calls",
        "--rw=randread --bs=4k --ioengine=psync --numjobs=16 --direct=1",
        "read:rnd4k:t16:direct:engine=sync",
    ),
    example("a mapping", "--rw=randread --bs=4k --ioengine=mmap", "read:rnd4k:buffered:engine=mmap"),
    example(
        "a polling ring",
        "--rw=randread --bs=4k --ioengine=io_uring --iodepth=128 --hipri=1 --direct=1",
        "read:rnd4k:q128:direct:engine=uring:iopoll",
    ),
    example(
        "data that compresses",
        "--rw=write --bs=128k --ioengine=libaio --iodepth=8 --buffer_compress_percentage=50 --dedupe_percentage=20 --direct=1",
        "write:seq128k:q8:direct:compress=50:dedupe=20",
    ),
    example(
        "one pass by count",
        "--rw=randread --bs=4k --ioengine=libaio --iodepth=8 --number_ios=100000 --direct=1",
        "read:rnd4k:q8:direct:ops=100000",
    ),
];

impl FioKey {
    /// Returns all names of all keys.
    pub fn all_names() -> impl Iterator<Item = &'static str> {
        FIO_KEYS.iter().flat_map(|key| key.names).copied()
    }

    /// Returns the key with this name, with or without the dashes of an option.
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = name.trim_start_matches('-').as_bytes();
        let is_same = |one: &u8, other: &u8| match one {
            b'-' | b'_' => matches!(other, b'-' | b'_'),
            letter => letter.eq_ignore_ascii_case(other),
        };
        // Documents have a SPEC in each row, and each of its words is looked up.
        let is_name = |known: &&str| {
            known.len() == name.len()
                && known.as_bytes().iter().zip(name).all(|(one, other)| is_same(one, other))
        };
        FIO_KEYS.iter().find(|key| key.names.iter().any(is_name))
    }

    /// Returns true for a value by which a key that skye does not have changes nothing.
    pub(super) fn is_neutral(&self, name: &str, value: &str) -> bool {
        self.meaning == Missing && NEUTRAL.contains(&(name, value))
    }

    /// Returns what stands for the key here, as a sentence without its end.
    pub fn advice(&self) -> String {
        match self.meaning {
            Test => format!("in a test, it is {}", self.here),
            ForRun => format!("use {}", self.here),
            Always => format!("not needed: {}", self.here),
            Missing => format!("skye does not have it; {}", self.here),
        }
    }
}

/// A test or a command line of fio in skye's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    /// The SPEC, or the words after `skye`.
    pub text: String,
    /// Differences from the original.
    pub notes: Vec<String>,
}

/// Translates a test that has words of fio or of other programs: `rw=randread:bs=4k:numjobs=2` is `read:rnd4k:t2:buffered`. Returns
/// `None` for a SPEC.
///
/// # Errors
/// A word has another meaning here, or none.
pub fn translated(spec: &str) -> Result<Option<Translation>, String> {
    let job = Job::from_spec(spec)?;
    job.is_foreign().then(|| job.translation()).transpose()
}

#[cfg(test)]
mod tests;
