//! Words of verdicts: evidence by source, shares, and the steps to try. They cover one row, or several in one
//! paragraph.

use model::Limiter;
use model::advice::Advice;
use model::figure::Figures;
use model::numbers::percent;
use model::observation::{Observation, Source};
use model::printable::printable;
use model::run::{Confidence, Evidence, OperationVerdict, RankedLimiter, Verdict};

use crate::limiter_help::LimiterHelp;
use crate::{advice, is_alike, observation, template};

/// Text for a row without a known limiter.
pub const NO_LIMITER: &str = "its limiter is unknown";

/// Returns true if one sentence each can cover both lists.
fn all_alike<T: Figures>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
}

/// Returns true if another version made a verdict, so that some of it is known here only in words.
fn is_unknown(verdict: &Verdict) -> bool {
    verdict.observations.is_empty()
        || verdict.observations.contains(&Observation::Unknown)
        || verdict.contradicting.contains(&Observation::Unknown)
}

/// Returns true if one paragraph can cover both verdicts.
pub fn are_alike_verdicts(one: &Verdict, other: &Verdict) -> bool {
    let limiters = |verdict: &Verdict| verdict.ranking.iter().map(|part| part.limiter).collect::<Vec<_>>();
    let is_shared = matches!(one.limiter, Some(Limiter::Mixed | Limiter::NotClear));
    let has_words = |verdict: &Verdict| is_unknown(verdict) || verdict.next.contains(&Advice::Unknown);
    (one.limiter, one.confidence) == (other.limiter, other.confidence)
        && (!is_shared || limiters(one) == limiters(other))
        && all_alike(&one.observations, &other.observations)
        && all_alike(&one.contradicting, &other.contradicting)
        && all_alike(&one.next, &other.next)
        && (!has_words(one) && !has_words(other)
            || (&one.evidence, &one.advice) == (&other.evidence, &other.advice))
}

/// Returns the sentences from one source of evidence, for one verdict or several that are alike.
fn sentences(all: &[&Verdict], source: Source) -> Vec<String> {
    let Some(first) = all.first() else { return Vec::new() };
    if is_unknown(first) {
        let words = first.evidence.as_ref().and_then(|evidence| foreign_words(evidence, source));
        return words.map(|text| printable(text.trim().trim_end_matches('.'))).into_iter().collect();
    }
    let of = |list: fn(&Verdict) -> &[Observation], before: &str| -> Vec<String> {
        let indices = list(first).iter().enumerate().filter(|(_, one)| one.source() == Some(source));
        let sentences = indices.map(|(index, _)| {
            let alike: Vec<_> = all.iter().filter_map(|verdict| list(verdict).get(index)).collect();
            format!("{before}{}", observation(&alike))
        });
        sentences.collect()
    };
    let mut sentences = of(|verdict| &verdict.observations, "");
    sentences.extend(of(|verdict| &verdict.contradicting, "but "));
    sentences
}

/// Returns all sentences from one source of evidence, without a full stop; `None` where there are none.
pub fn evidence(all: &[&Verdict], source: Source) -> Option<String> {
    Some(sentences(all, source).join("; ")).filter(|text| !text.is_empty())
}

