//! Turns measurements into the record of a phase in the document.
//!
//! The headline of reads is the slope over the steady part. Without one, it is operations over the time from the start
//! of the first worker to the end of the last. Zones have no steady part. Direct writes add a part of the final sync to
//! each operation, unless the test says `sync=none`.
//!
//! Buffered writes may wait in the page cache. Their headline is all operations over all of the time with the sync; the
//! rate into the cache is a separate figure. The headline of tests on files is operations over the measured time of all
//! rounds, and its interval comes from the rounds.

use std::ops::Range;

use engine::bytes::CHUNK_CALLS;
use engine::files::Unexpected;
use model::mix::NamedMix;
use model::plan::{Plan, PlannedPhase};
use model::run::{
    Counts, EngineRecord, Figures, Interval, Judgement, Latency, LatencyByPlace, Load, Observations,
    PhaseRecord, Rate, Residency, RoundRecord, SlowestCalls, Status, Step, SystemUse, WorkloadRecord,
};
use model::target::{Backing, Target, TargetKind};
use model::workload::verbs::VerbStep;
use model::workload::{Arrival, CacheMode, DataVerb, DataWork, FileVerb, Work, Workload};
use model::{UserError, spec};

use crate::collect::{self, Collector, Distribution};
use crate::data_phase::DataOutcome;
use crate::drive::RunningPhase;
use crate::extents::DataExtents;
use crate::file_phase::FileOutcome;
use crate::meter::PhaseSums;
use crate::notes;
use crate::rounds::Rounds;
use crate::steady_state::{self, SteadyState};
use crate::task;
use crate::zoned::Zoned;

/// Circumstances of a phase that its counts do not show.
pub struct PhaseContext<'a> {
    /// Plan of the run.
    pub plan: &'a Plan,
    /// Target of the run.
    pub target: &'a Target,
    /// Seed of the random draws that find intervals of percentiles.
    pub seed: u64,
    /// Clock that timed operations.
    pub clock: &'static str,
    /// CPUs near the device, if workers were kept there.
    pub local_cpus: Option<&'a [u32]>,
    /// True if a signal ended it.
    pub is_interrupted: bool,
    /// Time from the start of the run to the start of the phase.
    pub start_ns: u64,
    /// Start of the phase on the clock of the workers.
    pub clock_start_ns: u64,
}

/// Returns the record of a phase in which nothing was measured, with the reason.
pub fn untried(phase: &PlannedPhase, repetition: u32, status: Status, reason: &str) -> PhaseRecord {
    let workload = &phase.workload;
    PhaseRecord {
        id: record_id(phase, repetition),
        spec: spec::print(workload),
        name: workload.name().into(),
        label: workload.label(),
        handle: None,
        group: phase.group.clone(),
        repetition,
        workload: WorkloadRecord::new(workload, 0, 0, CacheMode::AsIs),
        engine: EngineRecord {
            name: phase.engine.word().into(),
            features: Vec::new(),
            mean_batch: None,
            idle_slots: None,
        },
        status,
        reason: Some(reason.into()),
        hosts: Vec::new(),
        counts: Counts::default(),
        figures: Figures::default(),
        seen: Observations::default(),
        judged: Judgement::default(),
    }
}

