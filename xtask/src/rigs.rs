//! `cargo xtask rigs`: lists rigs, undoes those that were killed, and checks that limiters are named right on all of
//! them. It also checks that two devices of different speed are found to differ by as much.

pub mod random;
mod turns;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use model::selftest::{Outcome, Score, SelfTest, TestResult, Truth};

use self::random::{Exam, Part, Purpose};
use crate::Usage;
use crate::capability::OTHER_USER;

/// Share of the answers that must be right.
const RIGHT: f64 = 0.95;
/// Share of the limiters named right that must be confirmed.
const CONFIRMED: f64 = 0.70;
/// Share of the answers that may be not clear.
const NOT_CLEAR: f64 = 0.10;
/// Largest deviation of a rate from the one that was built in.
const DEVIATION_MAX: f64 = 0.01;
/// Largest median of these deviations.
const OFF_MEDIAN: f64 = 0.003;

const USAGE: &str = "use `rigs --list`, `rigs --clean`, `rigs --turns N`, `rigs --random N [--seed S] [--part P] [--keep|--labels|--counters]`, `rigs \
     --random N --guests [--seed S] [--keep]` or \
     `rigs --runs N [--load] [--as-nobody] [--only NAME]… [--json FILE]`";

/// Runs the command. Returns true if nothing is left that should be gone, and all goals are reached.
///
/// # Errors
/// The command line is not understood, or the program cannot be built or run.
pub fn command(arguments: &[String]) -> Result<bool> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => {
            list();
            Ok(true)
        }
        ["--clean"] => Ok(clean()),
        ["--turns", count] => turns::runs(number(count)?),
        ["--random", count, ref words @ ..] => exam(number(count)?, words)?.run(),
        ref words => runs(&SelfTestOptions::parse(words)?),
    }
}

fn exam(count: u64, words: &[&str]) -> Result<Exam> {
    let mut exam = Exam { count, ..Exam::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| Usage(USAGE.into()));
        match *word {
            "--seed" => exam.seed = Some(number(value()?)?),
            "--part" => {
                let name = value()?;
                let part = Part::from_word(name);
                let words = Part::ALL.iter().map(|part| part.word()).collect::<Vec<_>>().join(", ");
                exam.part = Some(part.with_context(|| format!("no part `{name}`; the parts are {words}"))?);
            }
            "--keep" => exam.purpose = Purpose::Keep,
            "--labels" => exam.purpose = Purpose::Label,
            "--counters" => exam.purpose = Purpose::Counters,
            "--guests" => exam.is_in_guests = true,
            _ => bail!(Usage(USAGE.into())),
        }
    }
    if exam.is_in_guests
        && (exam.part.is_some() || matches!(exam.purpose, Purpose::Label | Purpose::Counters))
    {
        bail!(Usage(USAGE.into()));
    }
    Ok(exam)
}

fn number<T: FromStr>(word: &str) -> Result<T> {
    Ok(word.parse().map_err(|_| Usage(USAGE.into()))?)
}

fn list() {
    let journals = rig::list();
    for journal in &journals {
        let state = if rig::is_live(journal) { "in use" } else { "killed: remove it with rigs --clean" };
        println!("{} ({state})", journal.display());
        for step in rig::steps(journal) {
            println!("  {step}");
        }
    }
    if journals.is_empty() {
        println!("no rigs");
    }
}

/// Undoes the remains of rigs that were killed, and reports them. Returns true if nothing is left.
pub(crate) fn clean() -> bool {
    let cleaned = rig::clean();
    for one in &cleaned {
        println!("{}", one.journal.display());
        for undone in &one.undone {
            println!("  undone: {undone}");
        }
        for left in &one.leftovers {
            println!("  left:   {left}");
        }
    }
    if cleaned.is_empty() {
        println!("nothing to clean up");
    }
    cleaned.iter().all(|one| one.leftovers.is_empty())
}

/// Requested selftests.
#[derive(Debug, Default)]
struct SelfTestOptions<'a> {
    runs: u32,
    has_load: bool,
    is_unprivileged: bool,
    only: Vec<&'a str>,
    json: Option<&'a str>,
}

impl<'a> SelfTestOptions<'a> {
    fn parse(words: &[&'a str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().ok_or_else(|| Usage(USAGE.into()));
            match *word {
                "--runs" => options.runs = value()?.parse().map_err(|_| Usage(USAGE.into()))?,
                "--load" => options.has_load = true,
                "--as-nobody" => options.is_unprivileged = true,
                "--only" => options.only.push(value()?),
                "--json" => options.json = Some(value()?),
                _ => bail!(Usage(USAGE.into())),
            }
        }
        ensure!(options.runs > 0, Usage(USAGE.into()));
        Ok(options)
    }
}

