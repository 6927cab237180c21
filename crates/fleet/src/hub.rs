//! Event loop over all channels, in one thread: polls them and sends heartbeats. Ends channels whose client is silent
//! or owes an answer for too long.
//!
//! Time in which this thread did not run does not count towards a timeout. It reads no channel whose events are not
//! taken, so no client fills the memory.

use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::UserError;
use model::frames::{FRAME_BYTES_MAX, Hello, ToAgent};
use rustix::event::{Timespec, epoll};

use crate::agent::HEARTBEAT_INTERVAL;
use crate::link::{Event, Link, Peer};
use crate::send::Copy;
use crate::waiting::RunningClock;

/// Polling interval of all channels, and precision of timeouts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time that processes have to end once their channels are closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Key of the orders among what the thread waits for. Those of the clients are their numbers.
const ORDERS_KEY: u64 = u64::MAX;
/// Most channels taken from the kernel at once.
const READY_MAX: usize = 256;
/// Most bytes of events that wait to be taken from one channel. More of them are not read: the longest frame fits.
const QUEUED_BYTES_MAX: usize = FRAME_BYTES_MAX;
/// Bytes that an event counts beside those of its frame.
const EVENT_BYTES: usize = QUEUED_BYTES_MAX / 1000;

/// Order to the thread.
enum Order {
    /// Send a frame to a client.
    Send(usize, ToAgent),
    /// Measure the clock of a client by this many round trips.
    AskTime(usize, u32),
    /// Close the channel to a client.
    Close(usize),
    /// Set the timeout of the answer that a client owes; no answer is due for `None`.
    Expect(usize, Option<Duration>),
    /// Set a deadline, after this time, for all further answers of a client; no deadline for `None`.
    Deadline(usize, Option<Duration>),
    /// Lower the time for all answers that clients owe to at most this.
    ShortenDeadlines(Duration),
    /// A test is running, or none any more.
    TestRunning(bool),
}

/// Event that waits to be taken.
struct Queued {
    client: usize,
    event: Event,
    bytes: usize,
}

