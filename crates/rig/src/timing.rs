//! Times of a server's answers: a queue with slots, whose throughput and waiting are known in closed form.
//!
//! A new time of servers is part of `Queue::due_ns`, with a test that computes it by hand.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::ops::Range;

use fastrand::Rng;

use crate::served::Direction;

/// Size of the blocks in the server's own cache.
const CACHE_BLOCK_BYTES: u64 = 4096;
/// Distance of the longest seek.
const SEEK_BYTES_MAX: u64 = 64 << 20;
/// Seed of the times: every run draws the same.
const SEED: u64 = 0x5eed;

/// A time, or a range of equally likely times.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The shortest.
    pub from_ns: u64,
    /// The longest.
    pub to_ns: u64,
}

impl Span {
    /// Always this time.
    pub const fn ns(time_ns: u64) -> Self {
        Self { from_ns: time_ns, to_ns: time_ns }
    }

    fn draw(self, random: &mut Rng) -> u64 {
        random.u64(self.from_ns..=self.to_ns.max(self.from_ns))
    }
}

/// Requests that take longer than others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slow {
    /// Share of the requests, chosen at random.
    pub share: f64,
    /// Their service time.
    pub service: Span,
}

/// Another service time beyond a number of bytes, of requests under way, or of requests served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceStep {
    /// The number.
    pub count: u64,
    /// Service time of requests beyond it.
    pub service: Span,
}

/// Times in which no request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Length of each.
    pub for_ns: u64,
    /// Time from one to the next; each lies at the end of its period.
    pub every_ns: u64,
}

/// Requests that take time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum TimedDirections {
    /// Reads and writes.
    #[default]
    Both,
    /// Reads; writes are answered at once.
    Reads,
    /// Writes; reads are answered at once.
    Writes,
}

/// Times of answers. A request goes to the slot that is free first, in the order of arrival, and keeps it for its
/// service time.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Requests that are served at a time; without it, all of them.
    pub slots: Option<u32>,
    /// Service time of each in its slot.
    pub service: Span,
    /// Requests that take longer.
    pub slow: Option<Slow>,
    /// Another time for requests of more bytes than this.
    pub large: Option<ServiceStep>,
    /// Another time for requests that bring more than this many in flight.
    pub crowded: Option<ServiceStep>,
    /// Another time for requests after this many: a disk that is fast as long as its credit lasts.
    pub spent: Option<ServiceStep>,
    /// Another time for requests that begin at this offset or beyond: a disk that is slow in one half.
    pub far: Option<ServiceStep>,
    /// Every second slot takes this many times as long: two servers of unequal speed.
    pub uneven: Option<u32>,
    /// Time of a seek over [`SEEK_BYTES_MAX`] or more from the request before; in proportion over less.
    pub seek: Option<Span>,
    /// Bytes that all slots together move in a second.
    pub bytes_per_second: Option<u64>,
    /// Unused bytes of that rate that are saved up.
    pub burst_bytes: Option<u64>,
    /// Answers come at multiples of this time only.
    pub tick_ns: Option<u64>,
    /// Times in which no request begins.
    pub stall: Option<Stall>,
    /// Time of an fsync, in a slot like the others.
    pub sync: Option<Span>,
    /// Time to look up, make, remove and rename names, to open, and to read and change attributes, in a slot like the
    /// others. Flush, release and forget are answered at once, so that the cost of a call can be counted.
    pub names: Option<Span>,
    /// Time to read data that was read before, without a slot: a cache that only the server sees.
    pub cache: Option<Span>,
    /// Requests that take time: reads, writes or both.
    pub timed: TimedDirections,
}

impl Timing {
    /// Returns true if nothing takes time.
    pub fn is_immediate(&self) -> bool {
        *self == Self { slots: self.slots, timed: self.timed, ..Self::default() }
    }

    /// Returns the service time of a request for a range of bytes, with `under_way` others in flight and `before` others
    /// served so far.
    fn service_of(
        &self,
        direction: Direction,
        Range { start: offset_bytes, end: end_bytes }: Range<u64>,
        [under_way, before]: [u64; 2],
        random: &mut Rng,
    ) -> Option<u64> {
        let applies = match direction {
            Direction::Sync => return self.sync.map(|time| time.draw(random)),
            Direction::Name => return self.names.map(|time| time.draw(random)),
            Direction::Read => self.timed != TimedDirections::Writes,
            Direction::Write => self.timed != TimedDirections::Reads,
        };
        let slow = self.slow.filter(|slow| random.f64() < slow.share).map(|slow| slow.service);
        // The last one that applies wins.
        let bytes = end_bytes - offset_bytes;
        let counts = [bytes, under_way + 1, before + 1, offset_bytes + 1];
        let step = [self.large, self.crowded, self.spent, self.far]
            .into_iter()
            .zip(counts)
            .filter_map(|(step, count)| step.filter(|step| count > step.count))
            .map(|step| step.service)
            .next_back();
        let service = step.or(slow).unwrap_or(self.service).draw(random);
        (applies && !self.is_immediate()).then_some(service)
    }
}

