//! Sum of a test that several clients made together.
//!
//! The headline of tests on data is the rate over the time in which every client worked. That time ends when the first
//! client is done; IOR and mdtest call it the stonewall. Where a steady part is within that time, the headline is the
//! slope over it. Writes with a sync at the end, and writes into a cache, count until the last client is done. The time
//! at which such a byte was written is unknown.
//!
//! Tests on files go in rounds that all clients begin together. Each round counts from the last start until its first client is
//! done; the rate of a client is taken as even within a round. If these times are less than a tenth of all, each round
//! counts until its last client is done.
//!
//! Every sum names all fields of a record: a new one compiles only with a decision about its sum.

use std::collections::HashMap;

use engine::data::mix;
use model::figure::Count;
use model::finding::Finding;
use model::frames::Measured;
use model::numbers::rank;
use model::plan::{Plan, PlannedPhase};
use model::run::{
    Cap, ClientShare, ClientTotals, Counts, DeviceUse, EngineRecord, Figures, INTERVALS_MAX, Interval,
    Judgement, Latency, Note, Observations, PhaseRecord, Rate, RoundRecord, Status, Step, SystemUse,
    TimeBreakdown, WaitChannel, WorkloadRecord, machine_of,
};

use crate::collect::{self, Collector, Distribution};
use crate::notes;
use crate::record::{self, Times, untried};
use crate::steady_state::{self, SteadyState};

/// Longest time between the begins of two clients: three centuries, so that no sum of times goes beyond 64 bits.
const SHIFT_NS_MAX: u64 = 1_000_000_000_000_000_000;

/// Most intervals that are kept of all clients together, for their own verdicts.
const KEPT_MAX: usize = 20_000;
/// Fewest of each client.
const KEPT_EACH_MIN: usize = 10;
/// Share of the rounds' time, as a divisor, below which the common time of all clients is too short for a rate.
const WINDOW_DIVISOR: u64 = 10;

/// Measurements of a test's clients, summed up as they arrive. Input that only the sum needs is not kept.
pub struct ClientAggregate {
    /// Begin of the sum's time axis, on the coordinator's clock.
    origin_ns: u64,
    clients: usize,
    /// Intervals and latencies of all clients.
    collected: Collector,
    /// Steps of all clients, each with the latencies of all.
    steps: Vec<(Step, Distribution)>,
    parts: Vec<Part>,
}

/// One client's part of a test.
pub struct Part {
    /// Number of the client.
    pub client: u32,
    /// Name of the client.
    pub name: String,
    /// Its own measurements, without the latencies, and with as many intervals as its own verdict needs.
    pub measured: Measured,
    /// Start of its time axis, on the coordinator's clock.
    start_ns: u64,
    rate_history: RateHistory,
}

/// Operations of a client in intervals of one length. The last one ends with the test.
struct RateHistory {
    length_ns: u64,
    end_ns: u64,
    ops: Vec<u64>,
}

impl RateHistory {
    fn new(intervals: &[Interval]) -> Self {
        let length_ns = intervals.iter().map(|interval| interval.length_ns).max().unwrap_or(1).max(1);
        let ends = intervals.iter().map(|interval| interval.start_ns.saturating_add(interval.length_ns));
        Self {
            length_ns,
            end_ns: ends.max().unwrap_or(0),
            ops: intervals.iter().map(|interval| interval.ops).collect(),
        }
    }

    /// Returns the operations within a time. Those of an interval at its edge count by their share.
    fn ops_within(&self, start_ns: u64, end_ns: u64) -> f64 {
        let share = |(index, ops): (usize, &u64)| {
            let from = self.length_ns.saturating_mul(index as u64);
            let to = from.saturating_add(self.length_ns).min(self.end_ns);
            let inside = to.min(end_ns).saturating_sub(from.max(start_ns));
            *ops as f64 * inside as f64 / to.saturating_sub(from).max(1) as f64
        };
        self.ops.iter().enumerate().map(share).sum()
    }
}

/// Returns the buckets of a distribution that a record holds as text: the upper end of each, and its count.
pub fn buckets(histogram: Option<&str>) -> Vec<(u64, u64)> {
    histogram.and_then(Distribution::decoded).map_or_else(Vec::new, |found| found.buckets())
}

