//! Preconditioning by SNIA's "Solid State Storage Performance Test Specification". The data is filled before the tests,
//! and a test is repeated in rounds until it is steady.

use serde::{Deserialize, Serialize};

use super::choice::choose;
use super::{Dataset, PlannedPhase, Stop};
use crate::machine::Machine;
use crate::request::{Preconditioning, Request, Seconds};
use crate::spec;
use crate::target::{Backing, Target};
use crate::user_error::UserError;
use crate::workload::{Arrival, DataVerb, DataWork, Work, Workload};

/// Times that a fill writes all data (section "Workload Independent Preconditioning" of the specification).
pub const FILLS: u64 = 2;
/// Bytes of a block of the fill (the same section).
pub const FILL_BLOCK_BYTES: u64 = 128 << 10;
/// Operations in flight during a fill. The specification leaves them to the user; a drive gets full with these.
const FILL_DEPTH: u32 = 32;
/// Most rounds of a test (section "Steady State Verification" of the specification).
pub const ROUNDS_MAX: u32 = 25;
/// Rounds of the measurement window: fewer cannot be steady.
pub const ROUNDS_MIN: u32 = 5;

/// Work before the tests, and the rounds of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Precondition {
    /// True if all data is discarded before it is filled.
    pub has_purge: bool,
    /// Writing all data twice: a test for each group of files, or one on a simulated device.
    pub fills: Vec<PlannedPhase>,
    /// Time of a round.
    pub round_ns: u64,
    /// Most rounds of a test.
    pub rounds_max: u32,
}

/// Refuses to precondition where that is impossible.
pub(super) fn check(phases: &[PlannedPhase], request: &Request, target: &Target) -> Result<(), UserError> {
    if request.precondition.is_none() {
        return Ok(());
    }
    let action = || format!("precondition {}", target.path);
    if target.is_used_read_only() {
        let cause = format!("it is {}, which skye only reads", target.kind.name());
        return Err(UserError::new(action(), cause).help("choose a directory, or drop preconditioning"));
    }
    if !phases.iter().any(has_rounds) {
        return Err(UserError::new(action(), "no test can be repeated until its rate is steady")
            .help("add a time-based data test in blocks, such as --test write:rnd4k:q32"));
    }
    let is_fresh = |phase: &&PlannedPhase| phase.workload.data().is_some_and(|data| data.fresh);
    if let Some(phase) = phases.iter().find(is_fresh) {
        let cause = format!(
            "`{}` creates new files, which cannot be preconditioned",
            spec::print(phase.requested_workload())
        );
        return Err(UserError::new(action(), cause).help("drop fresh"));
    }
    Ok(())
}

/// Returns true for time-based, closed-loop block tests, which are repeated until steady.
pub(super) fn has_rounds(phase: &PlannedPhase) -> bool {
    let Stop { time_ns, ops, passes, .. } = phase.stop;
    let is_timed = time_ns.is_some() && ops.is_none() && passes.is_none();
    let is_in_blocks = |data: &DataWork| !data.verb.is_bytes() && data.arrival == Arrival::Closed;
    is_timed && phase.engine.does_io() && phase.workload.data().is_some_and(is_in_blocks)
}

/// Gives each test that has rounds the time of all of them.
pub(super) fn lengthen(phases: &mut [PlannedPhase], round: Seconds) {
    for phase in phases.iter_mut().filter(|phase| has_rounds(phase)) {
        phase.stop.time_ns = Some(round.as_ns().saturating_mul(ROUNDS_MAX.into()));
    }
}

/// Returns the tests that fill the data.
fn fills(
    phases: &[PlannedPhase],
    dataset: &Dataset,
    backing: Backing,
    machine: &Machine,
) -> Result<Vec<PlannedPhase>, UserError> {
    let direct = phases.iter().filter_map(|phase| phase.workload.data()).any(|data| data.direct);
    let mut all = Vec::new();
    let simulated = [None];
    let groups: Vec<_> = dataset.groups.iter().map(Some).collect();
    for group in if groups.is_empty() { &simulated[..] } else { &groups } {
        let data = DataWork {
            block_bytes: FILL_BLOCK_BYTES,
            direct,
            shared: group.is_some_and(|group| group.is_shared),
            files: group.map(|group| group.files).filter(|files| *files > 1),
            compress_percent: group.map_or(0, |group| group.compress_percent),
            dedupe_percent: group.map_or(0, |group| group.dedupe_percent),
            passes: Some(FILLS),
            ..DataWork::new(DataVerb::Write)
        };
        let requested = Workload { threads: 1, iodepth: FILL_DEPTH, work: Work::Data(data) };
        let (engine, instead) = choose(&requested, backing, machine)?;
        let (workload, replaced_workload) = match instead {
            Some(instead) => (instead, Some(requested)),
            None => (requested, None),
        };
        let id = format!("fill-{}", all.len() + 1);
        let stop = Stop { passes: Some(FILLS), ..Stop::default() };
        all.push(PlannedPhase { id, workload, engine, replaced_workload, group: None, clients: None, stop });
    }
    Ok(all)
}

