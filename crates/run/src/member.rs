//! Work of one thread of a test on data: the engine that it makes, and its answers.
//!
//! This is the only place where the plan's choice of an engine becomes a type. No code behind it looks at
//! options.
//!
//! The record's `engine` names the choices of an engine. A note names the features that it had to do without.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Command as Program;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::bytes::{ByteWorker, Recorded, Span, SystemCalls};
use engine::clock::{Clock, Monotonic, Timer};
use engine::data::{Content, mix};
use engine::delay::{Delay, Delayed};
use engine::mapped::MappedEngine;
use engine::null::NullEngine;
use engine::pacing::{ClosedLoop, OpenLoop, Pacing};
use engine::pattern::Pattern;
use engine::recorder::{DeltaReader, Recorder, Shape};
use engine::stdio::protocol::{Job, Verify};
use engine::sync::SyncEngine;
use engine::uring::{Options, UringEngine};
use engine::verb::{self, Verb};
use engine::worker::{Ended, Layout, Limits, Stamping, Worker, WorkerParts};
use engine::zones::Zones;
use engine::{Call, DataEngine, Failure};
use model::Trouble;
use model::workload::{Access, DataVerb, DataWork, Engine, SyncMode};
use rustix::io::Errno;

use crate::stdio_child::StdioChild;
use crate::worker_pool::{Mailbox, Work, Worker as Who, place_near};

/// Command to a member.
pub enum Command {
    /// Measure between these two instants.
    Start {
        /// Instant at which all members begin.
        start_ns: u64,
        /// Instant after which nothing starts.
        deadline_ns: u64,
    },
    /// End every `stride`-th file, from the member's own number on.
    Finish {
        /// Number of members.
        stride: usize,
        /// True to make it durable, false to close it.
        is_sync: bool,
    },
}

/// Answer of a member.
pub struct Report {
    /// Time at which it began; `None` where that is not known.
    pub began_ns: Option<u64>,
    /// Time at which it was done.
    pub end_ns: u64,
    /// Failure that ended it early, if any.
    pub result: Result<(), Failure>,
    /// True if it visited each of its blocks at least once.
    pub is_covered: bool,
    /// Operations of an open loop that were due and never started.
    pub missed: u64,
    /// Decisions about its engine.
    pub features: Vec<String>,
    /// Features that its engine had to do without, each with the reason.
    pub lost: Vec<String>,
    /// Trouble with a process of its own.
    pub trouble: Option<Trouble>,
}

/// Components of one member.
pub struct Part {
    /// Files of its group.
    pub files: Arc<[OwnedFd]>,
    /// Content of the files.
    pub content: Content,
    /// Order of the blocks that it visits.
    pub pattern: Pattern,
    /// Bytes of one block.
    pub block_bytes: u64,
    /// Layout of the blocks in the files.
    pub layout: Layout,
    /// Rules for stamping and comparing blocks.
    pub stamping: Stamping,
    /// Flag that stops it.
    pub stop: Arc<AtomicBool>,
    /// Its number among the members.
    pub number: u32,
    /// Number of members.
    pub members: u32,
    /// Operations in flight.
    pub iodepth: u32,
    /// Rate of an open loop over all members.
    pub rate_ops_per_second: Option<f64>,
    /// Seed of its random draws.
    pub draw_seed: u64,
    /// CPUs near the device.
    pub near: Option<Arc<[u32]>>,
    /// Pauses before calls, for an experiment.
    pub delay: Option<Delay>,
    /// Most bytes of buffers that a ring may lock; `None` for as many as the kernel allows.
    pub lockable_bytes: Option<u64>,
    /// Zones that it visits, if the test has any.
    pub zones: Option<Zones>,
}

/// Returns the work of a member on blocks.
pub fn work(
    data: &DataWork,
    engine: Engine,
    part: Part,
    timer: Timer,
) -> (Work<Command, Report>, DeltaReader) {
    let options = Options { iopoll: data.iopoll, sqpoll: data.sqpoll, lockable_bytes: part.lockable_bytes };
    let poisson = matches!(data.arrival, model::workload::Arrival::Open { poisson: true, .. });
    let is_random = data.access == Access::Random;
    with_verb(data, mix(part.draw_seed), WorkOf { part, engine, options, poisson, is_random, timer })
}

/// Returns the calls of a verb, if an operation makes several kinds.
pub fn steps(data: &DataWork) -> Vec<&'static str> {
    if data.verb.is_bytes() { Vec::new() } else { with_verb(data, 0, StepsOf) }
}

/// An action on a verb that has become a type.
pub trait WithVerb {
    /// Result of the action.
    type Answer;
    /// Runs the action.
    fn call<V: Verb + Send + 'static>(self, verb: V) -> Self::Answer;
}