/// All channels of a run.
pub struct Hub {
    /// Orders; `None` once all is over.
    orders: Option<Sender<Order>>,
    wake: PipeWriter,
    events: Receiver<Queued>,
    /// Bytes of the events of each client that wait to be taken.
    queued: Arc<[AtomicUsize]>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Opens a channel to each client, and says hello to each. At most `concurrent_starts_max` of them have not answered at any time. A
    /// process that cannot be started is an event.
    ///
    /// # Errors
    /// The system refuses a pipe or a thread.
    pub fn start(
        clients: Vec<Peer>,
        concurrent_starts_max: usize,
        hello: &Hello,
        copy: Option<&Copy>,
    ) -> Result<Self, UserError> {
        let fail = |error| UserError::new("start the thread that serves the clients", error);
        let (wake_reader, wake) = std::io::pipe().map_err(fail)?;
        for end in [wake_reader.as_fd(), wake.as_fd()] {
            rustix::io::ioctl_fionbio(end, true).map_err(|errno| fail(errno.into()))?;
        }
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| fail(errno.into()))?;
        epoll::add(&ready, &wake_reader, epoll::EventData::new_u64(ORDERS_KEY), epoll::EventFlags::IN)
            .map_err(|errno| fail(errno.into()))?;
        let (orders, taken) = channel();
        let (sender, events) = channel();
        let queued: Arc<[AtomicUsize]> = clients.iter().map(|_| AtomicUsize::new(0)).collect();
        let mut loops = Loop {
            links: clients.iter().map(|_| None).collect(),
            waiting: clients.into_iter().enumerate().collect(),
            concurrent_starts_max,
            hello: hello.clone(),
            copy: copy.cloned(),
            is_test_running: false,
            orders: taken,
            wake_reader,
            ready,
            events: sender,
            queued: Arc::clone(&queued),
            clock: RunningClock::new(),
        };
        let thread = std::thread::Builder::new().name("clients".into()).spawn(move || loops.run());
        Ok(Self { orders: Some(orders), wake, events, queued, thread: Some(thread.map_err(fail)?) })
    }

    /// Sends a frame to a client.
    pub fn send(&mut self, client: usize, frame: ToAgent) {
        self.order(Order::Send(client, frame));
    }

    /// Measures the clock of a client.
    pub fn ask_time(&mut self, client: usize, round_trips: u32) {
        self.order(Order::AskTime(client, round_trips));
    }

    /// Closes the channel to a client.
    pub fn close(&mut self, client: usize) {
        self.order(Order::Close(client));
    }

    /// Waits at most this long for the answer that a client owes, and then counts it as lost. It owes none for `None`.
    pub fn expect(&mut self, client: usize, limit: Option<Duration>) {
        self.order(Order::Expect(client, limit));
    }

    /// Sets a deadline, after `limit`, for all further answers of a client, whatever it sends; no deadline for `None`.
    pub fn within(&mut self, client: usize, limit: Option<Duration>) {
        self.order(Order::Deadline(client, limit));
    }

    /// Waits at most this long for all answers that clients owe.
    pub fn shorten_deadlines(&mut self, limit: Duration) {
        self.order(Order::ShortenDeadlines(limit));
    }

    /// Sets whether a test is running. During a test, ranks of a job get no heartbeat requests, and may be silent.
    pub fn set_test_running(&mut self, is_test_running: bool) {
        self.order(Order::TestRunning(is_test_running));
    }

    fn order(&mut self, order: Order) {
        // A thread that has panicked shows as the end of its events.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
        // A full pipe wakes the thread as well.
        let _ = self.wake.write(&[0]);
    }

    /// Returns the next event of any client; `None` if none comes within a time.
    pub fn next(&mut self, time: Duration) -> Option<(usize, Event)> {
        match self.events.recv_timeout(time) {
            Ok(Queued { client, event, bytes }) => {
                self.queued[client].fetch_sub(bytes, Ordering::Relaxed);
                Some((client, event))
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(time);
                None
            }
        }
    }
}

impl Drop for Hub {
    /// Closes all channels, and waits until the processes have ended.
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.wake.write(&[0]);
        self.thread.take().map(JoinHandle::join);
    }
}

/// State of the thread.
struct Loop {
    /// Channels by the numbers of the clients; `None` for one that is not open yet, or cannot be opened.
    links: Vec<Option<Link>>,
    /// Clients that are not started yet.
    waiting: VecDeque<(usize, Peer)>,
    /// Most clients that may have been started and have not answered.
    concurrent_starts_max: usize,
    hello: Hello,
    copy: Option<Copy>,
    /// True while something is measured.
    is_test_running: bool,
    orders: Receiver<Order>,
    wake_reader: PipeReader,
    /// Set of all channels, from which the kernel returns those that are ready.
    ready: OwnedFd,
    events: Sender<Queued>,
    queued: Arc<[AtomicUsize]>,
    clock: RunningClock,
}

impl Loop {
    fn run(&mut self) {
        let (mut last_beat, mut last_check) = (Instant::now(), Instant::now());
        let mut ready = Vec::with_capacity(READY_MAX);
        loop {
            self.start_pending();
            self.wait(&mut ready, POLL_INTERVAL.saturating_sub(last_check.elapsed()));
            loop {
                match self.orders.try_recv() {
                    Ok(order) => self.execute(order),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return self.end(),
                }
            }
            for client in ready.drain(..) {
                self.with(client, |link, events, now| {
                    link.receive(events, now);
                    link.flush();
                });
            }
            if last_check.elapsed() < POLL_INTERVAL {
                continue;
            }
            last_check = Instant::now();
            let is_beat = last_beat.elapsed() >= HEARTBEAT_INTERVAL;
            if is_beat {
                last_beat = Instant::now();
            }
            let is_test_running = self.is_test_running;
            for client in 0..self.links.len() {
                self.resume_reading(client);
                self.with(client, |link, events, now| {
                    if is_beat {
                        link.beat(is_test_running, now);
                    }
                    link.check(is_test_running, events, now);
                });
            }
        }
    }

