//! A simulated device on a virtual clock. Minutes run in milliseconds, through the same loop that measures real
//! devices. The same seed gives the same run. The description of the device ([`SimDevice`]) determines the correct
//! results.
//!
//! The model, for computing results by hand. The device takes requests in the order in which they arrive:
//!
//! - **CPU.** Each call first keeps its worker's CPU busy for `cpu_ns_per_op`, one call after the other, and then
//!   reaches the device. A worker starts at most 1 / `cpu_ns_per_op` calls. Each worker has a separate CPU.
//! - **Requests per second.** A request is admitted at once, but at least 1 / `ops_per_second` after the previous one.
//! - **Servers.** An admitted request waits for the first free one of `parallelism` servers. It keeps the server for a
//!   latency drawn for it alone (first come, first served; Kleinrock, "Queueing Systems", 1975, chapter 5).
//! - **Bytes per second.** At the same time its bytes pass a pipe, behind those of earlier requests. The bytes of a
//!   write also pass the pipe of writes. The request ends when server and pipes are done.
//! - **Age.** The device counts the bytes written over all tests. Before a write passes its pipe, the pipe takes the cap
//!   of the last `wear` whose `after_bytes` were written before. A purge sets the count to 0.
//! - **Cache.** With a cache, a write needs no server and draws no latency. It waits until the cache has room, then
//!   takes the latency of the cache. The cache drains all the while, independent of reads. A flush waits until all
//!   earlier writes are drained, then takes its own latency. It needs no server and passes no cap.
//! - **Stalls.** During a stall the device's time stops; then all work continues. Throttles follow the clock, even in
//!   the middle of a request.
//!
//! With a fixed latency L, parallelism p and q requests in flight, a closed loop makes min(q, p) / L requests a second.
//! It makes no more than `ops_per_second`, and with b bytes per request no more than `bytes_per_second` / b. By
//! Little's law (1961), each request takes q over that rate. With a full cache, writes run at its drain rate. With c
//! for `cpu_ns_per_op`, w workers make at most w / c requests, and one worker at depth 1 makes 1 / (L + c).
//!
//! Faults count reads and writes as they come. A failed request takes its time like any other. Each request takes at
//! least a nanosecond, so that time goes on, and ends on a whole nanosecond. The device keeps no data: reads return
//! zeros. Its size only matters to code that lays out files on it.
//!
//! A change of the model changes this comment, and has a test that computes the answer by hand.

mod time;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::run::{CpuTimes, DeviceFrame, Frame, OwnIo, ThreadTimes};
use model::sim::{Distribution, Fault, FaultKind, SimDevice};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::data::mix;
use crate::pacing::{ClosedLoop, OpenLoop, Pacing};
use crate::pattern::Pattern;
use crate::recorder::{INTERVAL_NS, Recorder};
use crate::verb::{Steps, Verb};
use crate::worker::{Layout, Limits, Stamping, Worker, WorkerParts, WorkerResult};
use crate::zones::Zones;
use crate::{Call, Completion, DataEngine, Io, PendingBlock};
use time::{NS, Pipe, SECOND, Stalls};

/// A clock that advances only when [`drive`] moves it.
#[derive(Debug, Clone, Default)]
pub struct SimClock(Rc<Cell<u64>>);

impl SimClock {
    fn move_to(&self, at_ns: u64) {
        self.0.set(self.0.get().max(at_ns));
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.0.get()
    }

    /// Returns at once: [`drive`] knows what the worker waits for.
    fn wait_until(&self, _: u64) {}
}

/// A call in flight.
#[derive(Debug, Clone, Copy)]
struct Request {
    call: Call,
    result: i32,
}

/// Connection of one engine.
#[derive(Debug)]
struct Port {
    block_bytes: u64,
    /// One per slot.
    requests: Box<[Request]>,
    ended: Vec<Completion>,
    /// Time when the worker's CPU has worked off all submitted calls.
    cpu_free_ns: u64,
}

/// Time of an event, its rank among events of the same instant, its port and its slot.
type Event = Reverse<(u64, u64, u32, u32)>;

