//! The clients of a run, one by one.

use model::numbers::{amount, latency};
use model::run::{ClientShare, PhaseRecord};
use model::workload::Access;

use super::style::Style;
use crate::printable;

/// Columns of a client's name, its rate and its latency.
const NAME_WIDTH: usize = 16;
const RATE_WIDTH: usize = 12;
const LATENCY_WIDTH: usize = 9;

/// Lists the rate, the p99 and the limiter of each client, by tests; empty in a run without clients.
pub(super) fn each(phases: &[PhaseRecord], style: &Style) -> String {
    let blocks: Vec<_> = phases.iter().filter(|phase| !phase.hosts.is_empty()).map(row_lines).collect();
    style.finish(blocks.join("\n"))
}

fn row_lines(phase: &PhaseRecord) -> String {
    let by_bytes = phase.workload.pattern == Some(Access::Sequential);
    let mut lines = vec![format!("  {} {}", phase.name, printable(&phase.label))];
    lines.extend(phase.hosts.iter().map(|share| client_line(share, by_bytes)));
    lines.join("\n")
}

fn client_line(share: &ClientShare, by_bytes: bool) -> String {
    let megabytes =
        || share.rate.bytes_per_second.and_then(|rate| Some(format!("{} MB/s", amount(rate / 1e6)?)));
    let ops = || share.rate.ops_per_second.and_then(|rate| Some(format!("{}/s", amount(rate)?)));
    let rate = if by_bytes { megabytes() } else { ops() };
    let p99 = share.latency_ns.as_ref().and_then(|of| of.p99).map(latency);
    let limiter = share.judged.verdict.as_ref().and_then(|verdict| verdict.limiter);
    format!(
        "    {:<NAME_WIDTH$}{:>RATE_WIDTH$}  p99 {:>LATENCY_WIDTH$}  {}",
        printable(&share.name),
        rate.unwrap_or_else(|| "–".into()),
        p99.unwrap_or_else(|| "–".into()),
        limiter.map_or("not known", |limiter| limiter.title()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_client_has_a_line() {
        let mut sum = sample::phase("read:rnd4k:q32");
        sum.hosts = vec![sample::client("ada", &sum), sample::client("b\u{1b}b", &sum)];
        sum.hosts[1].rate.ops_per_second = None;
        sum.hosts[1].judged.verdict = None;
        insta::assert_snapshot!(sample::plain(&each(&[sample::phase("read"), sum], &sample::WIDE)));
    }
}
