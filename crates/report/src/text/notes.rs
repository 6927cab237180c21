//! What a reader should know about rows: one paragraph a finding, equal findings of several tests in one.

use model::run::{Mark, PhaseRecord, Status};
use model::workload::Access;

use super::figures;
use super::limiter;
use super::style::{Style, YELLOW, paint};
use super::table::{KNEE, Kind, short_reason};
use super::wrap::wrap;
use crate::numbers::{amount, latency, megabytes, percent};
use crate::printable;

/// One thing to know, and the tests that it holds for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// Whether to act or to distrust.
    pub mark: Mark,
    /// Whether it tells where a sweep has its knee.
    pub is_knee: bool,
    /// The word for programs of the note that it comes from; empty where it comes from none.
    pub code: String,
    /// The rows that it holds for.
    pub rows: Vec<usize>,
    /// The tests: "write SEQ1M Q8T1", "stat", "read (8 rows)", "every test".
    pub subject: String,
    /// The sentences.
    pub text: String,
}

/// What is to be known about one row.
struct Remark {
    mark: Mark,
    is_knee: bool,
    code: String,
    text: String,
    /// Remarks of several rows with the same key are one finding.
    key: String,
}

impl Remark {
    /// One that is the same for other rows if all of it is.
    fn alone(mark: Mark, text: String) -> Self {
        Self { mark, is_knee: false, code: String::new(), key: text.clone(), text }
    }

    /// One that is the same for other rows if it differs in its figures only.
    fn with_figures(mark: Mark, code: &str, text: String) -> Self {
        let key = format!("{code}\0{}", figures::pattern(&text));
        Self { mark, is_knee: false, code: code.to_owned(), key, text }
    }
}

/// The code of the note that tells where a sweep has its knee, or that it has none.
const KNEE_CODE: &str = "knee";
/// Findings whose figures belong together: as ranges over several rows they would make no sense.
const TOLD_ALONE: &[&str] = &["not_steady", "several_modes", "rate_dropped", "rate_capped", "several_passes"];
/// Rows named one by one before those of a verb are only counted.
const SUBJECTS_MAX: usize = 4;
/// From this share of a latency on, the wait for the start is worth a remark.
const WAIT_SHARE: f64 = 0.1;

/// The mark of a row. A failure comes first, for there is no number left to distrust.
pub(crate) fn mark(phase: &PhaseRecord) -> Mark {
    let has = |mark: Mark| phase.notes.iter().any(|note| note.mark == mark);
    match phase.status {
        Status::Failed | Status::Skipped => Mark::Act,
        _ if has(Mark::Distrust) => Mark::Distrust,
        Status::Partial => Mark::Act,
        Status::Done if has(Mark::Act) || phase.rate.ops_per_second.is_none() => Mark::Act,
        Status::Done if limiter::is_to_act_on(phase) => Mark::Act,
        Status::Done => Mark::Info,
    }
}

/// Whether a sweep has its knee at that row: its note says so, and there are points beyond it.
pub(crate) fn is_knee(phases: &[PhaseRecord], index: usize) -> bool {
    let phase = &phases[index];
    let is_point = |other: &PhaseRecord| {
        (&other.group, other.repetition) == (&phase.group, phase.repetition)
            && other.rate.ops_per_second.is_some()
    };
    phase.notes.iter().any(|note| note.code == KNEE_CODE) && phases[index + 1..].iter().any(is_point)
}

/// Everything to know about the phases: marked things first, each in the order of the phases.
pub(crate) fn findings(phases: &[PhaseRecord]) -> Vec<Finding> {
    let mut grouped: Vec<(Remark, Vec<(usize, String)>)> = Vec::new();
    for index in 0..phases.len() {
        for remark in of_row(phases, index) {
            let text = remark.text.clone();
            let group = grouped.iter_mut().find(|(first, members)| {
                // Two figures of the same row are no range.
                let is_second = members.last().is_some_and(|(last, known)| *last == index && *known != text);
                (first.mark, &first.key) == (remark.mark, &remark.key) && !is_second
            });
            match group {
                Some((_, members)) if members.last().is_some_and(|(last, _)| *last == index) => {}
                Some((_, members)) => members.push((index, text)),
                None => grouped.push((remark, vec![(index, text)])),
            }
        }
    }
    grouped.sort_by_key(|(remark, _)| remark.mark == Mark::Info);
    let finding = |(remark, members): (Remark, Vec<(usize, String)>)| {
        let (rows, texts): (Vec<usize>, Vec<&str>) =
            members.iter().map(|(index, text)| (*index, text.as_str())).unzip();
        Finding {
            mark: remark.mark,
            is_knee: remark.is_knee,
            code: remark.code,
            subject: subject(phases, &rows),
            text: figures::merged(&texts),
            rows,
        }
    };
    grouped.into_iter().map(finding).collect()
}

