use std::fs;
use std::path::{Path, PathBuf};

use model::order::{LayoutOrder, TestOrder, Time};
use model::request::{Allow, Request};
use model::run::{PhaseRecord, Status};
use model::spec::{Defaults, parse};
use model::workload::FileVerb;
use model::workload::verbs::Change;
use observe::Root;

use crate::dataset::LayoutProgress;
use crate::session::{Session, SessionOptions};
use crate::side::Side;

/// Runs tests one after the other in a new directory, each for its number of nanoseconds. Before each
/// test, `between` gets its index and the directory of the first thread.
fn run(
    temp: &Path,
    tests: &[(&str, u64)],
    between: impl FnMut(usize, &Path),
) -> (Vec<PhaseRecord>, Vec<String>) {
    run_within(20_000_000_000, temp, tests, between)
}

/// Runs tests that have `budget_ns` each, with the files that they make.
fn run_within(
    budget_ns: u64,
    temp: &Path,
    tests: &[(&str, u64)],
    mut between: impl FnMut(usize, &Path),
) -> (Vec<PhaseRecord>, Vec<String>) {
    let root = Root::system();
    let target = observe::target(&root, temp).unwrap();
    let request = Request {
        tests: tests.iter().map(|(spec, _)| (*spec).to_owned()).collect(),
        allow: vec![Allow::LowSpace],
        ..Request::default()
    };
    let plan = model::plan::plan(&request, &target, &observe::machine(&root)).unwrap();
    let mut session = Session::open(&root, &plan, &target, SessionOptions::default()).unwrap();
    session.lay_out(&LayoutOrder::new(u64::MAX), &LayoutProgress::default()).unwrap();
    let work = fs::read_dir(temp).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    let records = plan.phases.iter().zip(tests).enumerate().map(|(index, (phase, (_, measured_ns)))| {
        between(index, &work.join("t0000"));
        let time = Time { measured_ns: *measured_ns, budget_ns };
        session.phase(phase, &TestOrder::new(0, 1, time), &mut |_| {}).record
    });
    let records = records.collect();
    let left = Box::new(session).close().removal.unwrap().wait().unwrap().left;
    let below = |path: &Path| path.strip_prefix(&work).unwrap_or(path).display().to_string();
    (records, left.iter().map(|(path, _)| below(path)).collect())
}

/// Returns a directory where files are made at once, whatever the state of this machine's file systems.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

const ONE_ROUND: u64 = 50_000_000;

#[test]
fn files_are_visited_even_if_creation_exceeds_test_time() {
    let temp = in_memory();
    let (records, _) = run_within(ONE_ROUND, temp.path(), &[("stat:files=100k", ONE_ROUND)], |_, _| {});
    assert!(records[0].counts.ops > 0, "{:?}", records[0]);
}

