//! `skye list --trend`: the rate of each test on each target over the saved runs, and its changes.

use std::collections::BTreeMap;

use model::Run;
use model::comparison::Difference;
use model::run::{Mark, PhaseRecord, Trust};
use stats::{SHORT_SERIES_MIN, levels_of_short_series};

use crate::compare::{self, signed};
use crate::facts::{self, Fact, Facts};
use crate::headline::Measure;
use crate::numbers::{MISSING, thousands};
use crate::spark::sparkline;
use crate::text::{
    DIM, Kind, NAME_WIDTH, Style, aligned, display_width, fit, fit_end, no_break, paint, wrap,
};
use crate::time;
use crate::work::Work;

/// Parts of a run that a trend needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    started_at: String,
    host: String,
    path: String,
    /// Clients that made the run together; `None` for a run of one process.
    clients: Option<u32>,
    /// Possible causes of a changed rate.
    facts: Facts,
    tests: Vec<Test>,
}

/// One test of a run, its repetitions taken together.
#[derive(Debug, Clone, PartialEq)]
struct Test {
    spec: String,
    name: String,
    label: String,
    kind: Kind,
    measure: Measure,
    work: Work,
    /// Median rate of the repetitions; `None` if no repetition has a trusted rate.
    rate: Option<f64>,
    /// Possible causes that concern this test alone.
    facts: Facts,
}

impl From<&Run> for RunSummary {
    fn from(run: &Run) -> Self {
        let mut tests: Vec<(&PhaseRecord, Vec<&PhaseRecord>)> = Vec::new();
        for phase in &run.phases {
            // Tests of a sweep over clients have one SPEC.
            let is_same = |test: &PhaseRecord| {
                (&test.spec, &test.name, &test.label) == (&phase.spec, &phase.name, &phase.label)
            };
            let known = tests.iter().position(|(test, _)| is_same(test));
            match known {
                Some(at) => tests[at].1.push(phase),
                None => tests.push((phase, vec![phase])),
            }
        }
        let size_is_fixed = run.plan.dataset.as_ref().is_some_and(|dataset| dataset.size_is_fixed);
        Self {
            started_at: run.started_at.clone(),
            host: run.environment.host.clone(),
            path: run.environment.target.path.clone(),
            clients: run.plan.clients.map(|clients| clients.count),
            facts: reasons(facts::facts_outside_tests(run)),
            tests: tests.iter().map(|(first, all)| Test::new(first, all, size_is_fixed)).collect(),
        }
    }
}

impl RunSummary {
    /// Returns what the runs of a series have in common besides the test.
    fn place(&self) -> (&str, &str, Option<u32>) {
        (&self.host, &self.path, self.clients)
    }
}

impl Test {
    /// Summarises a test from its first repetition, and from all of them.
    fn new(first: &PhaseRecord, all: &[&PhaseRecord], size_is_fixed: bool) -> Self {
        Self {
            spec: first.spec.clone(),
            name: first.name.clone(),
            label: first.label.clone(),
            kind: Kind::from_phase(first),
            measure: Measure::from_phase(first),
            work: Work::from_phase(first, size_is_fixed),
            rate: stats::middle(&all.iter().filter_map(|phase| trusted_rate(phase)).collect::<Vec<_>>()),
            facts: reasons(facts::from_tests(all)),
        }
    }
}

/// Returns the facts that may cause a change of rate.
fn reasons(all: Vec<Fact>) -> Facts {
    let mut reasons = Facts::default();
    reasons.add(all.into_iter().filter(|fact| fact.may_affect_results).collect());
    reasons
}

/// Returns the headline rate of a phase, if it is trusted to be the speed of this storage.
fn trusted_rate(phase: &PhaseRecord) -> Option<f64> {
    let invalid = match &phase.judged.verdict {
        Some(verdict) => verdict.trust == Trust::Invalid,
        // Documents of older versions have no verdicts.
        None => phase.judged.notes.iter().any(|note| note.mark != Mark::Remark),
    };
    let rate = Measure::from_phase(phase).rate(phase).filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.filter(|_| !invalid)
}

/// A test on a target, over the runs.
struct Series<'a> {
    run: &'a RunSummary,
    test: &'a Test,
    /// Newest first while they are collected, oldest first afterwards.
    points: Vec<Point<'a>>,
}

/// A test in one run.
#[derive(Clone, Copy)]
struct Point<'a> {
    /// Number of newer runs.
    newer_runs: usize,
    run: &'a RunSummary,
    test: &'a Test,
}

