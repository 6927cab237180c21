//! Orders of a driver to those who measure: to lay out files, and to run one test.

use serde::{Deserialize, Serialize};

/// Time that a test may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Time {
    /// Measured time.
    pub measured_ns: u64,
    /// Total time.
    pub budget_ns: u64,
}

/// TestOrder to run one test of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestOrder {
    /// Place of the test in the plan.
    pub index: u32,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Time that it may take.
    pub time: Time,
    /// The client whose data it reads; null for the own data.
    pub other: Option<OtherClient>,
    /// True if the files of earlier tests are created again: a client does not know their names.
    pub recreate_files: bool,
}

impl TestOrder {
    /// Returns the order to run a test on the files and data of this client.
    pub fn new(index: u32, repetition: u32, time: Time) -> Self {
        Self { index, repetition, time, other: None, recreate_files: false }
    }
}

/// TestOrder to lay out fresh files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutOrder {
    /// Time that it may take.
    pub time_ns: u64,
    /// Name of the first client's work directory, where tests work in files or directories of all clients.
    pub first: Option<String>,
}

impl LayoutOrder {
    /// Returns the order to lay out files of this client alone.
    pub fn new(time_ns: u64) -> Self {
        Self { time_ns, first: None }
    }
}

/// Client whose data another one reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherClient {
    /// Number of the client.
    pub number: u32,
    /// Name of its work directory, in the directory that both share.
    pub directory: String,
    /// True if no test of the run has failed so far, so that each block has what was written last.
    pub is_sound: bool,
}
