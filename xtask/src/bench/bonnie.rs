//! Runs of the program as bonnie++ against runs of bonnie++ itself. Both have the same command line in memory, so that
//! only the programs differ.
//!
//! bonnie++ prints no rate of a test shorter than half a second. Its tests are timed by the phrases that it prints around
//! each, so that they can be short. Before its seeks it sleeps for three seconds; it is killed once it has come so far.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rig::{Disk, Spec};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::foreign;
use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench =
    Bench { name: "bonnie", measures: "rates of `skye bonnie++` over those of bonnie++, in memory", run };

/// A command line, its place, and its tests.
struct Part {
    place: FileSystem,
    words: &'static [&'static str],
    /// Tests in their order. Those after the last one are not run by bonnie++.
    tests: &'static [Test],
}

enum FileSystem {
    Tmpfs,
    /// A device in memory that allows direct I/O.
    Ext4,
}

/// A test whose rate is compared.
struct Test {
    what: &'static str,
    limit: Limit,
}

const fn test(what: &'static str, limit: Limit) -> Test {
    Test { what, limit }
}

/// A block or a name takes kernel time; the programs add little to it.
const EQUAL: Limit = Limit::Reaches(1.0);
/// Work whose shortest test takes some 50 ms. One seek is the least that both accept.
const PARTS: [Part; 3] = [
    Part {
        place: FileSystem::Tmpfs,
        words: &["-s", "1024:8k:1:1", "-f2", "-n", "0"],
        tests: &[
            test("byte by byte, written", Limit::None),
            test("blocks, written", EQUAL),
            test("blocks, rewritten", EQUAL),
            test("byte by byte, read", Limit::None),
            test("blocks, read", EQUAL),
        ],
    },
    Part {
        place: FileSystem::Tmpfs,
        words: &["-s", "0", "-n", "64"],
        tests: &[
            test("files, created in sequence", EQUAL),
            test("files, looked at in the directory's order", EQUAL),
            test("files, removed in the directory's order", EQUAL),
            test("files, created by random names", EQUAL),
            test("files, looked at at random", EQUAL),
            test("files, removed at random", EQUAL),
        ],
    },
    // Only the block write of this run is direct.
    Part {
        place: FileSystem::Ext4,
        words: &["-s", "256:8k:1:1", "-f", "-D", "-n", "0"],
        tests: &[test("blocks, written directly", EQUAL)],
    },
];

/// Size of the device, in MiB.
const DEVICE_MIB: u64 = 1024;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    for part in &PARTS {
        match foreign::absent("bonnie++", "bonnie++") {
            Some(why) => {
                rows.extend(part.tests.iter().map(|test| Row::skipped(test.what, test.limit, &why)))?;
            }
            None => rows.extend(part.run(setting)?)?,
        }
    }
    Ok(())
}

impl Part {
    fn run(&self, setting: &Setting) -> Result<Vec<Row>> {
        match self.place {
            FileSystem::Tmpfs => self.compare(Tmpfs::mount()?.path(), setting),
            FileSystem::Ext4 => {
                let spec = Spec::disk().file_system("ext4").size_mib(DEVICE_MIB);
                let disk = Disk::build(&spec).context("make a file system in memory")?;
                self.compare(&disk.path(), setting)
            }
        }
    }