    /// Does something with an open channel, and passes on the events that come of it.
    fn with(&mut self, client: usize, act: impl FnOnce(&mut Link, &mut Vec<Event>, Duration)) {
        let now = self.clock.now();
        let Some(link) = self.links.get_mut(client).and_then(Option::as_mut) else { return };
        if !link.is_open() {
            // A process that has ended keeps its number until somebody asks for its end.
            link.has_exited();
            return;
        }
        let mut events = Vec::new();
        act(link, &mut events, now);
        // All bytes count for the first event: only that one can be long.
        let mut bytes = link.take_bytes();
        for event in events {
            queue(&self.events, &self.queued, client, event, EVENT_BYTES + std::mem::take(&mut bytes));
        }
        if self.queued[client].load(Ordering::Relaxed) > QUEUED_BYTES_MAX {
            link.hold(&self.ready);
        }
    }

    /// Reads a channel again once half of its events are taken.
    fn resume_reading(&mut self, client: usize) {
        if let Some(link) = &mut self.links[client]
            && self.queued[client].load(Ordering::Relaxed) <= QUEUED_BYTES_MAX / 2
        {
            link.resume(&self.ready, client as u64);
        }
    }

    /// Starts as many clients as may be started at once.
    fn start_pending(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let is_starting = |link: &&Link| link.is_open() && !link.has_received_hello();
        let mut starting = self.links.iter().flatten().filter(is_starting).count();
        while starting < self.concurrent_starts_max
            && let Some((index, peer)) = self.waiting.pop_front()
        {
            let program = match &peer {
                Peer::Local(command) | Peer::Launched(command) => command.get_program(),
                Peer::Rank(_) => "its rank".as_ref(),
            };
            let program = program.to_string_lossy().into_owned();
            let copy = self.copy.clone().filter(|_| matches!(peer, Peer::Launched(_)));
            match Link::start(peer, &self.hello, copy, self.clock.now()) {
                Ok(link) => {
                    // A channel that the kernel does not watch shows as a silent one.
                    let _ = link.watch(&self.ready, index as u64);
                    self.links[index] = Some(link);
                    starting += 1;
                }
                Err(error) => {
                    let why = format!("{program} cannot be started: {error}");
                    queue(&self.events, &self.queued, index, Event::Lost(why), EVENT_BYTES);
                }
            }
        }
    }

