//! Reads the kernel's counters around and during a measurement, and sums them up.
//!
//! Between ticks, at random times, the meter samples the calls in which threads sleep (`observe::Waits`). Around each
//! measured part it samples the rest of the machine (`observe::SystemSampler`). The driver marks the start and the end
//! of each measured part, so untimed work is in no sum.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::clock::{Clock, Monotonic};
use model::plan::PlannedPhase;
use model::run::{
    CallUse, CpuShares, DeviceFrame, DeviceUse, Flow, Frame, OwnIo, SystemUse, TimeBreakdown, WaitChannel,
};
use model::target::{Backing, Target};
use model::workload::verbs::VerbStep;
use model::workload::{DataVerb, Work};
use observe::{Flows, Probe, Root, Snapshot, StepReader, SystemSampler, Waits};
use rustix::time::{ClockId, clock_gettime};

use crate::collect::{Collector, add_frame};
use crate::room::RoomWatch;
use crate::worker_pool::Worker;

/// Reads the counters of the machine.
#[derive(Debug)]
pub struct Meter {
    probe: Probe,
    start_snapshot: Snapshot,
    previous: Snapshot,
    current: Snapshot,
    part_start_ns: u64,
    observed: PhaseSums,
    /// Calls of the workers before this part.
    calls_before: OwnIo,
    waits: Waits,
    system_sampler: SystemSampler,
    flows: Flows,
    is_observed: bool,
    /// True if another client watches this machine: its processes, sensors, and the course of its counters.
    skips_machine: bool,
    /// Time of the last reading of the machine's counters.
    machine_read_ns: u64,
    /// Time by which the clock that counts suspension was ahead of the other one at the last reading.
    boot_time_ahead_ns: u64,
    /// Time of the last watch of the machine's processes, its start, and their watched time in this phase.
    processes_seen_ns: u64,
    processes_start_ns: u64,
    processes_watched_ns: u64,
    watches_processes: bool,
    /// Time of the next sample. Gaps are random, so that sampling cannot lock to a periodic workload.
    next_sample_ns: u64,
    gaps: fastrand::Rng,
    /// Multiple of the usual gap. Clients that share CPUs sample less often, to leave the CPUs to the test.
    gap_factor: u64,
    hidden: Vec<String>,
    /// Names of the devices that no other device of the target uses.
    top_names: Vec<String>,
    /// Watch over the free space; none where no reserve is kept.
    room: Option<RoomWatch>,
}

/// Longest wait for a device to calm down before a phase.
const CALM_TIMEOUT: Duration = Duration::from_secs(3);
/// A device that moves less than this in a tenth of a second is calm.
const CALM_BYTES: u64 = 64 << 10;

/// Least time between two watches of the machine's processes. A watch takes as long as everything else
/// together, so parts in quick succession skip it.
const WATCH_PROCESSES_EVERY_NS: u64 = 500_000_000;

/// Sampling interval of sleeping threads, 6 ms on average. A sample takes a microsecond for each thread. It also takes
/// a CPU from a worker, which costs ten times as much.
const SAMPLE_GAP_NS: Range<u64> = 3_000_000..9_000_000;
/// Clients for each CPU that sample at the full rate. Their samples then take some percent of it.
const SAMPLERS_PER_CPU: u64 = 4;
/// Interval between readings of the machine's counters by a client that leaves the machine to another one. It still sees
/// that data moves.
const MACHINE_EVERY_NS: u64 = 1_000_000_000;

/// Shortest time by which this thread wakes up too late if the process did not run. Threads of a busy machine wait for a CPU for
/// less.
const PAUSE_MIN_NS: u64 = 1_000_000_000;

/// Returns the time by which the clock that runs while the machine is suspended is ahead of the workers' clock.
fn boot_time_ahead_ns() -> u64 {
    let boot = clock_gettime(ClockId::Boottime);
    (boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64).saturating_sub(Monotonic.now_ns())
}