/// The device, all requests in flight, and the machine around it. Engines share it.
#[derive(Debug)]
pub struct SimSystem {
    device: SimDevice,
    cpus: u32,
    /// State of the random generator.
    draws: u64,
    start_ns: u64,
    stalls: Stalls,
    ops: Pipe,
    bytes: Pipe,
    written: Pipe,
    /// Times when each server is free, in device time.
    servers: BinaryHeap<Reverse<u64>>,
    /// Time when the cache would be empty without further writes, in device time.
    drained: u64,
    faults: VecDeque<Fault>,
    /// Bytes written since the device was made or purged.
    age_bytes: u64,
    /// Reads and writes that have reached the device.
    come: u64,
    ports: Vec<Port>,
    /// Calls that have not reached the device.
    arrivals: BinaryHeap<Event>,
    /// Requests in the device.
    departures: BinaryHeap<Event>,
    events: u64,
    /// Ports with completions that were not reaped yet.
    completed_ports: Vec<u32>,
    in_flight: u64,
    /// Time up to which `frame` has integrated time.
    counted_ns: u64,
    /// Counts since the last frame.
    frame: DeviceFrame,
    frame_start_ns: u64,
    /// CPU time of submitted calls, less the time in earlier frames.
    cpu_ns: u64,
    /// Ends the simulation when it is raised.
    interrupt: Arc<AtomicBool>,
}

impl SimSystem {
    /// A world with this device in a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// One sentence if the device would not serve anything.
    pub fn new(device: &SimDevice, cpus: u32, seed: u64) -> Result<Self, String> {
        // A share below 1 lets every window end. Stalls that always coincide count twice, so the share is too high for
        // them.
        let share = Stalls::new(&device.stalls).share();
        if share >= 1.0 {
            let percent = share * 100.0;
            return Err(format!(
                "its stalls take {percent:.0} % of the time; use shorter or less frequent stalls"
            ));
        }
        let mut faults = device.errors.clone();
        faults.sort_by_cached_key(|fault| fault.after_ops);
        let mut world = Self {
            device: device.clone(),
            cpus,
            draws: mix(seed ^ mix(0x0053_494d)),
            start_ns: 0,
            stalls: Stalls::default(),
            ops: Pipe::default(),
            bytes: Pipe::default(),
            written: Pipe::default(),
            servers: BinaryHeap::new(),
            drained: 0,
            faults: faults.into(),
            age_bytes: 0,
            come: 0,
            ports: Vec::new(),
            arrivals: BinaryHeap::new(),
            departures: BinaryHeap::new(),
            events: 0,
            completed_ports: Vec::new(),
            in_flight: 0,
            counted_ns: 0,
            frame: idle(&device.name),
            frame_start_ns: 0,
            cpu_ns: 0,
            interrupt: Arc::default(),
        };
        world.begin(0);
        Ok(world)
    }

    /// Begins a phase: throttles and stalls count from here. The content of the cache and the numbers of requests stay.
    /// No request may be in flight.
    fn begin(&mut self, start_ns: u64) {
        let left = self.drained.saturating_sub(self.stalls.device(self.since_start(start_ns)));
        self.advance(start_ns);
        let SimDevice { parallelism, stalls, throttles, .. } = &self.device;
        self.start_ns = start_ns;
        self.stalls = Stalls::new(stalls);
        let changes = || throttles.iter().map(|throttle| (throttle.at_s, throttle.ops_per_second));
        self.ops = Pipe::new(self.device.ops_per_second, changes());
        let changes = || throttles.iter().map(|throttle| (throttle.at_s, throttle.bytes_per_second));
        self.bytes = Pipe::new(self.device.bytes_per_second, changes());
        self.written = Pipe::new(self.device.write_cap(self.age_bytes), std::iter::empty());
        self.servers = (0..(*parallelism).max(1)).map(|_| Reverse(0)).collect();
        self.drained = left;
        self.frame = idle(&self.device.name);
        self.frame_start_ns = start_ns;
        self.cpu_ns = 0;
    }