/// Most runs of a series that are examined, the newest: older runs say little about today.
const POINTS_MAX: usize = 100;
/// Most changes of a series that are shown, the newest.
const CHANGES_MAX: usize = 3;
/// Most differences between two runs that are shown.
const DIFFERENCES_MAX: usize = 4;
/// Share of the highest rate of a course. The lowest height stands for the lowest rate, or for this share if that is
/// less. A rate that hardly changes must not look as if it did.
const FLOOR: f64 = 0.7;
/// Stands for a run without a trusted number.
const GAP: char = '·';

/// Least width of the table; narrower terminals wrap its lines.
const WIDTH_MIN: usize = 80;
/// Most width of the table: longer lines tire the eye.
const WIDTH_MAX: usize = 140;
/// Width of all but subject and course: the columns runs, level and change, and the gaps.
const FIXED_COLUMNS_WIDTH: usize = 2 + 2 + 4 + 2 + 2 + 13 + 2 + 7;
/// Least width of the subject.
const SUBJECT_MIN: usize = 24;
/// Most width of the subject.
const SUBJECT_MAX: usize = 45;
/// Least width of the course.
const HISTORY_WIDTH_MIN: usize = 12;

/// Renders the trends, with a newline at the end. The first run is the newest; `None` is a run that cannot be read.
/// Targets are sorted by host and path, tests by the newest run that has them. The names of runs are arguments for
/// `skye report`.
///
/// A run without a trusted result of a test leaves a gap in its course. Levels are those of
/// [`stats::levels_of_short_series`]. Each change of a test's level has a line below the test. The line lists the
/// differences between the first run of the new level and the previous run.
pub fn render(runs: &[Option<RunSummary>], style: &Style) -> String {
    let all = series(runs);
    let (once, mut drawn): (Vec<_>, Vec<_>) = all.into_iter().partition(|series| series.points.len() < 2);
    drawn.sort_by_key(|series| series.run.place());
    let layout = Layout::new(&drawn, style);
    let mut text = String::new();
    let mut target = None;
    for series in &drawn {
        let this = series.run.place();
        if target != Some(this) {
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{}\n{}\n", layout.target(series.run, style), layout.head());
            target = Some(this);
        }
        text += &layout.row(series, &Trend::new(series), style);
        // The spec distinguishes rows that look alike.
        if drawn.iter().filter(|other| has_same_label(other, series)).count() > 1 {
            text += &format!("    {}\n", fit(&style.foreign(&own_words(series, &drawn)), layout.width - 4));
        }
    }
    text += &footnotes(&drawn, once.len(), runs, style);
    style.finish(text)
}

/// Returns true if two rows of a target begin with the same words.
fn has_same_label(a: &Series, b: &Series) -> bool {
    (a.run.place(), &a.test.name, &a.test.label) == (b.run.place(), &b.test.name, &b.test.label)
}

/// Returns the words that distinguish a series from others with its label. These are its spec, and work that others with
/// this spec do not have.
fn own_words(series: &Series, drawn: &[Series]) -> String {
    let others =
        drawn.iter().filter(|other| has_same_label(other, series) && other.test.spec == series.test.spec);
    let mut words = vec![series.test.spec.clone()];
    for [own, _] in others.filter_map(|other| series.test.work.difference(&other.test.work)) {
        for word in own.split(", ").map(str::to_owned) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    words.join(", ")
}

fn series(runs: &[Option<RunSummary>]) -> Vec<Series<'_>> {
    let mut all: Vec<Series> = Vec::new();
    let mut known = BTreeMap::new();
    for (newer_runs, run) in runs.iter().enumerate() {
        let Some(run) = run else { continue };
        for test in &run.tests {
            let same: &mut Vec<usize> =
                known.entry((run.place(), &test.spec, &test.name, &test.label)).or_default();
            let at = same.iter().copied().find(|at| all[*at].test.work == test.work).unwrap_or_else(|| {
                all.push(Series { run, test, points: Vec::new() });
                same.push(all.len() - 1);
                all.len() - 1
            });
            if all[at].points.len() < POINTS_MAX {
                all[at].points.push(Point { newer_runs, run, test });
            }
        }
    }
    for series in &mut all {
        series.points.reverse();
    }
    all
}

/// The level of a series, and its changes.
struct Trend<'a> {
    /// The median rate of the last level; `None` if no number is to be trusted.
    level: Option<f64>,
    /// True if there are enough runs to find changes.
    has_enough_runs: bool,
    /// The changes of the level, oldest first.
    changes: Vec<Change<'a>>,
}

