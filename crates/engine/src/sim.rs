//! A simulated device on a virtual clock: minutes run in milliseconds, through the loop that measures real devices,
//! and the same seed gives the same run. What is known of the device ([`SimDevice`]) says what must be measured.
//!
//! The model, for computing answers by hand. Requests are taken in the order in which they come:
//!
//! 1. **CPU.** Each call first keeps its worker's CPU busy for `cpu_ns_per_op`, one call after the other; then it
//!    reaches the device. A worker starts at most 1 / `cpu_ns_per_op`, and there is a CPU for each of them.
//! 2. **Requests per second.** A request is admitted 1 / `ops_per_second` after the one before, or at once.
//! 3. **Servers.** Once admitted, it waits for the first of `parallelism` servers and keeps it for a latency that is
//!    drawn for it alone (first come, first served; Kleinrock, "Queueing Systems", 1975, chapter 5).
//! 4. **Bytes per second.** At the same time its bytes pass a pipe, and those of a write also the pipe of writes,
//!    behind those of the requests before. The request ends when all of this has ended.
//! 5. **Cache.** Where there is one, a write needs no server, nor its latency: it waits until the cache has room, and
//!    then takes the latency of the cache, which drains all the while, beside what is read. A flush waits until all
//!    writes that came before it are drained, and then takes its own latency. It needs no server and passes no cap.
//! 6. **Stalls.** The device's time stands still: whatever it does goes on where it was. Throttles come when the
//!    clock says so, in the middle of a request too.
//!
//! With a fixed latency L, parallelism p and q requests in flight, a closed loop makes min(q, p) / L requests of b
//! bytes a second, but no more than `ops_per_second` and `bytes_per_second` / b, and by Little's law (1961) each takes
//! q over that rate. With a full cache, writes go at its drain rate. With c for `cpu_ns_per_op`, w workers make at most
//! w / c, and one at depth 1 makes 1 / (L + c).
//!
//! Faults count reads and writes as they come. A request that fails takes its time like any other. Each takes at least
//! a nanosecond, so that time goes on, and ends on a whole one. The device keeps no data: what is read is zero, and its
//! size is for whoever lays files out on it.

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
use crate::pacing::Pacing;
use crate::recorder::INTERVAL_NS;
use crate::verb::Verb;
use crate::worker::{Ended, Worker};
use crate::{Call, Completion, DataEngine, Draft, Io};
use time::{NS, Pipe, SECOND, Stalls};

/// A clock that stands still until [`drive`] moves it.
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

    /// Comes back at once: [`drive`] looks at what the worker waits for.
    fn wait_until(&self, _: u64) {}
}

/// A call on its way.
#[derive(Debug, Clone, Copy)]
struct Request {
    call: Call,
    result: i32,
}

/// Where one engine is connected.
#[derive(Debug)]
struct Port {
    block_bytes: u64,
    /// One per slot.
    requests: Box<[Request]>,
    ended: Vec<Completion>,
    /// When its worker has spent the CPU time of all that it submitted.
    cpu_free_ns: u64,
}

/// When something happens, in which order at the same instant, to which port and slot.
type Event = Reverse<(u64, u64, u32, u32)>;

/// The device, with all that is in flight, and the machine around it. Engines share it.
#[derive(Debug)]
pub struct World {
    device: SimDevice,
    cpus: u32,
    /// State of the generator of latencies.
    draws: u64,
    start_ns: u64,
    stalls: Stalls,
    ops: Pipe,
    bytes: Pipe,
    written: Pipe,
    /// When each is free, in the device's time.
    servers: BinaryHeap<Reverse<u64>>,
    /// When the cache would be empty if no more came, in the device's time.
    drained: u64,
    faults: VecDeque<Fault>,
    /// Reads and writes that have come.
    come: u64,
    ports: Vec<Port>,
    /// On their way to the device.
    arrivals: BinaryHeap<Event>,
    /// In the device.
    departures: BinaryHeap<Event>,
    events: u64,
    /// Ports at which something has ended that was not reaped yet.
    landed: Vec<u32>,
    in_flight: u64,
    /// Up to when time was integrated.
    counted_ns: u64,
    /// Since the last frame, which ended then.
    frame: DeviceFrame,
    frame_start_ns: u64,
    /// CPU time of calls submitted, less what is in earlier frames.
    cpu_ns: u64,
    /// Ends it when it is raised.
    interrupt: Arc<AtomicBool>,
}

