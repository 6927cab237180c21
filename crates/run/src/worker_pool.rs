//! Threads that work on command: start together, report, and may panic or hang without taking the run with them.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::Trouble;
use observe::thread;

use crate::patience::{hangs, patience};

/// What a member tells.
#[derive(Debug)]
pub enum Event<R> {
    /// It has made everything ready; who works.
    Ready(Worker),
    /// It has done what it was told.
    Report(R),
    /// It panicked, and with which message.
    Panicked(String),
}

/// Who does a member's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// Its own thread, by its number.
    Thread(i32),
    /// A process with one thread that it started, by its number.
    Process(i32),
}

/// A member's end: commands in, reports out.
pub struct Mailbox<C, R> {
    index: usize,
    commands: Receiver<C>,
    events: Sender<(usize, Event<R>)>,
}

impl<C, R> Mailbox<C, R> {
    /// Says that everything is ready and the first command may come.
    pub fn ready(&self) {
        self.ready_as(Worker::Thread(rustix::thread::gettid().as_raw_nonzero().get()));
    }

    /// The same, where somebody else does the work.
    pub fn ready_as(&self, worker: Worker) {
        let _ = self.events.send((self.index, Event::Ready(worker)));
    }

    /// The next command; `None` when there will be none.
    pub fn next(&self) -> Option<C> {
        self.commands.recv().ok()
    }

    /// Answers a command.
    pub fn report(&self, report: R) {
        let _ = self.events.send((self.index, Event::Report(report)));
    }
}

/// The stack of each thread.
const STACK_BYTES: usize = 256 << 10;
/// How often a thread is looked at that is about to end.
const END_LOOK: Duration = Duration::from_micros(200);
/// How long threads may take to their end where another hangs.
const END_GRACE: Duration = Duration::from_secs(1);

struct Member<C> {
    commands: Sender<C>,
    thread: JoinHandle<()>,
    /// The thread's number, once it runs.
    number: Arc<AtomicI32>,
    busy: bool,
}

/// A group of threads.
pub struct WorkerPool<C, R> {
    members: Vec<Member<C>>,
    events: Receiver<(usize, Event<R>)>,
}

/// What a member does with its mailbox, from its first breath to its last.
pub type Work<C, R> = Box<dyn FnOnce(&Mailbox<C, R>) + Send>;

impl<C: Send + 'static, R: Send + 'static> WorkerPool<C, R> {
    /// Starts a thread for each work.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn start(works: Vec<Work<C, R>>) -> std::io::Result<Self> {
        let (sender, events) = channel();
        let mut members = Vec::with_capacity(works.len());
        // Nobody works before all are there: what they take would be missing for the next thread.
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
                own.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                // A panic is told to the driver, who keeps the rest of the run; the hook has printed where it was.
                if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(|| work(&mailbox))) {
                    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                    let event = Event::Panicked(text.unwrap_or_else(|| "no message".into()));
                    let _ = mailbox.events.send((mailbox.index, event));
                }
            };
            let thread = thread::start(&format!("worker-{index}"), STACK_BYTES, body)?;
            // Getting ready is the first thing that each is busy with.
            members.push(Member { commands, thread, number, busy: true });
        }
        drop(gate);
        Ok(Self { members, events })
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Gives a member a command, which it must answer with a report.
    pub fn command(&mut self, index: usize, command: C) {
        let member = &mut self.members[index];
        member.busy = member.commands.send(command).is_ok();
    }

    /// Whether any member has not answered yet.
    pub fn is_busy(&self) -> bool {
        self.members.iter().any(|member| member.busy)
    }

    /// The next event, or `None` after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Option<(usize, Event<R>)> {
        match self.events.recv_timeout(timeout) {
            Ok((index, event)) => {
                self.members[index].busy = false;
                Some((index, event))
            }
            // All have gone without a word, which a member never does: each answers or panics aloud.
            Err(RecvTimeoutError::Disconnected) => {
                self.members.iter_mut().for_each(|member| member.busy = false);
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Numbers of the threads that have not answered.
    pub fn busy_threads(&self) -> Vec<i32> {
        let busy = self.members.iter().filter(|member| member.busy);
        busy.map(|member| member.number.load(Ordering::Relaxed)).collect()
    }

    /// Sends everybody home, and waits for those who have answered: on their way they close files. Those that hang are left
    /// behind.
    ///
    /// # Errors
    /// One that had answered does not come to its end.
    pub fn dismiss(self, mut movement: impl FnMut() -> u64) -> Result<(), Trouble> {
        // Where one hangs, the others may, too; nobody waits for that again.
        let patience = if self.is_busy() { END_GRACE } else { patience() };
        let mut leaving = Vec::new();
        for member in self.members {
            let Member { commands, thread, number, busy } = member;
            drop(commands);
            if !busy {
                leaving.push((thread, number));
            }
        }
        let (mut moved_at, mut seen) = (Instant::now(), movement());
        while !leaving.is_empty() {
            let before = leaving.len();
            let (ended, still): (Vec<_>, Vec<_>) =
                leaving.into_iter().partition(|(thread, _)| thread.is_finished());
            ended.into_iter().for_each(|(thread, _)| drop(thread.join()));
            leaving = still;
            let now = movement();
            if leaving.len() < before || std::mem::replace(&mut seen, now) != now {
                moved_at = Instant::now();
            } else if moved_at.elapsed() > patience {
                let numbers: Vec<_> =
                    leaving.iter().map(|(_, number)| number.load(Ordering::Relaxed)).collect();
                return Err(hangs("close files", &numbers, moved_at.elapsed()));
            } else {
                std::thread::sleep(END_LOOK);
            }
        }
        Ok(())
    }
}

/// Keeps the thread near the device. Where that is refused it runs where it may.
pub fn place_near(cpus: Option<&[u32]>) {
    let Some(cpus) = cpus else { return };
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_told_and_others_go_on() {
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
