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
mod stream;
mod sync;
mod throttle;
mod unstable;

pub(crate) use saturation::tell_device;
pub(crate) use stream::tell_line;

use model::advice::Advice;
use model::experiment::Experiment;
use model::figure::{Figure, Mean, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Ranked, Verdict};
use model::target::{Backing, DeviceKind};
use model::{Limiter, Plan};

use crate::JudgeInput;
use crate::disturbance::used_cpus;
use crate::experiments::Load;
use crate::reading::{self, Reading};
use crate::traps;

/// A share of the time that is worth naming beside the largest.
pub(crate) const SHARE_MIN: f64 = 0.05;
/// Blocked for less than this, threads are held back by what they do, and not by what they wait for.
pub(crate) const BLOCKED: f64 = 0.5;
/// The same for a ring, whose one thread may be busy while the device is full: where it is always full of requests and
/// hardly ever sleeps, it is the thread that holds it back.
pub(crate) const RING_BLOCKED: f64 = 0.1;

/// More depth that brings more than so many times the rate is told by nothing else.
const MUCH_ROOM: f64 = 2.0;
/// Others that use more of all CPUs than this leave software too little of them to answer as it would.
const OTHERS_MOST: f64 = 0.8;

/// Several observations as a list: each part is one, perhaps one, or a list.
macro_rules! seen {
    ($($part:expr),+ $(,)?) => {{
        let mut seen = Vec::new();
        $(seen.extend($part);)+
        seen
    }};
}
use seen;

/// A rule: its verdict on an input whose threads' time is known.
type Rule = fn(&Reading<'_>) -> Option<Verdict>;

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
    stream::rule,
    latency::rule,
    saturation::rule,
];

/// The thresholds that explanations of limiters name.
pub fn thresholds() -> Vec<Threshold> {
    let own: &[Threshold] = &[
        ("ring_blocked", Figure::Share(RING_BLOCKED)),
        ("others_most", Figure::Share(OTHERS_MOST)),
        ("much_room", Figure::Ratio(MUCH_ROOM)),
    ];
    let of_rules = [
        asked::THRESHOLDS,
        cache::THRESHOLDS,
        cpu::THRESHOLDS,
        helper::THRESHOLDS,
        crate::experiments::THRESHOLDS,
        latency::THRESHOLDS,
        lock::THRESHOLDS,
        memory::THRESHOLDS,
        neighbour::THRESHOLDS,
        own_loop::THRESHOLDS,
        queue::THRESHOLDS,
        saturation::THRESHOLDS,
        steal::THRESHOLDS,
        stream::THRESHOLDS,
        sync::THRESHOLDS,
        throttle::THRESHOLDS,
        unstable::THRESHOLDS,
    ];
    [own, reading::THRESHOLDS].into_iter().chain(of_rules).flatten().copied().collect()
}

/// The verdict on an input, without trust; `None` where the kernel hides the threads' time.
pub(crate) fn conclude(input: &JudgeInput<'_>) -> Option<Verdict> {
    let reading = Reading::of(*input)?;
    let found = RULES.iter().find_map(|rule| rule(&reading)).unwrap_or_else(|| unclear(&reading));
    let found = Verdict { ranking: ranking(&reading, &found), ..found };
    let doubts = doubts(&reading, found.limiter);
    let mut verdict = found.unless(doubts);
    if !verdict.is_at_least(Confidence::Likely) {
        verdict.limiter = Some(Limiter::NotClear);
        verdict.next = vec![next_step(&reading)];
    }
    Some(verdict)
}

/// Observations that forbid to be sure of that limiter, whichever rule found it.
fn doubts(reading: &Reading<'_>, limiter: Option<Limiter>) -> Vec<Observation> {
    let Some(limiter) = limiter else { return Vec::new() };
    let is_of_device = matches!(limiter, Limiter::DeviceBandwidth | Limiter::DeviceOps);
    let even = traps::steadiness::evenness(&reading.input).filter(|_| is_of_device);
    // A target that is answered for by software of this machine has less of it when others take its CPUs.
    let is_of_target = is_of_device
        || matches!(
            limiter,
            Limiter::DeviceLatency
                | Limiter::RemoteLatency
                | Limiter::ServerSaturated
                | Limiter::NetworkBandwidth
                | Limiter::NetworkUntried
                | Limiter::QueueFull
                | Limiter::HelperCpu
                | Limiter::LockContention
                | Limiter::FsyncJournal
        );
    let is_software = reading.is_remote
        || reading.input.target().device_stack.iter().any(|device| device.kind == DeviceKind::Loop);
    let others = used_cpus(&reading.input)
        .filter(|used| is_of_target && is_software && *used > OTHERS_MOST * cpu::cpus(reading));
    seen![
        even.map(|variation| Observation::RateTooEven { variation: Share(variation) }),
        others.map(|others| Observation::OthersUsedCpus { cpus: Mean(others) }),
    ]
}

