//! `skye gobonniego` does what scripts written for the original expect, does the same work, and loses neither results
//! nor files of other programs.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::mounts::{LoopFs, Tmpfs};
use crate::support::program::{
    Output, Skye, assert_nothing_left, document, give_to_other_user, open_to_all, skye,
};
use crate::support::scratch;

/// Options for 64 MiB, two threads, and the shortest time.
const SMALL: &str = "-size 0.0625 -threads 2 -iops-duration 0.2";

fn gobonniego(directory: &Path, words: &str) -> Skye {
    skye().arg("gobonniego").arg("-dir").arg(directory).words(words)
}

fn tmpfs() -> Tmpfs {
    Tmpfs::new("300m", None)
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// Returns an output of the original.
fn original(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../family/tests/data");
    fs::read_to_string(data.join(name)).unwrap()
}

/// Returns the JSON that it printed, alone on stdout.
#[track_caller]
fn json_output(ran: &Output) -> Value {
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

fn results(json: &Value) -> &Vec<Value> {
    json["results"].as_array().unwrap()
}

/// Returns a text with every number replaced, so that only its form is left.
fn form(text: &str) -> String {
    let mut form = String::new();
    let mut in_number = false;
    for character in text.chars() {
        if !character.is_ascii_digit() {
            form.push(character);
        } else if !in_number {
            form.push('0');
        }
        in_number = character.is_ascii_digit();
    }
    form
}

#[test]
fn result_lines_match_the_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = gobonniego(tmpfs.path(), SMALL).run().did_not_panic().exits(0);
    let lines: Vec<_> = ran.stdout.lines().map(form).collect();
    assert_eq!(lines, ["Sequential Write MB/s: 0.0", "Sequential Read MB/s: 0.0", "IOPS: 0"], "{ran}");
    let first = ran.stderr.lines().next().unwrap_or_default();
    assert!(
        first.ends_with(
            " gobonniego starting. version: 1.0.10, runs: 1, seconds: 0, threads: 2, disk space to use (MiB): 64"
        ),
        "{ran}"
    );
    let text = &["note: the files' own pages are dropped", "what limited each of them:", "Sequential Read"];
    assert_nothing_left(tmpfs.path());
    let limited =
        ran.stderr_contains(text).stderr.split("what limited each of them:\n").nth(1).unwrap().to_owned();
    let names = limited.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    "));
    assert_eq!(names.count(), 3, "{limited}");
}

#[test]
fn verbose_output_matches_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = gobonniego(tmpfs.path(), SMALL).words("-v -runs 2").run().did_not_panic().exits(0);
    // Lines that are only ours are left out, and theirs are repeated for each run.
    let theirs = original("gobonniego-1.0.10_nonroot_1GiB.txt");
    let theirs: Vec<_> = theirs.lines().filter(|line| line.starts_with("2026/")).map(form).collect();
    let ours = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let ours: Vec<_> = ran.stderr.lines().filter(ours).map(form).collect();
    let directory = format!("Bonnie working directory: {}", form(tmpfs.path().to_str().unwrap()));
    let theirs: Vec<_> =
        theirs.iter().map(|line| line.replace("Bonnie working directory: SCRATCH", &directory)).collect();
    let (head, tests) = theirs.split_at(4);
    assert_eq!(ours, [head, tests, tests].concat(), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 6, "{ran}");
    assert!(ran.stderr.contains("what limited each of them, in the last run:"), "{ran}");
    assert_nothing_left(tmpfs.path());
}

