//! Judges the sum of several clients, from the rate and the judgement of each.
//!
//! Counters of different machines do not add up, so the rules for a limiter of a single row do not apply. First comes a
//! limit that is set for all clients together. Then comes the limiter that most clients have. The last is a layer below
//! the clients that most of them wait for. On a machine with several clients, each counts the others as foreign,
//! although their I/O and CPU time belong to the test.

mod machines;
mod server;

pub(crate) use server::THRESHOLDS as SERVER_THRESHOLDS;

use std::collections::BTreeMap;

use model::advice::Advice;
use model::figure::{Count, Figure, Name, OpsPerSecond, Ratio, Share, Threshold};
use model::finding::Finding;
use model::observation::Observation;
use model::plan::PlannedPhase;
use model::run::{
    ClientShare, Confidence, Environment, FewerClients, Mark, Note, PhaseRecord, Status, Trust, Verdict,
    machine_of,
};
use model::target::Backing;
use model::{Limiter, Plan};

use super::trust::weighed;
use crate::laws::limiters::cpu::waits_most_for_cpus;
use crate::laws::operations;
use crate::values::caps::{limit_tolerance, reached};
use crate::values::disturbance;
use crate::values::input::JudgeInput;
use crate::values::shares::{ASLEEP_SHARE_MIN, RING_BLOCKED};

/// Part of the median below which a client counts as slow. Clients of the same kind differ by less on shared storage.
const SLOW_SHARE: f64 = 0.2;
/// Share of the clients that must have a limiter for their sum to have it.
const CLIENTS_SHARE_MIN: f64 = 0.8;
/// If a client's machine used more than this share of its CPUs, its threads may have waited for these.
const CPUS_SHARE_MAX: f64 = 0.8;
/// If the rate grew as the number of clients did, but for this share, each is its own limit.
const GROWTH_SHORTFALL_MAX: f64 = 0.1;
/// If the rate grew by less than this share of the clients' growth, more of them bring nothing.
const GROWTH_SHARE_MIN: f64 = 0.1;
/// Codes of the notes that are made here.
const OWN_CODES: [&str; 2] = ["slow_client", "never_concurrent"];

/// The thresholds that explanations of limiters name.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("clients_most", Figure::Share(CLIENTS_SHARE_MIN)),
    ("clients_cpus", Figure::Share(CPUS_SHARE_MAX)),
    ("clients_grew", Figure::Share(GROWTH_SHORTFALL_MAX)),
    ("clients_gave_nothing", Figure::Share(GROWTH_SHARE_MIN)),
];

/// Judges the record of a sum. Its notes become those that the clients' runs made, and those that make the number of a
/// client invalid. Then come the disturbances of the machines, and a note for each slow client.
pub fn judge(record: &mut PhaseRecord, phase: &PlannedPhase, plan: &Plan, environment: &Environment) {
    record.judged.notes.retain(|note| !OWN_CODES.contains(&note.code.as_str()));
    correct_for_sibling_clients(&mut record.hosts);
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
    let found = never_concurrent(record).into_iter().chain(slow(record));
    let found: Vec<_> = found.map(|finding| Note::new(finding, Vec::new())).collect();
    record.judged.notes.extend(found);
    for note in machines::notes(&JudgeInput::new(record, phase, plan, environment, None)) {
        if record.judged.notes.iter().all(|known| known.code != note.code) {
            record.judged.notes.push(note);
        }
    }
    let (trust, trust_reasons) = weighed(&record.judged.notes, record.status);
    let input = JudgeInput::new(record, phase, plan, environment, None);
    let (mut found, disturbed) = (conclude(&input), disturbance::from_input(&input, |_| false));
    if trust == Trust::Invalid {
        found = found.at_most(Confidence::Likely);
    }
    found.operations = operations::judge(&input, &found);
    record.judged.verdict = Some(Verdict { trust, trust_reasons, ..found });
    // The sum has no counters of several machines together.
    record.seen.disturbance = record.seen.budget.is_some().then_some(disturbed);
}

