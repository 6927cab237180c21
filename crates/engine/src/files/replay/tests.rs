use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::*;
use crate::budget::UNLIMITED;
use crate::clock::Timer;
use crate::files::{VisitOrder, round};
use crate::names::Tree;
use crate::recorder::{Delta, DeltaReader, Recorder, Shape};

/// A load with every operation. It leaves its directories and nothing else.
const ALL: &str = include_str!("all.txt");

#[derive(Default)]
struct CallCounts {
    ops: u64,
    written_bytes: u64,
    read_bytes: u64,
    steps: Vec<u64>,
}

fn load(text: &str) -> Arc<Load> {
    Arc::new(Load::parse(text).unwrap())
}

fn replay(text: &str) -> Replay {
    Replay::new(load(text), Client { number: 2, count: 3 }, true, 7, 1)
}

/// Replays this number of operations in a directory. Returns the round and its counts.
fn run(replay: &mut Replay, directory: &Path, operations: u64) -> (Round, CallCounts) {
    run_until(replay, directory, operations, u64::MAX)
}

fn run_until(
    replay: &mut Replay,
    directory: &Path,
    operations: u64,
    deadline_ns: u64,
) -> (Round, CallCounts) {
    let opened = std::fs::File::open(directory).unwrap();
    let place =
        FileLocation { directory: opened.as_fd(), leaves: &[], tree: Tree { files: 1, dirs: 1, levels: 1 } };
    let (mut recorder, reader) = Recorder::new(Shape::closed(Operation::STEPS.len()));
    let limits = RoundLimits { deadline_ns, stop: &AtomicBool::new(false), budget: &UNLIMITED };
    assert_eq!(replay.populate(&place, limits).unwrap().0.done, 7);
    // On a slow disk, more intervals pass than the recorder has room for.
    let reader = std::thread::spawn(move || count_of(&reader));
    let round =
        round(replay, &place, VisitOrder::in_sequence(0, operations), &Timer::Kernel, &mut recorder, limits);
    drop(recorder);
    (round, reader.join().unwrap())
}

/// Counts all that a worker hands over.
fn count_of(reader: &DeltaReader) -> CallCounts {
    let mut counted = CallCounts { steps: vec![0; Operation::STEPS.len()], ..CallCounts::default() };
    let mut add = |delta: &Delta| {
        counted.ops += delta.ops;
        counted.written_bytes += delta.written_bytes;
        counted.read_bytes += delta.read_bytes;
        for (sum, step) in counted.steps.iter_mut().zip(&delta.steps) {
            *sum += step.count();
        }
    };
    while !reader.drain_last(&mut add) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    counted
}

fn below(directory: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<_> = entries
        .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
            true => below(&entry.path()).into_iter().chain([(entry.path(), 0)]).collect(),
            false => vec![(entry.path(), entry.metadata().unwrap().len())],
        })
        .collect();
    found.sort();
    found
}

#[test]
fn replay_results_match_load_file_in_every_pass() {
    for reads_parent_dir in [true, false] {
        let temp = tempfile::tempdir().unwrap();
        let mut replay = Replay::new(load(ALL), Client { number: 0, count: 1 }, reads_parent_dir, 7, 1);
        let operations = replay.load.operations;
        let (round, counted) = run(&mut replay, temp.path(), 3 * operations);
        assert_eq!((round.done, &round.result), (3 * operations, &Ok(())));
        assert_eq!(replay.unexpected(), None);
        assert_eq!(counted.ops, 3 * operations);
        assert!(counted.steps.iter().all(|count| *count >= 3), "{:?}", counted.steps);
        assert_eq!(counted.written_bytes, 3 * replay.load.written_bytes);
        assert_eq!(counted.read_bytes, 3 * 1100);
        let left: Vec<_> = below(temp.path()).into_iter().map(|(path, _)| path).collect();
        let expected = ["d00000", "d00000/d00001", "d00000/d00001/d00002"];
        assert_eq!(left, expected.map(|path| temp.path().join(path)));
    }
}