#[test]
fn json_keys_and_order_match_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = gobonniego(tmpfs.path(), SMALL).words("--json -runs=2").run().did_not_panic().exits(0);
    let keys = |text: &str| {
        let quoted = text.split('"').skip(1).step_by(2);
        let after = |word: &str| text.contains(&format!("\"{word}\":"));
        quoted.filter(|word| after(word)).map(str::to_owned).collect::<Vec<_>>()
    };
    let theirs = original("gobonniego-1.0.10_root_json_2runs.json");
    assert_eq!(keys(&ran.stdout), keys(&theirs), "{ran}");
    assert_eq!(keys(&ran.stdout).len(), 8 + 2 * 10);
    let (json, theirs): (Value, Value) = (json_output(&ran), serde_json::from_str(&theirs).unwrap());
    assert_eq!(json["version"], theirs["version"]);
    assert_eq!(json["gobonniego_directory"].as_str(), tmpfs.path().to_str());
    assert_eq!(
        (&json["disk_space_used_gib"], &json["num_readers_and_writers"], &json["iops_duration_seconds"]),
        (&0.0625.into(), &2.into(), &0.2.into())
    );
    assert!(json["physical_memory_bytes"].as_u64() > Some(1 << 20), "{ran}");
    // Both times have the original's form.
    let is_time = |time: &Value| {
        let time = time.as_str().unwrap();
        assert!(form(time).starts_with("0-0-0T0:0:0") && time.ends_with('Z'), "{time}");
    };
    is_time(&json["start_time"]);
    for run in results(&json) {
        is_time(&run["start_time"]);
        assert_eq!((&run["write_bytes"], &run["read_bytes"]), (&(64 << 20).into(), &(64 << 20).into()));
        for (rate, amount, seconds, unit) in [
            ("write_megabytes_per_second", "write_bytes", "write_seconds", 1e6),
            ("read_megabytes_per_second", "read_bytes", "read_seconds", 1e6),
            ("iops", "io_operations", "io_seconds", 1.0),
        ] {
            let number = |key: &str| run[key].as_f64().unwrap();
            let expected = number(amount) / number(seconds) / unit;
            assert!(expected > 0.0 && (number(rate) / expected - 1.0).abs() < 1e-9, "{rate}: {run}");
        }
    }
    assert_nothing_left(tmpfs.path());
}

#[test]
fn workload_with_cache_as_is_matches_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let program = gobonniego(tmpfs.path(), "-size 0.125 -threads 3 -iops-duration 1 -cache as-is -json");
    let file = program.home().join("run.json");
    let ran = program.arg("-document").arg(&file).run().did_not_panic().exits(0);
    assert!(ran.stderr.contains("-cache as-is: nothing is dropped or synced"), "{ran}");
    let run = document(&file);
    let phases = run["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["write", "read", "rw"]);
    // A third of 128 MiB is not a whole number of blocks: each thread writes its last one whole.
    let blocks = 3 * (128_u64 << 20).div_ceil(3).div_ceil(65_536);
    let near = |found: &Value, expected: f64, what: &str| {
        let found = found.as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, not {expected}\n{ran}");
    };
    for (phase, calls, size, written) in [
        (&phases[0], "write_calls", "bytes_per_write_call", true),
        (&phases[1], "read_calls", "bytes_per_read_call", false),
    ] {
        let moved = if written { "app_bytes_written" } else { "app_bytes_read" };
        assert_eq!(phase[moved], blocks * 65_536, "{ran}");
        near(&phase["system"]["calls"][calls], blocks as f64, calls);
        near(&phase["system"]["calls"][size], 65_536.0, size);
    }
    let iops = &phases[2];
    let (ops, calls) = (iops["ops"].as_f64().unwrap(), &iops["system"]["calls"]);
    near(&calls["bytes_per_read_call"], 512.0, "bytes of a read");
    near(&calls["bytes_per_write_call"], 512.0, "bytes of a write");
    let (reads, writes) = (calls["read_calls"].as_f64().unwrap(), calls["write_calls"].as_f64().unwrap());
    assert!(((reads + writes) / ops - 1.0).abs() < 0.01, "{reads} and {writes} calls for {ops} operations");
    // One in ten: four standard deviations.
    let written = iops["app_bytes_written"].as_f64().unwrap() / 512.0;
    assert!((written - ops / 10.0).abs() <= 4.0 * (ops * 0.09).sqrt(), "{written} of {ops} written");
    // Only time ends it, however small the files are.
    assert!(iops["elapsed_ns"].as_u64() >= Some(990_000_000), "{ran}");
    for phase in phases {
        assert_eq!((&phase["workload"]["threads"], &phase["workload"]["files"]), (&3.into(), &3.into()));
        assert_eq!(phase["workload"]["direct"], false);
    }
    let syncs: Vec<_> = phases.iter().map(|phase| phase["workload"]["sync"].clone()).collect();
    assert_eq!(syncs, ["close", "none", "none"]);
    let json = json_output(&ran);
    let result = &results(&json)[0];
    assert_eq!(
        (&result["write_bytes"], &result["read_bytes"]),
        (&(blocks * 65_536).into(), &(blocks * 65_536).into())
    );
    assert_eq!(result["io_operations"], iops["ops"]);
    assert_nothing_left(tmpfs.path());
}

#[test]
fn default_cache_mode_measures_the_device() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 256, &[], "");
    let device_bytes = |cache: &str| {
        let program = gobonniego(disk.path(), SMALL).words(cache);
        let file = program.home().join("run.json");
        let _ran = program.arg("-document").arg(&file).run().did_not_panic().exits(0);
        assert_nothing_left(disk.path());
        let run = document(&file);
        let of = |phase: usize, key: &str| run["phases"][phase]["device"][key].as_u64().unwrap_or(0);
        (of(0, "bytes_written"), of(1, "bytes_read"))
    };
    let size = 64 << 20;
    let (written, read) = device_bytes("");
    assert!(written >= size * 9 / 10 && read >= size * 9 / 10, "{written} written, {read} read, of {size}");
    // With `as-is`, data that was just written is read from memory.
    let (_, read) = device_bytes("-cache as-is");
    assert!(read < size / 10, "{read} read of {size}");
}

