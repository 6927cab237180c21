//! The requested tests of a plan: read from their specs, and repeated over the sweep.

use super::checks::{polling_refused, refused_on_existing_target};
use crate::load::LoadFile;
use crate::machine::Machine;
use crate::mix;
use crate::request::{Count, Request};
use crate::size;
use crate::spec::{self, Defaults, SpecError};
use crate::sweep::Sweep;
use crate::target::Target;
use crate::user_error::UserError;
use crate::workload::{Arrival, FileVerb, OpenRate, Work, Workload};

/// Most phases that a sweep may make.
const SWEPT_PHASES_MAX: usize = 100;

/// The tests of a request.
pub(super) struct RequestedTests {
    pub(super) tests: Vec<Workload>,
    /// Tests that follow if the device can do them.
    pub(super) where_possible: Vec<Workload>,
}

/// One test of the list after the sweep.
pub(super) struct SweptTest {
    pub(super) workload: Workload,
    pub(super) group: Option<String>,
    /// Number of clients that make it; `None` for all.
    pub(super) clients: Option<u32>,
}

impl RequestedTests {
    /// Reads the specs; the flags fill in what a spec leaves out.
    pub(super) fn parse(request: &Request, machine: &Machine) -> Result<Self, UserError> {
        let mixes =
            mix::parse_all(&request.mixes.0).map_err(|problem| UserError::new("read a mix", problem))?;
        let missing = |spec: &&String| mix::file_of(spec).is_some_and(|path| !mixes.contains_key(path));
        if let Some(spec) = request.tests.iter().chain(&request.tests_where_possible).find(missing) {
            return Err(UserError::new(format!("run `{spec}`"), "its file was not read"));
        }
        let defaults = Defaults {
            files: request.files.map_or(Defaults::default().files, |Count(files)| files),
            direct: request.direct,
            engine: request.engine,
            shift: request.shift,
            cpus: machine.cpus,
            mixes: &mixes,
        };
        if request.tests.is_empty() {
            return Err(UserError::new("make a plan", "no test requested")
                .help("use --preset, or add --test, for example --test read:rnd4k:q32"));
        }
        // Tests that not every device can do state themselves how they are issued, so these flags do not apply to them.
        let own_way = Defaults { direct: None, engine: None, ..defaults };
        let parse = |specs: &[String], defaults: &Defaults| {
            let workloads =
                specs.iter().map(|text| Ok(with_load(spec::parse(text, defaults)?, &request.loads)));
            workloads
                .collect::<Result<_, SpecError>>()
                .map_err(|problem| UserError::new("make a plan", problem))
        };
        let mut requested = Self {
            tests: parse(&request.tests, &defaults)?,
            where_possible: parse(&request.tests_where_possible, &own_way)?,
        };
        if request.cold == Some(true) {
            requested.make_cold()?;
        }
        Ok(requested)
    }

    /// Makes every test with name look-ups cold.
    fn make_cold(&mut self) -> Result<(), UserError> {
        let mut is_any = false;
        for workload in self.tests.iter_mut().chain(&mut self.where_possible) {
            if let Work::Files(files) = &mut workload.work
                && files.can_be_cold()
            {
                files.cold = true;
                is_any = true;
            }
        }
        let refused = || {
            UserError::new(
                "make tests cold",
                "--cold is for tests that look up names, and no such test is requested",
            )
            .help("drop --cold, or add a test such as --test stat")
        };
        is_any.then_some(()).ok_or_else(refused)
    }
}

/// Gives a replay its load, if it was read.
fn with_load(mut workload: Workload, loads: &[LoadFile]) -> Workload {
    if let Work::Files(files) = &mut workload.work
        && files.verb == FileVerb::Replay
        && let Some(read) = loads.iter().find(|read| **read == files.load_file)
    {
        files.load_file = read.clone();
    }
    workload
}

