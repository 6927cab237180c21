//! Experiments after a test: the same load with one change, to find out how the rate depends on it.

use serde::{Deserialize, Serialize};

use crate::plan::{PlannedPhase, Stop};
use crate::size;
use crate::workload::{Arrival, CacheMode, Work};

/// A change of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// Four times as many operations in flight.
    #[default]
    Depth,
    /// One operation in flight.
    Single,
    /// Blocks of four times the size, or of a quarter where they are large.
    Block,
    /// A file or directory for each thread instead of one for all.
    Separate,
}

/// Approximate duration of one experiment, including the steps before and after it.
pub const EXPERIMENT_NS: u64 = 4_500_000_000;
/// Approximate duration of a return visit, including the steps before and after it.
pub const RETURN_VISIT_NS: u64 = 1_800_000_000;
/// Runs of an experiment: two without the change and two with it.
pub const RUNS: usize = 4;
/// Factor by which an experiment multiplies depth, threads or the block size.
pub const FACTOR: u32 = 4;
/// Blocks of at least this size become smaller instead of larger. Every size divides into quarters.
const LARGE_BYTES: u64 = 64 << 10;
/// Most operations in flight that an experiment asks of a target.
const IN_FLIGHT_MAX: u32 = 4096;
/// Most threads that an experiment uses; more of them mostly wait for each other.
const THREADS_MAX: u32 = 256;

/// Returns the test without a change, for a short run after all tests; `None` where another run would not be the same. It is a
/// closed loop, and ends with the time or after one pass.
///
/// An open loop is replaced by a closed one, which reaches the highest rate that the open loop could keep up with.
/// Buffered reads without a cache drop are excluded, except counted streams: they would read from the cache.
pub fn unchanged(phase: &PlannedPhase, cache: CacheMode) -> Option<PlannedPhase> {
    let is_stream = is_counted_stream(phase);
    if let Work::Data(data) = &phase.workload.work {
        let keeps = data.reads() && !data.direct && cache == CacheMode::AsIs && !is_stream;
        if data.verb.is_bytes() || keeps {
            return None;
        }
    }
    // A second pass would read from the page cache.
    let passes = phase.stop.passes.filter(|_| phase.stop.time_ns.is_some() || is_stream);
    let stop = Stop { time_ns: Some(u64::MAX), passes, bytes: phase.stop.bytes, ops: None };
    let workload = phase.workload.with_arrival(Arrival::Closed);
    Some(PlannedPhase { workload, stop, group: None, ..phase.clone() })
}

/// Returns true if a test reads sequentially through the page cache and ends by a count.
pub fn is_counted_stream(phase: &PlannedPhase) -> bool {
    phase.stop.time_ns.is_none()
        && phase.workload.data().is_some_and(|data| {
            data.is_stream() && !data.writes() && !data.verb.is_bytes() && data.zones.is_none()
        })
}

/// A test with one change.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The test.
    pub phase: PlannedPhase,
    /// The change in words: "q1t4", "16 KiB blocks".
    pub change: String,
    /// Factor of the change; 1 for separate files.
    pub factor: f64,
}

impl Experiment {
    /// All experiments, in the order in which they run.
    pub const ALL: &[Self] = &[Self::Depth, Self::Block, Self::Single, Self::Separate];

