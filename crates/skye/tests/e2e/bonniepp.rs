//! `skye bonnie++` does what scripts written for the original expect, and does the same work.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use xtask::capability::OTHER_USER;

use crate::support::fuse::{Faults, Fuse};
use crate::support::mounts::Tmpfs;
use crate::support::program::{
    Output, Skye, assert_nothing_left, document, for_this_user, give_to_other_user, has_marker, leftovers,
    open_to_all, skye,
};
use crate::support::scratch;

/// Options for a small run without the check of the memory.
const SMALL: &str = "-r 0 -s 2 -n 1";

fn bonniepp(directory: &Path, words: &str) -> Skye {
    skye().arg("bonnie++").arg("-d").arg(directory).words(words)
}

fn tmpfs() -> Tmpfs {
    Tmpfs::new("512m", None)
}

#[track_caller]
fn fields(line: &str) -> Vec<&str> {
    line.split(',').collect()
}

#[track_caller]
fn csv(ran: &Output) -> Vec<&str> {
    fields(ran.stdout.lines().last().unwrap_or_default())
}

#[test]
fn quiet_mode_prints_only_csv_on_stdout() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    give_to_other_user(tmpfs.path());
    let words = "-s 2 -r 1 -n 1 -m name -q -u nobody";
    let ran = bonniepp(tmpfs.path(), words).run().did_not_panic().exits(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
    let fields = csv(&ran);
    assert_eq!((fields.len(), fields[0], fields[1], fields[2]), (50, "1.98", "2.00a", "name"), "{ran}");
    assert!(
        ran.stderr.contains("Sequential Output") && ran.stderr.contains("what limited each of them:"),
        "{ran}"
    );
    assert!(!ran.stderr.contains("Writing"), "quiet: {ran}");
    assert_nothing_left(tmpfs.path());
}

#[test]
fn progress_and_table_match_the_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = bonniepp(tmpfs.path(), SMALL).words("-u root").run().did_not_panic().exits(0);
    let text: Vec<_> = ran.stderr.lines().collect();
    for line in [
        "Using uid:0, gid:0.",
        "Writing a byte at a time...done",
        "Writing intelligently...done",
        "Rewriting...done",
        "Reading a byte at a time...done",
        "Reading intelligently...done",
        "start 'em...done...done...done...done...done...",
        "Create files in sequential order...done.",
        "Stat files in sequential order...done.",
        "Delete files in sequential order...done.",
        "Create files in random order...done.",
        "Stat files in random order...done.",
        "Delete files in random order...done.",
    ] {
        assert!(text.contains(&line), "{line}: {ran}");
    }
    assert!(ran.stderr.contains("page cache, as in bonnie++"), "{ran}");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(
        lines[0].starts_with("Version 2.00a") && lines.last().unwrap().starts_with("1.98,2.00a,"),
        "{ran}"
    );
    // The limiter of each of the twelve follows.
    let limited = ran.stderr.split("what limited each of them:\n").nth(1).unwrap();
    let names = limited.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    "));
    assert_eq!(names.count(), 12, "{ran}");
    // The whole result is kept, and the program says how to show it.
    let [saved] = &ran.saved()[..] else { panic!("{ran}") };
    let (time, word) = saved.file_stem().unwrap().to_str().unwrap().split_once('-').unwrap();
    assert!(ran.stderr.contains(&format!("the full result: skye why {}-{word}", &time[4..8])), "{ran}");
    assert_eq!(document(saved)["phases"].as_array().unwrap().len(), 12);
    assert_nothing_left(tmpfs.path());
}

