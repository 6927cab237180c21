//! What held a number back: rules that each know one kind of limit, tried in their order, and how sure the first that
//! fits is.
//!
//! The order is that of certainty. What was asked for and what skye itself does comes first; then where the threads' time
//! went, which is exact; then where they slept; then what the layers' counters and the experiments say together. The
//! method, with what each figure was measured to be, is told in docs/methodology.md.

mod asked;
mod cache;
mod cpu;
mod dirty;
mod helper;
mod latency;
mod lock;
mod memory;
mod neighbour;
mod own_loop;
mod queue;
mod quota;
mod saturation;
mod steal;
mod sync;
mod throttle;
mod unstable;

use model::experiment::Experiment;
use model::numbers::percent;
use model::run::{Confidence, Evidence, Ranked};
use model::{Limiter, Plan};

use crate::JudgeInput;
use crate::reading::Reading;
use crate::wait_sites::Class;

pub(crate) use latency::{DELAY_ALL, DEPTH_ALL};
pub(crate) use lock::SEPARATE;

/// A share of the time that is worth naming beside the largest.
const SHARE_MIN: f64 = 0.05;
/// Blocked for less than this, threads are held back by what they do, and not by what they wait for.
pub(crate) const BLOCKED: f64 = 0.5;
/// The same for a ring, whose one thread may be busy while the device is full: where it is always full of requests and
/// hardly ever sleeps, it is the thread that holds it back.
pub(crate) const RING_BLOCKED: f64 = 0.1;

/// What a rule found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The limiter.
    pub limiter: Limiter,
    /// Its share of the time.
    pub share: f64,
    /// What speaks for it.
    pub evidence: Evidence,
    /// What to try.
    pub advice: Option<String>,
    /// How sure it can be at most, whatever the evidence.
    pub at_most: Confidence,
    /// What a mix is of, the larger part first.
    pub parts: Vec<Ranked>,
    /// How many kinds of evidence clearly say otherwise.
    pub against: u32,
}

impl Found {
    pub(crate) fn new(limiter: Limiter, share: f64, evidence: Evidence) -> Self {
        Self {
            limiter,
            share,
            evidence,
            advice: None,
            at_most: Confidence::Confirmed,
            parts: Vec::new(),
            against: 0,
        }
    }

    /// Two limits at once, each with its share of the time; the larger is told first.
    pub(crate) fn mixed(parts: [(Limiter, f64); 2], evidence: Evidence) -> Self {
        let share = parts.iter().map(|(_, share)| share).sum();
        let mut found = Self::new(Limiter::Mixed, share, evidence).at_most(Confidence::Likely);
        found.parts = parts.into_iter().map(|(limiter, share)| Ranked { limiter, share }).collect();
        found.parts.sort_by(|a, b| b.share.total_cmp(&a.share));
        found
    }

    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// One kind of evidence says otherwise, if it does.
    pub(crate) fn unless(mut self, says_otherwise: bool) -> Self {
        self.against += u32::from(says_otherwise);
        self
    }

    pub(crate) fn at_most(mut self, confidence: Confidence) -> Self {
        self.at_most = self.at_most.min(confidence);
        self
    }
}

/// A rule: what it finds in an input whose threads' time is known.
type Rule = fn(&Reading<'_>) -> Option<Found>;

/// Every rule, in the order in which they are tried.
const RULES: &[Rule] = &[
    asked::rule,
    own_loop::rule,
    memory::rule,
    quota::rule,
    steal::rule,
    dirty::rule,
    cpu::contention,
    lock::separate,
    cache::rule,
    cpu::saturated,
    cpu::rule,
    own_loop::slots,
    lock::rule,
    sync::rule,
    queue::rule,
    throttle::visible,
    neighbour::rule,
    throttle::inferred,
    helper::rule,
    unstable::rule,
    latency::rule,
    saturation::rule,
];

/// What is concluded about what held a number back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Conclusion {
    /// The limiter.
    pub limiter: Limiter,
    /// How surely.
    pub confidence: Confidence,
    /// All with their shares.
    pub ranking: Vec<Ranked>,
    /// What says so.
    pub evidence: Evidence,
    /// What to try.
    pub advice: Option<String>,
}