impl ClientAggregate {
    /// Prepares the sum of a test that begins at `origin_ns` on the coordinator's clock, by that many clients.
    pub fn new(origin_ns: u64, clients: usize) -> Self {
        Self {
            origin_ns,
            clients,
            collected: Collector::new(Vec::new()),
            steps: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Adds a client's measurements; `start_ns` is the start of its time axis on the coordinator's clock.
    pub fn add(&mut self, client: u32, name: &str, mut measured: Measured, start_ns: u64) {
        let shift_ns = self.shift_ns(start_ns);
        let mut intervals = std::mem::take(&mut measured.record.figures.intervals);
        intervals.truncate(INTERVALS_MAX);
        intervals.iter().for_each(|interval| self.collected.add_interval(interval, shift_ns));
        for (upper_ns, count) in std::mem::take(&mut measured.latencies) {
            self.collected.operations.add(upper_ns, count);
        }
        self.add_steps(&measured.record.figures.steps, std::mem::take(&mut measured.steps));
        let rate_history = RateHistory::new(&intervals);
        let kept = (KEPT_MAX / self.clients.max(1)).max(KEPT_EACH_MIN);
        measured.record.figures.intervals = collect::merged_to(intervals, kept);
        self.parts.push(Part { client, name: name.to_owned(), measured, start_ns, rate_history });
    }

    fn add_steps(&mut self, steps: &[Step], latencies: Vec<Vec<(u64, u64)>>) {
        for (step, buckets) in steps.iter().zip(latencies) {
            let index = self.steps.iter().position(|(known, _)| known.name == step.name);
            let index = index.unwrap_or_else(|| {
                let empty = Step {
                    name: step.name.clone(),
                    ops: 0,
                    latency_ns: None,
                    elapsed_ns: Some(0),
                    waiting_ns: Some(0),
                    histogram: None,
                };
                self.steps.push((empty, Distribution::default()));
                self.steps.len() - 1
            });
            let (sum, latencies) = &mut self.steps[index];
            let added = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
            sum.ops = sum.ops.saturating_add(step.ops);
            sum.elapsed_ns = added(sum.elapsed_ns, step.elapsed_ns);
            sum.waiting_ns = added(sum.waiting_ns, step.waiting_ns);
            buckets.iter().for_each(|(upper_ns, count)| latencies.add(*upper_ns, *count));
        }
    }

    /// Returns the parts so far.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the record of the test, and the parts in the order of the clients. Lost clients have none.
    /// `run_start_ns` is the start of the run on the coordinator's clock.
    pub fn sum(
        mut self,
        plan: &Plan,
        phase: &PlannedPhase,
        repetition: u32,
        run_start_ns: u64,
    ) -> (PhaseRecord, Vec<Part>) {
        self.parts.sort_by_cached_key(|part| u64::from(part.client));
        self.share_watch();
        let parts = &self.parts;
        let planned = plan.clients_of(phase).unwrap_or(parts.len() as u32);
        let (status, reason) = combined_status(parts, planned);
        let untried = untried(phase, repetition, status, "");
        let Some(first) = parts.first() else { return (PhaseRecord { reason, ..untried }, self.parts) };
        let PhaseRecord { id, spec, name, handle, group, .. } = untried;
        let mut counts = counts(parts);
        counts.start_ns = self.origin_ns.saturating_sub(run_start_ns);
        let collected = std::mem::take(&mut self.collected);
        let block_bytes = phase.workload.data().map(|data| data.block_bytes);
        let figures = match phase.workload.is_continuous() {
            true => self.sum_single_part(collected, &mut counts, block_bytes, plan),
            false => self.sum_files(collected, &mut counts),
        };
        let steps = std::mem::take(&mut self.steps).into_iter().map(whole_step).collect();
        let figures = Figures { together: Some(self.totals(&figures, planned)), steps, ..figures };
        let label = match (parts.len() as u32, planned) {
            (there, planned) if there < planned => {
                format!("{} ×{there} of {planned}", phase.workload.label())
            }
            _ => plan.label_of(phase),
        };
        let notes = notes_of(parts, counts.ops);
        let record = PhaseRecord {
            id,
            spec,
            name,
            label,
            handle,
            group,
            repetition,
            workload: workload(&first.measured.record.workload, parts),
            engine: engine(&first.measured.record.engine, parts),
            status,
            reason,
            hosts: parts.iter().map(Part::share).collect(),
            counts,
            figures,
            seen: combined_observations(parts),
            // Both are judged after the sum.
            judged: Judgement { notes, sensitivity: None, verdict: None },
        };
        (record, self.parts)
    }

    /// Gives all clients of a machine the processes and conditions that the first of them has seen there.
    fn share_watch(&mut self) {
        let mut seen = HashMap::new();
        for part in &mut self.parts {
            let own = &mut part.measured.record.seen;
            let first = seen.entry(machine_of(&part.name)).or_insert_with(|| {
                let helpers = own.system.as_ref().map(|system| system.helpers.clone());
                (helpers.unwrap_or_default(), own.conditions.clone())
            });
            if let Some(system) = &mut own.system {
                system.helpers.clone_from(&first.0);
            }
            own.conditions.clone_from(&first.1);
        }
    }
}

fn whole_step((step, latencies): (Step, Distribution)) -> Step {
    Step { latency_ns: latencies.latency(), histogram: latencies.encoded(), ..step }
}

/// Returns the test of all clients together: that of the first on the data of all.
fn workload(first: &WorkloadRecord, parts: &[Part]) -> WorkloadRecord {
    let records = || parts.iter().map(|part| &part.measured.record.workload);
    let total = |of: fn(&WorkloadRecord) -> u64| records().map(of).fold(0, u64::saturating_add);
    let mut sum = first.clone();
    let WorkloadRecord {
        size_bytes,
        files,
        rate_ops_per_second,
        // These are the same on all clients.
        verb: _,
        pattern: _,
        block_bytes: _,
        iodepth: _,
        threads: _,
        direct: _,
        sync: _,
        order: _,
        arrival: _,
        compress_percent: _,
        dedupe_percent: _,
        cache: _,
    } = &mut sum;
    *size_bytes = total(|workload| workload.size_bytes);
    *files = total(|workload| workload.files);
    *rate_ops_per_second =
        all(records().map(|workload| workload.rate_ops_per_second)).map(|rates| rates.iter().sum());
    sum
}

/// Returns the engine of the first client, with the features of all. Means over its visits and its threads have no sum.
fn engine(first: &EngineRecord, parts: &[Part]) -> EngineRecord {
    let mut features: Vec<String> = Vec::new();
    for feature in parts.iter().flat_map(|part| &part.measured.record.engine.features) {
        if !features.contains(feature) {
            features.push(feature.clone());
        }
    }
    EngineRecord { name: first.name.clone(), features, mean_batch: None, idle_slots: None }
}

/// Returns all values; `None` if one is not known.
fn all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    values.collect()
}

/// Returns how the test ended: as badly as on the client where it ended worst.
fn combined_status(parts: &[Part], planned: u32) -> (Status, Option<String>) {
    let records = || parts.iter().map(|part| (part.name.as_str(), &part.measured.record));
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
    let texts = |(reason, names): &(String, Vec<&str>)| match names.len() {
        count if count == parts.len() => reason.clone(),
        1..=3 => format!("{}: {reason}", names.join(", ")),
        count => format!("{} and {} more: {reason}", names[0], count - 1),
    };
    let texts: Vec<_> = reasons.iter().map(texts).collect();
    match (texts.is_empty(), parts.is_empty()) {
        (false, _) => (status, Some(texts.join("; "))),
        (true, true) => (status, Some(format!("none of the {planned} clients measured it"))),
        (true, false) => (status, None),
    }
}

fn counts(parts: &[Part]) -> Counts {
    let records = || parts.iter().map(|part| &part.measured.record.counts);
    let total = |of: fn(&Counts) -> u64| records().map(of).fold(0, u64::saturating_add);
    Counts {
        // Both follow from the clocks of all clients.
        start_ns: 0,
        elapsed_ns: 0,
        ops: total(|counts| counts.ops),
        bytes: total(|counts| counts.bytes),
        app_bytes_read: total(|counts| counts.app_bytes_read),
        app_bytes_written: total(|counts| counts.app_bytes_written),
        passes: records().map(|counts| counts.passes).sum::<f64>() / parts.len() as f64,
        verified_blocks: total(|counts| counts.verified_blocks),
        short_calls: total(|counts| counts.short_calls),
        direct_refused: records().any(|counts| counts.direct_refused),
        start_delay_ns: records().filter_map(|counts| counts.start_delay_ns).max(),
        write_limit_bytes: records()
            .filter_map(|counts| counts.write_limit_bytes)
            .reduce(u64::saturating_add),
    }
}

/// Returns the notes that only the runs of the clients could make, each code once. An open loop has fallen behind if all
/// clients together have.
fn notes_of(parts: &[Part], ops: u64) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let mut all_missed = 0;
    for note in parts.iter().flat_map(|part| &part.measured.record.judged.notes) {
        if let Finding::FellBehind { missed: Count(missed), .. } = &note.finding {
            all_missed += missed;
        }
        if notes.iter().all(|known| known.code != note.code) {
            notes.push(note.clone());
        }
    }
    notes.retain(|note| !matches!(note.finding, Finding::FellBehind { .. }));
    notes.extend(notes::fell_behind(all_missed, ops));
    notes
}

