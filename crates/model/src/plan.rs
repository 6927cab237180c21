//! The plan of a run: every phase with its stop rule, the data set, and the bytes and time that it costs.
//!
//! [`plan`] is pure: the same request, target and machine give the same plan. It refuses whatever cannot work
//! before anything is written.

mod checks;
mod choice;
mod dataset;
mod draft;
#[cfg(test)]
pub(crate) mod fixtures;
mod precondition;
mod requested;
mod room;
mod spread;
mod volume;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::experiment;
use crate::machine::Machine;
use crate::mix;
use crate::request::{Allow, MixTexts, Percent, Request, Seconds};
use crate::size::Size;
use crate::spec::{self, Defaults};
use crate::target::Target;
use crate::user_error::UserError;
use crate::workload::{Arrival, CacheMode, DataVerb, DataWork, Engine, FileVerb, Work, Workload};
pub use checks::{check_clients, shared_directory};
pub use choice::suits_ring;
use draft::{FirstGuess, plan_from};
pub use requested::adapt_to_existing_target;

pub use dataset::{DataGroup, Dataset, power_of_two_within};
pub use precondition::{FILLS, Precondition, ROUNDS_MAX, ROUNDS_MIN};
pub use room::{DATASET_BYTES_MAX, DATASET_BYTES_MIN};
pub use spread::Spread;
pub use volume::{EXPERIMENTS_NS, PROBE_BYTES, WRITE_LIMIT_BYTES, WRITE_LIMIT_BYTES_MAX};

/// Longest measured time of a phase, unless preset or flag sets it.
pub const PHASE_SECONDS: f64 = 20.0;
/// Most repetitions of the whole list.
pub const REPETITIONS_MAX: u32 = 1000;
/// Note of plans on a simulated device.
pub const SIMULATED: &str = "simulated: these results are computed, not measured, and are not saved";
/// Name of the preset where tests were given one by one.
pub const CUSTOM: &str = "custom";
/// Shortest measured time of a phase with a precision goal, unless preset or flag sets it.
pub const PHASE_SECONDS_MIN: f64 = 4.0;
/// Precision goal of such a phase, unless preset or flag sets it.
pub const PRECISION: Percent = Percent(2.0);

/// Shortest time of a test that experiments may follow. A test with less time is meant to be quick.
pub const EXPERIMENT_PHASE_NS_MIN: u64 = 1_000_000_000;
/// Shortest total time of a run with return visits.
const RETURN_VISITS_TOTAL_NS_MIN: u64 = 60_000_000_000;

/// Everything that will be done, in its order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plan {
    /// Name of the preset; "custom" where tests were given one by one.
    pub preset: String,
    /// Requested seed; null for a fresh one.
    pub seed: Option<u64>,
    /// The user's name for this run.
    pub label: Option<String>,
    /// Repetitions of the whole list, each on fresh files.
    pub repetitions: u32,
    /// Measured time of each phase; where `precision_goal` is set, the longest time.
    pub phase_time_ns: u64,
    /// Condition under which a phase may end earlier; null where it lasts its whole time.
    #[serde(default)]
    pub precision_goal: Option<PrecisionGoal>,
    /// Hard limit of the run, preparation included.
    pub total_ns: u64,
    /// Estimated duration.
    pub estimate_ns: u64,
    /// Largest expected difference from the estimate. Tests end when their rate is known, and bytes take as long as the
    /// target needs.
    #[serde(default)]
    pub estimate_spread_ns: u64,
    /// Most bytes that may be written, by all clients together.
    pub write_limit_bytes: u64,
    /// Most bytes that each client will write according to the stop rules; metadata comes on top.
    pub bytes_to_write_max: u64,
    /// State of the page cache before buffered reads.
    pub cache: CacheMode,
    /// True if every byte of every block read is compared with the data written.
    #[serde(default)]
    pub verify_all: bool,
    /// Memory of the server that provides the target; null where the user did not state it.
    #[serde(default)]
    pub server_ram_bytes: Option<u64>,
    /// True if a server or a program provides the target. Experiments are then also made on streams that end by a
    /// count.
    #[serde(default)]
    pub has_server: bool,
    /// True if experiments follow the tests, to find their limiters.
    #[serde(default)]
    pub has_experiments: bool,
    /// Requested tests, as specs, before the sweep and before replacements that this machine makes necessary.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Tests that follow if the device can run them, as specs.
    #[serde(default)]
    pub tests_where_possible: Vec<String>,
    /// Texts of the mixes that come from files, by the names in the specs; absent where there are none.
    #[serde(default, skip_serializing_if = "MixTexts::is_empty")]
    pub mixes: MixTexts,
    /// Range over which each test is repeated: "q1..q64"; null where nothing is swept.
    pub sweep: Option<String>,
    /// Work before the tests, and the rounds of each; absent if none is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Precondition>,
    /// Data set that the data tests work on; null where there are none.
    pub dataset: Option<Dataset>,
    /// The tests of one repetition.
    pub phases: Vec<PlannedPhase>,
    /// Notes for the user to read before it starts.
    pub notes: Vec<String>,
    /// The clients that make the run together; absent in a run without clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Clients>,
    /// True if a target in use by other programs is accepted.
    pub allow_busy: bool,
    /// True if the run may leave less than the reserve free.
    pub allow_low_space: bool,
    /// True if root may use a directory in which other users may rename.
    #[serde(default)]
    pub allow_shared_directory: bool,
}

