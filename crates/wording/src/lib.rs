//! Writes findings, verdicts, advice and the checks of a machine in English. No other crate does.
//!
//! Invariants:
//! - A sentence is a template of its kind, with the kind's own figures: nothing else is read, nothing is parsed.
//! - Each kind has a clause of at most [`CLAUSE_MAX`] characters and a sentence. A paragraph is the sentence and the
//!   advice.
//! - A kind that this version does not know keeps the words of its document.
//! - Names that others chose, such as those of devices, are shown and never obeyed.

mod advice;
mod cold;
mod columns;
pub mod comparison;
pub mod exit_codes;
mod findings;
pub mod fitness;
pub mod glossary;
mod layers;
pub mod limiter_help;
mod observations;
mod template;
mod units;
mod verdicts;

use model::advice::Advice;
use model::figure::Figures;
use model::finding::Finding;
use model::numbers::amount;
use model::observation::Observation;
use model::printable::printable;
use model::run::{Note, PhaseRecord, Scores};

pub use cold::cold_reads;
pub use columns::{COLUMNS, CSV_LONG_RULES, CSV_RULES, LONG_COLUMNS, column_meaning};
pub use findings::{FINDING_HELP, FindingHelp};
pub use layers::{LayerPath, calls, layer_path, steps};
pub use units::unit;
pub use verdicts::{
    NO_LIMITER, are_alike_verdicts, evidence, next_steps, operation, operations, ranking, verdict_clause,
    verdict_paragraph, why,
};

/// Note under the clients of a run that has too many for the screen.
pub const SLOWEST_CLIENTS: &str =
    "Each test lists its slowest clients. --json FILE has all, and --html FILE also draws the fastest.";

/// Longest clause, in characters: it has to fit into a cell of a table.
pub const CLAUSE_MAX: usize = 40;

/// Returns the scores of a run by IO500's arithmetic: "1.1 GiB/s of bandwidth, …".
pub fn scores(scores: &Scores) -> String {
    let number = |value: f64| amount(value).unwrap_or_else(|| "0".into());
    format!(
        "{} GiB/s of bandwidth, {} kIOPS of metadata, score {} by IO500's arithmetic. Not an IO500 submission: sizes and \
         times are yours",
        number(scores.bandwidth_gib_per_second),
        number(scores.metadata_kiops),
        number(scores.score)
    )
}

/// Returns a clause about a finding: "foreign I/O on the device".
pub fn clause(finding: &Finding) -> &'static str {
    findings::words(finding).0
}

/// Returns a sentence about a finding of one row or several, without a full stop. Example: "31 to 40 % of the bytes on
/// vda were not this test's".
///
/// It leaves out findings of other kinds than the first, or about other things.
pub fn sentence(all: &[&Finding]) -> String {
    filled_sentence(all, |finding| findings::words(finding).1)
}

/// Returns a sentence about an observation of one row or several, as [`sentence`] does.
pub fn observation(all: &[&Observation]) -> String {
    filled_sentence(all, observations::words)
}

/// Returns a sentence of advice for one row or several, with a full stop.
pub fn advice(all: &[&Advice]) -> String {
    filled_sentence(all, advice::words)
}

/// Fills the template of the first with the figures of all that are like it.
fn filled_sentence<T: Figures>(all: &[&T], words: fn(&T) -> &'static str) -> String {
    let Some(first) = all.first() else { return String::new() };
    let figures: Vec<_> =
        all.iter().filter(|other| is_alike(*first, **other)).map(|one| one.figures()).collect();
    template::filled(words(first), &figures)
}

/// Returns the sentence about findings and the advice on them, each with its full stop.
pub fn paragraph(all: &[&Finding], next: &[Advice]) -> String {
    let sentences =
        std::iter::once(format!("{}.", sentence(all))).chain(next.iter().map(|next| advice(&[next])));
    sentences.collect::<Vec<_>>().join(" ")
}

/// Returns the text of a note, or of several that are alike.
pub fn text_of_notes(all: &[&Note]) -> String {
    match all.first() {
        None => String::new(),
        Some(first) if is_unknown(first) => printable(&first.text),
        Some(first) => paragraph(&all.iter().map(|note| &note.finding).collect::<Vec<_>>(), &first.advice),
    }
}

/// Returns true if one paragraph can cover both notes.
pub fn are_alike(one: &Note, other: &Note) -> bool {
    is_alike(&one.finding, &other.finding)
        && (one.mark, &one.advice) == (other.mark, &other.advice)
        && (!is_unknown(one) || one.text == other.text)
}

/// Returns true if another version made a note, so that only its words are known here.
fn is_unknown(note: &Note) -> bool {
    note.finding == Finding::Unknown || note.advice.contains(&Advice::Unknown)
}

/// Returns true if one sentence can cover both: they are of the same kind, and about the same things.
pub(crate) fn is_alike<T: Figures>(one: &T, other: &T) -> bool {
    let names = |kind: &T| -> Vec<String> {
        let names_of_kind = kind.figures().into_iter().filter(|(_, figure)| figure.is_name());
        names_of_kind.map(|(_, figure)| template::name_text(&figure)).collect()
    };
    std::mem::discriminant(one) == std::mem::discriminant(other) && names(one) == names(other)
}

/// Makes a note on a finding, with its words.
pub fn note(finding: Finding, advice: impl IntoIterator<Item = Advice>) -> Note {
    let note = Note::new(finding, advice.into_iter().collect());
    Note { text: text_of_notes(&[&note]), ..note }
}

