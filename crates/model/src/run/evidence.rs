//! Verdicts and their evidence: counters of machine and server, wait channels, responses to experiments.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{EngineRecord, Load, Trust};
use crate::advice::Advice;
use crate::document::{document, words};
use crate::experiment::Experiment;
use crate::limiter::Limiter;
use crate::numbers::rank;
use crate::observation::Observation;
use crate::workload::Engine;

/// Most sleeping threads in one sample.
pub const THREADS_PER_SAMPLE_MAX: usize = 16;

words! {
    /// Certainty about a limiter.
    #[derive(PartialOrd, Ord)]
    pub enum Confidence {
        /// The evidence conflicts, or is too thin.
        Undetermined,
        /// Two kinds of evidence agree.
        Likely,
        /// Three kinds of evidence agree.
        Confirmed,
    }

    /// The threads whose sleep was sampled.
    pub enum SampledThreads {
        /// The threads of the test.
        Workers,
        /// Threads of the kernel that work for a ring of the test.
        RingWorkers,
    }
}

document! {
    /// A conclusion about a phase.
    #[derive(Default)]
    pub struct Verdict {
        /// The limiter that held the number back; null in documents of older versions, and where no counter was read.
        #[serde(default)]
        pub limiter: Option<Limiter>,
        /// Certainty about the limiter.
        #[serde(default)]
        pub confidence: Option<Confidence>,
        /// The limiters with their shares of the time, the largest first. All shares sum to at most 1.
        #[serde(default)]
        pub ranking: Vec<RankedLimiter>,
        /// Observations that support the limiter.
        #[serde(default)]
        pub observations: Vec<Observation>,
        /// Observations that clearly contradict the limiter.
        #[serde(default)]
        pub contradicting: Vec<Observation>,
        /// Both in words, by source; also where they conflict.
        #[serde(default)]
        pub evidence: Option<Evidence>,
        /// Things to try next.
        #[serde(default)]
        pub next: Vec<Advice>,
        /// The same in words; null where there is nothing to try.
        #[serde(default)]
        pub advice: Option<String>,
        /// Limiters of the operations of a mix that take a tenth of its time or more, those with most time first.
        /// Absent for other tests, and where the threads could not be sampled.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub operations: Vec<OperationVerdict>,
        /// The trust that the number deserves.
        pub trust: Trust,
        /// Codes of the notes that mark the number, the most serious first. A phase that ended early also has
        /// "ended_early"; its reason says why.
        pub trust_reasons: Vec<String>,
    }

    /// A conclusion about one operation of a mix, from samples of the threads that were in it.
    pub struct OperationVerdict {
        /// The operation: "create".
        pub operation: String,
        /// Its share of the threads' time in all operations, 0 to 1.
        pub time_share: f64,
        /// The limiter that held it back.
        pub limiter: Limiter,
        /// Certainty about the limiter; likely at most, because samples are the only evidence of one operation.
        pub confidence: Confidence,
        /// Limiters with their shares of the operation's own time, the largest first.
        pub ranking: Vec<RankedLimiter>,
        /// Number of samples that found a thread in it.
        pub samples: u64,
        /// Observations of these samples.
        #[serde(default)]
        pub observations: Vec<Observation>,
        /// The same in words; null where there are none.
        #[serde(default)]
        pub evidence: Option<String>,
    }

    /// A limiter and its own share of the time.
    pub struct RankedLimiter {
        /// The limiter.
        pub limiter: Limiter,
        /// Its share, 0 to 1.
        pub share: f64,
    }

    /// Evidence for a limiter, one sentence per kind; null if there is none of that kind.
    #[derive(Default)]
    pub struct Evidence {
        /// Where the threads' time went.
        pub budget: Option<String>,
        /// Where they slept.
        #[serde(rename = "wait_site")]
        pub wait_channel: Option<String>,
        /// Findings from the counters of layers, devices, cgroups and pressure.
        pub counters: Option<String>,
        /// A limit that can be read and is as high as the rate.
        pub visible_cap: Option<String>,
        /// A ceiling of skye that the rate comes near to.
        pub ceiling: Option<String>,
        /// Response of the rate to an experiment.
        pub probe: Option<String>,
    }

    /// A function of the kernel in which threads slept.
    pub struct WaitChannel {
        /// The threads that slept.
        pub of: SampledThreads,
        /// Class of the wait there: "device", "sync", "lock"; null where the place is not known.
        pub class: Option<String>,
        /// The kernel function; "running" for threads that did not sleep.
        pub symbol: String,
        /// Share of all samples of these threads, 0 to 1.
        pub share: f64,
        /// Number of samples that found a thread there.
        pub samples: u64,
        /// Those of them that found the thread in a known operation of a mix; absent for other tests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub operations: Vec<OperationSamples>,
    }

    /// Samples that found a thread in one operation of a mix.
    pub struct OperationSamples {
        /// The operation: "create".
        pub operation: String,
        /// Number of samples.
        pub samples: u64,
    }

    /// Answers of the rate to changes of the load. Each is null where it was not tried.
    #[derive(Default)]
    pub struct Sensitivity {
        /// More operations in flight: 1 where the rate grows with them, 0 where it does not.
        pub depth: Option<Response>,
        /// One operation in flight: 1 where the rate falls with them, 0 where it does not.
        #[serde(default)]
        pub single: Option<Response>,
        /// Larger blocks: 0 where operations are limited, -1 where bytes are.
        pub block: Option<Response>,
        /// A file or directory for each thread instead of a shared one: the factor by which the rate grows.
        pub separate: Option<Response>,
    }

    /// The response to one change.
    pub struct Response {
        /// The sensitivity.
        pub value: f64,
        /// Half of its 95 % interval; null after a single experiment.
        pub half_width: Option<f64>,
        /// The rate without the change, measured beside it.
        pub before_ops_per_second: f64,
        /// The rate with it.
        pub after_ops_per_second: f64,
        /// The change: "q1t4", "blocks of 16 KiB".
        pub change: String,
        /// The load with it; absent where no layer counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub load: Option<Load>,
    }

    /// The rate as shares of the rates of skye's own loop and of the same calls on memory. Each is null where that was
    /// not measured.
    #[derive(Default)]
    pub struct CeilingShares {
        /// Share of the rate of the loop without I/O, or of a ring whose requests do nothing.
        pub own_loop: Option<f64>,
        /// Share of the rate of the same calls on memory. It may exceed 1, as the two are measured at different times.
        pub memory: Option<f64>,
    }

    /// Other observations of machine and server during a phase.
    #[derive(Default)]
    pub struct SystemUse {
        /// The calls that crossed into the kernel; null where the kernel does not count them.
        pub calls: Option<CallUse>,
        /// The busiest network interface; null where there is none, or nothing crossed it.
        pub network: Option<NetworkUse>,
        /// Shares of the time in which tasks of the whole machine stalled, by cause; null where the kernel does not
        /// show them.
        pub pressure: Option<Pressures>,
        /// Time in which the quota of CPU time throttled the cgroup's tasks; null where there is no quota.
        pub quota_throttled_ns: Option<u64>,
        /// Length of the quota's periods in which it was used up; null where there is no quota.
        pub quota_used_up_ns: Option<u64>,
        /// CPUs that this quota allows; null where there is none.
        pub quota_cpus: Option<f64>,
        /// Work of the kernel to reclaim memory; null where it does not show that.
        pub reclaim: Option<Reclaim>,
        /// Dirty pages above which writers are throttled; null where the kernel does not show it.
        pub dirty_threshold_bytes: Option<u64>,
        /// Other processes and threads of the kernel that took CPU time, the busiest first.
        pub helpers: Vec<Helper>,
        /// Limits on I/O that can be read.
        pub caps: Vec<Cap>,
        /// Time in which skye did not run while it measured, as it was stopped or had no CPU; null if it always ran.
        pub not_running_ns: Option<u64>,
        /// Part of that time which no rate counts; absent where all of it counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub left_out_ns: Option<u64>,
        /// Time for which the machine was suspended, which no clock of the test counts; absent where it was not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub suspended_ns: Option<u64>,
    }

    /// Calls of this process, and of those that it started for the test.
    pub struct CallUse {
        /// Calls that read.
        pub read_calls: u64,
        /// Calls that write.
        pub write_calls: u64,
        /// Bytes that a read call returned, on average; null if there was none.
        pub bytes_per_read_call: Option<f64>,
        /// Bytes that a write call took, on average; null if there was none.
        pub bytes_per_write_call: Option<f64>,
    }

    /// Traffic of a network interface.
    #[derive(Default)]
    pub struct NetworkUse {
        /// Its name.
        pub interface: String,
        /// Bytes sent.
        pub sent_bytes: u64,
        /// Bytes received.
        pub received_bytes: u64,
        /// Bits per second that it claims to carry; null where it states none.
        pub speed_bits_per_second: Option<u64>,
        /// Kind of the queueing discipline of this host that limits sending, such as "tbf"; null where none does.
        #[serde(default)]
        pub shaper: Option<String>,
        /// Bytes per second that the queueing discipline lets pass; null where there is none.
        #[serde(default)]
        pub shaped_bytes_per_second: Option<f64>,
        /// Bytes per second at which an experiment of this run found it full, either way; null where none did.
        #[serde(default)]
        pub line_bytes_per_second: Option<f64>,
        /// Most bytes per second that a test of this run received over it; null where none took a second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub peak_received_bytes_per_second: Option<f64>,
        /// Most bytes per second that a test of this run sent over it; null where none took a second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub peak_sent_bytes_per_second: Option<f64>,
    }

    /// Shares of the time in which some task stalled ("some" of the kernel's pressure stall information).
    pub struct Pressures {
        /// For I/O.
        pub io: f64,
        /// For memory.
        pub memory: f64,
        /// For a CPU.
        pub cpu: f64,
    }

    /// Work of the kernel to reclaim memory, in the machine or in skye's cgroup.
    pub struct Reclaim {
        /// Pages that tasks themselves had to scan.
        pub direct_scanned_pages: u64,
        /// Pages read again that had been evicted a short while before.
        pub refaulted_pages: u64,
        /// Number of times that skye's cgroup reached its limit.
        pub cgroup_limit_hits: u64,
    }

    /// A process or thread of the kernel that took CPU time.
    #[derive(Default)]
    pub struct Helper {
        /// Its name, as the kernel shows it.
        pub name: String,
        /// Its process number.
        pub pid: u64,
        /// True if it is a thread of the kernel.
        pub is_kernel: bool,
        /// CPU time as a share of one CPU.
        pub cpu_share: f64,
        /// Share of the time in which it waited for a CPU; null for a program.
        #[serde(default)]
        pub run_delay_share: Option<f64>,
    }

    /// A limit on I/O.
    pub struct Cap {
        /// Place where it can be read.
        pub source: String,
        /// Device that it applies to.
        pub device: String,
        /// True if it limits reads; otherwise it limits writes.
        pub is_read: bool,
        /// Limit in operations; null if it is one of bytes.
        pub ops_per_second: Option<f64>,
        /// Limit in bytes; null if it is one of operations.
        pub bytes_per_second: Option<f64>,
    }
}

