//! Clients of a run that several hosts make together: who they are, and the share of each in a test.

use serde::{Deserialize, Serialize};

use super::{Counts, CpuShares, Environment, Judgement, Latency, Rate, Status, TimeBreakdown};
use crate::document::{document, pieces, read_as_pieces};

document! {
    /// One client of a run: a process on one host.
    pub struct HostRecord {
        /// Number of the client, from 0.
        pub client: u32,
        /// Its name: the host as the command line has it, and the number of the process there.
        pub name: String,
        /// Its version of the program.
        pub skye_version: String,
        /// Its machine and target.
        pub environment: Environment,
        /// Its clock against that of the coordinator; null where it was lost before that was known.
        pub clock: Option<ClockRecord>,
        /// The reason for its loss; null where it stayed until the end.
        pub lost: Option<String>,
    }

    /// A client's monotonic clock against that of the coordinator.
    #[derive(Copy)]
    pub struct ClockRecord {
        /// The client's clock less the coordinator's.
        pub offset_ns: i64,
        /// Largest possible error of that difference.
        pub bound_ns: u64,
        /// Shortest round trip of a ping.
        pub round_trip_ns: u64,
        /// Change of the difference from the first measurement to the last; null where it was measured once.
        pub drift_ns: Option<i64>,
    }
}

pieces! {
    /// The share of one client in a test that several made together.
    pub struct ClientShare {
        /// Number of the client, from 0.
        pub client: u32 [needed],
        /// Name of the client.
        pub name: String [needed],
        /// How the test ended there.
        pub status: Status [needed],
        /// Why it did not end as planned; null if it did.
        pub reason: Option<String>,
        /// Operations, bytes and times.
        #[serde(flatten)]
        pub counts: Counts [piece],
        /// Rates of this client, over its own time.
        pub rate: Rate [needed],
        /// Latency of whole operations.
        pub latency_ns: Option<Latency>,
        /// Histogram of the same operations: HdrHistogram V2 deflate, base64.
        pub histogram: Option<String>,
        /// Where the time of its threads went.
        pub budget: Option<TimeBreakdown>,
        /// CPU of its machine during the test.
        pub cpu: Option<CpuShares>,
        /// Findings about its number.
        #[serde(flatten)]
        pub judged: Judgement [piece],
    }
}

read_as_pieces!(ClientShare);

document! {
    /// Rate of a test with fewer clients.
    pub struct FewerClients {
        /// Number of clients.
        pub clients: u32,
        /// Their rate together.
        pub ops_per_second: f64,
    }

    /// Rates of a test that several clients made together.
    #[derive(Default)]
    pub struct ClientTotals {
        /// Number of clients that were measured.
        pub clients: u32,
        /// Number of clients with which the run began.
        pub clients_planned: u32,
        /// Time in which every client worked: from the start until the first was done.
        pub window_ns: u64,
        /// Rate over that time; null where it is not known.
        pub window_ops_per_second: Option<f64>,
        /// Rate until the last client was done, with the sync at its end.
        pub last_ops_per_second: Option<f64>,
        /// Rate of the slowest client.
        pub slowest_ops_per_second: Option<f64>,
        /// Name of the slowest client.
        pub slowest: Option<String>,
        /// Median of the clients' rates.
        pub median_ops_per_second: Option<f64>,
        /// Rate of the fastest client.
        pub fastest_ops_per_second: Option<f64>,
        /// Name of the fastest client.
        pub fastest: Option<String>,
        /// Standard deviation of the clients' rates, as a share of their mean; null for one client.
        pub spread: Option<f64>,
        /// The row of the same sweep with the next fewer clients; null where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub fewer: Option<FewerClients>,
        /// Largest difference between the first operations of two clients, without the error of their clocks.
        pub start_skew_ns: Option<u64>,
    }
}

/// Returns the machine of a client: several clients of one have a number behind its name.
pub fn machine_of(client: &str) -> &str {
    client.split('#').next().unwrap_or(client)
}
