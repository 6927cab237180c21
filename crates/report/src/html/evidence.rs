//! Evidence on a test, as facts with names.

use model::observation::Source;
use model::run::{PhaseRecord, Response, SampledThreads, Sensitivity, WaitChannel};

use crate::facts::latency_by_place;
use crate::numbers::{amount, percent};
use crate::printable;

/// Returns the evidence, as pairs of name and sentence.
pub(super) fn evidence(phase: &PhaseRecord) -> Vec<(&'static str, String)> {
    let mut facts: Vec<(&'static str, Option<String>)> = Vec::new();
    if let Some(verdict) = &phase.judged.verdict {
        facts.push(("shares", Some(wording::ranking(&[verdict])).filter(|ranking| !ranking.is_empty())));
        let sentences =
            Source::ALL.iter().map(|source| (source.title(), wording::evidence(&[verdict], *source)));
        facts.extend(sentences);
        let sentences = verdict.operations.iter().zip(wording::operations(&verdict.operations));
        let sentences =
            sentences.map(|(one, sentences)| format!("{}, {sentences}", printable(&one.operation)));
        let sentences = sentences.collect::<Vec<_>>().join("; ");
        facts.push(("its operations", Some(sentences).filter(|sentences| !sentences.is_empty())));
    }
    facts.push(("I/O path", wording::layer_path(phase).map(|layer_path| layer_path.text)));
    facts.push(("mean time of each call", wording::steps(phase)));
    facts.push(("latency by place", phase.seen.latency_by_place.as_ref().map(latency_by_place)));
    facts.push(("asleep in", sites(&phase.seen.wait_channels)));
    facts.push(("responses to experiments", phase.judged.sensitivity.as_ref().and_then(answers)));
    facts.push((
        "next step",
        phase.judged.verdict.as_ref().and_then(|verdict| wording::next_steps(&[verdict])),
    ));
    facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect()
}

fn sites(sites: &[WaitChannel]) -> Option<String> {
    let texts = sites.iter().map(|site| {
        let class = site.class.as_ref().map_or(String::new(), |class| format!(" ({class})"));
        let of = match site.of {
            SampledThreads::Workers => "",
            SampledThreads::RingWorkers => " of the ring's threads",
        };
        format!("{}{class} {}{of}", site.symbol, percent(site.share))
    });
    (!sites.is_empty()).then(|| texts.collect::<Vec<_>>().join(", "))
}

fn answers(sensitivity: &Sensitivity) -> Option<String> {
    let Sensitivity { depth, single, block, separate } = sensitivity;
    let tried = [("depth", depth), ("single", single), ("block", block), ("separate", separate)];
    let texts = tried.into_iter().filter_map(|(name, response)| {
        let Response {
            value,
            half_width,
            before_ops_per_second: before,
            after_ops_per_second: after,
            change,
            ..
        } = response.as_ref()?;
        let [before, after] = [*before, *after].map(|rate| amount(rate).unwrap_or_default());
        let half_width = half_width.map_or(String::new(), |half| format!(" ± {half:.2}"));
        Some(format!("{name} {value:.2}{half_width} ({change}: {before} to {after} per second)"))
    });
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}