/// Returns the kernel functions in which the clients' threads slept while they were in operations of a mix. Samples of
/// several machines add up, as counters do not; those of other tests are left to each client.
fn wait_channels(parts: &[Part]) -> Vec<WaitChannel> {
    let mut sum: Vec<WaitChannel> = Vec::new();
    let all = parts.iter().flat_map(|part| &part.measured.record.seen.wait_channels);
    for site in all {
        match sum.iter_mut().find(|known| known.of == site.of && known.symbol == site.symbol) {
            Some(known) => known.add(site),
            None => sum.push(site.clone()),
        }
    }
    let all: u64 = sum.iter().map(|site| site.samples).fold(0, u64::saturating_add);
    sum.iter_mut().for_each(|site| site.share = site.samples as f64 / all.max(1) as f64);
    WaitChannel::sort(&mut sum);
    let has_operations = sum.iter().any(|site| !site.operations.is_empty());
    if has_operations { sum } else { Vec::new() }
}

/// Returns the use of the one device that all clients of a machine share. Each has counted all of it, and takes the bytes of
/// the other clients for foreign.
fn device(uses: &[&DeviceUse]) -> Option<DeviceUse> {
    let moved = |device: &DeviceUse| device.bytes_read.saturating_add(device.bytes_written) as f64;
    let most = *uses.iter().max_by(|one, other| moved(one).total_cmp(&moved(other)))?;
    if uses.iter().any(|device| device.name != most.name) {
        return None;
    }
    let own = all(uses.iter().map(|device| Some(moved(device) * (1.0 - device.foreign_share?))));
    let own = own.map(|own| own.iter().sum::<f64>()).filter(|_| moved(most) > 0.0);
    // Bytes of the test per byte of the device add up.
    let app = all(uses.iter().map(|device| device.bytes_per_app_byte.map(f64::recip)));
    let app = app.map(|app| app.iter().sum::<f64>()).filter(|app| app.is_normal());
    let DeviceUse { name, bytes_read, bytes_written, operations, flushes, .. } = most.clone();
    Some(DeviceUse {
        name,
        bytes_read,
        bytes_written,
        operations,
        flushes,
        mean_request_bytes: most.mean_request_bytes,
        bytes_per_app_byte: app.map(f64::recip),
        leaf_amplification: most.leaf_amplification,
        foreign_share: own.map(|own| (1.0 - own / moved(most)).clamp(0.0, 1.0)),
        other_bytes_per_second: None,
    })
}

