//! All wording of limiters, for verdicts, `skye explain` and `docs/limiters.md`: their meaning, the evidence for each,
//! the steps to try, and the untested cases.

use model::Limiter;
use model::figure::Threshold;
use model::observation::Source::{self, *};

use crate::template::filled;

/// One limiter, explained. All texts are plain sentences; those with thresholds have the thresholds' names in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimiterHelp {
    /// The limiter.
    pub limiter: Limiter,
    /// Sources of evidence, beginning with the one that says most.
    pub(crate) by_weight: &'static [Source],
    /// Meaning of the limiter; the first sentence is used alone in lists.
    pub meaning: &'static str,
    /// Evidence for it, with the names of its thresholds.
    evidence: &'static str,
    /// Next step to try.
    pub try_next: &'static str,
    /// Wrong conclusions from it.
    pub does_not_mean: &'static str,
    /// Cases in which the rule was not tested against a known cause.
    pub untested: &'static str,
}

impl LimiterHelp {
    /// Returns the limiter's page.
    pub fn from_limiter(limiter: Limiter) -> Option<&'static Self> {
        LIMITER_HELP.iter().find(|about| about.limiter == limiter)
    }

    /// Returns the first sentence of its meaning, without the full stop.
    pub fn in_short(&self) -> &'static str {
        first_sentence(self.meaning)
    }

    /// Returns the first thing to do next, without a full stop.
    pub fn next_in_short(&self) -> &'static str {
        first_sentence(self.try_next)
    }

    /// Returns the evidence for it, with the thresholds of the rules.
    pub fn evidence(&self, thresholds: &[Threshold]) -> String {
        filled(self.evidence, &[thresholds.to_vec()])
    }

    /// Returns its texts, each under its heading, with the thresholds of the rules.
    pub fn sections(&self, thresholds: &[Threshold]) -> [(&'static str, String); 5] {
        [
            ("Meaning", self.meaning.to_owned()),
            ("Evidence", self.evidence(thresholds)),
            ("Next", self.try_next.to_owned()),
            ("Not", self.does_not_mean.to_owned()),
            ("Untested", self.untested.to_owned()),
        ]
    }
}

/// Explains how sure a limiter is, and by which evidence, with the thresholds of the rules.
pub fn confidence(thresholds: &[Threshold]) -> String {
    filled(CONFIDENCE, &[thresholds.to_vec()])
}

