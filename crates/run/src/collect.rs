//! Merged counts of the workers: totals, and intervals on one time axis.
//!
//! A delta belongs to the interval that contains its middle. A phase has at most `INTERVALS_MAX` intervals; beyond
//! that, neighbours merge.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::recorder::{Delta, INTERVAL_NS, Latencies};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use model::figure::LATENCY_MAX_NS;
use model::run::{Frame, INTERVALS_MAX, Interval, Latency};
use model::workload::verbs::VerbStep;

use crate::by_place::RegionSeries;
use crate::rounds::Rounds;
use crate::zoned::Zoned;

/// Latencies of all workers, over the whole phase.
#[derive(Debug)]
pub struct Distribution(Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 2);
        Self(histogram.expect("the bounds are constants that the histogram accepts"))
    }
}

/// Fewest samples beyond a percentile that is reported: with 20, its own uncertainty is a quarter.
const SAMPLES_BEYOND: f64 = 20.0;

impl Distribution {
    /// Adds a number of samples of one latency.
    pub fn add(&mut self, upper_ns: u64, count: u64) {
        self.0.saturating_record_n(upper_ns, count);
    }

    /// Adds all latencies of another distribution.
    fn merge(&mut self, other: &Self) {
        other.buckets().into_iter().for_each(|(upper_ns, count)| self.add(upper_ns, count));
    }

    /// Collects the latencies of some intervals.
    pub fn from_intervals(intervals: &[Interval]) -> Self {
        let mut all = Self::default();
        let buckets = intervals.iter().flat_map(|interval| &interval.histogram);
        buckets.for_each(|(upper_ns, count)| all.add(*upper_ns, *count));
        all
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns a quantile, if there are enough samples beyond it.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let beyond = self.0.len() as f64 * (1.0 - quantile);
        (beyond >= SAMPLES_BEYOND).then(|| self.0.value_at_quantile(quantile))
    }

    /// Summarises the distribution in numbers; `None` without samples.
    pub fn latency(&self) -> Option<Latency> {
        (!self.0.is_empty()).then(|| Latency {
            min: self.0.min(),
            mean: self.0.mean().round() as u64,
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p99_9: self.quantile(0.999),
            chosen: Vec::new(),
            max: self.0.max(),
            ci95: None,
            modes: Vec::new(),
        })
    }

    /// Returns the buckets: the upper end of each in nanoseconds, and its count.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|value| (value.value_iterated_to(), value.count_since_last_iteration()))
            .collect()
    }

    /// Reads a distribution from [`Distribution::encoded`]; `None` if it is none.
    pub fn decoded(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok().map(Self)
    }

    /// Encodes the distribution as HdrHistogram V2 deflate in base64; `None` without samples.
    pub fn encoded(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).ok()?;
        Some(STANDARD.encode(bytes))
    }
}

/// Returns the distribution of each name, in the order of their first steps: a verb may make the same call in several steps.
pub fn by_name(steps: Vec<(VerbStep, Distribution)>) -> Vec<(VerbStep, Distribution)> {
    let mut merged: Vec<(VerbStep, Distribution)> = Vec::with_capacity(steps.len());
    for (step, latencies) in steps {
        match merged.iter_mut().find(|(known, _)| known.name == step.name) {
            Some((_, sum)) => sum.merge(&latencies),
            None => merged.push((step, latencies)),
        }
    }
    merged
}

/// Buckets of an interval's latencies in documents, by power of two. Percentiles are made of finer ones.
const BUCKETS_PER_OCTAVE_LOG2: u32 = 3;

/// The same intervals with wider buckets, whose upper ends are at most an eighth above the latencies in them.
pub fn coarse(mut intervals: Vec<Interval>) -> Vec<Interval> {
    for interval in &mut intervals {
        let buckets = std::mem::take(&mut interval.histogram);
        let wide: Vec<_> = buckets.into_iter().map(|(upper_ns, count)| (wide_end(upper_ns), count)).collect();
        merge_buckets(&mut interval.histogram, &wide);
    }
    intervals
}