/// Returns observations of the one machine on which all clients ran. They are its CPUs, the use of the clients' time on
/// average, other processes, their device, and the limits that hold all clients together. Counters of several machines do
/// not add up.
fn combined_observations(parts: &[Part]) -> Observations {
    let is_one = parts.windows(2).all(|pair| machine_of(&pair[0].name) == machine_of(&pair[1].name));
    let on_one = if is_one { parts } else { &[] };
    let observations = || on_one.iter().map(|part| &part.measured.record.seen);
    let first = observations().next();
    let devices = all(observations().map(|seen| seen.device.as_ref()));
    Observations {
        device: devices.and_then(|devices| device(&devices)),
        budget: all(observations().map(|seen| seen.budget.as_ref()))
            .and_then(|budgets| mean_budget(&budgets)),
        cpu: first.and_then(|seen| seen.cpu.clone()),
        system: all(observations().map(|seen| seen.system.as_ref())).and_then(|systems| shared(&systems)),
        wait_channels: wait_channels(parts),
        // Each client sees its own load, files and places.
        load: None,
        page_cache_share: None,
        residency: None,
        extents: None,
        places: Vec::new(),
        latency_by_place: None,
        conditions: None,
        // These belong to the run as a whole, and follow after the sum.
        servers: Vec::new(),
        monitor: None,
        disturbance: None,
    }
}