/// Returns the record of a phase.
pub fn record(
    context: &PhaseContext<'_>,
    phase: &PlannedPhase,
    repetition: u32,
    mut measured: PhaseTotals,
    mut collected: Collector,
    observed: &PhaseSums,
) -> PhaseRecord {
    let workload = &phase.workload;
    let data = workload.data();
    let steps = collect::by_name(std::mem::take(&mut collected.steps));
    // Without files there is no cache for data to wait in.
    measured.times.cached_writes &= data.is_none() || phase.engine.needs_files();
    let (status, reason) = measured.status(context.is_interrupted);
    let engine = engine(context, phase, &measured, &collected);
    let counts = counts(context, &measured, &collected);
    let workload_record = workload_record(context, phase, &measured);
    // After some workers have ended, the rate is no longer the same. Rates of zones differ by their nature.
    let has_one_rate = workload.is_continuous() && data.is_none_or(|data| data.zones.is_none());
    let (running, paused) = running(context, phase, &measured, &collected, observed, has_one_rate);
    measured.times.paused_ns = paused.iter().map(|interval| interval.length_ns).sum();
    measured.times.paused_ops = paused.iter().map(|interval| interval.ops).sum();
    let all = || SteadyState::from_intervals(&running, measured.times.first_done_ns);
    let by_rounds = collected.rounds.as_ref().and_then(Rounds::steady);
    let state = match by_rounds {
        Some((time, rate)) => SteadyState::from_rounds(collected.intervals(), &time, rate).or_else(all),
        None => has_one_rate.then(all).flatten(),
    };
    let (latency, histogram) =
        latency(context, phase, &collected, state.as_ref(), &running, !paused.is_empty()).unzip();
    let seen = observations(context, phase, &mut measured, &collected, observed);
    let figures = Figures {
        rate: headline(workload, &measured, &collected, state.as_ref()),
        latency_ns: latency,
        queueing_ns: collected.queueing.latency(),
        histogram: histogram.flatten(),
        slowest_calls: Some(collected.slowest_chunk_ns)
            .filter(|time_ns| *time_ns > 0)
            .map(|time_ns| SlowestCalls { calls: CHUNK_CALLS, time_ns }),
        steps: step_records(phase, &steps, observed),
        steady: state.map(|state| state.steady),
        rounds: std::mem::take(&mut measured.rounds),
        zones: collected.zoned.iter().flat_map(Zoned::records).collect(),
        until_steady: collected.rounds.take().map(Rounds::into_record),
        intervals: collect::coarse(collected.into_intervals(measured.end_ns)),
        ..Figures::default()
    };
    let mut record = PhaseRecord {
        reason,
        workload: workload_record,
        engine,
        counts,
        figures,
        seen,
        ..untried(phase, repetition, status, "")
    };
    record.judged.notes = notes::notes(phase, &measured, &record);
    record
}

/// Returns the steps of the operations that were made, with the time in which their threads slept.
fn step_records(phase: &PlannedPhase, steps: &[(VerbStep, Distribution)], observed: &PhaseSums) -> Vec<Step> {
    // A look finds a thread asleep in a call of the kernel. It cannot tell apart two steps that make the same
    // call.
    let is_alone = |step: &VerbStep| {
        let shares = |(other, _): &&(VerbStep, _)| other.calls.iter().any(|call| step.calls.contains(call));
        steps.iter().filter(shares).count() == 1
    };
    let is_mix = !task::operations(phase).is_empty();
    let step = |(step, latencies): &(VerbStep, Distribution)| {
        let latency = latencies.latency();
        let elapsed_ns = latency.as_ref().map(|latency| latency.mean * latencies.count());
        Step {
            name: step.name.into(),
            ops: latencies.count(),
            elapsed_ns,
            waiting_ns: match is_mix {
                true => elapsed_ns.and_then(|elapsed_ns| observed.waiting_in_ns(step.name, elapsed_ns)),
                false => observed.waiting_ns(step, phase.workload.threads).filter(|_| is_alone(step)),
            },
            latency_ns: latency,
            histogram: latencies.encoded(),
        }
    };
    steps.iter().map(step).filter(|step| step.ops > 0).collect()
}

/// Returns the engine with what it did.
fn engine(
    context: &PhaseContext<'_>,
    phase: &PlannedPhase,
    measured: &PhaseTotals,
    collected: &Collector,
) -> EngineRecord {
    let workload = &phase.workload;
    // Buffered calls end when they are made, so no slot is kept waiting.
    let keeps_slots_full = workload.data().is_some_and(|data| data.direct) && workload.iodepth > 1;
    let mut features = vec![format!("clock={}", context.clock)];
    features.extend(paths(phase, context.plan.cache, context.target));
    features.extend(context.local_cpus.map(|cpus| format!("near_device_cpus={}", cpus.len())));
    features.extend(measured.features.iter().cloned());
    EngineRecord {
        name: phase.engine.word().into(),
        features,
        mean_batch: (collected.visits > 0).then(|| collected.ops as f64 / collected.visits as f64),
        idle_slots: (keeps_slots_full && measured.elapsed_ns > 0 && collected.visits > 0)
            .then(|| collected.idle_slots_ns as f64 / measured.elapsed_ns as f64),
    }
}

