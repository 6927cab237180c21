//! getc_putc: single bytes moved in eight ways, from one system call for each to the C library without locks.
//!
//! [`arguments`] parses its command line, [`translate`] makes a request of it. [`Line`] is its output, written and
//! read.

pub mod arguments;
mod line;

pub use line::{Line, Problem, read};

use model::request::Request;
use model::run::PhaseRecord;

use self::arguments::Options;
use crate::bonniepp::SHORTEST_SECONDS;
use crate::work;

/// One of the eight tests, in the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// `write` of one byte.
    Write,
    /// `read` of one byte.
    Read,
    /// `putc` in a process of one thread.
    PutcSingleThreaded,
    /// `getc` in a process of one thread.
    GetcSingleThreaded,
    /// `putc` beside another thread.
    Putc,
    /// `getc` beside another thread.
    Getc,
    /// `putc_unlocked` beside another thread.
    PutcUnlocked,
    /// `getc_unlocked` beside another thread.
    GetcUnlocked,
}

impl Test {
    /// All tests, in the order of the columns.
    pub const ALL: [Self; 8] = [
        Self::Write,
        Self::Read,
        Self::PutcSingleThreaded,
        Self::GetcSingleThreaded,
        Self::Putc,
        Self::Getc,
        Self::PutcUnlocked,
        Self::GetcUnlocked,
    ];

    /// Heading of the test's column.
    pub fn head(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::PutcSingleThreaded => "putcNT",
            Self::GetcSingleThreaded => "getcNT",
            Self::Putc => "putc",
            Self::Getc => "getc",
            Self::PutcUnlocked => "putcU",
            Self::GetcUnlocked => "getcU",
        }
    }

    /// Long name of the test, for places with room.
    pub fn title(self) -> &'static str {
        match self {
            Self::Write => "write of a byte",
            Self::Read => "read of a byte",
            Self::PutcSingleThreaded => "putc, one thread",
            Self::GetcSingleThreaded => "getc, one thread",
            Self::Putc => "putc",
            Self::Getc => "getc",
            Self::PutcUnlocked => "putc_unlocked",
            Self::GetcUnlocked => "getc_unlocked",
        }
    }

    /// Progress message on stderr while the test runs.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Write => "Writing with write(fd, &c, 1)...",
            Self::Read => "Reading with read(fd, &c, 1)...",
            Self::PutcSingleThreaded => "Writing with putc(c, fp) no thread...",
            Self::GetcSingleThreaded => "Reading with getc() no thread...",
            Self::Putc => "Writing with putc(c, fp)...",
            Self::Getc => "Reading with getc()...",
            Self::PutcUnlocked => "Writing with putc_unlocked(c, fp)...",
            Self::GetcUnlocked => "Reading with getc_unlocked()...",
        }
    }

    /// The same work as a test of skye. Only the calls are timed, so nothing is made durable.
    fn spec(self, size_bytes: u64) -> String {
        let calls = size_bytes / BYTES_PER_CALL;
        match self {
            Self::Write => format!("byte-write:sync=none:bytes={calls}"),
            Self::Read => format!("byte-read:bytes={calls}"),
            Self::PutcSingleThreaded => "putc-write:sync=none:passes=1".into(),
            Self::GetcSingleThreaded => "getc-read:passes=1".into(),
            Self::Putc => "putc-write:sync=none:threaded:passes=1".into(),
            Self::Getc => "getc-read:threaded:passes=1".into(),
            Self::PutcUnlocked => "putc-write:sync=none:unlocked:threaded:passes=1".into(),
            Self::GetcUnlocked => "getc-read:unlocked:threaded:passes=1".into(),
        }
    }
}

/// Bytes of the file for each byte that the tests by system calls move: these are some 200 times as slow.
const BYTES_PER_CALL: u64 = 64;

/// Translates the options to a request: the eight tests, in their order.
pub fn translate(options: &Options) -> Request {
    let tests = Test::ALL.iter().map(|test| test.spec(options.size_bytes)).collect();
    Request { label: options.name.clone(), ..work::request("getc_putc", tests, Some(options.size_bytes)) }
}

/// Returns the line of a run, from the tests that were measured.
pub fn line_of(name: &str, measured: &[(Test, &PhaseRecord)]) -> Line {
    let rate = |phase: &PhaseRecord| {
        let seconds = phase.counts.elapsed_ns as f64 / 1e9;
        (seconds >= SHORTEST_SECONDS).then(|| (phase.counts.bytes as f64 / 1024.0 / seconds) as u64)
    };
    let mut line = Line::new(name);
    for (test, phase) in measured {
        line.kib_per_second[*test as usize] = rate(phase);
    }
    line
}
