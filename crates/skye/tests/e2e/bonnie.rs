//! `skye bonnie` does what the users of bonnie 1.4 and Bonnie-64 expect, and does the same work as these.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use family::bonnie::{Head, Program, Table, Test, read};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::fuse::{Faults, Fuse};
use crate::support::mounts::{LoopFs, Tmpfs};
use crate::support::program::{Output, Skye, assert_nothing_left, document, parse_document, skye};
use crate::support::scratch;

const MIB: u64 = 1 << 20;

fn bonnie(directory: &Path, words: &str) -> Skye {
    skye().arg("bonnie").arg("-d").arg(directory).words(words)
}

fn tmpfs() -> Tmpfs {
    Tmpfs::new("512m", None)
}

/// Runs it, and returns its output and its document.
#[track_caller]
fn measured(directory: &Path, words: &str) -> (Output, Value) {
    let program = bonnie(directory, words);
    let json = program.home().join("run.json");
    let ran = program.arg("--json").arg(&json).run().did_not_panic().exits(0);
    let run = document(&json);
    assert_nothing_left(directory);
    (ran, run)
}

/// Returns the one table that is all of its stdout.
#[track_caller]
fn table(ran: &Output) -> Table {
    let (tables, problems) = read(&ran.stdout);
    assert_eq!((tables.len(), problems), (1, vec![]), "{ran}");
    tables[0].clone()
}

fn number(run: &Value, phase: usize, key: &str) -> u64 {
    run["phases"][phase][key].as_u64().unwrap()
}

/// Returns one value for each of the six tests.
fn each<'a>(run: &'a Value, of: impl Fn(&'a Value) -> &'a Value) -> Vec<&'a Value> {
    run["phases"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn workload_matches_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let (_, run) = measured(tmpfs.path(), "-s 24 -S 4000 -p 3 -z 42");
    assert_eq!(
        each(&run, |phase| &phase["name"]),
        ["putc-write", "rewrite", "write", "getc-read", "read", "rw"]
    );
    assert_eq!(each(&run, |phase| &phase["status"]), ["done"; 6]);
    let size = 24 * MIB;
    let moved = |phase| [number(&run, phase, "app_bytes_read"), number(&run, phase, "app_bytes_written")];
    assert_eq!([0, 1, 2, 3, 4].map(moved), [[0, size], [size, size], [0, size], [size, 0], [size, 0]]);
    assert_eq!([0, 1, 2, 3, 4].map(|phase| number(&run, phase, "ops")), [size, 24, 24, size, 24]);
    // Every seek reads 16 KiB, and one in ten writes them back: four standard deviations.
    let [read, written] = moved(5).map(|bytes| bytes / (16 << 10));
    assert_eq!((number(&run, 5, "ops"), read), (4000, 4000));
    assert!(written.abs_diff(400) < 76, "{written} of 4000 written back");
    assert_eq!(each(&run, |phase| &phase["workload"]["threads"]), [1, 1, 1, 1, 1, 3]);
    assert!(each(&run, |phase| &phase["workload"]["files"]).iter().all(|files| **files == 1));
    assert_eq!(run["seed"], 42);
    // Without -y, nothing is made durable, and each test closes its file.
    let syncs = |run: &Value| [0, 1, 2, 5].map(|phase| run["phases"][phase]["workload"]["sync"].clone());
    assert_eq!(syncs(&run), ["close", "close", "close", "none"]);
    let (ran, run) = measured(tmpfs.path(), "-s 8 -y -u -p 8 -S 1500");
    assert_eq!(syncs(&run), ["end", "end", "end", "none"]);
    let unlocked: Vec<_> =
        each(&run, |phase| &phase["spec"]).iter().map(|spec| spec.to_string().contains("unlocked")).collect();
    assert_eq!(unlocked, [true, false, false, true, false, false]);
    assert_eq!((number(&run, 5, "ops"), &run["phases"][5]["workload"]["threads"]), (1500, &8.into()));
    let head =
        Head { is_synced: true, is_unlocked: true, is_direct: false, thousands_of_seeks: 2, seekers: 8 };
    assert_eq!(table(&ran).head, Some(head), "{ran}");
}

