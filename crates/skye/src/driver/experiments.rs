//! Experiments after all tests: the answer of a test's rate to a change shows what limits it. Then each test is run again for a
//! short time, to show how far a repeat may differ.

use super::{Driver, is_damaged};
use model::experiment::{EXPERIMENT_NS, RETURN_VISIT_NS};
use model::plan::PlannedPhase;
use model::run::{PhaseRecord, Response, Sensitivity, Status};
use model::workload::Engine;
use model::{Experiment, UserError};
use run::Side;
use run::hang_detection::first_hung_call;
use run::{return_visit_bytes, return_visit_of};

/// Largest share of a run's total time that experiments take.
const SHARE_OF_TOTAL: f64 = 0.4;

impl Driver {
    /// Makes the experiments that say most about each test, as long as there is time for them.
    ///
    /// Experiments come after all tests, so that they disturb none. They use the files of the last repetition, and
    /// their results hold for all. They go in rounds: when time runs out, no test has taken it all.
    pub(super) fn experiment(&mut self, side: &mut dyn Side) {
        if !self.plan.has_experiments {
            return;
        }
        let total_ns = (self.plan.total_ns as f64 * SHARE_OF_TOTAL) as u64;
        let visits = self.phases_to_revisit().len() as u64;
        let visits_ns = if visits > 0 { RETURN_VISIT_NS * (visits + 1) } else { 0 };
        let end_ns = self.left_ns().saturating_sub(total_ns).max(visits_ns + EXPERIMENT_NS);
        let mut phases: Vec<_> = self.plan.phases.iter().map(|phase| (phase.clone(), Vec::new())).collect();
        let mut moved = Vec::new();
        let mut is_over = false;
        while !std::mem::replace(&mut is_over, true) {
            for (phase, tried) in &mut phases {
                let Some(experiment) = self.next_experiment(phase, tried) else { continue };
                if !self.has_time_for_experiment(phase, end_ns) {
                    continue;
                }
                is_over = false;
                tried.push(experiment);
                if self.make(side, phase, experiment) == Some(State::Other) {
                    moved.push((phase.clone(), experiment));
                }
            }
        }
        // The target may be back in the state of the tests by now.
        for (phase, experiment) in moved {
            if self.has_time_for_experiment(&phase, end_ns) {
                self.make(side, &phase, experiment);
            }
        }
    }

    /// Runs each test again for a short time.
    pub(super) fn return_visits(&mut self, side: &mut dyn Side) {
        let phases = self.phases_to_revisit();
        for (index, phase) in phases.iter().enumerate() {
            if self.interruption.is_raised() || first_hung_call().is_some() {
                break;
            }
            let others_ns = RETURN_VISIT_NS * (phases.len() - index) as u64;
            let budget_ns = self.left_ns().saturating_sub(others_ns);
            if budget_ns < RETURN_VISIT_NS {
                continue;
            }
            let Some(record) = self.last_record(phase).filter(|record| record.status == Status::Done) else {
                continue;
            };
            self.view.preparing(&format!("{} {} once more", record.name, record.label));
            let since = std::time::Instant::now();
            let (id, visit) = (record.id.clone(), side.return_visit(phase, record, budget_ns));
            log::debug!("{}: a return visit took {:?}", phase.id, since.elapsed());
            let Some(mut visit) = visit else { continue };
            // What could not begin, for lack of time or of room, says nothing about the target.
            let has_failed = visit.status == Status::Failed && (visit.counts.ops > 0 || is_damaged(&visit));
            if let Some(reason) = visit.reason.take_if(|_| has_failed) {
                self.fail(&UserError::new(format!("run {} again", phase.id), reason));
            }
            if let Some(record) = self.phases.iter_mut().find(|record| record.id == id) {
                record.figures.return_visit = return_visit_of(phase, record, &visit);
                // The row has read wrong data, too.
                if is_damaged(&visit) {
                    let damage =
                        visit.judged.notes.into_iter().filter(|note| note.code == "verification_failed");
                    record.judged.notes.extend(damage);
                    judge::judge(record, &self.plan, &self.environment, self.target_probes.as_ref());
                    wording::fill(record);
                }
            }
        }
    }

