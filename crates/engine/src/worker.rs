//! The measuring loop on data: keeps every slot of an engine busy, times each call, and counts.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::data::{self, STAMP_INTERVAL_BYTES, Stamp, Verifier};
use crate::failure::{Cause, Failure};
use crate::pacing::{Pacing, Start};
use crate::pattern::Pattern;
use crate::recorder::{INTERVAL_NS, Recorder};
use crate::regions::{self, Regions};
use crate::sample::{Draws, Sample};
use crate::verb::Verb;
use crate::zones::Zones;
use crate::{Call, Completion, DataEngine, Io};

/// Location of the blocks of a data set: files of equal size, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Blocks in each file.
    pub blocks_per_file: u64,
    /// Offset of the first block in each file.
    pub first_bytes: u64,
    /// Distance from one block to the next: the size of a block, or more if blocks of other workers are interleaved.
    pub step_bytes: u64,
}

impl Layout {
    /// Whole files of blocks, without gaps.
    pub const fn dense(blocks_per_file: u64, block_bytes: u64) -> Self {
        Self { blocks_per_file, first_bytes: 0, step_bytes: block_bytes }
    }

    /// Returns the file of a block and the block's number in it. A division costs as much as everything else between
    /// two calls, so a data set of one file does without it.
    #[inline]
    fn place(self, block: u64) -> (u32, u64) {
        if block < self.blocks_per_file {
            (0, block)
        } else {
            ((block / self.blocks_per_file) as u32, block % self.blocks_per_file)
        }
    }

    /// Returns the regions of this number of such files.
    pub fn regions(self, files: u64) -> Regions {
        Regions::new(files.max(1), self.first_bytes + self.blocks_per_file.saturating_mul(self.step_bytes))
    }

    #[inline]
    fn offset_bytes(self, block: u64) -> u64 {
        self.first_bytes + block * self.step_bytes
    }
}

/// Values that go into stamps, and the means to compare blocks that were read.
#[derive(Debug, Clone)]
pub struct Stamping {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the first file, which distinguishes groups of files.
    pub first_file: u32,
    /// Number of tests that wrote the data set before.
    pub generation: u32,
    /// Distance of stamps.
    pub interval_bytes: usize,
    /// Compares the data read; `None` if the data set holds nothing to compare with.
    pub verifier: Option<Verifier>,
    /// Choice of the blocks to compare.
    pub sample: Sample,
}

impl Stamping {
    /// Stamping of a separate data set that is not compared.
    pub fn unverified(seed: u64) -> Self {
        let interval_bytes = STAMP_INTERVAL_BYTES;
        Self { seed, first_file: 0, generation: 0, interval_bytes, verifier: None, sample: Sample::NONE }
    }
}

/// Limits that end a worker's loop.
#[derive(Debug)]
pub struct Limits<'a> {
    /// No operation starts after this instant.
    pub deadline_ns: u64,
    /// Raised by anyone who wants all workers to stop; checked once an interval.
    pub stop: &'a AtomicBool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    offset_bytes: u64,
    op_start_ns: u64,
    step_start_ns: u64,
    file: u32,
    step: u32,
    /// True if its operation has not started.
    is_new: bool,
    /// True if its block was returned in the previous pass.
    is_from_last_pass: bool,
}

/// Parts of a worker.
#[derive(Debug)]
pub struct WorkerParts<'a, E, C, P, V> {
    /// Calls on blocks.
    pub engine: E,
    /// Clock that times operations.
    pub clock: C,
    /// Rule for when operations start.
    pub pacing: P,
    /// Calls that make one operation.
    pub verb: V,
    /// Order of the blocks.
    pub pattern: Pattern,
    /// Location of the blocks.
    pub layout: Layout,
    /// Rules for stamping and comparing blocks.
    pub stamping: Stamping,
    /// Limits that end the loop.
    pub limits: Limits<'a>,
    /// Counts of what was done.
    pub recorder: Recorder,
}

