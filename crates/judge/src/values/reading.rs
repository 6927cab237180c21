//! Reading of a record: where its time went, in the terms of the rules.

use std::cmp::Reverse;

use model::Experiment;
use model::figure::{
    Change, Count, Figure, LatencyNs, Mean, MemoryBytes, Name, OpsPerSecond, Share, Threshold, Time,
    TimePart, TimeShare, Tried, Wait, WaitClass,
};
use model::numbers::rank;
use model::observation::Observation;
use model::run::{Frame, Response, SampledThreads, SystemUse, TimeBreakdown, WaitChannel};
use model::target::{Backing, Device};
use model::workload::{Arrival, DataWork};

use crate::values::experiments::{
    self, ExclusionReason, ExperimentResults, Load, LoadEstimate, ResponseEstimate, Unit,
};
use crate::values::input::JudgeInput;
use crate::values::places::{Level, Places};
use crate::values::shares::SHARE_MIN;
use crate::values::wait_channels::class;

/// Minimum of requests at the target per operation waited for, if threads count as waiting there.
const IN_TARGET: f64 = 0.5;
/// The same ratio if all CPUs are busy. Then the software of a target also holds requests while it waits for a CPU.
const IN_TARGET_BUSY: f64 = 0.85;
/// A machine whose CPUs are used for more than this share has none to spare.
const CPUS_BUSY: f64 = 0.9;
/// Minimum number of samples of sleeping threads for their shares: half the width of the interval is then a tenth.
const SAMPLES_MIN: u64 = 50;

/// The thresholds that explanations name.
pub const THRESHOLDS: &[Threshold] = &[
    ("in_target", Figure::Ratio(IN_TARGET)),
    ("in_target_busy", Figure::Ratio(IN_TARGET_BUSY)),
    ("cpus_busy", Figure::Share(CPUS_BUSY)),
    ("samples_min", Figure::Count(SAMPLES_MIN)),
];

/// An input in the terms of the rules.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The input itself.
    pub input: JudgeInput<'a>,
    /// Where the threads' time went.
    pub budget: TimeBreakdown,
    /// Number of threads.
    pub threads: f64,
    /// Operations in flight: the requested depth, over all threads.
    pub in_flight: f64,
    /// True if operations are requests in a ring, so that threads sleep for all of them at once.
    pub is_ring: bool,
    /// Requests at the device or server, on average; `None` where that does not show.
    pub at_target: Option<f64>,
    /// Share of the time in which the mounted device was not idle.
    pub device_busy: Option<f64>,
    /// True if the data is on a server, or behind one.
    pub is_remote: bool,
    /// Shares of the samples of sleeping threads, by what they waited for.
    waits: Vec<(WaitClass, f64)>,
    /// The most frequent symbol of each class.
    symbols: Vec<(WaitClass, String)>,
    /// Samples of sleeping threads.
    samples: u64,
    /// Share of the samples of the test's threads that found them waiting for completions of a ring.
    completion_wait_share: Option<f64>,
    /// Share of the samples of the test's threads that found them running.
    pub running: Option<f64>,
    /// Where the operations stand, layer by layer; `None` where no layer counts.
    pub places: Option<Places>,
}

impl<'a> Reading<'a> {
    /// Returns the bytes that crossed the network for a test on files of a server.
    pub fn network_use(&self) -> Option<Observation> {
        let (sent, received) = self.input.network_bytes()?;
        let ops = Count(self.input.record.counts.ops);
        let (sent_bytes, received_bytes) = (MemoryBytes(sent), MemoryBytes(received));
        Some(Observation::CrossedForOps { sent_bytes, received_bytes, ops })
    }

