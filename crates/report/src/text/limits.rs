//! What limited the rows: evidence and what to try, one paragraph for all rows of which the same is to be said.

use model::Limiter;
use model::run::{Confidence, Evidence, PhaseRecord};

use super::figures;
use super::limiter::{self, LIKELY};
use super::notes::subject;
use super::style::{Style, paint};
use super::wrap::{field, together, with_units, wrap};
use super::{layers, table};
use crate::printable;

/// Sentences of evidence that a paragraph has: the document and Markdown have all.
const SENTENCES_MAX: usize = 2;

/// What is to be told about one row, or several.
struct Told {
    /// The words that it is known by, and how surely.
    head: String,
    surely: &'static str,
    colour: anstyle::Style,
    /// Evidence, what crossed the layers, and advice.
    text: String,
    /// Rows with the same key are told as one.
    key: String,
}

/// What is told of some rows as one.
pub(crate) struct Limit {
    /// The rows.
    pub rows: Vec<usize>,
    /// The tests, as [`subject`] names them.
    pub subject: String,
    /// What limited them, in words.
    pub head: String,
    /// How surely: "confirmed", "likely", or nothing.
    pub surely: &'static str,
    /// Evidence, what crossed the layers, and advice.
    pub text: String,
}

/// What limited the rows, in their order, once for all of which the same is to be said.
pub(crate) fn told(phases: &[PhaseRecord]) -> Vec<Limit> {
    let limit = |(told, members): (Told, Vec<(usize, String)>)| {
        let (rows, texts): (Vec<usize>, Vec<&str>) =
            members.iter().map(|(index, text)| (*index, text.as_str())).unzip();
        let (subject, text) = (subject(phases, &rows), figures::merged(&texts));
        Limit { rows, subject, head: told.head, surely: told.surely, text }
    };
    grouped(phases).into_iter().map(limit).collect()
}

fn grouped(phases: &[PhaseRecord]) -> Vec<(Told, Vec<(usize, String)>)> {
    let mut grouped: Vec<(Told, Vec<(usize, String)>)> = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        let Some(told) = of_row(phase) else { continue };
        let member = (index, told.text.clone());
        match grouped.iter_mut().find(|(first, _)| first.key == told.key) {
            Some((_, members)) => members.push(member),
            None => grouped.push((told, vec![member])),
        }
    }
    grouped
}

/// The paragraphs beneath the notes, with a line before them that says what the sign in the table means.
pub fn limits(phases: &[PhaseRecord], style: &Style) -> String {
    let mut lines: Vec<_> = legend(phases).map(|text| field("limits", &text, style)).into_iter().collect();
    lines.extend(grouped(phases).into_iter().map(|(told, members)| {
        let (rows, texts): (Vec<usize>, Vec<&str>) =
            members.iter().map(|(index, text)| (*index, text.as_str())).unzip();
        paragraph(&told, &subject(phases, &rows), &figures::merged(&texts), style)
    }));
    style.finish(lines.join("\n"))
}

/// What limited each of some tests and by which evidence, a paragraph each, under names that they have elsewhere. Nothing
/// of what to try: that is in the words of skye's own tests.
pub fn limited(rows: &[(&str, &PhaseRecord)], style: &Style) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 4;
    let paragraph = |(name, phase): &(&str, &PhaseRecord)| {
        let evidence = phase.verdict.as_ref().and_then(|verdict| verdict.evidence.as_ref());
        let told = limiter::of(phase).map(|(limiter, _)| {
            let words = limiter::words(phase).unwrap_or_default();
            let surely = limiter::surely(phase).map_or(String::new(), |word| format!(", {word}"));
            let why = telling(limiter, evidence)
                .first()
                .map_or(String::new(), |text| format!(": {}", clause(text)));
            format!("{words}{surely}{why}")
        });
        let text = with_units(&told.unwrap_or_else(|| "nothing is known of what limited it".to_owned()));
        let lines = wrap(&style.finish(text), style.paragraph().saturating_sub(width));
        format!("  {name:<0$}{1}", width - 2, lines.join(&format!("\n{:width$}", "")))
    };
    rows.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

