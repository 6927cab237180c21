//! `cargo xtask rigs --random N`: the exam. It draws stacks, and finds the bottleneck of each by changing it. Then it
//! compares the bottleneck with the limiter that skye names. `cargo xtask rejudge` repeats this step with kept rows.

mod corpus;
mod counters;
mod grammar;
mod guests;
mod rigs;
mod score;
mod truth;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use model::Run;
use model::json::FromJson;

use self::corpus::{AtServer, Row};
use self::counters::Agreements;
pub(super) use self::grammar::Part;
use self::grammar::{FileState, Load, Stack};
use self::guests::GuestStack;
use self::rigs::Rigs;
use self::score::{Answer, Scores, unsure_line};
use self::truth::Truth;
use super::copy_for_all;
use crate::capability::OTHER_USER;
use crate::hidden;

/// Requested exam.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Exam {
    /// Number of stacks.
    pub count: u64,
    /// Seed of the first; without one, that of the judge's source, so that its rules cannot be made for the stacks.
    pub seed: Option<u64>,
    /// Bottleneck of at least one load of each stack.
    pub part: Option<Part>,
    /// Use of the stacks.
    pub purpose: Purpose,
    /// True if the stacks are in guests.
    pub is_in_guests: bool,
}

/// Use of the stacks of an exam.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Score skye.
    #[default]
    Score,
    /// The same, and the rows are added to those in the repository.
    Keep,
    /// Show the label of each load alone.
    Label,
    /// Compare layers and counters with the stack alone.
    Counters,
    /// Check the exam itself, without skye's experiments.
    Check,
}

impl Exam {
    /// Runs it. Returns true if every stack was built and measured.
    ///
    /// # Errors
    /// The program cannot be built, or the rows cannot be kept.
    pub(super) fn run(&self) -> Result<bool> {
        ensure!(self.count > 0, "use 1 stack or more");
        let reachable =
            tempfile::Builder::new().prefix("skye-exam.").tempdir().context("create a directory")?;
        let binary = copy_for_all(&crate::release("skye")?, reachable.path())?;
        let first = self.seed.map_or_else(seed_of_judge, Ok)?;
        if self.is_in_guests {
            return self.run_in_guests(&binary, first);
        }
        if self.purpose == Purpose::Counters {
            return self.check_counters(&binary, first);
        }
        let (mut scores, mut failed) = (Scores::default(), 0);
        for seed in first..first + self.count {
            let stack = Stack::draw(seed, self.part);
            match examine(&binary, &stack, self.purpose) {
                Ok(rows) => {
                    for (load, truth, row) in &rows {
                        self.report(&stack, *load, truth, row.as_ref(), &mut scores);
                    }
                    if self.purpose == Purpose::Keep {
                        corpus::add(rows.into_iter().filter_map(|(_, _, row)| row).collect())?;
                    }
                }
                Err(error) => {
                    failed += 1;
                    println!("stack {seed}: {}: {error:#}", stack.words());
                }
            }
        }
        println!("\nseeds {first} to {}, {} loads unsure", first + self.count - 1, scores.unsure);
        if self.purpose != Purpose::Label {
            println!("\n{}", scores.tables());
        }
        Ok(failed == 0)
    }

    fn check_counters(&self, binary: &Path, first: u64) -> Result<bool> {
        let (mut all, mut failed) = (Agreements::default(), 0);
        for seed in first..first + self.count {
            let stack = Stack::draw(seed, self.part);
            match compare_counters(binary, &stack) {
                Ok(loads) => loads.into_iter().for_each(|(load, agreements, at_server)| {
                    all += agreements;
                    if !agreements.is_whole() {
                        let at_server = at_server.map_or(String::new(), |at_server| at_server.words());
                        println!(
                            "stack {seed}: {}; {}: {at_server}\n{agreements}",
                            stack.words(),
                            load.spec()
                        );
                    }
                }),
                Err(error) => {
                    failed += 1;
                    println!("stack {seed}: {}: {error:#}", stack.words());
                }
            }
        }
        println!("\nseeds {first} to {}\n\n{all}", first + self.count - 1);
        Ok(failed == 0 && all.is_whole())
    }

