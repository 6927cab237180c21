//! The write limit: the bytes that all calls of a run write, counted by strace, whatever the run does.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::program::{Output, Skye, assert_nothing_left, parse_document, skye};
use crate::support::scratch;

const MIB: u64 = 1 << 20;
/// Room for the files of a run.
const ROOM: u64 = 512 * MIB;

/// Runs a program. Returns the bytes that it and its children wrote below a directory, apart from markers.
fn traced(directory: &Path, program: Skye) -> (u64, Output) {
    let traces = tempfile::tempdir().unwrap();
    let output = traces.path().join("trace");
    let calls = "trace=write,writev,pwrite64,pwritev,pwritev2,copy_file_range";
    // A file for each thread: no line of one is cut by another.
    let options = ["-ff", "-y", "-qq", "-s", "0", "-e", calls, "-e", "signal=none", "-o"];
    let options = [&options[..], &[output.to_str().unwrap()]].concat();
    let ran = program.through("strace", &options).run().did_not_panic();
    let below = format!("<{}/", directory.display());
    let mut bytes = 0;
    for trace in fs::read_dir(traces.path()).unwrap() {
        let text = fs::read_to_string(trace.unwrap().path()).unwrap();
        let calls = text.lines().filter(|call| call.contains(&below) && !call.contains("skye-marker"));
        bytes += calls.filter_map(|call| call.rsplit("= ").next()?.parse::<u64>().ok()).sum::<u64>();
    }
    (bytes, ran)
}

fn run(directory: &Path, words: &str) -> Skye {
    let common = "--allow low-space,busy,shared-directory --no-probe --json - --seed 1";
    skye().arg("run").arg(directory).words(common).words(words)
}

fn has_note(phase: &Value, code: &str) -> bool {
    phase["notes"].as_array().unwrap().iter().any(|note| note["code"] == code)
}

/// A mix that mostly writes.
fn mix(files: u32, size: &str, flows: &[&str]) -> String {
    let mut text = format!(
        "[population]\nfiles = {files}\nsizes = {{ median = \"{size}\", p90 = \"{size}\", max = \"{size}\" }}\n"
    );
    for (number, operations) in flows.iter().enumerate() {
        text += &format!("[[flow]]\nname = \"f{number}\"\nweight = {}\ndo = [{operations}]\n", number + 1);
    }
    text
}

/// A load of which each pass writes this number of blocks.
fn load(blocks: u32, block_bytes: u32) -> String {
    let mut text = "NTCreateX \"\\a.txt\" 0x40 0x2 1 NT_STATUS_OK\n".to_owned();
    for block in 0..blocks {
        text += &format!("WriteX 1 {} {block_bytes} {block_bytes} NT_STATUS_OK\n", block * block_bytes);
    }
    text + "Close 1 NT_STATUS_OK\n"
}

#[test]
fn file_tests_stopped_by_write_limit_have_a_note() {
    xtask::require!(strace);
    let home = scratch(ROOM);
    let inputs = tempfile::tempdir().unwrap();
    let (mixed, loaded) = (inputs.path().join("mine.toml"), inputs.path().join("load.txt"));
    fs::write(&mixed, mix(4, "1m", &["\"rewrite\""])).unwrap();
    fs::write(&loaded, load(16, 65_536)).unwrap();
    let limit_bytes = 24 * MIB;
    for test in [format!("mix:{}:t2", mixed.display()), format!("replay:{}:t2", loaded.display())] {
        let words = format!("--test {test} --time 5 --write-limit {limit_bytes}");
        let (bytes, ran) = traced(home.path(), run(home.path(), &words));
        assert!((limit_bytes / 2..=limit_bytes).contains(&bytes), "{bytes} bytes: {ran}");
        let phase = &parse_document(&ran.exits(0).stdout)["phases"][0];
        assert_eq!(phase["status"], "done", "{phase}");
        assert!(phase["ops"].as_u64() > Some(0) && has_note(phase, "write_limit"), "{phase}");
        assert!(phase["elapsed_ns"].as_u64() < Some(5_000_000_000), "{phase}");
        assert_nothing_left(home.path());
    }
}

#[test]
fn replay_with_fixed_passes_may_use_whole_write_limit() {
    xtask::require!(strace);
    let home = scratch(ROOM);
    let inputs = tempfile::tempdir().unwrap();
    let loaded = inputs.path().join("load.txt");
    fs::write(&loaded, load(16, 65_536)).unwrap();
    let words = format!("--test replay:{}:t3:passes=4 --write-limit 12m", loaded.display());
    let (bytes, ran) = traced(home.path(), run(home.path(), &words));
    let phase = &parse_document(&ran.exits(0).stdout)["phases"][0];
    assert_eq!((bytes, phase["passes"].as_f64(), &phase["status"]), (12 * MIB, Some(4.0), &"done".into()));
    assert!(!has_note(phase, "write_limit"), "{phase}");
}

