//! Comparisons of runs, on devices whose difference is known.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use xtask::sized;

use crate::support::program::{Output, assert_nothing_left, document, parse_comparison, skye};
use crate::support::scratch;

/// Number of requests on a device whose requests take a random time. The rate of this many spreads by 2 %.
const OPS: u32 = 2500;

/// A directory with descriptions of devices by their mean latency.
struct Devices(TempDir);

impl Devices {
    fn new() -> Self {
        Self(scratch(1 << 20))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn device(&self, mean_us: f64) -> String {
        let path = self.path(&format!("{mean_us:.3}.toml"));
        let text = format!("latency = {{ kind = \"exponential\", mean_us = {mean_us} }}\nparallelism = 1\n");
        fs::write(&path, text).unwrap();
        format!("sim:{}", path.display())
    }

    /// Returns the document of six repetitions of tests on a device.
    fn run(&self, name: &str, mean_us: f64, seed: u64, tests: &[String]) -> PathBuf {
        self.run_with(name, mean_us, tests, &format!("--repeat 6 --seed {seed}"))
    }

    fn run_with(&self, name: &str, mean_us: f64, tests: &[String], words: &str) -> PathBuf {
        let path = self.path(name);
        let mut program = skye().arg("run").arg(self.device(mean_us)).words(words).arg("--json").arg(&path);
        for test in tests {
            program = program.arg("--test").arg(test);
        }
        program.arg("--quiet").run().exits(0);
        path
    }
}

fn compare(files: &[&Path], words: &str) -> Output {
    files
        .iter()
        .fold(skye().arg("compare"), |program, file| program.arg(file))
        .words(words)
        .run()
        .did_not_panic()
}

/// Returns the rows of a comparison that are rates, with the change from the first side to the second.
fn changes(files: &[&Path]) -> Vec<Value> {
    let comparison = parse_comparison(&compare(files, "--format json").exits(0).stdout);
    assert_eq!(comparison["schema"], "skye.compare/1");
    let rows = comparison["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["measure"] != "p99_ns").map(|row| row["changes"][0].clone()).collect()
}

fn one_test() -> Vec<String> {
    vec![format!("read:rnd4k:ops={OPS}")]
}

/// 400 rows have no change. A single test at 5 % would claim 30 or more of them in one of 50 attempts.
#[test]
#[ignore = "long"]
fn false_positive_rate_matches_significance_level() {
    let devices = Devices::new();
    let tests: Vec<_> = (0..20).map(|index| format!("read:rnd4k:ops={}", OPS + index)).collect();
    let (mut claimed, mut without_correction, mut covered, mut rows) = (0, 0, 0, 0);
    let comparisons = 20;
    for number in 0..comparisons {
        let [a, b] = [("a.json", 2 * number), ("b.json", 2 * number + 1)]
            .map(|(name, seed)| devices.run(name, 200.0, seed + 1, &tests));
        for change in changes(&[&a, &b]) {
            rows += 1;
            claimed += usize::from(change["answer"] == "changed");
            without_correction += usize::from(change["p"].as_f64().unwrap() < 0.05);
            let ends = ["ci95_low_ratio", "ci95_high_ratio"].map(|key| change[key].as_f64().unwrap());
            covered += usize::from(ends[0] <= 1.0 && 1.0 <= ends[1]);
        }
    }
    eprintln!(
        "{rows} rows: {claimed} claimed, {without_correction} with p < 0.05, {covered} intervals hold 1"
    );
    assert_eq!(rows, 20 * comparisons as usize);
    // 7.25 % are two standard deviations above 5 % of 400.
    let most = rows * 29 / 400;
    assert!(claimed <= most && without_correction <= most, "{claimed} {without_correction}");
    assert!((rows * 90 / 100..=rows * 99 / 100).contains(&covered), "{covered}");
}

#[test]
fn change_of_five_percent_is_found() {
    let devices = Devices::new();
    let attempts = sized(20, 50);
    let found = (0..attempts).filter(|number| {
        let a = devices.run("a.json", 200.0, 2 * number + 1, &one_test());
        let b = devices.run("b.json", 200.0 / 1.05, 2 * number + 2, &one_test());
        let change = &changes(&[&a, &b])[0];
        change["answer"] == "changed" && change["direction"] == "better"
    });
    let found = found.count();
    eprintln!("{found} of {attempts} found");
    assert!(found * 100 >= attempts as usize * 80, "{found} of {attempts}");
}

#[test]
fn rate_interval_covers_true_rate() {
    let devices = Devices::new();
    let tests = ["read:rnd4k".to_owned()];
    let runs = sized(60, 300);
    let run = document(&devices.run_with(
        "run.json",
        200.0,
        &tests,
        &format!("--repeat {runs} --time 10 --seed 1"),
    ));
    let holds = |phase: &Value| {
        let end = |key: &str| phase["rate"][key].as_f64().unwrap();
        end("ci95_low_ops_per_second") <= 5000.0 && 5000.0 <= end("ci95_high_ops_per_second")
    };
    let phases = run["phases"].as_array().unwrap();
    let held = phases.iter().filter(|phase| holds(phase)).count();
    eprintln!("{held} of {} intervals hold the rate", phases.len());
    assert_eq!(phases.len(), runs);
    assert!((runs * 90 / 100..=runs * 99 / 100).contains(&held), "{held} of {runs}");
}

#[test]
fn fail_on_limit_sets_exit_code() {
    let devices = Devices::new();
    let slow = devices.run("slow.json", 250.0, 1, &one_test());
    let fast = devices.run("fast.json", 200.0, 2, &one_test());
    let once = devices.run_with("once.json", 200.0, &one_test(), "--seed 3");
    let beyond = compare(&[&fast, &slow], "--fail-on throughput<-5%").exits(4);
    assert!(beyond.stderr.contains("read 4K rnd q1 -") && beyond.stdout.contains("slower in 1 test"));
    compare(&[&slow, &fast], "--fail-on throughput<-5%").exits(0);
    compare(&[&slow, &fast], "--fail-on throughput<-5% --fail-on throughput>5%").exits(4);
    // A gate that nothing can fail is no gate.
    let undecided = "--fail-on throughput<-5%";
    compare(&[&once, &slow], undecided).exits(6).stderr_contains(&["cannot decide", "--repeat 6"]);
    compare(&[&once, &slow], &format!("{undecided} --undecided pass")).exits(0);
    compare(&[&once, &slow], &format!("{undecided} --undecided fail")).exits(4);
    compare(&[&slow, &fast], "--fail-on speed<-5%").exits(2).stderr_contains(&["throughput, p99"]);
    let text = compare(&[&once, &slow], "").exits(0).stdout;
    assert!(text.contains("n=1") && text.contains("--repeat 6") && !text.contains("p="), "{text}");
}

#[test]
fn too_few_repetitions_are_noted_before_the_run() {
    let devices = Devices::new();
    let planned = |tests: usize, words: &str| {
        let program = skye().arg("run").arg(devices.device(200.0)).words("--dry-run").words(words);
        let tests = (0..tests).map(|number| format!("read:rnd4k:ops={}", OPS as usize + number));
        tests.fold(program, |program, test| program.arg("--test").arg(test)).run().exits(0).stdout
    };
    let text = planned(2, "--repeat 3");
    assert!(
        text.contains("3 repetitions of 2 rows cannot show a change in skye compare: use --repeat 6"),
        "{text}"
    );
    assert!(planned(24, "--repeat 6").contains("use --repeat 7"));
    for (tests, words) in [(2, ""), (1, "--repeat 4"), (23, "--repeat 6")] {
        assert!(!planned(tests, words).contains("cannot show a change"), "{words}");
    }
}

#[test]
fn runs_are_grouped_by_common_key() {
    let devices = Devices::new();
    let run = |name: &str, mean_us: f64, seed: u64, label: &str| {
        devices.run_with(name, mean_us, &one_test(), &format!("--repeat 3 --seed {seed} --label {label}"))
    };
    let files = [
        run("1.json", 200.0, 1, "old"),
        run("2.json", 150.0, 2, "new"),
        run("3.json", 200.0, 3, "old"),
        run("4.json", 150.0, 4, "new"),
    ];
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let text = compare(&files, "--by label").exits(0).stdout;
    assert!(
        text.contains("new (6 runs) against old (6 runs)") && text.contains("faster in 1 test"),
        "{text}"
    );
    compare(&files, "--by lable").exits(2).stderr_contains(&["did you mean label?"]);
    compare(&files, "--by preset").exits(2).stderr_contains(&["it is `custom` in all"]);
    // Without a key, each file is a side.
    let text = compare(&files, "").exits(0).stdout;
    assert!(text.contains("Three sides, each against 1."), "{text}");
}

#[test]
fn invalid_run_file_is_reported_and_others_compared() {
    let devices = Devices::new();
    let a = devices.run("a.json", 200.0, 1, &one_test());
    let b = devices.run("b.json", 150.0, 2, &one_test());
    let text = fs::read_to_string(&a).unwrap();
    let write = |name: &str, text: &str| {
        let path = devices.path(name);
        fs::write(&path, text).unwrap();
        path
    };
    let edited = text.replacen("\"ops\": ", "\"ops\": \"many\", \"x\": ", 1);
    assert_ne!(edited, text);
    for (file, message) in [
        (write("empty.json", ""), "found an empty document"),
        (write("cut.json", &text[..text.len() / 2]), "truncated at line"),
        (write("newer.json", &text.replace("skye.run/3", "skye.run/4")), "use a newer skye"),
        (write("edited.json", &edited), "many"),
        (write("other.json", "{\"schema\": \"fio\"}"), "found schema fio"),
        (write("text.txt", "hello\n"), "expected JSON with a run of skye"),
        (devices.path("nowhere.json"), "No such file"),
    ] {
        let path = file.display().to_string();
        let ran = compare(&[&a, &file], "").exits(2).stderr_contains(&[message, &path]);
        assert_eq!(ran.stdout, "", "{path}");
        let ran = compare(&[&a, &file, &b], "").exits(2).stderr_contains(&[message, &path]);
        assert!(ran.stdout.contains("\"b\" is faster in 1 test"), "{path}: {}", ran.stdout);
    }
    let other = devices.run("other.json", 200.0, 1, &["write:rnd4k:ops=100".to_owned()]);
    compare(&[&a, &other], "").exits(2).stderr_contains(&["no test in common", "write:rnd4k:ops=100"]);
    compare(&[&a], "").exits(2).stderr_contains(&["choose another run"]);
}

#[test]
fn results_of_older_programs_are_compared() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../family/tests/data");
    let line = fs::read_to_string(data.join("bonnie++-2.00a_x2_header.csv")).unwrap();
    let devices = Devices::new();
    let copy = devices.path("after.csv");
    // Twice as many files created a second, in every line.
    fs::write(&copy, &line).unwrap();
    let text = compare(&[&data.join("bonnie++-2.00a_x2_header.csv"), &copy], "").exits(0).stdout;
    assert!(text.contains("Write blocks (256M)") && text.contains("bonnie++ 2.00a"), "{text}");
    let unlike = [data.join("bonnie++-1.03e_s1500_r700_n4.stdout"), copy];
    compare(&[&unlike[0], &unlike[1]], "").exits(2).stderr_contains(&["Write blocks (1500M)"]);
}

#[test]
fn hostile_labels_are_escaped_in_every_format() {
    let devices = Devices::new();
    let hostile = "=cmd|<script>alert(1)</script>\u{1b}[31m\u{202e}@all";
    let run = |name: &str, label: &str, seed: u64| {
        let path = devices.path(name);
        let program =
            skye().arg("run").arg(devices.device(200.0)).words("--test read:rnd4k:ops=500 --repeat 2");
        let program = program.arg(format!("--label={label}")).arg("--seed").arg(seed.to_string());
        program.arg("--json").arg(&path).arg("--quiet").run().exits(0);
        path
    };
    let (a, b) = (run("a.json", hostile, 1), run("b.json", "-b", 2));
    for format in ["text", "markdown", "csv", "json", "html"] {
        let text = compare(&[&a, &b], &format!("--format {format}")).exits(0).stdout;
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{format}: {text}");
        match format {
            "html" => assert!(!text.contains("<script") && text.contains("&#60;script&#62;"), "{text}"),
            "markdown" => assert!(!text.contains("<script") && !text.contains("@all"), "{text}"),
            "csv" => {
                assert!(text.contains("'=cmd") && text.contains("'-b") && !text.contains(",=cmd"), "{text}")
            }
            _ => {}
        }
    }
}

#[test]
fn html_page_is_written_along_with_printed_output() {
    let devices = Devices::new();
    let a = devices.run("a.json", 200.0, 1, &one_test());
    let b = devices.run("b.json", 150.0, 2, &one_test());
    let page = devices.path("page.html");
    let extra_args = format!("--format json --html {}", page.display());
    let json: Value = serde_json::from_str(&compare(&[&a, &b], &extra_args).exits(0).stdout).unwrap();
    assert_eq!(json["schema"], "skye.compare/1");
    let written = fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!doctype html>") && written.contains("id=\"test-read-rnd4k-ops-2500\""));
    for words in ["--format html", "--html -", "--html - --format html"] {
        assert_eq!(compare(&[&a, &b], words).exits(0).stdout, written, "{words}");
    }
    // The page holds the comparison, and no run.
    compare(&[&page, &b], "").exits(2).stderr_contains(&["is a comparison", "choose one of the"]);
    compare(&[&a, &b], "--html - --format csv")
        .exits(2)
        .stderr_contains(&["two formats of a comparison on stdout"]);
    let text =
        compare(&[&a, &b], "--html /dev/null/page.html").exits(2).stderr_contains(&["/dev/null/page.html"]);
    assert_eq!(text.stdout, "");
}