/// Returns the use of the clients' time on average; `None` without clients.
fn mean_budget(budgets: &[&TimeBreakdown]) -> Option<TimeBreakdown> {
    let mean = |of: fn(&TimeBreakdown) -> f64| {
        budgets.iter().map(|budget| of(budget)).sum::<f64>() / budgets.len() as f64
    };
    Some(TimeBreakdown {
        user: mean(|budget| budget.user),
        kernel: mean(|budget| budget.kernel),
        run_queue: mean(|budget| budget.run_queue),
        quota: budgets.first()?.quota,
        steal: mean(|budget| budget.steal),
        blocked: mean(|budget| budget.blocked),
    })
}

/// Returns what clients on one machine have seen of its processes, and the limits that hold all of them.
fn shared(systems: &[&SystemUse]) -> Option<SystemUse> {
    let first = *systems.first()?;
    let is_shared = |cap: &&Cap| systems.iter().all(|system| system.caps.contains(cap));
    Some(SystemUse {
        helpers: first.helpers.clone(),
        caps: first.caps.iter().filter(is_shared).cloned().collect(),
        // Counters of a process or its group, of which each client has its own.
        calls: None,
        quota_throttled_ns: None,
        quota_used_up_ns: None,
        quota_cpus: None,
        not_running_ns: None,
        left_out_ns: None,
        // Counters of the machine, which the clients read over different times.
        network: None,
        pressure: None,
        reclaim: None,
        dirty_threshold_bytes: None,
        suspended_ns: None,
    })
}

