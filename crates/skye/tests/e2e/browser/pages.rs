//! The pages of runs and of comparisons, in a real browser. Some pages are ordinary, others have hostile texts.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::devtools::Browser;
use super::{WIDTHS, complaints_in};
use crate::support::program::{document, skye};
use crate::support::scratch;

/// A hostile name: quotes, tags, characters that act on a terminal and turn the writing around, and long words.
const HOSTILE: &str = "</style></title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u{1b}[31m\u{202e}evil\u{0} \
    Wiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiide WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW 漢字漢字漢字漢字";
/// Sections of every page of a run.
const RUN: [&str; 5] = ["results", "findings", "tests", "machine", "method"];
/// Sections of every page of a comparison of skye's runs.
const COMPARISON: [&str; 5] = ["differs", "results", "findings", "tests", "method"];

/// A directory of pages, and one browser for all of them: its start takes longer than the inspection of a page.
struct Pages {
    place: TempDir,
    browser: Browser,
    found: Vec<String>,
}

impl Pages {
    fn new() -> Self {
        Self { place: scratch(16 << 20), browser: Browser::start(), found: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn inspect(&mut self, name: &str, sections: &[&str]) {
        let file = self.path(name);
        let name = name.trim_end_matches(".html");
        let found = complaints_in(&mut self.browser, &file, Some(name), sections, &WIDTHS);
        self.found.extend(found.into_iter().map(|text| format!("{name}, {text}")));
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns a device whose requests take a random time, with this mean.
    fn device(&self, mean_us: u32) -> String {
        let text = format!("latency = {{ kind = \"exponential\", mean_us = {mean_us} }}\nparallelism = 4\n");
        format!("sim:{}", self.write(&format!("{mean_us}.toml"), &text).display())
    }

    /// Returns the document of a run of a few tests on such a device.
    fn run(&self, mean_us: u32, words: &str) -> PathBuf {
        let path = self.path(&format!("{mean_us}.json"));
        let program = skye().arg("run").arg(self.device(mean_us)).arg("--json").arg(&path);
        let tests = "--test read:rnd4k:ops=2500 --test write:rnd4k:q4:ops=2500 --test rw:seq64k:ops=2500 \
                     --test read:seq64k:zones=50 --quiet";
        program.words(tests).words(words).run().did_not_panic().exits(0);
        path
    }

    fn compare(&self, files: &[&Path], name: &str) {
        let program = files.iter().fold(skye().arg("compare"), |program, file| program.arg(file));
        program.arg("--html").arg(self.path(name)).run().did_not_panic().exits(0);
    }

    #[track_caller]
    fn assert_presentable(self) {
        assert!(self.found.is_empty(), "{}", self.found.join("\n"));
    }
}

/// Replaces the texts that users and machines give a document by a hostile one. The tests of the page maker check every
/// text of any document.
fn hostile(mut run: Value) -> Value {
    run["label"] = json!(HOSTILE);
    run["command"] = json!(["skye", HOSTILE]);
    run["environment"]["host"] = json!(HOSTILE);
    run["environment"]["kernel"] = json!(HOSTILE);
    let target = &mut run["environment"]["target"];
    for key in ["path", "mount_point", "source", "file_system"] {
        target[key] = json!(HOSTILE);
    }
    target["mount_options"] = json!([HOSTILE, HOSTILE]);
    target["notes"] = json!([HOSTILE]);
    run["environment"]["settings"] = json!([{"name": HOSTILE, "value": HOSTILE}]);
    run["tool"]["warnings"] = json!([HOSTILE]);
    for phase in run["phases"].as_array_mut().unwrap() {
        phase["label"] = json!(HOSTILE);
        for note in phase["notes"].as_array_mut().into_iter().flatten() {
            note["text"] = json!(HOSTILE);
        }
        for error in phase["errors"].as_array_mut().into_iter().flatten() {
            error["message"] = json!(HOSTILE);
        }
    }
    run
}

#[test]
fn pages_of_runs_are_presentable() {
    xtask::require!(chromium);
    let mut pages = Pages::new();
    let home = scratch(64 << 20);
    let saved = pages.path("run.json");
    let words = "--size 8m --files 200 --time 0.3 --repeat 2 --allow low-space,busy --quiet \
        --test write:seq64k --test rw:rnd4k:t2 --test create:t2 --test stat --test unlink";
    let program = skye().arg("run").arg(home.path()).words(words).arg("--json").arg(&saved);
    program.arg("--html").arg(pages.path("run.html")).run().did_not_panic().exits(0);
    pages.inspect("run.html", &[&RUN[..], &["files"]].concat());
    let error = pages.write("trouble.json", &hostile(document(&saved)).to_string());
    let program = skye().arg("report").arg(&error).arg("--html").arg(pages.path("run-hostile.html"));
    program.run().did_not_panic().exits(0);
    pages.inspect("run-hostile.html", &RUN);
    let program =
        skye().arg("run").arg(pages.device(200)).words("--test read:rnd4k:ops=2000 --sweep q1..q64 --quiet");
    program.arg("--html").arg(pages.path("run-sweep.html")).run().did_not_panic().exits(0);
    pages.inspect("run-sweep.html", &[&RUN[..], &["scaling"]].concat());
    pages.assert_presentable();
}

#[test]
#[ignore = "long"]
fn pages_of_comparisons_are_presentable() {
    xtask::require!(chromium);
    let mut pages = Pages::new();
    let files: Vec<_> = [(200, 1), (190, 2), (260, 3)]
        .map(|(mean_us, seed)| pages.run(mean_us, &format!("--repeat 6 --seed {seed}")))
        .into();
    let [first, second, third] = [&files[0], &files[1], &files[2]].map(PathBuf::as_path);
    pages.compare(&[first, third], "compare.html");
    pages.inspect("compare.html", &COMPARISON);
    pages.compare(&[first, second, third], "compare-three.html");
    pages.inspect("compare-three.html", &[&COMPARISON[..], &["test-read-rnd4k-ops-2500"]].concat());
    let [one, other] = [(first, "1.json"), (third, "2.json")].map(|(file, name)| {
        let mut run = hostile(document(file));
        run["label"] = json!(format!("{name}{HOSTILE}"));
        run["environment"]["kernel"] = json!(format!("{name}{HOSTILE}"));
        pages.write(name, &run.to_string())
    });
    pages.compare(&[&one, &other], "compare-hostile.html");
    pages.inspect("compare-hostile.html", &COMPARISON);
    let once = pages.run(230, "--seed 4");
    pages.compare(&[&once, first], "compare-once.html");
    pages.inspect("compare-once.html", &COMPARISON);
    pages.assert_presentable();
}

#[test]
#[ignore = "long"]
fn ab_and_bonnie_pages_have_no_layout_defects() {
    xtask::require!(chromium);
    let mut pages = Pages::new();
    let program = skye().arg("ab").arg(pages.device(200)).arg(pages.device(180));
    let words = "--test read:rnd4k:ops=2500 --test write:rnd4k:ops=2500 --seed 7 --quiet --format html";
    let page = program.words(words).run().did_not_panic().exits(0).stdout;
    pages.write("ab.html", &page);
    assert!(page.contains("measured in turns") && page.contains("class=\"pair\""));
    pages.inspect("ab.html", &COMPARISON);
    let data =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../family/tests/data/bonnie++-2.00a_x2_header.csv");
    let copy = pages.write("after.csv", &fs::read_to_string(&data).unwrap());
    pages.compare(&[&data, &copy], "compare-foreign.html");
    pages.inspect("compare-foreign.html", &COMPARISON);
    pages.assert_presentable();
}