/// Sums over the measured parts of one phase, and results derived from them.
#[derive(Debug, Clone, Default)]
pub struct PhaseSums {
    /// Counters of the machine; `None` if nothing was seen.
    pub sum: Option<Frame>,
    /// Ticks of the workers in programs; only their ratio to the ticks in the kernel means something.
    pub user_ticks: u64,
    /// Ticks of the workers in the kernel.
    pub kernel_ticks: u64,
    /// Total length of the parts.
    pub measured_ns: u64,
    /// Calls of the workers.
    calls: OwnIo,
    /// Times in which this process did not run, on the clock of the workers.
    pub pauses: Vec<Range<u64>>,
    /// Time for which the machine was suspended.
    suspended_ns: u64,
    /// Other observations of machine and server.
    pub system: SystemUse,
    /// Work of the layers.
    pub flows: Vec<Flow>,
    /// Places where threads slept.
    pub wait_channels: Vec<WaitChannel>,
    /// Shares of the samples in which threads slept in each call; empty if calls were not counted.
    pub blocked_in: Vec<(&'static str, f64)>,
    /// Number of worker threads that were sampled.
    pub watched: usize,
    /// True for a simulated device, whose workers may need no CPU time at all.
    pub is_simulated: bool,
    /// True if the counters of the mounted device cannot be read.
    hides_device: bool,
    /// True if the I/O counters of this process cannot be read.
    hides_own_io: bool,
}

impl Meter {
    /// Makes a meter for the devices of a target.
    pub fn new(root: &Root, target: &Target) -> Self {
        let mut probe = Probe::open(root, &target.device_stack);
        let mut start_snapshot = probe.new_snapshot();
        probe.snapshot(&mut start_snapshot);
        let (previous, current) = (start_snapshot.clone(), start_snapshot.clone());
        let (waits, system_sampler) = (Waits::open(root), SystemSampler::open(root, target));
        let flows = Flows::open(root, &target.layers);
        let counters = probe.hidden().iter().chain(system_sampler.hidden()).chain(flows.hidden());
        let hidden = counters.map(String::as_str).chain(waits.hidden());
        Self {
            hidden: hidden.map(ToOwned::to_owned).collect(),
            probe,
            start_snapshot,
            previous,
            current,
            part_start_ns: 0,
            observed: PhaseSums::default(),
            calls_before: OwnIo::default(),
            waits,
            system_sampler,
            flows,
            is_observed: true,
            skips_machine: false,
            machine_read_ns: 0,
            boot_time_ahead_ns: 0,
            processes_seen_ns: 0,
            processes_start_ns: 0,
            processes_watched_ns: 0,
            watches_processes: false,
            next_sample_ns: 0,
            gaps: fastrand::Rng::new(),
            gap_factor: 1,
            room: None,
            top_names: target.top_devices().map(|device| device.name.clone()).collect(),
        }
    }

    /// Adds a watch over the free space.
    #[must_use]
    pub fn with_room(self, room: Option<RoomWatch>) -> Self {
        Self { room, ..self }
    }

    /// Returns the watch over the free space.
    pub fn room(&self) -> Option<&RoomWatch> {
        self.room.as_ref()
    }

    /// Returns the sources that could not be read.
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// Returns true if the target has no devices with counters.
    pub fn has_no_devices(&self) -> bool {
        self.start_snapshot.devices.is_empty() || self.probe.hides_top_device()
    }

    /// Returns a function whose value changes as long as anything moves: bytes of the target's devices.
    /// Without devices, it counts the machine's pages that wait for a server.
    pub fn activity(&mut self) -> impl FnMut() -> u64 {
        let mut low_watermark = LowWatermark::default();
        move || self.moved(&mut low_watermark)
    }

    /// Returns the same function as [`Meter::activity`], but takes over the meter.
    pub fn into_activity(mut self) -> impl FnMut() -> u64 + Send {
        let mut low_watermark = LowWatermark::default();
        move || self.moved(&mut low_watermark)
    }