/// Refuses replays of several clients, and of loads that were not read. Returns notes on lines that are left out.
pub(super) fn check_loads<'a>(
    tests: impl Iterator<Item = &'a Workload>,
    is_shared_by_clients: bool,
) -> Result<Vec<String>, UserError> {
    let mut notes: Vec<String> = Vec::new();
    let on_files = tests.filter_map(|test| Some((test, test.files()?)));
    for (test, files) in on_files.filter(|(_, files)| files.verb == FileVerb::Replay) {
        let refused = |cause: String| UserError::new(format!("run `{}`", spec::print(test)), cause);
        if is_shared_by_clients {
            return Err(refused("replay runs on one host".into())
                .help("drop --hosts, and use threads as clients, such as t8"));
        }
        let Some(load) = files.load() else {
            let cause = format!("the load file {} was not read", files.load_file.name);
            return Err(refused(cause).help("use a file that skye run can read"));
        };
        let name = &files.load_file.name;
        // Without `passes`, no number bounds what the files become.
        let grows = (files.passes.is_none() && load.growth_bytes > 0).then(|| {
            format!(
                "{name}: writes at random offsets (* or +) may add {} to a client's files in each pass; use passes=N \
                 or --write-limit",
                size::binary(load.growth_bytes)
            )
        });
        for note in load.left_out_note(name).into_iter().chain(grows) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    Ok(notes)
}

/// Returns the request of a preset for a device or a file, on which not every test is possible. The others follow where
/// they are possible, which is nowhere there.
pub fn adapt_to_existing_target(request: Request, target: &Target) -> Request {
    let is_possible = |test: &String| {
        let workload = spec::parse(test, &Defaults::default());
        workload.is_ok_and(|workload| refused_on_existing_target(&workload, target).is_none())
    };
    let (tests, others): (Vec<_>, Vec<_>) = request.tests.into_iter().partition(is_possible);
    let tests_where_possible = others.into_iter().chain(request.tests_where_possible).collect();
    Request { tests, tests_where_possible, ..request }
}

/// Adds the tests that this target can do. Returns a note on those that it cannot do, for each reason.
pub(super) fn add_supported_tests(
    tests: &mut Vec<Workload>,
    where_possible: Vec<Workload>,
    target: &Target,
    machine: &Machine,
) -> Vec<String> {
    let mut left_out: Vec<(String, Vec<String>)> = Vec::new();
    for workload in where_possible {
        let polls = workload.data().is_some_and(|data| data.iopoll);
        let nothing_to_poll = || target.device_stack.is_empty().then(|| "its device is not visible".into());
        let cannot_poll =
            || polling_refused(target).or_else(nothing_to_poll).or_else(|| machine.io_uring_refused.clone());
        let refused = refused_on_existing_target(&workload, target).map(|(cause, _)| cause);
        let refused = refused.or_else(|| cannot_poll().filter(|_| polls));
        let Some(reason) = refused else {
            tests.push(workload);
            continue;
        };
        let spec = spec::print(&workload);
        match left_out.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, specs)) => specs.push(spec),
            None => left_out.push((reason, vec![spec])),
        }
    }
    let note = |(reason, specs): (String, Vec<String>)| format!("skipped {}: {reason}", specs.join(", "));
    left_out.into_iter().map(note).collect()
}

/// Returns the number, from 1, and the verb: "03-rewrite".
pub(super) fn phase_id(index: usize, workload: &Workload) -> String {
    format!("{:02}-{}", index + 1, workload.name())
}

