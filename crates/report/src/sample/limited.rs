//! Limiters of every kind, for the rows of the default run.

use model::Experiment;
use model::Limiter;
use model::advice::Advice;
use model::figure::{
    BytesPerSecond, Change, Count, Mean, MemoryBytes, OpsPerSecond, Share, Time, TimePart, TimeShare, Tried,
    Wait, WaitClass,
};
use model::observation::Observation;
use model::run::{
    CallUse, Mark, NetworkUse, PhaseRecord, Response, SampledThreads, Sensitivity, SystemUse, Trust, Verdict,
    WaitChannel,
};

use super::phase;

/// Gives a row its verdict, and fills in its words. A marked row is suspect.
pub(crate) fn limit(phase: &mut PhaseRecord, verdict: Verdict) {
    let is_suspect = phase.judged.notes.iter().any(|note| note.mark != Mark::Remark);
    let trust = if is_suspect { Trust::Suspect } else { Trust::Ok };
    phase.judged.verdict = Some(Verdict { trust, ..verdict });
    wording::fill(phase);
}

/// An observation of the shares of the threads' time.
pub(crate) fn time(parts: &[(TimePart, f64)]) -> Observation {
    let shares = parts.iter().map(|(part, share)| TimeShare { part: *part, share: *share });
    Observation::TimeSpent { time: Time(shares.collect()) }
}

fn slept(class: WaitClass, symbol: &str, share: f64) -> Observation {
    Observation::SleptIn { class: Wait(class), symbol: symbol.into(), asleep_share: Share(share) }
}

fn observed_running(share: f64) -> Observation {
    Observation::Ran { running_share: Share(share) }
}

/// An observation of the requests in the device, and of the operations that waited.
fn in_device(requests: f64, waiting: f64) -> Observation {
    Observation::InDevice { device: "nvme0n1p2".into(), requests: Mean(requests), waiting: Mean(waiting) }
}

/// An experiment in which a change of the load multiplied the rate by `times`.
fn answer(experiment: Experiment, change: &str, before: f64, times: f64) -> Observation {
    Observation::Answer {
        experiment: Tried(experiment),
        change: Change(change.into()),
        before_ops_per_second: OpsPerSecond(before),
        after_ops_per_second: OpsPerSecond(before * times),
    }
}

