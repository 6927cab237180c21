//! Experiments once all tests are done: what the rate of each answers to a change tells what limits it.

use model::Experiment;
use model::experiment::EXPERIMENT_NS;
use model::plan::PlannedPhase;
use model::run::{PhaseRecord, Sensitivity};
use model::workload::{Engine, Probing};
use run::Session;

use super::Driver;

/// Most of a run's total time that experiments take.
const SHARE_OF_TOTAL: f64 = 0.4;

impl Driver {
    /// Makes the experiments that say most about each test, as long as there is time for them.
    ///
    /// They come after all tests, so that none of these is disturbed; the files are those of the last repetition, and what
    /// is found is true of all.
    pub(super) fn experiment(&mut self, session: &mut Session) {
        if self.plan.probe == Probing::None {
            return;
        }
        let total_ns = (self.plan.total_ns as f64 * SHARE_OF_TOTAL) as u64;
        let end_ns = self.left_ns().saturating_sub(total_ns);
        for phase in self.plan.phases.clone() {
            let mut tried = Vec::new();
            while let Some(experiment) = self.next_experiment(&phase, &tried) {
                // On a virtual clock no experiment takes time.
                let is_simulated = phase.engine == Engine::Sim;
                let has_time = is_simulated || self.left_ns() >= end_ns.max(EXPERIMENT_NS);
                if !has_time || self.interruption.is_raised() {
                    break;
                }
                tried.push(experiment);
                self.make(session, &phase, experiment);
            }
        }
        if judge::tell_line(&mut self.phases) {
            for record in &mut self.phases {
                judge::judge(record, &self.plan, &self.environment, self.target_probes.as_ref());
                wording::fill(record);
            }
        }
    }

    /// The last record of a test, on whose files experiments are made.
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

    fn make(&mut self, session: &mut Session, phase: &PlannedPhase, experiment: Experiment) {
        let Some(record) = self.last_record(phase) else { return };
        self.view.preparing(&format!(
            "{} {}: an experiment on its {}",
            record.name,
            record.label,
            experiment.word()
        ));
        let before = session.experiment_bytes();
        let begun = std::time::Instant::now();
        let mut sensed = session.experiment(experiment, phase, record, &mut |_| {});
        let is_of_another_state = sensed.as_ref().is_some_and(|sensed| judge::has_moved(record, sensed));
        if is_of_another_state && self.left_ns() >= EXPERIMENT_NS && !self.interruption.is_raised() {
            // The target may be back in the state of the test by now.
            let again = session.experiment(experiment, phase, record, &mut |_| {});
            sensed = again.filter(|again| !judge::has_moved(record, again)).or(sensed);
        }
        log::debug!("{}: an experiment on its {} took {:?}", phase.id, experiment.word(), begun.elapsed());
        self.written_bytes += session.experiment_bytes() - before;
        let Some(sensed) = sensed else { return };
        let is_of =
            |record: &PhaseRecord| (1..=record.repetition).any(|n| record.id == run::record_id(phase, n));
        for record in self.phases.iter_mut().filter(|record| is_of(record)) {
            let known = record.sensitivity.get_or_insert_with(Sensitivity::default);
            match experiment {
                Experiment::Delay => known.delay = Some(sensed.clone()),
                Experiment::Depth => known.depth = Some(sensed.clone()),
                Experiment::Block => known.block = Some(sensed.clone()),
                Experiment::Separate => known.separate = Some(sensed.clone()),
            }
            judge::judge(record, &self.plan, &self.environment, self.target_probes.as_ref());
            wording::fill(record);
        }
    }
}
