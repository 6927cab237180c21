//! Remarks on rows: one paragraph per finding, and one for equal findings of several tests.

use model::figure::{BytesPerSecond, Count, LatencyNs, OpsPerSecond, Share};
use model::finding::Finding;
use model::run::{Mark, Note, PhaseRecord, Status};
use model::workload::Access;

use super::style::{Style, YELLOW, paint};
use super::table::{KNEE, short_reason};
use super::wrap::wrap;
use crate::printable;

/// One remark, and the tests that it holds for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Remark {
    /// Mark of the remark: the trust in the result.
    pub mark: Mark,
    /// True if the remark reports the knee of a sweep.
    pub is_knee: bool,
    /// Code of the note for programs; empty if the remark comes from no note.
    pub code: String,
    /// The rows that the remark holds for.
    pub rows: Vec<usize>,
    /// The tests: "write 1M q8", "stat", "read (8 rows)", "every test".
    pub subject: String,
    /// The sentences.
    pub text: String,
}

impl Remark {
    /// Returns true if it is always shown: the user requested its content, or it says that the number is that of a place.
    pub(crate) fn is_on_each_screen(&self) -> bool {
        self.is_knee || [STEADY_CODE, PLACES_CODE].contains(&self.code.as_str())
    }
}

/// The code of the note with the round in which a test became steady.
const STEADY_CODE: &str = "steady_rounds";
/// The code of the note on places that differ.
const PLACES_CODE: &str = "uneven_places";
/// The code of the note that says where a sweep has its knee, or that it has none.
const KNEE_CODE: &str = "knee";
/// Findings whose figures belong together, so that ranges over several rows would make no sense.
const SINGLE_ROW_CODES: &[&str] = &[
    "not_steady",
    "does_not_repeat",
    "several_modes",
    "rate_dropped",
    "rate_capped",
    "several_passes",
    "never_steady",
    STEADY_CODE,
    "between_runs",
    "waited_to_start",
    "slow_client",
    KNEE_CODE,
];
/// Maximum number of tests that are listed one by one. If there are more, the rows of a verb are only counted.
const SUBJECTS_MAX: usize = 4;
/// Share of a latency above which the wait for the start is worth a remark.
const WAIT_SHARE: f64 = 0.1;

/// Returns the mark of a row: the gravest one from its notes and its status.
pub(crate) fn mark(phase: &PhaseRecord) -> Mark {
    let has = |mark: Mark| phase.judged.notes.iter().any(|note| note.mark == mark);
    if phase.status != Status::Done || phase.figures.rate.ops_per_second.is_none() || has(Mark::Invalid) {
        return Mark::Invalid;
    }
    if has(Mark::Suspect) { Mark::Suspect } else { Mark::Remark }
}

/// Returns true if a note of the row says where its sweep has its knee, or that it has none.
pub(crate) fn has_knee_note(phase: &PhaseRecord) -> bool {
    phase.judged.notes.iter().any(|note| note.code == KNEE_CODE)
}

/// Returns true if a sweep has its knee at that row: its note says so, and there are points beyond it.
pub(crate) fn is_knee(phases: &[PhaseRecord], index: usize) -> bool {
    let phase = &phases[index];
    let is_point = |other: &PhaseRecord| {
        (&other.group, other.repetition) == (&phase.group, phase.repetition)
            && other.figures.rate.ops_per_second.is_some()
    };
    has_knee_note(phase) && phases[index + 1..].iter().any(is_point)
}

/// Returns all remarks on the phases: marked ones first, each group in the order of the phases.
pub(crate) fn remarks(phases: &[PhaseRecord]) -> Vec<Remark> {
    let mut grouped: Vec<Vec<(usize, Note)>> = Vec::new();
    for index in 0..phases.len() {
        for note in notes_of_row(phases, index) {
            let group = grouped.iter_mut().find(|members| {
                let (last, known) = &members[members.len() - 1];
                // Two figures of the same row are no range.
                is_same(&members[0].1, &note) && (*last != index || known.finding == note.finding)
            });
            match group {
                Some(members) if members.last().is_some_and(|(last, _)| *last == index) => {}
                Some(members) => members.push((index, note)),
                None => grouped.push(vec![(index, note)]),
            }
        }
    }
    let remark = |members: Vec<(usize, Note)>| {
        let rows: Vec<usize> = members.iter().map(|(index, _)| *index).collect();
        let all: Vec<_> = members.iter().map(|(_, note)| note).collect();
        let first = all[0];
        Remark {
            mark: first.mark,
            is_knee: first.code == KNEE_CODE && is_knee(phases, rows[0]),
            code: first.code.clone(),
            subject: subject(phases, &rows),
            text: wording::text_of_notes(&all),
            rows,
        }
    };
    let (mut all, others): (Vec<_>, Vec<_>) =
        grouped.into_iter().map(remark).partition(|remark| remark.mark != Mark::Remark);
    all.extend(others);
    all
}