impl World {
    /// The device in a machine of so many CPUs.
    ///
    /// # Errors
    /// One sentence if it would not serve anything.
    pub fn new(device: &SimDevice, cpus: u32, seed: u64) -> Result<Self, String> {
        // Less than all is enough for every window to end. Two that always coincide are taken for more than they are.
        let share = Stalls::new(&device.stalls).share();
        if share >= 1.0 {
            let percent = share * 100.0;
            return Err(format!("its stalls take up {percent:.0} % of the time; leave time between them"));
        }
        let mut faults = device.errors.clone();
        faults.sort_by_key(|fault| fault.after_ops);
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
            come: 0,
            ports: Vec::new(),
            arrivals: BinaryHeap::new(),
            departures: BinaryHeap::new(),
            events: 0,
            landed: Vec::new(),
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

    /// A phase begins: throttles and stalls count from here. What is in the cache stays there, and so do the numbers
    /// of requests. Nothing must be in flight.
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
        self.written = Pipe::new(self.device.write_bytes_per_second, std::iter::empty());
        self.servers = (0..(*parallelism).max(1)).map(|_| Reverse(0)).collect();
        self.drained = left;
        self.frame = idle(&self.device.name);
        self.frame_start_ns = start_ns;
        self.cpu_ns = 0;
    }

