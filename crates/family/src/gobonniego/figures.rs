//! The numbers of one run, from the measured tests.

use model::run::{PhaseRecord, Status};

use super::{Line, LineContent, RunResult};

/// One of the three tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Sequential write.
    Write,
    /// Sequential read.
    Read,
    /// Reads and writes of 512 bytes at random places.
    Iops,
}

impl Test {
    /// All tests, in their order.
    pub const ALL: [Self; 3] = [Self::Write, Self::Read, Self::Iops];

    /// Name of the test in results.
    pub fn title(self) -> &'static str {
        match self {
            Self::Write => "Sequential Write",
            Self::Read => "Sequential Read",
            Self::Iops => "IOPS",
        }
    }
}

/// Result of one test: bytes, or operations of the IOPS test, and the time from the first start to the last end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestTotals {
    amount: u64,
    elapsed_ns: u64,
}

impl TestTotals {
    fn from_phase(test: Test, phase: &PhaseRecord) -> Self {
        let amount = if test == Test::Iops { phase.counts.ops } else { phase.counts.bytes };
        Self { amount, elapsed_ns: phase.counts.elapsed_ns }
    }

    fn seconds(self) -> f64 {
        self.elapsed_ns as f64 / 1e9
    }

    /// Amount per second; zero if no time has passed.
    fn per_second(self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.amount as f64 * 1e9 / self.elapsed_ns as f64 }
    }
}

/// The numbers of a run: all that its results need, and nothing that grows with its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    write: TestTotals,
    read: TestTotals,
    iops: TestTotals,
}

impl Figures {
    /// Returns the numbers of a run, or `None` unless all of its three tests finished.
    pub fn from_phases(phases: &[PhaseRecord]) -> Option<Self> {
        let [write, read, iops] = phases else { return None };
        let all_done = phases.iter().all(|phase| phase.status == Status::Done);
        all_done.then(|| Self {
            write: TestTotals::from_phase(Test::Write, write),
            read: TestTotals::from_phase(Test::Read, read),
            iops: TestTotals::from_phase(Test::Iops, iops),
        })
    }

    /// Converts the run to the original's JSON; `start_time` is RFC 3339 with nanoseconds.
    pub fn to_result(self, start_time: String) -> RunResult {
        RunResult {
            write_megabytes_per_second: Some(self.write.per_second() / 1e6),
            read_megabytes_per_second: Some(self.read.per_second() / 1e6),
            iops: Some(self.iops.per_second()),
            write_seconds: Some(self.write.seconds()),
            read_seconds: Some(self.read.seconds()),
            io_seconds: Some(self.iops.seconds()),
            start_time: Some(start_time),
            write_bytes: Some(self.write.amount),
            read_bytes: Some(self.read.amount),
            io_operations: Some(self.iops.amount),
        }
    }

    /// Messages of the original with `-v` when a test is over.
    pub fn details(test: Test, phase: &PhaseRecord) -> Vec<LineContent> {
        let moved = TestTotals::from_phase(test, phase);
        let (mib, mb) = (moved.amount >> 20, moved.amount as f64 / 1e6);
        let amounts = match test {
            Test::Write => vec![LineContent::WrittenMib(mib), LineContent::WrittenMb(mb)],
            Test::Read => vec![LineContent::ReadMib(mib), LineContent::ReadMb(mb)],
            Test::Iops => vec![LineContent::Operations(moved.amount)],
        };
        amounts.into_iter().chain([LineContent::Seconds(moved.seconds())]).collect()
    }

    /// The line of text at the end of a test.
    pub fn line(test: Test, phase: &PhaseRecord) -> Line {
        let rate = TestTotals::from_phase(test, phase).per_second();
        match test {
            Test::Write => Line::WriteMbPerSecond(rate / 1e6),
            Test::Read => Line::ReadMbPerSecond(rate / 1e6),
            Test::Iops => Line::Iops(rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_amount_divided_by_elapsed_time() {
        let figures = Figures {
            write: TestTotals { amount: 1_073_741_824, elapsed_ns: 269_448_024 },
            read: TestTotals { amount: 1_073_741_824, elapsed_ns: 126_638_466 },
            iops: TestTotals { amount: 579_299, elapsed_ns: 2_025_339_827 },
        };
        let result = figures.to_result("2026-11-21T01:22:25.477304958Z".into());
        // A result of the original, from its bytes and times.
        for (ours, theirs) in [
            (result.write_megabytes_per_second, 3_984.968_262_376_272),
            (result.read_megabytes_per_second, 8_478.796_829_393_053),
            (result.iops, 286_025.580_634_572_7),
        ] {
            assert!((ours.unwrap() / theirs - 1.0).abs() < 1e-12, "{ours:?} {theirs}");
        }
        assert_eq!((result.write_seconds, result.io_operations), (Some(0.269448024), Some(579_299)));
    }

    #[test]
    fn zero_elapsed_time_gives_zero_rate() {
        assert_eq!(TestTotals { amount: 5, elapsed_ns: 0 }.per_second(), 0.0);
        assert_eq!(Figures::from_phases(&[]), None);
    }
}