/// Runs selftests of the program as users build it, and prints their score.
fn runs(options: &SelfTestOptions<'_>) -> Result<bool> {
    let built = crate::release("skye")?;
    let reachable = tempfile::Builder::new().prefix("skye-rigs.").tempdir().context("create a directory")?;
    let binary = if options.is_unprivileged { copy_for_all(&built, reachable.path())? } else { built };
    let mut selftests = Vec::new();
    for number in 1..=options.runs {
        let selftest = run(&binary, options)?;
        println!("run {number} of {}: {}", options.runs, score_text(&selftest.score));
        for missing in &selftest.missing {
            println!("  no result: {}: {}", missing.case, missing.reason);
        }
        selftest.answers.iter().filter(|answer| answer.outcome != Outcome::Right).for_each(print_answer);
        selftests.push(selftest);
        if let Some(path) = options.json {
            fs::write(path, serde_json::to_string_pretty(&selftests)?)
                .with_context(|| format!("write {path}"))?;
        }
    }
    let score = Score::from_results(selftests.iter().flat_map(|selftest| &selftest.answers));
    println!("\nall {}: {}", options.runs, score_text(&score));
    // A case without an answer proves nothing, and nothing may be left behind.
    let is_whole = selftests.iter().all(|selftest| selftest.missing.is_empty() && selftest.left.is_empty());
    Ok(is_good(&score, options.has_load) && is_whole)
}

fn run(binary: &Path, options: &SelfTestOptions<'_>) -> Result<SelfTest> {
    let mut command = Command::new(binary);
    command.args(["selftest", "--json", "-"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    if options.has_load {
        command.arg("--load");
    }
    if options.is_unprivileged {
        command.args(["--measure-as", &OTHER_USER.to_string()]);
    }
    options.only.iter().for_each(|name| {
        command.args(["--only", name]);
    });
    let output = command.output().context("run the selftest")?;
    // The exit code of a wrong answer is no error here: wrong answers are counted.
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the selftest exited with {} and no document", output.status))
}

/// Makes a copy that everybody can run.
fn copy_for_all(binary: &Path, directory: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let copy = directory.join("skye");
    fs::copy(binary, &copy).context("copy the program")?;
    for path in [directory, &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .context("make it executable for other users")?;
    }
    Ok(copy)
}

fn score_text(score: &Score) -> String {
    let Score {
        tests,
        right,
        named,
        confirmed,
        not_clear,
        wrong,
        wrong_confirmed,
        rates,
        median_deviation,
        max_deviation,
    } = *score;
    let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.2} %", share * 100.0));
    format!(
        "{right} of {tests} right, {confirmed} of {named} limiters confirmed, {not_clear} not clear, {wrong} wrong \
         ({wrong_confirmed} confirmed); {rates} rates, median error {}, maximum {}",
        percent(median_deviation),
        percent(max_deviation)
    )
}

/// Prints an answer that is not right, and its evidence.
fn print_answer(answer: &TestResult) {
    let right = match &answer.truth {
        Truth::Limiters(right) => right.iter().map(|limiter| limiter.code()).collect::<Vec<_>>().join(" or "),
        Truth::Reason(reason) => reason.clone(),
    };
    let found = answer.limiter.map_or("nothing", |limiter| limiter.code());
    println!("  {} {}: {found} ({:?}), not {right}", answer.case, answer.spec, answer.confidence);
    if let Some(evidence) = answer.verdict.as_ref().and_then(|verdict| verdict.evidence.as_ref()) {
        println!("    {}", serde_json::to_string(evidence).unwrap_or_default());
    }
}

/// True if the goals are reached. With other load, the only goal is that no wrong answer was confirmed.
fn is_good(score: &Score, has_load: bool) -> bool {
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1));
    let is_exact = score.max_deviation.is_none_or(|off| off <= DEVIATION_MAX)
        && score.median_deviation.is_none_or(|off| off <= OFF_MEDIAN);
    score.tests > 0
        && score.wrong_confirmed == 0
        && (has_load
            || (share(score.right, score.tests) >= RIGHT
                && share(score.confirmed, score.named) >= CONFIRMED
                && share(score.not_clear, score.tests) <= NOT_CLEAR
                && is_exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selftest_options_are_parsed_or_refused() {
        let options = SelfTestOptions::parse(&["--runs", "3", "--load", "--only", "link"]).unwrap();
        assert_eq!((options.runs, options.has_load, options.is_unprivileged), (3, true, false));
        assert_eq!(options.only, ["link"]);
        for words in [&["--runs"][..], &["--runs", "x"], &["--load"], &["--runs", "1", "now"]] {
            assert!(SelfTestOptions::parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn exam_options_are_parsed_or_refused() {
        let wanted = exam(3, &["--seed", "7", "--part", "full queue", "--keep"]).unwrap();
        let (seed, part, purpose) = (Some(7), Some(Part::Window), Purpose::Keep);
        assert_eq!(wanted, Exam { count: 3, seed, part, purpose, is_in_guests: false });
        assert!(exam(3, &["--guests"]).unwrap().is_in_guests);
        for words in
            [&["--seed"][..], &["--seed", "x"], &["--part", "disk"], &["now"], &["--guests", "--labels"]]
        {
            assert!(exam(1, words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn selftest_score_below_goal_is_rejected() {
        let score = |right, confirmed, wrong_confirmed| Score {
            tests: 100,
            right,
            named: right,
            confirmed,
            wrong_confirmed,
            ..Score::default()
        };
        assert!(is_good(&score(95, 70, 0), false));
        assert!(!is_good(&score(94, 70, 0), false));
        assert!(!is_good(&score(95, 60, 0), false));
        assert!(!is_good(&score(95, 70, 1), false));
        assert!(is_good(&score(50, 0, 0), true));
        assert!(!is_good(&score(99, 90, 1), true));
        assert!(!is_good(&Score::default(), true));
        assert!(!is_good(&Score { max_deviation: Some(0.011), ..score(99, 90, 0) }, false));
    }
}