/// The file that putc makes is the one that is rewritten: nothing is written beside the tests.
#[test]
fn file_is_not_laid_out_before_first_test() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let ran = bonnie(fuse.path(), "-s 8 -S 1000 -z 1").run().did_not_panic().exits(0);
    let written = fuse.counts().bytes_written;
    // Three times the file, and a tenth of the seeks; a marker is some bytes.
    let most = 3 * 8 * MIB + 400 * (16 << 10);
    assert!((3 * 8 * MIB..most).contains(&written), "{written}: {ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn each_volume_file_has_the_full_size() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let (ran, run) = measured(tmpfs.path(), "-s 12 -v 3 -p 2 -S 2000");
    let size = 3 * 12 * MIB;
    for phase in 0..5 {
        let workload = &run["phases"][phase]["workload"];
        assert_eq!((&workload["files"], &workload["threads"]), (&3.into(), &1.into()), "{phase}");
        assert_eq!(
            (workload["size_bytes"].as_u64(), number(&run, phase, "bytes")),
            (Some(size), size),
            "{phase}"
        );
        assert_eq!(run["phases"][phase]["passes"], 1.0, "{phase}");
    }
    assert_eq!((number(&run, 5, "ops"), &run["phases"][5]["workload"]["files"]), (2000, &3.into()));
    let table = table(&ran);
    assert_eq!((table.size_mib, table.volumes), (Some(12), 3), "{ran}");
    ran.stderr_contains(&["size: 12582912, volumes: 3", "seeks use all volumes"]);
}

#[test]
fn reread_option_doubles_rewrite_reads() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    for (words, reads) in [("-s 8", 1), ("-s 8 --reread", 2), ("--compat 64 -s 8 --reread", 2)] {
        let (_, run) = measured(tmpfs.path(), words);
        let [bytes, read, written] =
            ["bytes", "app_bytes_read", "app_bytes_written"].map(|key| number(&run, 1, key));
        assert_eq!((bytes, read, written), (8 * MIB, reads * 8 * MIB, 8 * MIB), "{words}");
    }
}

#[test]
fn reread_is_excluded_from_page_cache_share() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 256, &[], "");
    let words = "--size 32m --time 5 --no-probe --allow low-space --test rewrite:seq128k:reread --json -";
    let ran = skye().arg("run").arg(disk.path()).words(words).run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let phase = &run["phases"][0];
    // Each block came from the device once. The second time it was in memory because of the test itself.
    assert!(phase["page_cache_share"].as_f64().is_some_and(|share| share < 0.1), "{phase:#}");
    let codes: Vec<_> =
        phase["notes"].as_array().unwrap().iter().filter_map(|note| note["code"].as_str()).collect();
    assert!(!codes.contains(&"served_from_page_cache"), "{codes:?}");
}

#[test]
fn direct_io_covers_block_tests_and_warns_for_getc() {
    xtask::require!(root, loop, ext4);
    let disk = LoopFs::new("ext4", 256, &[], "");
    let (ran, run) = measured(disk.path(), "-s 16 -v 2 -S 1000 -o_direct --reread");
    assert_eq!(each(&run, |phase| &phase["status"]), ["done"; 6]);
    let direct: Vec<_> =
        each(&run, |phase| &phase["workload"]["direct"]).iter().map(|direct| **direct == true).collect();
    assert_eq!(direct, [false, true, true, false, true, true]);
    let ran = ran
        .stderr_contains(&["Using O_DIRECT for block based I/O", "as the C library's buffer is not aligned"]);
    assert!(!ran.stderr.contains("of memory and will be read from memory"), "{ran}");
    assert!(table(&ran).head.is_some_and(|head| head.is_direct), "{ran}");
    assert!(ran.stdout.contains("-DIOBlock- -DRewrite-"), "{ran}");
    // The second read, past the cache, reads what was just written.
    assert_eq!(number(&run, 1, "app_bytes_read"), 2 * number(&run, 1, "app_bytes_written"));
}