impl Cap {
    /// Returns the operations or bytes a second that it allows.
    pub fn per_second(&self) -> Option<f64> {
        self.ops_per_second.or(self.bytes_per_second)
    }
}

impl Sensitivity {
    /// Returns the response to an experiment, if it was made.
    pub fn response_to(&self, experiment: Experiment) -> Option<&Response> {
        match experiment {
            Experiment::Depth => self.depth.as_ref(),
            Experiment::Single => self.single.as_ref(),
            Experiment::Block => self.block.as_ref(),
            Experiment::Separate => self.separate.as_ref(),
        }
    }

    /// Returns the place of the response to an experiment.
    pub fn place_of(&mut self, experiment: Experiment) -> &mut Option<Response> {
        match experiment {
            Experiment::Depth => &mut self.depth,
            Experiment::Single => &mut self.single,
            Experiment::Block => &mut self.block,
            Experiment::Separate => &mut self.separate,
        }
    }
}

impl WaitChannel {
    /// Returns true for threads that slept.
    pub fn is_asleep(&self) -> bool {
        self.symbol != "running"
    }

    /// Sorts wait channels: the most samples first, then by symbol.
    pub fn sort(all: &mut [Self]) {
        all.sort_by(|one, other| (other.samples, &one.symbol).cmp(&(one.samples, &other.symbol)));
    }