fn workload_record(
    context: &PhaseContext<'_>,
    phase: &PlannedPhase,
    measured: &PhaseTotals,
) -> WorkloadRecord {
    let workload = &phase.workload;
    // One measured part on files writes the more the longer it lasts. Its files stay as large as they are.
    let file_work = workload.files().filter(|_| workload.is_continuous());
    let size_bytes = file_work.map_or(measured.size_bytes, |files| files.space_bytes_max(workload.threads));
    WorkloadRecord {
        rate_ops_per_second: measured.rate_ops_per_second,
        ..WorkloadRecord::new(workload, size_bytes, measured.files, context.plan.cache)
    }
}

fn counts(context: &PhaseContext<'_>, measured: &PhaseTotals, collected: &Collector) -> Counts {
    Counts {
        start_ns: context.start_ns,
        ops: collected.ops,
        bytes: collected.bytes,
        app_bytes_read: collected.read_bytes,
        app_bytes_written: collected.written_bytes,
        elapsed_ns: measured.elapsed_ns,
        passes: measured.passes,
        verified_blocks: collected.verified,
        short_calls: collected.short_calls,
        direct_refused: measured.direct_refused,
        start_delay_ns: measured.start_delay_ns,
        write_limit_bytes: measured.write_limit_bytes,
    }
}

/// Returns the intervals in which this process ran, and those in which it did not.
fn running(
    context: &PhaseContext<'_>,
    phase: &PlannedPhase,
    measured: &PhaseTotals,
    collected: &Collector,
    observed: &PhaseSums,
    has_one_rate: bool,
) -> (Vec<Interval>, Vec<Interval>) {
    // Operations of an open loop were due in a pause, too, and the kernel writes back in it. Rounds have times of their own.
    let counts_pauses = phase.workload.data().is_none()
        || !has_one_rate
        || phase.workload.arrival() != Arrival::Closed
        || measured.times.cached_writes
        || collected.rounds.is_some();
    let pauses = observed.pauses.iter().filter(|_| !counts_pauses);
    let (running, mut paused) = without_pauses(collected.intervals(), pauses, context.clock_start_ns);
    // The time of the sync at the end counts.
    paused.retain(|interval| interval.start_ns < measured.times.last_done_ns);
    (running, paused)
}

/// Returns the latency of the part whose rate is the headline, and its histogram; `None` where it is not measured.
fn latency(
    context: &PhaseContext<'_>,
    phase: &PlannedPhase,
    collected: &Collector,
    state: Option<&SteadyState>,
    running: &[Interval],
    has_paused: bool,
) -> Option<(Latency, Option<String>)> {
    let is_readdir = matches!(&phase.workload.work, Work::Files(files) if files.verb == FileVerb::Readdir);
    let has_latency = collected.operations.count() > 0 && !is_readdir;
    let whole = collected.operations.latency().filter(|_| has_latency)?;
    // Of the same part as the rate; the extremes are of all operations.
    let intervals = state.map_or(running, |state| state.part(running));
    let operations = Distribution::from_intervals(intervals);
    let all_running = has_paused.then(|| Distribution::from_intervals(running).latency());
    let Latency { min, max, .. } = all_running.flatten().unwrap_or_else(|| whole.clone());
    let latency = Latency { min, max, ..operations.latency().unwrap_or(whole) };
    let latency = steady_state::with_intervals(latency, &operations.buckets(), intervals, context.seed);
    Some((latency, operations.encoded().or_else(|| collected.operations.encoded())))
}

