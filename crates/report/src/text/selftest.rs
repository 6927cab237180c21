//! `skye selftest`: a line for each test on a known device, and the score.

use model::numbers::{amount, duration, percent, thousands};
use model::run::Confidence;
use model::selftest::{Outcome, SelfTest, TestResult, Truth};

use super::columns::Line;
use super::limiter::LIKELY;
use super::style::{BOLD, DIM, GREEN, RED, Style, YELLOW, paint};
use super::wrap::{field, with_units, wrap};

use crate::printable;

/// Columns at which a case begins, its tests begin, and the cells of a test begin or end.
const CASE: usize = 2;
const TEST: usize = 4;
const ANSWER_COLUMN: usize = 42;
const RATE_END: usize = 72;
const OFF_END: usize = 80;
/// Indent of paragraphs in lists.
const INDENT: usize = 4;

/// A case as a list shows it.
#[derive(Debug)]
pub struct CaseListing<'a> {
    /// Name of the case.
    pub name: &'a str,
    /// The limit, in words.
    pub injected_limit: &'a str,
    /// Requirements to build the case.
    pub needs: &'a [String],
    /// Changes to the machine while the case is set up.
    pub changes: &'a [String],
    /// The tests, each with its right answer.
    pub tests: &'a [(&'a str, &'a Truth)],
    /// Why several answers are right.
    pub why: Option<&'a str>,
}

/// The first line: cases, seed, machine and user.
pub fn title(selftest: &SelfTest, style: &Style) -> String {
    let SelfTest { skye_version, seed, kernel, cpus, is_root, cases, .. } = selftest;
    let user = if *is_root { "as root" } else { "not as root: cases that need root are omitted" };
    let cases = if *cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") };
    let head = paint(BOLD, &format!("skye {skye_version} selftest"));
    let kernel = printable(kernel);
    style.finish(format!("{head} · {cases} · seed {seed} · {kernel}, {cpus} CPUs · {user}\n"))
}

/// One case with its tests.
pub fn case(answers: &[TestResult], style: &Style) -> String {
    let Some(first) = answers.first() else { return String::new() };
    let mut lines = vec![format!("{:CASE$}{}: {}", "", first.case, first.injected_limit)];
    lines.extend(answers.iter().map(row));
    style.finish(lines.join("\n"))
}

fn row(answer: &TestResult) -> String {
    let (mark, colour) = match answer.outcome {
        Outcome::Right => (" ", GREEN),
        Outcome::NotClear => ("?", YELLOW),
        Outcome::Wrong => ("!", RED),
    };
    let mut line = Line::default();
    line.put_left(CASE, mark, colour);
    line.put_left(TEST, &answer.spec, anstyle::Style::new());
    line.put_left(ANSWER_COLUMN, &answer_text(answer), colour);
    if answer.outcome == Outcome::Right
        && let (Some(rate), Some(off)) = (answer.ops_per_second, answer.off())
    {
        line.put_right(RATE_END, &format!("{}/s", amount(rate).unwrap_or_default()), anstyle::Style::new());
        line.put_right(OFF_END, &format!("{:+.2} %", off * 100.0), DIM);
    }
    line.finish()
}

/// The answer, and the right one if it differs.
fn answer_text(answer: &TestResult) -> String {
    let likely = if answer.confidence == Some(Confidence::Likely) { LIKELY } else { "" };
    let limiter = answer.limiter.map_or("nothing", |limiter| limiter.title());
    match (answer.outcome, &answer.truth) {
        (Outcome::Right, Truth::Reason(reason)) => format!("marked: {reason}"),
        (Outcome::Right, Truth::Limiters(_)) => format!("{limiter}{likely}"),
        (Outcome::NotClear, truth) => format!("not clear; expected {}", right(truth)),
        (Outcome::Wrong, Truth::Reason(reason)) => format!("not marked as {reason}"),
        (Outcome::Wrong, truth) => format!("{limiter}{likely}; expected {}", right(truth)),
    }
}

fn right(truth: &Truth) -> String {
    match truth {
        Truth::Limiters(limiters) => {
            limiters.iter().map(|limiter| limiter.title()).collect::<Vec<_>>().join(" or ")
        }
        Truth::Reason(reason) => format!("no result ({reason})"),
    }
}