/// The work of one thread on data.
pub struct Worker<'a, E, C, P, V> {
    engine: E,
    clock: C,
    pacing: P,
    verb: V,
    pattern: Pattern,
    layout: Layout,
    stamping: Stamping,
    limits: Limits<'a>,
    recorder: Recorder,
    slots: Box<[Slot]>,
    /// Slots that wait for an operation. Both `free` and `ready` have space for all slots.
    free: Vec<u32>,
    /// Slots ready to submit.
    ready: Vec<u32>,
    completions: Box<[Completion]>,
    /// Slots still busy with the previous pass.
    last_pass_slots: usize,
    /// A block that was returned and must wait: it is still in flight, or not due yet.
    held: Option<u64>,
    /// Blocks to read until the next one is compared.
    pieces_until_verify: u32,
    draws: Draws,
    regions: Regions,
    /// Operations from one that is counted by region to the next, and those left until the next.
    region_distance: u32,
    ops_until_region: u32,
    /// Time when the engine last returned completions.
    reaped_ns: u64,
    next_tick_ns: u64,
    /// The earlier of tick and deadline: the loop makes one comparison a visit.
    next_check_ns: u64,
    /// Due time of the next operation, in an open loop.
    due_ns: u64,
    is_stopping: bool,
    failure: Option<Failure>,
    /// Zones that it visits, if it has any.
    zones: Option<Zones>,
}

/// Result of [`Worker::step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    Continue,
    /// Nothing is in flight and nothing will start.
    Done,
}

/// Result of a worker.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct WorkerResult {
    /// End of its last operation.
    pub end_ns: u64,
    /// The first call that failed. All counts remain valid.
    pub result: Result<(), Failure>,
    /// True if the worker visited each of its blocks at least once.
    pub is_covered: bool,
    /// Operations of an open loop that were due and never started.
    pub missed: u64,
}

impl<'a, E: DataEngine, C: Clock, P: Pacing, V: Verb> Worker<'a, E, C, P, V> {
    /// A worker that begins when [`Worker::start`] is called.
    pub fn new(parts: WorkerParts<'a, E, C, P, V>) -> Self {
        let WorkerParts { engine, clock, pacing, verb, pattern, layout, stamping, limits, recorder } = parts;
        let depth = engine.depth() as usize;
        let mut draws = stamping.sample.draws();
        Self {
            engine,
            clock,
            pacing,
            verb,
            pattern,
            layout,
            pieces_until_verify: draws.distance(),
            draws,
            regions: layout.regions(1),
            region_distance: regions::FIRST_DISTANCE,
            ops_until_region: regions::FIRST_DISTANCE,
            stamping,
            limits,
            recorder,
            slots: vec![Slot::default(); depth].into(),
            free: (0..depth as u32).rev().collect(),
            ready: Vec::with_capacity(depth),
            completions: vec![Completion { slot: 0, result: 0 }; depth].into(),
            last_pass_slots: 0,
            held: None,
            reaped_ns: 0,
            next_tick_ns: 0,
            next_check_ns: 0,
            due_ns: 0,
            is_stopping: false,
            failure: None,
            zones: None,
        }
    }

    /// The same worker, but it visits zones one after the other in place of its pattern. Their times are exact if one
    /// operation is in flight. It waits for the last operation of a zone in any case.
    #[must_use]
    pub fn in_zones(mut self, zones: Zones) -> Self {
        self.pattern = zones.pattern().unwrap_or_else(|| Pattern::new(0, 1, false, 0, 0));
        self.zones = Some(zones);
        self
    }

    /// The same worker, but its data set has these regions; otherwise, it has those of a single file.
    #[must_use]
    pub fn in_regions(mut self, regions: Regions) -> Self {
        self.regions = regions;
        self
    }

