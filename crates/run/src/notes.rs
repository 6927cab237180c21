//! What only the run itself knows about a row; everything that follows from the record is the judge's.

use model::advice::Advice;
use model::figure::Count;
use model::finding::Finding;
use model::plan::PlannedPhase;
use model::run::{Note, PhaseRecord};
use model::workload::{DataVerb, SyncMode};

use crate::record::PhaseTotals;

/// An open loop that starts less than all but this share of what is due cannot keep its rate.
const MISSED_SHARE_MAX: f64 = 0.01;

/// What only the run knows: what a test stands in for, what was done without, what never started.
pub fn notes(phase: &PlannedPhase, measured: &PhaseTotals, record: &PhaseRecord) -> Vec<Note> {
    let PhaseTotals { missed, ref lost, is_damaged, is_torn, .. } = *measured;
    let mut notes = Vec::new();
    let mut add = |finding: Finding, advice: &[Advice]| notes.push(Note::new(finding, advice.to_vec()));
    if is_damaged {
        add(Finding::DataDiffers {}, &[]);
    }
    if is_torn {
        add(Finding::NotCompared {}, &[]);
    }
    if let Some(asked) = &phase.instead_of {
        let (depth, threads) = (Count(asked.iodepth.into()), Count(asked.threads.into()));
        let would_be_ring = asked.data().is_some_and(|data| {
            data.direct
                && data.verb != DataVerb::Fsync
                && data.sync != SyncMode::Each
                && data.engine.is_none()
        });
        let finding = match would_be_ring {
            true => Finding::ThreadsForRing { depth, threads },
            false => Finding::ThreadsForDepth { depth, threads },
        };
        add(finding, &[]);
    }
    if !lost.is_empty() {
        add(Finding::RingWithout { features: lost.join("; ").into() }, &[]);
    }
    let due = record.ops + missed;
    // Where a queue is stable, something waits at the end of a phase all the same.
    if missed as f64 > due as f64 * MISSED_SHARE_MAX {
        add(Finding::FellBehind { missed: Count(missed), due: Count(due) }, &[Advice::LowerRate {}]);
    }
    notes
}