    /// Returns the activity of the machine since the last frame, or since the phase began. Requests count when they
    /// end, and their time when it passes, up to `now_ns`.
    pub fn frame_since_last(&mut self, now_ns: u64) -> Frame {
        self.advance(now_ns);
        let device = std::mem::replace(&mut self.frame, idle(&self.device.name));
        // CPU time that was submitted but not worked off yet is spent later.
        let later_ns = self.ports.iter().map(|port| port.cpu_free_ns.saturating_sub(now_ns)).sum();
        let kernel_ns = self.cpu_ns.saturating_sub(later_ns);
        self.cpu_ns = later_ns;
        let all_ns = u64::from(self.cpus) * now_ns.saturating_sub(self.frame_start_ns);
        self.frame_start_ns = now_ns;
        Frame {
            own_io: OwnIo {
                read_call_bytes: device.read_bytes,
                write_call_bytes: device.written_bytes,
                read_calls: device.reads,
                write_calls: device.writes,
                device_read_bytes: device.read_bytes,
                device_written_bytes: device.written_bytes,
            },
            devices: vec![device],
            cpu: CpuTimes { user_ns: 0, kernel_ns, idle_ns: all_ns.saturating_sub(kernel_ns), steal_ns: 0 },
            workers: ThreadTimes { cpu_ns: kernel_ns, run_queue_ns: 0 },
            dirty_bytes: 0,
            writeback_bytes: 0,
            dirtied_bytes: None,
        }
    }

    /// Sets the bytes that earlier tests wrote to the device.
    pub fn set_age(&mut self, written_bytes: u64) {
        self.age_bytes = written_bytes;
    }

    /// Returns the bytes written to the device, those of earlier tests included.
    pub fn age_bytes(&self) -> u64 {
        self.age_bytes
    }

    /// Ends [`drive`] soon after `interrupt` is raised: a simulation may take much longer than the time it simulates.
    pub fn set_interrupt(&mut self, interrupt: Arc<AtomicBool>) {
        self.interrupt = interrupt;
    }

    /// Time of the next event, if nothing else is submitted.
    fn next_ns(&self) -> u64 {
        let next = |events: &BinaryHeap<Event>| events.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        next(&self.arrivals).min(next(&self.departures))
    }

    fn submit(&mut self, port: u32, io: Io, now_ns: u64) {
        let Port { cpu_free_ns, requests, .. } = &mut self.ports[port as usize];
        *cpu_free_ns = now_ns.max(*cpu_free_ns).saturating_add(self.device.cpu_ns_per_op);
        requests[io.slot as usize].call = io.call;
        self.cpu_ns += self.device.cpu_ns_per_op;
        self.events += 1;
        self.arrivals.push(Reverse((*cpu_free_ns, self.events, port, io.slot)));
        self.advance(now_ns);
    }