/// Returns what the machine was seen to do, and where the data lies.
fn observations(
    context: &PhaseContext<'_>,
    phase: &PlannedPhase,
    measured: &mut PhaseTotals,
    collected: &Collector,
    observed: &PhaseSums,
) -> Observations {
    let (workload, target) = (&phase.workload, context.target);
    let data = workload.data();
    // Operations that never reach a device or a cache say nothing about either.
    let touches_files = data.is_none() || phase.engine.does_io();
    let has_places = has_places(workload, target);
    Observations {
        load: (touches_files && !observed.flows.is_empty()).then(|| Load {
            elapsed_ns: observed.measured_ns,
            ops: collected.ops,
            read_bytes: collected.read_bytes,
            written_bytes: collected.written_bytes,
            in_flight_max: workload.in_flight().into(),
            flows: observed.flows.clone(),
        }),
        device: observed.device(target, phase, collected).filter(|_| touches_files),
        page_cache_share: observed.page_cache_share(target, phase, collected).filter(|_| touches_files),
        budget: observed
            .budget(workload.threads as usize, data.map_or(measured.elapsed_ns, |_| observed.measured_ns)),
        cpu: observed.cpu(),
        system: (!phase.engine.has_virtual_clock()).then(|| SystemUse {
            left_out_ns: Some(measured.times.paused_ns).filter(|ns| *ns > 0),
            ..observed.system.clone()
        }),
        wait_channels: observed.wait_channels.clone(),
        residency: measured.residency.take(),
        extents: measured.extents.shares.take(),
        places: if has_places { measured.extents.places() } else { Vec::new() },
        latency_by_place: measured.latency_by_place.take().filter(|_| has_places),
        ..Observations::default()
    }
}

/// Returns the rates of a phase.
fn headline(
    workload: &Workload,
    measured: &PhaseTotals,
    collected: &Collector,
    state: Option<&SteadyState>,
) -> Rate {
    let block_bytes = workload.data().map(|data| data.block_bytes);
    let mut rate = rate(collected, &measured.times, block_bytes, state, &measured.rounds);
    if workload.files().is_some_and(|files| files.verb == FileVerb::Replay) {
        // In proportion to the operations, whose rate may be that of the steady part.
        let bytes = collected.read_bytes.saturating_add(collected.written_bytes);
        let per_op = bytes as f64 / collected.ops.max(1) as f64;
        rate.bytes_per_second = rate.ops_per_second.map(|ops| ops * per_op);
    }
    rate
}

/// Returns an id that is unique in the run. It contains the repetition, except for the first.
pub fn record_id(phase: &PlannedPhase, repetition: u32) -> String {
    if repetition > 1 { format!("{}#{repetition}", phase.id) } else { phase.id.clone() }
}

/// Times that rates are made from.
#[derive(Debug, Default)]
pub struct Times {
    /// Time without the sync at the end.
    pub work_ns: u64,
    /// Time with the sync; `None` if nothing was made durable.
    pub durable_ns: Option<u64>,
    /// Time until all files were closed; `None` unless the test ends with that.
    pub closed_ns: Option<u64>,
    /// True if writes went into the page cache first.
    pub cached_writes: bool,
    /// Time at which the first worker was done.
    pub first_done_ns: u64,
    /// Time at which the last worker was done, before the sync at the end.
    pub last_done_ns: u64,
    /// Time in which this process did not run, which no rate counts.
    pub paused_ns: u64,
    /// Operations of that time.
    pub paused_ops: u64,
}

/// A timed test that lacks more than this part of its shortest time, as a divisor, was cut short. The interval of any other
/// says how well its rate is known.
const CUT_SHARE: u64 = 5;

