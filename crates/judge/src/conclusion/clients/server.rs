//! Limits of a server that was watched while clients measured.

use model::Limiter;
use model::advice::Advice;
use model::figure::{BytesPerSecond, Count, Figure, Mean, Ratio, Share, Threshold};
use model::observation::Observation;
use model::run::{ServerUse, Verdict};

use crate::values::input::JudgeInput;

/// Share from which CPUs, a link or a device count as saturated.
const SATURATED: f64 = 0.9;
/// Threads of a server count as busy if at most this share of the packets woke one.
const WOKEN_SHARE_MAX: f64 = 0.5;
/// With fewer requests in a busy device than this, each waits for the one before.
const REQUESTS_MIN: f64 = 2.0;
/// Smallest block of which a device counts the bytes.
const BANDWIDTH_BYTES: u64 = 64 << 10;

/// The thresholds that explanations of limiters name.
pub(crate) const THRESHOLDS: &[Threshold] =
    &[("server_saturated", Figure::Share(SATURATED)), ("server_woken", Figure::Share(WOKEN_SHARE_MAX))];

/// Part of a server, with its share of what it can do.
struct Part {
    limiter: Limiter,
    share: f64,
    is_saturated: bool,
    observation: Observation,
}

/// Returns the verdict about the first server of which a part is saturated; `None` if none is. `evidence` is that of the
/// clients.
pub(super) fn saturated(input: &JudgeInput<'_>, evidence: &[Observation]) -> Option<Verdict> {
    let saturated_parts =
        |server| parts(server, input).into_iter().filter(|part| part.is_saturated).collect::<Vec<_>>();
    let parts = input.record.seen.servers.iter().map(saturated_parts).find(|parts| !parts.is_empty())?;
    let of_server = parts.iter().map(|part| part.observation.clone());
    let observations = evidence.iter().cloned().chain(of_server).collect();
    let has_threads = parts.iter().any(|part| matches!(part.observation, Observation::ServerThreads { .. }));
    let (one, other) = (parts.first()?, parts.get(1));
    let verdict = match other {
        // Threads that wait for a busy device are as busy as those that are too few for it.
        Some(other) if other.limiter != one.limiter => {
            Verdict::mixed([one, other].map(|part| (part.limiter, part.share)), observations)
        }
        _ => Verdict::new(one.limiter, one.share, observations),
    };
    Some(verdict.advise(has_threads.then_some(Advice::RaiseServerThreads {})))
}

/// Returns all that is known of the servers.
pub(super) fn observations(input: &JudgeInput<'_>) -> Vec<Observation> {
    let servers = input.record.seen.servers.iter();
    servers.flat_map(|server| parts(server, input)).map(|part| part.observation).collect()
}

/// Returns CPUs, link, busiest device and threads of a server, as far as they were seen. Saturated CPUs or a
/// saturated link explain busy threads, so these count only where neither is saturated.
fn parts(server: &ServerUse, input: &JudgeInput<'_>) -> Vec<Part> {
    let first: Vec<_> = cpus(server).into_iter().chain(quota(server)).chain(link(server)).collect();
    let explains = |parts: &[Part]| parts.iter().any(|part| part.is_saturated);
    let is_explained = explains(&first);
    let rest = device(server, input).into_iter().chain(threads(server));
    let rest = rest.map(|part| Part { is_saturated: part.is_saturated && !is_explained, ..part });
    first.into_iter().chain(rest).collect()
}

fn cpus(server: &ServerUse) -> Option<Part> {
    let share = server.cpu.as_ref()?.busy();
    Some(Part {
        limiter: Limiter::ServerSaturated,
        share,
        is_saturated: share >= SATURATED,
        observation: Observation::ServerCpus {
            server: server.name.as_str().into(),
            busy_share: Share(share),
            cpus: Count(server.cpus.into()),
        },
    })
}

fn quota(server: &ServerUse) -> Option<Part> {
    let quota = server.quota.as_ref()?;
    Some(Part {
        limiter: Limiter::ServerSaturated,
        share: quota.used_up_share,
        is_saturated: quota.used_up_share >= SATURATED,
        observation: Observation::ServerQuota {
            server: server.name.as_str().into(),
            cpus: Ratio(quota.cpus),
            used_up_share: Share(quota.used_up_share),
        },
    })
}