/// What held the number of an input back; `None` where the kernel hides the threads' time.
pub(crate) fn conclude(input: &JudgeInput<'_>) -> Option<Conclusion> {
    let reading = Reading::of(*input)?;
    let found = RULES.iter().find_map(|rule| rule(&reading)).unwrap_or_else(|| unclear(&reading));
    let confidence = match found.evidence.kinds() {
        0 | 1 => Confidence::Undetermined,
        2 => Confidence::Likely,
        _ => Confidence::Confirmed,
    }
    .min(found.at_most)
    .min(match found.against {
        0 => Confidence::Confirmed,
        1 => Confidence::Likely,
        _ => Confidence::Undetermined,
    });
    let is_clear = confidence > Confidence::Undetermined;
    let ranking = ranking(&reading, &found);
    Some(Conclusion {
        limiter: if is_clear { found.limiter } else { Limiter::NotClear },
        confidence,
        ranking,
        evidence: found.evidence,
        advice: if is_clear { found.advice } else { Some(what_next(&reading).into()) },
    })
}

/// What may make clear what is not.
fn what_next(reading: &Reading<'_>) -> &'static str {
    let was_tried = reading.sensitivity().is_some();
    if waits_for_target(reading) && !was_tried {
        saturation::untried(reading)
    } else {
        "Measure it for longer, or when the machine and the target are quiet."
    }
}

/// No rule fits: the evidence, as it is.
fn unclear(reading: &Reading<'_>) -> Found {
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.wait_sentence(&[Class::Device, Class::Page, Class::Sync, Class::Remote]),
        counters: occupancy_sentence(reading),
        probe: reading.probe_sentence(),
        ..Evidence::default()
    };
    Found::new(Limiter::NotClear, reading.budget.blocked, evidence).at_most(Confidence::Undetermined)
}

/// The limiter found, and what else took the threads' time.
fn ranking(reading: &Reading<'_>, found: &Found) -> Vec<Ranked> {
    let budget = &reading.budget;
    let others = [
        (Limiter::ClientCpu, budget.user),
        (Limiter::KernelCpu, budget.kernel),
        (
            if reading.threads > cpu::cpus(reading) { Limiter::CpuSaturated } else { Limiter::CpuContention },
            budget.run_queue,
        ),
        (Limiter::CpuQuota, reading.quota()),
        (Limiter::HypervisorSteal, budget.steal),
    ];
    // What the limiter is made of is not told again.
    let own: &[Limiter] = match found.limiter {
        Limiter::PageCache
        | Limiter::PageCacheAbsorbed
        | Limiter::MetadataCache
        | Limiter::BenchmarkItself
        | Limiter::CpuSaturated => &[Limiter::ClientCpu, Limiter::KernelCpu],
        _ => &[],
    };
    let mut all: Vec<_> = others
        .into_iter()
        .filter(|(limiter, share)| *share >= SHARE_MIN && !own.contains(limiter))
        .map(|(limiter, share)| Ranked { limiter, share })
        .collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    // A mix is told by its parts.
    let first = match found.parts.is_empty() {
        true => vec![Ranked { limiter: found.limiter, share: found.share.clamp(0.0, 1.0) }],
        false => found.parts.clone(),
    };
    all.retain(|other| first.iter().all(|part| part.limiter != other.limiter));
    // A limiter may be seen in more than one kind of time; the others have what it leaves.
    let left = 1.0 - first.iter().map(|part| part.share).sum::<f64>();
    let sum: f64 = all.iter().map(|other| other.share).sum();
    if sum > left {
        all.iter_mut().for_each(|other| other.share *= left.max(0.0) / sum);
        all.retain(|other| other.share >= SHARE_MIN);
    }
    first.into_iter().chain(all).collect()
}

