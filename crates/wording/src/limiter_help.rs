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
        self.meaning.split_once(". ").map_or(self.meaning.trim_end_matches('.'), |(first, _)| first)
    }

    /// Returns the evidence for it, with the thresholds of the rules.
    pub fn evidence(&self, thresholds: &[Threshold]) -> String {
        filled(self.evidence, &[thresholds.to_vec()])
    }

    /// Returns its texts, each under its heading, with the thresholds of the rules.
    pub fn sections(&self, thresholds: &[Threshold]) -> [(&'static str, String); 5] {
        [
            ("What it means", self.meaning.to_owned()),
            ("How it is told", self.evidence(thresholds)),
            ("What to try", self.try_next.to_owned()),
            ("What it does not mean", self.does_not_mean.to_owned()),
            ("Not tested", self.untested.to_owned()),
        ]
    }
}

/// Explains how sure a limiter is, and by which evidence, with the thresholds of the rules.
pub fn confidence(thresholds: &[Threshold]) -> String {
    filled(CONFIDENCE, &[thresholds.to_vec()])
}

const CONFIDENCE: &str = "Confirmed: three kinds of evidence agree, and none says otherwise. Likely, shown as (likely): two do, \
    or one of them says otherwise. With fewer, or more that conflict, the row is not clear, and what was seen is told all \
    the same. On a disk that a hypervisor provides, the bandwidth and operations of the device are never confirmed: a \
    limit of the host or the provider looks the same from inside. Where other programs use more than {others_most} of all CPUs, \
    nothing about a target that software of this machine answers for is confirmed. An operation of a mix with at least \
    {operation_time} of the time has a limiter of its own: one that surely has more than {operation_most} of the samples of its threads, \
    by the 95 % interval. If the second has at least {nearly_blocked}, and surely {operation_second}, it is mixed. It is likely at best. \
    Awake threads have the test's own limiter if that is one of CPUs, or else the kind of CPU time that has {awake_most} of all \
    time awake.";

/// The kinds of evidence, with the meaning of each.
pub const KINDS: &[(&str, &str)] = &[
    (
        "budget",
        "Where the time of the test's threads went: in their own code, in the kernel, waiting for a CPU, held back by \
         a quota, taken by the hypervisor, or asleep. The shares sum to 1. What has the largest share leads.",
    ),
    (
        "wait channel",
        "The functions of the kernel in which threads slept when they were sampled, by class: device, page, sync, \
         lock, dirty, reclaim, queue, remote.",
    ),
    (
        "counters",
        "What devices, file systems, networks, cgroups and the pressure files counted: bytes per byte asked for, \
         requests in flight, flushes, others' share.",
    ),
    ("visible cap", "A limit that can be read and that the rate has reached."),
    (
        "ceiling",
        "What skye itself reaches without I/O, and what the same calls reach on memory; measured before the tests.",
    ),
    (
        "probe",
        "The rate after a change of the load: 4 times the operations in flight, a pause before each operation, blocks of \
         another size, a file or directory for each thread instead of one for all.",
    ),
];

/// Definition of occupancy: the mean number of requests at the target over the mean number of sleeping threads.
const OCCUPANCY: &str = "Occupancy is the mean number of requests at the device or server over the mean number of \
    threads asleep (or of operations in flight in a ring). About 1: they wait in the device. Below {in_target}: they wait above \
    it. Above 1.3: requests are split, or are others'. Where all CPUs are busy (above {cpus_busy}), from {in_target} to {in_target_busy} it says \
    nothing.";

