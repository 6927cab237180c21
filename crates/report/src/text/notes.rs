//! What a reader should know about rows: one paragraph a finding, equal findings of several tests in one.

use model::run::{Mark, PhaseRecord, Status};

use super::style::{Style, YELLOW, paint};
use super::table::short_reason;
use super::wrap::wrap;
use crate::numbers::{amount, megabytes};
use crate::printable;

/// One thing to know, and the tests that it holds for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// Whether to act or to distrust.
    pub mark: Mark,
    /// The tests: "write SEQ1M Q8T1", "stat", "every test".
    pub subject: String,
    /// The sentences.
    pub text: String,
}

/// Tests named one by one before the rest are only counted.
const SUBJECTS_MAX: usize = 3;

/// The mark of a row. A failure comes first, for there is no number left to distrust.
pub(crate) fn mark(phase: &PhaseRecord) -> Mark {
    let has = |mark: Mark| phase.notes.iter().any(|note| note.mark == mark);
    match phase.status {
        Status::Failed | Status::Skipped => Mark::Act,
        _ if has(Mark::Distrust) => Mark::Distrust,
        Status::Partial => Mark::Act,
        Status::Done if has(Mark::Act) || phase.rate.ops_per_second.is_none() => Mark::Act,
        Status::Done => Mark::Info,
    }
}

/// Everything to know about the phases: marked things first, each in the order of the phases.
pub(crate) fn findings(phases: &[PhaseRecord]) -> Vec<Finding> {
    let mut grouped: Vec<(Mark, String, Vec<usize>)> = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        for (mark, text) in of_phase(phase) {
            match grouped.iter_mut().find(|(m, t, _)| (*m, t.as_str()) == (mark, text.as_str())) {
                Some((_, _, members)) if members.last() == Some(&index) => {}
                Some((_, _, members)) => members.push(index),
                None => grouped.push((mark, text, vec![index])),
            }
        }
    }
    grouped.sort_by_key(|(mark, _, _)| *mark == Mark::Info);
    grouped
        .into_iter()
        .map(|(mark, text, members)| Finding { mark, subject: subject(phases, &members), text })
        .collect()
}

fn of_phase(phase: &PhaseRecord) -> Vec<(Mark, String)> {
    let mut found = Vec::new();
    let reason = || short_reason(phase);
    match phase.status {
        Status::Failed => found.push((Mark::Act, format!("failed: {}", reason()))),
        Status::Skipped => found.push((Mark::Act, format!("skipped: {}", reason()))),
        Status::Partial => found.push((Mark::Act, format!("ended early: {}", reason()))),
        Status::Done if phase.rate.ops_per_second.is_none() => {
            found.push((Mark::Act, format!("there is no rate: {}", reason())));
        }
        Status::Done => {}
    }
    found.extend(phase.notes.iter().map(|note| (note.mark, printable(&note.text))));
    found.extend(into_cache(phase).map(|text| (Mark::Info, text)));
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

/// Names the tests of `members`, as briefly as keeps them apart from all others.
fn subject(phases: &[PhaseRecord], members: &[usize]) -> String {
    if members.len() == phases.len() && members.len() > 1 {
        return "every test".into();
    }
    let mut names: Vec<String> = Vec::new();
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
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rest = names.len().saturating_sub(SUBJECTS_MAX);
    // "and 1 more" is no shorter than the name.
    if rest > 1 {
        names.truncate(SUBJECTS_MAX);
        return printable(&format!("{} and {rest} more", names.join(", ")));
    }
    printable(&names.join(", "))
}

/// The notes beneath the tables: `! rewrite: …`, `? stat: …`, `· fsync: …`, wrapped to the terminal's width.
pub fn notes(phases: &[PhaseRecord], style: &Style) -> String {
    let paragraphs: Vec<_> = findings(phases).iter().map(|finding| paragraph(finding, style)).collect();
    style.finish(paragraphs.join("\n"))
}

fn paragraph(finding: &Finding, style: &Style) -> String {
    let text = style.finish(format!("{}: {}", finding.subject, finding.text));
    let lines = wrap(&text, style.paragraph() - 4);
    let sign = match finding.mark {
        Mark::Info => "·".to_owned(),
        marked => paint(YELLOW, marked.sign()),
    };
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
        phases[2].notes = vec![sample::note(Mark::Act, "only the second was slow.")];
        for index in [1, 3] {
            phases[index].notes = vec![sample::note(Mark::Info, "both.")];
        }
        let text = sample::plain(&notes(&phases, &sample::WIDE));
        assert_eq!(
            text,
            "  ! write #2: only the second was slow.\n  · write: into the cache at 2,310 MB/s; the headline includes the sync\n  · fsync: both."
        );
    }

    #[test]
    fn nothing_to_say_is_nothing() {
        let phase = sample::phase("read:rnd4k:q32t4");
        assert_eq!(notes(&[phase], &sample::WIDE), "");
    }
}
