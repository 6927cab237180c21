//! Output and documents of a run: results go to stdout, everything else to stderr, and documents keep their promise.

use std::fs;

use xtask::capability::OTHER_USER;

use crate::support::program::{Skye, assert_nothing_left, document, parse_document, phases, skye};
use crate::support::pty::Terminal;
use crate::support::scratch;

const TESTS: &str = "--test write:seq64k --test rw:rnd4k:t2 --test rewrite:seq64k --test fsync:rnd4k \
    --test create:t2 --test stat --test readdir --test rename --test unlink --test mkdir --test stat:missing";

fn program(directory: &std::path::Path) -> Skye {
    skye()
        .arg("run")
        .arg(directory)
        .words("--size 8m --files 200 --time 0.1 --allow low-space,busy")
        .words(TESTS)
}

#[test]
fn run_prints_row_per_test_and_saves_document() {
    let home = scratch(32 << 20);
    let ran = program(home.path()).run().did_not_panic().exits(0);
    for word in ["write", "rw", "rewrite", "fsync", "create", "stat", "readdir", "rename", "unlink", "mkdir"]
    {
        let row = ran.stdout.lines().find(|line| line.split_whitespace().next() == Some(word));
        let row = row.unwrap_or_else(|| panic!("no row {word}\n{ran}"));
        assert!(row.chars().any(|c| c.is_ascii_digit()), "no number in `{row}`\n{ran}");
    }
    assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "colour in a pipe\n{ran}");
    assert!(!ran.stdout.lines().any(|line| line.ends_with(' ')), "blanks at ends of lines\n{ran}");
    let saved = ran.saved();
    assert_eq!(saved.len(), 1, "{ran}");
    assert!(saved[0].starts_with(ran.home().join("state/skye/runs")), "{saved:?}");
    let run = document(&saved[0]);
    assert_eq!((run["schema"].as_str(), run["run_status"].as_str()), (Some("skye.run/3"), Some("complete")));
    assert!(phases(&run).iter().all(|(_, status)| *status == "done"), "{:?}", phases(&run));
    assert_eq!(phases(&run).len(), 11);
    for phase in run["phases"].as_array().unwrap() {
        assert!(phase["ops"].as_u64() > Some(0), "{phase:#}");
        // Eight buckets to each power of two, from 1 ns to the longest call.
        let buckets = phase["intervals"]["latency"]["upper_ns"].as_array().map_or(0, Vec::len);
        assert!(buckets <= 8 * 37, "{buckets} buckets");
        // A tenth of a second is too short to be sure of anything, and never without a reason.
        let verdict = &phase["verdict"];
        assert_ne!(verdict["trust"], "ok", "{phase:#}");
        assert_ne!(verdict["trust_reasons"].as_array().unwrap().len(), 0, "{phase:#}");
    }
    assert_nothing_left(home.path());
}

#[test]
fn version_on_stdout_is_that_of_documents() {
    let home = scratch(0);
    let ran = skye().arg("--version").run().did_not_panic().exits(0);
    let version = ran.stdout.trim_end().strip_prefix("skye ").unwrap();
    let (release, build) = version.strip_suffix(')').and_then(|text| text.split_once(" (")).unwrap();
    assert_eq!(release, env!("CARGO_PKG_VERSION"));
    let words: Vec<_> = build.split(", ").collect();
    let is_commit = |word: &str| word.trim_end_matches('+').chars().all(|digit| digit.is_ascii_hexdigit());
    assert!(words.len() == 3 && (words[0] == "unknown" || is_commit(words[0])), "{version}");
    assert!(words[1].contains(std::env::consts::ARCH), "{version}");
    let device = home.path().join("device.toml");
    fs::write(&device, "latency = { mean_us = 100 }").unwrap();
    let target = format!("sim:{}", device.display());
    let ran = skye().arg("run").arg(target).words("--test read:rnd4k:ops=100 --json -").run().exits(0);
    let run = parse_document(&ran.stdout);
    assert_eq!(run["skye_build"], version);
    let library = run["skye_libc"].as_str().unwrap();
    assert!(library.contains("glibc 2.") || library == "static musl", "{library}");
}