/// Returns the reason of one verdict, or of several that are alike, without a full stop. It has the shares of a mix,
/// and the evidence that says most, in at most `sentences_max` sentences.
pub fn why(all: &[&Verdict], sentences_max: usize) -> String {
    let Some(limiter) = all.first().and_then(|verdict| verdict.limiter) else { return String::new() };
    let by_weight = LimiterHelp::from_limiter(limiter).map_or(&[][..], |about| about.by_weight);
    let shares = matches!(limiter, Limiter::Mixed | Limiter::NotClear).then(|| ranking(all));
    let evidence = by_weight.iter().flat_map(|source| sentences(all, *source)).take(sentences_max);
    let parts = shares.into_iter().filter(|shares| !shares.is_empty()).chain(evidence);
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns the words of another version.
fn foreign_words(evidence: &Evidence, source: Source) -> Option<&str> {
    match source {
        Source::Budget => evidence.budget.as_deref(),
        Source::WaitChannel => evidence.wait_channel.as_deref(),
        Source::Counters => evidence.counters.as_deref(),
        Source::VisibleCap => evidence.visible_cap.as_deref(),
        Source::Ceiling => evidence.ceiling.as_deref(),
        Source::Probe => evidence.probe.as_deref(),
    }
}

/// Returns the steps that one verdict, or several that are alike, advise to try; `None` where there is nothing to try.
pub fn next_steps(all: &[&Verdict]) -> Option<String> {
    let first = all.first()?;
    if first.next.is_empty() || first.next.contains(&Advice::Unknown) {
        return first.advice.as_deref().map(printable);
    }
    let sentences = (0..first.next.len()).map(|index| {
        let alike: Vec<_> = all.iter().filter_map(|verdict| verdict.next.get(index)).collect();
        advice(&alike)
    });
    Some(sentences.collect::<Vec<_>>().join(" "))
}

/// Formats the limiters with their shares, for one verdict or several that are alike: "device latency 92 %, kernel CPU
/// 6 %". The text is empty where one limiter has it all.
pub fn ranking(all: &[&Verdict]) -> String {
    let ranked = all.first().map_or(&[][..], |verdict| &verdict.ranking);
    if ranked.len() < 2 {
        return String::new();
    }
    let parts = ranked.iter().enumerate().map(|(index, RankedLimiter { limiter, .. })| {
        let shares = all.iter().filter_map(|verdict| Some(verdict.ranking.get(index)?.share));
        format!("{} {}", limiter.title(), template::shares(shares))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the limiter of a mix's operation, its share of the time, and the evidence, without a full stop. Example: "72 % of
/// the time, commit / flush (likely): its threads waited for a commit or flush in 83 % of 412 samples
/// (jbd2_log_wait_commit)".
pub fn operation(verdict: &OperationVerdict) -> String {
    operation_text(verdict, true)
}

/// Same as [`operation`] for all operations of a test. Only the first text includes the time of awake threads, which is
/// the same for all.
pub fn operations(verdicts: &[OperationVerdict]) -> Vec<String> {
    let shows = |verdict: &OperationVerdict| verdict.observations.iter().any(covers_all_operations);
    let first = verdicts.iter().position(shows);
    verdicts.iter().enumerate().map(|(at, verdict)| operation_text(verdict, first == Some(at))).collect()
}

fn covers_all_operations(seen: &Observation) -> bool {
    matches!(seen, Observation::AwakeSpent { .. })
}

fn operation_text(verdict: &OperationVerdict, has_all: bool) -> String {
    let likely = if verdict.confidence == Confidence::Likely { " (likely)" } else { "" };
    let parts = verdict.ranking.iter().take(2);
    let parts: Vec<_> =
        parts.map(|part| format!("{} {}", part.limiter.title(), percent(part.share))).collect();
    let title = verdict.limiter.title();
    let title = match verdict.limiter {
        Limiter::Mixed => format!("{title}: {}", parts.join(", ")),
        _ => title.to_owned(),
    };
    let evidence = evidence_of(verdict, has_all).map_or(String::new(), |evidence| format!(": {evidence}"));
    let time = percent(verdict.time_share);
    format!("{time} of the time, {title}{likely}{evidence}")
}

/// Returns the evidence for the limiter of an operation, without a full stop; `None` where there is none.
fn evidence_of(verdict: &OperationVerdict, has_all: bool) -> Option<String> {
    if verdict.observations.contains(&Observation::Unknown) {
        return verdict.evidence.as_deref().map(printable);
    }
    let sentences = verdict.observations.iter().filter(|seen| has_all || !covers_all_operations(seen));
    let sentences = sentences.map(|seen| observation(&[seen]));
    Some(sentences.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// Returns a clause about a verdict: "device latency (likely)".
pub fn verdict_clause(verdict: &Verdict) -> String {
    let title = verdict.limiter.unwrap_or(Limiter::NotClear).title();
    match verdict.confidence {
        Some(Confidence::Likely) => format!("{title} (likely)"),
        _ => title.to_owned(),
    }
}

/// Returns a paragraph about a verdict: the limiter, the reason in at most `sentences_max` sentences, and the steps to
/// try.
pub fn verdict_paragraph(verdict: &Verdict, sentences_max: usize) -> String {
    let reason = Some(why(&[verdict], sentences_max)).filter(|reason| !reason.is_empty());
    let text = [Some(verdict_clause(verdict)), reason].into_iter().flatten().collect::<Vec<_>>().join(": ");
    [Some(format!("{text}.")), next_steps(&[verdict])].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Fills the strings of a verdict from its evidence.
pub(crate) fn fill(verdict: &mut Verdict) {
    let of = |source| evidence(&[verdict], source);
    let texts = Evidence {
        budget: of(Source::Budget),
        wait_channel: of(Source::WaitChannel),
        counters: of(Source::Counters),
        visible_cap: of(Source::VisibleCap),
        ceiling: of(Source::Ceiling),
        probe: of(Source::Probe),
    };
    for operation in &mut verdict.operations {
        operation.evidence = evidence_of(operation, true);
    }
    verdict.advice = next_steps(&[verdict]);
    verdict.evidence = verdict.limiter.map(|_| texts);
}
