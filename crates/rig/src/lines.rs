//! Protocol between a rig and its owner: commands in words and replies in JSON, each on a line of the rig's standard
//! input or output. Both ends are the same program, so that the protocol may change with it.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::UserError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::served::Request;

/// Reply of a rig.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// It is ready, at this path, on this device, with this journal.
    Ready(PathBuf, Option<PathBuf>, Option<PathBuf>),
    /// The command is done, at this instant; the last line of each answer.
    Done(u64),
    /// The command could not be done.
    Failed(UserError),
    /// One answered request.
    Request(Request),
    /// Something that could not be undone.
    Leftover(String),
}

impl Reply {
    /// Writes its line.
    pub(crate) fn send(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(format!("{}\n", serde_json::to_string(self)?).as_bytes())
    }

    /// Returns the reply of a line; `None` for a line that no rig wrote.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// To a rig: change the settings that these words name.
pub(crate) const SET: &str = "set";
/// To a rig: take in the process with this PID.
pub(crate) const JOIN: &str = "join";
/// To a rig: report the served requests.
pub(crate) const SERVED: &str = "served";
/// To a rig: report them, and reset the counts.
pub(crate) const TAKE: &str = "take";
/// To a rig: undo all changes and exit.
pub(crate) const QUIT: &str = "quit";

/// Longest line that is read.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Result of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line(String),
    /// The other end is closed.
    Ended,
    /// Something else happened first: one of the other descriptors can be read.
    Other,
    /// The time is up.
    TimedOut,
}

/// Lines from a descriptor, awaited together with others.
#[derive(Debug)]
pub(crate) struct Lines<F> {
    from: F,
    /// Bytes that were read and are no whole line yet.
    rest: Vec<u8>,
}

impl<F: AsFd> Lines<F> {
    pub(crate) fn new(from: F) -> Self {
        Self { from, rest: Vec::new() }
    }

    /// Returns the next line. Waits for it until an instant, or until one of the others can be read.
    pub(crate) fn next(&mut self, others: &[&dyn AsFd], until: Option<Instant>) -> io::Result<Next> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=end).take(end).collect::<Vec<_>>();
                return Ok(Next::Line(String::from_utf8_lossy(&line).into_owned()));
            }
            if self.rest.len() > LINE_BYTES_MAX {
                return Err(io::Error::other("a line is not terminated"));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mut polled = vec![PollFd::new(&self.from, PollFlags::IN)];
            polled.extend(others.iter().map(|other| PollFd::from_borrowed_fd(other.as_fd(), PollFlags::IN)));
            match poll(&mut polled, left.map(timespec).as_ref()) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
                Ok(0) => return Ok(Next::TimedOut),
                Ok(_) => {}
            }
            let happened: Vec<_> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            if happened[1..].contains(&true) {
                return Ok(Next::Other);
            }
            let mut buffer = vec![0; 64 << 10];
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => return Ok(Next::Ended),
                Ok(length) => self.rest.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::Direction;

    #[test]
    fn partial_line_is_returned_only_once_complete() {
        let (from, mut to) = io::pipe().unwrap();
        let mut lines = Lines::new(from);
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        to.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.next(&[], soon()).unwrap(), Next::Line("one".into()));
        assert_eq!(lines.next(&[], soon()).unwrap(), Next::TimedOut);
        to.write_all(b"o\n\n").unwrap();
        assert_eq!(lines.next(&[], None).unwrap(), Next::Line("two".into()));
        assert_eq!(lines.next(&[], None).unwrap(), Next::Line(String::new()));
        let (other, mut to_other) = io::pipe().unwrap();
        to_other.write_all(b"!").unwrap();
        assert_eq!(lines.next(&[&other], None).unwrap(), Next::Other);
        drop(to);
        assert_eq!(lines.next(&[], None).unwrap(), Next::Ended);
    }

    #[track_caller]
    fn comes_back(reply: Reply) {
        let mut line = Vec::new();
        reply.send(&mut line).unwrap();
        assert_eq!(
            Reply::parse(std::str::from_utf8(&line).unwrap().strip_suffix('\n').unwrap()),
            Some(reply)
        );
    }

    #[test]
    fn user_error_parses_back_from_its_line() {
        let plain = UserError::new("mount /mnt/a b", "it is\nfull");
        for error in [plain.clone(), plain.help("free some space")] {
            comes_back(Reply::Failed(error));
        }
    }

    #[test]
    fn request_parses_back_from_its_line() {
        for direction in [Direction::Read, Direction::Write, Direction::Sync, Direction::Name] {
            let (arrived_ns, answered_ns) = (12, 46);
            let request = Request { direction, arrived_ns, answered_ns, offset_bytes: 0, length_bytes: 4096 };
            comes_back(Reply::Request(request));
        }
        let others = ["", "r", "x 1 2 3 4", "{\"request\":{}}", "{\"request\":[\"read\",1,2,3]}"];
        assert_eq!(others.map(Reply::parse), [const { None }; 5]);
    }
}