/// Returns the verdict of a sum, without trust.
pub(crate) fn conclude(input: &JudgeInput<'_>) -> Verdict {
    let waits = Waits::from_input(input);
    // Operations that fail end early, or late, or never reach the storage.
    let has_limiter = input.is_measured() && input.record.status != Status::Failed;
    let found = match &input.record.hosts[..] {
        _ if !has_limiter => return Verdict::default(),
        // A single client shares with no other.
        [alone] => alone.judged.verdict.clone(),
        shares => {
            throttled(input, &waits).or_else(|| common_limiter(shares)).or_else(|| below(input, &waits))
        }
    };
    let waited = (waits.clients > 0).then(|| waits.observation());
    found.unwrap_or_else(|| Verdict::new(Limiter::NotClear, 0.0, waited.into_iter().collect()))
}

/// Clients whose threads waited for the target.
struct Waits {
    clients: usize,
    all: usize,
    /// Least share of the time that the threads of one of them waited.
    least_share: f64,
}

impl Waits {
    fn from_input(input: &JudgeInput<'_>) -> Self {
        let least = if input.phase.engine.has_depth() { RING_BLOCKED } else { ASLEEP_SHARE_MIN };
        let shares = &input.record.hosts;
        let waited: Vec<f64> = shares
            .iter()
            .filter(|share| limiter_of(share).is_some_and(is_below_client))
            .filter_map(|share| Some(share.budget.as_ref()?.blocked))
            .filter(|blocked| *blocked >= least)
            .collect();
        let least_share = waited.iter().copied().fold(1.0, f64::min);
        Self { clients: waited.len(), all: shares.len(), least_share }
    }

    fn is_majority(&self) -> bool {
        self.clients as f64 >= CLIENTS_SHARE_MIN * self.all as f64
    }

    fn observation(&self) -> Observation {
        let (clients, all) = (Count(self.clients as u64), Count(self.all as u64));
        Observation::ClientsWaited { clients, all, waiting_share: Share(self.least_share) }
    }
}

/// A limit that all clients share, and that their sum has reached.
fn throttled(input: &JudgeInput<'_>, waits: &Waits) -> Option<Verdict> {
    let (source, allowed) = reached(input, |_| limit_tolerance(input)).filter(|_| waits.is_majority())?;
    let verdict = Verdict::new(Limiter::IoThrottle, waits.least_share, vec![waits.observation(), allowed]);
    Some(verdict.advise([Advice::RaiseLimit { source }]))
}

/// The limiter that most clients have, if one client can tell it apart from the load of the others.
fn common_limiter(shares: &[ClientShare]) -> Option<Verdict> {
    let mut votes: BTreeMap<&str, (Limiter, Vec<&Verdict>)> = BTreeMap::new();
    for share in shares {
        let Some((limiter, verdict)) = limiter_of(share).zip(share.judged.verdict.as_ref()) else {
            continue;
        };
        votes.entry(limiter.code()).or_insert((limiter, Vec::new())).1.push(verdict);
    }
    let (limiter, verdicts) = votes.into_values().max_by_key(|(_, verdicts)| verdicts.len())?;
    if (verdicts.len() as f64) < CLIENTS_SHARE_MIN * shares.len() as f64 || depends_on_others(limiter) {
        return None;
    }
    let share = |verdict: &&Verdict| verdict.ranking.first().map_or(0.0, |first| first.share);
    let mean = verdicts.iter().map(share).sum::<f64>() / verdicts.len() as f64;
    let agree =
        Observation::ClientsAgree { clients: Count(verdicts.len() as u64), all: Count(shares.len() as u64) };
    let confidence = verdicts.iter().filter_map(|verdict| verdict.confidence).min();
    // The clients have one kind of evidence each for the same thing, and none for what lies between them.
    Some(Verdict { confidence, ..Verdict::new(limiter, mean, vec![agree]) }.at_most(Confidence::Likely))
}

