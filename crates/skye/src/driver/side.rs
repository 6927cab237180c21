//! Side of a run that the driver talks to: one session here, or clients that make the run together.

use fleet::Fleet;
use model::plan::PlannedPhase;
use model::run::{FillRecord, HostRecord, PhaseRecord, Response, TargetProbes};
use model::{Experiment, UserError};
use run::{LayoutProgress, PhaseEvent, Session, Time, hang_detection};

use crate::closing;

/// A test that is over.
pub struct Outcome {
    /// Its record.
    pub record: PhaseRecord,
    /// Records of the clients that the record sums up, each with its number, to be judged.
    pub clients: Vec<(usize, PhaseRecord)>,
}

/// End of a side.
#[derive(Debug, Default)]
pub struct SideEnd {
    /// Lines about files that could not be removed.
    pub left: Vec<String>,
    /// True while files are still being removed from a target that hangs.
    pub is_closing: bool,
    /// The clients, for the document.
    pub hosts: Vec<HostRecord>,
}

/// Side that measures.
pub trait Side {
    /// Returns the clients that make the run together; none for a session here.
    fn hosts(&self) -> Vec<HostRecord>;
    /// Returns true if the run must end, because a client is lost.
    fn is_over(&self) -> bool;
    /// Lays out fresh files for a repetition, within `time_ns`.
    fn lay_out(&mut self, time_ns: u64, progress: &LayoutProgress) -> Result<(), UserError>;
    /// Fills the data before the tests of a repetition, within `time_ns`, if the plan requires it.
    fn fill(
        &mut self,
        repetition: u32,
        time_ns: u64,
        on_event: &mut dyn FnMut(&PlannedPhase, PhaseEvent<'_>),
    ) -> Result<Vec<FillRecord>, UserError>;
    /// Removes all files that were laid out or made.
    fn clear(&mut self) -> Result<(), UserError>;
    /// Makes short experiments on the target.
    fn probe_target(&mut self) -> Option<TargetProbes>;
    /// Runs the test at that place of the plan.
    fn phase(
        &mut self,
        place: (usize, &PlannedPhase),
        repetition: u32,
        time: Time,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> Outcome;
    /// Makes an experiment on a test that gave `record`. It leaves `kept_bytes` of the write limit.
    fn experiment(
        &mut self,
        experiment: Experiment,
        phase: &PlannedPhase,
        record: &PhaseRecord,
        kept_bytes: u64,
    ) -> Option<Response>;
    /// Runs a test that gave `record` again, for a short time within `budget_ns`.
    fn return_visit(
        &mut self,
        phase: &PlannedPhase,
        record: &PhaseRecord,
        budget_ns: u64,
    ) -> Option<PhaseRecord>;
    /// Returns the bytes that each client may still write.
    fn left_bytes(&self) -> u64;
    /// Returns the cost of one read of the clock, in nanoseconds.
    fn clock_read_ns(&self) -> f64;
    /// Removes everything.
    fn close(self: Box<Self>) -> SideEnd;
}

impl Side for Session {
    fn hosts(&self) -> Vec<HostRecord> {
        Vec::new()
    }

    fn is_over(&self) -> bool {
        false
    }

    fn lay_out(&mut self, time_ns: u64, progress: &LayoutProgress) -> Result<(), UserError> {
        Session::lay_out(self, time_ns, progress)
    }

    fn fill(
        &mut self,
        repetition: u32,
        time_ns: u64,
        on_event: &mut dyn FnMut(&PlannedPhase, PhaseEvent<'_>),
    ) -> Result<Vec<FillRecord>, UserError> {
        Session::fill(self, repetition, time_ns, on_event)
    }

    fn clear(&mut self) -> Result<(), UserError> {
        Session::clear(self)
    }

    fn probe_target(&mut self) -> Option<TargetProbes> {
        Session::probe_target(self)
    }

    fn phase(
        &mut self,
        (_, phase): (usize, &PlannedPhase),
        repetition: u32,
        time: Time,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> Outcome {
        let record = Session::phase(self, phase, repetition, time, on_event);
        Outcome { record, clients: Vec::new() }
    }

    fn experiment(
        &mut self,
        experiment: Experiment,
        phase: &PlannedPhase,
        record: &PhaseRecord,
        kept_bytes: u64,
    ) -> Option<Response> {
        Session::experiment(self, experiment, phase, record, kept_bytes, &mut |_| {})
    }

    fn return_visit(
        &mut self,
        phase: &PlannedPhase,
        record: &PhaseRecord,
        budget_ns: u64,
    ) -> Option<PhaseRecord> {
        Session::return_visit(self, phase, record, budget_ns, &mut |_| {})
    }

    fn left_bytes(&self) -> u64 {
        Session::left_bytes(self)
    }

    fn clock_read_ns(&self) -> f64 {
        Session::clock_read_ns(self)
    }

    fn close(self: Box<Self>) -> SideEnd {
        match Session::close(*self) {
            None => SideEnd::default(),
            Some(removing) if hang_detection::first_hung_call().is_some() => {
                closing::later(removing);
                SideEnd { is_closing: true, ..SideEnd::default() }
            }
            Some(removing) => {
                SideEnd { left: closing::leftover_lines(removing.wait()), ..SideEnd::default() }
            }
        }
    }
}

impl Side for Fleet {
    fn hosts(&self) -> Vec<HostRecord> {
        self.records()
    }

    fn is_over(&self) -> bool {
        Fleet::is_over(self)
    }

    fn lay_out(&mut self, time_ns: u64, progress: &LayoutProgress) -> Result<(), UserError> {
        Fleet::lay_out(self, time_ns, progress)
    }

    /// A plan with clients has no fills.
    fn fill(
        &mut self,
        _: u32,
        _: u64,
        _: &mut dyn FnMut(&PlannedPhase, PhaseEvent<'_>),
    ) -> Result<Vec<FillRecord>, UserError> {
        Ok(Vec::new())
    }

    fn clear(&mut self) -> Result<(), UserError> {
        Fleet::clear(self)
    }

    /// Each client has its own target, and the run has none.
    fn probe_target(&mut self) -> Option<TargetProbes> {
        None
    }

    fn phase(
        &mut self,
        (index, phase): (usize, &PlannedPhase),
        repetition: u32,
        time: Time,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> Outcome {
        let fleet::CombinedPhase { record, clients } =
            Fleet::phase(self, index, phase, repetition, time, on_event);
        Outcome { record, clients }
    }

    /// A plan with clients has no experiments.
    fn experiment(&mut self, _: Experiment, _: &PlannedPhase, _: &PhaseRecord, _: u64) -> Option<Response> {
        None
    }

    /// A plan with clients has no return visits.
    fn return_visit(&mut self, _: &PlannedPhase, _: &PhaseRecord, _: u64) -> Option<PhaseRecord> {
        None
    }

    fn left_bytes(&self) -> u64 {
        Fleet::left_bytes(self)
    }

    fn clock_read_ns(&self) -> f64 {
        Fleet::clock_read_ns(self)
    }

    fn close(mut self: Box<Self>) -> SideEnd {
        let left = Fleet::close(&mut self);
        SideEnd { left, is_closing: false, hosts: self.records() }
    }
}
