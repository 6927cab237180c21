//! Sum of a test that several clients made together.
//!
//! The headline of tests on data is the rate over the time in which every client worked. That time ends when the first
//! client is done; IOR and mdtest call it the stonewall. Where a steady part lies within that time, the headline is the
//! slope over it. Writes with a sync at the end, and writes into a cache, count until the last client is done. Nobody
//! knows when such a byte was written.
//!
//! Tests on files go in rounds that all clients begin together. Each round counts until its first client is done; the
//! rate of a client is taken as even within a round.

use engine::data::mix;
use engine::recorder::INTERVAL_NS;
use model::frames::Measured;
use model::plan::{Plan, PlannedPhase};
use model::run::{
    Budget, Cap, ClientShare, Counts, EngineRecord, Figures, INTERVALS_MAX, Interval, Judged, Latency,
    PhaseRecord, Rate, RoundRecord, Seen, Status, Step, SystemUse, Together, WorkloadRecord, machine_of,
};

use crate::collect::{Collected, Distribution};
use crate::record::{self, Times, untried};
use crate::steady_state::{self, SteadyState};

/// Longest time between the begins of two clients: three centuries, so that no sum of times goes beyond 64 bits.
const SHIFT_NS_MAX: u64 = 1_000_000_000_000_000_000;

/// One client's part of a test.
pub struct Part<'a> {
    /// Number of the client.
    pub client: u32,
    /// Name of the client.
    pub name: &'a str,
    /// Its own measurements.
    pub measured: &'a Measured,
    /// Start of its time axis, on the coordinator's clock.
    pub start_ns: u64,
}

/// Returns the buckets of a distribution that a record holds as text: the upper end of each, and its count.
pub fn buckets(histogram: Option<&str>) -> Vec<(u64, u64)> {
    histogram.and_then(Distribution::decoded).map_or_else(Vec::new, |found| found.buckets())
}

/// Returns the record of a test that clients made together; `begun_ns` is the start of the run on the coordinator's
/// clock. Clients that were lost have no part.
pub fn sum(
    plan: &Plan,
    phase: &PlannedPhase,
    repetition: u32,
    parts: &[Part<'_>],
    begun_ns: u64,
) -> PhaseRecord {
    let planned = plan.clients_of(phase).unwrap_or(parts.len() as u32);
    let (status, reason) = ended(parts, planned);
    let untried = untried(phase, repetition, status, "");
    let Some(first) = parts.first() else { return PhaseRecord { reason, ..untried } };
    let first_ns = parts.iter().map(|part| part.start_ns).min().unwrap_or(0);
    let axis = Axis { parts, first_ns };
    let mut counts = counts(parts);
    counts.start_ns = first_ns.saturating_sub(begun_ns);
    let figures = match phase.workload.data() {
        Some(data) => axis.of_data(&mut counts, data.block_bytes, plan),
        None => axis.of_files(&mut counts),
    };
    let figures =
        Figures { together: Some(axis.together(&figures, planned)), steps: steps(parts), ..figures };
    let records = || parts.iter().map(|part| &part.measured.record);
    let total = |of: fn(&WorkloadRecord) -> u64| {
        records().map(|record| of(&record.workload)).fold(0, u64::saturating_add)
    };
    let mut features: Vec<String> = Vec::new();
    for feature in records().flat_map(|record| &record.engine.features) {
        if !features.contains(feature) {
            features.push(feature.clone());
        }
    }
    let label = match (parts.len() as u32, planned) {
        (there, planned) if there < planned => format!("{} ×{there} of {planned}", phase.workload.label()),
        _ => plan.label_of(phase),
    };
    let own = &first.measured.record;
    PhaseRecord {
        label,
        workload: WorkloadRecord {
            size_bytes: total(|workload| workload.size_bytes),
            files: total(|workload| workload.files),
            rate_ops_per_second: all(records().map(|record| record.workload.rate_ops_per_second))
                .map(|rates| rates.iter().sum()),
            ..own.workload.clone()
        },
        engine: EngineRecord { features, mean_batch: None, idle_slots: None, ..own.engine.clone() },
        reason,
        hosts: parts.iter().map(Part::share).collect(),
        counts,
        figures,
        seen: seen(parts),
        judged: Judged { notes: notes(parts), ..Judged::default() },
        ..untried
    }
}

/// Returns all values; `None` if one is not known.
fn all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    values.collect()
}