/// The clients of a run: processes that carry out the same plan, each in its own directory. Tests with `shared` use
/// that of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Clients {
    /// Number of clients.
    pub count: u32,
    /// Number of the client whose plan it is, from 0; null in the plan of the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Number of clients on one file system, itself included. In the plan of the whole run, those of the first client.
    #[serde(default)]
    pub clients_on_file_system: u32,
}

/// Condition under which a phase ends before its time: it is steady, and its rate is known well enough. Phases that end
/// by a count have none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PrecisionGoal {
    /// Largest half width of the rate's 95 % interval, as a share of the rate.
    pub precision: f64,
    /// Measured time before which the phase does not end.
    pub time_min_ns: u64,
}

/// One test of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlannedPhase {
    /// Name that is unique in the plan: "03-rewrite".
    pub id: String,
    /// The test that runs, as its spec.
    #[serde(rename = "spec")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub workload: Workload,
    /// How its operations are issued.
    #[serde(default = "plain_system_calls")]
    pub engine: Engine,
    /// The requested test, as its spec, where `spec` replaces it; else null.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub replaced_workload: Option<Workload>,
    /// Sweep that the phase belongs to: "02-read", by the number of the test; null if it belongs to none.
    pub group: Option<String>,
    /// Number of clients that make it, starting with the first; absent where all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Its stop rule.
    pub stop: Stop,
}

impl Plan {
    /// Returns true if a test on data has a property.
    pub fn has_data_test(&self, has_property: impl Fn(&DataWork) -> bool) -> bool {
        self.phases.iter().filter_map(|phase| phase.workload.data()).any(has_property)
    }

    /// Gives tests the mixes of files, whose texts are in the plan. A plan from a document has only their names in its tests.
    pub fn read_mixes(&mut self) {
        let mixes = mix::parse_all(&self.mixes.0).unwrap_or_default();
        for phase in &mut self.phases {
            for workload in
                [Some(&mut phase.workload), phase.replaced_workload.as_mut()].into_iter().flatten()
            {
                if let Work::Files(files) = &mut workload.work {
                    files.mix.resolve_from(&mixes);
                }
            }
        }
    }

    /// Returns true if a test works in a file or a directory of all clients of the run, which is that of the first.
    pub fn uses_files_of_all_clients(&self, phase: &PlannedPhase) -> bool {
        let is_shared = match &phase.workload.work {
            Work::Data(data) => data.shared && phase.engine.needs_files(),
            // No two threads of a mix work on one file at the same time, which they agree on in memory.
            Work::Files(files) => files.shared && files.verb != FileVerb::Mix,
        };
        let is_existing = self.dataset.as_ref().is_some_and(|dataset| dataset.is_existing);
        self.clients.is_some() && is_shared && !is_existing
    }

