//! What limits the rows of the default run: something of every kind.

use model::Limiter;
use model::run::{
    CallUse, Confidence, Evidence, Mark, NetworkUse, PhaseRecord, Ranked, Sensed, Sensitivity, SystemUse,
    Trust, Verdict, WaitSite, WaitsOf,
};

use super::phase;

/// Gives a row its limiter.
pub(crate) fn limit(
    phase: &mut PhaseRecord,
    limiter: Limiter,
    confidence: Confidence,
    evidence: Evidence,
    advice: Option<&str>,
) {
    let is_suspect = phase.notes.iter().any(|note| note.mark == Mark::Distrust);
    phase.verdict = Some(Verdict {
        limiter: Some(limiter),
        confidence: Some(confidence),
        ranking: vec![Ranked { limiter, share: 0.92 }],
        evidence: Some(evidence),
        advice: advice.map(str::to_owned),
        trust: if is_suspect { Trust::Suspect } else { Trust::Ok },
        trust_reasons: Vec::new(),
    });
}

fn said(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Limiters for the eleven rows of the default run.
pub(super) fn all(phases: &mut [PhaseRecord]) {
    use Confidence::{Confirmed, Likely, Undetermined};
    let none = Evidence::default;
    for phase in phases.iter_mut() {
        let ops = phase.ops;
        if let Some(device) = phase.device.as_mut() {
            device.operations = ops;
        }
    }
    for index in [0, 1] {
        let evidence = Evidence {
            budget: said("its thread was asleep for 97 % of the time"),
            wait_site: said("it slept in the device (io_schedule, 96 %)"),
            probe: said(
                "with 4 times the depth the rate rose by 1 %, with blocks 4 times as large the bytes stayed the same",
            ),
            ..none()
        };
        limit(&mut phases[index], Limiter::DeviceBandwidth, Confirmed, evidence, None);
    }
    let copying = Evidence {
        budget: said("its thread was on a CPU for 96 % of the time (91 % in the kernel)"),
        counters: said("the device was 31 % busy"),
        ceiling: said("it reached 84 % of the same calls on memory"),
        ..none()
    };
    limit(
        &mut phases[2],
        Limiter::KernelCpu,
        Confirmed,
        copying,
        Some("This is no limit of the storage. Try rewrite:seq128k:t4, or rewrite:seq128k:q8:direct."),
    );
    let operations = Evidence {
        probe: said("with 4 times the depth the rate rose by 2 %"),
        counters: said("the device was 99 % busy, with 126 requests in flight"),
        ..none()
    };
    limit(&mut phases[3], Limiter::DeviceOps, Likely, operations, None);
    let two = Evidence {
        budget: said("its threads were asleep for 58 % of the time and in the kernel for 40 %"),
        probe: said("with 4 times the depth the rate rose by 38 %"),
        ..none()
    };
    limit(
        &mut phases[4],
        Limiter::Mixed,
        Likely,
        two,
        Some("Both more CPUs and a faster device would help."),
    );
    if let Some(verdict) = phases[4].verdict.as_mut() {
        verdict.ranking = vec![
            Ranked { limiter: Limiter::DeviceBandwidth, share: 0.55 },
            Ranked { limiter: Limiter::KernelCpu, share: 0.40 },
        ];
    }
    let latency = Evidence {
        budget: said("its thread was asleep for 94 % of the time"),
        wait_site: said("it slept in the device (__iomap_dio_rw, 94 %)"),
        probe: said("a pause of 23 µs cost 24 µs, and 4 operations in flight gave 3.9 times the rate"),
        ..none()
    };
    limit(
        &mut phases[5],
        Limiter::DeviceLatency,
        Confirmed,
        latency,
        Some("4 threads, or depth 4, would give about 3.9 times as much: read:rnd4k:q4."),
    );
    phases[5].wait_sites = vec![WaitSite {
        of: WaitsOf::Workers,
        class: Some("device".into()),
        symbol: "__iomap_dio_rw".into(),
        share: 0.94,
        samples: 1880,
    }];
    let sensed = |value, after, change: &str| {
        Some(Sensed {
            value,
            half_width: Some(0.11),
            before_ops_per_second: 12_900.0,
            after_ops_per_second: after,
            change: change.into(),
        })
    };
    phases[5].sensitivity = Some(Sensitivity {
        delay: sensed(1.02, 9_840.0, "23 µs"),
        depth: sensed(0.98, 50_310.0, "q1t4"),
        block: None,
        separate: None,
    });
    let journal = Evidence {
        wait_site: said("it slept in xlog_wait_on_iclog (61 %) and submit_bio_wait (33 %)"),
        counters: said("the device made 1.0 flushes per operation"),
        budget: said("its thread was asleep for 95 % of the time"),
        ..none()
    };
    limit(
        &mut phases[6],
        Limiter::FsyncJournal,
        Confirmed,
        journal,
        Some("More threads share a commit: fsync:rnd4k:t8."),
    );
    let far = Evidence {
        counters: said("eth0 carried 118 MB/s, and is made for 125 MB/s"),
        budget: said("its threads were asleep for 88 % of the time"),
        ..none()
    };
    limit(&mut phases[7], Limiter::NetworkBandwidth, Likely, far, Some("A faster link, or smaller files."));
    phases[7].system = Some(SystemUse {
        network: Some(NetworkUse {
            interface: "eth0".into(),
            sent_bytes: 1_180_000_000,
            received_bytes: 21_000_000,
            speed_bits_per_second: Some(1_000_000_000),
        }),
        ..SystemUse::default()
    });
    let cached = Evidence {
        counters: said("the device read 0 bytes for 18,900,000 operations"),
        budget: said("its threads were on a CPU for 99 % of the time"),
        ..none()
    };
    limit(&mut phases[8], Limiter::MetadataCache, Likely, cached.clone(), None);
    limit(
        &mut phases[9],
        Limiter::PageCache,
        Confirmed,
        cached,
        Some("As root, add :cold and --cache drop-all."),
    );
    let conflicting = Evidence {
        budget: said("its threads were asleep for 41 % of the time and on a CPU for 52 %"),
        probe: said("a pause of 8 µs cost 3 ± 5 µs"),
        ..none()
    };
    limit(
        &mut phases[10],
        Limiter::LockContention,
        Undetermined,
        conflicting,
        Some("Repeat it alone and longer: --test unlink:t4 --time 30."),
    );
    if let Some(verdict) = phases[10].verdict.as_mut() {
        verdict.ranking = vec![
            Ranked { limiter: Limiter::KernelCpu, share: 0.52 },
            Ranked { limiter: Limiter::LockContention, share: 0.33 },
        ];
    }
}

/// Single bytes, which the C library gathers into calls and the kernel into requests.
pub(crate) fn gathered() -> PhaseRecord {
    let mut phase = phase("putc-write");
    (phase.ops, phase.bytes, phase.app_bytes_written) = (80_412_345, 80_412_345, 80_412_345);
    let calls = CallUse {
        read_calls: 12,
        write_calls: 19_632,
        bytes_per_read_call: Some(80.0),
        bytes_per_write_call: Some(4096.0),
    };
    phase.system = Some(SystemUse { calls: Some(calls), ..SystemUse::default() });
    if let Some(device) = phase.device.as_mut() {
        (device.operations, device.mean_request_bytes) = (2_513, Some(32_000.0));
    }
    phase
}