    /// The worker's engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Sets the time axis: the phase began at `start_ns`.
    pub fn start(&mut self, start_ns: u64) {
        self.recorder.start(start_ns);
        self.pacing.begin(start_ns);
        self.reaped_ns = start_ns;
        self.next_tick_ns = start_ns + INTERVAL_NS;
        self.next_check_ns = self.next_tick_ns.min(self.limits.deadline_ns);
        self.is_stopping = start_ns >= self.limits.deadline_ns;
        self.zones.iter_mut().for_each(|zones| zones.begin(start_ns));
    }

    /// Begins at `start_ns`, as all workers do. Runs until the stop rule holds or a call fails.
    // Not inlined: each loop is a separate function, so that a test can count them.
    #[inline(never)]
    pub fn run(mut self, start_ns: u64) -> WorkerResult {
        self.clock.wait_until(start_ns);
        self.start(start_ns);
        while self.step() == Progress::Continue {}
        self.end()
    }

    /// Ends the worker and sends the remaining counts.
    pub fn end(mut self) -> WorkerResult {
        let end_ns = self.clock.now_ns();
        self.recorder.finish(end_ns);
        WorkerResult {
            end_ns,
            result: self.failure.map_or(Ok(()), Err),
            // A block that was handed out but never begun may have been the last one.
            is_covered: self.pattern.is_covered() && self.held.is_none(),
            missed: self.pacing.missed(end_ns.min(self.limits.deadline_ns)),
        }
    }

    /// Submits what can start, waits for one completion and handles all that have arrived.
    #[inline]
    pub fn step(&mut self) -> Progress {
        self.launch();
        self.reap_completions()
    }

    /// Fills free slots and passes every operation that can start to the engine.
    #[inline]
    pub fn launch(&mut self) {
        if !self.is_stopping {
            if P::IS_OPEN { self.fill_due() } else { self.fill() }
        }
        if self.ready.is_empty() {
            return;
        }
        // Stamping is done by now: that is work of the loop, not of the device. Calls submitted together share one
        // start time, never later than the call itself.
        let now_ns = self.clock.now_ns();
        self.recorder.idle_slots(self.ready.len() as u64, now_ns.saturating_sub(self.reaped_ns));
        for &slot in &self.ready {
            let state = &mut self.slots[slot as usize];
            state.step_start_ns = now_ns;
            if V::IS_SINGLE || state.is_new {
                if P::IS_OPEN {
                    self.recorder.queueing(now_ns.saturating_sub(state.op_start_ns));
                } else {
                    state.op_start_ns = now_ns;
                }
            }
            let Slot { file, offset_bytes, step, .. } = *state;
            self.engine.queue(Io { slot, call: self.verb.call(step as usize), file, offset_bytes });
        }
        self.ready.clear();
    }

    #[inline]
    fn fill(&mut self) {
        while let Some(slot) = self.free.pop() {
            let Some(block) = self.next_block(slot) else {
                self.free.push(slot);
                return;
            };
            self.begin(slot, block, 0);
        }
    }

    /// Starts the operations that are due. Operations without a free slot stay due.
    #[inline]
    fn fill_due(&mut self) {
        let now_ns = self.clock.now_ns();
        self.due_ns = u64::MAX;
        while let Some(slot) = self.free.pop() {
            let Some(block) = self.next_block(slot) else {
                self.free.push(slot);
                return;
            };
            match self.pacing.next(now_ns) {
                Start::Now { intended_ns } => self.begin(slot, block, intended_ns),
                Start::Later { at_ns } => {
                    self.due_ns = at_ns;
                    self.held = Some(block);
                    self.free.push(slot);
                    return;
                }
            }
        }
    }