    /// Returns the mean time of an operation beside the shortest round trip of the lines to the server, where TCP measured one.
    pub fn took_round_trips(&self) -> Option<Observation> {
        // With several lines, or several operations of a thread in flight, it would say little.
        let mut round_trips = self.input.target().layers.iter().filter_map(|layer| layer.round_trip_ns);
        let (round_trip_ns, others) = (round_trips.next()?, round_trips.count());
        let workload = &self.input.phase.workload;
        let is_closed = workload.data().is_none_or(|data| data.arrival == Arrival::Closed);
        if others > 0 || workload.iodepth > 1 || !is_closed || self.input.plan.clients.is_some() {
            return None;
        }
        let mean_ns = self.input.record.figures.latency_ns.as_ref()?.mean;
        let times = Mean(mean_ns as f64 / round_trip_ns.max(1) as f64);
        Some(Observation::TookRoundTrips {
            mean_ns: LatencyNs(mean_ns),
            times,
            round_trip_ns: LatencyNs(round_trip_ns),
        })
    }

    /// Reads an input; `None` where the kernel hides the threads' time.
    pub fn from_input(input: JudgeInput<'a>) -> Option<Self> {
        let record = input.record;
        let budget = record.seen.budget.clone()?;
        let is_ring = input.phase.engine.has_depth();
        let workload = &input.phase.workload;
        let class = |symbol: &str| class(symbol, input.writes());
        let of_workers =
            || record.seen.wait_channels.iter().filter(|site| site.of == SampledThreads::Workers);
        let running = of_workers().find(|site| site.symbol == "running").map(|site| site.share);
        let at_ring = of_workers().filter(|site| class(&site.symbol) == Some(WaitClass::Ring));
        let completion_wait_share = (of_workers().count() > 0).then(|| at_ring.map(|site| site.share).sum());
        // An idle worker of a ring waits for work, and holds nothing back.
        let is_awake = |symbol: &str| symbol == "running" || symbol.starts_with("io_wq_worker");
        // A thread's wait for its ring says nothing about the wait of the ring itself.
        let is_relevant = |site: &&WaitChannel| match site.of {
            SampledThreads::Workers => !is_ring || class(&site.symbol) != Some(WaitClass::Ring),
            // Kernel workers of a ring sleep where a thread of the test would have slept.
            SampledThreads::RingWorkers => is_ring,
        };
        let asleep =
            || record.seen.wait_channels.iter().filter(is_relevant).filter(|site| !is_awake(&site.symbol));
        let samples: u64 = asleep().map(|site| site.samples).sum();
        let mut waits: Vec<(WaitClass, f64)> = Vec::new();
        let mut symbols: Vec<(WaitClass, String)> = Vec::new();
        for site in asleep() {
            let Some(class) = class(&site.symbol) else { continue };
            let share = site.samples as f64 / samples.max(1) as f64;
            match waits.iter_mut().find(|(known, _)| *known == class) {
                Some((_, sum)) => *sum += share,
                None => {
                    waits.push((class, share));
                    symbols.push((class, site.symbol.clone()));
                }
            }
        }
        let at_server = || {
            let load = record.seen.load.as_ref()?;
            input.server_flow()?.in_flight(load.elapsed_ns)
        };
        let mut reading = Self {
            budget,
            threads: f64::from(workload.threads),
            in_flight: f64::from(workload.in_flight()),
            is_ring,
            at_target: at_device(&input).or_else(at_server),
            device_busy: device_busy(&input),
            is_remote: input.target().backing == Backing::RemoteOrUserSpace,
            waits,
            symbols,
            samples,
            completion_wait_share,
            running,
            places: None,
            input,
        };
        reading.places = reading.find_places();
        Some(reading)
    }

    /// Returns true if the test reads or writes files as a stream.
    pub fn is_stream(&self) -> bool {
        self.input.data_in_files().is_some_and(DataWork::is_stream)
    }

    /// Share of the time on a CPU, in either mode.
    pub fn on_cpu(&self) -> f64 {
        self.budget.user + self.budget.kernel
    }

    /// Share of the time held back by a quota.
    pub fn quota(&self) -> f64 {
        self.budget.quota.unwrap_or(0.0)
    }