    /// Returns the tests that are run again after all tests. Tests on files keep their order, because each uses the files of the
    /// one before. The others come in reverse order, so that most have another test before them.
    fn phases_to_revisit(&self) -> Vec<PlannedPhase> {
        let phases = self.plan.phases.iter().filter(|phase| self.plan.may_revisit(phase)).cloned();
        let (on_files, others): (Vec<_>, Vec<_>) = phases.partition(|phase| phase.workload.files().is_some());
        on_files.into_iter().chain(others.into_iter().rev()).collect()
    }

    /// Returns the bytes that return visits may write.
    fn return_visits_bytes(&self) -> u64 {
        let records = self.phases_to_revisit();
        records.iter().filter_map(|phase| self.last_record(phase)).map(return_visit_bytes).sum()
    }

    /// Judges all tests again, by what the run's other tests have shown.
    pub(super) fn rejudge_all(&mut self) {
        if judge::propagate_results(&mut self.phases) {
            for record in &mut self.phases {
                judge::judge(record, &self.plan, &self.environment, self.target_probes.as_ref());
                wording::fill(record);
            }
        }
    }

    fn has_time_for_experiment(&self, phase: &PlannedPhase, end_ns: u64) -> bool {
        // On a virtual clock no experiment takes time.
        let is_simulated = phase.engine == Engine::Sim;
        let has_time = is_simulated || self.left_ns() >= end_ns;
        has_time && !self.interruption.is_raised()
    }

    /// Returns the last record of a test. Experiments use its files.
    fn last_record(&self, phase: &PlannedPhase) -> Option<&PhaseRecord> {
        let last = self.plan.repetitions;
        let is_of =
            |record: &&PhaseRecord| record.id == run::record_id(phase, last) && record.repetition == last;
        self.phases.iter().find(is_of)
    }

    fn next_experiment(&self, phase: &PlannedPhase, tried: &[Experiment]) -> Option<Experiment> {
        let probes = self.target_probes.as_ref();
        judge::next_experiment(self.last_record(phase)?, &self.plan, &self.environment, probes, tried)
    }

    /// Makes an experiment and has the records judged again. Returns the state in which it found the target, if it gave
    /// an answer.
    fn make(&mut self, side: &mut dyn Side, phase: &PlannedPhase, experiment: Experiment) -> Option<State> {
        let record = self.last_record(phase)?;
        self.view.preparing(&format!(
            "{} {}: an experiment on its {}",
            record.name,
            record.label,
            experiment.word()
        ));
        let since = std::time::Instant::now();
        let response = side.experiment(experiment, phase, record, self.return_visits_bytes());
        let state = |response: &Response| match judge::has_baseline_shifted(record, response) {
            true => State::Other,
            false => State::OfTest,
        };
        let state = response.as_ref().map(state);
        let is_again =
            record.judged.sensitivity.as_ref().is_some_and(|known| known.response_to(experiment).is_some());
        log::debug!("{}: an experiment on its {} took {:?}", phase.id, experiment.word(), since.elapsed());
        // A second answer from another state says no more than the first.
        let response = response.filter(|_| !(is_again && state == Some(State::Other)))?;
        let is_of =
            |record: &PhaseRecord| (1..=record.repetition).any(|n| record.id == run::record_id(phase, n));
        for record in self.phases.iter_mut().filter(|record| is_of(record)) {
            record
                .judged
                .sensitivity
                .get_or_insert_with(Sensitivity::default)
                .place_of(experiment)
                .replace(response.clone());
            judge::judge(record, &self.plan, &self.environment, self.target_probes.as_ref());
            wording::fill(record);
        }
        state
    }
}

/// The state of a target in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The state during the test.
    OfTest,
    /// Another state, in which the same test gave another rate.
    Other,
}
