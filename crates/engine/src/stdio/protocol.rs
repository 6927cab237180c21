//! Messages between a run and the process that makes its calls of the C library. They are lines of JSON over a pair of
//! sockets. Each [`Command::Span`] comes with its open file.
//!
//! ```text
//! run      Span    once for each, with the file
//!          Job     all the rest
//! process  Ready   or Error
//! run      Start   on CLOCK_MONOTONIC, which both share
//! process  Delta   once an interval
//! run      Stop    if at all
//! process  End     once all is flushed
//! ```

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bytes::Span;
use crate::data::Content;
use crate::sample::Sample;
use crate::worker::WorkerResult;

/// The task of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// True if the process writes; else it reads.
    pub is_write: bool,
    /// `putc_unlocked` and `getc_unlocked` instead of `putc` and `getc`.
    pub is_unlocked: bool,
    /// True to run beside a second, sleeping thread: the C library takes no locks in a process of one thread.
    pub has_second_thread: bool,
    /// Size of the stream's buffer; `None` means the C library's choice.
    pub buffer_bytes: Option<u64>,
    /// Content of the files, and the seed of their stamps.
    pub content: Content,
    /// Number of the group's first file in stamps.
    pub first_file: u32,
    /// Number of tests that wrote the data set before.
    pub generation: u32,
    /// Comparison of the data read, if any.
    pub verify: Option<Verify>,
    /// Most bytes to move; `u64::MAX` means no limit.
    pub ops: u64,
}

/// Selection of the pieces to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// Choice of the pieces.
    pub sample: Sample,
    /// Generations that a piece may have.
    pub generations: RangeInclusive<u32>,
}

/// A message to the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A part of a file; the file comes with the message.
    Span(Span),
    /// The rest of the task; the process only prepares.
    Job(Box<Job>),
    /// Measures from `start_ns` until `deadline_ns`.
    Start {
        /// Common start of all processes.
        start_ns: u64,
        /// No operation starts after this instant.
        deadline_ns: u64,
    },
    /// Ends the measurement.
    Stop,
}

/// A message from the process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// Everything is ready.
    Ready,
    /// Counts of an interval.
    Delta(Counts),
    /// The measurement is done.
    End(WorkerResult),
    /// The error that kept the process from getting ready.
    Error(String),
}

/// Counts between two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Start of the interval.
    pub start_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// Bytes moved, each as one operation.
    pub ops: u64,
    /// Pieces compared.
    pub verified: u64,
    /// Longest time of [`CHUNK_CALLS`](crate::bytes::CHUNK_CALLS) calls in a row; 0 if none was timed.
    pub slowest_chunk_ns: u64,
}

/// Parses a line.
///
/// # Errors
/// The line is no such message.
pub fn parse<M: DeserializeOwned>(line: &str) -> io::Result<M> {
    serde_json::from_str(line).map_err(|_| invalid_message(line))
}