    /// Share of the samples of sleeping threads that found them in a wait of that class; 0 if there were too few
    /// samples.
    pub fn waits(&self, class: WaitClass) -> f64 {
        if self.samples < SAMPLES_MIN {
            return 0.0;
        }
        self.waits.iter().find(|(known, _)| *known == class).map_or(0.0, |(_, share)| *share)
    }

    /// Kernel function that threads of that class wait in.
    fn symbol(&self, class: WaitClass) -> &str {
        self.symbols.iter().find(|(known, _)| *known == class).map_or("", |(_, symbol)| symbol)
    }

    /// Returns the uses of the threads' time, without those that took hardly any of it.
    pub fn time_spent(&self) -> Option<Observation> {
        let budget = &self.budget;
        let parts = [
            (TimePart::Blocked, budget.blocked),
            (TimePart::Kernel, budget.kernel),
            (TimePart::User, budget.user),
            (TimePart::RunQueue, budget.run_queue),
            (TimePart::Quota, self.quota()),
            (TimePart::Steal, budget.steal),
        ];
        let parts = parts.into_iter().map(|(part, share)| TimeShare { part, share });
        let mut time: Vec<_> = parts.filter(|part| part.share >= SHARE_MIN).collect();
        time.sort_by_cached_key(|part| Reverse(rank(part.share)));
        Some(Observation::TimeSpent { time: Time(time) })
    }

    /// Returns the place where threads slept most, with their share over all these classes, if that is large.
    pub fn dominant_wait(&self, classes: &[WaitClass]) -> Option<Observation> {
        if self.is_ring && self.samples < SAMPLES_MIN {
            // No kernel worker waits for the ring: its own thread waits for the completion of its requests.
            let share = self.completion_wait_share.filter(|share| *share >= 0.5)?;
            return Some(Observation::WaitedForRing { waiting_share: Share(share) });
        }
        let share: f64 = classes.iter().map(|class| self.waits(*class)).sum();
        let most = classes.iter().max_by(|a, b| self.waits(**a).total_cmp(&self.waits(**b)))?;
        let (class, symbol) = (Wait(*most), self.symbol(*most).into());
        (share > 0.3).then_some(Observation::SleptIn { class, symbol, asleep_share: Share(share) })
    }

    /// Returns the share of the samples that found threads running, if most did.
    pub fn mostly_running(&self) -> Option<Observation> {
        let running = self.running.filter(|running| *running >= 0.7)?;
        Some(Observation::Ran { running_share: Share(running) })
    }

    /// Returns the requests at the device or server, and the operations that threads waited for.
    pub fn at_target(&self) -> Option<Observation> {
        let (requests, waiting) = (Mean(self.at_target?), Mean(self.waiting()));
        Some(match (&self.input.record.seen.device, self.is_remote) {
            (Some(device), false) => {
                Observation::InDevice { device: device.name.as_str().into(), requests, waiting }
            }
            _ => Observation::AtServer { requests, waiting },
        })
    }

    /// Returns the operations above and inside a level, and how long requests inside take.
    pub fn at_level(&self, level: &Level) -> Vec<Observation> {
        let layers = level.layers.iter().filter_map(|at| self.input.target().layers.get(*at));
        let names: Vec<&str> = layers.map(|layer| layer.name.as_str()).collect();
        let layer = Name::from(names.join(", "));
        let (device, requests, waiting) = (layer.clone(), Mean(level.inside), Mean(level.above));
        let took = level.times_alone.map(|times| Observation::TookTimes { layer, times: Mean(times) });
        [Some(Observation::InDevice { device, requests, waiting }), took].into_iter().flatten().collect()
    }

    /// Mean number of operations that threads waited for: those in a ring, or threads that slept.
    pub fn waiting(&self) -> f64 {
        if self.is_ring { self.in_flight } else { self.budget.blocked * self.threads }
    }

