//! Limits of single operations of a mix or a load, from samples of the threads that were in them.
//!
//! The loop publishes the operation of each thread, and a sample counts for that operation. The rules for whole tests
//! map a wait channel to a limiter. If the test's limiter is that of the target or the CPUs, operations that wait there
//! have the same one.
//!
//! Reports a limiter if the 95 % interval of its share of samples is above one half. Threads sampled at one instant
//! count as one sample, as they may wait for the same thing. So do samples of the same call.

use std::cmp::Reverse;
use std::collections::HashMap;

use model::Limiter;
use model::figure::{Count, Figure, Share, Threshold, Time, TimePart, TimeShare, Wait, WaitClass};
use model::numbers::rank;
use model::observation::Observation;
use model::run::{
    Confidence, OperationVerdict, PhaseRecord, RankedLimiter, SampledThreads, Status, Step,
    THREADS_PER_SAMPLE_MAX, TimeBreakdown, Verdict, WaitChannel, machine_of,
};
use model::target::Backing;
use model::workload::FilesWork;

use crate::laws::limiters::cpu::{NEARLY_BLOCKED, waited_for_cpus};
use crate::values::input::JudgeInput;
use crate::values::reading::Reading;
use crate::values::shares::SHARE_MIN;
use crate::values::wait_channels;

/// Operations with a smaller share of the time change little if they get faster.
const TIME_MIN: f64 = 0.1;
/// A limiter whose share of an operation's time has an interval above this is its limiter.
const OPERATION_SHARE_MIN: f64 = 0.5;
/// If two limiters are reported, the interval of the second one's share is above this.
const SECOND: f64 = 0.25;
/// If one kind of CPU time has this share of all time awake, it counts as the awake time of each operation. The
/// division is known for the whole test only.
const AWAKE_SHARE_MIN: f64 = 2.0 / 3.0;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("operation_time", Figure::Share(TIME_MIN)),
    ("operation_most", Figure::Share(OPERATION_SHARE_MIN)),
    ("operation_second", Figure::Share(SECOND)),
    ("awake_most", Figure::Share(AWAKE_SHARE_MIN)),
];

/// Limiters with the same wait channels: the device or server, and the queue before it.
const TARGET_LIMITERS: &[Limiter] = &[
    Limiter::DeviceBandwidth,
    Limiter::DeviceOps,
    Limiter::DeviceLatency,
    Limiter::DeviceUndetermined,
    Limiter::RemoteLatency,
    Limiter::RemoteUndetermined,
    Limiter::IoThrottle,
    Limiter::NetworkBandwidth,
    Limiter::ServerSaturated,
    Limiter::NoisyNeighbour,
    Limiter::HelperCpu,
    Limiter::BelowOs,
    Limiter::BelowClients,
];
/// Limiters of threads that are awake.
const CPU_LIMITERS: &[Limiter] = &[
    Limiter::ClientCpu,
    Limiter::KernelCpu,
    Limiter::CpuSaturated,
    Limiter::CpuContention,
    Limiter::CpuQuota,
    Limiter::HypervisorSteal,
    Limiter::BenchmarkItself,
];

/// Returns the verdicts on operations with much of the time, those with most first, beside the verdict on the test.
pub(crate) fn judge(input: &JudgeInput<'_>, row: &Verdict) -> Vec<OperationVerdict> {
    let Some(work) = input.files().filter(|work| work.syncs_in("").is_some()) else { return Vec::new() };
    let record = input.record;
    let Some(budget) = budget(record).filter(|_| record.status != Status::Failed) else { return Vec::new() };
    let all_ns = record.figures.steps.iter().filter_map(|step| step.elapsed_ns).fold(0, u64::saturating_add);
    let context = Context::new(input, work, row, &budget);
    let mut verdicts: Vec<_> = (record.figures.steps.iter())
        .filter_map(|step| {
            let time_share = step.elapsed_ns? as f64 / all_ns.max(1) as f64;
            context.verdict_on(step, time_share).filter(|_| time_share >= TIME_MIN)
        })
        .collect();
    verdicts.sort_by_cached_key(|verdict| Reverse(rank(verdict.time_share)));
    verdicts
}

