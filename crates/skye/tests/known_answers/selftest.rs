//! The selftest reports the limits that it built, and leaves the machine as it was, however it ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use model::disturbance::Disturbance;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use xtask::capability::CAPABILITIES;
use xtask::sized;

use super::exclusive_lock;
use super::quiet::{Answer, settle, settled};
use super::support::program::{Skye, give_to_other_user, skye};
use super::support::scratch;

fn selftest(words: &str) -> Skye {
    skye().arg("selftest").words(words)
}

/// Returns everything on the machine that a selftest might leave, one line each.
fn machine() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut add = |kind: &str, text: String| found.insert(format!("{kind} {text}"));
    let names = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    for mount in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
        // Numbers of mounts come and go with the mounts of others.
        add("mount", mount.split(' ').skip(2).collect::<Vec<_>>().join(" "));
    }
    for block in names("/sys/block") {
        let of = |file: &str| fs::read_to_string(format!("/sys/block/{block}/{file}")).unwrap_or_default();
        for file in ["loop/backing_file", "queue/nr_requests", "queue/wbt_lat_usec"] {
            add("block", format!("{block} {file} {}", of(file).trim()));
        }
        for file in ["bdi/strict_limit", "bdi/max_ratio", "bdi/min_ratio"] {
            add("block", format!("{block} {file} {}", of(file).trim()));
        }
    }
    for link in names("/sys/class/net") {
        add("network", link);
    }
    for namespace in names("/run/netns") {
        add("namespace", namespace);
    }
    for controller in names("/sys/fs/cgroup") {
        for group in names(&format!("/sys/fs/cgroup/{controller}")) {
            if group.starts_with(rig::PREFIX) {
                add("cgroup", format!("{controller}/{group}"));
            }
        }
    }
    for limit in ["read_iops", "write_iops", "read_bps", "write_bps"] {
        let file = format!("/sys/fs/cgroup/blkio/blkio.throttle.{limit}_device");
        add("limit", fs::read_to_string(file).unwrap_or_default());
    }
    for directory in ["/tmp", "/var/tmp", "/dev/shm"] {
        for name in names(directory) {
            if name.starts_with(rig::PREFIX) || name.starts_with("skye.") {
                add("directory", format!("{directory}/{name}"));
            }
        }
    }
    for process in names("/proc").iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        if command.split(|byte| *byte == 0).any(|word| word == b"rig-server" || word == b"sshfs") {
            add("process", process.clone());
        }
    }
    for journal in rig::list() {
        add("journal", journal.display().to_string());
    }
    found
}

/// Returns the same, once no test of this program is still checking the machine's capabilities.
fn machine_at_rest() -> BTreeSet<String> {
    for capability in &CAPABILITIES {
        // Each capability is tried once, and every caller waits for that.
        let _ = capability.check();
    }
    machine()
}