struct Change<'a> {
    /// Rate after the change, divided by the rate before: 0.88 is 12 % less.
    ratio: f64,
    /// The first run with the new level, and the last with the old one.
    since: Point<'a>,
    before: Point<'a>,
}

impl<'a> Trend<'a> {
    fn new(series: &Series<'a>) -> Self {
        let counted: Vec<(Point, f64)> =
            series.points.iter().filter_map(|point| Some((*point, point.test.rate?))).collect();
        let rates: Vec<f64> = counted.iter().map(|(_, rate)| *rate).collect();
        let levels = levels_of_short_series(&rates);
        let middle = |from: usize, to: usize| stats::middle(&rates[from..to]).unwrap_or(f64::NAN);
        let changes = levels.windows(2).map(|pair| Change {
            ratio: middle(pair[1].from, pair[1].to) / middle(pair[0].from, pair[0].to),
            since: counted[pair[1].from].0,
            before: counted[pair[1].from - 1].0,
        });
        Self {
            level: levels.last().map(|level| middle(level.from, level.to)),
            has_enough_runs: rates.len() >= SHORT_SERIES_MIN,
            changes: changes.collect(),
        }
    }
}

/// Formats a change of a level: "-12.1 %".
fn change_text(ratio: f64) -> String {
    // There are no shares of zero.
    if ratio.is_finite() { signed(ratio) } else { "from 0".into() }
}

/// Widths of the columns.
struct Layout {
    subject: usize,
    rate_history: usize,
    width: usize,
}

impl Layout {
    fn new(drawn: &[Series], style: &Style) -> Self {
        let width = style.width.clamp(WIDTH_MIN, WIDTH_MAX);
        let longest = drawn.iter().map(|series| display_width(&subject(series, style))).max().unwrap_or(0);
        let subject =
            longest.clamp(SUBJECT_MIN, SUBJECT_MAX.min(width - FIXED_COLUMNS_WIDTH - HISTORY_WIDTH_MIN));
        let most = drawn.iter().map(|series| series.points.len()).max().unwrap_or(0);
        Self {
            subject,
            rate_history: most.clamp(HISTORY_WIDTH_MIN, width - FIXED_COLUMNS_WIDTH - subject),
            width,
        }
    }

    fn target(&self, run: &RunSummary, style: &Style) -> String {
        // However long the name of the host is, the directory stays in sight.
        let host = fit(&style.foreign(&run.host), self.width / 3);
        let clients = match run.clients {
            None => String::new(),
            Some(1) => ", 1 client".to_owned(),
            Some(count) => format!(", {} clients", thousands(count.into())),
        };
        let room = self.width.saturating_sub(display_width(&host) + 2 + clients.len());
        format!("{host}: {}{clients}", fit_end(&style.foreign(&run.path), room))
    }

    fn head(&self) -> String {
        let cells = ["test", "runs", "history", "level now", "change"].map(String::from);
        paint(DIM, &self.line(&cells))
    }

    fn line(&self, [subject, runs, rate_history, level, change]: &[String; 5]) -> String {
        let (wide, long) = (self.subject, self.rate_history);
        format!("  {subject:<wide$}  {runs:>4}  {rate_history:<long$}  {level:>13}  {change:>7}")
            .trim_end()
            .to_owned()
    }

    /// Renders a series, and below it the changes of its level.
    fn row(&self, series: &Series, trend: &Trend, style: &Style) -> String {
        let recent = &series.points[series.points.len().saturating_sub(self.rate_history)..];
        let rates: Vec<f64> = recent.iter().map(|point| point.test.rate.unwrap_or(f64::NAN)).collect();
        let (lowest, highest) = rates
            .iter()
            .filter(|rate| rate.is_finite())
            .fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        let level = trend.level.and_then(|level| series.test.measure.text(level));
        let change = match trend.changes.last() {
            Some(change) => change_text(change.ratio),
            None if trend.has_enough_runs => "steady".into(),
            None => MISSING.into(),
        };
        let cells = [
            fit(&subject(series, style), self.subject),
            series.points.len().to_string(),
            sparkline(&rates, lowest.min(FLOOR * highest), GAP, style),
            level.unwrap_or_else(|| MISSING.into()),
            change,
        ];
        let mut text = format!("{}\n", self.line(&cells));
        for change in trend.changes.iter().rev().take(CHANGES_MAX) {
            text += &self.change(change, style);
        }
        match trend.changes.len().saturating_sub(CHANGES_MAX) {
            0 => {}
            1 => text += "    and one earlier change\n",
            more => text += &format!("    and {more} earlier changes\n"),
        }
        text
    }

