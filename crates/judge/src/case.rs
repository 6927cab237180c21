//! What is judged: a record, and what is known around it.

use model::Plan;
use model::plan::PlannedPhase;
use model::run::{Environment, PhaseRecord, TargetProbes};
use model::target::{Backing, Target};
use model::workload::{DataWork, Engine, FilesWork};

/// A record, with the test that it is of, the plan and the machine.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The record.
    pub record: &'a PhaseRecord,
    /// The test.
    pub phase: &'a PlannedPhase,
    /// What was to be done.
    pub plan: &'a Plan,
    /// The machine and the target.
    pub environment: &'a Environment,
    /// What short experiments found out about the target.
    pub probes: Option<&'a TargetProbes>,
}

impl<'a> Case<'a> {
    /// A case.
    pub fn new(
        record: &'a PhaseRecord,
        phase: &'a PlannedPhase,
        plan: &'a Plan,
        environment: &'a Environment,
        probes: Option<&'a TargetProbes>,
    ) -> Self {
        Self { record, phase, plan, environment, probes }
    }

    /// Where it was measured.
    pub fn target(&self) -> &'a Target {
        &self.environment.target
    }

    /// The test, if it is one on data.
    pub fn data(&self) -> Option<&'a DataWork> {
        self.phase.workload.data()
    }

    /// The test, if it is one on data in files: what touches none has no device to be compared with.
    pub fn data_in_files(&self) -> Option<&'a DataWork> {
        self.data().filter(|_| self.phase.engine.needs_files())
    }

    /// The test, if it is one on files.
    pub fn files(&self) -> Option<&'a FilesWork> {
        self.phase.workload.files()
    }

    /// Whether its operations reach something that has a speed: not those of engines that do nothing.
    pub fn is_measured(&self) -> bool {
        !matches!(self.phase.engine, Engine::Null | Engine::Nop)
    }

    /// Whether it reads data of files, and of those only.
    pub fn reads_only(&self) -> bool {
        self.data_in_files().is_some_and(|data| data.reads() && !data.writes())
    }

    /// Whether devices of this machine hold the data.
    pub fn is_on_devices(&self) -> bool {
        self.target().backing == Backing::Devices
    }

    /// Device bytes per byte asked for.
    pub fn ratio(&self) -> Option<f64> {
        self.record.device.as_ref()?.bytes_per_app_byte
    }

    /// Seconds that it took, the sync at the end included.
    pub fn seconds(&self) -> f64 {
        self.record.elapsed_ns as f64 / 1e9
    }

    /// Half of the 95 % interval of the headline, as a share of it; `None` where there is no interval.
    pub fn half_width(&self) -> Option<f64> {
        let rate = &self.record.rate;
        let half = (rate.ci95_high_ops_per_second? - rate.ci95_low_ops_per_second?) / 2.0;
        rate.ops_per_second.filter(|rate| *rate > 0.0).map(|rate| half / rate)
    }

    /// Whether an option of the mount has this name: "barrier" and "barrier=0" are two options.
    pub fn has_mount_option(&self, name: &str) -> bool {
        self.target().mount_options.iter().any(|option| option == name)
    }
}