fn of_row(phases: &[PhaseRecord], index: usize) -> Vec<Remark> {
    let phase = &phases[index];
    let mut found = Vec::new();
    let mut act = |text: String| found.push(Remark::alone(Mark::Act, text));
    let reason = || short_reason(phase);
    match phase.status {
        Status::Failed => act(format!("failed: {}", reason())),
        Status::Skipped => act(format!("skipped: {}", reason())),
        Status::Partial => act(format!("ended early: {}", reason())),
        Status::Done if phase.rate.ops_per_second.is_none() => act(format!("there is no rate: {}", reason())),
        Status::Done => {}
    }
    found.extend(phase.notes.iter().map(|note| match note.code.as_str() {
        // Each sweep has its own.
        KNEE_CODE => {
            Remark { is_knee: is_knee(phases, index), ..Remark::alone(note.mark, printable(&note.text)) }
        }
        code if TOLD_ALONE.contains(&code) => {
            Remark { code: code.to_owned(), ..Remark::alone(note.mark, printable(&note.text)) }
        }
        code => Remark::with_figures(note.mark, code, printable(&note.text)),
    }));
    found.extend(between_runs(phases, phase).map(|text| Remark::alone(Mark::Info, text)));
    found.extend(into_cache(phase).map(|text| Remark::with_figures(Mark::Info, "", text)));
    // Two figures of a row that belong together would make no sense as ranges.
    found.extend(waiting(phase).map(|text| Remark::alone(Mark::Info, text)));
    found
}

/// The rate at which the page cache took buffered writes, which is what other tools would have shown.
fn into_cache(phase: &PhaseRecord) -> Option<String> {
    let ops_per_second = phase.rate.into_cache_ops_per_second?;
    let rate = match phase.rate.bytes_per_second {
        Some(_) if phase.ops > 0 => megabytes(ops_per_second * phase.bytes as f64 / phase.ops as f64)?,
        _ => format!("{} per second", amount(ops_per_second)?),
    };
    Some(format!("into the cache at {rate}; the headline includes the sync"))
}

/// How far repetitions of a test lie apart: more than the interval of any of them, which knows of one run only.
fn between_runs(phases: &[PhaseRecord], phase: &PhaseRecord) -> Option<String> {
    let of_test = |other: &&PhaseRecord| base_id(other) == base_id(phase);
    let rates: Vec<f64> =
        phases.iter().filter(of_test).filter_map(|other| other.rate.ops_per_second).collect();
    if rates.len() < 2 {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let farthest = rates.iter().map(|rate| (rate - mean).abs()).fold(0.0, f64::max);
    let bytes = phase.bytes as f64 / phase.ops.max(1) as f64;
    let shown = match (phase.workload.pattern, Kind::of(phase)) {
        (Some(Access::Sequential), _) => megabytes(mean * bytes)?,
        (_, Kind::Data) => format!("{} IOPS", amount(mean)?),
        (_, Kind::Files) => format!("{} per second", amount(mean)?),
    };
    let spread = percent(farthest / mean);
    Some(format!(
        "{} repetitions lie within ± {spread} of {shown}; ± in the table is that of one",
        rates.len()
    ))
}

/// What the repetitions of a test have in common.
pub(crate) fn base_id(phase: &PhaseRecord) -> &str {
    phase.id.split('#').next().unwrap_or_default()
}

/// How much of the latency of an open loop passed before operations were started, where that is not little.
fn waiting(phase: &PhaseRecord) -> Option<String> {
    let (wait, whole) = (phase.queueing_ns.as_ref()?, phase.latency_ns.as_ref()?);
    let percentiles = [("p99", wait.p99, whole.p99), ("p50", wait.p50, whole.p50)];
    let (name, wait_ns, whole_ns) = percentiles
        .into_iter()
        .filter_map(|(name, wait, whole)| Some((name, wait?, whole?)))
        .find(|(_, wait, whole)| *wait as f64 > *whole as f64 * WAIT_SHARE)?;
    let [wait, whole] = [wait_ns, whole_ns].map(latency);
    Some(format!("of the {name} of {whole}, {wait} were waiting to be started"))
}

/// Names the tests of `members`, as briefly as keeps them apart from all others.
pub(crate) fn subject(phases: &[PhaseRecord], members: &[usize]) -> String {
    if members.len() == phases.len() && members.len() > 1 {
        return "every test".into();
    }
    let mut named: Vec<(String, &str, usize)> = Vec::new();
    for &index in members {
        let phase = &phases[index];
        let same_test = |other: &PhaseRecord| (&other.name, &other.label) == (&phase.name, &phase.label);
        let name_is_unique = phases.iter().all(|other| other.name != phase.name || same_test(other));
        let mut name =
            if name_is_unique { phase.name.clone() } else { format!("{} {}", phase.name, phase.label) };
        let all_of_it = (0..phases.len()).filter(|i| same_test(&phases[*i])).all(|i| members.contains(&i));
        if !all_of_it {
            name.push_str(&format!(" #{}", phase.repetition));
        }
        match named.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., rows)) => *rows += 1,
            None => named.push((name, &phase.name, 1)),
        }
    }
    if named.len() > SUBJECTS_MAX {
        return printable(&counted(&named));
    }
    printable(&named.into_iter().map(|(name, ..)| name).collect::<Vec<_>>().join(", "))
}

