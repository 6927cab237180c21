//! The unit of a test's rate.

use model::run::PhaseRecord;
use model::workload::Access;

use crate::numbers::{amount, megabytes};
use crate::text::Kind;

/// Unit of a test's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    /// 10^6 bytes per second, for sequential tests.
    Megabytes,
    /// Operations per second on data.
    Iops,
    /// Operations per second on files.
    Operations,
}

impl Unit {
    /// Returns the unit of a test.
    pub(crate) fn from_phase(phase: &PhaseRecord) -> Self {
        match (phase.workload.pattern, Kind::from_phase(phase)) {
            (Some(Access::Sequential), _) if phase.figures.rate.bytes_per_second.is_some() => Self::Megabytes,
            (_, Kind::Data) => Self::Iops,
            (_, Kind::Files) => Self::Operations,
        }
    }

    /// Name of the unit on an axis.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Megabytes => "MB/s",
            Self::Iops => "IOPS",
            Self::Operations => "operations/s",
        }
    }

    /// Returns the rate on the axis of work done in `ns` nanoseconds; `None` if no time passed.
    pub(crate) fn rate(self, ops: u64, bytes: u64, ns: u64) -> Option<f64> {
        let done = if self == Self::Megabytes { bytes as f64 / 1e6 } else { ops as f64 };
        (ns > 0).then(|| done / (ns as f64 / 1e9))
    }

    /// Converts operations per second of a test to a rate on the axis.
    pub(crate) fn rate_from_ops(self, phase: &PhaseRecord, ops_per_second: f64) -> f64 {
        match self {
            Self::Megabytes if phase.counts.ops > 0 => {
                ops_per_second * (phase.counts.bytes as f64 / phase.counts.ops as f64) / 1e6
            }
            _ => ops_per_second,
        }
    }

    /// Returns the headline rate of a test on the axis.
    pub(crate) fn headline(self, phase: &PhaseRecord) -> Option<f64> {
        let rate = match self {
            Self::Megabytes => phase.figures.rate.bytes_per_second.map(|rate| rate / 1e6),
            _ => phase.figures.rate.ops_per_second,
        };
        rate.filter(|rate| rate.is_finite())
    }

    /// Formats a rate of the axis: "6,881 MB/s", "966,310 IOPS", "142,310/s".
    pub(crate) fn format_rate(self, rate: f64) -> String {
        let text = match self {
            Self::Megabytes => megabytes(rate * 1e6),
            Self::Iops => amount(rate).map(|rate| format!("{rate} IOPS")),
            Self::Operations => amount(rate).map(|rate| format!("{rate}/s")),
        };
        text.unwrap_or_else(|| crate::numbers::MISSING.into())
    }
}
