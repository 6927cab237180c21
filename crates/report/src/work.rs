//! The work of a test. Rates belong into one row or one series only if their work is the same.

use model::run::{PhaseRecord, WorkloadRecord};
use model::size;

use crate::numbers::thousands;

/// Everything that one operation and its company depend on, besides the target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Work {
    /// Clients that made the test together; 1 in a run of one process.
    pub clients: u32,
    /// Name of the engine. Its features are facts that may differ.
    pub engine: String,
    /// The test without the rate, which follows from the speed of a target. The size is 0 unless the user set it.
    workload: WorkloadRecord,
}

impl Work {
    /// Returns the work of a test. A size that calibration chose is no part of it.
    pub fn from_phase(phase: &PhaseRecord, size_is_fixed: bool) -> Self {
        let size_bytes = if size_is_fixed { phase.workload.size_bytes } else { 0 };
        Self {
            clients: phase.hosts.len().max(1) as u32,
            engine: phase.engine.name.clone(),
            workload: WorkloadRecord { size_bytes, rate_ops_per_second: None, ..phase.workload.clone() },
        }
    }

    /// Returns the same work, done with the engine and on the bytes of another.
    pub fn with_engine_and_size_of(&self, other: &Self) -> Self {
        let size_bytes = other.workload.size_bytes;
        let workload = WorkloadRecord { size_bytes, ..self.workload.clone() };
        Self { engine: other.engine.clone(), workload, ..self.clone() }
    }

    /// Returns the different properties of this work and of another in words: "1 client" and "4 clients". `None` if both are
    /// the same.
    pub fn difference(&self, other: &Self) -> Option<[String; 2]> {
        if self == other {
            return None;
        }
        let (one, two) = (self.words(), other.words());
        let differ: Vec<_> = one.into_iter().zip(two).filter(|(one, other)| one != other).collect();
        if differ.is_empty() {
            return Some(["some details".into(), "others".into()]);
        }
        let (one, two): (Vec<_>, Vec<_>) = differ.into_iter().unzip();
        Some([one.join(", "), two.join(", ")])
    }

    /// Each property in words, always in the same order.
    fn words(&self) -> [String; 12] {
        let WorkloadRecord { iodepth, threads, direct, sync, size_bytes, files, order, cache, .. } =
            &self.workload;
        let counted = |count: u64, noun: &str| {
            format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
        };
        let percent =
            |percent: Option<u8>, what: &str| format!("{} % of the data {what}", percent.unwrap_or(0));
        [
            counted(self.clients.into(), "client"),
            format!("engine {}", self.engine),
            counted((*threads).into(), "thread"),
            format!("depth {iodepth}"),
            if *direct == Some(true) { "direct" } else { "buffered" }.into(),
            format!("sync {sync}"),
            counted(*files, "file"),
            order.map_or("no order".into(), |order| format!("order {order}")),
            percent(self.workload.compress_percent, "compressible"),
            percent(self.workload.dedupe_percent, "repeated"),
            cache.map_or("no state of the cache".into(), |cache| format!("cache {cache}")),
            if *size_bytes == 0 {
                "size chosen by skye".into()
            } else {
                format!("{} of data", size::binary(*size_bytes))
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use model::workload::CacheMode;

    use super::*;
    use crate::sample;

    type Edit = fn(&mut PhaseRecord);

    fn difference(change: impl Fn(&mut PhaseRecord)) -> Option<[String; 2]> {
        let phase = sample::phase("read:rnd4k:q32t4");
        let mut other = phase.clone();
        change(&mut other);
        Work::from_phase(&phase, true).difference(&Work::from_phase(&other, true))
    }

    #[test]
    fn each_difference_of_work_has_words() {
        let cases: [(Edit, &str); 6] = [
            (|phase| phase.engine.name = "uring".into(), "engine sync against engine uring"),
            (|phase| phase.workload.threads = 1, "4 threads against 1 thread"),
            (|phase| phase.workload.direct = Some(false), "direct against buffered"),
            (|phase| phase.workload.files = 1000, "1 file against 1,000 files"),
            (|phase| phase.workload.size_bytes = 1 << 20, "4 GiB of data against 1 MiB of data"),
            (
                |phase| phase.workload.cache = Some(CacheMode::Warm),
                "no state of the cache against cache warm",
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(difference(change).unwrap().join(" against "), expected);
        }
        assert_eq!(difference(|phase| phase.workload.rate_ops_per_second = Some(1.0)), None);
        let details = difference(|phase| phase.workload.arrival = "open_loop_fixed".into());
        assert_eq!(details.unwrap()[0], "some details");
    }

    #[test]
    fn size_from_calibration_is_no_difference() {
        let phase = sample::phase("read:rnd4k:q32t4");
        let mut other = phase.clone();
        other.workload.size_bytes /= 2;
        assert_eq!(Work::from_phase(&phase, false), Work::from_phase(&other, false));
    }
}