#[test]
fn cold_iops_test_visits_each_block_once() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    // These are 2,048 blocks of 512 bytes, and more time than they could take.
    let program = gobonniego(tmpfs.path(), "-size 0.001 -threads 2 -iops-duration 20 -json");
    let ran = program.run().did_not_panic().exits(0);
    assert_eq!(results(&json_output(&ran))[0]["io_operations"], 2048, "{ran}");
    ran.output_contains(&["the IOPS test ended after", "of 20 s", "-cache as-is", "a larger -size"]);
    assert_nothing_left(tmpfs.path());
}

#[test]
fn existing_folder_is_not_removed() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    // The original removes this folder with all that is in it.
    let folder = tmpfs.path().join("gobonniego");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("bonnie.0"), "precious").unwrap();
    let before = fs::metadata(folder.join("bonnie.0")).unwrap().modified().unwrap();
    gobonniego(tmpfs.path(), SMALL).run().did_not_panic().exits(0);
    assert_eq!(fs::read(folder.join("bonnie.0")).unwrap(), b"precious");
    assert_eq!(fs::metadata(folder.join("bonnie.0")).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 1);
}

#[test]
fn missing_directory_is_created_and_removed() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let new = tmpfs.path().join("new");
    let ran = gobonniego(&new, SMALL).words("-v").run().did_not_panic().exits(0);
    ran.stderr_contains(&[new.to_str().unwrap()]);
    assert!(is_empty(tmpfs.path()));
    // The directory is removed also if the run is refused.
    gobonniego(&new, "-size 1000").run().did_not_panic().exits(1).output_contains(&[
        "1000 GiB",
        "free",
        "-size 0.5",
        "-dir",
    ]);
    assert!(is_empty(tmpfs.path()));
    let deep = tmpfs.path().join("a/b");
    gobonniego(&deep, SMALL).run().did_not_panic().exits(1).output_contains(&["a/b", "No such file", "-dir"]);
    assert!(is_empty(tmpfs.path()));
    // A directory that existed before stays.
    fs::create_dir(&new).unwrap();
    gobonniego(&new, SMALL).run().did_not_panic().exits(0);
    assert!(new.is_dir() && is_empty(&new));
}

#[test]
fn default_directory_is_in_tmpdir() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let program = skye().arg("gobonniego").words(SMALL).words("-json").env("TMPDIR", tmpfs.path());
    let ran = program.run().did_not_panic().exits(0);
    assert_eq!(json_output(&ran)["gobonniego_directory"].as_str(), tmpfs.path().to_str());
    for words in ["-h", "-help", "--version"] {
        skye().arg("gobonniego").words(words).env("TMPDIR", tmpfs.path()).run().did_not_panic().exits(0);
    }
    assert!(is_empty(tmpfs.path()), "the original leaves an empty folder each time");
}

#[test]
fn help_and_version_are_printed_on_stdout() {
    let help = skye().words("gobonniego -h").run().did_not_panic().exits(0);
    assert!(help.stdout.starts_with("Usage: skye gobonniego") && help.stderr.is_empty(), "{help}");
    let version = skye().words("gobonniego -version").run().did_not_panic().exits(0);
    assert!(version.stdout.starts_with("gobonniego version 1.0.10 (skye "), "{version}");
    let home = scratch(1 << 20);
    let link = home.path().join("gobonniego");
    symlink(env!("CARGO_BIN_EXE_skye"), &link).unwrap();
    let output = Command::new(&link).arg("-version").stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), version.stdout);
}

#[test]
fn refusals_come_before_anything_is_written() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("48m", None);
    for (words, code, tells) in [
        ("-threads 0", 2, &["-threads `0`", "1 to 4096"][..]),
        ("-size 4g", 2, &["-size `4g`", "-size 0.5"]),
        ("-sise 1", 2, &["-sise is not a flag", "-size"]),
        ("-json false", 2, &["`false` is not a flag's value", "-json=false"]),
        ("-runs 0", 2, &["-runs 0", "-runs 1"]),
        ("-cache warm", 2, &["-cache `warm`", "cold, as-is or drop-all"]),
        ("-iops-duration", 2, &["-iops-duration needs a value"]),
        ("-size 1", 1, &["1 GiB", "free", "-size 0.5"]),
        ("-size 0.01 -document -", 1, &["-document `-`", "choose a file"]),
        ("-size 0.01 -document /nowhere/run.json", 1, &["/nowhere/run.json"]),
    ] {
        let ran = gobonniego(tmpfs.path(), words).run().did_not_panic().exits(code).output_contains(tells);
        assert_eq!(ran.stdout, "", "{words}");
        assert!(is_empty(tmpfs.path()), "{words}");
    }
}

