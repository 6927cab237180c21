//! What the counters say about a row, in one sentence of evidence and one of advice.

use model::plan::PlannedPhase;
use model::run::{Mark, Note, PhaseRecord};
use model::target::{Backing, Target};
use model::workload::{DataVerb, FileVerb, SyncMode, Work};

use crate::record::Measured;

/// Direct I/O and the device's counters must agree within this share; they differ by permilles where all is well.
const AGREEMENT: f64 = 0.02;
/// Foreign I/O, run-queue wait and steal above this share make a number suspect.
const DISTURBANCE: f64 = 0.05;
/// An inode that is found at once costs some ten microseconds; a search through thousands of them more than this.
const SEARCH_NS: u64 = 100_000;
/// An open loop that starts less than all but this share of what is due cannot keep its rate.
const MISSED_SHARE_MAX: f64 = 0.01;
/// Below this share of bytes, a direct test did not reach the device at all.
const INEFFECTIVE: f64 = 0.5;

/// How far the device's bytes are from the application's, for tests in which they must be equal: direct reads and
/// writes of a file that is fully written.
pub fn disagreement(record: &PhaseRecord, phase: &PlannedPhase) -> Option<f64> {
    let data = phase.workload.data().filter(|data| data.direct && data.verb != DataVerb::Fsync)?;
    if !phase.engine.needs_files() {
        return None;
    }
    if data.sync == SyncMode::Each {
        return None;
    }
    let ratio = record.device.as_ref()?.bytes_per_app_byte?;
    Some((ratio - 1.0).abs()).filter(|difference| *difference > AGREEMENT)
}

/// The notes on how a test was issued: what it stands in for, what was done without, what never started.
pub fn of_engine(phase: &PlannedPhase, measured: &Measured, record: &PhaseRecord) -> Vec<Note> {
    let Measured { missed, ref lost, is_damaged, is_torn, .. } = *measured;
    let mut notes = Vec::new();
    let mut add = |mark, code: &str, text: String| notes.push(Note { mark, code: code.into(), text });
    if is_damaged {
        let text = "what was read is not what was written. Nothing that this storage says can be trusted before the reason is known.";
        add(Mark::Act, "verification_failed", text.into());
    }
    if is_torn {
        let text = "what it read was compared with nothing: an earlier test failed while it wrote";
        add(Mark::Info, "not_compared", text.into());
    }
    if let Some(asked) = &phase.instead_of {
        let why = if asked.data().is_some_and(|data| {
            data.direct
                && data.verb != DataVerb::Fsync
                && data.sync != SyncMode::Each
                && data.engine.is_none()
        }) {
            "io_uring cannot be used here"
        } else {
            "plain system calls have no depth"
        };
        add(
            Mark::Info,
            "depth_by_threads",
            format!(
                "asked for as Q{}T{}; {why}, so each operation in flight is a thread",
                asked.iodepth, asked.threads
            ),
        );
    }
    if !lost.is_empty() {
        add(Mark::Info, "engine_features_lost", format!("io_uring had to do without {}", lost.join("; ")));
    }
    let due = record.ops + missed;
    // Where a queue is stable, something waits at the end of a phase all the same.
    if missed as f64 > due as f64 * MISSED_SHARE_MAX {
        add(
            Mark::Act,
            "fell_behind",
            format!(
                "{missed} of {due} operations that were due never started: it cannot keep this rate. The latencies hold for those that did; ask for a lower rate"
            ),
        );
    }
    notes
}