#[test]
fn workload_matches_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let program = bonniepp(tmpfs.path(), "-r 0 -s 64:8k:8192:5 -n 2:2000:1000:4:512 -f1 -z 42 -q -u root");
    let json = program.home().join("run.json");
    let _ran = program.arg("--json").arg(&json).run().did_not_panic().exits(0);
    let run = document(&json);
    let phases = run["phases"].as_array().unwrap();
    let number = |phase: usize, key: &str| phases[phase][key].as_u64().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "byte-write",
            "write",
            "rewrite",
            "byte-read",
            "read",
            "rw",
            "create",
            "stat",
            "unlink",
            "create",
            "stat",
            "unlink"
        ]
    );
    let (mib, size) = (1 << 20, 64 << 20);
    assert_eq!((number(0, "ops"), number(0, "app_bytes_written")), (mib, mib));
    assert_eq!((number(1, "ops"), number(1, "app_bytes_written")), (size / 8192, size));
    assert_eq!((number(2, "app_bytes_read"), number(2, "app_bytes_written")), (size, size));
    assert_eq!((number(3, "ops"), number(3, "app_bytes_read")), (mib, mib));
    assert_eq!((number(4, "ops"), number(4, "app_bytes_read")), (size / 8192, size));
    // Every seek reads, and about one in ten writes back: four standard deviations.
    let written = number(5, "app_bytes_written") / 8192;
    assert_eq!((number(5, "ops"), number(5, "app_bytes_read")), (8192, 8192 * 8192));
    assert!(written.abs_diff(819) < 110, "{written} of 8192 updated");
    for create in [6, 9] {
        assert_eq!(number(create, "ops"), 2048);
        let (made, read) = (number(create, "app_bytes_written"), number(create + 1, "app_bytes_read"));
        assert!((2048 * 1000..=2048 * 2000).contains(&made), "{made} bytes in files");
        assert_eq!(read, made, "stat reads what there is");
        assert_eq!((number(create + 1, "ops"), number(create + 2, "ops")), (2048, 2048));
    }
    assert!(phases.iter().all(|phase| phase["status"] == "done" && phase["passes"].as_f64() < Some(1.01)));
    assert_nothing_left(tmpfs.path());
}

#[test]
fn csv_format_follows_the_compat_version() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    for (words, count, begins) in [
        ("--compat 1.03 -n 1", 27, "host,2M,"),
        ("--compat 1.97 -n 1 -f", 48, "1.97,1.97,host,1,"),
        ("-n 0 -f", 50, "1.98,2.00a,host,1,"),
        ("-c 2 -n 1 -f", 50, "1.98,2.00a,host,2,"),
        ("-n 1:-1 -f", 50, "1.98,2.00a,host,1,"),
        ("-n 1:-2:0:4 -f", 50, "1.98,2.00a,host,1,"),
        ("-b -n 1 -f", 50, "1.98,2.00a,host,1,"),
    ] {
        let program = bonniepp(tmpfs.path(), "-r 0 -s 2 -m host -q -u root");
        let ran = program.words(words).run().did_not_panic().exits(0);
        assert!(ran.stdout.starts_with(begins), "{words}: {ran}");
        assert_eq!(csv(&ran).len(), count, "{words}: {ran}");
        assert_nothing_left(tmpfs.path());
    }
}

#[test]
fn several_runs_are_csv_with_a_header() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let program = bonniepp(tmpfs.path(), "-r 0 -s 64 -n 1 -f -x 2 -z 7 -u root");
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(0);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ran}");
    assert!(lines[0].starts_with("format_version,bonnie_version,name,"), "{ran}");
    assert_eq!((fields(lines[1])[4], fields(lines[2])[4]), ("7", "7"), "the seed");
    // A file without an end is no trap.
    let endless =
        bonniepp(tmpfs.path(), "-r 0 -s 64 -n 0 -f -q -u root -Z /dev/zero").run().did_not_panic().exits(0);
    assert_eq!(csv(&endless)[4], "/dev/zero");
    assert_eq!(document(&json)["seed"], 7);
    assert_eq!(document(&ran.home().join("run.2.json"))["seed"], 7);
    let none = bonniepp(tmpfs.path(), "-x 0 -r 0 -s 64").run().did_not_panic().exits(0);
    assert_eq!(none.stdout, "");
    assert_nothing_left(tmpfs.path());
}

#[test]
#[ignore = "long"]
fn direct_option_applies_to_all_chunk_tests() {
    xtask::require!(root, loop, ext4);
    let disk = crate::support::mounts::LoopFs::new("ext4", 256, &[], "");
    let program = bonniepp(disk.path(), "-r 0 -s 2 -n 0 -D -q -u root");
    let json = program.home().join("run.json");
    let _ran = program.arg("--json").arg(&json).run().did_not_panic().exits(0);
    let run = document(&json);
    let direct: Vec<_> =
        run["phases"].as_array().unwrap().iter().map(|phase| phase["workload"]["direct"] == true).collect();
    assert_eq!(direct, [false, true, true, false, true, true]);
    assert_nothing_left(disk.path());
}

