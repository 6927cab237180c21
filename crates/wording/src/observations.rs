//! Words for each kind of observation: a sentence.

use model::observation::Observation;

/// The template of the sentence, without a full stop.
pub(crate) fn words(observation: &Observation) -> &'static str {
    use Observation::*;
    match observation {
        InWords => "",
        TimeSpent { .. } => "thread time: {time}",
        CpusUsed { .. } => "its threads used {used} of {cpus} CPUs",
        SleptIn { .. } => "sleeping threads were in {symbol} or its like in {asleep_share} of samples",
        Ran { .. } => "its threads were running, not asleep, in {running_share} of samples",
        WaitedForRing { .. } => "its threads waited for completions in {waiting_share} of samples",
        InDevice { .. } => "on average {requests} requests were in {device}, and {waiting} operations waited",
        AtServer { .. } => {
            "on average {requests} requests were at the server, and {waiting} operations waited"
        }
        VirtualDisk {} => "the disk is a hypervisor's, so the limit may be the host's",
        DeviceBusy { .. } => "{device} was busy for {busy_share} of the time",
        RateStarted { .. } => "{ops_per_second} were started",
        ReadForLookups { .. } => "the device read {read_bytes} for {lookups} look-ups",
        ReadFromMemory { .. } => "{cached_share} of the bytes came from memory, not from the device",
        DeviceTook { .. } => {
            "the device took {written_share} of the bytes, and {dirty_bytes} were not written at the end"
        }
        DeviceDrained { .. } => {
            "{device} wrote {bytes_per_second}, while up to {dirty_bytes} waited in memory"
        }
        OthersUsedCpus { .. } => "other processes used {cpus} CPUs",
        BusiestOthers { .. } => "the busiest were {busiest}",
        ReadCalls { .. } => "{bytes} bytes went through {calls} read calls of {each_bytes}",
        WriteCalls { .. } => "{bytes} bytes went through {calls} write calls of {each_bytes}",
        HelperBusy { .. } => "{helper} was on a CPU for {busy_share} of the time",
        LoopBusy { .. } => "the kernel's threads for {device} were on a CPU for {busy_share} of the time",
        HeldUpForMemory { .. } => "tasks waited for memory for {held_share} of the time",
        CgroupFull { .. } => "the cgroup reached its memory limit {times} times",
        PagesScanned { .. } => "tasks scanned {pages} pages for free memory",
        ReadAgain { .. } => "{refaulted_share} of the bytes read had been in memory shortly before",
        ForeignBytes { .. } => "{foreign_share} of the bytes on {device} were not this test's",
        SlotsIdle { .. } => "on average {idle} of {slots} slots waited for skye's loop",
        QueuePlaces { .. } => "the queue of {device} has {places} places (nr_requests)",
        ServerPlaces { .. } => "the way to the server has {places} places",
        QuotaHeld { .. } => "the quota held the cgroup's tasks back for {held_share} of the time",
        MachineStolen { .. } => "the hypervisor took {stolen_share} of the machine's CPU time",
        Flushes { .. } => "the device flushed {flushes} times an operation",
        SyncTook { .. } => "the sync took {sync_ns} of the {whole_ns} of an operation",
        RateVaried { .. } => {
            "the rate of single seconds varies by {variation}, and nobody else here uses the device"
        }
        Received { .. } => "{interface} received {bytes_per_second}, {asked_share} of the bytes asked for",
        Sent { .. } => "{interface} sent {bytes_per_second}, {asked_share} of the bytes asked for",
        RateAsked { .. } => "{ops_per_second} were asked for",
        OperationsAllowed { .. } => "{source} allows {ops_per_second} on {device}",
        BytesAllowed { .. } => "{source} allows {bytes_per_second} on {device}",
        CpuAllowed { .. } => "the cgroup may use {cpu_share} of a CPU",
        NearMemory { .. } => "the rate is {memory_share} of the same calls on memory",
        NearOwnLoop { .. } => "the rate is {loop_share} of skye's own loop without I/O",
        DelayAnswer { .. } | DepthAnswer { .. } | BlockAnswer { .. } | SeparateAnswer { .. } => {
            "with {change}, {after_ops_per_second} instead of {before_ops_per_second}"
        }
        UnsteadyAnswer { .. } => {
            "with {change}, {after_ops_per_second} instead of {before_ops_per_second} (too unsteady to count)"
        }
    }
}