/// Returns every test at every point of the sweep, or the tests as they are where nothing is swept.
pub(super) fn expand(
    tests: &[Workload],
    sweep: Option<Sweep>,
    loads: &[LoadFile],
) -> Result<Vec<SweptTest>, UserError> {
    let Some(sweep) = sweep else {
        let alone = |test: &Workload| SweptTest { workload: test.clone(), group: None, clients: None };
        return Ok(tests.iter().map(alone).collect());
    };
    let mut swept = Vec::new();
    for (index, test) in tests.iter().enumerate() {
        let group = phase_id(index, test);
        let points = sweep.expand(test).map_err(|problem| {
            UserError::new(format!("sweep `{}` over {sweep}", spec::print(test)), problem)
        })?;
        let clients = sweep.clients();
        swept.extend(points.into_iter().enumerate().map(|(index, workload)| SweptTest {
            // The points are read from their specs.
            workload: with_load(workload, loads),
            group: Some(group.clone()),
            clients: clients.as_ref().and_then(|each| each.get(index).copied()),
        }));
    }
    if swept.len() > SWEPT_PHASES_MAX {
        return Err(UserError::new(
            format!("sweep over {sweep}"),
            format!("it has {} phases, more than {SWEPT_PHASES_MAX}", swept.len()),
        )
        .help("sweep fewer tests or a smaller range"));
    }
    Ok(swept)
}

