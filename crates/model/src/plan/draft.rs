//! The steps from a request to its plan.

use super::checks::{
    check_attributes, check_buffers, check_cold, check_direct, check_discard, check_erased,
    check_existing_target, check_links, check_open_files, check_polling, check_shared_by_clients,
    shared_directory, verify_note,
};
use super::choice::{choose, depth_notes, unify_sweep_engines};
use super::dataset::{check_parts, plan_dataset};
use super::requested::{
    RequestedTests, SweptTest, add_supported_tests, check_loads, check_shares, expand, phase_id,
};
use super::room::{DATASET_BYTES_MIN, Room, Rooms, Writes};
use super::volume::{
    PROBE_BYTES, WRITE_LIMIT_BYTES, WRITE_LIMIT_BYTES_MAX, estimate, share_write_limit, stop_of,
    whole_seconds,
};
use super::{
    CUSTOM, ClientSite, Clients, Dataset, PHASE_SECONDS, PHASE_SECONDS_MIN, PRECISION, Plan, PlannedPhase,
    PrecisionGoal, Precondition, REPETITIONS_MAX, SIMULATED, Spread, precondition,
};
use crate::layer::{Layer, LayerKind};
use crate::machine::Machine;
use crate::request::{Allow, Request, SECONDS_MAX, Seconds};
use crate::size::{self, Size};
use crate::spec;
use crate::sweep::Sweep;
use crate::target::{Backing, Target};
use crate::user_error::UserError;
use crate::workload::{CacheMode, DataWork, Workload};

/// Largest number of tests in a request.
const TESTS_MAX: usize = 4096;

/// Values that a plan needs before it is known. A plan that does not fit is made again from better ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstGuess {
    /// Bytes of the data set, next to which files fit.
    laid_out_bytes: u64,
    /// Bytes of the write limit that a data set may take, as a divisor.
    dataset_divisor: u64,
}

impl Default for FirstGuess {
    fn default() -> Self {
        Self { laid_out_bytes: 0, dataset_divisor: 1 }
    }
}

/// Makes the plan from a guess.
pub(super) fn plan_from(
    request: &Request,
    clients: Option<Clients>,
    places: &[ClientSite<'_>],
    guess: FirstGuess,
) -> Result<Plan, UserError> {
    let draft = Draft::new(request, clients, places)?;
    let Draft { target, machine, .. } = draft;
    let RequestedTests { mut tests, mut where_possible } = RequestedTests::parse(request, machine)?;
    let rooms = draft.rooms(places, guess, Writes::from_tests(request, tests.iter().chain(&where_possible)));
    let is_set = request.files.is_some() || target.kind.is_existing();
    let fewer_files = rooms
        .fit_files(tests.iter_mut().chain(&mut where_possible).filter(|_| !is_set), guess.laid_out_bytes);
    let listed = draft.list_tests(RequestedTests { tests, where_possible })?;
    draft.check_place()?;
    let precision_goal = precision_goal(request, draft.time)?;
    let phases = draft.phases(&listed)?;
    draft.check_phases(&phases)?;

    let dataset = draft.dataset(&phases, rooms.least())?;
    if let Err(error) = rooms.check_files(&phases, dataset.as_ref()) {
        // The files were chosen before the data was known.
        return match dataset.as_ref().map_or(0, Dataset::file_bytes_max) {
            bytes if bytes > guess.laid_out_bytes => {
                plan_from(request, clients, places, FirstGuess { laid_out_bytes: bytes, ..guess })
            }
            _ => Err(error),
        };
    }
    check_parts(&phases, dataset.as_ref(), target)?;
    let unread_counters = check_open_files(&phases, dataset.as_ref(), machine)?;
    let left_out = listed.left_out.clone();
    let mut plan = Plan { precision_goal, ..draft.plan(listed, phases, dataset)? };

    let can_be_smaller = request.size.is_none()
        && plan.dataset.as_ref().is_some_and(|dataset| dataset.size_bytes_max > dataset.size_bytes_min)
        && guess.dataset_divisor <= plan.write_limit_bytes;
    match draft.share_write_limit(&mut plan) {
        Err(_) if can_be_smaller => {
            let dataset_divisor = guess.dataset_divisor * 2;
            return plan_from(request, clients, places, FirstGuess { dataset_divisor, ..guess });
        }
        shared => shared?,
    }
    plan.notes = target_notes(target);
    plan.notes.extend(fewer_files.into_iter().chain(unread_counters).chain(left_out));
    plan.notes.extend(draft.size_note(plan.dataset.as_ref()));
    plan.notes.extend(depth_notes(&plan.phases, machine));
    plan.notes.extend(verify_note(request, &plan.phases));
    set_times(&mut plan, request.total.is_some());
    Ok(plan)
}

/// A request and its place: the values that all steps of a plan read.
#[derive(Clone, Copy)]
struct Draft<'a> {
    request: &'a Request,
    clients: Option<Clients>,
    /// Target of the first client.
    target: &'a Target,
    /// Machine of the first client.
    machine: &'a Machine,
    write_limit_bytes: u64,
    /// Measured time of each phase.
    time: Seconds,
    cache: CacheMode,
}

