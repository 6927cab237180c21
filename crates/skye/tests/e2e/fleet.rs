//! Runs that several clients make together: their sum, their refusals, and all that may happen to them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::program::{Output, Skye, assert_nothing_left, document, for_this_user, leftovers, skye};
use crate::support::scratch;

/// Room for the files of some clients.
const ROOM: u64 = 256 << 20;
/// Longest wait for processes that end by themselves.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns a run of clients in a directory, with these arguments.
fn three_clients(directory: &Path, words: &str) -> Skye {
    let common = "--size 8m --allow low-space,shared-directory --seed 7";
    skye().arg("run").arg(directory).words(common).words(words)
}

fn saved(ran: &Output) -> Value {
    let saved = ran.saved();
    assert_eq!(saved.len(), 1, "{ran}");
    document(&saved[0])
}

/// Returns the processes that a process has started and that live.
pub fn children_of(parent: u32) -> Vec<Pid> {
    let is_child = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        fields.get(1).is_some_and(|ppid| *ppid == parent.to_string()) && fields.first() != Some(&"Z")
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<_> = numbers.filter(|pid| is_child(*pid)).filter_map(Pid::from_raw).collect();
    found.sort_by_key(|pid| pid.as_raw_nonzero());
    found
}

fn is_agent(pid: &Pid) -> bool {
    let command = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"agent")
}

/// Returns the agents that a process has started on this machine and that live.
pub fn agents(parent: u32) -> Vec<Pid> {
    children_of(parent).into_iter().filter(is_agent).collect()
}

/// Returns the agents that the launchers of a process have started.
pub fn agents_of(parent: u32) -> Vec<Pid> {
    let launchers = children_of(parent).into_iter();
    launchers.flat_map(|launcher| agents(launcher.as_raw_nonzero().get() as u32)).collect()
}

/// Waits until something holds that happens by itself.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true once two work directories hold at least 8 MiB each.
fn holds_data(directory: &Path) -> bool {
    let bytes = |work: &Path| -> u64 {
        let entries = fs::read_dir(work).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
    };
    leftovers(directory).iter().filter(|work| bytes(work) >= 8 << 20).count() == 2
}

#[test]
fn totals_are_sums_over_clients() {
    let directory = scratch(ROOM);
    let tests = "--hosts local*3 --time 1 --test read:rnd4k:t2:buffered --test create:t2:files=200 \
                 --test write:seq64k:buffered:passes=1";
    let ran = three_clients(directory.path(), tests).run().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    assert_eq!((&run["run_status"], &run["plan"]["clients"]["count"]), (&"complete".into(), &3.into()));
    let names: Vec<_> =
        run["hosts"].as_array().unwrap().iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["local#1", "local#2", "local#3"]);
    for host in run["hosts"].as_array().unwrap() {
        // All have the same clock, so the true difference is 0.
        let [offset, bound] = ["offset_ns", "bound_ns"].map(|key| host["clock"][key].as_i64().unwrap());
        assert!(offset.abs() <= bound, "{}", host["clock"]);
        assert_eq!(host["lost"], Value::Null);
    }
    for phase in run["phases"].as_array().unwrap() {
        let shares = phase["hosts"].as_array().unwrap();
        assert_eq!(shares.len(), 3, "{}", phase["id"]);
        for key in ["ops", "bytes", "app_bytes_written", "app_bytes_read"] {
            let sum: u64 = shares.iter().map(|share| share[key].as_u64().unwrap()).sum();
            assert_eq!(phase[key].as_u64(), Some(sum), "{} {key}", phase["id"]);
        }
        assert_eq!(phase["status"], "done", "{ran}");
        assert!(phase["label"].as_str().unwrap().ends_with(" ×3"), "{}", phase["label"]);
        let together = &phase["together"];
        let of = |key: &str| {
            together[key].as_f64().unwrap_or_else(|| panic!("{key} of {}: {together}", phase["id"]))
        };
        assert!(of("slowest_ops_per_second") <= of("median_ops_per_second"));
        assert!(of("median_ops_per_second") <= of("fastest_ops_per_second"));
        assert_eq!(together["clients"], 3);
        let fastest = shares.iter().map(|share| share["elapsed_ns"].as_u64().unwrap()).max();
        assert!(phase["elapsed_ns"].as_u64() >= fastest, "{}", phase["id"]);
        if phase["name"] != "write" {
            assert!(phase["start_delay_ns"].as_u64().is_some() && of("start_skew_ns") >= 0.0);
        }
    }
    // Intervals lie on one axis, and lose nothing.
    let ops = &run["phases"][0]["intervals"]["ops"];
    let sum: u64 = match ops.as_array() {
        Some(each) => each.iter().map(|ops| ops.as_u64().unwrap()).sum(),
        None => {
            ops.as_u64().unwrap()
                * run["phases"][0]["intervals"]["start_ns"].as_array().map_or(1, |all| all.len() as u64)
        }
    };
    assert_eq!(Some(sum), run["phases"][0]["ops"].as_u64());
    // The report of a saved run has the same rows.
    ran.output_contains(&["q1t2 buffered x3", "3 clients"]);
}