/// The slots with their current load.
#[derive(Debug)]
pub(crate) struct Queue {
    timing: Timing,
    /// Instant from which stalls are counted.
    origin_ns: u64,
    /// Instants when the slots are free, and their numbers, where these are limited.
    free: BinaryHeap<Reverse<(u64, u32)>>,
    /// Instants when the reads and writes in flight are answered.
    under_way_ns: BinaryHeap<Reverse<u64>>,
    /// Reads and writes that took time so far.
    served: u64,
    /// Instant when the last promised byte has been moved.
    transfer_end_ns: u64,
    /// End of the request before, within its file.
    position_bytes: u64,
    /// Blocks that were read: the file and the block's number.
    cached: HashSet<(u64, u64)>,
    random: Rng,
}

impl Queue {
    pub(crate) fn new(timing: Timing, now_ns: u64) -> Self {
        let random = Rng::with_seed(SEED);
        let mut queue = Self {
            timing,
            origin_ns: now_ns,
            free: BinaryHeap::new(),
            under_way_ns: BinaryHeap::new(),
            served: 0,
            transfer_end_ns: 0,
            position_bytes: 0,
            cached: HashSet::new(),
            random,
        };
        queue.set(timing, now_ns);
        queue
    }

    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// Sets other times; requests in flight keep their due times.
    pub(crate) fn set(&mut self, timing: Timing, now_ns: u64) {
        self.timing = timing;
        self.origin_ns = now_ns;
        self.transfer_end_ns = now_ns;
        self.served = 0;
        self.cached.clear();
        let slots = timing.slots.map_or(0, |slots| slots.max(1) as usize);
        let busy = std::mem::take(&mut self.free).into_sorted_vec();
        // Ascending, in reverse: the slots that are free last are kept.
        let free_ns = busy.into_iter().map(|Reverse((free_ns, _))| free_ns).chain(std::iter::repeat(now_ns));
        self.free = free_ns.take(slots).zip(0..).map(Reverse).collect();
    }