/// Tests, each with its verb and its rows, by their verbs: "read (8 rows), fsync, write SEQ1M Q8T1 and 3 more".
fn counted(named: &[(String, &str, usize)]) -> String {
    let mut verbs: Vec<(&str, &str, usize, usize)> = Vec::new();
    for (name, verb, rows) in named {
        match verbs.iter_mut().find(|(_, known, ..)| known == verb) {
            Some((.., tests, sum)) => (*tests, *sum) = (*tests + 1, *sum + rows),
            None => verbs.push((name, verb, 1, *rows)),
        }
    }
    // "and 1 more" is no shorter than the name.
    let shown = if verbs.len() > SUBJECTS_MAX { SUBJECTS_MAX - 1 } else { verbs.len() };
    let (shown, rest) = verbs.split_at(shown);
    let shown = shown.iter().map(|(name, verb, tests, rows)| match tests {
        1 => (*name).to_owned(),
        _ => format!("{verb} ({rows} rows)"),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match rest.iter().map(|(.., rows)| rows).sum::<usize>() {
        0 => shown,
        rest => format!("{shown} and {rest} more"),
    }
}

/// The notes beneath the tables: `! rewrite: …`, `? stat: …`, `· fsync: …`, wrapped to the terminal's width.
pub fn notes(phases: &[PhaseRecord], style: &Style) -> String {
    let paragraphs: Vec<_> = findings(phases).iter().map(|finding| paragraph(finding, style)).collect();
    style.finish(paragraphs.join("\n"))
}

fn paragraph(finding: &Finding, style: &Style) -> String {
    let sign = match finding.mark {
        Mark::Info if finding.is_knee => KNEE.to_owned(),
        Mark::Info => "·".to_owned(),
        marked => paint(YELLOW, marked.sign()),
    };
    remark(&sign, &format!("{}: {}", finding.subject, finding.text), style)
}

/// A sentence after a sign of one character, wrapped to the terminal's width.
pub(crate) fn remark(sign: &str, text: &str, style: &Style) -> String {
    let lines = wrap(&style.finish(text.to_owned()), style.paragraph() - 4);
    format!("  {sign} {}", lines.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_mark_has_its_sentence() {
        insta::assert_snapshot!(sample::plain(&notes(&sample::troubled(), &sample::WIDE)));
    }

    #[test]
    fn equal_findings_stand_once() {
        let mut phases = sample::run().phases;
        let text = "io_uring is forbidden here, so depth 32 became 32 threads.";
        for index in [0, 1, 3, 4, 5] {
            phases[index].notes = vec![sample::note(Mark::Info, text)];
        }
        for phase in &mut phases[6..] {
            phase.notes = vec![sample::note(Mark::Act, "the clock is slow.")];
        }
        insta::assert_snapshot!(sample::plain(&notes(&phases, &sample::NARROW)));
    }

    #[test]
    fn repetitions_are_told_apart_where_they_differ() {
        let mut phases = sample::repeated();
        phases[2].rate.ops_per_second = Some(910.0);
        phases[2].notes = vec![sample::note(Mark::Act, "only the second was slow.")];
        for index in [1, 3] {
            phases[index].notes = vec![sample::note(Mark::Info, "both.")];
        }
        let text = sample::plain(&notes(&phases, &sample::WIDE));
        assert_eq!(
            text,
            "  ! write #2: only the second was slow.\n  · write: 2 repetitions lie within ± 0.5 % of 949 MB/s; ± in the table is that of one\n  · write: into the cache at 2,310 MB/s; the headline includes the sync\n  · fsync: both.\n  · fsync: 2 repetitions lie within ± 0 % of 100,000 IOPS; ± in the table is that of one"
        );
    }

    #[test]
    fn findings_that_differ_in_figures_stand_once() {
        let mut phases: Vec<_> = [
            "read:rnd4k",
            "read:rnd4k:q8",
            "write:rnd4k",
            "rewrite",
            "fsync",
            "create",
            "stat",
            "unlink",
            "mkdir",
        ]
        .map(sample::phase)
        .into();
        for (index, share) in [(0, "33"), (1, "9.5"), (2, "16")] {
            let text = format!("its threads waited {share} % of their time. Stop others.");
            phases[index].notes.push(sample::note(Mark::Distrust, &text));
        }
        for phase in &mut phases[..8] {
            phase.notes.push(sample::note(Mark::Info, "all but one."));
        }
        for phase in &mut phases[..5] {
            phase.notes.push(sample::note(Mark::Info, "on sda 3 times."));
        }
        // Two of the same row are two findings.
        phases[3].notes.push(sample::note(Mark::Info, "on sda 4 times."));
        insta::assert_snapshot!(sample::plain(&notes(&phases, &sample::WIDE)));
    }

    #[test]
    fn nothing_to_say_is_nothing() {
        let phase = sample::phase("read:rnd4k:q32t4");
        assert_eq!(notes(&[phase], &sample::WIDE), "");
    }
}
