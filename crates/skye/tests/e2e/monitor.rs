//! A user's command beside each test: when it runs, what it knows, how it ends, and where its output lies. Also the
//! marks in the kernel's trace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::program::{Output, Skye, assert_nothing_left, document, phases, skye};
use crate::support::scratch;

const WORDS: &str = "--size 4m --files 50 --allow low-space,busy";
/// Script that says who it is, goes on until INT, and says so then.
const SCRIPT: &str = "echo group=$$ phase=$SKYE_PHASE spec=$SKYE_SPEC pid=$SKYE_PID target=$SKYE_TARGET; \
    echo complaint >&2; echo own >\"$SKYE_OUTPUT/$SKYE_PHASE.own\"; touch \"$HOME/began\"; \
    trap 'echo result; exit 7' INT; while :; do sleep 0.02; done";

fn on(directory: &Path, seconds: &str, command: &str) -> Skye {
    let program = skye().arg("run").arg(directory).words(WORDS);
    program.arg("--time").arg(seconds).arg("--monitor").arg(command)
}

/// Returns the whole output of the command beside a phase, from the file that the document names.
#[track_caller]
fn output(saved: &Path, phase: &Value) -> String {
    let file = phase["monitor"]["output_file"].as_str().unwrap_or_else(|| panic!("{:#}", phase["monitor"]));
    fs::read_to_string(saved.parent().unwrap().join(file)).unwrap()
}