    /// Processes all events until `now_ns`, which is not before the last call's.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let at_ns = self.next_ns();
            if at_ns > now_ns {
                break;
            }
            self.integrate(at_ns);
            // A departure at the same instant makes room first.
            let leaves = self.departures.peek().is_some_and(|Reverse((leaves_ns, ..))| *leaves_ns == at_ns);
            if leaves {
                self.departures.pop().into_iter().for_each(|event| self.leave(event));
            } else {
                self.arrivals.pop().into_iter().for_each(|event| self.arrive(event));
            }
        }
        self.integrate(now_ns);
    }

    /// Counts the time until `now_ns`, during which nothing arrives or leaves.
    fn integrate(&mut self, now_ns: u64) {
        let past_ns = now_ns.saturating_sub(self.counted_ns);
        self.counted_ns += past_ns;
        self.frame.in_flight_ns += self.in_flight * past_ns;
        self.frame.busy_ns += if self.in_flight > 0 { past_ns } else { 0 };
    }

    fn since_start(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.start_ns).saturating_mul(NS)
    }

    fn arrive(&mut self, Reverse((now_ns, _, port, slot)): Event) {
        let now = self.since_start(now_ns);
        self.stalls.forget(now);
        let come = self.stalls.device(now);
        let Port { block_bytes, requests, .. } = &self.ports[port as usize];
        let (call, bytes) = (requests[slot as usize].call, *block_bytes);
        let (end, result) = match call {
            Call::Datasync => (self.flush(come), 0),
            // The plan refuses tests that discard on a device without data.
            Call::Discard => (come, 0),
            Call::Read | Call::Write => (self.transfer(come, call == Call::Write, bytes), self.result(bytes)),
        };
        let end_ns = self.stalls.clock(end.max(come + NS)).div_ceil(NS);
        self.ports[port as usize].requests[slot as usize].result = result;
        self.in_flight += 1;
        self.events += 1;
        self.departures.push(Reverse((self.start_ns.saturating_add(end_ns), self.events, port, slot)));
    }

    fn leave(&mut self, Reverse((.., port, slot)): Event) {
        self.in_flight -= 1;
        let Port { requests, ended, .. } = &mut self.ports[port as usize];
        let Request { call, result } = requests[slot as usize];
        if ended.is_empty() {
            self.completed_ports.push(port);
        }
        ended.push(Completion { slot, result });
        // The kernel counts failed requests too, with the bytes that they have moved.
        let moved = u64::try_from(result).unwrap_or(0);
        match call {
            Call::Read => {
                self.frame.reads += 1;
                self.frame.read_bytes += moved;
            }
            Call::Write => {
                self.frame.writes += 1;
                self.frame.written_bytes += moved;
            }
            Call::Datasync => self.frame.flushes += 1,
            Call::Discard => {}
        }
    }

    /// Returns the end of a read or write that arrives at `come`, both in device time.
    fn transfer(&mut self, come: u64, is_write: bool, bytes: u64) -> u64 {
        let admitted = come.max(self.ops.free);
        self.ops.pass(admitted, 1, &mut self.stalls);
        let mut passed = self.bytes.pass(admitted, bytes, &mut self.stalls);
        if is_write {
            self.written.limit(self.device.write_cap(self.age_bytes));
            passed = passed.max(self.written.pass(admitted, bytes, &mut self.stalls));
            self.age_bytes = self.age_bytes.saturating_add(bytes);
        }
        let served = match self.device.cache {
            Some(cache) if is_write => {
                let drains = |bytes: u64| {
                    let takes = u128::from(bytes) * u128::from(SECOND)
                        / u128::from(cache.drain_bytes_per_second.max(1));
                    u64::try_from(takes).unwrap_or(u64::MAX)
                };
                // There is room once the cached bytes drain in less time than the rest of the cache would. A write
                // larger than the cache takes all of it.
                let room =
                    self.drained.saturating_sub(drains(cache.bytes.saturating_sub(bytes))).max(admitted);
                self.drained = self.drained.max(room).saturating_add(drains(bytes));
                room.saturating_add((cache.latency_us * 1e6) as u64)
            }
            _ => {
                let latency = if is_write { self.device.write_latency() } else { self.device.latency };
                let latency = self.draw(latency);
                let mut free = admitted;
                if let Some(mut server) = self.servers.peek_mut() {
                    free = admitted.max(server.0).saturating_add(latency);
                    *server = Reverse(free);
                }
                free
            }
        };
        served.max(passed)
    }

    /// Returns the end of a flush that arrives at `come`, both in device time.
    fn flush(&mut self, come: u64) -> u64 {
        let takes = self.device.flush_latency.map_or(0, |latency| self.draw(latency));
        come.max(self.drained).saturating_add(takes)
    }

    /// Result of the next read or write: bytes moved, or the negative error number.
    fn result(&mut self, bytes: u64) -> i32 {
        let served = self.come;
        self.come += 1;
        let Some(fault) = self.faults.front().copied().filter(|fault| fault.after_ops <= served) else {
            return bytes as i32;
        };
        self.faults.pop_front();
        match fault.error {
            FaultKind::Io => -Errno::IO.raw_os_error(),
            FaultKind::NoSpace => -Errno::NOSPC.raw_os_error(),
            FaultKind::Short => bytes as i32 / 2,
        }
    }

    /// Returns a number above 0 and up to 1, of 53 random bits.
    fn uniform(&mut self) -> f64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((mix(self.draws) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn draw(&mut self, distribution: Distribution) -> u64 {
        let us = match distribution {
            Distribution::Fixed { mean_us } => mean_us,
            Distribution::Exponential { mean_us } => -self.uniform().ln() * mean_us,
            Distribution::LogNormal { mean_us, sigma } => {
                // Box and Muller, "A note on the generation of random normal deviates", 1958. The mean of exp(sigma N)
                // is exp(sigma^2 / 2).
                let radius = (-2.0 * self.uniform().ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * self.uniform()).cos();
                mean_us * (sigma * normal - sigma * sigma / 2.0).exp()
            }
            Distribution::Bimodal { mean_us, slow_us, slow_share } => {
                if self.uniform() <= slow_share {
                    slow_us
                } else {
                    mean_us
                }
            }
        };
        (us * 1e6).round() as u64
    }
}

/// A frame without activity.
fn idle(name: &str) -> DeviceFrame {
    DeviceFrame { name: name.into(), ..DeviceFrame::default() }
}

/// One worker's connection to the device.
#[derive(Debug)]
pub struct SimEngine {
    world: Rc<RefCell<SimSystem>>,
    clock: SimClock,
    port: u32,
    depth: u32,
    /// Returned by all reads and never written, as no data is kept.
    block: Box<[u8]>,
}

impl SimEngine {
    /// An engine for `depth` calls on blocks of `block_bytes`. Its reads cannot be verified.
    pub fn new(world: &Rc<RefCell<SimSystem>>, clock: &SimClock, depth: u32, block_bytes: usize) -> Self {
        let ports = &mut world.borrow_mut().ports;
        let request = Request { call: Call::Read, result: 0 };
        ports.push(Port {
            block_bytes: block_bytes as u64,
            requests: vec![request; depth as usize].into(),
            ended: Vec::with_capacity(depth as usize),
            cpu_free_ns: 0,
        });
        let (port, clock) = (ports.len() as u32 - 1, clock.clone());
        Self { world: Rc::clone(world), clock, port, depth, block: vec![0; block_bytes].into() }
    }
}

impl DataEngine for SimEngine {
    fn depth(&self) -> u32 {
        self.depth
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.block.len() as u64
    }

    /// Reports the block as stamped already: the simulated device keeps no data.
    fn draft(&mut self, _: u32) -> PendingBlock<'_> {
        PendingBlock { bytes: &mut self.block, phase_bytes: 0, is_duplicate: true }
    }

    fn block_read(&self, _: u32) -> &[u8] {
        &self.block
    }

    fn queue(&mut self, io: Io) {
        self.world.borrow_mut().submit(self.port, io, self.clock.now_ns());
    }

    /// Returns calls that have completed by now, and never waits: [`drive`] calls again when there are more.
    fn reap(&mut self, done: &mut [Completion], _: u64) -> Result<usize, Errno> {
        let mut world = self.world.borrow_mut();
        world.advance(self.clock.now_ns());
        let ended = &mut world.ports[self.port as usize].ended;
        let count = ended.len().min(done.len());
        done.iter_mut().zip(ended.drain(..count)).for_each(|(done, ended)| *done = ended);
        Ok(count)
    }
}