/// Fills the strings of a record's document from its findings.
pub fn fill(record: &mut PhaseRecord) {
    for note in record.judged.notes.iter_mut().filter(|note| !is_unknown(note)) {
        note.text = text_of_notes(&[note]);
    }
    if let Some(verdict) = &mut record.judged.verdict {
        verdicts::fill(verdict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_has_clause_and_sentence_with_its_quantities() {
        for finding in Finding::all_kinds() {
            let (clause, sentence) = (clause(&finding), sentence(&[&finding]));
            assert!((1..=CLAUSE_MAX).contains(&clause.chars().count()), "{clause}");
            for text in [clause, &sentence] {
                assert!(!text.contains(['{', '}']) && !text.ends_with('.'), "{text}");
            }
            // The template has the name of each figure.
            for (name, _) in finding.figures() {
                let template = findings::words(&finding).1;
                let has_placeholder = [format!("{{{name}}}"), format!("{{{name}:")]
                    .iter()
                    .any(|placeholder| template.contains(placeholder));
                // Mount points and file systems may appear in the advice alone.
                assert!(
                    has_placeholder || name == "mount_point" || name == "file_system",
                    "{template}: {name}"
                );
            }
        }
    }

    #[test]
    fn help_has_mark_of_each_finding_in_code_order() {
        let mut codes = Finding::CODES.to_vec();
        codes.dedup();
        assert!(FINDING_HELP.iter().map(|about| about.code).eq(codes));
        for finding in Finding::all_kinds() {
            let sign = finding.grade().mark().sign();
            let about = FINDING_HELP.iter().find(|about| about.code == finding.code()).unwrap();
            assert!(about.mark.contains(sign), "{finding:?}");
        }
    }

    #[test]
    fn observation_sentence_contains_each_quantity() {
        for seen in Observation::all_kinds() {
            let (text, template) = (observation(&[&seen]), observations::words(&seen));
            assert!(!text.is_empty() && !text.contains(['{', '}']) && !text.ends_with('.'), "{text}");
            for (name, _) in seen.figures() {
                assert!(
                    template.contains(&format!("{{{name}}}")) || name == "experiment",
                    "{template}: {name}"
                );
            }
        }
    }

    #[test]
    fn each_kind_of_advice_is_a_sentence() {
        for next in Advice::all_kinds() {
            let text = advice(&[&next]);
            assert!(text.ends_with(['.', '?']) && text.starts_with(char::is_uppercase), "{text}");
            assert!(!text.contains(['{', '}']), "{text}");
        }
    }

    #[test]
    fn unknown_finding_keeps_original_text() {
        let json = r#"{ "mark": "remark", "code": "new", "text": "the moon was full", "finding": { "kind": "moon", "x": 1 } }"#;
        let newer: Note = serde_json::from_str(json).unwrap();
        let other_figures = r#"{ "mark": "remark", "code": "fell_behind", "text": "too slow", "advice": [{ "kind": "sing" }],
            "finding": { "kind": "fell_behind", "missed": 3 } }"#;
        let changed: Note = serde_json::from_str(other_figures).unwrap();
        let without_share = other_figures.replace("fell_behind\", \"missed\": 3", "steal\"");
        let lacks: Note = serde_json::from_str(&without_share).unwrap();
        assert_eq!([text_of_notes(&[&changed]), text_of_notes(&[&lacks])], ["too slow", "too slow"]);
        let older: Note =
            serde_json::from_str(r#"{ "mark": "remark", "code": "old", "text": "it was slow" }"#).unwrap();
        assert_eq!(
            [text_of_notes(&[&newer]), text_of_notes(&[&older])],
            ["the moon was full", "it was slow"]
        );
        assert!(!are_alike(&newer, &older) && are_alike(&older, &older));
    }

    #[test]
    fn findings_of_one_kind_are_merged_in_one_sentence() {
        use model::figure::{LatencyNs, Share};
        let waited = |share| Finding::WaitedForCpu { waited_share: Share(share) };
        let (one, other) = (waited(0.31), waited(0.095));
        assert_eq!(sentence(&[&one, &other]), "its threads waited for a CPU for 9.5 to 31 % of their time");
        let p99 = |ns, whole| Finding::P99Waited { wait_ns: LatencyNs(ns), whole_ns: LatencyNs(whole) };
        assert_eq!(
            sentence(&[&p99(900_000, 2_000_000), &p99(1_200_000, 2_000_000)]),
            "operations started late: p99 wait 900 µs to 1.20 ms, p99 latency 2.00 ms"
        );
        let foreign = |device: &str| Finding::ForeignIo { foreign_share: Share(0.3), device: device.into() };
        assert!(!is_alike(&foreign("sda"), &foreign("sdb")), "two devices are two things");
        assert!(is_alike(
            &foreign("sda"),
            &Finding::ForeignIo { foreign_share: Share(0.4), device: "sda".into() }
        ));
    }

    #[test]
    fn foreign_names_are_escaped_and_not_interpolated() {
        let device = "sd\x1b[2Ja{share}";
        let text = sentence(&[&Finding::ForeignIo {
            foreign_share: model::figure::Share(0.3),
            device: device.into(),
        }]);
        assert!(!text.chars().any(model::printable::affects_display) && text.contains("a{share}"), "{text}");
    }
}
