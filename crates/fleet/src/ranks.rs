//! Ranks of an MPI job as clients. Rank 0 is the coordinator, and the frames are those of any other channel.
//!
//! Each rank starts its agent as a separate process, which outlives a rank that the launcher kills, and then removes
//! its files. A thread here carries the bytes between the channel of an agent and the messages of the job.
//!
//! Waits of MPI spin. So this thread does not wait in the library. It polls for messages, often while they come, and
//! rarely during a test. Then no rank sends any: heartbeats stay on its machine, and ticks are dropped.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::UserError;
use model::frames::{FromAgent, Hello, ToAgent};
use model::hosts::CLIENTS_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::agent::HEARTBEAT_INTERVAL;
use crate::channel::{self, FrameReader};
use crate::mpi::{self, Family, Job};
use crate::waiting::{HELLO_TIMEOUT, RunningClock};

/// Most bytes of a channel in one message.
const PART_BYTES: usize = 64 << 10;
/// Bytes before them: the rank that sends, the kind, and the number of bytes.
const HEADER_BYTES: usize = 9;
/// Pauses between two polls, each until this time has passed since the last byte. A poll costs some microseconds.
const PAUSES: [(Duration, Duration); 3] = [
    (Duration::from_millis(1), Duration::ZERO),
    (Duration::from_millis(50), Duration::from_micros(200)),
    (Duration::from_secs(1), Duration::from_millis(1)),
];
/// Pause after that, while something is measured.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// Time that the other ranks have to leave the job with this one.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same after a signal: Open MPI kills all ranks a second after it, and the results are saved behind the wait.
const LEAVE_TIMEOUT_AFTER_SIGNAL: Duration = Duration::from_millis(200);

/// Variables with the rank of a process and the number of ranks, the launcher that sets them, and its library.
const LAUNCHERS: &[(&str, &str, &str, Family)] = &[
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun", Family::OpenMpi),
    ("PMI_RANK", "PMI_SIZE", "mpirun", Family::Mpich),
    // In the script of a batch job, SLURM_PROCID is there too, without this number.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun", Family::OpenMpi),
];

/// Place of this process among those that a launcher has started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankInfo {
    /// Number of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Name of the launcher.
    pub launcher: &'static str,
    family: Family,
}

impl RankInfo {
    /// Returns the place that the launcher's variables tell; `None` for a process that is alone.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        let of = |(rank, size, launcher, family): &(&str, &str, &'static str, Family)| {
            Some(Self { rank: number(rank)?, size: number(size)?, launcher, family: *family })
        };
        LAUNCHERS.iter().find_map(of).filter(|rank_info| rank_info.size > 1)
    }
}

/// Kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The name of a rank's machine.
    Name,
    /// Bytes of a channel.
    Part,
    /// The channel has ended.
    End,
}

const KINDS: [Kind; 3] = [Kind::Name, Kind::Part, Kind::End];

/// Returns a message of a rank.
fn message(rank: usize, kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + bytes.len());
    message.extend((rank as u32).to_be_bytes());
    message.push(kind as u8);
    message.extend((bytes.len() as u32).to_be_bytes());
    message.extend(bytes);
    message
}

/// Returns sender, kind and bytes of a message; `None` for one that no skye has sent.
fn read(message: &[u8]) -> Option<(usize, Kind, &[u8])> {
    let (rank, rest) = message.split_first_chunk::<4>()?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let bytes = rest.get(..u32::from_be_bytes(*length) as usize)?;
    Some((u32::from_be_bytes(*rank) as usize, *KINDS.get(usize::from(*kind))?, bytes))
}

/// Joins the job, and makes sure that it is the one of the launcher.
fn join(rank_info: &RankInfo) -> Result<Box<dyn Job>, UserError> {
    let job = mpi::join(rank_info.family)?;
    if job.size() == rank_info.size {
        return Ok(job);
    }
    let RankInfo { size, launcher, .. } = rank_info;
    let cause = format!("{launcher} started {size} processes, and MPI reports {}", job.size());
    job.leave();
    let help = match *launcher {
        "srun" => "use `srun --mpi=pmix` or `srun --mpi=pmi2`, or --hosts instead of srun",
        _ => "use the mpirun of the MPI that is loaded",
    };
    Err(UserError::new("join the other ranks of this job", cause).help(help))
}