#[test]
fn partial_round_in_directory_order_is_recovered() {
    let temp = in_memory();
    let tests = [
        ("create:files=5000", ONE_ROUND),
        ("unlink:order=dir:files=5000", 100_000),
        ("stat:order=dir:files=5000", ONE_ROUND),
    ];
    let (records, left) = run(temp.path(), &tests, |_, _| {});
    assert!(records[1].counts.passes < 1.0 && records[1].status == Status::Done, "{:?}", records[1].reason);
    assert_eq!(records[2].status, Status::Done, "{:?}", records[2].reason);
    assert_eq!(records[2].workload.files, 5000);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn missing_file_fails_test_and_foreign_file_is_kept() {
    let temp = in_memory();
    let tests = [
        ("create:files=100:names=number-first", ONE_ROUND),
        ("stat:order=dir:files=100:names=number-first", ONE_ROUND),
        ("unlink:order=dir:files=100:names=number-first", ONE_ROUND),
    ];
    let first_of = |thread: &Path| -> PathBuf {
        let mut paths = fs::read_dir(thread).unwrap().map(|entry| entry.unwrap().path());
        paths.find(|path| path.file_name().unwrap().as_encoded_bytes().starts_with(b"f0")).unwrap()
    };
    let (records, left) = run(temp.path(), &tests, |index, thread| {
        if index == 1 {
            fs::remove_file(first_of(thread)).unwrap();
            fs::write(thread.join("precious"), "mine").unwrap();
        }
    });
    assert_eq!(records[1].status, Status::Failed);
    let reason = records[1].reason.as_deref().unwrap();
    assert!(reason.starts_with("cannot list every file in ") && reason.contains("/t0000"), "{reason}");
    assert!(reason.contains("100 files were expected, and 99 were listed"), "{reason}");
    assert!(reason.contains("use order=seq"), "{reason}");
    // The next test made the set anew, and left the file that skye did not make.
    assert_eq!(left, ["t0000/precious"]);
}

#[test]
fn changed_name_style_or_kind_recreates_the_file_set() {
    let temp = in_memory();
    let specs = [
        "create:files=50",
        "stat:files=50:names=letters-first",
        "unlink:files=50:names=letters-first",
        "create:files=50:kind=symlink:dirs=3:names=number-first",
        "stat:files=50:kind=hardlink:dirs=3:order=dir",
        "open:files=50:kind=symlink:dirs=3:order=rnd",
        "stat:files=50:contents:size=1..3k:chunk=512",
        "rename:files=50:names=letters-first",
    ];
    let (records, left) = run(temp.path(), &specs.map(|spec| (spec, ONE_ROUND)), |_, _| {});
    for (record, spec) in records.iter().zip(specs) {
        assert_eq!(record.status, Status::Done, "{spec}: {:?}", record.reason);
        assert!(record.counts.passes >= 1.0, "{spec}");
    }
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn mix_does_not_disturb_files_of_later_tests() {
    let temp = in_memory();
    let tests = [
        ("create:files=50", ONE_ROUND),
        ("mix:mail:t2:files=40", ONE_ROUND),
        ("mix:database:files=3", ONE_ROUND),
        ("stat:files=50", ONE_ROUND),
        ("mix:build:files=30", ONE_ROUND),
        ("mix:mail:t3:shared:files=60", ONE_ROUND),
        ("mix:home:t2:rate=200", 4 * ONE_ROUND),
    ];
    let (records, left) = run(temp.path(), &tests, |_, _| {});
    for (record, (spec, time_ns)) in records.iter().zip(&tests) {
        assert_eq!(record.status, Status::Done, "{spec}: {:?}", record.reason);
        let is_mix = spec.starts_with("mix");
        // A mix is one measured part, of about the requested time; a busy machine makes it longer.
        assert_eq!(record.figures.rounds.is_empty(), is_mix, "{spec}");
        assert!(!is_mix || record.counts.elapsed_ns >= *time_ns / 2, "{spec}: {}", record.counts.elapsed_ns);
        let operations: u64 = record.figures.steps.iter().map(|step| step.ops).sum();
        assert!(!is_mix || operations >= record.counts.ops && record.counts.ops > 0, "{spec}");
    }
    let paced = records.last().unwrap();
    assert_eq!(paced.workload.arrival, "open_loop_fixed");
    assert!(paced.counts.ops <= 41 && paced.figures.queueing_ns.is_some(), "{:?}", paced.counts);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn operations_make_exactly_the_declared_steps() {
    let temp = in_memory();
    let forms = [
        "",
        ":missing",
        ":order=rnd",
        ":order=dir:sync=each",
        ":size=4k",
        ":size=4k:sync=each",
        ":size=4k:contents:order=dir",
        ":size=4k:by=copy-range",
        ":kind=hardlink",
        ":kind=symlink:sync=each",
    ];
    // Files in memory have attributes since Linux 6.6.
    let is_tried = |verb: &&FileVerb| verb.change() != Change::Mixed && !verb.uses_attributes();
    let verbs = FileVerb::ALL.iter().filter(is_tried);
    let specs = verbs.flat_map(|verb| forms.map(|form| format!("{verb}:files=20:dirs=3{form}")));
    let workloads: Vec<_> =
        specs.filter_map(|spec| Some((parse(&spec, &Defaults::default()).ok()?, spec))).collect();
    let tests: Vec<_> = workloads.iter().map(|(_, spec)| (spec.as_str(), ONE_ROUND / 50)).collect();
    let (records, left) = run(temp.path(), &tests, |_, _| {});
    for (record, (workload, spec)) in records.iter().zip(&workloads) {
        assert_eq!(record.status, Status::Done, "{spec}: {:?}", record.reason);
        let mut declared: Vec<_> = workload.files().unwrap().steps().iter().map(|step| step.name).collect();
        declared.dedup();
        let made: Vec<_> = record.figures.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(made, declared, "{spec}");
    }
    assert!(records.len() > 60 && left.is_empty(), "{left:?}");
}