    fn run_in_guests(&self, binary: &Path, first: u64) -> Result<bool> {
        let (mut scores, mut failed) = (Scores::default(), 0);
        let stacks: Vec<_> = (first..first + self.count).map(GuestStack::draw).collect();
        let mut kept = Vec::new();
        for (stack, row) in stacks.iter().zip(guests::measure(binary, &stacks)?) {
            let words = stack.words.join(", ");
            match row {
                Ok(row) => {
                    print_and_count(&row, stack.seed, &words, stack.load, &mut scores);
                    kept.push(row);
                }
                Err(error) => {
                    failed += 1;
                    println!("stack {}: {words}: {error:#}", stack.seed);
                }
            }
        }
        if self.purpose == Purpose::Keep {
            corpus::add(kept)?;
        }
        println!("\nseeds {first} to {}\n\n{}", first + self.count - 1, scores.tables());
        Ok(failed == 0)
    }

    /// Prints and counts one load.
    fn report(&self, stack: &Stack, load: Load, truth: &Truth, row: Option<&Row>, scores: &mut Scores) {
        if sure(stack, load, truth).is_none() {
            scores.unsure += 1;
            println!("{}", unsure_line(stack, load, truth));
        } else if self.purpose == Purpose::Label {
            println!("stack {}: {}: {}", stack.seed, load.spec(), truth.part.map_or("", Part::word));
        }
        if let Some(row) = row {
            print_and_count(row, stack.seed, &stack.words(), load, scores);
        }
    }
}

/// Prints a line on a row if it is a miss, and counts it.
fn print_and_count(row: &Row, seed: u64, words: &str, load: Load, scores: &mut Scores) {
    let test = format!("stack {seed}: {words}; {}", load.spec());
    let Some(answer) = row.answer(false) else {
        println!("{test}: the test was not made, so the row is not kept");
        return;
    };
    answer.line(&test).iter().for_each(|line| println!("{line}"));
    scores.add(&answer);
}

/// Builds and measures a stack with one load and this bottleneck. Returns a line if its truth is unsure, or if its verdict is
/// another one when its kept row is judged.
///
/// # Errors
/// There is no such part, or the stack cannot be built or measured.
pub fn faults(binary: &Path, part: &str) -> Result<Vec<String>> {
    let part = Part::from_word(part).with_context(|| format!("no part `{part}`"))?;
    let mut stack = Stack::draw(1, Some(part));
    let loads = stack.loads.iter().copied().filter(|load| stack.predicted(*load) == Some(part));
    stack.loads = loads.take(1).collect();
    let mut faults = Vec::new();
    for (load, truth, row) in examine(binary, &stack, Purpose::Check)? {
        let Some(mut row) = row else {
            faults.push(unsure_line(&stack, load, &truth));
            continue;
        };
        let limiter = |run: &Run| run.phases.first()?.judged.verdict.as_ref()?.limiter;
        let before = limiter(&row.run);
        judge::rejudge(&mut row.run);
        if limiter(&row.run) != before {
            faults.push(format!("{before:?} became {:?}: {}", limiter(&row.run), stack.words()));
        }
    }
    Ok(faults)
}

/// Returns the bottleneck, if prediction and truth agree.
fn sure(stack: &Stack, load: Load, truth: &Truth) -> Option<Part> {
    truth.part.filter(|part| stack.predicted(load) == Some(*part) && truth.is_answered.is_some())
}

/// Judges the kept rows again, and prints their score; with `lists_misses`, also each row that is not right.
///
/// # Errors
/// The rows cannot be read.
pub fn rejudge(lists_misses: bool) -> Result<bool> {
    let mut list = |number: usize, hidden: &str, row: &Row, answer: &Answer| {
        let spec = row.run.phases.first().map_or("", |phase| phase.spec.as_str());
        let test = format!("row {number}{hidden}: {}; {spec}", row.stack);
        answer.line(&test).iter().filter(|_| lists_misses).for_each(|line| println!("{line}"));
    };
    println!("{}", rejudged(&mut list)?.tables());
    Ok(true)
}

/// Returns the page on the exam, with the score of the kept rows.
///
/// # Errors
/// The rows cannot be read.
pub fn page() -> Result<String> {
    Ok([PAGE, &rejudged(&mut |_, _, _, _| {})?.summary()].concat())
}

const PAGE: &str = "# The exam

`cargo xtask rigs --random N` measures N random stacks of storage. At the bottom is a server in memory, a network
link to a server, zram, or an image. Above it are loop devices, file systems, daemons, queues and limits.