/// Limiters for the eleven rows of the default run.
pub(super) fn all(phases: &mut [PhaseRecord]) {
    use Observation::*;
    use TimePart::{Blocked, Kernel, User};
    for phase in phases.iter_mut() {
        let ops = phase.counts.ops;
        if let Some(device) = phase.seen.device.as_mut() {
            device.operations = ops;
        }
    }
    for index in [0, 1] {
        let seen = vec![
            time(&[(Blocked, 0.97)]),
            slept(WaitClass::Page, "io_schedule", 0.96),
            answer(Experiment::Depth, "q32t1", 3_300.0, 1.01),
            answer(Experiment::Block, "blocks of 256 KiB", 3_300.0, 4.0),
        ];
        limit(&mut phases[index], Verdict::new(Limiter::DeviceBandwidth, 0.97, seen));
    }
    let seen = vec![
        time(&[(Kernel, 0.91), (User, 0.05)]),
        DeviceBusy { device: "nvme0n1p2".into(), busy_share: Share(0.31) },
        NearMemory { memory_share: Share(0.84) },
    ];
    let threads = Advice::MoreThreadsUpTo { threads: Count(4), times: Mean(4.0) };
    let advice = [Advice::NotTheStorage {}, threads, Advice::OrDirectAndDeep {}];
    limit(&mut phases[2], Verdict::new(Limiter::KernelCpu, 0.91, seen).advise(advice));
    let seen = vec![in_device(126.0, 128.0), answer(Experiment::Depth, "q128t4", 812_000.0, 1.02)];
    limit(&mut phases[3], Verdict::new(Limiter::DeviceOps, 0.92, seen));
    let seen =
        vec![time(&[(Blocked, 0.58), (Kernel, 0.40)]), answer(Experiment::Depth, "q128t4", 402_000.0, 1.38)];
    let parts = [(Limiter::DeviceBandwidth, 0.55), (Limiter::KernelCpu, 0.40)];
    limit(&mut phases[4], Verdict::mixed(parts, seen));
    let seen = vec![
        time(&[(Blocked, 0.94)]),
        slept(WaitClass::Device, "__iomap_dio_rw", 0.94),
        answer(Experiment::Depth, "q1t4", 12_900.0, 3.9),
    ];
    let latency = Verdict::new(Limiter::DeviceLatency, 0.94, seen).advise([Advice::MoreDepth {}]);
    limit(&mut phases[5], latency);
    phases[5].seen.wait_channels = vec![WaitChannel {
        of: SampledThreads::Workers,
        class: Some("device".into()),
        symbol: "__iomap_dio_rw".into(),
        share: 0.94,
        samples: 1880,
        operations: Vec::new(),
    }];
    let response = |value, after, change: &str| {
        Some(Response {
            value,
            half_width: Some(0.11),
            before_ops_per_second: 12_900.0,
            after_ops_per_second: after,
            change: change.into(),
            load: None,
        })
    };
    phases[5].judged.sensitivity =
        Some(Sensitivity { depth: response(0.98, 50_310.0, "q1t4"), ..Sensitivity::default() });
    let seen = vec![
        time(&[(Blocked, 0.95)]),
        slept(WaitClass::Sync, "xlog_wait_on_iclog", 0.94),
        Flushes { flushes: Mean(1.0) },
    ];
    limit(&mut phases[6], Verdict::new(Limiter::FsyncJournal, 0.95, seen).advise([Advice::GroupCommit {}]));
    let seen = vec![
        time(&[(Blocked, 0.88)]),
        Sent {
            interface: "eth0".into(),
            bytes_per_second: BytesPerSecond(118e6),
            requests_share: Share(1.02),
        },
    ];
    limit(
        &mut phases[7],
        Verdict::new(Limiter::NetworkBandwidth, 0.88, seen).advise([Advice::FasterLink {}]),
    );
    phases[7].seen.system = Some(SystemUse {
        network: Some(NetworkUse {
            interface: "eth0".into(),
            sent_bytes: 1_180_000_000,
            received_bytes: 21_000_000,
            speed_bits_per_second: Some(1_000_000_000),
            ..NetworkUse::default()
        }),
        ..SystemUse::default()
    });
    let cached = || {
        vec![
            time(&[(Kernel, 0.99)]),
            ReadForLookups { read_bytes: MemoryBytes(0), lookups: Count(18_900_000) },
        ]
    };
    limit(&mut phases[8], Verdict::new(Limiter::MetadataCache, 0.99, cached()));
    let seen = [cached(), vec![observed_running(0.98)]].concat();
    limit(&mut phases[9], Verdict::new(Limiter::PageCache, 0.99, seen).advise([Advice::ColdNames {}]));
    let parts = [(Limiter::KernelCpu, 0.52), (Limiter::LockContention, 0.33)];
    let seen = vec![time(&[(Kernel, 0.52), (Blocked, 0.41)])];
    let unclear = Verdict::mixed(parts, seen).advise([Advice::MeasureLonger {}]);
    limit(&mut phases[10], Verdict { limiter: Some(Limiter::NotClear), ..unclear });
}

/// A test of single bytes, which the C library gathers into calls and the kernel into requests.
pub(crate) fn single_byte_phase() -> PhaseRecord {
    let mut phase = phase("putc-write");
    (phase.counts.ops, phase.counts.bytes, phase.counts.app_bytes_written) =
        (80_412_345, 80_412_345, 80_412_345);
    let calls = CallUse {
        read_calls: 12,
        write_calls: 19_632,
        bytes_per_read_call: Some(80.0),
        bytes_per_write_call: Some(4096.0),
    };
    phase.seen.system = Some(SystemUse { calls: Some(calls), ..SystemUse::default() });
    if let Some(device) = phase.seen.device.as_mut() {
        (device.operations, device.mean_request_bytes) = (2_513, Some(32_000.0));
    }
    phase
}