/// What the sign means, and where more is told; `None` where no row has a limiter.
fn legend(phases: &[PhaseRecord]) -> Option<String> {
    let shown: Vec<_> = phases.iter().filter(|phase| table::missing_reason(phase).is_none()).collect();
    let limiters = || shown.iter().filter_map(|phase| Some(limiter::of(phase)?.0));
    // Of the device, least needs to be explained.
    let example =
        limiters().find(|limiter| !limiter::is_of_device(*limiter)).or_else(|| limiters().next())?;
    let has = |word| shown.iter().any(|phase| limiter::surely(phase) == Some(word));
    let sign = match (has("likely"), has("confirmed")) {
        (true, true) => format!("{LIKELY} is likely (two kinds of evidence), no sign is confirmed (three)"),
        (true, false) => format!("{LIKELY} is likely: two kinds of evidence agree, not three"),
        (false, _) => "what they mean".to_owned(),
    };
    Some(format!("{sign} · {}", together(&format!("skye explain {}", example.code()))))
}

fn of_row(phase: &PhaseRecord) -> Option<Told> {
    let (limiter, _) = limiter::of(phase)?;
    let verdict = phase.verdict.as_ref()?;
    if table::missing_reason(phase).is_some() {
        return None;
    }
    let advice = verdict.advice.as_deref().map(printable).filter(|advice| !advice.trim().is_empty());
    // The device's own limit is what was to be measured; beyond that there is only what else to try.
    let is_device = matches!(limiter, Limiter::DeviceBandwidth | Limiter::DeviceOps)
        && verdict.confidence == Some(Confidence::Confirmed);
    // Where there are several, it is their shares that tell.
    let is_shared = matches!(limiter, Limiter::Mixed | Limiter::NotClear);
    let mut sentences = Vec::new();
    if is_shared {
        sentences.extend(Some(limiter::ranking(verdict)).filter(|ranking| !ranking.is_empty()));
    }
    if !is_device {
        sentences.extend(telling(limiter, verdict.evidence.as_ref()).into_iter().map(|text| clause(&text)));
    }
    let mut text = sentences.join("; ");
    if let Some(crossed) = layers::crossed(phase).filter(|crossed| crossed.tells && !is_device) {
        text = sentence(&text) + &format!("{}. ", crossed.text);
    }
    if let Some(steps) = layers::steps(phase).filter(|_| !is_device) {
        text = sentence(&text) + &format!("On average {steps}. ");
    }
    text = sentence(&text) + &advice.map(|advice| sentence(&advice)).unwrap_or_default();
    let text = text.trim_end().to_owned();
    if text.is_empty() {
        return None;
    }
    let head = if is_shared { limiter.title().to_owned() } else { limiter::words(phase)? };
    let surely = limiter::surely(phase).unwrap_or_default();
    let colour = limiter::cell(phase, usize::MAX)?.2;
    let key = format!("{head}\0{surely}\0{}", figures::pattern(&text));
    Some(Told { head, surely, colour, text, key })
}

/// The sentences that say most about such a limiter.
fn telling(limiter: Limiter, evidence: Option<&Evidence>) -> Vec<String> {
    let Some(Evidence { budget, wait_site, counters, visible_cap, ceiling, probe }) = evidence else {
        return Vec::new();
    };
    let by_weight = match limiter {
        // Where the time of threads went is what such a limit is.
        Limiter::ClientCpu
        | Limiter::KernelCpu
        | Limiter::CpuSaturated
        | Limiter::CpuContention
        | Limiter::CpuQuota
        | Limiter::HypervisorSteal => [budget, counters, ceiling, probe, wait_site, visible_cap],
        // Only the counters tell what reached the device, and whose it was.
        Limiter::PageCache
        | Limiter::PageCacheAbsorbed
        | Limiter::MetadataCache
        | Limiter::MemoryPressure
        | Limiter::NoisyNeighbour
        | Limiter::HelperCpu => [counters, budget, ceiling, wait_site, probe, visible_cap],
        Limiter::BenchmarkItself => [ceiling, budget, counters, probe, wait_site, visible_cap],
        Limiter::DirtyThrottling | Limiter::FsyncJournal | Limiter::LockContention => {
            [wait_site, probe, counters, budget, visible_cap, ceiling]
        }
        _ => [visible_cap, probe, wait_site, counters, budget, ceiling],
    };
    by_weight.into_iter().flatten().take(SENTENCES_MAX).map(|text| printable(text)).collect()
}

