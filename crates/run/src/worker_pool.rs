//! Threads that work on command: they start together, report, and may panic or hang without taking the run
//! with them.
//!
//! The driving thread waits for the pool, and one thread for each worker does the work. A ring keeps its depth in
//! flight in one thread. Plain system calls have no depth, so the plan has made it into threads. A member makes its
//! engine in its own thread, near the device where there are several NUMA nodes. It says `Ready`, and then answers each
//! command with a report.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::UserError;
use observe::thread;

use crate::hang_detection::{hang_timeout, hangs};

/// Event from a member.
#[derive(Debug)]
pub enum Event<R> {
    /// It has made everything ready; this worker does its work.
    Ready(Worker),
    /// It has carried out its command.
    Report(R),
    /// It panicked with this message.
    Panicked(String),
}

/// Worker that does a member's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// The member's own thread, by its number.
    Thread(i32),
    /// A process with one thread that the member started, by its number.
    Process(i32),
}

/// A member's end of the channels: commands in, reports out.
pub struct Mailbox<C, R> {
    index: usize,
    commands: Receiver<C>,
    events: Sender<(usize, Event<R>)>,
}

impl<C, R> Mailbox<C, R> {
    /// Reports that everything is ready and the first command may come.
    pub fn ready(&self) {
        self.ready_as(Worker::Thread(thread::proc_tid()));
    }

    /// Reports the same, if another worker does the work.
    pub fn ready_as(&self, worker: Worker) {
        let _ = self.events.send((self.index, Event::Ready(worker)));
    }

    /// Returns the next command; `None` if no more will come.
    pub fn next(&self) -> Option<C> {
        self.commands.recv().ok()
    }

    /// Answers a command.
    pub fn report(&self, report: R) {
        let _ = self.events.send((self.index, Event::Report(report)));
    }
}

/// Stack of each thread.
const STACK_BYTES: usize = 256 << 10;
/// Polling interval of threads that are about to end.
const END_POLL_INTERVAL: Duration = Duration::from_micros(200);
/// Time that threads may take to end if another thread hangs.
const END_GRACE: Duration = Duration::from_secs(1);

struct Member<C> {
    commands: Sender<C>,
    thread: JoinHandle<()>,
    /// Number of the thread, once it runs.
    number: Arc<AtomicI32>,
    is_working: bool,
}

/// A group of threads.
pub struct WorkerPool<C, R> {
    members: Vec<Member<C>>,
    events: Receiver<(usize, Event<R>)>,
}

/// Whole work of a member, which it does through its mailbox.
pub type Work<C, R> = Box<dyn FnOnce(&Mailbox<C, R>) + Send>;