/// Chooses the type of a verb. Mixes draw from `draw_seed`.
pub fn with_verb<W: WithVerb>(data: &DataWork, draw_seed: u64, with: W) -> W::Answer {
    let each = data.sync == SyncMode::Each;
    match data.verb {
        DataVerb::Write if !each => with.call(verb::Write),
        DataVerb::Write | DataVerb::Fsync => with.call(verb::WriteDurably),
        DataVerb::Discard if each => with.call(verb::DiscardDurably),
        DataVerb::Discard => with.call(verb::Discard),
        DataVerb::Rewrite if each => with.call(verb::RewriteDurably),
        DataVerb::Rewrite if data.reread => with.call(verb::RewriteAndReread),
        DataVerb::Rewrite => with.call(verb::Rewrite),
        DataVerb::Rw if data.update && each => {
            with.call(verb::Update::<true>::new(data.read_percent, draw_seed))
        }
        DataVerb::Rw if data.update => with.call(verb::Update::<false>::new(data.read_percent, draw_seed)),
        DataVerb::Rw if each => with.call(verb::Mix::<true>::new(data.read_percent, draw_seed)),
        DataVerb::Rw => with.call(verb::Mix::<false>::new(data.read_percent, draw_seed)),
        // Verbs on bytes never come here.
        DataVerb::Read
        | DataVerb::ByteRead
        | DataVerb::ByteWrite
        | DataVerb::GetcRead
        | DataVerb::PutcWrite => with.call(verb::Read),
    }
}

struct StepsOf;

impl WithVerb for StepsOf {
    type Answer = Vec<&'static str>;
    fn call<V: Verb + Send + 'static>(self, _: V) -> Self::Answer {
        if V::STEPS.len() > 1 { V::names() } else { Vec::new() }
    }
}

struct WorkOf {
    part: Part,
    engine: Engine,
    options: Options,
    poisson: bool,
    is_random: bool,
    timer: Timer,
}

impl WithVerb for WorkOf {
    type Answer = (Work<Command, Report>, DeltaReader);
    fn call<V: Verb + Send + 'static>(self, verb: V) -> Self::Answer {
        let options = self.options;
        match self.engine {
            Engine::Uring => self.delayed(verb, UringMaker::<false>(options)),
            Engine::Mmap => {
                let is_random = self.is_random;
                self.delayed(verb, MappedMaker { is_random })
            }
            // No experiment runs on an engine that does nothing.
            Engine::Nop => self.paced(verb, UringMaker::<true>(options)),
            Engine::Null => self.paced(verb, NullMaker),
            // Simulated devices have members of their own; bytes have loops of their own.
            Engine::Sync | Engine::Stdio | Engine::Sim => self.delayed(verb, SyncMaker),
        }
    }
}

impl WorkOf {
    /// Chooses the pacing.
    fn paced<V, M>(self, verb: V, maker: M) -> (Work<Command, Report>, DeltaReader)
    where
        V: Verb + Send + 'static,
        M: Maker,
    {
        let Self { part, poisson, timer, .. } = self;
        match part.rate_ops_per_second {
            Some(rate) => {
                let pacing = OpenLoop::new(rate, poisson, part.number, part.members, part.draw_seed);
                work_of(verb, part, maker, timer, pacing)
            }
            None => work_of(verb, part, maker, timer, ClosedLoop),
        }
    }

    /// Chooses the pacing, and adds the pauses of an experiment if there are any. Only closed loops have
    /// them.
    fn delayed<V, M>(self, verb: V, maker: M) -> (Work<Command, Report>, DeltaReader)
    where
        V: Verb + Send + 'static,
        M: Maker,
    {
        match self.part.delay.clone().filter(|_| self.part.rate_ops_per_second.is_none()) {
            Some(delay) => work_of(verb, self.part, DelayMaker(maker, delay), self.timer, ClosedLoop),
            None => self.paced(verb, maker),
        }
    }
}

/// Makes an engine in the thread that will use it, so that its memory lies near and the ring is its own.
trait Maker: Send + 'static {
    type Engine: DataEngine;
    fn make<V: Verb>(&self, part: &Part) -> Result<Self::Engine, Failure>;
    /// Returns the decisions about the engine, and the features that it had to do without.
    fn told(_: &Self::Engine) -> (Vec<String>, Vec<String>) {
        (Vec::new(), Vec::new())
    }
}

fn writes<V: Verb>(part: &Part) -> Option<Content> {
    V::WRITES.then_some(part.content)
}

struct SyncMaker;

impl Maker for SyncMaker {
    type Engine = SyncEngine;
    fn make<V: Verb>(&self, part: &Part) -> Result<SyncEngine, Failure> {
        Ok(SyncEngine::new(Arc::clone(&part.files), part.block_bytes as usize, writes::<V>(part)))
    }
}

struct MappedMaker {
    is_random: bool,
}