#[track_caller]
fn is_as_before(before: &BTreeSet<String>) {
    // The rigs of a killed selftest are undoing their work meanwhile.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = machine();
        if now == *before {
            return;
        }
        if Instant::now() > deadline {
            let changed: Vec<_> = now.symmetric_difference(before).collect();
            panic!("the machine is not as it was: {changed:#?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn document(stdout: &str) -> Value {
    // Nothing else is on stdout.
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

fn answers(document: &Value) -> &Vec<Value> {
    document["answers"].as_array().unwrap()
}

#[test]
fn selftest_names_built_limiters_and_cleans_up() {
    xtask::require!(root, loop, ext4, fuse, blkio, quota);
    let _lock = exclusive_lock();
    let before = machine_at_rest();
    let (cases, count) = sized(
        (&["quota", "cached-data", "holes"][..], 5),
        (&["iops-cap-one", "tags", "quota", "cached-data", "holes"], 8),
    );
    let only = cases.iter().map(|case| format!("--only {case} "));
    let words = only.chain(["--json -".to_owned()]).collect::<String>();
    settled!(settle(|| {
        let ran = selftest(&words).run().did_not_panic();
        let document = document(&ran.stdout);
        is_as_before(&before);
        assert_eq!(document["missing"].as_array().unwrap().len(), 0, "{:#}", document["missing"]);
        assert_eq!(answers(&document).len(), count);
        let (answer, disturbed) = all_right(&document);
        if let Answer::Right(()) = answer {
            assert_eq!(document["score"]["right"].as_u64().unwrap() as usize, count);
            ran.exits(0);
        }
        (answer, disturbed)
    }));
}

/// Returns the answer of a selftest whose every answer should be right, and the most that others did to any.
fn all_right(document: &Value) -> (Answer<()>, Disturbance) {
    let is_wrong = |answer: &&Value| answer["outcome"] != "right";
    let wrong: Vec<_> = answers(document).iter().filter(is_wrong).collect();
    let read = |answer: &Value| serde_json::from_value(answer["disturbance"].clone()).unwrap();
    let disturbed = answers(document).iter().map(read).fold(Disturbance::default(), Disturbance::max);
    let is_sure = wrong.iter().any(|one| one["outcome"] == "wrong" && one["confidence"] == "confirmed");
    let answer = match (wrong.is_empty(), is_sure) {
        (true, _) => Answer::Right(()),
        (false, true) => Answer::Inexcusable(format!("{wrong:#?}")),
        (false, false) => Answer::Wrong(format!("{wrong:#?}")),
    };
    (answer, disturbed)
}

#[test]
fn interrupted_selftest_prints_document_and_cleans_up() {
    xtask::require!(root, loop, ext4, fuse);
    let _lock = exclusive_lock();
    let before = machine_at_rest();
    let mut running = selftest("--only latency --json -").spawn();
    assert!(running.wait_until(measures), "it measures nothing");
    running.signal(Signal::TERM);
    let ran = running.wait().did_not_panic().exits(143);
    assert_eq!(answers(&document(&ran.stdout)).len(), 0);
    is_as_before(&before);
}

#[test]
fn killed_selftest_is_undone_by_rigs_or_clean() {
    xtask::require!(root, loop, ext4, fuse, blkio);
    let _lock = exclusive_lock();
    let before = machine_at_rest();
    for kills_rigs in [false, true] {
        let mut running = selftest("--only tags").spawn();
        assert!(running.wait_until(measures), "it measures nothing");
        let rigs = if kills_rigs { children(running.id(), "rig-server") } else { Vec::new() };
        assert_eq!(rigs.is_empty(), !kills_rigs);
        running.signal(Signal::KILL);
        // A rig may have noticed already.
        for rig in rigs {
            let _ = kill_process(rig, Signal::KILL);
        }
        assert_eq!(running.wait().signal, Some(9));
        if kills_rigs {
            // Only the next selftest could undo it.
            assert!(machine() != before);
            let cleaned = selftest("--clean").run().did_not_panic();
            assert!(cleaned.stdout.contains("cleaned up"), "{}", cleaned.stdout);
        }
        is_as_before(&before);
    }
    let nothing = selftest("--clean").run().did_not_panic().exits(0);
    assert_eq!(nothing.stdout.trim(), "nothing to clean up");
}

#[test]
fn killed_rig_fails_selftest_and_is_cleaned_up() {
    xtask::require!(root, loop, ext4, fuse);
    let _lock = exclusive_lock();
    let before = machine_at_rest();
    let mut running = selftest("--only latency --json -").spawn();
    assert!(running.wait_until(measures), "it measures nothing");
    let rigs = children(running.id(), "rig-server");
    assert!(!rigs.is_empty());
    rigs.into_iter().for_each(|rig| kill_process(rig, Signal::KILL).unwrap());
    let ran = running.wait().did_not_panic().exits(1);
    let document = document(&ran.stdout);
    assert_eq!(answers(&document).len(), 0);
    assert_eq!(document["missing"][0]["is_failure"], true, "{document:#}");
    is_as_before(&before);
}

/// Returns true if a run measures in a rig.
fn measures() -> bool {
    let works = fs::read_dir("/tmp").unwrap().flatten().map(|entry| entry.path());
    let is_rig = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with(rig::PREFIX);
    let mut inside =
        works.filter(|path| is_rig(path)).flat_map(|path| fs::read_dir(path).into_iter().flatten());
    inside.any(|entry| entry.is_ok_and(|entry| entry.path().join("data-0000").exists()))
}

/// Returns the processes that `parent` has started with that word in their command line.
fn children(parent: u32, word: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |process: &i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent_of = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        parent_of == Some(parent) && command.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
    };
    numbers.filter(is_child).filter_map(Pid::from_raw).collect()
}

#[test]
#[ignore = "long"]
fn selftest_without_root_runs_unprivileged_cases() {
    xtask::require!(root, user);
    let _lock = exclusive_lock();
    let words = "--only cached-names --only requested-rate --only iops-cap --only quota";
    settled!(settle(|| {
        let json = scratch(1 << 20);
        give_to_other_user(json.path());
        let path = json.path().join("selftest.json");
        let ran = selftest(words).arg("--json").arg(&path).by_other_user().run().did_not_panic();
        assert!(ran.stdout.contains("not as root"), "{}", ran.stdout);
        assert!(ran.stdout.contains("iops-cap, quota: root is required"), "{}", ran.stdout);
        let document = document(&fs::read_to_string(path).unwrap());
        let (answer, disturbed) = all_right(&document);
        let is_right = matches!(answer, Answer::Right(()));
        assert_eq!(ran.stdout.contains("3 of 3 right"), is_right, "{}", ran.stdout);
        (answer, disturbed)
    }));
    // Every user can list the cases.
    let listed = selftest("--list").by_other_user().run().did_not_panic().exits(0);
    assert!(listed.stdout.contains("iops-cap: a cgroup limit of 2,000 reads/s"), "{}", listed.stdout);
}

#[test]
fn unknown_case_is_refused_before_setup() {
    let ran = selftest("--only iops-cpa").run().did_not_panic().exits(2);
    assert!(ran.stderr.contains("did you mean `iops-cap`?"), "{}", ran.stderr);
}