    /// Returns the instant to answer a request that arrives now, on bytes of a file; `None` is at once.
    pub(crate) fn due_ns(
        &mut self,
        now_ns: u64,
        direction: Direction,
        file: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<u64> {
        while self.under_way_ns.peek().is_some_and(|Reverse(due_ns)| *due_ns <= now_ns) {
            self.under_way_ns.pop();
        }
        let others = [self.under_way_ns.len() as u64, self.served];
        let range = offset_bytes..offset_bytes + length_bytes;
        let service_ns = self.timing.service_of(direction, range, others, &mut self.random)?;
        if let Some(hit) = self.timing.cache
            && direction == Direction::Read
            && self.was_cached(file, offset_bytes, length_bytes)
        {
            return Some(now_ns + hit.draw(&mut self.random));
        }
        let Reverse((free_ns, slot)) = self.free.pop().unwrap_or(Reverse((now_ns, 0)));
        let start_ns = self.after_stall(free_ns.max(now_ns));
        let factor = self.timing.uneven.filter(|_| slot % 2 == 1).unwrap_or(1);
        let mut due_ns = start_ns + service_ns * u64::from(factor);
        if let Some(seek) = self.timing.seek.filter(|_| direction.moves_bytes()) {
            let distance_bytes = self.position_bytes.abs_diff(offset_bytes).min(SEEK_BYTES_MAX);
            self.position_bytes = offset_bytes + length_bytes;
            let longest_ns = seek.draw(&mut self.random);
            due_ns +=
                (u128::from(longest_ns) * u128::from(distance_bytes) / u128::from(SEEK_BYTES_MAX)) as u64;
        }
        if let Some(rate) = self.timing.bytes_per_second.filter(|_| direction.moves_bytes()) {
            let time_ns = |bytes: u64| (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64;
            let saved_ns = self.timing.burst_bytes.map_or(0, time_ns);
            let earliest_ns = start_ns.saturating_sub(saved_ns);
            self.transfer_end_ns = self.transfer_end_ns.max(earliest_ns) + time_ns(length_bytes);
            due_ns = due_ns.max(self.transfer_end_ns);
        }
        if let Some(tick_ns) = self.timing.tick_ns.filter(|tick_ns| *tick_ns > 0) {
            due_ns = due_ns.next_multiple_of(tick_ns);
        }
        if self.timing.slots.is_some() {
            self.free.push(Reverse((due_ns, slot)));
        }
        if direction.moves_bytes() {
            self.under_way_ns.push(Reverse(due_ns));
            self.served += 1;
        }
        Some(due_ns)
    }

    /// Returns true if all of it was read before. Marks it as read.
    fn was_cached(&mut self, file: u64, offset_bytes: u64, length_bytes: u64) -> bool {
        let blocks =
            offset_bytes / CACHE_BLOCK_BYTES..(offset_bytes + length_bytes).div_ceil(CACHE_BLOCK_BYTES);
        blocks.filter(|block| self.cached.insert((file, *block))).count() == 0
    }

    fn after_stall(&self, start_ns: u64) -> u64 {
        let Some(Stall { for_ns, every_ns }) = self.timing.stall.filter(|stall| stall.every_ns > 0) else {
            return start_ns;
        };
        let phase_ns = start_ns.saturating_sub(self.origin_ns) % every_ns;
        if phase_ns + for_ns >= every_ns { start_ns + every_ns - phase_ns } else { start_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn reads(timing: Timing, arrivals: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut queue = Queue::new(timing, 0);
        let due = |(at, block): (u64, u64)| queue.due_ns(at, Direction::Read, 2, block * 4096, 4096).unwrap();
        arrivals.into_iter().zip(0..).map(due).collect()
    }

    #[test]
    fn requests_beyond_the_slots_are_queued() {
        // 10 at once on 4 slots of 1 ms: in waves of four.
        let timing = Timing { slots: Some(4), service: Span::ns(MS), ..Timing::default() };
        let due = reads(timing, [0; 10]);
        assert_eq!(due, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3].map(|wave| wave * MS));
        // Without a limit, no request waits for another.
        let timing = Timing { slots: None, ..timing };
        assert_eq!(reads(timing, [0, 5, 9]), [MS, MS + 5, MS + 9]);
    }

    #[test]
    fn byte_rate_holds_regardless_of_slots() {
        let timing = Timing { slots: Some(8), bytes_per_second: Some(4_096_000), ..Timing::default() };
        assert_eq!(reads(timing, [0; 5]), [1, 2, 3, 4, 5].map(|block| block * MS));
        // Unused bytes are not saved up.
        assert_eq!(reads(timing, [0, 10 * MS, 10 * MS]), [MS, 11 * MS, 12 * MS]);
    }

    #[test]
    fn unused_bytes_are_saved_up_to_the_burst() {
        let (bytes_per_second, burst_bytes) = (Some(4_096_000), Some(2 * 4096));
        let timing = Timing { bytes_per_second, burst_bytes, ..Timing::default() };
        assert_eq!(reads(timing, [10 * MS; 4]), [10, 10, 11, 12].map(|ms| ms * MS));
    }

    #[test]
    fn every_second_slot_is_slower() {
        let timing = Timing { slots: Some(2), service: Span::ns(MS), uneven: Some(3), ..Timing::default() };
        assert_eq!(reads(timing, [0; 5]), [1, 3, 2, 3, 4].map(|ms| ms * MS));
    }

    #[test]
    fn seek_takes_time_in_proportion_to_distance() {
        let timing = Timing { service: Span::ns(MS), seek: Some(Span::ns(8 * MS)), ..Timing::default() };
        let mut queue = Queue::new(timing, 0);
        let mut read = |offset_mib: u64, length| {
            queue.due_ns(0, Direction::Read, 2, offset_mib << 20, length).unwrap() / MS
        };
        assert_eq!([read(32, 1 << 20), read(33, 1 << 20), read(34, 0), read(500, 0)], [5, 1, 1, 9]);
    }

    #[test]
    fn answers_come_at_ticks() {
        let timing = Timing { service: Span::ns(MS), tick_ns: Some(4 * MS), ..Timing::default() };
        assert_eq!(reads(timing, [0, 3 * MS, 3 * MS + 1]), [4, 4, 8].map(|ms| ms * MS));
    }

    #[test]
    fn requests_during_a_stall_start_after_it() {
        let stall = Some(Stall { for_ns: 20 * MS, every_ns: 100 * MS });
        let timing = Timing { service: Span::ns(MS), stall, ..Timing::default() };
        let due = reads(timing, [0, 79 * MS, 80 * MS, 99 * MS, 100 * MS]);
        assert_eq!(due, [MS, 80 * MS, 101 * MS, 101 * MS, 101 * MS]);
    }

    #[test]
    fn slow_share_and_spread_of_service_times_match_spec() {
        let slow = Some(Slow { share: 0.25, service: Span::ns(20 * MS) });
        let timing = Timing { service: Span::ns(2 * MS), slow, ..Timing::default() };
        let due = reads(timing, [0; 10_000]);
        let late = due.iter().filter(|due| **due == 20 * MS).count();
        assert!(late + due.iter().filter(|due| **due == 2 * MS).count() == 10_000);
        // Three standard deviations of a share of 0.25 in 10,000.
        assert!((2370..2630).contains(&late), "{late}");
        let timing = Timing { service: Span { from_ns: MS, to_ns: 3 * MS }, ..Timing::default() };
        let due = reads(timing, [0; 10_000]);
        let mean = due.iter().sum::<u64>() as f64 / 10_000.0;
        assert!(
            due.iter().all(|due| (MS..=3 * MS).contains(due)) && (mean / (2 * MS) as f64 - 1.0).abs() < 0.02
        );
    }

    #[test]
    fn service_time_steps_at_depth_count_and_size() {
        let step = |count| Some(ServiceStep { count, service: Span::ns(3 * MS) });
        let timing = Timing { service: Span::ns(MS), ..Timing::default() };
        let crowded = Timing { crowded: step(2), ..timing };
        assert_eq!(reads(crowded, [0, 0, 0, MS, MS, 3 * MS]), [1, 1, 3, 2, 4, 4].map(|ms| ms * MS));
        let spent = Timing { spent: step(2), ..timing };
        assert_eq!(reads(spent, [0, 10 * MS, 20 * MS]), [1, 11, 23].map(|ms| ms * MS));
        let mut queue = Queue::new(Timing { large: step(4096), ..timing }, 0);
        let mut due = |length| queue.due_ns(0, Direction::Write, 2, 0, length).unwrap() / MS;
        assert_eq!([due(4096), due(8192)], [1, 3]);
    }

    #[test]
    fn previously_read_blocks_are_served_from_cache() {
        let timing = Timing { service: Span::ns(10 * MS), cache: Some(Span::ns(MS)), ..Timing::default() };
        let mut queue = Queue::new(timing, 0);
        let mut read =
            |file, offset, length| queue.due_ns(0, Direction::Read, file, offset, length).unwrap() / MS;
        assert_eq!([read(2, 0, 8192), read(2, 4096, 4096), read(2, 4096, 8192)], [10, 1, 10]);
        assert_eq!([read(2, 8192, 512), read(3, 0, 4096), read(3, 0, 4096)], [1, 10, 1]);
    }

    #[test]
    fn only_timed_directions_have_a_service_time() {
        let timing = Timing { service: Span::ns(MS), timed: TimedDirections::Reads, ..Timing::default() };
        let due = |timing, direction| Queue::new(timing, 0).due_ns(0, direction, 2, 0, 4096);
        assert_eq!(due(timing, Direction::Read), Some(MS));
        assert_eq!(due(timing, Direction::Write), None);
        assert_eq!(due(timing, Direction::Sync), None);
        let timing = Timing { sync: Some(Span::ns(5 * MS)), ..timing };
        assert_eq!(due(timing, Direction::Sync), Some(5 * MS));
        assert_eq!(due(timing, Direction::Name), None);
        let timing = Timing { names: Some(Span::ns(7 * MS)), timed: TimedDirections::Writes, ..timing };
        assert_eq!((due(timing, Direction::Name), due(timing, Direction::Read)), (Some(7 * MS), None));
        assert_eq!(due(Timing::default(), Direction::Read), None);
        assert_eq!(due(Timing { slots: Some(1), ..Timing::default() }, Direction::Read), None);
    }

    #[test]
    fn name_operations_take_slots_but_no_bandwidth() {
        let names = Some(Span::ns(5 * MS));
        let timing = Timing { slots: Some(2), names, bytes_per_second: Some(4_096_000), ..Timing::default() };
        let mut queue = Queue::new(timing, 0);
        let mut due = |direction, length| queue.due_ns(0, direction, 2, 0, length).unwrap() / MS;
        // Two at a time; the write begins when the first slot is free, and takes a millisecond to move.
        assert_eq!(
            [due(Direction::Name, 0), due(Direction::Name, 0), due(Direction::Write, 4096)],
            [5, 5, 6]
        );
        // Neither waits for the bytes that are still to be moved.
        assert_eq!([due(Direction::Name, 0), due(Direction::Name, 0)], [10, 11]);
    }

    #[test]
    fn changed_timing_does_not_affect_requests_in_flight() {
        let timing = Timing { slots: Some(2), service: Span::ns(10 * MS), ..Timing::default() };
        let mut queue = Queue::new(timing, 0);
        let read = |queue: &mut Queue, at| queue.due_ns(at, Direction::Read, 2, 0, 4096).unwrap();
        assert_eq!([read(&mut queue, 0), read(&mut queue, 0)], [10 * MS; 2]);
        queue.set(Timing { slots: Some(3), service: Span::ns(MS), ..timing }, MS);
        assert_eq!([read(&mut queue, MS), read(&mut queue, MS)], [2 * MS, 3 * MS]);
        queue.set(Timing { slots: Some(1), ..timing }, 2 * MS);
        assert_eq!(read(&mut queue, 2 * MS), 20 * MS, "the slot that is free last");
    }
}
