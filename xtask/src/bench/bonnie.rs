//! Whole runs of the program against whole runs of bonnie++: the same tests of the same size, in memory, so that what
//! differs is the programs.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::foreign;
use super::pinned::Pinned;
use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Setting, program};

pub(super) const BENCH: Bench = Bench {
    name: "bonnie",
    measures: "rates of whole runs in memory, ours over bonnie++'s; it sleeps ten seconds in each of its own",
    run,
};

/// So large that bonnie++ prints a rate and no plus signs; less is too fast for it.
const SIZE_MIB: u64 = 3072;
/// Of which so much byte by byte.
const BYTES_MIB: u64 = 2;
/// Names, our tests, and where bonnie++'s rate stands in its line of 50 fields, in KiB/s.
const TESTS: [(&str, &str, usize); 4] = [
    ("byte by byte, written", "byte-write:bytes=2m", 9),
    ("8 KiB blocks, written", "write:seq8k:buffered:passes=1", 11),
    ("8 KiB blocks, rewritten", "rewrite:seq8k:passes=1", 13),
    ("byte by byte, read", "byte-read:bytes=2m", 15),
];

fn run(setting: &Setting) -> Result<Vec<Row>> {
    if let Some(why) = foreign::absent("bonnie++", "bonnie++") {
        let skipped = |(what, ..): (&str, _, _)| Row::skipped(what, Limit::None, &why);
        return Ok(TESTS.map(skipped).into());
    }
    let (binary, scratch, pinned) = (crate::release()?, Tmpfs::mount()?, Pinned::new()?);
    let (theirs, ours) = (theirs_command(scratch.path(), &pinned), arguments());
    let mut ratios = [const { Vec::new() }; TESTS.len()];
    // The first pair warms up; who begins changes.
    for pair in 0..=setting.pairs {
        let mut rates = [[None; TESTS.len()]; 2];
        for side in [pair % 2, 1 - pair % 2] {
            rates[side] = match side {
                0 => their_rates(&theirs, &pinned)?,
                _ => our_rates(&binary, scratch.path(), &ours)?,
            };
        }
        for (test, ratios) in ratios.iter_mut().enumerate().filter(|_| pair > 0) {
            if let (Some(theirs), Some(ours)) = (rates[0][test], rates[1][test]) {
                ratios.push(ours / theirs);
            }
        }
    }
    let note = format!("{}\n           skye run DIR {}", foreign::command_line(&theirs), ours.join(" "));
    let rows = TESTS.iter().zip(ratios).map(|((what, ..), ratios)| {
        let what = format!("{what}, ours over bonnie++");
        if ratios.is_empty() {
            return Row::skipped(what, Limit::None, "too fast for bonnie++, which printed +++++");
        }
        Row::new(what, "×", ratios, Limit::None).noted(note.clone())
    });
    Ok(rows.collect())
}

fn theirs_command(directory: &Path, pinned: &Pinned) -> Vec<String> {
    let (cpu, directory) = (pinned.cpu().to_string(), directory.display().to_string());
    let (size, bytes) = (format!("{SIZE_MIB}:8k"), format!("-f{BYTES_MIB}"));
    let words = ["taskset", "-c", &cpu, "bonnie++", "-q", "-u", "root", "-d", &directory];
    let sizes = ["-s", &size, &bytes, "-n", "0", "-r", "0"];
    words.iter().chain(&sizes).map(ToString::to_string).collect()
}

fn their_rates(command: &[String], pinned: &Pinned) -> Result<[Option<f64>; TESTS.len()]> {
    let (stdout, _) = foreign::run(command, pinned)?;
    let line = stdout.lines().last().unwrap_or_default();
    let fields: Vec<_> = line.split(',').collect();
    ensure!(fields.len() > 20, "bonnie++ printed `{line}`");
    Ok(TESTS.map(|(.., field)| fields[field].parse::<f64>().ok().map(|kib| kib * 1024.0)))
}

fn arguments() -> Vec<String> {
    let size = format!("{SIZE_MIB}m");
    let mut words = vec!["--size", &size, "--time", "30", "--allow", "low-space,busy", "--json", "-"];
    words.extend(TESTS.iter().flat_map(|(_, test, _)| ["--test", test]));
    words.into_iter().map(String::from).collect()
}

fn our_rates(binary: &Path, directory: &Path, words: &[String]) -> Result<[Option<f64>; TESTS.len()]> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let output = program::run(binary, directory, &words).output().context("run the program")?;
    ensure!(output.status.success(), "the run ended: {}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).context("understand its document")?;
    let rate = |phase: usize| run["phases"][phase]["rate"]["bytes_per_second"].as_f64();
    Ok(std::array::from_fn(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_equal() {
        for (_, test, _) in TESTS.iter().filter(|(_, test, _)| test.starts_with("byte")) {
            assert!(test.ends_with(&format!(":bytes={BYTES_MIB}m")), "{test}");
        }
        assert!(arguments().contains(&format!("{SIZE_MIB}m")));
    }
}
