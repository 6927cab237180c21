//! Answers that are due at an instant, given by one thread.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuser::{ReplyData, ReplyEmpty, ReplyWrite};

use crate::clock::now_ns;
use crate::command::set_realtime_priority;
use crate::served::{Request, RequestLog};

/// An answer, ready to be given.
pub(super) enum Reply {
    Data(ReplyData, Vec<u8>),
    Written(ReplyWrite, u32),
    Done(ReplyEmpty),
    /// An answer to a request on names, of any of its many kinds.
    Name(Box<dyn FnOnce() + Send>),
}

impl Reply {
    fn give(self) {
        match self {
            Self::Data(reply, data) => reply.data(&data),
            Self::Written(reply, bytes) => reply.written(bytes),
            Self::Done(reply) => reply.ok(),
            Self::Name(give) => give(),
        }
    }
}

/// A request that waits for its answer.
struct Waiting {
    due_ns: u64,
    request: Request,
    answer: Reply,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    /// The request that is due first is the greatest, as a heap returns the greatest first. Of two, the one that came
    /// first wins.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due_ns, other.request.arrived_ns).cmp(&(self.due_ns, self.request.arrived_ns))
    }
}

enum Message {
    Wait(Waiting),
    /// All waiting requests are answered now.
    ReplyNow,
    End,
}

/// The thread, and its answers.
pub(super) struct ReplyThread {
    to: Mutex<Sender<Message>>,
    served: Arc<Mutex<RequestLog>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ReplyThread {
    /// Starts the thread; if it is urgent, it comes before all others.
    pub(super) fn start(urgent: bool) -> io::Result<Self> {
        let (to, from) = channel();
        let (started, starts) = channel();
        let served = Arc::new(Mutex::new(RequestLog::default()));
        let log = Arc::clone(&served);
        let thread = thread::Builder::new().name("rig-answers".into()).spawn(move || {
            if urgent {
                set_realtime_priority();
            }
            let _ = started.send(());
            answer(&from, &log);
        })?;
        // The thread cannot have ended yet: it ends only on request.
        let _ = starts.recv();
        Ok(Self { to: Mutex::new(to), served, thread: Mutex::new(Some(thread)) })
    }

    /// Gives an answer when it is due.
    pub(super) fn at(&self, due_ns: u64, request: Request, answer: Reply) {
        self.send(Message::Wait(Waiting { due_ns, request, answer }));
    }

    /// Gives an answer now.
    pub(super) fn now(&self, request: Request, answer: Reply) {
        give(&self.served, request, answer);
    }

    /// Gives all waiting answers now.
    pub(super) fn hurry(&self) {
        self.send(Message::ReplyNow);
    }

    /// Returns the answers since the last reset.
    pub(super) fn served(&self) -> RequestLog {
        lock(&self.served).clone()
    }

    /// Returns the answers so far, and resets the counts.
    pub(super) fn take(&self) -> RequestLog {
        std::mem::take(&mut *lock(&self.served))
    }

    fn send(&self, message: Message) {
        // If the thread is gone, the reply is dropped, which answers the request with an error.
        let _ = lock(&self.to).send(message);
    }
}

impl Drop for ReplyThread {
    fn drop(&mut self) {
        self.send(Message::End);
        let thread = lock(&self.thread).take();
        let _ = thread.map(JoinHandle::join);
    }
}

fn answer(arrivals: &Receiver<Message>, served: &Mutex<RequestLog>) {
    let mut heap: BinaryHeap<Waiting> = BinaryHeap::new();
    loop {
        let left = heap.peek().map(|next| Duration::from_nanos(next.due_ns.saturating_sub(now_ns())));
        let arrival = match left {
            None => arrivals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => arrivals.recv_timeout(left),
        };
        match arrival {
            Ok(Message::Wait(waiting)) => heap.push(waiting),
            Ok(Message::ReplyNow) => {
                while let Some(Waiting { request, answer, .. }) = heap.pop() {
                    give(served, request, answer);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The remaining requests are dropped, which answers them with an error.
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
        }
        while heap.peek().is_some_and(|next| next.due_ns <= now_ns()) {
            let Some(Waiting { request, answer, .. }) = heap.pop() else { break };
            give(served, request, answer);
        }
    }
}

fn give(served: &Mutex<RequestLog>, request: Request, answer: Reply) {
    // Record before the answer: its receiver may look at the served requests at once.
    lock(served).add(Request { answered_ns: now_ns(), ..request });
    answer.give();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
