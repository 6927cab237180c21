//! `cargo xtask test`: every test, the failed ones with a command to run each alone, and the ones that could not run.

mod outcome;
mod program;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::capability::{self, REQUIRE_VARIABLE, SKIPS_VARIABLE, Skip};
use crate::{Usage, packages, rigs};

pub use program::command as run_program;

use outcome::{Outcome, Test};

/// Number of slowest tests that are listed.
const SLOWEST: usize = 20;

/// Requested options.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestOptions<'a> {
    installs_packages: bool,
    /// True if tests have their long size.
    is_long: bool,
    /// Largest number of undecided tests that does not fail the run.
    undecided_max: Option<usize>,
    for_cargo: &'a [String],
}

impl<'a> TestOptions<'a> {
    fn parse(arguments: &'a [String]) -> Result<Self> {
        let (own, for_cargo) = match arguments.iter().position(|word| word == "--") {
            Some(at) => (&arguments[..at], &arguments[at + 1..]),
            None => (arguments, &[][..]),
        };
        let mut options = Self { for_cargo, ..Self::default() };
        let mut own = own.iter();
        while let Some(word) = own.next() {
            match word.as_str() {
                "--install" => options.installs_packages = true,
                "--long" => options.is_long = true,
                "--undecided-max" => {
                    let number = own.next().and_then(|number| number.parse().ok());
                    options.undecided_max =
                        Some(number.ok_or_else(|| Usage("`--undecided-max` needs a number".into()))?);
                }
                _ => return Err(Usage(format!("unknown argument `{word}`")).into()),
            }
        }
        Ok(options)
    }
}

/// Runs the command. Returns true if every test passed, or was listed with a reason why it could not be run or decided.
///
/// # Errors
/// The command line is not understood, or cargo cannot be run.
pub fn command(arguments: &[String]) -> Result<bool> {
    let mut options = TestOptions::parse(arguments)?;
    options.installs_packages |= std::env::var("CI").is_ok_and(|value| value == "true");
    check_required_names(&std::env::var(REQUIRE_VARIABLE).unwrap_or_default())?;
    packages::provide(options.installs_packages);
    if !rig::abandoned().is_empty() {
        println!("left by killed tests:");
        rigs::clean();
    }

    let skips = NamedTempFile::new().context("make a file that lists skipped tests")?;
    let noted = NamedTempFile::new().context("make a file for test programs")?;
    // A target of documentation is no test program: rustdoc runs it in its own way.
    let (runs_doc, runs_programs) = match options.for_cargo {
        [] => (true, true),
        words => {
            let is_doc = words.iter().any(|word| word == "--doc");
            (is_doc, !is_doc)
        }
    };
    let cargo = |words: &[&str]| -> Result<bool> {
        let mut command = Command::new(crate::cargo());
        if options.is_long {
            command.env(crate::LONG_VARIABLE, "1");
            // Without this, `.cargo/config.toml` gives property tests the same cases each time.
            command.env("PROPTEST_RNG_SEED", RandomState::new().hash_one("cases").to_string());
        }
        // With a named package, only that one is tested.
        let names_package =
            options.for_cargo.iter().any(|word| word == "-p" || word.starts_with("--package"));
        let workspace = (!names_package).then_some("--workspace");
        let status = command
            .args(["test", "--no-fail-fast"])
            .args(workspace)
            .args(words)
            .args(options.for_cargo)
            .current_dir(crate::root())
            .env(SKIPS_VARIABLE, skips.path())
            .env(program::PROGRAMS_VARIABLE, noted.path())
            .status()
            .context("run cargo test")?;
        Ok(status.success())
    };
    let mut is_good = true;
    if runs_programs {
        let runner = runner()?;
        // All targets but documentation; a named target is already among the words for cargo.
        let targets: &[&str] =
            if options.for_cargo.is_empty() { &["--lib", "--bins", "--tests", "--examples"] } else { &[] };
        is_good &= cargo(&[&["--config", &runner], targets].concat())?;
    }
    let programs = program::read(&fs::read_to_string(noted.path()).context("read the test programs")?)?;
    let documentation = || match runs_doc {
        true => cargo(if options.for_cargo.is_empty() { &["--doc", "--quiet"] } else { &[] }),
        false => Ok(true),
    };
    let (tests, is_documented) = program::run_all(&programs, documentation)?;
    is_good &= is_documented;
    let skips = fs::read_to_string(skips.path()).context("read the list of skipped tests")?;
    is_good &= summary(&tests, &skips, &options);
    for journal in rig::abandoned() {
        println!("a test left what {} lists; remove it with `cargo xtask rigs --clean`", journal.display());
        is_good = false;
    }
    Ok(is_good)
}