    /// Returns the block of the next operation, meant for `slot`. Returns `None` if no operation can start now: all are
    /// done, or the next one must wait.
    #[inline]
    fn next_block(&mut self, slot: u32) -> Option<u64> {
        let block = match self.held.take() {
            Some(block) => block,
            None if self.verb.writes() && self.pattern.is_at_end_of_pass() && !self.begin_pass(slot) => {
                return None;
            }
            None => match self.pattern.next_block() {
                Some(block) => block,
                None => return self.next_zone(),
            },
        };
        if self.verb.writes() && self.last_pass_slots > 0 && self.is_in_flight(block) {
            self.held = Some(block);
            return None;
        }
        Some(block)
    }

    /// Ends a zone, and returns the first block of the next one. Without another one, nothing more starts.
    #[cold]
    fn next_zone(&mut self) -> Option<u64> {
        // One slot is in hand. The zone ends with the operations in all others.
        let is_whole = self.free.len() + 1 == self.slots.len();
        let next = match &mut self.zones {
            Some(_) if !is_whole => return None,
            Some(zones) => zones.next(self.reaped_ns),
            None => None,
        };
        let Some(pattern) = next else {
            self.is_stopping = true;
            return None;
        };
        self.pattern = pattern;
        self.pattern.next_block()
    }

    /// Moves the rest of a block, as every program does after a short read or write. Returns the time at which the block is
    /// whole. A read of zones may end with the data, in the last block: this one counts with the bytes that it read. All
    /// other calls that do not move their block fail.
    #[cold]
    #[inline(never)]
    fn continue_short(
        &mut self,
        slot: &Slot,
        call: Call,
        mut completion: Completion,
        now_ns: u64,
    ) -> Option<u64> {
        let block_bytes = self.engine.block_bytes();
        let mut bytes = completion.outcome().map_or(0, u64::from);
        let io = Io { slot: completion.slot, call, file: slot.file, offset_bytes: slot.offset_bytes };
        while 0 < bytes && bytes < block_bytes {
            match self.engine.move_rest(io, bytes as usize) {
                Ok(more) if more > 0 => bytes += more as u64,
                Err(Errno::INTR) => {}
                // A direct call cannot begin within a sector.
                Ok(_) | Err(Errno::INVAL) => break,
                Err(errno) => {
                    completion.result = -errno.raw_os_error();
                    self.fail(failure(slot, call, completion, block_bytes));
                    return None;
                }
            }
        }
        if bytes > 0 {
            if bytes == block_bytes {
                self.recorder.short_call();
                return Some(self.clock.now_ns());
            }
            completion.result = bytes as i32;
        }
        let ends = |zones: &Zones| zones.end_at(slot.offset_bytes + bytes);
        if bytes == 0 || !self.zones.as_ref().is_some_and(ends) {
            self.fail(failure(slot, call, completion, block_bytes));
        } else {
            self.recorder.read(bytes);
            self.recorder.operation(now_ns.saturating_sub(slot.op_start_ns), bytes);
        }
        None
    }

    /// Marks all slots in flight, all but the free ones and `in_hand`, as part of the pass that ends here. Returns
    /// false if a slot still belongs to the pass before: two passes may overlap, three may not. In a skewed order, a pass
    /// is a single block, and any number of them overlap.
    #[cold]
    fn begin_pass(&mut self, in_hand: u32) -> bool {
        if self.last_pass_slots > 0 && !self.pattern.is_skewed() {
            return false;
        }
        self.slots.iter_mut().for_each(|slot| slot.is_from_last_pass = true);
        for idle in self.free.iter().chain([&in_hand]) {
            self.slots[*idle as usize].is_from_last_pass = false;
        }
        self.last_pass_slots = self.slots.len() - self.free.len() - 1;
        true
    }

    /// True if a block of the last pass is still in flight. No block may be written twice at once, because the final
    /// data would be undefined.
    #[cold]
    fn is_in_flight(&self, block: u64) -> bool {
        let (file, block) = self.layout.place(block);
        let offset_bytes = self.layout.offset_bytes(block);
        let is_same = |slot: &Slot| (slot.file, slot.offset_bytes) == (file, offset_bytes);
        self.slots.iter().any(|slot| slot.is_from_last_pass && is_same(slot))
    }

