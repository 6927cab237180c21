//! Ranks of an MPI job, by both libraries with one program: they make one run, and leave nothing however they end.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::fleet::{children_of, eventually};
use crate::support::program::{Skye, assert_nothing_left, leftovers, parse_document, skye};
use crate::support::scratch;

/// Room for the files of all ranks.
const ROOM: u64 = 256 << 20;
const OPEN_MPI: (&str, &[&str]) =
    ("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
const MPICH: (&str, &[&str]) = ("mpirun.mpich", &[]);

/// Returns the program as ranks of a job.
fn ranks((launcher, options): (&str, &[&str]), count: u32, program: Skye) -> Skye {
    let count = count.to_string();
    // Jobs of Open MPI that start at once fail to make the directory that they share.
    program.with_home_in("OMPI_MCA_orte_tmpdir_base").through(launcher, &[&["-n", &count], options].concat())
}

fn run(directory: &Path, words: &str) -> Skye {
    let words = format!("--size 1m --cache warm --no-save --allow low-space,busy,shared-directory {words}");
    skye().arg("run").arg(directory).words(&words)
}

fn measure(launcher: (&str, &[&str])) {
    for count in [2, 4, 16] {
        let directory = scratch(ROOM);
        let words = "--time 0.3 --json - --test read:rnd4k:buffered --test create:files=20";
        let ran = ranks(launcher, count, run(directory.path(), words)).run().did_not_panic().exits(0);
        assert_nothing_left(directory.path());
        let document: Value = parse_document(&ran.stdout);
        let hosts = document["hosts"].as_array().unwrap();
        assert_eq!(hosts.len(), count as usize, "{ran}");
        // All run on one machine, and are numbered there.
        let machine = document["environment"]["host"].as_str().unwrap();
        assert_eq!(hosts[1]["name"], format!("{machine}#2"));
        for phase in document["phases"].as_array().unwrap() {
            assert_eq!(phase["together"]["clients"], count, "{phase:#}");
            let of_clients = phase["hosts"].as_array().unwrap().iter();
            let ops: u64 = of_clients.map(|client| client["ops"].as_u64().unwrap()).sum();
            assert_eq!(phase["ops"], ops);
        }
    }
}

#[test]
fn ranks_of_open_mpi_are_merged_into_one_run() {
    xtask::require!(openmpi);
    measure(OPEN_MPI);
}

#[test]
#[ignore = "long"]
fn ranks_of_mpich_are_merged_into_one_run() {
    xtask::require!(mpich);
    measure(MPICH);
}

/// Returns all processes below one, however deep.
fn below(parent: u32) -> Vec<Pid> {
    let children = children_of(parent);
    let deeper = children.iter().flat_map(|child| below(child.as_raw_nonzero().get() as u32));
    deeper.chain(children.iter().copied()).collect()
}

/// Returns the processes of these whose command line has this word.
fn with_word(processes: Vec<Pid>, word: &str) -> Vec<Pid> {
    let has_word = |pid: &Pid| {
        let line =
            std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        line.split('\0').nth(1) == Some(word)
    };
    processes.into_iter().filter(has_word).collect()
}

/// Lets a signal reach one process of a job while its test is measured. Whatever the launcher does then, no file is left.
fn lose(launcher: (&str, &[&str]), chosen: fn(u32) -> Vec<Pid>, signal: Signal) {
    let directory = scratch(ROOM);
    let words = "--time 30 --test read:rnd4k:buffered";
    let running = ranks(launcher, 3, run(directory.path(), words)).spawn();
    eventually("the files of all", || leftovers(directory.path()).len() >= 3);
    std::thread::sleep(Duration::from_millis(fastrand::u64(..500)));
    let chosen = chosen(running.id());
    let lost = chosen[fastrand::usize(..chosen.len())];
    // It may have ended meanwhile.
    let _ = kill_process(lost, signal);
    let ran = running.wait().did_not_panic();
    eventually(&format!("{ran}: the removal of all files"), || leftovers(directory.path()).is_empty());
}

fn ranks_below(launcher: u32) -> Vec<Pid> {
    with_word(below(launcher), "run")
}

fn agents_below(launcher: u32) -> Vec<Pid> {
    with_word(below(launcher), "agent")
}

fn lose_all_kinds(launcher: (&str, &[&str])) {
    for _ in 0..xtask::sized(1, 10) {
        lose(launcher, ranks_below, Signal::KILL);
        lose(launcher, agents_below, Signal::KILL);
        lose(launcher, |launcher| Pid::from_raw(launcher as i32).into_iter().collect(), Signal::INT);
    }
}

#[test]
fn killed_processes_of_open_mpi_job_leave_no_files() {
    xtask::require!(openmpi);
    lose_all_kinds(OPEN_MPI);
}

#[test]
fn killed_processes_of_mpich_job_leave_no_files() {
    xtask::require!(mpich);
    lose_all_kinds(MPICH);
}

#[test]
fn interrupted_job_of_open_mpi_is_saved() {
    xtask::require!(openmpi);
    let directory = scratch(ROOM);
    let saved = scratch(ROOM);
    let json = saved.path().join("run.json");
    let words = "--time 60 --test read:rnd4k:buffered:rate=100 --json";
    // Open MPI kills all ranks a second after its signal. On a busy machine, skye needs longer to save.
    let (launcher, options) = OPEN_MPI;
    let patient = [options, &["--mca", "odls_base_sigkill_timeout", "30"]].concat();
    let mut running = ranks((launcher, &patient), 2, run(directory.path(), words).arg(&json)).spawn();
    eventually("the files of both", || leftovers(directory.path()).len() >= 2);
    std::thread::sleep(Duration::from_secs(4));
    running.signal(Signal::INT);
    let ran = running.wait().did_not_panic();
    let text = std::fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {ran}"));
    assert_eq!(parse_document(&text)["phases"][0]["status"], "partial", "{ran}");
    eventually("the removal of all files", || leftovers(directory.path()).is_empty());
}

/// Returns the CPU time that a process has used.
fn cpu_ns(process: Pid) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero())).unwrap().flatten();
    let used = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    used.map(|text| text.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Asserts that ranks sleep during a test. Waits in the MPI libraries spin, so skye must not use them.
fn sleep_while_measured(launcher: (&str, &[&str])) {
    let directory = scratch(ROOM);
    let words = "--time 30 --test read:rnd4k:buffered:rate=100";
    let mut running = ranks(launcher, 2, run(directory.path(), words)).spawn();
    eventually("the files of both", || leftovers(directory.path()).len() >= 2);
    // A look after a second is as long after the one before as all that follow.
    std::thread::sleep(Duration::from_secs(2));
    let ranks = ranks_below(running.id());
    let used = || -> Vec<_> { ranks.iter().map(|rank| cpu_ns(*rank)).collect() };
    let (before, start) = (used(), std::time::Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let (after, length) = (used(), start.elapsed());
    running.signal(Signal::INT);
    running.wait().did_not_panic();
    let share = |rank: usize| (after[rank] - before[rank]) as f64 / length.as_nanos() as f64;
    // One that spins uses all of a CPU. The coordinator also looks at signals and channels.
    assert!(ranks.len() == 2 && (0..2).all(|rank| share(rank) < 0.05), "{} and {}", share(0), share(1));
    eventually("the removal of all files", || leftovers(directory.path()).is_empty());
}

#[test]
fn ranks_of_open_mpi_do_not_spin_during_test() {
    xtask::require!(openmpi);
    sleep_while_measured(OPEN_MPI);
}

#[test]
fn ranks_of_mpich_do_not_spin_during_test() {
    xtask::require!(mpich);
    sleep_while_measured(MPICH);
}

#[test]
fn refusal_common_to_all_ranks_is_printed_once() {
    xtask::require!(mpich);
    let directory = scratch(ROOM);
    let in_job = |program: &dyn Fn() -> Skye| {
        // SIGPIPE ends the launcher if ranks end before it has passed its standard input on.
        let ends = || Some(ranks(MPICH, 2, program()).run()).filter(|ran| ran.signal != Some(13));
        (0..20).find_map(|_| ends()).expect("an end of the ranks").did_not_panic().exits(2)
    };
    let path = directory.path();
    for (ran, says) in [
        (in_job(&|| skye().arg("doctor").arg(path)), "only `skye run` can"),
        (in_job(&|| skye().words("bonnie++ -d").arg(path)), "only `skye run` can"),
        (in_job(&|| run(path, "--hosts local*2")), "its processes are the clients"),
        (in_job(&|| run(path, "--no-such-option")), "error: unexpected"),
        (in_job(&|| run(path, "--test read:nonsense")), "cannot make a plan"),
    ] {
        assert_eq!(ran.stderr.matches(says).count(), 1, "{ran}");
    }
    assert_nothing_left(directory.path());
}

#[test]
fn refusal_of_one_rank_ends_all_ranks() {
    xtask::require!(mpich);
    let directory = scratch(ROOM);
    let preset = r#"preset=quick; test "$PMI_RANK" = 1 && preset=/nowhere.toml; exec "$@" --preset $preset"#;
    let program = run(directory.path(), "").through("sh", &["-c", preset, "sh"]);
    let ran = ranks(MPICH, 2, program).run().did_not_panic().exits(2).has_no_result();
    ran.stderr_contains(&["#2", "/nowhere.toml"]);
    assert_nothing_left(directory.path());
}

/// Ticks of a job come from one client alone, and say nothing of the sum.
#[test]
fn precision_of_one_rank_does_not_end_test() {
    xtask::require!(mpich);
    let directory = scratch(ROOM);
    let words = "--json - --time 4 --precision 30% --test read:rnd4k:buffered";
    let ran = ranks(MPICH, 2, run(directory.path(), words)).run().did_not_panic().exits(0);
    let document: Value = parse_document(&ran.stdout);
    assert!(document["phases"][0]["elapsed_ns"].as_u64() > Some(3_900_000_000), "{}", document["phases"][0]);
}