- **The bottleneck is found by changing one part at a time** for a second. A change doubles the slots, a limit or a queue, or
  halves the service time. The bottleneck is the part whose relief raises the rate by a quarter or more. No other relief may
  raise the rate by more than 8 %.
- **A cache, a hole or unwritten extents** are the bottleneck if no relief helps, and at most 15 % of the bytes came from
  below. The row must have a mark.
- **A row counts** if this is also the bottleneck that the numbers of the stack predict.
- **Stacks in guests** (`--guests`) have device mapper, md, NBD, NFS and limits of cgroup v2. There, the
  prediction is the bottleneck.
- **Right** is a limiter that belongs to the bottleneck, at any confidence. A limit of a device above hidden
  layers is right, too, unless it is confirmed. The layer that a verdict names is not checked.
- **The last table** judges rows without a part of the run, as in a container. There, a device or server whose limit
  stays open is right.

";

/// Judges the kept rows again, and each without some parts of its run. `visit` gets the number of a row, and the hidden part.
fn rejudged(visit: &mut dyn FnMut(usize, &str, &Row, &Answer)) -> Result<Scores> {
    let mut scores = Scores::default();
    for (number, mut row) in corpus::read()?.into_iter().enumerate() {
        judge::rejudge(&mut row.run);
        let answer = row.answer(false).context("a kept row has no test, or an unknown bottleneck")?;
        visit(number, "", &row, &answer);
        scores.add(&answer);
        scores.add_hidden(score::NOTHING, &row.answer(true).context("a row without an answer")?);
        for (source, hide) in hidden::SOURCES {
            let mut blind = row.clone();
            hide(&mut blind.run);
            judge::rejudge(&mut blind.run);
            let answer = blind.answer(true).context("a kept row has no test, or an unknown bottleneck")?;
            if answer.is_wrong() {
                visit(number, &format!(" without {source}"), &blind, &answer);
            }
            scores.add_hidden(source, &answer);
        }
    }
    Ok(scores)
}

/// Returns a seed that changes with each line of the judge.
fn seed_of_judge() -> Result<u64> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "HEAD:crates/judge"]).current_dir(crate::root()).output();
    let hash = String::from_utf8_lossy(&output.context("run git")?.stdout).into_owned();
    let digits = hash.get(..8).context("no tree of crates/judge: choose a --seed")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

/// Builds a stack, finds the truth about each load, and measures it. There are rows of the loads whose truth is sure.
fn examine(binary: &Path, stack: &Stack, purpose: Purpose) -> Result<Vec<(Load, Truth, Option<Row>)>> {
    let mut rigs = Rigs::build(&[binary.into(), "rig-server".into()], stack)?;
    let rows = examine_built(binary, stack, &mut rigs, purpose);
    let finished = rigs.finish();
    let rows = rows?;
    finished?;
    Ok(rows)
}

/// Builds a stack, measures each load without experiments, and compares layers and counters.
fn compare_counters(binary: &Path, stack: &Stack) -> Result<Vec<(Load, Agreements, Option<AtServer>)>> {
    let rigs = Rigs::build(&[binary.into(), "rig-server".into()], stack)?;
    let path = place(stack, &rigs);
    if stack.state != FileState::Written {
        truth::make_file(&path, stack.state)?;
    }
    let count = |load: &Load| {
        let CountedRun { run, at_server } = CountedRun::new(binary, &path, stack, *load, &rigs)?;
        let layers = &run.environment.target.layers;
        let has_layers = corpus::has_layers(layers, &stack.layers(), stack.is_unprivileged);
        let phase = run.phases.first().context("a run without a test")?;
        let is_alone = stack.answering().is_none() && stack.neighbour.is_none();
        Ok((*load, counters::compare(phase, layers, Some(has_layers), is_alone, at_server), at_server))
    };
    let counts = stack.loads.iter().map(count).collect();
    rigs.finish()?;
    counts
}

/// Returns the path that skye measures.
fn place(stack: &Stack, rigs: &Rigs) -> PathBuf {
    match stack.state {
        FileState::Written => rigs.path().to_owned(),
        FileState::Hole | FileState::Unwritten => rigs.path().join(truth::FILE_NAME),
    }
}