    /// Adds the samples of other threads in the same wait channel. The share stays as it is.
    pub fn add(&mut self, other: &Self) {
        let Self { of: _, class: _, symbol: _, share: _, samples, operations } = other;
        self.samples = self.samples.saturating_add(*samples);
        for added in operations {
            match self.operations.iter_mut().find(|known| known.operation == added.operation) {
                Some(known) => known.samples = known.samples.saturating_add(added.samples),
                None => self.operations.push(added.clone()),
            }
        }
    }
}

impl Verdict {
    /// Returns the verdict of a rule about a limiter with this share of the time. Three sources of evidence that agree
    /// confirm it; two make it likely.
    pub fn new(limiter: Limiter, share: f64, observations: Vec<Observation>) -> Self {
        let confidence = match sources(&observations) {
            0 | 1 => Confidence::Undetermined,
            2 => Confidence::Likely,
            _ => Confidence::Confirmed,
        };
        Self {
            limiter: Some(limiter),
            confidence: Some(confidence),
            ranking: vec![RankedLimiter { limiter, share }],
            observations,
            ..Self::default()
        }
    }

    /// Returns a verdict about two limits at once, each with its share of the time. It is likely at most.
    pub fn mixed(parts: [(Limiter, f64); 2], observations: Vec<Observation>) -> Self {
        let mut ranking = parts.map(|(limiter, share)| RankedLimiter { limiter, share }).to_vec();
        ranking.sort_by_cached_key(|limit| Reverse(rank(limit.share)));
        Self { ranking, ..Self::new(Limiter::Mixed, 0.0, observations) }.at_most(Confidence::Likely)
    }

