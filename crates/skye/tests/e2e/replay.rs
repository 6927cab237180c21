//! Load files of dbench: what a replay does, counts and says, and what it refuses.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::program::{assert_nothing_left, files_below, leftovers, parse_document, skye};
use crate::support::scratch;

/// A load of 13 operations, and four lines that are left out. The last one expects a file that is gone.
const LOAD: &str = r#"Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
SETSP 1
NTCreateX "\clients\client1\A FILE.TXT" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 0 65536 65536 NT_STATUS_OK
WriteX 2 65536 65536 65536 NT_STATUS_OK
ReadX 2 1000 4096 4096 NT_STATUS_OK
GETATTR3 "/a" 0x00000000
GETATTR3 "/b" 0x00000000
FIND_FIRST "\clients\client1\*" 260 1366 3 NT_STATUS_OK
Flush 2 NT_STATUS_OK
Close 2 NT_STATUS_OK
Unlink "\clients\client1\A FILE.TXT" NT_STATUS_OK
SETSP 2
QUERY_PATH_INFORMATION "\clients\client1\A FILE.TXT" 1004 NT_STATUS_OK
"#;

fn step(phase: &Value, name: &str) -> u64 {
    let steps = phase["steps"].as_array().unwrap();
    steps.iter().find(|step| step["name"] == name).unwrap()["ops"].as_u64().unwrap()
}

#[test]
fn load_file_is_replayed_by_each_client() {
    let (home, loads) = (scratch(64 << 20), tempfile::tempdir().unwrap());
    let load = loads.path().join("my.txt");
    fs::write(&load, LOAD).unwrap();
    let run = |words: &str| {
        let ran = skye().arg("run").arg(home.path()).words("--allow low-space,busy --json -").words(words);
        let run = parse_document(&ran.run().did_not_panic().exits(0).stdout);
        assert_nothing_left(home.path());
        run
    };
    let counted = run(&format!("--test replay:{}:t3:passes=5", load.display()));
    let phase = &counted["phases"][0];
    assert_eq!(phase["status"], "done", "{phase}");
    assert_eq!((phase["ops"].as_u64(), phase["passes"].as_f64()), (Some(3 * 5 * 13), Some(5.0)));
    assert_eq!((step(phase, "WriteX"), step(phase, "FIND_FIRST"), step(phase, "Close")), (30, 15, 30));
    assert_eq!(phase["app_bytes_written"], 3 * 5 * 131_072);
    assert_eq!(phase["app_bytes_read"], 3 * 5 * 4096);
    let features = phase["engine"]["features"].as_array().unwrap();
    for feature in ["load=my.txt", "load_lines=17"] {
        assert!(features.iter().any(|known| known == feature), "{features:?}");
    }
    let digest = |phase: &Value| {
        let features = phase["engine"]["features"].as_array().unwrap().clone();
        features.into_iter().find(|known| known.as_str().unwrap().starts_with("load_digest=")).unwrap()
    };
    let note = phase["notes"].as_array().unwrap().iter().find(|note| note["code"] == "unlike_load").unwrap();
    let text = note["text"].as_str().unwrap();
    // Fewer than one in ten.
    assert_eq!(note["mark"], "remark");
    assert!(text.contains("15 of 195 operations returned results that differ from the load file"), "{text}");
    assert!(text.contains("line 17, QUERY_PATH_INFORMATION"), "{text}");
    let notes = counted["plan"]["notes"].as_array().unwrap();
    let left_out =
        "skipped unknown operations: SETSP (2 lines, the first is 5), GETATTR3 (2 lines, the first is 10)";
    assert!(notes.iter().any(|note| note.as_str().unwrap().ends_with(left_out)), "{notes:?}");

    // Another load under the same name has another digest.
    fs::write(&load, LOAD.replace("ReadX 2 1000", "ReadX 2 1001")).unwrap();
    let timed = run(&format!("--replay {} --clients 3 --time 0.3", load.display()));
    let other = &timed["phases"][0];
    assert_eq!(other["spec"], format!("replay:{}:t3", load.display()));
    assert!(other["ops"].as_u64() > Some(39) && other["rate"]["bytes_per_second"].as_f64() > Some(0.0));
    assert_ne!(digest(phase), digest(other));
    // However long it lasts, it works on the same tree.
    assert_eq!(other["workload"]["size_bytes"], phase["workload"]["size_bytes"]);
    assert_eq!(other["workload"]["size_bytes"], 3 * 131_072);

    // Where every second operation ends otherwise, the rate is not that of the load.
    fs::write(&load, "Mkdir \"\\a\" NT_STATUS_OK\nUnlink \"\\b\" NT_STATUS_OK\n").unwrap();
    let unlike = run(&format!("--test replay:{}:passes=9", load.display()));
    let notes = unlike["phases"][0]["notes"].as_array().unwrap();
    assert_eq!(notes.iter().find(|note| note["code"] == "unlike_load").unwrap()["mark"], "suspect");
}

