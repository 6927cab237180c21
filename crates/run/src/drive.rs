//! Waits for a pool while something is measured: collects the workers' deltas, samples the machine, notices
//! interruptions and hangs.
//!
//! A test with rounds ends once five of them are steady (`rounds.rs`). A phase with a [`PrecisionGoal`] ends once it is
//! steady and its interval is narrow enough (`Plan::precision_goal_of`). The driver asks `steady_state` twice a second,
//! and raises the flag that workers look at once an interval. Tests on files ask after each round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::budget::Budget;
use engine::clock::{Clock, Monotonic};
use engine::recorder::{DeltaReader, INTERVAL_NS};
use model::UserError;
use model::plan::PrecisionGoal;
use model::run::Frame;
use observe::StepReader;

use crate::collect::Collector;
use crate::hang_detection;
use crate::meter::{LowWatermark, Meter};
use crate::steady_state::{self, Precision};
use crate::worker_pool::{Event, Worker, WorkerPool};
use crate::zoned::Zoned;

/// Event for the observer of a phase. A simulated phase has ticks only.
#[derive(Debug)]
pub enum PhaseEvent<'a> {
    /// A measured part begins when the observer returns, or as the observer decides. Tests on files have many parts.
    Begin(&'a mut StartSignal),
    /// State of the phase, ten times a second.
    Tick(&'a Tick<'a>),
    /// A measured part has ended. A part that never began may end, too.
    End,
    /// No other part follows, and the record is made now. A phase that never began sends this event, too.
    Over,
}

/// Begin of a measured part, which the observer may choose: clients of one run begin together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StartSignal {
    /// Instant at which it begins on [`Monotonic`]; at once without one.
    pub at_ns: Option<u64>,
    /// True if it does not begin: the phase ends with the parts before it.
    pub is_cancelled: bool,
}

/// State of a phase for the live view, ten times a second.
#[derive(Debug)]
pub struct Tick<'a> {
    /// Time since the start of the phase.
    pub elapsed_ns: u64,
    /// Operations so far.
    pub ops: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// 99th percentile so far, if it is known.
    pub p99_ns: Option<u64>,
    /// Time since anything moved.
    pub still: Duration,
    /// Precision of the rate, once it is steady.
    pub known: Option<Precision>,
    /// Counters of the machine since the last tick, while something is measured.
    pub frame: Option<&'a Frame>,
    /// Zones of the test, if it has any.
    pub zones: Option<&'a Zoned>,
    /// Clients that make it together; `None` if this process makes it.
    pub clients: Option<ClientsNow<'a>>,
}

/// Clients in a running test.
#[derive(Debug, Clone)]
pub struct ClientsNow<'a> {
    /// Name of the slowest client, and its operations per second so far; `None` while none has worked.
    pub slowest: Option<(&'a str, f64)>,
    /// Names of the clients that are lost.
    pub lost: Vec<&'a str>,
}

/// Time at which answers are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Deadline that the members know too.
    By(u64),
    /// Any time while operations end or data moves.
    WhileProgressing {
        /// Time that a single operation may take beyond the usual.
        slack_ns: u64,
        /// True if CPU time of a worker also counts as progress: a ring may make many calls in a row before any is
        /// counted. A worker that fills the page cache also wakes without progress, so its CPU time proves nothing.
        counts_cpu_time: bool,
    },
    /// Any time while data moves: writing back a full cache takes as long as it takes.
    WhileTransferring {
        /// Time that a server may take for data that it has received and not yet stored.
        slack_ns: u64,
    },
}

impl Expected {
    /// Returns the instant until which an answer is not late. Workers were told to stop at `stopped_ns`, and something moved at
    /// `moved_ns`.
    fn end_ns(self, stopped_ns: Option<u64>, moved_ns: u64) -> u64 {
        match (self, stopped_ns) {
            (_, Some(stopped_ns)) if hang_detection::is_timeout_short() => stopped_ns,
            (_, Some(stopped_ns)) => stopped_ns.max(moved_ns),
            (Self::By(deadline_ns), None) => deadline_ns.max(moved_ns),
            (Self::WhileProgressing { slack_ns, .. } | Self::WhileTransferring { slack_ns }, None) => {
                moved_ns.saturating_add(slack_ns)
            }
        }
    }