/// The sentence without the full stop at its end.
fn clause(text: &str) -> String {
    text.trim().trim_end_matches('.').to_owned()
}

/// The text as whole sentences, with a blank behind it; nothing stays nothing.
fn sentence(text: &str) -> String {
    let text = text.trim();
    match text.chars().last() {
        None => String::new(),
        Some('.' | '!' | '?') => format!("{text} "),
        Some(_) => format!("{text}. "),
    }
}

fn paragraph(told: &Told, subject: &str, text: &str, style: &Style) -> String {
    let head = style.finish(told.head.clone());
    let surely = if told.surely.is_empty() { String::new() } else { format!(", {}", told.surely) };
    let rest = with_units(&style.finish(format!("{surely}: {text}")));
    let subject = style.finish(subject.to_owned());
    let whole = format!("{subject}: {}{rest}", together(&head));
    let shown = wrap(&whole, style.paragraph() - 4).join("\n    ");
    // It is on one line, and stands first where the subject does not contain it.
    format!("  {}", shown.replacen(&head, &paint(told.colour, &head), 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::run::Confidence;

    #[test]
    fn each_limiter_has_its_evidence_and_what_to_try() {
        insta::assert_snapshot!(sample::plain(&limits(&sample::run().phases, &sample::WIDE)));
    }

    #[test]
    fn each_is_told_under_another_name() {
        let run = sample::run();
        let rows: Vec<_> = ["Write blocks", "Rewrite", "Seeks"].into_iter().zip(&run.phases).collect();
        insta::assert_snapshot!(limited(&rows, &sample::WIDE));
        let mut unknown = run.phases[0].clone();
        unknown.verdict = None;
        assert_eq!(
            limited(&[("Seeks", &unknown)], &sample::WIDE),
            "  Seeks  nothing is known of what limited it"
        );
    }

    #[test]
    fn a_narrow_terminal_without_unicode() {
        let style = Style { unicode: false, ..sample::NARROW };
        let text = sample::plain(&limits(&sample::run().phases, &style));
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 60), "{text}");
    }

    #[test]
    fn rows_that_differ_in_figures_are_told_as_one() {
        let mut phases: Vec<_> = ["read:rnd4k", "write:rnd4k", "fsync"].map(sample::phase).into();
        for (phase, share) in phases.iter_mut().zip(["91", "97"]) {
            let budget = format!("its threads were {share} % of their time in the kernel.");
            let evidence = Evidence { budget: Some(budget), ..Evidence::default() };
            sample::limit(phase, Limiter::KernelCpu, Confidence::Likely, evidence, Some("Try more threads"));
        }
        let text = sample::plain(&limits(&phases, &sample::WIDE));
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            [
                "  read, write: kernel CPU, likely: its threads were 91 to 97 % of their time in the kernel. Try",
                "    more threads."
            ]
        );
    }

    #[test]
    fn the_device_alone_needs_no_words() {
        let mut phase = sample::phase("read:seq1m:q8");
        let evidence = Evidence { probe: Some("more depth bought nothing".into()), ..Evidence::default() };
        sample::limit(&mut phase, Limiter::DeviceBandwidth, Confidence::Confirmed, evidence, None);
        let text = sample::plain(&limits(&[phase.clone()], &sample::WIDE));
        assert_eq!(text, "  limits   what they mean · skye explain device_bandwidth");
        phase.verdict = None;
        assert_eq!(limits(&[phase], &sample::WIDE), "");
    }

    #[test]
    fn what_others_wrote_is_shown_not_obeyed() {
        let mut phase = sample::phase("read:seq1m:q8");
        let evidence =
            Evidence { wait_site: Some("asleep in \x1b[2J\n_dio\u{202e}".into()), ..Evidence::default() };
        sample::limit(&mut phase, Limiter::LockContention, Confidence::Likely, evidence, Some("\x07 Try"));
        let text = sample::plain(&limits(&[phase], &sample::WIDE));
        assert!(!text.chars().any(|c| c != '\n' && model::printable::acts(c)), "{text}");
    }
}