#[test]
fn killed_replay_is_cleaned() {
    let (home, loads) = (scratch(64 << 20), tempfile::tempdir().unwrap());
    let load = loads.path().join("my.txt");
    // Its files stay, in directories of several levels.
    let deep: String = (0..40)
        .map(|file| format!("NTCreateX \"\\a\\b\\c{}\\f{file}\" 0x40 0x2 {file} NT_STATUS_OK\n", file % 3))
        .collect();
    let dirs = ["a", "a\\b", "a\\b\\c0", "a\\b\\c1", "a\\b\\c2", "x", "x\\y"];
    let made: String = dirs.iter().map(|path| format!("Mkdir \"\\{path}\" NT_STATUS_OK\n")).collect();
    // Then they lie deeper than any name of the load does.
    fs::write(&load, made + &deep + "Rename \"\\a\" \"\\x\\y\\z\" NT_STATUS_OK\n").unwrap();
    let words = format!("--time 30 --allow low-space,busy --no-save --replay {} --clients 2", load.display());
    let mut running = skye().arg("run").arg(home.path()).words(&words).spawn();
    // The files of the second pass are there, so those of the first were moved.
    let has_files = || leftovers(home.path()).iter().any(|work| files_below(work).len() > 3 * 40);
    assert!(running.wait_until(has_files), "it makes no files");
    running.signal(Signal::KILL);
    drop(running.wait());
    skye().words("clean").arg(home.path()).run().did_not_panic().exits(0);
    assert_eq!(leftovers(home.path()), Vec::<PathBuf>::new());
}

#[test]
fn invalid_replay_is_refused_before_writing() {
    let (home, loads) = (scratch(64 << 20), tempfile::tempdir().unwrap());
    let file = |name: &str, bytes: &[u8]| {
        let path = loads.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let good = file("good.txt", LOAD.as_bytes());
    let broken = file("broken.txt", b"Mkdir \"\\a\" NT_STATUS_OK\nClose 7 NT_STATUS_OK\n");
    let of_nfs = file("nfs.txt", b"GETATTR3 \"/a\" 0x00000000\n");
    let packed = file("packed.gz", &[0x1f, 0x8b, 0xff, 0xfe]);
    for (words, problem) in [
        ("--replay /nowhere/load.txt".to_owned(), "No such file or directory"),
        (format!("--replay {broken}"), "line 2: handle 7 is not open here"),
        (format!("--test replay:{of_nfs}"), "it has only unknown operations: GETATTR3"),
        (format!("--replay {packed}"), "uncompressed text"),
        ("--replay a:b".to_owned(), "choose one without colons"),
        ("--clients 2".to_owned(), "--replay <FILE>"),
        (format!("--replay {good} --hosts local*2"), "replay runs on one host"),
    ] {
        let ran = skye().arg("run").arg(home.path()).words("--allow low-space,busy").words(&words).run();
        ran.did_not_panic().exits(2).output_contains(&[problem]);
        assert_nothing_left(home.path());
    }
}