/// Returns where the threads' time went: that of the test's threads, or the mean of all clients'.
fn budget(record: &PhaseRecord) -> Option<TimeBreakdown> {
    if record.seen.budget.is_some() || record.hosts.is_empty() {
        return record.seen.budget.clone();
    }
    let all: Option<Vec<&TimeBreakdown>> = record.hosts.iter().map(|share| share.budget.as_ref()).collect();
    let all = all?;
    let mean =
        |of: fn(&TimeBreakdown) -> f64| all.iter().map(|budget| of(budget)).sum::<f64>() / all.len() as f64;
    Some(TimeBreakdown {
        user: mean(|budget| budget.user),
        kernel: mean(|budget| budget.kernel),
        run_queue: mean(|budget| budget.run_queue),
        quota: Some(mean(|budget| budget.quota.unwrap_or(0.0))),
        steal: mean(|budget| budget.steal),
        blocked: mean(|budget| budget.blocked),
    })
}

/// Facts about the test that all its operations share.
struct Context<'a> {
    record: &'a PhaseRecord,
    work: &'a FilesWork,
    /// Limiter of threads that wait for the target, if the test's verdict has it.
    target: Option<Limiter>,
    is_remote: bool,
    /// True if threads wait for pages or blocks above a device that is all but idle.
    is_device_idle: bool,
    /// True if threads may hold locks that other threads wait for.
    has_other_threads: bool,
    /// Samples of one instant, which may all show the same wait.
    threads_per_sample: f64,
    /// Limiters of awake threads, with their shares of the time awake.
    awake: Vec<(Limiter, f64)>,
    /// The time awake, by its kinds.
    awake_time: Time,
    /// Share of the time by which samples overestimate sleep or time awake.
    asleep_excess: f64,
    awake_excess: f64,
}

/// Samples of one operation that show one limiter.
struct Part {
    limiter: Limiter,
    samples: u64,
    /// Part of these samples that the limiter has: that of one kind of CPU time in all time awake, else 1.
    fraction: f64,
    /// Class and symbol of most of these samples, with their number; `None` for awake threads.
    place: Option<(WaitClass, String, u64)>,
}

/// Samples of one operation, by the limiters that they show.
struct Divided<'a> {
    parts: Vec<Part>,
    all: u64,
    /// Samples of sleeping threads whose limiter does not show, with their symbols.
    hidden: Vec<(u64, &'a str)>,
}

