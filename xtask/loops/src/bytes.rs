//! Loops on bytes: skye's, and bare ones. glibc is slower in a process with several threads.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, ensure};
use engine::bytes::{ByteCalls, ByteWorker, RecorderTally, Span, SystemCalls};
use engine::clock::{Clock, Monotonic, Tsc};
use engine::recorder::{Recorder, Shape};
use engine::stdio::Stream;
use engine::worker::Stamping;
use rustix::fs::MemfdFlags;

use super::bare_bytes;
use super::work::{CONTENT, SEED};

/// A byte verb, as our loop and as a bare one.
#[derive(Debug)]
pub struct ByteLoop {
    /// Name on the command line.
    pub name: &'static str,
    run_skye: fn(u64) -> Result<()>,
    bare: fn(OwnedFd, u64) -> Result<()>,
}

/// Every verb on bytes.
pub const BYTE_LOOPS: &[ByteLoop] = &[
    ByteLoop { name: "byte-write", run_skye: |ops| by_call(true, ops), bare: bare_bytes::write },
    ByteLoop { name: "byte-read", run_skye: |ops| by_call(false, ops), bare: bare_bytes::read },
    ByteLoop { name: "putc", run_skye: |ops| by_stream::<false>(true, ops), bare: bare_bytes::put::<false> },
    ByteLoop { name: "getc", run_skye: |ops| by_stream::<false>(false, ops), bare: bare_bytes::get::<false> },
    ByteLoop {
        name: "putc_unlocked",
        run_skye: |ops| by_stream::<true>(true, ops),
        bare: bare_bytes::put::<true>,
    },
    ByteLoop {
        name: "getc_unlocked",
        run_skye: |ops| by_stream::<true>(false, ops),
        bare: bare_bytes::get::<true>,
    },
];

const SIZE_BYTES: u64 = 16 << 20;

/// Runs the loop of that name, or its bare counterpart. Returns `None` if there is none.
pub(super) fn run(name: &str, ops: u64) -> Option<Result<()>> {
    let bare = name.strip_prefix("bare-");
    let pair = BYTE_LOOPS.iter().find(|pair| pair.name == bare.unwrap_or(name))?;
    Some(match bare {
        Some(_) => file().and_then(|file| (pair.bare)(file, ops)),
        None => (pair.run_skye)(ops),
    })
}

/// Makes a file in memory.
fn file() -> Result<OwnedFd> {
    let file =
        rustix::fs::memfd_create("skye-bench", MemfdFlags::CLOEXEC).context("make a file in memory")?;
    rustix::fs::ftruncate(&file, SIZE_BYTES).context("give it a size")?;
    Ok(file)
}

fn by_call(is_write: bool, ops: u64) -> Result<()> {
    let calls = SystemCalls::new(vec![file()?]);
    match Tsc::calibrate() {
        Some(tsc) => run_skye(calls, tsc.anchored(), is_write, ops),
        None => run_skye(calls, Monotonic, is_write, ops),
    }
}

fn by_stream<const UNLOCKED: bool>(is_write: bool, ops: u64) -> Result<()> {
    run_skye(Stream::<UNLOCKED>::new(vec![file()?], is_write, None), Monotonic, is_write, ops)
}

fn run_skye<C: Clock, B: ByteCalls>(calls: B, clock: C, is_write: bool, ops: u64) -> Result<()> {
    let (recorder, reader) = Recorder::new(Shape::default());
    let stop = AtomicBool::new(false);
    let tally = RecorderTally { recorder, stop: &stop };
    let spans = vec![Span { file: 0, start_bytes: 0, end_bytes: SIZE_BYTES }];
    let content = is_write.then_some(CONTENT);
    let worker = ByteWorker::new(calls, clock, tally, spans, content, Stamping::unverified(SEED), ops);
    worker.run(Monotonic.now_ns(), u64::MAX).result.map_err(|failure| anyhow!("{failure:?}"))?;
    let mut counted = 0;
    reader.drain(|delta| counted += delta.ops);
    ensure!(counted == ops, "{counted} bytes counted of {ops}");
    Ok(())
}