    fn moved(&mut self, low_watermark: &mut LowWatermark) -> u64 {
        self.probe.snapshot(&mut self.current);
        if self.has_no_devices() {
            low_watermark.is_new(self.current.dirty_bytes + self.current.writeback_bytes);
            return low_watermark.count();
        }
        self.moved_bytes(&self.current.devices)
    }

    /// Returns the bytes that the devices of the file system have moved. Devices below them also serve others: a file
    /// system that hangs on a loop device does not move, though the disk below does.
    pub fn moved_bytes(&self, devices: &[DeviceFrame]) -> u64 {
        let bytes = |device: &DeviceFrame| device.read_bytes.wrapping_add(device.written_bytes);
        let top_names = devices.iter().filter(|device| self.top_names.contains(&device.name));
        top_names.map(bytes).fold(0, u64::wrapping_add)
    }

    /// Starts another phase with these workers. If `counts_calls` is set, it also counts the calls that they
    /// sleep in.
    pub fn reset(&mut self, workers: &[Worker], counts_calls: bool) {
        self.probe.forget_threads();
        let threads: Vec<i32> = workers
            .iter()
            .filter_map(|worker| match worker {
                Worker::Thread(thread) => Some(*thread),
                Worker::Process(_) => None,
            })
            .collect();
        self.waits.count_calls(counts_calls);
        self.waits.watch(&threads);
        threads.iter().for_each(|thread| self.probe.watch_thread(*thread));
        for worker in workers {
            if let Worker::Process(process) = worker {
                self.probe.watch_process(*process);
                self.waits.watch_process(*process);
            }
        }
        self.system_sampler.take(1, 1);
        self.flows.take();
        (self.processes_seen_ns, self.processes_watched_ns) = (0, 0);
        self.observed = PhaseSums::default();
    }

    /// Also samples the operation of a mix that each of these threads is in, until the next phase.
    pub fn watch_operations(
        &mut self,
        names: &'static [&'static str],
        steps: impl IntoIterator<Item = (i32, StepReader)>,
    ) {
        self.waits.watch_steps(names, steps);
    }

    /// Switches the sampling of sleeping threads and of the system during a measured part on or off.
    pub fn set_observed(&mut self, is_observed: bool) {
        self.is_observed = is_observed;
    }

    /// Takes these processes of the machine for part of the test. With none, another of the clients here watches it.
    pub fn exclude_processes(&mut self, processes: Option<&[u32]>, clients_per_machine: u32) {
        self.skips_machine = processes.is_none();
        self.system_sampler.exclude_processes(processes.unwrap_or_default());
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        self.gap_factor = u64::from(clients_per_machine).div_ceil(cpus * SAMPLERS_PER_CPU).max(1);
    }

    /// Returns true if another client watches this machine.
    pub fn skips_machine(&self) -> bool {
        self.skips_machine
    }

    /// Returns the time of the next sample; `u64::MAX` if sampling is off.
    pub fn next_sample_ns(&self) -> u64 {
        if self.is_observed { self.next_sample_ns } else { u64::MAX }
    }

    /// Samples where threads sleep, and other states that no counter records.
    pub fn sample(&mut self, now_ns: u64) {
        self.waits.sample();
        self.flows.sample();
        self.next_sample_ns = now_ns + self.gaps.u64(SAMPLE_GAP_NS) * self.gap_factor;
    }

    /// Waits until data of earlier phases is written back and the devices are calm: its bytes would count here.
    pub fn settle(&mut self, interrupt: &AtomicBool) {
        let calm = |frame: &Frame| {
            frame.devices.iter().all(|device| device.read_bytes + device.written_bytes < CALM_BYTES)
        };
        let part_start_ns = Monotonic.now_ns();
        self.reset(&[], false);
        self.begin();
        while !interrupt.load(Ordering::Relaxed) && !self.has_no_devices() {
            std::thread::sleep(Duration::from_millis(100));
            if calm(&self.tick()) || Monotonic.now_ns() - part_start_ns > CALM_TIMEOUT.as_nanos() as u64 {
                break;
            }
        }
        // A phase that never starts must not show the observations from here.
        self.reset(&[], false);
    }

