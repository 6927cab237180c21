//! Messages between a run and the process that makes its calls of the C library. They are lines of words over a pair of
//! sockets. Each line that names a file comes with the open file.
//!
//! ```text
//! run      span FILE START END            once for each, with the file
//!          job WORDS...                   all the rest
//! process  ready                          or: error TEXT
//! run      start START_NS DEADLINE_NS     on CLOCK_MONOTONIC, which both share
//! process  delta START END OPS VERIFIED CHUNK   once an interval
//! run      stop                           if at all
//! process  end END_NS COVERED WORDS...    once all is flushed
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::str::{FromStr, SplitAsciiWhitespace};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::bytes::Span;
use crate::data::{Content, Mismatch, Stamp};
use crate::failure::{Cause, Failure};
use crate::worker::Ended;

/// Calls that a failure may name.
const CALLS: [&str; 12] = [
    "putc",
    "putc_unlocked",
    "getc",
    "getc_unlocked",
    "fcntl",
    "fdopen",
    "setvbuf",
    "fseeko",
    "fflush",
    "fclose",
    "pwrite",
    "verify",
];

/// The task of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// True if the process writes; else it reads.
    pub writes: bool,
    /// `putc_unlocked` and `getc_unlocked` in place of `putc` and `getc`.
    pub unlocked: bool,
    /// True to run beside a second, sleeping thread: the C library takes no locks in a process of one thread.
    pub threaded: bool,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verify {
    /// One of this many pieces is compared; at least 1.
    pub every: u32,
    /// Generations that a piece may have.
    pub generations: RangeInclusive<u32>,
}

/// A message to the process.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug)]
pub enum Report {
    /// Everything is ready.
    Ready,
    /// Counts of an interval.
    Delta(Counts),
    /// The measurement is done.
    End(Ended),
    /// The error that kept the process from getting ready.
    Error(String),
}

/// Counts between two instants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// The words of a line, in turn.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.word()?.parse().ok()
    }

    /// Parses a number, or `-` for none.
    fn option<T: FromStr>(&mut self) -> Option<Option<T>> {
        match self.word()? {
            "-" => Some(None),
            word => word.parse().ok().map(Some),
        }
    }
}

/// Prints an optional number, or `-` for none.
struct OrDash<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(Span { file, start_bytes, end_bytes }) => {
                write!(f, "span {file} {start_bytes} {end_bytes}")
            }
            Self::Job(job) => {
                let Job {
                    writes,
                    unlocked,
                    threaded,
                    buffer_bytes,
                    content,
                    first_file,
                    generation,
                    verify,
                    ops,
                } = &**job;
                let Content { seed, interval_bytes, compress_percent, dedupe_percent } = content;
                write!(f, "job {writes} {unlocked} {threaded} {} ", OrDash(*buffer_bytes))?;
                write!(f, "{seed} {interval_bytes} {compress_percent} {dedupe_percent} ")?;
                write!(f, "{first_file} {generation} {ops}")?;
                match verify {
                    Some(Verify { every, generations }) => {
                        write!(f, " {every} {} {}", generations.start(), generations.end())
                    }
                    None => f.write_str(" -"),
                }
            }
            Self::Start { start_ns, deadline_ns } => write!(f, "start {start_ns} {deadline_ns}"),
            Self::Stop => f.write_str("stop"),
        }
    }
}