#[test]
fn json_on_stdout_is_only_json() {
    let home = scratch(32 << 20);
    let ran = program(home.path()).words("--json -").run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let saved = document(&ran.saved()[0]);
    assert_eq!(run, saved, "what is printed is what is saved");
}

#[test]
fn csv_on_stdout_is_only_csv() {
    let home = scratch(32 << 20);
    let ran = program(home.path()).words("--csv -").run().did_not_panic().exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 12, "a heading and a row for every test\n{ran}");
    let columns = lines[0].split(',').count();
    assert!(columns > 10 && lines[0].contains("bytes_per_second"), "{}", lines[0]);
}

#[test]
fn chosen_percentiles_are_in_every_format() {
    let home = scratch(32 << 20);
    let words =
        "--size 4m --time 1 --no-probe --allow low-space,busy --test read:rnd4k --percentiles 50,75 --json -";
    let ran = skye().arg("run").arg(home.path()).words(words).run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    assert_eq!(run["percentiles"], serde_json::json!([50.0, 75.0]));
    assert_eq!(run["phases"][0]["handle"], "read-4k-rnd-q1");
    assert_eq!(run["phases"][0]["latency_ns"]["chosen"][0]["percent"], 75.0, "{ran}");
    let saved = &ran.saved()[0];
    for (words, text) in [
        ("", " p75 "),
        ("--markdown -", "| p50 | p75 |"),
        ("--csv -", ",latency_p75_ns,"),
        ("--openmetrics -", "quantile=\"0.75\""),
        ("--html -", ">p75<"),
        ("--percentiles 60", " p60 "),
    ] {
        let report = skye().arg("report").arg(saved).words(words).run().did_not_panic().exits(0);
        assert!(report.stdout.contains(text), "{words}: {report}");
    }
    let refused = skye().arg("report").arg(saved).words("--percentiles 75,50").run().did_not_panic().exits(2);
    refused.stderr_contains(&["50 follows 75"]);
}

#[test]
fn both_forms_of_csv_have_the_same_rates() {
    let home = scratch(0);
    let (device, ordinary) = (home.path().join("device.toml"), home.path().join("run.csv"));
    fs::write(&device, "latency = { mean_us = 100 }").unwrap();
    let target = format!("sim:{}", device.display());
    let program = skye().arg("run").arg(target).words("--test read:rnd4k:ops=100 --csv-long - --csv");
    let ran = program.arg(&ordinary).run().did_not_panic().exits(0);
    let ordinary = fs::read_to_string(ordinary).unwrap();
    let cells: Vec<Vec<_>> = ordinary.lines().map(|line| line.split(',').collect()).collect();
    let column = cells[0].iter().position(|name| *name == "ops_per_second").unwrap();
    let line = format!(",all,,ops_per_second,{},1/s", cells[1][column]);
    assert!(ran.stdout.lines().any(|one| one.ends_with(&line)), "{line}\n{ran}");
}

#[test]
fn html_page_contains_its_run() {
    let home = scratch(32 << 20);
    let place = scratch(0);
    let page = place.path().join("run.html");
    let ran = program(home.path()).arg("--html").arg(&page).run().did_not_panic().exits(0);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"), "{ran}");
    assert!(!text.contains("<script") && !text.contains("href=\"http"));
    let again = skye().arg("report").arg(&page).words("--json -").run().did_not_panic().exits(0);
    assert_eq!(
        parse_document(&again.stdout),
        document(&ran.saved()[0]),
        "what the page holds is what is saved"
    );
    let copied = skye().arg("report").arg(&page).words("--html -").run().did_not_panic().exits(0);
    assert_eq!(copied.stdout, text, "a page of a page is the same page");
    // A page without its end is no run any more.
    fs::write(&page, &text[..text.len() / 2]).unwrap();
    let cut = skye().arg("report").arg(&page).run().did_not_panic().exits(2);
    assert!(cut.stderr.contains("run.html") && cut.stderr.contains("this page"), "{cut}");
}

