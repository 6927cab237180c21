//! How each test is issued: by a ring, by plain system calls, or by the engine that it names.

use super::PlannedPhase;
use crate::machine::{Machine, ring_bytes};
use crate::size;
use crate::spec;
use crate::target::Backing;
use crate::user_error::UserError;
use crate::workload::{DataVerb, DataWork, Engine, SyncMode, Workload};

/// Chooses how a test is issued, and its replacement if that engine has no depth.
///
/// A ring is worth its cost only where several operations are truly in flight: with `O_DIRECT` and depth. All other
/// tests use plain system calls, as programs do, and get their depth from threads.
pub(super) fn choose(
    requested: &Workload,
    backing: Backing,
    machine: &Machine,
) -> Result<(Engine, Option<Workload>), UserError> {
    if backing == Backing::Simulated {
        return check_simulated(requested).map(|()| (Engine::Sim, None));
    }
    let Some(data) = requested.data() else { return Ok((Engine::Sync, None)) };
    let io_uring_refused = ring_refused(requested, machine);
    let engine = match data.engine {
        _ if data.verb.is_stdio() => Engine::Stdio,
        Some(requested) => requested.into(),
        None if data.iopoll || data.sqpoll => Engine::Uring,
        None if suits_ring(requested) && io_uring_refused.is_none() => Engine::Uring,
        None => Engine::Sync,
    };
    if let Some(reason) = io_uring_refused.filter(|_| engine.has_ring()) {
        let mut help = format!("drop {}", ring_words(data).join(" and "));
        if engine.does_io() {
            help.push_str(": skye then uses threads for depth");
        }
        return Err(
            UserError::new(format!("run `{}` with io_uring", spec::print(requested)), reason).help(help)
        );
    }
    if !engine.has_depth() && requested.in_flight() > spec::CONCURRENCY_MAX {
        return Err(UserError::new(
            format!("run `{}`", spec::print(requested)),
            format!(
                "without io_uring it needs {} threads, more than {}",
                requested.in_flight(),
                spec::CONCURRENCY_MAX
            ),
        )
        .help("use less depth or fewer threads"));
    }
    let instead = (!engine.has_depth() && requested.iodepth > 1).then(|| {
        Workload { threads: requested.in_flight(), iodepth: 1, work: requested.work.clone() }
            .with_default_files()
    });
    Ok((engine, instead))
}

/// Issues all points of a sweep through one engine. Otherwise the first point, without depth, would differ from the
/// others in its engine, too.
pub(super) fn unify_sweep_engines(phases: &mut [PlannedPhase]) {
    for index in 0..phases.len() {
        let has_ring = |other: &PlannedPhase| {
            other.group.is_some() && other.group == phases[index].group && other.engine == Engine::Uring
        };
        if phases[index].engine == Engine::Sync && phases.iter().any(has_ring) {
            phases[index].engine = Engine::Uring;
        }
    }
}

/// Returns why the rings of a test cannot be made here; `None` if they can.
fn ring_refused(requested: &Workload, machine: &Machine) -> Option<String> {
    let (rings, lockable_bytes) = (requested.threads, machine.lockable_bytes.unwrap_or(u64::MAX));
    let wanted_bytes = ring_bytes(requested.iodepth).saturating_mul(u64::from(rings));
    let is_too_much = wanted_bytes > lockable_bytes;
    machine.io_uring_refused.clone().or_else(|| {
        is_too_much.then(|| {
            let (wanted, limit) = (size::exact(wanted_bytes), size::exact(lockable_bytes));
            format!("{rings} rings need {wanted} of locked memory, RLIMIT_MEMLOCK is {limit}: raise it with ulimit -l")
        })
    })
}

/// Refuses what a simulated device cannot serve.
fn check_simulated(requested: &Workload) -> Result<(), UserError> {
    let refused = |cause: String, help: &str| {
        Err(UserError::new(format!("run `{}` on a simulated device", spec::print(requested)), cause)
            .help(help))
    };
    match requested.data() {
        None => {
            refused("a simulated device has no files".into(), "use data tests, such as --test read:rnd4k:q8")
        }
        Some(data) if data.verb.is_bytes() => refused(
            format!("{} needs a file, and a simulated device has none", data.verb),
            "use data tests in blocks, such as read:rnd4k",
        ),
        Some(data) if data.verb == DataVerb::Discard => {
            refused("a simulated device has no data to discard".into(), "drop it")
        }
        Some(data) if data.fresh => refused("a simulated device has no files".into(), "drop fresh"),
        Some(data) if data.uncached || data.atomic || data.sync == SyncMode::Dsync => {
            refused("a simulated device has no flags of calls".into(), "drop uncached, atomic or sync=dsync")
        }
        Some(data) if !ring_words(data).is_empty() => {
            let words = ring_words(data).join(" and ");
            refused(
                format!("a simulated device has its own engine: {words} has no effect"),
                &format!("drop {words}"),
            )
        }
        Some(_) => Ok(()),
    }
}

