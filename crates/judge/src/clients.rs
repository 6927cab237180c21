//! Judges the sum of several clients: from the rates of each, and from the judgement that each has of its own.
//!
//! Counters of different machines do not add up, so the rules of a single row are not asked. A sum has the limiter that
//! most of its clients have. On a machine with several clients, each sees the others as foreign: their I/O and their
//! CPU time are this test's own.

use std::collections::BTreeMap;

use model::Limiter;
use model::figure::{Count, Name, OpsPerSecond, Share};
use model::finding::Finding;
use model::observation::Observation;
use model::run::{ClientShare, Confidence, Mark, Note, PhaseRecord, Status, Trust, Verdict};

/// Part of the median below which a client counts as slow. Clients of the same kind differ by less on shared storage.
const SLOW_SHARE: f64 = 0.2;
/// Share of the clients that must have a limiter for their sum to have it.
const MOST: f64 = 0.8;
/// Code of the note on a slow client.
const SLOW_CODE: &str = "slow_client";

/// Judges the record of a sum. Its notes become those that the clients' runs made, those that make the number of a
/// client invalid, and one for each slow client.
pub fn judge(record: &mut PhaseRecord) {
    record.judged.notes.retain(|note| note.code != SLOW_CODE);
    if record.counts.ops == 0 || record.status == Status::Skipped {
        return;
    }
    // A number that is not the speed of a client's storage is not that of the sum.
    for note in record.hosts.iter().flat_map(|share| &share.judged.notes) {
        let is_known = record.judged.notes.iter().any(|known| known.code == note.code);
        if note.mark == Mark::Invalid && !is_known {
            record.judged.notes.push(note.clone());
        }
    }
    record.judged.notes.extend(slow(record).into_iter().map(|finding| Note::new(finding, Vec::new())));
    let mut costs: Vec<(Trust, String)> =
        record.judged.notes.iter().map(|note| (note.finding.grade().trust(), note.code.clone())).collect();
    if record.status != Status::Done {
        costs.push((Trust::Invalid, "ended_early".into()));
    }
    costs.retain(|(trust, _)| *trust > Trust::Ok);
    costs.sort_by_key(|(trust, _)| std::cmp::Reverse(*trust));
    let trust = costs.first().map_or(Trust::Ok, |(trust, _)| *trust);
    let trust_reasons = costs.into_iter().map(|(_, code)| code).collect();
    record.judged.verdict = Some(Verdict { trust, trust_reasons, ..conclude(&record.hosts) });
}

/// Returns the verdict that most clients share.
fn conclude(shares: &[ClientShare]) -> Verdict {
    let mut votes: BTreeMap<&str, (Limiter, Vec<&Verdict>)> = BTreeMap::new();
    for share in shares {
        let Some(verdict) = &share.judged.verdict else { continue };
        let Some(limiter) = verdict.limiter.map(|limiter| as_of_all(limiter, share, shares)) else {
            continue;
        };
        votes.entry(limiter.code()).or_insert((limiter, Vec::new())).1.push(verdict);
    }
    let Some((limiter, verdicts)) = votes.into_values().max_by_key(|(_, verdicts)| verdicts.len()) else {
        return Verdict::default();
    };
    let agreed = verdicts.len() as f64 / shares.len() as f64;
    if agreed < MOST || limiter == Limiter::NotClear {
        return Verdict::new(Limiter::NotClear, 0.0, Vec::new());
    }
    let share = |verdict: &&Verdict| verdict.ranking.first().map_or(0.0, |first| first.share);
    let mean = verdicts.iter().map(share).sum::<f64>() / verdicts.len() as f64;
    let agree =
        Observation::ClientsAgree { clients: Count(verdicts.len() as u64), all: Count(shares.len() as u64) };
    // The clients have one kind of evidence each for the same thing, and none for what lies between them.
    let least = verdicts.iter().filter_map(|verdict| verdict.confidence).min();
    let confidence = least.map(|least| least.min(Confidence::Likely));
    Verdict { confidence, ..Verdict::new(limiter, mean, vec![agree]) }
}

/// Returns the limiter of a client as that of the whole test. Other clients of its machine are no strangers.
fn as_of_all(limiter: Limiter, share: &ClientShare, shares: &[ClientShare]) -> Limiter {
    let machine = |share: &ClientShare| share.name.split('#').next().map(str::to_owned);
    let is_alone = shares.iter().filter(|other| machine(other) == machine(share)).count() == 1;
    match limiter {
        Limiter::CpuContention if !is_alone => Limiter::CpuSaturated,
        Limiter::NoisyNeighbour if !is_alone => Limiter::NotClear,
        limiter => limiter,
    }
}