#[test]
fn refusals_come_before_anything_is_written() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("48m", None);
    for (words, tells) in [
        ("-s 100", &["-s 100", "memory", "-r 0", "skye without bonnie++"][..]),
        ("-r 8G -s 2g", &["-s 2048", "8192 MiB", "-s 16384"]),
        ("-s 64 -r 0 -u no-such-user", &["no-such-user", "there is no such user"]),
        ("-s 64 -r 0 -g no-such-group", &["no-such-group", "there is no such group"]),
        ("-s 64 -r 0 -n 0", &["64", "free", "free some space"]),
        ("-s 8 -r 0 -n 0 -Z /nowhere/random", &["/nowhere/random", "No such file"]),
        ("-s 8 -r 0 -n 0 --json /nowhere/run.json", &["/nowhere/run.json"]),
        ("-s 8 -r 0 -n 0 --json -", &["--json `-`", "choose a file"]),
        ("-s 8 -r 0 -p 2 -y s", &["-p creates the barrier", "pass -y only"]),
        ("-s 8:3k -r 0", &["`3k`", "power of two"]),
    ] {
        let ran = bonniepp(tmpfs.path(), words).run().did_not_panic().exits(1).output_contains(tells);
        assert_eq!(ran.stdout, "", "{words}");
        assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0, "{words}");
    }
    let missing = tmpfs.path().join("missing");
    bonniepp(&missing, "-s 8 -r 0").run().exits(1).output_contains(&["missing", "No such file"]);
}

#[test]
fn user_switch_keeps_only_primary_group() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    give_to_other_user(tmpfs.path());
    let mut running = bonniepp(tmpfs.path(), "-s 300 -r 0 -n 16 -u nobody").spawn();
    let status = format!("/proc/{}/status", running.id());
    let work = || fs::read_dir(tmpfs.path()).unwrap().flatten().next();
    assert!(running.wait_until(|| work().is_some()));
    assert_eq!(work().map(|entry| entry.metadata().unwrap().uid()), Some(OTHER_USER));
    let status = fs::read_to_string(status).unwrap();
    let of = |key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).unwrap().split_whitespace().collect::<Vec<_>>()
    };
    let group = OTHER_USER.to_string();
    assert_eq!(of("Uid:"), vec![group.as_str(); 4]);
    assert_eq!(of("Groups:"), [group.as_str()]);
    running.signal(Signal::TERM);
    running.wait().did_not_panic().exits(143);
    assert_nothing_left(tmpfs.path());
}

#[test]
#[ignore = "long"]
fn signals_exit_with_original_codes_and_leave_no_files() {
    xtask::require!(root, fuse);
    let fuse = || Fuse::new(Faults { unlink_time: Duration::from_millis(2), ..Faults::default() });
    for (signal, in_data, in_files) in
        [(Signal::INT, 5, 1), (Signal::TERM, 143, 143), (Signal::HUP, 129, 129)]
    {
        let data = fuse();
        let mut running = bonniepp(data.path(), "-r 0 -s 256 -f -n 0 -u root").spawn();
        assert!(running.wait_until(|| data.counts().bytes_written > 1 << 20));
        running.signal(signal);
        let ran = running.wait().did_not_panic().exits(in_data);
        assert_eq!(ran.stdout, "", "no line of which a part is missing");
        assert_nothing_left(data.path());
        let files = fuse();
        let mut running = bonniepp(files.path(), "-s 0 -n 2 -u root").spawn();
        assert!(running.wait_until(|| files.counts().unlinks > 10));
        running.signal(signal);
        running.wait().did_not_panic().exits(in_files);
        assert_nothing_left(files.path());
    }
}

#[test]
fn run_under_nohup_survives_sighup() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { unlink_time: Duration::from_millis(2), ..Faults::default() });
    let program = bonniepp(fuse.path(), "-s 0 -n 1 -u root");
    let mut running = program.through("sh", &["-c", "trap '' HUP && exec \"$@\"", "sh"]).spawn();
    assert!(running.wait_until(|| fuse.counts().unlinks > 10));
    running.signal(Signal::HUP);
    let ran = running.wait().did_not_panic().exits(0);
    assert!(ran.stdout.lines().count() > 1, "{ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn symlinks_with_original_names_select_commands() {
    let home = scratch(1 << 20);
    for (name, word) in
        [("bonnie++", "Usage: skye bonnie++"), ("bon_csv2html", "Usage"), ("bon_csv2txt", "Usage")]
    {
        let link = home.path().join(name);
        symlink(env!("CARGO_BIN_EXE_skye"), &link).unwrap();
        let output = Command::new(&link).arg("--help").stdin(Stdio::null()).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && stdout.contains(word) && stdout.contains(name),
            "{name}: {stdout}"
        );
    }
}