/// Asserts that no process is left of the group that printed its number as `group=N`.
#[track_caller]
fn assert_ended(output: &str) {
    let number = output.split("group=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let is_of_group = |path: &PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let words: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // A dead process may wait to be reaped.
        words.get(2) == Some(&number) && words[0] != "Z"
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<_> = processes.filter(is_of_group).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the names in the directory of a command's output.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn warnings(run: &Value) -> Vec<&str> {
    let warnings = run["tool"]["warnings"].as_array().unwrap().iter().filter_map(Value::as_str);
    warnings.filter(|warning| warning.contains(" during ") || warning.contains(" of 0")).collect()
}

#[test]
fn monitor_gets_test_variables_and_output_is_saved() {
    let target = scratch(8 << 20);
    let program = on(target.path(), "0.2", SCRIPT).words("--repeat 2 --test read:rnd4k --test create:t2");
    let running = program.spawn();
    let pid = running.id();
    let ran = running.wait().did_not_panic().exits(0).output_contains(&["output during 4 tests in"]);
    let saved = ran.saved().pop().unwrap();
    let run = document(&saved);
    assert_eq!(warnings(&run), [""; 0], "{ran}");
    let ids = ["01-read", "02-create", "01-read#2", "02-create#2"];
    for (phase, id) in run["phases"].as_array().unwrap().iter().zip(ids) {
        let (output, monitor) = (output(&saved, phase), &phase["monitor"]);
        let (spec, target) = (phase["spec"].as_str().unwrap(), target.path().display());
        assert!(output.contains(&format!("phase={id} spec={spec} pid={pid} target={target}\n")), "{output}");
        assert!(output.ends_with("complaint\nresult\n"), "{output}");
        assert_eq!((&monitor["exit_code"], &monitor["signal"]), (&7.into(), &Value::Null), "{monitor:#}");
        assert_eq!(
            (monitor["last_signal"].as_str(), monitor["command"].as_str()),
            (Some("INT"), Some(SCRIPT))
        );
        assert_ended(&output);
    }
    let mut expected: Vec<_> = ids.iter().flat_map(|id| [format!("{id}.own"), format!("{id}.txt")]).collect();
    expected.sort();
    assert_eq!(names(&saved.with_extension("monitor")), expected);
    assert_nothing_left(target.path());
}

#[test]
fn monitor_ignoring_int_gets_term_with_its_children() {
    let (target, results) = (scratch(8 << 20), scratch(1 << 20));
    let stubborn = "echo group=$$; trap '' INT; sleep 1000 & sleep 1000";
    let program = on(target.path(), "0.2", stubborn).words("--test read:rnd4k -o").arg(results.path());
    let ran = program.run().did_not_panic().exits(0);
    assert!(ran.saved().is_empty(), "beside it is where the run was to be saved\n{ran}");
    let json = names(results.path()).into_iter().find(|name| name.ends_with(".json")).unwrap();
    let saved = results.path().join(json);
    let run = document(&saved);
    let phase = &run["phases"][0];
    assert_eq!((&phase["monitor"]["signal"], &phase["monitor"]["last_signal"]), (&15.into(), &"TERM".into()));
    assert_ended(&output(&saved, phase));
    assert_eq!(names(&saved.with_extension("monitor")), ["01-read.txt"]);
    let place = saved.with_extension("monitor");
    ran.output_contains(&[place.to_str().unwrap()]);
}

#[test]
fn failed_monitor_is_only_a_warning() {
    let target = scratch(8 << 20);
    let two = "--test read:rnd4k --test stat";
    let ran = on(target.path(), "0.2", "echo broken; exit 3").words(two).run().did_not_panic().exits(0);
    let saved = ran.saved().pop().unwrap();
    let run = document(&saved);
    let text = warnings(&run);
    assert!(text.len() == 1 && text[0].contains("exit code 3"), "once for both tests: {text:?}\n{ran}");
    for phase in run["phases"].as_array().unwrap() {
        assert_eq!(
            (&phase["monitor"]["exit_code"], &phase["monitor"]["last_signal"]),
            (&3.into(), &Value::Null)
        );
        assert_eq!((output(&saved, phase).as_str(), phase["status"].as_str()), ("broken\n", Some("done")));
    }
    ran.stderr_contains(&["warning: cannot run `echo broken; exit 3` for all of 01-read"]);

    let ran = on(target.path(), "0.2", "true")
        .words(two)
        .env("PATH", "/nonexistent")
        .run()
        .did_not_panic()
        .exits(0);
    let ran = ran.stderr_contains(&["warning: cannot start `true` during 01-read: No such file"]);
    let saved = ran.saved().pop().unwrap();
    let run = document(&saved);
    assert_eq!((warnings(&run).len(), &run["phases"][0]["monitor"]), (1, &Value::Null), "{ran}");
    assert!(!saved.with_extension("monitor").exists(), "an empty directory is no result");
}

#[test]
fn interrupted_run_keeps_monitor_output_and_ends_monitor() {
    let ended = |command: &str, signals: &[Signal], code| -> Output {
        let target = scratch(8 << 20);
        let program = on(target.path(), "50", command).words("--test read:rnd4k --test stat");
        let start = program.home().join("began");
        let mut running = program.spawn();
        assert!(running.wait_until(|| start.exists()));
        signals.iter().for_each(|signal| running.send_taken(*signal));
        let ran = running.wait().did_not_panic().exits(code);
        assert_nothing_left(target.path());
        ran
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let ran = ended(SCRIPT, &[signal], code);
        let saved = ran.saved().pop().unwrap();
        let run = document(&saved);
        assert_eq!(phases(&run), [("read", "partial")], "{ran}");
        let output = output(&saved, &run["phases"][0]);
        assert!(output.ends_with("result\n"), "{output}");
        assert_ended(&output);
    }
    // A user who insists gets no document; the output is there.
    let stubborn = "echo group=$$; touch \"$HOME/began\"; trap '' INT TERM; while :; do sleep 0.1; done";
    let ran = ended(stubborn, &[Signal::INT, Signal::INT], 130);
    assert!(ran.saved().is_empty(), "{ran}");
    let store = ran.home().join("state/skye/runs");
    let kept = names(&store).pop().unwrap();
    assert!(kept.ends_with(".monitor") && names(&store).len() == 1, "{kept}");
    assert_ended(&fs::read_to_string(store.join(&kept).join("01-read.txt")).unwrap());
    assert!(ran.stderr.contains("the monitor's output is in"), "{ran}");
}

#[test]
fn unsupported_monitor_is_refused_before_writing() {
    let target = scratch(8 << 20);
    let ran = on(target.path(), "0.2", "iostat")
        .words("--test read")
        .without("HOME")
        .without("XDG_STATE_HOME")
        .run();
    ran.did_not_panic()
        .exits(2)
        .stderr_contains(&["during the tests", "choose one with -o DIR"])
        .has_no_result();
    let ran =
        on(target.path(), "0.2", "iostat").words("--test read:engine=null").run().did_not_panic().exits(2);
    ran.stderr_contains(&["are not saved", "-o DIR"]).has_no_result();
    let sim = target.path().join("disk.toml");
    fs::write(&sim, "[latency]\nmean_us = 100\n").unwrap();
    let simulated = format!("sim:{}", sim.display());
    let ran =
        on(Path::new(&simulated), "0.2", "iostat").words("--test read:rnd4k").run().did_not_panic().exits(2);
    ran.stderr_contains(&["its own clock", "drop --monitor"]).has_no_result();
    let file = target.path().join("file");
    fs::write(&file, "").unwrap();
    let ran = on(target.path(), "0.2", "iostat").words("--test read").env("XDG_STATE_HOME", &file).run();
    ran.did_not_panic().exits(2).stderr_contains(&["Not a directory", "-o DIR"]).has_no_result();
    on(target.path(), "0.2", "")
        .words("--test read")
        .run()
        .did_not_panic()
        .exits(2)
        .stderr_contains(&["--monitor"]);
    assert_nothing_left(target.path());
}

#[test]
fn ftrace_markers_enclose_each_measured_part() {
    xtask::require!(root, tracefs);
    let target = scratch(8 << 20);
    // The trace holds little until somebody asks for more, and others may write to it. The script looks at it often,
    // and once more when the test is over. Reading it in this way takes nothing out of it.
    let read_trace = "trap 'cat /sys/kernel/tracing/trace; exit' INT; \
        while :; do cat /sys/kernel/tracing/trace; sleep 0.05; done";
    let program = on(target.path(), "0.2", read_trace).words("--test read:rnd4k --test mkdir").with_tracefs();
    let running = program.spawn();
    let pid = running.id();
    let ran = running.wait().did_not_panic().exits(0);
    let saved = ran.saved().pop().unwrap();
    let run = document(&saved);
    for phase in run["phases"].as_array().unwrap() {
        let seen = output(&saved, phase);
        // Each look shows what is still held. The kernel's time puts the marks of all looks in one order.
        let marks: BTreeSet<_> = seen
            .lines()
            .filter_map(|line| line.split_once(": tracing_mark_write: "))
            .filter(|(head, _)| head.contains(&format!("-{pid} ")))
            .filter_map(|(head, mark)| Some((head.rsplit_once(' ')?.1.parse::<f64>().ok()?.to_bits(), mark)))
            .collect();
        let mark = |what: &str| {
            format!("skye: {what} {} {}", phase["id"].as_str().unwrap(), phase["spec"].as_str().unwrap())
        };
        let begin = marks.iter().position(|(_, text)| *text == mark("begin"));
        let end = marks.iter().rposition(|(_, text)| *text == mark("end"));
        assert!(begin.is_some() && begin < end, "{begin:?} {end:?} in {marks:#?}");
    }
}

#[test]
#[ignore = "long"]
fn endless_monitor_output_is_limited() {
    let home = scratch(256 << 20);
    // The command prints as fast as it can. No more than the limit is held, and the test goes on.
    let program = on(home.path(), "3", "echo group=$$; exec yes").words("--test stat");
    let ran = program.arg("-o").arg(home.path()).run().did_not_panic().exits(0);
    assert_nothing_left(home.path());
    let monitor = names(home.path()).into_iter().find(|name| name.ends_with(".monitor")).unwrap();
    let printed = fs::metadata(home.path().join(monitor).join("01-stat.txt")).unwrap().len();
    if printed < 64 << 20 {
        fn here() {}
        let why = format!("`yes` printed {printed} bytes only in three seconds");
        return xtask::capability::list_undecided(std::any::type_name_of_val(&here), &why);
    }
    assert_eq!(printed, 64 << 20);
    ran.output_contains(&["yes", "printed more than 64 MiB", "$SKYE_OUTPUT"]);
}