/// Tests of a plan, before their engines are chosen.
struct ListedTests {
    /// Requested tests, as specs.
    specs: Vec<String>,
    /// Tests that follow if the device can run them, as specs.
    specs_where_possible: Vec<String>,
    sweep: Option<Sweep>,
    /// Tests that run, at each point of the sweep.
    swept: Vec<SweptTest>,
    /// Notes on tests and on lines of loads that are left out.
    left_out: Vec<String>,
}

impl<'a> Draft<'a> {
    /// Returns the draft for the first of the places.
    fn new(
        request: &'a Request,
        clients: Option<Clients>,
        places: &[ClientSite<'a>],
    ) -> Result<Self, UserError> {
        let Some(ClientSite { target, machine, .. }) = places.first().copied() else {
            return Err(UserError::new("make a plan", "there is no client"));
        };
        let count = request.tests.len() + request.tests_where_possible.len();
        if count > TESTS_MAX {
            let cause = format!("{count} tests are requested, and the maximum is {TESTS_MAX}");
            return Err(UserError::new("make a plan", cause).help("split it into several runs"));
        }
        let write_limit_bytes = request
            .write_limit
            .map_or(WRITE_LIMIT_BYTES, |limit| limit.resolve(target.space.free_bytes, machine.memory_bytes));
        if write_limit_bytes > WRITE_LIMIT_BYTES_MAX {
            let cause = format!("a write limit of {write_limit_bytes} bytes is too large to have an effect");
            return Err(UserError::new("make a plan", cause).help("use at most 1024t"));
        }
        let time = request.time.unwrap_or(Seconds(PHASE_SECONDS));
        let usual_cache = if request.cold == Some(true) { CacheMode::DropAll } else { CacheMode::Cold };
        let cache = request.cache.unwrap_or(usual_cache);
        Ok(Self { request, clients, target, machine, write_limit_bytes, time, cache })
    }

    fn allows(&self, allow: Allow) -> bool {
        self.request.allow.contains(&allow)
    }

    fn rooms(&self, places: &[ClientSite<'_>], guess: FirstGuess, writes: Writes) -> Rooms {
        let room_of = |place: &ClientSite<'_>| {
            let clients = self
                .clients
                .map(|clients| Clients { clients_on_file_system: place.clients_on_file_system, ..clients });
            let dataset_bytes = self.write_limit_bytes / guess.dataset_divisor;
            let allow_low_space = self.allows(Allow::LowSpace);
            Room::new(place.target, place.machine, clients, dataset_bytes, allow_low_space, writes)
        };
        Rooms::new(places.iter().map(room_of).collect())
    }

    /// Returns the tests that run, at each point of the sweep.
    fn list_tests(&self, requested: RequestedTests) -> Result<ListedTests, UserError> {
        let Self { request, target, machine, .. } = *self;
        let RequestedTests { mut tests, where_possible } = requested;
        let print = |tests: &[Workload]| tests.iter().map(spec::print).collect();
        let (specs, specs_where_possible) = (print(&tests), print(&where_possible));
        let mut left_out = add_supported_tests(&mut tests, where_possible, target, machine);
        let sweep = request.sweep.as_ref().map(|text| Sweep::parse(text, machine.cpus)).transpose();
        let sweep = sweep.map_err(|problem| UserError::new("make a plan", problem))?;
        let swept = expand(&tests, sweep, &request.loads)?;
        let workloads = || swept.iter().map(|swept| &swept.workload);
        left_out.extend(check_loads(workloads(), self.clients.is_some())?);
        check_shares(&swept)?;
        check_erased(request, target)?;
        check_existing_target(workloads(), request, target)?;
        Ok(ListedTests { specs, specs_where_possible, sweep, swept, left_out })
    }

    /// Refuses a directory that cannot be written to, or that is dangerous for root.
    fn check_place(&self) -> Result<(), UserError> {
        let Self { target, machine, .. } = *self;
        if target.read_only && !target.kind.is_existing() {
            let cause = format!("{} is mounted read-only", target.mount_point);
            return Err(UserError::new(format!("test in {}", target.path), cause)
                .help("choose a directory on a writable file system"));
        }
        match shared_directory(target, machine).filter(|_| !self.allows(Allow::SharedDirectory)) {
            None => Ok(()),
            Some(danger) => Err(UserError::new(format!("run as root in {}", target.path), danger).help(
                "choose a directory that only root may write to, use another user, or add --allow shared-directory",
            )),
        }
    }

    /// Returns the phases, with their engines and stop rules.
    fn phases(&self, listed: &ListedTests) -> Result<Vec<PlannedPhase>, UserError> {
        let mut phases = Vec::with_capacity(listed.swept.len());
        for (index, SweptTest { workload, group, clients }) in listed.swept.iter().enumerate() {
            let (engine, instead) = choose(workload, self.target.backing, self.machine)?;
            let replaced_workload = instead.is_some().then(|| workload.clone());
            let workload = instead.unwrap_or_else(|| workload.clone());
            let id = phase_id(index, &workload);
            let stop = stop_of(&workload, engine, self.time, self.cache, self.target);
            let (group, clients) = (group.clone(), *clients);
            phases.push(PlannedPhase { id, workload, engine, replaced_workload, group, clients, stop });
        }
        unify_sweep_engines(&mut phases);
        precondition::check(&phases, self.request, self.target)?;
        if self.request.precondition.is_some() {
            precondition::lengthen(&mut phases, self.time);
        }
        Ok(phases)
    }

    /// Refuses phases that the target or the machine cannot run.
    fn check_phases(&self, phases: &[PlannedPhase]) -> Result<(), UserError> {
        let Self { request, target, machine, .. } = *self;
        check_direct(phases, target)?;
        check_polling(phases, target)?;
        check_discard(phases, target)?;
        check_buffers(phases, machine)?;
        check_cold(phases, self.cache, request.cold == Some(true), target, machine)?;
        check_links(phases, target)?;
        check_attributes(phases, target)?;
        if self.clients.is_some() { check_shared_by_clients(phases) } else { Ok(()) }
    }

    /// Returns the data set, with its spread over the file system.
    fn dataset(&self, phases: &[PlannedPhase], room: &Room) -> Result<Option<Dataset>, UserError> {
        let Self { request, target, machine, .. } = *self;
        let is_shared_by_clients = self.clients.is_some();
        let mut dataset = plan_dataset(request, phases, target, machine, room, is_shared_by_clients)?;
        if let Some(dataset) = dataset.as_mut().filter(|_| !is_shared_by_clients) {
            dataset.spread = Spread::new(request.places, dataset, room.usable_bytes(), target)?;
        }
        Ok(dataset)
    }

    /// Returns the plan without its goal, bytes, times and notes.
    fn plan(
        &self,
        listed: ListedTests,
        phases: Vec<PlannedPhase>,
        dataset: Option<Dataset>,
    ) -> Result<Plan, UserError> {
        let Self { request, target, machine, time, .. } = *self;
        let precondition =
            Precondition::from_request(request, &phases, dataset.as_ref(), target, machine, time)?;
        let repetitions = request.repeat.unwrap_or(1);
        if !(1..=REPETITIONS_MAX).contains(&repetitions) {
            let cause = format!("{repetitions} repetitions are out of range");
            return Err(
                UserError::new("make a plan", cause).help(format!("use --repeat 1 to {REPETITIONS_MAX}"))
            );
        }
        Ok(Plan {
            preset: request.preset.clone().unwrap_or_else(|| CUSTOM.into()),
            seed: request.seed,
            label: request.label.clone(),
            repetitions,
            phase_time_ns: time.as_ns(),
            precision_goal: None,
            total_ns: request.total.map_or(u64::MAX, Seconds::as_ns),
            estimate_ns: 0,
            estimate_spread_ns: 0,
            write_limit_bytes: self.write_limit_bytes,
            bytes_to_write_max: 0,
            cache: self.cache,
            verify_all: request.verify.unwrap_or(false),
            has_server: target.backing == Backing::RemoteOrUserSpace,
            server_ram_bytes: request
                .server_ram
                .map(|size| size.resolve(target.space.free_bytes, machine.memory_bytes)),
            has_experiments: request.probe.unwrap_or(true),
            tests: listed.specs,
            tests_where_possible: listed.specs_where_possible,
            mixes: request.mixes.clone(),
            sweep: listed.sweep.map(|sweep| sweep.to_string()),
            precondition,
            dataset,
            phases,
            notes: Vec::new(),
            clients: self.clients,
            allow_busy: self.allows(Allow::Busy),
            allow_low_space: self.allows(Allow::LowSpace),
            allow_shared_directory: self.allows(Allow::SharedDirectory),
        })
    }

    /// Gives each phase that writes its part of the write limit.
    fn share_write_limit(&self, plan: &mut Plan) -> Result<(), UserError> {
        let dataset = plan.dataset.as_ref();
        let has_files = dataset.is_some_and(|dataset| !dataset.groups.is_empty());
        let probed_bytes = if self.target.may_compress() && has_files { PROBE_BYTES } else { 0 };
        let refilled_bytes =
            dataset.map_or(0, |dataset| dataset.refill_bytes_max(&plan.phases, plan.has_experiments));
        let filled_bytes =
            plan.precondition.as_ref().zip(dataset).map_or(0, |(fill, dataset)| fill.bytes_max(dataset));
        let extra_bytes = probed_bytes.saturating_add(refilled_bytes).saturating_add(filled_bytes);
        plan.bytes_to_write_max = share_write_limit(
            &mut plan.phases,
            dataset,
            plan.repetitions,
            self.clients,
            self.write_limit_bytes,
            extra_bytes,
        )?;
        Ok(())
    }

    /// Returns the note on a size that was rounded, or that is small.
    fn size_note(&self, dataset: Option<&Dataset>) -> Option<String> {
        let dataset = dataset?;
        let size_bytes = dataset.size_bytes_max;
        match self.request.size {
            Some(Size::Bytes(requested)) if requested != size_bytes => Some(format!(
                "--size {} becomes {}, a multiple of the block sizes of all tests",
                size::exact(requested),
                size::exact(size_bytes)
            )),
            Some(_) => None,
            None => {
                let has_own_files = !dataset.is_existing && !dataset.groups.is_empty();
                (has_own_files && size_bytes < DATASET_BYTES_MIN).then(|| {
                    format!("a data set of {} is small: it may fit into caches", size::binary(size_bytes))
                })
            }
        }
    }
}

/// Sets the estimate, and a hard limit far beyond it unless the limit is requested.
fn set_times(plan: &mut Plan, is_requested: bool) {
    let (estimate_ns, spread_ns) = estimate(plan);
    let longest_ns = estimate_ns.saturating_add(spread_ns).saturating_mul(2);
    let is_counted = |phase: &PlannedPhase| {
        let has_count = |data: &DataWork| data.passes.is_some() || data.ops.is_some() || data.bytes.is_some();
        phase.workload.data().is_some_and(|data| data.zones.is_some() || has_count(data))
    };
    let usual_ns = match plan.phases.iter().any(is_counted) {
        // The rate is not known in advance, and the request is for a whole device, or a count.
        true => SECONDS_MAX.as_ns(),
        false => whole_seconds(longest_ns.saturating_add(60_000_000_000)),
    };
    if !is_requested {
        plan.total_ns = usual_ns;
    }
    plan.estimate_ns = estimate_ns.min(plan.total_ns);
    plan.estimate_spread_ns = spread_ns.min(plan.total_ns.saturating_sub(estimate_ns));
}

/// Returns the condition under which phases may end before their time. A requested time without a precision is kept to
/// the second.
fn precision_goal(request: &Request, time: Seconds) -> Result<Option<PrecisionGoal>, UserError> {
    let precision = match (request.precision, request.time, request.time_min) {
        (None, Some(_), Some(_)) => {
            return Err(UserError::new("make a plan", "`time_min` requires `precision`")
                .help("add for example precision = \"2%\""));
        }
        (None, Some(_), None) => return Ok(None),
        (precision, ..) => precision.unwrap_or(PRECISION),
    };
    let time_min = request.time_min.unwrap_or(Seconds(PHASE_SECONDS_MIN.min(time.0)));
    if time_min > time {
        return Err(UserError::new(
            "make a plan",
            format!("`time_min` ({time_min}) is longer than `time` ({time})"),
        )
        .help("set a longer `time`"));
    }
    Ok(Some(PrecisionGoal { precision: precision.share(), time_min_ns: time_min.as_ns() }))
}

/// Returns notes on the target.
fn target_notes(target: &Target) -> Vec<String> {
    let mut notes = target.notes.clone();
    let is = |layer: &Layer, kind| layer.kind == kind;
    let shows_devices = target.layers.iter().any(|layer| is(layer, LayerKind::Device));
    match target.backing {
        Backing::RemoteOrUserSpace if shows_devices => {}
        Backing::RemoteOrUserSpace => notes.push(format!(
            "{} is remote or user-space: skye reads no counters of the storage below",
            target.file_system
        )),
        // One note has all that a container hides.
        Backing::Unknown if target.container_note().is_some() => {}
        Backing::Unknown => notes.push(format!(
            "the devices under {} were not found: their counters are missing",
            target.mount_point
        )),
        Backing::Simulated => notes.push(SIMULATED.into()),
        Backing::Memory | Backing::Devices => {}
    }
    notes.extend(target.image_notes());
    if target.erased.is_some() {
        notes.push(format!("{} is erased: all its data is lost", target.path));
    }
    if target.is_used_read_only() {
        notes.push("read-only: nothing is written, and reads are not verified".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn visible_layers_below_a_server_replace_its_note() {
        let mut target = fixtures::disk_that_polls(None);
        target.backing = Backing::RemoteOrUserSpace;
        target.layers = vec![Layer { below: vec![1], ..Layer::new(LayerKind::Fuse, "fuse.bindfs") }];
        let has = |target: &Target, text: &str| target_notes(target).iter().any(|note| note.contains(text));
        assert!(has(&target, "reads no counters"));
        let loop_device = Layer { below: vec![2], ..Layer::new(LayerKind::Device, "loop0") };
        target.layers.extend([loop_device, Layer::new(LayerKind::PageCache, "page cache")]);
        assert!(!has(&target, "reads no counters") && has(&target, "loop0 is buffered"));
    }
}
