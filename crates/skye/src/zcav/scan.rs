//! Threads that read or write files at the same time, and their results when they have ended or must be left.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use engine::clock::{Clock, Monotonic};
use engine::zones::{Board, CachedRead, DirectRead, DurableZeros, Ended, Scan, Task};
use family::zcav::{Effort, FileScan, Log};
use model::Trouble;
use observe::{Probe, Root, Snapshot};

use super::target::{Opened, Way};
use crate::signals::Interruption;

/// Time from now to the common start, so that all threads are awake when it comes.
const AHEAD_NS: u64 = 5_000_000;
/// Longest wait for an event before looking up.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a thread has to end once that is wanted. A thread that hangs in a call of the device is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// Report of a thread.
enum Event {
    Ready(i32),
    Ended(Ended),
}

/// One file with its thread.
struct Member {
    opened: Opened,
    blocks: Arc<[std::ops::Range<u64>]>,
    board: Arc<Board>,
    commands: Sender<u64>,
    probe: Probe,
    /// Number of the thread.
    thread: i32,
    /// Counters of the thread before and after its work.
    counters: [Option<Counters>; 2],
    ended: Option<Ended>,
    has_gone: bool,
}

/// Kernel counters of a thread.
#[derive(Clone, Copy)]
struct Counters {
    queued_ns: u64,
    /// `None` where the kernel does not tell.
    device_bytes: Option<u64>,
}

/// Result of one file.
pub struct Outcome {
    /// Results of its blocks, perhaps not of all.
    pub log: Log,
    /// Work that its thread did.
    pub effort: Effort,
    /// Reason why it ended before all blocks were moved.
    pub trouble: Option<Trouble>,
}

/// Scans of all files at once.
pub struct Scans {
    members: Vec<Member>,
    events: Receiver<(usize, Event)>,
    passes: u32,
}

impl Scans {
    /// Starts a thread for each file. All threads begin at the same instant.
    ///
    /// # Errors
    /// There are too many threads.
    pub fn start(all: Vec<Opened>, interruption: &Interruption) -> Result<Self, Trouble> {
        let (sender, events) = channel();
        let mut members = Vec::with_capacity(all.len());
        let passes = all.first().map_or(1, |opened| opened.layout.passes);
        for (index, opened) in all.into_iter().enumerate() {
            let attempt = || format!("start a thread for {}", opened.name);
            let blocks: Arc<[_]> = opened.layout.blocks().into();
            let board = Arc::new(Board::new(blocks.len() * opened.layout.passes as usize));
            let file = opened.file.try_clone().map_err(|error| Trouble::new(attempt(), error))?;
            let task = task(file, &opened, &blocks, &board, interruption);
            let (commands, receiver) = channel();
            let (way, sender) = (opened.way, sender.clone());
            std::thread::Builder::new()
                .name(format!("zcav-{index}"))
                .stack_size(256 << 10)
                .spawn(move || work(index, way, task, &receiver, &sender))
                .map_err(|error| Trouble::new(attempt(), error).remedy("name fewer files"))?;
            let probe = Probe::open(&Root::system(), &[]);
            members.push(Member {
                opened,
                blocks,
                board,
                commands,
                probe,
                thread: 0,
                counters: [None; 2],
                ended: None,
                has_gone: false,
            });
        }
        drop(sender);
        let mut scans = Self { members, events, passes };
        scans.await_ready();
        let start_ns = Monotonic.now_ns() + AHEAD_NS;
        for member in &scans.members {
            // A thread that is gone has reported its end, or reports nothing any more.
            let _ = member.commands.send(start_ns);
        }
        Ok(scans)
    }

    fn await_ready(&mut self) {
        let mut ready = 0;
        while ready < self.members.len() {
            match self.events.recv() {
                Ok((index, Event::Ready(thread))) => {
                    let member = &mut self.members[index];
                    member.probe.watch_thread(thread);
                    member.thread = thread;
                    member.counters[0] = counters(&mut member.probe, thread);
                    ready += 1;
                }
                Ok((index, Event::Ended(ended))) => self.members[index].ended = Some(ended),
                // A thread panicked before it was ready; the others are gone, too.
                Err(_) => return,
            }
        }
    }

