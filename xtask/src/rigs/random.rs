//! `cargo xtask rigs --random N`: the exam. It draws stacks, and finds the bottleneck of each by changing it. Then it
//! compares the bottleneck with the limiter that skye names. `cargo xtask rejudge` repeats this step with kept rows.

mod corpus;
mod grammar;
mod rigs;
mod score;
mod truth;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use model::Run;
use model::json::FromJson;

use self::corpus::Row;
pub(super) use self::grammar::Part;
use self::grammar::Stack;
use self::rigs::Rigs;
use self::score::{Answer, Scores};

/// Requested exam.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Exam {
    /// Number of stacks.
    pub count: u64,
    /// Seed of the first; without one, that of the judge's source, so that its rules cannot be made for the stacks.
    pub seed: Option<u64>,
    /// Bottleneck of at least one load of each stack.
    pub part: Option<Part>,
    /// True if the rows are added to those in the repository.
    pub keeps_rows: bool,
}

impl Exam {
    /// Runs it. Returns true if every stack was built and measured.
    ///
    /// # Errors
    /// The program cannot be built, or the rows cannot be kept.
    pub(super) fn run(&self) -> Result<bool> {
        ensure!(self.count > 0, "use 1 stack or more");
        let binary = crate::release("skye")?;
        let server: [OsString; 2] = [binary.clone().into(), "rig-server".into()];
        let first = self.seed.map_or_else(seed_of_judge, Ok)?;
        let (mut scores, mut failed) = (Scores::default(), 0);
        for seed in first..first + self.count {
            let stack = Stack::draw(seed, self.part);
            match examine(&binary, &server, &stack) {
                Ok((answers, rows)) => {
                    for answer in answers {
                        answer.line(&stack).iter().for_each(|line| println!("{line}"));
                        scores.add(&answer);
                    }
                    if self.keeps_rows {
                        corpus::add(rows)?;
                    }
                }
                Err(error) => {
                    failed += 1;
                    println!("stack {seed}: {error:#}");
                }
            }
        }
        println!("\nseeds {first} to {}\n{}", first + self.count - 1, scores.table());
        Ok(failed == 0)
    }
}

/// Judges the kept rows again, and prints their score.
///
/// # Errors
/// The rows cannot be read.
pub fn rejudge() -> Result<bool> {
    let mut scores = Scores::default();
    for mut row in corpus::read()? {
        judge::rejudge(&mut row.run);
        scores.add(&Answer::from_row(&row).context("a kept row has no test, or an unknown bottleneck")?);
    }
    println!("{}", scores.table());
    Ok(true)
}

/// Returns a seed that changes with each line of the judge.
fn seed_of_judge() -> Result<u64> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "HEAD:crates/judge"]).current_dir(crate::root()).output();
    let hash = String::from_utf8_lossy(&output.context("run git")?.stdout).into_owned();
    let digits = hash.get(..8).context("no tree of crates/judge: choose a --seed")?;
    Ok(u64::from_str_radix(digits, 16)?)
}

/// Builds a stack, finds the truth about each load, and measures it.
fn examine(binary: &Path, server: &[OsString], stack: &Stack) -> Result<(Vec<Answer>, Vec<Row>)> {
    let mut rigs = Rigs::build(server, stack)?;
    let truths: Result<Vec<_>> =
        stack.loads.iter().map(|load| truth::find(&mut rigs, stack, *load)).collect();
    let measured = truths.and_then(|truths| Ok((truths, measured(binary, rigs.path(), stack)?)));
    let finished = rigs.finish();
    let (truths, run) = measured?;
    finished?;
    ensure!(run.phases.len() == stack.loads.len(), "skye measured {} tests", run.phases.len());
    let (mut answers, mut rows) = (Vec::new(), Vec::new());
    for ((load, truth), phase) in stack.loads.iter().zip(truths).zip(&run.phases) {
        let answer = Answer::new(stack, *load, truth, phase);
        rows.extend(answer.sure().map(|truth| Row {
            stack: stack.words(),
            parts: stack.parts().into_iter().map(|part| part.word().to_owned()).collect(),
            truth: truth.word().to_owned(),
            right: stack.right_limiters(truth).to_vec(),
            run: corpus::cut(&run, phase),
        }));
        answers.push(answer);
    }
    Ok((answers, rows))
}

fn measured(binary: &Path, path: &Path, stack: &Stack) -> Result<Run> {
    let mut command = Command::new(binary);
    command.arg("run").arg(path).args([
        "--size",
        "64m",
        "--time",
        "2",
        "--quiet",
        "--no-save",
        "--json",
        "-",
    ]);
    command.args(["--allow", "low-space,busy"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    stack.loads.iter().for_each(|load| {
        command.args(["--test", &load.spec()]);
    });
    let output = command.current_dir("/").output().context("run skye")?;
    Run::from_json(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("skye run exited with {} and no document", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_are_judged_again() {
        for mut row in corpus::read().unwrap() {
            let before = Answer::from_row(&row).unwrap();
            judge::rejudge(&mut row.run);
            let after = Answer::from_row(&row).unwrap();
            assert_eq!(before.sure(), after.sure(), "{}", row.stack);
        }
    }
}