#[test]
fn ab_with_unwritable_page_is_refused_before_measuring() {
    let devices = Devices::new();
    let (a, b) = (devices.device(200.0), devices.device(190.0));
    let ab = |words: &str| skye().arg("ab").arg(&a).arg(&b).words(words).run().did_not_panic();
    let ran = ab("--test read:rnd4k:ops=100 --html /dev/null/page.html").exits(2);
    assert_eq!(ran.stderr_contains(&["/dev/null/page.html"]).stdout, "", "nothing was announced");
    let page = ab("--test read:rnd4k:ops=100 --effect 100% --seed 1 --html -").exits(0).stdout;
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
}

#[test]
fn ab_finds_known_difference_and_equality() {
    let devices = Devices::new();
    let (a, b) = (devices.device(200.0), devices.device(190.0));
    let ab = |other: &str, words: &str| {
        let program = skye().arg("ab").arg(&a).arg(other).arg("--test").arg(format!("read:rnd4k:ops={OPS}"));
        program.words("--seed 7").words(words).run().did_not_panic()
    };
    let text = ab(&b, "").exits(0).stdout;
    assert!(text.contains("measured alternately") && text.contains("faster in 1 test"), "{text}");
    let same = ab(&a, "").exits(0).stdout;
    assert!(same.contains("the same in 1 test"), "{same}");
    ab(&b, "--fail-on throughput>4%").exits(4);
    let json = parse_comparison(&ab(&b, "--format json").exits(0).stdout);
    let runs = json["rows"][0]["changes"][0]["runs"].as_u64().unwrap();
    // Six pairs settle one row, and blocks are of two.
    assert!(json["is_interleaved"] == true && runs >= 6 && runs.is_multiple_of(2), "{runs}");
}