/// Returns true if one sentence can state both notes.
fn is_same(one: &Note, other: &Note) -> bool {
    let may_differ = !SINGLE_ROW_CODES.contains(&one.code.as_str());
    wording::are_alike(one, other) && (may_differ || one.finding == other.finding)
}

fn notes_of_row(phases: &[PhaseRecord], index: usize) -> Vec<Note> {
    let phase = &phases[index];
    let reason = || short_reason(phase).into();
    let ended = match phase.status {
        Status::Failed => Some(Finding::Failed { reason: reason() }),
        Status::Skipped => Some(Finding::Skipped { reason: reason() }),
        Status::Partial => Some(Finding::EndedEarly { reason: reason() }),
        Status::Done if phase.figures.rate.ops_per_second.is_none() => {
            Some(Finding::NoRate { reason: reason() })
        }
        Status::Done => None,
    };
    let mut notes: Vec<_> = ended.into_iter().map(note).collect();
    notes.extend(phase.judged.notes.iter().cloned());
    let listed = [repetition_spread(phases, phase), into_cache(phase), waiting(phase)];
    notes.extend(listed.into_iter().flatten().map(note));
    notes
}

fn note(finding: Finding) -> Note {
    Note::new(finding, Vec::new())
}

/// The rate at which the page cache took buffered writes, which is what other tools would have shown.
fn into_cache(phase: &PhaseRecord) -> Option<Finding> {
    let ops_per_second = phase.figures.rate.into_cache_ops_per_second.filter(|rate| rate.is_finite())?;
    Some(match phase.figures.rate.bytes_per_second {
        Some(_) if phase.counts.ops > 0 => {
            let bytes = phase.counts.bytes as f64 / phase.counts.ops as f64;
            Finding::IntoCache { bytes_per_second: BytesPerSecond(ops_per_second * bytes) }
        }
        _ => Finding::IntoCacheByOps { ops_per_second: OpsPerSecond(ops_per_second) },
    })
}

/// The spread of the repetitions of a test. It says more than the interval of any of them, which covers one run only.
fn repetition_spread(phases: &[PhaseRecord], phase: &PhaseRecord) -> Option<Finding> {
    let of_test = |other: &&PhaseRecord| base_id(other) == base_id(phase);
    let rates: Vec<f64> =
        phases.iter().filter(of_test).filter_map(|other| other.figures.rate.ops_per_second).collect();
    if rates.len() < 2 || !rates.iter().all(|rate| rate.is_finite()) {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let farthest = rates.iter().map(|rate| (rate - mean).abs()).fold(0.0, f64::max);
    let (runs, spread) = (Count(rates.len() as u64), Share(farthest / mean));
    let bytes = phase.counts.bytes as f64 / phase.counts.ops.max(1) as f64;
    Some(match phase.workload.pattern {
        Some(Access::Sequential) => {
            Finding::BetweenRuns { runs, spread, mean_bytes_per_second: BytesPerSecond(mean * bytes) }
        }
        _ => Finding::BetweenRunsByOps { runs, spread, mean_ops_per_second: OpsPerSecond(mean) },
    })
}

/// Returns the part of the id that all repetitions of a test have in common.
pub(crate) fn base_id(phase: &PhaseRecord) -> &str {
    phase.id.split('#').next().unwrap_or_default()
}

/// The part of an open loop's latency that passed before operations were started, unless it is small.
fn waiting(phase: &PhaseRecord) -> Option<Finding> {
    let (wait, whole) = (phase.figures.queueing_ns.as_ref()?, phase.figures.latency_ns.as_ref()?);
    let long = |wait: Option<u64>, whole: Option<u64>| {
        let (wait, whole) = wait.zip(whole)?;
        (wait as f64 > whole as f64 * WAIT_SHARE).then_some((LatencyNs(wait), LatencyNs(whole)))
    };
    let p99 = long(wait.p99, whole.p99).map(|(wait_ns, whole_ns)| Finding::P99Waited { wait_ns, whole_ns });
    p99.or_else(|| {
        long(wait.p50, whole.p50).map(|(wait_ns, whole_ns)| Finding::P50Waited { wait_ns, whole_ns })
    })
}

/// Returns the tests of `members` as text, as short as it can be without ambiguity.
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
        return printable(&list_verbs(&named));
    }
    printable(&named.into_iter().map(|(name, ..)| name).collect::<Vec<_>>().join(", "))
}