impl Maker for MappedMaker {
    type Engine = MappedEngine;
    fn make<V: Verb>(&self, part: &Part) -> Result<MappedEngine, Failure> {
        let (files, block_bytes) = (Arc::clone(&part.files), part.block_bytes as usize);
        let made = MappedEngine::new(files, block_bytes, writes::<V>(part), self.is_random);
        made.map_err(|errno| Failure { call: "mmap", file: 0, offset_bytes: None, cause: errno.into() })
    }
}

struct NullMaker;

impl Maker for NullMaker {
    type Engine = NullEngine;
    fn make<V: Verb>(&self, part: &Part) -> Result<NullEngine, Failure> {
        Ok(NullEngine::new(part.iodepth, part.block_bytes as usize))
    }
}

struct UringMaker<const NOP: bool>(Options);

impl<const NOP: bool> Maker for UringMaker<NOP> {
    type Engine = UringEngine<NOP>;
    fn make<V: Verb>(&self, part: &Part) -> Result<UringEngine<NOP>, Failure> {
        let (files, block_bytes) = (Arc::clone(&part.files), part.block_bytes as usize);
        let reads = V::STEPS.contains(&Call::Read);
        UringEngine::new(files, block_bytes, part.iodepth, reads, writes::<V>(part), self.0).map_err(
            |error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Failure { call: "io_uring_setup", file: 0, offset_bytes: None, cause: errno.into() }
            },
        )
    }
    fn told(engine: &Self::Engine) -> (Vec<String>, Vec<String>) {
        (engine.features().to_vec(), engine.lost().to_vec())
    }
}

/// Makes an engine with pauses, for experiments.
struct DelayMaker<M>(M, Delay);

impl<M: Maker> Maker for DelayMaker<M> {
    type Engine = Delayed<M::Engine>;
    fn make<V: Verb>(&self, part: &Part) -> Result<Self::Engine, Failure> {
        Ok(Delayed::new(self.0.make::<V>(part)?, self.1.clone()))
    }
    fn told(engine: &Self::Engine) -> (Vec<String>, Vec<String>) {
        M::told(engine.inner())
    }
}

fn work_of<V, M, P>(
    verb: V,
    part: Part,
    maker: M,
    timer: Timer,
    pacing: P,
) -> (Work<Command, Report>, DeltaReader)
where
    V: Verb + Send + 'static,
    M: Maker,
    P: Pacing + Send + 'static,
{
    let (recorder, reader) = Recorder::new(Worker::<M::Engine, Timer, P, V>::SHAPE);
    let body = move |mailbox: &Mailbox<Command, Report>| {
        place_near(part.near.as_deref());
        let made = maker.make::<V>(&part);
        mailbox.ready();
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        #[cfg(test)]
        crate::session::tests::panic_if_asked(part.number.into());
        let Part { files, pattern, layout, stamping, stop, number, zones, .. } = part;
        let report = match made {
            Ok(engine) => {
                let (features, lost) = M::told(&engine);
                let limits = Limits { deadline_ns, stop: &stop };
                let worker = Worker::new(WorkerParts {
                    engine,
                    clock: timer,
                    pacing,
                    verb,
                    pattern,
                    layout,
                    stamping,
                    limits,
                    recorder,
                });
                let worker = match zones {
                    Some(zones) => worker.in_zones(zones),
                    None => worker,
                };
                // Outside the loop: how late the system woke this thread up.
                timer.wait_until(start_ns);
                let began_ns = Some(timer.now_ns());
                Report { began_ns, features, lost, ..worker.run(start_ns).into() }
            }
            Err(failure) => {
                recorder.finish(start_ns);
                Report::failed(start_ns, failure)
            }
        };
        mailbox.report(report);
        serve_ends(mailbox, &files, number as usize);
    };
    (Box::new(body), reader)
}

/// Components of a member that moves bytes.
pub struct BytePart {
    /// Files of its group, to be made durable.
    pub files: Arc<[OwnedFd]>,
    /// Its parts of the files, each with the file opened for it alone.
    pub spans: Vec<(Span, OwnedFd)>,
    /// Content of the files.
    pub content: Content,
    /// Rules for stamping and comparing pieces.
    pub stamping: Stamping,
    /// Number of bytes to move.
    pub ops: u64,
    /// Flag that stops it.
    pub stop: Arc<AtomicBool>,
    /// Its number among the members.
    pub number: u32,
    /// CPUs near the device.
    pub near: Option<Arc<[u32]>>,
}