impl<C: Send + 'static, R: Send + 'static> WorkerPool<C, R> {
    /// Starts a thread for each work.
    ///
    /// # Errors
    /// Fails if the system refuses another thread.
    pub fn start(works: Vec<Work<C, R>>) -> std::io::Result<Self> {
        let (sender, events) = channel();
        let mut members = Vec::with_capacity(works.len());
        // No thread works before all exist: the resources that it takes would be missing for the next one.
        let all_are_there = Arc::new(Mutex::new(()));
        let gate = Arc::clone(&all_are_there);
        let gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, work) in works.into_iter().enumerate() {
            let (commands, receiver) = channel();
            let mailbox = Mailbox { index, commands: receiver, events: sender.clone() };
            let number = Arc::new(AtomicI32::new(0));
            let (own, all_are_there) = (Arc::clone(&number), Arc::clone(&all_are_there));
            let body = move || {
                drop(all_are_there.lock());
                own.store(thread::proc_tid(), Ordering::Relaxed);
                // The driver hears of a panic and keeps the rest of the run; the hook has printed its place.
                if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| work(&mailbox))) {
                    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                    let event = Event::Panicked(text.unwrap_or_else(|| "no message".into()));
                    let _ = mailbox.events.send((mailbox.index, event));
                }
            };
            let thread = thread::start(&format!("worker-{index}"), STACK_BYTES, body)?;
            // Getting ready is the first work of each member.
            members.push(Member { commands, thread, number, is_working: true });
        }
        drop(gate);
        Ok(Self { members, events })
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Gives a member a command, which it must answer with a report.
    pub fn command(&mut self, index: usize, command: C) {
        let member = &mut self.members[index];
        member.is_working = member.commands.send(command).is_ok();
    }

    /// Returns true if any member has not answered yet.
    pub fn is_busy(&self) -> bool {
        self.members.iter().any(|member| member.is_working)
    }

    /// Returns the next event, or `None` after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Option<(usize, Event<R>)> {
        match self.events.recv_timeout(timeout) {
            Ok((index, event)) => {
                self.members[index].is_working = false;
                Some((index, event))
            }
            // All members have gone without a word. That never happens: each answers or panics aloud.
            Err(RecvTimeoutError::Disconnected) => {
                self.members.iter_mut().for_each(|member| member.is_working = false);
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Returns the numbers of the threads that have not answered.
    pub fn busy_threads(&self) -> Vec<i32> {
        let is_working = self.members.iter().filter(|member| member.is_working);
        is_working.map(|member| member.number.load(Ordering::Relaxed)).collect()
    }

    /// Dismisses all members, and waits for those that have answered, because they close files on their way.
    /// Leaves those that hang behind.
    ///
    /// # Errors
    /// Fails if a member that had answered does not end.
    pub fn dismiss(self, mut activity: impl FnMut() -> u64) -> Result<(), UserError> {
        // If one member hangs, the others may too, and that wait is not repeated.
        let hang_timeout = if self.is_busy() { END_GRACE } else { hang_timeout(true) };
        let mut leaving = Vec::new();
        for member in self.members {
            let Member { commands, thread, number, is_working } = member;
            drop(commands);
            if !is_working {
                leaving.push((thread, number));
            }
        }
        let (mut moved_at, mut seen) = (Instant::now(), activity());
        while !leaving.is_empty() {
            let before = leaving.len();
            let (ended, still): (Vec<_>, Vec<_>) =
                leaving.into_iter().partition(|(thread, _)| thread.is_finished());
            ended.into_iter().for_each(|(thread, _)| drop(thread.join()));
            leaving = still;
            let now = activity();
            if leaving.len() < before || std::mem::replace(&mut seen, now) != now {
                moved_at = Instant::now();
            } else if moved_at.elapsed() > hang_timeout {
                let numbers: Vec<_> =
                    leaving.iter().map(|(_, number)| number.load(Ordering::Relaxed)).collect();
                return Err(hangs("close files", &numbers, moved_at.elapsed()));
            } else {
                std::thread::sleep(END_POLL_INTERVAL);
            }
        }
        Ok(())
    }
}

/// Keeps the thread near the device. If the system refuses, the thread runs where it may.
pub fn pin_to_cpus(cpus: Option<&[u32]>) {
    let Some(cpus) = cpus else { return };
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_panic_is_reported_and_other_workers_continue() {
        let works: Vec<Work<u32, u32>> = (0..3)
            .map(|index| -> Work<u32, u32> {
                Box::new(move |mailbox| {
                    mailbox.ready();
                    while let Some(number) = mailbox.next() {
                        assert!(index != 1, "member 1 panics");
                        mailbox.report(number * 2);
                    }
                })
            })
            .collect();
        let mut pool = WorkerPool::start(works).unwrap();
        let mut events = Vec::new();
        let mut collect = |pool: &mut WorkerPool<u32, u32>| {
            while pool.is_busy() {
                events.extend(pool.wait(Duration::from_secs(10)));
            }
        };
        collect(&mut pool);
        (0..3).for_each(|index| pool.command(index, 21));
        collect(&mut pool);
        pool.dismiss(|| 0).unwrap();
        let reports = events.iter().filter(|(_, event)| matches!(event, Event::Report(42))).count();
        let panics: Vec<_> = events
            .iter()
            .filter_map(|(index, event)| match event {
                Event::Panicked(text) => Some((*index, text.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!((reports, panics), (2, vec![(1, "member 1 panics")]));
    }
}