/// Stores in each sum of a sweep the row with at most half as many clients: a step from 16 to 17 says too little. Returns
/// true if anything is new.
pub(crate) fn link_client_rows(rows: &mut [PhaseRecord]) -> bool {
    let point = |row: &PhaseRecord| {
        let clients = row.figures.together.as_ref()?.clients;
        let is_valid = row.judged.verdict.as_ref().is_some_and(|verdict| verdict.trust != Trust::Invalid);
        let is_known = row.status == Status::Done && is_valid;
        let ops_per_second = row.figures.rate.ops_per_second.filter(|_| is_known)?;
        Some((row.group.clone()?, row.repetition, FewerClients { clients, ops_per_second }))
    };
    let points: Vec<_> = rows.iter().filter_map(point).collect();
    let mut is_new = false;
    for row in rows {
        let (group, repetition) = (row.group.clone(), row.repetition);
        let Some(together) = &mut row.figures.together else { continue };
        let before = points.iter().filter(|(of, in_repetition, fewer)| {
            group.as_ref() == Some(of)
                && *in_repetition == repetition
                && 2 * fewer.clients <= together.clients
        });
        let fewer = before.map(|(.., fewer)| fewer).max_by_key(|fewer| fewer.clients).cloned();
        is_new |= together.fewer != fewer;
        together.fewer = fewer;
    }
    is_new
}

/// Growth of the rate from the row with fewer clients.
struct Growth {
    /// Growth as a share of that of the clients: 1 where each brings as much as those before.
    share: f64,
    observation: Observation,
}

impl Growth {
    fn from_record(record: &PhaseRecord) -> Option<Self> {
        let together = record.figures.together.as_ref()?;
        let fewer = together.fewer.as_ref().filter(|fewer| fewer.ops_per_second > 0.0)?;
        let of_rate = record.figures.rate.ops_per_second? / fewer.ops_per_second;
        let of_clients = f64::from(together.clients) / f64::from(fewer.clients);
        Some(Self {
            share: (of_rate - 1.0) / (of_clients - 1.0),
            observation: Observation::ClientsGave {
                fewer: Count(fewer.clients.into()),
                clients: Count(together.clients.into()),
                times: Ratio(of_rate),
            },
        })
    }
}

/// Something below the clients, which nearly all of them wait for.
fn below(input: &JudgeInput<'_>, waits: &Waits) -> Option<Verdict> {
    let busy = |share: &ClientShare| share.cpu.as_ref().map(|cpu| cpu.user + cpu.kernel + cpu.steal);
    let busiest = input.record.hosts.iter().filter_map(busy).max_by(f64::total_cmp)?;
    if !waits.is_majority() || busiest > CPUS_SHARE_MAX {
        return None;
    }
    let had_cpus = Observation::ClientsHadCpus { busy_share: Share(busiest) };
    let growth = Growth::from_record(input.record);
    let limiter = match growth.as_ref().map(|growth| growth.share) {
        Some(share) if share >= 1.0 - GROWTH_SHORTFALL_MAX => Limiter::EachClient,
        Some(share) if share < GROWTH_SHARE_MIN => Limiter::BelowClients,
        // More clients still bring more, but less than each of them brought before.
        Some(_) => Limiter::Mixed,
        None => Limiter::BelowClients,
    };
    let is_tried = growth.is_some();
    let evidence = [waits.observation(), had_cpus].into_iter().chain(growth.map(|growth| growth.observation));
    let evidence: Vec<_> = evidence.collect();
    if limiter != Limiter::EachClient
        && let Some(of_server) = server::saturated(input, &evidence)
    {
        // Where more clients still bring more, it is only a part.
        let is_part = limiter == Limiter::Mixed;
        return Some(if is_part { of_server.at_most(Confidence::Likely) } else { of_server });
    }
    let evidence = [evidence, server::observations(input)].concat();
    let is_watched = !input.record.seen.servers.is_empty();
    let verdict = Verdict::new(limiter, waits.least_share, evidence);
    Some(match limiter {
        Limiter::EachClient => verdict.at_most(Confidence::Likely).advise([Advice::MoreClients {}]),
        Limiter::Mixed => verdict.at_most(Confidence::Likely),
        _ if is_tried => verdict,
        _ => {
            let is_remote = input.target().backing == Backing::RemoteOrUserSpace;
            let server = (is_remote && !is_watched).then_some(Advice::ObserveServer {});
            verdict.advise([Advice::FewerClients {}].into_iter().chain(server))
        }
    })
}

