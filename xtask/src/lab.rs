//! `cargo xtask lab`: guests with kernels and devices that this machine does not have, and cases with known results.
//!
//! A guest sees this machine's files and the new build of the program, and writes only into a private directory. One
//! guest runs many cases in sequence, and several guests run in parallel. They end with their owner, and leave nothing.

mod case;
mod cuts;
mod guest;
mod kernels;
mod record;
mod replay;
mod supplies;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use model::disturbance::Disturbance;
use tempfile::TempDir;

use crate::Usage;
use case::Answer;
use guest::Guest;
pub use supplies::program;
use supplies::{KERNELS, Kernel, Supplies};

pub use case::Case;
pub use guest::probe;

const USAGE: &str = "use `lab [--long] [--runs N] [--only NAME] [--kernel VERSION] [--keep DIR]`, `lab cuts N \
     [--kernel VERSION]`, `lab run FILE [--kernel VERSION] [--keep DIR]`, `lab kernels` or `lab record [--only NAME] [--kernel \
     VERSION] [--keep DIR]`";
/// Power cuts of a campaign, and of a long one.
const CUTS: u32 = 4;
const CUTS_LONG: u32 = 60;
/// Flushes of a log after which a disk is checked, and of a long one.
const POINTS: usize = 4;
const POINTS_LONG: usize = 40;

/// All files of cases: title and text.
const FILES: &[(&str, &str)] = &[
    ("Limits of cgroup v2", include_str!("../lab/cgroup.toml")),
    ("Devices", include_str!("../lab/devices.toml")),
    ("Devices as targets", include_str!("../lab/given.toml")),
    ("Erased devices", include_str!("../lab/erase.toml")),
    ("NFS", include_str!("../lab/nfs.toml")),
    ("several clients", include_str!("../lab/fleets.toml")),
];
/// Guests that run side by side. A guest waits for most of the time, and uses about 0.3 of a CPU.
const GUESTS: usize = 3;
/// Most cases that one guest runs alone.
const CASES_ALONE_MAX: usize = 8;
/// Longest time of a guest around the run of a case.
const OVERHEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time that a guest takes to start.
const BOOT: Duration = Duration::from_secs(120);

/// Start of the names of directories that go with their owner; the number of its process follows.
const SCRATCH: &str = "scratch.";

/// Directory of kernels, programs and guests.
fn directory() -> PathBuf {
    crate::target_directory().join("lab")
}

/// Answer of a case in a guest.
#[derive(Debug)]
pub struct CaseResult {
    /// Name of the case.
    pub case: String,
    /// Words of skye.
    pub verdicts: String,
    /// Differences from the known answer; none if it is right.
    pub wrong: Vec<String>,
    /// Directory where its files are kept.
    pub kept: Option<PathBuf>,
}

/// Returns the cases that skye's end-to-end tests run.
///
/// # Errors
/// A file of cases is invalid.
pub fn short() -> Result<Vec<Case>> {
    Ok(all()?.into_iter().filter(|case| case.is_short).collect())
}

/// Boots guests of the usual kernel, runs the cases there, and returns what was said. `keep` is a directory for their
/// files.
///
/// # Errors
/// No guest can run here, or it did not come to its end.
pub fn run_cases(cases: &[Case], program: &Path, keep: Option<&Path>) -> Result<Vec<CaseResult>> {
    Ok(run(&KERNELS[0], cases, program, keep)?.0)
}

fn all() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (title, text) in FILES {
        cases.extend(Case::read(text).with_context(|| format!("cases of {title}"))?);
    }
    Ok(cases)
}

fn run(
    kernel: &Kernel,
    cases: &[Case],
    program: &Path,
    keep: Option<&Path>,
) -> Result<(Vec<CaseResult>, Disturbance)> {
    let cases: Vec<_> = cases.iter().filter(|case| case.runs_on(kernel.version)).collect();
    let mut supplies = Supplies::load(kernel)?;
    let packages: BTreeSet<&str> = cases.iter().flat_map(|case| &case.packages).map(String::as_str).collect();
    supplies.add(&packages.into_iter().collect::<Vec<_>>())?;
    let guests = if cases.len() > CASES_ALONE_MAX { GUESTS } else { 1 };
    let before = Load::now()?;
    let results = thread::scope(|scope| {
        let part = |number: usize| cases.iter().skip(number).step_by(guests).copied().collect::<Vec<_>>();
        let supplies = &supplies;
        let start = |number: usize| {
            let part = part(number);
            scope.spawn(move || in_guest(supplies, kernel.version, &part, program, keep))
        };
        let started: Vec<_> = (0..guests).map(start).collect();
        let ended = started
            .into_iter()
            .map(|guest| guest.join().map_err(|_| anyhow!("a guest's thread has panicked"))?);
        ended.collect::<Result<Vec<_>>>()
    })?;
    let disturbance = Load::now()?.since(&before);
    let mut results: Vec<_> = results.into_iter().map(Vec::into_iter).collect();
    let in_order = (0..cases.len()).filter_map(|number| results[number % guests].next());
    Ok((in_order.collect(), disturbance))
}

