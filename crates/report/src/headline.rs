//! The one number that a test is known by.

use model::run::{PhaseRecord, Status};
use model::workload::Access;

use crate::numbers::{amount, megabytes};
use crate::text::Kind;

/// The phase's number in a few characters: "6,881 MB/s", "966,310 IOPS", "142,310/s"; `None` if it has none.
pub(crate) fn headline(phase: &PhaseRecord) -> Option<String> {
    if matches!(phase.status, Status::Skipped | Status::Failed) {
        return None;
    }
    match (phase.workload.pattern, Kind::of(phase)) {
        (Some(Access::Sequential), _) => megabytes(phase.rate.bytes_per_second?),
        (_, Kind::Data) => amount(phase.rate.ops_per_second?).map(|rate| format!("{rate} IOPS")),
        (_, Kind::Files) => amount(phase.rate.ops_per_second?).map(|rate| format!("{rate}/s")),
    }
}

/// The two numbers that a run is known by: throughput, then operations; reads stand for it if there are any.
pub(crate) fn of_run(phases: &[PhaseRecord]) -> [Option<String>; 2] {
    let is_sequential = |phase: &PhaseRecord| phase.workload.pattern == Some(Access::Sequential);
    let is_read = |phase: &PhaseRecord| phase.name == "read";
    let named = |phase: &PhaseRecord| headline(phase).map(|number| format!("{} {number}", phase.name));
    let first = |wanted: &dyn Fn(&PhaseRecord) -> bool| phases.iter().filter(|p| wanted(p)).find_map(named);
    let throughput = first(&|p| is_sequential(p) && is_read(p)).or_else(|| first(&is_sequential));
    let random = |phase: &PhaseRecord| phase.workload.pattern == Some(Access::Random);
    let operations = first(&|p| random(p) && is_read(p))
        .or_else(|| first(&random))
        .or_else(|| first(&|p| Kind::of(p) == Kind::Files));
    [throughput, operations]
}