#[test]
fn only_root_drops_the_caches_of_the_machine() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    give_to_other_user(tmpfs.path());
    let program = gobonniego(tmpfs.path(), SMALL).words("-cache drop-all").by_other_user();
    let ran = program
        .run()
        .did_not_panic()
        .exits(1)
        .output_contains(&["drop all caches of this machine", "only root"]);
    assert_eq!(ran.stdout, "");
    // Everything else needs no root.
    gobonniego(tmpfs.path(), SMALL).by_other_user().run().did_not_panic().exits(0);
    assert!(is_empty(tmpfs.path()));
}

#[test]
fn results_of_finished_runs_are_kept_after_signal() {
    xtask::require!(root, tmpfs);
    for (signal, code, form) in
        [(Signal::INT, 130, "-json"), (Signal::TERM, 143, "-json"), (Signal::HUP, 129, "")]
    {
        let tmpfs = tmpfs();
        let new = tmpfs.path().join("new");
        let program = gobonniego(&new, SMALL).words("-runs 1000").words(form).arg("-document");
        let file = program.home().join("run.json");
        let second = program.home().join("run.2.json");
        let mut running = program.arg(&file).spawn();
        // The third run has begun: the document of the second is there, and so are files of the third.
        let has_files = || fs::read_dir(&new).is_ok_and(|mut entries| entries.next().is_some());
        assert!(running.wait_until(|| second.exists() && has_files()));
        running.signal(signal);
        let ran = running.wait().did_not_panic().exits(code);
        assert!(is_empty(tmpfs.path()), "{ran}");
        assert!(ran.stderr.contains("what limited each of them, in the last run:"), "{ran}");
        if form.is_empty() {
            assert!(ran.stdout.lines().count() >= 6, "{ran}");
            continue;
        }
        let json = json_output(&ran);
        assert!(results(&json).len() >= 2, "{ran}");
        for (index, run) in results(&json).iter().enumerate() {
            assert_eq!(
                (&run["write_bytes"], &run["read_bytes"]),
                (&(64 << 20).into(), &(64 << 20).into()),
                "{index}"
            );
        }
        // The first result agrees with its document.
        assert_eq!(document(&file)["phases"][2]["ops"], results(&json)[0]["io_operations"]);
    }
}

#[test]
fn failed_run_keeps_results_of_earlier_runs() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let program = gobonniego(tmpfs.path(), SMALL).words("-json -runs 1000").arg("-document");
    let file = program.home().join("run.json");
    let mut running = program.arg(&file).spawn();
    assert!(running.wait_until(|| file.exists()));
    // From here on, another program takes all free space.
    let mut other = fs::File::create_new(tmpfs.path().join("other")).unwrap();
    let much = vec![1; 16 << 20];
    running.wait_until(|| {
        while other.write(&much).is_ok_and(|written| written > 0) {}
        false
    });
    let ran = running.wait().did_not_panic().exits(1);
    assert!(!results(&json_output(&ran)).is_empty(), "{ran}");
    assert_nothing_left(tmpfs.path());
    assert!(tmpfs.path().join("other").exists());
}

/// Returns a device on which little happens in much time.
fn slow_device(home: &Path) -> PathBuf {
    let file = home.join("device.toml");
    fs::write(&file, "parallelism = 2\nlatency = { kind = \"fixed\", mean_us = 10000 }\n").unwrap();
    PathBuf::from(format!("sim:{}", file.display()))
}

/// 32 blocks of two threads take 16 times 10 ms to be written and to be read; two seconds follow.
const SIMULATED: &str = "-size 0.002 -threads 2 -iops-duration 2 -json";
const SIMULATED_RUN_SECONDS: f64 = 0.16 + 0.16 + 2.0;

