//! Frames between the coordinator of a run and its clients.
//!
//! A frame is its length in four bytes, the most significant first, and one JSON document. The first frame of both sides
//! is a [`Hello`]. Both sides must speak the same protocol.
//!
//! No frame can run a command, name a path, or raise a limit: an agent has those on its own command line. Its write limit
//! holds for all frames together. A directory that a frame names is that of a live client of the same run, or is refused.

use serde::{Deserialize, Serialize};

use crate::health::Check;
use crate::machine::Machine;
use crate::order::{LayoutOrder, TestOrder};
use crate::plan::Plan;
use crate::request::Request;
use crate::run::{Environment, PhaseRecord, ServerUse};
use crate::user_error::UserError;

/// Protocol that this version speaks.
pub const PROTOCOL: u32 = 2;
/// Largest frame. The record of a test with 3,000 intervals is below a quarter of it.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Time between two slices of a tick: that of an interval of a record.
pub const SLICE_NS: u64 = 100_000_000;

/// First frame of both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Protocol of the sender.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// Number of the session, drawn at random; an agent repeats that of its coordinator.
    pub session: String,
}

impl Hello {
    /// Returns the hello of this version in a session.
    pub fn new(version: &str, session: &str) -> Self {
        Self { protocol: PROTOCOL, version: version.to_owned(), session: session.to_owned() }
    }

    /// Returns true if the sender speaks the protocol of this version.
    pub fn is_understood(&self) -> bool {
        self.protocol == PROTOCOL
    }
}

/// First frame of a host without skye: its shell requests a copy of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramRequest {
    /// Kind of machine, as `uname -m` prints it.
    pub architecture: String,
}

/// Frame from the coordinator to a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// A heartbeat.
    Beat {},
    /// A request for the time, which is answered at once.
    Ping {
        /// Number of the request.
        number: u32,
    },
    /// The request that the client plans for itself, on its own target.
    Plan {
        /// Request without a preset: it sets every option.
        request: Box<Request>,
        /// Seed of offsets and data.
        seed: u64,
        /// Number of this client.
        number: u32,
        /// Number of clients.
        count: u32,
        /// Number of clients that share the free space of this file system.
        clients_on_file_system: u32,
    },
    /// Look at the machine and the target, as `skye doctor` does.
    Look {},
    /// Make the work directory.
    Open {
        /// Processes of this machine that belong to the run. Null where another client watches the machine.
        processes: Option<Vec<u32>>,
        /// Clients on this machine.
        clients_per_machine: u32,
    },
    /// Name the work directories in its directory.
    Neighbours {},
    /// Lay out fresh files.
    LayOut(LayoutOrder),
    /// Prepare one test of the plan, and report when it is ready to begin.
    Phase(TestOrder),
    /// Begin the measured part that is ready.
    Start {
        /// Instant on the client's monotonic clock; null if the part is not to begin.
        at_ns: Option<u64>,
    },
    /// End the test: its rate is known well enough.
    EndTest {},
    /// End the test, and begin no other.
    Interrupt {},
    /// Start to watch the machine.
    Watch {
        /// Instant on the client's monotonic clock.
        at_ns: u64,
    },
    /// Report the work of the machine since then.
    Watched {},
    /// Remove the files, and keep the directory.
    Clear {},
    /// Remove everything, and end.
    Close {},
}

/// Frame from a client to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    /// A sign of life.
    Beat {},
    /// Answer to a question for the time.
    Pong {
        /// Number of the question.
        number: u32,
        /// The client's monotonic clock.
        at_ns: u64,
    },
    /// The machine and the target of the client.
    MachineAndTarget {
        /// The machine.
        machine: Box<Machine>,
        /// Machine and target, as the document has them.
        environment: Box<Environment>,
        /// Number of the client's process.
        process: u32,
    },
    /// The client's own plan.
    Planned {
        /// The plan, without its seed.
        plan: Box<Plan>,
    },
    /// The machine was checked.
    MachineChecked {
        /// Its fitness.
        checks: Vec<Check>,
    },
    /// Work directories in its directory.
    Neighbours {
        /// All names.
        names: Vec<String>,
    },
    /// The work directory is there.
    Opened {
        /// Sources of evidence that cannot be read there.
        hidden_sources: Vec<String>,
        /// Cost of reading its clock.
        clock_read_ns: f64,
        /// Name of the work directory; empty if there is none.
        work_directory_name: String,
    },
    /// Files are laid out.
    LaidOut {
        /// Bytes written.
        bytes: u64,
    },
    /// A measured part is ready to begin.
    Ready {},
    /// Counts of the running test since it began, of at most a second.
    Tick {
        /// The counts at the end of each interval.
        slices: Vec<Slice>,
    },
    /// A test has ended.
    Measured(Box<Measured>),
    /// Work of the watched machine while clients measured.
    Watched(Box<ServerUse>),
    /// The files are removed.
    Cleared {},
    /// Everything is removed.
    Closed {
        /// Lines about files that could not be removed.
        left: Vec<String>,
    },
    /// Something failed.
    Failed {
        /// The failure.
        error: UserError,
        /// True if nothing was written.
        is_refusal: bool,
    },
    /// The client ends by itself, and has removed what it could.
    Ended {
        /// The reason behind "it was": "ended by SIGTERM".
        reason: String,
    },
}

/// Counts of a running test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Time from its start.
    pub elapsed_ns: u64,
    /// Operations so far.
    pub ops: u64,
    /// Bytes so far.
    pub bytes: u64,
}

/// A test of one client, with distributions that merge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its record, not yet judged.
    pub record: PhaseRecord,
    /// Start of its time axis, on the client's monotonic clock.
    pub start_ns: u64,
    /// Latencies of operations: upper ends of buckets, and the count in each.
    pub latencies: Vec<(u64, u64)>,
    /// Latencies of each step of the record, in the same form.
    pub steps: Vec<Vec<(u64, u64)>>,
    /// Bytes that the client may still write.
    pub left_bytes: u64,
    /// True if something was cut short, so that the names of its files are not known.
    pub names_unknown: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let frames = [
            ToAgent::Beat {},
            ToAgent::Ping { number: 7 },
            ToAgent::Start { at_ns: None },
            ToAgent::Plan {
                request: Box::new(Request { tests: vec!["read:rnd4k".into()], ..Request::default() }),
                seed: u64::MAX,
                number: 1,
                count: 2,
                clients_on_file_system: 2,
            },
        ];
        for frame in frames {
            let text = serde_json::to_string(&frame).unwrap();
            assert_eq!(serde_json::from_str::<ToAgent>(&text).unwrap(), frame, "{text}");
        }
        let hello = Hello::new("0.1.0", "s");
        assert!(hello.is_understood());
        assert!(!Hello { protocol: PROTOCOL + 1, ..hello.clone() }.is_understood());
        // Keys that a later version adds are no obstacle.
        let later = r#"{"protocol":9,"version":"9","session":"s","more":1}"#;
        assert!(!serde_json::from_str::<Hello>(later).unwrap().is_understood());
    }
}
