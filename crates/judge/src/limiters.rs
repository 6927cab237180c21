//! Rules that choose the limiter of a result. Each rule detects one kind of limit. The first rule that fits gives the
//! verdict and its confidence.
//!
//! The order is that of certainty. First come the requested limits and skye's own costs. Then comes the threads' time,
//! which is exact, and then their wait channels. Last come the layers' counters together with the experiments. The
//! method is in docs/methodology.md.
//!
//! The position of a rule in `RULES` depends on its certainty. The snapshot of `tests/limiters.rs` shows the text of
//! all observations and advice: read it. If a rig can reproduce the limit, `skye/tests/known_answers/limiters.rs` tests
//! it.

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
mod requested;
mod saturation;
mod steal;
mod stream;
mod sync;
mod throttle;
mod unstable;

pub(crate) use cpu::{NEARLY_BLOCKED, waits_most_for_cpus};
pub(crate) use helper::on_all_cpus;
pub(crate) use saturation::share_device_peaks;
pub(crate) use stream::share_network_peaks;
pub(crate) use throttle::{limit_tolerance, rate_at, reached};

use std::cmp::Reverse;

use model::advice::Advice;
use model::experiment::Experiment;
use model::figure::{Figure, Mean, Share, Threshold, WaitClass};
use model::layer::LayerKind;
use model::numbers::rank;
use model::observation::Observation;
use model::run::{Confidence, RankedLimiter, Status, Verdict};
use model::target::{Backing, DeviceKind};
use model::{Limiter, Plan};

use crate::disturbance::used_cpus;
use crate::experiments::Load;
use crate::places::Level;
use crate::reading::{self, Reading};
use crate::traps;
use crate::{JudgeInput, clients};

/// Smallest share of the time that is worth naming beside the largest.
pub(crate) const SHARE_MIN: f64 = 0.05;
/// Threads that are blocked for less than this are limited by their own work, not by their waits.
pub(crate) const ASLEEP_SHARE_MIN: f64 = 0.5;
/// The same share for a ring, whose one thread may be busy while the device is saturated. If the ring is always full of
/// requests and the thread hardly ever sleeps, the thread is the limit.
pub(crate) const RING_BLOCKED: f64 = 0.1;

/// Fewer operations than these have figures and no limiter.
const OPS_MIN: u64 = 10;
/// If more depth raises the rate by more than this factor, no second experiment is needed.
const HEADROOM_GAIN: f64 = 2.0;
/// If others use more than this share of all CPUs, software has too little CPU time left to answer as it would.
const OTHERS_CPU_SHARE_MAX: f64 = 0.8;

/// Collects observations in a list: each part is an `Option` or a list of them.
macro_rules! seen {
    ($($part:expr),+ $(,)?) => {{
        let mut seen = Vec::new();
        $(seen.extend($part);)+
        seen
    }};
}
use seen;

