//! One test on all clients: a barrier before each measured part, one instant for all, ticks, and the measurements.

use std::ops::Range;
use std::time::{Duration, Instant};

use model::UserError;
use model::frames::{FromAgent, SLICE_NS, Slice, ToAgent};
use model::order::{OtherClient, TestOrder};
use model::plan::{Plan, PlannedPhase, PrecisionGoal};
use model::run::{Interval, PhaseRecord, Status};
use run::sum::ClientAggregate;
use run::{ClientsNow, PhaseEvent, PhaseOutcome, Precision, StartSignal, Tick};

use crate::agent::now_ns;
use crate::clock;
use crate::coordinator::{Client, Fleet, OnLoss, POLL_INTERVAL, State, with_client_name};
use crate::link::Event;
use crate::texts;
use crate::waiting::{self, Urgency};

/// Least time between the order to begin and the agreed instant.
const LEAD_NS: u64 = 50_000_000;
/// Time that each client of a CPU adds to it: what an agent does between the order and its instant.
const LEAD_PER_CLIENT_NS: u64 = 1_000_000;
/// Longest round trips in that time: an order must arrive before its instant, however the way there is today.
const LEAD_ROUND_TRIPS: u64 = 5;

/// Reason in the record of a test that a signal ended.
const INTERRUPTED: &str = "interrupted";

/// A client in a test.
#[derive(Debug, Default)]
struct Runner {
    stage: Stage,
    /// Counts so far.
    last: Slice,
    /// Number of intervals so far.
    intervals: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// It prepares a measured part, or measures it.
    #[default]
    Busy,
    /// It is ready to begin a measured part.
    Ready,
    /// It has ended, or takes no part.
    Ended,
}

impl Fleet {
    /// Returns the client whose data a client reads, `None` for itself. It is the one `shift` places further on, or else the
    /// next that answers.
    pub(crate) fn other(&self, client: usize, shift: u32) -> Option<OtherClient> {
        let count = self.clients.len();
        let mut from = (0..count).map(|step| (client + shift as usize + step) % count);
        let number = from.find(|number| self.clients[*number].is_live())?;
        let is_another = shift > 0 && number != client;
        // In a sweep over clients, the others have made other tests than this one.
        let is_sound = self.is_sound && !self.plan.as_ref().is_some_and(Plan::sweeps_clients);
        is_another.then(|| OtherClient {
            number: number as u32,
            directory: self.clients[number].work_directory_name.clone(),
            is_sound,
        })
    }