    /// Returns where the operations stand, layer by layer; `None` where no layer counts.
    fn find_places(&self) -> Option<Places> {
        let load = self.input.record.seen.load.as_ref()?;
        let answers = self.experiments().all();
        let single = answers.iter().find(|(one, _, flaw)| *one == Experiment::Single && flaw.is_none());
        let alone = single.and_then(|(_, response, _)| response.load.as_ref());
        Some(Places::new(self.input.target(), load, self.waiting(), alone))
    }

    /// Returns the level below the gate at which the operations wait.
    pub fn gate(&self) -> Option<&Level> {
        self.places.as_ref()?.gate()
    }

    /// Requests at the target per operation waited for. It is about 1 if threads wait in the device, and less if they
    /// wait above it. It is more if others use the device too, or if a call becomes several requests.
    pub fn occupancy(&self) -> Option<f64> {
        let waiting = self.waiting();
        self.at_target.filter(|_| waiting > 0.05).map(|at_target| at_target / waiting)
    }

    /// Returns true if all CPUs are busy, with any work.
    pub fn is_short_of_cpus(&self) -> bool {
        self.input.record.seen.cpu.as_ref().is_some_and(|cpu| cpu.user + cpu.kernel > CPUS_BUSY)
    }

    /// Returns true if threads wait in the device or server, and not above it; `None` where that does not show.
    pub fn waits_in_target(&self) -> Option<bool> {
        let least = if self.is_short_of_cpus() { IN_TARGET_BUSY } else { IN_TARGET };
        self.occupancy().map(|occupancy| occupancy >= least)
    }

    /// Returns true if threads wait above a device or server that has few requests; `None` where that does not show.
    pub fn waits_above_target(&self) -> Option<bool> {
        self.occupancy().map(|occupancy| occupancy < IN_TARGET)
    }

    /// Returns true if the device has few requests, though threads sleep until it has moved blocks or pages. They wait for
    /// something above it.
    pub fn waits_for_idle_device(&self) -> bool {
        let share = self.waits(WaitClass::Device) + self.waits(WaitClass::Page);
        let waiting = share * self.waiting();
        !self.is_remote && waiting > 0.05 && self.at_target.is_some_and(|at| at < IN_TARGET * waiting)
    }

    /// Returns the responses of experiments, for comparison with the table.
    fn experiments(&self) -> ExperimentResults<'a> {
        let record = self.input.record;
        ExperimentResults::new(
            record.judged.sensitivity.as_ref(),
            experiments::own_rate(record),
            self.in_flight,
        )
    }

    /// Returns true if any experiment was made.
    pub fn has_experiments(&self) -> bool {
        self.input.record.judged.sensitivity.is_some()
    }

    /// Returns true if an experiment was excluded because its baseline had shifted or its interval was too wide.
    pub fn is_inconclusive(&self) -> bool {
        self.experiments().is_inconclusive()
    }

    /// Returns the load of the target at the requested depth, according to experiments.
    pub fn load(&self) -> LoadEstimate {
        self.experiments().load()
    }

    /// Factor by which more depth changed the rate.
    pub fn gain(&self) -> Option<ResponseEstimate> {
        self.experiments().gain()
    }

    /// Unit that a saturated target counts, and true if it is sure.
    pub fn unit(&self) -> Option<(Unit, bool)> {
        self.experiments().unit()
    }

    /// Part of a saturated target's time that bytes take.
    pub fn byte_share(&self) -> Option<f64> {
        self.experiments().byte_share()
    }

    /// Factor of the rate with a file or directory for each thread; `None` where it is not certain.
    pub fn separate(&self) -> Option<f64> {
        self.experiments().separate().map(|estimate| estimate.value)
    }

    /// Returns the responses of experiments, the most decisive first. Excluded responses are at the end.
    pub fn answers(&self) -> Vec<Observation> {
        self.answers_without(&[])
    }

    /// Returns the same responses, without those of some experiments.
    pub fn answers_without(&self, left_out: &[Experiment]) -> Vec<Observation> {
        let mut answers = self.experiments().all();
        answers.retain(|(experiment, _, _)| !left_out.contains(experiment));
        let (valid, flawed): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(.., flaw)| flaw.is_none());
        let own = self.input.record.figures.rate.steady_or_whole().unwrap_or(0.0);
        let mut all: Vec<_> = valid
            .into_iter()
            .chain(flawed)
            .map(|(experiment, response, flaw)| answer(experiment, response, flaw, own))
            .collect();
        // One observation of another state of the target is enough.
        let mut has_baseline_shifted = false;
        all.retain(|one| {
            let moved = matches!(one, Observation::BaselineMoved { .. });
            !moved || !std::mem::replace(&mut has_baseline_shifted, true)
        });
        all
    }

    /// Returns the answers to some experiments.
    pub fn answers_to(&self, wanted: &[Experiment]) -> Vec<Observation> {
        let others: Vec<_> = Experiment::ALL.iter().copied().filter(|one| !wanted.contains(one)).collect();
        self.answers_without(&others)
    }

    /// Returns all answers, if they show that the target is saturated.
    pub fn answers_if_saturated(&self) -> Vec<Observation> {
        if self.load().is(Load::Saturated) { self.answers() } else { Vec::new() }
    }

    /// Observations of machine and server besides the devices.
    pub fn system(&self) -> Option<&'a SystemUse> {
        self.input.record.seen.system.as_ref()
    }
}