/// Returns the work of a member on bytes, by system calls.
pub fn byte_work(data: &DataWork, part: BytePart, timer: Timer) -> (Work<Command, Report>, DeltaReader) {
    let (recorder, reader) = Recorder::new(Shape::default());
    let writes = data.writes().then_some(part.content);
    let body = move |mailbox: &Mailbox<Command, Report>| {
        place_near(part.near.as_deref());
        let BytePart { files, spans, stamping, ops, stop, number, .. } = part;
        let (spans, opened): (Vec<_>, Vec<_>) = spans.into_iter().unzip();
        let tally = Recorded { recorder, stop: &stop };
        let calls = SystemCalls::new(opened);
        let worker = ByteWorker::new(calls, timer, tally, spans, writes, stamping, ops);
        mailbox.ready();
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        mailbox.report(worker.run(start_ns, deadline_ns).into());
        serve_ends(mailbox, &files, number as usize);
    };
    (Box::new(body), reader)
}

/// Returns the work of a member on bytes, by calls of the C library. They are made in a process of its own:
/// `program` and its arguments.
pub fn stdio_work(
    data: &DataWork,
    part: BytePart,
    program: &[OsString],
) -> (Work<Command, Report>, DeltaReader) {
    let (recorder, reader) = Recorder::new(Shape::default());
    let stamping = &part.stamping;
    let job = Job {
        writes: data.writes(),
        unlocked: data.unlocked,
        threaded: data.threaded,
        buffer_bytes: data.stdio_buffer_bytes,
        content: part.content,
        first_file: stamping.first_file,
        generation: stamping.generation,
        verify: stamping
            .verifier
            .as_ref()
            .map(|verifier| Verify { sample: stamping.sample, generations: verifier.generations.clone() }),
        ops: part.ops,
    };
    let program = program.to_vec();
    let body = move |mailbox: &Mailbox<Command, Report>| {
        place_near(part.near.as_deref());
        let BytePart { files, spans, stop, number, .. } = part;
        let mut words = program.iter();
        let child = match words.next() {
            Some(name) => {
                let mut program = Program::new(name);
                program.args(words);
                StdioChild::start(program, job, &spans)
            }
            None => {
                Err(Trouble::new("start a process for the calls of the C library", "no program is known"))
            }
        };
        match child.as_ref().ok().and_then(|child| i32::try_from(child.id()).ok()) {
            Some(process) => mailbox.ready_as(Who::Process(process)),
            None => mailbox.ready(),
        }
        let Some(Command::Start { start_ns, deadline_ns }) = mailbox.next() else { return };
        // A process that has ended keeps its counters until they have been read for the last time. A process
        // in trouble is reaped at once: if that hangs, this member is seen to hang.
        let mut kept = None;
        let report = match child {
            Ok(mut child) => {
                let (ended, trouble) = child.run(start_ns, deadline_ns, &stop, recorder);
                kept = Some(child).filter(|_| trouble.is_none());
                Report { trouble, ..ended.into() }
            }
            Err(trouble) => {
                recorder.finish(start_ns);
                let ended = Ended { end_ns: start_ns, result: Ok(()), is_covered: false, missed: 0 };
                Report { trouble: Some(trouble), ..ended.into() }
            }
        };
        mailbox.report(report);
        serve_ends(mailbox, &files, number as usize);
        drop(kept);
    };
    (Box::new(body), reader)
}

impl Report {
    fn failed(end_ns: u64, failure: Failure) -> Self {
        let ended = Ended { end_ns, result: Err(failure), is_covered: false, missed: 0 };
        ended.into()
    }
}

impl From<Ended> for Report {
    fn from(ended: Ended) -> Self {
        let Ended { end_ns, result, is_covered, missed } = ended;
        let (features, lost) = (Vec::new(), Vec::new());
        Self { began_ns: None, end_ns, result, is_covered, missed, features, lost, trouble: None }
    }
}

/// Makes files durable, or closes them, at each command.
pub fn serve_ends(mailbox: &Mailbox<Command, Report>, files: &[OwnedFd], number: usize) {
    while let Some(Command::Finish { stride, is_sync }) = mailbox.next() {
        let (call, end): (_, fn(&OwnedFd) -> _) =
            if is_sync { ("fdatasync", |file| rustix::fs::fdatasync(file)) } else { ("close", close_once) };
        let mut result = Ok(());
        for (index, file) in files.iter().enumerate().skip(number).step_by(stride) {
            if let Err(errno) = end(file) {
                let file = index as u64;
                let failure = Failure { call, file, offset_bytes: None, cause: errno.into() };
                result = result.and(Err(failure));
            }
        }
        let end_ns = Monotonic.now_ns();
        mailbox.report(Report {
            result,
            ..Ended { end_ns, result: Ok(()), is_covered: true, missed: 0 }.into()
        });
    }
}

/// Closes a second descriptor of a file. A network file system then sends all that it holds back of the file, as at the
/// close of the first.
fn close_once(file: &OwnedFd) -> Result<(), Errno> {
    engine::files::close(rustix::io::fcntl_dupfd_cloexec(file, 0)?)
}