impl Command {
    /// Parses a line. Returns `None` if it is not a command.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line.split_ascii_whitespace());
        Some(match words.word()? {
            "span" => Self::Span(Span {
                file: words.number()?,
                start_bytes: words.number()?,
                end_bytes: words.number()?,
            }),
            // Fields are parsed in the order in which they appear here.
            "job" => Self::Job(Box::new(Job {
                writes: words.number()?,
                unlocked: words.number()?,
                threaded: words.number()?,
                buffer_bytes: words.option()?,
                content: Content {
                    seed: words.number()?,
                    interval_bytes: words.number().filter(|bytes| *bytes > 0)?,
                    compress_percent: words.number()?,
                    dedupe_percent: words.number()?,
                },
                first_file: words.number()?,
                generation: words.number()?,
                ops: words.number()?,
                verify: match words.option()? {
                    Some(every) => Some(Verify { every, generations: words.number()?..=words.number()? }),
                    None => None,
                },
            })),
            "start" => Self::Start { start_ns: words.number()?, deadline_ns: words.number()? },
            "stop" => Self::Stop,
            _ => return None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Delta(Counts { start_ns, end_ns, ops, verified, slowest_chunk_ns }) => {
                write!(f, "delta {start_ns} {end_ns} {ops} {verified} {slowest_chunk_ns}")
            }
            Self::End(Ended { end_ns, is_covered, result, .. }) => {
                write!(f, "end {end_ns} {is_covered} ")?;
                match result {
                    Ok(()) => f.write_str("done"),
                    Err(failure) => print_failure(failure, f),
                }
            }
            Self::Error(text) => write!(f, "error {}", text.replace('\n', " ")),
        }
    }
}

fn print_failure(failure: &Failure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Failure { call, file, offset_bytes, cause } = failure;
    write!(f, "{call} {file} {} ", OrDash(*offset_bytes))?;
    match cause {
        Cause::Errno(errno) => write!(f, "errno {}", errno.raw_os_error()),
        Cause::Short { got_bytes, wanted_bytes } => write!(f, "short {got_bytes} {wanted_bytes}"),
        Cause::Names { came, files } => write!(f, "names {came} {files}"),
        Cause::Mismatch(Mismatch { offset_bytes, expected, found, belongs_to, zeros_bytes }) => {
            let [expected, found] = [expected, found].map(|bytes| u64::from_le_bytes(*bytes));
            write!(f, "mismatch {offset_bytes} {expected} {found} {zeros_bytes} ")?;
            match belongs_to {
                Some(Stamp { seed, file, generation, offset_bytes, phase_bytes }) => {
                    write!(f, "{seed} {file} {generation} {offset_bytes} {phase_bytes}")
                }
                None => f.write_str("-"),
            }
        }
    }
}

impl Report {
    /// Parses a line. Returns `None` if it is not a report.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = Words(line.split_ascii_whitespace());
        Some(match words.word()? {
            "ready" => Self::Ready,
            "delta" => Self::Delta(Counts {
                start_ns: words.number()?,
                end_ns: words.number()?,
                ops: words.number()?,
                verified: words.number()?,
                slowest_chunk_ns: words.number()?,
            }),
            "end" => {
                let (end_ns, is_covered) = (words.number()?, words.number()?);
                let result = match words.word()? {
                    "done" => Ok(()),
                    call => Err(parse_failure(call, &mut words)?),
                };
                Self::End(Ended { end_ns, result, is_covered, missed: 0 })
            }
            "error" => Self::Error(line.strip_prefix("error ").unwrap_or_default().into()),
            _ => return None,
        })
    }
}