#[test]
fn runs_repeat_until_simulated_time_has_passed() {
    let home = scratch(1 << 20);
    let device = slow_device(home.path());
    for (words, runs) in [
        ("-seconds 100", (100.0 / SIMULATED_RUN_SECONDS).ceil() as usize),
        ("-seconds 1", 1),
        ("-seconds 3 -runs 5", 5),
        ("-seconds 3 -runs 0", 2),
    ] {
        let ran = gobonniego(&device, SIMULATED).words(words).run().did_not_panic().exits(0);
        let json = json_output(&ran);
        assert_eq!(results(&json).len(), runs, "{words}: {ran}");
        let run = &results(&json)[0];
        let number = |key: &str| run[key].as_f64().unwrap();
        assert_eq!(
            (number("io_operations"), number("io_seconds"), number("iops")),
            (400.0, 2.0, 200.0),
            "{run}"
        );
        assert_eq!((number("write_bytes"), number("write_seconds")), (f64::from(2 << 20), 0.16), "{run}");
        ran.stderr_contains(&["simulated: these results are computed"]);
    }
}

#[test]
#[ignore = "long"]
fn memory_does_not_grow_with_the_number_of_runs() {
    let home = scratch(1 << 20);
    let device = slow_device(home.path());
    let peak_kib = |seconds: u32| {
        // It ends when the test takes its results out of a pipe that is full until then.
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        while writer.write(b"\n").is_ok() {}
        rustix::fs::fcntl_setfl(&writer, OFlags::empty()).unwrap();
        let program = gobonniego(&device, SIMULATED).arg("-seconds").arg(seconds.to_string());
        let mut running = program.stdout(writer.into()).spawn();
        let of_process = format!("/proc/{}", running.id());
        // Its first thread waits for room with this call, and with no other call for anything else.
        let waits_for_room = format!("{} ", libc::SYS_ppoll);
        let is_at_its_end = || {
            let call = fs::read_to_string(format!("{of_process}/syscall"));
            call.is_ok_and(|call| call.starts_with(&waits_for_room))
        };
        assert!(running.wait_until(is_at_its_end), "it ends with no room for its results");
        let status = fs::read_to_string(format!("{of_process}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        let results = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            let json: Value = serde_json::from_str(&text).unwrap();
            json["results"].as_array().unwrap().len()
        });
        running.wait().did_not_panic().exits(0);
        (peak, results.join().unwrap())
    };
    let (few_kib, few) = peak_kib(10);
    let (many_kib, many) = peak_kib(2000);
    assert!(few == 5 && many > 800 && few_kib > 0, "{few} and {many} runs, {few_kib} KiB");
    assert!(many_kib <= few_kib + 4096, "{few_kib} KiB after {few} runs, {many_kib} KiB after {many}");
}

#[test]
fn report_reads_output_of_skye_and_original() {
    let home = scratch(1 << 20);
    let device = slow_device(home.path());
    let ours = gobonniego(&device, SIMULATED).run().did_not_panic().exits(0).stdout;
    let output = |name: &str, text: &str| {
        let file = home.path().join(name);
        fs::write(&file, text).unwrap();
        open_to_all(&file);
        skye().arg("report").arg(&file).run().did_not_panic()
    };
    let report = output("ours.json", &ours).exits(0).stdout;
    assert!(report.starts_with("GoBonnieGo 1.0.10  sim:") && report.contains("2 threads"), "{report}");
    assert!(report.contains("200 ops/s") && report.contains("13.1 MB/s"), "{report}");
    let theirs = output("theirs.json", &original("gobonniego-1.0.10_root_json_2runs.json")).exits(0).stdout;
    assert!(theirs.contains("run 1 of 2") && theirs.contains("286,026 ops/s"), "{theirs}");
    let text = output("theirs.txt", &original("gobonniego-1.0.10_nonroot_1GiB.txt")).exits(0).stdout;
    assert!(text.contains("GoBonnieGo 1.0.10  SCRATCH") && text.contains("10,215 MB/s"), "{text}");
    let cut = output("cut.json", &ours[..ours.len() - 30]).exits(1);
    cut.output_contains(&["cut.json", "line 1, column", "is truncated", "no result of a GoBonnieGo run"]);
    let edited = output("edited.json", &ours.replace("\"iops\":", "\"IOPS\":")).exits(0);
    edited.output_contains(&["results[0].iops", "is missing", "expected a number", "Sequential Write"]);
    let csv = skye().arg("report").arg(home.path().join("ours.json")).words("--csv -").run().did_not_panic();
    csv.exits(2).output_contains(&["results of GoBonnieGo, not a run of skye"]);
    // Our own documents begin with the same character.
    let program = gobonniego(&device, SIMULATED);
    let document = program.home().join("run.json");
    let _ran = program.arg("-document").arg(&document).run().did_not_panic().exits(0);
    skye()
        .arg("report")
        .arg(&document)
        .run()
        .did_not_panic()
        .exits(0)
        .output_contains(&["gobonniego 1.0.10", "a simulated device"]);
}
