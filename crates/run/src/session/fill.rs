//! Fills of a session's data before its tests, for preconditioning.

use engine::clock::{Clock, Monotonic};
use model::UserError;
use model::plan::PlannedPhase;
use model::run::{FillRecord, Status};

use super::{MeasureOptions, Session, TestTarget, Time};
use crate::data_phase::Part;
use crate::drive::PhaseEvent;
use crate::precondition;

impl Session {
    /// Fills the data before the tests of a repetition, within `time_ns`, as the plan says. `on_event` is
    /// called at every moment of each. Returns a record of each.
    ///
    /// # Errors
    /// Fails if a discard or a write fails, if it hangs, or if the time is used up.
    pub fn fill(
        &mut self,
        repetition: u32,
        time_ns: u64,
        on_event: &mut dyn FnMut(&PlannedPhase, PhaseEvent<'_>),
    ) -> Result<Vec<FillRecord>, UserError> {
        let Some(precondition) = self.plan.precondition.clone() else { return Ok(Vec::new()) };
        let deadline_ns = Monotonic.now_ns().saturating_add(time_ns);
        let mut records = Vec::new();
        for (index, phase) in precondition.fills.iter().enumerate() {
            let purged_ns = if precondition.has_purge { Some(self.purge(index)?) } else { None };
            let left_ns = match self.place {
                TestTarget::Directory(_) => deadline_ns.saturating_sub(Monotonic.now_ns()),
                // A virtual clock takes no time from the run.
                TestTarget::Simulated(_) => u64::MAX,
            };
            let time = Time { measured_ns: left_ns, budget_ns: left_ns };
            let options = MeasureOptions {
                precision_goal: None,
                part: Part::Whole,
                cache: self.plan.cache,
                fills: Some(index),
            };
            let record = self.measure(phase, repetition, time, options, &mut |event| on_event(phase, event));
            if record.status != Status::Done {
                let cause = record.reason.unwrap_or_else(|| "its cause is unknown".into());
                return Err(UserError::new("fill the data before the tests", cause));
            }
            records.push(FillRecord {
                repetition,
                spec: record.spec,
                purged_ns,
                bytes: record.counts.app_bytes_written,
                elapsed_ns: record.counts.elapsed_ns,
            });
        }
        Ok(records)
    }

    /// Discards a group of files, or makes a simulated device new. Returns the time that it took.
    fn purge(&mut self, group: usize) -> Result<u64, UserError> {
        let on_disk = match &mut self.place {
            TestTarget::Directory(on_disk) => &mut **on_disk,
            TestTarget::Simulated(simulated) => {
                simulated.age_bytes = 0;
                return Ok(0);
            }
        };
        let group = on_disk.dataset.as_mut().and_then(|dataset| dataset.groups.get_mut(group));
        let group = group.ok_or_else(|| UserError::new("discard all data", "there is none"))?;
        precondition::purge(group, &on_disk.directory, &self.interrupt, on_disk.meter.activity())
    }
}