    /// Runs one test on all clients that answer.
    pub(crate) fn combined_phase(
        &mut self,
        plan: &Plan,
        phase: &PlannedPhase,
        order: &TestOrder,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> PhaseOutcome {
        let count = plan.clients_of(phase).map_or(self.clients.len(), |count| count as usize);
        let is_of_all = plan.uses_files_of_all_clients(phase);
        let recreate_files = is_of_all && self.names_unknown;
        let shift = phase.workload.data().and_then(|data| data.shift).unwrap_or_default();
        let frame = |fleet: &Self, client: usize| {
            ToAgent::Phase(TestOrder { other: fleet.other(client, shift), recreate_files, ..order.clone() })
        };
        // The first client makes the directories of all, and removes what an earlier test left in them.
        let is_led = phase.workload.data().is_none() && is_of_all && self.clients[0].is_live();
        let followers = if is_led { 1..count } else { count..count };
        let limit = waiting::test(order.time.budget_ns);
        // Each client may have to wait for the others, twice where one leads, before it prepares and before it measures.
        let limit_of_all = limit * 2 * (1 + u32::from(is_led));
        self.order_to(0..followers.start, &frame);
        let mut running = Running::new(self, plan, phase, followers.clone(), limit);
        for (number, (runner, client)) in running.runners.iter_mut().zip(&self.clients).enumerate() {
            if !client.is_live() || number >= count {
                runner.stage = Stage::Ended;
            }
        }
        for index in (0..count).filter(|index| running.runners[*index].stage != Stage::Ended) {
            self.within(index, limit_of_all);
        }
        for index in (0..followers.start).filter(|index| running.runners[*index].stage != Stage::Ended) {
            self.expect(index, limit);
        }
        self.drive(&mut running, &frame, on_event);
        (0..count).for_each(|index| self.hub.within(index, None));
        let servers = if running.started.is_some() { self.take_observations() } else { Vec::new() };
        on_event(PhaseEvent::Over);
        let (mut record, parts) = running.aggregate.sum(plan, phase, order.repetition, self.run_start_ns);
        record.seen.servers = servers;
        if let Some(failure) = running.failure {
            add_failure(&mut record, &failure);
        }
        self.is_sound &= record.status == Status::Done;
        // Clients that take no part in this test still have the files that it has made anew to make.
        let all_recreated = recreate_files && count >= self.clients.len();
        self.names_unknown &= !all_recreated;
        self.names_unknown |= parts.iter().any(|part| part.measured.names_unknown);
        let clients = parts.into_iter().map(|part| (part.client as usize, part.measured.record)).collect();
        PhaseOutcome { record, clients }
    }

    fn drive(
        &mut self,
        running: &mut Running,
        order: &dyn Fn(&Self, usize) -> ToAgent,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) {
        let mut ticked = Instant::now();
        while running.runners.iter().any(|runner| runner.stage != Stage::Ended) {
            running.is_interrupted |= self.apply_urgency(false);
            if let Some((index, event)) = self.next() {
                self.take(running, index, event);
            }
            if !running.followers.is_empty() && running.runners[0].stage != Stage::Busy {
                let followers = std::mem::take(&mut running.followers);
                if running.runners[0].stage == Stage::Ready && !running.is_interrupted {
                    self.order_to(followers.clone(), order);
                    for index in followers.filter(|index| running.runners[*index].stage != Stage::Ended) {
                        self.expect(index, running.limit);
                    }
                } else {
                    running.runners[followers].iter_mut().for_each(|runner| runner.stage = Stage::Ended);
                }
            }
            if running.failure.is_some() && self.on_loss == OnLoss::Stop && !running.is_interrupted {
                running.is_interrupted = true;
                self.end_work();
            }
            if running.is_interrupted {
                for (index, runner) in running.runners.iter_mut().enumerate() {
                    // Its flag is raised, and nothing begins any more.
                    if runner.stage == Stage::Ready {
                        runner.stage = Stage::Busy;
                        self.expect(index, waiting::answer());
                    }
                }
            }
            self.begin(running, on_event);
            if ticked.elapsed() >= POLL_INTERVAL {
                ticked = Instant::now();
                self.tick(running, on_event);
            }
        }
        if running.started.is_some() {
            self.hub.set_test_running(false);
            on_event(PhaseEvent::End);
        }
    }

    /// Takes an event of a client.
    fn take(&mut self, running: &mut Running, index: usize, event: Event) {
        let is_interrupted = running.is_interrupted || self.urgency() > Urgency::None;
        let client = &mut self.clients[index];
        let runner = &mut running.runners[index];
        let is_at_work = runner.stage != Stage::Ended && !running.followers.contains(&index);
        match event {
            // What it sent before its channel was closed.
            Event::Frame(_) if !client.is_live() => {}
            Event::Frame(FromAgent::Ready {}) if is_at_work && runner.stage == Stage::Busy => {
                runner.stage = Stage::Ready;
                self.hub.expect(index, None);
            }
            // Of a job, only the first client would be seen.
            Event::Frame(FromAgent::Tick { .. }) if is_at_work && self.ranks.is_some() => {}
            Event::Frame(FromAgent::Tick { slices }) if is_at_work => {
                slices.into_iter().for_each(|slice| runner.add(slice, &mut running.ops));
            }
            // A client that was interrupted by itself ends, and is lost.
            Event::Frame(FromAgent::Measured(measured))
                if is_at_work && !is_interrupted && was_interrupted(&measured.record) => {}
            Event::Frame(FromAgent::Measured(mut measured)) if is_at_work => {
                measured.record.reason = measured.record.reason.as_deref().map(texts::short);
                log::debug!("{}: {} has ended", client.name, measured.record.id);
                runner.stage = Stage::Ended;
                self.hub.expect(index, None);
                client.left_bytes = measured.left_bytes;
                if let Some(clock) = &client.clock {
                    let start_ns = clock::to_own_ns(measured.start_ns, clock);
                    running.aggregate.add(index as u32, &client.name, *measured, start_ns);
                }
            }
            // An agent measures nothing more after it: a test that fails has a record.
            Event::Frame(FromAgent::Failed { error, .. }) if is_at_work => {
                runner.stage = Stage::Ended;
                let why = texts::short(&error.to_string());
                running.failure.get_or_insert(with_client_name(&client.name, error));
                self.hub.close(index);
                drop(self.note(index, Event::Lost(why)));
            }
            event => {
                match event {
                    Event::Frame(frame) => self.end_client(index, &frame),
                    event => drop(self.note(index, event)),
                }
                let client = &self.clients[index];
                if !client.is_live() && runner.stage != Stage::Ended {
                    runner.stage = Stage::Ended;
                    let why = match &client.state {
                        State::Lost(why) => why.as_str(),
                        _ => "it has ended",
                    };
                    running
                        .failure
                        .get_or_insert(UserError::new(format!("continue with {}", client.name), why));
                }
            }
        }
    }

    /// Starts a measured part, once no client prepares any more. After the end of a client, the others start nothing.
    fn begin(&mut self, running: &mut Running, on_event: &mut dyn FnMut(PhaseEvent<'_>)) {
        let stages = || running.runners.iter().map(|runner| runner.stage);
        if stages().any(|stage| stage == Stage::Busy) || !stages().any(|stage| stage == Stage::Ready) {
            return;
        }
        let has_ended = !running.aggregate.parts().is_empty();
        let is_cancelled = has_ended || (running.failure.is_some() && self.on_loss == OnLoss::Stop);
        if !is_cancelled && running.started.is_none() {
            let mut start_signal = StartSignal::default();
            on_event(PhaseEvent::Begin(&mut start_signal));
        }
        let clocks = || self.clients.iter().filter_map(|client| client.clock);
        let longest_ns = clocks().map(|clock| clock.round_trip_ns).max().unwrap_or(0);
        let most_per_cpu = self.clients_per_cpu().into_iter().max().unwrap_or(0);
        let lead_ns = LEAD_NS + u64::from(most_per_cpu) * LEAD_PER_CLIENT_NS;
        let at_ns = now_ns() + lead_ns.max(longest_ns.saturating_mul(LEAD_ROUND_TRIPS));
        if !is_cancelled && running.started.is_none() {
            running.started = Some(at_ns);
            running.aggregate = ClientAggregate::new(at_ns, running.runners.len());
            self.hub.set_test_running(true);
            self.watch(at_ns);
        }
        for (index, runner) in running.runners.iter_mut().enumerate() {
            if runner.stage == Stage::Ready {
                runner.stage = Stage::Busy;
                self.expect(index, running.limit);
                let remote_ns = |clock| clock::to_remote_ns(at_ns, &clock);
                let at_ns = self.clients[index].clock.map(remote_ns).filter(|_| !is_cancelled);
                self.hub.send(index, ToAgent::Start { at_ns });
            }
        }
    }

    /// Shows the state of the test, and ends it once its rate is known.
    fn tick(&mut self, running: &mut Running, on_event: &mut dyn FnMut(PhaseEvent<'_>)) {
        let Some(started_ns) = running.started else { return };
        let sum = |of: fn(&Slice) -> u64| {
            running.runners.iter().map(|runner| of(&runner.last)).fold(0, u64::saturating_add)
        };
        let (ops, bytes) = (sum(|slice| slice.ops), sum(|slice| slice.bytes));
        let with_names = || self.clients.iter().zip(&running.runners);
        let rates = with_names().filter(|(_, runner)| runner.last.elapsed_ns > 0).map(|(client, runner)| {
            let Slice { elapsed_ns, ops, .. } = runner.last;
            (client.name.as_str(), ops as f64 * 1e9 / elapsed_ns as f64)
        });
        let is_lost = |client: &&Client| matches!(client.state, State::Lost(_));
        let clients = ClientsNow {
            slowest: rates.min_by(|one, other| one.1.total_cmp(&other.1)),
            lost: self.clients.iter().filter(is_lost).map(|client| client.name.as_str()).collect(),
        };
        on_event(PhaseEvent::Tick(&Tick {
            elapsed_ns: now_ns().saturating_sub(started_ns),
            ops,
            bytes,
            p99_ns: None,
            still: Duration::ZERO,
            known: running.known,
            frame: None,
            zones: None,
            clients: Some(clients),
        }));
        if running.is_continuous && !running.is_goal_met && running.has_enough() {
            running.is_goal_met = true;
            self.order(&ToAgent::EndTest {});
        }
    }
}

/// Adds the failure of a client to the record of the sum.
fn add_failure(record: &mut PhaseRecord, failure: &UserError) {
    let reason = failure.to_string();
    // The others were interrupted for that very reason.
    let known = record.reason.take().filter(|known| known != INTERRUPTED);
    record.reason = Some(known.map_or(reason.clone(), |known| format!("{known}; {reason}")));
    if record.status == Status::Done {
        record.status = Status::Partial;
    }
}

/// Returns true if a signal has ended a test before its end.
fn was_interrupted(record: &PhaseRecord) -> bool {
    record.status != Status::Done
        && record.reason.as_ref().is_some_and(|reason| reason.starts_with(INTERRUPTED))
}

impl Runner {
    /// Adds the counts at the end of an interval, and their operations to the sum of all clients.
    fn add(&mut self, slice: Slice, sums: &mut Vec<u64>) {
        let place = (slice.elapsed_ns / SLICE_NS).saturating_sub(1) as usize;
        let is_counted = slice.elapsed_ns >= self.last.elapsed_ns && place < model::run::INTERVALS_MAX;
        let ops = slice.ops.saturating_sub(self.last.ops);
        self.last = slice;
        if is_counted {
            self.intervals = self.intervals.max(place + 1);
            sums.resize(sums.len().max(self.intervals), 0);
            sums[place] = sums[place].saturating_add(ops);
        }
    }
}

/// State of a test.
struct Running {
    runners: Vec<Runner>,
    precision_goal: Option<PrecisionGoal>,
    is_continuous: bool,
    /// Instant of the first measured part.
    started: Option<u64>,
    /// Precision of the sum, once it is steady.
    known: Option<Precision>,
    /// Operations of all clients in each interval so far. The last ones still wait for some clients.
    ops: Vec<u64>,
    /// Measurements of the clients that are done.
    aggregate: ClientAggregate,
    /// Time up to which the sum was looked at.
    last_check_ns: u64,
    is_goal_met: bool,
    failure: Option<UserError>,
    /// True once all clients were told to end.
    is_interrupted: bool,
    /// Clients that begin once the first is ready.
    followers: Range<usize>,
    /// Longest time of one part of a client.
    limit: Duration,
}

impl Running {
    fn new(
        fleet: &Fleet,
        plan: &Plan,
        phase: &PlannedPhase,
        followers: Range<usize>,
        limit: Duration,
    ) -> Self {
        Self {
            runners: fleet.clients.iter().map(|_| Runner::default()).collect(),
            precision_goal: plan.precision_goal_of(phase),
            is_continuous: phase.workload.is_continuous(),
            started: None,
            known: None,
            ops: Vec::new(),
            // A test that never begins has no time axis.
            aggregate: ClientAggregate::new(fleet.run_start_ns, 0),
            last_check_ns: 0,
            is_goal_met: false,
            failure: None,
            is_interrupted: false,
            followers,
            limit,
        }
    }

    /// Returns true if the rate of the sum has the requested precision, at two checks in a row.
    fn has_enough(&mut self) -> bool {
        let counts = self.runners.iter().map(|runner| runner.intervals).filter(|count| *count > 0);
        let Some(seen) = counts.min() else { return false };
        let seen_ns = seen as u64 * SLICE_NS;
        if seen_ns <= self.last_check_ns {
            return false;
        }
        self.last_check_ns = seen_ns;
        let interval = |(index, ops): (usize, &u64)| Interval {
            start_ns: index as u64 * SLICE_NS,
            length_ns: SLICE_NS,
            ops: *ops,
            bytes: 0,
            histogram: Vec::new(),
            frame: None,
        };
        let intervals: Vec<_> = self.ops[..seen].iter().enumerate().map(interval).collect();
        let before = std::mem::replace(&mut self.known, run::precision(&intervals, seen_ns));
        let now = self.known;
        self.precision_goal.is_some_and(|precision_goal| {
            let suffices = |known: &Option<Precision>| {
                known.as_ref().is_some_and(|known| known.half_width <= precision_goal.precision)
            };
            seen_ns >= precision_goal.time_min_ns && suffices(&before) && suffices(&now)
        })
    }
}