    fn counts_cpu_time(self) -> bool {
        matches!(self, Self::WhileProgressing { counts_cpu_time: true, .. })
    }
}

/// Signs that members are not hanging.
struct Movement {
    /// Time of the last sign.
    moved_ns: u64,
    /// True if operations have ended or data has moved.
    has_moved: bool,
    /// Operations until then.
    ops: u64,
    /// How often threads had been scheduled by the last check.
    scheduled: u64,
    /// Time of the last wake-up of the driver.
    awake_ns: u64,
}

impl Movement {
    fn new(ops: u64) -> Self {
        let now_ns = Monotonic.now_ns();
        Self { moved_ns: now_ns, has_moved: false, ops, scheduled: 0, awake_ns: now_ns }
    }

    fn still(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns - self.moved_ns)
    }

    /// Excludes the time since the last wake-up if it is too long: no member moves while the machine or this process is
    /// stopped.
    fn exclude_pause(&mut self, now_ns: u64) {
        let pause_ns = now_ns - std::mem::replace(&mut self.awake_ns, now_ns);
        self.moved_ns += pause_ns.saturating_sub(hang_detection::POLL_MAX.as_nanos() as u64);
    }

    /// Counts CPU time of members as a sign, if there has been no other for a while.
    fn count_cpu_time<C: Send + 'static, R: Send + 'static>(&mut self, pool: &WorkerPool<C, R>, now_ns: u64) {
        if now_ns - self.moved_ns > NO_PROGRESS_NS {
            let threads = pool.busy_threads();
            let now = threads.iter().filter_map(|thread| observe::times_scheduled(*thread)).sum();
            if std::mem::replace(&mut self.scheduled, now) != now {
                self.moved_ns = now_ns;
            }
        }
    }

    /// Counts data that moved and operations that ended. Returns true if there were any.
    fn count(&mut self, has_data_moved: bool, ops: u64, now_ns: u64) -> bool {
        let has_moved = has_data_moved || ops != self.ops;
        if has_moved {
            (self.moved_ns, self.ops, self.has_moved) = (now_ns, ops, true);
        }
        has_moved
    }

    /// Returns the time after which members without a sign are hanging.
    fn deadline_ns(&self, expected: Expected, stopped_ns: Option<u64>) -> u64 {
        let timeout_ns = hang_detection::hang_timeout(self.has_moved).as_nanos() as u64;
        expected.end_ns(stopped_ns, self.moved_ns).saturating_add(timeout_ns)
    }
}

/// State of a phase in progress.
pub struct RunningPhase<'a> {
    /// Raised by a signal: all workers stop, and the phase ends as partial.
    pub interrupt: &'a Arc<AtomicBool>,
    /// The kernel's counters.
    pub meter: &'a mut Meter,
    /// Callback for every moment.
    pub on_event: &'a mut dyn FnMut(PhaseEvent<'_>),
    /// Flag that stops the workers.
    pub stop: Arc<AtomicBool>,
    /// Counts of the workers.
    pub collected: Collector,
    /// Readers of the workers' deltas.
    pub readers: Vec<DeltaReader>,
    /// Start of the phase.
    pub start_ns: u64,
    /// Lows of the machine's pages that wait to be written.
    pub low_watermark: LowWatermark,
    /// Operations of a mix, which its workers publish; none for other tests.
    pub operations: &'static [&'static str],
    /// Condition under which the workers have done enough; `None` if something else ends the phase.
    pub precision_goal: Option<PrecisionGoal>,
    /// Flag that another process raises once the workers have done enough. It takes the place of `precision_goal` in a
    /// phase of one measured part.
    pub enough: Option<Arc<AtomicBool>>,
    /// True if the phase is one measured part. Rounds have gaps between them, and end the phase by
    /// themselves.
    pub is_continuous: bool,
    /// Bytes that each worker on files may write. The first that needs more ends a phase of one measured part.
    pub budgets: Vec<Arc<Budget>>,
    /// True if the phase writes.
    pub has_writes: bool,
    /// True if the workers have done enough, and were told to stop for that.
    pub is_goal_met: bool,
    /// Precision of the rate, once it is steady.
    pub known: Option<Precision>,
    /// Time of the last check of the rate, from the start of the phase.
    pub last_check_ns: u64,
}

