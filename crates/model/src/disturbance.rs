//! Disturbance of a test by other processes and guests while it was measured, and the thresholds above which it spoils
//! a verdict.

use serde::{Deserialize, Serialize};

use crate::numbers::percent;

/// CPUs that other processes may use before a verdict is in doubt. A quarter of a CPU makes a single thread wait for a
/// time slice now and then. On an idle machine, interrupts and the test's own observer use up to a tenth.
pub const FOREIGN_CPUS_MAX: f64 = 0.25;
/// Limit on the foreign share of the threads' time, or of the device's bytes. More makes a number suspect.
pub const SHARE_MAX: f64 = 0.05;

/// Disturbance of a test by other processes and guests while it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// CPUs used by other processes. Servers and loads that a selftest has started do not count.
    pub foreign_cpus: f64,
    /// Share of their time that the test's threads waited for a CPU, 0 to 1. By itself it is no disturbance, because
    /// threads of the test and of its server wait for each other.
    pub run_queue: f64,
    /// Share of their time that the hypervisor took, 0 to 1.
    pub steal: f64,
    /// Share of foreign I/O among the device's bytes, 0 to 1.
    pub foreign_io: f64,
}

impl Disturbance {
    /// Returns true if the disturbance is too small to explain a wrong verdict.
    pub fn is_quiet(&self) -> bool {
        self.foreign_cpus <= FOREIGN_CPUS_MAX && self.steal <= SHARE_MAX && self.foreign_io <= SHARE_MAX
    }

    /// Returns the larger of both values for each figure.
    pub fn max(self, other: Self) -> Self {
        Self {
            foreign_cpus: self.foreign_cpus.max(other.foreign_cpus),
            run_queue: self.run_queue.max(other.run_queue),
            steal: self.steal.max(other.steal),
            foreign_io: self.foreign_io.max(other.foreign_io),
        }
    }
}

impl std::fmt::Display for Disturbance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { foreign_cpus, run_queue, steal, foreign_io } = *self;
        write!(
            f,
            "other processes used {foreign_cpus:.2} CPUs, threads waited for a CPU {} of the time, steal {}, foreign \
             I/O {} of the device's bytes",
            percent(run_queue),
            percent(steal),
            percent(foreign_io)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_alone_disturbs_except_run_queue_wait() {
        let quiet = Disturbance::default();
        assert!(quiet.is_quiet());
        assert!(!Disturbance { foreign_cpus: 0.26, ..quiet }.is_quiet());
        assert!(!Disturbance { steal: 0.06, ..quiet }.is_quiet());
        assert!(!Disturbance { foreign_io: 0.06, ..quiet }.is_quiet());
        assert!(Disturbance { run_queue: 0.9, foreign_cpus: 0.2, ..quiet }.is_quiet());
    }
}