/// A rule: returns its verdict on an input whose threads' time is known.
type Rule = fn(&Reading<'_>) -> Option<Verdict>;

/// Every rule, in the order in which they are tried.
const RULES: &[Rule] = &[
    requested::rule,
    requested::pauses,
    // Under a quota, the loop without I/O was held back, too, so its rate says nothing.
    quota::rule,
    own_loop::rule,
    memory::rule,
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
    queue::at_layer,
    throttle::readable_limit,
    stream::readable_limit,
    queue::rule,
    cache::at_layer,
    neighbour::rule,
    helper::rule,
    throttle::inferred_limit,
    unstable::rule,
    stream::rule,
    latency::rule,
    saturation::rule,
];

/// Returns the thresholds that explanations of limiters name.
pub fn thresholds() -> Vec<Threshold> {
    let own: &[Threshold] = &[
        ("ring_blocked", Figure::Share(RING_BLOCKED)),
        ("others_most", Figure::Share(OTHERS_CPU_SHARE_MAX)),
        ("much_room", Figure::Ratio(HEADROOM_GAIN)),
    ];
    let of_rules = [
        requested::THRESHOLDS,
        clients::THRESHOLDS,
        clients::SERVER_THRESHOLDS,
        cache::THRESHOLDS,
        cpu::THRESHOLDS,
        helper::THRESHOLDS,
        crate::experiments::THRESHOLDS,
        lock::THRESHOLDS,
        memory::THRESHOLDS,
        neighbour::THRESHOLDS,
        own_loop::THRESHOLDS,
        crate::operations::THRESHOLDS,
        crate::places::THRESHOLDS,
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

/// Returns the verdict on an input, without trust; `None` where the kernel hides the threads' time.
pub(crate) fn conclude(input: &JudgeInput<'_>) -> Option<Verdict> {
    if !input.record.hosts.is_empty() {
        return Some(clients::conclude(input));
    }
    let reading = Reading::from_input(*input)?;
    // Operations that fail end early, or late, or never reach the device. A description of a device needs no sample.
    let is_sample = input.record.counts.ops >= OPS_MIN || input.target().backing == Backing::Simulated;
    let rules = if input.record.status == Status::Failed || !is_sample { &[] } else { RULES };
    let found = rules.iter().find_map(|rule| rule(&reading)).unwrap_or_else(|| unclear(&reading));
    let found = Verdict { ranking: ranking(&reading, &found), ..found };
    let doubts = doubts(&reading, found.limiter);
    let mut verdict = found.unless(doubts);
    // A device whose requests do not show may have a queue or a limit before it.
    if verdict.limiter.is_some_and(is_of_device) && reading.at_target.is_none() {
        verdict = verdict.at_most(Confidence::Likely);
    }
    if !verdict.is_at_least(Confidence::Likely) {
        verdict.limiter = Some(Limiter::NotClear);
        verdict.next = vec![next_step(&reading)];
    }
    Some(verdict)
}

/// Returns true for a limit of a device, and not of what is before it.
fn is_of_device(limiter: Limiter) -> bool {
    matches!(
        limiter,
        Limiter::DeviceBandwidth | Limiter::DeviceOps | Limiter::DeviceLatency | Limiter::DeviceUndetermined
    )
}

/// Returns observations that rule out certainty about that limiter, whichever rule found it.
fn doubts(reading: &Reading<'_>, limiter: Option<Limiter>) -> Vec<Observation> {
    let Some(limiter) = limiter else { return Vec::new() };
    let is_device_limit = matches!(limiter, Limiter::DeviceBandwidth | Limiter::DeviceOps);
    let even = traps::steadiness::capped_rate_variation(&reading.input).filter(|_| is_device_limit);
    // A target that software of this machine serves gets less CPU time when others take the CPUs.
    let belongs_to_target = is_device_limit
        || matches!(
            limiter,
            Limiter::DeviceLatency
                | Limiter::DeviceUndetermined
                | Limiter::RemoteLatency
                | Limiter::RemoteUndetermined
                | Limiter::ServerSaturated
                | Limiter::NetworkBandwidth
                | Limiter::QueueFull
                | Limiter::HelperCpu
                | Limiter::LockContention
                | Limiter::FsyncJournal
        );
    let has_loop = reading.input.target().device_stack.iter().any(|device| device.kind == DeviceKind::Loop);
    let is_software = reading.is_remote || has_loop;
    let helpers = reading.system().into_iter().flat_map(|system| &system.helpers);
    let named: f64 = helpers.map(|helper| helper.cpu_share).sum();
    // A thread that does not show may serve a loop device, and be able to do no more.
    let may_hold_back = |used: &f64| {
        *used > OTHERS_CPU_SHARE_MAX * cpu::cpus(reading)
            || has_loop && used - named >= helper::LOOP_SATURATED
    };
    let others =
        used_cpus(&reading.input).filter(|used| belongs_to_target && is_software && may_hold_back(used));
    let last = reading.input.target().layers.iter().rfind(|layer| layer.kind == LayerKind::Device);
    let hidden = last.filter(|last| is_of_device(limiter) && last.hidden.is_some());
    seen![
        hidden.map(|last| Observation::NotVisibleBelow { layer: last.name.as_str().into() }),
        even.map(|variation| Observation::RateTooEven { variation: Share(variation) }),
        others.map(|others| Observation::OthersUsedCpus { cpus: Mean(others) }),
    ]
}

/// Returns a step that may clear up an unclear verdict.
fn next_step(reading: &Reading<'_>) -> Advice {
    if waits_for_target(reading) && !reading.has_experiments() {
        Advice::DepthUntried {}
    } else {
        Advice::MeasureLonger {}
    }
}

/// Returns the verdict where no rule fits, with the evidence as it is.
fn unclear(reading: &Reading<'_>) -> Verdict {
    let seen = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Device, WaitClass::Page, WaitClass::Sync, WaitClass::Remote]),
        reading.at_target(),
        reading.answers(),
    ];
    Verdict::new(Limiter::NotClear, reading.budget.blocked, seen).at_most(Confidence::Undetermined)
}

/// Returns the limiter of threads that wait for a CPU: each other, if they outnumber the CPUs.
pub(crate) fn waited_for_cpus(threads: f64, cpus: f64) -> Limiter {
    if threads > cpus { Limiter::CpuSaturated } else { Limiter::CpuContention }
}