#[test]
fn progress_and_table_match_the_original() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = bonnie(tmpfs.path(), "-s 64 -m ada -p 4").run().did_not_panic().exits(0);
    let report: Vec<_> = ran.stderr.lines().collect();
    assert!(report.iter().any(|line| line.starts_with("Bonnie 1.4: File in '")), "{ran}");
    for phrase in [
        "Writing with putc()...         done: ",
        "Rewriting...                   done: ",
        "Writing intelligently...       done: ",
        "Reading with getc()...         done: ",
        "Reading intelligently...       done: ",
    ] {
        let line = report.iter().find_map(|line| line.strip_prefix(phrase));
        let words: Vec<_> = line.unwrap_or_else(|| panic!("{phrase}: {ran}")).split_whitespace().collect();
        let [rate, "kB/s", cpu, "%CPU"] = words[..] else { panic!("{phrase}: {ran}") };
        assert!(
            rate.parse::<u64>().is_ok_and(|rate| rate > 0) && cpu.parse::<f64>().is_ok(),
            "{phrase}: {ran}"
        );
    }
    let seeks = "Seeker 1...Seeker 2...Seeker 3...Seeker 4...start 'em...done...done...done...done...";
    assert!(report.contains(&seeks), "{ran}");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "              ---Sequential Output (nosync)--- ---Sequential Input-- --Rnd Seek-",
            "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --04k (04)-",
            "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU   /sec %CPU",
        ]
    );
    assert!(lines.len() == 4 && lines[3].starts_with("ada    1*  64 "), "{ran}");
    let table = table(&ran);
    assert_eq!((table.label.as_str(), table.size_mib, table.volumes), ("ada", Some(64), 1));
    for test in Test::ALL {
        assert!(
            table[test].is_some_and(|found| found.per_second > 0.0 && found.cpu_percent.is_some()),
            "{ran}"
        );
    }
    assert_eq!(table.text(), ran.stdout);
    // The limiter of each of the six follows.
    let limited = ran.stderr.split("what limited each of them:\n").nth(1).unwrap();
    let names = limited.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    "));
    assert_eq!(names.count(), 6, "{ran}");
    assert_nothing_left(tmpfs.path());
}

#[test]
fn html_is_a_row_of_fourteen_cells() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = bonnie(tmpfs.path(), "-s 4 -v 2 -html -m a&b").run().did_not_panic().exits(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
    assert_eq!((ran.stdout.matches("<TD>").count(), ran.stdout.matches("</TD>").count()), (14, 14), "{ran}");
    assert!(ran.stdout.starts_with("<TR><TD>a&amp;b</TD><TD>4 * 2</TD>"), "{ran}");
    let table = table(&ran);
    assert_eq!((table.label.as_str(), table.html()), ("a&b", ran.stdout.clone()));
    assert_nothing_left(tmpfs.path());
}

#[test]
fn bonnie_64_has_its_own_chunks_and_tables() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let (ran, run) = measured(tmpfs.path(), "--compat 64 -s 8 -m ada -r");
    let blocks = [1, 2, 4, 5].map(|phase| run["phases"][phase]["workload"]["block_bytes"].clone());
    assert_eq!(blocks, [16 << 10; 4]);
    assert_eq!([1, 2, 4, 5].map(|phase| number(&run, phase, "ops")), [512, 512, 512, 4000]);
    let syncs = [0, 1, 2, 5].map(|phase| run["phases"][phase]["workload"]["sync"].clone());
    assert_eq!(syncs, ["end", "end", "end", "none"]);
    let found = table(&ran);
    assert_eq!((found.program, found.label.as_str(), found.size_mib), (Program::V64, "ada", Some(8)));
    assert!(ran.stdout.lines().last().unwrap().starts_with("ada      0.008 "), "{ran}");
    let ran = ran.stderr_contains(&[
        "Writing with putc()...done\n",
        "Reading intelligently...done\n",
        "-r has no effect",
    ]);
    assert!(
        ran.stderr.contains("Seeker 1...Seeker 2...Seeker 3...start 'em...done...done...done...\n"),
        "{ran}"
    );
    let ran = bonnie(tmpfs.path(), "--compat 64 -s 4 -m ada -f HTML").run().did_not_panic().exits(0);
    assert!(ran.stdout.starts_with("<table>\n") && ran.stdout.ends_with("</table>\n"), "{ran}");
    assert_eq!((table(&ran).program, table(&ran).size_mib), (Program::V64, Some(4)), "{ran}");
    assert_nothing_left(tmpfs.path());
}