/// The notes on a record.
pub fn notes(record: &PhaseRecord, phase: &PlannedPhase, target: &Target, cpus: u64) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |mark, code: &str, text: String| notes.push(Note { mark, code: code.into(), text });
    match &phase.workload.work {
        // What touches no file has no device to be compared with.
        Work::Data(_) if !phase.engine.needs_files() => {}
        Work::Data(data) => {
            let ratio = record.device.as_ref().and_then(|device| device.bytes_per_app_byte);
            // Bytes go through the cache whatever one asks for.
            let or_direct = if data.verb.is_bytes() { "" } else { ", or with :direct" };
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
                        "the device wrote {ratio:.1} bytes per byte asked for and made {:.1} flushes per operation",
                        record.device.as_ref().map_or(0, |device| device.flushes) as f64
                            / record.ops.max(1) as f64
                    ),
                ),
                Some(ratio) if disagreement(record, phase).is_some() => add(
                    Mark::Distrust,
                    "device_disagrees",
                    if ratio > 1.0 {
                        format!(
                            "the device moved {ratio:.3} bytes per byte asked for. Something else is using it: look at the noise, and run it again when it is quiet."
                        )
                    } else {
                        format!(
                            "the device moved only {ratio:.3} bytes per byte asked for; the rest never reached it. Look for compression, deduplication or a cache in this {}.",
                            target.file_system
                        )
                    },
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
            if data.writes() && !data.direct && data.sync == SyncMode::None {
                add(
                    Mark::Distrust,
                    "nothing_durable",
                    format!(
                        "this is the speed of memory: nothing was made durable. Try it with sync=end{or_direct}."
                    ),
                );
            }
            if let Some(share) = record.page_cache_share.filter(|share| *share > DISTURBANCE && !data.direct)
            {
                add(
                    Mark::Distrust,
                    "served_from_page_cache",
                    format!(
                        "{:.0} % of the bytes came from memory, so this is not the device's speed. Try it with --cache cold{or_direct}.",
                        share * 100.0
                    ),
                );
            }
        }
        Work::Files(files) => {
            let slow = record.latency_ns.as_ref().is_some_and(|latency| latency.mean > SEARCH_NS);
            let busy = record.budget.as_ref().is_some_and(|budget| budget.kernel + budget.run_queue > 0.8);
            if files.verb.takes_inodes() && target.holds_back_inodes() && slow && busy {
                add(
                    Mark::Act,
                    "inode_search",
                    "ext4 without a journal does not reuse inodes for 1 to 5 minutes after a deletion and searches past them, on the CPU. Wait 5 minutes after deleting many files here, or test in another directory.".into(),
                );
            }
            let looks_up =
                matches!(files.verb, FileVerb::Stat | FileVerb::Open | FileVerb::Readdir) || files.missing;
            let fetched = record.device.as_ref().map(|device| device.bytes_read);
            if looks_up && fetched == Some(0) && target.backing == Backing::Devices {
                add(
                    Mark::Distrust,
                    "metadata_cache",
                    "served from memory, the device read nothing; so it says nothing about the disk. As root, add :cold to the test and --cache drop-all.".into(),
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
        let threads = u64::from(phase.workload.threads);
        if budget.steal > DISTURBANCE {
            add(
                Mark::Distrust,
                "steal",
                format!(
                    "the hypervisor took {:.0} % of the threads' time. Run it again when the host is quiet.",
                    budget.steal * 100.0
                ),
            );
        }
        // More threads than CPUs wait for each other; that is not a disturbance from outside.
        if budget.run_queue > DISTURBANCE && threads <= cpus {
            add(
                Mark::Distrust,
                "cpu_contention",
                format!(
                    "its threads waited {:.0} % of their time for a CPU. Other programs are busy: stop them and run it again.",
                    budget.run_queue * 100.0
                ),
            );
        }
    }
    let data = phase.workload.data().filter(|data| data.passes.is_none() && !data.direct);
    let is_one_pass = data.is_some() && phase.stop.passes == Some(1) && record.passes >= 1.0;
    if is_one_pass {
        add(
            Mark::Info,
            "one_pass",
            format!(
                "ended after one pass of {:.1} s: a second would be served from memory; a larger --size lasts longer",
                record.elapsed_ns as f64 / 1e9
            ),
        );
    }
    let limit = phase.stop.bytes.filter(|_| phase.stop.time_ns.is_some());
    if let Some(limit_bytes) = limit.filter(|limit| !is_one_pass && record.bytes >= limit - limit / 50) {
        add(
            Mark::Info,
            "write_limit",
            format!(
                "ended after {:.1} s, when it had written its part of the write limit, {}",
                record.elapsed_ns as f64 / 1e9,
                model::size::decimal(limit_bytes)
            ),
        );
    }
    notes
}
