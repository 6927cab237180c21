//! Bytes that a test on files may write: its part of the budget of the run.

use std::sync::Arc;

use engine::budget::Budget;
use model::plan::PlannedPhase;
use model::workload::{FileVerb, FilesWork};

use crate::hang_detection;

/// Bytes for the files that a test makes, and for its operations.
pub(super) struct Allowance {
    untimed: Arc<Budget>,
    /// Those of each thread, which are mostly the same.
    measured: Vec<Arc<Budget>>,
    /// Most bytes of its operations.
    measured_bytes: u64,
}

impl Allowance {
    /// Takes the planned bytes of a test from the budget of the run, or those that are left.
    pub fn take(run: &Budget, phase: &PlannedPhase, work: &FilesWork) -> Self {
        let threads = phase.workload.threads.max(1);
        let share = |bytes: u64, threads: u32| Arc::new(Budget::new(bytes, threads.into()));
        if !work.writes_data() {
            let none = share(0, 1);
            return Self {
                measured: vec![Arc::clone(&none); threads as usize],
                untimed: none,
                measured_bytes: 0,
            };
        }
        let prepared_bytes = work.prepared_bytes_max(phase.workload.threads);
        let planned_bytes = phase.stop.bytes.unwrap_or(u64::MAX);
        if !phase.workload.is_continuous() {
            // Rounds write untimed, too, and the next one begins only if it fits.
            let bytes = run.take_up_to(planned_bytes.saturating_add(prepared_bytes));
            let all = share(bytes, threads);
            let measured = vec![Arc::clone(&all); threads as usize];
            return Self { untimed: all, measured, measured_bytes: bytes };
        }
        // The sizes of files are drawn, so what they take is not known before.
        let untimed = share(run.take_up_to(planned_bytes.saturating_add(prepared_bytes)), threads);
        let measured = match work.verb {
            // Each thread writes as many bytes. None takes those of a slower one.
            FileVerb::Replay if work.passes.is_some() => (0..threads).map(|_| share(0, 1)).collect(),
            _ => vec![share(0, threads); threads as usize],
        };
        Self { untimed, measured, measured_bytes: planned_bytes }
    }

    /// Gives the operations of a test of one measured part their bytes. Its files are made.
    pub fn begin(&mut self) {
        if Arc::ptr_eq(&self.untimed, &self.measured[0]) {
            return;
        }
        self.measured_bytes = self.untimed.take_up_to(self.measured_bytes);
        let mut budgets: Vec<_> = self.measured.iter().collect();
        budgets.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let each_bytes = self.measured_bytes / budgets.len() as u64;
        budgets.iter().for_each(|budget| budget.give_back(each_bytes));
        self.untimed.give_back(self.measured_bytes - each_bytes * budgets.len() as u64);
    }

    /// Bytes that threads may write while nothing is measured.
    pub fn untimed(&self) -> Arc<Budget> {
        Arc::clone(&self.untimed)
    }

    /// Bytes for the operations of each thread.
    pub fn measured(&self) -> &[Arc<Budget>] {
        &self.measured
    }

    /// Returns true if an operation needed more bytes than were left.
    pub fn is_spent(&self) -> bool {
        self.measured.iter().any(|budget| budget.is_spent())
    }

    /// Returns true if the files of the test needed more bytes than were left.
    pub fn is_too_small(&self) -> bool {
        self.untimed.is_spent()
    }

    /// Ends the test, and gives back the bytes that it has not written. Threads that hang may still write. Returns the
    /// bytes of its operations if they were spent.
    pub fn end(self, run: &Budget) -> Option<u64> {
        let limit_bytes = self.is_spent().then_some(self.measured_bytes);
        let mut budgets: Vec<&Arc<Budget>> = self.measured.iter().chain([&self.untimed]).collect();
        budgets.dedup_by(|one, other| Arc::ptr_eq(one, other));
        if hang_detection::first_hung_call().is_none() {
            budgets.iter().for_each(|budget| run.give_back(budget.left_bytes()));
        }
        limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::plan::Stop;
    use model::spec::{Defaults, parse};
    use model::workload::Engine;

    fn phase(spec: &str, bytes: u64) -> PlannedPhase {
        let workload = parse(spec, &Defaults::default()).unwrap();
        let stop = Stop { bytes: Some(bytes), ..Stop::default() };
        let id = "test".into();
        PlannedPhase {
            id,
            workload,
            engine: Engine::Sync,
            replaced_workload: None,
            group: None,
            clients: None,
            stop,
        }
    }

    #[test]
    fn test_allowance_never_exceeds_run_budget() {
        let run = Budget::new(1000, 1);
        for (spec, planned_bytes, taken_bytes) in [
            ("stat:files=5", 100, 0),
            ("create:files=5:size=10", 100, 150),
            ("append:files=5:chunk=256:t2", 100, 1000),
            ("append:files=1:chunk=256", 100, 356),
            ("mix:mail:files=5", 100, 1000),
            ("create:files=5:size=10", 10_000, 1000),
        ] {
            let phase = phase(spec, planned_bytes);
            let allowance = Allowance::take(&run, &phase, phase.workload.files().unwrap());
            assert_eq!(1000 - run.left_bytes(), taken_bytes, "{spec}");
            assert_eq!(allowance.measured().len(), phase.workload.threads as usize);
            assert_eq!((allowance.end(&run), run.left_bytes()), (None, 1000), "{spec}");
        }
    }

    #[test]
    fn written_bytes_are_not_returned_to_the_budget() {
        let run = Budget::new(1000, 1);
        let phase = phase("create:files=5:size=10", 100);
        let allowance = Allowance::take(&run, &phase, phase.workload.files().unwrap());
        assert!(allowance.untimed().take(30) && allowance.measured()[0].take(40));
        assert!(!allowance.measured()[0].take(100) && allowance.is_spent());
        assert_eq!((allowance.end(&run), run.left_bytes()), (Some(150), 930));
    }

    #[test]
    fn mix_operations_get_bytes_left_after_file_creation() {
        let run = Budget::new(1 << 30, 1);
        let phase = phase("mix:mail:files=6:t2", 1_000_000);
        let mut allowance = Allowance::take(&run, &phase, phase.workload.files().unwrap());
        let all_bytes = allowance.untimed().left_bytes();
        assert!(all_bytes > 1_000_000 && !allowance.measured()[0].take(1));
        let made_bytes = all_bytes - 400_000;
        assert!(allowance.untimed().take(made_bytes));
        allowance.begin();
        assert_eq!(allowance.measured()[1].left_bytes(), 400_000);
        assert_eq!((allowance.end(&run), run.left_bytes()), (Some(400_000), (1 << 30) - made_bytes));
    }
}