/// Returns true for limits below a client. An unknown limit is below it, as only clients that wait are counted.
fn is_below_client(limiter: Limiter) -> bool {
    use Limiter::*;
    matches!(
        limiter,
        DeviceBandwidth
            | DeviceOps
            | DeviceLatency
            | DeviceUndetermined
            | RemoteLatency
            | RemoteUndetermined
            | QueueFull
            | IoThrottle
            | NetworkBandwidth
            | ServerSaturated
            | FsyncJournal
            | NoisyNeighbour
            | HelperCpu
            | BelowOs
            | NotClear
    )
}

/// Returns true for limits that say something else where other clients have the same storage. A slow answer may be that
/// of a server which the others keep busy.
fn depends_on_others(limiter: Limiter) -> bool {
    use Limiter::*;
    matches!(
        limiter,
        DeviceLatency
            | DeviceUndetermined
            | RemoteLatency
            | RemoteUndetermined
            | ServerSaturated
            | NoisyNeighbour
            | NotClear
    )
}

/// Corrects the limiters and the notes of clients that share a machine. Each takes the others for strangers, and their use
/// of CPUs and devices for evidence.
fn correct_for_sibling_clients(shares: &mut [ClientShare]) {
    let machines = machines::machines(shares);
    let shared: Vec<_> = shares.iter().map(|share| machines[machine_of(&share.name)].len() > 1).collect();
    for (share, _) in shares.iter_mut().zip(shared).filter(|(_, is_shared)| *is_shared) {
        share.judged.notes.retain(|note| !machines::is_about_sibling_clients(note));
        let Some(verdict) = share.judged.verdict.as_mut() else { continue };
        let waits = share.budget.as_ref().filter(|budget| waits_most_for_cpus(budget));
        match (verdict.limiter, waits) {
            // The others of its machine have the CPUs that it waits for.
            (Some(Limiter::CpuContention), _) | (Some(Limiter::Mixed), Some(_)) => {
                let of_first = verdict.ranking.first().map_or(0.0, |first| first.share);
                let waited = waits.map_or(of_first, |budget| budget.run_queue);
                *verdict = Verdict::new(Limiter::CpuSaturated, waited, Vec::new())
            }
            (Some(Limiter::NoisyNeighbour), _) => *verdict = Verdict::new(Limiter::NotClear, 0.0, Vec::new()),
            _ => {}
        }
        (verdict.trust, verdict.trust_reasons) = weighed(&share.judged.notes, share.status);
    }
}

fn limiter_of(share: &ClientShare) -> Option<Limiter> {
    share.judged.verdict.as_ref()?.limiter
}

