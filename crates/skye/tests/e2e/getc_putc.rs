//! `skye getc_putc`: single bytes in eight ways, reported as by the original.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::support::mounts::Tmpfs;
use crate::support::program::{Skye, assert_nothing_left, document, skye};

fn getc_putc(directory: &Path, words: &str) -> Skye {
    skye().arg("getc_putc").arg("-d").arg(directory).words(words)
}

fn tmpfs() -> Tmpfs {
    Tmpfs::new("256m", None)
}

#[test]
fn eight_rates_are_printed_as_csv_and_table() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let program = getc_putc(tmpfs.path(), "-s 8m -m ada -u root");
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(0);
    let (lines, problems) = family::getc_putc::read(&ran.stdout);
    assert_eq!((lines.len(), problems.len(), lines[0].name.as_str()), (1, 0, "ada"), "{ran}");
    // The table on stderr says the same.
    assert_eq!(family::getc_putc::read(&ran.stderr).0, lines, "{ran}");
    let ran = getc_putc(tmpfs.path(), "-s 1m").run().did_not_panic().exits(0);
    assert!(ran.stderr.contains("running as root, as -u is not set"), "{ran}");
    let ran = getc_putc(tmpfs.path(), "-s 1m -u root").run().did_not_panic().exits(0);
    for text in ["Using uid:0", "Writing with putc(c, fp) no thread...done\n", "what limited each of them:"] {
        assert!(ran.stderr.contains(text), "{text}: {ran}");
    }
    let run = document(&json);
    let phases = run["phases"].as_array().unwrap();
    let moved: Vec<_> = phases.iter().map(|phase| phase["ops"].as_u64().unwrap()).collect();
    let (all, calls) = (8 << 20, 8 << 14);
    assert_eq!(moved, [calls, calls, all, all, all, all, all, all]);
    let labels: Vec<_> = phases.iter().map(|phase| phase["label"].as_str().unwrap()).collect();
    assert!(labels[4].contains("threaded") && !labels[2].contains("threaded"), "{labels:?}");
    assert!(labels[6].contains("unlocked threaded"), "{labels:?}");
    assert_nothing_left(tmpfs.path());
}

#[test]
fn quiet_mode_prints_only_csv_and_table() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = getc_putc(tmpfs.path(), "-s 1m -m ada -q").run().did_not_panic().exits(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
    assert!(ran.stderr.starts_with("Version 2.00a ") && !ran.stderr.contains("..."), "{ran}");
    let file = ran.home().join("lines.csv");
    fs::write(&file, format!("{}grace,370,1799,231289,281417,248614,x,493323,837364\n", ran.stdout)).unwrap();
    let text = skye().arg("report").arg(&file).run().did_not_panic().exits(0);
    assert!(text.stderr.contains("line 2: `x` is not a rate of getc"), "{text}");
    assert_nothing_left(tmpfs.path());
}

/// Returns the number of threads of each process below one, if that process has written something.
fn threads_below(pid: u32) -> Vec<usize> {
    let children = |pid: u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        children
            .collect::<String>()
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect::<Vec<u32>>()
    };
    let threads = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let has_written = |pid: &u32| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<u64>().ok());
        written.is_some_and(|bytes| bytes > 1 << 20)
    };
    children(pid).into_iter().filter(has_written).map(threads).collect()
}

#[test]
fn threaded_option_starts_second_thread() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    for (spec, threads) in [("putc-write:passes=4000", 1), ("putc-write:threaded:passes=4000", 2)] {
        let words = format!("--size 8m --time 60 --allow low-space --test {spec}");
        let mut running = skye().arg("run").arg(tmpfs.path()).words(&words).spawn();
        let pid = running.id();
        assert!(running.wait_until(|| !threads_below(pid).is_empty()), "{spec}");
        assert_eq!(threads_below(pid), [threads], "{spec}");
        running.signal(Signal::INT);
        running.wait().did_not_panic().exits(130);
    }
    assert_nothing_left(tmpfs.path());
}

#[test]
fn refusals_precede_writing_and_signals_leave_no_files() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    for (words, tells) in [
        ("-s 63", &["-s `63`", "64 or more"][..]),
        ("-s 1g", &["free", "free some space"]),
        ("-x", &["-x is not a flag"]),
        ("-u no-such-user", &["no-such-user", "there is no such user"]),
        ("-s 1m --json -", &["--json `-`", "choose a file"]),
    ] {
        let ran = getc_putc(tmpfs.path(), words).run().did_not_panic().exits(1).output_contains(tells);
        assert_eq!(ran.stdout, "", "{words}");
        assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0, "{words}");
    }
    let mut running = getc_putc(tmpfs.path(), "-s 128m -u root").spawn();
    assert!(running.wait_until(|| fs::read_dir(tmpfs.path()).unwrap().count() > 0));
    running.signal(Signal::TERM);
    let ran = running.wait().did_not_panic().exits(143);
    assert_eq!(ran.stdout, "", "no line of which a part is missing");
    assert_nothing_left(tmpfs.path());
}

#[test]
fn generate_randfile_output_is_determined_by_seed() {
    let made = |words: &str| {
        let program = skye().arg("generate_randfile").words(words);
        let file = program.home().join("numbers");
        let ran = program.arg("-f").arg(&file).run().did_not_panic().exits(0);
        assert_eq!(ran.stdout, "");
        fs::read(&file).unwrap()
    };
    let bytes = made("-s 7 1000");
    assert_eq!((bytes.len(), &bytes), (4000, &made("-s 7 1000")));
    assert!(bytes.chunks(4).all(|number| number[0] < 128) && bytes != made("1000"));
    skye()
        .words("generate_randfile many")
        .run()
        .did_not_panic()
        .exits(1)
        .output_contains(&["`many`", "COUNT"]);
}

#[test]
fn csv_line_matches_installed_original() {
    xtask::require!(root, tmpfs, bonnie);
    let tmpfs = tmpfs();
    let directory = tmpfs.path().to_str().unwrap();
    let output = std::process::Command::new("getc_putc")
        .args(["-d", directory, "-s", "8m", "-m", "same", "-u", "root"])
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (theirs, progress) = (text(&output.stdout), text(&output.stderr));
    let ours = getc_putc(tmpfs.path(), "-s 8m -m same -u root").run().did_not_panic().exits(0);
    let (lines, problems) = family::getc_putc::read(&theirs);
    assert_eq!((lines.len(), problems.len()), (1, 0), "{theirs}");
    // Its first output is no result, though it goes to stdout.
    assert!(theirs.ends_with(&format!("{}\n", lines[0].to_csv())), "{theirs}");
    assert_eq!(family::getc_putc::read(&progress).0, lines, "{progress}");
    let fields = |text: &str| text.lines().last().unwrap_or_default().split(',').count();
    assert_eq!(fields(&ours.stdout), fields(&theirs));
    // Scripts follow the progress by these phrases.
    let phrases = progress.lines().filter_map(|line| line.split_once("...").map(|(start, _)| start));
    for phrase in phrases.filter(|phrase| !phrase.starts_with("Extending")) {
        assert!(ours.stderr.contains(phrase), "{phrase}: {ours}");
    }
}
