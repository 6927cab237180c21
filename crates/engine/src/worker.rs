//! The measuring loop on data: keeps every slot of an engine busy, times each call, counts.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use crate::clock::Clock;
use crate::data::{self, Stamp};
use crate::failure::{Cause, Failure};
use crate::pacing::Pacing;
use crate::pattern::Pattern;
use crate::recorder::{INTERVAL_NS, Recorder};
use crate::verb::Verb;
use crate::{Call, Completion, DataEngine, Io};

/// Where the blocks of a data set lie: files of equal size, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Bytes of one block of this test.
    pub block_bytes: u64,
    /// Blocks in each file.
    pub blocks_per_file: u64,
}

impl Layout {
    /// The file of a block, and its number there. A division costs as much as everything else between two calls, so
    /// that it is left out where a data set is one file.
    #[inline]
    fn place(self, block: u64) -> (usize, u64) {
        if block < self.blocks_per_file {
            (0, block)
        } else {
            ((block / self.blocks_per_file) as usize, block % self.blocks_per_file)
        }
    }
}

/// What the blocks are stamped with.
#[derive(Debug, Clone, Copy)]
pub struct Stamping {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the first file, which sets the shared file apart from the separate ones.
    pub first_file: u32,
    /// How many tests wrote the data set before.
    pub generation: u32,
}

/// When a worker looks up from its loop.
#[derive(Debug)]
pub struct Limits<'a> {
    /// No operation starts after this instant.
    pub deadline_ns: u64,
    /// Raised by whoever wants all workers to stop; looked at once an interval.
    pub stop: &'a AtomicBool,
}

struct Slot {
    file: usize,
    offset_bytes: u64,
    step: usize,
    op_start_ns: u64,
    step_start_ns: u64,
}

/// A thread's work on data.
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
    free: Vec<usize>,
    completions: Box<[Completion]>,
    next_tick_ns: u64,
    /// At which of tick and deadline the loop looks up next: one comparison an operation.
    look_up_ns: u64,
    drained: bool,
}

/// How far [`Worker::step`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    Continue,
    /// Nothing is in flight and nothing will start.
    Done,
}