/// Returns a finding for each client that is far below the median.
fn slow(record: &PhaseRecord) -> Vec<Finding> {
    let Some(median) = record.figures.together.as_ref().and_then(|together| together.median_ops_per_second)
    else {
        return Vec::new();
    };
    let of = |share: &ClientShare| {
        let rate = share.rate.ops_per_second?;
        let below = 1.0 - rate / median;
        (below > SLOW_SHARE).then(|| Finding::SlowClient {
            client: Name(share.name.clone()),
            below_share: Share(below),
            ops_per_second: OpsPerSecond(rate),
            median_ops_per_second: OpsPerSecond(median),
        })
    };
    record.hosts.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::clean;
    use model::run::{Counts, Judged, Rate, Together};

    /// Returns a client with that rate, held back by a limiter.
    fn share(name: &str, rate: f64, limiter: Limiter, confidence: Confidence) -> ClientShare {
        let verdict = Verdict { confidence: Some(confidence), ..Verdict::new(limiter, 0.8, Vec::new()) };
        ClientShare {
            client: 0,
            name: name.into(),
            status: Status::Done,
            reason: None,
            counts: Counts::default(),
            rate: Rate { ops_per_second: Some(rate), ..Rate::default() },
            latency_ns: None,
            histogram: None,
            budget: None,
            cpu: None,
            judged: Judged { verdict: Some(verdict), ..Judged::default() },
        }
    }

    fn judged(shares: Vec<ClientShare>) -> PhaseRecord {
        let mut world = clean("read:rnd4k:q4");
        let mut rates: Vec<_> = shares.iter().filter_map(|share| share.rate.ops_per_second).collect();
        rates.sort_by(f64::total_cmp);
        let median_ops_per_second = rates.get(rates.len() / 2).copied();
        world.record.figures.together = Some(Together { median_ops_per_second, ..Together::default() });
        world.record.hosts = shares;
        crate::judge(&mut world.record, &world.plan, &world.environment, None);
        world.record
    }

    fn limit(record: &PhaseRecord) -> (Option<Limiter>, Option<Confidence>) {
        let verdict = record.judged.verdict.as_ref().unwrap();
        (verdict.limiter, verdict.confidence)
    }

    #[test]
    fn a_sum_has_the_limiter_of_most_clients_and_is_never_sure() {
        let of = |names: [&str; 5], limiters: [Limiter; 5]| {
            let shares = names.iter().zip(limiters);
            judged(shares.map(|(name, limiter)| share(name, 100.0, limiter, Confidence::Confirmed)).collect())
        };
        let hosts = ["a", "b", "c", "d", "e"];
        let (ops, cpu) = (Limiter::DeviceOps, Limiter::ClientCpu);
        let most = of(hosts, [ops, ops, ops, ops, cpu]);
        assert_eq!(limit(&most), (Some(ops), Some(Confidence::Likely)));
        let observations = &most.judged.verdict.as_ref().unwrap().observations;
        assert_eq!(observations[..], [Observation::ClientsAgree { clients: Count(4), all: Count(5) }]);
        let apart = of(hosts, [ops, ops, ops, cpu, cpu]);
        assert_eq!(limit(&apart).0, Some(Limiter::NotClear));
        // The others are other clients of the same machine, or strangers on machines of their own.
        let local = ["local#1", "local#2", "local#3", "local#4", "local#5"];
        assert_eq!(limit(&of(local, [Limiter::CpuContention; 5])).0, Some(Limiter::CpuSaturated));
        assert_eq!(limit(&of(hosts, [Limiter::CpuContention; 5])).0, Some(Limiter::CpuContention));
        assert_eq!(limit(&of(local, [Limiter::NoisyNeighbour; 5])).0, Some(Limiter::NotClear));
    }

    #[test]
    fn a_client_far_below_the_median_is_named_and_one_above_is_not() {
        let of = |rates: &[f64]| {
            let shares = rates.iter().enumerate();
            let shares = shares.map(|(number, rate)| {
                share(&format!("n{number}"), *rate, Limiter::DeviceOps, Confidence::Likely)
            });
            judged(shares.collect())
        };
        let named = |record: &PhaseRecord| -> Vec<String> {
            let notes = record.judged.notes.iter().filter_map(|note| match &note.finding {
                Finding::SlowClient { client, .. } => Some(client.0.clone()),
                _ => None,
            });
            notes.collect()
        };
        assert_eq!(named(&of(&[100.0, 79.0, 100.0])), ["n1"]);
        assert!(named(&of(&[100.0, 81.0, 100.0])).is_empty());
        assert!(named(&of(&[100.0, 190.0, 100.0])).is_empty());
        // Judged again, it is named once.
        let mut again = of(&[100.0, 50.0, 100.0]);
        let world = clean("read:rnd4k:q4");
        crate::judge(&mut again, &world.plan, &world.environment, None);
        assert_eq!(named(&again), ["n1"]);
        assert_eq!(again.judged.verdict.unwrap().trust, Trust::Ok);
    }

    #[test]
    fn what_makes_a_client_invalid_makes_the_sum_invalid() {
        let mut shares = vec![share("a", 100.0, Limiter::DeviceOps, Confidence::Likely); 2];
        let finding = Finding::TargetIsMemory { file_system: Name("tmpfs".into()) };
        shares[1].judged.notes.push(Note::new(finding, Vec::new()));
        let record = judged(shares);
        let verdict = record.judged.verdict.as_ref().unwrap();
        assert_eq!(
            (verdict.trust, &verdict.trust_reasons[..]),
            (Trust::Invalid, &["memory_target".to_owned()][..])
        );
        assert_eq!(record.judged.notes.len(), 1);
    }
}