    /// Returns the verdict with at most this confidence.
    #[must_use]
    pub fn at_most(mut self, confidence: Confidence) -> Self {
        self.confidence = self.confidence.min(Some(confidence));
        self
    }

    /// Returns the verdict with observations that contradict it, if there are any. It is likely at most if they have
    /// one source, and undetermined if they have more.
    #[must_use]
    pub fn unless(mut self, contradicting: impl IntoIterator<Item = Observation>) -> Self {
        self.contradicting.extend(contradicting);
        match sources(&self.contradicting) {
            0 => self,
            1 => self.at_most(Confidence::Likely),
            _ => self.at_most(Confidence::Undetermined),
        }
    }

    /// Returns the verdict with its advice.
    #[must_use]
    pub fn advise(mut self, advice: impl IntoIterator<Item = Advice>) -> Self {
        self.next.extend(advice);
        self
    }

    /// Returns true if no limiter that it leaves possible is one that the other leaves possible.
    pub fn contradicts(&self, other: &Self) -> bool {
        let [own, others] = [self.possible(), other.possible()];
        !own.is_empty() && !others.is_empty() && own.iter().all(|limiter| !others.contains(limiter))
    }

    /// Returns the limiters that it leaves possible: two for a mixed one; none if it is not clear, as all are.
    fn possible(&self) -> Vec<Limiter> {
        match self.limiter {
            None | Some(Limiter::NotClear) => Vec::new(),
            Some(Limiter::Mixed) => self.ranking.iter().take(2).map(|part| part.limiter).collect(),
            Some(limiter) if !limiter.alternatives().is_empty() => limiter.alternatives().to_vec(),
            Some(limiter) => vec![limiter],
        }
    }

    /// Returns true if its limiter is known with at least this confidence.
    pub fn is_at_least(&self, confidence: Confidence) -> bool {
        self.limiter.is_some() && self.confidence.is_some_and(|known| known >= confidence)
    }
}

impl EngineRecord {
    /// Returns true if threads of the kernel make the calls of a ring, as it cannot try them without waiting.
    pub fn uses_kernel_threads(&self) -> bool {
        self.name == Engine::Uring.word() && !self.features.iter().any(|feature| feature == "nowait")
    }
}

/// Returns the number of sources that observations are from. Observations that are no evidence do not count.
pub fn sources(observations: &[Observation]) -> usize {
    let counting = observations.iter().filter(|observation| observation.is_evidence());
    let mut sources: Vec<_> = counting.filter_map(Observation::source).collect();
    sources.sort_unstable();
    sources.dedup();
    sources.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_without_a_common_limiter_contradict_each_other() {
        let of = |limiter| Verdict { limiter: Some(limiter), ..Verdict::default() };
        let mixed = Verdict::mixed([(Limiter::DeviceLatency, 0.5), (Limiter::DeviceOps, 0.4)], Vec::new());
        assert!(of(Limiter::DeviceOps).contradicts(&of(Limiter::DeviceLatency)));
        assert!(!of(Limiter::DeviceOps).contradicts(&mixed) && !mixed.contradicts(&of(Limiter::NotClear)));
        assert!(mixed.contradicts(&of(Limiter::KernelCpu)));
        assert!(!of(Limiter::RemoteUndetermined).contradicts(&of(Limiter::RemoteLatency)));
    }
}