/// Rate below which a target counts as hanging: half of what the slowest memory cards write.
const SLOWEST_BYTES_PER_SECOND: u64 = 1_000_000;

/// Returns the longest time that this many bytes may take.
pub fn time_for_ns(bytes: u64) -> u64 {
    bytes.saturating_mul(1_000_000_000 / SLOWEST_BYTES_PER_SECOND)
}

/// Longest time for data that a server has received, in hang timeouts.
const RECEIVED_TIMEOUTS: u64 = 5;

/// Time without movement after which a pool is examined more closely.
const NO_PROGRESS_NS: u64 = 2_000_000_000;
/// Interval between checks of the rate: a check costs far less than this, but not nothing.
const CHECK_INTERVAL_NS: u64 = 500_000_000;

/// Returns the error of a client that was not to begin.
pub fn others_have_ended() -> UserError {
    UserError::new("start with the other clients", "one of them has already ended")
}

fn panicked(action: &str, message: &str) -> UserError {
    UserError::new(action, format!("a worker of skye panicked: {message}"))
        .help("please report this bug of skye")
}

impl RunningPhase<'_> {
    /// Waits until every member has answered. Answers come in the order of the members; a member that failed
    /// gives `None`.
    ///
    /// The error says that a member panicked, or did not answer within [`hang_detection::hang_timeout`] after the
    /// expected time. The other members have then been told to stop.
    pub fn answers<C: Send + 'static, R: Send + 'static>(
        &mut self,
        pool: &mut WorkerPool<C, R>,
        expected: Expected,
        is_measured: bool,
    ) -> (Vec<Option<R>>, Option<UserError>) {
        let mut answers: Vec<Option<R>> = (0..pool.len()).map(|_| None).collect();
        let (mut error, mut stopped_ns) = (None, None);
        let mut next_tick_ns = Monotonic.now_ns() + INTERVAL_NS;
        let mut movement = Movement::new(self.collected.ops);
        self.low_watermark = LowWatermark::default();
        if let Some(room) = self.meter.room() {
            room.reset();
        }
        let is_data = matches!(expected, Expected::WhileTransferring { .. });
        while pool.is_busy() {
            let mut now_ns = Monotonic.now_ns();
            let next_ns =
                if is_measured { next_tick_ns.min(self.meter.next_sample_ns()) } else { next_tick_ns };
            match pool.wait(Duration::from_nanos(next_ns.saturating_sub(now_ns))) {
                Some((index, Event::Report(report))) => answers[index] = Some(report),
                Some((_, Event::Ready(_))) | None => {}
                Some((_, Event::Panicked(message))) => {
                    self.stop.store(true, Ordering::Relaxed);
                    error = Some(panicked("measure", &message));
                }
            }
            let slept_ns = std::mem::replace(&mut now_ns, Monotonic.now_ns());
            if is_measured {
                self.meter.woke_up(slept_ns, next_ns.max(slept_ns), now_ns);
            }
            movement.exclude_pause(now_ns);
            if self.interrupt.load(Ordering::Relaxed) && !self.stop.swap(true, Ordering::Relaxed) {
                stopped_ns = Some(now_ns);
            }
            if is_measured && now_ns >= self.meter.next_sample_ns() {
                self.meter.sample(now_ns);
            }
            if let Some(shortage) = self.shortage().filter(|_| error.is_none()) {
                self.stop.store(true, Ordering::Relaxed);
                (error, stopped_ns) = (Some(shortage), Some(now_ns));
            }
            if now_ns >= next_tick_ns {
                let still = movement.still(now_ns);
                let has_data_moved = self.tick(now_ns, still, is_measured, is_data);
                // Measured work can end as soon as it is enough; a sync takes as long as it takes.
                let can_end = is_measured && !is_data;
                if can_end && self.has_enough(now_ns) && !self.stop.swap(true, Ordering::Relaxed) {
                    stopped_ns = Some(now_ns);
                }
                if expected.counts_cpu_time() {
                    movement.count_cpu_time(pool, now_ns);
                }
                if movement.count(has_data_moved, self.collected.ops, now_ns) {
                    hang_detection::record_pause(still);
                }
                next_tick_ns = now_ns + INTERVAL_NS - (now_ns - next_tick_ns) % INTERVAL_NS;
            }
            if now_ns > movement.deadline_ns(expected, stopped_ns) {
                self.stop.store(true, Ordering::Relaxed);
                let still = movement.still(now_ns);
                error = Some(hang_detection::hangs("go on", &pool.busy_threads(), still));
                break;
            }
        }
        self.drain();
        // The last operations may have left too little.
        let error = error.or_else(|| self.shortage());
        (answers, error)
    }

    /// Returns the expectation of a sync. The counters of a device show its progress, those of a server are not visible.
    pub fn sync_expected(&self) -> Expected {
        let is_hidden = self.meter.has_no_devices() && hang_detection::user_limit().is_none();
        let received_ns_max = RECEIVED_TIMEOUTS * hang_detection::hang_timeout(true).as_nanos() as u64;
        let received_ns = time_for_ns(self.collected.written_bytes).min(received_ns_max);
        Expected::WhileTransferring { slack_ns: if is_hidden { received_ns } else { 0 } }
    }

    /// Returns the error of a test that writes and has left less than the reserve.
    fn shortage(&self) -> Option<UserError> {
        self.meter.room().filter(|_| self.has_writes)?.shortage("write")
    }

    /// Waits until every member is ready, then starts to sample their threads.
    ///
    /// # Errors
    /// Fails if a member panics or hangs.
    pub fn ready<C: Send + 'static, R: Send + 'static>(
        &mut self,
        pool: &mut WorkerPool<C, R>,
    ) -> Result<(), UserError> {
        let mut workers = Vec::new();
        while pool.is_busy() {
            let still_for = hang_detection::hang_timeout(false);
            match pool.wait(still_for) {
                Some((index, Event::Ready(worker))) => workers.push((index, worker)),
                Some((_, Event::Panicked(message))) => {
                    return Err(panicked("get ready", &message));
                }
                Some((_, Event::Report(_))) => {}
                None => {
                    return Err(hang_detection::hangs("get ready", &pool.busy_threads(), still_for));
                }
            }
        }
        let steps = workers.iter().filter_map(|(index, worker)| {
            let (step, Worker::Thread(thread)) = (self.readers.get(*index)?.current_step(), *worker) else {
                return None;
            };
            Some((thread, Box::new(move || step.get()) as StepReader))
        });
        let steps: Vec<_> = steps.filter(|_| !self.operations.is_empty()).collect();
        let workers: Vec<_> = workers.iter().map(|(_, worker)| *worker).collect();
        // The operations of a mix or a load are no calls.
        let counts_calls = !self.collected.steps.is_empty() && self.operations.is_empty();
        self.meter.reset(&workers, counts_calls);
        self.meter.watch_operations(self.operations, steps);
        Ok(())
    }

    /// Takes the deltas that the workers have handed over.
    fn drain(&mut self) {
        for (worker, reader) in self.readers.iter().enumerate() {
            reader.drain(|delta| {
                self.collected.add(delta, self.start_ns);
                self.collected.add_regions(worker, delta, self.start_ns);
            });
        }
    }

    /// Ends an interval. Returns true if the device of the file system has moved data since the last tick. If the
    /// target has no device, `by_cache` accepts a shrinking page cache as a sign of it.
    fn tick(&mut self, now_ns: u64, still: Duration, is_measured: bool, by_cache: bool) -> bool {
        self.drain();
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let frame = is_measured.then(|| self.meter.tick());
        (self.on_event)(PhaseEvent::Tick(&Tick {
            elapsed_ns,
            ops: self.collected.ops,
            bytes: self.collected.bytes,
            p99_ns: self.collected.operations.quantile(0.99),
            still,
            known: self.known,
            frame: frame.as_ref(),
            zones: self.collected.zoned.as_ref(),
            clients: None,
        }));
        let Some(frame) = frame else { return false };
        // Without devices, the data on its way to a server still shrinks.
        let shrunk = self.low_watermark.is_new(frame.dirty_bytes + frame.writeback_bytes);
        let moved = self.meter.moved_bytes(&frame.devices) > 0;
        self.collected.add_frame(frame, elapsed_ns);
        moved || (by_cache && shrunk && self.meter.has_no_devices())
    }

    /// Returns true if workers have been told to stop before their work was done.
    pub fn is_stopped(&self) -> bool {
        let is_stop_requested = self.stop.load(Ordering::Relaxed) && !self.is_goal_met;
        is_stop_requested || self.interrupt.load(Ordering::Relaxed)
    }

    /// Returns true once the rate has the requested precision or is steady, or a budget is spent. It then stays true.
    fn has_enough(&mut self, now_ns: u64) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        self.is_goal_met |= self.collected.is_steady(elapsed_ns)
            || self.is_continuous && self.budgets.iter().any(|budget| budget.is_spent());
        if let Some(enough) = self.enough.as_ref().filter(|_| self.is_continuous) {
            self.is_goal_met |= enough.load(Ordering::Relaxed);
            return self.is_goal_met;
        }
        if self.is_goal_met || !self.is_continuous || elapsed_ns < self.last_check_ns + CHECK_INTERVAL_NS {
            return self.is_goal_met;
        }
        self.last_check_ns = elapsed_ns;
        // Workers hand over at their first operation after a boundary, and the driver takes their deltas at
        // its own boundary.
        let seen_ns = elapsed_ns.saturating_sub(2 * INTERVAL_NS);
        let before =
            std::mem::replace(&mut self.known, steady_state::precision(self.collected.intervals(), seen_ns));
        // Two checks in a row must agree: a narrow interval at one check may be two levels at the next.
        self.is_goal_met = self.precision_goal.is_some_and(|precision_goal| {
            let suffices = |known: &Precision| known.half_width <= precision_goal.precision;
            let is_known = [before, self.known].iter().all(|known| known.as_ref().is_some_and(suffices));
            elapsed_ns >= precision_goal.time_min_ns && is_known
        });
        self.is_goal_met
    }

    /// Begins a measured part, and returns the observer's choice.
    pub fn begin(&mut self) -> StartSignal {
        let signal_ns = Monotonic.now_ns();
        let mut start_signal = StartSignal::default();
        (self.on_event)(PhaseEvent::Begin(&mut start_signal));
        match start_signal.at_ns {
            // Clients that wait for one another have one time axis. It begins with the first part, and later waits have
            // their place on it.
            Some(at_ns) if self.collected.intervals().is_empty() => self.start_ns = at_ns,
            Some(_) => {}
            // The observer may start something first, and that time is no part of the phase.
            None => self.start_ns += Monotonic.now_ns() - signal_ns,
        }
        self.meter.begin();
        start_signal
    }

    /// Ends a measured part.
    pub fn end(&mut self) {
        let frame = self.meter.end();
        let elapsed_ns = Monotonic.now_ns().saturating_sub(self.start_ns);
        self.collected.add_frame(frame, elapsed_ns);
        (self.on_event)(PhaseEvent::End);
    }
}