/// Error for a line that is no message, or none for its time.
pub(super) fn invalid_message(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` is unexpected here"))
}

/// One end of the pair of sockets. It receives whole lines, and files in the order in which they were sent.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
    received: Vec<u8>,
    files: VecDeque<OwnedFd>,
}

impl Channel {
    /// A channel over one end.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, received: Vec::with_capacity(4096), files: VecDeque::new() }
    }

    /// Sets the timeout of [`Channel::wait`] and [`Channel::send`].
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket.set_write_timeout(Some(timeout))?;
        self.socket.set_read_timeout(Some(timeout))
    }

    /// Sends a message as a line, and the file with it if there is one.
    ///
    /// # Errors
    /// The error of the call: `EPIPE` if the other end is closed.
    pub fn send(&self, message: &impl Serialize, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let files = file.as_slice();
        let mut left = line.as_bytes();
        while !left.is_empty() {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if left.len() == line.len() && !files.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(files));
            }
            // Without a signal: a lost peer must not look like a lost reader of stdout.
            match sendmsg(&self.socket, &[IoSlice::new(left)], &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Returns the next line, as soon as there is one; `None` if the other end is closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the timeout, or the error of the call.
    pub fn wait(&mut self) -> io::Result<Option<String>> {
        self.line(RecvFlags::empty())
    }

    /// Same as [`Channel::wait`], but never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no line yet, or the error of the call.
    pub fn poll(&mut self) -> io::Result<Option<String>> {
        self.line(RecvFlags::DONTWAIT)
    }

    /// Returns the first file in the order of sending that was not taken yet.
    pub fn file(&mut self) -> Option<OwnedFd> {
        self.files.pop_front()
    }

    fn line(&mut self, flags: RecvFlags) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.drain(..=end).collect::<Vec<_>>();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            if self.receive(flags)? == 0 {
                return Ok(None);
            }
        }
    }

    fn receive(&mut self, flags: RecvFlags) -> io::Result<usize> {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let got = loop {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(self.socket.as_fd(), into, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                // The other end died with lines unread.
                Err(Errno::CONNRESET) => return Ok(0),
                result => break result?.bytes,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        self.received.extend_from_slice(&bytes[..got]);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    use crate::data::{Mismatch, Stamp};
    use crate::failure::{CALLS, Cause, Failure};

    /// Sends a message through its text.
    fn read_back<M: Serialize + DeserializeOwned>(message: &M) -> M {
        parse(&serde_json::to_string(message).unwrap()).unwrap()
    }

    #[test]
    fn valid_lines_round_trip_and_malformed_are_refused() {
        let content =
            Content { seed: u64::MAX, interval_bytes: 512, compress_percent: 30, dedupe_percent: 1 };
        let job = Job {
            is_write: true,
            is_unlocked: false,
            has_second_thread: false,
            buffer_bytes: None,
            content,
            first_file: 1 << 16,
            generation: 3,
            verify: None,
            ops: u64::MAX,
        };
        let verify = Some(Verify { sample: Sample { every: 16, seed: 3 }, generations: 2..=3 });
        let other = Job {
            is_write: false,
            is_unlocked: true,
            has_second_thread: true,
            buffer_bytes: Some(1),
            verify,
            ..job.clone()
        };
        for command in [
            Command::Span(Span { file: 1, start_bytes: 2, end_bytes: u64::MAX }),
            Command::Job(Box::new(job)),
            Command::Job(Box::new(other)),
            Command::Start { start_ns: 1, deadline_ns: u64::MAX },
            Command::Stop,
        ] {
            assert_eq!(read_back(&command), command);
        }
        let stamp = Stamp { seed: 1, file: 2, generation: 3, offset_bytes: 4, phase_bytes: 5 };
        let mismatch = |belongs_to| {
            let (expected, found) = ([1, 2, 3, 4, 5, 6, 7, 255], [0; 8]);
            Cause::Mismatch(Mismatch { offset_bytes: 77, expected, found, belongs_to, zeros_bytes: 7 })
        };
        for (offset_bytes, cause) in [
            (None, Errno::NOSPC.into()),
            (Some(5), Cause::Short { got_bytes: 0, wanted_bytes: 1 }),
            (None, Cause::Names { came: 98, files: 100 }),
            (Some(6), mismatch(None)),
            (Some(7), mismatch(Some(stamp))),
        ] {
            for call in CALLS {
                let failure = Failure { call, file: 9, offset_bytes, cause };
                let ended = WorkerResult { end_ns: 8, result: Err(failure), is_covered: true, missed: 0 };
                let Report::End(read) = read_back(&Report::End(ended)) else { panic!("{failure:?}") };
                assert_eq!((read.end_ns, read.is_covered, read.result), (8, true, Err(failure)));
            }
        }
        let counts = Counts { start_ns: 1, end_ns: 2, ops: 3, verified: 4, slowest_chunk_ns: 5 };
        assert!(matches!(read_back(&Report::Delta(counts)), Report::Delta(read) if read == counts));
        let text = "a\nb c";
        assert!(matches!(read_back(&Report::Error(text.into())), Report::Error(read) if read == text));
        let unknown = r#"{"Err":{"call":"dance","file":1,"offset_bytes":1,"cause":{"Errno":2}}}"#;
        let unknown = format!(r#"{{"End":{{"end_ns":1,"is_covered":true,"missed":0,"result":{unknown}}}}}"#);
        let below = r#"{"Delta":{"start_ns":1,"end_ns":2,"ops":-3,"verified":4,"slowest_chunk_ns":5}}"#;
        for line in ["", "run", r#"{"End":1}"#, r#"{"End":{"end_ns":1}}"#, unknown.as_str(), below] {
            assert!(parse::<Report>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn passed_descriptors_arrive_in_send_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (ours, mut theirs) = (Channel::new(ours), Channel::new(theirs));
        for number in 0..30 {
            let mut file = tempfile::tempfile().unwrap();
            write!(file, "{number}").unwrap();
            ours.send(&number, Some(file.as_fd())).unwrap();
            if number % 3 == 0 {
                ours.send(&(), None).unwrap();
            }
        }
        let mut lines = 0;
        while let Ok(Some(line)) = theirs.poll() {
            lines += 1;
            if line != "null" {
                let mut file = std::fs::File::from(theirs.file().unwrap());
                let mut text = String::new();
                file.rewind().unwrap();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, line);
            }
        }
        assert_eq!(lines, 40);
        assert_eq!(theirs.poll().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        theirs.set_timeout(Duration::from_millis(1)).unwrap();
        assert_eq!(theirs.wait().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(ours);
        assert_eq!(theirs.wait().unwrap(), None);
        assert!(theirs.send(&"anyone there?", None).is_err());
    }
}