#[test]
fn unwritable_html_page_is_refused_before_measuring() {
    let home = scratch(32 << 20);
    let ran = program(home.path()).words("--html /dev/null/run.html").run().did_not_panic().exits(2);
    assert!(ran.stderr.contains("/dev/null/run.html"), "{ran}");
    assert_nothing_left(home.path());
}

#[test]
fn saved_run_is_listed_and_reported_again() {
    let home = scratch(32 << 20);
    let state = scratch(0);
    let with_state = |program: Skye| program.env("XDG_STATE_HOME", state.path());
    let first = with_state(program(home.path()).words("--label first-of-two")).run().exits(0);
    with_state(program(home.path()).words("--label second-of-two")).run().exits(0);
    let list = with_state(skye().arg("list")).run().did_not_panic().exits(0);
    for label in ["first-of-two", "second-of-two"] {
        assert!(list.stdout.contains(label), "{list}");
    }
    let again = with_state(skye().words("report @-1")).run().did_not_panic().exits(0);
    assert!(first.stdout.starts_with(again.stdout.trim_end()), "{first}\n{again}");
    // The printed name can be typed.
    let (_, rest) = first.stdout.split_once("saved as ").unwrap();
    let name = rest.split(' ').next().unwrap();
    for name in [name, "first-of-two", &name[..name.len() - 1]] {
        let by_name = with_state(skye().arg("report").arg(name)).run().did_not_panic().exits(0);
        assert_eq!(by_name.stdout, again.stdout, "{name}");
    }
    let why = |words: &str| with_state(skye().words("why").words(words)).run().did_not_panic();
    let row = why(&format!("{name} write-64k")).exits(0);
    assert!(row.stdout.contains("write-64k-q1") && row.stdout.contains("measured"), "{row}");
    assert!(why("readdir").exits(0).stdout.lines().next().unwrap().contains("readdir"));
    assert!(why("").exits(0).stdout.matches("measured").count() == 11);
    why("stat").exits(2).stderr_contains(&["stat-t1-missing", "is ambiguous"]);
    why("@-1 chmod").exits(2).stderr_contains(&["chmod", "the run has"]);
    let json = with_state(skye().words("report @ --json -")).run().exits(0);
    assert_eq!(parse_document(&json.stdout)["label"], "second-of-two");
    let none = with_state(skye().words("report @-7")).run().did_not_panic().exits(2);
    none.stderr_contains(&["@-7"]);
}

/// Returns the lines that a terminal shows after these bytes: text, new lines, "up" and "erase from here".
fn on_screen(bytes: &str) -> Vec<String> {
    let (mut lines, mut row) = (vec![String::new()], 0);
    let mut letters = bytes.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                letters.next_if_eq(&'[');
                let mut number = String::new();
                while let Some(part) = letters.next_if(|part| part.is_ascii_digit() || "?;".contains(*part)) {
                    number.push(part);
                }
                match letters.next() {
                    Some('A') => row -= number.parse::<usize>().unwrap(),
                    Some('J') => {
                        lines.truncate(row);
                        lines.push(String::new());
                    }
                    _ => {}
                }
            }
            '\r' => {}
            '\n' => {
                row += 1;
                lines.resize(lines.len().max(row + 1), String::new());
            }
            letter => lines[row].push(letter),
        }
    }
    lines
}