/// The experiment that would say most about an input that no rule is sure of; `None` where none would, or all were made.
///
/// Only what waits is asked: threads that are on a CPU all the time have said what holds them back.
pub fn next_experiment(input: &JudgeInput<'_>, plan: &Plan, tried: &[Experiment]) -> Option<Experiment> {
    let reading = Reading::of(*input)?;
    let conclusion = conclude(input)?;
    if !plan.may_probe(input.phase) {
        return None;
    }
    let is_open = |experiment: &&Experiment| !tried.contains(experiment);
    let is_shared = Experiment::Separate.variant(input.phase, plan.cache).is_some();
    if !waits_for_target(&reading) {
        // What more threads would bring is all that is left to ask those that are busy, where there are CPUs for them.
        let has_room = reading.threads < f64::from(input.environment.cpus) && !reading.is_ring;
        let is_busy = matches!(conclusion.limiter, Limiter::ClientCpu | Limiter::KernelCpu | Limiter::Mixed);
        let wanted = [(Experiment::Depth, has_room && is_busy), (Experiment::Separate, is_shared)];
        return wanted.iter().find(|(one, is_wanted)| *is_wanted && is_open(&one)).map(|(one, _)| *one);
    }
    // What is known from what was asked for, or from a cap that can be read, needs no more.
    let is_settled = matches!(
        conclusion.limiter,
        Limiter::RateLimitAsked
            | Limiter::BenchmarkItself
            | Limiter::DirtyThrottling
            | Limiter::MemoryPressure
    );
    let wanted: &[Experiment] = match (reading.delay(), is_settled) {
        (_, true) => &[],
        // How much more would come of more at once is all that is left to ask.
        (Some(delay), _) if delay >= DELAY_ALL && reading.depth().is_some_and(|depth| depth >= DEPTH_ALL) => {
            &[]
        }
        _ => Experiment::ALL,
    };
    wanted.iter().filter(|one| **one != Experiment::Separate || is_shared).find(is_open).copied()
}

/// Whether it is for the target that threads wait.
pub(crate) fn waits_for_target(reading: &Reading<'_>) -> bool {
    let least = if reading.is_ring { RING_BLOCKED } else { BLOCKED };
    reading.budget.blocked >= least
}

/// Where the threads' time went, in a sentence.
pub(crate) fn budget_sentence(reading: &Reading<'_>) -> String {
    let budget = &reading.budget;
    let parts = [
        (budget.blocked, "blocked"),
        (budget.kernel, "in the kernel"),
        (budget.user, "in its own code"),
        (budget.run_queue, "waiting for a CPU"),
        (reading.quota(), "held back by a quota"),
        (budget.steal, "taken by the hypervisor"),
    ];
    let mut parts: Vec<_> = parts.into_iter().filter(|(share, _)| *share >= SHARE_MIN).collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let who = if reading.threads == 1.0 { "its thread was" } else { "its threads were" };
    let told: Vec<_> = parts.iter().map(|(share, what)| format!("{} {what}", percent(*share))).collect();
    format!("{who} {}", told.join(", "))
}

/// How near it comes to the same calls on memory, in a sentence, where that is near enough to say something.
pub(crate) fn memory_sentence(reading: &Reading<'_>) -> Option<String> {
    let share =
        reading.input.record.ceiling_shares.as_ref()?.memory.filter(|share| *share > own_loop::NEAR)?;
    Some(format!("it is {} of what the same calls reach on memory", percent(share.min(9.99))))
}

/// How many requests were at the device or server, in a sentence.
pub(crate) fn occupancy_sentence(reading: &Reading<'_>) -> Option<String> {
    let at_target = reading.at_target?;
    let waiting = reading.waiting();
    let place = match (&reading.input.record.device, reading.is_remote) {
        (Some(device), false) => device.name.clone(),
        _ => "the server".into(),
    };
    let what = if reading.is_ring { "operations were waited for" } else { "threads were asleep" };
    Some(format!("on average {at_target:.1} requests were in {place}, and {waiting:.1} {what}"))
}