/// A step that may make clear what is not.
fn next_step(reading: &Reading<'_>) -> Advice {
    if waits_for_target(reading) && !reading.is_tried() {
        saturation::untried(reading)
    } else {
        Advice::MeasureLonger {}
    }
}

/// No rule fits: the evidence, as it is.
fn unclear(reading: &Reading<'_>) -> Verdict {
    let seen = seen![
        reading.time_spent(),
        reading.slept_in(&[WaitClass::Device, WaitClass::Page, WaitClass::Sync, WaitClass::Remote]),
        reading.at_target(),
        reading.answers(),
    ];
    Verdict::new(Limiter::NotClear, reading.budget.blocked, seen).at_most(Confidence::Undetermined)
}

/// The limiter found, and what else took the threads' time.
fn ranking(reading: &Reading<'_>, found: &Verdict) -> Vec<Ranked> {
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
        Some(
            Limiter::PageCache
            | Limiter::PageCacheAbsorbed
            | Limiter::MetadataCache
            | Limiter::BenchmarkItself
            | Limiter::CpuSaturated,
        ) => &[Limiter::ClientCpu, Limiter::KernelCpu],
        _ => &[],
    };
    let mut all: Vec<_> = others
        .into_iter()
        .filter(|(limiter, share)| *share >= SHARE_MIN && !own.contains(limiter))
        .map(|(limiter, share)| Ranked { limiter, share })
        .collect();
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    // A mix is told by its parts.
    let clamped = |part: &Ranked| Ranked { share: part.share.clamp(0.0, 1.0), ..part.clone() };
    let first: Vec<_> = found.ranking.iter().map(clamped).collect();
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
        let is_busy =
            matches!(conclusion.limiter, Some(Limiter::ClientCpu | Limiter::KernelCpu | Limiter::Mixed));
        let wanted = [(Experiment::Depth, has_room && is_busy), (Experiment::Separate, is_shared)];
        return wanted.iter().find(|(one, is_wanted)| *is_wanted && is_open(&one)).map(|(one, _)| *one);
    }
    // What is known from what was asked for, or from a cap that can be read, needs no more.
    let is_settled = matches!(
        conclusion.limiter,
        Some(
            Limiter::RateLimitAsked
                | Limiter::BenchmarkItself
                | Limiter::DirtyThrottling
                | Limiter::MemoryPressure
        )
    );
    let is_capped =
        conclusion.limiter == Some(Limiter::IoThrottle) && conclusion.is_at_least(Confidence::Confirmed);
    if is_settled || is_capped {
        return None;
    }
    let load = reading.load();
    let is_wanted = |experiment: &Experiment| match experiment {
        Experiment::Depth => true,
        // One at a time, a pause leaves the target idle, whatever limits it; and what has so much room needs no second
        // witness.
        Experiment::Delay => {
            reading.in_flight > 1.0 && reading.gain().is_none_or(|gain| gain.low < MUCH_ROOM)
        }
        // The unit is that of a target that is full.
        Experiment::Block => !load.is(Load::Room),
        Experiment::Separate => is_shared,
    };
    Experiment::ALL.iter().filter(|one| is_wanted(one)).find(is_open).copied()
}

/// Whether it is in a device or server that threads wait, or where that does not show.
fn is_at_target(reading: &Reading<'_>) -> bool {
    let is_there = reading.input.target().backing != Backing::Memory;
    // A device that is idle while threads wait is not what they wait for.
    let is_idle = !reading.is_remote && reading.waits_in_target() == Some(false);
    waits_for_target(reading) && is_there && !is_idle
}

/// Whether it is for the target that threads wait.
pub(crate) fn waits_for_target(reading: &Reading<'_>) -> bool {
    let least = if reading.is_ring { RING_BLOCKED } else { BLOCKED };
    reading.budget.blocked >= least
}

/// The rate over that of the same calls on memory, where that is near enough to say something.
pub(crate) fn near_memory(reading: &Reading<'_>) -> Option<Observation> {
    let share =
        reading.input.record.ceiling_shares.as_ref()?.memory.filter(|share| *share > own_loop::NEAR)?;
    Some(Observation::NearMemory { memory_share: Share(share.min(9.99)) })
}

/// The share of the time in which the device was not idle.
pub(crate) fn device_busy(reading: &Reading<'_>) -> Option<Observation> {
    let device = reading.input.record.device.as_ref()?;
    let busy_share = Share(reading.device_busy?);
    Some(Observation::DeviceBusy { device: device.name.as_str().into(), busy_share })
}