#[test]
fn final_table_replaces_progress_rows_on_terminal() {
    let home = scratch(16 << 20);
    let mut terminal = Terminal::open(100);
    let program = skye().arg("run").arg(home.path()).words("--size 1m --time 0.2 --allow low-space,busy");
    let program =
        program.words("--test read:rnd4k --test stat:files=50").stdout(terminal.program_side().into());
    let running = program.spawn();
    let reader = terminal.read_all();
    terminal.close();
    running.wait().did_not_panic().exits(0);
    let bytes = reader.join().unwrap();
    assert!(bytes.matches("4K rnd").count() >= 2, "a row comes before the answer\n{bytes}");
    let lines = on_screen(&bytes);
    let text = lines.join("\n");
    assert_eq!(lines.iter().filter(|line| line.starts_with("  read ")).count(), 1, "{text}");
    assert!(lines[0].starts_with("skye ") && text.contains("saved as "), "{text}");
}

/// Returns the lines that a program wrote to a terminal, without its sequences. A longer line breaks where the terminal ends.
fn written_lines(bytes: &str, columns: u16) -> Vec<String> {
    let plain = anstream::adapter::strip_str(bytes).to_string();
    let lines = plain.split(['\r', '\n']).map(|line| line.chars().collect::<Vec<_>>());
    let broken = lines.flat_map(|line| {
        let parts = line.chunks(columns.into()).map(|part| part.iter().collect::<String>());
        parts.collect::<Vec<_>>()
    });
    broken.map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn live_lines_fit_and_keep_units_at_each_width() {
    for columns in [140, 100, 80, 40] {
        let home = scratch(16 << 20);
        let mut terminal = Terminal::open(columns);
        let program = skye().arg("run").arg(home.path()).words("--size 1m --time 0.6 --allow low-space,busy");
        let program = program.words("--test read:rnd4k:q4t2 --test unlink:files=50");
        let running = program.stderr(terminal.program_side().into()).spawn();
        let reader = terminal.read_all();
        terminal.close();
        running.wait().did_not_panic().exits(0);
        let lines = written_lines(&reader.join().unwrap(), columns);
        assert!(lines.iter().any(|line| line.starts_with("  read ") && line.contains(" IOPS")), "{lines:#?}");
        // Nothing was cut, and no line goes on in the next one.
        assert!(
            lines.iter().any(|line| line.contains("test 1 of 2, about ") && line.ends_with(" left")),
            "{lines:#?}"
        );
        let is_live = |line: &&String| line.contains(" IOPS") || line.contains(" left");
        let widest = lines.iter().filter(is_live).map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest < usize::from(columns)), "{columns}: {lines:#?}");
    }
}

#[test]
fn live_lines_follow_a_resized_window() {
    let home = scratch(16 << 20);
    let mut terminal = Terminal::open(100);
    let program = skye().arg("run").arg(home.path()).words("--size 1m --time 3 --allow low-space,busy");
    let program = program.words("--test read:rnd4k --no-probe");
    let running = program.stderr(terminal.program_side().into()).spawn();
    terminal.close();
    let bytes = terminal.read_all_and(" p99 ", |terminal| terminal.resize(50));
    running.wait().did_not_panic().exits(0);
    let [wide, narrow] = [100, 50].map(|columns| written_lines(&bytes, columns));
    let is_whole = |line: &String| line.contains(" IOPS") && line.contains(" / ");
    assert!(wide.iter().find(|line| is_whole(line)).is_some_and(|line| line.contains(" p99 ")), "{wide:#?}");
    let last = narrow.iter().rfind(|line| is_whole(line)).unwrap();
    assert!(last.starts_with("  read 4K rnd q1  ") && !last.contains(" p99 "), "{narrow:#?}");
}

/// A terminal that reflows its lines when its window changes, with a program in it. Its drop ends both.
struct Tmux {
    socket: String,
}

