//! Upper bounds of this machine and of skye itself, for comparison with measured numbers.
//!
//! Each takes a fraction of a second before a run. The loop without I/O and a ring whose requests do nothing
//! show our own cost, in CPU time. The same calls on memory show the kernel's cost without any storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use engine::clock::{Clock, Monotonic, Timer};
use engine::data_loop::{Calls, DataLoop};
use engine::pattern::Pattern;
use engine::recorder::Recorder;
use engine::uring::Options;
use engine::verb::Steps;
use engine::worker::{Layout, Limits, Stamping};
use model::order::{LayoutOrder, TestOrder, Time};
use model::plan::Plan;
use model::request::{Allow, Count, Request, Seconds};
use model::run::{Ceiling, CeilingShares, PhaseRecord, Status};
use model::size::Size;
use model::target::Backing;
use model::workload::{Arrival, CacheMode, DataWork, Engine, Work};
use model::{Machine, Workload, spec};
use observe::Root;
use rustix::time::{ClockId, clock_gettime};

use crate::dataset::LayoutProgress;
use crate::session::{Session, SessionOptions};
use crate::side::Side;

/// Operations that the loop handles at once in a long batch.
const BATCH: u32 = 32;
/// Directory in memory for the same calls. The next measurement removes the leftovers of a killed run.
pub const MEMORY: &str = "/dev/shm";
/// Least number of bytes that the calls on memory work on.
const IN_MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Most memory that a comparison may take from the machine.
const IN_MEMORY_BYTES_MAX: u64 = 256 << 20;
/// Files that calls on memory visit.
const IN_MEMORY_FILES_MAX: u64 = 2048;

/// CPU time of an operation: its own part, and its share of each visit to the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Cost of each operation itself.
    pub operation_ns: f64,
    /// Cost of each visit, shared by the batch that it brings.
    pub batch_ns: f64,
}

impl Cost {
    /// Derives the cost from the times of an operation alone and in batches of [`BATCH`].
    fn from_two(alone_ns: f64, batched_ns: f64) -> Self {
        let batch = f64::from(BATCH);
        let batch_ns = ((alone_ns - batched_ns) * batch / (batch - 1.0)).max(0.0);
        Self { operation_ns: (alone_ns - batch_ns).max(0.0), batch_ns }
    }

    /// Returns the cost of an operation in batches of that mean length.
    pub fn per_operation_ns(self, batch: f64) -> f64 {
        self.operation_ns + self.batch_ns / batch.max(1.0)
    }
}

/// Ceilings measured before a run.
#[derive(Debug, Clone, Default)]
pub struct Ceilings {
    /// Cost in the loop without I/O.
    null: Option<Cost>,
    /// Cost in the loop on a ring whose requests do nothing.
    nop: Option<Cost>,
    copy_bytes_per_second: Option<f64>,
    /// Rates of the same calls on memory, by spec.
    in_memory_rates: Vec<(String, f64)>,
    time: Duration,
}

impl Ceilings {
    /// Measures the ceilings, each for `time`.
    pub fn measure(
        root: &Root,
        plan: &Plan,
        machine: &Machine,
        time: Duration,
        interrupt: &Arc<AtomicBool>,
    ) -> Self {
        let (has_data, has_ring) = (
            plan.phases.iter().any(|phase| phase.workload.data().is_some()),
            plan.phases.iter().any(|phase| phase.engine.has_ring()),
        );
        let timer = Timer::best().anchored();
        let null = |depth| loop_ns(Calls::Null, depth, timer, time);
        let nop = |depth| loop_ns(Calls::Nop(Options::default()), depth, timer, time);
        let cost = |of: &dyn Fn(u32) -> Option<f64>| Some(Cost::from_two(of(1)?, of(BATCH)?));
        Self {
            null: has_data.then(|| cost(&null)).flatten(),
            nop: has_ring.then(|| cost(&nop)).flatten(),
            copy_bytes_per_second: has_data.then(|| copy_bytes_per_second(time)),
            in_memory_rates: in_memory_rates(root, plan, machine, time, interrupt),
            time,
        }
    }

    /// Returns the ceilings as they appear in the document.
    pub fn to_document(&self) -> Vec<Ceiling> {
        let ms = self.time.as_millis();
        let mut all = Vec::new();
        let mut ops = |name: String, ops_per_second: f64, source: String| {
            all.push(Ceiling { name, ops_per_second: Some(ops_per_second), bytes_per_second: None, source });
        };
        for (cost, what, means) in [
            (self.null, "null engine", "the full loop without I/O"),
            (self.nop, "nop ring", "io_uring requests that do nothing"),
        ] {
            let Some(cost) = cost else { continue };
            for batch in [1, BATCH] {
                let name = format!("{what}, batch {batch}");
                let rate = 1e9 / cost.per_operation_ns(f64::from(batch));
                ops(
                    name,
                    rate,
                    format!("{means}, one thread, from CPU time, measured for {ms} ms before the run"),
                );
            }
        }
        for (spec, rate) in &self.in_memory_rates {
            ops(
                format!("memory, {spec}"),
                *rate,
                format!("the same calls on {MEMORY}, {ms} ms before the run"),
            );
        }
        if let Some(rate) = self.copy_bytes_per_second {
            all.push(Ceiling {
                name: "memory copy".into(),
                ops_per_second: None,
                bytes_per_second: Some(rate),
                source: format!("1 MiB copied repeatedly, one thread, {ms} ms before the run"),
            });
        }
        all
    }