#[test]
fn size_below_memory_warns_and_is_measured() {
    xtask::require!(root, tmpfs);
    let tmpfs = tmpfs();
    let ran = bonnie(tmpfs.path(), "-s 4").run().did_not_panic().exits(0);
    let ran = ran.output_contains(&[
        "warning: -s 4: a file of 4 MiB fits into the",
        "-o_direct",
        "skye without bonnie",
    ]);
    assert_eq!(table(&ran).size_mib, Some(4));
}

#[test]
fn refusals_come_before_anything_is_written() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("48m", None);
    for (words, tells) in [
        ("-s 0", &["-s `0`", "whole MiB from 1"][..]),
        ("-v 513", &["-v `513`", "1 to 512 volumes"]),
        ("-p 0", &["-p `0`", "1 to 128"]),
        ("-S 10", &["-S `10`", "1000 or more"]),
        ("-s 64", &["-s 64", "it needs 64 MiB", "MiB are free", "use a smaller -s, or free some space"]),
        ("-s 8 -v 9", &["-s 8 -v 9", "it needs 72 MiB", "a smaller -s or -v"]),
        ("-s 1 -p 100", &["-p 100", "use -s 2 or more"]),
        ("-s 8 --json /nowhere/run.json", &["/nowhere/run.json"]),
        ("-s 8 --json -", &["--json `-`", "choose a file"]),
        ("-s 8 -q", &["-q is not a flag of bonnie 1.4", "--help"]),
        ("-s 8 -f html", &["-f is a flag of Bonnie-64"]),
        ("--compat 64 -s 8 -v 2", &["-v is a flag of bonnie 1.4"]),
    ] {
        let ran = bonnie(tmpfs.path(), words).run().did_not_panic().exits(1).output_contains(tells);
        assert_eq!(ran.stdout, "", "{words}");
        assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0, "{words}");
    }
    let missing = tmpfs.path().join("missing");
    bonnie(&missing, "-s 8").run().exits(1).output_contains(&["missing", "No such file"]);
}

#[test]
#[ignore = "long"]
fn signal_ends_run_without_table_or_leftover_files() {
    xtask::require!(root, fuse);
    // Signals arrive while putc writes, while chunks are written, and later.
    for (signal, code, written) in
        [(Signal::INT, 130, MIB), (Signal::TERM, 143, 65 * MIB), (Signal::HUP, 129, 129 * MIB)]
    {
        let fuse = Fuse::new(Faults::default());
        let mut running = bonnie(fuse.path(), "-s 64").spawn();
        assert!(running.wait_until(|| fuse.counts().bytes_written > written));
        running.signal(signal);
        let ran = running.wait().did_not_panic().exits(code);
        assert_eq!(ran.stdout, "", "no table of which a part is missing");
        assert_nothing_left(fuse.path());
    }
}

#[test]
fn symlink_with_original_name_selects_command() {
    let home = scratch(1 << 20);
    let link = home.path().join("bonnie");
    symlink(env!("CARGO_BIN_EXE_skye"), &link).unwrap();
    let output = Command::new(&link).arg("--help").stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.starts_with("Usage: skye bonnie [-d DIR]"), "{stdout}");
}
