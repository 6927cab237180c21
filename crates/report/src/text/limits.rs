//! The limits of the rows: evidence and advice, with one paragraph for all rows with the same result.

use model::Limiter;
use model::run::PhaseRecord;

use super::limiter;
use super::notes::subject;
use super::style::{DIM, Style, paint};
use super::table;
use super::wrap::{no_break, with_units, wrap};

/// Most sentences of evidence in a paragraph; the document and Markdown have all.
const SENTENCES_MAX: usize = 3;

/// A limiter, with all rows that share its paragraph.
pub(crate) struct Limit {
    /// The rows.
    pub rows: Vec<usize>,
    /// The tests, formatted by [`subject`].
    pub subject: String,
    /// The limiter, as text.
    pub head: String,
    /// Its confidence: "confirmed", "likely", or empty.
    pub confidence_text: &'static str,
    /// Evidence, layers of the I/O path, and advice.
    pub text: String,
}

/// Returns the limiters in the order of the rows, one for all rows that share a paragraph.
pub(crate) fn row_limits(phases: &[PhaseRecord]) -> Vec<Limit> {
    let limit = |rows: Vec<usize>| {
        let members: Vec<_> = rows.iter().map(|row| &phases[*row]).collect();
        let text = text(&members);
        if text.is_empty() {
            return None;
        }
        let confidence_text = limiter::confidence_text(members[0]).unwrap_or_default();
        Some(Limit { subject: subject(phases, &rows), head: head(members[0])?, confidence_text, text, rows })
    };
    grouped(phases).into_iter().filter_map(limit).collect()
}