impl Tmux {
    fn run(&self, words: &str) -> String {
        let mut command = std::process::Command::new("tmux");
        command.args(["-S", &self.socket]).args(words.split_whitespace());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// Waits for a screen that is as it should be, and returns it.
    fn screen(&self, is_as_expected: impl Fn(&str) -> bool) -> String {
        let begin = std::time::Instant::now();
        loop {
            let screen = self.run("capture-pane -p");
            if is_as_expected(&screen) {
                return screen;
            }
            assert!(begin.elapsed().as_secs() < 60, "{screen}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run("kill-server");
    }
}

#[test]
fn resized_terminal_keeps_no_stale_lines() {
    xtask::require!(tmux);
    let home = scratch(16 << 20);
    let configuration = home.path().join("tmux.conf");
    fs::write(&configuration, "set -g remain-on-exit on\n").unwrap();
    let terminal = Tmux { socket: home.path().join("socket").display().to_string() };
    let program = skye().arg("run").arg(home.path()).words("--size 1m --time 30 --allow low-space,busy");
    let started = program.words("--test read:rnd4k --no-probe").through(
        "tmux",
        &[
            "-S",
            &terminal.socket,
            "-f",
            configuration.to_str().unwrap(),
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "60",
        ],
    );
    let started = started.run().exits(0);
    let is_row = |line: &&str| line.starts_with("  read ") && line.contains(" IOPS");
    let row = |screen: &str| screen.lines().find(is_row).map(str::to_owned);
    terminal.screen(|screen| row(screen).is_some_and(|row| row.contains(" p99 ")));
    for columns in [50, 90, 36, 100, 45] {
        terminal.run(&format!("resize-window -x {columns}"));
        let begin = row(&terminal.screen(|screen| row(screen).is_some()));
        // Drawn anew, at the new width.
        let screen = terminal.screen(|screen| row(screen).is_some() && row(screen) != begin);
        for part in [" IOPS", "test 1 of 1"] {
            assert_eq!(screen.matches(part).count(), 1, "{part} at {columns}\n{screen}");
        }
    }
    terminal.run("send-keys C-c");
    terminal.screen(|_| terminal.run("list-panes -F #{pane_dead}").trim() == "1");
    let screen = terminal.run("capture-pane -p");
    assert!(!screen.lines().any(|line| is_row(&line)) && !screen.contains(" left"), "{screen}");
    assert_nothing_left(started.home());
}

#[test]
fn first_steps_fit_on_a_screen() {
    let lines = |words: &str, most: usize| {
        let ran = skye().words(words).run().did_not_panic().exits(0);
        assert!(ran.stdout.lines().count() <= most, "{ran}");
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{ran}");
        ran.stdout
    };
    let alone = lines("", 12);
    assert!(alone.contains("skye .") && alone.contains("standard"), "{alone}");
    let help = lines("-h", 26);
    for command in ["run", "report", "why", "compare", "doctor", "presets", "bonnie++"] {
        assert!(help.contains(command), "{command}\n{help}");
    }
    let presets = skye().arg("presets").run().did_not_panic().exits(0);
    assert!(presets.stdout.contains("rigorous") && presets.stdout.contains("fsync:rnd4k"), "{presets}");
    let spec = skye().words("help spec").run().did_not_panic().exits(0);
    assert!(spec.stdout.contains("VERB[:PATTERN]") && !spec.stdout.contains('`'), "{spec}");
    assert!(spec.stdout.lines().all(|line| line.chars().count() <= 100 && !line.starts_with('|')), "{spec}");
    for (topic, words) in [
        ("csv", ["latency_p99_ns", "scope_name"]),
        ("json", ["phases[].latency_ns.p99 ns - 99 % took at most this", "share"]),
        ("prometheus", ["skye_run_success", "--label"]),
        ("exit", ["6 skye compare", "128 + N"]),
    ] {
        skye().arg("help").arg(topic).run().did_not_panic().exits(0).output_contains(&words);
    }
    for word in ["±", "p99", "from memory", "!", "one_run", "noise", "clat", "trim", "steady", "IOPS"] {
        skye().arg("explain").arg(word).run().did_not_panic().exits(0).output_contains(&["Meaning"]);
    }
    for (word, here) in
        [("iodepth", "qN"), ("numjobs", "tN"), ("bs", "rndSIZE"), ("ramp_time", "steady part")]
    {
        skye()
            .arg("explain")
            .arg(word)
            .run()
            .did_not_panic()
            .exits(0)
            .output_contains(&["a key of fio", here]);
    }
}

#[test]
fn command_line_of_fio_is_translated() {
    let keys = "--name=a --directory=/mnt/data --rw=randread --bs=4k --iodepth=32 --numjobs=4 --size=1g \
                --runtime=60 --time_based --direct=1 --ioengine=libaio --group_reporting";
    let ran = skye().arg("fio").words(keys).run().did_not_panic().exits(0);
    let line = ran.stdout.lines().next().unwrap();
    assert_eq!(line, "skye run /mnt/data --test read:rnd4k:q32t4:direct --size 4g --time 60");
    assert!(ran.stdout.contains("ioengine=libaio: skye has io_uring, or plain calls"), "{ran}");
    skye().arg("fio").run().exits(0).output_contains(&["numjobs", "tN"]);
    let refused = skye().arg("fio").words("--rw=read --bssplit=4k/50").run().did_not_panic().exits(2);
    refused.stderr_contains(&["bssplit", "--sweep 4k..1m"]);
    // A hint says what the word means.
    let home = scratch(0);
    for (option, hint) in
        [("--rw=randread", "read write"), ("--runtime=60", "--time"), ("--bs=4k", "rndSIZE")]
    {
        let ran = skye().arg("run").arg(home.path()).arg(option).run().did_not_panic().exits(2);
        assert!(!ran.stderr.contains("--probe-writes"), "{ran}");
        ran.stderr_contains(&["is a key of fio", hint]);
    }
}

#[test]
fn fio_spellings_are_translated_and_reported() {
    let home = scratch(16 << 20);
    let words = "--size 1GB --dry-run --test randread:bs=4k:iodepth=32 --test read:rand4k:qd8";
    let ran =
        skye().arg("run").arg(home.path()).words("--allow low-space").words(words).run().did_not_panic();
    let ran = ran.exits(0).stderr_contains(&[
        "randread:bs=4k:iodepth=32 is read:rnd4k:q32",
        "read:rand4k:qd8 is read:rnd4k:q8",
    ]);
    assert!(ran.stdout.contains("read:rnd4k:q32"), "{ran}");
}

#[test]
fn rejudged_run_has_the_same_verdicts() {
    let home = scratch(32 << 20);
    let ran = program(home.path()).run().did_not_panic().exits(0);
    let saved = &ran.saved()[0];
    let again = skye().arg("report").arg(saved).words("--rejudge --json -").run().did_not_panic().exits(0);
    let verdicts = |run: &serde_json::Value| -> Vec<serde_json::Value> {
        run["phases"].as_array().unwrap().iter().map(|phase| phase["verdict"].clone()).collect()
    };
    let (before, after) = (document(saved), parse_document(&again.stdout));
    assert_eq!(verdicts(&after), verdicts(&before));
    assert!(verdicts(&before).iter().all(|verdict| verdict["trust"].is_string()), "{before:#}");
    // A verdict that an older version left out is made now.
    let mut older = before.clone();
    for phase in older["phases"].as_array_mut().unwrap() {
        phase.as_object_mut().unwrap().remove("verdict");
    }
    let path = home.path().join("older.json");
    fs::write(&path, older.to_string()).unwrap();
    let judged = skye().arg("report").arg(&path).words("--rejudge --json -").run().exits(0);
    assert_eq!(verdicts(&parse_document(&judged.stdout)), verdicts(&before));
    for form in ["", "--csv -", "--markdown -", "--openmetrics -", "--summary"] {
        skye().arg("report").arg(saved).words("--rejudge").words(form).run().did_not_panic().exits(0);
    }
}

#[test]
fn anonymous_report_has_no_names_in_any_form() {
    let home = scratch(32 << 20);
    let label = "before-the-move";
    let ran = program(home.path()).words("--label").arg(label).run().did_not_panic().exits(0);
    let saved = &ran.saved()[0];
    let host = document(saved)["environment"]["host"].as_str().unwrap().to_owned();
    let path = home.path().to_str().unwrap();
    let report = |words: &str| {
        skye()
            .arg("report")
            .arg(saved)
            .words("--anonymous")
            .words(words)
            .run()
            .did_not_panic()
            .exits(0)
            .stdout
    };
    let page = home.path().join("page.html");
    fs::write(&page, report("--html -")).unwrap();
    // The page contains the run, compressed.
    let embedded = skye().arg("report").arg(&page).words("--json -").run().did_not_panic().exits(0).stdout;
    let forms = [
        "",
        "--json -",
        "--csv -",
        "--csv-long -",
        "--html -",
        "--markdown -",
        "--openmetrics -",
        "--summary",
    ];
    for text in forms.map(report).into_iter().chain([embedded]) {
        assert!(!text.contains(path) && !text.contains(label), "{text}");
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '.');
        assert!(
            words.into_iter().all(|word| word != host || ["vm", "localhost"].contains(&word)),
            "{host}\n{text}"
        );
    }
    let (named, anonymous) = (document(saved), parse_document(&report("--json -")));
    assert_eq!(anonymous["environment"]["target"]["path"], "/target");
    assert_eq!((&anonymous["label"], &anonymous["command"][0]), (&"label-1".into(), &"skye".into()));
    for key in ["rate", "latency_ns", "intervals", "device", "cpu"] {
        assert_eq!(anonymous["phases"][0][key], named["phases"][0][key], "{key}");
    }
    // The names are nowhere else.
    let onto_itself =
        skye().arg("report").arg(saved).words("--anonymous --json").arg(saved).run().did_not_panic();
    onto_itself.exits(2).stderr_contains(&["that file is its input"]);
    let foreign = home.path().join("getc_putc.txt");
    fs::write(&foreign, include_str!("../../../family/tests/data/getc_putc-2.00a_64m.txt")).unwrap();
    let foreign = skye().arg("report").arg(&foreign).words("--anonymous").run().did_not_panic().exits(2);
    foreign.stderr_contains(&["results of getc_putc, not a run of skye"]);
}

#[test]
fn every_limiter_can_be_explained() {
    let list = skye().arg("explain").run().did_not_panic().exits(0);
    for limiter in model::Limiter::ALL {
        assert!(list.stdout.contains(limiter.code()), "{list}");
        let page = skye().words("explain").words(limiter.title()).run().did_not_panic().exits(0);
        assert!(page.stdout.contains(limiter.code()), "{page}");
    }
    let unknown = skye().words("explain page_cahe").run().did_not_panic().exits(2);
    unknown.stderr_contains(&["page_cahe", "page_cache"]);
}

#[test]
fn empty_store_fails_report_but_not_list() {
    skye().arg("list").run().did_not_panic().exits(0);
    let ran = skye().arg("report").run().did_not_panic();
    assert!(matches!(ran.code, Some(1 | 2)), "{ran}");
}

#[test]
fn invalid_document_error_names_its_file() {
    let home = scratch(0);
    for text in ["", "{", "{}", "[1,2]", "{\"schema\":\"skye.run/3\"}"] {
        let path = home.path().join("broken.json");
        fs::write(&path, text).unwrap();
        let ran = skye().arg("report").arg(&path).run().did_not_panic();
        assert!(matches!(ran.code, Some(1 | 2)), "{text}\n{ran}");
        ran.stderr_contains(&["broken.json"]);
    }
}

#[test]
fn control_characters_in_names_never_reach_the_terminal() {
    let home = scratch(32 << 20);
    let strange = home.path().join("a\x1b[31mred\nline");
    fs::create_dir(&strange).unwrap();
    let ran = program(&strange).words("--label").arg("\x1b]0;title\x07").run().did_not_panic().exits(0);
    let strange_in = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    assert!(!strange_in(&ran.stdout) && !strange_in(&ran.stderr), "{ran}");
    assert!(!ran.stdout.contains("red\nline"), "{ran}");
}

#[test]
fn default_run_needs_only_a_directory() {
    let home = scratch(32 << 20);
    // The short form and the long one plan the same.
    let short = skye().arg(home.path()).words("--dry-run").run().did_not_panic().exits(0);
    assert!(short.stdout.contains("preset = \"standard\""), "{short}");
}

#[test]
fn runs_that_end_at_once_are_all_saved() {
    let home = scratch(4 << 20);
    let store = home.path().join("store");
    let run = || {
        let program = skye().arg("run").arg(home.path()).words("--test stat:files=20 --time 0.05 --quiet");
        program.words("--allow low-space,busy -o").arg(&store).spawn()
    };
    for expected in 1..=4 {
        let running: Vec<_> = (0..3).map(|_| run()).collect();
        running.into_iter().for_each(|running| drop(running.wait().exits(0)));
        for ending in ["json", "csv"] {
            let files = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
            let count = files.filter(|path| path.extension().is_some_and(|found| found == ending)).count();
            assert_eq!(count, 3 * expected, "{ending}");
        }
    }
}

#[test]
fn document_replaces_file_and_keeps_its_mode() {
    let home = scratch(4 << 20);
    let run = |more: &str| {
        let program = skye().arg("run").arg(home.path()).words("--test stat:files=20 --time 0.05 --quiet");
        program.words("--allow low-space,busy --no-save").words(more).run().did_not_panic()
    };
    let path = home.path().join("run.json");
    fs::write(&path, "before").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    run(&format!("--json {}", path.display())).exits(0);
    document(&path);
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).unwrap()) & 0o777, 0o600);
    let twice = format!("--json {0}/new --csv {0}/./new", home.path().display());
    run(&twice).exits(2).stderr_contains(&["two documents would have this name"]);
    assert!(!home.path().join("new").exists());
}