impl<'a> Context<'a> {
    fn new(input: &JudgeInput<'a>, work: &'a FilesWork, row: &Verdict, budget: &TimeBreakdown) -> Self {
        let (record, workload) = (input.record, &input.phase.workload);
        let (threads, cpus) = (f64::from(workload.threads), f64::from(input.environment.cpus.max(1)));
        // Clients of one machine wait for each other's threads, too.
        let mut on_machine: HashMap<&str, u32> = HashMap::new();
        for share in &record.hosts {
            *on_machine.entry(machine_of(&share.name)).or_default() += 1;
        }
        let clients_per_machine = on_machine.into_values().max().unwrap_or(1);
        let found = row.limiter.filter(|_| row.is_at_least(Confidence::Likely));
        let kinds = [
            (TimePart::User, Limiter::ClientCpu, budget.user),
            (TimePart::Kernel, Limiter::KernelCpu, budget.kernel),
            (
                TimePart::RunQueue,
                waited_for_cpus(threads * f64::from(clients_per_machine), cpus),
                budget.run_queue,
            ),
            (TimePart::Quota, Limiter::CpuQuota, budget.quota.unwrap_or(0.0)),
            (TimePart::Steal, Limiter::HypervisorSteal, budget.steal),
        ];
        let all: f64 = kinds.iter().map(|(.., share)| share).sum();
        let mut kinds: Vec<_> =
            kinds.into_iter().map(|(part, limiter, share)| (part, limiter, share / all.max(1e-9))).collect();
        kinds.sort_by_cached_key(|(.., share)| Reverse(rank(*share)));
        let awake = match (found.filter(|limiter| CPU_LIMITERS.contains(limiter)), kinds[0]) {
            (Some(found), _) => vec![(found, 1.0)],
            (None, (_, most, share)) if share >= AWAKE_SHARE_MIN => vec![(most, 1.0)],
            _ => kinds.iter().map(|(_, limiter, share)| (*limiter, *share)).collect(),
        };
        let time = kinds.iter().filter(|(.., share)| *share >= SHARE_MIN);
        let of_workers =
            || record.seen.wait_channels.iter().filter(|site| site.of == SampledThreads::Workers);
        let all: u64 = of_workers().map(|site| site.samples).sum();
        let asleep: u64 = of_workers().filter(|site| site.is_asleep()).map(|site| site.samples).sum();
        let excess = asleep as f64 / all.max(1) as f64 - budget.blocked;
        Self {
            record,
            work,
            target: found.filter(|limiter| TARGET_LIMITERS.contains(limiter)),
            is_remote: input.target().backing == Backing::RemoteOrUserSpace,
            is_device_idle: Reading::from_input(*input)
                .is_some_and(|reading| reading.waits_for_idle_device()),
            has_other_threads: workload.threads > 1 || record.hosts.len() > 1,
            threads_per_sample: threads.clamp(1.0, THREADS_PER_SAMPLE_MAX as f64),
            awake,
            awake_time: Time(time.map(|(part, _, share)| TimeShare { part: *part, share: *share }).collect()),
            asleep_excess: excess.max(0.0),
            awake_excess: (-excess).max(0.0),
        }
    }