/// Upper end of the wide bucket of a latency.
fn wide_end(latency_ns: u64) -> u64 {
    let octave = latency_ns.max(1).ilog2();
    let width = 1 << octave.saturating_sub(BUCKETS_PER_OCTAVE_LOG2);
    (latency_ns / width + 1).saturating_mul(width) - 1
}

/// Most neighbouring intervals that are merged into one: 13 years.
const MERGED_MAX: u64 = 1 << 32;

/// Returns the same intervals, neighbours merged until there are at most `most`.
pub fn merged_to(intervals: Vec<Interval>, most: usize) -> Vec<Interval> {
    let together = intervals.len().div_ceil(most.max(1)).max(1);
    let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len() / together + 1);
    for (index, interval) in intervals.into_iter().enumerate() {
        match merged.last_mut().filter(|_| index % together > 0) {
            Some(last) => absorb(last, interval),
            None => merged.push(interval),
        }
    }
    merged
}

/// Adds an interval to the one before it.
fn absorb(last: &mut Interval, next: Interval) {
    let Interval { start_ns: _, length_ns, ops, bytes, histogram, frame } = next;
    last.length_ns = last.length_ns.saturating_add(length_ns);
    last.ops = last.ops.saturating_add(ops);
    last.bytes = last.bytes.saturating_add(bytes);
    merge_buckets(&mut last.histogram, &histogram);
    match (&mut last.frame, frame) {
        (Some(sum), Some(frame)) => add_frame(sum, &frame),
        (none, frame) => *none = none.take().or(frame),
    }
}

/// Counts of all workers of a phase.
#[derive(Debug, Default)]
pub struct Collector {
    /// Completed operations.
    pub ops: u64,
    /// Bytes of these operations.
    pub bytes: u64,
    /// Bytes that read calls returned.
    pub read_bytes: u64,
    /// Bytes that write calls accepted.
    pub written_bytes: u64,
    /// Visits to the engine that brought a completion.
    pub visits: u64,
    /// Time for which slots waited for the loop, summed over the slots.
    pub idle_slots_ns: u64,
    /// Blocks that were read and compared byte by byte.
    pub verified: u64,
    /// Calls that moved a part of their block; another call moved the rest.
    pub short_calls: u64,
    /// Longest time of many calls in a row that are not timed one by one; 0 where none was timed.
    pub slowest_chunk_ns: u64,
    /// Latencies of operations.
    pub operations: Distribution,
    /// Delays from the intended to the actual start; empty in a closed loop.
    pub queueing: Distribution,
    /// Latencies of each kind of call; empty where an operation is one call.
    pub steps: Vec<(VerbStep, Distribution)>,
    intervals: Vec<Interval>,
    /// Neighbouring intervals merged into one: a power of two.
    merged: u64,
    /// Latencies by region of the data, of each worker.
    pub by_region: Vec<RegionSeries>,
    /// Zones of the test, if it has any.
    pub zoned: Option<Zoned>,
    /// Rounds of the test, if it is repeated until it is steady.
    pub rounds: Option<Rounds>,
}

impl Collector {
    /// Makes an empty collection for operations with these steps; none if an operation is one call.
    pub fn new(steps: Vec<VerbStep>) -> Self {
        let steps = steps.into_iter().map(|step| (step, Distribution::default())).collect();
        Self { steps, merged: 1, ..Self::default() }
    }

    /// Returns the same collection for a test of rounds, of that time and at most that many.
    #[must_use]
    pub fn in_rounds(mut self, rounds: Option<(u64, u32)>) -> Self {
        self.rounds = rounds.map(Rounds::new);
        self
    }

