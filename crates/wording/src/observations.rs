//! A sentence for each kind of observation.

use model::observation::Observation;

/// The template of the sentence, without a full stop.
pub(crate) fn words(observation: &Observation) -> &'static str {
    use Observation::*;
    match observation {
        Unknown => "",
        TimeSpent { .. } => "its threads spent {time}",
        CpusUsed { .. } => "its threads used {used} of {cpus} CPUs",
        SleptIn { .. } => "sleeping threads waited for {class} in {asleep_share} of samples ({symbol})",
        OperationSlept { .. } => {
            "its threads waited for {class} in {asleep_share} of {samples} samples ({symbol})"
        }
        OperationSynced { .. } => {
            "its threads waited for a sync in {asleep_share} of {samples} samples, mostly for writeback of its pages ({symbol})"
        }
        OperationRan { .. } => "its threads were runnable in {running_share} of {samples} samples",
        OperationHidden { .. } => "its threads slept in {symbol} in {asleep_share} of {samples} samples",
        OperationFew { .. } => "too few calls for a verdict ({calls})",
        AwakeSpent { .. } => "over all operations, threads that were not asleep spent {time}",
        Ran { .. } => "its threads were runnable in {running_share} of samples",
        WaitedForRing { .. } => "its threads waited for completions in {waiting_share} of samples",
        ClientsWaited { .. } => {
            "threads of {clients} of {all} clients waited for at least {waiting_share} of their time"
        }
        ClientsHadCpus { .. } => "the clients' machines used at most {busy_share} of their CPUs",
        ServerCpus { .. } => "{server} used {busy_share} of its {cpus} CPUs",
        ServerQuota { .. } => "{server} used up its quota of {cpus} CPUs for {used_up_share} of the time",
        ServerLink { .. } => {
            "{server} moved {bytes_per_second} over {interface}, {link_share} of its capacity"
        }
        ServerDevice { .. } => {
            "{device} of {server} was busy for {busy_share} of the time, with {requests} requests"
        }
        ServerThreads { .. } => {
            "{woken_share} of the packets for {server} woke one of its {threads} NFS threads; the others found none idle"
        }
        ClientsGave { .. } => "{clients} clients reached {times} times the rate of {fewer}",
        ClientsAgree { .. } => "it limits {clients} of {all} clients",
        InDevice { .. } => "{waiting} operations waited on average, with {requests} requests at {device}",
        AtServer { .. } => "{waiting} operations waited on average, with {requests} requests at the server",
        OtherMovedMore { .. } => "another test moved {bytes_per_second} on {device}",
        TookRoundTrips { .. } => {
            "an operation took {mean_ns}, as long as {times} round trips of {round_trip_ns} to the server"
        }
        VirtualDisk {} => "the disk is virtual, so the limit may be the host's",
        DeviceBusy { .. } => "{device} was busy for {busy_share} of the time",
        RateStarted { .. } => "operations started at {ops_per_second}",
        ReadForLookups { .. } => "the device read {read_bytes} for {lookups} look-ups",
        CrossedForOps { .. } => {
            "{sent_bytes} sent to the server and {received_bytes} received for {ops} operations"
        }
        ReadFromMemory { .. } => "{cached_share} of the bytes came from memory, not from the device",
        DeviceTook { .. } => {
            "{written_share} of the bytes reached the device, and {dirty_bytes} were still in memory at the end"
        }
        DeviceDrained { .. } => {
            "{device} wrote {bytes_per_second}, while up to {dirty_bytes} waited in memory"
        }
        OthersUsedCpus { .. } => "other processes used {cpus} CPUs",
        BusiestOthers { .. } => "busiest: {busiest}",
        ReadCalls { .. } => "{bytes} bytes went through {calls} read calls of {each_bytes}",
        WriteCalls { .. } => "{bytes} bytes went through {calls} write calls of {each_bytes}",
        HelperBusy { .. } => "{helper} was on a CPU for {busy_share} of the time",
        HelperNeverIdle { .. } => {
            "{helper} was on a CPU for {busy_share} of the time, and waited for one for {waiting_share}"
        }
        QueueBusy { .. } => "the kernel's threads for {queue} used {used} of {cpus} CPUs",
        LoopBusy { .. } => "the kernel's threads for {device} were on a CPU for {busy_share} of the time",
        HeldUpForMemory { .. } => "tasks waited for memory for {held_share} of the time",
        CgroupFull { .. } => "the cgroup reached its memory limit {times} times",
        PagesScanned { .. } => "tasks scanned {pages} pages for free memory",
        ReadAgain { .. } => "{refaulted_share} of the bytes read had been in memory shortly before",
        ForeignBytes { .. } => "{foreign_share} of the bytes on {device} were not this test's",
        SlotsIdle { .. } => {
            "on average, {idle} of {slots} queue slots were idle until skye's loop refilled them"
        }
        NotVisibleBelow { .. } => "the limit may be below {layer}, where nothing is visible here",
        TookTimes { .. } => "each request in {layer} took {times} times as long as one alone",
        QueuePlaces { .. } => "the queue of {device} has {places} slots (nr_requests)",
        ProgramThreads { .. } => "{program} has {threads} threads",
        ServerPlaces { .. } => "the mount allows {places} requests in flight",
        QuotaHeld { .. } => "the CPU quota throttled the cgroup for {held_share} of the time",
        MachineStolen { .. } => "the hypervisor took {stolen_share} of the machine's CPU time",
        Flushes { .. } => "the device flushed {flushes} times per operation",
        CommitsJournal { .. } => "a sync commits the journal of {file_system}",
        ForcesLog { .. } => "a sync writes the log of {file_system}",
        WritesLogTree { .. } => "a sync writes a log tree of {file_system}",
        HasNoJournal { .. } => {
            "this {file_system} has no journal, so a sync writes data and inodes, and flushes"
        }
        SyncTook { .. } => "the sync took {sync_ns} of an operation's {whole_ns}",
        RateTooEven { .. } => {
            "its rate varies by {variation} between half seconds, as under a configured limit"
        }
        RateVaried { .. } => "the per-second rate varies by {variation}, without foreign I/O on this machine",
        Received { .. } => "{interface} received {bytes_per_second}, {requests_share} of the requested bytes",
        Sent { .. } => "{interface} sent {bytes_per_second}, {requests_share} of the requested bytes",
        LineCarried { .. } => "experiments on another test found {interface} saturated at {bytes_per_second}",
        LineMoved { .. } => {
            "another test moved {bytes_per_second} over {interface}, and this one {share} of it"
        }
        RateRequested { .. } => "the requested rate was {ops_per_second}",
        Paused { .. } => "think time of the mix took {share} of the threads' time",
        OperationsAllowed { .. } => {
            "{source} allows {ops_per_second} on {device}, and the rate was {reached_ops_per_second}"
        }
        BytesAllowed { .. } => {
            "{source} allows {bytes_per_second} on {device}, and the rate was {reached_bytes_per_second}"
        }
        CpuAllowed { .. } => "the cgroup may use {cpus} CPUs",
        NearMemory { .. } => "the rate is {memory_share} of that of the same calls on memory",
        NearOwnLoop { .. } => "the rate is {loop_share} of that of skye's own loop without I/O",
        Answer { .. } => "{change}: {after_ops_per_second} (baseline {before_ops_per_second})",
        UnsteadyAnswer { .. } => {
            "{change}: {after_ops_per_second} (baseline {before_ops_per_second}, too unsteady to be evidence)"
        }
        ImpossibleAnswer { .. } => {
            "{change}: {after_ops_per_second} (baseline {before_ops_per_second}; no single limit \
             causes this, a cache may have served it)"
        }
        BaselineMoved { .. } => {
            "the rate had moved from {own_ops_per_second} to {before_ops_per_second} before the experiments, so they are \
             excluded"
        }
    }
}