    /// Divides the samples of an operation by their limiters; `None` if no sample found a thread in it.
    fn divided(&self, operation: &str) -> Option<Divided<'a>> {
        let mut parts: Vec<Part> = Vec::new();
        let (mut all, mut awake, mut hidden) = (0, 0, Vec::new());
        for site in self.record.seen.wait_channels.iter().filter(|site| site.of == SampledThreads::Workers) {
            let samples = samples_in(site, operation);
            all += samples;
            if !site.is_asleep() {
                awake += samples;
            } else if let Some((class, limiter)) = self.limiter(&site.symbol, operation) {
                add(&mut parts, limiter, samples, class, &site.symbol);
            } else if samples > 0 {
                hidden.push((samples, site.symbol.as_str()));
            }
        }
        if all == 0 {
            return None;
        }
        parts.extend(self.awake.iter().map(|(limiter, fraction)| Part {
            limiter: *limiter,
            samples: awake,
            fraction: *fraction,
            place: None,
        }));
        Some(Divided { parts, all, hidden })
    }

    /// Returns the verdict on an operation; `None` if no sample found a thread in it.
    fn verdict_on(&self, step: &Step, time_share: f64) -> Option<OperationVerdict> {
        let Divided { mut parts, all, hidden } = self.divided(&step.name)?;
        let share = |part: &Part| part.samples as f64 / all as f64 * part.fraction;
        parts.retain(|part| share(part) > 0.0);
        parts.sort_by_cached_key(|part| Reverse(rank(share(part))));
        let is_confident = |part: Option<&Part>, least: f64, independent: f64| {
            let Some(part) = part else { return false };
            let excess = if part.place.is_some() { self.asleep_excess } else { self.awake_excess };
            let found = part.samples as f64 / all as f64 * independent;
            let interval = stats::interval_of_share(found, independent);
            interval.is_some_and(|interval| (interval.low - excess) * part.fraction > least)
        };
        let has_second = parts.get(1).is_some_and(|part| share(part) >= NEARLY_BLOCKED);
        let named_from = |independent: f64| match () {
            () if is_confident(parts.first(), OPERATION_SHARE_MIN, independent) && !has_second => {
                (parts[0].limiter, 1)
            }
            () if has_second && is_confident(parts.get(1), SECOND, independent) => (Limiter::Mixed, 2),
            () => (Limiter::NotClear, 2),
        };
        // All samples of one call show the same wait, so they count as one.
        let independent_samples = all as f64 / self.threads_per_sample;
        let (limiter, mut named) = named_from(independent_samples.min(step.ops.max(1) as f64));
        let is_clear = limiter != Limiter::NotClear;
        let mut observations = Vec::new();
        if let (false, (with_more, told)) = (is_clear, named_from(independent_samples))
            && with_more != Limiter::NotClear
        {
            observations.push(Observation::OperationFew { calls: Count(step.ops) });
            named = told;
        }
        for part in parts.iter().take(named) {
            self.add_observations(part, all, &mut observations);
        }
        if let Some((samples, symbol)) = hidden.into_iter().max().filter(|_| !is_clear) {
            observations.push(Observation::OperationHidden {
                symbol: symbol.into(),
                asleep_share: Share(samples as f64 / all as f64),
                samples: Count(all),
            });
        }
        let ranking = parts.iter().filter(|part| share(part) >= SHARE_MIN);
        Some(OperationVerdict {
            operation: step.name.clone(),
            time_share,
            limiter,
            confidence: if is_clear { Confidence::Likely } else { Confidence::Undetermined },
            ranking: ranking
                .map(|part| RankedLimiter { limiter: part.limiter, share: share(part) })
                .collect(),
            samples: all,
            observations,
            evidence: None,
        })
    }

    /// Returns the class and the limiter of threads that sleep at a place in an operation.
    fn limiter(&self, symbol: &str, operation: &str) -> Option<(WaitClass, Limiter)> {
        let is_synced = !self.is_remote && self.work.syncs_in(operation) == Some(true);
        // A call that waits for its own block waits for a flush only if it syncs; the removal of a file may discard.
        let class = wait_channels::class(symbol, is_synced)?;
        let found = match class {
            // A sync waits for pages under writeback first.
            WaitClass::Page | WaitClass::Device if is_synced => Limiter::FsyncJournal,
            WaitClass::Page | WaitClass::Device if self.is_device_idle => return None,
            WaitClass::Page | WaitClass::Device | WaitClass::Remote => {
                self.target.or_else(|| wait_channels::limiter(class, self.is_remote))?
            }
            WaitClass::Lock if !self.has_other_threads => return None,
            class => wait_channels::limiter(class, self.is_remote)?,
        };
        Some((class, found))
    }

    /// Adds the observations that show a part.
    fn add_observations(&self, part: &Part, all: u64, observations: &mut Vec<Observation>) {
        let samples = Count(all);
        let share = Share(part.samples as f64 / all as f64);
        match &part.place {
            Some((WaitClass::Page | WaitClass::Device, symbol, _))
                if part.limiter == Limiter::FsyncJournal =>
            {
                let symbol = symbol.as_str().into();
                observations.push(Observation::OperationSynced { symbol, asleep_share: share, samples });
            }
            Some((class, symbol, _)) => observations.push(Observation::OperationSlept {
                class: Wait(*class),
                symbol: symbol.as_str().into(),
                asleep_share: share,
                samples,
            }),
            None if observations.iter().any(|told| matches!(told, Observation::OperationRan { .. })) => {}
            None => observations.extend([
                Observation::OperationRan { running_share: share, samples },
                Observation::AwakeSpent { time: self.awake_time.clone() },
            ]),
        }
    }
}

fn samples_in(site: &WaitChannel, operation: &str) -> u64 {
    site.operations.iter().filter(|one| one.operation == operation).map(|one| one.samples).sum()
}

/// Adds samples of sleeping threads to the part of their limiter.
fn add(parts: &mut Vec<Part>, limiter: Limiter, samples: u64, class: WaitClass, symbol: &str) {
    let place = || Some((class, symbol.to_owned(), samples));
    match parts.iter_mut().find(|part| part.limiter == limiter) {
        Some(part) => {
            part.samples += samples;
            if part.place.as_ref().is_none_or(|(.., most)| samples > *most) {
                part.place = place();
            }
        }
        None => parts.push(Part { limiter, samples, fraction: 1.0, place: place() }),
    }
}