/// Returns a finding if no moment had all clients at work. Writes that are synced count until the last in any case.
fn never_concurrent(record: &PhaseRecord) -> Option<Finding> {
    let (together, rate) = (record.figures.together.as_ref()?, &record.figures.rate);
    let is_open = rate.durable_ops_per_second.is_none() && rate.into_cache_ops_per_second.is_none();
    (together.clients > 1 && together.window_ns == 0 && is_open)
        .then(|| Finding::NeverConcurrent { clients: Count(together.clients.into()) })
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
        let limit = limiter_of(share).unwrap_or(Limiter::NotClear);
        (below > SLOW_SHARE).then(|| Finding::SlowClient {
            client: Name(share.name.clone()),
            below_share: Share(below),
            ops_per_second: OpsPerSecond(rate),
            median_ops_per_second: OpsPerSecond(median),
            limit: limit.title().into(),
        })
    };
    record.hosts.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{clean, client as share};
    use model::run::{Cap, CpuShares, Rate, SystemUse};

    fn judged_row(shares: Vec<ClientShare>) -> PhaseRecord {
        judged_with(shares, |_| ())
    }

    fn judged_with(shares: Vec<ClientShare>, change: impl FnOnce(&mut PhaseRecord)) -> PhaseRecord {
        let mut world = clean("read:rnd4k:q4");
        world.clients(shares, None);
        change(&mut world.record);
        world.judged_record()
    }

    fn limit(record: &PhaseRecord) -> (Option<Limiter>, Option<Confidence>) {
        let verdict = record.judged.verdict.as_ref().unwrap();
        (verdict.limiter, verdict.confidence)
    }

    #[test]
    fn totals_have_majority_limiter_and_are_never_confirmed() {
        let of = |names: [&str; 5], limiters: [Limiter; 5]| {
            let shares = names.iter().zip(limiters);
            judged_row(
                shares.map(|(name, limiter)| share(name, 100.0, limiter, Confidence::Confirmed)).collect(),
            )
        };
        let hosts = ["a", "b", "c", "d", "e"];
        let (ops, cpu) = (Limiter::DeviceOps, Limiter::ClientCpu);
        let most = of(hosts, [ops, ops, ops, ops, cpu]);
        assert_eq!(limit(&most), (Some(ops), Some(Confidence::Likely)));
        let observations = &most.judged.verdict.as_ref().unwrap().observations;
        assert_eq!(observations[..], [Observation::ClientsAgree { clients: Count(4), all: Count(5) }]);
        // A limiter that one client cannot distinguish from the load of the others counts as below all clients.
        for limiter in [Limiter::RemoteLatency, Limiter::ServerSaturated, Limiter::NotClear] {
            let waiting = of(hosts, [limiter, limiter, limiter, limiter, cpu]);
            assert_eq!(limit(&waiting), (Some(Limiter::BelowClients), Some(Confidence::Likely)));
        }
        let either = of(hosts, [ops, ops, ops, Limiter::NetworkBandwidth, Limiter::NetworkBandwidth]);
        assert_eq!(limit(&either).0, Some(Limiter::BelowClients));
        let apart = of(hosts, [ops, ops, ops, cpu, cpu]);
        assert_eq!(limit(&apart).0, Some(Limiter::NotClear));
        // Foreign load is that of clients of the same machine, or of strangers on separate machines.
        let local = ["local#1", "local#2", "local#3", "local#4", "local#5"];
        assert_eq!(limit(&of(local, [Limiter::CpuContention; 5])).0, Some(Limiter::CpuSaturated));
        assert_eq!(limit(&of(hosts, [Limiter::CpuContention; 5])).0, Some(Limiter::CpuContention));
        assert_eq!(limit(&of(local, [Limiter::NoisyNeighbour; 5])).0, Some(Limiter::BelowClients));
    }

    #[test]
    fn waiting_clients_with_busy_cpus_are_not_clear() {
        let of = |busy: f64| {
            let mut shares = vec![share("a", 100.0, Limiter::ServerSaturated, Confidence::Likely); 4];
            shares[3].cpu = Some(CpuShares { user: busy, kernel: 0.0, steal: 0.0 });
            limit(&judged_row(shares)).0
        };
        assert_eq!((of(0.7), of(0.9)), (Some(Limiter::BelowClients), Some(Limiter::NotClear)));
    }

    #[test]
    fn shared_io_limit_is_compared_with_total_rate() {
        let of = |ops: f64| {
            let shares = vec![share("local#1", ops / 8.0, Limiter::NotClear, Confidence::Undetermined); 8];
            limit(&judged_with(shares, |record| {
                record.figures.rate = Rate { overall_ops_per_second: Some(ops), ..Rate::default() };
                let cap = Cap {
                    source: "io.max".into(),
                    device: "vda".into(),
                    is_read: true,
                    ops_per_second: Some(2000.0),
                    bytes_per_second: None,
                };
                record.seen.system = Some(SystemUse { caps: vec![cap], ..SystemUse::default() });
            }))
        };
        assert_eq!(of(1995.0), (Some(Limiter::IoThrottle), Some(Confidence::Likely)));
        assert_eq!(of(1200.0).0, Some(Limiter::BelowClients));
    }

    #[test]
    fn rate_that_scales_with_clients_is_limited_per_client() {
        let of = |rate: f64| {
            let mut world = clean("read:rnd4k:q4");
            let shares = vec![share("a", rate / 4.0, Limiter::RemoteLatency, Confidence::Likely); 4];
            world.clients(shares, Some((2, 1000.0)));
            world.record.figures.rate.ops_per_second = Some(rate);
            limit(&world.judged_record())
        };
        assert_eq!(of(1990.0), (Some(Limiter::EachClient), Some(Confidence::Likely)));
        assert_eq!(of(1500.0), (Some(Limiter::Mixed), Some(Confidence::Likely)));
        assert_eq!(of(1050.0), (Some(Limiter::BelowClients), Some(Confidence::Confirmed)));
        assert_eq!(of(700.0), (Some(Limiter::BelowClients), Some(Confidence::Confirmed)));
    }

    #[test]
    fn sweep_totals_link_to_row_with_fewer_clients() {
        let row = |group: &str, clients: u32, rate: f64, status: Status| {
            let mut row = judged_row(vec![share("a", rate, Limiter::DeviceOps, Confidence::Likely)]);
            row.figures.together = Some(model::run::ClientTotals { clients, ..Default::default() });
            (row.group, row.status) = (Some(group.into()), status);
            row.figures.rate.ops_per_second = Some(rate);
            row
        };
        let mut rows = [
            row("01-read", 1, 100.0, Status::Done),
            row("01-read", 2, 200.0, Status::Partial),
            row("01-read", 4, 300.0, Status::Done),
            row("04-read", 2, 50.0, Status::Done),
            // Four, and not five, are at most half as many.
            row("01-read", 9, 310.0, Status::Done),
        ];
        assert!(link_client_rows(&mut rows));
        assert!(!link_client_rows(&mut rows));
        let fewer: Vec<_> = rows
            .iter()
            .map(|row| row.figures.together.as_ref().unwrap().fewer.as_ref())
            .map(|fewer| fewer.map(|fewer| (fewer.clients, fewer.ops_per_second)))
            .collect();
        // A test that ended early has no rate to compare with.
        assert_eq!(fewer, [None, Some((1, 100.0)), Some((1, 100.0)), None, Some((4, 300.0))]);
    }

    #[test]
    fn slow_client_is_reported_and_fast_client_is_not() {
        let of = |rates: &[f64]| {
            let shares = rates.iter().enumerate();
            let shares = shares.map(|(number, rate)| {
                share(&format!("n{number}"), *rate, Limiter::DeviceOps, Confidence::Likely)
            });
            judged_row(shares.collect())
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
    fn clients_never_active_concurrently_are_flagged() {
        let of = |window_ns: u64, durable: Option<f64>| {
            let shares = vec![share("a", 100.0, Limiter::DeviceOps, Confidence::Likely); 2];
            let record = judged_with(shares, |record| {
                record.figures.together.as_mut().unwrap().window_ns = window_ns;
                record.figures.rate.durable_ops_per_second = durable;
            });
            record.judged.verdict.unwrap().trust_reasons
        };
        assert_eq!(of(0, None), ["never_concurrent"]);
        assert!(of(1_000_000, None).is_empty() && of(0, Some(200.0)).is_empty());
    }

    #[test]
    fn totals_with_invalid_client_are_invalid() {
        let mut shares = vec![share("a", 100.0, Limiter::DeviceOps, Confidence::Likely); 2];
        let finding = Finding::TargetIsMemory { name: Name("tmpfs".into()) };
        shares[1].judged.notes.push(Note::new(finding, Vec::new()));
        let record = judged_row(shares);
        let verdict = record.judged.verdict.as_ref().unwrap();
        assert_eq!(
            (verdict.trust, &verdict.trust_reasons[..]),
            (Trust::Invalid, &["memory_target".to_owned()][..])
        );
        assert_eq!(record.judged.notes.len(), 1);
    }
}