/// Returns the setting with which cargo hands test programs to [`run_program`].
fn runner() -> Result<String> {
    let own = std::env::current_exe().context("find this program")?;
    let words = [own.display().to_string(), "test-program".into()];
    Ok(format!("target.'cfg(all())'.runner = {}", serde_json::to_string(&words)?))
}

/// Prints the results of all tests. Returns false if they fail the run.
fn summary(tests: &[Test], skips: &str, options: &TestOptions<'_>) -> bool {
    let all = Skip::read_all(skips);
    let of = |is_undecided| all.iter().filter(move |one| one.is_undecided == is_undecided);
    let (skipped, undecided) = (of(false).count(), of(true).count());
    let is = |outcome: Outcome| tests.iter().filter(move |test| test.outcome == outcome);
    println!();
    slowest(tests);
    for one in &all {
        println!("{one}");
    }
    let failed: Vec<_> = is(Outcome::Failed).collect();
    for test in &failed {
        println!("failed: {}", test.command_line());
    }
    let is_too_undecided = options.undecided_max.is_some_and(|max| undecided > max);
    if undecided > 0 {
        let verdict = if is_too_undecided { ", more than allowed: rerun on a quiet machine" } else { "" };
        println!("{undecided} undecided because the machine was busy{verdict}; included in skipped below");
    }
    let not_run = skipped + undecided;
    let passed = is(Outcome::Passed).count().saturating_sub(not_run);
    let long = match is(Outcome::Ignored).count() {
        0 => String::new(),
        count => format!("; {count} more with --long"),
    };
    println!("{passed} passed, {} failed, {not_run} skipped{long}", failed.len());
    failed.is_empty() && !is_too_undecided
}

fn slowest(tests: &[Test]) {
    let mut by_time: Vec<_> = tests.iter().collect();
    by_time.sort_by_key(|test| std::cmp::Reverse(test.took));
    // Times of two or three chosen tests are no news.
    if tests.len() > SLOWEST {
        println!("slowest tests:");
        for test in by_time.iter().take(SLOWEST) {
            println!("  {:6.1} s  {}", test.took.as_secs_f64(), test.full_name());
        }
        let sum: Duration = tests.iter().map(|test| test.took).sum();
        println!("  {:6.1} s  all tests, one after another", sum.as_secs_f64());
    }
}

/// Checks the names in the list: a misspelt requirement would require nothing.
fn check_required_names(list: &str) -> Result<()> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    for word in words {
        if capability::find(word).is_none() && word != capability::QUIET {
            let known = capability::names().join(", ");
            return Err(Usage(format!("{REQUIRE_VARIABLE} contains `{word}`; use {known}, quiet")).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_after_dashes_go_to_cargo() {
        let arguments = words("--install --undecided-max 5 -- --test e2e");
        let options = TestOptions::parse(&arguments).unwrap();
        assert_eq!((options.installs_packages, options.undecided_max), (true, Some(5)));
        assert_eq!(options.for_cargo, words("--test e2e"));
        for wrong in ["--test e2e", "--undecided-max", "--undecided-max many"] {
            assert!(TestOptions::parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn misspelt_requirement_is_refused() {
        assert!(check_required_names("root, loop,quiet,").is_ok());
        let message = format!("{:#}", check_required_names("root,lop").unwrap_err());
        assert!(message.contains("`lop`") && message.contains("root, loop"), "{message}");
    }

    fn test(name: &str, outcome: Outcome) -> Test {
        Test {
            target: "e2e".into(),
            selection: "-p skye --test e2e".into(),
            name: name.into(),
            outcome,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn failures_and_too_many_undecided_tests_fail_the_run() {
        let undecided = |count| -> String {
            (0..count).map(|number| format!("undecided\te2e::t{number}\tothers used 2.0 CPUs\n")).collect()
        };
        let passed: Vec<_> = (0..9).map(|number| test(&format!("t{number}"), Outcome::Passed)).collect();
        let failed = [test("x", Outcome::Failed)];
        let options = |undecided_max| TestOptions { undecided_max, ..TestOptions::default() };
        assert!(summary(&passed, "", &options(Some(0))));
        assert!(summary(&passed, &undecided(5), &options(Some(5))));
        assert!(!summary(&passed, &undecided(6), &options(Some(5))));
        assert!(summary(&passed, &undecided(6), &options(None)));
        assert!(!summary(&failed, "", &options(None)));
    }
}