    /// Waits until a thread ends, or it is time to look. Returns true if a thread is still at work.
    pub fn wait(&mut self) -> bool {
        match self.events.recv_timeout(LOOK) {
            Ok((index, Event::Ended(ended))) => {
                let member = &mut self.members[index];
                // Read while the thread still waits to be released.
                member.counters[1] = counters(&mut member.probe, member.thread);
                member.ended = Some(ended);
            }
            Ok((_, Event::Ready(_))) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.members.iter_mut().for_each(|member| member.has_gone = member.ended.is_none());
            }
        }
        self.members.iter().any(|member| member.ended.is_none() && !member.has_gone)
    }

    /// Waits for threads that were told to end, but not forever.
    pub fn wait_for_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && self.wait() {}
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the results of a file so far.
    pub fn log(&self, index: usize) -> Log {
        let member = &self.members[index];
        let times_ns = member.times_ns();
        FileScan {
            name: &member.opened.name,
            blocks: &member.blocks,
            times_ns: &times_ns,
            partial: member.ended.and_then(|ended| ended.partial),
            passes: self.passes,
            verb: member.opened.verb(),
        }
        .log()
    }

    /// Returns the number of finished passes over a file.
    pub fn passes_done(&self, index: usize) -> usize {
        let member = &self.members[index];
        member.board.done() / member.blocks.len().max(1)
    }

    /// Returns the name of a file.
    pub fn name(&self, index: usize) -> &str {
        &self.members[index].opened.name
    }

    /// Returns the bytes moved so far, and the bytes to move in total, over all files.
    pub fn progress_bytes(&self) -> (u64, u64) {
        let all =
            |member: &Member| -> u64 { member.blocks.iter().map(|block| block.end - block.start).sum() };
        let moved = self.members.iter().map(|member| member.board.moved_bytes()).sum();
        (moved, self.members.iter().map(|member| all(member).saturating_mul(u64::from(self.passes))).sum())
    }

    /// Returns the path for the results of a file, if they do not go to stdout.
    pub fn log_path(&self, index: usize) -> Option<&std::path::Path> {
        self.members[index].opened.log.as_deref()
    }

    /// Returns the result of a file, once no more comes.
    pub fn outcome(&self, index: usize) -> Outcome {
        let member = &self.members[index];
        let partial_ns = member.ended.and_then(|ended| ended.partial).map_or(0, |(_, time_ns)| time_ns);
        let [before, after] = member.counters;
        let grown = |of: fn(&Counters) -> Option<u64>| {
            let (before, after) = (before.as_ref().and_then(of)?, after.as_ref().and_then(of)?);
            Some(after.saturating_sub(before))
        };
        let effort = Effort {
            verb: member.opened.verb(),
            elapsed_ns: if member.ended.is_some() {
                member.times_ns().iter().sum::<u64>() + partial_ns
            } else {
                0
            },
            cpu_ns: member.ended.map_or(0, |ended| ended.cpu_ns),
            queued_ns: grown(|counters| Some(counters.queued_ns)).unwrap_or(0),
            moved_bytes: member.board.moved_bytes(),
            device_bytes: grown(|counters| counters.device_bytes),
        };
        Outcome { log: self.log(index), effort, trouble: member.trouble() }
    }
}

impl Member {
    fn times_ns(&self) -> Vec<u64> {
        (0..self.board.done()).map(|block| self.board.time_ns(block)).collect()
    }

    fn trouble(&self) -> Option<Trouble> {
        let name = &self.opened.name;
        let Some(ended) = self.ended else {
            let cause = if self.has_gone {
                "its thread ended"
            } else {
                "its thread is in a call that has not returned"
            };
            return Some(Trouble::new(format!("measure {name} to the end"), cause));
        };
        let failure = ended.result.err()?;
        let offset_bytes = failure.offset_bytes.unwrap_or_default();
        let trouble =
            Trouble::new(format!("{} {name} at offset {offset_bytes}", failure.call), failure.cause);
        let is_short = matches!(failure.cause, engine::failure::Cause::Short { .. });
        Some(match is_short {
            true => trouble.remedy("it became shorter meanwhile: let nobody change it"),
            false => trouble.remedy("what was measured before it is printed; dmesg may say more"),
        })
    }
}

fn task(
    file: OwnedFd,
    opened: &Opened,
    blocks: &Arc<[std::ops::Range<u64>]>,
    board: &Arc<Board>,
    interruption: &Interruption,
) -> Task {
    Task {
        file,
        chunk_bytes: usize::try_from(opened.layout.chunk_bytes).unwrap_or(1 << 20),
        blocks: Arc::clone(blocks),
        passes: opened.layout.passes,
        board: Arc::clone(board),
        stop: Arc::clone(&interruption.raised),
    }
}

/// Body of a thread.
fn work(index: usize, way: Way, task: Task, commands: &Receiver<u64>, events: &Sender<(usize, Event)>) {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let run: Box<dyn FnOnce(u64) -> Ended> = match way {
        Way::Direct => {
            let scan = Scan::new(DirectRead, Monotonic, task);
            Box::new(|start_ns| scan.run(start_ns))
        }
        Way::Cached => {
            let scan = Scan::new(CachedRead, Monotonic, task);
            Box::new(|start_ns| scan.run(start_ns))
        }
        Way::Zeros => {
            let scan = Scan::new(DurableZeros, Monotonic, task);
            Box::new(|start_ns| scan.run(start_ns))
        }
    };
    let _ = events.send((index, Event::Ready(thread)));
    let Ok(start_ns) = commands.recv() else { return };
    let _ = events.send((index, Event::Ended(run(start_ns))));
    // The kernel drops its counters with the thread, so the thread stays until they are read.
    let _ = commands.recv();
}

fn counters(probe: &mut Probe, thread: i32) -> Option<Counters> {
    if probe.watched() == 0 {
        return None;
    }
    // A process that has become another user may not see what its own threads moved.
    let is_told = std::fs::read(format!("/proc/self/task/{thread}/io")).is_ok();
    let device_bytes = is_told.then(|| probe.calls().device_read_bytes);
    let mut snapshot: Snapshot = probe.new_snapshot();
    probe.snapshot(&mut snapshot);
    Some(Counters { queued_ns: snapshot.workers.run_queue_ns, device_bytes })
}