    /// Adds a worker's delta of a phase that began at `phase_start_ns`.
    pub fn add(&mut self, delta: &Delta, phase_start_ns: u64) {
        // The last piece may be compared after its bytes were handed over.
        self.verified += delta.verified;
        let has_started = delta.queueing.as_ref().is_some_and(|queueing| queueing.count() > 0);
        if delta.ops == 0 && delta.read_bytes == 0 && delta.written_bytes == 0 && !has_started {
            return;
        }
        self.short_calls += delta.short_calls;
        self.ops += delta.ops;
        self.bytes += delta.bytes;
        self.read_bytes += delta.read_bytes;
        self.written_bytes += delta.written_bytes;
        self.visits += delta.visits;
        self.idle_slots_ns += delta.idle_slots_ns;
        self.slowest_chunk_ns = self.slowest_chunk_ns.max(delta.slowest_chunk_ns);
        let queueing = delta.queueing.iter().flat_map(|queueing| queueing.buckets());
        queueing.for_each(|(upper_ns, count)| self.queueing.add(upper_ns, count));
        for (step, sum) in &mut self.steps {
            let buckets = delta.steps.get(step.number).into_iter().flat_map(Latencies::buckets);
            buckets.for_each(|(upper_ns, count)| sum.add(upper_ns, count));
        }
        let buckets: Vec<_> = delta.latencies.buckets().collect();
        buckets.iter().for_each(|(upper_ns, count)| self.operations.add(*upper_ns, *count));
        let interval = self.interval(middle_ns(delta, phase_start_ns));
        interval.ops += delta.ops;
        interval.bytes += delta.bytes;
        merge_buckets(&mut interval.histogram, &buckets);
    }

    /// Adds the latencies by region of a worker's delta, to which [`add`](Self::add) adds all else.
    pub fn add_regions(&mut self, worker: usize, delta: &Delta, phase_start_ns: u64) {
        if let Some(series) = self.by_region.get_mut(worker) {
            series.add(&delta.regions, middle_ns(delta, phase_start_ns));
        }
    }

    /// Closes rounds that are over after `elapsed_ns`. Returns true once a test that has rounds is steady.
    pub fn is_steady(&mut self, elapsed_ns: u64) -> bool {
        let Self { rounds, intervals, .. } = self;
        rounds.as_mut().is_some_and(|rounds| rounds.update(intervals, elapsed_ns))
    }

    /// Closes the last round of a phase that ended after `ended_ns`.
    pub fn end_rounds(&mut self, ended_ns: u64) {
        let Self { rounds, intervals, .. } = self;
        rounds.iter_mut().for_each(|rounds| rounds.end(intervals, ended_ns));
    }

    /// Adds an interval of a client whose time axis begins `shift_ns` after this one. First merges its own intervals to
    /// at least that length, up to `MERGED_MAX`.
    pub fn add_interval(&mut self, interval: &Interval, shift_ns: u64) {
        while INTERVAL_NS * self.merged < interval.length_ns && self.merged < MERGED_MAX {
            self.merge_neighbours();
        }
        // Counters of several machines do not add up.
        let Interval { start_ns, length_ns, ops, bytes, histogram, frame: _ } = interval;
        let middle_ns = shift_ns.saturating_add(*start_ns).saturating_add(length_ns / 2);
        let sum = self.interval(middle_ns);
        sum.ops = sum.ops.saturating_add(*ops);
        sum.bytes = sum.bytes.saturating_add(*bytes);
        merge_buckets(&mut sum.histogram, histogram);
    }

    /// Returns the intervals so far, on the time axis.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Adds the machine's counters up to `end_ns` after the start of the phase.
    pub fn add_frame(&mut self, frame: Frame, end_ns: u64) {
        let interval = self.interval(end_ns.saturating_sub(INTERVAL_NS / 2));
        match &mut interval.frame {
            Some(sum) => add_frame(sum, &frame),
            none => *none = Some(frame),
        }
    }

    /// Returns the intervals, the last one cut at `end_ns` after the start of the phase.
    pub fn into_intervals(mut self, end_ns: u64) -> Vec<Interval> {
        while self.intervals.last().is_some_and(|last| last.start_ns >= end_ns && last.ops == 0) {
            self.intervals.pop();
        }
        if let Some(last) = self.intervals.last_mut() {
            last.length_ns = last.length_ns.min(end_ns.saturating_sub(last.start_ns).max(1));
        }
        self.intervals
    }