/// Totals that the outcomes of both kinds of phases share.
#[derive(Debug, Default)]
pub struct PhaseTotals {
    /// Delay of the last worker's begin after the instant that was given; `None` where none was given.
    pub start_delay_ns: Option<u64>,
    /// Elapsed time with the sync at the end.
    pub elapsed_ns: u64,
    /// End of the time axis of intervals.
    pub end_ns: u64,
    /// Number of visits of every block, or of rounds.
    pub passes: f64,
    /// Bytes that the test worked on.
    pub size_bytes: u64,
    /// Number of files that the test worked on.
    pub files: u64,
    /// Times that rates are made from.
    pub times: Times,
    /// Rate of an open loop.
    pub rate_ops_per_second: Option<f64>,
    /// Operations of an open loop that were due and never started.
    pub missed: u64,
    /// Decisions about the engine.
    pub features: Vec<String>,
    /// Features that the engine had to do without, each with the reason.
    pub missing_features: Vec<String>,
    /// True if a block that was read differs from the written data.
    pub is_damaged: bool,
    /// True if nothing could be compared, because an earlier test failed while it wrote.
    pub is_torn: bool,
    /// Operations that the test was to make; `u64::MAX` if time was to end it.
    pub requested_ops: u64,
    /// Rounds of a test on files.
    pub rounds: Vec<RoundRecord>,
    /// Share of the files in the page cache.
    pub residency: Option<Residency>,
    /// True if the file system refused `O_DIRECT`.
    pub direct_refused: bool,
    /// Extents under the files.
    pub extents: DataExtents,
    /// Latencies by place of the data.
    pub latency_by_place: Option<LatencyByPlace>,
    /// Operations that ended in another way than a load file says.
    pub unexpected: Option<Unexpected>,
    /// Bytes that it could write, if they ended it and the plan alone does not say so.
    pub write_limit_bytes: Option<u64>,
    /// Reason for an early end without a failure.
    pub cut_short: Option<String>,
    /// Failure that ended it early.
    pub failure: Option<UserError>,
}

impl PhaseTotals {
    /// Returns the totals of a phase in which nothing was measured.
    pub fn failed(failure: UserError) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    /// Returns how the phase ended, and why if it is not done.
    fn status(&self, is_interrupted: bool) -> (Status, Option<String>) {
        match (&self.failure, is_interrupted, &self.cut_short) {
            (Some(failure), false, _) => (Status::Failed, Some(failure.to_string())),
            (Some(failure), true, _) => (Status::Failed, Some(format!("interrupted, and {failure}"))),
            (None, true, _) => (Status::Partial, Some("interrupted".into())),
            (None, false, Some(reason)) => (Status::Partial, Some(reason.clone())),
            (None, false, None) => (Status::Done, None),
        }
    }

    /// Returns the totals of a test on data.
    pub fn from_data(data: &DataWork, outcome: DataOutcome, ops: u64) -> Self {
        let blocks = outcome.size_bytes.div_ceil(data.block_bytes).max(1);
        Self {
            start_delay_ns: outcome.start_delay_ns,
            elapsed_ns: outcome.synced_ns,
            end_ns: outcome.synced_ns,
            passes: ops as f64 / blocks as f64,
            size_bytes: outcome.size_bytes,
            files: outcome.files,
            times: Times {
                work_ns: outcome.last_done_ns,
                durable_ns: outcome.is_durable.then_some(outcome.synced_ns),
                closed_ns: (outcome.is_ended && !outcome.is_durable).then_some(outcome.synced_ns),
                cached_writes: data.writes() && !data.direct && data.syncs_at_end(),
                first_done_ns: outcome.first_done_ns,
                last_done_ns: outcome.last_done_ns,
                ..Times::default()
            },
            missed: outcome.missed,
            features: outcome.features,
            missing_features: outcome.missing_features,
            is_damaged: outcome.is_damaged,
            is_torn: outcome.is_torn,
            requested_ops: outcome.requested_ops,
            write_limit_bytes: outcome.write_limit_bytes,
            residency: outcome.residency,
            direct_refused: outcome.direct_refused,
            extents: outcome.extents,
            latency_by_place: outcome.latency_by_place,
            failure: outcome.failure,
            ..Self::default()
        }
    }

    /// Sets `cut_short` if the run's total time, and not the stop rule of the phase, ended it.
    #[must_use]
    pub fn with_cut_short(
        mut self,
        phase: &PlannedPhase,
        collected: &Collector,
        time_ns: u64,
        planned_ns: u64,
    ) -> Self {
        let (stop, lasted_ns) = (phase.stop, self.times.last_done_ns);
        let ran_out = lasted_ns >= time_ns;
        let is_counted = stop.time_ns.is_none() && self.requested_ops < u64::MAX;
        if ran_out && is_counted && collected.ops < self.requested_ops {
            self.cut_short = Some("the run's time limit was reached before all operations were done".into());
        } else if ran_out && stop.time_ns.is_some() && time_ns < planned_ns - planned_ns / CUT_SHARE {
            let seconds = |ns: u64| ns as f64 / 1e9;
            self.cut_short = Some(format!(
                "the run's time limit cut it to {:.1} s of {:.1} s",
                seconds(time_ns),
                seconds(planned_ns)
            ));
        }
        self
    }