/// Runs cases in one guest.
fn in_guest(
    supplies: &Supplies,
    version: &str,
    cases: &[&Case],
    program: &Path,
    keep: Option<&Path>,
) -> Result<Vec<CaseResult>> {
    let disks = scratch()?;
    let guest = Guest::boot(supplies, disks.path(), &case::script(), |shared| {
        put(program, shared)?;
        fs::write(shared.join("functions"), case::FUNCTIONS)?;
        cases.iter().enumerate().try_for_each(|(number, case)| case.write(&place(shared, number)))
    })?;
    let runs = cases.iter().map(|case| Duration::from_secs(case.seconds.into()) + OVERHEAD_TIMEOUT);
    let ended = guest.wait(BOOT + runs.sum::<Duration>())?;
    let results = cases.iter().enumerate().map(|(number, case)| {
        let place = place(&ended.path().join("lab"), number);
        let kept = keep.map(|keep| keep.join(format!("{}-{version}", case.name)));
        if let Some(kept) = &kept {
            let mut copy = Command::new("cp");
            supplies::run(copy.args(["--recursive", "--no-target-directory"]).arg(&place).arg(kept))?;
        }
        let Answer { verdicts, wrong } = case.judge(&place);
        Ok(CaseResult { case: case.name.clone(), verdicts, wrong, kept })
    });
    results.collect()
}

/// Time that this machine's CPUs have spent, in the kernel's ticks.
#[derive(Debug)]
struct Load {
    /// With programs, in the kernel, and with nothing to do.
    all: f64,
    /// With programs and in the kernel.
    busy: f64,
    /// Taken by the hypervisor.
    stolen: f64,
    /// By all children of this process that have ended.
    own: f64,
}

impl Load {
    fn now() -> Result<Self> {
        let numbers = |text: &str| text.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<f64>>();
        let stat = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        let cpus = numbers(stat.lines().next().unwrap_or_default());
        let own = fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
        // Behind the name come a letter and numbers: times of children are the 13th and 14th (proc_pid_stat(5)).
        let own = numbers(own.rsplit(')').next().unwrap_or_default());
        ensure!(cpus.len() >= 8 && own.len() >= 14, "unknown form of /proc/stat or /proc/self/stat");
        // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
        Ok(Self {
            all: cpus[..8].iter().sum(),
            busy: cpus[..3].iter().sum(),
            stolen: cpus[7],
            own: own[12] + own[13],
        })
    }

    fn since(&self, before: &Self) -> Disturbance {
        let cpus = thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let all = (self.all - before.all).max(1.0);
        let others = (self.busy - before.busy) - (self.own - before.own);
        Disturbance {
            foreign_cpus: cpus * others.max(0.0) / all,
            steal: (self.stolen - before.stolen) / all,
            ..Disturbance::default()
        }
    }
}

