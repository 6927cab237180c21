//! What only the run itself knows about a row; everything that follows from the record is the judge's.

use model::plan::PlannedPhase;
use model::run::{Mark, Note, PhaseRecord};
use model::workload::{DataVerb, SyncMode};

use crate::record::Measured;

/// An open loop that starts less than all but this share of what is due cannot keep its rate.
const MISSED_SHARE_MAX: f64 = 0.01;

/// What only the run knows: what a test stands in for, what was done without, what never started.
pub fn notes(phase: &PlannedPhase, measured: &Measured, record: &PhaseRecord) -> Vec<Note> {
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
