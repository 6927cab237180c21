//! Words of verdicts: evidence by source, shares, and the steps to try; of one row, or of several in one paragraph.

use model::Limiter;
use model::advice::Advice;
use model::figure::Figures;
use model::observation::{Observation, Source};
use model::printable::printable;
use model::run::{Confidence, Evidence, Ranked, Verdict};

use crate::{advice, is_alike, observation, template};

/// Whether one sentence each can be made of all of both.
fn all_alike<T: Figures>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
}

/// Whether one paragraph can tell of both verdicts.
pub fn are_alike_verdicts(one: &Verdict, other: &Verdict) -> bool {
    let is_in_words = |verdict: &Verdict| {
        verdict.observations.is_empty()
            || verdict.observations.contains(&Observation::InWords)
            || verdict.contrary.contains(&Observation::InWords)
            || verdict.next.contains(&Advice::InWords)
    };
    let limiters = |verdict: &Verdict| verdict.ranking.iter().map(|part| part.limiter).collect::<Vec<_>>();
    let is_shared = matches!(one.limiter, Some(Limiter::Mixed | Limiter::NotClear));
    (one.limiter, one.confidence) == (other.limiter, other.confidence)
        && (!is_shared || limiters(one) == limiters(other))
        && all_alike(&one.observations, &other.observations)
        && all_alike(&one.contrary, &other.contrary)
        && all_alike(&one.next, &other.next)
        && (!is_in_words(one) && !is_in_words(other)
            || (&one.evidence, &one.advice) == (&other.evidence, &other.advice))
}

/// The sentence from one source of evidence, of one verdict or several that are alike; `None` where it says nothing.
pub fn evidence(all: &[&Verdict], source: Source) -> Option<String> {
    let first = all.first()?;
    let of = |list: fn(&Verdict) -> &[Observation], before: &str| -> Vec<String> {
        let indices = list(first).iter().enumerate().filter(|(_, one)| one.source() == Some(source));
        let sentences = indices.map(|(index, _)| {
            let alike: Vec<_> = all.iter().filter_map(|verdict| list(verdict).get(index)).collect();
            format!("{before}{}", observation(&alike))
        });
        sentences.collect()
    };
    let mut sentences = of(|verdict| &verdict.observations, "");
    sentences.extend(of(|verdict| &verdict.contrary, "but "));
    match sentences.is_empty() {
        // A document of another version has words alone.
        true => first.evidence.as_ref().and_then(|evidence| in_words(evidence, source)).map(printable),
        false => Some(sentences.join("; ")),
    }
}

/// The evidence that says most about a limiter, of one verdict or several that are alike: at most so many sentences, without
/// a full stop.
pub fn telling(all: &[&Verdict], sentences_max: usize) -> Vec<String> {
    use Source::*;
    let Some(limiter) = all.first().and_then(|verdict| verdict.limiter) else { return Vec::new() };
    let by_weight = match limiter {
        // Such a limit is where the time of threads went.
        Limiter::ClientCpu
        | Limiter::KernelCpu
        | Limiter::CpuSaturated
        | Limiter::CpuContention
        | Limiter::CpuQuota
        | Limiter::HypervisorSteal => [Budget, Counters, Ceiling, Probe, WaitChannel, VisibleCap],
        // Only the counters tell what reached the device, and whose it was.
        Limiter::PageCache
        | Limiter::PageCacheAbsorbed
        | Limiter::MetadataCache
        | Limiter::MemoryPressure
        | Limiter::NoisyNeighbour
        | Limiter::HelperCpu => [Counters, Budget, Ceiling, WaitChannel, Probe, VisibleCap],
        Limiter::BenchmarkItself => [Ceiling, Budget, Counters, Probe, WaitChannel, VisibleCap],
        Limiter::DirtyThrottling | Limiter::FsyncJournal | Limiter::LockContention => {
            [WaitChannel, Probe, Counters, Budget, VisibleCap, Ceiling]
        }
        _ => [VisibleCap, Probe, WaitChannel, Counters, Budget, Ceiling],
    };
    let sentences = by_weight.into_iter().filter_map(|source| evidence(all, source));
    let clause = |text: String| text.trim().trim_end_matches('.').to_owned();
    sentences.map(clause).take(sentences_max).collect()
}

/// The words of another version.
fn in_words(evidence: &Evidence, source: Source) -> Option<&str> {
    match source {
        Source::Budget => evidence.budget.as_deref(),
        Source::WaitChannel => evidence.wait_channel.as_deref(),
        Source::Counters => evidence.counters.as_deref(),
        Source::VisibleCap => evidence.visible_cap.as_deref(),
        Source::Ceiling => evidence.ceiling.as_deref(),
        Source::Probe => evidence.probe.as_deref(),
    }
}

/// The steps that one verdict, or several that are alike, advise to try; `None` where there is nothing to try.
pub fn next_steps(all: &[&Verdict]) -> Option<String> {
    let first = all.first()?;
    if first.next.is_empty() || first.next.contains(&Advice::InWords) {
        return first.advice.as_deref().map(printable);
    }
    let sentences = (0..first.next.len()).map(|index| {
        let alike: Vec<_> = all.iter().filter_map(|verdict| verdict.next.get(index)).collect();
        advice(&alike)
    });
    Some(sentences.collect::<Vec<_>>().join(" "))
}

/// The limiters with their shares, of one verdict or several that are alike: "device latency 92 %, kernel CPU 6 %"; empty
/// where one has it all.
pub fn ranking(all: &[&Verdict]) -> String {
    let ranked = all.first().map_or(&[][..], |verdict| &verdict.ranking);
    if ranked.len() < 2 {
        return String::new();
    }
    let told = ranked.iter().enumerate().map(|(index, Ranked { limiter, .. })| {
        let shares = all.iter().filter_map(|verdict| Some(verdict.ranking.get(index)?.share));
        format!("{} {}", limiter.title(), template::shares(shares))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A clause about a verdict: "device latency (likely)".
pub fn verdict_clause(verdict: &Verdict) -> String {
    let title = verdict.limiter.unwrap_or(Limiter::NotClear).title();
    match verdict.confidence {
        Some(Confidence::Likely) => format!("{title} (likely)"),
        _ => title.to_owned(),
    }
}

/// A sentence about one verdict, or several that are alike: the limiter, and the evidence that says most. Without a full
/// stop.
pub fn verdict_sentence(all: &[&Verdict]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let shares = Some(ranking(all)).filter(|_| first.limiter == Some(Limiter::Mixed));
    let why = shares.or_else(|| telling(all, 1).pop());
    [Some(verdict_clause(first)), why].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// All that is known of one verdict, or of several that are alike: the limiter, the evidence, and the steps to try.
pub fn verdict_paragraph(all: &[&Verdict]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let evidence = telling(all, Source::ALL.len()).join("; ");
    let told = [verdict_clause(first), evidence].into_iter().filter(|text| !text.is_empty());
    let told = format!("{}.", told.collect::<Vec<_>>().join(": "));
    [Some(told), next_steps(all)].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Fills the strings of a verdict from what was found.
pub(crate) fn fill(verdict: &mut Verdict) {
    let of = |source| evidence(&[verdict], source);
    let told = Evidence {
        budget: of(Source::Budget),
        wait_channel: of(Source::WaitChannel),
        counters: of(Source::Counters),
        visible_cap: of(Source::VisibleCap),
        ceiling: of(Source::Ceiling),
        probe: of(Source::Probe),
    };
    verdict.advice = next_steps(&[verdict]);
    verdict.evidence = verdict.limiter.map(|_| told);
}
