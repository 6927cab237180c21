//! Protocol between a rig and its owner: lines of words, over the rig's standard input and output.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use model::Trouble;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::text::{escape, unescape_text};

/// From a rig: it is ready, at this path, on this device, with this journal.
pub(crate) const READY: &str = "ready";
/// From a rig: the command is done, at this instant; the last line of each answer.
pub(crate) const DONE: &str = "done";
/// From a rig: the command could not be done.
pub(crate) const CANNOT: &str = "cannot";
/// From a rig: one answered request.
pub(crate) const REQUEST: &str = "request";
/// From a rig: something that could not be undone.
pub(crate) const LEFT: &str = "left";

/// To a rig: change the settings that these words name.
pub(crate) const SET: &str = "set";
/// To a rig: take in the process with this PID.
pub(crate) const JOIN: &str = "join";
/// To a rig: report the served requests.
pub(crate) const SERVED: &str = "served";
/// To a rig: report them, and begin to count anew.
pub(crate) const TAKE: &str = "take";
/// To a rig: undo everything and end.
pub(crate) const QUIT: &str = "quit";

/// Longest line that is read.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Returns the line of a trouble.
pub(crate) fn trouble_line(trouble: &Trouble) -> String {
    let Trouble { attempt, cause, remedy } = trouble;
    format!("{CANNOT} {} {} {}", escape(attempt), escape(cause), escape(remedy.as_deref().unwrap_or("")))
}

/// Returns the trouble of such a line, without its first word.
pub(crate) fn parse_trouble(words: &str) -> Trouble {
    let mut words = words.split(' ').map(unescape_text);
    let mut next = || words.next().unwrap_or_default();
    let trouble = Trouble::new(next(), next());
    match next() {
        remedy if remedy.is_empty() => trouble,
        remedy => trouble.remedy(remedy),
    }
}

/// Result of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line(String),
    /// The other end is closed.
    Ended,
    /// Something else happened first: one of the other descriptors can be read.
    Other,
    /// The time is up.
    Late,
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
                return Err(io::Error::other("a line has no end"));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mut polled = vec![PollFd::new(&self.from, PollFlags::IN)];
            polled.extend(others.iter().map(|other| PollFd::from_borrowed_fd(other.as_fd(), PollFlags::IN)));
            match poll(&mut polled, left.map(timespec).as_ref()) {
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
                Ok(0) => return Ok(Next::Late),
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
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_whole_or_not_at_all() {
        let (from, mut to) = io::pipe().unwrap();
        let mut lines = Lines::new(from);
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        to.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.next(&[], soon()).unwrap(), Next::Line("one".into()));
        assert_eq!(lines.next(&[], soon()).unwrap(), Next::Late);
        to.write_all(b"o\n\n").unwrap();
        assert_eq!(lines.next(&[], None).unwrap(), Next::Line("two".into()));
        assert_eq!(lines.next(&[], None).unwrap(), Next::Line(String::new()));
        let (other, mut to_other) = io::pipe().unwrap();
        to_other.write_all(b"!").unwrap();
        assert_eq!(lines.next(&[&other], None).unwrap(), Next::Other);
        drop(to);
        assert_eq!(lines.next(&[], None).unwrap(), Next::Ended);
    }

    #[test]
    fn a_trouble_comes_back_from_its_line() {
        let plain = Trouble::new("mount /mnt/a b", "it is full");
        for trouble in [plain.clone(), plain.remedy("make room")] {
            let line = trouble_line(&trouble);
            assert_eq!(parse_trouble(line.strip_prefix("cannot ").unwrap()), trouble);
        }
    }
}