    /// Returns the interval that contains `at_ns`. Makes it and those before it if it is new.
    fn interval(&mut self, at_ns: u64) -> &mut Interval {
        let mut index = (at_ns / (INTERVAL_NS * self.merged)) as usize;
        while index >= INTERVALS_MAX {
            self.merge_neighbours();
            index /= 2;
        }
        while self.intervals.len() <= index {
            let length_ns = INTERVAL_NS * self.merged;
            let start_ns = self.intervals.len() as u64 * length_ns;
            self.intervals.push(Interval {
                start_ns,
                length_ns,
                ops: 0,
                bytes: 0,
                histogram: vec![],
                frame: None,
            });
        }
        &mut self.intervals[index]
    }

    fn merge_neighbours(&mut self) {
        self.merged *= 2;
        let length_ns = INTERVAL_NS * self.merged;
        let count = self.intervals.len();
        let mut merged = merged_to(std::mem::take(&mut self.intervals), count.div_ceil(2));
        // The last one may have had no neighbour.
        merged.iter_mut().for_each(|interval| interval.length_ns = length_ns);
        self.intervals = merged;
    }
}

/// Returns the middle of a delta, from the start of its phase. A worker notices the end of an interval a little late, but the
/// middle of its delta lies in the right interval.
fn middle_ns(delta: &Delta, phase_start_ns: u64) -> u64 {
    (delta.start_ns / 2 + delta.end_ns / 2).saturating_sub(phase_start_ns)
}

/// Merges two ascending lists of buckets.
fn merge_buckets(into: &mut Vec<(u64, u64)>, other: &[(u64, u64)]) {
    for &(upper_ns, count) in other {
        match into.binary_search_by_key(&upper_ns, |bucket| bucket.0) {
            Ok(index) => into[index].1 = into[index].1.saturating_add(count),
            Err(index) => into.insert(index, (upper_ns, count)),
        }
    }
}