/// Returns the name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The other ranks, as rank 0 sees them.
pub struct Ranks {
    /// Machine of each rank, in their order.
    pub(crate) machines: Vec<String>,
    /// Channel to each rank but this one.
    pub(crate) streams: Vec<UnixStream>,
    pub(crate) thread: RankThread,
}

/// The thread with the messages, which ends once all channels have.
pub(crate) struct RankThread(Option<JoinHandle<()>>, Duration);

impl RankThread {
    /// Waits for nobody: a rank does not answer, and the launcher is about to end all.
    pub(crate) fn give_up(&mut self) {
        self.0 = None;
    }

    /// Waits for a moment only: a signal has ended the run.
    pub(crate) fn shorten_wait(&mut self) {
        self.1 = LEAVE_TIMEOUT_AFTER_SIGNAL;
    }
}

impl Drop for RankThread {
    /// Waits for the other ranks. One that does not answer any more is the launcher's matter.
    fn drop(&mut self) {
        let started = Instant::now();
        let Some(thread) = self.0.take() else { return };
        while !thread.is_finished() && started.elapsed() < self.1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Ranks {
    /// Joins the job as its rank 0, and waits until all ranks have.
    ///
    /// # Errors
    /// There is no library, or it knows another job than the launcher.
    pub fn gather(rank_info: &RankInfo) -> Result<Self, UserError> {
        let fail = |error: io::Error| UserError::new("join the other ranks of this job", error);
        if rank_info.size > CLIENTS_MAX {
            let cause = format!("the job has {} ranks, and the maximum is {CLIENTS_MAX}", rank_info.size);
            return Err(UserError::new("join the other ranks of this job", cause).help("use fewer processes"));
        }
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 1..rank_info.size {
            let (one, other) = UnixStream::pair().map_err(fail)?;
            other.set_nonblocking(true).map_err(fail)?;
            near.push(one);
            far.push(Some(other));
        }
        let (sender, gathered) = channel();
        let rank_info = rank_info.clone();
        let thread = std::thread::Builder::new().name("mpi".into()).spawn(move || {
            let mut job = match join(&rank_info) {
                Ok(job) => job,
                Err(error) => return drop(sender.send(Err(error))),
            };
            match machines(job.as_mut(), HELLO_TIMEOUT) {
                Ok((machines, has_ended)) => {
                    let _ = sender.send(Ok(machines));
                    relay(job, far, has_ended);
                }
                // The launcher ends all ranks once this one has ended without leaving the job.
                Err(error) => drop(sender.send(Err(error))),
            }
        });
        let thread = RankThread(Some(thread.map_err(fail)?), LEAVE_TIMEOUT);
        let machines = receive_machines(&gathered)?;
        Ok(Self { machines, streams: near, thread })
    }
}

fn receive_machines(gathered: &Receiver<Result<Vec<String>, UserError>>) -> Result<Vec<String>, UserError> {
    let gone = || Err(UserError::new("join the other ranks of this job", "the MPI thread has ended"));
    gathered.recv().unwrap_or_else(|_| gone())
}

/// Waits for the names of all machines. Returns them, and which of the other ranks have ended already.
///
/// # Errors
/// A rank does not say its name in time.
fn machines(job: &mut dyn Job, limit: Duration) -> Result<(Vec<String>, Vec<bool>), UserError> {
    let mut names = vec![None; job.size()];
    let mut has_ended = vec![false; job.size() - 1];
    names[0] = Some(machine());
    let mut buffer = vec![0; HEADER_BYTES + PART_BYTES];
    let mut clock = RunningClock::new();
    while let Some(missing) = names.iter().position(Option::is_none) {
        if clock.now() > limit {
            let cause = format!("rank {missing} did not respond within {} s", limit.as_secs());
            return Err(UserError::new("join the other ranks of this job", cause));
        }
        if !job.receive(&mut buffer) {
            std::thread::sleep(PAUSES[1].1);
            continue;
        }
        // A rank says its name first, and nothing else before it is spoken to, unless its agent has ended.
        match read(&buffer) {
            Some((rank, Kind::Name, name)) if rank < names.len() => {
                names[rank] = Some(String::from_utf8_lossy(name).into_owned());
            }
            Some((rank @ 1.., Kind::End, _)) if rank < names.len() => has_ended[rank - 1] = true,
            _ => {}
        }
    }
    Ok((names.into_iter().flatten().collect(), has_ended))
}

/// Carries bytes between the channels and the other ranks, until both ends of each have ended.
fn relay(mut job: Box<dyn Job>, mut streams: Vec<Option<UnixStream>>, mut has_ended: Vec<bool>) {
    let mut buffer = vec![0; HEADER_BYTES + PART_BYTES];
    let mut part = vec![0; PART_BYTES];
    // Bytes that a channel has not taken yet.
    let mut waiting: Vec<Vec<u8>> = vec![Vec::new(); streams.len()];
    let mut pause = Pause::new();
    while has_ended.contains(&false) || streams.iter().any(Option::is_some) {
        let mut has_moved = false;
        while job.receive(&mut buffer) {
            has_moved = true;
            let Some((rank @ 1.., kind, bytes)) = read(&buffer) else { continue };
            match (kind, waiting.get_mut(rank - 1), has_ended.get_mut(rank - 1)) {
                (Kind::Part, Some(waiting), _) => waiting.extend(bytes),
                (Kind::End, _, Some(has_ended)) => *has_ended = true,
                _ => {}
            }
        }
        for (index, place) in streams.iter_mut().enumerate() {
            let Some(stream) = place else { continue };
            let bytes = &mut waiting[index];
            if bytes.is_empty() {
                if has_ended[index] {
                    // The channel's reader sees the end of all bytes.
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                }
            } else if let Ok(count) = stream.write(bytes) {
                bytes.drain(..count);
                has_moved = true;
            }
            match stream.read(&mut part) {
                Err(error) if is_retryable(&error) => {}
                Ok(count @ 1..) => {
                    has_moved = true;
                    job.send(index + 1, message(0, Kind::Part, &part[..count]));
                }
                Ok(0) | Err(_) => {
                    job.send(index + 1, message(0, Kind::End, &[]));
                    *place = None;
                }
            }
        }
        job.has_sent_all();
        pause.after(has_moved, streams.iter().flatten().map(AsFd::as_fd));
    }
    job.leave();
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Pauses between looks that grow as long as nothing moves.
struct Pause {
    last_progress: Instant,
}

impl Pause {
    fn new() -> Self {
        Self { last_progress: Instant::now() }
    }

    /// Pauses, unless something has moved. Bytes of a channel end a pause.
    fn after<'a>(&mut self, has_moved: bool, streams: impl Iterator<Item = BorrowedFd<'a>>) {
        if has_moved {
            self.last_progress = Instant::now();
            return;
        }
        let still = self.last_progress.elapsed();
        let pause =
            PAUSES.iter().find(|(until, _)| still < *until).map_or(LONGEST_PAUSE, |(_, pause)| *pause);
        if pause.is_zero() {
            std::thread::yield_now();
            return;
        }
        let mut polled: Vec<_> =
            streams.map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        // An interruption ends a pause like anything else.
        let _ = poll(&mut polled, Some(&time));
    }
}

/// Programs that a rank starts.
pub struct Programs {
    /// The agent.
    pub agent: Command,
    /// The program that removes what a killed agent leaves.
    pub clean: Command,
}

/// Serves the coordinator with an agent of this machine, as any rank but 0. Where `programs` refuses, the coordinator hears
/// of it. Returns false if MPI knows another job than the launcher, which rank 0 says.
///
/// # Errors
/// There is no library.
pub fn serve(
    rank_info: &RankInfo,
    programs: impl FnOnce() -> Result<Programs, UserError>,
) -> Result<bool, UserError> {
    let mut job = mpi::join(rank_info.family)?;
    if job.size() != rank_info.size {
        job.leave();
        return Ok(false);
    }
    let rank = job.rank();
    job.send(0, message(rank, Kind::Name, machine().as_bytes()));
    // After the library is there: it may take longer than an agent waits for its first frame.
    let started = programs().and_then(|Programs { mut agent, clean }| {
        let fail = |error: io::Error| UserError::new("start an agent", error);
        let child = without_launcher_env(&mut agent).spawn().map_err(fail)?;
        Ok((child, clean))
    });
    match started {
        Ok((agent, clean)) => {
            let mut server = RankServer::new(job, agent, clean);
            server.relay();
            server.job.leave();
        }
        Err(error) => refuse(job, error),
    }
    Ok(true)
}

/// Reports to the coordinator, after its first message, that this rank cannot take part. Waits until it has ended the
/// channel.
fn refuse(mut job: Box<dyn Job>, error: UserError) {
    let refusal = FromAgent::Failed { error, is_refusal: true };
    let frames = [channel::encode(&Hello::new("", "")), channel::encode(&refusal)];
    let mut frames = Some(frames.into_iter().flatten().flatten().collect::<Vec<_>>());
    let mut buffer = vec![0; HEADER_BYTES + PART_BYTES];
    loop {
        if job.receive(&mut buffer) {
            match read(&buffer) {
                Some((0, Kind::End, _)) => break,
                _ => {
                    if let Some(frames) = frames.take() {
                        job.send(0, message(job.rank(), Kind::Part, &frames));
                        job.send(0, message(job.rank(), Kind::End, &[]));
                    }
                }
            }
        }
        job.has_sent_all();
        std::thread::sleep(LONGEST_PAUSE);
    }
    job.leave();
}

/// Takes the variables of all launchers away from a program, which is no rank.
pub(crate) fn without_launcher_env(command: &mut Command) -> &mut Command {
    for (rank, size, ..) in LAUNCHERS {
        command.env_remove(rank).env_remove(size);
    }
    command
}

/// Channel of the agent of this rank.
struct RankServer {
    job: Box<dyn Job>,
    agent: Child,
    clean: Command,
    /// `None` once nothing more goes to the agent.
    to_agent: Option<File>,
    /// `None` once the agent has closed the channel.
    from_agent: Option<File>,
}

impl RankServer {
    fn new(job: Box<dyn Job>, mut agent: Child, clean: Command) -> Self {
        let file = |end: Option<OwnedFd>| end.map(File::from);
        let (to_agent, from_agent) =
            (file(agent.stdin.take().map(Into::into)), file(agent.stdout.take().map(Into::into)));
        if let Some(from) = &from_agent {
            // A pipe always takes this flag.
            let _ = rustix::io::ioctl_fionbio(from, true);
        }
        Self { job, agent, clean, to_agent, from_agent }
    }

    fn send(&mut self, kind: Kind, bytes: &[u8]) {
        let message = message(self.job.rank(), kind, bytes);
        self.job.send(0, message);
    }

    /// Carries frames until both ends of the channel have ended.
    fn relay(&mut self) {
        let (mut to_agent, mut from_agent) = (FrameReader::default(), FrameReader::default());
        let mut buffer = vec![0; HEADER_BYTES + PART_BYTES];
        let mut part = vec![0; PART_BYTES];
        // Instant of the last sign of life; `None` before the coordinator has spoken.
        let mut beaten: Option<Instant> = None;
        let mut pause = Pause::new();
        // A message that nobody takes would be lost with the job.
        let mut is_over = false;
        while !is_over || self.from_agent.is_some() {
            let mut has_moved = false;
            while self.job.receive(&mut buffer) {
                has_moved = true;
                match read(&buffer) {
                    Some((0, Kind::Part, bytes)) => to_agent.push(bytes),
                    Some((0, Kind::End, _)) => is_over = true,
                    _ => {}
                }
            }
            loop {
                match to_agent.next() {
                    Ok(Some(document)) => {
                        self.hand_over(&channel::framed(&document));
                        beaten.get_or_insert_with(Instant::now);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.to_agent = None;
                        break;
                    }
                }
            }
            if is_over {
                self.to_agent = None;
            }
            // Signs of life come from here: no message crosses the network while something is measured.
            if beaten.is_some_and(|beaten| beaten.elapsed() >= HEARTBEAT_INTERVAL) {
                beaten = Some(Instant::now());
                self.hand_over(&channel::encode(&ToAgent::Beat {}).unwrap_or_default());
            }
            match self.from_agent.as_mut().map(|from| from.read(&mut part)) {
                None => {}
                Some(Err(error)) if is_retryable(&error) => {}
                Some(Ok(count @ 1..)) => {
                    from_agent.push(&part[..count]);
                    let mut bytes = Vec::new();
                    let malformed = loop {
                        match from_agent.next() {
                            Ok(Some(document)) if is_forwarded(&document) => {
                                bytes.extend(channel::framed(&document))
                            }
                            Ok(Some(_)) => {}
                            Ok(None) => break false,
                            Err(_) => break true,
                        }
                    };
                    has_moved |= !bytes.is_empty();
                    bytes.chunks(PART_BYTES).for_each(|part| self.send(Kind::Part, part));
                    if malformed {
                        self.end();
                    }
                }
                Some(Ok(0) | Err(_)) => self.end(),
            }
            self.job.has_sent_all();
            pause.after(has_moved, self.from_agent.iter().map(AsFd::as_fd));
        }
    }

    /// Ends the channel, once the agent has ended. One that was killed has left its files.
    fn end(&mut self) {
        (self.to_agent, self.from_agent) = (None, None);
        if self.agent.wait().is_ok_and(|status| status.code().is_none()) {
            // What cannot be removed is told on its standard error, which the launcher shows.
            let clean = without_launcher_env(&mut self.clean).stdin(Stdio::null()).stdout(Stdio::null());
            let _ = clean.stderr(Stdio::inherit()).status();
        }
        self.send(Kind::End, &[]);
    }

    /// Writes a frame to the agent. One that is gone shows at the other end of its channel.
    fn hand_over(&mut self, frame: &[u8]) {
        let _ = self.to_agent.as_mut().map(|to| to.write_all(frame));
    }
}

/// Returns true for a frame of an agent that the coordinator needs.
fn is_forwarded(document: &[u8]) -> bool {
    !document.starts_with(br#"{"beat""#) && !document.starts_with(br#"{"tick""#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::frames::Slice;

    fn rank_info(variables: &[(&str, &str)]) -> Option<RankInfo> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        RankInfo::find(find)
    }

    #[test]
    fn launcher_is_detected_from_environment() {
        let of = |rank, size, launcher, family| Some(RankInfo { rank, size, launcher, family });
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(rank_info(&open_mpi), of(3, 4, "mpirun", Family::OpenMpi));
        assert_eq!(rank_info(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), of(0, 2, "mpirun", Family::Mpich));
        let task = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "8")];
        assert_eq!(rank_info(&task), of(1, 8, "srun", Family::OpenMpi));
        // A batch script, and a job of one rank, are like a shell.
        assert_eq!(rank_info(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
        assert_eq!(rank_info(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(rank_info(&[]), None);
    }

    /// A job of two ranks, of which the other one sends the same message for ever.
    struct Other(Vec<u8>);

    impl Job for Other {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            2
        }

        fn receive(&mut self, buffer: &mut [u8]) -> bool {
            buffer[..self.0.len()].copy_from_slice(&self.0);
            !self.0.is_empty()
        }

        fn send(&mut self, _: usize, _: Vec<u8>) {}

        fn has_sent_all(&mut self) -> bool {
            true
        }

        fn leave(self: Box<Self>) {}
    }

    #[test]
    fn silent_rank_fails_the_name_exchange_after_timeout() {
        let limit = Duration::from_millis(100);
        let named = machines(&mut Other(message(1, Kind::Name, b"ada")), limit).unwrap();
        assert_eq!((named.0[1].as_str(), named.1), ("ada", vec![false]));
        for said in [Vec::new(), message(1, Kind::Part, b"beat")] {
            let error = machines(&mut Other(said), limit).unwrap_err();
            assert!(error.cause.starts_with("rank 1 did not respond"), "{error}");
        }
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        for kind in KINDS {
            let mut buffer = message(7, kind, b"bytes");
            buffer.extend(b"of an earlier message");
            assert_eq!(read(&buffer), Some((7, kind, &b"bytes"[..])));
        }
        assert_eq!(read(&message(1, Kind::Part, b"bytes")[..12]), None);
        assert_eq!(read(&[0, 0, 0, 1, 9, 0, 0, 0, 0]), None);
    }

    #[test]
    fn ticks_and_heartbeats_are_not_forwarded() {
        let is_forwarded = |frame: &FromAgent| is_forwarded(&channel::encode(frame).unwrap()[4..]);
        assert!(
            !is_forwarded(&FromAgent::Beat {})
                && !is_forwarded(&FromAgent::Tick { slices: vec![Slice::default()] })
        );
        assert!(is_forwarded(&FromAgent::Ready {}) && is_forwarded(&FromAgent::Closed { left: Vec::new() }));
    }
}