    /// What the machine did since the last frame, or since the phase began. Requests count where they end, and their
    /// time where it passes, up to `now_ns`.
    pub fn frame_since_last(&mut self, now_ns: u64) -> Frame {
        self.advance(now_ns);
        let device = std::mem::replace(&mut self.frame, idle(&self.device.name));
        // What was submitted but not worked off yet is spent later.
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

    /// Ends [`drive`] soon after `interrupt` is raised: what is simulated may take much longer than its own time.
    pub fn obey(&mut self, interrupt: Arc<AtomicBool>) {
        self.interrupt = interrupt;
    }

    /// When something happens next, if nothing else is submitted.
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

    /// Lets everything happen until `now_ns`, which is not before the last time.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let at_ns = self.next_ns();
            if at_ns > now_ns {
                break;
            }
            self.integrate(at_ns);
            // Who leaves at the same instant makes room first.
            let leaves = self.departures.peek().is_some_and(|Reverse((leaves_ns, ..))| *leaves_ns == at_ns);
            if leaves {
                self.departures.pop().into_iter().for_each(|event| self.leave(event));
            } else {
                self.arrivals.pop().into_iter().for_each(|event| self.arrive(event));
            }
        }
        self.integrate(now_ns);
    }

    /// Counts the time until `now_ns`, in which nothing comes or leaves.
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
            self.landed.push(port);
        }
        ended.push(Completion { slot, result });
        // The kernel counts requests that fail, with the bytes that they have moved.
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
        }
    }

    /// When a read or write ends that comes at `come`, all in the device's time.
    fn transfer(&mut self, come: u64, writes: bool, bytes: u64) -> u64 {
        let admitted = come.max(self.ops.free);
        self.ops.pass(admitted, 1, &mut self.stalls);
        let mut passed = self.bytes.pass(admitted, bytes, &mut self.stalls);
        if writes {
            passed = passed.max(self.written.pass(admitted, bytes, &mut self.stalls));
        }
        let served = match self.device.cache {
            Some(cache) if writes => {
                let drains = |bytes: u64| {
                    let takes = u128::from(bytes) * u128::from(SECOND)
                        / u128::from(cache.drain_bytes_per_second.max(1));
                    u64::try_from(takes).unwrap_or(u64::MAX)
                };
                // There is room as soon as what is left of the cache drains in less time than what is in it. A write
                // that is larger than the cache takes all of it.
                let room =
                    self.drained.saturating_sub(drains(cache.bytes.saturating_sub(bytes))).max(admitted);
                self.drained = self.drained.max(room).saturating_add(drains(bytes));
                room.saturating_add((cache.latency_us * 1e6) as u64)
            }
            _ => {
                let latency = if writes { self.device.write_latency() } else { self.device.latency };
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

    /// When a flush ends that comes at `come`, all in the device's time.
    fn flush(&mut self, come: u64) -> u64 {
        let takes = self.device.flush_latency.map_or(0, |latency| self.draw(latency));
        come.max(self.drained).saturating_add(takes)
    }

    /// How the next read or write ends: bytes moved or the negative number of an error.
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

    /// A number above 0 and up to 1, of 53 random bits.
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

/// A frame in which nothing was done.
fn idle(name: &str) -> DeviceFrame {
    DeviceFrame {
        name: name.into(),
        reads: 0,
        read_bytes: 0,
        writes: 0,
        written_bytes: 0,
        flushes: 0,
        in_flight_ns: 0,
        busy_ns: 0,
    }
}

/// One worker's way to the device.
#[derive(Debug)]
pub struct SimEngine {
    world: Rc<RefCell<World>>,
    clock: SimClock,
    port: u32,
    depth: u32,
    /// Written by nobody, as nothing is kept.
    block: Box<[u8]>,
}

impl SimEngine {
    /// An engine with room for `depth` calls on blocks of `block_bytes`. Blocks that it reads cannot be verified.
    pub fn new(world: &Rc<RefCell<World>>, clock: &SimClock, depth: u32, block_bytes: usize) -> Self {
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

    /// Says that the block is stamped already: nobody would find the stamp.
    fn draft(&mut self, _: u32) -> Draft<'_> {
        Draft { bytes: &mut self.block, phase_bytes: 0, is_duplicate: true }
    }

    fn block_read(&self, _: u32) -> &[u8] {
        &self.block
    }

    fn queue(&mut self, io: Io) {
        self.world.borrow_mut().submit(self.port, io, self.clock.now_ns());
    }

    /// Hands out what has ended by now, and never waits: [`drive`] comes back when there is something.
    fn reap(&mut self, done: &mut [Completion], _: u64) -> Result<usize, Errno> {
        let mut world = self.world.borrow_mut();
        world.advance(self.clock.now_ns());
        let ended = &mut world.ports[self.port as usize].ended;
        let count = ended.len().min(done.len());
        done.iter_mut().zip(ended.drain(..count)).for_each(|(done, ended)| *done = ended);
        Ok(count)
    }
}

/// Events between two looks at whether somebody wants it to end.
const TURNS: u64 = 4096;

/// Runs workers whose engines share `world` and `clock`, from `start_ns` until all of them are done. Nobody waits:
/// the clock goes from one event to the next, and workers are visited in their order.
///
/// `on_tick` gets the instant and what the machine did since the last call: every 100 ms after the start, and at the
/// end of the last worker. It drains the readers of all workers; what a closed loop counted until a tick comes at
/// the next one, as ever, since it looks up when something ends. Should it not drain them, nothing hangs: the queue
/// has room for all deltas that there are, so that what a worker hands over at its end never waits. The caller drains
/// the readers once more when this has returned.
pub fn drive<P: Pacing, V: Verb>(
    workers: Vec<Worker<'_, SimEngine, SimClock, P, V>>,
    clock: &SimClock,
    world: &Rc<RefCell<World>>,
    start_ns: u64,
    on_tick: &mut dyn FnMut(u64, Frame),
) -> Vec<Ended> {
    let start_ns = start_ns.max(clock.now_ns());
    clock.move_to(start_ns);
    world.borrow_mut().begin(start_ns);
    let mut at_port = vec![None; world.borrow().ports.len()];
    for (member, worker) in workers.iter().enumerate() {
        at_port[worker.engine().port as usize] = Some(member);
    }
    let mut wakes_ns = vec![start_ns; workers.len()];
    let mut ended: Vec<Option<Ended>> = vec![None; workers.len()];
    let mut workers: Vec<_> = workers.into_iter().map(Some).collect();
    workers.iter_mut().flatten().for_each(|worker| worker.start(start_ns));

    let mut landed = Vec::new();
    let mut tick_ns = start_ns + INTERVAL_NS;
    let interrupt = Arc::clone(&world.borrow().interrupt);
    for turn in 0u64.. {
        let is_interrupted = turn % TURNS == 0 && interrupt.load(Ordering::Relaxed);
        if is_interrupted || workers.iter().all(Option::is_none) {
            break;
        }
        let wake_ns = wakes_ns.iter().copied().min().unwrap_or(u64::MAX);
        let next_ns = world.borrow().next_ns().min(wake_ns);
        if next_ns == u64::MAX {
            // Nothing would ever happen again: no worker waits without a reason, but time would go on for ever.
            break;
        }
        let now_ns = next_ns.min(tick_ns);
        clock.move_to(now_ns);
        {
            let mut world = world.borrow_mut();
            world.advance(now_ns);
            std::mem::swap(&mut landed, &mut world.landed);
        }
        for port in landed.drain(..) {
            if let Some(member) = at_port[port as usize] {
                wakes_ns[member] = now_ns;
            }
        }
        for (member, wakes_ns) in wakes_ns.iter_mut().enumerate() {
            let Some(worker) = workers[member].as_mut().filter(|_| *wakes_ns <= now_ns) else { continue };
            worker.land();
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