/// Returns the words of a spec that set how operations are issued.
fn ring_words(data: &DataWork) -> Vec<String> {
    let engine = data.engine.map(|engine| format!("engine={engine}"));
    let polls = [(data.iopoll, "iopoll"), (data.sqpoll, "sqpoll")];
    engine.into_iter().chain(polls.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).into())).collect()
}

/// Returns true if a ring suits a test without a requested engine.
pub fn suits_ring(requested: &Workload) -> bool {
    requested.iodepth > 1
        && requested.data().is_some_and(|data| {
            // A ring would hand each discard to a thread of the kernel.
            let waits = (data.syncs_each() && data.sync != SyncMode::Dsync) || data.verb == DataVerb::Discard;
            data.engine.is_none() && data.direct && !waits
        })
}

/// Returns notes on why depth became threads, one for each cause, each with the deepest test.
pub(super) fn depth_notes(phases: &[PlannedPhase], machine: &Machine) -> Vec<String> {
    let deepest = |lacks_ring: bool| {
        phases
            .iter()
            .filter(|phase| {
                phase.replaced_workload.as_ref().is_some_and(|requested| suits_ring(requested) == lacks_ring)
            })
            .max_by_key(|phase| (phase.requested_workload().iodepth, phase.requested_workload().threads))
            .map(|phase| (phase.requested_workload(), phase.workload.threads))
    };
    let mut notes = Vec::new();
    if let Some((requested, threads)) = deepest(true)
        && let Some(reason) = ring_refused(requested, machine)
    {
        let Workload { iodepth, threads: from, .. } = requested;
        notes.push(format!(
            "io_uring is not available ({reason}): q{iodepth}t{from} becomes q1t{threads}, {threads} threads of \
             plain system calls"
        ));
    }
    if let Some((requested @ Workload { iodepth, threads: from, .. }, threads)) = deepest(false) {
        let why = match requested.data() {
            Some(DataWork { engine: Some(engine), .. }) => format!("engine={engine}"),
            Some(data) if !data.direct => "buffered".into(),
            Some(data) if data.verb == DataVerb::Fsync => "fsync".into(),
            Some(data) if data.verb == DataVerb::Discard => "discard".into(),
            Some(data) if data.sync_every.is_some() => "sync=N".into(),
            _ => "sync=each".into(),
        };
        notes.push(format!("only io_uring has depth: q{iodepth}t{from} {why} becomes q1t{threads}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixtures::{FORBIDDEN, machine, on_disk, planned, request_for};
    use crate::request::Request;
    use crate::spec::Defaults;

    #[test]
    fn io_uring_is_chosen_only_where_it_helps() {
        use Engine::{Nop, Null, Stdio, Sync, Uring};
        for (spec, free, refused) in [
            ("read:rnd4k", (Sync, "4K rnd q1"), Some((Sync, "4K rnd q1"))),
            ("read:rnd4k:q32t4", (Uring, "4K rnd q32t4"), Some((Sync, "4K rnd q1t128"))),
            ("rw:q8:sync=none", (Uring, "4K rnd q8 sync=none"), Some((Sync, "4K rnd q1t8 sync=none"))),
            ("write:q8:sync=each", (Sync, "1M q1t8 sync=each"), Some((Sync, "1M q1t8 sync=each"))),
            ("fsync:q8", (Sync, "4K rnd q1t8"), Some((Sync, "4K rnd q1t8"))),
            ("read:q8:buffered", (Sync, "1M q1t8 buffered"), Some((Sync, "1M q1t8 buffered"))),
            ("rewrite:q2t3", (Sync, "1M q1t6"), Some((Sync, "1M q1t6"))),
            ("read:q8:engine=sync", (Sync, "1M q1t8"), Some((Sync, "1M q1t8"))),
            ("read:buffered:engine=uring", (Uring, "1M q1 buffered"), None),
            ("read:q8:engine=null", (Null, "1M q8 engine=null"), Some((Null, "1M q8 engine=null"))),
            ("read:q8:engine=nop", (Nop, "1M q8 engine=nop"), None),
            ("read:rnd4k:iopoll", (Uring, "4K rnd q1 iopoll"), None),
            ("read:rnd4k:sqpoll", (Uring, "4K rnd q1 sqpoll"), None),
            ("byte-read:t2", (Sync, "t2"), Some((Sync, "t2"))),
            ("putc-write", (Stdio, "t1"), Some((Stdio, "t1"))),
            ("stat:t4", (Sync, "t4"), Some((Sync, "t4"))),
        ] {
            let choice = |refused: Option<&str>| {
                let plan = planned(&request_for(&[spec]), Backing::Devices, refused).ok()?;
                let phase = &plan.phases[0];
                assert_eq!(
                    phase.replaced_workload.is_some(),
                    phase.requested_workload().iodepth != phase.workload.iodepth
                );
                assert_eq!(plan.tests, [spec::print(phase.requested_workload())]);
                Some((phase.engine, phase.workload.label()))
            };
            let expected = |(engine, label): (Engine, &str)| (engine, label.to_owned());
            assert_eq!(choice(None), Some(expected(free)), "{spec}");
            assert_eq!(choice(Some(FORBIDDEN)), refused.map(expected), "{spec} without io_uring");
        }
    }

    #[test]
    fn rings_over_memlock_limit_are_replaced_by_threads() {
        assert_eq!((ring_bytes(1), ring_bytes(32), ring_bytes(128)), (8192, 8192, 16384));
        let machine = Machine { lockable_bytes: Some(64 << 10), ..machine(None) };
        let engine = |spec: &str| {
            choose(&spec::parse(spec, &Defaults::default()).unwrap(), Backing::Devices, &machine)
        };
        assert_eq!(engine("read:rnd4k:q32t8").unwrap(), (Engine::Uring, None));
        let (engine_of_more, instead) = engine("read:rnd4k:q32t9").unwrap();
        assert_eq!((engine_of_more, instead.map(|instead| instead.threads)), (Engine::Sync, Some(288)));
        let problem = engine("read:rnd4k:q32t9:engine=uring").unwrap_err().to_string();
        assert!(problem.contains("9 rings need 72k of locked memory, RLIMIT_MEMLOCK is 64k"), "{problem}");
    }

    #[test]
    fn sweep_points_share_one_engine() {
        let engines = |sweep: &str, spec: &str| {
            let request = Request { sweep: Some(sweep.into()), ..request_for(&[spec]) };
            let plan = planned(&request, Backing::Devices, None).unwrap();
            plan.phases.iter().map(|phase| phase.engine).collect::<Vec<_>>()
        };
        assert_eq!(engines("q1..q4", "read:rnd4k"), [Engine::Uring; 3]);
        assert_eq!(engines("q1..q4", "read:rnd4k:buffered"), [Engine::Sync; 3]);
        assert_eq!(engines("t1..t4", "read:rnd4k"), [Engine::Sync; 3]);
    }

    #[test]
    fn option_needing_io_uring_is_refused_without_it() {
        let problem =
            |spec: &str| planned(&request_for(&[spec]), Backing::Devices, Some(FORBIDDEN)).unwrap_err();
        assert_eq!(
            problem("read:q8:engine=uring"),
            "cannot run `read:seq1m:q8:engine=uring` with io_uring: kernel.io_uring_disabled is 2; drop engine=uring: skye then uses threads for depth"
        );
        assert!(problem("read:q8:iopoll").ends_with("drop iopoll: skye then uses threads for depth"));
        assert!(problem("read:engine=uring:sqpoll").contains("drop engine=uring and sqpoll"));
        assert!(problem("read:engine=nop").ends_with("drop engine=nop"));
    }

    #[test]
    fn depth_turned_into_threads_is_noted_once_per_cause() {
        let tests = ["read:rnd4k:q8", "read:rnd4k:q32t4", "fsync:q4", "read:q8:buffered", "read:q1"];
        let plan = planned(&request_for(&tests), Backing::Devices, Some(FORBIDDEN)).unwrap();
        assert_eq!(
            plan.notes,
            [
                "io_uring is not available (kernel.io_uring_disabled is 2): q32t4 becomes q1t128, 128 threads of \
                 plain system calls",
                "only io_uring has depth: q8t1 buffered becomes q1t8",
            ]
        );
        assert_eq!(on_disk(&["fsync:q4"]).notes, ["only io_uring has depth: q4t1 fsync becomes q1t4"]);
        assert!(on_disk(&["read:rnd4k:q32t4"]).notes.is_empty());
    }

    #[test]
    fn simulated_device_runs_block_tests_only() {
        let request = request_for(&["write:q8", "read:buffered", "fsync:q2", "read:rnd4k:rate=500"]);
        let plan = planned(&request, Backing::Simulated, Some(FORBIDDEN)).unwrap();
        assert!(
            plan.phases.iter().all(|phase| phase.engine == Engine::Sim && phase.replaced_workload.is_none())
        );
        assert!(plan.phases.iter().all(|phase| (phase.stop.bytes, phase.stop.passes) == (None, None)));
        assert_eq!(plan.notes, [crate::plan::SIMULATED]);
        assert!(plan.dataset.unwrap().groups.is_empty());
        for (spec, expected) in [
            (
                "create",
                "cannot run `create` on a simulated device: a simulated device has no files; use data tests, such as \
                 --test read:rnd4k:q8",
            ),
            ("byte-read", "use data tests in blocks, such as read:rnd4k"),
            (
                "write:fresh",
                "cannot run `write:seq1m:fresh` on a simulated device: a simulated device has no files; drop fresh",
            ),
            ("read:engine=sync", "drop engine=sync"),
            ("read:engine=uring:iopoll", "drop engine=uring and iopoll"),
        ] {
            let problem = planned(&request_for(&[spec]), Backing::Simulated, None).unwrap_err();
            assert!(problem.ends_with(expected), "{problem}");
        }
    }
}
