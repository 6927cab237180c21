//! What the loop on bytes costs: instructions of each call through it and bare.
//!
//! Counted, not timed: a call of the C library takes three nanoseconds. Each loop runs in a process of its own, which
//! has one thread, as the program has for them: glibc is slower from the second on.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, ensure};
use engine::bytes::{ByteCalls, ByteWorker, Recorded, Span, SystemCalls};
use engine::clock::{Clock, Monotonic, Tsc};
use engine::recorder::{Recorder, Shape};
use engine::stdio::Stream;
use engine::worker::Stamping;
use rustix::fs::MemfdFlags;

use super::callgrind::per_operation;
use super::looped::{CONTENT, SEED};
use super::{Bench, Limit, Row, Setting, bare_bytes, foreign};

pub(super) const BENCH: Bench = Bench {
    name: "bytes",
    measures: "user-space instructions of a byte, by callgrind: our loop over a bare one",
    run,
};

/// A byte verb, through our loop and bare: `xtask loop NAME OPS`, and `xtask loop bare-NAME OPS`.
#[derive(Debug)]
pub(super) struct Pair {
    pub name: &'static str,
    ours: fn(u64) -> Result<()>,
    bare: fn(OwnedFd, u64) -> Result<()>,
}

pub(super) const PAIRS: &[Pair] = &[
    Pair { name: "byte-write", ours: |ops| by_call(true, ops), bare: bare_bytes::write },
    Pair { name: "byte-read", ours: |ops| by_call(false, ops), bare: bare_bytes::read },
    Pair { name: "putc", ours: |ops| by_stream::<false>(true, ops), bare: bare_bytes::put::<false> },
    Pair { name: "getc", ours: |ops| by_stream::<false>(false, ops), bare: bare_bytes::get::<false> },
    Pair { name: "putc_unlocked", ours: |ops| by_stream::<true>(true, ops), bare: bare_bytes::put::<true> },
    Pair { name: "getc_unlocked", ours: |ops| by_stream::<true>(false, ops), bare: bare_bytes::get::<true> },
];

const SIZE_BYTES: u64 = 16 << 20;
/// Lengths of the two runs.
const OPS: [u64; 2] = [500_000, 1_500_000];
/// Most instructions through our loop, of the bare one.
const SHARE: f64 = 1.03;

fn run(_: &Setting) -> Result<Vec<Row>> {
    let limit = Limit::AtMost(SHARE);
    if let Some(why) = foreign::absent("valgrind", "valgrind") {
        return Ok(vec![Row::skipped("bytes, ours over bare", limit, why)]);
    }
    let binary = std::env::current_exe().context("find this program")?;
    let mut rows = Vec::new();
    for pair in PAIRS {
        let count = |name: &str| per_operation(OPS, |ops| command(&binary, name, ops));
        let (ours, bare) = (count(pair.name)?, count(&format!("bare-{}", pair.name))?);
        let what = format!("{}, {ours:.1} instr., over {bare:.1} bare", pair.name);
        rows.push(Row::new(what, "×", vec![ours / bare], limit));
    }
    Ok(rows)
}

fn command(binary: &Path, name: &str, ops: u64) -> Vec<String> {
    vec![binary.display().to_string(), "loop".into(), name.into(), ops.to_string()]
}

/// Runs the loop of that name, or its bare fellow; `None` if there is none.
pub(super) fn run_loop(name: &str, ops: u64) -> Option<Result<()>> {
    let bare = name.strip_prefix("bare-");
    let pair = PAIRS.iter().find(|pair| pair.name == bare.unwrap_or(name))?;
    Some(match bare {
        Some(_) => file().and_then(|file| (pair.bare)(file, ops)),
        None => (pair.ours)(ops),
    })
}

/// A file in memory.
fn file() -> Result<OwnedFd> {
    let file =
        rustix::fs::memfd_create("skye-bench", MemfdFlags::CLOEXEC).context("make a file in memory")?;
    rustix::fs::ftruncate(&file, SIZE_BYTES).context("give it a size")?;
    Ok(file)
}

fn by_call(writes: bool, ops: u64) -> Result<()> {
    let calls = SystemCalls::new(vec![file()?]);
    match Tsc::calibrate() {
        Some(tsc) => ours(calls, tsc.anchored(), writes, ops),
        None => ours(calls, Monotonic, writes, ops),
    }
}

fn by_stream<const UNLOCKED: bool>(writes: bool, ops: u64) -> Result<()> {
    ours(Stream::<UNLOCKED>::new(vec![file()?], writes, None), Monotonic, writes, ops)
}

fn ours<C: Clock, B: ByteCalls>(calls: B, clock: C, writes: bool, ops: u64) -> Result<()> {
    let (recorder, reader) = Recorder::new(Shape::default());
    let stop = AtomicBool::new(false);
    let tally = Recorded { recorder, stop: &stop };
    let spans = vec![Span { file: 0, start_bytes: 0, end_bytes: SIZE_BYTES }];
    let content = writes.then_some(CONTENT);
    let worker = ByteWorker::new(calls, clock, tally, spans, content, Stamping::unverified(SEED), ops);
    worker.run(Monotonic.now_ns(), u64::MAX).result.map_err(|failure| anyhow!("{failure:?}"))?;
    let mut counted = 0;
    reader.drain(|delta| counted += delta.ops);
    ensure!(counted == ops, "{counted} bytes counted of {ops}");
    Ok(())
}