/// The conclusions that experiments allow.
const EXPERIMENTS: &str = "A target is full if 4 times the operations in flight bring less than {full_gain} more (the upper end of \
    the 95 % interval below {gain_bound}) and a pause costs less than {pause_full} of itself (the upper end below \
    {pause_full_bound}). It has room if more depth brings more than {gain_bound} (the lower end) and a pause costs more than \
    {pause_room} of itself. Between both it is mixed, and where only one of the two answers is clear, it is likely. It counts \
    bytes, or operations, if blocks of another size change them by less than {same} times (the upper end below {same_bound}). \
    An answer counts for nothing if its interval is too wide ({unsteady} as an exponent), if no one limit gives it, or if the \
    rate without any change was more than {moved} off the row's own. A pause is not made with one operation in flight, nor where more depth brings more than {much_room} times the rate.";

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
const BY_LINE: &[Source] = &[VisibleCap, Counters, Budget, Ceiling, WaitChannel, Probe];
/// Costs of skye itself show the limit.
const BY_CEILING: &[Source] = &[Ceiling, Counters, Budget, Probe, WaitChannel, VisibleCap];
/// Places where threads sleep show the limit.
const BY_WAITS: &[Source] = &[WaitChannel, Probe, Counters, Budget, VisibleCap, Ceiling];
/// A cap that can be read shows the limit, or else an experiment.
const BY_CAP: &[Source] = &[VisibleCap, Probe, WaitChannel, Counters, Budget, Ceiling];

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
        evidence: "Threads asleep for at least half of their time, in the device; experiments show that it is full, and that \
            blocks of another size move the same bytes. Where no experiment was made: an occupancy of at least {in_target}, \
            blocks of at least {large_blocks} and at least {deep_bytes} in flight, which is likely at best.",
        try_next: "Nothing, if the sequential rate was the question: this is the answer. A rate that falls after a while \
            (rate_dropped) was a cache of the device before; ask for a longer --time.",
        does_not_mean: "Not that the drive is at fault: its link, a controller, or on a virtual disk the host's limit looks \
            the same. Blocks that compress are stored faster by some devices.",
        untested: "Real NVMe and SATA drives, spinning disks, md and device-mapper stacks. Tested on devices whose \
            bandwidth was set by a rig.",
    }
    DeviceOps BY_CAP {
        meaning: "The device completes no more operations per second.",
        evidence: "As device bandwidth, but blocks of another size leave the operations the same, or change both operations and \
            bytes while another test of the run moves at least {clearly_more} times the bytes in the same direction. Where no experiment was made: \
            an occupancy of at least {in_target}, blocks below {large_blocks} and at least {deep} in flight, which is likely at \
            best.",
        try_next: "Larger blocks, if your program can ask for them. If p99 matters more than the rate, less depth: beyond \
            the knee of a sweep (--sweep q1..q64) it buys waiting only.",
        does_not_mean: "Not that the device is 100 % busy in the kernel's eyes: that counter only says that it was \
            not idle.",
        untested: "Real NVMe drives with many queues, spinning disks, md and device-mapper stacks.",
    }
    DeviceLatency BY_CAP {
        meaning: "The time that the device takes for one operation sets the rate, at the depth that was asked for. It could serve \
            more at once, and is not asked to.",
        evidence: "Threads asleep for at least half of their time, in the device (occupancy at least {in_target}); experiments \
            show that it has room. The row says what more depth gave. Where no experiment was made: blocks below {large_blocks} \
            and at most {few} in flight, which is likely at best.",
        try_next: "More depth or threads: the row says what 4 times as many gave. If your program waits for each \
            operation, this row is what it will see, and only a faster device or a cache helps.",
        does_not_mean: "Not that the device is slow, and nothing about what it can do at most: see the rows with \
            more depth.",
        untested: "Real NVMe drives. Below about 50 µs an operation is part device and part kernel; such rows are mixed, \
            and rightly so.",
    }
    RemoteLatency BY_CAP {
        meaning: "The time to the server and back sets the rate, at the depth that was asked for. The server may be a \
            program of this machine that serves the file system.",
        evidence: "As device latency, on a network or user-space file system: threads asleep where the kernel waits for an \
            answer of the server, and experiments show that it has room.",
        try_next: "More depth or threads. Fewer round trips: larger blocks, fewer small files. On NFS, mount options that \
            let attributes be cached, if your data allow it.",
        does_not_mean: "Not that the server is busy: then more depth would give nothing.",
        untested: "Nothing known. Tested on FUSE with a known time for each request, on sshfs, on NFS with a slow device or a \
            far server, and on SMB.",
    }
    QueueFull BY_CAP {
        meaning: "Requests wait for a place on the way down. Places are tags of the device's queue, slots of a remote \
            procedure call, background requests of FUSE.",
        evidence: "More than {at_queue} of the sleep is where the kernel waits for a tag or a slot, or in a ring as many \
            requests as there are places are at the device while half as many more are waited for; experiments show \
            that it is full. A queue of which less than {filled} is taken says otherwise.",
        try_next: "Raise what is full: nr_requests of the device's queue, max_background of a FUSE file system, slots or \
            nconnect of an NFS mount.",
        does_not_mean: "Not the device's own limit: a longer queue may show that the device can do no more either.",
        untested: "Nothing known. Tested with nr_requests = 4, with FUSE, and with two slots of NFS.",
    }
    IoThrottle BY_CAP {
        meaning: "A limit that somebody set holds the rate back: a cgroup, or a provider.",
        evidence: "Threads wait above the device (occupancy below {in_target}), and a cap can be read that the rate has \
            reached, as closely as it is known: within {at_cap_known} to {at_cap}. A cap on any device of the stack that the rate \
            meets within {at_cap_exactly} is one wherever threads wait. Where all CPUs are busy, a cap is likely also with threads \
            in the device, if experiments show that it is full. Without a cap, in tests that were really direct: experiments show \
            that it is full, and threads sleep nowhere else for more than {elsewhere} of the samples. Inferred without an \
            experiment, it is likely at best, and only where the device has at most {all_but_idle} of the operations.",
        try_next: "Look at the cap that the row names, or measure outside of the container. A provider's cap goes with the \
            size or class of a volume.",
        does_not_mean: "Nothing about the device beneath the cap. Latencies of a throttled row are those of the \
            throttle.",
        untested: "Caps of io.latency and io.cost, and providers' caps, which cannot be read. Tested with caps of cgroup v1 \
            and v2 (io.max) on operations and bytes.",
    }
    RateLimitAsked BY_CAP {
        meaning: "The test asked for a rate and got it. Its latencies are the result, not its rate.",
        evidence: "An open loop (rate=) in which no more than {short_max} of what was due never started. Where the rate is more than \
            {short_max} below the one that was asked for, beyond three standard deviations of a Poisson process, it is likely at \
            best.",
        try_next: "A higher rate, or --sweep rate, to see where latency begins to rise.",
        does_not_mean: "Not that the storage can do no more.",
        untested: "Nothing: it follows from what was asked for.",
    }
    ThinkTime BY_CAP {
        meaning: "The mix asks for pauses (think_ms), and threads spend most of their time in them.",
        evidence: "All flows together took less than {paused_min} of the threads' time.",
        try_next: "More threads, or rate=N, with which no thread pauses.",
        does_not_mean: "Not that the storage can do no more.",
        untested: "Nothing: it follows from what was asked for.",
    }
    NetworkBandwidth BY_LINE {
        meaning: "The network moves no more bytes per second.",
        evidence: "As a server at its limit, with blocks of another size that move the same bytes, or blocks of at least \
            {large_blocks}, or a stream through the page cache, where that was not tried; and the interface carried at least {network} \
            of the bytes asked for. Of such a stream on which nothing was tried: at least {line_full} of what an experiment on \
            another test of the run found the interface to carry, or of what a queueing discipline of this host (tbf, netem, cake) \
            or the interface's own speed allows. Where \
            the CPUs were more than {ends_busy} busy and blocks of another size were not tried, it is not clear: they may hold \
            back either end.",
        try_next: "A faster link; several connections (nconnect) where one of them is the limit; compression, if the data \
            allow it.",
        does_not_mean: "Not the speed of the server's disks. A link that is shaped below what it claims shows the \
            same.",
        untested: "SMB, links of 10 Gbit/s and more, several interfaces at once. Tested with sshfs over a link of 200 \
            Mbit/s, and with NFS over one of 40 Mbit/s.",
    }
    NetworkUntried BY_LINE {
        meaning: "The network holds it back, by its bytes per second or by the time to the server and back. Which of the \
            two, nobody tried.",
        evidence: "A stream through the page cache, whose bytes crossed an interface; no experiment was made, and no limit of \
            the interface is known or reached. The kernel reads ahead and writes behind, so the depth of the test says nothing.",
        try_next: "Let skye try: run without --no-probe, and with --probe-writes for tests that write.",
        does_not_mean: "Not that both hold it back together.",
        untested: "SMB. Tested on sshfs and NFS.",
    }
    ServerSaturated BY_CAP {
        meaning: "The server, or the program that serves the file system, can do no more, whatever the load.",
        evidence: "A remote file system; threads asleep for at least half of their time; experiments show that it is full. \
            Where no experiment was made: more than half of the sleep waits for the server's answers, or an open loop fell \
            behind with all that it may have in flight, which is likely at best.",
        try_next: "Look at the server itself: skye sees this side only. Run it there, on the directory that is \
            exported.",
        does_not_mean: "Not what exactly the server lacks: its disks, its CPUs and its threads look the same from \
            here.",
        untested: "SMB servers. Tested on an NFS server with one thread, and on a FUSE server with a known number of servers and time for each \
            request.",
    }
    PageCache BY_COUNTERS {
        meaning: "The kernel copied from or to memory, and the device took no part. This is the speed of memory \
            and of the CPU.",
        evidence: "A buffered test that reads; threads on a CPU, or ready for one, for longer than asleep; the \
            device gave less than {from_device} of the bytes. A rate above {near} of the same calls on memory is a further \
            kind.",
        try_next: "To see the device: direct, or --cache cold, or a --size beyond memory. To know how fast cached data are \
            read, this is the right number.",
        does_not_mean: "Nothing about the device. That a program's files are in the cache when it needs them is \
            another matter.",
        untested: "ZFS, whose cache is its own.",
    }
    PageCacheAbsorbed BY_COUNTERS {
        meaning: "The page cache took the writes, and part of them had not reached the device when the test ended.",
        evidence: "A buffered test that writes, with sync=none; threads on a CPU, or ready for one, for longer \
            than asleep; the device took less than {to_device} of the bytes.",
        try_next: "sync=end, which is the rule if nothing else is said, or a longer --time: memory fills, and then the \
            device sets the rate.",
        does_not_mean: "Not a durable rate: what is in memory is lost with the power.",
        untested: "File systems that delay their writes for other reasons (ZFS).",
    }
    MetadataCache BY_COUNTERS {
        meaning: "Names and attributes came from memory. This is the speed of the kernel's look-ups.",
        evidence: "A test that only looks up (stat, open, readdir, readlink, xattr-get, walk, missing names); threads on a CPU, or ready \
            for one, for longer than asleep; the device read less than 6 bytes for each operation, or the kernel \
            charged the test with less, or there is no device.",
        try_next: "As root, --cold; or many more --files than memory can hold.",
        does_not_mean: "Nothing about the disk, and nothing about a first visit.",
        untested: "ZFS. Tested on NFS with attribute caching, too.",
    }
    DirtyThrottling BY_WAITS {
        meaning: "The kernel held the writers back until dirty pages had been written. Behind it is what writes them: mostly \
            the device.",
        evidence: "Threads asleep for more of their time than on a CPU or waiting for one, and more than half of the sleep is where the \
            kernel balances dirty pages. Where the line to a server is full meanwhile, the network is named.",
        try_next: "The direct row of the same test shows what the device can do. Larger vm.dirty_bytes only \
            delay the moment.",
        does_not_mean: "Not a fault: memory filled faster than the device empties it.",
        untested: "Limits of a cgroup v2 on writeback. Tested on NFS, where the line was full.",
    }
    MemoryPressure BY_COUNTERS {
        meaning: "Pages had to be found before anything could go on: there was not enough memory.",
        evidence: "Some task of the machine waited for memory for at least {pressure} of the time, and either at least \
            {reclaim} of the sleep is where the kernel reclaims pages, or the cgroup reached its limit more than {limit_hits} times \
            a second. Or, likely: the cgroup did, threads were asleep for at least half of their time, and at least half \
            of what was read had been in memory before (refaults of the machine).",
        try_next: "Free memory, raise the cgroup's limit, or make the data set smaller.",
        does_not_mean: "Not that a disk is slow, though one that swaps is busy too.",
        untested: "Limits of a cgroup v2 (memory.high). Machines that swap.",
    }
    FsyncJournal BY_WAITS {
        meaning: "Commits of the file system's journal or log, where it has one, and flushes of the device set the rate.",
        evidence: "A test that makes each operation durable; threads asleep for at least half of their time; \
            more than {in_sync} of the sleep is in a sync (in a mix, pages count where the operation ends with one), or the device made at least one flush for two operations. The sync takes \
            at least {sync_most} of an operation; from {sync_half} on, the write before it counts as much.",
        try_next: "More threads: most journals commit for all at once. A device with protection against loss of power \
            flushes at no cost. Fewer, larger transactions in the program.",
        does_not_mean: "Not the device's rate for plain writes: see the direct row. Mount options that leave out flushes make it \
            faster and nothing durable.",
        untested: "ZFS, bcachefs; kernels before 6.x, where the functions have other names.",
    }
    LockContention BY_WAITS {
        meaning: "The threads wait for each other: the kernel lets only one of them into a file, a directory or \
            a structure.",
        evidence: "Several threads, asleep for at least half of their time; more than half of the sleep is at a \
            lock, or {at_locks_of_one} with the rest making up about one thread, which is the one that holds it; occupancy near \
            one over the number of threads. Or, where they share a file or directory, one for each gave at least {separate} \
            times the rate. With fewer than 4 CPUs it is likely at best.",
        try_next: "A file or directory for each thread (without shared); direct writes that do not extend a file, which some \
            file systems let pass together.",
        does_not_mean: "Not a limit of the device. What the holder waits for may be one, and is then the verdict.",
        untested: "Machines with many CPUs. On few, threads spin \
            for a lock rather than sleep, which looks like kernel CPU. Files for each thread are tried only where \
            another test of the same run has them.",
    }
    ClientCpu BY_TIME {
        meaning: "The threads' own code takes the time, outside of the kernel. Of putc and getc, it is the C \
            library.",
        evidence: "Threads on a CPU, or ready for one, for most of their time, most of it outside of the kernel; \
            of a ring, its threads asleep for less than {ring_blocked}. A device that was mostly idle, and a rate above {near} of \
            the same calls on memory, are further kinds. Open loops and tests that poll are not asked.",
        try_next: "Larger calls: write instead of putc. More threads, if there are CPUs for them.",
        does_not_mean: "Nothing about the storage. A faster device gives the same number.",
        untested: "Nothing known. The split between own code and kernel is the kernel's, by ticks on some kernels.",
    }
    KernelCpu BY_TIME {
        meaning: "The threads' time in the kernel sets the rate: calls, file system, copying, the driver.",
        evidence: "Threads on a CPU, or ready for one, for most of their time, most of it in the kernel, and no \
            cache explains it; of a ring, its threads asleep for less than {ring_blocked}. A device that was mostly idle, and \
            a rate above {near} of the same calls on memory, are further kinds. Open loops and tests that poll are not \
            asked.",
        try_next: "More threads; larger blocks, as a call costs much the same for any size; direct instead of buffered, which \
            saves the copy; io_uring with depth.",
        does_not_mean: "Not that the device can do no more: it was idle for part of the time. Devices as fast as memory (zram, \
            loop over memory) always show it.",
        untested: "Other architectures than x86-64. On a virtual machine, memory that is touched for the first time costs the \
            host time that shows here.",
    }
    CpuSaturated BY_TIME {
        meaning: "The test's own threads use all CPUs, and wait for each other to leave one.",
        evidence: "More threads than CPUs, which waited for a CPU for more than 10 % of their time and used at \
            least {all_cpus} of all CPUs. Likely at best, as a device that is as full as the CPUs cannot be told from \
            them.",
        try_next: "Fewer threads with more depth through io_uring; more CPUs.",
        does_not_mean: "Not that others disturbed. Latencies of such a row contain the wait for a CPU.",
        untested: "Machines with many CPUs.",
    }
    CpuContention BY_TIME {
        meaning: "Other processes used the CPUs that the test was waiting for.",
        evidence: "The largest share of the budget is waiting for a CPU, less what more threads than CPUs wait for each \
            other; where there are more, it is likely at best. Others that used more than {other_busy} of a CPU are counted, and the busiest named. \
            Interrupts and the kernel's own threads may work for the test, so programs must have used as much.",
        try_next: "Stop them, or wait, and run it again: the number is theirs as much as the storage's.",
        does_not_mean: "Nothing about the storage.",
        untested: "Containers that do not show the processes of others.",
    }
    CpuQuota BY_TIME {
        meaning: "A quota of CPU time, as containers have it, held the threads back.",
        evidence: "The largest share of the budget is time in which the cgroup held its tasks back; it is \
            counted, and the quota can be read.",
        try_next: "Raise the quota (--cpus in Docker, limits in Kubernetes), or measure outside. With it, it is what your \
            program will get there.",
        does_not_mean: "Nothing about the storage.",
        untested: "The quota of cgroup v2 (cpu.max). Tested with cgroup v1 at 20 % of a CPU.",
    }
    HypervisorSteal BY_TIME {
        meaning: "The hypervisor gave the CPU to others while the threads wanted it.",
        evidence: "At least {steal} of the threads' time was taken by the hypervisor, as the machine's own counter \
            says.",
        try_next: "Run it at another time, or on a machine whose CPUs are its own.",
        does_not_mean: "Nothing about the storage.",
        untested: "High steal could not be provoked where this was developed: the rule rests on the kernel's counter. Some \
            hypervisors do not report it.",
    }
    NoisyNeighbour BY_COUNTERS {
        meaning: "Others used the same device at the same time.",
        evidence: "At least {neighbour} of the bytes of the device were not ours, while threads waited for it. \
            More than {neighbour_requests} requests in the device for each that was waited for say the same. Confirmed only where \
            experiments show that the device is full; where it has room, or fewer than {neighbour_depth} were in flight and nothing was tried, \
            others are not named. Not asked of writes on file systems that copy on write, with data=journal, or \
            where threads wait for the journal.",
        try_next: "Stop them, or wait, and run it again. The row says which device and how much.",
        does_not_mean: "Not that the device is slow: part of it was used by somebody else.",
        untested: "Neighbours on other machines, which only the server or the host sees. The bytes of others are tested with a \
            neighbour that reads; that they are the limit rests on cases.",
    }
    HelperCpu BY_COUNTERS {
        meaning: "One thread that works for the target is at its limit: a daemon, encryption, an array, a loop \
            device.",
        evidence: "A daemon of the target's file system (ssh of sshfs), or a thread of the kernel for it or a device of \
            its stack (loop, kcryptd, md), was on a CPU for at least {helper_full} of the time ({loop_full} for all threads of a loop \
            device together). Or the kernel's threads for one queue of it used {helpers_cpus} of all CPUs together, while {cpus_in_use} of all \
            CPUs were in use. Threads \
            slept meanwhile, and experiments do not show room for more. Likely at best, as a process with several threads may use as much without any being \
            full.",
        try_next: "More of them, where that can be had: several connections, cipher options that work in the \
            caller's thread.",
        does_not_mean: "Not the device beneath it.",
        untested: "All but loop devices and dm-crypt: the rule follows from how they work and stands on cases alone.",
    }
    BelowOs BY_CAP {
        meaning: "Something below this system sets the rate: a host, a provider, an array, a controller. It cannot be seen from \
            here.",
        evidence: "A virtual machine; threads asleep in the device (occupancy at least {well_in_target}). Less than {below_foreign} of \
            its bytes were others'. The rates of whole seconds vary by more than {unstable}, over at least {unstable_seconds} \
            seconds with {unstable_ops} operations each on average. Likely at best.",
        try_next: "Repeat it at another time (--repeat 3). Ask whoever runs the host.",
        does_not_mean: "Not the file system, and not this machine's CPUs. A drive that collects garbage shows the \
            same.",
        untested: "No host could be loaded on purpose: the rule excludes what can be seen, and names what is left.",
    }
    EachClient BY_COUNTERS {
        meaning: "Each client is its own limit: the rate grew with their number, so the storage can do more.",
        evidence: "A sweep over clients (--sweep h1..hn). From the row with at most half as many clients, the rate grew as \
            their number did, but for {clients_grew}. Likely at best.",
        try_next: "More clients. The document has the limit of each.",
        does_not_mean: "Not the speed of the storage: nobody has seen how much more it can do.",
        untested: "Nothing known. Tested with clients that each have a limit of their own.",
    }
    BelowClients BY_COUNTERS {
        meaning: "The storage below the clients sets the rate: the server or device that they share, or the network to it.",
        evidence: "A run of several clients. At least {clients_most} of them had threads that waited for the target for \
            at least half of their time (with a ring: {ring_blocked}). No machine of theirs used more than {clients_cpus} \
            of its CPUs, and no limit that is known more exactly holds that many of them back. Confirmed only in a sweep over clients, if the rate \
            grew by less than {clients_gave_nothing} of their own growth. With --observe, a part of the server that is full is named \
            instead: its CPUs, CPU quota, link or device at {server_full}, or NFS threads of which at most {server_woken} of the packets woke one.",
        try_next: "Run it with half the clients. If the rate stays, what they share is full; if it halves, each client is \
            its own limit, and more clients bring more. With --observe SERVER:DIR, skye reads the server's counters meanwhile.",
        does_not_mean: "Not that the server is full: a slow answer to each client looks the same from here.",
        untested: "Nothing known. Tested with a server of known speed that several clients share.",
    }
    BenchmarkItself BY_CEILING {
        meaning: "skye's own loop is the limit: nothing faster could have been measured.",
        evidence: "The rate is above {near} of what skye reaches without I/O (the null engine) or with requests \
            that do nothing (a nop ring). Or in a direct test at depth, more than {idle_slots} of the slots waited for skye's \
            loop: likely at best.",
        try_next: "More threads, larger blocks.",
        does_not_mean: "Not a limit of the storage or the kernel: this number says nothing about either.",
        untested: "No device was fast enough to show it.",
    }
    Mixed BY_CAP {
        meaning: "Two limits share the time, and neither alone explains the rate. The row names both with their \
            shares.",
        evidence: "Experiments show a target between full and one with room, or one that counts neither bytes nor operations alone; or threads \
            were on a CPU for most of their time and asleep for at least {nearly_blocked} of it. Or large blocks that are read from a \
            server and written back fill {line_full_in_turn} of the line in turn. Or in a sweep over clients, more of them bring \
            more, but less than in proportion. Likely at best.",
        try_next: "Either helps in part. A sweep of depth (--sweep q1..q64) shows both ends: latency on one side, the cap on \
            the other.",
        does_not_mean: "Not that nothing is known: near the knee of a device, and with operations of some 50 µs, two limits \
            are the truth.",
        untested: "Shares are estimates; they were compared with known shares on rigs only.",
    }
    NotClear BY_CAP {
        meaning: "The evidence conflicts, or is too thin, for a conclusion.",
        evidence: "Fewer than two kinds of evidence, or no rule fits. Answers to experiments that \
            contradict each other say nothing, nor do fewer than {samples_min} samples of sleeping threads.",
        try_next: "A longer --time on a quieter machine. skye doctor says what cannot be read here; root sees \
            more.",
        does_not_mean: "Not that nothing limits it: all that was seen is in the document and in --markdown.",
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
