//! User-space instructions of an operation, compared with a baseline.
//!
//! Instructions are no time, but they are the same on a busy machine as on an idle one. A test can therefore demand
//! them. They depend on the compiler: `xtask/instructions.toml` has the one with which they were counted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use engine::clock::Tsc;
use loops::{LOOPS, Loop};

use super::callgrind::per_operation;
use super::fio::{self, Job};
use super::foreign;
use super::pinned::Pinned;
use super::zram_file::ZramFile;
use super::{Bench, Limit, Row, Rows, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "instructions",
    measures: "user-space instructions of an operation, by callgrind; ours against fio's",
    run,
};

/// Operations of the two runs: their difference is so large that other instructions are negligible.
const OPS: [u64; 2] = [20_000, 60_000];
/// Largest ratio to the baseline.
const GROWTH: f64 = 1.1;
const SIZE_BYTES: u64 = 64 << 20;

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    if let Some(why) = foreign::absent("valgrind", "valgrind") {
        return rows.push(Row::skipped("instructions of an operation", Limit::None, why));
    }
    let binary = crate::release("loops")?;
    let here = Conditions::here()?;
    let found = count(&binary)?;
    if setting.updates_baseline {
        Baseline { of: here.clone(), loops: found.clone() }.write()?;
    }
    let baseline = Baseline::read()?;
    for (name, instructions) in &found {
        let known = baseline.loops.iter().find(|(known, _)| known == name);
        let row = |limit| Row::new(format!("{name}, ours"), "instr.", vec![*instructions], limit);
        rows.push(match known {
            Some((_, before)) if baseline.of == here => row(Limit::AtMost(GROWTH * before)),
            _ => row(Limit::None).noted(format!("no limit: the baseline is of {}", baseline.of)),
        })?;
    }
    rows.extend(over_fio(&binary)?)
}

/// Counts the instructions of an operation, for every loop that runs here. All loops run at once: a busy machine changes
/// no count.
fn count(binary: &Path) -> Result<Vec<(&'static str, f64)>> {
    let of = |known: &Loop| {
        let instructions = per_operation(OPS, |ops| loop_command(binary, known.name, ops, None));
        Ok((known.name, instructions.with_context(|| format!("loop {}", known.name))?))
    };
    thread::scope(|scope| {
        let known = LOOPS.iter().filter(|known| known.runs_here());
        let counts: Vec<_> = known.map(|known| scope.spawn(move || of(known))).collect();
        let ended = counts.into_iter().map(|count| count.join().map_err(|_| anyhow!("a thread panicked"))?);
        ended.collect()
    })
}

fn loop_command(binary: &Path, name: &str, ops: u64, file: Option<&Path>) -> Vec<String> {
    let binary = binary.display().to_string();
    let words = [binary, name.to_owned(), ops.to_string()];
    words.into_iter().chain(file.map(|file| file.display().to_string())).collect()
}

/// Compares reads of zram by a ring, at depth 32: skye's and fio's.
fn over_fio(binary: &Path) -> Result<Vec<Row>> {
    const WHAT: &str = "ring reads, depth 32, ours over fio";
    let limit = Limit::AtMost(0.5);
    let refusal = engine::uring::refusal().map(|why| format!("io_uring: {why}"));
    if let Some(why) = refusal.or_else(fio::absent) {
        return Ok(vec![Row::skipped(WHAT, limit, why)]);
    }
    let file = ZramFile::new(SIZE_BYTES)?;
    let ours = per_operation(OPS, |ops| loop_command(binary, "ring-32", ops, Some(&file.path())))?;
    let pinned = Pinned::new()?;
    let job = |ops: u64| {
        let name = format!("--filename={}", file.path().display());
        let (size, ios) = (format!("--size={SIZE_BYTES}"), format!("--io_size={}", ops * 4096));
        let shape = ["--ioengine=io_uring", &name, "--direct=1", "--rw=randread", "--bs=4k", &size, &ios];
        let tuned = ["--iodepth=32", "--fixedbufs", "--registerfiles", "--norandommap"];
        let random = ["--random_generator=tausworthe64"];
        let batches =
            ["--iodepth_batch_submit=8", "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=8"];
        Job::new(&[&shape[..], &tuned, &random, &batches].concat(), &pinned)
    };
    let theirs = per_operation(OPS, |ops| job(ops).words().to_vec())?;
    let row = |what, unit, value, limit| Row::new(what, unit, vec![value], limit);
    let line = format!("valgrind --tool=callgrind {}", job(OPS[1]).command_line());
    Ok(vec![
        row("ring reads of zram, depth 32, ours", "instr.", ours, Limit::None),
        row("ring reads of zram, depth 32, fio", "instr.", theirs, Limit::None).noted(line),
        row(WHAT, "×", ours / theirs, limit),
    ])
}