fn examine_built(
    binary: &Path,
    stack: &Stack,
    rigs: &mut Rigs,
    purpose: Purpose,
) -> Result<Vec<(Load, Truth, Option<Row>)>> {
    let mut rows = Vec::new();
    for load in &stack.loads {
        rows.push((*load, truth::find(rigs, stack, *load)?, None));
    }
    if purpose == Purpose::Label || rows.iter().all(|(load, truth, _)| sure(stack, *load, truth).is_none()) {
        return Ok(rows);
    }
    let path = place(stack, rigs);
    // What answers has a server or a disk below it.
    let is_checked = stack.answering().is_some();
    if is_checked {
        rigs.take_served_bytes(true)?;
    }
    let run = measured(binary, &path, stack, &stack.loads, purpose)?;
    ensure!(run.phases.len() == stack.loads.len(), "skye measured {} tests", run.phases.len());
    if let (true, [(load, truth, _)], [phase]) = (is_checked, &mut rows[..], &run.phases[..]) {
        // skye has files of its own, and may empty caches before it reads them.
        let is_answered = Truth::answered(phase.counts.bytes, rigs.take_served_bytes(load.is_read)?);
        if is_answered != truth.is_answered {
            truth.is_answered = None;
        }
    }
    let at_server = match &rows[..] {
        [(load, ..), ..] if !is_checked && purpose != Purpose::Check => {
            CountedRun::new(binary, &path, stack, *load, rigs)?.at_server
        }
        _ => None,
    };
    let at_server = std::iter::once(at_server).chain(std::iter::repeat(None));
    for (((load, truth, row), phase), at_server) in rows.iter_mut().zip(&run.phases).zip(at_server) {
        *row = sure(stack, *load, truth).zip(truth.is_answered).map(|(bottleneck, is_answered)| Row {
            stack: stack.words(),
            parts: stack.part_words(),
            bottleneck: bottleneck.word().to_owned(),
            is_answered,
            layers: stack.layers(),
            at_server,
            run: corpus::cut(&run, phase),
        });
    }
    Ok(rows)
}

/// A load, measured without experiments.
struct CountedRun {
    run: Run,
    /// Requests at the server; `None` if it has no log, or skye may not count.
    at_server: Option<AtServer>,
}

impl CountedRun {
    fn new(binary: &Path, path: &Path, stack: &Stack, load: Load, rigs: &Rigs) -> Result<Self> {
        let has_log = stack.has_log();
        if has_log {
            rigs.take_log()?;
        }
        let run = measured(binary, path, stack, &[load], Purpose::Counters)?;
        let phase = run.phases.first().context("a run without a test")?;
        let log = has_log.then(|| rigs.take_log()).transpose()?;
        let at_server = log.and_then(|log| AtServer::new(&log, phase, &run.environment.target.layers));
        Ok(Self { run, at_server })
    }
}

/// Returns a command that runs a program where the kernel's counters of FUSE are mounted. Otherwise they are not, and it has
/// no right to mount them.
fn with_fusectl(binary: &Path, is_mounted: bool) -> Command {
    const AT: &str = "/sys/fs/fuse/connections";
    // It may be as wanted already.
    let script = match is_mounted {
        true => format!("mount -t fusectl none {AT} 2> /dev/null; exec \"$@\""),
        false => format!("umount {AT} 2> /dev/null; exec setpriv --bounding-set=-sys_admin \"$@\""),
    };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]).arg(binary);
    command
}

fn measured(binary: &Path, path: &Path, stack: &Stack, loads: &[Load], purpose: Purpose) -> Result<Run> {
    let mut command = match stack.has_fusectl {
        Some(has_fusectl) => with_fusectl(binary, has_fusectl),
        None => Command::new(binary),
    };
    // Longer, so that little of the test is outside of the part of the log that is compared.
    let seconds = if purpose == Purpose::Counters { "4" } else { "2" };
    command.arg("run").arg(path).args(["--time", seconds]);
    command.args("--size 64m --quiet --no-save --json -".split(' '));
    command.args(["--allow", "low-space,busy"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    loads.iter().for_each(|load| {
        command.args(["--test", &load.spec()]);
    });
    if matches!(purpose, Purpose::Check | Purpose::Counters) {
        command.arg("--no-probe");
    }
    if stack.is_unprivileged {
        command.uid(OTHER_USER).gid(OTHER_USER);
    }
    let output = command.current_dir("/").output().context("run skye")?;
    Run::from_json(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("skye run exited with {} and no document", output.status))
}