    /// Returns the test for this experiment on `phase`; `None` if the experiment does not apply.
    pub fn variant(self, phase: &PlannedPhase, cache: CacheMode) -> Option<Variant> {
        let mut changed = unchanged(phase, cache)?;
        let workload = &mut changed.workload;
        let (change, factor) = match self {
            Self::Single => {
                let in_flight = workload.in_flight();
                if in_flight == 1 {
                    return None;
                }
                (workload.iodepth, workload.threads) = (1, 1);
                ("q1t1".into(), f64::from(in_flight).recip())
            }
            Self::Depth => {
                if phase.engine.has_depth() {
                    workload.iodepth = workload.iodepth.checked_mul(FACTOR)?;
                } else {
                    workload.threads =
                        workload.threads.checked_mul(FACTOR).filter(|threads| *threads <= THREADS_MAX)?;
                }
                if workload.in_flight() > IN_FLIGHT_MAX {
                    return None;
                }
                (format!("q{}t{}", workload.iodepth, workload.threads), f64::from(FACTOR))
            }
            Self::Block => {
                let Work::Data(data) = &mut workload.work else { return None };
                let (from, factor) = (data.block_bytes, u64::from(FACTOR));
                data.block_bytes = if from >= LARGE_BYTES { from / factor } else { from * factor };
                // Read-ahead merges the blocks of a sequential test into larger ones. Few sizes are atomic.
                if data.is_stream() || data.atomic {
                    return None;
                }
                (
                    format!("blocks of {}", size::binary(data.block_bytes)),
                    data.block_bytes as f64 / from as f64,
                )
            }
            Self::Separate => {
                let is_one_for_all = match &mut workload.work {
                    Work::Data(data) => std::mem::replace(&mut data.shared, false),
                    Work::Files(files) => std::mem::replace(&mut files.shared, false),
                };
                if !is_one_for_all || workload.threads < 2 {
                    return None;
                }
                let what = if workload.data().is_some() { "a file" } else { "a directory" };
                (format!("{what} for each thread"), 1.0)
            }
        };
        changed.id = format!("{}~{}", phase.id, self.word());
        Some(Variant { phase: changed, change, factor })
    }

    /// Returns the experiment's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Single => "single",
            Self::Block => "block",
            Self::Separate => "sharing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Experiment;
    use crate::plan::fixtures::on_disk;
    use crate::spec;
    use crate::workload::CacheMode;

    fn changed(test: &str, experiment: Experiment) -> Option<(String, f64)> {
        let plan = on_disk(&[test]);
        let variant = experiment.variant(&plan.phases[0], CacheMode::Cold)?;
        Some((spec::print(&variant.phase.workload), variant.factor))
    }

    #[test]
    fn depth_experiment_multiplies_depth_or_threads() {
        assert_eq!(changed("read:rnd4k", Experiment::Depth), Some(("read:rnd4k:t4".into(), 4.0)));
        assert_eq!(changed("read:rnd4k:q8t2", Experiment::Depth), Some(("read:rnd4k:q32t2".into(), 4.0)));
        assert_eq!(changed("stat:t2", Experiment::Depth), Some(("stat:t8".into(), 4.0)));
        assert_eq!(changed("read:rnd4k:t128", Experiment::Depth), None);
    }

    #[test]
    fn single_experiment_needs_more_than_one_operation() {
        assert_eq!(changed("read:rnd4k:q8t2", Experiment::Single), Some(("read:rnd4k".into(), 1.0 / 16.0)));
        assert_eq!(changed("stat:t2", Experiment::Single), Some(("stat".into(), 0.5)));
        assert_eq!(changed("read:rnd4k", Experiment::Single), None);
    }

    #[test]
    fn block_experiment_shrinks_large_and_grows_small_blocks() {
        assert_eq!(changed("read:rnd4k", Experiment::Block), Some(("read:rnd16k".into(), 4.0)));
        assert_eq!(changed("read:seq1m", Experiment::Block), Some(("read:seq256k".into(), 0.25)));
        assert_eq!(changed("read:seq1m:buffered", Experiment::Block), None);
        assert_eq!(changed("stat", Experiment::Block), None);
    }

    #[test]
    fn separate_experiment_needs_several_sharing_threads() {
        assert_eq!(changed("stat:t4:shared", Experiment::Separate), Some(("stat:t4".into(), 1.0)));
        assert_eq!(changed("stat:t4", Experiment::Separate), None);
        assert_eq!(changed("read:rnd4k:t1:shared", Experiment::Separate), None);
    }

    #[test]
    fn counted_tests_get_no_experiments_and_rate_is_dropped() {
        for experiment in Experiment::ALL {
            assert_eq!(changed("byte-read", *experiment), None);
        }
        let open = changed("read:rnd4k:q2:rate=100", Experiment::Depth);
        assert_eq!(open, Some(("read:rnd4k:q8".into(), 4.0)));
        let plan =
            on_disk(&["read:rnd4k:ops=10", "read:rnd4k", "write:rnd4k", "stat", "discard", "byte-read"]);
        let may: Vec<_> = plan.phases.iter().map(|phase| plan.may_probe(phase)).collect();
        assert_eq!(may, [false, true, true, true, false, true]);
    }
}