/// The work of one thread on a simulated device.
#[derive(Debug)]
pub struct SimLoop<'a> {
    /// The calls of an operation.
    pub verb: Steps,
    /// Start times of an open loop; `None` for a closed one.
    pub pacing: Option<OpenLoop>,
    /// Bytes of one block.
    pub block_bytes: u64,
    /// Operations in flight.
    pub iodepth: u32,
    /// Order of the blocks.
    pub pattern: Pattern,
    /// Zones that it visits instead of the pattern, if there are any.
    pub zones: Option<Zones>,
    /// Location of the blocks.
    pub layout: Layout,
    /// Seed of the data.
    pub seed: u64,
    /// Limits that end the loop.
    pub limits: Limits<'a>,
    /// Counts of what was done.
    pub recorder: Recorder,
}

/// Runs the loops on a device, all open or all closed, with [`drive`].
pub fn run(
    loops: Vec<SimLoop<'_>>,
    clock: &SimClock,
    world: &Rc<RefCell<SimSystem>>,
    on_tick: &mut dyn FnMut(u64, Frame),
) -> Vec<WorkerResult> {
    let pacings: Vec<_> = loops.iter().filter_map(|each| each.pacing.clone()).collect();
    let (is_open, loops) = (pacings.len() == loops.len(), loops.into_iter());
    if is_open {
        let workers = loops.zip(pacings).map(|(each, pacing)| each.worker(clock, world, pacing));
        drive(workers.collect(), clock, world, 0, on_tick)
    } else {
        let workers = loops.map(|each| each.worker(clock, world, ClosedLoop));
        drive(workers.collect(), clock, world, 0, on_tick)
    }
}

impl<'a> SimLoop<'a> {
    fn worker<P: Pacing>(
        self,
        clock: &SimClock,
        world: &Rc<RefCell<SimSystem>>,
        pacing: P,
    ) -> Worker<'a, SimEngine, SimClock, P, Steps> {
        let Self { verb, block_bytes, iodepth, pattern, zones, layout, seed, limits, recorder, .. } = self;
        let worker = Worker::new(WorkerParts {
            engine: SimEngine::new(world, clock, iodepth, block_bytes as usize),
            clock: clock.clone(),
            pacing,
            verb,
            pattern,
            layout,
            stamping: Stamping::unverified(seed),
            limits,
            recorder,
        });
        match zones {
            Some(zones) => worker.in_zones(zones),
            None => worker,
        }
    }
}

