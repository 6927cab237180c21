//! One channel to a client: the process that was started or the rank of a job, and the bytes in both directions.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::frames::{FromAgent, Hello, ToAgent};
use model::run::ClockRecord;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::agent::now_ns;
use crate::channel::{self, DIGITS_MAX, FrameReader, Malformed};
use crate::clock::{self, RoundTrip};
use crate::send::Copy;
use crate::texts::{self, Room};
use crate::waiting::{self, HELLO_TIMEOUT, SILENCE_TIMEOUT};

/// Time that a rank has for an answer after an interruption. Launchers kill all ranks about a second after they asked them
/// to end, and what was measured is saved by then.
const INTERRUPT_ANSWER_TIMEOUT: Duration = Duration::from_millis(300);
/// Reason for the loss of a rank that gives none.
pub const NO_ANSWER: &str = "its rank does not respond; the launcher may have ended it";
/// Longest line of a client's standard error that is kept.
const LINE_BYTES_MAX: usize = 2000;
/// Time that the last line of a client may take to arrive after its channel has ended.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(30);
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 16;
/// Most bytes that wait to be sent. All frames to a client are small.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// Event on a channel.
#[derive(Debug)]
pub enum Event {
    /// Its first frame.
    Hello(Hello),
    /// A frame.
    Frame(FromAgent),
    /// A measurement of its clock has ended.
    Clock(ClockRecord),
    /// A line of its standard error, as it is printed.
    Line(String),
    /// Number of more lines, for which there is no room.
    OmittedLines(u64),
    /// It is lost, for this reason.
    Lost(String),
}

/// Other end of a channel.
pub enum Peer {
    /// A process to start on this machine, which needs no launcher.
    Local(Command),
    /// A launcher to start.
    Launched(Command),
    /// Another rank of the job.
    Rank(UnixStream),
}

/// Returns the time that all threads of a process have spent waiting for a CPU. Any of them may owe the answer.
fn cpu_wait(process: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let of_thread = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let ns = threads.flatten().filter_map(of_thread).fold(0, u64::saturating_add);
    Some(Duration::from_nanos(ns))
}

/// A channel to a client.
pub struct Link {
    /// The process that was started; `None` for a rank.
    child: Option<Child>,
    to: Option<File>,
    from: Option<File>,
    /// Its standard error. A rank's goes to its launcher.
    errors: Option<File>,
    frames: FrameReader,
    /// Output of a shell before the first frame.
    greeting: String,
    pending: Vec<u8>,
    /// The program for a host that may want it.
    copy: Option<Copy>,
    /// The program on its way, and the bytes of it that were sent.
    program: Option<(Arc<[u8]>, usize)>,
    /// Bytes that follow the program.
    pending_after_program: Vec<u8>,
    hello: Hello,
    line: Vec<u8>,
    room: Room,
    has_received_hello: bool,
    /// Time of the last byte; before the first, of the start. All times are those of the thread that waits.
    last_received: Duration,
    /// Time by which its answer is due, and the limit that this time is the end of; `None` if it owes none.
    due: Option<(Duration, Duration)>,
    /// The same for all its answers: no answer is due later.
    last_due: Option<(Duration, Duration)>,
    /// Bytes of its frames since they were last counted.
    bytes: usize,
    /// True while it is not read.
    is_held: bool,
    /// Time that the process had spent waiting for a CPU when an answer was last overdue.
    cpu_wait: Duration,
    round_trips: Vec<RoundTrip>,
    round_trips_min: u32,
    sent_ns: u64,
    /// True if the process runs on this machine and not behind a launcher.
    is_local: bool,
    /// Descriptor of a process of this machine, which is ready once that has ended.
    process: Option<OwnedFd>,
    /// Time until which a rank must show that its launcher has not ended it.
    answer_by: Option<Duration>,
}