#[test]
fn ab_of_two_directories_saves_two_paired_runs() {
    let (a, b) = (scratch(64 << 20), scratch(64 << 20));
    let words = "--test create --test read:seq64k --files 200 --size 4m --time 0.1 --total 60s --effect 100% \
                 --allow low-space,busy";
    let program = skye().arg("ab").arg(a.path()).arg(b.path()).words(words);
    let ran = program.run().did_not_panic().exits(0);
    assert_nothing_left(a.path());
    assert_nothing_left(b.path());
    let saved = ran.saved();
    assert_eq!(saved.len(), 2, "{saved:?}");
    let runs = saved.iter().map(|path| document(path)).collect::<Vec<_>>();
    let side = |run: &Value| run["pairing"]["side"].as_str().unwrap().to_owned();
    assert_eq!(runs[0]["pairing"]["id"], runs[1]["pairing"]["id"]);
    assert_ne!(side(&runs[0]), side(&runs[1]));
    for run in &runs {
        assert_eq!(run["run_status"], "complete");
        let path = if side(run) == "A" { a.path() } else { b.path() };
        assert_eq!(run["environment"]["target"]["path"], path.to_str().unwrap());
        // Both tests need eight pairs.
        let pairs =
            run["phases"].as_array().unwrap().iter().filter(|phase| phase["name"] == "create").count();
        assert!(pairs >= 8 && run["pairing"]["first"].as_array().unwrap().len() == pairs, "{pairs}");
    }
    let firsts = |index: usize| runs[index]["pairing"]["first"].as_array().unwrap().clone();
    assert!(firsts(0).iter().zip(&firsts(1)).all(|(one, other)| one != other), "one of the two goes first");
    let state = ran.home().join("state");
    let text = skye().env("XDG_STATE_HOME", &state).words("compare @-1 @").run().exits(0).stdout;
    assert!(text.contains("measured alternately"), "{text}");
}

