//! Verdicts, and what they are made of: counters of machine and server, wait channels, answers to experiments.

use serde::{Deserialize, Serialize};

use super::Trust;
use crate::advice::Advice;
use crate::document::{document, words};
use crate::experiment::Experiment;
use crate::figure;
use crate::limiter::Limiter;
use crate::observation::Observation;

words! {
    /// How surely a limiter is known.
    #[derive(PartialOrd, Ord)]
    pub enum Confidence {
        /// The evidence conflicts, or is too thin.
        Undetermined,
        /// Two kinds of evidence agree.
        Likely,
        /// Three kinds of evidence agree.
        Confirmed,
    }

    /// Whose sleep was looked at.
    pub enum WaitsOf {
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
        /// How surely that is known.
        #[serde(default)]
        pub confidence: Option<Confidence>,
        /// The limiters with their shares of the time, the largest first. The shares of all sum to at most 1.
        #[serde(default)]
        pub ranking: Vec<Ranked>,
        /// Observations that say so.
        #[serde(default, deserialize_with = "figure::all_known")]
        pub observations: Vec<Observation>,
        /// Observations that clearly say otherwise.
        #[serde(default, deserialize_with = "figure::all_known")]
        pub contrary: Vec<Observation>,
        /// Both in words, by source; also where they conflict.
        #[serde(default)]
        pub evidence: Option<Evidence>,
        /// Things to try next.
        #[serde(default, deserialize_with = "figure::all_known")]
        pub next: Vec<Advice>,
        /// The same in words; null where there is nothing to try.
        #[serde(default)]
        pub advice: Option<String>,
        /// The trust that the number deserves.
        pub trust: Trust,
        /// Codes of the notes that cost it trust, the gravest first; and "ended_early" for a phase that did not come to its
        /// end, whose reason says why.
        pub trust_reasons: Vec<String>,
    }

    /// A limiter and the share of the time that is its own.
    pub struct Ranked {
        /// The limiter.
        pub limiter: Limiter,
        /// Its share, 0 to 1.
        pub share: f64,
    }

    /// What speaks for a limiter, one sentence a kind; null where that kind says nothing about it.
    #[derive(Default)]
    pub struct Evidence {
        /// Where the threads' time went.
        pub budget: Option<String>,
        /// Where they slept.
        #[serde(rename = "wait_site")]
        pub wait_channel: Option<String>,
        /// What the counters of layers, devices, cgroups and pressure say.
        pub counters: Option<String>,
        /// A limit that can be read and is as high as the rate.
        pub visible_cap: Option<String>,
        /// A limit of our own that the rate comes near to.
        pub ceiling: Option<String>,
        /// How the rate answered to an experiment.
        pub probe: Option<String>,
    }

    /// A function of the kernel in which threads slept.
    pub struct WaitChannel {
        /// Whose sleep.
        pub of: WaitsOf,
        /// What is waited for there: "device", "sync", "lock"; null where the place is not known.
        pub class: Option<String>,
        /// The kernel's function; "running" for threads that did not sleep.
        pub symbol: String,
        /// Share of all samples of these threads, 0 to 1.
        pub share: f64,
        /// How often a thread was seen there.
        pub samples: u64,
    }

    /// How the rate answers to a change of the load. Each is null where it was not tried.
    #[derive(Default)]
    pub struct Sensitivity {
        /// A pause before each operation: 1 where the time of an operation sets the rate, 0 where something else caps it.
        pub delay: Option<Sensed>,
        /// More operations in flight: 1 where the rate grows with them, 0 where more buys nothing.
        pub depth: Option<Sensed>,
        /// Larger blocks: 0 where operations are counted, -1 where bytes are.
        pub block: Option<Sensed>,
        /// A file or directory for each thread instead of a shared one: how many times the rate.
        pub separate: Option<Sensed>,
    }

    /// The answer to one change.
    pub struct Sensed {
        /// The sensitivity.
        pub value: f64,
        /// Half of its 95 % interval; null where it was tried once.
        pub half_width: Option<f64>,
        /// The rate without the change, measured beside it.
        pub before_ops_per_second: f64,
        /// The rate with it.
        pub after_ops_per_second: f64,
        /// The change: "q1t4", "blocks of 16 KiB", "a pause of 23 µs".
        pub change: String,
    }

    /// The rate as shares of what skye itself, and the same calls on memory, reach. Each is null where that was not measured.
    #[derive(Default)]
    pub struct CeilingShares {
        /// Of the loop without I/O, or of a ring whose requests do nothing.
        pub own_loop: Option<f64>,
        /// Of the same calls on memory; above 1 where it was faster than them, as the two are measured at different times.
        pub memory: Option<f64>,
    }

    /// What else was seen of machine and server during a phase.
    #[derive(Default)]
    pub struct SystemUse {
        /// The calls that crossed into the kernel; null where the kernel does not count them.
        pub calls: Option<CallUse>,
        /// The busiest network interface; null where there is none, or nothing crossed it.
        pub network: Option<NetworkUse>,
        /// Requests at the server of a user-space or network file system, on average; null where that does not show.
        pub server_in_flight: Option<f64>,
        /// Most requests that the way to the server lets through at once; null where that does not show.
        pub server_slots: Option<u64>,
        /// How long tasks of the whole machine were held up, by what; null where the kernel does not tell.
        pub pressure: Option<Pressures>,
        /// Time in which the cgroup's tasks were held back by its quota of CPU time; null where there is no quota.
        pub quota_throttled_ns: Option<u64>,
        /// CPUs that this quota allows; null where there is none.
        pub quota_cpus: Option<f64>,
        /// How the kernel had to look for memory; null where it does not tell.
        pub reclaim: Option<Reclaim>,
        /// Dirty pages above which writers are held back; null where the kernel does not tell.
        pub dirty_threshold_bytes: Option<u64>,
        /// Other processes and threads of the kernel that took CPU time, the busiest first.
        pub helpers: Vec<Helper>,
        /// Limits on I/O that can be read.
        pub caps: Vec<Cap>,
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

    /// What crossed a network interface.
    #[derive(Default)]
    pub struct NetworkUse {
        /// Its name.
        pub interface: String,
        /// Bytes sent.
        pub sent_bytes: u64,
        /// Bytes received.
        pub received_bytes: u64,
        /// Bits per second that it claims to be able to; null where it does not say.
        pub speed_bits_per_second: Option<u64>,
        /// Kind of the queueing discipline of this host that limits what it sends, such as "tbf"; null where none does.
        #[serde(default)]
        pub shaper: Option<String>,
        /// Bytes per second that the queueing discipline lets pass; null where there is none.
        #[serde(default)]
        pub shaped_bytes_per_second: Option<f64>,
        /// Bytes per second at which an experiment of this run found it full, either way; null where none did.
        #[serde(default)]
        pub line_bytes_per_second: Option<f64>,
    }

    /// Shares of the time in which some task was held up ("some" of the kernel's pressure stall information).
    pub struct Pressures {
        /// For I/O.
        pub io: f64,
        /// For memory.
        pub memory: f64,
        /// For a CPU.
        pub cpu: f64,
    }

    /// How the kernel looked for memory, in the machine or in our cgroup.
    pub struct Reclaim {
        /// Pages that tasks themselves had to look at.
        pub direct_scanned_pages: u64,
        /// Pages read again that had been given back a short while before.
        pub refaulted_pages: u64,
        /// How often our cgroup reached its limit.
        pub cgroup_limit_hits: u64,
    }

    /// A process or thread of the kernel that took CPU time.
    pub struct Helper {
        /// Its name, as the kernel tells it.
        pub name: String,
        /// Its number.
        pub pid: u64,
        /// Whether it is a thread of the kernel.
        pub is_kernel: bool,
        /// CPU time as a share of one CPU.
        pub cpu_share: f64,
    }

    /// A limit on I/O.
    pub struct Cap {
        /// Where it can be read.
        pub source: String,
        /// The device that it is for.
        pub device: String,
        /// Whether it is for reads; else for writes.
        pub is_read: bool,
        /// In operations; null if it is one of bytes.
        pub ops_per_second: Option<f64>,
        /// In bytes; null if it is one of operations.
        pub bytes_per_second: Option<f64>,
    }
}

impl Sensitivity {
    /// The answer to an experiment, if it was made.
    pub fn of(&self, experiment: Experiment) -> Option<&Sensed> {
        match experiment {
            Experiment::Delay => self.delay.as_ref(),
            Experiment::Depth => self.depth.as_ref(),
            Experiment::Block => self.block.as_ref(),
            Experiment::Separate => self.separate.as_ref(),
        }
    }

    /// Puts the answer to an experiment in the place of one that was there.
    pub fn put(&mut self, experiment: Experiment, sensed: Sensed) {
        let place = match experiment {
            Experiment::Delay => &mut self.delay,
            Experiment::Depth => &mut self.depth,
            Experiment::Block => &mut self.block,
            Experiment::Separate => &mut self.separate,
        };
        *place = Some(sensed);
    }
}

impl Verdict {
    /// The verdict of a rule about a limiter with that share of the time: confirmed by three sources of evidence that agree,
    /// likely by two.
    pub fn new(limiter: Limiter, share: f64, observations: Vec<Observation>) -> Self {
        let confidence = match sources(&observations) {
            0 | 1 => Confidence::Undetermined,
            2 => Confidence::Likely,
            _ => Confidence::Confirmed,
        };
        Self {
            limiter: Some(limiter),
            confidence: Some(confidence),
            ranking: vec![Ranked { limiter, share }],
            observations,
            ..Self::default()
        }
    }

    /// A verdict about two limits at once, each with its share of the time. It is likely at most.
    pub fn mixed(parts: [(Limiter, f64); 2], observations: Vec<Observation>) -> Self {
        let mut ranking = parts.map(|(limiter, share)| Ranked { limiter, share }).to_vec();
        ranking.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self { ranking, ..Self::new(Limiter::Mixed, 0.0, observations) }.at_most(Confidence::Likely)
    }

    /// The same, no surer than that.
    #[must_use]
    pub fn at_most(mut self, confidence: Confidence) -> Self {
        self.confidence = self.confidence.min(Some(confidence));
        self
    }

    /// The same, with observations that say otherwise, if there are any: likely at most with those of one source, and
    /// undetermined with more.
    #[must_use]
    pub fn unless(mut self, contrary: impl IntoIterator<Item = Observation>) -> Self {
        self.contrary.extend(contrary);
        match sources(&self.contrary) {
            0 => self,
            1 => self.at_most(Confidence::Likely),
            _ => self.at_most(Confidence::Undetermined),
        }
    }

    /// The same, with something to try.
    #[must_use]
    pub fn advise(mut self, advice: impl IntoIterator<Item = Advice>) -> Self {
        self.next.extend(advice);
        self
    }

    /// Whether its limiter is known at least as surely as this.
    pub fn is_at_least(&self, confidence: Confidence) -> bool {
        self.limiter.is_some() && self.confidence.is_some_and(|known| known >= confidence)
    }
}

/// Number of sources that observations are from. Answers that count for nothing are none.
pub fn sources(observations: &[Observation]) -> usize {
    let counting = observations.iter().filter(|observation| observation.is_evidence());
    let mut sources: Vec<_> = counting.filter_map(Observation::source).collect();
    sources.sort_unstable();
    sources.dedup();
    sources.len()
}