    /// Begins a measured part.
    pub fn begin(&mut self) {
        if self.is_observed {
            self.watches_processes = !self.skips_machine
                && Monotonic.now_ns() >= self.processes_seen_ns + WATCH_PROCESSES_EVERY_NS;
            // The first visit to the processes takes a while, and what they do meanwhile counts.
            self.processes_start_ns = Monotonic.now_ns();
            self.system_sampler.begin(self.watches_processes);
        }
        self.calls_before = self.probe.calls();
        self.probe.snapshot(&mut self.start_snapshot);
        self.previous.clone_from(&self.start_snapshot);
        self.flows.begin();
        self.part_start_ns = Monotonic.now_ns();
        self.machine_read_ns = self.part_start_ns;
        self.boot_time_ahead_ns = boot_time_ahead_ns();
    }

    /// Notes that this thread slept from `from_ns`, was to wake up at `due_ns`, and woke up now. A thread that is stopped or has no
    /// CPU wakes up late, and a device cannot hold it up.
    pub fn woke_up(&mut self, from_ns: u64, due_ns: u64, now_ns: u64) {
        if now_ns.saturating_sub(due_ns) >= PAUSE_MIN_NS {
            self.observed.pauses.push(from_ns..now_ns);
        }
    }

    /// Returns the changes since the last call, or since the part began. Those of a machine that another client watches
    /// may follow later.
    pub fn tick(&mut self) -> Frame {
        let now_ns = Monotonic.now_ns();
        // Only one of these clocks runs while the machine is suspended.
        let ahead_ns = boot_time_ahead_ns();
        let suspended_ns = ahead_ns.saturating_sub(std::mem::replace(&mut self.boot_time_ahead_ns, ahead_ns));
        if suspended_ns >= PAUSE_MIN_NS {
            self.observed.suspended_ns += suspended_ns;
        }
        let is_own = self.skips_machine && now_ns < self.machine_read_ns + MACHINE_EVERY_NS;
        if is_own {
            self.current.clone_from(&self.previous);
            self.probe.snapshot_own(&mut self.current);
        } else {
            self.machine_read_ns = now_ns;
            self.probe.snapshot(&mut self.current);
        }
        let frame = self.current.frame_since(&self.previous);
        std::mem::swap(&mut self.current, &mut self.previous);
        self.observed.add(&frame);
        frame
    }

    /// Returns the observations since the phase began.
    pub fn take_sums(&mut self) -> PhaseSums {
        let mut system =
            self.system_sampler.take(self.observed.measured_ns, self.processes_watched_ns.max(1));
        system.calls = call_use(&self.observed.calls);
        let paused_ns: u64 = self.observed.pauses.iter().map(|pause| pause.end - pause.start).sum();
        system.not_running_ns = Some(paused_ns).filter(|ns| *ns > 0);
        system.suspended_ns = Some(self.observed.suspended_ns).filter(|ns| *ns > 0);
        let samples = self.waits.call_samples().max(1) as f64;
        let blocked_in = self.waits.calls_blocked();
        PhaseSums {
            watched: self.probe.watched(),
            hides_device: self.probe.hides_top_device(),
            hides_own_io: self.probe.hides_own_io(),
            system,
            flows: self.flows.take(),
            wait_channels: self.waits.sites(),
            blocked_in: blocked_in.into_iter().map(|(call, seen)| (call, seen as f64 / samples)).collect(),
            ..std::mem::take(&mut self.observed)
        }
    }

    /// Ends a measured part.
    pub fn end(&mut self) -> Frame {
        self.machine_read_ns = 0;
        let frame = self.tick();
        self.flows.end();
        let calls = self.probe.calls().each(&self.calls_before, u64::saturating_sub);
        self.observed.calls = self.observed.calls.each(&calls, u64::saturating_add);
        if self.is_observed {
            self.system_sampler.end();
        }
        let part_ns = Monotonic.now_ns().saturating_sub(self.part_start_ns);
        self.observed.measured_ns += part_ns;
        if std::mem::take(&mut self.watches_processes) {
            self.processes_seen_ns = Monotonic.now_ns();
            self.processes_watched_ns += self.processes_seen_ns.saturating_sub(self.processes_start_ns);
        }
        // Ticks are summed over the parts, because a short part may see no tick at all.
        let (now, then) = (&self.previous, &self.start_snapshot);
        self.observed.user_ticks += now.worker_user_ticks.saturating_sub(then.worker_user_ticks);
        self.observed.kernel_ticks += now.worker_kernel_ticks.saturating_sub(then.worker_kernel_ticks);
        frame
    }
}