fn link(server: &ServerUse) -> Option<Part> {
    let network = server.network.as_ref()?;
    let seconds = server.watched_ns as f64 / 1e9;
    let speed = network.speed_bits_per_second.map(|bits| bits as f64 / 8.0);
    // A shaper of the server limits what it sends.
    let sends = [speed, network.shaped_bytes_per_second].into_iter().flatten().reduce(f64::min);
    let of = |bytes: u64, carries: Option<f64>| {
        let rate = bytes as f64 / seconds;
        carries.filter(|carries| *carries > 0.0 && seconds > 0.0).map(|carries| (rate, rate / carries))
    };
    let ways = [of(network.sent_bytes, sends), of(network.received_bytes, speed)];
    let (rate, share) = ways.into_iter().flatten().max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(Part {
        limiter: Limiter::NetworkBandwidth,
        share: share.min(1.0),
        is_saturated: share >= SATURATED,
        observation: Observation::ServerLink {
            server: server.name.as_str().into(),
            interface: network.interface.as_str().into(),
            bytes_per_second: BytesPerSecond(rate),
            link_share: Share(share.min(1.0)),
        },
    })
}

fn device(server: &ServerUse, input: &JudgeInput<'_>) -> Option<Part> {
    let busiest = server.devices.iter().max_by(|one, other| one.busy_share.total_cmp(&other.busy_share))?;
    let is_large = input.data().is_some_and(|data| data.block_bytes >= BANDWIDTH_BYTES);
    let limiter = match busiest.requests < REQUESTS_MIN {
        true => Limiter::DeviceLatency,
        false if is_large => Limiter::DeviceBandwidth,
        false => Limiter::DeviceOps,
    };
    Some(Part {
        limiter,
        share: busiest.busy_share,
        is_saturated: busiest.busy_share >= SATURATED,
        observation: Observation::ServerDevice {
            server: server.name.as_str().into(),
            device: busiest.name.as_str().into(),
            busy_share: Share(busiest.busy_share),
            requests: Mean(busiest.requests),
        },
    })
}