/// Returns the first sentence without its full stop.
fn first_sentence(text: &'static str) -> &'static str {
    text.split_once(". ").map_or(text.trim_end_matches('.'), |(first, _)| first)
}

const CONFIDENCE: &str = "Confirmed: three kinds of evidence agree, and none contradicts. Likely, shown as (likely): \
    two agree, or one of them contradicts. With fewer, or more that conflict, the row is not clear, and the \
    observations are reported all the same. On a virtual disk, device bandwidth and device operations are never \
    confirmed: a limit of the host or the provider looks the same. If other programs use more than {others_most} of \
    all CPUs, nothing about a target that software of this machine serves is confirmed. An operation of a mix with at \
    least {operation_time} of the time has a separate limiter. That has more than {operation_most} of the samples of \
    its threads, by the 95 % interval. If the second has at least {nearly_blocked}, and by the interval \
    {operation_second}, it is mixed. It is likely at best. Awake threads have the test's limiter if that is one of \
    CPUs. If not, they have the kind of CPU time with {awake_most} of all awake time.";

/// The kinds of evidence, with the meaning of each.
pub const KINDS: &[(&str, &str)] = &[
    (
        "budget",
        "Shares of the threads' time: in their own code, in the kernel, waiting for a CPU, throttled by a quota, taken \
         by the hypervisor, asleep. They sum to 1; the largest leads.",
    ),
    (
        "wait channel",
        "Kernel functions in which sampled threads slept, by class: device, page, sync, lock, dirty, reclaim, queue, \
         remote.",
    ),
    (
        "counters",
        "Counters of devices, file systems, networks, cgroups and the pressure files: bytes per requested byte, \
         requests in flight, flushes, foreign I/O.",
    ),
    ("visible cap", "A readable limit that the rate has reached."),
    ("ceiling", "Rates of skye without I/O, and of the same calls on memory; measured before the tests."),
    (
        "probe",
        "The rate after a change of the load: 4 times the depth, one operation in flight, another block size, \
         separate files or directories.",
    ),
];

/// Definition of occupancy: the mean number of requests at the target over the mean number of sleeping threads.
const OCCUPANCY: &str = "Occupancy is the mean number of requests at the device or server per sleeping thread (in a \
    ring, per operation in flight). About 1: they wait at the device. Below {in_target}: they wait above it. Above \
    1.3: requests are split, or foreign. If all CPUs are busy (above {cpus_busy}), values from {in_target} to \
    {in_target_busy} mean nothing.";

/// The conclusions that experiments allow.
const EXPERIMENTS: &str = "A target is saturated if more depth changes little. That is, 4 times the operations in \
    flight gain less than {saturated_gain} (upper end of the 95 % interval below {gain_bound}). It has headroom if more \
    depth gains more than {gain_bound} (lower end). In between it is mixed, unless a single operation decides. With \
    headroom, N operations reach more than {scaling_min} of N times the rate of one (lower end). It is limited by bytes, or by \
    operations, if another block size changes them by less than {same} times (upper end below {same_bound}). A response \
    is excluded if its interval is too wide ({unsteady} as an exponent), or if no single limit causes it. It is also \
    excluded if the baseline differs by more than {moved} from the row's rate. A single operation is not tried if more \
    depth reaches more than {much_room} times the rate.";

/// Returns the conclusions that experiments allow, with the thresholds of the rules.
pub fn experiments(thresholds: &[Threshold]) -> String {
    filled(EXPERIMENTS, &[thresholds.to_vec()])
}

/// Returns the meaning of occupancy, with the thresholds of the rules.
pub fn occupancy(thresholds: &[Threshold]) -> String {
    filled(OCCUPANCY, &[thresholds.to_vec()])
}

/// The time of the threads shows the limit.
const BY_TIME: &[Source] = &[Budget, Counters, Ceiling, Probe, WaitChannel, VisibleCap];
/// Only the counters show which bytes reached the device, and whose they were.
const BY_COUNTERS: &[Source] = &[Counters, Budget, Ceiling, WaitChannel, Probe, VisibleCap];
/// Rates that the interface or an experiment allows show the limit.
const BY_RATE_LIMIT: &[Source] = &[VisibleCap, Counters, Budget, Ceiling, WaitChannel, Probe];
/// Costs of skye itself show the limit.
const BY_CEILING: &[Source] = &[Ceiling, Counters, Budget, Probe, WaitChannel, VisibleCap];
/// Places where threads sleep show the limit.
const BY_WAITS: &[Source] = &[WaitChannel, Probe, Counters, Budget, VisibleCap, Ceiling];
/// A cap that can be read shows the limit, or else an experiment.
const BY_CAP: &[Source] = &[VisibleCap, Probe, WaitChannel, Counters, Budget, Ceiling];
/// Where the operations stand shows the limit, or else a cap that can be read.
const BY_PLACE: &[Source] = &[VisibleCap, Counters, Probe, WaitChannel, Budget, Ceiling];

macro_rules! explained {
    ($($limiter:ident $by_weight:ident { $($text:ident: $words:expr,)+ })+) => {
        /// Every limiter, in the order of [`Limiter::ALL`].
        pub const LIMITER_HELP: &[LimiterHelp] = &[$(
            LimiterHelp { limiter: Limiter::$limiter, by_weight: $by_weight, $($text: $words,)+ },
        )+];
    };
}

// Each limiter with its order of evidence.
explained! {
    DeviceBandwidth BY_CAP {
        meaning: "The device moves no more bytes per second.",
        evidence: "Threads asleep for at least half of their time, in the device; experiments show that it is \
            saturated, and limited by bytes. Without experiments: an occupancy of at least {in_target}, blocks of at \
            least {large_blocks} and at least {deep_bytes} in flight, which is likely at best.",
        try_next: "Nothing, if the sequential rate was the question. A rate that falls after a while (rate_dropped) \
            was that of a cache: use a longer --time.",
        does_not_mean: "A fault of the drive: its link, a controller, or on a virtual disk the host's limit looks the \
            same. Some devices store compressible blocks faster.",
        untested: "Real NVMe and SATA drives, spinning disks, md and device-mapper stacks. Tested on devices whose \
            bandwidth was set by a rig.",
    }
    DeviceOps BY_CAP {
        meaning: "The device completes no more operations per second.",
        evidence: "As device bandwidth, but limited by operations: another block size leaves them the same. Or it \
            changes operations and bytes, while another test of the run moves at least {clearly_more} times the bytes \
            in the same direction. Without experiments: an occupancy of at least {in_target}, blocks below \
            {large_blocks} and at least {deep} in flight, which is likely at best.",
        try_next: "Use larger blocks, if your program can. If p99 matters more than the rate, use less depth: beyond \
            the knee of a sweep (--sweep q1..q64), only latency grows.",
        does_not_mean: "A device that is 100 % busy: the kernel's counter only shows that it was not idle.",
        untested: "Real NVMe drives with many queues, spinning disks.",
    }
    DeviceLatency BY_CAP {
        meaning: "The device's time per operation sets the rate, at the requested depth. The device has headroom for \
            more in flight.",
        evidence: "Threads asleep for at least half of their time, in the device (occupancy at least {in_target}); \
            experiments show that it has headroom. The row shows the gain from more depth. Without experiments: blocks \
            below {large_blocks} and one in flight, which is likely at best.",
        try_next: "Use more depth or threads: the row shows the rate with 4 times as many. If your program waits for \
            each operation, this row is its rate, and only a faster device or a cache helps.",
        does_not_mean: "A slow device, or its maximum: see the rows with more depth.",
        untested: "Real NVMe drives. Below about 50 µs an operation is part device and part kernel; such rows are \
            mixed.",
    }
    DeviceUndetermined BY_PLACE {
        meaning: "The device sets the rate: by the time of one operation, or by all that it can do. No experiment \
            separated the two.",
        evidence: "Threads asleep for at least half of their time, and the device not idle; several operations in \
            flight or large blocks, but fewer than {deep} and {deep_bytes}. No experiment was made, or its answer \
            was too uncertain.",
        try_next: "Drop --no-probe, raise --write-limit, or use a longer --time, so that there are experiments.",
        does_not_mean: "Both limits at once. More depth may help, or not at all.",
        untested: "Nothing more than for device latency and device operations.",
    }
    RemoteLatency BY_CAP {
        meaning: "The round trip to the server sets the rate, at the requested depth. The server may be a program of \
            this machine that serves the file system.",
        evidence: "As device latency, on a network or user-space file system: threads sleep where the kernel waits for \
            a reply. And experiments show that the server has headroom.",
        try_next: "Use more depth or threads. Use larger blocks and fewer small files, for fewer round trips. On NFS, \
            use mount options that cache attributes, if your data allow it.",
        does_not_mean: "A busy server: more depth would then gain nothing.",
        untested: "Nothing known. Tested on FUSE with a known time for each request, on sshfs, on NFS with a slow \
            device or a far server, and on SMB.",
    }
    QueueFull BY_PLACE {
        meaning: "Requests wait for a free queue slot: a tag of the device, an RPC slot, a FUSE background request.",
        evidence: "A layer's slots are taken ({filled} of them), and more operations wait above. Requests inside take at \
            most {room_times} times as long as one alone. From {full_times} times, what is inside is full instead. Or more \
            than {at_queue} of the sleep is where the kernel waits for a tag or a slot.",
        try_next: "Raise the limit: nr_requests of the device's queue, max_background of a FUSE file system, slots or \
            nconnect of an NFS mount.",
        does_not_mean: "The device's own limit: a longer queue may show that the device can do no more either.",
        untested: "Nothing known. Tested with queues of devices at any layer, with FUSE, and with two slots of NFS.",
    }
    IoThrottle BY_PLACE {
        meaning: "A configured limit caps the rate: of a cgroup or of the provider.",
        evidence: "Operations wait above a device, whose rate has reached a readable cap, within {at_cap_known} to {at_cap} \
            by its precision. A cap that the rate meets within {at_cap_exactly} counts wherever they wait. If all CPUs \
            are busy, a cap is also likely with operations in the device, if experiments show that it is saturated. \
            Without a cap, in direct tests: less than {half_idle} of the operations above a device are in it, though its \
            queue has room. Threads sleep nowhere else for more than {elsewhere} of the samples, and \
            experiments show saturation. Without experiments, the device has at most {all_but_idle} of the operations. \
            Below the uppermost device, it is likely at best.",
        try_next: "Check the cap that the row shows, or measure outside of the container. A provider's cap depends on \
            the size or class of a volume.",
        does_not_mean: "A limit of the device under the cap. Latencies of a throttled row are those of the throttle.",
        untested: "Caps of io.latency and io.cost, and providers' caps, which cannot be read. Tested with caps of \
            cgroup v1 and v2 (io.max) on operations and bytes.",
    }
    RequestedRate BY_CAP {
        meaning: "The test reached its requested rate. Its latencies are the result, not its rate.",
        evidence: "An open loop (rate=) in which at most {short_max} of the due operations never started. It is likely \
            at best if the rate is more than {short_max} below the requested one, beyond three standard deviations of \
            a Poisson process.",
        try_next: "Use a higher rate, or --sweep rate, to find where latency rises.",
        does_not_mean: "The maximum of the storage.",
        untested: "Nothing: it follows from the requested rate.",
    }
    ThinkTime BY_CAP {
        meaning: "The mix has think time (think_ms), and threads spend most of their time in it.",
        evidence: "All flows together took less than {paused_min} of the threads' time.",
        try_next: "Use more threads, or rate=N, with which no thread pauses.",
        does_not_mean: "The maximum of the storage.",
        untested: "Nothing: it follows from the mix.",
    }
    NetworkBandwidth BY_RATE_LIMIT {
        meaning: "The network moves no more bytes per second.",
        evidence: "As a saturated server, and the interface carried at least {network} of the requested bytes. Another \
            block size moves the same bytes. If none was tried, blocks of at least {large_blocks}, or a stream through \
            the page cache. Or the line to the server of a file system or device has at least {line_saturated} of a known \
            limit. Known limits are the rate in an experiment on another test, a queueing discipline of this host (tbf, \
            netem, cake), or the interface's speed. If the CPUs were more than {ends_busy} busy and no other block size was tried, it is \
            not clear: they may limit either end.",
        try_next: "Use a faster link, several connections (nconnect) if one of them is the limit, or compression, if \
            the data allow it.",
        does_not_mean: "The speed of the server's disks. A link that is shaped below its nominal speed looks the same.",
        untested: "SMB, links of 10 Gbit/s and more, several interfaces at once. Tested with sshfs over a link of 200 \
            Mbit/s, and with NFS over one of 40 Mbit/s.",
    }
    RemoteUndetermined BY_PLACE {
        meaning: "The server or the network to it sets the rate. No experiment separated the two.",
        evidence: "As for a device, where threads wait for replies of a server. Or a stream through the page cache crossed \
            an interface, and no limit of the interface is known or reached. The kernel reads ahead and writes behind, \
            so the depth of the test is no evidence.",
        try_next: "Drop --no-probe, raise --write-limit, or use a longer --time, so that there are experiments.",
        does_not_mean: "Both limits at once.",
        untested: "SMB. Tested on sshfs and NFS.",
    }
    ServerSaturated BY_PLACE {
        meaning: "The server, or the program that serves the file system, is saturated, whatever the load.",
        evidence: "A remote file system; threads asleep for at least half of their time; experiments show that the \
            server is saturated. Without experiments: more than half of the sleep waits for replies, or an open loop \
            fell behind with its maximum in flight. It is then likely at best. Or all threads of the program have work, \
            and what is below it has room.",
        try_next: "Run skye on the server, on the exported directory: only the client is visible from here.",
        does_not_mean: "A known cause on the server: its disks, its CPUs and its threads look the same from here.",
        untested: "SMB servers. Tested on an NFS server with one thread, and on a FUSE server with a known number of \
            threads and time for each request.",
    }
    PageCache BY_COUNTERS {
        meaning: "The kernel copied from or to memory, without the device. This is the speed of memory and of the CPU.",
        evidence: "A buffered test that reads; threads on a CPU, or ready for one, for longer than asleep; the device \
            delivered less than {from_device} of the bytes. A rate above {near} of the same calls on memory is a \
            further kind.",
        try_next: "Use :direct, --cache cold, or a --size beyond memory to measure the device. For the rate of cached \
            reads, this is the right number.",
        does_not_mean: "The speed of the device, or a cache that holds your program's files.",
        untested: "ZFS, which has a separate cache.",
    }
    PageCacheAbsorbed BY_COUNTERS {
        meaning: "The page cache took the writes, and part of them had not reached the device when the test ended.",
        evidence: "A buffered test that writes, with sync=none; threads on a CPU, or ready for one, for longer than \
            asleep; the device took less than {to_device} of the bytes.",
        try_next: "Use sync=end, which is the default, or a longer --time: memory fills, and then the device sets the \
            rate.",
        does_not_mean: "A durable rate: a power failure loses the data in memory.",
        untested: "File systems that delay their writes for other reasons (ZFS).",
    }
    MetadataCache BY_COUNTERS {
        meaning: "Names and attributes came from memory. This is the speed of the kernel's look-ups.",
        evidence: "A test that only looks up (stat, open, readdir, readlink, xattr-get, walk, missing names); threads \
            on a CPU, or ready for one, for longer than asleep; the device read less than 6 bytes for each operation, \
            or the kernel charged the test with less, or there is no device.",
        try_next: "Add --cold as root, or use more --files than memory can hold.",
        does_not_mean: "The speed of the disk, or of a first access.",
        untested: "ZFS. Tested on NFS with attribute caching, too.",
    }
    DirtyThrottling BY_WAITS {
        meaning: "The kernel throttled the writers until dirty pages were written. The cause is the target of the \
            writeback: mostly the device.",
        evidence: "Threads sleep for longer than they run or wait for a CPU, and more than half of the sleep is in \
            balancing dirty pages. If the link to a server is saturated at the same time, the verdict is the network.",
        try_next: "See the direct row of the same test for the device's rate. A larger vm.dirty_bytes only delays the \
            throttling.",
        does_not_mean: "A fault: memory filled faster than the device empties it.",
        untested: "Limits of a cgroup v2 on writeback. Tested on NFS with a saturated link.",
    }
    MemoryPressure BY_COUNTERS {
        meaning: "Memory was short: the kernel had to reclaim pages before the test could continue.",
        evidence: "Some task of the machine waited for memory for at least {pressure} of the time. Also, at least \
            {reclaim} of the sleep is where the kernel reclaims pages, or the cgroup reached its limit more than \
            {limit_hits} times a second. Or, likely: the cgroup did, threads slept for at least half of their time, \
            and at least half of the reads were refaults.",
        try_next: "Free memory, raise the cgroup's limit, or use a smaller data set.",
        does_not_mean: "A slow disk; a disk with swap is busy, too.",
        untested: "Limits of a cgroup v2 (memory.high). Machines that swap.",
    }
    FsyncJournal BY_WAITS {
        meaning: "Commits of the file system's journal or log, if it has one, and flushes of the device set the rate.",
        evidence: "A test that makes each operation durable; threads asleep for at least half of their time. More than \
            {in_sync} of the sleep is in a sync, or the device made at least one flush for two operations. In a mix, \
            waits for pages count if the operation ends with a sync. The sync takes at least {sync_most} of an \
            operation; above {sync_half}, the write before it counts as much.",
        try_next: "Use more threads: most journals commit for all at once. Use a device with power-loss protection, \
            which flushes at no cost. Use fewer, larger transactions in the program.",
        does_not_mean: "The device's rate for plain writes: see the direct row. Mount options without flushes make it \
            faster and nothing durable.",
        untested: "ZFS, bcachefs; kernels before 6.x, where the functions have other names.",
    }
    LockContention BY_WAITS {
        meaning: "The threads wait for each other: the kernel lets only one of them into a file, a directory or a \
            structure.",
        evidence: "Several threads, asleep for at least half of their time. More than half of the sleep is at a lock, \
            or {at_locks_of_one} if the rest makes up about one thread, the holder; occupancy is near one over the \
            number of threads. Or, if they share a file or directory, separate ones reached at least {separate} times \
            the rate. With fewer than 4 CPUs it is likely at best.",
        try_next: "Use a file or directory for each thread (without shared). Use direct writes that do not extend a \
            file, which some file systems run in parallel.",
        does_not_mean: "A limit of the device. If the holder of the lock waits for one, that is the verdict.",
        untested: "Machines with many CPUs. On few, threads spin for a lock rather than sleep, which looks like kernel \
            CPU. Separate files are tried only if another test of the run has them.",
    }
    ClientCpu BY_TIME {
        meaning: "The threads' own code takes the time, outside of the kernel. For putc and getc, it is the C library.",
        evidence: "Threads on a CPU, or ready for one, for most of their time, most of it outside of the kernel; in a \
            ring, its threads asleep for less than {ring_blocked}. A device that was mostly idle, and a rate above \
            {near} of the same calls on memory, are further kinds. Open loops and tests that poll are excluded.",
        try_next: "Use larger calls: write instead of putc. Use more threads, if CPUs are free.",
        does_not_mean: "A limit of the storage. A faster device gives the same number.",
        untested: "Nothing known. The split between own code and kernel is the kernel's, by ticks on some kernels.",
    }
    KernelCpu BY_TIME {
        meaning: "The threads' time in the kernel sets the rate: calls, file system, copying, the driver.",
        evidence: "Threads on a CPU, or ready for one, for most of their time, most of it in the kernel, and no cache \
            explains it; in a ring, its threads asleep for less than {ring_blocked}. A device that was mostly idle, \
            and a rate above {near} of the same calls on memory, are further kinds. Open loops and tests that poll are \
            excluded.",
        try_next: "Use more threads; larger blocks, as a call costs much the same for any size; direct I/O, which \
            saves the copy; io_uring with depth.",
        does_not_mean: "A saturated device: it was idle for part of the time. Devices as fast as memory (zram, loop \
            over memory) always show it.",
        untested: "Other architectures than x86-64. On a virtual machine, the first access to memory costs host time \
            that shows here.",
    }
    CpuSaturated BY_TIME {
        meaning: "The test's own threads use all CPUs, and wait for each other.",
        evidence: "More threads than CPUs, which waited for a CPU for more than 10 % of their time and used at least \
            {all_cpus} of all CPUs. Likely at best, as a device saturated along with the CPUs looks the same.",
        try_next: "Use fewer threads with more depth through io_uring, or more CPUs.",
        does_not_mean: "Other programs on the CPUs. Latencies of such a row include the wait for a CPU.",
        untested: "Machines with many CPUs.",
    }
    CpuContention BY_TIME {
        meaning: "Other processes used the CPUs that the test was waiting for.",
        evidence: "The largest share of the budget is waiting for a CPU, less the waits of surplus threads for each \
            other. With more threads than CPUs, it is likely at best. Other processes that used more than {other_busy} \
            of a CPU count, and the row shows the busiest. Interrupts and the kernel's own threads may work for the \
            test, so programs must have used as much.",
        try_next: "Stop them, or wait, and run the test again: the number depends on them as much as on the storage.",
        does_not_mean: "A limit of the storage.",
        untested: "Containers that hide other processes.",
    }
    CpuQuota BY_TIME {
        meaning: "A quota of CPU time, as containers have it, throttled the threads.",
        evidence: "The largest share of the budget is time in which the cgroup throttled its tasks; it is counted, and \
            the quota can be read.",
        try_next: "Raise the quota (--cpus in Docker, limits in Kubernetes), or measure outside. With the quota, your \
            program gets this rate.",
        does_not_mean: "A limit of the storage.",
        untested: "The quota of cgroup v2 (cpu.max). Tested with cgroup v1 at 20 % of a CPU.",
    }
    HypervisorSteal BY_TIME {
        meaning: "The hypervisor gave the CPU to other guests while the threads were ready to run.",
        evidence: "At least {steal} of the threads' time was taken by the hypervisor, by the machine's steal counter.",
        try_next: "Run it at another time, or on a machine with dedicated CPUs.",
        does_not_mean: "A limit of the storage.",
        untested: "High steal could not be provoked where this was developed: the rule rests on the kernel's counter. \
            Some hypervisors do not report it.",
    }
    NoisyNeighbour BY_COUNTERS {
        meaning: "Other programs used the same device at the same time.",
        evidence: "At least {neighbour} of the bytes of the device were foreign I/O, while threads waited for it. More \
            than {neighbour_requests} requests in the device for each waiting operation are the same evidence. \
            Confirmed only if experiments show that the device is saturated. With headroom, or fewer than \
            {neighbour_depth} in flight and no experiments, the verdict is another. Writes on copy-on-write file \
            systems, with data=journal, or with waits for the journal are excluded.",
        try_next: "Stop them, or wait, and run the test again. The row shows the device and their share.",
        does_not_mean: "A slow device: other programs used part of it.",
        untested: "Neighbours on other machines, which only the server or the host can report. Foreign bytes are \
            tested with a neighbour that reads; that they are the limit rests on cases.",
    }
    HelperCpu BY_COUNTERS {
        meaning: "One thread that works for the target is saturated: a daemon, encryption, an array, a loop device.",
        evidence: "A helper was on a CPU for at least {helper_saturated} of the time ({loop_saturated} for all threads of a loop \
            device together). Helpers are daemons of the target's file system (ssh of sshfs), and kernel threads for \
            it or its stack (loop, kcryptd, md). Or the kernel's threads for one queue of it used {helpers_cpus} of \
            all CPUs together, while {cpus_in_use} of all CPUs were in use. Threads slept at the same time, and \
            experiments do not show headroom. Likely at best, as several threads of a process may use as much, with \
            none saturated.",
        try_next: "Use more of them where possible: several connections, cipher options that work in the caller's \
            thread.",
        does_not_mean: "A limit of the device under it.",
        untested: "All but loop devices and dm-crypt: the rule follows from how they work and rests on cases alone.",
    }
    BelowOs BY_CAP {
        meaning: "Something below this system sets the rate: a host, a provider, an array, a controller. It is not \
            visible from here.",
        evidence: "A virtual machine; threads asleep in the device (occupancy at least {well_in_target}). Less than \
            {below_foreign} of its bytes were foreign I/O. The rates of whole seconds vary by more than {unstable}, \
            over at least {unstable_seconds} seconds with {unstable_ops} operations each on average. Likely at best.",
        try_next: "Repeat it at another time (--repeat 6), or ask the operator of the host.",
        does_not_mean: "The file system, or this machine's CPUs. A drive that collects garbage looks the same.",
        untested: "No host could be loaded on purpose: the rule excludes all visible causes.",
    }
    EachClient BY_COUNTERS {
        meaning: "Each client is its own limit: the rate grew with their number, so the storage has headroom.",
        evidence: "A sweep over clients (--sweep h1..hn). From the row with at most half as many clients, the rate \
            grew in proportion to their number, within {clients_grew}. Likely at best.",
        try_next: "Add clients. The document has the limiter of each.",
        does_not_mean: "The maximum of the storage: it is higher, and unknown.",
        untested: "Nothing known. Tested with clients that each have a separate limit.",
    }
    BelowClients BY_COUNTERS {
        meaning: "The storage below the clients sets the rate: the server or device that they share, or the network to \
            it.",
        evidence: "A run of several clients. At least {clients_most} of them had threads that waited for the target \
            for at least half of their time (with a ring: {ring_blocked}). No client machine used more than \
            {clients_cpus} of its CPUs, and no more exact limit applies to that many of them. Confirmed only in a \
            sweep over clients, if the rate grew by less than {clients_gave_nothing} of their number's growth. With \
            --observe, a saturated part of the server is the verdict instead. Parts are its CPUs, CPU quota, link or \
            device at {server_saturated}, or NFS threads of which at most {server_woken} of the packets woke one.",
        try_next: "Run it with half the clients. If the rate stays the same, the shared part is saturated; if it \
            halves, add clients. Add --observe SERVER:DIR to sample the server's counters.",
        does_not_mean: "A saturated server: a slow reply to each client looks the same from here.",
        untested: "Nothing known. Tested with a server of known speed that several clients share.",
    }
    BenchmarkItself BY_CEILING {
        meaning: "skye's own loop is the limit: a faster target would have the same rate.",
        evidence: "The rate is above {near} of skye's rate without I/O (the null engine) or with requests that do \
            nothing (a nop ring). Or a loop that was busy for {busy} of its time kept more than {idle_slots} of the \
            slots waiting: likely at best.",
        try_next: "Use more threads or larger blocks.",
        does_not_mean: "A limit of the storage or the kernel.",
        untested: "No device was fast enough to show it.",
    }
    Mixed BY_CAP {
        meaning: "Two limits share the time, and neither alone explains the rate. The row shows both with their \
            shares.",
        evidence: "Experiments show a target between saturation and headroom, or one that neither bytes nor operations \
            alone limit. Or threads were on a CPU for most of their time and asleep for at least {nearly_blocked} of \
            it. Or large blocks that are read from a server and written back fill {line_saturated_in_turn} of the link in \
            turn. Or in a sweep over clients, more of them gain, but less than in proportion. Likely at best.",
        try_next: "Relieve either limit. A sweep of depth (--sweep q1..q64) shows both ends: latency on one side, the \
            cap on the other.",
        does_not_mean: "Missing evidence: near the knee of a device, and with operations of some 50 µs, there are two \
            limits.",
        untested: "Shares are estimates; they were compared with known shares on rigs only.",
    }
    NotClear BY_CAP {
        meaning: "The evidence conflicts, or is too thin, for a conclusion.",
        evidence: "Fewer than two kinds of evidence, or no rule fits. Contradictory responses to experiments are \
            excluded, as are fewer than {samples_min} samples of sleeping threads.",
        try_next: "Use a longer --time on a quieter machine. skye doctor lists the counters that cannot be read; root \
            can read more.",
        does_not_mean: "A test without a limit: all observations are in the document and in --markdown.",
        untested: "Nothing: it claims nothing.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limiter_is_explained_once_in_order() {
        let explained: Vec<_> = LIMITER_HELP.iter().map(|about| about.limiter).collect();
        assert_eq!(explained, Limiter::ALL);
    }

    #[test]
    fn texts_are_whole_sentences() {
        for about in LIMITER_HELP {
            let texts = [about.meaning, about.evidence, about.try_next, about.does_not_mean, about.untested];
            for text in texts {
                let code = about.limiter.code();
                assert!(text.ends_with('.') && !text.contains("  "), "{code}: {text}");
                assert!(
                    text.starts_with(|c: char| c.is_uppercase())
                        || text.starts_with("skye")
                        || text.starts_with("sync="),
                    "{code}: {text}"
                );
            }
            assert!(about.in_short().chars().count() <= 120, "{}", about.in_short());
        }
    }
}