/// Returns the observation for an answer to an experiment on a row of that rate.
fn answer(
    experiment: Experiment,
    response: &Response,
    flaw: Option<ExclusionReason>,
    own: f64,
) -> Observation {
    let (experiment, change) = (Tried(experiment), Change(response.change.clone()));
    let before_ops_per_second = OpsPerSecond(response.before_ops_per_second);
    let after_ops_per_second = OpsPerSecond(response.after_ops_per_second);
    match flaw {
        None => Observation::Answer { experiment, change, before_ops_per_second, after_ops_per_second },
        Some(ExclusionReason::Unsteady) => {
            Observation::UnsteadyAnswer { experiment, change, before_ops_per_second, after_ops_per_second }
        }
        Some(ExclusionReason::Impossible) => {
            Observation::ImpossibleAnswer { experiment, change, before_ops_per_second, after_ops_per_second }
        }
        Some(ExclusionReason::BaselineShifted) => {
            Observation::BaselineMoved { before_ops_per_second, own_ops_per_second: OpsPerSecond(own) }
        }
    }
}

fn device_busy(input: &JudgeInput<'_>) -> Option<f64> {
    let _ = input.device()?;
    let busy_ns: f64 = input.frames().filter_map(|frame| Some(frame.devices.first()?.busy_ns as f64)).sum();
    let all_ns = input.record.counts.elapsed_ns as f64;
    (all_ns > 0.0).then(|| (busy_ns / all_ns).min(1.0))
}

/// Returns the mean number of requests in the device; `None` where that does not show.
fn at_device(input: &JudgeInput<'_>) -> Option<f64> {
    let _ = input.device()?;
    let leaves: Vec<bool> = input.target().device_stack.iter().map(Device::is_leaf).collect();
    // Not every layer counts the requests that pass through it. A request in the lowest layer is in all of
    // them.
    let in_frame = |frame: &Frame| {
        let of_leaves = frame.devices.iter().zip(&leaves).filter(|(_, is_leaf)| **is_leaf);
        let in_leaves: f64 = of_leaves.map(|(device, _)| device.in_flight_ns as f64).sum();
        frame.devices.first().map_or(0.0, |top| top.in_flight_ns as f64).max(in_leaves)
    };
    let sum: f64 = input.frames().map(in_frame).sum();
    (input.record.counts.elapsed_ns > 0).then(|| sum / input.record.counts.elapsed_ns as f64)
}