/// Returns how the test ended: as badly as on the client where it ended worst.
fn ended(parts: &[Part<'_>], planned: u32) -> (Status, Option<String>) {
    let records = || parts.iter().map(|part| (part.name, &part.measured.record));
    let is = |status: Status| records().any(|(_, record)| record.status == status);
    let status = match () {
        () if is(Status::Failed) => Status::Failed,
        () if is(Status::Partial) || is(Status::Skipped) => Status::Partial,
        () if parts.is_empty() => Status::Failed,
        () => Status::Done,
    };
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, record) in records() {
        let Some(reason) = record.reason.as_ref() else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason.clone(), vec![name])),
        }
    }
    let told = |(reason, names): &(String, Vec<&str>)| match names.len() {
        count if count == parts.len() => reason.clone(),
        1..=3 => format!("{}: {reason}", names.join(", ")),
        count => format!("{} and {} more: {reason}", names[0], count - 1),
    };
    let told: Vec<_> = reasons.iter().map(told).collect();
    match (told.is_empty(), parts.is_empty()) {
        (false, _) => (status, Some(told.join("; "))),
        (true, true) => (status, Some(format!("none of {planned} clients has measured it"))),
        (true, false) => (status, None),
    }
}

fn counts(parts: &[Part<'_>]) -> Counts {
    let records = || parts.iter().map(|part| &part.measured.record.counts);
    let total = |of: fn(&Counts) -> u64| records().map(of).fold(0, u64::saturating_add);
    Counts {
        ops: total(|counts| counts.ops),
        bytes: total(|counts| counts.bytes),
        app_bytes_read: total(|counts| counts.app_bytes_read),
        app_bytes_written: total(|counts| counts.app_bytes_written),
        passes: records().map(|counts| counts.passes).sum::<f64>() / parts.len() as f64,
        verified_blocks: total(|counts| counts.verified_blocks),
        start_late_ns: records().filter_map(|counts| counts.start_late_ns).max(),
        ..Counts::default()
    }
}

/// Returns the notes that only the runs of the clients could make, each code once.
fn notes(parts: &[Part<'_>]) -> Vec<model::run::Note> {
    let mut notes: Vec<model::run::Note> = Vec::new();
    for note in parts.iter().flat_map(|part| &part.measured.record.judged.notes) {
        if notes.iter().all(|known| known.code != note.code) {
            notes.push(note.clone());
        }
    }
    notes
}

/// Returns observations of the one machine on which all clients ran. They are its CPUs, the use of the clients' time on
/// average, other processes, and the limits that hold all clients together. Counters of several machines do not add up.
fn seen(parts: &[Part<'_>]) -> Seen {
    let Some(first) = parts.first() else { return Seen::default() };
    if parts.iter().any(|part| machine_of(part.name) != machine_of(first.name)) {
        return Seen::default();
    }
    let seen = || parts.iter().map(|part| &part.measured.record.seen);
    let system = all(seen().map(|seen| seen.system.as_ref())).and_then(|systems| {
        let first = *systems.first()?;
        let is_shared = |cap: &&Cap| systems.iter().all(|system| system.caps.contains(cap));
        Some(SystemUse {
            caps: first.caps.iter().filter(is_shared).cloned().collect(),
            helpers: first.helpers.clone(),
            ..SystemUse::default()
        })
    });
    let budgets = all(seen().map(|seen| seen.budget.as_ref()));
    Seen {
        cpu: first.measured.record.seen.cpu.clone(),
        budget: budgets.map(|budgets| {
            let mean = |of: fn(&Budget) -> f64| {
                budgets.iter().map(|budget| of(budget)).sum::<f64>() / budgets.len() as f64
            };
            Budget {
                user: mean(|budget| budget.user),
                kernel: mean(|budget| budget.kernel),
                run_queue: mean(|budget| budget.run_queue),
                quota: first.measured.record.seen.budget.as_ref().and_then(|budget| budget.quota),
                steal: mean(|budget| budget.steal),
                blocked: mean(|budget| budget.blocked),
            }
        }),
        system,
        ..Seen::default()
    }
}

/// Returns the steps of all clients, each with the latencies of all.
fn steps(parts: &[Part<'_>]) -> Vec<Step> {
    let mut sums: Vec<(Step, Distribution)> = Vec::new();
    for part in parts {
        for (step, buckets) in part.measured.record.figures.steps.iter().zip(&part.measured.steps) {
            let index = sums.iter().position(|(known, _)| known.name == step.name);
            let index = index.unwrap_or_else(|| {
                let empty = Step {
                    name: step.name.clone(),
                    ops: 0,
                    latency_ns: None,
                    elapsed_ns: Some(0),
                    waiting_ns: Some(0),
                    histogram: None,
                };
                sums.push((empty, Distribution::default()));
                sums.len() - 1
            });
            let (sum, latencies) = &mut sums[index];
            let added = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
            sum.ops = sum.ops.saturating_add(step.ops);
            sum.elapsed_ns = added(sum.elapsed_ns, step.elapsed_ns);
            sum.waiting_ns = added(sum.waiting_ns, step.waiting_ns);
            buckets.iter().for_each(|(upper_ns, count)| latencies.add(*upper_ns, *count));
        }
    }
    let whole = |(step, latencies): (Step, Distribution)| Step {
        latency_ns: latencies.latency(),
        histogram: latencies.encoded(),
        ..step
    };
    sums.into_iter().map(whole).collect()
}

impl Part<'_> {
    fn share(&self) -> ClientShare {
        let record = &self.measured.record;
        ClientShare {
            client: self.client,
            name: self.name.to_owned(),
            status: record.status,
            reason: record.reason.clone(),
            counts: record.counts.clone(),
            rate: record.figures.rate.clone(),
            latency_ns: record.figures.latency_ns.clone(),
            histogram: record.figures.histogram.clone(),
            budget: record.seen.budget.clone(),
            cpu: record.seen.cpu.clone(),
            judged: record.judged.clone(),
        }
    }

    fn rate(&self) -> &Rate {
        &self.measured.record.figures.rate
    }
}

/// The clients of a test on one time axis, which begins with the first of them.
struct Axis<'a> {
    parts: &'a [Part<'a>],
    first_ns: u64,
}

impl Axis<'_> {
    fn shift_ns(&self, part: &Part<'_>) -> u64 {
        part.start_ns.saturating_sub(self.first_ns).min(SHIFT_NS_MAX)
    }

    /// Returns the latest of some instant of each client.
    fn last(&self, of: impl Fn(&Part<'_>) -> u64) -> u64 {
        self.parts.iter().map(|part| self.shift_ns(part).saturating_add(of(part))).max().unwrap_or(0)
    }

    /// Returns the time in which every client worked, as its start and end.
    fn window(&self) -> (u64, u64) {
        let start = self.parts.iter().map(|part| self.shift_ns(part)).max().unwrap_or(0);
        let done = |part: &Part<'_>| self.shift_ns(part).saturating_add(part.rate().first_done_ns);
        let end = self.parts.iter().map(done).min().unwrap_or(0);
        (start, end.max(start))
    }

    fn collected(&self) -> Collected {
        let intervals = || self.parts.iter().flat_map(|part| &part.measured.record.figures.intervals);
        let longest_ns = intervals().map(|interval| interval.length_ns).max().unwrap_or(INTERVAL_NS);
        let mut collected = Collected::of_others(longest_ns);
        for part in self.parts {
            let shift_ns = self.shift_ns(part);
            let intervals = part.measured.record.figures.intervals.iter().take(INTERVALS_MAX);
            intervals.for_each(|interval| collected.add_interval(interval, shift_ns));
        }
        for (upper_ns, count) in self.parts.iter().flat_map(|part| &part.measured.latencies) {
            collected.operations.add(*upper_ns, *count);
        }
        collected
    }

    /// Returns the operations of all clients within a time. Those of an interval at its edge count by their share.
    fn ops_within(&self, (start_ns, end_ns): (u64, u64)) -> f64 {
        let of_part = |part: &Part<'_>| {
            let shift_ns = self.shift_ns(part);
            let share = |interval: &Interval| {
                let from = shift_ns.saturating_add(interval.start_ns);
                let to = from.saturating_add(interval.length_ns);
                let inside = to.min(end_ns).saturating_sub(from.max(start_ns));
                interval.ops as f64 * inside as f64 / interval.length_ns.max(1) as f64
            };
            part.measured.record.figures.intervals.iter().map(share).sum::<f64>()
        };
        self.parts.iter().map(of_part).sum()
    }

    fn of_data(&self, counts: &mut Counts, block_bytes: u64, plan: &Plan) -> Figures {
        let mut collected = self.collected();
        collected.ops = counts.ops;
        counts.elapsed_ns = self.last(|part| part.measured.record.counts.elapsed_ns);
        let window = self.window();
        let rates = || self.parts.iter().map(Part::rate);
        let is_durable = rates().all(|rate| rate.durable_ops_per_second.is_some());
        let cached_writes = rates().any(|rate| rate.into_cache_ops_per_second.is_some());
        let is_closed = cached_writes && rates().all(|rate| rate.ops_per_second.is_some());
        let last_done_ns = self.last(|part| part.rate().last_done_ns);
        let times = Times {
            work_ns: last_done_ns,
            durable_ns: is_durable.then_some(counts.elapsed_ns),
            closed_ns: (is_closed && !is_durable).then_some(counts.elapsed_ns),
            cached_writes,
            first_done_ns: window.1,
            last_done_ns,
        };
        let course = SteadyState::of(collected.intervals(), times.first_done_ns);
        let mut rate = record::rate(&collected, &times, Some(block_bytes), course.as_ref(), &[]);
        let has_slope = course.as_ref().is_some_and(|course| course.steady.found || course.is_level);
        if !has_slope && !is_durable && !cached_writes {
            let ops = self.window_rate(window);
            rate.ops_per_second = ops.or(rate.ops_per_second);
            rate.bytes_per_second = rate.ops_per_second.map(|ops| ops * block_bytes as f64);
        }
        let latency = self.latency(&collected, course.as_ref(), plan);
        Figures {
            rate,
            latency_ns: latency,
            histogram: collected.operations.encoded(),
            steady: course.map(|course| course.steady),
            intervals: collected.into_intervals(counts.elapsed_ns),
            ..Figures::default()
        }
    }

    fn latency(&self, collected: &Collected, course: Option<&SteadyState>, plan: &Plan) -> Option<Latency> {
        let own = || self.parts.iter().filter_map(|part| part.measured.record.figures.latency_ns.as_ref());
        let (min, max) = (own().map(|one| one.min).min()?, own().map(|one| one.max).max()?);
        let latency = Latency { min, max, ..collected.operations.latency()? };
        let intervals = course.map_or(collected.intervals(), |course| course.part(collected.intervals()));
        let seed = mix(plan.seed.unwrap_or(1));
        Some(steady_state::with_intervals(latency, &collected.operations.buckets(), intervals, seed))
    }

    fn window_rate(&self, window: (u64, u64)) -> Option<f64> {
        let length_ns = window.1 - window.0;
        let ops = self.ops_within(window);
        (length_ns > 0 && ops > 0.0).then(|| ops * 1e9 / length_ns as f64)
    }

    fn of_files(&self, counts: &mut Counts) -> Figures {
        let collected = self.collected();
        let rounds = Rounds::of(self.parts);
        counts.elapsed_ns = rounds.each.iter().map(|round| round.elapsed_ns).fold(0, u64::saturating_add);
        let whole = per_second(counts.ops as f64, counts.elapsed_ns);
        let headline = per_second(rounds.window_ops, rounds.window_ns);
        let proportion = headline.zip(whole).map_or(1.0, |(headline, whole)| headline / whole);
        let ci95 = steady_state::of_rounds(&rounds.each);
        let first_done = |part: &Part<'_>| self.shift_ns(part).saturating_add(part.rate().first_done_ns);
        let rate = Rate {
            ops_per_second: headline,
            whole_ops_per_second: whole,
            ci95_low_ops_per_second: ci95.map(|(low, _)| low * proportion),
            ci95_high_ops_per_second: ci95.map(|(_, high)| high * proportion),
            independent_parts: ci95.map(|_| steady_state::independent_rounds(&rounds.each)),
            first_done_ns: self.parts.iter().map(first_done).min().unwrap_or(0),
            last_done_ns: self.last(|part| part.rate().last_done_ns),
            ..Rate::default()
        };
        let own = || self.parts.iter().filter_map(|part| part.measured.record.figures.latency_ns.as_ref());
        let latency = own().map(|one| one.min).min().zip(own().map(|one| one.max).max());
        let latency =
            latency.and_then(|(min, max)| Some(Latency { min, max, ..collected.operations.latency()? }));
        let end_ns = rate.last_done_ns;
        Figures {
            rate,
            histogram: latency.as_ref().and_then(|_| collected.operations.encoded()),
            latency_ns: latency,
            rounds: rounds.each,
            intervals: collected.into_intervals(end_ns),
            ..Figures::default()
        }
    }

    fn together(&self, figures: &Figures, planned: u32) -> Together {
        let (start_ns, end_ns) = self.window();
        let is_of_files = !figures.rounds.is_empty();
        let rounds = Rounds::of(self.parts);
        let window_ns = if is_of_files { rounds.window_ns } else { end_ns - start_ns };
        let window_rate = match is_of_files {
            true => per_second(rounds.window_ops, rounds.window_ns),
            false => self.window_rate((start_ns, end_ns)),
        };
        let mut rates: Vec<_> =
            self.parts.iter().filter_map(|part| Some((part.rate().ops_per_second?, part.name))).collect();
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        let late = || self.parts.iter().filter_map(|part| part.measured.record.counts.start_late_ns);
        let values: Vec<_> = rates.iter().map(|(rate, _)| *rate).collect();
        let named =
            |rate: Option<&(f64, &str)>| (rate.map(|rate| rate.0), rate.map(|rate| rate.1.to_owned()));
        let (slowest_ops_per_second, slowest) = named(rates.first());
        let (fastest_ops_per_second, fastest) = named(rates.last());
        Together {
            clients: self.parts.len() as u32,
            clients_planned: planned,
            window_ns,
            window_ops_per_second: window_rate,
            last_ops_per_second: figures.rate.durable_ops_per_second.or(figures.rate.whole_ops_per_second),
            slowest_ops_per_second,
            slowest,
            median_ops_per_second: median(&values),
            fastest_ops_per_second,
            fastest,
            spread: spread(&values),
            fewer: None,
            start_skew_ns: late().max().zip(late().min()).map(|(most, least)| most - least),
        }
    }
}

