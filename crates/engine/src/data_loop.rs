//! All loops on data that skye compiles: the only module where choices become types.
//!
//! | choice | in the loop | reason |
//! |---|---|---|
//! | calls | a type each: [`Calls`] | they are the measured work; the compiler joins them with the loop |
//! | verb | [`Read`] and [`Write`] are types, all others one table ([`Steps`]) | an operation of one call costs a tenth less without the table |
//! | pacing | two types | a closed loop needs no due times |
//! | clock | a value: [`Timer`] | one branch, always the same way |
//! | zones, skewed orders, comparisons | values | they act once a block, a pass or a sample |
//! | simulated devices | the table of verbs ([`crate::sim`]) | their clock is virtual |

use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::workload::{Access, DataWork, Engine};
use rustix::io::Errno;

use crate::call_flags::CallFlags;
use crate::clock::Timer;
use crate::data::Content;
use crate::mapped::MappedEngine;
use crate::null::NullEngine;
use crate::pacing::{ClosedLoop, OpenLoop, Pacing};
use crate::pattern::Pattern;
use crate::recorder::{Recorder, Shape};
use crate::sync::SyncEngine;
use crate::uring::{Options, UringEngine};
use crate::verb::{Read, Steps, Verb, Write};
use crate::worker::{Layout, Limits, Stamping, Worker, WorkerParts, WorkerResult};
use crate::zones::Zones;
use crate::{Call, DataEngine, Failure};

/// How a loop makes its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Plain system calls.
    Sync(CallFlags),
    /// Copies from and to a mapping.
    Mapped {
        /// True if the blocks come in a random order, so that the kernel need not read ahead.
        is_random: bool,
    },
    /// A ring.
    Ring(Options),
    /// Requests of a ring that do nothing.
    Nop(Options),
    /// No calls at all.
    Null,
}

/// Parts of an engine that its calls need.
pub struct EngineParts {
    /// Files of its blocks.
    pub files: Arc<[OwnedFd]>,
    /// Bytes of one block.
    pub block_bytes: usize,
    /// Operations in flight.
    pub depth: u32,
    /// True if it reads blocks.
    pub can_read: bool,
    /// Content of the files; `None` if it writes nothing.
    pub writes: Option<Content>,
}

/// A user of an engine of any type.
pub trait EngineUser {
    /// Result of the use.
    type Output;

    /// Uses an engine.
    fn with_engine<E: DataEngine + 'static>(self, engine: E) -> Self::Output;
}

impl Calls {
    /// Returns the calls of a test on blocks.
    pub fn from_work(data: &DataWork, engine: Engine, lockable_bytes: Option<u64>) -> Self {
        let flags = CallFlags::from_work(data);
        let options = Options { uses_iopoll: data.iopoll, uses_sqpoll: data.sqpoll, flags, lockable_bytes };
        match engine {
            Engine::Uring => Self::Ring(options),
            Engine::Nop => Self::Nop(options),
            Engine::Mmap => Self::Mapped { is_random: data.access == Access::Random },
            Engine::Null => Self::Null,
            // Simulated devices have members of their own; bytes have loops of their own.
            Engine::Sync | Engine::Stdio | Engine::Sim => Self::Sync(flags),
        }
    }

