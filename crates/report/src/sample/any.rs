//! Runs with arbitrary contents.

use model::Limiter;
use model::figure::Share;
use model::finding::Finding;
use model::run::{
    CallUse, Confidence, Evidence, Mark, NetworkUse, Note, RankedLimiter, Run, Status, SystemUse, Trust,
    Verdict,
};
use proptest::prelude::*;

use super::{phase, run};

/// A number that JSON can hold.
fn finite() -> impl Strategy<Value = f64> {
    proptest::num::f64::POSITIVE | proptest::num::f64::NEGATIVE | proptest::num::f64::ZERO
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    let limiter = || proptest::sample::select(Limiter::ALL);
    let confidence = proptest::sample::select(vec![
        None,
        Some(Confidence::Undetermined),
        Some(Confidence::Likely),
        Some(Confidence::Confirmed),
    ]);
    let ranked = (limiter(), finite()).prop_map(|(limiter, share)| RankedLimiter { limiter, share });
    let sentence = || proptest::option::of(any::<String>());
    let evidence = proptest::array::uniform6(sentence()).prop_map(
        |[budget, wait_channel, counters, visible_cap, ceiling, probe]| Evidence {
            budget,
            wait_channel,
            counters,
            visible_cap,
            ceiling,
            probe,
        },
    );
    (
        proptest::option::of(limiter()),
        confidence,
        proptest::collection::vec(ranked, 0..4),
        proptest::option::of(evidence),
        sentence(),
        proptest::sample::select(vec![Trust::Ok, Trust::Suspect, Trust::Invalid]),
        proptest::collection::vec(any::<String>(), 0..2),
    )
        .prop_map(|(limiter, confidence, ranking, evidence, advice, trust, trust_reasons)| Verdict {
            limiter,
            confidence,
            ranking,
            evidence,
            advice,
            trust,
            trust_reasons,
            ..Verdict::default()
        })
}

fn any_system() -> impl Strategy<Value = SystemUse> {
    let mean = || proptest::option::of(finite());
    (any::<[u64; 4]>(), mean(), mean(), any::<String>()).prop_map(
        |([read_calls, write_calls, sent_bytes, received_bytes], read, write, interface)| SystemUse {
            calls: Some(CallUse {
                read_calls,
                write_calls,
                bytes_per_read_call: read,
                bytes_per_write_call: write,
            }),
            network: Some(NetworkUse { interface, sent_bytes, received_bytes, ..NetworkUse::default() }),
            ..SystemUse::default()
        },
    )
}

/// Runs with any text and any number in the places that vary.
pub(crate) fn any_run() -> impl Strategy<Value = Run> {
    let number = || proptest::option::of(finite());
    let phase = (
        (any::<[String; 4]>(), proptest::option::of(any::<String>()), any::<u32>()),
        proptest::sample::select(vec![Status::Done, Status::Partial, Status::Skipped, Status::Failed]),
        (any::<[u64; 6]>(), number(), number(), number(), number()),
        (proptest::option::of(any::<[u64; 3]>()), any::<bool>(), any::<bool>()),
        proptest::sample::select(vec![Mark::Invalid, Mark::Suspect, Mark::Remark]),
        (proptest::option::of(any_verdict()), proptest::option::of(any_system())),
    )
        .prop_map(|(texts, status, numbers, (latency, keep_device, keep_intervals), mark, judged)| {
            let (verdict, system) = judged;
            let ([id, name, label, text], reason, repetition) = texts;
            let mut phase = phase("rw:rnd4k:q4");
            (phase.id, phase.name, phase.label, phase.reason) = (id, name, label, reason);
            (phase.status, phase.repetition) = (status, repetition);
            let finding = Finding::ForeignIo {
                foreign_share: Share(numbers.1.unwrap_or(0.5)),
                device: text.as_str().into(),
            };
            phase.judged.notes = vec![Note { mark, text, ..wording::note(finding, []) }];
            let ([ops, bytes, read, written, elapsed_ns, start_ns], a, b, c, d) = numbers;
            (
                phase.counts.ops,
                phase.counts.bytes,
                phase.counts.app_bytes_read,
                phase.counts.app_bytes_written,
            ) = (ops, bytes, read, written);
            (phase.counts.elapsed_ns, phase.counts.start_ns) = (elapsed_ns, start_ns);
            (phase.figures.rate.ops_per_second, phase.figures.rate.bytes_per_second) = (a, b);
            (phase.figures.rate.into_cache_ops_per_second, phase.seen.page_cache_share) = (c, d);
            match (latency, phase.figures.latency_ns.as_mut()) {
                (Some([p50, p99, max]), Some(known)) => {
                    (known.p50, known.p99, known.max) = (Some(p50), Some(p99), max);
                }
                _ => phase.figures.latency_ns = None,
            }
            phase.seen.device = phase.seen.device.filter(|_| keep_device);
            phase.judged.verdict = verdict;
            phase.seen.system = system;
            if !keep_intervals {
                phase.figures.intervals.clear();
            }
            phase
        });
    (proptest::collection::vec(phase, 0..4), any::<[String; 5]>(), any::<u64>(), number()).prop_map(
        |(phases, [host, path, label, command, warning], seed, overhead)| {
            let mut run = run();
            (run.phases, run.seed, run.label, run.command) = (phases, seed, Some(label), vec![command]);
            (run.environment.host, run.environment.target.path) = (host, path);
            (run.tool.overhead_ns_per_op, run.tool.warnings) = (overhead, vec![warning]);
            run
        },
    )
}