impl Link {
    /// Starts a process where one is wanted, and speaks the first word.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(peer: Peer, hello: &Hello, copy: Option<Copy>, now: Duration) -> io::Result<Self> {
        let is_local = matches!(peer, Peer::Local(_));
        let (child, to, from, errors) = match peer {
            Peer::Local(mut command) | Peer::Launched(mut command) => {
                let mut child = command.spawn()?;
                let (to, from) = (child.stdin.take().map(Into::into), child.stdout.take().map(Into::into));
                let errors = child.stderr.take().map(Into::into);
                (Some(child), to, from, errors)
            }
            Peer::Rank(stream) => (None, Some(stream.try_clone()?.into()), Some(stream.into()), None),
        };
        // Without it, the end of its channel shows the end of a process.
        let process = child
            .as_ref()
            .filter(|_| is_local)
            .and_then(|child| pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok());
        // A shell between may print something before skye starts.
        let frames = match child.is_some() && !is_local {
            true => FrameReader::after_greeting(),
            false => FrameReader::default(),
        };
        let file = |end: Option<OwnedFd>| end.map(File::from);
        let (to, from, errors) = (file(to), file(from), file(errors));
        for stream in [&to, &from, &errors].into_iter().flatten() {
            rustix::io::ioctl_fionbio(stream, true)?;
        }
        let mut link = Self {
            child,
            to,
            from,
            errors,
            frames,
            greeting: String::new(),
            pending: Vec::new(),
            copy,
            program: None,
            pending_after_program: Vec::new(),
            hello: hello.clone(),
            line: Vec::new(),
            room: Room::default(),
            has_received_hello: false,
            last_received: now,
            due: Some((now + HELLO_TIMEOUT, HELLO_TIMEOUT)),
            last_due: None,
            bytes: 0,
            is_held: false,
            cpu_wait: Duration::ZERO,
            round_trips: Vec::new(),
            round_trips_min: 0,
            sent_ns: 0,
            is_local,
            process,
            answer_by: None,
        };
        link.pending.extend(channel::encode(hello).unwrap_or_default());
        link.flush();
        Ok(link)
    }

    /// Returns true once it has spoken its first word.
    pub fn has_received_hello(&self) -> bool {
        self.has_received_hello
    }

    /// Returns true until it is lost or closed.
    pub fn is_open(&self) -> bool {
        self.from.is_some()
    }

    /// Lets a set of the kernel name this channel by a key when something arrives, or when there is room to send again.
    ///
    /// # Errors
    /// The kernel has no room for it.
    pub fn watch(&self, set: &OwnedFd, key: u64) -> io::Result<()> {
        // Room is named once, each time there is some again: nearly always nothing waits for it.
        let room = EventFlags::OUT | EventFlags::ET;
        let others = [(&self.errors, EventFlags::IN), (&self.to, room)];
        let others = others.into_iter().filter_map(|(stream, flags)| Some((stream.as_ref()?.as_fd(), flags)));
        let incoming = self.incoming().map(|stream| (stream, EventFlags::IN));
        for (stream, flags) in incoming.chain(others) {
            epoll::add(set, stream, EventData::new_u64(key), flags)?;
        }
        Ok(())
    }

    /// Sends a heartbeat. Requests one from a rank instead, except during a test: no message crosses then.
    pub fn beat(&mut self, is_test_running: bool, now: Duration) {
        match self.is_rank() {
            _ if !self.has_received_hello => {}
            false => self.send(&ToAgent::Beat {}, now),
            true if is_test_running => {}
            true => self.send(&ToAgent::Ping { number: u32::MAX }, now),
        }
    }

    /// Takes this moment for the last at which the client was heard.
    pub fn mark_received(&mut self, now: Duration) {
        self.last_received = now;
    }

    /// Waits this long for the answer that the client owes; no more for `None`.
    pub fn expect(&mut self, limit: Option<Duration>, now: Duration) {
        let due = limit.map(|limit| (now + limit, limit));
        self.due = due.map(|due| self.last_due.map_or(due, |last| due.min(last)));
    }

    /// Sets a deadline, after `limit`, for all further answers, however many there are; no deadline for `None`.
    pub fn within(&mut self, limit: Option<Duration>, now: Duration) {
        self.last_due = limit.map(|limit| (now + limit, limit));
    }

    /// Waits at most this long for the answer, if the client owes one, and for those that follow.
    pub fn shorten_deadlines(&mut self, limit: Duration, now: Duration) {
        for due in [&mut self.due, &mut self.last_due].into_iter().flatten() {
            *due = (*due).min((now + limit, limit));
        }
    }

    /// Reads no more, until [`Link::resume`].
    pub fn hold(&mut self, set: &OwnedFd) {
        self.is_held = true;
        // Its end would be named again and again.
        for stream in self.incoming() {
            let _ = epoll::delete(set, stream);
        }
    }

    /// Reads again, if it has not.
    pub fn resume(&mut self, set: &OwnedFd, key: u64) {
        if std::mem::replace(&mut self.is_held, false) {
            for stream in self.incoming() {
                let _ = epoll::add(set, stream, EventData::new_u64(key), EventFlags::IN);
            }
        }
    }

    /// Returns the descriptors that are ready once something arrives from the client, or its process ends.
    fn incoming(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.from.iter().map(File::as_fd).chain(self.process.iter().map(OwnedFd::as_fd))
    }

    /// Returns the bytes of its frames since the last call.
    pub fn take_bytes(&mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }

    fn is_rank(&self) -> bool {
        self.child.is_none()
    }

    /// Adds a frame to those that wait to be sent, and sends what it can.
    pub fn send(&mut self, frame: &ToAgent, now: Duration) {
        // The signal that interrupts may be the launcher's, which has lost a rank and ends them all.
        if self.is_rank() && *frame == (ToAgent::Interrupt {}) {
            self.answer_by.get_or_insert(now + INTERRUPT_ANSWER_TIMEOUT);
            self.send(&ToAgent::Ping { number: u32::MAX }, now);
        }
        let queue = if self.program.is_some() { &mut self.pending_after_program } else { &mut self.pending };
        if queue.len() < PENDING_BYTES_MAX {
            queue.extend(channel::encode(frame).unwrap_or_default());
        }
        self.flush();
    }

    /// Sends what it can.
    pub fn flush(&mut self) {
        let Some(to) = &mut self.to else { return };
        loop {
            let is_before = !self.pending.is_empty();
            let next = match &self.program {
                Some((program, sent)) if !is_before => &program[*sent..],
                _ => &self.pending[..],
            };
            if next.is_empty() {
                // What waits behind the program comes next.
                if self.program.take().is_none() {
                    return;
                }
                self.pending = std::mem::take(&mut self.pending_after_program);
                continue;
            }
            match to.write(next) {
                Ok(count) => match &mut self.program {
                    Some((_, sent)) if !is_before => *sent += count,
                    _ => drop(self.pending.drain(..count)),
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The end of what it says tells why.
                Err(_) => {
                    self.to = None;
                    return;
                }
            }
        }
    }

    /// Begins to measure the client's clock.
    pub fn ask_time(&mut self, round_trips: u32, now: Duration) {
        self.round_trips.clear();
        self.round_trips_min = round_trips;
        self.ping(now);
    }

    fn ping(&mut self, now: Duration) {
        self.sent_ns = now_ns();
        self.send(&ToAgent::Ping { number: self.round_trips.len() as u32 }, now);
    }

    /// Takes all that has arrived.
    pub fn receive(&mut self, events: &mut Vec<Event>, now: Duration) {
        self.receive_lines(events);
        let Some(from) = self.from.as_mut().filter(|_| !self.is_held) else { return };
        let mut bytes = [0; READ_BYTES];
        let read = from.read(&mut bytes);
        let received_ns = now_ns();
        match read {
            Ok(0) => self.end(events, "its channel has ended"),
            Ok(count) => {
                self.last_received = now;
                self.answer_by = None;
                self.frames.push(&bytes[..count]);
                if let Err(Malformed(why)) = self.take_frames(received_ns, events, now) {
                    self.end(events, &format!("invalid frame: {why}"));
                }
            }
            // Another process may have its end of the channel.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if self.process.is_some() && self.has_exited() {
                    self.end(events, "its process has ended");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.end(events, &format!("its channel has failed: {error}")),
        }
    }

    fn take_frames(
        &mut self,
        received_ns: u64,
        events: &mut Vec<Event>,
        now: Duration,
    ) -> Result<(), Malformed> {
        if self.frames.is_before_start() {
            let Some(greeting) = self.frames.find_start()? else { return Ok(()) };
            self.greeting = greeting;
        }
        loop {
            let Some(document) = self.frames.next()? else { return Ok(()) };
            self.bytes += document.len();
            if !self.has_received_hello {
                if let (Some(copy), Ok(request)) = (self.copy.take(), channel::decode(&document, DIGITS_MAX))
                {
                    let program = copy.program_for(&request).map_err(Malformed)?;
                    self.expect(Some(HELLO_TIMEOUT + waiting::transfer_time(program.len() as u64)), now);
                    self.program = Some((program, 0));
                    // The host has skipped the first one.
                    self.pending_after_program.extend(channel::encode(&self.hello).unwrap_or_default());
                    self.flush();
                    continue;
                }
                events.push(Event::Hello(channel::decode(&document, DIGITS_MAX)?));
                self.has_received_hello = true;
                if !self.greeting.is_empty() {
                    let greeting = std::mem::take(&mut self.greeting);
                    events.push(Event::Line(format!("its shell printed `{greeting}`")));
                }
                // It names its machine next.
                self.expect(Some(waiting::answer()), now);
                continue;
            }
            match channel::decode(&document, DIGITS_MAX)? {
                FromAgent::Beat {} => {}
                FromAgent::Pong { number, at_ns } => {
                    if number as usize != self.round_trips.len() || self.round_trips_min == 0 {
                        continue;
                    }
                    self.round_trips.push(RoundTrip { sent_ns: self.sent_ns, remote_ns: at_ns, received_ns });
                    if self.round_trips.len() < self.round_trips_min as usize {
                        self.ping(now);
                    } else {
                        self.round_trips_min = 0;
                        events.extend(clock::offset(&self.round_trips).map(Event::Clock));
                    }
                }
                frame => events.push(Event::Frame(frame)),
            }
        }
    }

    fn receive_lines(&mut self, events: &mut Vec<Event>) {
        let Some(errors) = &mut self.errors else { return };
        let mut bytes = [0; LINE_BYTES_MAX];
        match errors.read(&mut bytes) {
            Ok(0) => self.errors = None,
            Ok(count) => {
                for byte in &bytes[..count] {
                    match byte {
                        b'\n' => self.end_line(events),
                        _ if self.line.len() < LINE_BYTES_MAX => self.line.push(*byte),
                        _ => {}
                    }
                }
                return;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return;
            }
            Err(_) => self.errors = None,
        }
        self.end_line(events);
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        self.line.clear();
        if !line.is_empty() {
            events.extend(self.room.line(&line).map(Event::Line));
        }
    }

    /// Counts the lines for which there was no room.
    fn report_omitted_lines(&mut self, events: &mut Vec<Event>) {
        let omitted_lines = self.room.take_omitted_lines();
        events.extend((omitted_lines > 0).then_some(Event::OmittedLines(omitted_lines)));
    }

    /// Notices that an answer is overdue, or that the client has been silent for too long.
    pub fn check(&mut self, is_test_running: bool, events: &mut Vec<Event>, now: Duration) {
        self.report_omitted_lines(events);
        if self.is_held {
            self.last_received = now;
        }
        let silent = now.saturating_sub(self.last_received);
        let is_silent = silent > SILENCE_TIMEOUT;
        let is_late = self.answer_by.is_some_and(|until| now > until);
        let overdue = self.due.filter(|(due, _)| now > *due).filter(|_| !self.has_more_time(now));
        let why = match overdue {
            _ if !self.is_open() => None,
            Some((_, limit)) => Some(format!("it did not respond within {} s", limit.as_secs())),
            _ if !self.has_received_hello => None,
            _ if self.is_rank() => (is_late || (is_silent && !is_test_running)).then(|| NO_ANSWER.to_owned()),
            // A process of this machine that is silent may wait for a CPU. Only one that was stopped does not go on.
            _ if self.is_local => {
                (is_silent && self.is_stopped()).then(|| "its process is stopped".to_owned())
            }
            _ => is_silent.then(|| format!("it has sent nothing for {:.1} s", silent.as_secs_f64())),
        };
        if let Some(why) = why {
            self.end(events, &why);
        }
    }

    /// Adds the time that a process of this machine has spent waiting for a CPU to its limit. Returns true if some is left.
    fn has_more_time(&mut self, now: Duration) -> bool {
        let child = self.child.as_ref().filter(|_| self.is_local);
        let cpu_wait = child.and_then(|child| cpu_wait(child.id())).unwrap_or(self.cpu_wait);
        let more = cpu_wait.saturating_sub(std::mem::replace(&mut self.cpu_wait, cpu_wait));
        for (due, _) in [&mut self.due, &mut self.last_due].into_iter().flatten() {
            *due += more;
        }
        self.due.is_none_or(|(due, _)| due >= now)
    }

    /// Returns true if a process of this machine was stopped by a signal.
    fn is_stopped(&self) -> bool {
        let child = self.child.as_ref().filter(|_| self.is_local);
        let stat = child.and_then(|child| std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok());
        let stat = stat.unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    fn end(&mut self, events: &mut Vec<Event>, why: &str) {
        // What it said last may be the reason, and comes on a stream of its own.
        let started = Instant::now();
        while self.errors.is_some() && started.elapsed() < STDERR_DRAIN_TIMEOUT {
            self.receive_lines(events);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end_line(events);
        self.report_omitted_lines(events);
        self.close();
        let greeting =
            Some(&self.frames).filter(|frames| frames.is_before_start()).map(FrameReader::greeting);
        events.push(Event::Lost(match greeting.filter(|greeting| !greeting.is_empty()) {
            None => texts::short(why),
            Some(greeting) => texts::short(&format!(
                "{why}, and its shell printed `{greeting}` before skye started; disable that output"
            )),
        }));
    }

    /// Closes the channel. The agent then removes its files and ends, once it runs.
    pub fn close(&mut self) {
        self.flush();
        (self.to, self.from, self.errors, self.process) = (None, None, None, None);
    }

    /// Returns true once the process has ended. That of a rank is its launcher's.
    pub fn has_exited(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Ends a launcher that has not ended by itself. An agent on this machine is left alone: it has files to remove.
    pub fn give_up(&mut self) {
        if let Some(child) = self.child.as_mut().filter(|_| !self.is_local) {
            // One that is in a call of the kernel ends when that returns.
            let _ = child.kill();
            let _ = child.try_wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn cpu_wait_covers_all_threads_of_a_process() {
        let started = Instant::now();
        let delay_ns = |path: &str| -> u64 {
            let text = std::fs::read_to_string(path).unwrap();
            text.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        // More threads than CPUs, until one has waited for longer than the first thread of the process. The others
        // end with it: those that are left may have a CPU each.
        let has_waited = AtomicBool::new(false);
        let count = 1 + std::thread::available_parallelism().unwrap().get();
        std::thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(|| {
                    while !has_waited.load(Ordering::Relaxed) {
                        let own_ns = delay_ns("/proc/thread-self/schedstat");
                        if own_ns > delay_ns("/proc/self/schedstat") {
                            has_waited.store(true, Ordering::Relaxed);
                            assert!(cpu_wait(std::process::id()).unwrap() >= Duration::from_nanos(own_ns));
                        }
                        assert!(started.elapsed() < Duration::from_secs(60), "no thread waits for a CPU");
                    }
                });
            }
        });
    }
}