/// Events between two checks of the interrupt flag.
const EVENTS_PER_CHECK: u64 = 4096;

/// Runs workers whose engines share `world` and `clock`, from `start_ns` until all of them are done. There is no real
/// waiting: the clock jumps from one event to the next, and workers are visited in their order.
///
/// `on_tick` gets the time and the machine's activity since the last call. It runs every 100 ms after the start, and at
/// the end of the last worker. It drains the readers of all workers. A closed loop checks for ticks only when a call
/// completes, so its counts until one tick arrive at the next, as ever.
///
/// Nothing hangs if `on_tick` does not drain: the queue has room for all existing deltas, so a worker's last hand-over
/// never waits. The caller drains the readers once more afterwards.
pub fn drive<P: Pacing, V: Verb>(
    workers: Vec<Worker<'_, SimEngine, SimClock, P, V>>,
    clock: &SimClock,
    world: &Rc<RefCell<SimSystem>>,
    start_ns: u64,
    on_tick: &mut dyn FnMut(u64, Frame),
) -> Vec<WorkerResult> {
    let start_ns = start_ns.max(clock.now_ns());
    clock.move_to(start_ns);
    world.borrow_mut().begin(start_ns);
    let mut at_port = vec![None; world.borrow().ports.len()];
    for (member, worker) in workers.iter().enumerate() {
        at_port[worker.engine().port as usize] = Some(member);
    }
    let mut wakes_ns = vec![start_ns; workers.len()];
    let mut ended: Vec<Option<WorkerResult>> = vec![None; workers.len()];
    let mut workers: Vec<_> = workers.into_iter().map(Some).collect();
    workers.iter_mut().flatten().for_each(|worker| worker.start(start_ns));

    let mut completed_ports = Vec::new();
    let mut tick_ns = start_ns + INTERVAL_NS;
    let interrupt = Arc::clone(&world.borrow().interrupt);
    for turn in 0u64.. {
        let is_interrupted = turn % EVENTS_PER_CHECK == 0 && interrupt.load(Ordering::Relaxed);
        if is_interrupted || workers.iter().all(Option::is_none) {
            break;
        }
        let wake_ns = wakes_ns.iter().copied().min().unwrap_or(u64::MAX);
        let next_ns = world.borrow().next_ns().min(wake_ns);
        if next_ns == u64::MAX {
            // No event would ever come again. No worker waits without a reason, but time would go on for ever.
            break;
        }
        let now_ns = next_ns.min(tick_ns);
        clock.move_to(now_ns);
        {
            let mut world = world.borrow_mut();
            world.advance(now_ns);
            std::mem::swap(&mut completed_ports, &mut world.completed_ports);
        }
        for port in completed_ports.drain(..) {
            if let Some(member) = at_port[port as usize] {
                wakes_ns[member] = now_ns;
            }
        }
        for (member, wakes_ns) in wakes_ns.iter_mut().enumerate() {
            let Some(worker) = workers[member].as_mut().filter(|_| *wakes_ns <= now_ns) else { continue };
            worker.reap_completions();
            worker.launch();
            *wakes_ns = worker.wakes_at().unwrap_or(u64::MAX);
            if worker.is_done() {
                *wakes_ns = u64::MAX;
                ended[member] = workers[member].take().map(Worker::end);
            }
        }
        if now_ns == tick_ns {
            let frame = world.borrow_mut().frame_since_last(now_ns);
            on_tick(now_ns, frame);
            tick_ns += INTERVAL_NS;
        }
    }
    let ended =
        workers.into_iter().zip(ended).filter_map(|(worker, ended)| ended.or(worker.map(Worker::end)));
    let ended = ended.collect();
    let now_ns = clock.now_ns();
    if now_ns + INTERVAL_NS > tick_ns {
        let frame = world.borrow_mut().frame_since_last(now_ns);
        on_tick(now_ns, frame);
    }
    ended
}

#[cfg(test)]
mod tests;