/// Returns the bytes that each call carried; `None` without calls. Requests in a ring are not calls.
fn call_use(calls: &OwnIo) -> Option<CallUse> {
    let each = |bytes: u64, calls: u64| (calls > 0).then(|| bytes as f64 / calls as f64);
    (calls.read_calls + calls.write_calls > 0).then(|| CallUse {
        read_calls: calls.read_calls,
        write_calls: calls.write_calls,
        bytes_per_read_call: each(calls.read_call_bytes, calls.read_calls),
        bytes_per_write_call: each(calls.write_call_bytes, calls.write_calls),
    })
}

impl PhaseSums {
    /// Adds the counters of one interval.
    pub fn add(&mut self, frame: &Frame) {
        match &mut self.sum {
            Some(sum) => add_frame(sum, frame),
            none => *none = Some(frame.clone()),
        }
    }

    /// Returns how `threads` worker threads spent the time in which they had work, `work_ns`. Their waits for
    /// each other between rounds are no part of it. Returns `None` if the kernel hides the times.
    pub fn budget(&self, threads: usize, work_ns: u64) -> Option<TimeBreakdown> {
        let sum = self.sum.as_ref()?;
        let all = work_ns as f64 * threads as f64;
        let cpu = sum.workers.cpu_ns as f64;
        // Shares of only some threads would look like idleness of all.
        if all == 0.0 || (cpu == 0.0 && !self.is_simulated) || self.watched < threads {
            return None;
        }
        // The CPU time of threads excludes steal; the machine's steal is spread over the threads that ran.
        let machine = sum.cpu.user_ns + sum.cpu.kernel_ns + sum.cpu.steal_ns;
        let steal = if machine == 0 { 0.0 } else { cpu * sum.cpu.steal_ns as f64 / machine as f64 };
        let ticks = (self.user_ticks + self.kernel_ticks).max(1);
        let user = cpu * self.user_ticks as f64 / ticks as f64 / all;
        let kernel = cpu / all - user;
        let run_queue = sum.workers.run_queue_ns as f64 / all;
        let steal = (steal / all).min((1.0 - user - kernel - run_queue).max(0.0));
        let blocked = (1.0 - user - kernel - run_queue - steal).max(0.0);
        // A thread that a quota holds back waits in the run queue, and each CPU counts for itself.
        let cpus = std::thread::available_parallelism().map_or(threads, |cpus| cpus.get().min(threads));
        let held_ns = self.system.quota_throttled_ns.map(|held_ns| held_ns as f64 / cpus as f64);
        let quota = held_ns.map(|held_ns| (held_ns / work_ns as f64).min(run_queue));
        let run_queue = run_queue - quota.unwrap_or(0.0);
        // Clocks that are read one after the other leave a difference of some permille.
        let total = user + kernel + run_queue + quota.unwrap_or(0.0) + steal + blocked;
        Some(TimeBreakdown {
            user: user / total,
            kernel: kernel / total,
            run_queue: run_queue / total,
            quota: quota.map(|quota| quota / total),
            steal: steal / total,
            blocked: blocked / total,
        })
    }

    /// Returns the part of a mix's operation of that length in which threads slept; `None` if no sample found one in it.
    pub fn waiting_in_ns(&self, operation: &str, elapsed_ns: u64) -> Option<u64> {
        let samples = |is_counted: fn(&WaitChannel) -> bool| -> u64 {
            let sites = self.wait_channels.iter().filter(|site| is_counted(site));
            let counted = sites.flat_map(|site| &site.operations).filter(|one| one.operation == operation);
            counted.map(|one| one.samples).sum()
        };
        let (asleep, all) = (samples(WaitChannel::is_asleep), samples(|_| true));
        (all > 0).then(|| (asleep as f64 / all as f64 * elapsed_ns as f64) as u64)
    }

