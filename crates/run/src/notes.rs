//! What the counters say about a row, in one sentence of evidence and one of advice.

use model::plan::PlannedPhase;
use model::run::{Mark, Note, PhaseRecord};
use model::target::{Backing, Target};
use model::workload::{DataVerb, FileVerb, Work};

/// Direct I/O and the device's counters must agree within this share; they differ by permilles where all is well.
const AGREEMENT: f64 = 0.02;
/// Foreign I/O, run-queue wait and steal above this share make a number suspect.
const DISTURBANCE: f64 = 0.05;
/// Below this share of bytes, a direct test did not reach the device at all.
const INEFFECTIVE: f64 = 0.5;

/// How far the device's bytes are from the application's, for tests in which they must be equal: direct reads and
/// writes of a file that is fully written.
pub fn disagreement(record: &PhaseRecord, phase: &PlannedPhase) -> Option<f64> {
    let data = phase.workload.data().filter(|data| data.direct && data.verb != DataVerb::Fsync)?;
    if data.sync == model::workload::SyncMode::Each {
        return None;
    }
    let ratio = record.device.as_ref()?.bytes_per_app_byte?;
    Some((ratio - 1.0).abs()).filter(|difference| *difference > AGREEMENT)
}

/// The notes on a record.
pub fn notes(record: &PhaseRecord, phase: &PlannedPhase, target: &Target) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |mark, code: &str, text: String| notes.push(Note { mark, code: code.into(), text });
    match &phase.workload.work {
        Work::Data(data) => {
            let ratio = record.device.as_ref().and_then(|device| device.bytes_per_app_byte);
            match ratio {
                Some(ratio) if data.direct && ratio < INEFFECTIVE => add(
                    Mark::Distrust,
                    "o_direct_ineffective",
                    format!(
                        "the device moved only {:.0} % of the bytes, so O_DIRECT was not direct on this {}. Its mount options or features (data=journal, compression, checksums) make it buffered.",
                        ratio * 100.0,
                        target.file_system
                    ),
                ),
                Some(ratio) if data.verb == DataVerb::Fsync => add(
                    Mark::Info,
                    "amplification",
                    format!(
                        "{ratio:.2} device bytes per byte written, and {} device flushes for {} operations",
                        flushes(record),
                        record.ops
                    ),
                ),
                Some(ratio) if disagreement(record, phase).is_some() => add(
                    Mark::Distrust,
                    "device_disagrees",
                    format!(
                        "the device moved {ratio:.3} bytes per byte asked for. Something else is using it: look at the noise, and run it again when it is quiet."
                    ),
                ),
                Some(ratio) if data.verb == DataVerb::Read && !data.direct && ratio > 1.1 => add(
                    Mark::Info,
                    "read_ahead",
                    format!(
                        "the device read {ratio:.2} bytes per byte asked for: read-ahead that was not used"
                    ),
                ),
                _ => {}
            }
            if let Some(share) = record.page_cache_share.filter(|share| *share > DISTURBANCE && !data.direct)
            {
                add(
                    Mark::Distrust,
                    "served_from_page_cache",
                    format!(
                        "{:.0} % of the bytes came from memory, so this is not the device's speed. Try it with :direct, or with --cache cold.",
                        share * 100.0
                    ),
                );
            }
        }
        Work::Files(files) => {
            let looks_up =
                matches!(files.verb, FileVerb::Stat | FileVerb::Open | FileVerb::Readdir) || files.missing;
            let fetched = record.device.as_ref().map(|device| device.bytes_read);
            if looks_up && fetched == Some(0) && target.backing == Backing::Devices {
                let verb = files.verb.word();
                add(
                    Mark::Distrust,
                    "metadata_cache",
                    format!(
                        "served from memory, the device read nothing; so it says nothing about the disk. As root, try {verb}:cold with --cache drop-all."
                    ),
                );
            }
        }
    }
    if let Some(device) = &record.device
        && let Some(share) = device.foreign_share.filter(|share| *share > DISTURBANCE)
    {
        add(
            Mark::Distrust,
            "foreign_io",
            format!(
                "{:.0} % of the bytes on {} were not ours. Find who else uses it, and run it again when it is quiet.",
                share * 100.0,
                device.name
            ),
        );
    }
    if let Some(budget) = &record.budget {
        let lost = budget.run_queue + budget.steal;
        let threads = u64::from(phase.workload.threads) * u64::from(phase.workload.iodepth);
        // More threads than CPUs wait for each other; that is not a disturbance from outside.
        if lost > DISTURBANCE && budget.steal > DISTURBANCE / 2.0 {
            add(
                Mark::Distrust,
                "steal",
                format!(
                    "the hypervisor took {:.0} % of the threads' time. Run it again when the host is quiet.",
                    budget.steal * 100.0
                ),
            );
        } else if lost > DISTURBANCE && threads == 1 {
            add(
                Mark::Distrust,
                "cpu_contention",
                format!(
                    "the thread waited {:.0} % of its time for a CPU. Other programs are busy: stop them and run it again.",
                    budget.run_queue * 100.0
                ),
            );
        }
    }
    notes
}

fn flushes(record: &PhaseRecord) -> u64 {
    record.device.as_ref().map_or(0, |device| device.flushes)
}