/// Returns the limiter found, and the other uses of the threads' time.
fn ranking(reading: &Reading<'_>, found: &Verdict) -> Vec<RankedLimiter> {
    let budget = &reading.budget;
    let others = [
        (Limiter::ClientCpu, budget.user),
        (Limiter::KernelCpu, budget.kernel),
        (waited_for_cpus(reading.threads, cpu::cpus(reading)), budget.run_queue),
        (Limiter::CpuQuota, reading.quota()),
        (Limiter::HypervisorSteal, budget.steal),
    ];
    // Kinds of time that the limiter itself consists of are left out.
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
        .map(|(limiter, share)| RankedLimiter { limiter, share })
        .collect();
    all.sort_by_cached_key(|limit| Reverse(rank(limit.share)));
    // A mixed verdict is ranked by its parts.
    let clamped = |part: &RankedLimiter| RankedLimiter { share: part.share.clamp(0.0, 1.0), ..part.clone() };
    let first: Vec<_> = found.ranking.iter().map(clamped).collect();
    all.retain(|other| first.iter().all(|part| part.limiter != other.limiter));
    // A limiter may show in more than one kind of time. The others share the time that it leaves.
    let left = 1.0 - first.iter().map(|part| part.share).sum::<f64>();
    let sum: f64 = all.iter().map(|other| other.share).sum();
    if sum > left {
        all.iter_mut().for_each(|other| other.share *= left.max(0.0) / sum);
        all.retain(|other| other.share >= SHARE_MIN);
    }
    first.into_iter().chain(all).collect()
}

/// Returns the most informative experiment for an input without a certain limiter; `None` if none is informative, or
/// all were made.
///
/// Only tests that wait get experiments: threads that are always on a CPU have already shown their limit.
pub fn next_experiment(input: &JudgeInput<'_>, plan: &Plan, tried: &[Experiment]) -> Option<Experiment> {
    let reading = Reading::from_input(*input)?;
    let conclusion = conclude(input)?;
    if !plan.may_probe(input.phase) {
        return None;
    }
    let is_open = |experiment: &&Experiment| !tried.contains(experiment);
    let is_shared = Experiment::Separate.variant(input.phase, plan.cache).is_some();
    if !waits_for_target(&reading) {
        // For busy threads, the one open question is the gain from more threads, where there are CPUs for them.
        let has_room = reading.threads < f64::from(input.environment.cpus) && !reading.is_ring;
        let is_busy =
            matches!(conclusion.limiter, Some(Limiter::ClientCpu | Limiter::KernelCpu | Limiter::Mixed));
        let wanted = [(Experiment::Depth, has_room && is_busy), (Experiment::Separate, is_shared)];
        return wanted.iter().find(|(one, is_wanted)| *is_wanted && is_open(&one)).map(|(one, _)| *one);
    }
    // Some limits need no experiment, such as a requested rate, or a cap that can be read.
    let is_settled = matches!(
        conclusion.limiter,
        Some(
            Limiter::RequestedRate
                | Limiter::ThinkTime
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
        // A target with this much headroom needs no second proof.
        Experiment::Single => {
            reading.in_flight > 1.0 && reading.gain().is_none_or(|gain| gain.low < HEADROOM_GAIN)
        }
        // Only a saturated target shows the unit that it counts.
        Experiment::Block => !load.is(Load::Headroom),
        Experiment::Separate => is_shared,
    };
    Experiment::ALL.iter().filter(|one| is_wanted(one)).find(is_open).copied()
}

/// Returns true if threads wait in a device or server, or if the place of their wait does not show.
fn is_at_target(reading: &Reading<'_>) -> bool {
    let is_there = reading.input.target().backing != Backing::Memory;
    // A device that is idle while threads wait is not what they wait for.
    let is_full = || reading.gate().is_some_and(Level::is_full_inside);
    let is_idle = !reading.is_remote && reading.waits_in_target() == Some(false) && !is_full();
    waits_for_target(reading) && is_there && !is_idle
}

/// Returns true if threads wait for the target.
pub(crate) fn waits_for_target(reading: &Reading<'_>) -> bool {
    let least = if reading.is_ring { RING_BLOCKED } else { ASLEEP_SHARE_MIN };
    reading.budget.blocked >= least
}

/// Returns the rate over that of the same calls on memory, where it is high enough to say something.
pub(crate) fn near_memory(reading: &Reading<'_>) -> Option<Observation> {
    let share = reading
        .input
        .record
        .figures
        .ceiling_shares
        .as_ref()?
        .memory
        .filter(|share| *share > own_loop::CEILING_SHARE_MIN)?;
    Some(Observation::NearMemory { memory_share: Share(share.min(9.99)) })
}

/// The share of the time in which the device was not idle.
pub(crate) fn device_busy(reading: &Reading<'_>) -> Option<Observation> {
    let device = reading.input.record.seen.device.as_ref()?;
    let busy_share = Share(reading.device_busy?);
    Some(Observation::DeviceBusy { device: device.name.as_str().into(), busy_share })
}