    /// Returns true if any test works in a file or a directory of all clients.
    pub fn shares_files(&self) -> bool {
        self.phases.iter().any(|phase| self.uses_files_of_all_clients(phase))
    }

    /// Returns true if any test reads what another client wrote.
    pub fn reads_from_other_clients(&self) -> bool {
        self.has_data_test(DataWork::reads_from_other_clients)
    }

    /// Returns true if it sweeps over clients, so that some tests run on a part of the clients.
    pub fn sweeps_clients(&self) -> bool {
        self.phases.iter().any(|phase| phase.clients.is_some())
    }
}

impl PlannedPhase {
    /// Returns the requested test.
    pub fn requested_workload(&self) -> &Workload {
        self.replaced_workload.as_ref().unwrap_or(&self.workload)
    }
}

/// Returns the engine of documents that predate the choice of engines.
fn plain_system_calls() -> Engine {
    Engine::Sync
}

/// Stop rule of a phase: the limit that is reached first ends it. One worker's share has the same form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stop {
    /// Measured time.
    pub time_ns: Option<u64>,
    /// Operations.
    pub ops: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Visits of every block or file.
    pub passes: Option<u64>,
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spec::print(self))
    }
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        spec::parse(&text, &Defaults::default()).map_err(de::Error::custom)
    }
}

/// Makes the plan of a request for a target on a machine.
///
/// # Errors
/// Returns a [`UserError`] for impossible requests: unknown words, a read-only target, too little free space, blocks
/// that `O_DIRECT` refuses, more bytes than the write limit. Nothing has been written then.
pub fn plan(request: &Request, target: &Target, machine: &Machine) -> Result<Plan, UserError> {
    plan_for(request, target, machine, None)
}

/// Makes the plan of a request for several clients.
///
/// # Errors
/// As [`plan`], and for tests that cannot share a file or directory among clients.
pub fn plan_for(
    request: &Request,
    target: &Target,
    machine: &Machine,
    clients: Option<Clients>,
) -> Result<Plan, UserError> {
    let place = ClientSite {
        target,
        machine,
        clients_on_file_system: clients.map_or(1, |clients| clients.clients_on_file_system),
    };
    plan_from(request, clients, &[place], FirstGuess::default())
}

/// Target and machine of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientSite<'a> {
    /// Its target.
    pub target: &'a Target,
    /// Its machine.
    pub machine: &'a Machine,
    /// Number of clients on the file system, itself included.
    pub clients_on_file_system: u32,
}