    fn compare(&self, place: &Path, setting: &Setting) -> Result<Vec<Row>> {
        let binary = crate::release("skye")?.display().to_string();
        let home = tempfile::Builder::new().prefix("skye-bench.").tempdir().context("create a directory")?;
        let json = home.path().join("run.json");
        let directory = place.join("bonnie");
        // Both run on any CPU, as users run them; pinned to one CPU, bonnie++ is faster by some percent.
        let theirs = self.command(&["bonnie++"], &directory);
        let document = json.display().to_string();
        let ours = self.command(&[&binary, "bonnie++", "-q", "--json", &document], &directory);
        let mut ratios: Vec<_> = self.tests.iter().map(|_| Vec::new()).collect();
        // The first pair warms up; the order alternates.
        for pair in 0..=setting.pairs {
            let mut seconds = [const { Vec::new() }; 2];
            for side in [pair % 2, 1 - pair % 2] {
                std::fs::create_dir(&directory).context("create a directory")?;
                seconds[side] = if side == 0 {
                    self.timed(&theirs)?
                } else {
                    foreign::run_anywhere(&ours)?;
                    self.recorded_seconds(&std::fs::read_to_string(&json).context("read the document")?)?
                };
                // A killed bonnie++ leaves its files.
                std::fs::remove_dir_all(&directory).context("remove a directory")?;
            }
            for (test, ratios) in ratios.iter_mut().enumerate().filter(|_| pair > 0) {
                ratios.push(seconds[0][test] / seconds[1][test]);
            }
        }
        let note = foreign::command_line(&theirs);
        let row = |(test, ratios): (&Test, Vec<f64>)| {
            Row::new(test.what, "×", ratios, test.limit).noted(note.clone())
        };
        Ok(self.tests.iter().zip(ratios).map(row).collect())
    }

    fn command(&self, program: &[&str], directory: &Path) -> Vec<String> {
        let directory = directory.display().to_string();
        let place = ["-u", "root", "-r", "0", "-d", &directory];
        let words = program.iter().copied().chain(place);
        words.chain(self.words.iter().copied()).map(str::to_owned).collect()
    }

    /// Returns the seconds of each test of bonnie++.
    fn timed(&self, words: &[String]) -> Result<Vec<f64>> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("LC_ALL", "C").current_dir(std::env::temp_dir());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut group = Group(command.spawn().context("run bonnie++")?);
        let mut stderr = group.0.stderr.take().context("its stderr is not piped")?;
        let mut phrases = Phrases::default();
        let mut bytes = [0; 4096];
        while phrases.seconds.len() < self.tests.len() {
            let read = stderr.read(&mut bytes).context("read the phrases of bonnie++")?;
            ensure!(read > 0, "bonnie++ ended early: {}", phrases.text);
            phrases.read(&String::from_utf8_lossy(&bytes[..read]), Instant::now());
        }
        Ok(phrases.seconds)
    }

    /// Returns the seconds of each test of skye, from its document.
    fn recorded_seconds(&self, document: &str) -> Result<Vec<f64>> {
        let document: Value = serde_json::from_str(document).context("understand the document")?;
        let phases = document["phases"].as_array().context("the document has no tests")?;
        ensure!(phases.len() >= self.tests.len(), "the document has {} tests", phases.len());
        let elapsed = phases[..self.tests.len()].iter().map(|phase| phase["elapsed_ns"].as_f64());
        elapsed.map(|ns| Ok(ns.context("a test has no time")? / 1e9)).collect()
    }
}

/// bonnie++ and its helpers. They are killed when this is dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // They may have ended.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Phrases of bonnie++: "Rewriting..." when a test begins, and "done" with the end of the line when it ends.
#[derive(Debug, Default)]
struct Phrases {
    /// The line that has not ended.
    text: String,
    started: Option<Instant>,
    seconds: Vec<f64>,
}

impl Phrases {
    fn read(&mut self, text: &str, now: Instant) {
        for part in text.split_inclusive('\n') {
            self.text.push_str(part);
            if self.text.ends_with("...") {
                self.started = Some(now);
            }
            if part.ends_with('\n') {
                let started = self.started.take();
                self.seconds.extend(started.map(|started| (now - started).as_secs_f64()));
                self.text.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bonnie_progress_messages_give_test_durations() {
        let begin = Instant::now();
        let mut phrases = Phrases::default();
        let chunks = [
            (0, "Using uid:0, gid:0.\nWriting intelligently..."),
            (500, "done\nRewri"),
            (501, "ting..."),
            (700, "done\n"),
            (700, "Create files in sequential order..."),
            (750, "done.\n"),
        ];
        for (ms, text) in chunks {
            phrases.read(text, begin + Duration::from_millis(ms));
        }
        let ms: Vec<_> = phrases.seconds.iter().map(|seconds| (seconds * 1e3).round() as u64).collect();
        assert_eq!(ms, [500, 199, 50]);
    }
}