    fn change(&self, change: &Change, style: &Style) -> String {
        let reference =
            if change.since.newer_runs == 0 { "@".into() } else { format!("@-{}", change.since.newer_runs) };
        let change_text = no_break(&change_text(change.ratio));
        let when = time::minute(&change.since.run.started_at);
        let found = differences(change, style);
        let what = match found.len() {
            0 => "no other known difference from the previous run".into(),
            _ => found.join(", "),
        };
        let line = format!("{change_text} since {reference} ({when}): {what}");
        let lines = wrap(&line, self.width.min(style.paragraph().max(WIDTH_MIN)) - 6);
        lines.iter().enumerate().fold(String::new(), |text, (at, line)| {
            let indent = if at == 0 { 4 } else { 6 };
            format!("{text}{:indent$}{line}\n", "")
        })
    }
}

fn subject(series: &Series, style: &Style) -> String {
    let test = series.test;
    let label = aligned(test.kind, &style.foreign(&test.label));
    format!("{:NAME_WIDTH$} {label}", style.foreign(&test.name)).trim_end().to_owned()
}

/// Lists the differences between the first run of a level and the last run of the level before, as this terminal can
/// show them.
fn differences(change: &Change, style: &Style) -> Vec<String> {
    let (before, after) = (&change.before, &change.since);
    let mut found = facts::compare(&[&before.test.facts, &after.test.facts]).0;
    found.extend(facts::compare(&[&before.run.facts, &after.run.facts]).0);
    let more = found.len().saturating_sub(DIFFERENCES_MAX);
    found.truncate(DIFFERENCES_MAX);
    let mut texts: Vec<_> = found.into_iter().map(|one| style.foreign(&difference_text(one))).collect();
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    texts
}

/// Longest name or value that is shown in full.
const VALUE_MAX: usize = 32;

/// "scheduler none → mq-deadline"
fn difference_text(difference: Difference) -> String {
    let cut = |short: fn(&str, usize) -> String| -> Vec<Option<String>> {
        let values = difference.values.iter();
        values.map(|value| value.as_ref().map(|value| short(value, VALUE_MAX))).collect()
    };
    let mut values = cut(fit);
    if values.iter().all(|value| *value == values[0]) {
        // Values that begin alike are distinguished by their ends.
        values = cut(fit_end);
    }
    let name = fit(&difference.name, VALUE_MAX);
    format!("{name} {}", compare::difference(&Difference { values, ..difference }))
}

/// Notes that apply to all trends above.
fn footnotes(drawn: &[Series], once: usize, runs: &[Option<RunSummary>], style: &Style) -> String {
    let mut notes = Vec::new();
    let rates = || drawn.iter().flat_map(|series| series.points.iter().map(|point| point.test.rate));
    if rates().any(|rate| rate.is_none()) {
        notes.push(format!(
            "{GAP} in a history is a run with a missing or invalid number; it does not count."
        ));
    }
    let few = |series: &&Series| {
        series.points.iter().filter(|point| point.test.rate.is_some()).count() < SHORT_SERIES_MIN
    };
    if drawn.iter().any(|series| few(&series)) {
        notes
            .push(format!("{MISSING} stands for a change over fewer than {SHORT_SERIES_MIN} runs: too few."));
    }
    match once {
        0 => {}
        1 => notes.push("1 test was measured once: no trend yet.".into()),
        _ => notes.push(format!("{} tests were measured once: no trend yet.", thousands(once as u64))),
    }
    match runs.iter().filter(|run| run.is_none()).count() {
        0 => {}
        1 => notes.push("1 saved run is unreadable: skye list shows why.".into()),
        unread => notes.push(format!("{unread} saved runs are unreadable: skye list shows why.")),
    }
    if drawn.is_empty() && once == 0 {
        notes.insert(0, "no test has been measured yet".into());
    }
    let gap = if drawn.is_empty() || notes.is_empty() { "" } else { "\n" };
    let lines = notes.iter().flat_map(|note| wrap(note, style.paragraph().max(WIDTH_MIN)));
    lines.fold(gap.to_owned(), |text, line| format!("{text}{line}\n"))
}

#[cfg(test)]
mod tests;