    /// Returns our own CPU time per operation of a phase, at its mean batch. Returns `None` for loops other
    /// than the one on blocks.
    pub fn own_cost_ns(&self, record: &PhaseRecord) -> Option<f64> {
        record.workload.block_bytes.filter(|block_bytes| *block_bytes > 1)?;
        Some(self.null?.per_operation_ns(record.engine.mean_batch?))
    }

    /// Returns how near a rate comes to its ceilings; `None` if no ceiling was measured for it.
    pub fn shares(&self, record: &PhaseRecord, cpus: u32) -> Option<CeilingShares> {
        if !matches!(record.status, Status::Done | Status::Partial) {
            return None;
        }
        let rate = record.figures.rate.overall_ops_per_second?;
        // Threads without a CPU of their own do not add up.
        let lanes = f64::from(record.workload.threads.min(cpus).max(1));
        let own = match record.engine.name.parse::<Engine>().ok() {
            Some(engine) if !engine.needs_files() => None,
            Some(engine) if engine.has_ring() => self.nop,
            _ => self.null,
        };
        let own_loop = own
            .zip(record.engine.mean_batch)
            .map(|(cost, batch)| rate / (lanes * 1e9 / cost.per_operation_ns(batch)));
        let in_memory = self.in_memory_rates.iter().find(|(spec, _)| *spec == in_memory_name(&record.spec));
        let memory = in_memory.map(|(_, in_memory)| rate / in_memory);
        (own_loop.is_some() || memory.is_some()).then_some(CeilingShares { own_loop, memory })
    }
}

/// Returns the CPU time per operation of the loop with these calls, in nanoseconds; `None` if they cannot be made.
fn loop_ns(calls: Calls, iodepth: u32, timer: Timer, time: Duration) -> Option<f64> {
    const BLOCKS: u64 = 1 << 20;
    const BLOCK_BYTES: u64 = 4096;
    let data_loop = DataLoop {
        calls,
        verb: Steps::READ,
        pacing: None,
        files: Vec::new().into(),
        content: None,
        block_bytes: BLOCK_BYTES,
        iodepth,
        pattern: Pattern::new(0, BLOCKS, true, 1, u64::MAX),
        zones: None,
        layout: Layout::dense(BLOCKS, BLOCK_BYTES),
        stamping: Stamping::unverified(1),
        timer,
    };
    let (recorder, reader) = Recorder::new(data_loop.shape());
    let ready = data_loop.ready().ok()?;
    let stop = AtomicBool::new(false);
    let start_ns = timer.now_ns();
    let limits = Limits { deadline_ns: start_ns + time.as_nanos() as u64, stop: &stop };
    let cpu_ns = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let cpu_start_ns = cpu_ns();
    ready.run(start_ns, limits, recorder);
    let spent_ns = cpu_ns() - cpu_start_ns;
    let mut ops = 0;
    reader.drain(|delta| ops += delta.ops);
    Some(spent_ns / ops.max(1) as f64)
}

fn copy_bytes_per_second(time: Duration) -> f64 {
    const BYTES: usize = 1 << 20;
    let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
    let start_ns = Monotonic.now_ns();
    let mut copied: u64 = 0;
    loop {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        copied += BYTES as u64;
        let spent_ns = Monotonic.now_ns() - start_ns;
        if u128::from(spent_ns) >= time.as_nanos() {
            return copied as f64 * 1e9 / spent_ns as f64;
        }
    }
}

/// Returns a test with the same calls, but without its end and its arrival times.
fn in_memory(workload: &Workload) -> Workload {
    let mut in_memory = workload.with_arrival(Arrival::Closed);
    let is_one_part = workload.is_continuous();
    match &mut in_memory.work {
        Work::Data(data) => {
            let DataWork { passes, ops, bytes, .. } = data;
            (*passes, *ops, *bytes) = (None, None, None);
            (data.range, data.zones, data.every) = (None, None, 1);
            (data.iopoll, data.uncached, data.atomic) = (false, false, false);
        }
        Work::Files(files) => {
            // With fewer files, a mix would list shorter directories. A load has its own.
            files.passes = files.passes.filter(|_| !is_one_part);
            if !is_one_part {
                files.files = files.files.min(IN_MEMORY_FILES_MAX.max(u64::from(workload.threads)));
            }
            files.size_max_bytes = files.size_max_bytes.min(IN_MEMORY_BYTES_MIN / files.files.max(1));
            files.size_min_bytes = files.size_min_bytes.min(files.size_max_bytes);
            files.cold = false;
        }
    }
    in_memory
}