/// Adds one frame to another; states such as dirty pages come from the later one.
pub fn add_frame(sum: &mut Frame, frame: &Frame) {
    let Frame { devices, cpu, workers, own_io, dirtied_bytes, dirty_bytes, writeback_bytes } = frame;
    for (sum, device) in sum.devices.iter_mut().zip(devices) {
        *sum = sum.each(device, u64::saturating_add);
    }
    sum.cpu = sum.cpu.each(cpu, u64::saturating_add);
    sum.workers = sum.workers.each(workers, u64::saturating_add);
    sum.own_io = sum.own_io.each(own_io, u64::saturating_add);
    sum.dirtied_bytes = sum.dirtied_bytes.zip(*dirtied_bytes).map(|(sum, more)| sum + more);
    (sum.dirty_bytes, sum.writeback_bytes) = (*dirty_bytes, *writeback_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(end_ns: u64, latencies_ns: &[u64]) -> Delta {
        // Workers hand over some microseconds after the boundary, and their next delta begins there.
        let (start_ns, end_ns) = (end_ns.saturating_sub(INTERVAL_NS) + 5_000, end_ns + 5_000);
        let mut delta = Delta { start_ns, end_ns, ops: latencies_ns.len() as u64, ..Delta::default() };
        latencies_ns.iter().for_each(|latency| delta.latencies.record(*latency));
        delta
    }

    #[test]
    fn wide_buckets_hold_latencies_within_an_eighth() {
        for latency_ns in [0, 1, 7, 8, 100, 127, 128, 143, 144, 1_000_000, LATENCY_MAX_NS] {
            let end = wide_end(latency_ns);
            assert!(
                end >= latency_ns && end as f64 <= latency_ns as f64 * 1.125 + 1.0,
                "{latency_ns}: {end}"
            );
            assert_eq!(wide_end(end), end);
        }
        let interval =
            |histogram| Interval { start_ns: 0, length_ns: 1, ops: 6, bytes: 0, histogram, frame: None };
        let wide = coarse(vec![interval(vec![(128, 1), (130, 2), (143, 1), (144, 2)])]);
        assert_eq!(wide, [interval(vec![(143, 4), (159, 2)])]);
    }

    #[test]
    fn latency_buckets_of_workers_match_the_histogram() {
        let octaves = (0..47).flat_map(|octave| [1u64, 129, 200, 255].map(|part| (part << octave) / 128));
        for latency_ns in octaves.chain([0, 1, 127, 128, 255, 256, LATENCY_MAX_NS, u64::MAX]) {
            let mut distribution = Distribution::default();
            distribution.0.saturating_record(latency_ns);
            let counted: Vec<_> = delta(0, &[latency_ns]).latencies.buckets().collect();
            assert_eq!(counted, distribution.buckets(), "{latency_ns}");
        }
    }

    #[test]
    fn worker_counts_are_merged_by_their_end_interval() {
        let mut collected = Collector::new(Vec::new());
        collected.add(&delta(1000 + INTERVAL_NS, &[100, 200]), 1000);
        collected.add(&delta(1000 + INTERVAL_NS - 5, &[200, 300]), 1000);
        collected.add(&delta(1000 + 3 * INTERVAL_NS, &[400]), 1000);
        assert_eq!(collected.ops, 5);
        let intervals = collected.into_intervals(2 * INTERVAL_NS + 7);
        assert_eq!(intervals.iter().map(|interval| interval.ops).collect::<Vec<_>>(), [4, 0, 1]);
        assert_eq!(intervals[0].histogram.iter().map(|bucket| bucket.1).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(intervals[2].length_ns, 7);
    }

    #[test]
    fn block_verified_after_last_operation_is_counted() {
        let mut collected = Collector::new(Vec::new());
        collected.add(&delta(INTERVAL_NS, &[100]), 0);
        collected.add(&Delta { verified: 1, ..delta(2 * INTERVAL_NS, &[]) }, 0);
        assert_eq!((collected.ops, collected.verified), (1, 1));
        assert_eq!(collected.into_intervals(INTERVAL_NS).len(), 1, "it makes no interval");
    }

    #[test]
    fn long_phase_merges_adjacent_intervals_without_loss() {
        let mut collected = Collector::new(Vec::new());
        for tick in 1..=10_000u64 {
            collected.add(&delta(tick * INTERVAL_NS, &[100]), 0);
        }
        let intervals = collected.into_intervals(10_000 * INTERVAL_NS);
        assert!(intervals.len() <= INTERVALS_MAX);
        assert_eq!(intervals.iter().map(|interval| interval.ops).sum::<u64>(), 10_000);
        assert_eq!(intervals[0].length_ns, 4 * INTERVAL_NS);
        assert_eq!(intervals[0].ops, 4);
    }

    #[test]
    fn steps_of_one_name_are_counted_together() {
        let names = ["write", "write", "fdatasync"];
        let mut steps =
            Collector::new(names.map(|name| VerbStep { number: 0, name, calls: &[] }).into()).steps;
        steps
            .iter_mut()
            .zip([100, 200, 300])
            .for_each(|((_, sum), latency_ns)| sum.add(latency_ns, latency_ns));
        let merged = by_name(steps);
        let counts: Vec<_> = merged.iter().map(|(step, sum)| (step.name, sum.count(), sum.0.max())).collect();
        assert_eq!(counts, [("write", 300, 200), ("fdatasync", 300, 301)]);
    }

    #[test]
    fn percentiles_need_samples_beyond_them() {
        let mut collected = Collector::new(Vec::new());
        collected.add(&delta(1, &(1..=1999).map(|n| n * 1000).collect::<Vec<_>>()), 0);
        let latency = collected.operations.latency().unwrap();
        assert_eq!((latency.p99, latency.p99_9), (None, None));
        assert!(latency.p90.unwrap().abs_diff(1_800_000) < 18_000);
        collected.add(&delta(1, &[5_000_000]), 0);
        assert!(collected.operations.quantile(0.99).is_some());
        assert!(collected.operations.encoded().unwrap().starts_with("HISTF"));
    }
}