#[test]
fn clients_together_stay_below_the_write_limit() {
    xtask::require!(strace);
    let home = scratch(ROOM);
    let limit_bytes = 30 * MIB;
    let tests = "--test write:seq64k:buffered --test create:files=16:size=64k --test mix:mail:files=20";
    let words = format!("--hosts local*3 --size 1m --time 0.5 {tests} --write-limit {limit_bytes}");
    let (bytes, ran) = traced(home.path(), run(home.path(), &words));
    assert!((limit_bytes / 4..=limit_bytes).contains(&bytes), "{bytes} bytes: {ran}");
    let document = parse_document(&ran.exits(0).stdout);
    assert_eq!(document["plan"]["write_limit_bytes"], limit_bytes);
    assert!(document["plan"]["bytes_to_write_max"].as_u64() <= Some(limit_bytes / 3));
    // The limit that would do is that of all clients.
    let refused = run(home.path(), "--hosts local*3 --size 2m --test write:seq64k:buffered --write-limit 3m");
    refused.run().exits(2).stderr_contains(&[
        "cannot stay within the write limit of 3.15 MB",
        "need at least 6.",
        "--write-limit 1GB",
    ]);
}

#[test]
#[ignore = "long"]
fn ab_runs_together_stay_below_write_limit() {
    xtask::require!(strace);
    let home = scratch(ROOM);
    let sides = ["a", "b"].map(|side| home.path().join(side));
    sides.iter().for_each(|side| fs::create_dir(side).unwrap());
    let limit_bytes = 64 * MIB;
    for hosts in ["", "--hosts local*2"] {
        let program = skye().arg("ab").arg(&sides[0]).arg(&sides[1]).words(hosts).words(
            "--size 256k --test write:seq64k:buffered --time 0.02 --total 20 --allow low-space,busy,shared-directory --no-save",
        );
        let program = program.arg("--write-limit").arg(limit_bytes.to_string());
        let (bytes, ran) = traced(home.path(), program);
        assert!((limit_bytes / 4..=limit_bytes).contains(&bytes), "{bytes} bytes: {ran}");
        ran.exits(0);
        let small = skye().arg("ab").arg(&sides[0]).arg(&sides[1]).words(hosts);
        let small =
            small.words("--size 2m --test write:seq64k --write-limit 20m --dry-run --allow low-space,busy");
        small.run().exits(2).stderr_contains(&["runs, which share --write-limit; raise it"]);
    }
}

#[test]
fn data_set_as_large_as_write_limit_is_allowed() {
    let home = scratch(ROOM);
    let words = "--no-save --time 0.1 --test read:seq1m --size 8m --write-limit 8m --allow low-space,busy";
    skye().arg("run").arg(home.path()).words(words).run().did_not_panic().exits(0);
}

#[test]
#[ignore = "long"]
fn random_tests_stay_below_random_write_limits() {
    xtask::require!(strace);
    let home = scratch(ROOM);
    let inputs = tempfile::tempdir().unwrap();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let operations = [
        "\"create\"",
        "\"create rename\", \"delete\"",
        "\"append=3000\"",
        "\"overwrite=64k\"",
        "\"rewrite fsync\"",
        "\"truncate\", \"rewrite\"",
        "\"log=100k\"",
        "\"stat\"",
        "\"create link\", \"append=1m\", \"delete\"",
    ];
    let mut ran_through = 0;
    for number in 0..150 {
        let limit_bytes = random.u64(MIB..48 * MIB);
        let threads = random.u32(1..4);
        let (files, size) = (random.u32(2..40), random.u32(0..300_000));
        let test = match random.u32(..7) {
            0 | 1 => {
                let file = inputs.path().join(format!("{number}.toml"));
                let flows: Vec<_> =
                    (0..random.usize(1..4)).map(|_| operations[random.usize(..operations.len())]).collect();
                fs::write(&file, mix(files, &(size + 1).to_string(), &flows)).unwrap();
                let shared = if random.bool() { ":shared" } else { "" };
                format!("mix:{}:t{threads}{shared}", file.display())
            }
            2 | 3 => {
                let file = inputs.path().join(format!("{number}.txt"));
                fs::write(&file, load(random.u32(1..50), random.u32(1..100_000))).unwrap();
                let passes =
                    if random.bool() { String::new() } else { format!(":passes={}", random.u32(1..9)) };
                format!("replay:{}:t{threads}{passes}", file.display())
            }
            4 => format!("create:files={files}:size={size}:t{threads}"),
            5 => format!("append:files={files}:size={size}:chunk={}:t{threads}", random.u32(256..100_000)),
            _ => {
                let verb = ["truncate", "copy", "copy:by=copy-range", "unlink"][random.usize(..4)];
                format!("{verb}:files={files}:size={}:t{threads}", size + 2)
            }
        };
        let words = format!("--test {test} --test write:rnd4k:buffered --size 256k --time 0.2");
        let program = run(home.path(), &words).arg("--write-limit").arg(limit_bytes.to_string());
        let (bytes, ran) = traced(home.path(), program);
        let report = || format!("seed {seed}, run {number}, {test}: {bytes} of {limit_bytes} bytes\n{ran}");
        assert!(bytes <= limit_bytes && matches!(ran.code, Some(0 | 2)), "{}", report());
        assert!(ran.code == Some(0) || bytes == 0, "{}", report());
        ran_through += u32::from(ran.code == Some(0));
        assert_nothing_left(home.path());
    }
    assert!(ran_through > 0, "seed {seed}");
}