    /// Returns the totals of a test on files.
    pub fn from_files(outcome: FileOutcome, drive: &RunningPhase<'_>) -> Self {
        Self {
            start_delay_ns: outcome.start_delay_ns,
            elapsed_ns: outcome.measured_ns,
            end_ns: outcome.last_done_ns,
            passes: outcome.rounds,
            size_bytes: drive.collected.written_bytes,
            files: outcome.files,
            times: Times {
                work_ns: outcome.measured_ns,
                first_done_ns: outcome.first_done_ns,
                last_done_ns: outcome.last_done_ns,
                ..Times::default()
            },
            rounds: outcome.each,
            missed: outcome.missed,
            unexpected: outcome.unexpected,
            write_limit_bytes: outcome.write_limit_bytes,
            cut_short: outcome.cut_short,
            failure: outcome.failure,
            ..Self::default()
        }
    }
}

/// Computes the rates. The headline of writes is as durable as the user asked. Everything else, and direct
/// writes, counts over the steady part if there is one, else over the whole time.
pub fn rate(
    collected: &Collector,
    times: &Times,
    block_bytes: Option<u64>,
    state: Option<&SteadyState>,
    rounds: &[RoundRecord],
) -> Rate {
    let ops = collected.ops.saturating_sub(times.paused_ops);
    let per_second = |ns: u64| {
        let ns = ns.saturating_sub(times.paused_ns);
        (ns > 0 && ops > 0).then(|| ops as f64 * 1e9 / ns as f64)
    };
    let whole = per_second(times.work_ns);
    let durable = times.durable_ns.and_then(per_second);
    let sync_ns = times.durable_ns.map_or(0, |durable_ns| durable_ns.saturating_sub(times.work_ns));
    let known = state.filter(|state| state.ops_per_second > 0.0);
    let steady = known.filter(|state| state.steady.is_steady);
    // In a phase too short to be called steady, a slope is still truer than a count over a time. It leaves
    // out the burst with which a limit begins.
    let sloped = steady.or(known.filter(|state| state.is_level));
    let headline = match (durable, sloped) {
        // Data that waits in memory was written at any time, and all of it must be counted with the sync.
        (Some(durable), _) if times.cached_writes => Some(durable),
        (Some(_), Some(state)) => Some(with_sync(state, sync_ns, collected.ops)),
        (Some(durable), None) => Some(durable),
        // Data that only reached the cache gives no rate of storage.
        (None, _) if times.cached_writes => times.closed_ns.and_then(per_second),
        (None, Some(state)) => Some(state.ops_per_second),
        (None, None) => whole,
    };
    let ci95 = match state {
        // Data that went into the cache at several rates came out at a different rate.
        Some(state) if times.cached_writes && !state.is_one_level() => None,
        Some(state) => headline.and_then(|headline| scaled(state, headline, sync_ns, times.work_ns)),
        None => steady_state::from_rounds(rounds),
    };
    Rate {
        ops_per_second: headline,
        bytes_per_second: headline.zip(block_bytes).map(|(ops, bytes)| ops * bytes as f64),
        steady_ops_per_second: steady.map(|state| state.ops_per_second),
        overall_ops_per_second: whole,
        durable_ops_per_second: durable,
        into_cache_ops_per_second: whole.filter(|_| times.cached_writes),
        // If little is known, the interval of a mean reaches below zero, where no rate is.
        ci95_low_ops_per_second: ci95.map(|(low, _)| low.max(0.0)),
        ci95_high_ops_per_second: ci95.map(|(_, high)| high),
        effective_samples: ci95.map(|_| {
            state.map_or_else(|| steady_state::independent_rounds(rounds), |state| state.independent)
        }),
        repeat_half_width: None,
        first_done_ns: times.first_done_ns,
        last_done_ns: times.last_done_ns,
    }
}