    #[inline]
    fn begin(&mut self, slot: u32, block: u64, op_start_ns: u64) {
        let (file, block) = self.layout.place(block);
        let state = &mut self.slots[slot as usize];
        (state.file, state.offset_bytes) = (file, self.layout.offset_bytes(block));
        state.step = self.verb.first() as u32;
        (state.op_start_ns, state.is_new) = (op_start_ns, true);
        self.prepare(slot);
    }

    /// Prepares the buffer of a slot for its next call.
    #[inline]
    fn prepare(&mut self, slot: u32) {
        let Slot { file, offset_bytes, step, .. } = self.slots[slot as usize];
        if self.verb.call(step as usize) == Call::Write {
            let draft = self.engine.draft(slot);
            if !draft.is_duplicate {
                let Stamping { seed, first_file, generation, interval_bytes, .. } = self.stamping;
                let (file, phase_bytes) = (first_file + file, draft.phase_bytes);
                let stamp = Stamp { seed, file, generation, offset_bytes, phase_bytes };
                data::stamp(draft.bytes, interval_bytes, stamp);
            }
        }
        self.ready.push(slot);
    }

    /// Time at which the loop must act even if nothing completes: a due operation has a slot, or the loop looks up.
    /// Returns `None` in a closed loop: until its end, some call is always in flight.
    pub fn wakes_at(&self) -> Option<u64> {
        let due_ns = if self.free.is_empty() { u64::MAX } else { self.due_ns };
        (P::IS_OPEN && !self.is_stopping).then(|| due_ns.min(self.next_check_ns))
    }

    /// True if nothing is in flight and nothing will start.
    pub fn is_done(&self) -> bool {
        self.is_stopping && self.free.len() == self.slots.len()
    }

    /// Waits for one completion, and handles all that have arrived.
    #[inline]
    pub fn reap_completions(&mut self) -> Progress {
        let until_ns = self.wakes_at().unwrap_or(u64::MAX);
        if self.free.len() == self.slots.len() {
            if self.is_stopping {
                return Progress::Done;
            }
            // In an open loop it may take a while until an operation is due.
            self.clock.wait_until(until_ns);
        }
        // Of the completions that the last visit kept back.
        let left = self.engine.unreaped_count() as u64;
        let count = match self.engine.reap(&mut self.completions, until_ns) {
            Ok(count) => count,
            Err(errno) => {
                self.fail(Failure { call: "submit", file: 0, offset_bytes: None, cause: errno.into() });
                // Calls in flight cannot be waited for. The engine owns their buffers and does not free them.
                return Progress::Done;
            }
        };
        // Completions returned together share one end time. Held-back completions end later because of the loop, which
        // `idle_slots` counts.
        let now_ns = self.clock.now_ns();
        self.recorder.idle_slots(left, now_ns.saturating_sub(self.reaped_ns));
        self.reaped_ns = now_ns;
        if count > 0 {
            self.recorder.visit();
        }
        for index in 0..count {
            let completion = self.completions[index];
            self.complete(completion, now_ns);
        }
        if now_ns >= self.next_check_ns {
            self.check_time(now_ns);
        }
        Progress::Continue
    }