/// Returns a new directory that goes with its owner. Removes those of owners that were killed.
fn scratch() -> Result<TempDir> {
    let home = directory();
    fs::create_dir_all(&home).with_context(|| format!("make {}", home.display()))?;
    for entry in fs::read_dir(&home).with_context(|| format!("read {}", home.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(SCRATCH).and_then(|rest| rest.split('.').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            // Another process may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{SCRATCH}{}.", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(&home).context("create a directory")
}

/// Puts the program where a guest finds it.
fn put(program: &Path, shared: &Path) -> Result<()> {
    let copied = fs::copy(program, shared.join("skye"));
    copied.map(drop).with_context(|| format!("copy {}", program.display()))
}

fn place(shared: &Path, number: usize) -> PathBuf {
    shared.join(format!("{number:03}"))
}

/// Requested cases.
#[derive(Debug)]
struct LabOptions<'a> {
    file: Option<&'a str>,
    cuts: Option<u32>,
    is_long: bool,
    runs: u32,
    only: Vec<&'a str>,
    keep: Option<&'a Path>,
    kernels: Vec<Kernel>,
}

impl<'a> LabOptions<'a> {
    fn parse(words: &'a [String]) -> Result<Self> {
        let mut options = Self {
            file: None,
            cuts: None,
            is_long: false,
            runs: 1,
            only: Vec::new(),
            keep: None,
            kernels: Vec::new(),
        };
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Usage(USAGE.into()));
            match word {
                "run" => options.file = Some(value()?),
                "cuts" => options.cuts = Some(value()?.parse().map_err(|_| Usage(USAGE.into()))?),
                "--long" => options.is_long = true,
                "--runs" => options.runs = value()?.parse().map_err(|_| Usage(USAGE.into()))?,
                "--only" => options.only.push(value()?),
                "--keep" => options.keep = Some(Path::new(value()?)),
                "--kernel" => {
                    let version = value()?;
                    let found = KERNELS.iter().find(|kernel| kernel.version == version);
                    options
                        .kernels
                        .push(*found.ok_or_else(|| Usage(format!("no kernel {version}; {USAGE}")))?);
                }
                _ => return Err(Usage(USAGE.into()).into()),
            }
        }
        if options.kernels.is_empty() {
            options.kernels = if options.is_long { KERNELS.to_vec() } else { vec![KERNELS[0]] };
        }
        Ok(options)
    }

    fn cases(&self) -> Result<Vec<Case>> {
        let all = match self.file {
            Some(path) => Case::read(&fs::read_to_string(path).with_context(|| format!("read {path}"))?)?,
            None => all()?,
        };
        let is_wanted = |case: &Case| match self.only.is_empty() {
            true => case.is_short || self.is_long || self.file.is_some(),
            false => self.only.contains(&case.name.as_str()),
        };
        let cases: Vec<_> = all.into_iter().filter(is_wanted).collect();
        ensure!(!cases.is_empty(), "no such case");
        Ok(cases)
    }
}

/// Runs the command. Returns true if every answer was right.
///
/// # Errors
/// The command line is not understood, or no guest can run here.
pub fn command(arguments: &[String]) -> Result<bool> {
    if let Some((_, rest)) = arguments.split_first().filter(|(word, _)| *word == "record") {
        return record::command(rest);
    }
    if arguments == ["kernels"] {
        return kernels::command(&crate::release("skye")?);
    }
    let options = LabOptions::parse(arguments)?;
    let program = crate::release("skye")?;
    let mut is_good = true;
    if options.cuts.is_none() {
        is_good &= known_answers(&options, &program)?;
    }
    let is_whole = options.file.is_none() && options.only.is_empty();
    let usual = if options.is_long { CUTS_LONG } else { CUTS };
    if let Some(count) = options.cuts.or(is_whole.then_some(usual)) {
        let points = if options.is_long { POINTS_LONG } else { POINTS };
        for kernel in &options.kernels {
            let campaigns = [
                ("killed", cuts::run(kernel, &program, count)?),
                ("logged", cuts::replay(kernel, &program, points)?),
            ];
            for (way, found) in campaigns {
                let (cuts, blocks, saved) = (found.cuts, found.blocks, found.saved);
                println!(
                    "{:<5} {way}: {cuts} cuts, {blocks} acknowledged blocks, {saved} saved runs",
                    kernel.version
                );
                found.wrong.iter().for_each(|one| println!("      {one}"));
                is_good &= found.wrong.is_empty() && cuts > 0 && (blocks > 0 || way == "logged");
            }
        }
    }
    Ok(is_good)
}

/// Runs cases, and prints what was said. Returns true if all of it was right.
fn known_answers(options: &LabOptions<'_>, program: &Path) -> Result<bool> {
    let cases = options.cases()?;
    let keep =
        options.keep.map(std::path::absolute).transpose().context("find the directory to keep results in")?;
    if let Some(keep) = &keep {
        fs::create_dir_all(keep).with_context(|| format!("make {}", keep.display()))?;
    }
    let (mut right, mut total) = (0, 0);
    for kernel in &options.kernels {
        for _ in 0..options.runs {
            let (results, disturbance) = run(kernel, &cases, program, keep.as_deref())?;
            if !disturbance.is_quiet() {
                println!("{disturbance}");
            }
            for CaseResult { case, verdicts, wrong, .. } in results {
                total += 1;
                right += u32::from(wrong.is_empty());
                let answer = if wrong.is_empty() { "right" } else { "WRONG" };
                println!("{:<5} {case:<24} {answer} {verdicts}", kernel.version);
                wrong.iter().for_each(|one| println!("      {one}"));
            }
        }
    }
    println!("{right} of {total} right");
    Ok(right == total)
}