/// Returns the intervals in which this process ran, and the others. Pauses are on the clock of the workers, on which the phase
/// started at `start_ns`.
fn without_pauses<'a>(
    intervals: &[Interval],
    pauses: impl Iterator<Item = &'a Range<u64>> + Clone,
    start_ns: u64,
) -> (Vec<Interval>, Vec<Interval>) {
    let is_running = |interval: &Interval| {
        let from_ns = start_ns + interval.start_ns;
        pauses.clone().all(|pause| from_ns >= pause.end || from_ns + interval.length_ns <= pause.start)
    };
    intervals.iter().cloned().partition(is_running)
}

/// Returns the rate of the steady part with its share of the sync at the end, which made everything durable.
fn with_sync(state: &SteadyState, sync_ns: u64, ops: u64) -> f64 {
    let sync_ns_per_op = sync_ns as f64 / ops.max(1) as f64;
    1e9 / (1e9 / state.ops_per_second + sync_ns_per_op)
}

/// Largest share of the time that a sync at the end may take without changing the meaning of the rate before
/// it.
const SHORT_SYNC: f64 = 0.05;

/// Returns the interval of the headline. It is the slope's interval in the same proportion, widened by the
/// share of the sync at the end. There is only one sync, so a large share of it gives `None`.
fn scaled(state: &SteadyState, headline: f64, sync_ns: u64, work_ns: u64) -> Option<(f64, f64)> {
    let (low, high) = state.ci95?;
    let proportion = headline / state.ops_per_second;
    let share = sync_ns as f64 / (work_ns + sync_ns).max(1) as f64;
    let more = headline * share;
    (share <= SHORT_SYNC).then_some((low * proportion - more, high * proportion + more))
}

/// Returns true if the places of the data are known. Copy on write leaves the places that a test finds, and those of other
/// storage are not addresses of a device.
fn has_places(workload: &Workload, target: &Target) -> bool {
    let writes = workload.data().is_some_and(DataWork::writes);
    target.backing == Backing::Devices && !(writes && target.copies_on_write())
}