#[test]
fn umask_0777_run_succeeds_and_leaves_no_files() {
    xtask::require!(root, user);
    let home = scratch(4 << 20);
    crate::support::program::give_to_other_user(home.path());
    let program =
        skye().arg("run").arg(home.path()).words("--test create:files=20 --test read:rnd4k --size 1m");
    let program = program.words("--time 0.1 --allow low-space,busy --no-save").by_other_user();
    let user = OTHER_USER.to_string();
    let shell = ["--reuid", &user, "--clear-groups", "sh", "-c", "umask 0777 && exec \"$@\"", "sh"];
    program.through("setpriv", &shell).run().did_not_panic().exits(0);
    assert_nothing_left(home.path());
}

#[test]
fn summary_is_one_line_and_openmetrics_is_complete() {
    let home = scratch(32 << 20);
    let metrics = home.path().join("skye.prom");
    let run = skye().arg("run").arg(home.path());
    let run =
        run.words("--size 8m --time 0.1 --allow low-space,busy --test read:rnd4k --summary --openmetrics");
    let ran = run.arg(&metrics).run().did_not_panic().exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("read-4k-rnd-q1") && lines[0].contains("IOPS"), "{ran}");
    let metrics = fs::read_to_string(metrics).unwrap();
    assert!(metrics.contains("skye_operations_per_second{") && metrics.ends_with("# EOF\n"), "{metrics}");
    skye().words("report --summary --quiet").run().did_not_panic().exits(2);
}

#[test]
fn manual_pages_name_pages_that_exist() {
    let main = skye().arg("man").run().did_not_panic().exits(0).stdout;
    let named = main.split(r"skye\-").skip(1).filter_map(|rest| Some(rest.split_once("(1)")?.0));
    let named: Vec<_> = named.filter(|name| !name.contains(char::is_whitespace)).collect();
    assert!(named.len() >= 15, "{named:?}");
    for name in named {
        let name = name.replace('\\', "");
        let page = skye().words("man").arg(&name).run().did_not_panic().exits(0);
        assert!(page.stdout.contains(&format!(".TH skye-{name} 1")), "{page}");
    }
    skye().words("man nosuch").run().did_not_panic().exits(2).stderr_contains(&["nosuch"]);
}