    /// Makes the engine that issues these calls, and hands it to its user.
    ///
    /// # Errors
    /// The call that failed.
    pub fn engine<U: EngineUser>(self, parts: EngineParts, user: U) -> Result<U::Output, Failure> {
        let EngineParts { files, block_bytes, depth, can_read, writes } = parts;
        let failed = |call, errno: Errno| Failure { call, file: 0, offset_bytes: None, cause: errno.into() };
        let no_ring = |error: std::io::Error| {
            failed("io_uring_setup", Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        Ok(match self {
            Self::Sync(flags) => user.with_engine(SyncEngine::with_flags(files, block_bytes, writes, flags)),
            Self::Mapped { is_random } => {
                let engine = MappedEngine::new(files, block_bytes, writes, is_random);
                user.with_engine(engine.map_err(|errno| failed("mmap", errno))?)
            }
            Self::Ring(options) => {
                let engine = UringEngine::<false>::new(files, block_bytes, depth, can_read, writes, options);
                user.with_engine(engine.map_err(no_ring)?)
            }
            Self::Nop(options) => {
                let engine = UringEngine::<true>::new(files, block_bytes, depth, can_read, writes, options);
                user.with_engine(engine.map_err(no_ring)?)
            }
            Self::Null => user.with_engine(NullEngine::new(depth, block_bytes)),
        })
    }
}

/// The work of one thread on blocks, as values.
#[derive(Debug)]
pub struct DataLoop {
    /// How it makes its calls.
    pub calls: Calls,
    /// The calls of an operation.
    pub verb: Steps,
    /// Start times of an open loop; `None` for a closed one.
    pub pacing: Option<OpenLoop>,
    /// Files of its blocks.
    pub files: Arc<[OwnedFd]>,
    /// Content of the files; `None` if it writes nothing.
    pub content: Option<Content>,
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
    /// Rules for stamping and comparing blocks.
    pub stamping: Stamping,
    /// Clock that times operations.
    pub timer: Timer,
}

/// A loop whose types are chosen.
type Run = dyn FnOnce(u64, Limits<'_>, Recorder) -> WorkerResult;

/// A loop that is ready to run.
pub struct ReadyLoop {
    /// Features of its calls that are in use.
    pub features: Vec<String>,
    /// Features that it has to do without, each with the reason.
    pub missing_features: Vec<String>,
    run: Box<Run>,
}

impl ReadyLoop {
    /// Runs from the instant `start_ns`, until the limits or a failure end it.
    pub fn run(self, start_ns: u64, limits: Limits<'_>, recorder: Recorder) -> WorkerResult {
        (self.run)(start_ns, limits, recorder)
    }
}

impl DataLoop {
    /// Shape of the counts.
    pub fn shape(&self) -> Shape {
        Shape::from_verb(&self.verb, self.pacing.is_some())
    }

    /// Makes the loop, in the thread that will run it, so that its memory is local and its ring belongs to that thread.
    ///
    /// # Errors
    /// The call that failed.
    pub fn ready(self) -> Result<ReadyLoop, Failure> {
        let parts = EngineParts {
            files: Arc::clone(&self.files),
            block_bytes: self.block_bytes as usize,
            depth: self.iodepth,
            can_read: self.verb.steps().contains(&Call::Read),
            writes: self.content.filter(|_| self.verb.writes()),
        };
        self.calls.engine(parts, self)
    }

    fn with_verb<E: DataEngine + 'static, V: Verb + 'static>(mut self, engine: E, verb: V) -> ReadyLoop {
        match self.pacing.take() {
            Some(pacing) => self.with_pacing(engine, verb, pacing),
            None => self.with_pacing(engine, verb, ClosedLoop),
        }
    }

    fn with_pacing<E, V, P>(self, engine: E, verb: V, pacing: P) -> ReadyLoop
    where
        E: DataEngine + 'static,
        V: Verb + 'static,
        P: Pacing + 'static,
    {
        let (features, missing_features) = (engine.features().to_vec(), engine.missing_features().to_vec());
        let Self { pattern, zones, layout, stamping, timer: clock, files, .. } = self;
        let regions = layout.regions(files.len() as u64);
        let run = move |start_ns, limits: Limits<'_>, recorder| {
            let parts =
                WorkerParts { engine, clock, pacing, verb, pattern, layout, stamping, limits, recorder };
            let worker = Worker::new(parts).in_regions(regions);
            let worker = match zones {
                Some(zones) => worker.in_zones(zones),
                None => worker,
            };
            worker.run(start_ns)
        };
        ReadyLoop { features, missing_features, run: Box::new(run) }
    }
}

impl EngineUser for DataLoop {
    type Output = ReadyLoop;

    fn with_engine<E: DataEngine + 'static>(self, engine: E) -> ReadyLoop {
        match self.verb.steps() {
            [Call::Read] => self.with_verb(engine, Read),
            [Call::Write] => self.with_verb(engine, Write),
            _ => {
                let verb = self.verb;
                self.with_verb(engine, verb)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Monotonic};
    use crate::data::STAMP_INTERVAL_BYTES;
    use crate::recorder::Delta;
    use model::workload::{DataVerb, RequestedEngine};
    use std::sync::atomic::AtomicBool;

    const BLOCKS: u64 = 64;
    const CONTENT: Content =
        Content { seed: 5, interval_bytes: STAMP_INTERVAL_BYTES, compress_percent: 0, dedupe_percent: 0 };

    fn data_loop(calls: Calls, verb: Steps) -> DataLoop {
        let file = tempfile::tempfile().unwrap();
        file.set_len(BLOCKS * 4096).unwrap();
        DataLoop {
            calls,
            verb,
            pacing: None,
            files: Arc::new([file.into()]),
            content: Some(CONTENT),
            block_bytes: 4096,
            iodepth: 4,
            pattern: Pattern::new(0, BLOCKS, true, 3, BLOCKS),
            zones: None,
            layout: Layout::dense(BLOCKS, 4096),
            stamping: Stamping::unverified(5),
            timer: Timer::Kernel,
        }
    }

    fn run(data_loop: DataLoop) -> Delta {
        let (recorder, reader) = Recorder::new(data_loop.shape());
        let stop = AtomicBool::new(false);
        let limits = Limits { deadline_ns: u64::MAX, stop: &stop };
        std::thread::scope(|scope| {
            let sum = scope.spawn(move || {
                let mut sum = Delta::default();
                while !reader.drain_last(|delta| {
                    sum.ops += delta.ops;
                    sum.read_bytes += delta.read_bytes;
                    sum.written_bytes += delta.written_bytes;
                }) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                sum
            });
            let ended = data_loop.ready().unwrap().run(Monotonic.now_ns(), limits, recorder);
            assert_eq!((ended.result, ended.is_covered), (Ok(()), true));
            sum.join().unwrap()
        })
    }

    fn all_calls() -> impl Iterator<Item = Calls> {
        let data = DataWork { access: Access::Random, ..DataWork::new(DataVerb::Read) };
        let can_run = |engine: &&RequestedEngine| !engine.has_ring() || crate::uring::refusal().is_none();
        let engines = RequestedEngine::ALL.iter().filter(can_run);
        engines.map(move |engine| Calls::from_work(&data, (*engine).into(), None))
    }

    #[test]
    fn blocks_read_and_written_match_verb_on_every_engine() {
        for calls in all_calls() {
            for (verb, read, written) in [
                (Steps::READ, BLOCKS, 0),
                (Steps::WRITE, 0, BLOCKS),
                (Steps::REWRITE_DURABLY, BLOCKS, BLOCKS),
                (Steps::mix(100, true, 1), BLOCKS, 0),
                (Steps::update(0, false, 1), BLOCKS, BLOCKS),
            ] {
                let pacings = [None, Some(OpenLoop::new(1e6, true, 0, 1, 1))];
                for pacing in pacings {
                    let sum = run(DataLoop { pacing, ..data_loop(calls, verb) });
                    let blocks = (sum.ops, sum.read_bytes / 4096, sum.written_bytes / 4096);
                    assert_eq!(blocks, (BLOCKS, read, written), "{calls:?} {verb:?}");
                }
            }
        }
    }
}
