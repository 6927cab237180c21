//! The headline number of a test, and the two of a run.

use model::run::{PhaseRecord, Status};
use model::workload::Access;

use crate::numbers::{amount, megabytes};
use crate::text::Kind;

/// Rate that gives a test its headline number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Bytes per second, for sequential tests.
    Bytes,
    /// Operations on data per second.
    Operations,
    /// Operations on files per second.
    Files,
}

impl Measure {
    /// Returns the measure of a test.
    pub(crate) fn from_phase(phase: &PhaseRecord) -> Self {
        match (phase.workload.pattern, Kind::from_phase(phase)) {
            (Some(Access::Sequential), _) => Self::Bytes,
            (_, Kind::Data) => Self::Operations,
            (_, Kind::Files) => Self::Files,
        }
    }

    /// Returns the phase's rate by this measure, in bytes or operations per second; `None` if it has none.
    pub(crate) fn rate(self, phase: &PhaseRecord) -> Option<f64> {
        if matches!(phase.status, Status::Skipped | Status::Failed) {
            return None;
        }
        match self {
            Self::Bytes => phase.figures.rate.bytes_per_second,
            Self::Operations | Self::Files => phase.figures.rate.ops_per_second,
        }
    }

    /// Formats a rate in a few characters: "6,881 MB/s", "966,310 IOPS", "142,310/s". Returns `None` if `rate` is
    /// negative or not finite.
    pub(crate) fn text(self, rate: f64) -> Option<String> {
        match self {
            Self::Bytes => megabytes(rate),
            Self::Operations => amount(rate).map(|rate| format!("{rate} IOPS")),
            Self::Files => amount(rate).map(|rate| format!("{rate}/s")),
        }
    }
}

/// The phase's number in a few characters: "6,881 MB/s", "966,310 IOPS", "142,310/s"; `None` if it has none.
pub(crate) fn headline(phase: &PhaseRecord) -> Option<String> {
    let measure = Measure::from_phase(phase);
    measure.text(measure.rate(phase)?)
}

/// Returns the two headline numbers of a run: throughput, then operations. Reads are preferred if there are any.
pub(crate) fn from_run(phases: &[PhaseRecord]) -> [Option<String>; 2] {
    let is_sequential = |phase: &PhaseRecord| phase.workload.pattern == Some(Access::Sequential);
    let is_read = |phase: &PhaseRecord| phase.name == "read";
    let named = |phase: &PhaseRecord| headline(phase).map(|number| format!("{} {number}", phase.name));
    let first = |wanted: &dyn Fn(&PhaseRecord) -> bool| phases.iter().filter(|p| wanted(p)).find_map(named);
    let throughput = first(&|p| is_sequential(p) && is_read(p)).or_else(|| first(&is_sequential));
    let random = |phase: &PhaseRecord| phase.workload.pattern == Some(Access::Random);
    let operations = first(&|p| random(p) && is_read(p))
        .or_else(|| first(&random))
        .or_else(|| first(&|p| Kind::from_phase(p) == Kind::Files));
    [throughput, operations]
}
