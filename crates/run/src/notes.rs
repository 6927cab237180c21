//! Notes on a row that only the run itself can make; the judge makes all notes that follow from the record.

use engine::files::Unexpected;
use model::advice::Advice;
use model::figure::Count;
use model::finding::Finding;
use model::plan::{PlannedPhase, suits_ring};
use model::run::{Note, PhaseRecord};

use crate::record::PhaseTotals;

/// Largest share of due operations that an open loop may fail to start and still keep its rate.
const MISSED_SHARE_MAX: f64 = 0.01;

/// Returns the notes that only the run can make: substituted tests, missing features, operations that never started.
pub fn notes(phase: &PlannedPhase, measured: &PhaseTotals, record: &PhaseRecord) -> Vec<Note> {
    let PhaseTotals { missed, ref missing_features, is_damaged, is_torn, .. } = *measured;
    let mut notes = Vec::new();
    let mut add = |finding: Finding, advice: &[Advice]| notes.push(Note::new(finding, advice.to_vec()));
    if is_damaged {
        add(Finding::DataDiffers {}, &[]);
    }
    if is_torn {
        add(Finding::NotCompared {}, &[]);
    }
    if let Some(requested) = &phase.replaced_workload {
        let (depth, threads) = (Count(requested.iodepth.into()), Count(requested.threads.into()));
        let finding = match suits_ring(requested) {
            true => Finding::ThreadsForRing { depth, threads },
            false => Finding::ThreadsForDepth { depth, threads },
        };
        add(finding, &[]);
    }
    if !missing_features.is_empty() {
        add(Finding::RingWithout { features: missing_features.join("; ").into() }, &[]);
    }
    if let Some(unexpected) = measured.unexpected {
        let Unexpected { count, line, name, errno } = unexpected;
        let how = errno.map_or_else(|| "another result".into(), |errno| errno.to_string());
        let first = format!("line {line}, {name}: {how}").into();
        let finding =
            Finding::UnlikeLoad { unlike: Count(count), operations: Count(record.counts.ops), first };
        notes.push(Note::new(finding, Vec::new()));
    }
    notes.extend(fell_behind(missed, record.counts.ops));
    notes
}

/// Returns the note on an open loop that has missed this many operations beside those that it made, if these are too many.
pub fn fell_behind(missed: u64, ops: u64) -> Option<Note> {
    let due = ops.saturating_add(missed);
    let finding = Finding::FellBehind { missed: Count(missed), due: Count(due) };
    // Even with a stable queue, some operations wait at the end of a phase.
    (missed as f64 > due as f64 * MISSED_SHARE_MAX).then(|| Note::new(finding, vec![Advice::LowerRate {}]))
}