/// Refuses rates that are shares of a closed loop which no earlier test measures.
pub(super) fn check_shares(swept: &[SweptTest]) -> Result<(), UserError> {
    for (index, SweptTest { workload, .. }) in swept.iter().enumerate() {
        let Arrival::Open { rate: OpenRate::Percent(percent), .. } = workload.arrival() else { continue };
        let closed = workload.with_arrival(Arrival::Closed);
        if !swept[..index].iter().any(|before| before.workload == closed) {
            return Err(UserError::new(
                format!("run `{}`", spec::print(workload)),
                format!("rate={percent}% needs an earlier test that measures the full rate"),
            )
            .help(format!("add `{}` before it, or use rate=N", spec::print(&closed))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::load::{Load, LoadFile};
    use crate::plan::fixtures::{FORBIDDEN, disk_that_polls, on_disk, planned, planned_on, request_for};
    use crate::plan::{Clients, Plan};
    use crate::request::Request;
    use crate::target::Backing;
    use crate::workload::RequestedEngine;

    #[test]
    fn engine_flag_applies_only_to_block_tests() {
        let request = Request {
            engine: Some(RequestedEngine::Sync),
            verify: Some(true),
            ..request_for(&["read:q4", "byte-read", "read:rnd4k:q4:engine=uring"])
        };
        let plan = planned(&request, Backing::Devices, None).unwrap();
        assert_eq!(plan.tests, ["read:seq1m:q4:engine=sync", "byte-read", "read:rnd4k:q4:engine=uring"]);
        assert!(plan.verify_all);
        assert_eq!(plan.phases[0].workload.threads, 4);
    }

    #[test]
    fn unsupported_test_is_left_out_if_optional_else_refused() {
        let request = Request {
            tests_where_possible: vec!["read:rnd4k:q8:iopoll".into()],
            ..request_for(&["read:rnd4k:q8"])
        };
        let specs = |io_poll| {
            let plan = planned_on(&request, &disk_that_polls(io_poll)).unwrap();
            (plan.phases.len(), plan.notes)
        };
        assert_eq!(specs(Some(true)), (2, vec![]));
        let left_out = "skipped read:rnd4k:q8:iopoll: sda has no poll queues";
        assert_eq!(specs(Some(false)), (1, vec![left_out.into()]));
        assert_eq!(specs(None).0, 2, "an old kernel does not say");
        let without_devices = planned(&request, Backing::Memory, None).unwrap();
        assert!(without_devices.notes.iter().any(|note| note.ends_with("its device is not visible")));

        let flags = Request { direct: Some(false), engine: Some(RequestedEngine::Sync), ..request.clone() };
        let with_flags = planned_on(&flags, &disk_that_polls(Some(true))).unwrap();
        assert_eq!(with_flags.tests_where_possible, ["read:rnd4k:q8:iopoll"]);

        let requested = request_for(&["read:rnd4k:q8:iopoll"]);
        let problem = planned_on(&requested, &disk_that_polls(Some(false))).unwrap_err();
        assert_eq!(problem, "cannot run `read:rnd4k:q8:iopoll` in /mnt: sda has no poll queues; drop iopoll");
        assert_eq!(planned_on(&requested, &disk_that_polls(Some(true))).unwrap().phases.len(), 1);
    }

    #[test]
    fn sweeps_become_phases_of_a_group() {
        let request = Request { sweep: Some("t1..tn".into()), ..request_for(&["read:rnd4k", "stat"]) };
        let plan = planned(&request, Backing::Devices, None).unwrap();
        let phases: Vec<_> = plan
            .phases
            .iter()
            .map(|phase| (phase.id.as_str(), phase.group.as_deref().unwrap_or(""), phase.workload.threads))
            .collect();
        assert_eq!(
            phases[..3],
            [("01-read", "01-read", 1), ("02-read", "01-read", 2), ("03-read", "01-read", 4)]
        );
        assert_eq!(phases[4..6], [("05-stat", "02-stat", 1), ("06-stat", "02-stat", 2)]);
        assert_eq!(plan.tests, ["read:rnd4k", "stat"]);
        assert_eq!(plan.sweep.as_deref(), Some("t1..t8"));

        let rates = Request { sweep: Some("rate".into()), ..request_for(&["read:rnd4k:q8"]) };
        assert_eq!(planned(&rates, Backing::Devices, Some(FORBIDDEN)).unwrap().phases.len(), 6);
    }

    #[test]
    fn impossible_sweeps_are_refused() {
        let problem = |sweep: &str, tests: &[&str]| {
            let request = Request { sweep: Some(sweep.into()), ..request_for(tests) };
            planned(&request, Backing::Devices, None).unwrap_err()
        };
        assert!(problem("q1-q4", &["read"]).starts_with("cannot make a plan: `q1-q4` is not a sweep"));
        assert_eq!(
            problem("q1..q4", &["read", "create"]),
            "cannot sweep `create` over q1..q4: create has no depth; use a sweep of its threads, for example t1..t16"
        );
        assert_eq!(
            problem("q1..q64", &["read:rnd4k"; 15]),
            "cannot sweep over q1..q64: it has 105 phases, more than 100; sweep fewer tests or a smaller range"
        );
    }

    #[test]
    fn rate_percentage_without_full_rate_is_refused() {
        let closed_first = ["read:rnd4k:q4", "write:seq1m", "read:rnd4k:q4:rate=50%"];
        assert_eq!(on_disk(&closed_first).phases.len(), 3);
        for tests in [&["read:rnd4k:rate=50%"][..], &["read:rnd4k:q4", "read:rnd4k:rate=50%"]] {
            assert_eq!(
                planned(&request_for(tests), Backing::Devices, None).unwrap_err(),
                "cannot run `read:rnd4k:rate=50%`: rate=50% needs an earlier test that measures the full rate; add \
                 `read:rnd4k` before it, or use rate=N"
            );
        }
    }

    fn replaying(test: &str) -> Request {
        let text = "NTCreateX \"\\d\\f\" 0 2 1 NT_STATUS_OK\nWriteX 1 9000 1000 1000 NT_STATUS_OK\n\
                    WriteX 1 0 1000 1000 NT_STATUS_OK\nSETSP 1\nSETSP 2\n";
        let load = Some(Load::parse(text).unwrap().into());
        Request { loads: vec![LoadFile { name: "my.txt".into(), load }], ..request_for(&[test]) }
    }

    #[test]
    fn replay_plan_has_the_parsed_load() {
        let plan = planned(&replaying("replay:my.txt:t4"), Backing::Devices, None).unwrap();
        let files = plan.phases[0].workload.files().unwrap();
        assert_eq!(files.inodes(4), 12, "the root, a directory and a file of each thread");
        assert_eq!((files.set_bytes_max(4), files.prepared_bytes_max(4)), (8000, 0));
        assert_eq!(files.space_bytes_max(4), 40_000);
        let note = "my.txt: skipped unknown operations: SETSP (2 lines, the first is 4)";
        assert!(plan.notes.iter().any(|line| line == note), "{:?}", plan.notes);
        // A plan from the same request has the load, too; a document has its name.
        let again = planned(&plan.to_request(), Backing::Devices, None).unwrap();
        assert!(again.phases[0].workload.files().unwrap().load().is_some());
        let read: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        let files = read.phases[0].workload.files().unwrap();
        assert_eq!((files.load().is_none(), files.load_file.name.as_str()), (true, "my.txt"));
        let passes = planned(&replaying("replay:my.txt:t4:passes=3"), Backing::Devices, None).unwrap();
        assert_eq!(passes.bytes_to_write_max, 24_000);
    }

    #[test]
    fn every_sweep_point_replays_the_load_file() {
        let swept = Request { sweep: Some("t1..t4".into()), ..replaying("replay:my.txt") };
        let plan = planned(&swept, Backing::Devices, None).unwrap();
        let bytes: Vec<_> = plan
            .phases
            .iter()
            .map(|phase| phase.workload.files().unwrap().set_bytes_max(phase.workload.threads))
            .collect();
        assert_eq!(bytes, [2000, 4000, 8000]);
        assert_eq!(plan.notes.iter().filter(|note| note.contains("skipped")).count(), 1);
    }

    #[test]
    fn growing_replay_files_have_space_or_a_note() {
        let grown = |spec: &str, text: &str| {
            let load = Some(Load::parse(text).unwrap().into());
            let request =
                Request { loads: vec![LoadFile { name: "my.txt".into(), load }], ..request_for(&[spec]) };
            let plan = planned(&request, Backing::Devices, None).unwrap();
            let has_note =
                plan.notes.iter().any(|note| note.contains("may add 1.95 KiB to a client's files"));
            (plan.phases[0].workload.files().unwrap().space_bytes_max(2), has_note)
        };
        let opened = |disposition| format!("NTCreateX \"\\f\" 0 {disposition} 1 NT_STATUS_OK\n");
        let random = "WriteX 1 0 500 500 NT_STATUS_OK\nREPEAT 2\nWriteX 1 *%9999 1000 1000 NT_STATUS_OK\n";
        let text = opened(2) + random;
        assert_eq!(grown("replay:my.txt:t2:passes=4", &text), (2 * (2500 + 3 * 2000), false));
        assert_eq!(grown("replay:my.txt:t2", &text), (2 * 2500, true));
        // A file that is cut or removed in each pass grows no further, and neither does one without random offsets.
        for text in [
            opened(5) + random,
            opened(2) + random + "Unlink \"\\f\" NT_STATUS_OK\n",
            text.replace("*%9999", "+9"),
        ] {
            assert_eq!(grown("replay:my.txt:t2:passes=4", &text), (2 * 2500, false), "{text}");
            assert_eq!(grown("replay:my.txt:t2", &text), (2 * 2500, false), "{text}");
        }
    }

    #[test]
    fn replay_without_load_or_on_several_hosts_is_refused() {
        let problem = planned(&replaying("replay:other.txt"), Backing::Devices, None).unwrap_err();
        assert!(problem.contains("the load file other.txt was not read"), "{problem}");
        let possible =
            Request { tests_where_possible: vec!["replay:other.txt".into()], ..request_for(&["stat"]) };
        assert_eq!(planned(&possible, Backing::Devices, None).unwrap_err(), problem);
        let clients = Some(Clients { count: 2, number: None, clients_on_file_system: 1 });
        let machine = crate::plan::fixtures::machine(None);
        let problem =
            crate::plan::plan_for(&replaying("replay:my.txt"), &disk_that_polls(None), &machine, clients);
        let problem = problem.unwrap_err().to_string();
        assert!(problem.contains("replay runs on one host; drop --hosts"), "{problem}");
    }
}