    #[inline]
    fn complete(&mut self, completion: Completion, now_ns: u64) {
        let slot = completion.slot;
        let state = self.slots[slot as usize];
        let call = self.verb.call(state.step as usize);
        let block_bytes = self.engine.block_bytes();
        let moved = if call.moves() { block_bytes as i32 } else { 0 };
        let now_ns = if completion.result == moved {
            now_ns
        } else if let Some(ended_ns) = self.continue_short(&state, call, completion, now_ns) {
            ended_ns
        } else {
            self.release(slot);
            return;
        };
        match call {
            Call::Read => {
                self.recorder.read(block_bytes);
                self.pieces_until_verify -= 1;
                if self.pieces_until_verify == 0 {
                    self.verify(slot);
                }
            }
            Call::Write => self.recorder.write(block_bytes),
            Call::Datasync | Call::Discard => {}
        }
        if !V::IS_SINGLE {
            self.recorder.step(state.step as usize, now_ns.saturating_sub(state.step_start_ns));
            if self.failure.is_some() {
                self.release(slot);
                return;
            }
        }
        match self.verb.after(state.step as usize) {
            Some(step) => {
                let state = &mut self.slots[slot as usize];
                (state.step, state.is_new) = (step as u32, false);
                self.prepare(slot);
            }
            None => {
                let latency_ns = now_ns.saturating_sub(state.op_start_ns);
                self.recorder.operation(latency_ns, block_bytes);
                self.ops_until_region -= 1;
                if self.ops_until_region == 0 {
                    self.count_by_region(&state, latency_ns);
                }
                self.release(slot);
            }
        }
    }

    #[cold]
    fn count_by_region(&mut self, slot: &Slot, latency_ns: u64) {
        self.ops_until_region = self.region_distance;
        self.recorder.region(self.regions.region(slot.file.into(), slot.offset_bytes), latency_ns);
    }

    /// Frees a slot whose operation has ended.
    #[inline]
    fn release(&mut self, slot: u32) {
        if self.verb.writes() {
            let state = &mut self.slots[slot as usize];
            self.last_pass_slots -= usize::from(state.is_from_last_pass);
            state.is_from_last_pass = false;
        }
        self.free.push(slot);
    }

    /// Compares the block that a slot has read with the data written there.
    #[cold]
    fn verify(&mut self, slot: u32) {
        self.pieces_until_verify = self.draws.distance();
        let Some(verifier) = &self.stamping.verifier else { return };
        let Slot { file, offset_bytes, step, .. } = self.slots[slot as usize];
        let block = self.engine.block_read(slot);
        let own = self.stamping.generation..=self.stamping.generation;
        // After its own write, an operation must not find anything older.
        let is_own = self.verb.steps()[..step as usize].contains(&Call::Write);
        let generations = if is_own { &own } else { &verifier.generations };
        match verifier.verify_generations(generations, block, self.stamping.first_file + file, offset_bytes) {
            Ok(()) => self.recorder.verified(),
            Err(mismatch) => self.fail(Failure {
                call: "verify",
                file: file.into(),
                offset_bytes: Some(offset_bytes),
                cause: Cause::Mismatch(mismatch),
            }),
        }
    }

    /// Starts nothing new after a failure. Only the first failure is reported.
    #[cold]
    fn fail(&mut self, failure: Failure) {
        self.is_stopping = true;
        self.failure.get_or_insert(failure);
    }

    #[cold]
    fn check_time(&mut self, now_ns: u64) {
        if now_ns >= self.next_tick_ns {
            self.region_distance = regions::distance(self.recorder.ops());
            self.recorder.hand_over(now_ns);
            let missed = (now_ns - self.next_tick_ns) / INTERVAL_NS;
            self.next_tick_ns += (missed + 1) * INTERVAL_NS;
        }
        self.is_stopping |= now_ns >= self.limits.deadline_ns || self.limits.stop.load(Ordering::Relaxed);
        self.next_check_ns = self.next_tick_ns.min(self.limits.deadline_ns.max(now_ns + 1));
    }
}

#[cold]
fn failure(slot: &Slot, call: Call, completion: Completion, wanted_bytes: u64) -> Failure {
    let cause = match completion.outcome() {
        Ok(got_bytes) => Cause::Short { got_bytes: got_bytes as usize, wanted_bytes: wanted_bytes as usize },
        Err(errno) => Cause::Errno(errno),
    };
    Failure { call: call.name(), file: slot.file.into(), offset_bytes: Some(slot.offset_bytes), cause }
}

#[cfg(test)]
mod tests;
