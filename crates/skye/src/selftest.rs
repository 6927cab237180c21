//! `skye selftest`: devices whose limit is known, measured by this program, and whether it names them.
//!
//! What measures is `skye run`, in a process of its own that is told a directory and tests and nothing else.

mod measured;

use std::time::Instant;

use model::selftest::{Answer, Missing, SCHEMA, Score, SelfTest};
use model::{nearest, numbers};
use observe::Root;
use report::text;
use rig::Cleaned;
use rig::cases::{self, Case};

use self::measured::{Bench, Measured};
use crate::Done;
use crate::cli::SelfTestArguments;
use crate::exit::{self, Failure};
use crate::live_view::LiveView;
use crate::signals::Interruption;
use crate::{outputs, terminal};

/// `skye selftest`
pub fn selftest(arguments: &SelfTestArguments) -> Done {
    if arguments.clean {
        return clean();
    }
    let cases = chosen(&arguments.only)?;
    let style = terminal::style();
    if arguments.list {
        let lines: Vec<_> = cases.iter().map(|case| listed(case, &style)).collect();
        terminal::print_line(&lines.join("\n"))?;
        return Ok(exit::DONE);
    }
    if let Some(path) = &arguments.json {
        outputs::check(path)?;
    }
    let interruption =
        Interruption::catch().map_err(|error| Failure::Failed(format!("cannot catch signals: {error}")))?;
    for cleaned in rig::clean() {
        told(&cleaned, |line| terminal::message("skye", line));
    }
    let machine = observe::machine(&Root::system());
    let mut selftest = SelfTest {
        schema: SCHEMA.into(),
        skye_version: env!("CARGO_PKG_VERSION").into(),
        started_at: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        kernel: machine.kernel,
        cpus: machine.cpus,
        is_root: machine.root,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
        answers: Vec::new(),
        missing: Vec::new(),
        score: Score::default(),
        elapsed_ns: 0,
    };
    let bench = Bench::new(machine.root, machine.cpus, arguments, interruption.clone());
    let shows_text = !arguments.json.as_deref().is_some_and(outputs::is_stdout);
    if shows_text {
        terminal::print_line(&text::selftest::title(&selftest, cases.len(), &style))?;
    }
    // In another order each time: what one leaves behind must not always meet the same one.
    let mut order: Vec<&Case> = cases.iter().collect();
    fastrand::Rng::with_seed(selftest.seed).shuffle(&mut order);
    let started = Instant::now();
    let view = LiveView::new(!shows_text, style);
    for (index, case) in order.iter().enumerate() {
        view.preparing(&format!("{} of {}  {}: {}", index + 1, order.len(), case.name, case.built_in));
        let shown = match bench.measure(case) {
            Measured::Answered(answers) => {
                let shown = text::selftest::case(&answers, &style);
                selftest.answers.extend(answers);
                Some(shown)
            }
            Measured::Missing(missing) => {
                selftest.missing.push(missing);
                None
            }
            Measured::Interrupted => break,
        };
        if let Some(shown) = shown.filter(|_| shows_text) {
            view.above(|| terminal::print_line(&shown))?;
        }
    }
    view.end();
    in_order(&mut selftest, &cases);
    selftest.score = Score::of(&selftest.answers);
    selftest.elapsed_ns = started.elapsed().as_nanos() as u64;
    if shows_text {
        terminal::print_line(&text::selftest::summary(&selftest, &style))?;
    }
    if let Some(path) = &arguments.json {
        outputs::write(path, report::json::write_selftest(&selftest).as_bytes())?;
    }
    Ok(code(&selftest, &interruption))
}

fn code(selftest: &SelfTest, interruption: &Interruption) -> u8 {
    let has_failed = selftest.missing.iter().any(|missing| missing.is_failure);
    match interruption.exit_code() {
        Some(code) => code,
        None if has_failed => exit::FAILED,
        None if selftest.score.wrong > 0 || selftest.score.not_clear > 0 => exit::INVALID,
        None => exit::DONE,
    }
}

/// As they are listed, whatever order they were measured in.
fn in_order(selftest: &mut SelfTest, cases: &[Case]) {
    let place = |name: &str| cases.iter().position(|case| case.name == name);
    selftest.answers.sort_by_key(|Answer { case, .. }| place(case));
    selftest.missing.sort_by_key(|Missing { case, .. }| place(case));
}

/// The cases of these names; all of them if there are none.
///
/// # Errors
/// There is none of a name.
fn chosen(names: &[String]) -> Result<Vec<Case>, Failure> {
    let all = cases::all();
    for name in names {
        if !all.iter().any(|case| case.name == name) {
            let hint = match nearest(name, all.iter().map(|case| case.name)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "skye selftest --list shows all of them".to_owned(),
            };
            return Err(Failure::Refused(format!("cannot measure `{name}`: it is no case; {hint}")));
        }
    }
    let is_meant = |case: &Case| names.is_empty() || names.iter().any(|name| name == case.name);
    Ok(all.into_iter().filter(is_meant).collect())
}

fn listed(case: &Case, style: &text::Style) -> String {
    let tests: Vec<_> = case.tests.iter().map(|known| (known.spec, &known.truth)).collect();
    let needs = if case.needs_root() { "root" } else { "nothing" };
    text::selftest::listed(
        &text::selftest::Listed {
            name: case.name,
            built_in: case.built_in,
            needs,
            changes: &case.changes(),
            tests: &tests,
            why: case.why,
        },
        style,
    )
}

fn clean() -> Done {
    let cleaned = rig::clean();
    let mut lines = Vec::new();
    cleaned.iter().for_each(|one| told(one, |line| lines.push(line.to_owned())));
    if lines.is_empty() {
        lines.push("nothing to undo".to_owned());
    }
    terminal::print_line(&lines.join("\n"))?;
    let is_all = cleaned.iter().all(|one| one.left.is_empty());
    Ok(if is_all { exit::DONE } else { exit::FAILED })
}

/// What became of one that was killed, line by line.
fn told(cleaned: &Cleaned, mut tell: impl FnMut(&str)) {
    let journal = cleaned.journal.display();
    if !cleaned.undone.is_empty() {
        let count = numbers::thousands(cleaned.undone.len() as u64);
        tell(&format!("undone what was left by one that was killed: {count} steps of {journal}"));
    }
    cleaned.left.iter().for_each(|left| tell(&format!("left behind: {left}; see {journal}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_met_with_the_nearest() {
        let refused = |name: &str| match chosen(&[name.to_owned()]) {
            Err(Failure::Refused(message)) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused("iops-cpa"), "cannot measure `iops-cpa`: it is no case; did you mean `iops-cap`?");
        assert!(refused("zzz").ends_with("skye selftest --list shows all of them"));
        assert_eq!(chosen(&["link".to_owned()]).unwrap().len(), 1);
    }
}