/// Makes the plan of all clients for the target of the first. Data and files fit into the space of every client.
///
/// # Errors
/// As [`plan_for`], and if `places` is empty.
pub fn plan_for_all(request: &Request, places: &[ClientSite<'_>]) -> Result<Plan, UserError> {
    let clients_on_file_system = places.first().map_or(1, |place| place.clients_on_file_system);
    let clients = Clients { count: places.len() as u32, number: None, clients_on_file_system };
    plan_from(request, Some(clients), places, FirstGuess::default())
}

impl Plan {
    /// Returns the condition under which a phase may end before its time; `None` for a phase that may not.
    ///
    /// A counted phase ends with its count. A test at a given rate is there to measure latencies. The rate of writes
    /// into the page cache is known only after the sync. Simulated time costs nothing.
    pub fn precision_goal_of(&self, phase: &PlannedPhase) -> Option<PrecisionGoal> {
        let is_cached = |data: &DataWork| data.writes() && !data.direct && data.syncs_at_end();
        let is_informative = |data: &DataWork| !(is_cached(data) && phase.engine.needs_files());
        let is_closed = phase.workload.arrival() == Arrival::Closed;
        let may_end_early = is_closed && phase.workload.data().is_none_or(is_informative);
        let is_timed = phase.stop.time_ns.is_some() && self.rounds_of(phase).is_none();
        self.precision_goal.filter(|_| is_timed && may_end_early && !phase.engine.has_virtual_clock())
    }

    /// Returns the time of a round and the most rounds of a test that is repeated until it is steady; `None` for other
    /// tests.
    pub fn rounds_of(&self, phase: &PlannedPhase) -> Option<(u64, u32)> {
        let precondition = self.precondition.as_ref().filter(|_| precondition::has_rounds(phase))?;
        Some((precondition.round_ns, precondition.rounds_max))
    }

    /// Returns the most bytes that one client may write, in all repetitions.
    pub fn share_of_write_limit(&self) -> u64 {
        self.write_limit_bytes / self.clients.map_or(1, |clients| u64::from(clients.count.max(1)))
    }

    /// Returns the estimated time and the most bytes of the tests of one repetition, on files that are laid out already.
    pub fn turn(&self) -> (u64, u64) {
        let laid_out_bytes = self.dataset.as_ref().map_or(0, Dataset::layout_bytes_max);
        let time_ns = self.estimate_ns.saturating_sub(volume::preparation_ns(self));
        (time_ns, self.bytes_to_write_max.saturating_sub(laid_out_bytes))
    }

    /// Returns the most bytes that all clients together will write.
    pub fn all_clients_bytes_max(&self) -> u64 {
        let clients = self.clients.map_or(1, |clients| clients.count);
        self.bytes_to_write_max.saturating_mul(clients.into())
    }

    /// Returns the number of clients that make a test; `None` in a run without clients.
    pub fn clients_of(&self, phase: &PlannedPhase) -> Option<u32> {
        self.clients.map(|clients| phase.clients.unwrap_or(clients.count))
    }

    /// Returns the label of a test: "4K rnd q32", and with clients "4K rnd q32 ×8".
    pub fn label_of(&self, phase: &PlannedPhase) -> String {
        match self.clients_of(phase) {
            Some(clients) => format!("{} ×{clients}", phase.workload.label()),
            None => phase.workload.label(),
        }
    }

    /// Returns true if experiments may be made on a test.
    ///
    /// The test must be timed and long enough. Tests with a count are excluded, except streams from a server: only
    /// experiments show whether the network is saturated there.
    pub fn may_probe(&self, phase: &PlannedPhase) -> bool {
        let is_timed = phase.stop.time_ns.is_some_and(|time_ns| time_ns >= EXPERIMENT_PHASE_NS_MIN);
        let can_repeat = match &phase.workload.work {
            // Once it is discarded, nothing is left for an experiment.
            Work::Data(data) => data.verb != DataVerb::Discard,
            // For other threads, files with data are created again, and no limit counts those bytes.
            Work::Files(files) => !files.writes_data(),
        };
        let is_real = phase.workload.data().is_none() || phase.engine.does_io();
        let is_tried = is_timed || (self.has_server && experiment::is_counted_stream(phase));
        self.has_experiments && is_tried && can_repeat && is_real
    }

    /// Returns true if a test is run again after all tests. It must be timed, nothing else may repeat it, and the run must have time.
    pub fn may_revisit(&self, phase: &PlannedPhase) -> bool {
        let is_repeated = self.repetitions > 1
            || self.sweep.is_some()
            || phase.group.is_some()
            || self.rounds_of(phase).is_some();
        let is_other = match &phase.workload.work {
            // For a second, the page cache takes all writes.
            Work::Data(data) => {
                let is_cached = data.writes() && !data.direct && !data.syncs_each();
                data.passes.is_some() || data.zones.is_some() || is_cached
            }
            Work::Files(files) => files.passes.is_some(),
        };
        let is_same = || experiment::unchanged(phase, self.cache).is_some();
        let is_timed = phase.stop.time_ns.is_some() && phase.workload.arrival() == Arrival::Closed;
        let is_real = !phase.engine.has_virtual_clock() && self.clients.is_none();
        let has_time = self.total_ns >= RETURN_VISITS_TOTAL_NS_MIN;
        self.may_probe(phase) && is_real && is_timed && has_time && !is_repeated && !is_other && is_same()
    }

    /// Returns the part of the total time that tests leave to the experiments and return visits after them. It is the time that
    /// these take, but at most a fifth of the total.
    pub fn experiments_ns(&self) -> u64 {
        volume::experiments_ns(self).min(self.total_ns / 5)
    }

    /// Returns the most bytes that each client may still write from this test of a repetition on, with all that comes
    /// later.
    pub fn remaining_bytes_max(&self, index: usize, repetition: u32) -> u64 {
        let each_bytes = self.bytes_to_write_max / u64::from(self.repetitions.max(1));
        let later_bytes = each_bytes.saturating_mul(self.repetitions.saturating_sub(repetition).into());
        let to_come = &self.phases[index..];
        let refilled_bytes = self
            .dataset
            .as_ref()
            .map_or(0, |dataset| dataset.refill_bytes_max(to_come, self.has_experiments));
        let bytes = to_come.iter().map(volume::bytes_max).chain([later_bytes, refilled_bytes]);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the request that gives this very plan again on the same target, as `--dry-run` prints it.
    pub fn to_request(&self) -> Request {
        let allowed = [
            (self.allow_low_space, Allow::LowSpace),
            (self.allow_busy, Allow::Busy),
            (self.allow_shared_directory, Allow::SharedDirectory),
        ];
        let fixed = self.dataset.as_ref().filter(|dataset| dataset.size_is_fixed);
        let made = self.dataset.as_ref().filter(|dataset| !dataset.is_existing && !dataset.groups.is_empty());
        let files = self.phases.iter().filter_map(|phase| phase.requested_workload().files());
        let loads = files.map(|files| &files.load_file).filter(|file| file.load.is_some());
        Request {
            preset: Some(self.preset.clone()),
            tests: self.tests.clone(),
            tests_where_possible: self.tests_where_possible.clone(),
            mixes: self.mixes.clone(),
            size: fixed.map(|dataset| Size::Bytes(dataset.size_bytes_max)),
            places: made.map(|dataset| dataset.spread.map_or(1, |spread| spread.places)),
            time: Some(Seconds(self.phase_time_ns as f64 / 1e9)),
            // Shares come from percentages with few digits, which the division must not lose.
            precision: self
                .precision_goal
                .map(|precision_goal| Percent((precision_goal.precision * 1e6).round() / 1e4)),
            time_min: self
                .precision_goal
                .map(|precision_goal| Seconds(precision_goal.time_min_ns as f64 / 1e9)),
            total: Some(Seconds(self.total_ns as f64 / 1e9)),
            repeat: Some(self.repetitions),
            seed: self.seed,
            label: self.label.clone(),
            cache: Some(self.cache),
            verify: self.verify_all.then_some(true),
            server_ram: self.server_ram_bytes.map(Size::Bytes),
            probe: Some(self.has_experiments),
            sweep: self.sweep.clone(),
            precondition: self.precondition.as_ref().map(Precondition::requested),
            write_limit: Some(Size::Bytes(self.write_limit_bytes)),
            allow: allowed.into_iter().filter_map(|(is_set, allow)| is_set.then_some(allow)).collect(),
            loads: loads.cloned().collect(),
            ..Request::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::on_disk;

    #[test]
    fn plans_of_older_documents_can_be_read() {
        let mut plan = serde_json::to_value(on_disk(&["read"])).unwrap();
        for key in ["verify_all", "tests", "sweep", "precision_goal", "server_ram_bytes", "has_experiments"] {
            plan.as_object_mut().unwrap().remove(key);
        }
        for key in ["engine", "replaced_workload", "group"] {
            plan["phases"][0].as_object_mut().unwrap().remove(key);
        }
        for key in ["groups", "stamp_interval_bytes"] {
            plan["dataset"].as_object_mut().unwrap().remove(key);
        }
        let plan: Plan = serde_json::from_value(plan).unwrap();
        assert_eq!((plan.phases[0].engine, plan.verify_all), (Engine::Sync, false));
        assert_eq!(plan.dataset.unwrap().stamp_interval_bytes, 4096);
    }
}