#[test]
fn replay_mismatches_are_counted_with_first_example() {
    let temp = tempfile::tempdir().unwrap();
    let text = "QUERY_PATH_INFORMATION \"\\a\" 1 NT_STATUS_OK\n\
                NTCreateX \"\\a\" 0 1 5 NT_STATUS_OK\nClose 5 NT_STATUS_OK\n\
                NTCreateX \"\\a\" 0 2 5 NT_STATUS_OBJECT_NAME_COLLISION\n\
                NTCreateX \"\\a\" 0 1 5 NT_STATUS_OK\nReadX 5 0 10 10 NT_STATUS_OK\nReadX 5 0 10 0 NT_STATUS_OK\n\
                Unlink \"\\a\" NT_STATUS_OK\nUnlink \"\\a\" *\nRmdir \"\\d\\e\" NT_STATUS_OK\n";
    let mut replay = replay(text);
    let (round, _) = run(&mut replay, temp.path(), 10);
    assert_eq!((round.done, round.result), (10, Ok(())));
    let first = Unexpected { count: 6, line: 1, name: "QUERY_PATH_INFORMATION", errno: Some(Errno::NOENT) };
    assert_eq!(replay.unexpected(), Some(first));
}

#[test]
fn file_system_error_ends_replay() {
    let mut replay = replay("NTCreateX \"\\a\" 0 2 5 NT_STATUS_OK\nWriteX 5 0 9 9 NT_STATUS_OK\n");
    let temp = tempfile::tempdir().unwrap();
    let (round, _) = run(&mut replay, temp.path(), 1);
    assert_eq!((round.done, round.result), (1, Ok(())));
    replay.handles[0] =
        Some(std::fs::File::options().read(true).write(true).open("/dev/full").unwrap().into());
    let (round, _) = run(&mut replay, temp.path(), 1);
    let failure = round.result.unwrap_err();
    assert_eq!((failure.call, failure.file, failure.cause), ("WriteX", 2, Errno::NOSPC.into()));
}

#[test]
fn loops_repeat_and_relative_offsets_advance() {
    let temp = tempfile::tempdir().unwrap();
    let mut replay = replay(
        "NTCreateX \"\\a\" 0 2 5 NT_STATUS_OK\nWriteX 5 0 10 10 NT_STATUS_OK\n\
         LOOP 3\nREPEAT 4\nWriteX 5 +10 10 10 NT_STATUS_OK\nReadX 5 *%40/10 10 10 NT_STATUS_OK\nENDLOOP\n\
         WriteX 5 1000 1 1 NT_STATUS_OK\nWriteX 5 +child 1 1 NT_STATUS_OK\nWriteX 5 +num_children 1 1 NT_STATUS_OK\n",
    );
    let operations = replay.load.operations;
    assert_eq!(operations, 2 + 3 * 5 + 3);
    let (round, counted) = run(&mut replay, temp.path(), 2 + 3 * 5);
    assert_eq!((round.result, counted.written_bytes), (Ok(()), 130));
    let size = below(temp.path())[0].1;
    assert!((50..=80).contains(&size), "each write is behind the one before, or behind the read: {size}");
    run(&mut replay, temp.path(), 3);
    assert_eq!(below(temp.path())[0].1, 1000 + 2 + 3 + 1);
    // All over again, with no handle left open.
    let (round, _) = run(&mut replay, temp.path(), operations);
    assert_eq!((round.result, replay.unexpected()), (Ok(()), None));
}

#[test]
fn timestamped_line_starts_no_earlier_than_its_time() {
    let temp = tempfile::tempdir().unwrap();
    let mut replay = replay(
        "Mkdir \"\\d\" NT_STATUS_OK\n0.05 Mkdir \"\\d\" NT_STATUS_OK\nSLEEP 20000\nMkdir \"\\d\" NT_STATUS_OK\n\
         90 Mkdir \"\\d\" NT_STATUS_OK\n",
    );
    let (round, counted) = run(&mut replay, temp.path(), 3);
    assert_eq!((round.done, round.result), (3, Ok(())));
    assert!(round.end_ns - round.start_ns >= 70_000_000);
    assert_eq!(counted.ops, 3);
    // The last one is due long after the end.
    let deadline_ns = Monotonic.now_ns() + 10_000_000;
    let (round, _) = run_until(&mut replay, temp.path(), 1, deadline_ns);
    assert_eq!((round.done, round.result), (0, Ok(())));
}

/// Returns the largest latency of this number of operations, and the time in which they are made.
fn waited(text: &str, operations: u64) -> (u64, u64) {
    let temp = tempfile::tempdir().unwrap();
    let opened = std::fs::File::open(temp.path()).unwrap();
    let place =
        FileLocation { directory: opened.as_fd(), leaves: &[], tree: Tree { files: 1, dirs: 1, levels: 1 } };
    let (mut recorder, reader) = Recorder::new(Shape::closed(Operation::STEPS.len()));
    let limits = RoundLimits { deadline_ns: u64::MAX, stop: &AtomicBool::new(false), budget: &UNLIMITED };
    let visits = VisitOrder::in_sequence(0, operations);
    let clock = Timer::new_virtual();
    // Intervals pass faster than the recorder has room for.
    let reader = std::thread::spawn(move || {
        let mut max_ns = 0;
        let longest =
            |delta: &Delta| delta.latencies.buckets().last().map_or(0, |(latency_ns, _)| latency_ns);
        while !reader.drain_last(|delta| max_ns = max_ns.max(longest(delta))) {
            std::thread::yield_now();
        }
        max_ns
    });
    let round = round(&mut replay(text), &place, visits, &clock, &mut recorder, limits);
    drop(recorder);
    let max_ns = reader.join().unwrap();
    assert_eq!((round.done, round.result), (operations, Ok(())));
    (max_ns, round.end_ns - round.start_ns)
}