fn threads(server: &ServerUse) -> Option<Part> {
    let nfsd = server.nfsd.as_ref()?;
    let woken_share = nfsd.woken_share?;
    Some(Part {
        limiter: Limiter::ServerSaturated,
        share: 1.0 - woken_share,
        is_saturated: woken_share <= WOKEN_SHARE_MAX,
        observation: Observation::ServerThreads {
            server: server.name.as_str().into(),
            threads: Count(nfsd.threads),
            woken_share: Share(woken_share),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{clean, client};
    use model::run::{Confidence, CpuShares, NetworkUse, NfsdUse, PhaseRecord, ServerDevice, ServerQuota};

    /// Returns a server with room everywhere.
    fn idle() -> ServerUse {
        ServerUse {
            name: "nas".into(),
            watched_ns: 1_000_000_000,
            cpus: 4,
            cpu: Some(CpuShares { user: 0.1, kernel: 0.2, steal: 0.0 }),
            quota: None,
            devices: vec![ServerDevice {
                name: "sda".into(),
                busy_share: 0.4,
                requests: 0.5,
                ops_per_second: 100.0,
                bytes_per_second: 4e5,
            }],
            network: Some(NetworkUse {
                interface: "eth0".into(),
                sent_bytes: 10_000_000,
                received_bytes: 1_000_000,
                speed_bits_per_second: Some(1_000_000_000),
                ..NetworkUse::default()
            }),
            helpers: Vec::new(),
            nfsd: Some(NfsdUse { threads: 8, calls: 1000, woken_share: Some(0.9) }),
        }
    }

    fn judged_row(spec: &str, fewer: Option<(u32, f64)>, change: impl Fn(&mut ServerUse)) -> PhaseRecord {
        let mut world = clean(spec);
        let share = client("a", 100.0, Limiter::RemoteLatency, Confidence::Likely);
        world.clients(vec![share; 4], fewer);
        let mut server = idle();
        change(&mut server);
        world.record.seen.servers = vec![server];
        world.judged_record()
    }

    fn limit(record: &PhaseRecord) -> (Limiter, Confidence) {
        let verdict = record.judged.verdict.as_ref().unwrap();
        (verdict.limiter.unwrap(), verdict.confidence.unwrap())
    }

    #[test]
    fn saturated_server_part_is_the_limiter() {
        let of = |spec, change: fn(&mut ServerUse)| limit(&judged_row(spec, None, change)).0;
        let full_device = |server: &mut ServerUse| {
            (server.devices[0].busy_share, server.devices[0].requests) = (0.98, 20.0);
        };
        assert_eq!(of("read:rnd4k:q4", full_device), Limiter::DeviceOps);
        assert_eq!(of("read:seq1m:q4", full_device), Limiter::DeviceBandwidth);
        let one_by_one = |server: &mut ServerUse| server.devices[0].busy_share = 0.98;
        assert_eq!(of("read:rnd4k:q4", one_by_one), Limiter::DeviceLatency);
        let full_cpus = |server: &mut ServerUse| server.cpu.as_mut().unwrap().kernel = 0.85;
        assert_eq!(of("read:rnd4k:q4", full_cpus), Limiter::ServerSaturated);
        let full_quota = |server: &mut ServerUse| {
            server.quota = Some(ServerQuota { cpus: 0.2, used_up_share: 0.97 });
        };
        assert_eq!(of("read:rnd4k:q4", full_quota), Limiter::ServerSaturated);
        let full_link = |server: &mut ServerUse| server.network.as_mut().unwrap().sent_bytes = 120_000_000;
        assert_eq!(of("read:seq1m:q4", full_link), Limiter::NetworkBandwidth);
        let shaped = |server: &mut ServerUse| {
            server.network.as_mut().unwrap().shaped_bytes_per_second = Some(10_500_000.0);
        };
        assert_eq!(of("read:seq1m:q4", shaped), Limiter::NetworkBandwidth);
        let few_threads = |server: &mut ServerUse| server.nfsd.as_mut().unwrap().woken_share = Some(0.1);
        assert_eq!(of("read:rnd4k:q4", few_threads), Limiter::ServerSaturated);
        // The threads may be too few for the device, or may all wait for it.
        let both = |server: &mut ServerUse| {
            (server.devices[0].busy_share, server.devices[0].requests) = (0.98, 8.0);
            server.nfsd.as_mut().unwrap().woken_share = Some(0.1);
        };
        assert_eq!(of("read:rnd4k:q4", both), Limiter::Mixed);
        // If the CPUs are saturated, threads are busy because of them.
        let explained = |server: &mut ServerUse| {
            server.cpu.as_mut().unwrap().kernel = 0.85;
            server.nfsd.as_mut().unwrap().woken_share = Some(0.1);
        };
        let verdict = judged_row("read:rnd4k:q4", None, explained).judged.verdict.unwrap();
        assert_eq!(verdict.limiter, Some(Limiter::ServerSaturated));
        assert!(!verdict.observations.iter().any(|of| matches!(of, Observation::ServerThreads { .. })));
    }

    #[test]
    fn more_clients_confirm_or_refute_server_limiter() {
        let saturated = |server: &mut ServerUse| {
            (server.devices[0].busy_share, server.devices[0].requests) = (0.98, 20.0);
        };
        let of = |fewer| limit(&judged_row("read:rnd4k:q4", fewer, saturated));
        assert_eq!(of(None), (Limiter::DeviceOps, Confidence::Likely));
        // Four clients make 400 operations a second.
        assert_eq!(of(Some((2, 395.0))), (Limiter::DeviceOps, Confidence::Confirmed));
        assert_eq!(of(Some((2, 300.0))), (Limiter::DeviceOps, Confidence::Likely));
        assert_eq!(of(Some((2, 200.0))).0, Limiter::EachClient);
    }

    #[test]
    fn server_with_headroom_is_reported_but_not_limiter() {
        let record = judged_row("read:rnd4k:q4", None, |_| ());
        assert_eq!(limit(&record), (Limiter::BelowClients, Confidence::Likely));
        let observations = record.judged.verdict.unwrap().observations;
        let of_server = observations.iter().filter(|of| format!("{of:?}").starts_with("Server"));
        assert_eq!(of_server.count(), 4);
        // Nothing is known of a server that hides it all.
        let hidden = judged_row("read:rnd4k:q4", None, |server| {
            *server = ServerUse { cpu: None, devices: Vec::new(), network: None, nfsd: None, ..idle() };
        });
        assert_eq!(limit(&hidden).0, Limiter::BelowClients);
    }
}