impl Part {
    fn share(&self) -> ClientShare {
        let record = &self.measured.record;
        ClientShare {
            client: self.client,
            name: self.name.clone(),
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

impl ClientAggregate {
    fn shift_ns(&self, start_ns: u64) -> u64 {
        start_ns.saturating_sub(self.origin_ns).min(SHIFT_NS_MAX)
    }

    /// Returns the latest of some instant of each client.
    fn last(&self, of: impl Fn(&Part) -> u64) -> u64 {
        self.parts.iter().map(|part| self.shift_ns(part.start_ns).saturating_add(of(part))).max().unwrap_or(0)
    }

    /// Returns the time in which every client worked, as its start and end.
    fn window(&self) -> (u64, u64) {
        let start = self.parts.iter().map(|part| self.shift_ns(part.start_ns)).max().unwrap_or(0);
        let done = |part: &Part| self.shift_ns(part.start_ns).saturating_add(part.rate().first_done_ns);
        let end = self.parts.iter().map(done).min().unwrap_or(0);
        (start, end.max(start))
    }

    /// Returns the operations of all clients within a time. Those of an interval at its edge count by their share.
    fn ops_within(&self, (start_ns, end_ns): (u64, u64)) -> f64 {
        let of_part = |part: &Part| {
            let shift_ns = self.shift_ns(part.start_ns);
            part.rate_history.ops_within(start_ns.saturating_sub(shift_ns), end_ns.saturating_sub(shift_ns))
        };
        self.parts.iter().map(of_part).sum()
    }

    /// Returns the figures of a test that is one measured part.
    fn sum_single_part(
        &self,
        mut collected: Collector,
        counts: &mut Counts,
        block_bytes: Option<u64>,
        plan: &Plan,
    ) -> Figures {
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
            // Each client leaves its pauses out itself.
            paused_ns: 0,
            paused_ops: 0,
        };
        let state = SteadyState::from_intervals(collected.intervals(), times.first_done_ns);
        let mut rate = record::rate(&collected, &times, block_bytes, state.as_ref(), &[]);
        let has_slope = state.as_ref().is_some_and(|state| state.steady.is_steady || state.is_level);
        if !has_slope && !is_durable && !cached_writes {
            let ops = self.window_rate(window);
            rate.ops_per_second = ops.or(rate.ops_per_second);
            rate.bytes_per_second =
                rate.ops_per_second.zip(block_bytes).map(|(ops, bytes)| ops * bytes as f64);
        }
        let latency = self.latency(&collected, state.as_ref(), plan);
        let (steady, histogram) = (state.map(|state| state.steady), collected.operations.encoded());
        let intervals = collected.into_intervals(counts.elapsed_ns);
        Figures { steady, ..figures(rate, latency, histogram, intervals) }
    }

    fn latency(&self, collected: &Collector, state: Option<&SteadyState>, plan: &Plan) -> Option<Latency> {
        let own = || self.parts.iter().filter_map(|part| part.measured.record.figures.latency_ns.as_ref());
        let (min, max) = (own().map(|one| one.min).min()?, own().map(|one| one.max).max()?);
        let latency = Latency { min, max, ..collected.operations.latency()? };
        let intervals = state.map_or(collected.intervals(), |state| state.part(collected.intervals()));
        let seed = mix(plan.seed.unwrap_or(1));
        Some(steady_state::with_intervals(latency, &collected.operations.buckets(), intervals, seed))
    }

    fn window_rate(&self, window: (u64, u64)) -> Option<f64> {
        let length_ns = window.1 - window.0;
        let ops = self.ops_within(window);
        (length_ns > 0 && ops > 0.0).then(|| ops * 1e9 / length_ns as f64)
    }

    fn sum_files(&self, collected: Collector, counts: &mut Counts) -> Figures {
        let rounds = Rounds::new(&self.parts);
        counts.elapsed_ns = rounds.each.iter().map(|round| round.elapsed_ns).fold(0, u64::saturating_add);
        let whole = per_second(counts.ops as f64, counts.elapsed_ns);
        // Without a common time, only the whole is a rate of all clients.
        let headline = per_second(rounds.window_ops, rounds.window_ns).or(whole);
        let proportion = headline.zip(whole).map_or(1.0, |(headline, whole)| headline / whole);
        let ci95 = steady_state::from_rounds(&rounds.each);
        let first_done = |part: &Part| self.shift_ns(part.start_ns).saturating_add(part.rate().first_done_ns);
        let rate = Rate {
            ops_per_second: headline,
            bytes_per_second: None,
            steady_ops_per_second: None,
            overall_ops_per_second: whole,
            durable_ops_per_second: None,
            into_cache_ops_per_second: None,
            ci95_low_ops_per_second: ci95.map(|(low, _)| low * proportion),
            ci95_high_ops_per_second: ci95.map(|(_, high)| high * proportion),
            effective_samples: ci95.map(|_| steady_state::independent_rounds(&rounds.each)),
            repeat_half_width: None,
            first_done_ns: self.parts.iter().map(first_done).min().unwrap_or(0),
            last_done_ns: self.last(|part| part.rate().last_done_ns),
        };
        let own = || self.parts.iter().filter_map(|part| part.measured.record.figures.latency_ns.as_ref());
        let latency = own().map(|one| one.min).min().zip(own().map(|one| one.max).max());
        let latency =
            latency.and_then(|(min, max)| Some(Latency { min, max, ..collected.operations.latency()? }));
        let histogram = latency.as_ref().and_then(|_| collected.operations.encoded());
        let intervals = collected.into_intervals(rate.last_done_ns);
        Figures { rounds: rounds.each, ..figures(rate, latency, histogram, intervals) }
    }

    fn totals(&self, figures: &Figures, planned: u32) -> ClientTotals {
        let (start_ns, end_ns) = self.window();
        let is_of_files = !figures.rounds.is_empty();
        let rounds = Rounds::new(&self.parts);
        let window_ns = if is_of_files { rounds.window_ns } else { end_ns - start_ns };
        let window_rate = match is_of_files {
            true => per_second(rounds.window_ops, rounds.window_ns),
            false => self.window_rate((start_ns, end_ns)),
        };
        let mut rates: Vec<_> = self
            .parts
            .iter()
            .filter_map(|part| Some((part.rate().ops_per_second?, part.name.as_str())))
            .collect();
        rates.sort_by_cached_key(|(rate, _)| rank(*rate));
        let late = || self.parts.iter().filter_map(|part| part.measured.record.counts.start_delay_ns);
        let values: Vec<_> = rates.iter().map(|(rate, _)| *rate).collect();
        let named =
            |rate: Option<&(f64, &str)>| (rate.map(|rate| rate.0), rate.map(|rate| rate.1.to_owned()));
        let (slowest_ops_per_second, slowest) = named(rates.first());
        let (fastest_ops_per_second, fastest) = named(rates.last());
        ClientTotals {
            clients: self.parts.len() as u32,
            clients_planned: planned,
            window_ns,
            window_ops_per_second: window_rate,
            last_ops_per_second: figures.rate.durable_ops_per_second.or(figures.rate.overall_ops_per_second),
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

/// Returns the figures of a sum that tests on data and on files share.
fn figures(
    rate: Rate,
    latency_ns: Option<Latency>,
    histogram: Option<String>,
    intervals: Vec<Interval>,
) -> Figures {
    Figures {
        rate,
        latency_ns,
        histogram,
        intervals,
        // The caller has these.
        together: None,
        steps: Vec::new(),
        steady: None,
        rounds: Vec::new(),
        // Each client has its own: their clocks, calls, rounds and places differ.
        slowest_calls: None,
        queueing_ns: None,
        until_steady: None,
        zones: Vec::new(),
        // These compare the sum with other runs and with ceilings.
        prediction_interval: None,
        rates_elsewhere: None,
        own_cost_ns_per_op: None,
        return_visit: None,
        ceiling_shares: None,
    }
}

/// Rounds that all clients began together.
#[derive(Default)]
struct Rounds {
    /// Operations of all clients, and the time from the first start until the last was done.
    each: Vec<RoundRecord>,
    /// Operations while all clients were at work.
    window_ops: f64,
    /// Time of that.
    window_ns: u64,
}

impl Rounds {
    fn new(parts: &[Part]) -> Self {
        let mut all = Self::default();
        let of = |part: &Part, index: usize| part.measured.record.figures.rounds.get(index).cloned();
        for index in 0..INTERVALS_MAX {
            // The last round of a client that ended early has no partner.
            let Some(rounds) = self::all(parts.iter().map(|part| of(part, index))) else { break };
            let end_ns = |round: &RoundRecord| round.start_delay_ns.saturating_add(round.elapsed_ns);
            let starts = || rounds.iter().map(|round| round.start_delay_ns);
            let ends = || rounds.iter().map(end_ns);
            let window_ns = ends().min().unwrap_or(0).saturating_sub(starts().max().unwrap_or(0));
            let share =
                |round: &RoundRecord| round.ops as f64 * window_ns as f64 / round.elapsed_ns.max(1) as f64;
            all.window_ops += rounds.iter().map(share).sum::<f64>();
            all.window_ns = all.window_ns.saturating_add(window_ns);
            let start_delay_ns = starts().min().unwrap_or(0);
            all.each.push(RoundRecord {
                ops: rounds.iter().map(|round| round.ops).fold(0, u64::saturating_add),
                elapsed_ns: ends().max().unwrap_or(0) - start_delay_ns,
                start_delay_ns,
            });
        }
        let elapsed_ns = all.each.iter().map(|round| round.elapsed_ns).fold(0, u64::saturating_add);
        if all.window_ns < elapsed_ns / WINDOW_DIVISOR {
            (all.window_ops, all.window_ns) = (0.0, 0);
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
pub(crate) mod tests;