#[test]
fn latency_of_timestamped_lines_excludes_wait() {
    let line = "QUERY_FS_INFORMATION 1 NT_STATUS_OK\n";
    for (text, operations, total_ms) in [
        (format!("0.1 {line}0.3 {line}"), 4, 600),
        // Sleeps within a loop delay its later turns, which the line's time does not know of.
        (format!("LOOP 3\n0.1 {line}SLEEP 50000\nENDLOOP\n"), 3, 200),
        (format!("LOOP 3\n0.1 {line}SLEEP 50000\nENDLOOP\n"), 6, 450),
        (format!("REPEAT 100\n0.1 {line}"), 200, 200),
        (format!("LOOP 100\n0.1 {line}ENDLOOP\n"), 200, 200),
        // The line's time comes while the client sleeps.
        (format!("SLEEP 200000\n0.1 {line}"), 2, 400),
        (format!("SLEEP 200000\n{line}0.1 {line}0.2 {line}"), 3, 200),
    ] {
        let (max_ns, took_ns) = waited(&text, operations);
        assert!(max_ns < 20_000, "{text}: {max_ns}");
        assert_eq!(took_ns / 1_000_000, total_ms, "{text}");
    }
}

#[test]
fn load_without_calls_ends() {
    let temp = tempfile::tempdir().unwrap();
    let mut replay = Replay::new(Arc::default(), Client { number: 0, count: 1 }, true, 7, 1);
    let (round, _) = run(&mut replay, temp.path(), 5);
    assert_eq!((round.done, round.result), (0, Ok(())));
}

#[test]
fn close_error_between_passes_is_returned_or_counted() {
    let temp = tempfile::tempdir().unwrap();
    let mut replay = replay("NTCreateX \"\\a\" 0 2 5 NT_STATUS_OK\nFlush 5 NT_STATUS_OK\n");
    assert_eq!(run(&mut replay, temp.path(), 4).0.result, Ok(()));
    replay.close_result(Err(Errno::BADF));
    let first = Unexpected { count: 1, line: 2, name: "Close", errno: Some(Errno::BADF) };
    assert_eq!((replay.unexpected(), replay.close_error), (Some(first), None));
    replay.next = replay.load.calls.len();
    assert_eq!(run(&mut replay, temp.path(), 2).0.result, Ok(()));
    // Those of the file system are rare, so one takes the place of the kernel's answer.
    replay.close_result(Err(Errno::IO));
    let (round, _) = run(&mut replay, temp.path(), 2);
    let failure = round.result.unwrap_err();
    assert_eq!((round.done, failure.call, failure.file, failure.cause), (0, "Close", 2, Errno::IO.into()));
    assert_eq!(replay.unexpected(), Some(first));
}

#[test]
fn deltree_removes_files_and_keeps_directories() {
    let temp = tempfile::tempdir().unwrap();
    let mut replay = replay(
        "Mkdir \"\\d\" NT_STATUS_OK\nMkdir \"\\d\\e\" NT_STATUS_OK\nNTCreateX \"\\d\\e\\f\" 0 2 1 NT_STATUS_OK\n\
         Deltree \"\\d\" NT_STATUS_OK\nDeltree \"\\g\" NT_STATUS_OK\n",
    );
    let (round, _) = run(&mut replay, temp.path(), 3);
    assert_eq!((round.result, below(temp.path()).len()), (Ok(()), 3));
    run(&mut replay, temp.path(), 2);
    assert_eq!(below(temp.path()).len(), 2);
    assert_eq!(replay.unexpected(), None);
}

#[test]
fn load_without_lines_ends_at_once() {
    let mut empty = Replay::new(Arc::default(), Client { number: 0, count: 1 }, true, 7, 1);
    let temp = tempfile::tempdir().unwrap();
    let (round, _) = run(&mut empty, temp.path(), 5);
    assert_eq!((round.done, round.result), (0, Ok(())));
}
