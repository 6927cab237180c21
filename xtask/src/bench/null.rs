//! The cost of the loop on data by itself, with an engine that does nothing.

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use engine::clock::Tsc;
use engine::null::NullEngine;
use engine::pacing::ClosedLoop;
use engine::verb::Read;
use engine::{Completion, DataEngine, Io, PendingBlock};
use loops::Work;
use rustix::io::Errno;

use super::fio::{self, Job};
use super::looped::{LoopResult, through_loop};
use super::pinned::Pinned;
use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "null",
    measures: "CPU time of an operation that does nothing, through our loop; fio's",
    run,
};

/// Size of the file: as much as a large data set. A part of its 4 KiB blocks is visited.
const SIZE_BYTES: u64 = 64 << 30;
/// Operations of a measurement: some 100 ms, so short that the machine seldom changes within.
const OPS: u64 = 4 << 20;
/// Operations of fio, whose clock counts milliseconds.
const FIO_OPS: u64 = 2 << 20;
/// Depths, and the most nanoseconds that an operation may take.
const LIMITS: [(u32, f64); 2] = [(32, 30.0), (1, 65.0)];

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let pinned = Pinned::new()?;
    let tsc = Tsc::calibrate();
    for (depth, limit_ns) in LIMITS {
        every_block_is_visited_once_a_pass(depth, &pinned)?;
        // The first measurement warms up.
        let values = (0..=setting.pairs).map(|_| measure_skye(depth, tsc, &pinned)).skip(1);
        let values = values.collect::<Result<_>>()?;
        rows.push(Row::new(format!("read, depth {depth}, ours"), "ns", values, Limit::AtMost(limit_ns)))?;
        let what = format!("read, depth {depth}, fio's null engine");
        rows.push(match fio::absent() {
            Some(why) => Row::skipped(what, Limit::None, why),
            None => measure_fio(what, depth, setting, &pinned)?,
        })?;
    }
    Ok(())
}

/// CPU time of an operation in nanoseconds.
fn measure_skye(depth: u32, tsc: Option<Tsc>, pinned: &Pinned) -> Result<f64> {
    let engine = || Ok(NullEngine::new(depth, 4096));
    let done = through_loop(engine, tsc, ClosedLoop, Read, Work::random_4k(SIZE_BYTES, OPS), pinned)?;
    all_were_counted(&done, OPS)?;
    Ok(done.cpu_ns_per_op())
}

fn all_were_counted(done: &LoopResult, ops: u64) -> Result<()> {
    let (counted, latencies) = (done.counted.ops, done.counted.latencies.count());
    ensure!(counted == ops && latencies == ops, "of {ops}, {counted} were counted, {latencies} latencies");
    Ok(())
}

fn measure_fio(what: String, depth: u32, setting: &Setting, pinned: &Pinned) -> Result<Row> {
    let (size, ios, depth) = (
        format!("--size={SIZE_BYTES}"),
        format!("--io_size={}", FIO_OPS * 4096),
        format!("--iodepth={depth}"),
    );
    let shape = ["--ioengine=null", "--rw=randread", "--bs=4k", &depth, &size, &ios];
    let options = ["--norandommap", "--random_generator=tausworthe64", "--gtod_reduce=0"];
    let job = Job::new(&[&shape[..], &options].concat(), pinned);
    let values = (0..setting.pairs).map(|_| {
        let answer = job.run(pinned)?;
        ensure!(answer.ios == FIO_OPS, "fio read {} blocks of {FIO_OPS}", answer.ios);
        Ok(answer.cpu_ns_per_io)
    });
    Ok(Row::new(what, "ns", values.collect::<Result<_>>()?, Limit::None).noted(job.command_line()))
}

/// An engine that counts the requests of each block.
struct VisitRecorder<'a> {
    engine: NullEngine,
    visits: &'a Mutex<Vec<u32>>,
}

impl DataEngine for VisitRecorder<'_> {
    fn depth(&self) -> u32 {
        self.engine.depth()
    }

    #[inline]
    fn block_bytes(&self) -> u64 {
        self.engine.block_bytes()
    }

    fn draft(&mut self, slot: u32) -> PendingBlock<'_> {
        self.engine.draft(slot)
    }

    fn block_read(&self, slot: u32) -> &[u8] {
        self.engine.block_read(slot)
    }

    fn queue(&mut self, io: Io) {
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        visits[(io.offset_bytes / 4096) as usize] += 1;
        self.engine.queue(io);
    }

    fn reap(&mut self, done: &mut [Completion], until_ns: u64) -> Result<usize, Errno> {
        self.engine.reap(done, until_ns)
    }
}

/// Checks that the loop omits no block, because its rate is meaningless otherwise. The check is not timed.
fn every_block_is_visited_once_a_pass(depth: u32, pinned: &Pinned) -> Result<()> {
    const BLOCKS: u64 = 100_003;
    for passes in 1..=3 {
        let visits = Mutex::new(vec![0; BLOCKS as usize]);
        let engine = || Ok(VisitRecorder { engine: NullEngine::new(depth, 4096), visits: &visits });
        let work = Work::random_4k(BLOCKS * 4096, BLOCKS * u64::from(passes));
        let done = through_loop(engine, None, ClosedLoop, Read, work, pinned)?;
        all_were_counted(&done, work.ops)?;
        let visits = visits.into_inner().unwrap_or_else(PoisonError::into_inner);
        let wrong = visits.iter().filter(|visits| **visits != passes).count();
        ensure!(wrong == 0, "{wrong} of {BLOCKS} blocks were not visited {passes} times in {passes} passes");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_loop_visits_every_block() {
        let pinned = Pinned::new().unwrap();
        every_block_is_visited_once_a_pass(32, &pinned).unwrap();
        every_block_is_visited_once_a_pass(1, &pinned).unwrap();
    }
}