impl Precondition {
    /// Returns the work before the tests; `None` if none is requested.
    pub(super) fn from_request(
        request: &Request,
        phases: &[PlannedPhase],
        dataset: Option<&Dataset>,
        target: &Target,
        machine: &Machine,
        round: Seconds,
    ) -> Result<Option<Self>, UserError> {
        let (Some(requested), Some(dataset)) = (request.precondition, dataset) else { return Ok(None) };
        Ok(Some(Self {
            has_purge: requested == Preconditioning::Purge,
            fills: fills(phases, dataset, target.backing, machine)?,
            round_ns: round.as_ns(),
            rounds_max: ROUNDS_MAX,
        }))
    }

    /// Returns the most bytes that the fills write into files.
    pub(super) fn bytes_max(&self, dataset: &Dataset) -> u64 {
        let is_real = self.fills.iter().any(|fill| !fill.engine.has_virtual_clock());
        if is_real { dataset.file_bytes_max().saturating_mul(FILLS) } else { 0 }
    }

    /// Returns the word of the request for it.
    pub(super) fn requested(&self) -> Preconditioning {
        if self.has_purge { Preconditioning::Purge } else { Preconditioning::Fill }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::fixtures::{FORBIDDEN, planned, request_for};
    use crate::request::{Preconditioning, Request, Seconds};
    use crate::size::Size;
    use crate::spec;
    use crate::target::Backing;
    use crate::workload::Engine;

    const GIB: u64 = 1 << 30;

    fn precondition_request(tests: &[&str]) -> Request {
        Request {
            precondition: Some(Preconditioning::Fill),
            size: Some(Size::Bytes(GIB)),
            time: Some(Seconds(10.0)),
            probe: Some(false),
            ..request_for(tests)
        }
    }

    #[test]
    fn fills_are_counted_and_rounds_last_for_test_time() {
        let tests =
            ["write:rnd4k:q32", "read:rnd4k:ops=9", "read:rnd4k:rate=9", "read:seq1m:buffered", "stat"];
        let plan = planned(&precondition_request(&tests), Backing::Devices, None).unwrap();
        let precondition = plan.precondition.as_ref().unwrap();
        assert_eq!((precondition.round_ns, precondition.rounds_max), (10_000_000_000, 25));
        let [fill] = &precondition.fills[..] else { panic!("{precondition:?}") };
        assert_eq!(spec::print(&fill.workload), "write:seq128k:q32:passes=2");
        assert_eq!(fill.engine, Engine::Uring);
        let rounds: Vec<_> = plan.phases.iter().map(|phase| plan.rounds_of(phase).is_some()).collect();
        assert_eq!(rounds, [true, false, false, false, false]);
        let times: Vec<_> =
            plan.phases.iter().map(|phase| phase.stop.time_ns.map(|ns| ns / 1_000_000_000)).collect();
        assert_eq!(times, [Some(250), None, Some(10), Some(10), Some(10)]);
        // The layout, two fills, and the rest of the limit for the one test that writes.
        assert_eq!(plan.bytes_to_write_max, plan.write_limit_bytes);
        let test_bytes = plan.phases[0].stop.bytes.unwrap();
        assert_eq!(plan.bytes_to_write_max - test_bytes, 3 * GIB);
        let again = planned(&plan.to_request(), Backing::Devices, None).unwrap();
        assert_eq!((again.precondition, again.phases), (plan.precondition, plan.phases));
        // Without a ring, depth is made of threads, in the same file.
        let plan =
            planned(&precondition_request(&["write:rnd4k"]), Backing::Devices, Some(FORBIDDEN)).unwrap();
        let fill = &plan.precondition.unwrap().fills[0];
        assert_eq!((fill.engine, fill.workload.threads), (Engine::Sync, 32));
    }

    #[test]
    fn impossible_precondition_is_refused() {
        let problem = |request: &Request| planned(request, Backing::Devices, None).unwrap_err();
        let tight =
            Request { write_limit: Some(Size::Bytes(3 * GIB)), ..precondition_request(&["write:rnd4k:q32"]) };
        let refused = problem(&tight);
        assert!(
            refused.contains("files and tests need at least 3.22 GB; use --write-limit 4GB"),
            "{refused}"
        );
        assert!(
            problem(&precondition_request(&["stat"]))
                .contains("no test can be repeated until its rate is steady")
        );
        assert!(problem(&precondition_request(&["read:ops=9"])).contains("a time-based data test in blocks"));
        let refused = problem(&precondition_request(&["write:rnd4k", "write:fresh:files=2"]));
        assert!(
            refused.contains("creates new files, which cannot be preconditioned; drop fresh"),
            "{refused}"
        );
    }
}