/// Groups tests, each with its verb and its rows, by verb: "read (8 rows), fsync, write 1M q8 and 3 more".
fn list_verbs(named: &[(String, &str, usize)]) -> String {
    let mut verbs: Vec<(&str, &str, usize, usize)> = Vec::new();
    for (name, verb, rows) in named {
        match verbs.iter_mut().find(|(_, known, ..)| known == verb) {
            Some((.., tests, sum)) => (*tests, *sum) = (*tests + 1, *sum + rows),
            None => verbs.push((name, verb, 1, *rows)),
        }
    }
    // "and 1 more" is no shorter than the name.
    let listed = if verbs.len() > SUBJECTS_MAX { SUBJECTS_MAX - 1 } else { verbs.len() };
    let (listed, rest) = verbs.split_at(listed);
    let listed = listed.iter().map(|(name, verb, tests, rows)| match tests {
        1 => (*name).to_owned(),
        _ => format!("{verb} ({rows} rows)"),
    });
    let listed = listed.collect::<Vec<_>>().join(", ");
    match rest.iter().map(|(.., rows)| rows).sum::<usize>() {
        0 => listed,
        rest => format!("{listed} and {rest} more"),
    }
}

/// The notes below the tables: `! rewrite: …`, `? stat: …`, `· fsync: …`, wrapped to the terminal's width.
pub(super) fn notes(phases: &[PhaseRecord], style: &Style) -> String {
    let paragraphs: Vec<_> = remarks(phases).iter().map(|remark| paragraph(remark, style)).collect();
    style.finish(paragraphs.join("\n"))
}

pub(super) fn paragraph(item: &Remark, style: &Style) -> String {
    let sign = match item.mark {
        Mark::Remark if item.is_knee => KNEE.to_owned(),
        Mark::Remark => "·".to_owned(),
        marked => paint(YELLOW, marked.sign()),
    };
    remark(&sign, &format!("{}: {}", item.subject, item.text), style)
}

/// Renders a sentence after a sign of one character, wrapped to the terminal's width.
pub(crate) fn remark(sign: &str, text: &str, style: &Style) -> String {
    let lines = wrap(&style.finish(text.to_owned()), style.paragraph() - 4);
    format!("  {sign} {}", lines.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::advice::Advice;
    use model::figure::Mean;

    #[test]
    fn every_mark_has_its_sentence() {
        insta::assert_snapshot!(sample::plain(&notes(&sample::problem_rows(), &sample::WIDE)));
    }

    #[test]
    fn equal_findings_are_printed_once() {
        let mut phases = sample::run().phases;
        for index in [0, 1, 3, 4, 5] {
            let threads = Finding::ThreadsForRing { depth: Count(32), threads: Count(1) };
            phases[index].judged.notes = vec![wording::note(threads, [])];
        }
        for phase in &mut phases[6..] {
            phase.judged.notes = vec![wording::note(Finding::InodeSearch {}, [Advice::WaitForInodes {}])];
        }
        insta::assert_snapshot!(sample::plain(&notes(&phases, &sample::NARROW)));
    }

    #[test]
    fn repetitions_are_listed_separately_if_they_differ() {
        let mut phases = sample::repeated();
        phases[2].figures.rate.ops_per_second = Some(910.0);
        phases[2].judged.notes = vec![wording::note(Finding::InodeSearch {}, [])];
        for index in [1, 3] {
            phases[index].judged.notes = vec![wording::note(Finding::NotCompared {}, [])];
        }
        let text = sample::plain(&notes(&phases, &sample::WIDE));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn findings_differing_only_in_figures_are_merged() {
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
        for (index, share) in [(0, 0.33), (1, 0.095), (2, 0.16)] {
            phases[index].judged.notes.push(sample::waited_for_cpu(share));
        }
        for phase in &mut phases[..8] {
            phase.judged.notes.push(wording::note(Finding::NotCompared {}, []));
        }
        let busy =
            |times| Finding::BusyMember { member: "sda".into(), times: Mean(times), array: "md0".into() };
        for phase in &mut phases[..5] {
            phase.judged.notes.push(wording::note(busy(3.0), []));
        }
        // Two findings on the same row remain two.
        phases[3].judged.notes.push(wording::note(busy(4.0), []));
        insta::assert_snapshot!(sample::plain(&notes(&phases, &sample::WIDE)));
    }

    #[test]
    fn phase_without_notes_is_blank() {
        let phase = sample::phase("read:rnd4k:q32t4");
        assert_eq!(notes(&[phase], &sample::WIDE), "");
    }
}
