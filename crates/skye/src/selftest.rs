//! `skye selftest`: measures devices with known limits, and checks that this program reports them.
//!
//! `skye run` measures, in its own process. It gets a directory and tests, and nothing else.

mod measured;

use std::time::Instant;

use model::selftest::{Missing, SCHEMA, Score, SelfTest, TestResult};
use model::{nearest, numbers};
use observe::Root;
use report::text;
use rig::CleanOutcome;
use rig::cases::{self, Case};

use self::measured::{Bench, CaseOutcome};
use crate::CommandResult;
use crate::cli::SelfTestArguments;
use crate::exit::{self, Failure};
use crate::live_view::LiveView;
use crate::signals::Interruption;
use crate::{outputs, terminal};

/// `skye selftest`
pub fn selftest(arguments: &SelfTestArguments) -> CommandResult {
    if arguments.clean {
        return clean();
    }
    let machine = observe::machine(&Root::system());
    let cases = chosen(&arguments.only, machine.cpus)?;
    let style = terminal::style();
    if arguments.list {
        let lines: Vec<_> = cases.iter().map(|case| case_line(case, &style)).collect();
        terminal::print_line(&lines.join("\n"))?;
        return Ok(exit::DONE);
    }
    if let Some(path) = &arguments.json {
        outputs::check(path)?;
    }
    let interruption = Interruption::catch()?;
    for cleaned in undone() {
        report_cleanup(&cleaned, |line| terminal::message("skye", line));
    }
    let mut selftest = SelfTest {
        schema: SCHEMA.into(),
        skye_version: env!("CARGO_PKG_VERSION").into(),
        started_at: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        kernel: machine.kernel,
        cpus: machine.cpus,
        is_root: machine.is_root,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
        cases: cases.len() as u32,
        answers: Vec::new(),
        missing: Vec::new(),
        left: Vec::new(),
        score: Score::default(),
        elapsed_ns: 0,
    };
    let bench = Bench::new(machine.is_root, machine.cpus, arguments, interruption.clone())?;
    let mut output = Output {
        style,
        shows_text: !arguments.json.as_deref().is_some_and(outputs::is_stdout),
        has_file: arguments.json.is_some(),
        result: Ok(()),
    };
    if output.shows_text {
        terminal::print_line(&text::selftest::title(&selftest, &style))?;
    }
    // The order differs each time: what one case leaves behind must not always meet the same case.
    let mut order: Vec<&Case> = cases.iter().collect();
    fastrand::Rng::with_seed(selftest.seed).shuffle(&mut order);
    let started = Instant::now();
    measure_cases(&order, &bench, &interruption, &mut selftest, &mut output);
    in_order(&mut selftest, &cases);
    selftest.score = Score::from_results(&selftest.answers);
    selftest.elapsed_ns = started.elapsed().as_nanos() as u64;
    output.print(&text::selftest::summary(&selftest, &style));
    if let Some(path) = &arguments.json {
        outputs::write(path, report::json::write_selftest(&selftest))?;
    }
    output.result?;
    Ok(interruption.exit_code().unwrap_or_else(|| code(&selftest)))
}

/// Text on stdout, as long as it is read.
struct Output {
    style: text::Style,
    shows_text: bool,
    /// True if the results also go to a file, which is written even if stdout is closed.
    has_file: bool,
    /// Result of the last line.
    result: Result<(), Failure>,
}

impl Output {
    fn print(&mut self, text: &str) {
        if self.shows_text {
            self.result = terminal::print_line(text);
            self.shows_text = self.result.is_ok();
        }
    }

    /// Returns true if no user gets the results.
    fn is_useless(&self) -> bool {
        self.result.is_err() && !self.has_file
    }
}

/// Measures the cases, and shows the answers of each. After a signal, the other cases are missing.
fn measure_cases(
    order: &[&Case],
    bench: &Bench<'_>,
    interruption: &Interruption,
    selftest: &mut SelfTest,
    output: &mut Output,
) {
    let view = LiveView::new(false);
    for (index, case) in order.iter().enumerate() {
        view.preparing(&format!("{} of {}  {}: {}", index + 1, order.len(), case.name, case.injected_limit));
        let ended = bench.measure(case);
        selftest.left.extend(ended.left);
        match ended.measured {
            CaseOutcome::Answered(answers) => {
                output.print(&text::selftest::case(&answers, &output.style));
                selftest.answers.extend(answers);
            }
            CaseOutcome::Missing(missing) => selftest.missing.push(missing),
            CaseOutcome::Interrupted => {
                let reason = format!("it was ended by {}", interruption.name());
                selftest.missing.extend(order[index..].iter().map(|case| Missing {
                    case: case.name.into(),
                    injected_limit: case.injected_limit.into(),
                    reason: reason.clone(),
                    is_failure: false,
                }));
                break;
            }
        }
        if output.is_useless() {
            break;
        }
    }
    terminal::remove_live();
}