/// Rounds that all clients began together.
#[derive(Default)]
struct Rounds {
    /// Operations of all clients, and the time until the last was done.
    each: Vec<RoundRecord>,
    /// Operations until the first client was done.
    window_ops: f64,
    /// Time until then.
    window_ns: u64,
}

impl Rounds {
    fn of(parts: &[Part<'_>]) -> Self {
        let mut all = Self::default();
        let of = |part: &Part<'_>, index: usize| part.measured.record.figures.rounds.get(index).cloned();
        for index in 0..INTERVALS_MAX {
            // The last round of a client that ended early has no partner.
            let Some(rounds) = self::all(parts.iter().map(|part| of(part, index))) else { break };
            let window_ns = rounds.iter().map(|round| round.elapsed_ns).min().unwrap_or(0);
            let share =
                |round: &RoundRecord| round.ops as f64 * window_ns as f64 / round.elapsed_ns.max(1) as f64;
            all.window_ops += rounds.iter().map(share).sum::<f64>();
            all.window_ns = all.window_ns.saturating_add(window_ns);
            all.each.push(RoundRecord {
                ops: rounds.iter().map(|round| round.ops).fold(0, u64::saturating_add),
                elapsed_ns: rounds.iter().map(|round| round.elapsed_ns).max().unwrap_or(0),
            });
        }
        all
    }
}

fn per_second(ops: f64, time_ns: u64) -> Option<f64> {
    (time_ns > 0 && ops > 0.0).then(|| ops * 1e9 / time_ns as f64)
}

/// Returns the median of values in ascending order.
fn median(values: &[f64]) -> Option<f64> {
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0),
        _ => values.get(middle).copied(),
    }
}

/// Returns the standard deviation of values as a share of their mean; `None` for less than two.
fn spread(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1 && mean > 0.0).then(|| (squares / (count - 1.0)).sqrt() / mean)
}

#[cfg(test)]
mod tests;