fn in_memory_name(spec: &str) -> String {
    spec::parse(spec, &spec::Defaults::default())
        .map_or_else(|_| spec.into(), |w| spec::print(&in_memory(&w)))
}

/// Measures the rates that the calls of a plan reach on memory. Leaves out tests that cannot run there.
fn in_memory_rates(
    root: &Root,
    plan: &Plan,
    machine: &Machine,
    time: Duration,
    interrupt: &Arc<AtomicBool>,
) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    let Ok(target) = observe::target(root, MEMORY.as_ref()) else { return found };
    if target.backing != Backing::Memory {
        return found;
    }
    // A run that was killed while it measured here left its files in memory, where nobody looks for them.
    let _ = crate::clean(MEMORY.as_ref(), &AtomicU64::new(0));
    for phase in &plan.phases {
        let is_measured = phase.workload.data().is_none() || phase.engine.needs_files();
        let is_known = phase.engine != Engine::Stdio;
        // One round over few files takes no longer than the comparison.
        let is_short = phase.stop.passes == Some(1)
            && phase.workload.files().is_some_and(|files| files.files <= IN_MEMORY_FILES_MAX);
        let workload = in_memory(&phase.workload);
        let name = spec::print(&workload);
        if !is_measured || !is_known || is_short || found.iter().any(|(known, _)| *known == name) {
            continue;
        }
        if interrupt.load(Ordering::Relaxed) {
            break;
        }
        if let Some(rate) = in_memory_rate(root, &target, machine, plan, &workload, time, interrupt) {
            found.push((name, rate));
        }
    }
    found
}

fn in_memory_rate(
    root: &Root,
    target: &model::Target,
    machine: &Machine,
    of: &Plan,
    workload: &Workload,
    time: Duration,
    interrupt: &Arc<AtomicBool>,
) -> Option<f64> {
    let block_bytes = workload.data().map_or(1, |data| data.block_bytes);
    let unit = u64::from(workload.in_flight()) * block_bytes.next_multiple_of(4096);
    let files_bytes = workload.files().map_or(0, |files| files.space_bytes_max(workload.threads));
    let size_bytes = IN_MEMORY_BYTES_MIN.max(files_bytes).next_multiple_of(unit);
    if size_bytes > IN_MEMORY_BYTES_MAX.min(target.space.free_bytes / 4) {
        return None;
    }
    let request = Request {
        tests: vec![spec::print(workload)],
        size: Some(Size::Bytes(size_bytes)),
        files: Some(Count(IN_MEMORY_FILES_MAX)),
        time: Some(Seconds(time.as_secs_f64())),
        cache: Some(CacheMode::AsIs),
        allow: vec![Allow::LowSpace, Allow::Busy],
        mixes: of.mixes.clone(),
        loads: workload.files().map(|files| files.load_file.clone()).into_iter().collect(),
        ..Request::default()
    };
    let plan = model::plan::plan(&request, target, machine).ok()?;
    let options = SessionOptions { seed: 1, interrupt: Arc::clone(interrupt), ..SessionOptions::default() };
    let mut session = Session::open(root, &plan, target, options).ok()?;
    let time_ns = time.as_nanos() as u64;
    // Where others keep the CPUs busy, making the files takes longer than the comparison.
    let budget_ns = time_ns.saturating_mul(10).max(1_000_000_000);
    let laid_out = session.lay_out(&LayoutOrder::new(budget_ns), &LayoutProgress::default());
    let time = Time { measured_ns: time_ns, budget_ns };
    let phase = plan.phases.first().filter(|_| laid_out.is_ok());
    let record = phase.map(|phase| session.phase(phase, &TestOrder::new(0, 1, time), &mut |_| {}).record);
    let is_removed = Box::new(session).close().removal.is_none_or(|removing| removing.wait().is_ok());
    let record = record.filter(|_| is_removed)?;
    // If a file system in memory passes a ring's calls to kernel threads, a device may well be faster.
    record.figures.rate.overall_ops_per_second.filter(|_| !record.engine.uses_kernel_threads())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_split_into_operation_and_batch_share() {
        let cost = Cost::from_two(60.0, 29.0);
        assert!((cost.per_operation_ns(1.0) - 60.0).abs() < 1e-9);
        assert!((cost.per_operation_ns(32.0) - 29.0).abs() < 1e-9);
        assert!((cost.per_operation_ns(8.0) - 32.0).abs() < 1e-9);
    }

    #[test]
    fn ceiling_spec_drops_rate_and_limits() {
        assert_eq!(in_memory_name("read:rnd4k:q32:ops=10:rate=500"), "read:rnd4k:q32");
        assert_eq!(in_memory_name("create:files=1m:size=4k"), "create:files=2k:size=4k");
    }
}