/// Returns the exit code. A failed case, or one that left something, is worse than a wrong name. No answers at all are
/// a failure, too.
fn code(selftest: &SelfTest) -> u8 {
    let has_failed = selftest.missing.iter().any(|missing| missing.is_failure);
    if has_failed || !selftest.left.is_empty() || selftest.score.tests == 0 {
        exit::FAILED
    } else if selftest.score.right < selftest.score.tests {
        exit::INVALID
    } else {
        exit::DONE
    }
}

/// Sorts the results as the cases are listed, whatever order they were measured in.
fn in_order(selftest: &mut SelfTest, cases: &[Case]) {
    let place = |name: &str| cases.iter().position(|case| case.name == name).unwrap_or(usize::MAX);
    selftest.answers.sort_by_cached_key(|TestResult { case, .. }| place(case));
    selftest.missing.sort_by_cached_key(|Missing { case, .. }| place(case));
}

/// Returns the cases of these names; all of them if there are no names.
///
/// # Errors
/// A name belongs to no case.
fn chosen(names: &[String], cpus: u32) -> Result<Vec<Case>, Failure> {
    let all = cases::all(cpus);
    for name in names {
        if !all.iter().any(|case| case.name == name) {
            let hint = match nearest(name, all.iter().map(|case| case.name)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "skye selftest --list lists all".to_owned(),
            };
            return Err(Failure::Refused(format!("cannot measure `{name}`: it is not a case; {hint}")));
        }
    }
    let is_meant = |case: &Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(all.into_iter().filter(is_meant).collect())
}

fn case_line(case: &Case, style: &text::Style) -> String {
    let tests: Vec<_> = case.tests.iter().map(|known| (known.spec.as_str(), &known.truth)).collect();
    text::selftest::case_listing(
        &text::selftest::CaseListing {
            name: case.name,
            injected_limit: case.injected_limit,
            needs: &case.needs(),
            changes: &case.changes(),
            tests: &tests,
            why: case.why,
        },
        style,
    )
}

/// Undoes what killed selftests have left.
fn undone() -> Vec<CleanOutcome> {
    for journal in rig::abandoned() {
        rig::plain_directories(&journal).iter().for_each(|directory| measured::clear(directory));
    }
    rig::clean()
}

fn clean() -> CommandResult {
    let cleaned = undone();
    let mut lines = Vec::new();
    cleaned.iter().for_each(|one| report_cleanup(one, |line| lines.push(line.to_owned())));
    if lines.is_empty() {
        lines.push("nothing to clean up".to_owned());
    }
    terminal::print_line(&lines.join("\n"))?;
    let is_all = cleaned.iter().all(|one| one.leftovers.is_empty());
    Ok(if is_all { exit::DONE } else { exit::FAILED })
}

/// Says what became of a killed selftest, line by line.
fn report_cleanup(cleaned: &CleanOutcome, mut print: impl FnMut(&str)) {
    let journal = cleaned.journal.display();
    if !cleaned.undone.is_empty() {
        let count = numbers::thousands(cleaned.undone.len() as u64);
        print(&format!("cleaned up after a killed selftest: {count} steps of {journal}"));
    }
    cleaned.leftovers.iter().for_each(|left| print(&format!("not removed: {left}; see {journal}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_case_suggests_nearest() {
        let refused = |name: &str| match chosen(&[name.to_owned()], 2) {
            Err(Failure::Refused(message)) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            refused("iops-cpa"),
            "cannot measure `iops-cpa`: it is not a case; did you mean `iops-cap`?"
        );
        assert!(refused("zzz").ends_with("skye selftest --list lists all"));
        assert_eq!(chosen(&["link".to_owned()], 2).unwrap().len(), 1);
    }

    #[test]
    fn worst_result_sets_exit_code() {
        let selftest = |tests, right, is_failure: Option<bool>, left: &[&str]| SelfTest {
            schema: SCHEMA.into(),
            skye_version: "0".into(),
            started_at: "2026-11-21T14:03:00.000Z".into(),
            kernel: "Linux".into(),
            cpus: 1,
            is_root: true,
            seed: 1,
            cases: 3,
            answers: Vec::new(),
            missing: is_failure
                .map(|is_failure| Missing { is_failure, ..Missing::default() })
                .into_iter()
                .collect(),
            left: left.iter().map(|left| (*left).to_owned()).collect(),
            score: Score { tests, right, ..Score::default() },
            elapsed_ns: 1,
        };
        assert_eq!(code(&selftest(3, 3, None, &[])), exit::DONE);
        assert_eq!(code(&selftest(3, 3, Some(false), &[])), exit::DONE);
        assert_eq!(code(&selftest(3, 2, None, &[])), exit::INVALID);
        assert_eq!(code(&selftest(3, 2, Some(true), &[])), exit::FAILED);
        assert_eq!(code(&selftest(3, 3, None, &["a loop device"])), exit::FAILED);
        assert_eq!(code(&selftest(0, 0, Some(false), &[])), exit::FAILED);
    }
}
