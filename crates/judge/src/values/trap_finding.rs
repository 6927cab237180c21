//! A finding of a trap, with its advice.

use model::advice::Advice;
use model::finding::Finding;
use model::workload::DataWork;

/// A finding of a trap about a row.
#[derive(Debug, Clone, PartialEq)]
pub struct TrapFinding {
    /// The finding.
    pub finding: Finding,
    /// Advice about it.
    pub advice: Vec<Advice>,
}

impl TrapFinding {
    pub(crate) fn new(finding: Finding, advice: impl IntoIterator<Item = Advice>) -> Self {
        Self { finding, advice: advice.into_iter().collect() }
    }

    /// Adds the advice to use direct I/O, except for single bytes, which go through the page cache in any case.
    pub(crate) fn or_direct(mut self, data: &DataWork) -> Self {
        self.advice.extend((!data.verb.is_bytes()).then_some(Advice::OrDirect {}));
        self
    }
}

impl From<Finding> for TrapFinding {
    fn from(finding: Finding) -> Self {
        Self::new(finding, [])
    }
}
