//! A session as the side of a run.

use engine::clock::{Clock, Monotonic, read_cost_ns};
use model::order::{LayoutOrder, TestOrder, Time};
use model::plan::PlannedPhase;
use model::run::{FillRecord, PhaseRecord, Response, Status, TargetProbes};
use model::workload::Arrival;
use model::{Experiment, UserError, spec};

use super::{CACHED_SPEEDUP_MIN, MeasureOptions, OnDisk, Session, TestTarget};
use crate::data_phase::Part;
use crate::dataset::{self, DataSet, LayoutProgress, Owner};
use crate::drive::PhaseEvent;
use crate::file_phase::FileSet;
use crate::probes::{self, ProbedTarget};
use crate::side::{PhaseOutcome, Side, SideEnd};
use crate::{experiment, hang_detection, precondition};

impl Side for Session {
    fn lay_out(&mut self, order: &LayoutOrder, progress: &LayoutProgress) -> Result<(), UserError> {
        self.clear()?;
        self.open_first(order.first.as_deref())?;
        let TestTarget::Directory(on_disk) = &mut self.place else { return Ok(()) };
        let (number, clients) = self.plan.clients.map_or((0, 1), |all| (all.number.unwrap_or(0), all.count));
        if let Some(plan) = &self.plan.dataset {
            let deadline_ns = Monotonic.now_ns().saturating_add(order.time_ns);
            on_disk.is_dirty = true;
            let OnDisk { directory, meter, first, .. } = &mut **on_disk;
            let refuses_direct = dataset::check_calls(directory, &self.plan, plan)?;
            let (room, moved) = (meter.room().cloned(), meter.activity());
            let (seed, budget, stop) = (self.seed, &self.budget, &self.interrupt);
            let owner = Owner { seed, number, clients, first: first.as_ref(), budget, room };
            let laid_out = DataSet::lay_out(directory, plan, &owner, stop, deadline_ns, progress, moved);
            // The files of a partial layout would be in the way of the other tests.
            if laid_out.is_err() && hang_detection::first_hung_call().is_none() {
                let _ = on_disk.directory.remove_files_of("");
            }
            on_disk.dataset = Some(DataSet { refuses_direct, ..laid_out? });
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), UserError> {
        let TestTarget::Directory(on_disk) = &mut self.place else { return Ok(()) };
        on_disk.dataset = None;
        if on_disk.is_dirty || self.phases_run > 0 {
            on_disk.directory.remove_files_of("")?;
            on_disk.files = FileSet::default();
            on_disk.is_dirty = false;
        }
        Ok(())
    }

    fn probe_target(&mut self) -> Option<TargetProbes> {
        let TestTarget::Directory(on_disk) = &self.place else { return None };
        let dataset = on_disk.dataset.as_ref()?;
        let Self { plan, target, seed, budget, interrupt, .. } = &*self;
        let OnDisk { root, directory, .. } = &**on_disk;
        let probed = ProbedTarget { root, target, directory, dataset };
        let found = probes::probe(&probed, plan, *seed, budget, interrupt);
        self.is_cached_below = found.reread.as_ref().is_some_and(|reread| {
            reread.first_mean_ns as f64 > CACHED_SPEEDUP_MIN * reread.second_mean_ns as f64
        });
        Some(found)
    }

    fn fill(
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
            let order = TestOrder::new(0, repetition, time);
            let options = MeasureOptions {
                precision_goal: None,
                rounds: None,
                part: Part::Whole,
                cache: self.plan.cache,
                fills: Some(index),
            };
            let record = self.measure(phase, &order, options, &mut |event| on_event(phase, event));
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

    fn phase(
        &mut self,
        phase: &PlannedPhase,
        order: &TestOrder,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> PhaseOutcome {
        if order.recreate_files
            && let TestTarget::Directory(on_disk) = &mut self.place
        {
            on_disk.files.forget();
        }
        let precision_goal = self.plan.precision_goal_of(phase);
        let (part, rounds) = (self.part_of(phase), self.plan.rounds_of(phase));
        let options = MeasureOptions { precision_goal, rounds, part, cache: self.plan.cache, fills: None };
        let record = self.measure(phase, order, options, on_event);
        let is_closed = phase.workload.data().is_none_or(|data| data.arrival == Arrival::Closed);
        if let Some(rate) = record.figures.rate.steady_or_whole().filter(|_| is_closed) {
            self.reached.insert(spec::print(phase.requested_workload()), rate);
        }
        PhaseOutcome { record, clients: Vec::new() }
    }

    fn experiment(
        &mut self,
        experiment: Experiment,
        phase: &PlannedPhase,
        record: &PhaseRecord,
        kept_bytes: u64,
    ) -> Option<Response> {
        experiment::respond(self, experiment, phase, record, kept_bytes)
    }

    fn return_visit(
        &mut self,
        phase: &PlannedPhase,
        record: &PhaseRecord,
        budget_ns: u64,
    ) -> Option<PhaseRecord> {
        experiment::revisit(self, phase, record, budget_ns)
    }

    fn left_bytes(&self) -> u64 {
        self.budget.left_bytes()
    }

    fn clock_read_ns(&self) -> f64 {
        read_cost_ns(&self.timer)
    }

    fn close(self: Box<Self>) -> SideEnd {
        let removal = match self.place {
            TestTarget::Directory(on_disk) => {
                let OnDisk { directory, meter, .. } = *on_disk;
                directory.remove(meter.into_activity())
            }
            TestTarget::Simulated(_) => None,
        };
        SideEnd { removal, ..SideEnd::default() }
    }
}

impl Session {
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