/// The score, and the cases that are missing.
pub fn summary(selftest: &SelfTest, style: &Style) -> String {
    let score = &selftest.score;
    let mut lines = vec![String::new()];
    let right = format!(
        "{} of {} right{}, {} of {} limiters confirmed · {} not clear · {} wrong{}",
        score.right,
        score.tests,
        share(score.right, score.tests),
        score.confirmed,
        score.named,
        score.not_clear,
        score.wrong,
        match score.wrong_confirmed {
            0 => String::new(),
            count => format!(", {count} of these confirmed"),
        }
    );
    lines.push(field("score", &with_units(&right), style));
    if let (Some(median), Some(max)) = (score.median_deviation, score.max_deviation) {
        let rates = format!(
            "{} compared with the built-in ones: median error {}, largest error {}",
            thousands(score.rates.into()),
            at_most(median),
            percent_of(max)
        );
        lines.push(field("rates", &with_units(&rates), style));
    }
    let kinds = [(true, "failed"), (false, "without")];
    for (is_failure, name) in kinds {
        let of_kind = || selftest.missing.iter().filter(|missing| missing.is_failure == is_failure);
        let mut reasons: Vec<&str> = of_kind().map(|missing| missing.reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        // A reason that many cases share is stated once.
        for reason in reasons {
            let names: Vec<_> = of_kind()
                .filter(|missing| missing.reason == reason)
                .map(|missing| missing.case.as_str())
                .collect();
            let text = format!("{}: {}", names.join(", "), printable(reason));
            lines.push(field(name, &with_units(&text), style));
        }
    }
    for left in &selftest.left {
        lines.push(field("left", &printable(left), style));
    }
    lines.push(field("took", &duration(selftest.elapsed_ns), style));
    style.finish(lines.join("\n"))
}

fn share(part: u32, whole: u32) -> String {
    if whole == 0 { String::new() } else { format!(" ({})", percent(f64::from(part) / f64::from(whole))) }
}

fn at_most(share: f64) -> String {
    if share < 1e-4 { "less than 0.01 %".to_owned() } else { format!("{} or less", percent_of(share)) }
}

fn percent_of(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Renders a case for a list: its tests, needs and changes.
pub fn case_listing(case: &CaseListing<'_>, style: &Style) -> String {
    let mut lines = vec![format!("{:CASE$}{}: {}", "", paint(BOLD, case.name), case.injected_limit)];
    for (spec, truth) in case.tests {
        let mut line = Line::default();
        line.put_left(TEST, spec, anstyle::Style::new());
        line.put_left(ANSWER_COLUMN, &right(truth), anstyle::Style::new());
        lines.push(line.finish());
    }
    let why = case.why.map(|why| format!("Several limiters are right: {why}. ")).unwrap_or_default();
    let needs = if case.needs.is_empty() { "nothing".to_owned() } else { case.needs.join(", ") };
    let text = format!("{why}Needs {needs}. Changes: {}.", case.changes.join(", "));
    let wrapped = wrap(&with_units(&text), style.paragraph() - INDENT);
    lines.extend(wrapped.iter().map(|line| paint(DIM, &format!("{:INDENT$}{line}", ""))));
    style.finish(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use model::Limiter;
    use model::selftest::{Missing, SCHEMA, Score};

    use super::*;
    use crate::sample;

    fn answer(
        (case, injected_limit): (&str, &str),
        spec: &str,
        truth: Truth,
        found: Option<(Limiter, Confidence)>,
        rate: Option<(f64, f64)>,
    ) -> TestResult {
        let mut verdict = sample::phase("read:rnd4k").judged.verdict.unwrap();
        (verdict.limiter, verdict.confidence) = found.unzip();
        let marks: Vec<&str> = match (&truth, found) {
            (Truth::Reason(reason), Some(_)) => vec![reason],
            _ => Vec::new(),
        };
        TestResult {
            case: case.into(),
            injected_limit: injected_limit.into(),
            spec: spec.into(),
            outcome: truth.judge(Some(&verdict), &marks),
            truth,
            limiter: verdict.limiter,
            confidence: verdict.confidence,
            ops_per_second: rate.map(|(is, _)| is),
            known_ops_per_second: rate.map(|(_, known)| known),
            verdict: Some(verdict),
            disturbance: None,
            elapsed_ns: 4_000_000_000,
        }
    }

    fn every_kind() -> SelfTest {
        let throttle = || Truth::Limiters(vec![Limiter::IoThrottle]);
        let cap = ("iops-cap", "2,000 reads a second, by a cgroup");
        let lock = ("shared-file", "one writer at a time in a file of ext4");
        let locks = Truth::Limiters(vec![Limiter::LockContention, Limiter::PageCacheAbsorbed]);
        let holes = ("holes", "a file system that has lost half of a file");
        let answers = vec![
            answer(
                cap,
                "read:rnd4k:q8",
                throttle(),
                Some((Limiter::IoThrottle, Confidence::Confirmed)),
                Some((2001.0, 2000.0)),
            ),
            answer(
                cap,
                "read:rnd4k:t8",
                throttle(),
                Some((Limiter::IoThrottle, Confidence::Likely)),
                Some((1990.0, 2000.0)),
            ),
            answer(
                cap,
                "read:rnd4k",
                throttle(),
                Some((Limiter::DeviceOps, Confidence::Confirmed)),
                Some((1990.0, 2000.0)),
            ),
            answer(
                lock,
                "write:buffered:t4:shared:sync=none",
                locks,
                Some((Limiter::NotClear, Confidence::Undetermined)),
                None,
            ),
            answer(
                holes,
                "read:rnd4k:q4",
                Truth::Reason("unwritten_extents".into()),
                Some((Limiter::DeviceOps, Confidence::Likely)),
                None,
            ),
            answer(holes, "read:rnd4k:t2", Truth::Reason("unwritten_extents".into()), None, None),
        ];
        let missing = |case: &str, reason: &str, is_failure| Missing {
            case: case.into(),
            injected_limit: "200 Mbit/s to the server".into(),
            reason: reason.into(),
            is_failure,
        };
        SelfTest {
            schema: SCHEMA.into(),
            skye_version: "0.1.0".into(),
            started_at: "2026-11-21T14:03:00.000Z".into(),
            kernel: "Linux 6.12.9".into(),
            cpus: 8,
            is_root: true,
            seed: 7311,
            cases: 7,
            left: vec!["loop device over /dev/shm/skye-rig.x/image: it is in use".into()],
            score: Score::from_results(&answers),
            answers,
            missing: vec![
                missing("link", "cannot mount by sshfs: there is no such program", false),
                missing("cipher", "cannot mount by sshfs: there is no such program", false),
                missing("quota", "skye run ended with exit status: 1: no room", true),
            ],
            elapsed_ns: 412_000_000_000,
        }
    }

    fn plain_text(selftest: &SelfTest, style: &Style) -> String {
        let mut blocks = vec![title(selftest, style)];
        blocks.extend(selftest.answers.chunk_by(|a, b| a.case == b.case).map(|answers| case(answers, style)));
        blocks.push(summary(selftest, style));
        sample::plain(&blocks.join("\n"))
    }

    #[test]
    fn selftest_report_snapshot() {
        insta::assert_snapshot!(plain_text(&every_kind(), &sample::WIDE));
    }

    #[test]
    fn selftest_report_without_unicode_is_ascii() {
        let style = Style { has_unicode: false, ..sample::NARROW };
        assert!(plain_text(&every_kind(), &style).is_ascii());
        let as_user = SelfTest { is_root: false, ..every_kind() };
        assert!(plain_text(&as_user, &style).contains("not as root: cases that need root are omitted"));
    }

    #[test]
    fn selftest_case_listing_snapshot() {
        let truth = Truth::Limiters(vec![Limiter::LockContention, Limiter::PageCacheAbsorbed]);
        let case = CaseListing {
            name: "shared-file",
            injected_limit: "one writer at a time in a file of ext4",
            needs: &["root".into(), "mkfs.ext4".into()],
            changes: &["a loop device over a file in memory".into(), "a mount of ext4".into()],
            tests: &[("write:rnd64k:t4:shared", &truth)],
            why: Some("who waits for a lock may spin"),
        };
        insta::assert_snapshot!(sample::plain(&case_listing(&case, &sample::WIDE)));
    }
}
