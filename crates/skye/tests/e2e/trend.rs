//! `skye list --trend` on a store of real documents. The runs are copies of one run, with differences put in.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::program::{Skye, document, skye};
use crate::support::scratch;

/// Returns the document of a run with a sequential test, a random test, and a test on files.
fn measured() -> Value {
    let home = scratch(32 << 20);
    let program = skye().arg("run").arg(home.path()).words("--size 8m --files 200 --time 0.1");
    let words = "--allow low-space,busy --test read:seq64k --test read:rnd4k --test create";
    let ran = program.words(words).run().did_not_panic().exits(0);
    document(&ran.saved()[0])
}

/// Returns a program whose store holds copies of a document, oldest first, each changed.
fn store(original: &Value, copies: usize, change: impl Fn(usize, &mut Value)) -> Skye {
    let program = skye();
    let directory = program.home().join("state/skye/runs");
    fs::create_dir_all(&directory).unwrap();
    for at in 0..copies {
        let mut copy = original.clone();
        copy["started_at"] = format!("2026-11-{:02}T14:03:07Z", at + 1).into();
        copy["environment"]["host"] = "ada".into();
        copy["environment"]["target"]["path"] = "/mnt/data".into();
        for phase in copy["phases"].as_array_mut().unwrap() {
            phase["verdict"]["trust"] = "ok".into();
            for (key, rate) in [("bytes_per_second", 1e9), ("ops_per_second", 5e4)] {
                phase["rate"][key] = (rate * (1.0 + 0.001 * (at % 3) as f64)).into();
            }
        }
        change(at, &mut copy);
        write(&directory, at, &copy.to_string());
    }
    program.words("list --trend")
}

fn write(directory: &Path, at: usize, text: &str) {
    fs::write(directory.join(format!("202611{:02}T140307Z-ada.json", at + 1)), text).unwrap();
}

#[test]
fn trend_shows_run_where_rate_changed() {
    let slower = |at: usize, run: &mut Value| {
        if at >= 6 {
            run["phases"][0]["rate"]["bytes_per_second"] = (0.8e9 + 1e5 * at as f64).into();
            run["environment"]["kernel"] = "Linux 7.1.0".into();
        }
        if at == 3 {
            run["phases"][1]["verdict"]["trust"] = "invalid".into();
            run["phases"][1]["rate"]["ops_per_second"] = 1.0.into();
        }
    };
    let program = store(&measured(), 9, slower);
    // An unreadable document keeps its place among the references.
    fs::write(program.home().join("state/skye/runs/20261120T140307Z-ada.json"), "{").unwrap();
    let home = program.home().to_owned();
    let ran = program.run().did_not_panic().exits(0);
    let rows: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("  read") || line.starts_with("  create"))
        .collect();
    assert_eq!(rows.len(), 3, "{ran}");
    assert!(rows[0].contains(" 9 ") && rows[0].contains("801 MB/s") && rows[0].ends_with("-20.0 %"), "{ran}");
    assert!(rows[1].ends_with("steady") && rows[2].ends_with("steady"), "{ran}");
    let ran = ran.output_contains(&[
        "-20.0 % since @-3 (2026-11-07 14:03 UTC): kernel",
        "Linux 7.1.0",
        "with a missing or invalid number",
        "1 saved run is unreadable",
    ]);
    // The name is the one that `skye report` takes.
    let report = skye().env("XDG_STATE_HOME", home.join("state")).words("report -vv @-3");
    report.run().exits(0).output_contains(&["2026-11-07 14:03 UTC", "Linux 7.1.0"]);
    drop(ran);
}

#[test]
fn control_characters_in_documents_are_escaped_in_trend() {
    let hostile = |at: usize, run: &mut Value| {
        let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\nread  forged  @-1";
        run["environment"]["host"] = evil.into();
        run["environment"]["target"]["path"] = format!("/mnt/{evil}").into();
        run["environment"]["kernel"] = format!("{evil}{at}").into();
        run["phases"][0]["label"] = evil.into();
        if at > 3 {
            run["phases"][0]["rate"]["bytes_per_second"] = 1e24.into();
        }
    };
    let ran = store(&measured(), 8, hostile).run().did_not_panic().exits(0);
    assert!(!ran.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{ran}");
    assert!(!ran.stdout.lines().any(|line| line.starts_with("read  forged")), "{ran}");
    assert!(ran.stdout.contains("since @-3"), "{ran}");
}

#[test]
fn empty_store_names_its_directory() {
    let ran = skye().words("list --trend").run().did_not_panic().exits(0);
    ran.output_contains(&["no saved runs", "state/skye/runs"]);
    let ran = store(&measured(), 1, |_, _| {}).run().did_not_panic().exits(0);
    assert_eq!(ran.stdout, "3 tests were measured once: no trend yet.\n", "{ran}");
}