    /// Waits until something arrives, at most for this time. Adds the clients whose channels are ready.
    fn wait(&mut self, ready: &mut Vec<usize>, time: Duration) {
        let time = Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 };
        let mut found = Vec::with_capacity(READY_MAX);
        let _ = epoll::wait(&self.ready, rustix::buffer::spare_capacity(&mut found), Some(&time));
        ready.extend(
            found
                .iter()
                .map(|event| event.data.u64())
                .filter(|key| *key != ORDERS_KEY)
                .map(|key| key as usize),
        );
        // Each channel has three streams.
        ready.sort_unstable();
        ready.dedup();
        let mut bytes = [0; 256];
        while self.wake_reader.read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }

    fn execute(&mut self, order: Order) {
        let client = match order {
            Order::TestRunning(is_test_running) => {
                self.is_test_running = is_test_running;
                // Nobody was asked for a sign of life meanwhile.
                let now = self.clock.now();
                return self.links.iter_mut().flatten().for_each(|link| link.mark_received(now));
            }
            Order::ShortenDeadlines(limit) => {
                let now = self.clock.now();
                return self.links.iter_mut().flatten().for_each(|link| link.shorten_deadlines(limit, now));
            }
            Order::Send(client, _)
            | Order::AskTime(client, _)
            | Order::Expect(client, _)
            | Order::Deadline(client, _)
            | Order::Close(client) => client,
        };
        let is_test_running = self.is_test_running;
        self.with(client, |link, events, now| match order {
            Order::Send(_, frame) => link.send(&frame, now),
            Order::AskTime(_, round_trips) => link.ask_time(round_trips, now),
            Order::Expect(_, limit) => {
                link.expect(limit, now);
                // The time of all answers may be over. The next one must not come before that shows.
                link.check(is_test_running, events, now);
            }
            Order::Deadline(_, limit) => link.within(limit, now),
            Order::Close(_) => link.close(),
            Order::TestRunning(_) | Order::ShortenDeadlines(_) => {}
        });
    }

    /// Closes all channels, and waits until the processes have ended.
    fn end(&mut self) {
        self.links.iter_mut().flatten().for_each(Link::close);
        let started = Instant::now();
        while self.links.iter_mut().flatten().any(|link| !link.has_exited()) {
            if started.elapsed() > EXIT_TIMEOUT {
                let still =
                    self.links.iter_mut().flatten().filter_map(|link| (!link.has_exited()).then_some(link));
                return still.for_each(Link::give_up);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Adds an event to those that wait to be taken.
fn queue(events: &Sender<Queued>, queued: &[AtomicUsize], client: usize, event: Event, bytes: usize) {
    queued[client].fetch_add(bytes, Ordering::Relaxed);
    let _ = events.send(Queued { client, event, bytes });
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::channel;

    /// Longest time of a test.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Returns a hub with one client, of this machine or behind a launcher, which says hello and then runs a script.
    fn hub(script: &str, is_local: bool) -> Hub {
        let framed =
            |frame: Vec<u8>| -> String { frame.iter().map(|byte| format!("\\{byte:03o}")).collect() };
        let hello = Hello::new("0", "s");
        let beat = framed(channel::encode(&ToAgent::Beat {}).unwrap());
        let greeting = framed(channel::encode(&hello).unwrap());
        let script = format!("beat='{beat}'; printf '{greeting}'; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let peer = if is_local { Peer::Local(command) } else { Peer::Launched(command) };
        Hub::start(vec![peer], 1, &hello, None).unwrap()
    }

    /// Returns the reason for which the client is lost.
    #[track_caller]
    fn loss(hub: &mut Hub) -> String {
        let started = Instant::now();
        while started.elapsed() < DEADLINE {
            if let Some((_, Event::Lost(why))) = hub.next(POLL_INTERVAL) {
                return why;
            }
        }
        panic!("the wait does not end");
    }

    #[track_caller]
    fn wait_for_greeting(hub: &mut Hub) {
        let started = Instant::now();
        while !matches!(hub.next(POLL_INTERVAL), Some((_, Event::Hello(_)))) {
            assert!(started.elapsed() < DEADLINE, "the client does not say hello");
        }
    }

    #[test]
    fn overdue_answers_make_clients_lost() {
        let beats = "while printf \"$beat\"; do sleep 0.05; done 2>/dev/null";
        let bytes = "printf '\\000\\000\\001\\000'; while printf x; do sleep 0.05; done 2>/dev/null";
        for script in [beats, bytes, "cat >/dev/null; :"] {
            for is_local in [false, true] {
                let mut hub = hub(script, is_local);
                wait_for_greeting(&mut hub);
                hub.expect(0, Some(DEADLINE));
                hub.shorten_deadlines(Duration::from_millis(300));
                assert_eq!(loss(&mut hub), "it did not respond within 0 s", "{script}");
            }
        }
    }

    #[test]
    fn client_without_pending_answer_is_not_lost() {
        let mut hub = hub("while printf \"$beat\"; do sleep 0.05; done 2>/dev/null", false);
        wait_for_greeting(&mut hub);
        hub.expect(0, Some(Duration::from_millis(300)));
        hub.expect(0, None);
        hub.shorten_deadlines(Duration::ZERO);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(1) {
            let event = hub.next(POLL_INTERVAL);
            assert!(event.is_none(), "{event:?}");
        }
    }

    #[test]
    fn timely_answers_do_not_extend_a_fixed_deadline() {
        let mut hub = hub("while printf \"$beat\"; do sleep 0.05; done 2>/dev/null", false);
        wait_for_greeting(&mut hub);
        hub.within(0, Some(Duration::from_millis(300)));
        let started = Instant::now();
        let why = loop {
            assert!(started.elapsed() < DEADLINE, "the wait does not end");
            // Each answer is there at once, and the next one is owed.
            hub.expect(0, Some(DEADLINE));
            hub.expect(0, None);
            match hub.next(Duration::from_millis(1)) {
                Some((_, Event::Lost(why))) => break why,
                event => assert!(event.is_none(), "{event:?}"),
            }
        };
        assert_eq!(why, "it did not respond within 0 s");
    }

    #[test]
    fn signal_shortens_deadline_of_later_answer() {
        let mut hub = hub("while printf \"$beat\"; do sleep 0.05; done 2>/dev/null", false);
        wait_for_greeting(&mut hub);
        hub.within(0, Some(DEADLINE));
        hub.expect(0, None);
        hub.shorten_deadlines(Duration::from_millis(300));
        hub.expect(0, Some(DEADLINE));
        assert_eq!(loss(&mut hub), "it did not respond within 0 s");
    }

    #[test]
    fn full_frame_queue_pauses_reading_from_client() {
        let frame = r#"\000\000\000\014{"ready":{}}"#.repeat(100);
        // A write of the shell ends once the pipe has room for it.
        let script = format!("more='{frame}'; while printf \"$more\"; do :; done 2>/dev/null");
        let mut hub = hub(&script, false);
        wait_for_greeting(&mut hub);
        let queued = |hub: &Hub| hub.queued[0].load(Ordering::Relaxed);
        // The thread counts the frames of one read after each other, and may lose its CPU between two of them.
        let (started, mut full, mut stable_polls) = (Instant::now(), 0, 0);
        while full <= QUEUED_BYTES_MAX || stable_polls < 5 {
            assert!(started.elapsed() < DEADLINE, "{full} bytes are queued, and more arrive");
            std::thread::sleep(POLL_INTERVAL);
            let bytes = queued(&hub);
            stable_polls = if bytes == full { stable_polls + 1 } else { 0 };
            full = bytes;
        }
        // All go on, once they are taken.
        for _ in 0..3 * full / EVENT_BYTES {
            let event = hub.next(DEADLINE);
            assert!(matches!(event, Some((0, Event::Frame(_)))), "{event:?}");
        }
    }

    #[test]
    fn lines_over_the_buffer_limit_are_dropped_and_counted() {
        let lines = 5000;
        let mut hub =
            hub(&format!("seq -f 'line %g of many that a client says' {lines} >&2; cat >/dev/null"), false);
        let (started, mut taken, mut bytes, mut omitted_lines) = (Instant::now(), 0, 0, 0);
        while taken + omitted_lines < lines {
            assert!(started.elapsed() < DEADLINE, "{taken} lines arrive, and {omitted_lines} are left out");
            match hub.next(POLL_INTERVAL) {
                Some((_, Event::Line(line))) => (taken, bytes) = (taken + 1, bytes + line.len()),
                Some((_, Event::OmittedLines(count))) => omitted_lines += count,
                event => assert!(matches!(event, None | Some((_, Event::Hello(_)))), "{event:?}"),
            }
        }
        assert!(taken > 100 && bytes <= 16 << 10, "{taken} lines with {bytes} bytes arrive");
    }

    #[test]
    fn exited_process_is_lost_despite_open_channel() {
        // The child of the process has the channel, and says nothing.
        let mut hub = hub("exec 3<&0; { cat >/dev/null; :; } <&3 & exit 0", true);
        assert_eq!(loss(&mut hub), "its process has ended");
    }
}