    /// Returns the time that `threads` threads slept in the calls of a step; `None` if calls were not
    /// counted.
    pub fn waiting_ns(&self, step: &VerbStep, threads: u32) -> Option<u64> {
        if self.blocked_in.is_empty() {
            return None;
        }
        let its = self.blocked_in.iter().filter(|(call, _)| step.calls.contains(call));
        let share: f64 = its.map(|(_, share)| share).sum();
        Some((share * self.measured_ns as f64 * f64::from(threads)) as u64)
    }

    /// Returns the CPU shares of the whole machine.
    pub fn cpu(&self) -> Option<CpuShares> {
        let cpu = &self.sum.as_ref()?.cpu;
        let all = (cpu.user_ns + cpu.kernel_ns + cpu.idle_ns + cpu.steal_ns) as f64;
        let share = |part_ns: u64| part_ns as f64 / all;
        (all > 0.0).then(|| CpuShares {
            user: share(cpu.user_ns),
            kernel: share(cpu.kernel_ns),
            steal: share(cpu.steal_ns),
        })
    }

    /// Returns what the mounted device did for the collected operations; `None` if its counters are hidden.
    pub fn device(&self, target: &Target, phase: &PlannedPhase, collected: &Collector) -> Option<DeviceUse> {
        let sum = self.sum.as_ref().filter(|_| !self.hides_device)?;
        let top = sum.devices.first()?;
        let operations = top.reads + top.writes;
        let moved = top.read_bytes + top.written_bytes;
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let bytes_per_app_byte = match (collected.read_bytes > 0, collected.written_bytes > 0) {
            (true, false) => ratio(top.read_bytes, collected.read_bytes),
            (false, true) => ratio(top.written_bytes, collected.written_bytes),
            _ => ratio(moved, collected.read_bytes + collected.written_bytes),
        };
        // A file system on several devices has no single device on top.
        let leaves: u64 = target
            .device_stack
            .iter()
            .zip(&sum.devices)
            .skip(1)
            .filter(|(device, _)| device.is_leaf())
            .map(|(_, frame)| frame.written_bytes)
            .sum();
        Some(DeviceUse {
            name: top.name.clone(),
            bytes_read: top.read_bytes,
            bytes_written: top.written_bytes,
            operations,
            flushes: top.flushes,
            mean_request_bytes: ratio(moved, operations),
            bytes_per_app_byte,
            leaf_amplification: ratio(leaves, top.written_bytes).filter(|_| target.device_stack.len() > 1),
            foreign_share: self.foreign_share(phase, collected.read_bytes + collected.written_bytes),
            other_bytes_per_second: None,
        })
    }

    /// Returns the share of the traffic that was not accounted to this process. The traffic is the device's or that of
    /// the application, whichever is more. Only reads and direct writes have a share: no process is charged for all
    /// bytes of journals and writeback.
    fn foreign_share(&self, phase: &PlannedPhase, app_bytes: u64) -> Option<f64> {
        let Work::Data(data) = &phase.workload.work else { return None };
        let sum = self.sum.as_ref().filter(|_| !self.hides_own_io)?;
        let (top, own) = (sum.devices.first()?, &sum.own_io);
        let reads = (top.read_bytes, own.device_read_bytes);
        let writes = (top.written_bytes, own.device_written_bytes);
        let (device, own) = match data.verb {
            DataVerb::Read => (reads.0 + writes.0, reads.1 + writes.1),
            DataVerb::Write if data.direct => (reads.0 + writes.0, reads.1 + writes.1),
            DataVerb::Rw if data.direct => (reads.0 + writes.0, reads.1 + writes.1),
            _ => return None,
        };
        let traffic = device.max(app_bytes);
        (traffic > 0).then(|| (device.saturating_sub(own) as f64 / traffic as f64).min(1.0))
    }

