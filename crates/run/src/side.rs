//! Side of a run that its driver talks to: a session here, or clients that make the run together.

use model::order::{LayoutOrder, TestOrder};
use model::plan::PlannedPhase;
use model::run::{FillRecord, HostRecord, PhaseRecord, Response, TargetProbes};
use model::{Experiment, UserError};

use crate::dataset::LayoutProgress;
use crate::directory::PendingRemoval;
use crate::drive::PhaseEvent;

/// A test that is over.
pub struct PhaseOutcome {
    /// Its record.
    pub record: PhaseRecord,
    /// Records of the clients that the record sums up, each with its number, to be judged.
    pub clients: Vec<(usize, PhaseRecord)>,
}

/// End of a side.
#[derive(Default)]
#[must_use]
pub struct SideEnd {
    /// Lines about files that could not be removed.
    pub left: Vec<String>,
    /// The removal of files, if it goes on.
    pub removal: Option<PendingRemoval>,
    /// The clients, for the document.
    pub hosts: Vec<HostRecord>,
}

/// Side that measures. A side that keeps a default has nothing to do there.
pub trait Side {
    /// Returns the clients that make the run together; none for a session here.
    fn hosts(&self) -> Vec<HostRecord> {
        Vec::new()
    }

    /// Returns true if the run must end, because a client is lost.
    fn is_over(&self) -> bool {
        false
    }

    /// Lays out fresh files for a repetition. Removes the files of an earlier repetition.
    ///
    /// # Errors
    /// A write fails or hangs, the time is used up, or a client was lost and the run ends with that.
    fn lay_out(&mut self, order: &LayoutOrder, progress: &LayoutProgress) -> Result<(), UserError>;

    /// Fills the data before the tests of a repetition, within `time_ns`, if the plan requires it. Calls `on_event` at every
    /// moment of each fill. Returns a record of each.
    ///
    /// # Errors
    /// A discard or a write fails, it hangs, or the time is used up.
    fn fill(
        &mut self,
        _repetition: u32,
        _time_ns: u64,
        _on_event: &mut dyn FnMut(&PlannedPhase, PhaseEvent<'_>),
    ) -> Result<Vec<FillRecord>, UserError> {
        Ok(Vec::new())
    }

    /// Removes all files that were laid out or made.
    ///
    /// # Errors
    /// A removal fails or hangs, or a client was lost and the run ends with that.
    fn clear(&mut self) -> Result<(), UserError>;

    /// Makes short experiments on the files that were laid out; `None` if there are none.
    fn probe_target(&mut self) -> Option<TargetProbes> {
        None
    }

    /// Runs one test of the plan. Calls `on_event` at every moment. A test always gives a record.
    fn phase(
        &mut self,
        phase: &PlannedPhase,
        order: &TestOrder,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> PhaseOutcome;

    /// Makes an experiment on a test that gave `record`. It leaves `kept_bytes` of the write limit. Returns `None` if the
    /// experiment means nothing, cannot be made, or does not finish.
    fn experiment(
        &mut self,
        _experiment: Experiment,
        _phase: &PlannedPhase,
        _record: &PhaseRecord,
        _kept_bytes: u64,
    ) -> Option<Response> {
        None
    }

    /// Runs a test that gave `record` again, without a change and for a short time, within `budget_ns`. Returns its record;
    /// `None` if it cannot be made.
    fn return_visit(
        &mut self,
        _phase: &PlannedPhase,
        _record: &PhaseRecord,
        _budget_ns: u64,
    ) -> Option<PhaseRecord> {
        None
    }

    /// Returns the bytes that each client may still write.
    fn left_bytes(&self) -> u64;

    /// Returns the cost of one read of the clock that times operations, in nanoseconds.
    fn clock_read_ns(&self) -> f64;

    /// Removes everything, or begins to.
    fn close(self: Box<Self>) -> SideEnd;
}