/// Returns the kind of a field's value.
fn kind(field: &str) -> &'static str {
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let unit = ["us", "ms", "s"].iter().find_map(|unit| field.strip_suffix(unit));
    match field {
        "" => "nothing",
        // The speed does not matter for the kind.
        _ if field.chars().all(|c| c == '+') || is_number(field) => "a number",
        _ if unit.is_some_and(is_number) => "a latency",
        _ => "a word",
    }
}

fn original(program: &str, words: &[&str], input: &str) -> String {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(words)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn csv_fields_and_labels_match_installed_original() {
    xtask::require!(root, tmpfs, bonnie);
    let tmpfs = tmpfs();
    let directory = tmpfs.path().to_str().unwrap().to_owned();
    for words in [
        "-r 1 -s 2 -n 1",
        "-r 0 -s 32:64k:2000:16 -n 1:4096:1024:4 -f",
        "-s 0 -n 1:-1",
        "-r 0 -s 32 -n 0 -b -f",
    ] {
        let words = format!("{words} -m same -u root -z 42");
        let theirs: Vec<_> = ["-d", &directory].into_iter().chain(words.split(' ')).collect();
        let theirs = original("bonnie++", &theirs, "");
        let ours = bonniepp(tmpfs.path(), &words).run().did_not_panic().exits(0);
        let (their_line, our_line) = (theirs.lines().last().unwrap(), ours.stdout.lines().last().unwrap());
        let (their_fields, our_fields) = (fields(their_line), fields(our_line));
        assert_eq!(our_fields.len(), their_fields.len(), "{our_line}\n{their_line}");
        for (index, (our, their)) in our_fields.iter().zip(&their_fields).enumerate() {
            assert_eq!(kind(our), kind(their), "field {index}: `{our}`, `{their}`\n{our_line}\n{their_line}");
            // Fields that repeat the options are not measured.
            if index < 9 || (21..26).contains(&index) {
                assert_eq!(our, their, "field {index}\n{our_line}\n{their_line}");
            }
        }
        // The words of the tables, without numbers.
        let labels = |text: &str| -> HashSet<String> {
            let is_label = |word: &&str| word.chars().any(char::is_alphabetic) && kind(word) == "a word";
            let lines = text.lines().filter(|line| !line.contains(','));
            lines.flat_map(str::split_whitespace).filter(is_label).map(str::to_owned).collect()
        };
        let rates =
            |word: &String| word.ends_with(['k', 'm', 'g']) && word.starts_with(|c: char| c.is_ascii_digit());
        let [ours, theirs] = [labels(&ours.stdout), labels(&theirs)]
            .map(|labels| labels.into_iter().filter(|word| !rates(word)).collect::<HashSet<_>>());
        assert_eq!(ours, theirs);
    }
}

#[test]
#[ignore = "long"]
fn csv_lines_are_converted_by_ours_and_original() {
    xtask::require!(root, tmpfs, bonnie);
    let tmpfs = tmpfs();
    let ours =
        bonniepp(tmpfs.path(), SMALL).words("-m ours -q -u root").run().did_not_panic().exits(0).stdout;
    let directory = tmpfs.path().to_str().unwrap();
    let words = ["-d", directory, "-r", "0", "-s", "2", "-n", "1", "-m", "theirs", "-q", "-u", "root"];
    let both = format!("{ours}{}", original("bonnie++", &words, ""));
    let their_page = original("bon_csv2html", &[], &both);
    assert!(their_page.contains("ours") && their_page.contains("theirs"), "{their_page}");
    let home = scratch(1 << 20);
    let file = home.path().join("both.csv");
    fs::write(&file, &both).unwrap();
    let page = skye().arg("bon_csv2html").arg(&file).run().did_not_panic().exits(0).stdout;
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("ours") && page.contains("theirs"),
        "{page}"
    );
    let text = skye().arg("bon_csv2txt").arg(&file).run().did_not_panic().exits(0).stdout;
    assert!(text.contains("ours") && text.contains("theirs") && text.contains("Sequential Output"), "{text}");
    let output = skye().arg("report").arg(&file).run().did_not_panic().exits(0).stdout;
    assert_eq!(output, text);
}