    /// Returns the share of the read bytes that the block layer did not fetch for us.
    pub fn page_cache_share(
        &self,
        target: &Target,
        phase: &PlannedPhase,
        collected: &Collector,
    ) -> Option<f64> {
        let is_counted = target.backing == Backing::Devices && !self.hides_own_io;
        let sum = self.sum.as_ref().filter(|_| is_counted)?;
        // A block that an operation reads again is in the cache because of that operation. It says nothing
        // about the first read.
        let rereads = phase.workload.data().is_some_and(|data| data.reread && !data.direct);
        let read_bytes = collected.read_bytes / if rereads { 2 } else { 1 };
        if read_bytes == 0 {
            return None;
        }
        Some((1.0 - sum.own_io.device_read_bytes as f64 / read_bytes as f64).clamp(0.0, 1.0))
    }
}

/// Minima of the bytes that wait for writeback. Pages of other processes come and go, but new minima continue only as
/// long as something is written.
#[derive(Debug)]
pub struct LowWatermark {
    least_bytes: u64,
    count: u64,
}

/// Least distance from one minimum to the next. Over the longest wait for one, this is 1 MB/s, and pages of other
/// processes seldom go so far.
const LOW_BYTES: u64 = 16 << 20;

impl Default for LowWatermark {
    fn default() -> Self {
        Self { least_bytes: u64::MAX, count: 0 }
    }
}

impl LowWatermark {
    /// Takes note of the present bytes. Returns true for a new low.
    pub fn is_new(&mut self, bytes: u64) -> bool {
        let is_new = bytes.saturating_add(LOW_BYTES) <= self.least_bytes;
        if is_new {
            self.least_bytes = bytes;
            self.count += 1;
        }
        is_new
    }

    /// Returns the number of lows so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn busy_thread_time_is_fully_accounted_for() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::system();
        let target = observe::target(&root, directory.path()).unwrap();
        let mut meter = Meter::new(&root, &target);
        let stop = AtomicBool::new(false);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            meter.reset(&[Worker::Thread(receiver.recv().unwrap())], false);
            meter.begin();
            std::thread::sleep(Duration::from_secs(2));
            meter.end();
            stop.store(true, Ordering::Relaxed);
        });
        let observed = meter.take_sums();
        let budget = observed.budget(1, observed.measured_ns).unwrap();
        // A wait for a CPU is counted when it is over; on a busy machine, the last one is not over yet.
        assert!(budget.blocked <= 0.05, "{budget:?}");
        let sum = budget.user + budget.kernel + budget.run_queue + budget.steal + budget.blocked;
        assert!((sum - 1.0).abs() < 1e-9, "{budget:?}");
    }

    #[test]
    fn unreadable_counters_are_not_zeros() {
        use model::plan::Stop;
        use model::spec::{Defaults, parse};
        use model::workload::Engine;

        let directory = tempfile::tempdir().unwrap();
        let target = observe::target(&Root::system(), directory.path()).unwrap();
        let phase = PlannedPhase {
            id: "read".into(),
            workload: parse("read:rnd4k", &Defaults::default()).unwrap(),
            engine: Engine::Sync,
            replaced_workload: None,
            group: None,
            clients: None,
            stop: Stop::default(),
        };
        let zeros = Snapshot { devices: vec![DeviceFrame::default()], ..Snapshot::default() };
        let frame = zeros.frame_since(&zeros);
        let mut collected = Collector::new(Vec::new());
        collected.read_bytes = 4096;
        let known = PhaseSums { sum: Some(frame), ..PhaseSums::default() };
        let device = |sums: &PhaseSums| sums.device(&target, &phase, &collected);
        assert_eq!(device(&known).unwrap().foreign_share, Some(0.0));
        assert!(device(&PhaseSums { hides_device: true, ..known.clone() }).is_none());
        assert_eq!(device(&PhaseSums { hides_own_io: true, ..known }).unwrap().foreign_share, None);
    }
}