fn parse_failure(call: &str, words: &mut Words<'_>) -> Option<Failure> {
    let call = CALLS.into_iter().find(|known| *known == call)?;
    let (file, offset_bytes) = (words.number()?, words.option()?);
    let cause = match words.word()? {
        "errno" => Errno::from_raw_os_error(words.number()?).into(),
        "short" => Cause::Short { got_bytes: words.number()?, wanted_bytes: words.number()? },
        "names" => Cause::Names { came: words.number()?, files: words.number()? },
        "mismatch" => Cause::Mismatch(Mismatch {
            offset_bytes: words.number()?,
            expected: u64::to_le_bytes(words.number()?),
            found: u64::to_le_bytes(words.number()?),
            zeros_bytes: words.number()?,
            belongs_to: match words.option()? {
                Some(seed) => Some(Stamp {
                    seed,
                    file: words.number()?,
                    generation: words.number()?,
                    offset_bytes: words.number()?,
                    phase_bytes: words.number()?,
                }),
                None => None,
            },
        }),
        _ => return None,
    };
    Some(Failure { call, file, offset_bytes, cause })
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

    /// Sends a line, and the file with it if there is one.
    ///
    /// # Errors
    /// The error of the call: `EPIPE` if the other end is gone.
    pub fn send(&self, line: &impl fmt::Display, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let line = format!("{line}\n");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let files = file.as_slice();
        let mut left = line.as_bytes();
        while !left.is_empty() {
            let mut beside = SendAncillaryBuffer::new(&mut space);
            if left.len() == line.len() && !files.is_empty() {
                beside.push(SendAncillaryMessage::ScmRights(files));
            }
            // Without a signal: a lost peer must not look like a lost reader of stdout.
            match sendmsg(&self.socket, &[IoSlice::new(left)], &mut beside, SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Returns the next line, as soon as there is one; `None` if the other end is gone.
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
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let got = loop {
            let into = &mut [IoSliceMut::new(&mut bytes)];
            match recvmsg(self.socket.as_fd(), into, &mut beside, flags) {
                Err(Errno::INTR) => {}
                // The other end died with lines unread.
                Err(Errno::CONNRESET) => return Ok(0),
                result => break result?.bytes,
            }
        };
        for message in beside.drain() {
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

    #[test]
    fn lines_are_read_as_they_were_meant() {
        let content =
            Content { seed: u64::MAX, interval_bytes: 512, compress_percent: 30, dedupe_percent: 1 };
        let job = Job {
            writes: true,
            unlocked: false,
            threaded: false,
            buffer_bytes: None,
            content,
            first_file: 1 << 16,
            generation: 3,
            verify: None,
            ops: u64::MAX,
        };
        let verify = Some(Verify { every: 16, generations: 2..=3 });
        let other = Job {
            writes: false,
            unlocked: true,
            threaded: true,
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
            assert_eq!(Command::parse(&command.to_string()), Some(command));
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
                let ended = Ended { end_ns: 8, result: Err(failure), is_covered: true, missed: 0 };
                let line = Report::End(ended).to_string();
                let Some(Report::End(read)) = Report::parse(&line) else { panic!("{line}") };
                assert_eq!((read.end_ns, read.is_covered, read.result), (8, true, Err(failure)));
            }
        }
        let counts = Counts { start_ns: 1, end_ns: 2, ops: 3, verified: 4, slowest_chunk_ns: 5 };
        let line = Report::Delta(counts).to_string();
        assert!(matches!(Report::parse(&line), Some(Report::Delta(read)) if read == counts));
        let line = Report::Error("a\nb c".into()).to_string();
        assert!(matches!(Report::parse(&line), Some(Report::Error(text)) if text == "a b c"));
        for line in ["", "run", "end 1", "end 1 true", "end 1 true dance 1 1 errno 2", "delta 1 2 -3 4 5"] {
            assert!(Report::parse(line).is_none(), "{line}");
        }
        assert_eq!(Command::parse("job true false - 1 0 0 0 0 0 0 -"), None, "no interval");
    }

    #[test]
    fn files_arrive_in_their_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (ours, mut theirs) = (Channel::new(ours), Channel::new(theirs));
        for number in 0..30 {
            let mut file = tempfile::tempfile().unwrap();
            write!(file, "{number}").unwrap();
            ours.send(&format!("file {number}"), Some(file.as_fd())).unwrap();
            if number % 3 == 0 {
                ours.send(&"no file", None).unwrap();
            }
        }
        let mut lines = 0;
        while let Ok(Some(line)) = theirs.poll() {
            lines += 1;
            if let Some(number) = line.strip_prefix("file ") {
                let mut file = std::fs::File::from(theirs.file().unwrap());
                let mut text = String::new();
                file.rewind().unwrap();
                file.read_to_string(&mut text).unwrap();
                assert_eq!(text, number);
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