/// Groups the rows that share a paragraph.
fn grouped(phases: &[PhaseRecord]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        if limiter::from_phase(phase).is_none() || table::missing_reason(phase).is_some() {
            continue;
        }
        match groups.iter_mut().find(|rows| can_share_line(&phases[rows[0]], phase)) {
            Some(rows) => rows.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

fn can_share_line(one: &PhaseRecord, other: &PhaseRecord) -> bool {
    let verdicts = one.judged.verdict.as_ref().zip(other.judged.verdict.as_ref());
    head(one) == head(other) && verdicts.is_some_and(|(one, other)| wording::are_alike_verdicts(one, other))
}

/// The limiter as text. For `Mixed`, this is only the title, because the evidence lists the parts with their shares.
fn head(phase: &PhaseRecord) -> Option<String> {
    match limiter::from_phase(phase)?.0 {
        limiter @ (Limiter::Mixed | Limiter::NotClear) => Some(limiter.title().to_owned()),
        _ => limiter::words(phase),
    }
}

/// The layers that a row's bytes crossed, if they changed anything, and the steps of its operations.
fn layers_and_steps(phase: &PhaseRecord) -> [Option<String>; 2] {
    let layer_path = wording::layer_path(phase)
        .filter(|layer_path| layer_path.changes_label)
        .map(|layer_path| layer_path.text);
    [layer_path, wording::steps(phase).map(|steps| format!("On average {steps}"))]
}

/// The strongest evidence and the advice, for rows that share a paragraph.
fn text(members: &[&PhaseRecord]) -> String {
    let verdicts: Vec<_> = members.iter().filter_map(|phase| phase.judged.verdict.as_ref()).collect();
    let mut sentences = vec![wording::why(&verdicts, SENTENCES_MAX)];
    // Several rows that share a paragraph each cross the layers in their own way.
    if let [only] = members {
        sentences.extend(layers_and_steps(only).into_iter().flatten());
    }
    let mut text: String = sentences.iter().map(|text| sentence(text)).collect();
    text.push_str(&wording::next_steps(&verdicts).map(|advice| sentence(&advice)).unwrap_or_default());
    text.trim_end().to_owned()
}

/// The paragraphs below the notes.
pub(super) fn limits(phases: &[PhaseRecord], style: &Style) -> String {
    let row_limits = row_limits(phases);
    let paragraphs = row_limits.iter().map(|limit| {
        let colour = limiter::cell(&phases[limit.rows[0]], usize::MAX).map_or(DIM, |(_, colour)| colour);
        paragraph(limit, colour, style)
    });
    style.finish(paragraphs.collect::<Vec<_>>().join("\n"))
}

/// Renders the limiter of each test and its evidence, one paragraph each, under the given names. Advice is left out,
/// because it is in the words of skye's own tests.
pub fn limited(rows: &[(&str, &PhaseRecord)], style: &Style) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 4;
    let paragraph = |(name, phase): &(&str, &PhaseRecord)| {
        let verdict: Vec<_> = phase.judged.verdict.iter().collect();
        let verdict_text = limiter::from_phase(phase).map(|_| {
            let words = limiter::words(phase).unwrap_or_default();
            let confidence_text =
                limiter::confidence_text(phase).map_or(String::new(), |word| format!(", {word}"));
            let why = Some(wording::why(&verdict, 1)).filter(|why| !why.is_empty());
            format!("{words}{confidence_text}{}", why.map_or(String::new(), |why| format!(": {why}")))
        });
        let text = with_units(&verdict_text.unwrap_or_else(|| wording::NO_LIMITER.to_owned()));
        let lines = wrap(&style.finish(text), style.paragraph().saturating_sub(width));
        format!("  {name:<0$}{1}", width - 2, lines.join(&format!("\n{:width$}", "")))
    };
    rows.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

/// Ends the text as a sentence, with a blank behind it; an empty text stays empty.
fn sentence(text: &str) -> String {
    let text = text.trim();
    match text.chars().last() {
        None => String::new(),
        Some('.' | '!' | '?') => format!("{text} "),
        Some(_) => format!("{text}. "),
    }
}

fn paragraph(limit: &Limit, colour: anstyle::Style, style: &Style) -> String {
    let head = style.finish(limit.head.clone());
    let confidence_text =
        if limit.confidence_text.is_empty() { String::new() } else { format!(", {}", limit.confidence_text) };
    let rest = with_units(&style.finish(format!("{confidence_text}: {}", limit.text)));
    let subject = style.finish(limit.subject.clone());
    let whole = format!("{subject}: {}{rest}", no_break(&head));
    let wrapped = wrap(&whole, style.paragraph() - 4).join("\n    ");
    // The head is on one line, and its first occurrence is the right one unless the subject contains it.
    format!("  {}", wrapped.replacen(&head, &paint(colour, &head), 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::advice::Advice;
    use model::figure::{Share, TimePart, Wait, WaitClass};
    use model::observation::Observation;
    use model::run::{CallUse, Confidence, Evidence, NetworkUse, SystemUse, Verdict};

    #[test]
    fn each_limiter_shows_evidence_and_advice() {
        insta::assert_snapshot!(sample::plain(&limits(&sample::run().phases, &sample::WIDE)));
    }

    #[test]
    fn limits_are_listed_under_given_row_names() {
        let run = sample::run();
        let rows: Vec<_> = ["Write blocks", "Rewrite", "Seeks"].into_iter().zip(&run.phases).collect();
        insta::assert_snapshot!(limited(&rows, &sample::WIDE));
        let mut unknown = run.phases[0].clone();
        unknown.judged.verdict = None;
        assert_eq!(limited(&[("Seeks", &unknown)], &sample::WIDE), "  Seeks  its limiter is unknown");
    }

    #[test]
    fn limits_fit_narrow_ascii_terminal() {
        let style = Style { has_unicode: false, ..sample::NARROW };
        let text = sample::plain(&limits(&sample::run().phases, &style));
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 60), "{text}");
    }

    #[test]
    fn rows_that_differ_in_figures_share_one_sentence() {
        let mut phases: Vec<_> = ["read:rnd4k", "write:rnd4k", "fsync"].map(sample::phase).into();
        for (phase, share) in phases.iter_mut().zip([0.91, 0.97]) {
            let seen = vec![
                sample::time(&[(TimePart::Kernel, share), (TimePart::User, 0.03)]),
                Observation::Ran { running_share: Share(share) },
            ];
            let verdict = Verdict::new(Limiter::KernelCpu, share, seen).advise([Advice::MoreThreads {}]);
            sample::limit(phase, verdict);
        }
        let text = sample::plain(&limits(&phases, &sample::WIDE));
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "  read, write: kernel CPU, likely: its threads spent 91 to 97 % of their time in the kernel, 3.0 %",
                "    in user space; its threads were runnable in 91 to 97 % of samples. Try more threads.",
            ]
        );
    }

    #[test]
    fn confirmed_device_limit_has_evidence() {
        let mut phase = sample::phase("read:seq1m:q8");
        let seen = vec![sample::time(&[(TimePart::Blocked, 0.97)]), Observation::VirtualDisk {}];
        sample::limit(&mut phase, Verdict::new(Limiter::DeviceBandwidth, 0.97, seen));
        let text = sample::plain(&limits(&[phase.clone()], &sample::WIDE));
        assert!(text.contains("97 % of their time asleep"), "{text}");
        phase.judged.verdict = None;
        assert_eq!(limits(&[phase], &sample::WIDE), "");
    }

    #[test]
    fn evidence_text_of_another_version_is_shown_verbatim() {
        let mut phase = sample::phase("read:seq1m:q8");
        let evidence = Evidence { budget: Some("the moon was full".into()), ..Evidence::default() };
        phase.judged.verdict = Some(Verdict {
            evidence: Some(evidence),
            advice: Some("Wait for the sun".into()),
            confidence: Some(Confidence::Confirmed),
            ..Verdict::new(Limiter::KernelCpu, 0.9, vec![Observation::Unknown])
        });
        let text = sample::plain(&limits(&[phase], &sample::WIDE));
        assert!(text.ends_with("kernel CPU, confirmed: the moon was full. Wait for the sun."), "{text}");
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut phase = sample::phase("read:seq1m:q8");
        let symbol = "asleep in \x1b[2J\n_dio\u{202e}".into();
        let seen = vec![
            sample::time(&[(TimePart::Blocked, 0.9)]),
            Observation::SleptIn { class: Wait(WaitClass::Lock), symbol, asleep_share: Share(0.9) },
        ];
        let advice = Advice::RaiseLimit { source: "\x07 Try".into() };
        sample::limit(&mut phase, Verdict::new(Limiter::LockContention, 0.9, seen).advise([advice]));
        let text = sample::plain(&limits(&[phase], &sample::WIDE));
        assert!(!text.chars().any(|c| c != '\n' && model::printable::affects_display(c)), "{text}");
    }

    #[test]
    fn byte_calls_are_merged_into_calls_and_requests() {
        let phase = sample::single_byte_phase();
        let path = wording::layer_path(&phase).unwrap();
        assert_eq!(
            path.text,
            "80,412,345 putc → 19,632 write calls of 4 KiB → 2,513 requests of 31.2 KiB to nvme0n1p2"
        );
        assert!(path.changes_label);
    }

    #[test]
    fn requests_passed_unchanged_are_not_notable() {
        let mut phase = sample::phase("read:rnd4k:q32t4");
        let path = wording::layer_path(&phase).unwrap();
        assert_eq!(
            (path.text.as_str(), path.changes_label),
            ("1,000,000 operations of 4 KiB → 1,000,000 requests of 4 KiB to nvme0n1p2", false)
        );
        phase.seen.device = None;
        assert_eq!(wording::layer_path(&phase), None);
    }

    #[test]
    fn unrelated_system_calls_are_left_out() {
        let mut phase = sample::phase("read:rnd4k:q32t4");
        let calls = CallUse {
            read_calls: 900,
            write_calls: 9,
            bytes_per_read_call: Some(300.0),
            bytes_per_write_call: None,
        };
        phase.seen.system = Some(SystemUse { calls: Some(calls), ..SystemUse::default() });
        assert!(!wording::layer_path(&phase).unwrap().text.contains("calls"));
    }

    #[test]
    fn network_traffic_is_shown_by_direction() {
        let mut phase = sample::phase("read:rnd4k");
        phase.seen.device = None;
        let network = NetworkUse {
            interface: "eth0".into(),
            sent_bytes: 1_200_000,
            received_bytes: 4_300_000_000,
            speed_bits_per_second: Some(1_000_000_000),
            ..NetworkUse::default()
        };
        phase.seen.system = Some(SystemUse { network: Some(network), ..SystemUse::default() });
        let path = wording::layer_path(&phase).unwrap();
        assert!(
            path.changes_label && path.text.ends_with("→ 1.2 MB sent, 4.3 GB received over eth0"),
            "{}",
            path.text
        );
    }
}