#[test]
fn interrupted_ab_is_saved_and_cleaned_up() {
    let (a, b) = (scratch(64 << 20), scratch(64 << 20));
    let words = "--test create --files 200 --time 0.2 --total 10m --effect 0.001% --allow low-space,busy";
    let mut running = skye().arg("ab").arg(a.path()).arg(b.path()).words(words).spawn();
    // After the sleep, both sides have had files, and a later pair is under way.
    assert!(running.wait_until(|| !crate::support::program::leftovers(a.path()).is_empty()));
    std::thread::sleep(std::time::Duration::from_secs(3));
    running.signal(Signal::INT);
    let ran = running.wait().did_not_panic().exits(130);
    assert!(ran.stderr.contains("ended by SIGINT; its files are removed"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("ended by").count(), 1, "{}", ran.stderr);
    assert_nothing_left(a.path());
    assert_nothing_left(b.path());
    assert_eq!(ran.saved().len(), 2);
}

#[test]
fn directory_means_its_last_run() {
    let devices = Devices::new();
    let (before, after) = (devices.path("before"), devices.path("after"));
    for (directory, mean_us) in [(&before, 200.0), (&after, 150.0)] {
        fs::create_dir(directory).unwrap();
        fs::rename(devices.run("run.json", mean_us, 1, &one_test()), directory.join("run.json")).unwrap();
    }
    let ran = compare(&[&after, &before], "--fail-on throughput<-5%").exits(4);
    ran.stderr_contains(&["exceeds --fail-on: read 4K rnd"]);
    let empty = devices.path("empty");
    fs::create_dir(&empty).unwrap();
    compare(&[&before, &empty], "").exits(2).stderr_contains(&["cannot find a saved run in"]);
    skye().words("help simulator").run().exits(2).stderr_contains(&["the topics are spec, sim, csv"]);
    skye().words("explain ops_per_second").run().exits(0).output_contains(&["a column of CSV"]);
}

#[test]
fn undecidable_comparison_is_refused() {
    let devices = Devices::new();
    let a = devices.run("a.json", 200.0, 1, &one_test());
    let b = devices.run("b.json", 150.0, 2, &one_test());
    compare(&[&a, &b], "--fail-on throughput<-1%").exits(2).stderr_contains(&["--effect 1%"]).has_no_result();
    compare(&[&b, &a], "--fail-on throughput<-1% --effect 1%").exits(4);
    // A run counts once, whatever its file is called.
    let copy = devices.path("copy.json");
    fs::copy(&a, &copy).unwrap();
    compare(&[&a, &copy, &b], "--by target").exits(2).stderr_contains(&["cannot use a run twice"]);
    // All runs are compared with the first, or with nothing.
    let nowhere = devices.path("nowhere.json");
    compare(&[&nowhere, &a, &b], "").exits(2).stderr_contains(&["No such file"]).has_no_result();
    compare(&[&a, &b], "--by color").exits(2).stderr_contains(&["has no such key"]);
}

#[test]
fn ab_ends_early_once_decided_or_failed() {
    let devices = Devices::new();
    let good = devices.device(200.0);
    let bad = devices.path("bad.toml");
    let errors = "latency = { kind = \"exponential\", mean_us = 200 }\nerrors = [{ after_ops = 100, error = \"EIO\" }]\n";
    fs::write(&bad, errors).unwrap();
    let ab = |b: &str, words: &str| {
        skye()
            .arg("ab")
            .arg(&good)
            .arg(b)
            .words("--test read:rnd4k:ops=2500")
            .words(words)
            .run()
            .did_not_panic()
    };
    let ran = ab(&format!("sim:{}", bad.display()), "--total 10m").exits(1);
    assert!(ran.stderr.contains("nothing can be compared"), "{}", ran.stderr);
    assert!(ran.stderr.matches("failed").count() <= 2, "{}", ran.stderr);
    let (a, b) = (scratch(64 << 20), scratch(64 << 20));
    let short = skye().arg("ab").arg(a.path()).arg(b.path()).words("--test create --total 1s");
    short.run().exits(2).stderr_contains(&["cannot measure a block", "--total"]).has_no_result();
    // The second directory does not exist, and the first does.
    let missing = skye().arg("ab").arg(a.path()).arg(b.path().join("x")).words("--test create");
    missing.run().exits(2);
    assert_nothing_left(a.path());
    let same = ab(&good, "").exits(0).stdout;
    assert!(same.contains("ended    after") && same.contains("every ratio is within"), "{same}");
}

#[test]
fn runs_of_different_ab_measurements_are_not_paired() {
    let devices = Devices::new();
    let (a, b) = (devices.device(200.0), devices.device(190.0));
    let runs = |name: &str| {
        let directory = devices.path(name);
        let program = skye().arg("ab").arg(&a).arg(&b).words("--test read:rnd4k:ops=2500 --seed 7 --quiet");
        program.arg("-o").arg(&directory).run().exits(0);
        let mut files: Vec<_> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort_by_key(|path| document(path)["pairing"]["side"].as_str().unwrap().to_owned());
        files
    };
    let (first, second) = (runs("first"), runs("second"));
    let are_pairs = |one: &Path, other: &Path| {
        parse_comparison(&compare(&[one, other], "--format json").exits(0).stdout)["is_interleaved"] == true
    };
    assert!(are_pairs(&first[0], &first[1]) && are_pairs(&first[1], &first[0]));
    assert!(!are_pairs(&first[1], &second[0]) && !are_pairs(&first[0], &second[0]));
}

#[test]
fn output_over_input_file_is_refused() {
    let devices = Devices::new();
    let a = devices.run("a.json", 200.0, 1, &one_test());
    let b = devices.run("b.json", 150.0, 2, &one_test());
    let before = fs::read(&b).unwrap();
    let page = format!("--html {}", b.display());
    compare(&[&a, &b], &page).exits(2).stderr_contains(&["that file is its input"]);
    let report = |words: &str| skye().arg("report").arg(&b).words(words).run().did_not_panic();
    report(&page).exits(2).stderr_contains(&["that file is its input"]);
    report("--html - --json -").exits(2).stderr_contains(&["more than one format on stdout"]).has_no_result();
    assert_eq!(fs::read(&b).unwrap(), before);
    // The compressed form, as a page saves it, is the same run.
    let zipped = devices.path("b.json.gz");
    let packed = std::process::Command::new("gzip").arg("-c").arg(&b).output().unwrap();
    fs::write(&zipped, packed.stdout).unwrap();
    let text = compare(&[&b, &zipped], "").exits(0).stdout;
    assert!(text.contains("the same in 1 test"), "{text}");
    fs::write(&zipped, &fs::read(&zipped).unwrap()[..200]).unwrap();
    compare(&[&b, &zipped], "").exits(2).stderr_contains(&["compressed, and damaged"]);
    let directory = devices.path("new");
    let program = skye().arg("ab").arg(devices.device(200.0)).arg(devices.device(190.0));
    program.words("--test read:rnd4k --dry-run -o").arg(&directory).run().exits(0);
    assert!(!directory.exists(), "nothing is done");
}
