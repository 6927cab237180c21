//! The verdict on one row: the first rule that fits, its doubts, and the other uses of the time.

use std::cmp::Reverse;

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Mean, Share, Threshold, WaitClass};
use model::layer::LayerKind;
use model::numbers::rank;
use model::observation::Observation;
use model::run::{Confidence, RankedLimiter, Status, Verdict};
use model::target::{Backing, DeviceKind};

use super::clients;
use crate::laws::limiters::cpu::waited_for_cpus;
use crate::laws::limiters::evidence::{cpus, seen, waits_for_target};
use crate::laws::limiters::{RULES, helper};
use crate::laws::traps;
use crate::values::disturbance::used_cpus;
use crate::values::input::JudgeInput;
use crate::values::reading::Reading;
use crate::values::shares::SHARE_MIN;

/// Fewer operations than these have figures and no limiter.
const OPS_MIN: u64 = 10;
/// If others use more than this share of all CPUs, software has too little CPU time left to answer as it would.
const OTHERS_CPU_SHARE_MAX: f64 = 0.8;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] = &[("others_most", Figure::Share(OTHERS_CPU_SHARE_MAX))];

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
    if verdict.limiter.is_some_and(Limiter::is_of_device) && reading.at_target.is_none() {
        verdict = verdict.at_most(Confidence::Likely);
    }
    if !verdict.is_at_least(Confidence::Likely) {
        verdict.limiter = Some(Limiter::NotClear);
        verdict.next = vec![next_step(&reading)];
    }
    Some(verdict)
}

/// Returns observations that rule out certainty about that limiter, whichever rule found it.
fn doubts(reading: &Reading<'_>, limiter: Option<Limiter>) -> Vec<Observation> {
    let Some(limiter) = limiter else { return Vec::new() };
    let is_device_limit =
        matches!(limiter, Limiter::DeviceBandwidth | Limiter::DeviceOps | Limiter::DeviceUndetermined);
    let even = traps::steadiness::capped_rate_variation(&reading.input).filter(|_| is_device_limit);
    // A target that software of this machine serves gets less CPU time when others take the CPUs.
    let belongs_to_target = is_device_limit
        || matches!(
            limiter,
            Limiter::DeviceLatency
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
        *used > OTHERS_CPU_SHARE_MAX * cpus(reading) || has_loop && used - named >= helper::LOOP_SATURATED
    };
    let others =
        used_cpus(&reading.input).filter(|used| belongs_to_target && is_software && may_hold_back(used));
    let last = reading.input.target().layers.iter().rfind(|layer| layer.kind == LayerKind::Device);
    let hidden = last.filter(|last| limiter.is_of_device() && last.hidden.is_some());
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

/// Returns the limiter found, and the other uses of the threads' time.
fn ranking(reading: &Reading<'_>, found: &Verdict) -> Vec<RankedLimiter> {
    let budget = &reading.budget;
    let others = [
        (Limiter::ClientCpu, budget.user),
        (Limiter::KernelCpu, budget.kernel),
        (waited_for_cpus(reading.threads, cpus(reading)), budget.run_queue),
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