impl<'a, E: DataEngine, C: Clock, P: Pacing, V: Verb> Worker<'a, E, C, P, V> {
    /// A worker that will start when [`Worker::start`] is called.
    #[expect(clippy::too_many_arguments, reason = "each is one independent part of a worker")]
    pub fn new(
        engine: E,
        clock: C,
        pacing: P,
        verb: V,
        pattern: Pattern,
        layout: Layout,
        stamping: Stamping,
        limits: Limits<'a>,
        recorder: Recorder,
    ) -> Self {
        let depth = engine.depth();
        let slot = |_| Slot { file: 0, offset_bytes: 0, step: 0, op_start_ns: 0, step_start_ns: 0 };
        Self {
            engine,
            clock,
            pacing,
            verb,
            pattern,
            layout,
            stamping,
            limits,
            recorder,
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).collect(),
            completions: vec![Completion { slot: 0, result: Ok(0) }; depth].into(),
            next_tick_ns: 0,
            look_up_ns: 0,
            drained: false,
        }
    }

    /// Kinds of calls that need a histogram of their own: none where an operation is one call.
    pub fn recorded_steps() -> usize {
        if V::STEPS.len() > 1 { V::STEPS.len() } else { 0 }
    }

    /// Sets the time axis: the phase began at `start_ns`.
    pub fn start(&mut self, start_ns: u64) {
        self.recorder.start(start_ns);
        self.next_tick_ns = start_ns + INTERVAL_NS;
        self.look_up_ns = self.next_tick_ns.min(self.limits.deadline_ns);
        self.drained = start_ns >= self.limits.deadline_ns;
    }

    /// Runs until the stop rule holds or a call fails; returns when the last operation ended.
    ///
    /// # Errors
    /// The first call that failed. What was counted before stands.
    pub fn run(mut self, start_ns: u64) -> (u64, Result<(), Failure>) {
        self.start(start_ns);
        let result = loop {
            match self.step() {
                Ok(Progress::Continue) => {}
                Ok(Progress::Done) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        let end_ns = self.clock.now_ns();
        self.recorder.finish(end_ns);
        (end_ns, result)
    }

    /// Fills free slots, submits, waits for one completion and handles all that have arrived.
    ///
    /// # Errors
    /// The first call that failed.
    #[inline]
    pub fn step(&mut self) -> Result<Progress, Failure> {
        if !self.drained {
            self.fill();
        }
        if self.free.len() == self.slots.len() {
            return Ok(Progress::Done);
        }
        let whole =
            |errno: Errno| Failure { call: "submit", file: 0, offset_bytes: None, cause: errno.into() };
        self.engine.commit().map_err(whole)?;
        let count = self.engine.reap(&mut self.completions).map_err(whole)?;
        for index in 0..count {
            let Completion { slot, result } = self.completions[index];
            let now_ns = self.clock.now_ns();
            self.complete(slot, result, now_ns)?;
        }
        Ok(Progress::Continue)
    }

    #[inline]
    fn fill(&mut self) {
        while let Some(slot) = self.free.pop() {
            let Some(block) = self.pattern.next_block() else {
                self.free.push(slot);
                self.drained = true;
                return;
            };
            let state = &mut self.slots[slot];
            let (file, block) = self.layout.place(block);
            (state.file, state.offset_bytes) = (file, block * self.layout.block_bytes);
            state.step = self.verb.first();
            // The buffer is made ready before the clock is read: that is our work, not the device's.
            self.prepare(slot);
            let start_ns = self.pacing.start_ns(self.clock.now_ns());
            let state = &mut self.slots[slot];
            (state.op_start_ns, state.step_start_ns) = (start_ns, start_ns);
            self.queue(slot);
        }
    }

    #[inline]
    fn prepare(&mut self, slot: usize) {
        let Slot { file, offset_bytes, step, .. } = self.slots[slot];
        if V::STEPS[step] == Call::Write {
            let block = self.engine.block_to_write(slot, offset_bytes);
            let Stamping { seed, first_file, generation } = self.stamping;
            data::stamp(block, Stamp { seed, file: first_file + file as u32, generation, offset_bytes });
        }
    }

    #[inline]
    fn queue(&mut self, slot: usize) {
        let Slot { file, offset_bytes, step, .. } = self.slots[slot];
        self.engine.queue(Io { slot, call: V::STEPS[step], file, offset_bytes });
    }

    #[inline]
    fn complete(&mut self, slot: usize, result: Result<usize, Errno>, now_ns: u64) -> Result<(), Failure> {
        let state = &self.slots[slot];
        let call = V::STEPS[state.step];
        let block_bytes = self.layout.block_bytes;
        match (call, result) {
            (Call::Datasync, Ok(_)) => {}
            (Call::Read, Ok(bytes)) if bytes as u64 == block_bytes => self.recorder.read(block_bytes),
            (Call::Write, Ok(bytes)) if bytes as u64 == block_bytes => self.recorder.written(block_bytes),
            (_, result) => return Err(failure(state, call, result, block_bytes)),
        }
        if V::STEPS.len() > 1 {
            self.recorder.step(state.step, now_ns.saturating_sub(state.step_start_ns));
        }
        match V::after(state.step) {
            Some(step) => {
                let state = &mut self.slots[slot];
                state.step = step;
                self.prepare(slot);
                self.slots[slot].step_start_ns = self.clock.now_ns();
                self.queue(slot);
            }
            None => {
                self.recorder.operation(now_ns.saturating_sub(state.op_start_ns), block_bytes);
                self.free.push(slot);
                if now_ns >= self.look_up_ns {
                    self.look_up(now_ns);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn look_up(&mut self, now_ns: u64) {
        if now_ns >= self.next_tick_ns {
            self.recorder.hand_over(now_ns);
            let missed = (now_ns - self.next_tick_ns) / INTERVAL_NS;
            self.next_tick_ns += (missed + 1) * INTERVAL_NS;
        }
        self.drained |= now_ns >= self.limits.deadline_ns || self.limits.stop.load(Ordering::Relaxed);
        self.look_up_ns = self.next_tick_ns.min(self.limits.deadline_ns.max(now_ns + 1));
    }
}

#[cold]
fn failure(slot: &Slot, call: Call, result: Result<usize, Errno>, wanted_bytes: u64) -> Failure {
    let cause = match result {
        Ok(got_bytes) => Cause::Short { got_bytes, wanted_bytes: wanted_bytes as usize },
        Err(errno) => Cause::Errno(errno),
    };
    Failure { call: call.name(), file: slot.file as u64, offset_bytes: Some(slot.offset_bytes), cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::ClosedLoop;
    use crate::pattern::Stream;
    use crate::verb;
    use std::cell::Cell;
    use std::rc::Rc;

    /// A clock that only the device below moves on.
    #[derive(Clone, Default)]
    struct Virtual(Rc<Cell<u64>>);

    impl Clock for Virtual {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }
    }

    /// Every call takes `service_ns`; `depth` of them overlap. The call with the number `fails` fails.
    struct Device {
        clock: Virtual,
        depth: usize,
        service_ns: u64,
        queue: Vec<Io>,
        block: Vec<u8>,
        calls: u64,
        fails: Option<(u64, Result<usize, Errno>)>,
    }

    impl DataEngine for Device {
        fn depth(&self) -> usize {
            self.depth
        }

        fn block_to_write(&mut self, _: usize, _: u64) -> &mut [u8] {
            &mut self.block
        }

        fn queue(&mut self, io: Io) {
            self.queue.push(io);
        }

        fn commit(&mut self) -> Result<(), Errno> {
            Ok(())
        }

        fn reap(&mut self, done: &mut [Completion]) -> Result<usize, Errno> {
            self.clock.0.set(self.clock.0.get() + self.service_ns);
            let count = self.queue.len();
            for (slot, io) in done.iter_mut().zip(self.queue.drain(..)) {
                let moved = if io.call == Call::Datasync { 0 } else { 4096 };
                let result = match self.fails {
                    Some((call, result)) if call == self.calls => result,
                    _ => Ok(moved),
                };
                self.calls += 1;
                *slot = Completion { slot: io.slot, result };
            }
            Ok(count)
        }
    }

    struct Outcome {
        ops: u64,
        read_bytes: u64,
        written_bytes: u64,
        deltas: usize,
        latencies: Vec<(u64, u64)>,
        steps: Vec<u64>,
        result: Result<(), Failure>,
        end_ns: u64,
    }

    fn run<V: Verb>(
        verb: V,
        depth: usize,
        limit: u64,
        deadline_ns: u64,
        fails: Option<(u64, Result<usize, Errno>)>,
    ) -> Outcome {
        let clock = Virtual::default();
        let device = Device {
            clock: clock.clone(),
            depth,
            service_ns: 1_000_000,
            queue: vec![],
            block: vec![0; 4096],
            calls: 0,
            fails,
        };
        let (recorder, reader) = Recorder::new(Worker::<Device, Virtual, ClosedLoop, V>::recorded_steps());
        let stop = AtomicBool::new(false);
        let pattern = Pattern::new(Stream::new(0, 100, false, 1, limit), 1);
        let mut worker = Worker::new(
            device,
            clock,
            ClosedLoop,
            verb,
            pattern,
            Layout { block_bytes: 4096, blocks_per_file: 25 },
            Stamping { seed: 1, first_file: 0, generation: 0 },
            Limits { deadline_ns, stop: &stop },
            recorder,
        );
        let mut outcome = Outcome {
            ops: 0,
            read_bytes: 0,
            written_bytes: 0,
            deltas: 0,
            latencies: vec![],
            steps: vec![0; 3],
            result: Ok(()),
            end_ns: 0,
        };
        let mut take = |reader: &crate::recorder::DeltaReader| {
            reader.drain(|delta| {
                outcome.ops += delta.ops;
                outcome.read_bytes += delta.read_bytes;
                outcome.written_bytes += delta.written_bytes;
                outcome.deltas += 1;
                outcome.latencies.extend(delta.latencies.buckets());
                for (sum, step) in outcome.steps.iter_mut().zip(&delta.steps) {
                    *sum += step.count();
                }
            });
        };
        worker.start(0);
        let result = loop {
            match worker.step() {
                Ok(Progress::Continue) => take(&reader),
                Ok(Progress::Done) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        let end_ns = worker.clock.now_ns();
        worker.recorder.finish(end_ns);
        take(&reader);
        Outcome { result, end_ns, ..outcome }
    }

    #[test]
    fn counts_end_a_phase_exactly() {
        let outcome = run(verb::Read, 1, 250, u64::MAX, None);
        assert_eq!((outcome.ops, outcome.read_bytes, outcome.written_bytes), (250, 250 * 4096, 0));
        assert_eq!(outcome.end_ns, 250_000_000);
        assert_eq!(outcome.deltas, 3, "one delta per 100 ms");
        assert!(outcome.result.is_ok());
    }

    #[test]
    fn time_ends_a_phase_and_what_is_in_flight_is_still_counted() {
        let outcome = run(verb::Read, 4, u64::MAX, 10_500_000, None);
        // Eleven rounds of four: the last began at 10 ms.
        assert_eq!((outcome.ops, outcome.end_ns), (44, 11_000_000));
        assert!(outcome.latencies.iter().all(|(upper_ns, _)| upper_ns.abs_diff(1_000_000) < 10_000));
    }

    #[test]
    fn steps_are_counted_apart_and_operations_once() {
        let outcome = run(verb::RewriteDurably, 1, 10, u64::MAX, None);
        assert_eq!((outcome.ops, outcome.read_bytes, outcome.written_bytes), (10, 40_960, 40_960));
        assert_eq!(outcome.steps, [10, 10, 10]);
        assert!(outcome.latencies.iter().all(|(upper_ns, _)| upper_ns.abs_diff(3_000_000) < 30_000));
    }

    #[test]
    fn failures_say_where() {
        let outcome = run(verb::Read, 1, 100, u64::MAX, Some((30, Err(Errno::IO))));
        let failure = outcome.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.offset_bytes), ("read", 1, Some(5 * 4096)));
        assert_eq!(outcome.ops, 30);
        let outcome = run(verb::Write, 1, 100, u64::MAX, Some((0, Ok(512))));
        let cause = outcome.result.unwrap_err().cause;
        assert_eq!(cause, Cause::Short { got_bytes: 512, wanted_bytes: 4096 });
    }
}
