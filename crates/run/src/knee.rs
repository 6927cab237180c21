//! The knee of a sweep: the point beyond which more load buys more waiting than work.

use model::advice::Advice;
use model::figure::Share;
use model::finding::Finding;
use model::run::{Note, PhaseRecord, Status};

/// Beyond the knee of a closed loop, no point has more than this many times its throughput.
const THROUGHPUT_RATIO_MAX: f64 = 1.15;

/// Returns the knee of a sweep: its place in `records`, and the note for that row. The knee is the point with
/// the highest power, which is throughput over latency. On a queue with one server it lies at half of the
/// capacity. On a device that serves n requests at once, it lies at depth n.
///
/// Source: Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
/// communications", 1979.
///
/// Returns `None` if fewer than three points were measured.
pub fn knee(records: &[&PhaseRecord]) -> Option<(usize, Note)> {
    let points: Vec<_> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| {
            matches!(record.status, Status::Done | Status::Partial) && !lacks_clients(record)
        })
        .filter_map(|(index, record)| Some((index, throughput(record)?, latency_ns(record)?)))
        .collect();
    // A closed loop at the head of a sweep over rates only gives the rate that the others are shares of.
    let is_open = |index: usize| records[index].workload.arrival != "closed_loop";
    let has_open = points.iter().any(|(index, ..)| is_open(*index));
    let points: Vec<_> = points.into_iter().filter(|(index, ..)| !has_open || is_open(*index)).collect();
    if points.len() < 3 {
        return None;
    }
    let power = |(_, throughput_share, latency_share): &(usize, f64, f64)| throughput_share / latency_share;
    let most = points.iter().map(|(_, throughput_share, _)| *throughput_share).fold(0.0, f64::max);
    // A depth that brings clearly more throughput is no mere waiting. In an open loop, throughput follows the
    // requested rate.
    let is_candidate = |point: &&(usize, f64, f64)| has_open || point.1 * THROUGHPUT_RATIO_MAX >= most;
    let best = points.iter().filter(is_candidate).max_by(|a, b| power(a).total_cmp(&power(b)))?;
    let (index, throughput_share, latency_share) = *best;
    let slowest = points.iter().map(|(_, _, latency_share)| *latency_share).fold(0.0, f64::max);
    let note = if Some(index) == points.last().map(|(index, ..)| *index) {
        Note::new(Finding::NoKnee {}, vec![Advice::SweepFurther {}])
    } else {
        let (throughput_share, latency_share) =
            (Share(throughput_share / most), Share(latency_share / slowest));
        Note::new(Finding::Knee { throughput_share, latency_share }, Vec::new())
    };
    Some((index, note))
}

/// Returns true if clients were lost: the rate is that of another point.
fn lacks_clients(record: &PhaseRecord) -> bool {
    record.figures.together.as_ref().is_some_and(|together| together.clients < together.clients_planned)
}

/// Returns bytes per second if operations move bytes, because the sweep may be over block sizes.
fn throughput(record: &PhaseRecord) -> Option<f64> {
    record.figures.rate.bytes_per_second.or(record.figures.rate.ops_per_second).filter(|rate| *rate > 0.0)
}

/// Returns the mean latency; by Little's law if single operations were not timed.
fn latency_ns(record: &PhaseRecord) -> Option<f64> {
    let in_flight = f64::from(record.workload.threads) * f64::from(record.workload.iodepth);
    let little = || record.figures.rate.overall_ops_per_second.map(|rate| in_flight * 1e9 / rate);
    record
        .figures
        .latency_ns
        .as_ref()
        .map(|latency| latency.mean as f64)
        .or_else(little)
        .filter(|mean| *mean > 0.0)
}