/// Returns the paths that operations take.
fn paths(phase: &PlannedPhase, cache: CacheMode, target: &Target) -> Vec<String> {
    match &phase.workload.work {
        Work::Data(_) if !phase.engine.needs_files() => Vec::new(),
        Work::Data(data) if data.verb == DataVerb::Discard => {
            let is_device = target.kind == TargetKind::Device;
            vec![if is_device { "blkdiscard" } else { "punch_hole" }.into()]
        }
        Work::Data(data) if data.direct => vec!["o_direct".into()],
        Work::Data(data) if data.reads() => vec!["page_cache".into(), format!("cache={cache}")],
        Work::Data(_) => vec!["page_cache".into()],
        Work::Files(files) => {
            let version = files.mix().map(|mix| format!("mix_version={}", mix.version));
            let own = files.mix().filter(|_| matches!(files.mix, NamedMix::File { .. }));
            let digest = own.map(|mix| format!("mix_digest={:016x}", mix.digest));
            let load = files.load().map(|load| {
                let name = files.load_file.short_name();
                [
                    format!("load={name}"),
                    format!("load_lines={}", load.lines),
                    format!("load_digest={:016x}", load.digest),
                ]
            });
            let of_file = version.into_iter().chain(digest).chain(load.into_iter().flatten());
            std::iter::once("directory_descriptors".into()).chain(of_file).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::run::{ChangePoint, Steady};

    #[test]
    fn rate_interval_is_clamped_at_zero() {
        let wide = SteadyState { ci95: Some((-900.0, 2_900.0)), ..state(1_000.0, 0) };
        let (collected, times) = times(false);
        let rate = rate(&collected, &Times { durable_ns: None, ..times }, None, Some(&wide), &[]);
        assert_eq!(rate.ci95_low_ops_per_second, Some(0.0));
        assert!(rate.ci95_high_ops_per_second > Some(2_000.0));
    }

    fn state(ops_per_second: f64, changes: usize) -> SteadyState {
        let point = ChangePoint { at_ns: 1, before_ops_per_second: 1.0, after_ops_per_second: 2.0, bytes: 0 };
        let steady = Steady { is_steady: true, from_ns: 0, to_ns: 1, change_points: vec![point; changes] };
        let ci95 = Some((ops_per_second * 0.99, ops_per_second * 1.01));
        SteadyState { steady, ops_per_second, ci95, independent: 30.0, is_level: false }
    }

    /// Returns ten seconds in which 10,000 operations ended, and a sync of half a second.
    fn times(cached_writes: bool) -> (Collector, Times) {
        let mut collected = Collector::new(Vec::new());
        collected.ops = 10_000;
        let times = Times {
            work_ns: 10_000_000_000,
            durable_ns: Some(10_500_000_000),
            cached_writes,
            ..Times::default()
        };
        (collected, times)
    }

    #[test]
    fn pause_of_process_is_no_part_of_rate() {
        let interval = |number: u64| Interval {
            start_ns: number * 100,
            length_ns: 100,
            ops: 5,
            bytes: 0,
            histogram: Vec::new(),
            frame: None,
        };
        let intervals: Vec<_> = (0..10).map(interval).collect();
        let (running, paused) = without_pauses(&intervals, std::iter::once(&(1250..1500)), 1000);
        let starts = |all: &[Interval]| all.iter().map(|interval| interval.start_ns).collect::<Vec<_>>();
        assert_eq!(starts(&paused), [200, 300, 400]);
        assert_eq!((running.len(), starts(&running)[2]), (7, 500));
        let (collected, times) = times(false);
        let times = Times { paused_ns: 2_000_000_000, paused_ops: 2_000, durable_ns: None, ..times };
        assert_eq!(rate(&collected, &times, None, None, &[]).overall_ops_per_second, Some(1000.0));
    }

    #[test]
    fn test_is_cut_short_only_below_80_percent_time() {
        let plan = crate::sum::tests::plan("read:rnd4k", 1);
        for (time_s, is_cut) in [(20, false), (16, false), (15, true)] {
            let time_ns = time_s * 1_000_000_000;
            let times = Times { last_done_ns: time_ns, ..Times::default() };
            let totals = PhaseTotals { times, ..PhaseTotals::default() };
            let totals =
                totals.with_cut_short(&plan.phases[0], &Collector::new(Vec::new()), time_ns, 20_000_000_000);
            assert_eq!(totals.cut_short.is_some(), is_cut, "{time_s} s");
        }
    }

    #[test]
    fn sync_time_is_charged_to_direct_writes() {
        let (collected, times) = times(false);
        let rate = rate(&collected, &times, Some(4096), Some(&state(1000.0, 1)), &[]);
        // All of the sync belongs to all operations.
        assert!((rate.ops_per_second.unwrap() - 10_000.0 / 10.5).abs() < 1e-6, "{rate:?}");
        let (low, high) = (rate.ci95_low_ops_per_second.unwrap(), rate.ci95_high_ops_per_second.unwrap());
        // There is only one sync, so its share is uncertain.
        assert!((high - low) / 2.0 > 0.047 * 952.0, "{low} {high}");
    }

    #[test]
    fn buffered_write_rate_includes_the_sync_time() {
        let (collected, times) = times(true);
        for changes in [0, 1] {
            let rate = rate(&collected, &times, Some(4096), Some(&state(3000.0, changes)), &[]);
            assert!((rate.ops_per_second.unwrap() - 10_000.0 / 10.5).abs() < 1e-6);
            assert_eq!(rate.into_cache_ops_per_second, Some(1000.0));
            assert_eq!(rate.ci95_low_ops_per_second.is_some(), changes == 0);
        }
    }

    #[test]
    fn unsteady_rate_is_the_mean_over_the_whole_test() {
        let (collected, times) = times(false);
        let times = Times { durable_ns: None, ..times };
        let drifting =
            SteadyState { steady: Steady { is_steady: false, ..state(1.0, 0).steady }, ..state(900.0, 0) };
        assert_eq!(rate(&collected, &times, None, Some(&drifting), &[]).ops_per_second, Some(1000.0));
        let short = SteadyState { is_level: true, ..drifting };
        assert_eq!(rate(&collected, &times, None, Some(&short), &[]).ops_per_second, Some(900.0));
        assert_eq!(rate(&collected, &times, None, None, &[]).ci95_low_ops_per_second, None);
    }
}