#[test]
fn refusals_of_all_clients_are_printed_before_writing() {
    let directory = scratch(1 << 20);
    let words = "--test read:rnd4k --hosts local:/no/such/ada,local,local:/no/such/bob";
    let ran = three_clients(directory.path(), words).run().did_not_panic().exits(2).has_no_result();
    ran.stderr_contains(&["/no/such/ada", "/no/such/bob", "on local#1", "on local#3"]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    for (words, message) in [
        ("--hosts ada;bob", "is not a host"),
        ("--hosts n[3-1]", "ends before it starts"),
        ("--hosts=-oProxyCommand=x", "is not a host"),
        ("--hosts ada --rsh /no/such/program", "/no/such/program cannot be started"),
        ("--hosts ada --rsh false", "cannot start skye on ada: its channel has ended"),
        ("--hosts-file /no/such/file", "cannot use --hosts-file /no/such/file"),
        ("--hosts local*2 --test create:files=4000m", "inodes"),
        ("--hosts local*2 --test read:rnd4k --sweep h1..h3", "there are 2 clients"),
        ("--test read:rnd4k --sweep h1..h2", "there are no clients; add --hosts"),
        ("--test read:rnd4k --sweep h1..hn", "there are no clients; add --hosts"),
        ("--test read:rnd4k:shift=1", "cannot read another client's data: there are no clients"),
    ] {
        let ran =
            three_clients(directory.path(), "").words(words).run().did_not_panic().exits(2).has_no_result();
        ran.stderr_contains(&[message]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{words}");
    }
    let no_device = "cannot simulate /no/device.toml on local#2";
    let simulated = skye().arg("run").arg("sim:/no/device.toml").words("--hosts local*2 --test read:rnd4k");
    simulated.run().exits(2).stderr_contains(&[no_device]);
}

#[test]
fn clients_verify_data_written_by_other_clients() {
    let directory = scratch(ROOM);
    // The data of two clients never is the same: a client that finds its own is one with damaged data.
    let tests = "--hosts local*3 --verify --test write:rnd4k:passes=1 --test read:seq64k:shift=1:passes=1 \
                 --test read:rnd4k:buffered:shift=2:passes=1 --test read:rnd4k:shift=0:passes=1";
    let ran = three_clients(directory.path(), tests).run().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    let rows = run["phases"].as_array().unwrap();
    let labels: Vec<_> = rows.iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert!(labels[1].contains("shift=1") && labels[2].contains("shift=2"), "{labels:?}");
    assert!(!labels[3].contains("shift"), "{labels:?}");
    for (row, block_bytes) in rows[1..].iter().zip([65_536, 4096, 4096]) {
        let blocks = 3 * (8 << 20) / block_bytes;
        assert_eq!((&row["status"], &row["verified_blocks"]), (&"done".into(), &blocks.into()), "{ran}");
    }
    let other = scratch(ROOM);
    let apart = format!("--hosts local,local:{} --test read:rnd4k:shift=1", other.path().display());
    let ran = three_clients(directory.path(), &apart).run().did_not_panic().exits(2).has_no_result();
    ran.stderr_contains(&["cannot read other clients' data: the clients do not see each other's files"]);
    for directory in [&directory, &other] {
        assert_nothing_left(directory.path());
    }
}

#[test]
fn clients_share_one_file_and_directories() {
    let directory = scratch(ROOM);
    let tests = "--hosts local*3 --verify --test write:rnd4k:shared:t2:passes=1 --test read:seq64k:shared:passes=1 \
                 --test read:rnd4k:shared:buffered:shift=1:passes=1 --test read:rnd4k:passes=1 \
                 --test create:shared:files=60:dirs=2 --test stat:shared:files=60:t2 --test unlink:shared:files=60 \
                 --time 0.3";
    let mut running = three_clients(directory.path(), tests).spawn();
    // One file has the parts of all, and one directory has the names of all.
    let sizes = |name: &str| -> Vec<u64> {
        let works = leftovers(directory.path());
        let files = works.iter().filter_map(|work| fs::metadata(work.join(name)).ok());
        files.map(|about| about.len()).collect()
    };
    eventually("a shared file", || running.has_ended() || sizes("shared-0000") == [3 * (8 << 20)]);
    let mut trees = 0;
    eventually("tests on names", || {
        trees = trees.max(sizes("t0000").len());
        running.has_ended()
    });
    assert_eq!(trees, 1, "the first client has the directories of all");
    let ran = running.wait().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    let rows = run["phases"].as_array().unwrap();
    for row in rows {
        assert_eq!((&row["status"], row["hosts"].as_array().unwrap().len()), (&"done".into(), 3), "{ran}");
    }
    for (row, block_bytes) in rows[1..4].iter().zip([65_536, 4096, 4096]) {
        assert_eq!(row["verified_blocks"].as_u64(), Some(3 * (8 << 20) / block_bytes), "{ran}");
    }
    let refused =
        three_clients(directory.path(), "--hosts local*2 --test readdir:shared:files=10").run().exits(2);
    refused.stderr_contains(&["each client would also list the other clients' files"]).has_no_result();
    let other = scratch(ROOM);
    let apart = format!("--hosts local,local:{} --test write:rnd4k:shared", other.path().display());
    let ran = three_clients(directory.path(), &apart).run().did_not_panic().exits(2).has_no_result();
    ran.stderr_contains(&["cannot share files among all clients: the clients do not see each other's files"]);
    for directory in [&directory, &other] {
        assert_nothing_left(directory.path());
    }
}

#[test]
fn interleaved_blocks_of_all_clients_verify_in_shared_file() {
    let directory = scratch(ROOM);
    // Data of each client is its own, so that a block in another's place is damaged data.
    let tests = "--hosts local*3 --verify --test write:seq47008:shared:interleaved:fresh:buffered \
                 --test read:seq47008:shared:interleaved:t2:buffered:passes=1 \
                 --test read:rnd47008:shared:interleaved:buffered:shift=1:passes=1 \
                 --test write:seq1m:shared:fresh --test read:seq1m:shared:shift=1:passes=1";
    let ran = three_clients(directory.path(), tests).run().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    let rows = run["phases"].as_array().unwrap();
    let blocks_each = (8 << 20) / 47_008 / 2 * 2;
    let ops: Vec<_> = rows.iter().map(|row| row["ops"].as_u64().unwrap()).collect();
    assert_eq!(ops, [3 * blocks_each, 3 * blocks_each, 3 * blocks_each, 24, 24], "{ran}");
    let verified: Vec<_> = rows.iter().map(|row| row["verified_blocks"].as_u64().unwrap()).collect();
    assert_eq!(verified, [0, ops[1], ops[2], 0, 24], "{ran}");
    // The blocks of a file that a test writes from front to back lie as those of any other.
    let alone = "--verify --test write:seq47008:t3:shared:interleaved:fresh:buffered \
                 --test read:seq47008:shared:interleaved:buffered:passes=1";
    let ran = three_clients(directory.path(), alone).run().did_not_panic().exits(0);
    let ops =
        saved(&ran)["phases"].as_array().unwrap().iter().map(|row| row["ops"].as_u64()).collect::<Vec<_>>();
    assert_eq!(ops, [Some((8 << 20) / 47_008 / 3 * 3); 2], "{ran}");
    for (test, message) in [
        ("read:seq47008:interleaved:buffered", "interleaved is an order of blocks in one file; add shared"),
        ("read:seq47008:shared:interleaved:buffered", "no test creates the interleaved file"),
    ] {
        three_clients(directory.path(), "--hosts local*2 --test")
            .arg(test)
            .run()
            .exits(2)
            .stderr_contains(&[message]);
    }
}

#[test]
fn shared_directory_sync_survives_removals_by_other_clients() {
    let home = scratch(ROOM);
    for test in ["create:shared:size=3901:sync=end:files=500", "copy:shared:size=4k:sync=end:files=300"] {
        let words = format!("--hosts local*2 --test {test} --time 0.5 --no-probe");
        let ran = three_clients(home.path(), &words).run().did_not_panic().exits(0);
        assert_eq!(saved(&ran)["phases"][0]["status"], "done", "{ran}");
    }
    assert_nothing_left(home.path());
}

#[test]
fn client_sweep_has_one_row_per_count() {
    let directory = scratch(ROOM);
    let words = "--hosts local*3 --time 0.3 --sweep h1..hn --test read:rnd4k:buffered --cache warm";
    let ran = three_clients(directory.path(), words).run().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    let rows = run["phases"].as_array().unwrap();
    let clients: Vec<_> = rows.iter().map(|row| row["hosts"].as_array().unwrap().len()).collect();
    assert_eq!(clients, [1, 2, 3], "{ran}");
    for (row, count) in rows.iter().zip(1..) {
        assert!(row["label"].as_str().unwrap().ends_with(&format!(" ×{count}")), "{}", row["label"]);
        assert_eq!(row["status"], "done");
    }
}

#[test]
fn server_is_observed_while_clients_measure() {
    let directory = scratch(ROOM);
    let place = directory.path().display();
    let of = |observed: &str| {
        let words = format!(
            "--hosts local*2 --observe {observed} --time 0.3 --test read:rnd4k:buffered --cache warm"
        );
        saved(&three_clients(directory.path(), &words).run().did_not_panic().exits(0))
    };
    let run = of(&format!("local:{place}"));
    assert_eq!(run["hosts"].as_array().unwrap().len(), 2, "an observer is no client");
    let [server] = &run["phases"][0]["servers"].as_array().unwrap()[..] else { panic!("{}", run["phases"]) };
    assert_eq!(server["name"], "local");
    assert!(server["watched_ns"].as_u64() > Some(0), "{server}");
    let devices = run["environment"]["target"]["device_stack"].as_array().unwrap().len();
    assert_eq!(server["devices"].as_array().unwrap().len(), devices);
    // Nobody knows where a server without a directory has its data.
    assert_eq!(of("local")["phases"][0]["servers"][0]["devices"], serde_json::json!([]));
    assert_nothing_left(directory.path());
    let alone =
        skye().arg("run").arg(directory.path()).words("--observe local").run().exits(2).has_no_result();
    alone.stderr_contains(&["--observe", "--hosts"]);
    let refused = three_clients(directory.path(), "--hosts local*2 --observe local:/no/such/place").run();
    refused.exits(2).stderr_contains(&["/no/such/place"]);
    assert_nothing_left(directory.path());
}

#[test]
fn clients_and_documents_get_mix_from_file() {
    let (target, home) = (scratch(ROOM), scratch(0));
    let text = skye().words("help mix:build").run().exits(0).stdout.clone();
    let path = home.path().join("mine.toml");
    fs::write(&path, text.replace("files = 2000", "files = 60")).unwrap();
    let test = format!("--test mix:{}:t2", path.display());
    let ran = three_clients(target.path(), &format!("{test} --hosts local*2 --time 0.3")).run().exits(0);
    let run = saved(&ran);
    let spec = format!("mix:{}:t2:files=120", path.display());
    assert_eq!(run["plan"]["phases"][0]["spec"], spec.as_str());
    assert_eq!(run["plan"]["mixes"][path.to_str().unwrap()], fs::read_to_string(&path).unwrap().as_str());
    assert!(run["phases"][0]["ops"].as_u64().unwrap() > 0, "{ran}");
    let features = run["phases"][0]["engine"]["features"].as_array().unwrap();
    assert!(features.iter().any(|word| word.as_str().unwrap().starts_with("mix_digest=")), "{features:?}");

    // The plan that a dry run prints has the mix, so its file is needed no more.
    let dry = three_clients(target.path(), &test).arg("--dry-run").run().exits(0);
    let plan = home.path().join("plan.toml");
    fs::write(&plan, &dry.stdout).unwrap();
    fs::write(&path, "[[flow]]").unwrap();
    three_clients(target.path(), &test)
        .run()
        .exits(2)
        .stderr_contains(&["mine.toml: line 1: missing field `name`"]);
    fs::remove_file(&path).unwrap();
    three_clients(target.path(), "--time 0.2 --preset").arg(&plan).run().exits(0);
    three_clients(target.path(), &test)
        .run()
        .exits(2)
        .stderr_contains(&["cannot read the mix of test", "No such file"]);
    assert_nothing_left(target.path());
}

#[test]
#[ignore = "long"]
fn two_directories_are_compared_by_several_clients() {
    let (a, b) = (scratch(ROOM), scratch(ROOM));
    let words = "--hosts local*2 --size 4m --test read:rnd4k:buffered --cache warm --time 0.2 --total 8 \
                 --allow low-space,shared-directory,busy";
    let ab = || skye().arg("ab").arg(a.path()).arg(b.path()).words(words);
    let ran = ab().run().did_not_panic().exits(0);
    let ran = ran.output_contains(&["on 2 clients simultaneously", "q1 buffered x2"]);
    let saved = ran.saved();
    assert_eq!(saved.len(), 2, "{ran}");
    for run in saved.iter().map(|path| document(path)) {
        let rows = run["phases"].as_array().unwrap();
        assert!(
            rows.len() >= 2 && rows.iter().all(|row| row["hosts"].as_array().unwrap().len() == 2),
            "{ran}"
        );
    }
    let other = skye().arg("ab").arg(a.path()).arg(b.path()).words("--hosts local,local:/tmp");
    other
        .words("--test read:rnd4k")
        .run()
        .exits(2)
        .stderr_contains(&["cannot measure in the directory of local"]);
    for directory in [&a, &b] {
        assert_nothing_left(directory.path());
    }
}

#[test]
fn client_sweep_verifies_data_of_other_clients() {
    let directory = scratch(ROOM);
    // The first client has written its data more often than the last.
    let words = "--hosts local*3 --sweep h1..h3 --verify --test write:rnd4k:passes=1 --test read:rnd4k:shift=1:passes=1";
    let ran = three_clients(directory.path(), words).run().did_not_panic().exits(0);
    assert_eq!(saved(&ran)["phases"].as_array().unwrap().len(), 6, "{ran}");
    assert_nothing_left(directory.path());
}

#[test]
fn doctor_checks_all_clients_and_shared_directories() {
    let (one, other) = (scratch(1 << 20), scratch(1 << 20));
    let hosts = format!("local*2,local:{}", other.path().display());
    let doctor = skye().arg("doctor").arg(one.path()).arg("--hosts").arg(hosts);
    let ran = doctor.run().did_not_panic();
    assert!([Some(0), Some(5)].contains(&ran.code), "{ran}");
    for words in [
        "local#1",
        "round trip",
        "Clients that share a directory: local#1, local#2. With a separate one: local#3.",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
    for directory in [&one, &other] {
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{ran}");
    }
    let lost = skye().arg("doctor").arg(one.path()).words("--hosts local,local:/no/such/place");
    lost.run().did_not_panic().exits(2).stderr_contains(&["/no/such/place", "on local#2"]);
}

/// Runs clients that a launcher starts, to the end.
#[track_caller]
fn run_with_launcher(launcher: &str, directory: &Path, words: &str) -> Output {
    let program = three_clients(directory, words).arg("--rsh").arg(launcher);
    program.arg("--remote-skye").arg(env!("CARGO_BIN_EXE_skye")).run().did_not_panic().exits(0)
}

#[test]
fn custom_launcher_starts_clients() {
    let directory = scratch(ROOM);
    // It takes the host away, as a program does that knows where to go.
    let launcher = r#"sh -c 'test "$1" = ada && shift && exec "$@"' x"#;
    let ran =
        run_with_launcher(launcher, directory.path(), "--hosts ada --time 0.3 --test read:rnd4k:buffered");
    assert_eq!(saved(&ran)["hosts"][0]["name"], "ada");
    assert_nothing_left(directory.path());
}

#[test]
fn host_without_skye_gets_temporary_copy() {
    let (directory, bin, home) = (scratch(ROOM), scratch(1 << 20), scratch(ROOM));
    // The host's shell gets one line, and has an environment of its own.
    let ssh = format!(
        "#!/bin/sh\nfor line; do :; done\nexec env -i PATH=/usr/bin:/bin XDG_RUNTIME_DIR={} sh -c \"$line\"\n",
        home.path().display()
    );
    let file = bin.path().join("ssh");
    fs::write(&file, ssh).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
    let run = |words: &str| {
        let words = format!("--hosts ada,root@bob --time 0.3 --test read:rnd4k:buffered {words}");
        three_clients(directory.path(), &words).env("PATH", &path).run().did_not_panic()
    };
    let ran = run("--remote-skye no-such-skye").exits(0);
    let names: Vec<_> =
        saved(&ran)["hosts"].as_array().unwrap().iter().map(|host| host["name"].clone()).collect();
    assert_eq!(names, ["ada", "root@bob"]);
    let refused = run("--remote-skye no-such-skye --no-send").exits(2).has_no_result();
    refused.stderr_contains(&["on ada", "on root@bob", "no-such-skye", "not found"]);
    assert_nothing_left(directory.path());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn clock_offset_is_found_within_its_bound() {
    xtask::require!(root, timens);
    let directory = scratch(ROOM);
    let launcher = r#"sh -c 'shift; exec unshare --time --monotonic 7 --fork "$@"' x"#;
    let words = "--hosts local,ada --time 0.3 --cache warm --test read:rnd4k:buffered";
    for _ in 0..xtask::sized(1, 200) {
        let ran = run_with_launcher(launcher, directory.path(), words);
        assert_nothing_left(directory.path());
        let run = saved(&ran);
        for (host, true_offset_ns) in run["hosts"].as_array().unwrap().iter().zip([0, 7_000_000_000_i64]) {
            let [offset, bound] = ["offset_ns", "bound_ns"].map(|key| host["clock"][key].as_i64().unwrap());
            assert!((offset - true_offset_ns).abs() <= bound, "{}: {}", host["name"], host["clock"]);
        }
        // On one axis, both clients worked at the same time.
        let phase = &run["phases"][0];
        let [window, elapsed] =
            [&phase["together"]["window_ns"], &phase["elapsed_ns"]].map(|ns| ns.as_u64().unwrap());
        assert!(window > 0 && elapsed < 7_000_000_000, "{}", phase["together"]);
    }
}

#[test]
fn rate_of_simulated_clients_is_sum_of_their_devices() {
    let directory = scratch(1 << 20);
    let device = directory.path().join("disk.toml");
    fs::write(&device, "name = \"disk\"\nsize = \"1g\"\nlatency = { mean_us = 10_000 }\n").unwrap();
    let results = directory.path().join("results.json");
    let ran = skye()
        .arg("run")
        .arg(format!("sim:{}", device.display()))
        .words("--hosts local*8 --size 8m --time 60 --test read:rnd4k:q1 --json")
        .arg(&results);
    ran.run().did_not_panic().exits(0);
    let run = document(&results);
    let phase = &run["phases"][0];
    // Each device answers 100 requests a second, one after the other, and each clock is virtual.
    assert_eq!(phase["hosts"].as_array().unwrap().len(), 8);
    assert_eq!(phase["ops"], 8 * 6000, "{phase}");
    let rate = phase["rate"]["ops_per_second"].as_f64().unwrap();
    assert!((rate - 800.0).abs() < 1.0, "{rate}");
    // A column whose values are all the same is one value.
    let intervals = &phase["intervals"];
    assert_eq!((&intervals["count"], &intervals["ops"]), (&600.into(), &80.into()));
}

#[test]
fn dry_run_with_clients_writes_nothing() {
    let directory = scratch(1 << 20);
    let words = "--hosts local*2 --test read:rnd4k:buffered --dry-run";
    let ran = three_clients(directory.path(), words).run().did_not_panic().exits(0);
    assert!(ran.stdout.contains("read:rnd4k"), "{ran}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Begins a run of two clients whose test lasts until something happens to it.
fn long(directory: &Path, words: &str) -> crate::support::program::Running {
    let tests = "--hosts local*2 --cache warm --test read:rnd4k:buffered --test read:seq4k:buffered";
    let mut running = three_clients(directory, tests).words(words).spawn();
    assert!(running.wait_until(|| holds_data(directory)), "the files are not laid out");
    // By now the clients go from the layout to the test.
    std::thread::sleep(Duration::from_millis(1500));
    running
}

#[test]
fn killed_agent_is_reported_and_leaves_no_files() {
    let directory = scratch(ROOM);
    let running = long(directory.path(), "--time 40");
    let found = agents(running.id());
    assert_eq!(found.len(), 2);
    kill_process(found[1], Signal::KILL).unwrap();
    let ran =
        running.wait().did_not_panic().exits(1).stderr_contains(&["local#", "lost: its channel has ended"]);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    assert_eq!(run["run_status"], "partial", "{ran}");
    let lost: Vec<_> =
        run["hosts"].as_array().unwrap().iter().filter(|host| host["lost"] != Value::Null).collect();
    assert_eq!(lost.len(), 1, "{ran}");
    let phase = &run["phases"][0];
    assert_eq!((&phase["status"], phase["hosts"].as_array().unwrap().len()), (&"partial".into(), 1), "{ran}");
    assert_eq!(run["phases"].as_array().unwrap().len(), 1, "the run ends with it");
}

#[test]
#[ignore = "long"]
fn signalled_agents_end_and_are_lost() {
    for (signal, words, rows) in
        [(Signal::TERM, "", 1), (Signal::INT, "--on-loss continue --test stat:files=500", 3)]
    {
        let directory = scratch(ROOM);
        let running = long(directory.path(), &format!("--time 6 {words}"));
        kill_process(agents(running.id())[1], signal).unwrap();
        let why = format!("lost: it was ended by SIG{}", if signal == Signal::INT { "INT" } else { "TERM" });
        let ran = running.wait().did_not_panic().exits(1).stderr_contains(&["local#", &why]);
        assert_nothing_left(directory.path());
        let run = saved(&ran);
        let phases = run["phases"].as_array().unwrap();
        assert_eq!(phases.len(), rows, "{ran}");
        for phase in phases {
            assert_eq!(phase["hosts"].as_array().unwrap().len(), 1, "{phase}");
            assert!(phase["ops"].as_u64() > Some(0), "{phase}");
        }
    }
}

#[test]
#[ignore = "long"]
fn stopped_agent_is_lost_and_cleans_up_when_continued() {
    let directory = scratch(ROOM);
    let tests = "--hosts local*2 --time 6 --cache warm --on-loss continue --test read:rnd4k:buffered --test read:seq4k:buffered";
    let mut running = three_clients(directory.path(), tests).spawn();
    assert!(running.wait_until(|| holds_data(directory.path())), "the files are not laid out");
    let found = agents(running.id());
    assert_eq!(found.len(), 2);
    kill_process(found[0], Signal::STOP).unwrap();
    let ran = running.wait().did_not_panic();
    kill_process(found[0], Signal::CONT).unwrap();
    let ran = ran.exits(1).stderr_contains(&["lost: its process is stopped"]);
    // Its lock is held, so nobody else removes its files. The message has the command that does.
    ran.output_contains(&["skye clean"]);
    eventually("the removal by the agent itself", || leftovers(directory.path()).is_empty());
}

/// Directories that no client of the run has made are neither named as its own nor hide those that are.
#[test]
#[ignore = "long"]
fn foreign_directory_is_not_named_after_a_loss() {
    for signal in [Signal::KILL, Signal::STOP] {
        let directory = scratch(ROOM);
        // One of another kind, and one that another run could have made for its client 1.
        let foreign = ["skye.01fake", "skye.fake01"].map(|name| directory.path().join(name));
        foreign.iter().for_each(|path| fs::create_dir(path).unwrap());
        let running = long(directory.path(), "--time 40");
        let names = leftovers(directory.path()).into_iter().filter(|path| !foreign.contains(path));
        let own = names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        let own = { own }.find(|name| name.starts_with("skye.01")).unwrap();
        let agent = agents(running.id())
            .into_iter()
            .find(|pid| has_open(*pid, &directory.path().join(&own)))
            .unwrap();
        kill_process(agent, signal).unwrap();
        let ran = running.wait().did_not_panic();
        let _ = kill_process(agent, Signal::CONT);
        let ran = ran.exits(1).stderr_contains(&["lost: "]);
        assert!(!ran.stderr.contains("fake"), "{ran}");
        assert_eq!(ran.stderr.contains(&own), signal == Signal::STOP, "{ran}");
        eventually("the removal of all files", || leftovers(directory.path()).len() == foreign.len());
        foreign.iter().for_each(|path| fs::remove_dir(path).unwrap());
    }
}

#[test]
fn lost_read_only_client_leaves_no_files() {
    let directory = scratch(ROOM);
    let file = directory.path().join("file");
    fs::write(&file, vec![1; 8 << 20]).unwrap();
    let tests = "--hosts local*2 --cache warm --time 40 --test read:rnd4k:buffered";
    let mut running = three_clients(&file, tests).spawn();
    let coordinator = running.id();
    let mut found = Vec::new();
    // The file is open once the work directory would be there.
    let has_opened = || {
        found = agents(coordinator);
        found.len() == 2 && found.iter().all(|pid| has_open(*pid, &file))
    };
    assert!(running.wait_until(has_opened), "the file is not opened");
    kill_process(found[1], Signal::KILL).unwrap();
    let ran = running.wait().did_not_panic().exits(1).stderr_contains(&["lost: its channel has ended"]);
    assert!(!ran.stderr.contains("skye clean"), "{ran}");
}

/// Returns true if a process has a file open, or one in a directory of that name.
fn has_open(pid: Pid, path: &Path) -> bool {
    let links = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|open| open.starts_with(path))
}

#[test]
fn killed_coordinator_leaves_no_agents_or_files() {
    let directory = scratch(ROOM);
    let mut running = long(directory.path(), "--time 40");
    let found = agents(running.id());
    assert_eq!(found.len(), 2);
    running.signal(Signal::KILL);
    running.wait();
    eventually("the end of the agents", || {
        found.iter().all(|pid| rustix::process::test_kill_process(*pid).is_err())
    });
    assert_nothing_left(directory.path());
}

#[test]
fn interrupt_ends_all_clients_and_saves_run() {
    let directory = scratch(ROOM);
    let mut running = long(directory.path(), "--time 40");
    running.signal(Signal::INT);
    let ran = running
        .wait()
        .did_not_panic()
        .exits(130)
        .stderr_contains(&["ended by SIGINT; its files are removed"]);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    let phase = &run["phases"][0];
    assert_eq!((&phase["status"], phase["hosts"].as_array().unwrap().len()), (&"partial".into(), 2), "{ran}");
    assert!(phase["ops"].as_u64() > Some(0));
}

#[test]
fn invalid_frame_ends_session_without_writing() {
    let directory = scratch(1 << 20);
    let launcher = "sh -c 'echo good evening, general; sleep 1'";
    let words = "--hosts ada --test read:rnd4k";
    let ran =
        three_clients(directory.path(), words).arg("--rsh").arg(launcher).run().did_not_panic().exits(2);
    ran.stderr_contains(&[
        "on ada",
        "its shell printed `good evening, general` before skye started",
        "disable that output",
    ]);
    // The other way round: an agent that is told nonsense, nothing, or a frame that it knows too early.
    let hello = r#"{"protocol":2,"version":"0","session":"s"}"#;
    let framed = |text: &str| format!("\\0\\0\\0\\{:03o}{}", text.len(), text.replace('"', "\\\""));
    for message in [
        "good evening, general".to_owned(),
        String::new(),
        "\\377\\377\\377\\377".to_owned(),
        format!("{}{}", framed(hello), framed(r#"{"open":{"clients_per_machine":1}}"#)),
        format!(
            "{}{}",
            framed(hello),
            framed(
                r#"{"phase":{"index":9,"repetition":1,"time":{"measured_ns":1,"budget_ns":1},"recreate_files":false}}"#
            )
        ),
        format!("{}{}", framed(hello), framed(r#"{"run":"/bin/sh"}"#)),
    ] {
        let script = format!("printf \"{message}\" | \"$@\"");
        let ran = skye()
            .arg("agent")
            .arg("--dir")
            .arg(directory.path())
            .through("sh", &["-c", &script, "sh"])
            .run()
            .did_not_panic();
        assert!(matches!(ran.code, Some(1 | 2)), "{message}: {ran}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{message}");
    }
}

#[test]
fn no_process_opens_a_listening_socket() {
    xtask::require!(strace);
    let directory = scratch(ROOM);
    let trace = directory.path().join("trace");
    let calls = ["-f", "-e", "trace=listen,bind,accept,accept4", "-o", trace.to_str().unwrap()];
    let work = directory.path().join("work");
    fs::create_dir(&work).unwrap();
    three_clients(&work, "--hosts local*2 --time 0.3 --test read:rnd4k:buffered")
        .through("strace", &calls)
        .run()
        .did_not_panic()
        .exits(0);
    let trace = fs::read_to_string(trace).unwrap();
    assert!(trace.contains("exited with 0"), "{trace}");
    for call in ["listen(", "bind(", "accept(", "accept4("] {
        assert!(!trace.contains(call), "{trace}");
    }
}

#[test]
#[ignore = "long"]
fn bonnie_style_programs_accept_several_clients() {
    let directory = scratch(ROOM);
    let at = directory.path().display();
    for (program, words) in [
        ("bonnie", format!("-d {at} -s 8")),
        ("gobonniego", format!("-dir {at} -size 0.0078125 -threads 2 -iops-duration 0.2")),
        ("bonnie++", format!("-d {at} -s 8 -r 0 -n 0 -u root")),
    ] {
        let ran = skye()
            .arg(program)
            .words("--hosts local*2")
            .words(&for_this_user(&words))
            .run()
            .did_not_panic()
            .exits(0);
        let ran = ran.stderr_contains(&["2 clients simultaneously: local#1, local#2"]);
        for row in saved(&ran)["phases"].as_array().unwrap() {
            assert_eq!(
                (row["hosts"].as_array().unwrap().len(), &row["status"]),
                (2, &"done".into()),
                "{ran}"
            );
        }
        assert_nothing_left(directory.path());
        let wrong = skye().arg(program).words("--hosts local --rsh").run().exits(1);
        wrong.stderr_contains(&["--rsh"]).has_no_result();
        let away = skye().arg(program).words("--rsh ssh").words(&words).run().exits(1);
        away.stderr_contains(&["no client is set"]).has_no_result();
    }
}

#[test]
#[ignore = "long"]
fn io500_preset_has_scores_and_leaves_no_files() {
    let directory = scratch(ROOM);
    let words = "--hosts local*2 --preset io500-shapes --time 0.2";
    let ran = three_clients(directory.path(), words).run().did_not_panic().exits(0);
    assert_nothing_left(directory.path());
    let run = saved(&ran);
    let rows = run["phases"].as_array().unwrap();
    assert_eq!(rows.len(), 12, "{ran}");
    // In memory, no row is valid, and invalid rows make no score.
    let invalid = rows.iter().filter(|row| row["verdict"]["trust"] == "invalid").count();
    if invalid > 0 {
        assert_eq!(run["scores"], Value::Null, "{ran}");
        ran.output_contains(&[&format!("none: {invalid} of 12 tests lack")]);
        return;
    }
    ran.output_contains(&["Not an IO500 submission"]);
    let mean = |rows: &[Value], key: &str, unit: f64| {
        let rates = rows.iter().map(|row| row["rate"][key].as_f64().unwrap() / unit);
        rates.clone().product::<f64>().powf(1.0 / rates.len() as f64)
    };
    let bandwidth = mean(&rows[..4], "bytes_per_second", f64::from(1 << 30));
    let metadata = mean(&rows[4..], "ops_per_second", 1000.0);
    for (key, value) in [
        ("bandwidth_gib_per_second", bandwidth),
        ("metadata_kiops", metadata),
        ("score", (bandwidth * metadata).sqrt()),
    ] {
        let text = run["scores"][key].as_f64().unwrap();
        assert!((text / value - 1.0).abs() < 1e-9, "{key}: {text}, and the rows say {value}");
    }
}