/// Conditions on which instructions depend.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Conditions {
    /// Output of `rustc --version`.
    compiler: String,
    /// Clock that the loops read.
    clock: String,
    architecture: String,
}

impl std::fmt::Display for Conditions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} with the clock {}", self.compiler, self.architecture, self.clock)
    }
}

impl Conditions {
    fn here() -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc).arg("--version").current_dir(crate::root()).output();
        let output = output.context("run rustc --version")?;
        let compiler = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(compiler.starts_with("rustc "), "rustc --version printed `{compiler}`");
        let clock = if Tsc::calibrate().is_some() { "tsc" } else { "monotonic" };
        Ok(Self { compiler, clock: clock.into(), architecture: std::env::consts::ARCH.into() })
    }
}

/// Instructions of an operation when they were last accepted.
struct Baseline {
    of: Conditions,
    loops: Vec<(&'static str, f64)>,
}

const HEAD: &str = "\
# User-space instructions of an operation of each measuring loop, by callgrind. A test fails if one grew by more than
# 10 %. Written by `cargo xtask bench instructions --bless`.
";

impl Baseline {
    fn path() -> PathBuf {
        crate::root().join("xtask/instructions.toml")
    }

    fn read() -> Result<Self> {
        let path = Self::path();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("understand {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let word = |key: &str| {
            let word = table.get(key).and_then(toml::Value::as_str).map(String::from);
            word.with_context(|| format!("`{key}` is missing"))
        };
        let of = Conditions {
            compiler: word("compiler")?,
            clock: word("clock")?,
            architecture: word("architecture")?,
        };
        let counts =
            table.get("instructions").and_then(toml::Value::as_table).context("`instructions` is missing")?;
        // Counts of loops that no longer exist are ignored.
        let loops = LOOPS.iter().filter_map(|known| Some((known.name, counts.get(known.name)?.as_float()?)));
        Ok(Self { of, loops: loops.collect() })
    }

    fn print(&self) -> String {
        let Conditions { compiler, clock, architecture } = &self.of;
        let mut text = format!(
            "{HEAD}compiler = {compiler:?}\nclock = {clock:?}\narchitecture = {architecture:?}\n\n[instructions]\n"
        );
        for (name, instructions) in &self.loops {
            text.push_str(&format!("{name} = {instructions:.1}\n"));
        }
        text
    }

    fn write(&self) -> Result<()> {
        let path = Self::path();
        std::fs::write(&path, self.print()).with_context(|| format!("write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_baseline_reads_back_unchanged() {
        let of = Conditions {
            compiler: "rustc 1.95.0".into(),
            clock: "tsc".into(),
            architecture: "x86_64".into(),
        };
        let baseline = Baseline { of: of.clone(), loops: vec![("null-32", 101.5), ("null-1", 150.0)] };
        let read = Baseline::parse(&baseline.print()).unwrap();
        assert_eq!((read.of, read.loops), (of, baseline.loops));
        assert!(Baseline::parse("compiler = 'x'").is_err());
    }

    #[test]
    fn loop_instruction_counts_do_not_exceed_baseline() {
        crate::require!(valgrind);
        let (baseline, here) = (Baseline::read().unwrap(), Conditions::here().unwrap());
        if baseline.of != here {
            let why = format!("the baseline is of {}, this is {here}", baseline.of);
            return crate::capability::list_skip(
                "xtask::bench::instructions::loop_instruction_counts_do_not_exceed_baseline",
                &why,
            );
        }
        let found = count(&crate::release("loops").unwrap()).unwrap();
        let mut grown = Vec::new();
        for (name, instructions) in &found {
            let known = baseline.loops.iter().find(|(known, _)| known == name);
            let (_, before) = known.unwrap_or_else(|| panic!("{name} has no baseline; --bless makes one"));
            println!("{name}: {instructions:.1} instructions, {before:.1} before");
            if *instructions > GROWTH * before {
                grown.push(format!("{name}: {before:.1} → {instructions:.1}"));
            }
        }
        assert!(grown.is_empty(), "{grown:?}; if it is worth it: cargo xtask bench instructions --bless");
    }
}