#[test]
fn invalid_csv_lines_are_reported_and_others_shown() {
    let home = scratch(1 << 20);
    let file = home.path().join("lines.csv");
    let good = "testvm,2G,171909,88,868715,74,1717055,73,244731,82,+++++,+++,+++++,+++,16,3824,86,+++++,+++,+++++,+++,3405,89,+++++,+++,+++++,+++";
    fs::write(&file, format!("{good}\n{}\n", good.replace("868715", "fast"))).unwrap();
    open_to_all(&file);
    let ran = skye().arg("bon_csv2txt").arg(&file).run().did_not_panic().exits(0);
    assert!(
        ran.stdout.contains("868715") && ran.stderr.contains("line 2") && ran.stderr.contains("fast"),
        "{ran}"
    );
    let nothing =
        skye().arg("bon_csv2html").arg(home.path().join("missing.csv")).run().did_not_panic().exits(1);
    nothing.output_contains(&["missing.csv", "No such file"]);
}

#[test]
#[ignore = "long"]
fn user_switch_drops_capabilities_despite_no_setuid_fixup() {
    xtask::require!(root, user);
    let home = scratch(16 << 20);
    give_to_other_user(home.path());
    let program = skye()
        .arg("bonnie++")
        .arg("-d")
        .arg(home.path())
        .words("-s 2 -r 1 -n 0 -q -u")
        .arg(OTHER_USER.to_string());
    let mut running = program.through("setpriv", &["--securebits", "+no_setuid_fixup"]).spawn();
    let status = format!("/proc/{}/status", running.id());
    let line = |name: &str| {
        let text = fs::read_to_string(&status).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix(name).map(|rest| rest.trim().to_owned()))
            .unwrap_or_default()
    };
    assert!(running.wait_until(|| !leftovers(home.path()).is_empty()), "it made no directory");
    let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].map(line);
    let ran = running.wait().did_not_panic().exits(0);
    assert_eq!(sets, ["0000000000000000"; 4], "{ran}");
}

#[test]
fn programs_are_synchronised_before_each_test() {
    let home = scratch(64 << 20);
    let program = |words: &str| {
        let program = skye().arg("bonnie++").env("XDG_RUNTIME_DIR", home.path()).arg("-d").arg(home.path());
        program.words(&for_this_user("-s 8 -r 4 -n 1 -f -u root -q")).words(words)
    };
    program("-y s").run().did_not_panic().exits(1).output_contains(&["there is no barrier", "-p N"]);
    program("-p 2").run().did_not_panic().exits(0);
    let mut first = program("-y s").spawn();
    assert!(first.wait_until(|| !leftovers(home.path()).is_empty()), "it makes no directory");
    std::thread::sleep(Duration::from_secs(1));
    assert!(!first.has_ended(), "it waits for nobody");
    // The second leaves the tests on files out, and the first waits for it no more.
    let second = program("-y s -n 0").run().did_not_panic().exits(0);
    let first = first.wait().did_not_panic().exits(0);
    for ran in [&first, &second] {
        assert!(!ran.stderr.contains("has exited"), "{ran}");
    }
    // The seats serve again, and outlast a program that is killed.
    let mut killed = program("-y s").spawn();
    assert!(killed.wait_until(|| has_marker(home.path())), "it makes no directory");
    killed.signal(Signal::KILL);
    killed.wait();
    skye().arg("clean").arg(home.path()).run().exits(0);
    program("-p -1").run().did_not_panic().exits(0);
    assert!(!home.path().join("skye-bonnie++").exists());
}

#[test]
fn signal_ends_the_wait_for_enter() {
    let home = scratch(64 << 20);
    let words = for_this_user("-s 8 -r 4 -n 0 -f -u root -y p -d");
    let program = skye().arg("bonnie++").words(&words).arg(home.path());
    let text = program.home().join("told");
    // A pipe that is open both ways has no end, and nobody writes to this one.
    let mut waiting =
        program.through("sh", &["-c", "mkfifo keys && exec \"$@\" <> keys 2> told", "sh"]).spawn();
    let is_waiting = || fs::read_to_string(&text).is_ok_and(|text| text.contains("press Enter to start"));
    assert!(waiting.wait_until(is_waiting), "it asks nobody");
    waiting.signal(Signal::INT);
    waiting.wait().did_not_panic().exits(5);
    assert_nothing_left(home.path());
}
